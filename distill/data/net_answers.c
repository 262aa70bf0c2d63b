/* net_answers.c - what a network is for, and what its answers are. See network.h.
 *
 *     a task is named     its loss, and the answers that it compares
 *     a loss is named     what it compares: classes, labels, values
 *     neither is          the task by config.json, y, and what makes the output
 *
 * Then y becomes what the task needs, or is refused with what each task would take. */
#include "distill/data/network.h"

#include "distill/math/step_math.h"
#include "graph/ops/ops.h"

/* ---- the graph ---- */

/* No position sees those behind it. */
static bool is_causal(const struct vc_graph *graph)
{
    for (uint32_t n = 0; n < vc_graph_node_count(graph); n++) {
        const struct vc_graph_node *node = vc_graph_node(graph, n);

        if (vc_node_is(node, VC_OP_attention) && vc_node_int(node, "is_causal", 0) != 0) {
            return true;
        }
    }
    return false;
}

/* A class for each row of a table that integers choose from: the tokens. Heads that say something else of each token
 * have other classes. A graph without such a table is believed to be about the next token. */
static bool classes_are_tokens(const struct vc_graph *graph, size_t n_classes)
{
    bool some = false;

    for (uint32_t n = 0; n < vc_graph_node_count(graph); n++) {
        const struct vc_graph_node *node = vc_graph_node(graph, n);
        const struct vc_graph_value *table;

        if (!vc_node_is(node, VC_OP_gather)) {
            continue;
        }
        table = vc_graph_value(graph, node->inputs[0]);
        if (table->param != VC_NO_PARAM && table->n_dims == 2) {
            some = true;
            if (vc_graph_dim_value(graph, table->shape[0]) == (int64_t)n_classes) {
                return true;
            }
        }
    }
    return !some;
}

/* ---- what it answers with ---- */

/* The output is probabilities of classes, or their logarithms. */
static bool is_shares(const struct vc_net *net)
{
    return net->found.function == VC_ANSWER_SOFTMAX || net->found.function == VC_ANSWER_LOGARITHM;
}

/* The numbers of the output for each row; 0: not known. */
static size_t row_elements(const struct vc_net *net)
{
    const struct vc_graph_value *output = vc_net_output(net);
    size_t n = 1;

    for (unsigned k = 1; k < output->n_dims; k++) {
        int64_t size = vc_graph_dim_value(net->network.graph, output->shape[k]);

        if (size < 1 || !vc_mul_size(n, (size_t)size, &n)) {
            return 0;
        }
    }
    return n;
}

/* y of floats may be classes, as arrays of one type are: whole numbers, one for each answer, where the output is not a
 * value that they could be. */
static enum vc_status take_whole_numbers(const struct vc_net *net, struct vc_rows *rows)
{
    const struct vc_graph_value *output = vc_net_output(net);
    size_t n = row_elements(net);
    size_t classes = is_shares(net) ? (size_t)net->found.classes.size
                     : net->found.single
                         ? 1
                         : (size_t)vc_graph_dim_value(net->network.graph, output->shape[output->n_dims - 1]);
    bool two = net->found.single && net->found.function == VC_ANSWER_SIGMOID;
    bool taken;

    if (rows->targets == NULL || (net->found.single && !two) || classes == 0 || n == 0 ||
        rows->target_width != n / classes) {
        return VC_OK;
    }
    return vc_rows_take_labels(rows, two ? 1 : (int64_t)classes - 1, &taken);
}

/* ---- the task ---- */

/* By what a task compares answers where no loss is named, and by what it can: logits of classes, logits of labels, values. */
static const struct task {
    enum vc_teacher_loss loss;
    bool compares[VC_OF_VALUES + 1];
} tasks[] = {
    [VC_NET_TASK_AUTO] = {VC_TEACHER_LOSS_AUTO, {true, true, true}},
    [VC_NET_TASK_CLASSES] = {VC_TEACHER_LOSS_KD, {true, false, true}},
    [VC_NET_TASK_TOKENS] = {VC_TEACHER_LOSS_KD, {true, false, true}},
    [VC_NET_TASK_LABELS] = {VC_TEACHER_LOSS_BCE, {false, true, true}},
    [VC_NET_TASK_REGRESSION] = {VC_TEACHER_LOSS_MSE, {false, false, true}},
    [VC_NET_TASK_MAPS] = {VC_TEACHER_LOSS_KD, {true, false, true}},
    [VC_NET_TASK_SPANS] = {VC_TEACHER_LOSS_KD, {true, false, true}},
    [VC_NET_TASK_EMBEDDINGS] = {VC_TEACHER_LOSS_COSINE, {false, false, true}},
};

/* Facts come from losses.inc, as all else that is known of a loss. */
const struct vc_teacher_loss_info *vc_teacher_loss_facts(enum vc_teacher_loss loss)
{
    static const struct vc_teacher_loss_info facts[] = {
#define VC_LOSS(KIND, word, OF, of_y, measure) [VC_TEACHER_LOSS_##KIND] = {#word, measure},
#include "distill/math/losses.inc"
#undef VC_LOSS
        [VC_TEACHER_LOSS_AUTO] = {"auto", NULL},
    };
    static const struct vc_teacher_loss_info unknown = {NULL, NULL};

    return (size_t)loss < sizeof facts / sizeof *facts ? &facts[loss] : &unknown;
}

/* All numbers of y are between 0 and 1; whole: 0 or 1. */
static bool are_shares(const struct vc_rows *rows, bool whole)
{
    uint64_t n = rows->n * (rows->targets != NULL ? rows->target_width : rows->label_width);
    bool fit = true;

    for (uint64_t i = 0; fit && i < n; i++) {
        double y = rows->targets != NULL ? rows->targets[i] : (double)rows->labels[i];

        fit = y >= 0 && y <= 1 && (!whole || y == floor(y));
    }
    return fit;
}

/* y has integers for each row, though all of them may say that there is no label. */
static bool has_integers(const struct vc_rows *rows)
{
    return rows->labels != NULL || (rows->has_labels && rows->targets == NULL);
}

/* The numbers of y for each row; 0: there is no y. */
static size_t y_width(const struct vc_rows *rows)
{
    return rows->targets != NULL ? rows->target_width : rows->labels != NULL ? rows->label_width : 0;
}

/* Several of many: y says yes or no for each of several numbers of the output, which no Softmax makes. */
static bool says_labels(const struct vc_net *net, const struct vc_rows *rows)
{
    size_t n = row_elements(net);

    return !is_shares(net) && net->found.function != VC_ANSWER_MIXED && n > 1 && y_width(rows) == n &&
           are_shares(rows, true) && (net->found.function == VC_ANSWER_SIGMOID || net->found.ending == NULL);
}

/* The places of an output that is [rows, classes, height, width], or has more dimensions; 0: it is not. */
static size_t places_of(const struct vc_net *net)
{
    const struct vc_graph_value *output = vc_net_output(net);
    int64_t classes = output->n_dims >= 4 ? vc_graph_dim_value(net->network.graph, output->shape[1]) : 0;

    return classes >= 2 && net->found.function == VC_ANSWER_NONE ? row_elements(net) / (size_t)classes : 0;
}

/* The numbers of the outputs for start and end, [rows, positions] each: those with such names, else the first two. False: there
 * are no two of one width. */
static bool find_ends(const struct vc_net *net, uint32_t ends[2], bool *named)
{
    static const char *const words[] = {"start", "end"};
    const struct vc_graph *graph = net->network.graph;
    uint32_t found[2] = {VC_NO_VALUE, VC_NO_VALUE};
    int64_t width[2];
    size_t n = 0;

    for (uint32_t k = 0; k < vc_graph_output_count(graph) && k < VC_GRAPH_ANSWERS; k++) {
        const struct vc_graph_value *value = vc_graph_value(graph, vc_graph_output(graph, k));

        if (value->dtype == VC_DTYPE_F32 && value->n_dims == 2 && vc_graph_dim_value(graph, value->shape[1]) > 1) {
            for (size_t e = 0; e < 2; e++) {
                found[e] = strncmp(value->name, words[e], strlen(words[e])) == 0 ? k : found[e];
            }
            if (n < 2) {
                ends[n++] = k;
            }
        }
    }
    *named = found[0] != VC_NO_VALUE && found[1] != VC_NO_VALUE;
    if (!*named && n < 2) {
        return false;
    }
    for (size_t e = 0; e < 2; e++) {
        ends[e] = *named ? found[e] : ends[e];
        width[e] = vc_graph_dim_value(graph, vc_graph_value(graph, vc_graph_output(graph, ends[e]))->shape[1]);
    }
    return width[0] == width[1];
}

/* An input has so many positions in each row. */
static bool is_long(const struct vc_graph *graph, int64_t positions)
{
    bool some = false;

    for (uint32_t k = 0; k < vc_graph_input_count(graph); k++) {
        const struct vc_graph_value *input = vc_graph_value(graph, vc_graph_input(graph, k));

        some = some || (input->n_dims > 1 && vc_graph_dim_value(graph, input->shape[1]) == positions);
    }
    return some;
}

/* Start and end, by the names of two outputs, or by two integers in y where the answers are as long as the rows. */
static bool says_spans(const struct vc_net *net, const struct vc_rows *rows)
{
    const struct vc_graph *graph = net->network.graph;
    const struct vc_graph_value *output = vc_net_output(net);
    bool two = has_integers(rows) && rows->label_width == 2;
    uint32_t ends[2];
    bool named;

    if (net->output == VC_NO_VALUE && find_ends(net, ends, &named)) {
        return named || (two && is_long(graph, vc_graph_dim_value(graph, output->shape[1])));
    }
    return two && output->n_dims == 3 && vc_graph_dim_value(graph, output->shape[2]) == 2 &&
           vc_graph_dim_value(graph, output->shape[1]) > 2 &&
           is_long(graph, vc_graph_dim_value(graph, output->shape[1]));
}

/* The task by "problem_type" of a config.json; AUTO: it says none. */
static enum vc_net_task task_of_config(const struct vc_net *net)
{
    static const struct {
        const char *word;
        enum vc_net_task task;
    } words[] = {{"regression", VC_NET_TASK_REGRESSION},
                 {"multi_label_classification", VC_NET_TASK_LABELS},
                 {"single_label_classification", VC_NET_TASK_CLASSES},
                 {"question_answering", VC_NET_TASK_SPANS}};
    const char *word = net->network.graph->problem_type;

    for (size_t k = 0; word != NULL && k < sizeof words / sizeof *words; k++) {
        if (strcmp(words[k].word, word) == 0) {
            return words[k].task;
        }
    }
    return VC_NET_TASK_AUTO;
}

/* Nobody named task or loss: evidence decides, or what the output is made by is refused. */
static enum vc_status find_task(struct vc_net *net, struct vc_rows *rows)
{
    const struct vc_graph_answer *found = &net->found;
    bool sigmoids = found->function == VC_ANSWER_SIGMOID && !found->single;

    net->task = task_of_config(net);
    if (net->task != VC_NET_TASK_AUTO) {
        return VC_OK;
    }
    if (says_spans(net, rows)) {
        net->task = VC_NET_TASK_SPANS;
        return VC_OK;
    }
    VC_CALL(take_whole_numbers(net, rows));
    if (has_integers(rows) && places_of(net) > 1) { /* another number of integers is refused with what maps take */
        net->task = VC_NET_TASK_MAPS;
        return VC_OK;
    }
    if (says_labels(net, rows) || (sigmoids && y_width(rows) == 0)) {
        net->task = VC_NET_TASK_LABELS;
    } else if (rows->targets != NULL || (found->single && found->function == VC_ANSWER_NONE)) {
        net->task = VC_NET_TASK_REGRESSION;
    } else {
        net->task = VC_NET_TASK_CLASSES;
    }
    VC_REFUSE_IF(net->task == VC_NET_TASK_CLASSES && found->ending != NULL &&
                     !(found->single && found->function == VC_ANSWER_SIGMOID),
                 net->ctx, VC_E_UNSUPPORTED,
                 "%s: the output %s does not look like logits of classes, but like values: it is made by %s; %s "
                 "mse compares values, cosine directions, kd takes them for logits all the same",
                 vc_net_file(net), vc_net_output(net)->name, found->ending, vc_option(net->ctx, "loss.kind"));
    return VC_OK;
}

/* Task and loss: what is named, what follows from the other, or what evidence says. Last: whether the two
 * fit. */
static enum vc_status decide(struct vc_net *net, struct vc_rows *rows)
{
    net->task = net->options.task;
    net->loss = net->options.loss;
    if (net->task == VC_NET_TASK_AUTO && net->loss == VC_TEACHER_LOSS_AUTO) {
        VC_CALL(find_task(net, rows));
    }
    if (net->task == VC_NET_TASK_AUTO) {
        switch (vc_loss_compares(net->loss)) {
        case VC_OF_CLASSES: /* of rows or positions, of the ends of a span, of places: four dimensions are nothing else */
            net->task = task_of_config(net) == VC_NET_TASK_SPANS || says_spans(net, rows) ? VC_NET_TASK_SPANS
                        : places_of(net) > 1                                              ? VC_NET_TASK_MAPS
                                                                                          : VC_NET_TASK_CLASSES;
            break;
        case VC_OF_LABELS:
            net->task = VC_NET_TASK_LABELS;
            break;
        default:
            net->task = net->loss == VC_TEACHER_LOSS_COSINE ? VC_NET_TASK_EMBEDDINGS : VC_NET_TASK_REGRESSION;
            break;
        }
    }
    if (net->loss == VC_TEACHER_LOSS_AUTO) {
        net->loss = tasks[net->task].loss;
    }
    return tasks[net->task].compares[vc_loss_compares(net->loss)]
               ? VC_OK
               : vc_fail(net->ctx, VC_E_ARGUMENT, "%s %s and %s %s: this loss is not one of this task",
                         vc_option(net->ctx, "net_task"), vc_word(VC_WORDS_NET_TASK, net->task),
                         vc_option(net->ctx, "loss.kind"), vc_teacher_loss_facts(net->loss)->word);
}

/* A softmax runs along another axis than that of the classes. */
static enum vc_status refuse_mixed(const struct vc_net *net)
{
    return vc_fail(net->ctx, VC_E_UNSUPPORTED,
                   "%s: the output %s is made by Softmax along an axis that is not one of classes in the output: "
                   "probabilities, where logits are needed; %s mse compares them as values",
                   vc_net_file(net), vc_net_output(net)->name, vc_option(net->ctx, "loss.kind"));
}

/* The output has a shape that nothing can be made of; the sentence shows it. */
static enum vc_status refuse_shape(const struct vc_net *net)
{
    const struct vc_graph *graph = net->network.graph;
    const struct vc_graph_value *output = vc_net_output(net);
    char text[64] = "";

    for (unsigned k = 0; k < output->n_dims && k < 4; k++) {
        char dim[16];
        size_t n = strlen(text);

        (void)snprintf(text + n, sizeof text - n, "%s%s", k != 0 ? ", " : "",
                       vc_graph_dim_text(graph, output->shape[k], dim, sizeof dim));
    }
    return vc_fail(net->ctx, VC_E_UNSUPPORTED,
                   "%s: the output %s is [%s]; what can be distilled is one row of logits for each row of data, "
                   "[batch, classes], or for each position of it, [batch, sequence, classes], with a number of "
                   "classes that the graph says, or with %s maps for each place, [batch, classes, height, width]; %s "
                   "mse compares the values of any output",
                   vc_net_file(net), output->name, text, vc_option(net->ctx, "net_task"),
                   vc_option(net->ctx, "loss.kind"));
}

/* Logits: what stands before Softmax and Sigmoid, or the output itself. */
static enum vc_status take_logits(struct vc_net *net)
{
    const struct vc_graph *graph = net->network.graph;
    const struct vc_graph_value *output = vc_net_output(net);
    bool plain = !is_shares(net) && !net->found.single;
    int64_t last = output->n_dims != 0 ? vc_graph_dim_value(graph, output->shape[output->n_dims - 1]) : 0;
    size_t n = row_elements(net);

    VC_RETURN_IF(net->found.function == VC_ANSWER_MIXED, refuse_mixed(net));
    if (n == 0 || (plain && (output->n_dims < 2 || output->n_dims > 3 || output->shape[output->n_dims - 1].size < 2))) {
        return refuse_shape(net);
    }
    net->answer = net->found.logits;
    net->n_classes = is_shares(net) ? (size_t)net->found.classes.size : net->found.single ? 2 : (size_t)last;
    net->positions = net->found.single ? n : n / net->n_classes;
    if (net->answer == net->found.value) {
        net->answers = VC_ANSWERS_LOGITS;
    } else if (net->found.function == VC_ANSWER_SOFTMAX) {
        net->answers = VC_ANSWERS_SOFTMAX;
    } else if (net->found.function == VC_ANSWER_LOGARITHM) {
        net->answers = VC_ANSWERS_LOGARITHM;
    } else if (net->found.function == VC_ANSWER_SIGMOID) {
        net->answers = VC_ANSWERS_SIGMOID;
    } else if (net->found.single) {
        net->answers = VC_ANSWERS_PAIR;
    } else {
        net->answers = VC_ANSWERS_LOGITS;
    }
    return VC_OK;
}

/* Values: of [batch, sequence, values] those of each position; else all of a row. */
static enum vc_status take_values(struct vc_net *net)
{
    const struct vc_graph_value *output = vc_net_output(net);
    size_t n = row_elements(net);

    VC_RETURN_IF(n == 0, refuse_shape(net));
    net->answer = net->found.value;
    net->positions = output->n_dims == 3 ? (size_t)vc_graph_dim_value(net->network.graph, output->shape[1]) : 1;
    net->n_classes = n / net->positions;
    net->answers = VC_ANSWERS_VALUES;
    return VC_OK;
}

/* Logits of yes and no: what stands before Sigmoid, or the output itself; of [batch, sequence, labels] those of each position. */
static enum vc_status take_labels(struct vc_net *net)
{
    size_t n = row_elements(net);

    VC_REFUSE_IF(is_shares(net) || net->found.function == VC_ANSWER_MIXED, net->ctx, VC_E_ARGUMENT,
                 "%s: the output %s is made by Softmax, which chooses one of many: %s labels needs an answer of its "
                 "own for each",
                 vc_net_file(net), vc_net_output(net)->name, vc_option(net->ctx, "net_task"));
    VC_RETURN_IF(n == 0, refuse_shape(net));
    net->answer = net->found.logits;
    net->positions = vc_net_output(net)->n_dims == 3
                         ? (size_t)vc_graph_dim_value(net->network.graph, vc_net_output(net)->shape[1])
                         : 1;
    net->n_classes = n / net->positions;
    net->answers = net->found.function == VC_ANSWER_SIGMOID ? VC_ANSWERS_SIGMOIDS : VC_ANSWERS_LOGITS;
    return VC_OK;
}

/* A class for each place: the classes go behind the places. */
static enum vc_status take_maps(struct vc_net *net)
{
    size_t places = places_of(net);

    VC_REFUSE_IF(places == 0, net->ctx, VC_E_ARGUMENT,
                 "%s: the output %s is no map, [rows, classes, height, width] of two classes and more",
                 vc_net_file(net), vc_net_output(net)->name);
    net->answer = vc_graph_answer_last(net->network.graph, &net->found, 1);
    VC_REFUSE_IF(net->answer == VC_NO_VALUE, net->ctx, VC_E_NOMEM, "not enough memory for the graph");
    net->positions = places;
    net->n_classes = row_elements(net) / places;
    net->answers = VC_ANSWERS_LOGITS;
    return VC_OK;
}

/* Start and end of a span as two rows of classes, the positions: the logits of two outputs side by side, or of one with the positions
 * behind. */
static enum vc_status take_spans(struct vc_net *net)
{
    struct vc_graph *graph = net->network.graph;
    const struct vc_graph_value *output = vc_net_output(net);
    uint32_t ends[2], values[2];
    bool named;

    if (net->output == VC_NO_VALUE && find_ends(net, ends, &named)) {
        for (size_t e = 2; e-- > 0;) { /* the first one last: sentences name it */
            VC_CALL(vc_graph_find_answer(net->ctx, graph, ends[e], false, &net->found));
            values[e] = net->found.logits;
        }
        net->answer = vc_graph_answer_join(graph, values, 2);
    } else if (output->n_dims == 3 && vc_graph_dim_value(graph, output->shape[2]) == 2) {
        net->answer = is_shares(net) ? net->found.logits : vc_graph_answer_last(graph, &net->found, 1);
    } else {
        return vc_fail(net->ctx, VC_E_ARGUMENT,
                       "%s: the output %s is no span: two outputs [rows, positions] are, for start and end, or one "
                       "[rows, positions, 2]",
                       vc_net_file(net), output->name);
    }
    VC_REFUSE_IF(net->answer == VC_NO_VALUE, net->ctx, VC_E_NOMEM, "not enough memory for the graph");
    net->positions = 2;
    net->n_classes = (size_t)vc_graph_dim_value(graph, vc_net_output(net)->shape[1]);
    net->answers = is_shares(net) ? VC_ANSWERS_SOFTMAX : VC_ANSWERS_LOGITS;
    return VC_OK;
}

/* ---- y ---- */

/* For sentences. */
static const char *plural(size_t n)
{
    return n == 1 ? "" : "s";
}

/* What was found, and what every task would take. */
static enum vc_status refuse_y(const struct vc_net *net, const struct vc_rows *rows)
{
    const char *path = rows->labels_model != NULL ? rows->labels_model->path : rows->model->path;
    bool two = net->answers == VC_ANSWERS_PAIR || net->answers == VC_ANSWERS_SIGMOID;
    size_t n = net->positions * (two ? 1 : net->n_classes);
    size_t most = two || net->n_classes == 1 ? 1 : net->n_classes - 1;

    return vc_fail(
        net->ctx, VC_E_ARGUMENT,
        "%s: %s has %zu %s%s for each row, which is not what %s %s takes; the answers of %s are %zu number%s for "
        "each row: classes, tokens and maps take %zu integer%s from 0 to %zu, labels %zu number%s from 0 to 1, "
        "regression and embeddings %zu float%s, spans 2 integers",
        path, net->output == VC_NO_VALUE ? "y" : vc_net_output(net)->name, y_width(rows),
        rows->targets != NULL ? "float" : "integer", plural(y_width(rows)), vc_option(net->ctx, "net_task"),
        vc_word(VC_WORDS_NET_TASK, net->task), vc_net_file(net), n, plural(n), net->positions, plural(net->positions),
        most, n, plural(n), n, plural(n));
}

/* y of yes and no. */
static enum vc_status fit_shares(const struct vc_net *net, struct vc_rows *rows)
{
    if (y_width(rows) == 0) {
        return VC_OK;
    }
    VC_RETURN_IF(y_width(rows) != net->positions * net->n_classes || !are_shares(rows, false), refuse_y(net, rows));
    return vc_rows_take_values(rows);
}

/* y of spans: start and end, which is not before it; those beyond the row are none, as a long text that was cut has
 * them. */
static enum vc_status fit_spans(const struct vc_net *net, struct vc_rows *rows)
{
    bool taken = true;

    if (rows->targets != NULL && rows->target_width == 2) {
        VC_CALL(vc_rows_take_labels(rows, INT32_MAX, &taken));
    }
    VC_RETURN_IF(y_width(rows) != 0 && (rows->labels == NULL || rows->label_width != 2), refuse_y(net, rows));
    for (uint64_t i = 0; rows->labels != NULL && i < rows->n; i++) {
        const int64_t *ends = &rows->labels[2 * i];

        VC_REFUSE_IF(ends[1] != VC_NO_LABEL && ends[1] < ends[0], rows->ctx, VC_E_ARGUMENT,
                     "%s: row %llu has a span from %lld to %lld, which ends before it starts",
                     rows->labels_model != NULL ? rows->labels_model->path : rows->model->path,
                     (unsigned long long)vc_rows_in_file(rows, i), (long long)ends[0], (long long)ends[1]);
    }
    vc_rows_leave_beyond(rows, (int64_t)net->n_classes - 1);
    return VC_OK;
}

/* y of values: floats; integers that are no classes of the outputs. */
static enum vc_status fit_values(const struct vc_net *net, struct vc_rows *rows)
{
    enum vc_net_task named = net->options.task;
    size_t n = net->positions * net->n_classes;
    bool values = named == VC_NET_TASK_REGRESSION || named == VC_NET_TASK_EMBEDDINGS;

    if (rows->labels != NULL && (values || net->n_classes == 1 || rows->label_width != net->positions)) {
        VC_RETURN_IF(rows->label_width != n, refuse_y(net, rows));
        VC_CALL(vc_rows_take_values(rows));
    }
    return rows->targets != NULL && rows->target_width != n ? refuse_y(net, rows) : VC_OK;
}

/* y as the task needs it, converted between integers and floats where that loses nothing; else a refusal
 * that lists what each task takes. */
enum vc_status vc_net_fit_labels(const struct vc_net *net, struct vc_rows *rows)
{
    if (net->task == VC_NET_TASK_LABELS) {
        return fit_shares(net, rows);
    }
    if (net->task == VC_NET_TASK_SPANS) {
        return fit_spans(net, rows);
    }
    if (net->answers == VC_ANSWERS_VALUES) {
        return fit_values(net, rows);
    }
    VC_CALL(take_whole_numbers(net, rows));
    return rows->targets != NULL || (rows->labels != NULL && rows->label_width != net->positions) ? refuse_y(net, rows)
                                                                                                  : VC_OK;
}

/* Of one class each: rows, positions of a sequence, places of a map. */
static enum vc_net_task task_of_classes(const struct vc_net *net)
{
    unsigned n_dims = vc_net_output(net)->n_dims;

    if (net->task == VC_NET_TASK_SPANS) {
        return VC_NET_TASK_SPANS;
    }
    if (net->task == VC_NET_TASK_MAPS || (n_dims >= 4 && net->positions > 1)) {
        return VC_NET_TASK_MAPS;
    }
    return n_dims == 3 ? VC_NET_TASK_TOKENS : VC_NET_TASK_CLASSES;
}

/* With y and answers the task is what both say. */
static enum vc_status settle(struct vc_net *net, const struct vc_rows *rows)
{
    bool classes = net->task != VC_NET_TASK_LABELS && (net->answers != VC_ANSWERS_VALUES || rows->labels != NULL);
    bool tokens = vc_net_output(net)->n_dims == 3;

    if (classes) {
        VC_REFUSE_IF(net->options.task == VC_NET_TASK_TOKENS && !tokens, net->ctx, VC_E_ARGUMENT,
                     "%s: the output %s has an answer for each row, and none for each position of it: %s classes",
                     vc_net_file(net), vc_net_output(net)->name, vc_option(net->ctx, "net_task"));
        net->task = task_of_classes(net);
    }
    net->y_loss = net->task == VC_NET_TASK_LABELS ? VC_TEACHER_LOSS_BCE : net->loss;
    return VC_OK;
}

/* ---- what the student learns from, and is judged by ---- */

/* First what the output is made by, then the task, then the value whose elements are the answers, then y. */
enum vc_status vc_net_find_answer(struct vc_net *net, struct vc_rows *rows)
{
    struct vc_graph *graph = net->network.graph;
    enum vc_status status = vc_graph_find_answer(net->ctx, graph, net->output, false, &net->found);
    bool classes, values;

    if (status != VC_OK) {
        return vc_context(net->ctx, "%s", vc_net_file(net));
    }
    VC_CALL(decide(net, rows));
    classes = vc_loss_compares(net->loss) == VC_OF_CLASSES;
    values = net->options.task == VC_NET_TASK_REGRESSION || net->options.task == VC_NET_TASK_EMBEDDINGS;
    if (classes && net->found.single) {
        VC_CALL(vc_graph_find_answer(net->ctx, graph, net->output, true, &net->found));
    }
    if (net->task == VC_NET_TASK_LABELS) {
        VC_CALL(take_labels(net));
    } else if (net->task == VC_NET_TASK_SPANS) {
        VC_CALL(take_spans(net));
    } else if (net->task == VC_NET_TASK_MAPS && !is_shares(net)) {
        VC_CALL(take_maps(net));
    } else if (classes || (is_shares(net) && !values)) {
        VC_CALL(take_logits(net));
    } else {
        VC_CALL(take_values(net));
    }
    net->next = net->task != VC_NET_TASK_LABELS && net->task != VC_NET_TASK_SPANS && vc_net_output(net)->n_dims == 3 &&
                is_causal(graph) && classes_are_tokens(graph, net->n_classes);
    VC_CALL(vc_net_fit_labels(net, rows));
    return settle(net, rows);
}

/* The number of an output by its name. */
static enum vc_status find_output(struct vc_net *head, const char *name)
{
    const struct vc_graph *graph = head->network.graph;
    uint32_t count = vc_graph_output_count(graph);
    char names[512] = "";
    size_t at = 0;

    for (head->output = 0; head->output < count && head->output < VC_GRAPH_ANSWERS; head->output++) {
        const char *is = vc_graph_value(graph, vc_graph_output(graph, head->output))->name;

        if (strcmp(is, name) == 0) {
            return VC_OK;
        }
        at += at < sizeof names ? (size_t)snprintf(names + at, sizeof names - at, "%s%s", at != 0 ? ", " : "", is) : 0;
    }
    return vc_fail(head->ctx, VC_E_ARGUMENT, "%s: the graph has no output %s; its outputs are %s%s", vc_net_file(head),
                   name, names, head->output < count || at >= sizeof names ? ", ..." : "");
}

const char *vc_net_outputs_text(const struct vc_net *net, struct vc_arena *arena)
{
    const char *text = "";

    for (size_t k = 0; text != NULL && k < net->n_heads; k++) {
        const struct vc_net *head = &net->heads[k];
        char positions[32] = "";

        if (head->positions != 1) {
            (void)snprintf(positions, sizeof positions, "%zux", head->positions);
        }
        text = vc_arena_printf(net->ctx, arena, "%s%s%s %s%zu", text, k != 0 ? ", " : "", vc_net_output(head)->name,
                               positions, head->n_classes);
    }
    return text;
}

/* Of several outputs each finds its own answers; side by side they are the values of one. */
enum vc_status vc_net_find_heads(struct vc_net *net, struct vc_rows *rows)
{
    uint32_t values[VC_MOST_OUTPUTS];
    size_t width = 0;

    VC_REFUSE_IF(net->options.loss != VC_TEACHER_LOSS_AUTO && strcmp(net->options.role, "teacher") != 0, net->ctx,
                 VC_E_ARGUMENT, "%s is for one output; of several each has the loss of its task",
                 vc_option(net->ctx, "loss.kind"));
    VC_REFUSE_IF(net->options.task != VC_NET_TASK_AUTO && strcmp(net->options.role, "teacher") != 0, net->ctx,
                 VC_E_ARGUMENT, "%s is for one output; of several each is named: OUTPUT=TASK",
                 vc_option(net->ctx, "net_task"));
    VC_CALL(VC_ZEROS(net->ctx, VC_TAG_MISC, net->heads, rows->n_outputs));
    for (size_t k = 0; k < rows->n_outputs; k++) {
        struct vc_net *head = &net->heads[k];
        const char *name = rows->outputs[k].task.output;

        for (size_t i = 0; i < k; i++) {
            VC_REFUSE_IF(strcmp(rows->outputs[i].task.output, name) == 0, net->ctx, VC_E_ARGUMENT,
                         "%s: the output %s has two tasks", vc_option(net->ctx, "net_task"), name);
        }
        *head = *net;
        head->heads = NULL;
        head->n_heads = 0;
        head->offset = width;
        head->options.task = rows->outputs[k].task.task;
        head->options.loss = VC_TEACHER_LOSS_AUTO;
        VC_CALL(find_output(head, name));
        VC_CALL(vc_net_find_answer(head, rows->outputs[k].rows));
        values[k] = head->answer;
        width += head->positions * head->n_classes;
        net->n_heads++;
    }
    net->answer = vc_graph_answer_join(net->network.graph, values, (unsigned)net->n_heads);
    VC_REFUSE_IF(net->answer == VC_NO_VALUE, net->ctx, VC_E_NOMEM, "not enough memory for the graph");
    net->found = net->heads[0].found;
    net->task = VC_NET_TASK_REGRESSION;
    net->loss = net->y_loss = VC_TEACHER_LOSS_MSE;
    net->answers = VC_ANSWERS_VALUES;
    net->positions = 1;
    net->n_classes = width;
    return VC_OK;
}
