/* scheme.h - the bytes of weights under the names that schemes have (vc_weight_scheme_name). */
#ifndef VC_MEMORY_SCHEME_H
#define VC_MEMORY_SCHEME_H

#include <vcompress/memory.h>

struct vc_scheme_layout {
    const struct scheme_row *row; /* of the table in scheme.c; NULL: blocks of `dtype` along the columns */
    enum vc_dtype dtype;
    unsigned group; /* 0: none */
    bool all;       /* embeddings and the output layer, too; else these stay as they are */
    bool vectors;   /* what has one dimension, too */
};

/* False: there is no scheme of that name. */
bool vc_scheme_find(const char *name, struct vc_scheme_layout *out);

/* UINT64_MAX: too many. */
uint64_t vc_scheme_bytes(const struct vc_scheme_layout *layout, uint64_t n_rows, uint64_t n_columns);

#endif
