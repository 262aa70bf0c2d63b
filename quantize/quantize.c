/* quantize.c - the pass behind `vcompress quantize`: checks the options, chooses the tensors and gives reasons for the
 * others, writes the recipe. What a tensor becomes, and the arithmetic, is in the row of a scheme (schemes.h).
 *
 * The order in which a plan goes:
 *
 *     plan_begin    what the output's dialect leaves open is settled; the row of the scheme; an aim's candidates; s of
 *                   smoothing; norms to fold
 *     plan          for each tensor: it stays, with a reason; or the steps of its scheme, its block type, or a probe
 *     plan_end      notes; biases that take what rounding loses
 *     decide        after each round of calibration: policies, global scales, and an aim's choice
 *
 * and for one tensor:
 *
 *     choose        possible at all? -> what rules say -> what is worth it -> what the loader finds
 *     plan_rest     of one that stays: a cast, with --rest */

#include "arch/arch_pictures.h"
#include "core/base/option_struct.h"
#include "core/job/job_passes.h"
#include "core/model/code_schemes.h"
#include "passes/decode.h"
#include "passes/select.h"
#include "quantize/activations/activations.h"
#include "quantize/aim.h"
#include "quantize/correct_bias.h"
#include "quantize/mixture.h"
#include "quantize/rest.h"
#include "quantize/schemes/encode_blocks.h"
#include "quantize/schemes/group_codes.h"
#include "quantize/schemes/int8.h"
#include "quantize/smooth.h"

/* Entries of the longest recipe; reasons of tensors without codes that are told apart (more of them share the last
 * place). */
#define MAX_RECIPE  18
#define MAX_REASONS 4

/* The pass. Members that are "of this plan" are set again by plan_begin: a job may be planned again for another
 * output. */
struct quantize {
    struct vc_pass pass;
    struct vc_arena arena;
    struct vc_quantize_options options;
    const struct vc_scheme_row *scheme; /* of this plan */
    const struct vc_scheme_row *rest;   /* for what it leaves; NULL: that stays */
    const struct vc_mixture *mixture;   /* VC_TARGET_GGUF; else NULL */
    struct vc_mixture_plan types;       /* ... of this plan */
    struct vc_aim aim;                  /* chooses what the scheme of this plan only selects the tensors for */
    struct vc_activations activations;  /* VC_ACTIVATIONS_STATIC: of this plan */
    struct {
        const char *reason;
        uint64_t bytes;
    } without[MAX_REASONS];   /* of this plan: weights that loaders would find no codes of, by reason */
    struct vc_rest_left left; /* of this plan */
    struct vc_recipe_entry recipe[MAX_RECIPE];
    const char *full_command, *short_command; /* with the granularity, and without */
    enum vc_granularity usual_granularity;    /* where the dialect of the output does not decide ... */
    uint64_t usual_group;                     /* ... and the size of its groups */
    uint64_t settled_group;                   /* of this plan, before rows that it does not divide made it smaller */
    const struct vc_tensor *asked;            /* about which skip_of was asked last: its answer */
    const char *skip;
    struct vc_folded_norm *folded;  /* of this plan */
    struct vc_smooth_fold **smooth; /* of this plan; NULL: not asked for */
    const char *smoothed;
    const char *measured; /* of this plan: the note of vc_calibration_check */
    const char *few;      /* why most small tensors stay: "fewer than 4096 elements" */
};

/* ---- which tensors ---- */

/* Elements of one index of the channel axis. */
static uint64_t row_length(const struct vc_desc *desc, int axis)
{
    unsigned d = (unsigned)(axis < 0 ? axis + (int)desc->n_dims : axis);

    return desc->shape[d] == 0 ? 0 : desc->n_elems / desc->shape[d];
}

/* Whether the tensor has that axis. Negative numbers count from the last one. */
static bool axis_fits(const struct vc_desc *desc, int axis)
{
    return axis < 0 ? -axis <= (int)desc->n_dims : axis < (int)desc->n_dims;
}

/* Codes or blocks that stand for floats. */
static bool is_quantized(const struct vc_desc *desc)
{
    return desc->quant != NULL || vc_dtype_is_quantized(desc->dtype);
}

/* What becomes of a tensor, as far as rules, shapes and loaders decide. */
enum fate {
    KEPT,
    NO_CODES, /* kept, but only because loaders would not find codes */
    WORK
};

/* Whether the pass is for the item (vc_quantize_options.only): INCLUDE says that the item was named. */
static enum vc_choice only_of(const struct quantize *q, const struct vc_item *item)
{
    const struct vc_quantize_options *o = &q->options;
    const char *glob = NULL;
    enum vc_choice choice = VC_CHOICE_DEFAULT;

    if (o->n_only == 0 || item->desc->n_dims < 2) {
        return VC_CHOICE_DEFAULT;
    }
    choice = vc_rules_choose(o->only, o->n_only, item->set->model->tensors[item->source].name, &glob);
    return choice == VC_CHOICE_DEFAULT && o->only[0].include ? VC_CHOICE_EXCLUDE : choice;
}

/* What the user's rules say of the item; *glob is the rule's, NULL where the pass is for other tensors. */
static enum vc_choice choice_of(const struct quantize *q, const struct vc_item *item, const char **glob)
{
    *glob = NULL;
    if (only_of(q, item) == VC_CHOICE_EXCLUDE) {
        return VC_CHOICE_EXCLUDE;
    }
    return vc_rules_choose(q->options.rules, q->options.n_rules, item->set->model->tensors[item->source].name, glob);
}

/* Keeps tensors that cannot be quantized, whatever the rules say; *kept tells that this one is. These are layouts that
 * are not understood, types that cannot be decoded, no elements, no axis to lay blocks along, and what has the type
 * already. Blocks of that type stay with `requantize`; without it quantize_plan refuses them. */
static enum vc_status check_possible(struct vc_ctx *ctx, const struct quantize *q, struct vc_item *item, bool *kept)
{
    const struct vc_quantize_options *o = &q->options;
    const struct vc_desc *desc = item->desc;
    bool per_channel = q->scheme->codes && o->granularity == VC_GRANULARITY_CHANNEL;
    int axis = vc_int8_axis(vc_scheme_of_target(o->target), o, item);

    *kept = true;
    if (item->set->model->tensors[item->source].undecoded != NULL) {
        return vc_item_keep_as(ctx, item, VC_SKIP_QUANTIZED);
    }
    if (vc_decode_is_f8(desc) && !o->requantize) {
        return vc_item_keep(ctx, item, "%s (%s decodes it)", vc_dtype_name(desc->dtype), vc_option(ctx, "requantize"));
    }
    if (!vc_decode_can(desc) && !vc_decode_is_f8(desc)) {
        return vc_item_keep_as(ctx, item, desc->dtype == VC_DTYPE_RAW ? "no array" : vc_dtype_name(desc->dtype));
    }
    if (desc->n_elems == 0) {
        return vc_item_keep_as(ctx, item, "empty");
    }
    if (q->mixture != NULL && desc->n_dims == 0) { /* blocks lie along the last axis */
        return vc_item_keep_as(ctx, item, "0-D");
    }
    if (desc->quant == NULL && desc->dtype == q->scheme->result && (o->requantize || !is_quantized(desc)) &&
        !(q->scheme->codes && vc_decode_is_f8(desc))) {
        return vc_item_keep(ctx, item, "%s already", vc_dtype_name(desc->dtype));
    }
    if (per_channel && desc->n_dims >= 2 && !axis_fits(desc, axis)) {
        return vc_item_keep(ctx, item, "no axis %d", axis);
    }
    *kept = false;
    return VC_OK;
}

/* vc_keep_reason, which compares the name with many patterns and is asked twice about most tensors: the last answer is
 * kept. */
static const char *skip_of(struct quantize *q, const struct vc_tensor *t)
{
    if (q->asked != t) {
        q->asked = t;
        q->skip = vc_keep_reason(t);
    }
    return q->skip;
}

/* Keeps tensors that are not worth it or better left alone, where no rule asks for them. In this order: vectors; what
 * the name speaks against (embeddings, heads, routers, tables); few elements; short rows, whose scales would take a
 * large part of what the codes save. A tensor that options.only names skips all but the first. */
static enum vc_status check_default(struct vc_ctx *ctx, struct quantize *q, struct vc_item *item, bool *kept)
{
    const struct vc_quantize_options *o = &q->options;
    const struct vc_desc *desc = item->desc;
    int own_axis = vc_int8_axis(vc_scheme_of_target(o->target), o, item);
    int axis = axis_fits(desc, own_axis) ? own_axis : 0;
    const struct vc_tensor *t;

    (void)vc_model_of(item->set->model, item->source, &t);
    const char *skip = skip_of(q, t);
    *kept = true;
    /* Vectors: norms and biases. */
    if (desc->n_dims < 2) {
        return vc_item_keep(ctx, item, "%u-D", desc->n_dims);
    }
    if (only_of(q, item) == VC_CHOICE_INCLUDE && !vc_is_table(t)) {
        *kept = false;
        return VC_OK;
    }
    if (skip != NULL) {
        return vc_item_keep_as(ctx, item, skip);
    }
    if (desc->n_elems < o->min_elems) {
        return vc_item_keep_as(ctx, item, q->few);
    }
    if (row_length(desc, axis) < o->min_row) {
        return vc_item_keep(ctx, item, "rows shorter than %llu", (unsigned long long)o->min_row);
    }
    *kept = false;
    return VC_OK;
}

/* The item as rows of VC_FOLDED_ROW elements: the same elements in the same order. */
static enum vc_status fold(struct vc_ctx *ctx, struct vc_item *item)
{
    struct vc_desc *desc = vc_arena_alloc(ctx, item->set->arena, sizeof *desc);
    uint64_t *shape = vc_arena_alloc(ctx, item->set->arena, 2 * sizeof *shape);

    VC_CALL_ALLOC(desc);
    VC_CALL_ALLOC(shape);
    VC_REFUSE_IF(
        item->chain->n_steps != 0, ctx, VC_E_UNSUPPORTED,
        "becomes rows of %d in GGUF files, which has to be the first of what is done to it: write the result of "
        "the passes before, and quantize that",
        (int)VC_FOLDED_ROW);
    shape[0] = item->desc->n_elems / VC_FOLDED_ROW;
    shape[1] = VC_FOLDED_ROW;
    *desc = *item->desc;
    desc->n_dims = 2;
    desc->shape = shape;
    item->first = desc;
    vc_item_replan(item);
    return VC_OK;
}

/* Networks that make pictures: both ends stay, and small floats of bf16 become f32, as their readers want them. */
static enum vc_status check_picture(struct vc_ctx *ctx, struct quantize *q, struct vc_item *item, bool *kept)
{
    bool f32;
    const char *why = vc_mixture_keeps_picture(&q->types, item, &f32);

    *kept = why != NULL;
    if (why == NULL) {
        return vc_mixture_folds(&q->types, item) ? fold(ctx, item) : VC_OK;
    }
    if (f32 && item->desc->dtype == VC_DTYPE_BF16) {
        VC_CALL(vc_decode_add(ctx, item, false));
        item->chain->steps[item->chain->n_steps - 1]->why = why;
        return VC_OK;
    }
    return vc_item_keep_as(ctx, item, why);
}

/* Keeps what llama-quantize keeps, where no rule asks for the tensor. Names of other programs are judged as ever. */
static enum vc_status check_mixture(struct vc_ctx *ctx, struct quantize *q, struct vc_item *item, bool *kept)
{
    const struct vc_tensor *own;

    (void)vc_model_of(item->set->model, item->source, &own);
    *kept = true;
    if (q->types.picture != NULL) {
        return check_picture(ctx, q, item, kept);
    }
    if (item->desc->n_dims < 2) {
        return vc_item_keep(ctx, item, "%u-D", item->desc->n_dims);
    }
    if (q->types.foreign && (skip_of(q, own) != NULL)) {
        return vc_item_keep_as(ctx, item, skip_of(q, own));
    }
    if (!q->types.foreign && !vc_mixture_takes(&q->types, item)) {
        return vc_item_keep_as(ctx, item, "llama.cpp keeps its type");
    }
    *kept = false;
    return VC_OK;
}

/* Keeps tensors of which the output's loader would not find the codes; they may still be cast. An aim still tries casts
 * on them; a scheme leaves them to the rest. */
static enum vc_status check_scheme(struct vc_ctx *ctx, const struct quantize *q, struct vc_item *item, bool included,
                                   enum fate *fate)
{
    const struct vc_dialect_request request = vc_scheme_request_for(q->scheme, &q->options, item);
    const struct vc_dialect_tensor tensor = vc_scheme_tensor(item, vc_desc_weight_dtype(item->desc), included);
    const char *reason = q->scheme->codes ? vc_dialect_reason(item->set->dialect, &request, &tensor) : NULL;
    bool known;

    if (q->scheme->of_layers && !included) {
        reason = vc_arch_picture_reason(item->set->model, tensor.name, &known);
    }
    if (reason == NULL && q->scheme->reason != NULL) {
        reason = q->scheme->reason(&q->options, item->desc);
    }
    *fate = reason != NULL ? NO_CODES : WORK;
    return reason != NULL ? vc_item_keep_as(ctx, item, reason) : VC_OK;
}

/* Whether the pass works on the item: what is possible, then the rules, then the defaults, then the loader. */
static enum vc_status choose(struct vc_ctx *ctx, struct quantize *q, struct vc_item *item, enum fate *fate)
{
    const char *glob = NULL;
    enum vc_choice choice = choice_of(q, item, &glob);
    bool kept = false;

    *fate = KEPT;
    VC_CALL(check_possible(ctx, q, item, &kept));
    if (kept) {
        return VC_OK;
    }
    if (choice == VC_CHOICE_EXCLUDE && glob == NULL) { /* what another pass said of it stays */
        return item->reason != NULL ? VC_OK : vc_item_keep_as(ctx, item, "another type by its name");
    }
    if (choice == VC_CHOICE_EXCLUDE) {
        return vc_item_keep(ctx, item, "excluded by '%s'", glob);
    }
    if (choice == VC_CHOICE_DEFAULT) {
        if (q->mixture != NULL) {
            VC_CALL(check_mixture(ctx, q, item, &kept));
        } else {
            VC_CALL(check_default(ctx, q, item, &kept));
        }
    }
    if (!kept) {
        VC_CALL(check_scheme(ctx, q, item, choice == VC_CHOICE_INCLUDE || only_of(q, item) == VC_CHOICE_INCLUDE, fate));
    }
    return VC_OK;
}

/* Block types lie in GGUF files only. The rule that vc_scheme_check applies is that of the dialect; its sentence would
 * speak of codes, so another one takes its place. */
static enum vc_status begin_mixture(struct vc_ctx *ctx, struct quantize *q, const struct vc_plan *plan)
{
    const struct vc_scheme_row *row = vc_scheme_of_target(VC_TARGET_GGUF);

    if (q->scheme == NULL || plan->dialect == NULL || plan->n_targets != 1 ||
        vc_scheme_check(ctx, row, &q->options, plan) != VC_OK) {
        vc_clear_error(ctx);
        return vc_fail(ctx, VC_E_ARGUMENT,
                       "GGUF's block types need an output that is a GGUF file: name one that ends in .gguf");
    }
    q->scheme = row;
    VC_CALL(vc_mixture_read(ctx, &q->arena, plan, q->mixture, q->options.pure, &q->types));
    VC_REFUSE_IF(q->types.picture != NULL && q->mixture->base == VC_DTYPE_NVFP4, ctx, VC_E_UNSUPPORTED,
                 "%s: the programs that read such networks from GGUF files know no number beside the blocks, without "
                 "which they are too coarse; a safetensors file takes nvfp4",
                 q->mixture->name);
    q->types.rules.statistics = q->options.calibration != NULL;
    return VC_OK;
}

/* Whether inputs of products become codes too, by ranges from a file of statistics. */
static bool is_static(const struct quantize *q)
{
    return q->options.activations == VC_ACTIVATIONS_STATIC;
}

/* A scale for the inputs beside the codes of each weight, not nodes in a graph. The dialect names the scheme whose
 * loader reads such a scale. */
static bool scales_inputs(const struct quantize *q, const struct vc_dialect *dialect)
{
    const char *scheme = dialect != NULL ? dialect->input_scales : NULL;

    return is_static(q) && scheme != NULL && strcmp(scheme, vc_scheme_of_target(q->options.target)->name) == 0;
}

/* Nodes go into one graph. Folders have one scale for all inputs of a layer, from the smallest and largest value: what
 * ONNX can choose (smaller codes, ranges without rare values) has no place there. */
static enum vc_status check_target(struct vc_ctx *ctx, const struct quantize *q, const struct vc_plan *plan)
{
    if (scales_inputs(q, plan->dialect)) {
        return q->options.saturation == VC_SATURATION_AUTO && q->options.ranges == VC_RANGES_WHOLE
                   ? VC_OK
                   : vc_fail(ctx, VC_E_UNSUPPORTED,
                             "%s and %s are for ONNX: scales of inputs in folders are of all values",
                             vc_option(ctx, "saturation"), vc_option(ctx, "ranges"));
    }
    return plan->n_targets == 1 && plan->dialect != NULL && plan->dialect->activations &&
                   q->options.target == VC_TARGET_INT8
               ? VC_OK
               : vc_fail(ctx, VC_E_UNSUPPORTED,
                         "codes of activations are for ONNX files (both input and output), as nodes of the graph, and "
                         "for folders with the layout w8a8 or fp8, as a scale of each layer (%s)",
                         vc_option(ctx, "activations"));
}

/* vc_fold_takes. A norm goes into weights that get codes, so that a graph which stays as floats keeps its nodes. */
static enum vc_status takes_weights(struct vc_ctx *ctx, void *self, struct vc_item *item, bool *takes)
{
    struct quantize *q = self;
    const char *glob = NULL;
    enum fate fate = KEPT;

    if (is_static(q)) {
        *takes = choice_of(q, item, &glob) != VC_CHOICE_EXCLUDE;
        return VC_OK;
    }
    VC_CALL(choose(ctx, q, item, &fate));
    *takes = fate == WORK;
    return VC_OK;
}

/* Norms behind products of a stored graph, where codes are made for it. Here the weights alone become codes;
 * vc_activations_begin folds by itself, since it places codes in the folded graph. */
static enum vc_status fold_norms(struct vc_ctx *ctx, struct quantize *q, const struct vc_plan *plan)
{
    struct act_graph graph = {.n_values = 0};
    bool norms = false;
    enum vc_status status = VC_OK;

    for (size_t i = 0; i < plan->n_items; i++) {
        norms = norms || plan->model->tensors[i].use == VC_USE_NORM;
    }
    if (!norms || !q->scheme->codes || plan->dialect == NULL || !plan->dialect->activations) {
        return VC_OK;
    }
    VC_TRY(vc_act_graph_read(ctx, plan->model, &q->arena, &graph));
    VC_TRY(vc_fold_norms(ctx, plan, &graph, &q->arena, takes_weights, q, &q->folded));
out:
    vc_act_graph_release(ctx, &graph);
    return status;
}

static enum vc_status describe(struct vc_ctx *ctx, struct quantize *q);

/* What the user has left to the scheme, the dialect of the output may decide. A job may be planned again for another
 * output, so each plan begins with the scheme's own. */
static enum vc_status settle_granularity(struct vc_ctx *ctx, struct quantize *q, const struct vc_dialect *dialect)
{
    const struct vc_scheme_row *row = vc_scheme_of_target(q->options.target);
    enum vc_granularity granularity = q->usual_granularity;
    uint64_t group = q->usual_group;

    for (size_t i = 0; dialect != NULL && dialect->whole_tensors != NULL && dialect->whole_tensors[i] != NULL; i++) {
        if (row != NULL && granularity == VC_GRANULARITY_CHANNEL && !q->options.granularity_given &&
            strcmp(dialect->whole_tensors[i], row->name) == 0) {
            granularity = VC_GRANULARITY_TENSOR;
        }
    }
    if (row != NULL && row->codes && dialect != NULL && dialect->usual_group != 0 &&
        granularity == VC_GRANULARITY_CHANNEL && !q->options.granularity_given) {
        granularity = VC_GRANULARITY_GROUP;
        group = dialect->usual_group;
    }
    if (granularity == q->options.granularity && group == q->options.group_size) {
        return VC_OK;
    }
    q->options.granularity = granularity;
    q->options.group_size = group;
    q->pass.n_recipe = 0;
    return describe(ctx, q);
}

static enum vc_status quantize_plan_begin(struct vc_ctx *ctx, struct vc_pass *pass, const struct vc_plan *plan)
{
    struct quantize *q = pass->self;

    memset(q->without, 0, sizeof q->without);
    q->left = (struct vc_rest_left){.n_half = 0};
    /* What an earlier plan of this job left. */
    q->asked = NULL;
    q->folded = NULL;
    VC_CALL(settle_granularity(ctx, q, plan->dialect));
    /* Loaders that want one size for all get one that divides all rows. note_groups tells of it. */
    q->settled_group = q->options.group_size;
    if (!q->aim.set && vc_scheme_of_target(q->options.target) != NULL) {
        q->options.group_size = vc_scheme_common_group(vc_scheme_of_target(q->options.target), &q->options, plan);
    }
    VC_CALL(vc_calibration_check(ctx, q->options.calibration, plan->model, q->options.calibration_anyway, plan->arena,
                                 &q->measured));
    /* One target may have several rows, of which the dialect stores one: --int8 is Q8_0 in GGUF. */
    q->scheme = vc_scheme_choose(&q->options, plan->dialect);
    if (q->mixture != NULL) {
        return begin_mixture(ctx, q, plan);
    }
    if (q->scheme == NULL) {
        VC_CALL(vc_scheme_check(ctx, vc_scheme_of_target(q->options.target), &q->options, plan));
        return vc_fail(ctx, VC_E_UNSUPPORTED, "the layout %s has codes of a type that cannot be made yet",
                       plan->dialect->name);
    }
    /* The command in the report, without a granularity where the row has one of its own. */
    pass->command = q->scheme->own_granularity ? q->short_command : q->full_command;
    if (q->scheme->codes) {
        VC_CALL(vc_scheme_check(ctx, q->scheme, &q->options, plan));
    }
    if (q->aim.set) {
        VC_CALL(vc_aim_list_candidates(ctx, &q->aim, &q->options, plan));
    }
    if (is_static(q)) {
        VC_CALL(check_target(ctx, q, plan));
    }
    VC_CALL(vc_smooth_begin(ctx, plan, &q->options, &q->smooth, &q->smoothed));
    if (is_static(q) && !scales_inputs(q, plan->dialect)) {
        VC_CALL(vc_activations_begin(ctx, &q->options, plan, &q->arena, takes_weights, q, &q->activations));
        q->folded = q->activations.folded;
        return VC_OK;
    }
    return fold_norms(ctx, q, plan);
}

/* The sentence for codes and blocks that would be decoded and rounded once more. */
static enum vc_status refuse_again(struct vc_ctx *ctx, const char *what)
{
    return vc_fail(ctx, VC_E_UNSUPPORTED,
                   "is quantized to %s already; quantizing again adds error (%s does it all the same, "
                   "%s keeps it)",
                   what, vc_option(ctx, "requantize"), vc_option(ctx, "include=false"));
}

/* A tensor that is quantized already needs --requantize, unless a rule keeps it. */
static enum vc_status check_quantized(struct vc_ctx *ctx, const struct quantize *q, const struct vc_item *item)
{
    const char *glob = NULL;

    if (item->desc->quant == NULL || q->options.requantize || choice_of(q, item, &glob) == VC_CHOICE_EXCLUDE) {
        return VC_OK;
    }
    return refuse_again(ctx, vc_scheme_name(item->desc->quant->scheme));
}

/* What the pass leaves: a part of the rest, unless a rule excludes it. Without --rest the pass counts what a cast would
 * save, for a note; with it also the tensors that a cast passes over because they have two bytes already. */
static enum vc_status plan_rest(struct vc_ctx *ctx, struct quantize *q, struct vc_item *item)
{
    const struct vc_tensor *own;
    const char *glob = NULL;

    (void)vc_model_of(item->set->model, item->source, &own);
    if (choice_of(q, item, &glob) == VC_CHOICE_EXCLUDE) {
        return VC_OK;
    }
    if (q->rest != NULL && item->desc->quant == NULL && item->desc->dtype != q->rest->result &&
        (item->desc->dtype == VC_DTYPE_F16 || item->desc->dtype == VC_DTYPE_BF16)) {
        q->left.n_half++;
        q->left.half_bytes += 2 * item->desc->n_elems;
    }
    if (!vc_rest_takes(item, skip_of(q, own))) {
        return VC_OK;
    }
    if (q->rest == NULL) {
        q->left.saved_bytes += item->in_other_shard ? 0 : item->desc->n_elems * (vc_dtype_size(item->desc->dtype) - 2);
        return VC_OK;
    }
    return vc_rest_add(ctx, item, q->rest, &q->options);
}

/* The item stays for that reason. The figures are of bytes, so that the note names the reason of most of the model. */
static void count_without(struct quantize *q, const struct vc_item *item)
{
    size_t k = 0;

    while (k < MAX_REASONS - 1 && q->without[k].reason != NULL && strcmp(q->without[k].reason, item->reason) != 0) {
        k++;
    }
    q->without[k].reason = q->without[k].reason != NULL ? q->without[k].reason : item->reason;
    q->without[k].bytes += vc_dtype_bytes(item->desc->dtype, item->desc->n_elems);
}

/* A note where a graph has no place for codes of more than a tenth of the model, with the reason of most of it: only those of int8 have
 * one everywhere. */
static enum vc_status note_without(struct vc_ctx *ctx, struct quantize *q, const struct vc_plan *plan)
{
    uint64_t all = 0;
    uint64_t bytes = 0;
    size_t most = 0;
    const char *note;

    for (size_t k = 0; k < MAX_REASONS; k++) {
        bytes += q->without[k].bytes;
        most = q->without[k].bytes > q->without[most].bytes ? k : most;
    }
    for (size_t i = 0; i < plan->n_items; i++) {
        all += plan->model->tensors[i].size_bytes;
    }
    if (bytes <= all / 10 || plan->dialect == NULL || !plan->dialect->activations) {
        return VC_OK;
    }
    note =
        vc_arena_printf(ctx, &q->arena, "%.0f %% of the model get no codes, most of it because %s; %s has codes for it",
                        100.0 * (double)bytes / (double)all, q->without[most].reason, vc_option(ctx, "target=int8"));
    return note == NULL ? VC_E_NOMEM : vc_note_add(ctx, &q->arena, note, &q->pass.note);
}

/* With an aim: what the item becomes is decided when all candidates were tried on it. A tensor that is codes already is
 * decoded first. Where no candidate makes the tensor smaller, there is no probe, and it belongs to the rest. */
static enum vc_status plan_probe(struct vc_ctx *ctx, struct quantize *q, struct vc_item *item, bool codes)
{
    const char *glob = NULL;
    bool included = choice_of(q, item, &glob) == VC_CHOICE_INCLUDE;

    VC_CALL(vc_scheme_decode(ctx, q->scheme, item));
    VC_CALL(vc_aim_probe_add(ctx, item, &q->aim, codes, included));
    return vc_aim_probe_of(item) == NULL ? plan_rest(ctx, q, item) : VC_OK;
}

/* The step of the item's type; a tensor that has the type already stays as it is. f16 is what a mixture falls back to
 * where no block divides the last axis; it is a cast, not blocks. The report says of such tensors which type they would
 * have had. */
static enum vc_status plan_blocks(struct vc_ctx *ctx, struct quantize *q, struct vc_item *item)
{
    enum vc_dtype fallback;
    enum vc_dtype type = vc_mixture_type(&q->types, item, &fallback);
    enum vc_dtype weights = vc_desc_weight_dtype(item->desc);

    if (item->desc->dtype == type && item->desc->quant == NULL) {
        return vc_item_keep(ctx, item, "%s already", vc_dtype_name(type));
    }
    if (is_quantized(item->desc) && !q->options.requantize) {
        return refuse_again(ctx, vc_dtype_name(item->desc->dtype));
    }
    VC_CALL(vc_scheme_decode(ctx, q->scheme, item));
    if (type == VC_DTYPE_F16 && item->desc->dtype != VC_DTYPE_F16) {
        VC_CALL(vc_scheme_f16.add(ctx, item, &q->options, weights));
    } else if (type != VC_DTYPE_F16) {
        VC_CALL(vc_encode_blocks_add(ctx, item, &q->options, type, vc_mixture_scales(&q->types, item)));
    }
    if (fallback != VC_DTYPE_NONE) {
        const char *why =
            vc_arena_printf(ctx, item->set->arena, "%s does not divide the last axis", vc_dtype_name(fallback));

        VC_CALL_ALLOC(why);
        item->chain->steps[item->chain->n_steps - 1]->why = why;
    }
    return VC_OK;
}

/* One tensor, in the order of the head of this file. With codes of activations in a graph, the layers that
 * vc_activations_begin listed are all there is. Smoothing comes first, also for tensors that stay as floats, such as
 * the gains of norms: what is divided there is multiplied elsewhere. */
static enum vc_status quantize_plan(struct vc_ctx *ctx, struct vc_pass *pass, struct vc_item *item)
{
    struct quantize *q = pass->self;
    enum fate fate = KEPT;
    bool done = false;

    if (is_static(q) && !scales_inputs(q, item->set->dialect)) {
        VC_CALL(vc_activations_add(ctx, &q->activations, item, &done));
        return done ? VC_OK : vc_item_keep_as(ctx, item, "no product on codes reads it");
    }
    if (q->smooth != NULL) {
        VC_CALL(vc_smooth_add(ctx, q->smooth[item->source], item));
    }
    VC_CALL(check_quantized(ctx, q, item));
    VC_CALL(choose(ctx, q, item, &fate));
    if (q->mixture != NULL && fate != KEPT) {
        return plan_blocks(ctx, q, item);
    }
    if (fate == NO_CODES) {
        count_without(q, item);
    }
    if (fate == KEPT || (fate == NO_CODES && !q->aim.set)) {
        return plan_rest(ctx, q, item);
    }
    if (vc_dtype_is_quantized(item->desc->dtype) && !q->options.requantize) { /* those that would be worked on */
        return refuse_again(ctx, vc_dtype_name(item->desc->dtype));
    }
    if (q->aim.set) {
        VC_CALL(plan_probe(ctx, q, item, fate == WORK));
    } else {
        VC_CALL(vc_scheme_add(ctx, q->scheme, item, &q->options));
    }
    if (is_static(q) && item->desc->quant != NULL) {
        VC_CALL(vc_act_set_input_scale(ctx, q->options.calibration, item,
                                       q->smooth != NULL ? vc_smooth_inputs(q->smooth[item->source]) : NULL));
    }
    return VC_OK;
}

/* For the recipe: "output" where the output channels are not on axis 0 of all tensors. */
static void name_axis(struct quantize *q, const struct vc_model *model)
{
    bool differs = false;

    for (size_t i = 0; i < model->n_tensors; i++) {
        differs |= model->tensors[i].channel_axis != 0;
    }
    for (size_t i = 0; differs && q->options.axis == VC_AXIS_OUTPUT && i < q->pass.n_recipe; i++) {
        if (strcmp(q->recipe[i].key, "axis") == 0) {
            q->recipe[i].value = "output";
        }
    }
}

/* Two notes: what a cast of the rest would save, and what --rest leaves as it is. */
static enum vc_status note_rest(struct vc_ctx *ctx, struct quantize *q, const struct vc_plan *plan)
{
    const char *note = NULL;

    VC_CALL(vc_rest_note(ctx, &q->arena, plan, &q->left, q->scheme, &note));
    VC_CALL(vc_note_add(ctx, &q->arena, note, &q->pass.note));
    VC_CALL(vc_rest_note_half(ctx, &q->arena, plan, &q->left, q->options.rest, &note));
    return vc_note_add(ctx, &q->arena, note, &q->pass.note);
}

/* The field of the aim that is set. For sentences, which call it by the option of the program that runs. */
static const char *aim_field(const struct vc_aim *aim)
{
    if (aim->bpw > 0.0) {
        return "aim_bpw";
    }
    if (aim->loss > 0.0) {
        return "aim_loss";
    }
    return aim->budget.file_bytes != 0 ? "aim_bytes" : "aim_sqnr_db";
}

/* What is chosen for one tensor depends on all others, or loaders need to know it of all. Refused with a shard by
 * itself (--shard), and where files of the model are absent. */
static enum vc_status check_all_here(struct vc_ctx *ctx, const struct quantize *q, const struct vc_plan *plan)
{
    size_t i = 0;

    while (i < plan->n_items && !plan->items[i].in_other_shard) {
        i++;
    }
    VC_REFUSE_IF(i < plan->n_items || plan->model->absent != NULL, ctx, VC_E_UNSUPPORTED,
                 "%s needs all weights; it cannot be combined with %s, as a scheme can",
                 vc_option(ctx, aim_field(&q->aim)), vc_option(ctx, "shard"));
    return VC_OK;
}

/* Notes about the names that the pass is for: those of no tensor, and those of tensors that get no scheme. A pattern
 * that names vectors alone matches tensors, and has no effect all the same. */
static enum vc_status note_named(struct vc_ctx *ctx, struct quantize *q, const struct vc_plan *plan)
{
    const char *note = NULL;

    /* rules that exclude speak of other passes */
    for (size_t i = 0; i < q->options.n_only && q->options.only[i].include; i++) {
        bool found = false;

        VC_CALL(vc_rules_unmatched(ctx, &q->arena, &q->options.only[i], 1, plan->model, &note));
        for (size_t k = 0; k < plan->n_items && note == NULL && !found; k++) {
            found = only_of(q, &plan->items[k]) == VC_CHOICE_INCLUDE;
        }
        if (note == NULL && !found) {
            note = vc_arena_printf(ctx, &q->arena, "no tensor of two dimensions is left for '%s'",
                                   q->options.only[i].glob);
            VC_CALL_ALLOC(note);
        }
        VC_CALL(vc_note_add(ctx, &q->arena, note, &q->pass.note));
    }
    return VC_OK;
}

/* A note where rows have smaller groups than those of the options. Loaders get such groups where the dialect wants
 * sizes that divide the rows (vc_scheme_group). */
static enum vc_status note_groups(struct vc_ctx *ctx, struct quantize *q, const struct vc_plan *plan)
{
    uint64_t least = UINT64_MAX;
    uint64_t most = 0;
    size_t n = 0;

    for (size_t i = 0; q->options.granularity == VC_GRANULARITY_GROUP && i < plan->n_items; i++) {
        const struct vc_item *item = &plan->items[i];
        const struct vc_quant *quant = item->desc->quant;
        bool smaller = item->chain->n_steps > item->chain->pass_first && quant != NULL && quant->group_rows == 0 &&
                       quant->granularity == VC_GRANULARITY_GROUP && quant->group_size < q->settled_group;

        n += smaller;
        least = smaller ? vc_min_u64(least, quant->group_size) : least;
        most = smaller ? vc_max_u64(most, quant->group_size) : most;
    }
    if (n == 0) {
        return VC_OK;
    }
    const char *note = vc_arena_printf(
        ctx, &q->arena, "%llu does not divide all rows: %zu %s groups of %llu%s", (unsigned long long)q->settled_group,
        n, n == 1 ? "tensor has" : "tensors have", (unsigned long long)least,
        most == least ? "" : vc_arena_printf(ctx, &q->arena, " to %llu", (unsigned long long)most));
    return note == NULL ? VC_E_NOMEM : vc_note_add(ctx, &q->arena, note, &q->pass.note);
}

/* What needs all tensors of the plan. Notes are in the order in which the report prints them: rules, names, statistics,
 * smoothing, norms; then those of the codes. */
static enum vc_status quantize_plan_end(struct vc_ctx *ctx, struct vc_pass *pass, struct vc_plan *plan)
{
    struct quantize *q = pass->self;
    const char *unmatched = NULL;

    name_axis(q, plan->model);
    pass->note = NULL;
    VC_CALL(vc_rules_unmatched(ctx, &q->arena, q->options.rules, q->options.n_rules, plan->model, &unmatched));
    VC_CALL(vc_note_add(ctx, &q->arena, unmatched, &pass->note));
    VC_CALL(note_named(ctx, q, plan));
    VC_CALL(vc_note_add(ctx, &q->arena, q->measured, &pass->note));
    VC_CALL(vc_note_add(ctx, &q->arena, q->smoothed, &pass->note));
    VC_CALL(vc_fold_norms_finish(ctx, q->folded, plan, &q->arena, &unmatched));
    VC_CALL(vc_note_add(ctx, &q->arena, unmatched, &pass->note));
    if (is_static(q) && !scales_inputs(q, plan->dialect)) {
        VC_CALL(vc_activations_finish(ctx, &q->activations, plan, &q->arena, &unmatched));
        return vc_note_add(ctx, &q->arena, unmatched, &pass->note);
    }
    if (q->aim.set) {
        plan->aim_bytes = q->aim.budget.file_bytes;
        plan->aim_option = q->aim.bpw > 0.0 ? "aim_bpw" : "aim_bytes";
        return check_all_here(ctx, q, plan);
    }
    VC_CALL(note_groups(ctx, q, plan));
    VC_CALL(note_without(ctx, q, plan));
    VC_CALL(vc_correct_biases(ctx, plan, &q->options, q->rest));
    return q->mixture == NULL ? note_rest(ctx, q, plan) : VC_OK;
}

/* ---- the pass ---- */

/* What calibration found that the policy on NaN and Inf is about: under "keep" such tensors stay as they are. Where a
 * step has looked at all values for another reason, "error" refuses here, before anything is written. */
static enum vc_status decide_policies(struct vc_ctx *ctx, struct vc_plan *plan)
{
    for (size_t i = 0; i < plan->n_items; i++) {
        struct vc_item *item = &plan->items[i];
        size_t k = vc_item_is_idle(item) ? item->chain->n_steps : vc_item_calibrate_step(item);

        if (k < item->chain->n_steps && vc_policy_decide(ctx, item->chain->steps[k], item) != VC_OK) {
            return vc_context(ctx, "%s", plan->model->tensors[i].name);
        }
    }
    return VC_OK;
}

/* After a look at all values. Several rounds may follow, of which nvfp4 and biases need one each. An aim decides in the
 * first; steps of the candidates that it chose need no other. */
static enum vc_status quantize_decide(struct vc_ctx *ctx, struct vc_pass *pass, struct vc_plan *plan, size_t round)
{
    struct quantize *q = pass->self;
    const char *note = NULL;

    VC_CALL(decide_policies(ctx, plan));
    VC_CALL(vc_group_codes_decide(ctx, plan));
    if (q->aim.set) {
        VC_CALL(vc_aim_decide(ctx, &q->aim, plan, &q->arena, &note));
        VC_CALL(vc_note_add(ctx, &q->arena, note, &q->pass.note));
        VC_CALL(note_rest(ctx, q, plan));
    }
    return VC_OK;
}

static void quantize_free(struct vc_ctx *ctx, struct vc_pass *pass)
{
    struct quantize *q = pass->self;

    vc_activations_end(ctx, &q->activations);
    vc_arena_release(ctx, &q->arena);
    vc_free(ctx, q);
}

static const struct vc_pass_ops quantize_ops = {.name = "quantize",
                                                .plan_begin = quantize_plan_begin,
                                                .plan = quantize_plan,
                                                .plan_end = quantize_plan_end,
                                                .decide = quantize_decide,
                                                .free = quantize_free};

/* ---- options ---- */

/* Refuses options that do not go together, without a model: what depends on the output is in vc_scheme_check, what
 * depends on a graph in check_target. Sentences call an option by vc_option, the name that the caller knows it by. */
static enum vc_status check_options(struct vc_ctx *ctx, const struct vc_quantize_options *o)
{
    const struct vc_scheme_row *row = vc_scheme_of_target(o->target);
    char names[512];

    if (row == NULL) {
        vc_scheme_list(names, sizeof names);
        return vc_fail(ctx, VC_E_ARGUMENT, "quantize makes %s", names);
    }
    VC_REFUSE_IF((o->target == VC_TARGET_GGUF) != (o->gguf != NULL), ctx, VC_E_ARGUMENT,
                 "%s goes with the target gguf, which needs it", vc_option(ctx, "gguf"));
    if (o->gguf != NULL && vc_mixture_of_name(o->gguf) == NULL) {
        vc_mixture_list(names, sizeof names);
        return vc_fail(ctx, VC_E_ARGUMENT,
                       "no mixture of block types that can be made is called '%s': choose one of %s", o->gguf, names);
    }
    if (o->activations != VC_ACTIVATIONS_NONE) {
        VC_CALL(vc_activations_check(ctx, o));
    }
    VC_REFUSE_IF(o->calibration != NULL && !row->statistics && o->activations == VC_ACTIVATIONS_NONE &&
                     o->smooth == 0.0,
                 ctx, VC_E_ARGUMENT, "%s goes with GGUF's blocks and with codes whose scales are searched, not with %s",
                 vc_option(ctx, "calibration"),
                 o->aim_sqnr_db + o->aim_bpw + o->aim_loss > 0.0 || o->aim_bytes != 0 ? "aims" : row->name);
    VC_REFUSE_IF(o->calibration == NULL && o->calibration_anyway, ctx, VC_E_ARGUMENT, "%s goes with %s",
                 vc_option(ctx, "calibration_anyway"), vc_option(ctx, "calibration"));
    VC_REFUSE_IF(o->smooth != 0.0 &&
                     (!(o->smooth > 0.0 && o->smooth <= 1.0) || o->target != VC_TARGET_INT8 || o->calibration == NULL),
                 ctx, VC_E_ARGUMENT, "%s is above 0 and at most 1, goes with int8, and needs %s",
                 vc_option(ctx, "smooth"), vc_option(ctx, "calibration"));
    VC_REFUSE_IF(o->granularity == VC_GRANULARITY_BLOCK && o->target != VC_TARGET_FP8, ctx, VC_E_ARGUMENT,
                 "fp8 alone has scales that are shared in blocks of rows and columns (%s)",
                 vc_option(ctx, "granularity"));
    VC_REFUSE_IF(o->double_quant && o->target != VC_TARGET_NF4 && o->target != VC_TARGET_FP4, ctx, VC_E_ARGUMENT,
                 "%s goes with nf4 and fp4, whose loader has scales that are codes", vc_option(ctx, "double_quant"));
    /* Which field asks for scales other than those of rows; the sentence names it. */
    if (row->rows_only) {
        const char *field = NULL;

        if (o->asymmetric && !row->zero_points) {
            field = "asymmetric";
        } else if (o->granularity == VC_GRANULARITY_TENSOR && !row->whole_tensors) {
            field = "granularity";
        } else if (o->axis != VC_AXIS_OUTPUT && o->axis != 0) {
            field = "axis";
        }
        VC_REFUSE_IF(field != NULL, ctx, VC_E_ARGUMENT,
                     "%s has %scodes with a scale per row of axis 0 or per group of one%s (%s)", row->name,
                     row->zero_points ? "" : "symmetric ", row->whole_tensors ? ", or one for the tensor" : "",
                     vc_option(ctx, field));
    }
    const struct vc_code_scheme *codes = vc_code_scheme(row->scheme);
    VC_REFUSE_IF(codes != NULL && codes->group != 0 &&
                     (o->granularity != VC_GRANULARITY_GROUP || o->group_size != codes->group),
                 ctx, VC_E_ARGUMENT, "%s has groups of %llu (%s)", row->name, (unsigned long long)codes->group,
                 vc_option(ctx, "granularity"));
    if ((o->granularity == VC_GRANULARITY_GROUP || o->granularity == VC_GRANULARITY_BLOCK) && row->codes) {
        VC_REFUSE_IF(o->group_size == 0 || o->group_size > ((uint64_t)1 << 20), ctx, VC_E_ARGUMENT,
                     "a group has 1 to 1048576 elements, not %llu", (unsigned long long)o->group_size);
        VC_REFUSE_IF(o->axis != 0 && o->axis != VC_AXIS_OUTPUT, ctx, VC_E_ARGUMENT,
                     "groups run along the rows of axis 0; axis %d goes with channels only", o->axis);
    }
    /* What is left is about an axis that the caller gave. */
    if (o->axis == VC_AXIS_OUTPUT) {
        return VC_OK;
    }
    VC_REFUSE_IF(o->granularity == VC_GRANULARITY_TENSOR && row->codes && o->axis != 0, ctx, VC_E_ARGUMENT,
                 "one scale per tensor needs no axis; axis %d goes with channels only", o->axis);
    VC_REFUSE_IF(o->axis < -VC_MAX_DIMS || o->axis >= VC_MAX_DIMS, ctx, VC_E_ARGUMENT,
                 "axis %d: tensors have at most %d dimensions", o->axis, VC_MAX_DIMS);
    return VC_OK;
}

/* "group:128", "block:128", "channel", "tensor". NULL: no memory. */
static const char *granularity_text(struct vc_ctx *ctx, struct quantize *q)
{
    bool block = q->options.granularity == VC_GRANULARITY_BLOCK;

    return block || q->options.granularity == VC_GRANULARITY_GROUP
               ? vc_arena_printf(ctx, &q->arena, "%s:%llu", block ? "block" : "group",
                                 (unsigned long long)q->options.group_size)
               : vc_granularity_name(q->options.granularity);
}

/* An entry of the recipe, which the output carries along. describe counts them from 0 again. */
static void add_entry(struct quantize *q, const char *key, const char *value)
{
    q->recipe[q->pass.n_recipe++] = (struct vc_recipe_entry){key, value};
}

/* The number in the arena; NULL: no memory. */
static const char *decimal(struct vc_ctx *ctx, struct quantize *q, long long value)
{
    return vc_arena_printf(ctx, &q->arena, "%lld", value);
}

/* The name of a file without the way to it. */
static const char *last_part(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash != NULL && slash[1] != '\0' ? slash + 1 : path;
}

/* The aim as the command has it. NULL: no memory. */
static const char *aim_text(struct vc_ctx *ctx, struct quantize *q)
{
    if (!q->aim.set) {
        return "";
    }
    if (q->aim.bpw > 0.0) {
        return vc_arena_printf(ctx, &q->arena, " --aim-bpw %g", q->aim.bpw);
    }
    if (q->aim.loss > 0.0) {
        return vc_arena_printf(ctx, &q->arena, " --aim-loss %g", q->aim.loss);
    }
    if (q->aim.budget.file_bytes == 0) {
        return vc_arena_printf(ctx, &q->arena, " --aim-sqnr %g", q->aim.sqnr_db);
    }
    return vc_arena_printf(ctx, &q->arena, " --aim-bytes %llu", (unsigned long long)q->aim.budget.file_bytes);
}

/* How ranges of activations are chosen, in the words of the option. NULL: no memory. */
static const char *ranges_text(struct vc_ctx *ctx, struct quantize *q)
{
    switch (q->options.ranges) {
    case VC_RANGES_WHOLE:
        return "min-max";
    case VC_RANGES_ERROR:
        return "error";
    case VC_RANGES_ENTROPY:
        return "entropy";
    default:
        return vc_arena_printf(ctx, &q->arena, "percentile:%g", q->options.percentile);
    }
}

/* The recipe of the output, the two commands of the report, and the sentence about small tensors. Called once when the
 * pass is added and again where a plan settles another granularity. Values that are NULL for lack of memory are found
 * at the end, all at once.
 *
 *     recipe      scheme=int8, granularity=group:128, axis=0, symmetric=true, nonfinite=error, min_elements=4096, ...
 *     command     quantize --int8 --granularity group:128 */
static enum vc_status describe(struct vc_ctx *ctx, struct quantize *q)
{
    static const char *const nonfinites[] = {"error", "keep", "zero"};
    static const char *const overflows[] = {"error", "inf", "sat"};
    static const char *const saturations[] = {"auto", "off", "all"};
    const struct vc_quantize_options *o = &q->options;
    const struct vc_scheme_row *row = vc_scheme_of_target(o->target);
    const char *granularity = granularity_text(ctx, q);
    const char *aim = aim_text(ctx, q);
    const char *smooth = o->smooth == 0.0 ? "" : vc_arena_printf(ctx, &q->arena, " --smooth %g", o->smooth);
    const char *asymmetric;
    const char *rest;

    add_entry(q, "scheme", q->aim.set ? "chosen" : q->mixture != NULL ? q->mixture->name : row->name);
    if (q->aim.set) {
        add_entry(q, "aim", aim != NULL ? aim + strlen(" --aim-") : NULL);
        add_entry(q, "axis", decimal(ctx, q, o->axis == VC_AXIS_OUTPUT ? 0 : o->axis));
        add_entry(q, "symmetric", o->asymmetric ? "false" : "true");
    } else if (q->mixture != NULL) {
        add_entry(q, "encoder", o->encoder == VC_ENCODER_LLAMA ? "llama" : "best");
        add_entry(q, "pure", o->pure ? "true" : "false");
    } else if (row->codes) {
        add_entry(q, "granularity", granularity);
        add_entry(q, "axis", decimal(ctx, q, o->axis == VC_AXIS_OUTPUT ? 0 : o->axis));
        add_entry(q, "symmetric", o->asymmetric ? "false" : "true");
        if (o->double_quant) {
            add_entry(q, "double_quant", "true");
        }
    } else {
        add_entry(q, "overflow", overflows[o->overflow]);
    }
    if (o->calibration != NULL) {
        add_entry(q, "calibration", vc_arena_printf(ctx, &q->arena, "%s", last_part(o->calibration->path)));
    }
    if (o->smooth != 0.0) {
        add_entry(q, "smooth", vc_arena_printf(ctx, &q->arena, "%g", o->smooth));
    }
    if (is_static(q)) {
        add_entry(q, "activations", "static");
        add_entry(q, "ranges", ranges_text(ctx, q));
        add_entry(q, "saturation", saturations[o->saturation]);
    }
    add_entry(q, "nonfinite", nonfinites[o->nonfinite]);
    if (q->mixture == NULL) {
        add_entry(q, "min_elements", decimal(ctx, q, (long long)o->min_elems));
        add_entry(q, "min_row", decimal(ctx, q, (long long)o->min_row));
    }
    add_entry(q, "rules", vc_rules_text(ctx, &q->arena, o->rules, o->n_rules));
    if (o->n_only != 0) {
        add_entry(q, "only", vc_rules_text(ctx, &q->arena, o->only, o->n_only));
    }
    if (q->rest != NULL) {
        add_entry(q, "rest", q->rest->name);
    }
    /* At most one of the two is set: zero points go with whole numbers, double quantization with nf4 and fp4. */
    asymmetric = o->asymmetric ? " --asymmetric" : o->double_quant ? " --double-quant" : "";
    rest = q->rest == NULL ? "" : vc_arena_printf(ctx, &q->arena, " --rest %s", q->options.rest);
    if (rest == NULL || aim == NULL || smooth == NULL) {
        return VC_E_NOMEM;
    }
    const char *row_or_aim = q->aim.set ? aim + 1 : row->flag;
    if (q->mixture != NULL) {
        row_or_aim =
            vc_arena_printf(ctx, &q->arena, "%s %s%s%s", row->flag, q->mixture->name,
                            o->encoder == VC_ENCODER_LLAMA ? " --encoder llama" : "", o->pure ? " --pure" : "");
        VC_CALL_ALLOC(row_or_aim);
    }
    q->few = vc_arena_printf(ctx, &q->arena, "fewer than %llu elements", (unsigned long long)o->min_elems);
    VC_CALL_ALLOC(q->few);
    q->short_command = vc_arena_printf(ctx, &q->arena, "quantize %s%s", row_or_aim, rest);
    q->full_command = q->short_command;
    if (row->codes && !q->aim.set && q->mixture == NULL) {
        q->full_command = vc_arena_printf(ctx, &q->arena, "quantize %s --granularity %s%s%s%s%s", row->flag,
                                          granularity != NULL ? granularity : "", asymmetric, rest,
                                          is_static(q) ? " --activations static" : "", smooth);
    }
    q->pass.command = q->full_command;
    for (size_t i = 0; i < q->pass.n_recipe; i++) {
        VC_CALL_ALLOC(q->recipe[i].value);
    }
    q->pass.recipe = q->recipe;
    return q->full_command != NULL && q->short_command != NULL ? VC_OK : VC_E_NOMEM;
}

/* The options are copied, and with them the strings that the caller may free: rules, the names of mixture and rest. The
 * order of the checks is that of the sentences that help most: an aim's options, the scheme's, then the device. */
enum vc_status vc_job_add_quantize(struct vc_ctx *ctx, struct vc_job *job, const struct vc_quantize_options *options)
{
    struct vc_quantize_options own;
    struct vc_aim aim;
    struct quantize *q = NULL;
    enum vc_status status = VC_OK;

    vc_clear_error(ctx);
    VC_TRY(vc_options_read(ctx, VC_OPTIONS(quantize), options, &own));
    VC_TRY(vc_aim_read(ctx, &own, &aim));
    vc_scheme_settle(&own);
    VC_TRY(check_options(ctx, &own));
    if (vc_kernels_get(ctx) == NULL) { /* a device that cannot be had is said before anything else */
        return ctx->status;
    }
    VC_TRY_ALLOC(q = vc_calloc_array(ctx, VC_TAG_MISC, 1, sizeof *q));
    q->pass.ops = &quantize_ops;
    q->pass.self = q;
    q->options = own;
    q->usual_granularity = own.granularity;
    q->usual_group = own.group_size;
    q->aim = aim;
    q->mixture = own.gguf != NULL ? vc_mixture_of_name(own.gguf) : NULL;
    q->options.gguf = q->mixture != NULL ? q->mixture->name : NULL; /* the caller's may go */
    q->pass.mixture = q->options.gguf;
    q->pass.vanishes = own.encoder == VC_ENCODER_LLAMA; /* the bytes of llama-quantize */
    q->pass.codes = own.target != VC_TARGET_CHOSEN && vc_scheme_of_target(own.target)->codes && q->mixture == NULL
                        ? vc_scheme_of_target(own.target)->name
                        : NULL;
    VC_TRY(vc_rest_choose(ctx, &own, &q->rest));
    q->options.rest = q->rest != NULL ? q->rest->flag + strlen("--") : NULL; /* the caller's may go */
    VC_TRY(vc_rules_copy(ctx, &q->arena, own.rules, own.n_rules, &q->options.rules));
    VC_TRY(vc_rules_copy(ctx, &q->arena, own.only, own.n_only, &q->options.only));
    VC_TRY(describe(ctx, q));
    return vc_job_add_pass(ctx, job, &q->pass);
out:
    if (q != NULL) {
        quantize_free(ctx, &q->pass);
    }
    return status;
}
