/* chain.c - a candidate as words, as lines of a recipe, and as passes of a job: all from one struct
 * vc_shrink_chain, so that "vcompress run" with the lines does what the search did.
 *
 *     chain       {.share = "0.5", .scheme = int8, .steps = 200}
 *     name        0.5 of the neurons removed, int8, 200 steps
 *     lines       prune --structured 0.5
 *                 distill --data rows.npz --part 0-60 --steps 200 --lr 0.002 --schedule cosine --fake-quant int8
 *                 quantize --int8 --rest fp16
 *     passes      vc_job_add_structured, vc_job_add_distill, vc_job_add_quantize
 *
 * Both ways follow one table, `passes`: what is said in one of them (put_X) has its counterpart in the other (add_X). */

#include "shrink/shrink_inside.h"

/* By the format of the output: as it was given, by its name, or that of the input. */
bool vc_shrink_is_gguf(const struct vc_shrinking *s)
{
    const char *format = s->write.format != NULL ? s->write.format : vc_format_of_name(s->write.path);

    format = format != NULL ? format : vc_model_facts(s->given)->format;
    return strncmp(format, "GGUF", 4) == 0 || strcmp(format, "gguf") == 0;
}

/* Whether the chain begins with a pass of `prune`, of whichever kind. */
static bool prunes(const struct vc_shrinking *s, const struct vc_shrink_chain *chain)
{
    return chain->share != NULL || chain->drop != NULL || chain->sparsity != NULL || chain->two_four;
}

static const char *const unit_names[] = {"neurons", "heads", "experts"};

/* The type of s->rest. */
static const struct vc_search_scheme *half_of(const struct vc_shrinking *s)
{
    return vc_search_half(strcmp(s->rest, "bf16") == 0);
}

/* fp16 of a model whose weights are bf16 is bf16. */
static const struct vc_search_scheme *scheme_of(const struct vc_shrinking *s, const struct vc_shrink_chain *chain)
{
    return chain->scheme != NULL && chain->scheme->target == VC_TARGET_F16 ? half_of(s) : chain->scheme;
}

/* Codes whose scales and rounding are weighed by statistics, which are of the layers as they are in the model.
 * Training makes its own codes, and removed units or layers leave other inputs. */
static bool takes_statistics(const struct vc_shrink_chain *chain)
{
    return chain->scheme != NULL && chain->share == NULL && chain->drop == NULL && chain->steps == 0 &&
           chain->scheme->target >= VC_TARGET_INT4 && chain->scheme->target != VC_TARGET_GGUF;
}

/* Training computes with the codes that are written; floats need none. */
static bool trains_codes(const struct vc_shrinking *s, const struct vc_shrink_chain *chain)
{
    if (s->onnx && chain->share != NULL && chain->scheme != NULL && chain->scheme->target != VC_TARGET_INT8) {
        return false; /* codes of a smaller network have no place in the nodes of the larger one */
    }
    return s->options.types == NULL && chain->scheme != NULL && chain->scheme->target != VC_TARGET_F16 &&
           chain->scheme->target != VC_TARGET_GGUF;
}

/* Codes of fewer than 8 bits are written by the training itself. */
static bool quantizes(const struct vc_shrinking *s, const struct vc_shrink_chain *chain)
{
    return chain->aim_bytes != 0 || (chain->scheme != NULL && (chain->steps == 0 || !trains_codes(s, chain) ||
                                                               chain->scheme->target == VC_TARGET_INT8));
}

static bool trains(const struct vc_shrinking *s, const struct vc_shrink_chain *chain)
{
    return chain->steps != 0;
}

/* Such training leaves the other tensors as they are, so these become 16 bits before; not in ONNX, where types belong
 * to the graph. */
static bool casts_first(const struct vc_shrinking *s, const struct vc_shrink_chain *chain)
{
    return chain->steps != 0 && trains_codes(s, chain) && !quantizes(s, chain) && !s->onnx;
}

/* Whether the weights that stay are refitted by statistics. Without whole layers those of the layers behind
 * are of other inputs. */
static bool reconstructs(const struct vc_shrinking *s, const struct vc_shrink_chain *chain)
{
    return s->stats != NULL && s->refits && prunes(s, chain) && chain->drop == NULL;
}

/* ---- words ---- */

/* " --option word", quoted for a shell where it has to be. Nothing for NULL. */
static void add_option(struct vc_text *text, const char *option, const char *value)
{
    if (value != NULL) {
        vc_text_add(text, " --%s", option);
        vc_text_add_shell_word(text, value);
    }
}

/* Nothing for 0, which is the default of all these options. */
static void add_number(struct vc_text *text, const char *option, uint64_t value)
{
    if (value != 0) {
        vc_text_add(text, " --%s %llu", option, (unsigned long long)value);
    }
}

/* Only what differs from the defaults is said, so that a recipe is short. */
void vc_chain_add_rows(struct vc_text *text, const struct vc_data_options *d)
{
    add_option(text, "data", d->path);
    for (size_t k = 0; k < d->n_arrays; k++) {
        add_option(text, "array", d->arrays[k]);
    }
    for (size_t k = 0; k < d->n_outputs; k++) {
        const struct vc_output_task *o = &d->outputs[k];
        char value[400];

        (void)snprintf(value, sizeof value, o->weight_end > 0 ? "%s=%s:%.17g:%.17g" : "%s=%s:%.17g", o->output,
                       vc_word(VC_WORDS_NET_TASK, o->task), o->weight, o->weight_end);
        add_option(text, "task", value);
    }
    add_option(text, "labels", d->labels);
    if (d->ignored_label >= 0) {
        vc_text_add(text, " --ignore-label %lld", (long long)d->ignored_label);
    }
    if (d->scale != 1) {
        vc_text_add(text, " --scale %.17g", d->scale);
    }
    add_option(text, "mean", d->mean);
    add_option(text, "std", d->deviation);
    add_number(text, "rows", d->n_rows);
    add_number(text, "length", d->length);
    add_number(text, "token-bits", d->token_bits);
    if (d->part_to != 0) {
        vc_text_add(text, " --part %llu-%llu", (unsigned long long)d->part_from, (unsigned long long)d->part_to);
        add_number(text, "part-seed", d->part_seed);
    }
}

/* The line of the pass that add_prune adds. */
static void put_prune(struct vc_shrinking *s, const struct vc_shrink_chain *chain, struct vc_text *text)
{
    if (chain->share != NULL) {
        vc_text_add(text, "prune --structured %s", chain->share);
        add_option(text, "dims", chain->unit != VC_UNIT_NEURONS ? unit_names[chain->unit] : NULL);
        add_option(text, "graph", s->options.graph_path);
    } else if (chain->drop != NULL) {
        vc_text_add(text, "prune --drop-layers %s", chain->drop);
    } else if (chain->two_four) {
        vc_text_add(text, "prune --pattern 2:4");
    } else {
        vc_text_add(text, "prune --sparsity %s", chain->sparsity);
    }
    if (reconstructs(s, chain)) {
        vc_text_add(text, " --reconstruct");
        add_option(text, "calibration", s->final_stats);
    }
}

/* Pruned networks have more to learn than codes. */
static double rate_of(const struct vc_shrinking *s, const struct vc_shrink_chain *chain)
{
    return prunes(s, chain) ? 0.002 : 0.0003;
}

/* The line of the pass that add_distill adds. What AUTO has come to is said in words, since `run` would
 * have to find it anew. */
static void put_distill(struct vc_shrinking *s, const struct vc_shrink_chain *chain, struct vc_text *text)
{
    vc_text_add(text, "distill");
    add_option(text, "graph", s->options.graph_path);
    vc_chain_add_rows(text, &s->train);
    vc_text_add(text, " --steps %llu --lr %g --schedule cosine", (unsigned long long)chain->steps, rate_of(s, chain));
    add_number(text, "seed", s->options.seed);
    if (vc_shrink_compares(s) != VC_TEACHER_LOSS_AUTO &&
        (s->options.loss != VC_TEACHER_LOSS_AUTO || vc_shrink_compares(s) != VC_TEACHER_LOSS_KD)) {
        add_option(text, "loss", vc_teacher_loss_facts(vc_shrink_compares(s))->word);
    }
    if (vc_shrink_task(s) != VC_NET_TASK_AUTO) {
        add_option(text, "task", vc_word(VC_WORDS_NET_TASK, vc_shrink_task(s)));
    }
    if (chain->sparsity != NULL || chain->two_four) {
        vc_text_add(text, " --keep-sparsity");
    }
    if (trains_codes(s, chain)) {
        vc_text_add(text, " --fake-quant %s", chain->scheme->name);
    }
}

/* The line of the passes that add_quantize adds: "quantize --int8 --rest fp16", then types by names as the caller has them in
 * words. */
static void put_quantize(struct vc_shrinking *s, const struct vc_shrink_chain *chain, struct vc_text *text)
{
    if (chain->aim_bytes != 0) {
        vc_text_add(text, "quantize --aim-bytes %llu --rest %s", (unsigned long long)chain->aim_bytes, s->rest);
    } else {
        vc_search_add_pass(text, scheme_of(s, chain), s->rest, false);
    }
    if (takes_statistics(chain) && s->stats != NULL) {
        add_option(text, "calibration", s->final_stats);
    }
    if (s->options.types != NULL) {
        vc_text_add(text, " %s", s->options.types->words);
    }
}

static void put_cast(struct vc_shrinking *s, const struct vc_shrink_chain *chain, struct vc_text *text)
{
    put_quantize(s, &(struct vc_shrink_chain){.scheme = half_of(s)}, text);
}

/* ---- passes ---- */

/* Single weights are pruned by LAMP with one threshold for all tensors, which spares small layers. */
static enum vc_status add_prune(struct vc_shrinking *s, const struct vc_shrink_chain *chain, struct vc_job *job)
{
    struct vc_prune_options options;

    if (chain->share != NULL) {
        struct vc_structured_options units;

        vc_structured_defaults(&units);
        units.share = chain->share;
        units.state_sizes = true;
        units.units = 1U << chain->unit;
        units.couplings = s->couplings;
        units.reconstruct = reconstructs(s, chain);
        units.calibration = units.reconstruct ? s->stats : NULL;
        return vc_job_add_structured(s->ctx, job, &units);
    }
    if (chain->drop != NULL) {
        struct vc_depth_options layers;

        vc_depth_defaults(&layers);
        layers.drop = chain->drop;
        return vc_job_add_depth(s->ctx, job, &layers);
    }
    vc_prune_defaults(&options);
    if (chain->two_four) {
        options.pattern = VC_PATTERN_N_OF_M;
        options.keep = 2;
        options.group = 4;
    } else {
        options.sparsity = chain->sparsity;
        options.scope = VC_PRUNE_GLOBAL;
        options.score = VC_SCORE_LAMP;
    }
    options.reconstruct = reconstructs(s, chain);
    options.calibration = options.reconstruct ? s->stats : NULL;
    return vc_job_add_prune(s->ctx, job, &options);
}

/* The rest: tensors that the scheme leaves alone become 16 bits. */
static enum vc_status add_quantize(struct vc_shrinking *s, const struct vc_shrink_chain *chain, struct vc_job *job)
{
    const struct vc_shrink_types *types = s->options.types;
    struct vc_quantize_options options;

    vc_quantize_defaults(&options);
    if (chain->aim_bytes != 0) {
        options.target = VC_TARGET_CHOSEN;
        options.aim_bytes = chain->aim_bytes;
        options.rest = s->rest;
    } else {
        vc_search_set(scheme_of(s, chain), s->rest, &options);
    }
    options.calibration = takes_statistics(chain) ? s->stats : NULL;
    for (size_t i = 0; types != NULL && i < types->n_passes; i++) {
        struct vc_quantize_options own = types->passes[i];

        own.calibration = own.target == VC_TARGET_INT8 || own.target <= VC_TARGET_BF16 ? NULL : options.calibration;
        VC_CALL(vc_job_add_quantize(s->ctx, job, &own));
    }
    if (types != NULL) {
        options.only = types->only;
        options.n_only = types->n_only;
        options.rules = types->rules;
        options.n_rules = types->n_rules;
    }
    return vc_job_add_quantize(s->ctx, job, &options);
}

static enum vc_status add_cast(struct vc_shrinking *s, const struct vc_shrink_chain *chain, struct vc_job *job)
{
    return add_quantize(s, &(struct vc_shrink_chain){.scheme = half_of(s)}, job);
}

/* A step was done: training that would end too late is cancelled, and begins again with fewer steps. */
static void watch(void *user, const struct vc_distill_step *step)
{
    struct vc_shrinking *s = user;

    if (step->eval != NULL || step->step < 4) {
        return;
    }
    s->step_seconds = step->seconds / (double)step->step;
    if (s->deadline_cut > 0 && s->step_seconds * (double)step->n_steps > s->deadline_cut) {
        s->too_slow = true;
        vc_ctx_cancel(s->ctx);
    }
}

/* The student is what the passes before made; the options have to live as long as the job, and lie in the
 * arena. */
static enum vc_status add_distill(struct vc_shrinking *s, const struct vc_shrink_chain *chain, struct vc_job *job)
{
    struct vc_distill_options *options = vc_arena_alloc(s->ctx, &s->arena, sizeof *options);
    struct vc_quantize_options *codes = vc_arena_alloc(s->ctx, &s->arena, sizeof *codes);

    if (options == NULL || codes == NULL) {
        return VC_E_NOMEM;
    }
    vc_distill_defaults(options);
    options->teacher = (struct vc_network){s->teacher.graph, s->given, s->teacher.beside};
    options->graph_path = s->options.graph_path;
    options->data = &s->train;
    options->training.steps = chain->steps;
    options->training.seed = s->options.seed;
    options->optimizer.lr = rate_of(s, chain);
    options->schedule.kind = VC_SCHEDULE_COSINE;
    options->loss.kind = vc_shrink_compares(s);
    options->answers.net_task = vc_shrink_task(s);
    options->sparsity.keep = chain->sparsity != NULL || chain->two_four;
    if (trains_codes(s, chain)) {
        vc_quantize_defaults(codes);
        vc_search_set(scheme_of(s, chain), NULL, codes);
        options->precision.fake_quant = codes;
    }
    options->tell = watch;
    options->user = s;
    return vc_job_add_distill(s->ctx, job, options);
}

/* ---- the whole chain ---- */

/* The passes of a chain in their order: whether it has one, its line, itself. */
static const struct {
    bool (*takes_part)(const struct vc_shrinking *s, const struct vc_shrink_chain *chain);
    void (*put)(struct vc_shrinking *s, const struct vc_shrink_chain *chain, struct vc_text *text);
    enum vc_status (*add)(struct vc_shrinking *s, const struct vc_shrink_chain *chain, struct vc_job *job);
} passes[] = {
    {prunes, put_prune, add_prune},
    {casts_first, put_cast, add_cast},
    {trains, put_distill, add_distill},
    {quantizes, put_quantize, add_quantize},
};
#define N_PASSES (sizeof passes / sizeof *passes)

enum vc_status vc_chain_add(struct vc_shrinking *s, const struct vc_shrink_chain *chain, struct vc_job *job)
{
    for (size_t k = 0; k < N_PASSES; k++) {
        if (passes[k].takes_part(s, chain)) {
            VC_CALL(passes[k].add(s, chain, job));
        }
    }
    return VC_OK;
}

/* Name and lines. */
enum vc_status vc_chain_describe(struct vc_shrinking *s, const struct vc_shrink_chain *chain,
                                 struct vc_shrink_candidate *out)
{
    const char **lines = vc_arena_alloc(s->ctx, &s->arena, N_PASSES * sizeof *lines);
    struct vc_text text;

    VC_CALL_ALLOC(out->lines = lines);
    out->n_lines = 0;
    out->deflate = chain->sparsity != NULL;
    out->steps = chain->steps;
    for (size_t k = 0; k < N_PASSES; k++) {
        if (passes[k].takes_part(s, chain)) {
            vc_text_init(&text, s->ctx);
            passes[k].put(s, chain, &text);
            VC_CALL(vc_text_take(&text, &s->arena, &lines[out->n_lines++]));
        }
    }
    vc_text_init(&text, s->ctx);
    if (chain->share != NULL) {
        vc_text_add(&text, "%s of the %s removed, ", chain->share, unit_names[chain->unit]);
    } else if (chain->drop != NULL) {
        vc_text_add(&text, "without layer%s %s, ", strchr(chain->drop, ',') != NULL ? "s" : "", chain->drop);
    } else if (prunes(s, chain)) {
        vc_text_add(&text, "sparsity %s, ", chain->two_four ? "2:4" : chain->sparsity);
    }
    vc_text_add(&text, "%s",
                chain->aim_bytes != 0   ? "mixed types"
                : chain->scheme != NULL ? scheme_of(s, chain)->name
                                        : "as stored");
    if (chain->steps != 0) {
        vc_text_add(&text, ", %llu steps", (unsigned long long)chain->steps);
    }
    return vc_text_take(&text, &s->arena, &out->name);
}

/* Before the model itself was judged (n_rows is 0) AUTO stays AUTO. */
static bool finds_loss(const struct vc_shrinking *s)
{
    return s->options.loss == VC_TEACHER_LOSS_AUTO && s->whole.n_rows != 0 && s->whole.n_parts == 0;
}

enum vc_teacher_loss vc_shrink_compares(const struct vc_shrinking *s)
{
    return finds_loss(s) ? s->whole.loss : s->options.loss;
}

/* Of the other tasks the loss says which it is; that of maps and spans is also the loss of classes. */
enum vc_net_task vc_shrink_task(const struct vc_shrinking *s)
{
    bool found = s->whole.task == VC_NET_TASK_MAPS || s->whole.task == VC_NET_TASK_SPANS;

    found = found && s->options.net_task == VC_NET_TASK_AUTO && finds_loss(s);
    return found ? s->whole.task : (enum vc_net_task)s->options.net_task;
}
