/* What the guest's files share: small helpers and the entry of each mode. */
#ifndef BEIGE_GUEST_H
#define BEIGE_GUEST_H
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define SOCKET_PATH "/beige/gateway.sock"
/* Output goes in pieces of so much at most: with the head of its frame (wire.h) it is what the gateway reads at once. */
#define PIECE_MAX 65504
/* Children that have ended are looked for when a signal says so, and that long after the last look anyway. */
#define REAP_MS 20
/* Exit codes of the guest's own modes, beside the usual 0 and 1. */
#define EXIT_USAGE 2
#define EXIT_ABSENT 3   /* no such file */
#define EXIT_KIND 4     /* a folder, a device, not what was asked for */
#define EXIT_REFUSED 5  /* permission, read-only file system */
#define EXIT_BIG 6      /* over the limit that the caller gave */
#define EXIT_GATEWAY 69 /* the gateway does not answer */

/* guest.c */
int64_t now_ms(void);
/* Makes room for more in a pipe, where that is allowed: fewer turns for the same bytes. */
void widen(int fd);
void close_from(int fd);
bool write_all(int fd, const void *data, size_t len);
int say(int code, const char *format, ...) __attribute__((format(printf, 2, 3)));
bool parse_number(const char *text, int64_t *out);
int64_t read_number(const char *text);
int dial_to(const char *path, int flags);
int dial(void);
int dial_now(void);
void be_called(const char *mode);

/* format.c: as snprintf does. */
int format_text(char *to, size_t size, const char *format, ...) __attribute__((format(printf, 3, 4)));
int format_list(char *to, size_t size, const char *format, va_list args) __attribute__((format(printf, 3, 0)));

/* tree.c: everything that descends from this process. */
int tree_signal(int sig);
bool tree_reap(pid_t main, int *status);
bool tree_kill(int budget_ms, pid_t main, int *status);
bool tree_alone(void);
int tree_sweep(bool (*belongs)(pid_t));
int64_t oom_kills(void);

/* json.c */
struct text {
  char *data;
  size_t len, cap;
};
bool text_add(struct text *t, const void *data, size_t len);
bool text_string(struct text *t, const char *value, size_t len);
bool text_base64(struct text *t, const uint8_t *data, size_t len);
bool utf8_valid(const char *text, size_t len);
size_t base64_decode(char *text, size_t len);
struct answer {
  char *type, *output, *output64, *error;
  size_t output_len, output64_len, error_len;
  int exit_code;
};
bool answer_parse(char *line, size_t len, struct answer *out);

/* run.c: standard input and output are the keeper's frames; answers the exit code. */
struct keep {
  char **argv;
  const char *cwd;
  int64_t limit_ms;
  /* With a terminal of its own, of this size. */
  bool terminal;
  uint16_t rows, columns;
  bool wide; /* may have larger pipes: a user has only so much of them */
};
int keep_command(const struct keep *wanted);
/* filter.c: what PID 1 gives away for good, where no engine took it. */
bool filter_calls(void);
bool limit_processes(int64_t most);
/* relay.c: the way out, a child of PID 1. */
void relay_keep(void);
int64_t relay_due(void);
bool relay_is(pid_t pid);
bool relay_reaped(pid_t pid, int status);
/* serve.c: the gateway's commands to PID 1. */
void serve_begin(void);
int serve_poll(struct pollfd *to);
void serve_work(const struct pollfd *from, int count);
int64_t serve_due(void);

int mode_init(int argc, char **argv);
int mode_run(int argc, char **argv);
int mode_cat(int argc, char **argv);
int mode_put(int argc, char **argv);
int mode_stat(int argc, char **argv);
int call_tool(const char *tool, int argc, char **argv);
#endif
