/* files_apart.c - see files_apart.h. */
#include "tools/files_apart.h"

#include <string.h>
#include <sys/stat.h>

static const char *without_dot(const char *path)
{
    while (path[0] == '.' && path[1] == '/') {
        path += 2;
        path += strspn(path, "/");
    }
    return path;
}

static bool is_same(const char *a, const char *b)
{
    struct stat sa;
    struct stat sb;
    bool there = stat(a, &sa) == 0;

    if (there && !S_ISREG(sa.st_mode) && !S_ISDIR(sa.st_mode)) {
        return false;
    }
    return strcmp(without_dot(a), without_dot(b)) == 0 ||
           (there && stat(b, &sb) == 0 && sa.st_dev == sb.st_dev && sa.st_ino == sb.st_ino);
}

static bool is_state(const struct named_file *file)
{
    return strcmp(file->option, "--checkpoint") == 0 || strcmp(file->option, "--resume") == 0;
}

int files_apart(struct app *app, const struct named_file *files, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        for (size_t k = 0; files[i].path != NULL && files[i].written && k < n; k++) {
            const struct named_file *other = &files[k];

            if (k == i || other->path == NULL || (other->written && k < i) ||
                (is_state(&files[i]) && is_state(other)) || !is_same(files[i].path, other->path)) {
                continue;
            }
            if (app->json.path != NULL && is_same(files[i].path, app->json.path)) {
                app->json.on = false; /* nowhere to put an error document */
            }
            return app_usage(app, "%s %s is the file of %s, too", files[i].option, files[i].path, other->option);
        }
    }
    return GO_ON;
}
