/* outfolder_internal.h - what outfolder.c (the life of an output folder) and outfolder_name.c (its name) share. */
#pragma once

#include <sys/types.h>

#include "core/text/text.h"
#include "formats/io/outfolder.h"

#define VC_FOLDER_MARK ".vcompress.json"

/* The mark of a folder (outfolder_mark.c). */
struct vc_outfolder_mark {
    bool there;
    struct vc_text text;
    const char **files; /* as they are written in it, "\"config.json\"", sorted; borrowed from the text */
    size_t n;
};

/* A hidden folder beside, or in, an output: finished files wait in it for their names. */
struct vc_outfolder_hidden {
    int slot; /* of its temporary name; -1 if there is none yet */
    int fd;
};

/* Shared: a folder on the disk that files appear in, with one descriptor for all of them. */
struct vc_outfolder_place {
    int fd;
    dev_t device;
    ino_t inode;
    struct vc_outfolder_hidden hidden; /* in it */
    unsigned n_held;                   /* numbers that are taken */
    struct vc_outfolder_place *next;
};

struct vc_outfolder_member {
    char *name;
    struct vc_outfile *file;          /* NULL: it lies in the hidden folder under its name */
    struct vc_outfolder_place *place; /* shared: where it will appear */
    struct vc_outfolder_member *next;
};

struct vc_outfolder {
    struct vc_ctx *ctx;
    struct vc_outfolder *whole; /* of a part: the output it is in, which does everything. NULL: this is one */
    char *path;                 /* as given, without slashes at the end */
    const char *base;
    bool force, shared;
    bool foreign;                        /* `force` replaces folders of others, too */
    bool marked;                         /* shared: the mark was looked at */
    const struct vc_model *input;        /* never overwritten; may be NULL */
    char *parent_name;                   /* the folder that it lies in */
    int parent;                          /* its descriptor; all names are relative to it */
    struct vc_outfolder_hidden hidden;   /* what becomes the output; not of shared ones */
    unsigned n_resting;                  /* files in it that are being written */
    struct vc_outfolder_place *places;   /* shared */
    struct vc_outfolder_member *members; /* in the order in which they were added */
    struct vc_outfolder_member **last;   /* where the next one goes */
    struct vc_arena arena;               /* of the names */
    const char **names;                  /* that this run writes, members and others */
    size_t n_names, names_capacity;
    bool sorted;    /* names are in order */
    char note[512]; /* what is left of the older output; "": nothing */
};

/* The name that a file of a part has in the whole, in the part's arena. NULL: no memory. */
const char *vc_outfolder_whole_name(struct vc_ctx *ctx, struct vc_outfolder *folder, const char *name);

/* Splits the path, opens the parent and checks the place. */
enum vc_status vc_outfolder_resolve(struct vc_ctx *ctx, struct vc_outfolder *folder);

/* Removes the folder of that name in the parent: what vc_outfolder_check_old would let pass. What stays is noted. */
void vc_outfolder_remove_old(struct vc_outfolder *folder, const char *name);

/* Removes the files of that folder that have numbers for names: a run that was killed was still writing them. */
void vc_outfolder_remove_numbered(int parent, const char *name);

/* The mark of the folder that `folder` is open on; without one all of *mark is empty. Released in any case. */
enum vc_status vc_outfolder_mark_read(struct vc_ctx *ctx, int folder, struct vc_outfolder_mark *mark);
void vc_outfolder_mark_release(struct vc_ctx *ctx, struct vc_outfolder_mark *mark);
/* The mark has this file, or, where the path ends in '/', a file in this folder. */
enum vc_status vc_outfolder_mark_lists(struct vc_ctx *ctx, const struct vc_outfolder_mark *mark, const char *path,
                                       bool *lists);
/* A version that wrote no marks has written the folder: its metadata is in a safetensors file. */
enum vc_status vc_outfolder_is_older(struct vc_ctx *ctx, int folder, bool *is);

/* The text of a mark that lists the names, of which `more` are in their written form already. Names are sorted. */
void vc_outfolder_mark_text(struct vc_text *text, const char *const *names, size_t n,
                            const struct vc_outfolder_mark *more);
/* Marks a folder that workers share, before its first file. */
enum vc_status vc_outfolder_mark_shared(struct vc_ctx *ctx, struct vc_outfolder *folder);

void vc_outfolder_sort_names(struct vc_outfolder *folder);

/* What lies at the output's place may be replaced, and the input is not touched by that. */
enum vc_status vc_outfolder_check_place(struct vc_ctx *ctx, const struct vc_outfolder *folder);
