/* cmd_evaluate.c - vcompress evaluate: how well a network answers, computed from the file as it is stored, with decoded
 * weights. The library runs the network (vc_evaluate); here are the options, a line of text, and the gate. */
#include <math.h>
#include <string.h>

#include "tools/commands/commands.h"
#include "tools/convert/distill_nets.h"
#include "tools/options/distill_words.h"
#include "tools/show/print_answers.h"
#include "tools/show/print_graph.h"

/* The options of the command: networks, rows, and limits of the figures. */
struct evaluate_cli {
    struct nets_cli nets;                /* first */
    struct vc_evaluate_options evaluate; /* what vc_evaluate gets */
    double min_accuracy;                 /* --min-accuracy; 0: no gate */
    struct vc_metric_limits limits;      /* gates by other figures */
};

/* The task, the arithmetic, the gate. */
/* clang-format off */
static const struct opt evaluate_opts[] = {
    {.name = "batch", .value = "N", .kind = OPT_COUNT, OPT_FIELD(struct evaluate_cli, evaluate.batch),
     .help = "rows computed at a time (default 64)"},
    {.name = "temperature", .value = "T", .kind = OPT_REAL, OPT_FIELD(struct evaluate_cli, evaluate.temperature),
     .needs = "teacher", .help = "that the divergence from the teacher is measured at (default 2)"},
    TASK_ROWS(struct evaluate_cli, evaluate.net_task, evaluate.loss),
    HUBER_ROW(struct evaluate_cli, evaluate.huber_delta),
    {.name = "precision", OPT_WORDS({"f32", VC_GRAPH_F32}, {"f64", VC_GRAPH_F64}), OPT_FIELD(struct evaluate_cli, evaluate.precision),
     .help = "of the arithmetic (default f32)"},
    {.name = "min-accuracy", .value = "SHARE", .kind = OPT_REAL, .gate = true, .field = offsetof(struct evaluate_cli, min_accuracy),
     .help = "gate: exit 1 when fewer of the labelled rows are answered rightly, such as 0.95"},
    METRIC_ROWS(struct evaluate_cli, limits, "exit 1"),
};
/* clang-format on */
static const struct opt_group group_evaluate = OPT_GROUP("Evaluation", evaluate_opts);
static const struct opt_group *const groups[] = {&group_teacher, &group_rows,   &group_evaluate,
                                                 &group_gates,   &group_known,  &group_run,
                                                 &group_json,    &group_report, &group_help};

/* The document, with the sentence of a missed gate or NULL. GO_ON or a status. */
static int print_json(struct app *app, const struct vc_evaluate_options *o, const struct vc_quality *q,
                      const char *missed)
{
    char *text = NULL;
    enum vc_status status = vc_document_json(
        app->ctx, &(struct vc_document){.kind = VC_DOCUMENT_EVALUATE, .of = q, .evaluate = o, .missed = missed}, &text);
    int rc = status == VC_OK ? json_print(app, text) : app_fail(app, status);

    vc_text_free(text);
    return rc;
}

/* "limits.min_r2" as the option "--min-r2". */
static const char *option_of(const char *field, char *text, size_t n)
{
    snprintf(text, n, "--%s", strchr(field, '.') + 1);
    for (char *at = text; *at != '\0'; at++) {
        *at = *at == '_' ? '-' : *at;
    }
    return text;
}

/* *missed: the gate that is, in `text`. GO_ON, or the status of a gate that these rows have no figure for. */
static int check_gates(struct app *app, const struct evaluate_cli *cli, const struct vc_quality *q, char *text,
                       size_t n, bool *missed)
{
    struct vc_metric_miss miss;
    char option[32];

    if (cli->min_accuracy > 0 && isnan(q->accuracy)) {
        return app_usage(app, "--min-accuracy: these rows have no labels of classes, which accuracy is measured by");
    }
    *missed = cli->min_accuracy > 0 && !(q->accuracy >= cli->min_accuracy);
    snprintf(text, n, "accuracy %.4f is below --min-accuracy %g", q->accuracy, cli->min_accuracy);
    if (!*missed && vc_metric_missed(q, &cli->limits, &miss)) {
        if (isnan(miss.value)) {
            return app_usage(app, "%s: these rows have no %s%s%s", option_of(miss.field, option, sizeof option),
                             vc_word(VC_WORDS_METRIC, miss.metric), q->undefined != NULL ? ": " : "",
                             q->undefined != NULL ? q->undefined : "");
        }
        *missed = true;
        snprintf(text, n, "%s %.4g is %s %s %g", vc_word(VC_WORDS_METRIC, miss.metric), miss.value,
                 miss.value < miss.limit ? "below" : "above", option_of(miss.field, option, sizeof option), miss.limit);
    }
    return GO_ON;
}

/* Runs the network, prints, judges. The report is printed before a missed gate ends the command. Returns the exit
 * status. */
static int evaluate(struct app *app, struct evaluate_cli *cli, const struct net *net, const struct net *teacher)
{
    struct vc_evaluate_options *o = &cli->evaluate;
    struct vc_quality quality;
    struct vc_quality parts[VC_MOST_OUTPUTS];
    enum vc_status status;
    char text[128];
    bool missed;
    int rc = GO_ON;

    o->network = net_of(net);
    o->teacher = net_of(teacher);
    o->data = &cli->nets.data;
    o->parts = parts;
    app->subject = NULL; /* sentences name the file that they are about */
    progress_begin(app);
    status = vc_evaluate(app->ctx, o, &quality);
    progress_end();
    if (status != VC_OK) {
        return app_fail(app, status);
    }
    rc = check_gates(app, cli, &quality, text, sizeof text, &missed);
    if (rc != GO_ON) {
        return rc;
    }
    app->subject = app->parsed.args[0];
    if (app->json.on) {
        rc = print_json(app, o, &quality, missed ? text : NULL);
    }
    if (app_prints(app)) {
        print_quality(app, &quality, o->network.graph);
        print_answers(app, &quality, o->network.graph);
        print_graph_notes(&app->out, o->network.graph);
    }
    app_print_memory(app);
    return rc != GO_ON ? rc : missed ? app_gate(app, text) : EXIT_YES;
}

/* Refuses options that change nothing beside the others. GO_ON or a status. */
static int check_effects(struct app *app, const struct evaluate_cli *cli)
{
    if (options_seen(&app->parsed, "teacher-graph") && cli->nets.teacher == NULL) {
        return app_usage(app, "--teacher-graph works with --teacher only");
    }
    if (options_seen(&app->parsed, "temperature") && options_seen(&app->parsed, "loss") &&
        !loss_has_temperature(cli->evaluate.loss)) {
        return app_usage(app, "--temperature belongs to the divergence from the teacher (--loss kd, reverse, js, bce): "
                              "here it would change nothing");
    }
    return GO_ON;
}

/* The networks are opened after the context; without a graph of its own each tries the other's file. */
static int run_evaluate(struct app *app, int n_args, char **args)
{
    struct evaluate_cli cli;
    struct net net = {.graph = NULL};
    struct net teacher = {.graph = NULL};
    int rc;

    memset(&cli, 0, sizeof cli);
    vc_evaluate_defaults(&cli.evaluate);
    vc_data_defaults(&cli.nets.data);
    rc = app_parse(app, n_args, args, &cli);
    if (rc == GO_ON && (app->parsed.n_args != 1 || cli.nets.data.path == NULL)) {
        rc = app_usage(app, "evaluate needs one MODEL and --data FILE; see vcompress evaluate --help");
    }
    rc = rc == GO_ON ? check_effects(app, &cli) : rc;
    rc = rc == GO_ON ? app_open(app) : rc;
    rc = rc == GO_ON ? json_check(app) : rc;
    rc = rc == GO_ON ? app_check_gate(app, "min-accuracy", cli.min_accuracy) : rc;
    /* a network without a graph borrows that of the teacher, and the teacher that of the network */
    rc = rc == GO_ON ? net_open(app, app->parsed.args[0], cli.nets.graph, cli.nets.teacher, &net) : rc;
    if (rc == GO_ON && cli.nets.teacher != NULL) {
        rc = net_open(app, cli.nets.teacher, cli.nets.teacher_graph,
                      cli.nets.graph != NULL ? cli.nets.graph : app->parsed.args[0], &teacher);
    }
    rc = rc == GO_ON ? evaluate(app, &cli, &net, &teacher) : rc;
    net_close(&net);
    net_close(&teacher);
    return rc;
}

const struct command command_evaluate = {
    .name = "evaluate",
    .usage = "--data FILE [--teacher FILE] [--graph FILE] [options] MODEL",
    .summary = "tell how well a network answers",
    .text = "Runs the network on every row of the data, with decoded weights, and counts the rows whose largest logit "
            "is at the label, and at the teacher's largest logit. If y has floats, outputs are values: squared error, "
            "R2 and mean absolute error; if it has 0 or 1 for each output, these are labels: F1.\n"
            "  vcompress evaluate --graph digits.layers.txt --data images.npz \\\n"
            "    --array y=test_labels model.int8.npz",
    .first = "graph data labels teacher length batch min-accuracy json",
    OPT_GROUPS(groups),
    .args = "FILE",
    .schema = "vcompress.evaluate/1",
    .run = run_evaluate,
};
