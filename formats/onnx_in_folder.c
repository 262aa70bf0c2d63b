/* onnx_in_folder.c - see onnx_in_folder.h. The writer of ONNX writes its two files into a folder, and this sink the rest:
 *
 *     OUT/model.onnx, OUT/model.onnx.data         formats/onnx
 *     OUT/config.json, OUT/tokenizer.json, ...    copies, as beside weights of safetensors
 *     OUT/genai_config.json                       for onnxruntime-genai
 *
 * Operations on tensors are those of the inner sink; the folder appears whole or not at all. */
#include "formats/onnx_in_folder.h"

#include "formats/huggingface/hf_carry.h"
#include "formats/huggingface/hf_genai.h"
#include "formats/onnx/onnx.h"

#define MODEL_NAME "model.onnx"

struct folder_sink {
    const struct vc_model *model;
    struct vc_sink *inner;
    struct vc_outfolder *folder; /* NULL: sizes only */
    struct vc_hf_carry carry;
    struct vc_text genai; /* empty: it has no cache */
};

/* The folder's own files that this run makes take the place of older ones, which do not go along. */
static enum vc_status plan_files(struct vc_ctx *ctx, struct folder_sink *self)
{
    const struct onnx_made *made = vc_onnx_made_of(self->model);
    const struct onnx_cache *cache = &made->cache;
    struct vc_infolder *from = made->source->folder;
    const struct vc_hf_genai sizes = {.file = MODEL_NAME,
                                      .n_layers = cache->n_layers,
                                      .n_heads = cache->n_heads,
                                      .n_kv_heads = cache->n_kv_heads,
                                      .head_size = cache->head_size,
                                      .vocabulary = cache->vocabulary};

    for (size_t i = 0; i < vc_infolder_carried_count(from); i++) {
        const char *name = vc_infolder_carried(from, i)->name;

        VC_REFUSE_IF(strcmp(name, VC_HF_GENAI_NAME) == 0 || strcmp(name, MODEL_NAME) == 0, ctx, VC_E_UNSUPPORTED,
                     "%s: the folder has such a file already, which the output would have twice", name);
    }
    VC_CALL(vc_hf_carry_plan(ctx, from, NULL, &self->carry));
    return cache->n_layers == 0 ? VC_OK : vc_hf_genai_write(ctx, vc_infolder_path(from), &sizes, &self->genai);
}

static enum vc_status folder_layout(struct vc_ctx *ctx, struct vc_sink *sink, const struct vc_out_list *outs,
                                    uint64_t *file_bytes)
{
    struct folder_sink *self = sink->self;
    uint64_t all = 0;

    VC_CALL(self->inner->ops->layout(ctx, self->inner, outs, file_bytes));
    VC_CALL(plan_files(ctx, self));
    sink->note = self->inner->note != NULL ? self->inner->note : self->carry.note;
    sink->memory_bytes = self->inner->memory_bytes;
    sink->loader = self->inner->loader;
    if (self->folder == NULL) {
        return VC_OK;
    }
    VC_CALL(vc_hf_carry_expect(ctx, self->carry.from, self->folder));
    if (self->genai.n != 0) {
        VC_CALL(vc_outfolder_expect(ctx, self->folder, VC_HF_GENAI_NAME));
    }
    VC_CALL(vc_outfolder_check_old(ctx, self->folder));
    return vc_outfolder_need(ctx, self->folder, vc_add_u64(*file_bytes, self->carry.n_bytes, &all) ? all : UINT64_MAX);
}

static enum vc_status folder_begin(struct vc_ctx *ctx, struct vc_sink *sink)
{
    struct folder_sink *self = sink->self;

    vc_outfolder_sweep(self->folder);
    return self->inner->ops->begin(ctx, self->inner);
}

static enum vc_status folder_emit(struct vc_ctx *ctx, struct vc_sink *sink, const struct vc_packet *packet)
{
    struct folder_sink *self = sink->self;

    return self->inner->ops->emit(ctx, self->inner, packet);
}

static enum vc_status folder_finish(struct vc_ctx *ctx, struct vc_sink *sink, uint64_t *file_bytes)
{
    struct folder_sink *self = sink->self;

    VC_CALL(self->inner->ops->finish(ctx, self->inner, file_bytes));
    if (self->folder == NULL) {
        return VC_OK;
    }
    VC_CALL(vc_hf_carry_write(ctx, &self->carry, self->folder));
    return self->genai.n == 0 ? VC_OK
                              : vc_hf_write_text(ctx, self->folder, VC_HF_GENAI_NAME, self->genai.data, self->genai.n);
}

static enum vc_status folder_commit(struct vc_ctx *ctx, struct vc_sink *sink)
{
    struct folder_sink *self = sink->self;

    return vc_output_commit(ctx, self->folder, NULL, &sink->late_note);
}

static void folder_interrupt(struct vc_sink *sink)
{
    const struct folder_sink *self = sink->self;

    vc_sink_interrupt(self->inner);
}

/* The inner sink first: its files are the folder's. */
static void folder_free(struct vc_ctx *ctx, struct vc_sink *sink)
{
    struct folder_sink *self = sink->self;

    if (self->inner != NULL) {
        self->inner->ops->free(ctx, self->inner);
    }
    vc_outfolder_free(ctx, self->folder);
    vc_hf_carry_release(ctx, &self->carry);
    vc_text_release(&self->genai);
    VC_FREE_ALL(ctx, self, sink);
}

static const struct vc_sink *folder_of_tensor(const struct vc_sink *sink, size_t tensor)
{
    const struct folder_sink *self = sink->self;

    return self->inner->ops->of_tensor(self->inner, tensor);
}

static bool folder_can_hold(const struct vc_sink *sink, enum vc_dtype dtype)
{
    const struct folder_sink *self = sink->self;

    return self->inner->ops->can_hold(self->inner, dtype);
}

static const struct vc_sink_ops folder_ops = {.layout = folder_layout,
                                              .begin = folder_begin,
                                              .emit = folder_emit,
                                              .finish = folder_finish,
                                              .commit = folder_commit,
                                              .interrupt = folder_interrupt,
                                              .free = folder_free,
                                              .of_tensor = folder_of_tensor,
                                              .can_hold = folder_can_hold};

enum vc_status vc_onnx_folder_sink_create(struct vc_ctx *ctx, const struct vc_model *model,
                                          const struct vc_write_options *options, struct vc_sink **out)
{
    struct folder_sink *self = NULL;
    struct vc_sink *sink = NULL;
    enum vc_status status = VC_OK;

    *out = NULL;
    VC_TRY(VC_ZEROS(ctx, VC_TAG_IO, sink, 1));
    VC_TRY(VC_ZEROS(ctx, VC_TAG_IO, self, 1));
    vc_text_init(&self->carry.config, ctx);
    vc_text_init(&self->genai, ctx);
    *sink = (struct vc_sink){.ops = &folder_ops, .self = self, .format = VC_FORMAT_ONNX};
    self->model = model;
    if (options->path != NULL && !options->dry_run) {
        VC_TRY(vc_outfolder_create(ctx, options->path, vc_outfolder_force_of(options), false, model, &self->folder));
    }
    VC_TRY(vc_onnx_sink_create_in(ctx, model, options, self->folder, MODEL_NAME, &self->inner));
    sink->dialect = self->inner->dialect;
    sink->accepts_raw = self->inner->accepts_raw;
    sink->memory_bytes = self->inner->memory_bytes;
    *out = sink;
    return VC_OK;
out:
    if (self != NULL) {
        folder_free(ctx, sink);
    } else {
        vc_free(ctx, sink);
    }
    return status;
}
