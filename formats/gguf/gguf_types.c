/* gguf_types.c - what the numbers of the format mean: types of elements, kinds of metadata, general.file_type. */
#include <strings.h>

#include "formats/gguf/gguf.h"

/* ---- types of elements ---- */

/* Element types by their numbers in the format. Types that the format has given up (4, 5, 31-33, 36-38) have no entry,
 * which makes them 0, VC_DTYPE_RAW: "not known". */
static const unsigned char dtypes[] = {
    [0] = VC_DTYPE_F32,      [1] = VC_DTYPE_F16,     [2] = VC_DTYPE_Q4_0,     [3] = VC_DTYPE_Q4_1,
    [6] = VC_DTYPE_Q5_0,     [7] = VC_DTYPE_Q5_1,    [8] = VC_DTYPE_Q8_0,     [9] = VC_DTYPE_Q8_1,
    [10] = VC_DTYPE_Q2_K,    [11] = VC_DTYPE_Q3_K,   [12] = VC_DTYPE_Q4_K,    [13] = VC_DTYPE_Q5_K,
    [14] = VC_DTYPE_Q6_K,    [15] = VC_DTYPE_Q8_K,   [16] = VC_DTYPE_IQ2_XXS, [17] = VC_DTYPE_IQ2_XS,
    [18] = VC_DTYPE_IQ3_XXS, [19] = VC_DTYPE_IQ1_S,  [20] = VC_DTYPE_IQ4_NL,  [21] = VC_DTYPE_IQ3_S,
    [22] = VC_DTYPE_IQ2_S,   [23] = VC_DTYPE_IQ4_XS, [24] = VC_DTYPE_I8,      [25] = VC_DTYPE_I16,
    [26] = VC_DTYPE_I32,     [27] = VC_DTYPE_I64,    [28] = VC_DTYPE_F64,     [29] = VC_DTYPE_IQ1_M,
    [30] = VC_DTYPE_BF16,    [34] = VC_DTYPE_TQ1_0,  [35] = VC_DTYPE_TQ2_0,   [39] = VC_DTYPE_MXFP4,
    [40] = VC_DTYPE_NVFP4,   [41] = VC_DTYPE_Q1_0,   [42] = VC_DTYPE_Q2_0,
};

enum vc_dtype vc_gguf_dtype(uint32_t type)
{
    return type < sizeof dtypes && dtypes[type] != VC_DTYPE_RAW ? (enum vc_dtype)dtypes[type] : VC_DTYPE_NONE;
}

/* The table is short, and this is asked once per tensor. */
bool vc_gguf_type(enum vc_dtype dtype, uint32_t *type)
{
    for (*type = 0; *type < sizeof dtypes; ++*type) {
        if (dtypes[*type] == dtype && dtype != VC_DTYPE_RAW) {
            return true;
        }
    }
    return false;
}

/* ---- kinds of metadata ---- */

/* Bytes of a number of that kind; 0: it is a string, an array or no kind at all. */
size_t vc_gguf_kind_bytes(uint32_t kind)
{
    static const unsigned char bytes[GGUF_KIND_COUNT] = {
        [GGUF_U8] = 1,  [GGUF_I8] = 1,   [GGUF_U16] = 2, [GGUF_I16] = 2, [GGUF_U32] = 4, [GGUF_I32] = 4,
        [GGUF_F32] = 4, [GGUF_BOOL] = 1, [GGUF_U64] = 8, [GGUF_I64] = 8, [GGUF_F64] = 8};

    return kind < GGUF_KIND_COUNT ? bytes[kind] : 0;
}

int64_t vc_gguf_integer(uint32_t kind, const unsigned char bytes[8])
{
    switch (kind) {
    case GGUF_I8:
        return (int8_t)bytes[0];
    case GGUF_I16:
        return (int16_t)vc_le16(bytes);
    case GGUF_I32:
        return (int32_t)vc_le32(bytes);
    default:
        return (int64_t)vc_le64(bytes);
    }
}

/* ---- general.file_type ---- */

/* The names that llama.cpp gives to the numbers of general.file_type. */
static const char *const file_types[] = {
    [0] = "F32",     [1] = "F16",     [2] = "Q4_0",       [3] = "Q4_1",    [7] = "Q8_0",     [8] = "Q5_0",
    [9] = "Q5_1",    [10] = "Q2_K",   [11] = "Q3_K_S",    [12] = "Q3_K_M", [13] = "Q3_K_L",  [14] = "Q4_K_S",
    [15] = "Q4_K_M", [16] = "Q5_K_S", [17] = "Q5_K_M",    [18] = "Q6_K",   [19] = "IQ2_XXS", [20] = "IQ2_XS",
    [21] = "Q2_K_S", [22] = "IQ3_XS", [23] = "IQ3_XXS",   [24] = "IQ1_S",  [25] = "IQ4_NL",  [26] = "IQ3_S",
    [27] = "IQ3_M",  [28] = "IQ2_S",  [29] = "IQ2_M",     [30] = "IQ4_XS", [31] = "IQ1_M",   [32] = "BF16",
    [36] = "TQ1_0",  [37] = "TQ2_0",  [38] = "MXFP4_MOE", [39] = "NVFP4",  [40] = "Q1_0",    [41] = "Q2_0",
};

const char *vc_gguf_file_type_name(uint64_t number)
{
    return number < sizeof file_types / sizeof file_types[0] ? file_types[number] : NULL;
}

bool vc_gguf_file_type(const char *name, uint32_t *number)
{
    size_t i = 0;

    while (i < sizeof file_types / sizeof file_types[0] &&
           (file_types[i] == NULL || strcmp(file_types[i], name) != 0)) {
        i++;
    }
    *number = (uint32_t)i;
    return i < sizeof file_types / sizeof file_types[0];
}

bool vc_gguf_file_type_fits(const struct vc_model *model, uint64_t number)
{
    const char *name = vc_gguf_file_type_name(number);
    bool fits = model->n_tensors == 0;

    for (size_t i = 0; name != NULL && i < model->n_tensors && !fits; i++) {
        const char *type = vc_dtype_name(model->tensors[i].dtype);

        fits = strncasecmp(name, type, name[0] == 'I' ? 3 : strlen(type)) == 0; /* IQ3_M: iq3_s */
    }
    return fits;
}
