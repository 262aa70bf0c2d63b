/* inspect.h - what vcompress inspect found, for its two ways of saying it. */
#ifndef VC_TOOLS_INSPECT_H
#define VC_TOOLS_INSPECT_H

#include <vcompress/vcompress.h>

#include "tools/app.h"
#include "tools/json_writer.h"

struct census {
    uint64_t n_tensors, n_elems, bytes;
};

struct inspection {
    const struct vc_model *model;
    size_t n_tensors;               /* all of them */
    size_t n_own;                   /* without scales and zero points */
    size_t n_quantized;             /* of n_own */
    size_t n_tied;                  /* second names of others */
    uint64_t n_params, value_bytes; /* tied ones once; parameters are weights */
    bool compressed;
    struct census census[VC_DTYPE_COUNT];
    uint64_t int8_bytes, fp16_bytes; /* 0: not known */
    struct vc_value_stats *stats;    /* one per tensor; NULL without --stats */
};

/* False: no memory. */
bool print_inspection(struct app *app, const struct inspection *in);

/* The document vcompress.inspect/1; data is a struct inspection. */
void write_inspection(struct json *json, const void *data);

/* "int8/group:128/asym" for a quantized tensor, into a buffer of CELL_BYTES. */
char *fmt_scheme(char *buf, const struct vc_quant *quant);

#endif
