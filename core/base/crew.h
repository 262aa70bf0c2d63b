/* crew.h - threads that stay, for work that comes in many short pieces: steps of training. (threads.h starts threads
 * for one long run.) The calling thread is worker 0. Who waits looks a short while and then sleeps. */
#ifndef VC_CORE_CREW_H
#define VC_CORE_CREW_H

#include "core/base/ctx.h"

struct vc_crew;

/* n workers; fewer where the system refuses threads, at least the caller. */
enum vc_status vc_crew_create(struct vc_ctx *ctx, unsigned n, struct vc_crew **out);
void vc_crew_free(struct vc_crew *crew); /* accepts NULL */
unsigned vc_crew_size(const struct vc_crew *crew);

/* Calls fn(user, worker) once on each worker and returns when all have returned. One caller at a time. */
void vc_crew_run(struct vc_crew *crew, void (*fn)(void *user, unsigned worker), void *user);
/* Inside fn, called by all workers equally often: returns when all have called it. */
void vc_crew_meet(struct vc_crew *crew);

#endif
