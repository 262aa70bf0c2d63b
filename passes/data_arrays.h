/* data_arrays.h - which array of a file of rows is which input of a graph. All commands that take rows ask this.
 *
 *     arrays {"x=train_images", "y=train_labels"}: x is train_images, y and mask are named so, too
 *     an input without such an entry is the array of its name
 *     the only input that has to be given is the only array that is neither y nor mask, whatever it is called
 */
#pragma once

#include <vcompress/graph.h>

#include "core/model/source.h"

/* As options have them: "NAME=ARRAY". */
struct vc_array_names {
    const char *const *list;
    size_t n;
};

/* The array that is named for that input, or y, or mask; NULL: none is. */
const char *vc_array_named(struct vc_array_names names, const char *name);
/* VC_E_ARGUMENT: an entry names no input and no output of these graphs (NULL: none), y or mask. */
enum vc_status vc_array_names_check(struct vc_ctx *ctx, struct vc_array_names names,
                                    const struct vc_graph *const *graphs, size_t n_graphs);
/* By entry, or by its own name; VC_NO_TENSOR if there is none. VC_E_ARGUMENT: there is no array as the entry says. */
enum vc_status vc_array_find(struct vc_ctx *ctx, const struct vc_model *data, struct vc_array_names names,
                             const char *name, size_t *out);
/* The same, or else the only array. VC_NO_TENSOR if there is none, and the input may be left out. VC_E_ARGUMENT: it may
 * not. */
enum vc_status vc_array_of_input(struct vc_ctx *ctx, const struct vc_model *data, struct vc_array_names names,
                                 const struct vc_graph *graph, const struct vc_graph_value *input, size_t *out);
/* VC_E_ARGUMENT: integers fit every input, floats those of floats, nothing else any. */
enum vc_status vc_array_check_type(struct vc_ctx *ctx, const struct vc_model *data, const struct vc_tensor *array,
                                   const struct vc_graph_value *input);
/* Fails with both shapes. */
enum vc_status vc_array_refuse_shape(struct vc_ctx *ctx, const struct vc_model *data, const struct vc_tensor *array,
                                     const struct vc_graph *graph, const struct vc_graph_value *input);
