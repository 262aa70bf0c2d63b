/* real_path.h - a path with all links resolved, and which failures mean that there is nothing. A path that cannot be
 * looked at is an error of the system, never an answer about where it leads. */
#pragma once

#include <limits.h>

#include "core/base/ctx.h"

/* The name or what it links to is not there. Another failure says nothing about what is there. */
bool vc_is_absence(int error);

/* *there false: there is nothing of that name, and `real` is not filled. The sentence of an error names the path. */
enum vc_status vc_real_path(struct vc_ctx *ctx, const char *path, char real[PATH_MAX], bool *there);
