/* trained.c - see trained.h. */
#include "distill/trained.h"

#include <math.h>
#include <string.h>

#include "kernels/arith.h"

struct trained {
    struct vc_pass pass;
    const struct vc_weights *weights;
    bool statistics;
};

/* ---- values in the type of a file ---- */

static bool is_plain(enum vc_dtype dtype)
{
    return dtype == VC_DTYPE_F64 || dtype == VC_DTYPE_F32 || dtype == VC_DTYPE_F16 || dtype == VC_DTYPE_BF16;
}

/* Elements first .. first + n - 1 of an entry. */
static void convert(const struct vc_weight *item, bool f64, uint64_t first, size_t n, enum vc_dtype dtype, void *to)
{
    for (size_t i = 0; i < n; i++) {
        double x = f64 ? ((const double *)item->data)[first + i] : (double)((const float *)item->data)[first + i];

        switch (dtype) {
        case VC_DTYPE_F64:
            ((double *)to)[i] = x;
            break;
        case VC_DTYPE_F32:
            ((float *)to)[i] = (float)x;
            break;
        case VC_DTYPE_F16:
            ((uint16_t *)to)[i] = vc_f64_to_f16(x);
            break;
        default:
            ((uint16_t *)to)[i] = vc_f64_to_bf16(x);
            break;
        }
    }
}

static double rounded(enum vc_dtype dtype, double x)
{
    return dtype == VC_DTYPE_F32   ? (double)(float)x
           : dtype == VC_DTYPE_F16 ? (double)vc_f16_to_f32(vc_f64_to_f16(x))
                                   : (double)vc_bf16_to_f32(vc_f64_to_bf16(x));
}

enum vc_status vc_weights_check(struct vc_ctx *ctx, const struct vc_weights *weights, const struct vc_model *model)
{
    for (size_t k = 0; k < weights->n; k++) {
        const struct vc_weight *item = &weights->items[k];
        size_t tensor = vc_model_find(model, item->name);
        const struct vc_tensor *t = tensor != VC_NO_TENSOR ? &model->tensors[tensor] : NULL;

        if (item->trained && (t == NULL || t->quant != NULL || !is_plain(t->dtype))) {
            return vc_fail(ctx, VC_E_UNSUPPORTED,
                           t == NULL ? "%s: there is no tensor %s, which the graph computes with"
                                     : "%s: %s is quantized; only plain floats are trained (vcompress dequantize makes "
                                       "floats of it, %s leaves it as it is)",
                           model->path, item->name, vc_option(ctx, "freeze"));
        }
    }
    return VC_OK;
}

static bool is_changed(const struct vc_weight *item, bool statistics)
{
    return item->trained || (statistics && item->statistic);
}

enum vc_status vc_weights_round(struct vc_ctx *ctx, const struct vc_weights *weights, const struct vc_model *model,
                                bool statistics)
{
    bool f64 = weights->precision == VC_GRAPH_F64;

    for (size_t k = 0; k < weights->n; k++) {
        const struct vc_weight *item = &weights->items[k];
        size_t tensor = vc_model_find(model, item->name);
        enum vc_dtype dtype;

        if (!is_changed(item, statistics) || tensor == VC_NO_TENSOR) {
            continue;
        }
        dtype = model->tensors[tensor].dtype;
        for (uint64_t i = 0; dtype != VC_DTYPE_F64 && i < item->n; i++) {
            double x = f64 ? ((double *)item->data)[i] : (double)((float *)item->data)[i];
            double y = rounded(dtype, x);

            if (!isfinite(y)) {
                return vc_fail(ctx, VC_E_UNSUPPORTED, "%s: a trained weight is %g, beyond the largest %s of its file",
                               item->name, x, vc_dtype_name(dtype));
            }
            if (f64) {
                ((double *)item->data)[i] = y;
            } else {
                ((float *)item->data)[i] = (float)y;
            }
        }
    }
    return VC_OK;
}

/* ---- the pass ---- */

static enum vc_status trained_apply(struct vc_ctx *ctx, struct vc_step *step, const struct vc_item *item,
                                    const struct vc_tile *tile, const struct vc_tile_in *in, void *scratch,
                                    struct vc_tile_out *out)
{
    const struct trained *t = step->pass->self;

    (void)ctx;
    (void)item;
    (void)in;
    (void)scratch;
    convert(step->state, t->weights->precision == VC_GRAPH_F64, tile->first, tile->n_elems, step->out.dtype, out->data);
    return VC_OK;
}

static const struct vc_step_ops trained_step_ops = {.apply = trained_apply};

static struct vc_weight *find_entry(const struct trained *t, const char *name)
{
    for (size_t k = 0; k < t->weights->n; k++) {
        if (strcmp(t->weights->items[k].name, name) == 0) {
            return &t->weights->items[k];
        }
    }
    return NULL;
}

static enum vc_status trained_plan(struct vc_ctx *ctx, struct vc_pass *pass, struct vc_item *item)
{
    const struct trained *t = pass->self;
    struct vc_weight *weight = find_entry(t, item->set->model->tensors[item->source].name);
    struct vc_step *step;

    if (weight == NULL) {
        return vc_item_keep_as(ctx, item, "not in the graph");
    }
    if (!is_changed(weight, t->statistics)) {
        return vc_item_keep_as(ctx, item, weight->statistic ? "statistics, frozen" : "not trained");
    }
    step = vc_item_add_step(ctx, item, &trained_step_ops);
    if (step == NULL) {
        return VC_E_NOMEM;
    }
    step->state = weight;
    step->action = VC_ACTION_TRAINED;
    step->scheme = weight->statistic ? "statistics" : "trained";
    vc_item_replan(item);
    return VC_OK;
}

static void trained_free(struct vc_ctx *ctx, struct vc_pass *pass)
{
    vc_free(ctx, pass->self);
}

static const struct vc_pass_ops trained_ops = {.name = "distill", .plan = trained_plan, .free = trained_free};

enum vc_status vc_job_add_trained(struct vc_ctx *ctx, struct vc_job *job, const struct vc_weights *weights,
                                  bool statistics, const char *command, const struct vc_recipe_entry *recipe,
                                  size_t n_recipe)
{
    struct trained *t = vc_calloc_array(ctx, VC_TAG_MISC, 1, sizeof *t);

    if (t == NULL) {
        return VC_E_NOMEM;
    }
    t->weights = weights;
    t->statistics = statistics;
    t->pass.ops = &trained_ops;
    t->pass.self = t;
    t->pass.command = command;
    t->pass.recipe = recipe;
    t->pass.n_recipe = n_recipe;
    return vc_job_add_pass(ctx, job, &t->pass);
}
