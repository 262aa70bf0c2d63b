/* graph_source.h - the model that a command asks about: its graph and its weights, from whatever MODEL names. Shared by
 * the commands that work on graphs; their structures of options begin with this one. */
#pragma once

#include "tools/app.h"

#define MAX_SIZES 64

struct graph_source {
    struct base_options base;
    const char *weights;          /* --weights: the checkpoint of a graph MODEL; NULL: none */
    const char *graph_file;       /* --graph: what the checkpoint MODEL computes; NULL: MODEL says that itself */
    const char *sizes[MAX_SIZES]; /* --size, "batch=8", in the order given */
    size_t n_sizes;
    /* what was opened */
    struct vc_model *model, *checkpoint;
    struct vc_graph *graph;
    char *refused; /* GRAPH_OR_WEIGHTS: why there is no graph; NULL: there is one, or the file does not say what it
                      computes */
};

/* What there has to be of a model: its graph; its graph, where it says what it computes; its graph, or weights alone,
 * whatever is wrong with what it says. */
enum graph_wanted { GRAPH_ALWAYS, GRAPH_WHERE_SAID, GRAPH_OR_WEIGHTS };

/* --size, --weights and --graph: rows of a command's table. */
bool graph_source_size(void *group, const char *value);
#define GRAPH_SOURCE_OPTIONS                                                                                         \
    {.name = "size",                                                                                                 \
     .value = "NAME=N",                                                                                              \
     .kind = OPT_CALL,                                                                                               \
     .call = graph_source_size,                                                                                      \
     .help = "a size of the inputs that the model leaves open, such as batch=8 or sequence=512 (default: 1 for "     \
             "batch and other leading sizes, sequence=128; others stay open)"},                                      \
        {.name = "graph",                                                                                            \
         .value = "FILE",                                                                                            \
         .file = FILE_READ,                                                                                          \
         .kind = OPT_TEXT,                                                                                           \
         OPT_FIELD(struct graph_source, graph_file),                                                                 \
         .help = "what the checkpoint MODEL computes: a list of layers, ONNX's text, or a config.json; the same as " \
                 "--weights MODEL FILE"},                                                                            \
    {                                                                                                                \
        .name = "weights", .value = "FILE", .file = FILE_READ, .kind = OPT_TEXT,                                     \
        OPT_FIELD(struct graph_source, weights),                                                                     \
        .help = "the checkpoint that a text's parameters are in, or that has the names which an ONNX file has lost"  \
    }

/* A JSON file that is not the index of a divided checkpoint: a config.json. */
bool graph_source_is_config(const char *path);
/* A decoder with the sizes of an architecture that is not known takes the place of what could not be built. False: there is
 * none, and no graph. */
bool graph_source_take_sizes(struct app *app, struct graph_source *source, const struct vc_model *model,
                             const char *path);
/* All that is wrong with the graph: the first sentence as every failure, the others under it. */
int graph_refuse(struct app *app, const struct vc_graph *graph, enum vc_status status);
/* Opens app->subject: a config.json, the text of a graph, or a model. Prints all that is wrong. GO_ON or a status. */
int graph_source_open(struct app *app, struct graph_source *source, enum graph_wanted wanted);
/* Gives the sizes that people leave out, then those that they said. */
int graph_source_bind(struct app *app, struct graph_source *source);
/* The weights that the graph was built from; NULL: none. */
const struct vc_model *graph_source_model(const struct graph_source *source);
void graph_source_close(struct graph_source *source);
