/* stale_outputs.h - what runs that were killed have left beside an output, or in a folder that workers share.
 *
 *     .vcompress-<8 digits of the output's name><8 random digits>     a file, or a folder of finished files
 *
 * A run holds a lock (flock) on whatever it has under such a name. So one of this output's that nobody holds, and that
 * is the same user's, is of a run that is over. File systems without locks on folders keep stale outputs. */
#pragma once

#include <stdbool.h>

/* Called for a folder that was left, while it is locked. aside: it is the older output, which had stepped aside. */
typedef void vc_stale_output_fn(void *user, const char *name, bool aside);

/* Removes the files that were left in `folder` by runs for the output of that name, and hands the folders to fn (NULL:
 * they stay). What cannot be looked at stays. */
void vc_stale_outputs_sweep(int folder, const char *output, vc_stale_output_fn *fn, void *user);
