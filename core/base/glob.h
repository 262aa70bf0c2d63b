/* glob.h - patterns of tensor names, "model.layers.*.mlp.*". Selections of tensors and loaders' configurations have
 * them. */
#ifndef VC_CORE_GLOB_H
#define VC_CORE_GLOB_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* `s` matches the glob (`*`, `?`, `[a-z]`, `[!a-z]`, backslash escapes); no recursion. */
bool vc_glob_match(const char *glob, const char *s);

#define VC_GLOB_SET_MAX 32
#define VC_GLOB_PAIRS   24

/* Globs that many names are asked about: a static list, prepared when it is asked for the first time, from any thread.
 *
 *     static struct vc_glob_set set = {.n = 2, .globs = {"*norm*", "wpe.*"}}; */
struct vc_glob_set {
    size_t n;
    const char *globs[VC_GLOB_SET_MAX];
    atomic_bool ready;
    /* Pairs of neighbouring characters that a name needs to match each glob, by hash; those that tell most come first.
     */
    unsigned char n_pairs[VC_GLOB_SET_MAX];
    unsigned char pairs[VC_GLOB_SET_MAX][VC_GLOB_PAIRS];
};

/* The number of the first glob that matches; SIZE_MAX: none. Most names are told from their pairs alone. */
size_t vc_glob_set_find(struct vc_glob_set *set, const char *name);

#endif
