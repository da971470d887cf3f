/* Frames between the gateway and PID 1, as schemas/protocol.json says. */
#ifndef BEIGE_WIRE_H
#define BEIGE_WIRE_H
#include "guest.h"
#include <sys/uio.h>

#define WIRE_HEAD 32
#define WIRE_IN_MAX 16384
#define WIRE_OUT_MAX 65536
/* A frame that stays incomplete for so long was cut: what came after it is looked for inside. */
#define WIRE_CUT_MS 250

struct frame {
  uint8_t type, stream;
  uint32_t cmd, len, sess;
  uint64_t off;
  const uint8_t *data; /* valid until the next call */
};

uint16_t load16(const uint8_t *p);
uint32_t load32(const uint8_t *p);
uint64_t load64(const uint8_t *p);
void store32(uint8_t *p, uint32_t value);
void store64(uint8_t *p, uint64_t value);

/* What carries the frames: standard input and output, or a socket that PID 1 dialled because it was told to on the first. */
enum carrier { ATTACHED, DIALLED, CARRIERS };

/* Takes what there is on `fd`; false at its end. */
bool wire_fill(enum carrier from, int fd);
/* The next whole frame. `*bad` is set when something that is neither padding nor a frame was passed over. */
bool wire_next(enum carrier from, struct frame *out, bool *bad);
/* The carrier is gone: so is what came of a frame. */
void wire_forget(enum carrier from);
/* When to look again although nothing came, in ms from any point; -1 is never. */
int64_t wire_due(void);

/* A frame's header, for whoever writes it alone. */
void wire_head(uint8_t *to, const struct frame *f);
/* Room for a frame's payload in the outbox, its header written; NULL while there is none. */
uint8_t *wire_put(uint8_t type, uint8_t stream, uint32_t cmd, uint64_t off, uint32_t len, uint32_t sess);
/* A whole frame whose payload lies in two parts: straight to `fd` behind what waits, as far as it takes it. False as above. */
bool wire_send(int fd, const struct frame *f, const struct iovec *data);
/* False when nobody can ever read it: what waited is forgotten. */
bool wire_flush(int fd);
bool wire_waits(void);
/* Forgets whole frames that were not begun: they are for a connection that is gone. */
void wire_drop(void);
/* Forgets all of them, begun or not: what carried them is gone. */
void wire_clear(void);
#endif
