/* unicode.h - what Unicode says of characters, for tokenizers: categories, normal forms, lower case. The tables are those of
 * unicode_tables.inc, whose version is VC_UNICODE_VERSION there; Hangul is computed (chapter 3.12 of the standard). */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* General categories, in the order of the tables. */
/* clang-format off */
enum vc_category {
    VC_CN, VC_CC, VC_CF, VC_CO, VC_CS, VC_LL, VC_LM, VC_LO, VC_LT, VC_LU, VC_MC, VC_ME, VC_MN, VC_ND, VC_NL, VC_NO,
    VC_PC, VC_PD, VC_PE, VC_PF, VC_PI, VC_PO, VC_PS, VC_SC, VC_SK, VC_SM, VC_SO, VC_ZL, VC_ZP, VC_ZS
};
/* clang-format on */

/* Sets of categories: a bit each. */
#define VC_OF(category) ((uint32_t)1 << (category))
#define VC_LETTERS      (VC_OF(VC_LL) | VC_OF(VC_LM) | VC_OF(VC_LO) | VC_OF(VC_LT) | VC_OF(VC_LU))
#define VC_MARKS        (VC_OF(VC_MC) | VC_OF(VC_ME) | VC_OF(VC_MN))
#define VC_NUMBERS      (VC_OF(VC_ND) | VC_OF(VC_NL) | VC_OF(VC_NO))
#define VC_PUNCTUATION \
    (VC_OF(VC_PC) | VC_OF(VC_PD) | VC_OF(VC_PE) | VC_OF(VC_PF) | VC_OF(VC_PI) | VC_OF(VC_PO) | VC_OF(VC_PS))

/* Of grapheme clusters and scripts: bits of vc_unicode_flags. */
enum vc_unicode_flag { VC_STAYS_BEHIND = 1, VC_STAYS_BEFORE = 2, VC_IS_HAN = 4 };

unsigned vc_unicode_category(uint32_t c); /* an enum vc_category */
unsigned vc_unicode_flags(uint32_t c);
unsigned vc_unicode_class(uint32_t c); /* canonical combining class, 0 to 254 */
/* The only character of two that is a letter of more in lower case is U+0130: 'i' and U+0307. */
uint32_t vc_unicode_lower(uint32_t c);
bool vc_unicode_is_space(uint32_t c); /* White_Space */
static inline bool vc_unicode_in(uint32_t c, uint32_t categories)
{
    return (categories >> vc_unicode_category(c) & 1) != 0;
}

/* Alphabetic, a mark, a decimal number or a connector (UTS 18's \w but for the joiners). */
bool vc_unicode_is_alphanumeric(uint32_t c);

#define VC_MOST_DECOMPOSED 32 /* characters; Unicode has 18 */

/* The full decomposition, in `to`: how many characters. compat: with those of compatibility, NFKD. */
size_t vc_unicode_decompose(uint32_t c, bool compat, uint32_t to[VC_MOST_DECOMPOSED]);
/* The character that NFC makes of two; 0: none. */
uint32_t vc_unicode_compose(uint32_t first, uint32_t second);

/* ---- UTF-8, which is valid ---- */

/* The character at s; *n its bytes. */
static inline uint32_t vc_utf8_at(const char *s, size_t *n)
{
    const unsigned char *p = (const unsigned char *)s;

    if (p[0] < 0x80) {
        *n = 1;
        return p[0];
    }
    *n = p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : 4;
    uint32_t c = p[0] & (0x7fU >> *n);
    for (size_t k = 1; k < *n; k++) {
        c = c << 6 | (p[k] & 0x3fU);
    }
    return c;
}
/* Bytes of the character that ends before s + at; at > 0. */
static inline size_t vc_utf8_before(const char *s, size_t at)
{
    size_t n = 1;

    while (n < 4 && n < at && ((unsigned char)s[at - n] & 0xc0) == 0x80) {
        n++;
    }
    return n;
}
/* Writes it; how many bytes. */
size_t vc_utf8_put(uint32_t c, char to[4]);
/* The bytes from the first on that are valid UTF-8, NULs among them. */
size_t vc_utf8_valid_bytes(const char *s, size_t n);

/* The letter of GPT-2 for a byte (vocabulary.c). */
uint32_t vc_tok_byte_letter(unsigned char byte);
