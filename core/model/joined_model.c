/* joined_model.c - see joined_model.h. */
#include "core/model/joined_model.h"

struct joined {
    size_t n;
    struct vc_model **parts; /* NULL: lost */
    size_t *first;           /* by part: index of its first tensor */
    struct vc_refused *refused;
    const char *const *names; /* of the parts; NULL: tensors keep their names */
    struct vc_component *components;
};

/* ---- reading ---- */

/* The part that the tensor comes from; *tensor becomes its index there. */
static const struct vc_model *part_of(const struct vc_model *model, size_t *tensor)
{
    const struct joined *self = model->self;
    unsigned part = model->io[*tensor].shard;

    *tensor -= self->first[part];
    return self->parts[part];
}

static enum vc_status joined_read(struct vc_ctx *ctx, const struct vc_model *model, size_t tensor, enum vc_form form,
                                  uint64_t offset, void *dst, size_t n_bytes, struct vc_check *check)
{
    const struct vc_model *part = part_of(model, &tensor);

    return part->ops->read(ctx, part, tensor, form, offset, dst, n_bytes, check);
}

static size_t joined_stream_bytes(const struct vc_model *model, size_t tensor)
{
    const struct vc_model *part = part_of(model, &tensor);

    return part->ops->stream_bytes != NULL ? part->ops->stream_bytes(part, tensor) : 0;
}

static enum vc_status joined_check_rest(struct vc_ctx *ctx, const struct vc_model *model)
{
    const struct joined *self = model->self;

    for (size_t i = 0; i < self->n; i++) {
        if (self->parts[i] != NULL && self->parts[i]->ops->check_rest != NULL) {
            VC_CALL(self->parts[i]->ops->check_rest(ctx, self->parts[i]));
        }
    }
    return VC_OK;
}

/* The first part that has something to say, with its name: there is room for one line. */
static void joined_late_note(const struct vc_model *model, char *buffer, size_t n)
{
    const struct joined *self = model->self;

    buffer[0] = '\0';
    for (size_t i = 0; i < self->n && buffer[0] == '\0'; i++) {
        if (self->parts[i] != NULL && self->parts[i]->ops->late_note != NULL) {
            self->parts[i]->ops->late_note(self->parts[i], buffer, n);
        }
    }
}

static void joined_close(struct vc_model *model)
{
    struct vc_ctx *ctx = model->ctx;
    struct joined *self = model->self;

    for (size_t i = 0; i < self->n; i++) {
        vc_model_close(self->parts[i]);
    }
    VC_FREE_ALL(ctx, self->parts, self->first, self->refused, self->components, self, model->tensors, model->io,
                model->inputs);
}

static const struct vc_source_ops joined_ops = {.read = joined_read,
                                                .stream_bytes = joined_stream_bytes,
                                                .close = joined_close,
                                                .check_rest = joined_check_rest,
                                                .late_note = joined_late_note};

/* ---- making ---- */

/* How many of each kind the parts have together. */
struct counts {
    size_t tensors, quants, refused, inputs;
};

static struct counts count(const struct joined *self)
{
    struct counts c = {0, 0, 0, 0};

    for (size_t i = 0; i < self->n; i++) {
        const struct vc_model *part = self->parts[i];

        self->first[i] = c.tensors;
        for (size_t k = 0; part != NULL && k < part->n_tensors; k++) {
            c.quants += part->tensors[k].quant != NULL;
        }
        c.tensors += part != NULL ? part->n_tensors : 0;
        c.refused += part != NULL ? part->n_refused : 0;
        c.inputs += part != NULL ? part->n_inputs + (part->input != NULL) : 0;
    }
    return c;
}

/* The tensors of one part, with indices of the joined model. */
static void take_tensors(const struct joined *self, size_t index, struct vc_model *model, struct vc_quant **quants)
{
    const struct vc_model *part = self->parts[index];
    size_t first = self->first[index];

    for (size_t i = 0; i < part->n_tensors; i++) {
        struct vc_tensor *t = &model->tensors[first + i];

        *t = part->tensors[i];
        t->part_of += t->part_of != VC_NO_TENSOR ? first : 0;
        t->alias_of += t->alias_of != VC_NO_TENSOR ? first : 0;
        if (t->quant != NULL) {
            **quants = *t->quant;
            for (unsigned k = 0; k < (*quants)->n_parts; k++) {
                (*quants)->parts[k].tensor += first;
            }
            t->quant = (*quants)++;
        }
        model->io[first + i] = part->io[i];
        model->io[first + i].shard = (unsigned)index;
    }
}

/* "unet/conv.weight", in the joined model's arena. */
static const char *with_name(struct vc_ctx *ctx, struct vc_model *model, const char *part, const char *name)
{
    return vc_arena_printf(ctx, &model->arena, "%s/%s", part, name);
}

/* The tensors of a part that has a name are called by it. */
static enum vc_status name_tensors(struct vc_ctx *ctx, const struct joined *self, size_t index, struct vc_model *model)
{
    const struct vc_model *part = self->parts[index];
    struct vc_tensor *tensors = model->tensors + self->first[index];

    for (size_t i = 0; self->names != NULL && i < part->n_tensors; i++) {
        VC_CALL_ALLOC(tensors[i].name = with_name(ctx, model, self->names[index], part->tensors[i].name));
    }
    for (size_t i = 0; self->names != NULL && i < part->n_refused; i++) {
        struct vc_refused *refused = &self->refused[model->n_refused - part->n_refused + i];

        VC_CALL_ALLOC(refused->name = with_name(ctx, model, self->names[index], refused->name));
    }
    return VC_OK;
}

/* Of a part that has a name: what it notes, the rest is about it alone. Else the facts of all parts, each of them once.
 */
static enum vc_status take_facts(struct vc_ctx *ctx, const struct vc_model *part, const char *name,
                                 struct vc_model *model)
{
    size_t k;

    for (size_t i = 0; name != NULL && i < part->n_facts; i++) {
        if (strcmp(part->facts[i].key, VC_FACT_NOTE) == 0) {
            VC_CALL(vc_model_add_fact(ctx, model, VC_FACT_NOTE, "%s: %s", name, part->facts[i].value));
        }
    }
    if (name != NULL) {
        return VC_OK;
    }
    for (size_t i = 0; i < part->n_facts; i++) {
        for (k = 0; k < model->n_facts && (strcmp(model->facts[k].key, part->facts[i].key) != 0 ||
                                           strcmp(model->facts[k].value, part->facts[i].value) != 0);
             k++) {
        }
        if (k == model->n_facts) {
            VC_CALL(vc_model_add_fact(ctx, model, part->facts[i].key, "%s", part->facts[i].value));
        }
    }
    return VC_OK;
}

static enum vc_status take_part(struct vc_ctx *ctx, struct joined *self, size_t index, struct vc_model *model,
                                struct vc_quant **quants)
{
    const struct vc_model *part = self->parts[index];
    const char *name = self->names != NULL ? self->names[index] : NULL;

    take_tensors(self, index, model, quants);
    for (size_t i = 0; i < part->n_refused; i++) {
        self->refused[model->n_refused++] = part->refused[i];
    }
    for (size_t i = 0; i < part->n_inputs; i++) {
        model->inputs[model->n_inputs++] = part->inputs[i];
    }
    if (part->input != NULL) {
        model->inputs[model->n_inputs++] = part->input;
    }
    model->file_bytes += part->file_bytes;
    model->unlisted_bytes += part->unlisted_bytes;
    model->unlisted = model->unlisted != NULL ? model->unlisted : part->unlisted;
    if (self->n == 1 && name == NULL) { /* of several, nobody would know which is meant */
        model->parts = part->parts;
        model->n_parts = part->n_parts;
    }
    VC_CALL(name_tensors(ctx, self, index, model));
    return take_facts(ctx, part, name, model);
}

/* What the joined model says of the models it is made of. Those that are lost are left out. */
static enum vc_status list_components(struct vc_ctx *ctx, struct joined *self, struct vc_model *model)
{
    VC_CALL(VC_ZEROS(ctx, VC_TAG_NAMES, self->components, self->n));
    model->components = self->components;
    for (size_t i = 0; i < self->n; i++) {
        if (self->parts[i] != NULL) {
            const char *name = vc_arena_printf(ctx, &model->arena, "%s", self->names[i]);

            VC_CALL_ALLOC(name);
            self->components[model->n_components++] = (struct vc_component){name, self->parts[i], self->first[i]};
        }
    }
    return VC_OK;
}

enum vc_status vc_joined_model_make(struct vc_ctx *ctx, struct vc_model **parts, size_t n, const char *const *names,
                                    struct vc_model *model)
{
    struct joined *self = vc_calloc_array(ctx, VC_TAG_NAMES, 1, sizeof *self);
    struct vc_quant *quants;
    enum vc_status status = VC_OK;

    if (self == NULL) {
        for (size_t i = 0; i < n; i++) {
            vc_model_close(parts[i]);
        }
        vc_free(ctx, parts);
        return VC_E_NOMEM;
    }
    self->n = n;
    self->parts = parts;
    self->names = names;
    model->self = self;
    model->ops = &joined_ops; /* from here on vc_model_close frees everything */
    VC_TRY(VC_ZEROS(ctx, VC_TAG_NAMES, self->first, n));
    struct counts c = count(self);
    VC_TRY(VC_ZEROS(ctx, VC_TAG_NAMES, model->tensors, c.tensors));
    VC_TRY(VC_ZEROS(ctx, VC_TAG_NAMES, model->io, c.tensors));
    VC_TRY(VC_ZEROS(ctx, VC_TAG_NAMES, model->quants, c.quants));
    VC_TRY(VC_ZEROS(ctx, VC_TAG_NAMES, self->refused, c.refused));
    VC_TRY(VC_ZEROS(ctx, VC_TAG_NAMES, model->inputs, c.inputs));
    quants = model->quants;
    model->refused = self->refused;
    model->n_shards = n;
    for (size_t i = 0; i < n; i++) {
        if (self->parts[i] != NULL) {
            VC_TRY(take_part(ctx, self, i, model, &quants));
        }
    }
    model->n_tensors = c.tensors;
    if (names != NULL) {
        VC_TRY(list_components(ctx, self, model));
    }
    VC_TRY(vc_model_index_names(ctx, model));
out:
    self->names = NULL; /* the caller's */
    return status;
}
