/* Words and numbers into a buffer: the few directions of printf that are used here. The whole of it, floating point and all,
 * would be a fifth of this program. */
#include "guest.h"

struct target {
  char *to;
  size_t size, len;
};

static void put(struct target *t, char c) {
  if (t->len + 1 < t->size) t->to[t->len] = c;
  t->len++;
}

static void put_number(struct target *t, unsigned long long value, unsigned base, int width) {
  char digits[24];
  int n = 0;
  do digits[n++] = "0123456789abcdef"[value % base];
  while ((value /= base) != 0);
  while (width-- > n) put(t, '0');
  while (n > 0) put(t, digits[--n]);
}

static void put_signed(struct target *t, long long value) {
  if (value < 0) put(t, '-');
  put_number(t, value < 0 ? 0ull - (unsigned long long)value : (unsigned long long)value, 10, 0);
}

static int read_width(const char **p) {
  int width = 0;
  while (**p >= '0' && **p <= '9') width = width * 10 + (*(*p)++ - '0');
  return width;
}

/* Knows %s %.Ns %.*s %d %u %o %x, a width that is filled with zeros, and ll before a number. */
int format_list(char *to, size_t size, const char *format, va_list args) {
  struct target t = {.to = to, .size = size};
  for (const char *p = format; *p; p++) {
    if (*p != '%') {
      put(&t, *p);
      continue;
    }
    p++;
    int width = read_width(&p), most = -1;
    if (*p == '.') {
      p++;
      most = *p == '*' ? (p++, va_arg(args, int)) : read_width(&p);
    }
    bool wide = *p == 'l';
    while (*p == 'l') p++;
    if (*p == 's') {
      const char *text = va_arg(args, const char *);
      for (; most != 0 && *text; most--) put(&t, *text++);
    } else if (*p == 'd') {
      put_signed(&t, wide ? va_arg(args, long long) : va_arg(args, int));
    } else {
      put_number(&t, wide ? va_arg(args, unsigned long long) : va_arg(args, unsigned), *p == 'u' ? 10 : *p == 'o' ? 8 : 16, width);
    }
  }
  if (size > 0) to[t.len < size ? t.len : size - 1] = 0;
  return (int)t.len;
}

int format_text(char *to, size_t size, const char *format, ...) {
  va_list args;
  va_start(args, format);
  int len = format_list(to, size, format, args);
  va_end(args);
  return len;
}
