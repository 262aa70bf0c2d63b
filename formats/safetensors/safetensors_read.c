/* safetensors_read.c - opens safetensors files as a model: one tensor per header entry (safetensors_header.c), in the
 * order of the data; a single file, or the shards of a folder (infolder.c finds them).
 *
 *     headers of all shards -> entries -> tensors -> packed codes are found and renamed -> manifest, or names ->
 *     other codes -> second names -> entries are packed
 *
 * Values are read by range (safetensors_read): a range of the file as it is, or unpacked codes. */
#include "formats/safetensors/safetensors.h"

#include "core/model/masked_pairs.h"
#include "core/model/names.h"
#include "formats/dialects/comfy.h"
#include "formats/dialects/manifest/manifest.h"
#include "formats/huggingface/config/hf_config.h"
#include "formats/huggingface/families.h"
#include "formats/huggingface/hf_adapter.h"
#include "formats/huggingface/infolder.h"

/* ---- tensors ---- */

/* Checked already: products of the shape fit into 64 bits. */
static void fill_tensor(const struct safetensors_entry *entry, struct vc_tensor *tensor)
{
    tensor->name = entry->name;
    tensor->dtype = vc_safetensors_dtypes[entry->type].dtype;
    tensor->n_dims = entry->n_dims;
    tensor->shape = entry->shape;
    tensor->n_elems = 1;
    for (unsigned d = 0; d < tensor->n_dims; d++) {
        tensor->n_elems *= tensor->shape[d];
    }
    tensor->size_bytes = entry->n_bytes;
    tensor->file_bytes = entry->n_bytes;
    tensor->part_of = VC_NO_TENSOR;
    tensor->alias_of = VC_NO_TENSOR;
}

/* The headers of all shards have been read: their entries become the tensors of the model, in their order. */
static enum vc_status make_tensors(struct vc_ctx *ctx, struct safetensors *self, struct vc_model *model)
{
    VC_CALL(VC_ZEROS(ctx, VC_TAG_NAMES, model->tensors, self->n_entries));
    VC_CALL(VC_ZEROS(ctx, VC_TAG_NAMES, model->io, self->n_entries));
    for (size_t i = 0; i < self->n_entries; i++) {
        VC_CALL(vc_check_cancelled(ctx));
        fill_tensor(&self->entries[i], &model->tensors[i]);
    }
    for (size_t shard = 0; shard < self->n_shards; shard++) {
        for (size_t i = 0; i < self->shards[shard].n; i++) {
            size_t tensor = self->shards[shard].first + i;

            model->io[tensor] =
                (struct vc_tensor_io){.raw_bytes = self->entries[tensor].n_bytes, .shard = (unsigned)shard};
        }
    }
    model->n_tensors = self->n_entries;
    model->n_shards = self->n_shards;
    return vc_model_index_names(ctx, model);
}

/* ---- entries ---- */

/* The tensor is what its entry says, now, and once pairs have been joined. */
static bool shown_as_is(const struct safetensors_entry *entry, const struct vc_tensor *t)
{
    return strcmp(t->name, entry->name) == 0 && !vc_pairs_may_rename(t->name) && t->shape == entry->shape &&
           t->n_dims == entry->n_dims && t->size_bytes == entry->n_bytes &&
           t->dtype == vc_safetensors_dtypes[entry->type].dtype;
}

/* Frees the entries where the tensors say what they did (checked after dialects and manifest): then only offset and
 * type are kept for each tensor. */
static enum vc_status pack_entries(struct vc_ctx *ctx, struct safetensors *self)
{
    size_t n = self->model->n_tensors;
    size_t i = 0;

    while (i < n && shown_as_is(&self->entries[i], &self->model->tensors[i])) {
        i++;
    }
    if (i < n) {
        return VC_OK;
    }
    VC_CALL(VC_ARRAY(ctx, VC_TAG_NAMES, self->offsets, n));
    VC_CALL(VC_ARRAY(ctx, VC_TAG_NAMES, self->types, n));
    for (i = 0; i < n; i++) {
        self->offsets[i] = self->entries[i].offset;
        self->types[i] = self->entries[i].type;
    }
    vc_free(ctx, vc_give(&self->entries));
    return VC_OK;
}

/* ---- what they mean ---- */

/* Where a config.json may lie: a folder, or a file in it. */
static const char *place_of(const struct vc_model *model)
{
    return model->folder != NULL ? vc_infolder_path(model->folder) : model->path;
}

/* For search.h: asks the config.json beside the model, and the metadata. */
static enum vc_status get_hint(struct vc_ctx *ctx, const struct vc_model *model, struct vc_dialect_hint *out)
{
    const struct safetensors *self = model->self;

    VC_CALL(vc_hf_config_hint_beside(ctx, place_of(model), out));
    for (size_t i = 0; i < self->n_shards && out->layers == NULL; i++) {
        out->layers = vc_safetensors_note(&self->shards[i].notes, VC_COMFY_METADATA);
    }
    return VC_OK;
}

/* Whether weights with the names of Conv1D are those of one: config.json is asked where there are any. */
static enum vc_status find_conv1d(struct vc_ctx *ctx, struct vc_model *model)
{
    struct vc_dialect_hint hint;
    size_t i = 0;

    while (i < model->n_tensors && !vc_name_is_conv1d(model->tensors[i].name)) {
        i++;
    }
    if (i < model->n_tensors) {
        VC_CALL(get_hint(ctx, model, &hint));
        model->conv1d = hint.conv1d;
        vc_dialect_hint_release(&hint);
    }
    return VC_OK;
}

/* Which tensors are codes and scales, and which names mean the same tensor: by the names that dialects use, by our
 * manifest or, where no file has one, by names like w.scale. A manifest is freed once it is applied: it may be as large
 * as the header. */
static enum vc_status find_meaning(struct vc_ctx *ctx, struct safetensors *self, struct vc_model *model)
{
    enum vc_status status = VC_OK;
    bool described = false;

    VC_CALL(vc_search_packed(ctx, model, get_hint, &self->finds));
    for (size_t i = 0; i < self->n_shards; i++) {
        struct safetensors_shard *shard = &self->shards[i];

        if (shard->manifest != NULL) {
            described = true;
            if (vc_manifest_apply(ctx, shard->manifest, strlen(shard->manifest), model) != VC_OK) {
                status = vc_context(ctx, "its metadata entry '%s'", VC_MANIFEST_NAME);
                VC_CALL(vc_collect(ctx, status, "manifest", NULL));
            }
            vc_free(ctx, vc_give(&shard->manifest));
        }
    }
    if (!described) {
        VC_CALL(vc_manifest_infer(ctx, model, true));
    }
    VC_CALL(vc_search_codes(ctx, model, get_hint, &self->finds));
    VC_CALL(vc_plain_name_weights(ctx, model));
    VC_CALL(find_conv1d(ctx, model));
    model->adapter_note = self->n_shards == 1 ? vc_safetensors_note(&self->shards[0].notes, VC_HF_ADAPTER_NOTE) : NULL;
    model->dialect = self->finds.read;
    VC_CALL(vc_family_find_beside(ctx, place_of(model), &self->family));
    model->family = &self->family;
    VC_CALL(vc_safetensors_find_names(ctx, self, model));
    return pack_entries(ctx, self);
}

/* ---- reading ---- */

/* Reads the runs of a range of packed codes, one behind the other. */
static enum vc_status read_runs(struct vc_ctx *ctx, const struct safetensors_shard *shard, uint64_t base,
                                const struct vc_packed_place *place, unsigned char *buffer)
{
    for (size_t i = 0; i < place->n_runs; i++) {
        VC_CALL(vc_infile_read(ctx, shard->file, base + place->offset + i * place->stride,
                               buffer + i * place->run_bytes, place->run_bytes));
    }
    return VC_OK;
}

/* Codes of a packed tensor that lie in as many runs as there are columns: as long ones as the range allows, through a
 * buffer of its size. *done: false where there is no room for that, and the small buffer has to do. */
static enum vc_status read_runs_whole(struct vc_ctx *ctx, const struct safetensors_shard *shard, uint64_t base,
                                      const struct vc_packed *p, uint64_t at, void *dst, size_t n, bool *done)
{
    const struct vc_packed_place place = p->packing->place(p, at, n);
    VC_SCOPED unsigned char *buffer = vc_alloc_array(ctx, VC_TAG_IO, place.n_runs, place.run_bytes);

    *done = buffer != NULL;
    if (buffer == NULL) {
        vc_clear_error(ctx);
        return VC_OK;
    }
    VC_CALL(read_runs(ctx, shard, base, &place, buffer));
    p->packing->unpack(p, at, n, buffer, dst);
    return VC_OK;
}

/* Codes of a packed tensor. Where they take as many bytes in the file as in memory they are read into their place and
 * unpacked there; others come through a buffer, in parts that fit it. n: bytes of unpacked codes. A part is halved
 * until its runs fit the small buffer. */
static enum vc_status read_packed(struct vc_ctx *ctx, const struct vc_model *model, size_t tensor, uint64_t at,
                                  void *dst, size_t n)
{
    const struct safetensors *self = model->self;
    const struct safetensors_shard *shard = &self->shards[model->io[tensor].shard];
    const struct vc_packed *p = &vc_finds_at(&self->finds, tensor)->packed;
    uint64_t base = shard->data_offset + vc_safetensors_entry(self, tensor).offset;
    unsigned char buffer[VC_SAFETENSORS_UNPACK_BYTES];
    unsigned char *to = dst;
    bool done = false;

    if (n > sizeof buffer && p->packing->place(p, at, n).n_runs > 1) {
        VC_CALL(read_runs_whole(ctx, shard, base, p, at, dst, n, &done));
        n = done ? 0 : n;
    }
    while (n != 0) {
        size_t part = n;
        struct vc_packed_place place = p->packing->place(p, at, part);
        bool in_place = p->packing->in_place && p->bits == 8 && place.n_runs == 1 && place.run_bytes == part;

        while (!in_place && place.n_runs * place.run_bytes > sizeof buffer) {
            part = (part + 1) / 2;
            place = p->packing->place(p, at, part);
        }
        VC_CALL(read_runs(ctx, shard, base, &place, in_place ? to : buffer));
        p->packing->unpack(p, at, part, in_place ? to : buffer, to);
        to += part;
        at += part;
        n -= part;
    }
    return VC_OK;
}

/* vc_source_ops.read. Values of packed codes are unpacked; everything else is a range of the file. */
static enum vc_status safetensors_read(struct vc_ctx *ctx, const struct vc_model *model, size_t tensor,
                                       enum vc_form form, uint64_t offset, void *dst, size_t n_bytes,
                                       struct vc_check *check)
{
    const struct safetensors *self = model->self;
    const struct safetensors_entry entry = vc_safetensors_entry(self, tensor);
    const struct safetensors_shard *shard = &self->shards[model->io[tensor].shard];
    bool unpack = form == VC_FORM_VALUES && vc_finds_at(&self->finds, tensor)->packed.packing != NULL;
    uint64_t total = unpack ? model->tensors[tensor].size_bytes : entry.n_bytes;
    enum vc_status status = VC_OK;

    VC_REFUSE_IF(model->absent != NULL && model->absent[model->io[tensor].shard] != NULL, ctx, VC_E_UNSUPPORTED,
                 "%s: its values are needed, and %s is not there", entry.name, shard->name);
    VC_REFUSE_IF(offset > total || n_bytes > total - offset, ctx, VC_E_INTERNAL, "%s: a read beyond the tensor",
                 entry.name);
    if (unpack) {
        VC_TRY(read_packed(ctx, model, tensor, offset, dst, n_bytes));
        return VC_OK;
    }
    VC_TRY(vc_infile_read(ctx, shard->file, shard->data_offset + entry.offset + offset, dst, n_bytes));
out:
    return status == VC_OK ? VC_OK : vc_context(ctx, "%s", entry.name);
}

/* vc_source_ops.ahead: values that are not packed. */
static void safetensors_ahead(const struct vc_model *model, size_t tensor, uint64_t offset, uint64_t n_bytes)
{
    const struct safetensors *self = model->self;
    const struct safetensors_shard *shard = &self->shards[model->io[tensor].shard];

    if (vc_finds_at(&self->finds, tensor)->packed.packing == NULL) {
        vc_infile_ahead(shard->file, shard->data_offset + vc_safetensors_entry(self, tensor).offset + offset, n_bytes);
    }
}

/* vc_source_ops.check_rest, for verify: the bits behind the last code of a row are 0. The last word of each row is
 * read, of layouts by rows only. */
static enum vc_status check_tails(struct vc_ctx *ctx, const struct vc_model *model)
{
    const struct safetensors *self = model->self;

    for (size_t i = 0; i < model->n_tensors; i++) {
        const struct vc_packed *p = &vc_finds_at(&self->finds, i)->packed;
        uint64_t n_bits =
            p->packing == &vc_packing_rows ? model->tensors[i].shape[model->tensors[i].n_dims - 1] * p->turned : 0;
        unsigned char word[4] = {0};

        for (uint64_t row = 1; n_bits % 32 != 0 && row <= p->n_rows && vc_le32(word) >> n_bits % 32 == 0; row++) {
            VC_CALL(safetensors_read(ctx, model, i, VC_FORM_RAW, (row * vc_ceil_div_u64(n_bits, 32) - 1) * 4, word, 4,
                                     NULL));
        }
        if (!(vc_le32(word) >> n_bits % 32 == 0 || n_bits % 32 == 0)) {
            VC_CALL(vc_find(ctx, VC_SEVERITY_ERROR, "tail", model->tensors[i].name,
                            "has bits that are not 0 behind the last code of a row: compressed-tensors writes 0"));
        }
    }
    return VC_OK;
}

/* ---- open, close ---- */

/* Takes a model that was opened in part. */
static void safetensors_close(struct vc_model *model)
{
    struct vc_ctx *ctx = model->ctx;
    struct safetensors *self = model->self;

    for (size_t i = 0; i < self->n_shards; i++) {
        struct safetensors_shard *shard = &self->shards[i];

        vc_infile_close(ctx, shard->file);
        vc_safetensors_release_header(ctx, shard);
        vc_free(ctx, shard->name);
    }
    VC_FREE_ALL(ctx, self->shards, self->entries, self->offsets, self->types, model->inputs);
    vc_finds_release(ctx, &self->finds);
    VC_FREE_ALL(ctx, self, model->tensors, model->io);
}

static const struct vc_source_ops safetensors_ops = {
    .read = safetensors_read, .ahead = safetensors_ahead, .close = safetensors_close, .check_rest = check_tails};

/* A length beyond the limit is still taken for a safetensors file where a key follows: the reader says what is wrong.
 * 80 of 100: a length and a brace are weak evidence, but few formats begin so. */
static int safetensors_probe(const unsigned char *head, size_t n, uint64_t file_bytes)
{
    if (n <= VC_SAFETENSORS_PREFIX_BYTES || head[VC_SAFETENSORS_PREFIX_BYTES] != '{') {
        return 0;
    }
    if (vc_le64(head) <= VC_SAFETENSORS_MAX_HEADER) {
        return 80;
    }
    return n > VC_SAFETENSORS_PREFIX_BYTES + 1 && head[VC_SAFETENSORS_PREFIX_BYTES + 1] == '"' ? 20 : 0;
}

/* From here on vc_model_close frees everything. NULL: no memory, and nothing belongs to the model yet. */
static struct safetensors *make_self(struct vc_ctx *ctx, size_t n_shards, struct vc_model *model)
{
    struct safetensors *self = vc_calloc_array(ctx, VC_TAG_NAMES, 1, sizeof *self);

    if (self == NULL) {
        return NULL;
    }
    self->shards = vc_calloc_array(ctx, VC_TAG_NAMES, n_shards, sizeof *self->shards);
    if (self->shards == NULL) {
        vc_free(ctx, self);
        return NULL;
    }
    self->n_shards = n_shards;
    self->model = model;
    model->self = self;
    model->ops = &safetensors_ops;
    return self;
}

/* vc_format.open: a single file, which belongs to self from the third line on. */
static enum vc_status safetensors_open(struct vc_ctx *ctx, struct vc_infile *file,
                                       const struct vc_open_options *options, struct vc_model *model)
{
    struct safetensors *self = make_self(ctx, 1, model);

    /* whatever the options: the format itself says what its raw elements mean */
    if (self == NULL) {
        vc_infile_close(ctx, file);
        return VC_E_NOMEM;
    }
    self->shards[0].file = file;
    VC_CALL(vc_safetensors_read_header(ctx, self, &self->shards[0]));
    VC_CALL(make_tensors(ctx, self, model));
    return find_meaning(ctx, self, model);
}

/* ---- folders ---- */

/* A shard that cannot be read. With findings, also one that is missing is the folder's fault, and the others are
 * looked at. */
static enum vc_status lose_shard(struct vc_ctx *ctx, struct safetensors *self, struct safetensors_shard *shard,
                                 enum vc_status status)
{
    if (shard->n != 0) { /* its entries are the last ones */
        self->n_entries = shard->first;
        shard->n = 0;
    }
    shard->lost = true;
    return vc_collect_missing(ctx, status, "shard", shard->name);
}

/* The file of another worker that is not there. Worker k of n reads shards k, k + n, ...; the folder may lack the
 * others. */
static bool is_absent(const struct vc_open_options *options, const struct vc_model *model, size_t index)
{
    return options != NULL && options->n_shards != 0 && options->headers != NULL &&
           index % options->n_shards != options->shard - 1 && !vc_infolder_has_shard(model->folder, index);
}

/* ... of which the output's folder may have the header. The tensors of such a header are known and have no values.
 * Without a header the shard is lost. */
static enum vc_status open_absent(struct vc_ctx *ctx, struct safetensors *self, size_t index,
                                  const struct vc_open_options *options, struct vc_model *model)
{
    struct safetensors_shard *shard = &self->shards[index];
    enum vc_status status;
    bool there = false;

    if (model->absent == NULL) {
        VC_CALL(VC_ZEROS(ctx, VC_TAG_NAMES, model->absent, self->n_shards));
    }
    model->absent[index] = shard->name;
    shard->header_only = true;
    status = vc_safetensors_open_kept(ctx, &model->arena, options->headers, shard->name, &there, &shard->file);
    shard->lost = !there;
    if (status != VC_OK || (there && vc_safetensors_read_header(ctx, self, shard) != VC_OK)) {
        return vc_context(ctx, "header of %s", shard->name);
    }
    vc_infile_close(ctx, shard->file); /* an input does not lie in the output's folder */
    shard->file = NULL;
    return VC_OK;
}

/* Opens shard number `index`, checks that it is safetensors, and reads its header. */
static enum vc_status open_shard(struct vc_ctx *ctx, struct safetensors *self, size_t index,
                                 const struct vc_open_options *options, struct vc_model *model)
{
    struct safetensors_shard *shard = &self->shards[index];
    enum vc_status status = VC_OK;

    VC_CALL_ALLOC(shard->name = vc_strdup(ctx, VC_TAG_NAMES, vc_infolder_shard(model->folder, index)));
    if (is_absent(options, model, index)) {
        return open_absent(ctx, self, index, options, model);
    }
    status = vc_infolder_open(ctx, model->folder, shard->name, &shard->file);
    if (status == VC_OK) {
        model->inputs[index] = shard->file;
        model->file_bytes += shard->file->size_bytes;
        status = model->expect(ctx, shard->file, &vc_format_safetensors);
        status = status == VC_OK ? vc_safetensors_read_header(ctx, self, shard) : status;
    }
    return status == VC_OK ? VC_OK : lose_shard(ctx, self, shard, vc_context(ctx, "%s", shard->name));
}

/* Each tensor lies in the file that the index names. */
static enum vc_status check_index(struct vc_ctx *ctx, const struct safetensors *self, struct vc_model *model)
{
    VC_SCOPED bool *lost = vc_calloc_array(ctx, VC_TAG_NAMES, self->n_shards, sizeof *lost);

    VC_CALL_ALLOC(lost);
    for (size_t i = 0; i < self->n_shards; i++) {
        lost[i] = self->shards[i].lost;
    }
    return vc_infolder_check_index(ctx, model->folder, lost, model);
}

/* Where files are missing, what is in them has to be known by its name: plain weights that keep their names. */
static enum vc_status check_absent(struct vc_ctx *ctx, const struct vc_model *model)
{
    const char *name = NULL;

    for (size_t i = 0; i < model->n_tensors + model->n_unseen && name == NULL; i++) {
        const struct vc_tensor *t = i < model->n_tensors ? &model->tensors[i] : NULL;
        const char *one = t != NULL ? t->name : model->unseen[i - model->n_tensors].name;

        name =
            (t != NULL && t->quant != NULL) || vc_name_is_quantized_part(one) || vc_pairs_may_rename(one) ? one : NULL;
    }
    return name == NULL ? VC_OK
                        : vc_fail(ctx, VC_E_UNSUPPORTED,
                                  "%s: is quantized or masked already, and such tensors belong together: %s takes them "
                                  "where all files are there",
                                  name, vc_option(ctx, "shard"));
}

/* model->folder has the shards (infolder.c). */
enum vc_status vc_safetensors_open_folder(struct vc_ctx *ctx, const struct vc_open_options *options,
                                          struct vc_model *model)
{
    size_t n = vc_infolder_shard_count(model->folder);
    struct safetensors *self = make_self(ctx, n, model);

    VC_CALL_ALLOC(self);
    VC_CALL(VC_ZEROS(ctx, VC_TAG_NAMES, model->inputs, n));
    model->n_inputs = n;
    for (size_t i = 0; i < n; i++) {
        VC_CALL(open_shard(ctx, self, i, options, model));
    }
    VC_CALL(make_tensors(ctx, self, model));
    VC_CALL(check_index(ctx, self, model));
    VC_CALL(find_meaning(ctx, self, model));
    return model->absent != NULL ? check_absent(ctx, model) : VC_OK;
}

const struct vc_format vc_format_safetensors = {.name = VC_FORMAT_SAFETENSORS,
                                                .title = "safetensors",
                                                .extensions = (const char *const[]){".safetensors", NULL},
                                                .probe = safetensors_probe,
                                                .open = safetensors_open,
                                                .stream_end = vc_safetensors_stream_end,
                                                .create_sink = vc_safetensors_sink_create,
                                                .own_metadata = "vcompress* _quantization_metadata",
                                                .divides = true,
                                                .dialect = &vc_dialect_plain};
