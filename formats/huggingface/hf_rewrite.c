/* hf_rewrite.c - see hf_rewrite.h. One change after the other, each from text to text. */
#include "formats/huggingface/hf_rewrite.h"

#include "formats/huggingface/config/hf_dtype.h"
#include "formats/huggingface/config/hf_edit.h"

/* Asked first, so that a job which changes nothing copies the file byte for byte. */
bool vc_hf_rewrite_needed(const struct vc_hf_change *change)
{
    return change->describes || change->outs->n_edits != 0 || vc_hf_cast_of(change->outs) != VC_DTYPE_RAW;
}

/* Sizes, then types, then the quantization, which reads what the first two wrote. Edits of layers ask the last one,
 * too: its lists may name layers by number. */
enum vc_status vc_hf_rewrite(struct vc_ctx *ctx, const char *text, size_t n, const struct vc_hf_change *change,
                             struct vc_text *out)
{
    const struct vc_out_list *outs = change->outs;
    enum vc_dtype dtype = vc_hf_cast_of(outs);
    VC_SCOPED_TEXT struct vc_text sized = {.ctx = ctx};
    VC_SCOPED_TEXT struct vc_text typed = {.ctx = ctx};

    if (outs->n_edits != 0) {
        VC_CALL(vc_hf_edit(ctx, text, n, outs->edits, outs->n_edits, &sized));
        text = sized.data;
        n = sized.n;
    }
    if (dtype != VC_DTYPE_RAW) {
        VC_CALL(vc_hf_dtype_rewrite(ctx, text, n, dtype, &typed));
        text = typed.data;
        n = typed.n;
    }
    if (change->describes || dtype != VC_DTYPE_RAW ||
        vc_edit_find(outs->edits, outs->n_edits, VC_EDIT_LAYERS) != NULL) {
        VC_CALL(vc_hf_quantization_rewrite(ctx, text, n, change, out));
    } else {
        vc_text_add_bytes(out, text, n);
    }
    return out->status;
}
