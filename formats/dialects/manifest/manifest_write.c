/* manifest_write.c - vcompress.json for a list of outputs. Keys in a fixed order, one tensor a line.
 *
 * The text depends on the outputs and the recipe alone, so that equal jobs write equal bytes. manifest.c reads it. */

#include "core/model/code_schemes.h"
#include "formats/dialects/manifest/manifest.h"

static bool is_bf16(const struct vc_out_tensor *t)
{
    return t->dtype == VC_DTYPE_BF16;
}

/* What goes into the manifest. */
struct selection {
    const struct vc_out_list *outs;
    bool with_bf16;
    const bool *told;
    const char *const *names; /* in the file; NULL: those of the outputs */
};

/* Containers may store an output under another name, "w.int8" for example. */
static const char *name_of(const struct selection *s, size_t out)
{
    return s->names != NULL ? s->names[out] : vc_out_at(s->outs, out).name;
}

/* told: a dialect's configuration, or the name, says how the codes are to be read. */
static bool has_entry(const struct selection *s, size_t i)
{
    const struct vc_out_tensor t = vc_out_at(s->outs, i);
    bool told = s->told != NULL && s->told[i];

    return (t.quant != NULL && !told) || (s->with_bf16 && is_bf16(&t));
}

static void add_string(struct vc_text *text, const char *key, const char *value)
{
    vc_text_add(text, ", \"%s\": ", key);
    vc_text_add_json_string(text, value);
}

/* Codes that are stored as bytes: the shape of the weight. */
static void add_shape(struct vc_text *text, const struct vc_out_tensor *t)
{
    vc_text_add(text, ", \"shape\": [");
    for (unsigned d = 0; d < t->n_dims; d++) {
        vc_text_add(text, "%s%" PRIu64, d == 0 ? "" : ", ", t->shape[d]);
    }
    vc_text_add(text, "]");
}

/* Members in a fixed order; axis, group_size and the others only where the granularity has them. */
static void add_quant(struct vc_text *text, const struct selection *s, const struct vc_out_tensor *t)
{
    const struct vc_quant *quant = t->quant;

    vc_text_add(text, "\"scheme\": \"%s\"", vc_scheme_name(quant->scheme));
    if (vc_code_scheme(quant->scheme)->array == VC_DTYPE_U8) {
        add_shape(text, t);
    }
    add_string(text, "granularity", vc_granularity_name(quant->granularity));
    if (quant->granularity == VC_GRANULARITY_CHANNEL) {
        vc_text_add(text, ", \"axis\": %u", quant->axis);
    }
    if (quant->granularity == VC_GRANULARITY_GROUP || quant->granularity == VC_GRANULARITY_BLOCK) {
        vc_text_add(text, ", \"group_size\": %" PRIu64, quant->group_size);
    }
    if (quant->granularity == VC_GRANULARITY_BLOCK) {
        vc_text_add(text, ", \"group_rows\": %" PRIu64, quant->group_rows);
    }
    vc_text_add(text, ", \"symmetric\": %s", quant->symmetric ? "true" : "false");
    add_string(text, "source_dtype", vc_dtype_name(quant->source_dtype));
    add_string(text, "scale", name_of(s, vc_quant_scale(quant)));
    if (vc_quant_find(quant, VC_PART_ABSMAX) != VC_NO_TENSOR) {
        vc_text_add(text, ", \"scale_is_absmax\": true");
    }
    if (vc_quant_find(quant, VC_PART_GLOBAL_SCALE) != VC_NO_TENSOR) {
        add_string(text, "global_scale", name_of(s, vc_quant_find(quant, VC_PART_GLOBAL_SCALE)));
        vc_text_add(text, "%s", quant->global_multiplies ? ", \"global_scale_multiplies\": true" : "");
    }
    if (!quant->symmetric) {
        add_string(text, "zero_point", name_of(s, vc_quant_find(quant, VC_PART_ZERO_POINT)));
    }
}

/* A line: name, then what the tensor is. */
static void add_entry(struct vc_text *text, const struct selection *s, size_t out)
{
    const struct vc_out_tensor t = vc_out_at(s->outs, out);

    vc_text_add(text, "    ");
    vc_text_add_json_string(text, name_of(s, out));
    vc_text_add(text, ": {");
    if (is_bf16(&t)) {
        vc_text_add(text, "\"dtype\": \"bf16\"");
        add_string(text, "source_dtype", vc_dtype_name(t.source_dtype));
    } else {
        add_quant(text, s, &t);
    }
    vc_text_add(text, "}");
}

/* Nothing is added where no output needs an entry: the file then has no manifest. Sizes of entries are bounded by the
 * limit of the reader. */
static enum vc_status write_entries(struct vc_ctx *ctx, const struct selection *s, struct vc_text *text)
{
    const struct vc_out_list *outs = s->outs;
    bool first = true;
    size_t i = 0;

    while (i < outs->n && !has_entry(s, i)) {
        i++;
    }
    for (size_t k = i; k < outs->n; k++) {
        const struct vc_out_tensor t = vc_out_at(outs, k);

        VC_REFUSE_IF(has_entry(s, k) && t.quant != NULL && t.quant->scale_group != 0, ctx, VC_E_UNSUPPORTED,
                     "%s: its scales are codes themselves (double quantization), which this layout does not "
                     "have; dequantize it first",
                     t.name);
    }
    if (i == outs->n) {
        return VC_OK;
    }
    vc_text_add(text, "{\n  \"schema\": \"%s\",\n  \"tool\": \"vcompress %s\",\n  \"options\": {", VC_MANIFEST_SCHEMA,
                vc_version());
    for (i = 0; i < outs->n_recipe; i++) {
        vc_text_add(text, "%s", i == 0 ? "" : ", ");
        vc_text_add_json_string(text, outs->recipe[i].key);
        vc_text_add(text, ": ");
        vc_text_add_json_string(text, outs->recipe[i].value);
    }
    vc_text_add(text, "},\n  \"tensors\": {\n");
    for (i = 0; i < outs->n; i++) {
        if (has_entry(s, i)) {
            vc_text_add(text, "%s", first ? "" : ",\n");
            add_entry(text, s, i);
            first = false;
        }
    }
    vc_text_add(text, "\n  }\n}\n");
    VC_REFUSE_IF(text->status == VC_OK && text->n > VC_MANIFEST_MAX_BYTES, ctx, VC_E_UNSUPPORTED,
                 "the manifest would have %zu bytes; %zu are allowed", text->n, VC_MANIFEST_MAX_BYTES);
    return text->status;
}

enum vc_status vc_manifest_write(struct vc_ctx *ctx, const struct vc_out_list *outs, struct vc_text *text)
{
    return write_entries(ctx, &(struct selection){outs, true, NULL, NULL}, text);
}

enum vc_status vc_manifest_write_quantized(struct vc_ctx *ctx, const struct vc_out_list *outs, const bool *told,
                                           const char *const *names, struct vc_text *text)
{
    return write_entries(ctx, &(struct selection){outs, false, told, names}, text);
}
