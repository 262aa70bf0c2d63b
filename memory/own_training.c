/* own_training.c - what training takes in vcompress itself (distill): not a model of another program, but the plan of
 * engine/, made as a run makes it and thrown away. So the figures are those that distill --dry-run tells, to the byte.
 *
 *     parameters, gradients    the two blocks of the weights
 *     optimizer                the block of its states
 *     inputs, activations,     the arena of the program that trains: inputs; what lives between the forward and the
 *     transient                backward pass; the rest
 *
 * All of it is taken before the first step and given back behind the last one, so all moments but the first are one. */
#include "engine/engine.h"
#include "engine/state_bytes.h"
#include "memory/by_layer.h"

/* What this trainer has not, or has by itself. */
static enum vc_status check(struct vc_estimate *e)
{
    const struct vc_memory_options *o = &e->options;
    const struct {
        const char *name;
        bool asked;
    } foreign[] = {
        {"mode", o->mode != VC_MEMORY_TRAIN},
        {"amp", o->amp != VC_AMP_NONE},
        {"attention", o->attention != VC_ATTENTION_AUTO},
        {"recompute", o->recompute == VC_RECOMPUTE_SELECTIVE},
        {"optimizer", o->optimizer == VC_OPTIMIZER_ADAFACTOR},
        {"scheme", e->coded},
        {"dp", o->dp > 1},
        {"tp", o->tp > 1},
        {"pp", o->pp > 1},
        {"offload", o->offload != VC_OFFLOAD_NONE},
        {"lora_rank", o->lora_rank != 0},
        {"gradients", o->gradients != VC_DTYPE_NONE},
        {"dropout", o->dropout != VC_DROPOUT_STATED},
        {"in_place", o->in_place},
        {"reuse", !o->reuse},
        {"im2col_images", o->im2col_images != 0},
    };

    for (size_t k = 0; k < sizeof foreign / sizeof foreign[0]; k++) {
        VC_REFUSE_IF(foreign[k].asked, e->ctx, VC_E_ARGUMENT, "%s: not with the trainer vcompress, which %s",
                     vc_option(e->ctx, foreign[k].name),
                     k == 0 ? "only trains; a dry run of vc_distill tells what a teacher takes, too"
                            : "does not do that, or decides it itself");
    }
    return VC_OK;
}

/* Weights and states are floats of 32 bits unless f64 is asked for; types of 16 bits round values (distill
 * --precision). */
static struct vc_engine_options options_of(const struct vc_estimate *e)
{
    const struct vc_memory_options *o = &e->options;

    return (struct vc_engine_options){.train = true,
                                      .dropout = true,
                                      .n_outputs = 1,
                                      .rounding = o->weights == VC_DTYPE_BF16  ? VC_UNARY_ROUND_BF16
                                                  : o->weights == VC_DTYPE_F16 ? VC_UNARY_ROUND_F16
                                                                               : VC_UNARY_COPY,
                                      .recompute = o->recompute,
                                      .recompute_every = o->recompute_every,
                                      .plan_only = true};
}

/* The component is known to the byte. */
static void set(struct vc_estimate *e, enum vc_memory_kind kind, uint64_t bytes)
{
    e->out->components[kind] = (struct vc_memory_part){bytes, VC_KNOWN_EXACT};
}

/* The inputs of one batch. */
static uint64_t input_bytes(const struct vc_engine *engine, enum vc_graph_precision precision)
{
    uint64_t bytes = 0;

    for (size_t k = 0; k < vc_engine_input_count(engine); k++) {
        const struct vc_engine_value *input = vc_engine_input(engine, k);

        bytes += input->n * (input->integers ? sizeof(int64_t) : vc_real_bytes(precision));
    }
    return bytes;
}

/* Figures of the plan, in the components that other programs have. */
static void tell(struct vc_estimate *e, const struct vc_weights *weights, const struct vc_engine *engine)
{
    struct vc_memory_report *out = e->out;
    uint64_t arena = vc_engine_bytes(engine);
    uint64_t inputs = vc_min_u64(arena, input_bytes(engine, weights->precision));
    uint64_t kept = vc_min_u64(arena, vc_engine_kept_bytes(engine));
    uint64_t all = 0;

    for (size_t k = 0; k < weights->n; k++) {
        const struct vc_weight *item = &weights->items[k];
        uint64_t n = item->statistic || item->integers ? 0 : item->n;

        out->n_params += n;
        out->n_trained += item->trained ? item->n : 0;
        vc_layers_add_tensor(e, item->name, VC_LAYER_PARAMS, n);
        vc_layers_add_tensor(e, item->name, VC_LAYER_WEIGHTS,
                             item->n * (item->integers ? sizeof(int64_t) : vc_real_bytes(weights->precision)));
    }
    kept = vc_max_u64(kept, inputs);
    set(e, VC_MEMORY_PARAMETERS, weights->data_bytes);
    set(e, VC_MEMORY_GRADIENTS, weights->grad_bytes);
    set(e, VC_MEMORY_OPTIMIZER, vc_weights_state_bytes(weights, e->options.optimizer));
    set(e, VC_MEMORY_INPUTS, inputs);
    set(e, VC_MEMORY_ACTIVATIONS, kept - inputs);
    set(e, VC_MEMORY_TRANSIENT, arena - kept);
    out->stages[0].in_flight = 1;
    out->arena_bytes = arena;
    out->arena_least = vc_engine_least_bytes(engine);
    vc_engine_recomputed(engine, &out->recomputed, &out->n_forward);
    for (enum vc_memory_kind k = VC_MEMORY_PARAMETERS; k <= VC_MEMORY_TRANSIENT; k++) {
        all = vc_estimate_sum(e, all, out->components[k].bytes);
    }
    for (enum vc_moment m = VC_MOMENT_FORWARD; m < VC_MOMENTS; m++) {
        out->moments[m] = (struct vc_memory_part){all, VC_KNOWN_EXACT};
    }
    out->moments[VC_MOMENT_LOAD] = (struct vc_memory_part){weights->data_bytes, VC_KNOWN_EXACT};
    out->eager = out->moments[VC_MOMENT_PEAK];
}

/* What the budget leaves for the arena. */
static uint64_t budget_of(const struct vc_estimate *e, const struct vc_weights *weights)
{
    uint64_t taken = weights->data_bytes + weights->grad_bytes + vc_weights_state_bytes(weights, e->options.optimizer);

    return e->options.budget_bytes - vc_min_u64(e->options.budget_bytes, taken);
}

/* Makes the weights without their values, and the engine's plan, and frees both. */
enum vc_status vc_estimate_own_training(struct vc_estimate *e)
{
    struct vc_engine_options options = options_of(e);
    struct vc_weights *weights = NULL;
    struct vc_engine *engine = NULL;
    uint32_t output = vc_graph_output_count(e->graph) != 0 ? vc_graph_output(e->graph, 0) : VC_NO_VALUE;
    enum vc_status status = VC_OK;

    VC_CALL(check(e));
    VC_REFUSE_IF(output == VC_NO_VALUE, e->ctx, VC_E_UNSUPPORTED,
                 "the graph has no output that training could begin at");
    VC_TRY(vc_weights_make(e->ctx, e->graph, e->options.weights == VC_DTYPE_F64 ? VC_GRAPH_F64 : VC_GRAPH_F32, true,
                           NULL, &weights));
    VC_TRY(vc_weights_leave_unread(weights, &output, 1));
    options.budget_bytes = budget_of(e, weights);
    VC_TRY(vc_engine_make(e->ctx, e->graph, weights, &options, &engine));
    tell(e, weights, engine);
    if (e->options.recompute == VC_RECOMPUTE_AUTO) {
        uint64_t peak = e->out->moments[VC_MOMENT_PEAK].bytes;

        e->out->over_budget = peak - vc_min_u64(peak, e->options.budget_bytes);
    }
out:
    vc_engine_free(engine);
    vc_weights_free(weights);
    return status;
}
