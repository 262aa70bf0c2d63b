/* bitsandbytes.c - the dialect of bitsandbytes, which transformers loads: its 8 bits (LLM.int8), and the rules of both
 * widths. bitsandbytes_4bit.c lays and finds the 4 bits.
 *
 *     m.weight         I8  [out, in]   codes
 *     m.SCB            F32 [out]       largest magnitude of each row: value = code * SCB / 127
 *     m.weight_format  U8  []          0: the codes lie row by row; other orders are not read
 *
 * GPT-2 and its kin have Conv1D in place of linear layers, with weights of [in, out]. bitsandbytes makes linear layers
 * of these, too, so codes are [out, in] in the file and [in, out] in a model.
 *
 *     "quantization_config": {"quant_method": "bitsandbytes", "load_in_8bit": true, "llm_int8_threshold": 6.0,
 *                             "llm_int8_skip_modules": ["lm_head"]} */
#include "formats/dialects/bitsandbytes.h"

#include "core/model/names.h"
#include "formats/dialects/linear_rules.h"
#include "formats/json/json_walk.h"

#define ABSMAX "SCB"
#define FORMAT "weight_format"

/* ---- rules ---- */

static bool is_int8(const struct vc_dialect_request *request)
{
    return strcmp(request->scheme, vc_scheme_name(VC_SCHEME_INT8)) == 0;
}

static enum vc_status bnb_check(struct vc_ctx *ctx, const struct vc_dialect_request *request)
{
    VC_REFUSE_IF(
        !is_int8(request) && (request->granularity != VC_GRANULARITY_GROUP || !vc_bnb_4bit_block(request->group_size)),
        ctx, VC_E_ARGUMENT, "the layout %s takes %s in blocks of 32, 64, 128, 256, 512, 1024, 2048 or 4096 (%s)",
        vc_dialect_bitsandbytes.name, request->scheme, vc_option(ctx, "granularity"));
    return vc_linear_check(ctx, &vc_dialect_bitsandbytes, request, !is_int8(request));
}

static const char *bnb_reason(const struct vc_dialect_request *request, const struct vc_dialect_tensor *tensor)
{
    if (tensor->n_dims == 2 && tensor->channel_axis == 1 && vc_name_is_conv1d(tensor->name)) {
        return is_int8(request) ? NULL : "Conv1D, whose blocks would lie across";
    }
    const char *reason = vc_linear_reason(request, tensor, VC_LOADS_BITSANDBYTES);
    if (reason == NULL && !is_int8(request) && tensor->shape[1] % request->group_size != 0) {
        return "rows are no multiple of the block";
    }
    return reason == NULL && vc_linear_is_expert(tensor->name) ? "experts that the loader joins" : reason;
}

static enum vc_dtype bnb_part_type(const struct vc_dialect_request *request, const struct vc_dialect_tensor *tensor,
                                   enum vc_part_role role, enum vc_dtype usual)
{
    if (!is_int8(request)) {
        return role == VC_PART_ABSMAX ? VC_DTYPE_RAW : usual;
    }
    if (role == VC_PART_SCALE) {
        return VC_DTYPE_RAW;
    }
    if (role == VC_PART_ABSMAX) {
        return VC_DTYPE_F32;
    }
    return usual;
}

/* ---- writing ---- */

static bool bnb_fits(const struct vc_out_tensor *codes)
{
    const struct vc_quant *quant = codes->quant;
    size_t n_path;

    if (quant->scheme != VC_SCHEME_INT8) {
        return vc_bnb_4bit_fits(codes);
    }
    return codes->n_dims == 2 && vc_name_is_module_weight(codes->name, &n_path) && quant->symmetric &&
           vc_quant_find(quant, VC_PART_ABSMAX) != VC_NO_TENSOR && quant->granularity == VC_GRANULARITY_CHANNEL;
}

static struct vc_packed turned(uint64_t n_rows, uint64_t row)
{
    return (struct vc_packed){.packing = &vc_packing_columns, .bits = 8, .n_rows = n_rows, .row = row};
}

/* Codes of [in, out] become [out, in]. Behind the maxima, as many as there are outputs, comes the constant that says
 * how the codes lie. */
static enum vc_status bnb_lay(struct vc_laying *l)
{
    static const unsigned char by_rows = 0;
    const uint64_t *shape = l->codes->shape;
    unsigned axis = l->codes->quant->axis;
    struct vc_laid part = {.dtype = l->part->dtype, .n_dims = 2, .n_bytes = l->part->size_bytes};

    if (l->codes->quant->scheme != VC_SCHEME_INT8) {
        return vc_bnb_4bit_lay(l);
    }
    l->n = 0;
    if (l->role == VC_PART_CODES) {
        part.packed = axis == 0 ? part.packed : turned(shape[0], shape[1]);
        return vc_dialect_lay(l, NULL, part, shape[axis], shape[1 - axis]);
    }
    part.n_dims = 1;
    VC_CALL(vc_dialect_lay(l, ABSMAX, part, shape[axis], 0));
    part = (struct vc_laid){.dtype = VC_DTYPE_U8, .shape = shape, .n_bytes = 1, .constant = &by_rows};
    return vc_dialect_lay(l, FORMAT, part, 0, 0);
}

/* ---- the configuration ---- */

/* A configuration has one width, and of 4 bits one kind of values. */
static enum vc_status bnb_check_weights(struct vc_ctx *ctx, const struct vc_config_weights *weights)
{
    for (size_t i = 1; i < weights->n_groups; i++) {
        VC_REFUSE_IF(weights->groups[i].scheme != weights->groups[0].scheme, ctx, VC_E_UNSUPPORTED,
                     "the layout %s cannot say that some weights are %s and some are %s; %s plain can",
                     vc_dialect_bitsandbytes.name, vc_scheme_name(weights->groups[0].scheme),
                     vc_scheme_name(weights->groups[i].scheme), vc_option(ctx, "layout"));
    }
    return vc_config_check_names(ctx, weights);
}

static void bnb_write_config(const struct vc_config_weights *weights, struct vc_text *text)
{
    if (weights->n_groups != 0 && weights->groups[0].scheme != VC_SCHEME_INT8) {
        vc_bnb_4bit_write_config(weights, text);
    } else {
        vc_text_add(text, "{\n    \"quant_method\": \"bitsandbytes\",\n    \"load_in_8bit\": true,\n"
                          "    \"llm_int8_threshold\": 6.0,\n");
    }
    vc_text_add(text, "    \"llm_int8_skip_modules\": ");
    if (vc_config_ignores_heads_only(weights)) {
        vc_text_add(text, "null"); /* the loader finds the head itself, tied or not */
    } else {
        vc_config_add_ignored(weights, VC_NAMES_ENDS, text);
    }
    vc_text_add(text, "\n  }");
}

static bool bnb_owns_config(const struct json_t *config)
{
    return vc_json_says(config, "quant_method", "bitsandbytes") &&
           (json_is_true(json_object_get(config, "load_in_8bit")) || vc_bnb_4bit_owns_config(config));
}

/* ---- reading ---- */

/* *by_rows: the order of the codes is the one that is read. */
static enum vc_status read_format(const struct vc_search *s, size_t format, bool *by_rows)
{
    const struct vc_tensor *t = &s->model->tensors[format];
    unsigned char order = 0;

    *by_rows = false;
    if (t->dtype == VC_DTYPE_U8 && t->n_elems == 1) {
        VC_CALL(vc_source_read_any(s->ctx, s->model, format, VC_FORM_VALUES, 0, &order, 1));
        *by_rows = order == 0;
    }
    return VC_OK;
}

/* Codes of a Conv1D are shown as it has them: [in, out]. */
static enum vc_status attach(struct vc_search *s, size_t codes, struct vc_quant *quant)
{
    const struct vc_tensor *t = &s->model->tensors[codes];
    bool conv1d = vc_name_is_conv1d(t->name);

    if (conv1d) {
        VC_CALL(vc_search_hint(s));
    }
    if (!conv1d || !s->hint.conv1d) {
        return vc_search_attach(s, codes, quant, true);
    }
    struct vc_packed packed = turned(t->shape[1], t->shape[0]);
    quant->axis = 1;
    return vc_search_attach_packed(s, codes, quant, &packed, 0);
}

static enum vc_status bnb_find_codes(struct vc_search *s, size_t codes, bool *found)
{
    const struct vc_tensor *t = &s->model->tensors[codes];
    struct vc_quant quant = {.scheme = VC_SCHEME_INT8,
                             .granularity = VC_GRANULARITY_CHANNEL,
                             .symmetric = true,
                             .source_dtype = VC_DTYPE_F32};
    size_t at, format, n_stem;
    bool by_rows = true;

    if (t->dtype != VC_DTYPE_I8 || !vc_search_is_codes(s, codes, &n_stem)) {
        return VC_OK;
    }
    at = vc_search_find(s, t->name, n_stem, ABSMAX);
    format = vc_search_find(s, t->name, n_stem, FORMAT);
    if (at == VC_NO_TENSOR || s->model->tensors[at].dtype != VC_DTYPE_F32 || !vc_search_is_free(s, at)) {
        return VC_OK;
    }
    if (format != VC_NO_TENSOR) {
        VC_CALL(read_format(s, format, &by_rows));
    }
    if (!by_rows) {
        return VC_OK;
    }
    const struct vc_tensor *absmax = &s->model->tensors[at];
    VC_REFUSE_IF(absmax->n_dims != 1 || absmax->n_elems != t->shape[0], s->ctx, VC_E_FORMAT,
                 "%s: has %" PRIu64 " rows, but '%s' has %" PRIu64 " numbers", t->name, t->shape[0], absmax->name,
                 absmax->n_elems);
    vc_quant_set(&quant, VC_PART_ABSMAX, at);
    VC_CALL(attach(s, codes, &quant));
    if (format != VC_NO_TENSOR) {
        s->model->tensors[format].part_of = codes;
    }
    *found = true;
    return VC_OK;
}

/* ---- the row ---- */

static const struct vc_dialect_file bnb_file = {.fits = bnb_fits,
                                                .loads = VC_LOADS_BITSANDBYTES,
                                                .lay = bnb_lay,
                                                .takes_conv1d = true,
                                                .casts_nothing = true,
                                                .check_weights = bnb_check_weights,
                                                .write_config = bnb_write_config,
                                                .owns_config = bnb_owns_config,
                                                .find_packed = vc_bnb_4bit_find,
                                                .find_codes = bnb_find_codes};

const struct vc_dialect vc_dialect_bitsandbytes = {
    .name = VC_LAYOUT_BITSANDBYTES,
    .schemes = (const char *const[]){"int8", "nf4", "fp4", NULL},
    .is_choice = true,
    .takes_codes = true,
    .coded_scales = true,
    .check = bnb_check,
    .reason = bnb_reason,
    .part_type = bnb_part_type,
    .loader = {.program = "transformers", .tried = VC_TRIED_TRANSFORMERS ", bitsandbytes 0.50.2"},
    .file = &bnb_file};
