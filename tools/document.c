/* document.c - where the JSON document of a command goes: standard output, or the file of --json=FILE; the page of
 * --html, the table of --markdown, and the drawing of --svg. With several inputs the document is a list of documents,
 * one for each in their order:
 *
 *     [
 *     {"schema": "vcompress.report/1", ...},
 *     {"schema": "vcompress.report/1", "error": ...}
 *     ]
 *
 * What is in a document is the library's work. */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/app.h"

/* ---- the file ----
 *
 * --json=FILE, --html FILE and --svg FILE replace what a former run left there, so scripts can use one name, but
 * nothing else: the old content is looked at before. The new one is written beside it and renamed, so that a reader
 * never sees half of it. */

#define TEMPORARY_SUFFIX ".tmp"

/* A file that an option names. */
struct destination {
    const char *option; /* "--json=" */
    const char *path;   /* NULL: standard output */
    const char *start;  /* how what we write begins, without white space */
};

/* The beginnings of documents by which older ones are recognized: JSON here, the page, the table and the drawing below.
 * They are compared without white space. */
static struct destination json_destination(const struct app *app)
{
    return (struct destination){"--json=", app->json.path, "{\"schema\":\"vcompress."};
}

/* The file is empty, or begins as ours do, with any white space; a document may be in a list. A list's bracket is
 * skipped only where nothing was matched yet. An empty file has nothing to lose. */
static bool is_ours(const struct destination *to)
{
    const char *start = to->start;
    size_t at = 0;
    FILE *f = fopen(to->path, "rb");
    int c = EOF;

    if (f == NULL) {
        return false;
    }
    while (start[at] != '\0' && (c = getc(f)) != EOF) {
        if (isspace(c) || (c == '[' && at == 0)) {
            continue;
        }
        if (c != start[at]) {
            break;
        }
        at++;
    }
    fclose(f);
    return start[at] == '\0' || (at == 0 && c == EOF);
}

/* There is something that must not be replaced: a folder, or a file that vcompress did not write. */
static bool is_foreign(const struct destination *to)
{
    struct stat st;

    return stat(to->path, &st) == 0 && (S_ISDIR(st.st_mode) || (S_ISREG(st.st_mode) && !is_ours(to)));
}

/* A pipe or device, such as /dev/stderr: written to, never replaced. */
static bool is_special(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 && !S_ISREG(st.st_mode);
}

/* Beside the file, since rename works within one file system. The number of the process keeps two runs apart. */
static char *temporary_name(const char *path)
{
    size_t n = strlen(path) + 40;
    char *name = malloc(n);

    if (name != NULL) {
        snprintf(name, n, "%s" TEMPORARY_SUFFIX "%ld", path, (long)getpid());
    }
    return name;
}

/* Its name, while it is open: a signal removes it. There is one at a time in a thread. */
static _Thread_local char *open_as;

/* From here on a signal removes nothing. */
static void forget_temporary(void)
{
    signals_remove(NULL);
    free(open_as);
    open_as = NULL;
}

/* The stream to write to: standard output, the device, or the temporary file. NULL, with errno. */
static FILE *open_destination(const struct destination *where)
{
    const char *path = where->path;
    FILE *to = NULL;

    if (path == NULL) {
        return stdout;
    }
    if (is_special(path)) {
        return fopen(path, "w");
    }
    open_as = temporary_name(path);
    if (open_as == NULL) {
        return NULL;
    }
    int fd = open(open_as, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd >= 0) {
        signals_remove(open_as);
        to = fdopen(fd, "w");
        if (to == NULL) {
            close(fd);
            unlink(open_as);
        }
    }
    if (to == NULL) {
        int error = errno;

        forget_temporary();
        errno = error;
    }
    return to;
}

/* Closes what open_destination opened and renames the temporary file. `error`: the errno of what could not be written
 * before, or 0. 0, or the errno of what was not written; then no temporary file is left. */
static int put_in_place(const struct destination *where, FILE *to, int error)
{
    const char *path = where->path;

    if (error == 0 && fflush(to) != 0) {
        error = errno;
    }
    if (path != NULL && fclose(to) != 0 && error == 0) {
        error = errno;
    }
    if (open_as != NULL && error == 0 && rename(open_as, path) != 0) {
        error = errno;
    }
    if (open_as != NULL && error != 0) {
        unlink(open_as);
    }
    forget_temporary();
    return error;
}

/* The temporary file goes as it came. */
static void put_away(FILE *to)
{
    if (open_as != NULL) {
        (void)unlink(open_as);
    }
    if (to != NULL) {
        (void)fclose(to);
    }
    forget_temporary();
}

/* 0, or the errno of what was not written. */
static int write_whole(const struct destination *where, const char *text)
{
    FILE *to = open_destination(where);

    if (to == NULL) {
        return errno != 0 ? errno : EIO;
    }
    return put_in_place(where, to, fputs(text, to) == EOF ? errno : 0);
}

int app_refuse_file(struct app *app, const char *option, const char *path, const char *why)
{
    const char *subject = app->subject;
    const char *output = app->output != NULL && strcmp(app->output, "-") != 0 ? app->output : "";
    int rc;

    app->subject = NULL; /* it is not about the input */
    if (app->written) {
        rc = app_refuse(app, VC_E_IO, "%s%s: %s; the output%s%s is complete", option, path, why,
                        output[0] != '\0' ? " " : "", output);
    } else {
        rc = app_refuse(app, VC_E_IO, "%s%s: %s", option, path, why);
    }
    app->subject = subject;
    return rc;
}

/* Refuses with the option and the path of the destination. */
static int refuse(struct app *app, const struct destination *where, const char *why)
{
    return app_refuse_file(app, where->option, where->path, why);
}

/* Something else lies there, or nothing can be written there: found before the work. GO_ON or a status. A temporary
 * file is made and removed again: it is the only sure test that a folder can be written to. */
static int check_place(struct app *app, const struct destination *where, const char *is_foreign_kind)
{
    int error = 0;

    if (is_foreign(where)) {
        return refuse(app, where, is_foreign_kind);
    }
    if (is_special(where->path)) {
        error = access(where->path, W_OK) == 0 ? 0 : errno;
    } else {
        FILE *to = open_destination(where);

        error = to == NULL ? errno : 0;
        put_away(to);
    }
    return error == 0 ? GO_ON : refuse(app, where, strerror(error));
}

/* The document itself cannot be written, so no document of that failure is tried. */
static int json_refuse(struct app *app, const char *why)
{
    const struct destination where = json_destination(app);

    app->json.on = false; /* nowhere to put an error document */
    return refuse(app, &where, why);
}

static struct destination html_destination(const struct app *app)
{
    return (struct destination){"--html ", app->json.html, "<!DOCTYPEhtml><!--vcompress"};
}

static struct destination markdown_destination(const struct app *app)
{
    return (struct destination){"--markdown ", app->json.markdown, "**vcompress"};
}

/* A page or a table has to be a file by name: "" and "-" are refused. GO_ON or a status. */
static int check_named(struct app *app, const struct destination *where, const char *is_foreign_kind)
{
    if (where->path == NULL) {
        return GO_ON;
    }
    if (where->path[0] == '\0' || strcmp(where->path, "-") == 0) {
        return app_usage(app, "%.*s: '%s' is no file; /dev/stdout is standard output", (int)strlen(where->option) - 1,
                         where->option, where->path);
    }
    return check_place(app, where, is_foreign_kind);
}

int beside_write(struct app *app, bool markdown, enum vc_status status, char *text)
{
    const struct destination where = markdown ? markdown_destination(app) : html_destination(app);
    int error = status == VC_OK ? write_whole(&where, text) : 0;

    vc_text_free(text);
    return status != VC_OK ? app_fail(app, status) : error == 0 ? GO_ON : refuse(app, &where, strerror(error));
}

bool is_document(const char *path)
{
    const struct destination document = {NULL, path, json_destination(&(struct app){0}).start};
    struct stat st;

    return stat(path, &st) == 0 && S_ISREG(st.st_mode) && st.st_size > 0 && is_ours(&document);
}

/* Looks at the page, the table and the document, in that order. */
int json_check(struct app *app)
{
    const struct destination where = json_destination(app);
    const struct destination html = html_destination(app);
    const struct destination markdown = markdown_destination(app);
    int rc = check_named(app, &html, "exists and is no page of vcompress: not replaced");

    rc = rc == GO_ON ? check_named(app, &markdown, "exists and is no table of vcompress: not replaced") : rc;
    if (rc != GO_ON || where.path == NULL) {
        return rc;
    }
    if (is_foreign(&where)) {
        app->json.on = false; /* nowhere to put an error document */
    }
    return check_place(app, &where, "exists and is no report of vcompress: not replaced");
}

/* ---- a drawing ---- */

static struct destination svg_destination(const char *path)
{
    return (struct destination){"--svg ", path, "<!--vcompress"};
}

int svg_check(struct app *app, const char *path)
{
    const struct destination where = svg_destination(path);

    return check_place(app, &where, "exists and is no drawing of vcompress: not replaced");
}

int svg_write(struct app *app, const char *path, const char *text)
{
    const struct destination where = svg_destination(path);
    int error = write_whole(&where, text);

    return error == 0 ? GO_ON : refuse(app, &where, strerror(error));
}

int header_write(struct app *app, const char *path, const char *text)
{
    const struct destination where = {"", path, "/*vcompress:"};
    int error = write_whole(&where, text);

    return error == 0 ? GO_ON : refuse(app, &where, strerror(error));
}

/* ---- the text ---- */

/* A call (call.h) gets the document as a result. */
static int write_text(struct app *app, const char *text)
{
    const struct destination where = json_destination(app);

    if (app->call != NULL && where.path == NULL) {
        free(app->call->document);
        app->call->document = strdup(text);
        return app->call->document != NULL ? GO_ON : app_refuse(app, VC_E_NOMEM, "no memory for a document");
    }
    int error = write_whole(&where, text);
    /* A lost standard output is noticed once, at the end of main. */
    app->print_error = where.path == NULL && app->print_error == 0 ? error : app->print_error;
    return error == 0 || where.path == NULL ? GO_ON : json_refuse(app, strerror(error));
}

/* One more element, without the line break at its end. */
static void add_to_list(struct json_options *json, const char *text)
{
    size_t n = strlen(text);

    while (n > 0 && text[n - 1] == '\n') {
        n--;
    }
    fputs(json->n_listed++ == 0 ? "[\n" : ",\n", json->list);
    fwrite(text, 1, n, json->list);
}

int json_print(struct app *app, const char *text)
{
    if (app->json.list != NULL) {
        add_to_list(&app->json, text);
        return GO_ON;
    }
    return write_text(app, text);
}

bool json_may_stream(const struct app *app)
{
    return app->json.on && app->json.html == NULL && app->json.markdown == NULL && app->json.list == NULL &&
           app->call == NULL;
}

/* A lost standard output is noticed at the end of main. */
static bool add_piece(void *user, uint64_t offset, const void *bytes, size_t n)
{
    struct json_stream *stream = user;
    const struct destination where = json_destination(stream->app);

    (void)offset; /* they come in order */
    errno = EIO;
    stream->to = stream->to != NULL ? stream->to : open_destination(&where);
    if (stream->to == NULL || fwrite(bytes, 1, n, stream->to) != n) {
        *(where.path != NULL ? &stream->error : &stream->app->print_error) = errno;
    }
    return stream->error == 0;
}

struct vc_writer json_writer(struct json_stream *stream)
{
    return (struct vc_writer){.write = add_piece, .user = stream};
}

int json_written(struct json_stream *stream, enum vc_status status)
{
    const struct destination where = json_destination(stream->app);

    if (status == VC_OK) {
        stream->error = put_in_place(&where, stream->to, 0);
    } else if (where.path != NULL) {
        put_away(stream->to);
    }
    return stream->error != 0 && where.path != NULL ? json_refuse(stream->app, strerror(stream->error))
           : status != VC_OK                        ? app_fail(stream->app, status)
                                                    : GO_ON;
}

int json_list_begin(struct app *app)
{
    app->json.list = app->json.on ? open_memstream(&app->json.list_text, &app->json.list_bytes) : NULL;
    return app->json.on && app->json.list == NULL ? app_refuse(app, VC_E_NOMEM, "no memory for a list of documents")
                                                  : GO_ON;
}

int json_list_end(struct app *app)
{
    struct json_options *json = &app->json;
    int rc = GO_ON;

    if (json->list == NULL) {
        return GO_ON;
    }
    fputs(json->n_listed == 0 ? "[]\n" : "\n]\n", json->list);
    if (ferror(json->list) | fclose(json->list)) {
        json->on = false;
        rc = app_refuse(app, VC_E_NOMEM, "no memory for a list of documents");
    }
    json->list = NULL;
    if (rc == GO_ON) {
        rc = write_text(app, json->list_text);
    }
    free(json->list_text);
    json->list_text = NULL;
    return rc;
}

/* ---- failures ---- */

/* The document in a context of its own: the limit of the command's context may be what failed, or a wrong line ended
 * before there was one. NULL: no memory. */
static char *error_text(const char *schema, enum vc_status status, const char *message)
{
    struct vc_ctx *ctx = NULL;
    char *text = NULL;

    (void)vc_ctx_create(&ctx); /* may fail for VC_CPU_MASK, and gives a context then, too */
    if (ctx != NULL) {
        (void)vc_document_json(
            ctx, &(struct vc_document){.kind = VC_DOCUMENT_ERROR, .of = schema, .failure = status, .missed = message},
            &text);
    }
    vc_ctx_free(ctx);
    return text;
}

void json_failure(struct app *app, enum vc_status status, const char *message)
{
    const struct destination where = json_destination(app);
    char *text = NULL;

    if (!app->json.on || app->silent || app->call != NULL || app->command == NULL || app->command->schema == NULL ||
        (where.path != NULL && is_foreign(&where))) {
        return;
    }
    text = error_text(app->command->schema, status, message);
    if (text != NULL && app->json.list != NULL) {
        add_to_list(&app->json, text);
    } else if (text != NULL) {
        (void)write_whole(&where, text); /* one failure is reported, the first */
    }
    vc_text_free(text);
}
