/* arch_rules.h - how rules of names (struct vc_arch_name) are written in the tables of this folder.
 *
 *     TO("norm_f", "output_norm", "H")                   a tensor of the whole model
 *     IN("mixer.q_proj", "attn_q", "qH")                 of a layer: "layers.#." and "blk.#." stand in front
 *     IN_AS("attn.c_fc", "ffn_up", "FH", ALL, TURNED)    other rows, or another form
 *     HALVES, MATRICES, EXPERT_MATRICES, SHARED_MATRICES several that belong together
 *     LEFT("head.")                                      left out
 *     LAST                                               the end of a list */
#pragma once

#include "arch/arch_family.h"

#define TO_AS(name, becomes, letters, which, how)                                                       \
    {                                                                                                   \
        .from = name, .to = becomes, .shape = letters, .rows = VC_ROWS_##which, .form = VC_MATRIX_##how \
    }
#define TO(name, becomes, letters)                TO_AS(name, becomes, letters, ALL, STRAIGHT)
#define IN(name, becomes, letters)                TO("layers.#." name, "blk.#." becomes, letters)
#define IN_AS(name, becomes, letters, which, how) TO_AS("layers.#." name, "blk.#." becomes, letters, which, how)
#define LEFT(name)   \
    {                \
        .from = name \
    }
#define LAST         \
    {                \
        .from = NULL \
    }

/* A gate and another matrix that are one tensor. */
#define HALVES(name, gate, up, letters, how) \
    IN_AS(name, gate, letters, FIRST_HALF, how), IN_AS(name, up, letters, SECOND_HALF, how)
/* The same of all experts, with their third matrix beside them. */
#define STACKED(at, how)                                                                 \
    HALVES(at "gate_up_proj", "ffn_gate_exps.weight", "ffn_up_exps.weight", "EeH", how), \
        IN_AS(at "down_proj", "ffn_down_exps.weight", "EHe", ALL, how)
/* The three of a feed-forward part; of each expert; of the expert that all tokens use. */
#define MATRICES(at, gate, up, down) \
    IN(at gate, "ffn_gate", "FH"), IN(at up, "ffn_up", "FH"), IN(at down, "ffn_down", "HF")
#define EXPERT_MATRICES(at, gate, up, down) \
    IN(at gate, "ffn_gate_exps", "EeH"), IN(at up, "ffn_up_exps", "EeH"), IN(at down, "ffn_down_exps", "EHe")
#define SHARED_MATRICES(at)                                                             \
    IN(at "gate_proj", "ffn_gate_shexp", "sH"), IN(at "up_proj", "ffn_up_shexp", "sH"), \
        IN(at "down_proj", "ffn_down_shexp", "Hs")
