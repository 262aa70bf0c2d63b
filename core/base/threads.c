/* threads.c - one function on several threads, joined at the end. Threads live as long as one run: starting them costs
 * tens of microseconds, and nothing of ours waits busily. */
#include "core/base/threads.h"

#include <pthread.h>
#include <signal.h>

#define MAX_EXTRA   255
#define STACK_BYTES ((size_t)256 << 10)

struct start {
    void (*fn)(void *user, unsigned worker);
    void *user;
    unsigned worker;
};

static void *thread_main(void *arg)
{
    const struct start *start = arg;

    start->fn(start->user, start->worker);
    return NULL;
}

/* Signals go to the calling thread, which knows what to do about them. */
static unsigned start_extra(pthread_t *threads, struct start *starts, unsigned n)
{
    pthread_attr_t attr;
    sigset_t all;
    sigset_t old;
    unsigned started = 0;

    if (pthread_attr_init(&attr) != 0) {
        return 0;
    }
    (void)pthread_attr_setstacksize(&attr, STACK_BYTES);
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &old);
    while (started < n && pthread_create(&threads[started], &attr, thread_main, &starts[started]) == 0) {
        started++;
    }
    (void)pthread_sigmask(SIG_SETMASK, &old, NULL);
    (void)pthread_attr_destroy(&attr);
    return started;
}

unsigned vc_threads_run(unsigned n, void (*fn)(void *user, unsigned worker), void *user)
{
    pthread_t threads[MAX_EXTRA];
    struct start starts[MAX_EXTRA];
    unsigned n_extra = n > 1 ? n - 1 : 0;
    unsigned started;
    unsigned i;

    if (n_extra > MAX_EXTRA) {
        n_extra = MAX_EXTRA;
    }
    for (i = 0; i < n_extra; i++) {
        starts[i] = (struct start){fn, user, i + 1};
    }
    started = n_extra == 0 ? 0 : start_extra(threads, starts, n_extra);
    fn(user, 0);
    for (i = 0; i < started; i++) {
        (void)pthread_join(threads[i], NULL);
    }
    return started + 1;
}
