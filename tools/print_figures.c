/* print_figures.c - figures of reports: sizes with units, counts, ratios, shapes (print.h).
 *
 * Every function fills a buffer of CELL_BYTES and returns it. Figures have two to four digits: a report is read, and
 * exact numbers are in the JSON document. */
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <string.h>

#include "tools/print.h"

const char *plural(uint64_t n)
{
    return n == 1 ? "" : "s";
}

char *fmt_text(char *buf, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    (void)vsnprintf(buf, CELL_BYTES, format, args);
    va_end(args);
    return buf;
}

/* 999.95 and 9.995 are where rounding would give one digit more: "1000 k" becomes "1.00 M". */
char *fmt_figure(char *buf, uint64_t n)
{
    static const char units[] = " kMGTP";
    double x = (double)n;
    unsigned unit = 0;

    while (x >= 999.95 && unit < sizeof(units) - 2) {
        x /= 1000;
        unit++;
    }
    if (unit == 0) {
        (void)snprintf(buf, CELL_BYTES, "%" PRIu64, n);
    } else {
        (void)snprintf(buf, CELL_BYTES, "%.*f %c", x < 9.995 ? 2 : x < 99.95 ? 1 : 0, x, units[unit]);
    }
    return buf;
}

/* The digits of n, without a NUL; tells how many. Tables of a file's tensors have several numbers a row, and printf
 * takes ten times as long. */
static size_t put_digits(char *to, uint64_t n)
{
    char digits[20];
    size_t at = sizeof(digits);

    do {
        digits[--at] = (char)('0' + n % 10);
        n /= 10;
    } while (n != 0);
    memcpy(to, digits + at, sizeof(digits) - at);
    return sizeof(digits) - at;
}

char *fmt_count(char *buf, uint64_t n)
{
    char digits[24];
    size_t len = put_digits(digits, n);
    char *p = buf;

    for (size_t i = 0; i < len; i++) {
        if (i > 0 && (len - i) % 3 == 0) {
            *p++ = ',';
        }
        *p++ = digits[i];
    }
    *p = '\0';
    return buf;
}

/* Powers of two. 1023.95 KiB would be printed as "1024.0 KiB" and becomes "1.00 MiB". --bytes: "1,205,862 B". */
char *fmt_size(char *buf, const struct out *out, uint64_t bytes)
{
    static const char *const units[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    double v = (double)bytes / 1024;
    size_t unit = 0;

    if (out->bytes || bytes < 1024) {
        fmt_count(buf, bytes);
        strcat(buf, " B");
        return buf;
    }
    while (v >= 1023.95 && unit + 1 < sizeof(units) / sizeof(units[0])) {
        v /= 1024;
        unit++;
    }
    snprintf(buf, CELL_BYTES, "%.*f %s", v < 9.995 ? 2 : 1, v, units[unit]);
    return buf;
}

char *fmt_headroom(char *buf, const struct out *out, int64_t bytes)
{
    snprintf(buf, CELL_BYTES, "%s%.40s", bytes < 0 ? "-" : "",
             fmt_size(CELL, out, bytes < 0 ? (uint64_t)-bytes : (uint64_t)bytes));
    return buf;
}

char *fmt_ratio(char *buf, const struct out *out, uint64_t before, uint64_t after)
{
    if (after == 0 || before == 0) {
        snprintf(buf, CELL_BYTES, "-");
    } else {
        snprintf(buf, CELL_BYTES, "%.2f%s", (double)before / (double)after, out_times(out));
    }
    return buf;
}

/* Less than half a percent is "about the same size". */
char *fmt_change(char *buf, const struct out *out, uint64_t before, uint64_t after)
{
    bool larger = after > before;
    double ratio = larger ? (double)after / (double)before : (double)before / (double)after;

    if (before == 0 || after == 0 || ratio < 1.005) {
        snprintf(buf, CELL_BYTES, "%s", before == after ? "same size" : "about the same size");
    } else {
        snprintf(buf, CELL_BYTES, "%.2f%s %s", ratio, out_times(out), larger ? "larger" : "smaller");
    }
    return buf;
}

/* A share that is there is never "0 %". */
char *fmt_percent(char *buf, double part, double whole)
{
    double p = whole > 0 ? 100 * part / whole : 0;

    if (p < 0.05) {
        strcpy(buf, p > 0 ? "< 0.1 %" : "0 %");
    } else {
        snprintf(buf, CELL_BYTES, p >= 99.95 ? "%.0f %%" : "%.1f %%", p);
    }
    return buf;
}

/* Infinite where no value changed; NaN where nothing was measured. */
char *fmt_db(char *buf, double db)
{
    if (isinf(db) && db > 0) {
        snprintf(buf, CELL_BYTES, "exact");
    } else if (!isfinite(db)) {
        snprintf(buf, CELL_BYTES, "-");
    } else {
        snprintf(buf, CELL_BYTES, "%.1f dB", db);
    }
    return buf;
}

/* What "%.3g" prints, for most numbers whose three digits begin with one of the first four behind the point, or before
 * it: tables of statistics have several in each row, and printf takes five times as long. False, and nothing is
 * written, where the product below is too near to half a digit to tell how it is rounded. For a three-digit result the
 * number is scaled to an integer of three digits, 100 <= n < 999:
 *
 *     0.01234    * 10^4 = 123.4    n = 123, 4 places    "0.0123"
 *     12.5       * 10   = 125      n = 125, 1 place     "12.5"
 *     0.500      * 10^3 = 500      trailing zeros go    "0.5" */
static bool put_real(char *to, double x)
{
    static const double scales[] = {1, 10, 100, 1e3, 1e4, 1e5, 1e6}; /* |x| = 100, 10, 1, 0.1, ... */
    static const unsigned tens[] = {1, 10, 100, 1000, 10000, 100000, 1000000};
    double least = 100;
    unsigned places = 0; /* digits behind the point */
    double scaled;
    unsigned n;

    while (places < 6 && fabs(x) < least) {
        places++;
        least = 100 / scales[places];
    }
    scaled = fabs(x) * scales[places]; /* at most 1e-13 off */
    if (!(scaled >= 100 && scaled < 999) || fabs(scaled - floor(scaled) - 0.5) < 1e-6) {
        return false;
    }
    for (n = (unsigned)(scaled + 0.5); places > 0 && n % 10 == 0; places--) {
        n /= 10;
    }
    if (signbit(x)) {
        *to++ = '-';
    }
    to += put_digits(to, n / tens[places]);
    if (places > 0) {
        *to++ = '.';
        for (unsigned k = places; k-- > 0;) {
            *to++ = (char)('0' + n / tens[k] % 10);
        }
    }
    *to = '\0';
    return true;
}

char *fmt_real(char *buf, double x)
{
    if (!put_real(buf, x)) {
        snprintf(buf, CELL_BYTES, "%.3g", x);
    }
    return buf;
}

#define LEARN_SECONDS 2.0 /* before, the rate says little */

/* The time so far, times what is left per part done. Rates of the first two seconds, and of the first percent, say
 * little. */
char *fmt_left(char *buf, double seconds, double part)
{
    double left = seconds / part * (1 - part);
    unsigned long s = left < 1e6 ? (unsigned long)(left + 0.5) : 0;

    if (seconds < LEARN_SECONDS || part < 0.01 || part >= 1 || left >= 1e6) {
        buf[0] = '\0';
    } else if (s < 60) {
        snprintf(buf, CELL_BYTES, "%lu s left", s);
    } else if (s < 3600) {
        snprintf(buf, CELL_BYTES, "%lu:%02lu left", s / 60, s % 60);
    } else {
        snprintf(buf, CELL_BYTES, "%lu:%02lu:%02lu left", s / 3600, s / 60 % 60, s % 60);
    }
    return buf;
}

/* A shape that does not fit ends with an ellipsis: 20 bytes are kept for each number. */
char *fmt_shape(char *buf, const struct out *out, unsigned n_dims, const uint64_t *shape)
{
    size_t n = 0;
    size_t room = CELL_BYTES - 24;

    if (n_dims == 0) {
        snprintf(buf, CELL_BYTES, "scalar");
        return buf;
    }
    for (unsigned i = 0; i < n_dims; i++) {
        const char *join = i > 0 ? out_times(out) : "";

        if (n > room - 20 && i + 1 < n_dims) {
            snprintf(buf + n, CELL_BYTES - n, "%s%s", join, out_ellipsis(out));
            return buf;
        }
        memcpy(buf + n, join, strlen(join));
        n += strlen(join);
        n += put_digits(buf + n, shape[i]);
    }
    buf[n] = '\0';
    return buf;
}

const char *fmt_share(char *buf, double share)
{
    if (isnan(share)) {
        return "-";
    }
    snprintf(buf, CELL_BYTES, "%.2f %%", 100 * share);
    return buf;
}
