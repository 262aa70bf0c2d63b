/* onnx_fields.c - messages as records: what the readers of a program (onnx_program.c, onnx_attribute.c) share.
 *
 * Fields come in any order, so a message with lists is walked over twice: vc_onnx_lists counts and makes room, then a
 * taker gets each field. What it takes is in proportion to the message's bytes. */

#include "formats/onnx/onnx.h"

enum vc_status vc_onnx_each(struct onnx_program_reader *r, struct vc_span message, vc_onnx_taker *take, void *to)
{
    VC_EACH_FIELD(f, &r->wire, message) {
        VC_CALL(take(r, &f, to));
    }
    return VC_OK;
}

void *vc_onnx_items(struct onnx_program_reader *r, size_t n, size_t item_bytes)
{
    size_t all;
    void *items = vc_mul_size(n, item_bytes, &all) ? vc_arena_alloc(r->ctx, r->arena, all != 0 ? all : 1) : NULL;

    if (items != NULL) {
        memset(items, 0, all);
    }
    return items;
}

/* ---- lists ---- */

static enum vc_status count_field(struct onnx_program_reader *r, const struct vc_field *f, void *to)
{
    struct onnx_list *list = to;

    for (; list->item_bytes != 0; list++) {
        list->n += list->number == f->number;
    }
    return VC_OK;
}

enum vc_status vc_onnx_lists(struct onnx_program_reader *r, struct vc_span message, struct onnx_list *lists)
{
    VC_CALL(vc_onnx_each(r, message, count_field, lists));
    for (; lists->item_bytes != 0; lists++) {
        VC_CALL_ALLOC(lists->items = vc_onnx_items(r, lists->n, lists->item_bytes));
        if (lists->n_to != NULL) {
            *lists->n_to = lists->n;
            memcpy(lists->to, &lists->items, sizeof lists->items);
        }
    }
    return VC_OK;
}

/* ---- texts ---- */

enum vc_status vc_onnx_bytes_read(struct onnx_program_reader *r, const struct vc_field *field, const char *what,
                                  const char **bytes)
{
    VC_CALL(vc_wire_expect(&r->wire, field, VC_WIRE_BYTES, what));
    char *copy = vc_onnx_items(r, (size_t)field->data.n + 1, 1);
    VC_CALL_ALLOC(copy);
    VC_CALL(vc_wire_read(&r->wire, field->data.at, copy, (size_t)field->data.n));
    *bytes = copy;
    return VC_OK;
}

enum vc_status vc_onnx_text_read(struct onnx_program_reader *r, const struct vc_field *field, const char *what,
                                 const char **text)
{
    VC_CALL(vc_onnx_bytes_read(r, field, what, text));
    VC_REFUSE_IF(strlen(*text) != field->data.n, r->ctx, VC_E_FORMAT, "%s has a NUL in it (at offset %" PRIu64 ")",
                 what, field->all.at);
    return VC_OK;
}

enum vc_status vc_onnx_texts_take(struct onnx_program_reader *r, const struct vc_field *field,
                                  const struct onnx_text *texts, void *record)
{
    for (; texts->what != NULL; texts++) {
        if (texts->number == field->number) {
            return vc_onnx_text_read(r, field, texts->what, (const char **)((unsigned char *)record + texts->offset));
        }
    }
    return VC_OK;
}

const char *vc_onnx_domain(const char *domain)
{
    return strcmp(domain, "ai.onnx") == 0 ? "" : domain;
}
