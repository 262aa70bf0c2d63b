/* test_onnx_damage.c - ONNX files that can be opened, and say something about what their model computes that is damaged
 * or too much (core/model/program.h). What is good is in test_onnx_program.c. */
#include "onnx_programs.h"

/* What fields of an attribute, of a tensor in it, and of entries of the file may not be, and is not seen when the file
 * is opened. */
static const struct {
    char where; /* 'a', 't'; 'e': an entry of metadata_props; 'm': the file */
    const char *bytes;
    size_t n;
    const char *words;
} damages[] = {
    {'a', "\xa2\1\1x", 4, "the type of an attribute"},
    {'a', "\x10\1", 2, "a float in an attribute"},
    {'a', "\x1a\1x", 3, "an integer in an attribute"},
    {'a', "\x20\1", 2, "a string in an attribute"},
    {'a', "\xa0\1\7\x45\1\1\1\1", 8, "an integer in an attribute"},
    {'a', "\xa0\1\7\x42\1\x80", 6, "no number that ends in time"},
    {'a', "\xa0\1\6\x38\1", 5, "a float in an attribute"},
    {'a', "\xa0\1\6\x3a\3abc", 8, "the floats of an attribute (at offset"},
    {'a', "\xa0\1\x08\x48\1", 5, "a string in an attribute"},
    {'a', "\xa0\1\x08\x4a\1\0", 6, "a string in an attribute has a NUL in it"},
    {'t', "\x0d\1\1\1\1", 5, "the shape of a tensor"},
    {'t', "\x0a\1\x80", 3, "no number that ends in time"},
    {'t', "\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\1", 11, "a tensor in a node has more than"},
    {'t', "\x12\1x", 3, "the data_type of a tensor"},
    {'t', "\x48\1", 2, "the raw_data of a tensor"},
    {'t', "\x72\1x", 3, "the data_location of a tensor"},
    {'t', "\x08\x80\x80\x80\x80\x80\x80\x80\x80\x40\x08\x80\x80\x80\x80\x80\x80\x80\x80\x40", 20, "overflows"},
    {'t', "\x08\2\x10\1\x4a\4abcd", 10, "needs 8 bytes by its shape and type and has others"},
    {'t', "\x08\xff\x7f\x10\2\x2a\1a", 8, "needs 16383 bytes by its shape and type and has others"},
    {'t', "\x08\2\x10\1\x25\1\1\1\1", 9, "): has values for 4 bytes, but its shape and type need 8"},
    {'t', "\x08\1\x10\1\x25\1\1\1\1\x25\1\1\1\1", 14, "more"},
    {'e', "\x08\1", 2, "a key of its metadata_props"},
    {'e', "\x12\1\0", 3, "a value of its metadata_props has a NUL in it"},
    {'m', "\x70\1", 2, "an entry of its metadata_props"},
};

static void damage(void **state)
{
    (void)state;
    for (size_t k = 0; k < sizeof damages / sizeof *damages; k++) {
        struct onnx_builder g = {.ir = 0};
        struct bytes a = {NULL, 0, 0};
        struct bytes t = {NULL, 0, 0};

        onnx_weights(&g, "w", 4, 4);
        bytes_add(&t, damages[k].bytes, damages[k].n);
        switch (damages[k].where) {
        case 'a':
            add_node(&g, &t);
            break;
        case 't':
            pb_message(&a, 5, &t);
            add_node(&g, &a);
            break;
        case 'e':
            pb_message(&g.model, 14, &t);
            break;
        default:
            bytes_add(&g.model, t.p, t.n);
            bytes_release(&t);
            break;
        }
        expect_refused(&g, VC_E_FORMAT, damages[k].words);
    }
}

/* More dimensions than a tensor can have, one by one and packed. */
static void too_many_dims(void **state)
{
    (void)state;
    for (unsigned packed = 0; packed < 2; packed++) {
        struct onnx_builder g = {.ir = 0};
        struct bytes ones = {NULL, 0, 0};
        struct bytes t = {NULL, 0, 0};

        onnx_weights(&g, "w", 4, 4);
        bytes_fill(&ones, 1, VC_MAX_DIMS + 1);
        for (unsigned k = 0; k <= VC_MAX_DIMS && packed == 0; k++) {
            pb_int(&t, 1, 1);
        }
        pb_data(&t, 1, ones.p, packed != 0 ? ones.n : 0);
        bytes_release(&ones);
        add_tensor(&g, &t);
        expect_refused(&g, VC_E_FORMAT, "a tensor in a node has more than");
    }
}

/* Of declared values; that a node and an operator set are messages is seen when the file is opened. */
static void damaged_values(void **state)
{
    static const struct {
        const char *bytes; /* of an input */
        size_t n;
        const char *words;
    } values[] = {
        {"\x12\x06\x0a\4\x12\2\x08\1", 8, "a dimension of a value"},
        {"\x12\x08\x0a\6\x12\4\x0a\2\x12\x7f", 10, "a field of 127 bytes"},
        {"\x12\x09\x0a\7\x12\5\x0a\3\x12\1\0", 11, "the name of a dimension has a NUL in it"},
        {"\x12\x05\x0a\3\x12\1\x0a", 7, "no number that ends in time"},
        {"\x12\x03\x0a\1\x08", 5, "no number that ends in time"},
        {"\x12\x01\x0a", 3, "no number that ends in time"},
    };

    (void)state;
    for (size_t k = 0; k < sizeof values / sizeof *values; k++) {
        struct onnx_builder g = {.ir = 0};

        onnx_weights(&g, "w", 4, 4);
        pb_data(&g.graph, 12, values[k].bytes, values[k].n);
        expect_refused(&g, VC_E_FORMAT, values[k].words);
    }
}

/* More nodes than a graph or a function can have. */
static void too_many_nodes(void **state)
{
    struct onnx_builder g = {.ir = 0};
    struct bytes function = {NULL, 0, 0};
    struct bytes inner;

    (void)state;
    onnx_weights(&g, "w", 4, 4);
    for (size_t k = 0; k <= VC_PROGRAM_MAX_NODES; k++) {
        bytes_add(&g.graph, "\x0a\0", 2);
    }
    inner = g.graph;
    g.graph = (struct bytes){NULL, 0, 0};
    onnx_weights(&g, "w", 4, 4);
    for (size_t k = 0; k <= VC_PROGRAM_MAX_NODES; k++) {
        bytes_add(&function, "\x3a\0", 2);
    }
    pb_message(&g.model, 25, &function);
    expect_refused(&g, VC_E_UNSUPPORTED, "has a function of more than 1048576 nodes");
    g.graph = inner;
    expect_refused(&g, VC_E_UNSUPPORTED, "has more than 1048576 nodes, inputs or outputs");
}

/* What is inside is not looked at when the file is opened. */
static void damaged_functions(void **state)
{
    static const struct {
        const char *bytes; /* of a function */
        size_t n;
        const char *words;
    } cases[] = {
        {"\x08\1", 2, "the name of a function"},
        {"\x52\1\0", 3, "the domain of a function"},
        {"\x20\1", 2, "the input of a function"},
        {"\x28\1", 2, "the output of a function"},
        {"\x30\1", 2, "the attribute of a function"},
        {"\x38\1", 2, "a node (at offset"},
        {"\x48\1", 2, "an operator set (at offset"},
        {"\x58\1", 2, "an attribute (at offset"},
        {"\x5a\2\x28\1", 4, "a tensor in a node (at offset"},
        {"\x5a\2\x08\1", 4, "the name of an attribute"},
        {"\x5a\3\xa8\1\1", 5, "the attribute of a function"},
        {"\x3a\2\x40\1", 4, "the overload of a node"},
        {"\x3a\2\x28\1", 4, "the attribute of a node (at offset"},
        {"\x3a\1\x0a", 3, "no number that ends in time"},
    };
    struct onnx_builder g = {.ir = 0};

    (void)state;
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        onnx_weights(&g, "w", 4, 4);
        pb_data(&g.model, 25, cases[k].bytes, cases[k].n);
        expect_refused(&g, VC_E_FORMAT, cases[k].words);
    }
    onnx_weights(&g, "w", 4, 4);
    pb_int(&g.model, 25, 1);
    expect_refused(&g, VC_E_FORMAT, "a function (at offset");
    onnx_weights(&g, "w", 4, 4);
    for (size_t k = 0; k <= 10000; k++) {
        pb_data(&g.model, 25, "", 0);
    }
    expect_refused(&g, VC_E_UNSUPPORTED, "has more than 10000 functions");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(damage),         cmocka_unit_test(too_many_dims),     cmocka_unit_test(damaged_values),
        cmocka_unit_test(too_many_nodes), cmocka_unit_test(damaged_functions),
    };

    return cmocka_run_group_tests(tests, scratch_make, scratch_clear);
}
