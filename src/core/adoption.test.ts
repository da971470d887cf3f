import { expect, test } from "vitest";
import { ADOPT, adoptionOf, adoptText } from "./adoption.ts";

const [STORE, UID] = ["0f0e0d0c-0b0a-4908-8706-050403020100", "a1b2c3d4-e5f6-4708-890a-0b0c0d0e0f10"];
const read = (text: string) => adoptionOf({ annotations: { [ADOPT]: text } });

test("an adoption names a lost store's container by its labels, or a stranger's container by its name", () => {
  expect(read(adoptText(STORE, UID))).toEqual({ kind: "lost", store: STORE, uid: UID });
  expect(read("old_box.1")).toEqual({ kind: "foreign", container: "old_box.1" });
  expect(adoptionOf({})).toBeUndefined();
});

test.each(["", "a/b", `${STORE}/../../etc`, `${STORE}/${UID}/x`, "../x", "-x", "x y", `${STORE}/${UID.toUpperCase()}`, "x".repeat(200)])(
  "%j names nothing",
  (text) => {
    expect(read(text)).toBeUndefined();
  },
);
