/* disk_reservation.c - disk space for an output that is written much later: an unnamed file of its size in the
 * output's folder. See core/run/sink.h.
 *
 * Training may run for days before its output is written: this file takes the room now, and gives it back when writing
 * begins. */
#include "formats/formats.h"
#include "formats/io/outfile.h"

/* *out NULL: nothing is held, because no file is written, or a folder is. A name that cannot be an output is not
 * refused here; the writer says it. */
enum vc_status vc_disk_reserve(struct vc_ctx *ctx, const struct vc_model *model, const struct vc_write_options *options,
                               uint64_t bytes, struct vc_outfile **out)
{
    struct vc_outfile *file = NULL;

    *out = NULL;
    if (options->path == NULL || options->n_emit != 0 || options->writer != NULL) {
        return VC_OK;
    }
    enum vc_status status = vc_outfile_create(ctx, options->path, options->force, model, &file);
    if (status != VC_OK && status != VC_E_NOMEM) { /* a folder: its files are made one by one */
        vc_clear_error(ctx);
        return VC_OK;
    }
    VC_TRY(status);
    VC_TRY(vc_outfile_need(ctx, file, bytes));
    VC_TRY(vc_outfile_begin(ctx, file));
    VC_TRY(vc_outfile_reserve(ctx, file));
    *out = vc_give(&file);
out:
    vc_outfile_free(ctx, file);
    return status;
}

void vc_disk_release(struct vc_ctx *ctx, struct vc_outfile **reserved)
{
    vc_outfile_free(ctx, *reserved);
    *reserved = NULL;
}
