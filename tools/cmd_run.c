/* cmd_run.c - vcompress run: several passes in one job. A pass is a line of words as on the command line, given by
 * --pass or in a recipe, a text file with one pass per line:
 *
 *     # half of the weights, then codes for the others
 *     prune --sparsity 0.5
 *     quantize --int8 --exclude 'lm_head*'
 *
 * What is read and written belongs to `run`; lines have only what their passes do. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tools/commands.h"
#include "tools/passes.h"
#include "tools/words.h"

#define MAX_PASSES       32
#define MAX_RECIPE_BYTES ((size_t)64 << 10)
#define TAG_BYTES        256

/* One line, parsed. */
struct chain_pass {
    const struct pass_row *row;
    void *cli;
    struct words words; /* the options point into them */
    struct conversion what;
};

struct chain {
    size_t n;
    struct chain_pass pass[MAX_PASSES];
    char tag[TAG_BYTES]; /* "pruned.int8" */
};

struct run_cli {
    struct convert_options convert; /* first: the shared options */
    const char *lines[MAX_PASSES];
    size_t n_lines;
};

static bool take_pass(void *group, const char *value)
{
    struct run_cli *cli = group;

    if (cli->n_lines == MAX_PASSES) {
        return false;
    }
    cli->lines[cli->n_lines++] = value;
    return true;
}

static const struct opt pass_opts[] = {
    {.name = "pass",
     .value = "'PASS OPTIONS'",
     .kind = OPT_CALL,
     .call = take_pass,
     .option = "pass",
     .help =
         "a pass with its options, such as 'quantize --int8'; repeatable, done in this order; then no RECIPE is read"},
};
static const struct opt_group group_pass = {"Passes", pass_opts, 1, 0};
static const struct opt_group *const groups[] = {
    &group_pass, &group_write_pruned, &group_run, &group_json, &group_report, &group_help,
};

/* ---- lines ---- */

/* Which group of the command has this option. */
static const struct opt_group *group_of(const struct command *command, const struct opt *opt)
{
    for (size_t g = 0; g < command->n_groups; g++) {
        const struct opt_group *group = command->groups[g];

        if (opt >= group->opts && opt < group->opts + group->n_opts) {
            return group;
        }
    }
    return NULL;
}

static bool belongs_to_run(const struct opt_group *group)
{
    return group == &group_write || group == &group_write_pruned || group == &group_run || group == &group_json ||
           group == &group_report || group == &group_help;
}

/* Lists the passes that there are. */
static int refuse_name(struct app *app, const char *where, const char *name)
{
    char all[160] = "";
    size_t n = 0;

    for (size_t i = 0; pass_rows[i] != NULL && n < sizeof(all); i++) {
        const char *join = i == 0 ? "" : pass_rows[i + 1] != NULL ? ", " : " and ";

        n += (size_t)snprintf(all + n, sizeof(all) - n, "%s%s", join, pass_rows[i]->command->name);
    }
    return app_usage(app, "%s: '%s' is no pass; there are %s", where, name, all);
}

/* The words of a line as a pass. `where` begins the sentences: "recipe.txt:3". app->command and app->parsed are those
 * of the line meanwhile, so that the pass's own checks work. */
static int parse_pass(struct app *app, const char *where, struct chain_pass *pass)
{
    struct words *words = &pass->words;

    pass->row = pass_find(words->word[0]);
    if (pass->row == NULL) {
        return refuse_name(app, where, words->word[0]);
    }
    pass->cli = pass_options_create(pass->row);
    if (pass->cli == NULL) {
        return app_refuse(app, VC_E_NOMEM, "not enough memory for the options");
    }
    app->command = pass->row->command;
    switch (options_parse(app->command, words->n - 1, words->word + 1, pass->cli, &app->parsed)) {
    case PARSE_OK:
        break;
    case PARSE_HELP:
        return app_usage(app, "%s: --help is no option of a pass in a chain", where);
    case PARSE_ERROR:
        return app_usage(app, "%s: %s", where, app->parsed.error);
    }
    if (app->parsed.n_args != 0) {
        return app_usage(app, "%s: '%s' is no option; what is read and written belongs to run", where,
                         app->parsed.args[0]);
    }
    for (size_t i = 0; i < app->parsed.n_seen; i++) {
        if (belongs_to_run(group_of(app->command, app->parsed.seen[i]))) {
            return app_usage(app, "%s: --%s belongs to run, not to a pass", where, app->parsed.seen[i]->name);
        }
    }
    pass->what = (struct conversion){.add = pass->row->add, .user = pass->cli};
    app->where = where;
    return pass->row->ready(app, pass->cli, &pass->what);
}

/* Adds a line to the chain; a line without words is none. GO_ON or a status. */
static int add_line(struct app *app, struct chain *chain, const char *where, const char *line, size_t n)
{
    const struct command *command = app->command;
    const struct parsed parsed = app->parsed;
    struct chain_pass *pass = &chain->pass[chain->n];
    int rc;

    if (chain->n == MAX_PASSES) {
        return app_usage(app, "%s: more than %d passes", where, MAX_PASSES);
    }
    *pass = (struct chain_pass){.row = NULL};
    if (!words_cut(line, n, &pass->words)) {
        rc = app_usage(app, "%s: %s", where, pass->words.error);
        words_free(&pass->words);
        return rc;
    }
    if (pass->words.n == 0) {
        words_free(&pass->words);
        return GO_ON;
    }
    chain->n++;
    rc = parse_pass(app, where, pass);
    app->where = NULL;
    app->command = command;
    app->parsed = parsed;
    return rc;
}

static void chain_free(struct chain *chain)
{
    for (size_t i = 0; i < chain->n; i++) {
        if (chain->pass[i].row != NULL) {
            pass_options_free(chain->pass[i].row, chain->pass[i].cli);
        }
        words_free(&chain->pass[i].words);
    }
    free(chain);
}

/* ---- recipes ---- */

static int read_recipe(struct app *app, struct chain *chain, const char *path)
{
    char *text = malloc(MAX_RECIPE_BYTES + 1);
    FILE *from = fopen(path, "rb");
    size_t n = 0;
    size_t line = 1;
    int rc = GO_ON;

    if (text == NULL || from == NULL) {
        rc = app_refuse(app, text == NULL ? VC_E_NOMEM : VC_E_IO, "%s: cannot be read: %s", path,
                        text == NULL ? "not enough memory" : strerror(errno));
        goto out;
    }
    n = fread(text, 1, MAX_RECIPE_BYTES + 1, from);
    if (ferror(from) != 0) {
        rc = app_refuse(app, VC_E_IO, "%s: cannot be read: %s", path, strerror(errno));
    } else if (n > MAX_RECIPE_BYTES || memchr(text, '\0', n) != NULL) {
        rc = app_usage(app, "%s: is no recipe, which is a text of at most %zu bytes with a pass per line", path,
                       MAX_RECIPE_BYTES);
    }
    for (char *at = text; rc == GO_ON && at < text + n; line++) {
        char *end = memchr(at, '\n', (size_t)(text + n - at));
        char where[512];

        end = end != NULL ? end : text + n;
        (void)snprintf(where, sizeof(where), "%s:%zu", path, line);
        rc = add_line(app, chain, where, at, (size_t)(end - at));
        at = end + 1;
    }
    if (rc == GO_ON && chain->n == 0) {
        rc = app_usage(app, "%s: has no pass", path);
    }
out:
    if (from != NULL) {
        (void)fclose(from);
    }
    free(text);
    return rc;
}

/* ---- the command ---- */

/* A struct conversion's add: all passes in their order. */
static enum vc_status add_chain(struct vc_ctx *ctx, struct vc_job *job, void *user)
{
    const struct chain *chain = user;
    enum vc_status status = VC_OK;

    for (size_t i = 0; status == VC_OK && i < chain->n; i++) {
        status = chain->pass[i].what.add(ctx, job, chain->pass[i].what.user);
    }
    return status;
}

/* Joins what the passes say of the output: the tag of its name, the layout that one of them asked for. */
static int join(struct app *app, struct chain *chain, struct convert_options *convert, struct conversion *what)
{
    size_t n = 0;

    for (size_t i = 0; i < chain->n; i++) {
        const struct convert_options *own = chain->pass[i].cli;
        const char *tag = chain->pass[i].what.tag;

        what->beside = what->beside != NULL ? what->beside : chain->pass[i].what.beside;
        what->more_tensors = what->more_tensors || chain->pass[i].what.more_tensors;
        if (n < sizeof(chain->tag)) {
            n += (size_t)snprintf(chain->tag + n, sizeof(chain->tag) - n, "%s%s", i == 0 ? "" : ".", tag);
        }
        if (own->write.layout != NULL && convert->write.layout != NULL &&
            strcmp(own->write.layout, convert->write.layout) != 0) {
            return app_usage(app, "the file has one layout, but passes ask for %s and %s", convert->write.layout,
                             own->write.layout);
        }
        convert->write.layout = own->write.layout != NULL ? own->write.layout : convert->write.layout;
    }
    what->tag = chain->tag;
    return GO_ON;
}

static int list_passes(struct app *app, const struct run_cli *cli, struct chain *chain)
{
    int rc = GO_ON;

    for (size_t i = 0; rc == GO_ON && i < cli->n_lines; i++) {
        rc = add_line(app, chain, "--pass", cli->lines[i], strlen(cli->lines[i]));
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

static int run_run(struct app *app, int n_args, char **args)
{
    struct run_cli cli = {.convert = {.n_rules = 0}};
    struct chain *chain = calloc(1, sizeof(*chain));
    struct conversion what = {.add = add_chain, .user = chain};
    int rc;

    if (chain == NULL) {
        return app_refuse(app, VC_E_NOMEM, "not enough memory for the passes");
    }
    convert_defaults(&cli.convert);
    rc = app_parse(app, n_args, args, &cli);
    rc = rc == GO_ON ? list_passes(app, &cli, chain) : rc;
    rc = rc == GO_ON ? join(app, chain, &cli.convert, &what) : rc;
    rc = rc == GO_ON ? convert_run(app, &cli.convert, &what) : rc;
    chain_free(chain);
    return rc;
}

const struct command command_run = {
    .name = "run",
    .usage = "(RECIPE | --pass 'PASS OPTIONS' ...) [options] INPUT... [-o OUTPUT | -d DIR]",
    .summary = "do several passes in one run",
    .text =
        "Reads the input once, does the passes one after the other to every tensor, and writes the output once: the "
        "bytes are those of the passes run one by one through files. The plan of all passes is checked before the "
        "first weights are written; the report has the steps of each tensor, and the error of the whole chain. A "
        "RECIPE is "
        "a text file with one pass per line, as on the command line; # begins a comment. Options of the input, the "
        "output and the run stand behind run, not in a pass.\n"
        "  vcompress run --pass 'prune --sparsity 0.5' --pass 'quantize --int8' model.npz -o small.npz\n"
        "  vcompress run recipe.txt model.npz -o small.npz",
    .groups = groups,
    .n_groups = sizeof(groups) / sizeof(groups[0]),
    .args = "FILE",
    .schema = "vcompress.report/1",
    .run = run_run,
};
