/* report.h - what a job did or will do to every tensor, with sizes and errors.
 *
 * Rows are in the order of the source; scales and zero points belong to the row of their tensor. All sizes are bytes.
 * Only the fields after a member `measured` need a run; all other figures come from the headers and are exact in a dry
 * run, too. A report belongs to its job: report and strings are valid until the next vc_job_plan or vc_job_free. */
#ifndef VCOMPRESS_REPORT_H
#define VCOMPRESS_REPORT_H

#include <vcompress/model.h>

VC_BEGIN_C

/* Numbers are stable. */
enum vc_action {
    VC_ACTION_KEPT = 0,        /* copied bit for bit */
    VC_ACTION_QUANTIZED = 1,   /* to codes and scales */
    VC_ACTION_CAST = 2,        /* to another float type */
    VC_ACTION_DEQUANTIZED = 3, /* from codes and scales to a float type */
    VC_ACTION_DROPPED = 4,     /* not written, on request */
    VC_ACTION_TIED = 5,        /* a second name of another tensor, whose row counts the bytes */
    VC_ACTION_PRUNED = 6,      /* some of its values are zero now */
    VC_ACTION_CUT = 7,         /* rows, columns or indices of other axes were removed */
    VC_ACTION_TRAINED = 8,     /* distillation changed the values; same type */
    VC_ACTION_REFITTED = 9,    /* the values changed for what rows or other tensors lost; same type */
    VC_ACTION_MERGED = 10      /* an adapter became part of the values; same type */
};

/* What one pass did to a tensor. */
struct vc_report_step {
    const char *pass;    /* "quantize" */
    const char *scheme;  /* "int8/channel" */
    enum vc_dtype dtype; /* after the pass */
    unsigned n_dims;
    const uint64_t *shape;
    uint64_t bytes; /* with scales and other parts */

    bool measured;  /* the fields below are valid; errors against the result of the pass before */
    double sqnr_db; /* INFINITY without errors */
    double max_abs_error;
    uint64_t zeros; /* values equal to zero after the pass */
};

/* A tensor stored beside the codes in the output, such as the scales. */
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
    /* Why the tensor was kept, dropped or tied; for a changed tensor the reason of the scheme, if any; else "". */
    const char *reason;
    enum vc_role role;
    unsigned n_dims;
    const uint64_t *shape;
    uint64_t n_elems; /* before */
    unsigned n_dims_after;
    const uint64_t *shape_after;
    size_t n_parts; /* in the output; 0 if the tensor is not written */
    const struct vc_report_part *parts;
    size_t n_steps; /* passes that changed the tensor */
    const struct vc_report_step *steps;
    uint64_t bytes_before;      /* values in the source; quantized: codes with their scales */
    uint64_t bytes_after;       /* values in the output; quantized: codes, scales and zero points */
    uint64_t scale_bytes;       /* bytes_after: the share of scales and zero points */
    uint64_t file_bytes_before; /* compressed, with the format's own headers */
    uint64_t dequantized_bytes; /* device bytes with a loader that decodes codes to the source's type */
    uint64_t n_scales;

    /* The fields below are valid: after a run, for changed tensors. All passes together are compared with the source.
     * After a pass that changes the shape, only the remaining part of the source is compared; measured is false if an
     * earlier pass changed values. */
    bool measured;
    double sum_x2, sum_e2; /* sums of squares of the source values and of the errors: docs/numerics.md */
    double sqnr_db;        /* 10 log10(sum_x2 / sum_e2); INFINITY without errors */
    double max_abs_error;
    uint64_t zeros_before;  /* values equal to zero in the source */
    uint64_t zeros_after;   /* values equal to zero in the output */
    uint64_t clipped;       /* values outside the range of the target */
    uint64_t nonfinite;     /* NaN and Inf replaced by VC_NONFINITE_ZERO */
    const char *name_after; /* always valid: the name in the output; NULL if no pass changed it */
};

struct vc_report_totals {
    size_t n_tensors, n_changed, n_kept; /* scales and zero points count with their tensor */
    size_t n_dropped, n_tied;            /* counted neither as changed nor as kept */
    /* Elements of all weights without scales, zero points, raw members and running statistics; tied weights count once.
     */
    uint64_t n_params;
    uint64_t file_before, file_after; /* file_after: first output; 0 if not known yet */
    uint64_t host_before, host_after; /* values in host memory, loaded as stored */
    uint64_t device_native;           /* device memory with kernels that compute on codes (= host_after) */
    uint64_t device_dequantized;      /* device memory with a loader that decodes codes to the source's type */
    uint64_t scale_bytes;
    uint64_t optimizer_before, optimizer_after; /* share of host_before and host_after: optimizer states */
    uint64_t other_before, other_after;         /* share: neither optimizer states nor weights */
    double bits_per_weight; /* 8 * (host_after - optimizer_after - other_after) / elements of the output's weights */
    bool measured;
    double sqnr_db; /* over all changed tensors */
    size_t worst;   /* row with the lowest SQNR; VC_NO_TENSOR if nothing was measured */
};

/* A file that the job writes. */
struct vc_report_output {
    const char *path; /* as given; "" if nothing is written */
    const char *format;
    uint64_t file_bytes; /* exact for stored output; 0 if not known yet */
    bool written;        /* the complete file has its name */
};

/* A gate: a limit that the caller set for the outputs. If a gate is missed, nothing is written. */
struct vc_report_gate {
    /* Name of the option: "max_bytes", "min_ratio", "max_growth", "min_sqnr_db", "max_sqnr_drop_db",
     * "expect_sparsity". */
    const char *id;
    /* value: the bytes of the largest output, or the SQNR of the worst tensor. NAN: nothing is measured yet, or nothing
     * can be; INFINITY: the SQNR of equal values. */
    double limit, value;
    bool judged, passed; /* judged: the value is known; for errors only after the run */
};

/* Something the user should know. */
struct vc_report_note {
    /* The source of the note: "input" (reader), "pass", "unchanged" (no weight changed), "output" (writer), "values"
     * (while values were read), "left" (files beside the input). */
    const char *id;
    const char *text; /* a sentence */
};

/* A file that a job wrote: an output, or a file in the folder of an output. */
struct vc_report_file {
    const char *path;
    uint64_t size_bytes;
    char sha256[65]; /* of the whole file, in hex */
};

/* Results of pruning. Zeros are counted in the values of the output, after all passes. */
struct vc_report_pruning {
    size_t n_tensors;   /* pruned tensors */
    uint64_t n_weights; /* elements of the pruned tensors */
    /* Device bytes of the whole model (like device_native) with kernels for 2:4 sparsity, which store half of the
     * values and 2 bits of position for each stored value. Tensors qualify if they were pruned 2:4, have type f16, bf16
     * or int8, a multiple of 8 output channels and a multiple of 16 input channels. The runtime decides whether such
     * kernels are used. */
    uint64_t device_sparse_2_4;
    size_t n_sparse_2_4; /* number of qualifying tensors */

    bool measured; /* after a run, if all pruned tensors were measured: the fields below are valid */
    uint64_t zeros_before, zeros_after;
    double sparsity;       /* zeros_after / n_weights */
    double model_sparsity; /* zeros_after / totals.n_params; zeros of other tensors are not counted */
    /* Bytes of all values of the output if each pruned tensor stored its mask at the entropy H(zeros / elements) bits
     * per element, and its nonzero values uncompressed. Compare a deflated file with this figure; compressing the
     * nonzero values may give less. */
    uint64_t mask_and_values;
    /* Tensors pruned to the pattern `pattern_keep` of `pattern_group`, and the groups of their masks, all of which were
     * checked and have the pattern. 0: no such tensors, or not yet run. */
    size_t n_pattern;
    uint64_t n_groups;
    unsigned pattern_keep, pattern_group;
    const char *masks;     /* path of the output with the masks, or NULL */
    uint64_t mask_bytes;   /* masks of all pruned tensors, one bit per weight */
    uint64_t pruned_bytes; /* values of the pruned tensors in the output */
};

/* Layers that a pass removed. Later layers get lower numbers in the output, without gaps. */
struct vc_report_layers {
    const char *list;       /* prefix of the layer numbers in the source's names: "model.layers" */
    uint64_t before, after; /* number of layers */
    size_t n_left_out;
    const uint64_t *left_out; /* numbers of the removed layers in the source, from 0, rising */
};

/* A group of rows and columns that can only be removed together (couplings.h), and its result. */
struct vc_report_group {
    const char *name; /* its first member: "fc1.weight:0" */
    const char *kind; /* kind of units: "neurons", "heads", "experts", "hidden" */
    uint64_t n_before, n_after;
    size_t n_members;
    const char *const *members; /* tensors and axes: "fc2.weight:1" */
    const char *reason;         /* why the group is not cut; "" if cut */
    size_t n_removed;
    const uint64_t *removed; /* removed units, rising */
    /* If scores decided: lowest and highest score of removed and of kept units. */
    bool scored;
    double removed_min, removed_max, kept_min, kept_max;
};

/* Results of passes that remove rows and columns. */
struct vc_report_removal {
    size_t n_groups;
    const struct vc_report_group *groups;
    /* Sizes of the inputs for macs_before and macs_after: "batch 1, sequence 128". NULL: multiply-adds are unknown.
     * Multiply-adds are for all tokens; of experts only the selected share counts. macs_before: after all earlier
     * passes. */
    const char *macs_at;
    uint64_t macs_before, macs_after;
};

struct vc_job;
struct vc_fit_change;   /* fit.h */
struct vc_distillation; /* distill.h */

struct vc_report {
    const char *command;        /* "quantize --int8", in the form of a recipe, without paths */
    const char *input, *output; /* paths as given; output and output_format: of the first output */
    const char *input_format, *output_format;
    bool input_compressed; /* at least one tensor is compressed in the input */
    bool dry_run, written; /* written: all outputs are written */
    size_t n_outputs;      /* 1; more with vc_write_options.emit or a file of masks */
    const struct vc_report_output *outputs;
    size_t n_rows;
    const struct vc_report_row *rows; /* NULL with vc_write_options.rows_on_request: use vc_report_get_row */
    struct vc_report_totals totals;
    const char *gate_missed; /* sentence; "" if no gate was missed */
    const char *note;        /* all notes in one line, such as a glob that matched nothing; "": no notes */
    double seconds;          /* time of the run, and of the plan if a pass trained in the plan; 0: not run */
    unsigned threads;
    const char *device;       /* "cpu (avx2)", "cuda:0 NVIDIA ..." */
    uint64_t peak_pool_bytes; /* of the library's own pool */
    uint64_t peak_rss_bytes;  /* peak of this process, as the kernel counts */
    /* For each output: the layout of quantized weights and the loader. An entry is NULL if no weight of the output is
     * quantized. */
    const struct vc_layout *const *layouts;
    size_t n_gates;
    const struct vc_report_gate *gates;
    size_t n_notes;
    const struct vc_report_note *notes;
    size_t n_files; /* 0 before vc_job_digest */
    const struct vc_report_file *files;
    const struct vc_report_pruning *pruning; /* NULL: no tensor is pruned */
    const struct vc_job *job;                /* source of the rows for vc_report_get_row; NULL: `rows` */
    const struct vc_report_layers *layers;   /* NULL: no layer was removed */
    uint64_t n_params_after;                 /* elements of the output's weights, counted like totals.n_params */
    const struct vc_report_removal *removal; /* NULL: no pass removes rows and columns */
    /* 0 in the report of a job. A program that asks about devices (fit.h) sets n_fits and fits in a copy of the report
     * before rendering. */
    size_t n_fits;
    const struct vc_fit_change *fits; /* answers for devices, one per device */
    size_t n_distillations;           /* one per pass that trains, in order */
    const struct vc_distillation *const *distillations;
    /* Device "auto": what the run is expected to take on the CPU, and with a card; 0: a device was named. Why the CPU is taken; ""
     * if a card is. `device` of a dry run is the device that a run would use. */
    double expected_cpu_seconds, expected_card_seconds;
    const char *device_reason;
};

/* Copies row number `index` to *row, with or without vc_write_options.rows_on_request. Strings and lists of *row belong
 * to the report. Returns false after the last row. */
VC_API bool vc_report_get_row(const struct vc_report *report, size_t index, struct vc_report_row *row);

/* Reads the figures of an earlier report, a document of VC_DOCUMENT_REPORT, for the gates of vc_write_options beside it.
 * *file_bytes: of its largest output; 0: not known. *sqnr_db: over all changed tensors; NAN: not measured. VC_E_FORMAT if
 * the file is no such document. */
VC_API enum vc_status vc_report_read_baseline(struct vc_ctx *ctx, const char *path, uint64_t *file_bytes,
                                              double *sqnr_db);

/* Reads the gates of a pipeline, a JSON object, and renders those of `command` as options of a command line, quoted as for
 * a shell: {"min_sqnr": 40, "evaluate": {"min_accuracy": 0.98}} is " --min-sqnr=40" for "quantize". Members that are
 * objects are for the command of their name, all others for every command; the names of other commands follow as words
 * without dashes. Which options and commands there are is not checked. Free *words with vc_text_free. VC_E_FORMAT if the file is no such object, or has no gate for the command. */
VC_API enum vc_status vc_gates_read(struct vc_ctx *ctx, const char *path, const char *command, char **words);

/* Frees a text that the library made. Texts belong to the caller and may outlive the context. Accepts NULL. */
VC_API void vc_text_free(char *text);

/* The word as a shell reads it back, in quotes if it needs some; control characters, and bytes that are no UTF-8, as
 * "$(printf '\\033')". For command lines that are printed or stored: `vcompress run` reads such words in recipes. NULL if
 * memory is short. Free it with vc_text_free. */
VC_API char *vc_shell_word(const char *word);

VC_END_C
#endif
