/* gguf_given.c - values of metadata as a caller writes them, as the bytes of a GGUF pair.
 *
 *     general.name=Tiny               the kind that the pair has, or a text
 *     llama.context_length=u32:8192   a kind of GGUF: u8 i8 u16 i16 u32 i32 u64 i64 f32 f64 bool str
 *     llama.rope.freq_base=float:1e6  as llama.cpp spells u32 and f32: int, float */
#include <errno.h>
#include <math.h>

#include "formats/gguf/gguf_files.h"

static const struct {
    const char *word;
    uint32_t kind;
} words[] = {{"u8", GGUF_U8},     {"i8", GGUF_I8},      {"u16", GGUF_U16},      {"i16", GGUF_I16},
             {"u32", GGUF_U32},   {"i32", GGUF_I32},    {"u64", GGUF_U64},      {"i64", GGUF_I64},
             {"f32", GGUF_F32},   {"f64", GGUF_F64},    {"int", GGUF_U32},      {"float", GGUF_F32},
             {"bool", GGUF_BOOL}, {"str", GGUF_STRING}, {"string", GGUF_STRING}};

/* The kind that the value begins with, and where the rest of it is. */
static uint32_t read_kind(const char *value, uint32_t otherwise, const char **rest)
{
    const char *colon = strchr(value, ':');

    *rest = value;
    for (size_t i = 0; colon != NULL && i < sizeof words / sizeof words[0]; i++) {
        if (strlen(words[i].word) == (size_t)(colon - value) &&
            memcmp(words[i].word, value, (size_t)(colon - value)) == 0) {
            *rest = colon + 1;
            return words[i].kind;
        }
    }
    return otherwise;
}

static const char *word_of(uint32_t kind)
{
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (words[i].kind == kind) {
            return words[i].word;
        }
    }
    return "array";
}

/* A whole number that the kind holds, as its bytes. */
static bool read_whole(const char *text, uint32_t kind, uint64_t *bits)
{
    bool has_sign = kind == GGUF_I8 || kind == GGUF_I16 || kind == GGUF_I32 || kind == GGUF_I64;
    unsigned n_bits = 8 * (unsigned)vc_gguf_kind_bytes(kind);
    unsigned shift = 64 - n_bits;
    char *end = NULL;

    errno = 0;
    if (text[0] != '-' && (text[0] < '0' || text[0] > '9')) {
        return false;
    }
    if (has_sign) {
        int64_t whole = strtoll(text, &end, 10);
        *bits = (uint64_t)whole;
        return errno == 0 && *end == '\0' && whole >= INT64_MIN >> shift && whole <= INT64_MAX >> shift;
    }
    *bits = strtoull(text, &end, 10);
    return text[0] != '-' && errno == 0 && *end == '\0' && *bits <= UINT64_MAX >> shift;
}

/* A number of f32 or f64, as its bytes. */
static bool read_float(const char *text, uint32_t kind, uint64_t *bits)
{
    char *end = NULL;
    double value = strtod(text, &end);
    float single = (float)value;
    uint32_t low;

    if (end == text || *end != '\0' || !isfinite(value) || (kind == GGUF_F32 && !isfinite(single))) {
        return false;
    }
    if (kind == GGUF_F32) {
        memcpy(&low, &single, sizeof low);
        *bits = low;
    } else {
        memcpy(bits, &value, sizeof value);
    }
    return true;
}

static bool read_bool(const char *text, uint64_t *bits)
{
    *bits = strcmp(text, "true") == 0 || strcmp(text, "1") == 0;
    return *bits == 1 || strcmp(text, "false") == 0 || strcmp(text, "0") == 0;
}

enum vc_status vc_gguf_given_value(struct vc_ctx *ctx, const struct vc_metadata_entry *entry, uint32_t there,
                                   struct vc_text *to)
{
    const char *text;
    uint32_t kind = read_kind(entry->value, there != GGUF_KIND_COUNT ? there : GGUF_STRING, &text);
    uint64_t bits = 0;

    VC_REFUSE_IF(there == GGUF_ARRAY || kind == GGUF_ARRAY, ctx, VC_E_ARGUMENT,
                 "%s: '%.100s' is a list, which is not replaced", vc_option(ctx, "metadata"), entry->key);
    vc_text_add_le(to, kind, 4);
    if (kind == GGUF_STRING) {
        vc_text_add_le(to, strlen(text), 8);
        vc_text_add_bytes(to, text, strlen(text));
        return to->status;
    }
    bool right = kind == GGUF_BOOL                      ? read_bool(text, &bits)
                 : kind == GGUF_F32 || kind == GGUF_F64 ? read_float(text, kind, &bits)
                                                        : read_whole(text, kind, &bits);
    VC_REFUSE_IF(!right, ctx, VC_E_ARGUMENT, "%s: '%.100s' is no value of %s, which '%.100s' %s",
                 vc_option(ctx, "metadata"), text, word_of(kind), entry->key,
                 text == entry->value ? "has in the file" : "shall have");
    vc_text_add_le(to, bits, vc_gguf_kind_bytes(kind));
    return to->status;
}
