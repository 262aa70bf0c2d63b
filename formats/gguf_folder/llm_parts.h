/* llm_parts.h - what the parts of this room share: the configuration, the row of a family, the plan of the tensors,
 * pairs of metadata. Families, names of tensors, keys and sizes: arch/arch_family.h. */
#pragma once

#include "arch/arch_config.h"
#include "arch/arch_vision.h"
#include "core/model/source.h"
#include "core/text/text.h"
#include "formats/gguf/gguf.h"
#include "formats/huggingface/config/hf_json.h"
#include "formats/huggingface/families.h"

/* ---- config.json (llm_config.c) ---- */

/* The first value that was asked for and is of a wrong kind: "rms_norm_eps": "1e-5". */
struct llm_wrong {
    const char *names;   /* "hidden_act|activation_function": as asked for; NULL: no value is wrong */
    const char *wanted;  /* "a number" */
    const json_t *value; /* the configuration's */
};

struct llm_config {
    struct hf_json json;
    json_t *root;
    json_t *part;           /* "text_config" of a model that also sees or hears: its keys count first; else the root */
    const char *model_type; /* of the part */
    const struct vc_arch *arch; /* what transformers takes where the part says nothing (arch/arch.h) */
    struct llm_wrong *wrong;    /* the pool's; NULL: not recorded, as in a configuration that we made ourselves */
};

/* Reads it from the folder of the source. vc_llm_config_free in any case. */
enum vc_status vc_llm_config_read(struct vc_ctx *ctx, const struct vc_model *source, struct llm_config *out);
void vc_llm_config_free(struct vc_ctx *ctx, struct llm_config *config);

/* The value of the first of the names "a|b" that is there and not null; NULL: none is. */
json_t *vc_llm_find(const struct llm_config *config, const char *names);
/* The same as a whole number, a number, a truth value, a word; `otherwise` where there is none. A value of another kind
 * is recorded for vc_llm_config_check: a text where a number belongs would else become the default unseen. A list with an
 * entry for each layer is one whole number where all entries are alike, and no number else. */
uint64_t vc_llm_count(const struct llm_config *config, const char *names, uint64_t otherwise);
double vc_llm_real(const struct llm_config *config, const char *names, double otherwise);
bool vc_llm_flag(const struct llm_config *config, const char *names, bool otherwise);
const char *vc_llm_word(const struct llm_config *config, const char *names, const char *otherwise);
/* What transformers takes for the first of the names that its class has a value for. */
double vc_llm_usual(const struct llm_config *config, const char *names, double otherwise);
/* Of an object of the configuration. */
double vc_llm_real_of(const struct llm_config *config, const json_t *object, const char *name, double otherwise);
/* VC_E_FORMAT with key and value if a value that was asked for so far is of a wrong kind. */
enum vc_status vc_llm_config_check(struct vc_ctx *ctx, const struct llm_config *config);

/* ---- families (llm_config.c) ---- */

/* The row of a model_type of which GGUF models are made; NULL if there is none. */
const struct vc_arch_family *vc_llm_family(const char *model_type);
/* "llama, mistral, ...". Returns `list`. */
const char *vc_llm_family_list(char *list, size_t room);
/* Whether a layer is of the second kind: it slides, or is recurrent. */
bool vc_llm_is_second(const struct llm_config *config, const struct vc_arch_family *family, uint64_t layer);
/* Of which kinds a layer is: its tensors are those of the lists of the row with these names. */
enum llm_kind { LLM_FIRST = 1, LLM_SECOND = 2, LLM_DENSE = 4, LLM_SPARSE = 8 };
unsigned vc_llm_kinds(const struct llm_config *config, const struct vc_arch_family *family,
                      const struct vc_arch_sizes *sizes, uint64_t layer);
/* Refuses lists of kinds that have not an entry for each layer, or have a word that names no kind.
 * Families with alike layers do not read them. */
enum vc_status vc_llm_kinds_check(struct vc_ctx *ctx, const struct llm_config *config,
                                  const struct vc_arch_family *family, uint64_t layers);
/* A model that makes vectors of a text, and sees all of it. */
static inline bool vc_llm_is_encoder(const struct vc_arch_family *family)
{
    return vc_arch_has(family, VC_ARCH_ENCODER) || vc_is_one_of(family->gguf, "modern-bert|eurobert");
}
/* Whether layers of the second kind are recurrent, and llama.cpp tells them by a key; else by key heads, of which they
 * have none. */
static inline bool vc_llm_says_recurrent(const struct vc_arch_family *family)
{
    return vc_is_one_of(family->gguf, "qwen35|qwen35moe|qwen3next");
}
/* Sizes of a layer. (llm_keys.c) */
struct vc_arch_sizes vc_llm_layer_sizes(const struct llm_config *config, const struct vc_arch_family *family,
                                        const struct vc_arch_sizes *sizes, uint64_t layer);

/* ---- sizes and rotary embeddings ---- */

struct llm_rope {
    const json_t *block; /* "rope_parameters" or "rope_scaling": of the full-attention layers; NULL: none */
    const char *type;    /* "default", "yarn", ... */
    double theta, local_theta, share; /* share: of the head size that is rotated */
};

/* The configuration's sizes. VC_E_FORMAT names the key that is missing. */
enum vc_status vc_llm_sizes_read(struct vc_ctx *ctx, const struct llm_config *config,
                                 const struct vc_arch_family *family, struct vc_arch_sizes *out);
enum vc_status vc_llm_rope_read(struct vc_ctx *ctx, const struct llm_config *config,
                                const struct vc_arch_family *family, struct llm_rope *out);

/* ---- the plan of the tensors ---- */

/* `rows` rows of the source tensor from row `first` on. */
struct llm_piece {
    size_t source;
    uint64_t first;
};

/* Units of rows in another order: behind the `first` rows, of each groups x each units, unit g x each + j of the source
 * becomes unit j x groups + g. A head of 8 rows, groups 2, each 4, unit 1: rows 0 4 1 5 2 6 3 7. groups 0: they stay.
 * head: so many units are one head, of which those behind groups x each stay; 0: there are none. */
struct llm_order {
    uint64_t first, unit, groups, each, head;
};

/* On the way back, of blocks: all of them as they are, their codes, or their scales. */
enum llm_part { LLM_ALL_PARTS, LLM_CODES, LLM_SCALES };

/* Of a value: none beside add and scale; -exp(value); log(-value). */
enum llm_function { LLM_LINEAR, LLM_MINUS_EXP, LLM_LOG_OF_MINUS };

/* A tensor of the GGUF model, or on the way back of the folder, whose elements may be blocks. Its rows are those of all
 * pieces, one after the other. */
struct llm_tensor {
    const char *name;
    int64_t layer; /* -1: of the whole model */
    enum vc_dtype dtype, from;
    unsigned n_dims;
    uint64_t shape[4];
    uint64_t row_elems;  /* 1 where there is one dimension; a unit of columns where they have another order */
    uint64_t piece_rows; /* of each piece */
    uint64_t rows_there; /* of the source; those behind them are the first. 0: all */
    struct llm_order order;
    uint64_t step;    /* rows of the source from one to the next: 1, or 2 where every other one is of this tensor */
    uint64_t columns; /* of the source's matrix whose columns the rows are; 0: they are its rows */
    uint64_t column;  /* the first of them */
    bool joined;      /* columns take turns: of a piece, and of the one behind it */
    size_t scales;    /* of blocks: the source's tensor with their scales */
    const float *row_scales; /* ... of each row, beside `scale`; NULL: none */
    float add, scale;        /* of a value: ((float)value + add) * scale; 0 and 1: as it is */
    enum llm_function function;
    enum llm_part part;
    bool halves; /* of columns: the first half is of a piece, the second of the one behind it */
    /* The rows of the even pieces, which lie on their side, where the odd ones have others; else 0. */
    uint64_t first_rows;
    size_t n_pieces;
    const struct llm_piece *pieces;
    const float *values; /* not the source's: these; else NULL */
};

struct llm_plan {
    struct vc_arena *arena;
    size_t n, capacity;
    struct llm_tensor *tensors; /* the pool's; sorted by layer, then name */
};

/* What follows the number of the layer, "attn_q.weight" of "enc.blk.12.attn_q.weight"; of other names all. */
static inline const char *vc_llm_tail(const char *name)
{
    const char *at = strstr(name, "blk.");

    at = at != NULL ? strchr(at + 4, '.') : NULL;
    return at != NULL ? at + 1 : name;
}

void vc_llm_plan_release(struct vc_ctx *ctx, struct llm_plan *plan);
/* Names, shapes and operations of all tensors of the source. Sets sizes->vocabulary. any_type: the plan is only looked
 * at, and its values are not read. */
enum vc_status vc_llm_tensors_plan(struct vc_ctx *ctx, const struct vc_model *source, const struct llm_config *config,
                                   const struct vc_arch_family *family, struct vc_arch_sizes *sizes, bool any_type,
                                   struct vc_model *model, struct llm_plan *plan);
/* Whether such a tensor has 1 more in llama.cpp than in transformers; tail: "attn_norm.weight". */
bool vc_llm_has_one_more(const struct vc_arch_family *family, const char *tail);
/* Of a matrix that has the parts of each key head one behind the other: units of rows. */
struct llm_units {
    uint64_t unit, groups, each[4]; /* queries, keys, values, gate: of a group */
};
struct llm_units vc_llm_units_of(const struct vc_arch_sizes *sizes, const struct vc_arch_name *rule);
/* The order of the rows of queries and keys, where llama.cpp turns pairs of other elements; back: of the way back. */
struct llm_order vc_llm_order_turned(const struct vc_arch_family *family, const struct vc_arch_sizes *sizes,
                                     const char *tail, bool back);
/* The order of the value heads of a recurrent layer, where they are in another one in llama.cpp; `to` has its rows. */
void vc_llm_order_heads(const struct vc_arch_sizes *sizes, const struct vc_arch_name *rule, struct llm_tensor *to);
/* Why vc_llm_blocks_of has none for a weight that is quantized or a part of such, or why they are not enough. */
const char *vc_llm_why_no_blocks(const struct vc_model *source, const struct vc_tensor *t);
/* Adds a tensor of one dimension whose values are in the arena (llm_plan.c). */
enum vc_status vc_llm_plan_add_values(struct vc_ctx *ctx, struct llm_plan *plan, const char *name, const float *values,
                                      uint64_t n);
/* The blocks that keep the codes of a matrix: MXFP4, NVFP4; of symmetric int4 and int8 with scales in f16 or bf16, of
 * rows or of whole blocks of 32, Q4_0 and Q8_0 (llm_values.c). VC_DTYPE_NONE: none. */
enum vc_dtype vc_llm_blocks_of(const struct vc_model *source, const struct vc_tensor *t);
/* The scheme of the codes in such blocks; VC_SCHEME_NONE: blocks of another type. */
enum vc_scheme vc_llm_scheme_of(enum vc_dtype blocks);
/* For a matrix of codes: adds "blk.0.attn_q.scale" beside "blk.0.attn_q.weight" of NVFP4: what its blocks are
 * multiplied with, for each piece (llm_values.c). */
enum vc_status vc_llm_plan_add_scale(struct vc_ctx *ctx, const struct vc_model *source, struct llm_plan *plan,
                                     const struct llm_tensor *t);
void vc_llm_plan_sort(struct llm_plan *plan);

/* An element of a tensor of floats (llm_values.c). */
enum vc_status vc_llm_value_read(struct vc_ctx *ctx, const struct vc_model *source, size_t tensor, uint64_t index,
                                 float *out);
/* n_bytes from `offset` of the values of a tensor (llm_values.c). */
enum vc_status vc_llm_values_read(struct vc_ctx *ctx, const struct vc_model *source, const struct llm_tensor *tensor,
                                  uint64_t offset, void *dst, size_t n_bytes);

/* ---- models that stand on others (gguf_folder.c) ---- */

/* `self` of such a model. It begins as that of any GGUF model does, so that the room of GGUF may look into it. */
struct llm_folder {
    struct gguf gguf;
    struct vc_model *source;
    struct llm_plan plan;
    struct vc_family family;
};

/* Makes it: the model has the files and notes of the source, which it takes over, and vc_model_close frees everything.
 */
enum vc_status vc_llm_folder_make(struct vc_ctx *ctx, struct vc_model *source, struct vc_model *model,
                                  struct llm_folder **out);
/* The tensors of the plan as those of the model, in the files that the first piece of each lies in. */
enum vc_status vc_llm_folder_list(struct vc_ctx *ctx, const struct llm_folder *self, struct vc_model *model);

/* ---- pairs of metadata (llm_pairs.c) ---- */

struct llm_pairs {
    struct vc_text text; /* failures stay in text.status */
    uint64_t n;
    const char *architecture; /* in front of the keys that begin with a point */
};

/* key: "general.name", or ".block_count" for "<architecture>.block_count". */
void vc_llm_put_u32(struct llm_pairs *pairs, const char *key, uint64_t value);
void vc_llm_put_f32(struct llm_pairs *pairs, const char *key, double value);
void vc_llm_put_bool(struct llm_pairs *pairs, const char *key, bool value);
void vc_llm_put_text(struct llm_pairs *pairs, const char *key, const char *value);
/* The pairs as a GGUF file without tensors, in memory: it is checked, and writers copy from it. Adds the facts of the
 * model, which may be NULL; path: borrowed. (gguf_folder.c) */
enum vc_status vc_llm_pairs_read(struct vc_ctx *ctx, struct llm_pairs *pairs, const char *path, struct gguf *to,
                                 struct vc_model *model);
/* The head of an array; then n elements. */
void vc_llm_put_array(struct llm_pairs *pairs, const char *key, enum gguf_kind kind, uint64_t n);
void vc_llm_element_u32(struct llm_pairs *pairs, uint32_t value);
void vc_llm_element_f32(struct llm_pairs *pairs, float value);
void vc_llm_element_u8(struct llm_pairs *pairs, uint8_t value);
void vc_llm_element_text(struct llm_pairs *pairs, const char *value, size_t n);

/* ---- metadata (llm_keys.c, llm_rope.c) ---- */

/* Keys of config.json that GGUF may keep for the way back, as JSON in VC_LLM_REST; NULL behind the last. */
#define VC_LLM_REST "vcompress.config"
extern const char *const vc_llm_rest[];
/* What the configuration says that llama.cpp does in another way: refused, or a note of the model; NULL: none. */
enum vc_status vc_llm_check(struct vc_ctx *ctx, const struct llm_config *config, const struct vc_arch_family *family,
                            const struct vc_arch_sizes *sizes, const struct llm_rope *rope, struct vc_model *model);
/* Whether the number under the first of the names that is there is above 0. */
enum vc_status vc_llm_epsilon_check(struct vc_ctx *ctx, const struct llm_config *config, const char *names);
/* general.* and <architecture>.* */
enum vc_status vc_llm_keys_put(struct vc_ctx *ctx, const struct llm_config *config, const struct vc_arch_family *family,
                               const struct vc_arch_sizes *sizes, const struct llm_rope *rope,
                               const struct llm_plan *plan, struct llm_pairs *pairs);
/* Numbers of Apertus' activation, of each layer: tensors "layers.3.mlp.act_fn.beta", and lists "xielu.beta". */
extern const char *const vc_llm_xielu[4];
enum vc_status vc_llm_xielu_put(struct vc_ctx *ctx, const struct vc_model *source, const struct vc_arch_sizes *sizes,
                                struct llm_pairs *pairs);
/* How sentence-transformers makes one vector of those of all tokens, where modules.json says it (llm_pooling.c). */
enum vc_status vc_llm_pooling_put(struct vc_ctx *ctx, const char *folder, struct vc_model *model,
                                  struct llm_pairs *pairs);
/* Scaling of rotary embeddings: pairs, and tensors of the plan. */
enum vc_status vc_llm_rope_put(struct vc_ctx *ctx, const struct llm_config *config, const struct vc_arch_family *family,
                               const struct vc_arch_sizes *sizes, const struct llm_rope *rope, struct llm_plan *plan,
                               struct vc_model *model, struct llm_pairs *pairs);
/* The pairs that every file begins with: type "model" or "mmproj". */
void vc_llm_general_put(const struct llm_config *config, const char *architecture, const char *type,
                        const struct llm_plan *plan, struct llm_pairs *pairs);
/* Tensors and metadata of the vision tower, in place of those of the part for text (llm_vision.c). */
enum vc_status vc_llm_vision_make(struct vc_ctx *ctx, const struct llm_config *config, const struct vc_model *source,
                                  struct vc_model *model, struct llm_plan *plan, struct llm_pairs *pairs);
/* The layer of the vision tower behind which its matrices number `index` stand; INT64_MAX if there is none. */
int64_t vc_llm_deepstack(const struct llm_config *vision, size_t index);
/* Elements of a head that are rotated. */
uint64_t vc_llm_rotated(const struct vc_arch_sizes *sizes, const struct llm_rope *rope);
/* By what the scores of attention are multiplied in transformers, over what llama.cpp multiplies by. */
double vc_llm_attention_factor(const struct llm_config *config, const struct vc_arch_family *family,
                               const struct vc_arch_sizes *sizes);
