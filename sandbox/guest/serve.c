/* PID 1's side of the connection to the gateway: opens, fences off older gateways, hands frames to the commands. The carrier is
 * standard input and output; it may be cut anywhere, at any time, and mixed with what an older client left behind. */
#include "jobs.h"
#include <sys/random.h>

#define HELLO_LEN 44

static struct {
  uint8_t boot[16], nonce[16], refused[16], ping[8];
  uint64_t epoch;
  uint32_t sess;
  bool open, hello, pong, bad, fenced;
  int fd;
} s;

void serve_begin(void) {
  if (getrandom(s.boot, sizeof s.boot, 0) != sizeof s.boot) memset(s.boot, 0, sizeof s.boot);
  fcntl(0, F_SETFL, fcntl(0, F_GETFL) | O_NONBLOCK);
  fcntl(1, F_SETFL, fcntl(1, F_GETFL) | O_NONBLOCK);
  s.fd = 0;
}

static void hello(const struct frame *f) {
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
  if (s.open && epoch == s.epoch && sess == s.sess) return; /* repeated: only answered again */
  s.epoch = epoch;
  s.sess = sess;
  s.open = true;
  s.pong = s.bad = s.fenced = false;
  wire_drop();
  jobs_pause();
}

static void take(const struct frame *f) {
  if (f->type == 'H') hello(f);
  else if (!s.open || f->sess != s.sess) return; /* left behind by a client that is gone */
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

static void tell(void) {
  if (s.hello && s.open) say_hello();
  uint8_t *to;
  if (s.pong && (to = wire_put('p', 0, 0, 0, sizeof s.ping, s.sess)) != NULL) {
    memcpy(to, s.ping, sizeof s.ping);
    s.pong = false;
  }
  if (s.fenced && (to = wire_put('f', 0, 0, 0, 24, s.sess)) != NULL) {
    memcpy(to, s.refused, sizeof s.refused);
    store64(to + 16, s.epoch);
    s.fenced = false;
  }
  if (s.bad && s.open && wire_put('q', 0, 0, 0, 0, s.sess) != NULL) s.bad = false;
  if (s.open && !s.hello) jobs_tell(s.sess);
}

int serve_poll(struct pollfd *to) {
  to[0] = (struct pollfd){.fd = s.fd, .events = POLLIN};
  to[1] = (struct pollfd){.fd = wire_waits() ? 1 : -1, .events = POLLOUT};
  return 2 + jobs_poll(to + 2);
}

void serve_work(const struct pollfd *from, int count) {
  /* A sandbox that was made without a standard input has an end of file there. */
  if (from[0].revents && !wire_fill(0)) s.fd = -1;
  struct frame f;
  bool bad = false;
  while (wire_next(&f, &bad)) take(&f);
  if (bad) s.bad = true;
  jobs_work(from + 2, count - 2);
  do {
    if (!wire_flush(1)) s.open = false; /* until the next hello: it repeats whatever is lost now */
    if (wire_waits()) return;
    tell();
  } while (wire_waits());
}

int64_t serve_due(void) {
  int64_t cut = wire_due(), late = jobs_due();
  return cut < 0 || (late >= 0 && late < cut) ? late : cut;
}
