/* torch_here.c - which outputs the place in the tree has that is written now, and how an output is written there. */
#include "core/base/array.h"
#include "core/model/code_schemes.h"
#include "core/model/masked_pairs.h"
#include "formats/dialects/dialects.h"
#include "formats/torch/torch_pickle.h"

/* The element type of an output: the source's own where nothing changed, since two of them may mean one dtype of ours.
 */
static const struct torch_dtype *dtype_of(const struct torch_writer *w, const struct vc_out_tensor *out)
{
    if (w->source != NULL && w->source->found[out->source].tensor.dtype->dtype == out->dtype &&
        out->role == VC_PART_CODES) {
        return w->source->found[out->source].tensor.dtype;
    }
    return vc_torch_dtype_of(out->dtype);
}

/* Codes of a parameter are no parameter: only floats can have gradients. */
void vc_torch_write_out(struct torch_writer *w, size_t index)
{
    struct vc_out_tensor out = vc_out_at(w->outs, index);
    uint64_t bytes[2];
    const struct torch_tensor *t = w->source == NULL ? NULL : &w->source->found[out.source].tensor;
    bool may =
        t != NULL && out.role == VC_PART_CODES && vc_dtype_is_float(out.dtype); /* only those can have gradients */

    if (vc_plain_is_bytes(&out, bytes)) {
        out.dtype = VC_DTYPE_U8;
        out.n_dims = 2;
        out.shape = bytes;
    }
    vc_torch_emit_tensor(&w->e, &out, dtype_of(w, &out), w->keys[index], may && t->parameter, may && t->requires_grad);
}

/* Outputs of one tensor are neighbours in the list: the main one, then its parts. */
size_t vc_torch_parts_of(const struct torch_writer *w, size_t index)
{
    size_t n = 0;

    while (index + 1 + n < w->outs->n && vc_out_at(w->outs, index + 1 + n).role != VC_PART_CODES) {
        n++;
    }
    return n;
}

/* Names begin at names_at, behind the way to the dict that was chosen. */
const char *vc_torch_here(const struct torch_writer *w)
{
    return w->path.n < w->names_at ? "" : w->path.data + w->names_at;
}

/* The tensor of the model whose codes the file calls by the name that is being written, "w.int8". */
static size_t codes_here(struct torch_writer *w, enum vc_scheme scheme)
{
    const char *name = vc_torch_here(w);
    size_t n = vc_plain_weight_bytes(name, scheme);

    if (n == SIZE_MAX) {
        return VC_NO_TENSOR;
    }
    char *end = w->path.data + w->names_at + n;
    *end = '\0';
    size_t tensor = vc_model_find(w->model, name);
    *end = '.';
    return tensor != VC_NO_TENSOR && w->model->tensors[tensor].quant != NULL ? tensor : VC_NO_TENSOR;
}

/* A file that is nothing but a tensor has no name for it; the reader calls it "tensor". Codes that the file calls
 * "w.int8" are "w" in the model, and "w_orig" that is joined with "w_mask" is, too. */
size_t vc_torch_tensor_here(struct torch_writer *w)
{
    const char *name = vc_torch_here(w);
    size_t tensor = vc_model_find(w->model, name[0] == '\0' ? "tensor" : name);

    tensor = tensor == VC_NO_TENSOR ? vc_pairs_find(w->model, name) : tensor;
    for (size_t i = 0; tensor == VC_NO_TENSOR && vc_code_scheme_at(i) != NULL; i++) {
        tensor = codes_here(w, vc_code_scheme_at(i)->scheme);
    }
    return tensor;
}

size_t vc_torch_out_here(struct torch_writer *w)
{
    size_t tensor = vc_torch_tensor_here(w);

    return tensor == VC_NO_TENSOR ? VC_NO_TENSOR : w->main_out[tensor];
}

/* The name comes before "path.", with n bytes in the path. */
static bool comes_before(const char *name, const char *path, size_t n)
{
    int order = strncmp(name, path, n);

    return order < 0 || (order == 0 && (unsigned char)name[n] < '.');
}

/* The first tensor, in the order of names, that is not less than "path.". */
static size_t find_sorted(struct torch_writer *w, const char *path, size_t n)
{
    const struct vc_model *model = w->model;
    size_t low;

    if (w->sorted == NULL && vc_model_sort_names(w->ctx, model, &w->sorted) != VC_OK) {
        w->path.status = VC_E_NOMEM;
        return model->n_tensors;
    }
    VC_BISECT(low, model->n_tensors, k, comes_before(model->tensors[w->sorted[k]].name, path, n));
    return low;
}

/* Tensors of an object follow each other in the model, and their names in the sorted list. */
bool vc_torch_find_below(struct torch_writer *w, size_t *first, size_t *last)
{
    const struct vc_model *model = w->model;
    const char *path = vc_torch_here(w);
    size_t n = strlen(path);
    size_t at = n != 0 ? find_sorted(w, path, n) : 0;

    *first = VC_NO_TENSOR;
    *last = 0;
    for (; at < model->n_tensors; at++) {
        size_t index = n != 0 ? w->sorted[at] : at;

        if (n != 0 && (strncmp(model->tensors[index].name, path, n) != 0 || model->tensors[index].name[n] != '.')) {
            break;
        }
        if (w->main_out[index] != VC_NO_TENSOR && (n != 0 || model->tensors[index].role == VC_ROLE_WEIGHT)) {
            *first = index < *first ? index : *first;
            *last = index > *last ? index : *last;
        }
    }
    return *first != VC_NO_TENSOR;
}
