/* gptq.c - the dialects of GPTQ and AWQ: reading. gptq_write.c has the rows. Shown as the tensor m.weight, i2, i3, i4 or i8:
 *
 *              GPTQ, 2, 3, 4 or 8 bits        AWQ (gemm), 4 bits     AWQ (gemv), 4 bits
 *     qweight  I32 [in * bits / 32, out]      I32 [in, out / 8]      I32 [out, in / 8]      codes of a column, or of a row
 *     scales   [groups, out]                  [groups, out]          [out, 8 * words]       f16, bf16 or f32
 *     qzeros   I32 [groups, out * bits / 32]  I32 [groups, out / 8]  I32 [out, words]       less one in GPTQ's first format
 *     g_idx    I32 [in]                                                                     the group of each column
 *
 *     value [n, k] = (code - zero point) * scale of the group of k
 *
 * The configuration beside the file says how many bits a code has and what zero points mean, so without one nothing is
 * certain, and the tensors stay the plain ones they are. So do the other orders of AWQ (gemv_fast, marlin), and GPT-2's
 * Conv1D, whose weights are [in, out] as floats. Zero points that are all in the middle make symmetric codes. Where
 * g_idx has another order (desc_act), it is a part of the weight. Codes of gemv lie along the rows, as
 * compressed-tensors has them, and its rows of scales and zero points have words that say nothing.
 *
 *     "quantization_config": {"quant_method": "gptq", "bits": 4, "group_size": 128, "desc_act": false, "sym": true,
 *                             "checkpoint_format": "gptq"}
 *     "quantization_config": {"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": true,
 *                             "version": "gemm"} */

#include "formats/dialects/gptq.h"
#include "core/model/code_schemes.h"
#include "core/model/names.h"
#include "formats/json/json_walk.h"

#define CHUNK ((size_t)4096)

/* ---- the configuration ---- */

static void read_numbers(const struct json_t *config, enum vc_words words, struct vc_dialect_hint *out)
{
    const json_t *group = json_object_get(config, "group_size");

    out->num_bits = vc_json_count(json_object_get(config, "bits"));
    out->group_size = vc_json_count(group);
    out->whole_rows = json_is_integer(group) && json_integer_value(group) == -1;
    out->words = words;
    if (out->num_bits == 0) {
        out->wrong = "no \"bits\" above 0";
    } else if (out->group_size == 0 && !out->whole_rows) {
        out->wrong = "no \"group_size\" that is -1 or above 0";
    }
}

bool vc_gptq_read_config(const struct json_t *config, struct vc_dialect_hint *out)
{
    if (!vc_json_says(config, "quant_method", "gptq")) {
        return false;
    }
    out->zeros_less_one = !vc_json_says(config, "checkpoint_format", "gptq_v2");
    read_numbers(config, VC_WORDS_GPTQ, out);
    if (vc_json_says(config, "checkpoint_format", "marlin")) {
        out->unread = "is codes of GPTQ in the order of Marlin, which is not decoded here";
    }
    return true;
}

bool vc_awq_read_config(const struct json_t *config, struct vc_dialect_hint *out)
{
    const json_t *value = json_object_get(config, "version");
    const char *version = value == NULL ? "gemm" : json_string_value(value);

    if (!vc_json_says(config, "quant_method", "awq")) {
        return false;
    }
    read_numbers(config, VC_WORDS_AWQ, out);
    out->along_rows = version != NULL && vc_is_one_of(version, "gemv GEMV");
    if (version == NULL ||
        !vc_is_one_of(version, "gemm GEMM gemv GEMV gemv_fast GEMV_FAST marlin exllama ipex llm-awq")) {
        out->wrong = "a \"version\" that is none of AWQ";
    } else if (!out->along_rows && !vc_is_one_of(version, "gemm GEMM")) {
        out->unread =
            "is codes of AWQ in another order than those of the versions gemm and gemv, which is not decoded here";
    }
    return true;
}

/* ---- reading ---- */

/* A weight, while its parts are looked at. */
struct words {
    const char *name; /* of the codes; its first n characters end in a dot */
    size_t n;
    size_t codes, scales, zeros, g_idx;
    uint64_t n_rows, row, n_groups, group;
    unsigned bits;
    bool awq;
    bool gemv; /* ... with words along the rows */
};

/* tensor: VC_NO_TENSOR, too. */
static bool is_i32(const struct vc_search *s, size_t tensor, unsigned n_dims)
{
    return tensor != VC_NO_TENSOR && s->model->tensors[tensor].dtype == VC_DTYPE_I32 &&
           s->model->tensors[tensor].n_dims == n_dims && vc_search_is_free(s, tensor);
}

static bool has_shape(const struct vc_search *s, size_t tensor, uint64_t a, uint64_t b)
{
    const struct vc_tensor *t = &s->model->tensors[tensor];

    return t->n_dims == 2 && t->shape[0] == a && t->shape[1] == b;
}

/* The module is a Conv1D: packers make a linear layer of it, and a model of floats has [in, out] there. */
static bool is_conv1d(const struct vc_search *s, const struct words *w)
{
    (void)vc_search_find(s, w->name, w->n, "weight");
    return s->hint.conv1d && vc_name_is_conv1d(s->buffer);
}

/* The rows and columns of the weight, by the words of its codes. */
static void find_size(const struct vc_tensor *t, struct words *w)
{
    uint64_t in_words = t->shape[w->gemv ? 1 : 0] * 32 / w->bits;

    w->row = w->awq && !w->gemv ? t->shape[0] : in_words;
    w->n_rows = w->gemv ? t->shape[0] : t->shape[1] * (w->awq ? 32 / w->bits : 1);
}

/* The parts, what the shapes say, and why that contradicts itself or the configuration; NULL: it does not. */
static const char *find_parts(const struct vc_search *s, struct words *w)
{
    const struct vc_tensor *t = &s->model->tensors[w->codes];

    w->scales = vc_search_find(s, w->name, w->n, "scales");
    w->zeros = vc_search_find(s, w->name, w->n, "qzeros");
    w->g_idx = vc_search_find(s, w->name, w->n, "g_idx");
    if (!is_i32(s, w->codes, 2) || t->n_elems == 0 || t->shape[0] > INT32_MAX || t->shape[1] > INT32_MAX) {
        return "is no matrix of i32";
    }
    if (!vc_search_is_floats(s, w->scales) || s->model->tensors[w->scales].n_dims != 2) {
        return "has no matrix 'scales' of f16, bf16 or f32 beside it";
    }
    if (!is_i32(s, w->zeros, 2)) {
        return "has no matrix 'qzeros' of i32 beside it";
    }
    if (!w->awq && (t->shape[0] * 32 % w->bits != 0 || (w->bits == 3 && t->shape[1] % 32 != 0))) {
        return "has words of i32 that are no whole number of codes";
    }
    find_size(t, w);
    if (w->row % 2 != 0) {
        return "has rows of an odd number of codes, which no size of a group divides";
    }
    w->group = s->hint.whole_rows ? w->row : s->hint.group_size;
    w->n_groups = vc_ceil_div_u64(w->row, w->group);
    if (!w->gemv && s->model->tensors[w->scales].shape[0] != w->n_groups) {
        return "has another number of scales in a row than the \"group_size\" of its configuration makes";
    }
    if (w->g_idx != VC_NO_TENSOR && (!is_i32(s, w->g_idx, 1) || s->model->tensors[w->g_idx].n_elems != w->row)) {
        return "has a g_idx that is not an i32 for each column";
    }
    return NULL;
}

static enum vc_status check_shapes(const struct vc_search *s, const struct words *w)
{
    const struct vc_tensor *tensors = s->model->tensors;
    uint64_t words = w->gemv ? tensors[w->zeros].shape[1] : vc_ceil_div_u64(w->n_rows * w->bits, 32);
    bool fits = w->gemv ? words >= vc_ceil_div_u64(w->n_groups, 8) && has_shape(s, w->zeros, w->n_rows, words) &&
                              words <= INT32_MAX && has_shape(s, w->scales, w->n_rows, 8 * words)
                        : has_shape(s, w->zeros, w->n_groups, words) && has_shape(s, w->scales, w->n_groups, w->n_rows);

    VC_REFUSE_IF(!fits, s->ctx, VC_E_FORMAT,
                 "%s: is a weight [%" PRIu64 ", %" PRIu64 "] of %u bits, which does not fit '%s' [%" PRIu64 ", %" PRIu64
                 "] and '%s' [%" PRIu64 ", %" PRIu64 "]",
                 w->name, w->n_rows, w->row, w->bits, tensors[w->scales].name, tensors[w->scales].shape[0],
                 tensors[w->scales].shape[1], tensors[w->zeros].name, tensors[w->zeros].shape[0],
                 tensors[w->zeros].shape[1]);
    return VC_OK;
}

/* *ordered: column k belongs to group k / size, for all of them. *inside: all groups are there. */
static enum vc_status check_order(const struct vc_search *s, const struct words *w, bool *ordered, bool *inside)
{
    unsigned char bytes[4 * CHUNK];
    uint64_t at = 0;

    *ordered = true;
    *inside = true;
    while (w->g_idx != VC_NO_TENSOR && at < w->row) {
        size_t n = (size_t)vc_min_u64(CHUNK, w->row - at);

        VC_CALL(vc_source_read_any(s->ctx, s->model, w->g_idx, VC_FORM_VALUES, 4 * at, bytes, 4 * n));
        for (size_t i = 0; i < n; i++) {
            *ordered = *ordered && vc_le32(bytes + 4 * i) == (at + i) / w->group;
            *inside = *inside && vc_le32(bytes + 4 * i) < w->n_groups;
        }
        at += n;
    }
    return VC_OK;
}

/* What is added to the stored zero points, so that codes without them have the sign of two's complement. */
static int zero_offset(const struct vc_search *s, const struct words *w)
{
    return (s->hint.zeros_less_one ? 1 : 0) - (1 << (w->bits - 1));
}

/* *symmetric: all zero points are 0; of gemv this is not asked. Fails for a stored 15 (3, 7, 255) that means one more:
 * packers wrap 0 to it, and with it other codes of the word; some loaders take it for 0, others for 16. */
static enum vc_status check_zeros(const struct vc_search *s, const struct words *w, bool *symmetric)
{
    const struct vc_tensor *t = &s->model->tensors[w->zeros];
    int middle = -zero_offset(s, w);
    unsigned mask = (1u << w->bits) - 1;
    unsigned char bytes[3 * CHUNK];

    *symmetric = !w->gemv;
    for (uint64_t at = 0; at < t->size_bytes && !w->gemv; at += sizeof bytes) {
        size_t n = (size_t)vc_min_u64(sizeof bytes, t->size_bytes - at);

        VC_CALL(vc_source_read_any(s->ctx, s->model, w->zeros, VC_FORM_VALUES, at, bytes, n));
        for (size_t bit = 0; bit < 8 * n; bit += w->bits) {
            unsigned high = bit % 8 + w->bits > 8 ? bytes[bit / 8 + 1] : 0;
            unsigned stored = (bytes[bit / 8] | high << 8) >> bit % 8 & mask;

            *symmetric = *symmetric && (int)stored == middle;
            VC_REFUSE_IF(s->hint.zeros_less_one && stored == mask, s->ctx, VC_E_UNSUPPORTED,
                         "%s: has the zero point %u, which its format cannot tell from 0", t->name, stored + 1);
        }
    }
    return VC_OK;
}

/* How codes, scales and zero points lie. */
static void find_packings(const struct vc_search *s, const struct words *w, struct vc_packed packed[3])
{
    const struct vc_packing *codes = w->awq ? &vc_packing_across : &vc_packing_columns;
    const struct vc_tensor *scales = &s->model->tensors[w->scales];
    unsigned bytes = (unsigned)vc_dtype_size(scales->dtype);
    uint64_t words = s->model->tensors[w->zeros].shape[1];

    packed[0] = (struct vc_packed){.packing = w->gemv ? &vc_packing_rows : codes,
                                   .bits = w->awq && !w->gemv ? 4 : 8,
                                   .turned = w->bits,
                                   .n_rows = w->n_rows,
                                   .row = w->row * w->bits / 8,
                                   .unit = 4,
                                   .across = VC_ACROSS_AWQ,
                                   .job_bits = w->awq && !w->gemv ? 4 : 0};
    packed[1] = (struct vc_packed){.packing = w->gemv ? &vc_packing_padded : &vc_packing_columns,
                                   .bits = 8,
                                   .n_rows = w->n_rows,
                                   .row = w->n_groups * bytes,
                                   .unit = bytes,
                                   .n_words = 2 * words * bytes};
    packed[2] = (struct vc_packed){.packing = w->gemv ? &vc_packing_padded : &vc_packing_across,
                                   .bits = w->bits,
                                   .n_rows = w->n_rows,
                                   .row = w->n_groups,
                                   .across = w->awq ? VC_ACROSS_AWQ : VC_ACROSS_ROWS,
                                   .add = zero_offset(s, w),
                                   .n_words = words};
}

/* Tells the model what they are. */
static enum vc_status attach(struct vc_search *s, const struct words *w, bool symmetric, bool ordered)
{
    bool rows = s->hint.whole_rows || w->group > w->row; /* not a group that is the row */
    struct vc_quant quant = {.scheme = vc_code_scheme_of_bits(w->bits),
                             .granularity = rows ? VC_GRANULARITY_CHANNEL : VC_GRANULARITY_GROUP,
                             .group_size = rows ? 0 : w->group,
                             .symmetric = symmetric,
                             .source_dtype = s->model->tensors[w->scales].dtype};
    struct vc_packed packed[3];

    find_packings(s, w, packed);
    vc_quant_set(&quant, VC_PART_SCALE, w->scales);
    vc_quant_set(&quant, VC_PART_ZERO_POINT, symmetric ? VC_NO_TENSOR : w->zeros);
    vc_quant_set(&quant, VC_PART_ORDER, ordered ? VC_NO_TENSOR : w->g_idx);
    VC_CALL(vc_search_attach_packed(s, w->codes, &quant, &packed[0], w->n));
    s->out->found[w->codes].tail = "weight";
    VC_CALL(vc_search_show_part(s, w->scales, s->model->tensors[w->scales].dtype, &packed[1]));
    s->model->tensors[w->zeros].part_of = w->codes;
    if (!symmetric) {
        VC_CALL(vc_search_show_part(s, w->zeros, VC_DTYPE_I8, &packed[2]));
    }
    if (w->g_idx != VC_NO_TENSOR) {
        s->model->tensors[w->g_idx].part_of = w->codes;
    }
    return VC_OK;
}

/* Why codes that contradict nothing are not read here; NULL: they are. */
static const char *not_read(const struct vc_search *s, const struct words *w)
{
    if (s->hint.unread != NULL) {
        return s->hint.unread;
    }
    return is_conv1d(s, w) ? "is codes of a Conv1D, whose matrix is turned, which are not decoded here" : NULL;
}

/* Whether the tensor is codes of the dialect; fills the first members of *w. */
static enum vc_status is_words(struct vc_search *s, size_t codes, enum vc_words words, struct words *w, bool *is)
{
    static const char tail[] = ".qweight";
    const struct vc_tensor *t = &s->model->tensors[codes];
    size_t n = strlen(t->name);

    *w = (struct words){.name = t->name, .n = n - (sizeof tail - 2), .codes = codes, .awq = words == VC_WORDS_AWQ};
    *is = n >= sizeof tail && strcmp(t->name + n - (sizeof tail - 1), tail) == 0 && vc_search_is_free(s, codes);
    if (*is) {
        VC_CALL(vc_search_hint(s));
    }
    *is = *is && s->hint.words == words;
    w->bits = (unsigned)vc_min_u64(s->hint.num_bits, 64);
    w->gemv = w->awq && s->hint.along_rows;
    return VC_OK;
}

static enum vc_status find_words(struct vc_search *s, size_t codes, enum vc_words words, bool *found)
{
    struct words w;
    bool ordered, inside, is, symmetric;

    VC_CALL(is_words(s, codes, words, &w, &is));
    if (!is) {
        return VC_OK;
    }
    VC_RETURN_IF(s->hint.wrong != NULL, vc_search_refuse(s, codes, VC_SEVERITY_ERROR,
                                                         "cannot be decoded: its configuration has %s", s->hint.wrong));
    if (w.bits != 4 && (w.awq || (w.bits != 2 && w.bits != 3 && w.bits != 8))) {
        return vc_search_refuse(s, codes, VC_SEVERITY_ERROR, "cannot be decoded: its configuration says %u bits",
                                w.bits);
    }
    if (vc_search_has(s, w.name, w.n, "weight")) {
        return vc_search_refuse(s, codes, VC_SEVERITY_ERROR, "is there twice: the same module has a '%s'", s->buffer);
    }
    const char *why = find_parts(s, &w);
    if (why != NULL && s->hint.unread == NULL) {
        return vc_search_refuse(s, codes, VC_SEVERITY_ERROR, "cannot be decoded: it %s", why);
    }
    why = not_read(s, &w);
    VC_RETURN_IF(why != NULL, vc_search_refuse(s, codes, VC_SEVERITY_WARNING, "%s", why));
    VC_CALL(check_shapes(s, &w));
    VC_CALL(check_order(s, &w, &ordered, &inside));
    if (!inside) {
        return vc_search_refuse(s, codes, VC_SEVERITY_ERROR,
                                "cannot be decoded: its g_idx has a group beyond the %" PRIu64 " of its scales",
                                w.n_groups);
    }
    VC_CALL(check_zeros(s, &w, &symmetric));
    VC_CALL(attach(s, &w, symmetric, ordered));
    *found = true;
    return VC_OK;
}

enum vc_status vc_gptq_find(struct vc_search *s, size_t codes, bool *found)
{
    return find_words(s, codes, VC_WORDS_GPTQ, found);
}

enum vc_status vc_awq_find(struct vc_search *s, size_t codes, bool *found)
{
    return find_words(s, codes, VC_WORDS_AWQ, found);
}
