/* structured_stated.c - which tensors follow a number of the model's configuration. Two sizes can be equal by chance: a
 * pooler of a model whose feed-forward part is as wide as its layers has that many neurons, too, and loaders make it
 * with the other number. So the graph is built from the configuration with that one number changed, and a group whose
 * tensors have other shapes there is what the number is about:
 *
 *     "intermediate_size": 32 -> 64     encoder.layer.0.intermediate.dense.weight [32, 32] -> [64, 32]     follows
 *                                       pooler.dense.weight                       [32, 32]                 does not
 *
 * In the same way it is checked that the shapes of the output are those that its configuration will state. */

#include "core/job/scoped.h"
#include "core/text/text.h"
#include "graph/build.h"
#include "prune/structured/removal.h"

/* ---- the graph of a changed configuration ---- */

/* program: a copy, which is edited. */
static enum vc_status build_stated(struct vc_ctx *ctx, const struct vc_plan *plan, const struct vc_edit *edits,
                                   size_t n_edits, struct vc_program program, struct vc_graph **graph)
{
    enum vc_status status = vc_program_edit(ctx, edits, n_edits, plan->arena, &program);

    *graph = NULL;
    return status == VC_OK ? vc_graph_build_stated(ctx, plan->model, &program, graph) : status;
}

/* Of a model whose family is not known, or that cannot have these sizes: *graph NULL. */
static enum vc_status try_stated(struct vc_ctx *ctx, const struct vc_plan *plan, const struct vc_edit *edits,
                                 size_t n_edits, const struct vc_program *program, struct vc_graph **graph)
{
    enum vc_status status = build_stated(ctx, plan, edits, n_edits, *program, graph);

    if (status == VC_E_UNSUPPORTED || status == VC_E_FORMAT) {
        vc_graph_close(*graph); /* as far as it came */
        *graph = NULL;
        vc_clear_error(ctx);
        status = VC_OK;
    }
    return status;
}

/* The parameter of each tensor; NULL: it has none. */
static enum vc_status list_params(struct vc_ctx *ctx, const struct vc_plan *plan, const struct vc_graph *graph,
                                  const struct vc_graph_param ***out)
{
    const struct vc_graph_param **list = vc_calloc_array(ctx, VC_TAG_MISC, plan->n_items + 1, sizeof(const void *));

    *out = list;
    for (uint32_t k = 0; list != NULL && k < vc_graph_param_count(graph); k++) {
        const struct vc_graph_param *param = vc_graph_param(graph, k);

        if (param->index < plan->n_items) {
            list[param->index] = param;
        }
    }
    return list != NULL ? VC_OK : VC_E_NOMEM;
}

/* ---- roles ---- */

void vc_structured_forget_role(struct vc_ctx *ctx, struct vc_stated_role *role)
{
    vc_free(ctx, role->params);
    vc_graph_close(role->graph);
    *role = (struct vc_stated_role){.known = false};
}

/* Groups of one size are many: the graph is built once for all that come one after the other. */
static enum vc_status prepare(struct vc_ctx *ctx, struct vc_stated_role *role, const struct vc_plan *plan,
                              const struct vc_structured *s, enum vc_edit_key key, uint64_t n)
{
    const struct vc_edit twice = {.key = key, .before = n, .after = 2 * n};

    if (role->known && role->key == key && role->n == n) {
        return VC_OK;
    }
    vc_structured_forget_role(ctx, role);
    VC_CALL(try_stated(ctx, plan, &twice, 1, &s->program, &role->graph));
    if (role->graph != NULL) {
        VC_CALL(list_params(ctx, plan, role->graph, &role->params));
    }
    role->known = true;
    role->key = key;
    role->n = n;
    return VC_OK;
}

/* A part of the name between dots is a number: it is of a layer of a list. */
static bool is_numbered(const char *name)
{
    const char *at = name;

    while (at != NULL) {
        size_t n = strspn(at, "0123456789");

        if (n != 0 && (at[n] == '.' || at[n] == '\0')) {
            return true;
        }
        at = strchr(at, '.');
        at = at != NULL ? at + 1 : NULL;
    }
    return false;
}

/* Of a family that is not known: layers are numbered, and what has no number (a pooler, a head) is not a layer. */
static bool may_be_layer(const struct vc_plan *plan, const struct vc_coupling *c)
{
    bool layers = false;

    for (size_t i = 0; i < c->n_members; i++) {
        if (c->members[i].makes && is_numbered(c->members[i].tensor)) {
            return true;
        }
    }
    for (size_t i = 0; i < plan->model->n_tensors && !layers; i++) {
        layers = is_numbered(plan->model->tensors[i].name);
    }
    return !layers;
}

enum vc_status vc_structured_has_role(struct vc_ctx *ctx, const struct vc_structured *s, struct vc_stated_role *role,
                                      const struct vc_plan *plan, const struct vc_removal_group *group, bool *has)
{
    const struct vc_coupling *c = group->coupling;

    *has = true;
    if (c->unit != VC_UNIT_NEURONS && c->unit != VC_UNIT_HIDDEN) { /* of attention and of experts there is one kind */
        return VC_OK;
    }
    VC_CALL(prepare(ctx, role, plan, s, group->key, c->n_units / group->times));
    if (role->graph == NULL) {
        *has = c->unit == VC_UNIT_HIDDEN || may_be_layer(plan, c);
        return VC_OK;
    }
    for (size_t i = 0; i < c->n_members && *has; i++) {
        const struct vc_coupling_member *m = &c->members[i];
        const struct vc_graph_param *param = m->index < plan->n_items ? role->params[m->index] : NULL;

        *has = m->whole || param == NULL || m->axis >= param->n_dims ||
               param->shape[m->axis] != plan->items[m->index].desc->shape[m->axis];
    }
    return VC_OK;
}

/* ---- what will be written ---- */

static enum vc_status refuse_shape(struct vc_ctx *ctx, const struct vc_structured *s, const struct vc_plan *plan,
                                   const struct vc_graph_param *param, const struct vc_desc *desc)
{
    char texts[2][24 * VC_MAX_DIMS];

    return vc_fail(ctx, VC_E_UNSUPPORTED,
                   "%s: would have the shape [%s], and by what %s would state it has to have [%s]; %s keeps its group, "
                   "%s plain writes the new shapes all the same, and leaves the configuration as it is",
                   param->tensor, vc_shape_text(desc->shape, desc->n_dims, texts[0], sizeof texts[0]),
                   s->program.kind == VC_PROGRAM_CONFIG ? "config.json" : "the metadata",
                   vc_shape_text(param->shape, param->n_dims, texts[1], sizeof texts[1]),
                   vc_option(ctx, "include=false"), vc_option(ctx, "layout"));
}

/* The parameter has exactly this shape. */
static bool fits(const struct vc_graph_param *param, const uint64_t *shape, unsigned n_dims)
{
    return param->n_dims == n_dims && memcmp(param->shape, shape, n_dims * sizeof *shape) == 0;
}

/* A parameter whose tensor has the stated shape before, and will not have it. before: of each tensor. */
static const struct vc_graph_param *find_misfit(const struct vc_plan *plan, const struct vc_graph_param *const *before,
                                                const struct vc_graph *after)
{
    for (uint32_t k = 0; k < vc_graph_param_count(after); k++) {
        const struct vc_graph_param *is = vc_graph_param(after, k);
        const struct vc_item *item = is->index < plan->n_items ? &plan->items[is->index] : NULL;
        const struct vc_graph_param *was = item != NULL ? before[is->index] : NULL;

        if (was != NULL && !item->dropped && !item->tied && fits(was, item->first->shape, item->first->n_dims) &&
            !fits(is, item->desc->shape, item->desc->n_dims)) {
            return is;
        }
    }
    return NULL;
}

enum vc_status vc_structured_check_stated(struct vc_ctx *ctx, const struct vc_structured *s, const struct vc_plan *plan)
{
    VC_SCOPED const struct vc_graph_param **params = NULL;
    VC_SCOPED_GRAPH struct vc_graph *before = NULL;
    VC_SCOPED_GRAPH struct vc_graph *after = NULL;
    struct vc_program program;

    VC_CALL(vc_model_program(ctx, plan->model, plan->arena, &program));
    VC_CALL(try_stated(ctx, plan, NULL, 0, &program, &before));
    if (before == NULL) {
        VC_CALL(vc_structured_check_follow(ctx, s, plan));
        return VC_OK;
    }
    VC_CALL(list_params(ctx, plan, before, &params));
    VC_CALL(build_stated(ctx, plan, plan->edits, plan->n_edits, program, &after));
    const struct vc_graph_param *misfit = find_misfit(plan, params, after);
    if (misfit != NULL) {
        return refuse_shape(ctx, s, plan, misfit, plan->items[misfit->index].desc);
    }
    return VC_OK;
}
