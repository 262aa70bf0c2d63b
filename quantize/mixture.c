/* mixture.c - see mixture.h.
 *
 *     vc_mixture_read     once for a plan: what the file says of itself, and the order of the tensors
 *     vc_mixture_takes    whether the tensor becomes blocks at all
 *     vc_mixture_type     which ones: the rules are those of core/model/mixture_rules.c, for a kind and a place */
#include "quantize/mixture.h"

#include <vcompress/quantize.h>

#include "arch/arch_pictures.h"
#include "core/chain/pass.h"
#include "core/model/program.h"
#include "core/text/glob.h"

/* ---- kinds of tensors ---- */

/* Rules go by what a tensor does, which llama.cpp reads off its name. The first part that the name holds decides. */
static enum vc_mixture_kind kind_of(const char *name)
{
    static const struct {
        const char *part;
        enum vc_mixture_kind kind;
    } parts[] = {{"attn_qkv.weight", VC_MIXTURE_FUSED},
                 {"attn_kv_b.weight", VC_MIXTURE_FUSED},
                 {"attn_v.weight", VC_MIXTURE_VALUES},
                 {"attn_k.weight", VC_MIXTURE_KEYS},
                 {"attn_output.weight", VC_MIXTURE_ATTENTION_OUTPUT},
                 {"ffn_down", VC_MIXTURE_DOWN}};

    if (strcmp(name, "output.weight") == 0) {
        return VC_MIXTURE_OUTPUT;
    }
    if (strcmp(name, "token_embd.weight") == 0 || strcmp(name, "per_layer_token_embd.weight") == 0) {
        return VC_MIXTURE_EMBEDDING;
    }
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        if (strstr(name, parts[i].part) != NULL) {
            return parts[i].kind;
        }
    }
    return VC_MIXTURE_OTHER;
}

/* The layer in "blk.7.attn_v.weight"; -1: none. */
static int layer_of(const char *name)
{
    int layer;

    return sscanf(name, "blk.%9d.", &layer) == 1 ? layer : -1;
}

/* ---- what a model says ---- */

/* A whole number, or the first of a list with one for each layer; 0: the file does not say. */
static uint32_t number_of(const struct vc_program *program, const char *architecture, const char *tail)
{
    int64_t n = vc_program_number(program, architecture, tail, 0, 0);

    return n > 0 && n <= INT32_MAX ? (uint32_t)n : 0;
}

/* What the file's keys say: layers, experts, and how many query heads share a head of values. */
static void read_keys(const struct vc_program *program, struct vc_mixture_plan *out)
{
    const char *architecture = vc_program_architecture(program);
    uint32_t heads = number_of(program, architecture, "attention.head_count");
    uint32_t key_heads = number_of(program, architecture, "attention.head_count_kv");

    key_heads = key_heads == 0 ? heads : key_heads; /* as the loader has it where the file does not say */
    out->rules.query_share = key_heads != 0 ? heads / key_heads : 0;
    out->rules.n_layers = number_of(program, architecture, "block_count");
    out->rules.n_experts = number_of(program, architecture, "expert_count");
    out->rules.n_experts = out->rules.n_experts == 0 ? 1 : out->rules.n_experts;
    out->rules.falcon = strcmp(architecture, "falcon") == 0;
    out->rules.is_70b =
        (out->rules.n_layers == 80 &&
         ((strcmp(architecture, "llama") == 0 && heads != key_heads) || strcmp(architecture, "qwen2") == 0 ||
          strcmp(architecture, "deci") == 0 || strcmp(architecture, "olmo") == 0)) ||
        (out->rules.n_layers == 68 && strcmp(architecture, "jais2") == 0);
}

/* ---- places ---- */

/* A tensor while places are counted. */
struct named {
    const char *name;
    int layer;
    uint32_t tensor;
};

/* llama.cpp goes through the tensors by layer, then by name. */
static int compare_named(const void *a, const void *b)
{
    const struct named *x = a;
    const struct named *y = b;

    return x->layer != y->layer ? (x->layer < y->layer ? -1 : 1) : strcmp(x->name, y->name);
}

/* Numbers the tensors of one kind. values: those of attention; else the second matrices of feed-forward parts.
 * "blk.2.ffn_down.weight" of a model without gaps has place 2. */
static void number_tensors(const struct vc_plan *plan, bool values, struct named *list, struct vc_mixture_plan *out)
{
    size_t n = 0;

    for (size_t i = 0; i < plan->n_items; i++) {
        enum vc_mixture_kind kind = kind_of(plan->model->tensors[i].name);

        if ((values ? kind == VC_MIXTURE_VALUES || kind == VC_MIXTURE_FUSED : kind == VC_MIXTURE_DOWN) &&
            plan->items[i].desc->n_dims >= 2 && !plan->items[i].dropped) {
            list[n++] =
                (struct named){plan->model->tensors[i].name, layer_of(plan->model->tensors[i].name), (uint32_t)i};
        }
    }
    qsort(list, n, sizeof *list, compare_named);
    for (size_t i = 0; i < n; i++) {
        out->place[list[i].tensor] = (uint32_t)i;
    }
    out->rules.n_values = values ? (uint32_t)n : out->rules.n_values;
}

/* ---- networks that make pictures ---- */

/* What a mixture gives to some kinds of their tensors; the others have its base type. place: only those before that one
 * of the same kind, in the order of names; 0: all. Source: lcpp.patch of ComfyUI-GGUF 1.1.10 (img_tensor_get_type). */
static const struct {
    const char *mixture, *parts; /* of names, divided by blanks */
    enum vc_dtype type;
    uint32_t place;
} picture_rules[] = {
#define VALUES "attn_v.weight .to_v.weight .v.weight .attn.w1v.weight .attn.w2v.weight _attn.v_proj.weight"
#define FUSED  "attn_qkv.weight attn.qkv.weight attention.qkv.weight"
#define DOWN                                                                                     \
    "ffn_down .ffn.2.weight .ff.net.2.weight .mlp.layer2.weight .adaln_modulation_mlp.2.weight " \
    ".feed_forward.w2.weight"
    {"Q2_K", VALUES, VC_DTYPE_Q3_K, 0},   {"Q3_K_M", VALUES, VC_DTYPE_Q5_K, 2}, {"Q3_K_M", VALUES, VC_DTYPE_Q4_K, 0},
    {"Q3_K_L", VALUES, VC_DTYPE_Q5_K, 0}, {"Q4_K_S", VALUES, VC_DTYPE_Q5_K, 4}, {"Q4_K_M", VALUES, VC_DTYPE_Q6_K, 0},
    {"Q5_K_M", VALUES, VC_DTYPE_Q6_K, 0}, {"Q3_K_M", FUSED, VC_DTYPE_Q4_K, 0},  {"Q3_K_L", FUSED, VC_DTYPE_Q4_K, 0},
    {"Q4_K_M", FUSED, VC_DTYPE_Q5_K, 0},  {"Q5_K_M", FUSED, VC_DTYPE_Q6_K, 0},  {"Q3_K_M", DOWN, VC_DTYPE_Q4_K, 0},
    {"Q3_K_L", DOWN, VC_DTYPE_Q5_K, 0},   {"Q4_K_S", DOWN, VC_DTYPE_Q5_K, 0},   {"Q4_K_M", DOWN, VC_DTYPE_Q6_K, 0},
    {"Q5_K_M", DOWN, VC_DTYPE_Q6_K, 0},   {"Q4_0", DOWN, VC_DTYPE_Q4_1, 0},     {"Q5_0", DOWN, VC_DTYPE_Q5_1, 0},
#undef VALUES
#undef FUSED
#undef DOWN
};

/* One of the parts "a b c" is in the name. */
static bool has_part(const char *name, const char *parts)
{
    char part[64];

    while (*parts != '\0') {
        size_t n = strcspn(parts, " ");

        (void)snprintf(part, sizeof part, "%.*s", (int)n, parts);
        if (strstr(name, part) != NULL) {
            return true;
        }
        parts += n + (parts[n] == ' ');
    }
    return false;
}

/* How many tensors before that one have one of the parts in their names. */
static uint32_t place_of(const struct vc_mixture_plan *plan, const char *name, const char *parts)
{
    uint32_t place = 0;

    for (size_t i = 0; i < plan->plan->n_items; i++) {
        const char *other = plan->plan->model->tensors[i].name;

        place += has_part(other, parts) && strcmp(other, name) < 0;
    }
    return place;
}

static enum vc_dtype picture_type(const struct vc_mixture_plan *plan, const char *name)
{
    const struct vc_mixture *mixture = plan->rules.mixture;

    for (size_t i = 0; !plan->rules.pure && i < sizeof picture_rules / sizeof picture_rules[0]; i++) {
        if (strcmp(picture_rules[i].mixture, mixture->name) == 0 && has_part(name, picture_rules[i].parts) &&
            (picture_rules[i].place == 0 || place_of(plan, name, picture_rules[i].parts) < picture_rules[i].place)) {
            return picture_rules[i].type;
        }
    }
    return mixture->base;
}

bool vc_mixture_folds(const struct vc_mixture_plan *plan, const struct vc_item *item)
{
    const struct vc_tensor *t = &plan->plan->model->tensors[item - plan->plan->items];

    return plan->picture != NULL && plan->picture->folded && t->n_dims > 1 && t->n_elems >= 2 * VC_FOLDED_ROW &&
           t->n_elems % VC_FOLDED_ROW == 0 && t->shape[t->n_dims - 1] % VC_FOLDED_ROW != 0;
}

const char *vc_mixture_keeps_picture(const struct vc_mixture_plan *plan, const struct vc_item *item, bool *f32)
{
    const struct vc_tensor *t = &plan->plan->model->tensors[item - plan->plan->items];
    const char *tail = strrchr(t->name, '.');
    char layer[512];

    *f32 = vc_arch_picture_is_f32(plan->picture, plan->prefix, t->name, t->n_dims, t->n_elems);
    (void)snprintf(layer, sizeof layer, "%.*s", (int)(tail != NULL ? (size_t)(tail - t->name) : strlen(t->name)),
                   t->name);
    if (vc_arch_picture_keeps(plan->picture, plan->prefix, layer) != NULL) {
        return vc_arch_picture_keeps(plan->picture, plan->prefix, layer);
    }
    if (*f32 || (item->desc->n_dims != 2 && !vc_mixture_folds(plan, item))) {
        return "no matrix of a linear layer";
    }
    return NULL;
}

/* `foreign` stays true only if no name is one of llama.cpp's; `tied` where no tensor is the output. Layers are counted
 * by the names where the file does not say how many there are. */
enum vc_status vc_mixture_read(struct vc_ctx *ctx, struct vc_arena *arena, const struct vc_plan *plan,
                               const struct vc_mixture *mixture, bool pure, struct vc_mixture_plan *out)
{
    struct vc_program program;
    struct named *list;
    int last = -1;

    *out = (struct vc_mixture_plan){
        .rules = {.mixture = mixture, .pure = pure, .n_experts = 1, .tied = true}, .plan = plan, .foreign = true};
    out->picture = vc_arch_picture_find(plan->model, &out->prefix);
    VC_CALL_ALLOC(out->place = vc_arena_alloc(ctx, arena, (plan->n_items + 1) * sizeof *out->place));
    VC_CALL_ALLOC(list = vc_arena_alloc(ctx, arena, (plan->n_items + 1) * sizeof *list));
    VC_CALL(vc_model_program(ctx, plan->model, arena, &program));
    /* as a file behind the passes before would say it */
    if (plan->n_edits != 0) {
        VC_CALL(vc_program_edit(ctx, plan->edits, plan->n_edits, arena, &program));
    }
    if (program.kind == VC_PROGRAM_KEYS) {
        read_keys(&program, out);
    }
    for (size_t i = 0; i < plan->n_items; i++) {
        int layer = layer_of(plan->model->tensors[i].name);

        out->place[i] = 0;
        out->foreign = out->foreign && layer < 0 && strstr(plan->model->tensors[i].name, "blk.") == NULL &&
                       kind_of(plan->model->tensors[i].name) == VC_MIXTURE_OTHER;
        out->rules.tied = out->rules.tied && kind_of(plan->model->tensors[i].name) != VC_MIXTURE_OUTPUT;
        last = layer > last ? layer : last;
    }
    out->rules.n_layers = out->rules.n_layers == 0 ? (uint32_t)(last + 1) : out->rules.n_layers;
    number_tensors(plan, true, list, out);
    number_tensors(plan, false, list, out);
    return VC_OK;
}

bool vc_mixture_scales(const struct vc_mixture_plan *plan, const struct vc_item *item)
{
    /* the weights that load_tensors of llama.cpp looks for a ".scale" of, whatever the architecture */
    static struct vc_glob_set scaled = {
        .n = 13,
        .globs = {"blk.*.attn_[qkv].weight", "blk.*.attn_output.weight", "blk.*.attn_qkv.weight",
                  "blk.*.attn_gate.weight", "blk.*.ffn_gate.weight", "blk.*.ffn_down.weight", "blk.*.ffn_up.weight",
                  "blk.*.ffn_gate_[es]*", "blk.*.ffn_down_[es]*", "blk.*.ffn_up_[es]*", "blk.*.ssm_out.weight",
                  "blk.*.ssm_alpha.weight", "blk.*.ssm_beta.weight"}};
    const struct vc_model *model = plan->plan->model;
    const char *name = model->tensors[item - plan->plan->items].name;
    const char *tail = strrchr(name, '.');
    char scale[128]; /* more than a name of GGUF has */
    size_t there;

    if (tail == NULL || strcmp(tail, ".weight") != 0 || strlen(name) >= sizeof scale ||
        (!plan->foreign && vc_glob_set_find(&scaled, name) == SIZE_MAX)) {
        return false;
    }
    (void)snprintf(scale, sizeof scale, "%.*s.scale", (int)(tail - name), name);
    there =
        vc_model_find(model, scale); /* something else, such as numbers of Gemma 4's experts, unless it is its own */
    return there == VC_NO_TENSOR || model->tensors[there].part_of == (size_t)(item - plan->plan->items);
}

/* Two things may change what the rules say: NVFP4 needs a scale beside the blocks, for which some tensors have no
 * place, and a last axis that the blocks do not divide. */
enum vc_dtype vc_mixture_type(const struct vc_mixture_plan *plan, const struct vc_item *item, enum vc_dtype *fallback)
{
    size_t index = (size_t)(item - plan->plan->items);
    const char *name = plan->plan->model->tensors[index].name;
    const struct vc_desc *desc = item->desc;
    const struct vc_mixture_tensor tensor = {kind_of(name), plan->place[index], layer_of(name), desc->n_dims,
                                             desc->shape};
    enum vc_dtype rule = plan->picture != NULL ? picture_type(plan, name) : vc_mixture_rule(&plan->rules, &tensor);
    bool small = rule == VC_DTYPE_NVFP4 && !plan->rules.pure && !vc_mixture_scales(plan, item); /* for its scales */
    enum vc_dtype wanted = small ? VC_DTYPE_Q4_K : rule;
    enum vc_dtype type = vc_mixture_whole_blocks(wanted, desc->shape[desc->n_dims - 1]);

    *fallback = type != wanted ? wanted : VC_DTYPE_NONE;
    return type;
}

bool vc_mixture_takes(const struct vc_mixture_plan *plan, const struct vc_item *item)
{
    /* tensor_allows_quantization of llama-quant.cpp */
    static struct vc_glob_set kept = {.n = 32,
                                      .globs = {"*_norm.weight*",
                                                "*ffn_gate_inp.weight*",
                                                "*ffn_gate_tid2eid.weight*",
                                                "*altup*",
                                                "*laurel*",
                                                "*per_layer_model_proj*",
                                                "position_embd.weight",
                                                "token_types.weight",
                                                "*ssm_conv1d*",
                                                "*shortconv.conv.weight*",
                                                "*indexer.k_proj.weight*",
                                                "*indexer.q_proj.weight*",
                                                "*time_mix_first.weight*",
                                                "*time_mix_w[012].weight*",
                                                "*time_mix_v[012].weight*",
                                                "*time_mix_a[012].weight*",
                                                "*time_mix_g[12].weight*",
                                                "*time_mix_decay_w[12].weight*",
                                                "*time_mix_lerp_fused.weight*",
                                                "*attn_rel_b.weight*",
                                                "*.position_embd*",
                                                "*sam.pos_embd*",
                                                "*sam.neck.*",
                                                "*sam.net_*",
                                                "*.rel_pos*",
                                                "*.patch_embd*",
                                                "*.patch_merger*",
                                                "mm.input_projection.weight", /* clip.cpp turns it on its side */
                                                "*a.rvq.codebook*",
                                                "*mm.a.code_embd*",
                                                "*.rope_freqs*",
                                                "rope_freqs*"}};
    const char *name = plan->plan->model->tensors[item - plan->plan->items].name;
    size_t n = strlen(name);
    bool one_row = item->desc->n_elems == item->desc->shape[item->desc->n_dims - 1]; /* ggml counts 1 dimension */

    return !one_row && n >= strlen("weight") && strcmp(name + n - strlen("weight"), "weight") == 0 &&
           vc_glob_set_find(&kept, name) == SIZE_MAX;
}
