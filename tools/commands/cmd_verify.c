/* cmd_verify.c - vcompress verify: everything that is wrong with a checkpoint, listed at once. The library finds it
 * (vc_verify) and does not stop at the first fault; here are the options, the list as text, and the exit status:
 *
 *     0    no errors, with --strict no warnings either
 *     1    some
 *     3    the file is no checkpoint, or cannot be read */
#include <string.h>

#include "tools/commands/commands.h"
#include "tools/show/documents.h"

#define MAX_PATTERN_RULES 64

struct verify_cli {
    struct base_options base;
    struct vc_verify_options verify;         /* what vc_verify gets */
    bool strict;                             /* --strict */
    struct vc_rule rules[MAX_PATTERN_RULES]; /* --include and --exclude, in the order given */
};

#define VERIFY(member) OPT_FIELD(struct verify_cli, verify.member)

/* NumPy has no name for bf16 and stores it as void; no other type is stored so. */
static bool take_void_as(void *group, const char *value)
{
    ((struct verify_cli *)group)->verify.void_as = VC_DTYPE_BF16;
    return strcmp(value, "bf16") == 0;
}

/* --include and --exclude share one list: the last match wins. */
static bool take_rule(void *group, const char *glob, bool include)
{
    struct verify_cli *cli = group;

    if (glob[0] == '\0' || cli->verify.n_rules == MAX_PATTERN_RULES) {
        return false;
    }
    cli->rules[cli->verify.n_rules++] = (struct vc_rule){.glob = glob, .include = include};
    return true;
}

static bool take_include(void *group, const char *value)
{
    return take_rule(group, value, true);
}

static bool take_exclude(void *group, const char *value)
{
    return take_rule(group, value, false);
}

/* What is checked beyond the headers. */
/* clang-format off */
static const struct opt verify_opts[] = {
    /* values, too */
    {.name = "data", .kind = OPT_BOOL, .set = 1, VERIFY(data),
     .help = "read the values as well: checksums, scales, ranges of codes, NaN and Inf, weights that are there twice"},
    {.name = "sha256", .kind = OPT_BOOL, .set = 1, VERIFY(sha256),
     .help = "print the SHA-256 of every tensor's values (C order, little-endian: the same in every format); reads them as "
             "--data does"},
    /* the source that the file was made from */
    {.name = "against", .value = "FILE", .file = FILE_READ, .kind = OPT_TEXT, VERIFY(against),
     .help = "compare with the checkpoint that the file was made from: the same tensors, copied tensors byte for "
             "byte, the error of the others; reads the values of both"},
    {.name = "min-sqnr", .value = "DB", .kind = OPT_REAL, VERIFY(min_sqnr_db),
     .needs = "against", .help = "a tensor that differs and stays below this SQNR is an error"},
    /* zeros in a pattern */
    {.name = "pattern", .value = "N:M|block:RxC", .kind = OPT_TEXT, VERIFY(pattern),
     .help = "every weight that prune would choose has at most N values of M along the input channels that are not zero, "
             "such as 2:4; or blocks of R rows and C columns that are zero or have no zero; reads these weights"},
    {.name = "include", .value = "GLOB", .kind = OPT_CALL, .call = take_include, .option = "include=true",
     .needs = "pattern", .help = "tensors whose name matches, too; the last match wins"},
    {.name = "exclude", .value = "GLOB", .kind = OPT_CALL, .call = take_exclude, .option = "include=false",
     .needs = "pattern", .help = "not the tensors whose name matches; the last match wins"},
    /* the answer, and how the input is read */
    {.name = "strict", .kind = OPT_BOOL, .set = 1, .field = offsetof(struct verify_cli, strict),
     .help = "warnings count for the exit status as well"},
    {.name = "void-as", .value = "bf16", .kind = OPT_CALL, .call = take_void_as, .option = "void_as",
     .help = "what NumPy's raw 2-byte elements (V2) mean"},
};
/* clang-format on */
static const struct opt_group group_verify = OPT_GROUP("Verify", verify_opts);
static const struct opt_group *const groups[] = {&group_verify, &group_run,    &group_json,
                                                 &group_page,   &group_report, &group_help};

/* What was found, and what that means for the exit status. */
struct verdict {
    const struct vc_verification *v;
    bool strict;
};

/* The answer of the command. */
static bool is_fine(const struct verdict *verdict)
{
    return verdict->v->n_errors == 0 && (!verdict->strict || verdict->v->n_warnings == 0);
}

/* ---- text ---- */

/* As the list has it, in small letters. */
static const char *severity_name(enum vc_severity severity)
{
    return severity == VC_SEVERITY_ERROR ? "error" : "warning";
}

/* "  error: fc1.weight: the sentence [id]". The id is for programs that look for one kind of finding. */
static void print_finding(const struct out *out, const struct vc_finding *finding)
{
    bool error = finding->severity == VC_SEVERITY_ERROR;

    fprintf(out->to, "  %s%s:%s ", out_ink(out, error ? INK_BAD : INK_WARN), severity_name(finding->severity),
            out_ink(out, INK_NONE));
    say(out->to, "%s%s%s", finding->tensor, finding->tensor[0] != '\0' ? ": " : "", finding->sentence);
    fprintf(out->to, " %s[%s]%s\n", out_ink(out, INK_DIM), finding->id, out_ink(out, INK_NONE));
}

/* The line of --against: how many tensors were compared, how many are equal, and the error of the others. */
static void print_figures(const struct out *out, const struct vc_verification *v)
{
    say(out->to, "  against %s: %s tensor%s compared, %s identical", v->against, fmt_count(CELL, v->n_compared),
        plural(v->n_compared), fmt_count(CELL, v->n_identical));
    if (v->measured) {
        const struct vc_verify_row *worst = &v->rows[v->worst];

        say(out->to, "; SQNR %s, worst %s: %s, max error %s", fmt_db(CELL, v->sqnr_db), worst->name,
            fmt_db(CELL, worst->sqnr_db), fmt_real(CELL, worst->max_abs_error));
    }
    fputc('\n', out->to);
}

/* With -v: "f32: 10 tensors, 1.15 MiB; i64: 2 tensors, 16 B". */
static void print_dtypes(const struct out *out, const struct vc_verification *v)
{
    for (size_t i = 0; i < v->n_dtypes; i++) {
        const struct vc_verify_dtype *d = &v->dtypes[i];

        say(out->to, "%s%s: %s tensor%s, %s", i == 0 ? "  " : "; ", vc_dtype_name(d->dtype),
            fmt_count(CELL, d->n_tensors), plural(d->n_tensors), fmt_size(CELL, out, d->size_bytes));
        fputs(i + 1 == v->n_dtypes ? "\n" : "", out->to);
    }
}

/* With -v: what was measured of every tensor. False: no memory. */
static bool print_rows(const struct out *out, const struct vc_verification *v)
{
    struct table table = {.failed = false};

    for (size_t i = 0; i < v->n_rows; i++) {
        const struct vc_verify_row *row = &v->rows[i];

        bool figures = row->compared && row->numeric;

        table_cell(&table, 'l', "", INK_NONE, row->name);
        table_cell(&table, 'l', "", INK_NONE, vc_dtype_name(row->dtype));
        table_cell(&table, 'r', "", INK_NONE, fmt_count(CELL, row->n_elems));
        table_cell(&table, 'r', "", INK_NONE, figures ? fmt_db(CELL, row->sqnr_db) : "");
        table_cell(&table, 'r', "", INK_NONE, figures ? fmt_real(CELL, row->max_abs_error) : "");
        table_cell(&table, 'l', "", INK_NONE, row->nans + row->infs != 0 ? "NaN or Inf" : "");
        if (row->read) {
            table_cell(&table, 'l', "", INK_NONE, row->identical ? "identical" : "");
        } else {
            table_cell(&table, 'l', "", INK_BAD, "cannot be read");
        }
        table_end_row(&table);
    }
    return table_print(&table, out, false);
}

/* --sha256: a line for each tensor, in the form of sha256sum. */
static void print_digests(const struct out *out, const struct vc_verification *v)
{
    for (size_t i = 0; i < v->n_rows; i++) {
        if (v->rows[i].sha256[0] != '\0') {
            say(out->to, "  %s  %s\n", v->rows[i].sha256, v->rows[i].name);
        }
    }
}

/* The whole report; its last line is the answer. False: no memory. */
static bool print_verdict(struct app *app, const struct verdict *verdict)
{
    const struct vc_verification *v = verdict->v;
    const struct out *out = &app->out;

    out_inked(out, INK_BOLD, v->path);
    say(out->to, ": %s, %s tensor%s, %s\n", v->format, fmt_count(CELL, v->n_tensors), plural(v->n_tensors),
        fmt_size(CELL, out, v->file_bytes));
    for (size_t i = 0; i < v->n_findings; i++) {
        print_finding(out, &v->findings[i]);
    }
    /* the library keeps the first findings of a file with very many */
    if (v->n_findings < v->n_errors + v->n_warnings) {
        fprintf(out->to, "  and %zu more\n", v->n_errors + v->n_warnings - v->n_findings);
    }
    if (app->common.verbose > 0) {
        print_dtypes(out, v);
        if (!print_rows(out, v)) {
            return false;
        }
    }
    print_digests(out, v);
    if (v->against[0] != '\0') {
        print_figures(out, v);
    }
    if (v->n_pattern != 0) {
        fprintf(out->to, "  %s weight%s checked for the pattern\n", fmt_count(CELL, v->n_pattern),
                plural(v->n_pattern));
    }
    if (v->n_errors + v->n_warnings == 0) {
        fprintf(out->to, "%sfine:%s nothing found in headers%s\n", out_ink(out, INK_GOOD), out_ink(out, INK_NONE),
                v->data ? " and values" : "; --data reads the values, too");
    } else {
        fputs(is_fine(verdict) ? out_ink(out, INK_GOOD) : out_ink(out, INK_BAD), out->to);
        fprintf(out->to, "%s:%s %zu error%s, %zu warning%s%s\n", is_fine(verdict) ? "fine" : "not fine",
                out_ink(out, INK_NONE), v->n_errors, plural(v->n_errors), v->n_warnings, plural(v->n_warnings),
                v->data ? "" : " in headers");
    }
    return true;
}

/* ---- the command ---- */

/* The first finding, and how many there are beside it: errors come before warnings, and one of both is there. */
static int say_no(struct app *app, const struct vc_verification *v)
{
    const struct vc_finding *first = &v->findings[0];
    size_t more = v->n_errors + v->n_warnings - 1;
    char others[CELL_BYTES] = "";

    if (more != 0) {
        snprintf(others, sizeof(others), ", and %zu more finding%s", more, plural(more));
    }
    return app_answer_no(app, "%s%s%s%s", first->tensor, first->tensor[0] == '\0' ? "" : ": ", first->sentence, others);
}

/* Prints the list and the document. The exit status: is the file fine? */
static int tell(struct app *app, const struct verdict *verdict)
{
    int rc = GO_ON;

    signals_end_printing();
    if (app_prints(app) && !print_verdict(app, verdict)) {
        rc = app_refuse(app, VC_E_NOMEM, "not enough memory to print the report");
    }
    rc = rc == GO_ON
             ? document_plain(
                   app, &(struct vc_document){.kind = VC_DOCUMENT_VERIFY, .of = verdict->v, .strict = verdict->strict})
             : rc;
    app_print_memory(app);
    if (rc != GO_ON) {
        return rc;
    }
    return is_fine(verdict) ? EXIT_YES : say_no(app, verdict->v);
}

/* inputs_each calls this for every FILE. */
static int verify_file(struct app *app, void *user)
{
    const struct verify_cli *cli = user;
    struct vc_verification *v = NULL;
    struct verdict verdict;

    progress_begin(app);
    enum vc_status status = vc_verify(app->ctx, app->subject, &cli->verify, &v);
    progress_end();
    verdict = (struct verdict){.v = v, .strict = cli->strict};
    int rc = status == VC_OK ? tell(app, &verdict) : app_fail(app, status);
    vc_result_free(v);
    return rc;
}

/* Options, then every file. --against has one source, so it goes with one file. */
static int run_verify(struct app *app, int n_args, char **args)
{
    struct verify_cli cli = {.strict = false};

    vc_verify_defaults(&cli.verify);
    GO(app_parse(app, n_args, args, &cli));
    if (app->parsed.n_args > 1 && cli.verify.against != NULL) {
        return app_usage(app, "--against is the source of one FILE, but there are %d", app->parsed.n_args);
    }
    cli.verify.rules = cli.rules;
    GO(app_check_gate(app, "min-sqnr", cli.verify.min_sqnr_db));
    app->subject = app->parsed.args[0];
    app->output = cli.verify.against;
    GO(app_open(app));
    GO(json_check(app));
    return inputs_each(app, verify_file, &cli);
}

const struct command command_verify = {
    .name = "verify",
    .usage = "[--data] [--sha256] [--against SOURCE] [options] FILE...",
    .summary = "list all errors of a checkpoint",
    .text =
        "Makes the checks that every command makes on opening a file, without stopping at the first finding, and "
        "more: missing or extra parts of quantized weights, a name with another format's extension. In a damaged file "
        "the readable parts are checked. Reads headers only unless --data or --against is given. Exit status 0 "
        "without errors, 1 with errors, 3 if the file is no checkpoint or cannot be read; warnings count with "
        "--strict. With several files the highest status counts.\n"
        "  vcompress verify --data model.safetensors\n"
        "  vcompress verify small.npz --against model.npz --min-sqnr 35",
    .first = "data against min-sqnr pattern strict sha256 json",
    OPT_GROUPS(groups),
    .needs = "a FILE",
    .args = "FILE",
    .schema = "vcompress.verify/1",
    .run = run_verify,
};
