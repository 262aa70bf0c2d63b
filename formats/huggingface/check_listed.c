/* check_listed.c - see check_listed.h. A module is what tensors have in front of a dot: "model.layers.0.mlp.up.weight"
 * lies in "model", "model.layers", "model.layers.0", "model.layers.0.mlp" and "model.layers.0.mlp.up".
 *
 * Each name is sought among all modules, the file's own names and those that the loader gives them; what no module
 * answers to gets a warning, because a list with a wrong name quantizes, or leaves out, other layers than it says. */
#include "formats/huggingface/check_listed.h"

#include "core/base/findings.h"
#include "formats/huggingface/config/hf_config.h"

struct listed {
    const struct vc_family *family;
    enum vc_names_form form;
    size_t n;
    const char *const *names;
    bool *seen; /* by name: it stands for something */
};

/* "^model\.layers\.0$": a backslash takes the next byte as it is, and word[word[0] == '\\'] is that byte. */
bool vc_listed_means(const char *word, const char *path)
{
    size_t n = strlen(word);

    if (n > 2 && word[0] == '^' && word[n - 1] == '$') {
        for (word++; *path != '\0' && *path == word[word[0] == '\\']; path++) {
            word += 1 + (word[0] == '\\');
        }
        return *path == '\0' && strcmp(word, "$") == 0;
    }
    return vc_ends_in(path, word) || (strncmp(path, word, n) == 0 && path[n] == '.');
}

/* A model that is made of others may have more or fewer names in front: the end counts there. ".a" is every module that
 * ends in it, and "a" itself where it may lie in another one. */
static bool stands_for(const struct listed *l, const char *name, const char *module)
{
    if (l->form == VC_NAMES_ENDS) {
        return vc_listed_means(name, module) || strcmp(name + (name[0] == '.'), module) == 0;
    }
    return l->family != NULL && l->family->nested && (vc_ends_in(module, name) || vc_ends_in(name, module));
}

/* Marks the names that stand for the module: the equal one by binary search, others only in lists where ends count. */
static void see_module(const struct listed *l, const char *module)
{
    const char *const *same = bsearch(&module, l->names, l->n, sizeof *l->names, vc_compare_texts);

    if (same != NULL) {
        l->seen[same - l->names] = true;
    }
    for (size_t i = 0; (l->form == VC_NAMES_ENDS || (l->family != NULL && l->family->nested)) && i < l->n; i++) {
        l->seen[i] = l->seen[i] || stands_for(l, l->names[i], module);
    }
}

/* All modules that the tensor lies in; changes `name`. */
static void see_path(const struct listed *l, char *name)
{
    char *dot;

    while ((dot = strrchr(name, '.')) != NULL) {
        *dot = '\0';
        see_module(l, name);
    }
}

/* The arena is emptied after each tensor. */
static enum vc_status see_tensor(struct vc_ctx *ctx, struct vc_arena *arena, const struct listed *l, const char *name)
{
    char *copy = vc_arena_copy(ctx, arena, name, strlen(name));
    enum vc_status status = VC_OK;

    VC_TRY_ALLOC(copy);
    if (vc_family_changes_names(l->family)) {
        const char *renamed = vc_family_rename(ctx, arena, l->family, copy);
        VC_TRY_ALLOC(renamed);
        if (renamed != copy) {
            char *other = vc_arena_copy(ctx, arena, renamed, strlen(renamed));

            VC_TRY_ALLOC(other);
            see_path(l, other);
        }
    }
    see_path(l, copy);
out:
    vc_arena_release(ctx, arena);
    return status;
}

enum vc_status vc_check_listed(struct vc_ctx *ctx, const struct vc_model *model, const char *key,
                               enum vc_names_form form, size_t n, const char *const *names)
{
    VC_SCOPED bool *seen = NULL;
    struct listed l = {.family = model->family, .form = form, .n = n, .names = names};
    struct vc_arena arena = {0};

    if (n == 0) {
        return VC_OK;
    }
    VC_CALL(VC_ZEROS(ctx, VC_TAG_NAMES, seen, n));
    l.seen = seen;
    for (size_t i = 0; i < model->n_tensors; i++) {
        VC_CALL(see_tensor(ctx, &arena, &l, model->tensors[i].name));
    }
    for (size_t i = 0; i < n; i++) {
        const char *name = names[i] + (form == VC_NAMES_ENDS && names[i][0] == '.');

        if (!l.seen[i] && strcmp(name, "lm_head") != 0 && !vc_family_has_head(model->family, name, strlen(name))) {
            VC_CALL(vc_find(ctx, VC_SEVERITY_WARNING, "config", VC_HF_CONFIG_NAME,
                            "\"%s\" names '%.200s', which is no module of the model", key, names[i]));
        }
    }
    return VC_OK;
}
