/* llm_back.h - what the parts of the way back share: a GGUF model of llama.cpp's becomes a folder of transformers. The
 * rows of the way there are read backwards; then the way there is gone with what came out, and has to lead to the
 * names, shapes and numbers that the file has. */
#pragma once

#include "formats/gguf_folder/llm_parts.h"

struct llm_back {
    struct vc_ctx *ctx;                  /* errors and memory */
    const struct vc_model *source;       /* the GGUF model; owned by the llm_folder that is made */
    struct vc_model *model;              /* with the folder that is made */
    json_t *pairs;                       /* the metadata of the file */
    const struct vc_arch_family *family; /* its row; set by find_family */
    const struct vc_arch_family *made;   /* that of the folder: the same, or what it computes of texts (.plain) */
    char class_name[64];                 /* of transformers: "LlamaForCausalLM" */
    const struct vc_arch *arch;          /* of the model_type that it becomes */
    json_t *config;                      /* what becomes config.json */
    json_t *rest;                        /* what VC_LLM_REST says; NULL: nothing */
    bool failed;                         /* jansson had no memory */
};

/* The value of the key, ".block_count" behind the architecture; NULL if there is none. */
json_t *vc_back_find(const struct llm_back *b, const char *name);
const char *vc_back_text(const struct llm_back *b, const char *name);
/* The number of the special token "bos", below the rows of the embedding; false: the file says none. */
bool vc_back_token(const struct llm_back *b, const char *word, uint64_t *id);

/* Sets a member; takes the value over, NULL where jansson had no memory for it. */
void vc_back_set(struct llm_back *b, json_t *object, const char *name, json_t *value);

/* Fills b->config (llm_back_config.c). VC_E_UNSUPPORTED names the key. */
enum vc_status vc_back_config(struct llm_back *b);
/* A file of the folder that is made; takes the object over, NULL where jansson had no memory for it. */
enum vc_status vc_back_add_json(struct llm_back *b, json_t *object, const char *name);
/* The files of the tokenizer (vocab_back.c). */
enum vc_status vc_back_vocab(struct llm_back *b);
