/* scheme.c - how many bytes a weight takes under the names that schemes have: codes, and what stands beside them. */
#include <string.h>

#include "core/base/checked.h"
#include "core/model/names.h"
#include "memory/scheme.h"

/* Bytes of a matrix of r rows and c columns, n = r * c weights, in groups of g columns:
 *
 *     code_bits * n / 8  +  group_bits / 8 for each group of each row  +  row for each row
 *                        +  column for each column  +  tensor */
struct scheme_row {
    const char *name;
    unsigned code_bits;
    unsigned group; /* weights that share a scale; 0: none, 1: see `grouped` */
    unsigned group_bits;
    unsigned row, column, tensor;
    unsigned outer; /* scales of groups that share an f32 */
    bool flat;      /* groups of the whole weight as one line (bitsandbytes) */
    bool grouped;   /* the name ends in -gN */
    bool all;       /* embeddings, the output layer, and what has one dimension, too */
};

static const struct scheme_row rows[] = {
    {.name = "int8", .code_bits = 8, .row = 4},
    {.name = "int8-tensor", .code_bits = 8, .tensor = 4},
    {.name = "int8-gN", .code_bits = 8, .group_bits = 32, .grouped = true},
    {.name = "int2-gN", .code_bits = 2, .group_bits = 16, .grouped = true},
    {.name = "int3-gN", .code_bits = 3, .group_bits = 16, .grouped = true},
    {.name = "int4-gN", .code_bits = 4, .group_bits = 16, .grouped = true},
    {.name = "int5-gN", .code_bits = 5, .group_bits = 16, .grouped = true},
    {.name = "int6-gN", .code_bits = 6, .group_bits = 16, .grouped = true},
    {.name = "awq-gN", .code_bits = 4, .group_bits = 16 + 4, .grouped = true},
    {.name = "gptq-gN", .code_bits = 4, .group_bits = 16 + 4, .column = 4, .grouped = true},
    {.name = "hqq-gN", .code_bits = 4, .group_bits = 16 + 16, .grouped = true},
    {.name = "nf4", .code_bits = 4, .group = 64, .group_bits = 32, .flat = true},
    {.name = "fp4", .code_bits = 4, .group = 64, .group_bits = 32, .flat = true},
    /* scales as 8-bit codes, with an f32 for each 256 of them, and their mean */
    {.name = "nf4-dq", .code_bits = 4, .group = 64, .group_bits = 8, .tensor = 4, .outer = 256, .flat = true},
    {.name = "fp8", .code_bits = 8, .tensor = 4},
    {.name = "fp8-channel", .code_bits = 8, .row = 4},
    {.name = "mxfp8", .code_bits = 8, .group = 32, .group_bits = 8},
    {.name = "mxfp4", .code_bits = 4, .group = 32, .group_bits = 8},
    {.name = "nvfp4", .code_bits = 4, .group = 16, .group_bits = 8, .tensor = 4},
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

/* Files of llama.cpp with several types, and the type of most tensors. */
static const struct {
    const char *name;
    enum vc_dtype most;
} mixtures[] = {{"q4_k_m", VC_DTYPE_Q4_K}, {"q5_k_m", VC_DTYPE_Q5_K}};
#define N_MIXTURES (sizeof mixtures / sizeof mixtures[0])

#define MOST_GROUP 1000000U

const char *vc_weight_scheme_name(size_t index)
{
    if (index < N_ROWS) {
        return rows[index].name;
    }
    index -= N_ROWS;
    return index < N_GGUF ? gguf[index] : index - N_GGUF < N_MIXTURES ? mixtures[index - N_GGUF].name : NULL;
}

/* "int4-g128" is the row "int4-gN" with groups of 128. */
static bool is_grouped(const struct scheme_row *row, const char *name, unsigned *group)
{
    size_t n = strlen(row->name) - 1;
    uint64_t size = 0;

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

bool vc_scheme_find(const char *name, struct vc_scheme_layout *out)
{
    *out = (struct vc_scheme_layout){.dtype = VC_DTYPE_NONE};
    for (size_t k = 0; k < N_GGUF; k++) {
        if (strcmp(gguf[k], name) == 0) {
            out->dtype = vc_dtype_from_name(name);
            out->all = true;
            return out->dtype != VC_DTYPE_NONE;
        }
    }
    for (size_t k = 0; k < N_MIXTURES; k++) {
        if (strcmp(mixtures[k].name, name) == 0) {
            out->dtype = mixtures[k].most;
            out->all = out->mixed = true;
            return true;
        }
    }
    for (size_t k = 0; k < N_ROWS; k++) {
        unsigned group = rows[k].group;

        if (rows[k].grouped ? is_grouped(&rows[k], name, &group) : strcmp(rows[k].name, name) == 0) {
            out->row = &rows[k];
            out->group = group;
            out->all = rows[k].all;
            out->vectors = rows[k].all;
            return true;
        }
    }
    return false;
}

/* ---- mixtures ---- */

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

/* llama.cpp's rules: the output layer is q6_k, and so are, in the first and the last eighth of the layers and in every
 * third of the others, the products of values and the last one of the MLP. Of models with 80 layers (70B) the other
 * values are q5_k. Queries, keys and values in one product count as values. (quantize/mixture.h has the rules for
 * files, by llama.cpp's own names.) */
struct vc_scheme_layout vc_scheme_of_tensor(const struct vc_scheme_layout *layout, const char *tensor,
                                            uint32_t n_layers)
{
    static const char *const values[] = {".v_proj.", ".attn_v.", ".wv.", ".qkv_proj.", ".attn_qkv.", ".c_attn."};
    static const char *const last[] = {".down_proj", ".ffn_down", ".w2.", ".fc2.", ".mlp.c_proj."};
    struct vc_scheme_layout own = *layout;
    uint32_t layer = vc_scheme_layer(tensor);
    uint32_t eighth = n_layers / 8;
    bool more = layer < eighth || layer >= 7 * n_layers / 8 || (layer - eighth) % 3 == 2;

    if (!layout->mixed) {
        return own;
    }
    own.mixed = false;
    if (layer == UINT32_MAX) {
        own.dtype = vc_name_is_head(tensor) ? VC_DTYPE_Q6_K : own.dtype;
    } else if (has_one_of(tensor, values, 6)) {
        own.dtype = more ? VC_DTYPE_Q6_K : n_layers == 80 ? VC_DTYPE_Q5_K : own.dtype;
    } else if (has_one_of(tensor, last, 5)) {
        own.dtype = more ? VC_DTYPE_Q6_K : own.dtype;
    }
    return own;
}

/* ---- bytes ---- */

/* *sum += a * b */
static bool add_product(uint64_t *sum, uint64_t a, uint64_t b)
{
    uint64_t product;

    return vc_mul_u64(a, b, &product) && vc_add_u64(*sum, product, sum);
}

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
    if (n_dims < 2 && !layout.vectors) {
        return n_columns > UINT64_MAX / 2 ? UINT64_MAX : 2 * n_columns;
    }
    return vc_scheme_bytes(&layout, n_rows, n_columns);
}
