/* verify.h - everything that is wrong with a checkpoint, at once: the checks that opening makes anyway, without
 * stopping at the first, and those that need other files or the values. */
#ifndef VCOMPRESS_VERIFY_H
#define VCOMPRESS_VERIFY_H

#include <vcompress/model.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Numbers are stable. */
enum vc_severity {
    VC_SEVERITY_ERROR = 0,  /* readers refuse the file, read something else than was meant, or it is not what it should
                               be */
    VC_SEVERITY_WARNING = 1 /* worth a look, and may be meant */
};

struct vc_finding {
    enum vc_severity severity;
    const char *id;       /* one stable word: "hole", "dtype"; docs/formats.md lists them */
    const char *tensor;   /* or member, or file of a folder; "" when it is about the whole */
    const char *sentence; /* does not repeat the tensor's name */
};

/* What was measured of one tensor. */
struct vc_verify_row {
    const char *name;
    enum vc_dtype dtype; /* as stored */
    uint64_t n_elems;
    bool read;           /* its bytes were read, and its checksum is right where the format has one */
    uint64_t nans, infs; /* of floats */
    char sha256[65];     /* of its values in C order, little-endian, as digits; "" unless asked for and read */

    bool compared;  /* with the source's tensor of that name; the fields below are valid */
    bool identical; /* same type, same bytes */
    bool numeric;
    double sqnr_db, max_abs_error; /* if numeric, against the source; INFINITY when equal */
};

/* How often a type occurs. */
struct vc_verify_dtype {
    enum vc_dtype dtype;
    size_t n_tensors;
    uint64_t size_bytes; /* of their values; tied ones once */
};

struct vc_rule; /* quantize.h */

/* Strings are read during the call of vc_verify only. */
struct vc_verify_options {
    size_t struct_size;    /* set by vc_verify_defaults */
    const char *against;   /* the checkpoint that this one was made from; NULL: none. Reads the values of both */
    bool data;             /* read the values: checksums, scales, codes, NaN and Inf */
    bool sha256;           /* ... and a digest of each tensor; VC_E_UNSUPPORTED where it was not built in */
    double min_sqnr_db;    /* with `against`: below it a tensor is an error; 0 = none */
    enum vc_dtype void_as; /* as in vc_open_options, for both files */
    /* "2:4": an error where a weight that prune would choose by itself has more than 2 values of 4 along its input
     * channels that are not zero. "block:4x4": where a block of its matrix has zeros and other values. Reads these
     * weights. NULL: any. */
    const char *pattern;
    const struct vc_rule *rules; /* with `pattern`: which weights besides, or not; the last that matches decides */
    size_t n_rules;
};

VC_API void vc_verify_defaults_sized(struct vc_verify_options *options, size_t struct_size);

/* Headers only, no source: what options NULL means, too. */
static inline void vc_verify_defaults(struct vc_verify_options *options)
{
    vc_verify_defaults_sized(options, sizeof *options);
}

/* At most so many findings are kept; n_errors and n_warnings count all. */
#define VC_MAX_FINDINGS 1000

struct vc_verification {
    const char *path, *format;
    uint64_t file_bytes;
    size_t n_tensors; /* that could be read */
    size_t n_dtypes;
    const struct vc_verify_dtype *dtypes; /* of these tensors, in the order of enum vc_dtype */
    bool data;                            /* the values were read */

    size_t n_findings; /* errors first, then in the order of the checks */
    const struct vc_finding *findings;
    size_t n_errors, n_warnings;

    size_t n_rows; /* 0 unless values were read: tensors in the file's order, scales and zero points too */
    const struct vc_verify_row *rows;

    const char *against; /* path; "" if there was none */
    size_t n_compared, n_identical;
    bool measured;    /* some tensor differs and has figures; the fields below are valid */
    double sqnr_db;   /* over all tensors that differ */
    size_t worst;     /* row with the lowest SQNR; VC_NO_TENSOR when all are identical */
    size_t n_pattern; /* weights that were checked for options.pattern; those that lack it are findings */
};

/* Checks the file at `path`. What is found is no failure: VC_OK, and the caller looks at n_errors. That holds for a
 * damaged file, too: the damage is a finding, and what can still be read is looked at. Failures: a file that is no
 * checkpoint (VC_E_FORMAT) or of a kind that cannot be read (VC_E_UNSUPPORTED), a source that cannot be opened, and as
 * the system says it (VC_E_IO, VC_E_NOMEM). options may be NULL: headers only. Freed with vc_verification_free,
 * before the context. */
VC_API enum vc_status vc_verify(struct vc_ctx *ctx, const char *path, const struct vc_verify_options *options,
                                struct vc_verification **out);
VC_API void vc_verification_free(struct vc_verification *verification); /* accepts NULL */

/* Renders it as one JSON document, schema vcompress.verify/1 (installed as verify-1.schema.json); its member "fine" is
 * true when there is no error, and with `strict` no warning either. *text is NUL-terminated and freed with
 * vc_text_free. */
VC_API enum vc_status vc_verify_json(struct vc_ctx *ctx, const struct vc_verification *verification, bool strict,
                                     char **text);

#ifdef __cplusplus
}
#endif
#endif
