/* glob.h - patterns of tensor names, "model.layers.*.mlp.*". Selections of tensors and loaders' configurations have
 * them. */
#ifndef VC_CORE_GLOB_H
#define VC_CORE_GLOB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* `s` matches the glob (`*`, `?`, `[a-z]`, `[!a-z]`, backslash escapes); no recursion. */
bool vc_glob_match(const char *glob, const char *s);

/* A name that many globs are tried on. */
struct vc_glob_name {
    const char *s;
    size_t n;
    uint64_t pairs[4]; /* which pairs of neighbouring characters it has, by hash */
};

void vc_glob_name(struct vc_glob_name *name, const char *s);

/* As vc_glob_match; what cannot match is mostly told from the pairs, without looking at the name. */
bool vc_glob_match_name(const char *glob, const struct vc_glob_name *name);

#endif
