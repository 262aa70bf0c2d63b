/* onnx_write.c - the writer of ONNX: the source's graph with other weights in it, in one file or in two.
 *
 *     layout    onnx_names.c decides what becomes of each tensor, onnx_layout.c cuts the new file into pieces
 *     emit      values of the outputs, at their places in the model file or in <name>.data, from any thread
 *     finish    everything between them: copies of the source's bytes, and messages made here
 *     commit    the data is named first and the model last, so that a model that is there is complete */
#include <signal.h>

#include "formats/dialects/dialects.h"
#include "formats/onnx/onnx_sink.h"

#define COPY_BYTES ((size_t)256 << 10)
#define FLIP_BYTES ((size_t)16 << 10)

/* False where only sizes are wanted. */
static bool writes(const struct onnx_sink *self)
{
    return self->file != NULL;
}

/* ---- layout ---- */

/* What the writer cannot take along, refused before the layout. */
static enum vc_status check_source(struct vc_ctx *ctx, const struct onnx_sink *self)
{
    VC_REFUSE_IF(self->source->n_inner_external != 0, ctx, VC_E_UNSUPPORTED,
                 "a tensor inside a node has its values in another file; only those of initializers can be taken "
                 "along");
    for (size_t i = 0; i < self->outs->n; i++) {
        const struct vc_out_tensor t = vc_out_at(self->outs, i);
        const struct onnx_tensor *tensor = &self->source->tensors[self->source->links[t.source].tensor];

        VC_REFUSE_IF(t.kept && t.form == VC_FORM_VALUES && tensor->view.bits != 0 &&
                         tensor->place == ONNX_PLACE_EXTERNAL && !self->out[i].moved,
                     ctx, VC_E_UNSUPPORTED,
                     "%s: its codes lie in another file, in another form than the other output has; "
                     "write the outputs in runs of their own",
                     t.name);
    }
    for (size_t i = 0; self->source->has_training && i < self->outs->n; i++) {
        VC_REFUSE_IF(vc_onnx_is_changed(self, i), ctx, VC_E_UNSUPPORTED,
                     "%s: the file holds training_info, which refers to initializers by name; remove it first",
                     vc_out_at(self->outs, i).name);
    }
    return VC_OK;
}

/* The name of the data file, which the model holds, and so does not depend on the folder. */
static enum vc_status name_data(struct vc_ctx *ctx, struct onnx_sink *self)
{
    const char *path = self->path != NULL ? self->path : self->model->path;
    char *location = vc_arena_printf(ctx, &self->arena, "%s%s", vc_base_name(path), ONNX_DATA_SUFFIX);

    VC_CALL_ALLOC(location);
    self->location = location;
    return VC_OK;
}

/* The second file, once it is known that there is one. */
static enum vc_status create_data(struct vc_ctx *ctx, struct onnx_sink *self, const char **path)
{
    VC_REFUSE_IF(!vc_utf8_valid(self->location, strlen(self->location)), ctx, VC_E_ARGUMENT,
                 "the model would name its data file '%s', which is no UTF-8", self->location);
    if (!writes(self)) {
        return VC_OK;
    }
    if (self->folder != NULL) {
        return vc_outfolder_add(ctx, self->folder, self->location, &self->data);
    }
    VC_REFUSE_IF(vc_is_stream(self->path), ctx, VC_E_ARGUMENT,
                 "the output has its weights in a second file, which cannot go to %s; use %s FILE",
                 strcmp(self->path, "-") == 0 ? "standard output" : self->path, vc_option(ctx, "path"));
    *path = vc_arena_printf(ctx, &self->arena, "%s%s", self->path, ONNX_DATA_SUFFIX);
    return *path == NULL ? VC_E_NOMEM : vc_outfile_create(ctx, *path, self->force, self->model, &self->data);
}

/* For the report: what somebody who looks at the new graph should know. */
static enum vc_status make_note(struct vc_ctx *ctx, struct onnx_sink *self, const char **note)
{
    const char *data = "";
    size_t n_products = 0;

    for (size_t i = 0; i < self->outs->n; i++) {
        n_products += vc_onnx_is_changed(self, i) && vc_out_at(self->outs, i).role == VC_PART_CODES &&
                      vc_onnx_is_product(self, i);
    }
    if (self->data_bytes != 0) {
        data =
            vc_arena_printf(ctx, &self->arena, "the weights are in %s, which belongs beside the model", self->location);
    }
    *note = data;
    if (n_products != 0 && data != NULL) {
        *note = vc_arena_printf(ctx, &self->arena,
                                "opset %" PRIu64
                                " stays: int8 weights pass through Cast and Mul, because DequantizeLinear has scales "
                                "per channel from opset 13 on, and is not there before 10%s%s",
                                self->source->opset, data[0] != '\0' ? "; " : "", data);
    }
    VC_CALL_ALLOC(*note);
    if (!self->strip && self->strippable > (self->model_bytes + self->data_bytes) / 20) {
        *note = vc_arena_printf(ctx, &self->arena,
                                "%.0f %% of the output are descriptions, such as stack traces, which compute nothing: "
                                "%s leaves them out%s%s",
                                100.0 * (double)self->strippable / (double)(self->model_bytes + self->data_bytes),
                                vc_option(ctx, "strip"), (*note)[0] != '\0' ? "; " : "", *note);
        VC_CALL_ALLOC(*note);
    }
    *note = (*note)[0] != '\0' ? *note : NULL;
    return VC_OK;
}

/* The file's form has the bytes of the job's at the same places: numbers as they are, or codes with their bits turned. */
static bool is_in_place(const struct onnx_view *v)
{
    return !v->turned && v->bits == v->shown && v->row == v->stored_row;
}

/* Tensors in another form than the job's, whose bytes go elsewhere, are put together in memory: those that are in work at a time, at most. */
static size_t view_bytes(struct vc_ctx *ctx, const struct onnx_sink *self)
{
    uint64_t total = 0;
    uint64_t most = 0;

    for (size_t i = 0; i < self->outs->n; i++) {
        if (self->out[i].view.bits != 0 && !is_in_place(&self->out[i].view)) {
            uint64_t n = vc_onnx_out_bytes(self, i);

            total += n;
            most = vc_max_u64(most, n);
        }
    }
    return (size_t)vc_min_u64(total, 2 * most * vc_ctx_threads(ctx)); /* a weight and its scales */
}

/* vc_sink_ops.layout. */
static enum vc_status onnx_layout(struct vc_ctx *ctx, struct vc_sink *sink, const struct vc_out_list *outs,
                                  uint64_t *file_bytes)
{
    struct onnx_sink *self = sink->self;

    self->outs = outs;
    for (size_t i = 0; i < outs->n; i++) {
        self->expected += vc_out_at(outs, i).size_bytes;
    }
    VC_CALL(vc_onnx_list_outs(ctx, self));
    VC_CALL(check_source(ctx, self));
    VC_CALL(vc_onnx_check_others(ctx, self));
    VC_CALL(vc_onnx_plan_folded(ctx, self));
    VC_CALL(vc_onnx_plan_outs(ctx, self));
    VC_CALL(vc_onnx_plan_edits(ctx, self));
    VC_CALL(name_data(ctx, self));
    VC_CALL(vc_onnx_lay_out(ctx, self));
    *file_bytes = self->model_bytes + self->data_bytes;
    if (self->data_bytes != 0) {
        VC_CALL(create_data(ctx, self, &sink->beside));
    }
    VC_CALL(make_note(ctx, self, &sink->note));
    sink->memory_bytes += view_bytes(ctx, self);
    return vc_outfile_need(ctx, self->file, *file_bytes);
}

/* ---- writing ---- */

/* In a folder the files appear with it; by themselves each has a hidden name until it is committed. */
static enum vc_status onnx_begin(struct vc_ctx *ctx, struct vc_sink *sink)
{
    struct onnx_sink *self = sink->self;

    if (self->folder != NULL) {
        VC_CALL(vc_outfolder_begin(ctx, self->folder, self->file));
        return self->data != NULL ? vc_outfolder_begin(ctx, self->folder, self->data) : VC_OK;
    }
    VC_CALL(vc_outfile_begin(ctx, self->file));
    return vc_outfile_begin(ctx, self->data);
}

/* A piece that stays in one piece: codes get their bits turned on the way. */
static enum vc_status emit_in_place(struct vc_ctx *ctx, struct onnx_sink *self, const struct onnx_out *o,
                                    const struct vc_packet *packet)
{
    struct vc_outfile *file = o->external ? self->data : self->file;
    const unsigned char *from = packet->data;
    unsigned char some[FLIP_BYTES];

    if (o->view.bits != 4) {
        return vc_outfile_write(ctx, file, o->at + packet->offset, from, (size_t)packet->n_bytes);
    }
    for (uint64_t done = 0; done < packet->n_bytes; done += sizeof some) {
        size_t n = (size_t)vc_min_u64(sizeof some, packet->n_bytes - done);

        for (size_t i = 0; i < n; i++) {
            some[i] = (unsigned char)(from[done + i] ^ o->view.flip * 0x11u);
        }
        VC_CALL(vc_outfile_write(ctx, file, o->at + packet->offset + done, some, n));
    }
    return VC_OK;
}

/* A piece of a tensor that the file has in another form goes to its places there; the last one writes all of it. Pieces
 * share bytes of two codes, so one at a time is put. */
static enum vc_status emit_view(struct vc_ctx *ctx, struct onnx_sink *self, struct onnx_out *o,
                                const struct vc_packet *packet)
{
    unsigned char *whole = NULL;
    enum vc_status status = VC_E_NOMEM;

    (void)pthread_mutex_lock(&self->mutex);
    if (o->stored == NULL) {
        o->stored = vc_alloc(ctx, VC_TAG_IO, (size_t)o->n);
        if (o->stored != NULL) {
            memset(o->stored, o->view.flip != 0 ? 0x88 : 0, (size_t)o->n);
        }
    }
    if (o->stored != NULL) {
        vc_onnx_view_convert(&o->view, true, o->stored, (unsigned char *)(uintptr_t)packet->data,
                             packet->offset * 8 / o->view.shown, (uint64_t)packet->n_bytes * 8 / o->view.shown);
        o->n_shown += packet->n_bytes;
        status = VC_OK;
        if (o->n_shown == vc_onnx_view_shown_bytes(&o->view)) {
            whole = vc_give(&o->stored);
        }
    }
    (void)pthread_mutex_unlock(&self->mutex);
    if (whole != NULL) {
        status = vc_outfile_write(ctx, o->external ? self->data : self->file, o->at, whole, (size_t)o->n);
        vc_free(ctx, whole);
    }
    return status;
}

/* vc_sink_ops.emit. Of a kept tensor that moves to the data file only the values are wanted, so what lies before and
 * behind them in the packet is cut off. */
static enum vc_status onnx_emit(struct vc_ctx *ctx, struct vc_sink *sink, const struct vc_packet *packet)
{
    struct onnx_sink *self = sink->self;
    struct onnx_out *o = &self->out[packet->out];
    uint64_t first = vc_max_u64(packet->offset, o->skip);
    uint64_t end = vc_min_u64(packet->offset + packet->n_bytes, o->skip + o->n);
    struct vc_outfile *file = o->external ? self->data : self->file;

    atomic_fetch_add_explicit(&self->got, packet->n_plain, memory_order_relaxed);
    if (writes(self) && o->view.bits != 0) {
        return is_in_place(&o->view) ? emit_in_place(ctx, self, o, packet) : emit_view(ctx, self, o, packet);
    }
    if (!writes(self) || first >= end) {
        return VC_OK;
    }
    return vc_outfile_write(ctx, file, o->at + (first - o->skip),
                            (const char *)packet->data + (size_t)(first - packet->offset), (size_t)(end - first));
}

/* A run of bytes of the source. */
static enum vc_status copy_piece(struct vc_ctx *ctx, struct onnx_sink *self, const struct onnx_piece *piece,
                                 unsigned char *buffer)
{
    for (uint64_t done = 0; done < piece->n; done += COPY_BYTES) {
        size_t n = (size_t)vc_min_u64(COPY_BYTES, piece->n - done);

        VC_CALL(vc_check_cancelled(ctx));
        VC_CALL(vc_infile_read(ctx, self->source->file, piece->from + done, buffer, n));
        VC_CALL(vc_outfile_write(ctx, self->file, piece->at + done, buffer, n));
    }
    return VC_OK;
}

/* All pieces but the outputs' values. */
static enum vc_status write_pieces(struct vc_ctx *ctx, struct onnx_sink *self)
{
    VC_SCOPED unsigned char *buffer = vc_alloc(ctx, VC_TAG_IO, COPY_BYTES);

    VC_CALL_ALLOC(buffer);
    for (size_t i = 0; i < self->n_pieces; i++) {
        const struct onnx_piece *piece = &self->pieces[i];

        if (piece->kind == ONNX_PIECE_COPY) {
            VC_CALL(copy_piece(ctx, self, piece, buffer));
        } else if (piece->kind == ONNX_PIECE_LITERAL) {
            VC_CALL(vc_outfile_write(ctx, self->file, piece->at, self->literals.data + piece->from, (size_t)piece->n));
        }
    }
    return VC_OK;
}

/* vc_sink_ops.finish. */
static enum vc_status onnx_finish(struct vc_ctx *ctx, struct vc_sink *sink, uint64_t *file_bytes)
{
    struct onnx_sink *self = sink->self;
    uint64_t got = atomic_load(&self->got);

    VC_REFUSE_IF(got != self->expected, ctx, VC_E_INTERNAL, "%" PRIu64 " of %" PRIu64 " bytes were written", got,
                 self->expected);
    *file_bytes = self->model_bytes + self->data_bytes;
    if (writes(self)) {
        VC_CALL(write_pieces(ctx, self));
    }
    VC_CALL(vc_outfile_sync(ctx, self->file));
    return vc_outfile_sync(ctx, self->data);
}

/* Both files get their names. If the model cannot be named, the data's name is taken away again. */
static enum vc_status name_both(struct vc_ctx *ctx, struct onnx_sink *self)
{
    enum vc_status status = VC_OK;

    VC_TRY(vc_outfile_commit(ctx, self->data));
    VC_TRY(vc_outfile_commit(ctx, self->file));
out:
    if (status != VC_OK && !vc_outfile_is_named(self->file)) {
        vc_outfile_withdraw(self->data);
    }
    return status;
}

/* vc_sink_ops.commit. Signals wait while one of two files has its name: a handler that ends the process would leave data without a
 * model. */
static enum vc_status onnx_commit(struct vc_ctx *ctx, struct vc_sink *sink)
{
    struct onnx_sink *self = sink->self;
    sigset_t all;
    sigset_t before;

    if (self->folder != NULL) {
        return VC_OK; /* the folder appears with all of its files */
    }
    if (self->data == NULL) {
        return vc_outfile_commit(ctx, self->file);
    }
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_BLOCK, &all, &before);
    enum vc_status status = name_both(ctx, self);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return status;
}

/* Also after a failure at any point: what was not made is NULL. */
static void onnx_free(struct vc_ctx *ctx, struct vc_sink *sink)
{
    struct onnx_sink *self = sink->self;

    for (size_t i = 0; self->out != NULL && i < self->outs->n; i++) {
        vc_free(ctx, self->out[i].stored);
    }
    (void)pthread_mutex_destroy(&self->mutex);
    if (self->folder == NULL) {
        vc_outfile_free(ctx, self->file);
        vc_outfile_free(ctx, self->data);
    }
    vc_text_release(&self->literals);
    vc_arena_release(ctx, &self->arena);
    VC_FREE_ALL(ctx, self->first_out, self->out, self->gone, self->drop, self->node_out, self->products);
    vc_onnx_edits_release(ctx, &self->edits);
    VC_FREE_ALL(ctx, self->pieces, self, sink);
}

/* Which sink a copy of the tensor is for: codes whose form changes go through this one, others are copied as they
 * lie. */
static const struct vc_sink *onnx_of_tensor(const struct vc_sink *sink, size_t tensor)
{
    const struct onnx_sink *self = sink->self;

    return vc_onnx_moves(self, tensor) ? sink : &self->copies;
}

/* False: ONNX has no number for the type, and the plan of the job refuses. */
static bool onnx_can_hold(const struct vc_sink *sink, enum vc_dtype dtype)
{
    return vc_onnx_type_of(dtype) != 0;
}

static const struct vc_sink_ops onnx_sink_ops = {.layout = onnx_layout,
                                                 .begin = onnx_begin,
                                                 .emit = onnx_emit,
                                                 .finish = onnx_finish,
                                                 .commit = onnx_commit,
                                                 .free = onnx_free,
                                                 .of_tensor = onnx_of_tensor,
                                                 .can_hold = onnx_can_hold};

/* name: of the file in the folder; NULL: a file of its own. */
static enum vc_status create(struct vc_ctx *ctx, const struct vc_model *model, const struct vc_write_options *options,
                             struct vc_outfolder *folder, const char *name, struct vc_sink **out)
{
    const struct vc_dialect *asked = NULL;
    VC_SCOPED struct onnx_sink *self = NULL;
    VC_SCOPED struct vc_sink *sink = NULL;

    *out = NULL;
    VC_REFUSE_IF(model->format == NULL && options->path != NULL, ctx, VC_E_ARGUMENT,
                 "%s: an ONNX file is a graph with weights in it, and what goes there has no graph: only ONNX becomes "
                 "ONNX",
                 options->path);
    VC_REFUSE_IF(!vc_format_writes(model, vc_onnx_sink_create), ctx, VC_E_ARGUMENT,
                 "an ONNX file is a graph with weights in it, and %s has no graph: only ONNX becomes ONNX",
                 model->format == NULL ? "what goes there" : model->format_name);
    VC_REFUSE_IF(options->deflate != VC_DEFLATE_NONE, ctx, VC_E_ARGUMENT,
                 "ONNX is never compressed; leave %s out, or let the output's name end in .npz",
                 vc_option(ctx, "deflate"));
    VC_CALL(vc_dialect_asked(ctx, options, &asked));
    VC_CALL_ALLOC(sink = vc_alloc(ctx, VC_TAG_IO, sizeof *sink));
    VC_CALL_ALLOC(self = vc_calloc_array(ctx, VC_TAG_IO, 1, sizeof *self));
    self->model = model;
    self->source = model->self;
    self->path = name != NULL ? name : options->path;
    self->folder = folder;
    self->force = options->force;
    self->dequantizes = asked == &vc_dialect_onnx_qdq;
    self->relayout = options->relayout;
    self->strip = options->strip != 0;
    vc_text_init(&self->literals, ctx);
    if (folder != NULL) {
        VC_CALL(vc_outfolder_add(ctx, folder, name, &self->file));
    } else if (name == NULL && options->path != NULL && !options->dry_run) {
        VC_CALL(vc_outfile_open(ctx, options, model, &self->file));
    }
    if (pthread_mutex_init(&self->mutex, NULL) != 0) {
        if (folder == NULL) {
            vc_outfile_free(ctx, self->file);
        }
        return vc_fail(ctx, VC_E_NOMEM, "cannot create a mutex");
    }
    *sink = (struct vc_sink){.ops = &onnx_sink_ops,
                             .self = self,
                             .format = VC_FORMAT_ONNX,
                             .dialect = self->dequantizes ? asked : &vc_dialect_onnx,
                             .accepts_raw = !self->strip,
                             .memory_bytes = COPY_BYTES};
    self->copies = *sink;
    sink->accepts_raw = sink->accepts_raw && !self->relayout;
    self = NULL; /* the sink's */
    *out = vc_give(&sink);
    return VC_OK;
}

/* A graph as one of several files of a folder. */
enum vc_status vc_onnx_sink_create_in(struct vc_ctx *ctx, const struct vc_model *model,
                                      const struct vc_write_options *options, struct vc_outfolder *folder,
                                      const char *name, struct vc_sink **out)
{
    return create(ctx, model, options, folder, name, out);
}

/* A model that was made of a folder becomes a folder, too, unless the output's name is a file's. */
enum vc_status vc_onnx_sink_create(struct vc_ctx *ctx, const struct vc_model *model,
                                   const struct vc_write_options *options, struct vc_sink **out)
{
    struct onnx_made *made = vc_format_writes(model, vc_onnx_sink_create) ? vc_onnx_made_of(model) : NULL;
    bool in_folder = false;

    *out = NULL;
    if (made != NULL && made->create_folder != NULL && options->path != NULL) {
        VC_CALL(vc_outfolder_choose(ctx, options, ".onnx", true, 1, &in_folder));
    }
    return in_folder ? made->create_folder(ctx, model, options, out) : create(ctx, model, options, NULL, NULL, out);
}
