/* compressed_tensors.c - the dialect of compressed-tensors' `pack-quantized`, which vLLM and transformers load: its
 * rules, writing and configuration. compressed_tensors_read.c finds such weights in a file.
 *
 *     m.weight_packed  I32 [out, ceil(in/4)]   int8: four codes a word, each plus 128, rows padded to whole words
 *                      I32 [out, ceil(in/8)]   int4: eight codes a word, each plus 8
 *     m.weight_scale   [out, 1] or [out, in/group], of the type that the weights had
 *     m.weight_shape   I64 [2] = out, in
 *
 *     "quantization_config": {"quant_method": "compressed-tensors", "format": "pack-quantized",
 *                             "config_groups": {"group_0": {"targets": ["Linear"], "weights": {"num_bits": 8, ...}}},
 *                             "ignore": ["lm_head"], ...} */
#include "formats/dialects/compressed_tensors.h"

#include <inttypes.h>
#include <jansson.h>
#include <string.h>

#include "core/base/checked.h"
#include "core/model/names.h"
#include "formats/dialects/config_member.h"
#include "formats/dialects/linear_rules.h"

/* The version of compressed-tensors whose form this is. */
#define CT_VERSION "0.15.0"

/* What the layout holds. Rows as short as that could be codes of other bits as well: a reader could not tell without a
 * configuration. Eight codes of 4 bits fill a word, and so do ten of 3 bits as older tools packed them. */
static const struct ct_scheme {
    unsigned bits, min_row;
    const char *too_short;
} ct_schemes[] = {[VC_SCHEME_INT8] = {8, 5, "rows shorter than 5"}, [VC_SCHEME_INT4] = {4, 33, "rows shorter than 33"}};

static const struct ct_scheme *scheme_named(const char *name)
{
    return &ct_schemes[strcmp(name, vc_scheme_name(VC_SCHEME_INT4)) == 0 ? VC_SCHEME_INT4 : VC_SCHEME_INT8];
}

/* Two codes of int4 lie in a byte already. */
struct vc_packed vc_ct_packed(enum vc_scheme scheme, uint64_t n_rows, uint64_t row)
{
    bool pairs = scheme == VC_SCHEME_INT4;

    return (struct vc_packed){.packing = &vc_packing_rows,
                              .bits = 8,
                              .offset = pairs ? 0x88 : 0x80,
                              .n_rows = n_rows,
                              .row = pairs ? row / 2 : row};
}

/* ---- rules ---- */

static enum vc_status ct_check(struct vc_ctx *ctx, const struct vc_dialect_request *request)
{
    return vc_linear_check(ctx, &vc_dialect_compressed_tensors, request, true);
}

static const char *ct_reason(const struct vc_dialect_request *request, const struct vc_dialect_tensor *tensor)
{
    const char *reason = vc_linear_reason(request, tensor, VC_LOADS_COMPRESSED_TENSORS);

    if (reason == NULL && tensor->shape[1] < scheme_named(request->scheme)->min_row) {
        return scheme_named(request->scheme)->too_short;
    }
    if (reason == NULL && request->granularity == VC_GRANULARITY_GROUP && tensor->shape[1] % request->group_size != 0) {
        return "rows are no multiple of the group";
    }
    return reason;
}

static enum vc_dtype ct_part_type(const struct vc_dialect_request *request, const struct vc_dialect_tensor *tensor,
                                  enum vc_part_role role, enum vc_dtype usual)
{
    bool halves =
        role == VC_PART_SCALE && (tensor->weights_dtype == VC_DTYPE_F16 || tensor->weights_dtype == VC_DTYPE_BF16);

    (void)request;
    return halves ? tensor->weights_dtype : usual;
}

/* ---- writing ---- */

static bool ct_fits(const struct vc_out_tensor *codes)
{
    const struct vc_quant *quant = codes->quant;
    size_t n_path;

    if (codes->n_dims != 2 || !vc_name_is_module_weight(codes->name, &n_path) || !quant->symmetric ||
        vc_quant_find(quant, VC_PART_ABSMAX) != VC_NO_TENSOR || codes->shape[1] < ct_schemes[quant->scheme].min_row) {
        return false;
    }
    return quant->granularity == VC_GRANULARITY_GROUP
               ? codes->shape[1] % quant->group_size == 0
               : quant->granularity == VC_GRANULARITY_CHANNEL && quant->axis == 0;
}

static uint64_t *make_shape(const struct vc_laying *l, uint64_t a, uint64_t b)
{
    uint64_t *shape = vc_arena_alloc(l->ctx, l->arena, 2 * sizeof *shape);

    if (shape != NULL) {
        shape[0] = a;
        shape[1] = b;
    }
    return shape;
}

static enum vc_status lay_codes(struct vc_laying *l)
{
    struct vc_laid *laid = &l->laid[l->n++];
    uint64_t n_rows = l->codes->shape[0];
    enum vc_scheme scheme = l->codes->quant->scheme;
    enum vc_status status = VC_OK;

    *laid = (struct vc_laid){
        .dtype = VC_DTYPE_I32, .n_dims = 2, .packed = vc_ct_packed(scheme, n_rows, l->codes->shape[1])};
    laid->name = vc_dialect_module_name(l->ctx, l->arena, l->codes->name, VC_CT_PACKED);
    VC_TRY_ALLOC(laid->name);
    laid->shape = make_shape(l, n_rows, vc_ceil_div_u64(l->codes->shape[1], 32 / ct_schemes[scheme].bits));
    VC_TRY_ALLOC(laid->shape);
    if (!vc_packing_rows.size(&laid->packed, &laid->n_bytes)) {
        return vc_fail(l->ctx, VC_E_UNSUPPORTED, "%s: has more than 2^64 bytes when packed", l->codes->name);
    }
out:
    return status;
}

static enum vc_status lay_shape(struct vc_laying *l)
{
    unsigned char *values = vc_arena_alloc(l->ctx, l->arena, 16);
    struct vc_laid *laid = &l->laid[l->n++];
    enum vc_status status = VC_OK;

    *laid = (struct vc_laid){.dtype = VC_DTYPE_I64, .n_dims = 1, .n_bytes = 16, .constant = values};
    VC_TRY_ALLOC(values);
    vc_put_le64(values, l->codes->shape[0]);
    vc_put_le64(values + 8, l->codes->shape[1]);
    laid->name = vc_dialect_module_name(l->ctx, l->arena, l->codes->name, VC_CT_SHAPE);
    VC_TRY_ALLOC(laid->name);
    laid->shape = make_shape(l, 2, 0);
    VC_TRY_ALLOC(laid->shape);
out:
    return status;
}

/* The scales, and behind them the shape of the weight. */
static enum vc_status ct_lay(struct vc_laying *l)
{
    struct vc_laid *laid = &l->laid[0];
    enum vc_status status = VC_OK;

    l->n = 0;
    if (l->role == VC_PART_CODES) {
        return lay_codes(l);
    }
    l->n = 1;
    *laid = (struct vc_laid){
        .dtype = l->part->dtype, .n_dims = l->part->n_dims, .shape = l->part->shape, .n_bytes = l->part->size_bytes};
    laid->name = vc_dialect_module_name(l->ctx, l->arena, l->codes->name, VC_CT_SCALE);
    VC_TRY_ALLOC(laid->name);
    VC_TRY(lay_shape(l));
out:
    return status;
}

/* ---- the configuration ---- */

/* Experts that transformers joins are codes, all of them, or it stops at the first that is not. */
static enum vc_status ct_check_weights(struct vc_ctx *ctx, const struct vc_config_weights *weights)
{
    size_t i;

    for (i = 0; i < weights->n; i++) {
        const struct vc_config_weight *weight = &weights->weights[i];
        size_t n_path;

        if (!weight->told && vc_name_is_module_weight(weight->name, &n_path) && weight->n_dims == 2 &&
            vc_dtype_is_float(weight->dtype) && vc_linear_is_expert(weight->name)) {
            return vc_fail(ctx, VC_E_UNSUPPORTED,
                           "%s stays as it is, and transformers loads experts from %s only where all of them are %s; "
                           "do not leave it out, or write %s plain",
                           weight->name, vc_dialect_compressed_tensors.name,
                           vc_scheme_name(weights->n_groups != 0 ? weights->groups[0].scheme : VC_SCHEME_INT8),
                           vc_option(ctx, "layout"));
        }
    }
    return VC_OK;
}

static void add_group(const struct vc_config_weights *weights, size_t index, struct vc_text *text)
{
    static const char *const strategies[] = {
        [VC_GRANULARITY_TENSOR] = "tensor", [VC_GRANULARITY_CHANNEL] = "channel", [VC_GRANULARITY_GROUP] = "group"};
    const struct vc_quant *group = &weights->groups[index];

    vc_text_add(text, "%s\n      \"group_%zu\": {\n        \"targets\": ", index == 0 ? "" : ",", index);
    if (weights->n_groups == 1) {
        vc_text_add(text, "[\"Linear\"]");
    } else {
        vc_config_add_modules(weights, group, text);
    }
    vc_text_add(
        text,
        ",\n        \"format\": \"pack-quantized\",\n        \"weights\": {\"num_bits\": %u, \"type\": \"int\", "
        "\"symmetric\": true, \"strategy\": \"%s\", \"group_size\": ",
        ct_schemes[group->scheme].bits, strategies[group->granularity]);
    if (group->granularity == VC_GRANULARITY_GROUP) {
        vc_text_add(text, "%" PRIu64, group->group_size);
    } else {
        vc_text_add(text, "null");
    }
    vc_text_add(text, ", \"dynamic\": false},\n        \"input_activations\": null,\n"
                      "        \"output_activations\": null\n      }");
}

static void ct_write_config(const struct vc_config_weights *weights, struct vc_text *text)
{
    size_t i;

    vc_text_add(text, "{\n    \"quant_method\": \"compressed-tensors\",\n    \"version\": \"" CT_VERSION "\",\n"
                      "    \"format\": \"pack-quantized\",\n    \"quantization_status\": \"compressed\",\n"
                      "    \"config_groups\": {");
    for (i = 0; i < weights->n_groups; i++) {
        add_group(weights, i, text);
    }
    vc_text_add(text, "\n    },\n    \"ignore\": ");
    vc_config_add_ignored(weights, VC_NAMES_EXACT, text);
    vc_text_add(text, ",\n    \"kv_cache_scheme\": null\n  }");
}

static bool is_text(const json_t *object, const char *key, const char *text)
{
    const char *found = json_string_value(json_object_get(object, key));

    return found != NULL && strcmp(found, text) == 0;
}

/* 8 or 4 bits, symmetric, weights only: what add_group writes. */
static bool is_own_group(const json_t *config, const json_t *group)
{
    const json_t *weights = json_object_get(group, "weights");
    const json_t *format = json_object_get(group, "format");
    const json_t *inputs = json_object_get(group, "input_activations");
    json_int_t bits = json_integer_value(json_object_get(weights, "num_bits"));

    return is_text(json_is_string(format) ? group : config, "format", "pack-quantized") && (bits == 8 || bits == 4) &&
           is_text(weights, "type", "int") && json_is_true(json_object_get(weights, "symmetric")) &&
           (inputs == NULL || json_is_null(inputs));
}

static bool ct_owns_config(const struct json_t *config)
{
    json_t *groups = json_object_get(config, "config_groups");
    const char *key;
    json_t *group;

    if (!is_text(config, "quant_method", "compressed-tensors")) {
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

static void merge(uint64_t *all, bool first, const json_t *value)
{
    uint64_t own = json_is_integer(value) && json_integer_value(value) > 0 ? (uint64_t)json_integer_value(value) : 0;

    *all = first || *all == own ? own : 0;
}

/* Bits and group size where all groups agree on them. */
static bool ct_read_config(const struct json_t *config, struct vc_dialect_hint *out)
{
    json_t *groups = json_object_get(config, "config_groups");
    bool first = true;
    const char *key;
    json_t *group;

    if (!is_text(config, "quant_method", "compressed-tensors")) {
        return false;
    }
    json_object_foreach(groups, key, group)
    {
        json_t *weights = json_object_get(group, "weights");

        merge(&out->num_bits, first, json_object_get(weights, "num_bits"));
        merge(&out->group_size, first, json_object_get(weights, "group_size"));
        first = false;
    }
    return true;
}

/* ---- the row ---- */

static const struct vc_dialect_file ct_file = {.fits = ct_fits,
                                               .lay = ct_lay,
                                               .usual_in_folders = true,
                                               .loads = VC_LOADS_COMPRESSED_TENSORS,
                                               .joined_by = "vLLM",
                                               .check_weights = ct_check_weights,
                                               .write_config = ct_write_config,
                                               .owns_config = ct_owns_config,
                                               .read_config = ct_read_config,
                                               .find_packed = vc_ct_find_packed,
                                               .find_codes = vc_ct_find_codes};

static const char *const schemes[] = {"int8", "int4", NULL};

const struct vc_dialect vc_dialect_compressed_tensors = {
    .name = "compressed-tensors",
    .schemes = schemes,
    .is_choice = true,
    .takes_codes = true,
    .rows_only = true,
    .check = ct_check,
    .reason = ct_reason,
    .part_type = ct_part_type,
    .loader = {.program = "transformers", .tried = VC_TRIED_TRANSFORMERS ", compressed-tensors 0.20.0"},
    .file = &ct_file};
