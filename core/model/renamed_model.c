/* renamed_model.c - see renamed_model.h. */
#include "core/model/renamed_model.h"

/* Other names of a tensor that is gone: the first of them is the tensor now. Aliases come behind what they name, so one
 * walk is enough; the gone tensor remembers that first one meanwhile. */
static void move_aliases(const struct vc_model *source, const bool *gone, struct vc_model *to)
{
    for (size_t i = 0; i < source->n_tensors; i++) {
        size_t of = source->tensors[i].alias_of;

        if (of == VC_NO_TENSOR || !gone[of] || gone[i]) {
            continue;
        }
        to->tensors[i].alias_of = to->tensors[of].alias_of;
        if (to->tensors[of].alias_of == VC_NO_TENSOR) {
            to->tensors[of].alias_of = i;
        }
    }
}

/* As vc_model_index_names, without the tensors that are gone. */
static enum vc_status index_names(struct vc_ctx *ctx, const bool *gone, struct vc_model *model)
{
    struct vc_name_list list = VC_NAME_LIST(model->tensors, sizeof *model->tensors);

    VC_CALL(vc_name_table_make(ctx, model->n_tensors, &model->names));
    for (size_t i = 0; i < model->n_tensors; i++) {
        VC_REFUSE_IF(!gone[i] && vc_name_table_add(&model->names, list, i) != SIZE_MAX, ctx, VC_E_UNSUPPORTED,
                     "%s: two tensors of the output would have this name", model->tensors[i].name);
    }
    return VC_OK;
}

static struct vc_model *create(struct vc_ctx *ctx, const struct vc_model *source)
{
    struct vc_model *model = vc_alloc(ctx, VC_TAG_NAMES, sizeof *model);

    if (model == NULL) {
        return NULL;
    }
    *model = *source;
    model->names = (struct vc_name_table){0};
    model->tensors = vc_alloc_array(ctx, VC_TAG_NAMES, source->n_tensors, sizeof *model->tensors);
    if (model->tensors == NULL) {
        vc_free(ctx, model);
        return NULL;
    }
    return model;
}

enum vc_status vc_renamed_model_make(struct vc_ctx *ctx, const struct vc_model *source, const char *const *names,
                                     const bool *gone, struct vc_model **out)
{
    if (*out == NULL) {
        VC_CALL_ALLOC(*out = create(ctx, source));
    }
    for (size_t i = 0; i < source->n_tensors; i++) {
        (*out)->tensors[i] = source->tensors[i];
        if (names[i] != NULL) {
            (*out)->tensors[i].name = names[i];
        }
    }
    move_aliases(source, gone, *out);
    return index_names(ctx, gone, *out);
}

void vc_renamed_model_free(struct vc_ctx *ctx, struct vc_model *model)
{
    if (model != NULL) {
        vc_name_table_release(ctx, &model->names);
        VC_FREE_ALL(ctx, model->tensors, model);
    }
}

/* Bytes of the longest common start of both names that ends at a '.', or is empty. */
static size_t common_start(const char *a, const char *b)
{
    size_t n = 0;

    for (size_t i = 0; a[i] != '\0' && a[i] == b[i]; i++) {
        n = a[i] == '.' ? i + 1 : n;
    }
    return n;
}

/* Bytes of the longest common end that begins with a '.', or is empty, and does not reach back before `from`. */
static size_t common_end(const char *a, const char *b, size_t from)
{
    size_t n_a = strlen(a);
    size_t n_b = strlen(b);
    size_t n = 0;

    for (size_t i = 1; i + from <= n_a && i + from <= n_b && a[n_a - i] == b[n_b - i]; i++) {
        n = a[n_a - i] == '.' ? i : n;
    }
    return n;
}

const char *vc_name_follow(struct vc_ctx *ctx, struct vc_arena *arena, const char *name, const char *before,
                           const char *after)
{
    size_t start = common_start(before, after);
    size_t end = common_end(before, after, start);
    size_t n = strlen(before) - end; /* of `before` up to the end of what changed */
    char next;

    if (strcmp(before, after) == 0 || strncmp(name, before, n) != 0) {
        return name;
    }
    next = name[n];
    if (next != '.' && next != '\0' && end != 0) {
        return name; /* "h.100.w" does not begin with the part "h.10" */
    }
    return vc_arena_printf(ctx, arena, "%.*s%s", (int)(strlen(after) - end), after, name + n);
}
