/* model_bytes.c - see vc_model_bytes in formats.h: every byte that a model is made of, for a digest of it.
 *
 * Kept state (journals, answers, statistics) holds that digest, so it has to see everything that changes an answer:
 * weights, config.json, tokenizer; and nothing that does not: paths, times. */

#include "formats/formats.h"
#include "formats/huggingface/infolder.h"

#define BLOCK_BYTES ((size_t)1 << 20)

struct walk {
    struct vc_ctx *ctx;
    vc_see_fn *see;
    void *user;
    void *block;
};

/* Little-endian on every machine. */
static void see_number(const struct walk *w, uint64_t number)
{
    unsigned char bytes[8];

    for (unsigned i = 0; i < sizeof bytes; i++) {
        bytes[i] = (unsigned char)(number >> 8 * i);
    }
    w->see(w->user, bytes, sizeof bytes);
}

/* The size comes first, so that the bytes of two files are not those of one. */
static enum vc_status see_file(const struct walk *w, const struct vc_infile *file)
{
    see_number(w, file->size_bytes);
    for (uint64_t at = 0, n; at < file->size_bytes; at += n) {
        n = vc_min_u64(BLOCK_BYTES, file->size_bytes - at);
        VC_CALL(vc_check_cancelled(w->ctx));
        VC_CALL(vc_infile_read(w->ctx, file, at, w->block, (size_t)n));
        w->see(w->user, w->block, (size_t)n);
    }
    return VC_OK;
}

/* What goes with the weights: config.json, the tokenizer, licences. The name goes before the bytes, with its NUL, so
 * that a file that is renamed counts as another. */
static enum vc_status see_carried(const struct walk *w, struct vc_infolder *folder)
{
    for (size_t i = 0; i < vc_infolder_carried_count(folder); i++) {
        const struct vc_carried *carried = vc_infolder_carried(folder, i);
        struct vc_infile *file = NULL;

        w->see(w->user, carried->name, strlen(carried->name) + 1);
        enum vc_status status = vc_infolder_open_carried(w->ctx, folder, carried, &file);
        status = status == VC_OK && file != NULL ? see_file(w, file) : status;
        vc_infile_close(w->ctx, file);
        if (status != VC_OK) {
            return vc_context(w->ctx, "%s", carried->name);
        }
    }
    return VC_OK;
}

/* Files of a pipeline's components are inputs of the joined model; what goes along with each is its folder's. */
static enum vc_status see_model(const struct walk *w, const struct vc_model *model)
{
    if (model->input != NULL) {
        VC_CALL(see_file(w, model->input));
    }
    for (size_t i = 0; i < model->n_inputs; i++) {
        if (model->inputs[i] != NULL) {
            VC_CALL(see_file(w, model->inputs[i]));
        }
    }
    if (model->folder != NULL) {
        VC_CALL(see_carried(w, model->folder));
    }
    for (size_t i = 0; i < model->n_components; i++) {
        if (model->components[i].model->folder != NULL) {
            VC_CALL(see_carried(w, model->components[i].model->folder));
        }
    }
    return VC_OK;
}

/* A model that was made of another one (as_gguf) is the bytes of the other. */
enum vc_status vc_model_bytes(struct vc_ctx *ctx, const struct vc_model *model, vc_see_fn *see, void *user)
{
    struct walk w = {ctx, see, user, vc_alloc_array(ctx, VC_TAG_IO, BLOCK_BYTES, 1)};
    enum vc_status status = VC_OK;

    VC_TRY_ALLOC(w.block);
    VC_TRY(see_model(&w, model->made_of != NULL ? model->made_of : model));
out:
    vc_free(ctx, w.block);
    return status != VC_OK ? vc_context(ctx, "%s", model->path) : VC_OK;
}
