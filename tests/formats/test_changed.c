/* test_changed.c - somebody changes a file while a job reads it: for every format each byte becomes another one, and
 * the file is cut there, once the model is open. Whatever the job comes upon by then, it ends with a sentence and
 * leaves nothing: no output that is of two inputs, no memory, no crash in a reader that had checked all of this before.
 * Plans that go through a header once more (layers that go, graphs that are edited, objects that are written again) are
 * here; edits of ONNX graphs are in test_onnx_edits.c. */
#include "formats_test.h"

#include <sys/stat.h>

#include "folder_builder.h"
#include "gguf_builder.h"
#include "onnx_builder.h"
#include "tasks.h"
#include "torch_files.h"

#include <vcompress/depth.h>

/* Where somebody changes the file under the job, and where it was damaged before. */
static void change_each(const char *from, const char *file, const char *to, struct task task, size_t step)
{
    struct vc_ctx *ctx = test_ctx();

    change_each_byte(ctx, from, file, to, task, step);
    damage_each_byte(ctx, from, file, to, task, step);
    vc_ctx_free(ctx);
}

static void damage_each(const char *from, const char *file, const char *to, struct task task, size_t step)
{
    struct vc_ctx *ctx = test_ctx();

    damage_each_byte(ctx, from, file, to, task, step);
    vc_ctx_free(ctx);
}

/* ---- npy and npz ---- */

static void test_npz(void **state)
{
    static const struct member_options packed = {.deflate = true, .level = 6};
    struct task deflated = task_int8();
    struct task arrays = task_int8();
    struct zip_builder z = {0};

    (void)state;
    deflated.write.deflate = VC_DEFLATE_AUTO;
    arrays.drop_other = true;
    zip_add_bytes(&z, "a.npy", npy_matrix(6, 40), NULL);
    zip_add_bytes(&z, "b.npy", npy_matrix(3, 5), &packed);
    zip_add(&z, "notes.txt", "some notes", 10, &packed);
    zip_finish(&z, ZIP_END_64, 3);
    (void)save("in.npz", &z.out);
    zip_release(&z);
    (void)save_own("in.npy", npy_matrix(6, 40));
    change_each("in.npz", "in.npz", "q.npz", task_copy(), 1);
    change_each("in.npz", "in.npz", "q.npz", deflated, 5);
    change_each("in.npz", "in.npz", "q.safetensors", arrays, 5);
    change_each("in.npy", "in.npy", "q.npz", task_fp16(), 3);
    empty_folder();
}

/* ---- layers that go ---- */

static enum vc_status drop_middle(struct vc_ctx *ctx, struct vc_job *job)
{
    struct vc_depth_options depth;

    vc_depth_defaults(&depth);
    depth.drop = "1";
    return vc_job_add_depth(ctx, job, &depth);
}

static struct task without_layer(void)
{
    struct task task = task_copy();

    task.add = drop_middle;
    return task;
}

static void add_numbers(struct gguf_builder *g, const char *key, const uint32_t *values, size_t n)
{
    struct bytes b = {NULL, 0, 0};
    size_t i;

    bytes_u32(&b, 4);
    bytes_u64(&b, n);
    for (i = 0; i < n; i++) {
        bytes_u32(&b, values[i]);
    }
    gguf_pair(g, key, 9, b.p, b.n);
    bytes_release(&b);
}

static struct bytes layers_gguf(void)
{
    static const uint64_t dims[] = {32, 4};
    static const char *const words[] = {"a", "bc"};
    struct gguf_builder g = {0};
    unsigned i;

    gguf_pair_strings(&g, "tokenizer.ggml.tokens", words, 2);
    gguf_pair_string(&g, "general.architecture", "llama");
    gguf_pair_u32(&g, "general.file_type", 0);
    gguf_pair_u32(&g, "llama.block_count", 3);
    gguf_pair_u32(&g, "llama.embedding_length", 32);
    add_numbers(&g, "llama.feed_forward_length", (const uint32_t[]){64, 96, 128}, 3);
    for (i = 0; i < 3; i++) {
        char name[40];

        (void)snprintf(name, sizeof name, "blk.%u.ffn_up.weight", i);
        gguf_tensor(&g, name, 0, 2, dims, 512);
    }
    return gguf_finish(&g);
}

static void test_gguf(void **state)
{
    struct vc_ctx *ctx = test_ctx();

    (void)state;
    (void)save_own("in.gguf", layers_gguf());
    change_each("in.gguf", "in.gguf", "q.gguf", without_layer(), 1);
    change_each("in.gguf", "in.gguf", "q.gguf", task_int8(), 7);
    fail_each_read(ctx, "in.gguf", "q.gguf", without_layer(), 3);
    fail_each_allocation(ctx, "in.gguf", "q.gguf", without_layer(), 20);
    vc_ctx_free(ctx);
    empty_folder();
}

/* ---- safetensors ---- */

static void make_layers(const char *config)
{
    struct vc_ctx *ctx = test_ctx();
    struct zip_builder z = {0};
    unsigned i;

    for (i = 0; i < 3; i++) {
        char name[60];

        (void)snprintf(name, sizeof name, "model.layers.%u.mlp.up_proj.weight.npy", i);
        zip_add_bytes(&z, name, npy_matrix(4, 64), NULL);
    }
    zip_finish(&z, ZIP_END_PLAIN, 0);
    (void)save("w.npz", &z.out);
    zip_release(&z);
    assert_int_equal(mkdir(in_folder("in"), 0700), 0);
    must_run(ctx, "w.npz", "in/model.safetensors", task_copy());
    save_text("in/config.json", config);
    vc_ctx_free(ctx);
}

/* The weights, and the configuration that is rewritten. */
static void test_folder(void **state)
{
    static const char config[] =
        "{\"model_type\": \"llama\", \"num_hidden_layers\": 3, \"layer_types\": [\"a\", \"a\", "
        "\"a\"], \"torch_dtype\": \"float32\", \"hidden_size\": 64}";
    struct task int8 = task_int8();
    struct vc_ctx *ctx = test_ctx();

    (void)state;
    int8.write.layout = "auto";
    make_layers(config);
    change_each("in", "in/model.safetensors", "out", without_layer(), 3);
    change_each("in", "in/model.safetensors", "out", int8, 5);
    change_each("in", "in/config.json", "out", without_layer(), 1);
    change_each("in", "in/config.json", "out", int8, 1);
    change_each("in", "in/config.json", "out", task_copy(), 1);
    fail_each_read(ctx, "in", "out", without_layer(), 3);
    fail_each_allocation(ctx, "in", "out", without_layer(), 20);
    vc_ctx_free(ctx);
    remove_path("in");
    empty_folder();
}

/* Shards. Their index was read and closed before: what it says later is nobody's. */
static void test_shards(void **state)
{
    struct task task = task_int8();

    (void)state;
    assert_int_equal(mkdir(in_folder("in"), 0700), 0);
    folder_fill(in_folder("in"));
    save_text("in/" FOLDER_INDEX, FOLDER_MAPPED);
    save_text("in/config.json", FOLDER_CONFIG);
    save_text("in/tokenizer.json", "{\"a\": 1}");
    task.quantize.requantize = true;
    task.write.layout = "compressed-tensors";
    change_each("in", "in/a.safetensors", "out", task, 1);
    change_each("in", "in/b.safetensors", "out", task_copy(), 1);
    change_each("in", "in/tokenizer.json", "out", task_copy(), 1);
    damage_each("in", "in/" FOLDER_INDEX, "out", task_copy(), 1);
    damage_each("in", "in/config.json", "out", task, 1);
    remove_path("in");
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
    onnx_external(&g, "far", 4, 20, "w.bin", "16", "320");
    onnx_info(&g, 11, "x");
    onnx_info(&g, 12, "i");
    (void)save_own("in.onnx", onnx_finish(&g));
    bytes_fill(&data, 0, 336);
    (void)save_own("w.bin", data);
    change_each("in.onnx", "in.onnx", "q.onnx", task_int8(), 1);
    change_each("in.onnx", "in.onnx", "q.onnx", task_fp16(), 1);
    change_each("in.onnx", "in.onnx", "q.npz", task_copy(), 3);
    change_each("in.onnx", "w.bin", "q.onnx", task_int8(), 3);
    empty_folder();
}

/* ---- PyTorch ---- */

static void test_torch(void **state)
{
    static const struct member_options packed = {.deflate = true, .level = 6};
    static const size_t numels[] = {512, 3};
    static const size_t items[] = {4, 8};
    struct bytes pickle = plain_pickle();

    (void)state;
    save_training("in.pt");
    change_each("in.pt", "in.pt", "q.pt", task_int8(), 3);
    change_each("in.pt", "in.pt", "q.npz", task_int8(), 11);
    (void)save_own("in.pt", torch_archive(&pickle, "little", plain_sizes, 2, &packed));
    change_each("in.pt", "in.pt", "q.pt", task_copy(), 3);
    (void)save_own("in.pt", torch_legacy(&pickle, numels, items, 2));
    change_each("in.pt", "in.pt", "q.pt", task_int8(), 3);
    bytes_release(&pickle);
    empty_folder();
}

/* ---- codes ---- */

/* What says how codes become values is damaged: manifests, nodes around a weight, the loader's configuration. */
static void test_codes(void **state)
{
    struct vc_ctx *ctx = test_ctx();
    struct task groups = task_int8();
    struct onnx_builder g = {.ir = 8, .opset = 21};
    struct zip_builder z = {0};

    (void)state;
    groups.quantize.granularity = VC_GRANULARITY_GROUP;
    groups.quantize.group_size = 32;
    groups.quantize.asymmetric = true;
    zip_add_bytes(&z, "w.npy", npy_matrix(2, 64), NULL);
    zip_finish(&z, ZIP_END_PLAIN, 0);
    (void)save("w.npz", &z.out);
    zip_release(&z);
    must_run(ctx, "w.npz", "c.npz", task_int8());
    must_run(ctx, "w.npz", "g.npz", groups);
    onnx_op(&g, "MatMul", "x w", "y");
    onnx_weights(&g, "w", 64, 4);
    onnx_info(&g, 11, "x");
    onnx_info(&g, 12, "y");
    (void)save_own("w.onnx", onnx_finish(&g));
    must_run(ctx, "w.onnx", "c.onnx", task_int8());
    must_run(ctx, "w.onnx", "g.onnx", groups);
    must_run(ctx, "w.onnx", "h.onnx", task_fp16());
    vc_ctx_free(ctx);
    damage_each("c.npz", "c.npz", "q.npz", task_back(), 1);
    damage_each("g.npz", "g.npz", "q.npz", task_copy(), 1);
    damage_each("c.onnx", "c.onnx", "q.onnx", task_back(), 1);
    damage_each("g.onnx", "g.onnx", "q.onnx", task_back(), 1);
    damage_each("h.onnx", "h.onnx", "q.onnx", task_back(), 1);
    empty_folder();
}

/* Folders as loaders want them: what says how their codes become values is damaged. */
static void test_loaders(void **state)
{
    static const char *const layouts[] = {"bitsandbytes", "compressed-tensors"};
    size_t i;

    (void)state;
    for (i = 0; i < 2; i++) {
        struct vc_ctx *ctx = test_ctx();
        struct task task = task_int8();
        struct zip_builder z = {0};

        zip_add_bytes(&z, "model.layers.0.mlp.up_proj.weight.npy", npy_matrix(2, 8), NULL);
        zip_finish(&z, ZIP_END_PLAIN, 0);
        (void)save("w.npz", &z.out);
        zip_release(&z);
        assert_int_equal(mkdir(in_folder("in"), 0700), 0);
        must_run(ctx, "w.npz", "in/model.safetensors", task_copy());
        (void)save_text("in/config.json", "{\"model_type\": \"llama\"}");
        task.write.layout = layouts[i];
        must_run(ctx, "in", "q", task);
        vc_ctx_free(ctx);
        damage_each("q", "q/model.safetensors", "out", task_back(), 2);
        damage_each("q", "q/config.json", "out", task_back(), 2);
        empty_folder();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_npz),    cmocka_unit_test(test_gguf),    cmocka_unit_test(test_folder),
        cmocka_unit_test(test_shards), cmocka_unit_test(test_onnx),    cmocka_unit_test(test_torch),
        cmocka_unit_test(test_codes),  cmocka_unit_test(test_loaders),
    };

    return cmocka_run_group_tests(tests, scratch_make, scratch_clear);
}
