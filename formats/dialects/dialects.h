/* dialects.h - the table of dialects, as formats see it: core/model/dialect.h says what a dialect is. */
#ifndef VC_FORMATS_DIALECTS_H
#define VC_FORMATS_DIALECTS_H

#include <vcompress/job.h>

#include "core/model/dialect.h"

/* The rows, in the order in which programs list them: vc_dialect_<name> is defined in the file of that dialect. */
#define VC_DIALECTS(ROW)    \
    ROW(plain)              \
    ROW(compressed_tensors) \
    ROW(bitsandbytes)       \
    ROW(gguf)               \
    ROW(onnx)

#define VC_DIALECT_DECLARE(name) extern const struct vc_dialect vc_dialect_##name;
VC_DIALECTS(VC_DIALECT_DECLARE)

/* The row that options->layout asks for; *out is NULL for "auto" or nothing, which the format's writer decides. Fails
 * for a name that no row has. */
enum vc_status vc_dialect_asked(struct vc_ctx *ctx, const struct vc_write_options *options,
                                const struct vc_dialect **out);

#endif
