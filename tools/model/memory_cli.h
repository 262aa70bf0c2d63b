/* memory_cli.h - options and tables that estimate and fit share: how a model is used, and what that takes. */
#pragma once

#include "tools/model/graph_source.h"

struct memory_cli {
    struct graph_source source;                                   /* first */
    struct vc_memory_options memory;                              /* what vc_memory_estimate gets */
    uint64_t batch, sequence;                                     /* --batch and --seq; 0: not given */
    uint64_t dp, tp, pp, accumulate, chunks, stage, lora, im2col; /* for fields that are narrower */
    bool foreach, no_foreach, dropout, no_dropout;
    bool own_allocator;       /* without --allocator: that of the program, as fit has it; else exact sizes */
    bool seeks_budget;        /* --recompute auto, with own_allocator: within the room on the device, counted as kept */
    char scheme[32];          /* of --dtype; "": a type of floats */
    bool tell_device;         /* the table ends with what the device's programs take */
    const char *teacher_path; /* --teacher; NULL: none */
    struct graph_source teacher;     /* opened */
    struct vc_memory_report report;  /* of memory_cli_count */
    struct vc_memory_layers *layers; /* of each; NULL: not asked for */
};

extern const struct opt_group group_model, group_memory, group_devices;
extern const struct opt_group group_kind; /* --device-kind, of commands that ask about a device alone */

/* What is asked about a device beside its name, and the one at hand. */
struct device_cli {
    const char *slice;     /* "1/8"; NULL: all of it */
    int ecc;               /* enum vc_gpu_ecc */
    struct vc_gpu at_hand; /* of --gpu auto, as a row of the catalogue */
    uint64_t taken;        /* of the one at hand, by others */
};

/* Refuses a memory of less than 4 KiB, which holds no model: "8" for 8GiB. */
int device_size_check(struct app *app);

/* The device that --gpu TEXT means: of the catalogue, or with "auto" the one at hand, which is copied; what a program
 * sees of it, and in *used what others have taken where that was asked. GO_ON or a status. */
int device_find(struct app *app, struct device_cli *device, const struct vc_gpus *catalogue, const char *text,
                const struct vc_gpu **gpu, unsigned *count, uint64_t *visible, uint64_t *used);

/* What there is of a device beside its memory: rows of a command's table, for a structure with a member `fit`. */
#define DEVICE_OPTIONS(type)                                                                                         \
    {.name = "gpus-file",                                                                                            \
     .value = "FILE",                                                                                                \
     .file = FILE_READ,                                                                                              \
     .kind = OPT_TEXT,                                                                                               \
     .field = offsetof(type, gpus_file),                                                                             \
     .help = "more GPUs (see vcompress gpus --csv)"},                                                                \
        {.name = "ecc",                                                                                              \
         OPT_WORDS({"as-listed", VC_GPU_ECC_AS_LISTED}, {"on", VC_GPU_ECC_ON}, {"off", VC_GPU_ECC_OFF}),             \
         .field = offsetof(type, device.ecc),                                                                        \
         .help = "GDDR memory that checks itself is a sixteenth smaller; the catalogue has cards as they are sold "  \
                 "(default as-listed)"},                                                                             \
        {.name = "slice",                                                                                            \
         .value = "N/M",                                                                                             \
         .kind = OPT_TEXT,                                                                                           \
         .field = offsetof(type, device.slice),                                                                      \
         .help = "a slice (MIG) of the device: 1/8 for 1g.5gb of an A100"},                                          \
        {.name = "weights-only",                                                                                     \
         .kind = OPT_BOOL,                                                                                           \
         .set = 1,                                                                                                   \
         OPT_FIELD(type, fit.weights_only),                                                                          \
         .help = "ask about the weights alone"},                                                                     \
        {.name = "activations",                                                                                      \
         .value = "SIZE",                                                                                            \
         .kind = OPT_SIZE,                                                                                           \
         OPT_FIELD(type, fit.activation_bytes),                                                                      \
         .help = "where the file does not say what its model computes: take this for what it needs beside weights"}, \
        {.name = "margin",                                                                                           \
         .value = "SIZE",                                                                                            \
         .kind = OPT_SIZE,                                                                                           \
         OPT_FIELD(type, fit.margin_bytes),                                                                          \
         .help = "what has to stay free (default 256MiB)"},                                                          \
    {                                                                                                                \
        .name = "used", .value = "SIZE", .kind = OPT_SIZE, OPT_FIELD(type, fit.used_bytes),                          \
        .help = "what others have taken already"                                                                     \
    }

/* How many devices the options divide the model between: dp x tp x pp. */
uint64_t memory_cli_devices(const struct memory_cli *cli);
/* "A100:2" with --tp 4 is refused: the figures would be those of a device that is not there. GO_ON or a status. */
int memory_cli_check_devices(struct app *app, const struct memory_cli *cli, const char *name, unsigned count);

/* Opens app->subject, binds sizes, and counts. GO_ON or a status. Sentences name app->subject, or the teacher while
 * that is opened. memory_cli_close afterwards, whatever it returned. */
int memory_cli_count(struct app *app, struct memory_cli *cli);
bool memory_cli_is_mcu(const struct memory_cli *cli); /* --device-kind mcu */
/* What a verdict needs of the options and of the estimate, once memory_cli_count is done: the memory of the device's runtime,
 * the workspace of products, the margin, and whether --runtime asks about a program without a name that keeps no value
 * longer than needed (programs with names say that themselves). */
void memory_cli_set_fit(const struct app *app, const struct memory_cli *cli, struct vc_fit_options *fit);
/* Whether neither --seq nor --size says how long sequences are. */
bool memory_cli_usual_positions(const struct memory_cli *cli);
/* The size of the inputs that is called so, or as exporters call it (batch: batch_size, or an open leading dimension).
 * GO_ON or a status. */
int memory_cli_symbol(struct app *app, const struct vc_graph *graph, const char *name, const char **symbol);
/* --recompute auto: GO_ON, or EXIT_NO with a sentence where no plan is within --budget. */
int memory_cli_check_budget(struct app *app, const struct memory_cli *cli);
/* After what is known was told: says why the rest is not. GO_ON, or the status for a model whose graph was refused. */
int memory_cli_refused(struct app *app, const struct memory_cli *cli);
void memory_cli_close(struct memory_cli *cli);
/* The options with the type of activations that was counted, for documents. */
struct vc_memory_options memory_cli_options(const struct memory_cli *cli);
/* "batch 1, sequence 128": the sizes of the inputs that were counted with, `before` in front of them if there are any. */
void memory_cli_print_sizes(const struct app *app, const struct memory_cli *cli, const char *before);
/* A line with the sizes that are still open, as options to copy; nothing where there are none. */
void memory_cli_print_open(const struct app *app, const struct memory_cli *cli);
/* What is not known, without the end of its line. */
void memory_cli_print_unknown(const struct app *app, const struct vc_memory_report *r);
/* What is assumed, a table of components, one of moments. False: no memory. */
bool memory_cli_print(struct app *app, const struct memory_cli *cli);
