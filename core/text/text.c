/* text.c - see text.h. Numbers are written with the C locale's point whatever locale the program runs in. */
#include "core/text/text.h"

#include <math.h>
#include <strings.h>

#include <vcompress/report.h>

#include "core/base/arena.h"

#define LARGE \
    ((size_t)1 << 20) /* from here on texts grow by a quarter, for the old and the new one are both in memory */

void vc_text_init(struct vc_text *text, struct vc_ctx *ctx)
{
    *text = (struct vc_text){.ctx = ctx, .status = VC_OK};
}

void vc_text_release(struct vc_text *text)
{
    vc_free(text->ctx, vc_give(&text->data));
    text->n = 0;
    text->capacity = 0;
}

static bool grow(struct vc_text *text, size_t capacity)
{
    char *data = vc_alloc(text->ctx, VC_TAG_REPORT, capacity);

    if (data == NULL) {
        text->status = VC_E_NOMEM;
        return false;
    }
    if (text->n != 0) {
        memcpy(data, text->data, text->n);
    }
    vc_free(text->ctx, text->data);
    text->data = data;
    text->capacity = capacity;
    return true;
}

static bool reserve(struct vc_text *text, size_t n_more)
{
    size_t need = text->n + n_more + 1;
    size_t capacity = text->capacity == 0 ? 256 : text->capacity;

    if (text->status != VC_OK) {
        return false;
    }
    if (text->counting) {
        text->n += n_more;
        return false;
    }
    if (need <= text->capacity) {
        return true;
    }
    while (capacity < need) {
        capacity += capacity < LARGE ? capacity : capacity / 4;
    }
    return grow(text, capacity);
}

void vc_text_room(struct vc_text *text, size_t n)
{
    if (text->status == VC_OK && n >= text->capacity - text->n) {
        (void)grow(text, text->n + n + 1);
    }
}

void vc_text_add_bytes(struct vc_text *text, const char *bytes, size_t n)
{
    if (reserve(text, n)) {
        if (n != 0) { /* no bytes may be NULL */
            memcpy(text->data + text->n, bytes, n);
        }
        text->n += n;
        text->data[text->n] = '\0';
    }
}

/* Entries of a million tensors have four numbers each, and printf takes ten times as long. */
size_t vc_put_uint(char *to, uint64_t v)
{
    char digits[VC_UINT_DIGITS];
    size_t at = sizeof digits;

    do {
        digits[--at] = (char)('0' + v % 10);
        v /= 10;
    } while (v != 0);
    memcpy(to, digits + at, sizeof digits - at);
    return sizeof digits - at;
}

void vc_text_add_uint(struct vc_text *text, uint64_t v)
{
    char digits[VC_UINT_DIGITS];

    vc_text_add_bytes(text, digits, vc_put_uint(digits, v));
}

void vc_text_add(struct vc_text *text, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    int n = vsnprintf(NULL, 0, format, args);
    va_end(args);
    if (n < 0 || !reserve(text, (size_t)n)) {
        return;
    }
    va_start(args, format);
    (void)vsnprintf(text->data + text->n, (size_t)n + 1, format, args);
    va_end(args);
    text->n += (size_t)n;
}

size_t vc_utf8_length(const char *text, size_t n)
{
    const unsigned char *s = (const unsigned char *)text;
    size_t len;

    if (s[0] < 0x80) {
        len = 1;
    } else if (s[0] < 0xc2 || s[0] > 0xf4) { /* a continuation byte, c0, c1, or beyond U+10FFFF */
        return 0;
    } else if (s[0] < 0xe0) {
        len = 2;
    } else {
        len = s[0] < 0xf0 ? 3 : 4;
    }
    if (len > n) {
        return 0;
    }
    for (size_t i = 1; i < len; i++) {
        if ((s[i] & 0xc0) != 0x80) {
            return 0;
        }
    }
    if ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] > 0x9f) || (s[0] == 0xf0 && s[1] < 0x90) ||
        (s[0] == 0xf4 && s[1] > 0x8f)) {
        return 0; /* overlong, surrogate, beyond U+10FFFF */
    }
    return len;
}

/* The bits of each byte that are set where the byte of x is zero; bits above the first such byte say nothing. */
static uint64_t zero_bytes(uint64_t x)
{
    return (x - UINT64_C(0x0101010101010101)) & ~x & UINT64_C(0x8080808080808080);
}

/* Eight bytes at a time, where they are ASCII: most names are. */
bool vc_utf8_valid(const char *s, size_t n)
{
    size_t i = 0;

    while (i < n) {
        uint64_t eight = 0;

        if (n - i >= sizeof eight) {
            memcpy(&eight, s + i, sizeof eight);
            if ((eight & UINT64_C(0x8080808080808080)) == 0 && zero_bytes(eight) == 0) {
                i += sizeof eight;
                continue;
            }
        }
        size_t len = vc_utf8_length(s + i, n - i);
        if (len == 0 || s[i] == '\0') {
            return false;
        }
        i += len;
    }
    return true;
}

/* Some of the eight bytes need an escape or are no ASCII. */
static bool has_special(uint64_t eight)
{
    const uint64_t ones = UINT64_C(0x0101010101010101);
    const uint64_t tops = UINT64_C(0x8080808080808080);

    return ((eight | (eight - 0x20 * ones)) & tops) != 0 || /* above 0x7f, or below a space */
           zero_bytes(eight ^ '"' * ones) != 0 || zero_bytes(eight ^ '\\' * ones) != 0 ||
           zero_bytes(eight ^ 0x7f * ones) != 0;
}

/* Eight at a time: names of a million tensors are read and written. */
size_t vc_json_plain_bytes(const char *s, size_t n)
{
    size_t i = 0;

    for (; i + 8 <= n; i += 8) {
        uint64_t eight;

        memcpy(&eight, s + i, sizeof eight);
        if (has_special(eight)) {
            break;
        }
    }
    while (i < n && s[i] >= 0x20 && s[i] < 0x7f && s[i] != '"' && s[i] != '\\') {
        i++;
    }
    return i;
}

void vc_text_add_json_string(struct vc_text *text, const char *s)
{
    size_t n = strlen(s);
    size_t i = 0;

    vc_text_add_bytes(text, "\"", 1);
    while (i < n) {
        size_t run = vc_json_plain_bytes(s + i, n - i);
        size_t len = run != 0 ? run : vc_utf8_length(s + i, n - i);

        if (len == 0) {
            vc_text_add_bytes(text, "\xef\xbf\xbd", 3);
            len = 1;
        } else if (s[i] == '"' || s[i] == '\\') {
            vc_text_add(text, "\\%c", s[i]);
        } else if ((unsigned char)s[i] < 0x20 || s[i] == 0x7f) {
            vc_text_add(text, "\\u%04x", (unsigned)(unsigned char)s[i]);
        } else {
            vc_text_add_bytes(text, s + i, len);
        }
        i += len;
    }
    vc_text_add_bytes(text, "\"", 1);
}

#define MOST_WHOLE 9007199254740992.0 /* 2^53: below it all whole numbers are doubles */

/* The fewest digits that are read as x. With more digits than those a text is read as x, too, since it is nearer; not so
 * for powers of two, of which the number below is nearer than the one above: these are tried from the first digit on. */
static int digits_of(double x)
{
    int exponent;
    bool uneven = fabs(frexp(x, &exponent)) == 0.5;
    int least = 1;
    int most = 17;

    while (least < most) {
        int middle = most == 17 ? 16 : (least + most) / 2; /* most numbers have all digits */
        int precision = uneven ? least : middle;
        char digits[320]; /* 24 are enough; gcc counts what a larger precision would write */

        (void)snprintf(digits, sizeof digits, "%.*g", precision, x);
        if (strtod(digits, NULL) == x) { /* both in the same locale */
            most = precision;
        } else {
            least = precision + 1;
        }
    }
    return most;
}

void vc_text_add_json_number(struct vc_text *text, double x)
{
    char digits[40];

    if (!isfinite(x)) {
        vc_text_add_bytes(text, "null", 4);
        return;
    }
    if (x == floor(x) && fabs(x) <= MOST_WHOLE) { /* readers take 5e+07 for no integer */
        vc_text_add(text, "%.0f", x);
        return;
    }
    (void)snprintf(digits, sizeof digits, "%.*g", digits_of(x), x);
    char *comma = strchr(digits, ',');
    if (comma != NULL) {
        *comma = '.';
    }
    vc_text_add_bytes(text, digits, strlen(digits));
}

char *vc_text_detach(struct vc_text *text)
{
    char *given = NULL;

    vc_text_add_bytes(text, "", 0); /* an empty text has its NUL, too */
    if (text->status == VC_OK) {
        given = vc_give(&text->data);
        vc_pool_give(text->ctx->shared->pool, given);
    }
    vc_text_release(text);
    return given;
}

enum vc_status vc_text_take(struct vc_text *text, struct vc_arena *arena, const char **out)
{
    enum vc_status status = text->status;

    *out = status == VC_OK ? vc_arena_copy(text->ctx, arena, text->n == 0 ? "" : text->data, text->n) : NULL;
    vc_text_release(text);
    return status == VC_OK && *out == NULL ? VC_E_NOMEM : status;
}

void vc_text_free(char *text)
{
    vc_pool_free_given(text);
}

const char *vc_shape_text(const uint64_t *shape, unsigned n_dims, char *to, size_t room)
{
    size_t at = 0;

    to[0] = '\0';
    for (unsigned d = 0; d < n_dims && at < room; d++) {
        at += (size_t)snprintf(to + at, room - at, "%s%" PRIu64, d == 0 ? "" : ", ", shape[d]);
    }
    return to;
}

bool vc_path_ends_in(const char *path, const char *suffix)
{
    size_t n = strlen(path);
    size_t k = strlen(suffix);

    return n > k && strcasecmp(path + n - k, suffix) == 0;
}

bool vc_ends_in(const char *text, const char *end)
{
    size_t n = strlen(text);
    size_t k = strlen(end);

    return n >= k && strcmp(text + n - k, end) == 0;
}

bool vc_is_one_of(const char *word, const char *words)
{
    size_t n = strlen(word);

    while (*words != '\0') {
        size_t k = strcspn(words, "| ");

        if (k == n && memcmp(words, word, n) == 0) {
            return true;
        }
        words += words[k] == '\0' ? k : k + 1;
    }
    return false;
}

void vc_text_add_le(struct vc_text *text, uint64_t v, size_t n)
{
    unsigned char bytes[8];

    vc_put_le64(bytes, v);
    vc_text_add_bytes(text, (const char *)bytes, n);
}

const char *vc_base_name(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash != NULL ? slash + 1 : path;
}

int vc_compare_texts(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

#define MOST_BYTES 128

size_t vc_text_distance(const char *a, const char *b)
{
    size_t costs[MOST_BYTES + 1]; /* of making what is read of a into the first j bytes of b */
    size_t n_a = strlen(a) < MOST_BYTES ? strlen(a) : MOST_BYTES;
    size_t n_b = strlen(b) < MOST_BYTES ? strlen(b) : MOST_BYTES;

    for (size_t j = 0; j <= n_b; j++) {
        costs[j] = j;
    }
    for (size_t i = 1; i <= n_a; i++) {
        size_t diagonal = costs[0];

        costs[0] = i;
        for (size_t j = 1; j <= n_b; j++) {
            size_t above = costs[j];
            size_t least = diagonal + (a[i - 1] != b[j - 1]);

            least = above + 1 < least ? above + 1 : least;
            costs[j] = costs[j - 1] + 1 < least ? costs[j - 1] + 1 : least;
            diagonal = above;
        }
    }
    return costs[n_b];
}
