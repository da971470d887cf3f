/* Tries what no shell command can try, and names what was not refused. Only for escape.test.ts. */
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

static void tried(const char *what, long result) {
  if (result >= 0) printf("%s\n", what);
}

int main(void) {
  char byte;
  struct iovec here = {&byte, 1}, there = {(void *)0x400000, 1};
  tried("ptrace of PID 1", ptrace(PTRACE_ATTACH, 1, 0, 0));
  tried("ptrace of the supervisor", ptrace(PTRACE_ATTACH, getppid(), 0, 0));
  tried("memory of PID 1", process_vm_readv(1, &here, 1, &there, 1, 0));
  tried("memory of the supervisor", process_vm_readv(getppid(), &here, 1, &there, 1, 0));
  long fd = syscall(434 /* pidfd_open */, 1, 0);
  if (fd >= 0)
    for (int i = 0; i < 8; i++) tried("descriptor of PID 1", syscall(438 /* pidfd_getfd */, fd, i, 0));
  fd = syscall(434, getppid(), 0);
  if (fd >= 0)
    for (int i = 0; i < 8; i++) tried("descriptor of the supervisor", syscall(438, fd, i, 0));
  tried("raw socket", socket(AF_INET, SOCK_RAW, 1));
  tried("packet socket", socket(17 /* AF_PACKET */, SOCK_RAW, 0));
  tried("vsock", socket(40 /* AF_VSOCK */, SOCK_STREAM, 0));
  tried("kernel crypto socket", socket(38 /* AF_ALG */, SOCK_SEQPACKET, 0));
  tried("bluetooth socket", socket(31, SOCK_STREAM, 0));
  tried("netlink other than routes", socket(16, SOCK_RAW, 12 /* NETFILTER */));
  char ring[128] = {0};
  tried("io_uring", syscall(425, 4, ring));
  tried("add_key", syscall(SYS_add_key, "user", "x", "y", 1, -3));
  tried("request_key", syscall(SYS_request_key, "user", "x", 0, -3));
  tried("clone3", syscall(435, ring, 64));
  tried("clone into a namespace", syscall(SYS_clone, CLONE_NEWUSER | 17, 0, 0, 0, 0));
  tried("name to handle", syscall(SYS_name_to_handle_at, -100, "/", ring, ring, 0));
  tried("fanotify", syscall(SYS_fanotify_init, 0, 0));
  tried("personality", syscall(SYS_personality, 0x0040000));
  tried("secret memory", syscall(447, 0));
  tried("quota", syscall(SYS_quotactl, 0, 0, 0, 0));
  tried("mount api", syscall(430, "tmpfs", 0));
  tried("own memory through /proc", process_vm_readv(getpid(), &here, 1, &here, 1, 0));
  tried("mount", mount("none", "/tmp", "tmpfs", 0, 0));
  tried("new user namespace", unshare(CLONE_NEWUSER));
  tried("new mount namespace", unshare(CLONE_NEWNS));
  tried("new network namespace", unshare(CLONE_NEWNET));
  tried("setuid 0", setuid(0));
  tried("setgid 0", setgid(0));
  tried("bpf", syscall(SYS_bpf, 0, 0, 0));
  tried("keyctl", syscall(SYS_keyctl, 0, -3, 0));
  tried("userfaultfd", syscall(SYS_userfaultfd, 0));
  tried("open by handle", syscall(SYS_open_by_handle_at, 0, 0, 0));
  tried("kernel module", syscall(SYS_init_module, 0, 0, ""));
  tried("kexec", syscall(SYS_kexec_load, 0, 0, 0, 0));
  tried("reboot", syscall(SYS_reboot, 0xfee1dead, 672274793, 0, 0));
  tried("pivot_root", syscall(SYS_pivot_root, ".", "."));
  tried("perf", syscall(SYS_perf_event_open, 0, 0, -1, -1, 0));
  printf("end\n");
  return 0;
}
