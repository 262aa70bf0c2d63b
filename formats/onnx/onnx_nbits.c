/* onnx_nbits.c - MatMulNBits, onnxruntime's product with codes of four bits, and the products that can become it.
 *
 *     y = MatMul (x, w)                w [K, N]    y = MatMulNBits (x, w.int4, w.scale)             codes turned
 *     y = Gemm (x, w, bias) transB     w [N, K]    y = MatMulNBits (x, w.int4_rows, w.scale, , , bias)
 *
 *     w.int4   u8 [N, blocks, block / 2]   row n has the codes of output n, plus 8, two a byte, padded with the code 8
 *     w.scale  [N * blocks]                zero points u8 [N * ceil(blocks / 2)]: two a byte, or none, which means 8
 *
 * Such codes are the tensor `w` of the model, and the node is the product that it stands for, whose form the name of
 * the codes tells. Of other programs' files that is MatMul, and `w` what is in front of "_Q4" in the name. */

#include "formats/onnx/onnx.h"

#define MIN_BLOCK 16

/* ---- names ---- */

/* How much of the codes' name is that of the weight, whose rows are outputs, or inputs; `ours`: we wrote it. A name
 * that was taken has a number behind it, and counts as another program's: the values are the same. */
static size_t weight_bytes(const char *name, bool *rows, bool *ours)
{
    static const char *const tails[] = {ONNX_NBITS_ROWS, ONNX_NBITS_CODES, "_Q4"};
    size_t n = strlen(name);
    size_t i = 0;

    while (i < 3 && (n <= strlen(tails[i]) || strcmp(name + n - strlen(tails[i]), tails[i]) != 0)) {
        i++;
    }
    *rows = i == 0;
    *ours = i < 2;
    return i < 3 ? n - strlen(tails[i]) : n;
}

/* ---- reading ---- */

static struct onnx_tensor *tensor_at(const struct onnx *self, size_t symbol)
{
    const struct onnx_symbol *s = symbol != ONNX_NONE ? &self->symbols.list[symbol] : NULL;

    return s != NULL && s->tensor != ONNX_NONE && s->n_made == 0 && !s->pinned && s->graph == ONNX_MAIN &&
                   self->tensors[s->tensor].index != ONNX_NONE
               ? &self->tensors[s->tensor]
               : NULL;
}

bool vc_onnx_nbits_block(uint64_t block)
{
    return block >= MIN_BLOCK && block <= INT32_MAX && (block & (block - 1)) == 0;
}

static bool is_known(const struct onnx_node *n)
{
    return n->op == ONNX_OP_NBITS && n->graph == ONNX_MAIN && !n->odd && n->weights == ONNX_NONE && n->bits == 4 &&
           n->block_size > 0 && vc_onnx_nbits_block((uint64_t)n->block_size) && n->k > 0 && n->k <= INT32_MAX &&
           n->n > 0 && n->n <= INT32_MAX && n->in[4] == ONNX_NONE;
}

/* The same codes in the same way. */
static bool is_same(const struct onnx_node *a, const struct onnx_node *b)
{
    return is_known(b) && a->in[1] == b->in[1] && a->in[2] == b->in[2] && a->in[3] == b->in[3] && a->k == b->k &&
           a->n == b->n && a->block_size == b->block_size;
}

static size_t count_same(const struct onnx *self, const struct onnx_node *node)
{
    size_t n = 0;

    for (size_t i = self->symbols.list[node->in[1]].factor_of; i != ONNX_NONE; i = self->nodes[i].next) {
        n += is_same(node, &self->nodes[i]);
    }
    return n;
}

/* Codes, scales and zero points have the types and sizes that the node wants. */
static bool parts_fit(const struct onnx_node *node, const struct onnx_quantized *q, const struct onnx_product *p)
{
    return q->codes != NULL && q->codes->type == ONNX_UINT8 && q->codes->n_elems == p->n * p->blocks * p->block / 2 &&
           q->scale != NULL && (q->scale->type == ONNX_FLOAT || q->scale->type == ONNX_FLOAT16) &&
           q->scale->n_elems == p->n * p->blocks &&
           (node->in[3] == ONNX_NONE ||
            (q->zero != NULL && q->zero->type == ONNX_UINT8 && q->zero->n_elems == p->n * ((p->blocks + 1) / 2)));
}

struct onnx_view vc_onnx_nbits_view(enum vc_part_role role, const struct onnx_product *p, unsigned bits)
{
    bool codes = role == VC_PART_CODES;
    bool nibbles = codes || role == VC_PART_ZERO_POINT;
    uint64_t inputs = codes ? p->k : p->blocks;
    struct onnx_view v = {.bits = nibbles ? 4 : bits, .shown = bits, .flip = 8, .matrix = true, .turned = !p->rows};

    v.n_rows = p->rows ? p->n : inputs;
    v.row = p->rows ? inputs : p->n;
    v.shown = !nibbles ? bits : codes && v.row % 2 == 0 ? 4 : 8;
    v.stored_row = codes ? p->blocks * p->block : nibbles ? (p->blocks + 1) / 2 * 2 : p->blocks;
    return v;
}

/* Called by onnx_links.c for every node that was kept. */
bool vc_onnx_find_nbits(const struct onnx *self, size_t number, struct onnx_quantized *q)
{
    const struct onnx_node *node = &self->nodes[number];
    struct onnx_product p;
    bool ours;

    if (!is_known(node)) {
        return false;
    }
    *q = (struct onnx_quantized){.codes = tensor_at(self, node->in[1]),
                                 .scale = tensor_at(self, node->in[2]),
                                 .zero = tensor_at(self, node->in[3])};
    p = (struct onnx_product){.k = (uint64_t)node->k, .n = (uint64_t)node->n, .block = (uint64_t)node->block_size};
    p.blocks = vc_ceil_div_u64(p.k, p.block);
    if (!parts_fit(node, q, &p)) {
        return false;
    }
    size_t n_users = count_same(self, node);
    for (size_t k = 1; k < 4; k++) {
        if (node->in[k] != ONNX_NONE && self->symbols.list[node->in[k]].n_uses != n_users) {
            return false; /* a part is used in another way as well */
        }
    }
    (void)weight_bytes(q->codes->name, &q->rows, &ours);
    if (node->in[5] != ONNX_NONE && !ours) {
        return false; /* Gemm takes matrices only */
    }
    p.rows = q->rows;
    q->codes->view = vc_onnx_nbits_view(VC_PART_CODES, &p, 4);
    q->scale->view = vc_onnx_nbits_view(VC_PART_SCALE, &p, q->scale->type == ONNX_FLOAT ? 32 : 16);
    if (q->zero != NULL) {
        q->zero->view = vc_onnx_nbits_view(VC_PART_ZERO_POINT, &p, 8);
    }
    q->quant = (struct vc_quant){.scheme = q->codes->view.shown == 4 ? VC_SCHEME_INT4 : VC_SCHEME_INT8,
                                 .granularity = VC_GRANULARITY_GROUP,
                                 .group_size = p.block,
                                 .symmetric = q->zero == NULL};
    if (!q->rows) { /* a block is part of a column */
        q->quant.granularity = VC_GRANULARITY_BLOCK;
        q->quant.group_size = 1;
        q->quant.group_rows = p.block;
    }
    q->link = (struct onnx_link){.name = node->in[1], .type = q->scale->type};
    return true;
}

/* The nodes learn their weights, and these get a symbol: their name, where the graph has no other value of that name.
 */
enum vc_status vc_onnx_join_nbits(struct onnx_reader *r, size_t number, struct onnx_quantized *q)
{
    struct onnx *self = r->self;
    const struct onnx_node node = self->nodes[number];
    const char *codes = q->codes->name;
    uint32_t n_users = 0;
    bool rows, ours;
    char *name = vc_arena_copy(r->ctx, &self->arena, codes, weight_bytes(codes, &rows, &ours));

    VC_CALL_ALLOC(name);
    for (size_t i = self->symbols.list[node.in[1]].factor_of; i != ONNX_NONE; i = self->nodes[i].next) {
        if (is_same(&node, &self->nodes[i])) {
            self->nodes[i].weights = q->codes->index;
            n_users++;
        }
    }
    if (vc_onnx_symbol_find(&self->symbols, ONNX_MAIN, name) == ONNX_NONE &&
        vc_onnx_symbol_find(&self->symbols, ONNX_ANY, name) == ONNX_NONE) {
        VC_CALL(vc_onnx_symbol_add(r, name, &q->link.name));
    }
    struct onnx_symbol *symbol = &self->symbols.list[q->link.name];
    symbol->n_uses = n_users;
    symbol->defined = true;
    symbol->reads = ONNX_READ_FACTOR;
    symbol->axes = q->rows ? ONNX_AXIS_0 : ONNX_AXIS_LAST;
    symbol->inputs = q->rows ? ONNX_AXIS_LAST : ONNX_AXIS_0;
    return VC_OK;
}

/* ---- which weights have a place ---- */

size_t vc_onnx_turn_of(const struct onnx *self, size_t tensor)
{
    size_t product = vc_onnx_next_product(self, tensor, ONNX_NONE);

    return product != ONNX_NONE ? self->nodes[product].turn : ONNX_NONE;
}

/* A bias for each output: an initializer of one dimension, which the node can take along. */
static bool bias_fits(const struct onnx *self, size_t symbol, uint64_t n_outputs, uint32_t type)
{
    const struct onnx_symbol *s = symbol != ONNX_NONE ? &self->symbols.list[symbol] : NULL;
    const struct onnx_tensor *t =
        s != NULL && s->tensor != ONNX_NONE && s->n_made == 0 ? &self->tensors[s->tensor] : NULL;

    return s == NULL || (t != NULL && t->n_dims == 1 && t->dims[0] == n_outputs && t->type == type);
}

size_t vc_onnx_next_product(const struct onnx *self, size_t tensor, size_t number)
{
    const struct onnx_link *link = &self->links[tensor];

    if (number != ONNX_NONE) {
        number = self->nodes[number].next;
    } else { /* codes of MatMulNBits have no nodes in front, and the product reads them under their own name */
        number = self->symbols.list[link->n_nodes == 0 ? self->tensors[link->tensor].symbol : link->name].factor_of;
    }
    for (; number != ONNX_NONE; number = self->nodes[number].next) {
        const struct onnx_node *node = &self->nodes[number];
        if (node->graph == ONNX_MAIN && !node->odd &&
            (node->op == ONNX_OP_NBITS ? node->weights == tensor : node->in[0] != link->name)) {
            break;
        }
    }
    return number;
}

struct vc_code_places vc_onnx_code_places(const struct vc_model *model, size_t tensor)
{
    const struct onnx *self = model->self;
    const struct vc_tensor *t = &model->tensors[tensor];
    const struct onnx_link *link = &self->links[tensor];
    const struct onnx_symbol *symbol = &self->symbols.list[link->name];
    struct vc_code_places places = {.scale = link->type == ONNX_FLOAT16 ? VC_DTYPE_F16 : VC_DTYPE_F32};
    bool matrix = t->n_dims == 2 && (t->inputs == 1 || t->inputs == 2);
    unsigned n_long = 0;
    size_t n = 0;

    for (size_t i = 1; i < t->n_dims; i++) {
        n_long += t->shape[i] != 1;
    }
    places.as_floats = self->opset >= ONNX_BLOCKS_OPSET && n_long <= 1;
    for (size_t i = ONNX_NONE; matrix && (i = vc_onnx_next_product(self, tensor, i)) != ONNX_NONE;) {
        const struct onnx_node *node = &self->nodes[i];

        symbol = node->turn != ONNX_NONE ? &self->symbols.list[self->nodes[node->turn].out] : symbol;
        n += node->op != ONNX_OP_GEMM || bias_fits(self, node->in[2], t->shape[2 - t->inputs], link->type);
    }
    places.product =
        n != 0 && n == symbol->n_uses && !symbol->pinned && (link->type == ONNX_FLOAT || link->type == ONNX_FLOAT16);
    places.why = n_long > 1 ? "groups would run along several axes" : "other nodes than products need opset 21";
    return places;
}
