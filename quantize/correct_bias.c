/* correct_bias.c - see correct_bias.h. group_codes.c measures (W - W') mu, a sum for each row, while the job is
 * planned. */
#include "quantize/correct_bias.h"

#include "core/model/program.h"
#include "passes/measure_tile.h"
#include "passes/select.h"
#include "quantize/rest.h"
#include "quantize/schemes/group_codes.h"

/* A sum that is 0 leaves every bit of the bias, also of a -0 or a NaN. */
static enum vc_status correct_apply(struct vc_ctx *ctx, struct vc_step *step, const struct vc_item *item,
                                    const struct vc_tile *tile, const struct vc_tile_in *in, void *scratch,
                                    struct vc_tile_out *out)
{
    const double *lost = step->state;

    memcpy(out->data, in->data, (size_t)vc_dtype_bytes(step->in.dtype, tile->n_elems));
    for (size_t i = 0; i < tile->n_elems; i++) {
        float b = vc_load_float(step->in.dtype, in->data, i);

        if (lost[tile->first + i] != 0.0) {
            (void)vc_store_float(step->in.dtype, (float)((double)b + lost[tile->first + i]), b, out->data, i);
        }
    }
    return VC_OK;
}

static const struct vc_step_ops correct_ops = {.apply = correct_apply};

/* A bias here is corrected by what its weight loses, wherever that lies. The statistics would serve, but the weights
 * cannot be read. */
static enum vc_status check_absent(struct vc_ctx *ctx, const struct vc_plan *plan)
{
    static const char bias[] = ".bias";
    static const char weight[] = ".weight";
    char name[512];

    for (size_t i = 0; plan->model->absent != NULL && i < plan->n_items; i++) {
        const char *own = plan->model->tensors[i].name;
        int n = (int)strlen(own) - (int)(sizeof bias - 1);

        VC_REFUSE_IF(!plan->items[i].in_other_shard && n >= 0 && strcmp(own + n, bias) == 0 &&
                         (size_t)snprintf(name, sizeof name, "%.*s%s", n, own, weight) < sizeof name &&
                         vc_model_absent(plan->model, name) != NULL,
                     ctx, VC_E_UNSUPPORTED,
                     "%s: %s corrects it by the error of %s, which lies in %s, and that file is not there: put it "
                     "beside this one",
                     own, vc_option(ctx, "calibration"), name, vc_model_absent(plan->model, name));
    }
    return VC_OK;
}

/* Whether the weight and the bias are of one layer alone. Exporters of ONNX give layers whose biases are equal one
 * tensor; other programs name no tensors of layers. */
static bool of_one_layer(const struct vc_plan *plan, const struct vc_program *program, size_t weight, size_t bias)
{
    size_t n_uses = 0;
    bool together = false;

    for (size_t i = 0; i < plan->n_items; i++) {
        size_t first = plan->model->tensors[i].alias_of;

        if (first == weight || first == bias) {
            return false;
        }
    }
    for (size_t k = 0; k < program->n_nodes; k++) {
        const struct vc_program_node *node = &program->nodes[k];
        bool has_weight = false;
        size_t n = 0;

        for (size_t i = 0; i < node->n_inputs; i++) {
            has_weight = has_weight || strcmp(node->inputs[i], plan->model->tensors[weight].name) == 0;
            n += strcmp(node->inputs[i], plan->model->tensors[bias].name) == 0;
        }
        n_uses += n;
        together = together || (has_weight && n == 1);
    }
    return program->kind != VC_PROGRAM_NODES || (together && n_uses == 1);
}

/* A cast that was planned for the bias is taken back and follows the correction, so that there is one rounding. A rule
 * that excludes the bias holds. */
enum vc_status vc_correct_biases(struct vc_ctx *ctx, struct vc_plan *plan, const struct vc_quantize_options *options,
                                 const struct vc_scheme_row *rest)
{
    struct vc_program program = {.kind = VC_PROGRAM_NONE};
    const char *glob = NULL;

    if (options->calibration != NULL) {
        VC_CALL(check_absent(ctx, plan));
        VC_CALL(vc_model_program(ctx, plan->model, plan->arena, &program));
    }
    for (size_t i = 0; options->calibration != NULL && i < plan->n_items; i++) {
        struct vc_item *weight = vc_plan_item(plan, i);
        size_t index = VC_NO_TENSOR;

        if (weight != NULL) {
            VC_CALL(vc_group_codes_bias(ctx, weight, &index));
        }
        struct vc_item *bias = index != VC_NO_TENSOR ? vc_plan_item(plan, index) : NULL;
        if (bias == NULL || bias->desc->quant != NULL || !of_one_layer(plan, &program, i, index) ||
            vc_rules_choose(options->rules, options->n_rules, plan->model->tensors[index].name, &glob) ==
                VC_CHOICE_EXCLUDE) {
            continue;
        }
        bool casts = bias->chain->n_steps > bias->chain->pass_first;
        vc_item_undo(ctx, bias);
        struct vc_step *step = vc_item_add_step(ctx, bias, &correct_ops);
        VC_CALL_ALLOC(step);
        step->action = VC_ACTION_REFITTED;
        step->scheme = "bias correction";
        VC_CALL_ALLOC(step->state = vc_group_codes_measure(ctx, weight, plan->dry_plan));
        vc_item_replan(bias);
        if (casts && rest != NULL) {
            VC_CALL(vc_rest_add(ctx, bias, rest, options));
        }
    }
    return VC_OK;
}
