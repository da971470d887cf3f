/* PID 1 of a sandbox: reaps children, ends at once when the engine says TERM, keeps one connection to the gateway open, on which
 * it says hello and nothing else, and keeps the commands that come over its standard input (serve.c). Nobody inside can open
 * that one: this process is not dumpable. */
#include "jobs.h"
#include <sys/signalfd.h>

#define BACKOFF_MIN_MS 20
#define BACKOFF_MAX_MS 500
/* A connection that lived this long was a real one: the next dial starts quick again. */
#define STEADY_MS 1000
/* What cannot be ended yet is looked for ever more seldom. */
#define SWEEP_MS 20
#define SWEEP_MAX_MS 2000

static int hello(void) {
  int fd = dial_now();
  if (fd < 0) return -1;
  char host[65] = "";
  gethostname(host, sizeof host - 1);
  /* Only what a host name may hold, so that the line is JSON whatever it was set to. */
  for (char *p = host; *p; p++)
    if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-", *p)) *p = '-';
  char line[160];
  int len = format_text(line, sizeof line, "{\"type\":\"hello\",\"v\":1,\"container\":\"%s\"}\n", host);
  if (!write_all(fd, line, (size_t)len)) {
    close(fd);
    return -1;
  }
  return fd;
}

/* Whether the connection still stands; whatever the gateway sends is thrown away. */
static bool still_open(int fd) {
  char sink[512];
  ssize_t n = read(fd, sink, sizeof sink);
  return n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR));
}

/* True when the engine asked for the end. Inside its own PID namespace a sender has a PID; the engine has none. */
static bool asked_to_end(int signals) {
  struct signalfd_siginfo info;
  bool end = false;
  while (read(signals, &info, sizeof info) == sizeof info) {
    if (info.ssi_signo == SIGCHLD || info.ssi_pid != 0) continue;
    if (info.ssi_signo == SIGTERM || info.ssi_signo == SIGINT || info.ssi_signo == SIGQUIT) end = true;
  }
  return end;
}

static int64_t earliest(int64_t a, int64_t b) { return a < 0 ? b : b < 0 || a < b ? a : b; }

static bool is_kept(pid_t pid) { return jobs_is_keeper(pid) || relay_is(pid); }

/* What an engine would have set before; 0, or the exit code. */
static int give_away(int argc, char **argv) {
  for (int i = 0; i < argc; i++) {
    int64_t most;
    bool processes = strcmp(argv[i], "--processes") == 0;
    if (processes && (++i >= argc || !parse_number(argv[i], &most))) return say(EXIT_USAGE, "usage: init [--processes N] [--filter]");
    if (!processes && strcmp(argv[i], "--filter") != 0) return say(EXIT_USAGE, "init does not know %s", argv[i]);
    if (!(processes ? limit_processes(most) : filter_calls())) return say(1, "%s: %s", argv[i], strerror(errno));
  }
  return 0;
}

int mode_init(int argc, char **argv) {
  int code = give_away(argc, argv);
  if (code != 0) return code;
  prctl(PR_SET_DUMPABLE, 0);
  prctl(PR_SET_CHILD_SUBREAPER, 1); /* where it is not PID 1 */
  close_from(3);
  signal(SIGPIPE, SIG_IGN);
  sigset_t all;
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, NULL);
  int signals = signalfd(-1, &all, SFD_CLOEXEC | SFD_NONBLOCK);
  if (signals < 0) return say(1, "signalfd: %s", strerror(errno));
  int gateway = -1, backoff = BACKOFF_MIN_MS;
  int64_t dialled = 0, reaped = 0, next = now_ms(), sweep = -1, pause = SWEEP_MS;
  static struct pollfd fds[2 + 3 + 2 * JOBS_MAX];
  serve_begin();
  for (;;) {
    int64_t now = now_ms();
    if (gateway < 0 && now >= next) {
      gateway = hello();
      dialled = now;
      next = now + backoff;
      backoff = backoff * 2 > BACKOFF_MAX_MS ? BACKOFF_MAX_MS : backoff * 2;
    }
    if (sweep >= 0 && now >= sweep) {
      bool left = tree_sweep(is_kept) > 0;
      sweep = left ? now + pause : -1;
      pause = left && pause < SWEEP_MAX_MS ? pause * 2 : pause;
    }
    fds[0] = (struct pollfd){.fd = signals, .events = POLLIN};
    fds[1] = (struct pollfd){.fd = gateway, .events = POLLIN};
    int count = 2 + serve_poll(fds + 2);
    relay_keep();
    int64_t until = earliest(earliest(earliest(gateway >= 0 ? -1 : next, sweep), serve_due()), relay_due());
    int wait = until < 0 ? -1 : until > now ? (int)(until - now) : 0;
    if (poll(fds, (nfds_t)count, wait) < 0) {
      /* For want of memory: the end of PID 1 would be the end of all. */
      for (int i = 0; i < count; i++) fds[i].revents = 0;
      usleep(10000);
    }
    bool signalled = fds[0].revents & POLLIN;
    if (signalled && asked_to_end(signals)) return 0;
    serve_work(fds + 2, count - 2);
    int status;
    if (signalled || now - reaped >= REAP_MS) {
      reaped = now;
      for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG | WUNTRACED)) > 0;)
        if (!relay_reaped(pid, status)) jobs_reaped(pid, status);
    }
    if (jobs_orphans()) sweep = now_ms(), pause = SWEEP_MS;
    if (gateway >= 0 && fds[1].revents && !still_open(gateway)) {
      close(gateway);
      gateway = -1;
      if (now_ms() - dialled >= STEADY_MS) {
        backoff = BACKOFF_MIN_MS;
        next = now_ms() + BACKOFF_MIN_MS;
      }
    }
  }
}
