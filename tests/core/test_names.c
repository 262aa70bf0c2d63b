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
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_kernels), cmocka_unit_test(test_inputs),
                                       cmocka_unit_test(test_no_kernels), cmocka_unit_test(test_joined)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
