/* job.h - passes over a model, planned from the headers, then run tile by tile into a new file.
 *
 *     vc_model_open -> vc_job_create -> vc_job_add_... -> vc_job_plan -> (look at vc_job_report) -> vc_job_run
 *
 * A job without passes converts: every tensor is copied into the format of the output's name. The input never changes.
 * The output appears whole or not at all. */
#ifndef VCOMPRESS_JOB_H
#define VCOMPRESS_JOB_H

#include <vcompress/model.h>
#include <vcompress/report.h>

VC_BEGIN_C

struct vc_job;

/* Numbers are stable. */
enum vc_deflate {
    VC_DEFLATE_NONE = 0, /* stored members, aligned to 64 bytes: the default, readable in place */
    /* Per tensor the best of three zlib strategies, chosen on a sample. The bytes depend on the version of zlib only.
     */
    VC_DEFLATE_ZLIB = 1,
    VC_DEFLATE_ISAL = 2, /* ISA-L's encoder, several times faster; VC_E_UNSUPPORTED if not built in */
    /* Per tensor ISA-L's encoder, unless a zlib strategy makes the sample more than 1 % smaller. Without ISA-L the same
     * as VC_DEFLATE_ZLIB. */
    VC_DEFLATE_AUTO = 3
};

#define VC_MAX_OUTPUTS 8

/* Strings and arrays are read during the call of vc_job_plan, and copied. */
/* An entry of an output's metadata. GGUF has types: "u32:7", "f32:0.5", "bool:true", "str:text" (u8 to i64, f64, and
 * int, float as llama.cpp spells u32 and f32); without one the value has the type of the entry that is there, or is a
 * text. In safetensors and ONNX every value is a text, as it stands. */
struct vc_metadata_entry {
    const char *key, *value;
};

struct vc_write_options {
    size_t struct_size; /* set by vc_write_defaults */
    const char *path;   /* "-": standard output, through an unnamed temporary file; NULL: plan and measure only */
    /* More files from the same run, each in the format of its name. All files are complete before the first gets its
     * name. Raw copies (with the members' own headers) are made only if every output has the source's format. */
    const char *const *emit;
    size_t n_emit;
    bool force; /* replace an existing file, or a folder that vcompress wrote, but never the input */
    enum vc_deflate deflate;
    /* How quantized weights are stored in the output, and so which loaders understand it: of VC_NAMES_LAYOUTS, whose bytes
     * docs/formats.md shows. NULL or "auto": the layout of the input if the input has a layout, else the layout that
     * the usual loader of the input takes; VC_E_UNSUPPORTED if this loader takes no layout. Codes that a later pass
     * decodes again without rules are in the layout "auto" of their own where this one has no place for them. */
    const char *layout;
    /* safetensors, GGUF: write a folder of files with at most this many bytes of tensors each; a larger tensor gets a
     * file for itself. 0: divided like the input, or one file. */
    uint64_t max_shard_bytes;
    /* Several workers share a checkpoint of several files: this job does the files of worker `shard` of `n_shards`,
     * counted from 1. Worker 1 does files 1, 1 + n_shards, ... n_shards 0: all files. */
    unsigned shard, n_shards;
    bool dry_run;       /* plan only: vc_job_run must not be called, path is only reported */
    uint64_t max_bytes; /* gate: largest size of every output file; 0: no gate */
    double min_sqnr_db; /* gate: smallest SQNR of every changed tensor; 0: no gate */
    /* Format of the only output, of VC_NAMES_FORMATS. NULL: the format of each output's name, else the format of
     * the input. */
    const char *format;
    /* Gate on pruned tensors, from 0 to 1; 0: no gate. With 0.5, all pruned tensors together must have at least the sum
     * over tensors of floor(0.5 * elements) zeros. */
    double expect_sparsity;
    /* The report has no list of rows (200 bytes per tensor): vc_report_get_row makes rows one by one. */
    bool rows_on_request;
    /* Set by vc_job_plan: the scheme of the codes that a pass makes, "nf4"; the layout "auto" then has a place for
     * these. Callers leave NULL here. */
    const char *codes;
    /* Codes of the input that lie in another layout than `layout` are written in that one, with the same scales;
     * VC_E_UNSUPPORTED if the layout has no place for them. false: they are copied as they lie. */
    bool relayout;
    /* The only output goes there and not to a file; `path` is NULL, and `format` says the format (NULL: the format of
     * the input). Copied by vc_job_plan. For formats that are one file: VC_E_ARGUMENT if the output is a folder,
     * VC_E_UNSUPPORTED if it has a second file. */
    const struct vc_writer *writer;
    /* Set by vc_job_plan: a pass takes all codes of the input away before others make new ones; the layout "auto" of
     * a folder is then that of an input without codes. Callers leave false here. */
    bool decoded;
    /* Not 0: as `force`, and a model's folder of another program is replaced, too: one with safetensors or GGUF files, and
     * with nothing that does not look like a file of a model. */
    uint64_t force_foreign;
    /* Not 0: ONNX files without what computes nothing: descriptions (doc_string) and metadata_props, such as stack traces
     * of the exporter, and the class names that some programs read there. VC_E_ARGUMENT for other formats. */
    uint64_t strip;
    double min_ratio; /* gate: every output file is this many times smaller than the input; 0: no gate */
    /* Gates beside an earlier run, whose figures vc_report_read_baseline reads. baseline_bytes: 0: no gate on the size;
     * max_growth: the share by which the largest output may be larger, 0.02. max_sqnr_drop_db: the most by which the SQNR over
     * all changed tensors may be below baseline_sqnr_db; 0: no gate. */
    uint64_t baseline_bytes;
    double max_growth;
    double baseline_sqnr_db, max_sqnr_drop_db;
    /* n_metadata entries that the output gets, in place of those of the same keys; read by vc_job_plan. VC_E_ARGUMENT for
     * keys that vcompress writes, keys given twice, values that are not of their type, and formats without metadata. */
    const struct vc_metadata_entry *metadata;
    size_t n_metadata;
};

/* No path, one output of stored tensors, no gate, everything else off. */
static inline void vc_write_defaults(struct vc_write_options *options)
{
    vc_options_defaults("vc_write_options", options, sizeof *options);
}

/* Creates a job. The model and the context must outlive the job. All calls for the job take the same context. */
VC_API enum vc_status vc_job_create(struct vc_ctx *ctx, const struct vc_model *model, struct vc_job **out);
VC_API void vc_job_free(struct vc_job *job); /* accepts NULL */

/* Leaves all tensors of a role out of the output: VC_ROLE_OPTIMIZER or VC_ROLE_OTHER. Call before vc_job_plan. */
VC_API enum vc_status vc_job_drop(struct vc_ctx *ctx, struct vc_job *job, enum vc_role role);

/* Decides from the headers what happens to every tensor, how large the output is, and whether memory and disk suffice.
 * Errors that show without reading weights are returned here. options NULL: the defaults, for a job that measures only.
 * A job may be planned again until vc_job_run; every plan makes a new report. */
VC_API enum vc_status vc_job_plan(struct vc_ctx *ctx, struct vc_job *job, const struct vc_write_options *options);

/* Runs the planned job. VC_E_GATE if a gate was missed: the report is complete, nothing was written. */
VC_API enum vc_status vc_job_run(struct vc_ctx *ctx, struct vc_job *job);

/* Removes the named temporary files of all running jobs of this process. (On most file systems temporary files have no
 * name.) Async-signal-safe, for a handler that ends the process at once. vc_ctx_cancel ends a job cleanly. */
VC_API void vc_job_remove_temporaries(void);

/* The report of the job: filled by vc_job_plan, completed by vc_job_run. Borrowed: the report and everything in the
 * report are valid until the next vc_job_plan or vc_job_free. All fields are 0 before a plan, and after a plan that
 * failed, unless a gate failed.
 */
VC_API const struct vc_report *vc_job_report(const struct vc_job *job);

/* Call after vc_job_run: reads every written file except standard output and puts sizes and SHA-256 into
 * vc_report.files. VC_E_UNSUPPORTED if SHA-256 is not built in (VC_NAMES_DIGESTS of name_lists.h). */
VC_API enum vc_status vc_job_digest(struct vc_ctx *ctx, struct vc_job *job);

#define VC_DIGEST_BYTES 65 /* a SHA-256 as lower-case digits, with its NUL */

/* Reads all files that the model was opened from, and what goes along with the weights of a folder (config.json, the
 * tokenizer): the SHA-256 of their bytes, by which kept results know their model again. A copy under another name has
 * the same. VC_E_UNSUPPORTED: SHA-256 is not built in, or no file is behind the model. */
VC_API enum vc_status vc_model_digest(struct vc_ctx *ctx, const struct vc_model *model, char hex[VC_DIGEST_BYTES]);

VC_END_C
#endif
