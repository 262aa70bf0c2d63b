/* couple_table.c - the rule of each operator: the column `axes` of graph/ops/ops.inc.
 *
 * The columns of ops.inc are expanded into function names: a word without a function here does not compile. */
#include "graph/couple/couple_rules.h"

static vc_couple_rule *const rules[VC_OPS] = {
#define OP(id, name, min_in, max_in, min_out, max_out, axes, reads, backward, eager) [VC_OP_##id] = vc_couple_##axes,
#include "graph/ops/ops.inc"
#undef OP
};

vc_couple_rule *vc_couple_rule_of(const struct vc_graph_node *node)
{
    return node->row != NULL ? rules[node->row->op] : NULL;
}
