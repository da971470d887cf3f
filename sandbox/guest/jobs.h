/* The commands that PID 1 keeps for the gateway: each runs under a keeper of its own (run.c) and outlives connections. */
#ifndef BEIGE_JOBS_H
#define BEIGE_JOBS_H
#include "wire.h"

#define JOBS_MAX 256

/* A frame for one command. False when it makes no sense: the gateway has to open anew. */
bool jobs_take(const struct frame *f);
/* Puts into the outbox what the gateway does not know yet, fairly, and output to `fd` at once; false when there was no output. */
bool jobs_tell(int fd, uint32_t sess);
/* A new connection: nothing is sent of any command before its RESUME. */
void jobs_pause(void);
/* What a hello lists; answers its length. NULL counts only. */
size_t jobs_list(uint8_t *to);
uint32_t jobs_last(void);
/* Descriptors to poll, and what to do about them. */
int jobs_poll(struct pollfd *to);
void jobs_work(const struct pollfd *from, int count);
/* A child has ended, or was stopped. */
void jobs_reaped(pid_t pid, int status);
/* When to look again although nothing came, as now_ms; -1 is never. */
int64_t jobs_due(void);
/* Whether something has lost its keeper and must be looked for. */
bool jobs_orphans(void);
bool jobs_is_keeper(pid_t pid);
#endif
