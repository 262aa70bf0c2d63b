/* page_figures.c - how figures look on pages: the same in every locale. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "report/pages/page_write.h"

/* Some locales have a comma, or several bytes, where a point belongs. */
static void set_point(char *s)
{
    size_t n = strspn(s, "-0123456789");
    size_t m = strcspn(s + n, "0123456789e");

    if (s[n] != '\0' && s[n] != 'e' && s[n] != '.') {
        s[n] = '.';
        memmove(s + n + 1, s + n + m, strlen(s + n + m) + 1);
    }
}

struct vc_figure vc_figure_fixed(double x, int decimals)
{
    struct vc_figure f;

    if (!isfinite(x)) {
        return (struct vc_figure){"-"};
    }
    (void)snprintf(f.s, sizeof f.s, "%.*f", decimals, x);
    set_point(f.s);
    return f;
}

struct vc_figure vc_figure_real(double x)
{
    struct vc_figure f = {"-"};

    if (!isfinite(x)) {
        return f;
    }
    (void)snprintf(f.s, sizeof f.s, "%.3g", x);
    set_point(f.s);
    return f;
}

/* A number with a unit behind it: "12.5" and "MiB". */
static struct vc_figure with_unit(double x, int decimals, const char *unit)
{
    struct vc_figure f = vc_figure_fixed(x, decimals);
    size_t n = strlen(f.s);

    (void)snprintf(f.s + n, sizeof f.s - n, " %s", unit);
    return f;
}

struct vc_figure vc_figure_count(uint64_t n)
{
    char digits[24];
    size_t length = (size_t)snprintf(digits, sizeof digits, "%" PRIu64, n);
    struct vc_figure f;
    char *p = f.s;

    for (size_t i = 0; i < length; i++) {
        if (i > 0 && (length - i) % 3 == 0) {
            *p++ = ',';
        }
        *p++ = digits[i];
    }
    *p = '\0';
    return f;
}

struct vc_figure vc_figure_size(uint64_t bytes)
{
    static const char *const units[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    double v = (double)bytes / 1024.0;
    size_t unit = 0;
    struct vc_figure f;

    if (bytes < 1024) {
        (void)snprintf(f.s, sizeof f.s, "%" PRIu64 " B", bytes);
        return f;
    }
    while (v >= 1023.95 && unit + 1 < sizeof units / sizeof units[0]) {
        v /= 1024.0;
        unit++;
    }
    return with_unit(v, v < 9.995 ? 2 : 1, units[unit]);
}

struct vc_figure vc_figure_short(uint64_t n)
{
    static const char *const units[] = {"K", "M", "G", "T", "P", "E"};
    double v = (double)n / 1000.0;
    size_t unit = 0;

    if (n < 10000) {
        return vc_figure_count(n);
    }
    while (v >= 999.5 && unit + 1 < sizeof units / sizeof units[0]) {
        v /= 1000.0;
        unit++;
    }
    return with_unit(v, v < 9.995 ? 2 : v < 99.95 ? 1 : 0, units[unit]);
}

struct vc_figure vc_figure_ratio(uint64_t before, uint64_t after)
{
    return vc_figure_fixed(before == 0 || after == 0 ? (double)NAN : (double)before / (double)after, 2);
}

struct vc_figure vc_figure_percent(double part, double whole)
{
    double percent = whole > 0 ? 100.0 * part / whole : 0.0;

    return with_unit(percent, percent == 0.0 || percent >= 99.95 ? 0 : percent < 0.095 ? 2 : 1, "%");
}

struct vc_figure vc_figure_db(double db)
{
    return isinf(db) && db > 0 ? (struct vc_figure){"exact"}
           : !isfinite(db)     ? (struct vc_figure){"-"}
                               : with_unit(db, 1, "dB");
}

struct vc_figure vc_figure_shape(unsigned n_dims, const uint64_t *shape)
{
    struct vc_figure f = {"scalar"};
    size_t n = 0;

    for (unsigned i = 0; i < n_dims; i++) {
        char part[32];
        size_t m = (size_t)snprintf(part, sizeof part, "%s%" PRIu64, i == 0 ? "" : "&#215;", shape[i]);

        if (n + m + 8 >= sizeof f.s) {
            memcpy(f.s + n, "&#8230;", sizeof "&#8230;");
            break;
        }
        memcpy(f.s + n, part, m + 1);
        n += m;
    }
    return f;
}
