/* safetensors_outs.c - see safetensors_outs.h.
 *
 *     plain               w: I8, w.scale: F32 and so on, as the job has them
 *     compressed-tensors  m.weight_packed: I32, m.weight_scale: as the weights were, m.weight_shape: I64 [2]
 *     bitsandbytes        m.weight: I8, m.SCB: F32, m.weight_format: U8 = 0 (rows)
 *
 * Kept tensors of a safetensors source keep what the source's header says of them. */
#include "formats/safetensors/safetensors_outs.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/checked.h"
#include "core/model/names.h"
#include "formats/dialects/dialects.h"
#include "formats/safetensors/safetensors_pack.h"

struct making {
    struct vc_ctx *ctx;
    const struct vc_out_list *outs;
    const struct safetensors *source;
    const struct vc_dialect *dialect;
    struct safetensors_records *to;
    size_t *scale_of; /* by output: the codes whose scales it holds, or VC_NO_TENSOR */
};

const char *vc_safetensors_dtype_name(enum vc_dtype dtype)
{
    size_t i;

    for (i = 0; i < vc_safetensors_n_dtypes; i++) {
        if (vc_safetensors_dtypes[i].dtype == dtype) {
            return vc_safetensors_dtypes[i].name;
        }
    }
    return NULL;
}

/* ---- outputs as they are ---- */

static struct safetensors_record *add_record(struct making *m, size_t out)
{
    struct safetensors_record *record = &m->to->records[m->to->n++];

    record->out = out;
    if (out != VC_NO_TENSOR) {
        m->to->of_out[out] = m->to->n - 1;
    }
    return record;
}

static enum vc_status add_as_is(struct making *m, size_t index)
{
    const struct vc_out_tensor *out = &m->outs->tensors[index];
    struct safetensors_record *record = add_record(m, index);

    record->n_bytes = out->size_bytes;
    if (out->form == VC_FORM_RAW && m->source != NULL) {
        const struct safetensors_entry *entry = &m->source->entries[out->source];

        record->name = entry->name;
        record->dtype = entry->dtype->name;
        record->n_dims = entry->n_dims;
        record->shape = entry->shape;
        return VC_OK;
    }
    record->name = out->name;
    record->dtype = vc_safetensors_dtype_name(out->dtype);
    record->n_dims = out->n_dims;
    record->shape = out->shape;
    return record->dtype != NULL ? VC_OK
                                 : vc_fail(m->ctx, VC_E_UNSUPPORTED, "%s: safetensors cannot hold elements of type %s",
                                           out->name, vc_dtype_name(out->dtype));
}

/* ---- codes and scales under a layout ---- */

static bool is_codes(const struct making *m, const struct vc_out_tensor *out)
{
    return m->dialect != &vc_dialect_plain && out->form == VC_FORM_VALUES && out->quant.scheme == VC_SCHEME_INT8;
}

/* Passes that know the layout make what fits; tensors kept from a source of another format may not. */
static bool fits(const struct making *m, const struct vc_out_tensor *out)
{
    const struct vc_quant *quant = &out->quant;
    bool absmax = m->dialect == &vc_dialect_bitsandbytes;
    size_t n_path;

    if (out->n_dims != 2 || !vc_name_is_module_weight(out->name, &n_path) || !quant->symmetric ||
        (vc_quant_find(quant, VC_PART_ABSMAX) != VC_NO_TENSOR) != absmax) {
        return false;
    }
    if (quant->granularity == VC_GRANULARITY_GROUP) {
        return !absmax && out->shape[1] >= 5 && out->shape[1] % quant->group_size == 0;
    }
    return quant->granularity == VC_GRANULARITY_CHANNEL && quant->axis == 0 && (absmax || out->shape[1] >= 5);
}

/* "<path of the module>.<tail>" */
static const char *module_name(struct making *m, const char *weight, const char *tail)
{
    size_t n_path = 0;

    (void)vc_name_is_module_weight(weight, &n_path);
    return vc_arena_printf(m->ctx, &m->to->arena, "%.*s%s%s", (int)n_path, weight, n_path != 0 ? "." : "", tail);
}

static uint64_t *make_shape(struct making *m, uint64_t a, uint64_t b)
{
    uint64_t *shape = vc_arena_alloc(m->ctx, &m->to->arena, 2 * sizeof *shape);

    if (shape != NULL) {
        shape[0] = a;
        shape[1] = b;
    }
    return shape;
}

static enum vc_status add_codes(struct making *m, size_t index)
{
    const struct vc_out_tensor *out = &m->outs->tensors[index];
    struct safetensors_record *record = add_record(m, index);
    uint64_t row = out->shape[1];
    enum vc_status status = VC_OK;

    record->n_dims = 2;
    if (m->dialect == &vc_dialect_bitsandbytes) {
        record->name = out->name;
        record->dtype = "I8";
        record->shape = out->shape;
        record->n_bytes = out->size_bytes;
        return VC_OK;
    }
    record->name = module_name(m, out->name, "weight_packed");
    VC_TRY_ALLOC(record->name);
    record->dtype = "I32";
    record->shape = make_shape(m, out->shape[0], safetensors_packed_row(row) / 4);
    VC_TRY_ALLOC(record->shape);
    record->packed_row = row;
    if (!vc_mul_u64(out->shape[0], safetensors_packed_row(row), &record->n_bytes)) {
        return vc_fail(m->ctx, VC_E_UNSUPPORTED, "%s: has more than 2^64 bytes when packed", out->name);
    }
    m->to->any_packed = true;
    if (row % 4 != 0 && (m->to->min_padded_row == 0 || row < m->to->min_padded_row)) {
        m->to->min_padded_row = row;
    }
out:
    return status;
}

/* The scales, and behind them the constant that goes with the module. */
static enum vc_status add_scales(struct making *m, size_t index)
{
    const struct vc_out_tensor *out = &m->outs->tensors[index];
    const struct vc_out_tensor *codes = &m->outs->tensors[m->scale_of[index]];
    bool packed = m->dialect == &vc_dialect_compressed_tensors;
    struct safetensors_record *record = add_record(m, index);
    enum vc_status status = VC_OK;

    record->name = module_name(m, codes->name, packed ? "weight_scale" : "SCB");
    VC_TRY_ALLOC(record->name);
    record->dtype = vc_safetensors_dtype_name(out->dtype);
    record->n_dims = packed ? out->n_dims : 1;
    record->shape = packed ? out->shape : codes->shape;
    record->n_bytes = out->size_bytes;

    record = add_record(m, VC_NO_TENSOR);
    record->name = module_name(m, codes->name, packed ? "weight_shape" : "weight_format");
    VC_TRY_ALLOC(record->name);
    record->dtype = packed ? "I64" : "U8";
    record->n_dims = packed ? 1 : 0;
    record->shape = make_shape(m, 2, 0);
    VC_TRY_ALLOC(record->shape);
    record->n_bytes = packed ? 16 : 1;
    vc_put_le64(record->constant, packed ? codes->shape[0] : 0);
    vc_put_le64(record->constant + 8, packed ? codes->shape[1] : 0);
out:
    return status;
}

/* ---- the whole ---- */

static enum vc_status find_scales(struct making *m)
{
    size_t i;

    for (i = 0; i < m->outs->n; i++) {
        m->scale_of[i] = VC_NO_TENSOR;
    }
    for (i = 0; i < m->outs->n; i++) {
        const struct vc_out_tensor *out = &m->outs->tensors[i];

        if (out->alias) {
            m->to->told[i] = m->to->told[out->alias_of];
            continue;
        }
        if (!is_codes(m, out)) {
            m->to->told[i] = out->form == VC_FORM_RAW && m->source != NULL && out->quant.scheme != VC_SCHEME_NONE &&
                             m->source->modules.kinds[out->source] != SAFETENSORS_PLAIN;
            continue;
        }
        if (!fits(m, out)) {
            return vc_fail(m->ctx, VC_E_UNSUPPORTED,
                           "%s: is quantized in a way that the layout %s cannot hold; dequantize it first", out->name,
                           m->dialect->name);
        }
        m->to->told[i] = true;
        m->scale_of[vc_quant_scale(&out->quant)] = i;
    }
    return VC_OK;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* New names could be those of other tensors. */
static enum vc_status check_names(struct making *m)
{
    const struct safetensors_records *to = m->to;
    const char **names = vc_alloc_array(m->ctx, VC_TAG_NAMES, to->n, sizeof *names);
    enum vc_status status = VC_OK;
    size_t i;

    VC_TRY_ALLOC(names);
    for (i = 0; i < to->n; i++) {
        names[i] = to->records[i].name;
        if (strcmp(names[i], VC_SAFETENSORS_METADATA) == 0) {
            VC_TRY(vc_fail(m->ctx, VC_E_UNSUPPORTED, "%s: safetensors keeps this name for its metadata", names[i]));
        }
    }
    if (to->n > 1) {
        qsort(names, to->n, sizeof *names, compare_names);
    }
    for (i = 1; i < to->n; i++) {
        if (strcmp(names[i - 1], names[i]) == 0) {
            VC_TRY(vc_fail(m->ctx, VC_E_UNSUPPORTED, "%s: two tensors of the output would have this name", names[i]));
        }
    }
out:
    vc_free(m->ctx, names);
    return status;
}

static enum vc_status make_records(struct making *m)
{
    enum vc_status status;
    size_t i;

    VC_TRY(find_scales(m));
    for (i = 0; i < m->outs->n; i++) {
        if (m->outs->tensors[i].alias) {
            continue; /* the other name has the bytes */
        }
        if (is_codes(m, &m->outs->tensors[i])) {
            VC_TRY(add_codes(m, i));
        } else if (m->scale_of[i] != VC_NO_TENSOR) {
            VC_TRY(add_scales(m, i));
        } else {
            VC_TRY(add_as_is(m, i));
        }
    }
    VC_TRY(check_names(m));
out:
    return status;
}

enum vc_status vc_safetensors_records_make(struct vc_ctx *ctx, const struct vc_out_list *outs,
                                           const struct safetensors *source, const struct vc_dialect *dialect,
                                           struct safetensors_records *out)
{
    struct making m = {.ctx = ctx, .outs = outs, .source = source, .dialect = dialect, .to = out};
    size_t most; /* every output, and a constant for each pair of codes and scales */
    enum vc_status status = VC_OK;

    *out = (struct safetensors_records){.n = 0};
    if (!vc_add_size(outs->n, outs->n / 2, &most)) {
        return vc_fail(ctx, VC_E_NOMEM, "too many tensors");
    }
    out->records = vc_calloc_array(ctx, VC_TAG_NAMES, most, sizeof *out->records);
    VC_TRY_ALLOC(out->records);
    out->of_out = vc_calloc_array(ctx, VC_TAG_NAMES, outs->n, sizeof *out->of_out);
    VC_TRY_ALLOC(out->of_out);
    out->told = vc_calloc_array(ctx, VC_TAG_NAMES, outs->n, sizeof *out->told);
    VC_TRY_ALLOC(out->told);
    m.scale_of = vc_alloc_array(ctx, VC_TAG_NAMES, outs->n, sizeof *m.scale_of);
    VC_TRY_ALLOC(m.scale_of);
    VC_TRY(make_records(&m));
out:
    vc_free(ctx, m.scale_of);
    return status;
}

void vc_safetensors_records_release(struct vc_ctx *ctx, struct safetensors_records *records)
{
    vc_free(ctx, records->records);
    vc_free(ctx, records->of_out);
    vc_free(ctx, records->told);
    vc_arena_release(ctx, &records->arena);
    *records = (struct safetensors_records){.n = 0};
}
