/* safetensors_files.c - see safetensors_files.h. Knows names and sizes; opens nothing.
 *
 *     {"__metadata__":{"format":"pt","vcompress.json":"..."},"w":{"dtype":"I8","shape":[2,4],"data_offsets":[0,8]}}
 *
 * is the header of a file with one tensor; blanks follow, so that the data begins at a multiple of 64.
 *
 * assign() decides how many files there are and which record goes where; make_headers() writes the headers, which give
 * each record its offset. With sizes_only texts are counted, not kept. */
#include "formats/safetensors/safetensors_files.h"

#include "formats/dialects/manifest/manifest.h"
#include "formats/huggingface/infolder.h"
#include "formats/io/numbered_name.h"

#define VC_SAFETENSORS_ALIGN ((size_t)64)

/* ---- which file ---- */

/* The source tensor of the output that a record belongs to: constants follow the scales of their module. The first
 * record is no constant, so the loop ends. */
static size_t source_of(const struct safetensors_plan *plan, size_t record)
{
    while (plan->records->records[record].out == VC_SAFETENSORS_CONSTANT) {
        record--;
    }
    return vc_out_at(plan->outs, plan->records->records[record].out).source;
}

/* Every record goes to the file that its source tensor lies in. */
static void keep_shards(const struct safetensors_plan *plan)
{
    for (size_t i = 0; i < plan->records->n; i++) {
        plan->records->records[i].file = plan->model->io[source_of(plan, i)].shard;
    }
}

/* The record as the header will say it. */
static struct safetensors_entry entry_of(const struct safetensors_plan *plan, size_t record)
{
    return vc_safetensors_record_entry(plan->records, &plan->records->records[record]);
}

/* The source tensor that decides which file a record goes to: scales go where their weight goes. */
static size_t owner_of(const struct safetensors_plan *plan, size_t record)
{
    size_t source = source_of(plan, record);
    size_t owner = plan->model->tensors[source].part_of;

    return owner != VC_NO_TENSOR ? owner : source;
}

struct share {
    uint64_t n_bytes; /* of a weight with all that belongs to it */
    size_t file;      /* from 1 on; 0: not decided */
};

/* Fills files up to max_shard_bytes in the order of the records; a weight with its scales is not divided. First all
 * sizes are summed by weight, then files are filled: a weight that is larger than a file gets a file of its own. */
static enum vc_status divide(struct vc_ctx *ctx, const struct safetensors_plan *plan, size_t *n_files)
{
    VC_SCOPED struct share *shares = vc_calloc_array(ctx, VC_TAG_NAMES, plan->model->n_tensors, sizeof *shares);
    uint64_t in_file = 0;

    VC_CALL_ALLOC(shares);
    *n_files = 1;
    for (size_t i = 0; i < plan->records->n; i++) {
        struct share *share = &shares[owner_of(plan, i)];

        if (!vc_add_u64(share->n_bytes, entry_of(plan, i).n_bytes, &share->n_bytes)) {
            share->n_bytes = UINT64_MAX; /* refused when its place is looked for */
        }
    }
    for (size_t i = 0; i < plan->records->n; i++) {
        struct share *share = &shares[owner_of(plan, i)];

        if (share->file == 0) {
            if (in_file != 0 && share->n_bytes > plan->max_shard_bytes - vc_min_u64(in_file, plan->max_shard_bytes)) {
                ++*n_files;
                in_file = 0;
            }
            share->file = *n_files;
            in_file += share->n_bytes;
        }
        plan->records->records[i].file = (uint32_t)(share->file - 1);
    }
    return VC_OK;
}

/* Whether passes have left a shard of the source without tensors, where its name counts: "-00002-of-00003". Those of
 * other workers count. Only edits of layers empty a shard. */
static bool is_renumbered(const struct safetensors_plan *plan, const struct safetensors_files *to)
{
    struct vc_numbered_name name;
    size_t i = 0;

    while (i < to->n && to->files[i].n_all != 0) {
        i++;
    }
    return i < to->n && vc_edit_find(plan->outs->edits, plan->outs->n_edits, VC_EDIT_LAYERS) != NULL &&
           vc_numbered_name_parse(vc_infolder_out_shard(plan->model->folder, i), NULL, &name);
}

/* The next of the numbered names of shards that have tensors. */
static const char *number_file(struct vc_ctx *ctx, const struct safetensors_plan *plan, struct safetensors_files *to,
                               size_t index)
{
    size_t number = 0;
    size_t count = 0;

    for (size_t i = 0; i < to->n; i++) {
        number += i <= index && to->files[i].n_all != 0;
        count += to->files[i].n_all != 0;
    }
    return vc_arena_printf(ctx, &to->arena, VC_NUMBERED_FORMAT, (int)strlen(plan->prefix), plan->prefix,
                           (unsigned long)number, (unsigned long)count, ".safetensors");
}

/* Names of files in a folder: those of the source's shards where the output is divided like it, numbers otherwise. */
static enum vc_status name_files(struct vc_ctx *ctx, const struct safetensors_plan *plan, struct safetensors_files *to)
{
    bool kept = plan->max_shard_bytes == 0 && plan->model->folder != NULL;
    bool renumbered = plan->in_folder && kept && is_renumbered(plan, to);

    for (size_t i = 0; plan->in_folder && i < to->n; i++) {
        to->files[i].name = kept && !renumbered   ? vc_infolder_out_shard(plan->model->folder, i)
                            : !kept && to->n == 1 ? vc_arena_printf(ctx, &to->arena, "%s.safetensors", plan->prefix)
                                                  : number_file(ctx, plan, to, i);
        VC_CALL_ALLOC(to->files[i].name);
    }
    return VC_OK;
}

/* Decides how the output is divided, and which file each record goes to. */
static enum vc_status assign(struct vc_ctx *ctx, const struct safetensors_plan *plan, struct safetensors_files *to)
{
    size_t n = 1;

    if (plan->in_folder && plan->max_shard_bytes != 0) {
        VC_CALL(divide(ctx, plan, &n));
    } else if (plan->in_folder && plan->model->folder != NULL) {
        n = plan->model->n_shards;
        keep_shards(plan);
    }
    VC_CALL(VC_ZEROS(ctx, VC_TAG_NAMES, to->files, n));
    to->n = n;
    for (size_t i = 0; i < n; i++) {
        vc_text_init(&to->files[i].header, ctx);
        to->files[i].header.counting = plan->sizes_only;
        atomic_init(&to->files[i].got, 0);
    }
    for (size_t i = 0; i < plan->records->n; i++) {
        to->files[plan->records->records[i].file].n_records++;
        to->files[plan->records->records[i].file].n_all++;
    }
    for (size_t i = 0; i < plan->outs->n_other_shards && n > 1; i++) {
        to->files[plan->model->io[plan->outs->other_shards[i].source].shard].n_all++;
    }
    return name_files(ctx, plan, to);
}

/* ---- headers ---- */

/* The file that an output goes to. */
static size_t file_of(const struct safetensors_plan *plan, size_t out)
{
    return plan->records->records[plan->records->of_out[out]].file;
}

/* Codes that neither their name nor a dialect's configuration tells how to read. */
static bool needs_manifest(const struct safetensors_plan *plan, size_t out)
{
    return vc_out_at(plan->outs, out).quant != NULL && !vc_out_at(plan->outs, out).alias && !plan->records->told[out];
}

/* The metadata entry that says how the plain quantized tensors of this file are to be read. Second names are described
 * by their first one, so they are left out. */
static enum vc_status add_manifest(struct vc_ctx *ctx, const struct safetensors_plan *plan, size_t file,
                                   struct vc_text *text)
{
    size_t n = plan->outs->n;
    VC_SCOPED bool *told = NULL;
    VC_SCOPED const char **names = NULL;
    VC_SCOPED_TEXT struct vc_text manifest = {.ctx = ctx};
    size_t i = 0;

    if (!plan->records->any_untold) {
        return VC_OK;
    }
    while (i < n && !(needs_manifest(plan, i) && file_of(plan, i) == file)) {
        i++;
    }
    if (i == n) {
        return VC_OK;
    }
    VC_CALL(VC_ZEROS(ctx, VC_TAG_NAMES, told, n));
    VC_CALL(VC_ZEROS(ctx, VC_TAG_NAMES, names, n));
    for (i = 0; i < n; i++) {
        names[i] = plan->records->records[plan->records->of_out[i]].name; /* second names are told */
        told[i] = !needs_manifest(plan, i) || file_of(plan, i) != file;
    }
    VC_CALL(vc_manifest_write_quantized(ctx, plan->outs, told, names, &manifest));
    if (manifest.n != 0) {
        vc_text_add(text, ",\"%s\":", VC_MANIFEST_NAME);
        vc_text_add_json_string(text, manifest.data);
    }
    return VC_OK;
}

/* "second": "first", */
static void add_name(struct vc_text *text, const char *second, const char *first)
{
    vc_text_add_json_string(text, second);
    vc_text_add(text, ":");
    vc_text_add_json_string(text, first);
}

/* The format has no second names. Those of the output are noted one by one ("dropped": "kept", as safetensors' own
 * tools do) and together in an entry of ours, because theirs may be of tensors that only share memory. */
static enum vc_status add_aliases(struct vc_ctx *ctx, const struct safetensors_plan *plan, size_t file,
                                  struct vc_text *text)
{
    VC_SCOPED_TEXT struct vc_text names = {.ctx = ctx};

    for (size_t i = 0; plan->records->any_alias && i < plan->outs->n; i++) {
        const struct vc_out_tensor out = vc_out_at(plan->outs, i);

        if (!out.alias || out.role != VC_PART_CODES || file_of(plan, out.alias_of) != file) {
            continue;
        }
        const char *first = vc_out_at(plan->outs, out.alias_of).name;
        if (strcmp(out.name, "format") != 0 && strcmp(out.name, VC_MANIFEST_NAME) != 0 &&
            strcmp(out.name, VC_SAFETENSORS_NAMES) != 0 && strcmp(out.name, VC_SAFETENSORS_JOB) != 0) {
            vc_text_add(text, ",");
            add_name(text, out.name, first);
        }
        vc_text_add(&names, "%s", names.n == 0 ? "{" : ",");
        add_name(&names, out.name, first);
    }
    VC_CALL(names.status);
    if (names.n != 0) {
        vc_text_add(&names, "}");
        VC_CALL(names.status);
        vc_text_add(text, ",\"" VC_SAFETENSORS_NAMES "\":");
        vc_text_add_json_string(text, names.data);
    }
    return text->status;
}

/* What the source says of how it was trained does not hold for what was trained anew. */
static const char *replaced_note(const struct safetensors_plan *plan)
{
    return plan->outs->lineage != NULL ? plan->outs->lineage->key : NULL;
}

/* Where the output is divided in another way than the source: the metadata that the source's files agree about, for
 * each new file. */
static enum vc_status join_notes(struct vc_ctx *ctx, const struct safetensors_plan *plan, struct safetensors_files *to,
                                 struct vc_text *joined)
{
    const struct safetensors *source = plan->source;
    VC_SCOPED_TEXT struct vc_text differing = {.ctx = ctx};

    VC_CALL(vc_safetensors_notes_text(ctx, source != NULL ? source->shards : NULL,
                                      source != NULL ? source->n_shards : 0, replaced_note(plan), plan->outs, joined,
                                      &differing));
    if (differing.n != 0) {
        to->note = vc_arena_printf(ctx, &to->arena, "left out of the metadata, because the files differ in it: %s",
                                   differing.data);
        VC_CALL_ALLOC(to->note);
    }
    return VC_OK;
}

/* The files are those of the source, one for one: each keeps its own metadata. */
static bool keeps_division(const struct safetensors_plan *plan, const struct safetensors_files *to)
{
    return plan->source != NULL && to->n == plan->source->n_shards && plan->max_shard_bytes == 0;
}

/* The metadata of one file: what the source says (`joined`), then what was trained, second names, the manifest and, of
 * a file of several, the job that made them. */
static enum vc_status add_metadata(struct vc_ctx *ctx, const struct safetensors_plan *plan,
                                   const struct safetensors_files *to, size_t file, const struct vc_text *joined,
                                   const struct vc_text *job)
{
    struct vc_text *text = &to->files[file].header;

    vc_text_add(text, "{\"%s\":{", VC_SAFETENSORS_METADATA);
    if (keeps_division(plan, to)) {
        VC_CALL(vc_safetensors_notes_text(ctx, &plan->source->shards[file], 1, replaced_note(plan), plan->outs, text,
                                          NULL));
    } else {
        vc_text_add_bytes(text, joined->data, joined->n);
    }
    if (plan->outs->lineage != NULL) {
        vc_text_add(text, ",");
        vc_text_add_json_string(text, plan->outs->lineage->key);
        vc_text_add(text, ":");
        vc_text_add_json_string(text, plan->outs->lineage->value);
    }
    VC_CALL(add_aliases(ctx, plan, file, text));
    VC_CALL(add_manifest(ctx, plan, file, text));
    if (job->n != 0) {
        vc_text_add(text, ",\"" VC_SAFETENSORS_JOB "\":");
        vc_text_add_json_string(text, job->data);
    }
    vc_text_add(text, "}");
    return text->status;
}

/* Opens the header of every file and writes its metadata. The first 8 bytes are filled by complete_header. */
static enum vc_status start_headers(struct vc_ctx *ctx, const struct safetensors_plan *plan,
                                    struct safetensors_files *to)
{
    static const char prefix[VC_SAFETENSORS_PREFIX_BYTES] = {0};
    VC_SCOPED_TEXT struct vc_text joined = {.ctx = ctx};
    VC_SCOPED_TEXT struct vc_text job = {.ctx = ctx};

    if (plan->in_folder && to->n > 1 && plan->outs->n_recipe != 0) {
        vc_safetensors_job_text(plan->outs, plan->model, plan->layout, plan->sizes_only, &job);
        VC_CALL(job.status);
    }
    if (!keeps_division(plan, to)) {
        VC_CALL(join_notes(ctx, plan, to, &joined));
    }
    for (size_t i = 0; i < to->n; i++) {
        vc_text_add_bytes(&to->files[i].header, prefix, sizeof prefix);
        VC_CALL(add_metadata(ctx, plan, to, i, &joined, &job));
    }
    return VC_OK;
}

/* A piece of an entry, put together before it is added. */
struct piece {
    char text[160 + (VC_MAX_DIMS + 2) * (VC_UINT_DIGITS + 1)];
    size_t n;
};

static void put_words(struct piece *piece, const char *words)
{
    size_t n = strlen(words);

    memcpy(piece->text + piece->n, words, n);
    piece->n += n;
}

static void put_number(struct piece *piece, uint64_t number)
{
    piece->n += vc_put_uint(piece->text + piece->n, number);
}

/* One tensor; offset: of its first byte in the data.
 *
 *     ,"w":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]} */
static void add_entry(struct vc_text *text, const struct safetensors_entry *entry, uint64_t offset)
{
    struct piece piece;

    piece.n = 0;
    vc_text_add_bytes(text, ",", 1);
    vc_text_add_json_string(text, entry->name);
    put_words(&piece, ":{\"dtype\":\"");
    put_words(&piece, vc_safetensors_dtypes[entry->type].name);
    put_words(&piece, "\",\"shape\":[");
    for (unsigned d = 0; d < entry->n_dims; d++) {
        put_words(&piece, d == 0 ? "" : ",");
        put_number(&piece, entry->shape[d]);
    }
    put_words(&piece, "],\"data_offsets\":[");
    put_number(&piece, offset);
    put_words(&piece, ",");
    put_number(&piece, offset + entry->n_bytes);
    put_words(&piece, "]}");
    vc_text_add_bytes(text, piece.text, piece.n);
}

/* Closes the header, adds the blanks and puts the length in front. text->n includes the 8 bytes of the length, so the
 * data of the file begins at a multiple of 64. */
static enum vc_status complete_header(struct vc_ctx *ctx, struct vc_text *text)
{
    vc_text_add(text, "}");
    vc_text_add(text, "%*s", (int)((VC_SAFETENSORS_ALIGN - text->n % VC_SAFETENSORS_ALIGN) % VC_SAFETENSORS_ALIGN), "");
    VC_CALL(text->status);
    VC_REFUSE_IF(text->n - VC_SAFETENSORS_PREFIX_BYTES > VC_SAFETENSORS_MAX_HEADER, ctx, VC_E_UNSUPPORTED,
                 "the safetensors header would have %zu bytes; %" PRIu64 " are allowed",
                 text->n - VC_SAFETENSORS_PREFIX_BYTES, VC_SAFETENSORS_MAX_HEADER);
    if (!text->counting) {
        vc_put_le64((unsigned char *)text->data, text->n - VC_SAFETENSORS_PREFIX_BYTES);
    }
    return VC_OK;
}

/* Offsets count within the data first; once all headers are complete, from the begin of the file. The bound leaves room
 * for the header in an off_t. */
static enum vc_status make_headers(struct vc_ctx *ctx, const struct safetensors_plan *plan,
                                   struct safetensors_files *to)
{
    VC_CALL(start_headers(ctx, plan, to));
    for (size_t i = 0; i < plan->records->n; i++) {
        struct safetensors_record *record = &plan->records->records[i];
        struct safetensors_file *file = &to->files[record->file];
        const struct safetensors_entry entry = entry_of(plan, i);
        uint64_t end;

        VC_CALL(vc_check_cancelled(ctx));
        record->offset = file->data_bytes;
        VC_REFUSE_IF(!vc_add_u64(file->data_bytes, entry.n_bytes, &end) ||
                         end > INT64_MAX - 2 * VC_SAFETENSORS_MAX_HEADER,
                     ctx, VC_E_UNSUPPORTED, "%s: the output would be larger than 2^63 bytes", record->name);
        add_entry(&file->header, &entry, file->data_bytes);
        file->data_bytes = end;
    }
    for (size_t i = 0; i < to->n; i++) {
        VC_CALL(complete_header(ctx, &to->files[i].header));
    }
    for (size_t i = 0; i < plan->records->n; i++) {
        struct safetensors_record *record = &plan->records->records[i];

        record->offset += to->files[record->file].header.n;
    }
    return VC_OK;
}

enum vc_status vc_safetensors_files_make(struct vc_ctx *ctx, const struct safetensors_plan *plan,
                                         struct safetensors_files *out)
{
    *out = (struct safetensors_files){.n = 0};
    VC_CALL(assign(ctx, plan, out));
    return make_headers(ctx, plan, out);
}

void vc_safetensors_files_release(struct vc_ctx *ctx, struct safetensors_files *files)
{
    for (size_t i = 0; i < files->n; i++) {
        vc_text_release(&files->files[i].header);
    }
    vc_free(ctx, files->files);
    vc_arena_release(ctx, &files->arena);
    *files = (struct safetensors_files){.n = 0};
}
