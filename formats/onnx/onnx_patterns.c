/* onnx_patterns.c - which nodes only turn an initializer into the weights that the graph uses.
 *
 *     codes, scale, zero point -> DequantizeLinear -> name          a quantized tensor called `name`, int8 or int4
 *     codes -> Cast -> (Sub ->) Mul with scales -> name             the same, in graphs before opset 13
 *     one of both -> Cast -> name                                   ... whose weights were not f32
 *     f16, bf16 or a float8 -> Cast -> name                         a tensor of that type called `name`
 *
 * Only where all of it belongs to this one tensor. What is used elsewhere as well, or means something else, stays what
 * the file calls it: a plain initializer under its own name. */

#include "formats/onnx/onnx.h"

/* ---- values and the nodes around them ---- */

/* The initializer behind an input that nothing else uses, or NULL. */
static struct onnx_tensor *own_tensor(const struct onnx *self, size_t symbol)
{
    const struct onnx_symbol *s = symbol != ONNX_NONE ? &self->symbols.list[symbol] : NULL;

    return s != NULL && s->tensor != ONNX_NONE && s->n_uses == 1 && s->n_made == 0 && !s->pinned
               ? &self->tensors[s->tensor]
               : NULL;
}

/* Its type here. */
static enum vc_dtype dtype_of(const struct onnx_tensor *tensor)
{
    return vc_onnx_types[tensor->type].dtype;
}

static bool is_float_type(int64_t type)
{
    return type > 0 && type < ONNX_N_TYPES && vc_dtype_is_float(vc_onnx_types[type].dtype);
}

/* The node does what its operator says, belongs to no tensor yet, and nothing else makes its output. */
static bool is_free(const struct onnx *self, const struct onnx_node *node)
{
    const struct onnx_symbol *out = &self->symbols.list[node->out];

    return !node->odd && !node->taken && out->n_made == 1 && out->tensor == ONNX_NONE;
}

/* A value of which a node here is the only user. */
static bool is_passed_on(const struct onnx_symbol *s)
{
    return s->n_uses == 1 && !s->pinned;
}

/* The Cast behind a value that nothing else uses, or ONNX_NONE. */
static size_t cast_behind(const struct onnx *self, size_t symbol)
{
    const struct onnx_symbol *s = &self->symbols.list[symbol];

    return s->cast != ONNX_NONE && is_passed_on(s) && is_free(self, &self->nodes[s->cast]) &&
                   is_float_type(self->nodes[s->cast].to)
               ? s->cast
               : ONNX_NONE;
}

/* The node with that operator that makes a value for one user, or ONNX_NONE. */
static size_t node_before(const struct onnx *self, size_t symbol, enum onnx_op op)
{
    const struct onnx_symbol *s = symbol != ONNX_NONE ? &self->symbols.list[symbol] : NULL;

    return s != NULL && s->maker != ONNX_NONE && is_passed_on(s) && self->nodes[s->maker].op == op &&
                   is_free(self, &self->nodes[s->maker])
               ? s->maker
               : ONNX_NONE;
}

/* Another node on the way from the codes to the name. */
static void add_node(struct onnx_link *link, size_t node)
{
    link->node[link->n_nodes++] = node;
}

/* ---- what scales mean ---- */

/* Zero points have the shape of the scales. */
static bool same_dims(const struct onnx_tensor *a, const struct onnx_tensor *b)
{
    return a->n_dims == b->n_dims && (a->n_dims == 0 || memcmp(a->dims, b->dims, a->n_dims * sizeof *a->dims) == 0);
}

/* Blocks along the only axis behind axis 0 that is longer than 1 are our groups. */
static bool blocks_fit(const struct onnx_tensor *codes, const struct onnx_tensor *scale, uint64_t axis, uint64_t block)
{
    for (unsigned d = 0; d < codes->n_dims; d++) {
        uint64_t want = d == axis ? vc_ceil_div_u64(codes->dims[d], block) : codes->dims[d];

        if (scale->dims[d] != want || (d != 0 && d != axis && codes->dims[d] != 1)) {
            return false;
        }
    }
    return axis != 0;
}

/* Blocks along axis 0 of a matrix: groups of rows in each column. */
static bool columns_fit(const struct onnx_tensor *codes, const struct onnx_tensor *scale, uint64_t block)
{
    return codes->n_dims == 2 && scale->dims[0] == vc_ceil_div_u64(codes->dims[0], block) &&
           scale->dims[1] == codes->dims[1];
}

/* Sets the granularity of a DequantizeLinear: one scale, one per index of `axis`, or one per block. False: of a kind
 * that no scheme here has. */
static bool granularity_by_axis(const struct onnx *self, const struct onnx_node *node, const struct onnx_tensor *codes,
                                const struct onnx_tensor *scale, struct vc_quant *quant)
{
    int64_t axis = node->axis < 0 ? node->axis + (int64_t)codes->n_dims : node->axis;

    if (node->block_size == 0 && scale->n_elems == 1 && scale->n_dims <= 1) {
        quant->granularity = VC_GRANULARITY_TENSOR;
        return true;
    }
    if (self->opset < 13 || axis < 0 || axis >= (int64_t)codes->n_dims ||
        (codes->n_dims < 2 && codes->type != ONNX_INT32)) {
        return false;
    }
    if (node->block_size == 0) {
        quant->granularity = VC_GRANULARITY_CHANNEL;
        quant->axis = (unsigned)axis;
        return scale->n_dims == 1 && scale->dims[0] == codes->dims[axis];
    }
    if (node->block_size < 0 || scale->n_dims != codes->n_dims) {
        return false;
    }
    if (axis == 0 && codes->type != ONNX_INT8) {
        quant->granularity = VC_GRANULARITY_BLOCK;
        quant->group_size = 1;
        quant->group_rows = (uint64_t)node->block_size;
        return columns_fit(codes, scale, (uint64_t)node->block_size);
    }
    quant->granularity = VC_GRANULARITY_GROUP;
    quant->group_size = (uint64_t)node->block_size;
    return blocks_fit(codes, scale, (uint64_t)axis, (uint64_t)node->block_size);
}

/* The same of a Mul: the shape that is spread over the codes, from the last dimension on, says it. */
static bool granularity_by_shape(const struct onnx_tensor *codes, const struct onnx_tensor *scale,
                                 struct vc_quant *quant)
{
    unsigned n_long = 0;

    if (scale->n_dims > codes->n_dims) {
        return false; /* the product would have more dimensions */
    }
    for (unsigned d = 0; d < scale->n_dims; d++) {
        unsigned axis = codes->n_dims - scale->n_dims + d;

        if (scale->dims[d] != 1) {
            n_long++;
            quant->axis = axis;
            if (scale->dims[d] != codes->dims[axis]) {
                return false;
            }
        }
    }
    quant->granularity = n_long == 0 ? VC_GRANULARITY_TENSOR : VC_GRANULARITY_CHANNEL;
    return n_long == 0 || (n_long == 1 && codes->n_dims >= 2);
}

/* ---- quantized tensors ---- */

static bool is_scale_type(enum vc_dtype dtype)
{
    return dtype == VC_DTYPE_F32 || dtype == VC_DTYPE_F16 || dtype == VC_DTYPE_BF16;
}

/* Codes, scale and zero point (`zero` is its symbol) have types and shapes that go together. */
static bool parts_fit(struct onnx_quantized *q, size_t zero)
{
    if (q->codes == NULL || q->scale == NULL || (zero != ONNX_NONE && q->zero == NULL) ||
        dtype_of(q->codes) != VC_DTYPE_I8 || q->codes->n_elems == 0 || !is_scale_type(dtype_of(q->scale)) ||
        (q->zero != NULL && (dtype_of(q->zero) != VC_DTYPE_I8 || !same_dims(q->zero, q->scale)))) {
        return false;
    }
    q->quant = (struct vc_quant){.scheme = VC_SCHEME_INT8, .symmetric = q->zero == NULL, .source_dtype = VC_DTYPE_F32};
    return true;
}

/* The same for codes of four bits: zero points are of the type of the codes, and those without a sign have some. Where
 * rows have an odd length, the model has a byte for each code. */
static bool nibbles_fit(struct onnx_quantized *q, size_t zero)
{
    uint32_t type = q->codes != NULL ? q->codes->type : 0;
    uint64_t row = q->codes != NULL && q->codes->n_dims != 0 ? q->codes->n_elems / vc_max_u64(q->codes->dims[0], 1) : 1;
    unsigned flip = type == ONNX_UINT4 ? 8 : 0;

    if ((type != ONNX_INT4 && type != ONNX_UINT4) || q->scale == NULL || q->codes->n_elems == 0 ||
        !is_scale_type(dtype_of(q->scale)) || (q->zero == NULL && (flip != 0 || zero != ONNX_NONE)) ||
        (q->zero != NULL && (q->zero->type != type || !same_dims(q->zero, q->scale)))) {
        return false;
    }
    q->quant = (struct vc_quant){.scheme = row % 2 == 0 ? VC_SCHEME_INT4 : VC_SCHEME_INT8,
                                 .symmetric = q->zero == NULL,
                                 .source_dtype = VC_DTYPE_F32};
    return true;
}

/* Codes of 32 bits, as biases of products on codes have: one scale, or one for each. */
static bool is_bias(struct onnx_quantized *q, size_t zero)
{
    if (q->codes == NULL || q->codes->type != ONNX_INT32 || q->codes->n_dims != 1 || q->codes->n_elems == 0 ||
        q->scale == NULL || dtype_of(q->scale) != VC_DTYPE_F32 || zero != ONNX_NONE) {
        return false;
    }
    q->quant = (struct vc_quant){.scheme = VC_SCHEME_INT32, .symmetric = true, .source_dtype = VC_DTYPE_F32};
    return true;
}

/* How they are in the model. */
static void show_nibbles(struct onnx_tensor *t, unsigned shown)
{
    unsigned flip = t->type == ONNX_UINT4 ? 8 : 0;

    if (flip != 0 || shown != 4) {
        t->view = (struct onnx_view){
            .bits = 4, .shown = shown, .flip = flip, .n_rows = 1, .row = t->n_elems, .stored_row = t->n_elems};
    }
}

/* The node is a DequantizeLinear of three (two) tensors of its own. */
static bool is_dequantize(const struct onnx *self, size_t number, struct onnx_quantized *q)
{
    const struct onnx_node *node = &self->nodes[number];

    q->codes = own_tensor(self, node->in[0]);
    q->scale = own_tensor(self, node->in[1]);
    q->zero = own_tensor(self, node->in[2]);
    if ((node->to != 0 && !is_float_type(node->to)) ||
        (!parts_fit(q, node->in[2]) && !nibbles_fit(q, node->in[2]) && !is_bias(q, node->in[2])) ||
        !granularity_by_axis(self, node, q->codes, q->scale, &q->quant)) {
        return false;
    }
    if (q->codes->type == ONNX_INT4 || q->codes->type == ONNX_UINT4) {
        show_nibbles(q->codes, q->quant.scheme == VC_SCHEME_INT4 ? 4 : 8);
        if (q->zero != NULL) {
            show_nibbles(q->zero, 8);
        }
    }
    q->link = (struct onnx_link){.type = node->to != 0 ? (uint32_t)node->to : q->scale->type};
    add_node(&q->link, number);
    return true;
}

/* The initializer that a Cast to f32 makes the value from, or ONNX_NONE; the Cast joins the link. */
static size_t cast_to_f32(const struct onnx *self, size_t symbol, struct onnx_link *link)
{
    size_t cast = node_before(self, symbol, ONNX_OP_CAST);

    if (cast == ONNX_NONE || self->nodes[cast].to != ONNX_FLOAT) {
        return ONNX_NONE;
    }
    add_node(link, cast);
    return self->nodes[cast].in[0];
}

/* (codes - zero point) * scale, all in f32: what DequantizeLinear computes. `value` is one input of the Mul. */
static bool is_product(const struct onnx *self, size_t number, size_t value, size_t scale, struct onnx_quantized *q)
{
    size_t sub = node_before(self, value, ONNX_OP_SUB);
    size_t zero = ONNX_NONE;

    q->link = (struct onnx_link){.type = ONNX_FLOAT};
    if (sub != ONNX_NONE) {
        zero = cast_to_f32(self, self->nodes[sub].in[1], &q->link);
        if (zero == ONNX_NONE) {
            return false;
        }
        value = self->nodes[sub].in[0];
        add_node(&q->link, sub);
    }
    q->codes = own_tensor(self, cast_to_f32(self, value, &q->link));
    q->scale = own_tensor(self, scale);
    q->zero = own_tensor(self, zero);
    add_node(&q->link, number);
    return self->opset >= 7 && parts_fit(q, zero) && dtype_of(q->scale) == VC_DTYPE_F32 &&
           granularity_by_shape(q->codes, q->scale, &q->quant);
}

/* Called by onnx_links.c for every node that was kept. */
bool vc_onnx_find_quantized(const struct onnx *self, size_t node, struct onnx_quantized *q)
{
    const struct onnx_node *end = &self->nodes[node];
    bool found = false;

    if (!is_free(self, end)) {
        return false;
    }
    if (end->op == ONNX_OP_DEQUANTIZE) {
        found = is_dequantize(self, node, q);
    } else if (end->op == ONNX_OP_MUL) {
        found = is_product(self, node, end->in[0], end->in[1], q) || is_product(self, node, end->in[1], end->in[0], q);
    }
    if (!found) {
        return false;
    }
    q->link.name = end->out;
    size_t cast = cast_behind(self, end->out);
    if (cast != ONNX_NONE) {
        add_node(&q->link, cast);
        q->link.name = self->nodes[cast].out;
        q->link.type = (uint32_t)self->nodes[cast].to;
    }
    return true;
}

/* Only to a wider type: then the values are those of the initializer. */
struct onnx_tensor *vc_onnx_find_cast(const struct onnx *self, size_t node)
{
    const struct onnx_node *n = &self->nodes[node];
    struct onnx_tensor *tensor = own_tensor(self, n->in[0]);
    enum vc_dtype from = tensor != NULL ? dtype_of(tensor) : VC_DTYPE_RAW;

    return n->op == ONNX_OP_CAST && is_free(self, n) && (vc_dtype_is_float(from) || vc_is_float8(from)) &&
                   is_float_type(n->to) && vc_dtype_size(vc_onnx_types[n->to].dtype) > vc_dtype_size(from)
               ? tensor
               : NULL;
}
