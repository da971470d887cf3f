/* Finds frames in a stream that may have been cut or mixed by others, and writes frames without ever waiting. */
#include "wire.h"

static const uint8_t MAGIC[4] = {'B', 'E', 'G', '1'};

static struct inbox {
  uint8_t data[2 * (WIRE_HEAD + WIRE_IN_MAX)];
  size_t at, len;
  int64_t since; /* when a frame was first seen to be incomplete; 0 when none is */
} inboxes[CARRIERS];

/* Room for one full frame and the small ones before it. */
static uint8_t out[2 * WIRE_HEAD + WIRE_OUT_MAX + 16384];
static size_t out_at, out_len;

uint16_t load16(const uint8_t *p) { return (uint16_t)(p[0] | p[1] << 8); }
uint32_t load32(const uint8_t *p) { return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24; }
uint64_t load64(const uint8_t *p) { return (uint64_t)load32(p) | (uint64_t)load32(p + 4) << 32; }
void store32(uint8_t *p, uint32_t value) {
  for (int i = 0; i < 4; i++) p[i] = (uint8_t)(value >> (8 * i));
}
void store64(uint8_t *p, uint64_t value) {
  store32(p, (uint32_t)value);
  store32(p + 4, (uint32_t)(value >> 32));
}

static uint32_t crc32(uint32_t crc, const uint8_t *data, size_t len) {
  static uint32_t table[256];
  if (table[1] == 0)
    for (uint32_t i = 0; i < 256; i++) {
      uint32_t c = i;
      for (int bit = 0; bit < 8; bit++) c = c & 1 ? 0xEDB88320u ^ (c >> 1) : c >> 1;
      table[i] = c;
    }
  crc = ~crc;
  for (size_t i = 0; i < len; i++) crc = table[(crc ^ data[i]) & 255] ^ (crc >> 8);
  return ~crc;
}

/* Of a header whose own checksum counts as zero. */
static uint32_t crc_of_head(const uint8_t *head) {
  static const uint8_t zero[4];
  return crc32(crc32(0, head, WIRE_HEAD - 4), zero, 4);
}

bool wire_fill(enum carrier from, int fd) {
  struct inbox *in = &inboxes[from];
  if (in->at > 0) {
    memmove(in->data, in->data + in->at, in->len - in->at);
    in->len -= in->at;
    in->at = 0;
  }
  if (in->len == sizeof in->data) return true;
  ssize_t n = read(fd, in->data + in->len, sizeof in->data - in->len);
  if (n < 0) return errno == EAGAIN || errno == EINTR;
  in->len += (size_t)n;
  return n > 0;
}

/* Passes over what cannot begin a frame. */
static void skip(struct inbox *in, bool *bad) {
  while (in->at < in->len) {
    size_t left = in->len - in->at;
    if (memcmp(in->data + in->at, MAGIC, left < 4 ? left : 4) == 0) return;
    if (in->data[in->at++] != 0) *bad = true;
  }
}

static bool whole(const struct inbox *in, size_t left) {
  if (left < WIRE_HEAD) return false;
  uint32_t len = load32(in->data + in->at + 12);
  return len > WIRE_IN_MAX || left >= WIRE_HEAD + len;
}

static bool sound(const uint8_t *head) {
  uint32_t len = load32(head + 12);
  return len <= WIRE_IN_MAX && crc32(crc_of_head(head), head + WIRE_HEAD, len) == load32(head + 28);
}

bool wire_next(enum carrier from, struct frame *f, bool *bad) {
  struct inbox *in = &inboxes[from];
  for (;;) {
    skip(in, bad);
    size_t left = in->len - in->at;
    if (left == 0) {
      in->since = 0;
      return false;
    }
    const uint8_t *head = in->data + in->at;
    if (!whole(in, left)) {
      int64_t now = now_ms();
      if (in->since == 0) in->since = now;
      if (now - in->since < WIRE_CUT_MS) return false;
    } else if (sound(head)) {
      *f = (struct frame){.type = head[4], .stream = head[5], .cmd = load32(head + 8), .len = load32(head + 12),
                          .off = load64(head + 16), .sess = load32(head + 24), .data = head + WIRE_HEAD};
      in->at += WIRE_HEAD + f->len;
      in->since = 0;
      return true;
    }
    in->at++;
    *bad = true;
    in->since = 0;
  }
}

int64_t wire_due(void) {
  int64_t a = inboxes[ATTACHED].since, b = inboxes[DIALLED].since;
  if (a == 0 && b == 0) return -1;
  return WIRE_CUT_MS + (a == 0 || (b != 0 && b < a) ? b : a);
}

void wire_forget(enum carrier from) { inboxes[from].at = inboxes[from].len = 0, inboxes[from].since = 0; }

void wire_head(uint8_t *to, const struct frame *f) {
  memset(to, 0, WIRE_HEAD);
  memcpy(to, MAGIC, 4);
  to[4] = f->type;
  to[5] = f->stream;
  store32(to + 8, f->cmd);
  store32(to + 12, f->len);
  store64(to + 16, f->off);
  store32(to + 24, f->sess);
  store32(to + 28, crc_of_head(to));
}

uint8_t *wire_put(uint8_t type, uint8_t stream, uint32_t cmd, uint64_t off, uint32_t len, uint32_t sess) {
  if (sizeof out - out_len < WIRE_HEAD + len) return NULL;
  uint8_t *head = out + out_len;
  wire_head(head, &(struct frame){.type = type, .stream = stream, .cmd = cmd, .off = off, .len = len, .sess = sess});
  out_len += WIRE_HEAD + len;
  return head + WIRE_HEAD;
}

bool wire_send(int fd, const struct frame *f, const struct iovec *data) {
  uint8_t *rest = wire_put(f->type, f->stream, f->cmd, f->off, f->len, f->sess);
  if (rest == NULL) return false;
  size_t before = (size_t)(rest - out) - out_at;
  struct iovec all[3] = {{.iov_base = out + out_at, .iov_len = before}, data[0], data[1]};
  ssize_t n = writev(fd, all, 3);
  size_t sent = n > 0 ? (size_t)n : 0, done = sent < before ? 0 : sent - before;
  out_at += sent;
  if (out_at == out_len) {
    out_at = out_len = 0;
    return true;
  }
  /* Only what waits is copied, to where it would be in the whole frame. */
  for (int i = 0; i < 2; rest += data[i++].iov_len) {
    size_t skip = done < data[i].iov_len ? done : data[i].iov_len;
    memcpy(rest + skip, (const uint8_t *)data[i].iov_base + skip, data[i].iov_len - skip);
    done -= skip;
  }
  return true;
}

/* Where the frame ends that `out_at` lies in. */
static size_t end_of_begun(void) {
  size_t end = 0;
  while (end < out_at) end += WIRE_HEAD + load32(out + end + 12);
  return end;
}

bool wire_flush(int fd) {
  bool there = true;
  while (out_at < out_len && there) {
    ssize_t n = write(fd, out + out_at, out_len - out_at);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) return true;
    if (n <= 0) there = false;
    else out_at += (size_t)n;
  }
  out_at = out_len = 0;
  return there;
}

bool wire_waits(void) { return out_len > 0; }

void wire_drop(void) {
  if (out_len > 0) out_len = end_of_begun();
  if (out_at == out_len) out_at = out_len = 0;
}

void wire_clear(void) { out_at = out_len = 0; }
