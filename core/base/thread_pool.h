/* thread_pool.h - one function on several threads. The calling thread is worker 0. A thread that waits looks a short
 * while and then sleeps. */
#pragma once

#include "core/base/ctx.h"

struct vc_thread_pool;

/* Threads that stay, for work that comes in many short pieces: steps of training. n workers; fewer where the system
 * refuses threads, at least the caller. */
enum vc_status vc_thread_pool_create(struct vc_ctx *ctx, unsigned n, struct vc_thread_pool **out);
void vc_thread_pool_free(struct vc_thread_pool *pool); /* accepts NULL */
unsigned vc_thread_pool_size(const struct vc_thread_pool *pool);

/* Calls fn(user, worker) once on each worker and returns when all have returned. One caller at a time. */
void vc_thread_pool_run(struct vc_thread_pool *pool, void (*fn)(void *user, unsigned worker), void *user);
/* Inside fn, called by all workers equally often: returns when all have called it. */
void vc_thread_pool_barrier(struct vc_thread_pool *pool);

/* One long run on a pool of its own of n workers, which ends with it; on fewer where the system refuses threads, so fn
 * shares the work by taking it, not by its number. Returns how many ran, at least 1. */
unsigned vc_thread_pool_once(unsigned n, void (*fn)(void *user, unsigned worker), void *user);
