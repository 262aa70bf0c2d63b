/* gates.c - the file of --gates: the gates of a pipeline in one place, by the names of their options. The library reads the
 * file and gives options (vc_gates_read); which of them are gates says the row of each (struct opt).
 *
 *     {"min_sqnr": 40, "evaluate": {"min_accuracy": 0.98}}      for quantize: --min-sqnr=40 evaluate
 *                                                               for evaluate: --min-sqnr=40 --min-accuracy=0.98
 *
 * Names of other commands are given as words without dashes, so that a misspelled command is noticed. */
#include <string.h>

#include "tools/app.h"

/* The gates of a command for a sentence, cut where room is full: "max-bytes, min-ratio, min-sqnr". */
static void list_gates(const struct command *command, char *list, size_t room)
{
    size_t n = 0;

    list[0] = '\0';
    for (size_t g = 0; g < command->n_groups; g++) {
        for (size_t i = 0; i < command->groups[g]->n_opts && n < room; i++) {
            const struct opt *opt = &command->groups[g]->opts[i];

            if (opt->gate) {
                n += (size_t)snprintf(list + n, room - n, "%s%s", n == 0 ? "" : ", ", opt->name);
            }
        }
    }
}

/* Moves the words that count to the front, and tells how many; *wrong: one that is neither a gate nor another command.
 * A gate that the command line has already is left out: the line counts. A gate that another command has is wrong here
 * unless it stands under that command's name. */
static int keep_gates(const struct app *app, char **words, int n, const char **wrong)
{
    int kept = 0;

    for (int i = 0; i < n; i++) {
        bool named = strncmp(words[i], "--", 2) == 0;
        const struct opt *opt = named ? options_find(app->command, words[i] + 2, strcspn(words[i] + 2, "=")) : NULL;

        if (named ? opt == NULL || !opt->gate : command_find(words[i]) == NULL) {
            *wrong = words[i];
        } else if (named && !options_seen(&app->parsed, opt->name)) {
            words[kept++] = words[i];
        }
    }
    return kept;
}

/* Fills app->gates. GO_ON or a status. */
static int read_words(struct app *app, const char *path)
{
    struct vc_ctx *ctx = NULL;
    char *text = NULL;
    enum vc_status status = vc_ctx_create(&ctx); /* of its own: that of the command is made with the options */
    int rc = GO_ON;

    if (ctx != NULL) {
        status = vc_gates_read(ctx, path, app->command->name, &text);
    }
    if (status != VC_OK) {
        rc = app_refuse(app, status, "--gates %s", ctx != NULL ? vc_ctx_message(ctx) : "no memory");
    } else if (!words_cut(text, strlen(text), &app->gates)) {
        rc = app_refuse(app, VC_E_FORMAT, "--gates %s: %s", path, app->gates.error);
    }
    vc_text_free(text);
    vc_ctx_free(ctx);
    return rc;
}

int gates_read(struct app *app, void *options)
{
    const char *path = ((struct base_options *)options)->common.gates;
    const char *wrong = NULL;
    char list[400];
    int n;

    if (path == NULL) {
        return GO_ON;
    }
    GO(read_words(app, path));
    n = keep_gates(app, app->gates.word, app->gates.n, &wrong);
    if (wrong != NULL && wrong[0] != '-') {
        return app_usage(app, "--gates %s: '%s' is no command", path, wrong);
    }
    if (wrong != NULL) {
        list_gates(app->command, list, sizeof list);
        return app_usage(app, "--gates %s: '%.*s' is no gate of %s; there are %s", path, (int)strcspn(wrong + 2, "="),
                         wrong + 2, app->command->name, list);
    }
    if (options_parse_more(app->command, n, app->gates.word, options, &app->parsed) != PARSE_OK) {
        return app_usage(app, "--gates %s: %s", path, app->parsed.error);
    }
    return GO_ON;
}
