/* outfolder.h - an output that is a folder of files, and appears whole or not at all.
 *
 *     create (looks at the name only) -> add, begin and write the files -> sync or keep each -> commit -> free
 *
 *     models/.vcompress-3f8a01c25b7d9e44/config.json        kept files, until commit
 *     (no name)                                             files that were only synced, until commit
 *     models/new/config.json, model.safetensors             after it
 *
 * Large files (weights) have no name until commit, so that a process that is killed leaves nothing of them behind; each
 * takes a descriptor meanwhile. Small ones (what goes along with the weights) can be many: they are kept, which puts
 * each into a hidden folder as soon as it is complete and closes it. (So are large ones, while they are written, where
 * the process may have few descriptors.) Commit puts the others there, too, and renames the
 * hidden folder. A folder that is there already is exchanged in one step and removed then; where the file system cannot
 * do that, it steps aside first. Where the folder is `shared` (several workers write their own files into it), every
 * file appears by itself instead, and kept files wait in a hidden folder inside it. */
#pragma once

#include "core/run/sink.h"
#include "formats/io/outfile.h"

struct vc_outfolder;

/* Whether the output is to be a folder: what was divided (from_several) stays divided unless the name is a file's, "-"
 * or one with the format's extension, and --max-shard-size divides anything. Refuses what contradicts that, and --shard
 * of a source of less than two files. */
enum vc_status vc_outfolder_choose(struct vc_ctx *ctx, const struct vc_write_options *options, const char *extension,
                                   bool from_several, size_t n_files, bool *in_folder);

/* Which folders may be replaced. A folder is ours by its mark (outfolder_mark.c), or by the metadata of a version that
 * wrote no marks. */
enum vc_outfolder_force {
    VC_OUTFOLDER_NEW = 0,    /* none */
    VC_OUTFOLDER_OWN = 1,    /* ours: `force` */
    VC_OUTFOLDER_FOREIGN = 2 /* those of others, too: `force_foreign` */
};
enum vc_outfolder_force vc_outfolder_force_of(const struct vc_write_options *options);

/* Refuses an empty name, a file, a link, the folder of the input, one that it lies in or that lies in it, a folder that
 * exists (unless `force` lets it be replaced: it is empty, or ours, or holds files that we write folders of; it is no
 * Git repository; vc_outfolder_check_old looks closer), a folder for it that does not exist. Shared: the folder may
 * exist, and with `force` has to be empty or ours, too; it is made with the first file that is added, and stays whatever
 * happens, because other workers may be using it. All names that any worker writes are expected before that. Nothing is
 * created yet. */
enum vc_status vc_outfolder_create(struct vc_ctx *ctx, const char *path, enum vc_outfolder_force force, bool shared,
                                   const struct vc_model *input, struct vc_outfolder **out);

/* A folder in the output, for a writer that knows nothing of the whole: names of files are relative to it, and they are
 * the whole's files. `name` is one step, and copied. Commit, sweep and check_old of a part do nothing, because they are
 * done for the whole; free frees the part alone, before the whole. Not of shared folders. */
enum vc_status vc_outfolder_part(struct vc_ctx *ctx, struct vc_outfolder *whole, const char *name,
                                 struct vc_outfolder **out);

/* A file of that name will be added later; its name may have folders in it. */
enum vc_status vc_outfolder_expect(struct vc_ctx *ctx, struct vc_outfolder *folder, const char *name);

/* All files have been added or are expected: refuses an older folder in which something lies that no run for this
 * output can have written, and names it. Not for shared folders, in which files are replaced one by one. */
enum vc_status vc_outfolder_check_old(struct vc_ctx *ctx, struct vc_outfolder *folder);

/* Once all files have been added or are expected, and before the first is begun: removes what killed runs for this
 * output have left beside it. */
void vc_outfolder_sweep(struct vc_outfolder *folder);

/* Another file, which stays the folder's. `name` may have folders in it; it is copied. */
enum vc_status vc_outfolder_add(struct vc_ctx *ctx, struct vc_outfolder *folder, const char *name,
                                struct vc_outfile **out);

/* vc_outfile_begin for a file of the folder. Where there are few descriptors it takes none: it lies in the hidden
 * folder from now on, and what it is in is opened for every write. */
enum vc_status vc_outfolder_begin(struct vc_ctx *ctx, struct vc_outfolder *folder, struct vc_outfile *file);

/* The file, begun and written, is complete: it is brought to the disk and closed. `file` is not used any more. */
enum vc_status vc_outfolder_keep(struct vc_ctx *ctx, struct vc_outfolder *folder, struct vc_outfile *file);

/* Shared, without `force`: refuses a file of that name that is there already. For those that are added late. */
enum vc_status vc_outfolder_check(struct vc_ctx *ctx, const struct vc_outfolder *folder, const char *name);

enum vc_status vc_outfolder_need(struct vc_ctx *ctx, const struct vc_outfolder *folder, uint64_t bytes);

/* Commits a sink's folder, whose note goes to *note; or the one file where there is no folder; or nothing, of a run without an
 * output. Below: what is checked. */
enum vc_status vc_output_commit(struct vc_ctx *ctx, struct vc_outfolder *folder, struct vc_outfile *file,
                                const char **note);

/* Every file has been synced or kept. What was checked before is checked again. */
enum vc_status vc_outfolder_commit(struct vc_ctx *ctx, struct vc_outfolder *folder);

/* After commit: what of the older folder, or of what killed runs left, could not be removed; NULL: nothing. */
const char *vc_outfolder_note(const struct vc_outfolder *folder);

void vc_outfolder_free(struct vc_ctx *ctx,
                       struct vc_outfolder *folder); /* accepts NULL; removes what was not committed */
