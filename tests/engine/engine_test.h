/* engine_test.h - what tests of the engine share: a graph from a text, its weights with numbers in them, an engine with
 * memory, and its values from doubles and back. */
#pragma once

#include "core/base/ctx.h"
#include "core/model/memory_model.h"
#include "engine/engine.h"
#include "graph/build.h"
#include "graph/forward.h"
#include "kernels/kernels.h"
#include "passes/graph_params.h"
#include "support.h"

struct net {
    struct vc_ctx *ctx;
    struct vc_graph *graph;
    struct vc_weights *weights;
    struct vc_engine *engine;
    void *memory;
    uint64_t random; /* state of the numbers */
    double *inputs;  /* of all inputs, one after the other */
    double *cotangents;
    size_t n_inputs, n_outputs;
};

/* From -1 to 1, by turns of a counter. */
static inline double net_random(struct net *net)
{
    net->random = net->random * 6364136223846793005u + 1442695040888963407u;
    return (double)(int64_t)(net->random >> 11) / 4503599627370496.0 - 1;
}

static inline void net_put(const struct vc_weights *w, void *to, size_t k, double value)
{
    if (w->precision == VC_GRAPH_F64) {
        ((double *)to)[k] = value;
    } else {
        ((float *)to)[k] = (float)value;
    }
}

static inline double net_get(const struct vc_weights *w, const void *from, size_t k)
{
    return w->precision == VC_GRAPH_F64 ? ((const double *)from)[k] : (double)((const float *)from)[k];
}

/* Text of a graph without what every file begins with: parameters are inputs whose names begin with "p". */
static inline void net_parse(struct net *net, const char *body)
{
    char text[8192];
    char props[2048] = "";
    size_t at = 0;

    for (char c = 'a'; c <= 'h'; c++) {
        char name[3] = {'p', c, '\0'};
        char find[8];

        snprintf(find, sizeof find, " %s", name);
        if (strstr(body, find) != NULL) {
            at += (size_t)snprintf(props + at, sizeof props - at, "%s\"vcompress.parameter:%s\" : \"%s\"",
                                   at != 0 ? ", " : "", name, name);
        }
    }
    snprintf(text, sizeof text, "<ir_version: 10, opset_import: [\"\" : 23]%s%s%s>\ng %s\n",
             at != 0 ? ", metadata_props: [" : "", props, at != 0 ? "]" : "", body);
    if (vc_graph_parse_text(net->ctx, text, strlen(text), NULL, &net->graph) != VC_OK) {
        fail_msg("%s\n%s", vc_ctx_message(net->ctx), text);
    }
}

static inline void net_weights(struct net *net, enum vc_graph_precision precision)
{
    assert_int_equal(vc_weights_make(net->ctx, net->graph, precision, true, NULL, &net->weights), VC_OK);
    assert_int_equal(vc_weights_allocate(net->weights), VC_OK);
    for (size_t k = 0; k < net->weights->n; k++) {
        for (size_t i = 0; i < net->weights->items[k].n; i++) {
            double x = net_random(net);

            net_put(net->weights, net->weights->items[k].data, i, net->weights->items[k].statistic ? 1 + x / 2 : x);
        }
    }
}

static inline void net_engine(struct net *net, const struct vc_engine_options *options)
{
    if (vc_engine_make(net->ctx, net->graph, net->weights, options, &net->engine) != VC_OK) {
        fail_msg("%s", vc_ctx_message(net->ctx));
    }
    net->memory = vc_alloc(net->ctx, VC_TAG_TILES, (size_t)vc_engine_bytes(net->engine));
    assert_non_null(net->memory);
    memset(net->memory, 0xff, (size_t)vc_engine_bytes(net->engine)); /* NaN: nothing may count on what was there */
    vc_engine_attach(net->engine, net->memory);
}

/* Numbers for inputs and for the gradients of outputs; integers from 0 to 3. */
static inline void net_numbers(struct net *net)
{
    size_t n = 0;

    for (size_t k = 0; k < vc_engine_input_count(net->engine); k++) {
        net->n_inputs += vc_engine_input(net->engine, k)->n;
    }
    for (size_t k = 0; k < vc_engine_output_count(net->engine); k++) {
        net->n_outputs += vc_engine_output(net->engine, k)->n;
    }
    net->inputs = vc_alloc_array(net->ctx, VC_TAG_MISC, net->n_inputs + 1, sizeof(double));
    net->cotangents = vc_alloc_array(net->ctx, VC_TAG_MISC, net->n_outputs + 1, sizeof(double));
    for (size_t k = 0; k < vc_engine_input_count(net->engine); k++) {
        for (size_t i = 0; i < vc_engine_input(net->engine, k)->n; i++) {
            double x = net_random(net);

            net->inputs[n++] = vc_engine_input(net->engine, k)->integers ? (double)(int)((x + 1) * 2) : x;
        }
    }
    for (size_t i = 0; i < net->n_outputs; i++) {
        net->cotangents[i] = net_random(net);
    }
}

static inline void net_put_inputs(struct net *net)
{
    size_t n = 0;

    for (size_t k = 0; k < vc_engine_input_count(net->engine); k++) {
        const struct vc_engine_value *in = vc_engine_input(net->engine, k);

        for (size_t i = 0; i < in->n; i++, n++) {
            if (in->data == NULL) {
                continue;
            }
            if (in->integers) {
                ((int64_t *)in->data)[i] = (int64_t)net->inputs[n];
            } else {
                net_put(net->weights, in->data, i, net->inputs[n]);
            }
        }
    }
}

static inline void net_forward(struct net *net, const struct vc_engine_pass *pass)
{
    net_put_inputs(net);
    assert_int_equal(vc_engine_forward(net->engine, pass), VC_OK);
}

static inline void net_put_cotangents(struct net *net)
{
    size_t n = 0;

    for (size_t k = 0; k < vc_engine_output_count(net->engine); k++) {
        const struct vc_engine_value *out = vc_engine_output(net->engine, k);

        for (size_t i = 0; i < out->n; i++, n++) {
            if (out->grad != NULL) {
                net_put(net->weights, out->grad, i, net->cotangents[n]);
            }
        }
    }
}

static inline void net_backward(struct net *net)
{
    net_put_cotangents(net);
    assert_int_equal(vc_engine_backward(net->engine), VC_OK);
}

/* Sum over outputs of cotangent * output. */
static inline double net_objective(const struct net *net)
{
    double sum = 0;
    size_t n = 0;

    for (size_t k = 0; k < vc_engine_output_count(net->engine); k++) {
        const struct vc_engine_value *out = vc_engine_output(net->engine, k);

        for (size_t i = 0; i < out->n; i++, n++) {
            sum += net->cotangents[n] * net_get(net->weights, out->data, i);
        }
    }
    return sum;
}

static inline struct net net_begin(const char *body, enum vc_graph_precision precision,
                                   const struct vc_engine_options *options)
{
    struct net net = {.ctx = test_ctx(), .random = 1};

    net_parse(&net, body);
    net_weights(&net, precision);
    net_engine(&net, options);
    net_numbers(&net);
    return net;
}

/* ---- the plain loops of graph/, which define what the engine computes ---- */

struct net_plain {
    const struct net *net;
    double *out;
    size_t n;
};

static inline enum vc_status net_plain_param(struct vc_ctx *c, void *user, const struct vc_graph_param *param,
                                             void *elements)
{
    const struct net *net = ((struct net_plain *)user)->net;
    const struct vc_weight *item = vc_weights_find(net->weights, param->tensor);
    bool f64 = net->weights->precision == VC_GRAPH_F64;
    const struct vc_memory_tensor tensor = {item->name, f64 ? VC_DTYPE_F64 : VC_DTYPE_F32, item->n_dims, item->shape,
                                            item->data};
    struct vc_place place = vc_place_of_param(param);
    struct vc_model *model = NULL;

    assert_non_null(vc_kernels_get(c));
    assert_int_equal(vc_memory_model_create(c, &tensor, 1, &model), VC_OK);
    assert_int_equal(vc_place_values(c, model, 0, &place, f64, elements), VC_OK);
    vc_model_close(model);
    return VC_OK;
}

static inline enum vc_status net_plain_input(struct vc_ctx *c, void *user, uint32_t k, struct vc_run_value *value)
{
    const struct net *net = ((struct net_plain *)user)->net;
    const struct vc_engine_value *in = vc_engine_input(net->engine, k);
    size_t at = 0;

    for (uint32_t i = 0; i < k; i++) {
        at += (size_t)vc_engine_input(net->engine, i)->n;
    }
    *value = (struct vc_run_value){.n_dims = in->n_dims, .n = (size_t)in->n, .is_real = !in->integers};
    memcpy(value->shape, in->shape, sizeof value->shape);
    value->data = vc_alloc_array(c, VC_TAG_TILES, value->n + 1, 8);
    for (size_t i = 0; i < value->n; i++) {
        if (in->integers) {
            ((int64_t *)value->data)[i] = (int64_t)net->inputs[at + i];
        } else {
            net_put(net->weights, value->data, i, net->inputs[at + i]);
        }
    }
    return VC_OK;
}

static inline enum vc_status net_plain_take(struct vc_ctx *c, void *user, uint32_t v, const struct vc_run_value *value)
{
    struct net_plain *plain = user;

    (void)c;
    (void)v;
    for (size_t i = 0; i < value->n; i++) {
        plain->out[plain->n++] = net_get(plain->net->weights, value->data, i);
    }
    return VC_OK;
}

/* What they make of the same numbers: all outputs, one after the other. The context keeps its kernels. */
static inline void net_plain(const struct net *net, double *out)
{
    struct net_plain plain = {.net = net, .out = out};
    const struct vc_run_calls calls = {
        .user = &plain, .param = net_plain_param, .input = net_plain_input, .take = net_plain_take};

    for (uint32_t k = 0; k < net->graph->n_outputs; k++) { /* in their order */
        if (vc_graph_forward(net->ctx, net->graph,
                             net->weights->precision == VC_GRAPH_F64 ? VC_PRECISION_F64 : VC_PRECISION_F32, &calls,
                             &net->graph->outputs[k], 1) != VC_OK) {
            fail_msg("%s", vc_ctx_message(net->ctx));
        }
    }
    assert_int_equal(plain.n, net->n_outputs);
}

/* What the engine gives back, with everything else but the context. */
static inline void net_drop(struct net *net)
{
    vc_free(net->ctx, net->inputs);
    vc_free(net->ctx, net->cotangents);
    vc_free(net->ctx, net->memory);
    vc_engine_free(net->engine);
    vc_weights_free(net->weights);
    vc_graph_close(net->graph);
}

static inline void net_end(struct net *net)
{
    net_drop(net);
    test_ctx_done(net->ctx);
}
