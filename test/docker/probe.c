/* Tries what no shell command can try. A line for each: what, the call's name, its error as a number, or GOT when it was not refused.
 *   probe say PATH | probe datagram ADDRESS PORT      what a shell has no program for */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

static void tried(const char *what, const char *call, long result) {
  if (result >= 0) printf("%s\t%s\tGOT\n", what, call);
  else printf("%s\t%s\t%d\n", what, call, errno);
  fflush(stdout);
}

/* The rest of the arguments is nothing. */
#define CALL(what, name, ...) tried(what, #name, syscall(SYS_##name, __VA_ARGS__))
#define NEWER(what, name, number, ...) tried(what, #name, syscall(number, __VA_ARGS__))

static char room[4096] __attribute__((aligned(64)));

static void descriptors(const char *what, int pid) {
  long fd = syscall(434 /* pidfd_open */, pid, 0), got = -1;
  errno = ESRCH;
  for (int i = 0; fd >= 0 && got < 0 && i < 8; i++) got = syscall(438 /* pidfd_getfd */, fd, i, 0);
  tried(what, "pidfd_getfd", got);
}

static void memory(const char *what, int pid) {
  char byte;
  struct iovec here = {&byte, 1}, there = {(void *)0x400000, 1};
  tried(what, "process_vm_readv", process_vm_readv(pid, &here, 1, &there, 1, 0));
}

#ifdef __x86_64__
static long by_32_bit(void) {
  long result;
  __asm__ volatile("int $0x80" : "=a"(result) : "a"(20L) : "memory");
  return result;
}

static long by_x32(void) { return syscall(0x40000000 | SYS_getpid); }

/* The filter may end whoever tries this. */
static void in_a_child(const char *what, const char *call, long (*number)(void)) {
  int status = 0;
  pid_t child = fork();
  if (child == 0) _exit(number() > 0 ? 0 : 1);
  waitpid(child, &status, 0);
  errno = EPERM;
  tried(what, call, WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -1);
}
#endif

/* Programs of another word size have other numbers: a filter that looks at numbers alone would let them through. */
static void other_numbers(void) {
#ifdef __x86_64__
  in_a_child("a system call of 32-bit programs", "int80", by_32_bit);
  in_a_child("a system call of x32 programs", "x32", by_x32);
#endif
}

static void processes(void) {
  int keeper = getppid();
  tried("ptrace of PID 1", "ptrace", ptrace(PTRACE_ATTACH, 1, 0, 0));
  tried("ptrace of its keeper", "ptrace", ptrace(PTRACE_ATTACH, keeper, 0, 0));
  memory("memory of PID 1", 1);
  memory("memory of its keeper", keeper);
  memory("its own memory by the call for others", getpid());
  descriptors("descriptors of PID 1", 1);
  descriptors("descriptors of its keeper", keeper);
  CALL("comparing with PID 1", kcmp, 1, getpid(), 0, 0, 0);
  tried("opening the memory of PID 1", "openat", open("/proc/1/mem", O_RDONLY));
  tried("opening the namespaces of PID 1", "openat", open("/proc/1/ns/mnt", O_RDONLY));
  tried("opening the root of PID 1", "openat", open("/proc/1/root/etc", O_RDONLY));
  tried("opening the memory of its keeper", "openat", (snprintf(room, 40, "/proc/%d/mem", keeper), open(room, O_RDWR)));
}

static void sockets(void) {
  tried("raw socket", "socket", socket(AF_INET, SOCK_RAW, 1));
  tried("raw socket of version 6", "socket", socket(AF_INET6, SOCK_RAW, 58));
  tried("packet socket", "socket", socket(17 /* AF_PACKET */, SOCK_RAW, 0));
  tried("packet socket of datagrams", "socket", socket(17, SOCK_DGRAM, 0));
  tried("vsock", "socket", socket(40, SOCK_STREAM, 0));
  tried("kernel crypto socket", "socket", socket(38 /* AF_ALG */, SOCK_SEQPACKET, 0));
  tried("bluetooth socket", "socket", socket(31, SOCK_STREAM, 0));
  tried("CAN socket", "socket", socket(29, SOCK_RAW, 1));
  tried("netlink other than routes", "socket", socket(16, SOCK_RAW, 12 /* NETFILTER */));
  tried("netlink of the audit", "socket", socket(16, SOCK_RAW, 9));
}

static void namespaces(void) {
  tried("new user namespace", "unshare", unshare(CLONE_NEWUSER));
  tried("new mount namespace", "unshare", unshare(CLONE_NEWNS));
  tried("new network namespace", "unshare", unshare(CLONE_NEWNET));
  tried("new process namespace", "unshare", unshare(CLONE_NEWPID));
  tried("new namespace of names", "unshare", unshare(CLONE_NEWUTS));
  tried("new namespace of control groups", "unshare", unshare(0x02000000));
  CALL("clone into a user namespace", clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0);
  CALL("clone into a mount namespace", clone, CLONE_NEWNS | SIGCHLD, 0, 0, 0, 0);
  NEWER("clone3", clone3, 435, room, 64);
  CALL("entering a namespace", setns, 0, 0);
}

static void files(void) {
  tried("mount", "mount", mount("none", "/tmp", "tmpfs", 0, 0));
  tried("mount over itself", "mount", mount("/workspace", "/beige", 0, MS_BIND, 0));
  tried("root made writable", "mount", mount(0, "/", 0, MS_REMOUNT | MS_BIND, 0));
  tried("unmount", "umount2", umount2("/beige", MNT_DETACH));
  NEWER("new mount calls", fsopen, 430, "tmpfs", 0);
  NEWER("copying a mount", open_tree, 428, -100, "/beige", 1);
  NEWER("changing a mount", mount_setattr, 442, -100, "/", 0, room, 32);
  CALL("pivot_root", pivot_root, ".", ".");
  CALL("chroot", chroot, "/tmp");
  tried("disk device", "mknodat", mknod("/tmp/disk", S_IFBLK | 0600, makedev(8, 0)));
  tried("memory device", "mknodat", mknod("/tmp/mem", S_IFCHR | 0600, makedev(1, 1)));
  CALL("open by handle", open_by_handle_at, 0, room, 0);
  CALL("name to handle", name_to_handle_at, -100, "/", room, room, 0);
  CALL("fanotify", fanotify_init, 0, 0);
  CALL("quota", quotactl, 0, 0, 0, 0);
  CALL("swap", swapon, "/workspace/swap", 0);
}

static void kernel(void) {
  memset(room, 0, sizeof room);
  NEWER("io_uring", io_uring_setup, 425, 4, room);
  CALL("add_key", add_key, "user", "x", "y", 1, -3);
  CALL("request_key", request_key, "user", "x", 0, -3);
  CALL("keyctl", keyctl, 0, -3, 0);
  CALL("bpf", bpf, 0, room, 64);
  CALL("userfaultfd", userfaultfd, 0);
  CALL("perf", perf_event_open, room, 0, -1, -1, 0);
  NEWER("secret memory", memfd_secret, 447, 0);
  CALL("personality without random addresses", personality, 0x0040000);
  CALL("kernel module", init_module, room, 0, "");
  CALL("kernel module from a file", finit_module, 0, "", 0);
  CALL("unloading a module", delete_module, "x", 0);
  CALL("kexec", kexec_load, 0, 0, 0, 0);
  CALL("reboot", reboot, 0xfee1dead, 672274793, 0, 0);
  CALL("kernel log", syslog, 10, 0, 0);
  CALL("accounting", acct, "/workspace/acct");
  CALL("clock", clock_settime, 0, room);
  CALL("clock's rate", adjtimex, room);
  CALL("host name", sethostname, "evil", 4);
  CALL("pages of another process", move_pages, 1, 0, 0, 0, 0, 0);
#ifdef __x86_64__
  CALL("ports of devices", ioperm, 0, 1, 1);
  CALL("all ports of devices", iopl, 3);
  CALL("segments", modify_ldt, 1, room, 16);
#endif
  other_numbers();
}

/* Standard input to a socket of the file system, or one without a name there (a path with @); what comes back is printed. */
static int say_to(const char *path) {
  struct sockaddr_un to = {.sun_family = AF_UNIX};
  strncpy(to.sun_path, path, sizeof to.sun_path - 1);
  socklen_t len = sizeof to;
  if (path[0] == '@') to.sun_path[0] = 0, len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(path));
  int fd = socket(AF_UNIX, SOCK_STREAM, 0);
  if (connect(fd, (struct sockaddr *)&to, len) != 0) return perror(path), 1;
  signal(SIGPIPE, SIG_IGN);
  ssize_t n;
  while ((n = read(0, room, sizeof room)) > 0)
    for (ssize_t at = 0, put; at < n; at += put)
      if ((put = write(fd, room + at, (size_t)(n - at))) <= 0) n = 0;
  shutdown(fd, SHUT_WR);
  while ((n = read(fd, room, sizeof room)) > 0) fwrite(room, 1, (size_t)n, stdout);
  return 0;
}

static int datagram(const char *address, const char *port) {
  struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((unsigned short)atoi(port))};
  inet_aton(address, &to.sin_addr);
  int fd = socket(AF_INET, SOCK_DGRAM, 0);
  return sendto(fd, "leak", 4, 0, (struct sockaddr *)&to, sizeof to) == 4 ? 0 : (perror(address), 1);
}

int main(int argc, char **argv) {
  if (argc == 3 && strcmp(argv[1], "say") == 0) return say_to(argv[2]);
  if (argc == 4 && strcmp(argv[1], "datagram") == 0) return datagram(argv[2], argv[3]);
  processes();
  sockets();
  files();
  kernel();
  namespaces();
  tried("typing on somebody's terminal", "ioctl", ioctl(0, TIOCSTI, "x"));
  tried("user 0", "setuid", setuid(0));
  tried("group 0", "setgid", setgid(0));
  printf("end\n");
  return 0;
}
