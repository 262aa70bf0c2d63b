/* verify.h - all errors of a checkpoint at once: the checks of vc_model_open, without stopping at the first error, and
 * checks that need other files or the values. */
#ifndef VCOMPRESS_VERIFY_H
#define VCOMPRESS_VERIFY_H

#include <vcompress/model.h>

VC_BEGIN_C

/* Numbers are stable. */
enum vc_severity {
    /* Readers refuse the file or read wrong values, or the file misses what the options ask for. */
    VC_SEVERITY_ERROR = 0,
    VC_SEVERITY_WARNING = 1 /* unusual, but possibly intended */
};

struct vc_finding {
    enum vc_severity severity;
    const char *id;       /* one stable word: "hole", "dtype"; docs/formats.md lists them */
    const char *tensor;   /* tensor, member, or file of a folder; "": the finding is about the whole checkpoint */
    const char *sentence; /* without the name of the tensor */
};

/* Measurements of one tensor. */
struct vc_verify_row {
    const char *name;
    enum vc_dtype dtype; /* as stored */
    uint64_t n_elems;
    bool read;           /* the bytes were read, and the checksum, if the format has one, is right */
    uint64_t nans, infs; /* of floats */
    char sha256[65];     /* hex digest of the values (C order, little-endian); "" unless asked for and read */

    bool compared;  /* with the tensor of the same name in `against`; the fields below are valid */
    bool identical; /* same type, same bytes */
    bool numeric;
    double sqnr_db, max_abs_error; /* valid if numeric: against `against`; SQNR INFINITY if equal */
};

/* Number and bytes of the tensors of one type. */
struct vc_verify_dtype {
    enum vc_dtype dtype;
    size_t n_tensors;
    uint64_t size_bytes; /* bytes of values; tied tensors count once */
};

struct vc_rule; /* quantize.h */

/* Strings are read during the call of vc_verify only. */
struct vc_verify_options {
    size_t struct_size;    /* set by vc_verify_defaults */
    const char *against;   /* the checkpoint that this file was made from, or NULL. Reads the values of both */
    bool data;             /* read the values: check checksums, scales, codes, NaN and Inf */
    bool sha256;           /* with `data`: a digest of each tensor; VC_E_UNSUPPORTED if not built in */
    double min_sqnr_db;    /* with `against`: a tensor with a lower SQNR is an error; 0: off */
    enum vc_dtype void_as; /* as in vc_open_options, for both files */
    /* Pattern of zeros that every weight chosen by prune's default rules must have; a weight without the pattern is an
     * error. "2:4": at most 2 of 4 values along the input channels are not zero. "block:4x4": each block of the matrix
     * is all zero or has no zero. Reads these weights. NULL: no check. */
    const char *pattern;
    const struct vc_rule *rules; /* with `pattern`: weights to add or exclude; the last matching rule decides */
    size_t n_rules;
};

/* Headers only, no `against`. options NULL means the same. */
static inline void vc_verify_defaults(struct vc_verify_options *options)
{
    vc_options_defaults("vc_verify_options", options, sizeof *options);
}

/* Largest number of findings that are kept; n_errors and n_warnings count all findings. */
#define VC_MAX_FINDINGS 1000

struct vc_verification {
    const char *path, *format;
    uint64_t file_bytes;
    size_t n_tensors; /* readable tensors */
    size_t n_dtypes;
    const struct vc_verify_dtype *dtypes; /* of the readable tensors, in the order of enum vc_dtype */
    bool data;                            /* the values were read */

    size_t n_findings; /* errors first; within errors and warnings in the order of the checks */
    const struct vc_finding *findings;
    size_t n_errors, n_warnings;

    size_t n_rows; /* 0 unless values were read: tensors in file order, with scales and zero points */
    const struct vc_verify_row *rows;

    const char *against; /* path; "" if options.against is NULL */
    size_t n_compared, n_identical;
    bool measured;    /* some tensor differs and has figures: sqnr_db is valid */
    double sqnr_db;   /* over all tensors that differ */
    size_t worst;     /* row with the lowest SQNR; VC_NO_TENSOR if all are identical */
    size_t n_pattern; /* weights that were checked for options.pattern */
};

/* Checks the file at `path`. Errors in the file are findings, not failures: the status is VC_OK and n_errors counts
 * them. In a damaged file the damage is a finding, and the readable parts are checked. Returns VC_E_FORMAT if the file
 * is no checkpoint, VC_E_UNSUPPORTED if the format is not supported, VC_E_IO or VC_E_NOMEM if the system fails, and the
 * failure of opening `against`. options NULL: headers only. Free *out with vc_result_free, before the context. */
VC_API enum vc_status vc_verify(struct vc_ctx *ctx, const char *path, const struct vc_verify_options *options,
                                struct vc_verification **out);

VC_END_C
#endif
