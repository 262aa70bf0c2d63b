/* sensitivity.h - the sensitivity of each tensor: the error of pruning to several sparsities and of every scheme of
 * quantize. From the weights alone (vc_model_sensitivity) or with data (vc_sensitivity_measure). Writes nothing.
 *
 * Experimental: see experimental.h. */
#ifndef VCOMPRESS_SENSITIVITY_H
#define VCOMPRESS_SENSITIVITY_H

#include <vcompress/couplings.h>
#include <vcompress/quantize.h>

VC_BEGIN_C

/* A change that is tried on a tensor. Numbers are stable. */
enum vc_sensitivity_kind {
    VC_SENSITIVITY_MAGNITUDE = 0, /* the smallest magnitudes of the tensor become zero */
    VC_SENSITIVITY_PATTERN = 1,   /* 2:4 along the input channels */
    VC_SENSITIVITY_SCHEME = 2     /* quantized, with the scheme's usual options */
};

struct vc_sensitivity_candidate {
    enum vc_sensitivity_kind kind;
    const char *name; /* as in reports: "50%", "2:4", "int8/group:128", "f16" */
    unsigned percent; /* VC_SENSITIVITY_MAGNITUDE: percent of the weights that become zero; else 0 */
};

/* The error of one change of one tensor. */
struct vc_sensitivity_error {
    const char *reason; /* why there are no figures, a few words; NULL: figures are valid */
    double relative;    /* sqrt(sum of squared errors / sum of squares): 0 to 1 for pruning */
    double sqnr_db;     /* the same in dB: -20 log10(relative); INFINITY if nothing changes */
    uint64_t bytes;     /* of the changed tensor with its scales; pruning: unchanged, since zeros are stored */
};

struct vc_sensitivity_row {
    size_t tensor; /* in the model */
    const char *name;
    enum vc_dtype dtype; /* as stored; quantized tensors are decoded and then measured */
    uint64_t n_elems, n_zeros;
    double rms;
    bool nonfinite;          /* not measured, because some values are NaN or infinite */
    const char *reason;      /* why the tensor was not measured, as in reports of quantize; NULL: measured */
    const char *prune_keeps; /* why prune skips this tensor by default ("embedding"); NULL: not skipped */
    const struct vc_sensitivity_error *errors; /* one per candidate; NULL if not measured */
};

/* A tensor with a high error. */
struct vc_sensitivity_pick {
    size_t row;
    double relative; /* error of the tensor */
    /* Pruning: the highest measured sparsity with an error within the limit; 0: every sparsity exceeds the limit. */
    unsigned percent;
};

/* The tensors with an error far above the median. The error is from the weights alone or, after vc_sensitivity_measure,
 * the change of the outputs. */
struct vc_sensitivity_advice {
    size_t candidate; /* number of the candidate; VC_NO_TENSOR: no tensor that the command chooses was measured */
    double median;    /* of the relative errors, over the tensors that the command chooses */
    /* Tensors above this error are picked. 1.25 times the median for pruning from the weights alone, else twice the
     * median (6 dB). */
    double limit;
    size_t n_picks; /* highest error first */
    const struct vc_sensitivity_pick *picks;
};

struct vc_sensitivity {
    const struct vc_model *model; /* the measured model */
    size_t n_candidates;          /* magnitudes by rising sparsity, then the pattern, then schemes */
    const struct vc_sensitivity_candidate *candidates;
    size_t n_rows; /* weights in the model's order, without scales and second names */
    const struct vc_sensitivity_row *rows;
    size_t n_measured;
    struct vc_sensitivity_advice prune; /* for "prune --sparsity 0.5" */
    /* For "quantize --int8", a scale per output channel; without tensors below VC_DEFAULT_MIN_ELEMS elements. */
    struct vc_sensitivity_advice quantize;
    const char *note;                   /* names rules that match nothing, or NULL */
    const struct vc_measured *measured; /* NULL before vc_sensitivity_measure */
};

struct vc_sensitivity_options {
    size_t struct_size; /* set by vc_sensitivity_defaults */
    const struct vc_rule *rules;
    size_t n_rules;
    uint64_t min_elems; /* smaller tensors are not measured, unless a rule includes them */
};

/* No rules, min_elems 0. options NULL means the same. */
static inline void vc_sensitivity_defaults(struct vc_sensitivity_options *options)
{
    vc_options_defaults("vc_sensitivity_options", options, sizeof *options);
}

/* Measures the weights that quantize or prune choose by default, and the tensors that a rule includes. Reads each
 * tensor twice. A tensor with NaN or infinite values is not measured; `reason` says so. options may be NULL. Model and
 * context must outlive the result. Free *out with vc_result_free. A model does not list unreadable tensors; its
 * notes name them. Errors: the failures of reading values (vc_model_read). */
VC_API enum vc_status vc_model_sensitivity(struct vc_ctx *ctx, const struct vc_model *model,
                                           const struct vc_sensitivity_options *options, struct vc_sensitivity **out);

/* ---- with data ---- */

/* The effect of a change of weights on the outputs of the model. */
struct vc_output_change {
    const char *reason; /* why there are no figures, a few words; NULL: figures are valid */
    double relative; /* norm of the change of all float outputs / norm of these outputs; INFINITY: some outputs are NaN
                        or infinite */
    /* Share, 0 to 1, of the rows of the first float output whose largest entry moves to another place; for logits:
     * changed answers. NaN: rows have one entry. */
    double answers;
};

struct vc_measured_tensor {
    size_t row;                             /* of vc_sensitivity.rows */
    const char *reason;                     /* why not measured; NULL: measured */
    const struct vc_output_change *changes; /* one per entry of vc_measured.candidates; NULL: not measured */
};

/* A group of units (couplings.h). For each sparsity the units with the smallest weights are removed. */
struct vc_measured_group {
    const char *name;
    enum vc_unit unit;
    uint64_t n_units;
    const char *reason; /* why not measured; NULL: measured. The arrays have one entry per sparsity */
    const uint64_t *n_removed;
    /* From the weights alone: norm of the removed rows / norm of all rows that make the units. */
    const double *relative;
    const struct vc_output_change *changes;
};

struct vc_measured {
    uint64_t n_rows; /* computed rows of the data; 0: the inputs have fixed sizes */
    size_t n_runs;
    size_t n_candidates;
    const size_t *candidates; /* numbers in vc_sensitivity.candidates: 50, 70 and 90 %, patterns, schemes */
    /* For each candidate: Spearman's rank correlation, -1 to 1, between the errors from the weights alone and the
     * changes of the outputs. NaN if fewer than three tensors have both. */
    const double *agreement;
    size_t n_tensors;
    const struct vc_measured_tensor *tensors; /* tensors with figures in vc_sensitivity */
    size_t n_percents;
    const unsigned *percents; /* sparsities of groups, in percent */
    const double *group_agreement;
    size_t n_groups;
    const struct vc_measured_group *groups;
};

struct vc_sensitivity_data_options {
    size_t struct_size;                 /* set by vc_sensitivity_data_defaults */
    struct vc_graph *graph;             /* graph of the model; must be set */
    const struct vc_model *graph_model; /* holds parameters that the measured model lacks, or NULL */
    const char *data;                   /* as vc_graph_file_options.data */
    const char *const *arrays;          /* as vc_graph_file_options.arrays */
    size_t n_arrays;
    uint64_t n_rows; /* rows to compute, for inputs with an open first size; 0: all; default 8 */
    /* Called before the runs with changed weights: their number and expected seconds, from the time of the unchanged
     * run. May be NULL.
     */
    void (*estimate)(void *user, size_t n_runs, double seconds);
    void *user;
    uint64_t batch; /* as vc_graph_file_options.batch; divides the rows. 0: all rows at once */
    /* As in vc_graph_file_options. */
    double scale;
    const char *mean, *deviation;
    uint64_t length, token_bits;
};

static inline void vc_sensitivity_data_defaults(struct vc_sensitivity_data_options *options)
{
    vc_options_defaults("vc_sensitivity_data_options", options, sizeof *options);
}

/* Computes the model in f32 once per tensor and candidate with this tensor changed, and once per coupled group and
 * sparsity with units removed. Fills vc_sensitivity.measured. Each run computes only the values that depend on the
 * change; values of the first run are kept, up to half of the memory limit. VC_E_ARGUMENT if the data do not fit the
 * graph or no output is float. */
VC_API enum vc_status vc_sensitivity_measure(struct vc_ctx *ctx, struct vc_sensitivity *sensitivity,
                                             const struct vc_sensitivity_data_options *options);

/* Writes the document of vc_document_json while it is made, in pieces of some 64 KiB: that of many tensors takes no memory then. `write` is
 * called in the order of the bytes, and neither `begin` nor `commit`: what came before a failure is no document. */
VC_API enum vc_status vc_sensitivity_json_write(struct vc_ctx *ctx, const struct vc_sensitivity *sensitivity,
                                                const struct vc_writer *writer);
/* For vc_quantize_options.costs. */
struct vc_sensitivity_costs {
    size_t n;
    const struct vc_measured_cost *costs; /* those of a tensor one after the other */
};

/* Reads the document of a sensitivity with data. VC_E_FORMAT if the file is no such document. Free *out with
 * vc_result_free. */
VC_API enum vc_status vc_sensitivity_costs_read(struct vc_ctx *ctx, const char *path,
                                                struct vc_sensitivity_costs **out);

VC_END_C
#endif
