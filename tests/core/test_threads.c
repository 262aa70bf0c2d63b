/* test_threads.c - groups of threads: every worker runs once, the caller is worker 0, and all are done when the call
 * returns (judge: counters that the workers raise); and what the machine gives to this process. */
#include <limits.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/cpu.h"
#include "core/base/thread_pool.h"

static const char *own_path;

struct work {
    atomic_uint seen[256];
    atomic_uint total, next;
    pthread_t caller;
    atomic_bool caller_is_zero;
};

static void count(void *user, unsigned worker)
{
    struct work *work = user;

    atomic_fetch_add(&work->seen[worker], 1);
    atomic_fetch_add(&work->total, 1);
    if (worker == 0 && pthread_equal(pthread_self(), work->caller)) {
        atomic_store(&work->caller_is_zero, true);
    }
}

static void test_each_runs_once(void **unused)
{
    static const unsigned wanted[] = {0, 1, 2, 3, 16, 64};

    (void)unused;
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++) {
        struct work work = {.caller = pthread_self()};
        unsigned n = vc_thread_pool_once(wanted[i], count, &work);

        assert_true(n >= 1 && n <= (wanted[i] == 0 ? 1 : wanted[i]));
        assert_int_equal(atomic_load(&work.total), n);
        assert_true(atomic_load(&work.caller_is_zero));
        for (unsigned w = 0; w < n; w++) {
            assert_int_equal(atomic_load(&work.seen[w]), 1);
        }
    }
}

/* Work that is taken, not dealt: done whole however many threads the system gives. */
static void take(void *user, unsigned worker)
{
    struct work *work = user;

    (void)worker;
    while (atomic_fetch_add(&work->next, 1) < 10000) {
        atomic_fetch_add(&work->total, 1);
    }
}

static void test_work_is_taken(void **unused)
{
    struct work work = {.caller = pthread_self()};

    (void)unused;
    (void)vc_thread_pool_once(8, take, &work);
    assert_int_equal(atomic_load(&work.total), 10000);
}

static void test_counts(void **unused)
{
    (void)unused;
    assert_true(vc_cpu_threads() >= 1);
    assert_true(vc_default_max_memory() >= (uint64_t)64 << 20);
    assert_true(vc_cpu_denormals_ok());
    assert_true(vc_cpu_has(VC_CPU_REF) && vc_cpu_has(VC_CPU_BASE) && vc_cpu_has(vc_cpu_best()));
}

/* A small program that a large one starts: its peak is its own, while what getrusage tells survives exec. This program
 * starts itself, with the argument that makes main print the peak. */
static void test_peak_is_own(void **unused)
{
    size_t n = (size_t)128 << 20;
    char *large = malloc(n);
    unsigned long long peak = 0;
    char command[PATH_MAX + 16];
    uint64_t here;
    FILE *child;

    (void)unused;
    assert_non_null(large);
    memset(large, 1, n);
    here = vc_peak_rss_bytes();
    assert_true(here >= n);
    snprintf(command, sizeof command, "exec '%s' --peak", own_path);
    child = popen(command, "r");
    assert_non_null(child);
    assert_int_equal(fscanf(child, "%llu", &peak), 1);
    assert_int_equal(pclose(child), 0);
    assert_true(peak > 0 && peak < here);
    assert_int_equal(large[n - 1], 1);
    free(large);
}

static void test_level_names(void **unused)
{
    enum vc_cpu_level level;

    (void)unused;
    for (int i = 0; i < VC_CPU_COUNT; i++) {
        assert_true(vc_cpu_level_parse(vc_cpu_level_name((enum vc_cpu_level)i), &level));
        assert_int_equal(level, i);
    }
    assert_true(vc_cpu_level_parse("all", &level) && level == vc_cpu_best());
    assert_false(vc_cpu_level_parse("sse9", &level));
    assert_false(vc_cpu_level_parse("", &level));
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_runs_once), cmocka_unit_test(test_work_is_taken), cmocka_unit_test(test_counts),
        cmocka_unit_test(test_level_names),    cmocka_unit_test(test_peak_is_own),
    };

    if (argc > 1 && strcmp(argv[1], "--peak") == 0) {
        printf("%llu\n", (unsigned long long)vc_peak_rss_bytes());
        return 0;
    }
    own_path = argv[0];
    return cmocka_run_group_tests(tests, NULL, NULL);
}
