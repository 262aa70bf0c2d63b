/* plugin.h - code that is loaded when it is first needed: a file beside the library, so that the program itself depends
 * on none of what that file needs. cuda_load.c (kernels) and join.c (ranks) each have one.
 *
 * Where it is looked for, and nowhere else (never the current directory):
 *   1. the file or folder that a variable of the environment names (an absolute path); if that is set, only there
 *   2. <libdir>/vcompress/ of the installation this was built for
 *   3. lib/vcompress/ beside the folder of the running program (<prefix>/bin/vcompress: <prefix>/lib/vcompress/) */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#define VC_PLUGIN_PLACES  2 /* of the list above: 1 alone, or 2 and 3 */
#define VC_PLUGIN_OUTCOME 256

/* The places, and what was found there. */
struct vc_plugin_search {
    unsigned n_places;
    struct {
        char path[4096];
        char outcome[VC_PLUGIN_OUTCOME];
    } places[VC_PLUGIN_PLACES];
};

struct vc_plugin_kind {
    const char *variable; /* "VCOMPRESS_BACKEND_PATH" */
    const char *file;     /* "vcompress_cuda.so" */
    const char *symbol;   /* the function that it has to have */
    bool global;          /* its libraries are for libraries that they load themselves */
};

/* Fills in where to look, without looking. */
void vc_plugin_list(const struct vc_plugin_kind *kind, struct vc_plugin_search *search);
/* One place: appended to the list, unless it is there. */
void vc_plugin_add_place(struct vc_plugin_search *search, const char *folder, const char *file);

/* "path (outcome), path (outcome)" of the first two places; "VARIABLE (too long)" where there is no place. */
void vc_plugin_tried(const struct vc_plugin_kind *kind, const struct vc_plugin_search *search, char *text, size_t n);

/* Loads the file at path; its function goes to *symbol. NULL: the reason is in outcome. Closed with
 * vc_plugin_unload, if it does not fit. */
void *vc_plugin_load(const struct vc_plugin_kind *kind, const char *path, void **symbol,
                     char outcome[VC_PLUGIN_OUTCOME]);
void vc_plugin_unload(void *library);

/* A reason without line breaks; without the path in front of it, which the reader of the sentence has already. */
void vc_plugin_outcome(char outcome[VC_PLUGIN_OUTCOME], const char *path, const char *text);
