/* inspect_json.c - the document of vcompress inspect, schema vcompress.inspect/1 (inspect-1.schema.json). */
#include "tools/inspect.h"

static const char *granularity_name(enum vc_granularity granularity)
{
    switch (granularity) {
    case VC_GRANULARITY_TENSOR:
        return "tensor";
    case VC_GRANULARITY_CHANNEL:
        return "channel";
    case VC_GRANULARITY_GROUP:
        return "group";
    }
    return "tensor";
}

static const char *name_of(const struct vc_model *model, size_t index)
{
    return index == VC_NO_TENSOR ? NULL : vc_model_tensor(model, index)->name;
}

static void write_known(struct json *json, const char *key, uint64_t value)
{
    if (value == 0) {
        json_null(json, key);
    } else {
        json_uint(json, key, value);
    }
}

static void write_quant(struct json *json, const struct vc_model *model, const struct vc_quant *quant)
{
    if (quant == NULL) {
        json_null(json, "quant");
        return;
    }
    json_begin(json, "quant", '{', true);
    json_string(json, "scheme", "int8");
    json_string(json, "granularity", granularity_name(quant->granularity));
    json_uint(json, "axis", quant->axis);
    json_uint(json, "group_size", quant->granularity == VC_GRANULARITY_GROUP ? quant->group_size : 0);
    json_bool(json, "symmetric", quant->symmetric);
    json_string(json, "source_dtype", vc_dtype_name(quant->source_dtype));
    json_string(json, "scale", name_of(model, vc_quant_scale(quant)));
    json_string(json, "zero_point", name_of(model, vc_quant_find(quant, VC_PART_ZERO_POINT)));
    json_bool(json, "scale_is_absmax", vc_quant_find(quant, VC_PART_ABSMAX) != VC_NO_TENSOR);
    json_end(json, '}');
}

static const char *role_name(enum vc_role role)
{
    return role == VC_ROLE_WEIGHT ? "weight" : role == VC_ROLE_OPTIMIZER ? "optimizer" : "other";
}

static void write_parts(struct json *json, const struct vc_model *model)
{
    json_begin(json, "parts", '[', false);
    for (size_t i = 0; i < vc_model_part_count(model); i++) {
        const struct vc_part *part = vc_model_part(model, i);

        json_begin(json, NULL, '{', true);
        json_string(json, "name", part->name);
        json_string(json, "what", part->what);
        json_string(json, "role", role_name(part->role));
        json_bool(json, "chosen", part->chosen);
        json_uint(json, "tensors", part->n_tensors);
        json_uint(json, "bytes", part->size_bytes);
        json_end(json, '}');
    }
    json_end(json, ']');
}

static void write_stats(struct json *json, const struct vc_value_stats *stats)
{
    size_t last = 0;

    if (stats == NULL || !stats->valid) {
        json_null(json, "stats");
        return;
    }
    json_begin(json, "stats", '{', true);
    json_uint(json, "nans", stats->nans);
    json_uint(json, "infs", stats->infs);
    json_uint(json, "zeros", stats->zeros);
    json_uint(json, "subnormals", stats->subnormals);
    json_real(json, "min", stats->min);
    json_real(json, "max", stats->max);
    json_real(json, "absmax", stats->absmax);
    json_real(json, "mean", stats->mean);
    json_real(json, "rms", stats->rms);
    for (size_t i = 0; i < VC_HISTOGRAM_BINS; i++) {
        last = stats->histogram[i] != 0 ? i + 1 : last;
    }
    json_begin(json, "histogram", '[', true); /* the zeros after the last bin that is not empty are left out */
    for (size_t i = 0; i < last; i++) {
        json_uint(json, NULL, stats->histogram[i]);
    }
    json_end(json, ']');
    json_end(json, '}');
}

static void write_tensor(struct json *json, const struct inspection *in, size_t index)
{
    const struct vc_tensor *tensor = vc_model_tensor(in->model, index);

    json_begin(json, NULL, '{', true);
    json_string(json, "name", tensor->name);
    json_string(json, "dtype", vc_dtype_name(tensor->dtype));
    json_begin(json, "shape", '[', true);
    for (unsigned i = 0; i < tensor->n_dims; i++) {
        json_uint(json, NULL, tensor->shape[i]);
    }
    json_end(json, ']');
    json_uint(json, "elements", tensor->n_elems);
    json_uint(json, "bytes", tensor->size_bytes);
    json_uint(json, "file_bytes", tensor->file_bytes);
    json_bool(json, "compressed", tensor->compressed);
    json_string(json, "companion_of", name_of(in->model, tensor->companion_of));
    json_string(json, "alias_of", name_of(in->model, tensor->alias_of));
    json_string(json, "role", role_name(tensor->role));
    write_quant(json, in->model, tensor->quant);
    write_stats(json, in->stats != NULL ? &in->stats[index] : NULL);
    json_end(json, '}');
}

static void write_facts(struct json *json, const struct vc_model *model)
{
    const struct vc_fact *fact;

    json_begin(json, "facts", '[', false);
    for (size_t i = 0; (fact = vc_model_fact(model, i)) != NULL; i++) {
        json_begin(json, NULL, '{', true);
        json_string(json, "key", fact->key);
        json_string(json, "value", fact->value);
        json_end(json, '}');
    }
    json_end(json, ']');
}

static void write_totals(struct json *json, const struct inspection *in)
{
    json_begin(json, "totals", '{', true);
    json_uint(json, "tensors", in->n_own);
    json_uint(json, "quantized", in->n_quantized);
    json_uint(json, "parameters", in->n_params);
    json_uint(json, "value_bytes", in->value_bytes);
    json_end(json, '}');
    json_begin(json, "dtypes", '[', false);
    for (size_t i = 0; i < VC_DTYPE_COUNT; i++) {
        if (in->census[i].n_tensors != 0) {
            json_begin(json, NULL, '{', true);
            json_string(json, "dtype", vc_dtype_name((enum vc_dtype)i));
            json_uint(json, "tensors", in->census[i].n_tensors);
            json_uint(json, "elements", in->census[i].n_elems);
            json_uint(json, "bytes", in->census[i].bytes);
            json_end(json, '}');
        }
    }
    json_end(json, ']');
    json_begin(json, "estimates", '{', true);
    write_known(json, "int8_file_bytes", in->int8_bytes);
    write_known(json, "fp16_file_bytes", in->fp16_bytes);
    json_end(json, '}');
}

void write_inspection(struct json *json, const void *data)
{
    const struct inspection *in = data;

    json_begin(json, NULL, '{', false);
    json_string(json, "schema", "vcompress.inspect/1");
    json_begin(json, "input", '{', true);
    json_string(json, "path", vc_model_path(in->model));
    json_string(json, "format", vc_model_format(in->model));
    json_bool(json, "compressed", in->compressed);
    json_uint(json, "file_bytes", vc_model_file_bytes(in->model));
    json_end(json, '}');
    write_facts(json, in->model);
    write_parts(json, in->model);
    write_totals(json, in);
    json_begin(json, "tensors", '[', false);
    for (size_t i = 0; i < in->n_tensors; i++) {
        write_tensor(json, in, i);
    }
    json_end(json, ']');
    json_end(json, '}');
}
