/* verify_support.h - files in memory and what a verification finds in them: what the tests of verify share. */
#pragma once

#include "formats_test.h"
#include "scratch.h"
#include "support_options.h"

/* A member of a safetensors header. */
#define ENTRY(name, dtype, shape, begin, end) \
    "\"" name "\":{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":[" #begin "," #end "]}"

/* The options of most verifications. */
static inline struct vc_verify_options headers(void)
{
    return support_verify(false);
}

static inline struct vc_verify_options with_data(void)
{
    return support_verify(true);
}

/* A safetensors file with this header and that data. */
struct bytes st_file(const char *header, const void *data, size_t n);
struct bytes st_zeros(const char *header, size_t n);

/* Stops the test where there is no report. */
struct vc_verification *verify_bytes(struct vc_ctx *ctx, const struct bytes *b, struct vc_verify_options options);

/* The findings, spelled "error hole a|warning tied b": severity, id, name. */
void expect(const struct bytes *b, struct vc_verify_options options, const char *wanted);
void expect_at(const char *path, struct vc_verify_options options, const char *wanted);
