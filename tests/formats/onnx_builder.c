/* onnx_builder.c - see onnx_builder.h. */
#include "onnx_builder.h"

#include <string.h>

void pb_varint(struct bytes *b, uint64_t v)
{
    while (v >= 0x80) {
        bytes_fill(b, (int)(v & 0x7f) | 0x80, 1);
        v >>= 7;
    }
    bytes_fill(b, (int)v, 1);
}

void pb_int(struct bytes *b, unsigned field, uint64_t v)
{
    pb_varint(b, (uint64_t)field << 3);
    pb_varint(b, v);
}

void pb_data(struct bytes *b, unsigned field, const void *data, size_t n)
{
    pb_varint(b, (uint64_t)field << 3 | 2);
    pb_varint(b, n);
    if (n != 0) {
        bytes_add(b, data, n);
    }
}

void pb_text(struct bytes *b, unsigned field, const char *s)
{
    pb_data(b, field, s, strlen(s));
}

void pb_message(struct bytes *b, unsigned field, struct bytes *inner)
{
    pb_data(b, field, inner->p, inner->n);
    bytes_release(inner);
    *inner = (struct bytes){NULL, 0, 0};
}

struct bytes onnx_tensor_header(const char *name, unsigned type, unsigned n_dims, const uint64_t *dims)
{
    struct bytes t = {NULL, 0, 0};
    unsigned d;

    for (d = 0; d < n_dims; d++) {
        pb_int(&t, 1, dims[d]);
    }
    pb_int(&t, 2, type);
    pb_text(&t, 8, name);
    return t;
}

void onnx_raw(struct onnx_builder *g, const char *name, unsigned type, unsigned n_dims, const uint64_t *dims,
              const void *data, size_t n)
{
    struct bytes t = onnx_tensor_header(name, type, n_dims, dims);
    struct bytes counting = {NULL, 0, 0};
    size_t i;

    for (i = 0; data == NULL && i < n; i++) {
        bytes_fill(&counting, (int)(i & 0xff), 1);
    }
    pb_data(&t, 9, data == NULL ? counting.p : data, n);
    bytes_release(&counting);
    pb_message(&g->graph, 5, &t);
}

void onnx_weights(struct onnx_builder *g, const char *name, unsigned rows, unsigned cols)
{
    const uint64_t dims[] = {rows, cols};
    struct bytes values = {NULL, 0, 0};
    unsigned i;

    for (i = 0; i < rows * cols; i++) {
        float x = (float)(i * 7 % 33) - 16.0f;

        bytes_add(&values, &x, sizeof x);
    }
    onnx_raw(g, name, 1, 2, dims, values.p, values.n);
    bytes_release(&values);
}

static void entry(struct bytes *t, const char *key, const char *value)
{
    struct bytes e = {NULL, 0, 0};

    if (value != NULL) {
        pb_text(&e, 1, key);
        pb_text(&e, 2, value);
        pb_message(t, 13, &e);
    }
}

void onnx_external(struct onnx_builder *g, const char *name, unsigned rows, unsigned cols, const char *location,
                   const char *offset, const char *length)
{
    const uint64_t dims[] = {rows, cols};
    struct bytes t = onnx_tensor_header(name, 1, 2, dims);

    entry(&t, "location", location);
    entry(&t, "offset", offset);
    entry(&t, "length", length);
    entry(&t, "checksum", "0123456789012345678901234567890123456789");
    pb_int(&t, 14, 1);
    pb_message(&g->graph, 5, &t);
}

static void put_op(struct onnx_builder *g, const char *op, const char *inputs, const char *output,
                   struct bytes *attribute)
{
    struct bytes node = {NULL, 0, 0};

    while (*inputs != '\0') {
        size_t n = strcspn(inputs, " ");

        pb_data(&node, 1, inputs, n);
        inputs += n + (inputs[n] == ' ');
    }
    pb_text(&node, 2, output);
    pb_text(&node, 4, op);
    if (attribute != NULL) {
        pb_message(&node, 5, attribute);
    }
    pb_message(&g->graph, 1, &node);
}

void onnx_outer(struct onnx_builder *g, const char *op, const char *name, const char *inputs, const char *output,
                const char *const *attributes, struct onnx_builder *graphs, size_t n)
{
    struct bytes node = {NULL, 0, 0};
    size_t i;

    pb_text(&node, 1, inputs);
    pb_text(&node, 2, output);
    if (name[0] != '\0') {
        pb_text(&node, 3, name);
    }
    pb_text(&node, 4, op);
    for (i = 0; i < n; i++) {
        struct bytes a = {NULL, 0, 0};

        pb_text(&a, 1, attributes[i]);
        pb_message(&a, 6, &graphs[i].graph);
        pb_int(&a, 20, 5);
        pb_message(&node, 5, &a);
    }
    pb_message(&g->graph, 1, &node);
}

void onnx_op(struct onnx_builder *g, const char *op, const char *inputs, const char *output)
{
    put_op(g, op, inputs, output, NULL);
}

void onnx_op_with(struct onnx_builder *g, const char *op, const char *inputs, const char *output, const char *attribute,
                  uint64_t value)
{
    struct bytes a = {NULL, 0, 0};

    pb_text(&a, 1, attribute);
    pb_int(&a, 3, value);
    pb_int(&a, 20, 2);
    put_op(g, op, inputs, output, &a);
}

void onnx_op_text(struct onnx_builder *g, const char *op, const char *inputs, const char *output, const char *attribute,
                  const char *text)
{
    struct bytes a = {NULL, 0, 0};

    pb_text(&a, 1, attribute);
    pb_text(&a, 4, text);
    pb_int(&a, 20, 3);
    put_op(g, op, inputs, output, &a);
}

void onnx_constant(struct onnx_builder *g, const char *output, unsigned type, unsigned n_dims, const uint64_t *dims,
                   const void *data, size_t n)
{
    struct bytes t = onnx_tensor_header("value of a node", type, n_dims, dims);
    struct bytes a = {NULL, 0, 0};

    pb_text(&a, 1, "value");
    pb_data(&t, 9, data, n);
    pb_message(&a, 5, &t);
    pb_int(&a, 20, 4);
    put_op(g, "Constant", "", output, &a);
}

void onnx_info(struct onnx_builder *g, unsigned field, const char *name)
{
    struct bytes info = {NULL, 0, 0};

    pb_text(&info, 1, name);
    pb_message(&g->graph, field, &info);
}

struct bytes onnx_finish(struct onnx_builder *g)
{
    struct bytes b = {NULL, 0, 0};
    struct bytes opset = {NULL, 0, 0};

    pb_int(&b, 1, g->ir == 0 ? 8 : g->ir);
    pb_text(&b, 2, "builder");
    pb_message(&b, 7, &g->graph);
    pb_text(&opset, 1, "");
    pb_int(&opset, 2, g->opset == 0 ? 17 : g->opset);
    pb_message(&b, 8, &opset);
    if (g->model.n != 0) {
        bytes_add(&b, g->model.p, g->model.n);
    }
    bytes_release(&g->model);
    *g = (struct onnx_builder){.ir = 0};
    return b;
}
