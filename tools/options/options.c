/* options.c - reads a command line by the tables of options.h.
 *
 * GNU habits: options anywhere, `--` ends them, `-` is an operand, --name=value or --name value, -n value or -nvalue,
 * single letters without values may be joined. Long names are not abbreviated: a script must not change its meaning
 * when an option is added. Does not print: the sentence is left in `parsed`.
 *
 * From a word to a field of the command's structure:
 *
 *     options_parse_more   each argument: operand, "--", long or short
 *       parse_long         "--min-elements=12": the name, then its value here or in the next argument
 *       parse_letters      "-qfo FILE"
 *         apply            conflicts, then
 *           store          the value, by the kind of the row, to target + group->offset + opt->field
 *           remember       for options_seen and for commands that print command lines
 *
 * What rows say about each other (needs, conflicts) is checked at the end, by options_agree in option_rows.c. */
#include "tools/options/options.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

const struct command *command_find(const char *name)
{
    for (size_t i = 0; i < n_commands; i++) {
        if (strcmp(commands[i]->name, name) == 0) {
            return commands[i];
        }
    }
    return NULL;
}

/* ---- nearest name ---- */

#define NAME_MAX_LEN 32

/* Insertions, deletions, replacements and swaps of neighbours that turn a into b. The optimal string alignment
 * distance; d has the last three rows of the table, which is all that a swap looks back to:
 *
 *     d[i][j] = min( d[i-1][j-1] + (a_i != b_j),  d[i-1][j] + 1,  d[i][j-1] + 1,
 *                    d[i-2][j-2] + 1  if a_i a_(i-1) are b_(j-1) b_j ) */
static size_t edit_distance(const char *a, const char *b)
{
    size_t d[3][NAME_MAX_LEN + 1];
    size_t n = strlen(a);
    size_t m = strlen(b);

    if (n > NAME_MAX_LEN || m > NAME_MAX_LEN) {
        return NAME_MAX_LEN;
    }
    for (size_t j = 0; j <= m; j++) {
        d[0][j] = j;
    }
    for (size_t i = 1; i <= n; i++) {
        size_t *row = d[i % 3];
        const size_t *up = d[(i + 2) % 3];
        const size_t *up2 = d[(i + 1) % 3];

        row[0] = i;
        for (size_t j = 1; j <= m; j++) {
            size_t best = up[j - 1] + (a[i - 1] != b[j - 1]);

            best = up[j] + 1 < best ? up[j] + 1 : best;
            best = row[j - 1] + 1 < best ? row[j - 1] + 1 : best;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] && up2[j - 2] + 1 < best) {
                best = up2[j - 2] + 1;
            }
            row[j] = best;
        }
    }
    return d[n % 3][m];
}

/* Keeps the better of *best and `other`. A third of the letters may differ; a name that was cut short is near. So
 * "quantise" finds quantize, "quan" finds it too, and "foo" finds nothing. */
static void consider(const char *name, const char *other, const char **best, size_t *best_distance)
{
    size_t n = strlen(name);
    size_t distance = n >= 3 && strncmp(name, other, n) == 0 ? 1 : edit_distance(name, other);

    if (distance <= (n + 2) / 3 && distance < *best_distance) {
        *best = other;
        *best_distance = distance;
    }
}

/* For "did you mean"; NULL: none is near. */
const char *nearest_command(const char *name)
{
    const char *best = NULL;
    size_t distance = NAME_MAX_LEN;

    for (size_t i = 0; i < n_commands; i++) {
        consider(name, commands[i]->name, &best, &distance);
    }
    return best;
}

/* The option for "did you mean"; NULL: none is near. */
static const char *nearest_option(const struct command *command, const char *name)
{
    const char *best = NULL;
    size_t distance = NAME_MAX_LEN;

    for (size_t g = 0; g < command->n_groups; g++) {
        for (size_t i = 0; i < command->groups[g]->n_opts; i++) {
            consider(name, command->groups[g]->opts[i].name, &best, &distance);
        }
    }
    return best;
}

/* The name of an option's list for "did you mean"; NULL: none is near. */
static const char *nearest_listed(const struct opt *opt, const char *value)
{
    const char *best = NULL;
    const char *other;
    size_t distance = NAME_MAX_LEN;

    for (size_t i = 0; opt->listed != NULL && (other = opt->listed(i)) != NULL; i++) {
        consider(value, other, &best, &distance);
    }
    return best;
}

/* ---- values ---- */

/* Word i behind opt->value; NULL: there are no more. */
static const char *more_word(const struct opt *opt, size_t i)
{
    return opt->words != NULL ? opt->words[i].word : opt->more != NULL ? opt->more(i) : NULL;
}

/* The words are put together anew each time, in a static buffer: the library's list may be longer than the row's own
 * text. */
const char *options_value(const struct opt *opt)
{
    static char words[400];
    size_t n = 0;

    if (opt->more == NULL && opt->words == NULL) {
        return opt->value;
    }
    n = (size_t)snprintf(words, sizeof(words), "%s", opt->value != NULL ? opt->value : "");
    for (size_t i = 0; more_word(opt, i) != NULL && n < sizeof(words); i++) {
        n += (size_t)snprintf(words + n, sizeof(words) - n, "%s%s", n == 0 ? "" : "|", more_word(opt, i));
    }
    return words;
}

/* False if the list does not have the word. */
bool options_choice(const struct opt_word *words, const char *word, int *value)
{
    for (; words->word != NULL; words++) {
        if (strcmp(words->word, word) == 0) {
            *value = words->value;
            return true;
        }
    }
    return false;
}

/* Compares whole words: "int" is not "int8". */
int options_word(const char *words, const char *word)
{
    size_t n = strlen(word);

    for (int i = 0;; i++) {
        size_t len = strcspn(words, "|");

        if (len == n && memcmp(words, word, n) == 0) {
            return i;
        }
        if (words[len] == '\0') {
            return -1;
        }
        words += len + 1;
    }
}

/* Up to the first ';' that is outside of brackets: enough for the short help. */
size_t options_first_clause(const char *help)
{
    size_t depth = 0;
    size_t n = 0;

    for (; help[n] != '\0' && (help[n] != ';' || depth != 0); n++) {
        depth += help[n] == '(';
        depth -= help[n] == ')' && depth != 0;
    }
    return n;
}

/* Where a text of n bytes is cut to fit: behind its last part that ends with a comma, else between its last words;
 * never inside a parenthesis. A comma in the first third is too early: the description would say nothing. */
static size_t cut_to_fit(const char *help, size_t n)
{
    size_t depth = 0;
    size_t comma = 0;
    size_t word = 0;

    for (size_t i = 0; i < n && i < OPT_SHORT; i++) {
        word = help[i] == ' ' && depth == 0 ? i : word;
        comma = help[i] == ',' && depth == 0 && i >= OPT_SHORT / 3 ? i : comma;
        depth += help[i] == '(';
        depth -= help[i] == ')' && depth != 0;
    }
    if (n < OPT_SHORT) {
        return n;
    }
    return comma != 0 ? comma : word;
}

/* A default in parentheses at the end is left out: lists show words, not values. */
const char *options_short(const char *help, char *to)
{
    size_t n = options_first_clause(help);
    size_t open = n;

    if (n != 0 && help[n - 1] == ')') { /* "(default auto)" at its end */
        while (open > 0 && help[open] != '(') {
            open--;
        }
        n = open > 1 ? open - 1 : n;
    }
    n = cut_to_fit(help, n);
    while (n > 0 && strchr(" ,:", help[n - 1]) != NULL) {
        n--;
    }
    snprintf(to, OPT_SHORT, "%.*s", (int)n, help);
    return to;
}

/* Whether a completion can list what the option takes. */
bool options_has_words(const struct opt *opt)
{
    const char *value = options_value(opt); /* those of "A=B:mse|attention" are no words by themselves */

    return value != NULL && strchr(value, '|') != NULL && strpbrk(value, "=[") == NULL;
}

/* "group:N" becomes "group:", so that a shell completes it and people write the number. */
void options_each_word(const char *words, void (*fn)(FILE *to, const char *word, size_t n), FILE *to)
{
    for (;;) {
        size_t len = strcspn(words, "|");
        const char *colon = memchr(words, ':', len);

        fn(to, words, colon != NULL ? (size_t)(colon - words) + 1 : len);
        if (words[len] == '\0') {
            return;
        }
        words += len + 1;
    }
}

/* Digits alone: strtoull would also take a sign and blanks, and -1 as 2^64 - 1. */
bool options_count(const char *text, uint64_t *out)
{
    char *end;

    if (text[0] < '0' || text[0] > '9') {
        return false;
    }
    errno = 0;
    *out = strtoull(text, &end, 10);
    return errno == 0 && *end == '\0';
}

/* A whole number that fits an int, with a minus sign or without. */
static bool parse_int(const char *text, int *out)
{
    char *end;

    if (text[0] != '-' && (text[0] < '0' || text[0] > '9')) {
        return false;
    }
    errno = 0;
    long v = strtol(text, &end, 10);
    if (errno != 0 || *end != '\0' || end == text || v < INT_MIN || v > INT_MAX) {
        return false;
    }
    *out = (int)v;
    return true;
}

/* Not inf and not nan, which strtod reads. */
bool options_real(const char *text, double *out)
{
    char *end;

    if (text[0] == '\0' || text[0] == ' ') {
        return false;
    }
    *out = strtod(text, &end);
    return *end == '\0' && isfinite(*out);
}

/* KiB and K are 1024, KB is 1000; a fraction needs a unit. Examples: 4096, 64K, 64KiB = 65536, 64KB = 64000, 1.5GiB.
 * Numbers of 2^63 and more are refused, so that sizes can be added in 64 bits. */
bool options_size(const char *text, uint64_t *out)
{
    static const char *const units[] = {"", "K", "M", "G", "T"};
    char *end;

    if (text[0] < '0' || text[0] > '9') {
        return false;
    }
    if (options_count(text, out)) {
        return true;
    }
    /* a unit follows, or a fraction */
    double v = strtod(text, &end);
    size_t n = strlen(end);
    if (strcmp(end, "B") == 0) {
        return v == floor(v) && v < 0x1p63 ? (*out = (uint64_t)v, true) : false;
    }
    /* K, KiB and KB: one, three and two letters behind the number */
    for (size_t i = 1; i < sizeof(units) / sizeof(units[0]); i++) {
        if (n >= 1 && end[0] == units[i][0] && (n == 1 || strcmp(end + 1, "iB") == 0 || strcmp(end + 1, "B") == 0)) {
            v *= n == 2 ? pow(1000.0, (double)i) : (double)(1ULL << 10 * i);
            *out = v < 0x1p63 ? (uint64_t)v : 0;
            return v < 0x1p63;
        }
    }
    return false;
}

/* Enums of the library have the size of an int, so that the tables write right into its structures. */
static bool put_int(void *field, int value)
{
    _Static_assert(sizeof(enum opt_kind) == sizeof(int), "enums are as wide as an int");
    memcpy(field, &value, sizeof(value));
    return true;
}

/* What the word of an OPT_CHOICE means. The words that the library lists are in the order of their enum. */
static bool choose(const struct opt *opt, const char *word, int *value)
{
    if (opt->words != NULL) {
        return options_choice(opt->words, word, value);
    }
    *value = options_word(options_value(opt), word);
    return *value >= 0;
}

/* Puts the value into the structure; false: it is not one that the option takes. */
/* Puts the value into the structure; false: it is not one that the option takes. The kinds are explained in options.h.
 * memcpy stores pointers, since the field's type is known by the table alone. */
static bool store(const struct opt *opt, char *group, const char *value)
{
    void *field = group + opt->field;
    const char *text = value != NULL ? value : ""; /* which no kind takes */
    int number = 0;

    switch (opt->kind) {
    case OPT_BOOL:
        *(bool *)field = opt->set != 0;
        return true;
    case OPT_MORE:
        *(int *)field += 1;
        return true;
    case OPT_ENUM:
        return put_int(field, opt->set);
    case OPT_CHOICE:
        if (opt->call != NULL && strchr(text, '=') != NULL) { /* of one part, named in front */
            return opt->call(group, text);
        }
        return choose(opt, text, &number) && put_int(field, number);
    case OPT_WORD:
        memcpy(field, &text, sizeof(text));
        return options_word(options_value(opt), text) >= 0;
    case OPT_TEXT:
        memcpy(field, &text, sizeof(text));
        return text[0] != '\0';
    case OPT_COUNT:
        return options_count(text, field);
    case OPT_INT:
        return parse_int(text, field);
    case OPT_REAL:
        return options_real(text, field);
    case OPT_ABOVE_0:
        return options_real(text, field) && *(const double *)field > 0;
    case OPT_SIZE:
        return options_size(text, field);
    case OPT_CALL:
        return opt->call(group, value);
    case OPT_HELP:
        break;
    }
    return true;
}

/* ---- the line ---- */

/* A command line in the making. */
struct line {
    const struct command *command;
    int argc;
    char **argv;
    int at;       /* the next argument */
    char *target; /* the command's structure */
    struct parsed *parsed;
};

/* "error, keep or zero" from "error|keep|zero". Cut where n_out bytes are full. */
static void spell(const char *words, char *out, size_t n_out)
{
    size_t n = 0;

    for (const char *w = words;;) {
        size_t len = strcspn(w, "|");
        bool last = w[len] == '\0';
        bool one_left = !last && strchr(w + len + 1, '|') == NULL;
        int k = snprintf(out + n, n_out - n, "%.*s%s", (int)len, w, last ? "" : one_left ? " or " : ", ");

        if (last || k < 0 || (size_t)k >= n_out - n) {
            return;
        }
        n += (size_t)k;
        w += len + 1;
    }
}

/* "--nonfinite: 'ignore' is not error, keep or zero". What is right comes from the words of the row, its `wanted`, or
 * its kind. */
static enum parse_result bad_value(struct line *line, const struct opt *opt, const char *value)
{
    static const char *const wanted[] = {
        [OPT_TEXT] = "some text",           [OPT_COUNT] = "a whole number",
        [OPT_INT] = "a whole number",       [OPT_REAL] = "a number",
        [OPT_ABOVE_0] = "a number above 0", [OPT_SIZE] = "a size such as 1048576, 64MiB or 1.5GiB",
    };
    char allowed[160];

    if (value[0] == '\0') {
        snprintf(line->parsed->error, sizeof(line->parsed->error), "--%s: the value is empty; it needs %s", opt->name,
                 options_value(opt));
        return PARSE_ERROR;
    }
    if (options_has_words(opt) && opt->wanted != NULL && strchr(value, '=') != NULL) {
        snprintf(allowed, sizeof(allowed), "%s", opt->wanted);
    } else if (options_has_words(opt)) {
        spell(options_value(opt), allowed, sizeof(allowed));
    } else if (opt->kind == OPT_CALL) {
        snprintf(allowed, sizeof(allowed), "%s", opt->wanted != NULL ? opt->wanted : options_value(opt));
    } else {
        snprintf(allowed, sizeof(allowed), "%s", wanted[opt->kind]);
    }
    const char *near = nearest_listed(opt, value);
    char hint[64] = "";

    if (near != NULL) {
        snprintf(hint, sizeof(hint), "; did you mean '%s'?", near);
    }
    snprintf(line->parsed->error, sizeof(line->parsed->error), "--%s: '%.80s' is not %s%s", opt->name, value, allowed,
             hint);
    return PARSE_ERROR;
}

/* Adds the option to the lists of `parsed`. Beyond PARSE_MAX_GIVEN they are counted only. */
static void remember(struct parsed *parsed, const struct opt *opt, const char *value)
{
    if (parsed->n_given < PARSE_MAX_GIVEN) {
        parsed->given[parsed->n_given] = (struct given){opt, value};
    }
    parsed->n_given++;
    if (!options_seen(parsed, opt->name) && parsed->n_seen < PARSE_MAX_SEEN) {
        parsed->seen[parsed->n_seen++] = opt;
    }
}

/* Refuses an option that contradicts an earlier one: the last one would win silently. Only options of one group are
 * compared here; conflicts between groups are in the rows. */
static enum parse_result check_conflicts(struct line *line, const struct opt *opt, const struct opt_group *group)
{
    struct parsed *parsed = line->parsed;

    for (size_t i = 0; i < parsed->n_seen; i++) {
        /* an option of the same group, by its place in the table */
        const struct opt *other = parsed->seen[i];

        if (other != opt && other >= group->opts && other < group->opts + group->n_opts &&
            options_contradict(opt, other)) {
            snprintf(parsed->error, sizeof(parsed->error), "--%s conflicts with --%s: choose one", opt->name,
                     other->name);
            return PARSE_ERROR;
        }
    }
    return PARSE_OK;
}

/* What every option that was found goes through, long or short: conflicts, its value, the list of those seen. A file is
 * listed before anything is opened, since files_check looks for names that are given twice. */
static enum parse_result apply(struct line *line, const struct opt *opt, const struct opt_group *group,
                               const char *value)
{
    if (opt->kind == OPT_HELP) {
        line->parsed->part = value;
        return PARSE_HELP;
    }
    enum parse_result result = check_conflicts(line, opt, group);
    if (result != PARSE_OK) {
        return result;
    }
    if (!store(opt, line->target + group->offset, value)) {
        return bad_value(line, opt, value != NULL ? value : "");
    }
    if (opt->file != FILE_NONE && value != NULL) {
        if (line->parsed->n_files == PARSE_MAX_FILES) {
            snprintf(line->parsed->error, sizeof(line->parsed->error), "--%s: options name more than %d files",
                     opt->name, PARSE_MAX_FILES);
            return PARSE_ERROR;
        }
        line->parsed->files[line->parsed->n_files++] = (struct given){opt, value};
    }
    remember(line->parsed, opt, value);
    return PARSE_OK;
}

/* The first option with that letter, and its group. */
static const struct opt *find_letter(const struct command *command, char letter, const struct opt_group **group)
{
    for (size_t g = 0; g < command->n_groups; g++) {
        *group = command->groups[g];
        for (size_t i = 0; i < (*group)->n_opts; i++) {
            if ((*group)->opts[i].letter == letter) {
                return &(*group)->opts[i];
            }
        }
    }
    return NULL;
}

/* The option with exactly that name of n bytes, and its group. */
static const struct opt *find_name(const struct command *command, const char *name, size_t n,
                                   const struct opt_group **group)
{
    for (size_t g = 0; g < command->n_groups; g++) {
        *group = command->groups[g];
        for (size_t i = 0; i < (*group)->n_opts; i++) {
            if (strlen((*group)->opts[i].name) == n && memcmp((*group)->opts[i].name, name, n) == 0) {
                return &(*group)->opts[i];
            }
        }
    }
    return NULL;
}

/* "unknown option '--inlcude'; did you mean '--include'?" */
static enum parse_result unknown(struct line *line, const char *name, size_t n)
{
    char plain[64];

    snprintf(plain, sizeof(plain), "%.*s", (int)(n < 60 ? n : 60), name);
    const char *near = nearest_option(line->command, plain);
    if (near != NULL) {
        snprintf(line->parsed->error, sizeof(line->parsed->error), "unknown option '--%s'; did you mean '--%s'?", plain,
                 near);
    } else {
        snprintf(line->parsed->error, sizeof(line->parsed->error), "unknown option '--%s'; see vcompress %s --help",
                 plain, line->command->name);
    }
    return PARSE_ERROR;
}

/* The last argument is an option that takes a value. */
static enum parse_result needs_value(struct line *line, const struct opt *opt)
{
    snprintf(line->parsed->error, sizeof(line->parsed->error), "--%s needs a value: %s", opt->name, options_value(opt));
    return PARSE_ERROR;
}

/* What follows "--": "name", "name=value", or "name" with the next argument as its value. An optional value must follow
 * with '=': the next argument is never taken for it, since it may be an operand. */
static enum parse_result parse_long(struct line *line, const char *name)
{
    size_t n = strcspn(name, "=");
    const char *value = name[n] == '=' ? name + n + 1 : NULL;
    const struct opt_group *group;
    const struct opt *opt = find_name(line->command, name, n, &group);

    if (opt == NULL) {
        return unknown(line, name, n);
    }
    if (options_value(opt) == NULL && value != NULL) {
        snprintf(line->parsed->error, sizeof(line->parsed->error), "--%s takes no value, but got '%.80s'", opt->name,
                 value);
        return PARSE_ERROR;
    }
    if (options_value(opt) != NULL && value == NULL && !opt->optional) {
        if (line->at >= line->argc) {
            return needs_value(line, opt);
        }
        value = line->argv[line->at++];
    }
    return apply(line, opt, group, value);
}

/* What follows "-": letters without values may be joined, the rest behind one with a value is that value: -qfo FILE. */
static enum parse_result parse_letters(struct line *line, const char *letters)
{
    for (; *letters != '\0'; letters++) {
        const struct opt_group *group;
        const struct opt *opt = find_letter(line->command, *letters, &group);
        enum parse_result result;

        if (opt == NULL) {
            snprintf(line->parsed->error, sizeof(line->parsed->error), "unknown option '-%c'; see vcompress %s --help",
                     *letters, line->command->name);
            return PARSE_ERROR;
        }
        if (options_value(opt) == NULL || opt->optional) {
            result = apply(line, opt, group, NULL);
        } else if (letters[1] != '\0') {
            return apply(line, opt, group, letters + 1);
        } else if (line->at < line->argc) {
            return apply(line, opt, group, line->argv[line->at++]);
        } else {
            return needs_value(line, opt);
        }
        if (result != PARSE_OK) {
            return result;
        }
    }
    return PARSE_OK;
}

enum parse_result options_parse(const struct command *command, int argc, char **argv, void *target,
                                struct parsed *parsed)
{
    *parsed = (struct parsed){.args = argv};
    return options_parse_more(command, argc, argv, target, parsed);
}

const struct opt *options_find(const struct command *command, const char *name, size_t n)
{
    const struct opt_group *group;

    return find_name(command, name, n, &group);
}

/* Operands move to the front of argv while it is read; their order stays. */
enum parse_result options_parse_more(const struct command *command, int argc, char **argv, void *target,
                                     struct parsed *parsed)
{
    struct line line = {.command = command, .argc = argc, .argv = argv, .target = target, .parsed = parsed};
    bool ended = false;

    while (line.at < argc) {
        char *arg = argv[line.at++];
        enum parse_result result = PARSE_OK;

        if (arg[0] == '\0') {
            snprintf(parsed->error, sizeof(parsed->error), "an argument is empty; see vcompress %s --help",
                     command->name);
            return PARSE_ERROR;
        }
        /* an operand; "-" alone is one */
        if (ended || arg[0] != '-' || arg[1] == '\0') {
            argv[parsed->n_args++] = arg; /* never beyond `at`: the slot was read before */
        } else if (strcmp(arg, "--") == 0) {
            ended = true;
        } else if (arg[1] == '-') {
            result = parse_long(&line, arg + 2);
        } else {
            result = parse_letters(&line, arg + 1);
        }
        if (result != PARSE_OK) {
            return result;
        }
    }
    return PARSE_OK;
}

bool options_seen(const struct parsed *parsed, const char *name)
{
    for (size_t i = 0; i < parsed->n_seen; i++) {
        if (strcmp(parsed->seen[i]->name, name) == 0) {
            return true;
        }
    }
    return false;
}
