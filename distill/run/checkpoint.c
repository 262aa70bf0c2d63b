/* checkpoint.c - see checkpoint.h. What is written and what is read is one list of arrays in memory: the
 * list points to where the run has its state, so writing is a job over it, and reading copies into it.
 *
 *     opening     the file is of this run: version, digest of the content, options line by line
 *     loading     counts first, since they say what else there is; then weights, masks, optimizer, evaluations
 *     checking    every value is one that a run may have come to
 *
 * The arrays of a file:
 *
 *     version, options, digest      which run it is of
 *     counts, figures, scale        numbers of steps, losses, the scale of fp16
 *     weight.NAME                   trained weights (the masters, if values lie on a grid) and running statistics
 *     best.NAME, keep.NAME          the best weights so far; masks
 *     states                        all of the optimizer, as it lies
 *     evals, answers                evaluations so far; the answers of a control run that is done
 *
 * A checkpoint is written to a new file and takes the place of the old one when it is complete, as all
 * outputs do. */
#include "distill/run/checkpoint.h"

#include "core/base/kept_files.h"
#include "core/model/memory_model.h"
#include "distill/data/identity.h"
#include "distill/math/real.h"
#include "distill/run/run_options.h"
#include "distill/update/device_step.h"
#include "distill/update/fake_quant.h"

#define VERSION 2

/* What a run needs of its checkpoints: the text that goes into each, and the file that it goes on from. */
struct vc_checkpoint {
    char *text; /* of vc_run_options_text; freed with vc_text_free */
    struct vc_model *resume;
    bool of_control, control_done; /* what `resume` says */
    void *statistics;              /* of batch normalization, at the beginning of a step */
    uint64_t n_statistics;
};

/* ---- the arrays ---- */

/* Arrays and where they lie in the run. Names of weights' arrays are in the arena. */
struct list {
    struct vc_memory_tensor *items;
    size_t n, room;
    uint64_t (*shapes)[1]; /* of arrays of one dimension */
    struct vc_arena arena;
};

/* Adds an array of n elements, with a shape or, if that is NULL, of one dimension; an empty one is left out. */
static void add_shaped(struct list *list, const char *name, enum vc_dtype dtype, const void *data, uint64_t n,
                       const uint64_t *shape, unsigned n_dims)
{
    if (n != 0 && list->n < list->room && name != NULL) {
        list->shapes[list->n][0] = n;
        list->items[list->n] = (struct vc_memory_tensor){.name = name,
                                                         .dtype = dtype,
                                                         .n_dims = shape != NULL ? n_dims : 1,
                                                         .shape = shape != NULL ? shape : list->shapes[list->n],
                                                         .data = data};
        list->n++;
    }
}

static void add(struct list *list, const char *name, enum vc_dtype dtype, const void *data, uint64_t n)
{
    add_shaped(list, name, dtype, data, n, NULL, 0);
}

/* Three arrays for each weight at most: the weight, its best, its mask. */
static enum vc_status make_list(struct vc_trainer *t, struct list *list)
{
    *list = (struct list){.room = 3 * t->student.net.weights->n + 17};
    list->items = vc_calloc_array(t->ctx, VC_TAG_MISC, list->room, sizeof *list->items);
    list->shapes = vc_calloc_array(t->ctx, VC_TAG_MISC, list->room, sizeof *list->shapes);
    return list->items != NULL && list->shapes != NULL ? VC_OK : VC_E_NOMEM;
}

/* The arrays themselves are the run's. */
static void free_list(struct vc_trainer *t, struct list *list)
{
    VC_FREE_ALL(t->ctx, list->items, list->shapes);
    vc_arena_release(t->ctx, &list->arena);
}

/* What is read first. */
static void list_counts(struct vc_trainer *t, struct list *list)
{
    add(list, "counts", VC_DTYPE_U64, &t->progress.counts, sizeof t->progress.counts / sizeof(uint64_t));
    add(list, "figures", VC_DTYPE_F64, &t->progress.figures, sizeof t->progress.figures / sizeof(double));
    if (t->options.precision.half == VC_HALF_F16) {
        add(list, "scale", VC_DTYPE_F64, &t->progress.scale, sizeof t->progress.scale / sizeof(double));
    }
}

/* An entry of the weights, with its shape. */
static enum vc_status list_weight(struct vc_trainer *t, struct list *list, size_t k)
{
    const struct vc_weight *item = &t->student.net.weights->items[k];
    const char *name;

    if (!item->trained && !item->statistic) {
        return VC_OK;
    }
    VC_CALL_ALLOC(name = vc_arena_printf(t->ctx, &list->arena, "weight.%s", item->name));
    add_shaped(list, name, t->student.f64 ? VC_DTYPE_F64 : VC_DTYPE_F32, vc_learner_master(&t->student, k), item->n,
               item->shape, item->n_dims);
    if (t->progress.counts.best_step != 0 && t->evals.best != NULL) {
        const char *block = t->student.net.weights->data_block;

        VC_CALL_ALLOC(name = vc_arena_printf(t->ctx, &list->arena, "best.%s", item->name));
        add(list, name, t->student.f64 ? VC_DTYPE_F64 : VC_DTYPE_F32,
            (const char *)t->evals.best + ((const char *)item->data - block), item->n);
    }
    if (t->student.optimizer.states[k].keep != NULL) {
        VC_CALL_ALLOC(name = vc_arena_printf(t->ctx, &list->arena, "keep.%s", item->name));
        add(list, name, VC_DTYPE_U8, t->student.optimizer.states[k].keep, item->n);
    }
    return VC_OK;
}

/* What depends on the counts: they must be those of the file when this is called for reading. */
static enum vc_status list_state(struct vc_trainer *t, struct list *list)
{
    for (size_t k = 0; k < t->student.net.weights->n; k++) {
        VC_CALL(list_weight(t, list, k));
    }
    add(list, "states", VC_DTYPE_U8, t->student.optimizer.block, t->report->state_bytes);
    if (!t->progress.control && t->progress.counts.n_evals != 0) {
        VC_CALL(vc_trainer_room_for_evals(t, t->progress.counts.n_evals));
        add(list, "evals", VC_DTYPE_U8, t->evals.items, t->progress.counts.n_evals * sizeof *t->evals.items);
    }
    if (t->progress.counts.control_done != 0) {
        add(list, "answers", VC_DTYPE_U8, t->progress.control_answers.right, t->eval.rows.n * t->student.net.positions);
    }
    return VC_OK;
}

/* ---- writing ---- */

/* A job that writes the list to options.checkpoint.path, planned. */
static enum vc_status plan(struct vc_trainer *t, const struct list *list, bool force, struct vc_model **model,
                           struct vc_job **job)
{
    struct vc_write_options write;

    vc_write_defaults(&write);
    write.path = t->options.checkpoint.path;
    write.force = force;
    VC_CALL(vc_memory_model_create(t->ctx, list->items, list->n, model));
    VC_CALL(vc_job_create(t->ctx, *model, job));
    return vc_job_plan(t->ctx, *job, &write);
}

/* The digest is made last, over all other arrays, and goes into its place in the list. */
static enum vc_status write_file(struct vc_trainer *t)
{
    const char *text = t->checkpoint->text;
    uint64_t before = t->progress.counts.saved;
    const int64_t version = VERSION;
    struct vc_model *model = NULL;
    struct vc_job *job = NULL;
    struct list list;
    char digest[VC_SHA256_HEX_BYTES] = "";
    enum vc_status status;

    VC_TRY(make_list(t, &list));
    VC_TRY(vc_device_to_host(&t->student));
    t->progress.counts.saved = t->progress.counts.step;
    t->progress.counts.control = t->progress.control;
    add(&list, "version", VC_DTYPE_I64, &version, 1);
    add(&list, "options", VC_DTYPE_U8, text, strlen(text));
    add(&list, VC_DIGEST_NAME, VC_DTYPE_U8, digest, sizeof digest - 1);
    list_counts(t, &list);
    VC_TRY(list_state(t, &list));
    VC_TRY(plan(t, &list, true, &model, &job));
    VC_TRY(vc_identity_content(t->ctx, model, digest));
    VC_TRY(vc_job_run(t->ctx, job));
out:
    t->progress.counts.saved = status == VC_OK ? t->progress.counts.step : before;
    vc_job_free(job);
    vc_model_close(model);
    free_list(t, &list);
    return status;
}

/* ---- reading ---- */

/* The array of that name has to be there, with this type and these elements. */
static enum vc_status find(struct vc_trainer *t, const char *name, enum vc_dtype dtype, uint64_t n, size_t *out)
{
    const struct vc_model *model = t->checkpoint->resume;

    *out = vc_model_find(model, name);
    VC_REFUSE_IF(*out == VC_NO_TENSOR || model->tensors[*out].dtype != dtype || model->tensors[*out].n_elems != n ||
                     model->tensors[*out].quant != NULL,
                 t->ctx, VC_E_FORMAT, "%s: is no checkpoint of this run: %s is not %s with %llu elements", model->path,
                 name, vc_dtype_name(dtype), (unsigned long long)n);
    return VC_OK;
}

/* Each array must be there with the type and the number of elements that the list has. */
static enum vc_status read_list(struct vc_trainer *t, const struct list *list)
{
    const struct vc_model *model = t->checkpoint->resume;

    for (size_t k = 0; k < list->n; k++) {
        const struct vc_memory_tensor *to = &list->items[k];
        uint64_t n = 1;
        size_t tensor;

        for (unsigned d = 0; d < to->n_dims; d++) {
            n *= to->shape[d];
        }
        VC_CALL(find(t, to->name, to->dtype, n, &tensor));
        VC_CALL(vc_model_read(t->ctx, model, tensor, 0, n, (void *)(uintptr_t)to->data,
                              (size_t)vc_dtype_bytes(to->dtype, n)));
    }
    return VC_OK;
}

/* Its text is that of this run. */
static enum vc_status compare(struct vc_trainer *t)
{
    struct vc_checkpoint *c = t->checkpoint;
    const struct vc_model *model = c->resume;
    size_t options = vc_model_find(model, "options");
    size_t version_at;
    int64_t version = 0;
    VC_SCOPED char *text = NULL;

    VC_CALL(find(t, "version", VC_DTYPE_I64, 1, &version_at));
    VC_CALL(vc_model_read(t->ctx, model, version_at, 0, 1, &version, sizeof version));
    VC_REFUSE_IF(version != VERSION, t->ctx, VC_E_UNSUPPORTED, "%s: is a checkpoint of version %lld; %d can be read",
                 model->path, (long long)version, VERSION);
    VC_CALL(vc_identity_content_check(t->ctx, model));
    VC_CALL(find(t, "options", VC_DTYPE_U8, options != VC_NO_TENSOR ? model->tensors[options].n_elems : 0, &options));
    VC_REFUSE_IF(model->tensors[options].n_elems > 1 << 20, t->ctx, VC_E_FORMAT,
                 "%s: is no checkpoint: options are no text", model->path);
    size_t n = (size_t)model->tensors[options].n_elems;
    VC_CALL_ALLOC(text = vc_alloc(t->ctx, VC_TAG_MISC, n + 1));
    VC_CALL(vc_model_read(t->ctx, model, options, 0, n, text, n));
    text[n] = '\0';
    return vc_run_options_compare(t->ctx, model->path, text, c->text);
}

/* A value in the file that training cannot make: the digest agrees, so it was written by something else. */
static enum vc_status refuse_value(struct vc_trainer *t, const char *array, const char *of, uint64_t at)
{
    return vc_fail(t->ctx, VC_E_FORMAT, "%s: is no checkpoint of this run: %s%s has a value that no run has, at %llu",
                   t->checkpoint->resume->path, array, of, (unsigned long long)at);
}

/* Weights are numbers; masks are 0 and 1, and 0 where this run masks from the beginning; what is masked is 0. */
static enum vc_status check_weight(struct vc_trainer *t, size_t k)
{
    const struct vc_weight *item = &t->student.net.weights->items[k];
    const void *weights = vc_learner_master(&t->student, k);
    struct vc_weight_state *s = &t->student.optimizer.states[k];
    size_t bad =
        item->trained || item->statistic ? vc_first_nonfinite(t->student.f64, weights, (size_t)item->n) : item->n;

    VC_RETURN_IF(bad != item->n, refuse_value(t, "weight.", item->name, bad));
    s->n_masked = 0;
    for (uint64_t i = 0; s->keep != NULL && i < item->n; i++) {
        bool zero = t->student.f64 ? ((const double *)weights)[i] == 0 : ((const float *)weights)[i] == 0;

        VC_RETURN_IF(s->keep[i] > 1, refuse_value(t, "keep.", item->name, i));
        VC_RETURN_IF(s->keep[i] == 0 && !zero, refuse_value(t, "weight.", item->name, i));
        s->n_masked += s->keep[i] == 0;
    }
    t->report->n_masked += s->n_masked;
    return VC_OK;
}

/* Everything that was read is what a run may have come to. */
static enum vc_status check_values(struct vc_trainer *t)
{
    const uint8_t *right = t->progress.control_answers.right;

    t->report->n_masked = 0;
    for (size_t k = 0; k < t->student.net.weights->n; k++) {
        VC_CALL(check_weight(t, k));
    }
    for (uint64_t i = 0; !t->progress.control && i < t->progress.counts.n_evals; i++) {
        uint64_t before = i != 0 ? t->evals.items[i - 1].step : 0;

        if (t->evals.items[i].step <= before || t->evals.items[i].step > t->progress.counts.step) {
            VC_CALL(refuse_value(t, "evals", "", i));
        }
    }
    for (uint64_t i = 0; t->progress.counts.control_done != 0 && i < t->eval.rows.n * t->student.net.positions; i++) {
        if (right[i] > 1) {
            VC_CALL(refuse_value(t, "answers", "", i));
        }
    }
    return VC_OK;
}

/* Counts and figures are such as a run has. */
static bool counts_hold(const struct vc_trainer *t)
{
    const struct vc_run_counts *c = &t->progress.counts;
    const struct vc_run_figures *f = &t->progress.figures;

    return c->control <= 1 && c->control_done <= 1 && c->saved <= c->step && c->looked <= c->step &&
           c->best_step <= c->step && c->waited <= c->step && isfinite(f->first_loss) && isfinite(f->last_loss);
}

/* Counts and figures of the file, into the trainer. */
static enum vc_status read_counts(struct vc_trainer *t)
{
    struct list list;
    enum vc_status status;

    VC_TRY(make_list(t, &list));
    list_counts(t, &list);
    VC_TRY(read_list(t, &list));
    if (t->options.precision.half == VC_HALF_F16 && !vc_scale_holds(t)) {
        status = vc_fail(t->ctx, VC_E_FORMAT, "%s: is no checkpoint of this run: scale has none of a loss",
                         t->checkpoint->resume->path);
    } else if (t->progress.counts.step > t->steps.n) {
        status = vc_fail(t->ctx, VC_E_ARGUMENT, "%s: has %llu steps behind it; this run has %llu",
                         t->checkpoint->resume->path, (unsigned long long)t->progress.counts.step,
                         (unsigned long long)t->steps.n);
    } else if (!counts_hold(t)) {
        status = refuse_value(t, "counts or figures", "", 0);
    } else if (t->progress.counts.n_evals > t->progress.counts.step ||
               (t->progress.counts.best_step != 0 && t->evals.best == NULL)) {
        status = vc_fail(t->ctx, VC_E_FORMAT, "%s: has evaluations that this run does not have",
                         t->checkpoint->resume->path);
    } else if (t->progress.counts.control_done != 0 && t->progress.control_answers.right == NULL) {
        status = vc_fail(t->ctx, VC_E_FORMAT, "%s: has the answers of a control run that this run does not have",
                         t->checkpoint->resume->path);
    }
out:
    free_list(t, &list);
    return status;
}

/* After the weights, quantizers and devices are told that they have changed. Figures of the report are
 * those of the run itself, not of a control run. */
enum vc_status vc_checkpoint_load(struct vc_trainer *t, bool *loaded)
{
    struct list list = {.n = 0};
    enum vc_status status = VC_OK;

    *loaded = false;
    if (t->checkpoint == NULL || t->checkpoint->resume == NULL || t->checkpoint->of_control != t->progress.control) {
        return VC_OK;
    }
    VC_TRY(read_counts(t));
    VC_TRY(make_list(t, &list));
    VC_TRY(list_state(t, &list));
    VC_TRY(read_list(t, &list));
    vc_weights_changed(t->student.net.weights);
    vc_device_changed(&t->student);
    if (t->progress.counts.step != 0) {
        VC_TRY(vc_fake_quant_apply(&t->student, NULL));
    }
    VC_TRY(check_values(t));
    if (!t->progress.control) {
        t->report->first_loss = t->progress.figures.first_loss;
        t->report->last_loss = t->progress.figures.last_loss;
        t->report->kd_gradient = t->progress.figures.kd_gradient;
        t->report->ce_gradient = t->progress.figures.ce_gradient;
        t->report->n_steps = t->progress.counts.step;
        t->report->n_evals = t->progress.counts.n_evals;
        vc_scale_report(t);
    }
    *loaded = true;
out:
    free_list(t, &list);
    return status;
}

bool vc_checkpoint_has_control(const struct vc_trainer *t)
{
    return t->checkpoint != NULL && t->checkpoint->control_done;
}

/* ---- opening ---- */

/* What the checkpoint must not replace: a file that this run reads or writes. */
static bool is_other_file(const struct vc_trainer *t, const char *path)
{
    const struct vc_distill_options *o = &t->options;
    const char *const others[] = {o->student.weights->path,
                                  t->runs_teacher ? o->teacher.weights->path : NULL,
                                  o->data->path,
                                  o->eval.rows != NULL ? o->eval.rows->path : NULL,
                                  o->write != NULL ? o->write->path : NULL,
                                  o->sparsity.mask != NULL ? o->sparsity.mask->path : NULL,
                                  o->gradients};

    for (size_t k = 0; k < sizeof others / sizeof *others; k++) {
        if (others[k] != NULL && strcmp(others[k], path) == 0) {
            return true;
        }
    }
    return false;
}

/* Everything that can be refused about the file, before any training. An older one is replaced where the run goes on
 * from it, or where outputs are replaced. */
static enum vc_status check_output(struct vc_trainer *t)
{
    const struct vc_distill_options *o = &t->options;
    bool force = (o->write != NULL && o->write->force) ||
                 (o->checkpoint.resume != NULL && strcmp(o->checkpoint.resume, o->checkpoint.path) == 0);
    struct vc_model *model = NULL;
    struct vc_job *job = NULL;
    struct list list = {.n = 0};
    enum vc_status status = VC_OK;

    VC_REFUSE_IF(is_other_file(t, o->checkpoint.path), t->ctx, VC_E_ARGUMENT, "%s %s: is another file of this run",
                 vc_option(t->ctx, "checkpoint.path"), o->checkpoint.path);
    VC_TRY(make_list(t, &list));
    list_counts(t, &list);
    VC_TRY(plan(t, &list, force, &model, &job));
out:
    vc_job_free(job);
    vc_model_close(model);
    free_list(t, &list);
    return status;
}

/* Opens the file, compares it, and reads what its counts say about a control run. */
static enum vc_status open_resume(struct vc_trainer *t)
{
    VC_CALL(vc_model_open(t->ctx, t->options.checkpoint.resume, NULL, &t->checkpoint->resume));
    if (t->options.checkpoint.path != NULL) {
        vc_kept_give_up(t->ctx, t->options.checkpoint.resume); /* the next checkpoint may take its place */
    }
    VC_CALL(compare(t));
    VC_CALL(read_counts(t));
    t->checkpoint->of_control = t->progress.counts.control != 0;
    t->checkpoint->control_done = t->progress.counts.control_done != 0;
    return VC_OK;
}

/* Room for running statistics at the beginning of a step. */
static enum vc_status make_statistics(struct vc_trainer *t)
{
    for (size_t k = 0; k < t->student.net.weights->n; k++) {
        const struct vc_weight *item = &t->student.net.weights->items[k];

        t->checkpoint->n_statistics += item->statistic ? item->n : 0;
    }
    t->checkpoint->statistics =
        vc_alloc_array(t->ctx, VC_TAG_TILES, (size_t)t->checkpoint->n_statistics + 1, sizeof(double));
    return t->checkpoint->statistics != NULL ? VC_OK : VC_E_NOMEM;
}

/* The text of the options is made once: it goes into every checkpoint. */
enum vc_status vc_checkpoint_open(struct vc_trainer *t)
{
    VC_SCOPED_TEXT struct vc_text text;

    vc_text_init(&text, t->ctx);
    if (t->options.checkpoint.path == NULL && t->options.checkpoint.resume == NULL) {
        return VC_OK;
    }
    VC_CALL(VC_ZEROS(t->ctx, VC_TAG_MISC, t->checkpoint, 1));
    VC_CALL(vc_run_options_text(t, &text));
    VC_CALL_ALLOC(t->checkpoint->text = vc_text_detach(&text));
    VC_CALL(make_statistics(t));
    if (t->options.checkpoint.resume != NULL) {
        VC_CALL(open_resume(t));
    }
    if (t->options.checkpoint.path != NULL) {
        VC_CALL(check_output(t));
    }
    return VC_OK;
}

/* Only opens the file. */
enum vc_status vc_checkpoint_try(const struct vc_trainer *t)
{
    struct vc_model *resume = NULL;
    enum vc_status status = t->options.checkpoint.resume != NULL
                                ? vc_model_open(t->ctx, t->options.checkpoint.resume, NULL, &resume)
                                : VC_OK;

    vc_model_close(resume);
    return status;
}

/* Accepts a trainer without one. */
void vc_checkpoint_close(struct vc_trainer *t)
{
    if (t->checkpoint != NULL) {
        vc_text_free(t->checkpoint->text);
        vc_model_close(t->checkpoint->resume);
        VC_FREE_ALL(t->ctx, t->checkpoint->statistics, t->checkpoint);
    }
}

/* ---- a run ---- */

/* Statistics, to the block or back. */
static void copy_statistics(struct vc_trainer *t, bool back)
{
    size_t size = vc_real_bytes(t->options.precision.kind);
    char *at = t->checkpoint->statistics;

    for (size_t k = 0; k < t->student.net.weights->n; k++) {
        struct vc_weight *item = &t->student.net.weights->items[k];

        if (item->statistic) {
            memcpy(back ? item->data : at, back ? at : item->data, (size_t)item->n * size);
            at += item->n * size;
        }
    }
}

/* Keeps the running statistics at the beginning of a step. A step that is interrupted in the middle has
 * moved them already, though not the weights. */
enum vc_status vc_checkpoint_mark(struct vc_trainer *t)
{
    bool has = false;

    for (size_t k = 0; t->checkpoint != NULL && k < t->student.net.weights->n; k++) {
        has = has || t->student.net.weights->items[k].statistic;
    }
    if (has) {
        VC_CALL(vc_weights_to_host(t->student.net.weights));
        copy_statistics(t, false);
    }
    return VC_OK;
}

/* Figures of the report that a resumed run goes on with. */
static void take_figures(struct vc_trainer *t)
{
    if (!t->progress.control) {
        t->progress.figures.first_loss = t->report->first_loss;
        t->progress.figures.last_loss = t->report->last_loss;
        t->progress.figures.kd_gradient = t->report->kd_gradient;
        t->progress.figures.ce_gradient = t->report->ce_gradient;
    }
}

/* Behind a step, where one is due. A file that cannot be written is noted, and the run goes on. */
enum vc_status vc_checkpoint_step(struct vc_trainer *t)
{
    const struct vc_distill_options *o = &t->options;

    if (o->checkpoint.path == NULL || o->checkpoint.every == 0 || t->progress.counts.step % o->checkpoint.every != 0 ||
        t->progress.counts.step == t->progress.counts.saved) {
        return VC_OK;
    }
    take_figures(t);
    enum vc_status status = write_file(t);
    if (status == VC_OK || status == VC_E_CANCELLED) {
        return status;
    }
    /* The last one is still there, and so is the run. */
    t->report->n_unsaved++;
    t->report->unsaved = vc_arena_printf(t->ctx, t->texts, "step %llu: %s", (unsigned long long)t->progress.counts.step,
                                         vc_ctx_message(t->ctx));
    vc_clear_error(t->ctx);
    return t->report->unsaved != NULL ? VC_OK : VC_E_NOMEM;
}

/* The state at the end of the last whole step goes into a file, and the sentence says how to go on. */
enum vc_status vc_checkpoint_interrupted(struct vc_trainer *t, enum vc_status why)
{
    const char *path = t->options.checkpoint.path;
    char text[VC_MESSAGE_BYTES];

    if (path == NULL) {
        return why;
    }
    memcpy(text, vc_ctx_message(t->ctx), sizeof text);
    vc_clear_error(t->ctx);
    enum vc_status status = vc_device_to_host(&t->student);
    if (status != VC_OK) {
        return vc_context(t->ctx, "interrupted after %llu steps, and there is no checkpoint of them",
                          (unsigned long long)t->progress.counts.step);
    }
    copy_statistics(t, true);
    take_figures(t);
    atomic_store(&t->ctx->shared->cancelled, 0); /* granted; the file has to be written */
    vc_clear_error(t->ctx);
    status = write_file(t);
    if (status != VC_OK) {
        return vc_context(t->ctx, "interrupted after %llu steps, and there is no checkpoint of them",
                          (unsigned long long)t->progress.counts.step);
    }
    VC_REFUSE_IF(why != VC_E_CANCELLED, t->ctx, why, "%s; %s %s goes on behind step %llu", text,
                 vc_option(t->ctx, "checkpoint.resume"), path, (unsigned long long)t->progress.counts.step);
    return vc_fail(t->ctx, VC_E_CANCELLED, "interrupted after %llu steps%s; %s %s goes on from there",
                   (unsigned long long)t->progress.counts.step, t->progress.control ? " of the control run" : "",
                   vc_option(t->ctx, "checkpoint.resume"), path);
}
