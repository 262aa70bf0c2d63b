/* graph_params.c - see graph_params.h. A tensor is decoded tile by tile, and each element goes to the place that it has
 * in the sliced and transposed parameter, so that beside the parameter there is one tile. */
#include "passes/graph_params.h"

#include <string.h>

#include "passes/values.h"

/* False: the element is outside of the slice. */
static bool place_of(const struct vc_place *p, uint64_t element, uint64_t *to)
{
    uint64_t before = element / (p->inner * p->length);
    uint64_t at = element / p->inner % p->length;
    uint64_t e;

    if (at < p->first || at - p->first >= p->count) {
        return false;
    }
    e = (before * p->count + (at - p->first)) * p->inner + element % p->inner;
    if (p->rows != 0) {
        uint64_t matrix = e / (p->rows * p->columns);
        uint64_t row = e / p->columns % p->rows;

        e = (matrix * p->columns + e % p->columns) * p->rows + row;
    }
    *to = e;
    return true;
}

struct vc_place vc_place_whole(void)
{
    return (struct vc_place){.inner = 1, .length = UINT64_MAX, .count = UINT64_MAX};
}

struct vc_place vc_place_of_param(const struct vc_graph_param *param)
{
    struct vc_place p = vc_place_whole();

    if (param->sliced) {
        p.length = param->shape[param->axis];
        p.first = param->first;
        p.count = param->count;
        for (unsigned k = param->axis + 1; k < param->n_dims; k++) {
            p.inner *= param->shape[k];
        }
    }
    if (param->transposed) {
        p.rows = param->shape[param->n_dims - 2];
        p.columns = param->shape[param->n_dims - 1];
        p.rows = param->sliced && param->axis == param->n_dims - 2 ? param->count : p.rows;
        p.columns = param->sliced && param->axis == param->n_dims - 1 ? param->count : p.columns;
    }
    return p;
}

static void put_tile(const struct vc_place *place, const struct vc_tile *tile, const void *data, bool from_f64,
                     bool to_f64, void *elements)
{
    for (size_t i = 0; i < tile->n_elems; i++) {
        double x = from_f64 ? ((const double *)data)[i] : (double)((const float *)data)[i];
        uint64_t to;

        if (!place_of(place, tile->first + i, &to)) {
            continue;
        }
        if (to_f64) {
            ((double *)elements)[to] = x;
        } else {
            ((float *)elements)[to] = (float)x;
        }
    }
}

enum vc_status vc_place_values(struct vc_ctx *ctx, const struct vc_model *model, size_t tensor,
                               const struct vc_place *place, bool to_f64, void *elements)
{
    struct vc_values values = {0};
    struct vc_room room = {0};
    struct vc_buffers buffers = {0};
    struct vc_fetch fetch = {0};
    enum vc_status status = VC_OK;

    if (!vc_values_numeric(&model->tensors[tensor])) {
        return vc_fail(ctx, VC_E_UNSUPPORTED, "%s: elements of type %s are no floats", model->tensors[tensor].name,
                       vc_dtype_name(model->tensors[tensor].dtype));
    }
    VC_TRY(vc_values_init(ctx, model, tensor, &values));
    vc_room_add(&room, &values.item);
    VC_TRY(vc_buffers_alloc(ctx, &room, &buffers));
    VC_TRY(vc_fetch_open(ctx, &values.item, &buffers, &fetch));
    for (;;) {
        struct vc_tile_result result;
        struct vc_tile tile;
        bool more;

        VC_TRY(vc_fetch_next(ctx, &fetch, &tile, &result, &more));
        if (!more) {
            break;
        }
        put_tile(place, &tile, result.data, values.item.desc->dtype == VC_DTYPE_F64, to_f64, elements);
    }
out:
    vc_fetch_close(ctx, &fetch);
    vc_buffers_release(ctx, &buffers);
    vc_values_release(ctx, &values);
    return status;
}

/* ---- integers ---- */

bool vc_is_integer(enum vc_dtype dtype)
{
    return dtype >= VC_DTYPE_BOOL && dtype <= VC_DTYPE_I64;
}

int64_t vc_integer_at(enum vc_dtype dtype, const void *data, size_t i)
{
    switch (dtype) {
    case VC_DTYPE_U4: /* in pairs, the first one in the low bits */
        return ((const uint8_t *)data)[i / 2] >> (i % 2 * 4) & 15;
    case VC_DTYPE_I4:
        return ((((const uint8_t *)data)[i / 2] >> (i % 2 * 4) & 15) ^ 8) - 8;
    case VC_DTYPE_BOOL:
        return ((const uint8_t *)data)[i] != 0;
    case VC_DTYPE_U8:
        return ((const uint8_t *)data)[i];
    case VC_DTYPE_I8:
        return ((const int8_t *)data)[i];
    case VC_DTYPE_U16:
        return ((const uint16_t *)data)[i];
    case VC_DTYPE_I16:
        return ((const int16_t *)data)[i];
    case VC_DTYPE_U32:
        return ((const uint32_t *)data)[i];
    case VC_DTYPE_I32:
        return ((const int32_t *)data)[i];
    default:
        return ((const int64_t *)data)[i];
    }
}

enum vc_status vc_place_integers(struct vc_ctx *ctx, const struct vc_model *model, size_t tensor,
                                 const struct vc_place *place, int64_t *elements)
{
    const struct vc_tensor *t = &model->tensors[tensor];
    void *data = NULL;
    enum vc_status status = VC_OK;

    if (!vc_is_integer(t->dtype) && t->dtype != VC_DTYPE_U4 && t->dtype != VC_DTYPE_I4) {
        return vc_fail(ctx, VC_E_UNSUPPORTED, "%s: elements of type %s are no integers", t->name,
                       vc_dtype_name(t->dtype));
    }
    data = vc_alloc_array(ctx, VC_TAG_TILES, (size_t)t->size_bytes + 1, 1);
    VC_TRY_ALLOC(data);
    VC_TRY(vc_source_read_any(ctx, model, tensor, VC_FORM_VALUES, 0, data, (size_t)t->size_bytes));
    for (size_t i = 0; i < (size_t)t->n_elems; i++) {
        uint64_t to;

        if (place_of(place, i, &to)) {
            elements[to] = vc_integer_at(t->dtype, data, i);
        }
    }
out:
    vc_free(ctx, data);
    return status;
}

/* ---- finding ---- */

enum vc_status vc_param_find(struct vc_ctx *ctx, const struct vc_model *model, const struct vc_graph_param *param,
                             size_t *out)
{
    const struct vc_tensor *t;

    if (model == NULL) {
        return vc_fail(ctx, VC_E_ARGUMENT, "%s: there are no weights to run the graph with", param->tensor);
    }
    *out = param->index < model->n_tensors && strcmp(model->tensors[param->index].name, param->tensor) == 0
               ? param->index
               : vc_model_find(model, param->tensor);
    if (*out == VC_NO_TENSOR) {
        return vc_fail(ctx, VC_E_FORMAT, "%s: there is no tensor '%s'", model->path, param->tensor);
    }
    t = &model->tensors[*out];
    if (t->n_dims != param->n_dims ||
        (t->n_dims != 0 && memcmp(t->shape, param->shape, t->n_dims * sizeof *t->shape) != 0)) {
        return vc_fail(ctx, VC_E_FORMAT, "%s: %s has another shape than in the graph", model->path, param->tensor);
    }
    return VC_OK;
}

void vc_place_floats(const struct vc_place *place, const float *values, size_t n, float *elements)
{
    uint64_t to;

    for (size_t i = 0; i < n; i++) {
        if (place_of(place, i, &to)) {
            elements[to] = values[i];
        }
    }
}
