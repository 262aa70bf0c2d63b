/* test_axis_sums.c - sums of what belongs to each index of an axis: against plain loops, and the same bits whatever the
 * order of the tiles. */
#include "support.h"

#include <math.h>
#include <stdlib.h>

#include "core/values/tile.h"
#include "kernels/kernels.h"
#include "passes/scores/axis_sums.h"

static uint64_t seed = 1;

static uint64_t held; /* by the kernels' table */

static struct vc_ctx *ctx_with_kernels(void)
{
    struct vc_ctx *ctx = test_ctx();

    assert_non_null(vc_kernels_get(ctx));
    held = vc_pool_in_use(ctx->shared->pool);
    return ctx;
}

static void ctx_done(struct vc_ctx *ctx)
{
    assert_int_equal(vc_pool_in_use(ctx->shared->pool), held);
    vc_ctx_free(ctx);
}

static uint64_t draw(uint64_t below)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (seed >> 20) % below;
}

/* Adds all tiles in an order of chance; the caller frees the sums. */
static double *sum_up(struct vc_ctx *ctx, const uint64_t *shape, unsigned n_dims, unsigned axis, unsigned power,
                      const float *x)
{
    double *result = malloc((size_t)shape[axis] * sizeof *result);
    struct vc_axis_sums sums;
    uint64_t n_rows;
    uint64_t row_len;
    uint64_t n_tiles;
    uint64_t *order;
    void *scratch;

    vc_rows_of(shape, n_dims, &n_rows, &row_len);
    n_tiles = vc_tile_count(n_rows, row_len);
    order = malloc(n_tiles * sizeof *order);
    assert_non_null(result);
    assert_non_null(order);
    for (uint64_t i = 0; i < n_tiles; i++) {
        uint64_t other = draw(i + 1);

        order[i] = order[other];
        order[other] = i;
    }
    assert_int_equal(vc_axis_sums_init(ctx, &sums, shape, n_dims, axis, power), VC_OK);
    scratch = malloc(vc_axis_sums_scratch(&sums));
    assert_non_null(scratch);
    for (uint64_t i = 0; i < n_tiles; i++) {
        struct vc_tile tile;

        vc_tile_get(n_rows, row_len, order[i], &tile);
        assert_int_equal(vc_axis_sums_add(ctx, &sums, &tile, x + tile.first, false, scratch), VC_OK);
    }
    vc_axis_sums_end(ctx, &sums);
    memcpy(result, sums.sum, (size_t)shape[axis] * sizeof *result);
    vc_axis_sums_release(ctx, &sums);
    free(scratch);
    free(order);
    return result;
}

static void one_case(struct vc_ctx *ctx, const uint64_t *shape, unsigned n_dims, unsigned axis, unsigned power)
{
    uint64_t n = 1;
    uint64_t inner = 1;
    double *plain = calloc((size_t)shape[axis], sizeof *plain);
    double *first;
    double *second;
    float *x;

    for (unsigned d = 0; d < n_dims; d++) {
        n *= shape[d];
        inner *= d > axis ? shape[d] : 1;
    }
    x = malloc((size_t)n * sizeof *x);
    assert_non_null(plain);
    assert_non_null(x);
    for (uint64_t i = 0; i < n; i++) {
        x[i] = ((float)draw(2001) - 1000.0f) / 512.0f;
        plain[i / inner % shape[axis]] += power == 1 ? fabs((double)x[i]) : (double)x[i] * (double)x[i];
    }
    first = sum_up(ctx, shape, n_dims, axis, power, x);
    second = sum_up(ctx, shape, n_dims, axis, power, x);
    assert_memory_equal(first, second, (size_t)shape[axis] * sizeof *first);
    for (uint64_t i = 0; i < shape[axis]; i++) {
        assert_true(fabs(first[i] - plain[i]) <= 1e-12 * plain[i]);
    }
    free(x);
    free(plain);
    free(first);
    free(second);
}

/* One tile; many; rows longer than a tile; axes in the middle; an odd number of tiles; vectors. */
static void sums_are_those_of_loops(void **state)
{
    static const struct {
        unsigned n_dims;
        uint64_t shape[4];
    } cases[] = {{2, {7, 5}},      {1, {1000}},         {1, {600001}},      {2, {1500, 701}},
                 {2, {3, 300001}}, {4, {64, 32, 3, 3}}, {3, {5, 257, 333}}, {4, {3, 2, 5, 60001}}};
    struct vc_ctx *ctx = ctx_with_kernels();

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        for (unsigned axis = 0; axis < cases[i].n_dims; axis++) {
            one_case(ctx, cases[i].shape, cases[i].n_dims, axis, 1 + axis % 2);
            one_case(ctx, cases[i].shape, cases[i].n_dims, axis, 2 - axis % 2);
        }
    }
    ctx_done(ctx);
}

/* A failure at any allocation leaves nothing behind. */
static void no_memory(void **state)
{
    const uint64_t shape[] = {900, 600};

    (void)state;
    for (uint64_t n = 1; n < 6; n++) {
        struct vc_ctx *ctx = ctx_with_kernels();
        struct vc_axis_sums sums;
        struct vc_tile tile;
        float *x = calloc(900 * 600, sizeof *x);
        double *scratch = malloc(600 * sizeof *scratch + 64);

        vc_pool_fail_at(ctx->shared->pool, n, 0);
        if (vc_axis_sums_init(ctx, &sums, shape, 2, 1, 2) == VC_OK) {
            for (uint64_t i = 0; i < vc_tile_count(900, 600); i++) {
                vc_tile_get(900, 600, i, &tile);
                if (vc_axis_sums_add(ctx, &sums, &tile, x + tile.first, false, scratch) != VC_OK) {
                    break;
                }
            }
        }
        vc_axis_sums_release(ctx, &sums);
        vc_clear_error(ctx);
        free(x);
        free(scratch);
        ctx_done(ctx);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(sums_are_those_of_loops), cmocka_unit_test(no_memory)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
