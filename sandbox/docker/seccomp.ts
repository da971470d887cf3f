// The system calls that a sandbox may make; all others answer "operation not permitted". Names are the kernel's.
// Left out on purpose, beside what needs a capability anyway: io_uring, keyrings, userfaultfd, ptrace and reading other processes,
// landlock-free ways to new namespaces, sockets of other families than unix, internet and netlink, raw sockets, 32-bit programs.

const CALLS: Readonly<Record<string, string>> = {
  files:
    "access chdir chmod chown close close_range copy_file_range creat dup dup2 dup3 faccessat faccessat2 fadvise64 fallocate fchdir fchmod " +
    "fchmodat fchmodat2 fchown fchownat fcntl fdatasync fgetxattr flistxattr flock fremovexattr fsetxattr fstat fstatfs fsync ftruncate futimesat " +
    "getcwd getdents getdents64 getxattr ioctl lchown lgetxattr link linkat listxattr llistxattr lremovexattr lseek lsetxattr lstat mkdir " +
    "mkdirat mknod mknodat newfstatat open openat openat2 pread64 preadv preadv2 pwrite64 pwritev pwritev2 read readahead readlink readlinkat " +
    "readv removexattr rename renameat renameat2 rmdir sendfile setxattr splice stat statfs statx symlink symlinkat sync sync_file_range " +
    "syncfs tee truncate umask unlink unlinkat utime utimensat utimes vmsplice write writev",
  waiting:
    "epoll_create epoll_create1 epoll_ctl epoll_pwait epoll_pwait2 epoll_wait eventfd eventfd2 inotify_add_watch inotify_init inotify_init1 " +
    "inotify_rm_watch io_cancel io_destroy io_getevents io_pgetevents io_setup io_submit pipe pipe2 poll ppoll pselect6 select signalfd " +
    "signalfd4 timerfd_create timerfd_gettime timerfd_settime",
  memory:
    "brk madvise membarrier memfd_create mincore mlock mlock2 mlockall mmap mprotect mremap msync munlock munlockall munmap pkey_alloc " +
    "pkey_free pkey_mprotect",
  processes:
    "alarm capget capset execve execveat exit exit_group fork getcpu getegid geteuid getgid getgroups getitimer getpgid getpgrp getpid " +
    "getppid getpriority getresgid getresuid getrlimit getrusage getsid gettid getuid ioprio_get ioprio_set kill pause pidfd_open " +
    "pidfd_send_signal prctl prlimit64 restart_syscall rt_sigaction rt_sigpending rt_sigprocmask rt_sigqueueinfo rt_sigreturn rt_sigsuspend " +
    "rt_sigtimedwait rt_tgsigqueueinfo sched_get_priority_max sched_get_priority_min sched_getaffinity sched_getattr sched_getparam " +
    "sched_getscheduler sched_rr_get_interval sched_setaffinity sched_setattr sched_setparam sched_setscheduler sched_yield seccomp " +
    "setfsgid setfsuid setgid setgroups setitimer setpgid setpriority setregid setresgid setresuid setreuid setrlimit setsid setuid " +
    "sigaltstack tgkill tkill vfork wait4 waitid landlock_add_rule landlock_create_ruleset landlock_restrict_self",
  threads: "arch_prctl futex futex_waitv get_robust_list get_thread_area rseq set_robust_list set_thread_area set_tid_address",
  time:
    "clock_getres clock_gettime clock_nanosleep getrandom gettimeofday nanosleep sysinfo time timer_create timer_delete timer_getoverrun " +
    "timer_gettime timer_settime times uname",
  network:
    "accept accept4 bind connect getpeername getsockname getsockopt listen recvfrom recvmmsg recvmsg sendmmsg sendmsg sendto setsockopt " +
    "shutdown socketpair",
  between:
    "mq_getsetattr mq_notify mq_open mq_timedreceive mq_timedsend mq_unlink msgctl msgget msgrcv msgsnd semctl semget semop semtimedop shmat " +
    "shmctl shmdt shmget",
};

/** AF_UNIX, AF_INET, AF_INET6. */
const FAMILIES = [1, 2, 10];
const AF_NETLINK = 16;
/** SOCK_STREAM, SOCK_DGRAM, SOCK_SEQPACKET; the flags beside them do not count. */
const TYPES = [1, 2, 5];
const TYPE_MASK = 0xf;
/** PER_LINUX, and the words that ask for the present one. */
const PERSONALITIES = [0, 8, 0x20000, 0x20008, 0xffffffff];
/** All CLONE_NEW… flags. */
const NAMESPACES = 0x7e020000;
const ENOSYS = 38;

interface Rule {
  readonly names: readonly string[];
  readonly action: "SCMP_ACT_ALLOW" | "SCMP_ACT_ERRNO";
  readonly errnoRet?: number;
  readonly args?: readonly { readonly index: number; readonly value: number; readonly valueTwo?: number; readonly op: string }[];
}

const allow = (names: readonly string[], args?: Rule["args"]): Rule => ({
  names,
  action: "SCMP_ACT_ALLOW",
  ...(args === undefined ? {} : { args }),
});

const equal = (index: number, value: number) => ({ index, value, op: "SCMP_CMP_EQ" });

function rules(): readonly Rule[] {
  const sockets = FAMILIES.flatMap((family) =>
    TYPES.map((type) => allow(["socket"], [equal(0, family), { index: 1, value: TYPE_MASK, valueTwo: type, op: "SCMP_CMP_MASKED_EQ" }])),
  );
  return [
    allow(Object.values(CALLS).flatMap((names) => names.split(" "))),
    ...sockets,
    // Programs ask the kernel for their own addresses this way.
    allow(["socket"], [equal(0, AF_NETLINK), equal(2, 0)]),
    ...PERSONALITIES.map((value) => allow(["personality"], [equal(0, value)])),
    allow(["clone"], [{ index: 0, value: NAMESPACES, valueTwo: 0, op: "SCMP_CMP_MASKED_EQ" }]),
    // Its flags lie in memory, where no filter sees them: programs fall back to clone.
    { names: ["clone3"], action: "SCMP_ACT_ERRNO", errnoRet: ENOSYS },
  ];
}

/** The profile as the engine's API takes it. The same text each time: it is part of what a container is compared with. */
export const SECCOMP: string = JSON.stringify({
  defaultAction: "SCMP_ACT_ERRNO",
  defaultErrnoRet: 1,
  archMap: [
    { architecture: "SCMP_ARCH_X86_64", subArchitectures: [] },
    { architecture: "SCMP_ARCH_AARCH64", subArchitectures: [] },
  ],
  syscalls: rules(),
});
