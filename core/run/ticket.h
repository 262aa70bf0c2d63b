/* ticket.h - the executor's inside: what one run shares, what one item in work holds, what a worker has. */
#ifndef VC_CORE_TICKET_H
#define VC_CORE_TICKET_H

#include <pthread.h>

#include "core/run/executor.h"
#include "core/run/fetch.h"

/* An item between its first ticket and its last tile. */
struct vc_live {
    size_t item;
    bool copy;         /* kept: moved as pieces of bytes */
    bool whole;        /* one worker does all of it (compressed in the source) */
    enum vc_form form; /* of the bytes copied */
    uint64_t n_rows, row_len;
    uint64_t copy_bytes;
    uint64_t n_tiles;    /* tiles, or pieces */
    size_t n_phases;     /* one per stage that scans, then the last one */
    size_t ready_phases; /* phases that may run: 1 + those completed */
    uint64_t done;       /* tiles completed in the current phase */
    uint64_t next_read;  /* tile whose turn it is at the stream */
    struct vc_source_stream *stream;
    struct vc_check check;
    struct vc_exact_sum sum_x2, sum_e2;
    struct vc_item_result result;
};

struct vc_ticket {
    size_t item;
    struct vc_live *live;
    bool whole;
    size_t phase;
    uint64_t tile;
    uint64_t sequence;      /* order of hand-out: the earliest failure is the one reported */
    uint64_t emit_sequence; /* turn at an ordered sink */
    bool refused;           /* the failure came from a stage that looked at values */
    enum vc_status status;  /* preparing the item failed */
};

struct vc_run_state {
    struct vc_ctx *ctx;
    struct vc_exec *exec;
    bool ordered;
    size_t *order;
    struct vc_room room;
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
    struct vc_buffers buffers;
    char *packets; /* 1 + VC_MAX_COMPANIONS of rs->packet_bytes */
    struct vc_exact_sum sum_x2, sum_e2;
};

enum vc_status vc_worker_init(struct vc_worker *worker);
void vc_worker_release(struct vc_worker *worker);

uint64_t vc_ticket_tiles(const struct vc_run_state *rs, const struct vc_item *item);
size_t vc_ticket_phases(const struct vc_run_state *rs, const struct vc_item *item);

/* Under the mutex. */
enum vc_status vc_live_create(struct vc_ctx *ctx, struct vc_run_state *rs, size_t item, struct vc_live **out);
void vc_live_free(struct vc_ctx *ctx, struct vc_run_state *rs, struct vc_live *live);

enum vc_status vc_ticket_run(struct vc_worker *worker, struct vc_ticket *ticket);

#endif
