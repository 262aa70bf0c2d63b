/* check_listed.h - the names in lists of modules of a quantization_config, against the modules that a model has: for
 * verify. */
#pragma once

#include "formats/dialects/module_names.h"

/* Whether a word of a list of the form VC_NAMES_ENDS means the module: as its end, as its beginning up to a dot, or as
 * "^all of it$", where dots have a backslash before them. */
bool vc_listed_means(const char *word, const char *path);

/* Notes each of the n names that stand for no module of the model, neither as the file nor as the loader's program
 * calls it, and for no output that is an embedding turned round. The names are sorted and no expressions; `key` is the
 * list's name in the configuration. */
enum vc_status vc_check_listed(struct vc_ctx *ctx, const struct vc_model *model, const char *key,
                               enum vc_names_form form, size_t n, const char *const *names);
