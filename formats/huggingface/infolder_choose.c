/* infolder_choose.c - which files of a folder are its model, and what they are called in an output.
 *
 *     model.safetensors.index.json             the files that it names
 *     model.safetensors                        this file; or diffusion_pytorch_model.safetensors, as diffusers has it
 *     model.safetensors.index.fp16.json,       a variant, where there is nothing else: loaders take it only where they
 *     model.fp16.safetensors                   are told its name
 *     the same with .bin                       PyTorch files, where there are no safetensors
 *
 * Earlier lines win. `verify` collects what is wrong with an index and goes on with the files themselves; other
 * commands refuse. */

#include "core/base/findings.h"
#include "formats/huggingface/infolder_internal.h"
#include "formats/io/numbered_name.h"

/* ---- the index ---- */

/* Reads folder->index into folder->map; its files become the shards, sorted by name. */
static enum vc_status read_index(struct vc_ctx *ctx, struct vc_infolder *folder)
{
    enum vc_status status = VC_OK;

    VC_TRY(vc_infolder_open(ctx, folder, folder->index, &folder->index_file));
    VC_TRY(vc_weight_index_read(ctx, folder->index_file, &folder->map));
    VC_TRY(vc_infile_check(ctx, folder->index_file));
    for (size_t i = 0; i < folder->map.n_files; i++) {
        VC_TRY(vc_infolder_add_name(ctx, folder, &folder->shards, folder->map.files[i]));
    }
out:
    return status == VC_OK ? VC_OK : vc_context(ctx, "%s", folder->index);
}

void vc_infolder_forget_index(struct vc_ctx *ctx, struct vc_infolder *folder)
{
    vc_weight_index_forget(ctx, &folder->map);
    vc_infile_close(ctx, folder->index_file);
    folder->index_file = NULL;
}

enum vc_status vc_infolder_check_index(struct vc_ctx *ctx, struct vc_infolder *folder, const bool *lost,
                                       struct vc_model *model)
{
    enum vc_status status = VC_OK;

    if (folder->map.file != NULL) {
        VC_TRY(vc_weight_index_check(ctx, &folder->map, folder->index, lost, model));
        if (vc_infile_check(ctx, folder->index_file) != VC_OK) {
            VC_TRY(vc_context(ctx, "%s", folder->index));
        }
    }
out:
    vc_infolder_forget_index(ctx, folder);
    return status;
}

/* ---- choosing ---- */

/* Says why no model was found: several files without an index, files of other formats, or nothing. */
static enum vc_status refuse_weights(struct vc_ctx *ctx, const struct vc_infolder *folder)
{
    VC_REFUSE_IF(folder->weights.n > 1, ctx, VC_E_UNSUPPORTED,
                 "is a folder with %zu safetensors files and no index; give one of them, or make an index with %s",
                 folder->weights.n, vc_option(ctx, "vc_index_write"));
    for (size_t k = 0; k < 2 * folder->left.n; k++) { /* an ONNX file first, not the data beside it */
        const char *name = folder->left.names[k % folder->left.n];

        VC_REFUSE_IF(k < folder->left.n ? vc_infolder_ends_in(name, ".onnx") : vc_infolder_is_other_weights(name), ctx,
                     VC_E_UNSUPPORTED,
                     "is a folder without safetensors, GGUF or ONNX files; give the file itself (%s?)", name);
    }
    return vc_fail(ctx, VC_E_UNSUPPORTED, "is a folder without safetensors, GGUF or ONNX files");
}

/* Whether it is an index of no variant. */
static bool is_whole_index(const char *name, const char *suffix)
{
    const char *variant;
    size_t n;

    return vc_infolder_names_index(name, suffix, &variant, &n) && n == 0;
}

/* The index among those there are, unless one was given: the only one, or one with a usual name. Those of variants
 * count only with `variants`. Several indices are refused, unless one of them has the usual name. */
static enum vc_status choose_index(struct vc_ctx *ctx, struct vc_infolder *folder, const struct infolder_names *indices,
                                   const char *suffix, bool variants)
{
    const char *usual = strcmp(suffix, VC_BIN_INDEX_SUFFIX) == 0 ? VC_BIN_INDEX_NAME : VC_INDEX_NAME;
    const char *found = NULL;
    size_t n = 0;

    for (size_t i = 0; i < indices->n; i++) {
        if (is_whole_index(indices->names[i], suffix) != variants) {
            n++;
            found = indices->names[i];
        }
    }
    if (folder->index != NULL || n == 0) {
        return VC_OK; /* given, or none */
    }
    if (n > 1 && !variants && vc_infolder_has_name(indices, usual)) {
        n = 1;
        found = usual;
    }
    folder->index = found;
    return n == 1 ? VC_OK : vc_fail(ctx, VC_E_UNSUPPORTED, "is a folder with %zu indices; give one of them", n);
}

/* Adds all of these to the shards. */
static enum vc_status take_all(struct vc_ctx *ctx, struct vc_infolder *folder, const struct infolder_names *files)
{
    for (size_t i = 0; i < files->n; i++) {
        VC_CALL(vc_infolder_add_name(ctx, folder, &folder->shards, files->names[i]));
    }
    return VC_OK;
}

enum vc_status vc_infolder_choose_all(struct vc_ctx *ctx, struct vc_infolder *folder)
{
    VC_REFUSE_IF(folder->weights.n == 0, ctx, VC_E_UNSUPPORTED, "is a folder without safetensors files");
    return take_all(ctx, folder, &folder->weights);
}

/* Without the others: the ONNX file with a name of optimum's, or the only one. Names of more (a quantized one beside it,
 * encoder and decoder) are said. */
static enum vc_status choose_onnx(struct vc_ctx *ctx, struct vc_infolder *folder)
{
    static const char *const usual[] = {"model.onnx", "onnx/model.onnx", "model_quantized.onnx",
                                        "onnx/model_quantized.onnx"};
    const size_t n_usual = sizeof usual / sizeof usual[0];
    const char *found = NULL;
    size_t best = n_usual;
    size_t n = 0;

    for (size_t i = 0; folder->weights.n == 0 && i < folder->left.n; i++) {
        const char *file = folder->left.names[i];
        size_t k = 0;

        if (!vc_infolder_ends_in(file, ".onnx")) {
            continue;
        }
        while (k < n_usual && strcmp(file, usual[k]) != 0) {
            k++;
        }
        n++;
        if (found == NULL || k < best || (k == best && strcmp(file, found) < 0)) {
            found = file;
            best = k;
        }
    }
    VC_RETURN_IF(n == 0, refuse_weights(ctx, folder));
    VC_REFUSE_IF(n > 1 && best == n_usual, ctx, VC_E_UNSUPPORTED,
                 "is a folder with %zu ONNX models, none of which is model.onnx; give one of them (%s?)", n, found);
    folder->lone = vc_arena_printf(ctx, &folder->arena, "%s/%s", folder->path, found);
    folder->n_lone = n;
    return folder->lone != NULL ? VC_OK : VC_E_NOMEM;
}

/* Without safetensors: the only GGUF file, or the first of the only ones that belong together.
 * "model-00002-of-00003.gguf" is no model of its own; the reader of GGUF opens its siblings. */
static enum vc_status choose_gguf(struct vc_ctx *ctx, struct vc_infolder *folder)
{
    struct vc_numbered_name name;
    size_t n = 0;

    for (size_t i = 0; folder->weights.n == 0 && i < folder->left.n; i++) {
        const char *file = folder->left.names[i];

        if (vc_infolder_ends_in(file, ".gguf") && strchr(file, '/') == NULL &&
            (!vc_numbered_name_parse(file, ".gguf", &name) || name.number == 1)) {
            n++;
            VC_CALL_ALLOC(folder->lone = vc_arena_printf(ctx, &folder->arena, "%s/%s", folder->path, file));
            folder->n_lone = 1;
        }
    }
    VC_REFUSE_IF(n > 1, ctx, VC_E_UNSUPPORTED, "is a folder with %zu GGUF models; give one of them", n);
    return n == 0 ? choose_onnx(ctx, folder) : VC_OK;
}

/* The files that the index names. With findings, files speak for themselves where it cannot be read. */
static enum vc_status choose_by_index(struct vc_ctx *ctx, struct vc_infolder *folder)
{
    enum vc_status status = read_index(ctx, folder);

    if (status != VC_OK) {
        VC_CALL(vc_collect(ctx, status, "index", NULL));
        vc_infolder_forget_index(ctx, folder);
        vc_weight_index_release(ctx, &folder->map);
        if (folder->has_bins) {
            VC_CALL(take_all(ctx, folder, &folder->bins));
        } else {
            VC_CALL(vc_infolder_choose_all(ctx, folder));
        }
    }
    return VC_OK;
}

/* The only file, or the one with a usual name, which is a shard then; NULL: neither. */
static const char *only_file(const struct infolder_names *files, const char *const usual[2])
{
    if (vc_infolder_has_name(files, usual[0])) {
        return usual[0];
    }
    if (vc_infolder_has_name(files, usual[1])) {
        return usual[1];
    }
    if (files->n == 1) {
        return files->names[0];
    }
    return NULL;
}

/* Files of one kind: by their index, then the file with a usual name, then by the index of a variant, then the only
 * file. *found: there was one of these. */
static enum vc_status choose_of(struct vc_ctx *ctx, struct vc_infolder *folder, bool *found)
{
    static const char *const usual[] = {"model.safetensors", "diffusion_pytorch_model.safetensors"};
    static const char *const usual_bins[] = {"pytorch_model.bin", "diffusion_pytorch_model.bin"};
    bool bins = folder->has_bins;
    const struct infolder_names *files = bins ? &folder->bins : &folder->weights;
    const struct infolder_names *indices = bins ? &folder->bin_indices : &folder->indices;
    const char *suffix = bins ? VC_BIN_INDEX_SUFFIX : VC_INDEX_SUFFIX;
    const char *name = only_file(files, bins ? usual_bins : usual);

    *found = true;
    VC_CALL(choose_index(ctx, folder, indices, suffix, false));
    if (folder->index == NULL && (name == NULL || files->n == 1)) {
        VC_CALL(choose_index(ctx, folder, indices, suffix, true));
    }
    if (folder->index != NULL) {
        return choose_by_index(ctx, folder);
    }
    *found = name != NULL;
    return *found ? vc_infolder_add_name(ctx, folder, &folder->shards, name) : VC_OK;
}

/* Without safetensors: PyTorch files. */
static enum vc_status choose_bins(struct vc_ctx *ctx, struct vc_infolder *folder)
{
    bool found = false;

    folder->has_bins = true;
    VC_CALL(choose_of(ctx, folder, &found));
    VC_REFUSE_IF(!found, ctx, VC_E_UNSUPPORTED,
                 "is a folder with %zu PyTorch files (%s, ...) and no index; give one of them", folder->bins.n,
                 folder->bins.names[0]);
    return VC_OK;
}

/* An index of PyTorch files that the user gave decides for them, even beside safetensors. A pipeline has no weights at
 * its top. Then safetensors, PyTorch files, GGUF, ONNX. */
enum vc_status vc_infolder_choose(struct vc_ctx *ctx, struct vc_infolder *folder)
{
    const char *variant;
    size_t n_variant;
    bool found = false;

    if (folder->index != NULL && vc_infolder_names_index(folder->index, VC_BIN_INDEX_SUFFIX, &variant, &n_variant)) {
        return choose_bins(ctx, folder);
    }
    if (folder->index == NULL && vc_infolder_is_pipeline(folder)) {
        return vc_infolder_find_components(ctx, folder);
    }
    VC_CALL(choose_of(ctx, folder, &found));
    if (!found && folder->weights.n == 0 && folder->bins.n + folder->bin_indices.n != 0) {
        VC_CALL(choose_bins(ctx, folder));
    } else if (!found) {
        VC_CALL(choose_gguf(ctx, folder));
    }
    return VC_OK;
}

/* ---- names of outputs ---- */

/* "model.bin" of "pytorch_model.bin", where the folder holds such files. */
static const char *strip_pytorch(const struct vc_infolder *folder, const char *name)
{
    static const char prefix[] = "pytorch_";

    return folder->has_bins && strncmp(name, prefix, sizeof prefix - 1) == 0 ? name + sizeof prefix - 1 : name;
}

/* A PyTorch file's name as the safetensors file that is made of it has it; others stay.
 *
 *     pytorch_model-00001-of-00002.bin -> model-00001-of-00002.safetensors */
static const char *out_name(struct vc_ctx *ctx, struct vc_infolder *folder, const char *name)
{
    const char *from = strip_pytorch(folder, name);

    return !folder->has_bins || !vc_infolder_ends_in(from, ".bin")
               ? name
               : vc_arena_printf(ctx, &folder->arena, "%.*s.safetensors", (int)(strlen(from) - strlen(".bin")), from);
}

/* The name in front of numbers and extensions, "diffusion_pytorch_model" of diffusion_pytorch_model.fp16.safetensors,
 * as *n bytes; 0 if it is not one that loaders look for. *variant: "fp16", *n_variant bytes of the name; 0: none. */
static void split_name(const char *name, size_t *n, const char **variant, size_t *n_variant)
{
    static const char *const stems[] = {"model", "diffusion_pytorch_model"};
    struct vc_numbered_name numbered;
    size_t end = vc_numbered_name_parse(name, ".safetensors", &numbered) ? numbered.n_prefix
                 : vc_infolder_ends_in(name, ".safetensors")             ? strlen(name) - strlen(".safetensors")
                                                                         : 0;

    *n = 0;
    *n_variant = 0;
    for (size_t i = 0; i < sizeof stems / sizeof stems[0]; i++) {
        size_t k = strlen(stems[i]);

        if (k <= end && memcmp(name, stems[i], k) == 0 && (k == end || name[k] == '.')) {
            *n = k;
            *variant = name + k + (k != end);
            *n_variant = k == end ? 0 : end - k - 1;
        }
    }
}

/* Names of the index, and in front of numbers: by the index, or where the source has none by the name of its file. */
static enum vc_status name_index(struct vc_ctx *ctx, struct vc_infolder *folder)
{
    const char *suffix = folder->has_bins ? VC_BIN_INDEX_SUFFIX : VC_INDEX_SUFFIX;
    const char *name = folder->out_shards.n == 1 ? folder->out_shards.names[0] : "";
    const char *variant = "";
    size_t n_variant = 0;
    size_t n = 0;

    if (folder->index != NULL) {
        name = strip_pytorch(folder, folder->index);
        (void)vc_infolder_names_index(name, suffix, &variant, &n_variant);
        n = strlen(name) - strlen(suffix) - n_variant - (n_variant != 0);
    } else {
        split_name(name, &n, &variant, &n_variant);
        name = n != 0 ? name : "model";
        n = n != 0 ? n : strlen(name);
    }
    folder->out_prefix = vc_arena_printf(ctx, &folder->arena, "%.*s%s%.*s", (int)n, name, n_variant != 0 ? "." : "",
                                         (int)n_variant, variant);
    folder->out_index = folder->index != NULL && !folder->has_bins
                            ? name
                            : vc_arena_printf(ctx, &folder->arena, "%.*s.safetensors.index%s%.*s.json", (int)n, name,
                                              n_variant != 0 ? "." : "", (int)n_variant, variant);
    VC_CALL_ALLOC(folder->out_prefix);
    VC_CALL_ALLOC(folder->out_index);
    return VC_OK;
}

enum vc_status vc_infolder_name_outputs(struct vc_ctx *ctx, struct vc_infolder *folder)
{
    for (size_t i = 0; i < folder->shards.n; i++) {
        const char *name = out_name(ctx, folder, folder->shards.names[i]);

        VC_CALL_ALLOC(name);
        VC_CALL(vc_infolder_add_name(ctx, folder, &folder->out_shards, name));
    }
    return name_index(ctx, folder);
}

enum vc_status vc_infolder_variant(struct vc_ctx *ctx, struct vc_infolder *folder, const char **variant)
{
    const char *at = "";
    size_t n_variant = 0;
    size_t n = 0;

    *variant = NULL;
    if (folder->out_shards.n != 0) {
        split_name(folder->out_shards.names[0], &n, &at, &n_variant);
    }
    if (n_variant != 0) {
        VC_CALL_ALLOC(*variant = vc_arena_printf(ctx, &folder->arena, "%.*s", (int)n_variant, at));
    }
    return VC_OK;
}
