/* check_names.c - see check_names.h.
 *
 *     m.weight_packed without m.weight_scale     error: codes without scales
 *     m.weight_scale without m.weight            error: scales of nothing
 *
 * Names alone are weak evidence: what must be wrong is an error, what is unusual a warning. */
#include "formats/dialects/check_names.h"

#include "core/base/findings.h"
#include "core/model/names.h"
#include "core/text/text.h"
#include "formats/dialects/packing.h"

struct names {
    struct vc_ctx *ctx;
    const struct vc_model *model;
    char *buffer; /* any name and any suffix */
    bool shard;   /* the others may lie in another file */
};

/* The tensor <name without its last n_cut characters><tail>. */
static size_t find_beside(const struct names *names, const char *name, size_t n_cut, const char *tail)
{
    size_t n = strlen(name) - n_cut;

    memcpy(names->buffer, name, n);
    memcpy(names->buffer + n, tail, strlen(tail) + 1);
    return vc_model_find(names->model, names->buffer);
}

/* The buffer keeps the name that was looked for, for the sentence. */
static bool has(const struct names *names, const char *name, size_t n_cut, const char *tail)
{
    return find_beside(names, name, n_cut, tail) != VC_NO_TENSOR;
}

/* In one shard of several a missing companion proves nothing. */
static enum vc_severity severity_of_missing(const struct names *names)
{
    return names->shard ? VC_SEVERITY_WARNING : VC_SEVERITY_ERROR;
}

/* Whether the scales are one for all, one per row, or some per row. */
static bool scales_fit(const struct vc_tensor *scale, uint64_t n_rows, uint64_t row)
{
    return scale->n_elems == 1 || (scale->n_dims == 2 && scale->shape[0] == n_rows && scale->shape[1] <= row) ||
           scale->n_dims > 2;
}

/* What the values of weight_shape say, against codes and scales. Those of 8 bits were checked by the reader. */
static enum vc_status check_shape(const struct names *names, const struct vc_tensor *t, const struct vc_tensor *shape,
                                  const struct vc_tensor *scale)
{
    unsigned char stated[16];
    unsigned bits = 1;

    if (t->dtype != VC_DTYPE_I32 || t->n_dims != 2 || shape->dtype != VC_DTYPE_I64 || shape->n_elems != 2) {
        return VC_OK;
    }
    enum vc_status status = vc_source_read_any(names->ctx, names->model, (size_t)(shape - names->model->tensors),
                                               VC_FORM_VALUES, 0, stated, sizeof stated);
    if (status != VC_OK) {
        return vc_collect(names->ctx, status, "data", shape->name);
    }
    uint64_t n_rows = vc_le64(stated);
    uint64_t row = vc_le64(stated + 8);
    while (bits <= 8 && row <= INT64_MAX && !vc_packing_words_fit(row, bits, t->shape[1])) {
        bits++;
    }
    if (n_rows != t->shape[0] || row > INT64_MAX || bits > 8) {
        return vc_find(names->ctx, VC_SEVERITY_ERROR, "parts", t->name,
                       "has shape [%" PRIu64 ", %" PRIu64 "], which does not fit [%" PRId64 ", %" PRId64
                       "], the values of '%s'",
                       t->shape[0], t->shape[1], (int64_t)n_rows, (int64_t)row, shape->name);
    }
    return scales_fit(scale, n_rows, row)
               ? VC_OK
               : vc_find(names->ctx, VC_SEVERITY_ERROR, "parts", t->name,
                         "its scales '%s' fit neither %" PRIu64 " rows nor groups of them", scale->name, n_rows);
}

/* A weight that is there as <stem><form> and as <stem><plain>: what a run leaves that was broken off and begun again.
 * Packed int8 of this kind was found by the reader. */
static enum vc_status check_twice(const struct names *names, const char *name, const char *form, const char *plain)
{
    return has(names, name, strlen(form), plain) && !vc_findings_has(names->ctx->findings, name)
               ? vc_find(names->ctx, VC_SEVERITY_ERROR, "twice", name, "the same module has a '%s', too", names->buffer)
               : VC_OK;
}

/* Packed codes that the reader has left as they are: which part is missing, or does not fit. */
static enum vc_status check_packed(const struct names *names, const struct vc_tensor *t)
{
    static const char *const tails[] = {"_scale", "_shape"};
    const char *name = t->name;
    size_t n_cut = strlen("_packed");
    size_t parts[2];

    VC_CALL(check_twice(names, name, "_packed", ""));
    for (size_t i = 0; i < sizeof tails / sizeof tails[0]; i++) {
        parts[i] = find_beside(names, name, n_cut, tails[i]);
        if (parts[i] == VC_NO_TENSOR) {
            VC_CALL(vc_find(names->ctx, severity_of_missing(names), "companion", name, "has no '%s' beside it%s",
                            names->buffer, names->shard ? " (it may lie in another shard)" : ""));
        }
    }
    if (parts[0] != VC_NO_TENSOR && parts[1] != VC_NO_TENSOR && !vc_findings_has(names->ctx->findings, name)) {
        VC_CALL(check_shape(names, t, &names->model->tensors[parts[1]], &names->model->tensors[parts[0]]));
    }
    return VC_OK;
}

/* Integers that look like codes: what is missing to know what they stand for. */
static enum vc_status check_codes(const struct names *names, const struct vc_tensor *t)
{
    size_t n_path = 0;
    bool weight = vc_name_is_module_weight(t->name, &n_path);

    if (has(names, t->name, 0, ".scale") || has(names, t->name, 0, "_scale")) {
        return vc_find(names->ctx, VC_SEVERITY_WARNING, "scale-shape", t->name,
                       "is int8, but the type or shape of '%s' does not make it its scale", names->buffer);
    }
    if (has(names, t->name, 0, ".zero_point") || has(names, t->name, 0, "_zero_point")) {
        return vc_find(names->ctx, severity_of_missing(names), "companion", t->name, "has '%s', but no scale%s",
                       names->buffer, names->shard ? " (it may lie in another shard)" : "");
    }
    if (weight && t->n_dims >= 2 && !has(names, t->name, strlen("weight"), "SCB")) {
        return vc_find(names->ctx, VC_SEVERITY_WARNING, "companion", t->name,
                       "is int8 without a scale beside it: nothing says what its values stand for");
    }
    return VC_OK;
}

/* Zero points that the reader did not take. */
static enum vc_status check_quantized(const struct names *names, const struct vc_tensor *t)
{
    if (t->quant->symmetric && (has(names, t->name, 0, ".zero_point") || has(names, t->name, 0, "_zero_point"))) {
        return vc_find(names->ctx, VC_SEVERITY_ERROR, "zero-point", t->name, "is symmetric, but has '%s'",
                       names->buffer);
    }
    return VC_OK;
}

/* Scales whose weight is there, but consists of floats. */
static enum vc_status check_owner(const struct names *names, const char *name, size_t owner)
{
    const struct vc_tensor *t = &names->model->tensors[owner];
    bool plain = t->dtype == VC_DTYPE_F32 || t->dtype == VC_DTYPE_F16 || t->dtype == VC_DTYPE_BF16;

    return plain && t->quant == NULL ? vc_find(names->ctx, severity_of_missing(names), "orphan", name,
                                               "belongs to '%s', which is plain %s", t->name, vc_dtype_name(t->dtype))
                                     : VC_OK;
}

/* Parts whose weight is not there: a row has the end of the part's name, and the ends of the weights that may own
 * it. */
static enum vc_status check_orphan(const struct names *names, const char *name)
{
    static const struct {
        const char *tail;
        const char *owners[2];
    } parts[] = {{".zero_point", {"", NULL}},
                 {"weight_zero_point", {"weight", "weight_packed"}},
                 {"weight_scale", {"weight", "weight_packed"}},
                 {"weight_shape", {"weight_packed", NULL}}};

    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        size_t n_cut = strlen(parts[i].tail);

        if (!vc_ends_in(name, parts[i].tail) || strlen(name) == n_cut) {
            continue;
        }
        size_t owner = find_beside(names, name, n_cut, parts[i].owners[0]);
        if (owner != VC_NO_TENSOR) {
            return check_owner(names, name, owner);
        }
        if (parts[i].owners[1] == NULL || !has(names, name, n_cut, parts[i].owners[1])) {
            (void)find_beside(names, name, n_cut, parts[i].owners[0]);
            return vc_find(names->ctx, severity_of_missing(names), "orphan", name,
                           "belongs to '%s', which is not in the file", names->buffer);
        }
        return VC_OK;
    }
    return VC_OK;
}

/* Tensors that somebody has explained already are left alone; then by the kind of the name. */
static enum vc_status check_one(const struct names *names, const struct vc_tensor *t)
{
    if (t->part_of != VC_NO_TENSOR || t->role == VC_ROLE_OTHER || t->undecoded != NULL || vc_is_of_codes(t)) {
        return VC_OK;
    }
    if (t->quant != NULL) {
        return check_quantized(names, t);
    }
    if (vc_ends_in(t->name, "weight_packed")) {
        return check_packed(names, t);
    }
    if (vc_ends_in(t->name, ".qweight")) {
        return check_twice(names, t->name, "qweight", "weight");
    }
    if (t->dtype == VC_DTYPE_I8 && !vc_ends_in(t->name, "zero_point")) {
        return check_codes(names, t);
    }
    /* A graph says who reads it: onnxruntime multiplies ConvInteger's answers by such a scale. */
    return t->use == VC_USE_UNKNOWN ? check_orphan(names, t->name) : VC_OK;
}

enum vc_status vc_check_names(struct vc_ctx *ctx, const struct vc_model *model, bool is_shard)
{
    VC_SCOPED char *buffer = vc_model_name_room(ctx, model, 32);
    struct names names = {.ctx = ctx, .model = model, .shard = is_shard, .buffer = buffer};

    VC_CALL_ALLOC(buffer);
    for (size_t i = 0; i < model->n_tensors; i++) {
        VC_CALL(check_one(&names, &model->tensors[i]));
    }
    return VC_OK;
}
