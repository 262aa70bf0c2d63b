/* graph_svg.c - what a model computes as one drawing: nodes from top to bottom in frames, which are the blocks; of
 * blocks that repeat only the first is drawn. It needs nothing beside it: no script, no font, no other file; colours
 * follow the reader's light or dark setting.
 *
 *     +- 12 x encoder.layer ------------------+
 *     | LayerNormalization  ln1   1x128x768   |
 *     | MatMul              fc1   ...       --+--.   a value that is used further down
 *     | Add                               <---+--'
 *     +---------------------------------------+ */

#include <vcompress/graph.h>

#include "report/page/svg_text.h"

#define MAX_NODES 3000 /* that are drawn */
#define ROW       22   /* height of a node */
#define HEAD      26   /* of the name of a block */
#define INDENT    14
#define LEFT      24
#define RIGHT     860 /* of the frames; lines that pass by are right of it */
#define LANE      9
#define MAX_LANES 24
#define TOP       96

/* A frame around the nodes of a block. Coordinates are pixels, y downwards. */
struct frame {
    uint32_t block; /* number in the list of blocks */
    int top, bottom;
    unsigned depth; /* how many frames are around it */
};

struct drawing {
    struct vc_ctx *ctx;
    struct vc_text text;
    const struct vc_graph *graph;
    const struct vc_graph_blocks *blocks;
    int *row;        /* of each node: its middle; 0: it is not drawn */
    uint32_t *order; /* the nodes that are drawn */
    uint32_t n_drawn;
    struct frame *frames; /* owned; outer ones before those inside */
    uint32_t n_frames, max_frames;
    int lanes[MAX_LANES]; /* how far down each is taken */
    int bottom;
};

/* ---- places ---- */

/* The node is in a block that is drawn once for several: which one that is; VC_NO_BLOCK: it is drawn itself. The
 * outermost such block decides: a repeated layer hides all of its parts. */
static uint32_t stands_for(const struct drawing *d, uint32_t node)
{
    uint32_t found = VC_NO_BLOCK;

    for (uint32_t k = d->blocks->of_node[node]; k != VC_NO_BLOCK; k = d->blocks->blocks[k].parent) {
        if (d->blocks->blocks[k].n_like == 0) {
            found = d->blocks->blocks[k].like;
        }
    }
    return found;
}

/* Climbs from `inner` to the depth of `outer`. */
static bool lies_in(const struct vc_graph_blocks *blocks, uint32_t inner, uint32_t outer)
{
    while (blocks->blocks[inner].depth > blocks->blocks[outer].depth) {
        inner = blocks->blocks[inner].parent;
    }
    return inner == outer;
}

/* Frames that are open while nodes get their places, the outermost first. */
struct open {
    uint32_t frames[300];
    unsigned n;
};

/* Ends the frames that the next node is not in; VC_NO_BLOCK: all. Each end takes 10 pixels. */
static void close_frames(struct drawing *d, struct open *open, uint32_t block, int *y)
{
    while (open->n != 0 &&
           (block == VC_NO_BLOCK || !lies_in(d->blocks, block, d->frames[open->frames[open->n - 1]].block))) {
        open->n--;
        d->frames[open->frames[open->n]].bottom = *y + 4;
        *y += 10;
    }
}

/* Frames for the blocks around a node that are not open yet. A block that only contains one frame more, with no nodes
 * of its own, gets none. */
static void open_frames(struct drawing *d, struct open *open, uint32_t block, int *y)
{
    uint32_t chain[300];
    unsigned n = 0;

    while (block != 0 && block != VC_NO_BLOCK && n < 300 &&
           (open->n == 0 || block != d->frames[open->frames[open->n - 1]].block)) {
        chain[n++] = block;
        block = d->blocks->blocks[block].parent;
    }
    while (n-- > 0 && open->n < 300 && d->n_frames < d->max_frames) {
        const struct vc_graph_block *b = &d->blocks->blocks[chain[n]];

        /* a block around one other block */
        if (b->n_own == 0 && n != 0 && b->n_like == 1) {
            continue; /* the frame inside has its name */
        }
        d->frames[d->n_frames] = (struct frame){.block = chain[n], .top = *y, .depth = open->n};
        open->frames[open->n++] = d->n_frames++;
        *y += HEAD;
    }
}

/* Gives every drawn node its height, in the order of the graph, which is an order of computation. Opens and closes
 * frames on the way. */
static void place(struct drawing *d)
{
    struct open open = {.n = 0};
    int y = TOP;

    for (uint32_t k = 0; k < vc_graph_node_count(d->graph) && d->n_drawn < MAX_NODES; k++) {
        uint32_t block = d->blocks->of_node[k];

        if (stands_for(d, k) != VC_NO_BLOCK) {
            continue;
        }
        close_frames(d, &open, block, &y);
        open_frames(d, &open, block, &y);
        d->row[k] = y + ROW / 2;
        d->order[d->n_drawn++] = k;
        y += ROW;
    }
    close_frames(d, &open, VC_NO_BLOCK, &y);
    d->bottom = y + 20;
}

/* ---- drawing ---- */

/* "6,738,415,616" */
static void add_count(struct drawing *d, uint64_t n)
{
    char digits[24];
    size_t length = (size_t)snprintf(digits, sizeof digits, "%" PRIu64, n);

    for (size_t k = 0; k < length; k++) {
        vc_text_add(&d->text, k != 0 && (length - k) % 3 == 0 ? ",%c" : "%c", digits[k]);
    }
}

/* The class of a node's dot: "w" for operators that do the work, "m" for those that only move elements, "f" for all
 * others (normalizations, functions). */
static const char *class_of(const char *op)
{
    static const char *const work[] = {"Conv", "ConvTranspose", "Gemm", "MatMul", "Attention", "Einsum"};
    static const char *const move[] = {"Reshape", "Transpose", "Concat", "Slice",   "Split",
                                       "Squeeze", "Unsqueeze", "Expand", "Flatten", "Identity",
                                       "Gather",  "Pad",       "Cast",   "Shape",   "Tile"};

    for (size_t k = 0; k < sizeof work / sizeof *work; k++) {
        if (strcmp(op, work[k]) == 0) {
            return "w";
        }
    }
    for (size_t k = 0; k < sizeof move / sizeof *move; k++) {
        if (strcmp(op, move[k]) == 0) {
            return "m";
        }
    }
    return "f";
}

/* "1x128x768", with the bound sizes, or the names of open ones. */
static void add_shape(struct drawing *d, const struct vc_graph_value *value)
{
    char text[128];

    for (unsigned k = 0; k < value->n_dims; k++) {
        int64_t size = vc_graph_dim_value(d->graph, value->shape[k]);

        vc_text_add(&d->text, "%s", k == 0 ? "" : "\xc3\x97");
        if (size >= 0) {
            vc_text_add(&d->text, "%" PRId64, size);
        } else {
            vc_svg_add_text(&d->text, vc_graph_dim_text(d->graph, value->shape[k], text, sizeof text), 40);
        }
    }
}

/* How many frames the node is in, by their heights. */
static unsigned depth_of(const struct drawing *d, uint32_t node)
{
    unsigned depth = 0;

    for (uint32_t k = 0; k < d->n_frames; k++) {
        const struct frame *f = &d->frames[k];

        if (d->row[node] > f->top && d->row[node] < f->bottom && f->depth + 1 > depth) {
            depth = f->depth + 1;
        }
    }
    return depth;
}

/* A frame, its name, and its parameters at the right. */
static void draw_frames(struct drawing *d)
{
    for (uint32_t k = 0; k < d->n_frames; k++) {
        const struct frame *f = &d->frames[k];
        const struct vc_graph_block *block = &d->blocks->blocks[f->block];
        int x = LEFT + (int)f->depth * INDENT;

        vc_text_add(&d->text, "<rect class=\"%s\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"6\"/>",
                    f->depth % 2 == 0 ? "b0" : "b1", x, f->top, RIGHT - x - (int)f->depth * 6, f->bottom - f->top);
        vc_text_add(&d->text, "<text class=\"t\" x=\"%d\" y=\"%d\">", x + 10, f->top + 18);
        if (block->n_like > 1) {
            vc_text_add(&d->text, "%" PRIu32 " \xc3\x97 ", block->n_like);
        }
        vc_svg_add_text(&d->text, block->path, 90);
        vc_text_add(&d->text, "</text>");
        if (block->n_params != 0) {
            vc_text_add(&d->text, "<text class=\"r\" x=\"%d\" y=\"%d\">", RIGHT - (int)f->depth * 6 - 10, f->top + 18);
            add_count(d, block->n_params);
            vc_text_add(&d->text, " parameters%s</text>\n", block->n_like > 1 ? " each" : "");
        }
    }
}

/* The parameters that a node uses, as their shapes. */
static void add_params(struct drawing *d, const struct vc_graph_node *node)
{
    bool first = true;

    for (unsigned k = 0; k < node->n_inputs; k++) {
        const struct vc_graph_value *value =
            node->inputs[k] == VC_NO_VALUE ? NULL : vc_graph_value(d->graph, node->inputs[k]);

        if (value != NULL && value->kind == VC_VALUE_PARAMETER) {
            vc_text_add(&d->text, "%s", first ? "" : "  ");
            add_shape(d, value);
            first = false;
        }
    }
}

/* A dot, the operator, the shape of its first output, the shapes of its parameters; the name of the output appears
 * under the pointer (title). */
static void draw_nodes(struct drawing *d)
{
    for (uint32_t i = 0; i < d->n_drawn; i++) {
        uint32_t k = d->order[i];
        const struct vc_graph_node *node = vc_graph_node(d->graph, k);
        const struct vc_graph_value *out =
            node->outputs[0] == VC_NO_VALUE ? NULL : vc_graph_value(d->graph, node->outputs[0]);
        int x = LEFT + (int)depth_of(d, k) * INDENT + 6;
        int y = d->row[k] + 4;

        vc_text_add(&d->text, "<g><title>");
        vc_svg_add_text(&d->text, out == NULL ? node->name : out->name, 300);
        vc_text_add(&d->text, "</title><circle class=\"%s\" cx=\"%d\" cy=\"%d\" r=\"5\"/><text x=\"%d\" y=\"%d\">",
                    class_of(node->op), x + 4, y - 4, x + 16, y);
        vc_svg_add_text(&d->text, node->op, 30);
        vc_text_add(&d->text, "</text>");
        if (out != NULL) {
            vc_text_add(&d->text, "<text class=\"s\" x=\"345\" y=\"%d\">", y);
            add_shape(d, out);
            vc_text_add(&d->text, "</text>");
        }
        vc_text_add(&d->text, "<text class=\"p\" x=\"560\" y=\"%d\">", y);
        add_params(d, node);
        vc_text_add(&d->text, "</text></g>\n");
    }
}

/* Returns the x of a lane that is free from `top` on, and takes it down to `bottom`. Where none is free the last lane
 * is shared. */
static int take_lane(struct drawing *d, int top, int bottom)
{
    int lane = 0;

    while (lane < MAX_LANES - 1 && d->lanes[lane] > top) {
        lane++;
    }
    d->lanes[lane] = bottom;
    return RIGHT + 12 + lane * LANE;
}

/* Where a value comes from: the height of the node that makes it, or of the frame that stands for that node; 0: from
 * nothing that is drawn above. */
static int source_of(const struct drawing *d, uint32_t maker)
{
    if (d->row[maker] != 0) {
        return d->row[maker];
    }
    uint32_t other = stands_for(d, maker);
    for (uint32_t k = 0; k < d->n_frames; k++) {
        if (d->frames[k].block == other) {
            return d->frames[k].bottom - 6;
        }
    }
    return 0;
}

/* Values that are used further down than by the next node go around on the right. The value of the node just above
 * needs no line.
 *
 *     M RIGHT-60,from  H lane  V to  H RIGHT-60      with rounded corners of 6 pixels and an arrow */
static void draw_lines(struct drawing *d)
{
    for (uint32_t i = 0; i < d->n_drawn; i++) {
        uint32_t k = d->order[i];
        const struct vc_graph_node *node = vc_graph_node(d->graph, k);

        for (unsigned n = 0; n < node->n_inputs; n++) {
            uint32_t maker =
                node->inputs[n] == VC_NO_VALUE ? VC_NO_NODE : vc_graph_value(d->graph, node->inputs[n])->node;
            int from = maker == VC_NO_NODE || (i > 0 && maker == d->order[i - 1]) ? 0 : source_of(d, maker);
            int to = d->row[k];

            /* lines lead down only */
            if (from == 0 || from >= to) {
                continue;
            }
            int lane = take_lane(d, from, to);
            vc_text_add(&d->text, "<path class=\"l\" d=\"M%d %dH%dQ%d %d %d %dV%dQ%d %d %d %dH%d\"/>\n", RIGHT - 60,
                        from, lane - 6, lane, from, lane, from + 6, to - 6, lane, to, lane - 6, to, RIGHT - 60);
        }
    }
}

/* The comment at the start is how an older drawing is recognized (svg_check). Then style, title, sizes, key. */
static void draw_head(struct drawing *d, const char *title)
{
    const struct vc_graph_block *all = &d->blocks->blocks[0];
    int width = RIGHT + 20 + MAX_LANES * LANE;
    const char *name;
    int64_t size;

    vc_text_add(&d->text,
                "<!-- vcompress graph -->\n<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" "
                "width=\"%d\" height=\"%d\" "
                "font-family=\"system-ui,sans-serif\" font-size=\"12\">\n",
                width, d->bottom, width, d->bottom);
    vc_text_add(&d->text,
                "<style>svg{background:#fff}text{fill:#222}.h{font-size:17px;font-weight:600}.t{font-weight:600}"
                ".r{text-anchor:end;fill:#667}.s{fill:#445}.p{fill:#8a5a00}.q{fill:#667}"
                ".b0{fill:#f4f6f9;stroke:#c3cbd6}.b1{fill:#fff;stroke:#c3cbd6}.w{fill:#c2571a}.f{fill:#2f6f9f}"
                ".m{fill:#9aa3ad}.l{fill:none;stroke:#7a8796;stroke-width:1.2;marker-end:url(#a)}#a path{fill:#7a8796}"
                "@media(prefers-color-scheme:dark){svg{background:#16191d}text{fill:#e4e7ea}.r,.q{fill:#9aa3ad}"
                ".s{fill:#b8c0c9}.p{fill:#d9a64a}.b0{fill:#1e2329;stroke:#3a424c}.b1{fill:#16191d;stroke:#3a424c}"
                ".w{fill:#e07b3f}.f{fill:#5fa3d6}.m{fill:#6b7480}}</style>\n"
                "<defs><marker id=\"a\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"7\" markerHeight=\"7\" "
                "orient=\"auto\"><path d=\"M0 0L8 4L0 8z\"/></marker></defs>\n"
                "<text class=\"h\" x=\"%d\" y=\"32\">",
                LEFT);
    vc_svg_add_text(&d->text, title, 100);
    vc_text_add(&d->text, "</text><text class=\"q\" x=\"%d\" y=\"54\">%" PRIu32 " nodes, ", LEFT, all->n_nodes);
    add_count(d, all->n_params);
    vc_text_add(&d->text, " parameters");
    for (uint32_t k = 0; (name = vc_graph_symbol(d->graph, k, &size)) != NULL; k++) {
        if (size >= 0) {
            vc_text_add(&d->text, "; ");
            vc_svg_add_text(&d->text, name, 40);
            vc_text_add(&d->text, " %" PRId64, size);
        }
    }
    vc_text_add(
        &d->text,
        "</text>\n<circle class=\"w\" cx=\"%d\" cy=\"74\" r=\"5\"/><text x=\"%d\" y=\"78\">products</text>"
        "<circle class=\"f\" cx=\"%d\" cy=\"74\" r=\"5\"/><text x=\"%d\" y=\"78\">functions</text>"
        "<circle class=\"m\" cx=\"%d\" cy=\"74\" r=\"5\"/><text x=\"%d\" y=\"78\">moved elements</text>"
        "<text class=\"q\" x=\"345\" y=\"78\">output</text><text class=\"p\" x=\"560\" y=\"78\">parameters</text>\n",
        LEFT + 5, LEFT + 16, LEFT + 95, LEFT + 106, LEFT + 190, LEFT + 201);
}

/* Frames: at most two for each block, since a block may be entered again after another one. */
enum vc_status vc_draw_graph(struct vc_ctx *ctx, const struct vc_document *document, char **out)
{
    const struct vc_graph_blocks *blocks = document->blocks;
    struct drawing d = {.ctx = ctx, .graph = document->of, .blocks = blocks};
    size_t n = vc_graph_node_count(d.graph);
    enum vc_status status = VC_OK;

    vc_text_init(&d.text, ctx);
    VC_TRY(VC_ZEROS(ctx, VC_TAG_REPORT, d.row, n + 1));
    VC_TRY(VC_ZEROS(ctx, VC_TAG_REPORT, d.order, n + 1));
    d.max_frames = blocks->n < 20000 ? 2 * blocks->n + 100 : 40000;
    VC_TRY(VC_ZEROS(ctx, VC_TAG_REPORT, d.frames, d.max_frames));
    place(&d);
    draw_head(&d, document->path);
    draw_frames(&d);
    draw_nodes(&d);
    draw_lines(&d);
    if (d.n_drawn == MAX_NODES) {
        vc_text_add(&d.text, "<text class=\"q\" x=\"%d\" y=\"%d\">further nodes are not drawn</text>\n", LEFT,
                    d.bottom - 6);
    }
    vc_text_add(&d.text, "</svg>\n");
    *out = vc_text_detach(&d.text);
    status = d.text.status;
out:
    vc_text_release(&d.text);
    VC_FREE_ALL(ctx, d.row, d.order, d.frames);
    return status;
}
