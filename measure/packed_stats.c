/* packed_stats.c - see packed_stats.h. Threads that look at tensors add to one arena, each in its turn. */
#include "measure/packed_stats.h"

#include <math.h>

#include "core/base/arena.h"

#define COUNT_BYTES ((size_t)10) /* of a count, at most */
#define MOST_BYTES  (4 * sizeof(double) + (8 + VC_HISTOGRAM_BINS) * COUNT_BYTES)

struct vc_packed_stats {
    pthread_mutex_t mutex; /* of the arena, while there are several threads */
    bool has_mutex;
    struct vc_arena arena;
    const char **of; /* by tensor; NULL: it has none */
};

/* A double as its bytes. What is packed stays in this process, so byte order does not matter. */
static char *put_real(char *to, double x)
{
    memcpy(to, &x, sizeof x);
    return to + sizeof x;
}

static const char *get_real(const char *from, double *x)
{
    memcpy(x, from, sizeof *x);
    return from + sizeof *x;
}

/* A count, 7 bits a byte, the lowest first: 300 is 0xac 0x02. Counts of small tensors take one or two
 * bytes. */
static char *put_count(char *to, uint64_t n)
{
    for (; n >= 0x80; n >>= 7) {
        *to++ = (char)(unsigned char)(n | 0x80);
    }
    *to++ = (char)n;
    return to;
}

/* Seven bits in each byte, the low ones first; a byte of 0x80 or more has others behind it. Returns where
 * the next number begins. */
static const char *get_count(const char *from, uint64_t *n)
{
    *n = 0;
    for (unsigned shift = 0;; shift += 7) {
        unsigned char byte = (unsigned char)*from++;

        *n |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) {
            return from;
        }
    }
}

/* Lays the statistics out as packed_stats.h shows. Bin 0, of zeros, is apart, since it lies far from the
 * others. Returns the end of what it wrote. */
static char *pack(char *to, const struct vc_value_stats *stats)
{
    const uint64_t *bins = stats->histogram;
    size_t first = 1;
    size_t end = VC_HISTOGRAM_BINS;

    while (first < end && bins[first] == 0) {
        first++;
    }
    while (end > first && bins[end - 1] == 0) {
        end--;
    }
    to = put_real(to, stats->min);
    to = put_real(to, stats->max);
    to = put_real(to, stats->mean);
    to = put_real(to, stats->rms);
    to = put_count(to, stats->n_elems);
    to = put_count(to, stats->nans);
    to = put_count(to, stats->infs);
    to = put_count(to, stats->zeros);
    to = put_count(to, stats->subnormals);
    to = put_count(to, bins[0]);
    to = put_count(to, first);
    to = put_count(to, end - first);
    for (; first < end; first++) {
        to = put_count(to, bins[first]);
    }
    return to;
}

/* Packs on the stack, without the lock; only the copy into the arena is under it. */
enum vc_status vc_packed_stats_set(struct vc_ctx *ctx, struct vc_packed_stats *packed, size_t tensor,
                                   const struct vc_value_stats *stats)
{
    char bytes[MOST_BYTES];
    size_t n = (size_t)(pack(bytes, stats) - bytes);

    (void)pthread_mutex_lock(&packed->mutex);
    packed->of[tensor] = vc_arena_copy(ctx, &packed->arena, bytes, n);
    (void)pthread_mutex_unlock(&packed->mutex);
    return packed->of[tensor] != NULL ? VC_OK : VC_E_NOMEM;
}

/* The reverse of pack. The largest magnitude is not kept, as it follows from min and max. */
void vc_packed_stats_get(const struct vc_packed_stats *packed, size_t tensor, struct vc_value_stats *stats)
{
    const char *from = packed->of[tensor];
    uint64_t first, n;

    memset(stats, 0, sizeof *stats);
    if (from == NULL) {
        return;
    }
    stats->valid = true;
    from = get_real(from, &stats->min);
    from = get_real(from, &stats->max);
    from = get_real(from, &stats->mean);
    from = get_real(from, &stats->rms);
    from = get_count(from, &stats->n_elems);
    from = get_count(from, &stats->nans);
    from = get_count(from, &stats->infs);
    from = get_count(from, &stats->zeros);
    from = get_count(from, &stats->subnormals);
    from = get_count(from, &stats->histogram[0]);
    from = get_count(from, &first);
    from = get_count(from, &n);
    for (; n > 0; n--) {
        from = get_count(from, &stats->histogram[first++]);
    }
    stats->absmax = fmax(fabs(stats->min), fabs(stats->max));
}

/* Room for n tensors, of which nothing is known yet. */
enum vc_status vc_packed_stats_create(struct vc_ctx *ctx, size_t n, struct vc_packed_stats **out)
{
    struct vc_packed_stats *packed = vc_calloc_array(ctx, VC_TAG_REPORT, 1, sizeof *packed);
    enum vc_status status = VC_OK;

    *out = NULL;
    VC_TRY_ALLOC(packed);
    if (pthread_mutex_init(&packed->mutex, NULL) != 0) {
        VC_TRY(vc_fail(ctx, VC_E_NOMEM, "cannot make a lock"));
    }
    packed->has_mutex = true;
    VC_TRY(VC_ZEROS(ctx, VC_TAG_REPORT, packed->of, n));
    *out = packed;
    return VC_OK;
out:
    vc_packed_stats_free(ctx, packed);
    return status;
}

void vc_packed_stats_free(struct vc_ctx *ctx, struct vc_packed_stats *packed)
{
    if (packed == NULL) {
        return;
    }
    if (packed->has_mutex) {
        (void)pthread_mutex_destroy(&packed->mutex);
    }
    vc_arena_release(ctx, &packed->arena);
    VC_FREE_ALL(ctx, packed->of, packed);
}
