/* onnx_jobs.c - see onnx_jobs.h. */
#include "onnx_jobs.h"

#include <sys/stat.h>

/* ---- jobs ---- */

static struct task task_of(enum what what)
{
    struct task task = what <= NBITS ? task_copy() : what == BACK ? task_back() : task_int8();

    task.quantize.requantize = true;
    task.quantize.target = what == FP16   ? VC_TARGET_F16
                           : what == BF16 ? VC_TARGET_BF16
                           : what == INT4 ? VC_TARGET_INT4
                                          : VC_TARGET_INT8;
    task.quantize.asymmetric = what == ASYMMETRIC;
    task.quantize.granularity = what == GROUPS || what == INT4 ? VC_GRANULARITY_GROUP
                                : what == TENSORS              ? VC_GRANULARITY_TENSOR
                                                               : VC_GRANULARITY_CHANNEL;
    task.quantize.granularity_given = true;
    task.quantize.group_size = what == GROUPS ? 3 : what == INT4 ? 16 : 0;
    task.dequantize.casts = true;
    task.write.relayout = what == LINEAR || what == NBITS;
    task.write.layout = what == LINEAR ? "onnx-qdq" : what == NBITS ? "onnx" : NULL;
    return task;
}

const char *beside;

enum vc_status convert(struct vc_ctx *ctx, const char *from, const char *to, enum what what, bool force)
{
    const char *emit = in_folder(beside != NULL ? beside : "");
    struct task task = task_of(what);
    struct stat st;
    enum vc_status status;

    task.write.force = force;
    task.write.emit = &emit;
    task.write.n_emit = beside != NULL ? 1 : 0;
    status = run_task(ctx, from, to, &task);
    if (status == VC_OK && stat(in_folder(to), &st) == 0 && !exists("out.onnx.data")) {
        assert_int_equal(last_report.file_after, st.st_size);
    }
    return status;
}

void must_convert(const char *from, const char *to, enum what what)
{
    struct vc_ctx *ctx = test_ctx();

    if (convert(ctx, from, to, what, true) != VC_OK) {
        fail_msg("%s", vc_ctx_message(ctx));
    }
    vc_ctx_free(ctx);
}

void must_not_convert(const char *from, const char *to, enum what what, const char *words)
{
    struct vc_ctx *ctx = test_ctx();
    bool there = exists(to);

    assert_int_not_equal(convert(ctx, from, to, what, false), VC_OK);
    expect_says(ctx, words);
    assert_int_equal(exists(to), there);
    vc_ctx_free(ctx);
}

struct bytes counting(size_t n)
{
    struct bytes b = {NULL, 0, 0};
    size_t i;

    for (i = 0; i < n / 4; i++) {
        float x = (float)(i % 251) - 100.0f;

        bytes_add(&b, &x, sizeof x);
    }
    return b;
}

void save_external(void)
{
    struct onnx_builder g = {.ir = 0};

    onnx_external(&g, "w", 20, 20, "w.bin", "16", "1600");
    onnx_external(&g, "none", 0, 20, "w.bin", "1616", "0");
    onnx_external(&g, "tiny", 1, 4, "w.bin", NULL, "16");
    onnx_weights(&g, "here", 20, 20);
    save_own("in.onnx", onnx_finish(&g));
    save_own("w.bin", counting(1616));
}

struct onnx_builder small_graph(uint64_t ir, uint64_t opset)
{
    struct onnx_builder g = {.ir = ir, .opset = opset};
    const uint64_t three[] = {3};
    struct bytes t = onnx_tensor_header("n", 7, 1, three);

    onnx_op(&g, "MatMul", "x w", "h");
    onnx_op(&g, "MatMul", "h v", "y");
    pb_text(&t, 12, "three numbers");
    pb_data(&t, 7, "\1\2\3", 3);
    onnx_weights(&g, "w", 4, 6);
    pb_message(&g.graph, 5, &t);
    onnx_weights(&g, "v", 6, 5);
    onnx_info(&g, 11, "x");
    onnx_info(&g, 12, "y");
    onnx_info(&g, 13, "h");
    bytes_add(&g.model, "\xa3\x38\x08\1\xa4\x38", 6); /* an unknown group */
    pb_text(&g.model, 6, "the last field");
    return g;
}
