/* thread_pool.c - see thread_pool.h. Two barriers: one at which a run begins and ends, and one for the workers in
 * between. */
#include "core/base/thread_pool.h"

#include <signal.h>

#define STACK_BYTES ((size_t)512 << 10)
#define MAX_ONCE    256
#define LOOKS       500 /* at a counter before a thread sleeps: some 20 microseconds, as sleeping and waking takes */

#if defined(__x86_64__)
#define REST() __builtin_ia32_pause()
#elif defined(__aarch64__)
#define REST() __asm__ volatile("yield")
#else
#define REST() ((void)0)
#endif

/* All workers of a round arrive; the last one begins the next round. */
struct barrier {
    atomic_uint round;
    atomic_uint arrived;
};

struct member {
    struct vc_thread_pool *pool;
    pthread_t thread;
    unsigned worker;
};

struct vc_thread_pool {
    struct vc_ctx *ctx;
    unsigned n;
    struct member *members; /* of workers 1 to n - 1 */
    pthread_mutex_t mutex;  /* for those who sleep */
    pthread_cond_t changed;
    struct barrier start, inside;
    void (*fn)(void *user, unsigned worker); /* NULL: the threads end */
    void *user;
};

static void await(struct vc_thread_pool *pool, struct barrier *barrier)
{
    unsigned round = atomic_load_explicit(&barrier->round, memory_order_acquire);

    if (atomic_fetch_add_explicit(&barrier->arrived, 1, memory_order_acq_rel) + 1 == pool->n) {
        atomic_store_explicit(&barrier->arrived, 0, memory_order_relaxed);
        (void)pthread_mutex_lock(&pool->mutex);
        atomic_store_explicit(&barrier->round, round + 1, memory_order_release);
        (void)pthread_cond_broadcast(&pool->changed);
        (void)pthread_mutex_unlock(&pool->mutex);
        return;
    }
    for (unsigned k = 0; k < LOOKS; k++) {
        if (atomic_load_explicit(&barrier->round, memory_order_acquire) != round) {
            return;
        }
        REST();
    }
    (void)pthread_mutex_lock(&pool->mutex);
    while (atomic_load_explicit(&barrier->round, memory_order_acquire) == round) {
        (void)pthread_cond_wait(&pool->changed, &pool->mutex);
    }
    (void)pthread_mutex_unlock(&pool->mutex);
}

static void *member_main(void *arg)
{
    const struct member *member = arg;
    struct vc_thread_pool *pool = member->pool;

    (void)pthread_mutex_lock(&pool->mutex); /* until all are started, and their number is known */
    (void)pthread_mutex_unlock(&pool->mutex);
    for (;;) {
        await(pool, &pool->start);
        if (pool->fn == NULL) {
            return NULL;
        }
        pool->fn(pool->user, member->worker);
        await(pool, &pool->start);
    }
}

/* Signals go to the calling thread, which knows what to do about them. */
static void start_members(struct vc_thread_pool *pool, unsigned n)
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
    (void)pthread_mutex_lock(&pool->mutex);
    while (started + 1 < n) {
        struct member *member = &pool->members[started];

        *member = (struct member){.pool = pool, .worker = started + 1};
        if (pthread_create(&member->thread, &attr, member_main, member) != 0) {
            break;
        }
        started++;
    }
    pool->n = started + 1;
    (void)pthread_mutex_unlock(&pool->mutex);
    (void)pthread_sigmask(SIG_SETMASK, &old, NULL);
    (void)pthread_attr_destroy(&attr);
}

/* False: the system has no mutex for it. */
static bool start(struct vc_thread_pool *pool, unsigned n)
{
    if (pthread_mutex_init(&pool->mutex, NULL) != 0) {
        return false;
    }
    (void)pthread_cond_init(&pool->changed, NULL);
    pool->n = 1;
    start_members(pool, n);
    return true;
}

static void stop(struct vc_thread_pool *pool)
{
    pool->fn = NULL;
    if (pool->n > 1) {
        await(pool, &pool->start);
    }
    for (unsigned k = 1; k < pool->n; k++) {
        (void)pthread_join(pool->members[k - 1].thread, NULL);
    }
    (void)pthread_cond_destroy(&pool->changed);
    (void)pthread_mutex_destroy(&pool->mutex);
}

enum vc_status vc_thread_pool_create(struct vc_ctx *ctx, unsigned n, struct vc_thread_pool **out)
{
    struct vc_thread_pool *pool = vc_calloc_array(ctx, VC_TAG_MISC, 1, sizeof *pool);

    *out = NULL;
    VC_CALL_ALLOC(pool);
    pool->ctx = ctx;
    pool->members = vc_calloc_array(ctx, VC_TAG_MISC, n + (size_t)1, sizeof *pool->members);
    if (pool->members == NULL || !start(pool, n)) {
        VC_FREE_ALL(ctx, pool->members, pool);
        return VC_E_NOMEM;
    }
    *out = pool;
    return VC_OK;
}

void vc_thread_pool_free(struct vc_thread_pool *pool)
{
    if (pool == NULL) {
        return;
    }
    stop(pool);
    VC_FREE_ALL(pool->ctx, pool->members, pool);
}

unsigned vc_thread_pool_size(const struct vc_thread_pool *pool)
{
    return pool->n;
}

void vc_thread_pool_run(struct vc_thread_pool *pool, void (*fn)(void *user, unsigned worker), void *user)
{
    if (pool->n == 1) {
        fn(user, 0);
        return;
    }
    pool->fn = fn;
    pool->user = user;
    await(pool, &pool->start);
    fn(user, 0);
    await(pool, &pool->start);
}

void vc_thread_pool_barrier(struct vc_thread_pool *pool)
{
    if (pool->n > 1) {
        await(pool, &pool->inside);
    }
}

/* Without memory of the pool's, so that it cannot fail. */
unsigned vc_thread_pool_once(unsigned n, void (*fn)(void *user, unsigned worker), void *user)
{
    struct member members[MAX_ONCE];
    struct vc_thread_pool pool = {.n = 1, .members = members};

    if (n <= 1 || !start(&pool, n < MAX_ONCE ? n : MAX_ONCE)) {
        fn(user, 0);
        return 1;
    }
    vc_thread_pool_run(&pool, fn, user);
    n = pool.n;
    stop(&pool);
    return n;
}
