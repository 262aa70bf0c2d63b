/* mixture_rules.c - see mixture_rules.h. */
#include "core/model/mixture_rules.h"

#include <stdio.h>
#include <string.h>

/* The names that llama-quantize knows, and general.file_type has a number for (formats/gguf/gguf_metadata.c). IQ1 to
 * IQ3 need codebooks that this program does not make, Q2_K_S needs statistics of data. NVFP4 has a number, but is no
 * name of llama-quantize yet: what its blocks are not for is what Q2_0 makes of it. */
static const struct vc_mixture mixtures[] = {
    {"Q4_0", VC_DTYPE_Q4_0},       {"Q4_1", VC_DTYPE_Q4_1},   {"Q5_0", VC_DTYPE_Q5_0},     {"Q5_1", VC_DTYPE_Q5_1},
    {"Q8_0", VC_DTYPE_Q8_0},       {"Q2_K", VC_DTYPE_Q2_K},   {"Q3_K_S", VC_DTYPE_Q3_K},   {"Q3_K_M", VC_DTYPE_Q3_K},
    {"Q3_K_L", VC_DTYPE_Q3_K},     {"Q4_K_S", VC_DTYPE_Q4_K}, {"Q4_K_M", VC_DTYPE_Q4_K},   {"Q5_K_S", VC_DTYPE_Q5_K},
    {"Q5_K_M", VC_DTYPE_Q5_K},     {"Q6_K", VC_DTYPE_Q6_K},   {"IQ4_NL", VC_DTYPE_IQ4_NL}, {"IQ4_XS", VC_DTYPE_IQ4_XS},
    {"MXFP4_MOE", VC_DTYPE_MXFP4}, {"NVFP4", VC_DTYPE_NVFP4}, {"Q1_0", VC_DTYPE_Q1_0},     {"Q2_0", VC_DTYPE_Q2_0},
    {"TQ1_0", VC_DTYPE_TQ1_0},     {"TQ2_0", VC_DTYPE_TQ2_0},
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

const struct vc_mixture *vc_mixture_at(size_t index)
{
    return index < n_mixtures ? &mixtures[index] : NULL;
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

/* ---- types ---- */

/* The first and the last eighth of n, and every third between. */
static bool more_bits(uint32_t i, uint32_t n)
{
    return i < n / 8 || i >= 7 * n / 8 || (i - n / 8) % 3 == 2;
}

static bool is(const struct vc_mixture_rules *p, const char *name)
{
    return strcmp(p->mixture->name, name) == 0;
}

static enum vc_dtype type_of_output(const struct vc_mixture_rules *p, uint64_t row)
{
    size_t elems = vc_dtype_facts(p->mixture->base)->block_elems;

    if (is(p, "MXFP4_MOE") || p->falcon || row % elems != 0) {
        return VC_DTYPE_Q8_0;
    }
    return p->mixture->base == VC_DTYPE_Q8_0 ? VC_DTYPE_Q8_0 : VC_DTYPE_Q6_K;
}

static enum vc_dtype type_of_values(const struct vc_mixture_rules *p, uint32_t i)
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
static enum vc_dtype type_of_down(const struct vc_mixture_rules *p, uint32_t i)
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

static enum vc_dtype type_of_attention_output(const struct vc_mixture_rules *p)
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
    if (is(p, "Q2_K")) {
        return VC_DTYPE_Q3_K;
    }
    if (is(p, "Q3_K_M")) {
        return VC_DTYPE_Q4_K;
    }
    if (is(p, "Q3_K_L")) {
        return VC_DTYPE_Q5_K;
    }
    return p->mixture->base;
}

enum vc_dtype vc_mixture_rule(const struct vc_mixture_rules *p, const struct vc_mixture_tensor *tensor)
{
    const uint64_t *shape = tensor->shape;
    enum vc_mixture_kind kind = tensor->kind;

    if (p->pure) {
        return p->mixture->base;
    }
    if (kind == VC_MIXTURE_OUTPUT || (kind == VC_MIXTURE_EMBEDDING && p->tied)) {
        return type_of_output(p, shape[tensor->n_dims - 1]);
    }
    if (is(p, "MXFP4_MOE")) {
        return tensor->n_dims == 3 && shape[0] > 1 ? VC_DTYPE_MXFP4 : VC_DTYPE_Q8_0;
    }
    if (kind == VC_MIXTURE_EMBEDDING && (is(p, "TQ1_0") || is(p, "TQ2_0") || is(p, "Q2_0") || is(p, "NVFP4"))) {
        return VC_DTYPE_Q4_K;
    }
    if (kind == VC_MIXTURE_VALUES || kind == VC_MIXTURE_FUSED) {
        return type_of_values(p, tensor->place);
    }
    if (kind == VC_MIXTURE_KEYS && p->n_experts == 8) {
        return VC_DTYPE_Q8_0;
    }
    if (kind == VC_MIXTURE_DOWN) {
        return type_of_down(p, p->n_experts > 1 && tensor->layer >= 0 ? (uint32_t)tensor->layer : tensor->place);
    }
    return kind == VC_MIXTURE_ATTENTION_OUTPUT ? type_of_attention_output(p) : p->mixture->base;
}

/* The type of smaller blocks that takes the place of one whose blocks do not divide a row. */
static enum vc_dtype smaller_blocks(enum vc_dtype type)
{
    switch (type) {
    case VC_DTYPE_IQ4_XS:
        return VC_DTYPE_IQ4_NL;
    case VC_DTYPE_NVFP4:
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

enum vc_dtype vc_mixture_whole_blocks(enum vc_dtype type, uint64_t row)
{
    if (row % vc_dtype_facts(type)->block_elems != 0) {
        type = smaller_blocks(type);
        type = row % vc_dtype_facts(type)->block_elems != 0 ? VC_DTYPE_F16 : type;
    }
    return type;
}
