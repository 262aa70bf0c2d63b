/* by_layer.c - what single layers take: the figures of an estimate, as they are counted, by the modules that weights
 * and nodes belong to.
 *
 *     node      weight "encoder.layer.0.output.dense.weight"   row "encoder.layer.0.output.dense"
 *     node      no weight, block "encoder.layer.0.attention"   row "encoder.layer.0.attention"
 *     weights that no node reads                               rows of their own, behind these
 *     what is divided or rounded as a whole, no tensor         row "(other)", the last one */

#include "memory/by_layer.h"

#define OTHER "(other)"

/* What the caller gets, with its memory. */
struct owned {
    struct vc_memory_layers layers; /* first: what the caller sees */
    struct vc_layer_table table;
};

/* ---- rows ---- */

/* The rows as a list of names, for the table of hashes. */
static struct vc_name_list names_of(const struct vc_layer_table *t)
{
    return VC_NAME_LIST(t->rows, sizeof *t->rows);
}

/* The row of that name, which may be a new one; NULL: no memory. */
static struct vc_memory_layer *row_of(struct vc_layer_table *t, const char *name, size_t length)
{
    size_t at = vc_name_table_find(&t->names, names_of(t), name, length);

    if (at == SIZE_MAX && t->n < t->capacity) {
        at = t->n;
        t->rows[at] = (struct vc_memory_layer){.name = vc_arena_copy(t->ctx, &t->arena, name, length)};
        if (t->rows[at].name == NULL) {
            at = SIZE_MAX;
        } else {
            t->n++;
            (void)vc_name_table_add(&t->names, names_of(t), at);
        }
    }
    t->failed = t->failed || at == SIZE_MAX;
    return at == SIZE_MAX ? NULL : &t->rows[at];
}

/* The number of that column. */
static uint64_t *cell(struct vc_memory_layer *row, enum vc_layer_column column)
{
    uint64_t *const cells[] = {&row->n_params, &row->weight_bytes, &row->activation_bytes, &row->output_bytes};

    return cells[column];
}

/* Nothing where nobody asks for layers: the estimate calls this either way. */
static void add_to_row(struct vc_estimate *e, const char *name, size_t length, enum vc_layer_column column,
                       uint64_t amount)
{
    struct vc_memory_layer *row = e->layers != NULL ? row_of(e->layers, name, length) : NULL;

    if (row != NULL) {
        *cell(row, column) = vc_estimate_sum(e, *cell(row, column), amount);
    }
}

/* The module of "encoder.layer.0.output.dense.weight" is what stands before the last dot. */
void vc_layers_add_tensor(struct vc_estimate *e, const char *tensor, enum vc_layer_column column, uint64_t amount)
{
    const char *dot = strrchr(tensor, '.');

    add_to_row(e, tensor, dot == NULL || dot == tensor ? strlen(tensor) : (size_t)(dot - tensor), column, amount);
}

/* ---- nodes ---- */

/* The parameter that is a value; NULL if it is not one. */
static const struct vc_graph_param *param_of(const struct vc_estimate *e, uint32_t v)
{
    uint32_t k = v != VC_NO_VALUE && vc_graph_value(e->graph, v)->kind == VC_VALUE_PARAMETER ? e->layers->param_of[v]
                                                                                             : VC_NO_PARAM;

    return k == VC_NO_PARAM ? NULL : vc_graph_param(e->graph, k);
}

/* "adapters" for weights that the graph does not have. */
const char *vc_layers_tensor(const struct vc_estimate *e, uint32_t value)
{
    const struct vc_graph_param *param = e->layers != NULL ? param_of(e, value) : NULL;

    return e->layers == NULL ? "" : param == NULL ? "adapters" : param->tensor;
}

/* A node belongs to the module of its weight; without one to its block, its name, or its operator. */
static void add_of_node(struct vc_estimate *e, uint32_t n, enum vc_layer_column column, uint64_t amount)
{
    const struct vc_graph_node *node = n == VC_NO_NODE ? NULL : vc_graph_node(e->graph, n);
    const char *name;

    for (unsigned k = 0; node != NULL && k < node->n_inputs; k++) {
        const struct vc_graph_param *param = param_of(e, node->inputs[k]);

        if (param != NULL) {
            vc_layers_add_tensor(e, param->tensor, column, amount);
            return;
        }
    }
    if (node == NULL) {
        name = "the loss";
    } else if (*node->block != '\0') {
        name = node->block;
    } else {
        name = *node->name != '\0' ? node->name : node->op;
    }
    add_to_row(e, name, strlen(name), column, amount);
}

/* Rows in the order of the nodes, with what these compute. */
void vc_layers_begin(struct vc_estimate *e)
{
    struct vc_layer_table *t = e->layers;

    if (t == NULL) {
        return;
    }
    for (uint32_t v = 0; v < e->storages.n_values; v++) {
        t->param_of[v] = VC_NO_PARAM;
    }
    for (uint32_t k = 0; k < vc_graph_param_count(e->graph); k++) {
        t->param_of[vc_graph_param(e->graph, k)->value] = k;
    }
    for (uint32_t n = 0; n < e->storages.n_nodes && e->storages.unknown == NULL; n++) {
        const struct vc_graph_node *node = vc_graph_node(e->graph, n);
        uint64_t bytes = 0;

        if (e->storages.idle[n]) {
            continue;
        }
        for (unsigned k = 0; k < node->n_outputs; k++) {
            uint32_t v = node->outputs[k];

            bytes = vc_estimate_sum(e, bytes, v != VC_NO_VALUE && e->storages.root[v] == v ? e->storages.bytes[v] : 0);
        }
        add_of_node(e, n, VC_LAYER_OUTPUT, bytes);
    }
}

/* Buffers that live at that step, by the node that has made them. in_flight / of: parts of a batch that are under
 * way. */
void vc_layers_activations(struct vc_estimate *e, uint64_t step, uint64_t in_flight, uint64_t of)
{
    const struct vc_timeline *t = &e->timeline;
    bool trains = vc_estimate_trains(e);

    for (size_t k = 0; e->layers != NULL && k < t->n; k++) {
        uint64_t bytes = t->buffers[k].size_bytes;
        bool counts = trains ? t->kinds[k] == VC_MEMORY_ACTIVATIONS : t->kinds[k] != VC_MEMORY_INPUTS;

        if (!counts || step < t->buffers[k].first || step > t->buffers[k].last ||
            (!trains && t->maker[k] == VC_NO_NODE)) { /* weights as floats are another component */
            continue;
        }
        if (!trains) {
            (void)vc_round_up_u64(bytes, e->align, &bytes);
        }
        add_of_node(e, t->maker[k], VC_LAYER_ACTIVATIONS, vc_estimate_product(e, bytes, in_flight) / of);
    }
}

/* ---- the end ---- */

/* floor(a * b / c), for b <= c < 2^62. */
static uint64_t scaled(uint64_t a, uint64_t b, uint64_t c)
{
    uint64_t quotient = 0;
    uint64_t rest = 0;

    for (unsigned k = 64; k-- > 0;) {
        rest = 2 * rest + ((a >> k & 1) != 0 ? b : 0);
        quotient = 2 * quotient + rest / c;
        rest %= c;
    }
    return quotient;
}

/* The rows' sum becomes the whole: what is divided between devices makes every row smaller, and the rest of it, or what
 * belongs to no row, is the last one's. */
static void settle(struct vc_layer_table *t, enum vc_layer_column column, uint64_t whole)
{
    uint64_t sum = 0;
    uint64_t left = 0;

    for (size_t k = 0; k < t->n; k++) {
        sum += *cell(&t->rows[k], column);
    }
    for (size_t k = 0; k < t->n; k++) {
        uint64_t *bytes = cell(&t->rows[k], column);

        *bytes = sum > whole ? scaled(*bytes, whole, sum) : *bytes;
        left += *bytes;
    }
    if (left < whole) {
        struct vc_memory_layer *other = row_of(t, OTHER, strlen(OTHER));
        if (other != NULL) {
            *cell(other, column) += whole - left;
        }
    }
}

/* The estimate runs once more, with a table that it adds to. What it rounds or divides as a whole is settled at the
 * end. */
static enum vc_status make(struct vc_estimate *e, struct owned *owned, unsigned stage)
{
    struct vc_layer_table *t = &owned->table;
    const struct vc_memory_part *c = e->out->components;
    size_t n = e->model != NULL ? vc_model_facts(e->model)->n_tensors : 0;
    size_t n_values = e->graph != NULL ? vc_graph_value_count(e->graph) : 0;

    n += e->graph != NULL ? (size_t)vc_graph_node_count(e->graph) + vc_graph_param_count(e->graph) : 0;
    t->capacity = n + 4;
    VC_CALL(VC_ARRAY(t->ctx, VC_TAG_REPORT, t->rows, t->capacity));
    VC_CALL(VC_ARRAY(t->ctx, VC_TAG_REPORT, t->param_of, n_values + 1));
    VC_CALL(vc_name_table_make(t->ctx, t->capacity, &t->names));
    e->layers = t;
    VC_CALL(vc_estimate_run(e, stage));
    settle(t, VC_LAYER_PARAMS, e->out->n_params);
    settle(t, VC_LAYER_WEIGHTS, c[VC_MEMORY_PARAMETERS].bytes);
    settle(t, VC_LAYER_ACTIVATIONS, c[VC_MEMORY_ACTIVATIONS].bytes);
    owned->layers.n = t->n;
    owned->layers.layers = t->rows;
    return t->failed ? VC_E_NOMEM : VC_OK;
}

static void end(void *result)
{
    struct vc_layer_table *t = &((struct owned *)result)->table;

    vc_name_table_release(t->ctx, &t->names);
    vc_free(t->ctx, t->param_of);
    vc_free(t->ctx, t->rows);
    vc_arena_release(t->ctx, &t->arena);
}

/* The first run tells which stage of a pipeline needs most; layers are those of that stage. */
enum vc_status vc_memory_layers_make(struct vc_ctx *ctx, const struct vc_graph *graph, const struct vc_model *model,
                                     const struct vc_memory_options *options, struct vc_memory_layers **out)
{
    struct vc_memory_report report;
    struct vc_estimate e = {.ctx = ctx, .graph = graph, .model = model, .out = &report};
    struct owned *owned = NULL;
    unsigned stage;
    enum vc_status status;

    *out = NULL;
    VC_TRY(vc_memory_estimate(ctx, graph, model, options, &report));
    stage = report.stage;
    report = (struct vc_memory_report){.peak_at = "", .eager_at = ""};
    VC_TRY(VC_RESULT(ctx, VC_TAG_REPORT, owned, end));
    owned->table.ctx = ctx;
    VC_TRY(vc_estimate_begin(&e, options));
    VC_TRY(make(&e, owned, stage - 1));
    *out = &owned->layers;
    owned = NULL;
out:
    vc_result_free(owned);
    return status;
}
