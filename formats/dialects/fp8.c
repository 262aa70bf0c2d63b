/* fp8.c - the dialect of DeepSeek's 8-bit models, the method "fp8" of transformers, which is read and not written:
 *
 *     m.weight            F8_E4M3 [out, in]                  value = code * scale of the block
 *     m.weight_scale_inv  F32 [ceil(out/128), ceil(in/128)]  in spite of its name
 *
 * Shown as fp8 codes whose scales are shared by blocks. One scale for the whole weight, m.weight_scale, is
 * compressed-tensors' form, too (compressed_tensors_read.c).
 *
 *     "quantization_config": {"quant_method": "fp8", "activation_scheme": "dynamic", "weight_block_size": [128, 128]}
 */
#include <jansson.h>
#include <string.h>

#include "core/model/code_schemes.h"
#include "formats/dialects/search.h"

static uint64_t number_of(const json_t *value)
{
    json_int_t n = json_integer_value(value);

    return n > 0 ? (uint64_t)n : 0;
}

static bool fp8_read_config(const struct json_t *config, struct vc_dialect_hint *out)
{
    const char *method = json_string_value(json_object_get(config, "quant_method"));
    const json_t *block = json_object_get(config, "weight_block_size");

    if (method == NULL || strcmp(method, "fp8") != 0) {
        return false;
    }
    out->block[0] = number_of(json_array_get(block, 0));
    out->block[1] = number_of(json_array_get(block, 1));
    return true;
}

static enum vc_status fp8_find_codes(struct vc_search *s, size_t codes, bool *found)
{
    const struct vc_tensor *t = &s->model->tensors[codes];
    struct vc_quant quant = {.scheme = VC_SCHEME_FP8, .symmetric = true, .source_dtype = VC_DTYPE_BF16};
    size_t n_stem, scale;
    enum vc_status status = VC_OK;

    if (t->dtype != VC_DTYPE_F8_E4M3 || !vc_search_is_codes(s, codes, &n_stem)) {
        return VC_OK;
    }
    scale = vc_search_find(s, t->name, strlen(t->name), "_scale_inv");
    if (scale == VC_NO_TENSOR || !vc_search_is_free(s, scale) ||
        !vc_code_scheme_takes_scale(vc_code_scheme(quant.scheme), s->model->tensors[scale].dtype)) {
        return VC_OK;
    }
    vc_quant_set(&quant, VC_PART_SCALE, scale);
    VC_TRY(vc_search_granularity(s, &s->model->tensors[scale], t->shape[0], t->shape[1], &quant, found));
    VC_TRY(*found ? vc_search_attach(s, codes, &vc_dialect_fp8, &quant, false) : VC_OK);
out:
    return status;
}

static const struct vc_dialect_file fp8_file = {
    .loads = VC_LOADS_NONE, .read_config = fp8_read_config, .find_codes = fp8_find_codes};

static const char *const schemes[] = {NULL};

const struct vc_dialect vc_dialect_fp8 = {
    .name = "fp8", .schemes = schemes, .loader = {.program = "transformers"}, .file = &fp8_file};
