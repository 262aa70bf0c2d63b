/* row_array.h - an array of a file whose first dimension counts rows, read row by row in any order. Arrays that are
 * compressed, or small beside the memory limit, are held in memory as they are stored; others are read by range. */
#pragma once

#include "core/model/source.h"
#include "passes/graph_params.h"

struct vc_row_array {
    const struct vc_model *model; /* outlives it */
    size_t tensor;
    size_t n_elems; /* of a row */
    size_t n_bytes; /* of a row */
    void *held;     /* NULL: it is read from the file */
    void *row;      /* the last row that was read from there */
};

/* The tensor has rows. Freed with vc_row_array_close, after a failure, too. */
enum vc_status vc_row_array_open(struct vc_ctx *ctx, const struct vc_model *model, size_t tensor,
                                 struct vc_row_array *array);
void vc_row_array_close(struct vc_ctx *ctx, struct vc_row_array *array);

/* Row `number` as it is stored, valid until the next one is read. */
enum vc_status vc_row_array_read(struct vc_ctx *ctx, const struct vc_row_array *array, uint64_t number,
                                 const void **out);

/* Row `number` is read soon: the system may fetch it meanwhile. */
void vc_row_array_ahead(const struct vc_row_array *array, uint64_t number);
