/* vocab_pre.c - how byte-level BPE cuts a text before it looks for tokens. llama.cpp has the regular expressions under
 * names, and tokenizer.json has them in full, so the name is found by comparing:
 *
 *     Sequence [Split(Regex r, Isolated), ByteLevel(use_regex false)]      r              "qwen2" for the r of Qwen
 *     Sequence [Digits(individual), ByteLevel]                             D; G           "smollm", "starcoder"
 *     ByteLevel                                                            G              "gpt-2" */
#include "formats/gguf_folder/vocab.h"

/* ---- the form ---- */

/* Steps are parted by "; ". The way back cuts there again, so no regular expression of the table holds it. */
static void add_step(struct vc_text *form, const char *step)
{
    vc_text_add(form, "%s%s", form->n == 0 ? "" : "; ", step);
}

/* The text of a member, "" without one. */
static const char *word(const json_t *step, const char *key)
{
    const char *value = json_string_value(json_object_get(step, key));

    return value != NULL ? value : "";
}

/* "Isolated" parts are the matches; "Removed" with "invert" removes what is between them, which is the same. A Split of
 * another kind gets a form that no name has, and that a refusal can show. */
static void add_split(struct vc_text *form, const json_t *step)
{
    const char *regex = json_string_value(json_object_get(json_object_get(step, "pattern"), "Regex"));
    bool inverted = json_is_true(json_object_get(step, "invert"));
    const char *behavior = word(step, "behavior");

    if (regex != NULL && strcmp(behavior, inverted ? "Removed" : "Isolated") == 0) {
        add_step(form, regex);
    } else {
        add_step(form, "Split");
        vc_text_add(form, "(%s, %s)", regex != NULL ? regex : "a text", behavior);
    }
}

/* *byte_level is set by a step ByteLevel. Its own regular expression, "G", is GPT-2's. */
static void add_steps(struct vc_text *form, const json_t *step, bool *byte_level, unsigned depth)
{
    const char *type = word(step, "type");
    const json_t *steps = json_object_get(step, "pretokenizers");

    if (strcmp(type, "Sequence") == 0 && depth < 8) {
        for (size_t i = 0; i < json_array_size(steps); i++) {
            add_steps(form, json_array_get(steps, i), byte_level, depth + 1);
        }
    } else if (strcmp(type, "Split") == 0) {
        add_split(form, step);
    } else if (strcmp(type, "Digits") == 0) {
        add_step(form, json_is_true(json_object_get(step, "individual_digits")) ? "D" : "Digits");
    } else if (strcmp(type, "ByteLevel") == 0) {
        *byte_level = true;
        if (json_is_true(json_object_get(step, "add_prefix_space"))) {
            add_step(form, "ByteLevel(add_prefix_space)");
        } else if (!json_is_false(json_object_get(step, "use_regex"))) {
            add_step(form, "G");
        }
    } else if (strcmp(type, "Punctuation") == 0) {
        add_step(form, strcmp(word(step, "behavior"), "Contiguous") == 0 ? "Punctuation contiguous" : "Punctuation");
    } else if (type[0] != '\0') {
        add_step(form, type);
    }
}

void vc_vocab_form(const json_t *tokenizer, struct vc_text *form, bool *byte_level)
{
    *byte_level = strcmp(word(json_object_get(tokenizer, "decoder"), "type"), "ByteLevel") == 0;
    add_steps(form, json_object_get(tokenizer, "pre_tokenizer"), byte_level, 0);
}

/* ---- names ---- */

/* Parts that the regular expressions of several models share, in the letters of their tokenizer.json: a form is
 * compared byte by byte. BLOOM holds punctuation of other scripts in UTF-8. */
#define CONTRACTIONS "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define SPACES       "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define LETTERS      "[^\\r\\n\\p{L}\\p{N}]?\\p{L}+"
#define SIGNS        " ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*"
#define PATHS        " ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*"
#define CASED(upper, lower) \
    "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]" upper "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]" lower
#define HAN(upper, lower)                                                           \
    "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}&&[^\\p{Han}]]" upper \
    "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}&&[^\\p{Han}]]" lower CONTRACTIONS "?|"
#define BLOOM " ?[^(\\s|[.,!?\xe2\x80\xa6\xe3\x80\x82\xef\xbc\x8c\xe3\x80\x81\xe0\xa5\xa4\xdb\x94\xd8\x8c])]+"

/* What a row asks of a property: nothing, that it is there, that it is not. */
enum need { ANY, YES, NO };

/* A form has the name of the first row that fits. Names with the same form differ in whether merges may be ignored, and
 * in whether llama.cpp cleans spaces of the texts that it makes. */
static const struct {
    const char *form;
    enum need ignores_merges, cleans, glm, roberta;
    const char *name;
    const char *also; /* "a|b": names of files of other converters that llama.cpp cuts in the same way */
} names[] = {
    {CONTRACTIONS "|" LETTERS "|\\p{N}{1,3}|" SIGNS "|" SPACES, YES, ANY, YES, ANY, "glm4", "glm5"},
    {CONTRACTIONS "|" LETTERS "|\\p{N}{1,3}|" SIGNS "|" SPACES, YES, ANY, ANY, ANY, "llama-bpe",
     "llama3|llama-v3|falcon3|falcon-h1|pixtral|midm-2.0|lfm2|jina-v5-nano"},
    {CONTRACTIONS "|" LETTERS "|\\p{N}{1,3}|" SIGNS "|" SPACES, NO, ANY, YES, ANY, "chatglm-bpe", NULL},
    {CONTRACTIONS "|" LETTERS "|\\p{N}{1,3}|" SIGNS "|" SPACES, NO, ANY, ANY, ANY, "dbrx", "smaug-bpe"},
    {CONTRACTIONS "|" LETTERS "|\\p{N}|" SIGNS "|" SPACES, ANY, ANY, ANY, ANY, "qwen2",
     "stablelm2|deepseek-r1-qwen|kormo|f2llmv2|megrez|hunyuan|solar-open|grok-2"},
    {CONTRACTIONS "|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|" SPACES, ANY,
     ANY, ANY, ANY, "qwen35", NULL},
    {CASED("*", "+") CONTRACTIONS "?|" CASED("+", "*") CONTRACTIONS "?|\\p{N}{1,3}|" PATHS "|" SPACES, ANY, ANY, ANY,
     ANY, "gpt-4o", "llama4|kanana2|talkie|minimax-m2"},
    {CASED("*", "+") "|" CASED("+", "*") "|\\p{N}|" PATHS "|" SPACES, YES, ANY, ANY, ANY, "tekken", NULL},
    {"\\p{N}{1,3}; [\xe4\xb8\x80-\xe9\xbe\xa5\xe3\x81\x80-\xe3\x82\x9f\xe3\x82\xa0-\xe3\x83\xbf]+; "
     "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| "
     "?[\\p{P}\\p{S}]+[\\r\\n]*|" SPACES,
     ANY, ANY, ANY, ANY, "deepseek-v3", "hunyuan-dense|hy_v4|joyai-llm"},
    {"G", ANY, ANY, ANY, YES, "roberta-bpe", "jina-v1-en|jina-v2-code"},
    {"G", ANY, ANY, ANY, ANY, "gpt-2",
     "phi-2|olmo|mpt|jais|trillion|exaone4|modern-bert|granite-docling|gigachat|mellum|a.x-4.0|jina-es|jina-de|jina-v2-"
     "es|jina-v2-de"},
    {"D; G", ANY, YES, ANY, ANY, "starcoder", "refact|command-r|codeshell|exaone|minerva-7b|mellum2"},
    {"D; G", ANY, NO, ANY, ANY, "smollm", NULL},
    {"Punctuation contiguous; G; Digits; [0-9][0-9][0-9]", ANY, ANY, ANY, ANY, "falcon", NULL},
    {BLOOM, ANY, ANY, ANY, ANY, "bloom", "poro-chat|gpt3-finnish"},
    {BLOOM "; D", ANY, ANY, ANY, ANY, "viking", NULL},
    {CONTRACTIONS "|" LETTERS "|\\p{N}{1}| ?[^\\s\\p{L}\\p{N}\\r\\n]+|" SPACES, ANY, ANY, ANY, ANY, "seed-coder", NULL},
    {"[\\p{Han}]+|" HAN("*", "+") HAN("+", "*") "\\p{N}{1,3}|" SIGNS "|" SPACES, ANY, ANY, ANY, ANY, "kimi-k2", NULL},
};

static bool fits(enum need need, bool is)
{
    return need == ANY || (need == YES) == is;
}

const char *vc_vocab_pre_name(const char *form, bool ignores_merges, bool cleans, bool is_glm, bool is_roberta)
{
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(names[i].form, form) == 0 && fits(names[i].ignores_merges, ignores_merges) &&
            fits(names[i].cleans, cleans) && fits(names[i].glm, is_glm) && fits(names[i].roberta, is_roberta)) {
            return names[i].name;
        }
    }
    return NULL;
}

/* ---- the way back ---- */

/* A step of a form as tokenizer.json has it. */
static json_t *make_step(const char *step, size_t n)
{
    if (n == 1 && step[0] == 'G') {
        return json_pack("{s:s, s:b, s:b, s:b}", "type", "ByteLevel", "add_prefix_space", 0, "trim_offsets", 1,
                         "use_regex", 1);
    }
    if (step[0] == 'D') {
        return json_pack("{s:s, s:b}", "type", "Digits", "individual_digits", n == 1);
    }
    if (step[0] == 'P') {
        return json_pack("{s:s, s:s}", "type", "Punctuation", "behavior", "Contiguous");
    }
    return json_pack("{s:s, s:{s:s%}, s:s, s:b}", "type", "Split", "pattern", "Regex", step, n, "behavior", "Isolated",
                     "invert", 0);
}

/* The row with the name. Where no step of its form makes bytes into letters, a ByteLevel without an expression of its
 * own goes behind. *out without a known name: an empty sequence. */
bool vc_vocab_pre_steps(const char *name, json_t **out, bool *ignores_merges)
{
    json_t *steps = json_array();
    bool byte_level = false;
    size_t i = 0;

    while (i < sizeof names / sizeof names[0] && strcmp(names[i].name, name) != 0 &&
           !(names[i].also != NULL && vc_is_one_of(name, names[i].also))) {
        i++;
    }
    const char *at = i < sizeof names / sizeof names[0] ? names[i].form : NULL;
    *ignores_merges = at != NULL && names[i].ignores_merges == YES;
    *out = json_pack("{s:s, s:o}", "type", "Sequence", "pretokenizers", steps);
    while (at != NULL && *at != '\0') {
        const char *end = strstr(at, "; ");
        size_t n = end != NULL ? (size_t)(end - at) : strlen(at);

        (void)json_array_append_new(steps, make_step(at, n));
        byte_level = byte_level || (n == 1 && at[0] == 'G');
        at += n + (end != NULL ? 2 : 0);
    }
    if (!byte_level) {
        (void)json_array_append_new(steps, json_pack("{s:s, s:b, s:b, s:b}", "type", "ByteLevel", "add_prefix_space", 0,
                                                     "trim_offsets", 1, "use_regex", 0));
    }
    return at != NULL;
}
