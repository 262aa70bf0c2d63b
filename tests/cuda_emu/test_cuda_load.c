/* test_cuda_load.c - what the loader of the plug-in says when there is none, a wrong one, and with the emulated card.
 * A plug-in that was loaded stays, so refusals come first. Paths of plug-ins come from the build. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include <vcompress/vcompress.h>

#include "kernels/cuda_load.h"

static struct vc_ctx *new_ctx(void)
{
    struct vc_ctx *ctx = NULL;

    assert_int_equal(vc_ctx_create(&ctx), VC_OK);
    return ctx;
}

static void refused(const char *path, const char *words)
{
    struct vc_ctx *ctx = new_ctx();
    struct vc_devices *devices = NULL;
    struct vc_kernels table;

    assert_int_equal(setenv("VCOMPRESS_BACKEND_PATH", path, 1), 0);
    assert_int_equal(vc_cuda_load(ctx, 0, &table), VC_E_DEVICE);
    assert_non_null(strstr(vc_ctx_message(ctx), path));
    assert_non_null(strstr(vc_ctx_message(ctx), words));
    assert_null(strchr(vc_ctx_message(ctx), '\n'));

    assert_int_equal(vc_devices_list(ctx, &devices), VC_OK);
    assert_int_equal(devices->n_devices, 0);
    assert_int_equal(devices->n_searched, 1);
    assert_non_null(strstr(devices->searched[0].outcome, words));
    assert_string_not_equal(devices->reason, "");
    assert_string_equal(devices->runtime, "");
    vc_devices_free(devices);
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
    refused(EMU_WRONG_ABI, "made for another version (ABI 3");
}

static void test_no_entry(void **state)
{
    (void)state;
    refused(EMU_WRONG_ENTRY, "no function vc_backend_entry");
}

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
    vc_devices_free(devices);
    vc_ctx_free(ctx);
}

static void test_out_of_memory(void **state)
{
    struct vc_ctx *ctx = new_ctx();
    struct vc_devices *devices = NULL;
    struct vc_kernels table;

    (void)state;
    for (uint64_t n = 1; n <= 2; n++) {
        vc_pool_fail_at(ctx->shared->pool, n, 0);
        assert_int_equal(vc_cuda_load(ctx, 0, &table), VC_E_NOMEM);
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

    (void)state;
    assert_int_equal(setenv("VCOMPRESS_BACKEND_PATH", EMU_PLUGIN, 1), 0);
    assert_int_equal(vc_cuda_load(a, 0, &table_a), VC_OK);
    assert_string_equal(table_a.device, "cuda:0 emulated card");
    assert_int_equal(vc_cuda_load(b, 0, &table_b), VC_OK);
    assert_memory_equal(&table_a, &table_b, sizeof table_a);
    assert_true(device_kib(a) > 0);
    assert_true(device_kib(b) == 0);
    vc_cuda_unload(a); /* b counts what the device holds from now on */
    assert_true(device_kib(a) == 0);
    assert_true(device_kib(b) > 0);
    assert_int_equal(vc_cuda_load(a, 1, &table_a), VC_E_DEVICE);
    assert_non_null(strstr(vc_ctx_message(a), "cuda:0 is in use"));
    vc_cuda_unload(b);
    assert_true(device_kib(b) == 0);
    assert_int_equal(vc_cuda_load(a, 1, &table_a), VC_E_DEVICE);
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
    vc_devices_free(devices);
    vc_devices_free(NULL);
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
        cmocka_unit_test(test_installed_places),
        cmocka_unit_test(test_out_of_memory),
        cmocka_unit_test(test_contexts_share_the_device),
        cmocka_unit_test(test_context_uses_the_card),
        cmocka_unit_test(test_device_list),
    };

    return cmocka_run_group_tests_name("plug-in loader", tests, NULL, NULL);
}
