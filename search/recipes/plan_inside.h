/* plan_inside.h - the inside of vc_recipes_make: forms that the weights can have (plan_forms.c), what is tried with
 * each of them (plan_search.c), and the words for it (plan_words.c). */
#pragma once

#include <vcompress/plan.h>
#include <vcompress/sensitivity.h>

#include "core/base/arena.h"
#include "memory/made_as.h"
#include "search/recipes/slim.h"
#include "search/search_budget.h"
#include "search/search_points.h"
#include "search/search_schemes.h"

#define VC_MAX_FORMS 64

/* Shares of the neurons that may go, the least first. */
#define VC_SHARES 5

/* Weights after passes, or as they are. */
struct vc_weights_form {
    const struct vc_model *model; /* that passes read: the model, or the folder as a GGUF model; may be NULL */
    enum vc_dtype type;           /* they are loaded as that where they are floats: vc_memory_options.weights */
    enum vc_dtype activations;    /* of what is written, where `type` says none; VC_DTYPE_NONE: as of the model */
    const struct vc_search_scheme *scheme; /* NULL: floats as they are */
    bool other_format;                     /* than that of the model, for none of the programs that load it */
    bool kept;                         /* codes that a program keeps on the device: the row's program, or `program` */
    const char *rest;                  /* of quantize */
    const char *share;                 /* of neurons that go, "0.2"; NULL: none */
    const char *tag;                   /* of the output's name, "slim.int8"; NULL: nothing is written */
    const char *passes[2];             /* in their order, "quantize --int8 --rest fp16"; NULL: none */
    struct vc_planned_weights written; /* after passes over a file; n 0: the weights are those of the model as it is */
    const struct vc_made_as *made;     /* of codes, in place of `written`; NULL: these */
    struct vc_graph *graph;            /* what the model computes then; NULL: not known */
    enum vc_runtime runtime;
    double error;
    bool measured;
    /* With `kept`: what the codes are in vc_memory_options.scheme where they are counted without the file that has them; the
     * program that runs it, VC_RUN_BY_COUNT for that of the model as it is; and words of `fit` that name that program, where
     * it is not the usual one of the file. */
    const char *dtype;
    enum vc_memory_program program;
    const char *ask;
};

/* A model without a share of its neurons: what it computes, and the job that its names belong to. */
struct vc_slim {
    struct vc_job *job;
    struct vc_planned_model planned;
};

/* What is being planned. */
struct vc_planning {
    struct vc_ctx *ctx;
    struct vc_graph *graph;
    const struct vc_model *model;
    struct vc_memory_options memory;
    const struct vc_fit_options *fit;
    struct vc_recipe_options options;
    struct vc_recipes *out;
    const char *batch_symbol; /* of the graph; NULL: it has none */
    uint64_t batch;
    uint64_t positions;            /* of the symbol "sequence" as it was bound; 0 if there is none */
    struct vc_weights_form *forms; /* VC_MAX_FORMS; in the arena of out, which has their texts */
    size_t n_forms;
    bool lone; /* a file that no folder of transformers and no GGUF is */
    struct vc_slim slim[VC_SHARES];
    struct vc_sensitivity *scan;
    struct vc_choice *choices; /* that were tried and are kept; n_choices */
    size_t n_choices;
};

struct vc_recipes {
    struct vc_recipe_list list; /* first: what programs read */
    struct vc_ctx *ctx;
    struct vc_arena arena;
};

/* How several devices share a model. */
enum vc_spread {
    VC_SPREAD_NONE,
    VC_SPREAD_ZERO1,
    VC_SPREAD_ZERO2,
    VC_SPREAD_ZERO3,
    VC_SPREAD_PRODUCTS,
    VC_SPREAD_STAGES
};

/* A recipe before it has words. */
struct vc_choice {
    const struct vc_weights_form *form;
    struct vc_memory_options memory;
    struct vc_memory_report report;
    struct vc_recipe recipe; /* so far: fit, batch, accumulate, error and time */
    bool experts;            /* on the host, by the recipe */
    bool narrow_cache;       /* keys and values of fewer bits than without the recipe */
    bool ideal;              /* vc_fit_options.ideal, whatever is given */
    enum vc_spread spread;
    unsigned rank, less; /* the most harmful levers; how often batch or context were halved */
    size_t number;       /* in the order of trying */
};

/* Fills p->forms; the first is the model as it is. */
enum vc_status vc_plan_forms(struct vc_planning *p);
void vc_plan_forms_release(struct vc_planning *p);
/* What the recipe is called, in the arena of p->out: "int4 weights, batch 4"; "as it is". NULL: no memory. */
const char *vc_plan_words(struct vc_planning *p, const struct vc_choice *choice);
