/* network.c - see network.h.
 *
 *     vc_net_open      which array is which input; which value is the answer; the list of weights
 *     vc_net_load      their values
 *     vc_net_engine    a program for a number of rows, made at its first use and kept
 *     vc_net_attach    memory for all programs, which run one at a time and share it
 *     vc_net_forward   rows into the inputs, and the program once
 */
#include "distill/data/network.h"

#include "core/model/names.h"
#include "core/text/glob.h"
#include "graph/ops/ops.h"

/* ---- weights ---- */

/* What graphs read as they read tables and what is learned all the same: added, joined, or multiplied element by element. */
#define LEARNED                                                                                               \
    "*pos_embed* *position_embed* *_token *_tokens *query* *queries* *gamma* *lambda* *layer_scale* *.ls1.* " \
    "*.ls2.* *.logit_scale *.weight *.bias"

/* Slopes of PRelu are learned whatever their names are. */
static bool is_slope(const struct vc_graph *graph, uint32_t value)
{
    for (uint32_t k = 0; k < vc_graph_node_count(graph); k++) {
        const struct vc_graph_node *node = vc_graph_node(graph, k);

        if (vc_node_is(node, VC_OP_prelu) && node->inputs[1] == value) {
            return true;
        }
    }
    return false;
}

/* The tensor of that name; NULL if the model has none, or is NULL. */
static const struct vc_tensor *tensor_of(const struct vc_model *model, const char *name)
{
    size_t index = model == NULL ? VC_NO_TENSOR : vc_model_find(model, name);

    return index == VC_NO_TENSOR ? NULL : vc_model_tensor(model, index);
}

/* A table that is only read, as positions of a fixed formula are, is not trained; the names above are
 * tables that are learned. A checkpoint's names say what is no weight (core/model/name_use.c), an ONNX file's readers,
 * also those of a file that is the graph of a checkpoint. */
bool vc_net_is_table(const struct vc_net *net, const struct vc_graph_param *param)
{
    const struct vc_tensor *t = tensor_of(net->network.weights, param->tensor);
    const struct vc_tensor *read = t != NULL ? tensor_of(net->network.beside, param->tensor) : NULL;
    const char *reason;

    return t != NULL && (t->use == VC_USE_TABLE || (read != NULL && read->use == VC_USE_TABLE)) &&
           (vc_name_use(t->name, t->n_dims, t->shape, &reason) == VC_USE_TABLE ||
            (!vc_glob_any(LEARNED, t->name) && !is_slope(net->network.graph, param->value)));
}

/* True for a parameter that --freeze names, one that the student's checkpoint does not have, or a table. */
static bool is_frozen(const struct vc_net *net, const struct vc_graph_param *param)
{
    for (size_t k = 0; k < net->options.n_freeze; k++) {
        if (vc_glob_match(net->options.freeze[k], param->tensor)) {
            return true;
        }
    }
    /* What only the graph's own file has is not the student's. */
    return (net->network.beside != NULL && !param->from_weights) || vc_net_is_table(net, param);
}

/* A pattern that matches no tensor is a mistake of whoever wrote it. */
static enum vc_status check_freeze(const struct vc_net *net)
{
    for (size_t k = 0; k < net->options.n_freeze; k++) {
        bool used = false;

        for (size_t i = 0; i < net->weights->n && !used; i++) {
            used = vc_glob_match(net->options.freeze[k], net->weights->items[i].name);
        }
        VC_REFUSE_IF(!used, net->ctx, VC_E_ARGUMENT, "%s: '%s' matches no tensor of the %s",
                     vc_option(net->ctx, "trained.freeze"), net->options.freeze[k], net->options.role);
    }
    return VC_OK;
}

/* Counts the nodes that read each of the weights. */
static void count_readers(const struct vc_net *net, uint32_t *n_readers)
{
    const struct vc_graph *graph = net->network.graph;

    for (uint32_t n = 0; n < vc_graph_node_count(graph); n++) {
        const struct vc_graph_node *node = vc_graph_node(graph, n);

        for (unsigned k = 0; k < node->n_inputs; k++) {
            uint32_t v = node->inputs[k];
            uint32_t param = v != VC_NO_VALUE ? vc_graph_value(graph, v)->param : VC_NO_PARAM;

            n_readers[param != VC_NO_PARAM ? net->weights->of_param[param] : net->weights->n]++;
        }
    }
}

#define MOST_UNIFORM (1 << 20) /* elements of a tensor that is looked at */

/* All elements of the tensor are the same number; false also of very large ones. */
static enum vc_status is_uniform(const struct vc_net *net, size_t index, bool *uniform)
{
    size_t n = (size_t)vc_model_tensor(net->network.weights, index)->n_elems;
    VC_SCOPED float *values = NULL;
    size_t i = 1;

    *uniform = false;
    if (n > MOST_UNIFORM) {
        return VC_OK;
    }
    VC_CALL_ALLOC(values = vc_alloc_array(net->ctx, VC_TAG_TILES, n + 1, sizeof *values));
    VC_CALL(vc_tensor_read_f32(net->ctx, net->network.weights, index, values, n));
    while (i < n && memcmp(&values[i], values, sizeof *values) == 0) {
        i++;
    }
    *uniform = i >= n;
    return VC_OK;
}

/* PyTorch's newer exporter keeps equal tensors once and drops the other names. The scales of two norms of a new network,
 * which are all 1, are then one tensor that two nodes read. *name: the first such tensor of an ONNX file; NULL: none.
 * Weights that several nodes share on purpose are seldom all the same number. */
static enum vc_status find_kept_once(const struct vc_net *net, const char **name)
{
    const struct vc_model *model = net->network.weights;
    const struct vc_weights *w = net->weights;
    VC_SCOPED uint32_t *n_readers = NULL;

    *name = NULL;
    if (net->network.beside != NULL || strcmp(vc_model_facts(model)->format, "onnx") != 0) {
        return VC_OK;
    }
    VC_CALL(VC_ZEROS(net->ctx, VC_TAG_MISC, n_readers, w->n + 1));
    count_readers(net, n_readers);
    for (size_t k = 0; *name == NULL && k < w->n; k++) {
        const struct vc_weight *item = &w->items[k];
        size_t index = vc_model_find(model, item->name);
        bool asked = n_readers[k] > 1 && item->trained && item->n > 1 && index != VC_NO_TENSOR;
        bool uniform = false;

        if (asked && vc_model_tensor(model, index)->n_elems == item->n) {
            VC_CALL(is_uniform(net, index, &uniform));
        }
        *name = uniform ? item->name : NULL;
    }
    return VC_OK;
}

/* A tensor with several names may be several tensors that were equal when the file was made; one that is read as a
 * statistic and as a weight has been two. Evaluation changes neither. */
static enum vc_status check_names(const struct vc_net *net)
{
    static const char hint[] =
        "its exporter keeps equal tensors once, and they would be trained as one; export it for training "
        "(torch.onnx.export with optimize=False, or dynamo=False, training=TrainingMode.TRAINING, "
        "do_constant_folding=False)";
    const struct vc_graph *graph = net->network.graph;
    const struct vc_graph_param *first = NULL;
    const char *once = NULL;
    uint32_t n = 0;

    for (uint32_t k = 0; net->options.train && k < vc_graph_param_count(graph); k++) {
        const struct vc_graph_param *param = vc_graph_param(graph, k);
        const struct vc_weight *item = &net->weights->items[net->weights->of_param[k]];
        bool moves = item->statistic && !net->options.frozen_norm;

        VC_REFUSE_IF(item->mixed, net->ctx, VC_E_UNSUPPORTED,
                     "%s: %s is a running mean or variance in the graph, and another weight: %s", vc_net_file(net),
                     param->tensor, hint);
        if (param->n_also != 0 && (item->trained || moves) && !net->options.allow_tied) {
            first = n == 0 ? param : first;
            n++;
        }
    }
    VC_REFUSE_IF(
        n != 0, net->ctx, VC_E_UNSUPPORTED,
        "%s: %s is also %s in the graph, which has %u tensor%s with several names: %s, or, where they are meant "
        "to be one, %s",
        vc_net_file(net), first->tensor, first->also, n, n == 1 ? "" : "s", hint,
        vc_option(net->ctx, "trained.allow_tied"));
    if (net->options.train && !net->options.allow_tied) {
        VC_CALL(find_kept_once(net, &once));
    }
    VC_REFUSE_IF(
        once != NULL, net->ctx, VC_E_UNSUPPORTED,
        "%s: several nodes read %s, whose elements are all the same number, as in a new network: %s, or, where "
        "they are meant to be one, %s",
        vc_net_file(net), once, hint, vc_option(net->ctx, "trained.allow_tied"));
    return VC_OK;
}

/* The list of weights, with what is trained. Those that neither the answer nor a kept value reads are left
 * out of training. */
static enum vc_status make_weights(struct vc_net *net)
{
    uint32_t n = vc_graph_param_count(net->network.graph);
    size_t n_read = net->options.n_kept + 1;
    VC_SCOPED uint32_t *read = vc_alloc_array(net->ctx, VC_TAG_MISC, n_read, sizeof *read);
    VC_SCOPED bool *frozen = vc_calloc_array(net->ctx, VC_TAG_MISC, n + (size_t)1, sizeof *frozen);

    VC_CALL_ALLOC(read);
    VC_CALL_ALLOC(frozen);
    read[0] = net->answer;
    for (size_t k = 1; k < n_read; k++) {
        read[k] = net->options.kept[k - 1];
    }
    for (uint32_t k = 0; k < n; k++) {
        frozen[k] = is_frozen(net, vc_graph_param(net->network.graph, k));
    }
    VC_CALL(vc_weights_make(net->ctx, net->network.graph, net->options.precision, net->options.train, frozen,
                            &net->weights));
    VC_CALL(check_freeze(net));
    VC_CALL(vc_weights_leave_unread(net->weights, read, n_read));
    return check_names(net);
}

/* The view binds sizes of the graph to those of the rows; the answer and the weights follow from that. */
enum vc_status vc_net_open(struct vc_ctx *ctx, const struct vc_network *network, const struct vc_net_options *options,
                           struct vc_rows *rows, struct vc_rows_view *view, struct vc_net *net)
{
    *net = (struct vc_net){.ctx = ctx, .network = *network, .options = *options, .output = VC_NO_VALUE};
    VC_REFUSE_IF(network->graph == NULL || network->weights == NULL, ctx, VC_E_ARGUMENT, "there is no %s",
                 options->role);
    VC_CALL(vc_rows_view_make(rows, network->graph, view, &net->batch, &net->fixed));
    if (rows->n_outputs != 0) {
        VC_CALL(vc_net_find_heads(net, rows));
    } else {
        VC_CALL(vc_net_find_answer(net, rows));
    }
    return make_weights(net);
}

/* May be called again: values are read anew into the same memory. */
enum vc_status vc_net_load(struct vc_net *net)
{
    const struct vc_network *n = &net->network;

    if (net->weights->data_block == NULL) {
        VC_CALL(vc_weights_allocate(net->weights));
    }
    /* A graph that was built with other weights reads its parameters from there, and the rest from its own file. */
    return vc_weights_load(net->weights, n->beside != NULL ? n->beside : n->weights, n->weights);
}

void vc_net_drop_engines(struct vc_net *net)
{
    for (size_t k = 0; k < net->n_engines; k++) {
        vc_engine_free(net->engines[k].engine);
    }
    net->n_engines = 0;
}

void vc_net_close(struct vc_net *net)
{
    vc_net_drop_engines(net);
    vc_weights_free(net->weights);
    if (net->heads != NULL) {
        vc_free(net->ctx, net->heads);
    }
}

/* ---- programs ---- */

/* What it computes is an answer to each of so many rows, whatever the graph does with the size of the batch. */
static enum vc_status check_rows(const struct vc_net *net, const struct vc_engine *engine, uint64_t rows)
{
    const struct vc_graph *graph = net->network.graph;
    const struct vc_engine_value *out = vc_engine_output(engine, 0);
    const struct vc_graph_value *value = vc_graph_value(graph, out->value);
    char text[128];

    if ((out->shape[0] == (int64_t)rows || out->value != net->found.value) &&
        out->n == rows * net->positions * net->n_classes) {
        return VC_OK;
    }
    return vc_fail(net->ctx, VC_E_UNSUPPORTED,
                   "%s: the output %s has %lld rows (%s) of %llu numbers for %llu rows of data, which need %zu numbers "
                   "each; a graph that was exported with a size of its own for the batch computes with that as %s",
                   vc_net_file(net), value->name, (long long)out->shape[0],
                   vc_graph_dim_text(graph, value->shape[0], text, sizeof text),
                   (unsigned long long)(out->shape[0] > 0 ? out->n / (uint64_t)out->shape[0] : 0),
                   (unsigned long long)rows, net->positions * net->n_classes, vc_option(net->ctx, "batch"));
}

/* The first sizes of all inputs, whatever they are called. */
static enum vc_status bind_rows(const struct vc_net *net, uint64_t rows)
{
    struct vc_graph *graph = net->network.graph;

    for (uint32_t k = 0; k < vc_graph_input_count(graph); k++) {
        const char *symbol = vc_rows_symbol(graph, vc_graph_value(graph, vc_graph_input(graph, k)));

        if (symbol != NULL) {
            VC_CALL(vc_graph_bind(net->ctx, graph, symbol, (int64_t)rows));
        }
    }
    return VC_OK;
}

/* The first size of the output is that of the rows by what it is made of: a number that happens to be equal, as the
 * length of the sequences may be, is not. Of a graph that was exported with a size of its own the number has to do. */
static enum vc_status check_first(const struct vc_net *net, uint64_t rows)
{
    const struct vc_graph *graph = net->network.graph;
    const struct vc_graph_value *output = vc_net_output(net);
    struct vc_dim behind = output->n_dims > 1 ? output->shape[1] : (struct vc_dim){.size = 1};
    int64_t first = vc_graph_dim_value(graph, output->shape[0]);
    int64_t second = vc_graph_dim_value(graph, behind);
    char text[128];

    VC_CALL(bind_rows(net, rows + 1));
    bool follows = vc_graph_dim_value(graph, behind) == second &&
                   (output->shape[0].size >= 0 || vc_graph_dim_value(graph, output->shape[0]) != first);
    VC_CALL(bind_rows(net, rows));
    VC_REFUSE_IF(!follows, net->ctx, VC_E_UNSUPPORTED,
                 "%s: the output %s is [%s, ...]: the first size, and no other, has to be the rows of the data, as in "
                 "[batch, classes] and [batch, sequence, classes]",
                 vc_net_file(net), output->name, vc_graph_dim_text(graph, output->shape[0], text, sizeof text));
    return VC_OK;
}

/* A program for so many rows. Its inputs are bound first, then what it would compute is checked: an answer
 * for each row. */
static enum vc_status make_engine(struct vc_net *net, uint64_t rows, bool train, struct vc_engine **out)
{
    const struct vc_engine_options options = {.train = train,
                                              .dropout = train,
                                              .seed = net->options.seed,
                                              .n_outputs = 1,
                                              .outputs = &net->answer,
                                              .rounding = train ? net->options.rounding : VC_UNARY_COPY,
                                              .n_kept = train == net->options.train ? net->options.n_kept : 0,
                                              .kept = net->options.kept,
                                              .frozen_norm = net->options.frozen_norm,
                                              .recompute = net->options.recompute,
                                              .recompute_every = net->options.recompute_every,
                                              .budget_bytes = net->options.budget_bytes,
                                              .device = net->options.device};
    enum vc_status status = VC_OK;

    VC_REFUSE_IF(net->batch == NULL && net->fixed != (int64_t)rows, net->ctx, VC_E_ARGUMENT,
                 "%s: its graph computes %lld rows at a time and no others: %s %lld, and a number of rows that "
                 "is a multiple of it",
                 vc_net_file(net), (long long)net->fixed, vc_option(net->ctx, "batch"), (long long)net->fixed);
    VC_CALL(bind_rows(net, rows));
    if (net->batch != NULL) {
        VC_CALL(check_first(net, rows));
    }
    status = vc_engine_make(net->ctx, net->network.graph, net->weights, &options, out);
    if (status != VC_OK) {
        return vc_context(net->ctx, "%s", vc_net_file(net));
    }
    status = check_rows(net, *out, rows);
    if (status != VC_OK) {
        vc_engine_free(*out);
        *out = NULL;
    }
    return status;
}

/* A training run has at most a few numbers of rows: full batches, the last one, and evaluation. */
enum vc_status vc_net_engine(struct vc_net *net, uint64_t rows, bool train, struct vc_engine **out)
{
    for (size_t k = 0; k < net->n_engines; k++) {
        if (net->engines[k].rows == rows && net->engines[k].train == train) {
            *out = net->engines[k].engine;
            return VC_OK;
        }
    }
    VC_REFUSE_IF(net->n_engines == VC_NETWORK_SIZES, net->ctx, VC_E_INTERNAL,
                 "%s: a network with more than %d numbers of rows", vc_net_file(net), VC_NETWORK_SIZES);
    VC_CALL(make_engine(net, rows, train, out));
    net->engines[net->n_engines++] = (struct vc_net_engine){.rows = rows, .train = train, .engine = *out};
    return VC_OK;
}

/* Of the program that needs the most memory. */
void vc_net_bytes(const struct vc_net *net, uint64_t *arena, uint64_t *least, uint64_t *naive)
{
    for (size_t k = 0; k < net->n_engines; k++) {
        const struct vc_engine *engine = net->engines[k].engine;

        if (vc_engine_bytes(engine) > *arena) {
            *arena = vc_engine_bytes(engine);
            *least = vc_engine_least_bytes(engine);
            *naive = vc_engine_naive_bytes(engine);
        }
    }
}

/* Of the training program with the most rows: what is computed again, and the forward pass. */
void vc_net_macs(const struct vc_net *net, uint64_t *again, uint64_t *forward)
{
    uint64_t most = 0;

    *again = *forward = 0;
    for (size_t k = 0; k < net->n_engines; k++) {
        if (net->engines[k].train && net->engines[k].rows > most) {
            most = net->engines[k].rows;
            vc_engine_recomputed(net->engines[k].engine, again, forward);
        }
    }
}

/* Of the programs that do not train. */
uint64_t vc_net_forward_bytes(const struct vc_net *net)
{
    uint64_t most = 0;

    for (size_t k = 0; k < net->n_engines; k++) {
        most = net->engines[k].train ? most : vc_max_u64(most, vc_engine_bytes(net->engines[k].engine));
    }
    return most;
}

/* Batch normalization whose statistics move in training. */
bool vc_net_has_batch_norm(const struct vc_net *net)
{
    const struct vc_graph *graph = net->network.graph;
    bool has = false;

    for (uint32_t n = 0; graph != NULL && n < vc_graph_node_count(graph); n++) {
        has = has || vc_node_is(vc_graph_node(graph, n), VC_OP_batch_norm);
    }
    return has && !net->options.frozen_norm;
}

/* Gives all programs the same memory. */
enum vc_status vc_net_attach(struct vc_net *net, void *memory, void *arena)
{
    for (size_t k = 0; k < net->n_engines; k++) {
        if (net->options.device != NULL) {
            VC_CALL(vc_engine_attach_device(net->engines[k].engine, memory, arena));
        } else {
            vc_engine_attach(net->engines[k].engine, memory);
        }
    }
    return VC_OK;
}

/* What programs on a device need in memory of the host. */
uint64_t vc_net_host_bytes(const struct vc_net *net)
{
    uint64_t most = 0;

    for (size_t k = 0; k < net->n_engines; k++) {
        most = vc_max_u64(most, vc_engine_host_bytes(net->engines[k].engine));
    }
    return most;
}

/* What programs have allocated for themselves. */
uint64_t vc_net_own_bytes(const struct vc_net *net)
{
    uint64_t sum = 0;

    for (size_t k = 0; k < net->n_engines; k++) {
        sum += vc_engine_own_bytes(net->engines[k].engine);
    }
    return sum;
}

/* The input of the engine for that value of the graph; NULL: nothing that it computes reads it. */
static const struct vc_engine_value *input_of(const struct vc_engine *engine, uint32_t value)
{
    for (size_t k = 0; k < vc_engine_input_count(engine); k++) {
        const struct vc_engine_value *input = vc_engine_input(engine, k);

        if (input->value == value) {
            return input->data != NULL ? input : NULL;
        }
    }
    return NULL;
}

/* Rows as the view has them into the input of a program, which was made for sizes of its own. */
static enum vc_status read_rows(const struct vc_net *net, const struct vc_rows_view *view, size_t k,
                                const uint64_t *numbers, size_t n, const struct vc_engine_value *input)
{
    const struct vc_rows_input *from = &view->inputs[k];

    VC_REFUSE_IF(input->n != (uint64_t)n * from->n_elems, net->ctx, VC_E_ARGUMENT,
                 "%s: %zu rows of %s have %zu numbers each, and its graph is computed with %llu numbers in all: "
                 "all rows need the same sizes, and %s the size that the graph was exported for",
                 vc_net_file(net), n, from->name, from->n_elems, (unsigned long long)input->n,
                 vc_option(net->ctx, "batch"));
    VC_CALL(vc_rows_read(view, k, numbers, n, net->options.precision == VC_GRAPH_F64, input->data));
    return vc_rows_turn(view, k, n, net->options.precision == VC_GRAPH_F64, input->data);
}

/* All numbers of a row are from 0 to 1 and add up to 1. */
static bool adds_up(const struct vc_net *net, const void *answers, size_t row)
{
    bool f64 = net->options.precision == VC_GRAPH_F64;
    double sum = 0;

    for (size_t c = 0; c < net->n_classes; c++) {
        size_t at = row * net->n_classes + c;
        double x = f64 ? ((const double *)answers)[at] : (double)((const float *)answers)[at];

        if (!(x >= -1e-6 && x <= 1 + 1e-6)) {
            return false;
        }
        sum += x;
    }
    return sum > 0.999 && sum < 1.001;
}

/* Shares whose Softmax was not found are no logits: the first rows tell. */
static enum vc_status look_at_answers(struct vc_net *net, const struct vc_engine_value *logits, size_t n)
{
    bool shares = !net->looked && net->answers == VC_ANSWERS_LOGITS && net->options.loss == VC_TEACHER_LOSS_AUTO;

    net->looked = true;
    for (size_t r = 0; shares && r < n * net->positions; r++) {
        shares = adds_up(net, logits->data, r);
    }
    return shares ? vc_fail(net->ctx, VC_E_UNSUPPORTED,
                            "%s: the numbers of the output %s are from 0 to 1 and add up to 1 in every row: "
                            "probabilities, where logits are needed, and what makes them is no Softmax that is known; "
                            "%s mse compares them as values",
                            vc_net_file(net), vc_net_output(net)->name, vc_option(net->ctx, "loss.kind"))
                  : VC_OK;
}

/* An input that nothing reads is not filled. `numbers` are those of the rows in the data. */
enum vc_status vc_net_forward(struct vc_net *net, struct vc_engine *engine, const struct vc_rows_view *view,
                              const uint64_t *numbers, size_t n, const struct vc_engine_pass *pass,
                              const struct vc_engine_value **logits)
{
    enum vc_status status = VC_OK;

    for (size_t k = 0; k < view->n; k++) {
        const struct vc_engine_value *input = input_of(engine, view->inputs[k].value);

        if (input != NULL) {
            VC_CALL(read_rows(net, view, k, numbers, n, input));
        }
    }
    status = vc_engine_forward(engine, pass);
    if (status == VC_E_ARGUMENT) { /* a token, or another index, that the network does not have */
        (void)vc_context(net->ctx, "%s", view->rows->model->path);
    }
    VC_CALL(status);
    *logits = vc_engine_output(engine, 0);
    return look_at_answers(net, *logits, n);
}
