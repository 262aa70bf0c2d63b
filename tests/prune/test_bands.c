/* test_bands.c - bands of rows put together from tiles: whole, once, with their values, in any order of the tiles. */
#include "support.h"

#include <stdlib.h>

#include "core/values/tile.h"
#include "prune/bands.h"

static uint64_t seed = 1;

static uint64_t draw(uint64_t below)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (seed >> 20) % below;
}

/* What the function of the bands has seen. */
struct seen {
    struct vc_band_grid grid;
    uint8_t *elems; /* how often each */
    uint64_t n_calls;
    enum vc_status answer;
};

/* Where the band of an element ends. */
static uint64_t end_of(const struct vc_band_grid *grid, uint64_t at)
{
    uint64_t block = at - at % grid->block;
    uint64_t end = block + (at - block) / grid->band * grid->band + grid->band;

    end = end < block + grid->block ? end : block + grid->block;
    return end < grid->n_elems ? end : grid->n_elems;
}

static enum vc_status note(struct vc_ctx *ctx, void *user, uint64_t first, const void *values, size_t n)
{
    struct seen *seen = user;
    const uint32_t *x = values;

    (void)ctx;
    assert_true(n > 0);
    assert_int_equal(first % seen->grid.block % seen->grid.band, 0);
    assert_int_equal(first / seen->grid.block, (first + n - 1) / seen->grid.block);
    assert_int_equal(end_of(&seen->grid, first + n - 1), first + n);
    for (size_t i = 0; i < n; i++) {
        seen->elems[first + i]++;
        assert_int_equal(x[i], (uint32_t)(first + i));
    }
    seen->n_calls++;
    return seen->answer;
}

/* Adds the tiles of a tensor in an order of chance. Returns the first failure. */
static enum vc_status add_all(struct vc_ctx *ctx, struct vc_bands *bands, uint64_t n_rows, uint64_t row_len,
                              struct seen *seen)
{
    uint64_t n_tiles = vc_tile_count(n_rows, row_len);
    uint32_t *values = malloc(n_rows * row_len * sizeof *values);
    uint64_t *order = malloc(n_tiles * sizeof *order);
    enum vc_status status = VC_OK;

    assert_non_null(values);
    assert_non_null(order);
    for (uint64_t i = 0; i < n_rows * row_len; i++) {
        values[i] = (uint32_t)i;
    }
    for (uint64_t i = 0; i < n_tiles; i++) {
        uint64_t other = draw(i + 1);

        order[i] = order[other];
        order[other] = i;
    }
    for (uint64_t i = 0; status == VC_OK && i < n_tiles; i++) {
        struct vc_tile tile;

        vc_tile_get(n_rows, row_len, order[i], &tile);
        status = vc_bands_add(ctx, bands, &tile, values + tile.first, note, seen);
        /* bands that fit into tiles never wait for others */
        assert_true(!vc_bands_fit_tiles(&bands->grid, n_rows, row_len) || bands->open == NULL);
    }
    free(order);
    free(values);
    return status;
}

static void one_case(struct vc_ctx *ctx, uint64_t n_rows, uint64_t row_len, uint64_t block, uint64_t band)
{
    struct seen seen = {.grid = {.n_elems = n_rows * row_len, .block = block, .band = band}};
    struct vc_bands bands = {0};

    seen.elems = calloc(n_rows * row_len, 1);
    assert_non_null(seen.elems);
    assert_int_equal(vc_bands_init(ctx, &bands, &seen.grid, sizeof(uint32_t)), VC_OK);
    assert_int_equal(add_all(ctx, &bands, n_rows, row_len, &seen), VC_OK);
    for (uint64_t i = 0; i < n_rows * row_len; i++) {
        assert_int_equal(seen.elems[i], 1);
    }
    assert_null(bands.open);
    vc_bands_release(ctx, &bands);
    free(seen.elems);
}

/* Small tensors that are one tile; several tiles; rows longer than a tile; bands that do not divide their blocks. */
static void every_element_once(void **state)
{
    struct vc_ctx *ctx = test_ctx();

    (void)state;
    one_case(ctx, 7, 5, 35, 10);
    one_case(ctx, 1, 1, 1, 1);
    one_case(ctx, 1000, 700, 700000, 4 * 700);
    one_case(ctx, 1000, 700, 700 * 10, 3 * 700);
    one_case(ctx, 3, 300001, 900003, 2 * 300001);
    one_case(ctx, 64, 9000, 9000 * 8, 9 * 30);
    one_case(ctx, 1024, 1024, 1024, 4);
    one_case(ctx, 5, VC_TILE_ELEMS, 5 * VC_TILE_ELEMS, 2 * VC_TILE_ELEMS);
    for (unsigned i = 0; i < 12; i++) {
        uint64_t row_len = 1 + draw(3000);
        uint64_t n_rows = 1 + draw(900000 / row_len);
        uint64_t rows = 1 + draw(n_rows);

        one_case(ctx, n_rows, row_len, row_len * rows, 1 + draw(row_len * rows));
    }
    test_ctx_done(ctx);
}

static void fitting_is_told(void **state)
{
    const struct vc_band_grid rows = {.n_elems = 1 << 20, .block = 1 << 20, .band = 4 << 10};
    const struct vc_band_grid odd = {.n_elems = 1 << 20, .block = 1 << 20, .band = 3 << 10};
    const struct vc_band_grid in_row = {.n_elems = 1 << 20, .block = 1 << 10, .band = 3};

    (void)state;
    assert_true(vc_bands_fit_tiles(&rows, 1 << 10, 1 << 10));
    assert_false(vc_bands_fit_tiles(&odd, 1 << 10, 1 << 10));
    assert_true(vc_bands_fit_tiles(&in_row, 1 << 10, 1 << 10));
    assert_false(vc_bands_fit_tiles(&rows, 1, 1 << 20)); /* one row in pieces */
    assert_true(vc_bands_fit_tiles(&odd, 4, 4));         /* one tile */
}

/* What the function answers goes to the caller; open bands are freed. */
static void failures_pass(void **state)
{
    const struct vc_band_grid grid = {.n_elems = 700000, .block = 700000, .band = 350000};
    struct seen seen = {.grid = grid, .answer = VC_E_FORMAT};
    struct vc_ctx *ctx = test_ctx();
    struct vc_bands bands = {0};
    struct vc_tile tile;
    uint32_t *values = calloc(grid.n_elems, sizeof *values);

    (void)state;
    assert_non_null(values);
    seen.elems = calloc(grid.n_elems, 1);
    assert_non_null(seen.elems);
    assert_int_equal(vc_bands_init(ctx, &bands, &grid, sizeof(uint32_t)), VC_OK);
    assert_int_equal(add_all(ctx, &bands, 1000, 700, &seen), VC_E_FORMAT);
    vc_bands_release(ctx, &bands);
    assert_int_equal(vc_bands_init(ctx, &bands, &grid, sizeof(uint32_t)), VC_OK);
    vc_tile_get(1000, 700, 0, &tile);
    assert_int_equal(vc_bands_add(ctx, &bands, &tile, values, note, &seen), VC_OK); /* a part: nothing is handed on */
    assert_non_null(bands.open);
    vc_bands_release(ctx, &bands);
    vc_bands_release(ctx, &bands);
    free(seen.elems);
    free(values);
    test_ctx_done(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_element_once), cmocka_unit_test(fitting_is_told),
                                       cmocka_unit_test(failures_pass)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
