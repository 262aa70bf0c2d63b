/* values.c - one tensor as an item of its own, outside of a job. See values.h. */
#include "passes/values.h"

#include "core/base/array.h"
#include "passes/decode.h"

enum vc_status vc_values_init_raw(struct vc_ctx *ctx, const struct vc_model *model, size_t tensor,
                                  struct vc_values *values)
{
    values->arena = (struct vc_arena){0};
    values->set = (struct vc_item_set){.model = model, .arena = &values->arena};
    return vc_item_make(ctx, &values->set, tensor, &values->item);
}

enum vc_status vc_values_init_like(struct vc_ctx *ctx, const struct vc_model *model, size_t tensor,
                                   const struct vc_tensor *like, struct vc_values *values)
{
    VC_CALL(vc_values_init_raw(ctx, model, tensor, values));
    struct vc_desc *desc = vc_arena_alloc(ctx, &values->arena, sizeof *desc);
    VC_CALL_ALLOC(desc);
    *desc = *values->item.desc;
    desc->n_dims = like->n_dims;
    desc->shape = like->shape;
    vc_item_from(&values->set, tensor, desc, &values->item);
    return vc_values_numeric(&model->tensors[tensor]) ? vc_decode_add(ctx, &values->item, false) : VC_OK;
}

enum vc_status vc_values_init(struct vc_ctx *ctx, const struct vc_model *model, size_t tensor, struct vc_values *values)
{
    VC_CALL(vc_values_init_raw(ctx, model, tensor, values));
    return vc_values_numeric(&model->tensors[tensor]) ? vc_decode_add(ctx, &values->item, false) : VC_OK;
}

enum vc_status vc_values_init_strict(struct vc_ctx *ctx, const struct vc_model *model, size_t tensor,
                                     struct vc_values *values)
{
    VC_CALL(vc_values_init_raw(ctx, model, tensor, values));
    return vc_decode_add_codes(ctx, &values->item, VC_OVERFLOW_ERROR, true);
}

bool vc_values_numeric(const struct vc_tensor *tensor)
{
    struct vc_desc desc = {.dtype = tensor->dtype, .quant = tensor->quant};

    return vc_decode_can(&desc) ||
           (vc_decode_is_f8(&desc) && tensor->undecoded == NULL && tensor->part_of == VC_NO_TENSOR);
}

enum vc_status vc_values_to_f64(struct vc_ctx *ctx, struct vc_values *values)
{
    return values->item.desc->dtype == VC_DTYPE_F64 ? VC_OK : vc_decode_add_f64(ctx, &values->item);
}

void vc_values_release(struct vc_ctx *ctx, struct vc_values *values)
{
    vc_item_release(ctx, &values->item);
    vc_arena_release(ctx, &values->arena);
}

/* The largest tile of any tensor, as it is stored and as doubles. Buffers are made once for all tensors of
 * the model. */
void vc_values_sizes(const struct vc_model *model, size_t n_sums, struct vc_buffer_sizes *sizes)
{
    for (size_t i = 0; i < model->n_tensors; i++) {
        const struct vc_tensor *t = &model->tensors[i];
        size_t n = (size_t)vc_min_u64(t->n_elems, VC_TILE_ELEMS);
        struct vc_tile tile;
        uint64_t n_rows, row_len;

        vc_tile_rows_of(t, &n_rows, &row_len);
        if (vc_tile_count(n_rows, row_len) == 0) {
            continue;
        }
        vc_tile_get(n_rows, row_len, 0, &tile);
        size_t scratch = vc_decode_scratch(t->quant != NULL ? t->dtype : VC_DTYPE_NONE, t->n_elems);
        n = (size_t)vc_max_u64(n * sizeof(double), vc_tensor_bytes(t, n));
        size_t sums = vc_tile_chunks(&tile) * n_sums * sizeof(double);
        sizes->in = sizes->in > n ? sizes->in : n;
        sizes->sums = sizes->sums > sums ? sizes->sums : sums;
        sizes->scratch = sizes->scratch > scratch ? sizes->scratch : scratch;
    }
    sizes->in = sizes->in > VC_COPY_BYTES ? sizes->in : VC_COPY_BYTES;
    sizes->out = sizes->in;
    sizes->n_views = 0;
    sizes->n_in_views = VC_PART_ROLES;
    sizes->n_figures = 2; /* decoding takes two steps at most */
}

struct entry {
    size_t tensor;
    uint64_t size_bytes;
};

/* By size, then in the order of the file. */
static int larger_first(const void *a, const void *b)
{
    const struct entry *x = a;
    const struct entry *y = b;

    return VC_FIRST_ORDER(VC_ORDER(y->size_bytes, x->size_bytes), VC_ORDER(x->tensor, y->tensor));
}

enum vc_status vc_values_each(struct vc_ctx *ctx, const struct vc_model *model, vc_each_fn *one, void *user)
{
    size_t n = model->n_tensors;
    VC_SCOPED struct entry *entries = vc_alloc_array(ctx, VC_TAG_MISC, n, sizeof *entries);
    VC_SCOPED size_t *order = vc_alloc_array(ctx, VC_TAG_MISC, n, sizeof *order);
    struct vc_buffer_sizes sizes = {0};

    VC_CALL_ALLOC(entries);
    VC_CALL_ALLOC(order);
    for (size_t i = 0; i < n; i++) {
        entries[i] = (struct entry){i, model->tensors[i].size_bytes};
    }
    if (n != 0) {
        qsort(entries, n, sizeof *entries, larger_first);
    }
    for (size_t i = 0; i < n; i++) {
        order[i] = entries[i].tensor;
    }
    vc_free(ctx, vc_give(&entries));
    vc_values_sizes(model, 2, &sizes);
    return vc_exec_each(ctx, n, order, &sizes, 1, one, user);
}
