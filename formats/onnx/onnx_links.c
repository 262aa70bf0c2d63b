/* onnx_links.c - makes the tensors of the model from initializers and the nodes that belong to them (onnx_patterns.c):
 * names, scales, output channels. The last step of opening a file. */

#include "formats/onnx/onnx.h"

static enum vc_dtype dtype_of(const struct onnx_tensor *tensor)
{
    return vc_onnx_types[tensor->type].dtype;
}

/* ---- tensors of the model ---- */

/* The tensor has this way to its name now, and the nodes on it belong to it alone. */
static void join(struct onnx *self, const struct onnx_tensor *tensor, const struct onnx_link *way)
{
    struct onnx_link *link = &self->links[tensor->index];
    size_t number = link->tensor;

    *link = *way;
    link->tensor = number;
    for (size_t k = 0; k < way->n_nodes; k++) {
        self->nodes[way->node[k]].taken = true;
    }
}

/* Scales get the shape that all formats here have for them: [1], [1, .., channels, .., 1] or [rows, groups]. The values
 * are the same. */
static enum vc_status shape_scale(struct vc_ctx *ctx, struct onnx *self, const struct vc_tensor *t,
                                  const struct vc_quant *quant, struct vc_tensor *scale)
{
    unsigned n_dims = quant->granularity == VC_GRANULARITY_TENSOR  ? 1
                      : quant->granularity == VC_GRANULARITY_GROUP ? 2
                                                                   : t->n_dims; /* a matrix has blocks */
    uint64_t *shape = vc_arena_alloc(ctx, &self->arena, n_dims * sizeof *shape);

    VC_CALL_ALLOC(shape);
    for (unsigned d = 0; d < n_dims; d++) {
        shape[d] = quant->granularity == VC_GRANULARITY_CHANNEL && d == quant->axis ? t->shape[d] : 1;
    }
    if (quant->granularity == VC_GRANULARITY_GROUP || quant->granularity == VC_GRANULARITY_BLOCK) {
        shape[0] =
            quant->granularity == VC_GRANULARITY_GROUP ? t->shape[0] : vc_ceil_div_u64(t->shape[0], quant->group_rows);
        shape[1] = scale->n_elems / shape[0];
    }
    scale->shape = shape;
    scale->n_dims = n_dims;
    return VC_OK;
}

/* A tensor that the model has in another form than the file: it is read whole, front to back. */
static enum vc_status show(struct vc_ctx *ctx, struct onnx *self, struct vc_model *model,
                           const struct onnx_tensor *tensor)
{
    const struct onnx_view *view = &tensor->view;
    struct vc_tensor *t = &model->tensors[tensor->index];
    uint64_t *shape;

    if (view->bits == 0) {
        return VC_OK;
    }
    t->dtype = view->shown == 4 ? VC_DTYPE_I4 : view->shown == 8 ? VC_DTYPE_I8 : t->dtype;
    t->n_elems = view->n_rows * view->row;
    t->size_bytes = vc_onnx_view_shown_bytes(view);
    model->io[tensor->index].sequential = true;
    if (view->matrix) {
        VC_CALL_ALLOC(shape = vc_arena_alloc(ctx, &self->arena, 2 * sizeof *shape));
        shape[0] = view->n_rows;
        shape[1] = view->row;
        t->n_dims = 2;
        t->shape = shape;
    }
    return VC_OK;
}

/* The codes' tensor becomes a quantized one: `quant` with its parts, which become parts of it. */
static enum vc_status attach(struct vc_ctx *ctx, struct onnx *self, struct vc_model *model,
                             const struct onnx_quantized *q, struct vc_quant *quant)
{
    struct vc_tensor *t = &model->tensors[q->codes->index];

    VC_CALL(show(ctx, self, model, q->codes));
    VC_CALL(show(ctx, self, model, q->scale));
    if (q->zero != NULL) {
        VC_CALL(show(ctx, self, model, q->zero));
    }
    *quant = q->quant;
    quant->source_dtype = vc_onnx_types[q->link.type].dtype;
    vc_quant_set(quant, VC_PART_SCALE, q->scale->index);
    if (q->zero != NULL) {
        vc_quant_set(quant, VC_PART_ZERO_POINT, q->zero->index);
    }
    t->quant = quant;
    for (unsigned i = 0; i < quant->n_parts; i++) {
        model->tensors[quant->parts[i].tensor].part_of = q->codes->index;
        VC_CALL(shape_scale(ctx, self, t, quant, &model->tensors[quant->parts[i].tensor]));
    }
    return VC_OK;
}

/* Looks at every node that was kept whether it ends a quantized tensor. */
static enum vc_status find_quantized(struct onnx_reader *r, struct vc_model *model)
{
    struct vc_ctx *ctx = r->ctx;
    struct onnx *self = r->self;
    size_t n_quants = 0;

    VC_CALL_ALLOC(model->quants = vc_calloc_array(ctx, VC_TAG_NAMES, self->n_nodes, sizeof *model->quants));
    for (size_t i = 0; i < self->n_nodes; i++) {
        struct onnx_quantized q;

        bool nbits = vc_onnx_find_nbits(self, i, &q);

        if (nbits || vc_onnx_find_quantized(self, i, &q)) {
            if (nbits) {
                VC_CALL(vc_onnx_join_nbits(r, i, &q));
            }
            join(self, q.codes, &q.link);
            VC_CALL(attach(ctx, self, model, &q, &model->quants[n_quants++]));
        }
    }
    return VC_OK;
}

/* Tensors that only a Cast makes wider get its output's name. */
static void find_casts(struct onnx *self)
{
    for (size_t i = 0; i < self->n_nodes; i++) {
        const struct onnx_node *node = &self->nodes[i];
        const struct onnx_tensor *tensor = vc_onnx_find_cast(self, i);

        if (tensor != NULL) {
            const struct onnx_link way = {.name = node->out, .n_nodes = 1, .node = {i}, .type = (uint32_t)node->to};

            join(self, tensor, &way);
        }
    }
}

/* ---- channel axes ---- */

/* The axis that consumers of the tensor agree on, of a set; n_dims: they say nothing. VC_NO_INPUTS: they disagree. */
static unsigned axis_of_set(unsigned set, unsigned n_dims)
{
    const unsigned axes[] = {0, 1, n_dims - 1, n_dims - 2};
    unsigned found = n_dims;

    for (unsigned i = 0; n_dims >= 2 && i < 4; i++) {
        if ((set >> i & 1) != 0) {
            if (found != n_dims && found != axes[i]) {
                return VC_NO_INPUTS;
            }
            found = axes[i];
        }
    }
    return (set & ONNX_AXIS_OTHER) != 0 ? VC_NO_INPUTS : found;
}

/* Where consumers disagree about the outputs, or say nothing, axis 0. */
static void take_axes(const struct onnx_symbol *symbol, struct vc_tensor *t)
{
    unsigned output = axis_of_set(symbol->axes, t->n_dims);
    unsigned inputs = axis_of_set(symbol->inputs, t->n_dims);

    t->channel_axis = output < t->n_dims ? output : 0;
    t->inputs = inputs == VC_NO_INPUTS ? VC_NO_INPUTS : inputs < t->n_dims ? inputs + 1 : 0;
    t->inputs_reason = inputs == VC_NO_INPUTS ? "no single axis is what its operators sum over" : NULL;
}

/* The tensor as far as its own header tells. */
static void fill_tensor(struct onnx *self, size_t number, struct vc_tensor *t, struct vc_tensor_io *io)
{
    const struct onnx_tensor *tensor = &self->tensors[number];

    *t = (struct vc_tensor){.name = tensor->name,
                            .dtype = dtype_of(tensor),
                            .n_dims = tensor->n_dims,
                            .shape = tensor->dims,
                            .n_elems = tensor->n_elems,
                            .size_bytes = tensor->n_bytes,
                            .file_bytes = tensor->field.n,
                            .part_of = VC_NO_TENSOR,
                            .alias_of = VC_NO_TENSOR};
    t->file_bytes += tensor->place == ONNX_PLACE_EXTERNAL ? tensor->n_bytes : 0;
    io->sequential = tensor->place == ONNX_PLACE_NUMBERS;
    io->raw_bytes = tensor->place == ONNX_PLACE_EXTERNAL ? tensor->n_bytes : tensor->message.n;
    self->links[tensor->index] = (struct onnx_link){.tensor = number, .name = tensor->symbol, .type = tensor->type};
}

/* Equal names stay in the order of the file. */
static int by_name(const void *a, const void *b)
{
    const struct vc_tensor *const *x = a;
    const struct vc_tensor *const *y = b;

    return VC_FIRST_ORDER(strcmp((*x)->name, (*y)->name), VC_ORDER(*x, *y));
}

/* Renames those inside nodes that share their name with another tensor: the path of their graph comes in front or, if
 * that was not enough because two nodes have one name, a number behind. `names` has room for all of them. */
static enum vc_status rename_inner(struct vc_ctx *ctx, struct onnx *self, struct vc_model *model,
                                   struct vc_tensor **order, const char **names, bool numbered)
{
    size_t number = 0;

    qsort(order, model->n_tensors, sizeof(struct vc_tensor *), by_name);
    for (size_t i = 0; i < model->n_tensors; i++) {
        bool again = i > 0 && strcmp(order[i]->name, order[i - 1]->name) == 0;
        bool twice = again || (i + 1 < model->n_tensors && strcmp(order[i]->name, order[i + 1]->name) == 0);
        size_t index = (size_t)(order[i] - model->tensors);
        const char *path = self->tensors[self->links[index].tensor].path;

        number = again ? number + 1 : 1;
        if (twice && path != NULL && (!numbered || again)) {
            names[index] = numbered ? vc_arena_printf(ctx, &self->arena, "%s.%zu", order[i]->name, number)
                                    : vc_arena_printf(ctx, &self->arena, "%s/%s", path, order[i]->name);
            VC_CALL_ALLOC(names[index]);
        }
    }
    for (size_t i = 0; i < model->n_tensors; i++) {
        model->tensors[i].name = names[i];
    }
    return VC_OK;
}

/* Tensors of inner graphs may have names of the main graph; they get others, first with the path of their graph, then
 * with numbers. */
static enum vc_status make_names_unique(struct vc_ctx *ctx, struct onnx *self, struct vc_model *model)
{
    VC_SCOPED struct vc_tensor **order = NULL;
    VC_SCOPED const char **names = NULL;

    if (self->n_graphs == 0) {
        return VC_OK; /* names of one graph differ */
    }
    VC_CALL_ALLOC(order = vc_alloc_array(ctx, VC_TAG_NAMES, model->n_tensors, sizeof(struct vc_tensor *)));
    VC_CALL_ALLOC(names = vc_alloc_array(ctx, VC_TAG_NAMES, model->n_tensors, sizeof *names));
    for (size_t i = 0; i < model->n_tensors; i++) {
        order[i] = &model->tensors[i];
        names[i] = model->tensors[i].name;
    }
    VC_CALL(rename_inner(ctx, self, model, order, names, false));
    return rename_inner(ctx, self, model, order, names, true);
}

/* What is known only now: names, axes, and who reads them. */
static enum vc_status finish_tensors(struct onnx_reader *r, struct vc_model *model)
{
    for (size_t i = 0; i < model->n_tensors; i++) {
        const struct onnx_symbol *symbol = &r->self->symbols.list[r->self->links[i].name];

        model->tensors[i].name = symbol->name;
        take_axes(symbol, &model->tensors[i]);
        VC_CALL(vc_onnx_take_use(r, symbol, &model->tensors[i]));
    }
    return VC_OK;
}

/* The Transpose that makes the second input of a product, where that is all that is made of its matrix. */
static size_t turn_before(const struct onnx *self, const struct onnx_node *node)
{
    const struct onnx_symbol *turned = &self->symbols.list[node->in[1]];
    const struct onnx_node *turn = turned->maker != ONNX_NONE ? &self->nodes[turned->maker] : NULL;

    if (turn == NULL || turn->op != ONNX_OP_TURN || node->op == ONNX_OP_NBITS || turn->graph != node->graph ||
        turned->n_made != 1 || turned->pinned) {
        return ONNX_NONE;
    }
    const struct onnx_symbol *matrix = &self->symbols.list[vc_onnx_symbol_meant(&self->symbols, turn->in[0])];
    return matrix->n_uses == 1 && matrix->graph == node->graph ? turned->maker : ONNX_NONE;
}

/* Names of nodes are those of the graph that makes the value, which learns the products by it. A node that reads a
 * value of a graph around its own is not counted as a reader of that tensor: it may run many times, or never. */
static void settle_nodes(struct onnx *self)
{
    for (size_t i = 0; i < self->n_nodes; i++) {
        struct onnx_node *node = &self->nodes[i];

        for (size_t k = 0; k < ONNX_NODE_INPUTS; k++) {
            node->in[k] = vc_onnx_symbol_meant(&self->symbols, node->in[k]);
            node->odd |= node->in[k] != ONNX_NONE && self->symbols.list[node->in[k]].graph != node->graph;
        }
        node->next = ONNX_NONE;
        if (node->op >= ONNX_OP_MATMUL && node->in[1] != ONNX_NONE) {
            node->turn = turn_before(self, node);
            size_t from = node->turn == ONNX_NONE ? node->in[1]
                                                  : vc_onnx_symbol_meant(&self->symbols, self->nodes[node->turn].in[0]);
            node->next = self->symbols.list[from].factor_of;
            self->symbols.list[from].factor_of = i;
        }
    }
}

/* What can be shown as a tensor. An initializer of a graph inside a node that is an input of it as well is the default
 * of a value that the node brings: it stays what it is. */
static bool is_shown(const struct onnx *self, const struct onnx_tensor *tensor)
{
    return dtype_of(tensor) != VC_DTYPE_RAW &&
           (tensor->graph == ONNX_MAIN || !self->symbols.list[tensor->symbol].graph_input);
}

/* Quantized tensors are found before plain Casts, which may be the end of one. */
enum vc_status vc_onnx_make_tensors(struct onnx_reader *r, struct vc_model *model)
{
    struct onnx *self = r->self;
    size_t n = self->n_tensors;

    VC_CALL_ALLOC(model->tensors = vc_calloc_array(r->ctx, VC_TAG_NAMES, n, sizeof *model->tensors));
    VC_CALL_ALLOC(model->io = vc_calloc_array(r->ctx, VC_TAG_NAMES, n, sizeof *model->io));
    VC_CALL_ALLOC(self->links = vc_calloc_array(r->ctx, VC_TAG_NAMES, n, sizeof *self->links));
    for (size_t i = 0; i < n; i++) {
        if (is_shown(self, &self->tensors[i])) {
            size_t index = model->n_tensors++;

            self->tensors[i].index = index;
            fill_tensor(self, i, &model->tensors[index], &model->io[index]);
        }
    }
    settle_nodes(self);
    VC_CALL(vc_onnx_settle_uses(r));
    VC_CALL(find_quantized(r, model));
    find_casts(self);
    VC_CALL(finish_tensors(r, model));
    return make_names_unique(r->ctx, self, model);
}
