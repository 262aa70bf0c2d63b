/* test_disk_faults.c - a disk that fails once, and memory that does: for every format, each read of the input, each
 * call that writes and each allocation fails in turn. The call says so in one sentence with the right status, gives all
 * memory back and leaves no half output; the next one works. Sources are the small files of the builders. */
#include "formats_test.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "folder_builder.h"
#include "formats/io/outfile.h"
#include "gguf_builder.h"
#include "onnx_builder.h"
#include "tasks.h"
#include "torch_files.h"

/* Every kind of failure once, for each call. */
static void fail_all(const char *from, const char *to, struct task task)
{
    struct vc_ctx *ctx = test_ctx();

    fail_each_read(ctx, from, to, task, 2);
    fail_each_write(ctx, from, to, task, 4);
    fail_each_allocation(ctx, from, to, task, 20);
    remove_path(to);
    vc_ctx_free(ctx);
}

/* Where the file system has no unnamed files, where the process may have few descriptors, and over an older output. */
static void fail_all_ways(const char *from, const char *to, struct task task)
{
    struct rlimit before;
    struct rlimit few;
    int fd = open("/dev/null", O_RDONLY);

    fail_all(from, to, task);
    vc_outfile_no_unnamed(true);
    fail_all(from, to, task);
    task.over_older = true;
    fail_all(from, to, task);
    vc_outfile_no_unnamed(false);
    fail_all(from, to, task);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    few = before;
    few.rlim_cur = 2 * (rlim_t)fd + 10; /* half of them are taken at the first files of the job */
    (void)close(fd);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    fail_all(from, to, task);
    task.over_older = false;
    fail_all(from, to, task);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
}

static struct task deflated(struct task task)
{
    task.write.deflate = VC_DEFLATE_AUTO;
    return task;
}

static struct task layout(struct task task, const char *name)
{
    task.write.layout = name;
    return task;
}

static struct task casts_back(void)
{
    struct task task = task_back();

    task.dequantize.casts = true;
    return task;
}

/* ---- npy and npz ---- */

static void test_npz(void **state)
{
    static const struct member_options packed = {.deflate = true, .level = 6};
    static const unsigned char values[48] = {0x3f, 0xf0};
    struct task dropped = task_copy();
    struct zip_builder z = {0};

    (void)state;
    zip_add_bytes(&z, "a.npy", npy_matrix(6, 40), NULL);
    zip_add_bytes(&z, "b.npy", npy_matrix(3, 5), &packed);
    zip_add_bytes(&z, "f.npy", npy_array(">f8", true, "(2, 3)", values, 48), &packed);
    zip_add(&z, "notes.txt", "some notes", 10, &packed);
    zip_finish(&z, ZIP_END_64, 3);
    (void)save("in.npz", &z.out);
    zip_release(&z);
    (void)save_own("in.npy", npy_matrix(6, 40));
    fail_all_ways("in.npz", "q.npz", task_int8());
    fail_all_ways("in.npz", "q.npz", deflated(task_int8()));
    fail_all("in.npz", "q.npz", deflated(task_copy()));
    dropped.drop_other = true;
    fail_all("in.npz", "q.safetensors", dropped);
    fail_all("in.npy", "q.npz", task_fp16());
    fail_all("in.npy", "q.npy", task_fp16());
    empty_folder();
}

/* ---- safetensors ---- */

static void make_folder(const char *config)
{
    char path[300];

    snprintf(path, sizeof path, "%s", in_folder("in"));
    assert_int_equal(mkdir(path, 0700), 0);
    folder_fill(path);
    folder_write(path, FOLDER_INDEX, FOLDER_MAPPED, strlen(FOLDER_MAPPED));
    folder_write(path, "config.json", config, strlen(config));
    folder_write(path, "tokenizer.json", "{}", 2);
    folder_write(path, "empty.txt", "", 0);
    folder_write(path, "old.bin", "x", 1);
}

static struct task requantize(struct task task)
{
    task.quantize.requantize = true;
    return task;
}

static void test_folders(void **state)
{
    struct task divided = layout(requantize(task_int8()), "compressed-tensors");

    (void)state;
    divided.write.max_shard_bytes = 100;
    make_folder(FOLDER_CONFIG);
    fail_all_ways("in", "out", task_copy());
    fail_all("in", "out", layout(requantize(task_int8()), "compressed-tensors"));
    fail_all_ways("in", "out", divided);
    fail_all("in", "out", casts_back());
    fail_all("in", "q.safetensors", layout(requantize(task_int8()), "plain"));
    fail_all("in", "q.npz", task_copy());
    remove_path("in");
}

/* Two matrices that a layer could have, and a norm. */
static void save_layers(const char *name)
{
    struct zip_builder z = {0};

    zip_add_bytes(&z, "l.q.weight.npy", npy_matrix(4, 64), NULL);
    zip_add_bytes(&z, "l.k.weight.npy", npy_matrix(4, 64), NULL);
    zip_add_bytes(&z, "norm.npy", npy_matrix(1, 7), NULL);
    zip_finish(&z, ZIP_END_PLAIN, 0);
    (void)save(name, &z.out);
    zip_release(&z);
}

/* A folder whose config.json gets another type, or says what is int8. */
static void test_configs(void **state)
{
    static const char config[] = "{\"model_type\": \"bert\", \"torch_dtype\": \"float32\", \"dtype\": \"float32\"}";
    struct vc_ctx *ctx = test_ctx();
    struct task bf16 = task_fp16();
    struct task back = task_back();

    (void)state;
    assert_int_equal(mkdir(in_folder("in"), 0700), 0);
    save_layers("in.npz");
    must_run(ctx, "in.npz", "in/model.safetensors", task_copy());
    folder_write(in_folder("in"), "config.json", config, sizeof config - 1);
    fail_all("in", "out", task_fp16());
    bf16.quantize.target = VC_TARGET_BF16;
    must_run(ctx, "in", "h", bf16);
    assert_true(holds("h/config.json", "\"torch_dtype\": \"bfloat16\", \"dtype\": \"bfloat16\""));
    back.dequantize.casts = true;
    must_run(ctx, "h", "b", back);
    expect_same("b/config.json", "in/config.json");
    remove_path("h");
    remove_path("b");
    fail_all_ways("in", "out", layout(task_int8(), "auto"));
    fail_all("in", "out", layout(task_int8(), "bitsandbytes"));
    remove_path("in");
    vc_ctx_free(ctx);
    empty_folder();
}

/* One file with a config.json beside it, and codes of layouts as sources. */
static void test_single(void **state)
{
    static const char *const layouts[] = {"plain", "compressed-tensors", "bitsandbytes"};
    struct vc_ctx *ctx = test_ctx();
    struct task nested = layout(task_int8(), "bitsandbytes");
    struct task zeros = layout(task_int8(), "compressed-tensors");
    size_t i;

    (void)state;
    save_layers("in.npz");
    nested.quantize.target = VC_TARGET_NF4;
    nested.quantize.granularity = VC_GRANULARITY_GROUP;
    nested.quantize.group_size = 32;
    nested.quantize.double_quant = true;
    fail_all("in.npz", "q.safetensors", nested);
    zeros.quantize.asymmetric = true;
    fail_all("in.npz", "q.safetensors", zeros);
    for (i = 0; i < 5; i++) {
        must_run(ctx, "in.npz", "in.safetensors", i == 4 ? zeros : i == 3 ? nested : layout(task_int8(), layouts[i]));
        fail_all("in.safetensors", "q.safetensors", task_back());
        fail_all("in.safetensors", "q.safetensors", task_copy());
    }
    vc_ctx_free(ctx);
    empty_folder();
}

/* ---- GGUF ---- */

static void add_tensors(struct gguf_builder *g, const char *prefix)
{
    static const uint64_t dims[] = {32, 4};
    static const char *const words[] = {"a", "bc"};
    char name[32];

    gguf_pair_string(g, "general.architecture", "llama");
    gguf_pair_u32(g, "general.file_type", 0);
    gguf_pair_strings(g, "tokenizer.ggml.tokens", words, 2);
    snprintf(name, sizeof name, "%s.w.weight", prefix);
    gguf_tensor(g, name, 0, 2, dims, 512);
    snprintf(name, sizeof name, "%s.h.weight", prefix);
    gguf_tensor(g, name, 1, 2, dims, 256);
}

static void test_gguf(void **state)
{
    struct gguf_builder g = {0};
    unsigned i;

    (void)state;
    add_tensors(&g, "blk.0");
    (void)save_own("in.gguf", gguf_finish(&g));
    fail_all_ways("in.gguf", "q.gguf", task_int8());
    fail_all("in.gguf", "q.gguf", task_fp16());
    fail_all("in.gguf", "q.npz", task_copy());
    for (i = 0; i < 2; i++) {
        char name[40];
        unsigned char v[4] = {(unsigned char)i, 0, 0, 0};

        add_tensors(&g, i == 0 ? "blk.0" : "blk.1");
        gguf_pair(&g, "split.no", 2, v, 2);
        gguf_pair(&g, "split.count", 2, "\2", 2);
        gguf_pair(&g, "split.tensors.count", 5, "\4\0\0", 4);
        snprintf(name, sizeof name, "m-%05u-of-00002.gguf", i + 1);
        (void)save_own(name, gguf_finish(&g));
    }
    fail_all_ways("m-00001-of-00002.gguf", "out", task_copy());
    fail_all("m-00002-of-00002.gguf", "q.gguf", task_int8());
    empty_folder();
}

/* ---- ONNX ---- */

static void test_onnx(void **state)
{
    static const char *const branches[] = {"then_branch", "else_branch"};
    struct onnx_builder inner[2] = {{.ir = 0}, {.ir = 0}};
    struct onnx_builder g = {.ir = 8, .opset = 17};
    struct bytes data = {NULL, 0, 0};
    size_t i;

    (void)state;
    for (i = 0; i < 2; i++) {
        onnx_op(&inner[i], "MatMul", "x w", i == 0 ? "a" : "b");
        onnx_weights(&inner[i], "w", 4, 8);
    }
    onnx_op(&g, "MatMul", "x v", "h");
    onnx_outer(&g, "If", "n", "c", "i", branches, inner, 2);
    onnx_weights(&g, "v", 4, 6);
    onnx_info(&g, 11, "x");
    onnx_info(&g, 12, "i");
    (void)save_own("in.onnx", onnx_finish(&g));
    fail_all("in.onnx", "q.onnx", task_int8());
    fail_all("in.onnx", "q.onnx", task_fp16());
    fail_all("in.onnx", "q.npz", task_copy());
    onnx_external(&g, "w", 4, 20, "w.bin", "16", "320");
    onnx_weights(&g, "here", 4, 20);
    (void)save_own("in.onnx", onnx_finish(&g));
    bytes_fill(&data, 0, 336);
    (void)save_own("w.bin", data);
    fail_all_ways("in.onnx", "q.onnx", task_copy());
    fail_all("in.onnx", "q.onnx", task_int8());
    empty_folder();
}

/* ---- PyTorch ---- */

static void save_torch(const char *name, const struct member_options *options, bool legacy)
{
    static const size_t numels[] = {512, 3};
    static const size_t items[] = {4, 8};
    struct bytes pickle = plain_pickle();

    (void)save_own(name, legacy ? torch_legacy(&pickle, numels, items, 2)
                                : torch_archive(&pickle, "little", plain_sizes, 2, options));
    bytes_release(&pickle);
}

static void test_torch(void **state)
{
    static const struct member_options packed = {.deflate = true, .level = 6};
    struct task dropped = task_fp16();

    (void)state;
    dropped.quantize.overflow = VC_OVERFLOW_SATURATE;
    dropped.drop_optimizer = true;
    dropped.drop_other = true;
    save_training("in.pt");
    fail_all("in.pt", "q.pt", task_int8());
    fail_all("in.pt", "q.pt", dropped);
    fail_all("in.pt", "q.npz", task_int8());
    fail_all("in.pt", "q.safetensors", dropped);
    save_torch("in.pt", &packed, false);
    fail_all_ways("in.pt", "q.pt", task_copy());
    save_torch("in.pt", NULL, true);
    fail_all("in.pt", "q.pt", task_int8());
    empty_folder();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_npz),    cmocka_unit_test(test_folders), cmocka_unit_test(test_configs),
        cmocka_unit_test(test_single), cmocka_unit_test(test_gguf),    cmocka_unit_test(test_onnx),
        cmocka_unit_test(test_torch),
    };

    return cmocka_run_group_tests(tests, scratch_make, scratch_clear);
}
