/* llm_builder.c - see llm_builder.h. */
#include "llm_builder.h"

#include <stdio.h>
#include <string.h>

#include "folder_builder.h"

struct row {
    const char *name;
    unsigned rows, columns; /* columns 0: one dimension */
};

static const struct row tensors[] = {{"model.embed_tokens.weight", 8, 4},
                                     {"model.norm.weight", 4, 0},
                                     {"model.layers.0.input_layernorm.weight", 4, 0},
                                     {"model.layers.0.post_attention_layernorm.weight", 4, 0},
                                     {"model.layers.0.self_attn.q_proj.weight", 4, 4},
                                     {"model.layers.0.self_attn.k_proj.weight", 2, 4},
                                     {"model.layers.0.self_attn.k_proj.bias", 2, 0},
                                     {"model.layers.0.self_attn.v_proj.weight", 2, 4},
                                     {"model.layers.0.self_attn.o_proj.weight", 4, 4},
                                     {"model.layers.0.mlp.gate_proj.weight", 6, 4},
                                     {"model.layers.0.mlp.up_proj.weight", 6, 4},
                                     {"model.layers.0.mlp.down_proj.weight", 4, 6}};

/* A packed layer of Phi-3. */
static const struct row packed[] = {{"model.embed_tokens.weight", 5, 4},
                                    {"model.layers.0.input_layernorm.weight", 4, 0},
                                    {"model.layers.0.self_attn.qkv_proj.weight", 8, 4},
                                    {"model.layers.0.self_attn.o_proj.weight", 4, 4},
                                    {"model.layers.0.post_attention_layernorm.weight", 4, 0},
                                    {"model.layers.0.mlp.gate_up_proj.weight", 6, 4},
                                    {"model.layers.0.mlp.down_proj.weight", 4, 3},
                                    {"model.norm.weight", 4, 0},
                                    {"lm_head.weight", 5, 4}};

/* The tensors, with numbers that count up through all of them. */
static void fill(const char *path, const struct row *rows, size_t n_rows)
{
    char header[4096] = "{";
    struct bytes b = {NULL, 0, 0};
    unsigned at = 0;
    size_t n = 1;

    for (size_t i = 0; i < n_rows; i++) {
        unsigned columns = rows[i].columns == 0 ? 1 : rows[i].columns;
        unsigned end = at + 4 * rows[i].rows * columns;
        char shape[32];

        (void)snprintf(shape, sizeof shape, rows[i].columns == 0 ? "%u" : "%u,%u", rows[i].rows, columns);
        n += (size_t)snprintf(header + n, sizeof header - n,
                              "%s\"%s\":{\"dtype\":\"F32\",\"shape\":[%s],\"data_offsets\":[%u,%u]}", i == 0 ? "" : ",",
                              rows[i].name, shape, at, end);
        at = end;
    }
    header[n++] = '}';
    bytes_u64(&b, n);
    bytes_add(&b, header, n);
    for (unsigned i = 0; i < at / 4; i++) {
        float value = 0.125F * (float)i - 3.0F;

        bytes_add(&b, &value, sizeof value);
    }
    folder_write(path, "model.safetensors", b.p, b.n);
    bytes_release(&b);
}

void llm_fill(const char *path)
{
    fill(path, tensors, sizeof tensors / sizeof tensors[0]);
}

void llm_fill_packed(const char *path)
{
    fill(path, packed, sizeof packed / sizeof packed[0]);
}
