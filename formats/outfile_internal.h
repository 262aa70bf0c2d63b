/* outfile_internal.h - what outfile.c (the life of an output) and outfile_name.c (its name) share. */
#ifndef VC_FORMATS_OUTFILE_INTERNAL_H
#define VC_FORMATS_OUTFILE_INTERNAL_H

#include <sys/stat.h>
#include <sys/types.h>

#include "formats/outfile.h"

struct vc_outfile {
    char *path; /* as given */
    bool force, to_stdout;
    bool input_known;
    dev_t input_device;
    ino_t input_inode;

    char *target;         /* with links resolved */
    const char *base;     /* the last part of target */
    int folder;           /* -1 for standard output */
    bool folder_syncable; /* false: it may be entered, but not opened for reading */

    int fd;        /* being written; -1 before begin */
    int link_fd;   /* after sync: keeps an unnamed file alive until it has its name */
    bool unnamed;  /* no name yet */
    int temporary; /* slot in the table of temporary names, or -1 */
};

/* Fills target, base, folder. */
enum vc_status vc_outfile_resolve(struct vc_ctx *ctx, struct vc_outfile *file);

/* What lies at the output's place may stay out of the way or be replaced. */
enum vc_status vc_outfile_check_target(struct vc_ctx *ctx, const struct vc_outfile *file);

/* The input is not to be overwritten; st is of an existing file. */
bool vc_outfile_is_input(const struct vc_outfile *file, const struct stat *st);

#endif
