/* quantize_types.h - types by the names of tensors: `quantize --type 'GLOB=SCHEME'`, `--type-file FILE`. The first glob that matches a
 * tensor gives its type, as llama-quantize's --tensor-type; what no glob matches gets the type of the command.
 *
 *     --int4 --type 'lm_head*=int8' --type '*.router.*=keep'
 *         pass 1: int8, only lm_head*
 *         pass 2: int4, only what neither lm_head* nor *.router.* matches
 */
#ifndef VC_TOOLS_QUANTIZE_TYPES_H
#define VC_TOOLS_QUANTIZE_TYPES_H

#include <stdbool.h>
#include <stddef.h>

#include <vcompress/quantize.h>

struct app;

#define MAX_NAMED_TYPES 64

/* Zeroed: none. */
struct named_types {
    struct named_type {
        char *glob; /* owned; its scheme stands behind the NUL */
        const char
            *scheme; /* "int4/group:64", "fp16", "keep"; with --gguf "q6_k" or a mixture, whose base type it is */
    } list[MAX_NAMED_TYPES];
    size_t n;
};

/* Adds "GLOB=SCHEME". False: it has no such form, there are too many, or no memory. */
bool named_types_add(struct named_types *types, const char *word);

/* Adds the lines of a file; empty ones and those that begin with # say nothing. GO_ON or a status. */
int named_types_read(struct app *app, struct named_types *types, const char *path);

/* Refuses schemes that no pass makes beside one of these options. GO_ON or a status. */
int named_types_check(struct app *app, const struct named_types *types, const struct vc_quantize_options *base);

/* Whether one of the types is codes with scales, tensors of their own. */
bool named_types_make_codes(const struct named_types *types, const struct vc_quantize_options *base);

/* Adds a pass for each type and then one of `base` for all other tensors; without types that one alone. */
enum vc_status named_types_add_passes(struct vc_ctx *ctx, struct vc_job *job, const struct named_types *types,
                                      const struct vc_quantize_options *base);

void named_types_free(struct named_types *types);

#endif
