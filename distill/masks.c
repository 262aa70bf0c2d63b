/* masks.c - see masks.h. A file of masks has what `prune --mask-out` writes, or an array of the weight's shape:
 *
 *     fc.weight.mask  u8 [1024]       a bit per weight in C order, the lowest bit of a byte first, 1 = kept
 *     fc.weight.mask  bool [64, 128]  or u8 with 0 and 1; also under the weight's own name */
#include "distill/masks.h"

#include <stdio.h>
#include <string.h>

#include "core/base/checked.h"

#define SUFFIX ".mask"

static bool is_mask_type(const struct vc_tensor *t)
{
    return t->quant == NULL && (t->dtype == VC_DTYPE_BOOL || t->dtype == VC_DTYPE_U8);
}

static bool is_whole(const struct vc_tensor *t, const struct vc_weight *item)
{
    return t->n_dims == item->n_dims && memcmp(t->shape, item->shape, t->n_dims * sizeof *t->shape) == 0;
}

static bool is_packed(const struct vc_tensor *t, const struct vc_weight *item)
{
    return t->dtype == VC_DTYPE_U8 && t->n_dims == 1 && t->n_elems == vc_ceil_div_u64(item->n, 8);
}

/* The mask belongs to that weight. */
static bool is_of(const struct vc_tensor *mask, const struct vc_weight *item)
{
    size_t n = strlen(item->name);

    return is_mask_type(mask) && strncmp(mask->name, item->name, n) == 0 &&
           (mask->name[n] == '\0' || strcmp(mask->name + n, SUFFIX) == 0);
}

enum vc_status vc_masks_check(const struct vc_trainer *t)
{
    const struct vc_model *masks = t->options.mask;
    size_t n = 0;

    for (size_t i = 0; masks != NULL && i < masks->n_tensors; i++) {
        const struct vc_tensor *mask = &masks->tensors[i];
        const struct vc_weight *item = NULL;

        for (size_t k = 0; k < t->student.weights->n && item == NULL; k++) {
            item = is_of(mask, &t->student.weights->items[k]) ? &t->student.weights->items[k] : NULL;
        }
        if (item == NULL && !is_mask_type(mask)) {
            continue; /* weights lie beside masks */
        }
        if (item == NULL || (!item->trained && !item->unread)) {
            return vc_fail(t->ctx, VC_E_ARGUMENT, "%s: %s is the mask of no tensor that is trained", masks->path,
                           mask->name);
        }
        if (!is_whole(mask, item) && !is_packed(mask, item)) {
            return vc_fail(t->ctx, VC_E_ARGUMENT,
                           "%s: %s has %llu elements; a mask has the shape of its weight, or is u8 [%llu], a bit for "
                           "each of the %llu weights",
                           masks->path, mask->name, (unsigned long long)mask->n_elems,
                           (unsigned long long)vc_ceil_div_u64(item->n, 8), (unsigned long long)item->n);
        }
        n++;
    }
    return masks == NULL || n != 0 ? VC_OK
                                   : vc_fail(t->ctx, VC_E_ARGUMENT,
                                             "%s: has no masks: bool or u8, named as the weight "
                                             "with " SUFFIX,
                                             masks->path);
}

static bool is_zero(const struct vc_trainer *t, const struct vc_weight *item, uint64_t i)
{
    return t->f64 ? ((const double *)item->data)[i] == 0 : ((const float *)item->data)[i] == 0;
}

/* The index of the tensor's mask; VC_NO_TENSOR: the file has none. */
static size_t mask_of(const struct vc_model *masks, const struct vc_weight *item)
{
    for (size_t i = 0; i < masks->n_tensors; i++) {
        if (is_of(&masks->tensors[i], item)) {
            return i;
        }
    }
    return VC_NO_TENSOR;
}

/* What the file says, in state->keep; nothing where it has no mask of the tensor. */
static enum vc_status read_mask(struct vc_trainer *t, const struct vc_weight *item, struct vc_trainer_state *state)
{
    const struct vc_model *masks = t->options.mask;
    size_t index = mask_of(masks, item);
    const struct vc_tensor *mask = index != VC_NO_TENSOR ? &masks->tensors[index] : NULL;
    uint8_t *bytes = NULL;
    enum vc_status status = VC_OK;

    if (mask == NULL) {
        return VC_OK;
    }
    bytes = vc_alloc(t->ctx, VC_TAG_TILES, (size_t)mask->size_bytes + 1);
    VC_TRY_ALLOC(bytes);
    state->keep = vc_alloc(t->ctx, VC_TAG_TILES, (size_t)item->n);
    VC_TRY_ALLOC(state->keep);
    VC_TRY(vc_model_read(t->ctx, masks, index, 0, mask->n_elems, bytes, (size_t)mask->size_bytes));
    for (uint64_t i = 0; i < item->n; i++) {
        state->keep[i] = (uint8_t)(is_whole(mask, item) ? bytes[i] : bytes[i / 8] >> i % 8 & 1);
        if (state->keep[i] > 1) {
            status = vc_fail(t->ctx, VC_E_FORMAT, "%s: %s: element %llu is neither 0 nor 1", masks->path, mask->name,
                             (unsigned long long)i);
            goto out;
        }
    }
out:
    vc_free(t->ctx, bytes);
    return status;
}

enum vc_status vc_masks_check_unread(const struct vc_trainer *t, const struct vc_weight *item)
{
    const struct vc_model *masks = t->options.mask;
    size_t index = masks != NULL ? mask_of(masks, item) : VC_NO_TENSOR;
    const struct vc_tensor *mask = index != VC_NO_TENSOR ? &masks->tensors[index] : NULL;
    unsigned per_byte = mask != NULL && is_whole(mask, item) ? 1 : 8;
    uint8_t bytes[4096];
    enum vc_status status = VC_OK;

    for (uint64_t first = 0; mask != NULL && first < mask->n_elems; first += sizeof bytes) {
        uint64_t n = vc_min_u64(mask->n_elems - first, sizeof bytes);

        VC_TRY(vc_model_read(t->ctx, masks, index, first, n, bytes, (size_t)n));
        for (uint64_t i = first * per_byte; i < vc_min_u64((first + n) * per_byte, item->n); i++) {
            if ((bytes[i / per_byte - first] >> i % per_byte & 1) == 0 && !is_zero(t, item, i)) {
                return vc_fail(
                    t->ctx, VC_E_ARGUMENT,
                    "%s: %s masks weights that are not 0, of a tensor that no logits depend on, so it is not "
                    "trained: prune %s writes the zeros",
                    masks->path, mask->name, vc_option(t->ctx, "mask"));
            }
        }
    }
out:
    return status;
}

/* Where the weights of a tensor of two or more dimensions are 0. */
static enum vc_status find_zeros(struct vc_trainer *t, const struct vc_weight *item, struct vc_trainer_state *state)
{
    uint64_t n = 0;

    for (uint64_t i = 0; item->n_dims > 1 && i < item->n; i++) {
        n += is_zero(t, item, i);
    }
    if (n == 0) {
        return VC_OK;
    }
    state->keep = vc_alloc(t->ctx, VC_TAG_TILES, (size_t)item->n);
    for (uint64_t i = 0; state->keep != NULL && i < item->n; i++) {
        state->keep[i] = !is_zero(t, item, i);
    }
    return state->keep != NULL ? VC_OK : VC_E_NOMEM;
}

enum vc_status vc_masks_make(struct vc_trainer *t, const struct vc_weight *item, struct vc_trainer_state *state)
{
    enum vc_status status = VC_OK;

    vc_free(t->ctx, state->keep);
    state->keep = NULL;
    state->n_masked = 0;
    VC_TRY(t->options.mask != NULL ? read_mask(t, item, state) : VC_OK);
    VC_TRY(state->keep == NULL && t->options.keep_sparsity ? find_zeros(t, item, state) : VC_OK);
    for (uint64_t i = 0; state->keep != NULL && i < item->n; i++) {
        if (state->keep[i] != 0) {
            continue;
        }
        state->n_masked++;
        if (t->f64) {
            ((double *)item->data)[i] = 0;
        } else {
            ((float *)item->data)[i] = 0;
        }
    }
    t->report->n_masked += state->n_masked;
out:
    return status;
}
