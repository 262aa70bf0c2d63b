/* inspect_json.c - what is in a checkpoint as one JSON document, schema vcompress.inspect/1 (inspect-1.schema.json). */
#include <vcompress/inspect.h>

#include "core/model/code_schemes.h"
#include "report/document_parts.h"

static const char *name_of(const struct vc_model *model, size_t index)
{
    return index == VC_NO_TENSOR ? NULL : vc_model_tensor(model, index)->name;
}

/* How codes become values: what parts they have, under which names. */
static void write_quant(struct vc_json *json, const struct vc_model *model, const struct vc_quant *quant)
{
    if (quant == NULL) {
        vc_json_null(json, "quant");
        return;
    }
    vc_json_begin(json, "quant", '{', true);
    vc_json_string(json, "scheme", vc_scheme_name(quant->scheme));
    vc_json_string(json, "granularity", vc_granularity_name(quant->granularity));
    vc_json_uint(json, "axis", quant->axis);
    vc_json_uint(json, "group_size",
                 quant->granularity == VC_GRANULARITY_GROUP || quant->granularity == VC_GRANULARITY_BLOCK
                     ? quant->group_size
                     : 0);
    vc_json_uint(json, "group_rows", quant->group_rows);
    vc_json_bool(json, "symmetric", quant->symmetric);
    vc_json_string(json, "source_dtype", vc_dtype_name(quant->source_dtype));
    vc_json_string(json, "scale", name_of(model, vc_quant_scale(quant)));
    vc_json_string(json, "zero_point", name_of(model, vc_quant_find(quant, VC_PART_ZERO_POINT)));
    vc_json_bool(json, "scale_is_absmax", vc_quant_find(quant, VC_PART_ABSMAX) != VC_NO_TENSOR);
    vc_json_end(json, '}');
}

static void write_parts(struct vc_json *json, const struct vc_model *model)
{
    vc_json_begin(json, "parts", '[', false);
    for (size_t i = 0; i < vc_model_part_count(model); i++) {
        const struct vc_part *part = vc_model_part(model, i);

        vc_json_begin(json, NULL, '{', true);
        vc_json_string(json, "name", part->name);
        vc_json_string(json, "what", part->what);
        vc_json_string(json, "role", vc_role_name(part->role));
        vc_json_bool(json, "chosen", part->chosen);
        vc_json_uint(json, "tensors", part->n_tensors);
        vc_json_uint(json, "bytes", part->size_bytes);
        vc_json_end(json, '}');
    }
    vc_json_end(json, ']');
}

static void write_stats(struct vc_json *json, const struct vc_value_stats *stats)
{
    size_t last = 0;

    if (stats == NULL || !stats->valid) {
        vc_json_null(json, "stats");
        return;
    }
    vc_json_begin(json, "stats", '{', true);
    vc_json_uint(json, "nans", stats->nans);
    vc_json_uint(json, "infs", stats->infs);
    vc_json_uint(json, "zeros", stats->zeros);
    vc_json_uint(json, "subnormals", stats->subnormals);
    vc_json_real(json, "min", stats->min);
    vc_json_real(json, "max", stats->max);
    vc_json_real(json, "absmax", stats->absmax);
    vc_json_real(json, "mean", stats->mean);
    vc_json_real(json, "rms", stats->rms);
    for (size_t i = 0; i < VC_HISTOGRAM_BINS; i++) {
        last = stats->histogram[i] != 0 ? i + 1 : last;
    }
    vc_json_begin(json, "histogram", '[', true); /* the zeros after the last bin that is not empty are left out */
    for (size_t i = 0; i < last; i++) {
        vc_json_uint(json, NULL, stats->histogram[i]);
    }
    vc_json_end(json, ']');
    vc_json_end(json, '}');
}

static void write_tensor(struct vc_json *json, const struct vc_inspection *in, size_t index)
{
    const struct vc_tensor *tensor = vc_model_tensor(in->model, index);
    struct vc_value_stats stats;

    vc_json_begin(json, NULL, '{', true);
    vc_json_string(json, "name", tensor->name);
    vc_json_string(json, "dtype", vc_dtype_name(tensor->dtype));
    vc_json_begin(json, "shape", '[', true);
    for (unsigned i = 0; i < tensor->n_dims; i++) {
        vc_json_uint(json, NULL, tensor->shape[i]);
    }
    vc_json_end(json, ']');
    vc_json_uint(json, "elements", tensor->n_elems);
    vc_json_uint(json, "bytes", tensor->size_bytes);
    vc_json_uint(json, "file_bytes", tensor->file_bytes);
    vc_json_bool(json, "compressed", tensor->compressed);
    vc_json_string(json, "companion_of", name_of(in->model, tensor->part_of));
    vc_json_string(json, "alias_of", name_of(in->model, tensor->alias_of));
    vc_json_string(json, "role", vc_role_name(tensor->role));
    vc_json_string(json, "kept_as", tensor->kept_as);
    write_quant(json, in->model, tensor->quant);
    write_stats(json, vc_inspect_get_stats(in, index, &stats) ? &stats : NULL);
    vc_json_end(json, '}');
}

static void write_file(struct vc_json *json, const struct vc_inspection *in)
{
    vc_json_begin(json, "input", '{', true);
    vc_json_string(json, "path", vc_model_path(in->model));
    vc_json_string(json, "format", vc_model_format(in->model));
    vc_json_bool(json, "compressed", in->compressed);
    vc_json_uint(json, "file_bytes", vc_model_file_bytes(in->model));
    vc_json_end(json, '}');
}

static void write_facts(struct vc_json *json, const struct vc_model *model)
{
    const struct vc_fact *fact;

    vc_json_begin(json, "facts", '[', false);
    for (size_t i = 0; (fact = vc_model_fact(model, i)) != NULL; i++) {
        vc_json_begin(json, NULL, '{', true);
        vc_json_string(json, "key", fact->key);
        vc_json_string(json, "value", fact->value);
        vc_json_end(json, '}');
    }
    vc_json_end(json, ']');
}

static void write_totals(struct vc_json *json, const struct vc_inspection *in)
{
    vc_json_begin(json, "totals", '{', true);
    vc_json_uint(json, "tensors", in->n_own);
    vc_json_uint(json, "quantized", in->n_quantized);
    vc_json_uint(json, "parameters", in->n_params);
    vc_json_uint(json, "value_bytes", in->value_bytes);
    vc_json_end(json, '}');
    vc_json_begin(json, "dtypes", '[', false);
    for (size_t i = 0; i < in->n_dtypes; i++) {
        vc_json_begin(json, NULL, '{', true);
        vc_json_string(json, "dtype", vc_dtype_name(in->dtypes[i].dtype));
        vc_json_uint(json, "tensors", in->dtypes[i].n_tensors);
        vc_json_uint(json, "elements", in->dtypes[i].n_elems);
        vc_json_uint(json, "bytes", in->dtypes[i].size_bytes);
        vc_json_end(json, '}');
    }
    vc_json_end(json, ']');
    vc_json_begin(json, "estimates", '{', true);
    vc_json_known(json, "int8_file_bytes", in->int8_bytes);
    vc_json_known(json, "fp16_file_bytes", in->fp16_bytes);
    vc_json_end(json, '}');
}

enum vc_status vc_inspect_json(struct vc_ctx *ctx, const struct vc_inspection *in, char **out)
{
    struct vc_json json;
    struct vc_text text;

    vc_json_open(&json, &text, ctx, '{', "vcompress.inspect/1");
    write_file(&json, in);
    vc_write_layout(&json, vc_model_layout(in->model));
    write_facts(&json, in->model);
    write_parts(&json, in->model);
    write_totals(&json, in);
    vc_json_begin(&json, "tensors", '[', false);
    for (size_t i = 0; i < in->n_tensors; i++) {
        write_tensor(&json, in, i);
    }
    vc_json_end(&json, ']');
    vc_json_end(&json, '}');
    return vc_json_finish(&json, out);
}
