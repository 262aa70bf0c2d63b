/* zip_internal.h - what zip_read.c, zip_local.c and zip_recover.c share. */
#pragma once

#include "formats/zip/zip_read.h"

#define VC_ZIP_EXTRA_64    0x0001
#define VC_ZIP_LOCAL_BYTES 30 /* of a local header without name and extra field */
#define VC_ZIP_LOCAL_MAGIC 0x04034b50

struct vc_zip_extra {
    unsigned id;
    size_t n;
    const unsigned char *data; /* NULL: no more */
};

/* The next sub-field of an extra field; *at < n moves past it. */
enum vc_status vc_zip_extra_next(struct vc_ctx *ctx, const unsigned char *extra, size_t n, size_t *at,
                                 struct vc_zip_extra *out);
