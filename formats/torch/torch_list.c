/* torch_list.c - what was found in the tree of a PyTorch file becomes the list of a model's tensors: what cannot be
 * read is set apart, and tensors that are the same elements of one storage are found. */

#include "core/base/array.h"
#include "core/base/findings.h"
#include "core/model/names.h"
#include "formats/torch/torch.h"

#define MAX_NAMED 20 /* of those that cannot be read, in the note */

/* For the report: "2 tensors cannot be read: a, b (is a sparse tensor; to_dense() it first)". */
static void note_refused(struct torch *self)
{
    size_t n = self->n_refused;

    vc_text_add(&self->note, "%s%zu tensor%s cannot be read: ", self->note.n == 0 ? "" : "; ", n, n == 1 ? "" : "s");
    for (size_t i = 0; i < n && i < MAX_NAMED; i++) {
        const struct vc_refused *r = &self->refused[i];
        bool same = i + 1 < n && i + 1 < MAX_NAMED && strcmp(r->why, r[1].why) == 0; /* one reason for all of a run */

        vc_text_add(&self->note, "%s%s", i == 0 ? "" : ", ", r->name);
        if (!same) {
            vc_text_add(&self->note, " (%s)", r->why);
        }
    }
    if (n > MAX_NAMED) {
        vc_text_add(&self->note, " and %zu more, which verify lists", n - MAX_NAMED);
    }
}

/* A file without any tensor that can be read is refused. */
enum vc_status vc_torch_split_refused(struct vc_ctx *ctx, struct torch *self)
{
    size_t n = 0;
    enum vc_status status = VC_OK;

    for (size_t i = 0; i < self->n_found; i++) {
        n += self->found[i].refusal != NULL;
    }
    VC_CALL(VC_ARRAY(ctx, VC_TAG_NAMES, self->refused, n));
    n = 0;
    for (size_t i = 0; i < self->n_found; i++) {
        const struct torch_found *found = &self->found[i];

        if (found->refusal != NULL) {
            self->refused[self->n_refused++] =
                (struct vc_refused){.name = found->name, .role = found->role, .why = found->refusal};
        } else {
            memmove(&self->found[n++], found, sizeof *found);
        }
    }
    self->n_found = n;
    if (n == 0 && self->n_refused != 0) {
        status = vc_fail(ctx, VC_E_UNSUPPORTED, "%s: %s", self->refused[0].name, self->refused[0].why);
        return vc_collect(ctx, status, "refused", self->refused[0].name);
    }
    VC_REFUSE_IF(n == 0 && (!vc_collecting(ctx) || ctx->findings->n_errors == 0), ctx, VC_E_UNSUPPORTED,
                 "is a PyTorch file%s without any tensor%s", self->legacy ? " of the legacy format (before 1.6)" : "",
                 self->n_arrays != 0 ? "; NumPy arrays in it are not read: save them with np.savez(), or as tensors"
                                     : "");
    if (self->n_refused != 0 && !vc_collecting(ctx)) { /* findings have each of them */
        note_refused(self);
        return self->note.status;
    }
    return VC_OK;
}

/* A module keeps its constants as buffers; the names of most say more (names.h), and are asked for later. Whatever is
 * called a weight is one, wherever it is kept. */
static void tell_use(const struct torch_found *found, struct vc_tensor *tensor)
{
    const char *reason;

    if (found->buffer && strstr(tensor->name, "weight") == NULL &&
        vc_name_use(tensor->name, tensor->n_dims, tensor->shape, &reason) == VC_USE_UNKNOWN) {
        tensor->use = VC_USE_TABLE;
        tensor->kept_as = "buffer";
    }
}

/* The tensor as the model has it. The first one of a storage is charged with its bytes in the file. */
static void fill_tensor(struct torch *self, struct torch_found *found, struct vc_tensor *tensor)
{
    const struct torch_tensor *t = &found->tensor;
    struct torch_storage *s = &self->storages[t->storage];

    *tensor = (struct vc_tensor){.name = found->name,
                                 .dtype = t->dtype->dtype,
                                 .n_dims = t->n_dims,
                                 .shape = t->shape,
                                 .n_elems = t->n_elems,
                                 .size_bytes = t->n_elems * t->dtype->item_bytes,
                                 .file_bytes = s->file_bytes,
                                 .compressed = s->entry != NULL && s->entry->method != VC_ZIP_STORED,
                                 .part_of = VC_NO_TENSOR,
                                 .alias_of = VC_NO_TENSOR,
                                 .role = found->role};
    tell_use(found, tensor);
    s->file_bytes = 0; /* the others of this storage cost nothing more */
}

/* A tensor, to be sorted by what it shows of which storage. */
struct place {
    const struct torch_tensor *tensor;
    size_t index;
};

/* By storage, offset, type, shape and strides: 0 for tensors that are the same elements, which are aliases. */
static int compare_places(const struct torch_tensor *a, const struct torch_tensor *b)
{
    int order = VC_FIRST_ORDER(VC_ORDER(a->storage, b->storage), VC_ORDER(a->offset, b->offset),
                               VC_ORDER(a->dtype, b->dtype), VC_ORDER(a->n_dims, b->n_dims));

    for (unsigned d = 0; order == 0 && d < a->n_dims; d++) {
        order = VC_FIRST_ORDER(VC_ORDER(a->shape[d], b->shape[d]),
                               a->shape[d] > 1 ? VC_ORDER(a->strides[d], b->strides[d]) : 0);
    }
    return order;
}

/* The same, and among aliases the one that was listed first comes first. */
static int by_place(const void *a, const void *b)
{
    const struct place *x = a;
    const struct place *y = b;

    return VC_FIRST_ORDER(compare_places(x->tensor, y->tensor), VC_ORDER(x->index, y->index));
}

/* Sorts, and makes each group of equal ones aliases of its first. */
static enum vc_status find_aliases(struct vc_ctx *ctx, const struct torch *self, struct vc_model *model)
{
    VC_SCOPED struct place *places = vc_alloc_array(ctx, VC_TAG_NAMES, self->n_found, sizeof *places);
    size_t first = 0; /* of those that are the same */

    VC_CALL_ALLOC(places);
    for (size_t i = 0; i < self->n_found; i++) {
        places[i] = (struct place){&self->found[i].tensor, i};
    }
    qsort(places, self->n_found, sizeof *places, by_place);
    for (size_t i = 1; i < self->n_found; i++) {
        if (compare_places(places[first].tensor, places[i].tensor) != 0) {
            first = i;
        } else if (places[i].tensor->n_elems != 0) {
            model->tensors[places[i].index].alias_of = places[first].index;
        }
    }
    return VC_OK;
}

/* Says how many tensors show elements of a storage that others show, too (slices, transposes), or show them several
 * times (expand), and in what size: in an output each has elements of its own. Storages with room for all that their
 * tensors show are left out: what overlaps there costs nothing. */
static enum vc_status note_shared(struct vc_ctx *ctx, struct torch *self, const struct vc_model *model)
{
    /* Bytes of each storage. */
    VC_SCOPED uint64_t *shown = vc_calloc_array(ctx, VC_TAG_NAMES, self->n_storages, sizeof *shown);
    const char *first = NULL;
    uint64_t before = 0;
    uint64_t after = 0;
    size_t n = 0;

    VC_CALL_ALLOC(shown);
    for (size_t i = 0; i < self->n_found; i++) {
        uint64_t *sum = &shown[self->found[i].tensor.storage];

        if (model->tensors[i].alias_of == VC_NO_TENSOR && !vc_add_u64(*sum, model->tensors[i].size_bytes, sum)) {
            *sum = UINT64_MAX;
        }
    }
    for (size_t i = 0; i < self->n_found; i++) {
        size_t storage = self->found[i].tensor.storage;

        if (model->tensors[i].alias_of == VC_NO_TENSOR && shown[storage] > self->storages[storage].n_bytes) {
            first = first == NULL ? self->found[i].name : first;
            after = vc_add_u64(after, model->tensors[i].size_bytes, &after) ? after : UINT64_MAX;
            n++;
        }
    }
    for (size_t i = 0; i < self->n_storages; i++) {
        before += shown[i] > self->storages[i].n_bytes ? self->storages[i].n_bytes : 0;
    }
    if (n != 0) {
        vc_text_add(&self->note, "%s", self->note.n == 0 ? "" : "; ");
        if (n == 1) {
            vc_text_add(&self->note, "1 tensor (%s) shows", first);
        } else {
            vc_text_add(&self->note, "%zu tensors (%s, ...) show", n, first);
        }
        vc_text_add(&self->note,
                    " the same elements of a storage more than once; each is written with elements of its own: %llu "
                    "bytes in place of %llu",
                    (unsigned long long)after, (unsigned long long)before);
        return self->note.status;
    }
    return VC_OK;
}

/* Tensors and bytes of each part, for `inspect`. */
static void count_parts(struct torch *self, struct vc_model *model)
{
    for (size_t i = 0; i < self->n_found; i++) {
        struct vc_part *part = &self->parts[self->found[i].part];

        part->n_tensors++;
        part->size_bytes += model->tensors[i].alias_of == VC_NO_TENSOR ? model->tensors[i].size_bytes : 0;
    }
    model->parts = self->parts;
    model->n_parts = self->n_parts;
    model->refused = self->refused;
    model->n_refused = self->n_refused;
    model->unlisted = self->arrays_among_weights ? "an array of NumPy" : NULL;
}

enum vc_status vc_torch_list_tensors(struct vc_ctx *ctx, struct torch *self, struct vc_model *model)
{
    VC_CALL(VC_ZEROS(ctx, VC_TAG_NAMES, model->tensors, self->n_found));
    model->io = vc_calloc_array(ctx, VC_TAG_NAMES, self->n_found, sizeof *model->io); /* no form but the values */
    VC_CALL_ALLOC(model->io);
    for (size_t i = 0; i < self->n_found; i++) {
        fill_tensor(self, &self->found[i], &model->tensors[i]);
    }
    model->n_tensors = self->n_found;
    VC_CALL(find_aliases(ctx, self, model));
    VC_CALL(note_shared(ctx, self, model));
    VC_CALL(vc_model_index_names(ctx, model));
    count_parts(self, model);
    return VC_OK;
}
