/* mlx.c - the dialect of MLX, which mlx-lm writes and loads. A row of words of U32 is codes from the lowest bits on:
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
 *     "quantization_config": the same
 *
 * Written are mxfp4, mxfp8, and affine codes of whole numbers in groups of 32, 64 or 128. The codes q of a job have a sign, and those of
 * MLX are q + 2^(bits-1), so the bias of a group is -2^(bits-1) times its scale: exact in the type of the scales, which
 * is that of the weights. MLX's own codes, whose biases are any floats, are copied as they are. A layer is codes to
 * mlx-lm where it has scales, so nothing is said of the others. */

#include "core/model/code_schemes.h"
#include "core/model/names.h"
#include "formats/dialects/config_member.h"
#include "formats/dialects/linear_rules.h"
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

static bool is_of_mlx(const struct json_t *config)
{
    return json_object_get(config, "quant_method") == NULL &&
           (json_object_get(config, "bits") != NULL || json_object_get(config, "mode") != NULL);
}

static bool mlx_read_config(const struct json_t *config, struct vc_dialect_hint *out)
{
    bool is = is_of_mlx(config);

    if (is) {
        out->mlx = json_incref((json_t *)(uintptr_t)config);
    }
    return is;
}

/* A member of what is said of the module, or of all of them. */
static const json_t *said(const struct vc_search *s, const json_t *own, const char *key)
{
    const json_t *value = json_object_get(own, key);

    return value != NULL ? value : json_object_get(s->hint.mlx, key);
}

/* The same as a number. null, which mlx-lm writes of modules in its mixed recipes, is what MLX takes then. */
static uint64_t said_number(const struct vc_search *s, const json_t *own, const char *key, uint64_t usual)
{
    const json_t *value = said(s, own, key);

    return json_is_null(value) ? usual : vc_json_count(value);
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
    m->bits = m->mode->bits != 0 ? m->mode->bits : said_number(s, own, "bits", 4);
    m->group = m->mode->group != 0 ? m->mode->group : said_number(s, own, "group_size", 64);
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

    if (t->dtype != VC_DTYPE_U32 || t->n_dims < 2 || t->n_elems == 0) {
        return "it is no matrix of u32";
    }
    uint64_t words = t->shape[t->n_dims - 1];
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
    bool scales = n_stem != strlen(t->name) && vc_search_has(s, t->name, n_stem, "scales");

    if (n_stem == strlen(t->name) || vc_dtype_is_float(t->dtype) || !vc_search_is_free(s, codes) ||
        (t->dtype != VC_DTYPE_U32 && !scales)) {
        return VC_OK;
    }
    VC_CALL(vc_search_hint(s));
    if (s->hint.mlx == NULL && (t->dtype != VC_DTYPE_U32 || !scales)) {
        return VC_OK;
    }
    *found = true;
    const char *why = find_parts(s, n_stem, &m);
    return why != NULL
               ? vc_search_refuse(s, codes, VC_SEVERITY_ERROR, "is codes of MLX that cannot be decoded: %s", why)
               : attach(s, &m);
}

/* ---- rules ---- */

static bool is_group(uint64_t size)
{
    return size == 32 || size == 64 || size == 128;
}

static enum vc_status mlx_check(struct vc_ctx *ctx, const struct vc_dialect_request *request)
{
    VC_REFUSE_IF(request->granularity != VC_GRANULARITY_GROUP || !is_group(request->group_size), ctx, VC_E_ARGUMENT,
                 "the layout %s takes groups of 32, 64 or 128 columns (%s)", vc_dialect_mlx.name,
                 vc_option(ctx, "granularity"));
    return vc_linear_check(ctx, &vc_dialect_mlx, request, true);
}

static const char *mlx_reason(const struct vc_dialect_request *request, const struct vc_dialect_tensor *tensor)
{
    const char *reason = vc_linear_reason(request, tensor, VC_LOADS_NONE);

    if (reason == NULL && tensor->shape[1] % request->group_size != 0) {
        return "rows are no multiple of the group";
    }
    return reason == NULL && vc_linear_is_expert(tensor->name) ? "experts that the loader joins" : reason;
}

/* ---- writing ---- */

/* The first mode is that of whole numbers. NVFP4 of other programs has a scale of the tensor, and that of MLX none. */
static const struct mode *mode_of(enum vc_scheme scheme)
{
    const struct mode *mode = &modes[0];

    for (size_t i = 1; i < sizeof modes / sizeof modes[0]; i++) {
        mode = modes[i].scheme == scheme && scheme != VC_SCHEME_NVFP4 ? &modes[i] : mode;
    }
    return mode;
}

static bool mlx_fits(const struct vc_out_tensor *codes)
{
    const struct vc_quant *quant = codes->quant;
    const struct vc_code_scheme *scheme = vc_code_scheme(quant->scheme);
    size_t n_path;

    if (scheme == NULL || (scheme->grid != VC_GRID_NONE && mode_of(quant->scheme) == &modes[0])) {
        return false;
    }
    return codes->n_dims == 2 && vc_name_is_module_weight(codes->name, &n_path) && !vc_quant_is_special(quant) &&
           quant->symmetric && vc_quant_find(quant, VC_PART_ABSMAX) == VC_NO_TENSOR &&
           quant->granularity == VC_GRANULARITY_GROUP && is_group(quant->group_size) &&
           codes->shape[1] % quant->group_size == 0;
}

/* The scales, and behind them the biases that they make. */
static enum vc_status mlx_lay(struct vc_laying *l)
{
    const struct vc_quant *quant = l->codes->quant;
    unsigned bits = vc_code_bits(vc_code_scheme(quant->scheme));
    uint64_t n_rows = l->codes->shape[0];
    uint64_t row = l->codes->shape[1] * bits / 8;
    bool affine = mode_of(quant->scheme) == &modes[0];
    struct vc_laid part = {.dtype = VC_DTYPE_U32, .n_dims = 2, .n_bytes = n_rows * row};

    l->n = 0;
    if (l->role == VC_PART_CODES) {
        part.packed = (struct vc_packed){
            .packing = affine ? &vc_packing_rows : NULL, .bits = 8, .turned = bits, .n_rows = n_rows, .row = row};
        return vc_dialect_lay(l, NULL, part, n_rows, row / 4);
    }
    part.dtype = l->part->dtype;
    part.n_bytes = l->part->size_bytes;
    VC_CALL(vc_dialect_lay(l, "scales", part, n_rows, l->codes->shape[1] / quant->group_size));
    if (affine) {
        part.times = -(1 << (bits - 1));
        return vc_dialect_lay(l, "biases", part, n_rows, l->codes->shape[1] / quant->group_size);
    }
    return VC_OK;
}

/* ---- the configuration ---- */

/* {"group_size": 64, "bits": 4, "mode": "affine"} without its braces. */
static void add_numbers(const struct vc_quant *quant, struct vc_text *text)
{
    const char *mode = quant->scheme == VC_SCHEME_NVFP4 ? "nvfp4" : mode_of(quant->scheme)->name;

    vc_text_add(text, "\"group_size\": %" PRIu64 ", \"bits\": %u, \"mode\": \"%s\"", quant->group_size,
                vc_code_bits(vc_code_scheme(quant->scheme)), mode);
}

/* The numbers of the first kind of codes, and those of each module whose codes are of another. */
static void mlx_write_config(const struct vc_config_weights *weights, struct vc_text *text)
{
    const struct vc_quant *first = &weights->groups[0];
    VC_SCOPED_TEXT struct vc_text name = {.ctx = text->ctx};

    vc_text_add(text, "{");
    add_numbers(first, text);
    for (size_t i = 0; i < weights->n; i++) {
        const struct vc_config_weight *w = &weights->weights[i];
        size_t n_path;

        if (w->told && vc_name_is_module_weight(w->name, &n_path) &&
            (w->quant->scheme != first->scheme || w->quant->group_size != first->group_size)) {
            name.n = 0;
            vc_text_add_bytes(&name, w->name, n_path);
            vc_text_add(text, ", ");
            vc_text_add_json_string(text, name.status == VC_OK ? name.data : "");
            vc_text_add(text, ": {");
            add_numbers(w->quant, text);
            vc_text_add(text, "}");
        }
    }
    vc_text_add(text, "}");
    text->status = text->status == VC_OK ? name.status : text->status;
}

/* ---- the row ---- */

static const struct vc_dialect_file mlx_file = {.fits = mlx_fits,
                                                .lay = mlx_lay,
                                                .in_config_only = true,
                                                .config_twice = true,
                                                .write_config = mlx_write_config,
                                                .owns_config = is_of_mlx,
                                                .read_config = mlx_read_config,
                                                .find_packed = mlx_find};

const struct vc_dialect vc_dialect_mlx = {
    .name = "mlx",
    .schemes = (const char *const[]){"int4", "int8", "int6", "int5", "int3", "int2", "mxfp4", "mxfp8", NULL},
    .is_choice = true,
    .takes_codes = true,
    .rows_only = true,
    .positive_scales = true,
    .usual_group = 64,
    .whole_groups = true,
    .check = mlx_check,
    .reason = mlx_reason,
    .part_type = vc_linear_part_type,
    .loader = {.program = "mlx-lm", .tried = "mlx-lm 0.32.2"},
    .file = &mlx_file};
