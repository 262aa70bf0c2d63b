/* side_file.h - files that lie in a model's folder by their names: config, tokenizer, templates, indices, external data.
 * Everybody who reads one asks here first.
 *
 *     model/w.bin -> parts/w.bin                                         stays
 *     .../snapshots/4f1c/config.json -> ../../blobs/9ab3...              stays: the cache that the folder is part of
 *     model/w.bin -> /etc/passwd,   model/sub -> ..                      leads out
 *     model/config.json is a folder, a pipe, a device                    no file
 *
 * Archives and repositories can bring links. What a stranger's model links to must not be read, or copied into an
 * output, as if it were the model's. */
#pragma once

#include <sys/stat.h>

#include "core/base/ctx.h"

/* `name` is a path inside the folder. *stay false, too, where one of them is not there. */
enum vc_status vc_links_stay(struct vc_ctx *ctx, const char *folder, const char *name, bool *stay);

enum vc_side_kind {
    VC_SIDE_ABSENT = 0, /* there is nothing of that name */
    VC_SIDE_FILE = 1,   /* a file of the folder, or of the cache that the folder is part of */
    VC_SIDE_ODD = 2     /* something else, which is not read */
};

/* What lies in the folder under that name; nothing is opened. *st is of what a link leads to. *why, of what is odd, is a
 * static text: "is a link that leads out of the folder". st and why may be NULL. A stat that fails for another
 * reason than absence is an error, not an answer. */
enum vc_status vc_side_look(struct vc_ctx *ctx, const char *folder, const char *name, enum vc_side_kind *kind,
                            struct stat *st, const char **why);

/* For those who read it: *there, or a refusal of what is odd that begins with the name. */
enum vc_status vc_side_check(struct vc_ctx *ctx, const char *folder, const char *name, bool *there);
