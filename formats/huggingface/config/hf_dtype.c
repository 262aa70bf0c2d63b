/* hf_dtype.c - see hf_dtype.h.
 *
 *     "torch_dtype": "bfloat16"      becomes, after a cast to f16,      "torch_dtype": "float16"
 *
 * Members of parts of a model (text_config and the like) are left alone: which weights they are about is not known. */
#include "formats/huggingface/config/hf_dtype.h"

#include "formats/huggingface/config/hf_json.h"
#include "formats/json/json_member.h"

enum vc_dtype vc_hf_cast_of(const struct vc_out_list *outs)
{
    enum vc_dtype dtype = VC_DTYPE_RAW;

    for (size_t i = 0; i < outs->n_stages; i++) {
        dtype = outs->stages[i].cast != VC_DTYPE_RAW && outs->stages[i].casts ? outs->stages[i].cast : dtype;
    }
    return dtype;
}

static bool says_dtype(const char *key, const json_t *value)
{
    return (strcmp(key, "torch_dtype") == 0 || strcmp(key, "dtype") == 0) && json_is_string(value);
}

enum vc_status vc_hf_dtype_rewrite(struct vc_ctx *ctx, const char *text, size_t n, enum vc_dtype dtype,
                                   struct vc_text *out)
{
    const char *name = dtype == VC_DTYPE_F16 ? "\"float16\"" : dtype == VC_DTYPE_BF16 ? "\"bfloat16\"" : "\"float32\"";
    VC_SCOPED_JSON struct hf_json json = {0};
    struct vc_text now = {.ctx = ctx};
    struct vc_text next;
    const char *key;
    json_t *value;
    size_t index = 0;

    if (vc_hf_json_look(ctx, text, n, &json) != VC_OK) {
        out->status = ctx->status;
        return ctx->status;
    }
    vc_text_add_bytes(&now, text, n);
    json_object_foreach(json.root, key, value)
    {
        if (now.status == VC_OK && says_dtype(key, value)) {
            vc_text_init(&next, ctx);
            vc_json_member_replace(now.data, now.n, index, name, &next);
            vc_text_release(&now);
            now = next;
        }
        index++;
    }
    if (now.status == VC_OK && now.n != 0) {
        vc_text_add_bytes(out, now.data, now.n);
    }
    if (now.status != VC_OK) {
        out->status = now.status;
    }
    vc_text_release(&now);
    return out->status;
}
