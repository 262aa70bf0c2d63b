/* compressed_tensors_read.c - finds weights of compressed-tensors in a model. Shown as the tensor m.weight:
 *
 *     pack-quantized        m.weight_packed I32 [out, words], m.weight_scale, m.weight_shape,    i2 .. i8 [out, in]
 *                           perhaps m.weight_zero_point I32 [words, groups]
 *     nvfp4-pack-quantized  m.weight_packed U8 [out, in/2], m.weight_scale F8_E4M3 [out, in/16],
 *                           m.weight_global_scale F32 [1]                                        f4_e2m1 [out, in]
 *     mxfp4-pack-quantized  m.weight_packed U8 [out, in/2], m.weight_scale U8 [out, in/32]       f4_e2m1 [out, in]
 *     float-quantized       m.weight F8_E4M3 [out, in], m.weight_scale [out, 1] or [1]           f8_e4m3 [out, in]
 *     mxfp8-quantized       m.weight F8_E4M3 [out, in], m.weight_scale U8 [out, in/32]           f8_e4m3 [out, in]
 *     int-quantized         m.weight I8 [out, in], m.weight_scale, perhaps m.weight_zero_point: read, not written
 *
 * What is not certain stays the plain tensors it is: a part that is missing (it may lie in another shard) or of another
 * type, 1 or 7 bits, int4 rows of an odd length. Parts that are all there and contradict each other are
 * damage, and so is a module with two weights. */

#include "core/model/code_schemes.h"
#include "formats/dialects/compressed_tensors.h"
#include "formats/dialects/manifest/manifest_internal.h"

/* What transformers makes of mxfp8, mxfp4 and nvfp4, whose scales do not tell what the weights were. */
#define MADE_BY_LOADERS VC_DTYPE_BF16

/* One packed weight, while it is looked at. */
struct looking {
    size_t codes, scale, shape, zero;
    uint64_t n_rows, row;
    struct vc_quant quant;
};

static bool is_scale_type(enum vc_dtype dtype)
{
    return dtype == VC_DTYPE_F32 || dtype == VC_DTYPE_F16 || dtype == VC_DTYPE_BF16;
}

/* ---- packed ---- */

/* The scheme of so many bits; NONE if there is none, or older tools may have packed such a row, or it is not whole bytes.
 * Dense: codes follow each other across words. Older tools left the bits behind the last whole code of a word free: 10
 * codes of 3 bits in 32. */
static enum vc_scheme scheme_of_bits(unsigned bits, uint64_t row, uint64_t n_words)
{
    bool dense = n_words == row / 32 * bits + vc_ceil_div_u64(row % 32 * bits, 32);
    bool older = n_words == vc_ceil_div_u64(row, 32 / bits) && 32 % bits != 0;

    return dense && !older && row % 8 * bits % 8 == 0 ? vc_code_scheme_of_bits(bits) : VC_SCHEME_NONE;
}

/* The scheme whose rows of codes fill so many words; where several do, the one that the configuration names. NONE if
 * neither decides. A row of 64 elements in 8 words has 4 bits; a row of 4 elements in 1 word may have any
 * number up to 8. 8 bits that the row is too long for 4 are sure. */
static enum vc_status find_scheme(struct vc_search *s, uint64_t row, uint64_t n_words, enum vc_scheme *scheme)
{
    bool fits[9] = {false};
    unsigned found = 0;
    unsigned n = 0;

    *scheme = VC_SCHEME_NONE;
    for (unsigned bits = 8; bits != 0 && row != 0; bits--) {
        fits[bits] = vc_packing_words_fit(row, bits, n_words);
        n += fits[bits];
        found = fits[bits] && found == 0 ? bits : found;
    }
    VC_CALL(vc_search_hint(s));
    if (s->hint.num_bits != 0 || (n > 1 && !(found == 8 && !fits[4]))) {
        found = s->hint.num_bits <= 8 && fits[s->hint.num_bits] ? (unsigned)s->hint.num_bits : 0;
    }
    *scheme = found != 0 ? scheme_of_bits(found, row, n_words) : VC_SCHEME_NONE;
    return VC_OK;
}

/* The shape that the values of m.weight_shape state, against the packed array. *scheme: what the codes are. */
static enum vc_status check_shape(struct vc_search *s, struct looking *l, enum vc_scheme *scheme)
{
    const struct vc_tensor *codes = &s->model->tensors[l->codes];
    unsigned char stated[16];
    unsigned bits = 1;

    *scheme = VC_SCHEME_NONE;
    VC_CALL(vc_source_read_any(s->ctx, s->model, l->shape, VC_FORM_VALUES, 0, stated, sizeof stated));
    l->n_rows = vc_le64(stated);
    l->row = vc_le64(stated + 8);
    while (bits <= 8 && l->row <= INT64_MAX && !vc_packing_words_fit(l->row, bits, codes->shape[1])) {
        bits++;
    }
    VC_REFUSE_IF(l->n_rows != codes->shape[0] || l->row > INT64_MAX || bits > 8, s->ctx, VC_E_FORMAT,
                 "%s: has shape [%" PRIu64 ", %" PRIu64 "], which does not fit [%" PRId64 ", %" PRId64
                 "], the values of '%s'",
                 codes->name, codes->shape[0], codes->shape[1], (int64_t)l->n_rows, (int64_t)l->row,
                 s->model->tensors[l->shape].name);
    return find_scheme(s, l->row, codes->shape[1], scheme);
}

/* Why the parts are not those that such codes have; NULL: they are. */
static const char *wrong_parts(const struct vc_search *s, const struct looking *l, size_t n_name)
{
    const struct vc_tensor *tensors = s->model->tensors;
    const struct vc_tensor *t = &tensors[l->codes];

    if (t->dtype != VC_DTYPE_I32 || t->n_dims != 2) {
        return "is no matrix of i32";
    }
    if (l->scale == VC_NO_TENSOR || !is_scale_type(tensors[l->scale].dtype)) {
        return "has no scales of f16, bf16 or f32 beside it";
    }
    if (l->shape == VC_NO_TENSOR || tensors[l->shape].dtype != VC_DTYPE_I64 || tensors[l->shape].n_elems != 2) {
        return "has no weight_shape of two i64 beside it";
    }
    if (l->zero != VC_NO_TENSOR && (tensors[l->zero].dtype != VC_DTYPE_I32 || tensors[l->zero].n_dims != 2)) {
        return "has zero points that are no matrix of i32";
    }
    return vc_search_has(s, t->name, n_name, "_global_scale") ? "has a global scale, which packed integers do not have"
                                                              : NULL;
}

/* Zero points are packed down the columns: a word has those of several rows. */
static enum vc_status attach_zeros(struct vc_search *s, const struct looking *l)
{
    const struct vc_tensor *t = &s->model->tensors[l->zero];
    const struct vc_tensor *scale = &s->model->tensors[l->scale];
    struct vc_packed packed = vc_ct_packed_zeros(l->quant.scheme, l->n_rows, scale->n_dims == 2 ? scale->shape[1] : 1);
    uint64_t n_bytes;

    VC_REFUSE_IF(!packed.packing->size(&packed, &n_bytes) || t->size_bytes != n_bytes || t->shape[1] != packed.row,
                 s->ctx, VC_E_FORMAT, "%s: its zero points '%s' are not %" PRIu64 " for each of %" PRIu64 " rows",
                 s->model->tensors[l->codes].name, t->name, packed.row, l->n_rows);
    return vc_search_show_part(s, l->zero, VC_DTYPE_I8, &packed);
}

/* n_name: length of the name of the weight, at the start of that of the codes. *found: all parts are there and fit,
 * l->quant is filled. What may lie in another shard is left alone; what contradicts itself is refused. */
static enum vc_status look_at(struct vc_search *s, struct looking *l, size_t n_name, bool *found)
{
    const struct vc_tensor *t = &s->model->tensors[l->codes];
    enum vc_scheme scheme = VC_SCHEME_NONE;
    enum vc_status status = VC_OK;

    if (vc_search_has(s, t->name, n_name, "")) {
        status = vc_fail(s->ctx, VC_E_FORMAT, "%s: the same module has a '%s', too", t->name, s->buffer);
        return vc_collect(s->ctx, status, "twice", t->name);
    }
    l->scale = vc_search_find(s, t->name, n_name, "_scale");
    l->shape = vc_search_find(s, t->name, n_name, "_shape");
    l->zero = vc_search_find(s, t->name, n_name, "_zero_point");
    const char *why = wrong_parts(s, l, n_name);
    if (why != NULL) { /* a part that is missing may lie in another shard: check_names.c tells */
        bool missing = l->scale == VC_NO_TENSOR || l->shape == VC_NO_TENSOR;

        return missing ? VC_OK : vc_search_refuse(s, l->codes, VC_SEVERITY_ERROR, "cannot be decoded: it %s", why);
    }
    if (vc_search_has(s, t->name, n_name, "_g_idx")) {
        return vc_search_refuse(s, l->codes, VC_SEVERITY_WARNING,
                                "is codes with groups in an order of their own (weight_g_idx), which are not decoded "
                                "here");
    }
    VC_CALL(check_shape(s, l, &scheme));
    if (scheme == VC_SCHEME_NONE) {
        return vc_search_refuse(s, l->codes, s->hint.num_bits != 0 ? VC_SEVERITY_ERROR : VC_SEVERITY_WARNING,
                                "cannot be decoded: %" PRIu64 " words for a row of %" PRIu64
                                " are codes of 2, 3, 4, 5, 6 or 8 bits in whole bytes only where its configuration "
                                "says a number of bits that fits",
                                t->shape[1], l->row);
    }
    l->quant = (struct vc_quant){
        .scheme = scheme, .symmetric = l->zero == VC_NO_TENSOR, .source_dtype = s->model->tensors[l->scale].dtype};
    vc_quant_set(&l->quant, VC_PART_SCALE, l->scale);
    vc_quant_set(&l->quant, VC_PART_ZERO_POINT, l->zero);
    VC_CALL(vc_search_granularity(s, &s->model->tensors[l->scale], l->n_rows, l->row, &l->quant, found));
    if (!*found && l->quant.granularity == VC_GRANULARITY_GROUP) {
        return vc_search_refuse(s, l->codes, VC_SEVERITY_ERROR,
                                "cannot be decoded: its scales '%s' do not tell the size of a group, and its "
                                "configuration does not say one that fits",
                                s->model->tensors[l->scale].name);
    }
    VC_REFUSE_IF(!*found, s->ctx, VC_E_FORMAT, "%s: its scales '%s' fit neither %" PRIu64 " rows nor groups of them",
                 t->name, s->model->tensors[l->scale].name, l->n_rows);
    return VC_OK;
}

/* ---- packed floats ---- */

/* The scheme that the types of the parts mean; NONE: none, or a part is missing. */
static enum vc_scheme scheme_of_parts(const struct vc_search *s, size_t scale, size_t global)
{
    const struct vc_tensor *tensors = s->model->tensors;

    if (scale == VC_NO_TENSOR || tensors[scale].n_dims != 2) {
        return VC_SCHEME_NONE;
    }
    if (tensors[scale].dtype == VC_DTYPE_F8_E4M3) {
        return global != VC_NO_TENSOR && tensors[global].dtype == VC_DTYPE_F32 && tensors[global].n_elems == 1
                   ? VC_SCHEME_NVFP4
                   : VC_SCHEME_NONE;
    }
    return global == VC_NO_TENSOR && (tensors[scale].dtype == VC_DTYPE_U8 || tensors[scale].dtype == VC_DTYPE_F8_E8M0)
               ? VC_SCHEME_MXFP4
               : VC_SCHEME_NONE;
}

/* Also for ModelOpt's nvfp4, whose codes are called "weight" (not renamed) and whose global scale multiplies. */
enum vc_status vc_ct_find_packed_floats(struct vc_search *s, size_t codes, size_t n_name, const char *global_tail,
                                        bool *found)
{
    const struct vc_tensor *t = &s->model->tensors[codes];
    size_t scale = vc_search_find(s, t->name, n_name, "_scale");
    size_t global = vc_search_find(s, t->name, n_name, global_tail);
    enum vc_scheme scheme = scheme_of_parts(s, scale, global);
    bool renamed = t->name[n_name] != '\0';
    struct vc_quant quant = {.scheme = scheme,
                             .granularity = VC_GRANULARITY_GROUP,
                             .symmetric = true,
                             .source_dtype = MADE_BY_LOADERS,
                             .global_multiplies = !renamed && global != VC_NO_TENSOR};

    if (scale == VC_NO_TENSOR) { /* it may lie in another shard */
        return VC_OK;
    }
    if (scheme == VC_SCHEME_NONE || t->n_dims != 2 || t->shape[1] > INT64_MAX) {
        return vc_search_refuse(s, codes, VC_SEVERITY_ERROR,
                                "cannot be decoded: it is no matrix, or its scales '%s' and its global scale are not "
                                "those of nvfp4 or mxfp4",
                                s->model->tensors[scale].name);
    }
    if (renamed && vc_search_has(s, t->name, n_name, "")) {
        return VC_OK;
    }
    const struct vc_tensor *scales = &s->model->tensors[scale];
    struct vc_packed packed = (struct vc_packed){.bits = 8, .n_rows = t->shape[0], .row = t->shape[1]};
    quant.group_size = vc_code_scheme(scheme)->group;
    VC_REFUSE_IF(scales->shape[0] != packed.n_rows ||
                     scales->shape[1] != vc_ceil_div_u64(2 * packed.row, quant.group_size),
                 s->ctx, VC_E_FORMAT,
                 "%s: has shape [%" PRIu64 ", %" PRIu64 "], and its scales '%s' [%" PRIu64 ", %" PRIu64
                 "], which are not one for %" PRIu64 " codes of %s",
                 t->name, t->shape[0], t->shape[1], scales->name, scales->shape[0], scales->shape[1], quant.group_size,
                 vc_scheme_name(scheme));
    vc_quant_set(&quant, VC_PART_SCALE, scale);
    vc_quant_set(&quant, VC_PART_GLOBAL_SCALE, global);
    *found = true;
    return vc_search_attach_packed(s, codes, &quant, &packed, renamed ? n_name : 0);
}

static bool is_packed_name(const char *name)
{
    size_t n = strlen(name);
    size_t k = strlen(VC_CT_PACKED);

    return n >= k && strcmp(name + n - k, VC_CT_PACKED) == 0 && (n == k || name[n - k - 1] == '.');
}

/* vc_dialect_file.find_packed: words of whole numbers, or bytes of two floats each. */
enum vc_status vc_ct_find_packed(struct vc_search *s, size_t tensor, bool *found)
{
    struct looking l = {.codes = tensor};

    if (!is_packed_name(s->model->tensors[tensor].name)) {
        return VC_OK;
    }
    size_t n_name = strlen(s->model->tensors[tensor].name) - strlen("_packed");
    if (s->model->tensors[tensor].dtype == VC_DTYPE_U8) {
        return vc_ct_find_packed_floats(s, tensor, n_name, "_global_scale", found);
    }
    VC_CALL(look_at(s, &l, n_name, found));
    if (*found) {
        struct vc_packed packed = vc_ct_packed(l.quant.scheme, l.n_rows, l.row);
        VC_CALL(vc_search_attach_packed(s, tensor, &l.quant, &packed, n_name));
        s->model->tensors[l.shape].part_of = tensor;
        if (l.zero != VC_NO_TENSOR) {
            VC_CALL(attach_zeros(s, &l));
        }
    }
    return VC_OK;
}

/* ---- plain codes with scales ---- */

void vc_ct_claim_inputs(const struct vc_search *s, size_t codes, size_t n_stem)
{
    vc_search_claim(s, codes, s->model->tensors[codes].name, n_stem,
                    "input_scale input_zero_point output_scale output_zero_point");
}

/* A byte for 32 codes of a row. */
static bool is_mx_scale(const struct vc_tensor *codes, const struct vc_tensor *scale)
{
    return (scale->dtype == VC_DTYPE_U8 || scale->dtype == VC_DTYPE_F8_E8M0) && scale->n_dims == 2 &&
           scale->shape[0] == codes->shape[0] && scale->shape[1] == vc_ceil_div_u64(codes->shape[1], 32);
}

/* Zero points that are there have to be of the type of the codes and the shape of the scales. */
static bool is_zero_point(const struct vc_search *s, size_t zero, size_t scale)
{
    return s->model->tensors[zero].dtype == VC_DTYPE_I8 && vc_search_is_free(s, zero) &&
           vc_manifest_same_shape(&s->model->tensors[scale], &s->model->tensors[zero]);
}

/* Why scales and zero points are not those of such codes; NULL: they are. */
static const char *wrong_codes(const struct vc_search *s, size_t codes, enum vc_scheme scheme, size_t scale,
                               size_t zero)
{
    if (!vc_code_scheme_takes_scale(vc_code_scheme(scheme), s->model->tensors[scale].dtype)) {
        return "its scales are of a type that such codes do not have";
    }
    if (zero != VC_NO_TENSOR && s->model->tensors[codes].dtype == VC_DTYPE_F8_E4M3) {
        return "codes of fp8 have no zero points";
    }
    return zero != VC_NO_TENSOR && !is_zero_point(s, zero, scale)
               ? "its zero points are not of the type of the codes and the shape of the scales"
               : NULL;
}

/* vc_dialect_file.find_codes: i8 and f8_e4m3 that lie as they are, with "weight_scale". */
enum vc_status vc_ct_find_codes(struct vc_search *s, size_t codes, bool *found)
{
    const struct vc_tensor *t = &s->model->tensors[codes];
    bool floats = t->dtype == VC_DTYPE_F8_E4M3;
    struct vc_quant quant = {.scheme = floats ? VC_SCHEME_FP8 : VC_SCHEME_INT8};
    size_t n, n_stem, scale, zero;

    if (!vc_search_is_codes(s, codes, &n_stem)) {
        return VC_OK;
    }
    n = strlen(t->name);
    scale = vc_search_find(s, t->name, n, "_scale");
    zero = vc_search_find(s, t->name, n, "_zero_point");
    if (floats && scale != VC_NO_TENSOR && is_mx_scale(t, &s->model->tensors[scale])) {
        quant.scheme = VC_SCHEME_MXFP8;
    }
    if (scale == VC_NO_TENSOR || !vc_search_is_free(s, scale)) {
        return VC_OK;
    }
    const char *why = wrong_codes(s, codes, quant.scheme, scale, zero);
    VC_RETURN_IF(why != NULL, vc_search_refuse(s, codes, VC_SEVERITY_ERROR, "cannot be decoded: %s", why));
    if (vc_search_has(s, t->name, n, "_g_idx")) {
        return vc_search_refuse(s, codes, VC_SEVERITY_WARNING,
                                "is codes with groups in an order of their own (weight_g_idx), which are not decoded "
                                "here");
    }
    quant.symmetric = zero == VC_NO_TENSOR;
    quant.source_dtype = quant.scheme == VC_SCHEME_MXFP8 ? MADE_BY_LOADERS : s->model->tensors[scale].dtype;
    vc_quant_set(&quant, VC_PART_SCALE, scale);
    vc_quant_set(&quant, VC_PART_ZERO_POINT, zero);
    VC_CALL(vc_search_granularity(s, &s->model->tensors[scale], t->shape[0], t->shape[1], &quant, found));
    if (!*found) {
        return vc_search_refuse(s, codes, VC_SEVERITY_ERROR,
                                "cannot be decoded: the shape of its scales '%s' fits neither its rows nor groups or "
                                "blocks of it",
                                s->model->tensors[scale].name);
    }
    VC_CALL(vc_search_attach(s, codes, &quant, floats));
    vc_ct_claim_inputs(s, codes, n_stem);
    return VC_OK;
}
