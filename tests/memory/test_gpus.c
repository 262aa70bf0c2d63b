/* test_gpus.c - the catalogue of GPUs: names as people write them, files of rows, damaged ones. */
#include "scratch.h"
#include "support.h"

static struct vc_gpus *open_catalogue(struct vc_ctx *ctx, const char *path)
{
    struct vc_gpus *gpus = NULL;

    assert_int_equal(vc_gpus_open(ctx, path, &gpus), VC_OK);
    return gpus;
}

static void expect_found(struct vc_ctx *ctx, const struct vc_gpus *gpus, const char *text, const char *name,
                         unsigned count)
{
    const struct vc_gpu *gpu = NULL;
    unsigned n = 0;

    if (vc_gpus_find(ctx, gpus, text, &gpu, &n) != VC_OK) {
        fail_msg("%s", vc_ctx_message(ctx));
    }
    assert_string_equal(gpu->name, name);
    assert_int_equal(n, count);
}

static void expect_lost(struct vc_ctx *ctx, const struct vc_gpus *gpus, const char *text, const char *words)
{
    const struct vc_gpu *gpu = NULL;
    unsigned n = 0;

    assert_int_equal(vc_gpus_find(ctx, gpus, text, &gpu, &n), VC_E_ARGUMENT);
    assert_null(gpu);
    expect_says(ctx, words);
}

static void test_names(void **unused)
{
    struct vc_ctx *ctx = test_ctx();
    struct vc_gpus *gpus = open_catalogue(ctx, NULL);

    (void)unused;
    expect_found(ctx, gpus, "RTX 3060", "GeForce RTX 3060 12GB", 1);
    expect_found(ctx, gpus, "rtx3060 12 gb", "GeForce RTX 3060 12GB", 1);
    expect_found(ctx, gpus, "NVIDIA GeForce RTX 3060 Ti:2", "GeForce RTX 3060 Ti", 2);
    expect_found(ctx, gpus, "t4", "Tesla T4", 1);
    expect_found(ctx, gpus, "a100-sxm4-80gb:8", "A100 SXM4 80GB", 8);
    expect_found(ctx, gpus, "H200", "H200 SXM 141GB", 1);
    expect_found(ctx, gpus, "L40", "L40", 1);
    expect_found(ctx, gpus, "L40S", "L40S", 1);
    expect_found(ctx, gpus, "p4d.24xlarge", "A100 SXM4 40GB", 8);
    expect_found(ctx, gpus, "P4D.24XLARGE:2", "A100 SXM4 40GB", 16);
    expect_found(ctx, gpus, "g5.48xlarge", "A10G", 8);
    expect_found(ctx, gpus, "NVIDIA GeForce RTX 4070 Laptop GPU", "GeForce RTX 4070 Laptop", 1);
    expect_found(ctx, gpus, "NVIDIA GeForce RTX 3050 Ti Laptop GPU", "GeForce RTX 3050 Ti Laptop", 1);
    expect_found(ctx, gpus, "NVIDIA GeForce RTX 5050 Laptop GPU", "GeForce RTX 5050 Laptop", 1);
    expect_found(ctx, gpus, "NVIDIA GeForce RTX 5050", "GeForce RTX 5050", 1);
    expect_found(ctx, gpus, "NVIDIA RTX PRO 6000 Blackwell Workstation Edition", "RTX PRO 6000 Blackwell Workstation",
                 1);
    expect_found(ctx, gpus, "NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition",
                 "RTX PRO 6000 Blackwell Max-Q Workstation", 1);
    expect_found(ctx, gpus, "NVIDIA RTX PRO 6000 Blackwell Server Edition", "RTX PRO 6000 Blackwell Server", 1);
    expect_found(ctx, gpus, "NVIDIA RTX PRO 5000 Blackwell Generation Laptop GPU", "RTX PRO 5000 Blackwell Laptop", 1);
    expect_found(ctx, gpus, "NVIDIA RTX 6000 Ada Generation", "RTX 6000 Ada", 1);
    expect_found(ctx, gpus, "NVIDIA A100 80GB PCIe", "A100 PCIe 80GB", 1);
    expect_found(ctx, gpus, "NVIDIA H100 80GB HBM3", "H100 SXM5 80GB", 1);
    expect_found(ctx, gpus, "NVIDIA RTX PRO 5000 Blackwell", "RTX PRO 5000 Blackwell 48GB", 1);
    expect_found(ctx, gpus, "NVIDIA L4", "L4", 1);
    expect_found(ctx, gpus, "NVIDIA B200", "B200", 1);
    expect_lost(ctx, gpus, "NVIDIA RTX 5000 Ada Generation Laptop GPU", "no GPU is called");
    expect_lost(ctx, gpus, "A100", "'A100' could be any of A100 SXM4 40GB, A100 PCIe 40GB, A100 SXM4 80GB");
    expect_lost(ctx, gpus, "RTX 4060 Ti", "GeForce RTX 4060 Ti 8GB, GeForce RTX 4060 Ti 16GB");
    expect_lost(ctx, gpus, "RTX 9999", "no GPU is called 'RTX 9999'; near it: ");
    /* Names with as many of the words are listed by their letters, the nearest first. */
    expect_lost(ctx, gpus, "RTX 406",
                "no GPU is called 'RTX 406'; near it: GeForce RTX 4060, GeForce RTX 4060 Ti 8GB, ");
    expect_lost(ctx, gpus, "rtx 4o90", "near it: GeForce RTX 4090, ");
    expect_lost(ctx, gpus, "rtx 406", "near it: GeForce RTX 4060, GeForce RTX 4060 Ti 8GB, ");
    /* Names that are all meant stay in the order of the catalogue. */
    expect_lost(ctx, gpus, "Orin", "could be any of Jetson AGX Orin 64GB, Jetson AGX Orin 32GB, Jetson Orin NX 16GB, ");
    expect_lost(ctx, gpus, "fpga", "no GPU is called 'fpga'");
    expect_lost(ctx, gpus, "", "no GPU is called ''");
    expect_lost(ctx, gpus, "nvidia", "no GPU is called 'nvidia'");
    expect_lost(ctx, gpus, "T4:0", "how many there are");
    expect_lost(ctx, gpus, "T4:", "how many there are");
    expect_lost(ctx, gpus, "T4:2x", "how many there are");
    vc_result_free(gpus);
    test_ctx_done(ctx);
}

/* Every row is found by its own name and by each of its aliases, so no two have one in common. */
static void test_all_names(void **unused)
{
    struct vc_ctx *ctx = test_ctx();
    struct vc_gpus *gpus = open_catalogue(ctx, NULL);
    const struct vc_gpu *gpu;
    size_t n_gtx = 0;
    char more[32];
    size_t k;

    (void)unused;
    for (k = 0; (gpu = vc_gpu(gpus, k)) != NULL; k++) {
        const struct vc_gpu *card = gpu->of != NULL ? gpu->of : gpu;

        expect_found(ctx, gpus, gpu->name, card->name, gpu->count);
        for (size_t i = 0; i < gpu->n_aliases; i++) {
            expect_found(ctx, gpus, gpu->aliases[i], card->name, gpu->count);
        }
        assert_true(vc_gpu_matches(gpu, gpu->name));
        n_gtx += strstr(gpu->name, " GTX ") != NULL;
        if (gpu->of == NULL) {
            double gb = (double)gpu->visible_bytes / (1 << 30);

            assert_true(gb < gpu->memory_gb * 1.02 && gb > gpu->memory_gb * 0.85 - 0.5);
        }
    }
    assert_int_equal(k, vc_gpus_count(gpus));
    assert_true(k > 150);
    (void)snprintf(more, sizeof more, ", and %zu more", n_gtx - 8); /* eight are listed */
    expect_lost(ctx, gpus, "GTX", more);
    vc_result_free(gpus);
    test_ctx_done(ctx);
}

/* The three ways by which the memory that a program sees is known. */
static void test_memory(void **unused)
{
    struct vc_ctx *ctx = test_ctx();
    struct vc_gpus *gpus = open_catalogue(ctx, NULL);
    const uint64_t mib = 1 << 20;
    const struct vc_gpu *gpu;
    unsigned n;

    (void)unused;
    assert_int_equal(vc_gpus_find(ctx, gpus, "RTX 4090", &gpu, &n), VC_OK);
    assert_int_equal(gpu->visible_bytes, 24210 * mib);
    assert_int_equal(gpu->visible_from, VC_GPU_FROM_CUDA);
    assert_int_equal(vc_gpus_find(ctx, gpus, "T4", &gpu, &n), VC_OK);
    assert_int_equal(gpu->visible_bytes, (15360 - 512) * mib);
    assert_int_equal(gpu->visible_from, VC_GPU_FROM_DRIVER);
    assert_int_equal(vc_gpus_find(ctx, gpus, "H200", &gpu, &n), VC_OK);
    assert_int_equal(gpu->visible_bytes, (143771 - 768) * mib);
    assert_int_equal(vc_gpus_find(ctx, gpus, "RTX 4070 Ti", &gpu, &n), VC_OK);
    assert_int_equal(gpu->visible_bytes, (uint64_t)(12 * 0.99 * 1024 * (double)mib) - 512 * mib);
    assert_int_equal(gpu->visible_from, VC_GPU_FROM_NAME);
    vc_result_free(gpus);
    test_ctx_done(ctx);
}

/* The catalogue as a file reads back to the same catalogue, and to the same file. */
static void test_round_trip(void **unused)
{
    struct vc_ctx *ctx = test_ctx();
    struct vc_gpus *gpus = open_catalogue(ctx, NULL);
    struct vc_gpus *again;
    char *first = NULL;
    char *second = NULL;

    (void)unused;
    assert_int_equal(vc_gpus_csv(ctx, gpus, NULL, &first), VC_OK);
    again = open_catalogue(ctx, save_text("all.csv", first));
    assert_int_equal(vc_gpus_count(again), vc_gpus_count(gpus));
    assert_int_equal(vc_gpus_csv(ctx, again, NULL, &second), VC_OK);
    assert_string_equal(first, second);
    vc_text_free(first);
    vc_text_free(second);
    vc_result_free(gpus);
    vc_result_free(again);
    test_ctx_done(ctx);
    remove_path("all.csv");
}

static void test_file(void **unused)
{
    struct vc_ctx *ctx = test_ctx();
    struct vc_gpus *gpus;
    size_t n = 0;

    (void)unused;
    gpus = open_catalogue(ctx, NULL);
    n = vc_gpus_count(gpus);
    vc_result_free(gpus);
    gpus = open_catalogue(ctx, save_text("more.csv", "# ours\nmemory_gb,name,cuda_mib,aliases,note\r\n\r\n"
                                                     "20,\"Card, big\",20000.5,\"b 1;b 2\",\"a \"\"b\"\"\"\n"
                                                     "23,GeForce RTX 4090,\n"));
    assert_int_equal(vc_gpus_count(gpus), n + 1);
    expect_found(ctx, gpus, "card big", "Card, big", 1);
    expect_found(ctx, gpus, "B2", "Card, big", 1);
    assert_string_equal(vc_gpu(gpus, n)->note, "a \"b\"");
    assert_int_equal(vc_gpu(gpus, n)->visible_bytes, ((uint64_t)20000 << 20) + (1 << 19));
    expect_found(ctx, gpus, "RTX 4090", "GeForce RTX 4090", 1);
    vc_result_free(gpus);
    gpus = open_catalogue(ctx, save_text("more.csv", "name,of\nbox,T4:3\nrack,box:2\n"));
    expect_found(ctx, gpus, "rack", "Tesla T4", 6);
    vc_result_free(gpus);
    test_ctx_done(ctx);
    remove_path("more.csv");
}

static void test_damaged(void **unused)
{
    static const struct {
        const char *text, *words;
    } cases[] = {
        {"name\nx\n", "line 1: the first line has the titles"},
        {"name,size\nx,1\n", "line 1: column 'size' is none"},
        {"name,name,memory_gb\n", "line 1: column 'name' is there twice"},
        {"name,memory_gb\n\"x,12\n", "line 2: field 1: the quotation marks"},
        {"name,memory_gb\n\"x\"y,12\n", "line 2: field 1: the quotation marks"},
        {"name,memory_gb\nx,1,2\n", "line 2: has more than 2 fields"},
        {"name,memory_gb\n,12\n", "line 2: has no name"},
        {"name,memory_gb\nx,\n", "line 2: 'x' has no memory"},
        {"name,memory_gb\nx,0\n", "line 2: 'x' has no memory"},
        {"name,memory_gb\nx,-1\n", "memory_gb: '-1' is no number"},
        {"name,memory_gb\nx,1e3\n", "memory_gb: '1e3' is no number"},
        {"name,memory_gb\nx,.5\n", "memory_gb: '.5' is no number"},
        {"name,memory_gb\nx,5.\n", "memory_gb: '5.' is no number"},
        {"name,memory_gb\nx,1234567890\n", "is no number"},
        {"name,memory_gb,types\nx,1,fp16 fp12\n", "types: 'fp12' is unknown"},
        {"name,memory_gb,types\nx,1,?fp16\n", "types: '?fp16' is unknown"},
        {"name,of\nx,nothing:2\n", "of: no row before this row has the GPU 'nothing:2'"},
        {"name,of\nTesla T4,T4:2\n", "would consist of itself"},
    };
    struct vc_ctx *ctx = test_ctx();
    struct vc_gpus *gpus = NULL;
    char line[5000];

    (void)unused;
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        assert_int_equal(vc_gpus_open(ctx, save_text("bad.csv", cases[k].text), &gpus), VC_E_FORMAT);
        assert_null(gpus);
        expect_says(ctx, cases[k].words);
        expect_says(ctx, "bad.csv: line ");
    }
    memset(line, 'a', sizeof line - 1);
    line[sizeof line - 1] = '\0';
    assert_int_equal(vc_gpus_open(ctx, save_text("bad.csv", line), &gpus), VC_E_FORMAT);
    expect_says(ctx, "line 1: is longer than 4094 bytes");
    remove_path("bad.csv");
    assert_int_equal(vc_gpus_open(ctx, in_folder("bad.csv"), &gpus), VC_E_IO);
    expect_says(ctx, "bad.csv: No such file");
    test_ctx_done(ctx);
}

/* Every allocation fails once. */
static void test_no_memory(void **unused)
{
    struct vc_ctx *ctx = test_ctx();
    const char *path = save_text("more.csv", "name,memory_gb,aliases\nx,1,a;b\n");
    struct vc_gpus *gpus = NULL;
    enum vc_status status = VC_E_NOMEM;
    size_t n;

    (void)unused;
    for (n = 1; status == VC_E_NOMEM; n += TEST_STRIDE) {
        vc_pool_fail_at(ctx->shared->pool, n, 0);
        status = vc_gpus_open(ctx, path, &gpus);
        vc_pool_fail_at(ctx->shared->pool, 0, 0);
    }
    assert_int_equal(status, VC_OK);
    assert_true(n > 4);
    vc_result_free(gpus);
    test_ctx_done(ctx);
    remove_path("more.csv");
}

/* Slices are less than their share, ECC takes a sixteenth of GDDR and nothing of HBM, and nothing twice. */
static void test_parts(void **unused)
{
    struct vc_ctx *ctx = test_ctx();
    struct vc_gpus *gpus = NULL;
    const struct vc_gpu *gpu;
    unsigned count;

    (void)unused;
    assert_int_equal(vc_gpus_open(ctx, NULL, &gpus), VC_OK);
    for (size_t k = 0; (gpu = vc_gpu(gpus, k)) != NULL; k++) {
        uint64_t listed = gpu->visible_bytes;
        uint64_t on = vc_gpu_part_bytes(gpu, VC_GPU_ECC_ON, 1, 1);
        uint64_t off = vc_gpu_part_bytes(gpu, VC_GPU_ECC_OFF, 1, 1);

        assert_int_equal(vc_gpu_part_bytes(gpu, VC_GPU_ECC_AS_LISTED, 1, 1), listed);
        assert_true(on <= listed && listed <= off);
        assert_true(on == listed || off == listed);
        assert_true(vc_gpu_part_bytes(gpu, VC_GPU_ECC_AS_LISTED, 3, 8) <= listed * 3 / 8);
        if (strncmp(gpu->memory_type, "HBM", 3) == 0) {
            assert_true(on == listed && off == listed);
        }
    }
    assert_int_equal(vc_gpus_find(ctx, gpus, "RTX A6000", &gpu, &count), VC_OK);
    assert_true(vc_gpu_part_bytes(gpu, VC_GPU_ECC_ON, 1, 1) < gpu->visible_bytes); /* listed without */
    assert_int_equal(vc_gpus_find(ctx, gpus, "L40S", &gpu, &count), VC_OK);
    assert_true(vc_gpu_part_bytes(gpu, VC_GPU_ECC_OFF, 1, 1) > gpu->visible_bytes); /* listed with it */
    assert_int_equal(vc_gpu_part_bytes(gpu, VC_GPU_ECC_OFF, 0, 8), 0);
    vc_result_free(gpus);
    test_ctx_done(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parts),   cmocka_unit_test(test_names),      cmocka_unit_test(test_all_names),
        cmocka_unit_test(test_memory),  cmocka_unit_test(test_round_trip), cmocka_unit_test(test_file),
        cmocka_unit_test(test_damaged), cmocka_unit_test(test_no_memory),
    };

    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
