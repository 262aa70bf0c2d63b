/* call.c - see call.h. A command runs as in a process, with a struct app whose `call` is set: what it would print goes
 * to call->printed, its document and its sentence become results. */
#include "tools/call.h"

#include <stdlib.h>
#include <string.h>

#include "tools/app.h"

/* In the place of a stdin that only archives compare with (CMakeLists.txt). */
extern FILE *vcompress_call_stdin __attribute__((visibility("hidden")));
FILE *vcompress_call_stdin;

/* The context stays in `call`, so that another thread can cancel it until vcompress_call_end. */
void vcompress_call_run(struct vcompress_call *call)
{
    struct app app = {.call = call};

    call->printed = open_memstream(&call->text, &call->n_text);
    call->status = EXIT_SYSTEM;
    app.command = call->n_words > 0 ? command_find(call->words[0]) : NULL;
    if (call->printed != NULL) {
        call->status = app.command != NULL ? app.command->run(&app, call->n_words - 1, call->words + 1)
                                           : app_usage(&app, "unknown command");
    }
    app_warn(&app, call->status);
    app_end(&app);
    if (call->printed != NULL) {
        (void)fflush(call->printed);
    }
}

/* cancelled is set first: a context that is made after this sees it (app_open). */
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
    if (call->printed != NULL) {
        (void)fclose(call->printed);
    }
    free(call->text);
    free(call->document);
    free(call->sentence);
}

/* ---- pages ---- */

/* A context of its own: pages are made without a command. */
char *vcompress_page(const char *document)
{
    struct vc_ctx *ctx = NULL;
    char *text = NULL;

    if (vc_ctx_create(&ctx) == VC_OK) {
        (void)vc_page_html(ctx, document, NULL, &text);
    }
    vc_ctx_free(ctx);
    return text;
}

void vcompress_text_free(char *text)
{
    vc_text_free(text);
}

/* ---- a checkpoint ---- */

/* Turns a status into the results of a file: exit status and sentence. True: it was VC_OK. */
static bool file_done(struct vcompress_file *file, enum vc_status status)
{
    free(file->sentence);
    file->sentence = NULL;
    file->status = app_exit_status(status);
    if (status != VC_OK) {
        file->sentence = strdup(file->ctx != NULL ? vc_ctx_message(file->ctx) : "not enough memory to start");
    }
    return status == VC_OK;
}

/* The document is that of inspect. */
bool vcompress_file_open(struct vcompress_file *file)
{
    struct vc_open_options options;
    struct vc_inspection *inspection = NULL;
    enum vc_status status = vc_ctx_create(&file->ctx);

    vc_open_defaults(&options);
    options.reader = file->reader;
    options.key = file->key;
    options.decoded = file->decoded;
    if (status == VC_OK) {
        status = vc_model_open(file->ctx, file->path, &options, &file->model);
    }
    if (status == VC_OK) {
        status = vc_inspect(file->ctx, file->model, false, &inspection);
    }
    if (status == VC_OK) {
        status = vc_document_json(file->ctx, &(struct vc_document){.kind = VC_DOCUMENT_INSPECT, .of = inspection},
                                  &file->document);
    }
    vc_result_free(inspection);
    return file_done(file, status);
}

bool vcompress_file_read(struct vcompress_file *file, size_t tensor, uint64_t first, uint64_t n, void *dst,
                         size_t n_bytes)
{
    return file_done(file, vc_model_read(file->ctx, file->model, tensor, first, n, dst, n_bytes));
}

void vcompress_file_close(struct vcompress_file *file)
{
    vc_model_close(file->model);
    vc_text_free(file->document);
    free(file->sentence);
    vc_ctx_free(file->ctx);
}
