/* arch_family.h - the families of models for text that this program knows, a row each: what the model computes, what
 * llama.cpp calls it and its tensors, and by which key each of the two says a size.
 *
 *     {"model_type": "gemma3_text", ...}     row "gemma3_text": norms multiply by 1 + weight, five layers of six slide, ...
 *     general.architecture "gemma3"          the same row
 *     layers.3.mlp.up_proj.weight            a rule: blk.3.ffn_up.weight, of the shape FH
 *     "num_hidden_layers": 26                a key: gemma3.block_count
 *
 * Numbers that a class takes where config.json says nothing, and which of its layers are of another kind: arch.h. Knows
 * no JSON, no file and no tensor's values: formats/gguf_folder makes GGUF models by these rows and reads them,
 * graph/families builds graphs by them. */
#pragma once

#include "arch/arch.h"
#include "core/model/edit.h"

/* ---- names of tensors ---- */

/* Letters for sizes, in shapes of rules:
 *
 *     H hidden   q query heads x head size   k key heads x head size   d head size   F feed-forward   V vocabulary
 *     E experts  e feed-forward of an expert   s ... of the shared one   Q q + 2 k   G 2 F   P positions   T types
 *     A query heads   1 one   p 2 q   g 2 e   I input of each layer   J I x layers
 *     3 3 H   a positions in a table, with those that no token has
 *     of recurrent layers: u of a head   v value heads   i v x u   c 2 x key heads x state + i   L kernel   N state
 *     K key heads   x i / key heads   z i + c + v   b 2 v   j 2 i   D rank of the steps   X D + 2 N
 *     of keys and values that are decompressed: r rank   M r + rotated   n not rotated   W of a value   w A x W
 *     R rank of queries   m A x (n + rotated)   y n + rotated   h key heads
 *     of an indexer, which chooses what is attended to: 5 heads   6 elements of one   7 5 x 6
 *     of T5: B buckets of positions
 *     of Gemma 3n: t copies of the states   C of them but the first   U t x t   l rank of the path beside attention
 *     of vision towers: S side of a patch   f colours   o f x S x S   O H x patches that become one   Y the text's H
 *     Z of what is behind the layers */
struct vc_arch_sizes {
    uint64_t hidden, layers, heads, key_heads, head_size, feed_forward, vocabulary, context;
    uint64_t experts, experts_used, expert_size, shared_size;
    uint64_t types, skipped;                       /* skipped: positions in front of the first that a token has */
    uint64_t kernel, unit, key_units, value_units; /* of recurrent layers; unit: elements of a head */
    uint64_t state, step_rank;                     /* ... elements of a state; 0: unit */
    uint64_t rank, query_rank, plain, value_head;  /* of decompressed keys and values; plain: elements not rotated */
    uint64_t index_heads, index_size, index_best;  /* of an indexer; the tokens that it chooses */
    uint64_t groups, groups_used;                  /* of experts, and of those that are chosen */
    uint64_t shared;                               /* experts that all tokens use: their sizes in one matrix */
    uint64_t dense, step; /* layers without experts in front; behind them only each `step`-th has some; 0: each */
    uint64_t buckets;     /* of distances */
    uint64_t decoder_layers, start; /* of a second stack; the token that its texts begin with */
    uint64_t full_head, full_keys;  /* head size and key heads of layers that do not slide; 0: those of all */
    uint64_t input;                 /* elements that each layer has of each token; 0: none */
    uint64_t input_rows;            /* of their table, where it has fewer than words; else 0 */
    uint64_t copies, laurel;        /* of the states; the rank of the path beside attention */
    uint64_t owners;                /* layers from this one on use keys and values of others */
    uint64_t rotated;               /* elements of a head; 0: all */
    uint64_t image, patch, merge;   /* sides: of a picture, of a patch, of the square of patches that become one */
    uint64_t text, adapter;         /* elements of a token of the text; ... of what is behind the vision layers */
    bool wide;                      /* these have a feed-forward part of twice the size */
    bool head_size_given;
};

/* The size of a letter. */
uint64_t vc_arch_size_of(const struct vc_arch_sizes *sizes, char letter);

/* Which rows of the matrix in transformers the one in llama.cpp has; of each matrix, where there are several. BEHIND:
 * without the first positions, which no token has. FIRST_LAST: the first row is the last. Value heads of a recurrent layer, which llama.cpp has in another
 * order: HEADS: all rows are such; LAST_HEADS: those behind queries and keys; HEAD_COLUMNS: the columns. In a matrix
 * with the parts of each key head one behind the other, queries, keys, values and, in recurrent layers, a gate: QKV: the
 * parts of all heads, one part after the other, without the gate; GATE: that. In one with the keys and the values of each
 * head: HEAD_KEYS, HEAD_VALUES. In one with queries, keys and values one behind the other, a THIRD. */
enum vc_arch_rows {
    VC_ROWS_ALL,
    VC_ROWS_FIRST_HALF,
    VC_ROWS_SECOND_HALF,
    VC_ROWS_EVEN,
    VC_ROWS_ODD,
    VC_ROWS_BEHIND,
    VC_ROWS_FIRST_LAST,
    VC_ROWS_HEADS,
    VC_ROWS_LAST_HEADS,
    VC_ROWS_HEAD_COLUMNS,
    VC_ROWS_QKV,
    VC_ROWS_GATE,
    VC_ROWS_HEAD_KEYS,
    VC_ROWS_HEAD_VALUES,
    VC_ROWS_FIRST_THIRD,
    VC_ROWS_SECOND_THIRD,
    VC_ROWS_LAST_THIRD
};

/* How transformers has a matrix: as it is; its rows as columns; as blocks of MXFP4, with scales in another tensor; with
 * a dimension of 1 before the last; as the logarithm of minus the values, FLAT or of the same shape; as one row of all
 * values; with a dimension of 2 before the last two, of which it has one; as rows of patches, colours last. */
enum vc_arch_form {
    VC_MATRIX_STRAIGHT,
    VC_MATRIX_TURNED,
    VC_MATRIX_BLOCKS,
    VC_MATRIX_CHANNELS,
    VC_MATRIX_LOGARITHM,
    VC_MATRIX_FLAT,
    VC_MATRIX_FRAMES,
    VC_MATRIX_PATCHES
};

/* A name of transformers, without what stands in front of all of them ("model."), and that of llama.cpp: '#' is the
 * number of the layer, '*' of the expert. Where `to` does not end in ".weight", ".bias", ".scale", ".ssm_a" or ".ssm_d", both may
 * have ".weight" or ".bias" behind them. */
struct vc_arch_name {
    const char *from, *to; /* to NULL: it is left out */
    const char *shape;     /* letters, one a dimension */
    enum vc_arch_rows rows;
    enum vc_arch_form form;
};

/* Of all families; the last has no `from`. */
extern const struct vc_arch_name vc_arch_names[];

/* Whether `name` begins with the pattern, "layers.#.mlp.experts.*.w1". *layer, *expert: its numbers, -1 where there is
 * none; *rest: what follows. */
bool vc_arch_name_fits(const char *pattern, const char *name, int64_t *layer, int64_t *expert, const char **rest);
/* Whether nothing follows the name of llama.cpp: "blk.#.ffn_gate_inp.weight". */
bool vc_arch_name_is_whole(const char *to);

/* ---- families ---- */

enum vc_arch_trait {
    /* what is computed */
    VC_ARCH_FROM_1 = 1 << 0,     /* norms multiply by 1 + weight; llama.cpp stores the sum */
    VC_ARCH_PLAIN_NORM = 1 << 1, /* layer norms with nothing to learn, of epsilon 1e-5 */
    VC_ARCH_ENCODER = 1 << 2,    /* of BERT's kind: a table of positions, no head, LayerNorm */
    VC_ARCH_RECURRENT = 1 << 3,  /* layers of the second kind are recurrent */
    VC_ARCH_EXPERTS = 1 << 4,
    VC_ARCH_EXPERT_SIZE = 1 << 5,   /* experts have a feed-forward size of their own */
    VC_ARCH_SHARED_EXPERT = 1 << 6, /* all tokens have one beside those that are chosen */
    VC_ARCH_BIASES = 1 << 7,        /* "attention_bias": of all four projections */
    VC_ARCH_QKV_BIAS = 1 << 8,      /* "qkv_bias", true: of q, k and v */
    VC_ARCH_MLP_BIAS = 1 << 9,      /* "mlp_bias" */
    VC_ARCH_PACKED = 1 << 10,       /* qkv_proj and gate_up_proj */
    VC_ARCH_CLIPPED = 1 << 11,      /* "clip_qkv" */
    VC_ARCH_SCALED = 1 << 12,       /* embeddings times sqrt(hidden) */
    VC_ARCH_LOCAL_ROPE = 1 << 13,   /* layers that slide have rotary positions of their own */
    VC_ARCH_PARTIAL = 1 << 14,      /* a share of each head is rotated, by "partial_rotary_factor" */
    VC_ARCH_DROPS = 1 << 15,        /* "resid_pdrop" behind attention and MLP */
    VC_ARCH_CAPS_SCORES = 1 << 16,  /* "attn_logit_softcapping" */
    VC_ARCH_CAPS_LOGITS = 1 << 17,  /* "final_logit_softcapping" */
    VC_ARCH_OWN_ACT_KEY = 1 << 18,  /* "hidden_activation", not "hidden_act" */
    VC_ARCH_GELU_IS_TANH = 1 << 19, /* the word "gelu" means the one by tanh */
    VC_ARCH_SECTIONS = 1 << 30,     /* "mrope_section": rotated pairs are shared between time, height and width */
    VC_ARCH_SUM_KEY = 1 << 29,      /* "norm_topk_prob": weights of the chosen experts are divided by their sum */
    /* what llama.cpp makes of it */
    VC_ARCH_PERMUTES = 1 << 20,     /* rows of q and k: llama.cpp rotates neighbours, transformers halves */
    VC_ARCH_NO_HEAD = 1 << 21,      /* the head is the embedding */
    VC_ARCH_OWN_HEAD = 1 << 22,     /* there is always a head */
    VC_ARCH_SORTS = 1 << 27,        /* rows of q and k: llama.cpp rotates halves, transformers neighbours */
    VC_ARCH_FREQS = 1 << 23,        /* reads rope_freqs.weight */
    VC_ARCH_HEADS_FILL = 1 << 24,   /* heads x head size is the hidden size */
    VC_ARCH_NO_HEAD_SIZE = 1 << 25, /* no keys about it */
    VC_ARCH_SUM_IS_1 = 1 << 26,     /* weights of the chosen experts are divided by their sum */
    /* what this program does */
    VC_ARCH_GRAPH = 1 << 28 /* a graph of the decoder can be built by these traits */
};

/* What a graph of the decoder has beside that, or in another way than Llama. */
enum vc_arch_build {
    VC_BUILD_MEANS = 1 << 0,         /* norms are LayerNorm: the mean goes, too */
    VC_BUILD_SHIFTS = 1 << 1,        /* ... with a bias */
    VC_BUILD_NO_GATE = 1 << 2,       /* down(act(up(x))) */
    VC_BUILD_PARALLEL = 1 << 3,      /* x + attention(y) + mlp(y) with y = norm(x) */
    VC_BUILD_USE_PARALLEL = 1 << 12, /* ... if "use_parallel_residual" is true */
    VC_BUILD_NEIGHBOURS = 1 << 4,    /* 2i and 2i + 1 are rotated together, in transformers, too */
    VC_BUILD_FACTORS =
        1 << 5, /* "embedding_multiplier", "attention_multiplier", "residual_multiplier", "logits_scaling" */
    VC_BUILD_LOGIT_SCALE = 1 << 6,
    VC_BUILD_ROTATES_SOME = 1 << 7,    /* "no_rope_layers" has a 1 for a layer that is rotated; the others may slide */
    VC_BUILD_ROTATES_SLIDING = 1 << 8, /* ... only layers that slide are */
    VC_BUILD_USE_BIAS = 1 << 9,        /* "use_bias", true: of all layers */
    VC_BUILD_USE_QKV_BIAS = 1 << 10,   /* "use_qkv_bias", false */
    VC_BUILD_HEAD_BIAS = 1 << 11,      /* the head has one, always */
    VC_BUILD_WIDE = 1 << 13,           /* transformers computes norms and turns q and k in f32, one operator a step */
    VC_BUILD_PARTS = 1 << 14           /* its attention has what is rotated of q and k, and the rest, in variables */
};

/* What a family calls a layer's module where others say o_proj, up_proj, down_proj and norm; NULL: the same. */
struct vc_arch_modules {
    const char *out, *up, *down, *norm;
};

/* Where a layer has its norms. */
enum vc_arch_norms {
    VC_NORMS_BEFORE, /* attention and MLP: input_layernorm, post_attention_layernorm */
    VC_NORMS_BEHIND, /* them: post_attention_layernorm, post_feedforward_layernorm */
    VC_NORMS_AROUND  /* them: these three, and pre_feedforward_layernorm */
};

/* Norms of q and k. */
enum vc_arch_qk_norm {
    VC_QK_NORM_NONE,
    VC_QK_NORM_HEAD, /* each head by itself */
    VC_QK_NORM_ALL   /* all heads as one vector */
};

/* Which layers have a sliding window, where "layer_types" does not say it. llama.cpp has windows of the last kind. */
enum vc_arch_windows {
    VC_WINDOW_NONE,
    VC_WINDOW_ALL,     /* all, if "sliding_window" is a number */
    VC_WINDOW_USED,    /* all, if "use_sliding_window" is true */
    VC_WINDOW_BEHIND,  /* the same, from number "max_window_layers" on */
    VC_WINDOW_BEFORE,  /* the same, numbers 0, 2, 4, ... before it */
    VC_WINDOW_PATTERN, /* by the list of the class (vc_arch_list) */
    VC_WINDOW_CHUNKS   /* the same; both know their size by heart, and no key says it */
};

/* Classes beside Model and ForCausalLM that transformers has. */
enum vc_arch_class { VC_ARCH_OF_SEQUENCES = 1, VC_ARCH_OF_TOKENS = 2, VC_ARCH_OF_QUESTIONS = 4 };

struct vc_arch_family {
    const char *types;      /* "gemma3_text|gemma3": the first is what a GGUF model becomes */
    const char *class_name; /* what its classes begin with: "Gemma3" */
    const char *base_class; /* what those without a head of language begin with; NULL: the same */
    const char *gguf;       /* general.architecture */
    unsigned traits;        /* of enum vc_arch_trait */
    unsigned classes;       /* of enum vc_arch_class */
    enum vc_arch_norms norms;
    enum vc_arch_qk_norm qk_norm;
    enum vc_arch_windows windows;
    uint64_t largest; /* scores are scaled by "query_pre_attn_scalar", and in a model of so many layers by hidden size /
                               heads in llama.cpp, else by the head size; 0: by the head size in both */
    uint64_t window;  /* tokens, where a GGUF model says none; 0: then it has none */
    const char *activation; /* "silu|swish": the first where config.json says none */
    /* tensors of llama.cpp, "attn_q attn_q.bias": without a point ".weight" follows; "enc/attn_q" is of "enc.blk.#" */
    const char *layer;                /* that each layer has; NULL: such a model is not made */
    const char *maybe;                /* that a layer may have; NULL: none */
    const char *first, *second;       /* that only layers of the first, or of the second kind have; NULL: none */
    const char *dense, *sparse;       /* that only layers without, or with experts have; NULL: none */
    const char *whole;                /* of the whole model beside token_embd; NULL: output_norm */
    const struct vc_arch_name *rules; /* before those of all; the last has no `from`. NULL: none */
    const char *plain;  /* the type that computes the same of texts alone, and has a head: the way back makes
                                         a folder of it. NULL: its own */
    const char *prefix; /* what stands in front of all names but the head's in transformers; NULL: "model." */
    /* Keys of config.json that no key of llama.cpp's says, "a|b": a file has them beside; NULL: none. */
    const char *keeps;
    unsigned builds; /* of enum vc_arch_build */
    struct vc_arch_modules modules;
};

/* Family number `index`; NULL behind the last. */
const struct vc_arch_family *vc_arch_family_at(size_t index);
/* The family of a model_type; NULL if there is none. */
const struct vc_arch_family *vc_arch_family(const char *model_type);
/* The family of a GGUF model of that architecture; slides: it has windows. NULL if there is none. */
const struct vc_arch_family *vc_arch_family_of_gguf(const char *architecture, bool has_experts, bool slides);
/* The first of its types, in `type`, which has room for VC_ARCH_TYPE_BYTES. Returns `type`. */
#define VC_ARCH_TYPE_BYTES 64
const char *vc_arch_family_type(const struct vc_arch_family *family, char *type);
/* What transformers says of that type. */
const struct vc_arch *vc_arch_family_class(const struct vc_arch_family *family);
/* Layers of two kinds come in a period of so many in such a GGUF model, where its metadata say nothing; 0: in none. */
uint64_t vc_arch_gguf_period(const char *architecture);
/* What llama.cpp takes where such a model has a window and no pattern: whether layer `layer` of so many slides. Without a
 * family that has windows layer by layer, none does. */
bool vc_arch_gguf_slides(const char *architecture, uint64_t layer, uint64_t layers);
/* ... and the length of that window where the metadata have no length; 0 if the model has no window then either. */
uint64_t vc_arch_gguf_window(const char *architecture);
/* The program that runs GGUF models of that general.architecture; NULL: none that is known. */
const char *vc_arch_gguf_program(const char *architecture);
/* Whether it is one of the networks that make pictures and films: not llama.cpp's. */
bool vc_arch_gguf_is_picture(const char *architecture);

static inline bool vc_arch_has(const struct vc_arch_family *family, enum vc_arch_trait trait)
{
    return (family->traits & trait) != 0;
}

/* llama.cpp has windows, layer by layer; transformers has one, and llama.cpp has not. */
static inline bool vc_arch_slides(const struct vc_arch_family *family)
{
    return family->windows == VC_WINDOW_PATTERN;
}

static inline bool vc_arch_loses_window(const struct vc_arch_family *family)
{
    return family->windows != VC_WINDOW_NONE && family->windows < VC_WINDOW_PATTERN;
}

/* Keys and values are decompressed, in llama.cpp's graph of DeepSeek. */
#define VC_ARCH_LATENT "deepseek2|mistral4|deepseek32|glm-dsa"
bool vc_arch_is_latent(const struct vc_arch_family *family);

/* Layers of two kinds, one by one. */
static inline bool vc_arch_has_kinds(const struct vc_arch_family *family)
{
    return vc_arch_slides(family) || vc_arch_has(family, VC_ARCH_RECURRENT);
}

/* ---- keys ---- */

/* What an edit's size is called: in config.json, by all classes ("a|b"), and behind the architecture in GGUF. */
const char *vc_arch_config_names(enum vc_edit_key size);
const char *vc_arch_gguf_names(enum vc_edit_key size);

/* Where the number of a key comes from. */
enum vc_arch_source {
    VC_FROM_SIZE,      /* `field` of struct vc_arch_sizes, and config.json states it */
    VC_FROM_HEAD_SIZE, /* the same; no pair where heads of the usual size are not spoken of */
    VC_FROM_COUNT, /* a size that config.json states, and it may be 0; without the key the class's, or `otherwise` */
    VC_FROM_COUNT_IF_ANY, /* the same; no pair where it is 0 */
    VC_FROM_LETTER,       /* the size of the letter `field`: it follows from others */
    VC_FROM_CONSTANT,     /* `otherwise`: what the class computes, and llama.cpp asks for */
    VC_FROM_FLAG,         /* a truth value of config.json; else of the class; else `otherwise` */
    VC_FROM_VOCABULARY,   /* the rows of the embedding */
    VC_FROM_REAL,         /* config.json; else the class; else `otherwise` */
    VC_FROM_REAL_IF_SAID, /* config.json; else there is no pair */
    VC_FROM_EPSILON,      /* the same, above 0 */
    VC_FROM_THETA,        /* of rotary embeddings */
    VC_FROM_LOCAL_THETA,  /* ... of layers that slide */
    VC_FROM_ROTATED,      /* elements of a head that are rotated: "partial_rotary_factor" of it */
    VC_FROM_WINDOW
};

/* A pair of GGUF's metadata that is a number, and where config.json has it. */
struct vc_arch_pair {
    const char *gguf;  /* behind the architecture, ".block_count" */
    const char *names; /* "a|b" of config.json: the first that is there counts */
    enum vc_arch_source source;
    size_t field;
    unsigned has, has_not; /* traits of families: one without the first has no such size, one with the last no pair */
    const char *architectures; /* "a|b"; NULL: any */
    const char *except;        /* "a|b": but these; NULL: none */
    double otherwise;
};

/* Of all families, in the order of a GGUF file; the last has no key. */
extern const struct vc_arch_pair vc_arch_pairs[];
/* Whether models of that family have such a number; and whether their metadata have it. */
bool vc_arch_knows_pair(const struct vc_arch_family *family, const struct vc_arch_pair *pair);
bool vc_arch_writes_pair(const struct vc_arch_family *family, const struct vc_arch_pair *pair);
/* The size of a key of VC_FROM_SIZE or VC_FROM_HEAD_SIZE. */
uint64_t *vc_arch_pair_size(struct vc_arch_sizes *sizes, const struct vc_arch_pair *pair);
