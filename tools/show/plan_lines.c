/* plan_lines.c - see plan_lines.h. A recipe becomes at most two lines:
 *
 *     vcompress quantize --int8 --rest fp16 -o in.int8.npz in.npz      the passes (put_passes), if it has any
 *     vcompress fit --gpu T4 --batch 8 in.int8.npz                     the question (put_question)
 *
 * Words are quoted for a shell; options that the user gave are repeated in the question. */
#include "tools/show/plan_lines.h"

#include <stdlib.h>
#include <string.h>

#include "tools/possible.h"

/* ---- a shell's words ---- */

/* A file as the last word, behind "--" where it begins with a dash. */
static void put_path(FILE *to, const char *path)
{
    fputs(*path == '-' ? " --" : "", to);
    (void)print_shell_word(to, path);
}

/* ---- the files ---- */

/* The folder of a file, where the weights of a config.json would be: "model/config.json" -> "model". Owned; NULL: no
 * memory. */
static char *folder_of(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash == NULL ? strdup(".") : strndup(path, slash == path ? 1 : (size_t)(slash - path));
}

/* What passes read: the model itself, the checkpoint beside a text, the folder of a config.json. Owned; NULL: no
 * memory. */
static char *input_of(const struct app *app, const struct graph_source *source)
{
    return source->model != NULL     ? strdup(app->subject)
           : source->weights != NULL ? strdup(source->weights)
                                     : folder_of(app->subject);
}

/* The name of what the passes write: that which the command would choose itself; for weights that are not there, the
 * input's name with the recipe's tag. *out is owned. GO_ON or a status. */
static int output_of(struct app *app, const struct graph_source *source, const struct vc_recipe *recipe,
                     const char *input, char **out)
{
    const struct vc_model *model = graph_source_model(source);
    struct vc_name_options names;
    char *name = NULL;
    size_t n = strlen(input) + strlen(recipe->tag) + 16;

    if (model == NULL) {
        *out = malloc(n);
        if (*out != NULL) {
            int length = snprintf(*out, n, "%s.%s", strcmp(input, ".") == 0 ? "model" : input, recipe->tag);

            if (recipe->format != NULL) {
                snprintf(*out + length, n - (size_t)length, ".%s", recipe->format);
            }
        }
        return *out != NULL ? GO_ON : app_refuse(app, VC_E_NOMEM, "not enough memory for the command lines");
    }
    vc_name_defaults(&names);
    names.tag = recipe->tag;
    names.input = input;
    names.more_tensors = recipe->more_tensors;
    names.format = recipe->format;
    enum vc_status status = vc_model_output_name(app->ctx, model, &names, &name);
    *out = status == VC_OK ? strdup(name) : NULL;
    vc_text_free(name);
    return status != VC_OK ? app_fail(app, status)
           : *out != NULL  ? GO_ON
                           : app_refuse(app, VC_E_NOMEM, "not enough memory for the command lines");
}

/* ---- the lines ---- */

/* "vcompress quantize --int8 --rest fp16 -o in.int8.npz in.npz", or several passes in one run. */
static void put_passes(FILE *to, const struct vc_recipe *recipe, const char *input, const char *output)
{
    if (recipe->n_passes == 1) {
        fprintf(to, "vcompress %s", recipe->passes[0]);
    } else {
        fputs("vcompress run", to);
        for (size_t k = 0; k < recipe->n_passes; k++) {
            fputs(" --pass", to);
            (void)print_shell_word(to, recipe->passes[k]);
        }
    }
    fputs(" -o", to);
    (void)print_shell_word(to, output);
    put_path(to, input);
}

/* Whether the question repeats an option that plan was given: options of the device (the first group), the model,
 * memory and devices, without those that a recipe decides itself and those that only plan has. */
static bool is_carried(const struct app *app, const struct opt *opt)
{
    static const char *const own[] = {"all",  "scan",     "without",   "porcelain", "batch",     "ctx",     "dtype",
                                      "mode", "kv-dtype", "optimizer", "amp",       "recompute", "weights", "graph"};

    for (size_t k = 0; k < sizeof own / sizeof own[0]; k++) {
        if (strcmp(opt->name, own[k]) == 0) {
            return false;
        }
    }
    for (size_t g = 0; g < app->command->n_groups; g++) {
        const struct opt_group *group = app->command->groups[g];

        if (opt >= group->opts && opt < group->opts + group->n_opts) {
            return g == 0 || group == &group_model || group == &group_memory || group == &group_kind ||
                   group == &group_devices;
        }
    }
    return false;
}

/* Repeats the options that are carried, with their values. */
static void put_given(FILE *to, const struct app *app)
{
    for (size_t k = 0; k < app->parsed.n_given && k < PARSE_MAX_GIVEN; k++) {
        const struct given *given = &app->parsed.given[k];

        if (is_carried(app, given->opt)) {
            fprintf(to, " --%s", given->opt->name);
            if (given->value != NULL) {
                (void)print_shell_word(to, given->value);
            }
        }
    }
}

/* The word of --dtype for a type. */
static const char *type_word(enum vc_dtype type)
{
    return type == VC_DTYPE_F16 ? "fp16" : type == VC_DTYPE_I8 ? "int8" : vc_dtype_name(type);
}

/* Options of training, from the recipe. The lists are in the order of the enums. */
static void put_training(FILE *to, const struct vc_memory_options *m)
{
    static const char *const optimizers[] = {"sgd", "momentum", "adam", "adamw", "adafactor", "adam8bit"};
    static const char *const amps[] = {"none", "autocast", "pure"};
    static const char *const recomputes[] = {"none", "sqrt", "every", "layer", "selective", "auto"};

    fprintf(to, " --mode train --optimizer %s", optimizers[m->optimizer]);
    if (m->amp != VC_AMP_NONE) {
        fprintf(to, " --amp %s", amps[m->amp]);
    }
    if (m->recompute != VC_RECOMPUTE_NONE) {
        fprintf(to, " --recompute %s", recomputes[m->recompute]);
    }
    if (m->recompute == VC_RECOMPUTE_EVERY) {
        fprintf(to, ":%u", m->recompute_every);
    }
}

/* How devices share the model, where the recipe says it; what was given is there already. without: the number that
 * needs no option. */
static void put_devices(FILE *to, const struct app *app, const struct vc_memory_options *m)
{
    const struct {
        const char *name;
        unsigned n, without;
    } counts[] = {
        {"dp", m->dp, 1}, {"zero", m->zero, 0}, {"tp", m->tp, 1}, {"pp", m->pp, 1}, {"accum", m->micro_batches, 1}};

    for (size_t k = 0; k < sizeof counts / sizeof counts[0]; k++) {
        if (counts[k].n > counts[k].without && !options_seen(&app->parsed, counts[k].name)) {
            fprintf(to, " --%s %u", counts[k].name, counts[k].n);
        }
    }
}

/* "vcompress fit --gpu T4 --dtype fp16 --batch 8 in.int8.npz". output: NULL: nothing is written. The model of the
 * question is the output of the passes, where they were made for a file that is there; a recipe that only changes how
 * the model is loaded asks about the model itself. */
static void put_question(FILE *to, const struct app *app, const struct plan_lines *all, const struct vc_recipe *recipe,
                         const char *output)
{
    const struct vc_memory_options *m = recipe->memory;
    const struct graph_source *source = all->source;
    bool beside = source->model == NULL && source->weights != NULL;

    fputs("vcompress fit", to);
    if (all->gpu != NULL) {
        fputs(" --gpu", to);
        (void)print_shell_word(to, all->gpu);
    }
    put_given(to, app);
    if (recipe->ask != NULL) {
        fprintf(to, " %s", recipe->ask);
    }
    if (m->mode == VC_MEMORY_TRAIN) {
        put_training(to, m);
    }
    if (m->scheme != NULL) {
        fprintf(to, " --dtype %s", m->scheme);
    } else if (graph_source_model(source) == NULL && recipe->more_tensors) {
        fputs(" --dtype int8", to);
    } else if (m->weights != VC_DTYPE_NONE) {
        fprintf(to, " --dtype %s", type_word(m->weights));
    }
    put_devices(to, app, m);
    if (recipe->batch > 1 || (recipe->batch == 1 && options_seen(&app->parsed, "size"))) { /* which may say more */
        fprintf(to, " --batch %llu", (unsigned long long)recipe->batch);
    }
    if (m->context_tokens != 0) {
        fprintf(to, " --ctx %llu", (unsigned long long)m->context_tokens);
    }
    if (m->cpu_moe_layers != 0 && !options_seen(&app->parsed, "n-cpu-moe")) {
        fprintf(to, " --n-cpu-moe %llu", (unsigned long long)m->cpu_moe_layers);
    }
    if (m->cache != VC_DTYPE_NONE && m->context_tokens != 0 &&
        (m->program != VC_RUN_BY_LLAMA_CPP || m->cache != VC_DTYPE_F16)) { /* which it has anyway */
        fprintf(to, " --kv-dtype %s", type_word(m->cache));
    }
    if (beside || (source->model != NULL && source->weights != NULL)) {
        fputs(" --weights", to);
        (void)print_shell_word(to, beside && output != NULL ? output : source->weights);
    }
    put_path(to, source->model != NULL && output != NULL && m->scheme == NULL ? output : app->subject);
}

/* made[0] has the passes, made[1] the question, or made[0] the question where there is no pass. */
int plan_lines_make(struct app *app, const struct plan_lines *all, const struct vc_recipe *recipe,
                    struct vc_recipe_lines *lines)
{
    char **made = calloc(2, sizeof *made);
    char *input = input_of(app, all->source);
    char *output = NULL;
    FILE *to = NULL;
    size_t n;
    int rc = GO_ON;

    *lines = (struct vc_recipe_lines){.lines = (const char *const *)made};
    if (made == NULL || input == NULL) {
        rc = app_refuse(app, VC_E_NOMEM, "not enough memory for the command lines");
        goto out;
    }
    if (recipe->n_passes != 0) {
        rc = output_of(app, all->source, recipe, input, &output);
    }
    for (size_t k = recipe->n_passes != 0 ? 0 : 1; rc == GO_ON && k < 2; k++) {
        to = open_memstream(&made[lines->n], &n);
        if (to != NULL && k == 0) {
            put_passes(to, recipe, input, output);
        } else if (to != NULL) {
            put_question(to, app, all, recipe, output);
        }
        if (to == NULL || fclose(to) != 0) {
            rc = app_refuse(app, VC_E_NOMEM, "not enough memory for the command lines");
            break;
        }
        lines->n++;
    }
out:
    free(input);
    free(output);
    return rc;
}

/* The question is tried in place of passes only if its answer would be yes; a line about weights that are not there
 * cannot be tried, and is taken as possible. */
bool plan_lines_possible(const struct app *app, const struct plan_lines *all, const struct vc_recipe *recipe,
                         const struct vc_recipe_lines *lines)
{
    bool unseen = recipe->n_passes != 0 && graph_source_model(all->source) == NULL;
    bool asks = recipe->n_passes == 0;

    return unseen || (asks && recipe->fit.verdict != VC_FITS) || line_is_possible(app, lines->lines[0], 0);
}

void plan_lines_free(struct vc_recipe_lines *lines)
{
    for (size_t k = 0; lines->lines != NULL && k < 2; k++) {
        free((char *)(uintptr_t)lines->lines[k]);
    }
    free((char **)(uintptr_t)lines->lines);
}
