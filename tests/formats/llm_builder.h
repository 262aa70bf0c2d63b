/* llm_builder.h - a tiny language model in a folder of Hugging Face, for tests and fuzz targets: weights that never
 * change, and what config.json and the tokenizers of them say when all is well. */
#pragma once

/* One layer of llama: hidden size 4, two heads, one key head, eight rows of the vocabulary. */
#define LLM_CONFIG                                                                                                \
    "{\"model_type\": \"llama\", \"hidden_size\": 4, \"intermediate_size\": 6, \"num_hidden_layers\": 1, "        \
    "\"num_attention_heads\": 2, \"num_key_value_heads\": 1, \"max_position_embeddings\": 16, \"rope_scaling\": " \
    "{\"type\": \"llama3\", \"factor\": 2.0, \"original_max_position_embeddings\": 8}, "                          \
    "\"tie_word_embeddings\": true}"

#define LLM_TOKENIZER                                                                                            \
    "{\"added_tokens\": [{\"id\": 4, \"content\": \"<s>\", \"special\": true}], \"pre_tokenizer\": {\"type\": "  \
    "\"Sequence\", \"pretokenizers\": [{\"type\": \"Digits\", \"individual_digits\": true}, {\"type\": "         \
    "\"ByteLevel\", "                                                                                            \
    "\"add_prefix_space\": false}]}, \"post_processor\": {\"type\": \"TemplateProcessing\", \"single\": "        \
    "[{\"SpecialToken\": {\"id\": \"<s>\"}}, {\"Sequence\": {\"id\": \"A\"}}]}, \"model\": {\"type\": \"BPE\", " \
    "\"vocab\": {\"a\": 0, \"b\": 1, \"ab\": 2, \"aab\": 3}, \"merges\": [\"a b\", [\"a\", \"ab\"]]}}"

/* SentencePiece's BPE with two pieces. */
#define LLM_PIECES                  \
    "\x0a\x09\x0a\x05<unk>\x18\x02" \
    "\x0a\x08\x0a\x01z\x15\x00\x00\x80\xbf\x12\x02\x18\x02\x1a\x02\x18\x01"

#define LLM_UNIGRAM                                                                                      \
    "{\"model\": {\"type\": \"Unigram\", \"unk_id\": 0, \"vocab\": [[\"<unk>\", 0.0], [\"a\", -1.5]]}, " \
    "\"normalizer\": {\"type\": \"Precompiled\", \"precompiled_charsmap\": \"YWJj\"}}"

/* tokenizer_config.json. */
#define LLM_SETTINGS                                                                                                   \
    "{\"bos_token\": {\"content\": \"a\"}, \"add_bos_token\": true, \"added_tokens_decoder\": {\"6\": {\"content\": "  \
    "\"<x>\"}}, \"chat_template\": [{\"name\": \"default\", \"template\": \"t\"}, {\"name\": \"tool\", \"template\": " \
    "\"u\"}]}"

/* vocab.txt. */
#define LLM_WORDS "[PAD]\n[UNK]\n[CLS]\n[SEP]\nplay\n##ing\n"

/* Writes the weights into a folder that is there. */
void llm_fill(const char *path);

/* One layer of Phi-3, whose q, k and v are one matrix, and gate and up another: heads of 2, a head of its own. */
#define LLM_PACKED_CONFIG                                                                                          \
    "{\"model_type\": \"phi3\", \"architectures\": [\"Phi3ForCausalLM\"], \"hidden_size\": 4, "                    \
    "\"intermediate_size\": 3, \"num_hidden_layers\": 1, \"num_attention_heads\": 2, \"num_key_value_heads\": 1, " \
    "\"vocab_size\": 5, \"max_position_embeddings\": 16, \"rms_norm_eps\": 1e-5, \"rope_theta\": 10000.0, "        \
    "\"hidden_act\": \"silu\", \"pad_token_id\": 0, \"sliding_window\": null, \"tie_word_embeddings\": false}"

void llm_fill_packed(const char *path);
