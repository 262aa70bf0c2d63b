/* onnx_builder.h - makes small ONNX files in memory, right or wrong in one place. Not part of the library. */
#pragma once

#include "zip_builder.h"

/* Fields of protocol buffers. pb_message releases what it adds. */
void pb_varint(struct bytes *b, uint64_t v);
void pb_int(struct bytes *b, unsigned field, uint64_t v);
void pb_data(struct bytes *b, unsigned field, const void *data, size_t n);
void pb_text(struct bytes *b, unsigned field, const char *s);
void pb_message(struct bytes *b, unsigned field, struct bytes *inner);

struct onnx_builder {
    uint64_t ir, opset; /* 0: 8 and 17 */
    struct bytes graph; /* its fields so far */
    struct bytes model; /* fields behind the graph */
};

/* dims, data_type and name of a TensorProto. */
struct bytes onnx_tensor_header(const char *name, unsigned type, unsigned n_dims, const uint64_t *dims);
/* An initializer with n bytes of raw_data: `data`, or counting up if it is NULL. */
void onnx_raw(struct onnx_builder *g, const char *name, unsigned type, unsigned n_dims, const uint64_t *dims,
              const void *data, size_t n);
/* f32 values, some of them negative. */
void onnx_weights(struct onnx_builder *g, const char *name, unsigned rows, unsigned cols);
/* ... as external data; NULL leaves an entry out. */
void onnx_external(struct onnx_builder *g, const char *name, unsigned rows, unsigned cols, const char *location,
                   const char *offset, const char *length);
/* Names with blanks between them. */
void onnx_op(struct onnx_builder *g, const char *op, const char *inputs, const char *output);
/* ... with one attribute that is a number. */
void onnx_op_with(struct onnx_builder *g, const char *op, const char *inputs, const char *output, const char *attribute,
                  uint64_t value);
/* ... that is a text. */
void onnx_op_text(struct onnx_builder *g, const char *op, const char *inputs, const char *output, const char *attribute,
                  const char *text);
/* A node with graphs inside, the fields of `graphs`, which are empty afterwards; name "": it has none. */
void onnx_outer(struct onnx_builder *g, const char *op, const char *name, const char *inputs, const char *output,
                const char *const *attributes, struct onnx_builder *graphs, size_t n);
/* A Constant node; the tensor in it has a name of its own. */
void onnx_constant(struct onnx_builder *g, const char *output, unsigned type, unsigned n_dims, const uint64_t *dims,
                   const void *data, size_t n);
/* An input (11), output (12) or value_info (13) without a type. */
void onnx_info(struct onnx_builder *g, unsigned field, const char *name);

/* The file; the builder is empty afterwards. */
struct bytes onnx_finish(struct onnx_builder *g);
