/* onnx_values.c - the values that no node makes: inputs, tensors of the model as parameters, small tensors
 * and integers as constants of the graph.
 *
 *     float tensor of the model          parameter, read when the graph runs; also codes of weights
 *     single number, "must be known"     constant: an operator's shape or bound depends on it
 *     integers                           constant: shapes, axes, indices
 *     Constant node                      constant
 */
#include <math.h>

#include "core/values/tile.h"
#include "graph/onnx/onnx_build.h"

/* ---- elements ---- */

/* IEEE binary16, also denormals (exponent 0), infinities and NaN. Exact in double.
 *     0x3c00  exponent 15, mantissa 0: (0 + 1024) * 2^-10 = 1
 *     0x0001  exponent 0: 1 * 2^-24, the smallest number above 0
 */
static double half(uint32_t bits)
{
    int exponent = (int)(bits >> 10 & 31);
    double mantissa = (double)(bits & 1023);
    double x;

    if (exponent == 0) {
        x = ldexp(mantissa, -24);
    } else if (exponent == 31) {
        x = (bits & 1023) == 0 ? (double)INFINITY : (double)NAN;
    } else {
        x = ldexp(mantissa + 1024, exponent - 25);
    }
    return (bits >> 15 & 1) != 0 ? -x : x;
}

/* An f32 by its bits. */
static double single(uint32_t bits)
{
    float f;

    memcpy(&f, &bits, sizeof f);
    return (double)f;
}

/* Element k of a float type. */
double vc_onnx_real_at(const struct vc_program_tensor *t, size_t k)
{
    const unsigned char *p = t->data;
    uint64_t bits;
    double x;

    switch (t->dtype) {
    case VC_DTYPE_F16:
        return half((uint32_t)p[2 * k] | (uint32_t)p[2 * k + 1] << 8);
    case VC_DTYPE_BF16:
        return single((uint32_t)p[2 * k] << 16 | (uint32_t)p[2 * k + 1] << 24);
    case VC_DTYPE_F32:
        return single(vc_le32(p + 4 * k));
    default:
        bits = vc_le64(p + 8 * k);
        memcpy(&x, &bits, sizeof x);
        return x;
    }
}

/* All floats are one type in the graph, and all integers: each run chooses the precision of floats. */
enum vc_dtype vc_onnx_kind(enum vc_dtype dtype)
{
    switch (dtype) {
    case VC_DTYPE_F16:
    case VC_DTYPE_BF16:
    case VC_DTYPE_F32:
    case VC_DTYPE_F64:
        return VC_DTYPE_F32;
    case VC_DTYPE_BOOL:
        return VC_DTYPE_BOOL;
    case VC_DTYPE_U8:
    case VC_DTYPE_I8:
    case VC_DTYPE_U16:
    case VC_DTYPE_I16:
    case VC_DTYPE_U32:
    case VC_DTYPE_I32:
    case VC_DTYPE_U64:
    case VC_DTYPE_I64:
    case VC_DTYPE_U4:
    case VC_DTYPE_I4:
        return VC_DTYPE_I64;
    default:
        return VC_DTYPE_RAW;
    }
}

const char *vc_onnx_kind_text(enum vc_dtype kind)
{
    return kind == VC_DTYPE_F32 ? "floats" : kind == VC_DTYPE_I64 ? "integers" : "truth values";
}

/* Number of elements. The program's reader checked that the bytes are there, so that the product cannot
 * overflow. 4-bit elements lie in pairs; 0 bytes: no elements. */
static size_t count_of(const struct vc_program_tensor *t)
{
    size_t n = 1;

    for (unsigned d = 0; d < t->n_dims && t->n_bytes != 0; d++) {
        n *= (size_t)t->shape[d]; /* no overflow: that many are there */
    }
    return t->n_bytes == 0 ? 0 : n;
}

/* Elements become double or int64_t, as constants of the graph are. Tensors above 16 MiB, or in another
 * file, have no data here. */
uint32_t vc_onnx_add_tensor(struct vc_onnx_build *b, const char *name, const struct vc_program_tensor *tensor)
{
    enum vc_dtype kind = vc_onnx_kind(tensor->dtype);
    const char *called = name != NULL ? name : "";
    int64_t shape[VC_GRAPH_MAX_DIMS];

    VC_LEAVE_WITH(kind == VC_DTYPE_RAW || tensor->data == NULL || tensor->n_dims > VC_GRAPH_MAX_DIMS,
                  vc_graph_complain(b->graph, "%s: a constant %s cannot be read", called,
                                    kind == VC_DTYPE_RAW   ? "of a type that no operator here takes"
                                    : tensor->data == NULL ? "in another file, or of more than 16 MiB,"
                                                           : "of so many dimensions"),
                  vc_graph_unknown(b->graph, name));
    size_t n = count_of(tensor);
    for (unsigned d = 0; d < tensor->n_dims; d++) {
        shape[d] = (int64_t)tensor->shape[d];
    }
    void *elements = vc_alloc_array(b->ctx, VC_TAG_NAMES, n + 1, 8);
    VC_LEAVE_WITH(elements == NULL, b->graph->status = VC_E_NOMEM, VC_NO_VALUE);
    for (size_t k = 0; k < n; k++) {
        if (kind == VC_DTYPE_F32) {
            ((double *)elements)[k] = vc_onnx_real_at(tensor, k);
        } else {
            ((int64_t *)elements)[k] = vc_integer_at(tensor->dtype, tensor->data, k);
        }
    }
    uint32_t value = vc_graph_add_constant(b->graph, name, kind, shape, tensor->n_dims, elements);
    vc_free(b->ctx, elements);
    return value;
}

/* ONNX's TensorProto.DataType for a dtype; 0 if it has none. */
static int64_t number_of_type(enum vc_dtype dtype)
{
    static const unsigned char numbers[VC_DTYPE_COUNT] = {
        [VC_DTYPE_F32] = 1,  [VC_DTYPE_U8] = 2,   [VC_DTYPE_I8] = 3,    [VC_DTYPE_U16] = 4,  [VC_DTYPE_I16] = 5,
        [VC_DTYPE_I32] = 6,  [VC_DTYPE_I64] = 7,  [VC_DTYPE_BOOL] = 9,  [VC_DTYPE_F16] = 10, [VC_DTYPE_F64] = 11,
        [VC_DTYPE_U32] = 12, [VC_DTYPE_U64] = 13, [VC_DTYPE_BF16] = 16, [VC_DTYPE_U4] = 21,  [VC_DTYPE_I4] = 22};

    return dtype < VC_DTYPE_COUNT ? numbers[dtype] : 0;
}

/* Values of the graph do not know how many bits their integers had in the file, but codes need it (uint8 or
 * int8). The file says it for inputs, tensors and Cast; other nodes return 0. */
int64_t vc_onnx_type_of_input(const struct vc_onnx_build *b, const struct vc_program_node *node, size_t k)
{
    const struct vc_onnx_name *name =
        k < node->n_inputs && *node->inputs[k] != '\0' ? vc_onnx_find_name(b, node->inputs[k]) : NULL;
    const struct vc_program_constant *c;
    const struct vc_program_node *maker;

    if (name == NULL) {
        return 0;
    }
    switch (name->maker) {
    case VC_ONNX_BY_INPUT:
        return number_of_type(name->program->inputs[name->number].dtype);
    case VC_ONNX_BY_TENSOR:
        return number_of_type(name->tensor->dtype);
    case VC_ONNX_BY_CONSTANT:
        c = &name->program->constants[name->number];
        return number_of_type(c->index != VC_NO_TENSOR && b->source->model != NULL
                                  ? vc_model_tensor(b->source->model, c->index)->dtype
                              : c->tensor != NULL ? c->tensor->dtype
                                                  : VC_DTYPE_RAW);
    case VC_ONNX_BY_NODE:
        break;
    }
    maker = &name->program->nodes[name->number];
    for (size_t i = 0; i < maker->n_attrs; i++) {
        if (strcmp(maker->op, "Cast") == 0 && strcmp(maker->attrs[i].name, "to") == 0) {
            return maker->attrs[i].i;
        }
    }
    return 0;
}

/* Only a parameter that is the file's own tensor as a whole: the other checkpoint has other values. */
const struct vc_program_tensor *vc_onnx_tensor_of(const struct vc_onnx_build *b, uint32_t value)
{
    const struct vc_graph_value *v = &b->graph->values[value];
    const struct vc_program_tensor *tensor =
        v->kind == VC_VALUE_PARAMETER && v->param < b->of_param_capacity ? b->of_param[v->param] : NULL;

    return tensor != NULL && tensor->data != NULL && count_of(tensor) != 0 && v->dtype == VC_DTYPE_F32 &&
                   vc_onnx_kind(tensor->dtype) == VC_DTYPE_F32 && !b->graph->params[v->param].from_weights &&
                   !b->graph->params[v->param].sliced && !b->graph->params[v->param].transposed
               ? tensor
               : NULL;
}

/* Of shapes, and of what is computed of them, the elements are facts. */
bool vc_onnx_integer_at(const struct vc_onnx_build *b, uint32_t value, size_t i, int64_t *integer)
{
    const struct vc_graph_value *v = &b->graph->values[value];
    const struct vc_dim *elems = b->graph->facts[value].elems;

    if (v->dtype == VC_DTYPE_F32 || (v->kind != VC_VALUE_CONSTANT && (elems == NULL || !vc_dim_is_number(elems[i])))) {
        return false;
    }
    *integer = v->kind == VC_VALUE_CONSTANT ? ((const int64_t *)v->data)[i] : elems[i].size;
    return true;
}

/* One element, of at most one dimension: with more dimensions a product would broadcast to more dimensions
 * than x has, and a rewrite would lose them. */
bool vc_onnx_scalar(const struct vc_onnx_build *b, uint32_t value, double *number)
{
    const struct vc_graph_value *v = value == VC_NO_VALUE ? NULL : &b->graph->values[value];
    const struct vc_program_tensor *tensor = NULL;

    if (v == NULL || b->graph->facts[value].unknown || v->n_dims > 1) { /* more could add dimensions */
        return false;
    }
    for (unsigned d = 0; d < v->n_dims; d++) {
        if (!vc_dim_is_number(v->shape[d]) || v->shape[d].size != 1) {
            return false;
        }
    }
    if (v->kind == VC_VALUE_CONSTANT) {
        *number = v->dtype == VC_DTYPE_F32 ? *(const double *)v->data : (double)*(const int64_t *)v->data;
        return true;
    }
    tensor = vc_onnx_tensor_of(b, value);
    if (tensor != NULL && count_of(tensor) == 1) {
        *number = vc_onnx_real_at(tensor, 0);
        return true;
    }
    return false;
}

/* ---- inputs ---- */

/* A name by which two sizes are the same; some exporters call all that are open "?". */
static bool names_a_size(const char *name)
{
    return name != NULL && *name != '\0' && strcmp(name, "?") != 0;
}

/* A number, or a symbol named as in the file. A dimension without a name, or called "?", gets the name of
 * its place, "x_dim0": two of them must not become one symbol.
 * Sizes with the same name are one symbol, also of different inputs. */
static struct vc_dim input_dim(struct vc_onnx_build *b, const struct vc_program_value *input, unsigned d)
{
    const struct vc_program_dim *dim = &input->shape[d];
    char name[300];

    if (dim->name == NULL && dim->size >= 0) {
        return vc_dim_number(dim->size);
    }
    (void)snprintf(name, sizeof name, "%.250s_dim%u", input->name, d);
    const char *named = names_a_size(dim->name) ? dim->name : name;
    struct vc_known_input *known = vc_ctx_known(b->ctx, named);
    if (known == NULL || known->value < 1) {
        return vc_dim_symbol(&b->graph->dims, named);
    }
    atomic_store(&known->used, true);
    return vc_dim_number(known->value);
}

/* An input of one number that is the same in every run (vc_ctx_set_known). VC_NO_VALUE: it is not. */
static uint32_t add_known(struct vc_onnx_build *b, const struct vc_program_value *input, enum vc_dtype kind)
{
    struct vc_known_input *known = vc_ctx_known(b->ctx, input->name);
    int64_t shape[VC_GRAPH_MAX_DIMS];

    for (unsigned d = 0; known != NULL && d < input->n_dims; d++) {
        shape[d] = 1;
        known = input->shape[d].name == NULL && input->shape[d].size == 1 ? known : NULL;
    }
    if (known == NULL) {
        return VC_NO_VALUE;
    }
    double real = (double)known->value;
    atomic_store(&known->used, true);
    return vc_graph_add_constant(b->graph, input->name, kind, shape, input->n_dims,
                                 kind == VC_DTYPE_F32 ? (const void *)&real : &known->value);
}

/* An input that a note of the file calls a parameter: its shape has to be numbers. It is a tensor of the
 * checkpoint if that has the name; without one the graph has no weights. */
static uint32_t add_parameter_input(struct vc_onnx_build *b, const struct vc_program_value *input, const char *tensor)
{
    struct vc_param_spec spec = {.tensor = tensor,
                                 .index = VC_NO_TENSOR,
                                 .n_dims = input->n_dims,
                                 .integers = vc_onnx_kind(input->dtype) == VC_DTYPE_I64};
    uint64_t shape[VC_GRAPH_MAX_DIMS];

    for (unsigned d = 0; d < input->n_dims; d++) {
        VC_LEAVE_WITH(input->shape[d].size < 0,
                      vc_graph_complain(b->graph, "the parameter '%s': dimension %u has no size", input->name, d),
                      vc_graph_unknown(b->graph, input->name));
        shape[d] = (uint64_t)input->shape[d].size;
    }
    if (b->source->weights != NULL && vc_model_find(b->source->weights, tensor) != VC_NO_TENSOR) {
        spec.index = vc_model_find(b->source->weights, tensor);
        spec.from_weights = true;
    }
    spec.shape = shape;
    return vc_graph_add_param(b->graph, input->name, &spec);
}

/* The note of an optional input holds the value of its elements as text. */
static uint32_t add_input(struct vc_onnx_build *b, const struct vc_onnx_name *name)
{
    const struct vc_program_value *input = &b->program->inputs[name->number];
    struct vc_dim shape[VC_GRAPH_MAX_DIMS];
    enum vc_dtype kind = vc_onnx_kind(input->dtype);

    VC_LEAVE_WITH(kind == VC_DTYPE_RAW || !input->has_shape || input->n_dims > VC_GRAPH_MAX_DIMS,
                  vc_graph_complain(b->graph, "the input '%s' %s", name->name,
                                    kind == VC_DTYPE_RAW ? "is of a type that no operator here takes"
                                    : !input->has_shape  ? "has no shape"
                                                         : "has more dimensions than are supported"),
                  vc_graph_unknown(b->graph, name->name));
    if (name->parameter != NULL) {
        return add_parameter_input(b, input, name->parameter);
    }
    uint32_t known = add_known(b, input, kind);
    if (known != VC_NO_VALUE) {
        return known;
    }
    for (unsigned d = 0; d < input->n_dims; d++) {
        shape[d] = input_dim(b, input, d);
    }
    if (name->otherwise != NULL) {
        char *end;
        long long otherwise = strtoll(name->otherwise, &end, 10);

        if (kind == VC_DTYPE_I64 && end != name->otherwise && *end == '\0' && otherwise >= INT32_MIN &&
            otherwise <= INT32_MAX) {
            return vc_graph_add_option(b->graph, name->name, kind, shape, input->n_dims, otherwise);
        }
        vc_graph_complain(b->graph,
                          "the input '%s' is noted to be '%.100s' if it is not given, which is no such integer",
                          name->name, name->otherwise);
    }
    return vc_graph_add_input(b->graph, name->name, kind, shape, input->n_dims);
}

/* ---- tensors ---- */

/* Floats of the model are parameters, except single numbers and what an operator takes only as constants.
 * Integers are parameters where they are codes of weights, or too many to be a constant.
 *     f32 [768, 768]                 parameter
 *     f32 [], or of a must_be_known  constant
 *     i64 [4], a shape               constant
 *     u8 [768, 384] of MatMulNBits   parameter of integers
 */
static bool is_parameter(const struct vc_onnx_build *b, const struct vc_onnx_name *name,
                         const struct vc_program_constant *c)
{
    const struct vc_tensor *t =
        c->index != VC_NO_TENSOR && b->source->model != NULL ? vc_model_tensor(b->source->model, c->index) : NULL;

    if (t == NULL || !vc_onnx_is_real(t)) {
        return t != NULL && vc_onnx_kind(t->dtype) == VC_DTYPE_I64 && (name->is_codes || c->tensor == NULL);
    }
    if (c->tensor == NULL || t->quant != NULL || (b->matches != NULL && b->matches[c->index].index != VC_NO_TENSOR)) {
        return true;
    }
    return t->n_dims != 0 && !name->must_be_known;
}

/* With another checkpoint, the tensor that matches (onnx_repair.c) takes the place of the file's own, in its shape.
 * The file's own tensor is kept beside (of_param), for rewrites that look at elements. */
static uint32_t add_parameter(struct vc_onnx_build *b, const struct vc_onnx_name *name,
                              const struct vc_program_constant *c)
{
    const struct vc_tensor *t = vc_model_tensor(b->source->model, c->index);
    const struct vc_onnx_match *match =
        b->matches == NULL || b->matches[c->index].index == VC_NO_TENSOR ? NULL : &b->matches[c->index];
    struct vc_param_spec spec = {
        .tensor = t->name, .index = c->index, .n_dims = t->n_dims, .shape = t->shape, .integers = !vc_onnx_is_real(t)};
    bool wide = false; /* it has axes of 1 that the checkpoint's has not, or the other way round */

    if (match != NULL && match->gates) {
        return vc_onnx_add_gates(b, name->name, t, match);
    }
    if (match != NULL) {
        const struct vc_tensor *other = vc_model_tensor(b->source->weights, match->index);

        spec.tensor = other->name;
        spec.index = match->index;
        spec.from_weights = true;
        spec.n_dims = other->n_dims;
        spec.shape = other->shape;
        spec.sliced = match->count != 0;
        spec.first = match->first;
        spec.count = match->count;
        spec.transposed = match->transposed;
        wide = !match->transposed && t->n_dims != other->n_dims;
        for (unsigned d = 0; d < t->n_dims && !match->transposed && !wide; d++) {
            wide = t->shape[d] != (d == 0 && spec.sliced ? match->count : other->shape[d]);
        }
    }
    bool repeated = match != NULL && match->repeated;
    wide = wide || repeated;
    uint32_t value = vc_graph_add_param(b->graph, wide ? NULL : name->name, &spec);
    if (value != VC_NO_VALUE && b->graph->values[value].param < b->of_param_capacity) {
        b->of_param[b->graph->values[value].param] = c->tensor;
    }
    if (wide) {
        int64_t shape[VC_GRAPH_MAX_DIMS] = {0};

        for (unsigned d = 0; d < t->n_dims; d++) {
            shape[d] = (int64_t)t->shape[d];
        }
        if (repeated) { /* [8] of [4]: [2, 4] first */
            uint64_t n = spec.sliced ? spec.count : spec.shape[spec.n_dims - 1];
            int64_t rows[2] = {(int64_t)(t->n_elems / n), (int64_t)n};
            value = vc_onnx_with_ints(b, "Expand", value, rows, 2);
        }
        value = vc_onnx_add_one(b, "Reshape", name->name,
                                (uint32_t[]){value, vc_graph_add_ints(b->graph, shape, t->n_dims)}, 2, NULL, 0);
    }
    return value;
}

/* Made at the first use and kept in the name, so that all uses have one value. */
uint32_t vc_onnx_make_value(struct vc_onnx_build *b, struct vc_onnx_name *name)
{
    const struct vc_program_constant *c;

    if (name->is_made) {
        return name->value;
    }
    name->is_made = true;
    switch (name->maker) {
    case VC_ONNX_BY_INPUT:
        name->value = add_input(b, name);
        break;
    case VC_ONNX_BY_TENSOR:
        name->value = vc_onnx_add_tensor(b, name->name, name->tensor);
        break;
    case VC_ONNX_BY_CONSTANT:
        c = &b->program->constants[name->number];
        if (is_parameter(b, name, c)) {
            name->value = add_parameter(b, name, c);
        } else if (c->tensor != NULL) {
            name->value = vc_onnx_add_tensor(b, name->name, c->tensor);
        } else {
            vc_graph_complain(b->graph, "%s: elements of its type are not supported", name->name);
            name->value = vc_graph_unknown(b->graph, name->name);
        }
        break;
    case VC_ONNX_BY_NODE: /* of a cycle, which was told */
        name->value = vc_graph_unknown(b->graph, NULL);
        break;
    }
    return name->value;
}
