/* op_driver.c - computes single operators for tests/judge/test_graph_ops.py, which compares them with those of others.
 *
 * op_driver FILE reads cases, words with blanks between them, and prints what came of each:
 *
 *     case add_3 Add 1                      name, operator, outputs
 *     in input f 2 batch=2 3 1 2 3 4 5 6    f, i or b; dimensions, of which "batch=2" is a symbol; elements
 *     in constant i 0 7                     known when shapes are inferred
 *     in -                                  not given
 *     attr alpha f 0x1p-3                   or: i 3, s =text, is 2 1 1, fs 1 0x1p0
 *     end
 *
 *     case add_3
 *     problem Add 'y0': ...                 and nothing else
 *     shape 0 f 2 2 3                       as inferred, with the sizes of the symbols
 *     macs 0
 *     out f32 0 f 2 2 3 2 4 ...             or: fail f32 SENTENCE
 *     end */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <vcompress/experimental.h>

#include "core/base/ctx.h"
#include "graph/builder/builder.h"
#include "graph/forward.h"

#define MAX_IN 16

static FILE *in;
static char word[4096];

static const char *next(void)
{
    if (fscanf(in, "%4095s", word) != 1) {
        word[0] = '\0';
    }
    return word;
}

static long long next_int(void)
{
    return strtoll(next(), NULL, 10);
}

static void stop(const char *what)
{
    fprintf(stderr, "op_driver: %s at '%s'\n", what, word);
    exit(2);
}

/* One input of the case. */
struct given {
    bool is_real;
    unsigned n_dims;
    int64_t shape[VC_GRAPH_MAX_DIMS];
    size_t n;
    void *data; /* double or int64_t */
};

struct feed {
    struct given given[MAX_IN]; /* by number of the graph's input */
    uint32_t n;
    enum vc_precision precision;
    const struct vc_graph *graph;
};

static const char *const precision_names[] = {"f32", "f64"};

static enum vc_status feed_input(struct vc_ctx *ctx, void *user, uint32_t k, struct vc_run_value *value)
{
    const struct feed *feed = user;
    const struct given *given = &feed->given[k];

    *value = (struct vc_run_value){.n_dims = given->n_dims, .is_real = given->is_real, .n = given->n};
    memcpy(value->shape, given->shape, sizeof value->shape);
    value->data = vc_alloc_array(ctx, VC_TAG_MISC, given->n + 1, 8);
    for (size_t i = 0; i < given->n; i++) {
        if (!given->is_real) {
            ((int64_t *)value->data)[i] = ((const int64_t *)given->data)[i];
        } else if (feed->precision == VC_PRECISION_F32) {
            ((float *)value->data)[i] = (float)((const double *)given->data)[i];
        } else {
            ((double *)value->data)[i] = ((const double *)given->data)[i];
        }
    }
    return VC_OK;
}

static enum vc_status take(struct vc_ctx *ctx, void *user, uint32_t value, const struct vc_run_value *out)
{
    const struct feed *feed = user;
    uint32_t k = 0;

    (void)ctx;
    while (vc_graph_output(feed->graph, k) != value) {
        k++;
    }
    printf("out %s %u %c %u", precision_names[feed->precision], (unsigned)k, out->is_real ? 'f' : 'i', out->n_dims);
    for (unsigned d = 0; d < out->n_dims; d++) {
        printf(" %" PRId64, out->shape[d]);
    }
    for (size_t i = 0; i < out->n; i++) {
        if (!out->is_real) {
            printf(" %" PRId64, ((const int64_t *)out->data)[i]);
        } else if (feed->precision == VC_PRECISION_F32) {
            printf(" %.9g", (double)((const float *)out->data)[i]);
        } else {
            printf(" %.17g", ((const double *)out->data)[i]);
        }
    }
    printf("\n");
    return VC_OK;
}

/* A value of the graph: an input, which `feed` gets, or a constant. */
static uint32_t read_value(struct vc_graph *graph, struct feed *feed)
{
    struct given given = {.n = 1};
    struct vc_dim dims[VC_GRAPH_MAX_DIMS];
    bool constant;
    char type;
    enum vc_dtype dtype;
    char name[32];

    next();
    if (strcmp(word, "-") == 0) {
        return VC_NO_VALUE;
    }
    constant = strcmp(word, "constant") == 0;
    type = *next();
    dtype = type == 'f' ? VC_DTYPE_F32 : type == 'i' ? VC_DTYPE_I64 : VC_DTYPE_BOOL;
    given.is_real = type == 'f';
    given.n_dims = (unsigned)next_int();
    for (unsigned k = 0; k < given.n_dims && k < VC_GRAPH_MAX_DIMS; k++) {
        char *equals = strchr((char *)(uintptr_t)next(), '=');

        given.shape[k] = strtoll(equals != NULL ? equals + 1 : word, NULL, 10);
        given.n *= (size_t)given.shape[k];
        if (equals != NULL) {
            *equals = '\0';
            dims[k] = vc_dim_symbol(&graph->dims, word);
        } else {
            dims[k] = vc_dim_number(given.shape[k]);
        }
    }
    given.data = calloc(given.n + 1, 8);
    if (given.data == NULL) {
        stop("no memory");
    }
    for (size_t k = 0; k < given.n; k++) {
        if (given.is_real) {
            ((double *)given.data)[k] = strtod(next(), NULL);
        } else {
            ((int64_t *)given.data)[k] = next_int();
        }
    }
    if (constant) {
        uint32_t value = vc_graph_add_constant(graph, NULL, dtype, given.shape, given.n_dims, given.data);

        free(given.data);
        return value;
    }
    if (feed->n == MAX_IN) {
        stop("too many inputs");
    }
    feed->given[feed->n] = given;
    snprintf(name, sizeof name, "x%u", (unsigned)feed->n++);
    return vc_graph_add_input(graph, name, dtype, dims, given.n_dims);
}

/* An attribute; what it points to is freed by the caller: NULL or one block. */
static struct vc_graph_attr read_attr(void **memory)
{
    struct vc_graph_attr attr = {.name = strdup(next())};
    char kind[4];

    *memory = NULL;
    snprintf(kind, sizeof kind, "%.3s", next());
    if (strcmp(kind, "i") == 0) {
        attr.kind = VC_ATTR_INT;
        attr.i = next_int();
    } else if (strcmp(kind, "f") == 0) {
        attr.kind = VC_ATTR_FLOAT;
        attr.f = strtod(next(), NULL);
    } else if (strcmp(kind, "s") == 0) {
        attr.kind = VC_ATTR_STRING;
        attr.s = *memory = strdup(next() + 1);
    } else {
        attr.kind = strcmp(kind, "is") == 0 ? VC_ATTR_INTS : VC_ATTR_FLOATS;
        attr.n = (size_t)next_int();
        *memory = calloc(attr.n + 1, 8);
        for (size_t k = 0; k < attr.n && *memory != NULL; k++) {
            if (attr.kind == VC_ATTR_INTS) {
                ((int64_t *)*memory)[k] = next_int();
            } else {
                ((double *)*memory)[k] = strtod(next(), NULL);
            }
        }
        attr.ints = *memory;
        attr.floats = *memory;
    }
    return attr;
}

/* The operator's node, from the words up to "end". */
static uint32_t read_node(struct vc_graph *graph, struct feed *feed, const char *op, unsigned n_outputs)
{
    uint32_t inputs[MAX_IN];
    struct vc_graph_attr attrs[MAX_IN];
    void *memory[MAX_IN];
    struct vc_node_spec spec = {.op = op, .n_outputs = n_outputs, .inputs = inputs, .attrs = attrs};
    uint32_t first;

    while (strcmp(next(), "end") != 0) {
        if (strcmp(word, "in") == 0 && spec.n_inputs < MAX_IN) {
            inputs[spec.n_inputs++] = read_value(graph, feed);
        } else if (strcmp(word, "attr") == 0 && spec.n_attrs < MAX_IN) {
            attrs[spec.n_attrs] = read_attr(&memory[spec.n_attrs]);
            spec.n_attrs++;
        } else {
            stop("cannot read the case");
        }
    }
    first = vc_graph_add_node(graph, &spec);
    for (unsigned k = 0; k < spec.n_attrs; k++) {
        free((void *)(uintptr_t)attrs[k].name);
        free(memory[k]);
    }
    return first;
}

static void bind(struct vc_graph *graph, const struct feed *feed)
{
    for (uint32_t k = 0; k < feed->n; k++) {
        const struct vc_graph_value *value = vc_graph_value(graph, vc_graph_input(graph, k));
        char text[128];

        for (unsigned d = 0; d < value->n_dims; d++) {
            vc_dim_bind(&graph->dims, vc_graph_dim_text(graph, value->shape[d], text, sizeof text),
                        feed->given[k].shape[d]);
        }
    }
}

static void print_shapes(const struct vc_graph *graph)
{
    struct vc_dim macs = vc_dim_number(0);

    for (uint32_t k = 0; k < vc_graph_output_count(graph); k++) {
        const struct vc_graph_value *value = vc_graph_value(graph, vc_graph_output(graph, k));

        printf("shape %u %c %u", (unsigned)k,
               value->dtype == VC_DTYPE_F32   ? 'f'
               : value->dtype == VC_DTYPE_I64 ? 'i'
                                              : 'b',
               value->n_dims);
        for (unsigned d = 0; d < value->n_dims; d++) {
            printf(" %" PRId64, vc_graph_dim_value(graph, value->shape[d]));
        }
        printf("\n");
    }
    if (vc_graph_node_count(graph) != 0) {
        macs = vc_graph_node(graph, 0)->macs;
    }
    printf("macs %" PRId64 "\n", vc_graph_dim_value(graph, macs));
}

static void run_case(struct vc_ctx *ctx)
{
    struct vc_graph *graph;
    struct feed feed = {.n = 0};
    struct vc_run_calls calls = {.user = &feed, .input = feed_input, .take = take};
    char op[64];
    unsigned n_outputs;
    uint32_t first;

    printf("case %s\n", next());
    snprintf(op, sizeof op, "%.63s", next());
    n_outputs = (unsigned)next_int();
    if (vc_graph_create(ctx, &graph) != VC_OK) {
        stop("no memory");
    }
    first = read_node(graph, &feed, op, n_outputs);
    for (unsigned k = 0; k < n_outputs; k++) {
        vc_graph_add_output(graph, vc_graph_output_of(graph, first, k));
    }
    if (vc_graph_finish(graph, &graph) != VC_OK) {
        printf("problem %s\nend\n", vc_ctx_message(ctx));
    } else {
        bind(graph, &feed);
        print_shapes(graph);
        feed.graph = graph;
        for (int p = 0; p < 2; p++) {
            enum vc_status status;

            feed.precision = p == 0 ? VC_PRECISION_F32 : VC_PRECISION_F64;
            status = vc_graph_forward(ctx, graph, feed.precision, &calls, graph->outputs, graph->n_outputs);
            if (status != VC_OK) {
                printf("fail %s %s\n", precision_names[p], vc_ctx_message(ctx));
            }
        }
        printf("end\n");
    }
    vc_graph_close(graph);
    for (uint32_t k = 0; k < feed.n; k++) {
        free(feed.given[k].data);
    }
}

int main(int argc, char **argv)
{
    struct vc_ctx *ctx = NULL;

    in = argc == 2 ? fopen(argv[1], "r") : NULL;
    if (in == NULL || vc_ctx_create(&ctx) != VC_OK) {
        fprintf(stderr, "usage: op_driver FILE\n");
        return 2;
    }
    while (strcmp(next(), "case") == 0) {
        run_case(ctx);
    }
    vc_ctx_free(ctx);
    fclose(in);
    return 0;
}
