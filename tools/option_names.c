/* option_names.c - what the library's sentences call the options: by the command's name of the option that fills the
 * field, found in the tables of options. "max_bytes" is filled by the row of --max-bytes, so a sentence about it says
 * "--max-bytes allows 1024". */
#include <string.h>

#include <vcompress/context.h>

#include "tools/options.h"

#define MAX_NAMES 160

/* Filled before the first use, then only read: the library asks from any thread, and keeps what it gets. */
static struct {
    const char *field; /* "max_bytes", "include=false" */
    char name[32];     /* "--max-bytes", "--exclude" */
} names[MAX_NAMES];
static size_t n_names;

static const char *find(const char *field)
{
    if (strcmp(field, "vc_index_write") == 0) {
        return "'vcompress index'";
    }
    for (size_t i = 0; i < n_names; i++) {
        if (strcmp(names[i].field, field) == 0) {
            return names[i].name;
        }
    }
    return NULL;
}

/* "quantize.min_elems" of a command's structure is "min_elems" of the library's. */
static const char *last_name(const char *member)
{
    const char *point = strrchr(member, '.');

    return point != NULL ? point + 1 : member;
}

static void add(const struct opt *opt)
{
    const char *field = opt->option != NULL ? last_name(opt->option) : NULL;

    if (field == NULL || find(field) != NULL || n_names == MAX_NAMES) {
        return;
    }
    names[n_names].field = field;
    if (opt->by_letter) {
        snprintf(names[n_names].name, sizeof(names[n_names].name), "-%c", opt->letter);
    } else {
        snprintf(names[n_names].name, sizeof(names[n_names].name), "--%s", opt->name);
    }
    n_names++;
}

static void add_command(const struct command *command)
{
    for (size_t g = 0; g < command->n_groups; g++) {
        for (size_t i = 0; i < command->groups[g]->n_opts; i++) {
            add(&command->groups[g]->opts[i]);
        }
    }
}

/* The other commands' options, too: what a sentence advises may be the work of another command. */
void option_names_set(struct vc_ctx *ctx, const struct command *command)
{
    add_command(command);
    for (size_t i = 0; i < n_commands; i++) {
        add_command(commands[i]);
    }
    vc_ctx_set_option_names(ctx, find);
}
