/* hqq.c - the dialect of HQQ, read only: folders that hqq's save_to_safetensors and transformers' HqqConfig make. hqq's
 * own qmodel.pt keeps its numbers in a pickle, and is refused by foreign.c.
 *
 *     m.W_q     U8, or I32 of 3 bits  the codes of the weight, reshaped to [groups, size] (axis 1) or [size, groups]
 *                                     (axis 0), in layers from the highest bits on (packing_layers.c)
 *     m.scale   [groups, 1] or [1, groups], f16, bf16 or f32
 *     m.zero    the same; no whole numbers
 *     m.shape   I64 [2]               of the weight
 *     m.nbits, m.axis, m.group_size   I32; m.packing: the text "4bit_u8"; m.view_as_float: W_q has a type of floats
 *
 *     value = (code - zero) * scale, in f32; hqq computes in its compute_dtype, f16 as a rule, and rounds both steps
 *
 * Codes of 5 and 6 bits lie in bytes, those of 1.58 bits as two bits. Every layer says its own numbers, so the
 * configuration is not asked. */

#include "core/model/code_schemes.h"
#include "formats/dialects/foreign.h"
#include "formats/dialects/search.h"

struct layer {
    const char *name;
    size_t n; /* of the name, up to "W_q" */
    size_t codes, scale, zero;
    uint64_t shape[2], axis, n_scales, group;
    unsigned bits, job_bits; /* of a code in the file, and here */
};

/* A whole number from 0 on that is a tensor of one element, or of `n` of them. *ok false: it is not there, or none. */
static enum vc_status read_counts(const struct vc_search *s, const struct layer *l, const char *tail, size_t n,
                                  uint64_t *out, bool *ok)
{
    size_t index = vc_search_find(s, l->name, l->n, tail);
    const struct vc_tensor *t = index != VC_NO_TENSOR ? &s->model->tensors[index] : NULL;
    unsigned char bytes[16] = {0};
    float value;

    *ok = t != NULL && t->n_elems == n && n <= 2 &&
          (t->dtype == VC_DTYPE_I64 || t->dtype == VC_DTYPE_I32 || t->dtype == VC_DTYPE_U8 || t->dtype == VC_DTYPE_F32);
    if (!*ok) {
        return VC_OK;
    }
    VC_CALL(vc_source_read_any(s->ctx, s->model, index, VC_FORM_VALUES, 0, bytes, (size_t)t->size_bytes));
    for (size_t i = 0; i < n; i++) {
        const unsigned char *at = bytes + i * vc_dtype_size(t->dtype);

        out[i] = t->dtype == VC_DTYPE_I64 ? vc_le64(at) : t->dtype == VC_DTYPE_U8 ? at[0] : vc_le32(at);
        if (t->dtype == VC_DTYPE_F32) { /* 1.58 */
            memcpy(&value, at, sizeof value);
            out[i] = value > 0.0f && value < 16.0f ? (uint64_t)(value + 0.5f) : 0;
        }
        *ok = *ok && out[i] <= INT32_MAX;
    }
    return VC_OK;
}

/* Bits of a code in the words, by the name of the packing, else by the bits of the codes. 0: neither says. */
static enum vc_status read_bits(const struct vc_search *s, struct layer *l)
{
    static const unsigned stored[9] = {[1] = 1, [2] = 2, [3] = 3, [4] = 4, [5] = 8, [6] = 8, [8] = 8};
    static const char *const names[9] = {
        [1] = "1bit_u8", [2] = "2bit_u8", [3] = "3bit_32", [4] = "4bit_u8", [8] = "8bit_u8"};
    size_t index = vc_search_find(s, l->name, l->n, "packing");
    const struct vc_tensor *t = index != VC_NO_TENSOR ? &s->model->tensors[index] : NULL;
    char text[8] = "";
    uint64_t bits = 0;
    bool ok = false;

    if (t != NULL && t->dtype == VC_DTYPE_U8 && t->n_elems == sizeof text - 1) {
        VC_CALL(vc_source_read_any(s->ctx, s->model, index, VC_FORM_VALUES, 0, text, sizeof text - 1));
        for (unsigned i = 0; i < 9; i++) {
            l->bits = names[i] != NULL && strcmp(text, names[i]) == 0 ? i : l->bits;
        }
    } else if (t == NULL) {
        VC_CALL(read_counts(s, l, "nbits", 1, &bits, &ok));
        l->bits = ok && bits < 9 ? stored[bits] : 0;
    }
    l->job_bits = l->bits == 1 ? 2 : l->bits;
    return VC_OK;
}

/* Words that hold that many codes, in layers of whole rows. */
static bool words_fit(const struct vc_tensor *t, const struct layer *l)
{
    uint64_t rows = l->axis == 1 ? l->n_scales : l->group;
    uint64_t per = l->bits == 3 ? 10 : 8 / l->bits;

    return (l->bits == 3 || rows % per == 0) &&
           t->size_bytes == vc_ceil_div_u64(rows, per) * (l->shape[0] * l->shape[1] / rows) * (l->bits == 3 ? 4 : 1);
}

/* Why it cannot be decoded; NULL: it can. */
static enum vc_status find_parts(const struct vc_search *s, struct layer *l, const char **why)
{
    uint64_t group = 0;
    bool shape, axis, ok, n_bits;

    *why = NULL;
    l->scale = vc_search_find(s, l->name, l->n, "scale");
    l->zero = vc_search_find(s, l->name, l->n, "zero");
    VC_CALL(read_bits(s, l));
    VC_CALL(read_counts(s, l, "shape", 2, l->shape, &shape));
    VC_CALL(read_counts(s, l, "axis", 1, &l->axis, &axis));
    VC_CALL(read_counts(s, l, "group_size", 1, &group, &ok));
    n_bits = l->bits != 0;
    if (!vc_search_is_floats(s, l->scale) || !vc_search_is_floats(s, l->zero)) {
        *why = "has no 'scale' and 'zero' of f16, bf16 or f32 beside it (of scales and zero points that are codes "
               "themselves, hqq writes no such file)";
    } else if (!n_bits || !shape || !axis || l->axis > 1) {
        *why = !n_bits ? "has no 'packing' or 'nbits' of hqq beside it" : "has no 'shape' or 'axis' of hqq beside it";
    } else {
        uint64_t n = l->shape[0] * l->shape[1];

        l->n_scales = s->model->tensors[l->scale].n_elems;
        l->group = n / l->n_scales;
        if (n == 0 || n % l->n_scales != 0 || s->model->tensors[l->zero].n_elems != l->n_scales ||
            (ok && group != l->group)) {
            *why = "has scales, zero points and a 'group_size' that do not fit its 'shape'";
        } else if (!words_fit(&s->model->tensors[l->codes], l)) {
            *why = "has other words than its 'shape' and bits make";
        } else if (l->shape[1] * l->job_bits % 8 != 0) {
            *why = "has rows that are no whole bytes";
        }
    }
    return VC_OK;
}

static enum vc_status attach(struct vc_search *s, const struct layer *l)
{
    unsigned unit = l->bits == 3 ? 4 : 1;
    bool in_rows = l->axis == 1 && l->shape[1] % l->group == 0;
    struct vc_quant quant = {.scheme = vc_code_scheme_of_bits(l->job_bits),
                             .granularity = VC_GRANULARITY_GROUP,
                             .group_size = l->group,
                             .offset_rule = VC_OFFSET_BEFORE,
                             .scale_run = in_rows        ? 0
                                          : l->axis == 1 ? l->group
                                                         : 1,
                             .source_dtype = s->model->tensors[l->scale].dtype};
    const struct vc_packed packed = {.packing = &vc_packing_layers,
                                     .bits = l->bits,
                                     .job_bits = l->job_bits,
                                     .unit = unit,
                                     .n_words = s->model->tensors[l->codes].size_bytes / unit,
                                     .n_rows = l->shape[0],
                                     .row = l->shape[1] * l->job_bits / 8};

    vc_quant_set(&quant, VC_PART_SCALE, l->scale);
    vc_quant_set(&quant, VC_PART_OFFSET, l->zero);
    VC_CALL(vc_search_attach_packed(s, l->codes, &quant, &packed, l->n));
    s->out->found[l->codes].tail = "weight";
    vc_search_claim(s, l->codes, l->name, l->n, VC_HQQ_PARTS);
    return VC_OK;
}

static enum vc_status hqq_find(struct vc_search *s, size_t codes, bool *found)
{
    static const char tail[] = ".W_q";
    const struct vc_tensor *t = &s->model->tensors[codes];
    struct layer l = {.name = t->name, .n = strlen(t->name) - (sizeof tail - 2), .codes = codes};
    const char *why;

    if (!vc_ends_in(t->name, tail) || strlen(t->name) < sizeof tail || !vc_search_is_free(s, codes)) {
        return VC_OK;
    }
    *found = true;
    if (vc_search_has(s, l.name, l.n, "scale2")) {
        *found = false; /* SINQ's, of which foreign.c speaks */
        return VC_OK;
    }
    VC_CALL(find_parts(s, &l, &why));
    return why != NULL
               ? vc_search_refuse(s, codes, VC_SEVERITY_ERROR, "is codes of HQQ that cannot be decoded: it %s", why)
               : attach(s, &l);
}

static const struct vc_dialect_file hqq_file = {.loads = VC_LOADS_NONE, .find_packed = hqq_find};

const struct vc_dialect vc_dialect_hqq = {.name = "hqq",
                                          .schemes = (const char *const[]){NULL},
                                          .loader = {.program = "transformers", .needs = "hqq"},
                                          .file = &hqq_file};
