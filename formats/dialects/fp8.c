/* fp8.c - the dialect of DeepSeek's 8-bit models, the method "fp8" of transformers and vLLM:
 *
 *     m.weight            F8_E4M3 [out, in]                  value = code * scale of the block
 *     m.weight_scale_inv  F32 [ceil(out/128), ceil(in/128)]  in spite of its name
 *
 * Written with blocks of 128 x 128 that divide the weight, since transformers decodes no others; other blocks are read.
 * One scale for the whole weight, m.weight_scale, is compressed-tensors' form, too (compressed_tensors_read.c).
 *
 *     "quantization_config": {"quant_method": "fp8", "activation_scheme": "dynamic", "weight_block_size": [128, 128],
 *                             "modules_to_not_convert": ["lm_head"]}
 *
 * And the dialect of NVIDIA's ModelOpt, which TensorRT-LLM and vLLM load, read only:
 *
 *     NVFP4    m.weight U8 [out, in/2], m.weight_scale F8_E4M3 [out, in/16], m.weight_scale_2 F32, which multiplies
 *              these scales
 *     FP8      m.weight F8_E4M3 [out, in], m.weight_scale F32 [out] or [out/128, 1, in/128, 1]; one scale for the
 *              whole weight is compressed-tensors' form, too
 *
 * What is said of them lies in "quantization_config" (quant_method modelopt), or in hf_quant_config.json beside it. */

#include "core/model/code_schemes.h"
#include "core/model/names.h"
#include "formats/dialects/compressed_tensors.h"
#include "formats/dialects/config_member.h"
#include "formats/dialects/linear_rules.h"
#include "formats/json/json_walk.h"

#define BLOCK ((uint64_t)128)

/* ---- rules ---- */

static enum vc_status fp8_check(struct vc_ctx *ctx, const struct vc_dialect_request *request)
{
    const struct vc_family *family = request->model != NULL ? request->model->family : NULL;
    const struct vc_dialect *other = vc_family_other_layout(family, NULL);

    VC_REFUSE_IF(request->granularity != VC_GRANULARITY_BLOCK || request->group_size != BLOCK, ctx, VC_E_ARGUMENT,
                 "the layout %s has a scale per 128 rows and 128 columns (%s); %s compressed-tensors per row",
                 vc_dialect_fp8.name, vc_option(ctx, "granularity"), vc_option(ctx, "layout"));
    VC_REFUSE_IF(vc_family_refused(family, VC_LOADS_COMPRESSED_TENSORS) != NULL ||
                     vc_family_needs(family, VC_LOADS_COMPRESSED_TENSORS) != NULL,
                 ctx, VC_E_UNSUPPORTED, "models of type %s were not tried in the layout %s; %s %s can be made",
                 family->type, vc_dialect_fp8.name, vc_option(ctx, "layout"),
                 other != NULL ? other->name : VC_LAYOUT_PLAIN);
    return vc_linear_check(ctx, &vc_dialect_fp8, request, true);
}

static bool divides(const uint64_t *shape)
{
    return shape[0] % BLOCK == 0 && shape[1] % BLOCK == 0;
}

static const char *fp8_reason(const struct vc_dialect_request *request, const struct vc_dialect_tensor *tensor)
{
    const char *reason = vc_linear_reason(request, tensor, VC_LOADS_COMPRESSED_TENSORS);

    return reason == NULL && !divides(tensor->shape) ? "rows or columns are no multiple of 128" : reason;
}

/* ---- writing ---- */

static bool is_block(const struct vc_quant *quant)
{
    return quant->scheme == VC_SCHEME_FP8 && quant->granularity == VC_GRANULARITY_BLOCK && quant->group_rows == BLOCK &&
           quant->group_size == BLOCK;
}

static bool fp8_fits(const struct vc_out_tensor *codes)
{
    size_t n_path;

    return is_block(codes->quant) && codes->n_dims == 2 && vc_name_is_module_weight(codes->name, &n_path) &&
           divides(codes->shape);
}

static enum vc_status fp8_lay(struct vc_laying *l)
{
    const struct vc_laid part = {
        .dtype = l->part->dtype, .n_dims = l->part->n_dims, .shape = l->part->shape, .n_bytes = l->part->size_bytes};

    l->n = 0;
    return vc_dialect_lay(l, l->role == VC_PART_CODES ? NULL : "weight_scale_inv", part, 0, 0);
}

/* ---- the configuration ---- */

static enum vc_status fp8_check_weights(struct vc_ctx *ctx, const struct vc_config_weights *weights)
{
    return vc_config_check_experts(ctx, weights, &vc_dialect_fp8);
}

static void fp8_write_config(const struct vc_config_weights *weights, struct vc_text *text)
{
    vc_text_add(text, "{\n    \"quant_method\": \"fp8\",\n    \"activation_scheme\": \"dynamic\",\n"
                      "    \"weight_block_size\": [128, 128],\n    \"modules_to_not_convert\": ");
    vc_config_add_ignored(weights, VC_NAMES_ENDS, text);
    vc_text_add(text, "\n  }");
}

static bool fp8_read_config(const struct json_t *config, struct vc_dialect_hint *out)
{
    const json_t *block = json_object_get(config, "weight_block_size");

    if (!vc_json_says(config, "quant_method", "fp8")) {
        return false;
    }
    out->block[0] = vc_json_count(json_array_get(block, 0));
    out->block[1] = vc_json_count(json_array_get(block, 1));
    if (block != NULL && !json_is_null(block) &&
        (json_array_size(block) != 2 || out->block[0] == 0 || out->block[1] == 0)) {
        out->wrong = "a \"weight_block_size\" that is not two numbers above 0";
    }
    return true;
}

static bool fp8_owns_config(const struct json_t *config)
{
    struct vc_dialect_hint hint = {.num_bits = 0};

    return fp8_read_config(config, &hint) && hint.block[0] == BLOCK && hint.block[1] == BLOCK &&
           vc_json_says(config, "activation_scheme", "dynamic") && json_object_get(config, "scale_fmt") == NULL;
}

/* ---- reading ---- */

static enum vc_status fp8_find_codes(struct vc_search *s, size_t codes, bool *found)
{
    const struct vc_tensor *t = &s->model->tensors[codes];
    struct vc_quant quant = {.scheme = VC_SCHEME_FP8, .symmetric = true, .source_dtype = VC_DTYPE_BF16};
    size_t n_stem, scale;

    if (t->dtype != VC_DTYPE_F8_E4M3 || !vc_search_is_codes(s, codes, &n_stem)) {
        return VC_OK;
    }
    scale = vc_search_find(s, t->name, strlen(t->name), "_scale_inv");
    if (scale == VC_NO_TENSOR || !vc_search_is_free(s, scale)) {
        return VC_OK;
    }
    VC_CALL(vc_search_hint(s));
    VC_RETURN_IF(s->hint.wrong != NULL, vc_search_refuse(s, codes, VC_SEVERITY_ERROR,
                                                         "cannot be decoded: its configuration has %s", s->hint.wrong));
    if (!vc_code_scheme_takes_scale(vc_code_scheme(quant.scheme), s->model->tensors[scale].dtype)) {
        return vc_search_refuse(s, codes, VC_SEVERITY_ERROR, "cannot be decoded: '%s' is %s",
                                s->model->tensors[scale].name, vc_dtype_name(s->model->tensors[scale].dtype));
    }
    vc_quant_set(&quant, VC_PART_SCALE, scale);
    VC_CALL(vc_search_granularity(s, &s->model->tensors[scale], t->shape[0], t->shape[1], &quant, found));
    return *found ? vc_search_attach(s, codes, &quant, is_block(&quant) && divides(t->shape))
                  : vc_search_refuse(s, codes, VC_SEVERITY_ERROR,
                                     "cannot be decoded: the shape of '%s' fits no blocks of it",
                                     s->model->tensors[scale].name);
}

/* ---- the row ---- */

static const struct vc_dialect_file fp8_file = {.fits = fp8_fits,
                                                .lay = fp8_lay,
                                                .loads = VC_LOADS_NONE,
                                                .joined_by = "vLLM",
                                                .check_weights = fp8_check_weights,
                                                .write_config = fp8_write_config,
                                                .owns_config = fp8_owns_config,
                                                .read_config = fp8_read_config,
                                                .find_codes = fp8_find_codes};

const struct vc_dialect vc_dialect_fp8 = {.name = "fp8",
                                          .schemes = (const char *const[]){"fp8", NULL},
                                          .is_choice = true,
                                          .takes_codes = true,
                                          .rows_only = true,
                                          .check = fp8_check,
                                          .reason = fp8_reason,
                                          .loader = {.program = "transformers", .tried = VC_TRIED_TRANSFORMERS},
                                          .file = &fp8_file};

/* ---- ModelOpt ---- */

static enum vc_status modelopt_find_packed(struct vc_search *s, size_t codes, bool *found)
{
    const struct vc_tensor *t = &s->model->tensors[codes];
    size_t n = strlen(t->name);
    size_t n_path;

    if (t->dtype != VC_DTYPE_U8 || !vc_name_is_module_weight(t->name, &n_path) ||
        !vc_search_has(s, t->name, n, "_scale_2")) {
        return VC_OK;
    }
    VC_CALL(vc_ct_find_packed_floats(s, codes, n, "_scale_2", found));
    if (*found) {
        vc_ct_claim_inputs(s, codes, n - strlen("weight"));
    }
    return VC_OK;
}

/* Scales [out] and [out/128, 1, in/128, 1] are shown as matrices, as all are; the rest is said of the method fp8. */
static enum vc_status modelopt_find_codes(struct vc_search *s, size_t codes, bool *found)
{
    const struct vc_tensor *t = &s->model->tensors[codes];
    struct vc_quant quant = {.scheme = VC_SCHEME_FP8, .symmetric = true, .source_dtype = VC_DTYPE_BF16};
    size_t n_stem, scale;
    uint64_t *shape;

    if (t->dtype != VC_DTYPE_F8_E4M3 || !vc_search_is_codes(s, codes, &n_stem)) {
        return VC_OK;
    }
    scale = vc_search_find(s, t->name, strlen(t->name), "_scale");
    struct vc_tensor *scales = scale != VC_NO_TENSOR && vc_search_is_free(s, scale) ? &s->model->tensors[scale] : NULL;
    if (scales == NULL || scales->dtype != VC_DTYPE_F32 ||
        !((scales->n_dims == 1 && scales->shape[0] == t->shape[0] && scales->shape[0] != 1) ||
          (scales->n_dims == 4 && scales->shape[1] == 1 && scales->shape[3] == 1))) {
        return VC_OK;
    }
    VC_CALL_ALLOC(shape = vc_arena_alloc(s->ctx, &s->out->arena, 2 * sizeof *shape));
    shape[0] = scales->shape[0];
    shape[1] = scales->n_dims == 4 ? scales->shape[2] : 1;
    scales->shape = shape;
    scales->n_dims = 2;
    vc_quant_set(&quant, VC_PART_SCALE, scale);
    VC_CALL(vc_search_granularity(s, scales, t->shape[0], t->shape[1], &quant, found));
    if (*found) {
        VC_CALL(vc_search_attach(s, codes, &quant, false));
        vc_ct_claim_inputs(s, codes, n_stem);
    }
    return VC_OK;
}

static const struct vc_dialect_file modelopt_file = {
    .loads = VC_LOADS_NONE, .find_packed = modelopt_find_packed, .find_codes = modelopt_find_codes};

const struct vc_dialect vc_dialect_modelopt = {
    .name = "modelopt", .schemes = (const char *const[]){NULL}, .loader = {.program = "vLLM"}, .file = &modelopt_file};
