/* gptq_write.c - the dialects of GPTQ and AWQ: their rules, writing and configuration, and the rows. gptq.c has a
 * picture of the tensors, and finds such weights in a file.
 *
 *     GPTQ   2, 3, 4 or 8 bits; a scale per row (group_size -1) or per 32, 64 or 128 columns. Columns are in their own
 *            order, which g_idx says, too: a loader that makes the module's numbers without a file may leave them zero.
 *            Zero points in the middle make the first format, in which these are stored less one; others, which it could
 *            not tell from each other where they are 0, make the second.
 *     AWQ    4 bits, per 32, 64 or 128 columns, version gemm. It always has zero points.
 *
 * Words of a column hold codes of several rows, so a weight's codes are collected before they are stored. */

#include "core/model/code_schemes.h"
#include "core/model/names.h"
#include "formats/dialects/config_member.h"
#include "formats/dialects/gptq.h"
#include "formats/dialects/linear_rules.h"
#include "formats/json/json_walk.h"

/* ---- rules ---- */

static bool is_group(uint64_t size)
{
    return size == 32 || size == 64 || size == 128;
}

static enum vc_status check(struct vc_ctx *ctx, const struct vc_dialect *dialect,
                            const struct vc_dialect_request *request)
{
    bool rows = dialect == &vc_dialect_gptq && request->granularity == VC_GRANULARITY_CHANNEL;

    VC_REFUSE_IF(!rows && (request->granularity != VC_GRANULARITY_GROUP || !is_group(request->group_size)), ctx,
                 VC_E_ARGUMENT,
                 "the layout %s takes groups of 32, 64 or 128 columns%s (%s); %s compressed-tensors takes others",
                 dialect->name, dialect == &vc_dialect_gptq ? ", or a scale per row" : "",
                 vc_option(ctx, "granularity"), vc_option(ctx, "layout"));
    return vc_linear_check(ctx, dialect, request, true);
}

static enum vc_status gptq_check(struct vc_ctx *ctx, const struct vc_dialect_request *request)
{
    return check(ctx, &vc_dialect_gptq, request);
}

static enum vc_status awq_check(struct vc_ctx *ctx, const struct vc_dialect_request *request)
{
    return check(ctx, &vc_dialect_awq, request);
}

/* Whether rows and columns of a weight fill words of 32 bits: loaders round their numbers down. */
static bool fills_words(unsigned bits, const uint64_t *shape)
{
    unsigned codes = bits == 3 ? 32 : 32 / bits;

    return shape[0] % codes == 0 && shape[1] % codes == 0;
}

static const char *reason(const struct vc_dialect_request *request, const struct vc_dialect_tensor *tensor)
{
    const char *why = vc_linear_reason(request, tensor, VC_LOADS_COMPRESSED_TENSORS);
    const struct vc_code_scheme *codes = vc_code_scheme_named(request->scheme);

    if (why == NULL && codes != NULL && !fills_words(vc_code_bits(codes), tensor->shape)) {
        return "rows or columns do not fill words of 32 bits";
    }
    if (why == NULL && request->granularity == VC_GRANULARITY_GROUP && tensor->shape[1] % request->group_size != 0) {
        return "rows are no multiple of the group";
    }
    return why;
}

/* Scales are halves, of the weights' type where that is one. */
static enum vc_dtype part_type(const struct vc_dialect_request *request, const struct vc_dialect_tensor *tensor,
                               enum vc_part_role role, enum vc_dtype usual)
{
    if (role != VC_PART_SCALE) {
        return usual;
    }
    return tensor->weights_dtype == VC_DTYPE_BF16 ? VC_DTYPE_BF16 : VC_DTYPE_F16;
}

/* ---- writing ---- */

static bool fits(const struct vc_out_tensor *codes, bool rows, bool any_bits)
{
    const struct vc_quant *quant = codes->quant;
    const struct vc_code_scheme *scheme = vc_code_scheme(quant->scheme);
    unsigned bits = scheme != NULL ? vc_code_bits(scheme) : 0;
    size_t n_path;

    if (scheme == NULL || scheme->grid != VC_GRID_NONE || codes->n_dims != 2 ||
        !vc_name_is_module_weight(codes->name, &n_path) || vc_quant_is_special(quant) ||
        vc_quant_find(quant, VC_PART_ABSMAX) != VC_NO_TENSOR) {
        return false;
    }
    return (bits == 4 || (any_bits && (bits == 2 || bits == 3 || bits == 8))) && fills_words(bits, codes->shape) &&
           (quant->granularity == VC_GRANULARITY_GROUP
                ? is_group(quant->group_size) && codes->shape[1] % quant->group_size == 0
                : rows && quant->granularity == VC_GRANULARITY_CHANNEL && quant->axis == 0);
}

static bool gptq_fits(const struct vc_out_tensor *codes)
{
    return fits(codes, true, true);
}

static bool awq_fits(const struct vc_out_tensor *codes)
{
    return fits(codes, false, false);
}

/* Adds the tensor that holds a part, packed. */
static enum vc_status lay_packed(struct vc_laying *l, const char *tail, struct vc_laid part, uint64_t a, uint64_t b)
{
    VC_REFUSE_IF(!part.packed.packing->size(&part.packed, &part.n_bytes), l->ctx, VC_E_UNSUPPORTED,
                 "%s: has more than 2^64 bytes when packed", l->codes->name);
    part.n_dims = 2;
    return vc_dialect_lay(l, tail, part, a, b);
}

static enum vc_status lay_codes(struct vc_laying *l, bool awq, unsigned bits)
{
    uint64_t n_rows = l->codes->shape[0];
    uint64_t row = l->codes->shape[1];
    struct vc_laid part = {.dtype = VC_DTYPE_I32,
                           .packed = {.packing = &vc_packing_columns_whole,
                                      .bits = 8,
                                      .turned = bits,
                                      .n_rows = n_rows,
                                      .row = row * bits / 8,
                                      .unit = 4,
                                      .across = VC_ACROSS_AWQ}};

    if (awq) { /* halves of bytes, in its own order */
        part.packed.packing = &vc_packing_across;
        part.packed.bits = 4;
        part.packed.job_bits = 4;
    }
    return awq ? lay_packed(l, "qweight", part, row, n_rows / 8)
               : lay_packed(l, "qweight", part, row * bits / 32, n_rows);
}

static enum vc_status lay_zeros(struct vc_laying *l, bool awq, unsigned bits, uint64_t n_groups)
{
    uint64_t n_rows = l->codes->shape[0];
    const struct vc_laid part = {.dtype = VC_DTYPE_I32,
                                 .packed = {.packing = &vc_packing_across,
                                            .bits = bits,
                                            .n_rows = n_rows,
                                            .row = n_groups,
                                            .across = awq ? VC_ACROSS_AWQ : VC_ACROSS_ROWS,
                                            .add = -(1 << (bits - 1))}};

    return lay_packed(l, "qzeros", part, n_groups, n_rows * bits / 32);
}

/* Words of zero points in the middle, 2^(bits-1), of GPTQ's first format less one: so many bytes are repeated. */
static enum vc_status lay_middle(struct vc_laying *l, bool awq, unsigned bits, uint64_t n_groups)
{
    uint64_t words = l->codes->shape[0] * bits / 32;
    unsigned value = (1u << (bits - 1)) - (awq ? 0 : 1);
    unsigned char *bytes = vc_arena_alloc(l->ctx, l->arena, bits);

    VC_CALL_ALLOC(bytes);
    memset(bytes, 0, bits); /* 8 codes */
    for (unsigned bit = 0; bit < 8 * bits; bit++) {
        bytes[bit / 8] = (unsigned char)(bytes[bit / 8] | (value >> bit % bits & 1) << bit % 8);
    }
    return vc_dialect_lay(
        l, "qzeros",
        (struct vc_laid){
            .dtype = VC_DTYPE_I32, .n_dims = 2, .n_bytes = 4 * n_groups * words, .constant = bytes, .period = bits},
        n_groups, words);
}

/* The scales, and behind them what no part brings. */
static enum vc_status lay_scales(struct vc_laying *l, bool awq, unsigned bits, uint64_t n_groups)
{
    uint64_t row = l->codes->shape[1];
    unsigned size = (unsigned)vc_dtype_size(l->part->dtype);
    const struct vc_laid scales = {.dtype = l->part->dtype,
                                   .packed = {.packing = &vc_packing_columns_whole,
                                              .bits = 8,
                                              .n_rows = l->codes->shape[0],
                                              .row = n_groups * size,
                                              .unit = size}};

    VC_REFUSE_IF(
        l->part->dtype != VC_DTYPE_F16 && l->part->dtype != VC_DTYPE_BF16, l->ctx, VC_E_UNSUPPORTED,
        "%s: has scales of %s, and loaders of the layout %s take f16 and bf16; quantize the weights themselves, "
        "or write %s compressed-tensors",
        l->codes->name, vc_dtype_name(l->part->dtype), awq ? vc_dialect_awq.name : vc_dialect_gptq.name,
        vc_option(l->ctx, "layout"));
    VC_CALL(lay_packed(l, "scales", scales, n_groups, l->codes->shape[0]));
    if (l->codes->quant->symmetric) {
        VC_CALL(lay_middle(l, awq, bits, n_groups));
    }
    if (!awq) {
        return vc_dialect_lay(
            l, "g_idx",
            (struct vc_laid){.dtype = VC_DTYPE_I32, .n_dims = 1, .n_bytes = 4 * row, .index_of = row / n_groups}, row,
            0);
    }
    return VC_OK;
}

static enum vc_status lay(struct vc_laying *l, bool awq)
{
    const struct vc_quant *quant = l->codes->quant;
    unsigned bits = vc_code_bits(vc_code_scheme(quant->scheme));
    uint64_t n_groups = quant->granularity == VC_GRANULARITY_GROUP ? l->codes->shape[1] / quant->group_size : 1;

    l->n = 0;
    if (l->role == VC_PART_CODES) {
        return lay_codes(l, awq, bits);
    }
    return l->role == VC_PART_ZERO_POINT ? lay_zeros(l, awq, bits, n_groups) : lay_scales(l, awq, bits, n_groups);
}

static enum vc_status gptq_lay(struct vc_laying *l)
{
    return lay(l, false);
}

static enum vc_status awq_lay(struct vc_laying *l)
{
    return lay(l, true);
}

/* ---- the configuration ---- */

static enum vc_status gptq_check_weights(struct vc_ctx *ctx, const struct vc_config_weights *weights)
{
    VC_CALL(vc_config_one_kind(ctx, weights, &vc_dialect_gptq));
    return vc_config_check_experts(ctx, weights, &vc_dialect_gptq);
}

static enum vc_status awq_check_weights(struct vc_ctx *ctx, const struct vc_config_weights *weights)
{
    VC_CALL(vc_config_one_kind(ctx, weights, &vc_dialect_awq));
    return vc_config_check_experts(ctx, weights, &vc_dialect_awq);
}

/* Whether the output head is codes, too, which loaders ask before they look. */
static bool has_head(const struct vc_config_weights *weights)
{
    for (size_t i = 0; i < weights->n; i++) {
        if (weights->weights[i].told && strcmp(weights->weights[i].name, "lm_head.weight") == 0) {
            return true;
        }
    }
    return false;
}

/* "dynamic": {"-:^model\.layers\.0\.mlp\.gate$": {}}, for layers but heads that are no codes. */
static void add_dynamic(const struct vc_config_weights *weights, struct vc_text *text)
{
    VC_SCOPED_TEXT struct vc_text pattern = {.ctx = text->ctx};
    bool first = true;

    for (size_t i = 0; i < weights->n; i++) {
        const struct vc_config_weight *w = &weights->weights[i];
        size_t n_path;

        if (!vc_config_is_layer(w, &n_path) || w->told || vc_name_is_head(w->name)) {
            continue;
        }
        pattern.n = 0;
        vc_text_add(&pattern, "-:^");
        for (size_t k = 0; k < n_path; k++) {
            vc_text_add(&pattern, w->name[k] == '.' ? "\\." : "%c", w->name[k]);
        }
        vc_text_add(&pattern, "$");
        if (pattern.status == VC_OK) {
            vc_text_add(text, "%s", first ? ",\n    \"dynamic\": {" : ", ");
            vc_text_add_json_string(text, pattern.data);
            vc_text_add(text, ": {}");
            first = false;
        }
    }
    vc_text_add(text, "%s", first ? "" : "}");
    text->status = text->status == VC_OK ? pattern.status : text->status;
}

/* What both say of the one kind of codes. */
static void add_numbers(const struct vc_config_weights *weights, const char *method, struct vc_text *text)
{
    const struct vc_quant *group = &weights->groups[0];

    vc_text_add(text, "{\n    \"quant_method\": \"%s\",\n    \"bits\": %u,\n    \"group_size\": ", method,
                vc_code_bits(vc_code_scheme(group->scheme)));
    if (group->granularity == VC_GRANULARITY_GROUP) {
        vc_text_add(text, "%" PRIu64, group->group_size);
    } else {
        vc_text_add(text, "-1");
    }
}

static void gptq_write_config(const struct vc_config_weights *weights, struct vc_text *text)
{
    bool symmetric = weights->groups[0].symmetric;

    add_numbers(weights, vc_dialect_gptq.name, text);
    vc_text_add(
        text, ",\n    \"desc_act\": false,\n    \"sym\": %s,\n    \"lm_head\": %s,\n    \"checkpoint_format\": \"%s\"",
        symmetric ? "true" : "false", has_head(weights) ? "true" : "false", symmetric ? "gptq" : "gptq_v2");
    add_dynamic(weights, text);
    vc_text_add(text, "\n  }");
}

static void awq_write_config(const struct vc_config_weights *weights, struct vc_text *text)
{
    add_numbers(weights, vc_dialect_awq.name, text);
    vc_text_add(text, ",\n    \"zero_point\": true,\n    \"version\": \"gemm\",\n    \"modules_to_not_convert\": ");
    vc_config_add_ignored(weights, VC_NAMES_ENDS, text);
    vc_text_add(text, "\n  }");
}

/* Zero points of codes that stay lie as those of new ones would. */
static bool gptq_owns_config(const struct json_t *config)
{
    struct vc_dialect_hint hint = {.num_bits = 0};
    bool second = vc_json_says(config, "checkpoint_format", "gptq_v2");

    return vc_gptq_read_config(config, &hint) && hint.wrong == NULL && hint.unread == NULL &&
           !json_is_true(json_object_get(config, "desc_act")) &&
           (second ? json_is_false(json_object_get(config, "sym")) : json_is_true(json_object_get(config, "sym")));
}

static bool awq_owns_config(const struct json_t *config)
{
    struct vc_dialect_hint hint = {.num_bits = 0};

    return vc_awq_read_config(config, &hint) && hint.wrong == NULL && hint.unread == NULL && !hint.along_rows;
}

/* ---- the rows ---- */

static const struct vc_dialect_file gptq_file = {.fits = gptq_fits,
                                                 .lay = gptq_lay,
                                                 .asked_only = true,
                                                 .in_config_only = true,
                                                 .joined_by = "vLLM",
                                                 .check_weights = gptq_check_weights,
                                                 .write_config = gptq_write_config,
                                                 .owns_config = gptq_owns_config,
                                                 .read_config = vc_gptq_read_config,
                                                 .find_packed = vc_gptq_find};

static const struct vc_dialect_file awq_file = {.fits = awq_fits,
                                                .lay = awq_lay,
                                                .asked_only = true,
                                                .in_config_only = true,
                                                .joined_by = "vLLM",
                                                .check_weights = awq_check_weights,
                                                .write_config = awq_write_config,
                                                .owns_config = awq_owns_config,
                                                .read_config = vc_awq_read_config,
                                                .find_packed = vc_awq_find};

#define ROW(NAME)                                                                                      \
    .name = #NAME, .is_choice = true, .takes_codes = true, .rows_only = true, .positive_scales = true, \
    .zero_points = true, .check = NAME##_check, .reason = reason, .part_type = part_type,              \
    .loader = {.program = "transformers", .needs = "gptqmodel"}, .file = &NAME##_file

const struct vc_dialect vc_dialect_gptq = {ROW(gptq),
                                           .schemes = (const char *const[]){"int4", "int8", "int3", "int2", NULL}};

const struct vc_dialect vc_dialect_awq = {ROW(awq), .schemes = (const char *const[]){"int4", NULL}};
