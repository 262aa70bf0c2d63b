/* finds.c - asks the rows of the table about every tensor of a model: search.h, first half.
 *
 * Two rounds, because names change in between: packed codes first ("q_proj.weight_packed" becomes "q_proj.weight"),
 * then the manifest (of the caller), then codes that lie as they are. */
#include <jansson.h>

#include "formats/dialects/search.h"

#define MOST_TAIL 32 /* bytes of the longest one that a row looks for */

/* Asks the rows about every tensor. The last row is asked first: the row plain, which takes what nobody else wants, is
 * the first of the table. Failures of one tensor are findings, where these are collected. */
static enum vc_status ask_rows(struct vc_search *search, bool packed)
{
    enum vc_status status = VC_OK;
    size_t n = 0;

    while (vc_dialect_row(n) != NULL) {
        n++;
    }
    for (size_t i = 0; i < search->model->n_tensors; i++) {
        bool found = false;

        for (size_t k = n; k-- > 0 && !found;) {
            const struct vc_dialect_file *file = vc_dialect_row(k)->file;
            enum vc_status (*find)(struct vc_search * search, size_t tensor, bool *found) = NULL;

            if (file != NULL) {
                find = packed ? file->find_packed : file->find_codes;
            }
            if (find != NULL) {
                search->row = vc_dialect_row(k);
                status = find(search, i, &found);
                VC_CALL(vc_collect(search->ctx, status, "parts", search->model->tensors[i].name));
            }
        }
    }
    return VC_OK;
}

/* Packed codes get their names when all have been found, since names are looked up meanwhile. */
static enum vc_status rename_packed(struct vc_search *search)
{
    for (size_t i = 0; i < search->model->n_tensors; i++) {
        struct vc_tensor *t = &search->model->tensors[i];
        const struct vc_found *found = &search->out->found[i];

        if (found->n_name != 0) {
            t->name = vc_arena_printf(search->ctx, &search->out->arena, "%.*s%s", (int)found->n_name, t->name,
                                      found->tail != NULL ? found->tail : "");
            VC_CALL_ALLOC(t->name);
        }
    }
    return vc_model_index_names(search->ctx, search->model);
}

enum vc_status vc_search_packed(struct vc_ctx *ctx, struct vc_model *model, vc_hint_fn *hint, struct vc_finds *out)
{
    struct vc_search search = {.ctx = ctx, .model = model, .out = out, .ask = hint};
    enum vc_status status = VC_OK;

    out->dialect = &vc_dialect_plain;
    out->read = &vc_dialect_plain;
    VC_TRY_ALLOC(search.buffer = vc_model_name_room(ctx, model, MOST_TAIL));
    VC_TRY(ask_rows(&search, true));
    if (search.any_packed) {
        VC_TRY(rename_packed(&search));
    }
out:
    json_decref(search.layers);
    vc_dialect_hint_release(&search.hint);
    vc_free(ctx, search.buffer);
    return status;
}

enum vc_status vc_search_codes(struct vc_ctx *ctx, struct vc_model *model, vc_hint_fn *hint, struct vc_finds *out)
{
    struct vc_search search = {.ctx = ctx, .model = model, .out = out, .ask = hint};
    enum vc_status status;

    VC_TRY_ALLOC(search.buffer = vc_model_name_room(ctx, model, MOST_TAIL));
    VC_TRY(ask_rows(&search, false));
out:
    json_decref(search.layers);
    vc_dialect_hint_release(&search.hint);
    vc_free(ctx, search.buffer);
    return status;
}

const struct vc_found *vc_finds_at(const struct vc_finds *finds, size_t tensor)
{
    static const struct vc_found nothing = {.dialect = NULL};

    return finds->found != NULL ? &finds->found[tensor] : &nothing;
}

void vc_finds_release(struct vc_ctx *ctx, struct vc_finds *finds)
{
    vc_free(ctx, finds->found);
    vc_arena_release(ctx, &finds->arena);
}
