/* memory_cli.c - see memory_cli.h. The library counts; this is its command line. */
#include "tools/memory_cli.h"

#include <string.h>

/* "fp16", as people say, or "f16". */
static bool dtype_of(const char *word, enum vc_dtype *dtype)
{
    char name[16];

    if (strcmp(word, "int8") == 0) {
        word = "i8";
    }
    snprintf(name, sizeof name, "%s%s", strncmp(word, "fp", 2) == 0 ? "f" : "",
             strncmp(word, "fp", 2) == 0 ? word + 2 : word);
    *dtype = vc_dtype_from_name(name);
    return *dtype != VC_DTYPE_NONE;
}

static bool take_dtype(void *group, const char *value)
{
    struct memory_cli *cli = group;

    return dtype_of(value, &cli->memory.weights) &&
           (cli->memory.weights == VC_DTYPE_F32 || cli->memory.weights == VC_DTYPE_F16 ||
            cli->memory.weights == VC_DTYPE_BF16 || cli->memory.weights == VC_DTYPE_F64 ||
            cli->memory.weights == VC_DTYPE_I8);
}

static bool take_kv_dtype(void *group, const char *value)
{
    struct memory_cli *cli = group;

    return dtype_of(value, &cli->memory.cache) &&
           (cli->memory.cache == VC_DTYPE_F32 || cli->memory.cache == VC_DTYPE_F16 ||
            cli->memory.cache == VC_DTYPE_BF16 || cli->memory.cache == VC_DTYPE_I8);
}

/* clang-format off */
static const struct opt model_opts[] = {
    {.name = "batch", .value = "N", .kind = OPT_COUNT, .field = offsetof(struct memory_cli, batch),
     .help = "the size batch of the inputs (default 1)"},
    {.name = "seq", .value = "N", .kind = OPT_COUNT, .field = offsetof(struct memory_cli, sequence),
     .help = "the size sequence of the inputs (default 128)"},
    GRAPH_SOURCE_OPTIONS,
    {.name = "dtype", .value = "f32|f16|bf16|f64|int8", .kind = OPT_CALL, .call = take_dtype,
     .help = "what floats are loaded as (default: as they are stored; f32 where there is no file); int8: with a scale for each "
             "row, norms and biases as f16"},
    {.name = "kv-dtype", .value = "f32|f16|bf16|int8", .kind = OPT_CALL, .call = take_kv_dtype,
     .help = "of the keys and values of --ctx (default: as the activations)"},
    {.name = "runtime", .value = "native|dequantize|layerwise", .kind = OPT_CHOICE,
     OPT_FIELD(struct memory_cli, memory.runtime),
     .help = "codes of quantized weights are loaded as they are, as floats, or as they are with one tensor at a time as "
             "floats (default: what the program does that usually loads the file)"},
    {.name = "ctx", .value = "N", .kind = OPT_COUNT, OPT_FIELD(struct memory_cli, memory.context_tokens),
     .help = "inference: keys and values of N positions are kept for every sequence"},
};
static const struct opt memory_opts[] = {
    {.name = "mode", .value = "infer|train", .kind = OPT_CHOICE, OPT_FIELD(struct memory_cli, memory.mode),
     .help = "what is done with the model (default infer)"},
    {.name = "optimizer", .value = "sgd|momentum|adam|adamw|adafactor|adam8bit", .kind = OPT_CHOICE,
     OPT_FIELD(struct memory_cli, memory.optimizer), .help = "whose states training keeps (default sgd: none)"},
    {.name = "amp", .value = "none|autocast|pure", .kind = OPT_CHOICE, OPT_FIELD(struct memory_cli, memory.amp),
     .help = "mixed precision: autocast keeps f32 weights and computes products in half precision; pure has weights and "
             "gradients of half precision with f32 masters (default none)"},
    {.name = "recompute", .value = "none|sqrt|every|layer", .kind = OPT_CHOICE,
     OPT_FIELD(struct memory_cli, memory.recompute),
     .help = "activation checkpointing: which parts are computed again in the backward pass (default none)"},
    {.name = "every", .value = "K", .kind = OPT_COUNT, .field = offsetof(struct memory_cli, every),
     .help = "with --recompute every: operators with weights in one part"},
    {.name = "attention", .value = "fused|eager", .kind = OPT_CHOICE, OPT_FIELD(struct memory_cli, memory.attention),
     .help = "as one kernel, or with a matrix of scores (default fused)"},
    {.name = "allocator", .value = "exact|cuda|pytorch", .kind = OPT_CHOICE,
     OPT_FIELD(struct memory_cli, memory.allocator),
     .help = "blocks are rounded up to 1, 256 or 512 bytes (default exact; of fit pytorch)"},
    {.name = "in-place", .kind = OPT_BOOL, .set = 1, OPT_FIELD(struct memory_cli, memory.in_place),
     .help = "activation functions, normalizations and additions write over an input that nobody needs any more"},
    {.name = "no-reuse", .kind = OPT_BOOL, .set = 0, OPT_FIELD(struct memory_cli, memory.reuse),
     .help = "every value has memory of its own, which nothing uses again"},
    {.name = "dropout", .kind = OPT_BOOL, .set = 1, OPT_FIELD(struct memory_cli, memory.dropout),
     .help = "training: values are dropped at random, and the masks are kept"},
};
/* clang-format on */
const struct opt_group group_model = {"Model", model_opts, sizeof(model_opts) / sizeof(model_opts[0]), 0};
const struct opt_group group_memory = {"Memory", memory_opts, sizeof(memory_opts) / sizeof(memory_opts[0]), 0};

/* --batch and --seq: the symbol of that name, or of the name that exporters give it. */
static int bind_named(struct app *app, struct memory_cli *cli, const char *name, uint64_t size)
{
    const char *symbol;
    size_t n = strlen(name);

    for (uint32_t k = 0; (symbol = vc_graph_symbol(cli->source.graph, k)) != NULL; k++) {
        if (strncmp(symbol, name, n) == 0) {
            return vc_graph_bind(app->ctx, cli->source.graph, symbol, (int64_t)size) == VC_OK
                       ? GO_ON
                       : app_fail(app, VC_E_ARGUMENT);
        }
    }
    return app_usage(app, "the inputs of the model leave no size open that is called %s; --size NAME=N sets others",
                     name);
}

static int bind_all(struct app *app, struct memory_cli *cli)
{
    int rc = graph_source_bind(app, &cli->source);

    if (rc == GO_ON && cli->batch != 0) {
        rc = bind_named(app, cli, "batch", cli->batch);
    }
    if (rc == GO_ON && cli->sequence != 0) {
        rc = bind_named(app, cli, "sequence", cli->sequence);
    }
    return rc;
}

/* An option that would change nothing was meant for something else. GO_ON or a status. */
static int check_options(struct app *app, const struct memory_cli *cli)
{
    static const char *const of_training[] = {"optimizer", "amp", "recompute", "every", "dropout"};
    bool trains = cli->memory.mode == VC_MEMORY_TRAIN;

    for (size_t k = 0; !trains && k < sizeof of_training / sizeof of_training[0]; k++) {
        if (options_seen(&app->parsed, of_training[k])) {
            return app_usage(app, "--%s is about training: --mode train", of_training[k]);
        }
    }
    if ((cli->every != 0) != (cli->memory.recompute == VC_RECOMPUTE_EVERY)) {
        return app_usage(app, "--recompute every and --every K belong together");
    }
    if (trains && cli->memory.context_tokens != 0) {
        return app_usage(app, "--ctx is about inference: training keeps no keys and values");
    }
    return GO_ON;
}

int memory_cli_count(struct app *app, struct memory_cli *cli)
{
    int rc = check_options(app, cli);
    enum vc_status status;

    rc = rc == GO_ON ? graph_source_open(app, &cli->source, true) : rc;
    if (rc == GO_ON && cli->source.graph != NULL) {
        rc = bind_all(app, cli);
    }
    if (rc != GO_ON) {
        return rc;
    }
    cli->memory.recompute_every = (unsigned)cli->every;
    if (!options_seen(&app->parsed, "runtime") && graph_source_model(&cli->source) != NULL) {
        cli->memory.runtime = vc_memory_runtime(vc_model_layout(graph_source_model(&cli->source)));
    }
    status =
        vc_memory_estimate(app->ctx, cli->source.graph, graph_source_model(&cli->source), &cli->memory, &cli->report);
    return status == VC_OK ? GO_ON : app_fail(app, status);
}

/* ---- printing ---- */

static void print_sizes(const struct app *app, const struct memory_cli *cli)
{
    const char *name;

    for (uint32_t k = 0; cli->source.graph != NULL && (name = vc_graph_symbol(cli->source.graph, k)) != NULL; k++) {
        int64_t size = vc_graph_symbol_size(cli->source.graph, k);

        if (size > 0) {
            fputs(", ", app->out.to);
            print_clean(app->out.to, name);
            fprintf(app->out.to, " %lld", (long long)size);
        }
    }
}

/* "llama/config.json: 6,738,415,616 parameters; training, adamw, batch 4, sequence 512" */
static void print_head(const struct app *app, const struct memory_cli *cli)
{
    static const char *const optimizers[] = {"sgd", "momentum", "adam", "adamw", "adafactor", "adam8bit"};
    static const char *const amps[] = {"", ", autocast", ", pure half precision"};
    char buf[CELL_BYTES];
    bool trains = cli->memory.mode == VC_MEMORY_TRAIN;

    print_clean(app->out.to, app->subject);
    fprintf(app->out.to, ": %s parameters; %s", fmt_count(buf, cli->report.n_params),
            trains ? "training with " : "inference");
    if (trains) {
        fprintf(app->out.to, "%s%s", optimizers[cli->memory.optimizer], amps[cli->memory.amp]);
    }
    print_sizes(app, cli);
    if (cli->memory.context_tokens != 0) {
        fprintf(app->out.to, ", context of %llu", (unsigned long long)cli->memory.context_tokens);
    }
    fputc('\n', app->out.to);
}

static void add_part(const struct app *app, struct table *table, const char *name, const struct vc_memory_part *part,
                     uint64_t whole, enum ink ink)
{
    char buf[CELL_BYTES];
    bool known = part->known != VC_KNOWN_NOT;

    table_add(table, ink, name);
    table_add(table, ink, known ? fmt_size(buf, &app->out, part->bytes) : "?");
    table_add(table, INK_DIM, known && whole != 0 ? fmt_percent(buf, (double)part->bytes, (double)whole) : "");
    table_add(table, INK_DIM, vc_known_name(part->known));
}

static const char *component_text(enum vc_memory_kind component, bool trains)
{
    static const char *const texts[VC_MEMORY_COMPONENTS] = {"parameters",        "gradients",   "optimizer states",
                                                            "copies of weights", "activations", "inputs",
                                                            "keys and values",   "transients"};

    return component == VC_MEMORY_ACTIVATIONS && trains ? "kept for the backward pass" : texts[component];
}

static bool print_tables(struct app *app, const struct memory_cli *cli)
{
    static const char *const moments[VC_MOMENTS] = {"after loading", "after the forward pass", "at the peak",
                                                    "after a step"};
    const struct vc_memory_report *r = &cli->report;
    bool trains = cli->memory.mode == VC_MEMORY_TRAIN;
    const struct vc_memory_part *peak = &r->moments[VC_MOMENT_PEAK];
    uint64_t whole = peak->known != VC_KNOWN_NOT ? peak->bytes : 0;
    struct table table;

    table_init(&table, "lrrl");
    for (enum vc_memory_kind k = 0; k < VC_MEMORY_COMPONENTS; k++) {
        if (r->components[k].bytes != 0 || r->components[k].known == VC_KNOWN_NOT) {
            add_part(app, &table, component_text(k, trains), &r->components[k], whole, INK_NONE);
        }
    }
    for (enum vc_moment k = 0; k < VC_MOMENTS; k++) {
        if (trains || k == VC_MOMENT_LOAD || k == VC_MOMENT_PEAK) {
            add_part(app, &table, moments[k], &r->moments[k], 0, INK_BOLD);
        }
    }
    return table_print(&table, &app->out, false);
}

bool memory_cli_print(struct app *app, const struct memory_cli *cli)
{
    const struct vc_memory_report *r = &cli->report;
    char buf[CELL_BYTES];

    print_head(app, cli);
    if (!print_tables(app, cli)) {
        return false;
    }
    if (r->unknown != NULL) {
        fprintf(app->out.to, "unknown: %s", r->unknown);
        if (r->unknown_name != NULL) {
            fputs(": ", app->out.to);
            print_clean(app->out.to, r->unknown_name);
        }
        fputc('\n', app->out.to);
    } else if (app->common.verbose > 0) {
        fprintf(app->out.to, "activations in one arena: %s, ", fmt_size(buf, &app->out, r->arena_bytes));
        fprintf(app->out.to, "at least %s; the peak is at ", fmt_size(buf, &app->out, r->arena_least));
        print_clean(app->out.to, *r->peak_at != '\0' ? r->peak_at : "the loss");
        fputc('\n', app->out.to);
    }
    return true;
}
