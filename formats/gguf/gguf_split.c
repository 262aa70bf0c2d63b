/* gguf_split.c - finds the files that a GGUF model is divided into, and checks what they say of each other.
 *
 *     "big-00001-of-00003.gguf"     split.no 0, split.count 3, split.tensors.count 291, and the metadata of the model
 *     "big-00002-of-00003.gguf"     split.no 1, split.count 3, split.tensors.count 291
 *     "big-00003-of-00003.gguf"     split.no 2, split.count 3, split.tensors.count 291
 *
 * Any of them may be given. The others are looked for under these names in the same folder and nowhere else. */

#include "core/base/findings.h"
#include "formats/gguf/gguf_files.h"
#include "formats/io/numbered_name.h"

/* ---- which files ---- */

/* split.count of a file, 1 where it has none. Findings are muted: the file is read again in full, and what is wrong
 * with it is said then. */
static enum vc_status read_count(struct vc_ctx *ctx, const struct vc_infile *file, uint64_t *count)
{
    struct gguf_cursor cursor;
    struct gguf_metadata metadata;
    uint64_t n_tensors;
    enum vc_status status;

    vc_findings_mute(ctx, true);
    VC_TRY(vc_gguf_cursor_init(ctx, file, &cursor));
    VC_TRY(vc_gguf_read_head(&cursor, NULL, &n_tensors, &metadata));
    *count = metadata.known[GGUF_SPLIT_COUNT].end != 0 ? metadata.values[GGUF_SPLIT_COUNT] : 1;
out:
    vc_findings_mute(ctx, false);
    vc_gguf_cursor_release(&cursor);
    return status;
}

/* *several becomes true where name and metadata both say that the file is one of several. A file whose metadata cannot
 * be read counts as whole here; the reader refuses it a moment later with a better sentence. */
static enum vc_status is_several(struct vc_ctx *ctx, const struct vc_infile *file, const struct vc_numbered_name *name,
                                 bool *several)
{
    uint64_t count = 1;
    enum vc_status status = read_count(ctx, file, &count);

    if (status == VC_E_FORMAT || status == VC_E_UNSUPPORTED) { /* comes again when all of the file is read */
        vc_clear_error(ctx);
        return VC_OK;
    }
    if (status != VC_OK) {
        return status;
    }
    VC_REFUSE_IF(count > 1 && count != name->count, ctx, VC_E_FORMAT,
                 "its name says that it is one of %lu files, its metadata of %" PRIu64, name->count, count);
    *several = count > 1;
    return VC_OK;
}

/* Opens one of the other files. One that is no GGUF file is refused as what it is (a Git LFS pointer, say). */
static enum vc_status open_other(struct vc_ctx *ctx, struct gguf_shard *shard, const struct vc_model *model)
{
    enum vc_status status = vc_infile_open_other(ctx, shard->path, vc_base_name(model->path), &shard->file);

    if (status == VC_OK && model->expect(ctx, shard->file, model->format) != VC_OK) {
        vc_infile_close(ctx, shard->file);
        shard->file = NULL;
        status = ctx->status;
    }
    return status;
}

/* Makes self->shards for all files and opens those that were not given. The model's size becomes that of all of them,
 * and model->inputs lists the others, so that an output cannot overwrite them. */
static enum vc_status open_all(struct vc_ctx *ctx, const struct vc_numbered_name *name, struct gguf *self,
                               struct vc_model *model)
{
    struct vc_infile *given = self->shards[0].file;
    struct gguf_shard *shards = vc_calloc_array(ctx, VC_TAG_NAMES, name->count, sizeof *shards);

    VC_CALL_ALLOC(shards);
    vc_free(ctx, self->shards);
    self->shards = shards;
    self->n_shards = name->count;
    shards[name->number - 1].file = given;
    VC_CALL(VC_ZEROS(ctx, VC_TAG_NAMES, model->inputs, name->count - 1));
    for (size_t i = 0; i < self->n_shards; i++) {
        shards[i].path = vc_arena_printf(ctx, &self->arena, VC_NUMBERED_FORMAT, (int)name->n_prefix, model->path,
                                         (unsigned long)i + 1, name->count, VC_GGUF_EXTENSION);
        VC_CALL_ALLOC(shards[i].path);
        if (shards[i].file == NULL && open_other(ctx, &shards[i], model) != VC_OK) {
            VC_CALL(vc_gguf_in_shard(ctx, &shards[i], ctx->status));
        } else if (shards[i].file != given) {
            model->inputs[model->n_inputs++] = shards[i].file;
            model->file_bytes += shards[i].file->size_bytes;
        }
    }
    return VC_OK;
}

/* The name is looked at first, because it is all that most files need: only one that is numbered costs a look at its
 * metadata. */
enum vc_status vc_gguf_open_files(struct vc_ctx *ctx, struct vc_infile *file, struct gguf *self, struct vc_model *model)
{
    struct vc_numbered_name name;
    bool several = false;

    self->shards = vc_calloc_array(ctx, VC_TAG_NAMES, 1, sizeof *self->shards);
    if (self->shards == NULL) {
        vc_infile_close(ctx, file);
        return VC_E_NOMEM;
    }
    self->n_shards = 1;
    self->shards[0].file = file;
    if (vc_numbered_name_parse(model->path, VC_GGUF_EXTENSION, &name) && name.number >= 1 &&
        name.number <= name.count && name.count <= VC_GGUF_MAX_FILES) {
        VC_CALL(is_several(ctx, file, &name, &several));
    }
    if (several) {
        VC_CALL(open_all(ctx, &name, self, model));
    }
    return VC_OK;
}

enum vc_status vc_gguf_in_shard(struct vc_ctx *ctx, const struct gguf_shard *shard, enum vc_status status)
{
    if (status == VC_OK || shard->path == NULL) {
        return status;
    }
    return vc_collect_missing(ctx, vc_context(ctx, "%s", vc_base_name(shard->path)), "shard",
                              vc_base_name(shard->path));
}

/* ---- what they say ---- */

/* File number `index` says of itself that it is that one. */
static enum vc_status check_one(struct vc_ctx *ctx, const struct gguf *self, size_t index)
{
    const struct gguf_metadata *metadata = &self->shards[index].metadata;
    uint64_t no = metadata->values[GGUF_SPLIT_NO];
    uint64_t count = metadata->values[GGUF_SPLIT_COUNT];

    VC_REFUSE_IF(metadata->known[GGUF_SPLIT_COUNT].end == 0 || metadata->known[GGUF_SPLIT_NO].end == 0, ctx,
                 VC_E_FORMAT, "has no split.no and split.count, but is one of %zu files", self->n_shards);
    VC_REFUSE_IF(no != index || count != self->n_shards, ctx, VC_E_FORMAT,
                 "its split.no is %" PRIu64 " and its split.count %" PRIu64 ", expected %zu and %zu", no, count, index,
                 self->n_shards);
    return VC_OK;
}

/* A file whose name is not that of one of several says so, too: others would be missing. */
static enum vc_status check_whole(struct vc_ctx *ctx, const struct gguf_metadata *metadata)
{
    uint64_t count = metadata->values[GGUF_SPLIT_COUNT];

    if (metadata->known[GGUF_SPLIT_COUNT].end == 0 || count <= 1) {
        return VC_OK;
    }
    return vc_fail(ctx, VC_E_FORMAT,
                   "is number %" PRIu64 " of %" PRIu64 " files (split.no, split.count), but its name does not say so; "
                   "give it the name that it had, such as model-00001-of-%05" PRIu64 ".gguf, beside the others",
                   metadata->known[GGUF_SPLIT_NO].end != 0 ? metadata->values[GGUF_SPLIT_NO] + 1 : 1, count, count);
}

/* split.tensors.count is optional; the other two are not. */
enum vc_status vc_gguf_check_split(struct vc_ctx *ctx, const struct gguf *self, uint64_t n_tensors)
{
    const struct gguf_metadata *metadata = &self->shards[0].metadata;

    if (self->n_shards == 1) {
        return check_whole(ctx, metadata);
    }
    for (size_t i = 0; i < self->n_shards; i++) {
        VC_CALL(vc_gguf_in_shard(ctx, &self->shards[i], check_one(ctx, self, i)));
    }
    VC_REFUSE_IF(metadata->known[GGUF_SPLIT_TENSORS].end != 0 && metadata->values[GGUF_SPLIT_TENSORS] != n_tensors, ctx,
                 VC_E_FORMAT, "has %" PRIu64 " tensors in %zu files, but its split.tensors.count is %" PRIu64,
                 n_tensors, self->n_shards, metadata->values[GGUF_SPLIT_TENSORS]);
    return VC_OK;
}
