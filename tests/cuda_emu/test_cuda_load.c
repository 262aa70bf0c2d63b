/* test_cuda_load.c - what the loader of the plug-in says when there is none, a wrong one, one of another build, and
 * with the emulated card. A plug-in that was loaded stays, so refusals come first, and each plug-in of another build
 * gets a process of its own. Paths of plug-ins come from the build. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include <vcompress/experimental.h>

#include "core/base/cpu.h"
#include "emu_compare.h"
#include "kernels/device/cuda_load.h"

static struct vc_ctx *new_ctx(void)
{
    struct vc_ctx *ctx = NULL;

    assert_int_equal(vc_ctx_create(&ctx), VC_OK);
    return ctx;
}

/* The loader refuses that file with these words, for kernels and in the list of devices, and names the file. */
static void refused(const char *path, const char *words)
{
    struct vc_ctx *ctx = new_ctx();
    struct vc_devices *devices = NULL;
    struct vc_kernels table;
    unsigned n = 0;

    assert_int_equal(setenv("VCOMPRESS_BACKEND_PATH", path, 1), 0);
    assert_int_equal(vc_cuda_load(ctx, 0, &table, &n), VC_E_DEVICE);
    assert_non_null(strstr(vc_ctx_message(ctx), path));
    assert_non_null(strstr(vc_ctx_message(ctx), words));
    assert_null(strchr(vc_ctx_message(ctx), '\n'));

    assert_int_equal(vc_devices_list(ctx, &devices), VC_OK);
    assert_int_equal(devices->n_devices, 0);
    assert_int_equal(devices->n_searched, 1);
    assert_non_null(strstr(devices->searched[0].outcome, words));
    assert_string_not_equal(devices->reason, "");
    assert_string_equal(devices->runtime, "");
    vc_result_free(devices);
    vc_ctx_free(ctx);
}

static void test_no_file(void **state)
{
    (void)state;
    refused("/no/such/plugin.so", "no such file");
}

static void test_folder_without_plugin(void **state)
{
    (void)state;
    refused("/", "no such file");
}

static void test_relative_path(void **state)
{
    (void)state;
    refused("vcompress_cuda.so", "must be an absolute path");
}

static void test_no_library(void **state)
{
    char path[] = "/tmp/vcompress-test-XXXXXX";
    int fd = mkstemp(path);

    (void)state;
    assert_true(fd >= 0);
    assert_int_equal(write(fd, "no library\n", 11), 11);
    assert_int_equal(close(fd), 0);
    refused(path, ""); /* in the words of the system */
    assert_int_equal(unlink(path), 0);
}

static void test_other_version(void **state)
{
    (void)state;
    refused(EMU_WRONG_ABI, "made for another version (ABI 5, this program needs 4)");
}

static void test_no_entry(void **state)
{
    (void)state;
    refused(EMU_WRONG_ENTRY, "no function vc_backend_entry");
}

static void test_tables_that_no_build_has(void **state)
{
    static const struct {
        const char *kind, *words;
    } cases[] = {
        {"abi:3", "made for another version (ABI 3, this program needs 4)"},
        {"abi:5", "made for another version (ABI 5, this program needs 4)"},
        {"struct:0", "damaged: a description of 0 bytes"},
        {"struct:40", "damaged: a description of 40 bytes"},
        {"struct:4294967288", "damaged: a description of 4294967288 bytes"},
        {"table:0", "damaged: a table of kernels of 0 bytes"},
        {"table:8", "damaged: a table of kernels of 8 bytes"}, /* no kernel */
        {"table:20", "damaged: a table of kernels of 20 bytes"},
        {"table:65544", "damaged: a table of kernels of 65544 bytes"},
        {"no-open", "damaged: a function is missing"},
        {"none", "it has none of the kernels"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(setenv("VC_EMU_TABLE", cases[i].kind, 1), 0);
        refused(EMU_TABLE, cases[i].words);
    }
}

/* ---- plug-ins of other builds ---- */

struct other_build {
    const char *kind;         /* VC_EMU_TABLE */
    bool (*has)(unsigned id); /* whether this kernel is the plug-in's; otherwise it must be the CPU's */
};

static bool all(unsigned id)
{
    (void)id;
    return true;
}

static bool first_half(unsigned id)
{
    return id < VC_KERNEL_ID_COUNT / 2;
}

static bool every_second(unsigned id)
{
    return id % 2 == 0;
}

/* What is wrong with a context's table, or NULL. Every kernel is then called and compared with its reference. */
static const char *look_at_kernels(const struct vc_kernels *mixed, const struct other_build *build)
{
    static const struct emu_shape shapes[] = {
        {3, 70, 32, {5, 7, 11}, EMU_NORMAL, 1},
        {2, 513, 513, {0, 1, 513}, EMU_SPECIAL, 0},
    };
    const char *wrong = NULL;
    struct vc_kernels base;
    struct vc_kernels reference;

    vc_kernels_fill(&base, VC_CPU_BASE);
#define VC_KERNEL(name, result, params)                                            \
    if ((mixed->name != base.name) != build->has((unsigned)VC_KERNEL_ID_##name)) { \
        return "the table has the wrong variant of " #name;                        \
    }
#include "kernels/kernels.inc"
#undef VC_KERNEL
    vc_kernels_fill(&reference, VC_CPU_REF);
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0] && wrong == NULL; i++) {
        wrong = emu_compare(&reference, mixed, &shapes[i]);
    }
    return wrong;
}

/* Kernels that are not the plug-in's. */
static unsigned lacking(const struct other_build *build)
{
    unsigned n = 0;

    for (unsigned id = 0; id < VC_KERNEL_ID_COUNT; id++) {
        n += build->has(id) ? 0 : 1;
    }
    return n;
}

static const char *look_at_devices(struct vc_ctx *ctx, const struct other_build *build)
{
    struct vc_devices *devices = NULL;
    const char *wrong = NULL;
    char outcome[128] = "loaded";

    if (lacking(build) > 0) {
        (void)snprintf(outcome, sizeof outcome, "loaded; it lacks %u of %u kernels, which run on the CPU",
                       lacking(build), VC_KERNEL_ID_COUNT);
    }
    if (vc_devices_list(ctx, &devices) != VC_OK) {
        return "no list of devices";
    }
    if (devices->n_devices != 1 || strcmp(devices->devices[0].name, "emulated card") != 0) {
        wrong = "the list of devices";
    } else if (strcmp(devices->searched[0].outcome, outcome) != 0) {
        wrong = "the outcome of the search";
    }
    vc_result_free(devices);
    return wrong;
}

/* The context's level is base, which the kernels that the plug-in lacks must have, too. */
static const char *look_at_context(struct vc_ctx *ctx, const struct other_build *build)
{
    const struct vc_kernels *kernels;
    const char *wrong;
    char name[128] = "cuda:0 emulated card";

    if (lacking(build) > 0) {
        (void)snprintf(name, sizeof name, "cuda:0 emulated card, %u of %u kernels on cpu (base)", lacking(build),
                       VC_KERNEL_ID_COUNT);
    }
    if (vc_ctx_set_device(ctx, "cuda") != VC_OK || vc_ctx_set_cpu_mask(ctx, "base") != VC_OK) {
        return "the context";
    }
    kernels = vc_kernels_get(ctx);
    if (kernels == NULL) {
        return vc_ctx_message(ctx);
    }
    if (strcmp(ctx->shared->device_name, name) != 0) {
        return ctx->shared->device_name;
    }
    wrong = look_at_kernels(kernels, build);
    if (wrong != NULL) {
        return wrong;
    }
    if (vc_kernels_error(ctx, 2) != VC_E_NOMEM ||
        strcmp(vc_ctx_message(ctx), "cuda:0 emulated card: out of memory") != 0) {
        return vc_ctx_message(ctx);
    }
    return look_at_devices(ctx, build);
}

/* cmocka's asserts would run the rest of the tests in the child, too; so it says in words what is wrong. */
static void works(const struct other_build *build)
{
    int status = 0;
    pid_t child = fork();

    assert_true(child >= 0);
    if (child == 0) {
        struct vc_ctx *ctx = NULL;
        const char *wrong = "no context";

        if (setenv("VCOMPRESS_BACKEND_PATH", EMU_TABLE, 1) == 0 && setenv("VC_EMU_TABLE", build->kind, 1) == 0 &&
            vc_ctx_create(&ctx) == VC_OK) {
            wrong = look_at_context(ctx, build);
        }
        if (wrong != NULL) {
            fprintf(stderr, "%s: %s\n", build->kind, wrong);
        }
        vc_ctx_free(ctx);
        _exit(wrong == NULL ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

static void test_same_build(void **state)
{
    (void)state;
    works(&(struct other_build){"full", all});
}

static void test_older_list(void **state)
{
    (void)state;
    works(&(struct other_build){"short", first_half});
}

static void test_missing_kernels(void **state)
{
    (void)state;
    works(&(struct other_build){"nulls", every_second});
}

static void test_newer_list(void **state)
{
    (void)state;
    works(&(struct other_build){"long", all});
}

/* ---- the search, and the emulated card as it is ---- */

static void test_installed_places(void **state)
{
    struct vc_ctx *ctx = new_ctx();
    struct vc_devices *devices = NULL;

    (void)state;
    assert_int_equal(unsetenv("VCOMPRESS_BACKEND_PATH"), 0);
    assert_int_equal(vc_devices_list(ctx, &devices), VC_OK);
    for (size_t i = 0; i < devices->n_searched; i++) {
        assert_int_equal(devices->searched[i].path[0], '/');
        assert_non_null(strstr(devices->searched[i].path, "/lib"));
        assert_non_null(strstr(devices->searched[i].path, "/vcompress/vcompress_cuda.so"));
    }
    vc_result_free(devices);
    vc_ctx_free(ctx);
}

static void test_out_of_memory(void **state)
{
    struct vc_ctx *ctx = new_ctx();
    struct vc_devices *devices = NULL;
    struct vc_kernels table;
    unsigned n_cuda;

    (void)state;
    for (uint64_t n = 1; n <= 2; n++) {
        vc_pool_fail_at(ctx->shared->pool, n, 0);
        assert_int_equal(vc_cuda_load(ctx, 0, &table, &n_cuda), VC_E_NOMEM);
    }
    vc_pool_fail_at(ctx->shared->pool, 1, 0);
    assert_int_equal(vc_devices_list(ctx, &devices), VC_E_NOMEM);
    assert_null(devices);
    vc_pool_fail_at(ctx->shared->pool, 0, 0);
    assert_int_equal(vc_pool_in_use(ctx->shared->pool), 0);
    vc_ctx_free(ctx);
}

/* KiB in use on the device, as the summary prints it. */
static double device_kib(const struct vc_ctx *ctx)
{
    char *text = NULL;
    size_t size = 0;
    FILE *to = open_memstream(&text, &size);
    double kib = 0;
    char *line;

    assert_non_null(to);
    vc_ctx_print_memory(ctx, to);
    assert_int_equal(fclose(to), 0);
    line = strstr(text, "\n  device");
    if (line != NULL) {
        assert_int_equal(sscanf(line, " device %lf", &kib), 1);
    }
    free(text);
    return kib;
}

static void test_contexts_share_the_device(void **state)
{
    struct vc_ctx *a = new_ctx();
    struct vc_ctx *b = new_ctx();
    struct vc_kernels table_a;
    struct vc_kernels table_b;
    unsigned n = 0;

    (void)state;
    assert_int_equal(setenv("VCOMPRESS_BACKEND_PATH", EMU_PLUGIN, 1), 0);
    assert_int_equal(vc_cuda_load(a, 0, &table_a, &n), VC_OK);
    assert_int_equal(n, VC_KERNEL_ID_COUNT);
    assert_string_equal(table_a.device, "cuda:0 emulated card");
    assert_int_equal(vc_cuda_load(b, 0, &table_b, &n), VC_OK);
    assert_memory_equal(&table_a, &table_b, sizeof table_a);
    assert_true(device_kib(a) > 0);
    assert_true(device_kib(b) == 0);
    vc_cuda_unload(a); /* b counts what the device holds from now on */
    assert_true(device_kib(a) == 0);
    assert_true(device_kib(b) > 0);
    assert_int_equal(vc_cuda_load(a, 1, &table_a, &n), VC_E_DEVICE);
    assert_non_null(strstr(vc_ctx_message(a), "cuda:0 is in use"));
    vc_cuda_unload(b);
    assert_true(device_kib(b) == 0);
    assert_int_equal(vc_cuda_load(a, 1, &table_a, &n), VC_E_DEVICE);
    assert_non_null(strstr(vc_ctx_message(a), "there is no device 1"));
    vc_ctx_free(a);
    vc_ctx_free(b);
}

static void test_context_uses_the_card(void **state)
{
    struct vc_ctx *ctx = new_ctx();
    const struct vc_kernels *kernels;
    const float x[3] = {1, -2, 127};
    uint32_t bits;
    float scale;
    int8_t q[3];

    (void)state;
    assert_int_equal(vc_ctx_set_device(ctx, "cuda"), VC_OK);
    kernels = vc_kernels_get(ctx);
    assert_non_null(kernels);
    assert_int_equal(kernels->int8_rows(x, 1, 3, 3, &bits, &scale, q, NULL), 0);
    assert_string_equal(ctx->shared->device_name, "cuda:0 emulated card");
    assert_true(scale == 1.0f);
    assert_int_equal(q[1], -2);
    assert_int_equal(vc_kernels_error(ctx, 2), VC_E_NOMEM);
    assert_string_equal(vc_ctx_message(ctx), "cuda:0 emulated card: out of memory");
    assert_int_equal(vc_kernels_error(ctx, 719), VC_E_DEVICE);
    vc_ctx_free(ctx);
}

static void test_device_list(void **state)
{
    struct vc_ctx *ctx = new_ctx();
    struct vc_devices *devices = NULL;

    (void)state;
    assert_int_equal(vc_devices_list(ctx, &devices), VC_OK);
    assert_int_equal(devices->n_devices, 1);
    assert_string_equal(devices->reason, "");
    assert_string_equal(devices->runtime, "emulated CUDA runtime 11.8");
    assert_string_equal(devices->devices[0].name, "emulated card");
    assert_true(devices->devices[0].usable);
    assert_true(devices->devices[0].free_bytes <= devices->devices[0].total_bytes);
    assert_int_equal(devices->n_searched, 1);
    assert_string_equal(devices->searched[0].outcome, "loaded");
    vc_result_free(devices);
    vc_result_free(NULL);
    vc_ctx_free(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_file),
        cmocka_unit_test(test_folder_without_plugin),
        cmocka_unit_test(test_relative_path),
        cmocka_unit_test(test_no_library),
        cmocka_unit_test(test_other_version),
        cmocka_unit_test(test_no_entry),
        cmocka_unit_test(test_tables_that_no_build_has),
        cmocka_unit_test(test_same_build),
        cmocka_unit_test(test_older_list),
        cmocka_unit_test(test_missing_kernels),
        cmocka_unit_test(test_newer_list),
        cmocka_unit_test(test_installed_places),
        cmocka_unit_test(test_out_of_memory),
        cmocka_unit_test(test_contexts_share_the_device),
        cmocka_unit_test(test_context_uses_the_card),
        cmocka_unit_test(test_device_list),
    };

    return cmocka_run_group_tests_name("plug-in loader", tests, NULL, NULL);
}
