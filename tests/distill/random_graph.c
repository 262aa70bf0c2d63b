/* random_graph.c - see random_graph.h. */
#include "random_graph.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define MAX_DIMS 4

/* What the writer of the graph believes of a value, for the batch that it was shown. */
struct belief {
    char name[24];
    unsigned n_dims;
    int64_t shape[MAX_DIMS];
};

struct gen {
    uint64_t random;
    int64_t batch;
    struct belief values[48];
    size_t n, n_names;
    char nodes[12000], constants[12000];
    size_t at_nodes, at_constants;
    struct random_graph *out;
};

/* From 0 to n - 1. */
static uint64_t pick(struct gen *g, uint64_t n)
{
    g->random = g->random * 6364136223846793005u + 1442695040888963407u;
    return (g->random >> 33) % n;
}

static bool chance(struct gen *g, unsigned percent)
{
    return pick(g, 100) < percent;
}

static void put(char *to, size_t room, size_t *at, const char *format, ...) __attribute__((format(printf, 4, 5)));
static void put(char *to, size_t room, size_t *at, const char *format, ...)
{
    va_list args;
    int n;

    va_start(args, format);
    n = vsnprintf(to + *at, room - *at, format, args);
    va_end(args);
    *at += n > 0 && (size_t)n < room - *at ? (size_t)n : 0;
}

#define NODE(g, ...)     put((g)->nodes, sizeof(g)->nodes, &(g)->at_nodes, __VA_ARGS__)
#define CONSTANT(g, ...) put((g)->constants, sizeof(g)->constants, &(g)->at_constants, __VA_ARGS__)

static int64_t count(const struct belief *x)
{
    int64_t n = 1;

    for (unsigned k = 0; k < x->n_dims; k++) {
        n *= x->shape[k];
    }
    return n;
}

/* ---- constants ---- */

/* A list of integers; its number names it. */
static size_t ints(struct gen *g, const int64_t *list, size_t n)
{
    CONSTANT(g, "%sint64[%zu] i%zu = {", g->at_constants != 0 ? ", " : "", n, g->n_names);
    for (size_t k = 0; k < n; k++) {
        CONSTANT(g, "%s%lld", k != 0 ? ", " : "", (long long)list[k]);
    }
    CONSTANT(g, "}");
    return g->n_names++;
}

static size_t one_int(struct gen *g, int64_t i)
{
    return ints(g, &i, 1);
}

static size_t floats(struct gen *g, const int64_t *shape, unsigned n_dims)
{
    int64_t n = 1;

    CONSTANT(g, "%sfloat[", g->at_constants != 0 ? ", " : "");
    for (unsigned k = 0; k < n_dims; k++) {
        CONSTANT(g, "%s%lld", k != 0 ? "," : "", (long long)shape[k]);
        n *= shape[k];
    }
    CONSTANT(g, "] c%zu = {", g->n_names);
    for (int64_t k = 0; k < n; k++) {
        CONSTANT(g, "%s%d.%d", k != 0 ? ", " : "", (int)(k % 3) - 1, (int)(k * 7 % 10));
    }
    CONSTANT(g, "}");
    return g->n_names++;
}

/* ---- values ---- */

static const struct belief *any(struct gen *g)
{
    return &g->values[chance(g, 60) ? g->n - 1 : pick(g, g->n)];
}

/* A value that a node makes, with the shape of another one to begin with. */
static struct belief *made(struct gen *g, const struct belief *as)
{
    struct belief *v = &g->values[g->n++];

    *v = *as;
    (void)snprintf(v->name, sizeof v->name, "v%zu", g->n_names++);
    return v;
}

/* A number that stands for a size: itself, and now and then one that is wrong. */
static int64_t stated(struct gen *g, int64_t size)
{
    switch (pick(g, 30)) {
    case 0:
        return size * 2;
    case 1:
        return size + 1;
    case 2:
        return size > 1 ? size - 1 : 4;
    default:
        return size;
    }
}

/* Dimensions whose product is n. */
static unsigned divide(struct gen *g, int64_t n, int64_t *shape)
{
    unsigned n_dims = 1 + (unsigned)pick(g, MAX_DIMS - 1);

    for (unsigned k = 0; k + 1 < n_dims; k++) {
        int64_t of = k == 0 && n % g->batch == 0 && chance(g, 60) ? g->batch : 1 + (int64_t)pick(g, 6);

        shape[k] = n % of == 0 ? of : 1;
        n /= shape[k];
    }
    shape[n_dims - 1] = n;
    return n_dims;
}

static void reshape(struct gen *g)
{
    struct belief x = *any(g);
    struct belief *y = made(g, &x);
    int64_t list[MAX_DIMS];
    unsigned open;

    y->n_dims = divide(g, count(&x), y->shape);
    open = (unsigned)pick(g, 2 * y->n_dims);
    for (unsigned k = 0; k < y->n_dims; k++) {
        bool same = k < x.n_dims && x.shape[k] == y->shape[k];

        list[k] = k == open ? -1 : same && chance(g, 40) ? 0 : stated(g, y->shape[k]);
    }
    NODE(g, " %s = Reshape (%s, i%zu)", y->name, x.name, ints(g, list, y->n_dims));
}

/* The shape from the sizes of another value: [its batch, -1]. */
static void reshape_by_size(struct gen *g)
{
    struct belief x = *any(g);
    const struct belief *of = any(g);
    struct belief *y;
    size_t a = g->n_names++;

    if (count(&x) % of->shape[0] != 0) {
        return;
    }
    NODE(g, " v%zu = Shape <start = 0, end = 1> (%s) v%zu = Concat <axis = 0> (v%zu, i%zu)", a, of->name, a + 1, a,
         a + 2);
    g->n_names++;
    (void)one_int(g, -1);
    y = made(g, &x);
    y->n_dims = 2;
    y->shape[0] = of->shape[0];
    y->shape[1] = count(&x) / of->shape[0];
    NODE(g, " %s = Reshape (%s, v%zu)", y->name, x.name, a + 1);
}

static void flatten(struct gen *g)
{
    struct belief x = *any(g);
    struct belief *y = made(g, &x);
    unsigned axis = (unsigned)pick(g, x.n_dims + 1);

    y->n_dims = 2;
    y->shape[0] = y->shape[1] = 1;
    for (unsigned k = 0; k < x.n_dims; k++) {
        y->shape[k >= axis] *= x.shape[k];
    }
    NODE(g, " %s = Flatten <axis = %u> (%s)", y->name, axis, x.name);
}

/* With a constant of its shape, with another value, with itself. */
static void broadcast(struct gen *g)
{
    static const char *const ops[] = {"Add", "Mul", "Sub"};
    struct belief x = *any(g);
    struct belief *y = made(g, &x);
    const char *op = ops[pick(g, 3)];
    int64_t shape[MAX_DIMS];

    for (size_t k = 0; k + 1 < g->n && chance(g, 40); k++) {
        const struct belief *z = &g->values[k];

        if (z->n_dims == x.n_dims && memcmp(z->shape, x.shape, x.n_dims * sizeof x.shape[0]) == 0) {
            NODE(g, " %s = %s (%s, %s)", y->name, op, x.name, z->name);
            return;
        }
    }
    for (unsigned k = 0; k < x.n_dims; k++) {
        shape[k] = chance(g, 40) ? 1 : stated(g, x.shape[k]);
    }
    NODE(g, " %s = %s (%s, c%zu)", y->name, op, x.name, floats(g, shape, x.n_dims));
}

static void expand(struct gen *g)
{
    struct belief x = *any(g);
    struct belief *y = made(g, &x);
    int64_t list[MAX_DIMS];

    for (unsigned k = 0; k < x.n_dims; k++) {
        y->shape[k] = x.shape[k] == 1 && chance(g, 50) ? 2 : x.shape[k];
        list[k] = chance(g, 30) && y->shape[k] == x.shape[k] ? 1 : stated(g, y->shape[k]);
    }
    NODE(g, " %s = Expand (%s, i%zu)", y->name, x.name, ints(g, list, x.n_dims));
}

static void slice(struct gen *g)
{
    struct belief x = *any(g);
    struct belief *y = made(g, &x);
    unsigned axis = (unsigned)pick(g, x.n_dims);
    int64_t size = x.shape[axis];
    int64_t from = (int64_t)pick(g, (uint64_t)size);
    int64_t to = chance(g, 30) ? INT32_MAX : from + 1 + (int64_t)pick(g, (uint64_t)(size - from));

    size_t start;

    y->shape[axis] = (to > size ? size : to) - from;
    if (chance(g, 20)) { /* from the end */
        from -= size;
    }
    start = one_int(g, from);
    (void)one_int(g, to);
    (void)one_int(g, axis);
    NODE(g, " %s = Slice (%s, i%zu, i%zu, i%zu)", y->name, x.name, start, start + 1, start + 2);
}

static void concat(struct gen *g)
{
    struct belief x = *any(g);
    struct belief *y = made(g, &x);
    unsigned axis = (unsigned)pick(g, x.n_dims);
    int64_t shape[MAX_DIMS];

    if (chance(g, 40)) {
        y->shape[axis] *= 2;
        NODE(g, " %s = Concat <axis = %u> (%s, %s)", y->name, axis, x.name, x.name);
        return;
    }
    for (unsigned k = 0; k < x.n_dims; k++) {
        shape[k] = k == axis ? 1 + (int64_t)pick(g, 2) : stated(g, x.shape[k]);
    }
    y->shape[axis] += shape[axis];
    NODE(g, " %s = Concat <axis = %u> (%s, c%zu)", y->name, axis, x.name, floats(g, shape, x.n_dims));
}

static void split(struct gen *g)
{
    struct belief x = *any(g);
    unsigned axis = (unsigned)pick(g, x.n_dims);
    struct belief *a;
    struct belief *b;

    if (x.shape[axis] < 2) {
        return;
    }
    a = made(g, &x);
    b = made(g, &x);
    a->shape[axis] = (x.shape[axis] + 1) / 2;
    b->shape[axis] = x.shape[axis] - a->shape[axis];
    if (chance(g, 50)) {
        const int64_t sizes[2] = {a->shape[axis], b->shape[axis]};

        NODE(g, " %s, %s = Split <axis = %u> (%s, i%zu)", a->name, b->name, axis, x.name, ints(g, sizes, 2));
    } else {
        NODE(g, " %s, %s = Split <axis = %u, num_outputs = 2> (%s)", a->name, b->name, axis, x.name);
    }
}

static void transpose(struct gen *g)
{
    struct belief x = *any(g);
    struct belief *y = made(g, &x);
    unsigned a = (unsigned)pick(g, x.n_dims);
    unsigned b = (unsigned)pick(g, x.n_dims);

    NODE(g, " %s = Transpose <perm = [", y->name);
    for (unsigned k = 0; k < x.n_dims; k++) {
        unsigned from = k == a ? b : k == b ? a : k;

        y->shape[k] = x.shape[from];
        NODE(g, "%s%u", k != 0 ? ", " : "", from);
    }
    NODE(g, "]> (%s)", x.name);
}

static void reduce(struct gen *g)
{
    struct belief x = *any(g);
    unsigned axis = (unsigned)pick(g, x.n_dims);
    bool keep = x.n_dims == 1 || chance(g, 50);
    struct belief *y = made(g, &x);

    y->shape[axis] = 1;
    if (!keep) {
        memmove(y->shape + axis, y->shape + axis + 1, (x.n_dims - axis - 1) * sizeof y->shape[0]);
        y->n_dims--;
    }
    NODE(g, " %s = %s <keepdims = %d> (%s, i%zu)", y->name, chance(g, 50) ? "ReduceSum" : "ReduceMean", (int)keep,
         x.name, one_int(g, axis));
}

static void more_or_fewer_dims(struct gen *g)
{
    struct belief x = *any(g);
    unsigned axis = (unsigned)pick(g, x.n_dims);
    struct belief *y;

    if (x.shape[axis] == 1 && x.n_dims > 1) {
        y = made(g, &x);
        memmove(y->shape + axis, y->shape + axis + 1, (x.n_dims - axis - 1) * sizeof y->shape[0]);
        y->n_dims--;
        if (chance(g, 80)) {
            NODE(g, " %s = Squeeze (%s, i%zu)", y->name, x.name, one_int(g, axis));
        } else { /* all that are 1 */
            y->n_dims = 0;
            for (unsigned k = 0; k < x.n_dims; k++) {
                y->shape[y->n_dims] = x.shape[k];
                y->n_dims += x.shape[k] != 1;
            }
            y->shape[0] = y->n_dims == 0 ? 1 : y->shape[0];
            NODE(g, " %s = Squeeze (%s)", y->name, x.name);
            g->n -= y->n_dims == 0;
        }
    } else if (x.n_dims < MAX_DIMS) {
        y = made(g, &x);
        memmove(y->shape + axis + 1, y->shape + axis, (x.n_dims - axis) * sizeof y->shape[0]);
        y->shape[axis] = 1;
        y->n_dims++;
        NODE(g, " %s = Unsqueeze (%s, i%zu)", y->name, x.name, one_int(g, axis));
    }
}

static void element_by_element(struct gen *g)
{
    static const char *const ops[] = {"Relu", "Sigmoid", "Tanh", "Softmax <axis = -1>", "Identity", "Abs", "Dropout"};
    struct belief x = *any(g);
    struct belief *y = made(g, &x);

    NODE(g, " %s = %s (%s)", y->name, ops[pick(g, sizeof ops / sizeof *ops)], x.name);
}

/* Elements of a value along its first axis, by numbers that a batch of another size may not have. */
static void gather(struct gen *g)
{
    struct belief x = *any(g);
    struct belief *y = made(g, &x);
    int64_t list[3];
    size_t n = 1 + pick(g, 3);

    for (size_t k = 0; k < n; k++) {
        list[k] = (int64_t)pick(g, (uint64_t)x.shape[0]);
    }
    y->shape[0] = (int64_t)n;
    NODE(g, " %s = Gather (%s, i%zu)", y->name, x.name, ints(g, list, n));
}

static void product(struct gen *g)
{
    struct belief x = *any(g);
    struct belief *y;
    int64_t k = x.shape[x.n_dims - 1];

    if (x.n_dims < 2 || k > RANDOM_WIDEST) {
        return;
    }
    y = made(g, &x);
    y->shape[x.n_dims - 1] = RANDOM_CLASSES;
    g->out->uses[k] = true;
    NODE(g, " %s = MatMul (%s, w%lld)", y->name, x.name, (long long)k);
}

/* ---- the graph ---- */

/* Answers: what is there in one way or another as rows, times a parameter. */
static void answer(struct gen *g, const char *name)
{
    struct belief x = *any(g);
    int64_t width = count(&x) / g->batch;
    int64_t list[2] = {g->batch, width};

    if (chance(g, 6)) {
        g->out->uses[5] = true;
        NODE(g, " %s = Relu (w5)", name);
        return;
    }
    if (count(&x) % g->batch != 0 || width > RANDOM_WIDEST) {
        x = g->values[0];
        list[1] = width = 6;
    }
    list[0] = chance(g, 30) ? -1 : x.shape[0] == g->batch && chance(g, 50) ? 0 : stated(g, g->batch);
    list[1] = list[0] != -1 && chance(g, 30) ? -1 : stated(g, width);
    g->out->uses[width] = true;
    NODE(g, " f%s = Reshape (%s, i%zu)", name, x.name, ints(g, list, 2));
    NODE(g, " %s = MatMul (f%s, w%lld)", name, name, (long long)width);
}

static size_t make_inputs(struct gen *g, char *text, size_t room)
{
    const char *other = chance(g, 10) ? "c" : "b";
    char size[24] = "b";
    size_t at = 0;

    if (chance(g, 15)) {
        (void)snprintf(size, sizeof size, "%lld", (long long)g->batch);
    }
    put(text, room, &at, "float[%s, 6] x", size);
    g->values[g->n++] = (struct belief){"x", 2, {g->batch, 6}};
    if (chance(g, 40)) {
        put(text, room, &at, ", float[%s, 6] z", chance(g, 90) ? size : other);
        if (chance(g, 70)) {
            g->values[g->n++] = (struct belief){"z", 2, {g->batch, 6}};
        }
        if (chance(g, 10)) { /* x is not read */
            g->values[0] = (struct belief){"z", 2, {g->batch, 6}};
        }
    }
    if (chance(g, 20)) {
        put(text, room, &at, ", int64[%s, 3] t", size);
        g->out->uses[20] = true;
        NODE(g, " table = Gather (w20, t)");
        g->values[g->n++] = (struct belief){"table", 3, {g->batch, 3, RANDOM_CLASSES}};
    }
    return at;
}

/* Head, inputs with the parameters behind them, constants, nodes. */
static void write_text(struct gen *g, const char *inputs, bool two)
{
    char *text = g->out->text;
    size_t room = sizeof g->out->text;
    size_t at = 0;
    bool some = false;

    put(text, room, &at, "<ir_version: 10, opset_import: [\"\" : 23], metadata_props: [");
    for (int k = 1; k <= RANDOM_WIDEST; k++) {
        if (g->out->uses[k]) {
            put(text, room, &at, "%s\"vcompress.parameter:w%d\" : \"w%d\"", some ? ", " : "", k, k);
            some = true;
        }
    }
    put(text, room, &at, "]>\ng (%s", inputs);
    for (int k = 1; k <= RANDOM_WIDEST; k++) {
        if (g->out->uses[k]) {
            put(text, room, &at, ", float[%d, %d] w%d", k, RANDOM_CLASSES, k);
        }
    }
    put(text, room, &at, ") => (float[n, %d] y%s)%s%s%s {%s }\n", RANDOM_CLASSES, two ? ", float[p, q] y2" : "",
        g->at_constants != 0 ? " <" : "", g->constants, g->at_constants != 0 ? ">" : "", g->nodes);
}

void random_graph_make(uint64_t seed, struct random_graph *out)
{
    static void (*const steps[])(struct gen *) = {
        reshape, reshape, reshape, reshape_by_size, flatten, broadcast,          broadcast,          expand,
        slice,   concat,  split,   transpose,       reduce,  more_or_fewer_dims, element_by_element, gather,
        product};
    static const int64_t batches[] = {1, 1, 2, 4, 7};
    struct gen g = {.random = seed * 2654435761u + 12345, .out = out};
    char inputs[200];
    unsigned n;
    bool two;

    memset(out, 0, sizeof *out);
    for (int k = 0; k < 4; k++) {
        (void)pick(&g, 2);
    }
    g.batch = out->batch = batches[pick(&g, sizeof batches / sizeof *batches)];
    (void)make_inputs(&g, inputs, sizeof inputs);
    n = (unsigned)pick(&g, 9);
    for (unsigned k = 0; k < n; k++) {
        steps[pick(&g, sizeof steps / sizeof *steps)](&g);
        if (count(&g.values[g.n - 1]) > 600 || g.values[g.n - 1].n_dims == 0) {
            g.values[g.n - 1] = g.values[0];
        }
    }
    answer(&g, "y");
    two = chance(&g, 15);
    if (two) {
        answer(&g, "y2");
    }
    write_text(&g, inputs, two);
}
