/* mixture.c - see mixture.h. */
#include "quantize/mixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/chain/pass.h"
#include "core/model/program.h"
#include "core/text/glob.h"

/* The names that llama-quantize knows, and general.file_type has a number for (formats/gguf/gguf_metadata.c). IQ1 to
 * IQ3 need codebooks that this program does not make, Q2_K_S needs statistics of data. */
static const struct vc_mixture mixtures[] = {
    {"Q4_0", VC_DTYPE_Q4_0},       {"Q4_1", VC_DTYPE_Q4_1},   {"Q5_0", VC_DTYPE_Q5_0},     {"Q5_1", VC_DTYPE_Q5_1},
    {"Q8_0", VC_DTYPE_Q8_0},       {"Q2_K", VC_DTYPE_Q2_K},   {"Q3_K_S", VC_DTYPE_Q3_K},   {"Q3_K_M", VC_DTYPE_Q3_K},
    {"Q3_K_L", VC_DTYPE_Q3_K},     {"Q4_K_S", VC_DTYPE_Q4_K}, {"Q4_K_M", VC_DTYPE_Q4_K},   {"Q5_K_S", VC_DTYPE_Q5_K},
    {"Q5_K_M", VC_DTYPE_Q5_K},     {"Q6_K", VC_DTYPE_Q6_K},   {"IQ4_NL", VC_DTYPE_IQ4_NL}, {"IQ4_XS", VC_DTYPE_IQ4_XS},
    {"MXFP4_MOE", VC_DTYPE_MXFP4}, {"Q1_0", VC_DTYPE_Q1_0},   {"Q2_0", VC_DTYPE_Q2_0},     {"TQ1_0", VC_DTYPE_TQ1_0},
    {"TQ2_0", VC_DTYPE_TQ2_0},
};
static const size_t n_mixtures = sizeof mixtures / sizeof mixtures[0];

static bool same_letters(const char *a, const char *b)
{
    while (*a != '\0' && (*a >= 'a' && *a <= 'z' ? *a - 32 : *a) == *b) {
        a++;
        b++;
    }
    return *a == '\0' && *b == '\0';
}

const struct vc_mixture *vc_mixture_of_name(const char *name)
{
    static const struct {
        const char *name, *means;
    } short_names[] = {{"Q3_K", "Q3_K_M"}, {"Q4_K", "Q4_K_M"}, {"Q5_K", "Q5_K_M"}};

    for (size_t i = 0; i < sizeof short_names / sizeof short_names[0]; i++) {
        name = same_letters(name, short_names[i].name) ? short_names[i].means : name;
    }
    for (size_t i = 0; i < n_mixtures; i++) {
        if (same_letters(name, mixtures[i].name)) {
            return &mixtures[i];
        }
    }
    return NULL;
}

void vc_mixture_list(char *text, size_t n_bytes)
{
    size_t n = 0;

    for (size_t i = 0; i < n_mixtures && n < n_bytes; i++) {
        n += (size_t)snprintf(text + n, n_bytes - n, "%s%s", i == 0 ? "" : ", ", mixtures[i].name);
    }
}

/* ---- kinds of tensors ---- */

enum kind { OTHER, OUTPUT, EMBEDDING, FUSED, VALUES, KEYS, ATTENTION_OUTPUT, DOWN };

static enum kind kind_of(const char *name)
{
    static const struct {
        const char *part;
        enum kind kind;
    } parts[] = {{"attn_qkv.weight", FUSED},
                 {"attn_kv_b.weight", FUSED},
                 {"attn_v.weight", VALUES},
                 {"attn_k.weight", KEYS},
                 {"attn_output.weight", ATTENTION_OUTPUT},
                 {"ffn_down", DOWN}};

    if (strcmp(name, "output.weight") == 0) {
        return OUTPUT;
    }
    if (strcmp(name, "token_embd.weight") == 0 || strcmp(name, "per_layer_token_embd.weight") == 0) {
        return EMBEDDING;
    }
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        if (strstr(name, parts[i].part) != NULL) {
            return parts[i].kind;
        }
    }
    return OTHER;
}

/* Of attention: what holds the values, alone or with others. Mixtures count them together. */
static bool has_values(enum kind kind)
{
    return kind == VALUES || kind == FUSED;
}

/* The layer in "blk.7.attn_v.weight"; -1: none. */
static int layer_of(const char *name)
{
    int layer;

    return sscanf(name, "blk.%9d.", &layer) == 1 ? layer : -1;
}

/* ---- what a model says ---- */

static const struct vc_program_key *key_of(const struct vc_program *program, const char *architecture, const char *tail)
{
    char name[128];

    (void)snprintf(name, sizeof name, "%s.%s", architecture, tail);
    for (size_t i = 0; i < program->n_keys; i++) {
        if (strcmp(program->keys[i].key, name) == 0) {
            return &program->keys[i];
        }
    }
    return NULL;
}

/* A whole number, or the first of a list with one for each layer; 0: the file does not say. */
static uint32_t number_of(const struct vc_program *program, const char *architecture, const char *tail)
{
    const struct vc_program_key *key = key_of(program, architecture, tail);
    int64_t n = key == NULL                           ? 0
                : key->is_integer                     ? key->integer
                : key->integers != NULL && key->n > 0 ? key->integers[0]
                                                      : 0;

    return n > 0 && n <= INT32_MAX ? (uint32_t)n : 0;
}

static void read_keys(const struct vc_program *program, struct vc_mixture_plan *out)
{
    const char *architecture = "";
    uint32_t heads;
    uint32_t key_heads;

    for (size_t i = 0; i < program->n_keys; i++) {
        if (strcmp(program->keys[i].key, "general.architecture") == 0 && program->keys[i].is_text) {
            architecture = program->keys[i].text;
        }
    }
    heads = number_of(program, architecture, "attention.head_count");
    key_heads = number_of(program, architecture, "attention.head_count_kv");
    key_heads = key_heads == 0 ? heads : key_heads; /* as the loader has it where the file does not say */
    out->query_share = key_heads != 0 ? heads / key_heads : 0;
    out->n_layers = number_of(program, architecture, "block_count");
    out->n_experts = number_of(program, architecture, "expert_count");
    out->n_experts = out->n_experts == 0 ? 1 : out->n_experts;
    out->falcon = strcmp(architecture, "falcon") == 0;
    out->is_70b = (out->n_layers == 80 &&
                   ((strcmp(architecture, "llama") == 0 && heads != key_heads) || strcmp(architecture, "qwen2") == 0 ||
                    strcmp(architecture, "deci") == 0 || strcmp(architecture, "olmo") == 0)) ||
                  (out->n_layers == 68 && strcmp(architecture, "jais2") == 0);
}

/* ---- places ---- */

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

/* Numbers the tensors of one kind. */
static void number_tensors(const struct vc_plan *plan, bool values, struct named *list, struct vc_mixture_plan *out)
{
    size_t n = 0;

    for (size_t i = 0; i < plan->n_items; i++) {
        enum kind kind = kind_of(plan->model->tensors[i].name);

        if ((values ? has_values(kind) : kind == DOWN) && plan->items[i].desc->n_dims >= 2 && !plan->items[i].dropped) {
            list[n++] =
                (struct named){plan->model->tensors[i].name, layer_of(plan->model->tensors[i].name), (uint32_t)i};
        }
    }
    qsort(list, n, sizeof *list, compare_named);
    for (size_t i = 0; i < n; i++) {
        out->place[list[i].tensor] = (uint32_t)i;
    }
    out->n_values = values ? (uint32_t)n : out->n_values;
}

enum vc_status vc_mixture_read(struct vc_ctx *ctx, struct vc_arena *arena, const struct vc_plan *plan,
                               const struct vc_mixture *mixture, bool pure, struct vc_mixture_plan *out)
{
    struct vc_program program;
    struct named *list;
    int last = -1;

    *out = (struct vc_mixture_plan){
        .mixture = mixture, .pure = pure, .plan = plan, .n_experts = 1, .foreign = true, .tied = true};
    out->place = vc_arena_alloc(ctx, arena, (plan->n_items + 1) * sizeof *out->place);
    VC_CALL_ALLOC(out->place);
    list = vc_arena_alloc(ctx, arena, (plan->n_items + 1) * sizeof *list);
    VC_CALL_ALLOC(list);
    VC_CALL(vc_model_program(ctx, plan->model, arena, &program));
    /* as a file behind the passes before would say it */
    VC_CALL(plan->n_edits != 0 ? vc_program_edit(ctx, plan->edits, plan->n_edits, arena, &program) : VC_OK);
    if (program.kind == VC_PROGRAM_KEYS) {
        read_keys(&program, out);
    }
    for (size_t i = 0; i < plan->n_items; i++) {
        int layer = layer_of(plan->model->tensors[i].name);

        out->place[i] = 0;
        out->foreign = out->foreign && layer < 0 && strstr(plan->model->tensors[i].name, "blk.") == NULL &&
                       kind_of(plan->model->tensors[i].name) == OTHER;
        out->tied = out->tied && kind_of(plan->model->tensors[i].name) != OUTPUT;
        last = layer > last ? layer : last;
    }
    out->n_layers = out->n_layers == 0 ? (uint32_t)(last + 1) : out->n_layers;
    number_tensors(plan, true, list, out);
    number_tensors(plan, false, list, out);
    return VC_OK;
}

/* ---- types ---- */

/* The first and the last eighth of n, and every third between. */
static bool more_bits(uint32_t i, uint32_t n)
{
    return i < n / 8 || i >= 7 * n / 8 || (i - n / 8) % 3 == 2;
}

static bool is(const struct vc_mixture_plan *p, const char *name)
{
    return strcmp(p->mixture->name, name) == 0;
}

static enum vc_dtype type_of_output(const struct vc_mixture_plan *p, uint64_t row)
{
    size_t elems;
    size_t bytes;

    vc_dtype_block(p->mixture->base, &elems, &bytes);
    if (is(p, "MXFP4_MOE") || p->falcon || row % elems != 0) {
        return VC_DTYPE_Q8_0;
    }
    return p->mixture->base == VC_DTYPE_Q8_0 ? VC_DTYPE_Q8_0 : VC_DTYPE_Q6_K;
}

static enum vc_dtype type_of_values(const struct vc_mixture_plan *p, uint32_t i)
{
    enum vc_dtype type = p->mixture->base;

    if (is(p, "Q2_K")) {
        type = p->query_share >= 4 ? VC_DTYPE_Q4_K : VC_DTYPE_Q3_K;
    } else if (is(p, "Q3_K_M")) {
        type = i < 2 ? VC_DTYPE_Q5_K : VC_DTYPE_Q4_K;
    } else if (is(p, "Q3_K_L") || ((is(p, "IQ4_NL") || is(p, "IQ4_XS")) && p->query_share >= 4) ||
               (is(p, "Q4_K_S") && i < 4)) {
        type = VC_DTYPE_Q5_K;
    } else if ((is(p, "Q4_K_M") || is(p, "Q5_K_M")) && more_bits(i, p->n_values)) {
        type = VC_DTYPE_Q6_K;
    }
    if (p->is_70b && (type == VC_DTYPE_Q3_K || type == VC_DTYPE_Q4_K)) {
        type = VC_DTYPE_Q5_K;
    }
    return p->n_experts == 8 ? VC_DTYPE_Q8_0 : type;
}

/* Of the second matrix of a feed-forward part; i: its place, or with experts its layer. */
static enum vc_dtype type_of_down(const struct vc_mixture_plan *p, uint32_t i)
{
    uint32_t n = p->n_layers;

    if (is(p, "Q2_K")) {
        return VC_DTYPE_Q3_K;
    }
    if (is(p, "Q3_K_M")) {
        return i < n / 16 ? VC_DTYPE_Q5_K : !p->falcon || more_bits(i, n) ? VC_DTYPE_Q4_K : VC_DTYPE_Q3_K;
    }
    if (is(p, "Q3_K_L")) {
        return p->falcon ? VC_DTYPE_Q4_K : VC_DTYPE_Q5_K;
    }
    if (is(p, "Q4_K_M") && p->falcon) {
        return i < n / 16 ? VC_DTYPE_Q6_K : more_bits(i, n) ? VC_DTYPE_Q5_K : VC_DTYPE_Q4_K;
    }
    if ((is(p, "Q4_K_M") || is(p, "Q5_K_M")) && more_bits(i, n)) {
        return VC_DTYPE_Q6_K;
    }
    if (i < n / 8 && p->statistics && (is(p, "Q4_0") || is(p, "Q5_0"))) {
        return is(p, "Q4_0") ? VC_DTYPE_Q4_1 : VC_DTYPE_Q5_1;
    }
    if (i < n / 8 && p->statistics && (is(p, "IQ4_NL") || is(p, "IQ4_XS"))) {
        return p->mixture->base;
    }
    if (i < n / 8 && (is(p, "IQ4_NL") || is(p, "IQ4_XS") || (is(p, "Q4_K_S") && !p->falcon))) {
        return VC_DTYPE_Q5_K;
    }
    return p->mixture->base;
}

static enum vc_dtype type_of_attention_output(const struct vc_mixture_plan *p)
{
    static const char *const raised[] = {"Q2_K", "Q3_K_S", "Q3_K_M", "IQ4_NL", "Q4_K_S", "Q4_K_M", "IQ4_XS"};
    bool found = false;

    if (p->falcon) {
        return is(p, "Q3_K_L") ? VC_DTYPE_Q4_K : p->mixture->base;
    }
    for (size_t i = 0; i < sizeof raised / sizeof raised[0]; i++) {
        found = found || is(p, raised[i]);
    }
    if (p->n_experts == 8) {
        return found ? VC_DTYPE_Q5_K : p->mixture->base;
    }
    return is(p, "Q2_K")     ? VC_DTYPE_Q3_K
           : is(p, "Q3_K_M") ? VC_DTYPE_Q4_K
           : is(p, "Q3_K_L") ? VC_DTYPE_Q5_K
                             : p->mixture->base;
}

/* What the mixture wants, whatever the shape. */
static enum vc_dtype wanted(const struct vc_mixture_plan *p, const struct vc_item *item, const char *name)
{
    const struct vc_desc *desc = item->desc;
    uint32_t place = p->place[item - p->plan->items];
    enum kind kind = kind_of(name);
    int layer = layer_of(name);

    if (p->pure) {
        return p->mixture->base;
    }
    if (kind == OUTPUT || (kind == EMBEDDING && p->tied)) {
        return type_of_output(p, desc->shape[desc->n_dims - 1]);
    }
    if (is(p, "MXFP4_MOE")) {
        return desc->n_dims == 3 && desc->shape[0] > 1 ? VC_DTYPE_MXFP4 : VC_DTYPE_Q8_0;
    }
    if (kind == EMBEDDING && (is(p, "TQ1_0") || is(p, "TQ2_0") || is(p, "Q2_0"))) {
        return VC_DTYPE_Q4_K;
    }
    if (has_values(kind)) {
        return type_of_values(p, place);
    }
    if (kind == KEYS && p->n_experts == 8) {
        return VC_DTYPE_Q8_0;
    }
    if (kind == DOWN) {
        return type_of_down(p, p->n_experts > 1 && layer >= 0 ? (uint32_t)layer : place);
    }
    return kind == ATTENTION_OUTPUT ? type_of_attention_output(p) : p->mixture->base;
}

/* The type of smaller blocks that takes the place of one whose blocks do not divide a row. */
static enum vc_dtype smaller_blocks(enum vc_dtype type)
{
    switch (type) {
    case VC_DTYPE_IQ4_XS:
        return VC_DTYPE_IQ4_NL;
    case VC_DTYPE_Q2_0:
    case VC_DTYPE_Q2_K:
    case VC_DTYPE_Q3_K:
    case VC_DTYPE_TQ1_0:
    case VC_DTYPE_TQ2_0:
        return VC_DTYPE_Q4_0;
    case VC_DTYPE_Q4_K:
        return VC_DTYPE_Q5_0;
    case VC_DTYPE_Q5_K:
        return VC_DTYPE_Q5_1;
    case VC_DTYPE_Q6_K:
        return VC_DTYPE_Q8_0;
    default:
        return type;
    }
}

enum vc_dtype vc_mixture_type(const struct vc_mixture_plan *plan, const struct vc_item *item, enum vc_dtype *fallback)
{
    enum vc_dtype type = wanted(plan, item, plan->plan->model->tensors[item - plan->plan->items].name);
    uint64_t row = item->desc->shape[item->desc->n_dims - 1];
    size_t elems;
    size_t bytes;

    vc_dtype_block(type, &elems, &bytes);
    *fallback = row % elems != 0 ? type : VC_DTYPE_NONE;
    if (row % elems != 0) {
        type = smaller_blocks(type);
        vc_dtype_block(type, &elems, &bytes);
        type = row % elems != 0 ? VC_DTYPE_F16 : type;
    }
    return type;
}

bool vc_mixture_takes(const struct vc_mixture_plan *plan, const struct vc_item *item)
{
    /* tensor_allows_quantization of llama-quant.cpp */
    static struct vc_glob_set kept = {.n = 31,
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
