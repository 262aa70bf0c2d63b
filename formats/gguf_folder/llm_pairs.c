/* llm_pairs.c - metadata pairs as a GGUF file has them: u64 length and key, u32 kind, value (formats/gguf/gguf.h).
 *
 *     0c 00 00 00 00 00 00 00  "general.type"      u64 length, key
 *     08 00 00 00                                  u32 kind: 8 is a text
 *     05 00 00 00 00 00 00 00  "model"             u64 length, value
 *
 * A pair of an array has u32 kind of the elements and u64 number of them in place of the value; elements follow one by
 * one. Failures of memory stay in pairs->text.status, which the callers ask once. */
#include "formats/gguf_folder/llm_parts.h"

/* A key that begins with a point gets the architecture in front: ".block_count" is "qwen3.block_count". */
static void add_key(struct llm_pairs *pairs, const char *key, enum gguf_kind kind)
{
    size_t n = key[0] == '.' ? strlen(pairs->architecture) : 0;

    vc_text_add_le(&pairs->text, n + strlen(key), 8);
    vc_text_add_bytes(&pairs->text, pairs->architecture, n);
    vc_text_add_bytes(&pairs->text, key, strlen(key));
    vc_text_add_le(&pairs->text, kind, 4);
    pairs->n++;
}

void vc_llm_put_u32(struct llm_pairs *pairs, const char *key, uint64_t value)
{
    add_key(pairs, key, GGUF_U32);
    vc_text_add_le(&pairs->text, (uint32_t)value, 4);
}

void vc_llm_put_f32(struct llm_pairs *pairs, const char *key, double value)
{
    add_key(pairs, key, GGUF_F32);
    vc_llm_element_f32(pairs, (float)value);
}

void vc_llm_put_bool(struct llm_pairs *pairs, const char *key, bool value)
{
    add_key(pairs, key, GGUF_BOOL);
    vc_llm_element_u8(pairs, value);
}

void vc_llm_put_text(struct llm_pairs *pairs, const char *key, const char *value)
{
    add_key(pairs, key, GGUF_STRING);
    vc_llm_element_text(pairs, value, strlen(value));
}

void vc_llm_put_array(struct llm_pairs *pairs, const char *key, enum gguf_kind kind, uint64_t n)
{
    add_key(pairs, key, GGUF_ARRAY);
    vc_text_add_le(&pairs->text, kind, 4);
    vc_text_add_le(&pairs->text, n, 8);
}

void vc_llm_element_u32(struct llm_pairs *pairs, uint32_t value)
{
    vc_text_add_le(&pairs->text, value, 4);
}

void vc_llm_element_f32(struct llm_pairs *pairs, float value)
{
    uint32_t bits;

    memcpy(&bits, &value, sizeof bits);
    vc_text_add_le(&pairs->text, bits, 4);
}

void vc_llm_element_u8(struct llm_pairs *pairs, uint8_t value)
{
    vc_text_add_bytes(&pairs->text, (const char *)&value, 1);
}

void vc_llm_element_text(struct llm_pairs *pairs, const char *value, size_t n)
{
    vc_text_add_le(&pairs->text, n, 8);
    vc_text_add_bytes(&pairs->text, value, n);
}
