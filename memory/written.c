/* written.c - see written.h. The tensors of a model as a planned job would write them, from the rows of its report:
 *
 *     row       fc1.weight, int4/group:128, [128, 1568], parts scale [128, 13]
 *     tensors   fc1.weight i4, with a descriptor of its codes; its scale as a part; constants that the layout adds
 *
 * Tensors of the model without a row take nothing (VC_ROLE_OTHER). */
#include "memory/written.h"

#include <string.h>

#include "core/base/checked.h"
#include "memory/float_type.h"

static bool is_float(enum vc_dtype dtype)
{
    return dtype == VC_DTYPE_F32 || dtype == VC_DTYPE_F16 || dtype == VC_DTYPE_BF16 || dtype == VC_DTYPE_F64;
}

/* What the output has of its own: tied tensors are those of another row. */
static bool is_written(const struct vc_report_row *row)
{
    return row->role == VC_ROLE_WEIGHT && row->action != VC_ACTION_DROPPED && row->action != VC_ACTION_TIED;
}

/* Elements of the tensor as it is written. */
static uint64_t elems_after(const struct vc_report_row *row)
{
    uint64_t n = 1;

    for (unsigned k = 0; k < row->n_dims_after; k++) {
        n *= row->shape_after[k];
    }
    return n;
}

/* ---- the list ---- */

/* Shapes of the report end with it, so they are copied. */
static enum vc_status copy_shape(struct vc_ctx *ctx, struct vc_planned_weights *w, unsigned n_dims,
                                 const uint64_t *shape, const uint64_t **out)
{
    uint64_t *copy = vc_arena_alloc(ctx, &w->arena, (n_dims + 1U) * sizeof *copy);

    for (unsigned k = 0; copy != NULL && k < n_dims; k++) {
        copy[k] = shape[k];
    }
    *out = copy;
    return copy == NULL ? VC_E_NOMEM : VC_OK;
}

/* What the layout keeps with a weight that is codes, beside the parts that passes make: compressed-tensors the shape of
 * integers, two i64; ComfyUI's a text; bitsandbytes of four bits the 16 values and a text of some 80 letters, of eight bits a
 * byte for the order of the codes, a block of memory each. Returns how many. */
static size_t constants_of(const struct vc_report *report, enum vc_dtype codes, uint64_t bytes[2])
{
    const struct vc_layout *layout = report->layouts != NULL ? report->layouts[0] : NULL;
    const char *name = layout != NULL ? layout->name : "";
    bool floats = codes == VC_DTYPE_F8_E4M3 || codes == VC_DTYPE_F8_E5M2 || codes == VC_DTYPE_F4_E2M1;
    bool eight_bits = codes == VC_DTYPE_I8;

    bytes[1] = 80;
    if (strcmp(name, "bitsandbytes") == 0) {
        bytes[0] = eight_bits ? 1 : 64;
        return eight_bits ? 1 : 2;
    }
    bool comfy = strcmp(name, "comfyui") == 0;
    bytes[0] = comfy ? 32 : 16;
    return comfy || (strcmp(name, "compressed-tensors") == 0 && !floats);
}

/* A tensor of whole numbers that the layout has beside codes. */
static void add_constant(struct vc_planned_weights *w, size_t tensor, uint64_t bytes)
{
    w->tensors[w->n++] = (struct vc_tensor){.name = w->tensors[tensor].name,
                                            .dtype = VC_DTYPE_U8,
                                            .n_elems = bytes,
                                            .size_bytes = bytes,
                                            .part_of = tensor,
                                            .alias_of = VC_NO_TENSOR,
                                            .role = VC_ROLE_WEIGHT};
}

/* A tensor and its parts. */
static enum vc_status add_row(struct vc_ctx *ctx, struct vc_planned_weights *w, const struct vc_report_row *row,
                              size_t tensor)
{
    struct vc_tensor *t = &w->tensors[tensor];
    enum vc_dtype source = t->quant != NULL              ? t->quant->source_dtype
                           : is_float(row->dtype_before) ? row->dtype_before
                                                         : VC_DTYPE_F32;

    *t = (struct vc_tensor){.name = t->name,
                            .dtype = row->dtype_after,
                            .n_dims = row->n_dims_after,
                            .n_elems = elems_after(row),
                            .size_bytes = row->bytes_after,
                            .part_of = VC_NO_TENSOR,
                            .alias_of = VC_NO_TENSOR,
                            .role = VC_ROLE_WEIGHT};
    VC_CALL(copy_shape(ctx, w, row->n_dims_after, row->shape_after, &t->shape));
    if (row->n_parts != 0) {
        w->quants[source].source_dtype = source;
        t->quant = &w->quants[source];
    }
    for (size_t k = 0; k < row->n_parts; k++) {
        const struct vc_report_part *part = &row->parts[k];
        struct vc_tensor *own = &w->tensors[w->n];

        *own = (struct vc_tensor){.name = t->name,
                                  .dtype = part->dtype,
                                  .n_dims = part->n_dims,
                                  .n_elems = 1,
                                  .size_bytes = part->bytes,
                                  .part_of = tensor,
                                  .alias_of = VC_NO_TENSOR,
                                  .role = VC_ROLE_WEIGHT};
        VC_CALL(copy_shape(ctx, w, part->n_dims, part->shape, &own->shape));
        for (unsigned d = 0; d < part->n_dims; d++) {
            own->n_elems *= part->shape[d];
        }
        t->size_bytes -= vc_min_u64(t->size_bytes, part->bytes);
        w->n++;
    }
    return VC_OK;
}

/* The array has room for the tensors, their parts and two constants each, since parts point to their tensor by number. */
enum vc_status vc_written_make(struct vc_ctx *ctx, const struct vc_report *report, const struct vc_model *model,
                               struct vc_planned_weights *out)
{
    size_t n = vc_model_facts(model)->n_tensors;
    size_t n_parts = 0;
    struct vc_report_row row;

    for (size_t k = 0; vc_report_get_row(report, k, &row); k++) {
        n_parts += is_written(&row) && row.n_parts != 0 ? row.n_parts + 2 : 0;
    }
    VC_CALL(VC_ARRAY(ctx, VC_TAG_MISC, out->tensors, n + n_parts + 1));
    VC_CALL(VC_ZEROS(ctx, VC_TAG_MISC, out->quants, VC_DTYPE_COUNT));
    for (size_t i = 0; i < n; i++) {
        out->tensors[i] = *vc_model_tensor(model, i);
        out->tensors[i].role = VC_ROLE_OTHER;
    }
    out->n = n;
    for (size_t k = 0; vc_report_get_row(report, k, &row); k++) {
        size_t tensor = is_written(&row) ? vc_model_find(model, row.name) : VC_NO_TENSOR;

        uint64_t bytes[2];
        size_t more = row.n_parts != 0 ? constants_of(report, row.dtype_after, bytes) : 0;

        if (tensor == VC_NO_TENSOR) {
            continue;
        }
        VC_CALL(add_row(ctx, out, &row, tensor));
        for (size_t i = 0; i < more; i++) {
            add_constant(out, tensor, bytes[i]);
        }
    }
    return VC_OK;
}

void vc_written_release(struct vc_ctx *ctx, struct vc_planned_weights *written)
{
    vc_free(ctx, written->tensors);
    vc_free(ctx, written->quants);
    vc_arena_release(ctx, &written->arena);
    *written = (struct vc_planned_weights){.n = 0};
}

/* The largest tensor of codes as it is once decoded: loaders that decode one at a time need that much besides. Bytes
 * are rounded as the allocator does. */
uint64_t vc_written_largest(const struct vc_planned_weights *written, enum vc_dtype type, enum vc_allocator allocator)
{
    static const uint64_t aligns[] = {1, 256, 512, 256};
    uint64_t largest = 0;

    for (size_t i = 0; i < written->n; i++) {
        const struct vc_tensor *t = &written->tensors[i];
        bool coded = vc_is_coded(t);
        uint64_t bytes = t->n_elems * vc_dtype_size(type != VC_DTYPE_NONE ? type
                                                    : t->quant != NULL    ? t->quant->source_dtype
                                                                          : VC_DTYPE_F16);
        uint64_t rounded = 0;

        if (coded && t->role == VC_ROLE_WEIGHT) {
            largest = vc_max_u64(largest, vc_round_up_u64(bytes, aligns[allocator], &rounded) ? rounded : bytes);
        }
    }
    return largest;
}

/* ---- types ---- */

/* *all: of those so far, VC_DTYPE_NONE before the first. False: they are not of one type. */
static bool same_type(enum vc_dtype dtype, enum vc_dtype *all)
{
    bool same = *all == VC_DTYPE_NONE || *all == dtype;

    *all = dtype;
    return same;
}

/* The type if it is a half; else none. */
static enum vc_dtype half_or_none(enum vc_dtype all)
{
    return all == VC_DTYPE_F16 || all == VC_DTYPE_BF16 ? all : VC_DTYPE_NONE;
}

/* f16 or bf16 if all weights of floats have that type; scales do not count. */
enum vc_dtype vc_written_half(const struct vc_model *model)
{
    enum vc_dtype all = VC_DTYPE_NONE;

    for (size_t i = 0; i < vc_model_facts(model)->n_tensors; i++) {
        const struct vc_tensor *tensor = vc_model_tensor(model, i);

        if (tensor->role == VC_ROLE_WEIGHT && tensor->part_of == VC_NO_TENSOR && is_float(tensor->dtype) &&
            tensor->use != VC_USE_SCALE && !same_type(tensor->dtype, &all)) {
            return VC_DTYPE_NONE;
        }
    }
    return half_or_none(all);
}

/* The type of most elements. A graph has types of its own, so ONNX says nothing. */
enum vc_dtype vc_written_type(const struct vc_report *report, const struct vc_model *model)
{
    const char *format = report->output_format != NULL ? report->output_format : vc_model_facts(model)->format;
    static const enum vc_dtype types[] = {VC_DTYPE_F32, VC_DTYPE_BF16, VC_DTYPE_F16, VC_DTYPE_F64};
    uint64_t n[4] = {0};
    size_t most = 0;
    struct vc_report_row row;

    for (size_t k = 0; vc_report_get_row(report, k, &row); k++) {
        for (size_t t = 0; is_written(&row) && row.n_parts == 0 && t < 4; t++) {
            n[t] += row.dtype_after == types[t] ? elems_after(&row) : 0;
        }
    }
    for (size_t t = 1; t < 4; t++) {
        most = n[t] > n[most] ? t : most;
    }
    return n[most] == 0 || strcmp(format, "onnx") == 0 ? VC_DTYPE_NONE : types[most];
}

/* The same of what a job writes. */
enum vc_dtype vc_written_half_after(const struct vc_report *report)
{
    enum vc_dtype all = VC_DTYPE_NONE;
    struct vc_report_row row;

    for (size_t k = 0; vc_report_get_row(report, k, &row); k++) {
        if (is_written(&row) && row.n_parts == 0 && is_float(row.dtype_after) && !same_type(row.dtype_after, &all)) {
            return VC_DTYPE_NONE;
        }
    }
    return half_or_none(all);
}
