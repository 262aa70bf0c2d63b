/* command_files.c - see command_files.h. Two paths are one file if they lead to the same inode, or, where one of them
 * does not exist yet, to the same name in the same folder:
 *
 *     ./out.npz and out.npz           one file, whether it exists or not
 *     link.npz -> in.npz, in.npz      one file
 *     /dev/stdout, pipes, "-"         never one file: writing to them twice replaces nothing */
#include "tools/command_files.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "tools/app.h"

/* ---- the list ---- */

/* Adds one name to the list. opt NULL: an operand, which is read. GO_ON or a status. */
static int add_path(struct app *app, const struct opt *opt, const char *path, size_t n)
{
    struct command_files *files = &app->files;
    struct named_file *grown = realloc(files->list, (files->n + 1) * sizeof(*grown));
    char *copy = strndup(path, n);

    files->list = grown != NULL ? grown : files->list;
    if (grown == NULL || copy == NULL) {
        free(copy);
        return app_refuse(app, VC_E_NOMEM, "not enough memory for the names of the files");
    }
    files->list[files->n++] = (struct named_file){
        .path = copy, .option = opt != NULL ? opt->name : NULL, .use = opt != NULL ? opt->file : FILE_READ};
    if (opt != NULL && opt->by_letter) {
        files->list[files->n - 1].option = "-o";
    }
    return GO_ON;
}

/* Adds the files of one option. A list, "a.npz,b.npz" of --emit and --teacher, is added in parts and as a whole, since
 * a name may have a comma. GO_ON or a status. */
static int add_option(struct app *app, const struct given *given)
{
    const char *value = given->value;
    int rc = GO_ON;

    for (size_t n; rc == GO_ON && given->opt->file_list && value != NULL;
         value = value[n] == ',' ? value + n + 1 : NULL) {
        n = strcspn(value, ",");
        rc = n != 0 ? add_path(app, given->opt, value, n) : GO_ON;
    }
    return rc == GO_ON && given->value != NULL ? add_path(app, given->opt, given->value, strlen(given->value)) : rc;
}

/* Operands are files only of commands whose row says FILE. */
int files_add(struct app *app, const struct parsed *parsed, const struct command *command)
{
    int rc = GO_ON;

    for (size_t i = 0; rc == GO_ON && i < parsed->n_files; i++) {
        rc = add_option(app, &parsed->files[i]);
    }
    for (int i = 0; rc == GO_ON && i < parsed->n_args && command->args != NULL && strcmp(command->args, "FILE") == 0;
         i++) {
        rc = add_path(app, NULL, parsed->args[i], strlen(parsed->args[i]));
    }
    return rc;
}

void files_free(struct command_files *files)
{
    for (size_t i = 0; i < files->n; i++) {
        free(files->list[i].path);
    }
    free(files->list);
    *files = (struct command_files){.list = NULL};
}

/* ---- apart ---- */

/* The folder that a path lies in, and the name there. False: the folder does not exist. */
static bool find_place(const char *path, struct stat *folder, const char **base)
{
    const char *slash = strrchr(path, '/');
    char *name = slash != NULL ? strndup(path, (size_t)(slash - path) + 1) : NULL;
    bool found = (slash == NULL || name != NULL) && stat(name != NULL ? name : ".", folder) == 0;

    *base = slash != NULL ? slash + 1 : path;
    free(name);
    return found;
}

/* Asked of all pairs, so it is cheap for different names: two calls of stat. */
static bool is_same(const char *a, const char *b)
{
    struct stat sa;
    struct stat sb;
    const char *base_a;
    const char *base_b;
    bool there = stat(a, &sa) == 0;

    if (strcmp(a, "-") == 0 || (there && !S_ISREG(sa.st_mode) && !S_ISDIR(sa.st_mode))) {
        return false;
    }
    if (there && stat(b, &sb) == 0) {
        return sa.st_dev == sb.st_dev && sa.st_ino == sb.st_ino;
    }
    return strcmp(a, b) == 0 || (find_place(a, &sa, &base_a) && find_place(b, &sb, &base_b) && sa.st_dev == sb.st_dev &&
                                 sa.st_ino == sb.st_ino && strcmp(base_a, base_b) == 0);
}

/* The option as people write it: "--data", "-o". */
static const char *option_text(const struct named_file *file, char text[40])
{
    (void)snprintf(text, 40, "%s%s", file->option[0] == '-' ? "" : "--", file->option);
    return text;
}

/* Refuses the pair. Where the file is that of --json, no document of the failure is written into it. */
static int refuse(struct app *app, const struct named_file *written, const struct named_file *other)
{
    char name[40], other_name[40];

    if (app->json.path != NULL && is_same(written->path, app->json.path)) {
        app->json.on = false; /* nowhere to put an error document */
    }
    if (other->option == NULL) {
        return app_usage(app, "%s: is the input itself, which is never overwritten", written->path);
    }
    return app_usage(app, "%s %s is the file of %s, too", option_text(written, name), written->path,
                     option_text(other, other_name));
}

/* Pairs that are right: one option given twice, and --checkpoint with the file of --resume. */
static bool may_be_same(const struct named_file *written, const struct named_file *other)
{
    return (other->option != NULL && strcmp(written->option, other->option) == 0) || /* one file, given twice */
           (written->use == FILE_STATE && other->use == FILE_RESUMED);
}

/* FILE_RESUMED is read. */
static bool is_written(const struct named_file *file)
{
    return file->use == FILE_WRITTEN || file->use == FILE_STATE;
}

/* Each pair is looked at once: of two written files only from the first one. Files that are read are told to the
 * context, which then replaces none of them. */
int files_check(struct app *app)
{
    const struct command_files *files = &app->files;

    for (size_t i = 0; i < files->n; i++) {
        const struct named_file *file = &files->list[i];

        for (size_t k = 0; is_written(file) && k < files->n; k++) {
            const struct named_file *other = &files->list[k];

            if (k != i && (!is_written(other) || k > i) && !may_be_same(file, other) &&
                is_same(file->path, other->path)) {
                return refuse(app, file, other);
            }
        }
        if (file->use == FILE_READ && vc_ctx_keep_file(app->ctx, file->path) != VC_OK) {
            return app_fail(app, VC_E_NOMEM);
        }
    }
    return GO_ON;
}

int files_check_made(struct app *app, const char *path)
{
    for (size_t i = 0; i < app->files.n; i++) {
        const struct named_file *file = &app->files.list[i];

        if (file->option != NULL && is_same(path, file->path)) {
            char name[40];

            if (app->json.path != NULL && is_same(path, app->json.path)) {
                app->json.on = false; /* nowhere to put an error document */
            }
            return app_usage(app, "%s %s is the output itself", option_text(file, name), file->path);
        }
    }
    return GO_ON;
}
