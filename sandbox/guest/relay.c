/* The way out of a sandbox without a network: listens on 127.0.0.1:3128 and passes bytes to the gateway's proxy at the other end
 * of /beige/egress.sock. It judges nothing. A child of PID 1, so that a flood of connections costs PID 1 nothing; where the
 * sandbox has routes of its own it does not run. */
#include "guest.h"
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#define EGRESS_PATH "/beige/egress.sock"
#define EGRESS_PORT 3128
#define PAIRS_MAX 256
#define BUFFER 65536
/* A relay that ends at once, as where the port is taken, is not started again at once. */
#define AGAIN_MS 1000
/* A gateway that is being started again is waited for so long. */
#define GATEWAY_MS 3000

struct way {
  char *data;
  size_t from, to;
  bool end, told;
};

/* fd[0] is the client, fd[1] the gateway; way[i] holds what was read from fd[i]. */
struct pair {
  int fd[2];
  struct way way[2];
  int64_t until;
};

static struct pair pairs[PAIRS_MAX];
static int count;
static pid_t child;
static int64_t next_start;

static void drop(int i) {
  for (int side = 0; side < 2; side++) {
    if (pairs[i].fd[side] >= 0) close(pairs[i].fd[side]);
    free(pairs[i].way[side].data);
  }
  pairs[i] = pairs[--count];
}

static int dial_out(void) {
  const char *path = getenv("BEIGE_EGRESS");
  return dial_to(path == NULL || *path == 0 ? EGRESS_PATH : path, SOCK_NONBLOCK);
}

static int port_of(void) {
  int64_t port;
  return parse_number(getenv("BEIGE_EGRESS_PORT"), &port) && port > 0 && port < 65536 ? (int)port : EGRESS_PORT;
}

static int listen_here(void) {
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  int one = 1;
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port_of())};
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) != 0) return -1;
  if (bind(fd, (struct sockaddr *)&address, sizeof address) != 0 || listen(fd, 128) != 0) return -1;
  return fd;
}

static void take_client(int listener) {
  int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
  if (fd < 0) return;
  int one = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  struct pair p = {.fd = {fd, -1}, .until = now_ms() + GATEWAY_MS};
  p.way[0].data = malloc(BUFFER);
  p.way[1].data = malloc(BUFFER);
  pairs[count++] = p;
  if (p.way[0].data == NULL || p.way[1].data == NULL) drop(count - 1);
}

static void no_gateway(int fd) {
  static const char text[] = "HTTP/1.1 503 Service Unavailable\r\ncontent-length: 39\r\nconnection: close\r\n\r\n"
                             "beige: the gateway is not there: retry\n";
  if (send(fd, text, sizeof text - 1, MSG_NOSIGNAL) < 0) return;
}

/* False when the pair is over. */
static bool meet(struct pair *p) {
  if (p->fd[1] >= 0) return true;
  p->fd[1] = dial_out();
  if (p->fd[1] >= 0 || now_ms() < p->until) return true;
  no_gateway(p->fd[0]);
  return false;
}

/* Moves what can be moved from one side to the other; false on an error. */
static bool move(struct pair *p, int side) {
  struct way *w = &p->way[side];
  int in = p->fd[side], out = p->fd[1 - side];
  for (int turn = 0; turn < 4; turn++) {
    if (w->from == w->to) {
      w->from = w->to = 0;
      if (w->end) break;
      ssize_t n = recv(in, w->data, BUFFER, 0);
      if (n < 0) return errno == EAGAIN || errno == EINTR;
      if (n == 0) w->end = true;
      w->to = n > 0 ? (size_t)n : 0;
    }
    if (w->from == w->to) break;
    ssize_t n = send(out, w->data + w->from, w->to - w->from, MSG_NOSIGNAL);
    if (n < 0) return errno == EAGAIN || errno == EINTR;
    w->from += (size_t)n;
  }
  if (w->end && w->from == w->to && !w->told) {
    shutdown(out, SHUT_WR);
    w->told = true;
  }
  return true;
}

/* What a side is waited for: bytes where there is room for them, room where bytes wait. */
static short wanted(const struct pair *p, int side) {
  const struct way *mine = &p->way[side], *other = &p->way[1 - side];
  short events = 0;
  if (mine->from == mine->to && !mine->end) events |= POLLIN;
  if (other->from < other->to) events |= POLLOUT;
  return events;
}

static bool work(struct pair *p, const struct pollfd *seen) {
  if (!meet(p)) return false;
  if (p->fd[1] < 0) return (seen[0].revents & (POLLERR | POLLHUP)) == 0;
  if ((seen[0].revents | seen[1].revents) == 0) return true;
  if ((seen[0].revents | seen[1].revents) & (POLLERR | POLLNVAL)) return false;
  if (!move(p, 0) || !move(p, 1)) return false;
  return !(p->way[0].told && p->way[1].told);
}

static int relay(void) {
  static struct pollfd fds[1 + 2 * PAIRS_MAX];
  int listener = listen_here();
  if (listener < 0) return 1;
  for (;;) {
    bool waits = false;
    fds[0] = (struct pollfd){.fd = count < PAIRS_MAX ? listener : -1, .events = POLLIN};
    for (int i = 0; i < count; i++) {
      bool met = pairs[i].fd[1] >= 0;
      if (!met) waits = true;
      /* Nothing is asked of a side that has said all and heard all: a hang-up there would wake us for ever. */
      for (int side = 0; side < 2; side++) {
        short events = met ? wanted(&pairs[i], side) : 0;
        bool idle = met && events == 0 && pairs[i].way[side].end;
        fds[1 + 2 * i + side] = (struct pollfd){.fd = idle ? -1 : pairs[i].fd[side], .events = events};
      }
    }
    int had = count;
    if (poll(fds, (nfds_t)(1 + 2 * had), waits ? 20 : -1) < 0 && errno != EINTR) return 1;
    for (int i = had - 1; i >= 0; i--)
      if (!work(&pairs[i], fds + 1 + 2 * i)) drop(i);
    if (fds[0].revents & POLLIN) {
      take_client(listener);
      if (count > 0) meet(&pairs[count - 1]);
    }
  }
}

/* A sandbox with a network of its own has routes; loopback alone has none. */
static bool has_routes(void) {
  char text[2048];
  int fd = open("/proc/net/route", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  ssize_t n = read(fd, text, sizeof text - 1);
  close(fd);
  if (n <= 0) return false;
  text[n] = 0;
  const char *line = strchr(text, '\n');
  return line != NULL && line[1] != 0;
}

/* Starts it where it is missing. Called by PID 1 at each turn of its loop. */
void relay_keep(void) {
  int64_t now = now_ms();
  if (child > 0 || now < next_start) return;
  next_start = now + AGAIN_MS;
  /* As PID 1 of its own network; elsewhere whoever starts it says where the socket is. */
  if ((getpid() != 1 && getenv("BEIGE_EGRESS") == NULL) || has_routes()) {
    next_start = INT64_MAX;
    return;
  }
  child = fork();
  if (child != 0) return;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  prctl(PR_SET_DUMPABLE, 0);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, NULL);
  for (int fd = 0; fd < 3; fd++) {
    close(fd);
    open("/dev/null", O_RDWR);
  }
  close_from(3);
  be_called("pass");
  _exit(relay());
}

/* When PID 1 has to look again; -1 for never. */
int64_t relay_due(void) { return child > 0 || next_start == INT64_MAX ? -1 : next_start; }

/* Whether this process is the relay; one that a command stopped goes on. */
bool relay_is(pid_t pid) { return pid > 0 && pid == child; }

bool relay_reaped(pid_t pid, int status) {
  if (!relay_is(pid)) return false;
  if (WIFSTOPPED(status)) kill(pid, SIGCONT);
  else child = -1;
  return true;
}
