/* structured_words.c - what the words of a tensor's name say: experts, shared experts, encoder, decoder.
 *
 * Only used where a configuration has several widths: names then say which one a tensor is about. */

#include "core/model/stated.h"
#include "prune/structured/removal.h"

/* A word that begins with an underscore may be the end of a part: "_exps" of "ffn_up_exps". */
bool vc_structured_has_word(const char *name, const char *word)
{
    size_t n = strlen(word);

    for (const char *at = strstr(name, word); at != NULL; at = strstr(at + 1, word)) {
        bool begins = word[0] == '_' || at == name || at[-1] == '.' || at[-1] == '/';

        if (begins && (at[n] == '.' || at[n] == '/' || at[n] == '\0')) {
            return true;
        }
    }
    return false;
}

/* Widths of feed-forward parts that a configuration may state by themselves, by words of names. */
static const struct {
    const char *word;
    enum vc_edit_key key;
} widths[] = {{"shared_expert", VC_EDIT_SHARED}, {"shared_experts", VC_EDIT_SHARED}, {"shared_mlp", VC_EDIT_SHARED},
              {"_shexp", VC_EDIT_SHARED},        {"experts", VC_EDIT_EXPERT},        {"_exps", VC_EDIT_EXPERT},
              {"encoder", VC_EDIT_ENCODER},      {"decoder", VC_EDIT_DECODER}};

/* The order of the rows of `widths` decides where a group has several of the words. */
enum vc_edit_key vc_structured_width_key(const struct vc_coupling *c)
{
    for (size_t k = 0; k < sizeof widths / sizeof widths[0]; k++) {
        for (size_t i = 0; i < c->n_members; i++) {
            if (c->members[i].makes && vc_structured_has_word(c->members[i].tensor, widths[k].word)) {
                return widths[k].key;
            }
        }
    }
    return VC_EDIT_INTERMEDIATE;
}

/* The key that the words of a name say; VC_EDIT_INTERMEDIATE: no word is there. */
static enum vc_edit_key key_of_name(const char *name)
{
    size_t k = 0;

    while (k < sizeof widths / sizeof widths[0] && !vc_structured_has_word(name, widths[k].word)) {
        k++;
    }
    return k < sizeof widths / sizeof widths[0] ? widths[k].key : VC_EDIT_INTERMEDIATE;
}

bool vc_structured_names_expert(const char *name)
{
    enum vc_edit_key key = key_of_name(name);

    return key == VC_EDIT_EXPERT || key == VC_EDIT_SHARED;
}

enum vc_status vc_structured_is_experts(struct vc_ctx *ctx, const struct vc_structured *s, const char *name,
                                        const struct vc_desc *first, bool *is)
{
    enum vc_edit_key key = key_of_name(name);
    bool says = false;

    for (unsigned d = 0; key == VC_EDIT_SHARED && !says && d < first->n_dims; d++) {
        VC_CALL(vc_program_states(ctx, &s->program, key, first->shape[d], name, &says));
    }
    *is = key == VC_EDIT_EXPERT || (key == VC_EDIT_SHARED && !says);
    return VC_OK;
}
