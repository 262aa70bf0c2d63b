/* possible.c - see possible.h.
 *
 *     "vcompress quantize --int8 m.npz"  ->  quantize --quiet --dry-run --max-memory N --int8 m.npz
 *
 * run as a call (call.h) in this process: exit status 0 is a yes. */
#include "tools/possible.h"

#include <stdlib.h>
#include <string.h>

#define MORE_WORDS 6

/* Commands that write nothing have no --dry-run and are run as they are. */
static bool has_option(const struct command *command, const char *name)
{
    for (size_t g = 0; g < command->n_groups; g++) {
        for (size_t k = 0; k < command->groups[g]->n_opts; k++) {
            if (strcmp(command->groups[g]->opts[k].name, name) == 0) {
                return true;
            }
        }
    }
    return false;
}

/* Runs the n words behind "vcompress", with the options of a dry run behind the command's name, so that operands stay
 * last. */
static bool dry_run(const struct app *app, char **given, int n_given, uint64_t most_bytes)
{
    const struct command *command = command_find(given[0]);
    char *words[MAX_WORDS + MORE_WORDS];
    char most[32], memory[32];
    struct vcompress_call call = {.words = words};
    static char quiet[] = "--quiet";
    static char dry[] = "--dry-run";
    static char max_bytes[] = "--max-bytes";
    static char max_memory[] = "--max-memory";

    if (command == NULL || strcmp(given[n_given - 1], "-") == 0) {
        return false;
    }
    words[call.n_words++] = given[0];
    words[call.n_words++] = quiet;
    if (has_option(command, "dry-run")) {
        words[call.n_words++] = dry;
    }
    if (most_bytes != 0) {
        snprintf(most, sizeof most, "%llu", (unsigned long long)most_bytes);
        words[call.n_words++] = max_bytes;
        words[call.n_words++] = most;
    }
    if (app->common.max_memory != 0) {
        snprintf(memory, sizeof memory, "%llu", (unsigned long long)app->common.max_memory);
        words[call.n_words++] = max_memory;
        words[call.n_words++] = memory;
    }
    for (int k = 1; k < n_given; k++) {
        words[call.n_words++] = given[k];
    }
    vcompress_call_run(&call);
    vcompress_call_end(&call);
    return call.status == EXIT_YES;
}

bool line_is_possible(const struct app *app, const char *line, uint64_t most_bytes)
{
    char *flat = strdup(line);
    struct words words = {.text = NULL};
    bool ok = flat != NULL;

    /* no quoted word holds a line break: vc_shell_word writes it as \012 */
    for (char *at = flat; at != NULL && (at = strstr(at, "\\\n")) != NULL; at += 2) {
        at[0] = at[1] = ' ';
    }
    ok = ok && words_cut(flat, strlen(flat), &words) && words.n >= 3;
    ok = ok && dry_run(app, words.word + 1, words.n - 1, most_bytes);
    words_free(&words);
    free(flat);
    return ok;
}
