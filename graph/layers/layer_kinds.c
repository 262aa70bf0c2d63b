/* layer_kinds.c - what each line of a list of layers becomes. A kind is a function and a row of the table
 * at the end.
 *
 *     add_X reads words and options of list->layer, adds parameters (param) and nodes (node), and leaves the layer's output in
 *     list->value, from which the next line goes on. A problem is noted with the line, and the value becomes unknown.
 *
 * What lines become:
 *
 *     input x [batch, 3, 32, 32]        an input; batch is an open size
 *     conv c1 64 kernel=3 pad=1         Conv(x, c1.weight [64, 3, 3, 3], c1.bias [64])
 *     batchnorm n1                      BatchNormalization(c1, n1.weight, n1.bias, n1.running_mean, n1.running_var)
 *     relu as kept                      Relu(n1), called "kept"
 *     globalavgpool                     GlobalAveragePool(kept)
 *     flatten                           Flatten
 *     linear fc 10                      MatMul(fc.weight transposed), then Add(fc.bias)
 *     output                            the value of the line before is an output
 *
 * The names of parameters are those of torch.nn, LAYER.weight and LAYER.bias, so that a checkpoint of a
 * PyTorch module whose members are called like the layers fits without a table.
 *
 * Sizes of inputs are not said: a layer takes them from the value before (size_of), which must be numbers;
 * the batch may be open.
 *
 * Weights decide over the list where units were removed from the checkpoint: outputs_of, groups_of. A list
 * that was written for the whole model reads the pruned one, too. */
#include "graph/layers/layer_kinds.h"
#include "graph/ops/recurrent.h"

#include "core/model/source.h"
#include "core/text/text.h"
#include "graph/ops/recurrent.h"

/* "line 3: conv: needs kernel=N". The kind is left out while the line has none, as after an error of
 * splitting it. */
void vc_layer_fail(struct vc_layer_list *list, const char *format, ...)
{
    char text[VC_MESSAGE_BYTES];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    vc_graph_complain(list->graph, "line %u: %s%s%s", list->line, list->layer.kind != NULL ? list->layer.kind : "",
                      list->layer.kind != NULL ? ": " : "", text);
}

/* ---- words ---- */

/* A number from 0 to 2^31 - 1, the whole word.
 * The upper bound keeps products of such numbers within 64 bits: a stride times a size cannot overflow. */
static bool number(const char *text, int64_t *out)
{
    char *end;
    long long n = strtoll(text, &end, 10);

    *out = n;
    return *text != '\0' && *end == '\0' && n >= 0 && n <= INT32_MAX;
}

/* The option's value, marked as used; NULL if the line does not have it.
 * Every option that a kind understands has to be asked for, also where the layer fails before: vc_layer_add
 * refuses what nobody asked for. */
static const char *option(struct vc_layer_list *list, const char *name)
{
    for (unsigned k = 0; k < list->layer.n_options; k++) {
        if (strcmp(list->layer.options[k].name, name) == 0) {
            list->layer.options[k].used = true;
            return list->layer.options[k].value;
        }
    }
    return NULL;
}

/* "3" or "3x5": two numbers; a missing option gives `otherwise` twice.
 * A first number of 24 digits or more is no number: `first` stays empty, and number() refuses it. */
static void pair(struct vc_layer_list *list, const char *name, int64_t otherwise, int64_t out[2])
{
    const char *text = option(list, name);
    const char *x = text == NULL ? NULL : strchr(text, 'x');
    char first[24] = "";

    out[0] = out[1] = otherwise;
    if (text == NULL) {
        return;
    }
    if (x != NULL && (size_t)(x - text) < sizeof first) {
        memcpy(first, text, (size_t)(x - text));
    }
    if (x == NULL ? !number(text, &out[0]) : !number(first, &out[0]) || !number(x + 1, &out[1])) {
        vc_layer_fail(list, "%s is a number or two, as 3 or 3x5, not '%s'", name, text);
    }
    out[1] = x == NULL ? out[0] : out[1];
}

/* An option that is one whole number of 0 or more: groups=4. */
static int64_t whole(struct vc_layer_list *list, const char *name, int64_t otherwise)
{
    const char *text = option(list, name);
    int64_t n = otherwise;

    if (text != NULL && !number(text, &n)) {
        vc_layer_fail(list, "%s is a number, not '%s'", name, text);
    }
    return n;
}

/* An option or a word that is any number: eps=1e-5. In a locale with a decimal comma strtod would
 * take 0,5, which is refused. */
static double real(struct vc_layer_list *list, const char *name, const char *text, double otherwise)
{
    char *end;

    if (text == NULL) {
        return otherwise;
    }
    double x = strtod(text, &end);
    if (*text == '\0' || *end != '\0' || strchr(text, ',') != NULL) {
        vc_layer_fail(list, "%s is a number, not '%s'", name, text);
    }
    return x;
}

/* An option that is yes or no: bias=no. */
static bool yes(struct vc_layer_list *list, const char *name, bool otherwise)
{
    const char *text = option(list, name);

    if (text != NULL && strcmp(text, "yes") != 0 && strcmp(text, "no") != 0) {
        vc_layer_fail(list, "%s is yes or no, not '%s'", name, text);
    }
    return text == NULL ? otherwise : strcmp(text, "yes") == 0;
}

/* Word number k as a size of 1 or more. Returns 0 after a problem. */
static int64_t size_word(struct vc_layer_list *list, unsigned k, const char *what)
{
    int64_t n = 0;

    VC_LEAVE_WITH(k >= list->layer.n_words || !number(list->layer.words[k], &n) || n == 0,
                  vc_layer_fail(list, "needs %s, a number from 1 on", what), 0);
    return n;
}

/* The layer's name, of which those of its parameters are made. NULL: a problem was noted. */
static const char *name_word(struct vc_layer_list *list)
{
    VC_LEAVE_WITH(list->layer.n_words == 0, vc_layer_fail(list, "needs a name"), NULL);
    return list->layer.words[0];
}

/* Size of dimension k (negative: the last) of the value that the layer works on; it has to be a number. 0
 * after a problem.
 * size_of(list, 1) is the number of channels of [batch, channels, height, width], size_of(list, -1) the
 * number of features of [batch, ..., features]. */
static uint64_t size_of(struct vc_layer_list *list, int k)
{
    const struct vc_graph_value *value = vc_graph_value(list->graph, list->value);
    unsigned axis = k < 0 ? value->n_dims - 1 : (unsigned)k;

    if (list->graph->facts[list->value].unknown) {
        return 0; /* why was said before */
    }
    VC_LEAVE_WITH(axis >= value->n_dims || value->shape[axis].size <= 0,
                  vc_layer_fail(list, "its input has no dimension %u of a known size", axis), 0);
    return (uint64_t)value->shape[axis].size;
}

/* ---- what is added ---- */

/* What of the tensor `as` says. A part has no name in the graph, since several may be parts of one tensor. */
static uint32_t part(struct vc_layer_list *list, const char *layer, const char *what, const uint64_t *shape,
                     unsigned n_dims, const struct vc_param_spec *as)
{
    char name[VC_LAYER_MAX_LINE + 32];
    struct vc_param_spec spec = *as;

    spec.tensor = name;
    spec.index = VC_NO_TENSOR;
    spec.n_dims = n_dims;
    spec.shape = shape;
    snprintf(name, sizeof name, "%s.%s", layer, what);
    if (list->model != NULL) {
        spec.index = vc_model_find(list->model, name);
        VC_LEAVE_WITH(spec.index == VC_NO_TENSOR, vc_layer_fail(list, "the checkpoint has no tensor '%s'", name),
                      vc_graph_unknown(list->graph, NULL));
        const struct vc_tensor *tensor = vc_model_tensor(list->model, spec.index);
        if (tensor->n_dims != n_dims || memcmp(tensor->shape, shape, n_dims * sizeof *shape) != 0) {
            char wanted[200], found[200];

            vc_layer_fail(list, "'%s' is [%s] in the checkpoint, and [%s] by the list", name,
                          vc_shape_text(tensor->shape, tensor->n_dims, found, sizeof found),
                          vc_shape_text(shape, n_dims, wanted, sizeof wanted));
            return vc_graph_unknown(list->graph, NULL);
        }
    }
    return vc_graph_add_param(list->graph, spec.sliced ? NULL : name, &spec);
}

/* The parameter LAYER.what with that shape, a tensor of the model where there is one; the shapes have to be
 * equal. `transposed`: the graph sees the last two axes swapped, and `shape` is that of the tensor.
 *
 * Without a model (list->model is NULL) nothing is compared, and the parameter has no index: its
 * shape is known, and its numbers are nowhere. */
static uint32_t param(struct vc_layer_list *list, const char *layer, const char *what, const uint64_t *shape,
                      unsigned n_dims, bool transposed)
{
    return part(list, layer, what, shape, n_dims, &(struct vc_param_spec){.transposed = transposed});
}

/* Rows [first, first + count) of it. */
static uint32_t rows_of(struct vc_layer_list *list, const char *layer, const char *what, const uint64_t *shape,
                        unsigned n_dims, uint64_t first, uint64_t count)
{
    return part(list, layer, what, shape, n_dims,
                &(struct vc_param_spec){.sliced = count != shape[0], .first = first, .count = count});
}

/* The weight of the layer where its model is known and has it; else NULL. */
static const struct vc_tensor *weight_of(const struct vc_layer_list *list, const char *layer)
{
    char name[VC_LAYER_MAX_LINE + 32];

    snprintf(name, sizeof name, "%s.weight", layer);
    size_t index = list->model != NULL ? vc_model_find(list->model, name) : VC_NO_TENSOR;
    return index != VC_NO_TENSOR ? vc_model_tensor(list->model, index) : NULL;
}

/* How many outputs the layer has: as many as the list says, or fewer where units were removed from the weights.
 *     conv c1 64, and c1.weight is [48, 3, 3, 3] in the checkpoint: 48 outputs
 *     conv c1 64, and c1.weight is [80, 3, 3, 3]: 64, and param() refuses the tensor
 */
static uint64_t outputs_of(const struct vc_layer_list *list, const char *layer, int64_t said)
{
    const struct vc_tensor *weight = weight_of(list, layer);

    return weight != NULL && weight->n_dims >= 2 && weight->shape[0] != 0 && weight->shape[0] < (uint64_t)said
               ? weight->shape[0]
               : (uint64_t)said;
}

/* Into how many groups the channels are divided: as the list says, but where each channel was a group by itself, and
 * channels were removed from the weights, there are as many as channels are left.
 *     conv d1 64 groups=64 behind a layer with 48 channels left, d1.weight [48, 1, 3, 3]: 48 groups
 */
static int64_t groups_of(const struct vc_layer_list *list, const char *layer, int64_t said, uint64_t in)
{
    const struct vc_tensor *weight = weight_of(list, layer);

    return weight != NULL && weight->n_dims == 4 && weight->shape[1] == 1 && in < (uint64_t)said ? (int64_t)in : said;
}

/* One node with one output, from which the list goes on. `last`: the output is the layer's, and is called
 * `as` or by its name, unless another value has that name already. Nodes before the last one of a layer
 * (MatMul of a linear layer with a bias) get a name from the graph. */
static void node(struct vc_layer_list *list, const char *op, const uint32_t *inputs, unsigned n_inputs,
                 const struct vc_graph_attr *attrs, unsigned n_attrs, bool last)
{
    const char *name = last ? list->layer.as : NULL;

    if (last && name == NULL && list->layer.n_words != 0 &&
        vc_graph_find(list->graph, list->layer.words[0]) == VC_NO_VALUE) {
        name = list->layer.words[0]; /* the layer's own */
    }
    list->value = vc_graph_add_one(list->graph, op, name, inputs, n_inputs, attrs, n_attrs);
}

/* Word number k, which the layer has no place for. */
static void refuse_word(struct vc_layer_list *list, unsigned k)
{
    vc_layer_fail(list, "'%s' is one word too many", list->layer.words[k]);
}

/* A kind without words or parameters.
 * A word is refused, since it would be taken for a name that parameters have. */
static void plain(struct vc_layer_list *list, const char *op, const struct vc_graph_attr *attrs, unsigned n_attrs)
{
    uint32_t x = list->value;

    VC_LEAVE_IF(list->layer.n_words != 0, refuse_word(list, 0));
    node(list, op, &x, 1, attrs, n_attrs, true);
}

/* One size of [batch, 3, 32, 32], the n characters at text. False if it is not one. A word that is no number is an
 * open size; digits that are no size (0, 3000000000) are a mistake, and no name. */
static bool shape_word(struct vc_layer_list *list, const char *text, size_t n, struct vc_dim *out)
{
    char word[64];
    int64_t size;

    while (n != 0 && text[n - 1] == ' ') {
        n--;
    }
    if (n == 0 || n >= sizeof word) {
        return false;
    }
    memcpy(word, text, n);
    word[n] = '\0';
    if (number(word, &size) && size > 0) {
        *out = vc_dim_number(size);
        return true;
    }
    *out = vc_dim_symbol(&list->graph->dims, word);
    return word[strspn(word, "0123456789")] != '\0';
}

/* input NAME [sizes] type=f32|i64.
 * A size that repeats a name is the same size: [batch, n, n] is square. */
static void add_input(struct vc_layer_list *list)
{
    struct vc_dim shape[VC_GRAPH_MAX_DIMS];
    unsigned n_dims = 0;
    const char *text = list->layer.n_words > 1 ? list->layer.words[1] : "";
    const char *type = option(list, "type");
    bool integers = type != NULL && strcmp(type, "i64") == 0;

    VC_LEAVE_IF(list->layer.n_words != 2 || *text != '[' || text[strlen(text) - 1] != ']',
                vc_layer_fail(list, "needs a name and a shape, as in: input x [batch, 3, 32, 32]"));
    if (type != NULL && !integers && strcmp(type, "f32") != 0) {
        vc_layer_fail(list, "type is f32 or i64, not '%s'", type);
    }
    do { /* text is at "[" or a comma, and then behind a size */
        size_t n;

        text += 1 + strspn(text + 1, " ");
        n = strcspn(text, ",]");
        VC_LEAVE_IF(n_dims == VC_GRAPH_MAX_DIMS,
                    vc_layer_fail(list, "the shape has more than %d sizes", VC_GRAPH_MAX_DIMS));
        if (!shape_word(list, text, n, &shape[n_dims++]) || (text[n] == ']' && text[n + 1] != '\0')) {
            vc_layer_fail(list, "the shape is not one of numbers and names");
            return;
        }
        text += n;
    } while (*text == ',');
    list->value =
        vc_graph_add_input(list->graph, list->layer.words[0], integers ? VC_DTYPE_I64 : VC_DTYPE_F32, shape, n_dims);
}

/* conv NAME OUT kernel=K stride= pad= dilation= groups= bias=: torch.nn.Conv2d, with the input channels
 * from the line before.
 *     weight [out, in / groups, kernel rows, kernel columns], bias [out]
 *
 * The pads of ONNX are begin and end of each axis: pad=1x2 is {1, 2, 1, 2}. */
static void add_conv(struct vc_layer_list *list)
{
    const char *name = name_word(list);
    int64_t out = name == NULL ? 0 : size_word(list, 1, "its output channels");
    int64_t kernel[2], strides[2], pad[2], dilations[2];
    int64_t groups = whole(list, "groups", 1);
    bool bias = yes(list, "bias", true);
    uint64_t in = size_of(list, 1);
    uint64_t shape[4];
    uint32_t inputs[3];

    pair(list, "kernel", 0, kernel);
    pair(list, "stride", 1, strides);
    pair(list, "pad", 0, pad);
    pair(list, "dilation", 1, dilations);
    if (out == 0 || in == 0) {
        return;
    }
    groups = groups_of(list, name, groups, in);
    VC_LEAVE_IF(kernel[0] == 0 || kernel[1] == 0 || groups == 0 || in % (uint64_t)groups != 0,
                vc_layer_fail(list,
                              kernel[0] == 0 || kernel[1] == 0
                                  ? "needs kernel=N"
                                  : "groups does not divide the %llu channels of its input",
                              (unsigned long long)in));
    shape[0] = outputs_of(list, name, out);
    shape[1] = in / (uint64_t)groups;
    shape[2] = (uint64_t)kernel[0];
    shape[3] = (uint64_t)kernel[1];
    inputs[0] = list->value;
    inputs[1] = param(list, name, "weight", shape, 4, false);
    inputs[2] = bias ? param(list, name, "bias", shape, 1, false) : VC_NO_VALUE;
    {
        const int64_t pads[4] = {pad[0], pad[1], pad[0], pad[1]};
        const struct vc_graph_attr attrs[] = {vc_attr_int("group", groups), vc_attr_ints("strides", strides, 2),
                                              vc_attr_ints("pads", pads, 4), vc_attr_ints("dilations", dilations, 2)};

        node(list, "Conv", inputs, bias ? 3 : 2, attrs, 4, true);
    }
}

/* torch.nn.Linear: weight [out, in], read transposed, then the bias.
 * The matrix product works along the last axis, so that inputs of any rank will do. */
static void add_linear(struct vc_layer_list *list)
{
    const char *name = name_word(list);
    int64_t out = name == NULL ? 0 : size_word(list, 1, "its output features");
    bool bias = yes(list, "bias", true);
    uint64_t shape[2] = {(uint64_t)out, size_of(list, -1)};
    uint32_t inputs[2] = {list->value, VC_NO_VALUE};

    if (out == 0 || shape[1] == 0) {
        return;
    }
    shape[0] = outputs_of(list, name, out);
    inputs[1] = param(list, name, "weight", shape, 2, true);
    node(list, "MatMul", inputs, 2, NULL, 0, !bias);
    if (bias) {
        inputs[0] = list->value;
        inputs[1] = param(list, name, "bias", shape, 1, false);
        node(list, "Add", inputs, 2, NULL, 0, true);
    }
}

/* Four tensors of one number for each channel, named as torch.nn.BatchNorm2d names them.
 * What is computed is inference: (x - running_mean) / sqrt(running_var + eps) * weight + bias. */
static void add_batchnorm(struct vc_layer_list *list)
{
    static const char *const parts[] = {"weight", "bias", "running_mean", "running_var"};
    const char *name = name_word(list);
    double eps = real(list, "eps", option(list, "eps"), 1e-5);
    const struct vc_graph_attr attr = vc_attr_float("epsilon", eps);
    uint64_t channels = size_of(list, 1);
    uint32_t inputs[5] = {list->value};

    if (name == NULL || channels == 0) {
        return;
    }
    for (unsigned k = 0; k < 4; k++) {
        inputs[k + 1] = param(list, name, parts[k], &channels, 1, false);
    }
    node(list, "BatchNormalization", inputs, 5, &attr, 1, true);
}

/* torch.nn.LayerNorm over the last axis, which is what LayerNormalization does without an axis. */
static void add_layernorm(struct vc_layer_list *list)
{
    const char *name = name_word(list);
    const struct vc_graph_attr attr = vc_attr_float("epsilon", real(list, "eps", option(list, "eps"), 1e-5));
    uint64_t features = size_of(list, -1);
    uint32_t inputs[3] = {list->value};

    if (name == NULL || features == 0) {
        return;
    }
    inputs[1] = param(list, name, "weight", &features, 1, false);
    inputs[2] = param(list, name, "bias", &features, 1, false);
    node(list, "LayerNormalization", inputs, 3, &attr, 1, true);
}

/* embedding NAME ROWS COLUMNS: rows chosen by the integers of the layer before.
 * Columns follow: [batch, sequence] becomes [batch, sequence, columns]. */
static void add_embedding(struct vc_layer_list *list)
{
    const char *name = name_word(list);
    int64_t rows = name == NULL ? 0 : size_word(list, 1, "its number of rows");
    int64_t columns = rows == 0 ? 0 : size_word(list, 2, "its number of columns");
    uint64_t shape[2] = {(uint64_t)rows, (uint64_t)columns};
    uint32_t inputs[2] = {VC_NO_VALUE, list->value};

    if (columns != 0) {
        inputs[0] = param(list, name, "weight", shape, 2, false);
        node(list, "Gather", inputs, 2, NULL, 0, true);
    }
}

/* ---- recurrent layers ---- */

/* Values one behind the other along an axis; one alone stays as it is. */
static uint32_t joined(struct vc_layer_list *list, const uint32_t *values, unsigned n, int64_t along)
{
    const struct vc_graph_attr axis = vc_attr_int("axis", along);

    return n == 1 ? values[0] : vc_graph_add_one(list->graph, "Concat", NULL, values, n, &axis, 1);
}

/* The gates of LAYER.what_l0, or of two biases one behind the other, in ONNX's order, for one direction: [1, ..]. */
static uint32_t gates(struct vc_layer_list *list, const struct vc_torch_recurrent *kind, const char *const *what,
                      unsigned n_tensors, const char *suffix, const uint64_t *shape, unsigned n_dims)
{
    uint64_t hidden = shape[0] / kind->gates;
    const int64_t axis = 0;
    uint32_t parts[8];
    char name[64];

    for (unsigned k = 0; k < n_tensors * kind->gates; k++) {
        snprintf(name, sizeof name, "%s_%s", what[k / kind->gates], suffix);
        parts[k] =
            rows_of(list, list->layer.words[0], name, shape, n_dims, kind->order[k % kind->gates] * hidden, hidden);
    }
    return vc_graph_add(
        list->graph, "Unsqueeze", NULL,
        (uint32_t[]){joined(list, parts, n_tensors * kind->gates, 0), vc_graph_add_ints(list->graph, &axis, 1)}, 2);
}

/* Columns of LAYER.what_l0: as many as the list says, or fewer where units were removed from the weights. */
static uint64_t columns_of(const struct vc_layer_list *list, const char *what, uint64_t number, uint64_t said)
{
    char name[VC_LAYER_MAX_LINE + 64];

    snprintf(name, sizeof name, "%s.%s_l%llu", list->layer.words[0], what, (unsigned long long)number);
    size_t index = list->model != NULL ? vc_model_find(list->model, name) : VC_NO_TENSOR;
    const struct vc_tensor *weight = index != VC_NO_TENSOR ? vc_model_tensor(list->model, index) : NULL;
    return weight != NULL && weight->n_dims == 2 && weight->shape[1] != 0 && weight->shape[1] < said ? weight->shape[1]
                                                                                                     : said;
}

/* States times weight_hr', of each direction; these lie along `axis`. */
static uint32_t projected(struct vc_layer_list *list, uint32_t states, const uint32_t *weights, unsigned n,
                          int64_t axis)
{
    uint32_t parts[2];

    for (int64_t d = 0; d < (int64_t)n; d++) {
        uint32_t pair[2] = {states};

        if (n != 1) {
            const int64_t end = d + 1;
            const uint32_t slice[4] = {states, vc_graph_add_ints(list->graph, &d, 1),
                                       vc_graph_add_ints(list->graph, &end, 1),
                                       vc_graph_add_ints(list->graph, &axis, 1)};

            pair[0] = vc_graph_add(list->graph, "Slice", NULL, slice, 4);
        }
        pair[1] = vc_graph_add(list->graph, "Transpose", NULL, &weights[d], 1);
        parts[d] = vc_graph_add(list->graph, "MatMul", NULL, pair, 2);
    }
    return joined(list, parts, n, axis);
}

/* The options of a layer of them. */
struct recurrent {
    uint64_t hidden, projection; /* projection 0: none */
    bool both, bias, last;
};

/* One layer of them: [batch, steps, features] becomes [batch, steps, directions * hidden], or, `last`, the last states
 * [batch, directions * hidden]. With projections P the states are p = P h, and weights of states R p = (R P) h: a layer
 * without them whose R is R P, with a product behind it. */
static void add_recurrent_layer(struct vc_layer_list *list, const struct vc_torch_recurrent *kind, uint64_t number,
                                const struct recurrent *is, bool last, bool end)
{
    static const char *const weights[] = {"weight_ih", "weight_hh"};
    static const char *const biases[] = {"bias_ih", "bias_hh"};
    bool projects = is->projection != 0;
    uint64_t hidden = columns_of(list, projects ? "weight_hr" : "weight_hh", number, is->hidden);
    uint64_t width = projects ? columns_of(list, "weight_hh", number, is->projection) : hidden;
    uint64_t shapes[3][2] = {{kind->gates * hidden, size_of(list, -1)}, {kind->gates * hidden, width}, {width, hidden}};
    const int64_t sizes[3] = {0, last ? -1 : 0, -1};
    struct vc_graph_attr attrs[4] = {vc_attr_int("hidden_size", (int64_t)hidden), vc_attr_int("layout", 1),
                                     vc_attr_string("direction", is->both ? "bidirectional" : "forward"),
                                     vc_attr_int("linear_before_reset", 1)};
    uint32_t inputs[4] = {list->value, VC_NO_VALUE, VC_NO_VALUE, VC_NO_VALUE};
    uint32_t of[4][2];
    char name[64];

    for (unsigned d = 0; d < 1u + is->both; d++) {
        char suffix[32];

        snprintf(suffix, sizeof suffix, "l%llu%s", (unsigned long long)number, d == 0 ? "" : "_reverse");
        of[0][d] = gates(list, kind, &weights[0], 1, suffix, shapes[0], 2);
        of[1][d] = gates(list, kind, &weights[1], 1, suffix, shapes[1], 2);
        of[2][d] = is->bias ? gates(list, kind, biases, 2, suffix, shapes[0], 1) : VC_NO_VALUE;
        if (projects) {
            snprintf(name, sizeof name, "weight_hr_%s", suffix);
            of[3][d] = param(list, list->layer.words[0], name, shapes[2], 2, false);
            of[1][d] = vc_graph_add(list->graph, "MatMul", NULL, (uint32_t[]){of[1][d], of[3][d]}, 2);
        }
    }
    for (unsigned k = 0; k < (is->bias ? 3u : 2u); k++) {
        inputs[k + 1] = joined(list, of[k], 1u + is->both, 0);
    }
    list->value = vc_graph_add_node(list->graph, &(struct vc_node_spec){.op = kind->op,
                                                                        .n_inputs = is->bias ? 4 : 3,
                                                                        .inputs = inputs,
                                                                        .n_outputs = 2,
                                                                        .n_attrs = kind->gates == 3 ? 4 : 3,
                                                                        .attrs = attrs});
    list->value = last ? vc_graph_output_of(list->graph, list->value, 1) : list->value;
    list->value = projects ? projected(list, list->value, of[3], 1u + is->both, last ? 1 : 2) : list->value;
    inputs[0] = list->value;
    inputs[1] = vc_graph_add_ints(list->graph, sizes, last ? 2 : 3);
    node(list, "Reshape", inputs, 2, NULL, 0, end);
}

/* torch.nn.LSTM and its kin with batch_first: NAME.weight_ih_l0 [gates * hidden, features], NAME.weight_hh_l0, two biases;
 * _l1 and on of further layers, _reverse of the other direction. */
static void add_recurrent(struct vc_layer_list *list, const struct vc_torch_recurrent *kind)
{
    const char *name = name_word(list);
    int64_t hidden = name == NULL ? 0 : size_word(list, 1, "its hidden size");
    int64_t projection = kind->gates == 4 ? whole(list, "proj", 0) : 0;
    int64_t n_layers = whole(list, "layers", 1);
    struct recurrent is = {(uint64_t)hidden, (uint64_t)projection, yes(list, "bidirectional", false),
                           yes(list, "bias", true), yes(list, "last", false)};
    char tensor[VC_LAYER_MAX_LINE + 32];

    if (hidden == 0 || size_of(list, -1) == 0) {
        return;
    }
    VC_LEAVE_IF(vc_graph_value(list->graph, list->value)->n_dims != 3 || n_layers < 1 || n_layers > 1000,
                vc_layer_fail(list, "takes [batch, steps, features], in 1 to 1000 layers"));
    snprintf(tensor, sizeof tensor, "%s.weight_hr_l0", name);
    VC_LEAVE_IF(projection < 0 || projection >= hidden ||
                    (projection == 0 && kind->gates == 4 && list->model != NULL &&
                     vc_model_find(list->model, tensor) != VC_NO_TENSOR),
                vc_layer_fail(list, "states of '%s' have projections: proj=P says their size, which is less than %lld",
                              tensor, (long long)hidden));
    for (int64_t k = 0; k < n_layers; k++) {
        add_recurrent_layer(list, kind, (uint64_t)k, &is, is.last && k + 1 == n_layers, k + 1 == n_layers);
    }
}

static void add_lstm(struct vc_layer_list *list)
{
    add_recurrent(list, vc_torch_recurrent("LSTM"));
}

static void add_gru(struct vc_layer_list *list)
{
    add_recurrent(list, vc_torch_recurrent("GRU"));
}

static void add_rnn(struct vc_layer_list *list)
{
    add_recurrent(list, vc_torch_recurrent("RNN"));
}

/* The stride is the kernel unless it is given, as in torch.nn.
 * An option stride that is given as one number holds for both axes; where it is missing, pair() has set
 * both to the rows of the kernel, and the columns are set here. */
static void add_pool(struct vc_layer_list *list, const char *op)
{
    int64_t kernel[2], strides[2], pad[2];

    pair(list, "kernel", 0, kernel);
    pair(list, "stride", kernel[0], strides);
    pair(list, "pad", 0, pad);
    VC_LEAVE_IF(kernel[0] == 0 || kernel[1] == 0, vc_layer_fail(list, "needs kernel=N"));
    if (option(list, "stride") == NULL) {
        strides[1] = kernel[1];
    }
    {
        const int64_t pads[4] = {pad[0], pad[1], pad[0], pad[1]};
        const struct vc_graph_attr attrs[] = {vc_attr_ints("kernel_shape", kernel, 2),
                                              vc_attr_ints("strides", strides, 2), vc_attr_ints("pads", pads, 4)};

        plain(list, op, attrs, 3);
    }
}

static void add_maxpool(struct vc_layer_list *list)
{
    add_pool(list, "MaxPool");
}

static void add_avgpool(struct vc_layer_list *list)
{
    add_pool(list, "AveragePool");
}

/* x * sigmoid(x): x is used twice. */
static void add_silu(struct vc_layer_list *list)
{
    uint32_t inputs[2] = {list->value, list->value};

    VC_LEAVE_IF(list->layer.n_words != 0, refuse_word(list, 0));
    node(list, "Sigmoid", inputs, 1, NULL, 0, false);
    inputs[1] = list->value;
    node(list, "Mul", inputs, 2, NULL, 0, true);
}

/* Along the last axis, whatever the rank. */
static void add_softmax(struct vc_layer_list *list)
{
    const struct vc_graph_attr attr = vc_attr_int("axis", -1);

    plain(list, "Softmax", &attr, 1);
}

/* Nothing happens in inference; training keeps a mask.
 * No node is added: the mark lets the estimate of memory count that
 * mask (memory/timeline). */
static void add_dropout(struct vc_layer_list *list)
{
    if (list->layer.n_words > 1) {
        vc_layer_fail(list, "'%s' is one word too many", list->layer.words[1]);
    } else if (list->value < list->graph->n_values) {
        list->graph->values[list->value].dropped = true;
    }
}

/* The value that the last word names. */
static uint32_t named(struct vc_layer_list *list)
{
    uint32_t value = list->layer.n_words == 1 ? vc_graph_find(list->graph, list->layer.words[0]) : VC_NO_VALUE;

    if (value == VC_NO_VALUE && list->layer.n_words == 1) {
        vc_layer_fail(list, "needs the name of a value from above; there is no '%s'", list->layer.words[0]);
    } else if (value == VC_NO_VALUE) {
        vc_layer_fail(list, "needs the name of a value from above");
    }
    return value;
}

/* from NAME: the next layer works on that value, which begins a second branch. */
static void add_from(struct vc_layer_list *list)
{
    uint32_t value = named(list);

    list->value = value == VC_NO_VALUE ? vc_graph_unknown(list->graph, NULL) : value;
}

/* add NAME: the value before plus the named one, as at the end of a residual block. Shapes are broadcast as
 * in ONNX. */
static void add_add(struct vc_layer_list *list)
{
    uint32_t inputs[2] = {list->value, named(list)};

    if (inputs[1] != VC_NO_VALUE) {
        list->layer.n_words = 0; /* the word is no name for the sum */
        node(list, "Add", inputs, 2, NULL, 0, true);
    }
}

/* concat NAME axis=1: the value before, then the named one, along the axis; channels by default. */
static void add_concat(struct vc_layer_list *list)
{
    uint32_t inputs[2] = {list->value, named(list)};
    const struct vc_graph_attr attr = vc_attr_int("axis", whole(list, "axis", 1));

    if (inputs[1] != VC_NO_VALUE) {
        list->layer.n_words = 0;
        node(list, "Concat", inputs, 2, &attr, 1, true);
    }
}

/* multiply 0.125: each element times a number. */
static void add_multiply(struct vc_layer_list *list)
{
    uint32_t inputs[2] = {list->value, VC_NO_VALUE};

    VC_LEAVE_IF(list->layer.n_words != 1, vc_layer_fail(list, "needs a number"));
    inputs[1] = vc_graph_add_float(list->graph, real(list, "the factor", list->layer.words[0], 1));
    list->layer.n_words = 0;
    node(list, "Mul", inputs, 2, NULL, 0, true);
}

/* reshape [0, 1, 8, 8]: ONNX's 0 and -1. The word stands without spaces or in brackets with them
 * (next_word).
 * What follows a number without a comma or "]" is an error: `text` then stands at neither. */
static void add_reshape(struct vc_layer_list *list)
{
    const char *text = list->layer.n_words == 1 ? list->layer.words[0] : "";
    int64_t shape[VC_GRAPH_MAX_DIMS];
    size_t n = 0;
    uint32_t inputs[2] = {list->value, VC_NO_VALUE};

    while (*text == '[' || *text == ',') {
        char *end;

        if (n == VC_GRAPH_MAX_DIMS) {
            break;
        }
        shape[n++] = strtoll(text + 1, &end, 10);
        text = end == text + 1 ? "?" : end;
    }
    VC_LEAVE_IF(n == 0 || strcmp(text, "]") != 0,
                vc_layer_fail(list, "needs a shape, as in: reshape [0, 1, 8, 8] (0: as it is, -1: what is left)"));
    inputs[1] = vc_graph_add_ints(list->graph, shape, n);
    list->layer.n_words = 0;
    node(list, "Reshape", inputs, 2, NULL, 0, true);
}

/* output, or output NAME: several lines give several outputs, in their order.
 * A list without such a line has its last value as output (layers.c, by has_output). */
static void add_output(struct vc_layer_list *list)
{
    uint32_t value = list->layer.n_words == 0 ? list->value : named(list);

    if (value != VC_NO_VALUE) {
        vc_graph_add_output(list->graph, value);
        list->has_output = true;
    }
}

/* One row for each kind: its word, its function or its one operator, and whether its first word names
 * parameters. Layers after a named one belong to its block, up to the next named one. The first row is the
 * input, which alone may come first. */
static const struct layer_kind {
    const char *name;
    void (*add)(struct vc_layer_list *list); /* NULL: it is op, without words and options */
    unsigned n_words; /* of a kind with parameters: its name, which is theirs, and their sizes; 0: the function looks */
    const char *op;
} kinds[] = {
    {"input", add_input, 0, NULL},
    {"conv", add_conv, 2, NULL},
    {"linear", add_linear, 2, NULL},
    {"batchnorm", add_batchnorm, 1, NULL},
    {"layernorm", add_layernorm, 1, NULL},
    {"embedding", add_embedding, 3, NULL},
    {"lstm", add_lstm, 2, NULL},
    {"gru", add_gru, 2, NULL},
    {"rnn", add_rnn, 2, NULL},
    {"relu", NULL, 0, "Relu"},
    {"sigmoid", NULL, 0, "Sigmoid"},
    {"tanh", NULL, 0, "Tanh"},
    {"gelu", NULL, 0, "Gelu"},
    {"silu", add_silu, 0, NULL},
    {"softmax", add_softmax, 0, NULL},
    {"maxpool", add_maxpool, 0, NULL},
    {"avgpool", add_avgpool, 0, NULL},
    {"globalavgpool", NULL, 0, "GlobalAveragePool"},
    {"flatten", NULL, 0, "Flatten"}, /* all behind the first axis becomes one: ONNX's axis 1, the default */
    {"reshape", add_reshape, 0, NULL},
    {"multiply", add_multiply, 0, NULL},
    {"dropout", add_dropout, 0, NULL},
    {"add", add_add, 0, NULL},
    {"concat", add_concat, 0, NULL},
    {"from", add_from, 0, NULL},
    {"output", add_output, 0, NULL},
};

#define N_KINDS (sizeof kinds / sizeof *kinds)

/* "there is no such layer; there are input, conv, linear, ... and output": the table is the list of what
 * can be written. */
static void refuse_kind(struct vc_layer_list *list)
{
    char all[400] = "";

    for (size_t k = 0; k < N_KINDS; k++) {
        snprintf(all + strlen(all), sizeof all - strlen(all), "%s%s",
                 k == 0             ? ""
                 : k == N_KINDS - 1 ? " and "
                                    : ", ",
                 kinds[k].name);
    }
    vc_layer_fail(list, "there is no such layer; there are %s", all);
}

/* Looks the kind up, sets the block, adds, and refuses options that nothing asked for.
 * A layer before any input leaves an unknown value behind, so that the following lines give no further
 * problem. */
void vc_layer_add(struct vc_layer_list *list)
{
    size_t k = 0;

    while (k < N_KINDS && strcmp(kinds[k].name, list->layer.kind) != 0) {
        k++;
    }
    if (k == N_KINDS) {
        refuse_kind(list);
        return;
    }
    if (k != 0 && list->value == VC_NO_VALUE) {
        vc_layer_fail(list, "comes before an input");
        list->value = vc_graph_unknown(list->graph, NULL);
        return;
    }
    if (kinds[k].n_words != 0 && list->layer.n_words > kinds[k].n_words) {
        refuse_word(list, kinds[k].n_words);
    }
    if (kinds[k].n_words != 0 && list->layer.n_words > 0) {
        vc_graph_set_block(list->graph, "%s", list->layer.words[0]);
    }
    if (kinds[k].add != NULL) {
        kinds[k].add(list);
    } else {
        plain(list, kinds[k].op, NULL, 0);
    }
    for (unsigned i = 0; i < list->layer.n_options; i++) {
        if (!list->layer.options[i].used) {
            vc_layer_fail(list, "there is no option %s", list->layer.options[i].name);
        }
    }
}
