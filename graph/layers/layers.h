/* layers.h - a graph from a list of layers, for models that have neither an ONNX file nor a config.json: a line per
 * layer, in the order in which they are computed. docs/graph.md has the words.
 *
 *     input x [batch, 3, 32, 32]
 *     conv conv1 64 kernel=3
 *     relu
 *     flatten
 *     linear fc 10
 *
 * A shorthand for the operators of ONNX and nothing else. Parameters are called as torch.nn calls them: conv1.weight,
 * conv1.bias. With a model, they are its tensors; without one, shapes follow from the list. */
#pragma once

#include "graph/builder/builder.h"

/* The text begins like a list of layers: "input", after comments and empty lines. */
bool vc_layers_probe(const char *text, size_t n);

/* Adds everything that the list says; what is wrong are problems with the number of the line. model may be NULL. */
void vc_layers_build(struct vc_graph *graph, const char *text, size_t n, const struct vc_model *model);
