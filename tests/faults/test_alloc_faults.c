/* test_alloc_faults.c - every allocation and every write fails once, one after the other, until the work succeeds.
 *
 * A small model goes through the library (quantize with stored and deflated output, to two files at once, dequantize of
 * deflated input, prune with masks in and out, units removed, an adapter merged, convert, inspect, diff) while the n-th request fails.
 * Each time: the right status, a sentence, no file left behind, an older output untouched, and every byte given back to
 * the pool. Leaks outside the pool are AddressSanitizer's part. */
#include "support.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/checked.h"
#include "formats/io/outfile.h"
#include "formats/zip/codec.h"
#include "scratch.h"
#include "support_options.h"

#define OLDER "an older output"

static char input[256], packed[256], output[256], second[256], mask_file[256], couplings_file[256], adapter_file[256];

/* ---- an input: an npz of stored members, written by hand ---- */

struct member {
    const char *name;
    const char *descr;
    unsigned rows, cols, item_bytes;
};

static const struct member members[] = {
    {"a.weight.npy", "<f4", 96, 64, 4}, {"a.bias.npy", "<f4", 1, 96, 4},   {"b.weight.npy", "<f8", 64, 70, 8},
    {"c.weight.npy", "<f2", 64, 64, 2}, {"long.npy", "<f4", 2, 300001, 4}, {"e.0.w.npy", "<f4", 9, 8, 4},
    {"e.1.w.npy", "<f4", 9, 8, 4},      {"e.2.w.npy", "<f4", 9, 8, 4},     {"router.npy", "<f4", 3, 8, 4},
};
enum { N_MEMBERS = sizeof members / sizeof members[0] };

/* An adapter of it: one of DoRA, one plain, a bias in place of the model's. */
static const struct member adapter_members[] = {
    {"a.lora_A.weight.npy", "<f4", 4, 64, 4},         {"a.lora_B.weight.npy", "<f4", 96, 4, 4},
    {"a.lora_magnitude_vector.npy", "<f4", 1, 96, 4}, {"a.bias.npy", "<f4", 1, 96, 4},
    {"c.lora_A.weight.npy", "<f4", 2, 64, 4},         {"c.lora_B.weight.npy", "<f4", 64, 2, 4},
};

/* The bytes of a member: npy header and values that are finite in every type. */
static unsigned char *member_bytes(const struct member *m, size_t *n)
{
    char head[128];
    size_t n_elems = (size_t)m->rows * m->cols;
    int used = snprintf(head, sizeof head, "{'descr': '%s', 'fortran_order': False, 'shape': (%u, %u), }", m->descr,
                        m->rows, m->cols);
    unsigned char *bytes;

    *n = 128 + n_elems * m->item_bytes;
    bytes = malloc(*n);
    assert_non_null(bytes);
    memset(bytes, ' ', 128);
    memcpy(bytes, "\x93NUMPY\1\0", 8);
    vc_put_le16(bytes + 8, 118);
    memcpy(bytes + 10, head, (size_t)used);
    bytes[127] = '\n';
    for (size_t i = 0; i < n_elems; i++) {
        double v = (double)(i * 2654435761u % 1000003) / 1e6 - 0.5;
        float f = (float)v;
        uint16_t h = (uint16_t)(i * 40503u & 0xbbff); /* finite halves */

        if (m->item_bytes == 8) {
            memcpy(bytes + 128 + i * 8, &v, 8);
        } else if (m->item_bytes == 4) {
            memcpy(bytes + 128 + i * 4, &f, 4);
        } else {
            vc_put_le16(bytes + 128 + i * 2, h);
        }
    }
    return bytes;
}

/* From "version needed" to the length of the extra field: the same in a local header and in the directory. */
static void put_common(unsigned char *p, uint32_t crc, size_t n, size_t name_len)
{
    memset(p, 0, 26);
    p[0] = 20;              /* version needed */
    vc_put_le16(p + 8, 33); /* 1980-01-01 */
    vc_put_le32(p + 10, crc);
    vc_put_le32(p + 14, (uint32_t)n);
    vc_put_le32(p + 18, (uint32_t)n);
    vc_put_le16(p + 22, (uint16_t)name_len);
}

static void write_input(const char *path, const struct member *list, size_t n_list)
{
    unsigned char directory[1024] = {0};
    size_t n_directory = 0;
    FILE *f = fopen(path, "wb");
    long at;

    assert_non_null(f);
    for (size_t i = 0; i < n_list; i++) {
        const struct member *m = &list[i];
        unsigned char head[30] = {'P', 'K', 3, 4};
        unsigned char *entry = directory + n_directory;
        size_t name_len = strlen(m->name);
        size_t n;
        unsigned char *bytes = member_bytes(m, &n);
        uint32_t crc = vc_crc32(0, bytes, n);

        at = ftell(f);
        put_common(head + 4, crc, n, name_len);
        memcpy(entry, "PK\1\2\24\0", 6);
        put_common(entry + 6, crc, n, name_len);
        vc_put_le32(entry + 42, (uint32_t)at);
        memcpy(entry + 46, m->name, name_len);
        n_directory += 46 + name_len;
        assert_int_equal(fwrite(head, 1, 30, f), 30);
        assert_int_equal(fwrite(m->name, 1, name_len, f), name_len);
        assert_int_equal(fwrite(bytes, 1, n, f), n);
        free(bytes);
    }
    at = ftell(f);
    assert_int_equal(fwrite(directory, 1, n_directory, f), n_directory);
    memset(directory, 0, 22);
    memcpy(directory, "PK\5\6", 4);
    vc_put_le16(directory + 8, (uint16_t)n_list);
    vc_put_le16(directory + 10, (uint16_t)n_list);
    vc_put_le32(directory + 12, (uint32_t)n_directory);
    vc_put_le32(directory + 16, (uint32_t)at);
    assert_int_equal(fwrite(directory, 1, 22, f), 22);
    assert_int_equal(fclose(f), 0);
}

/* ---- what is done under faults ---- */

enum work {
    WORK_STORED,
    WORK_ASYMMETRIC,
    WORK_FP16,
    WORK_DEFLATED,
    WORK_DEQUANTIZE,
    WORK_CONVERT,  /* to npz again, from deflated */
    WORK_EMIT,     /* int8 to `output` and `second` */
    WORK_AIM_SQNR, /* and the rest */
    WORK_AIM_BYTES,
    WORK_PRUNE,      /* scores over all, its masks to `second` */
    WORK_PRUNE_MASK, /* what the masks of a file say */
    WORK_PRUNE_N_OF_M,
    WORK_STRUCTURED, /* neurons, and units that are tensors of their own */
    WORK_MERGE,
    WORK_LOOK,
    N_WORK
};

static const char *const work_names[] = {"int8 stored",
                                         "int8 asymmetric, kept tensors surveyed",
                                         "fp16",
                                         "int8 deflated",
                                         "dequantize from deflated",
                                         "convert",
                                         "int8 to two files",
                                         "an aim of 41 dB, the rest bf16",
                                         "an aim of 1 GB",
                                         "prune by scores, masks to a file",
                                         "prune by the masks of a file",
                                         "prune 2:4, masks to a file",
                                         "prune units",
                                         "merge an adapter",
                                         "stats, diff, report"};

static const char couplings_text[] = "a.weight:0 = a.bias:1 # 96\n"
                                     "b.weight:0! = a.weight:1! = c.weight:1\n"
                                     "experts: router:0 = e.0.w@0 = e.1.w@1 = e.2.w@2\n"
                                     "2: long:0 = e.2.w:1*4\n";

/* Couplings of a file, which are the caller's. */
static enum vc_status add_structured(struct vc_ctx *ctx, struct vc_job *job, const struct vc_model *model,
                                     struct vc_couplings **couplings)
{
    struct vc_structured_options s;
    enum vc_status status;

    vc_structured_defaults(&s);
    VC_TRY(vc_couplings_read(ctx, couplings_file, model, couplings));
    s.couplings = *couplings;
    s.share = "0.4";
    s.units = 1u << VC_UNIT_NEURONS | 1u << VC_UNIT_EXPERTS;
    VC_TRY(vc_job_add_structured(ctx, job, &s));
out:
    return status;
}

/* The file of masks is opened as the command does; *masks is the caller's. */
static enum vc_status add_prune(struct vc_ctx *ctx, struct vc_job *job, enum work work, struct vc_model **masks)
{
    struct vc_prune_options p;
    enum vc_status status = VC_OK;

    vc_prune_defaults(&p);
    p.mask_path = work == WORK_PRUNE_MASK ? NULL : second;
    if (work == WORK_PRUNE) {
        p.sparsity = "0.5";
        p.scope = VC_PRUNE_GLOBAL;
        p.score = VC_SCORE_LAMP;
    } else if (work == WORK_PRUNE_N_OF_M) {
        p.pattern = VC_PATTERN_N_OF_M;
    } else {
        VC_TRY(vc_model_open(ctx, mask_file, NULL, masks));
        p.pattern = VC_PATTERN_GIVEN;
        p.mask = *masks;
    }
    VC_TRY(vc_job_add_prune(ctx, job, &p));
out:
    return status;
}

/* *adapter is the caller's. */
static enum vc_status add_merge(struct vc_ctx *ctx, struct vc_job *job, struct vc_model **adapter)
{
    struct vc_merge_options m;
    struct vc_lora lora = {.weight = 1.0};
    enum vc_status status = VC_OK;

    vc_merge_defaults(&m);
    VC_TRY(vc_model_open(ctx, adapter_file, NULL, adapter));
    lora.adapter = *adapter;
    m.loras = &lora;
    m.n_loras = 1;
    VC_TRY(vc_job_add_merge(ctx, job, &m));
out:
    return status;
}

static enum vc_status add_pass(struct vc_ctx *ctx, struct vc_job *job, enum work work)
{
    static const struct vc_rule rules[] = {{"a.*", true}, {"c.*", false}};
    struct vc_quantize_options q = support_quantize();
    struct vc_dequantize_options d = support_dequantize();

    if (work == WORK_CONVERT) {
        return VC_OK;
    }
    if (work == WORK_DEQUANTIZE) {
        return vc_job_add_dequantize(ctx, job, &d);
    }
    if (work == WORK_ASYMMETRIC) {
        q.asymmetric = true;
        q.granularity = VC_GRANULARITY_GROUP;
        q.group_size = 48;
        q.nonfinite = VC_NONFINITE_KEEP;
        q.rules = rules;
        q.n_rules = 2;
    }
    if (work == WORK_FP16) {
        q.target = VC_TARGET_F16;
    }
    if (work == WORK_AIM_SQNR) {
        q.target = VC_TARGET_CHOSEN;
        q.aim_sqnr_db = 41.0;
        q.rest = "bf16";
    }
    if (work == WORK_AIM_BYTES) {
        q.target = VC_TARGET_CHOSEN;
        q.aim_bytes = (uint64_t)1 << 30;
    }
    return vc_job_add_quantize(ctx, job, &q);
}

/* The output was there before the failure: only the report was lost. */
static bool written;

static enum vc_status convert(struct vc_ctx *ctx, enum work work, const char *to)
{
    const char *const emit[] = {second};
    struct vc_write_options options = support_replace(to, work == WORK_DEFLATED ? VC_DEFLATE_AUTO : VC_DEFLATE_NONE);
    struct vc_model *model = NULL;
    struct vc_model *masks = NULL;
    struct vc_model *adapter = NULL;
    struct vc_couplings *couplings = NULL;
    struct vc_job *job = NULL;
    enum vc_status status;
    char *json = NULL;

    options.emit = emit;
    options.n_emit = work == WORK_EMIT;
    VC_TRY(vc_model_open(ctx, work == WORK_DEQUANTIZE || work == WORK_CONVERT ? packed : input, NULL, &model));
    VC_TRY(vc_job_create(ctx, model, &job));
    if (work == WORK_PRUNE || work == WORK_PRUNE_MASK || work == WORK_PRUNE_N_OF_M) {
        VC_TRY(add_prune(ctx, job, work, &masks));
    } else if (work == WORK_STRUCTURED) {
        VC_TRY(add_structured(ctx, job, model, &couplings));
    } else if (work == WORK_MERGE) {
        VC_TRY(add_merge(ctx, job, &adapter));
    } else {
        VC_TRY(add_pass(ctx, job, work));
    }
    VC_TRY(vc_job_plan(ctx, job, &options));
    VC_TRY(vc_job_run(ctx, job));
    written = true;
    VC_TRY(vc_document_json(ctx, &(struct vc_document){.kind = VC_DOCUMENT_REPORT, .of = vc_job_report(job)}, &json));
out:
    vc_text_free(json);
    vc_job_free(job);
    vc_result_free(couplings);
    vc_model_close(masks);
    vc_model_close(adapter);
    vc_model_close(model);
    return status;
}

static enum vc_status look(struct vc_ctx *ctx)
{
    struct vc_inspection *in = NULL;
    struct vc_model *a = NULL;
    struct vc_model *b = NULL;
    struct vc_diff *diff = NULL;
    enum vc_status status;

    VC_TRY(vc_model_open(ctx, input, NULL, &a));
    VC_TRY(vc_model_open(ctx, packed, NULL, &b));
    VC_TRY(vc_inspect(ctx, a, true, &in));
    VC_TRY(vc_diff_models(ctx, a, b, &diff));
out:
    vc_result_free(diff);
    vc_model_close(b);
    vc_result_free(in);
    vc_model_close(a);
    return status;
}

static enum vc_status do_work(struct vc_ctx *ctx, enum work work, const char *to)
{
    written = false;
    return work == WORK_LOOK ? look(ctx) : convert(ctx, work, to);
}

/* ---- what is left ---- */

static char *file_bytes(const char *path, size_t *n)
{
    FILE *f = fopen(path, "rb");
    struct stat st;
    char *bytes;

    *n = 0;
    if (f == NULL) {
        return NULL;
    }
    assert_int_equal(fstat(fileno(f), &st), 0);
    *n = (size_t)st.st_size;
    bytes = malloc(*n + 1);
    assert_non_null(bytes);
    assert_int_equal(fread(bytes, 1, *n, f), *n);
    (void)fclose(f);
    return bytes;
}

static void put_older(bool there)
{
    FILE *f;

    (void)unlink(output);
    (void)unlink(second);
    if (there) {
        f = fopen(output, "wb");
        assert_non_null(f);
        assert_int_equal(fwrite(OLDER, 1, sizeof OLDER, f), sizeof OLDER);
        assert_int_equal(fclose(f), 0);
    }
}

/* After a failure: the output is what it was, and nothing else appeared. */
static void check_untouched(bool older)
{
    size_t n;
    char *bytes = file_bytes(output, &n);

    assert_int_equal(bytes != NULL, older);
    if (older) {
        assert_int_equal(n, sizeof OLDER);
        assert_memory_equal(bytes, OLDER, n);
    }
    free(bytes);
    assert_int_equal(count_files(), 5 + (unsigned)older);
}

struct undisturbed {
    uint64_t n_allocs, n_writes;
    char *bytes; /* of the output; NULL where there is none */
    size_t n_bytes;
    char *second; /* of the second output */
    size_t n_second;
};

static void check_same(const char *path, const char *expected, size_t n_expected)
{
    size_t n;
    char *bytes = file_bytes(path, &n);

    assert_int_equal(bytes != NULL, expected != NULL);
    assert_int_equal(n, n_expected);
    if (expected != NULL) {
        assert_memory_equal(bytes, expected, n);
    }
    free(bytes);
}

static void check_same_as(const struct undisturbed *u)
{
    check_same(output, u->bytes, u->n_bytes);
    check_same(second, u->second, u->n_second);
    assert_int_equal(count_files(), 6 + (u->second != NULL));
}

/* The one moment in which one of two files has its name already: the sentence says so. */
static bool between_names(const struct undisturbed *u, const char *message)
{
    if (u->second == NULL ||
        (strstr(message, "already complete: ") == NULL && strstr(message, "is complete") == NULL)) {
        return false;
    }
    check_same(output, u->bytes, u->n_bytes);
    if (access(second, F_OK) == 0) { /* only its folder could not be synced */
        check_same(second, u->second, u->n_second);
    }
    return true;
}

static struct undisturbed run_undisturbed(enum work work)
{
    struct undisturbed u = {0};
    uint64_t n_calls = vc_outfile_call_count();
    struct vc_ctx *ctx = NULL;

    put_older(false);
    assert_int_equal(vc_ctx_create(&ctx), VC_OK);
    assert_int_equal(vc_ctx_set_threads(ctx, 1), VC_OK);
    vc_outfile_fail_at(0);
    if (do_work(ctx, work, output) != VC_OK) {
        fail_msg("%s: %s", work_names[work], vc_ctx_message(ctx));
    }
    u.n_allocs = vc_pool_alloc_count(ctx->shared->pool);
    u.n_writes = vc_outfile_call_count() - n_calls;
    vc_ctx_free(ctx);
    u.bytes = file_bytes(output, &u.n_bytes);
    u.second = file_bytes(second, &u.n_second);
    return u;
}

static unsigned n_between;

/* One run with the n-th request of either kind failing. */
static void run_with_fault(enum work work, uint64_t nth_alloc, bool forever, uint64_t nth_write, unsigned threads,
                           const struct undisturbed *u)
{
    bool older = (nth_alloc + nth_write) % 2 == 1;
    struct vc_ctx *ctx = NULL;
    enum vc_status status;
    uint64_t in_use;

    put_older(older);
    assert_int_equal(vc_ctx_create(&ctx), VC_OK);
    assert_int_equal(vc_ctx_set_threads(ctx, threads), VC_OK);
    in_use = vc_pool_in_use(ctx->shared->pool);
    vc_pool_fail_at(ctx->shared->pool, nth_alloc, forever);
    vc_outfile_fail_at(nth_write);
    status = do_work(ctx, work, output);
    vc_pool_fail_at(ctx->shared->pool, 0, 0);
    vc_outfile_fail_at(0);
    if (status == VC_OK) { /* something that was not needed, or fewer requests than with one thread */
        if (u->bytes != NULL) {
            check_same_as(u);
        }
    } else {
        if (status != (nth_alloc != 0 ? VC_E_NOMEM : VC_E_IO)) {
            fail_msg("%s, request %llu: %s: %s", work_names[work], (unsigned long long)(nth_alloc + nth_write),
                     vc_status_name(status), vc_ctx_message(ctx));
        }
        assert_true(strlen(vc_ctx_message(ctx)) > 10);
        assert_null(strchr(vc_ctx_message(ctx), '\n'));
        if (between_names(u, vc_ctx_message(ctx))) {
            n_between++;
        } else if (written || strstr(vc_ctx_message(ctx), "is complete") != NULL) { /* the folder could not be synced */
            check_same_as(u);
        } else {
            check_untouched(older);
        }
    }
    /* The kernel table may stay; it belongs to the context. */
    assert_true(vc_pool_in_use(ctx->shared->pool) <= in_use + 4096);
    vc_ctx_free(ctx);
}

static void every_allocation(void **state)
{
    (void)state;
    for (enum work work = 0; work < N_WORK; work++) {
        struct undisturbed u = run_undisturbed(work);

        assert_true(u.n_allocs > 10);
        for (uint64_t n = 1; n <= u.n_allocs; n += TEST_STRIDE) {
            run_with_fault(work, n, false, 0, 1, &u);
            run_with_fault(work, n, true, 0, 1 + (unsigned)(n % 3), &u);
        }
        free(u.bytes);
        free(u.second);
    }
}

static void every_write(void **state)
{
    (void)state;
    n_between = 0;
    for (enum work work = 0; work < WORK_LOOK; work++) {
        struct undisturbed u = run_undisturbed(work);

        assert_int_equal(u.second != NULL, work == WORK_EMIT || work == WORK_PRUNE || work == WORK_PRUNE_N_OF_M);
        assert_true(u.n_writes > 3);
        for (uint64_t n = 1; n <= u.n_writes; n++) {
            for (unsigned threads = 1; threads <= 3; threads++) {
                if (TEST_STRIDE > 1 && threads != 1 + n % 3) { /* by turns */
                    continue;
                }
                vc_outfile_no_unnamed(threads == 2);
                run_with_fault(work, 0, false, n, threads, &u);
                vc_outfile_no_unnamed(false);
            }
        }
        free(u.bytes);
        free(u.second);
    }
    assert_in_range(n_between, 1, 24); /* naming and its syncs; everything before leaves no file at all */
}

/* With the first allocation of every kind failing there is not even a context. */
static void no_context(void **state)
{
    struct vc_ctx *ctx = NULL;

    (void)state;
    assert_int_equal(vc_ctx_create(&ctx), VC_OK);
    vc_pool_fail_at(ctx->shared->pool, 1, 1);
    assert_int_equal(do_work(ctx, WORK_STORED, output), VC_E_NOMEM);
    vc_pool_fail_at(ctx->shared->pool, 0, 0);
    put_older(false);
    assert_int_equal(do_work(ctx, WORK_STORED, output), VC_OK); /* the same context works afterwards */
    vc_ctx_free(ctx);
}

static void write_text(const char *path, const char *text)
{
    FILE *f = fopen(path, "wb");

    assert_non_null(f);
    assert_int_equal(fwrite(text, 1, strlen(text), f), strlen(text));
    assert_int_equal(fclose(f), 0);
}

static int make_folder(void **state)
{
    struct vc_ctx *ctx = NULL;
    enum vc_status status;

    assert_int_equal(scratch_make(state), 0);
    (void)snprintf(input, sizeof input, "%s/in.npz", scratch_folder());
    (void)snprintf(packed, sizeof packed, "%s/packed.npz", scratch_folder());
    (void)snprintf(output, sizeof output, "%s/out.npz", scratch_folder());
    (void)snprintf(second, sizeof second, "%s/out.safetensors", scratch_folder());
    (void)snprintf(mask_file, sizeof mask_file, "%s/masks.safetensors", scratch_folder());
    (void)snprintf(couplings_file, sizeof couplings_file, "%s/couplings.txt", scratch_folder());
    (void)snprintf(adapter_file, sizeof adapter_file, "%s/adapter.npz", scratch_folder());
    write_input(input, members, N_MEMBERS);
    write_input(adapter_file, adapter_members, sizeof adapter_members / sizeof adapter_members[0]);
    write_text(couplings_file, couplings_text);
    assert_int_equal(vc_ctx_create(&ctx), VC_OK);
    status = convert(ctx, WORK_DEFLATED, packed);
    if (status == VC_OK) { /* the masks of what 2:4 prunes */
        status = convert(ctx, WORK_PRUNE_N_OF_M, output);
        assert_int_equal(status, VC_OK);
        assert_int_equal(rename(second, mask_file), 0);
        assert_int_equal(unlink(output), 0);
    }
    if (status != VC_OK) {
        print_error("%s\n", vc_ctx_message(ctx));
    }
    vc_ctx_free(ctx);
    return status == VC_OK ? 0 : -1;
}

static int remove_folder(void **state)
{
    remove_path(input);
    remove_path(packed);
    remove_path(output);
    remove_path(second);
    remove_path(mask_file);
    remove_path(couplings_file);
    remove_path(adapter_file);
    return scratch_remove(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_context),
        cmocka_unit_test(every_allocation),
        cmocka_unit_test(every_write),
    };

    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
