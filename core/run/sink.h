/* sink.h - the writing side of a format.
 *
 * Calls in this order: layout (once; sizes from headers) -> begin (opens a temporary file) -> pack + emit for every
 * piece of every output tensor -> finish (directory, fsync; nothing visible yet) -> commit (rename). free ends it, at
 * any point after create, and removes what was not committed.
 *
 * pack (checksum, compression) may run on many threads at once; a sink that stores the bytes as they come has none.
 * emit stores the result. An `ordered` sink (compressed output) gets emit calls one at a time, in the order of the
 * job's tiles; within an output tensor the pieces then come front to back, while pieces of the item's parts (scales)
 * come between them. Other sinks take emit calls from any thread in any order. Every byte of every output tensor is
 * given exactly once. All other calls come from one thread. */
#pragma once

#include <vcompress/job.h>

#include "core/model/edit.h"
#include "core/model/source.h"

/* A tensor of the output. A source with a million tensors has as many outputs, so the job makes each of these when it
 * is asked for (vc_out_at) and keeps none. */
struct vc_out_tensor {
    const char *name; /* borrowed until the sink is freed */
    const uint64_t *shape;
    uint64_t size_bytes;          /* of the form below */
    size_t source;                /* source tensor it comes from: its main tensor, then its parts are neighbours */
    size_t alias_of;              /* with `alias`: that one */
    const struct vc_quant *quant; /* main tensors that are codes; its parts are output indices. NULL: plain */
    enum vc_dtype dtype;
    unsigned n_dims;
    enum vc_form form;          /* RAW: the bytes of source tensor `source`, header included */
    enum vc_part_role role;     /* CODES: a main tensor, quantized or not; else a part of the main tensor before it */
    enum vc_dtype source_dtype; /* what it was in the source */
    bool kept;                  /* no pass works on it: the values, in whatever form, are those of the source */
    bool beside;                /* a kept tensor of the source that is a part of another, or lies beside its codes */
    bool apart;                 /* a part that goes to a file of its own, which the tee has */
    bool alias;                 /* another name of an output before it: no bytes come */
};

/* How its codes are made; VC_SCHEME_NONE where it is plain. */
static inline enum vc_scheme vc_out_scheme(const struct vc_out_tensor *out)
{
    return out->quant != NULL ? out->quant->scheme : VC_SCHEME_NONE;
}

/* What one pass did to the types of the weights, those included that a later pass changed back or left out. The file of
 * a chain says what the file of its last pass would say, had every pass written one. */
struct vc_out_stage {
    bool retyped;        /* some have another type than before it */
    bool blocks;         /* some are types of blocks behind it */
    const char *mixture; /* vc_pass.mixture */
    bool casts;          /* some that are plain f16, bf16 or f32 behind it were another of these ... */
    enum vc_dtype cast;  /* ... and all of them are this one now; VC_DTYPE_RAW: they differ */
};

/* What an output consists of: what layout gets. Everything in it lives until the sink is freed. */
struct vc_out_list {
    size_t n;
    const struct vc_out_tensor *tensors; /* NULL: `make` makes output number `index` of `job` */
    struct vc_out_tensor (*make)(const struct vc_job *job, size_t index);
    const struct vc_job *job;
    size_t n_recipe;
    const struct vc_recipe_entry *recipe;
    const bool *drop; /* by role: what is not wanted in the output */
    size_t n_stages;  /* one for each pass; in a pipeline for each pass of each model */
    const struct vc_out_stage *stages;
    /* What other workers write (--shard), in the order of the source and without parts; quant has no parts
     * here. other_shards_unsure: weights would have to be read to know it for sure. */
    size_t n_other_shards;
    const struct vc_out_tensor *other_shards;
    bool other_shards_unsure;
    size_t n_edits; /* sizes that the model's configuration states, as passes changed them */
    const struct vc_edit *edits;
    size_t n_graph_edits; /* for the writer of a graph; others pass them over. Of one number the last one holds */
    const struct vc_graph_edit *graph_edits;
    /* What a pass made new values from: formats with metadata have this entry in place of an older one with its key;
     * NULL: no pass says so. */
    const struct vc_recipe_entry *lineage;
    size_t n_metadata; /* entries that the caller gives, in place of those of the same keys */
    const struct vc_metadata_entry *metadata;
};

/* The caller's entry of that key; NULL if there is none. */
const struct vc_metadata_entry *vc_outs_metadata(const struct vc_out_list *outs, const char *key);

/* Output number `index` of a list. */
static inline struct vc_out_tensor vc_out_at(const struct vc_out_list *outs, size_t index)
{
    return outs->tensors != NULL ? outs->tensors[index] : outs->make(outs->job, index);
}

/* A piece of an output tensor between pack and emit. */
struct vc_packet {
    size_t out;       /* output tensor */
    uint64_t offset;  /* of the piece in it, uncompressed */
    const void *data; /* what emit stores: the caller's bytes, or `buffer` after compression */
    size_t n_bytes;
    size_t n_plain; /* bytes of the piece before compression */
    uint64_t check; /* the sink's own (a CRC) */
    void *buffer;   /* room of pack_bound(n_plain) bytes, the executor's; NULL if that is 0 */
    size_t buffer_bytes;
};

struct vc_sink;

struct vc_sink_ops {
    enum vc_status (*layout)(struct vc_ctx *ctx, struct vc_sink *sink, const struct vc_out_list *outs,
                             uint64_t *file_bytes); /* 0 = not known before compression */
    enum vc_status (*begin)(struct vc_ctx *ctx, struct vc_sink *sink);
    size_t (*pack_bound)(const struct vc_sink *sink, size_t n_bytes); /* NULL: 0 */
    /* NULL: the packet is the piece as it is, which is how it comes here. The first piece of a tensor may decide things
     * for the rest of it: pack of a later piece waits for that inside the sink, which is safe because tiles start in
     * order. */
    enum vc_status (*pack)(struct vc_ctx *ctx, struct vc_sink *sink, struct vc_packet *packet);
    enum vc_status (*emit)(struct vc_ctx *ctx, struct vc_sink *sink, const struct vc_packet *packet);
    enum vc_status (*finish)(struct vc_ctx *ctx, struct vc_sink *sink, uint64_t *file_bytes);
    enum vc_status (*commit)(struct vc_ctx *ctx, struct vc_sink *sink);
    /* Wakes whoever waits inside pack; called when another worker failed. NULL: nobody ever waits. */
    void (*interrupt)(struct vc_sink *sink);
    void (*free)(struct vc_ctx *ctx, struct vc_sink *sink); /* removes what was not committed */
    /* The sink that gets what comes from a tensor of the model, whose dialect, accepts_raw and aliases hold for it: one
     * of those behind this one. NULL: this one itself. */
    const struct vc_sink *(*of_tensor)(const struct vc_sink *sink, size_t tensor);
    /* False when the format cannot hold that dtype: the plan of the job then refuses, naming the tensor. */
    bool (*can_hold)(const struct vc_sink *sink, enum vc_dtype dtype);
};

struct vc_sink {
    const struct vc_sink_ops *ops;
    void *self;
    const char *format;
    /* What passes have to make of quantized weights. Known once the sink is created. */
    const struct vc_dialect *dialect;
    bool ordered;
    bool accepts_raw;      /* VC_FORM_RAW of the model it was created for */
    bool aliases;          /* takes outputs that are second names of others */
    size_t memory_bytes;   /* what it takes beside packets, for the plan */
    const char *note;      /* for the report; NULL: none. Known once the layout is; the sink's own */
    const char *late_note; /* the same, known after commit: what of an older output could not be removed */
    /* Another file of the same output, beside it; NULL if there is none. Known once the layout is. */
    const char *beside;
    /* What loads the output's quantized weights; known once the layout is. vc_writers.create takes that of the format
     * or of the dialect unless the writer has said it. Strings are literals, or the sink's own. */
    struct vc_loader loader;
    /* Why the program that loads the source would not load new codes in a layout that nobody asked for, so that layout
     * refuses them; NULL: it does, or nobody promised it. Known once the sink is created. */
    const char *refusal;
};

/* The table of formats as jobs see it: core knows no format, so a job gets this when it is made (formats/formats.h has
 * it). */
struct vc_outfile;
struct vc_writers {
    /* The one place where an output gets its writer: called once per output file. The extension of options->path
     * chooses the format; other names, standard output and no output at all (NULL) mean the model's own. */
    enum vc_status (*create)(struct vc_ctx *ctx, const struct vc_model *model, const struct vc_write_options *options,
                             struct vc_sink **out);

    /* vc_format_of_name: the format whose extension the path has; NULL: none. */
    const char *(*format_of_name)(const char *path);

    /* Reserves disk space for the output of so many bytes, which is written much later: an unnamed file in its folder,
     * where the output is one file with a name of its own. VC_E_IO if there is none, or the folder takes no files. NULL
     * in *out: nothing is reserved, as with folders and several outputs. Released before the output is laid out. */
    enum vc_status (*reserve)(struct vc_ctx *ctx, const struct vc_model *model, const struct vc_write_options *options,
                              uint64_t bytes, struct vc_outfile **out);
    void (*release)(struct vc_ctx *ctx, struct vc_outfile **reserved); /* accepts a pointer to NULL */
};

/* Calls of the operations that a sink may lack; without them: 0 bytes, the piece as it is, nothing. */
size_t vc_sink_pack_bound(const struct vc_sink *sink, size_t n_bytes);

/* Packs the piece of an output tensor; packet has its buffer already. */
enum vc_status vc_sink_pack(struct vc_ctx *ctx, struct vc_sink *sink, size_t out, uint64_t offset, const void *data,
                            size_t n_bytes, struct vc_packet *packet);
void vc_sink_interrupt(struct vc_sink *sink);

const struct vc_sink *vc_sink_of_tensor(const struct vc_sink *sink, size_t tensor);
