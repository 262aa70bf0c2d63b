/* onnx_nbits_write.c - products as MatMulNBits nodes, and MatMulNBits nodes as products again, where they stood.
 *
 *     MatMul (x, w), w now int4              MatMulNBits (x, w.int4, w.scale)
 *     MatMulNBits (x, w.int4, w.scale)       MatMul (x, w), if w is something else now
 *
 * onnx_nbits.c has the form of the node, onnx_view.c that of codes. Outputs and name of the node stay. */

#include "formats/dialects/dialects.h"
#include "formats/onnx/onnx_sink.h"

/* The codes are [N, K] in the model, as the node has them. */
static bool has_rows(const struct vc_quant *quant)
{
    return quant->granularity == VC_GRANULARITY_GROUP;
}

/* Elements of a group along the inputs, in either way that weights lie. */
static uint64_t block_of(const struct vc_quant *quant)
{
    return has_rows(quant) ? quant->group_size : quant->group_rows;
}

/* In words for a report; NULL: the node can have them. MatMulNBits multiplies with a matrix [n, k] of codes in blocks
 * along k, with scales of the type of its input. */
const char *vc_onnx_why_no_nbits(const struct onnx_sink *self, size_t out)
{
    const struct vc_out_tensor t = vc_out_at(self->outs, out);
    const struct vc_quant *quant = t.quant;

    if (self->dequantizes || quant == NULL || (t.dtype != VC_DTYPE_I4 && !self->out[out].moved) || t.n_dims != 2) {
        return "it is no matrix of codes of 4 bits";
    }
    bool turned = quant->granularity == VC_GRANULARITY_BLOCK && quant->group_size == 1;
    if (!turned && !has_rows(quant)) {
        return "it has no scale per group of inputs";
    }
    if (!vc_onnx_nbits_block(block_of(quant))) {
        return "groups of MatMulNBits are 16, 32, 64, 128, ...";
    }
    if (self->model->tensors[t.source].inputs != (turned ? 1U : 2U)) {
        return "its groups do not run along the inputs of products";
    }
    if (vc_onnx_type_of(vc_out_at(self->outs, vc_quant_scale(quant)).dtype) != vc_onnx_link_of(self, out)->type) {
        return "its scales have another type than the graph has for it";
    }
    if (!vc_onnx_code_places(self->model, t.source).product) {
        return "not only plain products of f32 or f16 (of Gemm: alpha and beta 1) use it";
    }
    return NULL;
}

/* Whether another layout is asked for than the codes have: nodes of one kind become the other. */
bool vc_onnx_moves(const struct onnx_sink *self, size_t tensor)
{
    size_t owner = self->model->tensors[tensor].part_of;
    size_t main = owner != VC_NO_TENSOR ? owner : tensor;
    const struct onnx_link *link = &self->source->links[main];
    const struct onnx_tensor *codes = &self->source->tensors[link->tensor];

    return self->relayout && self->model->tensors[main].quant != NULL &&
           (codes->view.bits == 4 || codes->type == ONNX_INT4) && (link->n_nodes == 0) == self->dequantizes;
}

/* The sentence names the way round by floats, and what it costs is told by that run. */
enum vc_status vc_onnx_refuse_form(struct vc_ctx *ctx, const struct onnx_sink *self, const char *name, const char *why)
{
    const char *pass = vc_option(ctx, "pass");

    return vc_fail(ctx, VC_E_UNSUPPORTED,
                   "%s: %s, so its codes stay in %s; vcompress run %s dequantize %s \"quantize %s %s group:32\" %s %s "
                   "makes others of the weights that it can, and tells the error",
                   name, why, self->dequantizes ? "MatMulNBits" : "DequantizeLinear", pass, pass,
                   vc_option(ctx, "target=int4"), vc_option(ctx, "granularity"), vc_option(ctx, "layout"),
                   self->dequantizes ? vc_dialect_onnx_qdq.name : vc_dialect_onnx.name);
}

/* Codes that are no weights of the model, but would have to change their form with the others. */
enum vc_status vc_onnx_check_others(struct vc_ctx *ctx, const struct onnx_sink *self)
{
    const struct onnx *source = self->source;

    for (size_t i = 0; self->relayout && i < source->n_nodes; i++) {
        const struct onnx_node *node = &source->nodes[i];
        size_t tensor = source->symbols.list[node->in[0]].tensor;
        const char *name = source->symbols.list[node->out].name;

        VC_RETURN_IF(self->dequantizes && node->op == ONNX_OP_NBITS && node->weights == ONNX_NONE,
                     vc_onnx_refuse_form(ctx, self, name,
                                         "has codes of another number of bits than 4, g_idx, zero points of floats, or "
                                         "codes that others use in another way"));
        VC_RETURN_IF(!self->dequantizes && node->op == ONNX_OP_DEQUANTIZE && !node->taken && tensor != ONNX_NONE &&
                         (source->tensors[tensor].type == ONNX_INT4 || source->tensors[tensor].type == ONNX_UINT4),
                     vc_onnx_refuse_form(ctx, self, name, "its codes or scales are not those of one weight alone"));
    }
    return VC_OK;
}

/* Sizes of the product: x [.., k] times w, of n outputs. */
static struct onnx_product product_of(const struct vc_out_tensor *t)
{
    bool rows = has_rows(t->quant);
    struct onnx_product p = {
        .k = t->shape[rows ? 1 : 0], .n = t->shape[rows ? 0 : 1], .block = block_of(t->quant), .rows = rows};

    p.blocks = vc_ceil_div_u64(p.k, p.block);
    return p;
}

/* Of DequantizeLinear: n numbers that have a byte each in the model. */
static struct onnx_view nibbles(uint64_t n)
{
    return (struct onnx_view){.bits = 4, .shown = 8, .n_rows = 1, .row = n, .stored_row = n};
}

/* How the bytes of codes and their parts lie in the file where that is not as the job gives them. */
void vc_onnx_view_outs(struct onnx_sink *self, size_t out)
{
    const struct vc_out_tensor t = vc_out_at(self->outs, out);
    size_t zero = t.quant != NULL ? vc_quant_find(t.quant, VC_PART_ZERO_POINT) : VC_NO_TENSOR;

    if (self->out[out].nbits) {
        struct onnx_product p = product_of(&t);
        self->out[out].view = vc_onnx_nbits_view(VC_PART_CODES, &p, 4);
        for (unsigned i = 0; i < t.quant->n_parts; i++) {
            const struct vc_quant_part *part = &t.quant->parts[i];
            enum vc_dtype dtype = vc_out_at(self->outs, part->tensor).dtype;

            self->out[part->tensor].view = vc_onnx_nbits_view(part->role, &p, 8 * (unsigned)vc_dtype_size(dtype));
        }
        return;
    }
    if (self->out[out].moved && t.dtype == VC_DTYPE_I8) { /* of rows of an odd length */
        self->out[out].view = nibbles(t.size_bytes);
    }
    if ((self->out[out].moved || t.dtype == VC_DTYPE_I4) && zero != VC_NO_TENSOR) {
        self->out[zero].view = nibbles(vc_out_at(self->outs, zero).size_bytes);
    }
}

unsigned vc_onnx_nbits_dims(const struct onnx_sink *self, size_t main, size_t out, uint64_t *dims)
{
    const struct vc_out_tensor t = vc_out_at(self->outs, main);
    struct onnx_product s = product_of(&t);

    if (main == out) {
        dims[0] = s.n;
        dims[1] = s.blocks;
        dims[2] = s.block / 2;
        return 3;
    }
    dims[0] = s.n * (self->out[out].view.bits == 4 ? (s.blocks + 1) / 2 : s.blocks);
    return 1;
}

/* ---- nodes ---- */

/* Which nodes change: those whose weights become such codes, and those whose codes are something else now. */
void vc_onnx_plan_products(struct onnx_sink *self)
{
    const struct onnx *source = self->source;

    for (size_t i = 0; i < self->model->n_tensors; i++) {
        size_t out = self->first_out[i];

        if (out == ONNX_NONE || !vc_onnx_is_changed(self, out)) {
            continue;
        }
        for (size_t k = ONNX_NONE; (k = vc_onnx_next_product(source, i, k)) != ONNX_NONE;) {
            if (self->out[out].nbits || source->nodes[k].weights == i) {
                self->products[k] = out;
                self->n_nbits_gone += !self->out[out].nbits;
            }
        }
        self->n_nbits += self->out[out].nbits;
    }
}

/* Its inputs behind the first one. */
static void put_inputs(const struct onnx_sink *self, size_t out, const char *bias, struct vc_text *text)
{
    const struct vc_quant *quant = vc_out_at(self->outs, out).quant;

    if (!self->out[out].nbits) {
        vc_wire_put_string(text, ONNX_NODE_INPUT, vc_onnx_name_in_graph(self, out));
    } else {
        size_t zero = vc_quant_find(quant, VC_PART_ZERO_POINT);
        vc_wire_put_string(text, ONNX_NODE_INPUT, self->out[out].name);
        vc_wire_put_string(text, ONNX_NODE_INPUT, self->out[vc_quant_scale(quant)].name);
        if (zero != VC_NO_TENSOR || bias != NULL) {
            vc_wire_put_string(text, ONNX_NODE_INPUT, zero != VC_NO_TENSOR ? self->out[zero].name : "");
        }
        if (bias != NULL) {
            vc_wire_put_string(text, ONNX_NODE_INPUT, ""); /* g_idx */
        }
    }
    if (bias != NULL) {
        vc_wire_put_string(text, ONNX_NODE_INPUT, bias);
    }
}

/* Operator and attributes. rows: the weight is [N, K]. */
static void put_operator(struct vc_ctx *ctx, const struct onnx_sink *self, size_t out, bool rows, bool bias,
                         struct vc_text *text)
{
    const struct vc_out_tensor t = vc_out_at(self->outs, out);

    if (self->out[out].nbits) {
        struct onnx_product s = product_of(&t);

        vc_wire_put_string(text, ONNX_NODE_OP, "MatMulNBits");
        vc_onnx_put_attribute(ctx, text, "K", s.k);
        vc_onnx_put_attribute(ctx, text, "N", s.n);
        vc_onnx_put_attribute(ctx, text, "bits", 4);
        vc_onnx_put_attribute(ctx, text, "block_size", s.block);
        vc_wire_put_string(text, ONNX_NODE_DOMAIN, ONNX_MICROSOFT);
        return;
    }
    vc_wire_put_string(text, ONNX_NODE_OP, rows || bias ? "Gemm" : "MatMul");
    if (rows) {
        vc_onnx_put_attribute(ctx, text, "transB", 1);
    }
}

/* Fields that the new node has of its own. */
static bool is_replaced(uint32_t number)
{
    return number == ONNX_NODE_INPUT || number == ONNX_NODE_OP || number == ONNX_NODE_ATTRIBUTE ||
           number == ONNX_NODE_DOMAIN;
}

/* Copies the fields of the old node that stay and have these numbers. */
static enum vc_status copy_fields(struct onnx_layout *l, struct vc_span rest, uint32_t first, uint32_t last)
{
    VC_EACH_FIELD(f, &l->r.wire, rest) {
        if (f.number >= first && f.number <= last && !is_replaced(f.number)) {
            VC_CALL(vc_onnx_add_rest(l, &f, ONNX_KIND_NODE));
        }
    }
    return VC_OK;
}

/* Put together from the old node: its first input, the new inputs, its outputs and name, the new operator with its
 * attributes, and the rest. */
enum vc_status vc_onnx_add_product(struct onnx_layout *l, const struct vc_field *field, size_t number)
{
    struct onnx_sink *self = l->self;
    const struct onnx_node *node = &self->source->nodes[number];
    size_t out = self->products[number];
    const struct onnx_folded *folded = vc_onnx_folded_at(self, field->all.at, true);
    size_t old = node->op == ONNX_OP_GEMM ? node->in[2] : node->in[5];
    size_t bias = folded != NULL ? folded->bias : old;
    const char *bias_name = bias != ONNX_NONE ? self->source->symbols.list[bias].name : NULL;
    struct vc_span rest = field->data;
    struct vc_field f = {.number = 0};
    size_t mark;

    VC_CALL(vc_onnx_begin_message(l, &mark));
    while (rest.n != 0 && f.number != ONNX_NODE_INPUT) {
        VC_CALL(vc_wire_field(&l->r.wire, &rest, &f));
    }
    VC_CALL(vc_onnx_add_copy(l, f.all));
    put_inputs(self, out, bias_name, &self->literals);
    if (folded != NULL) {
        (void)vc_onnx_put_folded(l, folded, ONNX_NODE_OUTPUT, 0);
    }
    VC_CALL(copy_fields(l, field->data, folded != NULL ? ONNX_NODE_NAME : 0, ONNX_NODE_NAME));
    put_operator(l->ctx, self, out, self->model->tensors[vc_out_at(self->outs, out).source].inputs == 2,
                 bias_name != NULL, &self->literals);
    VC_CALL(copy_fields(l, field->data, ONNX_NODE_NAME + 1, UINT32_MAX));
    return vc_onnx_end_message(l, mark, ONNX_GRAPH_NODE);
}

/* An opset_import of our own. */
static enum vc_status add_own_opset(struct onnx_layout *l, const char *domain, uint64_t version)
{
    size_t mark;

    VC_CALL(vc_onnx_begin_message(l, &mark));
    vc_wire_put_string(&l->self->literals, ONNX_OPSET_DOMAIN, domain);
    vc_wire_put_int(&l->self->literals, ONNX_OPSET_VERSION, version);
    return vc_onnx_end_message(l, mark, ONNX_MODEL_OPSET);
}

/* The operator set of MatMulNBits comes behind the first one that the file names, and goes with the last such node. */
enum vc_status vc_onnx_add_opset(struct onnx_layout *l, const struct vc_field *field)
{
    struct onnx_sink *self = l->self;
    const struct onnx *source = self->source;
    bool goes = self->n_nbits == 0 && self->n_nbits_gone != 0 && self->n_nbits_gone == source->n_microsoft;
    bool is_theirs = false;
    bool is_own = true;

    VC_EACH_FIELD(f, &l->r.wire, field->data) {
        if (f.number == ONNX_OPSET_DOMAIN) {
            VC_CALL(vc_onnx_string_read(&l->r, &f, "the domain of its opset_import"));
            is_theirs = strcmp(l->r.name, ONNX_MICROSOFT) == 0;
            is_own = *vc_onnx_domain(l->r.name) == '\0';
        }
    }
    if (is_own && self->opset != source->opset) { /* ONNX's own, with another version */
        VC_CALL(add_own_opset(l, "", self->opset));
    } else if (!goes || !is_theirs) {
        VC_CALL(vc_onnx_add_copy(l, field->all));
    }
    if (self->n_nbits != 0 && !source->has_microsoft && !l->opset_added) {
        VC_CALL(add_own_opset(l, ONNX_MICROSOFT, 1));
    }
    l->opset_added = true;
    return VC_OK;
}
