/* made_as.c - see made_as.h. What was asked about a model once is kept with the model: fit asks for every batch that it
 * tries. */
#include "memory/made_as.h"

#include "core/job/job_state.h"
#include "core/job/scoped.h"
#include "graph/sizes.h"
#include "memory/float_type.h"
#include "memory/scheme.h"

/* A scheme that was asked about. made.model NULL: quantize makes none. */
struct asked {
    struct asked *next;
    char scheme[64];
    const char *layout;
    struct vc_layout laid;
    char loader[32]; /* of `laid` */
    struct vc_made_as made;
};

/* What model->counted points to. ctx: a fork of the model's, so that all of it lives in the model's pool. */
struct counted {
    struct vc_ctx ctx;
    struct asked *first;
    bool opened; /* as a GGUF model, or it cannot be */
    struct vc_model *gguf;
    struct vc_graph *gguf_graph;
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* of all lists */

static void close_gguf(struct counted *c)
{
    vc_graph_close(c->gguf_graph);
    vc_model_close(c->gguf);
    c->gguf_graph = NULL;
    c->gguf = NULL;
}

static void free_asked(struct counted *c, struct asked *asked)
{
    vc_written_release(&c->ctx, &asked->made.weights);
    vc_free(&c->ctx, asked);
}

/* Called when the model is closed. */
static void release(void *counted)
{
    struct counted *c = counted;

    while (c->first != NULL) {
        struct asked *asked = c->first;

        c->first = asked->next;
        free_asked(c, asked);
    }
    close_gguf(c);
    vc_free(&c->ctx, c);
}

/* The list of the model, made with the first question. NULL: no memory. */
static struct counted *list_of(const struct vc_model *model)
{
    struct vc_model *own = (struct vc_model *)(uintptr_t)model;
    struct counted *c = own->counted;

    if (c == NULL && (c = vc_calloc_array(own->ctx, VC_TAG_MISC, 1, sizeof *c)) != NULL) {
        vc_ctx_fork(own->ctx, &c->ctx);
        own->counted = c;
        own->free_counted = release;
    }
    return c;
}

/* ---- a folder as a GGUF model ---- */

/* Where the folder's tensors, its vocabulary and its configuration have a place there. */
static enum vc_status open_as_gguf(struct counted *c, const struct vc_model *model)
{
    struct vc_open_options open;
    struct vc_model *beside = NULL;
    enum vc_status status;

    if (c->opened) {
        return VC_OK;
    }
    vc_open_defaults(&open);
    open.as_gguf = true;
    VC_TRY(vc_model_open(&c->ctx, vc_model_facts(model)->path, &open, &c->gguf));
    VC_TRY(vc_graph_open(&c->ctx, NULL, c->gguf, false, &beside, &c->gguf_graph));
out:
    vc_model_close(beside);
    if (status != VC_OK || vc_model_find(c->gguf, "token_embd.weight") == VC_NO_TENSOR) {
        close_gguf(c);
    }
    c->opened = status == VC_OK || vc_is_refusal(status);
    return status;
}

/* ---- the job ---- */

/* Of codes the rest is cast, but for GGUF, whose mixtures decide about all tensors. */
static enum vc_status plan_job(struct counted *c, struct asked *asked, const struct vc_model *model,
                               const struct vc_quantize_options *options)
{
    struct vc_made_as *made = &asked->made;
    bool blocks = options->target == VC_TARGET_GGUF;
    bool stored =
        strcmp(vc_model_facts(model)->format, "gguf") == 0 || strcmp(vc_model_facts(model)->format, "onnx") == 0;
    struct vc_quantize_options own = *options;
    struct vc_write_options write;
    VC_SCOPED_JOB struct vc_job *job = NULL;

    vc_write_defaults(&write);
    write.dry_run = write.rows_on_request = true;
    write.layout = asked->layout;
    write.format = blocks ? "gguf" : NULL;
    made->type = vc_written_half(model) == VC_DTYPE_BF16 ? VC_DTYPE_BF16 : VC_DTYPE_F16;
    own.rest = blocks ? NULL : made->type == VC_DTYPE_BF16 ? "bf16" : "fp16";
    if (blocks || stored || options->target == VC_TARGET_F8_E4M3 ||
        options->target == VC_TARGET_F8_E5M2) { /* floats there are loaded as they are stored */
        made->type = VC_DTYPE_NONE;
    }
    VC_CALL(vc_job_create(&c->ctx, model, &job));
    job->sizes_only = true;
    VC_CALL(vc_job_add_quantize(&c->ctx, job, &own));
    VC_CALL(vc_job_plan(&c->ctx, job, &write));
    const struct vc_report *report = vc_job_report(job);
    VC_CALL(vc_written_make(&c->ctx, report, model, &made->weights));
    made->activations = made->type == VC_DTYPE_NONE ? vc_written_type(report, model) : VC_DTYPE_NONE;
    if (report->layouts != NULL && report->layouts[0] != NULL) { /* which ends with the job */
        (void)snprintf(asked->loader, sizeof asked->loader, "%s", report->layouts[0]->loader);
        asked->laid = (struct vc_layout){.name = report->layouts[0]->name, .loader = asked->loader};
        made->layout = &asked->laid;
    }
    made->model = model;
    return VC_OK;
}

/* The question is new: asks quantize. */
static enum vc_status make(struct counted *c, struct asked *asked, const struct vc_model *model)
{
    struct vc_quantize_options options;
    bool folder = vc_is_transformers_folder(&c->ctx, model);
    enum vc_status status = VC_OK;

    if (!vc_scheme_quantize(asked->scheme, &options)) {
        return VC_OK;
    }
    bool blocks = options.target == VC_TARGET_GGUF;
    if (folder && blocks) {
        status = open_as_gguf(c, model);
        model = c->gguf;
        asked->made.graph = c->gguf_graph;
    }
    if (status == VC_OK && model != NULL && (blocks || !vc_has_codes(model))) {
        status = plan_job(c, asked, model, &options);
    }
    return vc_is_refusal(status) ? VC_OK : status;
}

static enum vc_status look_up(const struct vc_model *model, const struct vc_graph *graph, const char *scheme,
                              const char *layout, const struct vc_made_as **out)
{
    struct counted *c = list_of(model);
    struct asked *asked;
    enum vc_status status = VC_OK;

    VC_CALL_ALLOC(c);
    for (asked = c->first; asked != NULL; asked = asked->next) {
        if (strcmp(asked->scheme, scheme) == 0 && asked->layout == layout) {
            break;
        }
    }
    if (asked == NULL) {
        VC_CALL_ALLOC(asked = vc_calloc_array(&c->ctx, VC_TAG_MISC, 1, sizeof *asked));
        (void)snprintf(asked->scheme, sizeof asked->scheme, "%s", scheme);
        asked->layout = layout;
        status = make(c, asked, model);
        if (status != VC_OK) { /* of the system, which is no answer: the next question asks again */
            free_asked(c, asked);
            return status;
        }
        asked->next = c->first;
        c->first = asked;
    }
    if (status == VC_OK && asked->made.model != NULL) {
        *out = &asked->made;
        status = asked->made.graph != NULL ? vc_graph_bind_as(&c->ctx, c->gguf_graph, graph) : VC_OK;
    }
    return status;
}

enum vc_status vc_make_as(struct vc_ctx *ctx, const struct vc_model *model, const struct vc_graph *graph,
                          const char *scheme, const char *layout, const struct vc_made_as **out)
{
    *out = NULL;
    (void)pthread_mutex_lock(&mutex);
    enum vc_status status = look_up(model, graph, scheme, layout, out);
    if (status != VC_OK && model->counted != NULL) {
        (void)vc_fail(ctx, status, "%s", ((struct counted *)model->counted)->ctx.message);
    }
    (void)pthread_mutex_unlock(&mutex);
    return status;
}
