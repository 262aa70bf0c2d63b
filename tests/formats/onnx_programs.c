/* onnx_programs.c - see onnx_programs.h. */
#include "onnx_programs.h"

enum vc_status read_program(struct vc_ctx *ctx, struct vc_arena *arena, struct vc_model **model,
                            struct vc_program *program)
{
    enum vc_status status = vc_model_open(ctx, in_folder("in.onnx"), NULL, model);

    return status == VC_OK ? vc_model_program(ctx, *model, arena, program) : status;
}

void expect_program(struct onnx_builder *g, void (*look)(const struct vc_program *program))
{
    struct vc_ctx *ctx = test_ctx();
    struct vc_model *model = NULL;
    struct vc_arena arena = {0};
    struct vc_program program;

    save_own("in.onnx", onnx_finish(g));
    if (read_program(ctx, &arena, &model, &program) != VC_OK) {
        fail_msg("%s", vc_ctx_message(ctx));
    }
    assert_int_equal(program.kind, VC_PROGRAM_NODES);
    look(&program);
    vc_arena_release(ctx, &arena);
    vc_model_close(model);
    test_ctx_done(ctx);
    remove_path("in.onnx");
}

void expect_refused(struct onnx_builder *g, enum vc_status expected, const char *words)
{
    struct vc_ctx *ctx = test_ctx();
    struct vc_model *model = NULL;
    struct vc_arena arena = {0};
    struct vc_program program;
    enum vc_status status;

    save_own("in.onnx", onnx_finish(g));
    status = vc_model_open(ctx, in_folder("in.onnx"), NULL, &model); /* functions are read then, too */
    if (status == VC_OK) {
        status = vc_model_program(ctx, model, &arena, &program);
    }
    if (status != expected) {
        fail_msg("not refused, \"%s\": %s", words, vc_ctx_message(ctx));
    }
    expect_says(ctx, words);
    vc_arena_release(ctx, &arena);
    vc_model_close(model);
    test_ctx_done(ctx);
    remove_path("in.onnx");
}

static void pb_fixed32(struct bytes *b, unsigned field, uint32_t v)
{
    pb_varint(b, (uint64_t)field << 3 | 5);
    bytes_u32(b, v);
}

void pb_float(struct bytes *b, unsigned field, float f)
{
    uint32_t bits;

    memcpy(&bits, &f, 4);
    pb_fixed32(b, field, bits);
}

void add_node(struct onnx_builder *g, struct bytes *attribute)
{
    struct bytes node = {NULL, 0, 0};

    pb_text(&node, 1, "x");
    pb_text(&node, 2, "y");
    pb_text(&node, 4, "Op");
    pb_message(&node, 5, attribute);
    pb_message(&g->graph, 1, &node);
}

struct bytes named(const char *name, unsigned type)
{
    struct bytes b = {NULL, 0, 0};

    pb_text(&b, 1, name);
    if (type != 0) {
        pb_int(&b, 20, type);
    }
    return b;
}

void add_tensor(struct onnx_builder *g, struct bytes *tensor)
{
    struct bytes a = named("t", 4);

    pb_message(&a, 5, tensor);
    add_node(g, &a);
}
