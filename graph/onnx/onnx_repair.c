/* onnx_repair.c - which tensor of another checkpoint each tensor of an ONNX file is: the one of its name, or else the
 * one with its values, as they are or with the last two axes swapped.
 *
 *     onnx::MatMul_105 [64, 256] f32, no such name     ->     encoder.fc1.weight [256, 64], transposed
 *
 * Tensors are known by the sums of their bits first, which need one read of each; the bits are compared where the sums
 * agree. Two tensors of the checkpoint with the same values could both be meant: a problem, unless it says that they
 * are the same (alias_of).
 *
 * Called only with vc_graph_options.weights: the graph of an ONNX file with the weights of a checkpoint
 * that PyTorch saved, whose names exporters often lose. The order: names, then sums and values, then a
 * check for folded batch normalization. */
#include <stdlib.h>

#include <vcompress/quantize.h>

#include "core/base/array.h"
#include "core/text/text.h"
#include "graph/onnx/onnx_build.h"

/* A tensor with the sum of its elements' hashes, which does not depend on their order: a transposed tensor
 * has the same sum. */
struct weight_sum {
    const struct vc_model *model;
    size_t index;
    uint64_t sum; /* of hashes of the elements' bits: the same for any order of them */
    uint64_t n_elems;
    size_t of; /* the file's tensor that it is for; SIZE_MAX: of the checkpoint */
};

/* Mixes each element's bits (as splitmix64 does) before adding, so that swapping values among tensors
 * changes the sum. */
static enum vc_status sum_up(struct vc_ctx *ctx, struct weight_sum *c)
{
    VC_SCOPED float *values = NULL;

    c->n_elems = vc_model_tensor(c->model, c->index)->n_elems;
    VC_CALL_ALLOC(values = vc_alloc_array(ctx, VC_TAG_TILES, (size_t)c->n_elems, sizeof *values));
    VC_CALL(vc_tensor_read_f32(ctx, c->model, c->index, values, (size_t)c->n_elems));
    for (uint64_t k = 0; k < c->n_elems; k++) {
        uint32_t bits;

        memcpy(&bits, &values[k], sizeof bits);
        uint64_t h = (bits + (uint64_t)0x9e3779b97f4a7c15u) * 0xbf58476d1ce4e5b9u;
        c->sum += (h ^ h >> 31) * 0x94d049bb133111ebu;
    }
    return VC_OK;
}

/* The other tensor has the values of the constant `own`, as they are or transposed. */
static enum vc_status compare(struct vc_onnx_build *b, size_t own, size_t index, struct vc_onnx_likeness *like,
                              bool *transposed)
{
    const struct vc_tensor *t = vc_model_tensor(b->source->model, own);

    *like = (struct vc_onnx_likeness){.same = false};
    *transposed = false;
    for (unsigned k = 0; k < 2 && !like->same; k++) {
        if (vc_onnx_fits(t, vc_model_tensor(b->source->weights, index), k != 0, false) != 0) {
            *transposed = k != 0;
            VC_CALL(vc_onnx_compare(b, own, &(struct vc_onnx_match){.index = index, .transposed = k != 0}, like));
        }
    }
    return VC_OK;
}

/* By number of elements, sum, then index: the first match in a problem's sentence is the same on every
 * machine. */
static int by_sum(const void *a, const void *b)
{
    const struct weight_sum *x = a;
    const struct weight_sum *y = b;

    if (x->n_elems != y->n_elems) {
        return x->n_elems < y->n_elems ? -1 : 1;
    }
    if (x->sum != y->sum) {
        return x->sum < y->sum ? -1 : 1;
    }
    if (x->index != y->index) {
        return x->index < y->index ? -1 : 1;
    }
    return 0;
}

/* The first of the sorted sums that is not before `c` by elements and sum. */
static size_t first_like(const struct weight_sum *list, size_t n, const struct weight_sum *c)
{
    size_t low;

    VC_BISECT(low, n, k, list[k].n_elems < c->n_elems || (list[k].n_elems == c->n_elems && list[k].sum < c->sum));
    return low;
}

/* Looks at all tensors with the number of elements and the sum of c. Of two with the same values the place of the constant
 * says which it is, or it is a problem: training or quantizing the wrong one would not show. */
static enum vc_status match(struct vc_onnx_build *b, const struct weight_sum *c, const struct weight_sum *list,
                            size_t n, uint64_t *claimed)
{
    struct vc_onnx_match *to = &b->matches[c->of];
    struct vc_onnx_likeness like = {.same = false};
    const char *names[2] = {NULL, NULL};

    for (size_t k = first_like(list, n, c);
         k < n && names[1] == NULL && list[k].n_elems == c->n_elems && list[k].sum == c->sum; k++) {
        bool transposed;

        VC_CALL(compare(b, c->of, list[k].index, &like, &transposed));
        if (like.same) {
            names[names[0] != NULL] = vc_model_tensor(b->source->weights, list[k].index)->name;
            to->index = list[k].index;
            to->transposed = transposed;
        }
    }
    if (names[0] != NULL && (names[1] != NULL || like.uniform)) { /* ones and zeros tell nothing */
        to->index = VC_NO_TENSOR;
        to->transposed = false;
        if (to->open) {
            VC_CALL(vc_onnx_find_place(b, c->of, claimed, to));
        }
        if (to->index == VC_NO_TENSOR && !like.uniform) {
            vc_graph_complain(b->graph, "%s has the values of %s and of %s; which of them it is cannot be told",
                              vc_model_tensor(c->model, c->index)->name, names[0], names[1]);
        }
    } else if (to->index != VC_NO_TENSOR) {
        claimed[to->index] = UINT64_MAX;
    }
    return VC_OK;
}

/* Tensors of the file. */
static size_t count_own(const struct vc_onnx_build *b)
{
    return b->source->model != NULL ? b->source->model->n_tensors : 0;
}

/* The first reader of each constant of the file's graph; order: the constants as they are read, n_order of them. What an
 * Identity names is claimed (vc_onnx_other_name). */
static void note_readers(struct vc_onnx_build *b, uint64_t *claimed, size_t *order, size_t *n_order)
{
    for (size_t k = 0; k < b->program->n_nodes; k++) {
        const struct vc_program_node *node = &b->program->nodes[k];
        bool same = strcmp(node->op, "Identity") == 0 && node->n_outputs == 1;
        size_t named = same ? vc_model_find(b->source->weights, node->outputs[0]) : VC_NO_TENSOR;

        if (named != VC_NO_TENSOR) {
            claimed[named] = UINT64_MAX;
        }
        for (unsigned i = 0; i < node->n_inputs && !same; i++) {
            const struct vc_onnx_name *name = vc_onnx_find_name(b, node->inputs[i]);
            size_t index = name != NULL && name->maker == VC_ONNX_BY_CONSTANT && name->program == b->program
                               ? b->program->constants[name->number].index
                               : VC_NO_TENSOR;

            if (index != VC_NO_TENSOR && b->matches[index].reader == NULL) {
                b->matches[index].reader = node;
                b->matches[index].input = i;
                order[(*n_order)++] = index;
            }
        }
    }
}

/* Of this graph and those inside its nodes, which have the same matches. */
static void note_constants(struct vc_onnx_build *b, struct vc_onnx_match *matches)
{
    b->matches = matches;
    for (size_t k = 0; b->source->model != NULL && k < b->program->n_constants; k++) {
        if (b->program->constants[k].index != VC_NO_TENSOR) {
            matches[b->program->constants[k].index].there = true;
        }
    }
    for (size_t k = 0; b->inner != NULL && k < b->program->n_nodes; k++) {
        for (struct vc_onnx_build *inner = b->inner[k]; inner != NULL; inner = inner->next) {
            note_constants(inner, matches);
        }
    }
}

/* The tensor with the same name, which must have the shape that the graph knows. False: there is none. */
static bool by_name(struct vc_onnx_build *b, const struct vc_tensor *t, size_t number, uint64_t *claimed)
{
    size_t index = vc_model_find(b->source->weights, t->name);

    if (index == VC_NO_TENSOR || !vc_onnx_is_weight(vc_model_tensor(b->source->weights, index))) {
        return false;
    }
    const struct vc_tensor *other = vc_model_tensor(b->source->weights, index);
    VC_LEAVE_WITH(t->n_dims != other->n_dims || memcmp(t->shape, other->shape, t->n_dims * sizeof *t->shape) != 0,
                  vc_graph_complain(b->graph, "%s has another shape in the checkpoint", t->name), true);
    b->matches[number].index = index;
    claimed[index] = UINT64_MAX;
    return true;
}

/* A single number that no weight, norm or bias is (an epsilon, the bounds of a Clip) stays a constant of the graph,
 * which rewrites look for, unless the checkpoint has another number under its name. */
static enum vc_status stays_constant(struct vc_onnx_build *b, const struct vc_tensor *t, size_t number,
                                     uint64_t *claimed, bool *stays)
{
    const struct vc_model *weights = b->source->weights;
    size_t index = vc_model_find(weights, t->name);
    float own, other;

    const char *leaf = strrchr(t->name, '.'); /* of PyTorch's slope for PReLU, say */

    *stays = t->n_elems == 1 && (t->use == VC_USE_UNKNOWN || t->use > VC_USE_BIAS) &&
             (leaf == NULL || !vc_is_one_of(leaf + 1, "weight bias"));
    if (*stays && index != VC_NO_TENSOR && vc_onnx_is_weight(vc_model_tensor(weights, index)) &&
        vc_model_tensor(weights, index)->n_elems == 1) {
        VC_CALL(vc_tensor_read_f32(b->ctx, b->source->model, number, &own, 1));
        VC_CALL(vc_tensor_read_f32(b->ctx, weights, index, &other, 1));
        *stays = memcmp(&own, &other, sizeof own) == 0;
        claimed[index] = UINT64_MAX;
    }
    return VC_OK;
}

/* Reads each tensor of the checkpoint that no name has claimed, and sorts them by what they add up to. */
static enum vc_status sum_weights(struct vc_onnx_build *b, const uint64_t *claimed, struct weight_sum *list, size_t *n)
{
    const struct vc_model *weights = b->source->weights;

    for (size_t k = 0; k < weights->n_tensors; k++) {
        const struct vc_tensor *t = vc_model_tensor(weights, k);

        if (claimed[k] == 0 && vc_onnx_is_weight(t) && !vc_onnx_is_raw(t) && t->alias_of == VC_NO_TENSOR) {
            list[*n] = (struct weight_sum){.model = weights, .index = k, .of = SIZE_MAX};
            VC_CALL(sum_up(b->ctx, &list[*n]));
            (*n)++;
        }
    }
    if (*n > 1) {
        qsort(list, *n, sizeof *list, by_sum);
    }
    return VC_OK;
}

/* ---- folded batch normalization ---- */

/* A variance of the checkpoint that no tensor of the graph is; NULL: there is none. */
static const struct vc_tensor *left_variance(const struct vc_onnx_build *b, const uint64_t *claimed)
{
    for (size_t k = 0; k < b->source->weights->n_tensors; k++) {
        const struct vc_tensor *t = vc_model_tensor(b->source->weights, k);

        if (claimed[k] == 0 && t->n_dims == 1 && vc_onnx_is_weight(t) && vc_onnx_is_variance(t->name)) {
            return t;
        }
    }
    return NULL;
}

/* A tensor of the checkpoint that has other values than the file's: *found; NULL: there is none that can be compared. */
static enum vc_status find_other_values(struct vc_onnx_build *b, const struct vc_tensor **found)
{
    struct vc_onnx_likeness like = {.same = true};

    for (size_t k = 0; k < count_own(b) && like.same; k++) {
        if (b->matches[k].index != VC_NO_TENSOR && !b->matches[k].gates) {
            VC_CALL(vc_onnx_compare(b, k, &b->matches[k], &like));
            *found = like.same ? NULL : vc_model_tensor(b->source->weights, b->matches[k].index);
        }
    }
    return VC_OK;
}

static void complain_folded(struct vc_onnx_build *b, const char *name, const char *from)
{
    vc_graph_complain(
        b->graph,
        "%s was computed of other tensors, such as %s, when the graph was exported, and the checkpoint has "
        "other values than the graph: export it without constant folding "
        "(torch.onnx.export with optimize=False, or dynamo=False, training=TrainingMode.TRAINING, "
        "do_constant_folding=False)",
        name, from);
}

/* All numbers of the tensor are 0, or 1: *nothing. */
static enum vc_status is_nothing(struct vc_ctx *ctx, const struct vc_model *model, size_t index, bool *nothing)
{
    const struct vc_tensor *t = vc_model_tensor(model, index);
    VC_SCOPED float *w = vc_alloc_array(ctx, VC_TAG_TILES, (size_t)t->n_elems, sizeof *w);
    size_t k = 0;

    VC_CALL_ALLOC(w);
    VC_CALL(vc_tensor_read_f32(ctx, model, index, w, (size_t)t->n_elems));
    while (k < (size_t)t->n_elems && w[k] == w[0]) {
        k++;
    }
    *nothing = *nothing || (k == (size_t)t->n_elems && (w[0] == 0 || w[0] == 1));
    return VC_OK;
}

/* The constant is one number alone. */
static enum vc_status look_at(struct vc_onnx_build *b, size_t own, bool *uniform)
{
    const struct vc_tensor *t = vc_model_tensor(b->source->model, own);
    VC_SCOPED float *c = vc_alloc_array(b->ctx, VC_TAG_TILES, (size_t)t->n_elems + 1, sizeof *c);

    VC_CALL_ALLOC(c);
    VC_CALL(vc_tensor_read_f32(b->ctx, b->source->model, own, c, (size_t)t->n_elems));
    *uniform = true;
    for (size_t k = 0; *uniform && k < (size_t)t->n_elems; k++) {
        *uniform = memcmp(&c[k], c, sizeof *c) == 0;
    }
    return VC_OK;
}

/* The constant is a vector of the file again and again, which the checkpoint has a tensor for: W_hh 0 + bias_hh in the first
 * step of an RNN, [1, 5, 6] of [6]. It is then that tensor again and again. Of one number alone, such as zeros, that may be
 * by chance: *from: the tensor, which has other numbers now; NULL: there is none. */
static enum vc_status find_repeated(struct vc_onnx_build *b, size_t own, const struct vc_tensor **from)
{
    const struct vc_tensor *t = vc_model_tensor(b->source->model, own);
    struct vc_onnx_match *to = &b->matches[own];
    struct vc_onnx_likeness like = {.same = true};
    size_t n = t->n_dims > 1 ? (size_t)t->shape[t->n_dims - 1] : 0;
    VC_SCOPED float *c = NULL;
    VC_SCOPED float *w = NULL;

    for (size_t k = 0; n > 1 && *from == NULL && to->index == VC_NO_TENSOR && k < count_own(b); k++) {
        const struct vc_tensor *vector = vc_model_tensor(b->source->model, k);
        bool uniform = true;
        bool same = true;

        if (b->matches[k].index == VC_NO_TENSOR || vector->n_dims != 1 || vector->n_elems != n) {
            continue;
        }
        if (c == NULL) {
            VC_CALL_ALLOC(c = vc_alloc_array(b->ctx, VC_TAG_TILES, (size_t)t->n_elems, sizeof *c));
            VC_CALL_ALLOC(w = vc_alloc_array(b->ctx, VC_TAG_TILES, n, sizeof *w));
            VC_CALL(vc_tensor_read_f32(b->ctx, b->source->model, own, c, (size_t)t->n_elems));
        }
        VC_CALL(vc_tensor_read_f32(b->ctx, b->source->model, k, w, n));
        for (size_t i = 0; same && i < (size_t)t->n_elems; i++) {
            same = c[i] == w[i % n]; /* 0 and -0, too */
            uniform = uniform && c[i] == c[0];
        }
        if (same && !uniform && vc_model_tensor(b->source->weights, b->matches[k].index)->n_dims == 1) {
            to->index = b->matches[k].index;
            to->first = b->matches[k].first;
            to->count = b->matches[k].count;
            to->repeated = true;
        } else if (same && (!uniform || (to->reader != NULL && strcmp(to->reader->op, "Add") == 0))) {
            VC_CALL(vc_onnx_compare(b, k, &b->matches[k], &like));
            *from = like.same ? NULL : vc_model_tensor(b->source->weights, b->matches[k].index);
        }
    }
    return VC_OK;
}

/* A constant that may be computed of weights, and that no tensor of the checkpoint is. */
static bool is_loose(const struct vc_onnx_build *b, size_t own)
{
    const struct vc_onnx_match *match = &b->matches[own];

    return match->there && match->index == VC_NO_TENSOR && !match->known &&
           vc_onnx_is_weight(vc_model_tensor(b->source->model, own)) &&
           (match->open || match->unnamed || (match->reader != NULL && match->reader->trace != NULL));
}

/* What loose constants are computed of, as the checkpoint is now. used: vc_onnx_find_origin. *made, *from: as of find_stale. */
static enum vc_status find_origins(struct vc_onnx_build *b, uint64_t *used, const char **made,
                                   const struct vc_tensor **from)
{
    size_t n_left = 0;

    for (size_t i = 0; i < b->source->weights->n_tensors; i++) {
        n_left += used[i] != UINT64_MAX && vc_onnx_is_weight(vc_model_tensor(b->source->weights, i));
    }
    for (size_t k = 0; k < count_own(b) && *from == NULL; k++) {
        *made = vc_model_tensor(b->source->model, k)->name;
        if (is_loose(b, k)) {
            VC_CALL(find_repeated(b, k, from));
        }
        if (is_loose(b, k) && n_left != 0) {
            VC_CALL(vc_onnx_find_origin(b, k, b->source->weights, used, &b->matches[k].known));
        }
    }
    return VC_OK;
}

/* Constants that were taken for a tensor of other values while one beside it, of which nothing is, may have been multiplied with
 * it: they are known where that is so, and else *made was computed of *from. */
static enum vc_status doubt_akin(struct vc_onnx_build *b, uint64_t *used, const char **made,
                                 const struct vc_tensor **from)
{
    const struct vc_model *weights = b->source->weights;

    for (size_t k = 0; k < count_own(b) && *from == NULL; k++) {
        struct vc_onnx_match *match = &b->matches[k];
        struct vc_onnx_likeness like = {.same = true};
        const struct vc_tensor *beside = NULL;

        if (!match->open || match->index == VC_NO_TENSOR || match->gates || match->repeated ||
            (match->reader != NULL && match->reader->trace != NULL)) {
            continue;
        }
        const char *name = vc_model_tensor(weights, match->index)->name;
        for (size_t i = 0; i < weights->n_tensors && beside == NULL; i++) {
            const struct vc_tensor *t = vc_model_tensor(weights, i);

            beside = used[i] == 0 && vc_onnx_is_weight(t) && vc_onnx_are_beside(name, t->name) ? t : NULL;
        }
        if (beside != NULL) {
            VC_CALL(vc_onnx_compare(b, k, match, &like));
        }
        if (!like.same) {
            used[match->index] = 0;
            VC_CALL(vc_onnx_find_origin(b, k, weights, used, &match->known));
            match->index = VC_NO_TENSOR;
            match->transposed = false;
            match->count = 0;
            *from = match->known ? NULL : beside;
            *made = vc_model_tensor(b->source->model, k)->name;
        }
    }
    return VC_OK;
}

/* Of the weights in the file, the constant `own` is computed of one that the checkpoint has other values of: *from. */
static enum vc_status find_changed(struct vc_onnx_build *b, size_t own, const struct vc_tensor **from)
{
    VC_SCOPED uint64_t *used = NULL;
    struct vc_onnx_likeness like = {.same = true};
    bool found;

    VC_CALL(VC_ZEROS(b->ctx, VC_TAG_NAMES, used, count_own(b) + 1));
    for (size_t k = 0; k < count_own(b); k++) {
        used[k] = b->matches[k].index != VC_NO_TENSOR && !b->matches[k].gates ? 0 : VC_ONNX_UNRELATED;
    }
    VC_CALL(vc_onnx_find_origin(b, own, b->source->model, used, &found));
    for (size_t k = 0; k < count_own(b) && like.same; k++) {
        if (used[k] != 0 && used[k] != VC_ONNX_UNRELATED) {
            VC_CALL(vc_onnx_compare(b, k, &b->matches[k], &like));
            *from = like.same ? NULL : vc_model_tensor(b->source->weights, b->matches[k].index);
        }
    }
    return VC_OK;
}

/* The first constant that is computed of tensors which have changed, as far as can be told: *made, and *from, one of them.
 * changed: some tensor has. */
static enum vc_status find_stale(struct vc_onnx_build *b, const uint64_t *used, bool changed, const char **made,
                                 const struct vc_tensor **from)
{
    for (size_t k = 0; k < count_own(b) && *from == NULL; k++) {
        bool uniform = true;

        if (!is_loose(b, k)) {
            continue;
        }
        VC_CALL(look_at(b, k, &uniform));
        *from = vc_onnx_made_of(b, k, !uniform, used);
        *made = vc_model_tensor(b->source->model, k)->name;
        if (*from != NULL && used[vc_model_find(b->source->weights, (*from)->name)] == UINT64_MAX && !changed) {
            *from = NULL;
        }
        if (*from == NULL && changed && !uniform) {
            VC_CALL(find_changed(b, k, from));
        }
    }
    return VC_OK;
}

/* The file has those values under the name of a tensor that has others in the checkpoint: equal tensors were kept once. */
static enum vc_status was_equal(struct vc_onnx_build *b, const struct weight_sum *lost, bool *equal)
{
    struct vc_onnx_likeness like = {.same = true};

    for (size_t k = 0; k < count_own(b) && like.same; k++) {
        struct weight_sum own = {.model = b->source->model, .index = k};

        if (b->matches[k].index == VC_NO_TENSOR || b->matches[k].gates ||
            vc_model_tensor(own.model, k)->n_elems != lost->n_elems) {
            continue;
        }
        VC_CALL(sum_up(b->ctx, &own));
        if (own.sum == lost->sum) {
            VC_CALL(vc_onnx_compare(b, k, &b->matches[k], &like));
        }
    }
    *equal = !like.same;
    return VC_OK;
}

/* A tensor that the file's notes name and of which nothing in the graph is computed: *from. It was left out as zeros or ones,
 * or kept once with an equal one, and the checkpoint has no longer such values. */
static enum vc_status find_left_out(struct vc_onnx_build *b, const uint64_t *used, const struct vc_tensor **from)
{
    const struct vc_model *weights = b->source->weights;

    for (size_t k = vc_onnx_find_lost(b, used, 0); k != VC_NO_TENSOR; k = vc_onnx_find_lost(b, used, k + 1)) {
        struct weight_sum lost = {.model = weights, .index = k};
        const struct vc_tensor *t = vc_model_tensor(weights, k);
        bool same = false;
        bool once;

        VC_CALL(sum_up(b->ctx, &lost));
        for (size_t i = 0; i < weights->n_tensors && !same; i++) {
            struct weight_sum other = {.model = weights, .index = i};

            if (used[i] == UINT64_MAX && vc_onnx_is_weight(vc_model_tensor(weights, i)) &&
                vc_model_tensor(weights, i)->n_elems == t->n_elems) {
                VC_CALL(sum_up(b->ctx, &other));
                same = other.sum == lost.sum;
            }
        }
        VC_CALL(was_equal(b, &lost, &once));
        if (!once) {
            VC_CALL(is_nothing(b->ctx, weights, k, &same));
        }
        if (!same) {
            *from = t;
            return VC_OK;
        }
    }
    return VC_OK;
}

/* A file in which batch normalization was folded into the weights cannot take the checkpoint's weights,
 * which are not folded: a variance of the checkpoint is then left over, and weights with equal names have
 * other values. Such a pair is refused, and so is one with a constant that was computed of weights which are not what they were. */
static enum vc_status refuse_folded(struct vc_onnx_build *b, uint64_t *used)
{
    const struct vc_model *weights = b->source->weights;
    const struct vc_tensor *other = NULL; /* has other values than the graph */
    const struct vc_tensor *from = NULL;
    const char *made = NULL;

    for (size_t i = 0; i < weights->n_tensors; i++) { /* rows so far */
        const struct vc_tensor *t = vc_model_tensor(weights, i);

        if (used[i] != UINT64_MAX && used[i] != 0) {
            used[i] = used[i] >= t->shape[0] ? UINT64_MAX : used[i] * (t->n_elems / t->shape[0]);
        }
    }
    VC_CALL(find_other_values(b, &other));
    VC_CALL(doubt_akin(b, used, &made, &from));
    VC_CALL(find_origins(b, used, &made, &from));
    const struct vc_tensor *variance = left_variance(b, used);
    if (variance != NULL && other != NULL) {
        vc_graph_complain(b->graph,
                          "%s of the checkpoint has no place in the graph, and %s has other values than there: batch "
                          "normalization was folded into the graph's weights; export it without that, or use its own",
                          variance->name, other->name);
        return VC_OK;
    }
    if (from == NULL) {
        VC_CALL(find_stale(b, used, other != NULL, &made, &from));
    }
    if (from != NULL) {
        complain_folded(b, made, from->name);
        return VC_OK;
    }
    VC_CALL(find_left_out(b, used, &from));
    if (from != NULL) {
        vc_graph_complain(b->graph,
                          "%s of the checkpoint is nowhere in the graph, whose exporter left it out as zeros, kept it "
                          "once with an equal tensor or computed with it, and the checkpoint has other values: export "
                          "the graph with torch.onnx.export(optimize=False)",
                          from->name);
    }
    return VC_OK;
}

/* ---- one tensor with several names ---- */

/* The tensor of the checkpoint that has the name, or the place of the first node that reads it, where the exporter made
 * the name up; with the shape and the rows that x has of its own. VC_NO_TENSOR: there is none. */
static size_t named_too(struct vc_onnx_build *b, const struct vc_onnx_name *base, const struct vc_graph_param *param,
                        const char *name)
{
    const struct vc_model *weights = b->source->weights;
    size_t index = vc_model_find(weights, name);
    struct vc_onnx_match place = {.index = VC_NO_TENSOR};

    if (index == VC_NO_TENSOR && base != NULL && base->maker == VC_ONNX_BY_CONSTANT && vc_onnx_is_made_up(name)) {
        for (size_t k = 0; k < b->program->n_nodes && place.reader == NULL; k++) {
            const struct vc_program_node *node = &b->program->nodes[k];

            for (unsigned i = 0; i < node->n_inputs; i++) {
                if (strcmp(node->inputs[i], name) == 0) {
                    place.reader = node;
                    place.input = i;
                }
            }
        }
        b->graph->status = vc_onnx_find_place(b, base->program->constants[base->number].index, NULL, &place);
        index = place.gates || place.repeated || place.transposed != param->transposed ? VC_NO_TENSOR : place.index;
    }
    const struct vc_tensor *t = index != VC_NO_TENSOR ? vc_model_tensor(weights, index) : NULL;
    return t == NULL || !vc_onnx_is_weight(t) || place.count != (param->sliced ? param->count : 0) ||
                   t->n_dims != param->n_dims || memcmp(t->shape, param->shape, t->n_dims * sizeof *t->shape) != 0
               ? VC_NO_TENSOR
               : index;
}

/* Two tensors of ones or zeros are equal by chance, as those of a network are before training: no matter while the
 * checkpoint has the same numbers. */
static enum vc_status check_uniform(struct vc_onnx_build *b, size_t own, size_t index, const char *name)
{
    struct vc_onnx_likeness like;
    bool transposed;

    VC_CALL(compare(b, own, index, &like, &transposed));
    if (!like.same && like.uniform) {
        complain_folded(b, name, vc_model_tensor(b->source->model, own)->name);
    }
    return VC_OK;
}

/* Where the checkpoint has a tensor of that name and shape, it is a parameter of its own (it may have
 * diverged); else the name is noted as another name of x. */
uint32_t vc_onnx_other_name(struct vc_onnx_build *b, uint32_t x, const char *name)
{
    const struct vc_graph_param *param = &b->graph->params[b->graph->values[x].param];
    struct vc_onnx_name *base = vc_onnx_find_name(b, b->graph->values[x].name);
    size_t index = b->source->weights != NULL ? named_too(b, base, param, name) : VC_NO_TENSOR;

    if (index == VC_NO_TENSOR) {
        vc_graph_also(b->graph, b->graph->values[x].param, name);
        if (param->from_weights && base != NULL && base->maker == VC_ONNX_BY_CONSTANT && vc_onnx_is_made_up(name)) {
            b->graph->status = check_uniform(b, b->program->constants[base->number].index, param->index, name);
        }
        return x;
    }
    if (base != NULL) {
        base->n_uses--;
    }
    if (param->from_weights && index == param->index) { /* the exporter swapped its axes twice */
        return x;
    }
    const struct vc_tensor *t = vc_model_tensor(b->source->weights, index);
    return vc_graph_add_param(b->graph, name,
                              &(struct vc_param_spec){.tensor = t->name,
                                                      .index = index,
                                                      .from_weights = true,
                                                      .n_dims = t->n_dims,
                                                      .shape = t->shape,
                                                      .sliced = param->sliced,
                                                      .axis = param->axis,
                                                      .first = param->first,
                                                      .count = param->count,
                                                      .transposed = param->transposed});
}

/* Once all nodes are there: the base name of a parameter may be used by nothing but Identity nodes; then
 * one of the other names is its only name. */
void vc_onnx_count_names(struct vc_onnx_build *b)
{
    for (uint32_t k = 0; k < b->graph->n_params; k++) {
        struct vc_graph_param *param = &b->graph->params[k];
        const struct vc_onnx_name *base =
            param->n_also != 0 ? vc_onnx_find_name(b, b->graph->values[param->value].name) : NULL;

        if (base != NULL && base->n_uses <= param->n_also) {
            param->n_also--;
            param->also = param->n_also != 0 ? param->also : NULL;
        }
    }
}

/* list: first the sums of the checkpoint, sorted; from vc_model_tensor_count on the constants that no name
 * matched. Sums are computed only if there are such constants, since each needs a read of the whole tensor. */
enum vc_status vc_onnx_match_weights(struct vc_onnx_build *b)
{
    const struct vc_model *weights = b->source->weights;
    VC_SCOPED struct weight_sum *list = NULL;
    VC_SCOPED uint64_t *claimed = NULL;
    VC_SCOPED size_t *order = NULL;
    VC_SCOPED float *samples = NULL; /* of find_akin */
    size_t n = 0;
    size_t n_left = 0;
    size_t n_order = 0;
    size_t n_samples = 0;

    VC_CALL(VC_ZEROS(b->ctx, VC_TAG_NAMES, b->matches, count_own(b) + 1));
    note_constants(b, b->matches);
    VC_CALL(VC_ZEROS(b->ctx, VC_TAG_NAMES, list, weights->n_tensors + count_own(b) + 1));
    VC_CALL(VC_ZEROS(b->ctx, VC_TAG_NAMES, claimed, weights->n_tensors + 1));
    VC_CALL(VC_ZEROS(b->ctx, VC_TAG_NAMES, order, count_own(b) + 1));
    note_readers(b, claimed, order, &n_order);
    for (size_t k = 0; k < count_own(b); k++) {
        b->matches[k].index = VC_NO_TENSOR;
    }
    for (size_t k = 0; k < count_own(b); k++) {
        const struct vc_tensor *t = vc_model_tensor(b->source->model, k);

        bool stays = !b->matches[k].there || !vc_onnx_is_weight(t);
        if (!stays) {
            b->matches[k].open = vc_onnx_is_made_up(t->name);
            VC_CALL(stays_constant(b, t, k, claimed, &stays));
        }
        b->matches[k].unnamed = !stays && !by_name(b, t, k, claimed);
        if (b->matches[k].unnamed && t->n_elems > 1) { /* of single numbers the name alone tells */
            list[weights->n_tensors + n_left++] = (struct weight_sum){.model = b->source->model, .index = k, .of = k};
        }
    }
    if (n_left != 0) {
        VC_CALL(sum_weights(b, claimed, list, &n));
    }
    for (size_t k = 0; k < n_left; k++) {
        struct weight_sum *c = &list[weights->n_tensors + k];

        VC_CALL(vc_check_cancelled(b->ctx));
        VC_CALL(sum_up(b->ctx, c));
        VC_CALL(match(b, c, list, n, claimed));
    }
    for (size_t k = 0; k < n_order; k++) {
        if (b->matches[order[k]].open && b->matches[order[k]].index == VC_NO_TENSOR) {
            VC_CALL(vc_onnx_find_place(b, order[k], claimed, &b->matches[order[k]]));
        }
    }
    for (size_t k = 0; k < count_own(b); k++) {
        if (b->matches[k].open && b->matches[k].index == VC_NO_TENSOR) {
            if (samples == NULL) {
                for (size_t i = 0; i < weights->n_tensors; i++) {
                    n_samples += vc_onnx_sample_count(vc_model_tensor(weights, i)) + 1;
                }
                VC_CALL(VC_ZEROS(b->ctx, VC_TAG_NAMES, samples, n_samples + 1));
            }
            VC_CALL(vc_onnx_find_akin(b, k, claimed, samples, &b->matches[k]));
        }
    }
    return refuse_folded(b, claimed);
}
