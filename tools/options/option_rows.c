/* option_rows.c - what the rows of options say about each other: which contradict each other, and which do something only
 * beside another one. The parser refuses by it, and --help, the manual page and completions say it. */
#include <string.h>

#include "tools/options/options.h"

#define HELP_BYTES 1600

/* ---- lists of options: "aim-bytes aim-bpw", "activations=static" ---- */

/* One of a list. */
struct condition {
    const char *name, *words; /* words: "static|all", of which the value is one; n_words 0: any value */
    size_t n_name, n_words;
};

/* False: the list is at its end. *list moves behind the condition. */
static bool next(const char **list, struct condition *out)
{
    if (*list == NULL || **list == '\0') {
        return false;
    }
    size_t n = strcspn(*list, " ");
    out->name = *list;
    out->n_name = strcspn(*list, "= ");
    out->words = *list + out->n_name + (out->n_name < n);
    out->n_words = n > out->n_name ? n - out->n_name - 1 : 0;
    *list += n + ((*list)[n] == ' ');
    return true;
}

/* The value is one of the words: "train" of "train|distill". */
static bool is_word(const struct condition *c, const char *value)
{
    char words[64];

    (void)snprintf(words, sizeof words, "%.*s", (int)c->n_words, c->words);
    return value != NULL && options_word(words, value) >= 0;
}

/* The condition is about this option. */
static bool is_named(const struct opt *opt, const struct condition *c)
{
    return strlen(opt->name) == c->n_name && memcmp(opt->name, c->name, c->n_name) == 0;
}

/* The option of the line that is meant; with words, its last value decides. NULL: it is not there. */
static const struct opt *find_given(const struct parsed *parsed, const struct condition *c)
{
    const struct opt *found = NULL;

    for (size_t i = 0; i < parsed->n_seen; i++) {
        found = is_named(parsed->seen[i], c) ? parsed->seen[i] : found;
    }
    for (size_t i = parsed->n_given < PARSE_MAX_GIVEN ? parsed->n_given : PARSE_MAX_GIVEN; c->n_words != 0 && i > 0;
         i--) {
        if (is_named(parsed->given[i - 1].opt, c)) {
            return is_word(c, parsed->given[i - 1].value) ? found : NULL;
        }
    }
    return found;
}

/* "--aim-bytes, --aim-bpw or --aim-loss"; last: " or " or ", ". Returns the length. */
static size_t list_names(const char *list, const char *last, char *text, size_t room)
{
    struct condition c;
    size_t n = 0;

    text[0] = '\0';
    for (bool first = true; next(&list, &c) && n < room; first = false) {
        const char *join = list[0] == '\0' ? last : ", ";

        n += (size_t)snprintf(text + n, room - n, "%s--%.*s%s%.*s", first ? "" : join, (int)c.n_name, c.name,
                              c.n_words != 0 ? " " : "", (int)c.n_words, c.words);
    }
    return n < room ? n : room - 1;
}

/* ---- refusals ---- */

/* The option as people write it: "-o", "--force". Returns `text`. */
static const char *name_of(const struct opt *opt, char text[64])
{
    const char letter[2] = {opt->letter, '\0'};

    (void)snprintf(text, 64, opt->by_letter ? "-%s" : "--%s", opt->by_letter ? letter : opt->name);
    return text;
}

/* One is the other's "no-". */
static bool denies(const struct opt *a, const struct opt *b)
{
    return strncmp(a->name, "no-", 3) == 0 && strcmp(a->name + 3, b->name) == 0;
}

/* Two options that fill the same field contradict each other, such as --f32 and --fp16; options with a function are not
 * compared by field, since they have none. */
bool options_contradict(const struct opt *a, const struct opt *b)
{
    bool fills = a->kind != OPT_CALL && a->kind != OPT_HELP && b->kind != OPT_CALL && b->kind != OPT_HELP;

    return (a->one_of && b->one_of) || (fills && a->field == b->field) || denies(a, b) || denies(b, a);
}

/* Refuses one option by what its row says of others; false, with the sentence in parsed->error. */
static bool check(struct parsed *parsed, const struct opt *opt)
{
    const char *list = opt->conflicts;
    struct condition c;
    char names[160], text[2][64];

    while (next(&list, &c)) {
        const struct opt *other = find_given(parsed, &c);
        if (other != NULL) {
            (void)snprintf(parsed->error, sizeof parsed->error, "%s conflicts with %s%s%.*s: choose one",
                           name_of(opt, text[0]), name_of(other, text[1]), c.n_words != 0 ? " " : "", (int)c.n_words,
                           c.words);
            return false;
        }
    }
    for (list = opt->needs; next(&list, &c);) {
        if (find_given(parsed, &c) != NULL) {
            return true;
        }
    }
    if (opt->needs == NULL) {
        return true;
    }
    (void)list_names(opt->needs, " or ", names, sizeof names);
    (void)snprintf(parsed->error, sizeof parsed->error, "%s works with %s only", name_of(opt, text[0]), names);
    return false;
}

/* The first option that contradicts another one, in the order of the command line, makes the sentence. */
bool options_agree(struct parsed *parsed)
{
    for (size_t i = 0; i < parsed->n_seen; i++) {
        if (!check(parsed, parsed->seen[i])) {
            return false;
        }
    }
    return true;
}

/* ---- help ---- */

/* "lora: which products have adapters ..." for a row with `needs`; "%s" is replaced by the library's list. */
const char *options_help(const struct opt *opt)
{
    static char text[HELP_BYTES];
    const char *gap = opt->listed != NULL ? strstr(opt->help, "%s") : NULL;
    size_t n = 0;

    if (opt->needs == NULL && gap == NULL) {
        return opt->help;
    }
    if (opt->needs != NULL) {
        n = list_names(opt->needs, ", ", text, sizeof text);
        n += (size_t)snprintf(text + n, sizeof text - n, ": ");
    }
    if (gap == NULL) {
        (void)snprintf(text + n, sizeof text - n, "%s", opt->help);
        return text;
    }
    n += (size_t)snprintf(text + n, sizeof text - n, "%.*s", (int)(gap - opt->help), opt->help);
    for (size_t i = 0; opt->listed(i) != NULL && n < sizeof text; i++) {
        n += (size_t)snprintf(text + n, sizeof text - n, "%s%s", i == 0 ? "" : ", ", opt->listed(i));
    }
    if (n < sizeof text) {
        (void)snprintf(text + n, sizeof text - n, "%s", gap + 2);
    }
    return text;
}
