/* One command, under `docker exec` or kept by PID 1 (jobs.c). Standard input and output of this process are framed: [u8 type][u32 length, big endian][payload].
 *   in:  0 bytes for the command's standard input · 1 end of it · 2 cancel · 3 signal (u32) for its process group
 *        4 size of its terminal (u16 rows, u16 columns). End of file: the client left, which cancels too.
 *   out: 1 standard output · 2 standard error · 3 exit (JSON, the last frame) · 4 credit (u32: bytes of input that may follow)
 * The first frame out is the credit for INPUT_MAX bytes. Memory is bounded both ways: input by the credit, output because the
 * command's pipes are read only while nothing waits to be written. When the exit is said the whole tree of the command is gone. */
#include "guest.h"
#include <sys/ioctl.h>
#include <sys/signalfd.h>

#define FRAME_MAX 65536
#define INPUT_MAX 262144
#define HEADER 5
/* After TERM before KILL, and for what is left in the pipes when the command has ended but a child of it holds them. */
#define TERM_GRACE_MS 250
#define SILENCE_MS 50
#define LINGER_MS 500
#define KILL_BUDGET_MS 3000
/* So much without a pause is bulk; a piece of it waits so long for more. */
#define BULK_BYTES 131072
#define BULK_MS 5
#define GATHER_NS 50000
/* No status that wait can give. */
#define NOT_YET (-1)

enum why { ENDED, TIMEOUT, CANCELLED };

static struct {
  pid_t main;
  int status, to, out, err, signals;
  bool gone, left, input_ended, ending, terminal, signalled;
  enum why why;
  int64_t deadline, ended_at, heard_at, term_at, reaped_at, ooms;
  uint32_t owed;
} s;

/* Room for one full frame and the small ones that may follow it. */
static uint8_t outbox[HEADER + PIECE_MAX + 1024];
static size_t out_at, out_len;
static uint8_t input[INPUT_MAX];
static size_t in_at, in_len;
static uint8_t head[HEADER], word[4];
static size_t head_len, payload_left;
static uint64_t bulk;

static void frame(uint8_t type, const void *data, uint32_t len) {
  uint8_t *p = outbox + out_len;
  p[0] = type;
  for (int i = 0; i < 4; i++) p[1 + i] = (uint8_t)(len >> (24 - 8 * i));
  if (data != NULL) memcpy(p + HEADER, data, len);
  out_len += HEADER + len;
}

static void send_credit(void) {
  uint8_t n[4] = {(uint8_t)(s.owed >> 24), (uint8_t)(s.owed >> 16), (uint8_t)(s.owed >> 8), (uint8_t)s.owed};
  frame(4, n, 4);
  s.owed = 0;
}

static void flush_out(void) {
  while (out_at < out_len) {
    ssize_t n = write(1, outbox + out_at, out_len - out_at);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno != EAGAIN) s.left = true;
    if (n <= 0) return;
    out_at += (size_t)n;
  }
  out_at = out_len = 0;
}

static void shut(int *fd) {
  if (*fd >= 0) close(*fd);
  *fd = -1;
}

/* Who says much, piece after piece, is let go on for a moment, so that each turn of everybody behind carries more. */
static void gather(int fd) {
  int ready = 0, due = PIECE_MAX / 2;
  if (bulk < BULK_BYTES || ioctl(fd, FIONREAD, &ready) || ready >= due) return;
  struct timespec moment = {.tv_nsec = GATHER_NS};
  nanosleep(&moment, NULL);
}

/* Reads one piece of the command's output into the empty outbox. */
static void take(int *fd, uint8_t type) {
  if (*fd < 0 || out_len > 0) return;
  gather(*fd);
  ssize_t n = read(*fd, outbox + HEADER, PIECE_MAX);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (n <= 0) {
    shut(fd);
    return;
  }
  int64_t now = now_ms();
  bulk = now - s.heard_at < BULK_MS ? bulk + (uint32_t)n : 0;
  s.heard_at = now;
  frame(type, NULL, (uint32_t)n);
  flush_out();
}

static void feed(void) {
  while (in_at < in_len && s.to >= 0) {
    ssize_t n = write(s.to, input + in_at, in_len - in_at);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) break;
    if (n <= 0) {
      shut(&s.to);
      break;
    }
    in_at += (size_t)n;
    s.owed += (uint32_t)n;
  }
  if (s.to < 0) {
    s.owed += (uint32_t)(in_len - in_at);
    in_at = in_len;
  }
  if (in_at == in_len) {
    in_at = in_len = 0;
    /* Only a client that is still there may end the input: a cut `put` must never look whole. */
    if (s.input_ended && !s.left && !s.ending && s.to >= 0) {
      /* A terminal has no end of file: its line discipline makes one of this. */
      if (s.terminal && write(s.to, "\004", 1) < 0 && errno == EAGAIN) return;
      shut(&s.to);
    }
  }
}

static void got_payload(const uint8_t *data, size_t len) {
  if (in_at > 0 && in_len + len > INPUT_MAX) {
    memmove(input, input + in_at, in_len - in_at);
    in_len -= in_at;
    in_at = 0;
  }
  if (in_len + len > INPUT_MAX || s.input_ended) {
    s.left = true; /* more than its credit: not our gateway */
    return;
  }
  memcpy(input + in_len, data, len);
  in_len += len;
}

static void act(void) {
  if (s.gone || s.main <= 0) return;
  if (head[0] == 3) {
    pid_t group = s.terminal && s.out >= 0 ? tcgetpgrp(s.out) : s.main;
    kill(-(group > 0 ? group : s.main), word[0]);
  } else if (s.terminal && s.out >= 0) {
    struct winsize size = {.ws_row = (uint16_t)(word[0] | word[1] << 8), .ws_col = (uint16_t)(word[2] | word[3] << 8)};
    ioctl(s.out, TIOCSWINSZ, &size);
  }
}

/* Payloads that are no input: always four bytes. */
static void got_word(const uint8_t *data, size_t len) {
  memcpy(word + sizeof word - payload_left, data, len);
  if (payload_left == len) act();
}

static void parse(const uint8_t *data, size_t len) {
  while (len > 0 && !s.left) {
    if (payload_left == 0) {
      head[head_len++] = *data++;
      len--;
      if (head_len < HEADER) continue;
      head_len = 0;
      uint32_t size = (uint32_t)head[1] << 24 | (uint32_t)head[2] << 16 | (uint32_t)head[3] << 8 | head[4];
      if (head[0] == 1) s.input_ended = true;
      if (head[0] == 2 && s.why == ENDED && !s.gone) s.why = CANCELLED;
      if (head[0] > 4 || size > FRAME_MAX || (head[0] != 0 && size != (head[0] > 2 ? 4 : 0))) s.left = true;
      payload_left = size;
      continue;
    }
    size_t n = len < payload_left ? len : payload_left;
    if (head[0] == 0) got_payload(data, n);
    else got_word(data, n);
    payload_left -= n;
    data += n;
    len -= n;
  }
}

static void listen_to_client(void) {
  uint8_t chunk[16384];
  for (;;) {
    ssize_t n = read(0, chunk, sizeof chunk);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) return;
    if (n <= 0) {
      s.left = true;
      return;
    }
    parse(chunk, (size_t)n);
    if (s.left) return;
  }
}

static int spawn_failed(int error, const char *program, const char *cwd, bool in_chdir) {
  char line[512];
  int code = !in_chdir && error == ENOENT ? 127 : 126;
  int len = in_chdir ? format_text(line, sizeof line, "beige: cannot enter %s: %s\n", cwd, strerror(error))
            : code == 127 ? format_text(line, sizeof line, "beige: %s: command not found\n", program)
                          : format_text(line, sizeof line, "beige: %s: cannot be run: %s\n", program, strerror(error));
  if (len >= (int)sizeof line) len = sizeof line - 1;
  frame(2, line, (uint32_t)len);
  return code;
}

/* In the new process. Groups and signals are its own, so that `kill 0` does not reach the supervisor. */
static void become(const struct keep *wanted, const int *fds, int report) {
  setsid();
  if (wanted->terminal) ioctl(fds[0], TIOCSCTTY, 0);
  dup2(fds[0], 0);
  dup2(fds[1], 1);
  dup2(fds[2], 2);
  char mark[64];
  struct stat st;
  if (fstat(0, &st) == 0) {
    /* So that a launcher can tell this pipe from one that the command made itself (client.c). */
    format_text(mark, sizeof mark, "%llu:%llu", (unsigned long long)st.st_dev, (unsigned long long)st.st_ino);
    setenv("BEIGE_STDIN", mark, 1);
  }
  sigset_t none;
  sigemptyset(&none);
  signal(SIGPIPE, SIG_DFL);
  sigprocmask(SIG_SETMASK, &none, NULL);
  int failure[2] = {0, 1};
  if (wanted->cwd == NULL || chdir(wanted->cwd) == 0) {
    failure[1] = 0;
    execvp(wanted->argv[0], wanted->argv);
  }
  failure[0] = errno;
  write_all(report, failure, sizeof failure);
  _exit(127);
}

/* The kernel shall end the command for memory, not its supervisor. A program that runs is open to its user; the copy of the
 * supervisor that it was before was not, and must not be. */
static void prefer_for_oom(pid_t pid) {
  char path[40];
  format_text(path, sizeof path, "/proc/%d/oom_score_adj", (int)pid);
  int score = open(path, O_WRONLY | O_CLOEXEC);
  if (score < 0) return;
  if (write(score, "300", 3) < 0) errno = 0;
  close(score);
}

/* The command's three descriptors; ours are in `s`. */
static bool open_pipes(int *fds) {
  int in[2], out[2], err[2];
  if (pipe2(in, O_CLOEXEC) || pipe2(out, O_CLOEXEC) || pipe2(err, O_CLOEXEC)) return false;
  fds[0] = in[0], s.to = in[1];
  fds[1] = out[1], s.out = out[0];
  fds[2] = err[1], s.err = err[0];
  return true;
}

static bool open_terminal(const struct keep *wanted, int *fds) {
  char name[64];
  struct winsize size = {.ws_row = wanted->rows, .ws_col = wanted->columns};
  int ours = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC), theirs = -1;
  if (ours < 0) return false;
  if (grantpt(ours) || unlockpt(ours) || ptsname_r(ours, name, sizeof name) || (theirs = open(name, O_RDWR | O_NOCTTY | O_CLOEXEC)) < 0)
    return false;
  ioctl(ours, TIOCSWINSZ, &size);
  s.terminal = true;
  s.out = ours;
  s.to = fcntl(ours, F_DUPFD_CLOEXEC, 3);
  fds[0] = theirs;
  fds[1] = fcntl(theirs, F_DUPFD_CLOEXEC, 3);
  fds[2] = fcntl(theirs, F_DUPFD_CLOEXEC, 3);
  return s.to >= 0 && fds[1] >= 0 && fds[2] >= 0;
}

/* Starts the command; 0, or the exit code with which it could not be started. */
static int start(const struct keep *wanted) {
  char **argv = wanted->argv;
  const char *cwd = wanted->cwd;
  int fds[3], report[2];
  if (!(wanted->terminal ? open_terminal(wanted, fds) : open_pipes(fds)) || pipe2(report, O_CLOEXEC))
    return spawn_failed(errno, argv[0], cwd, false);
  if (wanted->wide) widen(s.out);
  s.main = fork();
  if (s.main == 0) become(wanted, fds, report[1]);
  int forked = errno;
  for (int i = 0; i < 3; i++) close(fds[i]);
  close(report[1]);
  if (s.main < 0) return spawn_failed(forked, argv[0], cwd, false);
  int failure[2];
  ssize_t n;
  while ((n = read(report[0], failure, sizeof failure)) < 0 && errno == EINTR) continue;
  close(report[0]);
  if (n == sizeof failure) return spawn_failed(failure[0], argv[0], cwd, failure[1] != 0);
  prefer_for_oom(s.main);
  fcntl(s.to, F_SETFL, O_NONBLOCK);
  fcntl(s.out, F_SETFL, O_NONBLOCK);
  if (s.err >= 0) fcntl(s.err, F_SETFL, O_NONBLOCK);
  return 0;
}

/* A killed process, or a shell that says that its last part was killed, or nobody else here who could have been meant. */
static bool was_oom(void) {
  if (s.ooms < 0 || oom_kills() <= s.ooms) return false;
  bool killed = (WIFSIGNALED(s.status) && WTERMSIG(s.status) == SIGKILL) || (WIFEXITED(s.status) && WEXITSTATUS(s.status) == 137);
  return killed || tree_alone();
}

static int finish(int code, bool killed) {
  char json[96];
  if (s.why == ENDED && code < 0 && was_oom()) format_text(json, sizeof json, "{\"kind\":\"oom\"}"), code = 137;
  else if (s.why == TIMEOUT) format_text(json, sizeof json, "{\"kind\":\"timeout\",\"tree\":%s}", killed ? "true" : "false"), code = 124;
  else if (s.why == CANCELLED) format_text(json, sizeof json, "{\"kind\":\"cancelled\",\"tree\":%s}", killed ? "true" : "false"), code = 130;
  else if (code < 0 && WIFSIGNALED(s.status)) {
    format_text(json, sizeof json, "{\"kind\":\"signal\",\"signal\":%d}", WTERMSIG(s.status));
    code = 128 + WTERMSIG(s.status);
  } else {
    if (code < 0) code = WEXITSTATUS(s.status);
    format_text(json, sizeof json, "{\"kind\":\"code\",\"code\":%d%s}", code, killed ? "" : ",\"tree\":false");
  }
  frame(3, json, (uint32_t)strlen(json));
  for (;;) {
    flush_out();
    if (s.left || out_len == 0) return code;
    struct pollfd f[2] = {{.fd = 1, .events = POLLOUT}, {.fd = 0, .events = POLLIN}};
    poll(f, 2, -1);
    if (f[1].revents) listen_to_client();
  }
}

/* Says when the loop has to look again at the latest; -1 is never. */
static int wait_ms(int64_t now) {
  int64_t next = -1;
  if (s.ending) next = s.term_at + TERM_GRACE_MS;
  else if (s.gone) next = s.heard_at + SILENCE_MS;
  else next = s.deadline;
  if (next < 0) return -1;
  int64_t wait = next - now;
  return wait < 1 ? 1 : wait > 60000 ? 60000 : (int)wait;
}

/* True when it is time to end whatever of the tree is left. */
static bool step(void) {
  int64_t now = now_ms();
  bool empty = false;
  if (s.signalled || now - s.reaped_at >= REAP_MS) {
    s.signalled = false;
    s.reaped_at = now;
    empty = tree_reap(s.main, &s.status);
  }
  if (!s.gone && (empty || s.status != NOT_YET)) {
    s.gone = true;
    s.ended_at = s.heard_at = now;
  }
  if (s.left) {
    if (s.why == ENDED && !s.gone) s.why = CANCELLED;
  } else if (s.why == ENDED && !s.gone && s.deadline >= 0 && now >= s.deadline) s.why = TIMEOUT;
  if ((s.why != ENDED || s.left) && !s.ending) {
    s.ending = true;
    s.term_at = now;
    tree_signal(SIGTERM);
  }
  if (empty) return true;
  if (s.ending) return now - s.term_at >= TERM_GRACE_MS;
  if (!s.gone) return false;
  /* The clocks of silence run only while the client takes what there is: a full outbox is not silence. */
  if (out_len > 0) {
    s.heard_at = now;
    return false;
  }
  if (s.out < 0 && s.err < 0) return true;
  return now - s.heard_at >= SILENCE_MS || now - s.ended_at >= LINGER_MS;
}

static void turn(bool dead) {
  struct pollfd f[6] = {
      {.fd = s.left ? -1 : 0, .events = POLLIN},
      {.fd = s.signals, .events = POLLIN},
      {.fd = in_len > in_at ? s.to : -1, .events = POLLOUT},
      {.fd = out_len == 0 ? s.out : -1, .events = POLLIN},
      {.fd = out_len == 0 ? s.err : -1, .events = POLLIN},
      {.fd = out_len > 0 && !s.left ? 1 : -1, .events = POLLOUT},
  };
  poll(f, 6, dead ? SILENCE_MS : wait_ms(now_ms()));
  struct signalfd_siginfo info;
  while (read(s.signals, &info, sizeof info) > 0) s.signalled = true;
  if (f[0].revents) listen_to_client();
  feed();
  flush_out();
  if (out_len == 0 && (s.owed >= INPUT_MAX / 4 || (s.owed > 0 && in_len == 0))) {
    send_credit();
    flush_out();
  }
  if (f[3].revents) take(&s.out, 1);
  if (f[4].revents) take(&s.err, 2);
}

static int supervise(void) {
  while (!step()) turn(false);
  bool killed = tree_kill(KILL_BUDGET_MS, s.main, &s.status);
  /* With the tree gone nobody holds the pipes: they end after what they still hold. */
  int64_t quiet = now_ms();
  while (!s.left && (s.out >= 0 || s.err >= 0 || out_len > 0) && (killed || now_ms() - quiet < LINGER_MS)) turn(true);
  return finish(-1, killed);
}

int mode_run(int argc, char **argv) {
  const char *cwd = NULL;
  int64_t limit = -1;
  int i = 0;
  for (; i < argc && strcmp(argv[i], "--") != 0; i += 2) {
    if (i + 1 < argc && strcmp(argv[i], "--cwd") == 0) cwd = argv[i + 1];
    else if (i + 1 >= argc || strcmp(argv[i], "--timeout-ms") != 0 || !parse_number(argv[i + 1], &limit)) break;
  }
  if (i + 1 >= argc || strcmp(argv[i], "--") != 0) return say(EXIT_USAGE, "usage: run [--timeout-ms N] [--cwd DIR] -- PROGRAM ARGS...");
  struct keep wanted = {.argv = argv + i + 1, .cwd = cwd, .limit_ms = limit};
  return keep_command(&wanted);
}

int keep_command(const struct keep *wanted) {
  close_from(3);
  setsid();
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  prctl(PR_SET_DUMPABLE, 0);
  /* Nothing but a lost client or the limit ends a command early: signals from inside do not reach the supervisor. */
  sigset_t all;
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, NULL);
  signal(SIGPIPE, SIG_IGN);
  s.signals = signalfd(-1, &all, SFD_CLOEXEC | SFD_NONBLOCK);
  s.to = s.out = s.err = -1;
  s.status = NOT_YET;
  s.ooms = oom_kills();
  fcntl(0, F_SETFL, O_NONBLOCK);
  fcntl(1, F_SETFL, O_NONBLOCK);
  s.owed = INPUT_MAX;
  send_credit();
  s.deadline = wanted->limit_ms < 0 ? -1 : now_ms() + wanted->limit_ms;
  int code = start(wanted);
  if (code != 0) {
    tree_kill(KILL_BUDGET_MS, s.main, &s.status);
    return finish(code, true);
  }
  return supervise();
}
