/* each_input.c - commands with several INPUTs: each in turn; and the names of their outputs, which are compared before
 * the first is opened for work.
 *
 *     vcompress quantize --int8 a.npz b.npz    a.int8.npz and b.int8.npz, two reports
 *
 * As with gzip, a failure of one does not stop the others, and the exit status is the worst of all. */
#include "tools/each_input.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* After a signal no further input is begun. */
int inputs_each(struct app *app, int (*one)(struct app *app, void *user), void *user)
{
    int n = app->parsed.n_args;
    int worst = EXIT_YES;
    int rc;

    if (n > 1 && (app->json.html != NULL || app->json.markdown != NULL)) {
        return app_usage(app, "--%s is a %s about one INPUT, got %d", app->json.html != NULL ? "html" : "markdown",
                         app->json.html != NULL ? "page" : "table", n);
    }
    GO(n > 1 ? json_list_begin(app) : GO_ON);
    for (int i = 0; i < n && caught_signal() == 0; i++) {
        if (i > 0 && app_prints(app)) {
            fputc('\n', app->out.to);
        }
        app->subject = app->parsed.args[i];
        app->written = false;
        signals_end_work();
        rc = one(app, user);
        worst = rc > worst ? rc : worst;
    }
    rc = json_list_end(app);
    return rc > worst ? rc : worst;
}

/* ---- names of outputs ---- */

/* A file by the folder that it is in, so that ./a and a are one, whether it is there or not. */
struct place {
    dev_t device;
    ino_t folder;
    const char *base;
    size_t index; /* of the input */
};

/* The folder's inode and the name in it stand for a file that may not exist yet. */
static void find_place(const char *path, size_t index, struct place *place)
{
    const char *slash = strrchr(path, '/');
    size_t n = slash == NULL ? 0 : (size_t)(slash - path) + 1;
    char *folder = n == 0 ? NULL : strndup(path, n);
    struct stat st;

    *place = (struct place){.base = path + n, .index = index};
    if (stat(folder != NULL ? folder : ".", &st) == 0) { /* a folder that will be made is the same for all */
        place->device = st.st_dev;
        place->folder = st.st_ino;
    }
    free(folder);
}

/* An order without a meaning, for sorting and searching. */
static int compare_places(const void *a, const void *b)
{
    const struct place *x = a;
    const struct place *y = b;

    if (x->device != y->device) {
        return x->device < y->device ? -1 : 1;
    }
    if (x->folder != y->folder) {
        return x->folder < y->folder ? -1 : 1;
    }
    return strcmp(x->base, y->base);
}

/* compare_places, and of one file under two names the input that was given first. */
static int by_place(const void *a, const void *b)
{
    int order = compare_places(a, b);
    const struct place *x = a;
    const struct place *y = b;

    return order != 0 ? order : x->index < y->index ? -1 : 1;
}

/* The file behind a path; false if there is none. Here `folder` is the inode of the file itself. */
static bool find_file(const char *path, size_t index, struct place *place)
{
    struct stat st;

    *place = (struct place){.base = "", .index = index};
    if (stat(path, &st) != 0) {
        return false;
    }
    place->device = st.st_dev;
    place->folder = st.st_ino;
    return true;
}

/* No two outputs are one file. Sorted by place, two of one place are neighbours. GO_ON or a status. */
static int check_twice(struct app *app, char *const *outputs, struct place *places)
{
    char *const *inputs = app->parsed.args;
    size_t n = 0;

    for (int i = 0; i < app->parsed.n_args; i++) {
        if (outputs[i] != NULL) {
            find_place(outputs[i], (size_t)i, &places[n++]);
        }
    }
    qsort(places, n, sizeof(*places), by_place);
    for (size_t i = 1; i < n; i++) {
        if (compare_places(&places[i - 1], &places[i]) == 0) {
            return app_usage(app, "'%s' and '%s' would both become '%s'", inputs[places[i - 1].index],
                             inputs[places[i].index], outputs[places[i].index]);
        }
    }
    return GO_ON;
}

/* No output is an INPUT of the same run: whether that is read before or after would matter. An output that is its own
 * input is refused later, by the library. GO_ON or a status. */
static int check_inputs(struct app *app, char *const *outputs, struct place *places)
{
    char *const *inputs = app->parsed.args;
    struct place output;
    size_t n = 0;

    for (int i = 0; i < app->parsed.n_args; i++) {
        n += find_file(inputs[i], (size_t)i, &places[n]);
    }
    qsort(places, n, sizeof(*places), by_place);
    for (int i = 0; i < app->parsed.n_args; i++) {
        const struct place *found = NULL;

        if (outputs[i] != NULL && find_file(outputs[i], (size_t)i, &output)) {
            found = bsearch(&output, places, n, sizeof(*places), compare_places);
        }
        if (found != NULL && found->index != (size_t)i) {
            return app_usage(app, "'%s' would become '%s', which is an INPUT itself", inputs[i], outputs[i]);
        }
    }
    return GO_ON;
}

int inputs_check_names(struct app *app, char *const *outputs)
{
    struct place *places = calloc((size_t)app->parsed.n_args + 1, sizeof(*places));

    if (places == NULL) {
        return app_refuse(app, VC_E_NOMEM, "not enough memory for %d inputs", app->parsed.n_args);
    }
    int rc = check_twice(app, outputs, places);
    if (rc == GO_ON) {
        rc = check_inputs(app, outputs, places);
    }
    free(places);
    return rc;
}

/* ---- --output-dir ---- */

int inputs_make_folder(struct app *app, const char *folder, bool *made)
{
    struct stat st;

    *made = false;
    if (stat(folder, &st) == 0) {
        return S_ISDIR(st.st_mode) ? GO_ON : app_usage(app, "--output-dir: %s is no folder", folder);
    }
    *made = mkdir(folder, 0777) == 0;
    return *made ? GO_ON : app_refuse(app, VC_E_IO, "--output-dir: %s cannot be made: %s", folder, strerror(errno));
}
