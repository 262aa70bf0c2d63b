/* svg_text.c - names in drawings: svg_text.h.
 *
 * Two things are guarded: the XML (escapes, characters that XML 1.0 does not allow) and the reader, whose text must not
 * be reordered by a name. */
#include "report/page/svg_text.h"

/* Length of the character at s, 1 to 4; 0 if it is not one that XML allows, or one that reorders text. The control
 * characters C0, DEL and C1; U+200E, U+200F and U+2028 to U+202E, U+2066 to U+2069 (directions); U+FFFE and U+FFFF,
 * which are no characters. */
static size_t char_length(const unsigned char *s)
{
    size_t n = (size_t)1 + (s[0] >= 0x80) + (s[0] >= 0xe0) + (s[0] >= 0xf0);
    unsigned code;

    for (size_t i = 1; i < n; i++) {
        if ((s[i] & 0xc0u) != 0x80u) {
            return 0;
        }
    }
    if (!vc_utf8_valid((const char *)s, n) || s[0] < 0x20 || s[0] == 0x7f) {
        return 0;
    }
    code = n == 3 ? (s[0] & 0xfu) << 12 | (s[1] & 0x3fu) << 6 | (s[2] & 0x3fu) : 0;
    if ((n == 2 && s[0] == 0xc2 && s[1] < 0xa0) || (code >= 0x200e && code <= 0x200f) ||
        (code >= 0x2028 && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069) || code >= 0xfffe) {
        return 0;
    }
    return n;
}

/* One character, escaped; n 0: a byte that is not part of a character. */
static void add_char(struct vc_text *text, const unsigned char *s, size_t n)
{
    switch (n == 1 ? s[0] : 'x') {
    case '<':
        vc_text_add(text, "&lt;");
        break;
    case '>':
        vc_text_add(text, "&gt;");
        break;
    case '&':
        vc_text_add(text, "&amp;");
        break;
    case '"':
        vc_text_add(text, "&quot;");
        break;
    case '\'':
        vc_text_add(text, "&#39;");
        break;
    default:
        vc_text_add_bytes(text, n == 0 ? "?" : (const char *)s, n == 0 ? 1 : n);
        break;
    }
}

/* Two walks: the first counts the characters, the second leaves out the middle. */
void vc_svg_add_text(struct vc_text *text, const char *name, size_t most)
{
    const unsigned char *s = (const unsigned char *)name;
    size_t length = 0;
    size_t at = 0;

    for (const unsigned char *p = s; *p != '\0'; p += char_length(p) == 0 ? 1 : char_length(p)) {
        length++;
    }
    while (*s != '\0') {
        size_t n = char_length(s);

        if (length <= most || at < most / 2 || at >= length - (most - most / 2 - 1)) {
            add_char(text, s, n);
        } else if (at == most / 2) {
            vc_text_add(text, "&#8230;");
        }
        at++;
        s += n == 0 ? 1 : n;
    }
}
