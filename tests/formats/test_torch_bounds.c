/* test_torch_bounds.c - what a small PyTorch file can make the program do is bounded by its size: values that occur in
 * many places are read and written once, and what no checkpoint has is refused before it takes much. Memory is judged
 * by what the pool had at its peak. */
#include "torch_files.h"

#include "support_options.h"

static const size_t one_size[] = {48};

/* {"w": f32 (3, 4), "rest": ... }: the caller adds the value of "rest", and then end_rest. */
static struct bytes begin_rest(void)
{
    struct bytes b = {NULL, 0, 0};

    pk_start(&b);
    pk_raw(&b, "}(");
    entry(&b, "w", "FloatStorage", "0", 12, "3,4", "4,1");
    pk_string(&b, "rest");
    return b;
}

/* Ends the pickle and saves the file; returns its bytes. */
static size_t save_rest(struct bytes *pickle, const char *name, const struct member_options *options)
{
    struct bytes b;
    size_t n;

    pk_raw(pickle, "u.");
    b = torch_archive(pickle, NULL, one_size, 1, options);
    n = b.n;
    (void)save(name, &b);
    bytes_release(&b);
    bytes_release(pickle);
    return n;
}

/* A string of n letters. */
static void long_text(struct bytes *b, size_t n)
{
    unsigned char length[4] = {(unsigned char)n, (unsigned char)(n >> 8), (unsigned char)(n >> 16), 0};

    pk_raw(b, "X");
    bytes_add(b, length, 4);
    bytes_fill(b, 'x', n);
}

static void repeat(struct bytes *b, const char *ops, size_t n_ops, size_t n)
{
    size_t i;

    for (i = 0; i < n; i++) {
        bytes_add(b, ops, n_ops);
    }
}

static size_t size_of(const char *name)
{
    FILE *f = fopen(in_folder(name), "rb");
    long n;

    assert_non_null(f);
    assert_int_equal(fseek(f, 0, SEEK_END), 0);
    n = ftell(f);
    (void)fclose(f);
    return (size_t)n;
}

static void expect_peak(struct vc_ctx *ctx, uint64_t most)
{
    if (vc_pool_peak(ctx->shared->pool) > most) {
        fail_msg("%llu bytes of memory, expected at most %llu", (unsigned long long)vc_pool_peak(ctx->shared->pool),
                 (unsigned long long)most);
    }
}

/* Converts it: the output is no larger than the input, but for what is around the pickle, and so is the output of that.
 */
static void expect_no_growth(struct bytes *pickle, uint64_t most_memory)
{
    struct vc_ctx *ctx = test_ctx();
    size_t n = save_rest(pickle, "a.pt", NULL);

    must_run(ctx, in_folder("a.pt"), in_folder("b.pt"), task_copy());
    assert_true(size_of("b.pt") < n + 4096);
    must_run(ctx, in_folder("b.pt"), in_folder("c.pt"), task_copy());
    assert_int_equal(size_of("b.pt"), size_of("c.pt"));
    expect_peak(ctx, most_memory);
    remove_path("a.pt");
    remove_path("b.pt");
    remove_path("c.pt");
    vc_ctx_free(ctx);
}

/* One text in 20,000 places; one list in as many; lists of lists, 2^16 of them if each were written where it is. */
static void test_written_once(void **state)
{
    struct bytes b = begin_rest();
    unsigned i;

    (void)state;
    pk_raw(&b, "](");
    long_text(&b, 50000);
    bytes_add(&b, "q\0", 2);
    repeat(&b, "h\0", 2, 20000);
    pk_raw(&b, "e");
    expect_no_growth(&b, (uint64_t)16 << 20);

    b = begin_rest();
    pk_raw(&b, "](](");
    repeat(&b, "K\7", 2, 1000);
    pk_raw(&b, "er");
    bytes_add(&b, "\0\1\0\0", 4);
    repeat(&b, "j\0\1\0\0", 5, 20000);
    pk_raw(&b, "e");
    expect_no_growth(&b, (uint64_t)16 << 20);

    b = begin_rest();
    pk_raw(&b, "]K\7a");
    for (i = 0; i < 16; i++) {
        const char list[] = {'q', (char)i, '0', ']', '(', 'h', (char)i, 'h', (char)i, 'e'};

        bytes_add(&b, list, sizeof list);
    }
    expect_no_growth(&b, (uint64_t)16 << 20);
}

/* More than 256 values in the memo: LONG_BINPUT and LONG_BINGET. */
static void test_long_memo(void **state)
{
    struct bytes b = begin_rest();
    unsigned i;

    (void)state;
    pk_raw(&b, "](");
    for (i = 0; i < 600; i++) {
        const char put[] = {'r', (char)i, (char)(i >> 8), 0, 0};
        const char get[] = {'j', (char)i, (char)(i >> 8), 0, 0};
        char text[16];

        snprintf(text, sizeof text, "text %u", i);
        pk_string(&b, text);
        bytes_add(&b, put, sizeof put);
        bytes_add(&b, get, sizeof get);
    }
    pk_raw(&b, "e");
    expect_no_growth(&b, (uint64_t)16 << 20);
}

static void expect_refused(const char *what, struct bytes *pickle, const struct member_options *options,
                           const char *needle, uint64_t most_memory)
{
    struct vc_open_options open = support_open();
    struct vc_ctx *ctx = test_ctx();
    struct vc_model *model = NULL;

    (void)save_rest(pickle, "a.pt", options);
    if (vc_model_open(ctx, in_folder("a.pt"), &open, &model) != VC_E_UNSUPPORTED ||
        strstr(vc_ctx_message(ctx), needle) == NULL) {
        fail_msg("%s: \"%s\" does not say \"%s\"", what, vc_ctx_message(ctx), needle);
    }
    assert_null(model);
    expect_peak(ctx, most_memory);
    remove_path("a.pt");
    vc_ctx_free(ctx);
}

/* A dict with a tensor in 30,000 places; a tensor below a long key in 1,000. */
static void test_many_places(void **state)
{
    struct bytes b = begin_rest();

    (void)state;
    pk_raw(&b, "](}");
    entry(&b, "t", "FloatStorage", "0", 12, "12", "1");
    bytes_add(&b, "sq\0", 3);
    repeat(&b, "h\0", 2, 30000);
    pk_raw(&b, "e");
    expect_refused("dict", &b, NULL, "so often that", (uint64_t)32 << 20);

    b = begin_rest();
    pk_raw(&b, "}");
    long_text(&b, 50000);
    pk_raw(&b, "](}");
    entry(&b, "t", "FloatStorage", "0", 12, "12", "1");
    bytes_add(&b, "sq\0", 3);
    repeat(&b, "h\0", 2, 1000);
    pk_raw(&b, "es");
    expect_refused("key", &b, NULL, "so often that", (uint64_t)32 << 20);
}

/* A deflated pickle that is far larger than the file. */
static void test_deflated(void **state)
{
    static const struct member_options deflated = {.deflate = true, .level = 6};
    struct bytes b = begin_rest();

    (void)state;
    repeat(&b, "\x85\x85\x85\x85\x85\x85\x85\x85", 8, (size_t)2 << 20);
    expect_refused("tower", &b, &deflated, "which no checkpoint's values do", (uint64_t)1 << 20);
    b = begin_rest();
    pk_raw(&b, "N");
    repeat(&b, "\x85\x85\x85\x85\x85\x85\x85\x85", 8, (size_t)900 << 10);
    expect_refused("smaller tower", &b, &deflated, "far more than", (uint64_t)128 << 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_written_once),
        cmocka_unit_test(test_long_memo),
        cmocka_unit_test(test_many_places),
        cmocka_unit_test(test_deflated),
    };

    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
