/* output_sink.c - which format an output gets, and its writer.
 *
 *     the format that was asked for; else that of the name; else the source's own; safetensors, where files are to be
 *     divided and the source's own cannot be */
#include "formats/npz/npz.h"
#include "formats/safetensors/safetensors.h"

/* The format of an output that nobody has asked for: by its name, else the model's own. divided: into several files,
 * which is safetensors where the model's own format cannot be. */
static const struct vc_format *output_format(const struct vc_model *model, const char *path, bool divided)
{
    const struct vc_format *named = path != NULL ? vc_format_find_by_name(path) : NULL;
    const struct vc_format *own = model->format != NULL ? model->format : &vc_format_npz; /* of tensors in memory */

    if (named != NULL && named->create_sink != NULL) {
        return named;
    }
    return divided && !own->divides ? &vc_format_safetensors : own;
}

/* The one that was asked for, which the name must not contradict; else by the name. */
static enum vc_status choose_format(struct vc_ctx *ctx, const struct vc_model *model,
                                    const struct vc_write_options *options, bool divided, const struct vc_format **out)
{
    const struct vc_format *named = options->path != NULL ? vc_format_find_by_name(options->path) : NULL;

    VC_CALL(vc_format_asked(ctx, options->format, out));
    if (*out == NULL) {
        *out = output_format(model, options->path, divided);
    } else if (named != NULL && named != *out) {
        return vc_fail(ctx, VC_E_ARGUMENT, "%s: its name says %s, but %s is %s", options->path, named->name,
                       vc_option(ctx, "format"), (*out)->name);
    }
    return VC_OK;
}

/* A source that stays what it is has a folder for an output, whose files are safetensors. `stays` is of pipelines. */
static enum vc_status keep_format(struct vc_ctx *ctx, const struct vc_model *model,
                                  const struct vc_write_options *options, const struct vc_format **format)
{
    const char *path = options->path != NULL ? options->path : "";

    if (model->format == NULL || !model->format->stays || *format == model->format) {
        return VC_OK;
    }
    VC_REFUSE_IF(*format != &vc_format_safetensors || vc_format_find_by_name(path) != NULL, ctx, VC_E_ARGUMENT,
                 "%s: the source has several models (model_index.json), and its output is a folder of them; for "
                 "another format give their folders one by one",
                 path[0] != '\0' ? path : (*format)->name);
    *format = model->format;
    return VC_OK;
}

/* Metadata that the caller gives: the format has a place for it, and no key is there twice or vcompress's own. */
static enum vc_status check_metadata(struct vc_ctx *ctx, const struct vc_format *format,
                                     const struct vc_write_options *options)
{
    const char *option = vc_option(ctx, "metadata");

    VC_REFUSE_IF(options->n_metadata != 0 && format->own_metadata == NULL, ctx, VC_E_ARGUMENT,
                 "%s writes metadata of GGUF, safetensors and ONNX files, and %s has none", option, format->name);
    for (size_t i = 0; i < options->n_metadata; i++) {
        const char *key = options->metadata[i].key;

        VC_REFUSE_IF(key[0] == '\0', ctx, VC_E_ARGUMENT, "%s: an entry has no key", option);
        VC_REFUSE_IF(vc_family_lists(format->own_metadata, key, true), ctx, VC_E_ARGUMENT,
                     "%s: '%.100s' is written by vcompress itself, by what the file holds", option, key);
        for (size_t k = 0; k < i; k++) {
            VC_REFUSE_IF(strcmp(key, options->metadata[k].key) == 0, ctx, VC_E_ARGUMENT, "%s: '%.100s' is given twice",
                         option, key);
        }
    }
    return VC_OK;
}

/* Chooses the format, lets it make its writer, and sees to what holds for all of them: which outputs may take raw
 * bytes, and what stays behind of a model of another format. */
enum vc_status vc_sink_create(struct vc_ctx *ctx, const struct vc_model *model, const struct vc_write_options *options,
                              struct vc_sink **out)
{
    bool divided = options->max_shard_bytes != 0 || options->n_shards != 0;
    const struct vc_format *format = NULL;
    const struct vc_dialect *asked = NULL;
    enum vc_status status;

    *out = NULL;
    if (choose_format(ctx, model, options, divided, &format) != VC_OK ||
        keep_format(ctx, model, options, &format) != VC_OK || vc_dialect_asked(ctx, options, &asked) != VC_OK) {
        return ctx->status;
    }
    VC_REFUSE_IF(options->writer != NULL && format->stays, ctx, VC_E_ARGUMENT,
                 "a pipeline is written as a folder, not to a writer");
    VC_REFUSE_IF(format->create_sink == NULL, ctx, VC_E_UNSUPPORTED,
                 "%s files cannot be written; let the output's name end in .npz", model->format_name);
    VC_REFUSE_IF(divided && !format->divides, ctx, VC_E_ARGUMENT,
                 "only safetensors and GGUF can be divided into several files, %s cannot", format->name);
    VC_REFUSE_IF(options->strip != 0 && !format->strips, ctx, VC_E_ARGUMENT,
                 "%s leaves descriptions out of ONNX files, and %s has none", vc_option(ctx, "strip"), format->name);
    VC_CALL(check_metadata(ctx, format, options));
    status = format->create_sink(ctx, model, options, out);
    if (status == VC_OK && asked != NULL && (*out)->dialect != asked) {
        (*out)->ops->free(ctx, *out);
        *out = NULL;
        return vc_fail(ctx, VC_E_ARGUMENT, "%s output cannot have the layout '%s'", format->name, asked->name);
    }
    if (status == VC_OK) {
        /* A whole npy is what an npz has as a member, so it can be copied as it is, too. */
        (*out)->accepts_raw = (*out)->accepts_raw && (format == model->format ||
                                                      (format == &vc_format_npz && model->format == &vc_format_npy));
        vc_format_set_loader(format, (*out)->dialect, model->family, &(*out)->loader);
        if ((*out)->note == NULL && format != model->format) {
            (*out)->note = model->left_behind;
        }
    }
    return status;
}

const char *vc_model_extension(const struct vc_model *model)
{
    bool divided = model->input == NULL || model->n_shards > 1;
    const struct vc_format *own = divided ? NULL : output_format(model, NULL, false);
    const char *extension = own == NULL ? NULL : vc_format_extension_of(own, model->path);

    return own == NULL ? "" : extension != NULL ? extension : own->extensions[0];
}

const struct vc_writers vc_format_writers = {.create = vc_sink_create,
                                             .format_of_name = vc_format_of_name,
                                             .reserve = vc_disk_reserve,
                                             .release = vc_disk_release};
