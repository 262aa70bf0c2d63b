/* outfile_internal.h - what outfile.c (the life of an output) and outfile_name.c (its name) share. */
#pragma once

#include <sys/stat.h>
#include <sys/types.h>

#include "formats/io/outfile.h"

/* An output file in all stages of its life. */
struct vc_outfile {
    char *path; /* as given */
    bool force, to_stdout;
    struct vc_writer writer;      /* write not NULL: there is no file, the program gets the bytes */
    const struct vc_model *input; /* may be NULL */
    uint64_t needed;              /* bytes it will have; 0: not known */

    char *target;         /* with links resolved */
    const char *base;     /* the last part of target */
    const char *output;   /* name of what the file is for, in names of temporary files: base, or that of a folder */
    int folder;           /* -1 for standard output */
    bool folder_borrowed; /* of a folder that is made as a whole (outfolder.c) */
    bool folder_syncable; /* false: it may be entered, but not opened for reading */

    int fd;           /* being written; -1 before begin, and while it rests */
    int link_fd;      /* after sync: keeps an unnamed file alive until it has its name */
    bool unnamed;     /* no name yet */
    int temporary;    /* slot in the table of temporary names, or -1 */
    int held_in;      /* a hidden folder that it lies in since vc_outfile_hold, or -1; the outfolder's */
    char held_as[24]; /* ... under that name */
    bool named;       /* it has its name */
    bool is_new;      /* ... where nothing lay before */
    dev_t device;     /* with inode: of the file, known after sync */
    ino_t inode;
};

/* A file of a folder that is made as a whole: it comes into being without a name (or under a temporary one) in
 * `folder`, which stays the caller's, and place gives it its name, after sync. From then on it needs no descriptor, and
 * commit is not called. `shown` is for sentences; `output`, which stays the caller's, for the
 * names of temporary files. */
enum vc_status vc_outfile_create_at(struct vc_ctx *ctx, int folder, const char *output, const char *shown,
                                    struct vc_outfile **out);
enum vc_status vc_outfile_place(struct vc_ctx *ctx, struct vc_outfile *file, int folder, const char *name);

/* After sync, for a file that commit will name later: it waits in `folder` as "<number>" and needs no descriptor of its
 * own. The folder is on the same file system and stays open until the file is committed or freed. */
enum vc_status vc_outfile_hold(struct vc_ctx *ctx, struct vc_outfile *file, int folder, unsigned number);

/* After begin, where there are few descriptors: the file waits in `folder` as above while it is written, and every
 * write opens it again. */
enum vc_status vc_outfile_rest(struct vc_ctx *ctx, struct vc_outfile *file, int folder, unsigned number);
/* Begun, and its descriptor says that there are few (vc_descriptors_are_few). */
bool vc_outfile_should_rest(const struct vc_outfile *file);

/* True where file systems without an exchange of names are to be tried (tests). */
bool vc_outfile_no_exchange(void);

/* True, with errno EIO, when the system call that follows is to fail (tests). */
bool vc_outfile_injected(void);

/* Fills target, base, folder. */
enum vc_status vc_outfile_resolve(struct vc_ctx *ctx, struct vc_outfile *file);

/* What lies at the output's place may stay out of the way or be replaced. */
enum vc_status vc_outfile_check_target(struct vc_ctx *ctx, const struct vc_outfile *file);

/* The input is not to be overwritten; st is of an existing file. */
bool vc_outfile_is_input(struct vc_ctx *ctx, const struct vc_outfile *file, const struct stat *st);
