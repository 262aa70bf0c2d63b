/* fraction.c - see fraction.h. */
#include "passes/scores/fraction.h"

#include <string.h>

#define MAX_D 1000000000u /* nine digits behind the point: the products below stay under 2^64 */

bool vc_fraction_parse(const char *text, struct vc_fraction *out)
{
    size_t n = strlen(text);
    bool percent = n > 0 && text[n - 1] == '%';
    const char *end = text + n - percent;
    struct vc_fraction f = {0, percent ? 100 : 1};
    bool point = false;
    bool any = false;

    for (; text < end; text++) {
        if (*text == '.' && !point) {
            point = true;
            continue;
        }
        if (*text < '0' || *text > '9' || f.n > f.d) {
            return false;
        }
        if (point && *text == '0' && strspn(text, "0") == (size_t)(end - text)) {
            any = true;
            break; /* nothing but zeros follows */
        }
        if (point && f.d >= MAX_D) {
            return false;
        }
        f.n = f.n * 10 + (uint64_t)(*text - '0');
        f.d *= point ? 10 : 1;
        any = true;
    }
    if (!any || f.n > f.d) {
        return false;
    }
    *out = f;
    return true;
}

uint64_t vc_fraction_floor(struct vc_fraction fraction, uint64_t count)
{
    return count / fraction.d * fraction.n + count % fraction.d * fraction.n / fraction.d;
}

uint64_t vc_fraction_ceil(struct vc_fraction fraction, uint64_t count)
{
    return count - vc_fraction_floor((struct vc_fraction){fraction.d - fraction.n, fraction.d}, count);
}
