/* cmd_run.c - vcompress run: several passes in one job, given as lines of text (recipe.h). Each tensor goes through all
 * passes while it is in memory; no file lies between them.
 *
 *     list_passes    --pass or the file of the recipe: parsed, each checked by its own ready()
 *     join           one tag, one layout, one output of all passes
 *     do_chain       start() of each pass, convert_run with add_chain, finish() of each pass that started */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tools/commands/commands.h"
#include "tools/convert/recipe.h"
#include "tools/options/library_names.h"

struct run_cli {
    struct convert_options convert; /* first: the shared options */
    const char *lines[MAX_PASSES];  /* of --pass, in the order given */
    size_t n_lines;
};

/* --pass, repeatable. The line is cut into words by recipe_add_line. */
static bool take_pass(void *group, const char *value)
{
    struct run_cli *cli = group;

    if (cli->n_lines == MAX_PASSES) {
        return false;
    }
    cli->lines[cli->n_lines++] = value;
    return true;
}

/* Options of the run as a whole; those of passes stand in the text of --pass. */
static const struct opt pass_opts[] = {
    {.name = "pass",
     .value = "'PASS OPTIONS'",
     .kind = OPT_CALL,
     .call = take_pass,
     .option = "pass",
     .help =
         "a pass with its options, such as 'quantize --int8'; repeatable, done in this order; then no RECIPE is read"},
    {.name = "layout",
     .value = "auto",
     .more = layout_name,
     .kind = OPT_WORD,
     OPT_FIELD(struct run_cli, convert.write.layout),
     .help = "layout of codes in the output, as of a pass of quantize"},
};
static const struct opt_group group_pass = OPT_GROUP("Passes", pass_opts);
static const struct opt_group *const groups[] = {
    &group_pass,  &group_write, &group_write_graph, &group_write_values, &group_write_zeros, &group_gates,
    &group_known, &group_run,   &group_json,        &group_comment,      &group_report,      &group_help,
};

/* Reads one byte more than a recipe may have, so that a longer one is noticed (recipe_add_text). GO_ON or a status. */
static int read_recipe(struct app *app, struct chain *chain, const char *path)
{
    char *text = malloc(MAX_RECIPE_BYTES + 1);
    FILE *from = fopen(path, "rb");
    size_t n = 0;
    int rc;

    if (text == NULL || from == NULL) {
        rc = app_refuse(app, text == NULL ? VC_E_NOMEM : VC_E_IO, "%s: cannot be read: %s", path,
                        text == NULL ? "not enough memory" : strerror(errno));
        goto out;
    }
    n = fread(text, 1, MAX_RECIPE_BYTES + 1, from);
    rc = ferror(from) != 0 ? app_refuse(app, VC_E_IO, "%s: cannot be read: %s", path, strerror(errno))
                           : recipe_add_text(app, chain, path, text, n);
out:
    if (from != NULL) {
        (void)fclose(from);
    }
    free(text);
    return rc;
}

/* ---- the command ---- */

/* A struct conversion's add: all passes in their order. */
static enum vc_status add_chain(struct vc_ctx *ctx, struct vc_job *job, const struct vc_model *model, void *user)
{
    const struct chain *chain = user;
    enum vc_status status = VC_OK;

    for (size_t i = 0; status == VC_OK && i < chain->n; i++) {
        status = chain->pass[i].what.add(ctx, job, model, chain->pass[i].what.user);
    }
    return status;
}

/* Joins what the passes say of the output: the tag of its name, the layout that one of them asked for. A pass is told
 * of --force, since distill writes files of its own. The tag joins those of the passes: "pruned.int8". GO_ON or a
 * status. */
static int join(struct app *app, struct chain *chain, struct convert_options *convert, struct conversion *what)
{
    size_t n = 0;

    for (size_t i = 0; i < chain->n; i++) {
        struct convert_options *own = chain->pass[i].cli;
        const char *tag = chain->pass[i].what.tag;

        own->write.force = convert->write.force;
        own->write.force_foreign = convert->write.force_foreign;
        what->beside = what->beside != NULL ? what->beside : chain->pass[i].what.beside;
        what->more_tensors = what->more_tensors || chain->pass[i].what.more_tensors;
        what->pairs = what->pairs || chain->pass[i].what.pairs;
        what->onnx_rows = what->onnx_rows || chain->pass[i].what.onnx_rows;
        if (n < sizeof(chain->tag)) {
            n += (size_t)snprintf(chain->tag + n, sizeof(chain->tag) - n, "%s%s", i == 0 ? "" : ".", tag);
        }
        /* passes, and run itself, may name the layout; all that do must agree */
        if (own->write.layout != NULL && convert->write.layout != NULL &&
            strcmp(own->write.layout, convert->write.layout) != 0) {
            return app_usage(app, "the file has one layout, but passes ask for %s and %s", convert->write.layout,
                             own->write.layout);
        }
        convert->write.layout = own->write.layout != NULL ? own->write.layout : convert->write.layout;
    }
    what->decodes = chain->n != 0 && chain->pass[0].what.decodes;
    what->requantizes = chain->n != 0 && chain->pass[0].what.requantizes;
    if (chain->n > what->decodes) {
        what->merge = chain->pass[what->decodes].what.merge;
        what->merge_user = chain->pass[what->decodes].what.merge_user;
    }
    what->tag = chain->tag;
    return GO_ON;
}

/* With --pass all operands are inputs; else the first is the recipe, and it is taken from the operands. GO_ON or a
 * status. */
static int list_passes(struct app *app, const struct run_cli *cli, struct chain *chain)
{
    int rc = GO_ON;

    for (size_t i = 0; rc == GO_ON && i < cli->n_lines; i++) {
        rc = recipe_add_line(app, chain, "--pass", cli->lines[i], strlen(cli->lines[i]));
    }
    if (cli->n_lines != 0) {
        return rc == GO_ON && chain->n == 0 ? app_usage(app, "--pass: holds no pass") : rc;
    }
    if (app->parsed.n_args < 2) {
        return app_usage(app, "run needs a RECIPE and an INPUT, or --pass and an INPUT; see vcompress run --help");
    }
    rc = read_recipe(app, chain, app->parsed.args[0]);
    app->parsed.args++;
    app->parsed.n_args--;
    return rc;
}

/* Does the chain to every input, and lets passes begin and end what all inputs share: a log. Only passes whose start()
 * was called are finished. Returns the exit status. */
static int do_chain(struct app *app, struct chain *chain, struct convert_options *convert,
                    const struct conversion *what)
{
    int rc = GO_ON;
    size_t n = 0;

    for (; rc == GO_ON && n < chain->n; n++) {
        const struct chain_pass *pass = &chain->pass[n];

        rc = pass->row->start != NULL ? pass->row->start(app, pass->cli, convert->write.dry_run) : GO_ON;
    }
    rc = rc == GO_ON ? convert_run(app, convert, what) : rc;
    for (size_t i = 0; i < n; i++) {
        const struct chain_pass *pass = &chain->pass[i];

        rc = pass->row->finish != NULL ? pass->row->finish(app, pass->cli, rc) : rc;
    }
    return rc;
}

/* The chain is large (MAX_PASSES structures with their words), so it is not on the stack. */
static int run_run(struct app *app, int n_args, char **args)
{
    struct run_cli cli = {.convert = {.n_rules = 0}};
    struct chain *chain = calloc(1, sizeof(*chain));
    struct conversion what = {.add = add_chain, .user = chain};

    if (chain == NULL) {
        return app_refuse(app, VC_E_NOMEM, "not enough memory for the passes");
    }
    convert_defaults(&cli.convert);
    int rc = app_parse(app, n_args, args, &cli);
    rc = rc == GO_ON ? list_passes(app, &cli, chain) : rc;
    rc = rc == GO_ON ? join(app, chain, &cli.convert, &what) : rc;
    rc = rc == GO_ON ? do_chain(app, chain, &cli.convert, &what) : rc;
    chain_free(chain);
    return rc;
}

const struct command command_run = {
    .name = "run",
    .usage = "(RECIPE | --pass 'PASS OPTIONS' ...) [options] INPUT... [-o OUTPUT | -d DIR]",
    .summary = "do several passes in one run",
    .text =
        "Reads the input once, applies the passes in order to every tensor, and writes the output once, with the same "
        "bytes as the passes run one by one through files. The plan of all passes is checked before the first weights "
        "are written; the report has the steps of each tensor, and the error of the whole chain. A RECIPE is a text "
        "file with one pass per line, as on the command line; # begins a comment. Options of the input, the output "
        "and the run belong to run, not to a pass. After prune, distill trains the pruned model, with the input as "
        "its teacher; no intermediate file is written.\n"
        "  vcompress run --pass 'prune --sparsity 0.5' --pass 'quantize --int8' \\\n"
        "    model.npz -o small.npz\n"
        "  vcompress run --pass 'prune --sparsity 0.9' \\\n"
        "    --pass 'distill --data rows.npz --keep-sparsity' \\\n"
        "    --pass 'quantize --int8' net.onnx -o small.onnx\n"
        "  vcompress run recipe.txt model.npz -o small.npz",
    .first = "pass output output-dir force dry-run min-sqnr max-bytes json",
    OPT_GROUPS(groups),
    .args = "FILE",
    .schema = "vcompress.report/1",
    .run = run_run,
};
