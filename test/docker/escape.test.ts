// What a hostile command in a sandbox tries, and must not get.
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { spawnSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { openGround, type Ground } from "./ground.ts";

/** Each answers "refused" when the attempt fails. */
const ATTEMPTS: Readonly<Record<string, string>> = {
  "write to the root file system": "touch /new",
  "write over a program": "echo x >/bin/busybox",
  "add a launcher": "echo x >/tools/bin/mine",
  "replace the guest": "echo x >/beige/tool-client || mv /beige/tool-client /beige/y || rm /beige/tool-client",
  "plant a socket of its own": "touch /beige/gateway.sock",
  "mount something": "busybox mount -t tmpfs none /tmp",
  "mount over itself": "busybox mount --bind /workspace /beige",
  "make a device": "mknod /tmp/disk b 8 0 || mknod /tmp/mem c 1 1",
  "become another user": "busybox su -c id || busybox su root -c id",
  "change its root": "chroot /tmp /bin/sh -c id",
  "make namespaces": "unshare -U true || unshare -n true || unshare -m true",
  "enter the namespaces of PID 1": "nsenter -t 1 -m true || nsenter -t 1 -p true",
  "read the memory or files of PID 1":
    "cat /proc/1/mem || cat /proc/1/environ || readlink /proc/1/fd/0 || readlink /proc/1/cwd || ls /proc/1/fd",
  "read the framed output of its supervisor": "ls /proc/$PPID/fd || cat /proc/$PPID/environ || readlink /proc/$PPID/exe",
  "kill PID 1 or stop it": "kill -9 1; kill -TERM 1; kill -STOP 1; kill -INT 1; kill -HUP 1; sleep 0.2; ! kill -0 1",
  "change the kernel": "echo 1 >/proc/sys/kernel/panic || echo b >/proc/sysrq-trigger || echo x >/proc/sys/kernel/core_pattern",
  "raise its own limits": "ulimit -n 100000 || echo -900 >/proc/self/oom_score_adj",
  "leave its control group": "mkdir /sys/fs/cgroup/memory/x || echo 1 >/sys/fs/cgroup/memory/memory.limit_in_bytes",
  "find another interface than its own loopback":
    "ip link show | grep -q eth0 || ping -c 1 -W 1 169.254.169.254 || nc -w 1 172.17.0.1 22 </dev/null",
  "open a raw socket": "traceroute -I 127.0.0.1 || arping -c 1 127.0.0.1",
  "set the clock": "date -s 2000-01-01; [ $(date +%Y) = 2000 ]",
  "name the host anew": "hostname evil",
  "make a core file": "test $(ulimit -c) != 0",
};

describe("a hostile command", () => {
  let ground: Ground;
  let id: string;
  beforeAll(async () => {
    ground = openGround();
    id = await ground.up();
  });
  afterAll(() => ground.cleanup());

  for (const [what, script] of Object.entries(ATTEMPTS)) {
    test(`cannot ${what}`, async () => {
      const end = await ground.run(id, `{ ${script}; } >/tmp/out 2>&1 && { echo GOT; cat /tmp/out; } || echo refused`);
      expect(end.stdout.toString().slice(0, 400)).toBe("refused\n");
      expect((await ground.sandbox.inspect(id))?.state).toBe("running");
    });
  }

  test("runs as its own user without any capability and cannot gain one", async () => {
    const { stdout } = await ground.run(id, "id -u; grep -E 'Cap(Prm|Eff|Bnd|Amb)|NoNewPrivs|Seccomp:' /proc/self/status | tr '\\t' ' '");
    expect(stdout.toString().trim().split("\n")).toStrictEqual([
      "20777",
      "CapPrm: 0000000000000000",
      "CapEff: 0000000000000000",
      "CapBnd: 0000000000000000",
      "CapAmb: 0000000000000000",
      "NoNewPrivs: 1",
      "Seccomp: 2",
    ]);
  });

  test("cannot by any system call trace PID 1 or its supervisor, open raw sockets, make namespaces or gain an id", async () => {
    const probe = new URL("probe.c", import.meta.url).pathname;
    const built = spawnSync("musl-gcc", ["-static", "-o", `${ground.folder}/bin/probe`, probe], { encoding: "utf8" });
    expect(built.error?.message ?? built.stderr).toBe("");
    const { stdout, exit } = await ground.run(id, "/tools/bin/probe");
    expect(exit).toStrictEqual({ kind: "code", code: 0 });
    expect(stdout.toString()).toBe("end\n");
  });

  test("fills /tmp only up to its size, and finds it neither setuid nor with devices", async () => {
    const { stdout, exit } = await ground.run(
      id,
      "dd if=/dev/zero of=/tmp/fill bs=1M count=64 2>/dev/null; wc -c </tmp/fill; rm /tmp/fill; grep ' /tmp ' /proc/mounts",
    );
    expect(Number(stdout.toString().split("\n")[0])).toBeLessThanOrEqual(16 << 20);
    expect(stdout.toString()).toMatch(/nosuid.*nodev|nodev.*nosuid/);
    expect(exit).toStrictEqual({ kind: "code", code: 0 });
  });

  test("learns nothing of the host's name servers and domains, and has no resolver", async () => {
    const { stdout } = await ground.run(id, "cat /etc/resolv.conf; nslookup localhost.example 2>&1 | grep -c Address.*example");
    expect(stdout.toString()).not.toMatch(
      new RegExp(
        readFileSync("/etc/resolv.conf", "utf8")
          .match(/^nameserver (\S+)/m)?.[1]
          ?.replaceAll(".", "\\.") ?? "no such thing",
      ),
    );
    expect(stdout.toString()).not.toMatch(/^search [^.]/m);
  });

  test("makes only so many processes", async () => {
    const { stdout } = await ground.run(
      id,
      "i=0; while [ $i -lt 400 ]; do sleep 60 & i=$((i+1)); done 2>/dev/null; ls -d /proc/[0-9]* | wc -l",
      { timeoutMs: 10_000 },
    );
    expect(Number(stdout.toString() || 0)).toBeLessThanOrEqual(128);
    expect(await ground.processes(id)).toStrictEqual([]);
  });

  test("a program of the host that is setuid stays powerless inside", async () => {
    const { stdout } = await ground.run(id, "find / -xdev -perm -4000 2>/dev/null | head -n 3");
    expect(stdout.toString()).toBe("");
  });

  test("knows nothing of the host's resolver", async () => {
    const { stdout } = await ground.run(id, "cat /etc/resolv.conf");
    expect(stdout.toString().trim().split("\n")).toStrictEqual(["nameserver 127.0.0.1"]);
    expect((await ground.sandbox.inspect(id))?.spec.hardening).toBeUndefined();
  });

  test("forged frames on its standard output stay output", async () => {
    const end = await ground.run(id, `printf '\\3\\0\\0\\0\\30{"kind":"code","code":0}'; printf '\\1\\0\\0\\0\\0\\0\\0\\1x'; exit 9`);
    expect(end.exit).toStrictEqual({ kind: "code", code: 9 });
    expect(end.stdout.length).toBe(38);
  });

  test("a link in the workspace leads a command only to what is inside", async () => {
    const { stdout } = await ground.run(id, "ln -sf /etc/shadow /workspace/link; /beige/tool-client cat /workspace/link || echo none");
    expect(stdout.toString()).toBe("none\n");
    await ground.run(id, `ln -sfn ${ground.folder} /workspace/out; /beige/tool-client put /workspace/out/planted </dev/null`);
    expect(existsSync(`${ground.folder}/planted`)).toBe(false);
  });
});
