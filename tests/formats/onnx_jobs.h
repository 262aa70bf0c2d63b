/* onnx_jobs.h - jobs from an ONNX file to another, in a folder of the test's own. Not part of the library. */
#pragma once

#include "formats_test.h"

#include "onnx_builder.h"
#include "tasks.h"

/* Floats of n bytes. */
struct bytes counting(size_t n);
/* in.onnx, which has weights in w.bin. */
void save_external(void);

/* Two weights w and v, three numbers n. */
struct onnx_builder small_graph(uint64_t ir, uint64_t opset);

/* ---- jobs ---- */

/* LINEAR, NBITS: a copy whose codes of 4 bits get that form, DequantizeLinear or MatMulNBits. */
enum what { COPY, LINEAR, NBITS, INT8, ASYMMETRIC, TENSORS, GROUPS, INT4, FP16, BF16, BACK };

extern const char *beside; /* another output of the same run; NULL: none */

enum vc_status convert(struct vc_ctx *ctx, const char *from, const char *to, enum what what, bool force);
void must_convert(const char *from, const char *to, enum what what);
void must_not_convert(const char *from, const char *to, enum what what, const char *words);
