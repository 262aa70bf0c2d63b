/* tok_models.c - a word becomes tokens: BPE, WordPiece, Unigram, WordLevel, and the two of SentencePiece. See tokenizer_parts.h.
 *
 * BPE merges the pair of the least rank, the first of several, again and again: a heap of candidates over a chain of cells.
 * A candidate that does not hold any more when it is taken is dropped. */
#include <float.h>

#include "formats/tokenizer/tokenizer_parts.h"

#define UNKNOWN_PENALTY 10.0 /* of Unigram: below the lowest score */

/* A kind of model: how its part of tokenizer.json is read, and how a word becomes tokens. */
struct tok_model_row {
    const char *type;
    enum vc_status (*read)(struct vc_ctx *ctx, struct vc_tokenizer *t, const json_t *part);
    enum vc_status (*word)(struct vc_ctx *ctx, struct vc_tokenizer *t, const char *s, const uint32_t *at, size_t n);
};

/* At the end of the list that the caller gave. */
enum vc_status vc_tok_put_token(struct vc_ctx *ctx, struct vc_tokenizer *t, uint32_t id, uint32_t at)
{
    struct vc_token_list *out = t->out;

    VC_CALL(VC_GROW(ctx, VC_TAG_SCRATCH, out->tokens, out->capacity, out->n + 1));
    out->tokens[out->n++] = (struct vc_token){id, at};
    return VC_OK;
}

/* ------------------------------------------------------------------------------------------------ what all read */

/* {"text": number, ...} */
static enum vc_status read_vocab(struct vc_ctx *ctx, struct vc_tokenizer *t, const json_t *part)
{
    json_t *vocab = json_object_get(part, "vocab");
    const char *text;
    size_t n;
    json_t *id;

    VC_REFUSE_IF(!json_is_object(vocab), ctx, VC_E_FORMAT, "the model has no vocab");
    json_object_keylen_foreach(vocab, text, n, id)
    {
        VC_REFUSE_IF(vc_tok_number(id) == VC_NO_ID, ctx, VC_E_FORMAT, "token '%.60s' has no number", text);
        VC_CALL(vc_tok_vocab_add(ctx, &t->arena, &t->model.vocab, text, n, vc_tok_number(id), 0));
    }
    return VC_OK;
}

/* The number of the token with that text; VC_NO_ID if there is none. */
static uint32_t id_of(const struct tok_model *m, const char *s, size_t n)
{
    const struct tok_entry *entry = vc_tok_vocab_find(&m->vocab, s, n);

    return entry != NULL ? entry->id : VC_NO_ID;
}

/* "unk_token". needed: the model cannot do without. */
static enum vc_status read_unknown(struct vc_ctx *ctx, struct vc_tokenizer *t, const json_t *part, bool needed)
{
    const char *text;
    size_t n;

    VC_CALL(vc_tok_text_of(ctx, t, part, "unk_token", &text, &n));
    t->model.unknown = text != NULL ? id_of(&t->model, text, n) : VC_NO_ID;
    VC_REFUSE_IF((text != NULL || needed) && t->model.unknown == VC_NO_ID, ctx, VC_E_FORMAT,
                 "unk_token '%.60s' is no token of the model", text != NULL ? text : "null");
    return VC_OK;
}

/* The tokens "<0x00>" to "<0xFF>", as far as there are such. */
static void find_bytes(struct tok_model *m)
{
    for (unsigned byte = 0; byte < 256; byte++) {
        char text[8];

        (void)snprintf(text, sizeof text, "<0x%02X>", byte);
        m->byte_ids[byte] = id_of(m, text, 6);
    }
}

/* Whether each of the n bytes has a token, which stands for it where the whole has none. */
static bool has_bytes(const struct tok_model *m, const char *s, size_t n)
{
    bool all = m->byte_fallback;

    for (size_t i = 0; i < n; i++) {
        all = all && m->byte_ids[(unsigned char)s[i]] != VC_NO_ID;
    }
    return all;
}

/* ------------------------------------------------------------------------------------------------ the heap */

/* The least rank, then the first place. */
static bool comes_before(const struct tok_candidate *a, const struct tok_candidate *b)
{
    return a->order < b->order || (!(b->order < a->order) && a->place < b->place);
}

/* Up from the last leaf, while the candidate comes before the one above. */
static enum vc_status push(struct vc_ctx *ctx, struct vc_tokenizer *t, struct tok_candidate candidate)
{
    size_t i = t->n_heap;

    VC_CALL(VC_GROW(ctx, VC_TAG_SCRATCH, t->heap, t->heap_capacity, t->n_heap + 1));
    t->n_heap++;
    while (i > 0 && comes_before(&candidate, &t->heap[(i - 1) / 2])) {
        t->heap[i] = t->heap[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    t->heap[i] = candidate;
    return VC_OK;
}

/* The last leaf goes down from the top, while one of the two below comes before it. */
static struct tok_candidate pop(struct vc_tokenizer *t)
{
    struct tok_candidate top = t->heap[0];
    struct tok_candidate last = t->heap[--t->n_heap];
    size_t i = 0;

    for (size_t child; (child = 2 * i + 1) < t->n_heap; i = child) {
        child += child + 1 < t->n_heap && comes_before(&t->heap[child + 1], &t->heap[child]);
        if (!comes_before(&t->heap[child], &last)) {
            break;
        }
        t->heap[i] = t->heap[child];
    }
    t->heap[i] = last;
    return top;
}

/* ------------------------------------------------------------------------------------------------ BPE */

/* Of both numbers as one. */
static uint64_t pair_hash(uint32_t left, uint32_t right)
{
    return vc_hash_mix(vc_hash_seed(), (uint64_t)left << 32 | right);
}

/* A pair that is looked for among the merges. */
struct pair_key {
    const struct tok_merge *merges;
    uint32_t left, right;
};

static bool is_pair(const void *key, size_t number)
{
    const struct pair_key *pair = key;

    return pair->merges[number].left == pair->left && pair->merges[number].right == pair->right;
}

/* NULL: the pair is not merged. */
static struct tok_merge *find_merge(const struct tok_model *m, uint32_t left, uint32_t right)
{
    struct pair_key key = {m->merges, left, right};
    size_t at = m->n_merges != 0 ? vc_hash_find(&m->merge_table, pair_hash(left, right), is_pair, &key) : SIZE_MAX;

    return at != SIZE_MAX ? &m->merges[at] : NULL;
}

/* The halves of a merge: "left right", or a list of both. */
static bool halves(const json_t *merge, const char **left, size_t *n_left, const char **right, size_t *n_right)
{
    const json_t *a = json_array_get(merge, 0);
    const json_t *b = json_array_get(merge, 1);
    const char *both = json_string_value(merge);
    const char *space = both != NULL ? strchr(both, ' ') : NULL;

    *left = space != NULL ? both : json_string_value(a);
    *right = space != NULL ? space + 1 : json_string_value(b);
    *n_left = space != NULL ? (size_t)(space - both) : json_string_length(a);
    *n_right = space != NULL ? strlen(*right) : json_string_length(b);
    return *left != NULL && *right != NULL && (space == NULL || strchr(space + 1, ' ') == NULL);
}

/* A merge of texts becomes one of numbers: both halves and the whole have to be tokens. The prefix of parts inside of
 * words is left out of the second half. */
static enum vc_status read_merge(struct vc_ctx *ctx, struct tok_model *m, const json_t *merge, size_t rank,
                                 struct tok_text *text)
{
    size_t n_prefix = strlen(m->prefix);
    const char *left;
    const char *right;
    size_t n_left, n_right;
    struct tok_merge found = {.rank = (uint32_t)rank};

    VC_REFUSE_IF(!halves(merge, &left, &n_left, &right, &n_right), ctx, VC_E_FORMAT, "merge %zu is no pair of texts",
                 rank);
    found.left = id_of(m, left, n_left);
    found.right = id_of(m, right, n_right);
    text->n = 0;
    VC_CALL(vc_tok_put(ctx, text, left, n_left, 0));
    n_prefix = n_right < n_prefix ? n_right : n_prefix;
    VC_CALL(vc_tok_put(ctx, text, right + n_prefix, n_right - n_prefix, 0));
    found.id = id_of(m, text->s, text->n);
    VC_REFUSE_IF(found.left == VC_NO_ID || found.right == VC_NO_ID || found.id == VC_NO_ID, ctx, VC_E_FORMAT,
                 "merge %zu, of '%.40s' and '%.40s', is of no tokens, or gives none", rank, left, right);
    struct tok_merge *same = find_merge(m, found.left, found.right);
    if (same != NULL) { /* the last of several holds */
        *same = found;
        return VC_OK;
    }
    m->merges[m->n_merges] = found;
    vc_hash_add(&m->merge_table, pair_hash(found.left, found.right), m->n_merges++);
    return VC_OK;
}

/* The vocabulary first, since merges are about its tokens. */
static enum vc_status read_bpe(struct vc_ctx *ctx, struct vc_tokenizer *t, const json_t *part)
{
    struct tok_model *m = &t->model;
    const json_t *merges = json_object_get(part, "merges");
    const json_t *dropout = json_object_get(part, "dropout");
    struct tok_text text = {.n = 0};
    size_t n;
    enum vc_status status = VC_OK;

    VC_REFUSE_IF(json_number_value(dropout) > 0, ctx, VC_E_UNSUPPORTED,
                 "the model has a dropout: its tokens are drawn by chance");
    VC_REFUSE_IF(!json_is_array(merges), ctx, VC_E_FORMAT, "the model has no list of merges");
    VC_CALL(read_vocab(ctx, t, part));
    VC_CALL(read_unknown(ctx, t, part, false));
    VC_CALL(vc_tok_text_of(ctx, t, part, "continuing_subword_prefix", &m->prefix, &n));
    VC_CALL(vc_tok_text_of(ctx, t, part, "end_of_word_suffix", &m->suffix, &n));
    m->prefix = m->prefix != NULL ? m->prefix : "";
    m->suffix = m->suffix != NULL ? m->suffix : "";
    m->byte_fallback = vc_tok_flag(part, "byte_fallback", false);
    m->fuse_unknown = vc_tok_flag(part, "fuse_unk", false);
    m->ignore_merges = vc_tok_flag(part, "ignore_merges", false);
    find_bytes(m);
    n = json_array_size(merges);
    VC_CALL_ALLOC(m->merges = vc_arena_alloc(ctx, &t->arena, (n + 1) * sizeof *m->merges));
    VC_CALL(vc_hash_make(ctx, n + 1, &m->merge_table));
    for (size_t i = 0; i < n; i++) {
        VC_TRY(read_merge(ctx, m, json_array_get(merges, i), i, &text));
    }
out:
    vc_tok_release(ctx, &text);
    return status;
}

/* At the end of the chain. */
static enum vc_status add_cell(struct vc_ctx *ctx, struct vc_tokenizer *t, size_t *n_cells, struct tok_cell cell)
{
    VC_CALL(VC_GROW(ctx, VC_TAG_SCRATCH, t->cells, t->cell_capacity, *n_cells + 1));
    cell.before = (int32_t)*n_cells - 1;
    cell.next = -1;
    if (*n_cells != 0) {
        t->cells[*n_cells - 1].next = (int32_t)*n_cells;
    }
    t->cells[(*n_cells)++] = cell;
    return VC_OK;
}

/* The token of a character with what the model puts around it; VC_NO_ID: none. */
static enum vc_status character_id(struct vc_ctx *ctx, struct vc_tokenizer *t, const char *s, size_t n, bool first,
                                   bool last, uint32_t *id)
{
    const struct tok_model *m = &t->model;

    if ((first || m->prefix[0] == '\0') && (!last || m->suffix[0] == '\0')) {
        *id = id_of(m, s, n);
        return VC_OK;
    }
    t->other.n = 0;
    VC_CALL(vc_tok_put(ctx, &t->other, m->prefix, first ? 0 : strlen(m->prefix), 0));
    VC_CALL(vc_tok_put(ctx, &t->other, s, n, 0));
    VC_CALL(vc_tok_put(ctx, &t->other, m->suffix, last ? strlen(m->suffix) : 0, 0));
    *id = id_of(m, t->other.s, t->other.n);
    return VC_OK;
}

/* The characters of a word as cells: in the order in which the library has them, which keeps one unknown back until the next
 * known character. */
static enum vc_status make_cells(struct vc_ctx *ctx, struct vc_tokenizer *t, const char *s, size_t n, size_t *n_cells)
{
    const struct tok_model *m = &t->model;
    struct tok_cell unknown = {.n = 0};

    for (size_t i = 0; i < n;) {
        size_t begin = i;
        uint32_t id;
        size_t bytes;

        (void)vc_utf8_at(s + i, &bytes);
        i += bytes;
        VC_CALL(character_id(ctx, t, s + begin, bytes, begin == 0, i == n, &id));
        if (id != VC_NO_ID) {
            if (unknown.n != 0) {
                VC_CALL(add_cell(ctx, t, n_cells, unknown));
                unknown.n = 0;
            }
            VC_CALL(
                add_cell(ctx, t, n_cells, (struct tok_cell){.id = id, .begin = (uint32_t)begin, .n = (uint32_t)bytes}));
            continue;
        }
        /* the affixes count as bytes of the character, as they do in the library */
        bool alone = (begin == 0 || m->prefix[0] == '\0') && (i != n || m->suffix[0] == '\0');
        const char *text = alone ? s + begin : t->other.s;
        size_t n_text = alone ? bytes : t->other.n;

        if (has_bytes(m, text, n_text)) {
            for (size_t k = 0; k < n_text; k++) {
                VC_CALL(add_cell(ctx, t, n_cells,
                                 (struct tok_cell){.id = m->byte_ids[(unsigned char)text[k]],
                                                   .begin = (uint32_t)(begin + (k < bytes ? k : bytes - 1)),
                                                   .n = 1}));
            }
            continue;
        }
        if (m->unknown == VC_NO_ID) {
            continue;
        }
        if (unknown.n != 0 && !m->fuse_unknown) {
            VC_CALL(add_cell(ctx, t, n_cells, unknown));
            unknown.n = 0;
        }
        unknown.begin = unknown.n == 0 ? (uint32_t)begin : unknown.begin;
        unknown.id = m->unknown;
        unknown.n += (uint32_t)bytes;
    }
    return unknown.n != 0 ? add_cell(ctx, t, n_cells, unknown) : VC_OK;
}

/* Pieces are symbols whatever they are made of; control, unknown and byte pieces are found by no text. */
static const struct tok_entry *find_piece(const struct tok_model *m, const char *s, size_t n)
{
    const struct tok_entry *entry = vc_tok_vocab_find(&m->vocab, s, n);

    return entry != NULL && (m->types[entry->id] == VC_PIECE_NORMAL || m->types[entry->id] == VC_PIECE_USER) ? entry
                                                                                                             : NULL;
}

/* The merge of cell `place` and the next one, if there is one: of BPE by their numbers, of SentencePiece by the piece that they
 * are together. */
static bool find_candidate(const struct vc_tokenizer *t, const char *s, int32_t place, struct tok_candidate *to)
{
    const struct tok_cell *cell = &t->cells[place >= 0 ? place : 0];

    if (place < 0 || cell->n == 0 || cell->next < 0) {
        return false;
    }
    const struct tok_cell *next = &t->cells[cell->next];
    *to = (struct tok_candidate){.place = (uint32_t)place, .id = cell->n + next->n};
    if (!t->model.is_pieces) {
        const struct tok_merge *merge = find_merge(&t->model, cell->id, next->id);

        to->order = merge != NULL ? merge->rank : 0;
        to->id = merge != NULL ? merge->id : 0;
        return merge != NULL;
    }
    const struct tok_entry *piece =
        cell->frozen || next->frozen ? NULL : find_piece(&t->model, s + cell->begin, cell->n + next->n);
    to->order = piece != NULL ? -piece->score : 0;
    return piece != NULL;
}

static enum vc_status offer(struct vc_ctx *ctx, struct vc_tokenizer *t, const char *s, int32_t place)
{
    struct tok_candidate candidate;

    return find_candidate(t, s, place, &candidate) ? push(ctx, t, candidate) : VC_OK;
}

/* The next cell becomes part of this one. */
static void join(struct vc_tokenizer *t, struct tok_cell *cell)
{
    struct tok_cell *next = &t->cells[cell->next];

    cell->n += next->n;
    next->n = 0;
    cell->next = next->next;
    if (cell->next >= 0) {
        t->cells[cell->next].before = (int32_t)(cell - t->cells);
    }
}

/* Candidates are offered for all neighbours first, then for the two new pairs behind each merge. One of cells that have
 * changed since then is dropped when it is taken. */
static enum vc_status merge_cells(struct vc_ctx *ctx, struct vc_tokenizer *t, const char *s, size_t n_cells)
{
    t->n_heap = 0;
    for (size_t i = 0; i + 1 < n_cells; i++) {
        VC_CALL(offer(ctx, t, s, (int32_t)i));
    }
    while (t->n_heap != 0) {
        struct tok_candidate top = pop(t);
        struct tok_candidate now;

        if (!find_candidate(t, s, (int32_t)top.place, &now) || now.id != top.id) {
            continue;
        }
        join(t, &t->cells[top.place]);
        t->cells[top.place].id = top.id;
        VC_CALL(offer(ctx, t, s, t->cells[top.place].before));
        VC_CALL(offer(ctx, t, s, (int32_t)top.place));
    }
    return VC_OK;
}

static enum vc_status bpe_word(struct vc_ctx *ctx, struct vc_tokenizer *t, const char *s, const uint32_t *at, size_t n)
{
    size_t n_cells = 0;

    if (t->model.ignore_merges) {
        uint32_t id = id_of(&t->model, s, n);

        if (id != VC_NO_ID) {
            return vc_tok_put_token(ctx, t, id, at[0]);
        }
    }
    VC_CALL(make_cells(ctx, t, s, n, &n_cells));
    VC_CALL(merge_cells(ctx, t, s, n_cells));
    for (int32_t i = n_cells != 0 ? 0 : -1; i >= 0; i = t->cells[i].next) {
        VC_CALL(vc_tok_put_token(ctx, t, t->cells[i].id, at[t->cells[i].begin]));
    }
    return VC_OK;
}

/* ------------------------------------------------------------------------------------------------ WordPiece, WordLevel */

/* Parts inside of words have "##" in front, unless the file says otherwise. */
static enum vc_status read_word_piece(struct vc_ctx *ctx, struct vc_tokenizer *t, const json_t *part)
{
    struct tok_model *m = &t->model;
    const json_t *most = json_object_get(part, "max_input_chars_per_word");
    size_t n;

    VC_CALL(read_vocab(ctx, t, part));
    VC_CALL(read_unknown(ctx, t, part, true));
    VC_CALL(vc_tok_text_of(ctx, t, part, "continuing_subword_prefix", &m->prefix, &n));
    m->prefix = m->prefix != NULL ? m->prefix : "##";
    m->most_characters =
        json_is_integer(most) && json_integer_value(most) >= 0 ? (size_t)json_integer_value(most) : 100;
    return VC_OK;
}

/* Bytes that begin a character. */
static size_t count_characters(const char *s, size_t n)
{
    size_t count = 0;

    for (size_t i = 0; i < n; i++) {
        count += ((unsigned char)s[i] & 0xc0) != 0x80;
    }
    return count;
}

/* The longest token at each place, or one unknown for the whole word. */
static enum vc_status word_piece(struct vc_ctx *ctx, struct vc_tokenizer *t, const char *s, const uint32_t *at,
                                 size_t n)
{
    const struct tok_model *m = &t->model;
    size_t first = t->out->n;
    size_t begin = 0;

    if (count_characters(s, n) > m->most_characters) {
        return vc_tok_put_token(ctx, t, m->unknown, at[0]);
    }
    while (begin < n) {
        size_t n_prefix = begin != 0 ? strlen(m->prefix) : 0;
        size_t end = n;
        uint32_t id = VC_NO_ID;

        t->other.n = 0;
        VC_CALL(vc_tok_put(ctx, &t->other, m->prefix, n_prefix, 0));
        VC_CALL(vc_tok_put(ctx, &t->other, s + begin, n - begin, 0));
        while (end > begin && (id = id_of(m, t->other.s, n_prefix + end - begin)) == VC_NO_ID) {
            end -= vc_utf8_before(s, end);
        }
        if (id == VC_NO_ID) {
            t->out->n = first;
            return vc_tok_put_token(ctx, t, m->unknown, at[0]);
        }
        VC_CALL(vc_tok_put_token(ctx, t, id, at[begin]));
        begin = end;
    }
    return VC_OK;
}

/* A vocabulary and no more. */
static enum vc_status read_word_level(struct vc_ctx *ctx, struct vc_tokenizer *t, const json_t *part)
{
    VC_CALL(read_vocab(ctx, t, part));
    return read_unknown(ctx, t, part, true);
}

/* A word is a token, or unknown. */
static enum vc_status word_level(struct vc_ctx *ctx, struct vc_tokenizer *t, const char *s, const uint32_t *at,
                                 size_t n)
{
    uint32_t id = id_of(&t->model, s, n);

    return vc_tok_put_token(ctx, t, id != VC_NO_ID ? id : t->model.unknown, at[0]);
}

/* ------------------------------------------------------------------------------------------------ Unigram */

/* Tokens have scores, logarithms of probabilities; the lowest decides what unknown characters cost. */
static enum vc_status read_unigram(struct vc_ctx *ctx, struct vc_tokenizer *t, const json_t *part)
{
    struct tok_model *m = &t->model;
    const json_t *vocab = json_object_get(part, "vocab");
    size_t n = json_array_size(vocab);

    VC_REFUSE_IF(n == 0, ctx, VC_E_FORMAT, "the model has no vocab");
    m->least = DBL_MAX;
    for (size_t i = 0; i < n; i++) {
        const json_t *text = json_array_get(json_array_get(vocab, i), 0);
        const json_t *score = json_array_get(json_array_get(vocab, i), 1);

        VC_REFUSE_IF(!json_is_string(text) || !json_is_number(score), ctx, VC_E_FORMAT,
                     "token %zu has no text, or no score", i);
        VC_CALL(vc_tok_vocab_add(ctx, &t->arena, &m->vocab, json_string_value(text), json_string_length(text),
                                 (uint32_t)i, json_number_value(score)));
        m->least = json_number_value(score) < m->least ? json_number_value(score) : m->least;
    }
    m->unknown = vc_tok_number(json_object_get(part, "unk_id"));
    VC_REFUSE_IF(m->unknown != VC_NO_ID && m->unknown >= n, ctx, VC_E_FORMAT, "unk_id is no token");
    m->byte_fallback = vc_tok_flag(part, "byte_fallback", false);
    find_bytes(m);
    return vc_tok_vocab_sort(ctx, &m->vocab);
}

/* The score of an entry for the search; SentencePiece has rules of its own, and floats. false: it is not sought. */
static bool score_of(const struct tok_model *m, const struct tok_entry *entry, double *score)
{
    int type = m->is_pieces ? m->types[entry->id] : VC_PIECE_NORMAL;

    *score = type == VC_PIECE_USER ? (double)entry->n * m->most - 0.1 : entry->score;
    return type == VC_PIECE_NORMAL || type == VC_PIECE_USER;
}

/* A way to place `to` by a token; floats where SentencePiece has them. */
static void reach(struct vc_tokenizer *t, size_t from, size_t to, uint32_t id, double score)
{
    struct tok_path *path = &t->paths[to];
    double sum = score + t->paths[from].score;

    if (path->from == VC_NO_ID || sum > path->score) {
        *path = (struct tok_path){t->model.is_pieces ? (double)(float)sum : sum, id, (uint32_t)from};
    }
}

/* Viterbi: the best path to each place. t->paths[n] leads back. */
static enum vc_status find_paths(struct vc_ctx *ctx, struct vc_tokenizer *t, const char *s, size_t n)
{
    const struct tok_model *m = &t->model;

    VC_CALL(VC_GROW(ctx, VC_TAG_SCRATCH, t->paths, t->path_capacity, n + 1));
    for (size_t i = 0; i <= n; i++) {
        t->paths[i] = (struct tok_path){0, VC_NO_ID, VC_NO_ID};
    }
    for (size_t i = 0; i < n;) {
        struct tok_prefixes walk = vc_tok_prefixes(&m->vocab, s + i);
        const struct tok_entry *entry;
        bool whole = false;
        size_t bytes;
        double score;

        (void)vc_utf8_at(s + i, &bytes);
        while ((entry = vc_tok_next_prefix(&m->vocab, &walk, s + i, n - i)) != NULL) {
            if (score_of(m, entry, &score)) {
                reach(t, i, i + entry->n, entry->id, score);
                whole = whole || entry->n == bytes;
            }
        }
        if (!whole) {
            VC_REFUSE_IF(m->unknown == VC_NO_ID, ctx, VC_E_UNSUPPORTED,
                         "the text has a character that no token has, and the model has no unknown token");
            reach(t, i, i + bytes, m->unknown, m->least - UNKNOWN_PENALTY);
        }
        i += bytes;
    }
    return VC_OK;
}

/* Unknown text: its bytes, or one unknown token. */
static enum vc_status put_unknown(struct vc_ctx *ctx, struct vc_tokenizer *t, const char *s, const uint32_t *at,
                                  size_t n)
{
    if (!has_bytes(&t->model, s, n)) {
        return vc_tok_put_token(ctx, t, t->model.unknown, at[0]);
    }
    for (size_t i = 0; i < n; i++) {
        VC_CALL(vc_tok_put_token(ctx, t, t->model.byte_ids[(unsigned char)s[i]], at[i]));
    }
    return VC_OK;
}

/* The tokens of the path, in its order: unknown ones that follow each other are one. */
static enum vc_status unigram(struct vc_ctx *ctx, struct vc_tokenizer *t, const char *s, const uint32_t *at, size_t n)
{
    VC_CALL(find_paths(ctx, t, s, n));
    for (size_t end = n, next = VC_NO_ID; end > 0;) { /* turns the way back into the way there */
        size_t from = t->paths[end].from;

        t->paths[end].from = (uint32_t)next;
        next = end;
        end = from;
        t->paths[0].from = (uint32_t)next;
    }
    for (size_t begin = 0; begin < n;) {
        size_t end = t->paths[begin].from;
        uint32_t id = t->paths[end].id;

        if (id != t->model.unknown) {
            VC_CALL(vc_tok_put_token(ctx, t, id, at[begin]));
            begin = end;
            continue;
        }
        while (end < n && t->paths[t->paths[end].from].id == id) {
            end = t->paths[end].from;
        }
        id = t->model.is_pieces ? VC_NO_ID : id_of(&t->model, s + begin, end - begin);
        if (id != VC_NO_ID) {
            VC_CALL(vc_tok_put_token(ctx, t, id, at[begin]));
        } else {
            VC_CALL(put_unknown(ctx, t, s + begin, at + begin, end - begin));
        }
        begin = end;
    }
    return VC_OK;
}

/* ------------------------------------------------------------------------------------------------ SentencePiece's BPE */

/* Characters as cells, and symbols, which are not cut. */
static enum vc_status make_symbols(struct vc_ctx *ctx, struct vc_tokenizer *t, const char *s, size_t n, size_t *n_cells)
{
    for (size_t i = 0; i < n;) {
        struct tok_prefixes walk = vc_tok_prefixes(&t->model.symbols, s + i);
        const struct tok_entry *symbol;
        struct tok_cell cell = {.begin = (uint32_t)i};
        size_t bytes;

        while ((symbol = vc_tok_next_prefix(&t->model.symbols, &walk, s + i, n - i)) != NULL) {
            cell.n = symbol->n;
            cell.frozen = true;
        }
        (void)vc_utf8_at(s + i, &bytes);
        cell.n = cell.frozen ? cell.n : (uint32_t)bytes;
        VC_CALL(add_cell(ctx, t, n_cells, cell));
        i += cell.n;
    }
    return VC_OK;
}

static enum vc_status piece_bpe(struct vc_ctx *ctx, struct vc_tokenizer *t, const char *s, const uint32_t *at, size_t n)
{
    size_t n_cells = 0;

    VC_CALL(make_symbols(ctx, t, s, n, &n_cells));
    VC_CALL(merge_cells(ctx, t, s, n_cells));
    for (int32_t i = n_cells != 0 ? 0 : -1; i >= 0;) {
        const struct tok_cell *cell = &t->cells[i];
        uint32_t id = id_of(&t->model, s + cell->begin, cell->n);
        size_t bytes = cell->n;
        int32_t next = cell->next;

        if (id != VC_NO_ID && id != t->model.unknown) {
            VC_CALL(vc_tok_put_token(ctx, t, id, at[cell->begin]));
            i = next;
            continue;
        }
        while (next >= 0 && (id = id_of(&t->model, s + t->cells[next].begin, t->cells[next].n), /* unknown, too */
                             id == VC_NO_ID || id == t->model.unknown)) {
            bytes += t->cells[next].n;
            next = t->cells[next].next;
        }
        VC_CALL(put_unknown(ctx, t, s + cell->begin, at + cell->begin, bytes));
        i = next;
    }
    return VC_OK;
}

/* ------------------------------------------------------------------------------------------------ reading */

static const struct tok_model_row rows[] = {{"BPE", read_bpe, bpe_word},
                                            {"WordPiece", read_word_piece, word_piece},
                                            {"Unigram", read_unigram, unigram},
                                            {"WordLevel", read_word_level, word_level}};
static const struct tok_model_row pieces_bpe = {.type = "BPE", .word = piece_bpe};
static const struct tok_model_row pieces_unigram = {.type = "Unigram", .word = unigram};

/* "type", or, in files of before it was written, what it has. */
static const char *type_of(const json_t *part)
{
    const char *type = json_string_value(json_object_get(part, "type"));

    if (type != NULL || json_object_get(part, "merges") != NULL) {
        return type != NULL ? type : "BPE";
    }
    return json_is_array(json_object_get(part, "vocab"))               ? "Unigram"
           : json_object_get(part, "max_input_chars_per_word") != NULL ? "WordPiece"
                                                                       : "WordLevel";
}

enum vc_status vc_tok_read_model(struct vc_ctx *ctx, struct vc_tokenizer *t, const json_t *part)
{
    const char *type = type_of(part);

    VC_REFUSE_IF(!json_is_object(part), ctx, VC_E_FORMAT, "it has no model");
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (strcmp(rows[i].type, type) == 0) {
            t->model.row = &rows[i];
            return rows[i].read(ctx, t, part);
        }
    }
    return vc_fail(ctx, VC_E_UNSUPPORTED, "the model '%.60s' is not known", type);
}

struct taking {
    struct vc_ctx *ctx;
    struct vc_tokenizer *t;
};

/* vc_pieces_read. */
static enum vc_status take_piece(void *user, uint64_t number, const struct vc_piece *piece)
{
    struct vc_ctx *ctx = ((struct taking *)user)->ctx;
    struct vc_tokenizer *t = ((struct taking *)user)->t;
    struct tok_model *m = &t->model;
    size_t capacity = m->vocab.capacity;

    VC_CALL(vc_tok_vocab_add(ctx, &t->arena, &m->vocab, piece->text, piece->n, (uint32_t)number, piece->score));
    if (m->vocab.capacity != capacity || m->types == NULL) {
        uint8_t *types = vc_arena_alloc(ctx, &t->arena, m->vocab.capacity + 1);

        VC_CALL_ALLOC(types);
        memcpy(types, m->types != NULL ? m->types : types, m->types != NULL ? (size_t)number : 0);
        m->types = types;
    }
    VC_REFUSE_IF(m->vocab.n != number + 1, ctx, VC_E_FORMAT, "piece %llu is there twice", (unsigned long long)number);
    VC_REFUSE_IF(piece->type == VC_PIECE_UNUSED, ctx, VC_E_UNSUPPORTED,
                 "piece %llu is unused, as in a vocabulary that was restricted", (unsigned long long)number);
    m->types[number] = (uint8_t)piece->type;
    if (piece->type == VC_PIECE_NORMAL) {
        m->least = piece->score < m->least ? piece->score : m->least;
        m->most = piece->score > m->most ? piece->score : m->most;
    }
    return piece->type == VC_PIECE_USER
               ? vc_tok_vocab_add(ctx, &t->arena, &m->symbols, piece->text, piece->n, (uint32_t)number, 0)
               : VC_OK;
}

enum vc_status vc_tok_read_pieces(struct vc_ctx *ctx, struct vc_tokenizer *t, const char *path)
{
    struct tok_model *m = &t->model;
    struct taking taking = {ctx, t};

    m->is_pieces = true;
    m->prefix = m->suffix = "";
    m->least = FLT_MAX;
    m->most = -FLT_MAX;
    VC_CALL(vc_pieces_read(ctx, &t->arena, path, &t->rules, take_piece, &taking));
    m->row = t->rules.kind == VC_PIECES_BPE ? &pieces_bpe : &pieces_unigram;
    m->byte_fallback = t->rules.byte_fallback;
    m->unknown = t->rules.unknown < m->vocab.n ? (uint32_t)t->rules.unknown : VC_NO_ID;
    VC_REFUSE_IF(m->unknown == VC_NO_ID, ctx, VC_E_FORMAT, "%s: has no unknown piece", strrchr(path, '/') + 1);
    find_bytes(m);
    VC_CALL(vc_tok_vocab_sort(ctx, &m->symbols));
    return vc_tok_vocab_sort(ctx, &m->vocab);
}

enum vc_status vc_tok_model_word(struct vc_ctx *ctx, struct vc_tokenizer *t, const char *s, const uint32_t *at,
                                 size_t n)
{
    return n != 0 ? t->model.row->word(ctx, t, s, at, n) : VC_OK;
}
