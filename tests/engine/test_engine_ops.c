/* test_engine_ops.c - every operator of the engine: gradients against differences of the forward pass in double, and
 * the forward pass against the definitions of graph/. */
#include "engine_test.h"

#include <math.h>
#include <stdlib.h>

#include "engine/train_program.h"

#define H 1e-4

static const struct vc_engine_pass training = {.training = true, .step = 3, .norm_share = -1};

/* The derivative of the objective by *x, from four points around it. */
static double difference(struct net *net, const struct vc_engine_pass *pass, double *x)
{
    static const double weights[4] = {1.0 / 12, -8.0 / 12, 8.0 / 12, -1.0 / 12};
    static const double places[4] = {-2, -1, 1, 2};
    double was = *x;
    double sum = 0;

    for (unsigned k = 0; k < 4; k++) {
        *x = was + places[k] * H;
        net_forward(net, pass);
        sum += weights[k] * net_objective(net);
    }
    *x = was;
    return sum / H;
}

static void compare(const char *body, const char *what, size_t i, double is, double should)
{
    if (!(fabs(is - should) <= 1e-6 * (fabs(is) + fabs(should) + 1e-3))) {
        fail_msg("%s: the gradient of element %zu of %s is %.12g; differences say %.12g", body, i, what, is, should);
    }
}

static void check_gradients(const char *body, const struct vc_engine_options *options,
                            const struct vc_engine_pass *pass)
{
    struct net net = net_begin(body, VC_GRAPH_F64, options);
    double *grads[2] = {calloc(net.n_inputs + 1, sizeof(double)), NULL};
    size_t n = 0;

    net_forward(&net, pass);
    net_backward(&net);
    for (size_t k = 0; k < vc_engine_input_count(net.engine); k++) {
        const struct vc_engine_value *in = vc_engine_input(net.engine, k);

        for (size_t i = 0; i < in->n; i++, n++) {
            grads[0][n] = in->grad != NULL ? ((const double *)in->grad)[i] : NAN;
        }
    }
    n = 0;
    for (size_t k = 0; k < vc_engine_input_count(net.engine); k++) {
        const struct vc_engine_value *in = vc_engine_input(net.engine, k);
        bool real = !in->integers && in->grad != NULL;

        for (size_t i = 0; i < in->n; i++, n++) {
            if (real && i % TEST_STRIDE == 0) {
                compare(body, vc_graph_value(net.graph, in->value)->name, i, grads[0][n],
                        difference(&net, pass, &net.inputs[n]));
            }
        }
    }
    for (size_t k = 0; k < net.weights->n; k++) {
        struct vc_weight *w = &net.weights->items[k];

        for (size_t i = 0; w->grad != NULL && i < w->n; i += TEST_STRIDE) {
            compare(body, w->name, i, ((double *)w->grad)[i], difference(&net, pass, (double *)w->data + i));
        }
    }
    free(grads[0]);
    net_end(&net);
}

/* ---- the forward pass against the definition ---- */

static void check_forward(const char *body, enum vc_graph_precision precision, bool train)
{
    struct vc_engine_options options = {.train = train, .threads = 2, .frozen_norm = true};
    struct vc_engine_pass pass = {.norm_share = -1};
    struct net net = net_begin(body, precision, &options);
    double *should = calloc(net.n_outputs + 1, sizeof *should);
    double bound = precision == VC_GRAPH_F64 ? 1e-13 : 1e-5;
    size_t n = 0;

    net_plain(&net, should);
    net_forward(&net, &pass);
    for (size_t k = 0; k < vc_engine_output_count(net.engine); k++) {
        const struct vc_engine_value *out = vc_engine_output(net.engine, k);

        for (size_t i = 0; i < out->n; i++, n++) {
            double is = net_get(net.weights, out->data, i);

            if (!(fabs(is - should[n]) <= bound * (1 + fabs(should[n])))) {
                fail_msg("%s (%s): element %zu is %.17g; the definition gives %.17g", body, train ? "train" : "infer",
                         n, is, should[n]);
            }
        }
    }
    free(should);
    net_drop(&net);
    vc_ctx_free(net.ctx); /* it has read parameters, and keeps its kernels */
}

/* ---- the cases ---- */

static const char *const cases[] = {
#include "engine_cases.inc"
};

#define N_CASES (sizeof cases / sizeof *cases)

static void gradients(void **state)
{
    struct vc_engine_options options = {.train = true, .threads = 1, .input_grads = true};

    (void)state;
    for (size_t k = 0; k < N_CASES; k++) {
        check_gradients(cases[k], &options, &training);
    }
}

/* With statistics that stay as they are: because the pass is no training, or the norms are frozen. */
static void gradients_frozen(void **state)
{
    struct vc_engine_options options = {.train = true, .threads = 1, .input_grads = true};
    struct vc_engine_pass pass = {.norm_share = -1};

    (void)state;
    for (size_t k = 0; k < N_CASES; k++) {
        if (strstr(cases[k], "BatchNormalization") != NULL) {
            check_gradients(cases[k], &options, &pass);
            options.frozen_norm = true;
            check_gradients(cases[k], &options, &training);
            options.frozen_norm = false;
        }
    }
}

static void forward(void **state)
{
    (void)state;
    for (size_t k = 0; k < N_CASES; k++) {
        check_forward(cases[k], VC_GRAPH_F64, true);
        check_forward(cases[k], VC_GRAPH_F64, false);
        check_forward(cases[k], VC_GRAPH_F32, true);
    }
}

/* What is rounded: the definition's bits forward, and backward as if nothing were rounded. */
static const char *const rounded[] = {
#include "engine_rounded.inc"
};

static void rounding(void **state)
{
    struct vc_engine_options options = {.train = true, .threads = 2, .input_grads = true};

    (void)state;
    for (size_t k = 0; k < sizeof rounded / sizeof *rounded; k++) {
        struct net net = net_begin(rounded[k], VC_GRAPH_F32, &options);
        float *should = calloc(net.n_outputs, sizeof *should);
        double *plain = calloc(net.n_outputs, sizeof *plain);
        const struct vc_engine_value *x = vc_engine_input(net.engine, 0);
        const struct vc_engine_value *y = vc_engine_output(net.engine, 0);

        for (size_t i = 0; i < 20; i++) { /* zeros, and what is no number */
            net.inputs[i] = i < 10 ? 0 : net.inputs[i];
        }
        net.inputs[net.n_inputs - 1] = NAN;
        net.inputs[net.n_inputs - 200] = INFINITY;
        net_plain(&net, plain);
        net_forward(&net, &training);
        for (size_t i = 0; i < net.n_outputs; i++) {
            should[i] = (float)plain[i];
            if (memcmp(&((const float *)y->data)[i], &should[i], sizeof *should) != 0 && !isnan(should[i])) {
                fail_msg("%s: element %zu is %.9g; the definition gives %.9g", rounded[k], i,
                         (double)((const float *)y->data)[i], (double)should[i]);
            }
            assert_int_equal(isnan(((const float *)y->data)[i]) != 0, isnan(should[i]) != 0);
        }
        net_backward(&net);
        for (size_t i = 0; i < net.n_outputs; i++) {
            assert_true(((const float *)x->grad)[i] == (float)net.cotangents[i]);
        }
        free(should);
        free(plain);
        net_end(&net);
    }
}

/* QuantizeLinear and DequantizeLinear: one loop where nobody else reads the codes, and the definition's bits. */
static const struct {
    const char *body;
    bool one;
} coded[] = {
    {"<uint8 z = {3}, float s = {0.01}> { q = QuantizeLinear(x, s, z)  y = DequantizeLinear(q, s, z) }", true},
    {"<int8 z = {-5}, float[1] s = {0.003}> { q = QuantizeLinear(x, s, z)  y = DequantizeLinear(q, s, z) }", true},
    {"<uint16 z = {30000}, float s = {2e-5}> { q = QuantizeLinear(x, s, z)  y = DequantizeLinear(q, s, z) }", true},
    {"<float s = {0.004}> { q = QuantizeLinear<output_dtype: int = 3>(x, s)  y = DequantizeLinear(q, s) }", true},
    {"<float s = {0}> { q = QuantizeLinear<output_dtype: int = 3>(x, s)  y = DequantizeLinear(q, s) }", true},
    {"<uint8 z = {3}, float s = {0.01}> { q = QuantizeLinear(x, s, z)  a = DequantizeLinear(q, s, z)  "
     "b = DequantizeLinear(q, s, z)  c = Relu(a)  y = Add(b, c) }",
     true},
    {"<uint8 z = {3}, float s = {0.01}> { q = QuantizeLinear(x, s, z)  a = DequantizeLinear(q, s, z)  "
     "b = Cast<to: int = 1>(q)  y = Add(a, b) }",
     false},
    {"<uint8 z = {3}, float s = {0.01}, float t = {0.02}> { q = QuantizeLinear(x, s, z)  y = DequantizeLinear(q, t, z) "
     "}",
     false},
    {"<uint8 z = {3}, float s = {0.01}> { q = QuantizeLinear(x, s, z)  y = DequantizeLinear(q, s) }", false},
    {"<uint8[2] z = {3, 5}, float[2] s = {0.01, 0.02}> { q = QuantizeLinear<axis: int = 0>(x, s, z)  y = "
     "DequantizeLinear<axis: int = 0>(q, s, z) }",
     false},
};

static void codes(void **state)
{
    struct vc_engine_options options = {.threads = 2};

    (void)state;
    for (size_t k = 0; k < sizeof coded / sizeof *coded; k++) {
        bool defined = false;
        char body[512];
        struct net net;
        const float *y;
        double *should;

        snprintf(body, sizeof body, "(float[2,9000] x) => (float[2,9000] y) %s", coded[k].body);
        net = net_begin(body, VC_GRAPH_F32, &options);
        should = calloc(net.n_outputs, sizeof *should);
        net.inputs[3] = NAN;
        net.inputs[5] = INFINITY;
        net.inputs[7] = -1e30;
        net_plain(&net, should);
        net_forward(&net, &training);
        y = vc_engine_output(net.engine, 0)->data;
        for (size_t i = 0; i < net.n_outputs; i++) {
            if (!(y[i] == (float)should[i])) {
                fail_msg("%s: element %zu is %.9g; the definition gives %.9g", body, i, (double)y[i], should[i]);
            }
        }
        for (size_t i = 0; i < net.engine->n; i++) {
            defined = defined || net.engine->instructions[i].loop < 0;
        }
        assert_int_equal(defined, !coded[k].one);
        free(should);
        net_end(&net);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients), cmocka_unit_test(gradients_frozen),
        cmocka_unit_test(forward),   cmocka_unit_test(rounding),
        cmocka_unit_test(codes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
