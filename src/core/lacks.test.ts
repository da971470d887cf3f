import { expect, test } from "vitest";
import { engineLacks } from "./lacks.ts";

test("what a host cannot give is what its engine does not name or says it has not", () => {
  expect(engineLacks({})).toEqual(["AppArmor or SELinux", "seccomp", "user namespaces", "live-restore"]);
  const whole = ["name=apparmor", "name=seccomp,profile=builtin", "name=userns"];
  expect(engineLacks({ SecurityOptions: whole, LiveRestoreEnabled: true })).toEqual([]);
  expect(engineLacks({ SecurityOptions: ["name=selinux", "name=seccomp", "name=rootless"], LiveRestoreEnabled: true })).toEqual([]);
  expect(engineLacks({ SecurityOptions: whole, LiveRestoreEnabled: true, SwapLimit: false, PidsLimit: false })).toEqual([
    "swap limit",
    "process limit",
  ]);
});
