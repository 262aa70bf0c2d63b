/* test_executor.c - the executor with a source, a pass and a sink made for the purpose: every byte arrives once, in
 * order where order is promised, whatever the number of threads; the earliest failure is the one reported. */
#include "support.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/run/executor.h"

#define N_TENSORS 5

/* What the fakes find wrong on a worker's thread, where cmocka must not jump from: told to the test when it is over. */
static _Atomic int n_complaints;

static bool expect(bool right)
{
    n_complaints += !right;
    return right;
}

/* ---- a source in memory: element i of tensor t is t * 1000 + i % 977 ---- */

struct vc_source_stream {
    size_t tensor;
    uint64_t offset;
};

static _Atomic int open_streams;

static float value(size_t tensor, uint64_t i)
{
    return (float)(tensor * 1000 + i % 977);
}

static void produce(size_t tensor, uint64_t offset, void *dst, size_t n)
{
    float *out = dst;
    size_t i;

    (void)expect(offset % sizeof *out == 0);
    for (i = 0; i < n / sizeof *out; i++) {
        out[i] = value(tensor, offset / sizeof *out + i);
    }
}

static bool slow_reads; /* each takes so long that progress is told again */

static enum vc_status fake_read(struct vc_ctx *ctx, const struct vc_model *model, size_t tensor, enum vc_form form,
                                uint64_t offset, void *dst, size_t n_bytes, struct vc_check *check)
{
    const struct timespec time = {.tv_nsec = 101 * 1000 * 1000};

    (void)ctx;
    (void)model;
    (void)form;
    (void)check;
    produce(tensor, offset, dst, n_bytes);
    if (slow_reads) {
        (void)nanosleep(&time, NULL);
    }
    return VC_OK;
}

static enum vc_status fake_stream_open(struct vc_ctx *ctx, const struct vc_model *model, size_t tensor,
                                       enum vc_form form, struct vc_source_stream **out)
{
    (void)ctx;
    (void)model;
    (void)form;
    *out = calloc(1, sizeof **out);
    (*out)->tensor = tensor;
    open_streams++;
    return VC_OK;
}

static enum vc_status fake_stream_read(struct vc_ctx *ctx, struct vc_source_stream *stream, void *dst, size_t n)
{
    (void)ctx;
    produce(stream->tensor, stream->offset, dst, n);
    stream->offset += n;
    return VC_OK;
}

static enum vc_status fake_stream_close(struct vc_ctx *ctx, struct vc_source_stream *stream, bool finished)
{
    (void)ctx;
    (void)finished;
    free(stream);
    open_streams--;
    return VC_OK;
}

static size_t fake_stream_bytes(const struct vc_model *model, size_t tensor)
{
    (void)model;
    (void)tensor;
    return 1000;
}

static const struct vc_source_ops source_ops = {.read = fake_read,
                                                .stream_open = fake_stream_open,
                                                .stream_read = fake_stream_read,
                                                .stream_close = fake_stream_close,
                                                .stream_bytes = fake_stream_bytes};

static const uint64_t shapes[N_TENSORS][2] = {{700, 1000}, {3, 5}, {2, 600000}, {0, 4}, {1000, 300}};

struct fake_model {
    struct vc_model model;
    struct vc_tensor tensors[N_TENSORS];
    struct vc_tensor_io io[N_TENSORS];
};

static void fake_model_init(struct fake_model *f, unsigned sequential_mask)
{
    static const char *const names[N_TENSORS] = {"a", "b", "c", "d", "e"};
    size_t i;

    memset(f, 0, sizeof *f);
    f->model.ops = &source_ops;
    f->model.n_tensors = N_TENSORS;
    f->model.tensors = f->tensors;
    f->model.io = f->io;
    for (i = 0; i < N_TENSORS; i++) {
        uint64_t n = shapes[i][0] * shapes[i][1];

        f->tensors[i] = (struct vc_tensor){.name = names[i],
                                           .dtype = VC_DTYPE_F32,
                                           .n_dims = 2,
                                           .shape = shapes[i],
                                           .n_elems = n,
                                           .size_bytes = n * sizeof(float),
                                           .part_of = VC_NO_TENSOR,
                                           .alias_of = VC_NO_TENSOR};
        f->io[i] = (struct vc_tensor_io){.sequential = (sequential_mask >> i & 1) != 0, .raw_bytes = n * sizeof(float)};
    }
}

/* ---- a pass: y = x + (largest x of the tensor, found by a scan); one byte of a part per tile ---- */

struct fake_state {
    _Atomic int largest;
    _Atomic int begun;
    int scanned; /* set by scan_end */
};

static uint64_t fail_tile_of_c = UINT64_MAX; /* the pass refuses this tile and all after it of tensor "c" */

static enum vc_status fake_begin(struct vc_ctx *ctx, struct vc_step *step, const struct vc_item *item)
{
    struct fake_state *s = step->state;

    (void)ctx;
    (void)item;
    s->begun++;
    return VC_OK;
}

static void fake_end(struct vc_ctx *ctx, struct vc_step *step)
{
    struct fake_state *s = step->state;

    (void)ctx;
    s->begun--;
}

static enum vc_status fake_scan(struct vc_ctx *ctx, struct vc_step *step, const struct vc_item *item,
                                const struct vc_tile *tile, const struct vc_tile_in *in, void *scratch)
{
    struct fake_state *s = step->state;
    const float *x = in->data;
    size_t i;

    (void)ctx;
    (void)item;
    (void)scratch;
    for (i = 0; i < tile->n_elems; i++) {
        int v = (int)x[i];
        int seen = s->largest;

        while (v > seen && !atomic_compare_exchange_weak(&s->largest, &seen, v)) {
        }
    }
    return VC_OK;
}

static enum vc_status fake_scan_end(struct vc_ctx *ctx, struct vc_step *step, const struct vc_item *item)
{
    (void)ctx;
    (void)item;
    ((struct fake_state *)step->state)->scanned++;
    return VC_OK;
}

static enum vc_status fake_apply(struct vc_ctx *ctx, struct vc_step *step, const struct vc_item *item,
                                 const struct vc_tile *tile, const struct vc_tile_in *in, void *scratch,
                                 struct vc_tile_out *out)
{
    struct fake_state *s = step->state;
    const float *x = in->data;
    float *y = out->data;
    char *part = scratch;
    size_t i;

    (void)expect(s->begun == 1);
    (void)expect(s->scanned == (step->scan ? 1 : 0));
    if (item->source == 2 && tile->index >= fail_tile_of_c) {
        return vc_fail(ctx, VC_E_FORMAT, "tile %u refused", (unsigned)tile->index);
    }
    for (i = 0; i < tile->n_elems; i++) {
        y[i] = x[i] + (float)s->largest;
    }
    for (i = 0; i < vc_tile_chunks(tile); i++) {
        out->stats->chunk_sums[2 * i] = 1.0;
        out->stats->chunk_sums[2 * i + 1] = 0.25;
    }
    *part = (char)('A' + tile->index % 26);
    out->parts[0] = (struct vc_part_view){.data = part, .first = tile->index, .n = 1, .write = true};
    return VC_OK;
}

static const struct vc_step_ops step_ops = {
    .begin = fake_begin, .scan = fake_scan, .scan_end = fake_scan_end, .apply = fake_apply, .end = fake_end};

/* ---- a sink in memory ---- */

struct fake_sink {
    struct vc_sink sink;
    char *data[2 * N_TENSORS];
    uint64_t filled[2 * N_TENSORS];
    size_t last_out; /* ordered: main tensors come in order */
    bool pack_waits; /* later pieces of tensor "a" wait in pack until they are interrupted */
    bool interrupted;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
};

static size_t fake_bound(const struct vc_sink *sink, size_t n)
{
    return sink->ordered ? n : 0;
}

static enum vc_status fake_pack(struct vc_ctx *ctx, struct vc_sink *sink, struct vc_packet *packet)
{
    struct fake_sink *f = sink->self;
    bool interrupted;

    (void)pthread_mutex_lock(&f->mutex);
    while (f->pack_waits && packet->out == 0 && packet->offset != 0 && !f->interrupted) {
        (void)pthread_cond_wait(&f->changed, &f->mutex);
    }
    interrupted = f->pack_waits && packet->out == 0 && packet->offset != 0;
    (void)pthread_mutex_unlock(&f->mutex);
    if (interrupted) {
        return vc_fail(ctx, VC_E_CANCELLED, "an earlier part failed");
    }
    if (sink->ordered) {
        if (!expect(packet->buffer_bytes >= packet->n_bytes)) {
            return vc_fail(ctx, VC_E_INTERNAL, "no room");
        }
        memcpy(packet->buffer, packet->data, packet->n_bytes);
        packet->data = packet->buffer;
    }
    return VC_OK;
}

static enum vc_status fake_emit(struct vc_ctx *ctx, struct vc_sink *sink, const struct vc_packet *packet)
{
    struct fake_sink *f = sink->self;

    (void)ctx;
    (void)pthread_mutex_lock(&f->mutex);
    if (sink->ordered) {
        (void)expect(f->filled[packet->out] == packet->offset);
        if (packet->out % 2 == 0) {
            (void)expect(packet->out >= f->last_out);
            f->last_out = packet->out;
        }
    }
    f->filled[packet->out] += packet->n_bytes;
    (void)pthread_mutex_unlock(&f->mutex);
    memcpy(f->data[packet->out] + packet->offset, packet->data, packet->n_bytes);
    return VC_OK;
}

static void fake_interrupt(struct vc_sink *sink)
{
    struct fake_sink *f = sink->self;

    (void)pthread_mutex_lock(&f->mutex);
    f->interrupted = true;
    (void)pthread_cond_broadcast(&f->changed);
    (void)pthread_mutex_unlock(&f->mutex);
}

static const struct vc_sink_ops sink_ops = {
    .pack_bound = fake_bound, .pack = fake_pack, .emit = fake_emit, .interrupt = fake_interrupt};

/* ---- one run of everything ---- */

struct run {
    struct fake_model model;
    struct fake_sink sink;
    struct vc_arena arena;
    struct vc_item_set set;
    struct vc_item items[N_TENSORS];
    struct vc_item_result results[N_TENSORS];
    struct fake_state states[N_TENSORS];
    struct vc_out_tensor outs[2 * N_TENSORS];
    struct vc_out_list list;
    uint32_t first_out[N_TENSORS];
    struct vc_exec exec;
};

static const uint64_t part_shape = 64;

/* Tensors a, c, d, e go through the pass (c and e with a scan), b is kept. */
static void run_init(struct vc_ctx *ctx, struct run *r, unsigned sequential_mask, bool ordered)
{
    size_t i;

    memset(r, 0, sizeof *r);
    fake_model_init(&r->model, sequential_mask);
    r->sink.sink = (struct vc_sink){.ops = &sink_ops, .self = &r->sink, .ordered = ordered};
    (void)pthread_mutex_init(&r->sink.mutex, NULL);
    (void)pthread_cond_init(&r->sink.changed, NULL);
    r->set = (struct vc_item_set){.model = &r->model.model, .arena = &r->arena};
    for (i = 0; i < N_TENSORS; i++) {
        const struct vc_tensor *t = &r->model.tensors[i];

        assert_int_equal(vc_item_make(ctx, &r->set, i, &r->items[i]), VC_OK);
        if (i != 1) {
            struct vc_step *step = vc_item_add_step(ctx, &r->items[i], &step_ops);

            step->state = &r->states[i];
            step->scan = i == 2 || i == 4;
            step->scratch_bytes = 64;
            step->lossy = true;
            r->items[i].chain->total_step = 0;
            assert_int_equal(vc_step_add_part(ctx, &r->items[i], step, VC_PART_MASK, VC_DTYPE_U8, 1, &part_shape),
                             VC_OK);
            vc_item_replan(&r->items[i]);
        }
        r->first_out[i] = (uint32_t)(2 * i);
        r->sink.data[2 * i] = calloc(1, t->size_bytes + 1);
        r->sink.data[2 * i + 1] = calloc(1, 64);
    }
    r->list = (struct vc_out_list){.n = 2 * N_TENSORS, .tensors = r->outs};
    r->exec = (struct vc_exec){.items = r->items,
                               .n_items = N_TENSORS,
                               .results = r->results,
                               .sink = &r->sink.sink,
                               .first_out = r->first_out,
                               .outs = &r->list,
                               .what = "test"};
}

static void run_release(struct vc_ctx *ctx, struct run *r)
{
    size_t i;

    for (i = 0; i < 2 * N_TENSORS; i++) {
        free(r->sink.data[i]);
    }
    for (i = 0; i < N_TENSORS; i++) {
        assert_int_equal(r->states[i].begun, 0);
        vc_item_release(ctx, &r->items[i]);
    }
    assert_int_equal(open_streams, 0);
    assert_int_equal(n_complaints, 0);
    (void)pthread_cond_destroy(&r->sink.changed);
    (void)pthread_mutex_destroy(&r->sink.mutex);
    vc_arena_release(ctx, &r->arena);
}

static void check_tensor(const struct run *r, size_t tensor)
{
    const struct vc_tensor *t = &r->model.tensors[tensor];
    const float *y = (const float *)(const void *)r->sink.data[2 * tensor];
    float add = tensor == 2 || tensor == 4 ? (float)(tensor * 1000 + 976) : 0.0f;
    uint64_t n_rows;
    uint64_t row_len;
    uint64_t i;

    assert_int_equal(r->sink.filled[2 * tensor], t->size_bytes);
    for (i = 0; i < t->n_elems; i++) {
        if (y[i] != value(tensor, i) + add) {
            fail_msg("tensor %zu element %llu is %g", tensor, (unsigned long long)i, (double)y[i]);
        }
    }
    if (tensor == 1) {
        return;
    }
    vc_rows_of(t->shape, t->n_dims, &n_rows, &row_len);
    assert_int_equal(r->sink.filled[2 * tensor + 1], vc_tile_count(n_rows, row_len));
    for (i = 0; i < vc_tile_count(n_rows, row_len); i++) {
        assert_int_equal(r->sink.data[2 * tensor + 1][i], 'A' + (int)(i % 26));
    }
}

static void everything_arrives(void **state)
{
    unsigned threads;
    unsigned mask;
    int ordered;
    size_t i;

    (void)state;
    for (threads = 1; threads <= 5; threads++) {
        for (mask = 0; mask < 32; mask += (threads > 1 ? 3u : 1u) * TEST_STRIDE) {
            for (ordered = 0; ordered < 2; ordered++) {
                struct vc_ctx *ctx;
                struct run r;

                assert_int_equal(vc_ctx_create(&ctx), VC_OK);
                assert_int_equal(vc_ctx_set_threads(ctx, threads), VC_OK);
                run_init(ctx, &r, mask, ordered != 0);
                assert_int_equal(vc_exec_run(ctx, &r.exec), VC_OK);
                for (i = 0; i < N_TENSORS; i++) {
                    check_tensor(&r, i);
                }
                assert_true(r.results[0].total.measured);
                assert_true(r.results[0].total.sum_x2 == 700.0); /* one chunk per row of 1000 */
                assert_true(r.results[0].total.sum_e2 == 175.0);
                assert_true(r.results[2].total.sum_x2 == 2.0 * (600000 / 4096 + 1));
                assert_false(r.results[1].total.measured);
                run_release(ctx, &r);
                vc_ctx_free(ctx);
            }
        }
    }
}

static void earliest_failure_is_reported(void **state)
{
    unsigned threads;
    int repeat;

    (void)state;
    fail_tile_of_c = 1;
    for (threads = 1; threads <= 6; threads++) {
        for (repeat = 0; repeat < 20 / TEST_STRIDE; repeat++) {
            struct vc_ctx *ctx;
            struct run r;

            assert_int_equal(vc_ctx_create(&ctx), VC_OK);
            assert_int_equal(vc_ctx_set_threads(ctx, threads), VC_OK);
            run_init(ctx, &r, repeat % 4 == 3 ? 0x1fu : 0, repeat % 2 != 0);
            assert_int_equal(vc_exec_run(ctx, &r.exec), VC_E_FORMAT);
            assert_string_equal(vc_ctx_message(ctx), "c: tile 1 refused");
            run_release(ctx, &r);
            vc_ctx_free(ctx);
        }
    }
    fail_tile_of_c = UINT64_MAX;
}

/* Tiles 1 and 2 of "a" wait in pack and give up when a tile of "c" fails, "b" waits to be emitted behind them. */
static void giving_up_in_pack_ends_later_waits(void **state)
{
    struct vc_ctx *ctx;
    struct run r;

    (void)state;
    fail_tile_of_c = 0;
    assert_int_equal(vc_ctx_create(&ctx), VC_OK);
    assert_int_equal(vc_ctx_set_threads(ctx, 6), VC_OK);
    run_init(ctx, &r, 0, true);
    r.items[2].chain->steps[0]->scan = false; /* or its tiles would wait for tiles that nobody takes */
    r.sink.pack_waits = true;
    assert_int_equal(vc_exec_run(ctx, &r.exec), VC_E_FORMAT);
    assert_string_equal(vc_ctx_message(ctx), "c: tile 0 refused");
    run_release(ctx, &r);
    vc_ctx_free(ctx);
    fail_tile_of_c = UINT64_MAX;
}

static void cancelling_ends_the_run(void **state)
{
    struct vc_ctx *ctx;
    struct run r;

    (void)state;
    assert_int_equal(vc_ctx_create(&ctx), VC_OK);
    run_init(ctx, &r, 0, false);
    vc_ctx_cancel(ctx);
    assert_int_equal(vc_exec_run(ctx, &r.exec), VC_E_CANCELLED);
    run_release(ctx, &r);
    vc_ctx_free(ctx);
}

struct told {
    unsigned n;
    bool ended; /* by the last report */
    uint64_t done, total;
};

static void hear(void *user, const struct vc_progress *progress)
{
    struct told *told = user;

    (void)expect(strcmp(progress->what, "test") == 0 && progress->done <= progress->total);
    (void)expect(told->n == 0 || (progress->done >= told->done && progress->total == told->total));
    (void)expect(*progress->tensor != '\0' || progress->done == progress->total);
    told->n++;
    told->ended = *progress->tensor == '\0';
    told->done = progress->done;
    told->total = progress->total;
}

/* Progress grows to all of the work, which is told last; of a run that fails the end is not told. */
static void progress_ends_with_all(void **state)
{
    (void)state;
    for (int fails = 0; fails < 2; fails++) {
        struct told told = {.n = 0};
        struct vc_ctx *ctx;
        struct run r;

        fail_tile_of_c = fails != 0 ? 1 : UINT64_MAX;
        slow_reads = true;
        assert_int_equal(vc_ctx_create(&ctx), VC_OK);
        assert_int_equal(vc_ctx_set_threads(ctx, 1), VC_OK);
        vc_ctx_set_progress(ctx, hear, &told);
        run_init(ctx, &r, 0, false);
        assert_int_equal(vc_exec_run(ctx, &r.exec), fails != 0 ? VC_E_FORMAT : VC_OK);
        assert_true(told.n > 1);
        assert_true(told.ended == (fails == 0));
        run_release(ctx, &r);
        vc_ctx_free(ctx);
    }
    fail_tile_of_c = UINT64_MAX;
    slow_reads = false;
}

static void memory_limit_sets_workers(void **state)
{
    struct vc_ctx *ctx;
    struct run r;
    unsigned n = 0;

    (void)state;
    assert_int_equal(vc_ctx_create(&ctx), VC_OK);
    assert_int_equal(vc_ctx_set_threads(ctx, 8), VC_OK);
    run_init(ctx, &r, 0, false);
    assert_int_equal(vc_ctx_set_max_memory(ctx, 1000), VC_OK);
    assert_int_equal(vc_exec_workers(ctx, &r.exec, &n), VC_E_NOMEM);
    assert_int_equal(vc_exec_run(ctx, &r.exec), VC_E_NOMEM);
    assert_int_equal(vc_ctx_set_max_memory(ctx, (uint64_t)8 << 20), VC_OK);
    assert_int_equal(vc_exec_workers(ctx, &r.exec, &n), VC_OK);
    assert_in_range(n, 1, 3);
    assert_int_equal(vc_exec_run(ctx, &r.exec), VC_OK);
    assert_true(vc_pool_peak(ctx->shared->pool) <= (uint64_t)8 << 20);
    run_release(ctx, &r);
    vc_ctx_free(ctx);
}

static enum vc_status nothing(struct vc_ctx *ctx, void *user, size_t index, struct vc_buffers *buffers)
{
    (void)ctx;
    (void)index;
    (void)buffers;
    ++*(atomic_uint *)user;
    return VC_OK;
}

/* What is in use already counts, for runs and for work that is one piece per tensor. */
static void memory_in_use_counts(void **state)
{
    const struct vc_buffer_sizes sizes = {.in = 1000};
    atomic_uint n_done = 0;
    struct vc_ctx *ctx;
    unsigned n = 0;
    struct run r;
    void *other;

    (void)state;
    assert_int_equal(vc_ctx_create(&ctx), VC_OK);
    assert_int_equal(vc_ctx_set_threads(ctx, 4), VC_OK);
    assert_int_equal(vc_ctx_set_max_memory(ctx, (uint64_t)8 << 20), VC_OK);
    run_init(ctx, &r, 0, false);
    assert_int_equal(vc_exec_each(ctx, 3, NULL, &sizes, 2, nothing, &n_done), VC_OK);
    assert_int_equal(n_done, 3);
    other = vc_alloc(ctx, VC_TAG_MISC, ((size_t)8 << 20) - 100000);
    assert_non_null(other);
    assert_int_equal(vc_exec_each(ctx, 3, NULL, &sizes, 2, nothing, &n_done), VC_E_NOMEM);
    assert_non_null(strstr(vc_ctx_message(ctx), "this needs at least"));
    assert_int_equal(vc_exec_workers(ctx, &r.exec, &n), VC_E_NOMEM);
    vc_free(ctx, other);
    assert_int_equal(vc_exec_workers(ctx, &r.exec, &n), VC_OK);
    run_release(ctx, &r);
    vc_ctx_free(ctx);
}

static void every_allocation_may_fail(void **state)
{
    uint64_t n;

    (void)state;
    for (n = 1; n < 1000; n += TEST_STRIDE) {
        struct vc_ctx *ctx;
        struct run r;
        enum vc_status status;

        assert_int_equal(vc_ctx_create(&ctx), VC_OK);
        assert_int_equal(vc_ctx_set_threads(ctx, 1), VC_OK);
        run_init(ctx, &r, 4, n % 2 != 0);
        vc_pool_fail_at(ctx->shared->pool, n, 0);
        status = vc_exec_run(ctx, &r.exec);
        vc_pool_fail_at(ctx->shared->pool, 0, 0);
        run_release(ctx, &r);
        vc_ctx_free(ctx);
        if (status == VC_OK) {
            assert_true(n > 5);
            return;
        }
        assert_int_equal(status, VC_E_NOMEM);
    }
    fail_msg("it never succeeded");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(everything_arrives),
        cmocka_unit_test(earliest_failure_is_reported),
        cmocka_unit_test(giving_up_in_pack_ends_later_waits),
        cmocka_unit_test(cancelling_ends_the_run),
        cmocka_unit_test(progress_ends_with_all),
        cmocka_unit_test(memory_limit_sets_workers),
        cmocka_unit_test(memory_in_use_counts),
        cmocka_unit_test(every_allocation_may_fail),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
