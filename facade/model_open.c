/* model_open.c - opens a checkpoint for programs: checks the options, lets the table of formats open it, and joins what
 * torch.nn.utils.prune has left. */

#include "core/base/option_struct.h"
#include "core/model/masked_pairs.h"
#include "facade/onnx_folder.h"
#include "formats/formats.h"
#include "kernels/kernels.h"
#include "merge/merged_model.h"
#include "passes/decode_range.h"

/* "<weights>" of "a/weights": no name of a file, so that nothing is looked for beside it. */
static void name_reader(const char *path, char *name, size_t room)
{
    const char *slash = path != NULL ? strrchr(path, '/') : NULL;
    const char *base = slash != NULL ? slash + 1 : path != NULL ? path : "";

    (void)snprintf(name, room, vc_is_stream(base) && base[0] == '<' ? "%.200s" : "<%.200s>",
                   base[0] != '\0' ? base : "memory");
}

/* The format's model, whose codes are shown as floats. */
static enum vc_status open_decoded(struct vc_ctx *ctx, const char *path, const struct vc_open_options *own,
                                   struct vc_model **out)
{
    VC_CALL(vc_format_open(ctx, path, own, out));
    enum vc_status status = vc_decoded_model_make(ctx, &vc_decode_ranges, out);
    if (status != VC_OK) {
        vc_model_close(*out);
        *out = NULL;
    }
    return status;
}

/* Where codes are to be floats first, or adapters merged, these come between the folder and its GGUF model. */
static enum vc_status open_format(struct vc_ctx *ctx, const char *path, const struct vc_open_options *own,
                                  struct vc_model **out)
{
    struct vc_open_options first = *own;
    bool fits = false;

    if (own->as_onnx) {
        return vc_onnx_folder_open(ctx, path, own, out);
    }
    if (own->decoded && !own->as_gguf) {
        return open_decoded(ctx, path, own, out);
    }
    if (!own->as_gguf || (!own->decoded && own->merge == NULL)) {
        return vc_format_open(ctx, path, own, out);
    }
    first.as_gguf = false;
    VC_CALL(vc_format_open(ctx, path, &first, out));
    enum vc_status status = vc_format_fits_folder(ctx, *out, &fits);
    if (status == VC_OK && fits) {
        status = own->decoded ? vc_decoded_model_make(ctx, &vc_decode_ranges, out) : VC_OK;
        status = status == VC_OK && own->merge != NULL ? vc_merged_model_make(ctx, own->merge, out) : status;
        status = status == VC_OK ? vc_format_finish(ctx, own, out) : status;
    }
    if (status != VC_OK) {
        vc_model_close(*out);
        *out = NULL;
    }
    return status;
}

static enum vc_status open_model(struct vc_ctx *ctx, const char *path, const struct vc_open_options *options,
                                 struct vc_model **out)
{
    struct vc_open_options own;
    char name[256];

    *out = NULL;
    VC_CALL(vc_options_read(ctx, VC_OPTIONS(open), options, &own));
    VC_REFUSE_IF((unsigned)own.void_as >= VC_DTYPE_COUNT, ctx, VC_E_ARGUMENT, "void_as is no dtype");
    VC_REFUSE_IF(own.token_bits != 0 && own.token_bits != 16 && own.token_bits != 32, ctx, VC_E_ARGUMENT,
                 "%s: tokens have 16 or 32 bits", vc_option(ctx, "token_bits"));
    if (own.reader != NULL) {
        name_reader(path, name, sizeof name);
        path = name;
    }
    if (open_format(ctx, path, &own, out) != VC_OK) {
        return vc_context(ctx, "%s", strcmp(path, "-") == 0 ? "standard input" : path);
    }
    return own.pairs && !(*out)->format->tells_axes ? vc_pairs_join(ctx, out) : VC_OK;
}

enum vc_status vc_model_open(struct vc_ctx *ctx, const char *path, const struct vc_open_options *options,
                             struct vc_model **out)
{
    vc_call_begin(ctx);
    vc_kernels_prepare(ctx); /* a card that was named opens while headers are read */
    return vc_call_end(ctx, open_model(ctx, path, options, out));
}
