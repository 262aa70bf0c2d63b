/* onnx_links.c - how initializers reach the graph, and the tensors of the model that follow from it.
 *
 *     codes, scale, zero point -> DequantizeLinear -> name          a quantized tensor called `name`
 *     codes, scale, zero point -> DequantizeLinear -> Cast -> name  ... whose weights were not f32
 *     f16 or bf16 -> Cast -> name                                   a tensor of f16 or bf16 called `name`
 *
 * Only where all of it belongs to this one tensor. What is used elsewhere as well, or means something else, stays what
 * the file calls it: a plain initializer under its own name. */
#include <string.h>

#include "core/checked.h"
#include "formats/onnx.h"

/* ---- patterns ---- */

/* The initializer behind an input that nothing else uses, or NULL. */
static struct onnx_tensor *own_tensor(const struct onnx *self, size_t symbol)
{
    const struct onnx_symbol *s = symbol != ONNX_NONE ? &self->symbols.list[symbol] : NULL;

    return s != NULL && s->tensor != ONNX_NONE && s->n_uses == 1 && s->n_made == 0 && !s->pinned
               ? &self->tensors[s->tensor]
               : NULL;
}

static enum vc_dtype dtype_of(const struct onnx_tensor *tensor)
{
    return onnx_types[tensor->type].dtype;
}

static bool is_float_type(int64_t type)
{
    return type > 0 && type < ONNX_N_TYPES && vc_dtype_is_float(onnx_types[type].dtype);
}

/* The Cast behind a value that nothing else uses, or ONNX_NONE. */
static size_t cast_behind(const struct onnx *self, size_t symbol)
{
    const struct onnx_symbol *s = &self->symbols.list[symbol];
    const struct onnx_node *cast = s->cast != ONNX_NONE ? &self->nodes[s->cast] : NULL;

    return cast != NULL && s->n_uses == 1 && !s->pinned && !cast->odd && !cast->taken && is_float_type(cast->to) &&
                   self->symbols.list[cast->out].n_made == 1
               ? s->cast
               : ONNX_NONE;
}

static bool same_dims(const struct onnx_tensor *a, const struct onnx_tensor *b)
{
    return a->n_dims == b->n_dims && (a->n_dims == 0 || memcmp(a->dims, b->dims, a->n_dims * sizeof *a->dims) == 0);
}

/* Blocks along the only axis behind axis 0 that is longer than 1 are our groups. */
static bool blocks_fit(const struct onnx_tensor *codes, const struct onnx_tensor *scale, uint64_t axis, uint64_t block)
{
    unsigned d;

    for (d = 0; d < codes->n_dims; d++) {
        uint64_t want = d == axis ? vc_ceil_div_u64(codes->dims[d], block) : codes->dims[d];

        if (scale->dims[d] != want || (d != 0 && d != axis && codes->dims[d] != 1)) {
            return false;
        }
    }
    return axis != 0;
}

/* What the shape of the scales means; false: nothing that is known here. */
static bool granularity_of(const struct onnx *self, const struct onnx_node *node, const struct onnx_tensor *codes,
                           const struct onnx_tensor *scale, struct vc_quant *quant)
{
    int64_t axis = node->axis < 0 ? node->axis + (int64_t)codes->n_dims : node->axis;

    if (node->block_size == 0 && scale->n_elems == 1 && scale->n_dims <= 1) {
        quant->granularity = VC_GRANULARITY_TENSOR;
        return true;
    }
    if (self->opset < 13 || axis < 0 || axis >= (int64_t)codes->n_dims || codes->n_dims < 2) {
        return false;
    }
    if (node->block_size == 0) {
        quant->granularity = VC_GRANULARITY_CHANNEL;
        quant->axis = (unsigned)axis;
        return scale->n_dims == 1 && scale->dims[0] == codes->dims[axis];
    }
    quant->granularity = VC_GRANULARITY_GROUP;
    quant->group_size = (uint64_t)node->block_size;
    return node->block_size > 0 && scale->n_dims == codes->n_dims &&
           blocks_fit(codes, scale, (uint64_t)axis, (uint64_t)node->block_size);
}

static bool is_scale_type(enum vc_dtype dtype)
{
    return dtype == VC_DTYPE_F32 || dtype == VC_DTYPE_F16 || dtype == VC_DTYPE_BF16;
}

/* A quantized tensor: its parts and what they mean. */
struct quantized {
    struct onnx_tensor *codes, *scale, *zero; /* zero may be NULL */
    struct vc_quant quant;
};

static bool is_quantized(const struct onnx *self, const struct onnx_node *node, struct quantized *q)
{
    q->codes = own_tensor(self, node->in[0]);
    q->scale = own_tensor(self, node->in[1]);
    q->zero = own_tensor(self, node->in[2]);
    if (node->odd || q->codes == NULL || q->scale == NULL || (node->in[2] != ONNX_NONE && q->zero == NULL) ||
        dtype_of(q->codes) != VC_DTYPE_I8 || q->codes->n_elems == 0 || !is_scale_type(dtype_of(q->scale)) ||
        (node->to != 0 && !is_float_type(node->to)) || self->symbols.list[node->out].n_made != 1) {
        return false;
    }
    if (q->zero != NULL && (dtype_of(q->zero) != VC_DTYPE_I8 || !same_dims(q->zero, q->scale))) {
        return false;
    }
    q->quant = (struct vc_quant){.scheme = VC_SCHEME_INT8,
                                 .symmetric = q->zero == NULL,
                                 .source_dtype = VC_DTYPE_F32,
                                 .zero_point = VC_NO_TENSOR};
    return granularity_of(self, node, q->codes, q->scale, &q->quant);
}

/* ---- tensors of the model ---- */

static struct onnx_link *link_of(const struct onnx *self, const struct onnx_tensor *tensor)
{
    return &self->links[tensor->index];
}

static void join(struct onnx *self, struct onnx_link *link, size_t node, uint32_t type)
{
    link->node[link->node[0] != ONNX_NONE] = node;
    link->name = self->nodes[node].out;
    link->type = type;
    self->nodes[node].taken = true;
}

/* [1], [1, .., channels, .., 1] or [rows, groups]: what all formats here have for scales. The values are the same. */
static enum vc_status shape_scale(struct vc_ctx *ctx, struct onnx *self, const struct vc_tensor *t,
                                  const struct vc_quant *quant, struct vc_tensor *scale)
{
    unsigned n_dims = quant->granularity == VC_GRANULARITY_TENSOR  ? 1
                      : quant->granularity == VC_GRANULARITY_GROUP ? 2
                                                                   : t->n_dims;
    uint64_t *shape = vc_arena_alloc(ctx, &self->arena, n_dims * sizeof *shape);
    unsigned d;

    if (shape == NULL) {
        return VC_E_NOMEM;
    }
    for (d = 0; d < n_dims; d++) {
        shape[d] = quant->granularity == VC_GRANULARITY_CHANNEL && d == quant->axis ? t->shape[d] : 1;
    }
    if (quant->granularity == VC_GRANULARITY_GROUP) {
        shape[0] = t->shape[0];
        shape[1] = scale->n_elems / t->shape[0];
    }
    scale->shape = shape;
    scale->n_dims = n_dims;
    return VC_OK;
}

static enum vc_status attach(struct vc_ctx *ctx, struct onnx *self, struct vc_model *model, struct quantized *q,
                             struct vc_quant *quant)
{
    struct vc_tensor *t = &model->tensors[q->codes->index];
    enum vc_status status;

    *quant = q->quant;
    quant->source_dtype = onnx_types[link_of(self, q->codes)->type].dtype;
    quant->scale = q->scale->index;
    t->quant = quant;
    model->tensors[quant->scale].companion_of = q->codes->index;
    VC_TRY(shape_scale(ctx, self, t, quant, &model->tensors[quant->scale]));
    if (q->zero != NULL) {
        quant->zero_point = q->zero->index;
        model->tensors[quant->zero_point].companion_of = q->codes->index;
        VC_TRY(shape_scale(ctx, self, t, quant, &model->tensors[quant->zero_point]));
    }
out:
    return status;
}

static enum vc_status find_quantized(struct vc_ctx *ctx, struct onnx *self, struct vc_model *model)
{
    size_t n_quants = 0;
    size_t i;
    enum vc_status status = VC_OK;

    model->quants = vc_calloc_array(ctx, VC_TAG_NAMES, self->n_nodes, sizeof *model->quants);
    VC_TRY_ALLOC(model->quants);
    for (i = 0; i < self->n_nodes; i++) {
        const struct onnx_node *node = &self->nodes[i];
        struct quantized q;
        size_t cast;

        if (!node->dequantize || !is_quantized(self, node, &q)) {
            continue;
        }
        join(self, link_of(self, q.codes), i, node->to != 0 ? (uint32_t)node->to : q.scale->type);
        cast = cast_behind(self, node->out);
        if (cast != ONNX_NONE) {
            join(self, link_of(self, q.codes), cast, (uint32_t)self->nodes[cast].to);
        }
        VC_TRY(attach(ctx, self, model, &q, &model->quants[n_quants++]));
    }
out:
    return status;
}

/* Only to a wider type: then the values are those of the initializer. */
static void find_casts(struct onnx *self)
{
    size_t i;

    for (i = 0; i < self->n_nodes; i++) {
        const struct onnx_node *node = &self->nodes[i];
        const struct onnx_tensor *tensor = own_tensor(self, node->in[0]);
        enum vc_dtype from = tensor != NULL ? dtype_of(tensor) : VC_DTYPE_RAW;
        bool half = from == VC_DTYPE_F16 || from == VC_DTYPE_BF16;

        if (!node->dequantize && !node->taken && !node->odd && self->symbols.list[node->out].n_made == 1 &&
            ((half && (node->to == ONNX_FLOAT || node->to == ONNX_DOUBLE)) ||
             (from == VC_DTYPE_F32 && node->to == ONNX_DOUBLE))) {
            join(self, link_of(self, tensor), i, (uint32_t)node->to);
        }
    }
}

/* ---- channel axes ---- */

/* Where the consumers disagree, or say nothing, it is axis 0. */
static unsigned channel_axis(const struct onnx_symbol *symbol, unsigned n_dims)
{
    const unsigned axes[] = {0, 1, n_dims - 1, n_dims - 2};
    unsigned found = n_dims;
    unsigned i;

    for (i = 0; n_dims >= 2 && i < 4; i++) {
        if ((symbol->axes >> i & 1) != 0) {
            if (found != n_dims && found != axes[i]) {
                return 0;
            }
            found = axes[i];
        }
    }
    return found < n_dims ? found : 0;
}

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
                            .companion_of = VC_NO_TENSOR,
                            .alias_of = VC_NO_TENSOR};
    t->file_bytes += tensor->place == ONNX_PLACE_EXTERNAL ? tensor->n_bytes : 0;
    io->sequential = tensor->place == ONNX_PLACE_NUMBERS;
    io->raw_bytes = tensor->place == ONNX_PLACE_EXTERNAL ? tensor->n_bytes : tensor->message.n;
    self->links[tensor->index] = (struct onnx_link){
        .tensor = number, .name = tensor->symbol, .node = {ONNX_NONE, ONNX_NONE}, .type = tensor->type};
}

/* What is known only now: names, axes, roles. */
static void finish_tensors(const struct onnx *self, struct vc_model *model)
{
    size_t i;

    for (i = 0; i < model->n_tensors; i++) {
        const struct onnx_symbol *symbol = &self->symbols.list[self->links[i].name];
        struct vc_tensor *t = &model->tensors[i];

        t->name = symbol->name;
        t->channel_axis = channel_axis(symbol, t->n_dims);
        t->role = symbol->for_scales ? VC_ROLE_OTHER : VC_ROLE_WEIGHT;
    }
}

enum vc_status onnx_make_tensors(struct onnx_reader *r, struct vc_model *model)
{
    struct onnx *self = r->self;
    size_t n = self->n_tensors;
    enum vc_status status = VC_OK;
    size_t i;

    model->tensors = vc_calloc_array(r->ctx, VC_TAG_NAMES, n, sizeof *model->tensors);
    VC_TRY_ALLOC(model->tensors);
    model->io = vc_calloc_array(r->ctx, VC_TAG_NAMES, n, sizeof *model->io);
    VC_TRY_ALLOC(model->io);
    self->links = vc_calloc_array(r->ctx, VC_TAG_NAMES, n, sizeof *self->links);
    VC_TRY_ALLOC(self->links);
    for (i = 0; i < n; i++) {
        if (dtype_of(&self->tensors[i]) != VC_DTYPE_RAW) {
            size_t index = model->n_tensors++;

            self->tensors[i].index = index;
            fill_tensor(self, i, &model->tensors[index], &model->io[index]);
        }
    }
    VC_TRY(find_quantized(r->ctx, self, model));
    find_casts(self);
    finish_tensors(self, model);
out:
    return status;
}
