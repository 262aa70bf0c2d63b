/* build.h - what build.c and the rooms of graph/ agree on: a room fills a graph from one kind of program.
 *
 * A format says what a model computes as a `struct vc_program` (core/model/program.h). Its kind chooses the room:
 *
 *     VC_PROGRAM_NODES    an ONNX file's nodes          graph/onnx
 *     VC_PROGRAM_CONFIG   text of a config.json         graph/families
 *     VC_PROGRAM_KEYS     GGUF's metadata               graph/families
 */
#pragma once

#include "core/model/program.h"
#include "graph/builder/builder.h"

/* What a graph is made from. */
struct vc_graph_source {
    struct vc_ctx *ctx;
    const struct vc_model *model; /* NULL: a text, which has no weights */
    const struct vc_program *program;
    const struct vc_model *weights; /* vc_graph_options.weights, or NULL */
    struct vc_arena *arena;         /* the program's; for what is needed while building */
    bool plain_inputs;              /* vc_graph_options.plain_inputs */
    bool stand_in; /* of a VC_PROGRAM_CONFIG whose architecture is not known: a decoder with its sizes */
    /* Of a VC_PROGRAM_CONFIG, for another program that runs the graph: inputs have the names and shapes of exporters,
     * all have to be given, and a decoder that writes text has keys and values of earlier tokens as inputs and outputs. */
    bool exported;
    bool stated; /* of a VC_PROGRAM_CONFIG or VC_PROGRAM_KEYS: parameters have the shapes that the program states,
                    whatever those of the model's tensors are, and tensors that nobody uses are no problem */
};

/* Adds inputs, parameters, nodes and outputs. What is wrong with the program are problems of the graph; it returns
 * failures of another kind (no memory, a file that cannot be read). build.c creates the graph and finishes it. */
typedef enum vc_status vc_graph_builder(const struct vc_graph_source *source, struct vc_graph *graph);

/* What every call does first with the options that it was given. */
enum vc_status vc_graph_options_read(struct vc_ctx *ctx, const struct vc_graph_options *given,
                                     struct vc_graph_options *own);

/* Builds the graph of a text of n bytes in ONNX's textual form, the form of onnx.parser and vc_graph_print_text. Inputs
 * that the text calls parameters (docs/graph.md) come from options->weights. Fails like vc_graph_build; a syntax error
 * is VC_E_FORMAT with the line, and *out is NULL. */
enum vc_status vc_graph_parse_text(struct vc_ctx *ctx, const char *text, size_t n,
                                   const struct vc_graph_options *options, struct vc_graph **out);

/* Builds the graph of a text file. Parameters are tensors of options->weights; without weights, parameters have no
 * tensors. Fails like vc_graph_build. */
enum vc_status vc_graph_read_text(struct vc_ctx *ctx, const char *path, const struct vc_graph_options *options,
                                  struct vc_graph **out);

/* vc_graph_build for a program that is not what the model's file says, but what it would say. */
enum vc_status vc_graph_build_program(struct vc_ctx *ctx, const struct vc_model *model,
                                      const struct vc_program *program, struct vc_graph **out);

/* The same with the shapes that the program states: which of them are not those of the model's tensors. */
enum vc_status vc_graph_build_stated(struct vc_ctx *ctx, const struct vc_model *model, const struct vc_program *program,
                                     struct vc_graph **out);

/* The graph of a folder with a config.json for another program that runs it (vc_graph_source.exported). */
enum vc_status vc_graph_build_exported(struct vc_ctx *ctx, const struct vc_model *model, struct vc_graph **out);

/* The graph as ONNX nodes for a file that is to be made of it (onnx/onnx_export.c), in the arena; strings are the
 * graph's. model: whose tensors its parameters are. rows: matrices of products lie [out, in] as in the model, each
 * with a Transpose behind it. VC_E_UNSUPPORTED: a tensor or an operator has no place in ONNX. */
enum vc_status vc_graph_program(struct vc_ctx *ctx, const struct vc_graph *graph, const struct vc_model *model,
                                bool rows, struct vc_arena *arena, struct vc_program *out);

/* Makes the whole graph: the rest of vc_graph_build once the program is there. */
enum vc_status vc_graph_from_program(const struct vc_graph_source *source, struct vc_graph **out);
