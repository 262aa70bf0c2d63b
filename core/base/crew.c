/* crew.c - see crew.h. Two meeting points: one at which a run begins and ends, and one for the workers in between. */
#include "core/base/crew.h"

#include <pthread.h>
#include <signal.h>

#define STACK_BYTES ((size_t)512 << 10)
#define LOOKS       500 /* at a counter before a thread sleeps: some 20 microseconds, as sleeping and waking takes */

#if defined(__x86_64__)
#define REST() __builtin_ia32_pause()
#elif defined(__aarch64__)
#define REST() __asm__ volatile("yield")
#else
#define REST() ((void)0)
#endif

/* All workers of a round meet; the last one begins the next round. */
struct meeting {
    atomic_uint round;
    atomic_uint arrived;
};

struct member {
    struct vc_crew *crew;
    pthread_t thread;
    unsigned worker;
};

struct vc_crew {
    struct vc_ctx *ctx;
    unsigned n;
    struct member *members; /* of workers 1 to n - 1 */
    pthread_mutex_t mutex;  /* for those who sleep */
    pthread_cond_t changed;
    struct meeting start, inside;
    void (*fn)(void *user, unsigned worker); /* NULL: the threads end */
    void *user;
};

static void meet(struct vc_crew *crew, struct meeting *meeting)
{
    unsigned round = atomic_load_explicit(&meeting->round, memory_order_acquire);

    if (atomic_fetch_add_explicit(&meeting->arrived, 1, memory_order_acq_rel) + 1 == crew->n) {
        atomic_store_explicit(&meeting->arrived, 0, memory_order_relaxed);
        (void)pthread_mutex_lock(&crew->mutex);
        atomic_store_explicit(&meeting->round, round + 1, memory_order_release);
        (void)pthread_cond_broadcast(&crew->changed);
        (void)pthread_mutex_unlock(&crew->mutex);
        return;
    }
    for (unsigned k = 0; k < LOOKS; k++) {
        if (atomic_load_explicit(&meeting->round, memory_order_acquire) != round) {
            return;
        }
        REST();
    }
    (void)pthread_mutex_lock(&crew->mutex);
    while (atomic_load_explicit(&meeting->round, memory_order_acquire) == round) {
        (void)pthread_cond_wait(&crew->changed, &crew->mutex);
    }
    (void)pthread_mutex_unlock(&crew->mutex);
}

static void *member_main(void *arg)
{
    const struct member *member = arg;
    struct vc_crew *crew = member->crew;

    (void)pthread_mutex_lock(&crew->mutex); /* until all are started, and their number is known */
    (void)pthread_mutex_unlock(&crew->mutex);
    for (;;) {
        meet(crew, &crew->start);
        if (crew->fn == NULL) {
            return NULL;
        }
        crew->fn(crew->user, member->worker);
        meet(crew, &crew->start);
    }
}

/* Signals go to the calling thread, which knows what to do about them. */
static void start_members(struct vc_crew *crew, unsigned n)
{
    pthread_attr_t attr;
    sigset_t all;
    sigset_t old;
    unsigned started = 0;

    if (pthread_attr_init(&attr) != 0) {
        return;
    }
    (void)pthread_attr_setstacksize(&attr, STACK_BYTES);
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &old);
    (void)pthread_mutex_lock(&crew->mutex);
    while (started + 1 < n) {
        struct member *member = &crew->members[started];

        *member = (struct member){.crew = crew, .worker = started + 1};
        if (pthread_create(&member->thread, &attr, member_main, member) != 0) {
            break;
        }
        started++;
    }
    crew->n = started + 1;
    (void)pthread_mutex_unlock(&crew->mutex);
    (void)pthread_sigmask(SIG_SETMASK, &old, NULL);
    (void)pthread_attr_destroy(&attr);
}

enum vc_status vc_crew_create(struct vc_ctx *ctx, unsigned n, struct vc_crew **out)
{
    struct vc_crew *crew = vc_calloc_array(ctx, VC_TAG_MISC, 1, sizeof *crew);
    enum vc_status status = VC_OK;

    *out = NULL;
    VC_TRY_ALLOC(crew);
    crew->members = vc_calloc_array(ctx, VC_TAG_MISC, n + (size_t)1, sizeof *crew->members);
    if (crew->members == NULL || pthread_mutex_init(&crew->mutex, NULL) != 0) {
        vc_free(ctx, crew->members);
        vc_free(ctx, crew);
        return VC_E_NOMEM;
    }
    (void)pthread_cond_init(&crew->changed, NULL);
    crew->ctx = ctx;
    crew->n = 1;
    start_members(crew, n);
    *out = crew;
out:
    return status;
}

void vc_crew_free(struct vc_crew *crew)
{
    if (crew == NULL) {
        return;
    }
    crew->fn = NULL;
    if (crew->n > 1) {
        meet(crew, &crew->start);
    }
    for (unsigned k = 1; k < crew->n; k++) {
        (void)pthread_join(crew->members[k - 1].thread, NULL);
    }
    (void)pthread_cond_destroy(&crew->changed);
    (void)pthread_mutex_destroy(&crew->mutex);
    vc_free(crew->ctx, crew->members);
    vc_free(crew->ctx, crew);
}

unsigned vc_crew_size(const struct vc_crew *crew)
{
    return crew->n;
}

void vc_crew_run(struct vc_crew *crew, void (*fn)(void *user, unsigned worker), void *user)
{
    if (crew->n == 1) {
        fn(user, 0);
        return;
    }
    crew->fn = fn;
    crew->user = user;
    meet(crew, &crew->start);
    fn(user, 0);
    meet(crew, &crew->start);
}

void vc_crew_meet(struct vc_crew *crew)
{
    if (crew->n > 1) {
        meet(crew, &crew->inside);
    }
}
