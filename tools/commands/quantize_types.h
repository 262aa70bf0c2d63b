/* quantize_types.h - types by the names of tensors: `quantize --type 'GLOB=SCHEME'`, `--type-file FILE`. The first glob that matches a
 * tensor gives its type, as llama-quantize's --tensor-type; what no glob matches gets the type of the command.
 *
 *     --int4 --type 'lm_head*=int8' --type '*.router.*=keep'
 *         pass 1: int8, only lm_head*
 *         pass 2: int4, only what neither lm_head* nor *.router.* matches
 */
#pragma once

#include <vcompress/quantize.h>

struct app;

#define MAX_NAMED_TYPES 64

/* Zeroed: none. */
struct named_types {
    struct named_type {
        char *glob; /* owned; its scheme stands behind the NUL */
        /* "int4/group:64", "fp16", "keep"; with --gguf "q6_k" or a mixture, whose base type it is. */
        const char *scheme;
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

/* The passes of the types, and what they leave to that of `base`, as lists that stay. For type i the list `only` is its own
 * glob, then the globs of the types before it as exclusions, so the first --type that matches a name takes it:
 *
 *     type 0    include G0
 *     type 1    include G1, exclude G0
 *     base      exclude G0, exclude G1
 *
 * The passes change disjoint sets of tensors. Tensors that are to stay are excluded by rules behind the user's own. */
struct named_passes {
    size_t n, n_only, n_rules;
    struct vc_quantize_options *passes; /* owned */
    struct vc_rule *only, *rules;       /* of the pass of `base`; in `lists` */
    struct vc_rule *lists;              /* owned */
    char (*mixtures)[32];               /* owned; names that passes point to */
};

/* False: no memory. `types` has to stay. */
bool named_passes_make(const struct named_types *types, const struct vc_quantize_options *base,
                       struct named_passes *out);
void named_passes_free(struct named_passes *passes);

/* "--type 'a*=int8' --type b=keep", for a recipe; free it. NULL: no memory. */
char *named_types_words(const struct named_types *types);

void named_types_free(struct named_types *types);
