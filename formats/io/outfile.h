/* outfile.h - an output file that appears whole or not at all. Every writer makes its files here.
 *
 *     create (looks at the name only) -> need -> begin -> write, from any thread -> sync -> commit -> free
 *
 * Nothing has a name before commit where the file system has unnamed files (O_TMPFILE); elsewhere a random name in the
 * target's folder, removed by free. "-" is an unnamed file in $TMPDIR that commit copies to standard output. An
 * existing file is replaced in one step. Sentences name the output. All calls take NULL for a file and do nothing: that
 * is an output of which only the sizes are wanted (--dry-run). */
#pragma once

#include <vcompress/job.h>

#include "core/model/source.h"

struct vc_outfile;

/* Refuses what cannot become an output: an empty name or one that ends in '/', a folder, a device, a file that exists
 * (unless `force`), a folder that does not exist, the input under whatever name, a terminal (unless `force`). A symlink
 * stands for its target. `input` may be NULL, and is looked at until the file is freed. Nothing is created yet. */
enum vc_status vc_outfile_create(struct vc_ctx *ctx, const char *path, bool force, const struct vc_model *input,
                                 struct vc_outfile **out);

/* What options->path names, by vc_outfile_create, or options->writer, which gets the bytes. */
enum vc_status vc_outfile_open(struct vc_ctx *ctx, const struct vc_write_options *options, const struct vc_model *input,
                               struct vc_outfile **out);

/* The file will have that many bytes: VC_E_IO when the file system has less than that free. begin looks again (the
 * folder of standard output is known only then). */
enum vc_status vc_outfile_need(struct vc_ctx *ctx, struct vc_outfile *file, uint64_t bytes);

/* Opens the temporary file. */
enum vc_status vc_outfile_begin(struct vc_ctx *ctx, struct vc_outfile *file);

/* Takes the room that it needs from the disk, before anything is written. VC_E_IO: it is not there. File systems that
 * cannot do that hold nothing. */
enum vc_status vc_outfile_reserve(struct vc_ctx *ctx, struct vc_outfile *file);

/* Thread-safe; every call checks that everything was written. */
enum vc_status vc_outfile_write(struct vc_ctx *ctx, struct vc_outfile *file, uint64_t offset, const void *data,
                                size_t n);

/* Everything written so far is on the disk. A failure is final: the kernel may have dropped what it could not write. */
enum vc_status vc_outfile_sync(struct vc_ctx *ctx, struct vc_outfile *file);

/* Gives the file its name. Without `force` never over a file that appeared meanwhile. */
enum vc_status vc_outfile_commit(struct vc_ctx *ctx, struct vc_outfile *file);

/* A small file of a folder, anew: it appears whole, in place of an older one. */
struct vc_text;
enum vc_status vc_outfile_replace(struct vc_ctx *ctx, const char *folder, const char *name, const struct vc_text *text);

/* True once the file has its name, also where commit failed after that. */
bool vc_outfile_is_named(const struct vc_outfile *file);

/* Takes the name away again, if nothing lay there before and the file there is still this one. */
void vc_outfile_withdraw(struct vc_outfile *file);

void vc_outfile_free(struct vc_ctx *ctx, struct vc_outfile *file); /* removes what was not committed */

/* Removes the named temporary files of this process. Async-signal-safe: for a handler that ends the process. */
void vc_outfile_remove_temporaries(void);

/* n bytes to an unnamed temporary file (vc_tempfile_open) from `offset` on. */
enum vc_status vc_tempfile_write(struct vc_ctx *ctx, int fd, uint64_t offset, const void *data, size_t n);

/* Tests: the n-th system call that makes, writes, syncs, closes or renames fails from now on with EIO (1 = the next, 0
 * = none); the number of such calls so far; and a switch for file systems without unnamed files, which do not exchange
 * names, either. */
void vc_outfile_fail_at(uint64_t n);
uint64_t vc_outfile_call_count(void);
void vc_outfile_no_unnamed(bool on);
