/* hf_loader.c - see hf_loader.h.
 *
 * The order of the questions is the order of the table in the header: the first that fits decides. */
#include "formats/huggingface/hf_loader.h"

#include "formats/huggingface/config/hf_config.h"
#include "formats/huggingface/config/hf_json.h"
#include "formats/huggingface/families.h"

#define ADAPTER_NAME "adapter_config.json"
#define MODULES_NAME "modules.json"
#define NOT_ASKED                                                                                                     \
    "the model_type of its config.json is none that was tried with " VC_TRIED_TRANSFORMERS ": the layout is the one " \
    "that most models load from"

/* Fills refusal, dialect and note from the text of a config.json. */
enum vc_status vc_hf_loader_look(struct vc_ctx *ctx, const char *text, size_t n, bool to_folder, bool decoded,
                                 struct vc_hf_loader *out)
{
    struct vc_family family;
    VC_SCOPED_JSON struct hf_json json = {0};
    json_t *root;

    VC_CALL(vc_hf_json_look(ctx, text, n, &json));
    root = json.root;
    vc_family_find(root, &family);
    if (root == NULL) {
        out->note =
            to_folder
                ? "its config.json is no valid JSON, so nothing says which program loads it: int8 weights are in the "
                  "layout plain"
                : NULL;
    } else if (json_object_get(root, "_class_name") != NULL) {
        out->refusal =
            "its config.json is that of a diffusers model, and diffusers loads codes on a GPU only, those of "
            "bitsandbytes, where that layout is asked for";
    } else if (json_object_get(root, "pretrained_cfg") != NULL) {
        out->refusal = "its config.json is that of a timm model, and timm loads no codes";
    } else if (json_object_get(root, "quantization_config") != NULL && !decoded) {
        out->refusal = "its config.json has a quantization_config already, which does not speak of new codes";
    } else if (json_is_string(json_object_get(root, "model_type")) && !to_folder) {
        out->refusal =
            "transformers looks for codes by the config.json beside it, so the model's folder has to become a "
            "folder";
    } else if (vc_hf_config_takes_int8(root)) {
        out->dialect = vc_dialect_usual_in_folders(&family);
        out->note = family.asked || family.n != 0 ? NULL : NOT_ASKED;
    } else if (json_is_string(json_object_get(root, "model_type"))) { /* Conv1D */
        out->dialect = &vc_dialect_bitsandbytes;
    }
    return VC_OK;
}

/* Whether a file of that name lies beside the model. */
static enum vc_status has_file(struct vc_ctx *ctx, const char *path, const char *name, bool *there)
{
    char *file = vc_hf_path_beside(ctx, path, name);
    struct stat st;
    enum vc_status status = file != NULL ? vc_hf_look(ctx, file, &st, there) : ctx->status;

    vc_free(ctx, file);
    return status;
}

/* An adapter is decided first: peft's folder may have a config.json of the base model, too. sentence-transformers
 * (modules.json) narrows what transformers would take. */
enum vc_status vc_hf_loader_find(struct vc_ctx *ctx, const char *path, bool to_folder, bool decoded,
                                 struct vc_hf_loader *out)
{
    VC_SCOPED char *text = NULL;
    size_t n = 0;
    bool is_adapter = false;
    bool has_modules = false;
    const char *why = NULL;

    *out = (struct vc_hf_loader){.dialect = &vc_dialect_plain};
    VC_CALL(has_file(ctx, path, ADAPTER_NAME, &is_adapter));
    VC_CALL(has_file(ctx, path, MODULES_NAME, &has_modules));
    if (is_adapter) {
        out->refusal = "it is an adapter (" ADAPTER_NAME "), and peft loads no codes";
        return VC_OK;
    }
    VC_CALL(vc_hf_config_read_beside(ctx, path, &text, &n));
    if (text != NULL) {
        VC_CALL(vc_hf_loader_look(ctx, text, n, to_folder, decoded, out));
        if (has_modules && out->refusal == NULL && out->dialect != &vc_dialect_plain) {
            out->dialect = &vc_dialect_bitsandbytes;
            out->others =
                "it is a folder of sentence-transformers (" MODULES_NAME "), which loads int8, nf4 and fp4 of "
                "bitsandbytes, and no other codes";
        }
        return VC_OK;
    }
    VC_CALL(vc_hf_config_why_beside(ctx, path, &why));
    if (why != NULL) {
        out->refusal = "its config.json is a link that leads nowhere or out of the folder, or no file, so nothing says "
                       "which program loads it";
    } else if (to_folder) {
        out->note = "there is no config.json of a model, so nothing says which program loads it: int8 weights are in "
                    "the layout plain";
    }
    return VC_OK;
}
