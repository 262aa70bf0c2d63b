/* executor.c - see executor.h. Plans order and memory of a run, hands out tickets, keeps the failure that counts. What
 * is done with a tile is in ticket.c. */
#include "core/run/executor.h"

#include "core/base/array.h"
#include "core/base/clock.h"
#include "core/base/thread_pool.h"
#include "core/run/ticket.h"

static bool is_sequential(const struct vc_item *item)
{
    return item->set->model->io[item->source].sequential;
}

/* ---- the plan: order, memory ---- */

struct order_entry {
    size_t item;
    uint64_t size_bytes;
};

static int larger_first(const void *a, const void *b)
{
    const struct order_entry *x = a;
    const struct order_entry *y = b;

    return VC_FIRST_ORDER(VC_ORDER(y->size_bytes, x->size_bytes), VC_ORDER(x->item, y->item));
}

/* An ordered sink dictates the order. Otherwise compressed tensors, which one worker reads alone, go first and the
 * largest of them before all others, so that no long one is left for the end. */
static enum vc_status make_order(struct vc_ctx *ctx, struct vc_run_state *rs)
{
    const struct vc_exec *exec = rs->exec;
    VC_SCOPED struct order_entry *entries = NULL;
    size_t n = 0;

    VC_CALL(VC_ARRAY(ctx, VC_TAG_MISC, rs->order, exec->n_items));
    VC_CALL(VC_ARRAY(ctx, VC_TAG_MISC, entries, exec->n_items));
    for (size_t i = 0; i < exec->n_items; i++) {
        if (!rs->ordered && is_sequential(&exec->items[i])) {
            entries[n++] =
                (struct order_entry){i, exec->items[i].set->model->tensors[exec->items[i].source].size_bytes};
        }
    }
    if (n != 0) {
        qsort(entries, n, sizeof *entries, larger_first);
    }
    for (size_t i = 0; i < n; i++) {
        rs->order[i] = entries[i].item;
    }
    for (size_t i = 0; i < exec->n_items; i++) {
        if (rs->ordered || !is_sequential(&exec->items[i])) {
            rs->order[n++] = i;
        }
    }
    return VC_OK;
}

/* What the steps of an item allocate while it is in work. */
static size_t item_state(struct vc_run_state *rs, struct vc_item *item)
{
    size_t state = vc_reshape_bytes(item);

    for (size_t k = 0; k < item->chain->n_steps; k++) {
        state += item->chain->steps[k]->state_bytes;
    }
    if (item->chain->compare != NULL && !rs->exec->calibrate) {
        state += item->chain->compare->ops->sizes(item->chain->compare, &rs->before, &rs->after);
    }
    return state;
}

/* Fills the sizes of rs, and returns what the buffers of one worker take, packets included. */
static size_t worker_room(struct vc_run_state *rs)
{
    struct vc_exec *exec = rs->exec;
    bool writes = exec->sink != NULL && !exec->calibrate;

    for (size_t i = 0; i < exec->n_items; i++) {
        struct vc_item *item = &exec->items[i];

        if (exec->calibrate ? !vc_item_calibrates(item) : vc_item_is_idle(item)) {
            continue;
        }
        vc_buffer_sizes_add(&rs->sizes, item);
        if (writes && item->chain->n_steps == 0) {
            rs->sizes.in = vc_max_size(rs->sizes.in, vc_copy_most(item, exec->sink->ordered));
        }
        rs->state_bytes = vc_max_size(rs->state_bytes, item_state(rs, item));
        if (item->set->model->ops->stream_bytes != NULL) {
            rs->stream_bytes =
                vc_max_size(rs->stream_bytes, item->set->model->ops->stream_bytes(item->set->model, item->source));
        }
    }
    rs->piece_bytes = vc_max_size(rs->sizes.in, rs->sizes.out);
    rs->packet_bytes = writes ? vc_sink_pack_bound(exec->sink, rs->piece_bytes) : 0;
    return vc_pool_block_bytes(vc_buffer_sizes_total(&rs->sizes)) +
           vc_pool_block_bytes(vc_buffer_sizes_total(&rs->before)) +
           vc_pool_block_bytes(vc_buffer_sizes_total(&rs->after)) + vc_pool_block_bytes(VC_PACKETS * rs->packet_bytes);
}

/* Tables of a run: the place of each item in the order, its record, and what sorting the compressed ones takes. */
static uint64_t table_bytes(const struct vc_exec *exec)
{
    return vc_pool_block_bytes(exec->n_items * sizeof(struct vc_live *)) +
           vc_pool_block_bytes(exec->n_items * sizeof(size_t)) +
           vc_pool_block_bytes(exec->n_items * sizeof(struct order_entry));
}

enum vc_status vc_exec_workers(struct vc_ctx *ctx, struct vc_exec *exec, unsigned *n_workers)
{
    struct vc_run_state rs = {.exec = exec};
    uint64_t each = worker_room(&rs);
    uint64_t limit = vc_ctx_max_memory(ctx);
    uint64_t fixed = vc_pool_in_use(ctx->shared->pool) + table_bytes(exec) +
                     (exec->sink != NULL ? vc_pool_block_bytes(exec->sink->memory_bytes) : 0);

    /* A block for what is not counted one by one (a worker's item has a record), and one for each of the three blocks
     * of a stream, which are rounded up. */
    each += rs.stream_bytes + rs.state_bytes + VC_POOL_REUSE_MIN + (rs.stream_bytes != 0 ? 3 * VC_POOL_REUSE_MIN : 0);
    fixed += rs.state_bytes; /* one item more than workers may be in work: the next begins while one ends */
    VC_REFUSE_IF(fixed + each > limit, ctx, VC_E_NOMEM, "this needs at least %llu bytes of memory, %s allows %llu",
                 (unsigned long long)(fixed + each), vc_option(ctx, "max_memory"), (unsigned long long)limit);
    uint64_t fit = (limit - fixed) / each;
    *n_workers = (unsigned)vc_min_u64(fit, vc_ctx_threads(ctx));
    return VC_OK;
}

/* ---- tickets ---- */

/* True when there is nothing to do for the item at the cursor: it is skipped. */
static bool nothing_to_do(const struct vc_run_state *rs, const struct vc_item *item)
{
    if (rs->exec->calibrate ? !vc_item_calibrates(item) : vc_item_is_idle(item)) {
        return true;
    }
    return vc_ticket_tiles(rs, item, vc_ticket_phases(rs, item) - 1) == 0 ||
           (rs->exec->sink == NULL && item->chain->n_steps == 0);
}

/* Fills in the next ticket; the caller has the mutex. Makes the record of an item at its first ticket; where there is
 * no memory for it, the ticket carries the failure in its status. False: no more work. */
static bool next_ticket(struct vc_run_state *rs, struct vc_ctx *ctx, struct vc_ticket *ticket)
{
    while (!rs->stop && rs->cursor < rs->exec->n_items) {
        size_t index = rs->order[rs->cursor];
        struct vc_item *item = &rs->exec->items[index];
        struct vc_live *live = rs->live[index];

        if (nothing_to_do(rs, item)) {
            rs->cursor++;
            continue;
        }
        *ticket = (struct vc_ticket){.item = index, .sequence = rs->next_sequence++};
        if (live == NULL) {
            ticket->status = vc_live_create(ctx, rs, index, &live);
            if (ticket->status != VC_OK) {
                return true;
            }
            ticket->first = true;
        }
        ticket->live = live;
        ticket->whole = live->whole;
        ticket->phase = rs->phase;
        ticket->tile = rs->tile;
        ticket->emit_sequence = rs->next_emit_ticket;
        if (!live->whole && rs->phase == live->n_phases - 1) {
            rs->next_emit_ticket++;
        }
        if (live->whole || ++rs->tile == vc_ticket_tiles(rs, item, rs->phase)) {
            rs->tile = 0;
            if (live->whole || ++rs->phase == live->n_phases) {
                rs->phase = 0;
                rs->cursor++;
            }
        }
        return true;
    }
    return false;
}

/* A ticket ended with a failure; the caller has the mutex. Keeps the failure of the earliest ticket, and stops the run.
 * VC_E_CANCELLED of a run that stops already is a ticket that gave up, and no failure of its own. */
static void record_failure(struct vc_run_state *rs, struct vc_ctx *ctx, const struct vc_ticket *ticket,
                           enum vc_status status)
{
    bool bailed_out = rs->stop && status == VC_E_CANCELLED;

    rs->gave_up_sequence = vc_min_u64(rs->gave_up_sequence, ticket->sequence);
    if (bailed_out && vc_check_cancelled(ctx) != VC_OK) { /* where it stopped is chance: later ones wait for nothing */
        rs->failed_sequence = vc_min_u64(rs->failed_sequence, ticket->sequence);
    }
    if (!bailed_out && (!rs->stop || ticket->sequence < rs->failed_sequence)) {
        rs->failed_sequence = ticket->sequence;
        rs->failure = status;
        rs->exec->failed_item = ticket->refused ? ticket->item : VC_NO_TENSOR;
        memcpy(rs->message, ctx->message, sizeof rs->message);
    }
    rs->stop = true;
    if (rs->exec->sink != NULL && !rs->exec->calibrate) {
        vc_sink_interrupt(rs->exec->sink);
    }
}

/* At most ten times a second, by worker 0. */
static void report_progress(struct vc_run_state *rs, struct vc_ctx *ctx, size_t item)
{
    struct vc_progress progress = {.what = rs->exec->what, .total = rs->total_bytes};

    if (ctx->shared->progress == NULL) {
        return;
    }
    double now = vc_seconds();
    if (now - rs->last_progress < 0.1) {
        return;
    }
    rs->last_progress = now;
    progress.done = vc_min_u64(atomic_load(&rs->done_bytes), progress.total);
    progress.tensor = rs->exec->items[item].set->model->tensors[rs->exec->items[item].source].name;
    ctx->shared->progress(ctx->shared->progress_user, &progress);
}

/* The last word of every run that ends well, however short: all is done. */
static void report_end(const struct vc_run_state *rs, struct vc_ctx *ctx)
{
    struct vc_progress progress = {
        .what = rs->exec->what, .tensor = "", .done = rs->total_bytes, .total = rs->total_bytes};

    if (ctx->shared->progress != NULL && rs->total_bytes != 0) {
        ctx->shared->progress(ctx->shared->progress_user, &progress);
    }
}

/* One worker: takes tickets until there are none. */
static void worker_main(void *user, unsigned number)
{
    struct vc_run_state *rs = user;
    struct vc_worker worker = {.rs = rs};
    struct vc_ticket ticket = {.item = VC_NO_TENSOR};

    vc_ctx_fork(rs->ctx, &worker.ctx);
    enum vc_status status = vc_worker_init(&worker);
    if (status != VC_OK) {
        /* With fewer buffers than planned the others do the work, unless nobody has any. */
        (void)pthread_mutex_lock(&rs->mutex);
        if (number == 0) {
            ticket.sequence = 0;
            record_failure(rs, &worker.ctx, &ticket, status);
            (void)pthread_cond_broadcast(&rs->changed);
        }
        (void)pthread_mutex_unlock(&rs->mutex);
        return;
    }
    for (;;) {
        (void)pthread_mutex_lock(&rs->mutex);
        bool more = next_ticket(rs, &worker.ctx, &ticket);
        (void)pthread_mutex_unlock(&rs->mutex);
        if (!more) {
            break;
        }
        status = ticket.status != VC_OK ? ticket.status : vc_ticket_run(&worker, &ticket);
        if (status != VC_OK) {
            (void)pthread_mutex_lock(&rs->mutex);
            record_failure(rs, &worker.ctx, &ticket, status);
            (void)pthread_cond_broadcast(&rs->changed);
            (void)pthread_mutex_unlock(&rs->mutex);
        } else if (number == 0) {
            report_progress(rs, &worker.ctx, ticket.item);
        }
    }
    vc_worker_release(&worker);
}

/* ---- the run ---- */

static uint64_t total_bytes(const struct vc_run_state *rs)
{
    uint64_t total = 0;

    for (size_t i = 0; i < rs->exec->n_items; i++) {
        const struct vc_item *item = &rs->exec->items[i];

        if (!nothing_to_do(rs, item)) {
            total += item->set->model->tensors[item->source].size_bytes * vc_ticket_phases(rs, item);
        }
    }
    return total;
}

static enum vc_status run_state_init(struct vc_ctx *ctx, struct vc_exec *exec, struct vc_run_state *rs)
{
    VC_CALL_ALLOC(rs->live = vc_calloc_array(ctx, VC_TAG_MISC, exec->n_items, sizeof(struct vc_live *)));
    VC_CALL(make_order(ctx, rs));
    (void)worker_room(rs);
    rs->total_bytes = total_bytes(rs);
    atomic_init(&rs->done_bytes, 0);
    rs->last_progress = vc_seconds();
    return VC_OK;
}

static void run_state_release(struct vc_ctx *ctx, struct vc_run_state *rs)
{
    for (size_t i = 0; rs->live != NULL && i < rs->exec->n_items; i++) {
        if (rs->live[i] != NULL) {
            vc_live_free(ctx, rs, rs->live[i]);
        }
    }
    VC_FREE_ALL(ctx, rs->live, rs->order);
    (void)pthread_cond_destroy(&rs->changed);
    (void)pthread_mutex_destroy(&rs->mutex);
}

enum vc_status vc_exec_run(struct vc_ctx *ctx, struct vc_exec *exec)
{
    struct vc_run_state rs = {.ctx = ctx, .exec = exec, .failed_sequence = UINT64_MAX, .gave_up_sequence = UINT64_MAX};
    enum vc_status status = VC_OK;
    unsigned n_workers = 1;

    exec->failed_item = VC_NO_TENSOR;
    VC_REFUSE_IF(pthread_mutex_init(&rs.mutex, NULL) != 0, ctx, VC_E_NOMEM, "cannot create a mutex");
    if (pthread_cond_init(&rs.changed, NULL) != 0) {
        (void)pthread_mutex_destroy(&rs.mutex);
        return vc_fail(ctx, VC_E_NOMEM, "cannot create a condition variable");
    }
    rs.ordered = exec->sink != NULL && exec->sink->ordered && !exec->calibrate;
    VC_TRY(vc_exec_workers(ctx, exec, &n_workers));
    VC_TRY(run_state_init(ctx, exec, &rs));
    exec->threads_used = vc_thread_pool_once(n_workers, worker_main, &rs);
    if (rs.stop) {
        memcpy(ctx->message, rs.message, sizeof ctx->message);
        ctx->status = rs.failure;
        status = rs.failure;
    } else {
        report_end(&rs, ctx);
    }
out:
    run_state_release(ctx, &rs);
    return status;
}

/* ---- one call per tensor ---- */

struct each {
    struct vc_ctx *ctx;
    size_t n;
    const size_t *order;
    const struct vc_buffer_sizes *sizes;
    unsigned n_buffers;
    vc_each_fn *fn;
    void *user;
    pthread_mutex_t mutex;
    size_t next;
    size_t failed; /* position of the failure that counts; SIZE_MAX: none */
    enum vc_status failure;
    char message[VC_MESSAGE_BYTES];
};

static bool each_next(struct each *each, size_t *position)
{
    (void)pthread_mutex_lock(&each->mutex);
    bool more = each->failed == SIZE_MAX && each->next < each->n;
    *position = more ? each->next++ : 0;
    (void)pthread_mutex_unlock(&each->mutex);
    return more;
}

static void each_failed(struct each *each, const struct vc_ctx *ctx, size_t position, enum vc_status status)
{
    (void)pthread_mutex_lock(&each->mutex);
    if (position < each->failed) {
        each->failed = position;
        each->failure = status;
        memcpy(each->message, ctx->message, sizeof each->message);
    }
    (void)pthread_mutex_unlock(&each->mutex);
}

static void each_main(void *user, unsigned number)
{
    struct each *each = user;
    struct vc_ctx ctx;
    struct vc_buffers buffers[2] = {{0}, {0}};
    size_t position;

    vc_ctx_fork(each->ctx, &ctx);
    enum vc_status status = vc_buffers_alloc(&ctx, each->sizes, &buffers[0]);
    if (status == VC_OK && each->n_buffers > 1) {
        status = vc_buffers_alloc(&ctx, each->sizes, &buffers[1]);
    }
    if (status != VC_OK && number == 0) { /* the other workers may do without, but somebody has to do the work */
        each_failed(each, &ctx, 0, status);
    }
    while (status == VC_OK && each_next(each, &position)) {
        enum vc_status failure =
            each->fn(&ctx, each->user, each->order != NULL ? each->order[position] : position, buffers);

        if (failure != VC_OK) {
            each_failed(each, &ctx, position, failure);
        }
    }
    for (unsigned i = 0; i < 2; i++) {
        vc_buffers_release(&ctx, &buffers[i]);
    }
}

enum vc_status vc_exec_each(struct vc_ctx *ctx, size_t n, const size_t *order, const struct vc_buffer_sizes *sizes,
                            unsigned n_buffers, vc_each_fn *fn, void *user)
{
    struct each each = {.ctx = ctx,
                        .n = n,
                        .order = order,
                        .sizes = sizes,
                        .n_buffers = n_buffers,
                        .fn = fn,
                        .user = user,
                        .failed = SIZE_MAX};
    uint64_t one = n_buffers * (uint64_t)vc_pool_block_bytes(vc_buffer_sizes_total(sizes)) + ((uint64_t)1 << 20);
    uint64_t limit = vc_ctx_max_memory(ctx);
    uint64_t used = vc_pool_in_use(ctx->shared->pool);
    uint64_t fit = (limit - vc_min_u64(used, limit)) / one;

    VC_REFUSE_IF(fit == 0, ctx, VC_E_NOMEM, "this needs at least %llu bytes of memory, %s allows %llu",
                 (unsigned long long)(used + one), vc_option(ctx, "max_memory"), (unsigned long long)limit);
    VC_REFUSE_IF(pthread_mutex_init(&each.mutex, NULL) != 0, ctx, VC_E_NOMEM, "cannot create a mutex");
    (void)vc_thread_pool_once((unsigned)vc_min_u64(vc_min_u64(fit, vc_ctx_threads(ctx)), n == 0 ? 1 : n), each_main,
                              &each);
    (void)pthread_mutex_destroy(&each.mutex);
    if (each.failed != SIZE_MAX) {
        memcpy(ctx->message, each.message, sizeof ctx->message);
        ctx->status = each.failure;
        return each.failure;
    }
    return VC_OK;
}
