/* links.h - whether a file that lies in a model's folder by its name lies there really.
 *
 *     model/w.bin -> parts/w.bin                                         stays
 *     .../snapshots/4f1c/config.json -> ../../blobs/9ab3...              stays: the cache that the folder is part of
 *     model/w.bin -> /etc/passwd,   model/sub -> ..                      leads out
 *
 * Archives and repositories can bring links. What a stranger's model links to must not be read, or copied into an
 * output, as if it were the model's. */
#ifndef VC_FORMATS_LINKS_H
#define VC_FORMATS_LINKS_H

#include <stdbool.h>

/* `name` is a path inside the folder. False, too, where one of them is not there. */
bool vc_links_stay(const char *folder, const char *name);

#endif
