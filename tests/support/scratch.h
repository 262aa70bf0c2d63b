/* scratch.h - a folder of the test program's own, and files in it: under $TMPDIR, else /dev/shm where that has a GiB of
 * room (TMPDIR names it from then on), else /tmp. Names are those of files in the folder; what begins with '/' is a
 * path and stays one. Whatever fails here stops the test. */
#pragma once

#include <stdbool.h>

#include "bytes.h"

/* For cmocka: one makes the folder, the others remove it. scratch_remove wants it empty, so that a file that was left
 * behind fails the test; scratch_clear removes what is in it. */
int scratch_make(void **state);
int scratch_remove(void **state);
int scratch_clear(void **state);

const char *scratch_folder(void);
/* One of eight strings in turn. */
const char *in_folder(const char *name);

/* Both return the path; save_own releases what it saved. */
const char *save(const char *name, const struct bytes *b);
const char *save_own(const char *name, struct bytes b);
const char *save_text(const char *name, const char *text);
struct bytes load(const char *name); /* for bytes_release */

void expect_same(const char *a, const char *b);
bool holds(const char *name, const char *text); /* these bytes, somewhere in the file */
bool exists(const char *name);

/* A file, or a folder of files; nothing happens where there is neither. */
void remove_path(const char *name);
/* All files of the folder. */
void empty_folder(void);
/* The files and folders in it, temporary ones of the library's (.vc...) too. */
unsigned count_files(void);
