/* text_tokens.c - opens a text as a model with one tensor, "input_ids": rows of tokens, made by the tokenizer of a folder
 * (vc_open_options.tokenizer).
 *
 *     corpus.txt      UTF-8, one text. Of more than VC_TEXT_PIECE bytes: taken in pieces that end at a line's end
 *     corpus.jsonl    a JSON object a line, whose "text" is a text; empty lines and texts are none
 *
 *     text 1                 text 2                  texts are joined by the end-of-text token, where the tokenizer has none
 *     t t t t t t t t  <end> t t t t t t             by what it puts behind a text
 *
 *     <s> t t t t t </s>                             a row: what the tokenizer puts in front of a text, as many tokens of
 *     <s> t t t <end> t </s>                         the texts as there is room for, what it puts behind. What is left
 *     <s> t t ...                                    behind the last whole row is dropped
 *
 * The tokens go through an unnamed file in $TMPDIR, so that a text of any size takes the memory of one piece, or one line.
 * Beside each token is how many bytes of the text it covers: up to where the next one begins. */
#include <errno.h>
#include <unistd.h>

#include "core/base/array.h"
#include "core/base/clock.h"
#include "formats/dialects/dialects.h"
#include "formats/io/one_tensor.h"
#include "formats/io/outfile.h"
#include "formats/json/json_walk.h"
#include "formats/tokenizer/tokenizer.h"
#include "formats/tokenizer/unicode.h"
#include "formats/tokens/tokens.h"

/* Limits of what is in memory at a time. */
#define VC_TEXT_PIECE ((size_t)2 << 20)
#define MOST_LINE     VC_MOST_TEXT_BYTES
#define BLOCK         ((size_t)1 << 20)
#define BUFFERED      ((size_t)1 << 14) /* numbers that are written at a time */

/* Numbers on their way into an unnamed file. */
struct spool {
    int fd; /* -1: not open */
    uint64_t n_bytes;
    uint32_t *buffer; /* BUFFERED, the pool's */
    size_t n;
};

/* `self` of the model: tokens are in one.file. */
struct text_file {
    struct vc_one_tensor one; /* first */
    uint64_t shape[2];
    struct vc_infile *text, *covered;
};

/* While the tokens are made. */
struct packing {
    struct vc_ctx *ctx;
    struct text_file *self;
    struct vc_tokenizer *tokenizer;
    const struct vc_token_frame *frame;
    struct vc_token_list tokens;
    struct spool ids, covered;
    uint64_t length, most_rows, n_rows;
    uint64_t n_tokens;   /* of texts */
    uint64_t in_row;     /* tokens of the row that is begun */
    bool first, is_done; /* no text came yet; there are as many rows as are wanted */
    /* the text file */
    char *data;
    size_t n, capacity;
    uint64_t at;     /* of the file: behind what was read */
    uint64_t line;   /* its number, from 1 on */
    double reported; /* when progress was told */
};

/* By the end of the name: nothing in a text says that it is one. */
bool vc_is_text(const char *path)
{
    return vc_ends_in(path, ".txt") || vc_ends_in(path, ".jsonl");
}

/* ------------------------------------------------------------------------------------------------ rows */

/* Writes what is buffered behind what was written. */
static enum vc_status flush(struct vc_ctx *ctx, struct spool *spool)
{
    size_t n = spool->n * sizeof *spool->buffer;

    VC_CALL(vc_tempfile_write(ctx, spool->fd, spool->n_bytes, spool->buffer, n));
    spool->n_bytes += n;
    spool->n = 0;
    return VC_OK;
}

/* Little-endian, as the model's tensor is. */
static enum vc_status put_number(struct vc_ctx *ctx, struct spool *spool, uint32_t number)
{
    unsigned char *to = (unsigned char *)&spool->buffer[spool->n++];

    for (unsigned i = 0; i < 4; i++) {
        to[i] = (unsigned char)(number >> 8 * i);
    }
    return spool->n == BUFFERED ? flush(ctx, spool) : VC_OK;
}

/* A number of the row that is begun, and the bytes of text that it covers. */
static enum vc_status put(struct packing *p, uint32_t id, uint32_t covered)
{
    p->in_row++;
    VC_CALL(put_number(p->ctx, &p->ids, id));
    return put_number(p->ctx, &p->covered, covered);
}

/* A token of the texts: with the begin of its row, with the end. */
static enum vc_status put_token(struct packing *p, uint32_t id, uint32_t covered)
{
    const struct vc_token_frame *f = p->frame;
    bool begins = p->in_row == 0;

    if (p->is_done) {
        return VC_OK;
    }
    for (size_t i = 0; begins && i < f->n_before; i++) {
        VC_CALL(put(p, f->before[i], 0));
    }
    VC_CALL(put(p, id, covered));
    p->n_tokens++;
    if (p->in_row + f->n_behind < p->length) {
        return VC_OK;
    }
    for (size_t i = 0; i < f->n_behind; i++) {
        VC_CALL(put(p, f->behind[i], 0));
    }
    p->in_row = 0;
    p->is_done = ++p->n_rows == p->most_rows;
    return VC_OK;
}

/* What stands between two texts. */
static enum vc_status put_between(struct packing *p)
{
    const struct vc_token_frame *f = p->frame;

    if (f->has_end) {
        return put_token(p, f->end, 0);
    }
    for (size_t i = 0; i < f->n_behind; i++) {
        VC_CALL(put_token(p, f->behind[i], 0));
    }
    return VC_OK;
}

/* A text, or a piece of one, that goes on with the one before. */
static enum vc_status put_text(struct packing *p, const char *text, size_t n, bool goes_on)
{
    const struct vc_token_list *list = &p->tokens;

    VC_CALL(vc_tokenizer_encode(p->ctx, p->tokenizer, text, n, &p->tokens));
    if (list->n != 0 && !goes_on && !p->first) {
        VC_CALL(put_between(p));
    }
    p->first = p->first && list->n == 0;
    for (size_t i = 0; i < list->n && !p->is_done; i++) {
        uint32_t begin = i == 0 ? 0 : list->tokens[i].at;
        uint32_t end = i + 1 < list->n ? list->tokens[i + 1].at : (uint32_t)n;

        VC_CALL(put_token(p, list->tokens[i].id, end - begin));
    }
    return vc_check_cancelled(p->ctx);
}

/* ------------------------------------------------------------------------------------------------ reading */

/* Tells how far the text is read. */
static void tell(struct packing *p, bool end)
{
    struct vc_progress progress = {
        .what = "tokenize", .tensor = end ? "" : "input_ids", .total = p->self->text->size_bytes};
    double now = vc_seconds();

    if (p->ctx->shared->progress == NULL || (!end && now - p->reported < 0.1)) {
        return;
    }
    p->reported = now;
    progress.done = end ? progress.total : p->at;
    p->ctx->shared->progress(p->ctx->shared->progress_user, &progress);
}

/* Reads more of the file, behind what is there. */
static enum vc_status read_more(struct packing *p, size_t most)
{
    size_t n = (size_t)vc_min_u64(most, p->self->text->size_bytes - p->at);

    tell(p, false);
    VC_CALL(VC_GROW(p->ctx, VC_TAG_IO, p->data, p->capacity, p->n + n + 1));
    VC_CALL(vc_infile_read(p->ctx, p->self->text, p->at, p->data + p->n, n));
    p->at += n;
    p->n += n;
    return VC_OK;
}

/* Drops the first n bytes. */
static void drop(struct packing *p, size_t n)
{
    p->n -= n;
    memmove(p->data, p->data + n, p->n);
}

/* A line end between two characters that are no spaces. A byte follows. */
static bool is_line_end(const char *s, size_t i)
{
    return s[i] == '\n' && i > 0 && (unsigned char)s[i - 1] > ' ' && (unsigned char)s[i + 1] > ' ';
}

/* Where a piece of n bytes is cut that more follow: behind the last end of a line without spaces around it, at which no
 * known expression looks further; else behind the last end of a line; else before the last character. */
static size_t cut_at(const char *s, size_t n)
{
    size_t i = n - 1;

    while (i > 0 && !is_line_end(s, i - 1)) {
        i--;
    }
    if (i != 0) {
        return i;
    }
    for (i = n; i > 0 && s[i - 1] != '\n';) {
        i--;
    }
    for (i = i != 0 ? i : n - 1; i > 0 && ((unsigned char)s[i] & 0xc0) == 0x80;) {
        i--;
    }
    return i != 0 ? i : n;
}

/* The place in the sentence is that of the file. */
static enum vc_status check_text(const struct packing *p, const char *s, size_t n, uint64_t at)
{
    size_t valid = vc_utf8_valid_bytes(s, n);

    return valid == n ? VC_OK
                      : vc_fail(p->ctx, VC_E_FORMAT,
                                "is no UTF-8 at byte %" PRIu64 "; iconv makes UTF-8 of other encodings", at + valid);
}

/* Piece by piece; each goes on with the text of the one before. */
static enum vc_status read_text(struct packing *p)
{
    bool goes_on = false;

    while (!p->is_done && (p->n != 0 || p->at < p->self->text->size_bytes)) {
        size_t n;

        VC_CALL(read_more(p, VC_TEXT_PIECE - vc_min_u64(p->n, VC_TEXT_PIECE)));
        n = p->at < p->self->text->size_bytes ? cut_at(p->data, p->n) : p->n;
        VC_CALL(check_text(p, p->data, n, p->at - p->n));
        VC_CALL(put_text(p, p->data, n, goes_on));
        goes_on = true;
        drop(p, n);
    }
    return VC_OK;
}

/* One line of JSON lines. */
static enum vc_status put_line(struct packing *p, const char *line, size_t n)
{
    json_error_t error;
    uint64_t counted;
    enum vc_status status = VC_OK;

    p->line++;
    while (n > 0 && strchr(" \t\r", line[n - 1]) != NULL && line[n - 1] != '\0') {
        n--;
    }
    if (n == 0) {
        return VC_OK;
    }
    if (vc_json_tree_charge(p->ctx, line, n, &counted) != VC_OK) {
        return vc_context(p->ctx, "line %" PRIu64, p->line);
    }
    json_t *root = json_loadb(line, n, JSON_ALLOW_NUL, &error);
    json_t *text = json_object_get(root, "text");
    if (!json_is_string(text)) {
        status = root == NULL
                     ? vc_fail(p->ctx, VC_E_FORMAT, "line %" PRIu64 " is no JSON: %s", p->line, error.text)
                     : vc_fail(p->ctx, VC_E_FORMAT, "line %" PRIu64 " has no \"text\" that is a text", p->line);
    } else {
        status = put_text(p, json_string_value(text), json_string_length(text), false);
    }
    vc_json_tree_free(p->ctx, root, counted);
    return status;
}

/* Blocks are read until they hold a line's end; then all whole lines are taken. */
static enum vc_status read_lines(struct packing *p)
{
    size_t looked = 0;

    while (!p->is_done && (p->n != 0 || p->at < p->self->text->size_bytes)) {
        const char *end = p->n != 0 ? memchr(p->data + looked, '\n', p->n - looked) : NULL;
        size_t begin = 0;

        if (end == NULL && p->at < p->self->text->size_bytes) {
            VC_REFUSE_IF(p->n > MOST_LINE, p->ctx, VC_E_UNSUPPORTED, "line %" PRIu64 " has more than %zu MiB",
                         p->line + 1, MOST_LINE >> 20);
            looked = p->n;
            VC_CALL(read_more(p, BLOCK));
            continue;
        }
        if (p->line == 0 && p->n >= 3 && memcmp(p->data, "\xef\xbb\xbf", 3) == 0) {
            begin = 3; /* a byte order mark, which JSON does not have */
        }
        while (!p->is_done && end != NULL) { /* all whole lines, then they are dropped at once */
            VC_CALL(put_line(p, p->data + begin, (size_t)(end - p->data) - begin));
            begin = (size_t)(end - p->data) + 1;
            end = memchr(p->data + begin, '\n', p->n - begin);
        }
        if (p->at == p->self->text->size_bytes && !p->is_done) {
            VC_CALL(put_line(p, p->data + begin, p->n - begin));
            begin = p->n;
        }
        drop(p, begin);
        looked = 0;
    }
    return VC_OK;
}

/* ------------------------------------------------------------------------------------------------ the model */

/* An unnamed file goes with the process, however it ends. */
static enum vc_status open_spool(struct packing *p, struct spool *spool)
{
    VC_CALL(VC_ARRAY(p->ctx, VC_TAG_IO, spool->buffer, BUFFERED));
    spool->fd = vc_tempfile_open(p->ctx);
    return spool->fd >= 0 ? VC_OK : p->ctx->status;
}

/* The spool becomes an input of that name. */
static enum vc_status close_spool(struct packing *p, struct spool *spool, struct vc_infile **out)
{
    struct stat st;
    int fd = spool->fd;

    VC_CALL(flush(p->ctx, spool));
    VC_RETURN_IF(fstat(fd, &st) != 0, vc_fail_errno(p->ctx, errno, "a temporary file cannot be looked at"));
    spool->fd = -1;
    return vc_infile_adopt(p->ctx, fd, &st, p->self->text->path, out);
}

/* At the end the tokens of the last, unfinished row stay unread behind the rows. */
static enum vc_status pack(struct packing *p, const char *path)
{
    const struct vc_token_frame *f = p->frame;

    VC_REFUSE_IF(p->length <= f->n_before + f->n_behind, p->ctx, VC_E_ARGUMENT,
                 "%s %" PRIu64 " leaves no room: the tokenizer puts %zu tokens around each row",
                 vc_option(p->ctx, "length"), p->length, f->n_before + f->n_behind);
    VC_CALL(open_spool(p, &p->ids));
    VC_CALL(open_spool(p, &p->covered));
    if (vc_ends_in(path, ".jsonl")) {
        VC_CALL(read_lines(p));
    } else {
        VC_CALL(read_text(p));
    }
    tell(p, true);
    VC_REFUSE_IF(p->n_rows == 0, p->ctx, VC_E_FORMAT,
                 "becomes %" PRIu64 " tokens, less than one row of %" PRIu64 " with the %zu around it", p->n_tokens,
                 p->length, f->n_before + f->n_behind);
    p->self->one.file = NULL;
    VC_CALL(close_spool(p, &p->ids, &p->self->one.file));
    return close_spool(p, &p->covered, &p->self->covered);
}

/* Bytes of text that tokens cover, for figures by byte. */
static enum vc_status text_bytes(struct vc_ctx *ctx, const struct vc_model *model, uint64_t first, size_t n,
                                 uint32_t *to)
{
    const struct text_file *self = model->self;

    VC_CALL(vc_infile_read(ctx, self->covered, first * sizeof *to, to, n * sizeof *to));
    for (size_t i = 0; i < n; i++) {
        to[i] = vc_le32((const unsigned char *)&to[i]);
    }
    return VC_OK;
}

static void text_close(struct vc_model *model)
{
    struct text_file *self = model->self;

    vc_infile_close(model->ctx, self->covered);
    if (self->text != self->one.file) {
        vc_infile_close(model->ctx, self->text);
    }
    vc_one_tensor_close(model);
}

static const struct vc_source_ops text_ops = {
    .read = vc_one_tensor_read, .ahead = vc_one_tensor_ahead, .close = text_close, .text_bytes = text_bytes};

/* The folder that was given, or the other one where it has no tokenizer. */
static enum vc_status open_tokenizer(struct vc_ctx *ctx, const struct vc_open_options *options,
                                     struct vc_tokenizer **out)
{
    const char *folder = options->tokenizer;
    bool there = true;

    VC_REFUSE_IF(folder == NULL || vc_is_stream(folder), ctx, VC_E_UNSUPPORTED,
                 "is a text; what its tokens are says the tokenizer in a model's folder, and there is no such folder");
    if (options->tokenizer_else != NULL && !vc_is_stream(options->tokenizer_else)) {
        VC_CALL(vc_tokenizer_is_beside(ctx, folder, &there));
    }
    folder = there ? folder : options->tokenizer_else;
    return vc_tokenizer_open(ctx, folder, out) == VC_OK ? VC_OK : vc_context(ctx, "%s", folder);
}

/* vc_format.open. */
static enum vc_status text_open(struct vc_ctx *ctx, struct vc_infile *file, const struct vc_open_options *options,
                                struct vc_model *model)
{
    struct packing p = {.ctx = ctx,
                        .ids.fd = -1,
                        .covered.fd = -1,
                        .length = options->row_tokens,
                        .most_rows = options->most_rows,
                        .first = true};

    VC_CALL(vc_one_tensor_begin(ctx, file, sizeof(struct text_file), &text_ops, model));
    p.self = model->self;
    p.self->text = file;
    VC_REFUSE_IF(options->token_bits != 0, ctx, VC_E_ARGUMENT, "%s is for a file of tokens; this is a text",
                 vc_option(ctx, "token_bits"));
    VC_CALL(open_tokenizer(ctx, options, &p.tokenizer));
    p.frame = vc_tokenizer_frame(p.tokenizer);
    enum vc_status status = pack(&p, file->path);
    p.self->shape[0] = p.n_rows;
    p.self->shape[1] = p.length;
    model->tensors[0] = (struct vc_tensor){.name = "input_ids",
                                           .dtype = VC_DTYPE_U32,
                                           .n_dims = 2,
                                           .shape = p.self->shape,
                                           .n_elems = p.n_rows * p.length,
                                           .size_bytes = p.n_rows * p.length * 4,
                                           .file_bytes = p.n_rows * p.length * 4,
                                           .part_of = VC_NO_TENSOR,
                                           .alias_of = VC_NO_TENSOR};
    model->n_tensors = status == VC_OK;
    for (unsigned i = 0; i < 2; i++) {
        struct spool *spool = i == 0 ? &p.ids : &p.covered;

        vc_free(ctx, spool->buffer);
        if (spool->fd >= 0) {
            (void)close(spool->fd);
        }
    }
    vc_free(ctx, p.data);
    vc_token_list_release(ctx, &p.tokens);
    vc_tokenizer_close(ctx, p.tokenizer);
    return status;
}

const struct vc_format vc_format_text = {.name = "text",
                                         .title = "text",
                                         .extensions = (const char *const[]){".txt", ".jsonl", NULL},
                                         .open = text_open,
                                         .dialect = &vc_dialect_plain};
