import { expect, test } from "vitest";
import { BeigeError } from "../../src/core/errors.ts";
import { id, image, info, inspected, listed } from "./answer.ts";

const box = {
  Id: "c1",
  Name: "/beige-a",
  Image: "sha256:1",
  State: { Status: "running", Running: true, StartedAt: "2026-01-01T00:00:00Z" },
  HostConfig: {},
  Mounts: [{ Type: "bind", Source: "/a", Destination: "/b", RW: true }],
  Config: { User: "1:1", Image: "i", Env: null, Cmd: ["init"], Labels: null },
};
const JUNK: readonly unknown[] = [
  undefined,
  null,
  "",
  "<html>login</html>",
  '[{"Id":"abc',
  0,
  true,
  Buffer.from("[]"),
  [[]],
  [null],
  { message: "no" },
];

test("what docker says passes as it is, with nulls for what is empty", () => {
  expect(inspected(box, "c1")).toBe(box);
  expect(listed([])).toStrictEqual([]);
  expect(listed([{ Id: "c", State: "created", Names: null, Labels: null }])).toHaveLength(1);
  expect(image({ Id: "sha256:1", Config: null })).toMatchObject({ Id: "sha256:1" });
  expect(info({ ServerVersion: "20.10" })).toMatchObject({ ServerVersion: "20.10" });
});

test.each(Object.entries({ id, image, info, listed, inspected: (raw: unknown) => inspected(raw, "c1") }))(
  "junk in the place of %s is an engine that does not answer",
  (_name, read) => {
    for (const junk of JUNK) {
      let thrown: unknown;
      try {
        read(junk);
      } catch (error) {
        thrown = error;
      }
      expect(thrown, JSON.stringify(junk)).toBeInstanceOf(BeigeError);
      expect((thrown as BeigeError).code).toBe("unavailable");
    }
  },
);

test.each<[string, object]>([
  ["id", { Id: undefined }],
  ["state", { State: null }],
  ["state's word", { State: { Status: "", Running: true, StartedAt: "" } }],
  ["configuration", { Config: "x" }],
  ["variables", { Config: { ...box.Config, Env: [1] } }],
  ["labels", { Config: { ...box.Config, Labels: [] } }],
  ["limits", { HostConfig: null }],
  ["mounts", { Mounts: [null] }],
])("a container without its %s is nothing that a plan is made of", (_name, change) => {
  expect(() => inspected({ ...box, ...change }, "c1")).toThrow(BeigeError);
});

test("what is said of another container than the one that was asked for is nothing that a plan is made of", () => {
  const other = { ...box, Id: "c2f".padEnd(64, "0"), Name: "/beige-a2" };
  for (const asked of ["c2", other.Id, "beige-a2"]) expect(inspected(other, asked)).toBe(other);
  for (const asked of ["c1", "beige-a", "beige-a22", "/beige-a3", "c20"]) {
    expect(() => inspected(other, asked)).toThrow(expect.objectContaining({ code: "unavailable" }) as Error);
  }
});

test("one odd entry makes the whole listing odd: a shorter one would read as containers that are gone", () => {
  const good = { Id: "c", State: "running", Names: ["/a"], Labels: { a: "b" } };
  expect(listed([good])).toHaveLength(1);
  for (const bad of [null, {}, { ...good, Labels: 5 }, { ...good, Id: 5 }]) expect(() => listed([good, bad])).toThrow(BeigeError);
});
