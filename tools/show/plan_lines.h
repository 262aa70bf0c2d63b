/* plan_lines.h - recipes as command lines: the passes that make the model, and the question whose answer is yes then.
 */
#pragma once

#include "tools/model/memory_cli.h"

/* What all lines have in common. */
struct plan_lines {
    const struct graph_source *source;
    const char *gpu; /* where no option says it: $VCOMPRESS_GPU; NULL: an option does */
};

/* The lines are printed: the passes succeed in a dry run; of a recipe without any the question is answered with yes where
 * `fits`. Passes over weights that were not seen cannot be tried. */
bool plan_lines_possible(const struct app *app, const struct plan_lines *all, const struct vc_recipe *recipe,
                         const struct vc_recipe_lines *lines);

/* Fills *lines with those of one recipe; freed with plan_lines_free. GO_ON or a status. */
int plan_lines_make(struct app *app, const struct plan_lines *all, const struct vc_recipe *recipe,
                    struct vc_recipe_lines *lines);
void plan_lines_free(struct vc_recipe_lines *lines);
