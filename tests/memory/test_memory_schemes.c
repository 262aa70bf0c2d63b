/* test_memory_schemes.c - bytes of weights under the names of schemes, of keys and values, and what PyTorch's allocator
 * takes; what PyTorch has beside a cache, and autocast beside weights. */
#include <stdlib.h>
#include <string.h>

#include <vcompress/quantize.h>

#include "core/model/mixture_rules.h"
#include "memory/timeline/timeline.h"
#include "nets.h"

/* A linear layer of 4096 x 4096. */
static void test_matrix(void **unused)
{
    static const struct {
        const char *scheme;
        uint64_t bytes;
    } rows[] = {
        {"q4_0", 9437184},
        {"q4_1", 10485760},
        {"q5_0", 11534336},
        {"q8_0", 17825792},
        {"q6_k", 13762560},
        {"q3_k", 7208960},
        {"q4_k", 9437184},
        {"q2_k", 5505024},
        {"int8", 16793600},
        {"int8-tensor", 16777220},
        {"int8-g128", 16777216 + 131072 * 4},
        {"awq-g128", 8716288},
        {"gptq-g128", 8716288 + 4 * 4096},
        {"int4-g128", 8388608 + 131072 * 2},
        {"int4", 8388608 + 131072 * 2}, /* as quantize --int4 */
        {"int3", 6291456 + 131072 * 2},
        {"ternary", 4194304 + 131072 * 2},
        {"q4_k_s", 9437184},
        {"Q3_K_M", 7208960},
        {"nf4", 9437184},
        {"nf4-dq", 8388608 + 262144 + 4 * 1024 + 4},
        {"mxfp4", 8912896},
        {"nvfp4", 9437188},
        {"2:4", 18874368},
        {"fp8", 16777220},
        {"8bit", 16777216},
        {"4bit", 8388608},
        {"f8_e4m3", 16777216},
    };
    const uint64_t shape[] = {4096, 4096};
    struct vc_ctx *ctx = test_ctx();
    struct vc_graph *graph = read_net(ctx, "input x [batch, 4096]\nlinear a 4096\n");

    (void)unused;
    bind(ctx, graph, 1, 0);
    for (size_t k = 0; k < sizeof rows / sizeof rows[0]; k++) {
        struct vc_memory_options options;
        struct vc_memory_report r;
        bool eight = strcmp(rows[k].scheme, "8bit") == 0 || strcmp(rows[k].scheme, "f8_e4m3") == 0;
        uint64_t bias = eight ? 4096 : strcmp(rows[k].scheme, "4bit") == 0 ? 2048 : 8192;
        bool blocks = !eight && strchr(rows[k].scheme, '_') != NULL; /* of GGUF, where vectors are f32 */

        assert_int_equal(vc_weight_scheme_bytes(rows[k].scheme, shape, 2), rows[k].bytes);
        vc_memory_defaults(&options);
        options.scheme = rows[k].scheme;
        r = count(ctx, graph, &options);
        assert_int_equal(bytes_of(&r, VC_MEMORY_PARAMETERS), rows[k].bytes + (blocks ? 2 * bias : bias));
    }
    vc_graph_close(graph);
    test_ctx_done(ctx);
}

/* Every scheme that quantize makes has a name here: its own; halves are types of floats. */
static void test_names_of_quantize(void **unused)
{
    const uint64_t shape[] = {4096, 4096};
    struct vc_quantize_scheme scheme;
    size_t n = 0;

    (void)unused;
    for (size_t k = 0; vc_quantize_scheme_at(k, &scheme); k++) {
        uint64_t bytes = vc_weight_scheme_bytes(scheme.name, shape, 2);

        bool half = strcmp(scheme.name, "fp16") == 0 || strcmp(scheme.name, "bf16") == 0;

        if (!half && (bytes <= 4096 * 4096 / 5 || bytes >= 4096 * 4096 * 5 / 4)) {
            fail_msg("'%s' is no name of a scheme", scheme.name);
        }
        n += scheme.scales;
    }
    assert_true(n >= 13);
    for (size_t k = 0; vc_mixture_at(k) != NULL; k++) {
        assert_true(vc_weight_scheme_bytes(vc_mixture_at(k)->name, shape, 2) < UINT64_MAX);
    }
}

/* Overhead of scales that are 8-bit codes themselves: 0.127 bits for a weight (arXiv 2305.14314). */
static void test_names(void **unused)
{
    static const char *const none[] = {"", "int8-g", "int8-g0", "int8-gx", "int8-g2000000", "q4", "nf5", "int9", "awq"};
    const uint64_t shape[] = {1 << 15, 1 << 15};
    const double n = 1073741824;
    struct vc_ctx *ctx = test_ctx();
    struct vc_memory_options options;
    struct vc_memory_report r;
    const char *name;

    (void)unused;
    assert_true(((double)vc_weight_scheme_bytes("nf4-dq", shape, 2) - n / 2) * 8 / n > 0.126);
    assert_true(((double)vc_weight_scheme_bytes("nf4-dq", shape, 2) - n / 2) * 8 / n < 0.128);
    for (size_t k = 0; k < sizeof none / sizeof none[0]; k++) {
        assert_true(vc_weight_scheme_bytes(none[k], shape, 2) == UINT64_MAX);
    }
    for (size_t k = 0; (name = vc_weight_scheme_name(k)) != NULL; k++) {
        char with[32];
        size_t length = strlen(name);

        snprintf(with, sizeof with, "%s", name);
        if (with[length - 1] == 'N') {
            snprintf(with + length - 1, sizeof with - length, "64");
        }
        assert_true(vc_weight_scheme_bytes(with, shape, 2) < (uint64_t)1 << 31);
        assert_true(vc_weight_scheme_bytes(with, (const uint64_t[]){UINT64_MAX / 2, 64}, 2) == UINT64_MAX);
    }
    vc_memory_defaults(&options);
    options.scheme = "nf5";
    assert_int_equal(vc_memory_estimate(ctx, NULL, NULL, &options, &r), VC_E_ARGUMENT);
    expect_says(ctx, "no scheme is called 'nf5'");
    test_ctx_done(ctx);
}

/* Embeddings and the output layer stay as they are, but in GGUF's types. */
static void test_exceptions(void **unused)
{
    struct vc_ctx *ctx = test_ctx();
    struct vc_memory_options options;
    struct vc_memory_report r;
    char text[512];
    struct vc_graph *graph;
    const uint64_t layer = 2 * 64 * 64 + 2 * 64 * 32 + 3 * 64 * 96;
    const uint64_t words = 2 * 128 * 64;

    (void)unused;
    snprintf(text, sizeof text, LLAMA_TEXT, 64, 96, 3, 4, 2, 128);
    graph = read_config(ctx, text);
    bind(ctx, graph, 1, 16);
    vc_memory_defaults(&options);
    options.scheme = "q8_0";
    r = count(ctx, graph, &options);
    assert_int_equal(bytes_of(&r, VC_MEMORY_PARAMETERS), (3 * layer + words) / 32 * 34 + 7 * 64 * 4);
    options.scheme = "nf4";
    r = count(ctx, graph, &options);
    assert_int_equal(bytes_of(&r, VC_MEMORY_PARAMETERS), 3 * layer / 64 * 36 + words * 2 + 7 * 64 * 2);
    vc_graph_close(graph);
    test_ctx_done(ctx);
}

/* What a name of llama-quantize makes, whether or not a type has the same name: of Q2_K values and the last product of
 * the MLP are larger, of Q4_0 the output layer; rows of 448 have no blocks of 256. */
static void test_names_of_types(void **unused)
{
    const uint64_t h = 256;
    const uint64_t v = 512;
    const uint64_t layers = 8 * (2 * h * h + 3 * h * 512 + h * 128);
    struct vc_ctx *ctx = test_ctx();
    const uint64_t odd[] = {10, 448};
    struct vc_memory_options options;
    struct vc_memory_report r;
    struct vc_graph *graph;
    char text[512];

    (void)unused;
    snprintf(text, sizeof text, LLAMA_TEXT, 256, 512, 8, 4, 2, 512);
    graph = read_config(ctx, text);
    bind(ctx, graph, 1, 16);
    vc_memory_defaults(&options);
    options.scheme = "q4_0";
    r = count(ctx, graph, &options);
    assert_int_equal(bytes_of(&r, VC_MEMORY_PARAMETERS),
                     (layers + 8 * h * 128 + v * h) / 32 * 18 + v * h / 256 * 210 + 17 * h * 4);
    options.scheme = "q4_k"; /* a type alone: of all */
    r = count(ctx, graph, &options);
    assert_int_equal(bytes_of(&r, VC_MEMORY_PARAMETERS), (layers + 8 * h * 128 + 2 * v * h) / 256 * 144 + 17 * h * 4);
    options.scheme = "q2_k";
    r = count(ctx, graph, &options);
    assert_true(bytes_of(&r, VC_MEMORY_PARAMETERS) >
                (layers + 8 * h * 128 + 2 * v * h) / 256 * 84 + 17 * h * 4 + 10000);
    assert_int_equal(vc_weight_scheme_bytes("q2_k", odd, 2), vc_weight_scheme_bytes("q4_0", odd, 2));
    vc_graph_close(graph);
    test_ctx_done(ctx);
}

/* llama.cpp's mixtures: of eight layers the numbers 0, 3, 6 and 7 have q6_k for values and for the last product of the
 * MLP, and so has the output layer. */
static void test_mixtures(void **unused)
{
    const uint64_t h = 256;
    const uint64_t kv = 128;
    const uint64_t f = 512;
    const uint64_t v = 512;
    const uint64_t all = 8 * (2 * h * h + 2 * h * kv + 3 * h * f) + 2 * v * h;
    const uint64_t more = 4 * (h * kv + f * h) + v * h;
    struct vc_ctx *ctx = test_ctx();
    struct vc_memory_options options;
    struct vc_memory_report r;
    struct vc_graph *graph;
    char text[512];

    (void)unused;
    snprintf(text, sizeof text, LLAMA_TEXT, 256, 512, 8, 4, 2, 512);
    graph = read_config(ctx, text);
    bind(ctx, graph, 1, 16);
    vc_memory_defaults(&options);
    options.scheme = "q4_k_m";
    r = count(ctx, graph, &options);
    assert_int_equal(bytes_of(&r, VC_MEMORY_PARAMETERS), all / 256 * 144 + more / 256 * (210 - 144) + 17 * h * 4);
    options.scheme = "q5_k_m";
    r = count(ctx, graph, &options);
    assert_int_equal(bytes_of(&r, VC_MEMORY_PARAMETERS), all / 256 * 176 + more / 256 * (210 - 176) + 17 * h * 4);
    vc_graph_close(graph);
    strcpy(strrchr(text, '}'), ", \"tie_word_embeddings\": true}"); /* the table of words is the output layer */
    graph = read_config(ctx, text);
    bind(ctx, graph, 1, 16);
    r = count(ctx, graph, &options);
    assert_int_equal(bytes_of(&r, VC_MEMORY_PARAMETERS),
                     (all - v * h) / 256 * 176 + more / 256 * (210 - 176) + 17 * h * 4);
    vc_graph_close(graph);
    test_ctx_done(ctx);
}

/* ---- keys and values ---- */

#define MISTRAL                                                                                                     \
    "{\"architectures\": [\"MistralForCausalLM\"], \"model_type\": \"mistral\", \"hidden_size\": 64, "              \
    "\"intermediate_size\": 96, \"num_hidden_layers\": 3, \"num_attention_heads\": 4, \"num_key_value_heads\": 2, " \
    "\"vocab_size\": 100, \"max_position_embeddings\": 131072, \"sliding_window\": 1000, \"rms_norm_eps\": 1e-5}"
#define GEMMA                                                                                                       \
    "{\"architectures\": [\"Gemma2ForCausalLM\"], \"model_type\": \"gemma2\", \"hidden_size\": 64, "                \
    "\"intermediate_size\": 96, \"num_hidden_layers\": 4, \"num_attention_heads\": 4, \"num_key_value_heads\": 2, " \
    "\"head_dim\": 16, \"vocab_size\": 100, \"max_position_embeddings\": 131072, \"sliding_window\": 1000, "        \
    "\"query_pre_attn_scalar\": 16}"

static void test_cache(void **unused)
{
    static const struct {
        int hidden, layers, heads, kv, words;
        uint64_t tokens, batch;
        enum vc_dtype type;
        uint64_t bytes;
    } rows[] = {
        {4096, 32, 32, 32, 32000, 1, 1, VC_DTYPE_F16, 524288},
        {4096, 32, 32, 8, 128256, 1, 1, VC_DTYPE_F16, 131072},
        {3584, 28, 28, 4, 152064, 1, 1, VC_DTYPE_BF16, 57344},
        {4096, 32, 32, 8, 128256, 131072, 1, VC_DTYPE_F16, 16384ULL << 20},
        {384, 12, 12, 12, 30522, 512, 1, VC_DTYPE_F16, 9ULL << 20},
        {4096, 32, 32, 32, 32000, 4096, 1, VC_DTYPE_Q8_0, 1088ULL << 20},
        {4096, 32, 32, 32, 32000, 4096, 2, VC_DTYPE_Q4_0, 2 * 576ULL << 20},
        {4096, 1, 32, 8, 128256, 16, 1, VC_DTYPE_BF16, 65536},
        {4096, 1, 32, 8, 128256, 16, 1, VC_DTYPE_NVFP4, 18432},
    };
    struct vc_ctx *ctx = test_ctx();
    struct vc_memory_options options;
    struct vc_memory_report r;
    struct vc_graph *graph;

    (void)unused;
    vc_memory_defaults(&options);
    for (size_t k = 0; k < sizeof rows / sizeof rows[0]; k++) {
        char text[512];

        snprintf(text, sizeof text, LLAMA_TEXT, rows[k].hidden, 64, rows[k].layers, rows[k].heads, rows[k].kv,
                 rows[k].words);
        graph = read_config(ctx, text);
        bind(ctx, graph, (int64_t)rows[k].batch, 1);
        options.context_tokens = rows[k].tokens;
        options.cache = rows[k].type;
        r = count(ctx, graph, &options);
        assert_int_equal(bytes_of(&r, VC_MEMORY_KV_CACHE), rows[k].bytes);
        vc_graph_close(graph);
    }
    /* a window, and the tokens in work; of one family every second layer has one */
    options.cache = VC_DTYPE_F16;
    for (int k = 0; k < 2; k++) {
        uint64_t line = 2 * 2 * 16 * 2;
        uint64_t layers = k == 0 ? 3 : 2;

        graph = read_config(ctx, k == 0 ? MISTRAL : GEMMA);
        bind(ctx, graph, 1, 24);
        options.context_tokens = 5000;
        r = count(ctx, graph, &options);
        assert_int_equal(bytes_of(&r, VC_MEMORY_KV_CACHE), layers * 1024 * line + (k == 0 ? 0 : 2 * 5000 * line));
        options.context_tokens = 500;
        r = count(ctx, graph, &options);
        assert_int_equal(bytes_of(&r, VC_MEMORY_KV_CACHE), (k == 0 ? 3U : 4U) * 500 * line);
        vc_graph_close(graph);
    }
    test_ctx_done(ctx);
}

/* What PyTorch's eager mode has beside cache and weights for each position of a cache of bf16, which attention reads.
 * Two heads of 32 are shared by eight. */
static void test_cached_attention(void **unused)
{
    static const struct {
        enum vc_attention attention;
        int64_t batch, in_work;
        uint64_t bytes;
    } rows[] = {
        /* copies of keys and values for each head; scores in bf16 and f32, probabilities in f32; a mask of bf16 */
        {VC_ATTENTION_EAGER, 1, 1, 2 * 8 * 32 * 2 + 8 * 10 + 2},
        {VC_ATTENTION_EAGER, 2, 8, 2 * (2 * 8 * 32 * 2 + 8 * 8 * 10 + 8 * 2)},
        /* the keys that are made longer */
        {VC_ATTENTION_FUSED, 1, 1, 2 * 32 * 2},
        /* copies for each head, as there is a mask, of bytes and of bf16 */
        {VC_ATTENTION_FUSED, 1, 8, 2 * 8 * 32 * 2 + 8 * 3},
        {VC_ATTENTION_FUSED, 2, 8, 2 * (2 * 8 * 32 * 2 + 8 * 3)},
    };
    struct vc_ctx *ctx = test_ctx();
    char text[512];

    (void)unused;
    snprintf(text, sizeof text, LLAMA_TEXT, 256, 512, 2, 8, 2, 512);
    for (size_t k = 0; k < sizeof rows / sizeof rows[0]; k++) {
        struct vc_graph *graph = read_config(ctx, text);
        struct vc_memory_options options;
        uint64_t beside[2];
        uint64_t low = 100000 * rows[k].bytes;

        vc_memory_defaults(&options);
        options.weights = VC_DTYPE_BF16;
        options.attention = rows[k].attention;
        bind(ctx, graph, rows[k].batch, rows[k].in_work);
        for (uint64_t i = 0; i < 2; i++) {
            struct vc_memory_report r;

            options.context_tokens = 100000 * (i + 1);
            r = count(ctx, graph, &options);
            beside[i] = r.eager.bytes - bytes_of(&r, VC_MEMORY_KV_CACHE);
        }
        assert_in_range(beside[1] - beside[0], low, low + low / 500); /* a thousandth is for small tensors */
        vc_graph_close(graph);
    }
    test_ctx_done(ctx);
}

/* ---- training in half precision ---- */

/* Autocast has a copy of every weight of a product, of a table of words that is the output layer, too. */
static void test_autocast_copies(void **unused)
{
    const uint64_t products = 2 * (256 * 256 * 2 + 2 * 256 * 64 + 3 * 256 * 512) + 512 * 256;
    struct vc_ctx *ctx = test_ctx();
    char text[512];

    (void)unused;
    snprintf(text, sizeof text, LLAMA_TEXT, 256, 512, 2, 8, 2, 512);
    for (int tied = 0; tied < 2; tied++) {
        struct vc_memory_options options;
        struct vc_memory_report r;
        struct vc_graph *graph;

        if (tied != 0) {
            strcpy(strrchr(text, '}'), ", \"tie_word_embeddings\": true}");
        }
        graph = read_config(ctx, text);
        bind(ctx, graph, 1, 16);
        vc_memory_defaults(&options);
        options.mode = VC_MEMORY_TRAIN;
        options.amp = VC_AMP_AUTOCAST;
        r = count(ctx, graph, &options);
        assert_int_equal(bytes_of(&r, VC_MEMORY_MASTER), 2 * products);
        vc_graph_close(graph);
    }
    test_ctx_done(ctx);
}

/* ---- the allocator ---- */

#define NEW(n)      \
    {               \
        n, 0, false \
    }
#define FREE(which)    \
    {                  \
        0, which, true \
    }
#define M 1048576ULL

static void test_caching(void **unused)
{
    static const struct {
        struct vc_allocation requests[10];
        size_t n;
        uint64_t allocated, reserved, most_reserved;
    } cases[] = {
        /* as a program printed it: four tensors of 40,000, 40, 4,000 and 40 bytes */
        {{NEW(40000), NEW(40), NEW(4000), NEW(40)}, 4, 45568, 2 * M, 2 * M},
        /* the sizes of segments */
        {{NEW(M)}, 1, M, 2 * M, 2 * M},
        {{NEW(M + 1)}, 1, M + 512, 20 * M, 20 * M},
        {{NEW(10 * M)}, 1, 10 * M, 10 * M, 10 * M},
        {{NEW(11 * M)}, 1, 12 * M, 12 * M, 12 * M}, /* a rest of 1 MiB is not split off */
        {{NEW(21 * M - 1024)}, 1, 21 * M - 1024, 22 * M, 22 * M},
        {{NEW(0)}, 1, 0, 0, 0}, /* c10 asks its allocator for nothing */
        {{NEW(0), FREE(0), NEW(1)}, 3, 512, 2 * M, 2 * M},
        /* three in one segment, the fourth needs another */
        {{NEW(6 * M), NEW(6 * M), NEW(6 * M), NEW(6 * M)}, 4, 24 * M, 40 * M, 40 * M},
        /* what is freed is used again, of the blocks that are large enough the smallest */
        {{NEW(6 * M), NEW(6 * M), FREE(0), NEW(4 * M)}, 4, 10 * M, 20 * M, 20 * M},
        {{NEW(32 * M), FREE(0), NEW(3 * M), NEW(29 * M)}, 4, 32 * M, 32 * M, 32 * M},
        /* neighbours are joined: both halves of a segment are one block again */
        {{NEW(8 * M), NEW(12 * M), FREE(0), FREE(1), NEW(20 * M)}, 5, 20 * M, 20 * M, 20 * M},
        /* segments are kept when nothing is in them */
        {{NEW(64 * M), FREE(0)}, 2, 0, 64 * M, 64 * M},
        /* small blocks do not go into segments of large ones */
        {{NEW(5 * M), NEW(1000)}, 2, 5 * M + 1024, 22 * M, 22 * M},
    };
    const struct vc_allocation twice[] = {NEW(10), FREE(0), FREE(0)};
    const struct vc_allocation large[] = {NEW(UINT64_MAX / 8), NEW(UINT64_MAX / 8), NEW(UINT64_MAX / 8)};
    struct vc_ctx *ctx = test_ctx();
    struct vc_allocated got;

    (void)unused;
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        assert_int_equal(vc_allocator_trace(ctx, cases[k].requests, cases[k].n, &got, NULL, NULL), VC_OK);
        if (got.allocated != cases[k].allocated || got.reserved != cases[k].reserved) {
            fail_msg("case %zu: %llu in %llu", k, (unsigned long long)got.allocated, (unsigned long long)got.reserved);
        }
        assert_int_equal(got.most_reserved, cases[k].most_reserved);
    }
    assert_int_equal(vc_allocator_trace(ctx, twice, 3, &got, NULL, NULL), VC_E_ARGUMENT);
    assert_int_equal(vc_allocator_trace(ctx, large, 3, &got, NULL, NULL), VC_E_ARGUMENT);
    assert_int_equal(vc_allocator_trace(ctx, NULL, 0, &got, NULL, NULL), VC_OK);
    test_ctx_done(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_matrix),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_names_of_quantize),
        cmocka_unit_test(test_exceptions),
        cmocka_unit_test(test_names_of_types),
        cmocka_unit_test(test_mixtures),
        cmocka_unit_test(test_cache),
        cmocka_unit_test(test_cached_attention),
        cmocka_unit_test(test_autocast_copies),
        cmocka_unit_test(test_caching),
    };

    return cmocka_run_group_tests(tests, scratch_make, scratch_clear);
}
