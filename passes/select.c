/* select.c - see select.h.
 *
 * A tensor is chosen in two steps. Rules of the user come first, and the last one that matches decides;
 * where none does, names that models usually have say which tensors are left alone:
 *
 *     --exclude "*" --include "*.mlp.*"     the second rule wins for model.layers.0.mlp.up_proj.weight
 *     no rule                               *.norm.weight, *.bias, routers, tables of positions are kept as they are
 */
#include "passes/select.h"

#include "core/model/names.h"
#include "core/text/glob.h"

/* The last rule that matches decides. */
enum vc_choice vc_rules_choose(const struct vc_rule *rules, size_t n, const char *name, const char **glob)
{
    for (size_t i = n; i-- > 0;) {
        if (vc_glob_match(rules[i].glob, name)) {
            *glob = rules[i].glob;
            return rules[i].include ? VC_CHOICE_INCLUDE : VC_CHOICE_EXCLUDE;
        }
    }
    return VC_CHOICE_DEFAULT;
}

/* The reason why a tensor of that name is kept by default (norms, biases, routers, position tables); NULL if it is not.
 * Names are those of the common model families. They are small, and errors in them are dear: a router's error sends
 * tokens to the wrong expert, a norm scales everything after it. "gate" alone is a router; gate_proj is a matrix. */
static const char *default_skip(const char *name)
{
    static struct vc_glob_set set = {.n = 21,
                                     .globs = {"*norm*",
                                               "*Norm*",
                                               "*bias*",
                                               "*/scale",
                                               "*router*",
                                               "*.gate.weight",
                                               "*.gate",
                                               "*ffn_gate_inp*",
                                               "*position_embed*",
                                               "*pos_embed*",
                                               "*positional_embedding*",
                                               "*position_embd*",
                                               "*.wpe.*",
                                               "wpe.*",
                                               "*embed_positions*",
                                               "*pos_emb",
                                               "*pos_emb.weight",
                                               "*token_type_embed*",
                                               "*token_types*",
                                               "*rotary*",
                                               "*inv_freq*"}};
    static const char *const reasons[] = {"normalization",
                                          "normalization",
                                          "bias",
                                          "normalization",
                                          "router",
                                          "router",
                                          "router",
                                          "router",
                                          "position embedding",
                                          "position embedding",
                                          "position embedding",
                                          "position embedding",
                                          "position embedding",
                                          "position embedding",
                                          "position embedding",
                                          "position embedding",
                                          "position embedding",
                                          "token type embedding",
                                          "token type embedding",
                                          VC_SKIP_ROTARY,
                                          VC_SKIP_ROTARY};
    size_t i = vc_glob_set_find(&set, name);

    _Static_assert(sizeof reasons / sizeof reasons[0] == 21, "a reason for each glob");
    return i != SIZE_MAX ? reasons[i] : NULL;
}

const char *vc_keep_reason(const struct vc_tensor *own)
{
    return own->kept_as != NULL ? own->kept_as : default_skip(own->name);
}

bool vc_is_table(const struct vc_tensor *own)
{
    const char *skip = default_skip(own->name);

    return own->use >= VC_USE_CODES || (skip != NULL && strcmp(skip, VC_SKIP_ROTARY) == 0);
}

/* Tokens and places that are learned by themselves, not multiplied with anything: cls_token, pos_embed, ... */
static bool is_learned_token(const char *name)
{
    static struct vc_glob_set set = {
        .n = 6, .globs = {"*_token", "*_tokens", "*pos_enc*", "*positional*", "*_pos_emb*", "*layer_scale*"}};

    return vc_glob_set_find(&set, name) != SIZE_MAX;
}

/* Pruning also leaves alone what is looked up (embeddings), what makes the answers (heads), and what is
 * learned by itself. */
const char *vc_prune_skip(const struct vc_model *model, size_t tensor)
{
    const struct vc_tensor *own;

    (void)vc_model_of(model, tensor, &own);
    const char *reason = vc_keep_reason(own);
    if (reason != NULL) {
        return reason;
    }
    if (own->use == VC_USE_ROWS || vc_name_is_embedding(own->name)) {
        return "embedding";
    }
    return vc_name_is_head(own->name) ? "output head" : is_learned_token(own->name) ? "learned token or place" : NULL;
}

/* Rules with their texts in the arena, for passes that outlive the caller's. */
enum vc_status vc_rules_copy(struct vc_ctx *ctx, struct vc_arena *arena, const struct vc_rule *rules, size_t n,
                             const struct vc_rule **out)
{
    struct vc_rule *copy = vc_arena_alloc(ctx, arena, n * sizeof *copy);

    VC_CALL_ALLOC(copy);
    for (size_t i = 0; i < n; i++) {
        copy[i].include = rules[i].include;
        VC_CALL_ALLOC(copy[i].glob = vc_arena_printf(ctx, arena, "%s", rules[i].glob));
    }
    *out = copy;
    return VC_OK;
}

/* "+*.mlp.*,-*.norm*": the rules in one text. NULL: no memory. */
const char *vc_rules_text(struct vc_ctx *ctx, struct vc_arena *arena, const struct vc_rule *rules, size_t n)
{
    const char *text = "";

    for (size_t i = 0; i < n && text != NULL; i++) {
        text = vc_arena_printf(ctx, arena, "%s%s%c%s", text, i == 0 ? "" : ",", rules[i].include ? '+' : '-',
                               rules[i].glob);
    }
    return text;
}

/* Tensors that were left out while reading count too: a rule about them is no mistake. */
static bool matches_any(const char *glob, const struct vc_model *model)
{
    for (size_t i = 0; i < model->n_tensors; i++) {
        if (vc_glob_match(glob, model->tensors[i].name)) {
            return true;
        }
    }
    for (size_t i = 0; i < model->n_unseen; i++) {
        if (vc_glob_match(glob, model->unseen[i].name)) {
            return true;
        }
    }
    return false;
}

/* A rule that matches no tensor is likely a mistake, so a note says it. */
enum vc_status vc_rules_unmatched(struct vc_ctx *ctx, struct vc_arena *arena, const struct vc_rule *rules, size_t n,
                                  const struct vc_model *model, const char **note)
{
    const char *list = NULL;

    *note = NULL;
    for (size_t i = 0; i < n; i++) {
        if (!matches_any(rules[i].glob, model)) {
            list = list == NULL ? vc_arena_printf(ctx, arena, "no tensor matches '%s'", rules[i].glob)
                                : vc_arena_printf(ctx, arena, "%s, '%s'", list, rules[i].glob);
            VC_CALL_ALLOC(list);
        }
    }
    *note = list;
    return VC_OK;
}

enum vc_status vc_note_add(struct vc_ctx *ctx, struct vc_arena *arena, const char *more, const char **note)
{
    if (more != NULL) {
        *note = *note == NULL ? more : vc_arena_printf(ctx, arena, "%s; %s", *note, more);
    }
    return more != NULL && *note == NULL ? VC_E_NOMEM : VC_OK;
}

/* The tensor whose name has another end, as the bias beside a weight. */
enum vc_status vc_find_beside(struct vc_ctx *ctx, const struct vc_model *model, const char *name, const char *end,
                              const char *other, size_t *found)
{
    size_t n = strlen(name);

    *found = VC_NO_TENSOR;
    if (n <= strlen(end) || strcmp(name + n - strlen(end), end) != 0) {
        return VC_OK;
    }
    char *text = vc_alloc(ctx, VC_TAG_NAMES, n - strlen(end) + strlen(other) + 1);
    VC_CALL_ALLOC(text);
    memcpy(text, name, n - strlen(end));
    memcpy(text + n - strlen(end), other, strlen(other) + 1);
    *found = vc_model_find(model, text);
    vc_free(ctx, text);
    return VC_OK;
}
