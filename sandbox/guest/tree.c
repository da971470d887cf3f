/* Everything that descends from this process: signal it, reap it, end it. The caller is a subreaper, so whatever its parents
 * do, each descendant ends up as a child of this process: the tree is gone when there is no child left. */
#include "guest.h"
#include <dirent.h>
#include <sched.h>

#define MAX_PROCESSES 32768

static struct process {
  pid_t pid, parent;
  char state;
  bool ours;
} table[MAX_PROCESSES];

static bool read_process(const char *name, struct process *out) {
  char path[64], line[512];
  format_text(path, sizeof path, "/proc/%.20s/stat", name);
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  ssize_t n = read(fd, line, sizeof line - 1);
  close(fd);
  if (n <= 0) return false;
  line[n] = 0;
  /* The name is in brackets and may hold anything, brackets too: the last one ends it. */
  char *end = strrchr(line, ')');
  /* ") S 123 ": the state, and the parent. */
  if (end == NULL || strlen(end) < 5 || end[4] < '0' || end[4] > '9') return false;
  out->state = end[2];
  out->pid = (pid_t)read_number(name);
  out->parent = (pid_t)read_number(end + 4);
  out->ours = false;
  return true;
}

static int scan(void) {
  DIR *folder = opendir("/proc");
  if (folder == NULL) return 0;
  int count = 0;
  struct dirent *entry;
  while (count < MAX_PROCESSES && (entry = readdir(folder)) != NULL)
    if (entry->d_name[0] >= '1' && entry->d_name[0] <= '9' && read_process(entry->d_name, &table[count])) count++;
  closedir(folder);
  return count;
}

static bool is_ours(pid_t parent, pid_t self, int count) {
  if (parent == self) return true;
  for (int i = 0; i < count; i++)
    if (table[i].pid == parent) return table[i].ours;
  return false;
}

/* Children of this process that are not looked at, nor what descends from them. */
static bool (*kept)(pid_t);

static int mark(void) {
  int count = scan();
  pid_t self = getpid();
  bool changed = true;
  while (changed) {
    changed = false;
    for (int i = 0; i < count; i++)
      if (!table[i].ours && table[i].pid != self && is_ours(table[i].parent, self, count) && (kept == NULL || !kept(table[i].pid)))
        changed = table[i].ours = true;
  }
  return count;
}

/* Sends to every descendant that could still act on it; answers how many there were. */
int tree_signal(int sig) {
  int count = mark(), sent = 0;
  for (int i = 0; i < count; i++) {
    if (!table[i].ours || table[i].state == 'Z') continue;
    if (sig == SIGSTOP && table[i].state == 'T') continue;
    if (kill(table[i].pid, sig) == 0) sent++;
  }
  return sent;
}

/* Takes what has ended; true when no child is left. The status of `main` is kept. */
bool tree_reap(pid_t main, int *status) {
  for (;;) {
    int one;
    pid_t pid = waitpid(-1, &one, WNOHANG);
    if (pid < 0 && errno == EINTR) continue;
    if (pid < 0) return true;
    if (pid == 0) return false;
    if (pid == main) *status = one;
  }
}

/* Ends the tree; false when something outlived the budget. A fork bomb makes children faster than a single pass kills them:
 * all are stopped first, until a pass finds none that runs, and killed then. */
bool tree_kill(int budget_ms, pid_t main, int *status) {
  int64_t end = now_ms() + budget_ms;
  while (!tree_reap(main, status)) {
    if (now_ms() >= end) return false;
    for (int pass = 0; pass < 40 && now_ms() < end && tree_signal(SIGSTOP) > 0; pass++) sched_yield();
    tree_signal(SIGKILL);
    for (int i = 0; i < 20 && !tree_reap(main, status); i++) usleep(500 + 500 * (unsigned)i);
  }
  return true;
}

/* Whether no other command runs in this sandbox: the engine starts each one with parent 0, PID 1 is the parent of the others. */
bool tree_alone(void) {
  int count = scan();
  for (int i = 0; i < count; i++)
    if (table[i].parent <= 1 && table[i].pid != 1 && table[i].pid != getpid() && !relay_is(table[i].pid)) return false;
  return true;
}

/* Ends what descends from PID 1 and from no keeper: what a command left behind when it ended its own. As with a tree, all are
 * stopped before they are killed. Answers how many there were. */
int tree_sweep(bool (*belongs)(pid_t)) {
  kept = belongs;
  for (int pass = 0; pass < 40 && tree_signal(SIGSTOP) > 0; pass++) sched_yield();
  int sent = tree_signal(SIGKILL);
  kept = NULL;
  return sent;
}

static int64_t counter(const char *path, const char *key) {
  char text[1024];
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return -1;
  ssize_t n = read(fd, text, sizeof text - 1);
  close(fd);
  if (n <= 0) return -1;
  text[n] = 0;
  size_t len = strlen(key);
  for (char *line = text; line != NULL; line = strchr(line, '\n')) {
    if (*line == '\n') line++;
    if (strncmp(line, key, len) == 0 && line[len] == ' ') return read_number(line + len + 1);
  }
  return -1;
}

/* How often the kernel killed for memory in this sandbox; -1 where that cannot be seen. */
int64_t oom_kills(void) {
  int64_t v2 = counter("/sys/fs/cgroup/memory.events", "oom_kill");
  return v2 >= 0 ? v2 : counter("/sys/fs/cgroup/memory/memory.oom_control", "oom_kill");
}
