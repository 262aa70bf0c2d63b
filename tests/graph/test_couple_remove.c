/* test_couple_remove.c - what couplings are for: the weights that read some units are set to 0, and then the units are
 * cut out of every tensor and out of all numbers that the graph states. Outputs stay what they were, for every group
 * of every golden and of small graphs of each kind. */
#include "graph/base/graph_state.h"
#include "support.h"

#include <dirent.h>
#include <math.h>
#include <stdlib.h>

#include "core/model/memory_model.h"
#include "couple_nets.h"
#include "graph/build.h"
#include "graph/couple/couple.h"
#include "scratch.h"

static struct vc_ctx *ctx;

static void *must(void *p)
{
    assert_non_null(p);
    return p;
}

/* ---- weights ---- */

/* A tensor's values, in memory. */
struct weight {
    const char *name;
    unsigned n_dims;
    uint64_t shape[VC_GRAPH_MAX_DIMS];
    uint64_t n;
    float *data;
};

/* Those of a model. */
struct weights {
    size_t n;
    struct weight *list;
    struct vc_memory_tensor *tensors;
    struct vc_model *model;
};

static void weights_open(struct weights *w)
{
    w->tensors = must(calloc(w->n + 1, sizeof *w->tensors));
    for (size_t k = 0; k < w->n; k++) {
        w->tensors[k] = (struct vc_memory_tensor){.name = w->list[k].name,
                                                  .dtype = VC_DTYPE_F32,
                                                  .n_dims = w->list[k].n_dims,
                                                  .shape = w->list[k].shape,
                                                  .data = w->list[k].data};
    }
    assert_int_equal(vc_memory_model_create(ctx, w->tensors, w->n, &w->model), VC_OK);
}

static void weights_release(struct weights *w)
{
    vc_model_close(w->model);
    for (size_t k = 0; k < w->n; k++) {
        free(w->list[k].data);
    }
    free(w->list);
    free(w->tensors);
}

/* The graph's tensors: values of the model, or random ones without. */
static void weights_of(const struct vc_graph *graph, const struct vc_model *model, struct weights *w)
{
    uint64_t state = 12345;

    *w = (struct weights){.list = must(calloc(vc_graph_param_count(graph) + 1, sizeof *w->list))};
    for (uint32_t p = 0; p < vc_graph_param_count(graph); p++) {
        const struct vc_graph_param *param = vc_graph_param(graph, p);
        struct weight *to = &w->list[w->n];
        bool seen = false;

        for (size_t k = 0; k < w->n; k++) {
            seen = seen || strcmp(w->list[k].name, param->tensor) == 0;
        }
        if (seen) {
            continue;
        }
        *to = (struct weight){.name = param->tensor, .n_dims = param->n_dims, .n = 1};
        for (unsigned k = 0; k < param->n_dims; k++) {
            to->shape[k] = param->shape[k];
            to->n *= param->shape[k];
        }
        to->data = must(malloc((size_t)to->n * sizeof *to->data + 1));
        for (uint64_t k = 0; k < to->n; k++) {
            state = state * 6364136223846793005u + 1442695040888963407u;
            to->data[k] = (float)(state >> 40) / (float)(1 << 24) + (strstr(to->name, "var") != NULL ? 0.5F : -0.4F);
        }
        if (model != NULL) {
            size_t index = vc_model_find(model, to->name);

            assert_true(index != VC_NO_TENSOR);
            assert_int_equal(vc_model_read(ctx, model, index, 0, to->n, to->data, (size_t)to->n * sizeof *to->data),
                             VC_OK);
        }
        w->n++;
    }
    weights_open(w);
}

/* ---- units ---- */

/* The unit that an index of the axis belongs to; -1: none. */
static int64_t unit_of(const struct vc_coupling *group, const struct vc_coupling_member *m, uint64_t index)
{
    uint64_t at = index - m->offset;

    return index < m->offset || at >= group->n_units * m->block * m->repeat ? -1
                                                                            : (int64_t)(at / m->block % group->n_units);
}

/* Some units in the middle, and the first one where there are several. */
static bool goes(const struct vc_coupling *group, int64_t unit)
{
    return unit >= 0 && (group->n_units == 2 ? unit == 1 : unit % 3 == 1 || unit == 0);
}

static uint64_t inner_of(const struct weight *w, unsigned axis)
{
    uint64_t n = 1;

    for (unsigned k = axis + 1; k < w->n_dims; k++) {
        n *= w->shape[k];
    }
    return n;
}

static const struct weight *weight_named(const struct weights *w, const char *name)
{
    for (size_t k = 0; k < w->n; k++) {
        if (strcmp(w->list[k].name, name) == 0) {
            return &w->list[k];
        }
    }
    fail_msg("%s is no tensor", name);
    return NULL;
}

/* What reads the units becomes 0. */
static void silence(const struct weights *w, const struct vc_coupling *group)
{
    for (size_t i = 0; i < group->n_members; i++) {
        const struct vc_coupling_member *m = &group->members[i];
        const struct weight *to = weight_named(w, m->tensor);
        uint64_t inner = inner_of(to, m->axis);

        for (uint64_t k = 0; k < to->n && !m->makes; k++) {
            if (goes(group, unit_of(group, m, k / inner % to->shape[m->axis]))) {
                to->data[k] = 0;
            }
        }
    }
}

/* The element goes: some member has it in a unit that does. */
static bool is_cut(const struct vc_coupling *group, const struct weight *w, unsigned axis, uint64_t index)
{
    for (size_t i = 0; i < group->n_members; i++) {
        const struct vc_coupling_member *m = &group->members[i];

        if (m->axis == axis && strcmp(m->tensor, w->name) == 0 && goes(group, unit_of(group, m, index))) {
            return true;
        }
    }
    return false;
}

/* The weights without the units. */
static void cut(const struct weights *from, const struct vc_coupling *group, struct weights *to)
{
    *to = (struct weights){.n = from->n, .list = must(calloc(from->n + 1, sizeof *to->list))};
    for (size_t t = 0; t < from->n; t++) {
        const struct weight *a = &from->list[t];
        struct weight *b = &to->list[t];
        uint64_t at = 0;

        *b = *a;
        b->data = must(malloc((size_t)a->n * sizeof *b->data + 1));
        for (unsigned d = 0; d < a->n_dims; d++) {
            b->shape[d] = 0;
            for (uint64_t i = 0; i < a->shape[d]; i++) {
                b->shape[d] += is_cut(group, a, d, i) ? 0 : 1;
            }
        }
        for (uint64_t k = 0; k < a->n; k++) {
            bool gone = false;

            for (unsigned d = 0; d < a->n_dims; d++) {
                gone = gone || is_cut(group, a, d, k / inner_of(a, d) % a->shape[d]);
            }
            if (!gone) {
                b->data[at++] = a->data[k];
            }
        }
        b->n = at;
    }
    weights_open(to);
}

/* ---- the graph without the units ---- */

struct edits {
    struct vc_arena arena;
    const struct vc_graph_edit *list;
    size_t n;
    size_t n_used;
};

static const struct vc_graph_edit *edit_of(struct edits *edits, enum vc_graph_edit_kind kind, const char *value,
                                           unsigned input, const char *attribute)
{
    for (size_t k = 0; k < edits->n; k++) {
        const struct vc_graph_edit *e = &edits->list[k];

        if (e->kind == kind && strcmp(e->value, value) == 0 &&
            (kind == VC_GRAPH_EDIT_INPUT ? e->input == input
                                         : kind != VC_GRAPH_EDIT_ATTRIBUTE || strcmp(e->attribute, attribute) == 0)) {
            edits->n_used += kind == VC_GRAPH_EDIT_SHAPE ? 0 : 1;
            return e;
        }
    }
    return NULL;
}

/* A parameter of the cut tensors. Slices begin and end where the edits of their Slice say. */
static uint32_t add_param(struct vc_graph *to, const struct vc_graph *from, const struct vc_graph_value *v,
                          const struct weights *w, struct edits *edits)
{
    const struct vc_graph_param *param = vc_graph_param(from, v->param);
    const struct weight *tensor = weight_named(w, param->tensor);
    const char *slice = from->facts[vc_graph_find(from, v->name)].slice;
    const struct vc_graph_edit *first = slice == NULL ? NULL : edit_of(edits, VC_GRAPH_EDIT_INPUT, slice, 1, NULL);
    const struct vc_graph_edit *end = slice == NULL ? NULL : edit_of(edits, VC_GRAPH_EDIT_INPUT, slice, 2, NULL);
    uint64_t begin = first != NULL ? (uint64_t)first->numbers[0] : param->first;
    uint64_t behind = end != NULL ? (uint64_t)end->numbers[0] : param->first + param->count;
    struct vc_param_spec spec = {.tensor = param->tensor,
                                 .index = (size_t)(tensor - w->list),
                                 .n_dims = param->n_dims,
                                 .shape = tensor->shape,
                                 .sliced = param->sliced,
                                 .axis = param->axis,
                                 .first = begin,
                                 .count = behind - begin,
                                 .transposed = param->transposed};

    return vc_graph_add_param(to, v->name, &spec);
}

static uint32_t add_constant(struct vc_graph *to, const struct vc_graph_value *v)
{
    int64_t shape[VC_GRAPH_MAX_DIMS];

    for (unsigned k = 0; k < v->n_dims; k++) {
        shape[k] = v->shape[k].size;
    }
    return vc_graph_add_constant(to, v->name, v->dtype, shape, v->n_dims, v->data);
}

static struct vc_dim same_dim(struct vc_graph *to, const struct vc_graph *from, struct vc_dim dim)
{
    char text[200];

    return vc_dim_is_number(dim) ? dim : vc_dim_symbol(&to->dims, vc_graph_dim_text(from, dim, text, sizeof text));
}

static void add_node(struct vc_graph *to, const struct vc_graph *from, uint32_t number, uint32_t *value,
                     struct edits *edits)
{
    const struct vc_graph_node *node = vc_graph_node(from, number);
    const char *name = vc_graph_value(from, node->outputs[0])->name;
    uint32_t *inputs = must(calloc(node->n_inputs + 1, sizeof *inputs));
    const char **names = must(calloc(node->n_outputs, sizeof *names));
    struct vc_graph_attr attrs[16];
    uint32_t first;

    assert_true(node->n_attrs <= 16);
    for (unsigned k = 0; k < node->n_inputs; k++) {
        const struct vc_graph_edit *e = edit_of(edits, VC_GRAPH_EDIT_INPUT, name, k, NULL);

        inputs[k] = e != NULL                        ? vc_graph_add_ints(to, e->numbers, e->n)
                    : node->inputs[k] == VC_NO_VALUE ? VC_NO_VALUE
                                                     : value[node->inputs[k]];
    }
    for (unsigned k = 0; k < node->n_attrs; k++) {
        const struct vc_graph_edit *e = edit_of(edits, VC_GRAPH_EDIT_ATTRIBUTE, name, 0, node->attrs[k].name);

        attrs[k] = e != NULL ? vc_attr_int(node->attrs[k].name, e->numbers[0]) : node->attrs[k];
    }
    for (unsigned k = 0; k < node->n_outputs; k++) {
        names[k] = node->outputs[k] == VC_NO_VALUE ? NULL : vc_graph_value(from, node->outputs[k])->name;
    }
    first = vc_graph_add_node(to, &(struct vc_node_spec){.op = node->op,
                                                         .n_inputs = node->n_inputs,
                                                         .n_outputs = node->n_outputs,
                                                         .n_attrs = node->n_attrs,
                                                         .inputs = inputs,
                                                         .output_names = names,
                                                         .attrs = attrs});
    for (unsigned k = 0; k < node->n_outputs; k++) {
        if (node->outputs[k] != VC_NO_VALUE) {
            value[node->outputs[k]] = vc_graph_output_of(to, first, k);
        }
    }
    free(inputs);
    free(names);
}

static struct vc_graph *edited(const struct vc_graph *from, const struct weights *w, struct edits *edits)
{
    struct vc_graph *to = NULL;
    uint32_t *value = must(calloc(vc_graph_value_count(from), sizeof *value));

    assert_int_equal(vc_graph_create(ctx, &to), VC_OK);
    for (uint32_t v = 0; v < vc_graph_value_count(from); v++) {
        const struct vc_graph_value *old = vc_graph_value(from, v);
        struct vc_dim shape[VC_GRAPH_MAX_DIMS];

        for (unsigned k = 0; k < old->n_dims; k++) {
            shape[k] = same_dim(to, from, old->shape[k]);
        }
        if (old->kind == VC_VALUE_PARAMETER) {
            value[v] = add_param(to, from, old, w, edits);
        } else if (old->kind == VC_VALUE_CONSTANT) {
            value[v] = add_constant(to, old);
        } else if (old->kind == VC_VALUE_INPUT) {
            value[v] = vc_graph_add_input(to, old->name, old->dtype, shape, old->n_dims);
        }
    }
    for (uint32_t k = 0; k < vc_graph_node_count(from); k++) {
        add_node(to, from, k, value, edits);
    }
    for (uint32_t k = 0; k < vc_graph_output_count(from); k++) {
        vc_graph_add_output(to, value[vc_graph_output(from, k)]);
    }
    free(value);
    if (vc_graph_finish(to, &to) != VC_OK) {
        fail_msg("%s", vc_ctx_message(ctx));
    }
    return to;
}

/* What the edits declare is what the shapes are. */
static void check_shapes(struct edits *edits, const struct vc_graph *before, const struct vc_graph *after)
{
    for (uint32_t v = 0; v < vc_graph_value_count(after); v++) {
        const struct vc_graph_value *is = vc_graph_value(after, v);
        uint32_t old = vc_graph_find(before, is->name);
        const struct vc_graph_value *was = old == VC_NO_VALUE ? is : vc_graph_value(before, old);
        const struct vc_graph_edit *e = edit_of(edits, VC_GRAPH_EDIT_SHAPE, is->name, 0, NULL);

        for (unsigned k = 0; k < is->n_dims && e != NULL; k++) {
            int64_t wanted = e->n == 0 || e->numbers[k] == -1 ? was->shape[k].size : e->numbers[k];

            if (is->shape[k].size != wanted) {
                fail_msg("%s: dimension %u is %lld, and the edit has %lld", is->name, k, (long long)is->shape[k].size,
                         (long long)wanted);
            }
        }
    }
}

/* ---- running ---- */

/* All outputs one behind the other. */
struct results {
    double *data;
    size_t n;
};

static enum vc_status take(void *user, const struct vc_graph_array *array)
{
    struct results *r = user;

    if (array->dtype == VC_DTYPE_F64) {
        r->data = must(realloc(r->data, (r->n + array->n_elems + 1) * sizeof *r->data));
        memcpy(r->data + r->n, array->data, (size_t)array->n_elems * sizeof *r->data);
        r->n += array->n_elems;
    }
    return VC_OK;
}

static struct results run(const char *name, struct vc_graph *graph, const struct weights *w,
                          const struct vc_graph_array *inputs, size_t n_inputs)
{
    struct vc_graph_run_options options;
    struct results results = {NULL, 0};

    vc_graph_run_defaults(&options);
    options.precision = VC_GRAPH_F64;
    options.take = take;
    options.user = &results;
    if (vc_graph_run(ctx, graph, w->model, inputs, n_inputs, &options) != VC_OK) {
        fail_msg("%s: %s", name, vc_ctx_message(ctx));
    }
    return results;
}

static void remove_group(const char *name, struct vc_graph *graph, const struct vc_couplings *couplings, size_t k,
                         const struct vc_model *model, const struct vc_graph_array *inputs, size_t n_inputs)
{
    const struct vc_coupling *group = vc_coupling(couplings, k);
    uint64_t *kept = must(calloc(vc_couplings_count(couplings), sizeof *kept));
    struct edits edits = {.n = 0};
    struct weights all;
    struct weights some;
    struct edits none = {.n = 0};
    struct vc_graph *whole;
    struct vc_graph *smaller;
    struct results before;
    struct results after;
    double largest = 0;
    double worst = 0;

    for (size_t i = 0; i < vc_couplings_count(couplings); i++) {
        kept[i] = vc_coupling(couplings, i)->n_units;
    }
    for (uint64_t u = 0; u < group->n_units; u++) {
        kept[k] -= goes(group, (int64_t)u) ? 1 : 0;
    }
    assert_int_equal(vc_couplings_edits(ctx, couplings, kept, &edits.arena, &edits.list, &edits.n), VC_OK);
    weights_of(graph, model, &all);
    silence(&all, group);
    cut(&all, group, &some);
    whole = edited(graph, &all, &none);
    smaller = edited(graph, &some, &edits);
    check_shapes(&edits, graph, smaller);
    before = run(name, whole, &all, inputs, n_inputs);
    after = run(name, smaller, &some, inputs, n_inputs);
    assert_int_equal(before.n, after.n);
    for (size_t i = 0; i < before.n; i++) {
        largest = fmax(largest, fabs(before.data[i]));
        worst = fabs(before.data[i] - after.data[i]) <= worst ? worst : fabs(before.data[i] - after.data[i]);
    }
    if (!(worst <= 1e-10 * largest) || largest == 0) {
        fail_msg("%s, %s of %llu: outputs of up to %g differ by %g", name, group->name,
                 (unsigned long long)group->n_units, largest, worst);
    }
    for (size_t i = 0; i < edits.n; i++) {
        edits.n_used -= edits.list[i].kind == VC_GRAPH_EDIT_SHAPE ? 0 : 1;
    }
    assert_int_equal(edits.n_used, 0); /* every edit found its node */
    vc_graph_close(whole);
    vc_graph_close(smaller);
    weights_release(&all);
    weights_release(&some);
    vc_arena_release(ctx, &edits.arena);
    free(before.data);
    free(after.data);
    free(kept);
}

/* Every group of the graph of the text that can lose units without a change: how many there are. */
static unsigned remove_all(const char *name, const char *text, const struct vc_model *model,
                           const struct vc_graph_array *inputs, size_t n_inputs)
{
    struct vc_graph_options options;
    struct vc_graph *graph = NULL;
    struct vc_couplings *couplings = NULL;
    unsigned n = 0;

    vc_graph_defaults(&options);
    if (vc_graph_parse_text(ctx, text, strlen(text), &options, &graph) != VC_OK) {
        fail_msg("%s: %s", name, vc_ctx_message(ctx));
    }
    assert_int_equal(vc_couplings_of_graph(ctx, graph, &couplings), VC_OK);
    for (size_t k = 0; k < vc_couplings_count(couplings); k++) {
        const struct vc_coupling *group = vc_coupling(couplings, k);

        if (group->fixed == NULL && (group->unit == VC_UNIT_NEURONS || group->unit == VC_UNIT_HEADS)) {
            remove_group(name, graph, couplings, k, model, inputs, n_inputs);
            n++;
        }
    }
    vc_result_free(couplings);
    vc_graph_close(graph);
    return n;
}

/* ---- goldens ---- */

static const char *goldens;

/* The arrays "input.NAME" of the file beside a golden; to be freed. */
static size_t golden_inputs(const struct vc_model *values, struct vc_graph_array *inputs)
{
    size_t n = 0;

    for (size_t i = 0; i < vc_model_facts(values)->n_tensors; i++) {
        const struct vc_tensor *t = vc_model_tensor(values, i);
        void *data;

        if (strncmp(t->name, "input.", 6) == 0) {
            data = must(malloc((size_t)t->size_bytes));
            assert_int_equal(vc_model_read(ctx, values, i, 0, t->n_elems, data, (size_t)t->size_bytes), VC_OK);
            assert_true(n < 8);
            inputs[n++] = (struct vc_graph_array){.name = t->name + 6,
                                                  .dtype = t->dtype,
                                                  .n_dims = t->n_dims,
                                                  .shape = t->shape,
                                                  .n_elems = t->n_elems,
                                                  .data = data};
        }
    }
    return n;
}

/* The given input with the same shape as that value. */
static const struct vc_graph_array *shaped_like(const struct vc_graph *graph, uint32_t v,
                                                const struct vc_graph_array *inputs, size_t n)
{
    const struct vc_graph_value *value = vc_graph_value(graph, v);

    for (size_t i = 0; i < n; i++) {
        const struct vc_graph_value *other = vc_graph_value(graph, vc_graph_find(graph, inputs[i].name));
        bool same = other->n_dims == value->n_dims && inputs[i].dtype == VC_DTYPE_I64;

        for (unsigned k = 0; same && k < value->n_dims; k++) {
            same = vc_dim_equal(other->shape[k], value->shape[k]);
        }
        if (same) {
            return &inputs[i];
        }
    }
    fail_msg("nobody knows the sizes of %s", value->name);
    return NULL;
}

/* Inputs that a golden leaves out, as the models take them then: all tokens are looked at, their types are 0. */
static size_t add_missing(const struct vc_graph *graph, struct vc_graph_array *inputs, size_t n)
{
    size_t given = n;

    for (uint32_t k = 0; k < vc_graph_input_count(graph); k++) {
        uint32_t v = vc_graph_input(graph, k);
        const char *name = vc_graph_value(graph, v)->name;
        bool seen = false;
        int64_t *data;

        for (size_t i = 0; i < given; i++) {
            seen = seen || strcmp(inputs[i].name, name) == 0;
        }
        if (!seen) {
            assert_true(n < 8);
            inputs[n] = *shaped_like(graph, v, inputs, given);
            data = must(calloc((size_t)inputs[n].n_elems, sizeof *data));
            for (uint64_t i = 0; i < inputs[n].n_elems; i++) {
                data[i] = strstr(name, "attention_mask") != NULL ? 1 : 0;
            }
            inputs[n].name = name;
            inputs[n++].data = data;
        }
    }
    return n;
}

static unsigned one_golden(const char *name)
{
    struct vc_graph_array inputs[8];
    struct vc_model *values = NULL;
    struct vc_model *model = NULL;
    struct vc_graph *graph = NULL;
    char *text = NULL;
    char path[4096];
    unsigned n = 0;
    size_t n_inputs;

    (void)snprintf(path, sizeof path, "%s/%s.safetensors", goldens, name);
    assert_int_equal(vc_model_open(ctx, path, NULL, &values), VC_OK);
    (void)snprintf(path, sizeof path, "%s/%s", goldens, name);
    assert_int_equal(vc_model_open(ctx, path, NULL, &model), VC_OK);
    assert_int_equal(vc_graph_build(ctx, model, NULL, &graph), VC_OK);
    assert_int_equal(vc_graph_print_text(ctx, graph, &text), VC_OK);
    n_inputs = add_missing(graph, inputs, golden_inputs(values, inputs));
    n = remove_all(name, text, model, inputs, n_inputs);
    for (size_t k = 0; k < n_inputs; k++) {
        free((void *)(uintptr_t)inputs[k].data);
    }
    vc_text_free(text);
    vc_graph_close(graph);
    vc_model_close(model);
    vc_model_close(values);
    return n;
}

static void all_goldens(void **state)
{
    DIR *dir = opendir(goldens);
    struct dirent *entry;
    unsigned n = 0;

    (void)state;
    assert_non_null(dir);
    while ((entry = readdir(dir)) != NULL) {
        char path[4096];

        (void)snprintf(path, sizeof path, "%s/%s/model.safetensors", goldens, entry->d_name);
        if (entry->d_name[0] != '.' && exists(path)) {
            unsigned groups = one_golden(entry->d_name);

            if (groups == 0) {
                fail_msg("%s has no groups", entry->d_name);
            }
            n += groups;
        }
    }
    print_message("%u groups removed\n", n);
    assert_int_equal(closedir(dir), 0);
    assert_true(n >= 100);
}

/* ---- small graphs ---- */

/* An input with sizes of 2 where they are open. */
static void fill_input(const struct vc_graph *graph, uint32_t v, struct vc_graph_array *to, uint64_t *shape)
{
    const struct vc_graph_value *value = vc_graph_value(graph, v);
    double *data;

    *to = (struct vc_graph_array){
        .name = value->name, .dtype = VC_DTYPE_F64, .n_dims = value->n_dims, .shape = shape, .n_elems = 1};
    for (unsigned k = 0; k < value->n_dims; k++) {
        shape[k] = vc_dim_is_number(value->shape[k]) ? (uint64_t)value->shape[k].size : 2;
        to->n_elems *= shape[k];
    }
    data = must(malloc((size_t)to->n_elems * sizeof *data));
    for (uint64_t k = 0; k < to->n_elems; k++) {
        data[k] = sin((double)k + 1);
    }
    to->data = data;
}

static void small_graphs(void **state)
{
    (void)state;
    for (size_t k = 0; k < N_COUPLE_NETS; k++) {
        struct vc_graph_array inputs[4];
        uint64_t shapes[4][VC_GRAPH_MAX_DIMS];
        struct vc_graph *graph = NULL;
        char *text = NULL;
        unsigned n;

        if (vc_graph_read_text(ctx, save_text("net.txt", couple_nets[k].text), NULL, &graph) != VC_OK) {
            fail_msg("%s: %s", couple_nets[k].name, vc_ctx_message(ctx));
        }
        assert_int_equal(vc_graph_print_text(ctx, graph, &text), VC_OK);
        assert_true(vc_graph_input_count(graph) <= 4);
        for (uint32_t i = 0; i < vc_graph_input_count(graph); i++) {
            fill_input(graph, vc_graph_input(graph, i), &inputs[i], shapes[i]);
        }
        n = remove_all(couple_nets[k].name, text, NULL, inputs, vc_graph_input_count(graph));
        if (n != couple_nets[k].n_removed) {
            fail_msg("%s: %u groups, not %u", couple_nets[k].name, n, couple_nets[k].n_removed);
        }
        for (uint32_t i = 0; i < vc_graph_input_count(graph); i++) {
            free((void *)(uintptr_t)inputs[i].data);
        }
        vc_text_free(text);
        vc_graph_close(graph);
    }
}

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
    vc_ctx_free(ctx);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(small_graphs, begin, end),
        cmocka_unit_test_setup_teardown(all_goldens, begin, end),
    };

    goldens = getenv("VCOMPRESS_GOLDENS");
    if (goldens == NULL) {
        fprintf(stderr, "VCOMPRESS_GOLDENS has to name tests/graph/goldens\n");
        return 1;
    }
    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
