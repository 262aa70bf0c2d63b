/* graph_json.c - what a model computes as one JSON document, schema vcompress.graph/1; its members are in graph.inc. */
#include <vcompress/graph.h>

#include "report/document_json.h"
#include "report/document_rows.h"

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

/* An attribute of ONNX, under its name. Lists stand in one line. */
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

/* The object of a node's attributes; empty where it has none. */
static void write_attrs(struct vc_json *json, const struct vc_graph_node *node)
{
    vc_json_begin(json, "attributes", '{', true);
    for (unsigned i = 0; i < node->n_attrs; i++) {
        write_attr(json, &node->attrs[i]);
    }
    vc_json_end(json, '}');
}

#include "report/rows_write.inc"

#include "report/graph.inc"

enum vc_status vc_write_graph(struct vc_ctx *ctx, const struct vc_document *d, char **text)
{
    return document_graph(ctx, text, d->of, d->blocks, d->model);
}
