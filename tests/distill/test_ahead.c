/* test_ahead.c - rows of the next step are announced to the system while a step computes: which, and where they lie in
 * files of every format that has rows. posix_fadvise is this test's own, and notes what it is called with. */
#include "distill_test.h"

#include <fcntl.h>
#include <unistd.h>

#include "core/model/source.h"
#include "passes/random.h"

#define MOST 64

static struct announced {
    off_t offset, n;
} announced[MOST];
static size_t n_announced;

int posix_fadvise(int fd, off_t offset, off_t n, int advice)
{
    assert_true(fd >= 0 && advice == POSIX_FADV_WILLNEED && n_announced < MOST);
    announced[n_announced++] = (struct announced){offset, n};
    return 0;
}

/* ---- where rows lie ---- */

/* Elements 10 to 14 of the only tensor: what is announced are their bytes. */
static void expect_announced(const char *file, const struct vc_open_options *options, size_t item_bytes)
{
    struct vc_model *model = NULL;
    struct bytes all = load(file);
    unsigned char values[5 * 8];

    n_announced = 0;
    assert_int_equal(vc_model_open(ctx, in_folder(file), options, &model), VC_OK);
    vc_model_ahead(model, 0, 10, 5);
    assert_int_equal(n_announced, 1);
    assert_int_equal(announced[0].n, 5 * item_bytes);
    assert_int_equal(vc_model_read(ctx, model, 0, 10, 5, values, sizeof values), VC_OK);
    assert_true((size_t)announced[0].offset + 5 * item_bytes <= all.n);
    assert_memory_equal(all.p + announced[0].offset, values, 5 * item_bytes);
    vc_model_close(model);
    bytes_release(&all);
}

static void test_formats(void **unused)
{
    static const unsigned char idx[4 + 8 + 20] = {0, 0, 8, 2, 0, 0, 0, 4, 0, 0, 0, 5, 9, 8, 7, 6,
                                                  5, 4, 3, 2, 1, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
    static const unsigned char tokens[40] = {1, 0, 2,  0, 3,  0, 4,  0, 5,  0, 6,  0, 7,  0, 8, 0,
                                             9, 0, 10, 0, 21, 0, 22, 0, 23, 0, 24, 0, 25, 0, 26};
    static const uint64_t shape[2] = {4, 5};
    double x[20];
    const struct vc_memory_tensor tensors[] = {{"x", VC_DTYPE_F64, 2, shape, x}};
    struct bytes b = {0};
    struct vc_open_options rows;

    (void)unused;
    numbers(3, 20, x);
    write_file("x.npz", tensors, 1);
    write_file("x.npy", tensors, 1);
    write_file("x.safetensors", tensors, 1);
    bytes_add(&b, idx, sizeof idx);
    (void)save_own("x-idx2-ubyte", b);
    b = (struct bytes){0};
    bytes_add(&b, tokens, sizeof tokens);
    (void)save_own("x.bin", b);
    expect_announced("x.npz", NULL, 8);
    expect_announced("x.npy", NULL, 8);
    expect_announced("x.safetensors", NULL, 8);
    expect_announced("x-idx2-ubyte", NULL, 1);
    vc_open_defaults(&rows);
    rows.row_tokens = 5;
    rows.token_bits = 16;
    expect_announced("x.bin", &rows, 2);
}

/* Values of a deflated file lie nowhere. */
static void test_deflated(void **unused)
{
    static const uint64_t shape[2] = {40, 50};
    static double x[40 * 50];
    const struct vc_memory_tensor tensors[] = {{"x", VC_DTYPE_F64, 2, shape, x}};
    struct vc_model *model = NULL;

    (void)unused;
    write_file_as("x.npz", tensors, 1, VC_DEFLATE_ZLIB);
    assert_int_equal(vc_model_open(ctx, in_folder("x.npz"), NULL, &model), VC_OK);
    assert_true(model->io[0].sequential);
    n_announced = 0;
    vc_model_ahead(model, 0, 10, 5);
    assert_int_equal(n_announced, 0);
    vc_model_close(model);
}

/* ---- a run ---- */

enum { N_ALL = 60000, N_TAKEN = 20, N_STEPS = 5 }; /* 8 rows a step: 3 steps an epoch, the last one of 4 */

/* Rows of a file that is large beside the memory limit; small ones are in memory before the first step. */
static void test_run(void **unused)
{
    static double x[N_ALL * 5];
    static const uint64_t shape[2] = {N_ALL, 5};
    const struct vc_memory_tensor tensors[] = {{"x", VC_DTYPE_F64, 2, shape, x}};
    uint64_t order[2 * N_TAKEN];
    struct vc_distillation *d = NULL;
    struct bytes file;
    struct run run;

    (void)unused;
    numbers(7, (size_t)N_ALL * 5, x);
    write_file("rows.npz", tensors, 1);
    file = load("rows.npz");
    open_run(&run);
    run.data.n_rows = N_TAKEN;
    run.options.training.steps = N_STEPS;
    run.options.training.batch = 4;
    run.options.training.accum = 2;
    run.options.training.order = VC_ORDER_SHUFFLED;
    run.options.tell = NULL;
    n_announced = 0;
    if (vc_distill(ctx, &run.options, &d) != VC_OK) {
        fail_msg("%s", vc_ctx_message(ctx));
    }
    vc_result_free(d);
    assert_int_equal(n_announced, 0);

    assert_int_equal(vc_ctx_set_max_memory(ctx, (uint64_t)8 << 20), VC_OK);
    assert_int_equal(vc_distill(ctx, &run.options, &d), VC_OK);
    vc_random_order(run.options.training.seed, 0, order, N_TAKEN);
    vc_random_order(run.options.training.seed, 1, order + N_TAKEN, N_TAKEN);
    assert_int_equal(n_announced, 8 + 4 + 8); /* of steps 2, 3 and 5: 4 begins an epoch */
    for (size_t k = 0; k < n_announced; k++) {
        uint64_t row = k < 12 ? order[8 + k] : order[N_TAKEN + 8 + k - 12];

        assert_int_equal(announced[k].n, 5 * sizeof *x);
        assert_memory_equal(file.p + announced[k].offset, &x[row * 5], 5 * sizeof *x);
    }
    vc_result_free(d);
    close_run(&run);
    bytes_release(&file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_formats),
        cmocka_unit_test(test_deflated),
        cmocka_unit_test(test_run),
    };

    return cmocka_run_group_tests(tests, begin, end);
}
