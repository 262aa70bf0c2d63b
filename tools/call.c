/* call.c - see call.h. */
#include "tools/call.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "tools/app.h"

/* In the place of a stdin that only archives compare with (CMakeLists.txt). */
extern FILE *vcompress_call_stdin __attribute__((visibility("hidden")));
FILE *vcompress_call_stdin;

/* The words as a command takes them, which moves them about. */
static char **copy_words(const struct vcompress_call *call)
{
    char **words = calloc(call->n_words + 2, sizeof(*words));

    for (size_t i = 0; words != NULL && i < call->n_words; i++) {
        words[i] = (char *)(uintptr_t)call->words[i]; /* none is written to */
    }
    return words;
}

static int run_command(struct app *app, char **words)
{
    struct vcompress_call *call = app->call;

    app->command = call->n_words != 0 ? command_find(words[0]) : NULL;
    if (app->command == NULL) {
        return app_usage(app, "unknown command '%s'", call->n_words != 0 ? words[0] : "");
    }
    return app->command->run(app, (int)call->n_words - 1, words + 1);
}

void vcompress_call_run(struct vcompress_call *call)
{
    struct app app = {.call = call};
    char **words = copy_words(call);

    call->nowhere = fopen("/dev/null", "w");
    call->status = EXIT_SYSTEM;
    if (words != NULL && call->nowhere != NULL && call->n_words < 100000) {
        call->status = run_command(&app, words);
    }
    app_end(&app);
    free(words);
}

void vcompress_call_cancel(struct vcompress_call *call)
{
    struct vc_ctx *ctx;

    call->cancelled = true;
    ctx = call->ctx;
    if (ctx != NULL) {
        vc_ctx_cancel(ctx);
    }
}

void vcompress_call_end(struct vcompress_call *call)
{
    vc_ctx_free(call->ctx);
    call->ctx = NULL;
    if (call->nowhere != NULL) {
        (void)fclose(call->nowhere);
    }
    call->nowhere = NULL;
    free(call->document);
    free(call->sentence);
    call->document = NULL;
    call->sentence = NULL;
}
