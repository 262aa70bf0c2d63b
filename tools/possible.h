/* possible.h - whether a command line that is about to be printed would succeed, as far as headers tell: the command is
 * planned in a dry run. Every command that proposes another one asks this function. */
#pragma once

#include "tools/app.h"

/* An output that was proposed to make a file of so many bytes smaller has at most this many. */
#define POSSIBLE_GAIN(bytes) ((uint64_t)((double)(bytes)*0.9) + 1)

/* `line`: "vcompress quantize --int8 m.npz", quoted as for a shell; may be wrapped by a backslash at the end of a line.
 * most_bytes: a limit for the file that it writes; 0: none. --max-memory is that of the app. Standard input is never
 * read: a line about "-" is not possible. Call signals_end_printing before. */
bool line_is_possible(const struct app *app, const char *line, uint64_t most_bytes);
