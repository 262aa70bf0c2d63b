/* job.h - passes over a model, planned from the headers, then run tile by tile into a new file.
 *
 *     vc_model_open -> vc_job_create -> vc_job_add_... -> vc_job_plan -> (look at vc_job_report) -> vc_job_run
 *
 * A job without passes converts: every tensor is copied, into the format that the output's name asks for.
 * The input is never changed. The output appears whole or not at all. */
#ifndef VCOMPRESS_JOB_H
#define VCOMPRESS_JOB_H

#include <vcompress/model.h>
#include <vcompress/report.h>

#ifdef __cplusplus
extern "C" {
#endif

struct vc_job;

/* Numbers are stable. */
enum vc_deflate {
    VC_DEFLATE_NONE = 0, /* stored members, aligned to 64 bytes: the default, readable in place */
    VC_DEFLATE_ZLIB = 1, /* per tensor the best of three zlib strategies, tried on a sample: the same bytes wherever the
                        version of zlib is the same */
    VC_DEFLATE_ISAL = 2, /* ISA-L's encoder: several times faster; VC_E_UNSUPPORTED where it was not built in */
    VC_DEFLATE_AUTO = 3  /* per tensor ISA-L's encoder, unless a zlib strategy makes the sample smaller by more than a
                        hundredth; without ISA-L the same as ZLIB */
};

/* How quantized weights can lie in an output is called a layout: which loaders understand them. The name of layout
 * number `index`, "plain", of those that some format has a choice of, a static string; NULL behind the last.
 * docs/formats.md has the bytes of each. */
VC_API const char *vc_layout_name(size_t index);

#define VC_MAX_OUTPUTS 8

/* Strings and arrays are read during the call of vc_job_plan, and copied. */
struct vc_write_options {
    size_t struct_size; /* set by vc_write_defaults */
    const char *path;   /* "-": standard output, through an unnamed temporary file; NULL: plan and measure only */
    /* More files from the same run, each of the format that its name says. All are complete before the first gets its
     * name. Raw copies (with the members' own headers) are made only where every output is of the source's format. */
    const char *const *emit;
    size_t n_emit;
    bool force; /* replace an existing file (never the input) */
    enum vc_deflate deflate;
    const char *layout; /* a name; NULL or "auto": that of the input where it has one, else the one that the program
                           takes which loads the input; VC_E_UNSUPPORTED where it takes none */
    uint64_t max_shard_bytes; /* safetensors, GGUF: a folder of files with at most so many bytes of tensors each, a
                                 larger tensor alone; 0: as the input is divided, or one file */
    unsigned shard, n_shards; /* of a checkpoint in several files do those of worker `shard` of `n_shards` (from 1 on):
                                 the 1st, the (1 + n_shards)th, ... for worker 1; n_shards 0: all */
    bool dry_run;             /* vc_job_run must not be called; path is only reported */
    uint64_t max_bytes;       /* gate: size of every output file; 0 = none */
    double min_sqnr_db;       /* gate: every changed tensor reaches this; 0 = none */
    const char *format; /* of the one output: a name of vc_format_name; NULL: what the name of each output says, else
                           that of the input */
    double expect_sparsity; /* gate: the pruned tensors together have at least the zeros that so large a share of each
                               makes, rounded down per tensor; 0 = none, at most 1 */
    bool rows_on_request;   /* the report has no list of rows, which takes 200 bytes for each tensor: vc_report_get_row
                               makes them one by one */
};

VC_API void vc_write_defaults_sized(struct vc_write_options *options, size_t struct_size);

/* No path, one output of stored tensors, no gate, everything else off. */
static inline void vc_write_defaults(struct vc_write_options *options)
{
    vc_write_defaults_sized(options, sizeof *options);
}

/* The model and the context must outlive the job. The other calls take that context, too. */
VC_API enum vc_status vc_job_create(struct vc_ctx *ctx, const struct vc_model *model, struct vc_job **out);
VC_API void vc_job_free(struct vc_job *job); /* accepts NULL */

/* Leaves all tensors of that role out of the output, before vc_job_plan: VC_ROLE_OPTIMIZER or VC_ROLE_OTHER. */
VC_API enum vc_status vc_job_drop(struct vc_ctx *ctx, struct vc_job *job, enum vc_role role);

/* Decides from the headers what happens to every tensor, how large the output is, and whether memory and disk
 * suffice. Everything that can be refused without reading weights is refused here. options NULL: the defaults, for a
 * job that is measured only. A job may be planned again until it was run; the report is a new one then. */
VC_API enum vc_status vc_job_plan(struct vc_ctx *ctx, struct vc_job *job, const struct vc_write_options *options);

/* Does it. VC_E_GATE: a gate was missed, the report is complete, nothing was written. */
VC_API enum vc_status vc_job_run(struct vc_ctx *ctx, struct vc_job *job);

/* Removes what running jobs of this process have on the disk under a name (most file systems let them work without
 * one). Async-signal-safe, for a handler that ends the process at once; vc_ctx_cancel is the gentle way. */
VC_API void vc_job_remove_temporaries(void);

/* Filled by vc_job_plan, completed by vc_job_run. Borrowed: it and all that it points to are valid until the next
 * vc_job_plan or vc_job_free. Before a plan, and after one that failed for another reason than a gate, all of it is 0.
 */
VC_API const struct vc_report *vc_job_report(const struct vc_job *job);

/* After vc_job_run: reads every file that was written (but standard output) and puts its size and SHA-256 into the
 * report, as vc_report.files. VC_E_UNSUPPORTED where SHA-256 was not built in, which vc_digest_built_in tells. */
VC_API enum vc_status vc_job_digest(struct vc_ctx *ctx, struct vc_job *job);
VC_API bool vc_digest_built_in(void);

#ifdef __cplusplus
}
#endif
#endif
