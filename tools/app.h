/* app.h - what every command shares: the context, the common options, how it fails and how it ends.
 *
 * A command's run function calls app_parse with its own structure, then app_open, does its work with app->ctx, prints
 * to app->out, and returns an exit status. Every step that can end the command returns GO_ON or that status:
 *
 *     rc = app_parse(app, n_args, args, &cli);
 *     if (rc == GO_ON) {
 *         rc = app_open(app);
 *     } */
#pragma once

#include <vcompress/experimental.h>

#include "tools/call.h"
#include "tools/command_files.h"
#include "tools/options/words.h"
#include "tools/print.h"

/* Exit statuses; scripts rely on them. */
enum {
    EXIT_YES = 0,    /* done, or the answer is yes */
    EXIT_NO = 1,     /* the answer is no: a gate was missed, files differ */
    EXIT_USAGE = 2,  /* wrong options */
    EXIT_INPUT = 3,  /* the input is damaged or not supported */
    EXIT_SYSTEM = 4, /* the system refused: I/O, memory, device */
};

/* The options that the commands share, filled by options_parse. */
#define MAX_KNOWN 64

struct common_options {
    const char *device;
    const char *cpu_mask;
    uint64_t threads;
    uint64_t max_memory;
    uint64_t progress_fd;         /* 0: none */
    const char *gates;            /* a file; NULL: none */
    const char *known[MAX_KNOWN]; /* --known, "sr=16000" */
    size_t n_known;
    int color; /* enum color_mode */
    int verbose;
    bool quiet, no_progress, memory_summary, bytes, diffable;
};

/* --json[=FILE], --html FILE, --markdown FILE */
struct json_options {
    bool on;
    const char *html;     /* NULL: no page is asked for */
    const char *markdown; /* NULL: no table is asked for */
    const char *path;     /* NULL: standard output */
    FILE *list;           /* json_list_begin: what documents are added to; else NULL */
    char *list_text;
    size_t list_bytes, n_listed;
};

/* A document on its way to where --json says. */
struct json_stream {
    struct app *app;
    FILE *to; /* NULL: nothing was written */
    int error;
};

struct app {
    const struct command *command;
    struct vcompress_call *call; /* the command is a function of this program (call.h); NULL: it is a process */
    struct vc_ctx *ctx;
    struct parsed parsed;
    struct common_options common;
    struct json_options json;
    struct out out;      /* of the report */
    const char *subject; /* the file that a failure is about when its sentence names none; NULL: none */
    const char *output;  /* the other file that a sentence may be about; NULL: none */
    char *own_output;    /* of vc_text_free; what output points to when nobody gave a name */
    char *own_names;     /* owned; of further outputs, or of the config.json in a folder without weights */
    struct command_files files;
    struct words gates; /* owned; of the file of --gates, for this command */
    const char *where;  /* begins sentences about options: "recipe.txt:3"; NULL: they are on the command line */
    char *line;         /* owned; the command as it was given, without --html, for pages; NULL: none is asked for */
    struct vc_remote **remotes; /* owned; INPUTs of other machines */
    size_t n_remotes;
    bool written;       /* the output is complete: a failure after that must not sound as if it were not */
    bool stdout_closed; /* it was, when we started */
    int print_error;    /* errno of the first text that standard output did not take whole, 0: none */
    bool pipe_closed;   /* nobody reads the output that goes to standard output */
    bool said;          /* a line was printed on stderr: there is never a second one */
    bool silent;        /* another process says it: ranks_app.h */
    bool met;           /* the ranks have found each other: rank 0 hears of every failure */
    bool holds;         /* a failure is kept, not said, until other ranks know of it */
    enum vc_status held_status;
    char held[2048]; /* its sentence */
};

/* Every command's structure starts with this, so that its groups can refer to the shared fields. */
struct base_options {
    struct common_options common;
    struct json_options json;
};

extern const struct opt_group group_run;     /* device, threads, memory */
extern const struct opt_group group_known;   /* --known, of commands that build graphs */
extern const struct opt_group group_json;    /* --json[=FILE] */
extern const struct opt_group group_page;    /* --html FILE */
extern const struct opt_group group_comment; /* --html FILE, --markdown FILE */
extern const struct opt_group group_report;  /* -q, -v, colours */
extern const struct opt_group
    group_report_of_sizes;                 /* the same for a command whose --bytes is a size: without --bytes */
extern const struct opt_group group_gates; /* --gates FILE, of commands that have gates */
extern const struct opt_group group_help;  /* --help alone */

#define GO_ON (-1) /* no exit status yet */

/* Returns what expr is when it is an exit status. */
#define GO(expr)              \
    do {                      \
        int go_rc = (expr);   \
        if (go_rc != GO_ON) { \
            return go_rc;     \
        }                     \
    } while (0)

/* Parses into `options`, which begins with a struct base_options, and copies that into app; prints --help. GO_ON, or
 * the status to exit with. */
int app_parse(struct app *app, int n_args, char **args, void *options);
/* The same, then app_open and json_check; the first operand is the subject. */
int app_begin(struct app *app, int n_args, char **args, void *options);
void app_report_to(struct app *app, FILE *to); /* stdout unless told otherwise */
/* Standard output is a pipe whose reader left: what fails then is no news. main ends without a word, as programs in a
 * pipeline do. */
bool app_nobody_reads(void);
FILE *app_notes(struct app *app); /* where lines beside the report go: standard error */
/* The table for people is wanted: not with --quiet, nor where the document takes its place. A call (call.h) has both. */
bool app_prints(const struct app *app);
/* Notes of options that changed nothing, at the end of a run that has an answer. */
void app_warn(struct app *app, int status);
/* Frees what the command leaves, but for the context. */
void app_end(struct app *app);
/* Creates the context and sets it up from the common options. GO_ON or a status. */
int app_open(struct app *app);

int app_exit_status(enum vc_status status);

/* One line on stderr, and the error document where JSON was asked for. Return the exit status. */
int app_fail(struct app *app, enum vc_status status); /* the sentence is the context's */
int app_usage(struct app *app, const char *format, ...) TOOLS_PRINTF(2, 3);
int app_refuse(struct app *app, enum vc_status status, const char *format, ...) TOOLS_PRINTF(3, 4);
int app_gate(struct app *app, const char *sentence); /* the answer is no: the line without an error document */
/* The answer is no, as the report says: the line stands for the report where --quiet leaves that out. */
int app_answer_no(struct app *app, const char *format, ...) TOOLS_PRINTF(2, 3);

/* A file beside the output that cannot be written: names that one, and says so where the output is complete. */
int app_refuse_file(struct app *app, const char *option, const char *path, const char *why);

/* Refuses a gate of 0 or less where it was given: for the library 0 means that there is none, and whoever writes
 * --max-bytes 0 expects to be stopped. `name`: of the option. GO_ON or a status. */
int app_check_gate(struct app *app, const char *name, double value);

/* gates.c: reads the file of --gates, if there is one, into the command's options: each gate as if it stood on the command
 * line, unless that has it already. After options_parse. GO_ON or a status. */
int gates_read(struct app *app, void *options);

/* --memory-summary, after the report. */
void app_print_memory(struct app *app);

/* document.c: where the JSON document goes: standard output, or a file, which is replaced only when it is empty or a
 * document of ours. json_check finds that out before the work; json_print writes the text of one. GO_ON or a status.
 * json_failure writes the one of a failure, where JSON was asked for. */
int json_check(struct app *app);
int json_print(struct app *app, const char *text);
/* Whether the document may be written while it is made: where nothing but itself is asked for, and there is one. Then it goes to
 * json_writer, and json_written ends it; `status`: of its making. GO_ON or a status. */
bool json_may_stream(const struct app *app);
struct vc_writer json_writer(struct json_stream *stream);
int json_written(struct json_stream *stream, enum vc_status status);
void json_failure(struct app *app, enum vc_status status, const char *message);
/* In between, documents are elements of one list, which json_list_end writes. Do nothing without --json. */
int json_list_begin(struct app *app);
int json_list_end(struct app *app);

/* The page of --html and the table of --markdown, in files that are replaced by the same rules; json_check looks at
 * them, too. `status` is that of its making; frees the text. GO_ON or a status. */
int beside_write(struct app *app, bool markdown, enum vc_status status, char *text);

/* The file begins as a JSON document of vcompress. */
bool is_document(const char *path);

/* A drawing in a file of its own, --svg, which is replaced by the same rules. GO_ON or a status. */
int svg_check(struct app *app, const char *path);
int svg_write(struct app *app, const char *path, const char *text);
/* A text that is the command's output: the file is there whole or not at all, and replaces what was there. */
int header_write(struct app *app, const char *path, const char *text);

/* each_input.c: runs a command for each of its operands in turn, with app->subject set to it. What fails for one does
 * not stop the others. Returns the worst status; a failure to write the list of documents counts, too. */
int inputs_each(struct app *app, int (*one)(struct app *app, void *user), void *user);

/* help.c: all commands; one command; the manual page. */
void help_overview(FILE *to);
/* The short form (part NULL), all, or the options under the heading that begins with `part`. Returns an exit status. */
int help_command(struct app *app, const struct command *command, const char *part);
void help_man(FILE *to);
/* The manual page of one command, with its options explained. */
void help_man_of(FILE *to, const struct command *command);
/* help_options.c: the tables of options as JSON, for programs that make something of them (python/make_commands.py). */
void help_tables(FILE *to);

/* The signal that asked us to stop, or 0 (signals.c). */
int caught_signal(void);
void watch_signals(struct vc_ctx *ctx);

/* From now on the command only prints, and may be ended in the middle of that: tables of a million tensors take
 * seconds. */
void signals_end_printing(void);
/* And now it works again, on the next input. */
void signals_end_work(void);
/* A file that is removed where a signal ends the process, valid until the next call; NULL: none. */
void signals_remove(const char *path);
/* Ends the process by the signal itself. */
void signals_die_by(int number);

/* progress.c: one line on the terminal; and lines of JSON in --progress-fd. Does nothing where there are neither. */
void progress_begin(struct app *app);
/* The descriptor of --progress-fd takes lines. */
bool progress_fd_is_open(const struct app *app);
/* For work that is counted in steps, from a function that the library calls. */
void progress_steps(const char *what, uint64_t done, uint64_t total);
void progress_end(void);
