/* gguf_read.c - opens a GGUF file, or several that belong together, as a model: one tensor per entry, dimensions turned
 * round to NumPy's order. The bytes: gguf.h.
 *
 *     vc_model_open -> gguf_open -> gguf_split.c finds the files
 *                                -> first walk over the entries of each: check everything, count names
 *                                -> second walk: store them in memory of exactly that size
 *     passes        -> gguf_read: a range of a tensor's data, from any thread
 *
 * As strict as the loader that these files are made for: offsets have to be the running sum of padded sizes in the
 * order of the entries, names are short, rows are whole blocks. What this reader lets through, llama.cpp opens. */

#include "arch/arch_family.h"
#include "core/base/findings.h"
#include "core/model/shapes.h"
#include "formats/dialects/dialects.h"
#include "formats/gguf/gguf.h"

/* ---- one tensor entry ---- */

/* A tensor entry while it is read. In the file: u64 length and name, u32 number of dimensions, the dimensions fastest
 * first (u64 each), u32 type, u64 offset in the data. */
struct entry {
    char name[VC_GGUF_NAME_OF_PICTURES + 1];
    size_t name_bytes;
    uint32_t n_dims;
    uint64_t shape[VC_GGUF_DIMS_OF_PICTURES]; /* NumPy's order */
    enum vc_dtype dtype;
    uint64_t offset, n_elems, size_bytes;
    bool broken; /* only while findings are collected: it is left out */
};

/* Reads the name. One that is no UTF-8 is a finding (its entry can still be skipped); one that is too long is not,
 * because the end of its entry would not be known. */
static enum vc_status take_name(struct gguf_cursor *cursor, struct entry *entry)
{
    uint64_t n = 0;

    VC_CALL(vc_gguf_take_u64(cursor, &n));
    VC_REFUSE_IF(n > VC_GGUF_NAME_OF_PICTURES, cursor->ctx, VC_E_FORMAT,
                 "%s: its name has %" PRIu64 " bytes; %d are allowed", vc_gguf_where(cursor), n,
                 VC_GGUF_NAME_OF_PICTURES);
    entry->name_bytes = (size_t)n;
    VC_CALL(vc_gguf_take(cursor, entry->name, entry->name_bytes));
    entry->name[n] = '\0';
    entry->broken = !vc_utf8_valid(entry->name, entry->name_bytes);
    if (entry->broken) {
        enum vc_status status = vc_fail(cursor->ctx, VC_E_FORMAT, "%s: its name is no UTF-8", vc_gguf_where(cursor));
        (void)snprintf(entry->name, sizeof entry->name, "%.*s", VC_GGUF_NAME_OF_PICTURES, cursor->where);
        return vc_collect(cursor->ctx, status, "name", entry->name);
    }
    cursor->tensor = entry->name;
    return VC_OK;
}

/* Reads the dimensions into NumPy's order and counts the elements; 2^63 or more are refused here, so that later
 * products of sizes cannot wrap. */
static enum vc_status take_shape(struct gguf_cursor *cursor, struct entry *entry)
{
    VC_CALL(vc_gguf_take_u32(cursor, &entry->n_dims));
    VC_REFUSE_IF(entry->n_dims > VC_GGUF_DIMS_OF_PICTURES, cursor->ctx, VC_E_FORMAT,
                 "%s: has %" PRIu32 " dimensions; %d are allowed", entry->name, entry->n_dims,
                 VC_GGUF_DIMS_OF_PICTURES);
    entry->n_elems = 1;
    for (uint32_t d = entry->n_dims; d-- > 0;) { /* the fastest dimension comes first in the file */
        VC_CALL(vc_gguf_take_u64(cursor, &entry->shape[d]));
        VC_REFUSE_IF(!vc_mul_u64(entry->n_elems, entry->shape[d], &entry->n_elems) || entry->shape[d] > INT64_MAX ||
                         entry->n_elems > INT64_MAX,
                     cursor->ctx, VC_E_FORMAT, "%s: its shape has 2^63 elements or more", entry->name);
    }
    return VC_OK;
}

/* Rows are whole blocks (a Q4_0 block has 32 elements), and the tensor is below 2^63 bytes. Sets size_bytes. */
static enum vc_status check_size(struct vc_ctx *ctx, struct entry *entry)
{
    uint64_t row = entry->n_dims == 0 ? 1 : entry->shape[entry->n_dims - 1];
    size_t block_elems = vc_dtype_facts(entry->dtype)->block_elems;

    VC_REFUSE_IF(row % block_elems != 0, ctx, VC_E_FORMAT,
                 "%s: its rows have %" PRIu64 " elements; %s has blocks of %zu", entry->name, row,
                 vc_dtype_name(entry->dtype), block_elems);
    entry->size_bytes = vc_dtype_bytes(entry->dtype, entry->n_elems);
    VC_REFUSE_IF(entry->size_bytes > INT64_MAX, ctx, VC_E_FORMAT, "%s: its shape needs 2^63 bytes or more",
                 entry->name);
    return VC_OK;
}

/* Reports a violation after which the next entry can still be found. Without findings it is the failure that it was;
 * with findings it is noted and the entry is left out of the model. */
static enum vc_status note(const struct gguf_cursor *cursor, struct entry *entry, const char *id, enum vc_status status)
{
    entry->broken = entry->broken || status != VC_OK;
    return vc_collect(cursor->ctx, status, id, entry->name);
}

/* One entry: everything in it is checked but its offset, which add_entry compares with the tensors before it. */
static enum vc_status take_entry(struct gguf_cursor *cursor, struct entry *entry)
{
    uint32_t type = 0;

    VC_CALL(take_name(cursor, entry));
    VC_CALL(take_shape(cursor, entry));
    VC_CALL(vc_gguf_take_u32(cursor, &type));
    entry->dtype = vc_gguf_dtype(type);
    VC_CALL(vc_gguf_take_u64(cursor, &entry->offset));
    if (entry->dtype == VC_DTYPE_NONE) {
        enum vc_status status = vc_fail(cursor->ctx, VC_E_UNSUPPORTED,
                                        "%s: its type has number %" PRIu32 ", which is not known", entry->name, type);
        return note(cursor, entry, "dtype", status);
    }
    return entry->broken ? VC_OK : note(cursor, entry, "shape", check_size(cursor->ctx, entry));
}

/* ---- all entries ---- */

/* What a walk over the entries adds up. The first walk tells the second how much memory names and shapes need. */
struct sums {
    uint64_t n_tensors;
    uint64_t name_bytes;
    uint64_t data_bytes; /* the last tensor's padding included */
    uint64_t last_end;   /* ... and without it */
    bool unsure;         /* the size of the tensor before is not known: findings are collected, and it is broken */
    bool incomplete;     /* ... or of any tensor */
};

/* Tensors follow each other without holes, each padded to the alignment: the entry's offset has to be where the one
 * before it ended. Behind a broken entry that is not known, so nothing is compared. */
static enum vc_status add_entry(struct vc_ctx *ctx, const struct entry *entry, uint32_t alignment, struct sums *sums)
{
    uint64_t last, end;

    if (entry->offset != sums->data_bytes && !sums->unsure) {
        bool overlap = entry->offset < sums->data_bytes;
        enum vc_status status =
            vc_fail(ctx, VC_E_FORMAT, "%s: starts at byte %" PRIu64 " of the data, expected %" PRIu64 " (%s)",
                    entry->name, entry->offset, sums->data_bytes,
                    overlap ? "it overlaps the tensor before it" : "there is a hole before it");

        VC_CALL(vc_collect(ctx, status, overlap ? "overlap" : "hole", entry->name));
    }
    VC_REFUSE_IF(!vc_add_u64(entry->offset, entry->size_bytes, &last) || !vc_round_up_u64(last, alignment, &end) ||
                     end > INT64_MAX,
                 ctx, VC_E_FORMAT, "%s: ends behind byte 2^63 of the data", entry->name);
    sums->data_bytes = end;
    sums->last_end = vc_max_u64(sums->last_end, last);
    sums->name_bytes += entry->name_bytes + 1;
    return VC_OK;
}

/* Where the second walk puts the next tensor of the model. */
struct store {
    struct gguf *self;
    struct vc_model *model;
    unsigned shard;
    char *names;
    struct vc_shapes shapes;
};

/* The entry becomes tensor number model->n_tensors. Its name is copied into the block that `allocate` made. */
static enum vc_status store_entry(struct vc_ctx *ctx, const struct entry *entry, struct store *to)
{
    struct vc_model *model = to->model;
    size_t i = model->n_tensors;
    char *name = to->names;
    const uint64_t *shape = vc_shapes_keep(ctx, &to->self->arena, &to->shapes, entry->shape, entry->n_dims);

    VC_CALL_ALLOC(shape);
    memcpy(name, entry->name, entry->name_bytes + 1);
    to->names += entry->name_bytes + 1;
    model->n_tensors++;
    to->self->offsets[i] = entry->offset;
    model->tensors[i] = (struct vc_tensor){.name = name,
                                           .dtype = entry->dtype,
                                           .n_dims = entry->n_dims,
                                           .shape = shape,
                                           .n_elems = entry->n_elems,
                                           .size_bytes = entry->size_bytes,
                                           .file_bytes = entry->size_bytes,
                                           .part_of = VC_NO_TENSOR,
                                           .alias_of = VC_NO_TENSOR};
    model->io[i] = (struct vc_tensor_io){.raw_bytes = entry->size_bytes, .shard = to->shard};
    return VC_OK;
}

/* Goes over the entries from the cursor on; called twice for each file. First with `to` NULL: everything is checked and
 * counted. Then with room for what was `counted`: the entries are stored. The sums are compared in the second walk,
 * because the file may have been changed in between. */
static enum vc_status walk_entries(struct gguf_cursor *cursor, uint32_t alignment, struct store *to,
                                   const struct sums *counted, struct sums *sums)
{
    struct entry entry = {.broken = false};
    enum vc_status status = VC_OK;

    for (uint64_t i = 0; i < sums->n_tensors; i++) {
        cursor->entry = i + 1;
        cursor->n_entries = sums->n_tensors;
        cursor->tensor = NULL;
        VC_TRY(vc_check_cancelled(cursor->ctx));
        VC_TRY(take_entry(cursor, &entry));
        if (entry.broken) {
            sums->unsure = true;
            sums->incomplete = true;
            continue;
        }
        VC_TRY(add_entry(cursor->ctx, &entry, alignment, sums));
        sums->unsure = false;
        VC_REFUSE_IF(to != NULL && (sums->name_bytes > counted->name_bytes || sums->last_end > counted->last_end),
                     cursor->ctx, VC_E_FORMAT, "was changed while it was read");
        if (to != NULL) {
            VC_TRY(store_entry(cursor->ctx, &entry, to));
        }
    }
out:
    cursor->entry = 0;
    cursor->tensor = NULL;
    return status;
}

/* Makes the tables of the model, as large as the first walk said. */
static enum vc_status allocate(struct vc_ctx *ctx, const struct sums *sums, struct gguf *self, struct vc_model *model)
{
    size_t n = (size_t)sums->n_tensors;

    VC_CALL(VC_ZEROS(ctx, VC_TAG_NAMES, model->tensors, n));
    VC_CALL(VC_ZEROS(ctx, VC_TAG_NAMES, model->io, n));
    VC_CALL(VC_ARRAY(ctx, VC_TAG_NAMES, self->offsets, n));
    VC_CALL_ALLOC(self->names = vc_alloc(ctx, VC_TAG_NAMES, (size_t)sums->name_bytes));
    return VC_OK;
}

/* The data begins at the next multiple of the alignment behind the entries and reaches to the end of the file: not one
 * byte less than the tensors need, and not more than their last padding. */
static enum vc_status check_data(struct vc_ctx *ctx, struct gguf_shard *shard, uint64_t entries_end,
                                 const struct sums *sums)
{
    uint64_t size = shard->file->size_bytes;

    if (!vc_round_up_u64(entries_end, shard->metadata.alignment, &shard->data_offset) || shard->data_offset > size) {
        shard->data_offset = size; /* without data its padding may be missing */
    }
    uint64_t n = size - shard->data_offset;
    VC_REFUSE_IF(n < sums->last_end, ctx, VC_E_FORMAT,
                 "ends inside its tensors: they need %" PRIu64 " bytes, the file has %" PRIu64, sums->last_end, n);
    VC_REFUSE_IF(n > sums->data_bytes && !sums->incomplete, ctx, VC_E_FORMAT,
                 "has %" PRIu64 " bytes behind its last tensor", n - sums->data_bytes);
    return VC_OK;
}

/* ---- the file ---- */

/* What the first walk over a file leaves for the second. */
struct walk {
    struct sums sums;
    uint64_t entries; /* where they begin */
};

/* The first walk over one file. Facts for `inspect` come from the first file only. With findings, a failure that ends
 * the walk says at which byte that was. */
static enum vc_status check_shard(struct vc_ctx *ctx, struct gguf *self, size_t index, struct vc_model *model,
                                  struct walk *walk)
{
    struct gguf_shard *shard = &self->shards[index];
    struct gguf_cursor cursor = {.ctx = ctx};
    enum vc_status status;

    VC_TRY(vc_gguf_cursor_init(ctx, shard->file, &cursor));
    VC_TRY(vc_gguf_read_head(&cursor, index == 0 ? model : NULL, &walk->sums.n_tensors, &shard->metadata));
    walk->entries = cursor.at;
    VC_TRY(walk_entries(&cursor, shard->metadata.alignment, NULL, NULL, &walk->sums));
    VC_TRY(vc_collect(ctx, check_data(ctx, shard, cursor.at, &walk->sums), "size", NULL));
out:
    vc_gguf_cursor_release(&cursor);
    if (status == VC_E_FORMAT && vc_collecting(ctx)) {
        (void)vc_context(ctx, "byte %" PRIu64, cursor.at); /* where the list of findings ends */
    }
    return status;
}

/* The second walk over one file. */
static enum vc_status store_shard(struct vc_ctx *ctx, const struct walk *walk, struct store *to)
{
    const struct gguf_shard *shard = &to->self->shards[to->shard];
    struct sums again = {.n_tensors = walk->sums.n_tensors};
    VC_SCOPED_CURSOR struct gguf_cursor cursor = {.ctx = ctx};

    VC_CALL(vc_gguf_cursor_init(ctx, shard->file, &cursor));
    cursor.at = walk->entries;
    return walk_entries(&cursor, shard->metadata.alignment, to, &walk->sums, &again);
}

/* vc_format.stream_end: the first walk over what has come, once there is twice as much as the last time. Where entries
 * are broken (findings leave them out) nothing tells where the data ends. */
static enum vc_status gguf_stream_end(struct vc_ctx *ctx, const struct vc_infile *so_far, struct vc_stream_end *end)
{
    struct gguf_metadata metadata = {.n_pairs = 0};
    struct sums sums = {0};
    struct gguf_cursor cursor = {.ctx = ctx};
    uint64_t data = 0;
    enum vc_status status;

    end->need = 2 * so_far->size_bytes;
    VC_TRY(vc_gguf_cursor_init(ctx, so_far, &cursor));
    VC_TRY(vc_gguf_read_head(&cursor, NULL, &sums.n_tensors, &metadata));
    VC_TRY(walk_entries(&cursor, metadata.alignment, NULL, NULL, &sums));
    end->need = UINT64_MAX;
    if (!sums.incomplete && vc_round_up_u64(cursor.at, metadata.alignment, &data)) {
        end->end = data + sums.data_bytes;
    }
out:
    vc_gguf_cursor_release(&cursor);
    if (status == VC_E_FORMAT && cursor.cut) {
        vc_clear_error(ctx);
        status = VC_OK;
    }
    return status;
}

/* The first walk over all files. A file that cannot be read is left out where findings are collected; then the numbers
 * of split.tensors.count are not compared. */
static enum vc_status check_shards(struct vc_ctx *ctx, struct gguf *self, struct vc_model *model, struct walk *walks,
                                   struct sums *total)
{
    bool lost = false;
    enum vc_status status = VC_OK;

    for (size_t i = 0; i < self->n_shards; i++) {
        struct sums *sums = &walks[i].sums;

        status = self->shards[i].file != NULL ? check_shard(ctx, self, i, model, &walks[i]) : VC_OK;
        if (status != VC_OK || self->shards[i].file == NULL) {
            lost = true;
            *sums = (struct sums){0};
            VC_CALL(vc_gguf_in_shard(ctx, &self->shards[i], status));
        }
        lost = lost || sums->incomplete;
        VC_REFUSE_IF(!vc_add_u64(total->n_tensors, sums->n_tensors, &total->n_tensors) ||
                         !vc_add_u64(total->name_bytes, sums->name_bytes, &total->name_bytes),
                     ctx, VC_E_FORMAT, "has more than 2^64 tensors");
    }
    return lost ? VC_OK : vc_collect(ctx, vc_gguf_check_split(ctx, self, total->n_tensors), "split", NULL);
}

/* For `inspect`: how many files the model has. */
static enum vc_status tell_division(struct vc_ctx *ctx, const struct gguf *self, struct vc_model *model)
{
    if (self->n_shards == 1) {
        return VC_OK;
    }
    model->n_shards = self->n_shards;
    return vc_model_add_fact(ctx, model, "shards", "%zu files", self->n_shards);
}

/* Both walks. Findings are muted in the second, which would find the same again. */
static enum vc_status read_shards(struct vc_ctx *ctx, struct gguf *self, struct vc_model *model)
{
    struct walk *walks = vc_calloc_array(ctx, VC_TAG_NAMES, self->n_shards, sizeof *walks);
    struct sums total = {0};
    struct store to = {.self = self, .model = model};
    enum vc_status status = VC_OK;

    VC_TRY_ALLOC(walks);
    VC_TRY(check_shards(ctx, self, model, walks, &total));
    VC_TRY(allocate(ctx, &total, self, model));
    to.names = self->names;
    vc_findings_mute(ctx, true);
    for (; to.shard < self->n_shards; to.shard++) {
        if (walks[to.shard].sums.n_tensors != 0) {
            VC_TRY(store_shard(ctx, &walks[to.shard], &to));
        }
    }
    VC_TRY(tell_division(ctx, self, model));
out:
    vc_findings_mute(ctx, false);
    vc_free(ctx, walks);
    return status;
}

/* vc_source_ops.read. Raw bytes and values are the same here: blocks and little-endian numbers, as passes want them.
 * There is no checksum to compare, so `check` is not used. */
static enum vc_status gguf_read(struct vc_ctx *ctx, const struct vc_model *model, size_t tensor, enum vc_form form,
                                uint64_t offset, void *dst, size_t n_bytes, struct vc_check *check)
{
    const struct gguf *self = model->self;
    const struct gguf_shard *shard = &self->shards[model->io[tensor].shard];
    const struct vc_tensor *t = &model->tensors[tensor];
    enum vc_status status = VC_OK;

    /* both forms are the bytes of the data */
    VC_REFUSE_IF(offset > t->size_bytes || n_bytes > t->size_bytes - offset, ctx, VC_E_INTERNAL,
                 "%s: a read beyond the tensor", t->name);
    VC_TRY(vc_infile_read(ctx, shard->file, shard->data_offset + self->offsets[tensor] + offset, dst, n_bytes));
out:
    return status == VC_OK ? VC_OK : vc_context(ctx, "%s", t->name);
}

/* vc_source_ops.close: everything that gguf_open and its helpers made. */
static void gguf_close(struct vc_model *model)
{
    struct vc_ctx *ctx = model->ctx;
    struct gguf *self = model->self;

    for (size_t i = 0; i < self->n_shards; i++) {
        vc_infile_close(ctx, self->shards[i].file);
    }
    VC_FREE_ALL(ctx, self->shards, model->inputs);
    vc_arena_release(ctx, &self->arena);
    VC_FREE_ALL(ctx, self->offsets, self->names, self, model->tensors, model->io);
}

static const struct vc_source_ops gguf_ops = {.read = gguf_read, .close = gguf_close, .program = vc_gguf_program};

/* vc_format.probe. Four bytes are enough: nothing else begins with "GGUF". */
static int gguf_probe(const unsigned char *head, size_t n, uint64_t file_bytes)
{
    return n >= 4 && memcmp(head, "GGUF", 4) == 0 ? 100 : 0;
}

/* Which program runs it, by its architecture. "unknown" is that of what this program makes of models of other formats,
 * with their names. A file that names none is taken for one of llama.cpp's. */
static void set_loader(struct vc_model *model)
{
    for (size_t i = 0; i < model->n_facts; i++) {
        const char *program = vc_arch_gguf_program(model->facts[i].value);

        if (strcmp(model->facts[i].key, "architecture") == 0) {
            model->loader =
                program != NULL ? (struct vc_loader){.program = program, .tried = "gguf 0.19.0"} : vc_gguf_other_loader;
        }
    }
}

/* vc_format.open. */
static enum vc_status gguf_open(struct vc_ctx *ctx, struct vc_infile *file, const struct vc_open_options *options,
                                struct vc_model *model)
{
    struct gguf *self = vc_calloc_array(ctx, VC_TAG_NAMES, 1, sizeof *self);

    /* whatever the options: the format itself says what its elements mean */
    if (self == NULL) {
        vc_infile_close(ctx, file);
        return VC_E_NOMEM;
    }
    model->self = self;
    model->ops = &gguf_ops; /* from here on vc_model_close frees everything */
    VC_CALL(vc_gguf_open_files(ctx, file, self, model));
    VC_CALL(read_shards(ctx, self, model));
    for (size_t i = 0; i < self->n_shards; i++) {
        if (self->shards[i].metadata.has_shapes) {
            VC_CALL(vc_model_index_names(ctx, model));
            VC_CALL(vc_gguf_restore_shapes(ctx, &self->shards[i], &self->arena, model));
        }
    }
    VC_CALL(vc_gguf_attach_scales(ctx, model));
    set_loader(model);
    if (self->shards[0].metadata.known[GGUF_FILE_TYPE].end != 0 &&
        !vc_gguf_file_type_fits(model, self->shards[0].metadata.values[GGUF_FILE_TYPE])) {
        return vc_find(ctx, VC_SEVERITY_WARNING, "file-type", NULL,
                       "general.file_type says a type that no tensor has: llama.cpp shows and keeps it");
    }
    return VC_OK;
}

const struct vc_format vc_format_gguf = {.name = VC_FORMAT_GGUF,
                                         .title = "GGUF",
                                         .extensions = (const char *const[]){".gguf", NULL},
                                         .probe = gguf_probe,
                                         .open = gguf_open,
                                         .stream_end = gguf_stream_end,
                                         .create_sink = vc_gguf_sink_create,
                                         .own_metadata = "general.architecture general.alignment general.file_type "
                                                         "general.quantization_version split.* vcompress*",
                                         .divides = true,
                                         .dialect = &vc_dialect_gguf};
