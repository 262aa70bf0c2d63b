/* outfolder.h - an output that is a folder of files, and appears whole or not at all.
 *
 *     create (looks at the name only) -> add, begin and write the files -> sync each -> commit -> free
 *
 * The files have no names until commit makes the folder beside its place, puts them in and renames it. A folder that
 * is there already is exchanged in one step and removed then. Where the folder is `shared` (several workers write
 * their own files into it), every file appears by itself instead. */
#ifndef VC_FORMATS_OUTFOLDER_H
#define VC_FORMATS_OUTFOLDER_H

#include "formats/outfile.h"

struct vc_outfolder;

/* Refuses an empty name, a file, the folder of the input or one that it lies in, a folder that exists (unless `force`,
 * and then only if it is empty or holds safetensors files), a folder for it that does not exist. Shared: the folder may
 * exist and is made if it does not. Nothing is created yet. */
enum vc_status vc_outfolder_create(struct vc_ctx *ctx, const char *path, bool force, bool shared,
                                   const struct vc_model *input, struct vc_outfolder **out);

/* Another file, which stays the folder's. `name` may have folders in it; it is copied. */
enum vc_status vc_outfolder_add(struct vc_ctx *ctx, struct vc_outfolder *folder, const char *name,
                                struct vc_outfile **out);

enum vc_status vc_outfolder_need(struct vc_ctx *ctx, const struct vc_outfolder *folder, uint64_t bytes);

/* Every file has been synced. */
enum vc_status vc_outfolder_commit(struct vc_ctx *ctx, struct vc_outfolder *folder);

void vc_outfolder_free(struct vc_ctx *ctx,
                       struct vc_outfolder *folder); /* accepts NULL; removes what was not committed */

#endif
