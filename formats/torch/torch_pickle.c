/* torch_pickle.c - the data.pkl of an output: what torch.load() will return.
 *
 * Where the source is a PyTorch file, its own tree is written again (torch_resave.c). Other sources, and trees that
 * have no place for scales, become one dict with all tensors. */
#include <string.h>

#include "core/base/array.h"
#include "core/model/code_schemes.h"
#include "core/model/masked_pairs.h"
#include "formats/dialects/dialects.h"
#include "formats/torch/torch_pickle.h"

/* ---- tensors ---- */

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

/* ---- outputs by name ---- */

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
    size_t tensor;
    char *end;

    if (n == 0) {
        return VC_NO_TENSOR;
    }
    end = w->path.data + w->names_at + n;
    *end = '\0';
    tensor = vc_model_find(w->model, name);
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

/* ---- one dict ---- */

/* All outputs by name in one OrderedDict, in batches as Python writes them. */
static void write_flat(struct torch_writer *w)
{
    vc_torch_emit_new_ordered_dict(&w->e);
    vc_torch_emit_byte(&w->e, '(');
    for (size_t i = 0; i < w->outs->n; i++) {
        vc_torch_emit_string(&w->e, w->names[i], strlen(w->names[i]));
        vc_torch_write_out(w, i);
        if (i % TORCH_BATCH == TORCH_BATCH - 1) {
            vc_torch_emit_byte(&w->e, 'u');
            vc_torch_emit_byte(&w->e, '(');
        }
    }
    vc_torch_emit_byte(&w->e, 'u');
}

/* ---- the whole ---- */

/* An empty pickle of protocol 2. */
static void begin(struct torch_writer *w, struct vc_text *pickle)
{
    pickle->n = 0;
    w->e = (struct torch_emit){.to = pickle};
    vc_torch_emit_byte(&w->e, 0x80);
    vc_torch_emit_byte(&w->e, 2);
}

/* Each output has a storage of its own but aliases, which have that of the tensor they are another name of. */
static void number_storages(const struct vc_out_list *outs, size_t *keys)
{
    size_t n = 0;

    for (size_t i = 0; i < outs->n; i++) {
        keys[i] = vc_out_at(outs, i).alias ? keys[vc_out_at(outs, i).alias_of] : n++;
    }
}

/* The main output of each tensor of the model. */
static enum vc_status find_outs(struct torch_writer *w)
{
    VC_CALL(VC_ARRAY(w->ctx, VC_TAG_NAMES, w->main_out, w->model->n_tensors));
    for (size_t i = 0; i < w->model->n_tensors; i++) {
        w->main_out[i] = VC_NO_TENSOR;
    }
    for (size_t i = 0; i < w->outs->n; i++) {
        if (vc_out_at(w->outs, i).role == VC_PART_CODES) {
            w->main_out[vc_out_at(w->outs, i).source] = i;
        }
    }
    return VC_OK;
}

/* The source's tree with the outputs in it. */
static enum vc_status write_tree(struct torch_writer *w)
{
    VC_CALL(find_outs(w));
    VC_CALL(vc_torch_write_tree(w));
    VC_CALL(w->path.status);
    return w->left.status;
}

/* The tree first; if it has no place for scales, all is begun again as one dict. */
enum vc_status vc_torch_pickle_make(struct vc_ctx *ctx, const struct vc_model *model, const struct torch *source,
                                    const struct vc_out_list *outs, const char *const *names, struct vc_text *pickle,
                                    size_t *keys, struct vc_text *note)
{
    struct torch_writer w = {.ctx = ctx, .model = model, .source = source, .outs = outs, .names = names, .keys = keys};
    enum vc_status status = VC_OK;

    vc_text_init(&w.path, ctx);
    vc_text_init(&w.left, ctx);
    vc_text_add_bytes(&w.path, "", 0); /* there from now on, even if empty */
    number_storages(outs, keys);
    begin(&w, pickle);
    if (source != NULL) {
        VC_TRY(write_tree(&w));
    }
    if (source != NULL && w.flat) {
        vc_text_add(note, "the output is one dict of tensors: the input's own has no place for their scales");
    } else if (w.n_left != 0) {
        vc_text_add(note, "left out, because they cannot be loaded without running code: %s%s", w.left.data,
                    w.n_left > TORCH_MAX_LEFT ? ", ..." : "");
    }
    if (source == NULL || w.flat) {
        begin(&w, pickle);
        write_flat(&w);
    }
    vc_torch_emit_byte(&w.e, '.');
    VC_TRY(pickle->status);
    VC_TRY(note->status);
out:
    vc_free(ctx, w.memo);
    vc_hash_release(ctx, &w.by_node);
    vc_free(ctx, w.main_out);
    vc_free(ctx, w.sorted);
    vc_text_release(&w.path);
    vc_text_release(&w.left);
    return status;
}
