/* model.c - what every model can do whatever its format: look up names, hand out tensors, small reads. */

#include "core/base/findings.h"
#include "core/model/code_schemes.h"
#include "core/model/names.h"
#include "core/model/program.h"
#include "core/text/text.h"

const struct vc_model_info *vc_model_facts(const struct vc_model *model)
{
    return &model->public;
}

const struct vc_layout *vc_model_layout(const struct vc_model *model)
{
    size_t i = 0;

    while (i < model->n_tensors && model->tensors[i].quant == NULL && !vc_dtype_is_quantized(model->tensors[i].dtype)) {
        i++;
    }
    return i < model->n_tensors && model->layout.name != NULL ? &model->layout : NULL;
}

const char *vc_model_set_path(struct vc_ctx *ctx, struct vc_model *model, char *path)
{
    vc_free(ctx, (void *)(uintptr_t)model->path);
    return model->path = path;
}

enum vc_status vc_model_add_fact(struct vc_ctx *ctx, struct vc_model *model, const char *key, const char *format, ...)
{
    va_list args;
    char *c;

    if (model->n_facts == VC_MAX_FACTS) {
        return VC_OK;
    }
    va_start(args, format);
    int n = vsnprintf(NULL, 0, format, args);
    va_end(args);
    char *value = vc_alloc(ctx, VC_TAG_NAMES, n < 0 ? 1 : (size_t)n + 1);
    VC_CALL_ALLOC(value);
    value[0] = '\0';
    va_start(args, format);
    (void)vsnprintf(value, n < 0 ? 1 : (size_t)n + 1, format, args);
    va_end(args);
    for (c = value; *c != '\0'; c++) {
        *c = (unsigned char)*c < ' ' || *c == 0x7f ? '?' : *c; /* one line, as promised */
    }
    model->own_facts[model->n_facts++] = (struct vc_fact){key, value};
    model->facts = model->own_facts;
    return VC_OK;
}

enum vc_status vc_model_take_inputs(struct vc_ctx *ctx, const struct vc_model *source, struct vc_model *model)
{
    size_t n = source->n_inputs + (source->input != NULL);
    size_t k = 0;

    VC_CALL_ALLOC(model->inputs = vc_calloc_array(ctx, VC_TAG_NAMES, n, sizeof *model->inputs));
    for (size_t i = 0; i < source->n_inputs; i++) {
        model->inputs[k++] = source->inputs[i];
    }
    if (source->input != NULL) {
        model->inputs[k++] = source->input;
    }
    model->n_inputs = k - 1;
    model->input = model->inputs[k - 1];
    model->file_bytes = source->file_bytes;
    model->made_of = source;
    for (size_t i = 0; i < source->n_facts; i++) {
        if (strcmp(source->facts[i].key, VC_FACT_NOTE) == 0) {
            VC_CALL(vc_model_add_fact(ctx, model, VC_FACT_NOTE, "%s", source->facts[i].value));
        }
    }
    return VC_OK;
}

const struct vc_tensor *vc_model_tensor(const struct vc_model *model, size_t index)
{
    return index < model->n_tensors ? &model->tensors[index] : NULL;
}

const char *vc_scheme_name(enum vc_scheme scheme)
{
    const struct vc_code_scheme *row = vc_code_scheme(scheme);

    return row != NULL ? row->name : scheme == VC_SCHEME_NONE ? "none" : "unknown";
}

const char *vc_part_role_name(enum vc_part_role role)
{
    static const char *const names[VC_PART_ROLES] = {[VC_PART_CODES] = "codes",
                                                     [VC_PART_SCALE] = "scale",
                                                     [VC_PART_ABSMAX] = "absmax",
                                                     [VC_PART_ZERO_POINT] = "zero_point",
                                                     [VC_PART_GLOBAL_SCALE] = "global_scale",
                                                     [VC_PART_CODEBOOK] = "codebook",
                                                     [VC_PART_SCALE_SCALE] = "scale_scale",
                                                     [VC_PART_SCALE_OFFSET] = "scale_offset",
                                                     [VC_PART_ORDER] = "order",
                                                     [VC_PART_MASK] = "mask",
                                                     [VC_PART_OFFSET] = "offset"};

    return (unsigned)role < VC_PART_ROLES ? names[role] : "unknown";
}

size_t vc_quant_find(const struct vc_quant *quant, enum vc_part_role role)
{
    for (unsigned i = 0; i < quant->n_parts; i++) {
        if (quant->parts[i].role == role) {
            return quant->parts[i].tensor;
        }
    }
    return VC_NO_TENSOR;
}

size_t vc_quant_scale(const struct vc_quant *quant)
{
    size_t absmax = vc_quant_find(quant, VC_PART_ABSMAX);

    return absmax != VC_NO_TENSOR ? absmax : vc_quant_find(quant, VC_PART_SCALE);
}

bool vc_quant_is_special(const struct vc_quant *quant)
{
    return quant->offset_rule != VC_OFFSET_NONE || quant->scale_run != 0 ||
           vc_quant_find(quant, VC_PART_ORDER) != VC_NO_TENSOR ||
           (vc_code_scheme(quant->scheme)->global && vc_quant_find(quant, VC_PART_GLOBAL_SCALE) == VC_NO_TENSOR);
}

void vc_quant_set(struct vc_quant *quant, enum vc_part_role role, size_t tensor)
{
    unsigned i = 0;

    while (i < quant->n_parts && quant->parts[i].role != role) {
        i++;
    }
    if (tensor != VC_NO_TENSOR) {
        quant->parts[i] = (struct vc_quant_part){role, tensor};
        quant->n_parts += i == quant->n_parts;
    } else if (i < quant->n_parts) {
        quant->parts[i] = quant->parts[--quant->n_parts];
    }
}

static struct vc_name_list names_of(const struct vc_model *model)
{
    _Static_assert(offsetof(struct vc_tensor, name) == 0, "a list of tensors is one of names");

    return VC_NAME_LIST(model->tensors, sizeof *model->tensors);
}

enum vc_status vc_model_index_names(struct vc_ctx *ctx, struct vc_model *model)
{
    VC_CALL(vc_name_table_make(ctx, model->n_tensors, &model->names));
    for (size_t i = 0; i < model->n_tensors; i++) {
        if (vc_name_table_add(&model->names, names_of(model), i) != SIZE_MAX) {
            enum vc_status status = vc_fail(ctx, VC_E_FORMAT, "tensor '%s' occurs twice", model->tensors[i].name);
            VC_CALL(vc_collect(ctx, status, "duplicate", model->tensors[i].name));
        }
    }
    return VC_OK;
}

struct name_entry {
    const char *name;
    size_t index;
};

static int compare_entries(const void *a, const void *b)
{
    return strcmp(((const struct name_entry *)a)->name, ((const struct name_entry *)b)->name);
}

const struct vc_component *vc_model_component(const struct vc_model *model, size_t tensor)
{
    for (size_t i = 0; i < model->n_components; i++) {
        const struct vc_component *c = &model->components[i];

        if (tensor >= c->first && tensor - c->first < c->model->n_tensors) {
            return c;
        }
    }
    return NULL;
}

const struct vc_model *vc_model_of(const struct vc_model *model, size_t tensor, const struct vc_tensor **own)
{
    const struct vc_component *component = vc_model_component(model, tensor);

    *own = component != NULL ? &component->model->tensors[tensor - component->first] : &model->tensors[tensor];
    return component != NULL ? component->model : model;
}

enum vc_status vc_model_sort_names(struct vc_ctx *ctx, const struct vc_model *model, size_t **order)
{
    size_t n = model->n_tensors;
    VC_SCOPED struct name_entry *entries = vc_alloc_array(ctx, VC_TAG_NAMES, n, sizeof *entries);

    *order = NULL;
    VC_CALL_ALLOC(entries);
    VC_CALL(VC_ARRAY(ctx, VC_TAG_NAMES, *order, n));
    for (size_t i = 0; i < n; i++) {
        entries[i] = (struct name_entry){model->tensors[i].name, i};
    }
    if (n != 0) {
        qsort(entries, n, sizeof *entries, compare_entries);
    }
    for (size_t i = 0; i < n; i++) {
        (*order)[i] = entries[i].index;
    }
    return VC_OK;
}

void vc_model_name_axes(struct vc_model *model)
{
    for (size_t i = 0; i < model->n_tensors; i++) {
        struct vc_tensor *t = &model->tensors[i];

        t->axis_reason = vc_name_channel_axis(t->name, t->n_dims, t->shape, &t->channel_axis);
        t->inputs = vc_name_inputs(t->name, t->n_dims, t->shape, &t->inputs_reason);
        if (t->use == VC_USE_UNKNOWN && t->kept_as == NULL && t->quant == NULL) {
            t->use = vc_name_use(t->name, t->n_dims, t->shape, &t->kept_as);
        }
        /* Other formats than PyTorch's state no roles. What has codes was taken for a weight when it was written. */
        bool coded = t->quant != NULL || t->part_of != VC_NO_TENSOR || vc_dtype_is_quantized(t->dtype);
        if (t->role == VC_ROLE_WEIGHT && !coded && vc_name_is_state(t->name)) {
            t->role = VC_ROLE_OPTIMIZER;
        }
        if (model->conv1d && t->n_dims == 2 && vc_name_is_conv1d(t->name)) {
            t->channel_axis = 1;
            t->axis_reason = "Conv1D is [in, out]";
        }
    }
}

char *vc_model_name_room(struct vc_ctx *ctx, const struct vc_model *model, size_t more)
{
    size_t longest = 0;

    for (size_t i = 0; i < model->n_tensors; i++) {
        size_t n = strlen(model->tensors[i].name);

        longest = n > longest ? n : longest;
    }
    return vc_alloc(ctx, VC_TAG_NAMES, longest + more);
}

size_t vc_model_find_bytes(const struct vc_model *model, const char *name, size_t n)
{
    return vc_name_table_find(&model->names, names_of(model), name, n); /* SIZE_MAX is VC_NO_TENSOR */
}

size_t vc_model_find(const struct vc_model *model, const char *name)
{
    return vc_model_find_bytes(model, name, strlen(name));
}

#define SKIP_BYTES ((size_t)64 << 10)

static enum vc_status skip(struct vc_ctx *ctx, const struct vc_model *model, struct vc_source_stream *stream,
                           uint64_t n)
{
    VC_SCOPED void *buffer = vc_alloc(ctx, VC_TAG_IO, SKIP_BYTES);

    VC_CALL_ALLOC(buffer);
    while (n > 0) {
        size_t part = (size_t)vc_min_u64(n, SKIP_BYTES);

        VC_CALL(model->ops->stream_read(ctx, stream, buffer, part));
        n -= part;
    }
    return VC_OK;
}

enum vc_status vc_model_unchanged(struct vc_ctx *ctx, const struct vc_model *model, enum vc_status status)
{
    char before[VC_MESSAGE_BYTES];

    if (model->check_unchanged == NULL || (status != VC_OK && status != VC_E_FORMAT && status != VC_E_UNSUPPORTED &&
                                           status != VC_E_INTERNAL)) { /* what was checked before is not so any more */
        return status;
    }
    (void)snprintf(before, sizeof before, "%s", status != VC_OK ? ctx->message : "");
    enum vc_status changed = model->check_unchanged(ctx, model);
    if (changed != VC_OK) {
        return vc_context(ctx, "%s", strcmp(model->path, "-") == 0 ? "standard input" : model->path);
    }
    return status == VC_OK ? VC_OK : vc_fail(ctx, status, "%s", before);
}

/* A compressed tensor is always read to its end, so that its checksum is verified. */
enum vc_status vc_source_read_any(struct vc_ctx *ctx, const struct vc_model *model, size_t tensor, enum vc_form form,
                                  uint64_t offset, void *dst, size_t n_bytes)
{
    struct vc_source_stream *stream = NULL;
    uint64_t total = form == VC_FORM_RAW ? model->io[tensor].raw_bytes : model->tensors[tensor].size_bytes;
    struct vc_check check = {0, 0};
    enum vc_status status = VC_OK;

    if (!model->io[tensor].sequential) {
        return model->ops->read(ctx, model, tensor, form, offset, dst, n_bytes,
                                offset == 0 && n_bytes == total ? &check : NULL);
    }
    VC_TRY(model->ops->stream_open(ctx, model, tensor, form, &stream));
    VC_TRY(skip(ctx, model, stream, offset));
    VC_TRY(model->ops->stream_read(ctx, stream, dst, n_bytes));
    VC_TRY(skip(ctx, model, stream, total - offset - n_bytes));
out:
    if (stream != NULL) {
        enum vc_status closed = model->ops->stream_close(ctx, stream, status == VC_OK);

        status = status == VC_OK ? closed : status;
    }
    return status;
}

static enum vc_status model_read(struct vc_ctx *ctx, const struct vc_model *model, size_t index, uint64_t first,
                                 uint64_t n_elems, void *dst, size_t capacity_bytes)
{
    const struct vc_tensor *tensor = vc_model_tensor(model, index);
    enum vc_status status;

    VC_REFUSE_IF(tensor == NULL, ctx, VC_E_ARGUMENT, "tensor %zu: the model has %zu", index, model->n_tensors);
    VC_REFUSE_IF(first > tensor->n_elems || n_elems > tensor->n_elems - first, ctx, VC_E_ARGUMENT,
                 "%s: elements %llu to %llu: the tensor has %llu", tensor->name, (unsigned long long)first,
                 (unsigned long long)(first + n_elems), (unsigned long long)tensor->n_elems);
    if (n_elems == 0) {
        return VC_OK;
    }
    size_t block_elems = vc_dtype_facts(tensor->dtype)->block_elems;
    VC_REFUSE_IF(first % block_elems != 0 || (n_elems % block_elems != 0 && first + n_elems != tensor->n_elems), ctx,
                 VC_E_ARGUMENT, "%s: its elements come in blocks of %zu", tensor->name, block_elems);
    uint64_t n_bytes = vc_tensor_bytes(tensor, n_elems);
    VC_REFUSE_IF(n_bytes > capacity_bytes, ctx, VC_E_ARGUMENT, "%s: %llu elements do not fit into %zu bytes",
                 tensor->name, (unsigned long long)n_elems, capacity_bytes);
    status =
        vc_source_read_any(ctx, model, index, VC_FORM_VALUES, vc_tensor_bytes(tensor, first), dst, (size_t)n_bytes);
    return status == VC_OK ? VC_OK : vc_context(ctx, "%s", model->path);
}

enum vc_status vc_model_read(struct vc_ctx *ctx, const struct vc_model *model, size_t index, uint64_t first,
                             uint64_t n_elems, void *dst, size_t capacity_bytes)
{
    vc_call_begin(ctx);
    return vc_call_end(ctx, model_read(ctx, model, index, first, n_elems, dst, capacity_bytes));
}

void vc_model_ahead(const struct vc_model *model, size_t index, uint64_t first, uint64_t n_elems)
{
    const struct vc_tensor *tensor = &model->tensors[index];

    if (model->ops->ahead != NULL && !model->io[index].sequential) {
        model->ops->ahead(model, index, vc_tensor_bytes(tensor, first), vc_tensor_bytes(tensor, n_elems));
    }
}

const char *vc_model_absent(const struct vc_model *model, const char *name)
{
    const struct vc_unseen key = {.name = name};
    const struct vc_unseen *unseen = NULL;
    size_t i = model->absent != NULL ? vc_model_find(model, name) : VC_NO_TENSOR;

    if (i != VC_NO_TENSOR) {
        return model->absent[model->io[i].shard];
    }
    if (model->n_unseen != 0) {
        unseen = bsearch(&key, model->unseen, model->n_unseen, sizeof key, vc_compare_texts);
    }
    return unseen != NULL ? unseen->file : NULL;
}

enum vc_status vc_model_need_all(struct vc_ctx *ctx, const struct vc_model *model, const char *what)
{
    for (size_t i = 0; model != NULL && model->absent != NULL && i < model->n_shards; i++) {
        VC_REFUSE_IF(model->absent[i] != NULL, ctx, VC_E_UNSUPPORTED, "%s, and %s is not there", what,
                     model->absent[i]);
    }
    return VC_OK;
}

/* The first statistics of a tensor that the model does not have; NULL if there are none. */
static const char *find_statistics(const struct vc_model *model)
{
    size_t tail = strlen(VC_SUMS_TAIL);

    for (size_t i = 0; i < model->n_tensors; i++) {
        const char *name = model->tensors[i].name;
        size_t n = strlen(name);

        if (n > tail && strcmp(name + n - tail, VC_SUMS_TAIL) == 0 &&
            vc_model_find_bytes(model, name, n - tail) == VC_NO_TENSOR) {
            return name;
        }
    }
    return NULL;
}

enum vc_status vc_model_need_weights(struct vc_ctx *ctx, const struct vc_model *model)
{
    const char *name = find_statistics(model);

    return name == NULL ? VC_OK
                        : vc_fail(ctx, VC_E_FORMAT,
                                  "%s: these are statistics of inputs (an importance matrix) and no weights: give the "
                                  "model itself; quantize and prune take this file beside it, as %s",
                                  name, vc_option(ctx, "calibration"));
}

enum vc_status vc_model_program(struct vc_ctx *ctx, const struct vc_model *model, struct vc_arena *arena,
                                struct vc_program *out)
{
    *out = (struct vc_program){.kind = VC_PROGRAM_NONE};
    if (model->ops->program != NULL) {
        VC_CALL(model->ops->program(ctx, model, arena, out));
    }
    if (out->kind == VC_PROGRAM_NONE && model->program_beside != NULL) {
        VC_CALL(model->program_beside(ctx, model, arena, out));
    }
    return VC_OK;
}

void vc_model_close(struct vc_model *model)
{
    struct vc_ctx *ctx;

    if (model == NULL) {
        return;
    }
    ctx = model->ctx;
    if (model->counted != NULL) {
        model->free_counted(model->counted);
    }
    if (model->ops != NULL) {
        model->ops->close(model);
    }
    if (model->folder != NULL) {
        model->close_folder(ctx, model->folder);
    }
    for (size_t i = 0; i < model->n_facts; i++) {
        vc_free(ctx, (void *)(uintptr_t)model->facts[i].value);
    }
    vc_arena_release(ctx, &model->arena);
    vc_name_table_release(ctx, &model->names);
    VC_FREE_ALL(ctx, model->quants, model->recipe, model->absent, model->unseen);
    vc_model_set_path(ctx, model, NULL);
    vc_free(ctx, model);
}
