/* cmd_help.c - vcompress help: what a command does, the manual page, and the schemas of documents.
 *
 * What a page or a completion has of a command comes from the same tables (help.c, help_options.c); schemas come from
 * the library. */

#include "tools/app.h"
#include "tools/commands/commands.h"

/* The options of the command. */
struct help_cli {
    struct base_options base;
    bool man, options;  /* the switches of their names */
    const char *schema; /* of --schema; NULL: none */
};

/* clang-format off */
static const struct opt help_opts[] = {
    {.name = "man", .kind = OPT_BOOL, .set = 1, .field = offsetof(struct help_cli, man),
     .conflicts = "options schema", .help = "print the manual page (roff) of all commands, or of COMMAND"},
    {.name = "options", .kind = OPT_BOOL, .set = 1, .field = offsetof(struct help_cli, options),
     .conflicts = "schema", .help = "print all commands with their options as JSON, for programs"},
    {.name = "schema", .value = "DOCUMENT", .kind = OPT_TEXT, .field = offsetof(struct help_cli, schema),
     .help = "print the JSON Schema of a document that a command prints with --json: report, fit, ..."},
};
/* clang-format on */
static const struct opt_group group_man = OPT_GROUP("Options", help_opts);

/* The JSON Schema of a document, by its name. Returns the exit status. */
static int print_schema(struct app *app, const char *name)
{
    char *text = NULL;

    GO(app_open(app));
    enum vc_status status = vc_schema_json(app->ctx, name, &text);
    if (status != VC_OK) {
        return app_fail(app, status);
    }
    fputs(text, stdout);
    vc_text_free(text);
    return EXIT_YES;
}

/* Nothing here but --schema needs a context. */
static int run_help(struct app *app, int n_args, char **args)
{
    struct help_cli cli = {.man = false};
    int rc = app_parse(app, n_args, args, &cli);

    GO(rc);
    if ((cli.options || cli.schema != NULL) && app->parsed.n_args != 0) {
        return app_usage(app, "--%s takes no COMMAND, got '%s'", cli.options ? "options" : "schema",
                         app->parsed.args[0]);
    }
    if (cli.man && app->parsed.n_args > 1) {
        return app_usage(app, "--man takes one COMMAND at most, got %d", app->parsed.n_args);
    }
    if (cli.man && app->parsed.n_args == 1 && command_find(app->parsed.args[0]) != NULL) {
        help_man_of(stdout, command_find(app->parsed.args[0]));
        return EXIT_YES;
    }
    if (cli.man && app->parsed.n_args == 0) {
        help_man(stdout);
        return EXIT_YES;
    }
    if (cli.options) {
        help_tables(stdout);
        return EXIT_YES;
    }
    if (cli.schema != NULL) {
        return print_schema(app, cli.schema);
    }
    if (app->parsed.n_args == 0) {
        help_overview(stdout);
        return EXIT_YES;
    }
    if (app->parsed.n_args > 2) {
        return app_usage(app, "help takes a COMMAND and a PART; see vcompress help --help");
    }
    const struct command *command = command_find(app->parsed.args[0]);
    if (command == NULL) {
        return app_usage(app, "no help for '%s': it is no command; see vcompress --help", app->parsed.args[0]);
    }
    return help_command(app, command, app->parsed.n_args == 2 ? app->parsed.args[1] : NULL);
}

static const struct opt_group *const groups[] = {&group_man, &group_help};

const struct command command_help = {
    .name = "help",
    .usage = "[COMMAND [PART]]",
    .summary = "explain a command",
    OPT_GROUPS(groups),
    .args = "COMMAND",
    .run = run_help,
};
