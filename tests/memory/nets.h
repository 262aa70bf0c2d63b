/* nets.h - models of the tests of memory/: from a list of layers, or from the text of a config.json. */
#pragma once

#include "facade/graph_config.h"
#include "graph/build.h"
#include "scratch.h"
#include "support.h"

#include <vcompress/fit.h>
#include <vcompress/memory.h>

#define GIB 1073741824.0
#define MIB 1048576.0

/* The worked example: two convolutions and a linear layer, without pooling. */
#define SIMPLE                        \
    "input x [batch, 3, 32, 32]\n"    \
    "conv conv1 64 kernel=3\nrelu\n"  \
    "conv conv2 128 kernel=3\nrelu\n" \
    "flatten\nlinear fc 10\n"

/* A decoder by its sizes: hidden, inner, layers, heads, heads of keys, words. */
#define LLAMA_TEXT                                                                                                    \
    "{\"architectures\": [\"LlamaForCausalLM\"], \"model_type\": \"llama\", \"hidden_size\": %d, "                    \
    "\"intermediate_size\": %d, \"num_hidden_layers\": %d, \"num_attention_heads\": %d, \"num_key_value_heads\": %d," \
    " \"vocab_size\": %d, \"rms_norm_eps\": 1e-5, \"max_position_embeddings\": 131072, \"rope_theta\": 500000.0}"
/* An encoder: hidden, inner, layers, heads, words. */
#define BERT_TEXT                                                                                              \
    "{\"architectures\": [\"BertForSequenceClassification\"], \"model_type\": \"bert\", \"hidden_size\": %d, " \
    "\"intermediate_size\": %d, \"num_hidden_layers\": %d, \"num_attention_heads\": %d, \"vocab_size\": %d, "  \
    "\"max_position_embeddings\": 512, \"type_vocab_size\": 2}"
/* A decoder of GPT-2's form: hidden, layers, heads, positions, words. */
#define GPT_TEXT                                                                                                       \
    "{\"architectures\": [\"GPT2LMHeadModel\"], \"model_type\": \"gpt2\", \"n_embd\": %d, \"n_layer\": %d, \"n_head\"" \
    ": %d, \"n_positions\": %d, \"n_ctx\": 64, \"vocab_size\": %d}"

static inline struct vc_graph *read_net(struct vc_ctx *ctx, const char *text)
{
    struct vc_graph *graph = NULL;

    if (vc_graph_read_text(ctx, save_text("net.txt", text), NULL, &graph) != VC_OK) {
        fail_msg("%s", vc_ctx_message(ctx));
    }
    return graph;
}

static inline struct vc_graph *read_config(struct vc_ctx *ctx, const char *text)
{
    struct vc_graph *graph = NULL;

    if (vc_graph_build_config(ctx, save_text("config.json", text), &graph) != VC_OK) {
        fail_msg("%s", vc_ctx_message(ctx));
    }
    return graph;
}

static inline void bind(struct vc_ctx *ctx, struct vc_graph *graph, int64_t batch, int64_t sequence)
{
    assert_int_equal(vc_graph_bind(ctx, graph, "batch", batch), VC_OK);
    if (sequence != 0) {
        assert_int_equal(vc_graph_bind(ctx, graph, "sequence", sequence), VC_OK);
    }
}

static inline struct vc_memory_report count(struct vc_ctx *ctx, const struct vc_graph *graph,
                                            const struct vc_memory_options *options)
{
    struct vc_memory_report report;

    if (vc_memory_estimate(ctx, graph, NULL, options, &report) != VC_OK) {
        fail_msg("%s", vc_ctx_message(ctx));
    }
    return report;
}

static inline struct vc_memory_options training(enum vc_optimizer optimizer)
{
    struct vc_memory_options options;

    vc_memory_defaults(&options);
    options.mode = VC_MEMORY_TRAIN;
    options.optimizer = optimizer;
    return options;
}

static inline uint64_t bytes_of(const struct vc_memory_report *report, enum vc_memory_kind component)
{
    return report->components[component].bytes;
}
