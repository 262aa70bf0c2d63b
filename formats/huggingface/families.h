/* families.h - the table of families of models that loaders treat in a special way, by the "model_type" of config.json.
 * What the columns mean: formats/dialects/family.h. Adding a family is a row in families.c and nothing else. */
#pragma once

#include "formats/dialects/family.h"

/* Row number `index` of the table; NULL behind the last. */
const struct vc_family_row *vc_family_row(size_t index);

/* The rows for the model of that config.json. No tree (NULL), and one of a type that is in no row, find none. */
struct json_t;
void vc_family_find(const struct json_t *root, struct vc_family *out);

/* The same for the config.json in the folder `path`, or in the folder of that file. */
enum vc_status vc_family_find_beside(struct vc_ctx *ctx, const char *path, struct vc_family *out);
