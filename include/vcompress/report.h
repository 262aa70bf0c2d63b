/* report.h - what a job did to every tensor, or will do, and what it costs.
 *
 * Rows come in the order of the source; scales and zero points are part of the row of the tensor they belong to. All
 * sizes are bytes. Everything but the figures marked "measured" is known from the headers and is exact in a dry run
 * too. A report belongs to its job: it and its strings are valid until the next vc_job_plan or vc_job_free. */
#ifndef VCOMPRESS_REPORT_H
#define VCOMPRESS_REPORT_H

#include <vcompress/model.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Numbers are stable. */
enum vc_action {
    VC_ACTION_KEPT = 0,        /* copied bit for bit */
    VC_ACTION_QUANTIZED = 1,   /* to codes and scales */
    VC_ACTION_CAST = 2,        /* to another float type */
    VC_ACTION_DEQUANTIZED = 3, /* from codes and scales to a float type */
    VC_ACTION_DROPPED = 4,     /* not written, by request */
    VC_ACTION_TIED = 5,        /* a second name of another tensor, written once: its bytes count there */
    VC_ACTION_PRUNED = 6,      /* some of its values are zero now */
    VC_ACTION_CUT = 7,         /* rows, columns or indices of other axes are left out */
    VC_ACTION_TRAINED = 8      /* by distillation: other values of the same type */
};

/* What one pass did to a tensor, in the order of the passes. */
struct vc_report_step {
    const char *pass;    /* "quantize" */
    const char *scheme;  /* "int8/channel" */
    enum vc_dtype dtype; /* when the pass was through */
    unsigned n_dims;
    const uint64_t *shape;
    uint64_t bytes; /* with scales and other parts */

    bool measured;  /* the fields below are valid: against what the pass before it left */
    double sqnr_db; /* INFINITY when there is no error */
    double max_abs_error;
    uint64_t zeros; /* values equal to zero afterwards */
};

/* What lies beside the codes of a tensor in the output. */
struct vc_report_part {
    enum vc_part_role role;
    enum vc_dtype dtype;
    unsigned n_dims;
    const uint64_t *shape;
    uint64_t bytes;
};

struct vc_report_row {
    const char *name;
    enum vc_action action;
    enum vc_dtype dtype_before, dtype_after;
    const char *scheme; /* "int8/channel", "f16", ...; "" when kept */
    const char *reason; /* why it was kept, dropped or tied; of a changed one why it became this, where there is
                           something to say; "" otherwise */
    enum vc_role role;
    unsigned n_dims;
    const uint64_t *shape;
    uint64_t n_elems; /* before */
    unsigned n_dims_after;
    const uint64_t *shape_after;
    size_t n_parts; /* of the output; none where nothing of the tensor is written */
    const struct vc_report_part *parts;
    size_t n_steps; /* passes that changed it */
    const struct vc_report_step *steps;
    uint64_t bytes_before;      /* values in the source: codes with their scales where it was quantized already */
    uint64_t bytes_after;       /* values in the output: codes with their scales and zero points */
    uint64_t scale_bytes;       /* the part of bytes_after that is scales and zero points */
    uint64_t file_bytes_before; /* with the format's own headers, compressed */
    uint64_t dequantized_bytes; /* device bytes with a loader that turns codes back into the source's type */
    uint64_t n_scales;

    /* The fields below are valid (after a run, for tensors that changed): all passes together against the source. Where
     * a pass changes the shape, against what it left of the source; not where an earlier pass had changed values. */
    bool measured;
    double sum_x2, sum_e2; /* sums of squares of the source values and of the errors: docs/numerics.md */
    double sqnr_db;        /* 10 log10(sum_x2 / sum_e2); INFINITY when there is no error */
    double max_abs_error;
    uint64_t zeros_before; /* values equal to zero in the source */
    uint64_t zeros_after;  /* ... and in the output */
    uint64_t clipped;      /* values outside the range of the target */
    uint64_t nonfinite;    /* NaN and Inf replaced under the policy "zero" */
};

struct vc_report_totals {
    size_t n_tensors, n_changed, n_kept; /* companions of quantized tensors count with their tensor */
    size_t n_dropped, n_tied;            /* neither changed nor kept */
    uint64_t n_params; /* elements of all weights but companions, raw members and running statistics, tied ones
                          once */
    uint64_t file_before, file_after; /* file_after: of the first output; 0 when not known yet */
    uint64_t host_before, host_after; /* values when loaded as they are stored */
    uint64_t device_native;           /* ... with kernels that compute on codes (= host_after) */
    uint64_t device_dequantized;      /* ... with a loader that turns codes back into the source's type */
    uint64_t scale_bytes;
    uint64_t optimizer_before, optimizer_after; /* what of host_before and host_after is optimizer state */
    uint64_t other_before, other_after;         /* ... and what is neither that nor weights */
    double bits_per_weight; /* 8 * (host_after without those two) / elements of the output's weights */
    bool measured;
    double sqnr_db; /* over all tensors that changed */
    size_t worst;   /* row with the lowest SQNR; VC_NO_TENSOR when nothing was measured */
};

/* A file that the job writes. */
struct vc_report_output {
    const char *path; /* as given; "" when nothing is written */
    const char *format;
    uint64_t file_bytes; /* exact for stored output; 0 when not known yet */
    bool written;        /* it has its name */
};

/* A limit that the caller set for the outputs. Missed ones leave nothing written. */
struct vc_report_gate {
    const char *id;      /* of the option: "max_bytes", "min_sqnr_db", "expect_sparsity" */
    double limit, value; /* value: the largest output, the worst tensor. NAN: nothing was measured, or not yet;
                            INFINITY: an SQNR without an error */
    bool judged, passed; /* judged: what it asks for is known, which for errors is after the run */
};

/* Something the user should know. */
struct vc_report_note {
    const char *id;   /* who has noticed: "input" (its reader), "pass", "unchanged" (no weight was), "output" (its
                         writer), "values" (while they were read), "left" (what lies beside it) */
    const char *text; /* a sentence */
};

/* A file that a job wrote: an output, or one of those in its folder. */
struct vc_report_file {
    const char *path;
    uint64_t size_bytes;
    char sha256[65]; /* of the whole file, as digits */
};

/* What pruning reached, and what it saves. Zeros are counted in the values of the output, after all passes. */
struct vc_report_pruning {
    size_t n_tensors;   /* that a pass pruned */
    uint64_t n_weights; /* their elements */
    /* Device bytes of the whole model (as device_native) with kernels for 2:4 sparsity, which store the kept half of
     * the values and 2 bits for the place of each: of tensors that were pruned 2:4 and qualify (f16, bf16 or int8,
     * output channels a multiple of 8, input channels of 16). Conditional: the runtime decides. */
    uint64_t device_sparse_2_4;
    size_t n_sparse_2_4; /* tensors that qualify */

    bool measured; /* of all these tensors: the fields below are valid, after a run */
    uint64_t zeros_before, zeros_after;
    double sparsity;       /* zeros_after / n_weights */
    double model_sparsity; /* zeros_after / totals.n_params: at least that share, zeros of other tensors not counted */
    /* Bytes of all values of the output, where a pruned tensor takes the entropy of its mask (H(zeros / elements) bits
     * per element) and its other values as they are: what to measure a deflated file by. Compression of the values
     * themselves may still beat it. */
    uint64_t mask_and_values;
    /* Tensors with a pattern, `pattern_keep` of `pattern_group`: that many groups were looked at in the masks that were
     * applied, and all have it. 0: nothing was pruned so, or not yet. */
    size_t n_pattern;
    uint64_t n_groups;
    unsigned pattern_keep, pattern_group;
    const char *masks;     /* the output with the masks; NULL: none */
    uint64_t mask_bytes;   /* of the masks of all tensors that were pruned, a bit for each weight ... */
    uint64_t pruned_bytes; /* ... and of these tensors' values in the output */
};

/* Layers that a pass left out; those behind them have the next lower numbers in the output. */
struct vc_report_layers {
    const char *list;       /* what is in front of their numbers in the names of the source: "model.layers" */
    uint64_t before, after; /* how many there are */
    size_t n_left_out;
    const uint64_t *left_out; /* their numbers in the source, from 0 on, rising */
};

/* A group of rows and columns that can only be removed together, and what became of it. */
struct vc_report_group {
    const char *name; /* its first member: "fc1.weight:0" */
    const char *kind; /* of its units: "neurons", "heads", "experts", "hidden" */
    uint64_t n_before, n_after;
    size_t n_members;
    const char *const *members; /* tensors and axes: "fc2.weight:1" */
    const char *reason;         /* why it stays as it is; "" where it is cut */
    size_t n_removed;
    const uint64_t *removed; /* units that go, rising */
    /* Scores, where they decided: the lowest and the highest of what goes and of what stays. */
    bool scored;
    double removed_min, removed_max, kept_min, kept_max;
};

/* What was removed from tensors that are smaller now. */
struct vc_report_removal {
    size_t n_groups;
    const struct vc_report_group *groups;
    /* Multiply-adds of all tokens, for inputs of these sizes: "batch 1, sequence 128"; NULL: nothing tells them. Of
     * experts those that a token is given to. Before: what earlier passes leave. */
    const char *macs_at;
    uint64_t macs_before, macs_after;
};

struct vc_job;
struct vc_fit_change;   /* fit.h */
struct vc_distillation; /* distill.h */

struct vc_report {
    const char *command;        /* "quantize --int8", as a recipe: no paths */
    const char *input, *output; /* paths as given; output, and its format: of the first output */
    const char *input_format, *output_format;
    bool input_compressed; /* at least one tensor is compressed in the input */
    bool dry_run, written; /* written: every output */
    size_t n_outputs;      /* one, or more where vc_write_options.emit names others */
    const struct vc_report_output *outputs;
    size_t n_rows;
    const struct vc_report_row *rows; /* NULL where rows are made on request: vc_report_get_row */
    struct vc_report_totals totals;
    const char *gate_missed; /* sentence; "" when every gate was met */
    const char *note;        /* all notes in one line, such as a glob that matched nothing; "": there are none */
    double seconds;          /* of the run, and of the plan where a pass trained in it; 0: neither */
    unsigned threads;
    const char *device;       /* "cpu (avx2)", "cuda:0 NVIDIA ..." */
    uint64_t peak_pool_bytes; /* of the library's own pool */
    uint64_t peak_rss_bytes;  /* of this program, as the kernel counts; not of what started it */
    /* One for each of the outputs: how quantized weights lie in it, and what loads it. NULL: none of its weights are
     * quantized. */
    const struct vc_layout *const *layouts;
    size_t n_gates;
    const struct vc_report_gate *gates;
    size_t n_notes;
    const struct vc_report_note *notes;
    size_t n_files; /* 0 unless vc_job_digest was called */
    const struct vc_report_file *files;
    const struct vc_report_pruning *pruning; /* NULL: no tensor is pruned */
    const struct vc_job *job;                /* that the rows come from; NULL: from `rows` */
    const struct vc_report_layers *layers;   /* NULL: none are left out */
    uint64_t n_params_after;                 /* elements of the weights of the output, counted as totals.n_params */
    const struct vc_report_removal *removal; /* NULL: no pass removes rows and columns */
    size_t n_fits;                    /* 0 from a job: a program that asks about devices (fit.h) sets these ... */
    const struct vc_fit_change *fits; /* ... in a copy of the report, before it is rendered */
    size_t n_distillations;           /* one for each pass that trains, in their order */
    const struct vc_distillation *const *distillations;
};

/* Row number `index`, whether the report has a list of them (vc_write_options.rows_on_request) or not. Its strings and
 * lists are those of the report. False behind the last. */
VC_API bool vc_report_get_row(const struct vc_report *report, size_t index, struct vc_report_row *row);

/* What the tensor of row number `index` is called in the output, where a pass gave it another name; NULL: as it was. */
VC_API const char *vc_report_name_after(const struct vc_report *report, size_t index);

/* Renders a report as one JSON document, schema vcompress.report/1 (installed as report-1.schema.json). *text is
 * NUL-terminated and freed with vc_text_free. */
VC_API enum vc_status vc_report_json(struct vc_ctx *ctx, const struct vc_report *report, char **text);

/* Frees a text that the library made. It belongs to the caller alone: it may outlive the context. Accepts NULL. */
VC_API void vc_text_free(char *text);

/* The document that takes the place of one of `schema` ("vcompress.report/1") after a failure: the name of the status
 * and the sentence. Needs memory of ctx: where that is what failed, give it another context. */
VC_API enum vc_status vc_error_json(struct vc_ctx *ctx, const char *schema, enum vc_status failure, const char *message,
                                    char **text);

#ifdef __cplusplus
}
#endif
#endif
