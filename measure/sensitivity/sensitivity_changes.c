/* sensitivity_changes.c - see sensitivity_changes.h. */
#include "measure/sensitivity/sensitivity_changes.h"

#include "core/chain/tile_reader.h"
#include "kernels/arith.h"
#include "passes/decode.h"

#define N_BINS ((size_t)1 << 16)

/* ---- pruning ---- */

/* The bin of the k-th smallest key (k from 1 on), counted by 16 bits: the upper ones of all, or the lower
 * ones of those in bin `upper`. *below: how many lie in the bins before it. A key is the 31 bits of a
 * magnitude, which as an integer has the order of the values. */
static uint32_t find_bin(const float *values, size_t n, bool lower, uint32_t upper, uint64_t k, uint64_t *counts,
                         uint64_t *below)
{
    uint32_t bin = 0;

    memset(counts, 0, N_BINS * sizeof *counts);
    for (size_t i = 0; i < n; i++) {
        uint32_t key = vc_f32_magnitude(values[i]);

        if (!lower || key >> 16 == upper) {
            counts[lower ? key & 0xffff : key >> 16]++;
        }
    }
    *below = 0;
    while (*below + counts[bin] < k) {
        *below += counts[bin++];
    }
    return bin;
}

/* Finds the threshold in two walks, the upper 16 bits and then the lower ones, without sorting. Smaller
 * magnitudes become zero, and of those that equal it the first ones, until k are. */
enum vc_status vc_change_prune(struct vc_ctx *ctx, float *values, size_t n, uint64_t k)
{
    uint64_t *counts;
    uint64_t below, below_lower, equal;
    uint32_t upper, threshold;

    if (k == 0) {
        return VC_OK;
    }
    VC_CALL(VC_ARRAY(ctx, VC_TAG_SCRATCH, counts, N_BINS));
    upper = find_bin(values, n, false, 0, k, counts, &below);
    threshold = upper << 16 | find_bin(values, n, true, upper, k - below, counts, &below_lower);
    equal = k - below - below_lower;
    for (size_t i = 0; i < n; i++) {
        uint32_t key = vc_f32_magnitude(values[i]);

        if (key < threshold || (key == threshold && equal != 0)) {
            equal -= key == threshold;
            values[i] = 0.0f;
        }
    }
    vc_free(ctx, counts);
    return VC_OK;
}

/* ---- candidates ---- */

/* The tensor as floats, the candidate's step, and floats again: codes are made and decoded, so that what is
 * left is their error. */
static enum vc_status add_steps(struct vc_ctx *ctx, const struct vc_candidate *candidate, struct vc_item *item)
{
    enum vc_dtype weights = vc_desc_weight_dtype(item->desc);
    bool quantized = item->desc->quant != NULL || vc_dtype_is_quantized(item->desc->dtype);

    if (quantized) {
        VC_CALL(vc_decode_add(ctx, item, false));
    }
    VC_CALL(candidate->add(ctx, item, candidate, weights));
    return vc_decode_add(ctx, item, true);
}

/* Runs the steps over the whole tensor on this thread, with no file. */
enum vc_status vc_change_tensor(struct vc_ctx *ctx, const struct vc_model *model, size_t tensor,
                                const struct vc_candidate *candidate, float *values)
{
    VC_SCOPED_ARENA struct vc_arena arena = {0};
    struct vc_item_set set = {.model = model, .arena = &arena};
    struct vc_item item = {.set = NULL};
    enum vc_status status;

    VC_TRY(vc_item_make(ctx, &set, tensor, &item));
    VC_TRY(add_steps(ctx, candidate, &item));
    VC_TRY(vc_tile_reader_all(ctx, &item, VC_PART_CODES, values, (size_t)item.desc->n_elems * sizeof *values));
out:
    vc_item_release(ctx, &item);
    return status == VC_OK ? VC_OK : vc_context(ctx, "%s", model->tensors[tensor].name);
}

/* ---- units ---- */

/* Elements behind the axis: each entry of the axis is a run of so many elements. */
static uint64_t inner_of(const struct vc_tensor *tensor, unsigned axis)
{
    uint64_t inner = 1;

    for (unsigned k = axis + 1; k < tensor->n_dims; k++) {
        inner *= tensor->shape[k];
    }
    return inner;
}

/* The unit that an entry of the axis belongs to; n_units: none. Units lie in blocks behind an offset, all
 * of them `repeat` times:
 *
 *     offset 2, block 2, 3 units, repeat 2       entry  0 1 | 2 3 4 5 6 7 | 8 9 10 11 12 13 | 14
 *                                                unit   - - | 0 0 1 1 2 2 | 0 0  1  1  2  2 |  -
 */
static uint64_t unit_at(const struct vc_coupling *group, const struct vc_coupling_member *member, uint64_t at)
{
    uint64_t n = group->n_units * member->block * member->repeat;

    return at < member->offset || at - member->offset >= n ? group->n_units
                                                           : (at - member->offset) / member->block % group->n_units;
}

/* A member that is whole, such as the weight of one expert, belongs to one unit. */
void vc_change_add_norms(const struct vc_coupling *group, const struct vc_coupling_member *member,
                         const struct vc_tensor *tensor, const float *values, double *norms)
{
    uint64_t inner = member->whole ? tensor->n_elems : inner_of(tensor, member->axis);

    for (uint64_t run = 0; run < tensor->n_elems / inner; run++) {
        uint64_t unit = member->whole ? member->unit : unit_at(group, member, run % tensor->shape[member->axis]);

        for (uint64_t i = 0; unit < group->n_units && i < inner; i++) {
            double x = (double)values[run * inner + i];

            norms[unit] += x * x;
        }
    }
}

/* Sets the elements of the units that go to 0, in place. An element's place along the member's axis says to
 * which unit it belongs. */
void vc_change_remove(const struct vc_coupling *group, const struct vc_coupling_member *member,
                      const struct vc_tensor *tensor, const bool *goes, float *values)
{
    uint64_t inner = inner_of(tensor, member->axis);

    for (uint64_t run = 0; run < tensor->n_elems / inner; run++) {
        uint64_t unit = unit_at(group, member, run % tensor->shape[member->axis]);

        if (unit < group->n_units && goes[unit]) {
            memset(values + run * inner, 0, (size_t)inner * sizeof *values);
        }
    }
}
