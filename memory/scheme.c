/* scheme.c - how many bytes a weight takes under the names that schemes have: codes, and what stands beside them.
 *
 *     int4-g128    of [512, 4096]:  n / 2 bytes of codes, and 2 bytes for each of 512 * 32 groups
 *     nf4-dq                        n / 2, a byte for each 64 weights, 4 for each 256 of these, 4 for the mean
 *     Q4_K_M                        each tensor by the rules of the mixture, in blocks */
#include <string.h>
#include <strings.h>

#include "core/base/checked.h"
#include "core/model/code_schemes.h"
#include "core/model/names.h"
#include "memory/scheme.h"

/* Bytes of a matrix of r rows and c columns, n = r * c weights, in groups of g columns:
 *
 *     code_bits * n / 8  +  group_bits / 8 for each group of each row  +  row for each row
 *                        +  column for each column  +  tensor */
struct scheme_row {
    const char *name;
    unsigned code_bits;
    unsigned group_bits;
    unsigned row, column, tensor;
    unsigned outer; /* scales of groups that share an f32 */
    bool flat;      /* groups of the whole weight as one line (bitsandbytes) */
    bool grouped;   /* the name ends in -gN; without that end the group is the usual one of the scheme of codes */
    bool all;       /* embeddings, the output layer, and what has one dimension, too */
    uint8_t made;   /* by quantize: one more than its enum vc_target; 0: by other programs alone */
    bool one;       /* of these: with one scale, VC_GRANULARITY_TENSOR */
};
#define MADE(NAME) .made = VC_TARGET_##NAME + 1

/* Names end in -gN where groups have any size. Zero points of awq and gptq take 4 bits a group, those of hqq 16. */
static const struct scheme_row rows[] = {
    {.name = "int8", .code_bits = 8, .row = 4, MADE(INT8)},
    {.name = "int8-tensor", .code_bits = 8, .tensor = 4, .one = true, MADE(INT8)},
    {.name = "int8-gN", .code_bits = 8, .group_bits = 32, .grouped = true, MADE(INT8)},
#define INTS(NAME, word, option, bits, low, high) \
    {.name = word "-gN", .code_bits = (bits), .group_bits = 16, .grouped = true, MADE(NAME)},
#include "core/model/code_schemes.inc"
    {.name = "awq-gN", .code_bits = 4, .group_bits = 16 + 4, .grouped = true},
    {.name = "gptq-gN", .code_bits = 4, .group_bits = 16 + 4, .column = 4, .grouped = true},
    {.name = "hqq-gN", .code_bits = 4, .group_bits = 16 + 16, .grouped = true},
#define TABLE(NAME, word) {.name = (word), .code_bits = 4, .group_bits = 32, .flat = true, MADE(NAME)},
#include "core/model/code_schemes.inc"
    /* scales as 8-bit codes, with an f32 for each 256 of them, and their mean */
    {.name = "nf4-dq", .code_bits = 4, .group_bits = 8, .tensor = 4, .outer = 256, .flat = true, MADE(NF4)},
    {.name = "fp8", .code_bits = 8, .tensor = 4, .one = true, MADE(FP8)},
    {.name = "fp8-channel", .code_bits = 8, .row = 4, MADE(FP8)},
    {.name = "mxfp8", .code_bits = 8, .group_bits = 8, MADE(MXFP8)},
    {.name = "mxfp4", .code_bits = 4, .group_bits = 8, MADE(MXFP4)},
    {.name = "nvfp4", .code_bits = 4, .group_bits = 8, .tensor = 4, MADE(NVFP4)},
    {.name = "f8_e4m3", .code_bits = 8, .all = true, MADE(F8_E4M3)}, /* floats, no codes */
    {.name = "f8_e5m2", .code_bits = 8, .all = true, MADE(F8_E5M2)},
    /* half of the values, and two bits for the place of each */
    {.name = "2:4", .code_bits = 9},
    {.name = "8bit", .code_bits = 8, .all = true},
    {.name = "4bit", .code_bits = 4, .all = true},
};
#define N_ROWS (sizeof rows / sizeof rows[0])

/* GGUF's types, of all matrices. */
static const char *const gguf[] = {"q4_0",  "q4_1",    "q5_0",  "q5_1",   "q8_0",   "q2_k",    "q3_k",
                                   "q4_k",  "q5_k",    "q6_k",  "iq1_s",  "iq1_m",  "iq2_xxs", "iq2_xs",
                                   "iq2_s", "iq3_xxs", "iq3_s", "iq4_nl", "iq4_xs", "tq1_0",   "tq2_0"};
#define N_GGUF (sizeof gguf / sizeof gguf[0])

#define MOST_GROUP 1000000U

/* Whether the name is a block type. */
static bool is_gguf(const char *name)
{
    for (size_t k = 0; k < N_GGUF; k++) {
        if (strcasecmp(gguf[k], name) == 0) {
            return true;
        }
    }
    return false;
}

/* The scheme of codes that a row is about, "nf4" of "nf4-dq": how many weights share a scale. */
static unsigned usual_group(const struct scheme_row *row)
{
    char name[16] = "";

    memcpy(name, row->name, (size_t)vc_min_u64(strcspn(row->name, "-"), sizeof name - 1));
    return row->group_bits == 0 ? 0 : (unsigned)vc_code_usual_group(vc_code_scheme_named(name));
}

/* Mixtures of types by the names of llama-quantize: "Q2_K", whose tensors have several types. Their other names are
 * types' here: "Q4_K", which is Q4_K_M there. */
static const struct vc_mixture *mixture_named(const char *name)
{
    const struct vc_mixture *mixture = vc_mixture_of_name(name);

    return mixture != NULL && strcasecmp(mixture->name, name) == 0 ? mixture : NULL;
}

/* Rows first, then types of blocks, then mixtures that are not called as a type is. */
const char *vc_weight_scheme_name(size_t index)
{
    if (index < N_ROWS) {
        return rows[index].name;
    }
    index -= N_ROWS;
    if (index < N_GGUF) {
        return gguf[index];
    }
    index -= N_GGUF;
    for (size_t k = 0; vc_mixture_at(k) != NULL; k++) {
        if (!is_gguf(vc_mixture_at(k)->name) && index-- == 0) {
            return vc_mixture_at(k)->name;
        }
    }
    return NULL;
}

/* "int4-g128" is the row "int4-gN" with groups of 128. */
static bool is_grouped(const struct scheme_row *row, const char *name, unsigned *group)
{
    size_t n = strlen(row->name) - 1;
    uint64_t size = 0;

    if (strncmp(row->name, name, n - 2) == 0 && name[n - 2] == '\0') {
        return *group != 0; /* "int4", whose usual group is known */
    }
    if (strncmp(row->name, name, n) != 0 || name[n] == '\0' || name[n] == '0') {
        return false;
    }
    for (const char *c = name + n; *c != '\0'; c++) {
        if (*c < '0' || *c > '9' || (size = size * 10 + (uint64_t)(*c - '0')) > MOST_GROUP) {
            return false;
        }
    }
    *group = (unsigned)size;
    return true;
}

/* Types of blocks and mixtures are found in either case of letters; a type that is a mixture's name, too, is the
 * mixture. */
bool vc_scheme_find(const char *name, struct vc_scheme_layout *out)
{
    *out = (struct vc_scheme_layout){.dtype = VC_DTYPE_NONE, .all = true};
    out->mixture = is_gguf(name) ? mixture_named(name) : NULL;
    if (out->mixture != NULL) {
        out->dtype = out->mixture->base;
        return true;
    }
    if (is_gguf(name)) {
        char small[16] = "";

        for (size_t k = 0; k < sizeof small - 1 && name[k] != '\0'; k++) {
            small[k] = name[k] >= 'A' && name[k] <= 'Z' ? (char)(name[k] | 0x20) : name[k];
        }
        out->dtype = vc_dtype_from_name(small);
        return out->dtype != VC_DTYPE_NONE;
    }
    for (size_t k = 0; k < N_ROWS; k++) {
        unsigned group = usual_group(&rows[k]);

        if (rows[k].grouped ? is_grouped(&rows[k], name, &group) : strcmp(rows[k].name, name) == 0) {
            out->row = &rows[k];
            out->group = group;
            out->all = rows[k].all;
            out->vectors = rows[k].all;
            return true;
        }
    }
    out->mixture = mixture_named(name); /* behind the rows: nvfp4 is codes, NVFP4 the mixture */
    out->dtype = out->mixture != NULL ? out->mixture->base : VC_DTYPE_NONE;
    return out->mixture != NULL;
}

/* A type of blocks is the base type of some mixture, alone (--pure). */
bool vc_scheme_quantize(const char *name, struct vc_quantize_options *out)
{
    struct vc_scheme_layout layout;
    const struct vc_mixture *mixture;

    vc_quantize_defaults(out);
    if (!vc_scheme_find(name, &layout) || (layout.row != NULL && layout.row->made == 0)) {
        return false;
    }
    if (layout.row != NULL) {
        out->target = (enum vc_target)(layout.row->made - 1);
        out->double_quant = layout.row->outer != 0;
        out->granularity_given = layout.row->one || (layout.row->grouped && layout.group != usual_group(layout.row));
        if (out->granularity_given) {
            out->granularity = layout.row->one ? VC_GRANULARITY_TENSOR : VC_GRANULARITY_GROUP;
            out->group_size = layout.group;
        }
        return true;
    }
    mixture = layout.mixture;
    for (size_t k = 0; mixture == NULL && vc_mixture_at(k) != NULL; k++) {
        mixture = vc_mixture_at(k)->base == layout.dtype ? vc_mixture_at(k) : NULL;
    }
    out->target = VC_TARGET_GGUF;
    out->gguf = mixture != NULL ? mixture->name : NULL;
    out->pure = layout.mixture == NULL;
    return mixture != NULL;
}

/* ---- mixtures ---- */

/* The first number among the words of a name: "blk.7.attn_v.weight" is of layer 7. */
uint32_t vc_scheme_layer(const char *tensor)
{
    for (const char *word = tensor; word != NULL; word = strchr(word, '.') != NULL ? strchr(word, '.') + 1 : NULL) {
        size_t digits = strspn(word, "0123456789");

        if (digits != 0 && digits < 7 && (word[digits] == '.' || word[digits] == '\0')) {
            uint32_t layer = 0;

            for (size_t k = 0; k < digits; k++) {
                layer = layer * 10 + (uint32_t)(word[k] - '0');
            }
            return layer;
        }
    }
    return UINT32_MAX;
}

static bool has_one_of(const char *tensor, const char *const *words, size_t n)
{
    for (size_t k = 0; k < n; k++) {
        if (strstr(tensor, words[k]) != NULL) {
            return true;
        }
    }
    return false;
}

/* What a tensor is to a mixture, by the names of transformers and of llama.cpp. */
static enum vc_mixture_kind kind_of(const char *tensor, bool in_layer)
{
    static const char *const values[] = {".v_proj.", ".attn_v.", ".wv.", ".qkv_proj.", ".attn_qkv.", ".c_attn."};
    static const char *const last[] = {".down_proj", ".ffn_down", ".w2.", ".fc2.", ".mlp.c_proj."};
    static const char *const out[] = {".o_proj.", ".attn_output.", ".wo.", ".attn.c_proj.", ".attention.dense."};

    if (!in_layer) {
        bool embeds = vc_name_is_embedding_table(tensor) || strcmp(tensor, "token_embd.weight") == 0;

        return vc_name_is_head(tensor) ? VC_MIXTURE_OUTPUT : embeds ? VC_MIXTURE_EMBEDDING : VC_MIXTURE_OTHER;
    }
    if (has_one_of(tensor, values, sizeof values / sizeof *values)) {
        return VC_MIXTURE_VALUES;
    }
    if (has_one_of(tensor, last, sizeof last / sizeof *last)) {
        return VC_MIXTURE_DOWN;
    }
    return has_one_of(tensor, out, sizeof out / sizeof *out) ? VC_MIXTURE_ATTENTION_OUTPUT : VC_MIXTURE_OTHER;
}

/* Mixtures ask for the kind of the tensor and its layer. Routers stay f32. Names are those of GGUF or of
 * transformers. */
struct vc_scheme_layout vc_scheme_of_tensor(const struct vc_scheme_layout *layout, const char *tensor, unsigned n_dims,
                                            const uint64_t *shape, uint32_t n_layers, bool tied)
{
    static const char *const routers[] = {".ffn_gate_inp.", ".block_sparse_moe.gate.", ".mlp.gate."}; /* stay floats */
    struct vc_scheme_layout own = *layout;
    uint32_t layer = vc_scheme_layer(tensor);
    const struct vc_mixture_rules rules = {.mixture = layout->mixture,
                                           .tied = tied,
                                           .is_70b = n_layers == 80,
                                           .n_values = n_layers,
                                           .n_layers = n_layers,
                                           .n_experts = 1};
    const struct vc_mixture_tensor asked = {kind_of(tensor, layer != UINT32_MAX), layer == UINT32_MAX ? 0 : layer,
                                            layer == UINT32_MAX ? -1 : (int)layer, n_dims, shape};

    if (layout->row == NULL && n_dims >= 2 && has_one_of(tensor, routers, sizeof routers / sizeof *routers)) {
        own.dtype = VC_DTYPE_F32;
    } else if (layout->row == NULL && n_dims >= 2) {
        enum vc_dtype type = layout->mixture != NULL ? vc_mixture_rule(&rules, &asked) : layout->dtype;

        own.dtype = vc_mixture_whole_blocks(type, shape[n_dims - 1]);
    }
    return own;
}

/* ---- bytes ---- */

unsigned vc_scheme_vector_bytes(const struct vc_scheme_layout *layout)
{
    return layout->row == NULL ? 4 : 2;
}

/* *sum += a * b */
static bool add_product(uint64_t *sum, uint64_t a, uint64_t b)
{
    uint64_t product;

    return vc_mul_u64(a, b, &product) && vc_add_u64(*sum, product, sum);
}

/* Layouts of folders want groups that divide the rows; *none: no size does, so the tensor stays as it is. */
struct vc_scheme_layout vc_scheme_in_folder(const struct vc_scheme_layout *layout, uint64_t n_columns, bool *none)
{
    struct vc_scheme_layout own = *layout;

    *none = false;
    if (layout->row != NULL && layout->row->grouped) {
        own.group = (unsigned)vc_code_whole_group(layout->group, n_columns);
        *none = own.group == 0;
    }
    return own;
}

/* UINT64_MAX: the size overflows. */
uint64_t vc_scheme_bytes(const struct vc_scheme_layout *layout, uint64_t n_rows, uint64_t n_columns)
{
    const struct scheme_row *row = layout->row;
    uint64_t n;
    uint64_t groups = 0;
    uint64_t bits = 0;
    uint64_t bytes = 0;

    if (!vc_mul_u64(n_rows, n_columns, &n)) {
        return UINT64_MAX;
    }
    if (row == NULL) {
        uint64_t line = vc_dtype_bytes(layout->dtype, n_columns);

        return line != UINT64_MAX && add_product(&bytes, line, n_rows) ? bytes : UINT64_MAX;
    }
    if (layout->group != 0) {
        groups = row->flat ? vc_ceil_div_u64(n, layout->group) : n_rows * vc_ceil_div_u64(n_columns, layout->group);
    }
    if (!add_product(&bits, n, row->code_bits)) {
        return UINT64_MAX;
    }
    bytes = vc_ceil_div_u64(bits, 8);
    bits = 0;
    if (!add_product(&bits, groups, row->group_bits) || !vc_add_u64(bytes, vc_ceil_div_u64(bits, 8), &bytes) ||
        !add_product(&bytes, n_rows, row->row) || !add_product(&bytes, n_columns, row->column) ||
        !vc_add_u64(bytes, row->tensor, &bytes)) {
        return UINT64_MAX;
    }
    if (row->outer != 0) {
        bytes += 4 * vc_ceil_div_u64(groups, row->outer);
    }
    return bytes;
}

uint64_t vc_weight_scheme_bytes(const char *scheme, const uint64_t *shape, unsigned n_dims)
{
    struct vc_scheme_layout layout;
    uint64_t n_rows = 1;
    uint64_t n_columns = 1;

    if (scheme == NULL || !vc_scheme_find(scheme, &layout)) {
        return UINT64_MAX;
    }
    for (unsigned k = 0; k < n_dims; k++) {
        uint64_t *side = k + 1 == n_dims || (k != 0 && n_dims > 3) ? &n_columns : &n_rows;

        if (!vc_mul_u64(*side, shape[k], side)) {
            return UINT64_MAX;
        }
    }
    if (layout.row == NULL && n_dims >= 2) {
        layout.dtype = vc_mixture_whole_blocks(layout.dtype, shape[n_dims - 1]);
    }
    if (n_dims < 2 && !layout.vectors) {
        unsigned width = vc_scheme_vector_bytes(&layout);

        return n_columns > UINT64_MAX / width ? UINT64_MAX : width * n_columns;
    }
    return vc_scheme_bytes(&layout, n_rows, n_columns);
}
