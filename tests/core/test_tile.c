/* test_tile.c - the division of tensors into tiles: every element is in one tile, in order, for any shape, and
 * chunks for error sums never cross a tile. Judge: a walk over all elements. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/values/tile.h"

static void test_rows_of(void **unused)
{
    uint64_t rows;
    uint64_t len;

    (void)unused;
    vc_rows_of(NULL, 0, &rows, &len);
    assert_true(rows == 1 && len == 1);
    vc_rows_of((const uint64_t[]){7}, 1, &rows, &len);
    assert_true(rows == 1 && len == 7);
    vc_rows_of((const uint64_t[]){7, 5}, 2, &rows, &len);
    assert_true(rows == 7 && len == 5);
    vc_rows_of((const uint64_t[]){64, 3, 3, 3}, 4, &rows, &len);
    assert_true(rows == 64 && len == 27);
    vc_rows_of((const uint64_t[]){0, 5}, 2, &rows, &len);
    assert_true(vc_tile_count(rows, len) == 0);
    vc_rows_of((const uint64_t[]){5, 0, 3}, 3, &rows, &len);
    assert_true(vc_tile_count(rows, len) == 0);
}

static void check_cover(uint64_t n_rows, uint64_t row_len)
{
    uint64_t n = vc_tile_count(n_rows, row_len);
    uint64_t at = 0;
    uint64_t chunks = 0;

    for (uint64_t i = 0; i < n; i++) {
        struct vc_tile tile;

        vc_tile_get(n_rows, row_len, i, &tile);
        assert_int_equal(tile.index, i);
        assert_int_equal(tile.first, at);
        assert_int_equal(tile.first, tile.row0 * row_len + tile.col0);
        assert_int_equal(tile.n_elems, tile.n_rows * tile.row_len);
        assert_true(tile.n_elems >= 1 && tile.n_elems <= VC_TILE_ELEMS);
        assert_true(tile.whole_rows == (tile.row_len == row_len));
        assert_true(tile.whole_rows || tile.n_rows == 1);
        assert_int_equal(tile.col0 % VC_TILE_ELEMS, 0);
        at += tile.n_elems;
        chunks += vc_tile_chunks(&tile);
    }
    assert_int_equal(at, n_rows * row_len);
    assert_int_equal(chunks, n_rows * ((row_len + VC_CHUNK_ELEMS - 1) / VC_CHUNK_ELEMS));
}

static void test_cover(void **unused)
{
    static const uint64_t lens[] = {1,      2,      9,      63,     4095,   4096,   4097,    131072,
                                    131073, 262143, 262144, 262145, 524288, 524289, 1048575, 2621440};
    static const uint64_t rows[] = {1, 2, 3, 63, 64, 65, 1000};

    (void)unused;
    for (size_t i = 0; i < sizeof lens / sizeof lens[0]; i++) {
        for (size_t k = 0; k < sizeof rows / sizeof rows[0]; k++) {
            check_cover(rows[k], lens[i]);
        }
    }
    check_cover(262144, 1);
    check_cover(262145, 1);
    check_cover(1000003, 3);
}

/* A tensor far larger than memory: only the arithmetic is done. */
static void test_huge(void **unused)
{
    uint64_t n_rows = 1;
    uint64_t row_len = (uint64_t)1 << 40;
    uint64_t n = vc_tile_count(n_rows, row_len);
    struct vc_tile tile;

    (void)unused;
    assert_int_equal(n, (uint64_t)1 << 22);
    vc_tile_get(n_rows, row_len, n - 1, &tile);
    assert_int_equal(tile.first + tile.n_elems, row_len);
    assert_int_equal(vc_tile_count((uint64_t)1 << 40, 1), (uint64_t)1 << 22);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows_of),
        cmocka_unit_test(test_cover),
        cmocka_unit_test(test_huge),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
