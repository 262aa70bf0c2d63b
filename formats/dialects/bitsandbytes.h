/* bitsandbytes.h - the 4 bits of bitsandbytes (bitsandbytes_4bit.c), for the dialect's row in bitsandbytes.c. */
#pragma once

#include "formats/dialects/config_member.h"
#include "formats/dialects/search.h"

/* Whether its kernels have blocks of so many elements. */
bool vc_bnb_4bit_block(uint64_t n);

/* struct vc_dialect_file has what they do. */
bool vc_bnb_4bit_fits(const struct vc_out_tensor *codes);
enum vc_status vc_bnb_4bit_lay(struct vc_laying *laying);
void vc_bnb_4bit_write_config(const struct vc_config_weights *weights, struct vc_text *text);
bool vc_bnb_4bit_owns_config(const struct json_t *config);
enum vc_status vc_bnb_4bit_find(struct vc_search *search, size_t tensor, bool *found);
