/* onnx_programs.h - programs of ONNX files: what the file says is expected, or that it is refused. Not part of the
 * library. */
#pragma once

#include "core/model/program.h"
#include "formats_test.h"
#include "onnx_builder.h"
#include "scratch.h"

/* The program of the file in.onnx; the model is to be closed. */
enum vc_status read_program(struct vc_ctx *ctx, struct vc_arena *arena, struct vc_model **model,
                            struct vc_program *program);
/* The builder's file, which has to be good: read, and given to `look`. */
void expect_program(struct onnx_builder *g, void (*look)(const struct vc_program *program));
/* The file can be opened, its program is refused. */
void expect_refused(struct onnx_builder *g, enum vc_status expected, const char *words);

void pb_float(struct bytes *b, unsigned field, float f);
/* The name and type (0: none) of an attribute. */
struct bytes named(const char *name, unsigned type);
/* A node y = Op (x) with one attribute, whose fields are given; they are released. */
void add_node(struct onnx_builder *g, struct bytes *attribute);
/* The same with a tensor as the attribute. */
void add_tensor(struct onnx_builder *g, struct bytes *tensor);
