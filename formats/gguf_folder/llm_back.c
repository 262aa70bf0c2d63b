/* llm_back.c - the way back: a GGUF model of llama.cpp's as a folder of transformers.
 *
 *     blk.0.attn_q.weight      model.layers.0.self_attn.q_proj.weight        rows 0 2 1 3 of a head become 0 1 2 3
 *     blk.0.ffn_up_exps.weight model.layers.0.mlp.experts.7.up_proj.weight   matrix 7 of it
 *     blk.0.attn_v.weight Q4_0 ...v_proj.weight I4, ...v_proj.weight_scale F16   the codes and scales of its blocks
 *     metadata, vocabulary     config.json, tokenizer.json, ...              in memory: vc_infolder_make
 *
 * Values are read by llm_values.c, of blocks too.
 *
 * Order of the work (vc_gguf_back_open at the end of this file): find the family by general.architecture, make
 * config.json of the metadata (llm_back_config.c), plan the tensors by the rules of arch/arch_family.c read from right
 * to left, then run the way there with the result. The second run is the proof: names, shapes, sizes and divisors of
 * the rotary embeddings that it gives have to be those of the file, else the file is refused. A difference in values
 * that no key states would otherwise go unseen, because both readers would follow the same wrong rule. */
#include "formats/gguf_folder/llm_back.h"

#include <math.h>
#include <stdlib.h>

#include "core/base/array.h"
#include "core/base/checked.h"
#include "core/model/code_schemes.h"
#include "formats/gguf_folder/gguf_folder.h"
#include "formats/huggingface/config/hf_config.h"
#include "formats/huggingface/infolder.h"
#include "formats/json/json_walk.h"

/* ---- tensors ---- */

/* "layers.#.mlp.experts.*.up_proj" with the numbers, and what follows. The head is the one name without the prefix of
 * the others in front. Returns NULL if memory is short. */
static const char *make_name(struct llm_back *b, struct vc_arena *arena, const char *from, int64_t layer,
                             uint64_t expert, const char *rest)
{
    struct vc_text text = {.ctx = b->ctx};

    if (strncmp(from, "lm_head", 7) != 0 && strcmp(from, "embed_out") != 0) {
        vc_text_add(&text, "%s", b->family->prefix != NULL ? b->family->prefix : "model.");
    }
    if (strncmp(from, "layer.#", 7) == 0) { /* DistilBERT, whose embeddings have no prefix */
        vc_text_add(&text, "transformer.");
    }
    for (; *from != '\0'; from++) {
        if (*from == '#' || *from == '*') {
            vc_text_add_uint(&text, *from == '#' ? (uint64_t)layer : expert);
        } else {
            vc_text_add_bytes(&text, from, 1);
        }
    }
    vc_text_add(&text, "%s", rest);
    const char *name;
    (void)vc_text_take(&text, arena, &name);
    return name;
}

/* Adds a tensor; its name ends in `tail`, where that is not NULL. The names of `to` and its pieces belong to the plan's
 * arena. */
static enum vc_status push(struct llm_back *b, struct llm_plan *plan, struct llm_tensor to, const char *tail)
{
    VC_CALL_ALLOC(to.name = tail != NULL ? vc_arena_printf(b->ctx, plan->arena, "%s%s", to.name, tail) : to.name);
    VC_CALL(VC_GROW(b->ctx, VC_TAG_NAMES, plan->tensors, plan->capacity, plan->n + 1));
    plan->tensors[plan->n++] = to;
    return VC_OK;
}

/* The number that divides the scales of NVFP4, in place of the one that multiplies them: of two that have it as their
 * inverse, either.
 *
 * compressed-tensors divides by weight_global_scale, GGUF multiplies by blk.N.NAME.scale. 1 / (1 / x) is not always x
 * in f32, so the neighbours of 1 / x are tried first below, then above; where none gives x back, 1 / x is taken. A
 * tensor without such a number counts as 1. */
static enum vc_status find_divisor(struct llm_back *b, const struct vc_tensor *t, uint64_t expert, float *out)
{
    size_t scale = t->quant != NULL ? vc_quant_scale(t->quant) : VC_NO_TENSOR;
    float x = 1.0F;

    if (scale != VC_NO_TENSOR) {
        VC_CALL(vc_llm_value_read(b->ctx, b->source, scale, b->source->tensors[scale].n_elems > 1 ? expert : 0, &x));
    }
    *out = 1.0F / x;
    for (int i = 0; i < 3 && 1.0F / *out != x; i++) {
        *out = i < 2 ? nextafterf(1.0F / x, i == 0 ? 0.0F : INFINITY) : 1.0F / x;
    }
    return x > 0.0F && *out > 0.0F && x < INFINITY && *out < INFINITY
               ? VC_OK
               : vc_fail(b->ctx, VC_E_UNSUPPORTED, "%s: the number beside it is not above 0 and finite",
                         b->source->tensors[scale].name);
}

/* The codes of blocks, and their scales behind them: what attach_codes looks for. They follow each other in the plan:
 * codes at i, scales at i + 1, NVFP4's divisor at i + 2. */
static enum vc_status add_parts(struct llm_back *b, struct llm_plan *plan, struct llm_tensor whole, uint64_t expert)
{
    const struct vc_code_scheme *row = vc_code_scheme(vc_llm_scheme_of(whole.from));
    struct llm_tensor to = whole;
    float *divisor;

    to.part = LLM_CODES;
    to.dtype = row->codes;
    VC_CALL(push(b, plan, to, NULL));
    to.part = LLM_SCALES;
    to.dtype = row->scale != VC_DTYPE_NONE ? VC_DTYPE_U8 : VC_DTYPE_F16;
    to.shape[1] /= row->group != 0 ? row->group : 32;
    VC_CALL(push(b, plan, to, "_scale"));
    if (!row->global) {
        return VC_OK;
    }
    VC_CALL_ALLOC(divisor = vc_arena_alloc(b->ctx, plan->arena, sizeof *divisor));
    VC_CALL(find_divisor(b, &b->source->tensors[whole.pieces[0].source], expert, divisor));
    to.part = LLM_ALL_PARTS;
    to.values = divisor;
    to.from = to.dtype = VC_DTYPE_F32;
    to.n_dims = 1;
    to.shape[0] = 1;
    return push(b, plan, to, "_global_scale");
}

/* Codes with their scales, of what became of blocks; those of gpt_oss are tensors of bytes. A plan's tensor i is the
 * model's tensor i, so the numbers of the parts are those of add_parts. */
static enum vc_status attach_codes(struct llm_back *b, const struct llm_plan *plan)
{
    size_t n = 0;

    VC_CALL_ALLOC(b->model->quants = vc_calloc_array(b->ctx, VC_TAG_NAMES, plan->n, sizeof *b->model->quants));
    for (size_t i = 0; i < plan->n; i++) {
        const struct llm_tensor *t = &plan->tensors[i];
        const struct vc_code_scheme *row = vc_code_scheme(vc_llm_scheme_of(t->from));
        struct vc_quant *quant = &b->model->quants[n];

        if (t->part != LLM_CODES || t->dtype == VC_DTYPE_U8) {
            continue;
        }
        *quant = (struct vc_quant){.scheme = row->scheme,
                                   .granularity = VC_GRANULARITY_GROUP,
                                   .group_size = row->group != 0 ? row->group : 32,
                                   .symmetric = true,
                                   .source_dtype = row->scale != VC_DTYPE_NONE ? VC_DTYPE_BF16 : VC_DTYPE_F16};
        vc_quant_set(quant, VC_PART_SCALE, i + 1);
        vc_quant_set(quant, VC_PART_GLOBAL_SCALE, row->global ? i + 2 : VC_NO_TENSOR);
        for (unsigned k = 0; k < quant->n_parts; k++) {
            b->model->tensors[quant->parts[k].tensor].part_of = i;
        }
        b->model->tensors[i].quant = quant;
        n++;
    }
    return VC_OK;
}

/* The tensors that one of the file becomes by a rule: all of it, or a matrix for each expert. */
static enum vc_status add_tensors(struct llm_back *b, struct llm_plan *plan, size_t source,
                                  const struct vc_arch_name *rule, int64_t layer, const char *rest,
                                  const struct vc_arch_sizes *sizes)
{
    const struct vc_tensor *t = &b->source->tensors[source];
    const char *tail = vc_llm_tail(t->name);
    /* What the rule asks for: one matrix for each expert; a vector that becomes a matrix of one row; rows in the order
     * of transformers; values minus 1; log(-value); rows of one element; codes and scales in tensors of their own. */
    bool experts = strchr(rule->from, '*') != NULL;
    uint64_t n_experts = strncmp(rule->to, "altup", 5) == 0 ? sizes->copies - 1 : sizes->experts;
    bool row = rule->shape[0] == '1' && rule->shape[1] != '\0' &&
               t->n_dims == 1; /* a matrix of one row, which llama.cpp's converter flattens */
    const struct llm_order turned = vc_llm_order_turned(b->family, sizes, tail, true);
    bool heads = turned.groups != 0;
    bool less_one = vc_llm_has_one_more(b->family, tail);
    bool logarithm = rule->form == VC_MATRIX_LOGARITHM;
    bool rows = (heads || rule->rows >= VC_ROWS_HEADS) && t->n_dims == 1; /* of one element each */
    bool parts = layer >= 0 && t->n_dims == (experts ? 3 : 2) && rule->form == VC_MATRIX_STRAIGHT &&
                 rule->rows != VC_ROWS_HEAD_COLUMNS && vc_llm_scheme_of(t->dtype) != VC_SCHEME_NONE;
    unsigned begin = experts ? 1 : 0;
    struct llm_tensor to = {.layer = layer,
                            .from = t->dtype,
                            .dtype = less_one || logarithm ? VC_DTYPE_F32 : t->dtype,
                            .step = 1,
                            .scale = 1.0F,
                            .function = logarithm ? LLM_LOG_OF_MINUS : LLM_LINEAR,
                            .n_pieces = 1};
    size_t block = vc_dtype_facts(t->dtype)->block_elems;
    struct llm_piece *piece;

    /* Refusals. Rows of one element and values that change need floats. Columns that move need floats, too, unless they
     * move by whole blocks. */
    VC_REFUSE_IF(t->n_dims == 0 || t->n_dims - begin > 3 ||
                     (experts && (t->n_dims != 3 || t->shape[0] != n_experts || t->n_elems == 0)),
                 b->ctx, VC_E_UNSUPPORTED, "%s: expected %s", t->name,
                 experts ? "the matrices of all experts" : "1 to 3 dimensions");
    VC_REFUSE_IF((less_one || logarithm || rows || rule->form >= VC_MATRIX_CHANNELS ||
                  (rule->form == VC_MATRIX_TURNED && t->n_dims > 1) ||
                  (rule->rows == VC_ROWS_HEAD_COLUMNS && sizes->unit % block != 0)) &&
                     !vc_dtype_is_float(t->dtype),
                 b->ctx, VC_E_UNSUPPORTED,
                 "%s: has type %s, expected floats (vcompress dequantize makes a GGUF file of floats)", t->name,
                 vc_dtype_name(t->dtype));
    VC_REFUSE_IF(t->quant != NULL && !parts, b->ctx, VC_E_UNSUPPORTED,
                 "%s: has a number beside its blocks (vcompress dequantize makes a GGUF file of floats)", t->name);
    /* Shape and rows. A row is counted in blocks where the type has blocks: a row of 4096 elements of Q4_0 is 128
     * blocks. */
    to.add = less_one ? -1.0F : 0.0F;
    to.order = turned;
    to.shape[0] = 1;
    for (unsigned d = begin; d < t->n_dims; d++) {
        to.shape[d - begin + row] = t->shape[d];
    }
    to.n_dims = t->n_dims - begin + row;
    to.row_elems = rows ? 1 : t->shape[t->n_dims - 1] / block;
    to.piece_rows = to.row_elems != 0 ? t->n_elems / (experts ? n_experts : 1) / block / to.row_elems : 0;
    if (strcmp(rule->to, "per_layer_token_embd") == 0 && sizes->input_rows != 0 && sizes->input_rows < to.shape[0]) {
        to.shape[0] = to.piece_rows = sizes->input_rows; /* the others were made on the way there */
    }
    /* A matrix that lies on its side, and one that is a vector. */
    if (rule->form == VC_MATRIX_TURNED && to.n_dims == 2) {
        to.columns = to.row_elems;
        to.row_elems = to.shape[1] = to.piece_rows;
        to.shape[0] = to.piece_rows = to.columns;
    }
    if (rule->form == VC_MATRIX_FLAT || (logarithm && to.n_dims == 2 && to.shape[1] == 1)) {
        to.n_dims = 1;
        to.shape[0] = to.piece_rows = t->n_elems;
        to.row_elems = 1;
    }
    /* A convolution: [channels, kernel] becomes [channels, 1, kernel]. */
    if (rule->form == VC_MATRIX_CHANNELS && to.n_dims > 1) {
        to.shape[to.n_dims] = to.shape[to.n_dims - 1];
        to.shape[to.n_dims++ - 1] = 1;
    }
    /* The order of the way there, its two factors exchanged, is the inverse order. */
    if (rule->rows >= VC_ROWS_HEADS && rule->rows <= VC_ROWS_HEAD_COLUMNS && sizes->value_units != sizes->key_units) {
        uint64_t elems = to.row_elems;

        vc_llm_order_heads(sizes, rule, &to);
        to.order = (struct llm_order){to.order.first, to.order.unit, to.order.each, to.order.groups, 0};
        to.row_elems = rule->rows == VC_ROWS_HEAD_COLUMNS ? sizes->unit / block : elems;
    }
    /* One tensor, or one for each expert; piece i begins at row i * piece_rows of the file's tensor. */
    for (uint64_t i = 0; i < (experts ? n_experts : 1); i++) {
        VC_CALL_ALLOC(to.name = make_name(b, plan->arena, rule->from, layer, i, rest));
        VC_CALL_ALLOC(piece = vc_arena_alloc(b->ctx, plan->arena, sizeof *piece));
        *piece = (struct llm_piece){.source = source, .first = i * to.piece_rows};
        to.pieces = piece;
        if (parts) {
            VC_CALL(add_parts(b, plan, to, i));
        } else {
            VC_CALL(push(b, plan, to, NULL));
        }
    }
    return VC_OK;
}

/* The other rule of a matrix of transformers that is two tensors of llama.cpp's; NULL: it is one. */
static const struct vc_arch_name *other_of(const struct llm_back *b, const struct vc_arch_name *rule)
{
    const struct vc_arch_name *other = b->made->rules;

    while (other != NULL && other->from != NULL &&
           (other == rule || strcmp(other->from, rule->from) != 0 || rule->rows == VC_ROWS_ALL)) {
        other++;
    }
    return other != NULL && other->from != NULL ? other : NULL;
}

/* Where the rows of such a matrix come from, in pieces that follow one another: `first` and `second` are its two
 * tensors, the same one where there is only one.
 *
 *     halves                gate of expert 0, up of expert 0, gate of expert 1, ...
 *     parts of key heads    units of queries, keys, values and gate of head 0, then of head 1, ...
 *     kv_b_proj             keys of head 0, values of head 0, keys of head 1, ... */
static void join_pieces(const struct llm_back *b, const struct vc_arch_sizes *sizes, const struct vc_arch_name *rule,
                        size_t first, size_t second, struct llm_tensor *to, struct llm_piece *pieces)
{
    const struct vc_tensor *t = &b->source->tensors[first];
    struct llm_units units = vc_llm_units_of(sizes, rule);
    size_t n = 0;

    if (rule->rows != VC_ROWS_QKV) {
        uint64_t rows[2] = {t->shape[t->n_dims - 2], b->source->tensors[second].shape[t->n_dims - 2]};

        for (; n < to->n_pieces; n++) {
            pieces[n] = (struct llm_piece){.source = n % 2 == 0 ? first : second, .first = n / 2 * rows[n % 2]};
        }
        return;
    }
    for (uint64_t g = 0; g < units.groups; g++) {
        uint64_t before = 0;

        for (unsigned k = 0; k < 4; k++) {
            for (uint64_t j = 0; j < units.each[k]; j++) {
                uint64_t unit = g * units.each[k] + j + (k < 3 ? before : 0);

                pieces[n++] = (struct llm_piece){.source = k < 3 ? first : second, .first = unit * units.unit};
            }
            before += units.groups * units.each[k];
        }
    }
}

/* Two tensors of the file that are one matrix, or one with rows in another order: halves, parts of key heads, keys and
 * values of heads. `rule` is the first of its two rules. */
static enum vc_status add_matrix(struct llm_back *b, struct llm_plan *plan, size_t first,
                                 const struct vc_arch_name *rule, int64_t layer, const char *rest,
                                 const struct vc_arch_sizes *sizes)
{
    const struct vc_arch_name *other = other_of(b, rule);
    const struct vc_tensor *t = &b->source->tensors[first];
    bool pairs = rule->rows == VC_ROWS_HEAD_KEYS;
    struct llm_units units = vc_llm_units_of(sizes, rule);
    size_t second = first;
    char name[96];
    struct llm_tensor to = {
        .layer = layer, .from = t->dtype, .dtype = t->dtype, .step = 1, .scale = 1.0F, .n_dims = t->n_dims};
    struct llm_piece *pieces;

    if (other != NULL) {
        (void)snprintf(name, sizeof name, "blk.%lld%s", (long long)layer, strchr(other->to, '#') + 1);
        second = vc_model_find(b->source, name);
        VC_REFUSE_IF(second == VC_NO_TENSOR, b->ctx, VC_E_UNSUPPORTED, "%s: there is no '%s'", t->name, name);
    }
    VC_REFUSE_IF(!vc_dtype_is_float(t->dtype) || b->source->tensors[second].dtype != t->dtype || t->n_elems == 0 ||
                     b->source->tensors[second].n_dims != t->n_dims || t->n_dims > 3 ||
                     t->n_dims != (strcmp(rest, ".bias") == 0 ? 1 : strlen(rule->shape)),
                 b->ctx, VC_E_UNSUPPORTED,
                 "%s: expected floats of the form of what it is joined with (vcompress dequantize makes a GGUF file of "
                 "floats)",
                 t->name);
    for (unsigned d = 0; d < t->n_dims; d++) {
        to.shape[d] = t->shape[d];
    }
    to.row_elems = t->n_dims > 1 ? t->shape[t->n_dims - 1] : 1;
    if (rule->rows == VC_ROWS_QKV) {
        uint64_t each = units.each[0] + units.each[1] + units.each[2];

        VC_REFUSE_IF(
            t->shape[0] != each * units.groups * units.unit ||
                (other != NULL && b->source->tensors[second].shape[0] != units.each[3] * units.groups * units.unit),
            b->ctx, VC_E_UNSUPPORTED, "%s: its rows are not those of all heads", t->name);
        to.n_pieces = (size_t)(units.groups * (each + (other != NULL ? units.each[3] : 0)));
        to.piece_rows = units.unit;
        to.shape[0] = to.n_pieces * units.unit;
    } else if (pairs) {
        const struct vc_tensor *values = &b->source->tensors[second];

        VC_REFUSE_IF(values->shape[0] != t->shape[0] || values->shape[2] != t->shape[1], b->ctx, VC_E_UNSUPPORTED,
                     "%s: its form is not that of '%s'", t->name, values->name);
        to.n_pieces = (size_t)(2 * t->shape[0]);
        to.columns = to.first_rows = t->shape[2];
        to.piece_rows = t->shape[2] + values->shape[1];
        to.row_elems = to.shape[1] = t->shape[1];
        to.shape[0] = t->shape[0] * to.piece_rows;
        to.n_dims = 2;
    } else {
        VC_REFUSE_IF(memcmp(b->source->tensors[second].shape, t->shape, t->n_dims * sizeof *t->shape) != 0, b->ctx,
                     VC_E_UNSUPPORTED, "%s: its form is not that of '%s'", t->name, b->source->tensors[second].name);
        to.n_pieces = 2 * (size_t)(t->n_dims == 3 ? t->shape[0] : 1);
        to.piece_rows = t->shape[t->n_dims - 2];
        to.shape[t->n_dims - 2] *= 2;
        if (rule->form == VC_MATRIX_TURNED) {
            to.halves = true;
            to.columns = to.piece_rows = to.shape[1] = t->shape[2];
            to.shape[2] = to.row_elems = 2 * t->shape[1];
        }
    }
    VC_CALL_ALLOC(pieces = vc_arena_alloc(b->ctx, plan->arena, to.n_pieces * sizeof *pieces));
    join_pieces(b, sizes, rule, first, second, &to, pieces);
    to.pieces = pieces;
    VC_CALL_ALLOC(to.name = make_name(b, plan->arena, rule->from, layer, 0, rest));
    return push(b, plan, to, NULL);
}

/* Experts of gpt_oss: rows of the gate and of the other part take turns, and become columns; rows of blocks of MXFP4
 * stay rows, with codes and scales in tensors of their own. up: VC_NO_TENSOR for a matrix that stands alone.
 *
 *     file     gate [E, F, H], up [E, F, H]
 *     folder   gate_up_proj [E, H, 2 F]: column 0 is row 0 of the gate, column 1 row 0 of up, column 2 row 1 of the gate
 *     MXFP4    gate_up_proj_blocks u8 [E, 2 F, H / 32, 16], gate_up_proj_scales u8 [E, 2 F, H / 32]
 *
 * `pieces` take turns: gate of expert 0, up of expert 0, gate of expert 1, and so on. */
static enum vc_status add_joined(struct llm_back *b, struct llm_plan *plan, size_t gate, size_t up, int64_t layer,
                                 const struct vc_arch_sizes *sizes)
{
    const struct vc_tensor *t = &b->source->tensors[gate];
    const struct vc_tensor *other = &b->source->tensors[up != VC_NO_TENSOR ? up : gate];
    bool llama4 = strcmp(b->family->gguf, "llama4") == 0;
    const char *down = llama4 ? "layers.#.feed_forward.experts.down_proj" : "layers.#.mlp.experts.down_proj";
    const char *from = up != VC_NO_TENSOR ? "layers.#.mlp.experts.gate_up_proj" : down;
    size_t turns = up != VC_NO_TENSOR ? 2 : 1;
    bool bias = t->n_dims == 2;
    bool blocks = t->dtype == VC_DTYPE_MXFP4;
    uint64_t columns = t->n_dims == 3 ? t->shape[2] : 1;
    struct llm_tensor to = {.layer = layer,
                            .from = t->dtype,
                            .dtype = blocks ? VC_DTYPE_U8 : t->dtype,
                            .step = 1,
                            .scale = 1.0F,
                            .joined = turns == 2,
                            .n_dims = t->n_dims,
                            .n_pieces = turns * (size_t)sizes->experts};
    struct llm_piece *pieces;

    VC_CALL_ALLOC(to.name = make_name(b, plan->arena, from, layer, 0, ""));
    VC_REFUSE_IF((!bias && t->n_dims != 3) || t->shape[0] != sizes->experts || t->n_elems == 0 ||
                     other->dtype != t->dtype || other->n_dims != t->n_dims ||
                     memcmp(other->shape, t->shape, t->n_dims * sizeof *t->shape) != 0 ||
                     !(vc_dtype_is_float(t->dtype) || (blocks && !bias && columns % 32 == 0)),
                 b->ctx, VC_E_UNSUPPORTED,
                 "%s: expected matrices of all experts, of gate and up alike, in floats or MXFP4 (vcompress "
                 "dequantize makes a GGUF file of floats first)",
                 t->name);
    VC_CALL_ALLOC(pieces = vc_arena_alloc(b->ctx, plan->arena, to.n_pieces * sizeof *pieces));
    for (size_t i = 0; i < to.n_pieces; i++) {
        pieces[i] = (struct llm_piece){.source = i % turns == 0 ? gate : up, .first = i / turns * t->shape[1]};
    }
    to.pieces = pieces;
    to.shape[0] = sizes->experts;
    if (blocks) {
        to.shape[1] = to.piece_rows = turns * t->shape[1];
        to.shape[2] = to.row_elems = columns / 32;
        to.shape[3] = 16;
        to.part = LLM_SCALES;
        VC_CALL(push(b, plan, to, "_scales"));
        to.part = LLM_CODES;
        to.n_dims = 4;
        return push(b, plan, to, "_blocks");
    }
    to.shape[1] = to.piece_rows = to.columns = columns;
    to.shape[bias ? 1 : 2] = to.row_elems = turns * t->shape[1];
    return push(b, plan, to, bias ? "_bias" : "");
}

/* Whether the tensor is one of such experts; *up: what goes with a gate; *skip: it goes with one. A gate without "up"
 * is refused, because a file that has only one of them is no model of llama.cpp's. */
static enum vc_status find_joined(const struct llm_back *b, const char *name, int64_t *layer, size_t *up, bool *joined)
{
    int64_t expert;
    const char *rest;
    char other[96];

    *up = VC_NO_TENSOR;
    *joined = vc_is_one_of(b->family->gguf, "gpt-oss|llama4") &&
              vc_arch_name_fits("blk.#.ffn_down_exps.weight", name, layer, &expert, &rest);
    *joined = *joined || (strcmp(b->family->gguf, "gpt-oss") == 0 &&
                          (vc_arch_name_fits("blk.#.ffn_up_exps.", name, layer, &expert, &rest) ||
                           vc_arch_name_fits("blk.#.ffn_gate_exps.", name, layer, &expert, &rest)));
    if (*joined && strstr(name, "_gate_") != NULL) {
        (void)snprintf(other, sizeof other, "blk.%lld.ffn_up_exps.%.20s", (long long)*layer, rest);
        *up = vc_model_find(b->source, other);
        return *up != VC_NO_TENSOR ? VC_OK : vc_fail(b->ctx, VC_E_UNSUPPORTED, "%s: there is no '%s'", name, other);
    }
    return VC_OK;
}

/* Whether the rule is of models of another form: T5 with a gate, Falcon with two norms. */
static bool is_other_form(const struct llm_back *b, const char *from)
{
    bool gate = vc_model_find(b->source, "enc.blk.0.ffn_gate.weight") != VC_NO_TENSOR;
    bool norms = vc_model_find(b->source, "blk.0.attn_norm_2.weight") != VC_NO_TENSOR;

    return (vc_ends_in(from, ".wi") && gate) || (vc_ends_in(from, "h.#.input_layernorm") && norms);
}

/* The rule that leads to that name. NULL: none. */
static const struct vc_arch_name *find_rule(const struct llm_back *b, const struct vc_arch_name *rules,
                                            const char *name, int64_t *layer, const char **rest)
{
    for (; rules != NULL && rules->from != NULL; rules++) {
        int64_t expert;

        if (rules->to != NULL && !is_other_form(b, rules->from) && rules->rows != VC_ROWS_EVEN &&
            rules->rows != VC_ROWS_ODD && rules->form != VC_MATRIX_BLOCKS &&
            vc_arch_name_fits(rules->to, name, layer, &expert, rest) &&
            (vc_arch_name_is_whole(rules->to) || vc_ends_in(rules->from, "_ff_layernorm.weight")
                 ? (*rest)[0] == '\0'
                 : strcmp(*rest, ".weight") == 0 || strcmp(*rest, ".bias") == 0)) {
            return rules;
        }
    }
    return NULL;
}

/* Whether add_matrix plans what has that rule. */
static bool is_matrix(const struct llm_back *b, const struct vc_arch_name *rule)
{
    return other_of(b, rule) != NULL || rule->rows == VC_ROWS_QKV;
}

static bool goes_with_other(const struct llm_back *b, const struct vc_arch_name *rule)
{
    const struct vc_arch_name *other = other_of(b, rule);

    return other != NULL && other < rule;
}

/* Plans every tensor of the file. Experts of gpt_oss come first, because two of the file's tensors become one. A
 * family's own rules win over the rules of all families. A tensor without a rule is refused: transformers would ignore
 * it, and the model would compute something else. */
static enum vc_status plan_tensors(struct llm_back *b, const struct vc_arch_sizes *sizes, struct llm_plan *plan)
{
    for (size_t i = 0; i < b->source->n_tensors; i++) {
        const char *name = b->source->tensors[i].name;
        int64_t layer = -1;
        const char *rest;
        size_t up;
        /* True for tensors of gpt_oss, which add_joined plans. */
        bool joined;

        VC_CALL(find_joined(b, name, &layer, &up, &joined));
        if (joined && layer < (int64_t)sizes->layers) {
            if (strstr(name, "_up_") == NULL) {
                VC_CALL(add_joined(b, plan, i, up, layer, sizes));
            }
            continue;
        }
        const struct vc_arch_name *rule = find_rule(b, b->made->rules, name, &layer, &rest);
        rule = rule != NULL ? rule : find_rule(b, vc_arch_names, name, &layer, &rest);
        uint64_t layers = strncmp(name, "dec.", 4) == 0 ? sizes->decoder_layers : sizes->layers;
        /* Tensors without a place of their own in the folder. */
        if (strncmp(name, "rope_f", 6) == 0 || b->source->tensors[i].part_of != VC_NO_TENSOR) {
            continue; /* which config.json says: the way there makes it again; or numbers of NVFP4, with their blocks */
        }
        if (strcmp(b->family->gguf, "gemma3n") == 0 && layer >= (int64_t)sizes->owners && layer < (int64_t)layers &&
            vc_is_one_of(vc_llm_tail(name), "attn_k.weight|attn_v.weight|attn_k_norm.weight")) {
            continue; /* nothing reads them */
        }
        VC_REFUSE_IF(rule == NULL || layer >= (int64_t)layers, b->ctx, VC_E_UNSUPPORTED,
                     "%s: a %s of transformers has no such tensor", name, b->class_name);
        if (goes_with_other(b, rule)) {
            continue; /* with the first of the two */
        }
        if (is_matrix(b, rule)) {
            VC_CALL(add_matrix(b, plan, i, rule, layer, rest, sizes));
        } else {
            VC_CALL(add_tensors(b, plan, i, rule, layer, rest, sizes));
        }
    }
    return VC_OK;
}

/* Apertus: the lists of metadata as tensors, with an element for each layer; of beta and eps, which are no parameters,
 * without dimensions. */
static enum vc_status add_activation(struct llm_back *b, const struct vc_arch_sizes *sizes, struct llm_plan *plan)
{
    char name[64];

    for (size_t k = 0; k < 4 && strcmp(b->family->gguf, "apertus") == 0; k++) {
        (void)snprintf(name, sizeof name, "xielu.%s", vc_llm_xielu[k]);
        const json_t *list = vc_back_find(b, name);
        VC_REFUSE_IF(json_array_size(list) != sizes->layers, b->ctx, VC_E_UNSUPPORTED,
                     "metadata key '%s': expected a list with a number for each layer", name);
        (void)snprintf(name, sizeof name, "layers.#.mlp.act_fn.%s", vc_llm_xielu[k]);
        for (size_t i = 0; i < sizes->layers; i++) {
            float *value = vc_arena_alloc(b->ctx, plan->arena, sizeof *value);
            struct llm_tensor to = {.layer = (int64_t)i,
                                    .dtype = VC_DTYPE_F32,
                                    .from = VC_DTYPE_F32,
                                    .n_dims = k < 2,
                                    .shape = {1},
                                    .values = value};

            VC_CALL_ALLOC(value);
            VC_REFUSE_IF(!json_is_number(json_array_get(list, i)), b->ctx, VC_E_UNSUPPORTED,
                         "metadata key 'xielu.%s': entry %zu is no finite number", vc_llm_xielu[k], i);
            *value = (float)json_number_value(json_array_get(list, i));
            VC_CALL_ALLOC(to.name = make_name(b, plan->arena, name, to.layer, 0, ""));
            VC_CALL(push(b, plan, to, NULL));
        }
    }
    return VC_OK;
}

/* ---- the way there, to see that it leads to the file ---- */

/* The tensor of the file has these values. 1e-4 of the value, because converters computed the divisors in f32 and in
 * another order than this program. */
static enum vc_status check_values(const struct llm_back *b, size_t tensor, const struct llm_tensor *made)
{
    const struct vc_tensor *t = &b->source->tensors[tensor];
    bool same = t->dtype == VC_DTYPE_F32 && t->n_elems == made->piece_rows;

    for (uint64_t i = 0; same && i < t->n_elems; i++) {
        float x;

        VC_CALL(vc_llm_value_read(b->ctx, b->source, tensor, i, &x));
        same = fabsf(x - made->values[i]) <= 1e-4F * fabsf(made->values[i]);
    }
    return same ? VC_OK
                : vc_fail(b->ctx, VC_E_UNSUPPORTED, "%s: its values are not those of the rotary embeddings of a %s",
                          t->name, b->class_name);
}

/* Of rotary embeddings: those of the file are those that config.json asks for. A file without the tensor where
 * config.json asks for it is refused like one with it where config.json does not. */
static enum vc_status check_factors(const struct llm_back *b, const struct llm_plan *there)
{
    static const char *const names[] = {"rope_freqs.weight", "rope_factors_long.weight", "rope_factors_short.weight"};

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        bool made = false;

        for (size_t k = 0; k < there->n; k++) {
            if (strcmp(there->tensors[k].name, names[i]) == 0) {
                size_t tensor = vc_model_find(b->source, names[i]);

                made = true;
                if (tensor != VC_NO_TENSOR) {
                    VC_CALL(check_values(b, tensor, &there->tensors[k]));
                }
            }
        }
        VC_REFUSE_IF(made != (vc_model_find(b->source, names[i]) != VC_NO_TENSOR), b->ctx, VC_E_UNSUPPORTED,
                     "%s: a %s with these keys has %s such tensor", names[i], b->class_name, made ? "a" : "no");
    }
    return VC_OK;
}

/* Whether a value of the file (a) says what the way there made (b). Numbers may differ by 1e-6 of their size, because
 * config.json holds the shortest decimal text of an f32. A single number also stands for an array: llama.cpp's files
 * have a period where the way there writes a list with an entry for each layer. */
static bool is_same(const json_t *a, const json_t *b)
{
    double x = json_number_value(a);
    double y = json_number_value(b);

    return json_is_number(a) && json_is_number(b) ? fabs(x - y) <= 1e-6 * fabs(x)
           : json_is_array(b)                     ? json_is_number(a) || json_equal(a, b) /* windows: or their period */
                                                  : json_equal(a, b);
}

/* Every key of the architecture in the file is compared with the pairs that the way there makes. A key with another
 * value is refused: no config.json says the same. A key that the way there does not know goes into a note, at most 200
 * bytes of names. */
static enum vc_status check_pairs(struct llm_back *b, struct llm_pairs *pairs)
{
    size_t n = strlen(b->family->gguf);
    struct gguf file = {.n_shards = 0};
    json_t *there = NULL;
    uint64_t counted = 0;
    const char *key;
    const json_t *value;
    VC_SCOPED_TEXT struct vc_text others = {.ctx = b->ctx};
    enum vc_status status = VC_OK;

    VC_TRY(pairs->text.status);
    VC_TRY(vc_llm_pairs_read(b->ctx, pairs, b->source->path, &file, NULL));
    VC_TRY(vc_gguf_json(b->ctx, &file.shards[0], &there, &counted));
    json_object_foreach(b->pairs, key, value)
    {
        const json_t *made = json_object_get(there, key);

        if (strncmp(key, b->family->gguf, n) != 0 || key[n] != '.') {
            continue;
        }
        if (made == NULL && others.n < 200) {
            vc_text_add(&others, "%s%.80s", others.n != 0 ? ", " : "", key);
        } else if (made != NULL && !is_same(value, made)) {
            VC_TRY(vc_fail(b->ctx, VC_E_UNSUPPORTED,
                           "metadata key '%s': with this value there is no config.json of a %s that says the same", key,
                           b->class_name));
        }
    }
    VC_TRY(others.status);
    if (others.n != 0) {
        VC_TRY(vc_model_add_fact(b->ctx, b->model, VC_FACT_NOTE, "config.json has no place for %s", others.data));
    }
out:
    vc_json_tree_free(b->ctx, there, counted);
    if (file.shards != NULL) {
        vc_infile_close(b->ctx, file.shards[0].file);
    }
    vc_free(b->ctx, file.shards);
    vc_arena_release(b->ctx, &file.arena);
    return status;
}

/* Plans the tensors under their new names and lists them in the model; then plans the way there from this model, and
 * compares. `there` shares the arena of self, so only its list is freed. */
static enum vc_status make_tensors(struct llm_back *b, struct llm_folder *self)
{
    const struct llm_config config = {.root = b->config,
                                      .part = b->config,
                                      .arch = b->arch,
                                      .model_type = json_string_value(json_object_get(b->config, "model_type"))};
    struct llm_plan there = {.arena = &self->gguf.arena};
    struct llm_pairs pairs = {.architecture = b->family->gguf};
    struct vc_arch_sizes sizes;
    struct llm_rope rope;
    enum vc_status status;

    vc_text_init(&pairs.text, b->ctx);
    VC_TRY(vc_llm_sizes_read(b->ctx, &config, b->family, &sizes));
    VC_TRY(vc_llm_rope_read(b->ctx, &config, b->family, &rope));
    VC_TRY(vc_llm_check(b->ctx, &config, b->family, &sizes, &rope, NULL));
    sizes.rotated = vc_llm_rotated(&sizes, &rope);
    VC_TRY(plan_tensors(b, &sizes, &self->plan));
    VC_TRY(add_activation(b, &sizes, &self->plan));
    VC_TRY(vc_llm_folder_list(b->ctx, self, b->model));
    VC_TRY(attach_codes(b, &self->plan));
    VC_TRY(vc_llm_tensors_plan(b->ctx, b->model, &config, b->family, &sizes, true, b->model, &there));
    VC_TRY(vc_llm_keys_put(b->ctx, &config, b->family, &sizes, &rope, &there, &pairs));
    VC_TRY(vc_llm_rope_put(b->ctx, &config, b->family, &sizes, &rope, &there, NULL, &pairs));
    VC_TRY(check_factors(b, &there));
    VC_TRY(check_pairs(b, &pairs));
out:
    vc_text_release(&pairs.text);
    vc_llm_plan_release(b->ctx, &there);
    return status;
}

/* ---- the model ---- */

/* Reads VC_LLM_REST, the members of config.json that this program stored for the way back. Its "model_type" may choose
 * another family of the same architecture: of "mistral" llama.cpp makes "llama". The choice is taken only if both
 * families have a way back, and experts or none alike; other texts are ignored, because a file's metadata are not
 * ours. */
static enum vc_status read_rest(struct llm_back *b)
{
    const char *text = vc_back_text(b, VC_LLM_REST);

    if (text == NULL || b->family == NULL) {
        return VC_OK;
    }
    b->rest = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    const char *type = json_string_value(json_object_get(b->rest, "model_type"));
    const struct vc_arch_family *own = type != NULL ? vc_llm_family(type) : NULL;
    if (own != NULL && strcmp(own->gguf, b->family->gguf) == 0 &&
        vc_arch_has(own, VC_ARCH_EXPERTS) == vc_arch_has(b->family, VC_ARCH_EXPERTS)) {
        b->family = own;
    }
    return json_is_object(b->rest)
               ? VC_OK
               : vc_fail(b->ctx, VC_E_FORMAT, "metadata key '" VC_LLM_REST "': expected a JSON object");
}

static const char *end_of_class(const struct vc_arch_family *family)
{
    static const struct {
        const char *gguf, *end;
    } ends[] = {{"t5encoder", "EncoderModel"}, {"t5", "ForConditionalGeneration"}, {"gpt2", "LMHeadModel"}};

    if (vc_llm_is_encoder(family)) {
        return "Model";
    }
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        if (strcmp(family->gguf, ends[i].gguf) == 0) {
            return ends[i].end;
        }
    }
    return "ForCausalLM";
}

/* The row of the file's architecture. One general.architecture may stand for several families, told apart by experts
 * and by a sliding window: "llama" is Llama, with experts it is Mixtral. Fills b->arch and b->class_name
 * ("LlamaForCausalLM"). */
static enum vc_status find_family(struct llm_back *b)
{
    const char *architecture = vc_back_text(b, VC_GGUF_KEY_ARCHITECTURE);
    bool experts = false;
    bool slides = false;
    char list[1200];
    const char *key;
    const json_t *value;

    json_object_foreach(b->pairs, key, value)
    {
        experts = experts || (vc_ends_in(key, ".expert_count") && json_integer_value(value) != 0);
        slides = slides || vc_ends_in(key, ".attention.sliding_window");
    }
    b->family = vc_arch_family_of_gguf(architecture != NULL ? architecture : "", experts, slides);
    if (b->family != NULL && b->family->layer == NULL) {
        b->family = NULL;
    }
    if (b->family != NULL && strcmp(b->family->gguf, "granitemoe") == 0 &&
        vc_back_find(b, ".expert_shared_feed_forward_length") != NULL) {
        b->family = vc_llm_family("granitemoeshared");
    }
    if (b->family != NULL && vc_is_one_of(b->family->gguf, "glm4|glm4moe") &&
        vc_back_find(b, ".rope.dimension_sections") != NULL) {
        b->family = vc_llm_family(strcmp(b->family->gguf, "glm4") == 0 ? "glm4v" : "glm4v_moe");
    }
    if (b->family != NULL && strcmp(b->family->gguf, "bert") == 0 &&
        vc_model_find(b->source, "token_types.weight") == VC_NO_TENSOR) {
        b->family = vc_llm_family("distilbert");
    }
    VC_CALL(read_rest(b));
    const char *type = json_string_value(json_object_get(b->rest, "model_type"));
    if (b->family != NULL) {
        b->made = b->family->plain != NULL ? vc_llm_family(b->family->plain) : b->family;
        b->arch = vc_arch_family_class(b->made);
        (void)snprintf(b->class_name, sizeof b->class_name, "%s%s", b->made->class_name, end_of_class(b->family));
        if (type != NULL && vc_is_one_of(type, "mt5|umt5")) {
            (void)snprintf(b->class_name, sizeof b->class_name, "%s%s", type[0] == 'm' ? "MT5" : "UMT5",
                           end_of_class(b->family));
        }
    }
    VC_REFUSE_IF(b->family == NULL, b->ctx, VC_E_UNSUPPORTED,
                 "there is no way back from a GGUF model of the kind '%.60s'%s to a folder of transformers "
                 "(there is to %s); an output whose name ends in .safetensors keeps the tensors as they are",
                 architecture != NULL ? architecture : "", experts ? " with experts" : "",
                 vc_llm_family_list(list, sizeof list));
    return VC_OK;
}

/* A GGUF model whose first file is there: `verify` also opens split models without it. */
bool vc_gguf_back_fits(const struct vc_model *source)
{
    return source->format == &vc_format_gguf && ((const struct gguf *)source->self)->shards[0].file != NULL;
}

enum vc_status vc_gguf_back_open(struct vc_ctx *ctx, const struct vc_open_options *options,
                                 const struct vc_format *format, struct vc_model *source, struct vc_model *model)
{
    struct llm_folder *self = NULL;
    struct llm_back b = {.ctx = ctx, .source = source, .model = model};
    uint64_t counted = 0;
    enum vc_status status;

    /* The model gets the format of a folder, its parts in the order in which later ones need earlier ones: pairs,
     * family, config.json, tensors, then the files of the folder in memory. */
    vc_model_set_format(model, format);
    model->close_folder = vc_infolder_close;
    model->n_shards = source->n_shards > 1 ? source->n_shards : 1;
    VC_TRY(vc_llm_folder_make(ctx, source, model, &self));
    VC_TRY(vc_gguf_json(ctx, &((const struct gguf *)source->self)->shards[0], &b.pairs, &counted));
    VC_TRY(find_family(&b));
    VC_TRY(vc_back_config(&b));
    VC_TRY(make_tensors(&b, self));
    VC_TRY(vc_infolder_make(ctx, source->path, model->n_shards, &model->folder));
    vc_family_find(b.config, &self->family);
    model->family = &self->family;
    VC_TRY(vc_back_add_json(&b, json_incref(b.config), VC_HF_CONFIG_NAME));
    if (!options->gguf_no_vocab) {
        VC_TRY(vc_back_vocab(&b));
    }
out:
    vc_json_tree_free(ctx, b.pairs, counted);
    json_decref(b.config);
    json_decref(b.rest);
    return status;
}
