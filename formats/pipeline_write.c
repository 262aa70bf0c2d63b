/* pipeline_write.c - the sink of pipelines: a writer of safetensors for each component, all of them in one folder that
 * appears whole or not at all.
 *
 *     the job's outputs      unet/a   unet/a.scale   vae/b
 *     writer of unet         a        a.scale                  OUT/unet/
 *     writer of vae                                  b         OUT/vae/
 *     this sink                                                OUT/model_index.json, OUT/scheduler/, ...
 *
 * Each writer chooses its layout for its own loader. A component whose loader takes no int8 in any layout keeps its
 * weights, and the report says so; where that is so of all of them, new codes are refused as for a single model.
 *
 * Each function of vc_sink_ops hands its work to the parts: an output of the job belongs to the part
 * `division.list_of[out]`, where its number is `division.place[out]`. Names and source numbers of a part's outputs are
 * those of its component. */

#include "core/run/out_division.h"
#include "formats/huggingface/hf_carry.h"
#include "formats/pipeline.h"
#include "formats/safetensors/safetensors.h"

/* A component as it is written. */
struct part {
    struct vc_sink *sink;
    const char *refusal; /* why it keeps its weights where others get codes; NULL: it does not */
};

struct pipeline_sink {
    struct vc_arena arena;
    const struct vc_model *model;
    size_t n;
    struct part *parts;          /* by component */
    struct vc_outfolder *folder; /* NULL: sizes only */
    struct vc_hf_carry carry;
    struct vc_out_division division; /* of the job's outputs between the parts */
};

/* ---- components whose loader takes no codes ---- */

static const char *reason_of_none(const struct vc_dialect_request *request, const struct vc_dialect_tensor *tensor)
{
    return "its loader takes no int8";
}

/* The plain row, but that no tensor gets codes. Those that are there already are copied. */
static const struct vc_dialect no_codes = {.name = "plain", .takes_codes = true, .reason = reason_of_none};

/* Why the component's loader takes no new codes; NULL: it does, or it was told otherwise. */
static const char *find_refusal(const struct vc_model *model, const struct vc_sink *sink, bool asked)
{
    const struct vc_dialect_file *file = sink->dialect->file;

    return sink->refusal != NULL || asked || file == NULL ? sink->refusal
                                                          : vc_family_refused(model->family, file->loads);
}

/* Gives the row no_codes to each component whose loader takes no codes, if at least one other takes some. Components
 * without tensors do not count. */
static void keep_refused(struct pipeline_sink *self, bool asked)
{
    size_t n_taking = 0;

    for (size_t i = 0; i < self->n; i++) {
        const struct vc_model *model = self->model->components[i].model;

        self->parts[i].refusal = find_refusal(model, self->parts[i].sink, asked);
        n_taking += model->n_tensors != 0 && self->parts[i].refusal == NULL;
    }
    for (size_t i = 0; i < self->n; i++) {
        struct part *part = &self->parts[i];

        if (n_taking == 0) {
            part->refusal = NULL; /* the writer, or its layout, refuses new codes */
        } else if (part->refusal != NULL) {
            part->sink->dialect = &no_codes;
            part->sink->refusal = NULL;
        }
    }
}

/* ---- layout ---- */

/* Codes that this job makes; copied ones are `kept`. */
static bool is_new_codes(struct vc_out_tensor out)
{
    return out.quant != NULL && !out.kept;
}

/* "unet/a" of source 17 becomes "a" of source 17 - (the first of unet). Each component gets its share of the stages:
 * passes are planned for all of them alike. */
static enum vc_status divide(struct vc_ctx *ctx, struct pipeline_sink *self, const struct vc_out_list *outs)
{
    size_t *list_of = vc_arena_alloc(ctx, &self->arena, (outs->n + 1) * sizeof *list_of);

    VC_CALL_ALLOC(list_of);
    for (size_t i = 0; i < outs->n; i++) {
        list_of[i] = (size_t)(vc_model_component(self->model, vc_out_at(outs, i).source) - self->model->components);
    }
    VC_CALL(vc_out_divide(ctx, &self->arena, outs, self->n, list_of, &self->division));
    for (size_t i = 0; i < self->n; i++) {
        const struct vc_component *c = &self->model->components[i];
        struct vc_out_list *list = &self->division.lists[i];

        for (size_t k = 0; k < list->n; k++) {
            struct vc_out_tensor *out = &self->division.tensors[i][k];

            out->name += strlen(c->name) + 1;
            out->source -= c->first;
        }
        list->n_stages = outs->n_stages / self->n;
        list->stages = outs->stages + i * list->n_stages;
        if (list->n_recipe == 0) { /* no pass: what the component says of itself */
            list->n_recipe = c->model->n_recipe;
            list->recipe = c->model->recipe;
        }
    }
    return VC_OK;
}

/* Appends a sentence to the notes; the name of a component may stand before it. */
static enum vc_status add_note(struct vc_ctx *ctx, struct pipeline_sink *self, const char *name, const char *note,
                               const char **notes)
{
    const char *before = *notes != NULL ? *notes : "";
    const char *between = *notes != NULL ? "; " : "";

    if (note == NULL) {
        return VC_OK;
    }
    if (name != NULL) {
        *notes = vc_arena_printf(ctx, &self->arena, "%s%s%s: %s", before, between, name, note);
    } else {
        *notes = vc_arena_printf(ctx, &self->arena, "%s%s%s", before, between, note);
    }
    return *notes != NULL ? VC_OK : VC_E_NOMEM;
}

/* "unet, vae: no int8 (diffusers loads none)", one sentence for each reason, where others get codes. */
static enum vc_status note_refused(struct vc_ctx *ctx, struct pipeline_sink *self, const char **notes)
{
    size_t k;

    for (size_t i = 0; i < self->n; i++) {
        const char *why = self->parts[i].refusal;
        const char *names = self->model->components[i].name;

        if (why == NULL) {
            continue;
        }
        for (k = 0; k < i && (self->parts[k].refusal == NULL || strcmp(self->parts[k].refusal, why) != 0); k++) {
        }
        if (k < i) {
            continue; /* named with the first of these */
        }
        for (k = i + 1; k < self->n; k++) {
            if (self->parts[k].refusal != NULL && strcmp(self->parts[k].refusal, why) == 0) {
                names = vc_arena_printf(ctx, &self->arena, "%s, %s", names, self->model->components[k].name);
                VC_CALL_ALLOC(names);
            }
        }
        VC_CALL_ALLOC(names = vc_arena_printf(ctx, &self->arena, "%s: no int8 (%s)", names, why));
        VC_CALL(add_note(ctx, self, NULL, names, notes));
    }
    return VC_OK;
}

/* What the report says of all components together: notes, and what loads those with codes. */
static enum vc_status sum_up(struct vc_ctx *ctx, struct vc_sink *sink)
{
    struct pipeline_sink *self = sink->self;
    struct vc_pipeline_codes *codes = vc_arena_alloc(ctx, &self->arena, (self->n + 1) * sizeof *codes);
    bool made = false;
    size_t n = 0;

    VC_CALL_ALLOC(codes);
    for (size_t i = 0; i < self->n; i++) {
        const struct vc_out_list *list = &self->division.lists[i];
        const struct vc_sink *own = self->parts[i].sink;
        bool any = false;

        for (size_t k = 0; k < list->n; k++) {
            any = any || vc_out_at(list, k).quant != NULL;
            made = made || is_new_codes(vc_out_at(list, k));
        }
        if (any) {
            codes[n++] = (struct vc_pipeline_codes){self->model->components[i].name, own->dialect, &own->loader};
        }
        VC_CALL(add_note(ctx, self, self->model->components[i].name, own->note, &sink->note));
    }
    if (made) {
        VC_CALL(note_refused(ctx, self, &sink->note));
    }
    VC_CALL(add_note(ctx, self, NULL, self->carry.note, &sink->note));
    return n != 0 ? vc_pipeline_layout(ctx, &self->arena, codes, n, &sink->dialect, &sink->loader) : VC_OK;
}

/* Layout of every part, then what the folder needs: names that will be in it, older files, room on the disk. A sum that
 * overflows asks for more than there is. */
static enum vc_status pipeline_layout(struct vc_ctx *ctx, struct vc_sink *sink, const struct vc_out_list *outs,
                                      uint64_t *file_bytes)
{
    struct pipeline_sink *self = sink->self;
    uint64_t own = 0;
    enum vc_status status = VC_OK;

    *file_bytes = 0;
    VC_REFUSE_IF(outs->n_edits != 0, ctx, VC_E_UNSUPPORTED,
                 "sizes of a model change, and a pipeline has several; give their folders "
                 "one by one");
    VC_CALL(divide(ctx, self, outs));
    for (size_t i = 0; i < self->n; i++) {
        struct vc_sink *part = self->parts[i].sink;

        status = part->ops->layout(ctx, part, &self->division.lists[i], &own);
        if (status != VC_OK) {
            return vc_context(ctx, "%s", self->model->components[i].name);
        }
        *file_bytes += own;
    }
    VC_CALL(vc_hf_carry_plan(ctx, self->model->folder, NULL, &self->carry));
    if (self->folder != NULL) {
        VC_CALL(vc_hf_carry_expect(ctx, self->carry.from, self->folder));
        VC_CALL(vc_outfolder_check_old(ctx, self->folder));
        VC_CALL(vc_outfolder_need(ctx, self->folder,
                                  vc_add_u64(*file_bytes, self->carry.n_bytes, &own) ? own : UINT64_MAX));
    }
    return sum_up(ctx, sink);
}

/* ---- writing ---- */

/* Sweeps before the first file has a temporary name. */
static enum vc_status pipeline_begin(struct vc_ctx *ctx, struct vc_sink *sink)
{
    struct pipeline_sink *self = sink->self;

    vc_outfolder_sweep(self->folder);
    for (size_t i = 0; i < self->n; i++) {
        VC_CALL(self->parts[i].sink->ops->begin(ctx, self->parts[i].sink));
    }
    return VC_OK;
}

/* The largest of all parts: one buffer serves any tile. */
static size_t pipeline_pack_bound(const struct vc_sink *sink, size_t n_bytes)
{
    const struct pipeline_sink *self = sink->self;
    size_t most = 0;

    for (size_t i = 0; i < self->n; i++) {
        size_t own = vc_sink_pack_bound(self->parts[i].sink, n_bytes);

        most = own > most ? own : most;
    }
    return most;
}

static struct vc_sink *part_of(const struct pipeline_sink *self, size_t out)
{
    return self->parts[self->division.list_of[out]].sink;
}

/* The part packs under its own number; the packet keeps the job's. */
static enum vc_status pipeline_pack(struct vc_ctx *ctx, struct vc_sink *sink, struct vc_packet *packet)
{
    const struct pipeline_sink *self = sink->self;
    size_t out = packet->out;
    enum vc_status status = vc_sink_pack(ctx, part_of(self, out), self->division.place[out], packet->offset,
                                         packet->data, packet->n_bytes, packet);

    packet->out = out;
    return status;
}

static enum vc_status pipeline_emit(struct vc_ctx *ctx, struct vc_sink *sink, const struct vc_packet *packet)
{
    const struct pipeline_sink *self = sink->self;
    struct vc_sink *part = part_of(self, packet->out);
    struct vc_packet own = *packet;

    own.out = self->division.place[packet->out];
    return part->ops->emit(ctx, part, &own);
}

/* Weights are complete; small files follow. */
static enum vc_status pipeline_finish(struct vc_ctx *ctx, struct vc_sink *sink, uint64_t *file_bytes)
{
    struct pipeline_sink *self = sink->self;
    uint64_t own = 0;

    *file_bytes = 0;
    for (size_t i = 0; i < self->n; i++) {
        VC_CALL(self->parts[i].sink->ops->finish(ctx, self->parts[i].sink, &own));
        *file_bytes += own;
    }
    return self->folder != NULL ? vc_hf_carry_write(ctx, &self->carry, self->folder) : VC_OK;
}

/* Parts have no commit of their own: the one folder appears with all of them. */
static enum vc_status pipeline_commit(struct vc_ctx *ctx, struct vc_sink *sink)
{
    struct pipeline_sink *self = sink->self;

    return vc_output_commit(ctx, self->folder, NULL, &sink->late_note);
}

static void pipeline_interrupt(struct vc_sink *sink)
{
    const struct pipeline_sink *self = sink->self;

    for (size_t i = 0; i < self->n; i++) {
        vc_sink_interrupt(self->parts[i].sink);
    }
}

/* Parts first, whose outfolders are parts of this one. Also for a sink that was made in part. */
static void pipeline_free(struct vc_ctx *ctx, struct vc_sink *sink)
{
    struct pipeline_sink *self = sink->self;

    for (size_t i = 0; self->parts != NULL && i < self->n; i++) {
        if (self->parts[i].sink != NULL) {
            self->parts[i].sink->ops->free(ctx, self->parts[i].sink);
        }
    }
    vc_free(ctx, self->parts);
    vc_outfolder_free(ctx, self->folder);
    vc_hf_carry_release(ctx, &self->carry);
    vc_arena_release(ctx, &self->arena);
    VC_FREE_ALL(ctx, self, sink);
}

/* The sink that decides about a tensor of the source: its component's. */
static const struct vc_sink *pipeline_of_tensor(const struct vc_sink *sink, size_t tensor)
{
    const struct pipeline_sink *self = sink->self;

    return self->parts[vc_model_component(self->model, tensor) - self->model->components].sink;
}

/* All parts are safetensors: the first answers for all. A pipeline without components is refused when it is opened. */
static bool pipeline_can_hold(const struct vc_sink *sink, enum vc_dtype dtype)
{
    const struct pipeline_sink *self = sink->self;

    return self->parts[0].sink->ops->can_hold(self->parts[0].sink, dtype);
}

static const struct vc_sink_ops pipeline_ops = {.layout = pipeline_layout,
                                                .begin = pipeline_begin,
                                                .pack_bound = pipeline_pack_bound,
                                                .pack = pipeline_pack,
                                                .emit = pipeline_emit,
                                                .finish = pipeline_finish,
                                                .commit = pipeline_commit,
                                                .interrupt = pipeline_interrupt,
                                                .free = pipeline_free,
                                                .of_tensor = pipeline_of_tensor,
                                                .can_hold = pipeline_can_hold};

/* ---- creating ---- */

/* The writer of one component. */
static enum vc_status create_part(struct vc_ctx *ctx, struct pipeline_sink *self,
                                  const struct vc_write_options *options, size_t index)
{
    const struct vc_component *c = &self->model->components[index];
    struct vc_write_options own = *options;
    struct vc_sink **sink = &self->parts[index].sink;
    enum vc_status status = VC_OK;

    if (options->path != NULL) { /* with a slash at its end it is no file's name, whatever the component is called */
        VC_CALL_ALLOC(own.path = vc_arena_printf(ctx, &self->arena, "%s/%s/", options->path, c->name));
    }
    own.format = NULL;
    status = vc_safetensors_sink_create_part(ctx, c->model, &own, self->folder, c->name, sink);
    if (status != VC_OK) {
        return vc_context(ctx, "%s", c->name);
    }
    vc_format_set_loader(&vc_format_safetensors, (*sink)->dialect, c->model->family, &(*sink)->loader);
    return VC_OK;
}

/* Raw copies and second names are possible only where every part has them; memory adds up. */
static void join(struct vc_sink *sink)
{
    const struct pipeline_sink *self = sink->self;

    sink->accepts_raw = true;
    sink->aliases = true;
    for (size_t i = 0; i < self->n; i++) {
        sink->accepts_raw = sink->accepts_raw && self->parts[i].sink->accepts_raw;
        sink->aliases = sink->aliases && self->parts[i].sink->aliases;
        sink->memory_bytes += self->parts[i].sink->memory_bytes;
    }
}

enum vc_status vc_pipeline_sink_create(struct vc_ctx *ctx, const struct vc_model *model,
                                       const struct vc_write_options *options, struct vc_sink **out)
{
    /* Until the layout is known: nothing is asked of it, but of those of the components. */
    static const struct vc_dialect several = {.name = "of each model", .takes_codes = true};
    const struct vc_dialect *asked = NULL;
    struct pipeline_sink *self = NULL;
    struct vc_sink *sink = NULL;
    enum vc_status status = VC_OK;

    *out = NULL;
    VC_REFUSE_IF(options->n_shards != 0, ctx, VC_E_ARGUMENT,
                 "%s divides the files of one model, and a pipeline has several", vc_option(ctx, "shard"));
    VC_TRY(vc_dialect_asked(ctx, options, &asked));
    VC_TRY(vc_infolder_check_whole(ctx, model->folder));
    VC_TRY(VC_ZEROS(ctx, VC_TAG_IO, sink, 1));
    VC_TRY(VC_ZEROS(ctx, VC_TAG_IO, self, 1));
    vc_text_init(&self->carry.config, ctx);
    *sink = (struct vc_sink){
        .ops = &pipeline_ops, .self = self, .format = model->format_name, .dialect = asked != NULL ? asked : &several};
    self->model = model;
    self->n = model->n_components;
    VC_TRY(VC_ZEROS(ctx, VC_TAG_IO, self->parts, self->n));
    if (options->path != NULL && !options->dry_run) {
        VC_TRY(vc_outfolder_create(ctx, options->path, vc_outfolder_force_of(options), false, model, &self->folder));
    }
    for (size_t i = 0; i < self->n; i++) {
        VC_TRY(create_part(ctx, self, options, i));
    }
    keep_refused(self, asked != NULL);
    join(sink);
    *out = sink;
    return VC_OK;
out:
    if (self != NULL) {
        pipeline_free(ctx, sink);
    } else {
        vc_free(ctx, sink);
    }
    return status;
}
