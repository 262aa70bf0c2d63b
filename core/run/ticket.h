/* ticket.h - inside of the executor, shared by executor.c (hands out tickets, ends the run) and ticket.c (does their
 * work): what one run shares, what an item in work holds, what a worker has.
 *
 * A ticket is one tile of one phase of one item. An item has a phase for each step that scans, in which that step sees
 * all tiles of its input, and a last phase in which all steps are applied (or, while a job is planned, a step
 * calibrates). A kept item has one phase of pieces of bytes. A compressed tensor is a single ticket: its worker does
 * everything alone.
 *
 * Who may touch a struct vc_live: the holder of a ticket of its item, from next_ticket until tile_completed has counted
 * the tile. The worker that counts the last tile of a phase ends the phase alone, and after the last phase frees the
 * record; nobody else may look at it then. Functions of passes are called without the mutex, always. */
#pragma once

#include "core/chain/compare.h"
#include "core/chain/reshape_stage.h"
#include "core/run/executor.h"

/* The tensor of the source that an item is made from. */
static inline const struct vc_tensor *vc_ticket_tensor(const struct vc_item *item)
{
    return &item->set->model->tensors[item->source];
}

/* Running sums of one step, or of the whole chain. */
struct vc_running {
    struct vc_exact_sum x2, e2;
    struct vc_error error;
};

/* An item between its first ticket and its last tile. Fields that change are under the run's mutex, but for stream and
 * stage: the worker whose turn it is (next_read) has these for itself. */
struct vc_live {
    size_t item;
    size_t target;     /* number of steps that the last phase applies: all, or those before the step that calibrates */
    bool copy;         /* no steps: its bytes are copied in pieces */
    bool whole;        /* compressed in the source: one worker does all of it, alone */
    enum vc_form form; /* of the bytes copied */
    size_t n_phases;   /* one per step that scans, then the last one */
    size_t ready_phases; /* phases below this number may run; 0 until the steps have begun */
    uint64_t done;       /* tiles completed in the current phase */
    uint64_t next_read;  /* the tile that is to be read next from the stream or the stage */
    struct vc_source_stream *stream;
    struct vc_reshape_stage stage; /* of a chain that changes the shape; opened by the first tile of each phase */
    struct vc_check check;         /* of a tensor that is read by range */
    size_t n_running;
    struct vc_running *running; /* per step, then the whole chain */
    uint64_t nonfinite;
};

struct vc_ticket {
    size_t item;
    struct vc_live *live;
    bool first; /* of its item: begins the steps */
    bool whole; /* live->whole */
    size_t phase;
    uint64_t tile;
    uint64_t sequence;      /* order of hand-out: the earliest failure is the one reported */
    uint64_t emit_sequence; /* turn at an ordered sink */
    bool refused;           /* the failure came from a step that looked at values */
    enum vc_status status;  /* not VC_OK: there was no memory for the record, `live` is NULL */
};

#define VC_PACKETS 3 /* pieces that are packed before the first of them is emitted */

struct vc_run_state {
    struct vc_ctx *ctx;
    struct vc_exec *exec;
    bool ordered;
    size_t *order;
    struct vc_buffer_sizes sizes, before, after; /* of the steps; of decoding both ends of a chain */
    size_t piece_bytes;                          /* the largest piece that a packet has room for */
    /* Of one packet (0: the sink needs none); most that reading an item takes, and that its steps allocate. */
    size_t packet_bytes, stream_bytes, state_bytes;

    pthread_mutex_t mutex; /* of everything below */
    pthread_cond_t changed;
    struct vc_live **live; /* per item */
    size_t cursor;         /* the next ticket: place in `order`, ... */
    size_t phase;          /* ... phase of that item ... */
    uint64_t tile;         /* ... and tile of that phase */
    uint64_t next_sequence, next_emit_ticket, next_emit;
    bool stop;                 /* a ticket failed: no more are handed out */
    uint64_t failed_sequence;  /* of the tickets that failed, the earliest; UINT64_MAX: none */
    uint64_t gave_up_sequence; /* of the tickets that ended without emitting since one failed, the earliest */
    enum vc_status failure;
    char message[VC_MESSAGE_BYTES];

    uint64_t total_bytes;
    atomic_uint_fast64_t done_bytes;
    double last_progress; /* seconds; worker 0 only */
};

/* What one thread has for itself. */
struct vc_worker {
    struct vc_run_state *rs;
    struct vc_ctx ctx;
    struct vc_buffers buffers, before, after;
    char *packets; /* VC_PACKETS of rs->packet_bytes */
    struct vc_exact_sum sum_x2, sum_e2;
};

/* Allocates the buffers of a worker whose rs and ctx are set; frees them. */
enum vc_status vc_worker_init(struct vc_worker *worker);
void vc_worker_release(struct vc_worker *worker);

/* The number of phases of the item, and of tiles (or pieces of bytes) in one of them. */
size_t vc_ticket_phases(const struct vc_run_state *rs, const struct vc_item *item);
uint64_t vc_ticket_tiles(const struct vc_run_state *rs, const struct vc_item *item, size_t phase);

/* copies.c, of kept items; ordered: for an ordered sink. The largest piece that there may be; how many there are; and
 * where one begins, with its length. */
size_t vc_copy_most(const struct vc_item *item, bool ordered);
uint64_t vc_copy_count(const struct vc_item *item, enum vc_form form, bool ordered);
uint64_t vc_copy_range(const struct vc_item *item, enum vc_form form, bool ordered, uint64_t piece, size_t *n);

/* Makes the record of an item and puts it into rs->live; the caller has the mutex. The steps begin later, with the
 * item's first ticket, without it. */
enum vc_status vc_live_create(struct vc_ctx *ctx, struct vc_run_state *rs, size_t index, struct vc_live **out);
/* Ends the item's steps and frees the record, which is no longer in rs->live. Not under the mutex. */
void vc_live_free(struct vc_ctx *ctx, struct vc_run_state *rs, struct vc_live *live);

/* Does the ticket's work, in which it may wait for earlier tickets. VC_E_CANCELLED where one of these failed. The
 * ticket's record must not be used afterwards. */
enum vc_status vc_ticket_run(struct vc_worker *worker, struct vc_ticket *ticket);
