/* depth_lists.c - see depth_lists.h. Names are split at dots and slashes.
 *
 * A list is found in three steps: list_tensors takes every name apart, the tensors are sorted by list, layer and rest,
 * and neighbours are compared.
 *
 *     encoder.layer.3.output.dense.weight     list "encoder.layer"  layer 3  rest ".output.dense.weight" */
#include "prune/depth_lists.h"

#include "core/base/array.h"

#define MOST_DIGITS 9
#define NAMED_LISTS 6

/* What lists of layers are called, the last word of the way to the number. Other lists are given by name: stages of
 * convolutional networks and the like are not alike, and nothing fits behind a stage that is gone. */
static const char *const words[] = {"layers", "layer",  "h",         "blk",
                                    "block",  "blocks", "resblocks", "transformer_blocks"};

/* A part of a name ends here. */
static bool is_end(char c)
{
    return c == '.' || c == '/' || c == '\0';
}

/* A whole number between dots; *n: its digits. */
static bool take_number(const char *text, size_t *n, uint64_t *number)
{
    *number = 0;
    for (*n = 0; text[*n] >= '0' && text[*n] <= '9' && *n < MOST_DIGITS; ++*n) {
        *number = 10 * *number + (uint64_t)(text[*n] - '0');
    }
    return *n != 0 && is_end(text[*n]) && !(text[0] == '0' && *n > 1);
}

static bool is_word(const char *word, size_t n)
{
    size_t i = 0;

    while (i < sizeof words / sizeof words[0] && !(strlen(words[i]) == n && memcmp(words[i], word, n) == 0)) {
        i++;
    }
    return i < sizeof words / sizeof words[0];
}

/* The first number that stands behind such a word, or behind the list of that name. False: the tensor is in no layer.
 */
static bool place_of(const char *name, const char *list, struct vc_layer_tensor *out)
{
    size_t n_list = list != NULL ? strlen(list) : 0;
    const char *word = name;

    for (const char *at = name; *at != '\0'; at++) {
        size_t n_digits;

        if (*at != '.' && *at != '/') {
            continue;
        }
        if ((list == NULL ? is_word(word, (size_t)(at - word))
                          : (size_t)(at - name) == n_list && memcmp(name, list, n_list) == 0) &&
            take_number(at + 1, &n_digits, &out->layer)) {
            out->name = name;
            out->n_list = (size_t)(at - name);
            out->rest = at + 1 + n_digits;
            return true;
        }
        word = at + 1;
    }
    return false;
}

/* By the text before the number; a list that is the beginning of another one comes first. */
static int compare_lists(const struct vc_layer_tensor *a, const struct vc_layer_tensor *b)
{
    size_t n = a->n_list < b->n_list ? a->n_list : b->n_list;

    return VC_FIRST_ORDER(memcmp(a->name, b->name, n), VC_ORDER(a->n_list, b->n_list));
}

/* The order of the sorted list. */
static int compare(const void *x, const void *y)
{
    const struct vc_layer_tensor *a = x;
    const struct vc_layer_tensor *b = y;

    return VC_FIRST_ORDER(compare_lists(a, b), VC_ORDER(a->layer, b->layer), strcmp(a->rest, b->rest));
}

/* All tensors of layers, sorted by list, layer and rest. Optimizer states, and second tensors of one name, are no
 * members. */
static enum vc_status list_tensors(struct vc_ctx *ctx, const struct vc_model *model, const char *name,
                                   struct vc_layer_list *out)
{
    VC_CALL(VC_ARRAY(ctx, VC_TAG_MISC, out->tensors, model->n_tensors));
    for (size_t i = 0; i < model->n_tensors; i++) {
        struct vc_layer_tensor *t = &out->tensors[out->n];

        if (model->tensors[i].role != VC_ROLE_OPTIMIZER && vc_model_find(model, model->tensors[i].name) == i &&
            place_of(model->tensors[i].name, name, t)) {
            t->index = i;
            t->beside = model->tensors[i].part_of != VC_NO_TENSOR;
            out->n++;
        }
    }
    if (out->n != 0) {
        qsort(out->tensors, out->n, sizeof *out->tensors, compare);
    }
    return VC_OK;
}

/* The place behind the last tensor that is of the same list as number `first`. */
static size_t end_of_list(const struct vc_layer_list *all, size_t first)
{
    size_t end = first;

    while (end < all->n && compare_lists(&all->tensors[end], &all->tensors[first]) == 0) {
        end++;
    }
    return end;
}

/* The same for a layer. */
static size_t end_of_layer(const struct vc_layer_list *list, size_t first)
{
    size_t end = first;

    while (end < list->n && list->tensors[end].layer == list->tensors[first].layer) {
        end++;
    }
    return end;
}

/* The sentence names up to NAMED_LISTS of the lists: "encoder.layers, decoder.layers". */
static enum vc_status refuse_several(struct vc_ctx *ctx, const struct vc_layer_list *all, struct vc_arena *arena)
{
    const char *text = "";
    size_t named = 0;
    size_t first, end;

    for (first = 0; first < all->n; first = end, named++) {
        const struct vc_layer_tensor *t = &all->tensors[first];

        end = end_of_list(all, first);
        if (named < NAMED_LISTS) {
            text = vc_arena_printf(ctx, arena, "%s%s%.*s", text, named == 0 ? "" : ", ", (int)t->n_list, t->name);
        }
        VC_CALL_ALLOC(text);
    }
    return vc_fail(ctx, VC_E_UNSUPPORTED, "has %zu lists of layers: %s%s; %s says which", named, text,
                   named > NAMED_LISTS ? ", ..." : "", vc_option(ctx, "layers"));
}

/* name: the list that was asked for; NULL: any. */
static enum vc_status refuse_none(struct vc_ctx *ctx, const char *name)
{
    VC_REFUSE_IF(name != NULL, ctx, VC_E_UNSUPPORTED, "%s: no tensor is called '%s.0' and so on",
                 vc_option(ctx, "layers"), name);
    return vc_fail(ctx, VC_E_UNSUPPORTED,
                   "has no list of layers that the names of its tensors tell, such as model.layers.0.x; %s names one",
                   vc_option(ctx, "layers"));
}

/* Counts the layers, whose numbers begin at 0 without a gap; else a layer is missing in the file. */
static enum vc_status count_layers(struct vc_ctx *ctx, struct vc_layer_list *list)
{
    size_t first, end;

    for (first = 0; first < list->n; first = end, list->n_layers++) {
        end = end_of_layer(list, first);
        VC_REFUSE_IF(list->tensors[first].layer != list->n_layers, ctx, VC_E_UNSUPPORTED,
                     "%s: there is no layer %llu, but a layer %llu", list->name, (unsigned long long)list->n_layers,
                     (unsigned long long)list->tensors[first].layer);
    }
    return VC_OK;
}

static bool same_shape(const struct vc_model *model, const struct vc_layer_tensor *a, const struct vc_layer_tensor *b)
{
    const struct vc_tensor *x = &model->tensors[a->index];
    const struct vc_tensor *y = &model->tensors[b->index];

    return x->n_dims == y->n_dims && (x->n_dims == 0 || memcmp(x->shape, y->shape, x->n_dims * sizeof *x->shape) == 0);
}

/* The next tensor of a layer that is no part of another, from `at` on; NULL behind the last. */
static const struct vc_layer_tensor *next_whole(const struct vc_layer_list *list, size_t *at, size_t end)
{
    while (*at < end && list->tensors[*at].beside) {
        ++*at;
    }
    return *at < end ? &list->tensors[*at] : NULL;
}

/* Compares every layer with the first one, and stops at the first difference (list->odd, list->other). Tensors beside
 * others, such as scales, do not count. */
static void find_odd(const struct vc_model *model, struct vc_layer_list *list)
{
    size_t n_first = end_of_layer(list, 0);
    size_t first, end;

    for (first = n_first; first < list->n && list->odd == NULL; first = end) {
        size_t i = 0;
        size_t k = first;

        end = end_of_layer(list, first);
        const struct vc_layer_tensor *a = next_whole(list, &i, n_first);
        const struct vc_layer_tensor *b = next_whole(list, &k, end);
        while ((a != NULL || b != NULL) && list->odd == NULL) {
            int order = a == NULL ? 1 : b == NULL ? -1 : strcmp(a->rest, b->rest);

            if (order != 0) {
                list->odd = order < 0 ? a : b;
            } else if (!same_shape(model, a, b)) {
                list->odd = a;
                list->other = b;
            }
            i++;
            k++;
            a = next_whole(list, &i, n_first);
            b = next_whole(list, &k, end);
        }
    }
}

enum vc_status vc_layers_find(struct vc_ctx *ctx, const struct vc_model *model, const char *name,
                              struct vc_arena *arena, struct vc_layer_list *list)
{
    *list = (struct vc_layer_list){0};
    VC_CALL(list_tensors(ctx, model, name, list));
    VC_RETURN_IF(list->n == 0, refuse_none(ctx, name));
    VC_RETURN_IF(end_of_list(list, 0) != list->n, refuse_several(ctx, list, arena));
    VC_CALL_ALLOC(list->name = vc_arena_copy(ctx, arena, list->tensors[0].name, list->tensors[0].n_list));
    VC_CALL(count_layers(ctx, list));
    find_odd(model, list);
    return VC_OK;
}
