/* recipe.c - see recipe.h. A line of a recipe is parsed by the tables of its command, with app->command and app->parsed
 * set to that line, so that a pass needs no code of its own for recipes. */
#include "tools/convert/recipe.h"

#include <stdlib.h>
#include <string.h>

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

/* Options of these groups are about input, output and the run as a whole, which a line of a recipe cannot decide. */
static bool belongs_to_run(const struct opt_group *group)
{
    return group == &group_write || group == &group_write_values || group == &group_write_zeros ||
           group == &group_write_graph || group == &group_run || group == &group_gates || group == &group_json ||
           group == &group_page || group == &group_comment || group == &group_report || group == &group_help ||
           group == &group_distill_output;
}

/* Refuses a line that begins with no name of a pass, and lists the names. Returns the exit status. */
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
 * of the line meanwhile, so that the pass's own checks work. GO_ON or a status. */
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
        return app_usage(app, "%s: '%s' is no option; input and output belong to run", where, app->parsed.args[0]);
    }
    /* options that are no business of a pass */
    for (size_t i = 0; i < app->parsed.n_seen; i++) {
        if (belongs_to_run(group_of(app->command, app->parsed.seen[i]))) {
            return app_usage(app, "%s: --%s belongs to run, not to a pass", where, app->parsed.seen[i]->name);
        }
    }
    if (!options_agree(&app->parsed)) {
        return app_usage(app, "%s: %s", where, app->parsed.error);
    }
    if (files_add(app, &app->parsed, app->command) != GO_ON) {
        return EXIT_SYSTEM;
    }
    pass->what = (struct conversion){.add = pass->row->add, .user = pass->cli};
    app->where = where;
    return pass->row->ready(app, pass->cli, &pass->what);
}

/* A line without words does not count. The words stay in the chain: options point to them. */
int recipe_add_line(struct app *app, struct chain *chain, const char *where, const char *line, size_t n)
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

/* Lines are numbered from 1. A last line need not end. */
int recipe_add_text(struct app *app, struct chain *chain, const char *name, const char *text, size_t n)
{
    const char *end = text + n;
    size_t line = 1;
    int rc = GO_ON;

    if (n > MAX_RECIPE_BYTES || memchr(text, '\0', n) != NULL) {
        return app_usage(app, "%s: is no recipe, which is a text of at most %zu bytes with a pass per line", name,
                         MAX_RECIPE_BYTES);
    }
    for (const char *at = text; rc == GO_ON && at < end; line++) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        char where[512];

        /* the last line may have no end */
        stop = stop != NULL ? stop : end;
        (void)snprintf(where, sizeof(where), "%s:%zu", name, line);
        rc = recipe_add_line(app, chain, where, at, (size_t)(stop - at));
        at = stop < end ? stop + 1 : end;
    }
    return rc == GO_ON && chain->n == 0 ? app_usage(app, "%s: has no pass", name) : rc;
}

/* The passes of the chain, each with its own options. */
void chain_free(struct chain *chain)
{
    for (size_t i = 0; i < chain->n; i++) {
        if (chain->pass[i].row != NULL) {
            pass_options_free(chain->pass[i].row, chain->pass[i].cli);
        }
        words_free(&chain->pass[i].words);
    }
    free(chain);
}
