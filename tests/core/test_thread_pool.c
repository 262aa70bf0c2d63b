/* test_thread_pool.c - threads that stay: every worker runs once a run, and barriers are in step. */
#include "support.h"

#include "core/base/thread_pool.h"

#define ROUNDS 200
#define MOST   8

struct world {
    struct vc_thread_pool *pool;
    atomic_uint calls[MOST];
    atomic_uint arrived;
    atomic_uint early; /* a worker passed a barrier before all had come */
};

static void work(void *user, unsigned worker)
{
    struct world *w = user;
    unsigned n = vc_thread_pool_size(w->pool);

    atomic_fetch_add(&w->calls[worker], 1);
    for (unsigned k = 1; k <= 5; k++) {
        atomic_fetch_add(&w->arrived, 1);
        vc_thread_pool_barrier(w->pool);
        if (atomic_load(&w->arrived) < k * n) {
            atomic_fetch_add(&w->early, 1);
        }
        vc_thread_pool_barrier(w->pool);
    }
}

static void workers_meet(void **state)
{
    (void)state;
    for (unsigned n = 1; n <= MOST; n += 3) {
        struct vc_ctx *ctx = test_ctx();
        struct world w = {.pool = NULL};

        assert_int_equal(vc_thread_pool_create(ctx, n, &w.pool), VC_OK);
        assert_in_range(vc_thread_pool_size(w.pool), 1, n);
        for (unsigned round = 0; round < ROUNDS; round++) {
            atomic_store(&w.arrived, 0);
            vc_thread_pool_run(w.pool, work, &w);
            assert_int_equal(atomic_load(&w.arrived), 5 * vc_thread_pool_size(w.pool));
        }
        for (unsigned k = 0; k < vc_thread_pool_size(w.pool); k++) {
            assert_int_equal(atomic_load(&w.calls[k]), ROUNDS);
        }
        assert_int_equal(atomic_load(&w.early), 0);
        vc_thread_pool_free(w.pool);
        test_ctx_done(ctx);
    }
}

static void no_memory(void **state)
{
    struct vc_ctx *ctx = test_ctx();
    struct vc_thread_pool *pool = NULL;
    uint64_t n = 1;

    (void)state;
    for (;; n++) {
        enum vc_status status;

        vc_pool_fail_at(ctx->shared->pool, n, 0);
        status = vc_thread_pool_create(ctx, 3, &pool);
        vc_pool_fail_at(ctx->shared->pool, 0, 0);
        if (status == VC_OK) {
            break;
        }
        assert_int_equal(status, VC_E_NOMEM);
        assert_null(pool);
    }
    assert_int_equal(n, 3);
    vc_thread_pool_free(pool);
    vc_thread_pool_free(NULL);
    test_ctx_done(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(workers_meet),
        cmocka_unit_test(no_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
