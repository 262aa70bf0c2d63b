/* infolder.h - a folder with a checkpoint in it, as Hugging Face lays them out: weights in one or several files
 * (shards) with an index, and the files that go with them (config.json, the tokenizer, licences).
 *
 *     safetensors    model-00001-of-00002.safetensors ...   model.safetensors.index.json
 *     PyTorch        pytorch_model-00001-of-00002.bin ...   pytorch_model.bin.index.json
 *
 * A folder that has both is the first. What is made of the second has the names of the first.
 *
 * A pipeline has models in folders below it, and no weights of its own:
 *
 *     model_index.json, unet/config.json, unet/diffusion_pytorch_model.safetensors, scheduler/... */
#pragma once

#include "core/model/source.h"
#include "formats/io/infile.h"

#define VC_INDEX_SUFFIX     ".safetensors.index.json"
#define VC_INDEX_NAME       "model" VC_INDEX_SUFFIX
#define VC_BIN_INDEX_SUFFIX ".bin.index.json"
#define VC_BIN_INDEX_NAME   "pytorch_model" VC_BIN_INDEX_SUFFIX

struct vc_infolder;

/* A model in a pipeline, as model_index.json has it: "unet": ["diffusers", "UNet2DConditionModel"]. */
struct vc_pipeline_part {
    const char *name; /* of its folder */
    const char *library, *class_name;
};

/* A file that goes with the weights. */
struct vc_carried {
    const char *name; /* may have folders in it */
    uint64_t size_bytes;
    struct timespec modified; /* with the size: as it was when the folder was looked through */
    const char *made;         /* its bytes, in a folder that is not on disk; NULL: a file has them */
};

/* True for a folder and for the name of an index: what vc_infolder_scan takes. */
bool vc_infolder_is(const char *path);

/* Looks through the folder (or the one that the index at `path` lies in) and reads the index if there is one.
 * VC_E_FORMAT and VC_E_UNSUPPORTED say what is missing or too many; names of shards are plain file names. */
enum vc_status vc_infolder_scan(struct vc_ctx *ctx, const char *path, struct vc_infolder **out);
/* The same without any index: every safetensors file of the folder is a shard. */
enum vc_status vc_infolder_scan_all(struct vc_ctx *ctx, const char *path, struct vc_infolder **out);
void vc_infolder_close(struct vc_ctx *ctx, struct vc_infolder *folder); /* accepts NULL */

/* A folder that is not on disk: what a model of another kind becomes. Outputs have n_shards files with weights. path:
 * of the file that the model was read from. */
enum vc_status vc_infolder_make(struct vc_ctx *ctx, const char *path, size_t n_shards, struct vc_infolder **out);
/* A file that goes with the weights; the bytes are copied. Called with names in their order. */
enum vc_status vc_infolder_add_made(struct vc_ctx *ctx, struct vc_infolder *folder, const char *name, const char *bytes,
                                    size_t n);
/* The bytes of such a file; NULL: the folder is on disk, or has no file of that name. */
const char *vc_infolder_made(const struct vc_infolder *folder, const char *name, size_t *n);

/* The files with weights, sorted by name. */
size_t vc_infolder_shard_count(const struct vc_infolder *folder);
const char *vc_infolder_shard(const struct vc_infolder *folder, size_t index);
bool vc_infolder_has_shard(const struct vc_infolder *folder,
                           size_t index);                        /* a safetensors file of its name is there */
const char *vc_infolder_index(const struct vc_infolder *folder); /* its name; NULL if there is none */
/* The shards are PyTorch files. */
bool vc_infolder_has_bins(const struct vc_infolder *folder);
/* The PyTorch weights of a folder whose safetensors are read: the name of one file; NULL if there are none. */
const char *vc_infolder_other_bin(const struct vc_infolder *folder);
/* What loaders are known to do with such a model, by its config.json: for struct vc_model. */
enum vc_status vc_infolder_family(struct vc_ctx *ctx, struct vc_infolder *folder, const struct vc_family **out);
/* What a shard is called in an output that is divided as the folder is; what an index is called where there is one, and
 * what comes in front of the numbers of new shards: "model", "diffusion_pytorch_model.fp16". */
const char *vc_infolder_out_shard(const struct vc_infolder *folder, size_t index);
const char *vc_infolder_out_index(const struct vc_infolder *folder);
const char *vc_infolder_out_prefix(const struct vc_infolder *folder);
/* The variant in the names of outputs, "fp16", which loaders have to be told; NULL: none. */
enum vc_status vc_infolder_variant(struct vc_ctx *ctx, struct vc_infolder *folder, const char **variant);
const char *vc_infolder_path(const struct vc_infolder *folder);
/* In a folder without safetensors and PyTorch files: the path of the only GGUF model, or of its first file; else of its
 * ONNX model, as optimum writes them (model.onnx, onnx/model.onnx), of *n that are there. NULL if it is neither. */
const char *vc_infolder_lone(const struct vc_infolder *folder, size_t *n);

/* It is a pipeline, and has no weights of its own. */
bool vc_infolder_has_models(const struct vc_infolder *folder);
/* The models of a pipeline, sorted by name; none where all that was wrong with it is a finding. Files below their
 * folders are theirs: this folder carries and leaves none of them. */
size_t vc_infolder_component_count(const struct vc_infolder *folder);
const struct vc_pipeline_part *vc_infolder_component(const struct vc_infolder *folder, size_t index);

/* A file of the folder. */
enum vc_status vc_infolder_open(struct vc_ctx *ctx, struct vc_infolder *folder, const char *name,
                                struct vc_infile **out);

/* vc_weight_index_check, once; what was read of the index is freed. Without an index everything is right. */
enum vc_status vc_infolder_check_index(struct vc_ctx *ctx, struct vc_infolder *folder, const bool *lost,
                                       struct vc_model *model);

/* What goes with the weights, sorted by name; and the other files, which are skipped. */
size_t vc_infolder_carried_count(const struct vc_infolder *folder);
const struct vc_carried *vc_infolder_carried(const struct vc_infolder *folder, size_t index);
size_t vc_infolder_skipped_count(const struct vc_infolder *folder);
const char *vc_infolder_skipped(const struct vc_infolder *folder, size_t index);

/* Opens it; *out NULL: it is empty. VC_E_FORMAT where it is not as it was when the folder was looked through. */
enum vc_status vc_infolder_open_carried(struct vc_ctx *ctx, struct vc_infolder *folder,
                                        const struct vc_carried *carried, struct vc_infile **out);

/* What would go along and cannot: links that lead nowhere or out of the folder, pipes, sockets, devices. Each is a
 * sentence, sorted by name. */
size_t vc_infolder_odd_count(const struct vc_infolder *folder);
const char *vc_infolder_odd(const struct vc_infolder *folder, size_t index);
/* VC_E_UNSUPPORTED where there are any: for whoever makes a folder of this one. */
enum vc_status vc_infolder_check_whole(struct vc_ctx *ctx, const struct vc_infolder *folder);
