/* compressed_tensors.c - the dialect of compressed-tensors, which vLLM and transformers load: its rules, writing and
 * configuration. compressed_tensors_read.c finds such weights in a file.
 *
 *     int8          m.weight_packed        I32 [out, ceil(in/4)]  four codes a word, each plus 128; rows of whole words
 *     int2 to int6  m.weight_packed        I32 [out, ceil(in b/32)]  codes of b bits across words, each plus 2^(b-1)
 *     nvfp4, mxfp4  m.weight_packed        U8 [out, in/2]         two codes a byte, the first in the low half
 *     fp8, mxfp8    m.weight               F8_E4M3 [out, in]
 *     int8, w8a8    m.weight               I8 [out, in]
 *     all           m.weight_scale         [out, 1], [out, in/group] or [out/128, in/128], of the type that the weights
 *                                          had; U8 (E8M0) of mxfp8 and mxfp4, F8_E4M3 of nvfp4
 *     int2 to int8  m.weight_shape         I64 [2] = out, in
 *       asymmetric  m.weight_zero_point    I32 [ceil(out b/32), in/group]  zero points as codes, down the columns
 *     nvfp4         m.weight_global_scale  F32 [1], which divides the scales
 *
 *     "quantization_config": {"quant_method": "compressed-tensors", "format": "pack-quantized",
 *                             "config_groups": {"group_0": {"targets": ["Linear"], "weights": {"num_bits": 8, ...}}},
 *                             "ignore": ["lm_head"], ...} */
#include "formats/dialects/compressed_tensors.h"

#include "core/model/code_schemes.h"
#include "core/model/names.h"
#include "formats/dialects/config_member.h"
#include "formats/dialects/linear_rules.h"
#include "formats/json/json_walk.h"

/* The version of compressed-tensors whose form this is. */
#define CT_VERSION "0.15.0"

/* Rows and columns of the blocks of fp8 that its loaders have kernels for, and how these round inputs. */
#define BLOCK ((uint64_t)128)
static const char block_inputs[] = "{\"num_bits\": 8, \"type\": \"float\", \"symmetric\": true, "
                                   "\"strategy\": \"group\", \"group_size\": 128, \"dynamic\": true}";

/* What the layout holds beside whole numbers. */
struct ct_scheme {
    enum vc_scheme scheme;
    const char *format, *type, *strategy; /* strategy NULL: that of the granularity */
    const char *more;                     /* members of "weights" behind the others */
    const char *inputs;                   /* "input_activations" */
};
static const struct ct_scheme ct_schemes[] = {
    {VC_SCHEME_FP8, "float-quantized", "float", NULL, "",
     "{\"num_bits\": 8, \"type\": \"float\", \"symmetric\": true, \"strategy\": \"token\", \"dynamic\": true}"},
    {VC_SCHEME_MXFP8, "mxfp8-quantized", "float", NULL,
     ", \"scale_dtype\": \"torch.uint8\", \"zp_dtype\": \"torch.uint8\"", "null"},
    {VC_SCHEME_MXFP4, "mxfp4-pack-quantized", "float", NULL,
     ", \"scale_dtype\": \"torch.uint8\", \"zp_dtype\": \"torch.uint8\"", "null"},
    {VC_SCHEME_NVFP4, "nvfp4-pack-quantized", "float", "tensor_group",
     ", \"scale_dtype\": \"torch.float8_e4m3fn\", \"zp_dtype\": \"torch.float8_e4m3fn\"", "null"}};

/* Whole numbers of any number of bits. */
static const struct ct_scheme ct_ints = {VC_SCHEME_NONE, "pack-quantized", "int", NULL, "", "null"};

/* Rows as short as that could be codes of other bits as well: a reader could not tell without a configuration. Eight
 * codes of 4 bits fill a word, and so do ten of 3 bits as older tools packed them. */
static const struct ct_shortest {
    unsigned row; /* elements of the shortest row that is taken */
    const char *reason;
} shortest[] = {
    [2] = {21, "rows shorter than 21"}, [3] = {121, "rows shorter than 121"}, [4] = {33, "rows shorter than 33"},
    [5] = {73, "rows shorter than 73"}, [6] = {61, "rows shorter than 61"},   [8] = {5, "rows shorter than 5"}};

/* The layout w8a8: loaders that compute with codes round each input of a layer to 8 bits, by its own largest element.
 */
static const struct ct_scheme w8a8_scheme = {
    VC_SCHEME_INT8,
    "int-quantized",
    "int",
    NULL,
    "",
    "{\"num_bits\": 8, \"type\": \"int\", \"symmetric\": true, \"strategy\": \"token\", \"dynamic\": true}"};

static const size_t n_ct_schemes = sizeof ct_schemes / sizeof ct_schemes[0];

/* NULL: the layout has no place for it. */
static const struct ct_scheme *find_scheme(enum vc_scheme scheme)
{
    size_t i = 0;

    while (i < n_ct_schemes && ct_schemes[i].scheme != scheme) {
        i++;
    }
    if (i == n_ct_schemes) {
        const struct vc_code_scheme *codes = vc_code_scheme(scheme);

        return codes != NULL && codes->grid == VC_GRID_NONE && vc_code_bits(codes) <= 8 ? &ct_ints : NULL;
    }
    return &ct_schemes[i];
}

/* NULL: rows of that length are taken. */
static const char *short_reason(enum vc_scheme scheme, uint64_t row)
{
    unsigned bits = vc_code_bits(vc_code_scheme(scheme));

    return find_scheme(scheme) == &ct_ints && row < shortest[bits].row ? shortest[bits].reason : NULL;
}

/* ---- rules ---- */

/* What a job may ask of the layout; tensors have their own reasons (ct_reason). */
static enum vc_status ct_check(struct vc_ctx *ctx, const struct vc_dialect_request *request)
{
    if (strcmp(request->scheme, vc_scheme_name(VC_SCHEME_FP8)) == 0 &&
        request->granularity == VC_GRANULARITY_GROUP) { /* its loaders have no kernels for that */
        return vc_fail(ctx, VC_E_ARGUMENT, "the layout %s takes fp8 with a scale per row (%s); %s plain takes groups",
                       vc_dialect_compressed_tensors.name, vc_option(ctx, "granularity"), vc_option(ctx, "layout"));
    }
    VC_REFUSE_IF(request->granularity == VC_GRANULARITY_BLOCK && request->group_size != BLOCK, ctx, VC_E_ARGUMENT,
                 "the layout %s takes fp8 in blocks of 128 (%s); %s plain takes others",
                 vc_dialect_compressed_tensors.name, vc_option(ctx, "granularity"), vc_option(ctx, "layout"));
    return vc_linear_check(ctx, &vc_dialect_compressed_tensors, request, true);
}

/* Why one tensor stays floats, after the reasons of all layers (linear_rules.h): rows too short, experts in blocks,
 * groups that do not divide a row. A row of blocks is whole, too: the loader rounds 128 inputs at a time, and fails at the first
 * product where they do not divide it. */
static const char *ct_reason(const struct vc_dialect_request *request, const struct vc_dialect_tensor *tensor)
{
    const char *reason = vc_linear_reason(request, tensor, VC_LOADS_COMPRESSED_TENSORS);
    const struct vc_code_scheme *codes = vc_code_scheme_named(request->scheme);

    if (reason == NULL && codes != NULL) {
        reason = short_reason(codes->scheme, tensor->shape[1]);
    }
    if (reason == NULL && request->granularity == VC_GRANULARITY_BLOCK && vc_linear_is_expert(tensor->name)) {
        return "its loader decodes no experts in blocks";
    }
    if (reason == NULL && request->granularity == VC_GRANULARITY_GROUP && tensor->shape[1] % request->group_size != 0) {
        return "rows are no multiple of the group";
    }
    if (reason == NULL && request->granularity == VC_GRANULARITY_BLOCK && tensor->shape[1] % BLOCK != 0) {
        return "rows are no multiple of the block";
    }
    return reason;
}

/* ---- writing ---- */

/* Whether codes that a job has, made or copied, can be written in the layout. */
static bool ct_fits(const struct vc_out_tensor *codes)
{
    const struct vc_quant *quant = codes->quant;
    const struct ct_scheme *row = find_scheme(quant->scheme);
    size_t n_path;

    if (row == NULL || codes->n_dims != 2 || !vc_name_is_module_weight(codes->name, &n_path) ||
        vc_quant_find(quant, VC_PART_ABSMAX) != VC_NO_TENSOR || quant->global_multiplies ||
        short_reason(quant->scheme, codes->shape[1]) != NULL) {
        return false;
    }
    if (quant->granularity == VC_GRANULARITY_BLOCK) {
        return quant->group_rows == BLOCK && quant->group_size == BLOCK && codes->shape[1] % BLOCK == 0;
    }
    return quant->granularity == VC_GRANULARITY_GROUP
               ? codes->shape[1] % quant->group_size == 0
               : quant->granularity == VC_GRANULARITY_CHANNEL && quant->axis == 0;
}

/* Codes of floats lie as they do in a job, and so do bytes that nothing packs. */
static enum vc_status lay_plain(struct vc_laying *l)
{
    const struct vc_code_scheme *scheme = vc_code_scheme(l->codes->quant->scheme);
    bool pairs = vc_code_bits(scheme) == 4;
    const struct vc_laid codes = {
        .dtype = pairs ? VC_DTYPE_U8 : scheme->codes, .n_dims = 2, .n_bytes = l->codes->size_bytes};

    return vc_dialect_lay(l, pairs ? VC_CT_PACKED : NULL, codes, l->codes->shape[0],
                          l->codes->shape[1] / (pairs ? 2 : 1));
}

/* int2 to int8 in words of 32 bits; vc_packing_rows says how many bytes rows take. */
static enum vc_status lay_codes(struct vc_laying *l)
{
    uint64_t n_rows = l->codes->shape[0];
    struct vc_laid codes = {.dtype = VC_DTYPE_I32,
                            .n_dims = 2,
                            .packed = vc_ct_packed(l->codes->quant->scheme, n_rows, l->codes->shape[1])};

    VC_REFUSE_IF(!vc_packing_rows.size(&codes.packed, &codes.n_bytes), l->ctx, VC_E_UNSUPPORTED,
                 "%s: has more than 2^64 bytes when packed", l->codes->name);
    return vc_dialect_lay(l, VC_CT_PACKED, codes, n_rows, vc_ceil_div_u64(codes.packed.row, 4));
}

/* weight_shape, two i64: the words do not say how long a row was. */
static enum vc_status lay_shape(struct vc_laying *l)
{
    unsigned char *values = vc_arena_alloc(l->ctx, l->arena, 16);

    VC_CALL_ALLOC(values);
    vc_put_le64(values, l->codes->shape[0]);
    vc_put_le64(values + 8, l->codes->shape[1]);
    return vc_dialect_lay(
        l, VC_CT_SHAPE, (struct vc_laid){.dtype = VC_DTYPE_I64, .n_dims = 1, .n_bytes = 16, .constant = values}, 2, 0);
}

/* Zero points in words down the columns: n_bytes / 4 / row are the rows of words. */
static enum vc_status lay_zeros(struct vc_laying *l)
{
    uint64_t n_rows = l->codes->shape[0];
    struct vc_laid zeros = {.dtype = VC_DTYPE_I32,
                            .n_dims = 2,
                            .packed =
                                vc_ct_packed_zeros(l->codes->quant->scheme, n_rows, l->part->size_bytes / n_rows)};

    VC_REFUSE_IF(!zeros.packed.packing->size(&zeros.packed, &zeros.n_bytes), l->ctx, VC_E_UNSUPPORTED,
                 "%s: has more than 2^64 bytes when packed", l->part->name);
    return vc_dialect_lay(l, VC_CT_ZERO_POINT, zeros, zeros.n_bytes / 4 / zeros.packed.row, zeros.packed.row);
}

/* One f32 for all inputs of the layer, of calibrated jobs. */
static enum vc_status lay_input_scale(struct vc_laying *l)
{
    unsigned char *value = vc_arena_alloc(l->ctx, l->arena, 4);
    uint32_t bits;

    VC_CALL_ALLOC(value);
    memcpy(&bits, &l->codes->quant->input_scale, sizeof bits);
    vc_put_le32(value, bits);
    return vc_dialect_lay(l, "input_scale",
                          (struct vc_laid){.dtype = VC_DTYPE_F32, .n_dims = 1, .n_bytes = 4, .constant = value}, 1, 0);
}

static bool is_packed_in_words(const struct vc_quant *quant)
{
    return strcmp(find_scheme(quant->scheme)->format, "pack-quantized") == 0;
}

/* The scales, and behind them the shape of the weight where words hide it. */
static enum vc_status lay(struct vc_laying *l, bool words)
{
    struct vc_laid part = {
        .dtype = l->part->dtype, .n_dims = l->part->n_dims, .shape = l->part->shape, .n_bytes = l->part->size_bytes};

    l->n = 0;
    if (l->role == VC_PART_CODES) {
        return words ? lay_codes(l) : lay_plain(l);
    }
    if (l->role == VC_PART_ZERO_POINT) {
        return lay_zeros(l);
    }
    if (l->role == VC_PART_SCALE && l->codes->quant->scheme == VC_SCHEME_NVFP4) {
        part.dtype = VC_DTYPE_F8_E4M3;
    }
    VC_CALL(vc_dialect_lay(l, l->role == VC_PART_GLOBAL_SCALE ? VC_CT_GLOBAL_SCALE : VC_CT_SCALE, part, 0, 0));
    if (words) {
        VC_CALL(lay_shape(l));
    }
    return l->role == VC_PART_SCALE && l->codes->quant->input_scale > 0 ? lay_input_scale(l) : VC_OK;
}

static enum vc_status ct_lay(struct vc_laying *l)
{
    return lay(l, is_packed_in_words(l->codes->quant));
}

static enum vc_status w8a8_lay(struct vc_laying *l)
{
    return lay(l, false);
}

/* What a user has to pass to from_pretrained; NULL: nothing. transformers makes bf16 of mx and nv codes, whatever the
 * other tensors are. Zero points have another shape in the modules of compressed-tensors 0.20 than in its files, unless
 * the weights are decoded as they are loaded. */
static const char *ct_needs(const struct vc_out_list *outs)
{
    bool makes_bf16 = false;
    bool has_other = false;

    for (size_t i = 0; i < outs->n; i++) {
        const struct vc_out_tensor out = vc_out_at(outs, i);
        const struct vc_code_scheme *row = out.quant != NULL ? vc_code_scheme(out.quant->scheme) : NULL;

        if (out.quant != NULL && !out.quant->symmetric) {
            return "quantization_config=CompressedTensorsConfig(dequantize=True)";
        }
        makes_bf16 = makes_bf16 || (row != NULL && row->scale != VC_DTYPE_NONE);
        has_other = has_other || (row == NULL && out.role == VC_PART_CODES && vc_dtype_is_float(out.dtype) &&
                                  out.dtype != VC_DTYPE_BF16);
    }
    return makes_bf16 && has_other ? "dtype=torch.bfloat16" : NULL;
}

/* Kinds of codes among the weights of a file. */
struct kinds {
    const struct vc_quant *first;
    bool several, zero_points;
};

/* What a weight means for transformers 5: it makes one tensor of the matrices of all experts, from their codes and one
 * scale each; and where it decodes all weights as it loads them, it takes all layers for codes of the first group. */
static void note_weight(struct kinds *kinds, const char *name, const struct vc_quant *quant, struct vc_loader *loader)
{
    bool expert = vc_linear_is_expert(name);

    if (quant == NULL) {
        return;
    }
    kinds->first = kinds->first == NULL ? quant : kinds->first;
    kinds->several = kinds->several || !vc_config_same_group(kinds->first, quant);
    kinds->zero_points = kinds->zero_points || !quant->symmetric;
    if (expert && (quant->scheme == VC_SCHEME_MXFP8 || !quant->symmetric)) {
        *loader = (struct vc_loader){NULL, NULL,
                                     "another loader than transformers 5.24, which loads no experts with zero "
                                     "points, or in mxfp8"};
    } else if (expert && quant->scheme == VC_SCHEME_NVFP4) {
        *loader = (struct vc_loader){"vLLM", NULL,
                                     "another loader than transformers 5.24, which decodes experts without "
                                     "their global scales: values are about 30,000 times too large"};
    } else if (kinds->several && kinds->zero_points && loader->program != NULL) {
        *loader = (struct vc_loader){"vLLM", NULL,
                                     "another loader than transformers 5.24, which decodes weights with zero points "
                                     "as it loads them, and all layers in one way"};
    }
}

/* Which loader can be promised for an output, and for a model that was read: the same walk. */
void vc_ct_note_outs(const struct vc_out_list *outs, struct vc_loader *loader)
{
    struct kinds kinds = {NULL, false, false};

    for (size_t i = 0; i < outs->n; i++) {
        const struct vc_out_tensor out = vc_out_at(outs, i);

        note_weight(&kinds, out.name, out.quant, loader);
    }
}

void vc_ct_note_model(const struct vc_model *model, struct vc_loader *loader)
{
    struct kinds kinds = {NULL, false, false};

    for (size_t i = 0; i < model->n_tensors && model->dialect == &vc_dialect_compressed_tensors; i++) {
        note_weight(&kinds, model->tensors[i].name, model->tensors[i].quant, loader);
    }
}

/* transformers loads such models only decoded, all layers in one way. */
static bool is_decoded(const struct vc_family *family)
{
    return vc_family_needs(family, VC_LOADS_COMPRESSED_TENSORS) != NULL;
}

/* Weights that have to become the same codes as others of the model. */
static bool ct_of_one_kind(const struct vc_model *model, const char *weight)
{
    return vc_linear_is_expert(weight) || is_decoded(model->family);
}

/* ---- the configuration ---- */

/* Refuses, before weights are read, an output that its loader would decode wrongly. */
static enum vc_status ct_check_weights(struct vc_ctx *ctx, const struct vc_config_weights *weights)
{
    VC_CALL(vc_config_check_experts(ctx, weights, &vc_dialect_compressed_tensors));
    return weights->n_groups <= 1 || !is_decoded(weights->family)
               ? VC_OK
               : vc_fail(
                     ctx, VC_E_UNSUPPORTED,
                     "weights would become codes of %zu kinds, and transformers loads models of type %s from %s only "
                     "decoded, all in one way; give them the same, or write %s plain",
                     weights->n_groups, weights->family->type, vc_dialect_compressed_tensors.name,
                     vc_option(ctx, "layout"));
}

/* The group of the experts, or the first one: transformers decodes experts by the group that comes first. */
static size_t first_group(const struct vc_config_weights *weights)
{
    for (size_t i = 0; i < weights->n; i++) {
        const struct vc_config_weight *w = &weights->weights[i];

        for (size_t k = 0; w->told && vc_linear_is_expert(w->name) && k < weights->n_groups; k++) {
            if (vc_config_same_group(&weights->groups[k], w->quant)) {
                return k;
            }
        }
    }
    return 0;
}

/* One entry of "config_groups". A single group is of all linear layers; several name their layers. */
static void add_group(const struct vc_config_weights *weights, size_t number, const struct vc_quant *group,
                      const struct ct_scheme *row, struct vc_text *text)
{
    vc_text_add(text, "%s\n      \"group_%zu\": {\n        \"targets\": ", number == 0 ? "" : ",", number);
    if (weights->n_groups == 1) {
        vc_text_add(text, "[\"Linear\"]");
    } else {
        vc_config_add_modules(weights, group, text);
    }
    vc_text_add(text,
                ",\n        \"format\": \"%s\",\n        \"weights\": {\"num_bits\": %u, \"type\": \"%s\", "
                "\"symmetric\": %s, \"strategy\": \"%s\", \"group_size\": ",
                row->format, vc_code_bits(vc_code_scheme(group->scheme)), row->type,
                group->symmetric ? "true" : "false",
                row->strategy != NULL ? row->strategy : vc_granularity_name(group->granularity));
    if (group->granularity == VC_GRANULARITY_GROUP) {
        vc_text_add(text, "%" PRIu64, group->group_size);
    } else {
        vc_text_add(text, "null");
    }
    if (group->granularity == VC_GRANULARITY_BLOCK) {
        vc_text_add(text, ", \"block_structure\": [%" PRIu64 ", %" PRIu64 "]", group->group_rows, group->group_size);
    }
    vc_text_add(text, ", \"dynamic\": false%s},\n        \"input_activations\": ", row->more);
    if (group->input_scale > 0) {
        vc_text_add(text,
                    "{\"num_bits\": 8, \"type\": \"%s\", \"symmetric\": true, \"strategy\": \"tensor\", "
                    "\"dynamic\": false}",
                    row->type);
    } else {
        vc_text_add(text, "%s", group->granularity == VC_GRANULARITY_BLOCK ? block_inputs : row->inputs);
    }
    vc_text_add(text, ",\n        \"output_activations\": null\n      }");
}

/* row: of all groups; NULL: that of their schemes. Groups of several formats are "mixed-precision", and each group says
 * its own. */
static void write_config(const struct vc_config_weights *weights, const struct ct_scheme *row, struct vc_text *text)
{
    const char *format = row != NULL ? row->format : weights->n_groups == 0 ? "pack-quantized" : NULL;
    size_t first = first_group(weights);

    for (size_t i = 0; i < weights->n_groups && row == NULL; i++) {
        const char *own = find_scheme(weights->groups[i].scheme)->format;

        format = format == NULL || strcmp(format, own) == 0 ? own : "mixed-precision";
    }
    vc_text_add(text,
                "{\n    \"quant_method\": \"compressed-tensors\",\n    \"version\": \"" CT_VERSION "\",\n"
                "    \"format\": \"%s\",\n    \"quantization_status\": \"compressed\",\n"
                "    \"config_groups\": {",
                format);
    for (size_t i = 0; i < weights->n_groups; i++) { /* `first` in front, the others in their order */
        const struct vc_quant *group = &weights->groups[i == 0 ? first : i - (i <= first)];

        add_group(weights, i, group, row != NULL ? row : find_scheme(group->scheme), text);
    }
    vc_text_add(text, "\n    },\n    \"ignore\": ");
    vc_config_add_ignored(weights, VC_NAMES_EXACT, text);
    vc_text_add(text, ",\n    \"kv_cache_scheme\": null\n  }");
}

static void ct_write_config(const struct vc_config_weights *weights, struct vc_text *text)
{
    write_config(weights, NULL, text);
}

static void w8a8_write_config(const struct vc_config_weights *weights, struct vc_text *text)
{
    write_config(weights, &w8a8_scheme, text);
}

/* Whether row's codes are so many bits each; of whole numbers there is a scheme for each number of bits. */
static bool has_bits(const struct ct_scheme *row, json_int_t bits)
{
    if (row != &ct_ints) {
        return bits == vc_code_bits(vc_code_scheme(row->scheme));
    }
    return bits >= 1 && bits <= 8 && vc_code_scheme_of_bits((unsigned)bits) != VC_SCHEME_NONE;
}

/* The row that the configuration of a group means; NULL: none. */
static const struct ct_scheme *scheme_of_group(const json_t *holder, const json_t *weights)
{
    json_int_t bits = json_integer_value(json_object_get(weights, "num_bits"));

    for (size_t i = 0; i <= n_ct_schemes; i++) {
        const struct ct_scheme *row = i < n_ct_schemes ? &ct_schemes[i] : &ct_ints;

        if (vc_json_says(holder, "format", row->format) && vc_json_says(weights, "type", row->type) &&
            has_bits(row, bits)) {
            return row;
        }
    }
    return NULL;
}

/* Whether the group is one that add_group writes: one of the schemes; of the inputs fp8 rounds each row, the others
 * nothing. */
static bool is_own_group(const json_t *config, const json_t *group)
{
    const json_t *weights = json_object_get(group, "weights");
    const json_t *holder = json_is_string(json_object_get(group, "format")) ? group : config;
    const json_t *inputs = json_object_get(group, "input_activations");
    const struct ct_scheme *row = scheme_of_group(holder, weights);
    bool plain = inputs == NULL || json_is_null(inputs);

    return row != NULL &&
           (json_is_true(json_object_get(weights, "symmetric")) || vc_json_says(holder, "format", "pack-quantized")) &&
           (plain || (row->scheme == VC_SCHEME_FP8 &&
                      (vc_json_says(inputs, "strategy", "token") || vc_json_says(inputs, "strategy", "group")) &&
                      json_is_true(json_object_get(inputs, "dynamic"))));
}

/* Whether every group is: then a new member for all weights can take the old one's place. */
static bool ct_owns_config(const struct json_t *config)
{
    json_t *groups = json_object_get(config, "config_groups");
    const char *key;
    json_t *group;

    if (!vc_json_says(config, "quant_method", "compressed-tensors")) {
        return false;
    }
    json_object_foreach(groups, key, group)
    {
        if (!is_own_group(config, group)) {
            return false;
        }
    }
    return true;
}

/* *all becomes 0 where groups differ. */
static void merge(uint64_t *all, bool first, const json_t *value)
{
    uint64_t own = vc_json_count(value);

    *all = first || *all == own ? own : 0;
}

/* Bits and group size where all groups agree on them. */
static bool ct_read_config(const struct json_t *config, struct vc_dialect_hint *out)
{
    json_t *groups = json_object_get(config, "config_groups");
    bool first = true;
    const char *key;
    json_t *group;

    if (!vc_json_says(config, "quant_method", "compressed-tensors")) {
        return false;
    }
    json_object_foreach(groups, key, group)
    {
        json_t *weights = json_object_get(group, "weights");

        merge(&out->num_bits, first, json_object_get(weights, "num_bits"));
        merge(&out->group_size, first, json_object_get(weights, "group_size"));
        merge(&out->block[0], first, json_array_get(json_object_get(weights, "block_structure"), 0));
        merge(&out->block[1], first, json_array_get(json_object_get(weights, "block_structure"), 1));
        first = false;
    }
    return true;
}

/* ---- the row ---- */

static const struct vc_dialect_file ct_file = {.fits = ct_fits,
                                               .lay = ct_lay,
                                               .usual_in_folders = true,
                                               .needs = ct_needs,
                                               .loads = VC_LOADS_COMPRESSED_TENSORS,
                                               .joined_by = "vLLM",
                                               .check_weights = ct_check_weights,
                                               .write_config = ct_write_config,
                                               .owns_config = ct_owns_config,
                                               .read_config = ct_read_config,
                                               .find_packed = vc_ct_find_packed,
                                               .find_codes = vc_ct_find_codes};

const struct vc_dialect vc_dialect_compressed_tensors = {
    .name = "compressed-tensors",
    .schemes = (const char *const[]){"int8",
#define INTS(NAME, name, ...)   name,
#define FLOATS(NAME, name, ...) name,
#include "core/model/code_schemes.inc"
                                     NULL},
    .is_choice = true,
    .takes_codes = true,
    .rows_only = true,
    .whole_groups = true,
    .positive_scales = true,
    .zero_points = true,
    .input_scales = "fp8",
    .check = ct_check,
    .reason = ct_reason,
    .part_type = vc_linear_part_type,
    .of_one_kind = ct_of_one_kind,
    .loader = {.program = "transformers", .tried = VC_TRIED_TRANSFORMERS ", compressed-tensors 0.20.0"},
    .file = &ct_file};

/* ---- int8 that computes with int8 ---- */

/* w8a8 packs nothing, so that short rows are no reason. */
static const char *w8a8_reason(const struct vc_dialect_request *request, const struct vc_dialect_tensor *tensor)
{
    return vc_linear_reason(request, tensor, VC_LOADS_COMPRESSED_TENSORS);
}

static enum vc_status w8a8_check(struct vc_ctx *ctx, const struct vc_dialect_request *request)
{
    for (size_t i = 0; request->model != NULL && i < request->model->n_tensors; i++) {
        VC_REFUSE_IF(vc_linear_is_expert(request->model->tensors[i].name), ctx, VC_E_UNSUPPORTED,
                     "%s: transformers loads no experts of the layout %s (%s %s packs them)",
                     request->model->tensors[i].name, vc_dialect_w8a8.name, vc_option(ctx, "layout"),
                     vc_dialect_compressed_tensors.name);
    }
    return vc_linear_check(ctx, &vc_dialect_w8a8, request, false);
}

/* Symmetric, and one scale for each row: what the int8 kernels multiply. */
static bool w8a8_fits(const struct vc_out_tensor *codes)
{
    return codes->quant->scheme == VC_SCHEME_INT8 && codes->quant->symmetric &&
           codes->quant->granularity == VC_GRANULARITY_CHANNEL && ct_fits(codes);
}

/* Reading is that of the other row. */
static const struct vc_dialect_file w8a8_file = {.fits = w8a8_fits,
                                                 .lay = w8a8_lay,
                                                 .loads = VC_LOADS_COMPRESSED_TENSORS,
                                                 .joined_by = "vLLM",
                                                 .check_weights = ct_check_weights,
                                                 .write_config = w8a8_write_config,
                                                 .owns_config = ct_owns_config};

const struct vc_dialect vc_dialect_w8a8 = {
    .name = "w8a8",
    .schemes = (const char *const[]){"int8", NULL},
    .is_choice = true,
    .takes_codes = true,
    .rows_only = true,
    .positive_scales = true,
    .input_scales = "int8",
    .check = w8a8_check,
    .reason = w8a8_reason,
    .part_type = vc_linear_part_type,
    .loader = {.program = "transformers", .tried = VC_TRIED_TRANSFORMERS ", compressed-tensors 0.20.0"},
    .file = &w8a8_file};
