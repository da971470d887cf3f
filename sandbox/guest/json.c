/* As much JSON as one request and one answer need, strict in what it writes and wary of what it reads. */
#include "guest.h"

#define DEPTH_MAX 32

bool text_add(struct text *t, const void *data, size_t len) {
  if (t->len + len + 1 > t->cap) {
    size_t cap = (t->len + len + 1) * 2;
    char *grown = realloc(t->data, cap);
    if (grown == NULL) return false;
    t->data = grown;
    t->cap = cap;
  }
  memcpy(t->data + t->len, data, len);
  t->len += len;
  return true;
}

/* Length of the UTF-8 character at `p`, or 0: no overlong forms, no surrogates, nothing over U+10FFFF. */
static int utf8_length(const uint8_t *p, size_t left) {
  if (p[0] < 0x80) return 1;
  int len = p[0] >= 0xc2 && p[0] <= 0xdf ? 2 : (p[0] & 0xf0) == 0xe0 ? 3 : p[0] >= 0xf0 && p[0] <= 0xf4 ? 4 : 0;
  if (len == 0 || left < (size_t)len) return 0;
  for (int i = 1; i < len; i++)
    if ((p[i] & 0xc0) != 0x80) return 0;
  if ((p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xed && p[1] > 0x9f)) return 0;
  if ((p[0] == 0xf0 && p[1] < 0x90) || (p[0] == 0xf4 && p[1] > 0x8f)) return 0;
  return len;
}

bool utf8_valid(const char *text, size_t len) {
  const uint8_t *p = (const uint8_t *)text;
  for (size_t i = 0; i < len;) {
    int n = utf8_length(p + i, len - i);
    if (n == 0) return false;
    i += (size_t)n;
  }
  return true;
}

/* The value must be valid UTF-8. */
bool text_string(struct text *t, const char *value, size_t len) {
  bool ok = text_add(t, "\"", 1);
  for (size_t i = 0; i < len && ok; i++) {
    uint8_t c = (uint8_t)value[i];
    char code[8];
    if (c == '"' || c == '\\') ok = text_add(t, (char[]){'\\', (char)c}, 2);
    else if (c < 0x20 || c == 0x7f) format_text(code, sizeof code, "\\u%04x", c), ok = text_add(t, code, 6);
    else ok = text_add(t, &c, 1);
  }
  return ok && text_add(t, "\"", 1);
}

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

bool text_base64(struct text *t, const uint8_t *data, size_t len) {
  bool ok = true;
  for (size_t i = 0; i < len && ok; i += 3) {
    uint32_t n = (uint32_t)data[i] << 16 | (i + 1 < len ? (uint32_t)data[i + 1] << 8 : 0) | (i + 2 < len ? data[i + 2] : 0);
    char four[4] = {digits[n >> 18], digits[n >> 12 & 63], i + 1 < len ? digits[n >> 6 & 63] : '=', i + 2 < len ? digits[n & 63] : '='};
    ok = text_add(t, four, 4);
  }
  return ok;
}

/* In place; what is not of the alphabet is skipped. */
size_t base64_decode(char *text, size_t len) {
  size_t out = 0;
  uint32_t bits = 0;
  int have = 0;
  for (size_t i = 0; i < len; i++) {
    const char *d = text[i] != 0 ? strchr(digits, text[i]) : NULL;
    if (d == NULL) continue;
    bits = bits << 6 | (uint32_t)(d - digits);
    have += 6;
    if (have < 8) continue;
    have -= 8;
    text[out++] = (char)(bits >> have & 255);
  }
  return out;
}

struct reader {
  char *p, *end;
};

static void space(struct reader *r) {
  while (r->p < r->end && strchr(" \t\r\n", *r->p) && *r->p) r->p++;
}

static bool eat(struct reader *r, char c) {
  space(r);
  if (r->p >= r->end || *r->p != c) return false;
  r->p++;
  return true;
}

static int hex4(struct reader *r) {
  if (r->end - r->p < 4) return -1;
  int value = 0;
  for (int i = 0; i < 4; i++) {
    char c = *r->p++;
    int d = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
    if (d < 0) return -1;
    value = value * 16 + d;
  }
  return value;
}

static char *put_utf8(char *o, uint32_t c) {
  if (c < 0x80) *o++ = (char)c;
  else if (c < 0x800) *o++ = (char)(0xc0 | c >> 6), *o++ = (char)(0x80 | (c & 63));
  else if (c < 0x10000) *o++ = (char)(0xe0 | c >> 12), *o++ = (char)(0x80 | (c >> 6 & 63)), *o++ = (char)(0x80 | (c & 63));
  else {
    *o++ = (char)(0xf0 | c >> 18), *o++ = (char)(0x80 | (c >> 12 & 63));
    *o++ = (char)(0x80 | (c >> 6 & 63)), *o++ = (char)(0x80 | (c & 63));
  }
  return o;
}

/* After \u: one character, with its second half where it is a pair; a lone half becomes U+FFFD. */
static bool unicode(struct reader *r, char **out) {
  int c = hex4(r);
  if (c < 0) return false;
  uint32_t code = (uint32_t)c;
  if (c >= 0xd800 && c <= 0xdbff && r->end - r->p >= 6 && r->p[0] == '\\' && r->p[1] == 'u') {
    char *back = r->p;
    r->p += 2;
    int low = hex4(r);
    if (low < 0) return false;
    if (low >= 0xdc00 && low <= 0xdfff) code = 0x10000 + ((code - 0xd800) << 10) + ((uint32_t)low - 0xdc00);
    else r->p = back;
  }
  *out = put_utf8(*out, code >= 0xd800 && code <= 0xdfff ? 0xfffd : code);
  return true;
}

/* Decodes in place: what comes out is never longer than what went in. */
static bool string(struct reader *r, char **value, size_t *len) {
  static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
  if (!eat(r, '"')) return false;
  char *out = r->p;
  *value = out;
  while (r->p < r->end) {
    char c = *r->p++;
    if (c == '"') {
      *len = (size_t)(out - *value);
      return true;
    }
    if (c != '\\') {
      *out++ = c;
      continue;
    }
    if (r->p >= r->end) return false;
    char e = *r->p++;
    const char *at = e != 0 ? strchr(from, e) : NULL;
    if (e == 'u' ? !unicode(r, &out) : at == NULL) return false;
    if (e != 'u') *out++ = to[at - from];
  }
  return false;
}

static bool skip(struct reader *r, int depth) {
  char *value;
  size_t len;
  space(r);
  if (r->p >= r->end || depth > DEPTH_MAX) return false;
  if (*r->p == '"') return string(r, &value, &len);
  if (*r->p == '{' || *r->p == '[') {
    bool object = *r->p++ == '{';
    if (eat(r, object ? '}' : ']')) return true;
    do {
      if (object && (!string(r, &value, &len) || !eat(r, ':'))) return false;
      if (!skip(r, depth + 1)) return false;
    } while (eat(r, ','));
    return eat(r, object ? '}' : ']');
  }
  char *begin = r->p;
  while (r->p < r->end && *r->p && strchr("+-.0123456789aeflnrstuE", *r->p)) r->p++;
  return r->p > begin;
}

static bool field(struct reader *r, const char *key, size_t key_len, struct answer *a) {
  char **value = NULL;
  size_t unused, *len = &unused;
  if (key_len == 4 && memcmp(key, "type", 4) == 0) value = &a->type;
  else if (key_len == 6 && memcmp(key, "output", 6) == 0) value = &a->output, len = &a->output_len;
  else if (key_len == 12 && memcmp(key, "outputBase64", 12) == 0) value = &a->output64, len = &a->output64_len;
  else if (key_len == 5 && memcmp(key, "error", 5) == 0) value = &a->error, len = &a->error_len;
  space(r);
  if (value != NULL && r->p < r->end && *r->p == '"') {
    if (!string(r, value, len)) return false;
    if (value == &a->type) a->type[unused] = 0;
    return true;
  }
  if (key_len == 8 && memcmp(key, "exitCode", 8) == 0) a->exit_code = (int)read_number(r->p);
  return skip(r, 0);
}

/* `line` is changed; it needs a byte after its end. */
bool answer_parse(char *line, size_t len, struct answer *out) {
  struct reader r = {line, line + len};
  line[len] = 0;
  memset(out, 0, sizeof *out);
  out->exit_code = -1;
  if (!eat(&r, '{')) return false;
  do {
    char *key;
    size_t key_len;
    if (!string(&r, &key, &key_len) || !eat(&r, ':') || !field(&r, key, key_len, out)) return false;
  } while (eat(&r, ','));
  if (!eat(&r, '}')) return false;
  space(&r);
  return r.p == r.end && out->type != NULL && strcmp(out->type, "tool_response") == 0 && out->exit_code >= 0 && out->exit_code <= 255;
}
