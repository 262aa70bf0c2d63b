/* lora_modules.c - the tensors of an adapter sorted into modules, by the ends of their names.
 *
 *     base_model.model.layers.0.q_proj.lora_A.weight      module layers.0.q_proj    DOWN
 *     base_model.model.layers.0.q_proj.lora_B.weight      module layers.0.q_proj    UP
 *     lora_unet_mid_block.alpha                           module lora_unet_mid_block    ALPHA, flat
 *     diffusion_model.blocks.0.norm3.diff                 module diffusion_model.blocks.0.norm3    DIFF
 *     base_model.model.score.modules_to_save.weight       module score.weight       WHOLE
 *
 * Pieces are sorted by module, so those of one module lie next to each other and are joined. Kinds of
 * adapters that are not merged are refused by a part of a name: a file of them looks much like one that is. */

#include "core/base/array.h"
#include "merge/lora.h"

/* PEFT wraps the model twice. */
#define WRAPPED "base_model.model."

/* Ends of names: of PEFT (with the adapter's name in files of torch.save), kohya's trainers, diffusers' older ones, and what
 * ComfyUI and LyCORIS add without factors. */
static const struct {
    const char *end;
    enum vc_lora_piece piece;
    bool embedding;
} ends[] = {
    {".lora_A.weight", VC_LORA_DOWN, false},
    {".lora_A.default.weight", VC_LORA_DOWN, false},
    {".lora_down.weight", VC_LORA_DOWN, false},
    {".lora.down.weight", VC_LORA_DOWN, false},
    {".lora_linear_layer.down.weight", VC_LORA_DOWN, false},
    {".lora_embedding_A", VC_LORA_DOWN, true},
    {".lora_embedding_A.default", VC_LORA_DOWN, true},
    {".lora_B.weight", VC_LORA_UP, false},
    {".lora_B.default.weight", VC_LORA_UP, false},
    {".lora_up.weight", VC_LORA_UP, false},
    {".lora.up.weight", VC_LORA_UP, false},
    {".lora_linear_layer.up.weight", VC_LORA_UP, false},
    {".lora_embedding_B", VC_LORA_UP, true},
    {".lora_embedding_B.default", VC_LORA_UP, true},
    {".lora_magnitude_vector", VC_LORA_MAGNITUDE, false},
    {".lora_magnitude_vector.weight", VC_LORA_MAGNITUDE, false},
    {".lora_magnitude_vector.default.weight", VC_LORA_MAGNITUDE, false},
    {".lora_B.bias", VC_LORA_UP_BIAS, false},
    {".lora_B.default.bias", VC_LORA_UP_BIAS, false},
    {".alpha", VC_LORA_ALPHA, false},
    {".diff", VC_LORA_DIFF, false},
    {".w_norm", VC_LORA_DIFF, false},
    {".diff_b", VC_LORA_DIFF_BIAS, false},
    {".b_norm", VC_LORA_DIFF_BIAS, false},
    {".set_weight", VC_LORA_SET, false},
};

/* Parts of names of other kinds of adapters. */
static const struct {
    const char *part, *kind;
} foreign[] = {
    {".lora_mid.", "a convolution in three factors (LoCon's Tucker form)"},
    {".dora_scale", "LyCORIS's DoRA, whose norms its programs take in other ways"},
    {".hada_w", "LoHa"},
    {".lokr_w", "LoKr"},
    {".oft_", "OFT"},
    {".boft_", "BOFT"},
    {".ia3_l", "IA3"},
    {".vera_lambda", "VeRA"},
    {".lora_E", "AdaLoRA"},
    {".glora", "GLoRA"},
    {"prompt_embeddings", "a prompt"},
};

/* Parts of names of what training alone needs: VeLoRA's and MonteCLoRA's, and what a trained module has replaced. */
static const char *const unused[] = {".lora_velora_", ".lora_monteclora_", ".original_module."};

/* The name ends in `end` and has something before it. */
static bool ends_in(const char *name, const char *end)
{
    size_t n = strlen(name);
    size_t k = strlen(end);

    return n > k && strcmp(name + n - k, end) == 0;
}

/* One tensor's place. */
struct piece {
    const char *module;
    size_t n; /* bytes of it that are the module's name */
    enum vc_lora_piece piece;
    bool embedding;
    size_t tensor;
    bool base;
    const struct vc_adapter_rows *rows;
};

#define TOKENS ".token_adapter.trainable_tokens_delta"

/* Rows of an embedding, "embed_tokens.token_adapter.trainable_tokens_delta": which ones the configuration says. */
static enum vc_status place_rows(struct vc_ctx *ctx, struct vc_arena *arena, const struct vc_lora_list *list,
                                 const char *name, struct piece *out)
{
    int n = (int)(strlen(name) - strlen(TOKENS));

    for (size_t i = 0; out->rows == NULL && i < list->said.n_tokens; i++) {
        const char *module = list->said.tokens[i].module;
        size_t k = module != NULL ? strlen(module) : 0;
        bool fits = module == NULL || ((size_t)n >= k && strncmp(name + (size_t)n - k, module, k) == 0 &&
                                       ((size_t)n == k || name[(size_t)n - k - 1] == '.'));

        out->rows = fits ? &list->said.tokens[i] : NULL;
    }
    VC_REFUSE_IF(out->rows == NULL, ctx, VC_E_FORMAT, "%s: no trainable_token_indices say which rows %s is",
                 list->adapter->path, name);
    VC_CALL_ALLOC(out->module = vc_arena_printf(ctx, arena, "%.*s.weight", n, name));
    out->n = strlen(out->module);
    return VC_OK;
}

/* Names of whole tensors as the model calls them: PEFT keeps the module that it replaced beside the trained one. */
static enum vc_status place_whole(struct vc_ctx *ctx, struct vc_arena *arena, const char *name, struct piece *out)
{
    static const char *const inside[] = {".modules_to_save.default.", ".modules_to_save.", ".base_layer."};

    for (size_t i = 0; i < sizeof inside / sizeof inside[0]; i++) {
        const char *at = strstr(name, inside[i]);

        if (at != NULL) {
            out->module = vc_arena_printf(ctx, arena, "%.*s.%s", (int)(at - name), name, at + strlen(inside[i]));
            VC_CALL_ALLOC(out->module);
            out->n = strlen(out->module);
            out->base = i == 2;
            return VC_OK;
        }
    }
    out->module = name;
    out->n = strlen(name);
    return VC_OK;
}

/* Which module a tensor belongs to, and as what. A name with none of the known ends is a whole tensor. */
static enum vc_status place(struct vc_ctx *ctx, struct vc_arena *arena, const struct vc_lora_list *list, size_t tensor,
                            struct piece *out)
{
    const struct vc_model *adapter = list->adapter;
    const char *name = adapter->tensors[tensor].name;

    for (size_t i = 0; i < sizeof foreign / sizeof foreign[0]; i++) {
        VC_REFUSE_IF(strstr(name, foreign[i].part) != NULL, ctx, VC_E_UNSUPPORTED,
                     "%s: %s is of a kind of adapter that is not merged here: %s", adapter->path, name,
                     foreign[i].kind);
    }
    *out = (struct piece){.tensor = tensor};
    if (strncmp(name, WRAPPED, strlen(WRAPPED)) == 0) {
        name += strlen(WRAPPED);
    }
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        if (ends_in(name, ends[i].end)) {
            out->module = name;
            out->n = strlen(name) - strlen(ends[i].end);
            out->piece = ends[i].piece;
            out->embedding = ends[i].embedding;
            return VC_OK;
        }
    }
    out->piece = VC_LORA_WHOLE;
    return ends_in(name, TOKENS) ? place_rows(ctx, arena, list, name, out) : place_whole(ctx, arena, name, out);
}

static bool is_unused(const char *name)
{
    return strstr(name, unused[0]) != NULL || strstr(name, unused[1]) != NULL || strstr(name, unused[2]) != NULL;
}

/* Whole tensors are modules of their own: one may be called as a module is. */
static int compare(const void *a, const void *b)
{
    const struct piece *p = a;
    const struct piece *q = b;

    return VC_FIRST_ORDER(VC_ORDER(p->piece == VC_LORA_WHOLE, q->piece == VC_LORA_WHOLE),
                          memcmp(p->module, q->module, p->n < q->n ? p->n : q->n), VC_ORDER(p->n, q->n),
                          VC_ORDER(p->piece, q->piece));
}

static bool same_module(const struct piece *p, const struct piece *q)
{
    return (p->piece == VC_LORA_WHOLE) == (q->piece == VC_LORA_WHOLE) && p->n == q->n &&
           memcmp(p->module, q->module, p->n) == 0;
}

/* Whether what is there can be merged: both factors where there is a part of them, or what needs none. */
static bool is_complete(const struct vc_lora_module *m)
{
    bool factors = false;
    bool apart = false;

    for (size_t k = VC_LORA_DOWN; k <= VC_LORA_UP_BIAS; k++) {
        factors = factors || m->tensors[k] != VC_NO_TENSOR;
    }
    for (size_t k = VC_LORA_WHOLE; k < VC_LORA_PIECES; k++) {
        apart = apart || m->tensors[k] != VC_NO_TENSOR;
    }
    return factors ? m->tensors[VC_LORA_DOWN] != VC_NO_TENSOR && m->tensors[VC_LORA_UP] != VC_NO_TENSOR : apart;
}

/* The pieces of one module, from `p` on. Two tensors for one piece are refused, a factor without the other, and what goes
 * with factors (alpha) without any. With the biases of all layers peft stores the bias of a module to save twice, as
 * score.bias and score.modules_to_save.bias, and reads the first. */
static enum vc_status join(struct vc_ctx *ctx, struct vc_arena *arena, const struct vc_model *adapter,
                           const struct piece *p, size_t n, struct vc_lora_module *out)
{
    bool whole = p->piece == VC_LORA_WHOLE;

    for (size_t k = 0; k < VC_LORA_PIECES; k++) {
        out->tensors[k] = VC_NO_TENSOR;
    }
    VC_CALL_ALLOC(out->name = vc_arena_copy(ctx, arena, p->module, p->n));
    out->flat = strchr(out->name, '.') == NULL && strncmp(out->name, "lora_", 5) == 0;
    for (size_t k = 0; k < n; k++) {
        size_t taken = out->tensors[p[k].piece];
        const char *name = adapter->tensors[p[k].tensor].name;
        const char *other = taken != VC_NO_TENSOR ? adapter->tensors[taken].name : name;
        bool saved = strstr(name, ".modules_to_save.") != NULL;
        bool twice = whole && saved != (strstr(other, ".modules_to_save.") != NULL);

        VC_REFUSE_IF(taken != VC_NO_TENSOR && !twice, ctx, VC_E_FORMAT, "%s: %s and %s are the same factor",
                     adapter->path, other, name);
        if (twice && saved) {
            continue;
        }
        out->tensors[p[k].piece] = p[k].tensor;
        out->embedding = out->embedding || p[k].embedding;
        out->base = p[k].base;
        out->rows = p[k].rows;
    }
    VC_REFUSE_IF(!is_complete(out), ctx, VC_E_FORMAT, "%s: %s has one of two factors, or none: %s", adapter->path,
                 out->name, adapter->tensors[p->tensor].name);
    return VC_OK;
}

/* Reads what lies beside the adapter, such as its configuration, then sorts the names. A file without any
 * factor is no adapter. */
enum vc_status vc_lora_modules(struct vc_ctx *ctx, struct vc_arena *arena, const struct vc_model *adapter,
                               struct vc_lora_list *out)
{
    size_t n = 0;
    size_t n_known = 0; /* pieces by the end of their name */
    VC_SCOPED struct piece *pieces = NULL;

    *out = (struct vc_lora_list){.adapter = adapter};
    if (adapter->adapter_beside != NULL) {
        enum vc_status said = adapter->adapter_beside(ctx, adapter, arena, &out->said);

        if (said != VC_OK) {
            return vc_context(ctx, "%s", adapter->path);
        }
    }
    VC_REFUSE_IF(out->said.refusal != NULL, ctx, VC_E_UNSUPPORTED, "%s: %s", adapter->path, out->said.refusal);
    VC_CALL(VC_ZEROS(ctx, VC_TAG_NAMES, pieces, adapter->n_tensors + 1));
    for (size_t i = 0; i < adapter->n_tensors; i++) {
        if (!is_unused(adapter->tensors[i].name)) {
            VC_CALL(place(ctx, arena, out, i, &pieces[n]));
            n_known += pieces[n++].piece != VC_LORA_WHOLE;
        }
    }
    VC_CALL_ALLOC(out->modules = vc_arena_alloc(ctx, arena, (n + 1) * sizeof *out->modules));
    memset(out->modules, 0, (n + 1) * sizeof *out->modules);
    VC_REFUSE_IF(n_known == 0, ctx, VC_E_UNSUPPORTED,
                 "%s: is no low-rank adapter: no tensor has a name such as layers.0.q_proj.lora_A.weight or "
                 "lora_unet_mid_block.lora_down.weight",
                 adapter->path);
    qsort(pieces, n, sizeof *pieces, compare);
    for (size_t i = 0, end; i < n; i = end) {
        for (end = i + 1; end < n && same_module(&pieces[i], &pieces[end]); end++) {
        }
        VC_CALL(join(ctx, arena, adapter, &pieces[i], end - i, &out->modules[out->n]));
        out->n++;
    }
    return VC_OK;
}
