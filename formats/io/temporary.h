/* temporary.h - temporary names next to an output, and a table of them that a signal handler can clear.
 *
 *     ".vcompress-3f8a01c25b7d9e44"     in the folder of the output; 1,024 at a time. The first 8 digits are a digest
 *                                       of the output's name, by which a later run knows what a killed one left (stale_outputs.h)
 *
 * Writers take a name before they create something under it and forget it once that is gone or has its real name.
 * What is in the table when the process is ended by a signal is removed by vc_outfile_remove_temporaries (outfile.h).
 */
#pragma once

#include <stdbool.h>

enum vc_temporary_kind {
    VC_TEMPORARY_FILE,
    VC_TEMPORARY_EMPTY, /* a folder that a signal handler removes only while it is empty */
    VC_TEMPORARY_ASIDE, /* the same: the older output while another takes its place. Its names are others */
    VC_TEMPORARY_TREE   /* a folder that is removed with all that is in it, which is all ours */
};

/* A slot of the table with a new random name for something in `folder`, which stays open until the slot is forgotten;
 * -1 with errno when all are taken. output: the last part of the output's name. */
int vc_temporary_take(int folder, enum vc_temporary_kind kind, const char *output);
/* The name is one that vc_temporary_take gives for this output. All kinds but ASIDE have the same names. */
bool vc_temporary_is(const char *name, enum vc_temporary_kind kind, const char *output);
/* Holds what the descriptor stands for, until it and its duplicates are closed. False when it lost its name before that
 * (a sweep took it for a remain). Where the file system has no locks: true. */
bool vc_temporary_hold(int fd);
const char *vc_temporary_name(int slot);
void vc_temporary_set_kind(int slot, enum vc_temporary_kind kind);
void vc_temporary_forget(int slot);

/* Removes the folder `name` in `parent` with everything in it, as far as that is possible. Async-signal-safe. */
void vc_temporary_remove_tree(int parent, const char *name);
