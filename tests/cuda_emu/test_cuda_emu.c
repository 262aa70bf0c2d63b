/* test_cuda_emu.c - the .cu files, unmodified, on the emulated card: every kernel against the reference under three
 * schedules, several threads, small cards, failing calls. Built plain and with each sanitizer; arenas are small in this
 * build, so that small tiles already make many units. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "emu.h"
#include "emu_compare.h"
#include "kernels/device/backend.h"

const struct vc_backend *vc_backend_entry(void);

/* A slot of this build: two lanes, device and pinned. */
#define ARENA_BYTES ((uint64_t)VC_CUDA_ARENA_BYTES)
#define SLOT_BYTES  (2 * ARENA_BYTES)

#if VC_EMU_SMALL /* sanitizers make fibers slow */
#define SMALL 1
#else
#define SMALL 0
#endif

static int64_t accounted;
static pthread_mutex_t account_mutex = PTHREAD_MUTEX_INITIALIZER;

/* What the plug-in says it holds; must be 0 in the end. */
static void account(void *user, int64_t bytes)
{
    (void)user;
    pthread_mutex_lock(&account_mutex);
    accounted += bytes;
    pthread_mutex_unlock(&account_mutex);
}

static void *open_card(char *why, size_t why_bytes)
{
    why[0] = '\0';
    return vc_backend_entry()->open(0, 0, account, NULL, why, why_bytes);
}

/* Closes, and looks whether anything leaked or went wrong. */
static void close_card(void *handle)
{
    vc_backend_entry()->close(handle);
    assert_int_equal(vc_emu_live(), 0);
    assert_int_equal(accounted, 0);
    assert_string_equal(vc_emu_report(), "");
}

/* Rows, groups and axes around the limits of this build's small units and arenas; some begin in the middle of an
 * axis, some are misaligned, some empty. */
static const struct emu_shape shapes[] = {
    {1, 1, 1, {0, 1, 1}, EMU_NORMAL, 0},
    {3, 70, 70, {0, 70, 3}, EMU_NORMAL, 0},
    {17, 65, 7, {130, 13, 5}, EMU_TIES, 1}, /* more chunks than one grid of this build takes at once */
    {2, 1025, 1025, {0, 1, 1025}, EMU_NORMAL, 0},
    {1, 4097, 4097, {0, 1, 3}, EMU_TIES, 3},
    {1, 20001, 3000, {77, 5000, 4}, EMU_NORMAL, 0},
    {40, 33, 33, {31, 33, 40}, EMU_SPECIAL, 2},
    {0, 17, 17, {0, 17, 1}, EMU_NORMAL, 0},
    {3, 0, 1, {0, 1, 1}, EMU_NORMAL, 0},
    {2, 9000, 1, {5, 9000, 2}, EMU_SPECIAL, 0},
    {1, 40000, 40000, {100, 1, 7}, EMU_NORMAL, 1},
    {300, 128, 32, {0, 128, 300}, EMU_SPECIAL, 0},
    {2, 4096, 4096, {4096, 64, 128}, EMU_ZERO, 0},
    {1, 700, 1024, {0, ~(uint64_t)0 >> 8, 3}, EMU_NORMAL, 0},
    {7, 1500, 1100, {~(uint64_t)0 >> 9, 1499, 1000000}, EMU_TIES, 0},
    {1, 30000, 2048, {3, 30000, 1}, EMU_SPECIAL, 0},
};

#define N_SHAPES (SMALL ? 6 : sizeof shapes / sizeof shapes[0])

/* Every kernel on every shape, against the reference, with one order of turns. */
static void compare_all(enum vc_emu_schedule schedule, int eager)
{
    struct vc_emu_settings settings;
    struct vc_kernels reference;
    struct vc_kernels emulated;
    const char *different;
    char why[128];
    void *handle;

    vc_emu_defaults(&settings);
    settings.schedule = schedule;
    settings.seed = 12345;
    settings.eager = eager;
    vc_emu_configure(&settings);
    handle = open_card(why, sizeof why);
    assert_string_equal(why, "");
    assert_non_null(handle);
    emu_reference(&reference);
    emulated = *vc_backend_entry()->kernels;
    assert_string_equal(vc_backend_entry()->label(handle), "cuda:0 emulated card");
    for (size_t i = 0; i < N_SHAPES; i++) {
        different = emu_compare(&reference, &emulated, &shapes[i]);
        if (different != NULL) {
            fail_msg("%s; %s", different, vc_emu_report());
        }
    }
    close_card(handle);
}

static void test_ascending(void **state)
{
    (void)state;
    compare_all(VC_EMU_ASCENDING, 0);
}

static void test_descending(void **state)
{
    (void)state;
    compare_all(VC_EMU_DESCENDING, 0);
}

static void test_shuffled(void **state)
{
    (void)state;
    compare_all(VC_EMU_SHUFFLED, 1);
}

/* ---- threads ---- */

struct worker {
    const struct vc_kernels *table;
    const struct vc_kernels *reference;
    unsigned number;
    int result;
};

/* One host thread: a tile of several units through int8_rows, by both tables. */
static void *work(void *user)
{
    struct worker *worker = user;
    size_t n_rows = 9;
    size_t row_len = 1200 + 100 * worker->number; /* more than a unit together */
    size_t n = n_rows * row_len;
    float *x = calloc(n, sizeof *x);
    int8_t *q = malloc(2 * n);
    uint32_t bits[2][9];
    float scale[2][9];

    for (size_t i = 0; i < n; i++) {
        x[i] = (float)((i * 7919 + worker->number) % 10007) - 5000.0f;
    }
    worker->reference->int8_rows(x, n_rows, row_len, row_len, bits[0], scale[0], q, NULL);
    worker->result = worker->table->int8_rows(x, n_rows, row_len, row_len, bits[1], scale[1], q + n, NULL);
    if (worker->result == 0) {
        worker->result = memcmp(q, q + n, n) != 0 || memcmp(bits[0], bits[1], sizeof bits[0]) != 0 ||
                         memcmp(scale[0], scale[1], sizeof scale[0]) != 0;
    }
    free(x);
    free(q);
    return NULL;
}

#define N_WORKERS 4

/* Four threads at once on a card of that size. */
static void run_workers(uint64_t card_bytes)
{
    struct vc_emu_settings settings;
    struct vc_kernels reference;
    struct vc_kernels emulated;
    struct worker workers[N_WORKERS];
    pthread_t threads[N_WORKERS];
    char why[128];
    void *handle;

    vc_emu_defaults(&settings);
    settings.card_bytes = card_bytes;
    vc_emu_configure(&settings);
    handle = open_card(why, sizeof why);
    assert_non_null(handle);
    emu_reference(&reference);
    emulated = *vc_backend_entry()->kernels;
    for (unsigned i = 0; i < N_WORKERS; i++) {
        workers[i] = (struct worker){&emulated, &reference, i, -1};
        assert_int_equal(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
    }
    for (unsigned i = 0; i < N_WORKERS; i++) {
        pthread_join(threads[i], NULL);
    }
    for (unsigned i = 0; i < N_WORKERS; i++) {
        assert_int_equal(workers[i].result, 0);
    }
    close_card(handle);
}

static void test_threads_have_slots(void **state)
{
    (void)state;
    run_workers((uint64_t)1 << 30);
}

static void test_threads_share_a_small_card(void **state)
{
    (void)state;
    run_workers(SLOT_BYTES + 4096);
}

/* ---- errors ---- */

static void test_card_too_small(void **state)
{
    struct vc_emu_settings settings;
    char why[128];

    (void)state;
    vc_emu_defaults(&settings);
    settings.card_bytes = 4096;
    vc_emu_configure(&settings);
    assert_null(open_card(why, sizeof why));
    assert_string_equal(why, "out of memory");
    assert_int_equal(vc_emu_live(), 0);
    assert_int_equal(accounted, 0);
}

static void test_limit_too_small(void **state)
{
    struct vc_emu_settings settings;
    char why[128] = "";

    (void)state;
    vc_emu_defaults(&settings);
    vc_emu_configure(&settings);
    assert_null(vc_backend_entry()->open(0, 1000, account, NULL, why, sizeof why));
    assert_non_null(strstr(why, "the limit is 1000"));
    assert_null(vc_backend_entry()->open(3, 0, account, NULL, why, sizeof why));
    assert_string_equal(why, "there is no device 3: the last one is 0");
    assert_int_equal(vc_emu_live(), 0);
}

static void test_no_driver_no_device(void **state)
{
    struct vc_emu_settings settings;
    char why[128] = "";

    (void)state;
    vc_emu_defaults(&settings);
    settings.n_devices = -1;
    vc_emu_configure(&settings);
    assert_int_equal(vc_backend_entry()->device_count(why, sizeof why), -1);
    assert_string_equal(why, "no NVIDIA driver is installed");
    settings.n_devices = 0;
    vc_emu_configure(&settings);
    assert_int_equal(vc_backend_entry()->device_count(why, sizeof why), -1);
    assert_string_equal(why, "the NVIDIA driver sees no device");
    assert_null(open_card(why, sizeof why));
}

/* One call of every kind of array, over several units; 0 or the code. */
static int small_job(const struct vc_kernels *table)
{
    static float x[3 * 5000], scale[3], y[3 * 5000];
    static uint32_t bits[3];
    static int8_t q[3 * 5000];
    double sums[2 * 6];
    struct vc_tile_stats stats = {.chunk_sums = sums};
    struct vc_axis_map map = {0, 5000, 3};
    int result;

    for (size_t i = 0; i < 3 * 5000; i++) {
        x[i] = (float)(i % 255);
    }
    result = table->int8_rows(x, 3, 5000, 5000, bits, scale, q, &stats);
    return result != 0 ? result : table->int8_decode_axis(q, 3 * 5000, &map, scale, NULL, y);
}

/* Opens the card and runs a small job again and again, with the first call of the runtime failing, then the second,
 * and so on until none is left: each failure is noticed, nothing leaks, and the job works afterwards. */
static void test_every_call_fails_once(void **state)
{
    struct vc_emu_settings settings;
    struct vc_kernels table;
    uint64_t n_calls = 0;
    unsigned n_open = 0;
    unsigned n_kernel = 0;
    char why[128];
    void *handle;
    int result;

    (void)state;
    vc_emu_defaults(&settings);
    for (settings.fail_at = 1;; settings.fail_at++) {
        vc_emu_configure(&settings);
        handle = open_card(why, sizeof why);
        result = 0;
        if (handle == NULL) {
            assert_string_not_equal(why, "");
            n_open++;
        } else {
            table = *vc_backend_entry()->kernels;
            result = small_job(&table);
            if (result != 0) {
                assert_string_not_equal(vc_backend_entry()->error(result), "");
                assert_int_equal(small_job(&table), 0); /* the next call works again */
                n_kernel++;
            }
            n_calls = vc_emu_calls();
            vc_backend_entry()->close(handle); /* reports no failure of its own */
        }
        assert_int_equal(vc_emu_live(), 0);
        assert_int_equal(accounted, 0);
        if (handle != NULL && result == 0 && settings.fail_at > n_calls) {
            break;
        }
        assert_true(handle == NULL || result != 0); /* the failed call was noticed */
    }
    assert_true(n_open > 5);
    assert_true(n_kernel > 10);
}

static void test_closed_device(void **state)
{
    struct vc_emu_settings settings;
    struct vc_kernels table;
    char why[128];
    void *handle;
    int result;

    (void)state;
    vc_emu_defaults(&settings);
    vc_emu_configure(&settings);
    handle = open_card(why, sizeof why);
    assert_non_null(handle);
    table = *vc_backend_entry()->kernels;
    assert_null(open_card(why, sizeof why));
    assert_string_equal(why, "device 0 is open in this process already");
    close_card(handle);
    result = small_job(&table);
    assert_int_not_equal(result, 0);
    assert_string_equal(vc_backend_entry()->error(result), "no device is open");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ascending),
        cmocka_unit_test(test_descending),
        cmocka_unit_test(test_shuffled),
        cmocka_unit_test(test_threads_have_slots),
        cmocka_unit_test(test_threads_share_a_small_card),
        cmocka_unit_test(test_card_too_small),
        cmocka_unit_test(test_limit_too_small),
        cmocka_unit_test(test_no_driver_no_device),
        cmocka_unit_test(test_every_call_fails_once),
        cmocka_unit_test(test_closed_device),
    };

    return cmocka_run_group_tests_name("CUDA kernels, emulated", tests, NULL, NULL);
}
