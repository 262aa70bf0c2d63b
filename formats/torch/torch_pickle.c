/* torch_pickle.c - the data.pkl of an output: what torch.load() will return.
 *
 * Where the source is a PyTorch file, its own tree is written again (torch_resave.c). Other sources, and trees that
 * have no place for scales, become one dict with all tensors. */

#include "formats/torch/torch_pickle.h"

/* ---- tensors ---- */

/* ---- outputs by name ---- */

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
    VC_FREE_ALL(ctx, w.main_out, w.sorted);
    vc_text_release(&w.path);
    vc_text_release(&w.left);
    return status;
}
