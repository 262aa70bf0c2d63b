/* vocab_tokens.c - the list of tokens while files fill it: vocab.h.
 *
 * Each kind sets the tokens that its files list; vocab.c fills the gaps. */
#include "formats/gguf_folder/vocab.h"
#include "formats/io/side_file.h"

const char *vc_vocab_path(struct vocab *v, const char *name, enum vc_status *status)
{
    const char *path = vc_arena_printf(v->ctx, v->arena, "%s/%s", v->folder, name);
    bool there = false;

    *status = path != NULL ? vc_side_check(v->ctx, v->folder, name, &there) : VC_E_NOMEM;
    return there ? path : NULL;
}

enum vc_status vc_vocab_text(struct vocab *v, const char *name, uint64_t most, const char *kind, char **out)
{
    enum vc_status status = VC_OK;
    const char *path = vc_vocab_path(v, name, &status);
    struct vc_infile *file = NULL;
    char *text;

    *out = NULL;
    if (path == NULL) {
        return status;
    }
    VC_TRY(vc_infile_open(v->ctx, path, &file));
    if (file->size_bytes > most) {
        VC_TRY(vc_fail(v->ctx, VC_E_FORMAT, "is too large"));
    }
    VC_TRY_ALLOC(text = vc_arena_alloc(v->ctx, v->arena, (size_t)file->size_bytes + 1));
    VC_TRY(vc_infile_read(v->ctx, file, 0, text, (size_t)file->size_bytes));
    text[file->size_bytes] = '\0';
    if (!vc_utf8_valid(text, (size_t)file->size_bytes)) {
        VC_TRY(vc_fail(v->ctx, VC_E_FORMAT, "is no %s: its text is not UTF-8, or holds a NUL", kind));
    }
    *out = text;
out:
    vc_infile_close(v->ctx, file);
    return status == VC_OK ? VC_OK : vc_context(v->ctx, "%s", name);
}

enum vc_status vc_vocab_set(struct vocab *v, uint64_t id, const char *text, size_t n, int32_t type, float score)
{
    VC_REFUSE_IF(id >= v->n, v->ctx, VC_E_UNSUPPORTED,
                 "the vocabulary has a token %" PRIu64 " ('%.60s'), and the embedding has %zu rows", id, text, v->n);
    VC_REFUSE_IF(v->tokens[id].text != NULL, v->ctx, VC_E_FORMAT,
                 "the vocabulary has two tokens %" PRIu64 ", '%.60s' and '%.60s'", id, v->tokens[id].text, text);
    v->tokens[id] = (struct vocab_token){.text = text, .n = n, .type = type, .score = score};
    return VC_OK;
}

/* Looks at all tokens: it is asked some ten times for a vocabulary. */
bool vc_vocab_find(const struct vocab *v, const char *text, uint64_t *id)
{
    size_t n = strlen(text);
    bool found = false;

    for (size_t i = 0; i < v->n; i++) {
        const struct vocab_token *t = &v->tokens[i];

        if (t->text != NULL && t->n == n && memcmp(t->text, text, n) == 0 && (!found || t->added)) {
            *id = i;
            found = true;
        }
    }
    return found;
}
