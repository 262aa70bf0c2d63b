/* ops.c - the table of operators: ops.inc expanded into rows, and the search by name. The builder asks once for
 * each node and keeps the row (vc_graph_node.row), so that a linear search is enough. */
#include "graph/ops/ops.h"

/* The words of ops.inc. */
#define NOTHING    0
#define ALL        UINT32_MAX
#define IN(k)      VC_NEEDS_IN(k)
#define X          VC_NEEDS_IN(0)
#define Y          VC_NEEDS_Y
#define FACTOR_0   VC_NEEDS_FACTOR_0
#define FACTORS    (VC_NEEDS_FACTOR_0 | VC_NEEDS_FACTOR_1)
#define INPUTS     VC_NEEDS_INPUTS
#define CHANNELS   VC_NEEDS_CHANNELS
#define ROWS       VC_NEEDS_ROWS
#define PLACES     VC_NEEDS_PLACES
#define HALF       VC_EAGER_HALF
#define FLOAT      VC_EAGER_FLOAT
#define IN_PLACE   VC_EAGER_IN_PLACE
#define SAME_GRAD  VC_EAGER_SAME_GRAD
#define EAGER_VIEW VC_EAGER_VIEW
#define UNKNOWN    VC_EAGER_NOT_KNOWN
#define VIEW       VC_OP_VIEW
#define ONE_BY_ONE VC_OP_ONE_BY_ONE

/* A row without its vc_infer_X or vc_run_X does not link. */
static const struct vc_op_row rows[] = {
#define OP(id, name, min_in, max_in, min_out, max_out, axes, reads, backward, eager)                 \
    {VC_OP_##id,        name,  min_in,   max_in, min_out, max_out, vc_infer_##id, vc_run_##id##_f32, \
     vc_run_##id##_f64, reads, backward, eager},
#include "graph/ops/ops.inc"
#undef OP
};

#define N_ROWS (sizeof rows / sizeof *rows)

const struct vc_op_row *vc_op_find(const char *name)
{
    for (size_t k = 0; k < N_ROWS; k++) {
        if (strcmp(rows[k].name, name) == 0) {
            return &rows[k];
        }
    }
    return NULL;
}

/* Letters of `a` that also come in `b`, in order, from the start: a rough likeness that needs no table. */
static size_t likeness(const char *a, const char *b)
{
    size_t same = 0;

    for (; *a != '\0'; a++) {
        const char *at = strchr(b, *a);

        if (at != NULL) {
            same += 2;
            b = at + 1;
        }
    }
    return same;
}

/* The likeness in thousandths of both lengths: equal names have 1000. */
const char *vc_op_nearest(const char *name)
{
    const char *best = rows[0].name;
    size_t most = 0;

    for (size_t k = 0; k < N_ROWS; k++) {
        size_t both = strlen(name) + strlen(rows[k].name);
        size_t score = both == 0 ? 0 : 1000 * likeness(name, rows[k].name) / both;

        if (score > most) {
            most = score;
            best = rows[k].name;
        }
    }
    return best;
}
