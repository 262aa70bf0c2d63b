/* onnx_place.c - which tensor of another checkpoint a folded constant was made of, by the module that its reader stands
 * in. PyTorch's exporter computes with weights while it writes a file, and gives what comes out names of its own:
 *
 *     "/layers.0/linear1/MatMul" reads onnx::MatMul_364 [8, 16]     layers.0.linear1.weight [16, 8], transposed
 *     "/1/Mul" reads onnx::Mul_23 [8, 1, 1]                         1.weight [8]
 *     "/attn/MatMul_1" reads onnx::MatMul_71 [8, 8]                 rows 8 to 15 of attn.in_proj_weight [24, 8]
 *     "/r/LSTM_1" reads onnx::LSTM_428 [2, 24, 12]                  gates of r.weight_ih_l1 and r.weight_ih_l1_reverse
 *
 * Called by onnx_repair.c for what no name and no values told. A tensor is taken if it is the only one that can be
 * meant and its values are like the constant's; a constant that was computed in another way (1 + weight) is none. */
#include <math.h>
#include <stdlib.h>

#include "graph/onnx/onnx_build.h"

#include "core/text/text.h"
#include "graph/ops/recurrent.h"
#include <vcompress/quantize.h>

/* ---- names ---- */

/* "onnx::MatMul_105" and "105" of PyTorch's older exporter, "val_105" of the newer one. */
bool vc_onnx_is_made_up(const char *name)
{
    const char *number = strncmp(name, "val_", 4) == 0 ? name + 4 : name;

    return strncmp(name, "onnx::", 6) == 0 || number[strspn(number, "0123456789")] == '\0';
}

/* "/layers.0/linear1/MatMul_1" as the module's "layers.0.linear1." and the operator's "MatMul_1"; "/Mul" has the module
 * "". NULL: the name says none. */
static const char *module_of(const struct vc_program_node *node, char *module, size_t room)
{
    const char *op = node->name == NULL ? NULL : strrchr(node->name, '/');
    size_t n = op == NULL ? 0 : (size_t)(op - node->name);

    if (op == NULL || *node->name != '/' || n >= room) {
        return NULL;
    }
    memcpy(module, node->name + 1, n);
    module[n] = '\0';
    for (size_t k = 0; k < n; k++) {
        module[k] = module[k] == '/' ? '.' : module[k];
    }
    return op + 1;
}

/* The name of the tensor within the module itself: "weight"; NULL: it is of another one. */
static const char *leaf_of(const struct vc_tensor *t, const char *module)
{
    size_t n = strlen(module);

    return strncmp(t->name, module, n) == 0 && strchr(t->name + n, '.') == NULL ? t->name + n : NULL;
}

/* ---- shapes and values ---- */

bool vc_onnx_is_raw(const struct vc_tensor *t)
{
    const char *leaf = strrchr(t->name, '.');

    leaf = leaf == NULL ? t->name : leaf + 1;
    return strncmp(leaf, "original", 8) == 0 || vc_is_one_of(leaf, "weight_v weight_orig");
}

enum vc_status vc_onnx_compare(struct vc_onnx_build *b, size_t own, const struct vc_onnx_match *with,
                               struct vc_onnx_likeness *like)
{
    const struct vc_tensor *t = vc_model_tensor(b->source->model, own);
    const struct vc_tensor *other = vc_model_tensor(b->source->weights, with->index);
    VC_SCOPED float *c = vc_alloc_array(b->ctx, VC_TAG_TILES, (size_t)t->n_elems, sizeof *c);
    VC_SCOPED float *w = vc_alloc_array(b->ctx, VC_TAG_TILES, (size_t)other->n_elems, sizeof *w);
    size_t rows = with->transposed ? (size_t)t->shape[t->n_dims - 2] : 1; /* of c, which are columns of w */
    size_t columns = with->transposed ? (size_t)t->shape[t->n_dims - 1] : (size_t)t->n_elems;
    size_t from = (size_t)(with->count != 0 ? with->first * (other->n_elems / other->shape[0]) : 0);
    size_t again = (size_t)(with->count != 0 ? with->count : other->n_elems); /* of a vector that is repeated */

    VC_CALL_ALLOC(c);
    VC_CALL_ALLOC(w);
    VC_CALL(vc_tensor_read_f32(b->ctx, b->source->model, own, c, (size_t)t->n_elems));
    VC_CALL(vc_tensor_read_f32(b->ctx, b->source->weights, with->index, w, (size_t)other->n_elems));
    *like = (struct vc_onnx_likeness){.same = true, .uniform = true};
    for (size_t k = 0; k < (size_t)t->n_elems; k++) {
        size_t in = k % (rows * columns);
        size_t at = from + (with->repeated ? k % again : k - in + in % columns * rows + in / columns);
        double x = (double)c[k];
        double y = (double)w[at];

        like->same = like->same && memcmp(&c[k], &w[at], sizeof *c) == 0;
        like->uniform = like->uniform && memcmp(&c[k], c, sizeof *c) == 0;
        like->cc += x * x;
        like->cw += x * y;
        like->ww += y * y;
        like->apart += (x - y) * (x - y);
        like->one += (x - 1 - y) * (x - 1 - y);
    }
    return VC_OK;
}

/* The same weight after rounding, pruning or more training: c is about w where w is not 0. */
static bool is_akin(const struct vc_onnx_likeness *like)
{
    return like->cw > 0.75 * like->ww && like->cw < 1.33 * like->ww;
}

/* Or one of another training, whose values are as large within a factor of 10. What is multiplied or added may be
 * 1 + weight, matrices are not. A slope is the module's whatever its values are: there may be one, -0.1 here and 0.02 there. */
static bool is_alike(const struct vc_onnx_likeness *like, const char *op)
{
    return strcmp(op, "PRelu") == 0 ||
           ((like->apart <= like->one || !vc_is_one_of(op, "Mul Add")) &&
            (like->cc == 0 || is_akin(like) || (like->ww < 100 * like->cc && like->cc < 100 * like->ww)));
}

static void claim(uint64_t *claimed, size_t index, uint64_t rows)
{
    if (claimed != NULL) {
        claimed[index] = rows;
    }
}

/* ---- recurrent layers ---- */

/* Parameters of one input: "weight_ih", "weight_hh", or both biases. */
static const char *const recurrent_leaves[3][2] = {{"weight_ih", NULL}, {"weight_hh", NULL}, {"bias_ih", "bias_hh"}};

/* The tensor of the direction d, VC_NO_TENSOR where it is not there or has another shape than the constant t says. */
static size_t recurrent_tensor(const struct vc_onnx_build *b, const struct vc_tensor *t,
                               const struct vc_onnx_match *match, unsigned i, unsigned d)
{
    char module[300], name[400];
    unsigned input = match->input;
    unsigned layer = 0;
    const char *op = module_of(match->reader, module, sizeof module);
    const char *number = op == NULL ? NULL : strchr(op, '_');
    const char *const *leaves = recurrent_leaves[input - 1];
    uint64_t rows = t->shape[1] / (input == 3 ? 2 : 1);

    if (leaves[i] == NULL || (op == NULL && !vc_onnx_traced_layer(b, match->reader, module, sizeof module, &layer))) {
        return VC_NO_TENSOR;
    }
    layer = number == NULL ? layer : (unsigned)strtoul(number + 1, NULL, 10);
    (void)snprintf(name, sizeof name, "%s%s_l%u%s", module, leaves[i], layer, d == 0 ? "" : "_reverse");
    size_t index = vc_model_find(b->source->weights, name);
    const struct vc_tensor *w = index == VC_NO_TENSOR ? NULL : vc_model_tensor(b->source->weights, index);
    return w != NULL && w->n_dims == (input == 3 ? 1 : 2) && w->shape[0] == rows &&
                   (input == 3 || w->shape[1] == t->shape[2])
               ? index
               : VC_NO_TENSOR;
}

/* Input W, R or B of a layer whose tensors are all there, which are claimed then. */
static bool is_recurrent(const struct vc_onnx_build *b, const struct vc_tensor *t, struct vc_onnx_match *to,
                         uint64_t *claimed)
{
    const struct vc_torch_recurrent *kind = vc_torch_recurrent(to->reader->op);
    bool bias = to->input == 3;
    bool there = kind != NULL && to->input >= 1 && to->input <= 3 && t->n_dims == (bias ? 2 : 3) && t->shape[0] <= 2 &&
                 t->shape[1] % (kind->gates * (bias ? 2 : 1)) == 0;

    for (unsigned k = 0; there && k < t->shape[0] * (bias ? 2 : 1); k++) {
        there = recurrent_tensor(b, t, to, k & bias, k >> bias) != VC_NO_TENSOR;
    }
    for (unsigned k = 0; there && k < t->shape[0] * (bias ? 2 : 1); k++) {
        to->index = recurrent_tensor(b, t, to, k & bias, k >> bias);
        claim(claimed, to->index, UINT64_MAX);
    }
    to->gates = there;
    return there;
}

/* Gates of all directions in ONNX's order, one behind the other, in the constant's shape. */
uint32_t vc_onnx_add_gates(struct vc_onnx_build *b, const char *name, const struct vc_tensor *t,
                           const struct vc_onnx_match *match)
{
    const struct vc_torch_recurrent *kind = vc_torch_recurrent(match->reader->op);
    const struct vc_graph_attr axis = vc_attr_int("axis", 0);
    unsigned n_tensors = match->input == 3 ? 2 : 1;
    unsigned n = 0;
    uint32_t parts[16];
    int64_t shape[3];

    for (unsigned k = 0; k < t->shape[0] * n_tensors * kind->gates; k++) {
        unsigned i = k / kind->gates;
        size_t index = recurrent_tensor(b, t, match, i % n_tensors, i / n_tensors);
        const struct vc_tensor *w = vc_model_tensor(b->source->weights, index);
        uint64_t hidden = w->shape[0] / kind->gates;

        parts[n++] = vc_graph_add_param(b->graph, NULL,
                                        &(struct vc_param_spec){.tensor = w->name,
                                                                .index = index,
                                                                .from_weights = true,
                                                                .n_dims = w->n_dims,
                                                                .shape = w->shape,
                                                                .sliced = kind->gates != 1,
                                                                .first = kind->order[k % kind->gates] * hidden,
                                                                .count = hidden});
    }
    for (unsigned d = 0; d < t->n_dims; d++) {
        shape[d] = (int64_t)t->shape[d];
    }
    parts[0] = vc_onnx_add_one(b, "Concat", NULL, parts, n, &axis, 1);
    parts[1] = vc_graph_add_ints(b->graph, shape, t->n_dims);
    return vc_onnx_add_one(b, "Reshape", name, parts, 2, NULL, 0);
}

/* ---- places ---- */

/* What PyTorch's layers call the parameter of such a node. */
static const char *usual_leaf(const char *op)
{
    return strcmp(op, "Add") == 0 ? "bias" : vc_is_one_of(op, "MatMul Mul PRelu") ? "weight" : "";
}

/* A tensor that a layer reads as it is: fc.weight, in_proj_weight. What somebody else made may be computed with before. */
static bool is_of_layer(const char *leaf)
{
    return strstr(leaf, "weight") != NULL || strstr(leaf, "bias") != NULL;
}

/* Of the shape of the constant, which the exporter would have left as it is: it computed with it. */
static bool is_computed(const struct vc_tensor *t, const struct vc_tensor *other, const struct vc_onnx_match *to)
{
    return !to->transposed && strcmp(to->reader->op, "PRelu") != 0 && t->n_dims == other->n_dims &&
           memcmp(t->shape, other->shape, t->n_dims * sizeof *t->shape) == 0;
}

/* The tensor of the module that the constant, input k of the node, can be: the one of the usual name, or the only one;
 * a whole one before rows of one. */
enum vc_status vc_onnx_find_place(struct vc_onnx_build *b, size_t own, uint64_t *claimed, struct vc_onnx_match *to)
{
    const struct vc_tensor *t = vc_model_tensor(b->source->model, own);
    struct vc_onnx_likeness like = {0};
    unsigned n_found = 0;
    char module[300];

    if (to->reader == NULL || is_recurrent(b, t, to, claimed)) {
        return VC_OK;
    }
    if (to->reader->trace != NULL) {
        vc_onnx_find_traced(b, own, claimed, to);
        return VC_OK;
    }
    if (vc_is_one_of(to->reader->op, "Conv ConvTranspose Gemm Gather") ||
        module_of(to->reader, module, sizeof module) == NULL) {
        return VC_OK;
    }
    to->transposed = strcmp(to->reader->op, "MatMul") == 0 && to->input == 1;
    for (unsigned part = 0; part < 2 && n_found == 0; part++) {
        for (size_t i = 0; i < b->source->weights->n_tensors; i++) {
            const struct vc_tensor *other = vc_model_tensor(b->source->weights, i);
            const char *leaf = leaf_of(other, module);
            uint64_t rows = vc_onnx_fits(t, other, to->transposed, part != 0);

            if (leaf == NULL || !vc_onnx_is_weight(other) || vc_onnx_is_raw(other) || rows == 0 ||
                is_computed(t, other, to) ||
                (claimed != NULL && claimed[i] > (part != 0 ? other->shape[0] - rows : 0))) {
                continue;
            }
            bool usual = strcmp(leaf, usual_leaf(to->reader->op)) == 0;
            n_found = usual ? 1 : n_found + 1;
            to->index = i;
            to->first = claimed == NULL ? 0 : claimed[i];
            to->count = part != 0 ? rows : 0;
            if (usual) {
                break;
            }
        }
    }
    if (n_found == 1) {
        VC_CALL(vc_onnx_compare(b, own, to, &like));
    }
    if (n_found == 1 && is_alike(&like, to->reader->op) &&
        (is_akin(&like) || is_of_layer(leaf_of(vc_model_tensor(b->source->weights, to->index), module)))) {
        claim(claimed, to->index, to->count == 0 ? UINT64_MAX : to->first + to->count);
    } else {
        to->index = VC_NO_TENSOR;
        to->transposed = false;
        to->count = 0;
    }
    return VC_OK;
}

/* ---- values alone ---- */

size_t vc_onnx_sample_count(const struct vc_tensor *t)
{
    return (size_t)vc_min_u64(t->n_elems, VC_ONNX_SAMPLES);
}

/* Where sample s of a tensor of n elements is: spread over rows and columns. */
static size_t sample_at(size_t s, size_t n)
{
    return (size_t)(s * (uint64_t)2654435761u % n);
}

/* Samples of tensor i of the checkpoint, which is read for them once: of a row of zeros, whose last number is 1 then. A small
 * tensor is its samples. */
static enum vc_status take_samples(struct vc_onnx_build *b, size_t i, float *samples)
{
    size_t n = (size_t)vc_model_tensor(b->source->weights, i)->n_elems;

    size_t n_samples = vc_onnx_sample_count(vc_model_tensor(b->source->weights, i));

    VC_RETURN_IF(samples[n_samples] != 0, VC_OK);
    VC_SCOPED float *w = vc_alloc_array(b->ctx, VC_TAG_TILES, n, sizeof *w);
    VC_CALL_ALLOC(w);
    VC_CALL(vc_tensor_read_f32(b->ctx, b->source->weights, i, w, n));
    for (size_t s = 0; s < n_samples; s++) {
        samples[s] = w[sample_at(s, n)];
    }
    samples[n_samples] = 1;
    return VC_OK;
}

/* The samples leave it open that the constant t, with elements c, is akin to a tensor: their cosine is not below 0.1, where akin
 * ones have more than 0.5 and others 0.03. Where the samples are all elements, it is the cosine itself, less what rounds. */
static bool may_be_akin(const struct vc_tensor *t, const float *c, const float *samples, bool transposed)
{
    size_t rows = (size_t)t->shape[t->n_dims - 2], columns = (size_t)t->shape[t->n_dims - 1];
    size_t n = vc_onnx_sample_count(t);
    double cc = 0, cw = 0, ww = 0;

    for (size_t s = 0; s < n; s++) {
        size_t at = sample_at(s, (size_t)t->n_elems);
        size_t in = at % (rows * columns);
        double x = (double)c[transposed ? at - in + in % rows * columns + in / rows : at];

        cc += x * x;
        cw += x * (double)samples[s];
        ww += (double)samples[s] * (double)samples[s];
    }
    return !(fabs(cw) < (n == t->n_elems ? 0.49 : 0.1) * sqrt(cc * ww));
}

enum vc_status vc_onnx_find_akin(struct vc_onnx_build *b, size_t own, uint64_t *claimed, float *samples,
                                 struct vc_onnx_match *to)
{
    const struct vc_tensor *t = vc_model_tensor(b->source->model, own);
    uint64_t sizes[VC_GRAPH_MAX_DIMS + 1];
    VC_SCOPED float *c = NULL;
    unsigned n_found = 0;

    if (vc_onnx_long_axes(t, sizes) < 2 ||
        (to->reader != NULL && (to->reader->trace != NULL || vc_is_one_of(to->reader->op, "Conv ConvTranspose")))) {
        return VC_OK; /* vectors are too often alike; statistics are folded into convolutions */
    }
    VC_CALL_ALLOC(c = vc_alloc_array(b->ctx, VC_TAG_TILES, (size_t)t->n_elems, sizeof *c));
    VC_CALL(vc_tensor_read_f32(b->ctx, b->source->model, own, c, (size_t)t->n_elems));
    for (unsigned k = 0; k < 4 && n_found == 0; k++) {
        float *next = samples;

        for (size_t i = 0; i < b->source->weights->n_tensors; i++) {
            const struct vc_tensor *other = vc_model_tensor(b->source->weights, i);
            struct vc_onnx_match with = {.index = i, .transposed = k % 2 != 0};
            struct vc_onnx_likeness like = {0};
            float *of = next;

            next += vc_onnx_sample_count(other) + 1;
            if (!vc_onnx_is_weight(other) || vc_onnx_is_raw(other) ||
                vc_onnx_fits(t, other, with.transposed, false) == 0 || (k < 2 && claimed[i] != 0)) {
                continue;
            }
            VC_CALL(take_samples(b, i, of));
            if (may_be_akin(t, c, of, with.transposed)) {
                VC_CALL(vc_onnx_compare(b, own, &with, &like));
            }
            if (is_akin(&like) && like.cw * like.cw > 0.25 * like.cc * like.ww) {
                n_found++;
                to->index = i;
                to->transposed = with.transposed;
            }
        }
    }
    if (n_found == 1) {
        claimed[to->index] = UINT64_MAX;
    } else {
        to->index = VC_NO_TENSOR;
        to->transposed = false;
    }
    return VC_OK;
}

const struct vc_tensor *vc_onnx_made_of(const struct vc_onnx_build *b, size_t own, bool varies, const uint64_t *used)
{
    const struct vc_tensor *t = vc_model_tensor(b->source->model, own);
    const struct vc_program_node *reader = b->matches[own].reader;
    const struct vc_tensor *may_be = NULL;
    char module[300];
    bool known = reader != NULL && module_of(reader, module, sizeof module) != NULL;
    bool open = b->matches[own].open; /* a name that somebody gave may be of a weight that only the file has */
    bool weighs = t->n_elems > 1 && (reader != NULL && reader->trace != NULL) &&
                  (t->use == VC_USE_PRODUCT || t->use == VC_USE_NORM || t->use == VC_USE_BIAS || varies);

    /* ones and zeros of a norm without weights, and initial states */
    bool nothing = reader != NULL && reader->trace != NULL && !varies &&
                   (strcmp(reader->op, "InstanceNormalization") == 0 ||
                    (b->matches[own].input >= 4 && vc_torch_recurrent(reader->op) != NULL));

    for (size_t i = 0; reader != NULL && !nothing && i < b->source->weights->n_tensors; i++) {
        const struct vc_tensor *other = vc_model_tensor(b->source->weights, i);
        bool fits = vc_onnx_fits(t, other, false, false) != 0 || vc_onnx_fits(t, other, true, false) != 0;
        bool left = used[i] == 0 || (used[i] < other->n_elems && other->n_elems - used[i] >= t->n_elems);

        if (vc_onnx_is_weight(other) && left && !vc_onnx_is_variance(other->name) &&
            (fits || weighs || (known ? leaf_of(other, module) != NULL : open && t->n_elems > 1))) {
            return other;
        }
        may_be = vc_onnx_is_weight(other) && open && fits && t->use == VC_USE_PRODUCT ? other : may_be;
    }
    return may_be;
}
