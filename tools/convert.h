/* convert.h - what the commands that write a file share: options of selection and output, and the way from plan to
 * report. */
#ifndef VC_TOOLS_CONVERT_H
#define VC_TOOLS_CONVERT_H

#include <vcompress/vcompress.h>

#include "tools/app.h"

#define MAX_RULES 256

/* --include and --exclude, in the order given. */
struct select_options {
    struct vc_rule rules[MAX_RULES];
    size_t n_rules;
};

struct write_options {
    const char *output;
    const char *lists[VC_MAX_OUTPUTS]; /* --emit as given, "a.npz,b.npz" */
    size_t n_lists;
    const char *emit[VC_MAX_OUTPUTS]; /* the names in them, in app->own_names */
    size_t n_emit;
    int deflate; /* enum vc_deflate */
    int layout;  /* enum vc_layout */
    bool force, dry_run;
    uint64_t max_bytes, max_shard_bytes;
    unsigned shard, n_shards; /* --shard i/n */
    double min_sqnr_db;
};

extern const struct opt_group group_select; /* at convert_options.select */
extern const struct opt_group group_write;  /* at convert_options.write */
extern const struct opt_group group_copy;   /* the same for what changes no value */

/* The start of these commands' structures. */
struct convert_options {
    struct base_options base;
    struct select_options select;
    struct write_options write;
    enum vc_dtype void_as; /* VC_DTYPE_RAW: not given */
    const char *key;       /* NULL: not given */
    bool drop[VC_ROLE_OTHER + 1];
};

/* Takes the one INPUT, opens the context and the model, and finds the name of the output: <stem>.<tag>.<extension>
 * beside the input unless -o or --emit was given. tag NULL: one of them has to be. GO_ON or a status. */
int convert_open(struct app *app, struct convert_options *options, const char *tag, struct vc_model **model);

/* Refuses a --key (NULL: none) for a file that has no such thing. GO_ON or a status. */
int check_key(struct app *app, const struct vc_model *model, const char *key);

/* Bytes before "-00002-of-00003.gguf", which one of several files is called; 0: the path is none. */
size_t divided_stem(const char *path);

/* <stem>.<tag><extension> beside the input; the stem is a file without its extension, or a folder (also where its index
 * is the input). Allocated; NULL: no memory. */
char *name_beside(const char *input, bool is_folder, const char *tag, const char *extension);

/* Called once the model is open and the passes are added: plans, runs (unless --dry-run), prints the report. */
int convert_finish(struct app *app, const struct convert_options *options, struct vc_job *job);

/* print_report.c: the report as a table. */
bool print_report(struct app *app, const struct vc_report *report);

#endif
