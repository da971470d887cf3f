/* A tool call: one line to the gateway, one line back. A launcher is a link to this program, named as its tool.
 *
 * Standard input goes along when it is a regular file (read without moving its position, so that a shell loop over the same
 * file goes on), or a pipe or socket. The pipe that the command itself was started with is the exception: `run` names it in
 * BEIGE_STDIN, and it is read only when something is in it or it has ended, since nobody may ever end it. */
#include "guest.h"
#include <limits.h>

#define STDIN_MAX (1 << 20)
#define REQUEST_MAX (2 << 20)
#define ANSWER_MAX (16 << 20)
#define INHERITED_WAIT_MS 50

static bool is_inherited(const struct stat *st) {
  char mark[64];
  const char *given = getenv("BEIGE_STDIN");
  format_text(mark, sizeof mark, "%llu:%llu", (unsigned long long)st->st_dev, (unsigned long long)st->st_ino);
  return given != NULL && strcmp(given, mark) == 0;
}

static bool has_input(const struct stat *st) {
  if (S_ISREG(st->st_mode)) return true;
  if (!S_ISFIFO(st->st_mode) && !S_ISSOCK(st->st_mode)) return false;
  if (!is_inherited(st)) return true;
  struct pollfd f = {.fd = 0, .events = POLLIN};
  return poll(&f, 1, INHERITED_WAIT_MS) > 0;
}

/* 1 there was input, 0 there was none, -1 too much or unreadable. */
static int read_input(struct text *input) {
  struct stat st;
  if (fstat(0, &st) != 0 || !has_input(&st)) return 0;
  static char chunk[65536];
  off_t at = S_ISREG(st.st_mode) ? lseek(0, 0, SEEK_CUR) : -1;
  for (;;) {
    ssize_t n = at >= 0 ? pread(0, chunk, sizeof chunk, at) : read(0, chunk, sizeof chunk);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return say(-1, "standard input: %s", strerror(errno));
    if (n == 0) return input->len > 0 || !is_inherited(&st);
    if (at >= 0) at += n;
    if (input->len + (size_t)n > STDIN_MAX) return say(-1, "standard input is more than %d bytes", STDIN_MAX);
    if (!text_add(input, chunk, (size_t)n)) return say(-1, "out of memory");
  }
}

static bool key(struct text *t, const char *name) { return text_add(t, name, strlen(name)); }

static bool add_place(struct text *t) {
  char cwd[PATH_MAX];
  const char *call = getenv("BEIGE_CALL");
  bool ok = true;
  if (call != NULL && *call && strlen(call) <= 128 && utf8_valid(call, strlen(call)))
    ok = key(t, ",\"call\":") && text_string(t, call, strlen(call));
  if (ok && getcwd(cwd, sizeof cwd) != NULL && strlen(cwd) <= 4096 && utf8_valid(cwd, strlen(cwd)))
    ok = key(t, ",\"cwd\":") && text_string(t, cwd, strlen(cwd));
  return ok;
}

static int build(struct text *t, const char *tool, int argc, char **argv) {
  struct text input = {0};
  bool ok = key(t, "{\"type\":\"tool_request\",\"v\":1,\"tool\":") && text_string(t, tool, strlen(tool)) && key(t, ",\"args\":[");
  for (int i = 0; i < argc && ok; i++) {
    if (!utf8_valid(argv[i], strlen(argv[i]))) return say(EXIT_USAGE, "argument %d is not UTF-8 text; pass bytes on standard input", i + 1);
    ok = (i == 0 || key(t, ",")) && text_string(t, argv[i], strlen(argv[i]));
  }
  ok = ok && key(t, "]") && add_place(t);
  int have = ok ? read_input(&input) : 0;
  if (have < 0) return EXIT_USAGE;
  if (have > 0) ok = ok && key(t, ",\"stdin\":\"") && text_base64(t, (uint8_t *)input.data, input.len) && key(t, "\"");
  if (!ok || !key(t, "}\n")) return say(1, "out of memory");
  if (t->len > REQUEST_MAX) return say(EXIT_USAGE, "arguments and standard input are more than %d bytes", REQUEST_MAX);
  return 0;
}

/* 0 when a whole line is there. */
static int read_line(int fd, struct text *line) {
  static char chunk[65536];
  for (;;) {
    ssize_t n = read(fd, chunk, sizeof chunk);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return say(EXIT_GATEWAY, "gateway closed the connection before it answered");
    char *end = memchr(chunk, '\n', (size_t)n);
    size_t take = end != NULL ? (size_t)(end - chunk) : (size_t)n;
    if (line->len + take > ANSWER_MAX) return say(EXIT_GATEWAY, "gateway's answer is more than %d bytes", ANSWER_MAX);
    if (!text_add(line, chunk, take)) return say(1, "out of memory");
    if (end != NULL) return 0;
  }
}

int call_tool(const char *tool, int argc, char **argv) {
  if (*tool == 0 || strlen(tool) > 127 || !utf8_valid(tool, strlen(tool))) return say(EXIT_USAGE, "no tool is named");
  struct text request = {0}, line = {0};
  int code = build(&request, tool, argc, argv);
  if (code != 0) return code;
  int fd = dial();
  if (fd < 0) return say(EXIT_GATEWAY, "gateway does not answer at %s", SOCKET_PATH);
  /* A gateway that refuses may answer before it has read everything: a failed write is told by what it says. */
  void (*was)(int) = signal(SIGPIPE, SIG_IGN);
  write_all(fd, request.data, request.len);
  signal(SIGPIPE, was);
  code = read_line(fd, &line);
  close(fd);
  if (code != 0) return code;
  struct answer a;
  if (!answer_parse(line.data, line.len, &a)) return say(EXIT_GATEWAY, "gateway's answer is not a tool_response");
  if (a.output64 != NULL) write_all(1, a.output64, base64_decode(a.output64, a.output64_len));
  else if (a.output != NULL) write_all(1, a.output, a.output_len);
  if (a.error != NULL && a.error_len > 0) {
    write_all(2, a.error, a.error_len);
    if (a.error[a.error_len - 1] != '\n') write_all(2, "\n", 1);
  }
  return a.exit_code;
}
