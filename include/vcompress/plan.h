/* plan.h - recipes that make a model fit a device (fit.h), the least harmful recipe first.
 *
 * A recipe combines changes that reduce the memory: the type of the weights, removed units, the type of keys and
 * values, the options of training. A recipe has the passes that make the smaller model and the options for
 * vc_fit_decide. Nothing is written. Only headers are read, unless `scan` measures errors.
 *
 * Experimental: see experimental.h. */
#ifndef VCOMPRESS_PLAN_H
#define VCOMPRESS_PLAN_H

#include <vcompress/fit.h>

VC_BEGIN_C

/* Changes that a recipe may make, as bits. Numbers are stable. */
enum vc_lever {
    VC_LEVER_WEIGHTS = 1, /* inference: half precision, or codes of 8 to 2 bits that a loader keeps, by quantize */
    /* Inference: neurons are removed, by prune --structured. No recipe sets weights to zero: zeros save no memory on a
     * device. */
    VC_LEVER_PRUNE = 2,
    VC_LEVER_CACHE = 4,       /* keys and values in fewer bits */
    VC_LEVER_BATCH = 8,       /* inference: a smaller batch */
    VC_LEVER_CONTEXT = 16,    /* a shorter context */
    VC_LEVER_ACCUMULATE = 32, /* training: the batch in parts with added gradients */
    VC_LEVER_RECOMPUTE = 64,  /* training: activations are computed again in the backward pass */
    VC_LEVER_AMP = 128,       /* training: autocast */
    VC_LEVER_OPTIMIZER = 256, /* training: 8-bit states instead of f32 states */
    VC_LEVER_DEVICES = 512,   /* several devices: ZeRO (training), divided products, stages of layers */
    VC_LEVER_EXPERTS = 1024   /* llama.cpp: the experts of the first layers in the memory of the host */
};
#define VC_LEVERS 11

struct vc_recipe_options {
    size_t struct_size;     /* set by vc_recipe_defaults */
    uint64_t visible_bytes; /* of the device, vc_gpu.visible_bytes; must be set */
    unsigned without;       /* bits of enum vc_lever: changes that no recipe makes */
    /* Use vc_memory_options.runtime for all recipes; false: the runtime of the usual loader of each output. */
    bool runtime_given;
    bool scan;          /* read all weights and measure the errors of schemes */
    uint64_t n_devices; /* number of equal devices; 0 and 1: one device */
    /* The symbol "sequence" of the graph has its usual size: programs with another one (vc_memory_bind_positions) are
     * counted with that. */
    bool usual_positions;
    bool allocator_given; /* vc_memory_options.allocator for all recipes; false: that of the program of each */
};

/* All changes allowed, errors not measured. visible_bytes must be set. */
static inline void vc_recipe_defaults(struct vc_recipe_options *options)
{
    vc_options_defaults("vc_recipe_options", options, sizeof *options);
}

struct vc_recipe {
    const char *what; /* "int8 weights, 20 % of the neurons removed, batch 4"; "as it is" */
    size_t n_passes;
    const char *const *passes; /* in order, in the syntax of "vcompress run": "quantize --int8 --rest fp16" */
    const char *tag;           /* vc_name_options.tag of the output; NULL: no passes */
    bool more_tensors;         /* the output has scales, too */
    const char *format;        /* vc_name_options.format of the output; NULL: that of the model */
    /* Words of "vcompress fit" for a program that keeps the codes, where the usual loader of the output decodes them:
     * "--runtime vllm"; NULL: none. */
    const char *ask;
    const struct vc_memory_options *memory;
    const struct vc_memory_report *report; /* memory of the smaller model */
    struct vc_fit fit;
    uint64_t batch;      /* batch size; 0: the model has no batch size */
    uint64_t accumulate; /* training: number of parts of the asked batch; else 1 */
    double pruned;       /* share of the neurons that are removed */
    double error;        /* of the weights: norm of the change / norm; 0: no change */
    bool measured;       /* true: the error was measured; false: a typical value (docs/memory-model.md) */
    double time;         /* time of a step relative to the asked setup: 4/3 with recomputation */
    bool does_less;      /* the batch or the context is smaller than asked for */
    bool refused;        /* by vc_recipes_refuse */
};

struct vc_recipes;

/* Makes the recipes in the order of harm (docs/memory-model.md). The first recipe is the unchanged model; every recipe
 * needs less memory than all before. graph and model may be NULL; without a graph only weights are counted. Symbols of
 * the graph must be bound and keep their sizes. Free *out with vc_result_free before graph and model are closed. */
VC_API enum vc_status vc_recipes_make(struct vc_ctx *ctx, struct vc_graph *graph, const struct vc_model *model,
                                      const struct vc_memory_options *memory, const struct vc_fit_options *fit,
                                      const struct vc_recipe_options *options, struct vc_recipes **out);

/* What a vc_recipes begins with, for reading. best: number of the first recipe that fits; VC_NO_RECIPE if no recipe fits,
 * and the last recipe then needs the least memory. An index behind the end gives NULL. */
struct vc_recipe_list {
    size_t n, best;
    struct vc_recipe *recipes;
};
#define VC_NO_RECIPE ((size_t)-1)

static inline const struct vc_recipe *vc_recipe(const struct vc_recipes *recipes, size_t index)
{
    const struct vc_recipe_list *list = (const struct vc_recipe_list *)(const void *)recipes;

    return index < list->n ? &list->recipes[index] : NULL;
}
static inline size_t vc_recipes_best(const struct vc_recipes *recipes)
{
    return ((const struct vc_recipe_list *)(const void *)recipes)->best;
}
/* The recipe's commands are not possible: the best recipe is among the others from now on. */
VC_API void vc_recipes_refuse(struct vc_recipes *recipes, size_t index);

/* Command lines of a recipe, written by the calling program. */
struct vc_recipe_lines {
    size_t n;
    const char *const *lines;
};

VC_END_C
#endif
