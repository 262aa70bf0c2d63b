/* thread_ranks.h - ranks that are threads of the test: a transport whose exchanges are copies. Included once by a test.
 */
#pragma once

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "distill/ranks/collectives.h"

#define MAX_RANKS 5

/* What the ranks of one run share. An exchange has two halves: all show their pieces, then all have copied. */
struct exchange_place {
    pthread_mutex_t mutex;
    pthread_cond_t moved;
    unsigned size, here, gone; /* waiting; threads that are lost */
    unsigned long turn;
    const struct vc_piece *out[MAX_RANKS];
    unsigned long exchanges[MAX_RANKS];
};

struct thread_rank {
    struct exchange_place *place;
    unsigned rank;
    unsigned long dies_at; /* the number of the exchange before which it goes without a word; 0: never */
};

/* Waits until all are here; returns false if a thread is gone or the wait is given up. */
static bool pass_barrier(struct exchange_place *p, vc_transport_stop_fn *stop, void *user)
{
    unsigned long turn;
    bool passed;

    (void)pthread_mutex_lock(&p->mutex);
    turn = p->turn;
    if (++p->here == p->size) {
        p->here = 0;
        p->turn++;
        (void)pthread_cond_broadcast(&p->moved);
    }
    while (p->turn == turn && p->gone == 0 && !stop(user)) {
        struct timespec until;

        (void)clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += 20000000;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        (void)pthread_cond_timedwait(&p->moved, &p->mutex, &until);
    }
    passed = p->turn != turn;
    (void)pthread_mutex_unlock(&p->mutex);
    return passed;
}

static bool thread_exchange(void *handle, const struct vc_piece *out, const struct vc_piece *in,
                            vc_transport_stop_fn *stop, void *user, char why[VC_TRANSPORT_WHY])
{
    struct thread_rank *r = handle;
    struct exchange_place *p = r->place;
    bool passed;

    if (++p->exchanges[r->rank] == r->dies_at) {
        (void)pthread_mutex_lock(&p->mutex);
        p->gone++;
        (void)pthread_cond_broadcast(&p->moved);
        (void)pthread_mutex_unlock(&p->mutex);
        (void)snprintf(why, VC_TRANSPORT_WHY, "it is the one that died");
        return false;
    }
    p->out[r->rank] = out;
    passed = pass_barrier(p, stop, user);
    for (unsigned k = 0; passed && k < p->size; k++) {
        const struct vc_piece *from = &p->out[k][r->rank];

        if (k != r->rank) {
            assert_int_equal(from->bytes, in[k].bytes);
            if (from->bytes != 0) {
                memcpy(in[k].at, from->at, from->bytes);
            }
        }
    }
    passed = passed && pass_barrier(p, stop, user);
    if (!passed) {
        (void)snprintf(why, VC_TRANSPORT_WHY, "a thread is gone");
    }
    return passed;
}

static void thread_close(void *handle, bool whole)
{
    (void)handle;
    (void)whole;
}

static const struct vc_transport threads = {.abi = VC_TRANSPORT_ABI,
                                            .struct_size = sizeof threads,
                                            .name = "threads",
                                            .exchange = thread_exchange,
                                            .close = thread_close};

/* ---- all ranks at once ---- */

struct rank_call {
    struct thread_rank at;
    struct vc_ctx *ctx;
    struct vc_ranks *ranks;
    void (*work)(struct vc_ctx *ctx, struct vc_ranks *ranks, unsigned rank, void *user);
    void *user;
};

static void *rank_thread(void *argument)
{
    struct rank_call *call = argument;

    call->work(call->ctx, call->ranks, call->at.rank, call->user);
    return NULL;
}

/* work(ctx, ranks, rank, user) on `size` threads, each with a context of its own; user: an array with an element of
 * n_bytes for each. One of them dies before its exchange number dies_at, 0: none. */
static void on_ranks(unsigned size, unsigned who_dies, unsigned long dies_at,
                     void (*work)(struct vc_ctx *ctx, struct vc_ranks *ranks, unsigned rank, void *user), void *user,
                     size_t n_bytes)
{
    struct exchange_place place = {.mutex = PTHREAD_MUTEX_INITIALIZER, .moved = PTHREAD_COND_INITIALIZER, .size = size};
    struct rank_call calls[MAX_RANKS];
    pthread_t ids[MAX_RANKS];

    memset(calls, 0, sizeof calls);
    for (unsigned k = 0; k < size; k++) {
        calls[k] = (struct rank_call){.at = {&place, k, who_dies == k ? dies_at : 0},
                                      .ctx = test_ctx(),
                                      .work = work,
                                      .user = (char *)user + k * n_bytes};
        assert_int_equal(vc_ctx_set_threads(calls[k].ctx, 1), VC_OK);
        assert_int_equal(vc_ranks_create(calls[k].ctx, &threads, &calls[k].at, k, size, &calls[k].ranks), VC_OK);
    }
    for (unsigned k = 0; k < size; k++) {
        assert_int_equal(pthread_create(&ids[k], NULL, rank_thread, &calls[k]), 0);
    }
    for (unsigned k = 0; k < size; k++) {
        (void)pthread_join(ids[k], NULL);
        vc_ranks_leave(calls[k].ranks);
        vc_ctx_free(calls[k].ctx);
    }
}
