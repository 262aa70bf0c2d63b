/* safetensors_outs.h - what the outputs of a job are called in a safetensors file, and which types and shapes they have
 * there: the layout. Knows no file. */
#pragma once

#include "formats/safetensors/safetensors.h"

#define VC_SAFETENSORS_PACKINGS 4 /* kinds in one file */

/* One tensor of the file. There may be a million of them, so they are kept small: vc_safetensors_record_entry makes the
 * rest. */
struct safetensors_record {
    const char *name;
    uint64_t offset;            /* from the start of its file; safetensors_files.c sets it, and `file` */
    const struct vc_laid *laid; /* as the dialect lays it; NULL: the output's bytes as they come */
    uint32_t out;               /* the output it holds; VC_SAFETENSORS_CONSTANT: it is laid->constant */
    uint32_t file;
};

#define VC_SAFETENSORS_CONSTANT UINT32_MAX

struct safetensors_records {
    const struct vc_out_list *outs;
    const struct safetensors *source; /* that outputs of form RAW come from; NULL: none do */
    struct vc_arena arena;            /* names, shapes and constants that are not the job's */
    size_t n;
    struct safetensors_record *records; /* in the order of the file */
    uint32_t *of_out;                   /* record that holds an output; nothing for second names */
    bool *told;                         /* by output: its name and neighbours say how it is quantized */
    bool any_untold;                    /* there are codes of which they do not */
    bool any_alias;                     /* there are second names */
    uint64_t most_gathered;             /* bytes of the largest one whose tiles share words */
    size_t n_packings;
    struct vc_packed packings[VC_SAFETENSORS_PACKINGS]; /* of each kind the one that needs the most room */
};

/* model: what the outputs come from; source: its inside, where it is safetensors, or NULL. Fails for what the format or
 * the layout cannot hold; the sentence begins with the tensor's name. Release also after a failure. */
enum vc_status vc_safetensors_records_make(struct vc_ctx *ctx, const struct vc_out_list *outs,
                                           const struct vc_model *model, const struct safetensors *source,
                                           const struct vc_dialect *dialect, struct safetensors_records *out);

/* The record as the header has it; its offset and order are not set. */
struct safetensors_entry vc_safetensors_record_entry(const struct safetensors_records *records,
                                                     const struct safetensors_record *record);

void vc_safetensors_records_release(struct vc_ctx *ctx, struct safetensors_records *records);

/* Room for n_bytes of codes in their packed form; 0 where none are packed. */
size_t vc_safetensors_pack_bound(const struct safetensors_records *records, size_t n_bytes);

/* The number of the format's type in vc_safetensors_dtypes; vc_safetensors_n_dtypes: it has none. */
size_t vc_safetensors_type_of(enum vc_dtype dtype);
