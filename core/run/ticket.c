/* ticket.c - what a worker does with a ticket: reads a tile, runs its steps, hands the results to the sink. Which
 * ticket comes next and what becomes of failures is in executor.c. The rules for shared data are in ticket.h. */
#include "core/run/ticket.h"

enum vc_status vc_worker_init(struct vc_worker *worker)
{
    struct vc_run_state *rs = worker->rs;
    struct vc_ctx *ctx = &worker->ctx;
    enum vc_status status;

    VC_TRY(vc_buffers_alloc(ctx, &rs->sizes, &worker->buffers));
    if (vc_buffer_sizes_total(&rs->after) != 0) {
        VC_TRY(vc_buffers_alloc(ctx, &rs->before, &worker->before));
        VC_TRY(vc_buffers_alloc(ctx, &rs->after, &worker->after));
    }
    if (rs->packet_bytes != 0) {
        VC_TRY_ALLOC(worker->packets = vc_alloc_array(ctx, VC_TAG_IO, VC_PACKETS, rs->packet_bytes));
    }
out:
    if (status != VC_OK) {
        vc_worker_release(worker);
    }
    return status;
}

void vc_worker_release(struct vc_worker *worker)
{
    vc_free(&worker->ctx, worker->packets);
    vc_buffers_release(&worker->ctx, &worker->buffers);
    vc_buffers_release(&worker->ctx, &worker->before);
    vc_buffers_release(&worker->ctx, &worker->after);
    worker->packets = NULL;
}

/* ---- phases ---- */

static bool is_copy(const struct vc_run_state *rs, const struct vc_item *item)
{
    return item->chain->n_steps == 0 && !rs->exec->calibrate;
}

static enum vc_form form_of(const struct vc_run_state *rs, const struct vc_item *item)
{
    size_t index = (size_t)(item - rs->exec->items);

    return rs->exec->sink != NULL ? vc_out_at(rs->exec->outs, rs->exec->first_out[index]).form : VC_FORM_VALUES;
}

/* Steps that are applied in the last phase of this run: all, or those before the one that calibrates. */
static size_t target_steps(const struct vc_run_state *rs, const struct vc_item *item)
{
    return rs->exec->calibrate ? vc_item_calibrate_step(item) : item->chain->n_steps;
}

size_t vc_ticket_phases(const struct vc_run_state *rs, const struct vc_item *item)
{
    size_t target = target_steps(rs, item);
    size_t n = 1;

    for (size_t k = 0; k < target; k++) {
        n += item->chain->steps[k]->scan;
    }
    return n;
}

/* The steps that are applied in this phase: those before the one that scans in it, or the target. */
static size_t steps_of_phase(const struct vc_run_state *rs, const struct vc_item *item, size_t phase)
{
    size_t target = target_steps(rs, item);

    for (size_t k = 0; k < target; k++) {
        if (item->chain->steps[k]->scan && phase-- == 0) {
            return k;
        }
    }
    return target;
}

uint64_t vc_ticket_tiles(const struct vc_run_state *rs, const struct vc_item *item, size_t phase)
{
    uint64_t n_rows, row_len;

    if (is_copy(rs, item)) {
        return vc_copy_count(item, form_of(rs, item), rs->ordered);
    }
    vc_desc_grid(vc_item_desc(item, steps_of_phase(rs, item, phase)), &n_rows, &row_len);
    return vc_tile_count(n_rows, row_len);
}

/* ---- items in work ---- */

enum vc_status vc_live_create(struct vc_ctx *ctx, struct vc_run_state *rs, size_t index, struct vc_live **out)
{
    struct vc_item *item = &rs->exec->items[index];
    struct vc_live *live = vc_calloc_array(ctx, VC_TAG_MISC, 1, sizeof *live);

    VC_CALL_ALLOC(live);
    live->item = index;
    live->target = target_steps(rs, item);
    live->copy = is_copy(rs, item);
    live->whole =
        !rs->ordered && item->set->model->io[item->source].sequential && vc_reshape_steps(item, live->target) == 0;
    live->form = live->copy ? form_of(rs, item) : VC_FORM_VALUES;
    live->n_phases = vc_ticket_phases(rs, item);
    live->n_running = rs->exec->calibrate ? 0 : item->chain->n_steps + 1;
    live->running = vc_calloc_array(ctx, VC_TAG_MISC, live->n_running, sizeof *live->running);
    if (live->running == NULL) {
        vc_free(ctx, live);
        return VC_E_NOMEM;
    }
    rs->live[index] = live;
    *out = live;
    return VC_OK;
}

/* The first ticket of an item begins its steps, then lets the others of the item run, which wait_for_phase holds. When
 * begin fails they are let go by the failure: their sequence numbers are higher. */
static enum vc_status begin_item(struct vc_worker *worker, const struct vc_ticket *ticket)
{
    struct vc_run_state *rs = worker->rs;
    struct vc_live *live = ticket->live;
    struct vc_item *item = &rs->exec->items[live->item];

    VC_CALL(vc_steps_begin(&worker->ctx, item, rs->exec->calibrate ? live->target + 1 : item->chain->n_steps));
    if (!rs->exec->calibrate && item->chain->compare != NULL) {
        VC_CALL(item->chain->compare->ops->begin(&worker->ctx, item->chain->compare));
    }
    (void)pthread_mutex_lock(&rs->mutex);
    live->ready_phases = 1;
    (void)pthread_cond_broadcast(&rs->changed);
    (void)pthread_mutex_unlock(&rs->mutex);
    return VC_OK;
}

void vc_live_free(struct vc_ctx *ctx, struct vc_run_state *rs, struct vc_live *live)
{
    struct vc_item *item = &rs->exec->items[live->item];

    if (live->stream != NULL) {
        (void)item->set->model->ops->stream_close(ctx, live->stream, false);
    }
    vc_reshape_close(ctx, &live->stage);
    if (!rs->exec->calibrate && item->chain->compare != NULL) {
        item->chain->compare->ops->end(ctx, item->chain->compare);
    }
    vc_steps_end(ctx, item);
    VC_FREE_ALL(ctx, live->running, live);
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

    (void)pthread_mutex_lock(&rs->mutex);
    while (ticket->live->ready_phases <= ticket->phase && !overtaken(rs, ticket)) {
        (void)pthread_cond_wait(&rs->changed, &rs->mutex);
    }
    bool ok = ticket->live->ready_phases > ticket->phase;
    (void)pthread_mutex_unlock(&rs->mutex);
    return ok ? VC_OK : give_up(worker);
}

/* ---- reading ---- */

/* Waits until every tile before this one was read, for streams and stages: only one worker at a time can read these. */
static enum vc_status wait_for_turn(struct vc_worker *worker, const struct vc_ticket *ticket)
{
    struct vc_run_state *rs = worker->rs;
    struct vc_live *live = ticket->live;

    (void)pthread_mutex_lock(&rs->mutex);
    while (live->next_read != ticket->tile && !overtaken(rs, ticket)) {
        (void)pthread_cond_wait(&rs->changed, &rs->mutex);
    }
    bool turn = live->next_read == ticket->tile;
    (void)pthread_mutex_unlock(&rs->mutex);
    return turn ? VC_OK : give_up(worker);
}

/* Lets the next tile read; the last one of a phase makes it the first tile of the next phase. */
static void pass_turn(struct vc_worker *worker, const struct vc_ticket *ticket, bool last)
{
    struct vc_run_state *rs = worker->rs;

    (void)pthread_mutex_lock(&rs->mutex);
    ticket->live->next_read = last ? 0 : ticket->tile + 1;
    (void)pthread_cond_broadcast(&rs->changed);
    (void)pthread_mutex_unlock(&rs->mutex);
}

static bool is_last(const struct vc_worker *worker, const struct vc_ticket *ticket)
{
    return ticket->tile + 1 == vc_ticket_tiles(worker->rs, &worker->rs->exec->items[ticket->item], ticket->phase);
}

/* The next n bytes of a stream that several workers read in turns; opened by the first, closed by the last. */
static enum vc_status read_in_turn(struct vc_worker *worker, const struct vc_ticket *ticket, void *dst, size_t n)
{
    struct vc_live *live = ticket->live;
    struct vc_item *item = &worker->rs->exec->items[live->item];
    const struct vc_model *model = item->set->model;
    struct vc_ctx *ctx = &worker->ctx;
    bool last = is_last(worker, ticket);

    VC_CALL(wait_for_turn(worker, ticket));
    /* Only the worker whose turn it is touches live->stream until the turn is passed on. */
    if (ticket->tile == 0) {
        VC_CALL(model->ops->stream_open(ctx, model, item->source, live->form, &live->stream));
    }
    VC_CALL(model->ops->stream_read(ctx, live->stream, dst, n));
    if (last) {
        struct vc_source_stream *stream = live->stream;

        live->stream = NULL;
        VC_CALL(model->ops->stream_close(ctx, stream, true));
    }
    pass_turn(worker, ticket, last);
    return VC_OK;
}

static enum vc_status read_bytes(struct vc_worker *worker, const struct vc_ticket *ticket, uint64_t offset, void *dst,
                                 size_t n)
{
    const struct vc_item *item = &worker->rs->exec->items[ticket->item];
    const struct vc_model *model = item->set->model;

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

/* Waits for this ticket's turn at an ordered sink. It gives up when an earlier ticket has ended without emitting,
 * because the turn never comes then. That may have happened even though only a later ticket failed: a failure wakes
 * those who wait inside pack. */
static enum vc_status wait_to_emit(struct vc_worker *worker, const struct vc_ticket *ticket)
{
    struct vc_run_state *rs = worker->rs;

    if (!rs->ordered) {
        return VC_OK;
    }
    (void)pthread_mutex_lock(&rs->mutex);
    while (rs->next_emit != ticket->emit_sequence && rs->gave_up_sequence > ticket->sequence) {
        (void)pthread_cond_wait(&rs->changed, &rs->mutex);
    }
    bool turn = rs->next_emit == ticket->emit_sequence;
    (void)pthread_mutex_unlock(&rs->mutex);
    return turn ? VC_OK : give_up(worker);
}

/* Gives the turn at an ordered sink to the next ticket. */
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

/* n bytes of an output tensor, from `offset` of it on. */
struct piece {
    size_t out;
    uint64_t offset;
    const void *data;
    size_t n;
};

/* Packs and emits the n pieces at `pieces`, at most VC_PACKETS of them. */
static enum vc_status write_batch(struct vc_worker *worker, const struct vc_ticket *ticket, const struct piece *pieces,
                                  size_t n)
{
    struct vc_run_state *rs = worker->rs;
    struct vc_sink *sink = rs->exec->sink;
    struct vc_packet packets[VC_PACKETS];

    for (size_t i = 0; i < n; i++) {
        packets[i] =
            (struct vc_packet){.buffer = worker->packets == NULL ? NULL : worker->packets + i * rs->packet_bytes,
                               .buffer_bytes = rs->packet_bytes};
        VC_CALL(vc_sink_pack(&worker->ctx, sink, pieces[i].out, pieces[i].offset, pieces[i].data, pieces[i].n,
                             &packets[i]));
    }
    VC_CALL(wait_to_emit(worker, ticket));
    /* Where the order is free, the small parts go first. A file has one writer at a time: after the large piece, this
     * worker would often have to wait for another worker's large piece before it could write the small ones. */
    for (size_t i = 0; i < n; i++) {
        VC_CALL(sink->ops->emit(&worker->ctx, sink, &packets[rs->ordered ? i : n - 1 - i]));
    }
    return VC_OK;
}

/* Pieces of one ticket that are packed together before any of them is emitted. */
struct batch {
    struct vc_worker *worker;
    const struct vc_ticket *ticket;
    struct piece pieces[VC_PACKETS];
    size_t n;
};

/* Adds a piece; one that is longer than a packet (all scales of a tensor, say) is cut. Writes the batch when it is
 * full.
 */
static enum vc_status add_piece(struct batch *batch, struct piece piece)
{
    struct vc_run_state *rs = batch->worker->rs;
    size_t most = rs->packet_bytes != 0 ? rs->piece_bytes : piece.n;

    while (piece.n != 0) {
        struct piece part = piece;

        part.n = piece.n < most ? piece.n : most;
        if (batch->n == VC_PACKETS) {
            VC_CALL(write_batch(batch->worker, batch->ticket, batch->pieces, batch->n));
            batch->n = 0;
        }
        batch->pieces[batch->n++] = part;
        piece.data = (const char *)piece.data + part.n;
        piece.offset += part.n;
        piece.n -= part.n;
    }
    return VC_OK;
}

/* Writes what is left, and lets the next ticket emit. */
static enum vc_status end_batch(struct batch *batch)
{
    VC_CALL(write_batch(batch->worker, batch->ticket, batch->pieces, batch->n));
    emitted(batch->worker);
    return VC_OK;
}

/* ---- the work ---- */

/* A kept tensor: one piece of its bytes goes to the sink as it is. */
static enum vc_status copy_piece(struct vc_worker *worker, const struct vc_ticket *ticket)
{
    struct vc_run_state *rs = worker->rs;
    struct vc_live *live = ticket->live;
    struct batch batch = {.worker = worker, .ticket = ticket};
    size_t n;
    uint64_t offset = vc_copy_range(&rs->exec->items[live->item], live->form, rs->ordered, ticket->tile, &n);

    VC_CALL(read_bytes(worker, ticket, offset, worker->buffers.in, n));
    atomic_fetch_add(&rs->done_bytes, n);
    if (rs->exec->sink != NULL) {
        VC_CALL(add_piece(
            &batch, (struct piece){
                        .out = rs->exec->first_out[live->item], .offset = offset, .data = worker->buffers.in, .n = n}));
        VC_CALL(end_batch(&batch));
    }
    return VC_OK;
}

/* Adds the figures of a tile to the running ones. The tile's chunks are summed before the lock is taken; sums are
 * exact, so the order of tiles does not matter. */
static void add_figures(struct vc_worker *worker, struct vc_running *to, const struct vc_tile *tile,
                        const struct vc_tile_stats *stats)
{
    size_t n = vc_tile_chunks(tile);

    vc_exact_clear(&worker->sum_x2);
    vc_exact_clear(&worker->sum_e2);
    for (size_t i = 0; i < n; i++) {
        vc_exact_add(&worker->sum_x2, stats->chunk_sums[2 * i]);
        vc_exact_add(&worker->sum_e2, stats->chunk_sums[2 * i + 1]);
    }
    (void)pthread_mutex_lock(&worker->rs->mutex);
    to->error.measured = true;
    vc_exact_merge(&to->x2, &worker->sum_x2);
    vc_exact_merge(&to->e2, &worker->sum_e2);
    to->error.zeros_before += stats->zeros_before;
    to->error.zeros_after += stats->zeros_after;
    to->error.clipped += stats->clipped;
    if (stats->max_abs_error > to->error.max_abs_error) {
        to->error.max_abs_error = stats->max_abs_error;
    }
    (void)pthread_mutex_unlock(&worker->rs->mutex);
}

/* Figures of steps from..to-1, which have just been applied to the tile. */
static void add_steps(struct vc_worker *worker, struct vc_live *live, size_t from, size_t to,
                      const struct vc_tile *tile, const struct vc_buffers *buffers)
{
    uint64_t nonfinite = 0;

    for (size_t k = from; k < to; k++) {
        nonfinite += buffers->figures[k].nonfinite;
        if (buffers->figures[k].measured) {
            add_figures(worker, &live->running[k], tile, &buffers->figures[k].stats);
        }
    }
    if (nonfinite != 0) {
        (void)pthread_mutex_lock(&worker->rs->mutex);
        live->nonfinite += nonfinite;
        (void)pthread_mutex_unlock(&worker->rs->mutex);
    }
}

/* The error of the chain for this tile. */
static enum vc_status compare_ends(struct vc_worker *worker, struct vc_live *live, const struct vc_tile *tile,
                                   const struct vc_tile_in *source, const void *data)
{
    struct vc_item *item = &worker->rs->exec->items[live->item];
    struct vc_compare *compare = item->chain->compare;
    struct vc_buffers *buffers = &worker->buffers;
    struct vc_tile_in result = {.data = data, .parts = buffers->in_views};
    struct vc_tile_stats stats = {0};

    for (size_t i = 0; i < item->desc->n_parts; i++) {
        buffers->in_views[i] = vc_steps_view(item, item->desc, i, source, buffers);
    }
    VC_CALL(compare->ops->tile(&worker->ctx, compare, tile, source, &result, &worker->before, &worker->after, &stats));
    add_figures(worker, &live->running[item->chain->n_steps], tile, &stats);
    return VC_OK;
}

/* Writes what the steps made of a tile: the values or codes, then the parts that are due with it. */
static enum vc_status write_tile(struct vc_worker *worker, const struct vc_ticket *ticket, const struct vc_tile *tile,
                                 const struct vc_tile_in *source, const void *data)
{
    const struct vc_exec *exec = worker->rs->exec;
    const struct vc_item *item = &exec->items[ticket->item];
    struct batch batch = {.worker = worker, .ticket = ticket};
    enum vc_dtype dtype = item->desc->dtype;
    size_t main_out = exec->first_out[ticket->item];

    VC_CALL(add_piece(&batch, (struct piece){main_out, vc_dtype_bytes(dtype, tile->first), data,
                                             (size_t)vc_dtype_bytes(dtype, tile->n_elems)}));
    for (size_t i = 0; i < item->desc->n_parts; i++) {
        const struct vc_part_desc *part = &item->desc->parts[i];
        struct vc_part_view view = vc_steps_view(item, item->desc, i, source, &worker->buffers);

        if (view.write && view.data != NULL && view.n != 0) {
            VC_CALL(add_piece(&batch, (struct piece){main_out + 1 + i, vc_dtype_bytes(part->dtype, view.first),
                                                     view.data, (size_t)vc_dtype_bytes(part->dtype, view.n)}));
        }
    }
    return end_batch(&batch);
}

/* Shows step k its input, from which it makes nothing yet: a calibrate while the job is planned, or a scan. */
static enum vc_status look_at_tile(struct vc_worker *worker, struct vc_item *item, size_t k, bool calibrate,
                                   const struct vc_tile *tile, const struct vc_tile_in *source, const void *data)
{
    struct vc_step *step = item->chain->steps[k];
    struct vc_buffers *buffers = &worker->buffers;
    struct vc_tile_in in = {.data = data, .parts = buffers->in_views};
    void *scratch = vc_steps_scratch(item, k, buffers);

    for (size_t i = 0; i < step->in.n_parts; i++) {
        buffers->in_views[i] = vc_steps_view(item, &step->in, i, source, buffers);
    }
    enum vc_status status = calibrate ? step->ops->calibrate(&worker->ctx, step, item, tile, &in, scratch)
                                      : step->ops->scan(&worker->ctx, step, item, tile, &in, scratch);
    return status == VC_OK ? VC_OK : vc_context(&worker->ctx, "%s", vc_ticket_tensor(item)->name);
}

/* For see_stage, which adds the figures of steps inside the stage. */
struct seeing {
    struct vc_worker *worker;
    struct vc_live *live;
};

static void see_stage(void *user, const struct vc_item *item, size_t from, size_t to, const struct vc_tile *tile,
                      const struct vc_buffers *buffers)
{
    const struct seeing *seeing = user;

    add_steps(seeing->worker, seeing->live, from, to, tile, buffers);
}

/* Makes the tile with the item's stage, in turn: the first tile of the phase opens the stage, the last one closes it.
 */
static enum vc_status read_head(struct vc_worker *worker, const struct vc_ticket *ticket, size_t k,
                                const struct vc_tile *tile)
{
    struct vc_live *live = ticket->live;
    struct vc_item *item = &worker->rs->exec->items[live->item];
    struct vc_buffers *buffers = &worker->buffers;
    struct seeing seeing = {worker, live};
    bool last = is_last(worker, ticket);

    VC_CALL(wait_for_turn(worker, ticket));
    if (ticket->tile == 0) {
        VC_CALL(vc_reshape_open(&worker->ctx, item, k, &live->stage));
    }
    live->stage.see = live->n_running != 0 && ticket->phase + 1 == live->n_phases ? see_stage : NULL;
    live->stage.user = &seeing;
    VC_CALL(vc_reshape_tile(&worker->ctx, &live->stage, tile, buffers->in));
    const struct vc_step *step = item->chain->steps[live->stage.n_steps - 1];
    memcpy(buffers->views + step->first_view, vc_reshape_views(&live->stage), step->n_made * sizeof *buffers->views);
    if (last) {
        VC_CALL(vc_reshape_finish(&worker->ctx, &live->stage));
        vc_reshape_close(&worker->ctx, &live->stage);
    }
    pass_turn(worker, ticket, last);
    return VC_OK;
}

/* The input of the phase: a tile of the source, or of what changed its shape. */
static enum vc_status read_tile(struct vc_worker *worker, const struct vc_ticket *ticket, size_t k, size_t n_head,
                                const struct vc_tile *tile)
{
    struct vc_run_state *rs = worker->rs;
    const struct vc_tensor *t = vc_ticket_tensor(&rs->exec->items[ticket->item]);
    size_t n_bytes = (size_t)vc_tensor_bytes(t, tile->n_elems);
    enum vc_status status =
        n_head != 0 ? read_head(worker, ticket, k, tile)
                    : read_bytes(worker, ticket, vc_tensor_bytes(t, tile->first), worker->buffers.in, n_bytes);

    if (status == VC_OK) {
        atomic_fetch_add(&rs->done_bytes, n_bytes);
    }
    return status;
}

/* Reads a tile and applies the steps of the phase; then the step that scans or calibrates sees it, or it is measured
 * and written. */
static enum vc_status work_on_tile(struct vc_worker *worker, struct vc_ticket *ticket)
{
    struct vc_run_state *rs = worker->rs;
    struct vc_item *item = &rs->exec->items[ticket->item];
    struct vc_live *live = ticket->live;
    bool last_phase = ticket->phase + 1 == live->n_phases;
    bool applies = last_phase && !rs->exec->calibrate;
    size_t k = steps_of_phase(rs, item, ticket->phase);
    size_t n_head = vc_reshape_steps(item, k);
    struct vc_tile_in source = {.data = worker->buffers.in};
    struct vc_tile_result result;
    struct vc_tile tile;
    uint64_t n_rows, row_len;

    vc_desc_grid(vc_item_desc(item, k), &n_rows, &row_len);
    vc_tile_get(n_rows, row_len, ticket->tile, &tile);
    VC_CALL(read_tile(worker, ticket, k, n_head, &tile));
    enum vc_status status = vc_steps_apply(&worker->ctx, item, n_head, k, &tile, &source, &worker->buffers, &result);
    if (status == VC_OK && !applies) {
        status = look_at_tile(worker, item, k, last_phase, &tile, &source, result.data);
    }
    if (status != VC_OK) {
        ticket->refused = status == VC_E_UNSUPPORTED;
        return status;
    }
    if (applies) {
        add_steps(worker, live, n_head, k, &tile, &worker->buffers);
        if (item->chain->compare != NULL) {
            VC_CALL(compare_ends(worker, live, &tile, &source, result.data));
        }
        if (rs->exec->sink != NULL) {
            VC_CALL(write_tile(worker, ticket, &tile, &source, result.data));
        }
    }
    return VC_OK;
}

static void close_error(struct vc_running *running)
{
    running->error.sum_x2 = vc_exact_value(&running->x2);
    running->error.sum_e2 = vc_exact_value(&running->e2);
}

/* The error of the chain: that of its one lossy step, or of both ends. */
static struct vc_error total_error(const struct vc_item *item, const struct vc_live *live)
{
    struct vc_error error = {0};

    if (item->chain->compare != NULL) {
        error = live->running[item->chain->n_steps].error;
        for (size_t k = 0; k < item->chain->n_steps;
             k++) { /* zeros at the end are those that the last lossy step counted */
            error.zeros_after = item->chain->steps[k]->lossy ? live->running[k].error.zeros_after : error.zeros_after;
            error.clipped += live->running[k].error.clipped;
        }
    } else if (item->chain->total_step < item->chain->n_steps) {
        error = live->running[item->chain->total_step].error;
    }
    return error;
}

/* The figures of a finished item go to the caller. No other worker has the item any more. */
static void give_results(struct vc_run_state *rs, struct vc_live *live)
{
    const struct vc_item *item = &rs->exec->items[live->item];
    struct vc_item_result *result = &rs->exec->results[live->item];

    for (size_t k = 0; k < live->n_running; k++) {
        close_error(&live->running[k]);
    }
    result->total = total_error(item, live);
    result->nonfinite = live->nonfinite;
    for (size_t k = 0; result->steps != NULL && k < item->chain->n_steps; k++) {
        result->steps[k] = live->running[k].error;
    }
}

/* This worker counted the last tile of the phase: it alone ends the phase. The function of the pass runs without the
 * mutex; the others cannot start the next phase before ready_phases says so. */
static enum vc_status phase_completed(struct vc_worker *worker, struct vc_live *live, size_t phase)
{
    struct vc_run_state *rs = worker->rs;
    struct vc_item *item = &rs->exec->items[live->item];
    bool last = phase + 1 == live->n_phases; /* read now: once the next phase may run, others may free `live` */
    enum vc_status status = VC_OK;

    if (!last) {
        struct vc_step *step = item->chain->steps[steps_of_phase(rs, item, phase)];

        status = step->ops->scan_end(&worker->ctx, step, item);
        if (status != VC_OK) {
            return vc_context(&worker->ctx, "%s", vc_ticket_tensor(item)->name);
        }
    } else if (live->n_running != 0 && rs->exec->results != NULL) {
        give_results(rs, live);
    }
    (void)pthread_mutex_lock(&rs->mutex);
    if (!last) {
        live->done = 0;
        live->ready_phases++;
    } else {
        rs->live[live->item] = NULL;
    }
    (void)pthread_cond_broadcast(&rs->changed);
    (void)pthread_mutex_unlock(&rs->mutex);
    if (last) {
        vc_live_free(&worker->ctx, rs, live);
    }
    return VC_OK;
}

/* Counts a tile. Unless it was the last one of the item's phase, `live` must not be touched afterwards. */
static enum vc_status tile_completed(struct vc_worker *worker, struct vc_live *live, size_t phase)
{
    struct vc_run_state *rs = worker->rs;
    uint64_t n_tiles = vc_ticket_tiles(rs, &rs->exec->items[live->item], phase);

    (void)pthread_mutex_lock(&rs->mutex);
    bool completed = ++live->done == n_tiles;
    (void)pthread_mutex_unlock(&rs->mutex);
    return completed ? phase_completed(worker, live, phase) : VC_OK;
}

static enum vc_status run_tile(struct vc_worker *worker, struct vc_ticket *ticket)
{
    VC_CALL(vc_check_cancelled(&worker->ctx));
    if (ticket->live->copy) {
        VC_CALL(copy_piece(worker, ticket));
    } else {
        VC_CALL(work_on_tile(worker, ticket));
    }
    return tile_completed(worker, ticket->live, ticket->phase);
}

/* All phases and tiles of a compressed tensor, one after the other; the stream is read again for each phase. The last
 * tile of a phase is counted after the end of the stream was verified: the last one of all frees `live`. */
static enum vc_status run_whole(struct vc_worker *worker, struct vc_ticket *ticket)
{
    struct vc_live *live = ticket->live;
    const struct vc_item *item = &worker->rs->exec->items[live->item];
    const struct vc_model *model = item->set->model;
    struct vc_ctx *ctx = &worker->ctx;
    size_t n_phases = live->n_phases;

    for (ticket->phase = 0; ticket->phase < n_phases; ticket->phase++) {
        uint64_t n_tiles = vc_ticket_tiles(worker->rs, item, ticket->phase);

        VC_CALL(model->ops->stream_open(ctx, model, item->source, live->form, &live->stream));
        for (ticket->tile = 0; ticket->tile < n_tiles; ticket->tile++) {
            if (ticket->tile + 1 < n_tiles) {
                VC_CALL(run_tile(worker, ticket));
            } else { /* the end of the stream is checked before the tensor counts as done */
                VC_CALL(vc_check_cancelled(ctx));
                if (live->copy) {
                    VC_CALL(copy_piece(worker, ticket));
                } else {
                    VC_CALL(work_on_tile(worker, ticket));
                }
            }
        }
        {
            struct vc_source_stream *stream = live->stream;

            live->stream = NULL;
            VC_CALL(model->ops->stream_close(ctx, stream, true));
        }
        VC_CALL(tile_completed(worker, live, ticket->phase));
    }
    return VC_OK;
}

enum vc_status vc_ticket_run(struct vc_worker *worker, struct vc_ticket *ticket)
{
    worker->ctx.on_cpu = worker->rs->exec->items[ticket->item].on_cpu;
    if (ticket->first) {
        VC_CALL(begin_item(worker, ticket));
    }
    if (ticket->whole) {
        return run_whole(worker, ticket);
    }
    VC_CALL(wait_for_phase(worker, ticket));
    return run_tile(worker, ticket);
}
