/* threads.h - runs one function on several threads. The calling thread is worker 0. Waiting threads sleep. */
#ifndef VC_CORE_THREADS_H
#define VC_CORE_THREADS_H

#include "core/base/ctx.h"

/* Calls fn(user, worker) for worker = 0 .. n - 1 at the same time and returns when all have. Where the system refuses
 * a thread, fewer run: fn must share the work by taking it, not by its number. Returns how many ran (at least 1). */
unsigned vc_threads_run(unsigned n, void (*fn)(void *user, unsigned worker), void *user);

#endif
