/* manifest.c - vcompress.json read and compared with the tensors it speaks of.
 *
 * Nothing in it is taken on trust: names must exist, types and shapes must fit. jansson parses the text, entry by entry
 * (json_walk.h).
 *
 *     {"schema": "vcompress.manifest/1", "options": {"scheme": "int8"}, "tensors": {
 *      "w": {"scheme": "int8", "granularity": "channel", "axis": 0, "symmetric": true, "source_dtype": "f32",
 *            "scale": "w.scale"},
 *      "b": {"dtype": "bf16"}}}
 *
 * vc_manifest_apply reads what is outside of "tensors" first (schema, options), then walks its entries twice: types of
 * bf16, then codes, whose scales may be bf16. An entry that is wrong is refused, or with findings (verify) noted, and
 * its tensor stays plain. */
#include "formats/dialects/manifest/manifest_internal.h"
#include "formats/json/json_skip.h"
#include "formats/json/json_walk.h"

#include "core/base/findings.h"
#include "core/model/code_schemes.h"
#include "core/values/tile.h"

/* One entry of "tensors" being applied. */
struct entry {
    struct vc_ctx *ctx;
    struct vc_model *model;
    size_t tensor;
    json_t *json;
};

/* A key that is missing, or is not what it has to be. expected: the end of the sentence, "a whole number from 1 on". */
static enum vc_status refuse_key(const struct entry *e, const char *key, const char *expected)
{
    const char *name = e->model->tensors[e->tensor].name;

    VC_REFUSE_IF(json_object_get(e->json, key) == NULL, e->ctx, VC_E_FORMAT, "%s: \"%s\" is missing, expected %s", name,
                 key, expected);
    return vc_fail(e->ctx, VC_E_FORMAT, "%s: \"%s\" is not %s", name, key, expected);
}

/* The text of a key, NULL if it is no string. */
static const char *text_of(const struct entry *e, const char *key)
{
    return json_string_value(json_object_get(e->json, key));
}

/* A whole number of at least `least`. */
static enum vc_status number_of(const struct entry *e, const char *key, uint64_t least, uint64_t *out)
{
    json_t *value = json_object_get(e->json, key);

    if (!json_is_integer(value) || json_integer_value(value) < 0 || (uint64_t)json_integer_value(value) < least) {
        return refuse_key(e, key, least == 0 ? "a whole number from 0 on" : "a whole number from 1 on");
    }
    *out = (uint64_t)json_integer_value(value);
    return VC_OK;
}

/* An unknown key may change what the codes mean, so a newer file is refused, not read halfway. */
static enum vc_status check_keys(const struct entry *e, const char *const *known, size_t n_known)
{
    const char *key;
    json_t *value;

    json_object_foreach(e->json, key, value)
    {
        size_t i = 0;

        while (i < n_known && strcmp(key, known[i]) != 0) {
            i++;
        }
        VC_REFUSE_IF(i == n_known, e->ctx, VC_E_UNSUPPORTED, "%s: \"%s\" is not known to this version",
                     e->model->tensors[e->tensor].name, key);
    }
    return VC_OK;
}

/* ---- parts ---- */

/* Also for two tensors without dimensions. */
bool vc_manifest_same_shape(const struct vc_tensor *a, const struct vc_tensor *b)
{
    return a->n_dims == b->n_dims && (a->n_dims == 0 || memcmp(a->shape, b->shape, a->n_dims * sizeof *a->shape) == 0);
}

/*     t [64, 100]     tensor     [1], [1, 1] or []
 *                     channel    axis 0: [64, 1]; axis 1: [1, 100]
 *                     group 32   [64, 4]: a row has three whole groups and a short one
 *                     block 128 x 128 of [300, 200]: [3, 2] */
bool vc_manifest_scale_fits(const struct vc_tensor *t, const struct vc_tensor *scale, const struct vc_quant *quant)
{
    uint64_t n_rows, row_len;

    switch (quant->granularity) {
    case VC_GRANULARITY_TENSOR:
        return scale->n_elems == 1 && scale->n_dims <= (t->n_dims > 1 ? t->n_dims : 1);
    case VC_GRANULARITY_CHANNEL:
        if (scale->n_dims != t->n_dims) {
            return false;
        }
        for (unsigned d = 0; d < t->n_dims; d++) {
            if (scale->shape[d] != (d == quant->axis ? t->shape[d] : 1)) {
                return false;
            }
        }
        return true;
    case VC_GRANULARITY_GROUP:
    case VC_GRANULARITY_BLOCK:
        break;
    }
    vc_rows_of(t->shape, t->n_dims, &n_rows, &row_len);
    n_rows = quant->granularity == VC_GRANULARITY_BLOCK ? vc_ceil_div_u64(n_rows, quant->group_rows) : n_rows;
    return scale->n_dims == 2 && scale->shape[0] == n_rows &&
           scale->shape[1] == vc_ceil_div_u64(row_len, quant->group_size);
}

/* Types that a part may have: scales as floats, scales as bytes (E8M0, E4M3), a global scale, zero points. */
static bool may_be_scale(enum vc_dtype dtype)
{
    return dtype == VC_DTYPE_F32 || dtype == VC_DTYPE_F16 || dtype == VC_DTYPE_BF16;
}

/* Types that a part may have, by its role: scales of double quantization, global scales, zero points. */
static bool may_be_bytes(enum vc_dtype dtype)
{
    return dtype == VC_DTYPE_U8;
}

static bool may_be_global(enum vc_dtype dtype)
{
    return dtype == VC_DTYPE_F32;
}

static bool may_be_zero_point(enum vc_dtype dtype)
{
    return dtype == VC_DTYPE_I8;
}

/* The tensor that the entry names under `key`. It has to exist, be of a type that such a part has, and be no part of
 * another tensor. */
static enum vc_status find_part(const struct entry *e, const char *key, bool (*may_be)(enum vc_dtype),
                                const char *types, size_t *out)
{
    const char *name = text_of(e, key);
    const char *of = e->model->tensors[e->tensor].name;

    VC_RETURN_IF(name == NULL, refuse_key(e, key, "the name of a tensor"));
    size_t index = vc_model_find(e->model, name);
    VC_REFUSE_IF(index == VC_NO_TENSOR, e->ctx, VC_E_FORMAT, "%s: its %s '%s' is not in the file", of, key, name);
    const struct vc_tensor *t = &e->model->tensors[index];
    VC_REFUSE_IF(index == e->tensor || !may_be(t->dtype), e->ctx, VC_E_FORMAT,
                 "%s: its %s '%s' has type %s, expected another tensor of type %s", of, key, name,
                 vc_dtype_name(t->dtype), types);
    VC_REFUSE_IF(t->part_of != VC_NO_TENSOR, e->ctx, VC_E_FORMAT, "%s: its %s '%s' belongs to '%s' already", of, key,
                 name, e->model->tensors[t->part_of].name);
    *out = index;
    return VC_OK;
}

/* model->quants has a place for each tensor, made for the first one: pointers into it stay valid. */
enum vc_status vc_manifest_attach(struct vc_ctx *ctx, struct vc_model *model, size_t tensor,
                                  const struct vc_quant *quant)
{
    if (model->quants == NULL) {
        VC_CALL_ALLOC(model->quants = vc_calloc_array(ctx, VC_TAG_NAMES, model->n_tensors, sizeof *model->quants));
    }
    model->quants[tensor] = *quant;
    model->tensors[tensor].quant = &model->quants[tensor];
    for (unsigned i = 0; i < quant->n_parts; i++) {
        model->tensors[quant->parts[i].tensor].part_of = tensor;
    }
    return VC_OK;
}

/* ---- entries ---- */

/* Fills granularity, axis, group_size and group_rows. Blocks are of matrices, and of schemes whose own group is not
 * fixed. */
static enum vc_status read_granularity(const struct entry *e, const struct vc_tensor *t, struct vc_quant *quant)
{
    const char *name = text_of(e, "granularity");
    uint64_t axis = 0;

    if (name != NULL && strcmp(name, "tensor") == 0) {
        quant->granularity = VC_GRANULARITY_TENSOR;
    } else if (name != NULL && strcmp(name, "channel") == 0) {
        quant->granularity = VC_GRANULARITY_CHANNEL;
        VC_CALL(number_of(e, "axis", 0, &axis));
        VC_REFUSE_IF(axis >= t->n_dims, e->ctx, VC_E_FORMAT, "%s: axis %" PRIu64 " of a tensor with %u dimensions",
                     t->name, axis, t->n_dims);
        quant->axis = (unsigned)axis;
    } else if (name != NULL && strcmp(name, "group") == 0) {
        quant->granularity = VC_GRANULARITY_GROUP;
        VC_CALL(number_of(e, "group_size", 1, &quant->group_size));
    } else if (name != NULL && strcmp(name, "block") == 0 && t->n_dims == 2 &&
               vc_code_scheme(quant->scheme)->group == 0) {
        quant->granularity = VC_GRANULARITY_BLOCK;
        VC_CALL(number_of(e, "group_size", 1, &quant->group_size));
        VC_CALL(number_of(e, "group_rows", 1, &quant->group_rows));
    } else {
        return refuse_key(e, "granularity", "one of tensor, channel, group, or block of a matrix");
    }
    return VC_OK;
}

/* What the weights were before: what they are decoded to. f32 where the entry does not say it. */
static enum vc_status read_source_dtype(const struct entry *e, enum vc_dtype *out)
{
    const char *name = text_of(e, "source_dtype");

    *out = VC_DTYPE_F32;
    if (json_object_get(e->json, "source_dtype") == NULL) {
        return VC_OK;
    }
    *out = name == NULL ? VC_DTYPE_NONE : vc_dtype_from_name(name);
    return *out != VC_DTYPE_NONE && vc_dtype_is_float(*out)
               ? VC_OK
               : refuse_key(e, "source_dtype", "one of f16, bf16, f32, f64");
}

/* bitsandbytes keeps one number per output, or per block, as a list, where our own scales have all axes. */
static bool is_list(const struct vc_tensor *t, const struct vc_tensor *scale, const struct vc_quant *quant)
{
    uint64_t n_rows, row;

    if (quant->granularity == VC_GRANULARITY_GROUP && scale->n_dims == 1) {
        vc_rows_of(t->shape, t->n_dims, &n_rows, &row);
        return row % quant->group_size == 0 && scale->shape[0] == n_rows * (row / quant->group_size);
    }
    return vc_quant_find(quant, VC_PART_ABSMAX) != VC_NO_TENSOR && quant->granularity == VC_GRANULARITY_CHANNEL &&
           t->n_dims > 1 && scale->n_dims == 1 && scale->shape[0] == t->shape[quant->axis];
}

/* "scale_is_absmax": true, or not there. */
static enum vc_status read_absmax(const struct entry *e, bool *absmax)
{
    json_t *value = json_object_get(e->json, "scale_is_absmax");

    *absmax = value != NULL;
    return value == NULL || json_is_true(value) ? VC_OK : refuse_key(e, "scale_is_absmax", "true");
}

/* "shape": that of a weight whose codes lie in bytes, int4 in the array [rows, row / 2]. *t becomes the codes. Each row
 * has to be whole bytes, and the array as many bytes as its rows need: int4 of [64, 100] lies in u8 [64, 50]. */
static enum vc_status read_shape(const struct entry *e, const struct vc_code_scheme *kind, struct vc_tensor *t)
{
    json_t *list = json_object_get(e->json, "shape");
    size_t n_dims = json_array_size(list);
    uint64_t *shape = vc_arena_alloc(e->ctx, &e->model->arena, (n_dims + 1) * sizeof *shape);
    unsigned bits = vc_code_bits(kind);
    uint64_t row = 1;

    VC_CALL_ALLOC(shape);
    for (size_t d = 0; d < n_dims; d++) {
        json_t *value = json_array_get(list, d);

        shape[d] = vc_json_count(value);
        if (shape[d] == 0 || (d != 0 && !vc_mul_u64(row, shape[d], &row))) {
            return refuse_key(e, "shape", "a list of whole numbers from 1 on");
        }
    }
    if (n_dims < 2 || n_dims > VC_MAX_DIMS || t->n_dims != 2 || shape[0] != t->shape[0] || row % 8 * bits % 8 != 0 ||
        vc_dtype_bytes(kind->codes, row) != t->shape[1]) {
        return refuse_key(e, "shape",
                          bits == 8   ? "that of a matrix of bytes with a code each"
                          : bits == 4 ? "that of a matrix of bytes with two codes each"
                                      : "that of a matrix of bytes with codes side by side in each row");
    }
    t->dtype = kind->codes;
    t->n_dims = (unsigned)n_dims;
    t->shape = shape;
    t->n_elems = shape[0] * row;
    return VC_OK;
}

/* The last three keys are of codes that lie in bytes, the last two of these of schemes with a global scale. */
static enum vc_status check_keys_of(const struct entry *e, const struct vc_code_scheme *kind)
{
    static const char *const keys[] = {"scheme",
                                       "granularity",
                                       "axis",
                                       "group_size",
                                       "group_rows",
                                       "symmetric",
                                       "source_dtype",
                                       "scale",
                                       "zero_point",
                                       "scale_is_absmax",
                                       "shape",
                                       "global_scale",
                                       "global_scale_multiplies"};

    return check_keys(e, keys, sizeof keys / sizeof keys[0] - (kind->array != VC_DTYPE_U8 ? 3 : kind->global ? 0 : 2));
}

/* "global_scale": one number, which divides all scales, or with "global_scale_multiplies": true multiplies them. */
static enum vc_status read_global(const struct entry *e, struct vc_quant *quant)
{
    json_t *multiplies = json_object_get(e->json, "global_scale_multiplies");
    size_t index = VC_NO_TENSOR;

    VC_RETURN_IF(multiplies != NULL && !json_is_true(multiplies), refuse_key(e, "global_scale_multiplies", "true"));
    VC_CALL(find_part(e, "global_scale", may_be_global, "f32", &index));
    VC_REFUSE_IF(e->model->tensors[index].n_elems != 1, e->ctx, VC_E_FORMAT,
                 "%s: its global scale '%s' is not one number", e->model->tensors[e->tensor].name,
                 e->model->tensors[index].name);
    vc_quant_set(quant, VC_PART_GLOBAL_SCALE, index);
    quant->global_multiplies = multiplies != NULL;
    return VC_OK;
}

/* An entry of codes: the parts are found and checked, then attached. `t` is a copy: the tensor changes only once all of
 * the entry is right. */
static enum vc_status apply_codes(const struct entry *e, const struct vc_code_scheme *kind)
{
    struct vc_quant quant = {.scheme = kind->scheme};
    size_t scale_index = VC_NO_TENSOR;
    size_t zero_index = VC_NO_TENSOR;
    bool absmax = false;
    struct vc_tensor t = e->model->tensors[e->tensor];
    json_t *symmetric = json_object_get(e->json, "symmetric");
    const struct vc_tensor *scale;

    VC_CALL(check_keys_of(e, kind));
    VC_REFUSE_IF(t.dtype != kind->array, e->ctx, VC_E_FORMAT, "%s: has type %s, but %s codes are of type %s", t.name,
                 vc_dtype_name(t.dtype), kind->name, vc_dtype_name(kind->array));
    VC_REFUSE_IF(t.quant != NULL, e->ctx, VC_E_FORMAT, "%s: the file itself says how it is quantized", t.name);
    if (kind->array == VC_DTYPE_U8) {
        VC_CALL(read_shape(e, kind, &t));
    }
    VC_CALL(read_granularity(e, &t, &quant));
    VC_CALL(read_source_dtype(e, &quant.source_dtype));
    VC_RETURN_IF(!json_is_boolean(symmetric), refuse_key(e, "symmetric", "true or false"));
    quant.symmetric = json_is_true(symmetric);
    VC_RETURN_IF(!quant.symmetric && kind->grid != VC_GRID_NONE, refuse_key(e, "symmetric", "true"));
    VC_CALL(read_absmax(e, &absmax));
    VC_CALL(find_part(e, "scale", kind->scale != VC_DTYPE_NONE ? may_be_bytes : may_be_scale,
                      kind->scale != VC_DTYPE_NONE ? "u8" : "f32, f16 or bf16", &scale_index));
    vc_quant_set(&quant, absmax ? VC_PART_ABSMAX : VC_PART_SCALE, scale_index);
    scale = &e->model->tensors[scale_index];
    VC_REFUSE_IF(!vc_manifest_scale_fits(&t, scale, &quant) && !is_list(&t, scale, &quant), e->ctx, VC_E_FORMAT,
                 "%s: the shape of its scale '%s' does not fit this granularity", t.name, scale->name);
    if (kind->global) {
        VC_CALL(read_global(e, &quant));
    }
    if (!quant.symmetric) {
        VC_CALL(find_part(e, "zero_point", may_be_zero_point, "i8", &zero_index));
        vc_quant_set(&quant, VC_PART_ZERO_POINT, zero_index);
        VC_REFUSE_IF(!vc_manifest_same_shape(scale, &e->model->tensors[zero_index]), e->ctx, VC_E_FORMAT,
                     "%s: zero points '%s' and scale '%s' have different shapes", t.name,
                     e->model->tensors[zero_index].name, scale->name);
    } else if (json_object_get(e->json, "zero_point") != NULL) {
        return vc_fail(e->ctx, VC_E_FORMAT, "%s: is symmetric, but has \"zero_point\"", t.name);
    }
    e->model->tensors[e->tensor] = t;
    return vc_manifest_attach(e->ctx, e->model, e->tensor, &quant);
}

/* An entry of bf16, which NumPy has no type for: the file has u2, or raw void of two bytes. The first test keeps 2 *
 * n_elems from overflowing. */
static enum vc_status apply_bf16(const struct entry *e)
{
    static const char *const keys[] = {"dtype", "source_dtype"};
    struct vc_tensor *t = &e->model->tensors[e->tensor];
    enum vc_dtype source;
    bool fits = t->dtype == VC_DTYPE_U16 || t->dtype == VC_DTYPE_BF16 ||
                (t->dtype == VC_DTYPE_VOID && t->n_elems <= t->size_bytes / 2 && t->size_bytes == 2 * t->n_elems);

    VC_CALL(check_keys(e, keys, sizeof keys / sizeof keys[0]));
    VC_CALL(read_source_dtype(e, &source));
    VC_REFUSE_IF(!fits, e->ctx, VC_E_FORMAT, "%s: has type %s, but bf16 is kept as u16", t->name,
                 vc_dtype_name(t->dtype));
    t->dtype = VC_DTYPE_BF16;
    return VC_OK;
}

/* "scheme" means codes, "dtype" a type that the container does not have. */
static enum vc_status apply_entry(const struct entry *e)
{
    const char *name = e->model->tensors[e->tensor].name;
    const char *scheme = text_of(e, "scheme");
    const char *dtype = text_of(e, "dtype");

    VC_REFUSE_IF(!json_is_object(e->json), e->ctx, VC_E_FORMAT, "%s: its entry is no object", name);
    if (scheme != NULL && vc_code_scheme_named(scheme) != NULL) {
        return apply_codes(e, vc_code_scheme_named(scheme));
    }
    if (scheme == NULL && dtype != NULL && strcmp(dtype, "bf16") == 0) {
        return apply_bf16(e);
    }
    VC_REFUSE_IF(scheme != NULL || dtype != NULL, e->ctx, VC_E_UNSUPPORTED, "%s: %s '%s' is not known to this version",
                 name, scheme != NULL ? "scheme" : "dtype", scheme != NULL ? scheme : dtype);
    return vc_fail(e->ctx, VC_E_FORMAT, "%s: its entry has neither \"scheme\" nor \"dtype\"", name);
}

/* After all entries: no tensor is codes by one entry and a part by another. */
static enum vc_status check_roles(struct vc_ctx *ctx, const struct vc_model *model)
{
    for (size_t i = 0; i < model->n_tensors; i++) {
        VC_REFUSE_IF(model->tensors[i].quant != NULL && model->tensors[i].part_of != VC_NO_TENSOR, ctx, VC_E_FORMAT,
                     "%s: is quantized and at the same time belongs to '%s'", model->tensors[i].name,
                     model->tensors[model->tensors[i].part_of].name);
    }
    return VC_OK;
}

/* ---- the options of the run that made it ---- */

/* The options of the run that wrote the file, for reports. Strings only: reading does not depend on them, so anything
 * else is left out. One allocation holds the entries and, behind them, their texts. The first file of several that has
 * options counts. */
static enum vc_status keep_recipe(struct vc_ctx *ctx, json_t *options, struct vc_model *model)
{
    uint64_t bytes = 0;
    size_t n = 0;
    const char *key;
    json_t *value;

    json_object_foreach(options, key, value)
    {
        n += json_is_string(value);
        bytes += json_is_string(value) ? strlen(key) + strlen(json_string_value(value)) + 2 : 0;
    }
    if (n == 0 || model->recipe != NULL) {
        return VC_OK;
    }
    model->recipe = vc_alloc(ctx, VC_TAG_NAMES, n * sizeof *model->recipe + (size_t)bytes); /* as large as the text */
    VC_CALL_ALLOC(model->recipe);
    char *at = (char *)(model->recipe + n);
    json_object_foreach(options, key, value)
    {
        if (json_is_string(value)) {
            size_t n_key = strlen(key) + 1;
            size_t n_value = strlen(json_string_value(value)) + 1;

            memcpy(at, key, n_key);
            memcpy(at + n_key, json_string_value(value), n_value);
            model->recipe[model->n_recipe++] = (struct vc_recipe_entry){at, at + n_key};
            at += n_key + n_value;
        }
    }
    return VC_OK;
}

/* ---- the whole ---- */

/* Applies the entries of the object "tensors" that have a scheme, or the others. seen: which tensors had an entry.
 * Doubles are looked for in the first of both walks. */
static enum vc_status apply_entries(struct vc_ctx *ctx, struct json_walk *walk, bool schemes, bool *seen,
                                    struct vc_model *model)
{
    const char *name;
    json_t *value;

    for (;;) {
        enum vc_status status = vc_json_walk_next(ctx, walk, &name, &value);
        struct entry e = {.ctx = ctx, .model = model, .json = value};

        if (status != VC_OK) {
            return status == VC_E_FORMAT ? vc_context(ctx, "is no valid JSON object") : status;
        }
        if (name == NULL) {
            return VC_OK;
        }
        VC_CALL(vc_check_cancelled(ctx));
        e.tensor = vc_model_find(model, name);
        if (e.tensor != VC_NO_TENSOR && !schemes) {
            VC_REFUSE_IF(seen[e.tensor], ctx, VC_E_FORMAT, "has two entries for '%s'", name);
            seen[e.tensor] = true;
        }
        if ((json_object_get(value, "scheme") != NULL) != schemes) {
            continue;
        }
        if (e.tensor == VC_NO_TENSOR) {
            status = vc_fail(ctx, VC_E_FORMAT, "tensor '%s' is not in the file", name);
        } else {
            status = apply_entry(&e);
        }
        VC_CALL(vc_collect(ctx, status, "manifest", name));
    }
}

/* text[begin..end]: the object "tensors". It is walked twice, so that a hundred thousand entries need no tree at once:
 * types come first, for scales may be bf16. */
static enum vc_status apply_tensors(struct vc_ctx *ctx, char *text, size_t begin, size_t end, struct vc_model *model)
{
    struct json_walk walk;
    VC_SCOPED bool *seen = NULL;
    enum vc_status status = VC_OK;

    VC_CALL(VC_ZEROS(ctx, VC_TAG_NAMES, seen, model->n_tensors));
    for (int schemes = 0; schemes < 2 && status == VC_OK; schemes++) {
        vc_json_walk_inside(&walk, text, begin, end);
        status = apply_entries(ctx, &walk, schemes != 0, seen, model);
        vc_json_walk_end(ctx, &walk);
    }
    return status == VC_OK ? check_roles(ctx, model) : status;
}

/* What is outside of "tensors", and where that is: text[*begin..*end]; *end 0 if there is none. */
static enum vc_status read_top(struct vc_ctx *ctx, struct json_walk *walk, struct vc_model *model, size_t *begin,
                               size_t *end)
{
    bool has_schema = false;
    const char *name = "";
    json_t *value;

    while (name != NULL) {
        if (*end == 0 && vc_json_walk_over(walk, "tensors", begin, end)) {
            continue;
        }
        enum vc_status status = vc_json_walk_next(ctx, walk, &name, &value);
        if (status != VC_OK) {
            return status == VC_E_FORMAT ? vc_context(ctx, "is no valid JSON object") : status;
        }
        if (name != NULL && strcmp(name, "schema") == 0 && json_is_string(value)) {
            has_schema = true;
            VC_REFUSE_IF(strcmp(json_string_value(value), VC_MANIFEST_SCHEMA) != 0, ctx, VC_E_UNSUPPORTED,
                         "has schema \"%s\", this version reads \"%s\"", json_string_value(value), VC_MANIFEST_SCHEMA);
        } else if (name != NULL && strcmp(name, "options") == 0) {
            VC_CALL(keep_recipe(ctx, value, model));
        } else if (name != NULL && strcmp(name, "tensors") == 0) {
            return vc_fail(ctx, VC_E_FORMAT, *end != 0 ? "has two objects \"tensors\"" : "has no object \"tensors\"");
        }
    }
    VC_REFUSE_IF(!has_schema, ctx, VC_E_FORMAT, "has no \"schema\", expected \"%s\"", VC_MANIFEST_SCHEMA);
    return *end != 0 ? VC_OK : vc_fail(ctx, VC_E_FORMAT, "has no object \"tensors\"");
}

/* The limit keeps a broken file from taking memory. jansson reads the text, which is as it was afterwards. */
enum vc_status vc_manifest_apply(struct vc_ctx *ctx, char *json, size_t n, struct vc_model *model)
{
    struct json_walk walk;
    size_t begin = 0;
    size_t end = 0;

    VC_REFUSE_IF(n > VC_MANIFEST_MAX_BYTES, ctx, VC_E_FORMAT, "has %zu bytes, more than the %zu that are allowed", n,
                 VC_MANIFEST_MAX_BYTES);
    vc_json_walk_inside(&walk, json, vc_json_skip_space(json, n, 0), n);
    enum vc_status status = read_top(ctx, &walk, model, &begin, &end);
    vc_json_walk_end(ctx, &walk);
    VC_CALL(status);
    return apply_tensors(ctx, json, begin, end, model);
}
