/* measure.h - looks at values without writing: statistics of one checkpoint, the difference of two.
 *
 * Experimental: see experimental.h. */
#ifndef VCOMPRESS_MEASURE_H
#define VCOMPRESS_MEASURE_H

#include <vcompress/job.h>

#ifdef __cplusplus
extern "C" {
#endif

#define VC_HISTOGRAM_BINS 256

/* Values of one tensor as the weights they stand for (codes are decoded). Only float and quantized tensors have them;
 * others have valid == false. */
struct vc_value_stats {
    bool valid;
    uint64_t n_elems, nans, infs, zeros, subnormals;
    double min, max, absmax, mean, rms; /* over the finite values */
    /* Finite values by the 8 exponent bits of the value rounded to f32: bin 0 holds zeros and subnormals, bin e the
     * magnitudes in [2^(e-127), 2^(e-126)). */
    uint64_t histogram[VC_HISTOGRAM_BINS];
};

/* Fills stats[i] for every tensor i of the model; n must be its tensor count. Tensors that cannot be read are in no
 * list of the model; its notes name them. */
VC_API enum vc_status vc_model_stats(struct vc_ctx *ctx, const struct vc_model *model, struct vc_value_stats *stats,
                                     size_t n);

/* Numbers are stable. */
enum vc_diff_kind {
    VC_DIFF_SAME = 0,   /* equal values */
    VC_DIFF_VALUES = 1, /* same shape, other values */
    VC_DIFF_SHAPE = 2,
    VC_DIFF_ONLY_A = 3,
    VC_DIFF_ONLY_B = 4
};

struct vc_diff_row {
    const char *name;
    enum vc_diff_kind kind;
    enum vc_dtype dtype_a, dtype_b; /* as stored; VC_DTYPE_NONE where absent */
    uint64_t n_elems;
    bool identical;                        /* same type, same bytes; false where the values are codes of weights */
    bool numeric;                          /* the figures below are valid */
    double max_abs_error, sqnr_db, cosine; /* of b against a; SQNR INFINITY when equal */
    double sum_x2, sum_e2;
};

struct vc_diff {
    size_t n_rows;
    const struct vc_diff_row *rows; /* order of a, then those only in b; companions are left out */
    double max_abs_error, sqnr_db;  /* over all numeric rows */
    size_t n_different;             /* rows of another kind than VC_DIFF_SAME */
};

/* Compares the weights that two checkpoints stand for, tensor by tensor; quantized tensors are decoded first. The
 * result borrows names from both models, which must outlive it as the context must, and is freed with vc_diff_free.
 * VC_E_UNSUPPORTED where a file has tensors that cannot be read: nothing could be said of the whole. */
VC_API enum vc_status vc_diff_models(struct vc_ctx *ctx, const struct vc_model *a, const struct vc_model *b,
                                     struct vc_diff **out);
VC_API void vc_diff_free(struct vc_diff *diff); /* accepts NULL */

/* How close is close enough. A tensor that is not the same has to hold every measure that is in use. */
struct vc_diff_limits {
    size_t struct_size; /* set by vc_diff_limits_defaults */
    bool by_value;      /* no value differs by more than `tolerance` */
    double tolerance;   /* 0: any difference is too much */
    bool by_sqnr;       /* the SQNR is at least min_sqnr_db */
    double min_sqnr_db; /* any number */
};

VC_API void vc_diff_limits_defaults_sized(struct vc_diff_limits *limits, size_t struct_size);

/* No measure is in use: every difference of values is close enough. */
static inline void vc_diff_limits_defaults(struct vc_diff_limits *limits)
{
    vc_diff_limits_defaults_sized(limits, sizeof *limits);
}

/* The row is the same in both, or differs within the limits. One that is missing, or has another shape, never does.
 * Limits that vc_diff_json would refuse (not made by vc_diff_limits_defaults, or with an option that this version does
 * not know) allow no difference. */
VC_API bool vc_diff_within(const struct vc_diff_limits *limits, const struct vc_diff_row *row);
/* Rows that do not. */
VC_API size_t vc_diff_beyond(const struct vc_diff_limits *limits, const struct vc_diff *diff);

/* Renders it as one JSON document, schema vcompress.diff/1 (installed as diff-1.schema.json); a and b: what was
 * compared. *text is NUL-terminated and freed with vc_text_free. */
VC_API enum vc_status vc_diff_json(struct vc_ctx *ctx, const struct vc_model *a, const struct vc_model *b,
                                   const struct vc_diff *diff, const struct vc_diff_limits *limits, char **text);

/* Runs every kernel variant of this machine against the reference on small inputs, and a round trip through a
 * temporary file in `folder` (NULL: $TMPDIR or /tmp). *summary: one line per part; freed with vc_text_free. */
VC_API enum vc_status vc_selftest(struct vc_ctx *ctx, const char *folder, char **summary);

#ifdef __cplusplus
}
#endif
#endif
