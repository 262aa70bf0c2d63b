/* outfolder_internal.h - what outfolder.c (the life of an output folder) and outfolder_name.c (its name) share. */
#ifndef VC_FORMATS_OUTFOLDER_INTERNAL_H
#define VC_FORMATS_OUTFOLDER_INTERNAL_H

#include "formats/io/outfolder.h"

struct vc_outfolder_member {
    char *name;
    struct vc_outfile *file;
    struct vc_outfolder_member *next;
};

struct vc_outfolder {
    char *path; /* as given, without slashes at the end */
    const char *base;
    bool force, shared;
    const struct vc_model *input;
    char *parent_name; /* the folder that it lies in */
    int parent;
    struct vc_outfolder_member *members;
    struct vc_outfolder_member **last;
};

/* Splits the path, opens the parent and checks the place. */
enum vc_status vc_outfolder_resolve(struct vc_ctx *ctx, struct vc_outfolder *folder);

/* What lies at the output's place may be replaced, and the input is not touched by that. */
enum vc_status vc_outfolder_check_place(struct vc_ctx *ctx, const struct vc_outfolder *folder);

#endif
