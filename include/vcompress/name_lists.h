/* name_lists.h - what options may name, in lists: for programs that show or complete such names. */
#ifndef VCOMPRESS_NAME_LISTS_H
#define VCOMPRESS_NAME_LISTS_H

#include <stddef.h>

#include <vcompress/status.h>

VC_BEGIN_C

/* Numbers are stable. */
enum vc_names {
    VC_NAMES_FORMATS = 0,    /* that can be written: "npz", as in vc_model_facts.format and vc_write_options.format */
    VC_NAMES_EXTENSIONS = 1, /* the usual one of each of these formats: ".npz" */
    VC_NAMES_LAYOUTS = 2,    /* vc_write_options.layout: "plain" is the first */
    VC_NAMES_MIXTURES = 3,   /* vc_quantize_options.gguf: "Q4_K_M" */
    VC_NAMES_SCHEMES = 4,    /* by the number of enum vc_scheme: "none", "int8" */
    VC_NAMES_DIGESTS = 5     /* of vc_job_digest: "sha256"; none in a build without nettle */
};

/* Name number `index` of a list, from 0 on, a static string. Returns NULL after the last name. */
VC_API const char *vc_name_at(enum vc_names list, size_t index);

VC_END_C
#endif
