/* cmd_shrink.c - vcompress shrink: from a limit to a file that was checked. The library searches and proves (shrink.h);
 * here are the options, and the tables.
 *
 * The stages: options, the device (find_device), the rows (set_rows), the model and the output's name (shrink), the
 * search (vc_shrink, which calls tell for every candidate), the table and the document (finish). */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tools/commands/commands.h"
#include "tools/commands/quantize_types.h"
#include "tools/convert/distill_nets.h"
#include "tools/model/cards.h"
#include "tools/options/distill_words.h"
#include "tools/options/library_names.h"
#include "tools/show/documents.h"
#include "tools/show/print_answers.h"
#include "tools/signals.h"

/* The options of the command, and what a search needs beside them. */
struct shrink_cli {
    struct nets_cli nets;            /* first */
    struct vc_shrink_options shrink; /* what vc_shrink gets */
    struct vc_write_options write;   /* the output */
    struct vc_data_options eval;     /* of --eval; set_rows completes it */
    const char *eval_arrays[MAX_NET_ARRAYS];
    const char *gpu, *gpus_file; /* of --fit and --gpus-file */
    struct vc_gpus *catalogue;
    struct device_cli device; /* of the GPU at hand */
    struct named_types named; /* of --type, then of --type-file */
    const char *type_file;
    struct named_passes passes;
    struct vc_shrink_types types;
    char *words;
    enum vc_net_task task; /* of --task */
    struct app *app;
};

/* --max-loss: "1%" or "0.01". 0 is allowed here, other than in expected_share: no loss at all. */
static bool take_loss(void *group, const char *value)
{
    struct shrink_cli *cli = group;

    return strcmp(value, "0") == 0 ? (cli->shrink.max_loss = 0, true) : expected_share(value, &cli->shrink.max_loss);
}

static bool take_type(void *group, const char *value)
{
    return named_types_add(&((struct shrink_cli *)group)->named, value);
}

/* "mae:0.5", "accuracy:1%", "r2:0.01". The metrics are numbered without a gap from accuracy on; vc_word ends the
 * list with NULL. What is behind the colon is a share or a number in the metric's own unit. */
static bool take_within(void *group, const char *value)
{
    struct shrink_cli *cli = group;
    size_t n = strcspn(value, ":");
    uint64_t metric = VC_METRIC_ACCURACY;
    const char *name = vc_word(VC_WORDS_METRIC, (unsigned)metric);

    while (name != NULL && (strlen(name) != n || strncmp(name, value, n) != 0)) {
        name = vc_word(VC_WORDS_METRIC, (unsigned)++metric);
    }
    cli->shrink.metric = metric;
    return name != NULL && value[n] == ':' &&
           (take_loss(group, value + n + 1) ||
            (options_real(value + n + 1, &cli->shrink.max_loss) && cli->shrink.max_loss >= 0));
}

/* "90", "90s", "10min", "2h". "m" and "min" are both minutes. An unknown unit leaves 0, which is refused. */
static bool take_time(void *group, const char *value)
{
    static const struct {
        const char *name;
        double seconds;
    } units[] = {{"", 1}, {"s", 1}, {"min", 60}, {"m", 60}, {"h", 3600}};
    struct shrink_cli *cli = group;
    char *end;
    double x = strtod(value, &end);
    double unit = 0;

    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        unit = strcmp(end, units[i].name) == 0 ? units[i].seconds : unit;
    }
    cli->shrink.seconds = x * unit;
    return end != value && isfinite(x) && cli->shrink.seconds > 0;
}

/* --drop, repeatable. */
static bool take_drop(void *group, const char *value)
{
    struct vc_shrink_options *o = &((struct shrink_cli *)group)->shrink;
    int role = 0;
    bool known = dropped_role(value, &role);

    o->drop_optimizer = o->drop_optimizer || (known && role == VC_ROLE_OPTIMIZER);
    o->drop_other = o->drop_other || (known && role == VC_ROLE_OTHER);
    return known;
}

/* --eval-array, repeatable. set_rows gives the list to the library. */
static bool take_eval_array(void *group, const char *value)
{
    struct shrink_cli *cli = group;

    if (strchr(value, '=') == NULL || cli->eval.n_arrays == MAX_NET_ARRAYS) {
        return false;
    }
    cli->eval_arrays[cli->eval.n_arrays++] = value;
    return true;
}

#define SHRINK(member) OPT_FIELD(struct shrink_cli, shrink.member)
#define CLI(member)    .field = offsetof(struct shrink_cli, member)

/* What the output must be: a size, a device, a loss. At least one is needed. */
/* clang-format off */
static const struct opt limit_opts[] = {
    /* the file */
    {.name = "bytes", .value = "SIZE", .kind = OPT_SIZE, SHRINK(max_bytes), .help = "the output has at most SIZE: 100MiB"},
    {.name = "ratio", .value = "X", .kind = OPT_ABOVE_0, SHRINK(ratio), .help = "the output is X times smaller than the input"},
    /* the memory of a device */
    {.name = "fit", .value = "GPU", .kind = OPT_TEXT, CLI(gpu), .option = "gpu",
     .help = "the output fits this GPU in inference (vcompress gpus lists names), or auto, the GPU at hand"},
    {.name = "memory", .value = "SIZE", .kind = OPT_SIZE, SHRINK(visible_bytes),
     .conflicts = "fit", .help = "the output fits a device of which a program sees SIZE"},
    {.name = "native", .kind = OPT_BOOL, .set = 1, SHRINK(native),
     .needs = "fit memory", .help = "for a runtime that keeps codes as codes, as llama.cpp and vLLM do (default: the usual "
             "loader of the output, which may decode them)"},
    /* what the answers may lose */
    {.name = "max-loss", .value = "SHARE", .kind = OPT_CALL, .call = take_loss, .option = "max_loss", .one_of = true,
     .wanted = "a share such as 1% or 0.01",
     .needs = "data", .help = "the figure of the task falls by at most SHARE: accuracy (classes, tokens), IoU (maps), F1 (labels), R2 "
             "(regression), cosine (embeddings); without y at most SHARE of the answers change, or R2 and cosine are those "
             "of the model's own outputs. Alone: the smallest file that loses no more"},
    {.name = "within", .value = "METRIC:X", .kind = OPT_CALL, .call = take_within, .option = "metric", .one_of = true,
     .wanted = "accuracy, agreement, cross-entropy, f1, iou, r2, mae, mse, cosine or exact-match, and how much worse it may be: mae:0.5, r2:0.01, accuracy:1%",
     .needs = "data", .help = "as --max-loss, of another figure and in its own unit: mae:0.5, where the mean absolute error "
             "rises by at most 0.5 (accuracy, agreement, cross-entropy, f1, iou, r2, mae, mse, cosine, exact-match)"},
    {.name = "gpus-file", .value = "FILE", .file = FILE_READ, .kind = OPT_TEXT, CLI(gpus_file),
     .needs = "fit", .help = "more GPUs (see vcompress gpus --csv)"},
};
/* Rows that neither train nor choose. */
static const struct opt proof_opts[] = {
    {.name = "eval", .value = "FILE", .file = FILE_READ, .kind = OPT_TEXT, OPT_FIELD(struct shrink_cli, eval.path),
     .needs = "data", .help = "rows to prove, which steer nothing (default: 20 % of --data; 60 % train, 20 % choose)"},
    {.name = "eval-labels", .value = "FILE", .file = FILE_READ, .kind = OPT_TEXT, CLI(eval.labels), .needs = "eval", .help = "another file, whose single array is y of --eval"},
    {.name = "eval-array", .value = "NAME=ARRAY", .kind = OPT_CALL, .call = take_eval_array,
     .needs = "eval", .help = "the same as --array (default: as --array)"},
    {.name = "min-accuracy", .value = "SHARE", .kind = OPT_REAL, .gate = true, SHRINK(min_accuracy),
     .help = "gate: exit 1 when the output answers fewer of the labelled rows rightly, such as 0.95"},
    METRIC_ROWS(struct shrink_cli, shrink.limits, "exit 1"),
};
/* How candidates are compared and trained, and for how long. */
static const struct opt search_opts[] = {
    TASK_ROWS(struct shrink_cli, task, shrink.loss),
    {.name = "type", .value = "GLOB=SCHEME", .kind = OPT_CALL, .call = take_type, .option = "types",
     .wanted = "a glob, = and a scheme, such as 'lm_head*=int8' (64 at most)",
     .help = "the scheme of the tensors whose names match, of every candidate, as in vcompress quantize: one of its --scheme, of GGUF files a block type "
             "(q6_k), or keep; repeatable, the first match wins. Codes are then made behind the training"},
    {.name = "type-file", .value = "FILE", .file = FILE_READ, .kind = OPT_TEXT, .field = offsetof(struct shrink_cli, type_file), .option = "types",
     .help = "the same from the lines of a file, behind those of --type"},
    /* an end before the last candidate */
    {.name = "time", .value = "TIME", .kind = OPT_CALL, .call = take_time, .option = "seconds",
     .wanted = "seconds, or a time such as 90s, 10min or 2h",
     .help = "take the best that was found in TIME, which ends what is under way; where none was measured, the first of the list that is within the limits"},
    /* the training of the best candidates */
    {.name = "steps", .value = "N", .kind = OPT_COUNT, SHRINK(steps),
     .needs = "data", .help = "steps of training the winner (default 2400); three candidates for it are trained a twelfth of them"},
    {.name = "seed", .value = "N", .kind = OPT_COUNT, SHRINK(seed), .needs = "data", .help = "of the parts of the rows, and of training (default 0)"},
    /* what happens at the end */
    {.name = "keep-going", .kind = OPT_BOOL, .set = 1, SHRINK(keep_going),
     .help = "write the nearest file although a limit is missed; the exit status stays 1"},
    {.name = "resume", .kind = OPT_BOOL, .set = 1, SHRINK(resume),
     .help = "go on where an interrupted search of the same model, graph, rows and options stopped, by the journal beside the output; the bytes are the same"},
};
/* Files that are written: the model, its recipe, and the journal beside it (--resume). */
static const struct opt output_opts[] = {
    {.name = "output", .letter = 'o', .by_letter = true, .value = "FILE", .file = FILE_WRITTEN, .kind = OPT_TEXT, OPT_FIELD(struct shrink_cli, write.path),
     .help = "output file or folder, in the format of its extension, else in the input's format (default: a name beside the input, such as model.small.npz)"},
    {.name = "recipe", .value = "FILE", .file = FILE_WRITTEN, .kind = OPT_TEXT, SHRINK(recipe),
     .help = "text file for the passes that were chosen, with which vcompress run makes the same bytes (default: the output's name and .recipe)"},
    {.name = "force", .letter = 'f', .kind = OPT_BOOL, .set = 1, OPT_FIELD(struct shrink_cli, write.force),
     .help = "replace an existing file (never the input), and an older journal"},
    {.name = "layout", .value = "auto", .more = layout_name, .kind = OPT_WORD, OPT_FIELD(struct shrink_cli, write.layout),
     .help = "layout of codes, as in vcompress quantize"},
    {.name = "drop", .value = "optimizer|other", .kind = OPT_CALL, .call = take_drop, .option = "vc_job_drop",
     .help = "drop tensors of a training checkpoint that are not weights, as in vcompress quantize (default: they are kept)"},
    {.name = "dry-run", .letter = 'n', .kind = OPT_BOOL, .set = 1, OPT_FIELD(struct shrink_cli, write.dry_run),
     .help = "count the candidates from headers; measure and write nothing"},
};
/* clang-format on */
static const struct opt_group group_limits = OPT_GROUP("Limits (at least one)", limit_opts);
static const struct opt_group group_proof = OPT_GROUP("Rows to prove", proof_opts);
static const struct opt_group group_search = OPT_GROUP("Search", search_opts);
static const struct opt_group group_shrink_output = OPT_GROUP("Output", output_opts);
static const struct opt_group *const groups[] = {
    &group_limits, &group_rows, &group_proof, &group_search,          &group_shrink_output, &group_known,
    &group_run,    &group_json, &group_page,  &group_report_of_sizes, &group_help};

/* ---- tables ---- */

/* Whether tables are printed, and progress with them. */
static bool is_shown(const struct app *app)
{
    return app_prints(app);
}

/* "0.87 %"; "" for what was not measured */
static const char *fmt_part(char *buf, double share)
{
    snprintf(buf, CELL_BYTES, isnan(share) ? " " : "%.2f %%", 100 * share);
    return buf;
}

/* What a figure has lost. Metrics that are shares are printed as percentages; MAE, MSE and cross-entropy in their
 * units. */
static const char *fmt_loss(char *buf, enum vc_metric metric, double loss)
{
    if (isnan(loss) || (metric != VC_METRIC_MAE && metric != VC_METRIC_MSE && metric != VC_METRIC_CROSS_ENTROPY)) {
        return fmt_part(buf, loss);
    }
    snprintf(buf, CELL_BYTES, "%.4g", loss);
    return buf;
}

/* vc_shrink_options.tell: a line when a candidate was measured, or refused for a reason. left: seconds of the
 * whole search, about. The progress line is ended first, since both go to the terminal. */
static void tell(void *user, const struct vc_shrink_candidate *c, double left)
{
    struct shrink_cli *cli = user;
    const struct out *out = &cli->app->out;

    if (!is_shown(cli->app)) {
        return;
    }
    progress_end();
    /* a reason in place of figures, or figures: of the weights alone (error), or of the outputs (loss, kd) */
    fprintf(out->to, "  %-36s ", c->name);
    if (c->reason != NULL) {
        print_clean(out->to, c->reason);
    } else {
        say(out->to, "%10s  memory %s", fmt_size(CELL, out, c->file_bytes), fmt_size(CELL, out, c->need_bytes));
        if (isnan(c->kd)) {
            say(out->to, "  error %s", fmt_part(CELL, c->error));
        } else {
            say(out->to, "  loss %s  %s %.4g", fmt_loss(CELL, (enum vc_metric)cli->shrink.metric, c->loss), c->measure,
                c->kd);
        }
        fprintf(out->to, "  %.1f s", c->seconds);
    }
    fprintf(out->to, "  about %.0f s left", left);
    fputs(c->reason == NULL && !c->within ? "  too large\n" : "\n", out->to);
    (void)fflush(out->to);
}

/* By what outputs were compared, the title of a column: that of the first measured candidate. The word without any is
 * "divergence". */
static const char *measure_of(const struct vc_shrinkage *r)
{
    for (size_t k = 0; k < r->n_candidates; k++) {
        if (r->candidates[k].measure != NULL) {
            return r->candidates[k].measure;
        }
    }
    return "divergence";
}

/* One row of the front. "*" marks the candidate that was chosen. */
static void add_candidate(const struct app *app, const struct vc_shrinkage *r, const struct vc_shrink_candidate *c,
                          bool chosen, struct table *table)
{
    bool made = c->file_bytes != 0;

    table_cell(table, 'l', "", chosen ? INK_GOOD : INK_NONE, chosen ? "*" : "");
    table_cell(table, 'l', "candidate", INK_NONE, c->name);
    table_cell(table, 'r', "size", INK_NONE, made ? fmt_size(CELL, &app->out, c->file_bytes) : "");
    table_cell(table, 'r', "", INK_NONE, made ? fmt_ratio(CELL, &app->out, r->input_bytes, c->file_bytes) : "");
    table_cell(table, 'r', "memory", INK_NONE, fmt_size(CELL, &app->out, c->need_bytes));
    table_cell(table, 'r', r->weights_only ? "error" : "loss", INK_NONE,
               r->weights_only ? fmt_part(CELL, c->error) : fmt_loss(CELL, r->metric, c->loss));
    table_cell(table, 'r', r->weights_only ? "" : measure_of(r), INK_NONE,
               isnan(c->kd) ? " " : fmt_text(CELL, "%.4g", c->kd));
    if (!made && r->limit_bytes != 0) {
        table_cell(table, 'l', "within", INK_NONE, "");
    } else {
        table_cell(table, 'l', "within", c->within ? INK_GOOD : INK_DIM, c->within ? "yes" : "no");
    }
    table_end_row(table);
}

/* The front; in a dry run all candidates. A dry run measures nothing, so there is no front. */
static bool print_front(const struct app *app, const struct vc_shrinkage *r)
{
    static const struct vc_shrink_candidate none = {.name = ""};
    struct table table = {.failed = false};
    bool all = r->options->write->dry_run;

    for (size_t k = 0; k < r->n_candidates; k++) {
        if (r->candidates[k].front || k == r->chosen || (all && r->candidates[k].reason == NULL)) {
            add_candidate(app, r, &r->candidates[k], k == r->chosen, &table);
        }
    }
    if (table.n_cols == 0) {
        add_candidate(app, r, &none, false, &table);
        table_drop_row(&table);
    }
    return table_print(&table, &app->out, true);
}

/* Every figure that compares with y: of the output, and of the model itself. The value is NaN for what was not
 * measured; `rises` says that a larger value is better, and chooses the form of the number here. */
static void print_y(const struct app *app, const struct vc_shrinkage *r)
{
    static const struct {
        enum vc_metric metric;
        const char *name;
    } rows[] = {{VC_METRIC_MSE, "squared error of y"}, {VC_METRIC_R2, "R2"}, {VC_METRIC_MAE, "mean absolute error"},
                {VC_METRIC_COSINE, "cosine"},          {VC_METRIC_F1, "F1"}, {VC_METRIC_IOU, "mean IoU"},
                {VC_METRIC_EXACT_MATCH, "exact match"}};

    for (size_t k = 0; k < r->quality.n_parts && k < r->teacher.n_parts; k++) {
        struct vc_metric_value is = vc_metric_figure(&r->quality.parts[k], VC_METRIC_AUTO);

        say(app->out.to, "%s%s: %s, %s %.4f of %.4f", k != 0 ? "; " : ": ", r->quality.parts[k].name,
            vc_word(VC_WORDS_NET_TASK, r->quality.parts[k].task), vc_word(VC_WORDS_METRIC, is.metric), is.value,
            vc_metric_figure(&r->teacher.parts[k], is.metric).value);
    }
    for (size_t k = 0; r->quality.n_parts == 0 && k < sizeof(rows) / sizeof(rows[0]); k++) {
        struct vc_metric_value is = vc_metric_figure(&r->quality, rows[k].metric);

        if (!isnan(is.value) &&
            (r->quality.n_targets != 0 || (rows[k].metric != VC_METRIC_R2 && rows[k].metric != VC_METRIC_COSINE))) {
            fprintf(app->out.to, ", %s", rows[k].name);
            fprintf(app->out.to, is.rises ? " %.4f of %.4f" : " %.4g of %.4g", is.value,
                    vc_metric_figure(&r->teacher, rows[k].metric).value);
        }
    }
}

/* The proof by outputs: "proof: classes: 2,000 rows that steered nothing, 98.7 % of the answers equal, ..." */
static void print_proof(const struct app *app, const struct vc_shrinkage *r)
{
    const struct vc_quality *q = &r->quality;

    if (q->n_parts != 0) { /* each output by its own figure */
        fprintf(app->out.to, "proof: %s rows that steered nothing", fmt_count(CELL, q->n_rows));
        print_y(app, r);
        fputc('\n', app->out.to);
        return;
    }
    say(app->out.to, "proof: %s: %s rows that steered nothing", vc_word(VC_WORDS_NET_TASK, q->task),
        fmt_count(CELL, q->n_rows));
    if (!isnan(q->agreement)) {
        fprintf(app->out.to, ", %s of the answers equal", fmt_share(CELL, q->agreement));
    }
    fprintf(app->out.to, q->loss == VC_TEACHER_LOSS_KD ? ", %s %.4f" : ", %s %.4g",
            vc_teacher_loss_facts(q->loss)->measure, q->kd);
    if (!isnan(q->teacher_r2)) {
        fprintf(app->out.to, " of the model's outputs (R2 %.4f)", q->teacher_r2);
    }
    print_y(app, r);
    if (q->n_labels != 0) {
        say(app->out.to, ", accuracy %s of %s", fmt_share(CELL, q->accuracy), fmt_share(CELL, r->teacher.accuracy));
    }
    fputc('\n', app->out.to);
    print_answers(app, q, NULL);
}

/* The table, notes, the proof, and what was written. False: no memory. */
static bool print_result(const struct app *app, const struct vc_shrinkage *r)
{
    if (!print_front(app, r)) {
        return false;
    }
    if (r->note != NULL) {
        say(app->out.to, "note: %s\n", r->note);
    }
    if (r->out_of_time) {
        fputs(r->seconds > r->options->seconds
                  ? "note: --time ended the search; what it had by then was made and proved, which took longer\n"
                  : "note: --time ended the search\n",
              app->out.to);
    }
    /* sizes first, then whether it fits */
    if (r->proved) {
        say(app->out.to, "proof: read back and verified, %s, %s", fmt_size(CELL, &app->out, r->output_bytes),
            fmt_change(CELL, &app->out, r->input_bytes, r->output_bytes));
        if (r->options->gpu != NULL || r->options->visible_bytes != 0) {
            say(app->out.to, "; needs %s: %s", fmt_size(CELL, &app->out, r->fit.need_bytes),
                vc_fit_word(&r->fit, NULL));
        }
        fputc('\n', app->out.to);
    }
    if (r->proved && r->quality.n_rows != 0) {
        print_proof(app, r);
    }
    if (r->written) {
        say(app->out.to, "wrote %s and its recipe in %.1f s\n", r->options->write->path, r->seconds);
    }
    return true;
}

/* ---- the command ---- */

/* --fit NAME: the device and what a program sees of it. GO_ON or a status. */
static int find_device(struct app *app, struct shrink_cli *cli)
{
    unsigned count = 1;
    uint64_t visible = 0;
    uint64_t used = 0;

    GO(device_size_check(app));
    if (cli->gpu == NULL) {
        return GO_ON;
    }
    enum vc_status status = cards_open(app, cli->gpus_file, &cli->catalogue);
    if (status != VC_OK) {
        return app_fail(app, status);
    }
    int rc = device_find(app, &cli->device, cli->catalogue, cli->gpu, &cli->shrink.gpu, &count, &visible, &used);
    return rc == GO_ON && count != 1 ? app_usage(app, "--fit: '%s' are several devices", cli->gpu) : rc;
}

/* --eval is read with the options of --data, except those that choose rows (--rows, --part). */
static void set_rows(struct shrink_cli *cli)
{
    struct vc_data_options own = cli->eval;

    cli->shrink.data = cli->nets.data.path != NULL ? &cli->nets.data : NULL;
    if (own.path == NULL) {
        return;
    }
    cli->eval = cli->nets.data; /* read in the same way */
    cli->eval.path = own.path;
    /* all rows of --eval */
    cli->eval.n_rows = cli->eval.part_from = cli->eval.part_to = cli->eval.part_seed = 0;
    cli->eval.labels = own.labels;
    if (own.n_arrays != 0) {
        cli->eval.arrays = cli->eval_arrays;
        cli->eval.n_arrays = own.n_arrays;
    }
    cli->shrink.eval = &cli->eval;
}

/* What shrink cannot take of the shared options. GO_ON or a status. */
static int check(struct app *app, struct shrink_cli *cli)
{
    if (options_seen(&app->parsed, "part") || options_seen(&app->parsed, "part-seed")) {
        return app_usage(app, "--part: shrink divides the rows itself, by --seed");
    }
    return GO_ON;
}

/* The table, the document, then the gate: the report of a missed limit is printed, too. */
static int finish(struct app *app, const struct vc_shrinkage *r, enum vc_status status)
{
    app->written = r->written;
    if (is_shown(app) && !print_result(app, r)) {
        return app_refuse(app, VC_E_NOMEM, "not enough memory to print the table");
    }
    int rc = document_plain(app, &(struct vc_document){.kind = VC_DOCUMENT_SHRINK, .of = r});
    return rc != GO_ON ? rc : status == VC_E_GATE ? app_gate(app, r->missed) : EXIT_YES;
}

/* The default name: "model.small.npz" beside the input. app owns it. */
static enum vc_status name_output(struct app *app, struct shrink_cli *cli, const struct vc_model *model)
{
    struct vc_name_options names;

    vc_name_defaults(&names);
    names.tag = "small";
    names.input = app->subject;
    names.more_tensors = true;
    enum vc_status status = vc_model_output_name(app->ctx, model, &names, &app->own_output);
    cli->write.path = app->own_output;
    app->output = app->own_output;
    return status;
}

/* --type, --type-file: passes of every candidate, by the format of the output. GO_ON or a status. */
static int set_types(struct app *app, struct shrink_cli *cli, const struct vc_model *model)
{
    const char *format = cli->write.path != NULL ? vc_format_of_name(cli->write.path) : NULL;
    struct vc_quantize_options base;

    if (cli->named.n == 0) {
        return GO_ON;
    }
    format = format != NULL ? format : vc_model_facts(model)->format;
    vc_quantize_defaults(&base);
    base.gguf = strcmp(format, "gguf") == 0 ? "Q8_0" : NULL; /* only that there are blocks */
    GO(named_types_check(app, &cli->named, &base));
    cli->words = named_types_words(&cli->named);
    if (cli->words == NULL || !named_passes_make(&cli->named, &base, &cli->passes)) {
        return app_refuse(app, VC_E_NOMEM, "not enough memory for the types");
    }
    cli->types = (struct vc_shrink_types){.passes = cli->passes.passes,
                                          .n_passes = cli->passes.n,
                                          .only = cli->passes.only,
                                          .n_only = cli->passes.n_only,
                                          .rules = cli->passes.rules,
                                          .n_rules = cli->passes.n_rules,
                                          .words = cli->words};
    cli->shrink.types = &cli->types;
    return GO_ON;
}

/* Opens the model (as GGUF where the output's name says so), names the output, searches. Returns the exit status. */
static int shrink(struct app *app, struct shrink_cli *cli)
{
    struct vc_shrinkage *result = NULL;
    struct vc_open_options open;
    struct vc_model *model = NULL;

    vc_open_defaults(&open);
    /* the output's name decides, before the model is opened, how a folder is presented */
    open.as_gguf = cli->write.path != NULL && vc_format_of_name(cli->write.path) != NULL &&
                   strcmp(vc_format_of_name(cli->write.path), "gguf") == 0;
    enum vc_status status = vc_model_open(app->ctx, app->subject, &open, &model);
    if (status == VC_OK && cli->write.path == NULL) {
        status = name_output(app, cli, model);
    }
    int rc = status == VC_OK ? set_types(app, cli, model) : GO_ON;
    if (rc != GO_ON) {
        vc_model_close(model);
        return rc;
    }
    if (status == VC_OK) {
        cli->shrink.model = model;
        cli->shrink.graph_path = cli->nets.graph;
        cli->shrink.net_task = cli->task;
        cli->shrink.write = &cli->write;
        cli->shrink.tell = tell;
        cli->shrink.user = cli;
        progress_begin(app);
        status = vc_shrink(app->ctx, &cli->shrink, &result);
        progress_end();
    }
    signals_end_printing();
    rc = result != NULL ? finish(app, result, status) : app_fail(app, status);
    vc_result_free(result);
    vc_model_close(model);
    return rc;
}

/* The whole command, from the options on. */
static int run_shrink(struct app *app, int n_args, char **args)
{
    struct shrink_cli cli;

    signals_let_finish();
    memset(&cli, 0, sizeof(cli));
    cli.app = app;
    vc_shrink_defaults(&cli.shrink);
    vc_write_defaults(&cli.write);
    vc_data_defaults(&cli.nets.data);
    vc_data_defaults(&cli.eval);
    int rc = app_parse(app, n_args, args, &cli);
    rc = rc == GO_ON ? check(app, &cli) : rc;
    rc = rc == GO_ON ? app_check_gate(app, "min-accuracy", cli.shrink.min_accuracy) : rc;
    rc = rc == GO_ON && cli.type_file != NULL ? named_types_read(app, &cli.named, cli.type_file) : rc;
    if (rc == GO_ON) {
        set_rows(&cli);
        app->subject = app->parsed.args[0];
        app->output = cli.write.path;
        rc = app_open(app);
    }
    rc = rc == GO_ON ? json_check(app) : rc;
    rc = rc == GO_ON ? find_device(app, &cli) : rc;
    rc = rc == GO_ON ? shrink(app, &cli) : rc;
    if (app->ctx != NULL) {
        app_print_memory(app);
    }
    vc_result_free(cli.catalogue);
    named_passes_free(&cli.passes);
    named_types_free(&cli.named);
    free(cli.words);
    return rc;
}

const struct command command_shrink = {
    .name = "shrink",
    .usage = "(--fit GPU | --memory SIZE | --bytes SIZE | --ratio X | --max-loss SHARE) [--data FILE] [options] MODEL "
             "[-o OUTPUT]",
    .summary = "make a model as small as a limit asks, and prove the result",
    .text =
        "Tries candidates in a fixed order: types of 16 to 2 bits, and with --data removed units, zeros (npz) and 2:4 "
        "(--fit, where the GPU has kernels). Writes the candidate that loses least within the limits. Without data "
        "these "
        "are the first type of the list within the limits, and mixed types where their error of the weights is 3 dB "
        "less "
        "(--bytes, --ratio). With data the outputs decide: 60 % of the rows train, 20 % choose, and 20 % "
        "prove. The three best candidates, then the best of these, are trained towards the answers of MODEL, without "
        "labels. The output is read back, verified, judged on the rows to prove, and fitted to the GPU. If a limit is "
        "missed, nothing is written, and the exit status is 1. The recipe beside the output repeats the passes: "
        "vcompress run makes the same bytes.\n"
        "  vcompress shrink --bytes 200KiB -o small.npz digits.npz\n"
        "  vcompress shrink --fit 'RTX 4060' -o small llama/\n"
        "  vcompress shrink --ratio 20 --graph digits.layers.txt --data rows.npz \\\n"
        "    -o small.npz digits.npz",
    .first = "bytes ratio fit graph data labels max-loss output dry-run json",
    OPT_GROUPS(groups),
    .needs = "one MODEL",
    .one = true,
    .args = "FILE",
    .schema = "vcompress.shrink/1",
    .run = run_shrink,
};
