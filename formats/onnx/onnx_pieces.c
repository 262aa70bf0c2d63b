/* onnx_pieces.c - the list of pieces that a new ONNX file is put together from, front to back. New bytes
 * are put at the end of `literals` (formats/io/protobuf_wire.h) and become a piece when something else follows. A message
 * is begun before its length is known: the piece in front of it, for tag and length, is filled when it ends. */
#include "formats/onnx/onnx_sink.h"

/* A piece, or more of the last one where the bytes follow each other. */
static enum vc_status add(struct onnx_layout *l, enum onnx_piece_kind kind, uint64_t from, uint64_t n)
{
    struct onnx_sink *self = l->self;
    struct onnx_piece *last = self->n_pieces > l->sealed ? &self->pieces[self->n_pieces - 1] : NULL;

    if (n == 0) {
        return VC_OK;
    }
    if (last != NULL && kind == last->kind && kind != ONNX_PIECE_OUT && last->from + last->n == from) {
        last->n += n;
        return VC_OK;
    }
    VC_CALL(VC_GROW(l->ctx, VC_TAG_NAMES, self->pieces, self->pieces_capacity, self->n_pieces + 1));
    self->pieces[self->n_pieces++] = (struct onnx_piece){.kind = kind, .from = from, .n = n};
    return VC_OK;
}

enum vc_status vc_onnx_add_literals(struct onnx_layout *l)
{
    const struct vc_text *text = &l->self->literals;
    size_t from = l->n_placed;

    l->n_placed = text->n;
    return text->status != VC_OK ? text->status : add(l, ONNX_PIECE_LITERAL, from, text->n - from);
}

enum vc_status vc_onnx_add_piece(struct onnx_layout *l, enum onnx_piece_kind kind, uint64_t from, uint64_t n)
{
    VC_CALL(vc_onnx_add_literals(l));
    return add(l, kind, from, n);
}

enum vc_status vc_onnx_add_copy(struct onnx_layout *l, struct vc_span span)
{
    return vc_onnx_add_piece(l, ONNX_PIECE_COPY, span.at, span.n);
}

enum vc_status vc_onnx_begin_message(struct onnx_layout *l, size_t *mark)
{
    VC_CALL(vc_onnx_add_literals(l));
    l->sealed = l->self->n_pieces;
    VC_CALL(add(l, ONNX_PIECE_LITERAL, 0, 1));
    *mark = l->self->n_pieces;
    l->sealed = *mark;
    return VC_OK;
}

enum vc_status vc_onnx_end_message(struct onnx_layout *l, size_t mark, uint32_t number)
{
    struct onnx_sink *self = l->self;
    uint64_t n = 0;
    size_t from = self->literals.n;

    VC_CALL(vc_onnx_add_literals(l));
    for (size_t i = mark; i < self->n_pieces; i++) {
        VC_REFUSE_IF(!vc_add_u64(n, self->pieces[i].n, &n) || n > INT64_MAX / 2, l->ctx, VC_E_UNSUPPORTED,
                     "the output would be larger than 2^62 bytes");
    }
    vc_wire_put_tag(&self->literals, number, VC_WIRE_BYTES);
    vc_wire_put_varint(&self->literals, n);
    l->n_placed = self->literals.n;
    self->pieces[mark - 1].from = from;
    self->pieces[mark - 1].n = self->literals.n - from;
    l->sealed = self->n_pieces;
    return self->literals.status;
}
