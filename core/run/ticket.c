/* ticket.c - what a worker does with a ticket: read a tile, run its stages, hand the results to the sink. */
#include "core/run/ticket.h"

#include "core/base/checked.h"

enum vc_status vc_worker_init(struct vc_worker *worker)
{
    struct vc_run_state *rs = worker->rs;
    enum vc_status status = vc_buffers_alloc(&worker->ctx, &rs->room, &worker->buffers);

    if (status != VC_OK || rs->packet_bytes == 0) {
        return status;
    }
    worker->packets = vc_alloc_array(&worker->ctx, VC_TAG_IO, 1 + VC_MAX_COMPANIONS, rs->packet_bytes);
    if (worker->packets == NULL) {
        vc_buffers_release(&worker->ctx, &worker->buffers);
        return VC_E_NOMEM;
    }
    return VC_OK;
}

void vc_worker_release(struct vc_worker *worker)
{
    vc_free(&worker->ctx, worker->packets);
    vc_buffers_release(&worker->ctx, &worker->buffers);
}

/* ---- items in work ---- */

static const struct vc_tensor *tensor_of(const struct vc_item *item)
{
    return &item->model->tensors[item->source];
}

static bool is_copy(const struct vc_run_state *rs, const struct vc_item *item)
{
    return item->n_stages == 0 && !rs->exec->survey;
}

static enum vc_form form_of(const struct vc_run_state *rs, const struct vc_item *item)
{
    size_t index = (size_t)(item - rs->exec->items);

    return rs->exec->sink != NULL ? rs->exec->outs[rs->exec->first_out[index]].form : VC_FORM_VALUES;
}

static uint64_t form_bytes(const struct vc_item *item, enum vc_form form)
{
    return form == VC_FORM_RAW ? item->model->io[item->source].raw_bytes : tensor_of(item)->size_bytes;
}

uint64_t vc_ticket_tiles(const struct vc_run_state *rs, const struct vc_item *item)
{
    uint64_t n_rows;
    uint64_t row_len;

    if (is_copy(rs, item)) {
        return vc_ceil_div_u64(form_bytes(item, form_of(rs, item)), VC_COPY_BYTES);
    }
    vc_tile_rows_of(tensor_of(item), &n_rows, &row_len);
    return vc_tile_count(n_rows, row_len);
}

size_t vc_ticket_phases(const struct vc_run_state *rs, const struct vc_item *item)
{
    size_t n = 1;
    size_t i;

    for (i = 0; !rs->exec->survey && i < item->n_stages; i++) {
        n += item->stages[i]->scan;
    }
    return n;
}

enum vc_status vc_live_create(struct vc_ctx *ctx, struct vc_run_state *rs, size_t index, struct vc_live **out)
{
    struct vc_item *item = &rs->exec->items[index];
    struct vc_live *live = vc_calloc_array(ctx, VC_TAG_MISC, 1, sizeof *live);

    if (live == NULL) {
        return VC_E_NOMEM;
    }
    live->item = index;
    live->copy = is_copy(rs, item);
    live->whole = !rs->ordered && item->model->io[item->source].sequential;
    live->form = live->copy ? form_of(rs, item) : VC_FORM_VALUES;
    live->copy_bytes = live->copy ? form_bytes(item, live->form) : 0;
    vc_tile_rows_of(tensor_of(item), &live->n_rows, &live->row_len);
    live->n_tiles = vc_ticket_tiles(rs, item);
    live->n_phases = vc_ticket_phases(rs, item);
    live->ready_phases = 1;
    if (vc_stages_begin(ctx, item, rs->exec->survey ? vc_item_survey_stage(item) + 1 : item->n_stages) != VC_OK) {
        vc_free(ctx, live);
        return ctx->status;
    }
    rs->live[index] = live;
    *out = live;
    return VC_OK;
}

void vc_live_free(struct vc_ctx *ctx, struct vc_run_state *rs, struct vc_live *live)
{
    struct vc_item *item = &rs->exec->items[live->item];

    if (live->stream != NULL) {
        (void)item->model->ops->stream_close(ctx, live->stream, false);
    }
    vc_stages_end(ctx, item);
    rs->live[live->item] = NULL;
    vc_free(ctx, live);
}

/* ---- waiting ---- */

/* True when this ticket should give up because an earlier one failed. */
static bool overtaken(const struct vc_run_state *rs, const struct vc_ticket *ticket)
{
    return rs->stop && rs->failed_sequence < ticket->sequence;
}

static enum vc_status give_up(struct vc_worker *worker)
{
    return vc_fail(&worker->ctx, VC_E_CANCELLED, "an earlier part failed");
}

static enum vc_status wait_for_phase(struct vc_worker *worker, const struct vc_ticket *ticket)
{
    struct vc_run_state *rs = worker->rs;
    bool ok;

    (void)pthread_mutex_lock(&rs->mutex);
    while (ticket->live->ready_phases <= ticket->phase && !overtaken(rs, ticket)) {
        (void)pthread_cond_wait(&rs->changed, &rs->mutex);
    }
    ok = ticket->live->ready_phases > ticket->phase;
    (void)pthread_mutex_unlock(&rs->mutex);
    return ok ? VC_OK : give_up(worker);
}

/* ---- reading ---- */

/* The next n bytes of a stream that several workers read in turns; opened by the first, closed by the last. */
static enum vc_status read_in_turn(struct vc_worker *worker, const struct vc_ticket *ticket, void *dst, size_t n)
{
    struct vc_run_state *rs = worker->rs;
    struct vc_live *live = ticket->live;
    struct vc_item *item = &rs->exec->items[live->item];
    const struct vc_model *model = item->model;
    struct vc_ctx *ctx = &worker->ctx;
    enum vc_status status = VC_OK;
    bool turn;

    (void)pthread_mutex_lock(&rs->mutex);
    while (live->next_read != ticket->tile && !overtaken(rs, ticket)) {
        (void)pthread_cond_wait(&rs->changed, &rs->mutex);
    }
    turn = live->next_read == ticket->tile;
    (void)pthread_mutex_unlock(&rs->mutex);
    if (!turn) {
        return give_up(worker);
    }
    /* Only the worker whose turn it is touches live->stream until next_read moves on. */
    if (ticket->tile == 0) {
        VC_TRY(model->ops->stream_open(ctx, model, item->source, live->form, &live->stream));
    }
    VC_TRY(model->ops->stream_read(ctx, live->stream, dst, n));
    if (ticket->tile == live->n_tiles - 1) {
        struct vc_source_stream *stream = live->stream;

        live->stream = NULL;
        VC_TRY(model->ops->stream_close(ctx, stream, true));
    }
    (void)pthread_mutex_lock(&rs->mutex);
    live->next_read = ticket->tile == live->n_tiles - 1 ? 0 : ticket->tile + 1;
    (void)pthread_cond_broadcast(&rs->changed);
    (void)pthread_mutex_unlock(&rs->mutex);
out:
    return status;
}

static enum vc_status read_bytes(struct vc_worker *worker, const struct vc_ticket *ticket, uint64_t offset, void *dst,
                                 size_t n)
{
    const struct vc_item *item = &worker->rs->exec->items[ticket->item];
    const struct vc_model *model = item->model;

    if (ticket->whole) {
        return model->ops->stream_read(&worker->ctx, ticket->live->stream, dst, n);
    }
    if (model->io[item->source].sequential) {
        return read_in_turn(worker, ticket, dst, n);
    }
    return model->ops->read(&worker->ctx, model, item->source, ticket->live->form, offset, dst, n,
                            &ticket->live->check);
}

/* ---- writing ---- */

/* Waits for this ticket's turn at an ordered sink. An earlier ticket that gave up inside pack, woken by the failure of
 * a later one, never emits; so this one gives up, too. */
static enum vc_status wait_to_emit(struct vc_worker *worker, const struct vc_ticket *ticket)
{
    struct vc_run_state *rs = worker->rs;
    bool turn;

    if (!rs->ordered) {
        return VC_OK;
    }
    (void)pthread_mutex_lock(&rs->mutex);
    while (rs->next_emit != ticket->emit_sequence && rs->gave_up_sequence > ticket->sequence) {
        (void)pthread_cond_wait(&rs->changed, &rs->mutex);
    }
    turn = rs->next_emit == ticket->emit_sequence;
    (void)pthread_mutex_unlock(&rs->mutex);
    return turn ? VC_OK : give_up(worker);
}

static void emitted(struct vc_worker *worker)
{
    struct vc_run_state *rs = worker->rs;

    if (rs->ordered) {
        (void)pthread_mutex_lock(&rs->mutex);
        rs->next_emit++;
        (void)pthread_cond_broadcast(&rs->changed);
        (void)pthread_mutex_unlock(&rs->mutex);
    }
}

struct piece {
    size_t out;
    uint64_t offset;
    const void *data;
    size_t n;
};

static enum vc_status write_pieces(struct vc_worker *worker, const struct vc_ticket *ticket, const struct piece *pieces,
                                   size_t n)
{
    struct vc_run_state *rs = worker->rs;
    struct vc_sink *sink = rs->exec->sink;
    struct vc_packet packets[1 + VC_MAX_COMPANIONS];
    enum vc_status status = VC_OK;
    size_t i;

    if (sink == NULL) {
        return VC_OK;
    }
    for (i = 0; i < n; i++) {
        packets[i] =
            (struct vc_packet){.buffer = worker->packets == NULL ? NULL : worker->packets + i * rs->packet_bytes,
                               .buffer_bytes = rs->packet_bytes};
        VC_TRY(vc_sink_pack(&worker->ctx, sink, pieces[i].out, pieces[i].offset, pieces[i].data, pieces[i].n,
                            &packets[i]));
    }
    VC_TRY(wait_to_emit(worker, ticket));
    /* Where the order is free, the small companions go first: a file has one writer at a time, and who came for them
     * after the large piece would often find another worker's large piece before him. */
    for (i = 0; i < n; i++) {
        VC_TRY(sink->ops->emit(&worker->ctx, sink, &packets[rs->ordered ? i : n - 1 - i]));
    }
    emitted(worker);
out:
    return status;
}

/* ---- the work ---- */

static enum vc_status copy_piece(struct vc_worker *worker, const struct vc_ticket *ticket)
{
    struct vc_run_state *rs = worker->rs;
    struct vc_live *live = ticket->live;
    uint64_t offset = ticket->tile * VC_COPY_BYTES;
    size_t n = (size_t)vc_min_u64(VC_COPY_BYTES, live->copy_bytes - offset);
    enum vc_status status = read_bytes(worker, ticket, offset, worker->buffers.in, n);
    struct piece piece = {.offset = offset, .data = worker->buffers.in, .n = n};

    if (status != VC_OK) {
        return status;
    }
    piece.out = rs->exec->sink != NULL ? rs->exec->first_out[live->item] : 0;
    atomic_fetch_add(&rs->done_bytes, n);
    return write_pieces(worker, ticket, &piece, 1);
}

static void add_measurements(struct vc_worker *worker, struct vc_live *live, const struct vc_tile *tile,
                             const struct vc_tile_result *result)
{
    struct vc_item_result *total = &live->result;
    size_t n = vc_tile_chunks(tile);
    size_t i;

    if (result->out.measured) {
        vc_exact_clear(&worker->sum_x2);
        vc_exact_clear(&worker->sum_e2);
        for (i = 0; i < n; i++) {
            vc_exact_add(&worker->sum_x2, result->stats.chunk_sums[2 * i]);
            vc_exact_add(&worker->sum_e2, result->stats.chunk_sums[2 * i + 1]);
        }
    }
    (void)pthread_mutex_lock(&worker->rs->mutex);
    total->nonfinite += result->out.nonfinite;
    if (result->out.measured) {
        total->measured = true;
        vc_exact_merge(&live->sum_x2, &worker->sum_x2);
        vc_exact_merge(&live->sum_e2, &worker->sum_e2);
        total->zeros_before += result->stats.zeros_before;
        total->zeros_after += result->stats.zeros_after;
        total->clipped += result->stats.clipped;
        if (result->stats.max_abs_error > total->max_abs_error) {
            total->max_abs_error = result->stats.max_abs_error;
        }
    }
    (void)pthread_mutex_unlock(&worker->rs->mutex);
}

static enum vc_status write_tile(struct vc_worker *worker, const struct vc_ticket *ticket, const struct vc_tile *tile,
                                 const struct vc_tile_result *result)
{
    const struct vc_exec *exec = worker->rs->exec;
    const struct vc_item *item = &exec->items[ticket->item];
    struct piece pieces[1 + VC_MAX_COMPANIONS];
    enum vc_dtype dtype = item->desc.dtype;
    size_t n = 0;
    size_t main_out;
    size_t i;

    if (exec->sink == NULL) {
        return VC_OK;
    }
    main_out = exec->first_out[ticket->item];
    pieces[n++] = (struct piece){main_out, vc_dtype_bytes(dtype, tile->first), result->data,
                                 (size_t)vc_dtype_bytes(dtype, tile->n_elems)};
    for (i = 0; i < VC_MAX_COMPANIONS; i++) {
        if (result->out.companion[i].data != NULL && result->out.companion[i].n_bytes != 0) {
            pieces[n++] = (struct piece){main_out + 1 + i, result->out.companion[i].offset_bytes,
                                         result->out.companion[i].data, result->out.companion[i].n_bytes};
        }
    }
    return write_pieces(worker, ticket, pieces, n);
}

/* The stage that scans in this phase; n_stages in the last phase. */
static size_t stage_of_phase(const struct vc_item *item, size_t phase)
{
    size_t k;

    for (k = 0; k < item->n_stages; k++) {
        if (item->stages[k]->scan && phase-- == 0) {
            return k;
        }
    }
    return item->n_stages;
}

/* What stage k does with its input where it makes nothing: a survey or a scan. */
static enum vc_status look_at_tile(struct vc_worker *worker, struct vc_item *item, size_t k, const struct vc_tile *tile,
                                   const void *in)
{
    struct vc_stage *stage = item->stages[k];
    enum vc_status status = worker->rs->exec->survey
                                ? stage->pass->ops->survey(&worker->ctx, stage, item, tile, in)
                                : stage->pass->ops->scan(&worker->ctx, stage, item, tile, in, worker->buffers.scratch);

    return status == VC_OK ? VC_OK : vc_context(&worker->ctx, "%s", tensor_of(item)->name);
}

static enum vc_status work_on_tile(struct vc_worker *worker, struct vc_ticket *ticket)
{
    struct vc_run_state *rs = worker->rs;
    struct vc_item *item = &rs->exec->items[ticket->item];
    struct vc_live *live = ticket->live;
    size_t k = rs->exec->survey ? vc_item_survey_stage(item) : stage_of_phase(item, ticket->phase);
    struct vc_tile_result result;
    struct vc_tile tile;
    size_t n_bytes;
    enum vc_status status = VC_OK;

    vc_tile_get(live->n_rows, live->row_len, ticket->tile, &tile);
    n_bytes = (size_t)vc_tensor_bytes(tensor_of(item), tile.n_elems);
    VC_TRY(read_bytes(worker, ticket, vc_tensor_bytes(tensor_of(item), tile.first), worker->buffers.in, n_bytes));
    atomic_fetch_add(&rs->done_bytes, n_bytes);
    status = vc_stages_apply(&worker->ctx, item, k, &tile, worker->buffers.in, &worker->buffers, &result);
    if (status == VC_OK && k < item->n_stages) {
        status = look_at_tile(worker, item, k, &tile, result.data);
    }
    if (status != VC_OK) {
        ticket->refused = status == VC_E_UNSUPPORTED;
        return status;
    }
    if (k == item->n_stages) {
        add_measurements(worker, live, &tile, &result);
        VC_TRY(write_tile(worker, ticket, &tile, &result));
    }
out:
    return status;
}

/* Under the mutex: the last tile of a phase was done. */
static enum vc_status phase_completed(struct vc_worker *worker, struct vc_live *live, size_t phase)
{
    struct vc_run_state *rs = worker->rs;
    struct vc_item *item = &rs->exec->items[live->item];
    enum vc_status status = VC_OK;

    if (!rs->exec->survey && phase + 1 < live->n_phases) {
        struct vc_stage *stage = item->stages[stage_of_phase(item, phase)];

        status = stage->pass->ops->scan_end(&worker->ctx, stage, item);
        if (status != VC_OK) {
            return vc_context(&worker->ctx, "%s", tensor_of(item)->name);
        }
        live->done = 0;
        live->ready_phases++;
        return VC_OK;
    }
    live->result.sum_x2 = vc_exact_value(&live->sum_x2);
    live->result.sum_e2 = vc_exact_value(&live->sum_e2);
    if (rs->exec->results != NULL) {
        rs->exec->results[live->item] = live->result;
    }
    vc_live_free(&worker->ctx, rs, live);
    return VC_OK;
}

static enum vc_status tile_completed(struct vc_worker *worker, struct vc_live *live, size_t phase)
{
    struct vc_run_state *rs = worker->rs;
    enum vc_status status = VC_OK;

    (void)pthread_mutex_lock(&rs->mutex);
    if (++live->done == live->n_tiles) {
        status = phase_completed(worker, live, phase);
        (void)pthread_cond_broadcast(&rs->changed);
    }
    (void)pthread_mutex_unlock(&rs->mutex);
    return status;
}

static enum vc_status run_tile(struct vc_worker *worker, struct vc_ticket *ticket)
{
    enum vc_status status = VC_OK;

    VC_TRY(vc_check_cancelled(&worker->ctx));
    status = ticket->live->copy ? copy_piece(worker, ticket) : work_on_tile(worker, ticket);
    VC_TRY(status);
    VC_TRY(tile_completed(worker, ticket->live, ticket->phase));
out:
    return status;
}

/* All phases and tiles of a compressed tensor, one after the other. */
static enum vc_status run_whole(struct vc_worker *worker, struct vc_ticket *ticket)
{
    struct vc_live *live = ticket->live;
    const struct vc_item *item = &worker->rs->exec->items[live->item];
    const struct vc_model *model = item->model;
    struct vc_ctx *ctx = &worker->ctx;
    enum vc_status status = VC_OK;
    size_t n_phases = live->n_phases;
    uint64_t n_tiles = live->n_tiles;

    for (ticket->phase = 0; ticket->phase < n_phases; ticket->phase++) {
        VC_TRY(model->ops->stream_open(ctx, model, item->source, live->form, &live->stream));
        for (ticket->tile = 0; ticket->tile < n_tiles; ticket->tile++) {
            if (ticket->tile + 1 < n_tiles) {
                VC_TRY(run_tile(worker, ticket));
            } else { /* the end of the stream is checked before the tensor counts as done */
                VC_TRY(vc_check_cancelled(ctx));
                VC_TRY(live->copy ? copy_piece(worker, ticket) : work_on_tile(worker, ticket));
            }
        }
        {
            struct vc_source_stream *stream = live->stream;

            live->stream = NULL;
            VC_TRY(model->ops->stream_close(ctx, stream, true));
        }
        VC_TRY(tile_completed(worker, live, ticket->phase));
    }
out:
    return status;
}

enum vc_status vc_ticket_run(struct vc_worker *worker, struct vc_ticket *ticket)
{
    enum vc_status status;

    if (ticket->whole) {
        return run_whole(worker, ticket);
    }
    status = wait_for_phase(worker, ticket);
    return status != VC_OK ? status : run_tile(worker, ticket);
}
