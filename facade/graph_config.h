/* graph_config.h - the graph of a configuration, behind vc_graph_open. */
#pragma once

#include <vcompress/graph.h>

/* Builds the graph of a config.json, or of the config.json in a folder, without weights: the index of every parameter
 * is VC_NO_TENSOR. Problems are returned as by vc_graph_build. VC_E_IO if the file cannot be read. */
enum vc_status vc_graph_build_config(struct vc_ctx *ctx, const char *path, struct vc_graph **out);
