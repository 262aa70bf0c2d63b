/* fit_layers.c - how many layers of a model a device has room for, when the others, or their experts, are on the host. */

#include "core/base/ctx.h"
#include "memory/estimate.h"
#include "memory/fit/fit_written.h"

/* Names of layers in a list: "0", "1", ... */
static bool is_number(const char *name)
{
    return *name != '\0' && name[strspn(name, "0123456789")] == '\0';
}

/* The block whose numbered children have most parameters: "model.layers". VC_NO_BLOCK if there is none. */
static uint32_t find_layers(const struct vc_graph_blocks *blocks, uint32_t *n)
{
    uint32_t best = VC_NO_BLOCK;
    uint64_t most = 0;

    for (uint32_t b = 0; b < blocks->n; b++) {
        uint64_t params = 0;
        uint32_t count = 0;

        for (uint32_t c = blocks->blocks[b].first_child; c != VC_NO_BLOCK; c = blocks->blocks[c].next) {
            if (is_number(blocks->blocks[c].name)) {
                params += blocks->blocks[c].n_params;
                count++;
            }
        }
        if (count > 1 && params > most) {
            most = params;
            best = b;
            *n = count;
        }
    }
    return best;
}

/* What the weights of a layer take at least: what stays on the host must not be counted as more than it is. */
static uint64_t least_bytes(const struct vc_graph_block *block, const struct vc_model *model,
                            const struct vc_memory_options *memory, enum vc_dtype type)
{
    if (memory->scheme != NULL) {
        const uint64_t row[] = {1, block->n_params}; /* one row has the fewest scales */
        uint64_t bytes = vc_weight_scheme_bytes(memory->scheme, row, 2);

        return bytes == UINT64_MAX ? 0 : vc_min_u64(bytes, block->n_params * 2);
    }
    if (memory->weights == VC_DTYPE_I8) {
        return block->n_params;
    }
    if (model == NULL) {
        return block->n_params * vc_dtype_size(memory->weights == VC_DTYPE_NONE ? type : memory->weights);
    }
    if (memory->weights == VC_DTYPE_NONE && memory->runtime == VC_RUNTIME_NATIVE) {
        return block->bytes;
    }
    return vc_min_u64(block->bytes, block->n_params * 2);
}

/* The first layers go to the host, one after the other, until the rest fits; *largest is how many stay. Their keys and
 * values go with them. */
enum vc_status vc_fit_layers(struct vc_ctx *ctx, struct vc_graph *graph, const struct vc_model *model,
                             const struct vc_memory_report *report, const struct vc_memory_options *memory,
                             uint64_t visible_bytes, const struct vc_fit_options *options, uint32_t *largest,
                             uint32_t *n, bool *fits)
{
    VC_SCOPED_RESULT struct vc_graph_blocks *blocks = NULL;
    struct vc_memory_report rest = *report;
    struct vc_fit fit;

    vc_clear_error(ctx);
    *largest = *n = 0;
    *fits = false;
    if (memory->mode != VC_MEMORY_INFER || report->moments[VC_MOMENT_PEAK].known == VC_KNOWN_NOT) {
        return vc_fail(ctx, VC_E_ARGUMENT, "layers on the host are for inference, with a need that is known");
    }
    if (memory->tp > 1 || memory->pp > 1) {
        return vc_fail(ctx, VC_E_ARGUMENT, "layers on the host are counted of one device that has the whole model");
    }
    VC_CALL(vc_graph_blocks_make(ctx, graph, model, NULL, &blocks));
    uint32_t list = find_layers(blocks, n);
    VC_REFUSE_IF(list == VC_NO_BLOCK, ctx, VC_E_UNSUPPORTED, "the model has no numbered layers");
    uint64_t cache = report->components[VC_MEMORY_KV_CACHE].bytes / *n;
    *largest = *n;
    uint32_t child = blocks->blocks[list].first_child;
    for (;;) { /* the first layers go to the host, one after the other */
        uint64_t gone;

        VC_CALL(vc_fit_decide(ctx, &rest, memory, visible_bytes, options, &fit));
        *fits = fit.verdict == VC_FITS;
        while (child != VC_NO_BLOCK && !is_number(blocks->blocks[child].name)) {
            child = blocks->blocks[child].next;
        }
        if (*fits || child == VC_NO_BLOCK) {
            break;
        }
        gone = least_bytes(&blocks->blocks[child], model, memory, vc_memory_float_type(graph, model));
        rest.components[VC_MEMORY_PARAMETERS].bytes -= vc_min_u64(gone, rest.components[VC_MEMORY_PARAMETERS].bytes);
        rest.moments[VC_MOMENT_PEAK].bytes -= vc_min_u64(gone + cache, rest.moments[VC_MOMENT_PEAK].bytes);
        rest.eager.bytes -= vc_min_u64(gone + cache, rest.eager.bytes);
        child = blocks->blocks[child].next;
        (*largest)--;
    }
    return VC_OK;
}

enum vc_status vc_fit_cpu_moe_written(struct vc_ctx *ctx, const struct vc_graph *graph, const struct vc_model *model,
                                      const struct vc_planned_weights *written, const struct vc_memory_options *memory,
                                      uint64_t visible_bytes, const struct vc_fit_options *options, uint64_t *least,
                                      uint64_t *n, bool *fits)
{
    struct vc_memory_options own = *memory;
    uint64_t low = 0; /* what is needed only falls with the number: it is from here to `least` */

    *n = memory->program == VC_RUN_BY_LLAMA_CPP ? vc_estimate_moe_layers(graph, model) : 0;
    *least = *n;
    *fits = false;
    for (uint64_t tried = *n; low < *least; tried = low + (*least - low) / 2) {
        struct vc_memory_report report;
        struct vc_fit fit;

        own.cpu_moe_layers = tried;
        VC_CALL(vc_memory_estimate_written(ctx, graph, model, &own, written, &report));
        VC_CALL(vc_fit_decide(ctx, &report, &own, visible_bytes, options, &fit));
        *fits = *fits || fit.verdict == VC_FITS;
        if (!*fits) {
            break;
        }
        if (fit.verdict == VC_FITS) {
            *least = tried;
        } else {
            low = tried + 1;
        }
    }
    return VC_OK;
}

enum vc_status vc_fit_cpu_moe(struct vc_ctx *ctx, const struct vc_graph *graph, const struct vc_model *model,
                              const struct vc_memory_options *memory, uint64_t visible_bytes,
                              const struct vc_fit_options *options, uint64_t *least, uint64_t *n, bool *fits)
{
    vc_clear_error(ctx);
    return vc_fit_cpu_moe_written(ctx, graph, model, NULL, memory, visible_bytes, options, least, n, fits);
}
