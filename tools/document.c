/* document.c - where the JSON document of a command goes: standard output, or the file of --json=FILE. With several
 * inputs it is a list of documents, one for each in their order:
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
 * --json=FILE replaces what a former run left there, so scripts can use one name, but nothing else: the old content is
 * looked at before. The new one is written beside it and renamed, so that a reader never sees half a document. */

#define TEMPORARY_SUFFIX ".tmp"

/* The file is empty, or begins as our documents do: {"schema": "vcompress. with any white space, in a list or not. */
static bool is_ours(const char *path)
{
    static const char start[] = "{\"schema\":\"vcompress.";
    size_t at = 0;
    FILE *f = fopen(path, "rb");
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

/* There is something that a document must not replace: a folder, or a file that is none of ours. */
static bool is_foreign(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 && (S_ISDIR(st.st_mode) || (S_ISREG(st.st_mode) && !is_ours(path)));
}

/* A pipe or device, such as /dev/stderr: written to, never replaced. */
static bool is_special(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 && !S_ISREG(st.st_mode);
}

static char *temporary_name(const char *path)
{
    size_t n = strlen(path) + 40;
    char *name = malloc(n);

    if (name != NULL) {
        snprintf(name, n, "%s" TEMPORARY_SUFFIX "%ld", path, (long)getpid());
    }
    return name;
}

/* The stream to write the document to: standard output, the device, or the temporary file. NULL, with errno. */
static FILE *json_open(struct app *app)
{
    const char *path = app->json.path;
    char *temporary = NULL;
    FILE *to = NULL;
    int fd;

    if (path == NULL) {
        return stdout;
    }
    if (is_special(path)) {
        return fopen(path, "w");
    }
    temporary = temporary_name(path);
    if (temporary == NULL) {
        return NULL;
    }
    fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd >= 0) {
        to = fdopen(fd, "w");
        if (to == NULL) {
            close(fd);
            unlink(temporary);
        }
    }
    free(temporary);
    return to;
}

/* Closes what json_open opened and renames the temporary file. 0, or the errno of what was not written; then no
 * temporary file is left. */
static int put_in_place(struct app *app, FILE *to)
{
    const char *path = app->json.path;
    bool plain = path != NULL && !is_special(path);
    char *temporary = plain ? temporary_name(path) : NULL;
    int error = fflush(to) != 0 || ferror(to) ? (errno != 0 ? errno : EIO) : 0;

    if (path != NULL && fclose(to) != 0 && error == 0) {
        error = errno;
    }
    if (plain && temporary == NULL) {
        return ENOMEM;
    }
    if (plain && error == 0 && rename(temporary, path) != 0) {
        error = errno;
    }
    if (plain && error != 0) {
        unlink(temporary);
    }
    free(temporary);
    return error;
}

static int json_refuse(struct app *app, const char *why)
{
    app->json.on = false; /* nowhere to put an error document */
    return app_refuse(app, VC_E_IO, "--json=%s: %s", app->json.path, why);
}

int json_check(struct app *app)
{
    const char *path = app->json.path;

    if (path == NULL) {
        return GO_ON;
    }
    if (app->output != NULL && strcmp(path, app->output) == 0) {
        app->json.on = false;
        return app_usage(app, "--json=%s is the output itself", path);
    }
    return is_foreign(path) ? json_refuse(app, "exists and is no report of vcompress: not replaced") : GO_ON;
}

/* ---- the text ---- */

static int write_text(struct app *app, const char *text)
{
    FILE *to = json_open(app);
    int error;

    if (to == NULL) {
        return json_refuse(app, strerror(errno));
    }
    fputs(text, to);
    error = put_in_place(app, to);
    /* A lost standard output is noticed once, at the end of main. */
    return error == 0 || app->json.path == NULL ? GO_ON : json_refuse(app, strerror(error));
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
        (void)vc_error_json(ctx, schema, status, message, &text);
    }
    vc_ctx_free(ctx);
    return text;
}

void json_failure(struct app *app, enum vc_status status, const char *message)
{
    char *text = NULL;
    FILE *to;

    if (!app->json.on || app->command == NULL || app->command->schema == NULL ||
        (app->json.path != NULL && is_foreign(app->json.path))) {
        return;
    }
    text = error_text(app->command->schema, status, message);
    if (text != NULL && app->json.list != NULL) {
        add_to_list(&app->json, text);
        vc_text_free(text);
        return;
    }
    to = text != NULL ? json_open(app) : NULL;
    if (to != NULL) { /* else nothing: one failure is reported, the first */
        fputs(text, to);
        (void)put_in_place(app, to);
    }
    vc_text_free(text);
}
