/* options.h - tables of options, and what is made from them: the parser, --help, the manual page, completions.
 *
 * A command has groups of options; each group's fields live in a structure at `offset` inside the command's own. So
 * groups can be shared by commands, and the tables stay constant. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct app;

enum opt_kind {
    OPT_BOOL,    /* bool: becomes `set` */
    OPT_MORE,    /* int: counts up */
    OPT_ENUM,    /* an int or an enum of the library: becomes `set` */
    OPT_CHOICE,  /* ... what the given word means: OPT_WORDS, or its number in `more` */
    OPT_WORD,    /* const char *: the given word itself, one of those in `value` */
    OPT_TEXT,    /* const char * */
    OPT_COUNT,   /* uint64_t */
    OPT_INT,     /* int */
    OPT_REAL,    /* double */
    OPT_ABOVE_0, /* double, of options whose field is 0 where they are not given */
    OPT_SIZE,    /* uint64_t, bytes: 1024, 64MiB, 1.5G */
    OPT_CALL,    /* call(): anything else */
    OPT_HELP     /* --help, --help=PART */
};

/* What is done with the file that a value names. */
enum opt_file {
    FILE_NONE = 0, /* it names none */
    FILE_READ,
    FILE_WRITTEN,
    FILE_STATE,  /* written: --checkpoint, */
    FILE_RESUMED /* which may be the file that was read */
};

/* A word that an option takes, and what it means: {"inf", VC_OVERFLOW_INF}. Lists end with a NULL word. */
struct opt_word {
    const char *word;
    int value;
};

/* Takes the value (NULL: an optional one that was left out) into the group's structure. False when it is not one that
 * the table's `value` allows. */
typedef bool opt_call_fn(void *group, const char *value);

struct opt {
    const char *name;  /* "min-elements" */
    const char *value; /* what --help shows for the value: "SIZE", or the words allowed; NULL: takes none, or `words` */
    const struct opt_word *words;      /* OPT_CHOICE: the words allowed; NULL: those of `more` */
    const char *(*more)(size_t index); /* further words behind `value`, which the library lists up to a NULL; or NULL */
    const char *help;                  /* options_help has what `needs` says in front of it */
    const char *(*listed)(size_t index); /* "%s" in `help` is what the library lists up to a NULL: "a, b, c"; or NULL */
    /* Of other options, by their names. needs: without one of these it would do nothing, and is refused; conflicts: none of
     * these may be there. "aim-bytes aim-bpw"; "activations=static": with that value. NULL: nothing. */
    const char *needs, *conflicts;
    size_t field;       /* in the group's structure */
    const char *option; /* what the library calls it, for its sentences (option_names.c); NULL: it has no name for it */
    enum opt_kind kind;
    enum opt_file file;
    bool file_list; /* several, with commas between */
    int set;
    char letter;    /* 0: none */
    bool by_letter; /* sentences name it by its letter: -o */
    bool optional;  /* the value may be left out; then it must follow with '=' */
    /* Of the options of its group that have this, a command line may have one only; the same of two that fill one
     * field, and of NAME and no-NAME. */
    bool one_of;
    bool gate; /* a limit, or what belongs to one: a file of gates may give it (--gates) */
    opt_call_fn *call;
    /* OPT_CALL, and words with a `call`: what is right, for the sentence about a wrong value; NULL: `value`. */
    const char *wanted;
};

/* The option fills this member of the command's structure, and the library calls it by the end of the member's name:
 * OPT_FIELD(struct quantize_cli, quantize.min_elems) is "min_elems". */
#define OPT_FIELD(type, member) .field = offsetof(type, member), .option = #member

/* The words of an OPT_CHOICE: OPT_WORDS({"error", VC_OVERFLOW_ERROR}, {"inf", VC_OVERFLOW_INF}). */
#define OPT_WORDS(...)                                     \
    .kind = OPT_CHOICE, .words = (const struct opt_word[]) \
    {                                                      \
        __VA_ARGS__,                                       \
        {                                                  \
            NULL, 0                                        \
        }                                                  \
    }

struct opt_group {
    const char *title;
    const struct opt *opts;
    size_t n_opts;
    size_t offset; /* of the group's structure in the command's */
};

/* A group of all options of a table, in the command's own structure. */
#define OPT_GROUP(title_, table)                                                         \
    {                                                                                    \
        .title = (title_), .opts = (table), .n_opts = sizeof(table) / sizeof((table)[0]) \
    }

/* The groups of a command, a table: .groups and .n_groups. */
#define OPT_GROUPS(table) .groups = (table), .n_groups = sizeof(table) / sizeof((table)[0])

struct command {
    const char *name;
    const char *usage;   /* what follows the name */
    const char *summary; /* one line */
    const char *text;    /* paragraphs for --help=all and the manual; lines that begin with a blank are examples; may be
                            NULL */
    const char *first;   /* the options that most people need, at most ten: "int8 output dry-run"; --help has these
                            alone. NULL: it has all */
    const struct opt_group *const *groups;
    size_t n_groups;
    /* "one MODEL": the operands, without which app_parse refuses it; `one`: and with more than one. NULL: it counts them
     * itself. */
    const char *needs;
    bool one;
    const char *args;   /* for completions: "FILE", words "bash|zsh|fish", or NULL */
    const char *schema; /* of its JSON document; NULL: has none */
    int (*run)(struct app *app, int n_args, char **args);
    bool reads_headers; /* INPUT may be a model of another machine, of which it reads little (remote_inputs.h) */
    bool takes_config;  /* ... and a config.json without weights answers as well */
};

/* Every command, in the order of --help (main.c). */
extern const struct command *const commands[];
extern const size_t n_commands;

enum parse_result { PARSE_OK, PARSE_HELP, PARSE_ERROR };

#define PARSE_MAX_SEEN  64
#define PARSE_MAX_GIVEN 128
#define PARSE_MAX_FILES 64

struct parsed {
    int n_args;    /* operands, moved to the front of argv */
    char **args;   /* borrowed from argv */
    size_t n_seen; /* options in the order given; a repeated one once */
    const struct opt *seen[PARSE_MAX_SEEN];
    const char *part; /* --help=PART; NULL: --help */
    char error[512];  /* names option, value and what is allowed */
    /* The same with their values, each as often as it was given: for a command that writes command lines. Those beyond
     * PARSE_MAX_GIVEN are counted only. */
    size_t n_given;
    struct given {
        const struct opt *opt;
        const char *value;                            /* borrowed from argv; NULL: none */
    } given[PARSE_MAX_GIVEN], files[PARSE_MAX_FILES]; /* files: those whose option has a `file` */
    size_t n_files;
};

/* argv holds what follows the command's name. `target` is the command's structure. */
enum parse_result options_parse(const struct command *command, int argc, char **argv, void *target,
                                struct parsed *parsed);

/* The same for further words, as if they stood behind those that `parsed` is of; its operands stay. */
enum parse_result options_parse_more(const struct command *command, int argc, char **argv, void *target,
                                     struct parsed *parsed);

/* The option with this name, of n bytes; NULL: the command has none. */
const struct opt *options_find(const struct command *command, const char *name, size_t n);

/* ---- what rows say about each other (option_rows.c) ---- */

/* Two options of a group contradict each other: both are `one_of`, both fill the same field, or one denies the other. */
bool options_contradict(const struct opt *a, const struct opt *b);
/* Behind the last words (a file of gates has some): whether all options of the line have what their rows need, and nothing beside them that conflicts; else the sentence is
 * in parsed->error. */
bool options_agree(struct parsed *parsed);
/* The help of an option as all who show it have it. Valid until the next call. */
const char *options_help(const struct opt *opt);

/* ---- values ---- */

/* The option with that name was given. */
bool options_seen(const struct parsed *parsed, const char *name);

/* "12" -> 12, "1.5GiB" -> bytes; false when it is none, or does not fit. */
bool options_count(const char *text, uint64_t *out);
bool options_size(const char *text, uint64_t *out);
bool options_real(const char *text, double *out); /* finite */

/* What --help shows for the option's value, with all words that it takes: "auto|plain|..."; NULL: it takes none. Valid until
 * the next call. */
const char *options_value(const struct opt *opt);
/* What `word` means in a list; false: it is not in there. */
bool options_choice(const struct opt_word *words, const char *word, int *value);
/* Number of `word` among the words of "a|b|c", or -1. */
int options_word(const char *words, const char *word);

/* Calls fn for each word of "a|b|c" (for "group:N" with "group:"). */
void options_each_word(const char *words, void (*fn)(FILE *to, const char *word, size_t n), FILE *to);
bool options_has_words(const struct opt *opt);

/* Bytes of the first clause of a help: up to the first semicolon that is in no parenthesis. */
size_t options_first_clause(const char *help);
/* A description of some ten words, for a list in which a row has one line: the first clause without a parenthesis at its
 * end, cut between words. Returns `to`, which has OPT_SHORT bytes. */
#define OPT_SHORT 76
const char *options_short(const char *help, char *to);

const struct command *command_find(const char *name);

/* The nearest of the names, or NULL when none is near. */
const char *nearest_command(const char *name);

/* option_names.c: from now on the sentences of the library have --max-memory where they mean max_memory. `command`:
 * whose options come first where two commands have options of the same meaning. Called once, before there is a second
 * thread. */
struct vc_ctx;
void option_names_set(struct vc_ctx *ctx, const struct command *command);
