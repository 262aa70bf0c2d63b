/* glob.h - patterns of tensor names, "model.layers.*.mlp.*". Selections of tensors and loaders' configurations have
 * them. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* `s` matches the glob (`*`, `?`, `[a-z]`, `[!a-z]`, backslash escapes); no recursion. */
bool vc_glob_match(const char *glob, const char *s);

/* `s` matches one of the globs, which blanks divide. */
bool vc_glob_any(const char *globs, const char *s);

#define VC_GLOB_SET_MAX 32
#define VC_GLOB_FOURS   1024

/* Globs that many names are asked about: a static list, prepared when it is asked for the first time, from any thread.
 *
 *     static struct vc_glob_set set = {.n = 2, .globs = {"*norm*", "wpe.*"}};
 *
 * Each glob has four characters in a row that a name needs to match it, "norm" and "wpe."; one walk along a name
 * collects the globs whose four it has, and only these are tried. */
struct vc_glob_set {
    size_t n;
    const char *globs[VC_GLOB_SET_MAX];
    atomic_bool ready;
    uint32_t fours[VC_GLOB_SET_MAX];
    uint8_t first[VC_GLOB_FOURS];  /* by hash of the four: 1 + the number of a glob that needs them; 0: no glob */
    uint8_t next[VC_GLOB_SET_MAX]; /* and of another one with this hash */
    uint32_t always;               /* globs without four in a row, a bit each */
};

/* The number of the first glob that matches; SIZE_MAX: none. */
size_t vc_glob_set_find(struct vc_glob_set *set, const char *name);
