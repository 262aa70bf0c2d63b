/* glob.h - patterns of tensor names, "model.layers.*.mlp.*". Selections of tensors and loaders' configurations have
 * them. */
#ifndef VC_CORE_GLOB_H
#define VC_CORE_GLOB_H

#include <stdbool.h>

/* `s` matches the glob (`*`, `?`, `[a-z]`, `[!a-z]`, backslash escapes); no recursion. */
bool vc_glob_match(const char *glob, const char *s);

#endif
