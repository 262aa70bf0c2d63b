/* test_couple.c - the couplings of small graphs, line by line as a file has them, and of every golden: what is printed
 * reads back to the same groups. */
#include "facade/graph_config.h"
#include "graph/build.h"
#include "support.h"

#include <dirent.h>
#include <stdlib.h>

#include "core/model/memory_model.h"
#include "couple_nets.h"
#include "graph/couple/couple_rules.h"
#include "scratch.h"

static struct vc_ctx *ctx;

static int begin(void **state)
{
    (void)state;
    ctx = test_ctx();
    return 0;
}

static int end(void **state)
{
    (void)state;
    empty_folder();
    test_ctx_done(ctx);
    return 0;
}

/* ---- reading back ---- */

/* A model with the graph's tensors, without values. */
static struct vc_model *model_of(const struct vc_graph *graph)
{
    size_t n = 0;
    struct vc_memory_tensor *tensors = calloc(vc_graph_param_count(graph) + 1, sizeof *tensors);
    struct vc_model *model = NULL;

    assert_non_null(tensors);
    for (uint32_t p = 0; p < vc_graph_param_count(graph); p++) {
        const struct vc_graph_param *param = vc_graph_param(graph, p);
        bool seen = false;

        for (size_t k = 0; k < n; k++) {
            seen = seen || strcmp(tensors[k].name, param->tensor) == 0;
        }
        if (!seen) {
            tensors[n++] = (struct vc_memory_tensor){.name = param->tensor,
                                                     .dtype = VC_DTYPE_F32,
                                                     .n_dims = param->n_dims,
                                                     .shape = param->shape,
                                                     .data = tensors};
        }
    }
    assert_int_equal(vc_memory_model_create(ctx, tensors, n, &model), VC_OK);
    free(tensors);
    return model;
}

static void expect_same_member(const struct vc_coupling_member *a, const struct vc_coupling_member *b)
{
    assert_string_equal(a->tensor, b->tensor);
    assert_int_equal(a->axis, b->axis);
    assert_int_equal(a->offset, b->offset);
    assert_int_equal(a->block, b->block);
    assert_int_equal(a->repeat, b->repeat);
    assert_int_equal(a->makes, b->makes);
    assert_int_equal(a->whole, b->whole);
    assert_int_equal(a->unit, b->unit);
}

/* The printed file has the groups that are not fixed, as they were. */
static void expect_reads_back(const struct vc_graph *graph, const struct vc_couplings *couplings, const char *text)
{
    struct vc_model *model = model_of(graph);
    struct vc_couplings *again = NULL;
    size_t at = 0;

    (void)save_text("couplings.txt", text);
    if (vc_couplings_read(ctx, in_folder("couplings.txt"), model, &again) != VC_OK) {
        fail_msg("%s\n%s", vc_ctx_message(ctx), text);
    }
    for (size_t k = 0; k < vc_couplings_count(couplings); k++) {
        const struct vc_coupling *a = vc_coupling(couplings, k);
        const struct vc_coupling *b = vc_coupling(again, at);

        if (a->fixed != NULL) {
            continue;
        }
        assert_non_null(b);
        assert_int_equal(a->unit, b->unit);
        assert_int_equal(a->n_units, b->n_units);
        assert_int_equal(a->n_members, b->n_members);
        for (size_t i = 0; i < a->n_members; i++) {
            expect_same_member(&a->members[i], &b->members[i]);
        }
        at++;
    }
    assert_int_equal(at, vc_couplings_count(again));
    vc_result_free(again);
    vc_model_close(model);
}

/* Every index of a group lies in its tensor. */
static void expect_inside(const struct vc_graph *graph, const struct vc_couplings *couplings)
{
    struct vc_model *model = model_of(graph);

    for (size_t k = 0; k < vc_couplings_count(couplings); k++) {
        const struct vc_coupling *group = vc_coupling(couplings, k);

        assert_true(group->n_units > 1);
        for (size_t i = 0; i < group->n_members; i++) {
            const struct vc_coupling_member *m = &group->members[i];
            size_t index = vc_model_find(model, m->tensor);

            assert_true(index != VC_NO_TENSOR);
            assert_true(m->whole || m->offset + group->n_units * m->block * m->repeat <=
                                        vc_model_tensor(model, index)->shape[m->axis]);
        }
    }
    vc_model_close(model);
}

/* The couplings as a file, checked; freed with vc_text_free. */
static char *text_of(struct vc_graph *graph)
{
    struct vc_couplings *couplings = NULL;
    char *text = NULL;

    if (vc_couplings_of_graph(ctx, graph, &couplings) != VC_OK) {
        fail_msg("%s", vc_ctx_message(ctx));
    }
    assert_int_equal(vc_couplings_print(ctx, couplings, &text), VC_OK);
    expect_inside(graph, couplings);
    expect_reads_back(graph, couplings, text);
    vc_result_free(couplings);
    return text;
}

/* ---- small graphs ---- */

static struct vc_graph *graph_of(const char *text)
{
    struct vc_graph *graph = NULL;

    if (vc_graph_read_text(ctx, save_text("net.txt", text), NULL, &graph) != VC_OK) {
        fail_msg("%s", vc_ctx_message(ctx));
    }
    return graph;
}

/* The graph of the text, a list of layers or ONNX's, has these groups that are not fixed. */
static void expect_groups(const char *net, const char *wanted)
{
    struct vc_graph *graph = graph_of(net);
    char *text = text_of(graph);
    char *to = text;

    for (char *line = text; *line != '\0';) { /* without comments */
        char *next = strchr(line, '\n') + 1;

        if (*line != '#') {
            memmove(to, line, (size_t)(next - line));
            to += next - line;
        }
        line = next;
    }
    *to = '\0';
    assert_string_equal(text, wanted);
    vc_text_free(text);
    vc_graph_close(graph);
}

/* A comment of the couplings has these words. */
static void expect_fixed(const char *net, const char *words)
{
    struct vc_graph *graph = graph_of(net);
    char *text = text_of(graph);

    if (strstr(text, words) == NULL) {
        fail_msg("'%s' is not in\n%s", words, text);
    }
    vc_text_free(text);
    vc_graph_close(graph);
}

static void small_graphs(void **state)
{
    (void)state;
    for (size_t k = 0; k < N_COUPLE_NETS; k++) {
        print_message("%s\n", couple_nets[k].name);
        expect_groups(couple_nets[k].text, couple_nets[k].groups);
    }
}

static void reasons(void **state)
{
    (void)state;
    expect_fixed("input x [batch, 8]\nlinear fc1 6\nrelu\nlinear fc2 4\n",
                 "# is an input of the graph: fc1.weight:1\n");
    expect_fixed("input x [batch, 8]\nlinear fc1 6\nrelu\nlinear fc2 4\n",
                 "# is an output of the graph: fc2.weight:0 = fc2.bias:0\n");
    expect_fixed(
        "input x [batch, 8]\nlinear fc1 6\nsoftmax\nlinear fc2 4\n",
        "# goes through Softmax, which divides by the sum over it: fc1.weight:0 = fc1.bias:0 = fc2.weight:1\n");
    expect_fixed("input x [batch, 3, 8, 8]\nconv a 6 kernel=1\nreshape [0, 3, 2, 8, 8]\nreshape [0, 2, 3, 8, 8]\n"
                 "reshape [0, 6, 8, 8]\nconv b 2 kernel=1\n",
                 "# is divided in ways that do not fit together: a.weight:0*2 = a.bias:0*2\n");
}

/* The couplings, their text, and what that reads back to, with the n-th allocation failing. */
static enum vc_status with_failure(struct vc_graph *graph, const struct vc_model *model, uint64_t n)
{
    struct vc_couplings *couplings = NULL;
    struct vc_couplings *again = NULL;
    char *text = NULL;
    enum vc_status status;

    vc_pool_fail_at(ctx->shared->pool, n, 0);
    status = vc_couplings_of_graph(ctx, graph, &couplings);
    status = status == VC_OK ? vc_couplings_print(ctx, couplings, &text) : status;
    if (status == VC_OK) {
        (void)save_text("couplings.txt", text);
        status = vc_couplings_read(ctx, in_folder("couplings.txt"), model, &again);
    }
    vc_pool_fail_at(ctx->shared->pool, 0, 0);
    vc_text_free(text);
    vc_result_free(again);
    vc_result_free(couplings);
    return status;
}

/* Every allocation fails once; nothing is left behind, and no other failure is told. */
static void no_memory(void **state)
{
    (void)state;
    for (size_t k = 0; k < N_COUPLE_NETS; k++) {
        struct vc_graph *graph = graph_of(couple_nets[k].text);
        struct vc_model *model = model_of(graph);
        enum vc_status status = VC_E_NOMEM;

        for (uint64_t n = 1; status != VC_OK; n++) {
            assert_int_equal(status, VC_E_NOMEM);
            assert_true(n < 5000);
            status = with_failure(graph, model, n);
        }
        vc_model_close(model);
        vc_graph_close(graph);
    }
}

/* ---- goldens ---- */

static const char *goldens;

static void all_goldens(void **state)
{
    DIR *dir = opendir(goldens);
    struct dirent *entry;
    size_t n = 0;

    (void)state;
    assert_non_null(dir);
    while ((entry = readdir(dir)) != NULL) {
        char path[4096];
        struct vc_graph *graph = NULL;
        char *text;

        (void)snprintf(path, sizeof path, "%s/%s/config.json", goldens, entry->d_name);
        if (entry->d_name[0] == '.' || !exists(path)) {
            continue;
        }
        if (vc_graph_build_config(ctx, path, &graph) != VC_OK) {
            fail_msg("%s: %s", entry->d_name, vc_ctx_message(ctx));
        }
        text = text_of(graph);
        /* a norm over all heads takes their mean in OLMo 2 */
        if (strstr(text, "\nheads: ") == NULL && strncmp(entry->d_name, "resnet", 6) != 0 &&
            strcmp(entry->d_name, "olmo2") != 0) {
            fail_msg("%s: no heads can be removed\n%s", entry->d_name, text);
        }
        if (strstr(text, "gate.weight:1") != NULL && strstr(text, "\nexperts: ") == NULL) {
            fail_msg("%s: no experts can be removed\n%s", entry->d_name, text);
        }
        vc_text_free(text);
        vc_graph_close(graph);
        n++;
    }
    assert_int_equal(closedir(dir), 0);
    assert_true(n >= 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(small_graphs, begin, end),
        cmocka_unit_test_setup_teardown(reasons, begin, end),
        cmocka_unit_test_setup_teardown(no_memory, begin, end),
        cmocka_unit_test_setup_teardown(all_goldens, begin, end),
    };

    goldens = getenv("VCOMPRESS_GOLDENS");
    if (goldens == NULL) {
        fprintf(stderr, "VCOMPRESS_GOLDENS has to name tests/graph/goldens\n");
        return 1;
    }
    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
