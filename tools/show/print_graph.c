/* print_graph.c - what a model computes as tables: by blocks, of which those that repeat share a line, and node by
 * node.
 *
 *     mlp.npz: 9 nodes, 301,066 parameters, 1.15 MiB                     print_head
 *       input: x f32 batch x 784
 *       output: y f32 batch x 10
 *       with batch 1 (--size NAME=N)
 *
 *     block               operators       output    parameters  multiply-adds
 *     embed               Gather          1 x 128 x 768   ...
 *     12 x layers.0-11                                     ...           blocks that are equal share a line
 *       attention         MatMul 4, ...
 *     all */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tools/show/print_graph.h"

#define MAX_LINES 60 /* of the table of blocks without -v */
#define MAX_OPS   12 /* kinds of operators that a line counts */

/* The table of blocks while its rows are made: once to count them, once to add them. */
struct blocks_view {
    struct app *app;
    const struct vc_graph *graph;
    const struct vc_graph_blocks *blocks;
    uint32_t *first_node, *next_node; /* the nodes that are a block's own, as lists */
    unsigned max_depth;               /* blocks below it are not shown */
    bool with_bytes;                  /* the model has weights: a column of bytes */
    bool counting;                    /* rows are counted and not added */
    bool folded;                      /* some row is of several blocks */
    size_t n_rows;                    /* that were counted */
    struct table table;
};

/* ---- figures ---- */

/* "1 × 128 × 768" with the bound sizes, "batch × 768" where a size is open; "" without a value. Cut where n bytes are
 * full. */
static char *fmt_value_shape(char *buf, size_t n, const struct out *out, const struct vc_graph *graph, uint32_t value)
{
    const struct vc_graph_value *v = value == VC_NO_VALUE ? NULL : vc_graph_value(graph, value);
    size_t at = 0;

    buf[0] = '\0';
    for (unsigned k = 0; v != NULL && k < v->n_dims && at < n - 1; k++) {
        int64_t size = vc_graph_dim_value(graph, v->shape[k]);
        char text[128];

        if (size >= 0) {
            snprintf(text, sizeof text, "%" PRId64, size);
        } else {
            vc_graph_dim_text(graph, v->shape[k], text, sizeof text);
        }
        snprintf(buf + at, n - at, "%s%s", k == 0 ? "" : out_times(out), text);
        at += strlen(buf + at);
    }
    if (v != NULL && v->n_dims == 0) {
        snprintf(buf, n, "scalar");
    }
    return buf;
}

/* Multiply-adds; "" for none, an expression where a size is open. buf has room for n bytes, at least CELL_BYTES. */
static char *fmt_macs(char *buf, size_t n, const struct vc_graph *graph, struct vc_dim macs)
{
    int64_t value = vc_graph_dim_value(graph, macs);

    if (value < 0) {
        (void)vc_graph_dim_text(graph, macs, buf, n); /* into buf */
        return buf;
    }
    buf[0] = '\0';
    return value == 0 ? buf : fmt_figure(buf, (uint64_t)value);
}

/* "MatMul 3, Add 2, Softmax" of the block's own nodes, the most frequent first. Kinds beyond MAX_OPS are "others"; of
 * equal counts the one that came first. */
static void fmt_ops(char *buf, size_t n, const struct blocks_view *view, uint32_t block)
{
    const char *names[MAX_OPS];
    unsigned counts[MAX_OPS];
    unsigned n_ops = 0;
    unsigned others = 0;
    size_t at = 0;

    for (uint32_t k = view->first_node[block]; k != VC_NO_NODE; k = view->next_node[k]) {
        const char *op = vc_graph_node(view->graph, k)->op;
        unsigned i = 0;

        while (i < n_ops && strcmp(names[i], op) != 0) {
            i++;
        }
        if (i < n_ops) {
            counts[i]++;
        } else if (n_ops < MAX_OPS) {
            names[n_ops] = op;
            counts[n_ops++] = 1;
        } else {
            others++;
        }
    }
    buf[0] = '\0';
    for (unsigned done = 0; done < n_ops; done++) {
        unsigned best = 0;

        for (unsigned i = 1; i < n_ops; i++) {
            best = counts[i] > counts[best] ? i : best;
        }
        at += (size_t)snprintf(buf + at, n - at, counts[best] > 1 ? "%s%s %u" : "%s%s", done == 0 ? "" : ", ",
                               names[best], counts[best]);
        counts[best] = 0;
        if (at >= n) {
            return;
        }
    }
    if (others != 0) {
        snprintf(buf + at, n - at, ", others %u", others);
    }
}

/* ---- the table of blocks ---- */

/* A block with one block in it and no nodes of its own is no line: its name goes before that of the one inside. */
static bool is_passage(const struct blocks_view *view, uint32_t k)
{
    const struct vc_graph_block *block = &view->blocks->blocks[k];
    uint32_t inner = block->first_child;

    return block->n_own == 0 && inner != VC_NO_BLOCK && view->blocks->blocks[inner].next == VC_NO_BLOCK;
}

/* All children have numbers for names: their lines are "24 x layers.*" and need none for the block itself. The block of
 * the whole model (0) is never one. */
static bool is_list(const struct blocks_view *view, uint32_t k)
{
    const struct vc_graph_block *block = &view->blocks->blocks[k];

    if (block->n_own != 0 || block->first_child == VC_NO_BLOCK || k == 0) {
        return false;
    }
    for (uint32_t c = block->first_child; c != VC_NO_BLOCK; c = view->blocks->blocks[c].next) {
        const char *name = view->blocks->blocks[c].name;

        if (strspn(name, "0123456789") != strlen(name)) {
            return false;
        }
    }
    return true;
}

/* The numbers of the blocks that are equal to this one (like == first), which are its later siblings: "0-11", "0-4,6";
 * "*" where that gets long. */
static void fmt_numbers(char *buf, size_t n, const struct blocks_view *view, uint32_t first)
{
    size_t at = 0;
    long from = -1;
    long to = -1;

    buf[0] = '\0';
    for (uint32_t k = first;; k = view->blocks->blocks[k].next) {
        long number = k == VC_NO_BLOCK ? -1 : strtol(view->blocks->blocks[k].name, NULL, 10);

        if (k != VC_NO_BLOCK && view->blocks->blocks[k].like != first) {
            continue;
        }
        if (k != VC_NO_BLOCK && from >= 0 && number == to + 1) {
            to = number;
            continue;
        }
        if (from >= 0) {
            at += (size_t)snprintf(buf + at, n - at, from == to ? "%s%ld" : "%s%ld-%ld", at == 0 ? "" : ",", from, to);
        }
        if (k == VC_NO_BLOCK || at >= n) {
            break;
        }
        from = to = number;
    }
    if (at >= n) {
        strcpy(buf, "*");
    }
}

/* One row, or one more in n_rows while lines are counted. own_only: nodes of a block that are in no inner block. */
static void add_row(struct blocks_view *view, const char *name, uint32_t k, bool own_only)
{
    const struct vc_graph_block *block = &view->blocks->blocks[k];
    const struct out *out = &view->app->out;
    char buf[600];
    enum ink ink = block->depth == 0 && !own_only ? INK_BOLD : INK_NONE;

    view->n_rows++;
    if (view->counting) {
        return;
    }
    struct table *table = &view->table;

    table_cell(table, 'l', "block", ink, name);
    fmt_ops(buf, sizeof buf, view, k);
    if (strlen(buf) > 40) {
        strcpy(buf + 37, "...");
    }
    table_cell(table, 'l', "operators", INK_DIM, block->depth == 0 && !own_only && view->blocks->n > 1 ? "" : buf);
    table_cell(table, 'l', "output", INK_NONE,
               own_only ? "" : fmt_value_shape(buf, 60, out, view->graph, block->output));
    table_cell(table, 'r', "parameters", ink, own_only || block->n_params == 0 ? "" : fmt_count(CELL, block->n_params));
    if (view->with_bytes) {
        table_cell(table, 'r', "bytes", ink, own_only || block->bytes == 0 ? "" : fmt_size(CELL, out, block->bytes));
    }
    table_cell(table, 'r', "multiply-adds", ink, own_only ? "" : fmt_macs(buf, 40, view->graph, block->macs));
    table_end_row(table);
}

static void add_blocks(struct blocks_view *view, uint32_t k, const char *prefix, unsigned indent);

/* One line for a block, or for several equal ones, and below it what is in the first of them. prefix: names of blocks
 * around it that have no line. */
static void add_child(struct blocks_view *view, uint32_t c, const char *prefix, unsigned indent)
{
    const struct vc_graph_block *block = &view->blocks->blocks[c];
    char numbers[40], name[640], inner[640];

    if (block->n_like == 0) {
        return; /* in the line of the first one */
    }
    if (is_passage(view, c) || is_list(view, c)) {
        snprintf(inner, sizeof inner, "%s%s.", prefix, block->name);
        add_blocks(view, c, inner, indent);
        return;
    }
    view->folded |= block->n_like > 1;
    if (block->n_like > 1) {
        fmt_numbers(numbers, sizeof numbers, view, c);
        snprintf(name, sizeof name, "%*s%u %s %s%s", (int)(2 * indent), "", block->n_like, out_times(&view->app->out),
                 prefix, numbers);
    } else {
        snprintf(name, sizeof name, "%*s%s%s", (int)(2 * indent), "", prefix, block->name);
    }
    add_row(view, name, c, false);
    if (indent < view->max_depth) {
        add_blocks(view, c, "", indent + 1);
    }
}

/* The lines of all blocks in block k. */
static void add_blocks(struct blocks_view *view, uint32_t k, const char *prefix, unsigned indent)
{
    for (uint32_t c = view->blocks->blocks[k].first_child; c != VC_NO_BLOCK; c = view->blocks->blocks[c].next) {
        add_child(view, c, prefix, indent);
    }
}

/* Lines that the table would have with that depth. */
static size_t count_rows(struct blocks_view *view, unsigned depth)
{
    view->max_depth = depth;
    view->counting = true;
    view->n_rows = 0;
    add_blocks(view, 0, "", 0);
    view->counting = false;
    return view->n_rows;
}

/* ---- head ---- */

/* "  input: tokens i64 1 x 128". An optional input has the value it takes when it is not given. */
static void print_end(const struct app *app, const struct vc_graph *graph, const char *what, uint32_t value)
{
    const struct vc_graph_value *v = vc_graph_value(graph, value);
    char shape[200];

    fprintf(app->out.to, "  %s%s:%s ", out_ink(&app->out, INK_DIM), what, out_ink(&app->out, INK_NONE));
    say(app->out.to, "%s %s %s", v->name, vc_dtype_name(v->dtype),
        fmt_value_shape(shape, sizeof shape, &app->out, graph, value)); /* names of sizes */
    if (v->optional) {
        fprintf(app->out.to, " (%" PRId64 " if it is not given)", v->otherwise);
    }
    fputc('\n', app->out.to);
}

/* Sizes that the inputs leave open, with what they are bound to, are the last line. */
static void print_head(const struct app *app, const struct vc_graph *graph, const struct vc_graph_blocks *blocks)
{
    const struct out *out = &app->out;
    const struct vc_graph_block *all = &blocks->blocks[0];
    const char *name;
    int64_t size;
    uint32_t per_token;

    out_inked(out, INK_BOLD, app->subject);
    say(out->to, ": %s node%s, %s parameter%s", fmt_count(CELL, all->n_nodes), plural(all->n_nodes),
        fmt_count(CELL, all->n_params), plural(all->n_params));
    if (all->bytes != 0) {
        say(out->to, ", %s", fmt_size(CELL, out, all->bytes));
    }
    fputc('\n', out->to);
    uint32_t n_experts = vc_graph_experts(graph, &per_token);
    if (n_experts != 0) {
        fprintf(out->to,
                "  each token uses %" PRIu32 " of %" PRIu32
                " experts, %s parameters; multiply-adds count these experts\n",
                per_token, n_experts, fmt_count(CELL, all->n_active));
    }
    for (uint32_t k = 0; k < vc_graph_input_count(graph); k++) {
        print_end(app, graph, "input", vc_graph_input(graph, k));
    }
    for (uint32_t k = 0; k < vc_graph_output_count(graph); k++) {
        print_end(app, graph, "output", vc_graph_output(graph, k));
    }
    for (uint32_t k = 0; (name = vc_graph_symbol(graph, k, &size)) != NULL; k++) {
        say(out->to, "%s %s %s", k == 0 ? "  with" : ",", name, size >= 0 ? fmt_text(CELL, "%" PRId64, size) : "open");
    }
    fputs(vc_graph_symbol(graph, 0, NULL) != NULL ? " (--size NAME=N)\n\n" : "\n", out->to);
}

/* ---- */

/* Lists of each block's own nodes, linked through next_node. Built from the last node on, so that they are in the order
 * of the graph. False: no memory. */
static bool list_nodes(struct blocks_view *view)
{
    uint32_t n_nodes = vc_graph_node_count(view->graph);

    view->first_node = malloc((view->blocks->n + (size_t)1) * sizeof *view->first_node);
    view->next_node = malloc((n_nodes + (size_t)1) * sizeof *view->next_node);
    if (view->first_node == NULL || view->next_node == NULL) {
        return false;
    }
    for (uint32_t k = 0; k < view->blocks->n; k++) {
        view->first_node[k] = VC_NO_NODE;
    }
    for (uint32_t k = n_nodes; k-- > 0;) {
        view->next_node[k] = view->first_node[view->blocks->of_node[k]];
        view->first_node[view->blocks->of_node[k]] = k;
    }
    return true;
}

/* Without -v the depth is lowered until the table has at most MAX_LINES. */
bool print_graph_blocks(struct app *app, const struct vc_graph *graph, const struct vc_graph_blocks *blocks)
{
    struct blocks_view view = {
        .app = app, .graph = graph, .blocks = blocks, .with_bytes = blocks->blocks[0].bytes != 0};
    unsigned depth = 20;
    bool done = false;

    if (list_nodes(&view)) {
        print_head(app, graph, blocks);
        while (depth > 0 && app->common.verbose == 0 && count_rows(&view, depth) > MAX_LINES) {
            depth--;
        }
        view.max_depth = depth;
        add_blocks(&view, 0, "", 0);
        if (blocks->blocks[0].n_own != 0 && blocks->n > 1) {
            add_row(&view, "outside of blocks", 0, true);
        }
        add_row(&view, "all", 0, false);
        done = table_print(&view.table, &app->out, app->out.limited);
        if (done && view.folded) {
            fprintf(app->out.to, "  A line with %s, and the lines under it, have the figures of one block.\n",
                    out_times(&app->out));
        }
    }
    free(view.first_node);
    free(view.next_node);
    return done;
}

/* ---- node by node ---- */

/* "a, b, -": names of values; "-" for an optional one that is not there. */
static const char *fmt_values(char *buf, size_t n, const struct vc_graph *graph, const uint32_t *values, unsigned count)
{
    size_t at = 0;

    buf[0] = '\0';
    for (unsigned k = 0; k < count && at < n; k++) {
        at += (size_t)snprintf(buf + at, n - at, "%s%s", k == 0 ? "" : ", ",
                               values[k] == VC_NO_VALUE ? "-" : vc_graph_value(graph, values[k])->name);
    }
    return buf;
}

/* --full: a line for each node, in the order in which they are computed. */
bool print_graph_nodes(struct app *app, const struct vc_graph *graph)
{
    static const struct vc_graph_node none = {.op = ""};
    struct table table = {.failed = false};
    uint32_t n = vc_graph_node_count(graph);
    char buf[2000];

    for (uint32_t k = 0; k < n || k == 0; k++) {
        const struct vc_graph_node *node = n != 0 ? vc_graph_node(graph, k) : &none;
        uint32_t first = node->n_outputs != 0 ? node->outputs[0] : VC_NO_VALUE;

        table_cell(&table, 'l', "node", INK_NONE, node->op);
        table_cell(&table, 'l', "makes", INK_NONE, fmt_values(buf, sizeof buf, graph, node->outputs, node->n_outputs));
        table_cell(&table, 'l', "shape", INK_NONE, fmt_value_shape(buf, sizeof buf, &app->out, graph, first));
        table_cell(&table, 'l', "from", INK_DIM, fmt_values(buf, sizeof buf, graph, node->inputs, node->n_inputs));
        table_cell(&table, 'r', "multiply-adds", INK_NONE, fmt_macs(buf, 200, graph, node->macs));
        table_end_row(&table);
    }
    if (n == 0) {
        table_drop_row(&table);
    }
    return table_print(&table, &app->out, false);
}

/* What the graph says about itself, such as sizes that were assumed. */
void print_graph_notes(const struct out *out, const struct vc_graph *graph)
{
    const char *note = vc_graph_lists(graph)->note;

    if (note != NULL) {
        out_inked(out, INK_WARN, "note:");
        say(out->to, " %s\n", note);
    }
}
