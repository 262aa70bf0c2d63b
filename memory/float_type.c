/* float_type.c - the type of a model's floats where nobody says another: what its file holds and its configuration
 * names. Weights, gradients, states, activations, keys and values have it. */
#include "memory/float_type.h"

#include "core/model/program.h"
#include "graph/base/graph_state.h"

enum vc_dtype vc_stored_type(const struct vc_tensor *tensors, size_t n_tensors)
{
    static const enum vc_dtype types[] = {VC_DTYPE_F32, VC_DTYPE_BF16, VC_DTYPE_F16, VC_DTYPE_F64};
    uint64_t n[4] = {0};
    size_t most = 0;

    for (size_t i = 0; i < n_tensors; i++) {
        const struct vc_tensor *tensor = &tensors[i];

        for (size_t k = 0; vc_is_plain_float(tensor) && k < 4; k++) {
            n[k] += tensor->dtype == types[k] ? tensor->n_elems : 0;
        }
    }
    for (size_t k = 1; k < 4; k++) {
        most = n[k] > n[most] ? k : most;
    }
    return n[most] == 0 ? VC_DTYPE_NONE : types[most];
}

bool vc_is_plain_float(const struct vc_tensor *tensor)
{
    return tensor->role == VC_ROLE_WEIGHT && tensor->part_of == VC_NO_TENSOR && tensor->quant == NULL &&
           tensor->use != VC_USE_SCALE &&
           (tensor->dtype == VC_DTYPE_F32 || tensor->dtype == VC_DTYPE_F16 || tensor->dtype == VC_DTYPE_BF16 ||
            tensor->dtype == VC_DTYPE_F64);
}

bool vc_is_coded(const struct vc_tensor *tensor)
{
    return tensor->quant != NULL || vc_dtype_is_quantized(tensor->dtype);
}

bool vc_has_codes(const struct vc_model *model)
{
    for (size_t i = 0; model != NULL && i < vc_model_facts(model)->n_tensors; i++) {
        if (vc_is_coded(vc_model_tensor(model, i))) {
            return true;
        }
    }
    return false;
}

/* transformers loads in the type that config.json names. Where that is the narrower one, not all of its versions do. */
enum vc_dtype vc_wider_type(const struct vc_graph *graph, enum vc_dtype stored)
{
    enum vc_dtype said = graph != NULL ? graph->float_type : VC_DTYPE_NONE;

    return stored == VC_DTYPE_NONE || (said != VC_DTYPE_NONE && vc_dtype_size(said) > vc_dtype_size(stored)) ? said
                                                                                                             : stored;
}

enum vc_dtype vc_memory_float_type(const struct vc_graph *graph, const struct vc_model *model)
{
    enum vc_dtype type =
        vc_wider_type(graph, model != NULL ? vc_stored_type(model->tensors, model->n_tensors) : VC_DTYPE_NONE);

    return type == VC_DTYPE_NONE ? VC_DTYPE_F32 : type;
}

bool vc_is_transformers_folder(struct vc_ctx *ctx, const struct vc_model *model)
{
    VC_SCOPED_ARENA struct vc_arena arena = {0};
    struct vc_program program = {.kind = VC_PROGRAM_NONE};
    bool known = model != NULL && strcmp(vc_model_facts(model)->format, "safetensors") == 0 &&
                 vc_model_program(ctx, model, &arena, &program) == VC_OK;

    vc_clear_error(ctx);
    return known && program.kind == VC_PROGRAM_CONFIG;
}
