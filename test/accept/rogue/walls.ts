// Attempts to get out of the container, each through the product's own exec.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { chmodSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { root } from "../../gateway.ts";
import type { Ground } from "./ground.ts";

/** Busybox inside; each says GOT when it succeeds. */
const ATTEMPTS: Readonly<Record<string, string>> = {
  "write the root file system": "touch /new || echo x >>/bin/busybox || mkdir /etc/x",
  "write /beige":
    "touch /beige/x || echo x >/beige/tool-client || mv /beige/gateway.sock /beige/y || rm /beige/gateway.sock || ln -s /x /beige/z",
  "write /tools":
    "touch /tools/bin/x || ln -sf /bin/sh /tools/bin/memory || rm /tools/bin/memory || touch /tools/packages/x || mkdir /tools/y",
  mount:
    "busybox mount -t tmpfs none /tmp || busybox mount --bind /workspace /beige || busybox mount -t proc none /tmp || busybox mount -o remount,rw /",
  unmount: "busybox umount /workspace || busybox umount -l /beige",
  "change its root": "chroot /workspace /bin/sh -c true || pivot_root . .",
  "make namespaces": "unshare -U true || unshare -m true || unshare -n true || unshare -p true",
  "enter namespaces": "nsenter -t 1 -m true || nsenter -t 1 -n true || nsenter -t 1 -p true",
  "write /proc/sys":
    "echo 1 >/proc/sys/kernel/panic || echo '|/workspace/x' >/proc/sys/kernel/core_pattern || echo b >/proc/sysrq-trigger || sysctl -w kernel.panic=1",
  "write /sys":
    "echo /workspace/x >/sys/kernel/uevent_helper || mkdir /sys/fs/cgroup/memory/x || echo 1 >/sys/fs/cgroup/memory/memory.limit_in_bytes || echo 1 >/sys/fs/cgroup/memory/release_agent",
  "become another user": "busybox su -c id || setpriv --reuid=0 true || setpriv --regid=0 true",
  "get a capability":
    "setpriv --ambient-caps +sys_admin grep -E 'Cap(Prm|Eff|Amb):.*[1-9a-f]' /proc/self/status || setpriv --inh-caps +net_raw true",
  "run a setuid copy": "cp /bin/busybox /workspace/bb && chmod 4755 /workspace/bb && chown 0:0 /workspace/bb",
  "make a device": "mknod /workspace/d b 8 0 || mknod /tmp/d c 1 1",
  "look into PID 1": "cat /proc/1/environ || cat /proc/1/mem || ls /proc/1/fd || ls /proc/1/root/ || readlink /proc/1/exe",
  "end PID 1": "kill -9 1; kill -TERM 1; kill -STOP 1; sleep 0.3; ! kill -0 1",
  "raise its limits": "ulimit -n 100000 || echo -900 >/proc/self/oom_score_adj",
  "load code into the kernel": "insmod /workspace/x.ko || modprobe dummy || dmesg | grep -q .",
  "set clock or name": "hostname evil || { date -s 2001-01-01; [ $(date +%Y) = 2001 ]; }",
  reboot: "reboot -f || poweroff -f",
  "find a route":
    "[ $(wc -l </proc/net/route) -gt 1 ] || ip route | grep -q . || grep -v ' lo$' /proc/net/if_inet6 || ls /sys/class/net | grep -v '^lo$'",
  "add a network": "ip link add x type dummy || ip addr add 10.1.1.1/8 dev lo || ip route add default dev lo",
  "reach an address": "nc -w 1 172.17.0.1 22 </dev/null || nc -w 1 169.254.169.254 80 </dev/null || nc -w 1 8.8.8.8 53 </dev/null",
  "resolve a name": "nslookup example.com || getent hosts example.com || wget -T 2 -q -O- http://example.com",
  "send raw packets":
    "ping -c 1 -W 1 127.0.0.1 2>&1 | grep -q 'bytes from 1' && ping -c 1 -W 1 172.17.0.1 || arping -c 1 -I lo 127.0.0.1 || traceroute -I 127.0.0.1",
  "see other processes": "[ $(ls -d /proc/[0-9]* | wc -l) -gt 8 ] || grep -ls dockerd /proc/[0-9]*/comm",
  "find the engine": "ls /var/run/docker.sock /run/docker.sock /run/containerd",
  "read the host's disk":
    "ls /dev | grep -E '^(sd|vd|nvme|xvd|mem|kmsg|disk)' || cat /proc/kcore | head -c 1 | grep -q . || head -c 10 /dev/mem",
};

/** Descriptors that a runtime forgot to close lead to the host's folders. */
async function leakedDescriptors(ground: Ground): Promise<void> {
  for (let fd = 3; fd < 24; fd += 1) {
    for (const up of ["", "/../../../../.."]) {
      const { status, body } = await ground.gateway.request("POST", "/api/agents/eve/exec", {
        command: "pwd; ls /proc/self/cwd/ | head -n 50; cat etc/hostname",
        cwd: `/proc/self/fd/${fd}${up}`,
      });
      if (status !== 200 || body.exitCode !== 0) continue;
      assert.ok(!/home\n[^]*root\n[^]*srv/.test(body.content[0].text), `descriptor ${fd} leads to the host: ${body.content[0].text}`);
    }
  }
}

/** What no shell can try. */
async function systemCalls(ground: Ground): Promise<string> {
  const to = join(ground.workspace("eve"), "probe");
  const built = spawnSync("musl-gcc", ["-static", "-o", to, join(root, "test/docker/probe.c")], { encoding: "utf8" });
  if (built.error !== undefined) return "without a compiler no system calls by hand";
  chmodSync(to, 0o755);
  const ran = await ground.exec("eve", "/workspace/probe");
  assert.match(ran.text, /\nend\n$/, "the probe ran to its end");
  assert.doesNotMatch(ran.text, /GOT/, "a system call succeeded that must not");
  return "every system call of the probe refused";
}

/** The host's name servers are its own business. */
async function resolver(ground: Ground): Promise<void> {
  const inside = (await ground.exec("eve", "cat /etc/resolv.conf; cat /etc/hosts")).text;
  const servers = [...readFileSync("/etc/resolv.conf", "utf8").matchAll(/^\s*(?:nameserver|search|domain)\s+(\S+)/gm)].map(
    (match) => match[1] ?? "",
  );
  for (const server of servers) assert.ok(!inside.includes(server), `the host's resolver ${server} is known inside: ${inside}`);
}

export async function walls(ground: Ground): Promise<string> {
  for (const [what, script] of Object.entries(ATTEMPTS)) {
    const { text } = await ground.exec("eve", `{ ${script}; } >/tmp/out 2>&1 && { echo GOT; head -c 400 /tmp/out; } || echo refused`, 20);
    assert.equal(text, "refused\n", `eve could ${what}`);
  }
  const { text: status } = await ground.exec(
    "eve",
    "grep -E '^(Cap(Prm|Eff|Bnd|Amb)|NoNewPrivs|Seccomp):' /proc/self/status | tr -s '\\t ' ' '; id -u",
  );
  const none = "0000000000000000";
  assert.match(status, new RegExp(`CapPrm: ${none}\nCapEff: ${none}\nCapBnd: ${none}\nCapAmb: ${none}\nNoNewPrivs: 1\nSeccomp: 2\n`));
  assert.ok(Number(status.trim().split("\n").at(-1)) >= 20_000, "it is a user of its own");
  await resolver(ground);
  await leakedDescriptors(ground);
  const calls = await systemCalls(ground);
  return `${Object.keys(ATTEMPTS).length} ways out refused, ${calls}`;
}
