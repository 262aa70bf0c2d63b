/* option_names.c - what the library's sentences call the options: by the command's name of the option that fills the
 * field, found in the tables of options. "max_bytes" is filled by the row of --max-bytes, so a sentence about it says
 * "--max-bytes allows 1024". Nothing is prepared: a sentence that names an option looks for it when it is made. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <vcompress/context.h>

#include "tools/options/options.h"

static _Atomic(const struct command *) own; /* whose options are looked for first */

/* The names that sentences asked for. The library asks from any thread and keeps what it gets, so they stay. */
static struct said {
    struct said *next;
    const struct opt *opt;
    char text[]; /* "--max-bytes", "-o" */
} * said;
static pthread_mutex_t said_lock = PTHREAD_MUTEX_INITIALIZER;

/* "quantize.min_elems" of a command's structure is "min_elems" of the library's, "distill.optimizer.lr" "optimizer.lr".
 */
static bool is_field(const char *member, const char *field)
{
    size_t n_member = strlen(member);
    size_t n_field = strlen(field);
    size_t at = n_member - n_field;

    return n_member >= n_field && strcmp(member + at, field) == 0 && (at == 0 || member[at - 1] == '.');
}

/* The first row of the command that fills the field. */
static const struct opt *find_in(const struct command *command, const char *field)
{
    for (size_t g = 0; g < command->n_groups; g++) {
        for (size_t i = 0; i < command->groups[g]->n_opts; i++) {
            const struct opt *opt = &command->groups[g]->opts[i];

            if (opt->option != NULL && is_field(opt->option, field)) {
                return opt;
            }
        }
    }
    return NULL;
}

/* The other commands' options, too: what a sentence advises may be the work of another command. */
static const struct opt *find(const char *field)
{
    const struct opt *opt = find_in(own, field);

    for (size_t i = 0; opt == NULL && i < n_commands; i++) {
        opt = find_in(commands[i], field);
    }
    return opt;
}

/* With said_lock held. NULL: there is no memory; the sentence then has the field's name. */
static const char *say(const struct opt *opt)
{
    const char letter[2] = {opt->letter, '\0'};
    const char *name = opt->by_letter ? letter : opt->name;
    struct said *entry = said;

    while (entry != NULL && entry->opt != opt) {
        entry = entry->next;
    }
    if (entry != NULL) {
        return entry->text;
    }
    size_t size = strlen(name) + sizeof "--";
    entry = malloc(sizeof *entry + size);
    if (entry == NULL) {
        return NULL;
    }
    snprintf(entry->text, size, "%s%s", opt->by_letter ? "-" : "--", name);
    entry->opt = opt;
    entry->next = said;
    said = entry;
    return entry->text;
}

/* The name for a sentence; NULL: no option fills that field, and the sentence has the field's own name. */
static const char *option_name(const char *field)
{
    if (strcmp(field, "vc_index_write") == 0) {
        return "'vcompress index'";
    }
    const struct opt *opt = find(field);
    if (opt == NULL) {
        return NULL;
    }
    pthread_mutex_lock(&said_lock);
    const char *text = say(opt);
    pthread_mutex_unlock(&said_lock);
    return text;
}

/* Options of the command at hand come first: two commands may call a field by different names. */
void option_names_set(struct vc_ctx *ctx, const struct command *command)
{
    own = command;
    vc_ctx_set_option_names(ctx, option_name);
}
