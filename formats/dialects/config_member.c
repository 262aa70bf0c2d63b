/* config_member.c - see config_member.h.
 *
 * Two writers use it: compressed-tensors ("ignore", "targets") and bitsandbytes ("llm_int8_skip_modules"). A list of
 * modules has to name each layer that stays plain, and no layer that gets codes, in the way in which its loader
 * compares names (module_names.h). */
#include "formats/dialects/config_member.h"

#include "core/model/names.h"
#include "formats/dialects/linear_rules.h"

static const char usual_head[] = "lm_head";

/* A group of the configuration: weights whose codes are read in the same way. */
bool vc_config_same_group(const struct vc_quant *a, const struct vc_quant *b)
{
    return a->scheme == b->scheme && a->symmetric == b->symmetric && a->granularity == b->granularity &&
           (a->input_scale > 0) == (b->input_scale > 0) &&
           (a->granularity < VC_GRANULARITY_GROUP ||
            (a->group_size == b->group_size && a->group_rows == b->group_rows));
}

bool vc_config_is_layer(const struct vc_config_weight *weight, size_t *n_path)
{
    return vc_name_is_module_weight(weight->name, n_path) && weight->n_dims == 2 && *n_path != 0 &&
           (weight->told || (vc_dtype_is_float(weight->dtype) && !weight->table));
}

/* Adds the names of all layers for which `listed` is true; group: of codes of that group, NULL: of layers that are not
 * codes. Failures stay in text->status. */
static void add_layers(const struct vc_config_weights *weights, const struct vc_quant *group, enum vc_names_form form,
                       struct vc_text *text, bool *first)
{
    struct vc_module *modules = vc_alloc_array(text->ctx, VC_TAG_NAMES, weights->n, sizeof *modules);
    struct vc_module_list list = {.family = weights->family, .form = form, .modules = modules};
    enum vc_status status = VC_OK;

    VC_TRY_ALLOC(modules);
    for (size_t i = 0; i < weights->n; i++) {
        const struct vc_config_weight *weight = &weights->weights[i];
        size_t n_path;

        if (vc_config_is_layer(weight, &n_path)) {
            modules[list.n++] = (struct vc_module){
                .path = weight->name,
                .n = n_path,
                .listed = group != NULL ? weight->told && vc_config_same_group(weight->quant, group) : !weight->told};
        }
    }
    VC_TRY(vc_module_names_add(text->ctx, &list, first, text));
out:
    vc_free(text->ctx, modules);
    if (text->status == VC_OK) {
        text->status = status;
    }
}

void vc_config_add_modules(const struct vc_config_weights *weights, const struct vc_quant *group, struct vc_text *text)
{
    bool first = true;

    vc_text_add(text, "[");
    add_layers(weights, group, VC_NAMES_EXACT, text, &first);
    vc_text_add(text, "]");
}

/* Whether the layer of that path is among the outputs. */
static bool has_layer(const struct vc_config_weights *weights, const char *path, size_t n)
{
    for (size_t i = 0; i < weights->n; i++) {
        size_t n_path;

        if (vc_name_is_module_weight(weights->weights[i].name, &n_path) && n_path == n &&
            memcmp(weights->weights[i].name, path, n) == 0) {
            return true;
        }
    }
    return false;
}

/* Whether the names of codes end in the name of a head, "audio_lm_head" in "lm_head". */
static bool codes_end_in(const struct vc_config_weights *weights, const char *head, size_t n)
{
    for (size_t i = 0; i < weights->n; i++) {
        const struct vc_config_weight *weight = &weights->weights[i];
        size_t n_path;

        if (weight->told && vc_config_is_layer(weight, &n_path) && n_path > n &&
            memcmp(weight->name + n_path - n, head, n) == 0) {
            return true;
        }
    }
    return false;
}

/* A head that is no tensor of the file, because it is tied, is named all the same: loaders make a layer of it. It is
 * named as "^lm_head$" where codes end in it: "audio_lm_head" is another layer. */
static void add_head(const struct vc_config_weights *weights, const char *head, size_t n, enum vc_names_form form,
                     struct vc_text *text, bool *first)
{
    size_t skip = form == VC_NAMES_ENDS && n > 3 && memcmp(head, "re:", 3) == 0 ? 3 : 0; /* any name may be one there */
    VC_SCOPED_TEXT struct vc_text name = {.ctx = text->ctx};

    if (has_layer(weights, head, n)) {
        return;
    }
    bool whole = form == VC_NAMES_ENDS && codes_end_in(weights, head, n);
    vc_text_add(&name, whole ? "^%.*s$" : "%.*s", (int)(n - skip), head + skip);
    if (name.status == VC_OK) {
        vc_module_name_add(text, name.data, first);
    } else if (text->status == VC_OK) {
        text->status = name.status;
    }
}

/* Layers that stay floats, then heads of the family, then "lm_head". */
void vc_config_add_ignored(const struct vc_config_weights *weights, enum vc_names_form form, struct vc_text *text)
{
    const struct vc_family *family = weights->family;
    bool diffusers = family != NULL && family->diffusers;
    bool first = true;

    vc_text_add(text, "[");
    add_layers(weights, NULL, diffusers ? VC_NAMES_EXACT : form, text, &first);
    for (size_t i = 0; family != NULL && i < family->n; i++) {
        const char *head;
        size_t at = 0;
        size_t n;

        while ((head = vc_family_word(family->rows[i]->heads, &at, &n)) != NULL) {
            add_head(weights, head, n, form, text, &first);
        }
    }
    if (!diffusers) {
        add_head(weights, usual_head, strlen(usual_head), form, text, &first);
    }
    vc_text_add(text, "]");
}

/* diffusers takes "a.b" for the module of that name and those below any "a.b.", and a name without a dot for each
 * module whose last part it is. listed "proj", path "a.proj": its last part. listed "a.b", path "x.a.b.c": below it. */
static bool means_too(const char *listed, size_t n, const char *path, size_t n_path)
{
    bool whole = memchr(listed, '.', n) == NULL;

    for (size_t at = 0; at + n <= n_path; at++) {
        bool last = at + n == n_path;

        bool found = memcmp(path + at, listed, n) == 0;

        if (found && (last ? whole && at != 0 && path[at - 1] == '.' : path[at + n] == '.')) {
            return true;
        }
    }
    return false;
}

/* The codes that the name of the layer, which is kept, would stand for as well; or NULL. */
static const char *meant_too(const struct vc_config_weights *weights, const char *kept, size_t n)
{
    for (size_t i = 0; i < weights->n; i++) {
        const struct vc_config_weight *codes = &weights->weights[i];
        size_t n_path;

        if (codes->told && vc_config_is_layer(codes, &n_path) && means_too(kept, n, codes->name, n_path)) {
            return codes->name;
        }
    }
    return NULL;
}

/* Only diffusers compares so loosely. */
enum vc_status vc_config_check_names(struct vc_ctx *ctx, const struct vc_config_weights *weights)
{
    bool looks = weights->family != NULL && weights->family->diffusers;

    for (size_t i = 0; looks && i < weights->n; i++) {
        const struct vc_config_weight *kept = &weights->weights[i];
        size_t n = 0;
        const char *codes = vc_config_is_layer(kept, &n) && !kept->told ? meant_too(weights, kept->name, n) : NULL;

        VC_REFUSE_IF(codes != NULL, ctx, VC_E_UNSUPPORTED,
                     "%s stays as it is, and diffusers would take '%.*s' in its list for %s as well; give codes to "
                     "both (%s), or to none (%s)",
                     kept->name, (int)n, kept->name, codes, vc_option(ctx, "include"), vc_option(ctx, "exclude"));
    }
    return VC_OK;
}

/* All experts, and all in one way: transformers makes one tensor of them. */
enum vc_status vc_config_check_experts(struct vc_ctx *ctx, const struct vc_config_weights *weights,
                                       const struct vc_dialect *dialect)
{
    const struct vc_config_weight *first = NULL;

    for (size_t i = 0; i < weights->n; i++) {
        const struct vc_config_weight *weight = &weights->weights[i];
        bool expert = vc_linear_is_expert(weight->name);
        size_t n_path;

        first = first == NULL && expert && weight->told ? weight : first;
        VC_REFUSE_IF(expert && weight->told && !vc_config_same_group(first->quant, weight->quant), ctx,
                     VC_E_UNSUPPORTED,
                     "%s and %s become codes of two kinds, and transformers decodes all experts from %s in one "
                     "way; give them the same, or write %s plain",
                     first->name, weight->name, dialect->name, vc_option(ctx, "layout"));
        VC_REFUSE_IF(!weight->told && vc_name_is_module_weight(weight->name, &n_path) && weight->n_dims == 2 &&
                         vc_dtype_is_float(weight->dtype) && expert,
                     ctx, VC_E_UNSUPPORTED,
                     "%s stays as it is, and transformers loads experts from %s only where all of them are %s; "
                     "do not leave it out, or write %s plain",
                     weight->name, dialect->name,
                     vc_scheme_name(weights->n_groups != 0 ? weights->groups[0].scheme : VC_SCHEME_INT8),
                     vc_option(ctx, "layout"));
    }
    return VC_OK;
}

enum vc_status vc_config_one_kind(struct vc_ctx *ctx, const struct vc_config_weights *weights,
                                  const struct vc_dialect *dialect)
{
    const struct vc_quant *a = &weights->groups[0];
    const struct vc_quant *b = &weights->groups[weights->n_groups > 1];

    VC_REFUSE_IF(a != b, ctx, VC_E_UNSUPPORTED,
                 "weights would become codes of %zu kinds (%s and %s%s), and the layout %s describes one; give them "
                 "the same, or write %s compressed-tensors",
                 weights->n_groups, vc_scheme_name(a->scheme), vc_scheme_name(b->scheme),
                 a->scheme == b->scheme ? " of other groups or zero points" : "", dialect->name,
                 vc_option(ctx, "layout"));
    return VC_OK;
}

/* True where the configuration can leave the list out, because loaders skip the head by themselves. */
bool vc_config_ignores_heads_only(const struct vc_config_weights *weights)
{
    if (weights->family == NULL || weights->family->nested || !weights->family->speaks) {
        return false; /* another layer would be taken for the output, or none */
    }
    for (size_t i = 0; i < weights->n; i++) {
        const struct vc_config_weight *weight = &weights->weights[i];
        size_t n_path;

        if (vc_config_is_layer(weight, &n_path) && !weight->told &&
            strncmp(weight->name, "lm_head.", n_path + 1) != 0 &&
            !vc_family_has_head(weights->family, weight->name, n_path)) {
            return false;
        }
    }
    return true;
}
