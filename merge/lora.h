/* lora.h - low-rank adapters as what they add to single tensors of a model.
 *
 *     adapter file                                             model
 *     base_model.model.model.layers.0.self_attn.q_proj         model.layers.0.self_attn.q_proj.weight
 *         .lora_A.weight  f32 [16, 512]                            bf16 [1024, 512]
 *         .lora_B.weight  f32 [1024, 16]                           += scale * B A
 *
 * lora_modules.c sorts the tensors of an adapter into modules, lora_names.c finds the tensor of the model that a module
 * is about, lora_step.c adds. Formulas and names: docs/merge.md. */
#pragma once

#include <vcompress/merge.h>

#include "core/chain/pass.h"
#include "core/model/adapter.h"

/* What a tensor of an adapter is to its module; the numbers are places in vc_lora_module.tensors. */
enum vc_lora_piece {
    VC_LORA_DOWN = 0,      /* A: [rank, inputs ...]; of embeddings [rank, rows] */
    VC_LORA_UP = 1,        /* B: [outputs, rank, 1 ...] */
    VC_LORA_MAGNITUDE = 2, /* DoRA: the norm that each output gets */
    VC_LORA_UP_BIAS = 3,   /* added to the bias */
    VC_LORA_ALPHA = 4,     /* one number, in place of that of adapter_config.json */
    VC_LORA_WHOLE = 5,     /* takes the place of a tensor of the model: modules_to_save, trained biases */
    VC_LORA_DIFF = 6,      /* added to the weight as it is, without alpha: ComfyUI's and LyCORIS's full differences */
    VC_LORA_DIFF_BIAS = 7, /* added to the bias, likewise */
    VC_LORA_SET = 8,       /* takes the place of the weight */
    VC_LORA_PIECES = 9
};

struct vc_lora_module {
    const char *name; /* "model.layers.0.self_attn.q_proj", without the prefix of PEFT; VC_LORA_WHOLE: of the tensor */
    size_t tensors[VC_LORA_PIECES];     /* of the adapter; VC_NO_TENSOR if there is none */
    bool embedding;                     /* lora_embedding_A, lora_embedding_B */
    bool flat;                          /* the name is kohya's, with '_' for '.': "lora_unet_down_blocks_0_..." */
    bool base;                          /* a whole one that PEFT keeps beside factors: as it was before training */
    const struct vc_adapter_rows *rows; /* whole: of these rows alone; NULL: all */
};

/* An adapter, sorted. */
struct vc_lora_list {
    const struct vc_model *adapter;
    struct vc_adapter said;
    size_t n;
    struct vc_lora_module *modules; /* by name */
};

/* Reads the names, and of each the last part. VC_E_UNSUPPORTED: a tensor is of a kind that is not merged, a factor has
 * no other, or no tensor is one of an adapter. What `out` points to is the arena's. */
enum vc_status vc_lora_modules(struct vc_ctx *ctx, struct vc_arena *arena, const struct vc_model *adapter,
                               struct vc_lora_list *out);

/* A tensor that a module is about: its weight, what a whole one replaces, or what it has of a parameter
 * (target_parameters). In memory a parameter has all experts, and files have it so, too, or in rows:
 *
 *     lora_A [experts * rank, inputs], lora_B [outputs, rank * experts], in memory [experts, outputs, inputs]
 *     mlp.experts.gate_up_proj          [experts, outputs, inputs]      n_experts 4
 *     mlp.experts.3.up_proj.weight      [outputs / 2, inputs]           n_experts 4, expert 3, from outputs / 2
 */
struct vc_lora_place {
    size_t module, tensor;
    const char *parameter; /* its name in memory; NULL: the module's weight, or a whole tensor */
    /* A whole one that the adapter has under a second name, too, which the model does not have: it is tied. */
    bool twice;
    uint64_t n_experts, expert; /* 1, 0 of what is no parameter of experts */
    /* Where module and tensor have not the same rows: n_rows of the module's `outputs` from `from` on are rows of the tensor from
     * `to` on; n_rows 0: all are. */
    uint64_t n_rows, outputs, from, to;
};

/* The places of all modules in their order; modules without one are left out, *n_missing of them, *first_missing the
 * first. `places` is the arena's. VC_E_UNSUPPORTED: the names fit in two ways. */
enum vc_status vc_lora_names(struct vc_ctx *ctx, struct vc_arena *arena, const struct vc_lora_list *list,
                             const struct vc_model *model, struct vc_lora_place **places, size_t *n_places,
                             size_t *first_missing, size_t *n_missing);

/* What one adapter does to one tensor. */
struct vc_lora_term {
    const struct vc_lora_list *from;
    const struct vc_lora_module *module;
    struct vc_lora_place place;
    enum vc_lora_piece kind; /* DOWN: the sum of B A; DIFF: of a tensor of the same shape; WHOLE: replaced */
    size_t own;              /* the tensor of the adapter that is added or takes the place; DOWN: A */
    bool transposed;         /* the tensor is [inputs, outputs], or an embedding: += scale * (B A) turned over */
    uint64_t rank;
    double scale;              /* with the adapter's weight */
    struct vc_lora_term *next; /* of the same tensor, in the order of the adapters */
};

/* Adds the steps of these terms to the item, whose values are plain floats: one for sums side by side, one for each
 * DoRA. */
enum vc_status vc_lora_add_steps(struct vc_ctx *ctx, struct vc_item *item, const struct vc_lora_term *terms);

/* ---- the adapters of a pass, also outside of jobs (merge_pass.c) ---- */

struct merge;

/* Reads the adapters, which must stay open. */
enum vc_status vc_merge_create(struct vc_ctx *ctx, const struct vc_merge_options *options, struct merge **out);
/* Finds the terms of all tensors of the model; refuses adapters of another one. */
enum vc_status vc_merge_find(struct vc_ctx *ctx, struct merge *m, const struct vc_model *model);
/* The terms of that tensor, or of the one whose bytes it shares; NULL: it stays. */
const struct vc_lora_term *vc_merge_terms(const struct merge *m, const struct vc_model *model, size_t tensor);
/* Refuses what adapters cannot be merged into. */
enum vc_status vc_merge_takes(struct vc_ctx *ctx, const struct vc_desc *desc);
void vc_merge_free(struct vc_ctx *ctx, struct merge *m); /* accepts NULL */
