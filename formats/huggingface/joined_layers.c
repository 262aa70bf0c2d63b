/* joined_layers.c - see joined_layers.h. */
#include "formats/huggingface/joined_layers.h"

#include "core/model/names.h"

static const char weight[] = ".weight";

enum { UNKNOWN, KEPT, QUANTIZED }; /* states; and behind the last one, so many of the number of the scheme */

/* A state is UNKNOWN for tensors that this worker does not write. */
struct joining {
    const struct vc_model *model;
    unsigned char *states; /* by tensor of the model */
    char *name;            /* room for any */
};

/* One of the layers that the weight is joined with and that is kept, or of another scheme; or NULL. j->name has room
 * for the longest name and the longest word of a set (VC_JOINED_ROOM). */
static const char *other_beside(const struct joining *j, const char *name, unsigned own)
{
    size_t n = strlen(name);
    size_t n_base;
    const char *const *set;

    if (n < sizeof weight || strcmp(name + n - (sizeof weight - 1), weight) != 0) {
        return NULL;
    }
    set = vc_name_joined(name, n - (sizeof weight - 1), &n_base);
    for (; set != NULL && *set != NULL; set++) {
        memcpy(j->name, name, n_base);
        memcpy(j->name + n_base, *set, strlen(*set));
        memcpy(j->name + n_base + strlen(*set), weight, sizeof weight);
        size_t tensor = vc_model_find(j->model, j->name);
        if (tensor != VC_NO_TENSOR && j->states[tensor] != UNKNOWN && j->states[tensor] != own) {
            return *set;
        }
    }
    return NULL;
}

/* States of all outputs first, then one question for each quantized weight; the first answer is the note. */
enum vc_status vc_joined_note(struct vc_ctx *ctx, const struct vc_model *model, const struct vc_out_list *outs,
                              const bool *told, const char *loader, struct vc_arena *arena, const char **note)
{
    VC_SCOPED unsigned char *states = vc_calloc_array(ctx, VC_TAG_NAMES, model->n_tensors, 1);
    VC_SCOPED char *name = NULL;
    struct joining j = {.model = model, .states = states};
    size_t longest = 0;

    *note = NULL;
    VC_CALL_ALLOC(states);
    for (size_t i = 0; i < outs->n; i++) {
        const struct vc_out_tensor out = vc_out_at(outs, i);

        if (out.role == VC_PART_CODES) {
            j.states[out.source] = (unsigned char)(told[i] ? QUANTIZED + (int)out.quant->scheme : KEPT);
            longest = (size_t)vc_max_u64(longest, strlen(model->tensors[out.source].name));
        }
    }
    VC_CALL_ALLOC(name = vc_alloc(ctx, VC_TAG_NAMES, longest + VC_JOINED_ROOM));
    j.name = name;
    for (size_t i = 0; i < outs->n && *note == NULL; i++) {
        const struct vc_out_tensor out = vc_out_at(outs, i);
        const char *before = model->tensors[out.source].name; /* passes may have renamed it */
        const char *other =
            told[i] && out.role == VC_PART_CODES ? other_beside(&j, before, j.states[out.source]) : NULL;

        if (other != NULL) {
            *note = vc_arena_printf(ctx, arena,
                                    "%s becomes %s and %s beside it does not: %s joins the two, and refuses that",
                                    out.name, vc_scheme_name(out.quant->scheme), other, loader);
            VC_CALL_ALLOC(*note);
        }
    }
    return VC_OK;
}
