/* ops.c - the table of operators. */
#include "graph/ops/ops.h"

#include <string.h>

static const struct vc_op_row rows[] = {
#define OP(id, name, min_in, max_in, min_out, max_out) \
    {name, min_in, max_in, min_out, max_out, vc_infer_##id, vc_run_##id##_f32, vc_run_##id##_f64},
#include "graph/ops/ops.inc"
#undef OP
};

#define N_ROWS (sizeof rows / sizeof *rows)

const struct vc_op_row *vc_op_at(size_t k)
{
    return k < N_ROWS ? &rows[k] : NULL;
}

const struct vc_op_row *vc_op_find(const char *name)
{
    for (size_t k = 0; k < N_ROWS; k++) {
        if (strcmp(rows[k].name, name) == 0) {
            return &rows[k];
        }
    }
    return NULL;
}

bool vc_op_is_unary(const char *name)
{
    static const char *const names[] = {
#define UNARY_OP(KIND, reads, value, gradient, id, name, types, alpha, beta) name,
#include "kernels/unary.inc"
#undef UNARY_OP
    };

    for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
        if (strcmp(names[k], name) == 0) {
            return true;
        }
    }
    return false;
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
