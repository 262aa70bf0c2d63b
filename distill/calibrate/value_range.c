/* value_range.c - see value_range.h. Threads take units of a value: positions where a mask leaves some out,
 * else pieces of UNIT elements:
 *
 *     find_extremes      min, max; whether all are finite
 *     count              each element into its bin, in the part of the thread; parts are added up at the end
 *
 * A bin's width must hold the largest element, which earlier batches nearly always tell. Where it does not fit, what was
 * counted of this value is forgotten, bins are widened (neighbours become one), and all of it is counted again.
 */
#include "distill/calibrate/value_range.h"

#include <float.h>
#include <math.h>

#include "kernels/train_args.h"

#define UNIT         4096
#define LEAST        (-126) /* exponent of a width: the first, which elements that are 0 do not change */
#define FEW_ELEMENTS ((size_t)1 << 15)
#define LANES        16

/* What one thread has found. */
struct part {
    bool good;
    bool missed; /* some are too large for the bins */
    float min, max;
    uint64_t bins[2][VC_RANGE_BINS]; /* elements in turns: equal ones, such as zeros, wait for each other */
};

/* One pass over one value. */
struct looking {
    const float *x;
    size_t n, unit;
    const uint8_t *mask; /* by unit; NULL: all count */
    float limit, scale;  /* what all elements are below; 1 / width */
    struct part *parts;
    atomic_size_t next;
};

/* NaN compares as false, so it changes neither extreme; `good` says that it was there. Each lane has extremes of its own. */
static void find_extremes(struct part *part, const float *x, size_t n)
{
    float min[LANES];
    float max[LANES];
    int32_t good[LANES];
    size_t i = 0;

    for (size_t j = 0; j < LANES; j++) {
        min[j] = part->min;
        max[j] = part->max;
        good[j] = part->good;
    }
    for (size_t lanes = LANES; i < n; i += lanes) {
        lanes = n - i < LANES ? 1 : LANES;
        for (size_t j = 0; j < lanes; j++) {
            float v = x[i + j];

            good[j] &= fabsf(v) <= FLT_MAX;
            min[j] = v < min[j] ? v : min[j];
            max[j] = v > max[j] ? v : max[j];
        }
    }
    for (size_t j = 0; j < LANES; j++) {
        part->min = min[j] < part->min ? min[j] : part->min;
        part->max = max[j] > part->max ? max[j] : part->max;
        part->good = part->good && good[j];
    }
}

/* The bin is floor(x / width). A product that is rounded to 0 belongs to the side that x is on. */
static void count(struct part *part, float scale, const float *x, size_t n)
{
    int32_t at[UNIT / 16];

    for (size_t first = 0; first < n; first += UNIT / 16) {
        size_t end = VC_AT_MOST(n - first, UNIT / 16);

        for (size_t i = 0; i < end; i++) {
            float v = x[first + i] * scale;
            int32_t whole = (int32_t)v;

            at[i] = VC_RANGE_BINS / 2 + whole - ((x[first + i] < 0.0f) & ((v < (float)whole) | (whole == 0)));
        }
        for (size_t i = 0; i + 1 < end; i += 2) {
            part->bins[0][at[i]]++;
            part->bins[1][at[i + 1]]++;
        }
        if (end % 2 != 0) {
            part->bins[0][at[end - 1]]++;
        }
    }
}

/* A thread: takes units until there are none. */
static void look(void *user, unsigned worker)
{
    struct looking *l = user;
    struct part *part = &l->parts[worker];

    for (;;) {
        size_t k = atomic_fetch_add(&l->next, 1);
        size_t n = k < (l->n + l->unit - 1) / l->unit ? VC_AT_MOST(l->n - k * l->unit, l->unit) : 0;

        if (n == 0) {
            return;
        }
        if (l->mask != NULL && l->mask[k] == 0) {
            continue;
        }
        find_extremes(part, l->x + k * l->unit, n);
        part->missed = !part->good || fmaxf(-part->min, part->max) >= l->limit;
        if (!part->missed) {
            count(part, l->scale, l->x + k * l->unit, n);
        }
    }
}

/* All of the value into bins of this width, on all threads or on this one. False: some are too large, or not finite. */
static bool run(struct looking *l, struct vc_thread_pool *pool, int exponent)
{
    unsigned n_parts = vc_thread_pool_size(pool);
    bool missed = false;

    for (unsigned k = 0; k < n_parts; k++) {
        l->parts[k] = (struct part){.good = true, .min = INFINITY, .max = -INFINITY};
    }
    l->limit = ldexpf(1.0f, exponent + 10);
    l->scale = ldexpf(1.0f, -exponent);
    atomic_init(&l->next, 0);
    if (l->n < FEW_ELEMENTS) {
        look(l, 0); /* waking threads would take longer */
    } else {
        vc_thread_pool_run(pool, look, l);
    }
    for (unsigned k = 0; k < n_parts; k++) {
        missed = missed || l->parts[k].missed;
    }
    return !missed;
}

/* Names the row of the first element that counts and is not finite. */
static enum vc_status refuse(struct vc_ctx *ctx, const struct looking *l, const struct vc_collect_rows *rows)
{
    size_t each = l->n / rows->n + (l->n < rows->n);
    size_t i = 0;

    while (fabsf(l->x[i]) <= FLT_MAX || (l->mask != NULL && l->mask[i / l->unit] == 0)) {
        i++;
    }
    return vc_fail(ctx, VC_E_FORMAT, "row %llu: the input is NaN or infinite",
                   (unsigned long long)rows->numbers[VC_AT_MOST(i / each, rows->n - 1)]);
}

/* No element was seen. */
void vc_value_range_begin(struct vc_value_range *range, uint32_t value)
{
    memset(range->bins, 0, sizeof range->bins);
    range->value = value;
    range->min = INFINITY;
    range->max = -INFINITY;
    range->exponent = LEAST;
}

/* Bins of at least this width. */
static void widen(struct vc_value_range *range, int exponent)
{
    int steps = exponent - range->exponent;

    if (steps <= 0) {
        return;
    }
    for (int b = 0; b < VC_RANGE_BINS / 2; b++) { /* outwards: what moves comes from bins that are done or farther */
        int to = steps < 31 ? b >> steps : 0;
        uint64_t right = range->bins[VC_RANGE_BINS / 2 + b];
        uint64_t left = range->bins[VC_RANGE_BINS / 2 - 1 - b];

        range->bins[VC_RANGE_BINS / 2 + b] = range->bins[VC_RANGE_BINS / 2 - 1 - b] = 0;
        range->bins[VC_RANGE_BINS / 2 + to] += right;
        range->bins[VC_RANGE_BINS / 2 - 1 - to] += left;
    }
    range->exponent = exponent;
}

/* The width is a power of two with 1024 bins on each side, so all elements are below 2^exponent. */
enum vc_status vc_value_range_add(struct vc_ctx *ctx, struct vc_value_range *range, struct vc_thread_pool *pool,
                                  const struct vc_run_value *value, const struct vc_collect_rows *rows)
{
    unsigned n_parts = vc_thread_pool_size(pool);
    size_t vector = value->n_dims != 0 ? (size_t)value->shape[value->n_dims - 1] : 1;
    bool masked = rows->mask != NULL && value->n == rows->n * rows->width * vector;
    struct looking l = {.x = value->data, .n = value->n, .unit = masked ? vector : UNIT};
    float min = range->min;
    float max = range->max;
    bool good = true;
    int exponent;
    enum vc_status status = VC_OK;

    if (value->n == 0) {
        return VC_OK;
    }
    l.mask = masked ? rows->mask : NULL;
    VC_TRY(VC_ARRAY(ctx, VC_TAG_MISC, l.parts, n_parts));
    bool fits = run(&l, pool, range->exponent);
    for (unsigned k = 0; k < n_parts; k++) {
        good = good && l.parts[k].good;
        min = fminf(min, l.parts[k].min);
        max = fmaxf(max, l.parts[k].max);
    }
    if (!good) {
        VC_TRY(refuse(ctx, &l, rows));
    }
    range->min = min + 0.0f; /* 0 where threads and lanes may have seen -0 first */
    range->max = max + 0.0f;
    if (!fits) {
        (void)frexpf(fmaxf(-min, max), &exponent); /* all below 2^exponent */
        widen(range, exponent - 10);
        (void)run(&l, pool, range->exponent);
    }
    for (unsigned k = 0; k < n_parts; k++) {
        for (size_t b = 0; b < VC_RANGE_BINS; b++) {
            range->bins[b] += l.parts[k].bins[0][b] + l.parts[k].bins[1][b];
        }
    }
out:
    vc_free(ctx, l.parts);
    return status;
}
