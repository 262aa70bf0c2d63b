/* sensitivity.h - what each tensor would lose: the error of pruning it to several sparsities, and of every scheme that
 * quantize has. From the weights alone, no data of the model's task. Nothing is written.
 *
 * Experimental: see experimental.h. */
#ifndef VCOMPRESS_SENSITIVITY_H
#define VCOMPRESS_SENSITIVITY_H

#include <vcompress/couplings.h>
#include <vcompress/quantize.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What is tried on a tensor. Numbers are stable. */
enum vc_sensitivity_kind {
    VC_SENSITIVITY_MAGNITUDE = 0, /* the smallest magnitudes of the tensor become zero */
    VC_SENSITIVITY_PATTERN = 1,   /* 2:4 along the input channels */
    VC_SENSITIVITY_SCHEME = 2     /* quantized, with the scheme's usual options */
};

struct vc_sensitivity_way {
    enum vc_sensitivity_kind kind;
    const char *name; /* as reports have it: "50%", "2:4", "int8/group:128", "f16" */
    unsigned percent; /* of VC_SENSITIVITY_MAGNITUDE: how many of a hundred weights go; else 0 */
};

/* What one way does to one tensor. */
struct vc_sensitivity_error {
    const char *reason; /* why there are no figures, a few words; NULL: there are */
    double relative;    /* sqrt(sum of squared errors / sum of squares): 0 to 1 for pruning */
    double sqnr_db;     /* the same in dB: -20 log10(relative); INFINITY where nothing changes */
    uint64_t bytes;     /* of the tensor then, with its scales; for pruning those of now: zeros are stored, too */
};

struct vc_sensitivity_row {
    size_t tensor; /* in the model */
    const char *name;
    enum vc_dtype dtype; /* as stored; quantized ones are measured as what they decode to */
    uint64_t n_elems, n_zeros;
    double rms;
    bool nonfinite;          /* NaN or Inf are among its values: not measured for that */
    const char *reason;      /* why it was not measured, as reports of quantize have it; NULL: it was */
    const char *prune_keeps; /* why prune leaves it alone unless it is asked for ("embedding"); NULL: it does not */
    const struct vc_sensitivity_error *errors; /* one for each way; NULL unless it was measured */
};

/* A tensor that stands out. */
struct vc_sensitivity_pick {
    size_t row;
    double relative;  /* its error */
    unsigned percent; /* pruning: the highest sparsity measured at which it has no more than the limit; 0: none */
};

/* The tensors whose error is far above that of the others: from the weights alone, or, behind vc_sensitivity_measure,
 * the change of the outputs. */
struct vc_sensitivity_advice {
    size_t way;     /* that is judged; VC_NO_TENSOR: no tensor was measured that the command would choose */
    double median;  /* of the relative errors, over the tensors that the command chooses */
    double limit;   /* tensors above it are picked: 1.25 times the median for pruning, twice the median (6 dB) else and
                       with data */
    size_t n_picks; /* the worst first */
    const struct vc_sensitivity_pick *picks;
};

struct vc_sensitivity {
    const struct vc_model *model; /* the one that was measured */
    size_t n_ways;                /* magnitudes by rising sparsity, then the pattern, then schemes */
    const struct vc_sensitivity_way *ways;
    size_t n_rows; /* weights in the model's order, without scales and second names */
    const struct vc_sensitivity_row *rows;
    size_t n_measured;
    struct vc_sensitivity_advice prune; /* for "prune --sparsity 0.5" */
    /* For "quantize --int8": a scale per output channel; tensors below VC_DEFAULT_MIN_ELEMS elements are left out. */
    struct vc_sensitivity_advice quantize;
    const char *note;                   /* rules that match nothing; NULL: none */
    const struct vc_measured *measured; /* vc_sensitivity_measure; NULL: it was not called */
};

struct vc_sensitivity_options {
    size_t struct_size; /* set by vc_sensitivity_defaults */
    const struct vc_rule *rules;
    size_t n_rules;
    uint64_t min_elems; /* tensors with fewer elements are not measured, unless a rule asks for them */
};

VC_API void vc_sensitivity_defaults_sized(struct vc_sensitivity_options *options, size_t struct_size);

/* No rules, no least size: what options NULL means, too. */
static inline void vc_sensitivity_defaults(struct vc_sensitivity_options *options)
{
    vc_sensitivity_defaults_sized(options, sizeof *options);
}

/* Measures the weights that quantize or prune would choose, and those that a rule includes. Reads each tensor twice in
 * a row. A tensor with NaN or Inf is not measured, and its reason says so. options may be NULL. The result borrows from
 * the model, which must outlive it as the context must, and is freed with vc_sensitivity_free. Tensors that cannot
 * be read are in no list of the model; its notes name them. Errors: as the file or the system has them. */
VC_API enum vc_status vc_model_sensitivity(struct vc_ctx *ctx, const struct vc_model *model,
                                           const struct vc_sensitivity_options *options, struct vc_sensitivity **out);
VC_API void vc_sensitivity_free(struct vc_sensitivity *sensitivity); /* accepts NULL */

/* ---- with data ---- */

/* What a change of weights does to the outputs of the model. */
struct vc_output_change {
    const char *reason; /* why there are no figures, a few words; NULL: there are */
    double relative; /* norm of the change of all outputs that are floats / their norm; INFINITY: some are no numbers */
    double answers;  /* of the rows of the first such output those whose largest entry is another one, 0 to 1: for
                        logits other answers. NaN: its rows have one entry */
};

struct vc_measured_tensor {
    size_t row;                             /* of vc_sensitivity.rows */
    const char *reason;                     /* why it was not measured; NULL: it was */
    const struct vc_output_change *changes; /* one for each of vc_measured.ways; NULL: not measured */
};

/* Units that can only be removed together (couplings.h): those with the smallest weights are. */
struct vc_measured_group {
    const char *name;
    enum vc_unit unit;
    uint64_t n_units;
    const char *reason; /* why it was not measured; NULL: it was. Arrays have one entry for each sparsity */
    const uint64_t *n_removed;
    const double *relative; /* from the weights alone: norm of the removed rows / norm of all that make the units */
    const struct vc_output_change *changes;
};

struct vc_measured {
    uint64_t n_rows; /* of the data that were computed; 0: the inputs have sizes that are fixed */
    size_t n_runs;
    size_t n_ways;
    const size_t *ways; /* of vc_sensitivity.ways: 50, 70 and 90 %, patterns, schemes */
    /* For each way, how well the figures from the weights alone put the tensors into the order that the outputs do:
     * Spearman's rank correlation, -1 to 1; NaN where fewer than three tensors have both. */
    const double *agreement;
    size_t n_tensors;
    const struct vc_measured_tensor *tensors; /* those that vc_sensitivity has figures of */
    size_t n_percents;
    const unsigned *percents; /* of groups */
    const double *group_agreement;
    size_t n_groups;
    const struct vc_measured_group *groups;
};

struct vc_sensitivity_data_options {
    size_t struct_size;                 /* set by vc_sensitivity_data_defaults */
    struct vc_graph *graph;             /* what the model computes; has to be set */
    const struct vc_model *graph_model; /* has the parameters that the measured model has no tensors for; NULL: none */
    const char *data;                   /* a file with an array for each input, as vc_graph_file_options has it */
    const char *const *arrays;          /* the same */
    size_t n_arrays;
    uint64_t n_rows; /* of inputs whose first size is open; 0: all (default 8) */
    /* Called before the runs, with how many there are and how long they will take, as the first one took. May be NULL.
     */
    void (*estimate)(void *user, size_t n_runs, double seconds);
    void *user;
    uint64_t batch; /* as vc_graph_file_options has it; divides the rows. 0: all rows at once */
};

VC_API void vc_sensitivity_data_defaults_sized(struct vc_sensitivity_data_options *options, size_t struct_size);

static inline void vc_sensitivity_data_defaults(struct vc_sensitivity_data_options *options)
{
    vc_sensitivity_data_defaults_sized(options, sizeof *options);
}

/* Computes the model (f32, the reference forward pass) with one tensor after the other changed in every way, and with
 * units of every coupled group removed, and fills vc_sensitivity.measured. Of each run only what lies behind the change
 * is computed, from the values of the first run, as many as half of the memory limit holds. VC_E_ARGUMENT: the data do
 * not fit the graph, or it has no outputs that are floats. */
VC_API enum vc_status vc_sensitivity_measure(struct vc_ctx *ctx, struct vc_sensitivity *sensitivity,
                                             const struct vc_sensitivity_data_options *options);

/* Renders it as one JSON document, schema vcompress.sensitivity/1 (installed as sensitivity-1.schema.json), or as a
 * drawing, SVG, which needs nothing beside it. *text is NUL-terminated and freed with vc_text_free. */
VC_API enum vc_status vc_sensitivity_json(struct vc_ctx *ctx, const struct vc_sensitivity *sensitivity, char **text);
VC_API enum vc_status vc_sensitivity_svg(struct vc_ctx *ctx, const struct vc_sensitivity *sensitivity, char **text);

#ifdef __cplusplus
}
#endif
#endif
