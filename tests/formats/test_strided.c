/* test_strided.c - views read by range against the plain definition: element (i, j, ...) is at first + i*s0 + j*s1 ...
 */
#include "formats_test.h"

#include <stdlib.h>

#include "formats/io/strided.h"

#define STORAGE_ELEMS 90000

static uint32_t next(uint32_t *state)
{
    *state = *state * 1103515245 + 12345;
    return *state >> 8;
}

struct view {
    unsigned n_dims;
    uint64_t shape[4], strides[4], first;
    size_t item;
};

static uint64_t elems_of(const struct view *v)
{
    uint64_t n = 1;
    unsigned d;

    for (d = 0; d < v->n_dims; d++) {
        n *= v->shape[d];
    }
    return n;
}

/* Where element k in C order lies, in elements. */
static uint64_t place_of(const struct view *v, uint64_t k)
{
    uint64_t at = v->first;
    unsigned d;

    for (d = v->n_dims; d-- > 0;) {
        at += k % v->shape[d] * v->strides[d];
        k /= v->shape[d];
    }
    return at;
}

static void check(struct vc_ctx *ctx, const struct vc_infile *file, const unsigned char *storage, const struct view *v,
                  uint64_t from, uint64_t n)
{
    const struct vc_strided array = {.file = file,
                                     .offset = 7,
                                     .n_bytes = STORAGE_ELEMS * 16,
                                     .first = v->first,
                                     .item_bytes = v->item,
                                     .n_dims = v->n_dims,
                                     .shape = v->shape,
                                     .strides = v->strides};
    unsigned char *got = malloc(n * v->item + 1);
    uint64_t k;

    assert_non_null(got);
    got[n * v->item] = 0x5a;
    assert_int_equal(vc_strided_read(ctx, &array, from, n, got), VC_OK);
    assert_int_equal(got[n * v->item], 0x5a);
    for (k = 0; k < n; k++) {
        assert_memory_equal(got + k * v->item, storage + place_of(v, from + k) * v->item, v->item);
    }
    free(got);
}

static void check_view(struct vc_ctx *ctx, const struct vc_infile *file, const unsigned char *storage,
                       const struct view *v)
{
    uint64_t n = elems_of(v);
    uint32_t state = 1;
    unsigned i;

    check(ctx, file, storage, v, 0, n);
    for (i = 0; i < 6 && n > 0; i++) {
        uint64_t from = next(&state) % n;

        check(ctx, file, storage, v, from, next(&state) % (n - from + 1));
    }
}

static void test_views(void **state)
{
    static const struct view views[] = {
        {2, {100, 80}, {1, 100}, 0, 4},              /* transposed */
        {2, {80, 100}, {200, 1}, 5, 2},              /* columns 5.. of a wider one */
        {2, {50, 30}, {60, 2}, 3, 8},                /* every other column */
        {2, {40, 25}, {0, 1}, 9, 4},                 /* expanded rows */
        {2, {40, 25}, {1, 0}, 9, 1},                 /* expanded columns */
        {4, {5, 16, 3, 7}, {336, 1, 112, 16}, 0, 4}, /* channels last */
        {4, {2, 3, 4, 5}, {1, 2, 6, 24}, 11, 16},    /* Fortran order */
        {3, {3, 1, 70}, {20000, 999999, 140}, 0, 2}, /* far apart; the stride of one index says nothing */
        {1, {80000}, {1}, 3, 4},
        {1, {2000}, {45}, 0, 4},
        {1, {7}, {10000}, 1, 8},
        {0, {0}, {0}, 77, 4},
        {2, {300, 300}, {1, 300}, 0, 3},
    };
    struct vc_ctx *ctx = test_ctx();
    unsigned char *storage = malloc(STORAGE_ELEMS * 16 + 7);
    char path[512];
    struct vc_infile *file = NULL;
    uint32_t seed = 42;
    size_t i;
    int fd;

    (void)state;
    assert_non_null(storage);
    for (i = 0; i < STORAGE_ELEMS * 16 + 7; i++) {
        storage[i] = (unsigned char)next(&seed);
    }
    fd = walk_file_open(storage, STORAGE_ELEMS * 16 + 7, path, sizeof path);
    assert_int_equal(vc_infile_open(ctx, path, &file), VC_OK);
    for (i = 0; i < sizeof views / sizeof views[0]; i++) {
        check_view(ctx, file, storage + 7, &views[i]);
    }
    vc_infile_close(ctx, file);
    walk_file_close(fd, path);
    free(storage);
    test_ctx_done(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_views)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
