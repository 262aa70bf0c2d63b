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
static enum vc_status stays_constant(struct vc_onnx_build *b, const struct vc_tensor *t, size_t number, bool *stays)
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
    }
    return VC_OK;
}

/* Reads each tensor of the checkpoint that no name has claimed, and sorts them by what they add up to. */
static enum vc_status sum_weights(struct vc_onnx_build *b, const uint64_t *claimed, struct weight_sum *list, size_t *n)
{
    const struct vc_model *weights = b->source->weights;

    for (size_t k = 0; k < weights->n_tensors; k++) {
        const struct vc_tensor *t = vc_model_tensor(weights, k);

        if (claimed[k] == 0 && vc_onnx_is_weight(t) && t->alias_of == VC_NO_TENSOR) {
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

/* A variance of the checkpoint that no tensor of the graph is; NULL: there is none. */
static const struct vc_tensor *left_variance(const struct vc_onnx_build *b, const uint64_t *claimed)
{
    for (size_t k = 0; k < b->source->weights->n_tensors; k++) {
        const struct vc_tensor *t = vc_model_tensor(b->source->weights, k);

        if (claimed[k] == 0 && t->n_dims == 1 && vc_onnx_is_weight(t) && is_variance(t->name)) {
            return t;
        }
    }
    return NULL;
}

/* *found, which nothing can be said of without a match, becomes a tensor of the checkpoint that has other values than the
 * file's; NULL: there is none. */
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

/* The first tensor of the checkpoint of which some rows are constants and others are nothing; NULL: there is none. */
static const struct vc_tensor *find_torn(const struct vc_onnx_build *b, const uint64_t *claimed)
{
    for (size_t k = 0; k < b->source->weights->n_tensors; k++) {
        const struct vc_tensor *t = vc_model_tensor(b->source->weights, k);

        if (claimed[k] != 0 && claimed[k] != UINT64_MAX && claimed[k] != t->shape[0]) {
            return t;
        }
    }
    return NULL;
}

/* The constant has the values that the tensor has at its beginning along each axis, as a table of positions or a mask is
 * cut to the length of the input: nothing that it was computed of has changed. */
static enum vc_status is_beginning(struct vc_onnx_build *b, size_t own, size_t index, bool *same)
{
    const struct vc_tensor *t = vc_model_tensor(b->source->model, own);
    const struct vc_tensor *other = vc_model_tensor(b->source->weights, index);
    VC_SCOPED float *c = vc_alloc_array(b->ctx, VC_TAG_TILES, (size_t)t->n_elems + 1, sizeof *c);
    VC_SCOPED float *w = vc_alloc_array(b->ctx, VC_TAG_TILES, (size_t)other->n_elems + 1, sizeof *w);

    VC_CALL_ALLOC(c);
    VC_CALL_ALLOC(w);
    *same = t->n_dims == other->n_dims;
    for (unsigned d = 0; *same && d < t->n_dims; d++) {
        *same = t->shape[d] <= other->shape[d];
    }
    if (!*same) {
        return VC_OK;
    }
    VC_CALL(vc_tensor_read_f32(b->ctx, b->source->model, own, c, (size_t)t->n_elems));
    VC_CALL(vc_tensor_read_f32(b->ctx, b->source->weights, index, w, (size_t)other->n_elems));
    for (size_t k = 0; *same && k < (size_t)t->n_elems; k++) {
        size_t left = k;
        size_t at = 0;
        size_t step = 1;

        for (unsigned d = t->n_dims; d-- > 0;) {
            at += left % (size_t)t->shape[d] * step;
            left /= (size_t)t->shape[d];
            step *= (size_t)other->shape[d];
        }
        *same = memcmp(&c[k], &w[at], sizeof *c) == 0;
    }
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

/* What the constant was computed of; NULL: nothing that may have changed. */
static enum vc_status find_source(struct vc_onnx_build *b, size_t own, uint64_t *claimed, const struct vc_tensor **from)
{
    const struct vc_onnx_match *match = &b->matches[own];
    bool uniform = true;
    bool same = false;

    if (match->reader != NULL && match->reader->trace != NULL) {
        VC_CALL(look_at(b, own, &uniform));
    }
    *from = vc_onnx_made_of(b, own, !uniform, claimed);
    for (size_t i = 0; *from != NULL && !same && i < b->source->weights->n_tensors; i++) {
        if (claimed[i] == 0 && vc_onnx_is_weight(vc_model_tensor(b->source->weights, i))) {
            VC_CALL(is_beginning(b, own, i, &same));
            claimed[i] = same ? UINT64_MAX : 0; /* what else was computed of it has not changed either */
        }
    }
    if (same) {
        *from = NULL;
    } else if (*from == NULL) {
        VC_CALL(find_repeated(b, own, from));
    }
    return VC_OK;
}

/* A file in which batch normalization was folded into the weights cannot take the checkpoint's weights,
 * which are not folded: a variance of the checkpoint is then left over, and weights with equal names have
 * other values. Such a pair is refused, and so is one with a constant that was computed of weights in another way. */
static enum vc_status refuse_folded(struct vc_onnx_build *b, uint64_t *claimed)
{
    const struct vc_tensor *variance = left_variance(b, claimed);
    const struct vc_tensor *from = find_torn(b, claimed);
    const char *made = from != NULL ? "a constant" : NULL;
    bool changed = false; /* whatever else has the file's values */

    for (size_t k = 0; k < count_own(b) && variance == NULL && from == NULL; k++) {
        if ((b->matches[k].open || b->matches[k].unnamed) && b->matches[k].index == VC_NO_TENSOR) {
            VC_CALL(find_source(b, k, claimed, &from));
            made = vc_model_tensor(b->source->model, k)->name;
            const struct vc_program_node *reader = b->matches[k].reader;
            changed = from != NULL && reader != NULL && reader->trace != NULL && vc_onnx_is_moved(made);
        }
    }
    if (variance == NULL && from == NULL) {
        VC_CALL(vc_onnx_find_lost(b, claimed, &from, &changed));
        made = NULL;
    }
    if (variance == NULL && from == NULL) {
        return VC_OK;
    }
    const struct vc_tensor *other = variance != NULL ? variance : from;
    if (!changed) {
        VC_CALL(find_other_values(b, &other));
    }
    if (other != NULL && other == variance) { /* nothing else tells */
        complain_folded(b, "a constant", variance->name);
    } else if (other != NULL && variance != NULL) {
        vc_graph_complain(b->graph,
                          "%s of the checkpoint has no place in the graph, and %s has other values than there: batch "
                          "normalization was folded into the graph's weights; export it without that, or use its own",
                          variance->name, other->name);
    } else if (other != NULL && made == NULL) {
        vc_graph_complain(b->graph,
                          "%s of the checkpoint is nowhere in the graph, whose exporter left it out as zeros, kept it "
                          "once with an equal tensor or computed with it, and the checkpoint has other values: export "
                          "the graph with torch.onnx.export(optimize=False)",
                          from->name);
    } else if (other != NULL) {
        complain_folded(b, made, from->name);
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
    size_t n = 0;
    size_t n_left = 0;
    size_t n_order = 0;

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
            VC_CALL(stays_constant(b, t, k, &stays));
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
            VC_CALL(vc_onnx_find_akin(b, k, claimed, &b->matches[k]));
        }
    }
    return refuse_folded(b, claimed);
}
