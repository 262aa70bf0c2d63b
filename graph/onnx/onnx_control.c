/* onnx_control.c - If, Loop and Scan: the nodes of their graphs become nodes of the one graph, whose shapes, memory, gradients
 * and couplings are then those of any node.
 *
 *     y = If (true) <then_branch = { t = Neg (x) }, else_branch = ...>        y = Neg (x)
 *     y = If (c)    <then_branch = { t = Neg (x) }, else_branch = { e = Abs (x) }>
 *                                                                             t = Neg (x); e = Abs (x); y = Where (c, t, e)
 *     y = Loop (2, , x) <body = { ...; v2 = Neg (v) }>                        v2 = Neg (x); y = Neg (v2)
 *
 * A condition is decided here where constants, shapes, or numbers that the user told (vc_ctx_set_known) decide it. Else
 * both branches are in the graph and have to give the same shapes; a run computes what the Where takes (graph/lazy.h).
 * A loop is unrolled: the number of its steps has to be known. Where its condition is computed from data, a run leaves out the steps
 * behind the end.
 *
 * Names of an inner graph are its own or those of the graphs around it (vc_onnx_find_name); every step of a loop makes
 * the values of the body's nodes anew, and shares the body's tensors. */

#include "core/text/text.h"
#include "graph/onnx/onnx_build.h"

#define MAX_STEPS 4096 /* of a loop */
#define MAX_UNROLLED \
    4000000 /* nodes and names of all steps of all loops: most become nodes of the graph, which has fewer */
#define MAX_LOOKED_AT 1000 /* values, for the input that decides */

/* The graph of that attribute; NULL: the node has none, or one that was not read. */
static struct vc_onnx_build *body_of(const struct vc_onnx_build *b, const struct vc_onnx_node *node, const char *attr)
{
    struct vc_onnx_build *body = vc_onnx_inner_of(b, node->from);

    while (body != NULL && strcmp(body->attr, attr) != 0) {
        body = body->next;
    }
    return body;
}

/* The one number that an integer or a truth value is known to be, else *number stays; `dim`, where not NULL, may be a
 * size that is open. */
static bool number_of(struct vc_onnx_build *b, uint32_t value, int64_t *number, struct vc_dim *dim)
{
    uint32_t v = value == VC_NO_VALUE || b->graph->facts[value].unknown ? VC_NO_VALUE : vc_onnx_known(b, value);
    const struct vc_graph_value *known = v == VC_NO_VALUE ? NULL : &b->graph->values[v];
    const struct vc_dim *elems = v == VC_NO_VALUE ? NULL : b->graph->facts[v].elems;

    if (known == NULL || known->dtype == VC_DTYPE_F32 || !vc_graph_is_single(known)) {
        return false;
    }
    if (known->kind != VC_VALUE_CONSTANT && elems != NULL && dim != NULL) {
        *dim = *elems;
    }
    return vc_onnx_integer_at(b, v, 0, number);
}

/* The nodes of the inner graph, once more. Its inputs are set. */
static void run_body(struct vc_onnx_build *body)
{
    body->graph->n_unrolled += body->is_loop ? 1 + body->program->n_nodes + body->n_names : 0;
    for (size_t k = 0; k < body->n_names; k++) {
        body->names[k].is_made &= body->names[k].maker != VC_ONNX_BY_NODE;
    }
    enum vc_status status = body->add_nodes(body);
    body->graph->status = status != VC_OK ? status : body->graph->status;
}

/* What the inner graph gives; unknown where it has no such output. */
static uint32_t output_of(struct vc_onnx_build *body, size_t k)
{
    struct vc_onnx_name *name =
        k < body->program->n_outputs ? vc_onnx_find_name(body, body->program->outputs[k].name) : NULL;

    return name != NULL ? vc_onnx_make_value(body, name) : vc_graph_unknown(body->graph, NULL);
}

/* The condition as a number without dimensions: Where gives the shapes of the other two then. */
static uint32_t scalar(struct vc_onnx_build *b, uint32_t condition)
{
    return b->graph->facts[condition].unknown || b->graph->values[condition].n_dims == 0
               ? condition
               : vc_graph_add(b->graph, "Squeeze", NULL, &condition, 1);
}

/* condition ? yes : no. What is computed of neither is no node. */
static uint32_t choose(struct vc_onnx_build *b, uint32_t condition, uint32_t yes, uint32_t no, const char *name)
{
    return yes == no ? yes : vc_graph_add(b->graph, "Where", name, (uint32_t[]){condition, yes, no}, 3);
}

/* The first symbol that is an element of what is computed from shapes; NULL: there is none. */
static const char *symbol_in(const struct vc_graph *graph, uint32_t value)
{
    const struct vc_graph_value *v = &graph->values[value];
    const struct vc_dim *elems = graph->facts[value].elems;
    int64_t n = elems == NULL ? 0 : v->n_dims == 0 ? 1 : v->shape[0].size;

    for (int64_t k = 0; k < n && v->n_dims <= 1; k++) {
        const struct vc_dim_atom *symbol = vc_dim_symbol_of(&graph->dims, elems[k]);

        if (symbol != NULL) {
            return symbol->name;
        }
    }
    return NULL;
}

/* The input of one number, or the size of one, that the value is computed from; NULL: none within some nodes. left: values
 * to look at, so that what many nodes read many times is not followed for ever. */
static const char *deciding_input(const struct vc_graph *graph, uint32_t value, unsigned depth, unsigned *left)
{
    const struct vc_graph_value *v = &graph->values[value];
    const struct vc_graph_node *node = v->node == VC_NO_NODE ? NULL : &graph->nodes[v->node];
    const char *found = symbol_in(graph, value);

    for (unsigned k = 0; node != NULL && depth < 12 && found == NULL && k < node->n_inputs && *left != 0; k++) {
        (*left)--;
        found = node->inputs[k] != VC_NO_VALUE ? deciding_input(graph, node->inputs[k], depth + 1, left) : NULL;
    }
    return v->kind == VC_VALUE_INPUT && vc_graph_is_single(v) ? v->name : found;
}

/* "where 'sr' is the same in every run, --known sr=N says what it is" */
static const char *advice(struct vc_onnx_build *b, uint32_t value, char *text, size_t n)
{
    unsigned left = MAX_LOOKED_AT;
    const char *input = deciding_input(b->graph, value, 0, &left);

    if (input == NULL) {
        (void)snprintf(text, n, "no input of a single number decides it, which %s could say",
                       vc_option(b->ctx, "known"));
    } else {
        (void)snprintf(text, n, "where '%.100s' is the same in every run, %s %.100s=N says what it is", input,
                       vc_option(b->ctx, "known"), input);
    }
    return text;
}

/* "If 'i': 'c' decides which branch is computed, and ...; where 'sr' is ..." Input k of the node is what decides. */
static bool refuse(struct vc_onnx_build *b, const struct vc_onnx_node *node, unsigned k, const char *why)
{
    char how[400];
    char text[700];

    (void)snprintf(text, sizeof text, "'%.100s' %s; %s", node->from->inputs[k], why,
                   advice(b, node->inputs[k], how, sizeof how));
    return vc_onnx_refuse(b, node, text);
}

/* ---- If ---- */

/* The size that a value of one number is: *dim. */
static bool size_of(struct vc_onnx_build *b, uint32_t value, struct vc_dim *dim)
{
    int64_t number;

    *dim = vc_dim_number(-1);
    if (value != VC_NO_VALUE && number_of(b, value, &number, dim)) {
        *dim = vc_dim_number(number);
    }
    return !vc_dim_is(*dim, -1);
}

/* An Equal of 1 and a size, and Casts behind it: *size. */
static bool is_one(struct vc_onnx_build *b, uint32_t value, struct vc_dim *size)
{
    const struct vc_graph *graph = b->graph;
    const struct vc_graph_node *node = NULL;
    struct vc_dim other;

    do {
        value = node == NULL ? value : node->inputs[0];
        node = graph->values[value].node == VC_NO_NODE ? NULL : &graph->nodes[graph->values[value].node];
    } while (node != NULL && strcmp(node->op, "Cast") == 0);
    if (node == NULL || strcmp(node->op, "Equal") != 0 || !size_of(b, node->inputs[0], size) ||
        !size_of(b, node->inputs[1], &other)) {
        return false;
    }
    if (vc_dim_is(*size, 1)) {
        *size = other;
        return true;
    }
    return vc_dim_is(other, 1);
}

/* The axis that the Squeeze leaves out, if it is one: an attribute, or from operator set 13 on an input. */
static bool axis_of(struct vc_onnx_build *b, const struct vc_program_node *squeeze, int64_t *axis)
{
    struct vc_onnx_name *name = squeeze->n_inputs == 2 ? vc_onnx_find_name(b, squeeze->inputs[1]) : NULL;

    if (name != NULL) {
        return number_of(b, vc_onnx_make_value(b, name), axis, NULL);
    }
    bool one = squeeze->n_attrs == 1 && squeeze->attrs->kind == VC_PROGRAM_INTS && squeeze->attrs->n == 1;
    *axis = one ? squeeze->attrs->ints[0] : 0;
    return one;
}

/* The branch that an exporter of PyTorch writes for x.squeeze(axis): a Squeeze of the axis whose size the condition
 * compares with 1, and constants. Taken where that size is open: the operator refuses runs in which it is not 1. */
static bool is_squeeze(struct vc_onnx_build *b, struct vc_onnx_build *branch, uint32_t condition)
{
    const struct vc_program *p = branch->program;
    const struct vc_program_node *squeeze = NULL;
    struct vc_dim size;
    int64_t axis;

    for (size_t k = 0; k < p->n_nodes; k++) {
        bool constant = strcmp(p->nodes[k].op, "Constant") == 0;

        if (!constant && (squeeze != NULL || strcmp(p->nodes[k].op, "Squeeze") != 0)) {
            return false;
        }
        squeeze = constant ? squeeze : &p->nodes[k];
    }
    if (squeeze == NULL || squeeze->n_inputs == 0 || squeeze->n_outputs != 1 || p->n_outputs != 1 ||
        strcmp(squeeze->outputs[0], p->outputs[0].name) != 0) {
        return false;
    }
    struct vc_onnx_name *x = vc_onnx_find_name(branch, squeeze->inputs[0]);
    if (x == NULL || !x->is_made || b->graph->facts[x->value].unknown || !is_one(b, condition, &size) ||
        !axis_of(branch, squeeze, &axis)) {
        return false;
    }
    const struct vc_graph_value *value = &b->graph->values[x->value];
    axis += axis < 0 ? (int64_t)value->n_dims : 0;
    return axis >= 0 && axis < (int64_t)value->n_dims && vc_dim_equal(value->shape[axis], size);
}

/* Both branches, and for each output the one that the condition chooses. */
static void take_both(struct vc_onnx_build *b, const struct vc_onnx_node *node, struct vc_onnx_build *const branches[2])
{
    uint32_t n_problems = b->graph->n_problems;
    uint32_t condition = scalar(b, node->inputs[0]);
    char how[400];
    char name[400];
    char text[900];

    for (unsigned k = 0; k < 2; k++) {
        run_body(branches[k]);
        VC_LEAVE_IF(b->graph->n_problems != n_problems,
                    refuse(b, node, 0, "decides which branch is computed, and only one of them can be"));
    }
    if (b->graph->both == NULL) {
        (void)snprintf(text, sizeof text,
                       "both branches of %s are planned, and a run computes the one that is chosen: %s",
                       vc_onnx_node_text(node->from, name, sizeof name), advice(b, node->inputs[0], how, sizeof how));
        b->graph->both = vc_graph_copy_text(b->graph, text);
        b->graph->note = b->graph->both;
    }
    for (size_t k = 0; k < node->from->n_outputs; k++) {
        uint32_t no = output_of(branches[0], k);
        uint32_t yes = output_of(branches[1], k);

        if (b->graph->facts[yes].unknown || b->graph->facts[no].unknown) {
            continue;
        }
        VC_LEAVE_IF(!vc_graph_same_kind(&b->graph->values[yes], &b->graph->values[no]),
                    refuse(b, node, 0, "decides which branch is computed, and they give other shapes or types"));
        vc_onnx_set_output(b, node->from, k, choose(b, condition, yes, no, vc_onnx_output_name(b, node->from, k)));
    }
}

/* The branch takes values of any size: x of the If that is written for x.squeeze(1). */
static bool takes_any_size(const struct vc_program *branch)
{
    bool any = true;

    for (size_t k = 0; k < branch->n_nodes && any; k++) {
        any = vc_is_one_of(branch->nodes[k].op, "Identity Squeeze Unsqueeze Cast Constant");
    }
    return any;
}

/* What a branch that is never computed reads of the graphs around it stays as the branch takes it. */
static void note_elsewhere(struct vc_onnx_build *b, const struct vc_onnx_build *branch)
{
    for (size_t k = 0; k < branch->n_captured && !takes_any_size(branch->program); k++) {
        if (branch->captured[k]->is_made) {
            b->graph->facts[branch->captured[k]->value].elsewhere = true;
        }
    }
}

static void take_if(struct vc_onnx_build *b, const struct vc_onnx_node *node)
{
    struct vc_onnx_build *branches[2] = {body_of(b, node, "else_branch"), body_of(b, node, "then_branch")};
    int64_t condition;

    VC_LEAVE_IF(branches[0] == NULL || branches[1] == NULL || node->n_inputs != 1 || node->inputs[0] == VC_NO_VALUE,
                vc_onnx_refuse(b, node, "it has no condition, or no two branches"));
    for (unsigned k = 0; k < 2; k++) {
        VC_LEAVE_IF(branches[k]->program->n_inputs != 0 || branches[k]->program->n_outputs != node->from->n_outputs,
                    vc_onnx_refuse(b, node, "a branch of it takes inputs, or does not give what it gives"));
    }
    if (b->graph->facts[node->inputs[0]].unknown) {
        return;
    }
    bool known = number_of(b, node->inputs[0], &condition, NULL);
    if (!known && is_squeeze(b, branches[1], node->inputs[0])) {
        known = true;
        condition = 1;
    }
    if (!known) {
        take_both(b, node, branches);
        return;
    }
    run_body(branches[condition != 0]);
    note_elsewhere(b, branches[condition == 0]);
    for (size_t k = 0; k < node->from->n_outputs; k++) {
        vc_onnx_set_output(b, node->from, k, output_of(branches[condition != 0], k));
    }
}

/* ---- Loop ---- */

/* A loop while it is unrolled: inputs of the body are the step, the condition and the carried values; its outputs the
 * condition, the carried values, and what is joined over all steps. */
struct loop {
    struct vc_onnx_build *b, *body;
    const struct vc_onnx_node *node;
    int64_t n_steps;
    size_t n_carried, n_joined;
    uint32_t *carried; /* n_carried, then the n_joined of each step */
    uint32_t goes_on;  /* a condition that is computed; VC_NO_VALUE: it is known to be true */
    int64_t step;
};

static void set_input(struct vc_onnx_build *body, size_t k, uint32_t value)
{
    struct vc_onnx_name *name = vc_onnx_find_name(body, body->program->inputs[k].name);

    if (name != NULL && name->program == body->program) {
        name->is_made = true;
        name->value = value;
    }
}

/* One step. False: it was the last one, or a problem was noted. */
static bool take_step(struct loop *l)
{
    struct vc_onnx_build *b = l->b;
    uint32_t n_problems = b->graph->n_problems;
    int64_t yes = 1;

    set_input(l->body, 0, vc_graph_add_int(b->graph, l->step));
    set_input(l->body, 1,
              l->goes_on != VC_NO_VALUE ? l->goes_on
                                        : vc_graph_add_constant(b->graph, NULL, VC_DTYPE_BOOL, NULL, 0, &yes));
    for (size_t k = 0; k < l->n_carried; k++) {
        set_input(l->body, 2 + k, l->carried[k]);
    }
    run_body(l->body);
    for (size_t k = 0; k < l->n_carried && b->graph->n_problems == n_problems; k++) {
        uint32_t value = output_of(l->body, 1 + k);

        if (l->goes_on != VC_NO_VALUE) {
            VC_RETURN_IF(
                b->graph->facts[value].unknown ||
                    !vc_graph_same_kind(&b->graph->values[value], &b->graph->values[l->carried[k]]),
                vc_onnx_refuse(b, l->node,
                               "its condition is computed from data, and a value that it carries changes its shape"));
            value = choose(b, l->goes_on, value, l->carried[k], NULL);
        }
        l->carried[k] = value;
    }
    for (size_t k = 0; k < l->n_joined; k++) {
        const int64_t axis = 0;

        l->carried[l->n_carried + (size_t)l->step * l->n_joined + k] = vc_graph_add(
            b->graph, "Unsqueeze", NULL,
            (uint32_t[]){output_of(l->body, 1 + l->n_carried + k), vc_graph_add_ints(b->graph, &axis, 1)}, 2);
    }
    uint32_t condition = output_of(l->body, 0);
    bool known = number_of(b, condition, &yes, NULL);
    if (b->graph->n_problems != n_problems || b->graph->facts[condition].unknown || (known && yes == 0)) {
        return false;
    }
    VC_RETURN_IF(
        !known && l->n_joined != 0,
        vc_onnx_refuse(b, l->node,
                       "its condition is computed from data, and so is the size of what it joins over its steps"));
    if (!known && l->goes_on != VC_NO_VALUE) {
        condition = choose(b, l->goes_on, scalar(b, condition), l->goes_on, NULL);
    }
    l->goes_on = known ? l->goes_on : scalar(b, condition);
    return true;
}

/* How many steps it has at most, and whether it begins. False: refused. */
static bool count_steps(struct loop *l)
{
    const struct vc_onnx_node *node = l->node;
    uint32_t steps = vc_onnx_number(node, 0);
    uint32_t condition = vc_onnx_number(node, 1);
    struct vc_dim dim = vc_dim_number(0);
    int64_t begins = 1;
    char text[200], why[300];

    l->n_steps = INT64_MAX;
    if (steps != VC_NO_VALUE && !number_of(l->b, steps, &l->n_steps, &dim)) {
        VC_RETURN_IF(vc_dim_is_number(dim),
                     refuse(l->b, node, 0, "is the number of its steps, and computed while the model runs"));
        (void)vc_dim_text(&l->b->graph->dims, dim, text, sizeof text);
        (void)snprintf(why, sizeof why,
                       "the number of its steps is %.100s, which the sizes of the inputs decide: %s NAME=N says a size",
                       text, vc_option(l->b->ctx, "known"));
        return vc_onnx_refuse(l->b, node, why);
    }
    if (condition != VC_NO_VALUE && !number_of(l->b, condition, &begins, NULL)) {
        VC_RETURN_IF(l->n_joined != 0,
                     refuse(l->b, node, 1, "decides whether it has steps, and so the size of what it joins over them"));
        l->goes_on = scalar(l->b, condition);
    }
    l->n_steps = begins == 0 || l->n_steps < 0 ? 0 : l->n_steps;
    VC_RETURN_IF(l->n_steps == 0 && l->n_joined != 0,
                 vc_onnx_refuse(l->b, node, "it has no steps, and what it joins over them is empty"));
    return true;
}

/* Number k of an attribute of the file's node, a list or one; 0: it has none. */
static int64_t int_at(const struct vc_onnx_node *node, const char *name, size_t k)
{
    for (size_t i = 0; i < node->from->n_attrs; i++) {
        const struct vc_program_attr *attr = &node->from->attrs[i];

        if (strcmp(attr->name, name) == 0) {
            return attr->kind == VC_PROGRAM_INT                   ? attr->i
                   : attr->kind == VC_PROGRAM_INTS && k < attr->n ? attr->ints[k]
                                                                  : 0;
        }
    }
    return 0;
}

/* The body's inputs are the states and an element of each input along its axis; its outputs the states and what is joined. */
static void scan_step(struct loop *l)
{
    struct vc_onnx_build *b = l->b;

    for (size_t k = 0; k < l->node->n_inputs; k++) {
        size_t j = k - l->n_carried;
        bool back = k >= l->n_carried && int_at(l->node, "scan_input_directions", j) != 0;
        const struct vc_graph_attr axis = vc_attr_int("axis", int_at(l->node, "scan_input_axes", j));
        uint32_t in[2] = {k < l->n_carried ? l->carried[k] : l->node->inputs[k], VC_NO_VALUE};

        if (k >= l->n_carried) {
            in[1] = vc_graph_add_int(b->graph, back ? l->n_steps - 1 - l->step : l->step);
            in[0] = vc_onnx_add_one(b, "Gather", NULL, in, 2, &axis, 1);
        }
        set_input(l->body, k, in[0]);
    }
    run_body(l->body);
    for (size_t k = 0; k < l->n_carried + l->n_joined; k++) {
        bool back = k >= l->n_carried && int_at(l->node, "scan_output_directions", k - l->n_carried) != 0;
        size_t at = (size_t)(back ? l->n_steps - 1 - l->step : l->step) * l->n_joined + k;
        int64_t axis = k < l->n_carried ? 0 : int_at(l->node, "scan_output_axes", k - l->n_carried);

        l->carried[k < l->n_carried ? k : at] =
            k < l->n_carried ? output_of(l->body, k)
                             : vc_onnx_with_ints(b, "Unsqueeze", output_of(l->body, k), &axis, 1);
    }
}

/* Step after step, then the outputs: what is joined has a row [..] of each step. */
static void unroll(struct loop *l)
{
    size_t n_room = l->n_joined != 0 ? (size_t)(l->n_steps < MAX_STEPS ? l->n_steps : MAX_STEPS) : 0;
    bool scans = strcmp(l->node->from->op, "Scan") == 0;
    uint32_t *joined;

    for (bool more = true; more && l->step < l->n_steps; l->step++) {
        VC_LEAVE_IF(
            l->step == MAX_STEPS || l->b->graph->n_unrolled > MAX_UNROLLED,
            vc_onnx_refuse(
                l->b, l->node,
                "it has more than 4096 steps, or with those of the loops around it more than two million nodes, and "
                "they are laid out one behind the other"));
        if (scans) {
            scan_step(l);
        } else {
            more = take_step(l);
        }
        if (l->b->graph->n_problems != 0 || l->b->graph->status != VC_OK) {
            return;
        }
    }
    for (size_t k = 0; k < l->n_carried && k < l->node->from->n_outputs; k++) {
        vc_onnx_set_output(l->b, l->node->from, k, l->carried[k]);
    }
    joined = vc_calloc_array(l->b->ctx, VC_TAG_NAMES, n_room + 1, sizeof *joined);
    VC_LEAVE_IF(joined == NULL, l->b->graph->status = VC_E_NOMEM);
    for (size_t k = 0; k < l->n_joined; k++) {
        const struct vc_graph_attr axis = vc_attr_int("axis", scans ? int_at(l->node, "scan_output_axes", k) : 0);
        size_t at = l->n_carried + k;

        for (int64_t i = 0; i < l->step; i++) {
            joined[i] = l->carried[l->n_carried + (size_t)i * l->n_joined + k];
        }
        vc_onnx_set_output(l->b, l->node->from, at,
                           vc_onnx_add_one(l->b, "Concat", vc_onnx_output_name(l->b, l->node->from, at), joined,
                                           (unsigned)l->step, &axis, 1));
    }
    vc_free(l->b->ctx, joined);
}

static void take_loop(struct vc_onnx_build *b, const struct vc_onnx_node *node)
{
    struct loop l = {.b = b, .node = node, .body = body_of(b, node, "body"), .goes_on = VC_NO_VALUE};

    l.n_carried = node->n_inputs > 2 ? node->n_inputs - 2 : 0;
    VC_LEAVE_IF(l.body == NULL || node->n_inputs < 2 || l.body->program->n_inputs != 2 + l.n_carried ||
                    l.body->program->n_outputs < 1 + l.n_carried ||
                    l.body->program->n_outputs != 1 + node->from->n_outputs,
                vc_onnx_refuse(b, node, "its body does not take and give what it carries"));
    for (size_t k = 0; k < node->n_inputs; k++) {
        VC_LEAVE_IF(node->inputs[k] == VC_NO_VALUE && k >= 2,
                    vc_onnx_refuse(b, node, "a value that it carries is left out"));
        if (node->inputs[k] != VC_NO_VALUE && b->graph->facts[node->inputs[k]].unknown &&
            b->graph->facts[node->inputs[k]].list == NULL) {
            return;
        }
    }
    l.n_joined = l.body->program->n_outputs - 1 - l.n_carried;
    if (!count_steps(&l)) {
        return;
    }
    size_t room = l.n_carried + l.n_joined * (size_t)(l.n_steps < MAX_STEPS ? l.n_steps : MAX_STEPS);
    l.carried = vc_calloc_array(b->ctx, VC_TAG_NAMES, room + 1, sizeof *l.carried);
    VC_LEAVE_IF(l.carried == NULL, b->graph->status = VC_E_NOMEM);
    for (size_t k = 0; k < l.n_carried; k++) {
        l.carried[k] = node->inputs[2 + k];
    }
    unroll(&l);
    vc_free(b->ctx, l.carried);
}

/* ---- Scan ---- */

/* The size of input j that is scanned, which is that of the others; false: refused. */
static bool scan_steps(struct loop *l, size_t j)
{
    const struct vc_graph_value *x = vc_onnx_input(l->b, l->node, (unsigned)(l->n_carried + j));
    int64_t axis = int_at(l->node, "scan_input_axes", j);
    char text[200], why[300];

    axis += axis < 0 && x != NULL ? (int64_t)x->n_dims : 0;
    VC_RETURN_IF(x == NULL || axis < 0 || axis >= (int64_t)x->n_dims,
                 vc_onnx_refuse(l->b, l->node, "its scan_input_axes are not those of its inputs"));
    VC_RETURN_IF(j != 0 && !vc_dim_is_number(x->shape[axis]), true);
    (void)vc_dim_text(&l->b->graph->dims, x->shape[axis], text, sizeof text);
    (void)snprintf(why, sizeof why,
                   "the number of its steps is %.100s, which the sizes of the inputs decide: %s NAME=N says a size",
                   text, vc_option(l->b->ctx, "known"));
    VC_RETURN_IF(!vc_dim_is_number(x->shape[axis]), vc_onnx_refuse(l->b, l->node, why));
    VC_RETURN_IF(j != 0 && x->shape[axis].size != l->n_steps,
                 vc_onnx_refuse(l->b, l->node, "its inputs have different numbers of steps"));
    l->n_steps = x->shape[axis].size;
    VC_RETURN_IF(l->n_steps < 1 || l->n_steps > MAX_STEPS,
                 vc_onnx_refuse(l->b, l->node,
                                "it has no steps, or more than 4096, and they are laid out one behind the other"));
    return true;
}

/* As a Loop: step after step, as many as its inputs have elements along their axes. */
static void take_scan(struct vc_onnx_build *b, const struct vc_onnx_node *node)
{
    struct loop l = {.b = b, .node = node, .body = body_of(b, node, "body"), .goes_on = VC_NO_VALUE};
    int64_t n_scanned = int_at(node, "num_scan_inputs", 0);

    VC_LEAVE_IF(l.body == NULL || b->opset < 9 || n_scanned < 1 || n_scanned > (int64_t)node->n_inputs ||
                    l.body->program->n_inputs != node->n_inputs ||
                    l.body->program->n_outputs != node->from->n_outputs ||
                    node->from->n_outputs < node->n_inputs - (size_t)n_scanned,
                vc_onnx_refuse(b, node, "its body does not take and give what it scans (operator set 9 and newer)"));
    for (unsigned k = 0; k < node->n_inputs; k++) {
        VC_LEAVE_IF(node->inputs[k] == VC_NO_VALUE, vc_onnx_refuse(b, node, "an input of it is left out"));
        if (b->graph->facts[node->inputs[k]].unknown) {
            return;
        }
    }
    l.n_carried = node->n_inputs - (size_t)n_scanned;
    l.n_joined = node->from->n_outputs - l.n_carried;
    for (size_t j = 0; j < (size_t)n_scanned; j++) {
        if (!scan_steps(&l, j)) {
            return;
        }
    }
    l.carried =
        vc_calloc_array(b->ctx, VC_TAG_NAMES, l.n_carried + l.n_joined * (size_t)l.n_steps + 1, sizeof *l.carried);
    VC_LEAVE_IF(l.carried == NULL, b->graph->status = VC_E_NOMEM);
    for (size_t k = 0; k < l.n_carried; k++) {
        l.carried[k] = node->inputs[k];
    }
    unroll(&l);
    vc_free(b->ctx, l.carried);
}

/* O(n^2) of those that a branch reads alone: mostly none. */
void vc_onnx_spread_elsewhere(struct vc_graph *graph)
{
    for (uint32_t k = 0; k < graph->n_params; k++) {
        const struct vc_graph_param *from = &graph->params[k];

        for (uint32_t i = 0; graph->facts[from->value].elsewhere && i < graph->n_params; i++) {
            graph->facts[graph->params[i].value].elsewhere |= strcmp(graph->params[i].tensor, from->tensor) == 0;
        }
    }
}

bool vc_onnx_take_control(struct vc_onnx_build *b, const struct vc_onnx_node *node)
{
    if (strcmp(node->from->op, "If") == 0 && body_of(b, node, "then_branch") != NULL) {
        take_if(b, node);
        return true;
    }
    if (strcmp(node->from->op, "Loop") == 0 && body_of(b, node, "body") != NULL) {
        take_loop(b, node);
        return true;
    }
    if (strcmp(node->from->op, "Scan") == 0 && body_of(b, node, "body") != NULL) {
        take_scan(b, node);
        return true;
    }
    return false;
}
