/* selftest.c - vc_selftest: does this installation compute what it should on this machine?
 *
 *     arithmetic    this thread keeps subnormal numbers
 *     kernels       every table of kernels that this CPU or a device offers gives the same bytes as the reference
 *     files         weights to int8, into a file, and back
 *
 * For users after installing, and for reports of bugs: it takes a moment and needs no model. */
#include "measure/selftest/selftest.h"

#include <vcompress/measure.h>

#include "core/base/cpu.h"

/* The summary is what passed. The first check that fails ends the test, and the message says which. */
enum vc_status vc_selftest(struct vc_ctx *ctx, const char *folder, char **summary)
{
    VC_SCOPED_TEXT struct vc_text text;

    *summary = NULL;
    vc_clear_error(ctx);
    vc_text_init(&text, ctx);
    VC_REFUSE_IF(!vc_cpu_denormals_ok(), ctx, VC_E_INTERNAL,
                 "this thread flushes subnormal numbers to zero (a library built with -ffast-math sets that): "
                 "scales and codes would differ");
    vc_text_add(&text, "arithmetic: subnormal numbers are kept\n");
    VC_CALL(vc_selftest_kernels(ctx, &text));
    VC_CALL(vc_selftest_files(ctx, folder, &text));
    VC_CALL(text.status);
    *summary = vc_text_detach(&text);
    return *summary != NULL ? VC_OK : text.status;
}
