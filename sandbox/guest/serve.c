/* PID 1's side of the connection to the gateway: opens, fences off older gateways, hands frames to the commands. It is opened on
 * standard input and output, which may be cut anywhere, at any time, and mixed with what an older client left behind; there the
 * gateway may say where to dial, and may open on that socket. When it ends, standard input and output are what is left. */
#include "jobs.h"
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>

#define HELLO_LEN 44
#define SECRET 16

static struct {
  uint8_t boot[16], nonce[16], refused[16], ping[8];
  uint64_t epoch;
  uint32_t sess;
  bool open, hello, pong, bad, fenced;
  enum carrier now; /* that of `sess` */
  int fd[CARRIERS];
} s;

void serve_begin(void) {
  if (getrandom(s.boot, sizeof s.boot, 0) != sizeof s.boot) memset(s.boot, 0, sizeof s.boot);
  fcntl(0, F_SETFL, fcntl(0, F_GETFL) | O_NONBLOCK);
  fcntl(1, F_SETFL, fcntl(1, F_GETFL) | O_NONBLOCK);
  s.fd[DIALLED] = -1;
}

static void hang_up(void) {
  if (s.fd[DIALLED] < 0) return;
  close(s.fd[DIALLED]);
  s.fd[DIALLED] = -1;
  wire_forget(DIALLED);
  if (s.now != DIALLED) return;
  s.now = ATTACHED;
  s.open = false; /* until the next hello: it repeats whatever is lost now */
  wire_clear();
}

/* Shows whom it dials the secret that came with the word to do so. It serves once, and nothing of it is kept. */
static void dial_back(const struct frame *f) {
  char path[sizeof((struct sockaddr_un *)0)->sun_path];
  if (f->len <= SECRET || f->len - SECRET >= sizeof path) {
    s.bad = true;
    return;
  }
  hang_up();
  memcpy(path, f->data + SECRET, f->len - SECRET);
  path[f->len - SECRET] = 0;
  uint8_t who[WIRE_HEAD + SECRET];
  wire_head(who, &(struct frame){.type = 'w', .len = SECRET, .sess = s.sess});
  memcpy(who + WIRE_HEAD, f->data, SECRET);
  explicit_bzero((uint8_t *)(uintptr_t)f->data, SECRET);
  s.fd[DIALLED] = dial_to(path, SOCK_NONBLOCK);
  if (s.fd[DIALLED] >= 0 && write(s.fd[DIALLED], who, sizeof who) != sizeof who) hang_up();
  explicit_bzero(who, sizeof who);
}

static void hello(const struct frame *f, enum carrier from) {
  if (f->len != HELLO_LEN) {
    s.bad = true;
    return;
  }
  uint64_t epoch = load64(f->data);
  uint32_t sess = load32(f->data + 8);
  if (epoch < s.epoch) {
    s.fenced = true;
    memcpy(s.refused, f->data + 12, sizeof s.refused);
    return;
  }
  s.hello = true;
  memcpy(s.nonce, f->data + 12, sizeof s.nonce);
  if (s.open && from == s.now && epoch == s.epoch && sess == s.sess) return; /* repeated: only answered again */
  if (from == ATTACHED) hang_up();
  if (from != s.now) wire_clear();
  s.now = from;
  s.epoch = epoch;
  s.sess = sess;
  s.open = true;
  s.pong = s.bad = s.fenced = false;
  wire_drop();
  jobs_pause();
}

static void take(const struct frame *f, enum carrier from) {
  if (f->type == 'H') hello(f, from);
  else if (!s.open || from != s.now || f->sess != s.sess) return; /* left behind by a client that is gone */
  else if (f->type == 'D') from == ATTACHED ? dial_back(f) : (void)0;
  else if (f->type == 'P' && f->len == sizeof s.ping) memcpy(s.ping, f->data, f->len), s.pong = true;
  else if (!jobs_take(f)) s.bad = true;
}

static void say_hello(void) {
  size_t rows = jobs_list(NULL);
  uint8_t *to = wire_put('h', 0, 0, 0, (uint32_t)(40 + rows), s.sess);
  if (to == NULL) return;
  memcpy(to, s.nonce, 16);
  memcpy(to + 16, s.boot, 16);
  store32(to + 32, jobs_last());
  store32(to + 36, (uint32_t)(rows / 36));
  jobs_list(to + 40);
  s.hello = false;
}

/* An older gateway listens where it was attached. Said when nothing waits there, and once for each time that it asks. */
static void refuse(void) {
  uint8_t no[WIRE_HEAD + 24];
  wire_head(no, &(struct frame){.type = 'f', .len = 24, .sess = s.sess});
  memcpy(no + WIRE_HEAD, s.refused, sizeof s.refused);
  store64(no + WIRE_HEAD + 16, s.epoch);
  if (write(1, no, sizeof no) < 0) errno = 0;
  s.fenced = false;
}

/* Where frames go. */
static int way(void) { return s.now == DIALLED ? s.fd[DIALLED] : 1; }

/* False when there was no output to be said. */
static bool tell(void) {
  if (s.fenced) refuse();
  if (s.hello && s.open) say_hello();
  uint8_t *to;
  if (s.pong && (to = wire_put('p', 0, 0, 0, sizeof s.ping, s.sess)) != NULL) {
    memcpy(to, s.ping, sizeof s.ping);
    s.pong = false;
  }
  if (s.bad && s.open && wire_put('q', 0, 0, 0, 0, s.sess) != NULL) s.bad = false;
  return s.open && !s.hello && jobs_tell(way(), s.sess);
}

int serve_poll(struct pollfd *to) {
  bool waits = wire_waits();
  to[ATTACHED] = (struct pollfd){.fd = s.fd[ATTACHED], .events = POLLIN};
  to[DIALLED] = (struct pollfd){.fd = s.fd[DIALLED], .events = waits && s.now == DIALLED ? POLLIN | POLLOUT : POLLIN};
  to[CARRIERS] = (struct pollfd){.fd = waits && s.now == ATTACHED ? 1 : -1, .events = POLLOUT};
  return CARRIERS + 1 + jobs_poll(to + CARRIERS + 1);
}

static void listen_to(enum carrier from, const struct pollfd *seen) {
  if (seen->revents && seen->fd == s.fd[from] && !wire_fill(from, s.fd[from])) {
    /* A sandbox that was made without a standard input has an end of file there. */
    if (from == ATTACHED) s.fd[ATTACHED] = -1;
    else hang_up();
  }
  struct frame f;
  bool bad = false;
  while (wire_next(from, &f, &bad)) take(&f, from);
  if (bad && from == s.now) s.bad = true;
}

void serve_work(const struct pollfd *from, int count) {
  listen_to(ATTACHED, from + ATTACHED);
  listen_to(DIALLED, from + DIALLED);
  jobs_work(from + CARRIERS + 1, count - CARRIERS - 1);
  bool more;
  do {
    if (!wire_flush(way())) {
      s.open = false; /* until the next hello: it repeats whatever is lost now */
      hang_up();
    }
    if (wire_waits()) return;
    more = tell();
  } while (more || wire_waits());
}

int64_t serve_due(void) {
  int64_t cut = wire_due(), late = jobs_due();
  return cut < 0 || (late >= 0 && late < cut) ? late : cut;
}
