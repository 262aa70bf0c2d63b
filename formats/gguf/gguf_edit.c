/* gguf_edit.c - the sizes that the metadata of a GGUF file states, changed as passes changed the model.
 *
 *     edit: intermediate size 11008 -> 8192
 *     pair   "llama.feed_forward_length"  u32  11008      its value is replaced by 8192
 *     pair   "llama.feed_forward_length"  array of u32    so is every entry that is 11008
 *     pair   "llama.attention.head_count_kv"  array       with an entry per layer: those of dropped layers go
 *
 * Only values are replaced, in the kind that the file has; keys, order and all other pairs stay. A number is replaced
 * only where it says what it was before.
 *
 * Two users: the writer, whose file gets patches (vc_gguf_edit; each is a value of the source's metadata and the bytes
 * in its place), and graphs of a job that has not been written yet (vc_gguf_edit_keys, on the keys as a program). */

#include "arch/arch_family.h"
#include "formats/gguf/gguf_files.h"

#define MOST_ARRAY_BYTES ((uint64_t)8 << 20)

/* The number of layers of a part of the model, by what their names begin with. */
static const struct {
    const char *list, *key;
} counts[] = {{"dec.blk", "decoder_block_count"}, {"v.blk", "vision.block_count"}, {"a.blk", "audio.block_count"}};

/* Where the file has it, the hidden size does not say how large a head is. */
static const char head_size[] = "attention.key_length";

/* So many layers from the first on are of another kind. */
static const char first_of[] = "leading_dense_block_count";

/* What speaks of layers from the last on, or of sizes of tensors outside of the layers. */
static const char refused[] = "nextn_predict_layers attention.shared_kv_layers embedding_length_per_layer_input";

/* Layers of another kind come after so many. */
static const char periods[] =
    "attention.sliding_window_pattern full_attention_interval interleave_moe_layer_step moe_every_n_layers "
    "attention.global_interval";

/* While the metadata is read. */
struct editing {
    struct vc_ctx *ctx;
    const struct vc_edit *edits;
    size_t n;
    struct gguf_file *file;
    struct gguf_cursor cursor;
    char architecture[64];
    bool named[VC_EDIT_KEYS]; /* there is a key of that meaning, whatever it says */
    bool made[VC_EDIT_KEYS];
    bool has_tokens;
    bool says_kinds; /* of its layers, one by one */
    const struct vc_out_list *outs;
    bool given[VC_GGUF_MAX_GIVEN]; /* the caller's entry has taken the place of one that is there */
    uint64_t hidden, heads;
};

/* A pair up to its value; the cursor is at the value. */
struct pair {
    char key[160]; /* the start of it */
    uint32_t kind;
    uint64_t begin; /* of the value, in the file */
};

/* A key of more than 159 bytes is cut: no key that is looked for is that long. */
static enum vc_status take_key(struct editing *e, struct pair *pair)
{
    uint64_t n = 0;

    VC_CALL(vc_gguf_take_u64(&e->cursor, &n));
    size_t part = (size_t)vc_min_u64(n, sizeof pair->key - 1);
    VC_CALL(vc_gguf_take(&e->cursor, pair->key, part));
    pair->key[part] = '\0';
    e->cursor.at += n - part;
    VC_CALL(vc_gguf_take_u32(&e->cursor, &pair->kind));
    pair->begin = e->cursor.at;
    return VC_OK;
}

/* Lengths were checked when the file was opened. */
static enum vc_status skip_string(struct editing *e)
{
    uint64_t n = 0;
    enum vc_status status = vc_gguf_take_u64(&e->cursor, &n);

    e->cursor.at += n;
    return status;
}

/* The reader has checked all of it. */
static enum vc_status skip_value(struct editing *e, uint32_t kind)
{
    uint64_t count = 1;

    if (kind == GGUF_ARRAY) {
        VC_CALL(vc_gguf_take_u32(&e->cursor, &kind));
        VC_CALL(vc_gguf_take_u64(&e->cursor, &count));
    }
    if (kind != GGUF_STRING) {
        e->cursor.at += count * vc_gguf_kind_bytes(kind);
        count = 0;
    }
    for (; count != 0; count--) {
        VC_CALL(skip_string(e));
    }
    return VC_OK;
}

/* ---- numbers ---- */

/* Kinds of whole numbers; those of floats are between. */
static bool is_integer(uint32_t kind)
{
    return kind <= GGUF_I32 || kind == GGUF_U64 || kind == GGUF_I64;
}

/* Little-endian, of size bytes; negative numbers are large ones here. */
static uint64_t number_of(const unsigned char *bytes, size_t size)
{
    uint64_t v = 0;

    for (; size != 0; size--) {
        v = v << 8 | bytes[size - 1];
    }
    return v;
}

/* Little-endian. */
static void put_number(unsigned char *bytes, size_t size, uint64_t v)
{
    for (size_t i = 0; i < size; i++, v >>= 8) {
        bytes[i] = (unsigned char)v;
    }
}

/* What the edit's number is called: "a|b". */
static const char *names_of(const struct vc_edit *edit)
{
    for (size_t i = 0; edit->key == VC_EDIT_LAYERS && edit->list != NULL && i < sizeof counts / sizeof counts[0]; i++) {
        if (strcmp(counts[i].list, edit->list) == 0) {
            return counts[i].key;
        }
    }
    return vc_arch_gguf_names(edit->key);
}

/* Every edit whose key has that name: replaces the number where it is the old one, and tells whether it did. A new
 * number has to fit the kind, without its sign bit. */
static bool edit_number(struct editing *e, const char *name, unsigned char *bytes, size_t size)
{
    bool changed = false;

    e->named[VC_EDIT_HEAD_SIZE] |= strcmp(name, head_size) == 0;
    for (size_t i = 0; i < e->n; i++) {
        const struct vc_edit *edit = &e->edits[i];

        if (!vc_is_one_of(name, names_of(edit))) {
            continue;
        }
        e->named[edit->key] = true;
        if (number_of(bytes, size) == edit->before && (size == 8 || edit->after >> (8 * size - 1) == 0)) {
            put_number(bytes, size, edit->after);
            e->made[edit->key] = true;
            changed = true;
        }
    }
    return changed;
}

/* ---- values ---- */

/* The new value of the pair, in place of the bytes begin..cursor. */
static enum vc_status add_patch(struct editing *e, const struct pair *pair, const unsigned char *value, size_t n)
{
    struct gguf_file *file = e->file;
    uint64_t from = file->fresh.n;

    VC_REFUSE_IF(file->n_patches == VC_GGUF_MAX_PATCHES, e->ctx, VC_E_UNSUPPORTED,
                 "more than %d keys of the metadata change", VC_GGUF_MAX_PATCHES);
    vc_text_add_bytes(&file->fresh, (const char *)value, n);
    file->patches[file->n_patches++] =
        (struct gguf_patch){.place = {pair->begin, e->cursor.at}, .begin = from, .end = from + n};
    return file->fresh.status;
}

/* Which layers are of another kind follows from their numbers, and nothing in the file could say otherwise. */
static enum vc_status refuse_period(const struct editing *e, const char *name, uint64_t period)
{
    return vc_fail(e->ctx, VC_E_UNSUPPORTED,
                   "of '%s' every layer is what its number says, in a pattern of %" PRIu64
                   ", so that the layers which stay would become others; leave out whole patterns",
                   name, period);
}

/* What a number says of single layers, where some are left out. *bytes is changed where it has to be. The rules are
 * those of hf_layers.c, for GGUF's keys. */
static enum vc_status edit_layers(struct editing *e, const char *name, unsigned char *bytes, size_t size, bool *changed)
{
    const struct vc_edit *layers = vc_edit_find(e->edits, e->n, VC_EDIT_LAYERS);
    uint64_t number = number_of(bytes, size);

    if (layers == NULL || layers->n_dropped == 0) {
        return VC_OK;
    }
    if (strcmp(name, first_of) == 0 && number < layers->before) {
        put_number(bytes, size, vc_edit_layers_below(layers, number));
        *changed = true;
    }
    VC_REFUSE_IF(number != 0 && vc_is_one_of(name, refused), e->ctx, VC_E_UNSUPPORTED,
                 "'%s.%s' speaks of layers by their number, and layers are left out", e->architecture, name);
    if (vc_is_one_of(name, periods)) {
        e->says_kinds = true;
        VC_RETURN_IF(number > 1 && !vc_edit_keeps_period(layers, number), refuse_period(e, name, number));
    }
    return VC_OK;
}

/* What a number says of experts, of which fewer are left. */
static enum vc_status check_experts(const struct editing *e, const char *name, uint64_t number)
{
    const struct vc_edit *experts = vc_edit_find(e->edits, e->n, VC_EDIT_EXPERTS);

    VC_REFUSE_IF(experts != NULL && strcmp(name, "expert_used_count") == 0 && number > experts->after, e->ctx,
                 VC_E_UNSUPPORTED,
                 "'%s.%s' is %" PRIu64 ", and %" PRIu64 " of %" PRIu64 " experts would be left to choose from",
                 e->architecture, name, number, experts->after, experts->before);
    VC_REFUSE_IF(experts != NULL && strcmp(name, "expert_group_count") == 0 && number > 1, e->ctx, VC_E_UNSUPPORTED,
                 "'%s.%s' divides the experts into %" PRIu64
                 " parts by their numbers, so that those which stay would come into others",
                 e->architecture, name, number);
    return VC_OK;
}

/* Remembers hidden size and heads as they were, for check_made. */
static enum vc_status edit_scalar(struct editing *e, const struct pair *pair, const char *name)
{
    size_t size = vc_gguf_kind_bytes(pair->kind);
    unsigned char bytes[8];

    VC_CALL(vc_gguf_take(&e->cursor, bytes, size));
    if (vc_is_one_of(name, vc_arch_gguf_names(VC_EDIT_HIDDEN))) {
        e->hidden = number_of(bytes, size);
    }
    if (vc_is_one_of(name, vc_arch_gguf_names(VC_EDIT_HEADS))) {
        e->heads = number_of(bytes, size);
    }
    VC_CALL(check_experts(e, name, number_of(bytes, size)));
    bool changed = edit_number(e, name, bytes, size);
    VC_CALL(edit_layers(e, name, bytes, size, &changed));
    return changed ? add_patch(e, pair, bytes, size) : VC_OK;
}

/* Numbers of an array that has one per layer, or several of the same meaning: each is edited, those of dropped layers
 * go. Positions of rotary embeddings are lists of other things. head: u32 kind of the elements, u64 number of them. */
static enum vc_status edit_array(struct editing *e, const struct pair *pair, const char *name)
{
    const struct vc_edit *layers = vc_edit_find(e->edits, e->n, VC_EDIT_LAYERS);
    unsigned char head[12];
    VC_SCOPED unsigned char *data = NULL;
    uint64_t count, n_bytes;
    size_t size, i;
    size_t n_kept = 0;
    bool changed = false;

    VC_CALL(vc_gguf_take(&e->cursor, head, sizeof head));
    size = vc_gguf_kind_bytes(vc_le32(head));
    count = vc_le64(head + 4);
    n_bytes = count * size;
    bool drops = layers != NULL && layers->n_dropped != 0 && count == layers->before && strncmp(name, "rope.", 5) != 0;
    e->says_kinds |= vc_is_one_of(name, periods);
    if (size == 0 || n_bytes > MOST_ARRAY_BYTES || (!drops && !is_integer(vc_le32(head)))) {
        e->cursor.at = pair->begin;
        return skip_value(e, pair->kind);
    }
    VC_CALL_ALLOC(data = vc_alloc(e->ctx, VC_TAG_IO, sizeof head + (size_t)n_bytes));
    for (i = 0; i < count; i++) {
        unsigned char *to = data + sizeof head + n_kept * size;

        VC_CALL(vc_gguf_take(&e->cursor, to, size));
        changed |= is_integer(vc_le32(head)) && edit_number(e, name, to, size);
        n_kept += !drops || !vc_edit_drops_layer(layers, i);
    }
    memcpy(data, head, sizeof head);
    put_number(data + 4, 8, n_kept);
    if (changed || n_kept != count) {
        VC_CALL(add_patch(e, pair, data, sizeof head + n_kept * size));
    }
    return VC_OK;
}

/* Keys of the architecture alone: "llama.block_count". */
/* The caller gives another value, maybe of another kind: the kind in front of the old value goes with it. */
static enum vc_status give_value(struct editing *e, const struct pair *pair, const struct vc_metadata_entry *entry)
{
    VC_SCOPED_TEXT struct vc_text value = {.ctx = e->ctx};
    struct pair whole = *pair;

    VC_CALL(vc_gguf_given_value(e->ctx, entry, pair->kind, &value));
    VC_CALL(skip_value(e, pair->kind));
    whole.begin -= 4;
    VC_CALL(add_patch(e, &whole, (const unsigned char *)value.data, value.n));
    e->given[entry - e->outs->metadata] = true;
    return VC_OK;
}

/* The caller's value first; else a size of the architecture; else the pair stays. */
static enum vc_status edit_pair(struct editing *e)
{
    size_t n = strlen(e->architecture);
    struct pair pair;

    VC_CALL(take_key(e, &pair));
    const struct vc_metadata_entry *given = vc_outs_metadata(e->outs, pair.key);
    if (given != NULL) {
        return give_value(e, &pair, given);
    }
    if (n == 0) {
        return skip_value(e, pair.kind);
    }
    e->has_tokens |= strcmp(pair.key, "tokenizer.ggml.tokens") == 0;
    if (strncmp(pair.key, e->architecture, n) == 0 && pair.key[n] == '.' && is_integer(pair.kind)) {
        return edit_scalar(e, &pair, pair.key + n + 1);
    }
    if (strncmp(pair.key, e->architecture, n) == 0 && pair.key[n] == '.' && pair.kind == GGUF_ARRAY) {
        return edit_array(e, &pair, pair.key + n + 1);
    }
    return skip_value(e, pair.kind);
}

/* ---- all of them ---- */

/* "" where the file does not say it: then no key has a meaning. */
static enum vc_status find_architecture(struct editing *e)
{
    const struct gguf_metadata *metadata = &e->file->from->metadata;
    struct pair pair;
    uint64_t n = 0;

    e->cursor.at = metadata->begin;
    for (uint64_t i = 0; i < metadata->n_pairs; i++) {
        VC_CALL(take_key(e, &pair));
        if (pair.kind == GGUF_STRING && strcmp(pair.key, VC_GGUF_KEY_ARCHITECTURE) == 0) {
            VC_CALL(vc_gguf_take_u64(&e->cursor, &n));
            n = vc_min_u64(n, sizeof e->architecture - 1);
            return vc_gguf_take(&e->cursor, e->architecture, (size_t)n);
        }
        VC_CALL(skip_value(e, pair.kind));
    }
    return VC_OK;
}

/* What the kind of model says of layers without a word in the metadata. */
static enum vc_status check_kind(const struct editing *e)
{
    const struct vc_edit *layers = vc_edit_find(e->edits, e->n, VC_EDIT_LAYERS);

    uint64_t period = vc_arch_gguf_period(e->architecture);

    if (layers != NULL && !e->says_kinds && period != 0 && !vc_edit_keeps_period(layers, period)) {
        return refuse_period(e, e->architecture, period);
    }
    return VC_OK;
}

/* Refuses an edit that no key states, unless it follows from others. */
static enum vc_status check_made(const struct editing *e)
{
    uint64_t before, after;

    for (size_t i = 0; i < e->n; i++) {
        const struct vc_edit *edit = &e->edits[i];

        VC_REFUSE_IF(!e->made[edit->key] && (e->named[edit->key] || !vc_edit_is_implied(e->edits, e->n, edit)), e->ctx,
                     VC_E_UNSUPPORTED,
                     "no key of the metadata says that the %s is %" PRIu64 ", which becomes %" PRIu64
                     "; expected '%s.%.*s'",
                     vc_edit_name(edit->key), edit->before, edit->after,
                     e->architecture[0] != '\0' ? e->architecture : "<architecture>", (int)strcspn(names_of(edit), "|"),
                     names_of(edit));
    }
    VC_REFUSE_IF(e->has_tokens && vc_edit_find(e->edits, e->n, VC_EDIT_VOCABULARY) != NULL, e->ctx, VC_E_UNSUPPORTED,
                 "the metadata lists the vocabulary ('tokenizer.ggml.tokens'), whose size changes");
    VC_REFUSE_IF(
        !e->named[VC_EDIT_HEAD_SIZE] && vc_edits_change_head_size(e->edits, e->n, e->hidden, e->heads, &before, &after),
        e->ctx, VC_E_UNSUPPORTED,
        "the metadata has no '%s.%s', so that a head would be taken for one of size %" PRIu64 " in place of %" PRIu64,
        e->architecture, head_size, after, before);
    return check_kind(e);
}

/* first: of several files the first states all sizes, the others may repeat some. */
/* The caller's entries that no pair of the file has the key of, for the end of the metadata. */
static enum vc_status add_given(struct editing *e)
{
    struct gguf_file *file = e->file;

    file->given_begin = file->fresh.n;
    for (size_t i = 0; i < e->outs->n_metadata; i++) {
        const struct vc_metadata_entry *entry = &e->outs->metadata[i];

        if (!e->given[i]) {
            vc_text_add_le(&file->fresh, strlen(entry->key), 8);
            vc_text_add_bytes(&file->fresh, entry->key, strlen(entry->key));
            VC_CALL(vc_gguf_given_value(e->ctx, entry, GGUF_KIND_COUNT, &file->fresh));
            file->n_pairs++;
        }
    }
    file->given_end = file->fresh.n;
    return file->fresh.status;
}

/* Of a split model each part has metadata; what has to be there at all is checked in the first. */
enum vc_status vc_gguf_edit(struct vc_ctx *ctx, const struct vc_out_list *outs, struct gguf_file *file, bool first)
{
    struct editing e = {
        .ctx = ctx, .edits = outs->edits, .n = outs->n_edits, .file = file, .outs = outs, .cursor = {.ctx = ctx}};
    enum vc_status status = VC_OK;

    VC_REFUSE_IF(outs->n_metadata > VC_GGUF_MAX_GIVEN, ctx, VC_E_ARGUMENT, "%s: more than %d entries",
                 vc_option(ctx, "metadata"), VC_GGUF_MAX_GIVEN);
    if (file->from != NULL && (e.n != 0 || outs->n_metadata != 0)) {
        VC_TRY(vc_gguf_cursor_init(ctx, file->from->file, &e.cursor));
        if (e.n != 0) {
            VC_TRY(find_architecture(&e));
        }
        e.cursor.at = file->from->metadata.begin;
        for (uint64_t i = 0; i < file->from->metadata.n_pairs && (e.architecture[0] != '\0' || outs->n_metadata != 0);
             i++) {
            VC_TRY(edit_pair(&e));
        }
        if (first && e.n != 0) {
            VC_TRY(check_made(&e));
        }
    }
    if (first) {
        VC_TRY(add_given(&e));
    }
out:
    vc_gguf_cursor_release(&e.cursor);
    return status;
}

/* A scalar of that meaning, or an entry of a list. */
bool vc_gguf_says(const struct vc_program *program, enum vc_edit_key key, uint64_t number)
{
    for (size_t i = 0; i < program->n_keys; i++) {
        const struct vc_program_key *pair = &program->keys[i];
        const char *name = strchr(pair->key, '.');

        if (name == NULL || !vc_is_one_of(name + 1, vc_arch_gguf_names(key))) {
            continue;
        }
        if (pair->is_integer && pair->integer >= 0 && (uint64_t)pair->integer == number) {
            return true;
        }
        for (size_t e = 0; pair->integers != NULL && e < pair->n; e++) {
            if (pair->integers[e] >= 0 && (uint64_t)pair->integers[e] == number) {
                return true;
            }
        }
    }
    return false;
}

/* ---- the keys as a program ---- */

/* The integers of a list with the edits made, without those of dropped layers. */
static enum vc_status edit_integers(struct vc_ctx *ctx, const struct vc_edit *edits, size_t n, struct vc_arena *arena,
                                    const char *name, struct vc_program_key *pair)
{
    const struct vc_edit *layers = vc_edit_find(edits, n, VC_EDIT_LAYERS);
    bool drops =
        layers != NULL && layers->n_dropped != 0 && pair->n == layers->before && strncmp(name, "rope.", 5) != 0;
    int64_t *numbers = vc_arena_alloc(ctx, arena, (pair->n + 1) * sizeof *numbers);
    size_t n_kept = 0;

    VC_CALL_ALLOC(numbers);
    for (size_t i = 0; i < pair->n; i++) {
        numbers[n_kept] = pair->integers[i];
        for (size_t e = 0; e < n; e++) {
            if (vc_is_one_of(name, names_of(&edits[e])) && pair->integers[i] == (int64_t)edits[e].before) {
                numbers[n_kept] = (int64_t)edits[e].after;
            }
        }
        n_kept += !drops || !vc_edit_drops_layer(layers, i);
    }
    pair->integers = numbers;
    pair->n = n_kept;
    return VC_OK;
}

/* The same on keys in memory, for a graph of what a job will write. */
enum vc_status vc_gguf_edit_keys(struct vc_ctx *ctx, const struct vc_edit *edits, size_t n, struct vc_arena *arena,
                                 struct vc_program *program)
{
    struct vc_program_key *keys = vc_arena_alloc(ctx, arena, (program->n_keys + 1) * sizeof *keys);
    const struct vc_edit *layers = vc_edit_find(edits, n, VC_EDIT_LAYERS);

    VC_CALL_ALLOC(keys);
    for (size_t i = 0; i < program->n_keys; i++) {
        const char *name = strchr(program->keys[i].key, '.');
        struct vc_program_key *pair = &keys[i];

        *pair = program->keys[i];
        if (name == NULL) {
            continue;
        }
        for (size_t e = 0; pair->is_integer && e < n; e++) {
            if (vc_is_one_of(name + 1, names_of(&edits[e])) && program->keys[i].integer == (int64_t)edits[e].before) {
                pair->integer = (int64_t)edits[e].after;
                pair->number = (double)pair->integer;
            }
        }
        if (pair->is_integer && layers != NULL && strcmp(name + 1, first_of) == 0 && pair->integer >= 0) {
            pair->integer = (int64_t)vc_edit_layers_below(layers, (uint64_t)pair->integer);
            pair->number = (double)pair->integer;
        }
        if (pair->integers != NULL) {
            VC_CALL(edit_integers(ctx, edits, n, arena, name + 1, pair));
        }
    }
    program->keys = keys;
    return VC_OK;
}
