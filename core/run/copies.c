/* copies.c - the pieces in which the bytes of kept tensors go to the sink, as they are. */
#include "core/run/ticket.h"

static uint64_t form_bytes(const struct vc_item *item, enum vc_form form)
{
    return form == VC_FORM_RAW ? item->set->model->io[item->source].raw_bytes : vc_ticket_tensor(item)->size_bytes;
}

/* What stands in front of the values in the bytes of that form. */
static uint64_t header_bytes(const struct vc_item *item, enum vc_form form)
{
    uint64_t values = vc_ticket_tensor(item)->size_bytes;
    uint64_t all = form_bytes(item, form);

    return all > values ? all - values : 0;
}

/* An ordered sink compresses piece by piece, so what was cut otherwise is compressed to other bytes. There the bytes of
 * a kept item come in the tiles of its values, as they came from the steps that made them when its source was written;
 * the header comes with the first one. */
static bool is_by_tiles(const struct vc_item *item, bool ordered)
{
    const struct vc_tensor *t = vc_ticket_tensor(item);

    return ordered && t->n_elems != 0 && t->size_bytes != 0 && vc_tensor_bytes(t, t->n_elems) == t->size_bytes;
}

size_t vc_copy_most(const struct vc_item *item, bool ordered)
{
    const struct vc_tensor *t = vc_ticket_tensor(item);
    size_t most = VC_COPY_BYTES;

    if (is_by_tiles(item, ordered)) {
        uint64_t tile = vc_min_u64(t->size_bytes, vc_tensor_bytes(t, vc_min_u64(t->n_elems, VC_TILE_ELEMS)));

        most = (size_t)vc_max_u64(most, tile + header_bytes(item, VC_FORM_RAW));
    }
    return most;
}

uint64_t vc_copy_count(const struct vc_item *item, enum vc_form form, bool ordered)
{
    uint64_t n_rows, row_len;

    if (!is_by_tiles(item, ordered)) {
        return vc_ceil_div_u64(form_bytes(item, form), VC_COPY_BYTES);
    }
    vc_desc_grid(item->first, &n_rows, &row_len);
    return vc_tile_count(n_rows, row_len);
}

uint64_t vc_copy_range(const struct vc_item *item, enum vc_form form, bool ordered, uint64_t piece, size_t *n)
{
    uint64_t header = header_bytes(item, form);
    struct vc_tile at;
    uint64_t n_rows, row_len;

    if (!is_by_tiles(item, ordered)) {
        *n = (size_t)vc_min_u64(VC_COPY_BYTES, form_bytes(item, form) - piece * VC_COPY_BYTES);
        return piece * VC_COPY_BYTES;
    }
    vc_desc_grid(item->first, &n_rows, &row_len);
    vc_tile_get(n_rows, row_len, piece, &at);
    uint64_t begin = piece == 0 ? 0 : header + vc_tensor_bytes(vc_ticket_tensor(item), at.first);
    *n = (size_t)(header + vc_tensor_bytes(vc_ticket_tensor(item), at.first + at.n_elems) - begin);
    return begin;
}
