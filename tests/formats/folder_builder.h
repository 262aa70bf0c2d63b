/* folder_builder.h - a small checkpoint in a folder, for tests and fuzz targets: two shards that never change, and what
 * the index and config.json of them say when all is well. */
#pragma once

#include "zip_builder.h"

#define FOLDER_INDEX "model.safetensors.index.json"

/* Weights of a layer, an embedding, int8 codes with their scales, and packed codes that are int8 only where config.json
 * says so (FOLDER_CONFIG does). */
#define FOLDER_MAP                                                                                    \
    "\"emb.weight\": \"a.safetensors\", \"w\": \"a.safetensors\", \"w.scale\": \"a.safetensors\", "   \
    "\"l.q.weight\": \"b.safetensors\", \"m.weight_packed\": \"b.safetensors\", \"m.weight_scale\": " \
    "\"b.safetensors\", \"m.weight_shape\": \"b.safetensors\""
#define FOLDER_MAPPED "{\"metadata\": {\"total_size\": 302}, \"weight_map\": {" FOLDER_MAP "}}"
#define FOLDER_CONFIG                                                                                       \
    "{\n  \"model_type\": \"llama\",\n  \"torch_dtype\": \"float32\",\n  \"quantization_config\": {"        \
    "\"quant_method\": \"compressed-tensors\", \"format\": \"pack-quantized\", \"config_groups\": {\"g\": " \
    "{\"weights\": {\"num_bits\": 8, \"type\": \"int\", \"symmetric\": true, \"group_size\": null}}}}\n}\n"
#define FOLDER_TENSORS 8 /* one of them a second name */

/* Writes the two shards into a folder that is there. */
void folder_fill(const char *path);

/* A folder of its own in $TMPDIR (default /tmp) with the shards and nothing else, for programs without cmocka; its path
 * goes to `path`. */
void folder_make(char *path, size_t capacity);

/* Writes, or replaces, a file in it. */
void folder_write(const char *path, const char *name, const void *data, size_t n);

/* Removes the files in it, and it. */
void folder_remove(const char *path);
