/* vocab_bytes.c - byte-level BPE from tokenizer.json: tokens as its letters for bytes have them, merges in their order,
 * and the name of the way in which texts are cut. */
#include "formats/gguf_folder/vocab.h"

/* llama.cpp normalizes nothing. NFC changes only texts whose accents are characters of their own. */
static enum vc_status check_normalizer(struct vocab *v)
{
    const json_t *normalizer = json_object_get(v->tokenizer.root, "normalizer");
    const char *type = json_string_value(json_object_get(normalizer, "type"));
    const json_t *steps = json_object_get(normalizer, "normalizers");

    if (type != NULL && strcmp(type, "Sequence") == 0 && json_array_size(steps) <= 1) {
        normalizer = json_array_get(steps, 0);
        type = json_string_value(json_object_get(normalizer, "type"));
    }
    if (type == NULL || strcmp(type, "NFC") == 0) {
        return VC_OK;
    }
    return vc_fail(v->ctx, VC_E_UNSUPPORTED,
                   "tokenizer.json: its normalizer is '%s', and llama.cpp has none for byte-level BPE; %s says that it "
                   "does not matter",
                   type, vc_option(v->ctx, "gguf_pre"));
}

/* Sets v->pre, or refuses with the form, so that a user can look up its name. */
static enum vc_status find_pre(struct vocab *v)
{
    const json_t *model = json_object_get(v->tokenizer.root, "model");
    const char *post = json_string_value(json_object_get(json_object_get(v->tokenizer.root, "post_processor"), "type"));
    bool byte_level;
    VC_SCOPED_TEXT struct vc_text form = {.ctx = v->ctx};

    VC_CALL(check_normalizer(v));
    vc_vocab_form(v->tokenizer.root, &form, &byte_level);
    VC_CALL(form.status);
    v->pre = vc_vocab_pre_name(form.n != 0 ? form.data : "", json_is_true(json_object_get(model, "ignore_merges")),
                               json_is_true(json_object_get(v->settings.root, "clean_up_tokenization_spaces")),
                               strncmp(v->family->gguf, "glm", 3) == 0,
                               post != NULL && strcmp(post, "RobertaProcessing") == 0);
    VC_REFUSE_IF(v->pre == NULL, v->ctx, VC_E_UNSUPPORTED,
                 "tokenizer.json: it is not known what llama.cpp calls the way in which it cuts texts; name it "
                 "with %s, or leave the vocabulary out with %s; the way is: %s",
                 vc_option(v->ctx, "gguf_pre"), vc_option(v->ctx, "gguf_no_vocab"), form.n != 0 ? form.data : "none");
    return VC_OK;
}

/* Texts are in GPT-2's letters for bytes ("\u0120the" is " the") on both sides, so they are copied. */
enum vc_status vc_vocab_read_bytes(struct vocab *v)
{
    json_t *model = json_object_get(v->tokenizer.root, "model");
    const char *text;
    json_t *id;

    v->kind = "gpt2";
    json_object_foreach(json_object_get(model, "vocab"), text, id)
    {
        VC_REFUSE_IF(!json_is_integer(id) || json_integer_value(id) < 0, v->ctx, VC_E_FORMAT,
                     "tokenizer.json: token '%.60s' has no number", text);
        VC_CALL(vc_vocab_set(v, (uint64_t)json_integer_value(id), text, strlen(text), VOCAB_NORMAL, 0));
    }
    v->merges = json_object_get(model, "merges");
    VC_REFUSE_IF(!json_is_array(v->merges), v->ctx, VC_E_FORMAT, "tokenizer.json: it has no list of merges");
    return v->pre == NULL ? find_pre(v) : VC_OK;
}
