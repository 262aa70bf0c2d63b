/* call.c - see call.h. */
#include "tools/call.h"

#include <stdlib.h>

#include "tools/app.h"

/* In the place of a stdin that only archives compare with (CMakeLists.txt). */
extern FILE *vcompress_call_stdin __attribute__((visibility("hidden")));
FILE *vcompress_call_stdin;

void vcompress_call_run(struct vcompress_call *call)
{
    struct app app = {.call = call};

    call->nowhere = fopen("/dev/null", "w");
    call->status = EXIT_SYSTEM;
    app.command = call->n_words > 0 ? command_find(call->words[0]) : NULL;
    if (call->nowhere != NULL) {
        call->status = app.command != NULL ? app.command->run(&app, call->n_words - 1, call->words + 1)
                                           : app_usage(&app, "unknown command");
    }
    app_end(&app);
}

void vcompress_call_cancel(struct vcompress_call *call)
{
    call->cancelled = true;
    if (call->ctx != NULL) {
        vc_ctx_cancel(call->ctx);
    }
}

void vcompress_call_end(struct vcompress_call *call)
{
    vc_ctx_free(call->ctx);
    if (call->nowhere != NULL) {
        (void)fclose(call->nowhere);
    }
    free(call->document);
    free(call->sentence);
}
