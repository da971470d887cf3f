/* Commands between their keepers and the gateway: rings of output that wait to be acknowledged, input by credit, exits that are
 * said until they are forgotten. Memory is bounded: a command whose ring is full is not read. */
#include "jobs.h"

#define SEGMENTS 1024
#define WINDOW_DEFAULT 262144
#define WINDOW_MAX 1048576
#define WINDOW_MIN 16384
/* Of all rings together: each new command gets at most a quarter of what is left. */
#define RINGS_MAX 16777216
/* Past its limit, or past a kill, a keeper has to have ended its command within this, or is ended itself. */
#define LATE_MS 5000
#define STDIN_MAX 65536
#define SPEC_MAX 1048576
#define SPEC_HEAD 24
/* No id may use up all that are left. */
#define STEP_MAX 65536
#define KEEPER_HEAD 5
#define STAGE_MAX (KEEPER_HEAD + 16384)
#define EXIT_MAX 200
#define TERMINAL 1
#define NO_STDIN 2
#define SIGNAL_MAX 63
_Static_assert(PIECE_MAX + WIRE_HEAD == WIRE_OUT_MAX, "a piece and its head are one read");
/* So many commands at once have larger pipes. */
#define WIDE_MAX 4

struct segment {
  uint64_t end;
  uint8_t stream;
};

struct job {
  uint32_t cmd; /* 0: the slot is free */
  pid_t keeper;
  int64_t due;
  int to, from;
  uint8_t *spec;
  uint32_t spec_len, spec_got;
  /* Output: bytes acked..total are in the ring, those up to `sent` were sent on this connection. */
  uint8_t *ring;
  uint32_t window;
  uint64_t acked, sent, total;
  struct segment *segments;
  uint32_t segment_at, segment_count;
  /* The keeper's frame that is being read. */
  uint8_t head[KEEPER_HEAD], small[EXIT_MAX];
  uint32_t head_len, small_len, left;
  char exit[EXIT_MAX];
  uint32_t exit_len;
  /* Input: bytes up to `in_got` came, up to `in_done` are with the keeper. */
  uint8_t *input;
  uint64_t in_got, in_done, in_total;
  bool in_ends, in_ended, cancel, cancelled, resize;
  uint16_t rows, columns;
  uint64_t signals; /* bit N: signal N waits to be sent */
  uint32_t credit;
  uint8_t stage[STAGE_MAX];
  uint32_t stage_at, stage_len;
  bool resumed, exited, say_started, say_input, say_exit;
};

static struct job *jobs[JOBS_MAX];
/* Keepers that have not ended yet although their commands are forgotten; what they leave behind must be known to be left. */
static pid_t leaving[JOBS_MAX];
static uint32_t last, turn;
static uint32_t rings;
static bool orphans;

static struct job *find(uint32_t cmd) {
  for (int i = 0; i < JOBS_MAX; i++)
    if (jobs[i] != NULL && jobs[i]->cmd == cmd) return jobs[i];
  return NULL;
}

static void shut(int *fd) {
  if (*fd >= 0) close(*fd);
  *fd = -1;
}

static void forget(struct job *j) {
  int free_one = 0;
  while (free_one < JOBS_MAX && leaving[free_one] > 0) free_one++;
  if (j->keeper > 0 && free_one < JOBS_MAX) leaving[free_one] = j->keeper;
  shut(&j->to);
  shut(&j->from);
  free(j->spec);
  if (j->ring != NULL) rings -= j->window;
  free(j->ring);
  free(j->segments);
  free(j->input);
  for (int i = 0; i < JOBS_MAX; i++)
    if (jobs[i] == j) jobs[i] = NULL;
  free(j);
}

static void ended(struct job *j, const char *json, size_t len) {
  if (j->exited) return;
  j->exit_len = len < EXIT_MAX ? (uint32_t)len : EXIT_MAX;
  memcpy(j->exit, json, j->exit_len);
  /* The keeper gave up on something: it is ours now. */
  if (memmem(json, j->exit_len, "\"tree\":false", 12) != NULL) orphans = true;
  j->exited = j->say_exit = true;
  shut(&j->to);
  shut(&j->from);
}

static void lost(struct job *j, const char *reason) {
  char json[EXIT_MAX];
  int len = format_text(json, sizeof json, "{\"kind\":\"lost\",\"reason\":\"%s\"}", reason);
  ended(j, json, (size_t)len);
}

/* --- starting ---------------------------------------------------------------------------------------------------- */

/* The strings of a spec, in place; NULL when they do not fit what its head says. */
static char **words_of(const struct job *j, uint32_t argc, uint32_t envc) {
  uint32_t count = 1 + argc + envc, n = 0;
  if (argc == 0 || j->spec_len <= SPEC_HEAD || j->spec[j->spec_len - 1] != 0) return NULL;
  char **words = malloc((count + 2) * sizeof *words);
  if (words == NULL) return NULL;
  char *p = (char *)j->spec + SPEC_HEAD, *end = (char *)j->spec + j->spec_len;
  while (p < end && n < count) {
    words[n++] = p;
    p += strlen(p) + 1;
  }
  if (n == count && p == end) return words;
  free(words);
  return NULL;
}

static bool wide(void) {
  int count = 0;
  for (int i = 0; i < JOBS_MAX; i++) count += jobs[i] != NULL && !jobs[i]->exited;
  return count <= WIDE_MAX;
}

/* In the keeper: it keeps nothing of PID 1 but its standard error. */
static void keep(struct job *j, char **words, const int *fds, uint16_t argc, uint16_t envc) {
  dup2(fds[0], 0);
  dup2(fds[1], 1);
  be_called("keep");
  for (uint32_t i = 0; i < envc; i++) putenv(words[1 + argc + i]);
  words[1 + argc] = NULL;
  uint32_t limit = load32(j->spec + 4);
  struct keep wanted = {.argv = words + 1, .cwd = words[0][0] ? words[0] : NULL, .limit_ms = limit == 0 ? -1 : (int64_t)limit,
                        .terminal = j->spec[12] & TERMINAL, .rows = load16(j->spec + 14), .columns = load16(j->spec + 16), .wide = wide()};
  _exit(keep_command(&wanted));
}

static uint32_t window_of(uint32_t wanted) {
  uint32_t window = wanted == 0 ? WINDOW_DEFAULT : wanted > WINDOW_MAX ? WINDOW_MAX : wanted, most = (RINGS_MAX - rings) / 4;
  if (rings >= RINGS_MAX || most < WINDOW_MIN) most = WINDOW_MIN;
  return window < most ? window : most;
}

static void start(struct job *j) {
  uint16_t argc = load16(j->spec + 18), envc = load16(j->spec + 20);
  j->window = window_of(load32(j->spec + 8));
  if (j->spec[12] & NO_STDIN) j->in_ends = true;
  char **words = words_of(j, argc, envc);
  j->ring = malloc(j->window);
  if (j->ring != NULL) rings += j->window;
  j->segments = malloc(SEGMENTS * sizeof *j->segments);
  int in[2] = {-1, -1}, out[2] = {-1, -1};
  j->say_started = true;
  if (words == NULL || j->ring == NULL || j->segments == NULL || pipe2(in, O_CLOEXEC) || pipe2(out, O_CLOEXEC)) {
    shut(&in[0]);
    shut(&in[1]);
    free(words);
    lost(j, words == NULL ? "the command's words could not be read" : "no memory or descriptors for another command");
    return;
  }
  uint32_t limit = load32(j->spec + 4);
  j->due = limit == 0 ? -1 : now_ms() + limit + LATE_MS;
  j->keeper = fork();
  if (j->keeper == 0) keep(j, words, (int[]){in[0], out[1]}, argc, envc);
  free(words);
  close(in[0]);
  close(out[1]);
  j->to = in[1];
  j->from = out[0];
  if (wide()) widen(j->from);
  fcntl(j->to, F_SETFL, O_NONBLOCK);
  fcntl(j->from, F_SETFL, O_NONBLOCK);
  free(j->spec);
  j->spec = NULL;
  if (j->keeper < 0) lost(j, "no process could be made for the command");
}

static bool take_spec(const struct frame *f) {
  struct job *j = find(f->cmd);
  if (j == NULL && f->cmd <= last) return true; /* forgotten: the gateway learns it from the hello */
  if (j == NULL) {
    if (f->off != 0 || f->len < SPEC_HEAD || f->cmd - last > STEP_MAX) return false;
    uint32_t len = load32(f->data);
    int slot = 0;
    while (slot < JOBS_MAX && jobs[slot] != NULL) slot++;
    if (len < f->len || len > SPEC_MAX) return false;
    /* Not answered, so that the gateway's own limit ends it: opening anew would not make room. */
    if (slot == JOBS_MAX || (j = calloc(1, sizeof *j)) == NULL) {
      last = f->cmd;
      return true;
    }
    j->to = j->from = -1;
    j->due = -1;
    j->cmd = f->cmd;
    j->spec = malloc(len);
    j->spec_len = len;
    jobs[slot] = j;
    if (j->spec == NULL) {
      last = f->cmd;
      lost(j, "no memory for the command's words");
    }
    j->resumed = true;
  }
  if (f->cmd <= last || j->spec == NULL) {
    j->say_started = true;
    j->say_exit = j->exited;
    return true;
  }
  if (f->off > j->spec_got || f->off + f->len > j->spec_len) return false;
  memcpy(j->spec + f->off, f->data, f->len);
  if (f->off + f->len > j->spec_got) j->spec_got = (uint32_t)f->off + f->len;
  if (j->spec_got < j->spec_len) return true;
  last = f->cmd;
  start(j);
  return true;
}

/* --- input ------------------------------------------------------------------------------------------------------- */

static bool take_input(struct job *j, const struct frame *f) {
  if (j->exited || j->in_ends) return true;
  if (f->off > j->in_got) return false;
  uint64_t known = j->in_got - f->off;
  j->say_input = true;
  if (known >= f->len) return true;
  uint32_t len = f->len - (uint32_t)known;
  if (j->in_got + len - j->in_done > STDIN_MAX) return false;
  if (j->input == NULL && (j->input = malloc(STDIN_MAX)) == NULL) return false;
  for (uint32_t i = 0; i < len; i++) j->input[(j->in_got + i) % STDIN_MAX] = f->data[known + i];
  j->in_got += len;
  return true;
}

static void stage(struct job *j, uint8_t type, uint32_t len) {
  j->stage[0] = type;
  for (int i = 0; i < 4; i++) j->stage[1 + i] = (uint8_t)(len >> (24 - 8 * i));
  j->stage_at = 0;
  j->stage_len = KEEPER_HEAD + len;
}

/* Makes the next frame for the keeper; false when there is none to make. */
static bool next_stage(struct job *j) {
  if (j->cancel && !j->cancelled) {
    j->cancelled = true;
    stage(j, 2, 0);
    return true;
  }
  if (j->signals != 0) {
    uint32_t sig = (uint32_t)__builtin_ctzll(j->signals);
    j->signals &= j->signals - 1;
    store32(j->stage + KEEPER_HEAD, sig);
    stage(j, 3, 4);
    return true;
  }
  if (j->resize) {
    j->resize = false;
    store32(j->stage + KEEPER_HEAD, (uint32_t)j->rows | (uint32_t)j->columns << 16);
    stage(j, 4, 4);
    return true;
  }
  uint64_t have = j->in_got - j->in_done;
  uint32_t len = have < 16384 ? (uint32_t)have : 16384;
  if (len > j->credit) len = j->credit;
  if (len > 0) {
    for (uint32_t i = 0; i < len; i++) j->stage[KEEPER_HEAD + i] = j->input[(j->in_done + i) % STDIN_MAX];
    j->in_done += len;
    j->credit -= len;
    j->say_input = true;
    stage(j, 0, len);
    return true;
  }
  if (!j->in_ends || j->in_ended || have > 0 || j->in_done < j->in_total) return false;
  j->in_ended = true;
  stage(j, 1, 0);
  return true;
}

static void feed(struct job *j) {
  while (j->to >= 0 && (j->stage_at < j->stage_len || next_stage(j))) {
    ssize_t n = write(j->to, j->stage + j->stage_at, j->stage_len - j->stage_at);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) return;
    if (n <= 0) shut(&j->to);
    else j->stage_at += (uint32_t)n;
  }
}

/* --- output ------------------------------------------------------------------------------------------------------ */

static struct segment *segment(struct job *j, uint32_t i) { return &j->segments[(j->segment_at + i) % SEGMENTS]; }

/* For bytes that are in the ring. */
static void add_segment(struct job *j, uint8_t stream, uint32_t len) {
  if (len == 0) return;
  j->total += len;
  struct segment *newest = j->segment_count > 0 ? segment(j, j->segment_count - 1) : NULL;
  if (newest != NULL && newest->stream == stream) newest->end = j->total;
  else *segment(j, j->segment_count++) = (struct segment){.end = j->total, .stream = stream};
}

static void add_output(struct job *j, uint8_t stream, const uint8_t *data, uint32_t len) {
  if (len == 0) return;
  uint32_t at = (uint32_t)(j->total % j->window), first = j->window - at < len ? j->window - at : len;
  memcpy(j->ring + at, data, first);
  memcpy(j->ring, data + first, len - first);
  add_segment(j, stream, len);
}

static void small_frame(struct job *j) {
  const uint8_t *p = j->small;
  if (j->head[0] == 4 && j->small_len == 4) j->credit += (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
  if (j->head[0] == 3) ended(j, (const char *)p, j->small_len);
  j->small_len = 0;
}

/* How much may be read of the keeper: never more than the ring takes, nor more frames than there are segments for. */
static uint32_t room(const struct job *j) {
  uint32_t bytes = j->window - (uint32_t)(j->total - j->acked);
  uint32_t frames = j->segment_count + 2 > SEGMENTS ? 0 : (SEGMENTS - 1 - j->segment_count) * (KEEPER_HEAD + 1);
  return bytes < frames ? bytes : frames;
}

static void parse_keeper(struct job *j, const uint8_t *data, size_t len) {
  while (len > 0 && j->from >= 0) {
    if (j->head_len < KEEPER_HEAD) {
      j->head[j->head_len++] = *data++;
      len--;
      if (j->head_len == KEEPER_HEAD)
        j->left = (uint32_t)j->head[1] << 24 | (uint32_t)j->head[2] << 16 | (uint32_t)j->head[3] << 8 | j->head[4];
      continue;
    }
    uint32_t n = len < j->left ? (uint32_t)len : j->left;
    /* Output is taken in the parts that come; a small frame is put together first. */
    if (j->head[0] == 1 || j->head[0] == 2) {
      add_output(j, j->head[0], data, n);
    } else {
      uint32_t fits = n < sizeof j->small - j->small_len ? n : (uint32_t)sizeof j->small - j->small_len;
      memcpy(j->small + j->small_len, data, fits);
      j->small_len += fits;
      if (n == j->left) small_frame(j);
    }
    j->left -= n;
    data += n;
    len -= n;
    if (j->left == 0) j->head_len = 0;
  }
}

/* In the middle of a long piece of output it goes straight into the ring, and the head of the next piece behind it. */
static ssize_t read_on(struct job *j) {
  uint32_t free = j->window - (uint32_t)(j->total - j->acked), take = j->left < free ? j->left : free, at = (uint32_t)(j->total % j->window), first = j->window - at < take ? j->window - at : take;
  struct iovec to[3] = {{.iov_base = j->ring + at, .iov_len = first}, {.iov_base = j->ring, .iov_len = take - first}};
  uint8_t next[KEEPER_HEAD];
  to[2] = (struct iovec){.iov_base = next, .iov_len = take == j->left ? KEEPER_HEAD : 0};
  ssize_t n = readv(j->from, to, 3);
  if (n <= 0) return n;
  uint32_t got = n < (ssize_t)take ? (uint32_t)n : take;
  add_segment(j, j->head[0], got);
  j->left -= got;
  if (j->left > 0) return n;
  j->head_len = 0;
  parse_keeper(j, next, (size_t)n - got);
  return n;
}

static void hear(struct job *j) {
  static uint8_t chunk[4096];
  uint32_t want = room(j);
  if (want == 0) return;
  if (j->head_len == KEEPER_HEAD && (j->head[0] == 1 || j->head[0] == 2) && j->left > 0) {
    ssize_t n = read_on(j);
    if (n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR))) return;
    want = 1;
  }
  ssize_t n = read(j->from, chunk, want < sizeof chunk ? want : sizeof chunk);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (n > 0) {
    parse_keeper(j, chunk, (size_t)n);
    return;
  }
  lost(j, "its keeper was ended from inside the sandbox");
  orphans = true;
}

static bool take_ack(struct job *j, uint64_t off) {
  if (off > j->total) return false;
  if (off > j->acked) j->acked = off;
  if (j->sent < j->acked) j->sent = j->acked;
  while (j->segment_count > 0 && segment(j, 0)->end <= j->acked) {
    j->segment_at = (j->segment_at + 1) % SEGMENTS;
    j->segment_count--;
  }
  return true;
}

static bool resume(struct job *j, uint64_t off) {
  if (off < j->acked || off > j->total) return false;
  j->sent = off;
  j->resumed = true;
  j->say_started = j->say_input = true;
  j->say_exit = j->exited;
  return true;
}

/* Whether more comes for sure, and there is room for it: its keeper is in the middle of a piece. */
static bool goes_on(const struct job *j) { return !j->exited && j->left > 0 && j->head_len == KEEPER_HEAD && room(j) > 0; }

static bool send_output(struct job *j, int fd, uint32_t sess) {
  if (!j->resumed || j->sent >= j->total) return false;
  if (j->total - j->sent < PIECE_MAX && goes_on(j)) return false;
  uint32_t i = 0;
  while (segment(j, i)->end <= j->sent) i++;
  uint64_t len = segment(j, i)->end - j->sent;
  if (len > PIECE_MAX) len = PIECE_MAX;
  struct frame f = {.type = 'o', .stream = segment(j, i)->stream, .cmd = j->cmd, .len = (uint32_t)len, .sess = sess, .off = j->sent};
  uint32_t at = (uint32_t)(j->sent % j->window), first = j->window - at < len ? j->window - at : (uint32_t)len;
  struct iovec data[2] = {{.iov_base = j->ring + at, .iov_len = first}, {.iov_base = j->ring, .iov_len = len - first}};
  if (!wire_send(fd, &f, data)) return false;
  j->sent += len;
  return true;
}

static void say_small(struct job *j, uint32_t sess) {
  if (j->say_started && wire_put('e', 0, j->cmd, j->window, 0, sess) != NULL) j->say_started = false;
  if (j->say_input && wire_put('i', 0, j->cmd, j->in_done, 0, sess) != NULL) j->say_input = false;
  if (!j->say_exit || !j->resumed || j->sent < j->total) return;
  uint8_t *to = wire_put('x', 0, j->cmd, j->total, j->exit_len, sess);
  if (to == NULL) return;
  memcpy(to, j->exit, j->exit_len);
  j->say_exit = false;
}

bool jobs_tell(int fd, uint32_t sess) {
  for (uint32_t i = 0; i < JOBS_MAX; i++)
    if (jobs[i] != NULL) say_small(jobs[i], sess);
  for (uint32_t i = 0; i < JOBS_MAX; i++) {
    struct job *j = jobs[(turn + i) % JOBS_MAX];
    if (j == NULL || !send_output(j, fd, sess)) continue;
    say_small(j, sess);
    turn = (turn + i + 1) % JOBS_MAX;
    return true;
  }
  return false;
}

/* --- the gateway's frames, and the loop -------------------------------------------------------------------------- */

static bool take_signal(struct job *j, const struct frame *f) {
  uint32_t sig = f->len == 4 ? load32(f->data) : 0;
  if (sig == 0 || sig > SIGNAL_MAX) return false;
  if (!j->exited) j->signals |= 1ull << sig;
  return true;
}

bool jobs_take(const struct frame *f) {
  if (f->type == 'E') return take_spec(f);
  struct job *j = find(f->cmd);
  if (j == NULL) return true; /* of a command that was forgotten meanwhile */
  switch (f->type) {
    case 'I': return take_input(j, f);
    case 'Z':
      if (f->off > j->in_got) return false;
      j->in_total = f->off;
      j->in_ends = true;
      return true;
    case 'A': return take_ack(j, f->off);
    case 'R': return resume(j, f->off);
    case 'K':
      if (!j->cancel) j->due = now_ms() + LATE_MS;
      j->cancel = true;
      return true;
    case 'S': return take_signal(j, f);
    case 'W':
      if (f->len != 4) return false;
      j->rows = load16(f->data);
      j->columns = load16(f->data + 2);
      j->resize = true;
      return true;
    case 'F':
      if (j->exited) forget(j);
      return true;
    default: return false;
  }
}

void jobs_pause(void) {
  for (int i = 0; i < JOBS_MAX; i++) {
    struct job *j = jobs[i];
    if (j == NULL) continue;
    j->resumed = j->say_started = j->say_input = j->say_exit = false;
    /* Half a spec cannot be gone on with: the gateway sends it anew. */
    if (j->cmd > last) forget(j);
  }
}

size_t jobs_list(uint8_t *to) {
  size_t n = 0;
  for (int i = 0; i < JOBS_MAX; i++) {
    const struct job *j = jobs[i];
    if (j == NULL) continue;
    if (to != NULL) {
      uint8_t *row = to + n;
      memset(row, 0, 36);
      store32(row, j->cmd);
      row[4] = j->exited;
      store64(row + 12, j->acked);
      store64(row + 20, j->total);
      store64(row + 28, j->in_got);
    }
    n += 36;
  }
  return n;
}

uint32_t jobs_last(void) { return last; }

int jobs_poll(struct pollfd *to) {
  int n = 0;
  for (int i = 0; i < JOBS_MAX; i++) {
    struct job *j = jobs[i];
    if (j == NULL) continue;
    if (j->from >= 0 && room(j) > 0) to[n++] = (struct pollfd){.fd = j->from, .events = POLLIN};
    if (j->to >= 0 && j->stage_at < j->stage_len) to[n++] = (struct pollfd){.fd = j->to, .events = POLLOUT};
  }
  return n;
}

/* A keeper that does not end its command although nothing hinders it: the command must have seen to that. */
static void overdue(struct job *j, int64_t now) {
  j->due = j->exited ? -1 : now + LATE_MS;
  if (j->exited || room(j) == 0) return;
  if (j->keeper > 0) kill(j->keeper, SIGKILL);
  lost(j, "its keeper did not end it in time");
  orphans = true;
}

void jobs_work(const struct pollfd *from, int count) {
  for (int n = 0; n < count; n++) {
    if (!from[n].revents) continue;
    for (int i = 0; i < JOBS_MAX; i++) {
      struct job *j = jobs[i];
      if (j != NULL && j->from == from[n].fd) hear(j);
    }
  }
  int64_t now = now_ms();
  for (int i = 0; i < JOBS_MAX; i++) {
    if (jobs[i] == NULL) continue;
    feed(jobs[i]);
    if (jobs[i]->due >= 0 && now >= jobs[i]->due) overdue(jobs[i], now);
  }
}

int64_t jobs_due(void) {
  int64_t due = -1;
  for (int i = 0; i < JOBS_MAX; i++) {
    const struct job *j = jobs[i];
    if (j != NULL && !j->exited && j->due >= 0 && (due < 0 || j->due < due)) due = j->due;
  }
  return due;
}

void jobs_reaped(pid_t pid, int status) {
  for (int i = 0; i < JOBS_MAX; i++) {
    bool kept = jobs[i] != NULL && jobs[i]->keeper == pid;
    if (!kept && leaving[i] != pid) continue;
    if (WIFSTOPPED(status)) {
      /* A command shares its user and can stop it, but not for long. */
      kill(pid, SIGCONT);
      return;
    }
    if (kept) jobs[i]->keeper = 0;
    else leaving[i] = 0;
    if (WIFSIGNALED(status)) orphans = true;
    return;
  }
}

bool jobs_is_keeper(pid_t pid) {
  for (int i = 0; i < JOBS_MAX; i++)
    if ((jobs[i] != NULL && jobs[i]->keeper == pid) || leaving[i] == pid) return true;
  return false;
}

bool jobs_orphans(void) {
  bool were = orphans;
  orphans = false;
  return were;
}
