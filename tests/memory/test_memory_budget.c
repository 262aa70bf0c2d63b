/* test_memory_budget.c - recomputation within a budget: against all plans of a short chain, and against the usual ways
 * of long models; and what PyTorch's allocator takes for a run. */
#include <stdlib.h>
#include <string.h>

#include "memory/timeline/timeline.h"
#include "nets.h"

/* ---- all plans of a chain ---- */

#define LAYERS 7

struct plan {
    uint64_t peak, cost;
};

/* What a plan takes: parts by node. */
static struct plan measure(struct vc_ctx *ctx, struct vc_storages *s, const uint32_t *parts)
{
    struct vc_timeline timeline;
    struct vc_buffer_plan packing;
    struct plan plan;

    s->parts = parts;
    assert_int_equal(vc_timeline_make(ctx, s, &timeline), VC_OK);
    assert_int_equal(vc_buffers_pack(ctx, timeline.buffers, timeline.n, 1, &packing), VC_OK);
    plan = (struct plan){packing.live_bytes, timeline.recomputed};
    vc_timeline_release(ctx, &timeline);
    s->parts = NULL;
    return plan;
}

/* Each layer is kept, begins a part, or belongs to the part before it: 3^7 plans. */
static size_t all_plans(struct vc_ctx *ctx, const struct vc_graph *graph, const struct vc_memory_options *options,
                        struct plan *plans)
{
    struct vc_storages s;
    uint32_t parts[128];
    size_t n = 0;
    size_t most = 1;

    assert_int_equal(vc_storages_make(ctx, graph, options, 0, &s), VC_OK);
    assert_true(s.n_nodes < 128);
    for (int k = 0; k < LAYERS; k++) {
        most *= 3;
    }
    for (size_t code = 0; code < most; code++) {
        size_t rest = code;
        uint32_t part = 0;
        bool open = false;
        uint32_t node = 0;
        bool same = true; /* as another plan: nothing to go on with */

        for (uint32_t layer = 0; layer < LAYERS; layer++, rest /= 3) {
            uint32_t choice = (uint32_t)(rest % 3);

            same = same && (choice != 2 || open);
            part += choice == 1 || (choice == 2 && !open);
            open = choice != 0;
            for (uint32_t k = 0; node < s.n_nodes && (k < 3 || layer + 1 == LAYERS); k++) {
                parts[node++] = choice == 0 ? 0 : part;
            }
        }
        if (same) {
            plans[n++] = measure(ctx, &s, parts);
        }
    }
    vc_storages_release(&s);
    return n;
}

static void test_all_plans(void **unused)
{
    static const int widths[][LAYERS] = {
        {64, 64, 64, 64, 64, 64, 64}, {16, 256, 32, 512, 64, 16, 128}, {512, 256, 128, 64, 32, 16, 8}};
    struct vc_ctx *ctx = test_ctx();
    struct plan *plans = malloc(2187 * sizeof *plans);

    (void)unused;
    assert_non_null(plans);
    for (size_t w = 0; w < sizeof widths / sizeof widths[0]; w++) {
        struct vc_memory_options options = training(VC_OPTIMIZER_SGD);
        char text[1024] = "input x [batch, 64]\n";
        struct vc_memory_report plain;
        struct vc_graph *graph;
        uint64_t standing;
        uint64_t least = UINT64_MAX;
        size_t n;

        for (int k = 0; k < LAYERS; k++) {
            snprintf(text + strlen(text), sizeof text - strlen(text), "linear l%d %d\ntanh\n", k, widths[w][k]);
        }
        graph = read_net(ctx, text);
        bind(ctx, graph, 500, 0);
        plain = count(ctx, graph, &options);
        options.recompute = VC_RECOMPUTE_AUTO;
        n = all_plans(ctx, graph, &options, plans);
        assert_true(n > 100);
        standing = plain.moments[VC_MOMENT_STEP].bytes;
        for (size_t k = 0; k < n; k++) {
            least = plans[k].peak < least ? plans[k].peak : least;
        }
        for (int share = 0; share <= 10; share++) { /* from the least to all */
            uint64_t whole = plain.moments[VC_MOMENT_PEAK].bytes - standing;
            uint64_t budget = least + (whole - least) * (uint64_t)share / 10;
            uint64_t best = UINT64_MAX;
            struct vc_memory_report r;

            for (size_t k = 0; k < n; k++) {
                best = plans[k].peak <= budget && plans[k].cost < best ? plans[k].cost : best;
            }
            options.budget_bytes = standing + budget;
            r = count(ctx, graph, &options);
            if (r.moments[VC_MOMENT_PEAK].bytes > options.budget_bytes || r.recomputed > best) {
                fail_msg("widths %zu, %d tenths: peak %llu of %llu, cost %llu of %llu", w, share,
                         (unsigned long long)(r.moments[VC_MOMENT_PEAK].bytes - standing), (unsigned long long)budget,
                         (unsigned long long)r.recomputed, (unsigned long long)best);
            }
            assert_true(share < 10 || r.recomputed == 0);
        }
        options.budget_bytes = 1; /* cannot be: the least is taken */
        assert_true(count(ctx, graph, &options).moments[VC_MOMENT_PEAK].bytes - standing <= least);
        vc_graph_close(graph);
    }
    free(plans);
    test_ctx_done(ctx);
}

/* ---- long models ---- */

/* With the peak of another way as its budget it does no more than that way does. */
static void test_other_ways(void **unused)
{
    static const enum vc_recompute ways[] = {VC_RECOMPUTE_SQRT, VC_RECOMPUTE_EVERY, VC_RECOMPUTE_LAYER};
    struct vc_ctx *ctx = test_ctx();
    char text[512];

    (void)unused;
    for (int model = 0; model < 2; model++) {
        struct vc_graph *graph;

        if (model == 0) {
            snprintf(text, sizeof text, LLAMA_TEXT, 256, 512, 24, 8, 4, 1000);
        } else {
            snprintf(text, sizeof text, BERT_TEXT, 128, 512, 12, 4, 1000);
        }
        graph = read_config(ctx, text);
        bind(ctx, graph, 2, 128);
        for (size_t k = 0; k < sizeof ways / sizeof ways[0]; k++) {
            struct vc_memory_options options = training(VC_OPTIMIZER_ADAM);
            struct vc_memory_report other;
            struct vc_memory_report r;

            options.attention = VC_ATTENTION_EAGER;
            options.recompute = ways[k];
            options.recompute_every = ways[k] == VC_RECOMPUTE_EVERY ? 7 : 0;
            other = count(ctx, graph, &options);
            assert_true(other.recomputed != 0 && other.recomputed <= other.n_forward);
            options.recompute = VC_RECOMPUTE_AUTO;
            options.recompute_every = 0;
            options.budget_bytes = other.moments[VC_MOMENT_PEAK].bytes;
            r = count(ctx, graph, &options);
            if (r.moments[VC_MOMENT_PEAK].bytes > options.budget_bytes || r.recomputed > other.recomputed) {
                fail_msg("model %d, way %zu: %llu of %llu bytes, %llu of %llu multiply-adds", model, k,
                         (unsigned long long)r.moments[VC_MOMENT_PEAK].bytes, (unsigned long long)options.budget_bytes,
                         (unsigned long long)r.recomputed, (unsigned long long)other.recomputed);
            }
        }
        vc_graph_close(graph);
    }
    test_ctx_done(ctx);
}

static void test_refused(void **unused)
{
    struct vc_ctx *ctx = test_ctx();
    struct vc_graph *graph = read_net(ctx, SIMPLE);
    struct vc_memory_options options = training(VC_OPTIMIZER_SGD);
    struct vc_memory_report r;

    (void)unused;
    bind(ctx, graph, 1, 0);
    options.recompute = VC_RECOMPUTE_AUTO;
    assert_int_equal(vc_memory_estimate(ctx, graph, NULL, &options, &r), VC_E_ARGUMENT);
    expect_says(ctx, "needs a budget");
    options.budget_bytes = 1 << 20;
    options.pp = 2;
    assert_int_equal(vc_memory_estimate(ctx, graph, NULL, &options, &r), VC_E_ARGUMENT);
    vc_graph_close(graph);
    test_ctx_done(ctx);
}

/* Every allocation fails once. */
static void test_no_memory(void **unused)
{
    struct vc_ctx *ctx = test_ctx();
    struct vc_graph *graph = read_net(ctx, SIMPLE);
    struct vc_memory_options options = training(VC_OPTIMIZER_ADAM);
    struct vc_memory_report r;
    enum vc_status status = VC_E_NOMEM;
    uint64_t n;

    (void)unused;
    bind(ctx, graph, 4, 0);
    options.recompute = VC_RECOMPUTE_AUTO;
    options.budget_bytes = 22 << 20;
    options.allocator = VC_ALLOCATOR_PYTORCH;
    for (n = 1; status == VC_E_NOMEM; n++) {
        vc_pool_fail_at(ctx->shared->pool, n, 0);
        status = vc_memory_estimate(ctx, graph, NULL, &options, &r);
        vc_pool_fail_at(ctx->shared->pool, 0, 0);
    }
    assert_int_equal(status, VC_OK);
    assert_true(n > 40);
    vc_graph_close(graph);
    test_ctx_done(ctx);
}

/* ---- the allocator ---- */

/* The worked example, counted by hand in segments: parameters 2 + 20 MiB, with the input beside the small ones and the
 * first output, of 14.06 MiB, behind the large one; the next one takes 16 and those of 24.5 MiB 26. */
static void test_reserved(void **unused)
{
    const uint64_t mib = 1 << 20;
    struct vc_ctx *ctx = test_ctx();
    struct vc_graph *graph = read_net(ctx, SIMPLE);
    struct vc_memory_options options;
    struct vc_memory_report r;

    (void)unused;
    bind(ctx, graph, 64, 0);
    vc_memory_defaults(&options);
    r = count(ctx, graph, &options);
    assert_int_equal(r.reserved[VC_MOMENT_PEAK].bytes, 0);
    options.allocator = VC_ALLOCATOR_PYTORCH;
    r = count(ctx, graph, &options);
    assert_int_equal(r.reserved[VC_MOMENT_LOAD].bytes, 22 * mib);
    assert_int_equal(r.reserved[VC_MOMENT_PEAK].bytes, (22 + 16 + 2 * 26) * mib);
    assert_int_equal(bytes_of(&r, VC_MEMORY_SLACK), r.reserved[VC_MOMENT_PEAK].bytes - r.moments[VC_MOMENT_PEAK].bytes);
    bind(ctx, graph, 640, 0);
    r = count(ctx, graph, &options);
    assert_int_equal(bytes_of(&r, VC_MEMORY_SLACK), r.reserved[VC_MOMENT_PEAK].bytes - r.moments[VC_MOMENT_PEAK].bytes);
    assert_true(bytes_of(&r, VC_MEMORY_SLACK) > 64 * mib);
    bind(ctx, graph, 64, 0);
    options = training(VC_OPTIMIZER_ADAM);
    options.allocator = VC_ALLOCATOR_PYTORCH;
    r = count(ctx, graph, &options);
    for (enum vc_moment m = 0; m < VC_MOMENTS; m++) {
        assert_true(r.reserved[m].bytes >= r.moments[m].bytes || m == VC_MOMENT_STEP);
        assert_int_equal(r.reserved[m].bytes % (2 * mib), 0);
        assert_int_equal(r.reserved[m].known, VC_KNOWN_MODELLED);
    }
    assert_int_equal(r.reserved[VC_MOMENT_STEP].bytes, r.reserved[VC_MOMENT_PEAK].bytes); /* nothing is given back */
    vc_graph_close(graph);
    test_ctx_done(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_plans), cmocka_unit_test(test_other_ways), cmocka_unit_test(test_refused),
        cmocka_unit_test(test_no_memory), cmocka_unit_test(test_reserved),
    };

    return cmocka_run_group_tests(tests, scratch_make, scratch_clear);
}
