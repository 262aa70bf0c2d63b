/* text_read.c - see text_read.h. Reads from a stream instead of asking for the size first, so that pipes and
 * /dev/stdin work. */
#include "graph/text_read.h"

#include <errno.h>

#define FIRST 4096

/* Reads to the end of the stream into a buffer that grows by four: 4 KiB, 16 KiB, ... up to most + 1, which shows
 * that the file is larger than allowed. The old buffer is freed before the read, so memory stays within the bound
 * of text_read.h. */
static enum vc_status read_all(struct vc_ctx *ctx, FILE *file, size_t most, char **text, size_t *n)
{
    for (size_t capacity = FIRST;; capacity = capacity < most / 4 ? 4 * capacity : most + 1) {
        char *more = vc_alloc(ctx, VC_TAG_MISC, capacity + 1);

        VC_CALL_ALLOC(more);
        if (*n != 0) {
            memcpy(more, *text, *n);
        }
        vc_free(ctx, *text);
        *text = more;
        *n += fread(more + *n, 1, capacity - *n, file);
        if (*n < capacity || *n > most) {
            more[*n] = '\0';
            return VC_OK;
        }
    }
}

enum vc_status vc_read_text(struct vc_ctx *ctx, const char *path, const char *what, size_t most, char **text, size_t *n)
{
    FILE *file = fopen(path, "rb");
    enum vc_status status = VC_OK;

    *text = NULL;
    *n = 0;
    VC_RETURN_IF(file == NULL, vc_fail_errno(ctx, errno, "cannot open it"));
    VC_TRY(read_all(ctx, file, most, text, n));
    if (ferror(file) != 0) {
        status = vc_fail_errno(ctx, errno, "cannot read it");
    } else if (*n > most) {
        status = vc_fail(ctx, VC_E_FORMAT, "is larger than %s may be, %zu MiB", what, most >> 20);
    }
out:
    (void)fclose(file);
    return status;
}
