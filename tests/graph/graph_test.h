/* graph_test.h - what tests of graphs share: a context and a graph for each test, which the test may make or replace,
 * and which are given back behind it. */
#pragma once

#include "graph/builder/builder.h"
#include "support.h"

static struct vc_ctx *ctx;
static struct vc_graph *graph; /* NULL: none */

/* For cmocka: without a graph, and with one that is empty. */
static inline int begin_without(void **state)
{
    (void)state;
    ctx = test_ctx();
    graph = NULL;
    return 0;
}

static inline int begin(void **state)
{
    begin_without(state);
    assert_int_equal(vc_graph_create(ctx, &graph), VC_OK);
    return 0;
}

/* Wants all memory back. */
static inline int end(void **state)
{
    (void)state;
    vc_graph_close(graph);
    test_ctx_done(ctx);
    return 0;
}
