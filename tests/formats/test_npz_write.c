/* test_npz_write.c - npz and npy output: the same file for every order of pieces and any number of threads, sizes known
 * from the layout, readable by our reader, and faults one by one. */
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/checked.h"
#include "formats/dialects/manifest/manifest.h"
#include "formats/formats.h"
#include "formats/io/outfile.h"
#include "formats/npz/npy.h"
#include "formats/npz/npy_write.h"
#include "formats/npz/npz.h"
#include "formats/npz/npz_internal.h"
#include "formats/npz/npz_write.h"
#include "formats/zip/codec.h"
#include "formats_test.h"
#include "scratch.h"
#include "support_options.h"

/* ---- what is written: five outputs of three items ---- */

#define ROWS 300u
#define COLS 1000u

enum { W, W_SCALE, EMPTY, NOTES, HALF, N_OUTS };

static const uint64_t shape_w[] = {ROWS, COLS}, shape_scale[] = {ROWS, COLS / 2}, shape_empty[] = {0, 3};
static const uint64_t shape_notes[] = {12}, shape_half[] = {70000};
static const struct vc_recipe_entry recipe[] = {{"scheme", "int8"}};

static struct vc_out_tensor tensors[N_OUTS];
static unsigned char *bytes_of[N_OUTS];
static struct vc_tensor_io source_io[N_OUTS];
static struct npz_member source_members[N_OUTS];
static struct npz source_npz = {.members = source_members, .n_members = N_OUTS};
static struct vc_model source = {.io = source_io, .format = &vc_format_npz, .format_name = "npz", .self = &source_npz};
static struct vc_out_list outs = {.n = N_OUTS, .tensors = tensors, .n_recipe = 1, .recipe = recipe};
static char path[64], other[64];
static const struct vc_quant quant_w = {.scheme = VC_SCHEME_INT8,
                                        .granularity = VC_GRANULARITY_GROUP,
                                        .group_size = 2,
                                        .symmetric = true,
                                        .source_dtype = VC_DTYPE_F32,
                                        .n_parts = 1,
                                        .parts = {{VC_PART_SCALE, W_SCALE}}};

static struct vc_out_tensor out_tensor(const char *name, enum vc_dtype dtype, const uint64_t *shape, unsigned n_dims,
                                       size_t item)
{
    struct vc_out_tensor t = {
        .name = name, .dtype = dtype, .n_dims = n_dims, .shape = shape, .source = item, .source_dtype = VC_DTYPE_F32};

    t.size_bytes = vc_dtype_size(dtype);
    for (unsigned d = 0; d < n_dims; d++) {
        t.size_bytes *= shape[d];
    }
    return t;
}

static int set_up(void **state)
{
    uint32_t r = 7;

    (void)state;
    tensors[W] = out_tensor("fc.weight", VC_DTYPE_I8, shape_w, 2, 0);
    tensors[W].quant = &quant_w;
    tensors[W_SCALE] = out_tensor("fc.weight.scale", VC_DTYPE_F32, shape_scale, 2, 0);
    tensors[W_SCALE].role = VC_PART_SCALE;
    tensors[EMPTY] = out_tensor("empty", VC_DTYPE_F32, shape_empty, 2, 1);
    tensors[NOTES] = out_tensor("notes.txt", VC_DTYPE_RAW, shape_notes, 1, 2);
    tensors[NOTES].form = VC_FORM_RAW;
    tensors[HALF] = out_tensor("h\xc3\xa4lf", VC_DTYPE_BF16, shape_half, 1, 3);
    for (size_t i = 0; i < N_OUTS; i++) {
        bytes_of[i] = malloc(tensors[i].size_bytes + 1);
        for (size_t k = 0; k < tensors[i].size_bytes; k++) {
            r = r * 1664525 + 1013904223;
            bytes_of[i][k] = (unsigned char)(i == HALF || k % 4 == 3 ? r >> 28 : r >> 24);
        }
        tensors[i].source = i;
    }
    if (scratch_make(NULL) != 0) {
        return -1;
    }
    (void)snprintf(path, sizeof path, "%s/out.npz", scratch_folder());
    (void)snprintf(other, sizeof other, "%s/other.npz", scratch_folder());
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_OUTS; i++) {
        free(bytes_of[i]);
    }
    (void)unlink(path);
    (void)unlink(other);
    return scratch_remove(NULL);
}

/* ---- writing it ---- */

struct piece {
    size_t out;
    uint64_t offset;
    size_t n;
};

#define MAX_PIECES 4000

struct work {
    struct vc_sink *sink;
    struct piece pieces[MAX_PIECES];
    size_t n_pieces;
    bool ordered;
    atomic_size_t next;
    pthread_mutex_t mutex;
    pthread_cond_t turn;
    size_t emitted;
    const struct vc_ctx *parent;
    atomic_int status;
    char message[VC_MESSAGE_BYTES];
};

/* Pieces as the executor makes them: a tile of the weights, then its scales. */
static void cut_into_pieces(struct work *work, size_t piece_bytes)
{
    work->n_pieces = 0;
    for (size_t i = 0; i < N_OUTS; i++) {
        for (uint64_t at = 0; tensors[i].role == VC_PART_CODES && at < tensors[i].size_bytes; at += piece_bytes) {
            size_t n = (size_t)vc_min_u64(piece_bytes, tensors[i].size_bytes - at);

            work->pieces[work->n_pieces++] = (struct piece){i, at, n};
            if (i == W) { /* two bytes of scale for each byte of codes */
                work->pieces[work->n_pieces++] = (struct piece){W_SCALE, 2 * at, 2 * n};
            }
            assert_true(work->n_pieces < MAX_PIECES - 1);
        }
    }
}

static void shuffle(struct work *work, uint32_t seed)
{
    for (size_t i = work->n_pieces; i > 1; i--) {
        struct piece t = work->pieces[i - 1];
        size_t k;

        seed = seed * 1664525 + 1013904223;
        k = (seed >> 8) % i;
        work->pieces[i - 1] = work->pieces[k];
        work->pieces[k] = t;
    }
}

static enum vc_status write_piece(struct vc_ctx *ctx, struct work *work, size_t number, void *buffer, size_t room)
{
    const struct piece *piece = &work->pieces[number];
    struct vc_packet packet = {.buffer = buffer, .buffer_bytes = room};
    enum vc_status status = vc_sink_pack(ctx, work->sink, piece->out, piece->offset,
                                         bytes_of[piece->out] + piece->offset, piece->n, &packet);

    if (status != VC_OK) {
        return status;
    }
    (void)pthread_mutex_lock(&work->mutex);
    while (work->ordered && work->emitted != number && work->status == VC_OK) {
        (void)pthread_cond_wait(&work->turn, &work->mutex);
    }
    (void)pthread_mutex_unlock(&work->mutex);
    if (work->status != VC_OK) {
        return vc_fail(ctx, VC_E_CANCELLED, "given up");
    }
    status = work->sink->ops->emit(ctx, work->sink, &packet);
    if (status == VC_OK) { /* after a failure nobody else's turn comes */
        (void)pthread_mutex_lock(&work->mutex);
        work->emitted++;
        (void)pthread_cond_broadcast(&work->turn);
        (void)pthread_mutex_unlock(&work->mutex);
    }
    return status;
}

static void *worker(void *user)
{
    struct work *work = user;
    struct vc_ctx ctx;
    size_t room = vc_sink_pack_bound(work->sink, 1 << 20);
    void *buffer;
    size_t number;
    enum vc_status status = VC_OK;

    vc_ctx_fork(work->parent, &ctx);
    buffer = aligned_alloc(64, room + 64 - room % 64);
    while (status == VC_OK && (number = atomic_fetch_add(&work->next, 1)) < work->n_pieces) {
        status = write_piece(&ctx, work, number, buffer, room);
    }
    if (status != VC_OK) {
        (void)pthread_mutex_lock(&work->mutex);
        if (work->status == VC_OK) {
            work->status = (int)status;
            memcpy(work->message, ctx.message, sizeof work->message);
        }
        (void)pthread_cond_broadcast(&work->turn);
        (void)pthread_mutex_unlock(&work->mutex);
        vc_sink_interrupt(work->sink);
    }
    free(buffer);
    return NULL;
}

/* Everything from create to free; *size: what the layout said. */
static enum vc_status write_archive(struct vc_ctx *ctx, const struct vc_write_options *options, size_t piece_bytes,
                                    unsigned n_threads, uint32_t order, uint64_t *size)
{
    static struct work work;
    pthread_t threads[16];
    struct vc_sink *sink = NULL;
    uint64_t planned = 0;
    enum vc_status status;

    VC_TRY(vc_npz_sink_create(ctx, &source, options, &sink));
    VC_TRY(sink->ops->layout(ctx, sink, &outs, &planned));
    VC_TRY(sink->ops->begin(ctx, sink));
    memset(&work, 0, sizeof work);
    (void)pthread_mutex_init(&work.mutex, NULL);
    (void)pthread_cond_init(&work.turn, NULL);
    work.sink = sink;
    work.parent = ctx;
    work.ordered = sink->ordered;
    cut_into_pieces(&work, piece_bytes);
    if (order != 0) {
        shuffle(&work, order);
    }
    for (unsigned i = 1; i < n_threads; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, worker, &work), 0);
    }
    (void)worker(&work);
    for (unsigned i = 1; i < n_threads; i++) {
        (void)pthread_join(threads[i], NULL);
    }
    if (work.status != VC_OK) {
        VC_TRY(vc_fail(ctx, (enum vc_status)work.status, "%s", work.message));
    }
    VC_TRY(sink->ops->finish(ctx, sink, size));
    assert_true(sink->ordered ? planned == 0 : planned == *size);
    VC_TRY(sink->ops->commit(ctx, sink));
out:
    if (sink != NULL) {
        sink->ops->free(ctx, sink);
    }
    return status;
}

static unsigned char *slurp(const char *name, size_t *n)
{
    FILE *f = fopen(name, "rb");
    unsigned char *p;

    assert_non_null(f);
    assert_int_equal(fseek(f, 0, SEEK_END), 0);
    *n = (size_t)ftell(f);
    rewind(f);
    p = malloc(*n + 1);
    assert_int_equal(fread(p, 1, *n, f), *n);
    assert_int_equal(fclose(f), 0);
    return p;
}

static size_t memmem_count(const unsigned char *p, size_t n, const char *text)
{
    size_t k = strlen(text);
    size_t count = 0;

    for (size_t i = 0; i + k <= n; i++) {
        count += memcmp(p + i, text, k) == 0;
    }
    return count;
}

/* Our reader sees the same names, types and bytes, and the manifest's statements. */
static void check_readable(const char *name, bool deflated)
{
    static const char *const names[N_OUTS] = {"fc.weight", "fc.weight.scale", "empty", "notes.txt", "h\xc3\xa4lf"};
    struct vc_ctx *ctx = test_ctx();
    struct vc_model *model;

    if (vc_model_open(ctx, name, NULL, &model) != VC_OK) {
        fail_msg("%s", vc_ctx_message(ctx));
    }
    assert_int_equal(vc_model_facts(model)->n_tensors, N_OUTS);
    for (size_t i = 0; i < N_OUTS; i++) {
        const struct vc_tensor *t = vc_model_tensor(model, i);
        unsigned char *p = malloc(tensors[i].size_bytes + 1);

        assert_string_equal(t->name, names[i]);
        assert_int_equal(t->dtype, tensors[i].dtype);
        assert_int_equal(t->size_bytes, tensors[i].size_bytes);
        assert_int_equal(t->compressed, deflated && i != EMPTY && i != NOTES);
        assert_int_equal(vc_model_read(ctx, model, i, 0, t->n_elems, p, tensors[i].size_bytes), VC_OK);
        assert_memory_equal(p, bytes_of[i], tensors[i].size_bytes);
        free(p);
    }
    assert_non_null(model->tensors[W].quant);
    assert_int_equal(model->tensors[W].quant->granularity, VC_GRANULARITY_GROUP);
    assert_int_equal(model->tensors[W].quant->group_size, 2);
    assert_int_equal(model->tensors[W_SCALE].part_of, W);
    vc_model_close(model);
    assert_int_equal(walk_path(ctx, name, NULL), VC_OK);
    test_ctx_done(ctx);
}

static void check_alignment(const char *name)
{
    size_t n;
    unsigned char *p = slurp(name, &n);
    size_t members = 0;

    for (size_t at = 0; at + 30 < n && vc_le32(p + at) == 0x04034b50; members++) {
        size_t data = at + 30 + vc_le16(p + at + 26) + vc_le16(p + at + 28);

        assert_int_equal(data % 64, 0);
        assert_int_equal(vc_le16(p + at + 6) & ~0x0800u, 0); /* no descriptor */
        assert_int_equal(vc_le16(p + at + 12), 0x0021);
        at = data + vc_le32(p + at + 18);
    }
    assert_int_equal(members, N_OUTS + 1);
    free(p);
}

/* ---- tests ---- */

static void test_stored_in_any_order(void **state)
{
    struct vc_write_options options = support_write(path);
    struct vc_ctx *ctx = test_ctx();
    unsigned char *first;
    size_t n_first;
    uint64_t size;

    (void)state;
    (void)unlink(path);
    assert_int_equal(write_archive(ctx, &options, 100000, 1, 0, &size), VC_OK);
    check_readable(path, false);
    check_alignment(path);
    first = slurp(path, &n_first);
    assert_int_equal(n_first, size);
    options.path = other;
    options.force = true;
    for (uint32_t round = 1; round < 12; round++) {
        size_t n;
        unsigned char *p;

        assert_int_equal(write_archive(ctx, &options, round % 3 == 0 ? 777 : 1000 * round, 1 + round % 5, round, &size),
                         VC_OK);
        p = slurp(other, &n);
        assert_int_equal(n, n_first);
        assert_memory_equal(p, first, n);
        free(p);
    }
    free(first);
    test_ctx_done(ctx);
}

static void test_deflated_on_any_number_of_threads(void **state)
{
    static const enum vc_deflate ways[] = {VC_DEFLATE_ZLIB, VC_DEFLATE_AUTO, VC_DEFLATE_ISAL};
    struct vc_write_options options = support_replace(path, VC_DEFLATE_NONE);
    struct vc_ctx *ctx = test_ctx();
    uint64_t size;

    (void)state;
    for (int how = 0; how < (vc_codec_has_isal() ? 3 : 2); how++) {
        unsigned char *first;
        size_t n_first;

        options.deflate = ways[how];
        options.path = path;
        assert_int_equal(write_archive(ctx, &options, 30000, 1, 0, &size), VC_OK);
        check_readable(path, true);
        check_alignment(path);
        first = slurp(path, &n_first);
        assert_int_equal(n_first, size);
        options.path = other;
        for (unsigned threads = 2; threads < 9; threads += 2) {
            size_t n;
            unsigned char *p;

            assert_int_equal(write_archive(ctx, &options, 30000, threads, 0, &size), VC_OK);
            p = slurp(other, &n);
            assert_int_equal(n, n_first);
            assert_memory_equal(p, first, n);
            free(p);
        }
        free(first);
    }
    test_ctx_done(ctx);
}

/* Scales of more than 1 MiB wait in a temporary file; with fewer columns they would wait in memory. */
static void test_spools(void **state)
{
    static const uint64_t large[] = {ROWS, COLS}, codes[] = {ROWS, 2 * COLS};
    struct vc_write_options options = support_replace(path, VC_DEFLATE_ZLIB);
    struct vc_out_tensor saved[2] = {tensors[W], tensors[W_SCALE]};
    unsigned char *saved_bytes[2] = {bytes_of[W], bytes_of[W_SCALE]};
    struct vc_ctx *ctx = test_ctx();
    uint64_t size;

    (void)state;
    assert_true(saved[1].size_bytes < 1 << 20);
    tensors[W].shape = codes;
    tensors[W].size_bytes *= 2;
    tensors[W_SCALE].shape = large;
    tensors[W_SCALE].size_bytes *= 2;
    assert_true(tensors[W_SCALE].size_bytes > 1 << 20);
    for (int i = 0; i < 2; i++) {
        bytes_of[i] = malloc(tensors[i].size_bytes);
        for (size_t k = 0; k < tensors[i].size_bytes; k++) {
            bytes_of[i][k] = saved_bytes[i][k / 2];
        }
    }
    assert_int_equal(write_archive(ctx, &options, 30000, 3, 0, &size), VC_OK);
    check_readable(path, true);
    for (int i = 0; i < 2; i++) {
        free(bytes_of[i]);
        bytes_of[i] = saved_bytes[i];
        tensors[i] = saved[i];
    }
    test_ctx_done(ctx);
}

static void test_measuring_writes_nothing(void **state)
{
    struct vc_write_options options = support_write(NULL);
    struct vc_ctx *ctx = test_ctx();
    uint64_t stored, deflated;

    (void)state;
    (void)unlink(path);
    assert_int_equal(write_archive(ctx, &options, 50000, 2, 3, &stored), VC_OK);
    options.deflate = VC_DEFLATE_ZLIB;
    assert_int_equal(write_archive(ctx, &options, 50000, 2, 0, &deflated), VC_OK);
    assert_true(deflated < stored);
    assert_int_equal(access(path, F_OK), -1);
    options.path = path; /* and a dry run does not even look at the name */
    options.dry_run = true;
    options.path = "/nowhere/at/all";
    assert_int_equal(write_archive(ctx, &options, 50000, 1, 0, &deflated), VC_OK);
    test_ctx_done(ctx);
}

static void test_missing_bytes_are_noticed(void **state)
{
    struct vc_ctx *ctx = test_ctx();

    (void)state;
    for (int how = VC_DEFLATE_NONE; how <= VC_DEFLATE_ZLIB; how++) {
        struct vc_write_options options = support_replace(path, (enum vc_deflate)how);
        struct vc_sink *sink;
        uint64_t size;

        assert_int_equal(vc_npz_sink_create(ctx, &source, &options, &sink), VC_OK);
        assert_int_equal(sink->ops->layout(ctx, sink, &outs, &size), VC_OK);
        assert_int_equal(sink->ops->begin(ctx, sink), VC_OK);
        assert_int_equal(sink->ops->finish(ctx, sink, &size), VC_E_INTERNAL);
        sink->ops->free(ctx, sink);
    }
    test_ctx_done(ctx);
}

static void test_same_names_are_refused(void **state)
{
    struct vc_write_options options = support_write(NULL);
    const char *saved = tensors[HALF].name;
    struct vc_ctx *ctx = test_ctx();
    uint64_t size;

    (void)state;
    tensors[HALF].name = "fc.weight.scale";
    assert_int_equal(write_archive(ctx, &options, 50000, 1, 0, &size), VC_E_UNSUPPORTED);
    assert_non_null(strstr(vc_ctx_message(ctx), "two members named fc.weight.scale.npy"));
    tensors[HALF].name = saved;
    tensors[NOTES].name = VC_MANIFEST_NAME;
    assert_int_equal(write_archive(ctx, &options, 50000, 1, 0, &size), VC_E_UNSUPPORTED);
    tensors[NOTES].name = "notes.txt";
    test_ctx_done(ctx);
}

/* Each call and each allocation fails once: no output, nothing left, everything freed. */
static void check_faults(enum vc_deflate deflate, unsigned n_threads)
{
    struct vc_write_options options = support_write(path);
    struct vc_ctx *ctx = test_ctx();
    enum vc_status status = VC_E_IO;
    uint64_t size;
    uint64_t nth;

    options.deflate = deflate;
    for (nth = 1; status != VC_OK || access(path, F_OK) != 0 || nth < 10; nth++) {
        uint64_t before = vc_outfile_call_count();

        (void)unlink(path);
        vc_outfile_fail_at(nth);
        status = write_archive(ctx, &options, 200000, n_threads, 0, &size);
        vc_outfile_fail_at(0);
        if (status != VC_OK && status != VC_E_IO) {
            fail_msg("call %llu: %s: %s", (unsigned long long)nth, vc_status_name(status), vc_ctx_message(ctx));
        }
        assert_int_equal(vc_pool_in_use(ctx->shared->pool), 0);
        if (status != VC_OK && strstr(vc_ctx_message(ctx), "is complete") == NULL) {
            assert_int_equal(access(path, F_OK), -1);
        }
        if (vc_outfile_call_count() - before < nth) {
            break;
        }
    }
    assert_int_equal(status, VC_OK);
    assert_true(nth > 10);
    status = VC_E_NOMEM;
    for (nth = 1; status != VC_OK; nth++) {
        (void)unlink(path);
        vc_pool_fail_at(ctx->shared->pool, nth, 0);
        status = write_archive(ctx, &options, 200000, n_threads, 0, &size);
        vc_pool_fail_at(ctx->shared->pool, 0, 0);
        assert_true(status == VC_OK || status == VC_E_NOMEM);
        assert_int_equal(vc_pool_in_use(ctx->shared->pool), 0);
        assert_int_equal(access(path, F_OK), status == VC_OK ? 0 : -1);
    }
    assert_true(nth > 8);
    check_readable(path, deflate != VC_DEFLATE_NONE);
    (void)unlink(path);
    assert_int_equal(rmdir(scratch_folder()), 0); /* was empty */
    assert_int_equal(mkdir(scratch_folder(), 0700), 0);
    test_ctx_done(ctx);
}

static void test_faults(void **state)
{
    (void)state;
    (void)unlink(other);
    vc_outfile_no_unnamed(true);
    check_faults(VC_DEFLATE_NONE, 1);
    vc_outfile_no_unnamed(false);
    check_faults(VC_DEFLATE_NONE, 3);
    check_faults(VC_DEFLATE_ZLIB, 1);
    check_faults(VC_DEFLATE_ZLIB, 3);
}

/* ---- names in the archive ---- */

static void test_members_copied_keep_their_names(void **state)
{
    struct vc_write_options options = support_replace(path, VC_DEFLATE_NONE);
    struct vc_out_tensor saved = tensors[HALF];
    struct bytes npy = npy_matrix(2, 3);
    struct vc_ctx *ctx = test_ctx();
    unsigned char *saved_bytes = bytes_of[HALF];
    uint64_t size;

    (void)state;
    for (int bare = 0; bare < 2; bare++) {
        size_t n;
        unsigned char *p;

        tensors[HALF] = out_tensor("half", VC_DTYPE_F32, shape_half, 1, 3);
        tensors[HALF].form = VC_FORM_RAW;
        tensors[HALF].source = HALF;
        tensors[HALF].size_bytes = npy.n;
        source_members[HALF].bare_name = bare != 0;
        bytes_of[HALF] = npy.p;
        assert_int_equal(write_archive(ctx, &options, 50000, 1, 0, &size), VC_OK);
        p = slurp(path, &n);
        assert_int_equal(memmem_count(p, n, "half.npy"), bare != 0 ? 0 : 2);
        assert_int_equal(memmem_count(p, n, "half"), 2);
        free(p);
        assert_int_equal(walk_path(ctx, path, NULL), VC_OK);
    }
    source_members[HALF].bare_name = false;
    bytes_of[HALF] = saved_bytes;
    tensors[HALF] = saved;
    bytes_release(&npy);
    test_ctx_done(ctx);
}

/* ---- npy ---- */

static void test_npy_header(void **state)
{
    struct vc_ctx *ctx = test_ctx();
    uint64_t shape[VC_MAX_DIMS];

    (void)state;
    for (unsigned n_dims = 0; n_dims <= VC_MAX_DIMS; n_dims++) {
        for (int dtype = VC_DTYPE_BOOL; dtype <= VC_DTYPE_C128; dtype++) {
            unsigned char header[VC_NPY_WRITE_MAX];
            struct vc_npy_header back;
            size_t n;

            for (unsigned d = 0; d < n_dims; d++) {
                shape[d] = d % 7 == 3 ? 2 : 1;
            }
            if (n_dims == 64) { /* the longest text there is */
                memset(shape, 0xff, sizeof shape);
                shape[0] = 0;
            }
            n = vc_npy_write(NULL, 0, (enum vc_dtype)dtype, n_dims, shape);
            assert_int_equal(n % 64, 0);
            assert_true(n <= sizeof header);
            assert_int_equal(vc_npy_write(header, n - 1, (enum vc_dtype)dtype, n_dims, shape), n);
            assert_int_equal(vc_npy_write(header, n, (enum vc_dtype)dtype, n_dims, shape), n);
            if (n_dims == 64) {
                continue; /* the products do not fit, which the parser refuses */
            }
            assert_int_equal(vc_npy_parse(ctx, header, n, &back), VC_OK);
            assert_int_equal(back.dtype, dtype == VC_DTYPE_BF16 ? VC_DTYPE_U16 : dtype);
            assert_int_equal(back.header_bytes, n);
            assert_int_equal(back.n_dims, n_dims);
            assert_memory_equal(back.shape, shape, n_dims * sizeof *shape);
            assert_false(back.fortran_order || back.big_endian);
        }
    }
    assert_int_equal(vc_npy_write(NULL, 0, VC_DTYPE_VOID, 0, NULL), 0);
    assert_int_equal(vc_npy_write(NULL, 0, VC_DTYPE_RAW, 0, NULL), 0);
    test_ctx_done(ctx);
}

static enum vc_status write_one(struct vc_ctx *ctx, const char *name, enum vc_dtype dtype, size_t n_outs,
                                enum vc_deflate deflate, const char **format)
{
    struct vc_write_options options = support_replace(name, deflate);
    struct vc_out_tensor list[2] = {out_tensor("arr_0", dtype, shape_half, 1, 0), tensors[NOTES]};
    struct vc_out_list one = {.n = n_outs, .tensors = list};
    const struct vc_model npy_source = {.io = source_io, .format = &vc_format_npy, .format_name = "npy"};
    struct vc_sink *sink = NULL;
    struct vc_packet packet = {0};
    uint64_t planned, size;
    enum vc_status status;

    list[0].form = VC_FORM_VALUES;
    *format = "";
    VC_TRY(vc_sink_create(ctx, &npy_source, &options, &sink));
    VC_TRY(sink->ops->layout(ctx, sink, &one, &planned));
    *format = sink->format;
    VC_TRY(sink->ops->begin(ctx, sink));
    for (size_t i = 0; i < n_outs && !sink->ordered; i++) {
        VC_TRY(vc_sink_pack(ctx, sink, i, 0, bytes_of[i == 0 ? HALF : NOTES], list[i].size_bytes, &packet));
        VC_TRY(sink->ops->emit(ctx, sink, &packet));
    }
    if (!sink->ordered) {
        VC_TRY(sink->ops->finish(ctx, sink, &size));
        assert_int_equal(planned, size);
        VC_TRY(sink->ops->commit(ctx, sink));
    }
out:
    if (sink != NULL) {
        sink->ops->free(ctx, sink);
    }
    return status;
}

static void test_npy_sink(void **state)
{
    struct vc_ctx *ctx = test_ctx();
    struct vc_model *model;
    const char *format;
    char npy[80];

    (void)state;
    (void)snprintf(npy, sizeof npy, "%s/out.npy", scratch_folder());
    assert_int_equal(write_one(ctx, npy, VC_DTYPE_F16, 1, VC_DEFLATE_NONE, &format), VC_OK);
    assert_string_equal(vc_ctx_message(ctx), "");
    assert_int_equal(vc_model_open(ctx, npy, NULL, &model), VC_OK);
    assert_string_equal(vc_model_facts(model)->format, "npy");
    assert_int_equal(vc_model_tensor(model, 0)->n_elems, shape_half[0]);
    vc_model_close(model);
    assert_int_equal(unlink(npy), 0);
    /* What an npy cannot hold. */
    assert_int_equal(write_one(ctx, npy, VC_DTYPE_I8, 2, VC_DEFLATE_NONE, &format), VC_E_ARGUMENT);
    assert_non_null(strstr(vc_ctx_message(ctx), ".npz"));
    assert_int_equal(write_one(ctx, npy, VC_DTYPE_BF16, 1, VC_DEFLATE_NONE, &format), VC_E_ARGUMENT);
    assert_int_equal(write_one(ctx, npy, VC_DTYPE_F16, 1, VC_DEFLATE_ZLIB, &format), VC_E_ARGUMENT);
    assert_int_equal(access(npy, F_OK), -1);
    /* Under another name it becomes an npz. */
    assert_int_equal(write_one(ctx, path, VC_DTYPE_F16, 1, VC_DEFLATE_NONE, &format), VC_OK);
    assert_string_equal(format, "npz");
    assert_int_equal(walk_path(ctx, path, NULL), VC_OK);
    assert_int_equal(write_one(ctx, NULL, VC_DTYPE_I8, 2, VC_DEFLATE_NONE, &format), VC_OK);
    assert_string_equal(format, "npz");
    assert_int_equal(write_one(ctx, NULL, VC_DTYPE_I8, 1, VC_DEFLATE_NONE, &format), VC_OK);
    assert_string_equal(format, "npy");
    assert_int_equal(write_one(ctx, NULL, VC_DTYPE_BF16, 1, VC_DEFLATE_NONE, &format), VC_OK);
    assert_string_equal(format, "npz");
    assert_int_equal(write_one(ctx, NULL, VC_DTYPE_F16, 1, VC_DEFLATE_ZLIB, &format), VC_OK);
    assert_string_equal(format, "npz");
    for (uint64_t nth = 1;; nth++) {
        enum vc_status status;

        vc_pool_fail_at(ctx->shared->pool, nth, 0);
        status = write_one(ctx, NULL, VC_DTYPE_BF16, 1, VC_DEFLATE_NONE, &format);
        vc_pool_fail_at(ctx->shared->pool, 0, 0);
        assert_int_equal(vc_pool_in_use(ctx->shared->pool), 0);
        if (status == VC_OK) {
            break;
        }
        assert_int_equal(status, VC_E_NOMEM);
    }
    test_ctx_done(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_stored_in_any_order),
                                       cmocka_unit_test(test_deflated_on_any_number_of_threads),
                                       cmocka_unit_test(test_spools),
                                       cmocka_unit_test(test_measuring_writes_nothing),
                                       cmocka_unit_test(test_missing_bytes_are_noticed),
                                       cmocka_unit_test(test_same_names_are_refused),
                                       cmocka_unit_test(test_faults),
                                       cmocka_unit_test(test_members_copied_keep_their_names),
                                       cmocka_unit_test(test_npy_header),
                                       cmocka_unit_test(test_npy_sink)};

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
