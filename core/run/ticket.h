/* ticket.h - the executor's inside: what one run shares, what one item in work holds, what a worker has. */
#ifndef VC_CORE_TICKET_H
#define VC_CORE_TICKET_H

#include <pthread.h>

#include "core/chain/compare.h"
#include "core/chain/head.h"
#include "core/run/executor.h"

/* Running sums of one step, or of the whole chain. */
struct vc_running {
    struct vc_exact_sum x2, e2;
    struct vc_error error;
};

/* An item between its first ticket and its last tile. */
struct vc_live {
    size_t item;
    size_t target;     /* the steps that are applied in the last phase: all, or those before the step that looks */
    bool copy;         /* kept: moved as pieces of bytes */
    bool whole;        /* one worker does all of it (compressed in the source) */
    enum vc_form form; /* of the bytes copied */
    uint64_t copy_bytes;
    size_t n_phases;     /* one per step that scans, then the last one */
    size_t ready_phases; /* phases that may run: those completed, and the next one once the item is ready */
    uint64_t done;       /* tiles completed in the current phase */
    uint64_t next_read;  /* tile whose turn it is at the stream or the head */
    struct vc_source_stream *stream;
    struct vc_head head; /* of a chain that changes the shape; opened with each phase */
    struct vc_check check;
    size_t n_running;
    struct vc_running *running; /* per step, then the whole chain */
    uint64_t nonfinite;
};

struct vc_ticket {
    size_t item;
    struct vc_live *live;
    bool first; /* of its item: begins the steps */
    bool whole;
    size_t phase;
    uint64_t tile;
    uint64_t sequence;      /* order of hand-out: the earliest failure is the one reported */
    uint64_t emit_sequence; /* turn at an ordered sink */
    bool refused;           /* the failure came from a step that looked at values */
    enum vc_status status;  /* preparing the item failed */
};

#define VC_PACKETS 3 /* pieces that are packed before the first of them is emitted */

struct vc_run_state {
    struct vc_ctx *ctx;
    struct vc_exec *exec;
    bool ordered;
    size_t *order;
    struct vc_room room, before, after; /* of the steps; of comparing both ends of a chain */
    size_t piece_bytes;                 /* the largest piece that a packet has room for */
    size_t packet_bytes, stream_bytes, state_bytes;

    pthread_mutex_t mutex; /* of everything below */
    pthread_cond_t changed;
    struct vc_live **live; /* per item */
    size_t cursor;         /* into order */
    size_t phase;
    uint64_t tile;
    uint64_t next_sequence, next_emit_ticket, next_emit;
    bool stop;
    uint64_t failed_sequence;
    uint64_t gave_up_sequence; /* of the tickets that ended without emitting since one failed, the earliest */
    enum vc_status failure;
    char message[VC_MESSAGE_BYTES];

    uint64_t total_bytes;
    atomic_uint_fast64_t done_bytes;
    int64_t last_progress_ms; /* worker 0 only */
};

struct vc_worker {
    struct vc_run_state *rs;
    struct vc_ctx ctx;
    struct vc_buffers buffers, before, after;
    char *packets; /* VC_PACKETS of rs->packet_bytes */
    struct vc_exact_sum sum_x2, sum_e2;
};

enum vc_status vc_worker_init(struct vc_worker *worker);
void vc_worker_release(struct vc_worker *worker);

/* Steps that are applied in the last phase of this run. */
size_t vc_ticket_target(const struct vc_run_state *rs, const struct vc_item *item);
/* Phases of the item, and the tiles (or pieces) of one of them. */
size_t vc_ticket_phases(const struct vc_run_state *rs, const struct vc_item *item);
uint64_t vc_ticket_tiles(const struct vc_run_state *rs, const struct vc_item *item, size_t phase);

/* Under the mutex: a record for the item; its steps begin with the first ticket, outside. */
enum vc_status vc_live_create(struct vc_ctx *ctx, struct vc_run_state *rs, size_t index, struct vc_live **out);
/* Ends the item's steps; not under the mutex. */
void vc_live_free(struct vc_ctx *ctx, struct vc_run_state *rs, struct vc_live *live);

/* Does the ticket's work. */
enum vc_status vc_ticket_run(struct vc_worker *worker, struct vc_ticket *ticket);

#endif
