/* text_read.h - the text of a file that describes a graph or couplings. */
#pragma once

#include "core/base/ctx.h"

/* Reads all of the file into *text (of vc_free), with a NUL behind its *n bytes. It takes no more memory than four
 * times its size, and is refused above `most` bytes: "is larger than the text of a graph may be, 16 MiB" of `what`. */
enum vc_status vc_read_text(struct vc_ctx *ctx, const char *path, const char *what, size_t most, char **text,
                            size_t *n);
