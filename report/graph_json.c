/* graph_json.c - what a model computes as one JSON document, schema vcompress.graph/1 (graph-1.schema.json). */
#include <vcompress/graph.h>

#include "core/text/json_write.h"

static const char *const kinds[] = {"input", "parameter", "constant", "result"};

/* A number, or the expression in the sizes of the inputs. */
static void write_dim(struct vc_json *json, const char *key, const struct vc_graph *graph, struct vc_dim dim)
{
    char text[256];

    if (dim.expression == 0 && dim.size >= 0) {
        vc_json_uint(json, key, (uint64_t)dim.size);
    } else {
        vc_json_string(json, key, vc_graph_dim_text(graph, dim, text, sizeof text));
    }
}

/* The number with the sizes that are bound; null where one is not. */
static void write_number(struct vc_json *json, const char *key, const struct vc_graph *graph, struct vc_dim dim)
{
    int64_t n = vc_graph_dim_value(graph, dim);

    vc_json_uint_if(json, key, n >= 0, (uint64_t)n);
}

static void write_shape(struct vc_json *json, const struct vc_graph *graph, const struct vc_graph_value *value)
{
    vc_json_begin(json, "shape", '[', true);
    for (unsigned k = 0; k < value->n_dims; k++) {
        write_dim(json, NULL, graph, value->shape[k]);
    }
    vc_json_end(json, ']');
}

static void write_sizes(struct vc_json *json, const struct vc_graph *graph)
{
    const char *name;

    vc_json_begin(json, "sizes", '[', false);
    for (uint32_t k = 0; (name = vc_graph_symbol(graph, k)) != NULL; k++) {
        int64_t size = vc_graph_symbol_size(graph, k);

        vc_json_begin(json, NULL, '{', true);
        vc_json_string(json, "name", name);
        vc_json_uint_if(json, "size", size >= 0, (uint64_t)size);
        vc_json_end(json, '}');
    }
    vc_json_end(json, ']');
}

/* Numbers of values. */
static void write_list(struct vc_json *json, const char *key, const uint32_t *values, unsigned n)
{
    vc_json_begin(json, key, '[', true);
    for (unsigned k = 0; k < n; k++) {
        vc_json_uint_if(json, NULL, values[k] != VC_NO_VALUE, values[k]);
    }
    vc_json_end(json, ']');
}

static void write_ends(struct vc_json *json, const char *key, const struct vc_graph *graph, uint32_t n,
                       uint32_t (*end)(const struct vc_graph *graph, uint32_t k))
{
    vc_json_begin(json, key, '[', true);
    for (uint32_t k = 0; k < n; k++) {
        vc_json_uint(json, NULL, end(graph, k));
    }
    vc_json_end(json, ']');
}

static void write_blocks(struct vc_json *json, const struct vc_graph *graph, const struct vc_graph_blocks *blocks)
{
    vc_json_begin(json, "blocks", '[', false);
    for (uint32_t k = 0; k < blocks->n; k++) {
        const struct vc_graph_block *block = &blocks->blocks[k];

        vc_json_begin(json, NULL, '{', true);
        vc_json_string(json, "path", block->path);
        vc_json_uint_if(json, "parent", block->parent != VC_NO_BLOCK, block->parent);
        vc_json_uint(json, "like", block->like);
        vc_json_uint(json, "nodes", block->n_nodes);
        vc_json_uint(json, "parameters", block->n_params);
        vc_json_known(json, "bytes", block->bytes);
        write_dim(json, "macs", graph, block->macs);
        write_number(json, "macs_value", graph, block->macs);
        vc_json_uint_if(json, "output", block->output != VC_NO_VALUE, block->output);
        vc_json_end(json, '}');
    }
    vc_json_end(json, ']');
}

static void write_attr(struct vc_json *json, const struct vc_graph_attr *attr)
{
    switch (attr->kind) {
    case VC_ATTR_INT:
        vc_json_int(json, attr->name, attr->i);
        break;
    case VC_ATTR_FLOAT:
        vc_json_real(json, attr->name, attr->f);
        break;
    case VC_ATTR_STRING:
        vc_json_string(json, attr->name, attr->s);
        break;
    case VC_ATTR_INTS:
    case VC_ATTR_FLOATS:
        vc_json_begin(json, attr->name, '[', true);
        for (size_t k = 0; k < attr->n; k++) {
            if (attr->kind == VC_ATTR_INTS) {
                vc_json_int(json, NULL, attr->ints[k]);
            } else {
                vc_json_real(json, NULL, attr->floats[k]);
            }
        }
        vc_json_end(json, ']');
        break;
    }
}

static void write_nodes(struct vc_json *json, const struct vc_graph *graph, const struct vc_graph_blocks *blocks)
{
    vc_json_begin(json, "nodes", '[', false);
    for (uint32_t k = 0; k < vc_graph_node_count(graph); k++) {
        const struct vc_graph_node *node = vc_graph_node(graph, k);

        vc_json_begin(json, NULL, '{', true);
        vc_json_string(json, "op", node->op);
        vc_json_string(json, "name", node->name);
        vc_json_uint(json, "block", blocks->of_node[k]);
        write_list(json, "inputs", node->inputs, node->n_inputs);
        write_list(json, "outputs", node->outputs, node->n_outputs);
        vc_json_begin(json, "attributes", '{', true);
        for (unsigned i = 0; i < node->n_attrs; i++) {
            write_attr(json, &node->attrs[i]);
        }
        vc_json_end(json, '}');
        write_dim(json, "macs", graph, node->macs);
        if (node->expert) {
            vc_json_bool(json, "expert", true);
        }
        vc_json_end(json, '}');
    }
    vc_json_end(json, ']');
}

static void write_values(struct vc_json *json, const struct vc_graph *graph)
{
    vc_json_begin(json, "values", '[', false);
    for (uint32_t k = 0; k < vc_graph_value_count(graph); k++) {
        const struct vc_graph_value *value = vc_graph_value(graph, k);

        vc_json_begin(json, NULL, '{', true);
        vc_json_string(json, "name", value->name);
        vc_json_string(json, "kind", kinds[value->kind]);
        vc_json_string(json, "dtype", vc_dtype_name(value->dtype));
        write_shape(json, graph, value);
        if (value->optional) {
            vc_json_int(json, "otherwise", value->otherwise);
        }
        vc_json_end(json, '}');
    }
    vc_json_end(json, ']');
}

static void write_params(struct vc_json *json, const struct vc_graph *graph)
{
    vc_json_begin(json, "parameters", '[', false);
    for (uint32_t k = 0; k < vc_graph_param_count(graph); k++) {
        const struct vc_graph_param *param = vc_graph_param(graph, k);

        vc_json_begin(json, NULL, '{', true);
        vc_json_string(json, "tensor", param->tensor);
        vc_json_uint(json, "value", param->value);
        vc_json_begin(json, "shape", '[', true);
        for (unsigned i = 0; i < param->n_dims; i++) {
            vc_json_uint(json, NULL, param->shape[i]);
        }
        vc_json_end(json, ']');
        if (param->sliced) {
            vc_json_begin(json, "slice", '{', true);
            vc_json_uint(json, "axis", param->axis);
            vc_json_uint(json, "first", param->first);
            vc_json_uint(json, "count", param->count);
            vc_json_end(json, '}');
        } else {
            vc_json_null(json, "slice");
        }
        vc_json_bool(json, "transposed", param->transposed);
        vc_json_uint_if(json, "tied_to", param->tied_to != VC_NO_PARAM, param->tied_to);
        vc_json_end(json, '}');
    }
    vc_json_end(json, ']');
}

/* Where there are none, nothing is said about them. */
static void write_experts(struct vc_json *json, const struct vc_graph *graph)
{
    uint32_t per_token;
    uint32_t n = vc_graph_experts(graph, &per_token);

    if (n != 0) {
        vc_json_begin(json, "experts", '{', true);
        vc_json_uint(json, "count", n);
        vc_json_uint(json, "per_token", per_token);
        vc_json_end(json, '}');
    }
}

enum vc_status vc_graph_json(struct vc_ctx *ctx, const struct vc_graph *graph, const struct vc_graph_blocks *blocks,
                             const struct vc_model *model, char **text)
{
    const struct vc_graph_block *all = &blocks->blocks[0];
    struct vc_text document;
    struct vc_json json;

    vc_json_open(&json, &document, ctx, '{', "vcompress.graph/1");
    vc_json_string(&json, "version", vc_version());
    vc_json_begin(&json, "model", '{', true);
    vc_json_string(&json, "path", model == NULL ? NULL : vc_model_path(model));
    vc_json_string(&json, "format", model == NULL ? NULL : vc_model_format(model));
    vc_json_end(&json, '}');
    vc_json_uint(&json, "opset", VC_GRAPH_OPSET);
    vc_json_begin(&json, "notes", '[', false);
    for (uint32_t k = 0; vc_graph_note(graph, k) != NULL; k++) {
        vc_json_string(&json, NULL, vc_graph_note(graph, k));
    }
    vc_json_end(&json, ']');
    write_sizes(&json, graph);
    vc_json_begin(&json, "totals", '{', true);
    vc_json_uint(&json, "nodes", all->n_nodes);
    vc_json_uint(&json, "parameters", all->n_params);
    vc_json_uint(&json, "active_parameters", all->n_active);
    vc_json_known(&json, "bytes", all->bytes);
    write_dim(&json, "macs", graph, all->macs);
    write_number(&json, "macs_value", graph, all->macs);
    vc_json_end(&json, '}');
    write_experts(&json, graph);
    write_ends(&json, "inputs", graph, vc_graph_input_count(graph), vc_graph_input);
    write_ends(&json, "outputs", graph, vc_graph_output_count(graph), vc_graph_output);
    write_blocks(&json, graph, blocks);
    write_nodes(&json, graph, blocks);
    write_params(&json, graph);
    write_values(&json, graph);
    vc_json_end(&json, '}');
    vc_text_add(&document, "\n");
    return vc_json_finish(&json, text);
}
