/* run_options.c - see run_options.h. A new option of vc_distill_options that changes the result is a new
 * row here.
 *
 * A line of the text is a key and a value. Numbers are written so that they read back without loss, choices
 * as their number; what is no field of its own (files, matches, rules) is written below by its digest or in
 * words. */
#include "distill/run/run_options.h"

#include "distill/data/identity.h"
#include "distill/loss/match.h"
#include "distill/update/fake_quant.h"
#include "distill/update/gradual.h"

/* An option: what it is called in checkpoints and in the options, and where it lies in the struct. */
struct row {
    const char *key; /* in checkpoints */
    const char *field;
    enum { COUNT, REAL_NUMBER, CHOICE, SWITCH, PRECISION } kind; /* PRECISION: with `half` */
    size_t offset;
};

#define ROW(key, field, kind)                                         \
    {                                                                 \
        key, #field, kind, offsetof(struct vc_distill_options, field) \
    }

static const struct row table[] = {
    ROW("batch", training.batch, COUNT),
    ROW("accum", training.accum, COUNT),
    ROW("optimizer", optimizer.kind, CHOICE),
    ROW("lr", optimizer.lr, REAL_NUMBER),
    ROW("momentum", optimizer.momentum, REAL_NUMBER),
    ROW("beta1", optimizer.beta1, REAL_NUMBER),
    ROW("beta2", optimizer.beta2, REAL_NUMBER),
    ROW("eps", optimizer.eps, REAL_NUMBER),
    ROW("weight_decay", optimizer.weight_decay, REAL_NUMBER),
    ROW("nesterov", optimizer.nesterov, SWITCH),
    ROW("decay_1d", optimizer.decay_1d, SWITCH),
    ROW("schedule", schedule.kind, CHOICE),
    ROW("warmup", schedule.warmup, COUNT),
    ROW("step_every", schedule.step_every, COUNT),
    ROW("step_factor", schedule.step_factor, REAL_NUMBER),
    ROW("clip", optimizer.clip, REAL_NUMBER),
    ROW("temperature", loss.temperature, REAL_NUMBER),
    ROW("alpha", loss.alpha, REAL_NUMBER),
    ROW("temperature_end", moving.temperature_end, REAL_NUMBER),
    ROW("alpha_end", moving.alpha_end, REAL_NUMBER),
    ROW("loss", loss.kind, CHOICE),
    ROW("task", answers.net_task, CHOICE),
    ROW("huber_delta", answers.huber_delta, REAL_NUMBER),
    ROW("label_smoothing", answers.label_smoothing, REAL_NUMBER),
    ROW("seed", training.seed, COUNT),
    ROW("order", training.order, CHOICE),
    ROW("precision", precision.kind, PRECISION),
    ROW("frozen_norm", trained.frozen_norm, SWITCH),
    ROW("keep_sparsity", sparsity.keep, SWITCH),
    ROW("refill", sparsity.refill, SWITCH),
    ROW("classes", loss.classes, CHOICE),
    ROW("control", eval.control, SWITCH),
    ROW("eval_every", eval.every, COUNT),
    ROW("early_stop", eval.early_stop, COUNT),
    ROW("keep", eval.keep, CHOICE),
};

/* One line: the key, and the value as it is read again without loss. */
static void add_row(struct vc_text *text, const struct row *row, const struct vc_distill_options *o)
{
    const char *field = (const char *)o + row->offset;

    vc_text_add(text, "%s ", row->key);
    switch (row->kind) {
    case COUNT:
        vc_text_add_uint(text, *(const uint64_t *)(const void *)field);
        break;
    case REAL_NUMBER:
        vc_text_add_json_number(text, *(const double *)(const void *)field);
        break;
    case PRECISION:
        if (o->precision.half == VC_HALF_NONE) {
            vc_text_add(text, "%s", o->precision.kind == VC_GRAPH_F64 ? "1" : "0");
        } else {
            vc_text_add(text, "%s", o->precision.half == VC_HALF_BF16 ? "bf16" : "fp16");
        }
        break;
    case CHOICE:
        vc_text_add(text, "%d", *(const int *)(const void *)field);
        break;
    default:
        vc_text_add(text, "%s", *(const bool *)(const void *)field ? "yes" : "no");
        break;
    }
    vc_text_add(text, "\n");
}

/* ---- networks and rows ---- */

/* Labels, targets and mask. */
static void add_y(struct vc_sha256 *sha, const struct vc_rows *rows)
{
    if (rows->labels != NULL) {
        vc_sha256_add(sha, rows->labels, (size_t)rows->n * rows->positions * sizeof *rows->labels);
    }
    if (rows->targets != NULL) {
        vc_sha256_add(sha, rows->targets, (size_t)rows->n * rows->target_width * sizeof *rows->targets);
    }
    if (rows->mask != NULL) {
        vc_sha256_add(sha, rows->mask, (size_t)rows->n * rows->positions);
    }
}

/* A digest of each input, and one of labels, targets and mask. */
static enum vc_status add_rows(struct vc_text *text, const char *key, const struct vc_taught_rows *rows)
{
    char hex[VC_SHA256_HEX_BYTES] = "";
    struct vc_sha256 sha;

    for (size_t k = 0; k < rows->student.n; k++) {
        VC_CALL(vc_identity_input(&rows->student, k, hex));
        vc_text_add(text, "%s %s\n", key, hex);
    }
    vc_sha256_begin(&sha);
    add_y(&sha, &rows->rows);
    for (size_t k = 0; k < rows->rows.n_outputs; k++) {
        add_y(&sha, rows->rows.outputs[k].rows);
        vc_sha256_add(&sha, &rows->rows.outputs[k].task.task, sizeof(enum vc_net_task));
        vc_sha256_add(&sha, &rows->rows.outputs[k].task.weight, 2 * sizeof(double));
    }
    vc_sha256_end(&sha, hex);
    vc_text_add(text, "%s %s\n", key, hex);
    return VC_OK;
}

/* A digest of all answers of the files, which is that of what the student learns from. */
static enum vc_status add_files(struct vc_text *text, const char *key, const struct vc_teacher_files *files)
{
    struct vc_sha256 sha;
    char hex[VC_SHA256_HEX_BYTES];

    vc_sha256_begin(&sha);
    for (size_t i = 0; i < files->n; i++) {
        const struct vc_row_array *logits = &files->items[i].logits;

        for (uint64_t r = 0; r < files->items[i].model->tensors[logits->tensor].shape[0]; r++) {
            const void *row;

            VC_CALL(vc_row_array_read(files->ctx, logits, r, &row));
            vc_sha256_add(&sha, row, logits->n_bytes);
        }
    }
    vc_sha256_end(&sha, hex);
    vc_text_add(text, "%s %s\n", key, hex);
    return VC_OK;
}

/* Masks are in the checkpoint, but those of another file would be taken for this run's. */
static enum vc_status add_mask(struct vc_trainer *t, struct vc_text *text)
{
    char hex[VC_SHA256_HEX_BYTES];

    if (t->options.sparsity.mask != NULL) {
        VC_CALL(vc_identity_content(t->ctx, t->options.sparsity.mask, hex));
        vc_text_add(text, "mask %s\n", hex);
    }
    return VC_OK;
}

/* Options that change the result, then digests. The batch is the one that was asked for, where no limit of
 * memory has chosen another one: the steps are the same. */
enum vc_status vc_run_options_text(struct vc_trainer *t, struct vc_text *text)
{
    struct vc_distill_options own = t->options;
    const struct vc_distill_options *o = &own;
    char hex[VC_SHA256_HEX_BYTES];

    if (own.training.batch == t->steps.cut_batch) { /* no limit of memory has chosen others */
        own.training.batch = t->steps.asked_batch;
        own.training.accum = t->steps.asked_accum;
    }
    VC_CALL(vc_identity_check(t->ctx));
    for (size_t k = 0; k < sizeof table / sizeof *table; k++) {
        add_row(text, &table[k], o);
    }
    if (o->precision.loss_scale != 0) {
        vc_text_add(text, "loss_scale ");
        vc_text_add_json_number(text, o->precision.loss_scale);
        vc_text_add(text, "\n");
    }
    /* Rates that fall depend on where the run ends, a control run has as many steps, and the last one is evaluated. */
    if (o->eval.control || o->eval.every != 0 || o->schedule.kind == VC_SCHEDULE_COSINE ||
        o->schedule.kind == VC_SCHEDULE_LINEAR) {
        vc_text_add(text, "steps %llu\n", (unsigned long long)t->steps.n);
    }
    if (o->answers.class_weights != NULL) {
        vc_text_add(text, "class_weights %s\n", o->answers.class_weights);
    }
    for (size_t k = 0; k < o->trained.n_freeze; k++) {
        vc_text_add(text, "freeze %s\n", o->trained.freeze[k]);
    }
    vc_gradual_text(&t->student, text);
    vc_fake_quant_text(&t->student, text);
    vc_match_text(t->match, text);
    VC_CALL(vc_identity_net(&t->student.net, hex));
    vc_text_add(text, "student %s\n", hex);
    if (t->runs_teacher) {
        VC_CALL(vc_identity_net(&t->teacher, hex));
        vc_text_add(text, "teacher %s\n", hex);
    }
    if (t->data.files.n != 0) {
        VC_CALL(add_files(text, "teacher", &t->data.files));
    }
    VC_CALL(add_rows(text, "data", &t->data));
    if (t->eval.open) {
        VC_CALL(add_rows(text, "eval", &t->eval));
    }
    if (t->eval.files.n != 0) {
        VC_CALL(add_files(text, "eval_teacher", &t->eval.files));
    }
    return add_mask(t, text);
}

/* ---- comparing ---- */

/* The line at *at, cut into its key and value; false if there is none. */
static bool next_line(const char **at, const char **value, char *key, size_t room, int *n_value)
{
    const char *end = strchr(*at, '\n');
    const char *space = memchr(*at, ' ', strlen(*at));

    if (end == NULL || space == NULL || space > end || (size_t)(space - *at) >= room) {
        return false;
    }
    memcpy(key, *at, (size_t)(space - *at));
    key[space - *at] = '\0';
    *value = space + 1;
    *n_value = (int)(end - space - 1);
    *at = end + 1;
    return true;
}

/* The row with that key; NULL: the line is of none. */
static const struct row *find_row(const char *key)
{
    for (size_t k = 0; k < sizeof table / sizeof *table; k++) {
        if (strcmp(table[k].key, key) == 0) {
            return &table[k];
        }
    }
    return NULL;
}

/* The option that a line is about. */
static const char *option_of(struct vc_ctx *ctx, const char *key)
{
    static const char *const others[][2] = {{"steps", "training.steps"},
                                            {"loss_scale", "precision.loss_scale"},
                                            {"freeze", "trained.freeze"},
                                            {"prune_first", "sparsity.prune_first"},
                                            {"grid", "precision.fake_quant"},
                                            {"matches", "loss.matches"},
                                            {"eval", "eval.rows"},
                                            {"eval_teacher", "eval.logits"},
                                            {"mask", "sparsity.mask"}};
    const struct row *row = find_row(key);

    for (size_t k = 0; row == NULL && k < sizeof others / sizeof *others; k++) {
        if (strcmp(others[k][0], key) == 0) {
            return vc_option(ctx, others[k][1]);
        }
    }
    return vc_option(ctx, row != NULL ? row->field : key);
}

/* Of options that are numbers the values say more than that they differ. */
static bool is_number(const char *key)
{
    const struct row *row = find_row(key);

    return row != NULL ? row->kind == COUNT || row->kind == REAL_NUMBER
                       : strcmp(key, "steps") == 0 || strcmp(key, "loss_scale") == 0 || strcmp(key, "version") == 0;
}

/* The first line that two texts do not have in common. */
struct difference {
    char key[32]; /* of both; of two keys the one that only one side has: an option that may be left out */
    bool number;  /* both have it, and it is a number */
    const char *theirs, *ours;
    int n_theirs, n_ours; /* bytes */
};

/* Walks over both texts line by line. A line that only one side has is an option that may be left out; of
 * two different keys that one is named. */
static bool find_difference(const char *theirs, const char *ours, struct difference *d)
{
    char their_key[32] = "";
    char our_key[32] = "";

    *d = (struct difference){.theirs = "", .ours = ""};
    for (;;) {
        bool have_theirs = next_line(&theirs, &d->theirs, their_key, sizeof their_key, &d->n_theirs);
        bool have_ours = next_line(&ours, &d->ours, our_key, sizeof our_key, &d->n_ours);
        bool same_key = have_theirs == have_ours && strcmp(their_key, our_key) == 0;

        if (!have_theirs && !have_ours) {
            return false;
        }
        if (!same_key || d->n_theirs != d->n_ours || memcmp(d->theirs, d->ours, (size_t)d->n_ours) != 0) {
            bool is_theirs = have_theirs && (!have_ours || strcmp(our_key, "student") == 0);

            d->number = same_key && is_number(our_key);
            memcpy(d->key, is_theirs ? their_key : our_key, sizeof d->key);
            return true;
        }
    }
}

/* For a checkpoint. */
enum vc_status vc_run_options_compare(struct vc_ctx *ctx, const char *path, const char *theirs, const char *ours)
{
    struct difference d;

    if (!find_difference(theirs, ours, &d)) {
        return VC_OK;
    }
    return d.number ? vc_fail(ctx, VC_E_ARGUMENT, "%s: was made with %s %.*s; this run has %.*s", path,
                              option_of(ctx, d.key), d.n_theirs, d.theirs, d.n_ours, d.ours)
                    : vc_fail(ctx, VC_E_ARGUMENT, "%s: was made by a run with another %s", path, option_of(ctx, d.key));
}

/* For ranks. */
enum vc_status vc_run_options_of_ranks(struct vc_ctx *ctx, const char *of_rank_0, const char *ours)
{
    struct difference d;

    if (!find_difference(of_rank_0, ours, &d)) {
        return VC_OK;
    }
    return d.number ? vc_fail(ctx, VC_E_ARGUMENT, "%s is %.*s; rank 0 has %.*s", option_of(ctx, d.key), d.n_ours,
                              d.ours, d.n_theirs, d.theirs)
                    : vc_fail(ctx, VC_E_ARGUMENT, "%s is another one than that of rank 0", option_of(ctx, d.key));
}
