/* module_names.h - some modules of a model, as a loader's configuration lists them: so that it finds these and no
 * others, also where modules have other names in memory than in the file (formats/dialects/family.h).
 *
 *     "model.layers.0.mlp.gate"          as the file has it
 *     "re:(.*\\.)?layers\\.0\\.attention\\.q_proj$"   the end of its name in memory that no other module has */
#pragma once

#include "core/text/text.h"
#include "formats/dialects/family.h"

/* What a name in the list means to the loader. */
enum vc_names_form {
    VC_NAMES_EXACT, /* the module of that name; behind "re:" a regular expression for the beginning of one */
    VC_NAMES_ENDS   /* all modules whose names end in it, or begin with it up to a dot; it may be such an expression */
};

struct vc_module {
    const char *path; /* not terminated */
    size_t n;
    bool listed; /* else the list must not name it */
};

struct vc_module_list {
    const struct vc_family *family; /* NULL: modules are called as in the file */
    enum vc_names_form form;
    size_t n;
    const struct vc_module *modules;
};

/* Adds the names to an open JSON list, each with a comma before it unless *first. */
enum vc_status vc_module_names_add(struct vc_ctx *ctx, const struct vc_module_list *list, bool *first,
                                   struct vc_text *text);

/* Adds one name as it is. */
void vc_module_name_add(struct vc_text *text, const char *name, bool *first);
