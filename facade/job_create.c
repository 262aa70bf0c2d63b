/* job_create.c - gives a job the tables that core does not know: formats to write, the comparer of chains, and the chooser
 * of devices. */
#include "core/job/job_make.h"
#include "formats/formats.h"
#include "passes/comparer.h"
#include "passes/device_choice.h"

enum vc_status vc_job_create(struct vc_ctx *ctx, const struct vc_model *model, struct vc_job **out)
{
    VC_CALL(vc_device_check(ctx));
    return vc_job_make(ctx, model, &vc_format_writers, &vc_comparer_decoding, &vc_device_chooser, out);
}
