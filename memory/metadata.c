/* metadata.c - a GGUF model whose graph is not known: keys and values by its metadata and the shapes of its tensors, as
 * llama.cpp has them, and a bound of what lives between operators. */

#include "arch/arch_family.h"
#include "core/model/program.h"
#include "memory/estimate.h"

#define POSITIONS 512 /* at once: n_ubatch */
#define BLOCK     256 /* positions of keys and values */

/* While the keys are read. */
struct metadata {
    struct vc_estimate *e;
    const struct vc_program *program;
    const char *architecture;
    uint64_t layers, hidden, heads, window, context, experts_used;
    uint64_t widest; /* values of a position that one operator makes, at most */
    uint64_t vocabulary;
    bool recurrent; /* some layer keeps a state in place of keys and values */
};

/* 0 for numbers that no model has. */
static uint64_t positive(int64_t n)
{
    return n > 0 && n < ((int64_t)1 << 40) ? (uint64_t)n : 0;
}

/* A number, or that of the layer where the file has one for each; otherwise `otherwise`. */
static uint64_t number_of(const struct metadata *m, const char *name, uint64_t layer, uint64_t otherwise)
{
    return positive(vc_program_number(m->program, m->architecture, name, layer, (int64_t)otherwise));
}

/* The tensor of a layer, "blk.3.attn_k.weight"; NULL if there is none. */
static const struct vc_tensor *tensor_of(const struct metadata *m, uint64_t layer, const char *name)
{
    char whole[96];

    (void)snprintf(whole, sizeof whole, "blk.%llu.%.64s", (unsigned long long)layer, name);
    size_t i = vc_model_find(m->e->model, whole);
    return i == VC_NO_TENSOR ? NULL : vc_model_tensor(m->e->model, i);
}

/* Outputs of a matrix, or of each in a stack. */
static uint64_t rows_of(const struct vc_tensor *tensor)
{
    return tensor == NULL || tensor->n_dims < 2 ? 0 : tensor->shape[tensor->n_dims - 2];
}

/* ---- keys and values ---- */

/* Keys and values of a position of the layer, in elements; *head: of one head, in which types of blocks are counted.
 * Latent ones (MLA) are one row for all heads, which the values are a part of. 0: the layer keeps none. */
static uint64_t width_of(const struct metadata *m, uint64_t layer, uint64_t *head)
{
    uint64_t latent = number_of(m, "attention.kv_lora_rank", layer, 0);
    uint64_t rotary = number_of(m, "rope.dimension_count", layer, 0);
    uint64_t share = m->heads == 0 ? 0 : m->hidden / m->heads;
    uint64_t kv_heads = number_of(m, vc_arch_gguf_names(VC_EDIT_KV_HEADS), layer, m->heads);
    uint64_t key = number_of(m, "attention.key_length", layer, share);
    uint64_t value = number_of(m, "attention.value_length", layer, share);
    const struct vc_tensor *k = tensor_of(m, layer, "attn_k.weight");
    const struct vc_tensor *v = tensor_of(m, layer, "attn_v.weight");
    bool joined = tensor_of(m, layer, "attn_qkv.weight") != NULL && tensor_of(m, layer, "ssm_conv1d.weight") == NULL;

    *head = key;
    if (latent != 0 && tensor_of(m, layer, "attn_kv_a_mqa.weight") != NULL) {
        bool absorbed = tensor_of(m, layer, "attn_k_b.weight") != NULL;

        *head = absorbed ? latent + rotary : key;
        return absorbed ? latent + rotary : m->heads * (key + value);
    }
    if (k != NULL) {
        return rows_of(k) + (v != NULL ? rows_of(v) : rows_of(k));
    }
    return joined ? kv_heads * (key + value) : 0;
}

/* Whether the layer looks back so far only. Where nothing says which layers do, none does. */
static bool has_window(const struct metadata *m, uint64_t layer)
{
    const struct vc_program_key *pattern =
        vc_program_key(m->program, m->architecture, "attention.sliding_window_pattern");
    uint64_t period = number_of(m, "attention.sliding_window_pattern", layer, 0);

    if (m->window == 0) {
        return false;
    }
    if (pattern != NULL && pattern->integers != NULL) {
        return layer < pattern->n && pattern->integers[layer] != 0;
    }
    return period != 0 ? layer % period < period - 1 : vc_arch_gguf_slides(m->architecture, layer, m->layers);
}

/* The state that a layer without keys and values keeps for each sequence, in f32: of a convolution, and of the
 * recurrence. */
static uint64_t state_of(const struct metadata *m, uint64_t layer)
{
    uint64_t kernel = number_of(m, "ssm.conv_kernel", layer, 0);
    uint64_t inner = number_of(m, "ssm.inner_size", layer, 0);
    uint64_t state = number_of(m, "ssm.state_size", layer, 0);
    uint64_t groups = number_of(m, "ssm.group_count", layer, 0);
    uint64_t kept = number_of(m, "shortconv.l_cache", layer, 0);

    if (tensor_of(m, layer, "ssm_conv1d.weight") != NULL && kernel != 0) {
        return ((kernel - 1) * (inner + 2 * groups * state) + inner * state) * 4;
    }
    if (tensor_of(m, layer, "shortconv.conv.weight") != NULL && kept != 0) {
        return (kept - 1) * m->hidden * 4;
    }
    return 0;
}

/* Blocks do not cross heads. */
static uint64_t type_bytes(const struct metadata *m, uint64_t elems, uint64_t head)
{
    enum vc_dtype type = m->e->options.cache;
    uint64_t bytes = vc_dtype_bytes(type, head);

    m->e->overflow = m->e->overflow || bytes == UINT64_MAX;
    return head == 0 || elems % head != 0 ? vc_dtype_bytes(type, elems)
                                          : vc_estimate_product(m->e, elems / head, bytes);
}

/* Positions in work: as many as are computed at once, at most those that are kept. */
static uint64_t work_of(const struct metadata *m)
{
    return m->context == 0 ? POSITIONS : vc_min_u64(POSITIONS, m->context);
}

/* Layers with a window keep that many positions and what is worked on at once; recurrent ones a state in their
 * place. */
static void add_cache(struct metadata *m)
{
    uint64_t all = 0;
    uint64_t near = 0;
    uint64_t from = number_of(m, "attention.shared_kv_layers", 0, 0);

    (void)vc_round_up_u64(m->context, BLOCK, &all);
    (void)vc_round_up_u64(m->window + work_of(m), BLOCK, &near);
    from = m->layers - vc_min_u64(from, m->layers); /* the layers behind it read what others keep */
    for (uint64_t layer = 0; layer < m->layers; layer++) {
        uint64_t head = 0;
        uint64_t width = layer < from ? width_of(m, layer, &head) : 0;
        uint64_t positions = has_window(m, layer) ? vc_min_u64(all, near) : all;
        uint64_t state = state_of(m, layer);

        m->recurrent = m->recurrent || state != 0;
        vc_estimate_add(m->e, VC_MEMORY_KV_CACHE,
                        vc_estimate_sum(m->e, vc_estimate_product(m->e, type_bytes(m, width, head), positions),
                                        m->context != 0 ? state : 0));
    }
}

/* ---- what lives between operators ---- */

/* The widest product bounds what one operator makes for a position. */
static void find_widest(struct metadata *m)
{
    for (size_t i = 0; i < vc_model_facts(m->e->model)->n_tensors; i++) {
        const struct vc_tensor *t = vc_model_tensor(m->e->model, i);
        bool in_layer = strncmp(t->name, "blk.", 4) == 0;
        uint64_t rows = rows_of(t) * (t->n_dims > 2 ? m->experts_used : 1);

        if (in_layer && rows > m->widest) {
            m->widest = rows;
        }
        if (strcmp(t->name, "output.weight") == 0 || strcmp(t->name, "token_embd.weight") == 0) {
            m->vocabulary = vc_max_u64(m->vocabulary, rows_of(t));
        }
    }
}

/* The larger of the logits with what they are made of, and of what a layer has: the stream and what is beside it, and
 * the results of its widest product four times, eight times where a recurrence is computed in parts. Without a kernel for
 * attention the scores of all heads, with eight of the stream's size. Beside these the masks of attention, of f32 and of
 * f16, for a window once more. */
static uint64_t bound_of(struct metadata *m)
{
    uint64_t work = work_of(m);
    uint64_t masks = vc_estimate_product(m->e, work, m->context) * 6 * (m->window != 0 ? 2 : 1);
    uint64_t logits = vc_estimate_product(m->e, work, m->vocabulary + m->hidden) * 4;
    uint64_t layer = vc_estimate_product(m->e, work, 4 * m->hidden + (m->recurrent ? 8 : 4) * m->widest) * 4;

    if (m->e->options.attention == VC_ATTENTION_EAGER) {
        uint64_t scores =
            vc_estimate_product(m->e, work, vc_estimate_product(m->e, m->heads, m->context) + 8 * m->hidden);

        layer = vc_max_u64(layer, vc_estimate_product(m->e, scores, 4));
    }
    return vc_max_u64(logits, vc_estimate_sum(m->e, layer, masks));
}

/* ---- the call ---- */

/* False: the file does not say enough. */
static bool read(struct metadata *m)
{
    m->architecture = vc_program_architecture(m->program);
    m->layers = number_of(m, vc_arch_gguf_names(VC_EDIT_LAYERS), 0, 0);
    m->hidden = number_of(m, vc_arch_gguf_names(VC_EDIT_HIDDEN), 0, 0);
    m->heads = number_of(m, vc_arch_gguf_names(VC_EDIT_HEADS), 0, 0);
    m->window = number_of(m, "attention.sliding_window", 0, vc_arch_gguf_window(m->architecture));
    m->experts_used = vc_max_u64(number_of(m, "expert_used_count", 0, 1), 1);
    m->context = m->e->options.context_tokens;
    return m->layers != 0 && m->layers < 100000 && m->hidden != 0 && tensor_of(m, 0, "attn_norm.weight") != NULL;
}

enum vc_status vc_estimate_by_metadata(struct vc_estimate *e, bool *known)
{
    VC_SCOPED_ARENA struct vc_arena arena = {0};
    struct vc_program program = {.kind = VC_PROGRAM_NONE};
    struct metadata m = {.e = e, .program = &program};

    *known = false;
    if (e->model == NULL || e->options.program != VC_RUN_BY_LLAMA_CPP || vc_estimate_trains(e)) {
        return VC_OK;
    }
    VC_CALL(vc_model_program(e->ctx, e->model, &arena, &program));
    if (program.kind != VC_PROGRAM_KEYS || !read(&m)) {
        return VC_OK;
    }
    find_widest(&m);
    add_cache(&m);
    vc_estimate_add(e, VC_MEMORY_ACTIVATIONS, bound_of(&m));
    e->out->components[VC_MEMORY_ACTIVATIONS].known = VC_KNOWN_ASSUMED;
    e->out->max_positions = number_of(&m, "context_length", 0, 0);
    *known = true;
    return VC_OK;
}
