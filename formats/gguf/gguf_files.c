/* gguf_files.c - plans the files of a GGUF output: who goes where, the metadata, the tensor entries. Writes nothing.
 *
 *     source's pairs:   [general.name][general.file_type 0][llama.block_count] ...
 *     output's parts:   copied........|made: file_type 7   |copied.................|made: quantization_version 2
 *
 * The metadata of a GGUF source is copied byte for byte; pairs that would be wrong afterwards are replaced where they
 * stood, removed, or added behind. Of several files the first has the metadata of the model, as llama.cpp's own tools
 * divide it; what is divided as the source was keeps what each file had. */
#include "formats/gguf/gguf_files.h"

#include "formats/io/numbered_name.h"

#define NO_VALUE UINT32_MAX

/* ---- bytes ---- */

/* As the format has strings: u64 length, then the bytes without a NUL. */
static void add_string(struct vc_text *text, const char *s)
{
    vc_text_add_le(text, strlen(s), 8);
    vc_text_add_bytes(text, s, strlen(s));
}

/* n zero bytes. */
static void pad(struct vc_text *text, uint64_t n)
{
    static const char zeros[512] = {0};

    for (; n != 0 && text->status == VC_OK; n -= vc_min_u64(n, sizeof zeros)) {
        vc_text_add_bytes(text, zeros, (size_t)vc_min_u64(n, sizeof zeros));
    }
}

/* ---- which file ---- */

/* A source of several files becomes a folder divided in the same way, unless --max-shard-size says otherwise. */
static bool keeps_division(const struct gguf_plan *plan)
{
    return plan->in_folder && plan->max_shard_bytes == 0 && plan->source != NULL && plan->source->n_shards > 1;
}

/* Fills files up to max_shard_bytes in the order of the tensors; a tensor that is larger has a file of its own. Sets
 * file_of and tells the number of files. */
static size_t divide(const struct gguf_plan *plan, struct gguf_files *to)
{
    uint64_t in_file = 0;
    size_t n = 1;

    for (size_t i = 0; i < plan->outs->n; i++) {
        uint64_t size = vc_out_at(plan->outs, i).size_bytes;

        if (in_file != 0 && size > plan->max_shard_bytes - vc_min_u64(in_file, plan->max_shard_bytes)) {
            n++;
            in_file = 0;
        }
        in_file = vc_add_u64(in_file, size, &in_file) ? in_file : UINT64_MAX; /* refused later */
        to->file_of[i] = (uint32_t)(n - 1);
    }
    return n;
}

/* Tensors of each file of the source, before and now; those of other workers count. */
struct shard_count {
    size_t before, now;
    uint32_t file; /* of the output */
};

/* Tensors of each shard: of the source, and of what is written, also by other workers. */
static void count_tensors(const struct gguf_plan *plan, struct shard_count *counts)
{
    const struct vc_tensor_io *io = plan->model->io;

    for (size_t i = 0; i < plan->model->n_tensors; i++) {
        counts[io[i].shard].before++;
    }
    for (size_t i = 0; i < plan->outs->n; i++) {
        counts[io[vc_out_at(plan->outs, i).source].shard].now++;
    }
    for (size_t i = 0; i < plan->outs->n_other_shards; i++) {
        counts[io[plan->outs->other_shards[i].source].shard].now++;
    }
}

/* The files of the source one by one; but the first, which has the metadata, each that passes have left without a
 * tensor goes. */
static enum vc_status keep_division(struct vc_ctx *ctx, const struct gguf_plan *plan, struct gguf_files *to, size_t *n)
{
    size_t n_shards = plan->source->n_shards;
    VC_SCOPED struct shard_count *counts = vc_calloc_array(ctx, VC_TAG_NAMES, n_shards, sizeof *counts);

    VC_CALL_ALLOC(counts);
    VC_CALL_ALLOC(to->shard_of = vc_arena_alloc(ctx, &to->arena, n_shards * sizeof *to->shard_of));
    count_tensors(plan, counts);
    *n = 0;
    for (size_t i = 0; i < n_shards; i++) {
        if (i == 0 || counts[i].now != 0 || counts[i].before == 0) {
            to->shard_of[*n] = i;
            counts[i].file = (uint32_t)(*n)++;
        }
    }
    for (size_t i = 0; i < plan->outs->n; i++) {
        to->file_of[i] = counts[plan->model->io[vc_out_at(plan->outs, i).source].shard].file;
    }
    return VC_OK;
}

/* Decides the file of each tensor, and the number of files. */
static enum vc_status assign(struct vc_ctx *ctx, const struct gguf_plan *plan, struct gguf_files *to, size_t *n)
{
    if (keeps_division(plan)) {
        return keep_division(ctx, plan, to, n);
    }
    *n = plan->in_folder && plan->max_shard_bytes != 0 ? divide(plan, to) : 1;
    return VC_OK;
}

/* "<prefix>-00001-of-00003.gguf", or "<prefix>.gguf" where there is one; only files in a folder need a name. */
static enum vc_status name_file(struct vc_ctx *ctx, const struct gguf_plan *plan, struct gguf_files *to, size_t i)
{
    struct gguf_file *file = &to->files[i];

    if (plan->in_folder) {
        file->name = to->n == 1
                         ? vc_arena_printf(ctx, &to->arena, "%s" VC_GGUF_EXTENSION, plan->prefix)
                         : vc_arena_printf(ctx, &to->arena, VC_NUMBERED_FORMAT, (int)strlen(plan->prefix), plan->prefix,
                                           (unsigned long)i + 1, (unsigned long)to->n, VC_GGUF_EXTENSION);
        VC_CALL_ALLOC(file->name);
    }
    return VC_OK;
}

/* The files without their contents: names, where their metadata comes from, alignment, which of them other workers
 * write. */
static enum vc_status make_files(struct vc_ctx *ctx, const struct gguf_plan *plan, struct gguf_files *to)
{
    size_t n = 0;

    VC_CALL(assign(ctx, plan, to, &n));
    VC_REFUSE_IF(n > VC_GGUF_MAX_FILES, ctx, VC_E_UNSUPPORTED, "the output would have %zu files; GGUF allows %d", n,
                 VC_GGUF_MAX_FILES);
    VC_CALL(VC_ZEROS(ctx, VC_TAG_NAMES, to->files, n));
    to->n = n;
    for (size_t i = 0; i < n; i++) {
        struct gguf_file *file = &to->files[i];
        size_t shard = to->shard_of != NULL ? to->shard_of[i] : i;

        vc_text_init(&file->fresh, ctx);
        vc_text_init(&file->entries, ctx);
        file->entries.counting = plan->sizes_only;
        atomic_init(&file->got, 0);
        file->from = plan->source != NULL && (to->shard_of != NULL || i == 0) ? &plan->source->shards[shard] : NULL;
        file->alignment = file->from != NULL ? file->from->metadata.alignment : VC_GGUF_ALIGN;
        file->in_other_shard = plan->n_shards != 0 && shard % plan->n_shards != plan->shard - 1;
    }
    for (size_t i = 0; i < n; i++) {
        VC_CALL(name_file(ctx, plan, to, i));
    }
    for (size_t i = 0; i < plan->outs->n; i++) {
        to->files[to->file_of[i]].n_tensors++;
    }
    return VC_OK;
}

/* ---- metadata ---- */

/* Appends a piece of metadata to those of the file; an empty one is left out. */
static void add_part(struct gguf_file *file, bool from_source, uint64_t begin, uint64_t end)
{
    if (begin != end) {
        file->parts[file->n_parts++] = (struct gguf_part){from_source, begin, end};
        file->metadata_bytes += end - begin;
    }
}

/* Makes a pair and appends it. The loader insists on kinds: the two numbers of files are u16, the number of tensors
 * i32. */
static void add_pair(struct gguf_file *file, enum gguf_known known, uint32_t v)
{
    uint64_t begin = file->fresh.n;

    add_string(&file->fresh, vc_gguf_known_keys[known]);
    if (known == GGUF_SPLIT_NO || known == GGUF_SPLIT_COUNT) {
        vc_text_add_le(&file->fresh, GGUF_U16, 4);
        vc_text_add_le(&file->fresh, v, 2);
    } else {
        vc_text_add_le(&file->fresh, known == GGUF_SPLIT_TENSORS ? GGUF_I32 : GGUF_U32, 4);
        vc_text_add_le(&file->fresh, v, 4);
    }
    add_part(file, false, begin, file->fresh.n);
}

/* Adds the elements of an output to those of its type. */
static void count_type(struct vc_out_tensor out, uint64_t n_elems[VC_DTYPE_COUNT])
{
    uint64_t n = 1;

    for (unsigned d = 0; d < out.n_dims; d++) {
        n *= out.shape[d];
    }
    n_elems[out.dtype] += n;
}

/* Types as general.file_type numbers them: of mixtures the medium one, and of one type the mixture with that base. */
static const struct {
    enum vc_dtype dtype;
    uint32_t number;
} file_types[] = {{VC_DTYPE_F32, 0},   {VC_DTYPE_F16, 1},   {VC_DTYPE_Q4_0, 2},  {VC_DTYPE_Q8_0, 7},
                  {VC_DTYPE_Q5_0, 8},  {VC_DTYPE_Q2_K, 10}, {VC_DTYPE_Q3_K, 12}, {VC_DTYPE_Q4_K, 15},
                  {VC_DTYPE_Q5_K, 17}, {VC_DTYPE_Q6_K, 18}, {VC_DTYPE_BF16, 32}, {VC_DTYPE_NVFP4, 39}};

/* The number of the type that most elements have. NO_VALUE: the table has no such type. */
static uint32_t type_of_most(const uint64_t n_elems[VC_DTYPE_COUNT])
{
    size_t most = 0;

    for (size_t i = 0; i < VC_DTYPE_COUNT; i++) {
        most = n_elems[i] > n_elems[most] ? i : most;
    }
    for (size_t i = 0; i < sizeof file_types / sizeof file_types[0]; i++) {
        if (file_types[i].dtype == (enum vc_dtype)most) {
            return file_types[i].number;
        }
    }
    return NO_VALUE;
}

/* The value of general.file_type: over all files, other workers' included. NO_VALUE: the pair stays as it was. */
static uint32_t file_type(const struct vc_out_list *outs)
{
    uint64_t n_elems[VC_DTYPE_COUNT] = {0};

    for (size_t i = 0; i < outs->n; i++) {
        count_type(vc_out_at(outs, i), n_elems);
    }
    for (size_t i = 0; i < outs->n_other_shards; i++) {
        count_type(outs->other_shards[i], n_elems);
    }
    return type_of_most(n_elems);
}

/* The file says the type of most elements of its model: what it says is kept true. Others, such as "mostly Q4_K -
 * Medium" or "mostly F16" of a model with large f32 embeddings, say something else, and are kept as they are. */
static bool says_file_type(const struct gguf_plan *plan, const struct gguf_file *file)
{
    uint64_t n_elems[VC_DTYPE_COUNT] = {0};

    if (file->from == NULL || file->from->metadata.known[GGUF_FILE_TYPE].end == 0) {
        return false;
    }
    for (size_t i = 0; i < plan->model->n_tensors; i++) {
        n_elems[plan->model->tensors[i].dtype] += plan->model->tensors[i].n_elems;
    }
    return file->from->metadata.values[GGUF_FILE_TYPE] == type_of_most(n_elems);
}

/* What becomes of a known pair of a file. */
struct change {
    enum { KEEP, REMOVE, REPLACE, SET } what; /* REPLACE: only where it is; SET: also where it is not */
    uint32_t value;
};

/* general.file_type says what most elements are, whatever the last pass was; a file that has none gets it where a pass
 * changed types, and then general.quantization_version, too, where there were blocks. Only the first file gets pairs
 * that it did not have; the others have theirs corrected. */
static void change_types(const struct gguf_plan *plan, const struct gguf_file *file, bool first, struct change *changes)
{
    const struct vc_out_list *outs = plan->outs;
    bool fresh = plan->source == NULL;
    uint32_t type = file_type(outs);
    const char *mixture = NULL; /* of the last pass that changed types */
    bool retyped = fresh;
    bool blocks = false;

    for (size_t i = 0; i < outs->n && fresh; i++) {
        blocks = blocks || vc_dtype_size(vc_out_at(outs, i).dtype) == 0;
    }
    for (size_t i = 0; i < outs->n_stages; i++) {
        retyped = retyped || outs->stages[i].retyped;
        mixture = outs->stages[i].retyped ? outs->stages[i].mixture : mixture;
        blocks = blocks || (outs->stages[i].retyped && outs->stages[i].blocks);
    }
    if (mixture != NULL) {
        (void)vc_gguf_file_type(mixture, &type);
    }
    if (type != NO_VALUE && (retyped || says_file_type(plan, file))) {
        changes[GGUF_FILE_TYPE] = (struct change){retyped && first ? SET : REPLACE, type};
    }
    if (blocks) {
        changes[GGUF_QUANTIZER] = (struct change){first ? SET : REPLACE, VC_GGUF_QUANTIZATION};
    }
}

/* The three split.* pairs: set where there are several files, removed where several become one. */
static void change_split(const struct gguf_plan *plan, const struct gguf_files *files, size_t index,
                         struct change *changes)
{
    if (files->n > 1) {
        changes[GGUF_SPLIT_NO] = (struct change){SET, (uint32_t)index};
        changes[GGUF_SPLIT_COUNT] = (struct change){SET, (uint32_t)files->n};
        changes[GGUF_SPLIT_TENSORS] = (struct change){SET, (uint32_t)(plan->outs->n + plan->outs->n_other_shards)};
    } else if (plan->source != NULL && plan->source->n_shards > 1) {
        changes[GGUF_SPLIT_NO].what = REMOVE;
        changes[GGUF_SPLIT_COUNT].what = REMOVE;
        changes[GGUF_SPLIT_TENSORS].what = REMOVE;
    }
}

/* The first known pair at or behind `at` in the source's file that changes; GGUF_KNOWN_COUNT if there is none. */
static size_t next_change(const struct gguf_metadata *metadata, const struct change *changes, uint64_t at)
{
    size_t next = GGUF_KNOWN_COUNT;

    for (size_t i = 0; i < GGUF_KNOWN_COUNT; i++) {
        const struct gguf_place *place = &metadata->known[i];

        if (changes[i].what != KEEP && place->end != 0 && place->begin >= at &&
            (next == GGUF_KNOWN_COUNT || place->begin < metadata->known[next].begin)) {
            next = i;
        }
    }
    return next;
}

/* Replaces the values from patch `next` on that lie before `end`, and copies what stands between them; *at moves behind
 * the last. Tells the next patch. */
static size_t patch_up_to(struct gguf_file *file, size_t next, uint64_t *at, uint64_t end)
{
    for (; next < file->n_patches && file->patches[next].place.begin < end; next++) {
        const struct gguf_patch *patch = &file->patches[next];

        add_part(file, true, *at, patch->place.begin);
        add_part(file, false, patch->begin, patch->end);
        *at = patch->place.end;
    }
    return next;
}

/* Cuts the source's metadata at the pairs that change: what lies between is copied, a changed pair takes the place of
 * the old one, and a new one goes to the end. */
static void copy_pairs(struct gguf_file *file, const struct change *changes)
{
    static const struct gguf_metadata none = {.n_pairs = 0};
    const struct gguf_metadata *metadata = file->from != NULL ? &file->from->metadata : &none;
    uint64_t at = metadata->begin;
    size_t n_patched = 0;
    size_t i;

    file->n_pairs += metadata->n_pairs;
    while ((i = next_change(metadata, changes, at)) != GGUF_KNOWN_COUNT) {
        n_patched = patch_up_to(file, n_patched, &at, metadata->known[i].begin);
        add_part(file, true, at, metadata->known[i].begin);
        if (changes[i].what == REMOVE) {
            file->n_pairs--;
        } else {
            add_pair(file, (enum gguf_known)i, changes[i].value);
        }
        at = metadata->known[i].end;
    }
    (void)patch_up_to(file, n_patched, &at, metadata->end);
    add_part(file, true, at, metadata->end);
    for (i = 0; i < GGUF_KNOWN_COUNT; i++) {
        if (changes[i].what == SET && metadata->known[i].end == 0) {
            add_pair(file, (enum gguf_known)i, changes[i].value);
            file->n_pairs++;
        }
    }
    add_part(file, false, file->given_begin, file->given_end);
}

/* A pair: key, kind, value. */
static void add_text(struct gguf_file *file, const char *key, const char *value)
{
    add_string(&file->fresh, key);
    vc_text_add_le(&file->fresh, GGUF_STRING, 4);
    add_string(&file->fresh, value);
    file->n_pairs++;
}

static void add_number(struct gguf_file *file, const char *key, uint32_t value)
{
    add_string(&file->fresh, key);
    vc_text_add_le(&file->fresh, GGUF_U32, 4);
    vc_text_add_le(&file->fresh, value, 4);
    file->n_pairs++;
}

/* Statistics of inputs (docs/formats.md): an importance matrix. */
static bool is_imatrix(const struct vc_out_list *outs)
{
    for (size_t i = 0; i < outs->n; i++) {
        const char *tail = strrchr(vc_out_at(outs, i).name, '.');

        if (tail != NULL && strcmp(tail, VC_SUMS_TAIL) == 0) {
            return true;
        }
    }
    return false;
}

/* What llama-quantize wants to read of an importance matrix. The numbers are about batches of tokens, which it repeats
 * in its output and does not count with. */
static void add_imatrix(struct gguf_file *file)
{
    add_text(file, "general.type", "imatrix");
    add_string(&file->fresh, "imatrix.datasets");
    vc_text_add_le(&file->fresh, GGUF_ARRAY, 4);
    vc_text_add_le(&file->fresh, GGUF_STRING, 4);
    vc_text_add_le(&file->fresh, 1, 8);
    add_string(&file->fresh, "vcompress");
    file->n_pairs++;
    add_number(file, "imatrix.chunk_count", 1);
    add_number(file, "imatrix.chunk_size", 1);
}

/* "comfy.gguf.orig_shape.NAME" for tensors that a pass made rows of 256 of, which ComfyUI-GGUF's loader looks for. */
static void add_shapes(const struct gguf_plan *plan, struct gguf_file *file)
{
    for (size_t i = 0; i < plan->outs->n; i++) {
        const struct vc_out_tensor out = vc_out_at(plan->outs, i);
        const struct vc_tensor *t = &plan->model->tensors[out.source];

        if (out.kept || out.role != VC_PART_CODES || t->n_dims < 2 || out.n_dims != 2 ||
            out.shape[0] * out.shape[1] != t->n_elems || out.shape[1] == t->shape[t->n_dims - 1]) {
            continue;
        }
        vc_text_add_le(&file->fresh, strlen(VC_GGUF_KEY_SHAPE) + strlen(out.name), 8);
        vc_text_add(&file->fresh, VC_GGUF_KEY_SHAPE "%s", out.name);
        vc_text_add_le(&file->fresh, GGUF_ARRAY, 4);
        vc_text_add_le(&file->fresh, GGUF_I32, 4);
        vc_text_add_le(&file->fresh, t->n_dims, 8);
        for (unsigned d = 0; d < t->n_dims; d++) {
            vc_text_add_le(&file->fresh, t->shape[d], 4);
        }
        file->n_pairs++;
    }
}

/* The metadata of one file. A source that is no GGUF file has none, and llama.cpp wants an architecture: "unknown", but
 * for networks that make pictures, whose programs read them by their own names. */
static enum vc_status lay_out_metadata(struct vc_ctx *ctx, const struct gguf_plan *plan, struct gguf_files *files,
                                       size_t index)
{
    struct change changes[GGUF_KNOWN_COUNT] = {{KEEP, 0}};
    struct gguf_file *file = &files->files[index];

    if (plan->source == NULL && index == 0) {
        if (is_imatrix(plan->outs)) {
            add_imatrix(file);
        } else {
            add_text(file, VC_GGUF_KEY_ARCHITECTURE, plan->picture != NULL ? plan->picture : "unknown");
            if (plan->picture != NULL) {
                add_shapes(plan, file);
            }
        }
        add_part(file, false, 0, file->fresh.n);
    }
    change_types(plan, file, index == 0, changes);
    change_split(plan, files, index, changes);
    VC_CALL(vc_gguf_edit(ctx, plan->outs, file, index == 0));
    copy_pairs(file, changes);
    return file->fresh.status;
}

/* ---- tensor entries ---- */

/* What the format can say of a tensor; *type is its number. */
static enum vc_status check_out(struct vc_ctx *ctx, const struct gguf_plan *plan, const struct vc_out_tensor *out,
                                uint32_t *type)
{
    size_t most_name = plan->picture != NULL ? VC_GGUF_NAME_OF_PICTURES : VC_GGUF_MAX_NAME;
    unsigned most_dims = plan->picture != NULL ? VC_GGUF_DIMS_OF_PICTURES : VC_GGUF_MAX_DIMS;

    VC_REFUSE_IF(!vc_gguf_type(out->dtype, type), ctx, VC_E_UNSUPPORTED, "%s: gguf cannot hold elements of type %s",
                 out->name, vc_dtype_name(out->dtype));
    VC_REFUSE_IF(strlen(out->name) > most_name, ctx, VC_E_UNSUPPORTED, "%s: its name has %zu bytes; GGUF allows %zu",
                 out->name, strlen(out->name), most_name);
    VC_REFUSE_IF(out->n_dims > most_dims, ctx, VC_E_UNSUPPORTED, "%s: has %u dimensions; GGUF allows %u", out->name,
                 out->n_dims, most_dims);
    return VC_OK;
}

/* Appends the entry of output `index` to its file and gives it its place behind the tensors that are there already.
 * Offsets count from the start of the data until place_data knows where that is. */
static enum vc_status add_entry(struct vc_ctx *ctx, const struct gguf_plan *plan, struct gguf_files *files,
                                size_t index)
{
    const struct vc_out_tensor out = vc_out_at(plan->outs, index);
    struct gguf_file *file = &files->files[files->file_of[index]];
    struct vc_text *text = &file->entries;
    uint64_t at = file->file_bytes;
    uint32_t type = 0;
    uint64_t end;

    VC_CALL(check_out(ctx, plan, &out, &type));
    VC_REFUSE_IF(!vc_add_u64(at, out.size_bytes, &end) || !vc_round_up_u64(end, file->alignment, &end) ||
                     end > INT64_MAX / 2,
                 ctx, VC_E_UNSUPPORTED, "%s: the output would be larger than 2^62 bytes", out.name);
    add_string(text, out.name);
    vc_text_add_le(text, out.n_dims, 4);
    for (unsigned d = out.n_dims; d-- > 0;) {
        vc_text_add_le(text, out.shape[d], 8);
    }
    vc_text_add_le(text, type, 4);
    vc_text_add_le(text, at, 8);
    files->offsets[index] = at;
    file->value_bytes += out.size_bytes;
    file->values_end = out.size_bytes != 0 ? at + out.size_bytes : file->values_end;
    file->file_bytes = end;
    return text->status;
}

/* Metadata and entries of the file are complete: pads them, and moves the ends by the offset of the data. */
static enum vc_status place_data(struct gguf_file *file, uint64_t *data_offset)
{
    uint64_t head = VC_GGUF_HEADER_BYTES + file->metadata_bytes + file->entries.n;

    *data_offset = (head + file->alignment - 1) & ~(uint64_t)(file->alignment - 1);
    pad(&file->entries, *data_offset - head);
    file->values_end += *data_offset;
    file->file_bytes += *data_offset;
    return file->entries.status;
}

/* ---- the whole ---- */

/* For the report: files behind the first may have pairs of their own, which only a division as it was can keep. */
static enum vc_status note_left_out(struct vc_ctx *ctx, const struct gguf_plan *plan, struct gguf_files *files)
{
    for (size_t i = 1; plan->source != NULL && !keeps_division(plan) && i < plan->source->n_shards; i++) {
        const struct gguf_metadata *metadata = &plan->source->shards[i].metadata;
        uint64_t n = metadata->n_pairs;

        for (size_t k = GGUF_SPLIT_NO; k < GGUF_KNOWN_COUNT; k++) {
            n -= metadata->known[k].end != 0;
        }
        if (n != 0) {
            files->note = vc_arena_printf(ctx, &files->arena, "metadata of the files behind the first is left out");
            VC_CALL_ALLOC(files->note);
            break;
        }
    }
    return VC_OK;
}

/* Entries first (their sizes decide where the data begins), then metadata, then absolute offsets. */
enum vc_status vc_gguf_files_make(struct vc_ctx *ctx, const struct gguf_plan *plan, struct gguf_files *out)
{
    const struct vc_out_list *outs = plan->outs;
    VC_SCOPED uint64_t *data_offsets = NULL;

    *out = (struct gguf_files){.n = 0};
    VC_CALL(VC_ZEROS(ctx, VC_TAG_NAMES, out->offsets, outs->n));
    VC_CALL(VC_ZEROS(ctx, VC_TAG_NAMES, out->file_of, outs->n));
    VC_CALL(make_files(ctx, plan, out));
    VC_CALL(VC_ZEROS(ctx, VC_TAG_NAMES, data_offsets, out->n));
    for (size_t i = 0; i < outs->n; i++) {
        VC_CALL(add_entry(ctx, plan, out, i));
    }
    for (size_t i = 0; i < out->n; i++) {
        VC_CALL(lay_out_metadata(ctx, plan, out, i));
        VC_CALL(place_data(&out->files[i], &data_offsets[i]));
    }
    for (size_t i = 0; i < outs->n; i++) {
        out->offsets[i] += data_offsets[out->file_of[i]];
    }
    return note_left_out(ctx, plan, out);
}

/* Ready for another plan. */
void vc_gguf_files_release(struct vc_ctx *ctx, struct gguf_files *files)
{
    for (size_t i = 0; i < files->n; i++) {
        vc_text_release(&files->files[i].fresh);
        vc_text_release(&files->files[i].entries);
    }
    VC_FREE_ALL(ctx, files->files, files->file_of, files->offsets);
    vc_arena_release(ctx, &files->arena);
    *files = (struct gguf_files){.n = 0};
}
