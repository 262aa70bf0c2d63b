/* safetensors_notes.c - see safetensors_notes.h. Reads no file.
 *
 *     "__metadata__": {"format": "pt", "lm_head.weight": "model.embed_tokens.weight",
 *                      "vcompress.names": "{\"lm_head.weight\": \"model.embed_tokens.weight\"}"}
 *
 * The second entry is what other tools write for tensors that share memory, and may mean parts of tensors, too; the
 * third is ours and means whole ones.
 *
 * First half: notes, the entries of __metadata__ that are not ours, are read and written again; of several files those
 * that all agree about. Second half: second names become tensors of the model (vc_safetensors_find_names), each with
 * its own place in all arrays that go by tensors. */
#include "formats/safetensors/safetensors_notes.h"

#include "core/base/array.h"
#include "formats/dialects/comfy.h"
#include "formats/dialects/manifest/manifest_internal.h"
#include "formats/json/json_walk.h"
#include "formats/safetensors/safetensors.h"

#define FORMAT  "format"
#define N_SHOWN 4 /* keys that a sentence names */

/* Copies both texts. */
enum vc_status vc_safetensors_notes_add(struct vc_ctx *ctx, struct vc_arena *arena, struct safetensors_notes *notes,
                                        const char *key, const char *value)
{
    struct safetensors_note note = {.key = vc_arena_printf(ctx, arena, "%s", key)};

    VC_CALL_ALLOC(note.key);
    VC_CALL_ALLOC(note.value = vc_arena_printf(ctx, arena, "%s", value));
    VC_CALL(VC_GROW(ctx, VC_TAG_NAMES, notes->notes, notes->capacity, notes->n + 1));
    notes->notes[notes->n++] = note;
    return VC_OK;
}

/* NULL if there is none. */
const char *vc_safetensors_note(const struct safetensors_notes *notes, const char *key)
{
    for (size_t i = 0; i < notes->n; i++) {
        if (strcmp(notes->notes[i].key, key) == 0) {
            return notes->notes[i].value;
        }
    }
    return NULL;
}

void vc_safetensors_notes_release(struct vc_ctx *ctx, struct safetensors_notes *notes)
{
    vc_free(ctx, notes->notes);
    *notes = (struct safetensors_notes){.n = 0};
}

/* ---- what files get ---- */

/* A note and the file that it is from, while those that all agree about are looked for. */
struct ref {
    const struct safetensors_note *note;
    size_t order;
};

/* refs are sorted by key to find equal ones, then back into the order of the files. */
static int by_order(const void *a, const void *b)
{
    const struct ref *x = a;
    const struct ref *y = b;

    return VC_ORDER(x->order, y->order);
}

static int by_key(const void *a, const void *b)
{
    return VC_FIRST_ORDER(strcmp(((const struct ref *)a)->note->key, ((const struct ref *)b)->note->key),
                          by_order(a, b));
}

/* Lists the notes of n shards but for names of tensors; refs NULL: counts them only. */
static size_t list_notes(const struct safetensors_shard *shards, size_t n, struct ref *refs)
{
    size_t n_refs = 0;

    for (size_t s = 0; s < n; s++) {
        for (size_t i = 0; i < shards[s].notes.n; i++) {
            if (refs != NULL && !shards[s].notes.notes[i].is_name) {
                refs[n_refs] = (struct ref){&shards[s].notes.notes[i], n_refs};
            }
            n_refs += !shards[s].notes.notes[i].is_name;
        }
    }
    return n_refs;
}

/* Names a key that shards disagree about, for people; after some of them only says that there are more. */
static void tell(struct vc_text *differing, size_t number, const char *key)
{
    if (differing != NULL && number <= N_SHOWN) {
        vc_text_add(differing, "%s%.100s", number == 1 ? "" : ", ", key);
    } else if (differing != NULL && number == N_SHOWN + 1) {
        vc_text_add(differing, " and more");
    }
}

/* refs are sorted by key: leaves one of each key, and none where values differ. */
static size_t keep_agreed(struct ref *refs, size_t n, struct vc_text *differing)
{
    size_t n_differing = 0;
    size_t kept = 0;
    size_t i;

    for (size_t first = 0; first < n; first = i) {
        bool agreed = true;

        for (i = first + 1; i < n && strcmp(refs[i].note->key, refs[first].note->key) == 0; i++) {
            agreed = agreed && strcmp(refs[i].note->value, refs[first].note->value) == 0;
        }
        if (agreed) {
            refs[kept++] = refs[first];
        } else {
            tell(differing, ++n_differing, refs[first].note->key);
        }
    }
    return kept;
}

/* The notes that n shards agree about, in the order in which the shards have them. The caller frees *out, also after a
 * failure. */
static enum vc_status agree(struct vc_ctx *ctx, const struct safetensors_shard *shards, size_t n, struct ref **out,
                            size_t *n_refs, struct vc_text *differing)
{
    *n_refs = list_notes(shards, n, NULL);
    VC_CALL(VC_ARRAY(ctx, VC_TAG_NAMES, *out, *n_refs));
    *n_refs = list_notes(shards, n, *out);
    if (n > 1 && *n_refs != 0) {
        qsort(*out, *n_refs, sizeof **out, by_key);
        *n_refs = keep_agreed(*out, *n_refs, differing);
        qsort(*out, *n_refs, sizeof **out, by_order);
    }
    return differing != NULL ? differing->status : VC_OK;
}

/* ComfyUI's note names layers with codes, so it is made anew for the outputs; layers.data NULL: it goes. */
static enum vc_status add_note(struct vc_ctx *ctx, const struct safetensors_note *note, const struct vc_out_list *outs,
                               size_t *n_added, struct vc_text *text)
{
    const char *value = note->value;
    VC_SCOPED_TEXT struct vc_text layers = {.ctx = ctx};

    if (strcmp(note->key, VC_COMFY_METADATA) == 0) {
        VC_CALL(vc_comfy_metadata(ctx, value, outs, &layers));
        value = layers.data;
    }
    if (value != NULL) {
        vc_text_add(text, "%s", (*n_added)++ == 0 ? "" : ",");
        vc_text_add_json_string(text, note->key);
        vc_text_add(text, ":");
        vc_text_add_json_string(text, value);
    }
    return VC_OK;
}

/* transformers wants "format", so it is added where no note says it. */
enum vc_status vc_safetensors_notes_text(struct vc_ctx *ctx, const struct safetensors_shard *shards, size_t n,
                                         const char *without, const struct vc_out_list *outs, struct vc_text *text,
                                         struct vc_text *differing)
{
    size_t n_added = 0;
    VC_SCOPED struct ref *refs = NULL;
    size_t n_refs;
    bool has_format = false;

    VC_CALL(agree(ctx, shards, n, &refs, &n_refs, differing));
    for (size_t i = 0; i < n_refs; i++) {
        if ((without != NULL && strcmp(refs[i].note->key, without) == 0) ||
            vc_outs_metadata(outs, refs[i].note->key) != NULL) {
            continue;
        }
        VC_CALL(add_note(ctx, refs[i].note, outs, &n_added, text));
        has_format = has_format || strcmp(refs[i].note->key, FORMAT) == 0;
    }
    if (!has_format && vc_outs_metadata(outs, FORMAT) == NULL) {
        vc_text_add(text, "%s\"" FORMAT "\":\"pt\"", n_added++ != 0 ? "," : "");
    }
    for (size_t i = 0; i < outs->n_metadata; i++) {
        const struct safetensors_note given = {.key = outs->metadata[i].key, .value = outs->metadata[i].value};

        VC_CALL(add_note(ctx, &given, outs, &n_added, text));
    }
    return text->status;
}

/* ---- second names ---- */

/* A second name while the list is made; scale, zero_point and global are places in the list. */
struct second {
    const char *name;
    size_t of;
    size_t scale, zero_point, global; /* of a main tensor, in the list; VC_NO_TENSOR: none */
};

/* While second names are made tensors. */
struct seconds {
    struct vc_ctx *ctx;
    struct safetensors *self;
    struct vc_model *model;
    size_t n, capacity;
    struct second *list;
};

/* The tensor that can have the second name; VC_NO_TENSOR: none. */
static size_t find_first(const struct seconds *s, const char *name, const char *first)
{
    size_t of = first != NULL ? vc_model_find(s->model, first) : VC_NO_TENSOR;

    if (of == VC_NO_TENSOR || s->model->tensors[of].part_of != VC_NO_TENSOR ||
        vc_finds_at(&s->self->finds, of)->dialect != NULL || strcmp(name, VC_SAFETENSORS_METADATA) == 0) {
        return VC_NO_TENSOR;
    }
    return of;
}

/* Appends a second name to the list: that of a tensor, or of its scale. */
static enum vc_status add(struct seconds *s, const char *name, const char *tail, size_t of)
{
    char *copy = vc_arena_printf(s->ctx, &s->self->finds.arena, "%s%s", name, tail);

    VC_CALL_ALLOC(copy);
    VC_CALL(VC_GROW(s->ctx, VC_TAG_NAMES, s->list, s->capacity, s->n + 1));
    s->list[s->n++] = (struct second){copy, of, VC_NO_TENSOR, VC_NO_TENSOR, VC_NO_TENSOR};
    return VC_OK;
}

/* What follows the name of a tensor in that of its scale, "w" and "w.scale"; NULL: it is called in another way. */
static const char *tail_of(const struct vc_model *model, size_t of, size_t part)
{
    const char *name = model->tensors[part].name;
    size_t n = strlen(model->tensors[of].name);

    return strncmp(name, model->tensors[of].name, n) == 0 ? name + n : NULL;
}

/* A second name of a tensor; of a quantized one also second names of its parts, which are called after it. Parts with
 * names of their own have no second ones, and the tensor is left out then. */
static enum vc_status add_second(struct seconds *s, const char *name, size_t of)
{
    const struct vc_quant *quant = s->model->tensors[of].quant;
    const char *scale = quant != NULL ? tail_of(s->model, of, vc_quant_scale(quant)) : NULL;
    size_t zero_point = quant != NULL ? vc_quant_find(quant, VC_PART_ZERO_POINT) : VC_NO_TENSOR;
    const char *zero = zero_point != VC_NO_TENSOR ? tail_of(s->model, of, zero_point) : NULL;
    size_t global_scale = quant != NULL ? vc_quant_find(quant, VC_PART_GLOBAL_SCALE) : VC_NO_TENSOR;
    const char *global = global_scale != VC_NO_TENSOR ? tail_of(s->model, of, global_scale) : NULL;
    size_t main = s->n;

    if (quant != NULL && (scale == NULL || (zero == NULL && !quant->symmetric) ||
                          (global == NULL && global_scale != VC_NO_TENSOR) || quant->scale_group != 0)) {
        return VC_OK;
    }
    VC_CALL(add(s, name, "", of));
    if (scale != NULL) {
        s->list[main].scale = s->n;
        VC_CALL(add(s, name, scale, vc_quant_scale(quant)));
    }
    if (zero != NULL) {
        s->list[main].zero_point = s->n;
        VC_CALL(add(s, name, zero, zero_point));
    }
    if (global != NULL) {
        s->list[main].global = s->n;
        VC_CALL(add(s, name, global, global_scale));
    }
    return VC_OK;
}

/* Reads one file's list of second names. Those of tensors that the model does not have are left out. */
static enum vc_status list_seconds(struct seconds *s, const char *text)
{
    uint64_t counted = 0;
    json_t *root = NULL;
    const char *name;
    json_t *first;
    enum vc_status status = vc_json_tree_load(s->ctx, text, strlen(text), &root, &counted);

    if (status != VC_OK) {
        return vc_context(s->ctx, "its metadata entry '%s'", VC_SAFETENSORS_NAMES);
    }
    json_object_foreach(root, name, first)
    {
        size_t of = find_first(s, name, json_string_value(first));

        if (of != VC_NO_TENSOR) {
            VC_TRY(add_second(s, name, of));
        }
    }
out:
    vc_json_tree_free(s->ctx, root, counted);
    return status;
}

/* *unique: no second name is that of a tensor, or occurs twice. A list with a double is left alone as a whole. */
static enum vc_status check_unique(const struct seconds *s, bool *unique)
{
    VC_SCOPED const char **names = vc_alloc_array(s->ctx, VC_TAG_NAMES, s->n, sizeof *names);

    *unique = true;
    VC_CALL_ALLOC(names);
    for (size_t i = 0; i < s->n; i++) {
        names[i] = s->list[i].name;
        *unique = *unique && vc_model_find(s->model, names[i]) == VC_NO_TENSOR;
    }
    qsort(names, s->n, sizeof *names, vc_compare_texts);
    for (size_t i = 1; i < s->n && *unique; i++) {
        *unique = strcmp(names[i - 1], names[i]) != 0;
    }
    return VC_OK;
}

/* A copy of the array with room for `more`; frees the old one. NULL: no memory, and the old one stays. */
static void *grown(struct vc_ctx *ctx, void *array, size_t n, size_t more, size_t item)
{
    void *copy = vc_calloc_array(ctx, VC_TAG_NAMES, n + more, item);

    if (copy != NULL) {
        memcpy(copy, array, n * item);
        vc_free(ctx, array);
    }
    return copy;
}

/* Leaves the function without memory. */
#define GROW(array)                                                                    \
    do {                                                                               \
        void *copy = grown(s->ctx, array, s->model->n_tensors, s->n, sizeof *(array)); \
                                                                                       \
        VC_CALL_ALLOC(copy);                                                           \
        (array) = copy;                                                                \
    } while (0)

/* Makes all arrays that go by tensors longer by the number of second names. Pointers into quants are set anew. */
static enum vc_status make_room(struct seconds *s)
{
    struct vc_model *model = s->model;

    GROW(model->tensors);
    GROW(model->io);
    GROW(s->self->entries);
    if (s->self->finds.found != NULL) {
        GROW(s->self->finds.found);
    }
    if (model->quants != NULL) {
        GROW(model->quants);
        for (size_t i = 0; i < model->n_tensors; i++) {
            model->tensors[i].quant = model->tensors[i].quant != NULL ? &model->quants[i] : NULL;
        }
    }
    return VC_OK;
}

/* The new tensors: each is its first one under another name. */
static void fill(struct seconds *s, size_t first)
{
    struct vc_model *model = s->model;

    for (size_t i = 0; i < s->n; i++) {
        size_t of = s->list[i].of;
        struct vc_tensor *t = &model->tensors[first + i];

        *t = model->tensors[of];
        t->name = s->list[i].name;
        t->file_bytes = 0;
        t->quant = NULL;
        t->part_of = VC_NO_TENSOR;
        t->alias_of = of;
        model->io[first + i] = model->io[of];
        s->self->entries[first + i] = s->self->entries[of];
        s->self->entries[first + i].name = t->name;
    }
}

/* Second names of quantized tensors: their parts are the new tensors of the parts' second names. */
static enum vc_status attach(struct seconds *s, size_t first)
{
    for (size_t i = 0; i < s->n; i++) {
        const struct second *second = &s->list[i];

        if (second->scale != VC_NO_TENSOR) {
            struct vc_quant quant = *s->model->tensors[second->of].quant;

            vc_quant_set(&quant, vc_quant_find(&quant, VC_PART_ABSMAX) != VC_NO_TENSOR ? VC_PART_ABSMAX : VC_PART_SCALE,
                         first + second->scale);
            vc_quant_set(&quant, VC_PART_ZERO_POINT,
                         second->zero_point != VC_NO_TENSOR ? first + second->zero_point : VC_NO_TENSOR);
            vc_quant_set(&quant, VC_PART_GLOBAL_SCALE,
                         second->global != VC_NO_TENSOR ? first + second->global : VC_NO_TENSOR);
            VC_CALL(vc_manifest_attach(s->ctx, s->model, first + i, &quant));
        }
    }
    return VC_OK;
}

/* Notes whose key is a second name have become tensors; they are not copied into outputs as notes. */
static void mark_notes(struct seconds *s, size_t first)
{
    for (size_t shard = 0; shard < s->self->n_shards; shard++) {
        struct safetensors_notes *notes = &s->self->shards[shard].notes;

        for (size_t i = 0; i < notes->n; i++) {
            size_t found = vc_model_find(s->model, notes->notes[i].key);

            notes->notes[i].is_name = found != VC_NO_TENSOR && found >= first;
        }
    }
}

/* New tensors stand behind all others. A failure leaves arrays that are too long, and nothing else. */
static enum vc_status add_tensors(struct seconds *s)
{
    size_t first = s->model->n_tensors;

    VC_CALL(make_room(s));
    fill(s, first);
    s->model->n_tensors += s->n;
    VC_CALL(attach(s, first));
    VC_CALL(vc_model_index_names(s->ctx, s->model));
    mark_notes(s, first);
    return VC_OK;
}

/* Nothing where a second name is that of a tensor already. */
enum vc_status vc_safetensors_find_names(struct vc_ctx *ctx, struct safetensors *self, struct vc_model *model)
{
    struct seconds s = {.ctx = ctx, .self = self, .model = model};
    bool unique;
    enum vc_status status = VC_OK;

    for (size_t i = 0; i < self->n_shards; i++) {
        if (self->shards[i].names != NULL) {
            VC_TRY(vc_collect(ctx, list_seconds(&s, self->shards[i].names), "names", NULL));
        }
    }
    if (s.n != 0) {
        VC_TRY(check_unique(&s, &unique));
        if (unique) {
            VC_TRY(add_tensors(&s));
        }
    }
out:
    vc_free(ctx, s.list);
    return status;
}
