/* app.c - what surrounds the work of a command: the options that all commands share, the context, the one line of a
 * failure. Knows no command. app.h has the order of the calls. */
#include "tools/app.h"
#include "tools/remote_inputs.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* ---- the options that commands share ---- */

#define MAX_KNOWN_NAME 256 /* of an input, with its NUL */

#define COMMON(member) OPT_FIELD(struct base_options, common.member)

/* --json and "--json=-" are standard output; "--json=" is refused. */
static bool take_json(void *group, const char *value)
{
    struct base_options *base = group;

    base->json.on = true;
    base->json.path = value != NULL && strcmp(value, "-") != 0 ? value : NULL;
    return value == NULL || value[0] != '\0';
}

/* How to compute. Every command with a context has these. */
/* clang-format off */
static const struct opt run_opts[] = {
    /* where it computes, and with how much */
    {.name = "device", .value = "auto|cpu|cuda|cuda:N", .kind = OPT_TEXT, COMMON(device),
     .help = "where to compute; the output does not depend on the device, except the last digits of trained weights "
             "and of a network's answers (default auto)"},
    {.name = "threads", .value = "N", .kind = OPT_COUNT, COMMON(threads),
     .help = "threads to use (default, and 0: every processor this process may use)"},
    {.name = "max-memory", .value = "SIZE", .kind = OPT_SIZE, COMMON(max_memory),
     .help = "most memory to use (default: a quarter of the free memory)"},
    {.name = "cpu-mask", .value = "ref|base|avx2|avx512|neon|all", .kind = OPT_TEXT, COMMON(cpu_mask),
     .help = "highest instruction set to use, for tests: quantize, prune and convert write the same bytes; of what networks compute (answers, statistics, trained weights) last bits differ"},
    /* what is told on the way */
    {.name = "progress-fd", .value = "N", .kind = OPT_COUNT, COMMON(progress_fd),
     .help = "write the progress as lines of JSON to this open descriptor, some ten a second: --progress-fd 3 3>progress.jsonl"},
    {.name = "memory-summary", .kind = OPT_BOOL, .set = 1, COMMON(memory_summary),
     .help = "print the memory by purpose, now and at the peak"},
};

/* "sr=16000": its name and its number. False: it is no such text. */
static bool read_known(const char *text, char *name, size_t room, int64_t *number)
{
    const char *equals = strchr(text, '=');
    size_t n = equals == NULL ? 0 : (size_t)(equals - text);
    char *end = NULL;
    long long value;

    if (n == 0 || n >= room || equals[1] == '\0') {
        return false;
    }
    memcpy(name, text, n);
    name[n] = '\0';
    errno = 0;
    value = strtoll(equals + 1, &end, 10);
    *number = value;
    return *end == '\0' && errno == 0;
}

static bool take_known(void *group, const char *value)
{
    struct common_options *common = &((struct base_options *)group)->common;
    char name[MAX_KNOWN_NAME];
    int64_t number;

    if (common->n_known == MAX_KNOWN || !read_known(value, name, sizeof name, &number)) {
        return false;
    }
    common->known[common->n_known++] = value;
    return true;
}

static const struct opt known_opts[] = {
    {.name = "known", .value = "NAME=N", .kind = OPT_CALL, .call = take_known, .option = "known",
     .help = "an input of one number, or a size that inputs leave open, is N in every run: If and Loop of ONNX that depend on it are one of their branches and so many steps (sr=16000)"},
};

/* What is printed, and where documents go. */
static const struct opt json_opts[] = {
    {.name = "json", .value = "FILE", .file = FILE_WRITTEN, .optional = true, .kind = OPT_CALL, .call = take_json,
     .help = "write a JSON document to FILE; without FILE to standard output in place of the table"},
};

/* group_page has the first row alone: documents without a table in Markdown. */
static const struct opt comment_opts[] = {
    {.name = "html", .value = "FILE", .file = FILE_WRITTEN, .kind = OPT_TEXT, OPT_FIELD(struct base_options, json.html),
     .help = "write the report as a page, too: one HTML file to search, sort and print; replaces an older page, nothing else"},
    {.name = "markdown", .value = "FILE", .file = FILE_WRITTEN, .kind = OPT_TEXT, OPT_FIELD(struct base_options, json.markdown),
     .help = "write a short table in Markdown, for a comment on a pull request"},
};

/* The report for people. */
static const struct opt report_opts[] = {
    /* less, more, and what is the same in every run */
    {.name = "quiet", .letter = 'q', .one_of = true, .kind = OPT_BOOL, .set = 1, COMMON(quiet), .help = "print errors only"},
    {.name = "verbose", .letter = 'v', .one_of = true, .kind = OPT_MORE, COMMON(verbose),
     .help = "list every tensor by its whole name, with more columns"},
    {.name = "diffable", .kind = OPT_BOOL, .set = 1, COMMON(diffable),
     .help = "leave out time, memory, threads and device, so that two runs print the same"},
    /* how it looks */
    {.name = "no-progress", .kind = OPT_BOOL, .set = 1, COMMON(no_progress),
     .help = "no progress line (there is one only on a terminal)"},
    {.name = "color", OPT_WORDS({"auto", COLOR_AUTO}, {"always", COLOR_ALWAYS}, {"never", COLOR_NEVER}), COMMON(color),
     .help = "colours; auto: on a terminal, unless NO_COLOR is set"},
    /* The last one: group_report_of_sizes is without it. */
    {.name = "bytes", .kind = OPT_BOOL, .set = 1, COMMON(bytes),
     .help = "exact bytes instead of KiB, MiB, GiB (powers of two)"},
};
#define N_REPORT (sizeof report_opts / sizeof report_opts[0])

/* Gates from a file (gates.c). */
static const struct opt gates_opts[] = {
    {.name = "gates", .value = "FILE", .file = FILE_READ, .kind = OPT_TEXT, COMMON(gates),
     .help = "read gates from this JSON file, by the names of their options: {\"min_sqnr\": 40, \"evaluate\": {\"min_accuracy\": 0.98}}; "
             "members under the name of a command are for this command alone, and a gate on the command line counts instead of the file's"},
};

static const struct opt help_opts[] = {
    {.name = "help", .value = "PART", .optional = true, .letter = 'h', .kind = OPT_HELP,
     .help = "explain the options that most people need; all: all of them; the first word of a heading: those under it"},
};
/* clang-format on */

const struct opt_group group_run = OPT_GROUP("Running", run_opts);
const struct opt_group group_known = OPT_GROUP("Known inputs", known_opts);
const struct opt_group group_json = OPT_GROUP("Report", json_opts);
const struct opt_group group_page = {"Report", comment_opts, 1, 0};
const struct opt_group group_comment = {"Report", comment_opts, 2, 0};
const struct opt_group group_report = OPT_GROUP("Report", report_opts);
const struct opt_group group_report_of_sizes = {"Report", report_opts, N_REPORT - 1, 0};
const struct opt_group group_gates = OPT_GROUP("Gates", gates_opts);
const struct opt_group group_help = OPT_GROUP("Help", help_opts);

/* ---- failing ---- */

#define NAP_MS         20
#define PATIENCE_MS    500  /* of a rank that has told rank 0 what it failed with */
#define ALONE_AFTER_MS 3000 /* of one that could not */

/* Of ranks that fail alike, rank 0 prints the sentence. Launchers end all processes when the first one has failed, so
 * the silent ones give rank 0 time to print. True: rank 0 had time enough, and may have gone on without a failure. Naps
 * are short, so that a signal ends the waiting soon. */
static bool outlives_rank_0(const struct app *app)
{
    const struct timespec nap = {.tv_nsec = NAP_MS * 1000 * 1000};

    for (int ms = 0; ms < (app->met ? PATIENCE_MS : ALONE_AFTER_MS) && caught_signal() == 0; ms += NAP_MS) {
        (void)nanosleep(&nap, NULL);
    }
    return !app->met && caught_signal() == 0;
}

/* Every failure is one line on stderr. Names in it come from files, so control characters become '?'. In a call
 * (call.h) the sentence is a result and is printed by nobody. */
static void print_line(struct app *app, const char *text)
{
    if (app->silent && !outlives_rank_0(app)) {
        return;
    }
    char *clean = text_clean(text);
    if (app->call != NULL) {
        free(app->call->sentence);
        app->call->sentence = clean;
        return;
    }
    out_flush(&app->out); /* lines come in their order, also where both streams are one terminal */
    app->said = true;
    if (app->silent) {
        unsigned rank;

        (void)vc_ranks_launched(&rank, NULL, NULL);
        fprintf(stderr, "vcompress: rank %u: %s\n", rank, clean != NULL ? clean : text);
    } else {
        fprintf(stderr, "vcompress: %s\n", clean != NULL ? clean : text);
    }
    free(clean);
}

/* Keeps a failure that other ranks have to hear of first; false if there are none. The first failure is the one that is
 * told: later ones mostly follow from it. */
static bool hold(struct app *app, enum vc_status status, const char *text)
{
    if (app->holds && app->held_status == VC_OK) {
        app->held_status = status;
        snprintf(app->held, sizeof(app->held), "%s", text);
    }
    return app->holds;
}

/* Every status has a case: a compiler warns about a new one. The statuses of the system share one exit status. */
int app_exit_status(enum vc_status status)
{
    switch (status) {
    case VC_OK:
        return EXIT_YES;
    case VC_E_GATE:
        return EXIT_NO;
    case VC_E_ARGUMENT:
        return EXIT_USAGE;
    case VC_E_FORMAT:
    case VC_E_UNSUPPORTED:
        return EXIT_INPUT;
    case VC_E_NOMEM:
    case VC_E_IO:
    case VC_E_DEVICE:
    case VC_E_INTERNAL:
    case VC_E_CANCELLED:
        break;
    }
    return EXIT_SYSTEM;
}

/* True when the sentence names the file: as given, or at least its last part. Cleaned as the sentence was, since a name
 * may have control characters. */
static bool names(const char *sentence, const char *path)
{
    const char *slash = path != NULL ? strrchr(path, '/') : NULL;
    const char *base = slash != NULL && slash[1] != '\0' ? slash + 1 : path;
    char *clean = base != NULL ? text_clean(base) : NULL;
    bool found = clean != NULL && strstr(sentence, clean) != NULL;

    free(clean);
    return found;
}

#define LINE_BYTES 2048

/* "model.npz: the sentence", unless the sentence names the file, or the other file of the command, itself. */
static void name_subject(const struct app *app, const char *sentence, char *text)
{
    bool named = app->subject == NULL || names(sentence, app->subject) || names(sentence, app->output);

    snprintf(text, LINE_BYTES, "%.900s%s%.1100s", named ? "" : app->subject, named ? "" : ": ", sentence);
}

/* POLLERR on a pipe: its other end is closed. */
bool app_nobody_reads(void)
{
    struct pollfd fd = {.fd = STDOUT_FILENO};

    return poll(&fd, 1, 0) == 1 && (fd.revents & POLLERR) != 0;
}

/* The way of every failure but a missed gate: name the file, keep it for other ranks, or print it and write the JSON
 * document of the failure. Returns the exit status. */
static int fail_with(struct app *app, enum vc_status status, const char *sentence)
{
    char text[LINE_BYTES];

    if (status == VC_E_IO && app->output != NULL && strcmp(app->output, "-") == 0 && app_nobody_reads()) {
        app->pipe_closed = true;
        return EXIT_SYSTEM;
    }
    name_subject(app, sentence, text);
    if (hold(app, status, text)) {
        return app_exit_status(status);
    }
    if (status == VC_E_CANCELLED && caught_signal() != 0) {
        return EXIT_SYSTEM; /* main ends by that signal, without a word */
    }
    print_line(app, text);
    json_failure(app, status, text);
    return app_exit_status(status);
}

/* No JSON document of a failure: the report of the command itself says that the gate was missed. */
int app_gate(struct app *app, const char *sentence)
{
    char text[LINE_BYTES];

    name_subject(app, sentence, text);
    print_line(app, text);
    return EXIT_NO;
}

int app_answer_no(struct app *app, const char *format, ...)
{
    char text[LINE_BYTES];
    va_list args;

    if (!app->common.quiet && app->call == NULL) {
        return EXIT_NO;
    }
    va_start(args, format);
    (void)vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    return app_gate(app, text);
}

int app_fail(struct app *app, enum vc_status status)
{
    const char *sentence = app->ctx != NULL ? vc_ctx_message(app->ctx) : "";

    return fail_with(app, status, sentence[0] != '\0' ? sentence : "not enough memory to start");
}

int app_refuse(struct app *app, enum vc_status status, const char *format, ...)
{
    char text[LINE_BYTES];
    va_list args;

    va_start(args, format);
    (void)vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    return fail_with(app, status, text);
}

/* app->where is in front: "recipe.txt:3: ". */
int app_usage(struct app *app, const char *format, ...)
{
    char text[LINE_BYTES];
    va_list args;

    size_t n = app->where == NULL ? 0 : (size_t)snprintf(text, sizeof(text), "%s: ", app->where);

    va_start(args, format);
    (void)vsnprintf(text + n, sizeof(text) - n, format, args);
    va_end(args);
    if (!hold(app, VC_E_ARGUMENT, text)) {
        print_line(app, text);
        json_failure(app, VC_E_ARGUMENT, text);
    }
    return EXIT_USAGE;
}

/* ---- starting ---- */

/* Parsing stops at the first wrong word. A --json behind it still counts, so that a script gets the failure as JSON. A
 * file given with --json=FILE is not written then: its name was not checked. */
static void look_for_json(struct app *app, int n_args, char **args)
{
    for (int i = 0; i < n_args && strcmp(args[i], "--") != 0; i++) {
        if (strcmp(args[i], "--json") == 0) {
            app->json.on = true;
        }
    }
}

/* The command as it was given, but for --html: where the page lies is no part of what made it. NULL: no memory. Owned
 * by the caller. */
static char *command_line(const struct app *app, int n_args, char **args)
{
    char *line = NULL;
    size_t n_bytes = 0;
    bool whole = true;
    FILE *to = open_memstream(&line, &n_bytes);

    if (to == NULL) {
        return NULL;
    }
    fprintf(to, "vcompress %s", app->command->name);
    for (int i = 0; i < n_args; i++) {
        if (strcmp(args[i], "--html") == 0) {
            i++;
        } else if (strncmp(args[i], "--html=", 7) != 0) {
            whole = print_shell_word(to, args[i]) && whole;
        }
    }
    if (ferror(to) | fclose(to) | !whole) {
        free(line);
        line = NULL;
    }
    return line;
}

/* The order: the line is remembered, words are parsed, gates of a file are added as if they were words, then what
 * options say about each other is checked, with those gates. Files are listed last. */
int app_parse(struct app *app, int n_args, char **args, void *options)
{
    struct base_options *base = options;
    char *line = command_line(app, n_args, args);

    free(app->line);
    app->line = line; /* before the words are moved */

    switch (options_parse(app->command, n_args, args, options, &app->parsed)) {
    case PARSE_HELP:
        return help_command(app, app->command, app->parsed.part);
    case PARSE_ERROR:
        look_for_json(app, n_args, args);
        return app_usage(app, "%s", app->parsed.error);
    case PARSE_OK:
        break;
    }
    app->common = base->common;
    app->json = base->json;
    app_report_to(app, stdout);
    GO(gates_read(app, options));
    if (!options_agree(&app->parsed)) {
        return app_usage(app, "%s", app->parsed.error);
    }
    GO(files_add(app, &app->parsed, app->command));
    bool wrong = app->parsed.n_args == 0 || (app->command->one && app->parsed.n_args != 1);
    if (app->command->needs != NULL && wrong) {
        return app_usage(app, "%s needs %s; see vcompress %s --help", app->command->name, app->command->needs,
                         app->command->name);
    }
    return GO_ON;
}

int app_begin(struct app *app, int n_args, char **args, void *options)
{
    GO(app_parse(app, n_args, args, options));
    app->subject = app->parsed.args[0];
    GO(app_open(app));
    return json_check(app);
}

/* Starts printing anew to another stream: the report of "-o -" goes to standard error. */
void app_report_to(struct app *app, FILE *to)
{
    out_end(&app->out);
    out_init(&app->out, app->call != NULL ? app->call->printed : to, (enum color_mode)app->common.color,
             app->common.bytes);
    out_begin_wrapping(&app->out);
}

bool app_prints(const struct app *app)
{
    return !app->common.quiet && (app->call != NULL || !app->json.on || app->json.path != NULL);
}

FILE *app_notes(struct app *app)
{
    return app->call != NULL ? app->call->printed : stderr;
}

void app_warn(struct app *app, int status)
{
    bool answered = status == EXIT_YES || status == EXIT_NO;
    struct vc_ctx_facts facts = {.unused_known = NULL};

    if (answered && app->ctx != NULL && !app->common.quiet) {
        vc_ctx_look(app->ctx, &facts);
    }
    if (facts.unused_known != NULL) {
        say(app_notes(app),
            "note: --known %s=N changed nothing: no graph of this run has an input of one number of that name, nor an "
            "open size, which is 1 or more\n",
            facts.unused_known);
    }
}

void app_end(struct app *app)
{
    out_end(&app->out);
    remote_inputs_close(app);
    vc_text_free(app->own_output);
    free(app->own_names);
    free(app->line);
    files_free(&app->files);
    words_free(&app->gates);
}

/* Behind the report; not into a JSON document on standard output. */
void app_print_memory(struct app *app)
{
    if (app->common.memory_summary) {
        vc_ctx_print_memory(app->ctx, app->json.on && app->json.path == NULL ? app_notes(app) : app->out.to);
    }
    out_flush(&app->out);
}

int app_check_gate(struct app *app, const char *name, double value)
{
    if (!options_seen(&app->parsed, name) || value > 0) {
        return GO_ON;
    }
    return app_usage(app, "--%s: %g is no gate: it must be above 0", name, value);
}

/* A setting of the context that was refused is the fault of the option. */
static int set_up(struct app *app, enum vc_status status, const char *option)
{
    return status == VC_OK ? GO_ON : app_refuse(app, status, "--%s: %s", option, vc_ctx_message(app->ctx));
}

/* Checks what can be wrong without a file, creates the context, sets it up from the options, looks for files given
 * twice. Sentences of this function are about options, so the subject is set aside. */
int app_open(struct app *app)
{
    const struct common_options *common = &app->common;
    const char *subject = app->subject;
    int rc = GO_ON;

    if (options_seen(&app->parsed, "progress-fd") && !progress_fd_is_open(app)) {
        return app_usage(
            app, "--progress-fd %llu: is no descriptor that is open for writing, such as 3 with 3>progress.jsonl",
            (unsigned long long)common->progress_fd);
    }
    if (common->progress_fd == STDOUT_FILENO && app->json.on && app->json.path == NULL) {
        app->json.on = false; /* the sentence goes to standard error alone */
        return app_usage(app, "--progress-fd 1 and --json both want standard output; use --json=FILE");
    }
    if (options_seen(&app->parsed, "max-memory") && common->max_memory == 0) {
        return app_usage(app,
                         "--max-memory: 0 bytes are not enough; without the option the limit is a quarter of the free "
                         "memory");
    }
    enum vc_status status = vc_ctx_create(&app->ctx);
    if (app->call != NULL) {
        app->call->ctx = app->ctx; /* vcompress_call_end frees it */
    }
    app->subject = NULL; /* these are about options, not about a file */
    if (status != VC_OK) {
        return app_fail(app, status);
    }
    option_names_set(app->ctx, app->command);
    /* a process stops on signals; a call has functions of its own */
    if (app->call == NULL) {
        watch_signals(app->ctx);
    } else {
        vc_ctx_set_progress(app->ctx, app->call->progress, app->call->user);
    }
    if (app->call != NULL && app->call->cancelled) {
        vc_ctx_cancel(app->ctx);
    }
    if (options_seen(&app->parsed, "threads")) {
        unsigned n = common->threads > 1000000 ? 1000000 : (unsigned)common->threads;

        rc = set_up(app, vc_ctx_set_threads(app->ctx, n), "threads");
    }
    if (rc == GO_ON && options_seen(&app->parsed, "max-memory")) {
        rc = set_up(app, vc_ctx_set_max_memory(app->ctx, common->max_memory), "max-memory");
    }
    if (rc == GO_ON && common->cpu_mask != NULL) {
        rc = set_up(app, vc_ctx_set_cpu_mask(app->ctx, common->cpu_mask), "cpu-mask");
    }
    if (rc == GO_ON && common->device != NULL) {
        rc = set_up(app, vc_ctx_set_device(app->ctx, common->device), "device");
    }
    for (size_t k = 0; k < common->n_known && rc == GO_ON; k++) {
        char name[MAX_KNOWN_NAME];
        int64_t number = 0;

        (void)read_known(common->known[k], name, sizeof name, &number);
        rc = set_up(app, vc_ctx_set_known(app->ctx, name, number), "known");
    }
    rc = rc == GO_ON ? files_check(app) : rc;
    const char *first = app->parsed.n_args > 0 ? app->parsed.args[0] : NULL;
    rc = rc == GO_ON ? remote_inputs_open(app) : rc;
    app->subject = subject == first && first != NULL ? app->parsed.args[0] : subject;
    return rc;
}
