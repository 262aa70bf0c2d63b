/* test_memory_devices.c - what one device of several holds: copies that divide states, products that are divided,
 * stages of a pipeline; adapters of low rank; a teacher beside its student. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "nets.h"

#define MATRIX(in, out) "input x [batch, " #in "]\nlinear a " #out " bias=no\n"

/* ---- copies ---- */

static uint64_t states_of(const struct vc_memory_report *r)
{
    return bytes_of(r, VC_MEMORY_PARAMETERS) + bytes_of(r, VC_MEMORY_GRADIENTS) + bytes_of(r, VC_MEMORY_OPTIMIZER) +
           bytes_of(r, VC_MEMORY_MASTER);
}

/* Weights and gradients of half precision, twelve bytes of states and masters; 10^9 bytes as arXiv 1910.02054 has them.
 */
static void test_zero(void **unused)
{
    static const struct {
        const char *net;
        unsigned copies, stage;
        double giga;
    } rows[] = {
        {MATRIX(75000, 100000), 64, 0, 120},    {MATRIX(75000, 100000), 64, 1, 31.4},
        {MATRIX(75000, 100000), 64, 2, 16.6},   {MATRIX(75000, 100000), 64, 3, 1.88},
        {MATRIX(400000, 320000), 64, 1, 536},   {MATRIX(1000000, 1000000), 64, 3, 250},
        {MATRIX(1000000, 1000000), 4, 2, 5500},
    };
    struct vc_ctx *ctx = test_ctx();

    (void)unused;
    for (size_t k = 0; k < sizeof rows / sizeof rows[0]; k++) {
        struct vc_graph *graph = read_net(ctx, rows[k].net);
        struct vc_memory_options options = training(VC_OPTIMIZER_ADAMW);
        struct vc_memory_report r;

        bind(ctx, graph, 1, 0);
        options.amp = VC_AMP_PURE;
        options.dp = rows[k].copies;
        options.zero = rows[k].stage;
        r = count(ctx, graph, &options);
        assert_true(fabs((double)states_of(&r) / 1e9 / rows[k].giga - 1) < 0.01);
        assert_true(bytes_of(&r, VC_MEMORY_COMMUNICATION) != 0);
        options.zero = 0;
        options.dp = 1;
        r = count(ctx, graph, &options);
        assert_int_equal(bytes_of(&r, VC_MEMORY_COMMUNICATION), 0);
        assert_int_equal(r.components[VC_MEMORY_COMMUNICATION].known, VC_KNOWN_EXACT);
        vc_graph_close(graph);
    }
    test_ctx_done(ctx);
}

#define T5_TEXT                                                                                                      \
    "{\"architectures\": [\"T5ForConditionalGeneration\"], \"model_type\": \"t5\", \"d_model\": 1024, \"d_kv\": %d," \
    " \"num_heads\": %d, \"d_ff\": %d, \"num_layers\": 24, \"vocab_size\": 32128, \"is_encoder_decoder\": true, "    \
    "\"feed_forward_proj\": \"relu\", \"tie_word_embeddings\": true}"

/* What DeepSpeed's own estimators print: f16 weights, f32 masters and gradients, the largest module twice. */
static void test_deepspeed(void **unused)
{
    struct vc_ctx *ctx = test_ctx();
    struct vc_memory_options options = training(VC_OPTIMIZER_ADAMW);
    struct vc_memory_report r;
    struct vc_graph *graph;
    char text[512];

    (void)unused;
    snprintf(text, sizeof text, T5_TEXT, 128, 32, 16384);
    graph = read_config(ctx, text);
    options.amp = VC_AMP_PURE;
    options.dp = 8;
    options.zero = 2;
    options.bucket_elems = 0;
    options.offload = VC_OFFLOAD_OPTIMIZER;
    r = count(ctx, graph, &options);
    assert_int_equal(r.n_params, 2851598336);
    assert_true(fabs((double)states_of(&r) / GIB - 5.31) < 0.01);
    assert_int_equal(bytes_of(&r, VC_MEMORY_COMMUNICATION), 0);
    assert_int_equal(r.host_bytes, (2 * r.n_params + 12 * r.n_params) / 8);
    options.zero = 3;
    r = count(ctx, graph, &options);
    assert_int_equal(bytes_of(&r, VC_MEMORY_COMMUNICATION), 4 * 32899072ULL);
    assert_true(fabs((double)(states_of(&r) + bytes_of(&r, VC_MEMORY_COMMUNICATION)) / GIB - 0.79) < 0.01);
    vc_graph_close(graph);
    snprintf(text, sizeof text, T5_TEXT, 64, 16, 4096);
    graph = read_config(ctx, text);
    options.offload = VC_OFFLOAD_NONE;
    options.gradients = VC_DTYPE_F32;
    options.dp = 4;
    r = count(ctx, graph, &options);
    assert_int_equal(r.n_params, 737668096);
    assert_int_equal((states_of(&r) + bytes_of(&r, VC_MEMORY_COMMUNICATION)) >> 20, 3291);
    options.offload = VC_OFFLOAD_ALL;
    r = count(ctx, graph, &options);
    assert_int_equal(states_of(&r), 0);
    vc_graph_close(graph);
    test_ctx_done(ctx);
}

/* Buckets: two for gradients and two for weights, of their number of elements; all gradients without ZeRO. */
static void test_buckets(void **unused)
{
    struct vc_ctx *ctx = test_ctx();
    struct vc_graph *graph = read_net(ctx, MATRIX(1000, 1000));
    struct vc_memory_options options = training(VC_OPTIMIZER_SGD);
    struct vc_memory_report plain;
    struct vc_memory_report r;

    (void)unused;
    bind(ctx, graph, 1, 0);
    plain = count(ctx, graph, &options);
    options.dp = 2;
    r = count(ctx, graph, &options);
    assert_int_equal(bytes_of(&r, VC_MEMORY_COMMUNICATION), 4000000);
    assert_int_equal(r.moments[VC_MOMENT_PEAK].bytes, plain.moments[VC_MOMENT_PEAK].bytes + 4000000);
    options.zero = 1;
    options.bucket_elems = 1000;
    r = count(ctx, graph, &options);
    assert_int_equal(bytes_of(&r, VC_MEMORY_COMMUNICATION), 4 * 4 * 1000);
    options.zero = 4;
    assert_int_equal(vc_memory_estimate(ctx, graph, NULL, &options, &r), VC_E_ARGUMENT);
    vc_graph_close(graph);
    test_ctx_done(ctx);
}

/* ---- products that are divided ---- */

/* Four devices, eight heads, two of keys: what each has of the weights. */
static void test_tensor_parallel(void **unused)
{
    const uint64_t h = 64;
    const uint64_t f = 96;
    const uint64_t v = 102;
    const uint64_t norms = h * 5;
    struct vc_ctx *ctx = test_ctx();
    struct vc_memory_options options = training(VC_OPTIMIZER_SGD);
    struct vc_memory_report whole;
    struct vc_memory_report r;
    struct vc_graph *graph;
    uint64_t layer;
    char text[512];

    (void)unused;
    snprintf(text, sizeof text, LLAMA_TEXT, 64, 96, 2, 8, 2, 102);
    graph = read_config(ctx, text);
    bind(ctx, graph, 1, 16);
    whole = count(ctx, graph, &options);
    options.tp = 4;
    r = count(ctx, graph, &options);
    layer = h * h / 4 + 2 * (h * 16 / 2) + h * h / 4 + 3 * h * f / 4;
    assert_int_equal(bytes_of(&r, VC_MEMORY_PARAMETERS), 4 * (2 * layer + norms + 2 * ((v * h + 3) / 4)));
    assert_int_equal(r.n_params, whole.n_params);
    assert_int_equal(bytes_of(&r, VC_MEMORY_GRADIENTS), bytes_of(&r, VC_MEMORY_PARAMETERS));
    assert_true(bytes_of(&r, VC_MEMORY_ACTIVATIONS) < bytes_of(&whole, VC_MEMORY_ACTIVATIONS));
    assert_true(4 * bytes_of(&r, VC_MEMORY_ACTIVATIONS) > bytes_of(&whole, VC_MEMORY_ACTIVATIONS));
    /* three devices cannot have eight heads in equal parts: as on two, one has four of them */
    options.tp = 3;
    r = count(ctx, graph, &options);
    layer = h * h / 2 + 2 * (h * 16 / 2) + h * h / 2 + 3 * ((h * f + 2) / 3);
    assert_int_equal(bytes_of(&r, VC_MEMORY_PARAMETERS), 4 * (2 * layer + norms + 2 * ((v * h + 2) / 3)));
    vc_memory_defaults(&options);
    options.tp = 4;
    options.context_tokens = 100;
    options.cache = VC_DTYPE_F16;
    r = count(ctx, graph, &options);
    assert_int_equal(bytes_of(&r, VC_MEMORY_KV_CACHE), 2 * 2 * 8 * 100 * 2);
    options.tp = 1;
    r = count(ctx, graph, &options);
    assert_int_equal(bytes_of(&r, VC_MEMORY_KV_CACHE), 2 * 2 * 16 * 100 * 2);
    vc_graph_close(graph);
    test_ctx_done(ctx);
}

/* What a layer of GPT-3's form keeps in half precision, arXiv 2205.05198, Table 2; and the f32 statistics of both
 * normalizations, 16 bytes of a position, which the table leaves out. */
static void test_activations_of_devices(void **unused)
{
    static const struct {
        int h, a;
        uint64_t b;
        unsigned tp;
        bool sequence, selective;
        uint64_t bytes;
    } rows[] = {
        {12288, 96, 1, 1, false, false, 2868903936}, {12288, 96, 1, 8, true, false, 358612992},
        {12288, 96, 1, 8, true, true, 106954752},    {6144, 64, 4, 1, false, false, 7079985152},
        {20480, 128, 1, 8, true, false, 513802240},  {25600, 160, 1, 1, false, false, 5138022400},
    };
    const uint64_t s = 2048;
    struct vc_ctx *ctx = test_ctx();

    (void)unused;
    for (size_t k = 0; k < sizeof rows / sizeof rows[0]; k++) {
        struct vc_memory_options options = training(VC_OPTIMIZER_SGD);
        uint64_t kept[2];

        options.amp = VC_AMP_PURE;
        options.attention = VC_ATTENTION_SOFTMAX;
        options.dropout = VC_DROPOUT_ALWAYS;
        options.tp = rows[k].tp;
        options.sequence_parallel = rows[k].sequence;
        options.recompute = rows[k].selective ? VC_RECOMPUTE_SELECTIVE : VC_RECOMPUTE_NONE;
        for (int layers = 1; layers <= 2; layers++) {
            struct vc_graph *graph;
            struct vc_memory_report r;
            char text[512];

            snprintf(text, sizeof text, GPT_TEXT, rows[k].h, layers, rows[k].a, 2048, 50257);
            graph = read_config(ctx, text);
            bind(ctx, graph, (int64_t)rows[k].b, (int64_t)s);
            r = count(ctx, graph, &options);
            kept[layers - 1] = bytes_of(&r, VC_MEMORY_ACTIVATIONS);
            vc_graph_close(graph);
        }
        assert_int_equal(kept[1] - kept[0], rows[k].bytes + 16 * s * rows[k].b / (rows[k].sequence ? rows[k].tp : 1));
    }
    test_ctx_done(ctx);
}

/* ---- stages ---- */

static void test_in_flight(void **unused)
{
    static const struct {
        enum vc_pipeline schedule;
        unsigned parts, chunks;
        double in_flight[4];
    } rows[] = {
        {VC_PIPELINE_1F1B, 8, 0, {4, 3, 2, 1}},
        {VC_PIPELINE_1F1B, 2, 0, {2, 2, 2, 1}},
        {VC_PIPELINE_GPIPE, 8, 0, {8, 8, 8, 8}},
        {VC_PIPELINE_INTERLEAVED, 8, 2, {5.5, 4.5, 3.5, 2.5}}, /* p + (p - 1) / v */
    };
    struct vc_ctx *ctx = test_ctx();
    char text[512];
    struct vc_graph *graph;

    (void)unused;
    snprintf(text, sizeof text, LLAMA_TEXT, 64, 96, 8, 8, 8, 128);
    graph = read_config(ctx, text);
    bind(ctx, graph, 2, 64);
    for (size_t k = 0; k < sizeof rows / sizeof rows[0]; k++) {
        struct vc_memory_options options = training(VC_OPTIMIZER_ADAM);
        struct vc_memory_report one;
        struct vc_memory_report r;

        options.pp = 4;
        options.schedule = rows[k].schedule;
        options.chunks = rows[k].chunks;
        options.micro_batches = rows[k].parts;
        r = count(ctx, graph, &options);
        assert_int_equal(r.n_stages, 4);
        for (unsigned stage = 0; stage < 4; stage++) {
            assert_true(fabs(r.stages[stage].in_flight - rows[k].in_flight[stage]) < 1e-9);
            assert_true(r.stages[stage].peak_bytes <= r.stages[r.stage - 1].peak_bytes);
        }
        options.stage = 2;
        one = count(ctx, graph, &options);
        assert_int_equal(one.stage, 2);
        assert_int_equal(one.moments[VC_MOMENT_PEAK].bytes, r.stages[1].peak_bytes);
        options.stage = 5;
        assert_int_equal(vc_memory_estimate(ctx, graph, NULL, &options, &r), VC_E_ARGUMENT);
    }
    vc_graph_close(graph);
    test_ctx_done(ctx);
}

/* Each weight is on one stage; tied ones on the first and on the last. Activations of a middle stage are those of its
 * layers, as often as parts of the batch are in flight. */
static void test_pipeline(void **unused)
{
    struct vc_ctx *ctx = test_ctx();
    struct vc_memory_options options = training(VC_OPTIMIZER_SGD);
    struct vc_memory_report whole;
    struct vc_memory_report r;
    uint64_t sum = 0;
    uint64_t kept[2];
    char text[512];
    struct vc_graph *graph;

    (void)unused;
    for (int tied = 0; tied < 2; tied++) {
        const uint64_t table = 50 * 32 * 4;

        if (tied) {
            snprintf(text, sizeof text, GPT_TEXT, 32, 8, 4, 64, 50);
        } else {
            snprintf(text, sizeof text, LLAMA_TEXT, 32, 64, 8, 4, 4, 50);
        }
        graph = read_config(ctx, text);
        bind(ctx, graph, 2, 64);
        options.pp = 1;
        whole = count(ctx, graph, &options);
        options.pp = 4;
        options.micro_batches = 2;
        sum = 0;
        for (options.stage = 1; options.stage <= 4; options.stage++) {
            r = count(ctx, graph, &options);
            sum += bytes_of(&r, VC_MEMORY_PARAMETERS);
            assert_true(options.stage != 1 || bytes_of(&r, VC_MEMORY_INPUTS) != 0);
            assert_int_equal(bytes_of(&r, VC_MEMORY_COMMUNICATION), options.stage == 1 ? 0 : 2 * 2 * 64 * 32 * 4);
            kept[options.stage == 3] = options.stage < 4 ? bytes_of(&r, VC_MEMORY_ACTIVATIONS) : kept[1];
        }
        assert_int_equal(sum, bytes_of(&whole, VC_MEMORY_PARAMETERS) + (tied ? table : 0));
        assert_int_equal(kept[0], kept[1]);
        options.stage = 0;
        vc_graph_close(graph);
    }
    options.pp = 65;
    graph = read_net(ctx, MATRIX(4, 4));
    assert_int_equal(vc_memory_estimate(ctx, graph, NULL, &options, &r), VC_E_ARGUMENT);
    vc_graph_close(graph);
    test_ctx_done(ctx);
}

/* ---- adapters ---- */

static void test_lora(void **unused)
{
    const uint64_t r = 4;
    const uint64_t h = 64;
    const uint64_t kv = 32;
    const uint64_t f = 96;
    const struct {
        enum vc_lora_targets targets;
        uint64_t n; /* of a layer */
    } rows[] = {
        {VC_LORA_QV, r * (h + h) + r * (h + kv)},
        {VC_LORA_ATTENTION, 2 * r * (h + h) + 2 * r * (h + kv)},
        {VC_LORA_ALL, 2 * r * (h + h) + 2 * r * (h + kv) + 3 * r * (h + f)},
    };
    struct vc_ctx *ctx = test_ctx();
    struct vc_memory_report whole;
    struct vc_memory_report report;
    struct vc_memory_options options = training(VC_OPTIMIZER_ADAMW);
    char text[512];
    struct vc_graph *graph;

    (void)unused;
    snprintf(text, sizeof text, LLAMA_TEXT, 64, 96, 3, 4, 2, 100);
    graph = read_config(ctx, text);
    bind(ctx, graph, 1, 16);
    whole = count(ctx, graph, &options);
    for (size_t k = 0; k < 3; k++) {
        options.lora_rank = (unsigned)r;
        options.targets = rows[k].targets;
        report = count(ctx, graph, &options);
        assert_int_equal(report.n_trained, 3 * rows[k].n);
        assert_int_equal(report.n_params, whole.n_params + 3 * rows[k].n);
        assert_int_equal(bytes_of(&report, VC_MEMORY_PARAMETERS), 4 * report.n_params);
        assert_int_equal(bytes_of(&report, VC_MEMORY_GRADIENTS), 4 * report.n_trained);
        assert_int_equal(bytes_of(&report, VC_MEMORY_OPTIMIZER), 8 * report.n_trained);
        assert_true(bytes_of(&report, VC_MEMORY_ACTIVATIONS) < bytes_of(&whole, VC_MEMORY_ACTIVATIONS));
    }
    options.weights = VC_DTYPE_BF16; /* adapters stay f32 */
    report = count(ctx, graph, &options);
    assert_int_equal(bytes_of(&report, VC_MEMORY_PARAMETERS), 2 * whole.n_params + 4 * report.n_trained);
    options.weights = VC_DTYPE_NONE;
    options.scheme = "nf4"; /* and codes may be under them */
    report = count(ctx, graph, &options);
    assert_true(bytes_of(&report, VC_MEMORY_PARAMETERS) < 2 * whole.n_params);
    options.lora_rank = 0;
    assert_int_equal(vc_memory_estimate(ctx, graph, NULL, &options, &report), VC_E_ARGUMENT);
    vc_graph_close(graph);
    graph = read_net(ctx, SIMPLE);
    bind(ctx, graph, 1, 0);
    options = training(VC_OPTIMIZER_ADAM);
    options.lora_rank = 2;
    assert_int_equal(vc_memory_estimate(ctx, graph, NULL, &options, &report), VC_E_ARGUMENT);
    expect_says(ctx, "no products that get adapters");
    vc_graph_close(graph);
    test_ctx_done(ctx);
}

/* ---- a teacher ---- */

static void test_teacher(void **unused)
{
    struct vc_ctx *ctx = test_ctx();
    struct vc_graph *student = read_net(ctx, SIMPLE);
    struct vc_graph *teacher =
        read_net(ctx, "input x [batch, 3, 32, 32]\nconv c 256 kernel=3\nrelu\nflatten\nlinear d 10\n");
    struct vc_memory_options options = training(VC_OPTIMIZER_ADAM);
    struct vc_memory_options alone;
    struct vc_memory_report plain;
    struct vc_memory_report of_teacher;
    struct vc_memory_report r;
    const uint64_t logits = 64 * 10 * 4;

    (void)unused;
    bind(ctx, student, 64, 0);
    bind(ctx, teacher, 64, 0);
    plain = count(ctx, student, &options);
    vc_memory_defaults(&alone);
    of_teacher = count(ctx, teacher, &alone);
    options.mode = VC_MEMORY_DISTILL;
    r = count(ctx, student, &options); /* its outputs come from a file */
    assert_int_equal(bytes_of(&r, VC_MEMORY_TEACHER), logits);
    assert_int_equal(r.moments[VC_MOMENT_PEAK].bytes, plain.moments[VC_MOMENT_PEAK].bytes + logits);
    options.teacher = teacher;
    r = count(ctx, student, &options);
    assert_int_equal(bytes_of(&r, VC_MEMORY_TEACHER), bytes_of(&of_teacher, VC_MEMORY_PARAMETERS) +
                                                          bytes_of(&of_teacher, VC_MEMORY_ACTIVATIONS) + logits);
    assert_int_equal(r.moments[VC_MOMENT_STEP].bytes,
                     plain.moments[VC_MOMENT_STEP].bytes + bytes_of(&of_teacher, VC_MEMORY_PARAMETERS));
    /* this teacher's forward pass takes more than the student's backward pass beside its activations */
    assert_true(bytes_of(&of_teacher, VC_MEMORY_ACTIVATIONS) > bytes_of(&plain, VC_MEMORY_TRANSIENT));
    assert_int_equal(r.moments[VC_MOMENT_PEAK].bytes,
                     plain.moments[VC_MOMENT_FORWARD].bytes + bytes_of(&r, VC_MEMORY_TEACHER));
    /* one that takes less adds its weights and outputs only */
    vc_graph_close(teacher);
    teacher = read_net(ctx, "input x [batch, 3, 32, 32]\nflatten\nlinear d 10\n");
    bind(ctx, teacher, 64, 0);
    options.teacher = teacher;
    options.teacher_weights = VC_DTYPE_F16;
    r = count(ctx, student, &options);
    assert_int_equal(r.moments[VC_MOMENT_PEAK].bytes,
                     plain.moments[VC_MOMENT_PEAK].bytes + 2 * (3072 * 10 + 10) + logits);
    vc_graph_close(student);
    vc_graph_close(teacher);
    test_ctx_done(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_zero),      cmocka_unit_test(test_deepspeed),
        cmocka_unit_test(test_buckets),   cmocka_unit_test(test_tensor_parallel),
        cmocka_unit_test(test_in_flight), cmocka_unit_test(test_activations_of_devices),
        cmocka_unit_test(test_pipeline),  cmocka_unit_test(test_lora),
        cmocka_unit_test(test_teacher),
    };

    return cmocka_run_group_tests(tests, scratch_make, scratch_clear);
}
