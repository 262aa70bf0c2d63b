/* comfy.c - the dialect of ComfyUI's single files. What the codes of a layer are says one of three marks, of which the
 * first is written:
 *
 *     m.comfy_quant    U8, a text                {"format": "float8_e4m3fn"}
 *     __metadata__     _quantization_metadata    {"format_version": "1.0", "layers": {"m": {"format": ...}}}
 *     scaled_fp8       of the whole file         older: weights of fp8 have m.scale_weight (absent: 1)
 *
 *     float8_e4m3fn    m.weight F8_E4M3 [out, in]   (U8 in older files) value = code * weight_scale (or scale_weight), one number or [out, 1]
 *     int8_tensorwise  m.weight I8 [out, in]        the same; not where "convrot" says that the rows were rotated
 *     nvfp4            m.weight U8 [out, in / 2]    two codes a byte, the first in the high half;
 *                                                   value = code * (weight_scale * weight_scale_2)
 *                      m.weight_scale F8_E4M3       [out, in / 16] in blocks (packing_blocked.c), filled up with zeros
 *                      m.weight_scale_2 F32 []
 *     mxfp8            m.weight F8_E4M3 [out, in]   weight_scale U8 (E8M0) [out, in / 32] in the same blocks
 *
 * m.input_scale (scale_input) is of the inputs. The other formats (float8_e5m2, svdquant, ...) are refused by their
 * name. What decodes the weights takes all marks of them away, since ComfyUI would take floats for codes.
 *
 * Written are fp8 with one scale for a tensor, int8 with one or a scale per row, nvfp4 and mxfp8, of linear layers; of
 * networks that are known (arch/arch_pictures.h) not of all. Rows and columns of nvfp4 and mxfp8 are multiples of 16
 * and 32: others are filled up by ComfyUI, and their file does not tell the shape. f8_e4m3, floats that are cast, needs
 * no marks: ComfyUI casts them back. ComfyUI's layouts are those of comfy-kitchen 0.2.40. */
#include "formats/dialects/comfy.h"

#include "arch/arch_pictures.h"
#include "core/model/code_schemes.h"
#include "core/model/names.h"
#include "formats/dialects/search.h"
#include "formats/json/json_walk.h"

#define MAX_MARK ((uint64_t)4096)

/* ---- rules ---- */

/* The formats that are read and written. */
struct format {
    const char *name;
    enum vc_scheme scheme;
    enum vc_dtype dtype; /* of m.weight */
    uint64_t multiple;   /* of rows and columns; 0: one number is the scale of a tensor, or of a row */
};

static const struct format formats[] = {{"float8_e4m3fn", VC_SCHEME_FP8, VC_DTYPE_F8_E4M3, 0},
                                        {"int8_tensorwise", VC_SCHEME_INT8, VC_DTYPE_I8, 0},
                                        {"nvfp4", VC_SCHEME_NVFP4, VC_DTYPE_U8, 16},
                                        {"mxfp8", VC_SCHEME_MXFP8, VC_DTYPE_F8_E4M3, 32}};

#define N_FORMATS (sizeof formats / sizeof formats[0])

/* The row for the scheme; NULL: none. */
static const struct format *format_of_scheme(const char *scheme)
{
    for (size_t i = 0; i < N_FORMATS; i++) {
        if (strcmp(scheme, vc_scheme_name(formats[i].scheme)) == 0) {
            return &formats[i];
        }
    }
    return NULL;
}

static bool is_fp8(const struct vc_dialect_request *request)
{
    return strcmp(request->scheme, vc_scheme_name(VC_SCHEME_FP8)) == 0;
}

static enum vc_status comfy_check(struct vc_ctx *ctx, const struct vc_dialect_request *request)
{
    const struct format *format = format_of_scheme(request->scheme);
    bool one = request->granularity == VC_GRANULARITY_TENSOR;

    if (format != NULL && format->multiple != 0) {
        return VC_OK; /* the scheme has one granularity */
    }
    VC_REFUSE_IF(!request->symmetric, ctx, VC_E_ARGUMENT, "the layout %s takes no zero points (%s)",
                 vc_dialect_comfy.name, vc_option(ctx, "asymmetric"));
    VC_REFUSE_IF(request->axis_given && request->axis != 0, ctx, VC_E_ARGUMENT,
                 "the layout %s takes scales along axis 0 only (%s)", vc_dialect_comfy.name, vc_option(ctx, "axis"));
    VC_REFUSE_IF(is_fp8(request) && !one, ctx, VC_E_ARGUMENT,
                 "the layout %s takes fp8 with one scale for a tensor (%s)", vc_dialect_comfy.name,
                 vc_option(ctx, "granularity"));
    VC_REFUSE_IF(!one && request->granularity != VC_GRANULARITY_CHANNEL, ctx, VC_E_ARGUMENT,
                 "the layout %s takes %s with one scale for a tensor or a row (%s)", vc_dialect_comfy.name,
                 request->scheme, vc_option(ctx, "granularity"));
    return VC_OK;
}

bool vc_comfy_is_picture(const struct vc_model *model)
{
    const char *prefix;

    return vc_arch_picture_find(model, &prefix) != NULL;
}

static const char *comfy_reason(const struct vc_dialect_request *request, const struct vc_dialect_tensor *tensor)
{
    const struct format *format = format_of_scheme(request->scheme);
    const char *why = NULL;
    bool known = false;
    size_t n_path;

    if (tensor->n_dims != 2 || !vc_name_is_module_weight(tensor->name, &n_path) || tensor->channel_axis != 0) {
        return "no weight of a linear layer";
    }
    if (format != NULL && format->multiple != 0 &&
        (tensor->shape[0] % format->multiple != 0 || tensor->shape[1] % format->multiple != 0)) {
        return format->multiple == 16 ? "rows or columns are no multiple of 16"
                                      : "rows or columns are no multiple of 32";
    }
    if (tensor->included) {
        return NULL;
    }
    if (request->model != NULL) {
        why = vc_arch_picture_reason(request->model, tensor->name, &known);
    }
    if (known) {
        return why;
    }
    if (vc_name_is_embedding(tensor->name)) {
        return "embedding";
    }
    return vc_name_is_head(tensor->name) ? "output head" : NULL;
}

static enum vc_dtype comfy_part_type(const struct vc_dialect_request *request, const struct vc_dialect_tensor *tensor,
                                     enum vc_part_role role, enum vc_dtype usual)
{
    return role == VC_PART_SCALE && usual != VC_DTYPE_U8 ? VC_DTYPE_F32 : usual;
}

/* ---- writing ---- */

static bool comfy_fits(const struct vc_out_tensor *codes)
{
    const struct vc_quant *quant = codes->quant;
    const struct format *format = format_of_scheme(vc_scheme_name(quant->scheme));
    bool one = quant->granularity == VC_GRANULARITY_TENSOR;
    bool rows = quant->granularity == VC_GRANULARITY_CHANNEL && quant->axis == 0;
    size_t n_path;

    if (format == NULL || codes->n_dims != 2 || !vc_name_is_module_weight(codes->name, &n_path) ||
        vc_quant_is_special(quant)) {
        return false;
    }
    return format->multiple != 0
               ? quant->global_multiplies == (quant->scheme == VC_SCHEME_NVFP4) &&
                     codes->shape[0] % format->multiple == 0 && codes->shape[1] % format->multiple == 0
               : quant->symmetric && vc_quant_find(quant, VC_PART_ABSMAX) == VC_NO_TENSOR &&
                     (one || (rows && quant->scheme == VC_SCHEME_INT8));
}

/* Bytes of scales [n_rows, row] in blocks; or, of codes of nvfp4, bytes whose first code has the high bits. */
static struct vc_packed blocks_of(uint64_t n_rows, uint64_t row)
{
    return (struct vc_packed){.packing = &vc_packing_blocked, .bits = 8, .n_rows = n_rows, .row = row};
}

static struct vc_packed pairs_of(uint64_t n_rows, uint64_t row)
{
    return (struct vc_packed){.packing = &vc_packing_rows, .bits = 8, .n_rows = n_rows, .row = row, .high_first = true};
}

static enum vc_status lay_scales(struct vc_laying *l, struct vc_laid part)
{
    uint64_t columns = l->part->shape[1];

    part.dtype = l->codes->quant->scheme == VC_SCHEME_NVFP4 ? VC_DTYPE_F8_E4M3 : VC_DTYPE_U8;
    part.shape = NULL;
    part.packed = blocks_of(l->part->shape[0], columns);
    VC_REFUSE_IF(!vc_packing_blocked.size(&part.packed, &part.n_bytes), l->ctx, VC_E_UNSUPPORTED,
                 "%s: too many scales for blocks of them", l->codes->name);
    return vc_dialect_lay(l, "weight_scale", part, vc_ceil_div_u64(l->part->shape[0], 128) * 128,
                          vc_ceil_div_u64(columns, 4) * 4);
}

/* The scale, and behind it the mark of the layer. */
static enum vc_status comfy_lay(struct vc_laying *l)
{
    const struct vc_quant *quant = l->codes->quant;
    const struct format *format = format_of_scheme(vc_scheme_name(quant->scheme));
    bool number =
        l->role == VC_PART_GLOBAL_SCALE || (l->role == VC_PART_SCALE && quant->granularity == VC_GRANULARITY_TENSOR);
    struct vc_laid part = {.dtype = l->part->dtype,
                           .n_dims = number ? 0 : l->part->n_dims, /* no array of one */
                           .shape = l->part->shape,
                           .n_bytes = l->part->size_bytes};
    const char *mark = vc_arena_printf(l->ctx, l->arena, "{\"format\": \"%s\"}", format->name);
    struct vc_laid text = {.dtype = VC_DTYPE_U8, .n_dims = 1, .constant = mark};

    VC_CALL_ALLOC(mark);
    text.n_bytes = strlen(mark);
    l->n = 0;
    if (l->role == VC_PART_CODES && quant->scheme == VC_SCHEME_NVFP4) {
        part.dtype = VC_DTYPE_U8;
        part.shape = NULL;
        part.packed = pairs_of(l->codes->shape[0], l->codes->shape[1] / 2);
        return vc_dialect_lay(l, NULL, part, l->codes->shape[0], l->codes->shape[1] / 2);
    }
    if (l->role == VC_PART_CODES) {
        return vc_dialect_lay(l, NULL, part, 0, 0);
    }
    if (l->role == VC_PART_GLOBAL_SCALE) {
        return vc_dialect_lay(l, "weight_scale_2", part, 0, 0);
    }
    if (format->multiple != 0) {
        VC_CALL(lay_scales(l, part));
    } else {
        VC_CALL(vc_dialect_lay(l, "weight_scale", part, 0, 0));
    }
    return vc_dialect_lay(l, "comfy_quant", text, text.n_bytes, 0);
}

/* ---- marks ---- */

/* What a mark says of the layer; the caller frees it. NULL if there is none. */
static enum vc_status read_mark(struct vc_search *s, const char *name, size_t n_stem, json_t **out)
{
    size_t at = vc_search_find(s, name, n_stem, "comfy_quant");
    const struct vc_tensor *t = at != VC_NO_TENSOR ? &s->model->tensors[at] : NULL;
    char text[MAX_MARK];

    *out = NULL;
    if (t != NULL && t->dtype == VC_DTYPE_U8 && t->n_elems != 0 && t->n_elems <= MAX_MARK) {
        VC_CALL(vc_source_read_any(s->ctx, s->model, at, VC_FORM_VALUES, 0, text, (size_t)t->n_elems));
        *out = json_loadb(text, (size_t)t->n_elems, JSON_REJECT_DUPLICATES, NULL);
    }
    if (t != NULL && *out == NULL) {
        *out = json_object(); /* a mark without a format */
        VC_CALL_ALLOC(*out);
    }
    return VC_OK;
}

/* The member of the metadata about the layer, whose name may lack the network's prefix there: ComfyUI takes the prefix
 * off before it reads marks. NULL if there is none. The search's. */
static enum vc_status find_layer(struct vc_search *s, const char *name, size_t n_stem, json_t **out)
{
    VC_CALL(vc_search_hint(s));
    if (s->layers == NULL && s->hint.layers != NULL) {
        s->layers = json_loads(s->hint.layers, JSON_REJECT_DUPLICATES, NULL);
    }
    memcpy(s->buffer, name, n_stem);
    s->buffer[n_stem != 0 ? n_stem - 1 : 0] = '\0'; /* without the dot */
    const json_t *layers = json_object_get(s->layers, "layers");
    *out = json_object_get(layers, s->buffer);
    *out = *out != NULL ? *out : json_object_get(layers, s->buffer + vc_arch_picture_prefix(s->buffer));
    return VC_OK;
}

/* The file's mark of the older kind, "scaled_fp8", behind a prefix of the layer's name: it goes with the codes. */
static void claim_old_mark(const struct vc_search *s, size_t codes, size_t n_stem)
{
    const char *name = s->model->tensors[codes].name;
    size_t mark = vc_search_find(s, "", 0, "scaled_fp8");

    for (size_t i = 0; i < n_stem && mark == VC_NO_TENSOR; i++) {
        mark = name[i] == '.' ? vc_search_find(s, name, i + 1, "scaled_fp8") : mark;
    }
    if (mark != VC_NO_TENSOR && vc_search_is_free(s, mark)) {
        s->model->tensors[mark].part_of = codes;
        s->model->tensors[mark].of_all_codes = true;
    }
}

/* ---- reading ---- */

/* The format by the marks of the layer, or of the file: a static word, or one of `mark`. NULL: there are no marks. */
static const char *format_of(const struct vc_search *s, size_t codes, size_t n_stem, const json_t *mark)
{
    const struct vc_tensor *t = &s->model->tensors[codes];
    const char *format = json_string_value(json_object_get(mark, "format"));

    if (mark != NULL) {
        bool rotated = json_is_true(json_object_get(mark, "convrot")) ||
                       json_is_true(json_object_get(json_object_get(mark, "params"), "convrot"));

        return rotated || format == NULL ? "of rotated rows or without a name" : format;
    }
    if (!vc_search_has(s, t->name, n_stem, "scale_weight")) {
        return NULL;
    }
    return t->dtype == VC_DTYPE_F8_E4M3 ? "float8_e4m3fn" : "float8_e5m2";
}

/* The type that codes were made from, which no mark names: the half that more tensors of their network have. Networks of a
 * file begin otherwise, each up to the first dot:
 *
 *     first_stage_model.decoder.conv_in.bias                 bf16   the VAE's is bf16
 *     model.diffusion_model.input_blocks.0.0.bias            f16    the UNet's f16 */
static enum vc_status find_halves(struct vc_search *s)
{
    const struct vc_tensor *tensors = s->model->tensors;
    size_t n = s->model->n_tensors;
    VC_SCOPED size_t *order = NULL;

    s->halves = vc_arena_alloc(s->ctx, &s->out->arena, n);
    VC_CALL_ALLOC(s->halves);
    VC_CALL(vc_model_sort_names(s->ctx, s->model, &order));
    for (size_t first = 0, end = 0; first < n; first = end) {
        const char *name = tensors[order[first]].name;
        size_t n_prefix = strcspn(name, ".") + 1;
        size_t f16 = 0;
        size_t bf16 = 0;

        for (; end < n && strncmp(tensors[order[end]].name, name, n_prefix) == 0; end++) {
            f16 += tensors[order[end]].dtype == VC_DTYPE_F16;
            bf16 += tensors[order[end]].dtype == VC_DTYPE_BF16;
        }
        for (size_t i = first; i < end; i++) {
            s->halves[order[i]] = (uint8_t)(f16 > bf16 ? VC_DTYPE_F16 : VC_DTYPE_BF16);
        }
    }
    return VC_OK;
}

/* Codes whose scales lie in blocks. The matrix that ComfyUI decodes is that of the file, with what filled it up. */
static enum vc_status attach_blocks(struct vc_search *s, size_t codes, size_t n_stem, const struct format *format)
{
    struct vc_tensor *tensors = s->model->tensors;
    const struct vc_tensor *t = &tensors[codes];
    bool pairs = format->scheme == VC_SCHEME_NVFP4;
    struct vc_quant quant = {.scheme = format->scheme,
                             .granularity = VC_GRANULARITY_GROUP,
                             .group_size = vc_code_scheme(format->scheme)->group,
                             .symmetric = true,
                             .source_dtype = (enum vc_dtype)s->halves[codes],
                             .global_multiplies = pairs};
    size_t scale = vc_search_find(s, t->name, n_stem, "weight_scale");
    size_t global = vc_search_find(s, t->name, n_stem, "weight_scale_2");
    const struct vc_packed codes_lie = {.packing = pairs ? &vc_packing_rows : NULL,
                                        .bits = 8,
                                        .n_rows = t->shape[0],
                                        .row = t->shape[1],
                                        .high_first = pairs};
    const struct vc_packed scales_lie = blocks_of(t->shape[0], t->shape[1] * (pairs ? 2 : 1) / quant.group_size);
    const struct vc_tensor *scales = scale != VC_NO_TENSOR ? &tensors[scale] : NULL;
    uint64_t n_bytes;

    if (t->shape[0] % format->multiple != 0 || scales_lie.row == 0 ||
        t->shape[1] * (pairs ? 2 : 1) % format->multiple != 0 || scales == NULL || !vc_search_is_free(s, scale) ||
        (scales->dtype != VC_DTYPE_U8 && scales->dtype != vc_code_scheme(format->scheme)->scale) ||
        !vc_packing_blocked.size(&scales_lie, &n_bytes) || scales->size_bytes != n_bytes) {
        return vc_search_refuse(s, codes, VC_SEVERITY_ERROR,
                                "cannot be decoded: it is no matrix of a multiple of %d, or its weight_scale is not a "
                                "byte for %d codes, in blocks of 128 rows and 4 columns",
                                (int)format->multiple, (int)quant.group_size);
    }
    if (pairs &&
        (!vc_search_is_floats(s, global) || tensors[global].dtype != VC_DTYPE_F32 || tensors[global].n_elems != 1)) {
        return vc_search_refuse(s, codes, VC_SEVERITY_ERROR,
                                "cannot be decoded: it has no weight_scale_2 of one f32 beside it");
    }
    vc_quant_set(&quant, VC_PART_SCALE, scale);
    vc_quant_set(&quant, VC_PART_GLOBAL_SCALE, pairs ? global : VC_NO_TENSOR);
    VC_CALL(vc_search_attach_packed(s, codes, &quant, &codes_lie, 0));
    return vc_search_show_part(s, scale, vc_code_scheme(format->scheme)->scale, &scales_lie);
}

static enum vc_status attach_numbers(struct vc_search *s, size_t codes, size_t n_stem, enum vc_scheme scheme,
                                     bool *found)
{
    const struct vc_tensor *t = &s->model->tensors[codes];
    struct vc_quant quant = {.scheme = scheme, .symmetric = true, .source_dtype = (enum vc_dtype)s->halves[codes]};
    size_t scale = vc_search_find(s, t->name, n_stem, "weight_scale");

    scale = scale != VC_NO_TENSOR ? scale : vc_search_find(s, t->name, n_stem, "scale_weight");
    if (!vc_search_is_floats(s, scale)) {
        return vc_search_refuse(s, codes, VC_SEVERITY_ERROR,
                                "cannot be decoded: it has no weight_scale of f32, f16 or bf16 beside it");
    }
    vc_quant_set(&quant, VC_PART_SCALE, scale);
    VC_CALL(vc_search_granularity(s, &s->model->tensors[scale], t->shape[0], t->shape[1], &quant, found));
    if (!*found || quant.granularity > VC_GRANULARITY_CHANNEL) {
        return vc_search_refuse(s, codes, VC_SEVERITY_ERROR, "cannot be decoded: '%s' is not one number, or one a row",
                                s->model->tensors[scale].name);
    }
    if (t->dtype == VC_DTYPE_U8) { /* older files: fp8 in bytes */
        const struct vc_packed bytes = {.bits = 8, .n_rows = t->shape[0], .row = t->shape[1]};

        return vc_search_attach_packed(s, codes, &quant, &bytes, 0);
    }
    return vc_search_attach(s, codes, &quant, false);
}

static enum vc_status attach(struct vc_search *s, size_t codes, size_t n_stem, const struct format *format, bool *found)
{
    const char *name = s->model->tensors[codes].name;

    if (s->halves == NULL) {
        VC_CALL(find_halves(s));
    }
    if (format->multiple != 0) {
        VC_CALL(attach_blocks(s, codes, n_stem, format));
    } else {
        VC_CALL(attach_numbers(s, codes, n_stem, format->scheme, found));
    }
    if (s->model->tensors[codes].quant == NULL) {
        return VC_OK;
    }
    vc_search_claim(s, codes, name, n_stem, "comfy_quant scale_input input_scale");
    return VC_OK;
}

static enum vc_status find_codes(struct vc_search *s, size_t codes, bool *found)
{
    const struct vc_tensor *t = &s->model->tensors[codes];
    size_t n_stem = strlen(t->name) - strlen("weight");
    const struct format *row = NULL;
    json_t *own = NULL;
    enum vc_status status = VC_OK;

    VC_TRY(read_mark(s, t->name, n_stem, &own));
    json_t *mark = own;
    if (own == NULL) {
        VC_TRY(find_layer(s, t->name, n_stem, &mark));
    }
    const char *format = format_of(s, codes, n_stem, mark);
    if (format == NULL) {
        goto out;
    }
    *found = true;
    claim_old_mark(s, codes, n_stem);
    for (size_t i = 0; i < N_FORMATS; i++) {
        bool typed = t->dtype == formats[i].dtype || (t->dtype == VC_DTYPE_U8 && formats[i].scheme == VC_SCHEME_FP8);

        row = strcmp(format, formats[i].name) == 0 && typed && t->n_dims == 2 ? &formats[i] : row;
    }
    if (row != NULL) {
        status = attach(s, codes, n_stem, row, found);
    } else {
        status = vc_search_refuse(s, codes, VC_SEVERITY_WARNING,
                                  "is codes of ComfyUI in the format %.60s (%s), which are not decoded here", format,
                                  vc_dtype_name(t->dtype));
    }
    *found = true; /* nobody else is asked */
out:
    json_decref(own);
    return status;
}

static bool is_open(const struct vc_search *s, size_t codes)
{
    const struct vc_tensor *t = &s->model->tensors[codes];
    size_t n_path;

    return !vc_dtype_is_float(t->dtype) && t->n_elems != 0 && vc_search_is_free(s, codes) && t->undecoded == NULL &&
           vc_name_is_module_weight(t->name, &n_path);
}

/* Bytes are asked about here, before other rows show them as codes of four bits. */
static enum vc_status comfy_find_packed(struct vc_search *s, size_t codes, bool *found)
{
    bool bytes = s->model->tensors[codes].dtype == VC_DTYPE_U8;

    return bytes && is_open(s, codes) ? find_codes(s, codes, found) : VC_OK;
}

static enum vc_status comfy_find_codes(struct vc_search *s, size_t codes, bool *found)
{
    return s->model->tensors[codes].dtype != VC_DTYPE_U8 && is_open(s, codes) ? find_codes(s, codes, found) : VC_OK;
}

/* ---- what is left of the metadata ---- */

static bool has_codes(const struct vc_out_list *outs, const char *layer)
{
    size_t n = strlen(layer);

    for (size_t i = 0; i < outs->n; i++) {
        const struct vc_out_tensor out = vc_out_at(outs, i);

        const char *bare = out.name + vc_arch_picture_prefix(out.name);
        const char *name = strncmp(out.name, layer, n) == 0 ? out.name : bare;

        if (out.quant != NULL && out.kept && strncmp(name, layer, n) == 0 && strcmp(name + n, ".weight") == 0) {
            return true;
        }
    }
    return false;
}

enum vc_status vc_comfy_metadata(struct vc_ctx *ctx, const char *text, const struct vc_out_list *outs,
                                 struct vc_text *to)
{
    json_t *root = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    json_t *layers = json_object_get(root, "layers");
    const char *layer;
    json_t *value;
    void *next;

    json_object_foreach_safe(layers, next, layer, value)
    {
        if (!has_codes(outs, layer)) {
            (void)json_object_del(layers, layer);
        }
    }
    char *left = json_object_size(layers) != 0 ? json_dumps(root, 0) : NULL;
    if (left != NULL) {
        vc_text_add(to, "%s", left);
    }
    free(left);
    json_decref(root);
    return to->status;
}

static const struct vc_dialect_file comfy_file = {.fits = comfy_fits,
                                                  .lay = comfy_lay,
                                                  .loads = VC_LOADS_NONE,
                                                  .find_packed = comfy_find_packed,
                                                  .find_codes = comfy_find_codes};

const struct vc_dialect vc_dialect_comfy = {.name = "comfyui",
                                            .schemes = (const char *const[]){"fp8", "int8", "nvfp4", "mxfp8", NULL},
                                            .is_choice = true,
                                            .takes_codes = true,
                                            .rows_only = true,
                                            .marks_layers = true,
                                            .power_global = true,
                                            .whole_tensors = (const char *const[]){"fp8", NULL},
                                            .check = comfy_check,
                                            .reason = comfy_reason,
                                            .part_type = comfy_part_type,
                                            .loader = {.program = "ComfyUI", .tried = "comfy-kitchen 0.2.40"},
                                            .file = &comfy_file};
