/* plugin.c - see plugin.h. */
#include "core/base/plugin.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* <libdir> of the installation, set by the build. */
#ifndef VC_PLUGIN_LIBDIR
#define VC_PLUGIN_LIBDIR "/usr/local/lib"
#endif

/* Appends folder/file; not a second time, where the program lies in the folder it was installed to. */
void vc_plugin_add_place(struct vc_plugin_search *search, const char *folder, const char *file)
{
    unsigned n = search->n_places;
    int length = snprintf(search->places[n].path, sizeof search->places[n].path, "%s%s%s", folder,
                          file[0] != '\0' ? "/" : "", file);

    if (length < 0 || (size_t)length >= sizeof search->places[n].path) {
        return; /* longer than any path the system opens */
    }
    if (n > 0 && strcmp(search->places[0].path, search->places[n].path) == 0) {
        return;
    }
    search->places[n].outcome[0] = '\0';
    search->n_places = n + 1;
}

void vc_plugin_list(const struct vc_plugin_kind *kind, struct vc_plugin_search *search)
{
    const char *wanted = getenv(kind->variable);
    struct stat info;
    char program[3900], file[128];

    search->n_places = 0;
    if (wanted != NULL && wanted[0] != '\0') {
        vc_plugin_add_place(search, wanted, stat(wanted, &info) == 0 && S_ISDIR(info.st_mode) ? kind->file : "");
        return;
    }
    vc_plugin_add_place(search, VC_PLUGIN_LIBDIR "/vcompress", kind->file);
    ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    if (length <= 0) {
        return;
    }
    program[length] = '\0';
    for (int up = 0; up < 2; up++) { /* the program, then its folder */
        char *slash = strrchr(program, '/');

        if (slash == NULL) {
            return;
        }
        *slash = '\0';
    }
    (void)snprintf(file, sizeof file, "lib/vcompress/%s", kind->file);
    vc_plugin_add_place(search, program, file);
}

void vc_plugin_outcome(char outcome[VC_PLUGIN_OUTCOME], const char *path, const char *text)
{
    size_t n = strlen(path);

    if (strncmp(text, path, n) == 0 && strncmp(text + n, ": ", 2) == 0) {
        text += n + 2;
    }
    (void)snprintf(outcome, VC_PLUGIN_OUTCOME, "%.255s", text);
    for (size_t i = 0; outcome[i] != '\0'; i++) {
        if ((unsigned char)outcome[i] < 0x20) {
            outcome[i] = ' ';
        }
    }
}

void *vc_plugin_load(const struct vc_plugin_kind *kind, const char *path, void **symbol,
                     char outcome[VC_PLUGIN_OUTCOME])
{
    if (path[0] != '/') { /* nothing is ever loaded from the current folder */
        (void)snprintf(outcome, VC_PLUGIN_OUTCOME, "%s must be an absolute path", kind->variable);
        return NULL;
    }
    if (access(path, F_OK) != 0) {
        vc_plugin_outcome(outcome, path, errno == ENOENT ? "no such file" : strerror(errno));
        return NULL;
    }
    void *library = dlopen(path, RTLD_NOW | (kind->global ? RTLD_GLOBAL : RTLD_LOCAL));
    if (library == NULL) {
        const char *reason = dlerror();
        vc_plugin_outcome(outcome, path, reason != NULL ? reason : "it cannot be loaded");
        return NULL;
    }
    *symbol = dlsym(library, kind->symbol);
    if (*symbol == NULL) {
        (void)snprintf(outcome, VC_PLUGIN_OUTCOME, "it has no function %s", kind->symbol);
        (void)dlclose(library);
        return NULL;
    }
    return library;
}

void vc_plugin_unload(void *library)
{
    (void)dlclose(library);
}

void vc_plugin_tried(const struct vc_plugin_kind *kind, const struct vc_plugin_search *search, char *text, size_t n)
{
    size_t at = 0;

    (void)snprintf(text, n, "%s (too long)", kind->variable);
    for (unsigned k = 0; k < search->n_places && k < 2 && at < n; k++) {
        at += (size_t)snprintf(text + at, n - at, "%s%s (%s)", k == 0 ? "" : ", ", search->places[k].path,
                               search->places[k].outcome);
    }
}
