/* graph_params.c - see graph_params.h. A tensor is decoded tile by tile, and its elements go to the places that they
 * have in the sliced and transposed parameter, so that beside the parameter there is one tile. */
#include "passes/graph_params.h"

#include "passes/values.h"

/* Elements of a tensor that lie behind each other and go to places `step` apart. */
struct stretch {
    uint64_t from, n; /* counted from the first element that is placed */
    uint64_t to, step;
};

/* The next stretch of the n elements of a tensor from `first` on, behind the one in *s, which begins with zeros. False:
 * what is left of them is outside of the slice.
 *     tensor [4, 6], slice of axis 1 from 2 on, 3 elements:     inner 1, length 6
 *     elements 2-4, 8-10, 14-16, 20-22 go to 0-2, 3-5, 6-8, 9-11     four stretches of 3, step 1
 *     the same, transposed ([3, 4]):                                to 0, 1, 2, 3; step 4
 */
static bool next_stretch(const struct vc_place *p, uint64_t first, uint64_t n, struct stretch *s)
{
    uint64_t all = p->inner * p->length; /* of the tensor, for each index before the sliced axis */
    uint64_t begin = p->first * p->inner;
    uint64_t end = begin + p->count * p->inner;

    for (s->from += s->n; s->from < n; s->from += s->n) {
        uint64_t at = (first + s->from) % all;

        s->n = n - s->from;
        if (at < begin || at >= end) {
            s->n = vc_min_u64(s->n, at < begin ? begin - at : all - at);
            continue;
        }
        s->n = vc_min_u64(s->n, end - at);
        uint64_t e = (first + s->from) / all * p->count * p->inner + at - begin;
        s->to = e;
        s->step = 1;
        if (p->rows != 0) {
            s->n = vc_min_u64(s->n, p->columns - e % p->columns);
            s->to = (e / (p->rows * p->columns) * p->columns + e % p->columns) * p->rows + e / p->columns % p->rows;
            s->step = p->rows;
        }
        return true;
    }
    return false;
}

struct vc_place vc_place_whole(void)
{
    return (struct vc_place){.inner = 1, .length = UINT64_MAX, .count = UINT64_MAX};
}

/* The sliced axis gives inner and length; a parameter that is transposed has its last two axes exchanged
 * after slicing, so their sizes are those of the slice. */
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

/* n floats to places `step` apart. */
static void put_floats(const float *from, size_t n, float *to, size_t step)
{
    if (step == 1) {
        memcpy(to, from, n * sizeof *to);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        to[i * step] = from[i];
    }
}

/* The same with doubles on one side, or on both. */
static void put_doubles(const void *from, bool from_f64, size_t n, bool to_f64, void *to, size_t step)
{
    for (size_t i = 0; i < n; i++) {
        double x = from_f64 ? ((const double *)from)[i] : (double)((const float *)from)[i];

        if (to_f64) {
            ((double *)to)[i * step] = x;
        } else {
            ((float *)to)[i * step] = (float)x;
        }
    }
}

/* The elements of a tile that are in the slice, to their places. */
static void put_tile(const struct vc_place *place, const struct vc_tile *tile, const void *data, bool from_f64,
                     bool to_f64, void *elements)
{
    size_t from_bytes = from_f64 ? sizeof(double) : sizeof(float);
    size_t to_bytes = to_f64 ? sizeof(double) : sizeof(float);
    struct stretch s = {0};

    while (next_stretch(place, tile->first, tile->n_elems, &s)) {
        const char *from = (const char *)data + s.from * from_bytes;
        char *to = (char *)elements + s.to * to_bytes;

        if (from_f64 || to_f64) {
            put_doubles(from, from_f64, (size_t)s.n, to_f64, to, (size_t)s.step);
        } else {
            put_floats((const float *)(const void *)from, (size_t)s.n, (float *)(void *)to, (size_t)s.step);
        }
    }
}

/* Reads the tensor tile by tile and puts its elements where the parameter has them: a slice, transposed, as
 * f32 or f64. */
enum vc_status vc_place_values(struct vc_ctx *ctx, const struct vc_model *model, size_t tensor,
                               const struct vc_place *place, bool to_f64, void *elements)
{
    struct vc_values values = {0};
    struct vc_buffer_sizes sizes = {0};
    struct vc_buffers buffers = {0};
    struct vc_tile_reader reader = {0};
    struct vc_tile_result result;
    struct vc_tile tile;
    enum vc_status status = VC_OK;

    VC_REFUSE_IF(!vc_values_numeric(&model->tensors[tensor]), ctx, VC_E_UNSUPPORTED,
                 "%s: elements of type %s are no floats", model->tensors[tensor].name,
                 vc_dtype_name(model->tensors[tensor].dtype));
    VC_TRY(vc_values_init(ctx, model, tensor, &values));
    vc_buffer_sizes_add(&sizes, &values.item);
    VC_TRY(vc_buffers_alloc(ctx, &sizes, &buffers));
    VC_TRY(vc_tile_reader_open(ctx, &values.item, &buffers, &reader));
    while (vc_tile_reader_more(ctx, &reader, &tile, &result, &status)) {
        put_tile(place, &tile, result.data, values.item.desc->dtype == VC_DTYPE_F64, to_f64, elements);
    }
out:
    vc_tile_reader_close(ctx, &reader);
    vc_buffers_release(ctx, &buffers);
    vc_values_release(ctx, &values);
    return status;
}

/* ---- integers ---- */

bool vc_is_integer(enum vc_dtype dtype)
{
    return dtype >= VC_DTYPE_BOOL && dtype <= VC_DTYPE_I64;
}

/* Integers are not worked on in tiles: tensors of them are small (indices, tables), and the whole one is
 * read. */
enum vc_status vc_place_integers(struct vc_ctx *ctx, const struct vc_model *model, size_t tensor,
                                 const struct vc_place *place, int64_t *elements)
{
    const struct vc_tensor *t = &model->tensors[tensor];
    struct stretch s = {0};
    VC_SCOPED void *data = NULL;

    VC_REFUSE_IF(!vc_is_integer(t->dtype) && t->dtype != VC_DTYPE_U4 && t->dtype != VC_DTYPE_I4, ctx, VC_E_UNSUPPORTED,
                 "%s: elements of type %s are no integers", t->name, vc_dtype_name(t->dtype));
    VC_CALL_ALLOC(data = vc_alloc_array(ctx, VC_TAG_TILES, (size_t)t->size_bytes + 1, 1));
    VC_CALL(vc_source_read_any(ctx, model, tensor, VC_FORM_VALUES, 0, data, (size_t)t->size_bytes));
    while (next_stretch(place, 0, t->n_elems, &s)) {
        for (uint64_t i = 0; i < s.n; i++) {
            elements[s.to + i * s.step] = vc_integer_at(t->dtype, data, (size_t)(s.from + i));
        }
    }
    return VC_OK;
}

/* ---- finding ---- */

/* The tensor of a parameter: by its number if the name there agrees, else by name; the shape has to be the
 * graph's. */
enum vc_status vc_param_find(struct vc_ctx *ctx, const struct vc_model *model, const struct vc_graph_param *param,
                             size_t *out)
{
    VC_REFUSE_IF(model == NULL, ctx, VC_E_ARGUMENT, "%s: there are no weights to run the graph with", param->tensor);
    *out = param->index < model->n_tensors && strcmp(model->tensors[param->index].name, param->tensor) == 0
               ? param->index
               : vc_model_find(model, param->tensor);
    VC_REFUSE_IF(*out == VC_NO_TENSOR, ctx, VC_E_FORMAT, "%s: there is no tensor '%s'", model->path, param->tensor);
    const struct vc_tensor *t = &model->tensors[*out];
    VC_REFUSE_IF(t->n_dims != param->n_dims ||
                     (t->n_dims != 0 && memcmp(t->shape, param->shape, t->n_dims * sizeof *t->shape) != 0),
                 ctx, VC_E_FORMAT, "%s: %s has another shape than in the graph", model->path, param->tensor);
    return VC_OK;
}

/* A parameter of a graph from the model, sliced and transposed as the graph has it. Errors begin with the
 * file's name. */
enum vc_status vc_param_read(struct vc_ctx *ctx, const struct vc_model *model, const struct vc_graph_param *param,
                             bool integers, bool to_f64, void *elements)
{
    struct vc_place place = vc_place_of_param(param);
    size_t tensor = VC_NO_TENSOR;
    enum vc_status status = VC_OK;

    VC_CALL(vc_param_find(ctx, model, param, &tensor));
    status = integers ? vc_place_integers(ctx, model, tensor, &place, elements)
                      : vc_place_values(ctx, model, tensor, &place, to_f64, elements);
    return status == VC_OK ? VC_OK : vc_context(ctx, "%s", model->path);
}

/* The same from memory: `values` are the whole tensor. */
void vc_place_floats(const struct vc_place *place, const float *values, size_t n, float *elements)
{
    struct stretch s = {0};

    while (next_stretch(place, 0, n, &s)) {
        put_floats(values + s.from, (size_t)s.n, elements + s.to, (size_t)s.step);
    }
}
