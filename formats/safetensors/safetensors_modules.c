/* safetensors_modules.c - see safetensors_modules.h.
 *
 * What is not certain stays the plain tensors it is: a part that is missing (it may lie in another shard) or of another
 * type, zero points packed along the other axis, other numbers of bits. Parts that are all there and contradict each
 * other are damage, and so is a module with two weights. */
#include "formats/safetensors/safetensors_modules.h"

#include <inttypes.h>
#include <string.h>

#include "core/base/checked.h"
#include "core/base/findings.h"
#include "core/model/names.h"
#include "formats/dialects/dialects.h"
#include "formats/dialects/manifest_internal.h"

struct finding {
    struct vc_ctx *ctx;
    struct vc_model *model;
    struct safetensors_modules *out;
    enum vc_status (*ask)(struct vc_ctx *ctx, const struct vc_model *model, struct safetensors_hint *out);
    bool asked;
    struct safetensors_hint hint;
    char *buffer; /* a name and any suffix */
    size_t n_found;
};

/* One packed weight, while it is looked at. */
struct packed {
    size_t codes, scale, shape;
    uint64_t n_rows, row;
    struct vc_quant quant;
};

/* ---- small questions ---- */

static const char *name_with(const struct finding *f, const char *stem, size_t n, const char *tail)
{
    memcpy(f->buffer, stem, n);
    memcpy(f->buffer + n, tail, strlen(tail) + 1);
    return f->buffer;
}

/* The tensor <first n characters of stem><tail>, or VC_NO_TENSOR. */
static size_t find_with(const struct finding *f, const char *stem, size_t n, const char *tail)
{
    return vc_model_find(f->model, name_with(f, stem, n, tail));
}

static bool has(const struct finding *f, const char *stem, size_t n, const char *tail)
{
    return find_with(f, stem, n, tail) != VC_NO_TENSOR;
}

static bool is_scale_type(enum vc_dtype dtype)
{
    return dtype == VC_DTYPE_F32 || dtype == VC_DTYPE_F16 || dtype == VC_DTYPE_BF16;
}

/* Free to be a part of something. */
static bool is_free(const struct vc_tensor *t)
{
    return t->companion_of == VC_NO_TENSOR && t->quant == NULL;
}

static enum vc_status get_hint(struct finding *f)
{
    enum vc_status status = VC_OK;

    if (!f->asked && f->ask != NULL) {
        VC_TRY(f->ask(f->ctx, f->model, &f->hint));
    }
    f->asked = true;
out:
    return status;
}

/* ---- how the scales are shared ---- */

static bool group_fits(uint64_t row, uint64_t n_groups, uint64_t group)
{
    return group != 0 && vc_ceil_div_u64(row, group) == n_groups;
}

/* Group size for rows of that length: what divides them, else what config.json says. 0: not certain. */
static enum vc_status find_group(struct finding *f, uint64_t row, uint64_t n_groups, uint64_t *group)
{
    enum vc_status status = VC_OK;

    *group = row % n_groups == 0 ? row / n_groups : 0;
    if (*group == 0) {
        VC_TRY(get_hint(f));
        *group = group_fits(row, n_groups, f->hint.group_size) ? f->hint.group_size : 0;
    }
out:
    return status;
}

/* Fills granularity, axis and group of *quant; *sure is false where the shape of the scales allows none, or more than
 * one. */
static enum vc_status read_granularity(struct finding *f, const struct vc_tensor *scale, uint64_t n_rows, uint64_t row,
                                       struct vc_quant *quant, bool *sure)
{
    uint64_t n_groups = scale->n_dims == 2 ? scale->shape[1] : 0;
    bool by_rows = scale->n_dims == 2 && scale->shape[0] == n_rows;
    enum vc_status status = VC_OK;

    *sure = true;
    quant->axis = 0;
    if (by_rows && n_groups == 1) {
        quant->granularity = VC_GRANULARITY_CHANNEL;
    } else if (scale->n_elems == 1) {
        quant->granularity = VC_GRANULARITY_TENSOR;
    } else if (by_rows && n_groups >= 2 && n_groups <= row) {
        quant->granularity = VC_GRANULARITY_GROUP;
        VC_TRY(find_group(f, row, n_groups, &quant->group_size));
        *sure = quant->group_size != 0;
    } else {
        *sure = false;
    }
out:
    return status;
}

/* ---- compressed-tensors, packed ---- */

bool vc_safetensors_words_fit(uint64_t row, unsigned bits, uint64_t n_words)
{
    uint64_t dense = row / 32 * bits + (row % 32 * bits + 31) / 32;

    return n_words == dense || n_words == vc_ceil_div_u64(row, 32 / bits);
}

/* The shape that the values of m.weight_shape state, against the packed array. *is_int8: it can only be 8 bits. */
static enum vc_status check_shape(struct finding *f, struct packed *p, bool *is_int8)
{
    const struct vc_tensor *codes = &f->model->tensors[p->codes];
    unsigned char stated[16];
    unsigned bits = 1;
    enum vc_status status;

    *is_int8 = false;
    VC_TRY(vc_source_read_any(f->ctx, f->model, p->shape, VC_FORM_VALUES, 0, stated, sizeof stated));
    p->n_rows = vc_le64(stated);
    p->row = vc_le64(stated + 8);
    while (bits <= 8 && p->row <= INT64_MAX && !vc_safetensors_words_fit(p->row, bits, codes->shape[1])) {
        bits++;
    }
    if (p->n_rows != codes->shape[0] || p->row > INT64_MAX || bits > 8) {
        return vc_fail(f->ctx, VC_E_FORMAT,
                       "%s: has shape [%" PRIu64 ", %" PRIu64 "], which does not fit [%" PRId64 ", %" PRId64
                       "], the values of '%s'",
                       codes->name, codes->shape[0], codes->shape[1], (int64_t)p->n_rows, (int64_t)p->row,
                       f->model->tensors[p->shape].name);
    }
    if (p->row == 0 || !vc_safetensors_words_fit(p->row, 8, codes->shape[1])) {
        return VC_OK;
    }
    if (vc_safetensors_words_fit(p->row, 4, codes->shape[1])) { /* one word each way */
        VC_TRY(get_hint(f));
        *is_int8 = f->hint.num_bits == 8;
        return VC_OK;
    }
    *is_int8 = true;
out:
    return status;
}

/* Finds the parts of the weight whose packed codes are tensor i; *found is false where it stays plain. */
static enum vc_status look_at_packed(struct finding *f, struct packed *p, bool *found)
{
    const struct vc_tensor *t = &f->model->tensors[p->codes];
    size_t n = strlen(t->name) - strlen("_packed");
    bool sure = false;
    enum vc_status status = VC_OK;

    *found = false;
    if (has(f, t->name, n, "")) {
        status = vc_fail(f->ctx, VC_E_FORMAT, "%s: the same module has a '%s', too", t->name, f->buffer);
        return vc_collect(f->ctx, status, "twice", t->name);
    }
    p->scale = find_with(f, t->name, n, "_scale");
    p->shape = find_with(f, t->name, n, "_shape");
    if (t->dtype != VC_DTYPE_I32 || t->n_dims != 2 || p->scale == VC_NO_TENSOR || p->shape == VC_NO_TENSOR ||
        !is_scale_type(f->model->tensors[p->scale].dtype) || f->model->tensors[p->shape].dtype != VC_DTYPE_I64 ||
        f->model->tensors[p->shape].n_elems != 2 || has(f, t->name, n, "_zero_point") || has(f, t->name, n, "_g_idx") ||
        has(f, t->name, n, "_global_scale")) {
        return VC_OK;
    }
    VC_TRY(check_shape(f, p, &sure));
    if (!sure) {
        return VC_OK;
    }
    p->quant = (struct vc_quant){
        .scheme = VC_SCHEME_INT8, .symmetric = true, .source_dtype = f->model->tensors[p->scale].dtype};
    vc_quant_set(&p->quant, VC_PART_SCALE, p->scale);
    VC_TRY(read_granularity(f, &f->model->tensors[p->scale], p->n_rows, p->row, &p->quant, found));
    if (!*found && p->quant.granularity != VC_GRANULARITY_GROUP) {
        return vc_fail(f->ctx, VC_E_FORMAT, "%s: its scales '%s' fit neither %" PRIu64 " rows nor groups of them",
                       t->name, f->model->tensors[p->scale].name, p->n_rows);
    }
out:
    return status;
}

/* The tensor becomes the codes; its name follows when all have been found, since names are being looked up. */
static enum vc_status present_packed(struct finding *f, const struct packed *p)
{
    struct vc_tensor *t = &f->model->tensors[p->codes];
    uint64_t *shape = vc_arena_alloc(f->ctx, &f->out->arena, 2 * sizeof *shape);
    enum vc_status status = VC_OK;

    VC_TRY_ALLOC(shape);
    shape[0] = p->n_rows;
    shape[1] = p->row;
    t->dtype = VC_DTYPE_I8;
    t->shape = shape;
    t->n_elems = p->n_rows * p->row; /* at most the bytes of the packed array */
    t->size_bytes = t->n_elems;
    VC_TRY(vc_manifest_attach(f->ctx, f->model, p->codes, &p->quant));
    f->model->tensors[p->shape].companion_of = p->codes;
    f->out->kinds[p->codes] = SAFETENSORS_PACKED;
    f->out->dialect = &vc_dialect_compressed_tensors;
    f->n_found++;
out:
    return status;
}

static enum vc_status rename_packed(struct finding *f)
{
    enum vc_status status = VC_OK;
    size_t i;

    for (i = 0; i < f->model->n_tensors; i++) {
        struct vc_tensor *t = &f->model->tensors[i];

        if (f->out->kinds[i] == SAFETENSORS_PACKED) {
            size_t n = strlen(t->name) - strlen("_packed");

            t->name = vc_arena_printf(f->ctx, &f->out->arena, "%.*s", (int)n, t->name);
            VC_TRY_ALLOC(t->name);
        }
    }
    VC_TRY(vc_model_index_names(f->ctx, f->model));
out:
    return status;
}

static bool is_packed_name(const char *name)
{
    static const char tail[] = "weight_packed";
    size_t n = strlen(name);
    size_t k = sizeof tail - 1;

    return n >= k && strcmp(name + n - k, tail) == 0 && (n == k || name[n - k - 1] == '.');
}

static enum vc_status make_buffer(struct finding *f)
{
    size_t longest = 0;
    size_t i;

    for (i = 0; i < f->model->n_tensors; i++) {
        size_t n = strlen(f->model->tensors[i].name);

        longest = n > longest ? n : longest;
    }
    f->buffer = vc_alloc(f->ctx, VC_TAG_NAMES, longest + 32);
    return f->buffer != NULL ? VC_OK : VC_E_NOMEM;
}

enum vc_status vc_safetensors_find_packed(struct vc_ctx *ctx, struct vc_model *model,
                                          enum vc_status (*hint)(struct vc_ctx *ctx, const struct vc_model *model,
                                                                 struct safetensors_hint *out),
                                          struct safetensors_modules *out)
{
    struct finding f = {.ctx = ctx, .model = model, .out = out, .ask = hint};
    enum vc_status status = VC_OK;
    size_t i;

    out->dialect = &vc_dialect_plain;
    out->kinds = vc_calloc_array(ctx, VC_TAG_NAMES, model->n_tensors, sizeof *out->kinds);
    VC_TRY_ALLOC(out->kinds);
    VC_TRY(make_buffer(&f));
    for (i = 0; i < model->n_tensors; i++) {
        struct packed p = {.codes = i};
        bool found = false;

        if (is_packed_name(model->tensors[i].name)) {
            status = look_at_packed(&f, &p, &found);
            found = found && status == VC_OK;
            VC_TRY(vc_collect(ctx, status, "parts", model->tensors[i].name));
        }
        if (found) {
            VC_TRY(present_packed(&f, &p));
        }
    }
    if (f.n_found != 0) {
        VC_TRY(rename_packed(&f));
    }
out:
    vc_free(ctx, f.buffer);
    return status;
}

/* ---- weights of type i8 with scales beside them ---- */

/* bitsandbytes: the rows' absolute maxima. Other orders of the codes than by rows (weight_format) are left alone. */
static enum vc_status look_at_absmax(struct finding *f, size_t codes, size_t n_path, bool *found)
{
    const struct vc_tensor *t = &f->model->tensors[codes];
    size_t n = n_path == 0 ? 0 : n_path + 1;
    size_t absmax = find_with(f, t->name, n, "SCB");
    size_t format = find_with(f, t->name, n, "weight_format");
    struct vc_quant quant = {.scheme = VC_SCHEME_INT8,
                             .granularity = VC_GRANULARITY_CHANNEL,
                             .symmetric = true,
                             .source_dtype = VC_DTYPE_F32};
    unsigned char order = 0;
    enum vc_status status = VC_OK;

    if (absmax == VC_NO_TENSOR || f->model->tensors[absmax].dtype != VC_DTYPE_F32 ||
        !is_free(&f->model->tensors[absmax])) {
        return VC_OK;
    }
    vc_quant_set(&quant, VC_PART_ABSMAX, absmax);
    if (format != VC_NO_TENSOR) {
        if (f->model->tensors[format].dtype != VC_DTYPE_U8 || f->model->tensors[format].n_elems != 1) {
            return VC_OK;
        }
        VC_TRY(vc_source_read_any(f->ctx, f->model, format, VC_FORM_VALUES, 0, &order, 1));
    }
    if (order != 0) {
        return VC_OK;
    }
    if (f->model->tensors[absmax].n_dims != 1 || f->model->tensors[absmax].n_elems != t->shape[0]) {
        return vc_fail(f->ctx, VC_E_FORMAT, "%s: has %" PRIu64 " rows, but '%s' has %" PRIu64 " numbers", t->name,
                       t->shape[0], f->model->tensors[absmax].name, f->model->tensors[absmax].n_elems);
    }
    VC_TRY(vc_manifest_attach(f->ctx, f->model, codes, &quant));
    if (format != VC_NO_TENSOR) {
        f->model->tensors[format].companion_of = codes;
    }
    f->out->kinds[codes] = SAFETENSORS_ABSMAX;
    f->out->dialect = f->out->dialect == &vc_dialect_plain ? &vc_dialect_bitsandbytes : f->out->dialect;
    *found = true;
out:
    return status;
}

/* What loaders keep beside a weight of 8 bits for its inputs goes with it. */
static void claim_inputs(struct finding *f, size_t codes, size_t n)
{
    static const char *const tails[] = {"input_scale", "input_zero_point", "output_scale", "output_zero_point"};
    size_t i;

    for (i = 0; i < sizeof tails / sizeof tails[0]; i++) {
        size_t part = find_with(f, f->model->tensors[codes].name, n, tails[i]);

        if (part != VC_NO_TENSOR && is_free(&f->model->tensors[part])) {
            f->model->tensors[part].companion_of = codes;
        }
    }
}

/* compressed-tensors, int-quantized. */
static enum vc_status look_at_scaled(struct finding *f, size_t codes, size_t n_path)
{
    const struct vc_tensor *t = &f->model->tensors[codes];
    size_t n = strlen(t->name);
    size_t scale = find_with(f, t->name, n, "_scale");
    size_t zero = find_with(f, t->name, n, "_zero_point");
    struct vc_quant quant = {.scheme = VC_SCHEME_INT8, .symmetric = zero == VC_NO_TENSOR};
    bool sure = false;
    enum vc_status status = VC_OK;

    if (scale == VC_NO_TENSOR || !is_scale_type(f->model->tensors[scale].dtype) ||
        !is_free(&f->model->tensors[scale]) || has(f, t->name, n, "_g_idx")) {
        return VC_OK;
    }
    if (zero != VC_NO_TENSOR && (f->model->tensors[zero].dtype != VC_DTYPE_I8 || !is_free(&f->model->tensors[zero]) ||
                                 !vc_manifest_same_shape(&f->model->tensors[scale], &f->model->tensors[zero]))) {
        return VC_OK;
    }
    vc_quant_set(&quant, VC_PART_SCALE, scale);
    vc_quant_set(&quant, VC_PART_ZERO_POINT, zero);
    quant.source_dtype = f->model->tensors[scale].dtype;
    VC_TRY(read_granularity(f, &f->model->tensors[scale], t->shape[0], t->shape[1], &quant, &sure));
    if (sure) {
        VC_TRY(vc_manifest_attach(f->ctx, f->model, codes, &quant));
        claim_inputs(f, codes, n_path == 0 ? 0 : n_path + 1);
        f->out->kinds[codes] = SAFETENSORS_SCALED;
    }
out:
    return status;
}

enum vc_status vc_safetensors_find_scaled(struct vc_ctx *ctx, struct vc_model *model, struct safetensors_modules *out)
{
    struct finding f = {.ctx = ctx, .model = model, .out = out};
    enum vc_status status;
    size_t i;

    VC_TRY(make_buffer(&f));
    for (i = 0; i < model->n_tensors; i++) {
        const struct vc_tensor *t = &model->tensors[i];
        bool found = false;
        size_t n_path;

        if (t->dtype != VC_DTYPE_I8 || t->n_dims != 2 || t->n_elems == 0 || !is_free(t) ||
            !vc_name_is_module_weight(t->name, &n_path)) {
            continue;
        }
        VC_TRY(vc_collect(ctx, look_at_absmax(&f, i, n_path, &found), "parts", t->name));
        if (!found) {
            VC_TRY(vc_collect(ctx, look_at_scaled(&f, i, n_path), "parts", t->name));
        }
    }
out:
    vc_free(ctx, f.buffer);
    return status;
}

void vc_safetensors_modules_release(struct vc_ctx *ctx, struct safetensors_modules *modules)
{
    vc_free(ctx, modules->kinds);
    vc_arena_release(ctx, &modules->arena);
}
