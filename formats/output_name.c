/* output_name.c - what an output is called when nobody says so, and which inputs are several files.
 *
 *     model.npz                          int8   model.int8.npz
 *     weights.npy                        int8   weights.int8.npz   codes and scales are two arrays
 *     llama/                             fp16   llama.fp16         a folder
 *     llama/model.safetensors.index.json fp16   llama.fp16
 *     q-00001-of-00003.gguf              f32    q.f32              a folder
 *
 * Looks at names and at what kind of file a path is; opens none. */
#define _GNU_SOURCE /* realpath */
#include <errno.h>

#include "core/base/option_struct.h"
#include "core/text/text.h"
#include "formats/gguf/gguf.h"
#include "formats/huggingface/infolder.h"
#include "formats/io/numbered_name.h"
#include "formats/npz/npz.h"

#define INDEX_SUFFIX ".index.json"

/* Any index, whatever stands before it. */
static bool is_index(const char *path)
{
    size_t n = strlen(path);
    size_t k = sizeof INDEX_SUFFIX - 1;

    return n >= k && strcmp(path + n - k, INDEX_SUFFIX) == 0;
}

/* Bytes before "-00002-of-00003.gguf"; 0: the path is none of several GGUF files. */
static size_t divided_stem(const char *path)
{
    const char *base = vc_base_name(path);
    struct vc_numbered_name name;

    return vc_numbered_name_parse(base, vc_format_gguf.extensions[0], &name) && name.n_prefix > 0
               ? (size_t)(base - path) + name.n_prefix
               : 0;
}

/* Whether the input is several files, so that --max-shard-size and folders make sense. */
bool vc_path_is_divided(const char *path)
{
    char real[PATH_MAX];
    struct stat st;

    return (stat(vc_mount_path(path, real), &st) == 0 && S_ISDIR(st.st_mode)) || divided_stem(path) != 0 ||
           is_index(path);
}

/* A folder, or the one that an index lies in; "." and ".." by their real names. */
static void add_folder(struct vc_text *text, const char *path)
{
    size_t n = is_index(path) ? (size_t)(vc_base_name(path) - path) : strlen(path);

    while (n > 1 && path[n - 1] == '/') {
        n--;
    }
    vc_text_add_bytes(text, n == 0 ? "." : path, n == 0 ? 1 : n);
    if (text->status != VC_OK ||
        (strcmp(vc_base_name(text->data), ".") != 0 && strcmp(vc_base_name(text->data), "..") != 0)) {
        return;
    }
    char *real = realpath(text->data, NULL);
    if (real == NULL) {
        text->status = vc_fail_errno(text->ctx, errno, "%s", text->data);
        return;
    }
    text->n = 0;
    vc_text_add_bytes(text, real, strlen(real));
    free(real);
}

/* A file without its extension, one of several without its number. */
static void add_file(struct vc_text *text, const char *path)
{
    const char *base = vc_base_name(path);
    const char *point = strrchr(base, '.');
    size_t divided = divided_stem(path);

    vc_text_add_bytes(text, path,
                      divided != 0                     ? divided
                      : point != NULL && point != base ? (size_t)(point - path)
                                                       : strlen(path));
}

/* ".npz": what the name ends in; "" for a folder. */
static const char *extension_for(const struct vc_model *model, const struct vc_name_options *options,
                                 const struct vc_format *asked)
{
    bool array = (asked != NULL ? asked : model->format) == &vc_format_npy;

    if (options->folder) {
        return "";
    }
    if (options->more_tensors && array && asked == NULL) {
        return vc_format_npz.extensions[0];
    }
    return asked != NULL && asked != model->format ? asked->extensions[0] : vc_model_extension(model);
}

/* In another folder: only the last part of the name counts. */
static void move_into(struct vc_text *text, const char *folder, const char *name)
{
    size_t n = strlen(folder);

    vc_text_add(text, "%s%s%s", folder, n > 0 && folder[n - 1] == '/' ? "" : "/", vc_base_name(name));
}

/* model + "." + tag + extension, in `into` where that is given. *out belongs to the pool. */
enum vc_status vc_model_output_name(struct vc_ctx *ctx, const struct vc_model *model,
                                    const struct vc_name_options *options, char **out)
{
    const struct vc_format *asked = NULL;
    const char *input;
    struct vc_name_options own;
    struct vc_text text = {.ctx = ctx};
    struct vc_text moved = {.ctx = ctx};

    *out = NULL;
    vc_clear_error(ctx);
    if (vc_options_read(ctx, VC_OPTIONS(name), options, &own) != VC_OK ||
        vc_format_asked(ctx, own.format, &asked) != VC_OK) {
        return ctx->status;
    }
    VC_REFUSE_IF(own.tag == NULL, ctx, VC_E_ARGUMENT, "a name needs a tag");
    input = own.input != NULL ? own.input : model->path;
    VC_REFUSE_IF(strcmp(input, "-") == 0, ctx, VC_E_ARGUMENT,
                 "what is read from standard input has no name that one could be made from");
    if ((vc_model_extension(model)[0] == '\0' || vc_infolder_is(model->path)) && divided_stem(input) == 0) {
        add_folder(&text, input);
    } else {
        add_file(&text, input);
    }
    vc_text_add(&text, "%s%s%s", own.tag[0] == '\0' ? "" : ".", own.tag, extension_for(model, &own, asked));
    if (own.into == NULL || text.status != VC_OK) {
        *out = vc_text_detach(&text);
        return text.status;
    }
    move_into(&moved, own.into, text.data);
    vc_text_release(&text);
    *out = vc_text_detach(&moved);
    return moved.status;
}
