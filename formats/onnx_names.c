/* onnx_names.c - what becomes of every tensor when a graph is written anew: the names of its initializers, the nodes
 * that go and come, and what the version of the graph does not allow.
 *
 *     w, now int8                    w.int8, w.scale (, w.zero_point) -> DequantizeLinear -> w
 *     w, now int8, was no f32        ... -> DequantizeLinear -> w.f32 -> Cast -> w
 *     w, now f16 in a graph of f32   w.f16 -> Cast -> w
 *     w, of the type the graph has   w */
#include <inttypes.h>
#include <string.h>

#include "formats/onnx_sink.h"

/* ---- what is needed ---- */

const struct onnx_link *onnx_link_of(const struct onnx_sink *self, size_t out)
{
    return &self->source->links[self->outs->tensors[out].source];
}

bool onnx_is_changed(const struct onnx_sink *self, size_t out)
{
    return self->outs->tensors[out].form != VC_FORM_RAW;
}

unsigned onnx_n_nodes(const struct onnx_sink *self, size_t out)
{
    const struct vc_out_tensor *t = &self->outs->tensors[out];
    uint32_t type = onnx_link_of(self, out)->type;

    if (t->quant.scheme != VC_SCHEME_NONE) {
        return type == ONNX_FLOAT ? 1 : 2;
    }
    return onnx_type_of(t->dtype) == type ? 0 : 1;
}

/* ---- what the version allows ---- */

/* Groups run along the rows of axis 0, flattened; blocks of ONNX along one axis. */
static bool groups_fit(const struct vc_out_tensor *t)
{
    unsigned n_long = 0;
    unsigned d;

    for (d = 1; d < t->n_dims; d++) {
        n_long += t->shape[d] != 1;
    }
    return n_long <= 1;
}

static enum vc_status refuse_opset(struct vc_ctx *ctx, const struct onnx_sink *self, const char *name, const char *what,
                                   unsigned needed)
{
    return vc_fail(ctx, VC_E_UNSUPPORTED,
                   "%s: %s needs opset %u, and this model has %" PRIu64
                   "; a converter of ONNX versions can raise it (that may change other nodes, so it is not done here)",
                   name, what, needed, self->source->opset);
}

static enum vc_status check_version(struct vc_ctx *ctx, const struct onnx_sink *self, size_t out)
{
    const struct vc_out_tensor *t = &self->outs->tensors[out];
    uint64_t opset = self->source->opset;
    bool bf16 = t->dtype == VC_DTYPE_BF16 || onnx_link_of(self, out)->type == ONNX_BFLOAT16;

    if (t->quant.scheme != VC_SCHEME_NONE) {
        if (opset < 10) {
            return refuse_opset(ctx, self, t->name, "int8 (DequantizeLinear)", 10);
        }
        if (opset < 13 && t->quant.granularity == VC_GRANULARITY_CHANNEL) {
            return refuse_opset(ctx, self, t->name, "a scale per channel", 13);
        }
        if (opset < 21 && t->quant.granularity == VC_GRANULARITY_GROUP) {
            return refuse_opset(ctx, self, t->name, "a scale per group", 21);
        }
        if (t->quant.granularity == VC_GRANULARITY_GROUP && !groups_fit(t)) {
            return vc_fail(ctx, VC_E_UNSUPPORTED,
                           "%s: ONNX has groups along one axis only, and rows of this shape have several; choose "
                           "--granularity channel, or exclude it",
                           t->name);
        }
    }
    if (onnx_n_nodes(self, out) > (t->quant.scheme != VC_SCHEME_NONE ? 1 : 0) && opset < (bf16 ? 13 : 6)) {
        return refuse_opset(ctx, self, t->name, bf16 ? "bf16 (Cast)" : "another float type (Cast)", bf16 ? 13 : 6);
    }
    return VC_OK;
}

/* ---- names ---- */

static bool is_free(const struct onnx_sink *self, const char *name)
{
    size_t symbol = onnx_symbol_find(&self->source->symbols, name);

    return symbol == ONNX_NONE || (self->gone[symbol] & ONNX_NAME_GONE) != 0;
}

/* The name, with _1, _2, ... behind it if the graph has it already. New names end in a dot and a word of ours, so they
 * differ among themselves. */
static enum vc_status choose_name(struct vc_ctx *ctx, struct onnx_sink *self, const char *base, const char *suffix,
                                  const char **out)
{
    char *name = vc_arena_printf(ctx, &self->arena, "%s%s", base, suffix);
    unsigned i;

    for (i = 1; name != NULL && !is_free(self, name); i++) {
        name = vc_arena_printf(ctx, &self->arena, "%s%s_%u", base, suffix, i);
    }
    *out = name;
    return name != NULL ? VC_OK : VC_E_NOMEM;
}

static const char *suffix_of(const struct vc_out_tensor *t)
{
    return t->quant.scheme != VC_SCHEME_NONE ? ".int8"
           : t->dtype == VC_DTYPE_F16        ? ".f16"
           : t->dtype == VC_DTYPE_BF16       ? ".bf16"
                                             : ".f32";
}

static enum vc_status name_main(struct vc_ctx *ctx, struct onnx_sink *self, size_t out)
{
    const struct vc_out_tensor *t = &self->outs->tensors[out];
    unsigned n_nodes = onnx_n_nodes(self, out);
    enum vc_status status = VC_OK;

    self->out[out].name = t->name;
    if (n_nodes > 0) {
        VC_TRY(choose_name(ctx, self, t->name, suffix_of(t), &self->out[out].name));
    }
    if (n_nodes > 1) {
        VC_TRY(choose_name(ctx, self, t->name, ".f32", &self->out[out].inner));
    }
out:
    return status;
}

/* ---- what goes ---- */

static void drop_nodes(struct onnx_sink *self, const struct onnx_link *link)
{
    const struct onnx *source = self->source;
    size_t k;

    for (k = 0; k < 2 && link->node[k] != ONNX_NONE; k++) {
        self->drop[link->node[k]] = true;
        if (k == 0 && link->node[1] != ONNX_NONE) {
            self->gone[source->nodes[link->node[0]].out] |= ONNX_NAME_GONE;
        }
    }
}

static enum vc_status mark_gone(struct vc_ctx *ctx, struct onnx_sink *self)
{
    const struct onnx *source = self->source;
    size_t i;

    for (i = 0; i < self->model->n_tensors; i++) {
        const struct onnx_link *link = &source->links[i];
        size_t symbol = source->tensors[link->tensor].symbol;
        size_t out = self->first_out[i];

        if (out == ONNX_NONE && self->model->tensors[i].companion_of == VC_NO_TENSOR) {
            return vc_fail(ctx, VC_E_ARGUMENT, "%s: the graph needs it, so it cannot be left out of an ONNX file",
                           self->model->tensors[i].name);
        }
        if (out == ONNX_NONE) { /* a scale or zero point that its tensor does not need any more */
            self->gone[symbol] |= ONNX_NAME_GONE;
        } else if (onnx_is_changed(self, out)) {
            drop_nodes(self, link);
            if (symbol != link->name) {
                self->gone[symbol] |= ONNX_NAME_GONE;
            } else if (onnx_n_nodes(self, out) != 0) {
                self->gone[symbol] |= ONNX_INPUT_GONE; /* a node makes it now */
            }
        }
    }
    return VC_OK;
}

enum vc_status onnx_plan_outs(struct vc_ctx *ctx, struct onnx_sink *self)
{
    const struct vc_out_list *outs = self->outs;
    const struct onnx *source = self->source;
    enum vc_status status = VC_OK;
    size_t i;

    self->first_out = vc_alloc_array(ctx, VC_TAG_NAMES, self->model->n_tensors, sizeof *self->first_out);
    VC_TRY_ALLOC(self->first_out);
    self->out = vc_calloc_array(ctx, VC_TAG_NAMES, outs->n, sizeof *self->out);
    VC_TRY_ALLOC(self->out);
    self->gone = vc_calloc_array(ctx, VC_TAG_NAMES, source->symbols.n, sizeof *self->gone);
    VC_TRY_ALLOC(self->gone);
    self->drop = vc_calloc_array(ctx, VC_TAG_NAMES, source->n_nodes, sizeof *self->drop);
    VC_TRY_ALLOC(self->drop);
    for (i = 0; i < self->model->n_tensors; i++) {
        self->first_out[i] = ONNX_NONE;
    }
    for (i = 0; i < outs->n; i++) {
        if (!outs->tensors[i].companion) {
            self->first_out[outs->tensors[i].source] = i;
        }
    }
    VC_TRY(mark_gone(ctx, self));
    for (i = 0; i < outs->n; i++) {
        if (outs->tensors[i].companion) {
            VC_TRY(choose_name(ctx, self, outs->tensors[i].name, "", &self->out[i].name));
        } else if (onnx_is_changed(self, i)) {
            VC_TRY(check_version(ctx, self, i));
            VC_TRY(name_main(ctx, self, i));
        }
    }
out:
    return status;
}
