/* help_options.c - the tables of options for programs: vcompress help --options.
 *
 *     [{"command": "quantize", "usage": "...", "summary": "store weights ...", "json": true, "options": [
 *       {"name": "int8", "group": "Target (exactly one)", "kind": "flag", ... "needs": null, "conflicts": null, "help": "..."},
 *
 * The order is that of --help=all. */
#include <string.h>

#include "tools/app.h"

/* What kind of value the option takes, for programs that make arguments of it: "value" is a text that only the command
 * can judge. */
static const char *kind_of(const struct opt *opt)
{
    if (options_value(opt) == NULL) {
        return "flag";
    }
    switch (opt->kind) {
    case OPT_CHOICE:
    case OPT_WORD:
        return "word";
    case OPT_COUNT:
        return "count";
    case OPT_INT:
        return "int";
    case OPT_REAL:
    case OPT_ABOVE_0:
        return "real";
    case OPT_SIZE:
        return "size";
    case OPT_TEXT:
        return "text";
    case OPT_CALL: /* what may be given several times, too */
    case OPT_BOOL:
    case OPT_MORE:
    case OPT_ENUM:
    case OPT_HELP:
        break;
    }
    return "value";
}

/* , "name": "text", or null. */
static void put_member(FILE *to, const char *name, const char *text)
{
    fprintf(to, ", \"%s\": ", name);
    if (text != NULL) {
        print_json_text(to, text);
    } else {
        fputs("null", to);
    }
}

static void put_word(FILE *to, const char *word, size_t n, size_t *count)
{
    fprintf(to, "%s\"%.*s\"", (*count)++ == 0 ? "" : ", ", (int)n, word);
}

/* "a|b" and what the library lists behind, as a list; of any other value an empty one. */
static void put_words(FILE *to, const struct opt *opt)
{
    size_t count = 0;

    fputs(", \"words\": [", to);
    if (options_has_words(opt)) {
        for (const char *at = options_value(opt); *at != '\0';
             at += at[strcspn(at, "|")] == '|' ? strcspn(at, "|") + 1 : strcspn(at, "|")) {
            put_word(to, at, strcspn(at, "|"), &count);
        }
    }
    fputs("]", to);
}

/* One option as an object. */
static void put_option(FILE *to, const char *group, const struct opt *opt, bool first)
{
    fprintf(to, "%s\n  {\"name\": ", first ? "" : ",");
    print_json_text(to, opt->name);
    put_member(to, "group", group);
    put_member(to, "kind", kind_of(opt));
    put_member(to, "value", options_value(opt));
    put_words(to, opt);
    fprintf(to, ", \"optional\": %s, \"gate\": %s", opt->optional ? "true" : "false", opt->gate ? "true" : "false");
    put_member(to, "needs", opt->needs);
    put_member(to, "conflicts", opt->conflicts);
    put_member(to, "help", options_help(opt));
    fputs("}", to);
}

void help_tables(FILE *to)
{
    for (size_t c = 0; c < n_commands; c++) {
        const struct command *command = commands[c];
        bool first = true;

        fputs(c == 0 ? "[" : ",\n", to);
        fputs("{\"command\": ", to);
        print_json_text(to, command->name);
        put_member(to, "usage", command->usage);
        put_member(to, "summary", command->summary);
        fprintf(to, ", \"json\": %s, \"options\": [", command->schema != NULL ? "true" : "false");
        for (size_t g = 0; g < command->n_groups; g++) {
            for (size_t i = 0; i < command->groups[g]->n_opts; i++) {
                put_option(to, command->groups[g]->title, &command->groups[g]->opts[i], first);
                first = false;
            }
        }
        fputs("]}", to);
    }
    fputs("]\n", to);
}
