/* safetensors.h - what reader and writer of safetensors share. Layout: docs/formats.md.
 *
 *     u64 LE n | n bytes of JSON, may end in spaces | data to the end of the file, without holes */
#ifndef VC_FORMATS_SAFETENSORS_H
#define VC_FORMATS_SAFETENSORS_H

#include "core/sink.h"
#include "core/source.h"
#include "core/text.h"
#include "formats/infile.h"
#include "formats/safetensors_modules.h"

#define VC_SAFETENSORS_PREFIX_BYTES 8
#define VC_SAFETENSORS_MAX_HEADER   ((uint64_t)100000000)
#define VC_SAFETENSORS_METADATA     "__metadata__"

/* The element types of the format. */
struct safetensors_dtype {
    const char *name;
    unsigned n_bits;
    enum vc_dtype dtype;
};

extern const struct safetensors_dtype safetensors_dtypes[];
extern const size_t safetensors_n_dtypes;

/* A tensor as its header entry has it. */
struct safetensors_entry {
    uint64_t offset, n_bytes; /* in the data */
    const char *name;
    const uint64_t *shape;
    unsigned n_dims;
    unsigned order; /* in the header */
    const struct safetensors_dtype *dtype;
};

/* `self` of a model that was read from a safetensors file. */
struct safetensors {
    struct vc_infile *file;
    uint64_t data_offset;
    struct safetensors_entry *entries; /* by tensor */
    char *names;
    uint64_t *shapes;
    struct vc_text metadata; /* "key":"value",... as JSON, without our manifest */
    bool has_format;         /* the metadata has a "format" */
    struct safetensors_modules modules;
};

/* options->path NULL or dry_run: sizes only. The model may be of any format. */
enum vc_status vc_safetensors_sink_create(struct vc_ctx *ctx, const struct vc_model *model,
                                          const struct vc_write_options *options, struct vc_sink **out);

#endif
