/* formats.h - the table of formats. Adding a format is one entry here and its own files. */
#ifndef VC_FORMATS_FORMATS_H
#define VC_FORMATS_FORMATS_H

#include "core/sink.h"
#include "core/source.h"
#include "formats/infile.h"

struct vc_format {
    const char *name;      /* "npz" */
    const char *extension; /* ".npz", for default output names */
    /* Confidence 0..100 from the first bytes (up to VC_PROBE_BYTES) and the size of the file. */
    int (*probe)(const unsigned char *head, size_t n, uint64_t file_bytes);
    /* Fills model (all but ctx, path, format, file_bytes and by_name, which vc_model_open sets), takes over file. */
    enum vc_status (*open)(struct vc_ctx *ctx, struct vc_infile *file, const struct vc_open_options *options,
                           struct vc_model *model);
};

#define VC_PROBE_BYTES 512

extern const struct vc_format vc_format_npy;
extern const struct vc_format vc_format_npz;

#endif
