/* measure.h - measures values: statistics of one checkpoint, differences of two. Writes nothing.
 *
 * Experimental: see experimental.h. */
#ifndef VCOMPRESS_MEASURE_H
#define VCOMPRESS_MEASURE_H

#include <vcompress/job.h>

VC_BEGIN_C

#define VC_HISTOGRAM_BINS 256

/* Statistics of the values of one tensor; codes are decoded to weights first. Only float and quantized tensors have
 * statistics; other tensors have valid == false. */
struct vc_value_stats {
    bool valid;
    uint64_t n_elems, nans, infs, zeros, subnormals;
    double min, max, absmax, mean, rms; /* over the finite values */
    /* Counts of finite values by the 8 exponent bits of the value rounded to f32. Bin 0: zeros and subnormals; bin e:
     * magnitudes in [2^(e-127), 2^(e-126)). */
    uint64_t histogram[VC_HISTOGRAM_BINS];
};

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
    bool identical;                        /* same type and bytes; always false for quantized tensors */
    bool numeric;                          /* the figures below are valid */
    double max_abs_error, sqnr_db, cosine; /* b against a; SQNR INFINITY if equal */
    double sum_x2, sum_e2;
};

struct vc_diff {
    size_t n_rows;
    const struct vc_diff_row *rows; /* order of a, then rows only in b; without scales and zero points */
    double max_abs_error, sqnr_db;  /* over all numeric rows */
    size_t n_different;             /* rows with kind != VC_DIFF_SAME */
};

/* Compares two checkpoints tensor by tensor; quantized tensors are decoded first. Models and context must outlive the
 * result, which borrows names. Free *out with vc_result_free. VC_E_UNSUPPORTED if a file has unreadable tensors. */
VC_API enum vc_status vc_diff_models(struct vc_ctx *ctx, const struct vc_model *a, const struct vc_model *b,
                                     struct vc_diff **out);

/* Limits for differences. A tensor with other values must meet every limit in use. */
struct vc_diff_limits {
    size_t struct_size; /* set by vc_diff_limits_defaults */
    bool by_value;      /* limit: no value differs by more than `tolerance` */
    double tolerance;   /* 0: no difference allowed */
    bool by_sqnr;       /* limit: the SQNR is at least min_sqnr_db */
    double min_sqnr_db; /* any number */
};

/* No limit in use: every difference of values is within the limits. */
static inline void vc_diff_limits_defaults(struct vc_diff_limits *limits)
{
    vc_options_defaults("vc_diff_limits", limits, sizeof *limits);
}

/* True if the row is the same in both models or differs within the limits. False for a missing tensor or another shape.
 * Limits that vc_document_json refuses (not made by vc_diff_limits_defaults, or with a field unknown to this version) allow
 * no difference. */
VC_API bool vc_diff_within(const struct vc_diff_limits *limits, const struct vc_diff_row *row);

/* Compares every kernel variant of this machine with the reference on small inputs, and does a round trip through a
 * temporary file in `folder` (NULL: $TMPDIR or /tmp). *summary: one line per part; free with vc_text_free. */
VC_API enum vc_status vc_selftest(struct vc_ctx *ctx, const char *folder, char **summary);

VC_END_C
#endif
