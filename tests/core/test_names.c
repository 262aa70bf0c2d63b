/* test_names.c - the axis that names tell: a table of names as flax.linen, flax.nnx and Keras give them, with the axis
 * written by hand from what these layers compute; and names that say nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <vcompress/model.h>

#include "core/model/names.h"

static void test_kernels(void **unused)
{
    static const struct {
        const char *name;
        unsigned axis, n_dims;
        uint64_t shape[5];
    } cases[] = {{"params/Dense_0/kernel", 1, 2, {128, 10}},
                 {"params.Dense_0.kernel", 1, 2, {128, 10}},
                 {"kernel", 1, 2, {128, 10}},
                 {"['params']['Dense_0']['kernel']", 1, 2, {128, 10}},
                 {"['layers']['l']['kernel'].value", 1, 2, {128, 10}},
                 {"l/kernel/value", 1, 2, {128, 10}},
                 {"dense/kernel:0", 1, 2, {128, 10}},
                 {"lstm/lstm_cell/recurrent_kernel:0", 1, 2, {64, 256}},
                 {"bert/encoder/layer_0/attention/self/query/kernel", 1, 2, {384, 384}},
                 {"params/LSTMCell_0/hf/kernel", 1, 2, {64, 64}},
                 {"params/Conv_0/kernel", 3, 4, {3, 3, 16, 32}},
                 {"params/Conv_1/kernel", 3, 4, {3, 3, 1, 32}}, /* a group per channel */
                 {"params/Conv3d/kernel", 4, 5, {3, 3, 3, 8, 16}},
                 {"params/ConvTranspose_0/kernel", 3, 4, {3, 3, 16, 32}},
                 {"conv2d_transpose/kernel:0", 2, 4, {3, 3, 32, 16}}, /* Keras: out before in */
                 {"decoder/conv2d_transpose_7/kernel", 2, 4, {3, 3, 32, 16}},
                 {"depthwise_conv2d/depthwise_kernel:0", 2, 4, {3, 3, 64, 1}},
                 {"block_1/depthwise/kernel", 3, 4, {3, 3, 1, 64}}, /* Flax */
                 {"separable_conv2d/pointwise_kernel:0", 3, 4, {1, 1, 64, 128}},
                 {"params/MultiHeadDotProductAttention_0/query/kernel", 0, 3, {64, 8, 8}},
                 {"a.key.kernel", 0, 3, {64, 8, 8}},
                 {"multi_head_attention/value/kernel:0", 0, 3, {64, 8, 8}},
                 {"params/MultiHeadDotProductAttention_0/out/kernel", 2, 3, {8, 8, 64}},
                 {"params/Conv_2/kernel", 2, 3, {5, 64, 32}}};
    size_t i;

    (void)unused;
    for (i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        unsigned axis = 99;
        const char *why = vc_name_channel_axis(cases[i].name, cases[i].n_dims, cases[i].shape, &axis);

        if (why == NULL || axis != cases[i].axis) {
            fail_msg("%s: axis %u (%s), not %u", cases[i].name, axis, why == NULL ? "none" : why, cases[i].axis);
        }
    }
}

/* What N:M goes along, where that is not the axis beside the outputs. */
static void test_inputs(void **unused)
{
    static const struct {
        const char *name;
        unsigned inputs, n_dims;
        uint64_t shape[4];
    } cases[] = {{"params/Dense_0/kernel", 0, 2, {64, 32}},
                 {"params/Conv_0/kernel", 0, 4, {3, 3, 16, 32}},
                 {"params/Conv_2/kernel", 0, 3, {5, 64, 32}},
                 {"conv2d_transpose/kernel:0", 4, 4, {3, 3, 32, 16}},
                 {"params/ConvTranspose_0/kernel", 0, 4, {3, 3, 16, 32}},
                 {"depthwise_conv2d/depthwise_kernel:0", VC_NO_INPUTS, 4, {3, 3, 64, 1}},
                 {"params/a/query/kernel", 1, 3, {64, 8, 8}},
                 {"params/a/qkv/kernel", 1, 4, {64, 3, 8, 8}},
                 {"params/a/out/kernel", 0, 3, {8, 8, 64}},
                 {"params/a/q_proj/kernel", VC_NO_INPUTS, 3, {64, 8, 8}},
                 {"fc.weight", 0, 2, {64, 32}},
                 {"conv.weight", 0, 4, {64, 32, 3, 3}},
                 {"conv1.weight", 0, 3, {64, 32, 80}},
                 {"patch.weight", 0, 3, {64, 32, 16}},
                 {"blk.0.ffn_up_exps.weight", 3, 3, {4, 64, 32}},
                 {"mlp.experts.gate_up_proj", VC_NO_INPUTS, 3, {4, 64, 32}},
                 {"decoder.deconv1.weight", VC_NO_INPUTS, 4, {64, 32, 3, 3}},
                 {"up.ConvTranspose2d.weight", VC_NO_INPUTS, 4, {64, 32, 3, 3}}};
    size_t i;

    (void)unused;
    for (i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *why = "";
        unsigned inputs = vc_name_inputs(cases[i].name, cases[i].n_dims, cases[i].shape, &why);

        if (inputs != cases[i].inputs || (inputs == VC_NO_INPUTS) != (why != NULL)) {
            fail_msg("%s: %u, not %u", cases[i].name, inputs, cases[i].inputs);
        }
    }
}

static void test_no_kernels(void **unused)
{
    static const char *const names[] = {"",
                                        ".",
                                        "weight",
                                        "layers.0.weight",
                                        "params/Embed_0/embedding",
                                        "embedding/embeddings:0",
                                        "kernel.weight",
                                        "kernels",
                                        "mykernel",
                                        "kernel/0",
                                        "kernel_size",
                                        "params/LayerNorm_0/scale",
                                        "params/Dense_0/bias",
                                        "value",
                                        ":0"};
    static const uint64_t shape[2] = {64, 32};
    unsigned axis = 7;
    size_t i;

    (void)unused;
    for (i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (vc_name_channel_axis(names[i], 2, shape, &axis) != NULL || axis != 7) {
            fail_msg("%s: names an axis", names[i]);
        }
    }
    assert_null(vc_name_channel_axis("norm/kernel", 1, shape, &axis));
    assert_null(vc_name_channel_axis("norm/kernel", 0, shape, &axis));
}

/* Buffers are no weights, by the last word of the name and the shape; what looks like them is. */
static void test_uses(void **unused)
{
    static const struct {
        const char *name, *reason;
        unsigned n_dims;
        uint64_t shape[5];
    } cases[] = {{"h.0.attn.bias", "mask", 4, {1, 1, 1024, 1024}},
                 {"transformer.h.3.attn.causal_mask", "mask", 4, {1, 1, 2048, 2048}},
                 {"h.0.attn.masked_bias", "mask", 0, {0}},
                 {"layers.1.blocks.1.attn_mask", "mask", 3, {64, 49, 49}},
                 {"blocks.0.sa.heads.0.tril", "mask", 2, {256, 256}},
                 {"freqs_cis", VC_SKIP_ROTARY, 2, {4096, 64}},
                 {"model.layers.0.self_attn.rotary_emb.cos_cached", VC_SKIP_ROTARY, 4, {1, 1, 2048, 64}},
                 {"rotary.inv_freq", VC_SKIP_ROTARY, 1, {32}},
                 {"layers.0.0.fn.freqs", VC_SKIP_ROTARY, 1, {16}},
                 {"pos_encoder.pe", "table of positions", 3, {5000, 1, 512}},
                 {"attn.relative_coords_table", "table of positions", 4, {1, 15, 15, 2}},
                 {"pe_layer.positional_encoding_gaussian_matrix", "table of positions", 2, {2, 128}},
                 {"model.24.anchors", "anchors or a grid", 3, {3, 3, 2}},
                 {"model.24.anchor_grid", "anchors or a grid", 5, {3, 1, 3, 1, 2}},
                 {"anchor_generator.cell_anchors.0", "anchors or a grid", 2, {3, 4}},
                 {"strides", "anchors or a grid", 2, {1, 8400}},
                 {"head.grid", "anchors or a grid", 4, {1, 80, 80, 2}},
                 {"mel_scale.fb", "filter or window of a signal", 2, {513, 128}},
                 {"spectrogram.window", "filter or window of a signal", 1, {1024}},
                 {"_model.stft.forward_basis_buffer", "filter or window of a signal", 3, {258, 1, 256}},
                 {"layer2.0.downsample.filt", "filter or window of a signal", 4, {512, 1, 3, 3}},
                 {"quantizer.layers.0.codebook.embed_avg", "statistics of training", 2, {1024, 128}},
                 {"bn.running_mean", "normalization", 1, {64}},
                 {"bn/moving_variance:0", "normalization", 1, {64}},
                 {"sqrt_alphas_cumprod", "noise schedule", 1, {1000}},
                 {"layers.0.attention.cache_k", "cache", 4, {8, 512, 8, 64}},
                 {"mixer.A_log", "decay of a state", 2, {1536, 16}},
                 {"grn.gamma", "a vector", 4, {1, 1, 1, 3072}},
                 /* weights */
                 {"h.0.attn.c_attn.weight", NULL, 2, {768, 2304}},
                 {"proj", NULL, 2, {768, 512}},
                 {"mlp.experts.gate_up_proj", NULL, 3, {8, 64, 128}},
                 {"lstm.weight_hh_l0", NULL, 2, {512, 128}},
                 {"mask_head.weight", NULL, 2, {256, 256}},
                 {"conv.weight_mask", NULL, 4, {64, 64, 3, 3}}, /* of torch.nn.utils.prune */
                 {"mask_token", NULL, 3, {1, 16, 384}},
                 {"anchors.weight", NULL, 2, {256, 256}},
                 {"density.grid", NULL, 5, {1, 1, 160, 160, 160}}, /* learned features */
                 {"conv1/filter", NULL, 4, {1, 1, 64, 256}},
                 {"query_tokens", NULL, 3, {1, 32, 768}},
                 {"fc.weight", NULL, 3, {1, 1, 4096}},
                 {"window_attention.qkv.weight", NULL, 2, {96, 32}}};
    size_t i;

    (void)unused;
    for (i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *reason = "not set";
        enum vc_use use = vc_name_use(cases[i].name, cases[i].n_dims, cases[i].shape, &reason);

        if ((reason == NULL) != (cases[i].reason == NULL) || (reason == NULL) != (use == VC_USE_UNKNOWN) ||
            (reason != NULL && strcmp(reason, cases[i].reason) != 0)) {
            fail_msg("%s: %s", cases[i].name, reason == NULL ? "a weight" : reason);
        }
    }
}

/* Layers that runtimes join: parts of one module, by their last names. */
static void test_joined(void **unused)
{
    static const char q[] = "model.layers.0.self_attn.q_proj.weight";

    (void)unused;
    assert_true(vc_name_is_joined(q, "model.layers.0.self_attn.k_proj.weight"));
    assert_true(vc_name_is_joined("key.weight", "value.weight"));
    assert_true(vc_name_is_joined("mlp.up_proj.weight", "mlp.gate_proj.weight"));
    assert_true(vc_name_is_joined("experts.0.w3.weight", "experts.0.w1.weight"));
    assert_true(vc_name_is_joined("a.q_a_proj.weight", "a.kv_a_proj_with_mqa.weight"));
    assert_false(vc_name_is_joined("experts.0.w1.weight", "experts.0.w2.weight"));
    assert_false(vc_name_is_joined("experts.0.w1.weight", "experts.1.w3.weight"));
    assert_false(vc_name_is_joined(q, "model.layers.1.self_attn.k_proj.weight"));
    assert_false(vc_name_is_joined(q, "model.layers.0.self_attn.key.weight"));
    assert_false(vc_name_is_joined(q, "model.layers.0.self_attn.k_proj.bias"));
    assert_false(vc_name_is_joined("mlp.up_proj.weight", "mlp.down_proj.weight"));
    assert_false(vc_name_is_joined("fc1.weight", "fc2.weight"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_uses), cmocka_unit_test(test_kernels),
                                       cmocka_unit_test(test_inputs), cmocka_unit_test(test_no_kernels),
                                       cmocka_unit_test(test_joined)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
