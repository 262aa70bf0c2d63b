/* convert.h - what the commands that write a file share: options of selection and output, and the way from plan to
 * report. */
#pragma once

#include "tools/model/target.h"

#define MAX_RULES 256

extern const struct opt_group group_select;       /* --include and --exclude */
extern const struct opt_group group_write;        /* the output */
extern const struct opt_group group_write_values; /* ... and a gate for those who change values */
extern const struct opt_group group_write_zeros;  /* ... and one for those who make zeros */
extern const struct opt_group group_write_graph;  /* --graph, for --must-fit, of those who need no graph themselves */

/* The start of these commands' structures. The tables of options fill the library's own structures. */
#define MAX_METADATA     32
#define MAX_METADATA_KEY 128

struct convert_options {
    struct base_options base;
    struct vc_open_options open;
    struct vc_write_options write;
    struct vc_rule rules[MAX_RULES]; /* --include and --exclude, in the order given */
    size_t n_rules;
    bool remote;                                        /* --remote */
    struct vc_metadata_entry metadata[MAX_METADATA];    /* --metadata: values are the arguments' ends ... */
    char metadata_keys[MAX_METADATA][MAX_METADATA_KEY]; /* ... and keys copies of their beginnings */
    const char *lists[VC_MAX_OUTPUTS];                  /* --emit as given, "a.npz,b.npz" */
    size_t n_lists;
    /* What write.emit points to: the names in the lists, which app->own_names holds. */
    const char *emit[VC_MAX_OUTPUTS];
    bool drop[VC_ROLE_OTHER + 1];
    bool digest;
    bool keep_names;        /* of a folder that becomes a GGUF file */
    const char *folder;     /* --output-dir; NULL: beside the input */
    const char *baseline;   /* the report of an earlier run; NULL: none */
    struct targets targets; /* --target-gpu */
};

/* What holds without an option on the command line; before app_parse. Everything else in *options is zero. */
void convert_defaults(struct convert_options *options);
/* "0.5" or "50%": above 0, at most 1; false: something else. */
bool expected_share(const char *value, double *share);
/* The same from 0 on. */
bool growth_share(const char *value, double *share);
/* The value of --drop as an enum vc_role; false: it is none of its words. */
bool dropped_role(const char *value, int *role);

/* What a command does to a model. */
struct conversion {
    /* In the name of an output that nobody named, <stem>.<tag>.<extension> beside the input: "int8". "": the command
     * goes by the names of its outputs, or by --format, and makes <stem>.<extension>. */
    const char *tag;
    const char *beside; /* another file that it writes, --mask-out; NULL: none */
    bool more_tensors;  /* the output has scales, too */
    bool onnx_rows;     /* makes codes of MatMulNBits in an ONNX file: vc_open_options.onnx_rows */
    bool gguf;          /* the output is a GGUF file where no name says another format */
    bool pairs;         /* its input is opened with vc_open_options.pairs */
    bool decodes;       /* begins with a pass that makes f32 of all codes: vc_open_options.decoded */
    bool requantizes;   /* begins with one that takes codes for the floats they mean: the same */
    /* Adds its pass to a job of the model; NULL: none. */
    enum vc_status (*add)(struct vc_ctx *ctx, struct vc_job *job, const struct vc_model *model, void *user);
    void *user;
    /* Adapters that come before anything else, for a folder that becomes a GGUF model (vc_open_options.merge), with
     * `merge_user`; opened once. NULL: none. */
    enum vc_status (*merge)(struct vc_ctx *ctx, void *user, const struct vc_merge_options **out);
    void *merge_user;
};

/* After app_parse: does it to every INPUT. Returns the exit status. */
int convert_run(struct app *app, struct convert_options *options, const struct conversion *what);

/* Refuses a --key (NULL: none) for a file that has no such thing. GO_ON or a status. */
int check_key(struct app *app, const struct vc_model *model, const char *key);
