/* help.c - --help and the manual page, from the tables of commands and options: an option that has a row there is
 * explained everywhere.
 *
 *     help_overview       vcompress --help: the commands
 *     help_command        vcompress COMMAND --help[=PART]
 *     help_man            the manual page of all commands, vcompress(1)
 *     help_man_of         the manual page of one command, vcompress-quantize(1) */
#include <ctype.h>
#include <string.h>

#include "tools/app.h"

#define HELP_WIDTH  80
#define HELP_INDENT 26
#define HELP_FIRST  400 /* bytes of the first clause of an option's help */

/* ---- --help ---- */

/* Breaks text between words; continuation lines start at column `indent`. The cursor is at column `at`. Lines that
 * start with a blank are examples: printed as they are. A newline in the text begins a new line at `indent`. */
static void wrap(FILE *to, const char *text, int at, int indent)
{
    while (*text != '\0') {
        int n = (int)strcspn(text, *text == ' ' ? "\n" : " \n");

        if (at > indent && at + 1 + n > HELP_WIDTH) {
            fprintf(to, "\n%*s", indent, "");
            at = indent;
        } else if (at > indent) {
            fputc(' ', to);
            at++;
        }
        fwrite(text, 1, (size_t)n, to);
        at += n;
        text += n;
        if (*text == '\n') {
            fprintf(to, "\n%*s", indent, "");
            at = indent;
        }
        text += *text != '\0';
    }
    fputc('\n', to);
}

/* "  -o, --output FILE", "      --json[=FILE]". Returns its length, as snprintf does, also where it was cut. */
static int option_term(char *buf, size_t n, const struct opt *opt)
{
    char letter[8] = "    ";

    if (opt->letter != 0) {
        snprintf(letter, sizeof(letter), "-%c, ", opt->letter);
    }
    if (options_value(opt) == NULL) {
        return snprintf(buf, n, "  %s--%s", letter, opt->name);
    }
    return snprintf(buf, n, opt->optional ? "  %s--%s[=%s]" : "  %s--%s %s", letter, opt->name, options_value(opt));
}

/* A term that is longer than a line goes on behind one of its words: "|" is the last character of the line. */
static void put_term(FILE *to, const char *term)
{
    const size_t width = 80;
    const char *rest = term;
    size_t indent = 0;

    /* the last "|" that fits; a term without one is printed as it is */
    while (indent + strlen(rest) > width) {
        size_t n = 0;

        for (size_t i = 0; indent + i < width; i++) {
            n = rest[i] == '|' ? i + 1 : n;
        }
        if (n == 0) {
            break;
        }
        fprintf(to, "%*s%.*s\n", (int)indent, "", (int)n, rest);
        rest += n;
        indent = 8;
    }
    fprintf(to, "%*s%s", (int)indent, "", rest);
}

/* Term and text in two columns; a long term has a line of its own:
 *
 *       -f, --force           replace an existing file
 *           --eval-array NAME=ARRAY
 *                             as --array */
static void help_option(FILE *to, const struct opt *opt, const char *text)
{
    char term[192];
    int n = option_term(term, sizeof(term), opt);

    put_term(to, term);
    if (n > HELP_INDENT - 2) {
        fputc('\n', to);
        n = 0;
    }
    fprintf(to, "%*s", HELP_INDENT - n, "");
    wrap(to, text, HELP_INDENT, HELP_INDENT);
}

/* Whether `part` is the first word of a title, without regard to case: --help=selection is "Selection". */
static bool title_is(const char *title, const char *part)
{
    size_t n = strcspn(title, " ");

    for (size_t i = 0; i < n; i++) {
        if (tolower((unsigned char)title[i]) != tolower((unsigned char)part[i])) {
            return false;
        }
    }
    return part[n] == '\0';
}

/* Options under their headings: all (NULL), or those under one. Says whether there were any. Groups with the same title
 * stand under one heading. */
static bool help_options(FILE *to, const struct command *command, const char *part)
{
    const char *title = "";
    bool any = false;

    for (size_t g = 0; g < command->n_groups; g++) {
        const struct opt_group *group = command->groups[g];

        if (part != NULL && !title_is(group->title, part)) {
            continue;
        }
        if (strcmp(title, group->title) != 0) {
            fprintf(to, "%s%s:\n", any || part == NULL ? "\n" : "", group->title);
        }
        title = group->title;
        any = true;
        for (size_t i = 0; i < group->n_opts; i++) {
            help_option(to, &group->opts[i], options_help(&group->opts[i]));
        }
    }
    return any;
}

/* "Usage: vcompress NAME ...", then the summary as a sentence. */
static void help_usage(FILE *to, const struct command *command)
{
    fprintf(to, "Usage: vcompress %s", command->name);
    wrap(to, command->usage, (int)(sizeof("Usage: vcompress") + strlen(command->name)), 7);
    fprintf(to, "%c%s.\n", toupper((unsigned char)command->summary[0]), command->summary + 1);
}

/* The first lines of examples in the command's text. One that goes on behind a backslash is one. At most four: the
 * short help fits a terminal. */
static void help_examples(FILE *to, const char *text)
{
    const int most = 4;
    int n = 0;
    bool goes_on = false;

    while (text != NULL && *text != '\0') {
        size_t length = strcspn(text, "\n");

        if (*text == ' ' && (goes_on || n < most)) {
            if (n == 0) {
                fputs("\nExamples:\n", to);
            }
            n += !goes_on;
            fprintf(to, "%.*s\n", (int)length, text);
            goes_on = text[length - 1] == '\\';
        }
        text += length + (text[length] == '\n');
    }
}

/* What --help=PART takes, on a line of its own: "target, scheme, selection". */
static void help_parts(FILE *to, const struct command *command)
{
    const char *title = "";
    char words[HELP_FIRST] = "One part of them: --help=PART, of";
    size_t n = strlen(words);

    for (size_t g = 0; g < command->n_groups && n < sizeof words; g++) {
        /* groups of one title are one part */
        const char *now = command->groups[g]->title;

        if (strcmp(title, now) != 0) {
            n += (size_t)snprintf(words + n, sizeof words - n, "%s%c%.*s", g == 0 ? " " : ", ",
                                  tolower((unsigned char)now[0]), (int)strcspn(now, " ") - 1, now + 1);
        }
        title = now;
    }
    wrap(to, words, 0, 0);
}

/* The options that the command's row names, each in the words up to the first semicolon, and where the others are. */
static void help_short(FILE *to, const struct command *command)
{
    char first[HELP_FIRST];
    size_t n_options = 0;

    help_usage(to, command);
    fputs("\nThe options that most people need:\n", to);
    for (const char *at = command->first; *at != '\0'; at += strspn(at, " ")) {
        size_t n = strcspn(at, " ");
        /* a name that no row has is passed over */
        const struct opt *opt = options_find(command, at, n);

        if (opt != NULL) {
            snprintf(first, sizeof first, "%.*s", (int)options_first_clause(options_help(opt)), options_help(opt));
            help_option(to, opt, first);
        }
        at += n;
    }
    help_examples(to, command->text);
    for (size_t g = 0; g < command->n_groups; g++) {
        n_options += command->groups[g]->n_opts;
    }
    fprintf(to, "\nAll %zu options: vcompress %s --help=all\n", n_options, command->name);
    help_parts(to, command);
}

/* What is printed for each word:
 *
 *     --help          help_short, of commands that have a list of first options; else all
 *     --help=all      usage, text, all options
 *     --help=TITLE    the options under that heading; an unknown one is refused with exit status 2 */
int help_command(struct app *app, const struct command *command, const char *part)
{
    FILE *to = app->call != NULL ? app->call->printed : stdout;

    if (part == NULL && command->first != NULL) {
        help_short(to, command);
        return EXIT_YES;
    }
    if (part != NULL && strcmp(part, "all") != 0) {
        if (help_options(to, command, part)) {
            return EXIT_YES;
        }
        return app_usage(app, "%s has no part '%.40s' of its help; see vcompress %s --help", command->name, part,
                         command->name);
    }
    help_usage(to, command);
    if (command->text != NULL) {
        fputc('\n', to);
        wrap(to, command->text, 0, 0);
    }
    (void)help_options(to, command, NULL);
    return EXIT_YES;
}

/* The same statuses as in app.h, for the overview and the manual pages. */
static const char *const exit_statuses[][2] = {
    {"0", "done, or the answer is yes"},
    {"1", "the answer is no: a gate was missed, files differ, verify found errors"},
    {"2", "wrong usage"},
    {"3", "the input is damaged or not supported"},
    {"4", "the system refused: no space, no memory, no permission, no device"},
};
#define N_EXIT_STATUSES (sizeof(exit_statuses) / sizeof(exit_statuses[0]))

/* The commands in the order of their table, and four lines to begin with. */
void help_overview(FILE *to)
{
    fputs("Usage: vcompress COMMAND [options] INPUT...\n"
          "Makes model checkpoints smaller and reports the error.\n"
          "\n"
          "Commands:\n",
          to);
    for (size_t i = 0; i < n_commands; i++) {
        fprintf(to, "  %-12s %s\n", commands[i]->name, commands[i]->summary);
    }
    fputs("\nExit status:\n", to);
    for (size_t i = 0; i < N_EXIT_STATUSES; i++) {
        fprintf(to, "  %s  %s\n", exit_statuses[i][0], exit_statuses[i][1]);
    }
    fputs("\n"
          "Start with:\n"
          "  vcompress model.npz                            what it is, and where it fits\n"
          "  vcompress inspect model.npz                    what the file holds\n"
          "  vcompress quantize --int8 --dry-run model.npz  the sizes it would get\n"
          "  vcompress quantize --int8 model.npz            make model.int8.npz\n"
          "\n"
          "vcompress COMMAND --help has the options that most people need, --help=all has\n"
          "all of them; vcompress --version tells the build.\n",
          to);
}

/* ---- the manual page, in the man macros of roff ---- */

/* Backslashes and leading points mean something to roff; hyphens are to be copied as they are. Lines that start with a
 * blank are examples and are not filled. */
static void roff(FILE *to, const char *text)
{
    bool example = false;

    while (*text != '\0') {
        size_t n = strcspn(text, "\n");

        if ((*text == ' ') != example) {
            example = !example;
            fputs(example ? ".nf\n" : ".fi\n", to);
        }
        /* a zero-width character before a leading point, which would be a macro */
        fputs(*text == '.' || *text == '\'' ? "\\&" : "", to);
        for (size_t i = 0; i < n; i++) {
            fputs(text[i] == '-' ? "\\-" : text[i] == '\\' ? "\\e" : (char[]){text[i], '\0'}, to);
        }
        fputc('\n', to);
        text += n + (text[n] == '\n');
    }
    fputs(example ? ".fi\n" : "", to);
}

/* A paragraph with a hanging tag (.TP): the option in bold, its value in italics, the text. */
static void man_option(FILE *to, const struct opt *opt, const char *text)
{
    fputs(".TP\n", to);
    if (opt->letter != 0) {
        fprintf(to, "\\fB\\-%c\\fR, ", opt->letter);
    }
    fputs("\\fB\\-\\-", to);
    for (const char *p = opt->name; *p != '\0'; p++) {
        fputs(*p == '-' ? "\\-" : (char[]){*p, '\0'}, to);
    }
    fputs("\\fR", to);
    if (options_value(opt) != NULL) {
        fprintf(to, opt->optional ? "[=\\fI%s\\fR]" : " \\fI%s\\fR", options_value(opt));
    }
    fputc('\n', to);
    roff(to, text);
}

/* Groups that the page of all commands explains once, under "COMMON OPTIONS". */
static bool is_shared(const struct opt_group *group)
{
    return group == &group_run || group == &group_report || group == &group_json || group == &group_page ||
           group == &group_comment || group == &group_gates || group == &group_help;
}

/* A command in the page of all: its options by short descriptions; its own page has the others. */
static void man_command(FILE *to, const struct command *command)
{
    char text[OPT_SHORT];

    fprintf(to, ".SS vcompress %s ", command->name);
    roff(to, command->usage);
    roff(to, command->summary);
    for (size_t g = 0; g < command->n_groups; g++) {
        for (size_t i = 0; !is_shared(command->groups[g]) && i < command->groups[g]->n_opts; i++) {
            man_option(to, &command->groups[g]->opts[i],
                       options_short(options_help(&command->groups[g]->opts[i]), text));
        }
    }
}

/* The options of a group with their whole texts. */
static void man_group(FILE *to, const struct opt_group *group)
{
    for (size_t i = 0; i < group->n_opts; i++) {
        man_option(to, &group->opts[i], options_help(&group->opts[i]));
    }
}

/* A section of both kinds of pages. */
static void man_exit_statuses(FILE *to)
{
    fputs(".SH \"EXIT STATUS\"\n", to);
    for (size_t i = 0; i < N_EXIT_STATUSES; i++) {
        fprintf(to, ".TP\n%s\n%s\n", exit_statuses[i][0], exit_statuses[i][1]);
    }
    fputs(".TP\n128+n\nended by signal n; nothing is left behind\n", to);
}

/* Groups with the same title share a heading. */
void help_man_of(FILE *to, const struct command *command)
{
    const char *title = "";

    fputs(".TH VCOMPRESS\\-", to);
    for (const char *p = command->name; *p != '\0'; p++) {
        fputc(toupper((unsigned char)*p), to);
    }
    fprintf(to, " 1 \"\" \"vcompress %s\" \"User Commands\"\n.SH NAME\nvcompress\\-%s \\- ", vc_version(),
            command->name);
    roff(to, command->summary);
    fprintf(to, ".SH SYNOPSIS\n.B vcompress %s\n", command->name);
    roff(to, command->usage);
    fputs(".SH DESCRIPTION\n", to);
    roff(to, command->text != NULL ? command->text : command->summary);
    for (size_t g = 0; g < command->n_groups; g++) {
        if (strcmp(title, command->groups[g]->title) != 0) {
            fprintf(to, ".SH \"%s\"\n", command->groups[g]->title);
        }
        title = command->groups[g]->title;
        man_group(to, command->groups[g]);
    }
    man_exit_statuses(to);
    fputs(".SH \"SEE ALSO\"\n.BR vcompress (1)\n", to);
}

/* The variables of the environment, in roff. */
static const struct {
    const char *name;
    const char *text;
} environment[] = {
    {"COLUMNS", "the width of reports, as on a terminal; without COLUMNS sentences are not broken"},
    {"NO_COLOR", "when it is not empty, no colours unless \\fB\\-\\-color=always\\fR"},
    {"VC_CPU_MASK", "as \\fB\\-\\-cpu\\-mask\\fR"},
    {"VCOMPRESS_BACKEND_PATH", "the CUDA plug-in or its folder, in place of the default search"},
    {"VCOMPRESS_CARD_START", "seconds that --device auto takes a CUDA device to need before it computes (0.36)"},
    {"VCOMPRESS_MPI_PATH", "the same of the MPI plug-in, for distill with several processes"},
    {"VCOMPRESS_HTTP_PATH", "the same of the plug-in for models of other machines, hf: and https:"},
    {"VCOMPRESS_HTTP_TIMEOUT", "seconds without a byte of a server (60)"},
    {"VCOMPRESS_HTTP_RETRY", "seconds before the second try of a request (0.5); each pause is twice the one before"},
    {"HF_ENDPOINT", "the hub that hf:OWNER/NAME is of"},
    {"HF_TOKEN", "the token of the hub, sent to its host alone; else that of the file HF_TOKEN_PATH, of the file token "
                 "in HF_HOME, or of XDG_CACHE_HOME/huggingface/token"},
    {"HF_HUB_DISABLE_IMPLICIT_TOKEN", "no token is sent"},
    {"HF_HUB_OFFLINE", "nothing is asked of the hub"},
    {"SSL_CERT_FILE", "the certificates that servers are checked by"},
    {"TORCHELASTIC_RUN_ID",
     "set by torchrun, whose processes have no MPI: distill refuses to train in several processes"},
    {"CUDA_VISIBLE_DEVICES", "the GPUs that a process sees; if each rank sees one GPU, distill uses this GPU"},
    {"VCOMPRESS_GPU", "the GPU of fit and plan without --gpu"},
    {"XDG_CONFIG_HOME", "the folder of vcompress/gpus.csv (default: ~/.config), the user's own rows of gpus where no "
                        "\\-\\-gpus\\-file is given"},
    {"TMPDIR", "folder of unnamed temporary files for pipes"},
};

/* Options that are common to commands are told once, behind all of them. */
void help_man(FILE *to)
{
    fprintf(to,
            ".TH VCOMPRESS 1 \"\" \"vcompress %s\" \"User Commands\"\n"
            ".SH NAME\n"
            "vcompress \\- makes model checkpoints smaller and reports the error\n"
            ".SH SYNOPSIS\n"
            ".B vcompress\n"
            ".I COMMAND\n"
            "[options] \\fIINPUT\\fR...\n"
            ".br\n"
            ".B vcompress \\-\\-version\n"
            ".br\n"
            ".B vcompress \\-\\-help\n"
            ".SH DESCRIPTION\n"
            "Reads checkpoints of neural networks (",
            vc_version());
    for (size_t i = 0; vc_name_at(VC_NAMES_EXTENSIONS, i) != NULL; i++) {
        fprintf(to, "%s%s", i == 0 ? "" : ", ", vc_name_at(VC_NAMES_EXTENSIONS, i));
    }
    fputs(
        "), stores the weights in fewer bits, and reports size and error of every tensor. The input is never "
        "changed; the output appears whole or not at all, and is the same for any number of threads, processor or "
        "device.\n"
        ".PP\n"
        "Options may stand anywhere; \\fB\\-\\-\\fR ends them; \\fB\\-\\fR as a file is a pipe. Sizes are bytes, or "
        "carry KiB, MiB, GiB (also K, M, G: powers of two), or KB, MB, GB (powers of ten).\n"
        ".PP\n"
        "Options of commands are listed here in a few words each; \\fBvcompress\\-quantize\\fR(1) and its like explain "
        "them, and so does \\fBvcompress quantize \\-\\-help=all\\fR.\n"
        ".SH COMMANDS\n",
        to);
    for (size_t i = 0; i < n_commands; i++) {
        man_command(to, commands[i]);
    }
    fputs(".SH \"COMMON OPTIONS\"\n", to);
    man_group(to, &group_run);
    man_group(to, &group_json);
    man_group(to, &group_comment);
    man_group(to, &group_gates);
    man_group(to, &group_report);
    man_group(to, &group_help);
    man_exit_statuses(to);
    fputs(".SH ENVIRONMENT\n", to);
    for (size_t i = 0; i < sizeof environment / sizeof environment[0]; i++) {
        fprintf(to, ".TP\n.B %s\n%s\n", environment[i].name, environment[i].text);
    }
    fputs(".SH EXAMPLES\n"
          ".EX\n"
          "vcompress quantize \\-\\-int8 model.npz \\-o small.npz\n"
          "vcompress quantize \\-\\-int8 \\-\\-min\\-sqnr 35 \\-\\-json=report.json model.npz\n"
          "vcompress dequantize small.npz \\-o back.npz\n"
          "vcompress diff model.npz small.npz \\-\\-min\\-sqnr 35\n"
          ".EE\n",
          to);
}
