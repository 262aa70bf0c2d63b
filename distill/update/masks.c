/* masks.c - see masks.h. A file of masks has what `prune --mask-out` writes, or an array of the weight's
 * shape:
 *
 *     fc.weight.mask  u8 [1024]       a bit per weight in C order, the lowest bit of a byte first, 1 = kept
 *     fc.weight.mask  bool [64, 128]  or u8 with 0 and 1; also under the weight's own name
 *
 * Where a tensor's mask comes from, the first of these that there is:
 *
 *     the file of masks
 *     zeros of the student's file, all of them        sparsity.keep
 *     the same, if they look like pruning             unless sparsity.refill
 *
 * Masked weights are 0 and stay 0; biases and other lists have zeros by nature, and only a file masks them. */
#include "distill/update/masks.h"

#include "distill/update/gradual.h"

#define SUFFIX ".mask"

/* Types that masks have. */
static bool is_mask_type(const struct vc_tensor *t)
{
    return t->quant == NULL && (t->dtype == VC_DTYPE_BOOL || t->dtype == VC_DTYPE_U8);
}

/* An element for each weight. */
static bool is_whole(const struct vc_tensor *t, const struct vc_weight *item)
{
    return t->n_dims == item->n_dims && memcmp(t->shape, item->shape, t->n_dims * sizeof *t->shape) == 0;
}

/* A bit for each weight. */
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

/* Every mask of the file is of a tensor that is trained and fits it. Other arrays of the file are left
 * alone. */
enum vc_status vc_masks_check(const struct vc_learner *l)
{
    const struct vc_model *masks = l->options->sparsity.mask;
    size_t n = 0;

    for (size_t i = 0; masks != NULL && i < masks->n_tensors; i++) {
        const struct vc_tensor *mask = &masks->tensors[i];
        const struct vc_weight *item = NULL;

        for (size_t k = 0; k < l->net.weights->n && item == NULL; k++) {
            item = is_of(mask, &l->net.weights->items[k]) ? &l->net.weights->items[k] : NULL;
        }
        if (item == NULL && !is_mask_type(mask)) {
            continue; /* weights lie beside masks */
        }
        VC_REFUSE_IF(item == NULL || (!item->trained && !item->unread), l->ctx, VC_E_ARGUMENT,
                     "%s: %s is the mask of no tensor that is trained", masks->path, mask->name);
        VC_REFUSE_IF(!is_whole(mask, item) && !is_packed(mask, item), l->ctx, VC_E_ARGUMENT,
                     "%s: %s has %llu elements; a mask has the shape of its weight, or is u8 [%llu], a bit for "
                     "each of the %llu weights",
                     masks->path, mask->name, (unsigned long long)mask->n_elems,
                     (unsigned long long)vc_ceil_div_u64(item->n, 8), (unsigned long long)item->n);
        n++;
    }
    return masks == NULL || n != 0 ? VC_OK
                                   : vc_fail(l->ctx, VC_E_ARGUMENT,
                                             "%s: has no masks: bool or u8, named as the weight "
                                             "with " SUFFIX,
                                             masks->path);
}

/* Element i of the weights in memory. */
static bool is_zero(const struct vc_learner *l, const struct vc_weight *item, uint64_t i)
{
    return l->f64 ? ((const double *)item->data)[i] == 0 : ((const float *)item->data)[i] == 0;
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
static enum vc_status read_mask(struct vc_learner *l, const struct vc_weight *item, struct vc_weight_state *state)
{
    const struct vc_model *masks = l->options->sparsity.mask;
    size_t index = mask_of(masks, item);
    const struct vc_tensor *mask = index != VC_NO_TENSOR ? &masks->tensors[index] : NULL;
    uint8_t *bytes = NULL;
    enum vc_status status = VC_OK;

    if (mask == NULL) {
        return VC_OK;
    }
    VC_TRY_ALLOC(bytes = vc_alloc(l->ctx, VC_TAG_TILES, (size_t)mask->size_bytes + 1));
    VC_TRY_ALLOC(state->keep = vc_alloc(l->ctx, VC_TAG_TILES, (size_t)item->n));
    VC_TRY(vc_model_read(l->ctx, masks, index, 0, mask->n_elems, bytes, (size_t)mask->size_bytes));
    for (uint64_t i = 0; i < item->n; i++) {
        state->keep[i] = (uint8_t)(is_whole(mask, item) ? bytes[i] : bytes[i / 8] >> i % 8 & 1);
        if (state->keep[i] > 1) {
            status = vc_fail(l->ctx, VC_E_FORMAT, "%s: %s: element %llu is neither 0 nor 1", masks->path, mask->name,
                             (unsigned long long)i);
            goto out;
        }
    }
out:
    vc_free(l->ctx, bytes);
    return status;
}

/* The mask of a tensor that is not trained must take nothing from it. Read in pieces, as it is looked at
 * only. */
enum vc_status vc_masks_check_unread(const struct vc_learner *l, const struct vc_weight *item)
{
    const struct vc_model *masks = l->options->sparsity.mask;
    size_t index = masks != NULL ? mask_of(masks, item) : VC_NO_TENSOR;
    const struct vc_tensor *mask = index != VC_NO_TENSOR ? &masks->tensors[index] : NULL;
    unsigned per_byte = mask != NULL && is_whole(mask, item) ? 1 : 8;
    uint8_t bytes[4096];

    for (uint64_t first = 0; mask != NULL && first < mask->n_elems; first += sizeof bytes) {
        uint64_t n = vc_min_u64(mask->n_elems - first, sizeof bytes);

        VC_CALL(vc_model_read(l->ctx, masks, index, first, n, bytes, (size_t)n));
        for (uint64_t i = first * per_byte; i < vc_min_u64((first + n) * per_byte, item->n); i++) {
            VC_REFUSE_IF((bytes[i / per_byte - first] >> i % per_byte & 1) == 0 && !is_zero(l, item, i), l->ctx,
                         VC_E_ARGUMENT,
                         "%s: %s masks weights that are not 0, of a tensor that no logits depend on, so it is not "
                         "trained: prune %s writes the zeros",
                         masks->path, mask->name, vc_option(l->ctx, "sparsity.mask"));
        }
    }
    return VC_OK;
}

/* ---- zeros of the student's file ---- */

/* As pruning leaves a tensor: 20 to 99.9 % are 0. Fewer are there by chance, and a tensor of nothing but zeros is a
 * layer that begins so. */
static bool is_pruned(uint64_t zeros, uint64_t n)
{
    return n != 0 && (double)zeros >= 0.2 * (double)n && (double)zeros <= 0.999 * (double)n;
}

/* How many values of the tensor in the file are 0. */
static enum vc_status count_zeros(struct vc_learner *l, const struct vc_weight *item, uint64_t *zeros)
{
    const struct vc_model *model = l->options->student.weights;
    struct vc_place place = vc_place_whole();
    VC_SCOPED void *values =
        vc_alloc_array(l->ctx, VC_TAG_TILES, (size_t)item->n + 1, vc_real_bytes(l->options->precision.kind));
    struct vc_weight read = *item;

    VC_CALL_ALLOC(values);
    read.data = values;
    VC_CALL(vc_place_values(l->ctx, model, vc_model_find(model, item->name), &place, l->f64, values));
    for (uint64_t i = 0; i < item->n; i++) {
        *zeros += is_zero(l, &read, i);
    }
    return VC_OK;
}

/* Which tensors have a mask: one of the file, or zeros that look like pruning. Nothing is kept but counts. */
enum vc_status vc_masks_open(struct vc_learner *l)
{
    const struct vc_distill_options *o = l->options;
    const struct vc_weights *w = l->net.weights;

    if (!l->trains) {
        return VC_OK;
    }
    VC_CALL(VC_ZEROS(l->ctx, VC_TAG_MISC, l->zeros, w->n + 1));
    for (size_t k = 0; k < w->n; k++) {
        const struct vc_weight *item = &w->items[k];
        struct vc_weight_zeros *z = &l->zeros[k];

        if (!item->trained || item->initialized) {
            continue;
        }
        if (item->n_dims > 1) {
            VC_CALL(count_zeros(l, item, &z->n));
        }
        z->masked = o->sparsity.mask != NULL && mask_of(o->sparsity.mask, item) != VC_NO_TENSOR;
        z->masked = z->masked || (o->sparsity.keep && z->n != 0) || (!o->sparsity.refill && is_pruned(z->n, item->n));
    }
    vc_pool_trim(l->ctx->shared->pool);
    return VC_OK;
}

/* Whether the tensor gets a mask, by what vc_masks_open found. */
bool vc_masks_has(const struct vc_learner *l, size_t entry)
{
    return l->zeros != NULL && l->zeros[entry].masked;
}

/* The mask of one tensor at the beginning of a run, from the file of masks or from the zeros; weights that
 * it takes become 0. */
enum vc_status vc_masks_make(struct vc_learner *l, size_t entry)
{
    const struct vc_weight *item = &l->net.weights->items[entry];
    struct vc_weight_state *state = &l->optimizer.states[entry];

    vc_free(l->ctx, vc_give(&state->keep));
    state->n_masked = 0;
    if (!vc_masks_has(l, entry)) {
        return VC_OK;
    }
    if (l->options->sparsity.mask != NULL) {
        VC_CALL(read_mask(l, item, state));
    }
    if (state->keep == NULL) {
        VC_CALL_ALLOC(state->keep = vc_alloc(l->ctx, VC_TAG_TILES, (size_t)item->n));
        for (uint64_t i = 0; i < item->n; i++) {
            state->keep[i] = !is_zero(l, item, i);
        }
    }
    for (uint64_t i = 0; i < item->n; i++) {
        if (state->keep[i] != 0) {
            continue;
        }
        state->n_masked++;
        if (l->f64) {
            ((double *)item->data)[i] = 0;
        } else {
            ((float *)item->data)[i] = 0;
        }
    }
    l->report->n_masked += state->n_masked;
    return VC_OK;
}

/* ---- the report ---- */

/* The report has a line for the tensor. */
static bool is_told(const struct vc_learner *l, size_t entry)
{
    const struct vc_weight_zeros *z = &l->zeros[entry];

    return z->masked || vc_gradual_has(l, entry) ||
           (z->n != 0 && (double)z->n >= 0.2 * (double)l->net.weights->items[entry].n);
}

/* Zeros before and after, of tensors with masks or many zeros. */
enum vc_status vc_masks_report(struct vc_learner *l)
{
    const struct vc_weights *w = l->net.weights;
    struct vc_distill_zeros *list;
    size_t n = 0;

    for (size_t k = 0; l->zeros != NULL && k < w->n; k++) {
        n += is_told(l, k);
    }
    if (n == 0) {
        return VC_OK;
    }
    VC_CALL_ALLOC(list = vc_arena_alloc(l->ctx, l->texts, n * sizeof *list));
    l->report->zeros = list;
    for (size_t k = 0; k < w->n; k++) {
        const struct vc_weight *item = &w->items[k];

        if (!is_told(l, k)) {
            continue;
        }
        *list = (struct vc_distill_zeros){.name = vc_arena_copy(l->ctx, l->texts, item->name, strlen(item->name)),
                                          .n = item->n,
                                          .before = l->zeros[k].n,
                                          .kept = l->zeros[k].masked || vc_gradual_has(l, k)};
        VC_CALL_ALLOC(list->name);
        for (uint64_t i = 0; !l->options->dry_run && i < item->n; i++) {
            list->after += is_zero(l, item, i);
        }
        list++;
        l->report->n_zeros++;
    }
    return VC_OK;
}

/* Whether tensors that came pruned still have their zeros. */
enum vc_status vc_masks_gate(struct vc_learner *l, struct vc_arena *arena, const char **missed)
{
    const struct vc_distillation *r = l->report;
    double share = l->options->gates.expect_sparsity;
    uint64_t n = 0;
    uint64_t zeros = 0;
    uint64_t wanted = 0;

    for (size_t k = 0; k < r->n_zeros; k++) {
        const struct vc_distill_zeros *z = &r->zeros[k];

        if (z->kept || z->before < z->n) {
            n += z->n;
            zeros += z->after;
            wanted += (uint64_t)floor(share * (double)z->n);
        }
    }
    if (share <= 0 || (n != 0 && zeros >= wanted)) {
        return VC_OK;
    }
    *missed =
        n == 0 ? vc_arena_printf(l->ctx, arena, "no tensor of the student came pruned, %s asks for %g %% zeros",
                                 vc_option(l->ctx, "gates.expect_sparsity"), 100 * share)
               : vc_arena_printf(l->ctx, arena,
                                 "%llu of the %llu weights of tensors that came pruned are zero (%.2f %%), %s asks "
                                 "for %g %%: %llu",
                                 (unsigned long long)zeros, (unsigned long long)n, 100 * (double)zeros / (double)n,
                                 vc_option(l->ctx, "gates.expect_sparsity"), 100 * share, (unsigned long long)wanted);
    return *missed != NULL ? VC_OK : VC_E_NOMEM;
}
