/* unicode.c - see unicode.h.
 *
 * Tables are lists of steps, from a character on, or of runs; both are searched by halves. */
#include "formats/tokenizer/unicode.h"

#include "core/text/text.h"
#include "formats/tokenizer/unicode_tables.inc"

#define COUNT(table) (sizeof(table) / sizeof(table)[0])

/* Hangul syllables: three numbers of which each is computed. */
#define HANGUL       0xac00U
#define HANGUL_L     0x1100U
#define HANGUL_V     0x1161U
#define HANGUL_T     0x11a7U
#define HANGUL_V_N   21U
#define HANGUL_T_N   28U
#define HANGUL_COUNT 11172U

/* The last of n records of `width` numbers that begins with a character up to c, which is above 8 bits. */
static const uint32_t *last_record(const uint32_t *records, size_t n, size_t width, uint32_t c)
{
    size_t low = 0;

    while (n > 1) {
        size_t half = n / 2;

        low += records[(low + half) * width] >> 8 <= c ? half : 0;
        n -= half;
    }
    return &records[low * width];
}

/* The value of the last step that begins at c or before. */
static unsigned step_at(const uint32_t *steps, size_t n, uint32_t c)
{
    return *last_record(steps, n, 1, c) & 0xff;
}

/* Each character has one, if only "not assigned". */
unsigned vc_unicode_category(uint32_t c)
{
    uint32_t step = *last_record(category_steps, COUNT(category_steps), 1, c);
    unsigned category = step & 0x3f;

    return (step & 0x40) == 0 || ((c ^ step >> 8) & 1) == 0 ? category : category == VC_LU ? VC_LL : VC_LU;
}

unsigned vc_unicode_flags(uint32_t c)
{
    return step_at(flag_steps, COUNT(flag_steps), c);
}

/* 0 for all that are no combining marks. */
unsigned vc_unicode_class(uint32_t c)
{
    return c < 0x300 ? 0 : step_at(class_steps, COUNT(class_steps), c);
}

/* White_Space of Unicode: separators, and six control characters. */
bool vc_unicode_is_space(uint32_t c)
{
    return (c >= 9 && c <= 13) || c == 0x85 || vc_unicode_in(c, VC_OF(VC_ZS) | VC_OF(VC_ZL) | VC_OF(VC_ZP));
}

/* As regular expressions count words: with marks, connectors and letters in circles. */
bool vc_unicode_is_alphanumeric(uint32_t c)
{
    return vc_unicode_in(c, VC_LETTERS | VC_MARKS | VC_OF(VC_ND) | VC_OF(VC_NL) | VC_OF(VC_PC)) ||
           (c >= 0x24b6 && c <= 0x24e9) || (c >= 0x1f130 && c <= 0x1f149) || (c >= 0x1f150 && c <= 0x1f169) ||
           (c >= 0x1f170 && c <= 0x1f189);
}

uint32_t vc_unicode_lower(uint32_t c)
{
    const uint32_t *run = last_record(lower_runs, COUNT(lower_runs) / 3, 3, c);

    if (c < 0x80) {
        return c >= 'A' && c <= 'Z' ? c + 32 : c;
    }
    return c <= run[1] && (c - (run[0] >> 8)) % (run[0] & 0xff) == 0 ? c + run[2] : c;
}

/* ---- normal forms ---- */

/* What the character is made of, one step; returns how many parts there are, 0: none. `compat`: also what only looks
 * alike. */
static size_t parts_of(uint32_t c, bool compat, uint32_t to[VC_MOST_DECOMPOSED])
{
    const uint32_t *run = last_record(decomposed, COUNT(decomposed) / 2, 2, c);
    uint32_t number = c - (run[0] >> 8); /* in its run */
    bool counts = (run[0] & 0x40) != 0;
    size_t n = run[0] & 0x1f;

    if (c < run[0] >> 8 || number >= run[1] >> 16 || ((run[0] & 0x20) != 0 && !compat)) {
        return 0;
    }
    for (size_t k = 0; k < n; k++) {
        to[k] = decomposed_to[(run[1] & 0xffff) + (counts ? 0 : number * n) + k];
    }
    to[n - 1] += counts ? number : 0;
    return n;
}

/* A leading consonant, a vowel, and a trailing consonant, if there is one. */
static size_t decompose_hangul(uint32_t c, uint32_t *to)
{
    uint32_t number = c - HANGUL;

    to[0] = HANGUL_L + number / (HANGUL_V_N * HANGUL_T_N);
    to[1] = HANGUL_V + number % (HANGUL_V_N * HANGUL_T_N) / HANGUL_T_N;
    to[2] = HANGUL_T + number % HANGUL_T_N;
    return number % HANGUL_T_N != 0 ? 3 : 2;
}

/* `compat`: also what only looks alike, such as ligatures. */
size_t vc_unicode_decompose(uint32_t c, bool compat, uint32_t to[VC_MOST_DECOMPOSED])
{
    size_t n = 1;

    to[0] = c;
    if (c < 0xa0) {
        return 1;
    }
    if (c >= HANGUL && c < HANGUL + HANGUL_COUNT) {
        return decompose_hangul(c, to);
    }
    for (size_t i = 0; i < n;) { /* each step may have parts of its own, the first of which is looked at again */
        uint32_t parts[VC_MOST_DECOMPOSED];
        size_t more = parts_of(to[i], compat, parts);

        if (more == 0 || n + more > VC_MOST_DECOMPOSED) {
            i++;
            continue;
        }
        for (size_t k = n; k-- > i + 1;) {
            to[k + more - 1] = to[k];
        }
        for (size_t k = 0; k < more; k++) {
            to[i + k] = parts[k];
        }
        n += more - 1;
    }
    return n;
}

/* 0: the two are no character together. */
uint32_t vc_unicode_compose(uint32_t first, uint32_t second)
{
    size_t low = 0;
    size_t high = COUNT(composed);

    if (first - HANGUL_L < 19 && second - HANGUL_V < HANGUL_V_N) {
        return HANGUL + ((first - HANGUL_L) * HANGUL_V_N + (second - HANGUL_V)) * HANGUL_T_N;
    }
    if (first - HANGUL < HANGUL_COUNT && (first - HANGUL) % HANGUL_T_N == 0 && second > HANGUL_T &&
        second - HANGUL_T < HANGUL_T_N) {
        return first + (second - HANGUL_T);
    }
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        uint32_t pair[VC_MOST_DECOMPOSED];

        (void)parts_of(composed[middle], false, pair);
        if (pair[0] == first && pair[1] == second) {
            return composed[middle];
        }
        if (pair[0] < first || (pair[0] == first && pair[1] < second)) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return 0;
}

/* ---- UTF-8 ---- */

/* Returns how many bytes there are. The first has as many bits set as there are bytes, each of the others six bits. */
size_t vc_utf8_put(uint32_t c, char to[4])
{
    static const unsigned char first[] = {0, 0, 0xc0, 0xe0, 0xf0};
    size_t n = 1 + (size_t)(c >= 0x80) + (size_t)(c >= 0x800) + (size_t)(c >= 0x10000);

    for (size_t k = n; k-- > 1; c >>= 6) {
        to[k] = (char)(0x80 | (c & 0x3f));
    }
    to[0] = (char)(first[n] | c);
    return n;
}

/* Bytes before the first that is not valid UTF-8. */
size_t vc_utf8_valid_bytes(const char *s, size_t n)
{
    size_t i = 0;
    size_t bytes = 1;

    while (i < n && bytes != 0) {
        bytes = vc_utf8_length(s + i, n - i);
        i += bytes;
    }
    return i;
}
