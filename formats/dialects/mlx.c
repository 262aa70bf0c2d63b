/* mlx.c - the dialect of MLX, which mlx-lm writes, read only. A row of words of U32 is codes from the lowest bits on:
 *
 *     affine   m.weight U32 [out, in * bits / 32], m.scales, m.biases [out, in / size]  value = code * scale + bias
 *     mxfp4    m.weight U32 [out, in / 8], m.scales U8 [out, in / 32]                   as docs/numerics.md has them
 *     mxfp8    m.weight U32 [out, in / 4], m.scales U8 [out, in / 32]
 *     nvfp4    m.weight U32 [out, in / 8], m.scales U8 [out, in / 16]                   no scale of the tensor
 *
 * in f32, where MLX rounds both steps to the type of the scales. Stacks of experts have an axis more in front. What is
 * said of them lies in two members of config.json, and layers may have their own:
 *
 *     "quantization": {"group_size": 64, "bits": 4, "mode": "affine", "model.layers.0.mlp.down_proj": {"bits": 8, ...}},
 *     "quantization_config": the same */
#include <string.h>

#include "core/base/checked.h"
#include "core/model/code_schemes.h"
#include "core/text/text.h"
#include "formats/dialects/search.h"
#include "formats/json/json_walk.h"

struct mode {
    const char *name;
    enum vc_scheme scheme; /* NONE: by the bits */
    uint64_t bits, group;  /* 0: the configuration says */
};

static const struct mode modes[] = {{"affine", VC_SCHEME_NONE, 0, 0},
                                    {"mxfp4", VC_SCHEME_MXFP4, 4, 32},
                                    {"mxfp8", VC_SCHEME_MXFP8, 8, 32},
                                    {"nvfp4", VC_SCHEME_NVFP4, 4, 16}};

static bool mlx_read_config(const struct json_t *config, struct vc_dialect_hint *out)
{
    if (json_object_get(config, "quant_method") != NULL ||
        (json_object_get(config, "bits") == NULL && json_object_get(config, "mode") == NULL)) {
        return false;
    }
    out->mlx = json_incref((json_t *)(uintptr_t)config);
    return true;
}

/* A member of what is said of the module, or of all of them. */
static const json_t *said(const struct vc_search *s, const json_t *own, const char *key)
{
    const json_t *value = json_object_get(own, key);

    return value != NULL ? value : json_object_get(s->hint.mlx, key);
}

/* A weight, while its parts are looked at. */
struct matrix {
    size_t codes, scales, biases;
    const struct mode *mode;
    uint64_t bits, group, row; /* row: codes */
};

/* What the configuration says of the module; the reason why that cannot be, or NULL. */
static const char *find_mode(struct vc_search *s, size_t n_stem, struct matrix *m)
{
    const char *name = s->model->tensors[m->codes].name;
    const json_t *own, *mode;

    memcpy(s->buffer, name, n_stem);
    s->buffer[n_stem - 1] = '\0'; /* without the dot */
    own = json_object_get(s->hint.mlx, s->buffer);
    mode = said(s, own, "mode");
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
        const char *word = mode == NULL ? "affine" : json_string_value(mode);

        m->mode = word != NULL && strcmp(word, modes[i].name) == 0 ? &modes[i] : m->mode;
    }
    if (s->hint.mlx == NULL || m->mode == NULL) {
        return m->mode == NULL && s->hint.mlx != NULL ? "its configuration has a \"mode\" that is none of MLX"
                                                      : "there is no config.json with a \"quantization\" of MLX";
    }
    m->bits = m->mode->bits != 0 ? m->mode->bits : vc_json_count(said(s, own, "bits"));
    m->group = m->mode->group != 0 ? m->mode->group : vc_json_count(said(s, own, "group_size"));
    return m->bits < 2 || m->bits > 8 || m->bits == 7 ? "its configuration has no \"bits\" of 2 to 6 or 8"
           : m->group == 0 || m->group > INT32_MAX    ? "its configuration has no \"group_size\" above 0"
                                                      : NULL;
}

/* Scales or biases: all axes of the weight, with a number for each group. */
static bool fits(const struct vc_search *s, const struct matrix *m, size_t part)
{
    const struct vc_tensor *t = &s->model->tensors[m->codes];
    const struct vc_tensor *p = part != VC_NO_TENSOR ? &s->model->tensors[part] : NULL;
    bool is_type =
        p != NULL && (m->mode->scheme == VC_SCHEME_NONE ? vc_search_is_floats(s, part)
                                                        : p->dtype == VC_DTYPE_U8 && vc_search_is_free(s, part));

    return is_type && p->n_dims == t->n_dims && memcmp(p->shape, t->shape, (t->n_dims - 1) * sizeof *t->shape) == 0 &&
           p->shape[p->n_dims - 1] * m->group == m->row;
}

static const char *find_parts(struct vc_search *s, size_t n_stem, struct matrix *m)
{
    const struct vc_tensor *t = &s->model->tensors[m->codes];
    const char *why = NULL;
    uint64_t words;

    if (t->dtype != VC_DTYPE_U32 || t->n_dims < 2 || t->n_elems == 0) {
        return "it is no matrix of u32";
    }
    words = t->shape[t->n_dims - 1];
    m->scales = vc_search_find(s, t->name, n_stem, "scales");
    m->biases = vc_search_find(s, t->name, n_stem, "biases");
    why = find_mode(s, n_stem, m);
    if (why != NULL || words > INT32_MAX || words * 32 % m->bits != 0) {
        return why != NULL ? why : "its words are no whole number of codes";
    }
    m->row = words * 32 / m->bits;
    if (!fits(s, m, m->scales)) {
        return "its 'scales' are not one for each group of the configuration's size";
    }
    if (m->mode->scheme == VC_SCHEME_NONE ? !fits(s, m, m->biases) : m->biases != VC_NO_TENSOR) {
        return "its 'biases' are not those of its mode and scales";
    }
    return NULL;
}

static enum vc_status attach(struct vc_search *s, const struct matrix *m)
{
    struct vc_tensor *t = &s->model->tensors[m->codes];
    bool affine = m->mode->scheme == VC_SCHEME_NONE;
    unsigned n_dims = t->n_dims;
    uint64_t row_bytes = 4 * t->shape[n_dims - 1];
    uint64_t *shape = vc_arena_alloc(s->ctx, &s->out->arena, n_dims * sizeof *shape);
    struct vc_quant quant = {.scheme = affine ? vc_code_scheme_of_bits((unsigned)m->bits) : m->mode->scheme,
                             .granularity = VC_GRANULARITY_GROUP,
                             .group_size = m->group,
                             .symmetric = !affine,
                             .offset_rule = affine ? VC_OFFSET_AFTER : VC_OFFSET_NONE,
                             .source_dtype = affine ? s->model->tensors[m->scales].dtype : VC_DTYPE_BF16};
    const struct vc_packed packed = {.packing = affine ? &vc_packing_rows : NULL,
                                     .bits = 8,
                                     .turned = (unsigned)m->bits,
                                     .n_rows = t->size_bytes / row_bytes,
                                     .row = row_bytes};

    VC_CALL_ALLOC(shape);
    memcpy(shape, t->shape, n_dims * sizeof *shape);
    shape[n_dims - 1] = m->row;
    vc_quant_set(&quant, VC_PART_SCALE, m->scales);
    vc_quant_set(&quant, VC_PART_OFFSET, m->biases);
    VC_CALL(vc_search_attach_packed(s, m->codes, &quant, &packed, 0));
    t->shape = shape;
    t->n_dims = n_dims;
    return VC_OK;
}

static enum vc_status mlx_find(struct vc_search *s, size_t codes, bool *found)
{
    const struct vc_tensor *t = &s->model->tensors[codes];
    size_t n_stem = strlen(t->name) - (vc_ends_in(t->name, ".weight") ? strlen("weight") : 0);
    struct matrix m = {.codes = codes};
    const char *why;
    bool scales;

    scales = n_stem != strlen(t->name) && vc_search_has(s, t->name, n_stem, "scales");
    if (n_stem == strlen(t->name) || vc_dtype_is_float(t->dtype) || !vc_search_is_free(s, codes) ||
        (t->dtype != VC_DTYPE_U32 && !scales)) {
        return VC_OK;
    }
    VC_CALL(vc_search_hint(s));
    if (s->hint.mlx == NULL && (t->dtype != VC_DTYPE_U32 || !scales)) {
        return VC_OK;
    }
    *found = true;
    why = find_parts(s, n_stem, &m);
    return why != NULL
               ? vc_search_refuse(s, codes, VC_SEVERITY_ERROR, "is codes of MLX that cannot be decoded: %s", why)
               : attach(s, &m);
}

static const struct vc_dialect_file mlx_file = {
    .loads = VC_LOADS_NONE, .read_config = mlx_read_config, .find_packed = mlx_find};

const struct vc_dialect vc_dialect_mlx = {
    .name = "mlx", .schemes = (const char *const[]){NULL}, .loader = {.program = "mlx-lm"}, .file = &mlx_file};
