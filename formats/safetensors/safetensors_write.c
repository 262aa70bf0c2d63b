/* safetensors_write.c - the sink of safetensors: one file, or a folder of shards with what goes along.
 *
 *     one file     u64 LE 88 | {"w":{"dtype":"I8","shape":[2,4],"data_offsets":[0,8]},...}, blanks | codes, scales, ...
 *     a folder     model-00001-of-00002.safetensors, model-00002-of-00002.safetensors, model.safetensors.index.json,
 *                  config.json (rewritten where the job changes what it says), tokenizer.json, ... (copied)
 *
 * Everything is known before the first weight is read, so a tile goes straight to its place with one pwrite, from any
 * thread. A header ends in spaces, so that the data starts at a multiple of 64; between tensors the format allows no
 * padding. Never compressed. */

#include "core/model/names.h"
#include "formats/dialects/comfy.h"
#include "formats/huggingface/hf_carry.h"
#include "formats/huggingface/hf_loader.h"
#include "formats/huggingface/joined_layers.h"
#include "formats/huggingface/weight_index.h"
#include "formats/safetensors/safetensors_files.h"

/* A record whose tiles share words: its bytes, until all tiles are there. */
struct gathered {
    struct gathered *next;
    const struct safetensors_record *record;
    uint64_t left; /* codes */
    unsigned char bytes[];
};

/* The sink of one output: a file, a folder, or sizes alone. */
struct safetensors_sink {
    struct vc_outfile *file;     /* a single file that is written */
    struct vc_outfolder *folder; /* a folder that is written; neither: sizes only */
    const struct vc_model *model;
    const struct safetensors *source; /* NULL: the model is of another format */
    bool in_folder;
    bool share;              /* another worker writes the rest of the folder */
    bool companions;         /* what goes with the weights goes along ... */
    bool carrying;           /* ... and this worker writes it */
    const char *loader_note; /* of new codes; NULL: none */
    uint64_t max_shard_bytes;
    struct vc_hf_carry carry;
    struct safetensors_records records;
    struct safetensors_files files;
    pthread_mutex_t mutex; /* of `gathered` */
    struct gathered *gathered;
};

/* Bytes of all files that this sink writes, headers included. Of shards that hold nothing none is made. */
static uint64_t file_bytes_of(const struct safetensors_sink *self)
{
    uint64_t total = 0;

    for (size_t i = 0; i < self->files.n; i++) {
        const struct safetensors_file *file = &self->files.files[i];

        total += file->n_records != 0 || !self->in_folder ? file->header.n + file->data_bytes : 0;
    }
    return total;
}

/* Refuses an output that the disk has no room for. Called once the sizes are known. */
static enum vc_status need(struct vc_ctx *ctx, const struct safetensors_sink *self)
{
    uint64_t bytes = file_bytes_of(self);

    if (self->folder != NULL) {
        return vc_outfolder_need(ctx, self->folder,
                                 vc_add_u64(bytes, self->carry.n_bytes, &bytes) ? bytes : UINT64_MAX);
    }
    return vc_outfile_need(ctx, self->file, bytes);
}

/* Opens the files of a folder, each under its name. The only file of another output is open already. */
static enum vc_status add_files(struct vc_ctx *ctx, struct safetensors_sink *self)
{
    if (self->file != NULL) {
        self->files.files[0].file = self->file;
    }
    for (size_t i = 0; self->folder != NULL && i < self->files.n; i++) {
        struct safetensors_file *file = &self->files.files[i];

        if (file->n_records != 0) {
            VC_CALL(vc_outfolder_add(ctx, self->folder, file->name, &file->file));
        }
    }
    return VC_OK;
}

/* What the index is called, where there is one: after the files of the source's folder. */
static const char *index_name(const struct safetensors_sink *self)
{
    return self->model->folder != NULL ? vc_infolder_out_index(self->model->folder) : VC_INDEX_NAME;
}

/* What the names of new files begin with. */
static const char *prefix_of(const struct safetensors_sink *self)
{
    return self->model->folder != NULL ? vc_infolder_out_prefix(self->model->folder) : "model";
}

/* Appends a note for the report to those there are; NULL: nothing to note. */
static enum vc_status add_note(struct vc_ctx *ctx, struct safetensors_sink *self, const char *note, const char **notes)
{
    if (note != NULL) {
        *notes = *notes == NULL ? note : vc_arena_printf(ctx, &self->carry.arena, "%s; %s", *notes, note);
    }
    return note != NULL && *notes == NULL ? VC_E_NOMEM : VC_OK;
}

/* Codes that this job has made, of which a config.json has to speak. */
static bool is_new_codes(struct vc_out_tensor out)
{
    return out.quant != NULL && !out.kept;
}

/* There are new codes: of this run, or of other workers. */
static bool makes_codes(const struct vc_out_list *outs)
{
    bool any = false;

    for (size_t i = 0; i < outs->n && !any; i++) {
        any = is_new_codes(vc_out_at(outs, i));
    }
    for (size_t i = 0; i < outs->n_other_shards && !any; i++) {
        any = is_new_codes(outs->other_shards[i]);
    }
    return any;
}

/* Matrices of floats of 8 bits that stay beside codes. Where the layout tells codes by their scales, or by the method in
 * config.json, its readers would take them for codes whose scale is lost; our own manifest lists the codes. */
static enum vc_status refuse_floats8(struct vc_ctx *ctx, const struct safetensors_sink *self,
                                     const struct vc_sink *sink, const struct vc_out_list *outs)
{
    size_t plain = VC_NO_TENSOR;
    bool codes = false;
    size_t n_path;

    for (size_t i = 0; i < outs->n; i++) {
        const struct vc_out_tensor out = vc_out_at(outs, i);
        bool float8 = vc_is_float8(out.dtype);

        codes = codes || (is_new_codes(out) && (float8 || self->carrying));
        plain = float8 && out.quant == NULL && !out.beside && out.n_dims == 2 &&
                        vc_name_is_module_weight(out.name, &n_path) &&
                        (out.source == VC_NO_TENSOR || self->model->tensors[out.source].undecoded == NULL)
                    ? i
                    : plain;
    }
    VC_REFUSE_IF(codes && plain != VC_NO_TENSOR, ctx, VC_E_UNSUPPORTED,
                 "%s: stays %s, which readers of the layout %s take for codes that lost their scale; vcompress run %s "
                 "dequantize comes first, or %s plain",
                 vc_out_at(outs, plain).name, vc_dtype_name(vc_out_at(outs, plain).dtype), sink->dialect->name,
                 vc_option(ctx, "pass"), vc_option(ctx, "layout"));
    return VC_OK;
}

/* What goes along with the weights, and what the report has to say: files left behind, notes that shards disagree
 * about, layers that a loader joins and that are quantized in part only, why codes are in no loader's layout. */
static enum vc_status plan_carry(struct vc_ctx *ctx, struct vc_sink *sink, const struct vc_out_list *outs)
{
    struct safetensors_sink *self = sink->self;
    const struct vc_dialect *before = self->source != NULL ? self->source->finds.read : &vc_dialect_plain;
    const struct vc_hf_change change = {.model = self->model,
                                        .outs = outs,
                                        .told = self->records.told,
                                        .dialect = sink->dialect,
                                        .describes = sink->dialect->file != NULL || before->file != NULL};
    const char *joined = NULL;

    if (sink->dialect->file != NULL && !sink->dialect->marks_layers && !self->records.any_untold) {
        VC_CALL(refuse_floats8(ctx, self, sink, outs));
    }
    if (self->carrying) {
        VC_CALL(vc_hf_carry_plan(ctx, self->model->folder, &change, &self->carry));
    }
    if (sink->dialect->file != NULL && sink->dialect->file->joined_by != NULL) {
        VC_CALL(vc_joined_note(ctx, self->model, outs, self->records.told, sink->dialect->file->joined_by,
                               &self->carry.arena, &joined));
    }
    VC_CALL(add_note(ctx, self, self->carry.note, &sink->note));
    VC_CALL(add_note(ctx, self, self->files.note, &sink->note));
    VC_CALL(add_note(ctx, self, joined, &sink->note));
    return add_note(ctx, self, self->loader_note != NULL && makes_codes(outs) ? self->loader_note : NULL, &sink->note);
}

/* Refuses new codes where the program that loads the source takes no layout of codes. */
static enum vc_status check_loader(struct vc_ctx *ctx, const struct vc_sink *sink, const struct vc_out_list *outs)
{
    return sink->refusal == NULL || !makes_codes(outs)
               ? VC_OK
               : vc_fail(ctx, VC_E_UNSUPPORTED,
                         "%s; fp16 and bf16 it loads; %s plain is for vcompress dequantize, and for code of your own",
                         sink->refusal, vc_option(ctx, "layout"));
}

/* The names of the whole output, whichever worker writes them: files with weights, the index and what goes along. */
static enum vc_status expect_all(struct vc_ctx *ctx, struct safetensors_sink *self)
{
    for (size_t i = 0; i < self->files.n; i++) {
        if (self->files.files[i].n_all != 0) {
            VC_CALL(vc_outfolder_expect(ctx, self->folder, self->files.files[i].name));
        }
    }
    VC_CALL(vc_outfolder_expect(ctx, self->folder, index_name(self)));
    return self->companions ? vc_hf_carry_expect(ctx, self->model->folder, self->folder) : VC_OK;
}

/* For the report: codes of a layout that is not written are still in it where all of them are copied. */
static void show_copied(struct vc_sink *sink, const struct vc_out_list *outs)
{
    const struct safetensors_sink *self = sink->self;
    const struct vc_dialect *read = self->source != NULL ? self->source->finds.read : &vc_dialect_plain;

    if (sink->dialect != read && sink->accepts_raw && read->file != NULL && !vc_dialect_is_followed(read) &&
        !makes_codes(outs)) {
        sink->dialect = read;
        sink->loader = read->loader;
    }
}

/* vc_sink_ops.layout: names, types and places of all tensors, the headers, config.json. Nothing is written yet, so
 * everything that can be refused is refused here. */
static enum vc_status safetensors_layout(struct vc_ctx *ctx, struct vc_sink *sink, const struct vc_out_list *outs,
                                         uint64_t *file_bytes)
{
    struct safetensors_sink *self = sink->self;
    struct safetensors_plan plan = {.outs = outs,
                                    .model = self->model,
                                    .source = self->source,
                                    .records = &self->records,
                                    .prefix = prefix_of(self),
                                    .layout = sink->dialect->name,
                                    .in_folder = self->in_folder,
                                    .sizes_only = self->file == NULL && self->folder == NULL,
                                    .max_shard_bytes = self->max_shard_bytes};

    VC_CALL(check_loader(ctx, sink, outs));
    if (sink->dialect == &vc_dialect_plain) {
        vc_plain_note_outs(outs, &sink->loader);
    } else if (sink->dialect->file != NULL && sink->dialect->file->needs != NULL) {
        const char *said = sink->loader.needs != NULL ? sink->loader.needs : "";
        const char *needs = sink->dialect->file->needs(outs);

        VC_CALL(add_note(ctx, self, needs != NULL && strstr(said, needs) == NULL ? needs : NULL, &sink->loader.needs));
    }
    if (sink->dialect == &vc_dialect_compressed_tensors) {
        vc_ct_note_outs(outs, &sink->loader);
    }
    VC_CALL(vc_safetensors_records_make(ctx, outs, self->model, self->source, sink->dialect, &self->records));
    /* A tensor ends while the next one begins; its scales and zero points are less than half of its codes. */
    sink->memory_bytes = 3 * (size_t)self->records.most_gathered;
    VC_CALL(vc_safetensors_files_make(ctx, &plan, &self->files));
    VC_CALL(plan_carry(ctx, sink, outs));
    show_copied(sink, outs);
    if (self->folder != NULL) {
        VC_CALL(expect_all(ctx, self));
        VC_CALL(vc_outfolder_check_old(ctx, self->folder));
    }
    if (!self->share) {
        VC_CALL(add_files(ctx, self));
    }
    *file_bytes = file_bytes_of(self);
    return need(ctx, self);
}

/* vc_sink_ops.begin. A worker that shares a folder with others makes it here and not in layout: a run that is refused
 * leaves no folder. */
static enum vc_status safetensors_begin(struct vc_ctx *ctx, struct vc_sink *sink)
{
    struct safetensors_sink *self = sink->self;

    if (self->share && self->folder != NULL) { /* makes the folder, so only once nothing else is wrong */
        VC_CALL(add_files(ctx, self));
        if (self->carrying && self->model->n_unseen == 0) {
            VC_CALL(vc_hf_carry_check(ctx, &self->carry, self->folder));
        }
    }
    vc_outfolder_sweep(self->folder);
    for (size_t i = 0; i < self->files.n; i++) {
        if (self->folder != NULL) {
            VC_CALL(vc_outfolder_begin(ctx, self->folder, self->files.files[i].file));
        } else {
            VC_CALL(vc_outfile_begin(ctx, self->files.files[i].file));
        }
    }
    VC_CALL(need(ctx, self)); /* the files of a share are known only now */
    return VC_OK;
}

/* vc_sink_ops.pack_bound. Only codes that are packed need room; other pieces are stored from where they are. */
static size_t pack_bound(const struct vc_sink *sink, size_t n_bytes)
{
    const struct safetensors_sink *self = sink->self;

    return vc_safetensors_pack_bound(&self->records, n_bytes);
}

/* How the codes of a record are packed; NULL: they are not. */
static const struct vc_packed *packed_of(const struct safetensors_record *record)
{
    return record->laid != NULL && record->laid->packed.packing != NULL ? &record->laid->packed : NULL;
}

/* vc_sink_ops.pack: packs codes as the dialect wants them. The packet keeps its offset in codes; emit finds the place
 * of the packed bytes by it. */
static enum vc_status pack(struct vc_ctx *ctx, struct vc_sink *sink, struct vc_packet *packet)
{
    const struct safetensors_sink *self = sink->self;
    const struct safetensors_record *record = &self->records.records[self->records.of_out[packet->out]];
    const struct vc_packed *p = packed_of(record);
    struct vc_packed_place place;

    if (p != NULL && !p->packing->gathers) {
        place = p->packing->place(p, packet->offset, packet->n_plain);
        p->packing->pack(p, packet->offset, packet->data, packet->n_plain, packet->buffer);
        packet->n_bytes = place.n_runs * place.run_bytes;
        packet->data = packet->buffer;
    }
    return VC_OK;
}

/* Writes n_bytes at an offset of a record. */
static enum vc_status store(struct vc_ctx *ctx, struct safetensors_sink *self, const struct safetensors_record *record,
                            uint64_t offset, const void *data, size_t n_bytes)
{
    struct safetensors_file *file = &self->files.files[record->file];

    atomic_fetch_add_explicit(&file->got, n_bytes, memory_order_relaxed);
    return vc_outfile_write(ctx, file->file, record->offset + offset, data, n_bytes);
}

/* The bytes of a record that tiles share, of which some may be there. NULL: no memory. Under the mutex. */
static struct gathered **find_gathered(struct vc_ctx *ctx, struct safetensors_sink *self,
                                       const struct safetensors_record *record)
{
    struct gathered **at = &self->gathered;
    uint64_t n_bytes;

    while (*at != NULL && (*at)->record != record) {
        at = &(*at)->next;
    }
    if (*at == NULL && vc_add_u64(record->laid->n_bytes, sizeof **at, &n_bytes) && n_bytes <= SIZE_MAX) {
        *at = vc_calloc_array(ctx, VC_TAG_IO, 1, (size_t)n_bytes);
        if (*at != NULL) {
            (*at)->record = record;
            (*at)->left = record->laid->packed.n_rows * record->laid->packed.row;
        }
    }
    return *at != NULL ? at : NULL;
}

/* Packs a piece into the bytes of its record, which are stored with the last piece. */
static enum vc_status gather(struct vc_ctx *ctx, struct safetensors_sink *self, const struct safetensors_record *record,
                             const struct vc_packet *packet)
{
    const struct vc_packed *p = &record->laid->packed;
    struct gathered *whole = NULL;
    enum vc_status status = VC_E_NOMEM;

    (void)pthread_mutex_lock(&self->mutex);
    struct gathered **at = find_gathered(ctx, self, record);
    if (at != NULL) {
        p->packing->pack(p, packet->offset, packet->data, packet->n_plain, (*at)->bytes);
        (*at)->left -= packet->n_plain;
        status = VC_OK;
        whole = (*at)->left == 0 ? *at : NULL;
        *at = whole != NULL ? whole->next : *at;
    }
    (void)pthread_mutex_unlock(&self->mutex);
    if (whole != NULL) {
        status = store(ctx, self, record, 0, whole->bytes, (size_t)record->laid->n_bytes);
        vc_free(ctx, whole);
    }
    return status;
}

/* Stores what the dialect makes of a piece of floats that lies as it comes: the record behind. */
static enum vc_status store_times(struct vc_ctx *ctx, struct safetensors_sink *self,
                                  const struct safetensors_record *record, const struct vc_packet *packet)
{
    const struct vc_laid *laid = record[1].laid;
    const unsigned char *floats = packet->data;
    unsigned char bytes[4096];

    for (size_t at = 0; at < packet->n_bytes; at += sizeof bytes) {
        size_t n = packet->n_bytes - at < sizeof bytes ? packet->n_bytes - at : sizeof bytes;

        VC_REFUSE_IF(!vc_laid_times(laid->dtype, laid->times, floats + at, n, bytes), ctx, VC_E_UNSUPPORTED,
                     "%s: a scale times %d is beyond what %s holds", laid->name, laid->times,
                     vc_dtype_name(laid->dtype));
        VC_CALL(store(ctx, self, record + 1, packet->offset + at, bytes, n));
    }
    return VC_OK;
}

/* The record behind is made of this one. */
static bool has_times(const struct safetensors_sink *self, const struct safetensors_record *record)
{
    return record + 1 < self->records.records + self->records.n && record[1].out == VC_SAFETENSORS_CONSTANT &&
           record[1].laid->times != 0;
}

/* vc_sink_ops.emit: the piece goes to its place, packed codes to all the runs that they lie in. */
static enum vc_status safetensors_emit(struct vc_ctx *ctx, struct vc_sink *sink, const struct vc_packet *packet)
{
    struct safetensors_sink *self = sink->self;
    const struct safetensors_record *record = &self->records.records[self->records.of_out[packet->out]];
    const struct vc_packed *p = packed_of(record);
    struct vc_packed_place place = {.offset = packet->offset, .run_bytes = packet->n_bytes, .n_runs = 1};
    const unsigned char *data = packet->data;

    if (p != NULL && p->packing->gathers) {
        return gather(ctx, self, record, packet);
    }
    if (has_times(self, record)) {
        VC_CALL(store_times(ctx, self, record, packet));
    }
    if (p != NULL) {
        place = p->packing->place(p, packet->offset, packet->n_plain);
    }
    for (size_t i = 0; i < place.n_runs; i++) {
        VC_CALL(store(ctx, self, record, place.offset + i * place.stride, data + i * place.run_bytes, place.run_bytes));
    }
    return VC_OK;
}

/* Writes the records that no output of the job brings, such as the shape that compressed-tensors keeps beside a
 * weight. */
static enum vc_status store_constants(struct vc_ctx *ctx, struct safetensors_sink *self)
{
    unsigned char bytes[4096];

    for (size_t i = 0; i < self->records.n; i++) {
        const struct safetensors_record *record = &self->records.records[i];

        for (uint64_t at = 0; record->out == VC_SAFETENSORS_CONSTANT && at < record->laid->n_bytes;
             at += sizeof bytes) {
            size_t n = (size_t)vc_min_u64(sizeof bytes, record->laid->n_bytes - at);

            if (vc_laid_constant(record->laid, at, n, bytes)) {
                VC_CALL(store(ctx, self, record, at, bytes, n));
            }
        }
    }
    return VC_OK;
}

/* All values of the file are there: its header follows, and both are brought to the disk. */
static enum vc_status finish_file(struct vc_ctx *ctx, struct safetensors_file *file)
{
    uint64_t got = atomic_load(&file->got);

    VC_REFUSE_IF(got != file->data_bytes, ctx, VC_E_INTERNAL, "%" PRIu64 " of %" PRIu64 " bytes were written", got,
                 file->data_bytes);
    VC_CALL(vc_outfile_write(ctx, file->file, 0, file->header.data, file->header.n));
    return vc_outfile_sync(ctx, file->file);
}

/* The index of a folder: which tensor lies in which file. */
static enum vc_status write_index(struct vc_ctx *ctx, struct safetensors_sink *self)
{
    VC_SCOPED struct weight_index_entry *entries = vc_alloc_array(ctx, VC_TAG_NAMES, self->records.n, sizeof *entries);
    VC_SCOPED_TEXT struct vc_text text = {.ctx = ctx};
    uint64_t total = 0;

    VC_CALL_ALLOC(entries);
    for (size_t i = 0; i < self->records.n; i++) {
        const struct safetensors_record *record = &self->records.records[i];

        entries[i] = (struct weight_index_entry){record->name, self->files.files[record->file].name};
        total += vc_safetensors_record_entry(&self->records, record).n_bytes;
    }
    VC_CALL(vc_weight_index_text(total, self->records.n, entries, &text));
    return vc_hf_write_text(ctx, self->folder, index_name(self), text.data, text.n);
}

/* Loaders look for model.safetensors or for an index. A source that had an index for its only file keeps it. */
static bool needs_index(const struct safetensors_sink *self)
{
    size_t n = 0;

    for (size_t i = 0; i < self->files.n; i++) {
        n += self->files.files[i].n_records != 0;
    }
    return n > 1 || (self->model->folder != NULL && vc_infolder_index(self->model->folder) != NULL &&
                     self->max_shard_bytes == 0);
}

/* vc_sink_ops.finish: constants, headers, what goes along, the index. */
static enum vc_status safetensors_finish(struct vc_ctx *ctx, struct vc_sink *sink, uint64_t *file_bytes)
{
    struct safetensors_sink *self = sink->self;

    VC_CALL(store_constants(ctx, self));
    for (size_t i = 0; i < self->files.n; i++) {
        VC_CALL(finish_file(ctx, &self->files.files[i]));
    }
    if (self->folder != NULL && self->carrying && self->model->n_unseen == 0) {
        VC_CALL(vc_hf_carry_write(ctx, &self->carry, self->folder));
    }
    for (size_t i = 0; self->model->absent != NULL && i < self->files.n; i++) {
        if (self->folder != NULL && self->files.files[i].n_records != 0) {
            VC_CALL(vc_safetensors_keep_header(ctx, &self->source->shards[i], self->folder));
        }
    }
    if (self->folder != NULL && !self->share && needs_index(self)) {
        VC_CALL(write_index(ctx, self));
    }
    *file_bytes = file_bytes_of(self);
    return VC_OK;
}

/* The output gets its name. A folder may have a note, such as that an older one stays beside it. */
static enum vc_status safetensors_commit(struct vc_ctx *ctx, struct vc_sink *sink)
{
    struct safetensors_sink *self = sink->self;

    return vc_output_commit(ctx, self->folder, self->file, &sink->late_note);
}

static void safetensors_free(struct vc_ctx *ctx, struct vc_sink *sink)
{
    struct safetensors_sink *self = sink->self;

    while (self->gathered != NULL) {
        struct gathered *next = self->gathered->next;

        vc_free(ctx, self->gathered);
        self->gathered = next;
    }
    (void)pthread_mutex_destroy(&self->mutex);
    vc_outfile_free(ctx, self->file);
    vc_outfolder_free(ctx, self->folder);
    vc_safetensors_files_release(ctx, &self->files);
    vc_safetensors_records_release(ctx, &self->records);
    vc_hf_carry_release(ctx, &self->carry);
    VC_FREE_ALL(ctx, self, sink);
}

/* Types that the format has a word for. */
static bool safetensors_can_hold(const struct vc_sink *sink, enum vc_dtype dtype)
{
    return vc_safetensors_type_of(dtype) < vc_safetensors_n_dtypes;
}

static const struct vc_sink_ops safetensors_sink_ops = {.layout = safetensors_layout,
                                                        .begin = safetensors_begin,
                                                        .pack_bound = pack_bound,
                                                        .pack = pack,
                                                        .emit = safetensors_emit,
                                                        .finish = safetensors_finish,
                                                        .commit = safetensors_commit,
                                                        .free = safetensors_free,
                                                        .can_hold = safetensors_can_hold};

/* The source's weights are codes in a dialect that is read and not written, or of GGUF; and the output is the folder of
 * a model. */
static bool is_read_only(const struct safetensors_sink *self)
{
    const struct vc_model *model = self->model;
    size_t i = 0;

    while (i < model->n_tensors && model->tensors[i].quant == NULL) {
        i++;
    }
    return self->in_folder && model->folder != NULL &&
           (self->source != NULL ? self->source->finds.read != self->source->finds.dialect : i < model->n_tensors);
}

/* The dialect of the output where none was asked for: the one that the source's weights are in, if it has a place for
 * the codes, or where that is not written the usual one of folders; else, or of a folder whose weights passes decode
 * first, the one that the program takes which loads the source, with a place for the codes, and of a single file of a
 * network that makes pictures ComfyUI's; where nothing says which program that is, the plain one. */
static enum vc_status choose_dialect(struct vc_ctx *ctx, struct safetensors_sink *self, const struct vc_dialect *asked,
                                     const char *codes, bool decoded, const struct vc_dialect **dialect,
                                     const char **refusal)
{
    const struct safetensors *source = self->source;
    const struct vc_infolder *folder = self->model->folder;
    size_t n = 0;
    const char *made = folder != NULL ? vc_infolder_made(folder, VC_HF_CONFIG_NAME, &n) : NULL;
    struct vc_hf_loader loader;

    *dialect = asked;
    if (asked != NULL) {
        return VC_OK;
    }
    *dialect = source != NULL && !decoded ? vc_dialect_for_codes(source->finds.dialect, codes) : &vc_dialect_plain;
    if (!decoded && is_read_only(self)) {
        *dialect = vc_dialect_for_codes(vc_dialect_usual_in_folders(self->model->family), codes);
        return VC_OK;
    }
    if (codes != NULL && folder == NULL && !self->in_folder && *dialect == &vc_dialect_plain &&
        vc_dialect_takes(&vc_dialect_comfy, codes) && vc_comfy_is_picture(self->model)) {
        *dialect = &vc_dialect_comfy;
        return VC_OK;
    }
    if ((source != NULL || folder != NULL) && *dialect == &vc_dialect_plain &&
        (made != NULL || decoded || vc_model_layout(self->model) == NULL)) {
        bool to_folder = self->in_folder && folder != NULL;

        loader = (struct vc_hf_loader){.dialect = &vc_dialect_plain};
        if (made != NULL) {
            VC_CALL(vc_hf_loader_look(ctx, made, n, to_folder, decoded, &loader));
        } else {
            VC_CALL(vc_hf_loader_find(ctx, folder != NULL ? vc_infolder_path(folder) : self->model->path, to_folder,
                                      decoded, &loader));
        }
        *dialect = vc_dialect_for_codes(loader.dialect, codes);
        *refusal = *dialect == loader.dialect || loader.others == NULL ? loader.refusal : loader.others;
        self->loader_note = loader.note;
    }
    return VC_OK;
}

/* Refuses a layout that only a config.json describes where the output has none. */
static enum vc_status check_described(struct vc_ctx *ctx, const struct safetensors_sink *self,
                                      const struct vc_dialect *asked)
{
    const struct vc_infolder *folder = self->model->folder;
    char *text = NULL;
    bool there = false;
    size_t n = 0;

    if (asked == NULL || asked->file == NULL || !asked->file->in_config_only) {
        return VC_OK;
    }
    if (folder != NULL && self->in_folder) {
        there = vc_infolder_made(folder, VC_HF_CONFIG_NAME, &n) != NULL;
        if (!there) {
            VC_CALL(vc_hf_config_read_beside(ctx, vc_infolder_path(folder), &text, &n));
            there = text != NULL;
        }
        vc_free(ctx, text);
    }
    VC_REFUSE_IF(!there, ctx, VC_E_UNSUPPORTED,
                 "the layout %s is described by the config.json beside the weights: a model's folder that has one can "
                 "become a folder of it, and no file; %s plain takes any",
                 asked->name, vc_option(ctx, "layout"));
    return VC_OK;
}

/* Some codes of the source do not lie as the output's do. */
static bool lays_anew(const struct safetensors_sink *self, const struct vc_dialect *dialect)
{
    for (size_t i = 0; self->source != NULL && i < self->model->n_tensors; i++) {
        const struct vc_dialect *found = vc_finds_at(&self->source->finds, i)->dialect;

        if (self->model->tensors[i].quant != NULL && (found != NULL ? found : &vc_dialect_plain) != dialect) {
            return true;
        }
    }
    return false;
}

/* One file or a folder, and what of the source's folder goes along. Of several workers the first one takes that with
 * it; where files are missing, one that knows the headers of all (the others plan what goes along, for its refusals).
 */
static enum vc_status choose_form(struct vc_ctx *ctx, const struct vc_write_options *options,
                                  struct safetensors_sink *self)
{
    bool from_folder = self->model->folder != NULL;
    size_t n_files = self->source != NULL || from_folder ? self->model->n_shards : 1;

    self->max_shard_bytes = options->max_shard_bytes;
    self->share = options->n_shards != 0;
    self->companions = from_folder;
    self->carrying = from_folder && (options->shard <= 1 || self->model->absent != NULL);
    VC_CALL(vc_outfolder_choose(ctx, options, ".safetensors", from_folder, n_files, &self->in_folder));
    return from_folder && self->in_folder ? vc_infolder_check_whole(ctx, self->model->folder) : VC_OK;
}

/* whole: the folder that the output is a part of; NULL: it is an output of its own. */
static enum vc_status open_output(struct vc_ctx *ctx, const struct vc_model *model,
                                  const struct vc_write_options *options, struct vc_outfolder *whole, const char *name,
                                  struct safetensors_sink *self)
{
    if (options->path == NULL || options->dry_run) {
        return VC_OK;
    }
    if (whole != NULL) {
        return vc_outfolder_part(ctx, whole, name, &self->folder);
    }
    if (self->in_folder) {
        return vc_outfolder_create(ctx, options->path, vc_outfolder_force_of(options), self->share, model,
                                   &self->folder);
    }
    return vc_outfile_open(ctx, options, model, &self->file);
}

enum vc_status vc_safetensors_sink_create(struct vc_ctx *ctx, const struct vc_model *model,
                                          const struct vc_write_options *options, struct vc_sink **out)
{
    return vc_safetensors_sink_create_part(ctx, model, options, NULL, NULL, out);
}

enum vc_status vc_safetensors_sink_create_part(struct vc_ctx *ctx, const struct vc_model *model,
                                               const struct vc_write_options *options, struct vc_outfolder *whole,
                                               const char *name, struct vc_sink **out)
{
    VC_SCOPED struct safetensors_sink *self = NULL;
    VC_SCOPED struct vc_sink *sink = NULL;
    const struct vc_dialect *asked = NULL;
    const struct vc_dialect *dialect = NULL;
    const char *refusal = NULL;
    bool same = vc_format_writes(model, vc_safetensors_sink_create);
    bool unties = false;

    *out = NULL;
    VC_REFUSE_IF(options->deflate != VC_DEFLATE_NONE, ctx, VC_E_ARGUMENT,
                 "safetensors is never compressed; leave %s out, or let the output's name end in .npz",
                 vc_option(ctx, "deflate"));
    VC_CALL(vc_dialect_asked(ctx, options, &asked));
    VC_REFUSE_IF(asked != NULL && (!asked->is_choice || asked->same_parts_as != NULL), ctx, VC_E_ARGUMENT,
                 "safetensors has no such layout");
    VC_CALL_ALLOC(sink = vc_alloc(ctx, VC_TAG_IO, sizeof *sink));
    VC_CALL_ALLOC(self = vc_calloc_array(ctx, VC_TAG_IO, 1, sizeof *self));
    (void)pthread_mutex_init(&self->mutex, NULL);
    vc_text_init(&self->carry.config, ctx);
    self->model = model;
    self->source = same ? model->self : NULL;
    VC_CALL(choose_form(ctx, options, self));
    self->companions = self->companions && self->in_folder;
    self->carrying = self->carrying && self->in_folder;
    VC_CALL(check_described(ctx, self, asked));
    VC_CALL(choose_dialect(ctx, self, asked, options->codes, options->decoded && self->in_folder, &dialect, &refusal));
    if (!same && self->in_folder && model->folder != NULL) { /* in PyTorch files both names are there */
        VC_CALL(vc_hf_carry_unties(ctx, model->folder, &unties));
    }
    VC_CALL(open_output(ctx, model, options, whole, name, self));
    *sink = (struct vc_sink){.ops = &safetensors_sink_ops,
                             .self = self,
                             .format = VC_FORMAT_SAFETENSORS,
                             .dialect = dialect,
                             .refusal = refusal,
                             .accepts_raw = same && !(options->relayout && lays_anew(self, dialect)),
                             .aliases = !unties};
    self = NULL; /* the sink's */
    *out = vc_give(&sink);
    return VC_OK;
}
