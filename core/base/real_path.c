/* real_path.c - see real_path.h. */
#define _GNU_SOURCE /* realpath */
#include "core/base/real_path.h"

#include <errno.h>

bool vc_is_absence(int error)
{
    return error == ENOENT || error == ENOTDIR || error == ELOOP;
}

enum vc_status vc_real_path(struct vc_ctx *ctx, const char *path, char real[PATH_MAX], bool *there)
{
    *there = realpath(path, real) != NULL;
    return *there || vc_is_absence(errno) ? VC_OK : vc_fail_errno(ctx, errno, "%s: cannot be looked at", path);
}
