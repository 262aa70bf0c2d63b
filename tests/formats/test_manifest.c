/* test_manifest.c - vcompress.json: what the writer says is understood again by the reader, and every statement that
 * does not fit the tensors is refused. Documents are written by hand against tables of tensors that need no file. */
#include "formats/dialects/manifest/manifest.h"
#include "formats_test.h"

#include <stdlib.h>

/* ---- a model without a file ---- */

enum { W, W_SCALE, W_ZERO, B, H, N_TENSORS };

static const uint64_t shape_w[] = {6, 4, 2}, shape_channel[] = {6, 1, 1}, shape_one[] = {1}, shape_group[] = {6, 3};
static const uint64_t shape_axis1[] = {1, 4, 1}, shape_b[] = {6};

struct table {
    struct vc_model model;
    struct vc_tensor tensors[N_TENSORS];
    struct vc_tensor_io io[N_TENSORS];
};

static void set_tensor(struct vc_tensor *t, const char *name, enum vc_dtype dtype, const uint64_t *shape, unsigned n)
{
    *t = (struct vc_tensor){.name = name, .dtype = dtype, .n_dims = n, .shape = shape, .n_elems = 1};
    for (unsigned d = 0; d < n; d++) {
        t->n_elems *= shape[d];
    }
    t->size_bytes = t->n_elems * vc_dtype_size(dtype);
    t->part_of = VC_NO_TENSOR;
    t->alias_of = VC_NO_TENSOR;
}

static void table_open(struct vc_ctx *ctx, struct table *t, const uint64_t *scale, unsigned n_dims)
{
    memset(t, 0, sizeof *t);
    t->model = (struct vc_model){.ctx = ctx, .n_tensors = N_TENSORS, .tensors = t->tensors, .io = t->io};
    set_tensor(&t->tensors[W], "w", VC_DTYPE_I8, shape_w, 3);
    set_tensor(&t->tensors[W_SCALE], "w.scale", VC_DTYPE_F32, scale, n_dims);
    set_tensor(&t->tensors[W_ZERO], "w.zero_point", VC_DTYPE_I8, scale, n_dims);
    set_tensor(&t->tensors[B], "b", VC_DTYPE_F32, shape_b, 1);
    set_tensor(&t->tensors[H], "h", VC_DTYPE_U16, shape_b, 1);
    assert_int_equal(vc_model_index_names(ctx, &t->model), VC_OK);
}

static void table_close(struct vc_ctx *ctx, struct table *t)
{
    vc_free(ctx, t->model.quants);
    vc_free(ctx, t->model.recipe);
    vc_name_table_release(ctx, &t->model.names);
}

static enum vc_status apply(struct vc_ctx *ctx, struct table *t, const char *json)
{
    size_t n = strlen(json);
    char *text = malloc(n + 1);
    enum vc_status status;

    assert_non_null(text);
    memcpy(text, json, n + 1);
    status = vc_manifest_apply(ctx, text, n, &t->model);
    assert_string_equal(text, json); /* the text is as it was */
    free(text);
    return status;
}

#define DOCUMENT(tensors) "{\"schema\": \"vcompress.manifest/1\", \"tensors\": {" tensors "}}"
#define INT8              "\"scheme\": \"int8\""
#define CHANNEL           "\"granularity\": \"channel\", \"axis\": 0"
#define SCALE             "\"scale\": \"w.scale\""
#define ZERO              "\"zero_point\": \"w.zero_point\""
#define SYMMETRIC         "\"symmetric\": true"
#define ASYMMETRIC        "\"symmetric\": false"

/* ---- reading ---- */

static void test_what_fits_is_applied(void **state)
{
    static const struct {
        const uint64_t *scale;
        unsigned n_dims;
        const char *granularity;
        struct vc_quant expect;
    } cases[] = {
        {shape_one, 1, "\"granularity\": \"tensor\"", {.granularity = VC_GRANULARITY_TENSOR}},
        {shape_one, 0, "\"granularity\": \"tensor\"", {.granularity = VC_GRANULARITY_TENSOR}},
        {shape_channel, 3, CHANNEL, {.granularity = VC_GRANULARITY_CHANNEL}},
        {shape_axis1,
         3,
         "\"granularity\": \"channel\", \"axis\": 1",
         {.granularity = VC_GRANULARITY_CHANNEL, .axis = 1}},
        {shape_group,
         2,
         "\"granularity\": \"group\", \"group_size\": 3",
         {.granularity = VC_GRANULARITY_GROUP, .group_size = 3}},
    };
    struct vc_ctx *ctx = test_ctx();

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        for (int asymmetric = 0; asymmetric < 2; asymmetric++) {
            struct table t;
            char json[512];
            const struct vc_quant *q;

            (void)snprintf(
                json, sizeof json, DOCUMENT("\"w\": {" INT8 ", %s, %s, \"source_dtype\": \"f16\", " SCALE "%s}"),
                cases[i].granularity, asymmetric != 0 ? ASYMMETRIC : SYMMETRIC, asymmetric != 0 ? ", " ZERO : "");
            table_open(ctx, &t, cases[i].scale, cases[i].n_dims);
            if (apply(ctx, &t, json) != VC_OK) {
                fail_msg("%s: %s", json, vc_ctx_message(ctx));
            }
            q = t.tensors[W].quant;
            assert_non_null(q);
            assert_int_equal(q->scheme, VC_SCHEME_INT8);
            assert_int_equal(q->granularity, cases[i].expect.granularity);
            assert_int_equal(q->axis, cases[i].expect.axis);
            assert_int_equal(q->group_size, cases[i].expect.group_size);
            assert_int_equal(q->symmetric, asymmetric == 0);
            assert_int_equal(q->source_dtype, VC_DTYPE_F16);
            assert_int_equal(vc_quant_scale(q), W_SCALE);
            assert_int_equal(vc_quant_find(q, VC_PART_ZERO_POINT), asymmetric != 0 ? W_ZERO : VC_NO_TENSOR);
            assert_int_equal(t.tensors[W_SCALE].part_of, W);
            assert_int_equal(t.tensors[W_ZERO].part_of, asymmetric != 0 ? W : VC_NO_TENSOR);
            assert_int_equal(t.tensors[B].part_of, VC_NO_TENSOR);
            table_close(ctx, &t);
        }
    }
    test_ctx_done(ctx);
}

static void test_bf16(void **state)
{
    struct vc_ctx *ctx = test_ctx();
    struct table t;

    (void)state;
    table_open(ctx, &t, shape_one, 1);
    assert_int_equal(apply(ctx, &t, DOCUMENT("\"h\": {\"dtype\": \"bf16\", \"source_dtype\": \"f32\"}")), VC_OK);
    assert_int_equal(t.tensors[H].dtype, VC_DTYPE_BF16);
    t.tensors[H].dtype = VC_DTYPE_VOID; /* two bytes of it */
    assert_int_equal(apply(ctx, &t, DOCUMENT("\"h\": {\"dtype\": \"bf16\"}")), VC_OK);
    assert_int_equal(t.tensors[H].dtype, VC_DTYPE_BF16);
    t.tensors[H].dtype = VC_DTYPE_VOID;
    t.tensors[H].size_bytes *= 2;
    assert_int_equal(apply(ctx, &t, DOCUMENT("\"h\": {\"dtype\": \"bf16\"}")), VC_E_FORMAT);
    table_close(ctx, &t);
    test_ctx_done(ctx);
}

/* Scales of 16 bits, in any order of the entries; maxima in place of scales, also as a list of one per row. */
static void test_other_scales(void **state)
{
    static const uint64_t list[] = {6};
    struct vc_ctx *ctx = test_ctx();
    struct table t;

    (void)state;
    table_open(ctx, &t, shape_channel, 3);
    t.tensors[W_SCALE].dtype = VC_DTYPE_F16;
    assert_int_equal(apply(ctx, &t, DOCUMENT("\"w\": {" INT8 "," CHANNEL "," SYMMETRIC "," SCALE "}")), VC_OK);
    assert_true(vc_quant_find(t.tensors[W].quant, VC_PART_ABSMAX) == VC_NO_TENSOR);
    table_close(ctx, &t);
    table_open(ctx, &t, shape_channel, 3);
    t.tensors[W_SCALE].dtype = VC_DTYPE_U16;
    assert_int_equal(
        apply(ctx, &t,
              DOCUMENT("\"w\": {" INT8 "," CHANNEL "," SYMMETRIC "," SCALE "}, \"w.scale\": {\"dtype\": \"bf16\"}")),
        VC_OK);
    assert_int_equal(t.tensors[W_SCALE].dtype, VC_DTYPE_BF16);
    assert_int_equal(vc_quant_scale(t.tensors[W].quant), W_SCALE);
    /* twice is once too often */
    assert_int_equal(apply(ctx, &t, DOCUMENT("\"w\": {" INT8 "," CHANNEL "," SYMMETRIC "," SCALE "}")), VC_E_FORMAT);
    table_close(ctx, &t);
    table_open(ctx, &t, list, 1);
    assert_int_equal(apply(ctx, &t, DOCUMENT("\"w\": {" INT8 "," CHANNEL "," SYMMETRIC "," SCALE "}")), VC_E_FORMAT);
    assert_int_equal(
        apply(ctx, &t, DOCUMENT("\"w\": {" INT8 "," CHANNEL "," SYMMETRIC "," SCALE ", \"scale_is_absmax\": false}")),
        VC_E_FORMAT);
    assert_int_equal(
        apply(ctx, &t, DOCUMENT("\"w\": {" INT8 "," CHANNEL "," SYMMETRIC "," SCALE ", \"scale_is_absmax\": true}")),
        VC_OK);
    assert_true(vc_quant_find(t.tensors[W].quant, VC_PART_ABSMAX) != VC_NO_TENSOR);
    table_close(ctx, &t);
    test_ctx_done(ctx);
}

static void test_what_does_not_fit_is_refused(void **state)
{
    static const struct {
        const char *json, *needle;
        enum vc_status status;
    } cases[] = {
        {"", "JSON", VC_E_FORMAT},
        {"{", "JSON", VC_E_FORMAT},
        {"[]", "JSON object", VC_E_FORMAT},
        {"{}", "schema", VC_E_FORMAT},
        {"{} {}", "JSON", VC_E_FORMAT},
        {"{\"schema\": 1}", "schema", VC_E_FORMAT},
        {"{\"schema\": \"vcompress.manifest/2\", \"tensors\": {}}", "vcompress.manifest/2", VC_E_UNSUPPORTED},
        {"{\"schema\": \"vcompress.manifest/1\"}", "tensors", VC_E_FORMAT},
        {"{\"schema\": \"vcompress.manifest/1\", \"tensors\": []}", "tensors", VC_E_FORMAT},
        {"{\"schema\": \"vcompress.manifest/1\", \"tensors\": {}, \"tensors\": {}}", "two objects", VC_E_FORMAT},
        {DOCUMENT("\"nosuch\": {}"), "nosuch", VC_E_FORMAT},
        {DOCUMENT("\"h\": {\"dtype\": \"bf16\"}, \"h\": {\"dtype\": \"bf16\"}"), "two entries for 'h'", VC_E_FORMAT},
        {DOCUMENT("\"h\": {\"dtype\": \"bf16\", \"dtype\": \"bf16\"}"), "duplicate", VC_E_FORMAT},
        {DOCUMENT("\"w\": 5"), "no object", VC_E_FORMAT},
        {DOCUMENT("\"w\": {}"), "neither", VC_E_FORMAT},
        {DOCUMENT("\"w\": {\"scheme\": \"int9\"}"), "int9", VC_E_UNSUPPORTED},
        {DOCUMENT("\"w\": {\"scheme\": \"int4\"}"), "int4 codes are of type u8", VC_E_FORMAT},
        {DOCUMENT("\"w\": {" INT8 ", \"shape\": [2, 6]}"), "shape", VC_E_UNSUPPORTED},
        {DOCUMENT("\"w\": {\"dtype\": \"f8\"}"), "f8", VC_E_UNSUPPORTED},
        {DOCUMENT("\"w\": {\"scheme\": 8}"), "neither", VC_E_FORMAT},
        {DOCUMENT("\"w\": {" INT8 ", \"dtype\": \"bf16\"}"), "not known", VC_E_UNSUPPORTED},
        {DOCUMENT("\"w\": {\"dtype\": \"bf16\"}"), "kept as u16", VC_E_FORMAT},
        {DOCUMENT("\"b\": {" INT8 "}"), "type f32", VC_E_FORMAT},
        {DOCUMENT("\"w\": {" INT8 ", \"secret\": 1}"), "secret", VC_E_UNSUPPORTED},
        {DOCUMENT("\"w\": {" INT8 "}"), "granularity", VC_E_FORMAT},
        {DOCUMENT("\"w\": {" INT8 ", \"granularity\": \"row\"}"), "granularity", VC_E_FORMAT},
        {DOCUMENT("\"w\": {" INT8 ", \"granularity\": \"channel\"}"), "axis", VC_E_FORMAT},
        {DOCUMENT("\"w\": {" INT8 ", \"granularity\": \"channel\", \"axis\": -1}"), "axis", VC_E_FORMAT},
        {DOCUMENT("\"w\": {" INT8 ", \"granularity\": \"channel\", \"axis\": 1.0}"), "axis", VC_E_FORMAT},
        {DOCUMENT("\"w\": {" INT8 ", \"granularity\": \"channel\", \"axis\": 3}"), "axis 3", VC_E_FORMAT},
        {DOCUMENT("\"w\": {" INT8 ", \"granularity\": \"channel\", \"axis\": 99999999999999999999}"), "JSON",
         VC_E_FORMAT},
        {DOCUMENT("\"w\": {" INT8 ", \"granularity\": \"group\"}"), "group_size", VC_E_FORMAT},
        {DOCUMENT("\"w\": {" INT8 ", \"granularity\": \"group\", \"group_size\": 0}"), "group_size", VC_E_FORMAT},
        {DOCUMENT("\"w\": {" INT8 ", " CHANNEL "}"), "symmetric", VC_E_FORMAT},
        {DOCUMENT("\"w\": {" INT8 ", " CHANNEL ", \"symmetric\": 1}"), "symmetric", VC_E_FORMAT},
        {DOCUMENT("\"w\": {" INT8 ", " CHANNEL ", " SYMMETRIC ", \"source_dtype\": \"i8\"}"), "source_dtype",
         VC_E_FORMAT},
        {DOCUMENT("\"w\": {" INT8 ", " CHANNEL ", " SYMMETRIC ", \"source_dtype\": 1}"), "source_dtype", VC_E_FORMAT},
        {DOCUMENT("\"w\": {" INT8 ", " CHANNEL ", " SYMMETRIC "}"), "scale", VC_E_FORMAT},
        {DOCUMENT("\"w\": {" INT8 ", " CHANNEL ", " SYMMETRIC ", \"scale\": \"x\"}"), "not in the file", VC_E_FORMAT},
        {DOCUMENT("\"w\": {" INT8 ", " CHANNEL ", " SYMMETRIC ", \"scale\": \"w\"}"), "type i8", VC_E_FORMAT},
        {DOCUMENT("\"w\": {" INT8 ", " CHANNEL ", " SYMMETRIC ", \"scale\": \"b\"}"), "does not fit", VC_E_FORMAT},
        {DOCUMENT("\"w\": {" INT8 ", " CHANNEL ", " SYMMETRIC ", " SCALE ", " ZERO "}"), "zero_point", VC_E_FORMAT},
        {DOCUMENT("\"w\": {" INT8 ", " CHANNEL ", " ASYMMETRIC ", " SCALE "}"), "zero_point", VC_E_FORMAT},
        {DOCUMENT("\"w\": {" INT8 ", " CHANNEL ", " ASYMMETRIC ", " SCALE ", \"zero_point\": \"b\"}"), "type f32",
         VC_E_FORMAT},
        {DOCUMENT("\"w\": {" INT8 ", " CHANNEL ", " ASYMMETRIC ", " SCALE ", \"zero_point\": \"w\"}"), "another tensor",
         VC_E_FORMAT},
        {DOCUMENT("\"w\": {" INT8 ", \"granularity\": \"tensor\", " SYMMETRIC ", " SCALE "}"), "does not fit",
         VC_E_FORMAT},
        {DOCUMENT("\"w\": {" INT8 ", \"granularity\": \"channel\", \"axis\": 1, " SYMMETRIC ", " SCALE "}"),
         "does not fit", VC_E_FORMAT},
        {DOCUMENT("\"w\": {" INT8 ", \"granularity\": \"group\", \"group_size\": 2, " SYMMETRIC ", " SCALE "}"),
         "does not fit", VC_E_FORMAT},
        /* Two tensors with one scale; codes that are zero points. */
        {DOCUMENT("\"w\": {" INT8 ", " CHANNEL ", " SYMMETRIC ", " SCALE "}, \"w.zero_point\": {" INT8 ", " CHANNEL
                  ", " SYMMETRIC ", " SCALE "}"),
         "belongs to 'w'", VC_E_FORMAT},
        {DOCUMENT("\"h\": {\"dtype\": \"bf16\", \"axis\": 0}"), "axis", VC_E_UNSUPPORTED},
    };
    struct vc_ctx *ctx = test_ctx();

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct table t;
        enum vc_status status;

        table_open(ctx, &t, shape_channel, 3);
        status = apply(ctx, &t, cases[i].json);
        if (status != cases[i].status || strstr(vc_ctx_message(ctx), cases[i].needle) == NULL ||
            strchr(vc_ctx_message(ctx), '\n') != NULL) {
            fail_msg("%s: status %s, \"%s\" does not say \"%s\"", cases[i].json, vc_status_name(status),
                     vc_ctx_message(ctx), cases[i].needle);
        }
        vc_clear_error(ctx);
        table_close(ctx, &t);
    }
    test_ctx_done(ctx);
}

static void test_zero_points_of_another_shape(void **state)
{
    struct vc_ctx *ctx = test_ctx();
    struct table t;

    (void)state;
    table_open(ctx, &t, shape_channel, 3);
    set_tensor(&t.tensors[W_ZERO], "w.zero_point", VC_DTYPE_I8, shape_axis1, 3);
    assert_int_equal(apply(ctx, &t, DOCUMENT("\"w\": {" INT8 ", " CHANNEL ", " ASYMMETRIC ", " SCALE ", " ZERO "}")),
                     VC_E_FORMAT);
    assert_non_null(strstr(vc_ctx_message(ctx), "different shapes"));
    table_close(ctx, &t);
    test_ctx_done(ctx);
}

static void test_deep_and_cut_documents(void **state)
{
    static char whole[] = DOCUMENT("\"w\": {" INT8 ", " CHANNEL ", " ASYMMETRIC ", " SCALE ", " ZERO "}");
    struct vc_ctx *ctx = test_ctx();
    struct table t;
    static char deep[1000000];

    (void)state;
    table_open(ctx, &t, shape_channel, 3);
    memset(deep, '[', sizeof deep);
    assert_int_equal(vc_manifest_apply(ctx, deep, sizeof deep, &t.model), VC_E_FORMAT);
    for (size_t n = 0; n < sizeof whole - 1; n++) {
        assert_int_equal(vc_manifest_apply(ctx, whole, n, &t.model), VC_E_FORMAT);
    }
    assert_int_equal(vc_manifest_apply(ctx, whole, sizeof whole, &t.model), VC_E_FORMAT); /* a NUL behind it */
    assert_int_equal(vc_manifest_apply(ctx, whole, sizeof whole - 1, &t.model), VC_OK);
    table_close(ctx, &t);
    test_ctx_done(ctx);
}

/* ---- without a manifest ---- */

static void check_inferred(const uint64_t *scale, unsigned n_dims, bool with_zero, bool quantized,
                           enum vc_granularity granularity)
{
    struct vc_ctx *ctx = test_ctx();
    struct table t;
    const struct vc_quant *q;

    table_open(ctx, &t, scale, n_dims);
    if (!with_zero) {
        t.tensors[W_ZERO].name = "z";
        assert_int_equal(vc_model_index_names(ctx, &t.model), VC_OK);
    }
    assert_int_equal(vc_manifest_infer(ctx, &t.model, false), VC_OK);
    q = t.tensors[W].quant;
    assert_int_equal(q != NULL, quantized);
    if (q != NULL) {
        assert_int_equal(q->granularity, granularity);
        assert_int_equal(q->symmetric, !with_zero);
        assert_int_equal(q->source_dtype, VC_DTYPE_F32);
        assert_int_equal(t.tensors[W_SCALE].part_of, W);
    }
    table_close(ctx, &t);
    test_ctx_done(ctx);
}

static void test_inference(void **state)
{
    static const uint64_t groups_of_1[] = {6, 8}, groups_of_3_or_2[] = {6, 3}, wrong[] = {4, 6}, full[] = {6, 4, 2};
    static const uint64_t groups_of_4[] = {6, 2};

    (void)state;
    for (int zero = 0; zero < 2; zero++) {
        check_inferred(shape_one, 1, zero != 0, true, VC_GRANULARITY_TENSOR);
        check_inferred(shape_one, 0, zero != 0, true, VC_GRANULARITY_TENSOR);
        check_inferred(shape_channel, 3, zero != 0, true, VC_GRANULARITY_CHANNEL);
        check_inferred(shape_axis1, 3, zero != 0, true, VC_GRANULARITY_CHANNEL);
        check_inferred(groups_of_1, 2, zero != 0, true, VC_GRANULARITY_GROUP);
        check_inferred(groups_of_3_or_2, 2, zero != 0, true, VC_GRANULARITY_GROUP); /* of 8: only 3 gives 3 */
        check_inferred(groups_of_4, 2, zero != 0, false, VC_GRANULARITY_GROUP);     /* 4, 5, 6 or 7 */
        check_inferred(wrong, 2, zero != 0, false, VC_GRANULARITY_GROUP);
        check_inferred(full, 3, zero != 0, false, VC_GRANULARITY_GROUP);
    }
}

/* ---- writing ---- */

static void test_what_is_written_is_understood(void **state)
{
    static const struct vc_recipe_entry recipe[] = {{"scheme", "int8"}, {"rules", "a \"quoted\" \\ name\n"}};
    struct vc_ctx *ctx = test_ctx();

    (void)state;
    for (int granularity = 0; granularity < 3; granularity++) {
        const uint64_t *scale = granularity == 0 ? shape_one : granularity == 1 ? shape_axis1 : shape_group;
        const struct vc_quant quant = {.scheme = VC_SCHEME_INT8,
                                       .granularity = (enum vc_granularity)granularity,
                                       .axis = 1,
                                       .group_size = 3,
                                       .symmetric = granularity == 1,
                                       .source_dtype = VC_DTYPE_F64,
                                       .n_parts = granularity == 1 ? 1 : 2,
                                       .parts = {{VC_PART_SCALE, W_SCALE}, {VC_PART_ZERO_POINT, W_ZERO}}};
        struct vc_out_tensor tensors[N_TENSORS] = {
            {.name = "w", .dtype = VC_DTYPE_I8, .quant = &quant},
            {.name = "w.scale", .dtype = VC_DTYPE_F32},
            {.name = "w.zero_point", .dtype = VC_DTYPE_I8},
            {.name = "b", .dtype = VC_DTYPE_F32},
            {.name = "h", .dtype = VC_DTYPE_BF16, .source_dtype = VC_DTYPE_F32},
        };
        struct vc_out_list outs = {.n = N_TENSORS, .tensors = tensors, .n_recipe = 2, .recipe = recipe};
        struct vc_text text;
        struct table t;

        vc_text_init(&text, ctx);
        table_open(ctx, &t, scale, granularity == 0 ? 1 : granularity == 1 ? 3 : 2);
        assert_int_equal(vc_manifest_write(ctx, &outs, &text), VC_OK);
        if (vc_manifest_apply(ctx, text.data, text.n, &t.model) != VC_OK) {
            fail_msg("%s: %s", text.data, vc_ctx_message(ctx));
        }
        assert_int_equal(t.tensors[W].quant->granularity, granularity);
        assert_int_equal(t.tensors[W].quant->symmetric, granularity == 1);
        assert_int_equal(t.tensors[W].quant->source_dtype, VC_DTYPE_F64);
        assert_int_equal(t.tensors[H].dtype, VC_DTYPE_BF16);
        table_close(ctx, &t);
        vc_text_release(&text);
    }
    test_ctx_done(ctx);
}

static void test_nothing_to_say(void **state)
{
    struct vc_out_tensor plain = {.name = "b", .dtype = VC_DTYPE_F16, .source_dtype = VC_DTYPE_F32};
    struct vc_out_list outs = {.n = 1, .tensors = &plain};
    struct vc_ctx *ctx = test_ctx();
    struct vc_text text;

    (void)state;
    vc_text_init(&text, ctx);
    assert_int_equal(vc_manifest_write(ctx, &outs, &text), VC_OK);
    assert_int_equal(text.n, 0);
    vc_text_release(&text);
    test_ctx_done(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_what_fits_is_applied),
                                       cmocka_unit_test(test_bf16),
                                       cmocka_unit_test(test_other_scales),
                                       cmocka_unit_test(test_what_does_not_fit_is_refused),
                                       cmocka_unit_test(test_zero_points_of_another_shape),
                                       cmocka_unit_test(test_deep_and_cut_documents),
                                       cmocka_unit_test(test_inference),
                                       cmocka_unit_test(test_what_is_written_is_understood),
                                       cmocka_unit_test(test_nothing_to_say)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
