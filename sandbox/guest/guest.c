/* The one program inside a sandbox: PID 1, supervisor of commands, file access and client of tools. It runs as the agent's
 * user, so nothing that it says is trusted; it imports nothing and needs nothing of the image.
 *
 *   tool-client init [--processes N] [--filter]        PID 1, and the keeper of commands (init.c, serve.c, filter.c)
 *   tool-client run [--timeout-ms N] [--cwd DIR] -- PROGRAM ARGS...   one command under `docker exec` (run.c)
 *   tool-client cat [--max BYTES] PATH [OFFSET LIMIT]  bytes of a file to standard output (files.c)
 *   tool-client put [--max BYTES] [--size BYTES] PATH  standard input becomes the file, whole or not at all
 *   tool-client stat PATH                              one line of JSON
 *   tool-client call TOOL ARGS...                      a tool call (client.c); a launcher is a link named TOOL
 *
 * cat, put and stat exit 3 no such file, 4 wrong kind of file, 5 not permitted, 6 over the limit, 2 usage, 1 anything else. */
#include "guest.h"
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>

int64_t now_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* Whatever the parent left open by mistake must not reach a command. */
void close_from(int fd) {
  if (syscall(436 /* close_range */, (unsigned)fd, ~0u, 0) == 0) return;
  struct rlimit most = {.rlim_cur = 1024};
  getrlimit(RLIMIT_NOFILE, &most);
  for (int i = fd; i < 65536 && (rlim_t)i < most.rlim_cur; i++) close(i);
}

void widen(int fd) { fcntl(fd, F_SETPIPE_SZ, 262144); }

bool write_all(int fd, const void *data, size_t len) {
  const char *p = data;
  while (len > 0) {
    ssize_t n = write(fd, p, len);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) {
      struct pollfd f = {.fd = fd, .events = POLLOUT};
      poll(&f, 1, -1);
      continue;
    }
    if (n <= 0) return false;
    p += n;
    len -= (size_t)n;
  }
  return true;
}

/* One line on standard error; answers `code` so that callers can return it. */
int say(int code, const char *format, ...) {
  char line[1024] = "beige: ";
  va_list args;
  va_start(args, format);
  format_list(line + 7, sizeof line - 8, format, args);
  va_end(args);
  size_t len = strlen(line);
  line[len] = '\n';
  write_all(2, line, len + 1);
  return code;
}

bool parse_number(const char *text, int64_t *out) {
  if (text == NULL || *text == 0 || strlen(text) > 15) return false;
  int64_t value = 0;
  for (const char *p = text; *p; p++) {
    if (*p < '0' || *p > '9') return false;
    value = value * 10 + (*p - '0');
  }
  *out = value;
  return true;
}

/* The number at the start of a text, as strtoll reads it; of the digits that are too many only the first count. */
int64_t read_number(const char *text) {
  while (*text == ' ') text++;
  bool negative = *text == '-';
  if (negative) text++;
  int64_t value = 0;
  for (int n = 0; *text >= '0' && *text <= '9' && n < 18; n++) value = value * 10 + (*text++ - '0');
  return negative ? -value : value;
}

int dial_to(const char *path, int flags) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  if (strlen(path) >= sizeof address.sun_path) return -1;
  strcpy(address.sun_path, path);
  int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | flags, 0);
  if (fd < 0) return -1;
  if (connect(fd, (struct sockaddr *)&address, sizeof address) == 0) return fd;
  close(fd);
  return -1;
}

static int dial_as(int flags) {
  const char *path = getenv("BEIGE_SOCKET");
  return dial_to(path == NULL || *path == 0 ? SOCKET_PATH : path, flags);
}

/* A connection to the gateway, or -1. BEIGE_SOCKET is for backends that cannot mount a folder at /beige. */
int dial(void) { return dial_as(0); }

/* The same for PID 1, which must not wait for a gateway that accepts nothing. */
int dial_now(void) { return dial_as(SOCK_NONBLOCK); }

static char *mode_word;

/* For whoever lists processes: the word after the program's name. It takes the place of one that is as long. */
void be_called(const char *mode) {
  if (mode_word != NULL && strlen(mode_word) == strlen(mode)) memcpy(mode_word, mode, strlen(mode));
}

static bool is_own_name(const char *name) { return strcmp(name, "tool-client") == 0 || strncmp(name, "beige-guest", 11) == 0; }

int main(int argc, char **argv) {
  const char *slash = argc > 0 ? strrchr(argv[0], '/') : NULL;
  const char *name = slash ? slash + 1 : argc > 0 ? argv[0] : "";
  if (!is_own_name(name)) return call_tool(name, argc - 1, argv + 1);
  const char *mode = argc > 1 ? argv[1] : "";
  mode_word = argc > 1 ? argv[1] : NULL;
  if (strcmp(mode, "init") == 0) return mode_init(argc - 2, argv + 2);
  if (strcmp(mode, "run") == 0) return mode_run(argc - 2, argv + 2);
  if (strcmp(mode, "cat") == 0) return mode_cat(argc - 2, argv + 2);
  if (strcmp(mode, "put") == 0) return mode_put(argc - 2, argv + 2);
  if (strcmp(mode, "stat") == 0) return mode_stat(argc - 2, argv + 2);
  if (strcmp(mode, "call") == 0 && argc > 2) return call_tool(argv[2], argc - 3, argv + 3);
  return say(EXIT_USAGE, "usage: tool-client init | run | cat | put | stat | call TOOL ARGS...");
}
