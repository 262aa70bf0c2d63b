/* arch.h - what transformers' classes say of families of models, by the "model_type" of a config.json: a row each.
 *
 *     {"model_type": "gemma3_text", "num_hidden_layers": 26}     no "num_key_value_heads": 4, says the row
 *                                                                no "layer_types": five slide, the sixth does not
 *
 * arch_classes.inc is made by scripts/architectures.py, which asks the classes of the transformers that it finds; its
 * first line names the version. The tables know no model, no file and no JSON.
 *
 * arch_loads.inc is made by scripts/loading.py, and read by formats/huggingface/families.c alone:
 *
 *     VC_ARCH_LOADS(HEADS, "whisper moonshine", "proj_out")      a fact, the types that have it, and its words (or "-")
 *
 * The facts are those at the top of the script: HEADS, RENAMES and TABLES are columns of struct vc_family_row; SHARED,
 * LOST, OWN, FP32 and CASTS globs of weights that stay floats; FIRST, STUCK, CUTS and ALL_OWN say how models are loaded, or that
 * they are not; ASKED are types of which models were made. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- what a class takes where config.json does not say ---- */

struct vc_arch {
    const char *type; /* "gemma3_text" */
    const char *text; /* the type of its "text_config", where that does not name one; "": it has none */
    /* "num_key_value_heads=4 tie_word_embeddings=true": JSON without blanks, words without quotes. What is 0, false
     * or empty is not there, nor what follows from other keys (key heads as many as heads, heads that fill the hidden
     * size). No keys are "mlp_has_no_gate=true" (a feed-forward part is two matrices, not three) and what scripts/stand_ins.py
     * measured of models of the type (weights, rows, masks, mask, live, and logits, scores where live is no sum, and each _half). */
    const char *defaults;
};

/* The row of a type; NULL: transformers has no class for it, or nothing to say. type may be NULL. */
const struct vc_arch *vc_arch_find(const char *type);

/* The row for the part of a model that works on text: of "gemma3" that of "gemma3_text". */
const struct vc_arch *vc_arch_find_text(const char *type);

/* A default, in a row's text. */
struct vc_arch_default {
    const char *key, *value;
    size_t n_key, n_value;
};

/* Default number `index` of a row; false behind the last. arch may be NULL, in all that follows. */
bool vc_arch_default(const struct vc_arch *arch, size_t index, struct vc_arch_default *out);

/* The default of a key: the number; whether it is true; whether it is that word. */
double vc_arch_number(const struct vc_arch *arch, const char *key, double otherwise);
bool vc_arch_flag(const struct vc_arch *arch, const char *key);
bool vc_arch_is(const struct vc_arch *arch, const char *key, const char *word);
/* The words from its value on, up to a blank; NULL: it has none. */
const char *vc_arch_text(const struct vc_arch *arch, const char *key);

/* ---- lists with an entry per layer that a class makes where config.json has none ---- */

/* Which layers, of n from 0 on, have the entry `other`; the rest has `usual`. */
enum vc_arch_rule {
    VC_ARCH_ALL,          /* none */
    VC_ARCH_LAST,         /* the last one of each `number`: 3, 7, 11, ... */
    VC_ARCH_FIRST,        /* the first one: 0, 4, 8, ... */
    VC_ARCH_LAST_AND_END, /* as LAST, and the last layer of all */
    VC_ARCH_LAST_ENDS,    /* the same, and the last layer of all has it whatever config.json says */
    VC_ARCH_BEHIND,       /* those from `number` on */
    VC_ARCH_UNKNOWN       /* another rule than these */
};

struct vc_arch_list {
    const char *type, *list; /* "gemma3_text", "layer_types" */
    enum vc_arch_rule rule;
    uint64_t number;
    const char *key;           /* of config.json, that has the number; "": none */
    const char *usual, *other; /* entries as JSON */
    const char *unless;        /* "a b": where one of these keys says something, the rule is another one */
    const char *instead;       /* "a b": where one of these keys is there, the list follows from it */
};

/* List number `index` of a type; NULL behind the last. */
const struct vc_arch_list *vc_arch_list(const char *type, size_t index);

/* Whether layer `i` of n has the entry `other`, where the number is that of config.json. */
bool vc_arch_list_other(const struct vc_arch_list *list, uint64_t number, uint64_t i, uint64_t n);

/* ---- keys that speak of single layers ---- */

enum vc_arch_key {
    VC_ARCH_KEY_BY_LAYER,     /* a list with an entry per layer, or a text with a character */
    VC_ARCH_KEY_NUMBERS,      /* a list of numbers of layers */
    VC_ARCH_KEY_NUMBERS_STAY, /* the same; something else has an entry for each number, so that these layers stay */
    VC_ARCH_KEY_FEATURE,      /* the layer behind which something takes what the vision part has made: 0 is before the
                                 first one, -1 behind the last */
    VC_ARCH_KEY_FIRST,        /* so many layers from the first on are of another kind */
    VC_ARCH_KEY_PERIOD,       /* layers of another kind come after so many, where no list says it layer by layer */
    VC_ARCH_KEY_BY_NUMBER /* of layers from the last on, of numbers in other lists, of sizes of tensors outside of the
                                 layers: nothing can be said of the layers that stay, unless it is 0, false or null */
};

/* Whether a key is of that kind; one key may be of two. */
bool vc_arch_key_is(const char *key, enum vc_arch_key kind);
/* Of a period: the list that says it layer by layer; NULL if there is none. */
const char *vc_arch_period_list(const char *key);

/* Whether layers of such a model compute by their number in a way that config.json cannot say: none can go. */
bool vc_arch_by_number(const char *type);

/* Whether the first layer of such a model is not as the others are, whatever config.json says. */
bool vc_arch_first_stays(const char *type);
