/* safetensors_outs.h - what the outputs of a job are called in a safetensors file, and which types and shapes they have
 * there: the layout. Knows no file. */
#ifndef VC_FORMATS_SAFETENSORS_OUTS_H
#define VC_FORMATS_SAFETENSORS_OUTS_H

#include "core/base/arena.h"
#include "core/run/sink.h"
#include "formats/safetensors/safetensors.h"

#define VC_SAFETENSORS_PACKINGS 4 /* kinds in one file */

/* One tensor of the file. */
struct safetensors_record {
    const char *name;
    const char *dtype; /* as the format calls it */
    unsigned n_dims;
    const uint64_t *shape;
    uint64_t n_bytes;
    struct vc_packed packed; /* packing NULL: the output's bytes as they come */
    size_t out;              /* the output it holds; VC_NO_TENSOR: it is `constant` */
    const void *constant;    /* n_bytes */
};

struct safetensors_records {
    struct vc_arena arena; /* names, shapes and constants that are not the job's */
    size_t n;
    struct safetensors_record *records; /* in the order of the file */
    size_t *of_out;                     /* record that holds an output; nothing for second names */
    bool *told;                         /* by output: its name and neighbours say how it is quantized */
    size_t n_packings;
    struct vc_packed packings[VC_SAFETENSORS_PACKINGS]; /* of each kind the one that needs the most room */
};

/* source: the safetensors model that the outputs of form RAW come from, or NULL. Fails for what the format or the
 * layout cannot hold; the sentence begins with the tensor's name. Release also after a failure. */
enum vc_status vc_safetensors_records_make(struct vc_ctx *ctx, const struct vc_out_list *outs,
                                           const struct safetensors *source, const struct vc_dialect *dialect,
                                           struct safetensors_records *out);
void vc_safetensors_records_release(struct vc_ctx *ctx, struct safetensors_records *records);

/* Room for n_bytes of codes in their packed form; 0 where none are packed. */
size_t vc_safetensors_pack_bound(const struct safetensors_records *records, size_t n_bytes);

/* The format's name for a type; NULL: it has none. */
const char *vc_safetensors_dtype_name(enum vc_dtype dtype);

#endif
