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

/* Tensors that can be matched: float values with at least one element; parts of quantized weights belong to
 * their weight. */
static bool is_weight(const struct vc_tensor *t)
{
    return vc_onnx_is_real(t) && t->part_of == VC_NO_TENSOR && t->n_elems != 0;
}

static enum vc_status read_tensor(struct vc_ctx *ctx, const struct vc_model *model, size_t index, float **values)
{
    const struct vc_tensor *t = vc_model_tensor(model, index);

    *values = t->n_elems <= SIZE_MAX ? vc_alloc_array(ctx, VC_TAG_TILES, (size_t)t->n_elems, sizeof **values) : NULL;
    VC_CALL_ALLOC(*values);
    enum vc_status status = vc_tensor_read_f32(ctx, model, index, *values, (size_t)t->n_elems);
    if (status != VC_OK) {
        vc_free(ctx, *values);
        *values = NULL;
    }
    return status;
}

/* Mixes each element's bits (as splitmix64 does) before adding, so that swapping values among tensors
 * changes the sum. */
static enum vc_status sum_up(struct vc_ctx *ctx, struct weight_sum *c)
{
    float *values;

    c->n_elems = vc_model_tensor(c->model, c->index)->n_elems;
    VC_CALL(read_tensor(ctx, c->model, c->index, &values));
    for (uint64_t k = 0; k < c->n_elems; k++) {
        uint32_t bits;

        memcpy(&bits, &values[k], sizeof bits);
        uint64_t h = (bits + (uint64_t)0x9e3779b97f4a7c15u) * 0xbf58476d1ce4e5b9u;
        c->sum += (h ^ h >> 31) * 0x94d049bb133111ebu;
    }
    vc_free(ctx, values);
    return VC_OK;
}

/* Equal shapes, or equal with the last two dimensions swapped. */
static bool same_dims(const struct vc_tensor *a, const struct vc_tensor *b, bool transposed)
{
    if (a->n_dims != b->n_dims || (transposed && a->n_dims < 2)) {
        return false;
    }
    for (unsigned d = 0; d < a->n_dims; d++) {
        unsigned other = !transposed || d + 2 < a->n_dims ? d : d + 2 == a->n_dims ? d + 1 : d - 1;

        if (a->shape[d] != b->shape[other]) {
            return false;
        }
    }
    return true;
}

/* Bit by bit: NaN equals NaN, and 0 differs from -0. Transposed: element [i, j] of a is [j, i] of b. */
static bool same_values(const struct vc_tensor *a, const float *x, const float *y, bool transposed)
{
    uint64_t rows = a->n_dims < 2 ? 1 : a->shape[a->n_dims - 2];
    uint64_t columns = a->shape[a->n_dims - 1];

    if (!transposed) {
        return memcmp(x, y, (size_t)a->n_elems * sizeof *x) == 0;
    }
    for (uint64_t k = 0; k < a->n_elems; k++) {
        uint64_t in = k % (rows * columns);

        if (memcmp(&x[k], &y[k - in + in % columns * rows + in / columns], sizeof *x) != 0) {
            return false;
        }
    }
    return true;
}

/* Compares the values of t with those of `other`: as they are, then transposed. */
static enum vc_status compare(struct vc_ctx *ctx, const struct vc_tensor *t, const float *values,
                              const struct weight_sum *other, bool *same, bool *transposed)
{
    const struct vc_tensor *o = vc_model_tensor(other->model, other->index);
    VC_SCOPED float *theirs = NULL;

    *same = false;
    if (!same_dims(t, o, false) && !same_dims(t, o, true)) {
        return VC_OK;
    }
    VC_CALL(read_tensor(ctx, other->model, other->index, &theirs));
    *transposed = false;
    *same = same_dims(t, o, false) && same_values(t, values, theirs, false);
    if (!*same && same_dims(t, o, true)) {
        *transposed = true;
        *same = same_values(t, values, theirs, true);
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

/* Looks at all tensors with the number of elements and the sum of c. Two with the same values are a
 * problem: training or quantizing the wrong one would not show. */
static enum vc_status match(struct vc_onnx_build *b, const struct weight_sum *c, const struct weight_sum *list,
                            size_t n)
{
    const struct vc_tensor *t = vc_model_tensor(c->model, c->index);
    struct vc_onnx_match *to = &b->matches[c->of];
    VC_SCOPED float *values = NULL;

    VC_CALL(read_tensor(b->ctx, c->model, c->index, &values));
    for (size_t k = first_like(list, n, c); k < n && list[k].n_elems == c->n_elems && list[k].sum == c->sum; k++) {
        bool same;
        bool transposed = false;

        VC_CALL(compare(b->ctx, t, values, &list[k], &same, &transposed));
        if (same && to->index != VC_NO_TENSOR) {
            vc_graph_complain(b->graph, "%s has the values of %s and of %s; which of them it is cannot be told",
                              t->name, vc_model_tensor(b->source->weights, to->index)->name,
                              vc_model_tensor(b->source->weights, list[k].index)->name);
            break;
        }
        if (same) {
            *to = (struct vc_onnx_match){.index = list[k].index, .transposed = transposed};
        }
    }
    return VC_OK;
}

/* Tensors of the file. */
static size_t count_own(const struct vc_onnx_build *b)
{
    return b->source->model != NULL ? vc_model_tensor_count(b->source->model) : 0;
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

/* The tensor with the same name, which must have the shape that the graph knows. False if there is none. */
static bool by_name(struct vc_onnx_build *b, const struct vc_tensor *t, size_t number)
{
    size_t index = vc_model_find(b->source->weights, t->name);

    if (index == VC_NO_TENSOR || !is_weight(vc_model_tensor(b->source->weights, index))) {
        return false;
    }
    VC_LEAVE_WITH(!same_dims(t, vc_model_tensor(b->source->weights, index), false),
                  vc_graph_complain(b->graph, "%s has another shape in the checkpoint", t->name), true);
    b->matches[number].index = index;
    return true;
}

/* A single number that no weight, norm or bias is (an epsilon, the bounds of a Clip) stays a constant of the graph,
 * which rewrites look for, unless the checkpoint has another number under its name. */
static enum vc_status stays_constant(struct vc_onnx_build *b, const struct vc_tensor *t, size_t number, bool *stays)
{
    const struct vc_model *weights = b->source->weights;
    size_t index = vc_model_find(weights, t->name);
    float own, other;

    *stays = t->n_elems == 1 && (t->use == VC_USE_UNKNOWN || t->use > VC_USE_BIAS);
    if (*stays && index != VC_NO_TENSOR && is_weight(vc_model_tensor(weights, index)) &&
        vc_model_tensor(weights, index)->n_elems == 1) {
        VC_CALL(vc_tensor_read_f32(b->ctx, b->source->model, number, &own, 1));
        VC_CALL(vc_tensor_read_f32(b->ctx, weights, index, &other, 1));
        *stays = memcmp(&own, &other, sizeof own) == 0;
    }
    return VC_OK;
}

/* Reads each tensor of the checkpoint that no name has claimed, and sorts them by what they add up to. */
static enum vc_status sum_weights(struct vc_onnx_build *b, struct weight_sum *list, size_t *n)
{
    const struct vc_model *weights = b->source->weights;
    VC_SCOPED bool *claimed =
        vc_calloc_array(b->ctx, VC_TAG_NAMES, vc_model_tensor_count(weights) + 1, sizeof *claimed);

    VC_CALL_ALLOC(claimed);
    for (size_t k = 0; k < count_own(b); k++) {
        if (b->matches[k].index != VC_NO_TENSOR) {
            claimed[b->matches[k].index] = true;
        }
    }
    for (size_t k = 0; k < vc_model_tensor_count(weights); k++) {
        const struct vc_tensor *t = vc_model_tensor(weights, k);

        if (!claimed[k] && is_weight(t) && t->alias_of == VC_NO_TENSOR) {
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

/* The name of a variance that batch normalization has counted: PyTorch's, Keras', Flax'. */
static bool is_variance(const char *name)
{
    static const char *const ends[] = {"running_var", "moving_variance", "moving_variance:0", "/var", ".var"};
    size_t n = strlen(name);

    for (size_t k = 0; k < sizeof ends / sizeof *ends; k++) {
        if (n >= strlen(ends[k]) && strcmp(name + n - strlen(ends[k]), ends[k]) == 0) {
            return true;
        }
    }
    return false;
}

/* A variance of the checkpoint that no tensor of the graph is; NULL if there is none. */
static const struct vc_tensor *left_variance(const struct vc_onnx_build *b, const bool *claimed)
{
    for (size_t k = 0; k < vc_model_tensor_count(b->source->weights); k++) {
        const struct vc_tensor *t = vc_model_tensor(b->source->weights, k);

        if (!claimed[k] && t->n_dims == 1 && is_weight(t) && is_variance(t->name)) {
            return t;
        }
    }
    return NULL;
}

/* A file in which batch normalization was folded into the weights cannot take the checkpoint's weights,
 * which are not folded: a variance of the checkpoint is then left over, and weights with equal names have
 * other values. Such a pair is refused. */
static enum vc_status refuse_folded(struct vc_onnx_build *b)
{
    bool *claimed =
        vc_calloc_array(b->ctx, VC_TAG_NAMES, vc_model_tensor_count(b->source->weights) + 1, sizeof *claimed);
    enum vc_status status = VC_OK;

    VC_TRY_ALLOC(claimed);
    for (size_t k = 0; k < count_own(b); k++) {
        if (b->matches[k].index != VC_NO_TENSOR) {
            claimed[b->matches[k].index] = true;
        }
    }
    const struct vc_tensor *variance = left_variance(b, claimed);
    for (size_t k = 0; variance != NULL && k < count_own(b); k++) {
        struct weight_sum other = {.model = b->source->weights, .index = b->matches[k].index};
        float *values = NULL;
        bool transposed = b->matches[k].transposed;
        bool same = true;

        if (other.index == VC_NO_TENSOR || vc_model_tensor(b->source->model, k)->n_dims < 2) {
            continue;
        }
        VC_TRY(read_tensor(b->ctx, b->source->model, k, &values));
        status = compare(b->ctx, vc_model_tensor(b->source->model, k), values, &other, &same, &transposed);
        vc_free(b->ctx, values);
        VC_TRY(status);
        if (!same) {
            vc_graph_complain(
                b->graph,
                "%s of the checkpoint has no place in the graph, and %s has other values than there: batch "
                "normalization was folded into the graph's weights; export it without that, or use its own",
                variance->name, vc_model_tensor(b->source->weights, other.index)->name);
            break;
        }
    }
out:
    vc_free(b->ctx, claimed);
    return status;
}

/* ---- one tensor with several names ---- */

/* Where the checkpoint has a tensor of that name and shape, it is a parameter of its own (it may have
 * diverged); else the name is noted as another name of x. */
uint32_t vc_onnx_other_name(struct vc_onnx_build *b, uint32_t x, const char *name)
{
    const struct vc_model *weights = b->source->weights;
    const struct vc_graph_param *param = &b->graph->params[b->graph->values[x].param];
    size_t index = weights != NULL ? vc_model_find(weights, name) : VC_NO_TENSOR;
    const struct vc_tensor *t = index != VC_NO_TENSOR ? vc_model_tensor(weights, index) : NULL;
    struct vc_onnx_name *base = vc_onnx_find_name(b, b->graph->values[x].name);

    if (t == NULL || !is_weight(t) || param->sliced || t->n_dims != param->n_dims ||
        memcmp(t->shape, param->shape, t->n_dims * sizeof *t->shape) != 0) {
        vc_graph_also(b->graph, b->graph->values[x].param, name);
        return x;
    }
    if (base != NULL) {
        base->n_uses--;
    }
    return vc_graph_add_param(b->graph, name,
                              &(struct vc_param_spec){.tensor = t->name,
                                                      .index = index,
                                                      .from_weights = true,
                                                      .n_dims = t->n_dims,
                                                      .shape = t->shape,
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
    size_t n = 0;
    size_t n_left = 0;

    VC_CALL(VC_ZEROS(b->ctx, VC_TAG_NAMES, b->matches, count_own(b) + 1));
    note_constants(b, b->matches);
    VC_CALL(VC_ZEROS(b->ctx, VC_TAG_NAMES, list, vc_model_tensor_count(weights) + count_own(b) + 1));
    for (size_t k = 0; k < count_own(b); k++) {
        b->matches[k].index = VC_NO_TENSOR;
    }
    for (size_t k = 0; k < count_own(b); k++) {
        const struct vc_tensor *t = vc_model_tensor(b->source->model, k);

        bool stays = !b->matches[k].there || !is_weight(t);
        if (!stays) {
            VC_CALL(stays_constant(b, t, k, &stays));
        }
        if (!stays && !by_name(b, t, k) && t->n_elems > 1) { /* single numbers are alike: the name alone tells them */
            list[vc_model_tensor_count(weights) + n_left++] =
                (struct weight_sum){.model = b->source->model, .index = k, .of = k};
        }
    }
    if (n_left != 0) {
        VC_CALL(sum_weights(b, list, &n));
    }
    for (size_t k = 0; k < n_left; k++) {
        struct weight_sum *c = &list[vc_model_tensor_count(weights) + k];

        VC_CALL(vc_check_cancelled(b->ctx));
        VC_CALL(sum_up(b->ctx, c));
        VC_CALL(match(b, c, list, n));
    }
    return refuse_folded(b);
}
