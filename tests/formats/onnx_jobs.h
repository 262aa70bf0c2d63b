/* onnx_jobs.h - jobs from an ONNX file to another, in a folder of the test's own. Not part of the library. */
#ifndef VC_TESTS_ONNX_JOBS_H
#define VC_TESTS_ONNX_JOBS_H

#include "formats_test.h"

#include <vcompress/vcompress.h>

#include "onnx_builder.h"

/* ---- files in the folder ---- */

int onnx_set_up(void **state);
int onnx_tear_down(void **state); /* wants it empty */

/* The path, valid for some more calls. */
const char *in_folder(const char *name);
/* Releases what it saves. */
const char *save(const char *name, struct bytes b);
struct bytes load(const char *name);
void expect_same(const char *a, const char *b);
/* The file holds these bytes somewhere. */
bool holds(const char *name, const char *text);
bool exists(const char *name);
void empty_folder(void);
unsigned count_files(void);

/* Floats of n bytes. */
struct bytes counting(size_t n);
/* in.onnx, which has weights in w.bin. */
void save_external(void);

/* Two weights w and v, three numbers n. */
struct onnx_builder small_graph(uint64_t ir, uint64_t opset);

/* ---- jobs ---- */

enum what { COPY, INT8, ASYMMETRIC, TENSORS, GROUPS, FP16, BF16, BACK };

extern char note[256];     /* of the last report */
extern const char *beside; /* another output of the same run; NULL: none */

enum vc_status convert(struct vc_ctx *ctx, const char *from, const char *to, enum what what, bool force);
void must_convert(const char *from, const char *to, enum what what);
void must_refuse(const char *from, const char *to, enum what what, const char *needle);

#endif
