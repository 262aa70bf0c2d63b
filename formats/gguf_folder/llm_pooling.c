/* llm_pooling.c - sentence-transformers has modules behind the model: modules.json lists them, and the folder of each
 * has a config.json.
 *
 *     modules.json          [{"path": "", "type": "...Transformer"}, {"path": "1_Pooling", "type": "...Pooling"}]
 *     1_Pooling/config.json {"pooling_mode_cls_token": false, "pooling_mode_mean_tokens": true}   -> .pooling_type 1 */
#include "formats/gguf_folder/llm_parts.h"

#include "formats/json/json_walk.h"

static enum vc_status put_type(struct vc_ctx *ctx, const char *folder, const char *path, struct llm_pairs *pairs)
{
    static const struct {
        const char *key;
        uint32_t type;
    } modes[] = {{"pooling_mode_mean_tokens", 1}, {"pooling_mode_cls_token", 2}, {"pooling_mode_lasttoken", 3}};
    VC_SCOPED_JSON struct hf_json json = {.root = NULL};
    VC_SCOPED_TEXT struct vc_text name = {.ctx = ctx};
    uint32_t type = 0;

    vc_text_add(&name, "%s/config.json", path);
    VC_CALL(name.status);
    VC_REFUSE_IF(path[0] == '\0' || path[0] == '.' || strchr(path, '/') != NULL, ctx, VC_E_FORMAT,
                 "modules.json: '%.60s' is no folder beside it", path);
    VC_CALL(vc_hf_json_beside(ctx, folder, name.data, &json));
    for (size_t i = 0; i < sizeof modes / sizeof modes[0] && type == 0; i++) {
        type = json_is_true(json_object_get(json.root, modes[i].key)) ? modes[i].type : 0;
    }
    VC_REFUSE_IF(type == 0, ctx, VC_E_UNSUPPORTED, "%s: expected the mean, the first or the last token as its mode",
                 name.data);
    vc_llm_put_u32(pairs, ".pooling_type", type);
    return VC_OK;
}

enum vc_status vc_llm_pooling_put(struct vc_ctx *ctx, const char *folder, struct vc_model *model,
                                  struct llm_pairs *pairs)
{
    VC_SCOPED_JSON struct hf_json modules = {.root = NULL};

    VC_CALL(vc_hf_json_beside(ctx, folder, "modules.json", &modules));
    for (size_t i = 0; i < json_array_size(modules.root); i++) {
        const json_t *module = json_array_get(modules.root, i);
        const char *type = json_string_value(json_object_get(module, "type"));
        const char *path = json_string_value(json_object_get(module, "path"));

        if (type != NULL && path != NULL && vc_ends_in(type, "Pooling")) {
            VC_CALL(put_type(ctx, folder, path, pairs));
        } else if (type != NULL && vc_ends_in(type, "Dense")) {
            VC_CALL(vc_model_add_fact(ctx, model, VC_FACT_NOTE,
                                      "the matrix behind the model ('%.60s' in modules.json) is left out", type));
        }
    }
    return VC_OK;
}
