/* fraction.c - see fraction.h. */
#include "core/values/fraction.h"

#include "core/base/ctx.h"

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

enum vc_status vc_share_read(struct vc_ctx *ctx, const char *option, const char *text, struct vc_fraction *out)
{
    return vc_fraction_parse(text, out)
               ? VC_OK
               : vc_fail(
                     ctx, VC_E_ARGUMENT,
                     "%s: '%s' is no share: a decimal from 0 to 1 with at most 9 digits behind the point, such as 0.5",
                     vc_option(ctx, option), text);
}

uint64_t vc_fraction_floor(struct vc_fraction fraction, uint64_t count)
{
    return count / fraction.d * fraction.n + count % fraction.d * fraction.n / fraction.d;
}

uint64_t vc_fraction_ceil(struct vc_fraction fraction, uint64_t count)
{
    return count - vc_fraction_floor((struct vc_fraction){fraction.d - fraction.n, fraction.d}, count);
}
