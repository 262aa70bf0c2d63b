/* net.c - parameters by the names of transformers, and single nodes. See net.h.
 *
 * Names go two ways here: the name of a value in the graph is always the name in transformers with the
 * prefix ("bert.encoder.layer.0.output.dense.weight"); the name in the checkpoint may differ (GGUF:
 * net->rename, old LayerNorms). */
#include "graph/families/net.h"

/* The whole name of a tensor, value or block: with the prefix, or without the "/" that marks whole names. */
static const char *whole_name(struct vc_net *net, const char *name)
{
    return *name == '/' ? name + 1 : vc_net_print(net, "%s%s", net->prefix, name);
}

/* The whole name of a tensor of the checkpoint: several layers may share it. */
static const char *tensor_name(struct vc_net *net, const char *name)
{
    size_t n = net->shared_as != NULL ? strlen(net->shared_as) : 0;

    return whole_name(
        net, n != 0 && strncmp(name, net->shared_as, n) == 0 ? vc_net_print(net, "%s%s", net->shared, name + n) : name);
}

void vc_net_block(struct vc_net *net, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    const char *text = vc_arena_vprintf(net->ctx, net->arena, format, args);
    va_end(args);
    if (text == NULL) {
        net->graph->status = VC_E_NOMEM;
    } else {
        vc_graph_set_block(net->graph, "%s", whole_name(net, text));
    }
}

/* ---- parameters ---- */

/* The tensor in the checkpoint; *name becomes its name there. LayerNorm's tensors were "gamma" and "beta"
 * in old files. */
static size_t find_tensor(struct vc_net *net, const char **name)
{
    const char *own = net->rename == NULL ? *name : net->rename(net, *name);
    size_t index = vc_model_find(net->model, own);
    size_t n = strlen(own);

    if (index == VC_NO_TENSOR && n > 17 && strcmp(own + n - 17, ".LayerNorm.weight") == 0) {
        index = vc_model_find(net->model, vc_net_print(net, "%.*sgamma", (int)(n - 6), own));
    } else if (index == VC_NO_TENSOR && n > 15 && strcmp(own + n - 15, ".LayerNorm.bias") == 0) {
        index = vc_model_find(net->model, vc_net_print(net, "%.*sbeta", (int)(n - 4), own));
    }
    *name = index == VC_NO_TENSOR ? own : net->model->tensors[index].name;
    return index;
}

size_t vc_net_find(struct vc_net *net, const char *name)
{
    const char *own = tensor_name(net, name);

    return find_tensor(net, &own);
}

bool vc_net_has(struct vc_net *net, const char *name)
{
    return net->model == NULL || vc_net_find(net, name) != VC_NO_TENSOR;
}

static const char *shape_text(struct vc_net *net, unsigned n_dims, const uint64_t *shape)
{
    const char *text = "";

    for (unsigned k = 0; k < n_dims && k < 6; k++) {
        text = vc_net_print(net, "%s%s%llu", text, k == 0 ? "" : ", ", (unsigned long long)shape[k]);
    }
    return vc_net_print(net, "[%s%s]", text, n_dims > 6 ? ", ..." : "");
}

/* Finds the tensor and compares its shape with the shape that the configuration demands. False after a
 * problem. With net->stated the shape of the program counts: the tensors will be written anew. */
static bool bind(struct vc_net *net, const struct vc_net_tensor *tensor, struct vc_param_spec *spec)
{
    spec->tensor = tensor_name(net, tensor->name);
    spec->index = VC_NO_TENSOR;
    if (net->model == NULL) {
        return true;
    }
    spec->index = find_tensor(net, &spec->tensor);
    VC_LEAVE_WITH(spec->index == VC_NO_TENSOR,
                  vc_graph_complain(net->graph, "%s: missing, expected %s", spec->tensor,
                                    shape_text(net, tensor->n_dims, tensor->shape)),
                  false);
    net->used[spec->index] = true;
    const struct vc_tensor *t = &net->model->tensors[spec->index];
    if (net->stated) {
        return true;
    }
    VC_LEAVE_WITH(t->n_dims != tensor->n_dims || memcmp(t->shape, tensor->shape, t->n_dims * sizeof *t->shape) != 0,
                  vc_graph_complain(net->graph, "%s: the shape is %s, expected %s by config.json", spec->tensor,
                                    shape_text(net, t->n_dims, t->shape),
                                    shape_text(net, tensor->n_dims, tensor->shape)),
                  false);
    return true;
}

/* Without a tensor, or with a wrong shape, the value is unknown, and nodes behind it say nothing further. */
uint32_t vc_net_param(struct vc_net *net, const struct vc_net_tensor *tensor)
{
    struct vc_param_spec spec = {.n_dims = tensor->n_dims,
                                 .shape = tensor->shape,
                                 .sliced = tensor->sliced,
                                 .axis = tensor->axis,
                                 .first = tensor->first,
                                 .count = tensor->count,
                                 .transposed = tensor->transposed};
    const char *value = tensor->value != NULL ? whole_name(net, tensor->value) : whole_name(net, tensor->name);

    return bind(net, tensor, &spec) ? vc_graph_add_param(net->graph, value, &spec)
                                    : vc_graph_unknown(net->graph, value);
}

uint32_t vc_net_vector(struct vc_net *net, const char *name, int64_t n)
{
    return vc_net_param(net, &(struct vc_net_tensor){.name = name, .n_dims = 1, .shape = {(uint64_t)n}});
}

uint32_t vc_net_matrix(struct vc_net *net, const char *name, int64_t rows, int64_t columns)
{
    return vc_net_param(
        net, &(struct vc_net_tensor){.name = name, .n_dims = 2, .shape = {(uint64_t)rows, (uint64_t)columns}});
}

/* ---- single nodes ---- */

uint32_t vc_net_op(struct vc_net *net, const char *op, const char *value, uint32_t a, uint32_t b)
{
    return vc_net_node(net, op, value, (uint32_t[]){a, b}, 2, NULL, 0);
}

uint32_t vc_net_op1(struct vc_net *net, const char *op, uint32_t a)
{
    return vc_graph_add(net->graph, op, NULL, &a, 1);
}

uint32_t vc_net_add(struct vc_net *net, const char *value, uint32_t a, uint32_t b)
{
    return vc_net_op(net, "Add", value, a, b);
}

uint32_t vc_net_node(struct vc_net *net, const char *op, const char *value, const uint32_t *inputs, unsigned n_inputs,
                     const struct vc_graph_attr *attrs, unsigned n_attrs)
{
    return vc_graph_add_one(net->graph, op, value == NULL ? NULL : whole_name(net, value), inputs, n_inputs, attrs,
                            n_attrs);
}

uint32_t vc_net_cast(struct vc_net *net, uint32_t x, enum vc_dtype dtype)
{
    struct vc_graph_attr to = vc_attr_int("to", dtype == VC_DTYPE_F32 ? 1 : 7); /* ONNX's numbers of types */

    return vc_net_node(net, "Cast", NULL, &x, 1, &to, 1);
}

uint32_t vc_net_reshape(struct vc_net *net, uint32_t x, const int64_t *shape, size_t n)
{
    return vc_net_op(net, "Reshape", NULL, x, vc_graph_add_ints(net->graph, shape, n));
}

uint32_t vc_net_pick(struct vc_net *net, uint32_t x, int64_t axis, int64_t at)
{
    struct vc_graph_attr attr = vc_attr_int("axis", axis);

    return vc_net_node(net, "Gather", NULL, (uint32_t[]){x, vc_graph_add_int(net->graph, at)}, 2, &attr, 1);
}

/* batch and sequence are open; the sizes of a run bind them. */
void vc_net_text_input(struct vc_net *net)
{
    struct vc_dims *dims = &net->graph->dims;
    struct vc_dim shape[2];

    net->batch = vc_dim_symbol(dims, net->exported ? "batch_size" : "batch");
    if (net->cached) {
        net->past = vc_dim_symbol(dims, "past_sequence_length");
    }
    net->sequence = vc_dim_symbol(dims, net->exported ? "sequence_length" : "sequence");
    shape[0] = net->batch;
    shape[1] = net->sequence;
    net->input_ids = vc_graph_add_input(net->graph, "input_ids", VC_DTYPE_I64, shape, 2);
    if (net->cached) {
        shape[1] = vc_dim_add(dims, net->past, net->sequence);
        net->attention_mask = vc_graph_add_input(net->graph, "attention_mask", VC_DTYPE_I64, shape, 2);
        shape[1] = net->sequence;
        net->position_ids = vc_graph_add_input(net->graph, "position_ids", VC_DTYPE_I64, shape, 2);
    }
}

uint32_t vc_net_text_option(struct vc_net *net, const char *name, int64_t otherwise)
{
    const struct vc_dim shape[2] = {net->batch, net->sequence};

    return net->exported ? vc_graph_add_input(net->graph, name, VC_DTYPE_I64, shape, 2)
                         : vc_graph_add_option(net->graph, name, VC_DTYPE_I64, shape, 2, otherwise);
}

/* [batch, decoder_sequence] */
static void decoder_shape(struct vc_net *net, struct vc_dim *shape)
{
    shape[0] = vc_dim_symbol(&net->graph->dims, "batch");
    shape[1] = vc_dim_symbol(&net->graph->dims, "decoder_sequence");
}

uint32_t vc_net_decoder_input(struct vc_net *net)
{
    struct vc_dim shape[2];

    if (net->exported) {
        vc_graph_complain(
            net->graph,
            "config.json: models of the type %s have an encoder and a decoder, of which programs want a "
            "file each, and an ONNX file is made of models with one of them: quantize, prune and merge take "
            "this folder and write one of safetensors, and take the ONNX files that other exporters make of it",
            net->family->type);
    }
    decoder_shape(net, shape);
    return vc_graph_add_input(net->graph, "decoder_input_ids", VC_DTYPE_I64, shape, 2);
}

uint32_t vc_net_decoder_option(struct vc_net *net, const char *name, int64_t otherwise)
{
    struct vc_dim shape[2];

    decoder_shape(net, shape);
    return vc_graph_add_option(net->graph, name, VC_DTYPE_I64, shape, 2, otherwise);
}

uint32_t vc_net_positions(struct vc_net *net)
{
    return net->cached ? net->position_ids : vc_net_positions_of(net, net->input_ids);
}

/* Of padded texts, which begin later, the number behind their last position counts. */
uint32_t vc_net_text_length(struct vc_net *net)
{
    struct vc_graph_attr keep = vc_attr_int("keepdims", 0);

    if (!net->cached) {
        return vc_net_cast(net, vc_net_pick(net, vc_net_op1(net, "Shape", net->input_ids), 0, 1), VC_DTYPE_F32);
    }
    uint32_t x = vc_net_cast(net, net->position_ids, VC_DTYPE_F32);
    x = vc_net_node(net, "ReduceMax", NULL, &x, 1, &keep, 1);
    return vc_net_add(net, NULL, x, vc_graph_add_float(net->graph, 1));
}

/* Range(0, Shape(ids)[1], 1): in the graph the length stays the symbol "sequence". */
uint32_t vc_net_positions_of(struct vc_net *net, uint32_t ids)
{
    uint32_t shape = vc_net_op1(net, "Shape", ids);
    uint32_t n = vc_net_pick(net, shape, 0, 1);

    return vc_graph_add(net->graph, "Range", NULL,
                        (uint32_t[]){vc_graph_add_int(net->graph, 0), n, vc_graph_add_int(net->graph, 1)}, 3);
}

/* Outputs have names of their own: a value that is called otherwise is handed on. */
void vc_net_output(struct vc_net *net, uint32_t value, const char *name)
{
    vc_graph_set_block(net->graph, NULL);
    vc_graph_add_output(net->graph, vc_graph_add(net->graph, "Identity", name, &value, 1));
}
