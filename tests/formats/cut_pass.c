/* cut_pass.c - see cut_pass.h. */
#include "cut_pass.h"

#include <stdlib.h>
#include <string.h>

#include <vcompress/experimental.h>

#include "core/job/job_passes.h"
#include "core/text/text.h"

#define MAX_LINE 4096
#define MAX_KEPT 512

struct cut {
    struct vc_pass pass;
    char script[16384];
};

/* What stays of one axis. */
struct kept {
    uint64_t block; /* elements behind one entry of the axis */
    uint64_t n_in;  /* entries of the axis */
    size_t n;
    uint64_t list[MAX_KEPT];
};

/* ---- the script ---- */

/* A line in words. */
struct line {
    char text[MAX_LINE];
    const char *word[4];
    int64_t numbers[MAX_KEPT];
    size_t n_numbers;
};

/* The line at *at, which moves behind it; false at the end. A line has a command and a name; attribute, input and keep
 * have a word more; then numbers. */
static bool next_line(const char **at, struct line *line)
{
    size_t n = strcspn(*at, "\n");
    size_t n_words = 0;
    char *rest = line->text;
    char *word;

    if (**at == '\0') {
        return false;
    }
    memset(line, 0, sizeof *line);
    memcpy(line->text, *at, n < MAX_LINE ? n : MAX_LINE - 1);
    *at += n + ((*at)[n] == '\n');
    while (n_words < (n_words > 0 && strcmp(line->word[0], "shape") == 0 ? 2 : 3) &&
           (word = strtok_r(rest, " ", &rest)) != NULL) {
        line->word[n_words++] = word;
    }
    while (n_words >= 2 && (word = strtok_r(rest, ", ", &rest)) != NULL) {
        line->numbers[line->n_numbers++] = strtoll(word, NULL, 10);
    }
    return true;
}

/* ---- the step ---- */

static enum vc_status cut_apply(struct vc_ctx *ctx, struct vc_step *step, const struct vc_item *item,
                                const struct vc_tile *tile, const struct vc_tile_in *in, void *scratch,
                                struct vc_tile_out *out)
{
    const struct kept *kept = step->state;
    size_t size = vc_dtype_size(step->out.dtype);
    enum vc_status status = VC_OK;
    size_t i;

    (void)item;
    (void)scratch;
    for (i = 0; i < tile->n_elems; i++) {
        uint64_t flat = tile->first + i;
        uint64_t entry = flat / kept->block;
        uint64_t from = (entry / kept->n * kept->n_in + kept->list[entry % kept->n]) * kept->block + flat % kept->block;

        VC_TRY(vc_step_read(ctx, in->input, from, 1, (char *)out->data + i * size));
    }
out:
    return status;
}

static void cut_forget(struct vc_ctx *ctx, struct vc_step *step)
{
    vc_free(ctx, step->state);
}

static const struct vc_step_ops cut_step = {.apply = cut_apply, .forget = cut_forget};

/* ---- the pass ---- */

static enum vc_status keep_axis(struct vc_ctx *ctx, struct vc_item *item, const struct line *line)
{
    struct kept *kept = vc_calloc_array(ctx, VC_TAG_MISC, 1, sizeof *kept);
    unsigned axis = (unsigned)strtoul(line->word[2], NULL, 10);
    struct vc_step *step;
    uint64_t *shape;
    size_t i;

    if (kept == NULL) {
        return VC_E_NOMEM;
    }
    step = vc_item_add_step(ctx, item, &cut_step);
    shape = vc_arena_alloc(ctx, item->set->arena, item->desc->n_dims * sizeof *shape);
    if (step == NULL || shape == NULL) {
        vc_free(ctx, kept);
        return VC_E_NOMEM;
    }
    memcpy(shape, item->desc->shape, item->desc->n_dims * sizeof *shape);
    kept->block = 1;
    for (i = axis + 1; i < item->desc->n_dims; i++) {
        kept->block *= shape[i];
    }
    kept->n_in = shape[axis];
    kept->n = line->n_numbers;
    for (i = 0; i < kept->n; i++) {
        kept->list[i] = (uint64_t)line->numbers[i];
    }
    step->state = kept;
    step->action = VC_ACTION_CAST;
    step->scheme = "cut";
    step->regroups = true;
    step->out.shape = shape;
    step->out.n_elems = step->in.n_elems / kept->n_in * kept->n;
    shape[axis] = kept->n;
    vc_item_replan(item);
    return VC_OK;
}

static enum vc_status cut_plan(struct vc_ctx *ctx, struct vc_pass *pass, struct vc_item *item)
{
    const char *name = item->set->model->tensors[item->source].name;
    const char *at = ((struct cut *)pass->self)->script;
    enum vc_status status = VC_OK;
    bool any = false;
    struct line line;

    while (next_line(&at, &line)) {
        if (strcmp(line.word[0], "keep") == 0 && strcmp(line.word[1], name) == 0) {
            VC_TRY(keep_axis(ctx, item, &line));
            any = true;
        }
    }
    VC_TRY(any ? VC_OK : vc_item_keep(ctx, item, "not named"));
out:
    return status;
}

static enum vc_status cut_plan_end(struct vc_ctx *ctx, struct vc_pass *pass, struct vc_plan *plan)
{
    const char *at = ((struct cut *)pass->self)->script;
    enum vc_status status = VC_OK;
    struct line line;

    while (next_line(&at, &line)) {
        struct vc_graph_edit edit = {.value = line.word[1], .n = line.n_numbers, .numbers = line.numbers};

        if (strcmp(line.word[0], "attribute") == 0) {
            edit.kind = VC_GRAPH_EDIT_ATTRIBUTE;
            edit.attribute = line.word[2];
        } else if (strcmp(line.word[0], "input") == 0) {
            edit.kind = VC_GRAPH_EDIT_INPUT;
            edit.input = (unsigned)strtoul(line.word[2], NULL, 10);
        } else {
            edit.kind = VC_GRAPH_EDIT_SHAPE;
        }
        VC_TRY(strcmp(line.word[0], "keep") != 0 ? vc_plan_edit_graph(ctx, plan, &edit, 1) : VC_OK);
    }
out:
    return status;
}

static void cut_free(struct vc_ctx *ctx, struct vc_pass *pass)
{
    vc_free(ctx, pass->self);
}

static const struct vc_pass_ops cut_ops = {.name = "cut", .plan = cut_plan, .plan_end = cut_plan_end, .free = cut_free};

enum vc_status add_cut(struct vc_ctx *ctx, struct vc_job *job, const char *script)
{
    struct cut *cut = vc_calloc_array(ctx, VC_TAG_MISC, 1, sizeof *cut);

    if (cut == NULL) {
        return VC_E_NOMEM;
    }
    if (strlen(script) >= sizeof cut->script) {
        vc_free(ctx, cut);
        return vc_fail(ctx, VC_E_ARGUMENT, "the script is too long for this test");
    }
    memcpy(cut->script, script, strlen(script) + 1);
    cut->pass.ops = &cut_ops;
    cut->pass.self = cut;
    cut->pass.command = "cut";
    return vc_job_add_pass(ctx, job, &cut->pass);
}

enum vc_status run_cut(struct vc_ctx *ctx, const char *from, const char *to, const char *also, const char *script)
{
    struct vc_write_options write;
    struct vc_model *model = NULL;
    struct vc_job *job = NULL;
    enum vc_status status;

    vc_write_defaults(&write);
    write.path = to;
    write.force = true;
    write.emit = &also;
    write.n_emit = also != NULL ? 1 : 0;
    VC_TRY(vc_model_open(ctx, from, NULL, &model));
    VC_TRY(vc_job_create(ctx, model, &job));
    VC_TRY(add_cut(ctx, job, script));
    VC_TRY(vc_job_plan(ctx, job, &write));
    VC_TRY(vc_job_run(ctx, job));
out:
    vc_job_free(job);
    vc_model_close(model);
    return status;
}
