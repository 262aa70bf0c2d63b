/* scheme_spelling.h - one spelling of schemes, and the others that people and programs have for them:
 *
 *     int4/group:128    --int4/group:128    INT4/group:128    int4-g128     all mean the same
 *     int8/tensor       int8-tensor
 *     fp16              f16    float16    half */
#pragma once

#define SCHEME_BYTES 64

/* The spelling that reports print and quantize --scheme takes. Not longer than SCHEME_BYTES; what does not fit, or is no
 * spelling of any scheme, comes out as something that is no scheme either. Returns `to`. */
const char *scheme_spelled(const char *word, char *to);

/* The same as the library's estimates call it (vc_weight_scheme_name): "int4-g128", "int8" for int8/channel. */
const char *scheme_spelled_for_estimates(const char *word, char *to);
