/* config_member.c - see config_member.h. */
#include "formats/dialects/config_member.h"

#include <string.h>

#include "core/model/names.h"

static void add_name(struct vc_text *text, const char *path, size_t n_path, bool *first)
{
    struct vc_text name;

    vc_text_init(&name, text->ctx);
    vc_text_add_bytes(&name, path, n_path);
    vc_text_add(text, "%s", *first ? "" : ", ");
    if (name.status == VC_OK) {
        vc_text_add_json_string(text, name.data);
    } else if (text->status == VC_OK) {
        text->status = name.status;
    }
    vc_text_release(&name);
    *first = false;
}

bool vc_config_same_group(const struct vc_quant *a, const struct vc_quant *b)
{
    return a->granularity == b->granularity &&
           (a->granularity != VC_GRANULARITY_GROUP || a->group_size == b->group_size);
}

void vc_config_add_modules(const struct vc_config_weights *weights, const struct vc_quant *group, struct vc_text *text)
{
    bool first = true;
    size_t i;

    vc_text_add(text, "[");
    for (i = 0; i < weights->n; i++) {
        const struct vc_config_weight *weight = &weights->weights[i];
        size_t n_path;

        if (weight->told && vc_config_same_group(weight->out->quant, group) &&
            vc_name_is_module_weight(weight->out->name, &n_path)) {
            add_name(text, weight->out->name, n_path, &first);
        }
    }
    vc_text_add(text, "]");
}

void vc_config_add_ignored(const struct vc_config_weights *weights, struct vc_text *text)
{
    bool has_head = false;
    bool first = true;
    size_t i;

    vc_text_add(text, "[");
    for (i = 0; i < weights->n; i++) {
        const struct vc_out_tensor *out = weights->weights[i].out;
        size_t n_path;

        if (!vc_name_is_module_weight(out->name, &n_path) || out->n_dims != 2 || n_path == 0) {
            continue;
        }
        has_head |= strcmp(out->name, "lm_head.weight") == 0;
        if (!weights->weights[i].told && vc_dtype_is_float(out->dtype) && !vc_name_is_embedding_table(out->name)) {
            add_name(text, out->name, n_path, &first);
        }
    }
    if (!has_head) {
        add_name(text, "lm_head", strlen("lm_head"), &first);
    }
    vc_text_add(text, "]");
}
