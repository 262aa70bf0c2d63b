/* plan.h - how a model can be made to fit a device (fit.h): recipes, the least harmful one first.
 *
 * A recipe is a choice of everything that makes the need smaller: the type of the weights, units that are removed, the
 * type of keys and values, how training keeps what it needs. It names the passes that make the smaller model, and what
 * vc_fit_decide has to be asked then. Nothing is written here; only headers are read, unless errors are to be measured.
 *
 * Experimental: see experimental.h. */
#ifndef VCOMPRESS_PLAN_H
#define VCOMPRESS_PLAN_H

#include <vcompress/fit.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What a recipe may change, as bits. Numbers are stable. */
enum vc_lever {
    VC_LEVER_WEIGHTS = 1,  /* inference: half precision, int8, by quantize */
    VC_LEVER_PRUNE = 2,    /* inference: neurons are removed, by prune --structured. Zeros save no memory of a device,
                              so that they are in no recipe */
    VC_LEVER_CACHE = 4,    /* keys and values in fewer bits */
    VC_LEVER_BATCH = 8,    /* inference: fewer sequences or pictures at once */
    VC_LEVER_CONTEXT = 16, /* a shorter context */
    VC_LEVER_ACCUMULATE = 32, /* training: the batch in parts, whose gradients are added */
    VC_LEVER_RECOMPUTE = 64,  /* training: activations are computed again in the backward pass */
    VC_LEVER_AMP = 128,       /* training: autocast */
    VC_LEVER_OPTIMIZER = 256, /* training: states of 8 bits in place of f32 ones */
    VC_LEVER_DEVICES = 512    /* of several devices: ZeRO (training), each product divided, stages of layers */
};
#define VC_LEVERS 10

struct vc_recipe_options {
    size_t struct_size;     /* set by vc_recipe_defaults */
    uint64_t visible_bytes; /* of the device, vc_gpu_visible_bytes; has to be set */
    unsigned without;       /* enum vc_lever: what has to stay as it is */
    bool runtime_given;     /* vc_memory_options.runtime is what was asked for; else it is what the usual loader of each
                               output does with codes */
    bool scan;              /* reads all weights, and measures the errors of schemes */
    uint64_t n_devices;     /* of the same kind that there are; 0 and 1: one */
};

VC_API void vc_recipe_defaults_sized(struct vc_recipe_options *options, size_t struct_size);

/* Everything may change, nothing is measured. */
static inline void vc_recipe_defaults(struct vc_recipe_options *options)
{
    vc_recipe_defaults_sized(options, sizeof *options);
}

struct vc_recipe {
    const char *what; /* "int8 weights, 20 % of the neurons removed, batch 4"; "as it is" */
    size_t n_passes;
    const char *const *passes; /* in this order, as vcompress run takes them: "quantize --int8 --rest fp16" */
    const char *tag;           /* of the output's name, vc_name_options.tag; NULL: there are no passes */
    bool more_tensors;         /* the output has scales, too */
    const struct vc_memory_options *memory;
    const struct vc_memory_report *report; /* what the model takes then */
    struct vc_fit fit;
    uint64_t batch;      /* at once; 0: the model has no such size */
    uint64_t accumulate; /* training: parts of the batch asked for, else 1 */
    double pruned;       /* share of the neurons that is removed */
    double error;        /* of the weights: norm of the change / norm; 0: none */
    bool measured;       /* the error was measured; else it is a usual one (docs/memory-model.md) */
    double time;         /* of a step, in times of the one that was asked for: 4/3 with recomputation */
    bool does_less;      /* the batch or the context is smaller than what was asked for */
};

struct vc_recipes;

/* Recipes in the order of their harm (docs/memory-model.md), of which each needs less than all before it; the first is
 * the model as it is. graph may be NULL (then weights alone can be asked about), and so may model. Symbols are bound,
 * and are so again afterwards. Freed before graph and model are closed. */
VC_API enum vc_status vc_recipes_make(struct vc_ctx *ctx, struct vc_graph *graph, const struct vc_model *model,
                                      const struct vc_memory_options *memory, const struct vc_fit_options *fit,
                                      const struct vc_recipe_options *options, struct vc_recipes **out);
VC_API void vc_recipes_free(struct vc_recipes *recipes); /* accepts NULL */

/* Recipe number `index`; NULL behind the last. */
VC_API const struct vc_recipe *vc_recipe(const struct vc_recipes *recipes, size_t index);
/* The number of the first one that fits; VC_NO_RECIPE: none does, and the last one comes nearest. */
#define VC_NO_RECIPE ((size_t)-1)
VC_API size_t vc_recipes_best(const struct vc_recipes *recipes);

/* Command lines of a recipe, which the program knows. */
struct vc_recipe_lines {
    size_t n;
    const char *const *lines;
};

/* All of them as one JSON document, schema vcompress.plan/1. gpu: its name, or NULL; path as for vc_fit_json; lines: of
 * each recipe, or NULL. */
VC_API enum vc_status vc_recipes_json(struct vc_ctx *ctx, const struct vc_recipes *recipes, const char *gpu,
                                      const char *path, const struct vc_recipe_lines *lines, char **text);

/* "weights", "prune", "cache", "batch", "context", "accumulation", "recompute", "amp", "optimizer", "devices"; NULL for
 * others. */
VC_API const char *vc_lever_name(enum vc_lever lever);

#ifdef __cplusplus
}
#endif
#endif
