/* onnx_names.c - what becomes of every tensor when a graph is written anew: the names of its initializers, the nodes
 * that go and come, and what the version of the graph does not allow.
 *
 *     w, now int8                    w.int8, w.scale (, w.zero_point) -> DequantizeLinear -> w
 *     ... where that does not do     w.int8 -> Cast -> w.codes (-> Sub) -> Mul with w.scale -> w
 *     w, now int8, was no f32        ... -> w.f32 -> Cast -> w
 *     w, now int4                    w.int4, w.scale: inputs of MatMulNBits (onnx_nbits.c), or of DequantizeLinear -> w
 *     w, now f16 in a graph of f32   w.f16 -> Cast -> w; so bf16, f8_e4m3 and f8_e5m2
 *     w, of the type the graph has   w */

#include "formats/onnx/onnx_sink.h"

/* Versions of the operators that are needed. */
enum {
    CAST_OPSET = 6,      /* with the type as a number */
    BROADCAST_OPSET = 7, /* of Mul, as NumPy does it */
    BF16_OPSET = 13,
    FLOAT8_OPSET = 19
};

/* ---- what the version allows ---- */

/* Groups run along the rows of axis 0, flattened; ONNX has blocks along one axis. Both are the same where only one axis
 * behind axis 0 is longer than 1. */
static bool groups_fit(const struct vc_out_tensor *t)
{
    unsigned n_long = 0;

    for (unsigned d = 1; d < t->n_dims; d++) {
        n_long += t->shape[d] != 1;
    }
    return n_long <= 1;
}

/* Refuses what the graph's version has no operator for. `option` and `instead`: what needs less, such as "target=f16"
 * and " needs 6; or "; both "" if nothing does. */
static enum vc_status refuse_opset(struct vc_ctx *ctx, const struct onnx_sink *self, const char *name, const char *what,
                                   unsigned needed, const char *option, const char *instead)
{
    return vc_fail(ctx, VC_E_UNSUPPORTED,
                   "%s: %s needs opset %u, and this model has %" PRIu64
                   "; %s%sa converter of ONNX versions can raise it (that may change other nodes, so it is not done "
                   "here)",
                   name, what, needed, self->source->opset, instead[0] != '\0' ? vc_option(ctx, option) : "", instead);
}

/* What codes need of the graph's version. */
static enum vc_status check_quantized(struct vc_ctx *ctx, const struct onnx_sink *self, const struct vc_out_tensor *t)
{
    bool groups = t->quant->granularity == VC_GRANULARITY_GROUP || t->quant->granularity == VC_GRANULARITY_BLOCK;
    uint64_t opset = self->opset;

    if (t->quant->scheme == VC_SCHEME_INT4 && t->n_dims == 2 && t->quant->granularity == VC_GRANULARITY_GROUP &&
        self->model->tensors[t->source].inputs == 1) { /* made for another output */
        return vc_fail(
            ctx, VC_E_UNSUPPORTED,
            "%s: groups of int4 run along the inputs of a product in a graph, and along rows elsewhere; write "
            "the outputs in runs of their own",
            t->name);
    }
    VC_RETURN_IF(
        t->quant->scheme == VC_SCHEME_INT4 && opset < ONNX_BLOCKS_OPSET,
        refuse_opset(ctx, self, t->name, "int4 (DequantizeLinear)", ONNX_BLOCKS_OPSET, "target=int8", " needs 7; or "));
    VC_RETURN_IF(opset < BROADCAST_OPSET, refuse_opset(ctx, self, t->name, "int8 (codes times scales)", BROADCAST_OPSET,
                                                       "target=f16", opset >= CAST_OPSET ? " needs 6; or " : ""));
    VC_RETURN_IF(opset < ONNX_BLOCKS_OPSET && groups,
                 refuse_opset(ctx, self, t->name, "a scale per group", ONNX_BLOCKS_OPSET, "granularity",
                              " channel needs 7; or "));
    VC_REFUSE_IF(groups && !groups_fit(t), ctx, VC_E_UNSUPPORTED,
                 "%s: ONNX has groups along one axis only, and rows of this shape have several; choose "
                 "%s channel, or exclude it",
                 t->name, vc_option(ctx, "granularity"));
    return VC_OK;
}

/* What the new type of an output needs of it. */
static enum vc_status check_version(struct vc_ctx *ctx, const struct onnx_sink *self, size_t out)
{
    const struct vc_out_tensor t = vc_out_at(self->outs, out);
    uint64_t opset = self->opset;
    bool bf16 = t.dtype == VC_DTYPE_BF16 || vc_onnx_link_of(self, out)->type == ONNX_BFLOAT16;

    VC_RETURN_IF(self->out[out].moved && !self->dequantizes && !self->out[out].nbits,
                 vc_onnx_refuse_form(ctx, self, t.name, vc_onnx_why_no_nbits(self, out)));
    VC_RETURN_IF(self->out[out].moved && opset < ONNX_BLOCKS_OPSET && self->dequantizes,
                 refuse_opset(ctx, self, t.name, "int4 (DequantizeLinear)", ONNX_BLOCKS_OPSET, "", ""));
    if (vc_onnx_is_quantized(self, out) && !self->out[out].nbits) {
        VC_CALL(check_quantized(ctx, self, &t));
    }
    if (vc_onnx_is_cast(self, out) && vc_is_float8(t.dtype) && t.quant == NULL && opset < FLOAT8_OPSET) {
        return refuse_opset(ctx, self, t.name, "float8 (Cast)", FLOAT8_OPSET, "target=int8", " needs 7; or ");
    }
    if (vc_onnx_is_cast(self, out) && opset < (bf16 ? BF16_OPSET : CAST_OPSET)) {
        return bf16 ? refuse_opset(ctx, self, t.name, "bf16 (Cast)", BF16_OPSET, "target=f16",
                                   opset >= CAST_OPSET ? " needs 6; or " : "")
                    : refuse_opset(ctx, self, t.name, "another float type (Cast)", CAST_OPSET, "", "");
    }
    return VC_OK;
}

/* ---- names ---- */

static const char *suffix_of(const struct onnx_sink *self, size_t out)
{
    enum vc_dtype dtype = vc_out_at(self->outs, out).dtype;

    if (dtype == VC_DTYPE_I4 || self->out[out].moved) {
        bool gemm = self->out[out].nbits && !self->out[out].view.turned &&
                    vc_onnx_turn_of(self->source, vc_out_at(self->outs, out).source) == ONNX_NONE;
        return gemm ? ONNX_NBITS_ROWS : ONNX_NBITS_CODES;
    }
    if (dtype == VC_DTYPE_I8) {
        return ".int8";
    }
    if (dtype == VC_DTYPE_I32) {
        return ".int32";
    }
    if (vc_is_float8(dtype)) {
        return dtype == VC_DTYPE_F8_E4M3 ? ".f8_e4m3" : ".f8_e5m2";
    }
    if (dtype == VC_DTYPE_F16) {
        return ".f16";
    }
    return dtype == VC_DTYPE_BF16 ? ".bf16" : ".f32";
}

/* Names for the initializer of a changed tensor and for the values between the nodes behind it; the last of these nodes
 * makes the tensor's own name. */
static enum vc_status name_main(struct vc_ctx *ctx, struct onnx_sink *self, size_t out)
{
    const struct vc_out_tensor t = vc_out_at(self->outs, out);
    struct onnx_out *o = &self->out[out];
    bool quantized = vc_onnx_is_quantized(self, out);

    o->name = vc_onnx_name_in_graph(self, out);
    if (quantized || vc_onnx_is_cast(self, out)) {
        VC_CALL(vc_onnx_choose_name(ctx, self, t.name, suffix_of(self, out), &o->name));
    }
    if (quantized && vc_onnx_is_cast(self, out)) {
        VC_CALL(vc_onnx_choose_name(ctx, self, t.name, ".f32", &o->inner));
    }
    if (vc_onnx_is_product(self, out)) {
        VC_CALL(vc_onnx_choose_name(ctx, self, t.name, ".codes", &o->codes));
        if (!t.quant->symmetric) {
            VC_CALL(vc_onnx_choose_name(ctx, self, t.name, ".zero", &o->zero_point));
            VC_CALL(vc_onnx_choose_name(ctx, self, t.name, ".difference", &o->difference));
        }
    }
    return VC_OK;
}

/* ---- what goes ---- */

/* The nodes on the tensor's old way go, and the names that they made for each other. */
static void drop_nodes(struct onnx_sink *self, const struct onnx_link *link)
{
    for (size_t k = 0; k < link->n_nodes; k++) {
        self->drop[link->node[k]] = true;
        if (k + 1 < link->n_nodes) {
            self->gone[self->source->nodes[link->node[k]].out] |= ONNX_NAME_GONE;
        }
    }
}

/* Which names and nodes the new graph has no more. A tensor of the graph cannot be left out, unless it was a part of a
 * quantized one. */
static enum vc_status mark_gone(struct vc_ctx *ctx, struct onnx_sink *self)
{
    const struct onnx *source = self->source;

    for (size_t i = 0; i < self->model->n_tensors; i++) {
        const struct onnx_link *link = &source->links[i];
        size_t symbol = source->tensors[link->tensor].symbol;
        size_t out = self->first_out[i];

        for (size_t k = 0; k < link->n_nodes; k++) {
            self->node_out[link->node[k]] = out;
        }
        VC_REFUSE_IF(out == ONNX_NONE && self->model->tensors[i].part_of == VC_NO_TENSOR &&
                         !vc_onnx_is_unread(self, symbol),
                     ctx, VC_E_ARGUMENT, "%s: the graph needs it, so it cannot be left out of an ONNX file",
                     self->model->tensors[i].name);
        if (out == ONNX_NONE) { /* a scale or zero point that its tensor does not need any more, what a norm read */
            self->gone[symbol] |= ONNX_NAME_GONE;
        } else if (vc_onnx_is_changed(self, out)) {
            drop_nodes(self, link);
            self->gone[symbol] |= self->out[out].moved ? ONNX_INPUT_GONE | ONNX_INFO_GONE : 0;
            if (self->out[out].nbits) {
                self->gone[link->name] |= ONNX_NAME_GONE; /* no value has the name */
                size_t turn = vc_onnx_turn_of(source, i);
                if (turn != ONNX_NONE) {
                    self->drop[turn] = true;
                    self->gone[source->nodes[turn].out] |= ONNX_NAME_GONE;
                }
            }
            if (symbol != link->name) {
                self->gone[symbol] |= ONNX_NAME_GONE;
            } else if (vc_onnx_is_quantized(self, out) || vc_onnx_is_cast(self, out)) {
                self->gone[symbol] |= ONNX_INPUT_GONE; /* a node makes it now */
            }
        }
    }
    return VC_OK;
}

/* A kept tensor is copied with its field, whatever that is. The values of a Constant node in another file cannot be
 * copied so. */
enum vc_status vc_onnx_list_outs(struct vc_ctx *ctx, struct onnx_sink *self)
{
    const struct onnx *source = self->source;

    self->opset = vc_onnx_opset_with_codes(source, self->outs);
    VC_CALL_ALLOC(self->first_out = vc_alloc_array(ctx, VC_TAG_NAMES, self->model->n_tensors, sizeof *self->first_out));
    VC_CALL_ALLOC(self->out = vc_calloc_array(ctx, VC_TAG_NAMES, self->outs->n, sizeof *self->out));
    for (size_t i = 0; i < self->model->n_tensors; i++) {
        self->first_out[i] = ONNX_NONE;
    }
    for (size_t i = 0; i < self->outs->n; i++) {
        const struct vc_out_tensor out = vc_out_at(self->outs, i);
        const struct onnx_tensor *tensor = &source->tensors[source->links[out.source].tensor];

        self->out[i].moved = out.kept && vc_onnx_moves(self, out.source);
        self->out[i].changed =
            !out.kept || self->out[i].moved || (tensor->constant && tensor->place == ONNX_PLACE_EXTERNAL);
        if (out.role == VC_PART_CODES) {
            self->first_out[out.source] = i;
        }
    }
    for (size_t i = 0; i < self->outs->n; i++) {
        if (vc_onnx_is_changed(self, i) && !vc_onnx_is_part(self, i)) {
            self->out[i].nbits = vc_onnx_why_no_nbits(self, i) == NULL;
            vc_onnx_view_outs(self, i);
        }
    }
    return VC_OK;
}

/* First what goes, so that its names are free for what comes. */
enum vc_status vc_onnx_plan_outs(struct vc_ctx *ctx, struct onnx_sink *self)
{
    const struct vc_out_list *outs = self->outs;
    const struct onnx *source = self->source;

    VC_CALL_ALLOC(self->gone = vc_calloc_array(ctx, VC_TAG_NAMES, source->symbols.n, sizeof *self->gone));
    VC_CALL_ALLOC(self->drop = vc_calloc_array(ctx, VC_TAG_NAMES, source->n_nodes, sizeof *self->drop));
    VC_CALL_ALLOC(self->node_out = vc_alloc_array(ctx, VC_TAG_NAMES, source->n_nodes, sizeof *self->node_out));
    VC_CALL_ALLOC(self->products = vc_alloc_array(ctx, VC_TAG_NAMES, source->n_nodes, sizeof *self->products));
    for (size_t i = 0; i < source->n_nodes; i++) {
        self->node_out[i] = ONNX_NONE;
        self->products[i] = ONNX_NONE;
    }
    for (size_t i = 0; i < self->edits.n_folded; i++) {
        self->gone[self->edits.folded[i].before] |= ONNX_NAME_GONE;
    }
    vc_onnx_plan_products(self);
    VC_CALL(mark_gone(ctx, self));
    for (size_t i = 0; i < outs->n; i++) {
        const struct vc_out_tensor out = vc_out_at(outs, i);

        if (out.role != VC_PART_CODES) {
            VC_CALL(vc_onnx_choose_name(ctx, self, out.name, "", &self->out[i].name));
        } else if (vc_onnx_is_part(self, i)) {
            self->out[i].name = vc_onnx_name_in_graph(self, i);
        } else if (vc_onnx_is_changed(self, i)) {
            VC_CALL(check_version(ctx, self, i));
            VC_CALL(name_main(ctx, self, i));
        }
    }
    return VC_OK;
}
