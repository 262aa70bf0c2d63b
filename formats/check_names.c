/* check_names.c - see check_names.h. Names alone are weak evidence: what must be wrong is an error, what is unusual a
 * warning. */
#include "formats/check_names.h"

#include <string.h>

#include "core/findings.h"
#include "core/names.h"

struct names {
    struct vc_ctx *ctx;
    const struct vc_model *model;
    char *buffer; /* any name and any suffix */
    bool shard;   /* the others may lie in another file */
};

static bool ends_in(const char *name, const char *tail)
{
    size_t n = strlen(name);
    size_t k = strlen(tail);

    return n >= k && strcmp(name + n - k, tail) == 0;
}

/* The tensor <name without its last n_cut characters><tail>. */
static size_t find_beside(const struct names *names, const char *name, size_t n_cut, const char *tail)
{
    size_t n = strlen(name) - n_cut;

    memcpy(names->buffer, name, n);
    memcpy(names->buffer + n, tail, strlen(tail) + 1);
    return vc_model_find(names->model, names->buffer);
}

static bool has(const struct names *names, const char *name, size_t n_cut, const char *tail)
{
    return find_beside(names, name, n_cut, tail) != VC_NO_TENSOR;
}

static enum vc_severity severity_of_missing(const struct names *names)
{
    return names->shard ? VC_SEVERITY_WARNING : VC_SEVERITY_ERROR;
}

/* Packed codes that stayed plain. */
static enum vc_status check_packed(const struct names *names, const char *name)
{
    static const char *const tails[] = {"_scale", "_shape"};
    size_t n_cut = strlen("_packed");
    enum vc_status status = VC_OK;
    size_t i;

    for (i = 0; i < sizeof tails / sizeof tails[0]; i++) {
        if (!has(names, name, n_cut, tails[i])) {
            VC_TRY(vc_find(names->ctx, severity_of_missing(names), "companion", name, "has no '%s' beside it%s",
                           names->buffer, names->shard ? " (it may lie in another shard)" : ""));
        }
    }
out:
    return status;
}

/* Integers that look like codes, but nothing says what they stand for. */
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

static enum vc_status check_quantized(const struct names *names, const struct vc_tensor *t)
{
    if (t->quant->symmetric && (has(names, t->name, 0, ".zero_point") || has(names, t->name, 0, "_zero_point"))) {
        return vc_find(names->ctx, VC_SEVERITY_ERROR, "zero-point", t->name, "is symmetric, but has '%s'",
                       names->buffer);
    }
    return VC_OK;
}

/* Scales and zero points of nothing. */
static enum vc_status check_orphan(const struct names *names, const char *name)
{
    static const struct {
        const char *tail;
        const char *owners[2];
    } parts[] = {{".zero_point", {"", NULL}},
                 {"weight_zero_point", {"weight", "weight_packed"}},
                 {"weight_scale", {"weight", "weight_packed"}},
                 {"weight_shape", {"weight_packed", NULL}}};
    size_t i;

    for (i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        size_t n_cut = strlen(parts[i].tail);

        if (!ends_in(name, parts[i].tail) || strlen(name) == n_cut) {
            continue;
        }
        if (!has(names, name, n_cut, parts[i].owners[0]) &&
            (parts[i].owners[1] == NULL || !has(names, name, n_cut, parts[i].owners[1]))) {
            (void)find_beside(names, name, n_cut, parts[i].owners[0]);
            return vc_find(names->ctx, VC_SEVERITY_WARNING, "orphan", name, "belongs to '%s', which is not in the file",
                           names->buffer);
        }
        return VC_OK;
    }
    return VC_OK;
}

static enum vc_status check_one(const struct names *names, const struct vc_tensor *t)
{
    if (t->companion_of != VC_NO_TENSOR) {
        return VC_OK;
    }
    if (t->quant != NULL) {
        return check_quantized(names, t);
    }
    if (ends_in(t->name, "weight_packed")) {
        return check_packed(names, t->name);
    }
    return t->dtype == VC_DTYPE_I8 && !ends_in(t->name, "zero_point") ? check_codes(names, t)
                                                                      : check_orphan(names, t->name);
}

enum vc_status vc_check_names(struct vc_ctx *ctx, const struct vc_model *model)
{
    struct names names = {.ctx = ctx, .model = model, .shard = strstr(model->path, "-of-") != NULL};
    enum vc_status status = VC_OK;
    size_t longest = 0;
    size_t i;

    for (i = 0; i < model->n_tensors; i++) {
        size_t n = strlen(model->tensors[i].name);

        longest = n > longest ? n : longest;
    }
    names.buffer = vc_alloc(ctx, VC_TAG_NAMES, longest + 32);
    VC_TRY_ALLOC(names.buffer);
    for (i = 0; i < model->n_tensors; i++) {
        VC_TRY(check_one(&names, &model->tensors[i]));
    }
out:
    vc_free(ctx, names.buffer);
    return status;
}
