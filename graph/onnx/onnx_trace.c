/* onnx_trace.c - which tensor of another checkpoint a folded constant was made of, by what PyTorch's newer exporter says of
 * the node that reads it:
 *
 *     MatMul (x, val_0)   "... = call_function[target=torch.ops.aten.linear.default](args = (%x, %p_fc_weight, %p_fc_bias), ..."
 *                         val_0 is fc.weight, transposed
 *
 * Arguments that are parameters or buffers have the tensor's name behind p_ or b_, with _ for what is no letter or digit.
 * Only what the exporter makes of a whole argument in a known way is matched; other constants were computed before.
 *
 * Called by onnx_repair.c and onnx_place.c. */
#include <ctype.h>

#include <vcompress/quantize.h>

#include "core/text/text.h"
#include "graph/onnx/onnx_build.h"

/* The word is the name of the tensor as torch.export writes it: in small letters. */
static bool is_named(const char *word, size_t n, const char *name)
{
    size_t k = 0;

    for (; k < n && name[k] != '\0'; k++) {
        int c = tolower((unsigned char)name[k]);

        if (tolower((unsigned char)word[k]) != (isalnum(c) ? c : '_')) {
            return false;
        }
    }
    return k == n && name[k] == '\0';
}

/* How many tensors of the checkpoint are named so; *found: the last of them. */
static size_t count_named(const struct vc_onnx_build *b, const char *word, size_t n, size_t *found)
{
    size_t n_found = 0;

    for (size_t i = 0; i < b->source->weights->n_tensors; i++) {
        if (is_named(word, n, vc_model_tensor(b->source->weights, i)->name)) {
            *found = i;
            n_found++;
        }
    }
    return n_found;
}

/* Letters in front of "_1" at the end; 0: there is none. */
static size_t before_number(const char *word, size_t n)
{
    size_t k = n;

    while (k > 1 && isdigit((unsigned char)word[k - 1])) {
        k--;
    }
    return k < n && word[k - 1] == '_' ? k - 1 : 0;
}

/* The word "%p_fc_weight" as a tensor of the checkpoint; VC_NO_TENSOR: it is something else, or two could be meant. Where
 * names of two tensors, a.fc.weight and a_fc.weight, become one word, torch.export puts _1 behind the second, which is no
 * tensor "a_fc.weight_1" then. */
static size_t tensor_of(const struct vc_onnx_build *b, const char *word, size_t n)
{
    size_t found = VC_NO_TENSOR;
    size_t other;

    if (n < 4 || (strncmp(word, "%p_", 3) != 0 && strncmp(word, "%b_", 3) != 0) ||
        count_named(b, word + 3, n - 3, &found) != 1) {
        return VC_NO_TENSOR;
    }
    for (size_t k = before_number(word + 3, n - 3); k != 0; k = before_number(word + 3, k)) {
        VC_RETURN_IF(count_named(b, word + 3, k, &other) > 1, VC_NO_TENSOR);
    }
    return found;
}

/* The node is of a call of torch.ops.aten.<target>. */
static bool is_traced(const struct vc_program_node *node, const char *target)
{
    const char *at = node->trace == NULL ? NULL : strstr(node->trace, "[target=torch.ops.aten.");

    return at != NULL && strncmp(at + 23, target, strlen(target)) == 0 && strchr(".]", at[23 + strlen(target)]) != NULL;
}

/* Where the arguments of the call begin; NULL: the node has none. */
static const char *arguments_of(const struct vc_program_node *node)
{
    const char *at = node->trace == NULL ? NULL : strstr(node->trace, "](args = (");

    return at == NULL ? NULL : at + 10;
}

/* The next argument, those of a list one by one, as a tensor of the checkpoint; false: there are no more. */
static bool next_argument(const struct vc_onnx_build *b, const char **at, size_t *index)
{
    const char *word = *at == NULL ? "" : *at + strspn(*at, "[ ");
    size_t n = strcspn(word, ",])");

    if (n == 0) {
        return false;
    }
    *index = tensor_of(b, word, n);
    *at = word + n;
    *at += strspn(*at, "],");
    return true;
}

/* Argument k; VC_NO_TENSOR: it is no tensor of the checkpoint. */
static size_t argument(const struct vc_onnx_build *b, const struct vc_program_node *node, unsigned k)
{
    const char *at = arguments_of(node);
    size_t index = VC_NO_TENSOR;

    for (unsigned i = 0; i <= k; i++) {
        VC_RETURN_IF(!next_argument(b, &at, &index), VC_NO_TENSOR);
    }
    return index;
}

/* Constants that are one argument as it is, or transposed. */
static const struct traced {
    const char *target, *op;
    unsigned argument;
    bool transposed;
} known[] = {{"linear", "MatMul", 1, true},
             {"group_norm", "Mul", 2, false},
             {"group_norm", "Add", 3, false},
             {"prelu", "PRelu", 1, false}};

static void claim(uint64_t *claimed, size_t index)
{
    if (claimed != NULL) {
        claimed[index] = UINT64_MAX;
    }
}

/* What InstanceNorm reads in evaluation is repeated for each row of the batch: [8] of running_var [4]. */
static bool find_tiled(const struct vc_onnx_build *b, const struct vc_tensor *t, struct vc_onnx_match *to)
{
    bool norm = strcmp(to->reader->op, "BatchNormalization") == 0 && is_traced(to->reader, "instance_norm");
    size_t index = norm ? argument(b, to->reader, to->input) : VC_NO_TENSOR;
    const struct vc_tensor *other = index == VC_NO_TENSOR ? NULL : vc_model_tensor(b->source->weights, index);

    if (other == NULL || t->n_dims != 1 || other->n_dims != 1 || !vc_onnx_is_weight(other) ||
        t->n_elems % other->n_elems != 0) {
        return false;
    }
    to->index = index;
    to->repeated = true;
    return true;
}

void vc_onnx_find_traced(struct vc_onnx_build *b, size_t own, uint64_t *claimed, struct vc_onnx_match *to)
{
    const struct vc_tensor *t = vc_model_tensor(b->source->model, own);

    if (find_tiled(b, t, to)) {
        claim(claimed, to->index);
        return;
    }
    for (size_t k = 0; k < sizeof known / sizeof *known; k++) {
        bool same =
            to->input == 1 && strcmp(to->reader->op, known[k].op) == 0 && is_traced(to->reader, known[k].target);
        size_t index = same ? argument(b, to->reader, known[k].argument) : VC_NO_TENSOR;

        if (index != VC_NO_TENSOR && vc_onnx_is_weight(vc_model_tensor(b->source->weights, index)) &&
            vc_onnx_fits(t, vc_model_tensor(b->source->weights, index), known[k].transposed, false) != 0) {
            to->index = index;
            to->transposed = known[k].transposed;
            claim(claimed, index);
            return;
        }
    }
}

bool vc_onnx_traced_layer(const struct vc_onnx_build *b, const struct vc_program_node *reader, char *module,
                          size_t room, unsigned *layer)
{
    static const char first[] = "weight_ih_l0";
    size_t index = argument(b, reader, strcmp(reader->op, "LSTM") == 0 ? 3 : 2);
    const char *name = index == VC_NO_TENSOR ? "" : vc_model_tensor(b->source->weights, index)->name;
    size_t n = strlen(name);

    if (n < sizeof first - 1 || n >= room || strcmp(name + n - (sizeof first - 1), first) != 0) {
        return false;
    }
    memcpy(module, name, n - (sizeof first - 1));
    module[n - (sizeof first - 1)] = '\0';
    *layer = 0;
    for (const struct vc_program_node *node = b->program->nodes; node != reader; node++) {
        *layer += strcmp(node->op, reader->op) == 0 && node->trace != NULL && strcmp(node->trace, reader->trace) == 0;
    }
    return true;
}

size_t vc_onnx_find_lost(const struct vc_onnx_build *b, const uint64_t *used, size_t from)
{
    size_t first = VC_NO_TENSOR;
    size_t index;

    for (size_t k = 0; k < b->program->n_nodes; k++) {
        const char *at = arguments_of(&b->program->nodes[k]);

        while (next_argument(b, &at, &index)) {
            if (index != VC_NO_TENSOR && index >= from && (first == VC_NO_TENSOR || index < first) &&
                used[index] == 0 && vc_onnx_is_weight(vc_model_tensor(b->source->weights, index))) {
                first = index;
            }
        }
    }
    return first;
}
