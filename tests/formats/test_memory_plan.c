/* test_memory_plan.c - with little memory a job says what it needs when it is planned, or it works: what a plan lets
 * through is never refused while it runs, whatever the number of threads. */
#include "formats_test.h"
#include "tasks.h"

#define N_TENSORS 16

static void save_npz(const char *name, bool deflate)
{
    const struct member_options options = {.deflate = deflate, .level = 1};
    struct zip_builder z;
    unsigned i;

    memset(&z, 0, sizeof z);
    for (i = 0; i < N_TENSORS; i++) {
        char member[16];

        snprintf(member, sizeof member, "t%u.npy", i);
        zip_add_bytes(&z, member, npy_matrix(257 + 13 * i, 301), &options);
    }
    zip_finish(&z, ZIP_END_PLAIN, 0);
    (void)save(name, &z.out);
    zip_release(&z);
}

/* One limit after the other. */
static void expect_plans_hold(const char *name, struct task task, unsigned threads)
{
    uint64_t limit;
    unsigned n_refused = 0;
    unsigned n_done = 0;

    for (limit = (uint64_t)1 << 20; limit < (uint64_t)8 << 20; limit += (uint64_t)353 << 10) {
        struct vc_ctx *ctx = test_ctx();
        enum vc_status status;

        assert_int_equal(vc_ctx_set_threads(ctx, threads), VC_OK);
        assert_int_equal(vc_ctx_set_max_memory(ctx, limit), VC_OK);
        status = run_task(ctx, name, "out.npz", &task);
        if (status != VC_OK && (status != VC_E_NOMEM || strstr(vc_ctx_message(ctx), "this needs at least") == NULL)) {
            fail_msg("%s, %u threads, %llu bytes: %s", name, threads, (unsigned long long)limit, vc_ctx_message(ctx));
        }
        assert_true(vc_pool_peak(ctx->shared->pool) <= limit);
        n_refused += status != VC_OK;
        n_done += status == VC_OK;
        vc_ctx_free(ctx);
    }
    assert_true(n_refused > 0 && n_done > 8); /* it was a limit, and no large one is needed */
    remove_path("out.npz");
}

static void test_plans_hold(void **state)
{
    static const unsigned threads[] = {1, 2, 4, 8};
    const struct {
        const char *name;
        struct task task;
    } jobs[3] = {{"stored.npz", task_int8()}, {"deflated.npz", task_int8()}, {"deflated.npz", task_fp16()}};
    size_t i;
    size_t k;

    (void)state;
    save_npz("stored.npz", false);
    save_npz("deflated.npz", true);
    for (i = 0; i < sizeof threads / sizeof threads[0]; i++) {
        for (k = 0; k < sizeof jobs / sizeof jobs[0]; k++) {
            if (TEST_TURN(3 * i + k, 3)) {
                expect_plans_hold(jobs[k].name, jobs[k].task, threads[i]);
            }
        }
    }
    remove_path("stored.npz");
    remove_path("deflated.npz");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_plans_hold)};

    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
