/* The filter of system calls where no engine sets one: what is not named here answers "operation not permitted". Names and
 * rules are those of sandbox/docker/seccomp.ts; a test compares the two. */
#include "guest.h"
#include <sys/resource.h>
#include <sys/syscall.h>

/* Kernel headers are not there for every compiler: what of them is needed, with the kernel's numbers. */
struct step {
  uint16_t code;
  uint8_t yes, no;
  uint32_t k;
};
struct program {
  unsigned short len;
  struct step *steps;
};
#define LOAD 0x20     /* BPF_LD | BPF_W | BPF_ABS */
#define MASK 0x54     /* BPF_ALU | BPF_AND | BPF_K */
#define EQUAL 0x15    /* BPF_JMP | BPF_JEQ | BPF_K */
#define AT_LEAST 0x35 /* BPF_JMP | BPF_JGE | BPF_K */
#define ANSWER 0x06   /* BPF_RET | BPF_K */
#define ALLOW 0x7fff0000u
#define ERROR(n) (0x00050000u | (n))
#define KILL 0x80000000u
/* In the data that the filter sees; arguments are as wide as a register, and the kernel reads the low half of all of these. */
#define NUMBER 0
#define MACHINE 4
#define ARGUMENT(n) (16 + 8 * (n))
#define MODE_FILTER 2

#if defined(__x86_64__)
#define OUR_MACHINE 0xc000003eu
#elif defined(__aarch64__)
#define OUR_MACHINE 0xc00000b7u
#else
#error no filter for this machine
#endif

/* Newer than the headers of some compilers; from 424 on a number is the same on all machines. */
#ifndef __NR_close_range
#define __NR_close_range 436
#endif
#ifndef __NR_faccessat2
#define __NR_faccessat2 439
#endif
#ifndef __NR_epoll_pwait2
#define __NR_epoll_pwait2 441
#endif
#ifndef __NR_landlock_create_ruleset
#define __NR_landlock_create_ruleset 444
#define __NR_landlock_add_rule 445
#define __NR_landlock_restrict_self 446
#endif
#ifndef __NR_futex_waitv
#define __NR_futex_waitv 449
#endif
#ifndef __NR_fchmodat2
#define __NR_fchmodat2 452
#endif

/* A number as text; the name itself for a call that this machine has not. */
#define TEXT(word) #word
#define VALUE(word) TEXT(word)
#define N(name) VALUE(__NR_##name) " "
static const char allowed[] =
  N(access) N(chdir) N(chmod) N(chown) N(close) N(close_range) N(copy_file_range) N(creat) N(dup) N(dup2) N(dup3) N(faccessat)
  N(faccessat2) N(fadvise64) N(fallocate) N(fchdir) N(fchmod) N(fchmodat) N(fchmodat2) N(fchown) N(fchownat) N(fcntl)
  N(fdatasync) N(fgetxattr) N(flistxattr) N(flock) N(fremovexattr) N(fsetxattr) N(fstat) N(fstatfs) N(fsync) N(ftruncate)
  N(futimesat) N(getcwd) N(getdents) N(getdents64) N(getxattr) N(ioctl) N(lchown) N(lgetxattr) N(link) N(linkat) N(listxattr)
  N(llistxattr) N(lremovexattr) N(lseek) N(lsetxattr) N(lstat) N(mkdir) N(mkdirat) N(mknod) N(mknodat) N(newfstatat) N(open)
  N(openat) N(openat2) N(pread64) N(preadv) N(preadv2) N(pwrite64) N(pwritev) N(pwritev2) N(read) N(readahead) N(readlink)
  N(readlinkat) N(readv) N(removexattr) N(rename) N(renameat) N(renameat2) N(rmdir) N(sendfile) N(setxattr) N(splice) N(stat)
  N(statfs) N(statx) N(symlink) N(symlinkat) N(sync) N(sync_file_range) N(syncfs) N(tee) N(truncate) N(umask) N(unlink)
  N(unlinkat) N(utime) N(utimensat) N(utimes) N(vmsplice) N(write) N(writev) N(epoll_create) N(epoll_create1) N(epoll_ctl)
  N(epoll_pwait) N(epoll_pwait2) N(epoll_wait) N(eventfd) N(eventfd2) N(inotify_add_watch) N(inotify_init) N(inotify_init1)
  N(inotify_rm_watch) N(io_cancel) N(io_destroy) N(io_getevents) N(io_pgetevents) N(io_setup) N(io_submit) N(pipe) N(pipe2)
  N(poll) N(ppoll) N(pselect6) N(select) N(signalfd) N(signalfd4) N(timerfd_create) N(timerfd_gettime) N(timerfd_settime) N(brk)
  N(madvise) N(membarrier) N(memfd_create) N(mincore) N(mlock) N(mlock2) N(mlockall) N(mmap) N(mprotect) N(mremap) N(msync)
  N(munlock) N(munlockall) N(munmap) N(pkey_alloc) N(pkey_free) N(pkey_mprotect) N(alarm) N(capget) N(capset) N(execve)
  N(execveat) N(exit) N(exit_group) N(fork) N(getcpu) N(getegid) N(geteuid) N(getgid) N(getgroups) N(getitimer) N(getpgid)
  N(getpgrp) N(getpid) N(getppid) N(getpriority) N(getresgid) N(getresuid) N(getrlimit) N(getrusage) N(getsid) N(gettid)
  N(getuid) N(ioprio_get) N(ioprio_set) N(kill) N(pause) N(pidfd_open) N(pidfd_send_signal) N(prctl) N(prlimit64)
  N(restart_syscall) N(rt_sigaction) N(rt_sigpending) N(rt_sigprocmask) N(rt_sigqueueinfo) N(rt_sigreturn) N(rt_sigsuspend)
  N(rt_sigtimedwait) N(rt_tgsigqueueinfo) N(sched_get_priority_max) N(sched_get_priority_min) N(sched_getaffinity)
  N(sched_getattr) N(sched_getparam) N(sched_getscheduler) N(sched_rr_get_interval) N(sched_setaffinity) N(sched_setattr)
  N(sched_setparam) N(sched_setscheduler) N(sched_yield) N(seccomp) N(setfsgid) N(setfsuid) N(setgid) N(setgroups) N(setitimer)
  N(setpgid) N(setpriority) N(setregid) N(setresgid) N(setresuid) N(setreuid) N(setrlimit) N(setsid) N(setuid) N(sigaltstack)
  N(tgkill) N(tkill) N(vfork) N(wait4) N(waitid) N(landlock_add_rule) N(landlock_create_ruleset) N(landlock_restrict_self)
  N(arch_prctl) N(futex) N(futex_waitv) N(get_robust_list) N(get_thread_area) N(rseq) N(set_robust_list) N(set_thread_area)
  N(set_tid_address) N(clock_getres) N(clock_gettime) N(clock_nanosleep) N(getrandom) N(gettimeofday) N(nanosleep) N(sysinfo)
  N(time) N(timer_create) N(timer_delete) N(timer_getoverrun) N(timer_gettime) N(timer_settime) N(times) N(uname) N(accept)
  N(accept4) N(bind) N(connect) N(getpeername) N(getsockname) N(getsockopt) N(listen) N(recvfrom) N(recvmmsg) N(recvmsg)
  N(sendmmsg) N(sendmsg) N(sendto) N(setsockopt) N(shutdown) N(socketpair) N(mq_getsetattr) N(mq_notify) N(mq_open)
  N(mq_timedreceive) N(mq_timedsend) N(mq_unlink) N(msgctl) N(msgget) N(msgrcv) N(msgsnd) N(semctl) N(semget) N(semop)
  N(semtimedop) N(shmat) N(shmctl) N(shmdt) N(shmget);

/* Of calls; beyond them all is refused. */
#define NUMBERS 512
#define STEPS_MAX 1024
static const uint32_t families[] = {1, 2, 10}; /* unix, internet 4 and 6 */
static const uint32_t types[] = {1, 2, 5};     /* stream, datagram, ordered packets */
static const uint32_t personalities[] = {0, 8, 0x20000, 0x20008, 0xffffffff};
#define TYPE_MASK 0xf
#define NETLINK 16
#define NAMESPACES 0x7e020000u

static struct step steps[STEPS_MAX];
static unsigned length;
static bool is_allowed[NUMBERS];

static void add(uint16_t code, uint32_t k, unsigned yes, unsigned no) {
  if (length < STEPS_MAX) steps[length] = (struct step){code, (uint8_t)yes, (uint8_t)no, k};
  length++;
}

static void read_numbers(void) {
  for (const char *at = allowed; *at; at = strchr(at, ' ') + 1) {
    int number = *at >= '0' && *at <= '9' ? atoi(at) : -1;
    if (number >= 0 && number < NUMBERS) is_allowed[number] = true;
  }
}

/* Allows each value; the loaded word is compared. */
static void allow_values(const uint32_t *values, unsigned many) {
  for (unsigned i = 0; i < many; i++) {
    add(EQUAL, values[i], 0, 1);
    add(ANSWER, ALLOW, 0, 0);
  }
}

/* The number is loaded still where it is another call: `close_call` says how far to jump then. */
static unsigned open_call(uint32_t number) {
  add(EQUAL, number, 0, 0);
  return length - 1;
}

static void close_call(unsigned at) {
  add(ANSWER, ERROR(EPERM), 0, 0);
  if (at < STEPS_MAX) steps[at].no = (uint8_t)(length - at - 1);
}

static void socket_rules(void) {
  unsigned call = open_call(__NR_socket);
  add(LOAD, ARGUMENT(0), 0, 0);
  add(EQUAL, NETLINK, 0, 4);
  add(LOAD, ARGUMENT(2), 0, 0);
  add(EQUAL, 0, 0, 1);
  add(ANSWER, ALLOW, 0, 0);
  add(ANSWER, ERROR(EPERM), 0, 0);
  unsigned many = sizeof families / sizeof *families;
  for (unsigned i = 0; i < many; i++) add(EQUAL, families[i], many - i, 0);
  add(ANSWER, ERROR(EPERM), 0, 0);
  add(LOAD, ARGUMENT(1), 0, 0);
  add(MASK, TYPE_MASK, 0, 0);
  allow_values(types, sizeof types / sizeof *types);
  close_call(call);
}

static void other_rules(void) {
  unsigned call = open_call(__NR_personality);
  add(LOAD, ARGUMENT(0), 0, 0);
  allow_values(personalities, sizeof personalities / sizeof *personalities);
  close_call(call);
  call = open_call(__NR_clone);
  add(LOAD, ARGUMENT(0), 0, 0);
  add(MASK, NAMESPACES, 0, 0);
  allow_values((const uint32_t[]){0}, 1);
  close_call(call);
  /* Its flags lie in memory, where no filter sees them: programs fall back to clone. */
  add(EQUAL, 435 /* clone3 */, 0, 1);
  add(ANSWER, ERROR(ENOSYS), 0, 0);
}

/* In rising order, neighbours as one: a number below the next range is in none. */
static void number_rules(void) {
  for (uint32_t from = 0, end; from < NUMBERS; from = end) {
    for (end = from; end < NUMBERS && is_allowed[end];) end++;
    if (end == from) end++;
    if (!is_allowed[from]) continue;
    add(AT_LEAST, end, 3, 0);
    add(AT_LEAST, from, 0, 1);
    add(ANSWER, ALLOW, 0, 0);
    add(ANSWER, ERROR(EPERM), 0, 0);
  }
  add(ANSWER, ERROR(EPERM), 0, 0);
}

/* For this process and all that descend from it, for good. False with errno. */
bool filter_calls(void) {
  read_numbers();
  add(LOAD, MACHINE, 0, 0);
  add(EQUAL, OUR_MACHINE, 1, 0);
  add(ANSWER, KILL, 0, 0);
  add(LOAD, NUMBER, 0, 0);
  socket_rules();
  other_rules();
  number_rules();
  if (length > STEPS_MAX) return errno = E2BIG, false;
  struct program program = {(unsigned short)length, steps};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, MODE_FILTER, &program) == 0;
}

/* Counted in the user namespace that we are in, where that is our own: no process of the host counts. */
bool limit_processes(int64_t most) {
  struct rlimit limit = {.rlim_cur = (rlim_t)most, .rlim_max = (rlim_t)most};
  return setrlimit(RLIMIT_NPROC, &limit) == 0;
}
