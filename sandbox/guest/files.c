/* Plain access to files from inside, where a link can only lead to what the agent may see anyway. */
#include "guest.h"
#include <limits.h>
#include <stdio.h>

#define MAX_DEFAULT (16 << 20)

static char temporary[PATH_MAX];

static int failed(const char *path, int error) {
  int code = error == ENOENT || error == ENOTDIR                      ? EXIT_ABSENT
             : error == EISDIR || error == ENXIO || error == ELOOP    ? EXIT_KIND
             : error == EACCES || error == EPERM || error == EROFS    ? EXIT_REFUSED
             : error == EFBIG                                         ? EXIT_BIG
                                                                      : 1;
  return say(code, "%s: %s", path, strerror(error));
}

/* Takes the options that are numbers off the front; the index of the first word after them, or -1. */
static int options(int argc, char **argv, int64_t *max, int64_t *size) {
  int i = 0;
  for (; i + 1 < argc; i += 2) {
    int64_t *to = strcmp(argv[i], "--max") == 0 ? max : size != NULL && strcmp(argv[i], "--size") == 0 ? size : NULL;
    if (to == NULL) break;
    if (!parse_number(argv[i + 1], to)) return -1;
  }
  if (i < argc && strcmp(argv[i], "--") == 0) i++;
  return i < argc ? i : -1;
}

/* Never waits for a pipe's other end and never opens a device. */
static int open_file(const char *path, struct stat *st) {
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (fd < 0) return -1;
  if (fstat(fd, st) == 0 && S_ISREG(st->st_mode)) return fd;
  int error = S_ISDIR(st->st_mode) ? EISDIR : ENXIO;
  close(fd);
  errno = error;
  return -1;
}

int mode_cat(int argc, char **argv) {
  int64_t max = MAX_DEFAULT, offset = 0, limit = -1;
  int i = options(argc, argv, &max, NULL);
  if (i < 0 || (argc - i != 1 && argc - i != 3)) return say(EXIT_USAGE, "usage: cat [--max BYTES] PATH [OFFSET LIMIT]");
  if (argc - i == 3 && (!parse_number(argv[i + 1], &offset) || !parse_number(argv[i + 2], &limit)))
    return say(EXIT_USAGE, "cat: offset and limit are numbers of bytes");
  struct stat st;
  int fd = open_file(argv[i], &st);
  if (fd < 0) return errno == ENXIO ? say(EXIT_KIND, "%s: not a regular file", argv[i]) : failed(argv[i], errno);
  if (limit < 0 && st.st_size > max) return say(EXIT_BIG, "%s: %lld bytes, more than the limit of %lld", argv[i], (long long)st.st_size, (long long)max);
  int64_t left = limit >= 0 && limit < max ? limit : max;
  if (offset > 0 && lseek(fd, offset, SEEK_SET) < 0) return failed(argv[i], errno);
  static char chunk[65536];
  while (left > 0) {
    ssize_t n = read(fd, chunk, (size_t)(left < (int64_t)sizeof chunk ? left : (int64_t)sizeof chunk));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return failed(argv[i], errno);
    if (n == 0) return 0;
    if (!write_all(1, chunk, (size_t)n)) return 1;
    left -= n;
  }
  /* A file that grows, or one of /proc that says size 0, meets the limit here. */
  if (limit < 0 && read(fd, chunk, 1) > 0) return say(EXIT_BIG, "%s: more than the limit of %lld bytes", argv[i], (long long)max);
  return 0;
}

/* The file that a link leads to in the end, there or not: a write through a link keeps the link. */
static bool follow(const char *path, char *out) {
  if (format_text(out, PATH_MAX, "%s", path) >= PATH_MAX) return errno = ENAMETOOLONG, false;
  for (int hops = 0; hops < 40; hops++) {
    char target[PATH_MAX], joined[PATH_MAX];
    ssize_t n = readlink(out, target, sizeof target - 1);
    if (n < 0) return true;
    target[n] = 0;
    char *slash = strrchr(out, '/');
    int folder = target[0] == '/' || slash == NULL ? 0 : (int)(slash - out) + 1;
    if (format_text(joined, sizeof joined, "%.*s%s", folder, out, target) >= (int)sizeof joined) return errno = ENAMETOOLONG, false;
    strcpy(out, joined);
  }
  errno = ELOOP;
  return false;
}

static bool make_parents(const char *path) {
  char folder[PATH_MAX];
  if (strlen(path) >= sizeof folder) return errno = ENAMETOOLONG, false;
  strcpy(folder, path);
  for (char *p = strchr(folder + 1, '/'); p != NULL; p = strchr(p + 1, '/')) {
    *p = 0;
    struct stat st;
    if (mkdir(folder, 0777) != 0 && (stat(folder, &st) != 0 || !S_ISDIR(st.st_mode))) return errno = errno == EEXIST ? ENOTDIR : errno, false;
    *p = '/';
  }
  return true;
}

static void drop_temporary(int sig) {
  if (temporary[0]) unlink(temporary);
  _exit(128 + sig);
}

static int open_temporary(const char *path) {
  const char *slash = strrchr(path, '/');
  int folder = slash == NULL ? 0 : (int)(slash - path) + 1;
  if (format_text(temporary, sizeof temporary, "%.*s.beige-put-%d-%llx", folder, path, (int)getpid(), (unsigned long long)now_ms()) >= (int)sizeof temporary)
    return errno = ENAMETOOLONG, -1;
  for (int sig = SIGHUP; sig <= SIGTERM; sig++)
    if (sig == SIGHUP || sig == SIGINT || sig == SIGTERM) signal(sig, drop_temporary);
  int fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666);
  if (fd < 0) temporary[0] = 0;
  return fd;
}

/* All of standard input into the file; the count, or -1 with errno. */
static int64_t fill(int fd, int64_t max) {
  static char chunk[65536];
  int64_t total = 0;
  for (;;) {
    ssize_t n = read(0, chunk, sizeof chunk);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return -1;
    if (n == 0) return total;
    total += n;
    if (total > max) return errno = EFBIG, -1;
    if (!write_all(fd, chunk, (size_t)n)) return -1;
  }
}

static int give_up(const char *path, int error) {
  unlink(temporary);
  return failed(path, error);
}

int mode_put(int argc, char **argv) {
  int64_t max = MAX_DEFAULT, size = -1;
  int i = options(argc, argv, &max, &size);
  if (i < 0 || argc - i != 1) return say(EXIT_USAGE, "usage: put [--max BYTES] [--size BYTES] PATH");
  char path[PATH_MAX];
  struct stat old;
  if (argv[i][0] == 0) return failed(argv[i], ENOENT);
  if (!follow(argv[i], path)) return failed(argv[i], errno);
  bool there = stat(path, &old) == 0;
  if (there && S_ISDIR(old.st_mode)) return failed(argv[i], EISDIR);
  if (there && !S_ISREG(old.st_mode)) return say(EXIT_KIND, "%s: not a regular file", argv[i]);
  /* A rename would get past a file that may not be written. */
  if (there && access(path, W_OK) != 0) return failed(argv[i], errno);
  if (path[strlen(path) - 1] == '/') return failed(argv[i], EISDIR);
  if (!there && !make_parents(path)) return failed(argv[i], errno);
  int fd = open_temporary(path);
  if (fd < 0) return failed(argv[i], errno);
  int64_t got = fill(fd, max);
  if (got < 0) return give_up(argv[i], errno);
  if (size >= 0 && got != size) {
    unlink(temporary);
    return say(1, "%s: got %lld of %lld bytes, nothing written", argv[i], (long long)got, (long long)size);
  }
  if (there && fchown(fd, old.st_uid, old.st_gid) != 0) errno = 0; /* only root can, and only then does it matter */
  if (there && fchmod(fd, old.st_mode & 07777) != 0) return give_up(argv[i], errno);
  if (close(fd) != 0 || rename(temporary, path) != 0) return give_up(argv[i], errno);
  temporary[0] = 0;
  return 0;
}

int mode_stat(int argc, char **argv) {
  if (argc != 1) return say(EXIT_USAGE, "usage: stat PATH");
  struct stat st;
  if (lstat(argv[0], &st) != 0) return failed(argv[0], errno);
  const char *type = S_ISREG(st.st_mode) ? "file" : S_ISDIR(st.st_mode) ? "folder" : S_ISLNK(st.st_mode) ? "link" : "other";
  char line[256];
  int n = format_text(line, sizeof line, "{\"type\":\"%s\",\"size\":%lld,\"mode\":\"%04o\",\"uid\":%u,\"gid\":%u,\"mtimeMs\":%lld}\n", type, (long long)st.st_size,
                   (unsigned)(st.st_mode & 07777), (unsigned)st.st_uid, (unsigned)st.st_gid,
                   (long long)st.st_mtim.tv_sec * 1000 + st.st_mtim.tv_nsec / 1000000);
  return write_all(1, line, (size_t)n) ? 0 : 1;
}
