/* hf_carry.h - what goes along when a folder of weights becomes another: its config, tokenizer and the like, byte for
 * byte, but for what config.json says of the weights; of a pipeline what lies beside its models. */
#pragma once

#include "formats/huggingface/config/hf_config.h"
#include "formats/huggingface/infolder.h"
#include "formats/io/outfolder.h"

/* What ModelOpt says of its codes, where config.json does not. */
#define VC_HF_MODELOPT_NAME "hf_quant_config.json"

struct vc_hf_carry {
    struct vc_infolder *from; /* NULL: nothing goes along */
    struct vc_arena arena;
    struct vc_text config; /* the new config.json; empty: as it was */
    const char *note;      /* what stays behind, for the report; NULL: nothing */
    uint64_t n_bytes;      /* of all files that go along */
    bool decodes;          /* codes of the source are none any more, or others */
};

/* Whether a tensor that has two names has to be written twice, because the loader of the folder's model looks for both
 * (vc_hf_config_unties). */
enum vc_status vc_hf_carry_unties(struct vc_ctx *ctx, struct vc_infolder *from, bool *unties);

/* Called by the sink's layout. Makes the new config.json (change NULL: it stays as it is), whose sentences of refusal
 * begin with its name, and counts the bytes of all files. `to` is all zeros, its text initialized; release it in any
 * case. */
enum vc_status vc_hf_carry_plan(struct vc_ctx *ctx, struct vc_infolder *from, const struct vc_hf_change *change,
                                struct vc_hf_carry *to);

/* Tells the folder, before its files are begun, what will be in it: of several workers each tells the same. */
enum vc_status vc_hf_carry_expect(struct vc_ctx *ctx, const struct vc_infolder *from, struct vc_outfolder *folder);

/* For one of several workers, whose folder may be there already: refuses where a file of that name is in the way. */
enum vc_status vc_hf_carry_check(struct vc_ctx *ctx, const struct vc_hf_carry *carry,
                                 const struct vc_outfolder *folder);

/* Adds the files to the folder, complete and synced. */
enum vc_status vc_hf_carry_write(struct vc_ctx *ctx, const struct vc_hf_carry *carry, struct vc_outfolder *folder);
void vc_hf_carry_release(struct vc_ctx *ctx, struct vc_hf_carry *carry);

/* Adds a file with that text to the folder. */
enum vc_status vc_hf_write_text(struct vc_ctx *ctx, struct vc_outfolder *folder, const char *name, const char *text,
                                size_t n);
