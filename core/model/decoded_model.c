/* decoded_model.c - see decoded_model.h. Readers go back and forth between a few tensors, so the decoders of the last
 * ones are kept: each has the scales of its tensor in memory. */
#include "core/model/decoded_model.h"

#define N_OPEN 4

struct slot {
    struct vc_range_decoder *decoder; /* NULL: empty */
    size_t tensor;
    unsigned users;
    uint64_t used; /* when it was asked for last */
};

struct decoded {
    struct vc_model *base;
    const struct vc_range_decoding *how;
    size_t *of; /* the base's tensor of each */
    pthread_mutex_t mutex;
    uint64_t clock;
    struct slot slots[N_OPEN];
};

/* The slot of the tensor, or the one to be used for it: the oldest that nobody reads. NULL: all are read from. */
static struct slot *find_slot(struct decoded *self, size_t tensor)
{
    struct slot *best = NULL;

    for (size_t i = 0; i < N_OPEN; i++) {
        struct slot *slot = &self->slots[i];

        if (slot->decoder != NULL && slot->tensor == tensor) {
            return slot;
        }
        if (slot->users == 0 && (best == NULL || slot->used < best->used)) {
            best = slot;
        }
    }
    return best;
}

/* With the mutex held. *slot NULL: the decoder is the caller's alone. */
static enum vc_status take(struct vc_ctx *ctx, struct decoded *self, size_t tensor, struct slot **slot,
                           struct vc_range_decoder **decoder)
{
    *slot = find_slot(self, tensor);
    if (*slot == NULL) {
        return self->how->open(ctx, self->how, self->base, tensor, decoder);
    }
    if ((*slot)->decoder == NULL || (*slot)->tensor != tensor) {
        self->how->close(ctx, (*slot)->decoder);
        (*slot)->decoder = NULL;
        VC_CALL(self->how->open(ctx, self->how, self->base, tensor, &(*slot)->decoder));
        (*slot)->tensor = tensor;
    }
    (*slot)->used = ++self->clock;
    (*slot)->users++;
    *decoder = (*slot)->decoder;
    return VC_OK;
}

static enum vc_status read_decoded(struct vc_ctx *ctx, struct decoded *self, size_t tensor, uint64_t first, uint64_t n,
                                   void *dst)
{
    struct vc_range_decoder *decoder = NULL;
    struct slot *slot = NULL;

    (void)pthread_mutex_lock(&self->mutex);
    enum vc_status status = take(ctx, self, tensor, &slot, &decoder);
    (void)pthread_mutex_unlock(&self->mutex);
    VC_CALL(status);
    status = self->how->read(ctx, decoder, first, n, dst);
    if (slot == NULL) {
        self->how->close(ctx, decoder);
        return status;
    }
    (void)pthread_mutex_lock(&self->mutex);
    slot->users--;
    (void)pthread_mutex_unlock(&self->mutex);
    return status;
}

/* vc_source_ops.read */
static enum vc_status decoded_read(struct vc_ctx *ctx, const struct vc_model *model, size_t tensor, enum vc_form form,
                                   uint64_t offset, void *dst, size_t n_bytes, struct vc_check *check)
{
    struct decoded *self = model->self;
    size_t of = self->of[tensor];

    size_t size = vc_dtype_size(model->tensors[tensor].dtype);

    /* both forms are the values */
    if (!self->how->takes(self->how, self->base, of)) {
        return vc_source_read_any(ctx, self->base, of, VC_FORM_VALUES, offset, dst, n_bytes);
    }
    VC_REFUSE_IF(offset % size != 0 || n_bytes % size != 0, ctx, VC_E_INTERNAL, "%s: a read of parts of elements",
                 model->tensors[tensor].name);
    return read_decoded(ctx, self, of, offset / size, n_bytes / size, dst);
}

/* vc_source_ops.close */
static void decoded_close(struct vc_model *model)
{
    struct vc_ctx *ctx = model->ctx;
    struct decoded *self = model->self;

    for (size_t i = 0; i < N_OPEN; i++) {
        self->how->close(ctx, self->slots[i].decoder);
    }
    (void)pthread_mutex_destroy(&self->mutex);
    if (self->how->release != NULL) {
        self->how->release(ctx, self->how);
    }
    vc_model_close(self->base);
    VC_FREE_ALL(ctx, self->of, self, model->tensors, model->io);
}

static const struct vc_source_ops decoded_ops = {.read = decoded_read, .close = decoded_close};

/* The folder is the base's. */
static void keep_folder(struct vc_ctx *ctx, struct vc_infolder *folder)
{
}

static enum vc_status take_facts(struct vc_ctx *ctx, const struct vc_model *base, struct vc_model *model)
{
    for (size_t i = 0; i < base->n_facts; i++) {
        VC_CALL(vc_model_add_fact(ctx, model, base->facts[i].key, "%s", base->facts[i].value));
    }
    return VC_OK;
}

static enum vc_status list_tensors(struct vc_ctx *ctx, const struct vc_model *base, struct decoded *self,
                                   struct vc_model *model)
{
    VC_CALL(VC_ZEROS(ctx, VC_TAG_NAMES, model->tensors, base->n_tensors));
    VC_CALL(VC_ZEROS(ctx, VC_TAG_NAMES, model->io, base->n_tensors));
    VC_CALL(VC_ZEROS(ctx, VC_TAG_NAMES, self->of, base->n_tensors));
    for (size_t i = 0; i < base->n_tensors; i++) {
        struct vc_tensor *t = &model->tensors[model->n_tensors];

        VC_REFUSE_IF(base->tensors[i].undecoded != NULL, ctx, VC_E_UNSUPPORTED, "%s: %s", base->tensors[i].name,
                     base->tensors[i].undecoded);
        if (base->tensors[i].part_of != VC_NO_TENSOR) {
            continue;
        }
        *t = base->tensors[i];
        t->alias_of = VC_NO_TENSOR;
        if (!self->how->keeps_type && self->how->takes(self->how, base, i)) {
            t->quant = NULL;
            t->dtype = VC_DTYPE_F32;
            t->size_bytes = vc_dtype_bytes(VC_DTYPE_F32, t->n_elems);
            t->file_bytes = t->size_bytes;
        }
        model->io[model->n_tensors] = (struct vc_tensor_io){.raw_bytes = t->size_bytes, .shard = base->io[i].shard};
        self->of[model->n_tensors++] = i;
    }
    return vc_model_index_names(ctx, model);
}

static bool has_any(const struct vc_range_decoding *how, const struct vc_model *model)
{
    size_t i = 0;

    while (i < model->n_tensors && !how->takes(how, model, i) && model->tensors[i].undecoded == NULL) {
        i++;
    }
    return i < model->n_tensors;
}

static enum vc_status make(struct vc_ctx *ctx, const struct vc_range_decoding *how, struct vc_model *base,
                           struct vc_model **out)
{
    struct vc_model *model = vc_calloc_array(ctx, VC_TAG_NAMES, 1, sizeof *model);
    struct decoded *self = model != NULL ? vc_calloc_array(ctx, VC_TAG_NAMES, 1, sizeof *self) : NULL;

    if (self == NULL || pthread_mutex_init(&self->mutex, NULL) != 0) {
        VC_FREE_ALL(ctx, self, model);
        return vc_fail(ctx, VC_E_NOMEM, "not enough memory for the decoded model");
    }
    *self = (struct decoded){.base = base, .how = how, .mutex = self->mutex};
    *model = (struct vc_model){.ctx = ctx,
                               .ops = &decoded_ops,
                               .self = self,
                               .format_name = base->format_name,
                               .file_bytes = base->file_bytes,
                               .input = base->input,
                               .n_inputs = base->n_inputs,
                               .inputs = base->inputs,
                               .n_shards = base->n_shards,
                               .folder = base->folder,
                               .close_folder = keep_folder,
                               .family = base->family,
                               .conv1d = base->conv1d,
                               .merged = how->keeps_type || base->merged,
                               .expect = base->expect};
    *out = model; /* from here on vc_model_close frees everything, the base too */
    VC_CALL_ALLOC(model->path = vc_strdup(ctx, VC_TAG_NAMES, base->path));
    VC_CALL(take_facts(ctx, base, model));
    return list_tensors(ctx, base, self, model);
}

enum vc_status vc_decoded_model_make(struct vc_ctx *ctx, const struct vc_range_decoding *how, struct vc_model **model)
{
    struct vc_model *base = *model;

    return has_any(how, base) ? make(ctx, how, base, model) : VC_OK;
}
