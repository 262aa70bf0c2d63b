/* test_onnx_program.c - what an ONNX file says its model computes, as records (core/model/program.h): every kind of
 * attribute, in each way that it can be written, inputs and outputs, tensors, functions; failing allocations and reads.
 * Judged by the bytes that the test writes. What is damaged: test_onnx_damage.c. */
#include "formats/io/infile.h"
#include "onnx_programs.h"

/* ---- attributes ---- */

static void look_at_numbers(const struct vc_program *program)
{
    static const struct {
        const char *name;
        enum vc_program_attr_kind kind;
    } expected[] = {{"i", VC_PROGRAM_INT},           {"f", VC_PROGRAM_FLOAT},
                    {"s", VC_PROGRAM_STRING},        {"empty", VC_PROGRAM_STRING},
                    {"ints", VC_PROGRAM_INTS},       {"packed", VC_PROGRAM_INTS},
                    {"floats", VC_PROGRAM_FLOATS},   {"packed floats", VC_PROGRAM_FLOATS},
                    {"strings", VC_PROGRAM_STRINGS}, {"none", VC_PROGRAM_INTS}};
    const struct vc_program_node *nodes = program->nodes;

    assert_int_equal(program->n_nodes, 10);
    for (size_t k = 0; k < 10; k++) {
        assert_int_equal(nodes[k].n_attrs, 1);
        assert_string_equal(nodes[k].attrs[0].name, expected[k].name);
        assert_int_equal(nodes[k].attrs[0].kind, expected[k].kind);
        assert_string_equal(nodes[k].op, "Op");
        assert_string_equal(nodes[k].name, "");
        assert_int_equal(nodes[k].n_inputs, 1);
        assert_string_equal(nodes[k].inputs[0], "x");
        assert_int_equal(nodes[k].n_outputs, 1);
        assert_string_equal(nodes[k].outputs[0], "y");
    }
    assert_int_equal(nodes[0].attrs[0].i, -3);
    assert_true(nodes[1].attrs[0].f == 0.5);
    assert_int_equal(nodes[2].attrs[0].n, 3);
    assert_memory_equal(nodes[2].attrs[0].s, "a\0b", 4);
    assert_string_equal(nodes[3].attrs[0].s, "");
    assert_int_equal(nodes[4].attrs[0].n, 3);
    assert_int_equal(nodes[4].attrs[0].ints[0], 1);
    assert_int_equal(nodes[4].attrs[0].ints[1], -1);
    assert_int_equal(nodes[4].attrs[0].ints[2], INT64_MAX);
    assert_int_equal(nodes[5].attrs[0].n, 4);
    assert_int_equal(nodes[5].attrs[0].ints[1], 150);
    assert_int_equal(nodes[5].attrs[0].ints[3], 9); /* in a second field */
    assert_int_equal(nodes[6].attrs[0].n, 2);
    assert_true(nodes[6].attrs[0].floats[1] == -1.25);
    assert_int_equal(nodes[7].attrs[0].n, 3);
    assert_true(nodes[7].attrs[0].floats[2] == 3.0);
    assert_int_equal(nodes[8].attrs[0].n, 2);
    assert_string_equal(nodes[8].attrs[0].strings[0], "");
    assert_string_equal(nodes[8].attrs[0].strings[1], "b");
    assert_int_equal(nodes[9].attrs[0].n, 0);
}

static const float three[] = {1, 2, 3};

/* Ten nodes; typed: with their types, as files have them since IR version 2; else the field that is there says it. */
static void add_numbers(struct onnx_builder *g, bool typed)
{
    struct bytes a = named("i", typed ? 2 : 0);

    pb_int(&a, 3, (uint64_t)-3);
    add_node(g, &a);
    a = named("f", typed ? 1 : 0);
    pb_float(&a, 2, 0.5F);
    add_node(g, &a);
    a = named("s", typed ? 3 : 0);
    pb_data(&a, 4, "a\0b", 3);
    add_node(g, &a);
    a = named("empty", typed ? 3 : 0);
    pb_data(&a, 4, "", 0);
    add_node(g, &a);
    a = named("ints", typed ? 7 : 0);
    pb_int(&a, 8, 1);
    pb_int(&a, 8, (uint64_t)-1);
    pb_int(&a, 8, INT64_MAX);
    add_node(g, &a);
    a = named("packed", typed ? 7 : 0);
    pb_data(&a, 8, "\1\x96\1\3", 4);
    pb_data(&a, 8, "\x9", 1);
    add_node(g, &a);
    a = named("floats", typed ? 6 : 0);
    pb_float(&a, 7, 2.0F);
    pb_float(&a, 7, -1.25F);
    add_node(g, &a);
    a = named("packed floats", typed ? 6 : 0);
    pb_data(&a, 7, three, sizeof three);
    add_node(g, &a);
    a = named("strings", typed ? 8 : 0);
    pb_text(&a, 9, "");
    pb_text(&a, 9, "b");
    add_node(g, &a);
    a = named("none", 7);
    add_node(g, &a);
}

static void numbers_and_lists(void **state)
{
    struct onnx_builder g = {.ir = 0};

    (void)state;
    add_numbers(&g, true);
    expect_program(&g, look_at_numbers);
    add_numbers(&g, false);
    expect_program(&g, look_at_numbers);
}

static const uint64_t dims[] = {2, 3};

static void look_at_tensors(const struct vc_program *program)
{
    static const struct {
        enum vc_dtype dtype;
        unsigned n_dims;
        uint64_t n_bytes;
        bool data;
    } expected[] = {{VC_DTYPE_F32, 2, 24, true}, {VC_DTYPE_F32, 1, 12, true},
                    {VC_DTYPE_I64, 1, 24, true}, {VC_DTYPE_F16, 1, 4, true},
                    {VC_DTYPE_I8, 0, 1, true},   {VC_DTYPE_RAW, 1, 0, false},
                    {VC_DTYPE_F32, 2, 0, false}, {VC_DTYPE_U8, 1, VC_PROGRAM_MAX_INLINE + 1, false},
                    {VC_DTYPE_F32, 2, 0, true},  {VC_DTYPE_RAW, 0, 0, false},
                    {VC_DTYPE_RAW, 0, 0, false}};

    assert_int_equal(program->n_nodes, 11);
    for (size_t k = 0; k < 11; k++) {
        const struct vc_program_attr *attr = &program->nodes[k].attrs[0];
        const struct vc_program_tensor *t = attr->tensor;

        assert_int_equal(attr->kind, VC_PROGRAM_TENSOR);
        assert_int_equal(t->dtype, expected[k].dtype);
        assert_int_equal(t->n_dims, expected[k].n_dims);
        assert_int_equal(t->n_bytes, expected[k].n_bytes);
        assert_int_equal(t->data != NULL, expected[k].data);
    }
    assert_int_equal(program->nodes[0].attrs[0].tensor->shape[1], 3);
    assert_int_equal(((const unsigned char *)program->nodes[0].attrs[0].tensor->data)[23], 23);
    assert_memory_equal(program->nodes[1].attrs[0].tensor->data, three, sizeof three);
    assert_int_equal(((const int64_t *)program->nodes[2].attrs[0].tensor->data)[1], -2);
    assert_memory_equal(program->nodes[3].attrs[0].tensor->data, "\0\x3c\0\x40", 4);
}

static void tensors(void **state)
{
    const uint64_t three_dims[] = {3};
    const uint64_t two[] = {2};
    const uint64_t large[] = {VC_PROGRAM_MAX_INLINE + 1};
    const uint64_t none[] = {0, 5};
    unsigned char counting[24];
    struct onnx_builder g = {.ir = 0};
    struct bytes t = {NULL, 0, 0};

    (void)state;
    for (size_t k = 0; k < sizeof counting; k++) {
        counting[k] = (unsigned char)k;
    }
    pb_data(&t, 1, "\2\3", 2); /* dims, packed */
    pb_int(&t, 2, 1);
    pb_data(&t, 9, counting, 24);
    add_tensor(&g, &t);
    t = onnx_tensor_header("float_data", 1, 1, three_dims);
    pb_data(&t, 4, three, sizeof three);
    add_tensor(&g, &t);
    t = onnx_tensor_header("int64_data", 7, 1, three_dims);
    pb_int(&t, 7, 1);
    pb_int(&t, 7, (uint64_t)-2);
    pb_int(&t, 7, 3);
    add_tensor(&g, &t);
    t = onnx_tensor_header("int32_data", 10, 1, two);
    pb_data(&t, 5, "\x80\x78\x80\x80\1", 5); /* 0x3c00, 0x4000 */
    add_tensor(&g, &t);
    t = onnx_tensor_header("scalar", 3, 0, dims);
    pb_data(&t, 9, "\7", 1);
    add_tensor(&g, &t);
    t = onnx_tensor_header("strings", 8, 1, two);
    pb_text(&t, 6, "a");
    add_tensor(&g, &t);
    t = onnx_tensor_header("elsewhere", 1, 2, dims);
    pb_int(&t, 14, 1);
    add_tensor(&g, &t);
    t = onnx_tensor_header("large", 2, 1, large);
    add_tensor(&g, &t);
    t = onnx_tensor_header("nothing in it", 1, 2, none);
    pb_data(&t, 9, "", 0);
    add_tensor(&g, &t);
    t = onnx_tensor_header("of no type", 25, 0, dims);
    add_tensor(&g, &t);
    t = onnx_tensor_header("of a type that there is not", 1000, 0, dims);
    add_tensor(&g, &t);
    expect_program(&g, look_at_tensors);
}

static void look_at_others(const struct vc_program *program)
{
    static const enum vc_program_attr_kind kinds[] = {VC_PROGRAM_GRAPH, VC_PROGRAM_GRAPH, VC_PROGRAM_OTHER,
                                                      VC_PROGRAM_OTHER, VC_PROGRAM_OTHER, VC_PROGRAM_OTHER};

    assert_int_equal(program->n_nodes, 6);
    for (size_t k = 0; k < 6; k++) {
        assert_int_equal(program->nodes[k].attrs[0].kind, kinds[k]);
        assert_null(program->nodes[k].attrs[0].tensor);
    }
}

/* Graphs are named only; a tensor that is announced and not there, a sparse one and types of later files are others. */
static void other_attributes(void **state)
{
    struct onnx_builder g = {.ir = 0};
    struct bytes inner = {NULL, 0, 0};
    struct bytes a = named("body", 5);

    (void)state;
    pb_message(&a, 6, &inner);
    add_node(&g, &a);
    a = named("branches", 10);
    pb_message(&a, 11, &inner);
    add_node(&g, &a);
    a = named("no tensor", 4);
    add_node(&g, &a);
    a = named("sparse", 11);
    pb_message(&a, 22, &inner);
    add_node(&g, &a);
    a = named("later", 99);
    add_node(&g, &a);
    a = named("nothing", 0);
    add_node(&g, &a);
    expect_program(&g, look_at_others);
}

/* ---- the graph ---- */

/* An input or output of the graph with a type. */
static void add_value(struct onnx_builder *g, unsigned field, const char *name, unsigned elem, struct bytes *shape)
{
    struct bytes info = {NULL, 0, 0};
    struct bytes type = {NULL, 0, 0};
    struct bytes tensor = {NULL, 0, 0};

    pb_text(&info, 1, name);
    pb_int(&tensor, 1, elem);
    if (shape != NULL) {
        pb_message(&tensor, 2, shape);
    }
    pb_int(&tensor, 9, 1); /* a field that nobody knows */
    pb_message(&type, 1, &tensor);
    pb_message(&info, 2, &type);
    pb_message(&g->graph, field, &info);
}

static void add_dim(struct bytes *shape, int64_t size, const char *name)
{
    struct bytes dim = {NULL, 0, 0};

    if (name != NULL) {
        pb_text(&dim, 2, name);
    } else if (size != 0) {
        pb_int(&dim, 1, (uint64_t)size);
    }
    pb_message(shape, 1, &dim);
}

static void look_at_graph(const struct vc_program *p)
{
    assert_int_equal(p->n_inputs, 3);
    assert_string_equal(p->inputs[0].name, "x");
    assert_int_equal(p->inputs[0].dtype, VC_DTYPE_F32);
    assert_true(p->inputs[0].has_shape);
    assert_int_equal(p->inputs[0].n_dims, 4);
    assert_int_equal(p->inputs[0].shape[0].size, -1);
    assert_string_equal(p->inputs[0].shape[0].name, "batch");
    assert_int_equal(p->inputs[0].shape[1].size, 7);
    assert_null(p->inputs[0].shape[1].name);
    assert_int_equal(p->inputs[0].shape[2].size, -1); /* neither a number nor a name */
    assert_null(p->inputs[0].shape[2].name);
    assert_int_equal(p->inputs[0].shape[3].size, -1); /* a negative number */
    assert_string_equal(p->inputs[1].name, "sequence");
    assert_int_equal(p->inputs[1].dtype, VC_DTYPE_RAW);
    assert_false(p->inputs[1].has_shape);
    assert_string_equal(p->inputs[2].name, "");
    assert_int_equal(p->inputs[2].dtype, VC_DTYPE_I64);
    assert_true(p->inputs[2].has_shape);
    assert_int_equal(p->inputs[2].n_dims, 0);
    assert_int_equal(p->n_outputs, 1);
    assert_string_equal(p->outputs[0].name, "y");
    assert_int_equal(p->outputs[0].dtype, VC_DTYPE_RAW); /* a type that there is not */
    assert_int_equal(p->n_opsets, 3);
    assert_string_equal(p->opsets[0].domain, "");
    assert_int_equal(p->opsets[0].version, 17);
    assert_string_equal(p->opsets[1].domain, "com.microsoft");
    assert_int_equal(p->opsets[1].version, 1);
    assert_string_equal(p->opsets[2].domain, "");
    assert_int_equal(p->opsets[2].version, 18);
    assert_int_equal(p->n_notes, 2);
    assert_string_equal(p->notes[0].key, "a key");
    assert_string_equal(p->notes[0].value, "its value");
    assert_string_equal(p->notes[1].key, "");
    assert_string_equal(p->notes[1].value, "");
    assert_int_equal(p->n_nodes, 1);
    assert_string_equal(p->nodes[0].name, "a node");
    assert_string_equal(p->nodes[0].domain, "");
    assert_int_equal(p->nodes[0].n_inputs, 3);
    assert_string_equal(p->nodes[0].inputs[1], ""); /* left out */
    assert_string_equal(p->nodes[0].inputs[2], "z");
    assert_int_equal(p->nodes[0].n_outputs, 0);
}

static void add_graph(struct onnx_builder *g)
{
    struct bytes shape = {NULL, 0, 0};
    struct bytes node = {NULL, 0, 0};
    struct bytes other = {NULL, 0, 0};

    add_dim(&shape, 0, "batch");
    add_dim(&shape, 7, NULL);
    add_dim(&shape, 0, NULL);
    add_dim(&shape, -5, NULL);
    pb_int(&shape, 3, 1); /* unknown */
    add_value(g, 11, "x", 1, &shape);
    pb_text(&other, 1, "sequence");
    pb_data(&other, 2, "\x22\0", 2); /* sequence_type */
    pb_message(&g->graph, 11, &other);
    add_value(g, 11, "", 7, &shape);
    add_value(g, 12, "y", 1000, NULL);
    pb_text(&node, 1, "x");
    pb_text(&node, 1, "");
    pb_text(&node, 1, "z");
    pb_text(&node, 3, "a node");
    pb_text(&node, 4, "Op");
    pb_text(&node, 6, "a doc_string");
    pb_text(&node, 7, "ai.onnx");
    pb_message(&g->graph, 1, &node);
    pb_text(&g->graph, 2, "the name of the graph");
    pb_text(&other, 1, "com.microsoft");
    pb_int(&other, 2, 1);
    pb_message(&g->model, 8, &other);
    pb_int(&other, 2, 18);
    pb_text(&other, 1, "ai.onnx");
    pb_message(&g->model, 8, &other);
    pb_text(&other, 1, "a key");
    pb_text(&other, 2, "its value");
    pb_message(&g->model, 14, &other);
    pb_message(&g->model, 14, &other);
}

static void graph_and_file(void **state)
{
    struct onnx_builder g = {.ir = 0};

    (void)state;
    add_graph(&g);
    expect_program(&g, look_at_graph);
}

static void look_at_functions(const struct vc_program *p)
{
    const struct vc_program_function *f = p->functions;

    assert_int_equal(p->n_functions, 2);
    assert_string_equal(f[0].name, "Rotate");
    assert_string_equal(f[0].domain, "model");
    assert_string_equal(f[0].overload, "left");
    assert_int_equal(f[0].n_inputs, 2);
    assert_string_equal(f[0].inputs[1], "b");
    assert_int_equal(f[0].n_outputs, 1);
    assert_string_equal(f[0].outputs[0], "y");
    assert_int_equal(f[0].n_attrs, 1);
    assert_string_equal(f[0].attrs[0], "axis");
    assert_int_equal(f[0].n_defaults, 1);
    assert_int_equal(f[0].defaults[0].i, 4);
    assert_int_equal(f[0].n_nodes, 1);
    assert_string_equal(f[0].nodes[0].op, "Neg");
    assert_string_equal(f[0].nodes[0].overload, "of mine");
    assert_string_equal(f[0].nodes[0].attrs[0].reference, "axis");
    assert_int_equal(f[0].n_opsets, 1);
    assert_int_equal(f[0].opsets[0].version, 15);
    assert_string_equal(f[1].name, "");
    assert_int_equal(f[1].n_nodes, 0);
    assert_int_equal(p->n_declared, 1);
    assert_string_equal(p->declared[0].name, "between");
    assert_int_equal(p->declared[0].dtype, VC_DTYPE_F16);
    assert_null(p->nodes[0].attrs[0].reference);
}

static void add_function(struct onnx_builder *g)
{
    struct bytes f = {NULL, 0, 0};
    struct bytes inner = {NULL, 0, 0};
    struct bytes node = {NULL, 0, 0};

    pb_text(&f, 1, "Rotate");
    pb_text(&f, 4, "a");
    pb_text(&f, 4, "b");
    pb_text(&f, 5, "y");
    pb_text(&f, 6, "axis");
    pb_text(&inner, 1, "axis of the node");
    pb_text(&inner, 21, "axis");
    pb_int(&inner, 20, 2);
    pb_text(&node, 1, "a");
    pb_text(&node, 2, "y");
    pb_text(&node, 4, "Neg");
    pb_message(&node, 5, &inner);
    pb_text(&node, 8, "of mine");
    pb_message(&f, 7, &node);
    pb_int(&inner, 2, 15);
    pb_message(&f, 9, &inner);
    pb_text(&f, 10, "model");
    inner = named("keep", 2);
    pb_int(&inner, 3, 4);
    pb_message(&f, 11, &inner);
    pb_text(&f, 13, "left");
    pb_int(&f, 99, 1);
    pb_message(&g->model, 25, &f);
    pb_message(&g->model, 25, &f);
    inner = named("i", 2);
    add_node(g, &inner);
    add_value(g, 13, "between", 10, NULL);
}

static void functions(void **state)
{
    struct onnx_builder g = {.ir = 0};

    (void)state;
    add_function(&g);
    expect_program(&g, look_at_functions);
}

/* ---- tensors of the model ---- */

static const struct vc_program_constant *constant(const struct vc_program *p, const char *name)
{
    for (size_t k = 0; k < p->n_constants; k++) {
        if (strcmp(p->constants[k].name, name) == 0) {
            return &p->constants[k];
        }
    }
    fail_msg("there is no constant %s", name);
    return NULL;
}

static void look_at_constants(const struct vc_program *p)
{
    const struct vc_program_constant *c;

    assert_int_equal(p->n_constants, 6);
    c = constant(p, "small");
    assert_int_not_equal(c->index, VC_NO_TENSOR);
    assert_int_equal(c->tensor->n_bytes, 16);
    assert_true(((const float *)c->tensor->data)[0] == -16.0F);
    c = constant(p, "weights");
    assert_int_not_equal(c->index, VC_NO_TENSOR);
    assert_null(c->tensor);
    c = constant(p, "integers");
    assert_int_equal(c->tensor->n_bytes, 800);
    assert_non_null(c->tensor->data);
    c = constant(p, "q"); /* by the name that the graph uses; its parts are none */
    assert_int_not_equal(c->index, VC_NO_TENSOR);
    assert_null(c->tensor);
    c = constant(p, "in a node");
    assert_null(c->tensor);
    c = constant(p, "texts"); /* of no type here */
    assert_int_equal(c->index, VC_NO_TENSOR);
    assert_int_equal(c->tensor->dtype, VC_DTYPE_RAW);
    assert_null(c->tensor->data);
    assert_int_equal(p->n_nodes, 2); /* neither DequantizeLinear nor Constant */
    assert_string_equal(p->nodes[0].op, "MatMul");
    assert_string_equal(p->nodes[1].op, "If");
}

static void constants(void **state)
{
    static const char *const branches[] = {"then_branch", "else_branch"};
    const uint64_t square[] = {8, 16};
    const uint64_t hundred[] = {100};
    const uint64_t eight[] = {8};
    struct onnx_builder inner[2] = {{.ir = 0}, {.ir = 0}};
    struct onnx_builder g = {.ir = 0};
    struct bytes scale = {NULL, 0, 0};
    struct bytes values = {NULL, 0, 0};
    struct bytes t = onnx_tensor_header("texts", 8, 1, dims);

    (void)state;
    for (unsigned k = 0; k < 2; k++) { /* weights and codes inside are not of the main graph */
        onnx_weights(&inner[k], "inside", 8, 16);
        onnx_op(&inner[k], "MatMul", "x inside", "a");
        onnx_info(&inner[k], 12, "a");
    }
    bytes_fill(&scale, 0x3f, 32);
    bytes_fill(&values, 0x3f, 512);
    pb_text(&t, 6, "a");
    pb_text(&t, 6, "b");
    pb_message(&g.graph, 5, &t);
    onnx_constant(&g, "in a node", 1, 2, square, values.p, values.n);
    onnx_op_with(&g, "DequantizeLinear", "codes scale", "q", "axis", 0);
    onnx_op(&g, "MatMul", "x q", "y");
    onnx_outer(&g, "If", "branch", "b", "z", branches, inner, 2);
    onnx_weights(&g, "small", 2, 2);
    onnx_weights(&g, "weights", 8, 16);
    onnx_raw(&g, "integers", 7, 1, hundred, NULL, 800);
    onnx_raw(&g, "codes", 3, 2, square, NULL, 128);
    onnx_raw(&g, "scale", 1, 1, eight, scale.p, 32);
    bytes_release(&scale);
    bytes_release(&values);
    expect_program(&g, look_at_constants);
}

/* ---- failures ---- */

/* A file with everything, of more than one window of the reader. */
static void save_all(void)
{
    struct onnx_builder g = {.ir = 0};
    const uint64_t hundred[] = {100};
    const uint64_t many[] = {3000};
    struct bytes t;
    char name[32];

    add_graph(&g);
    add_function(&g);
    add_numbers(&g, true);
    t = onnx_tensor_header("floats", 1, 1, hundred);
    for (unsigned k = 0; k < 100; k++) {
        pb_float(&t, 4, (float)k);
    }
    add_tensor(&g, &t);
    onnx_weights(&g, "w", 4, 4);
    onnx_raw(&g, "integers", 7, 1, many, NULL, 24000);
    for (unsigned k = 0; k < 40; k++) {
        onnx_op(&g, "Relu", "an input with a name that is long", "an output");
        snprintf(name, sizeof name, "bytes %u", k);
        onnx_raw(&g, name, 2, 1, many, NULL, 3000);
    }
    save_own("in.onnx", onnx_finish(&g));
}

static void failures(void **state)
{
    struct vc_ctx *ctx = test_ctx();
    struct vc_model *model = NULL;
    unsigned n_failed[2] = {0, 0};

    (void)state;
    save_all();
    assert_int_equal(vc_model_open(ctx, in_folder("in.onnx"), NULL, &model), VC_OK);
    for (unsigned kind = 0; kind < 2; kind++) {
        uint64_t in_use = vc_pool_in_use(ctx->shared->pool);
        enum vc_status status = VC_E_IO;

        while (status != VC_OK) {
            struct vc_arena arena = {0};
            struct vc_program program;

            n_failed[kind]++;
            if (kind == 0) {
                vc_pool_fail_at(ctx->shared->pool, n_failed[kind], 0);
            } else {
                vc_infile_fail_at(n_failed[kind]);
            }
            status = vc_model_program(ctx, model, &arena, &program);
            vc_pool_fail_at(ctx->shared->pool, 0, 0);
            vc_infile_fail_at(0);
            assert_true(status == VC_OK || status == (kind == 0 ? VC_E_NOMEM : VC_E_IO));
            assert_int_equal(status == VC_OK, vc_ctx_message(ctx)[0] == '\0');
            vc_clear_error(ctx);
            vc_arena_release(ctx, &arena);
            assert_int_equal(vc_pool_in_use(ctx->shared->pool), in_use);
        }
    }
    assert_true(n_failed[0] > 100);
    assert_true(n_failed[1] > 20);
    vc_model_close(model);
    test_ctx_done(ctx);
    empty_folder();
}

/* Whatever is cut off or changed: an answer, and all memory is given back. */
static void cuts_and_flips(void **state)
{
    struct vc_ctx *ctx = test_ctx();
    struct onnx_builder g = {.ir = 0};
    struct bytes b;

    (void)state;
    add_graph(&g);
    add_numbers(&g, true);
    b = onnx_finish(&g);
    for (size_t k = 0; k < 2 * b.n; k++) {
        struct bytes copy = {NULL, 0, 0};
        struct vc_model *model = NULL;
        struct vc_arena arena = {0};
        struct vc_program program;
        enum vc_status status;

        bytes_add(&copy, b.p, k < b.n ? k : b.n);
        if (k >= b.n) {
            copy.p[k - b.n] ^= (unsigned char)(1u << k % 8);
        }
        save_own("in.onnx", copy);
        status = read_program(ctx, &arena, &model, &program);
        assert_true(status == VC_OK || status == VC_E_FORMAT || status == VC_E_UNSUPPORTED);
        vc_clear_error(ctx);
        vc_arena_release(ctx, &arena);
        vc_model_close(model);
        assert_int_equal(vc_pool_in_use(ctx->shared->pool), 0);
    }
    bytes_release(&b);
    test_ctx_done(ctx);
    empty_folder();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_and_lists), cmocka_unit_test(tensors),        cmocka_unit_test(other_attributes),
        cmocka_unit_test(graph_and_file),    cmocka_unit_test(constants),      cmocka_unit_test(functions),
        cmocka_unit_test(failures),          cmocka_unit_test(cuts_and_flips),
    };

    return cmocka_run_group_tests(tests, scratch_make, scratch_clear);
}
