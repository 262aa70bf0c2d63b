/* journal.c - what was measured, a line for each candidate, so that an interrupted search goes on where it stopped and
 * ends with the same bytes. The head says of what search it is, down to the digests of the files: another search is
 * refused.
 *
 *     # vcompress shrink 2
 *     # version 0.1.0
 *     # model 5c0f...                 all files of it (vc_model_digest)
 *     # graph 77ab...                 as text, and the file beside the model
 *     # rows 90d2... - --scale 0.1    files of rows and labels; how they are read
 *     # rows to prove -
 *     # options bytes=0 loss=-0x1p+0 ...
 *     3 200 12345 67890 1 0x1.8p-7 ... 1.25 8f3a... -<tab>sparsity 0.9, int8, 200 steps */
#include <errno.h>
#include <unistd.h>

#include "core/job/scoped.h"
#include "passes/sha256.h"
#include "shrink/shrink_inside.h"

/* ---- what search it is ---- */

/* The digest of a checkpoint or of rows; "-" where there is none, or no SHA-256 in this build.
 * Rows of tokens are opened as they will be read, since their number depends on it. */
static enum vc_status add_file(struct vc_shrinking *s, struct vc_text *text, const char *path,
                               const struct vc_data_options *rows)
{
    char hex[VC_DIGEST_BYTES] = "-";
    struct vc_open_options options;
    VC_SCOPED_MODEL struct vc_model *file = NULL;

    vc_open_defaults(&options);
    if (rows != NULL) {
        options.row_tokens = rows->length;
        options.token_bits = rows->token_bits;
        options.tokenizer = rows->tokenizer != NULL ? rows->tokenizer : vc_model_facts(s->given)->path;
        options.most_rows = 1; /* of a text: its bytes are what counts */
    }
    if (path != NULL && vc_sha256_built_in()) {
        VC_CALL(vc_model_open(s->ctx, path, &options, &file));
        VC_CALL(vc_model_digest(s->ctx, file, hex));
    }
    vc_text_add(text, " %s", hex);
    return VC_OK;
}

/* The digests of the rows and of their labels, then the options that read them, without the names of the
 * files. */
static enum vc_status add_rows(struct vc_shrinking *s, struct vc_text *text, const struct vc_data_options *rows)
{
    if (rows == NULL) {
        vc_text_add(text, " -");
        return VC_OK;
    }
    VC_CALL(add_file(s, text, rows->path, rows));
    VC_CALL(add_file(s, text, rows->labels, NULL));
    struct vc_data_options how = *rows;
    how.path = how.labels = NULL; /* what is in them counts */
    vc_chain_add_rows(text, &how);
    return VC_OK;
}

/* The graph as text: the same from any file that says the same. */
static enum vc_status add_graph(struct vc_shrinking *s, struct vc_text *text)
{
    char hex[VC_SHA256_HEX_BYTES] = "-";
    struct vc_sha256 sha;
    char *graph = NULL;
    enum vc_status status = VC_OK;

    if (s->teacher.graph != NULL && vc_sha256_built_in()) {
        VC_TRY(vc_graph_print_text(s->ctx, s->teacher.graph, &graph));
        vc_sha256_begin(&sha);
        vc_sha256_add(&sha, graph, strlen(graph));
        vc_sha256_end(&sha, hex);
    }
    vc_text_add(text, " %s", hex);
    if (s->teacher.beside != NULL && vc_sha256_built_in()) {
        VC_TRY(vc_model_digest(s->ctx, s->teacher.beside, hex));
        vc_text_add(text, " %s", hex);
    }
out:
    vc_text_free(graph);
    return status;
}

/* What decides about candidates and their figures. The limit of time is not among them: a search may go on
 * with more. Doubles are in hexadecimal, so that they are equal to the last bit. */
static void add_options(const struct vc_shrinking *s, struct vc_text *text)
{
    const struct vc_shrink_options *o = &s->options;
    const struct vc_write_options *w = &s->write;

    vc_text_add(text,
                " bytes=%" PRIu64 " loss=%a seed=%" PRIu64 " steps=%" PRIu64 " format=%s layout=%s deflate=%d"
                " shards=%" PRIu64 " name=%s",
                s->result.limit_bytes, o->max_loss, o->seed, o->steps, w->format != NULL ? w->format : "",
                w->layout != NULL ? w->layout : "", (int)w->deflate, w->max_shard_bytes, s->name);
    if (s->gpu != NULL) {
        vc_text_add(text, " device=%u,%u,%" PRIu64 " native=%d", s->gpu->types, s->gpu->count, s->gpu->visible_bytes,
                    (int)o->native);
    }
    if (o->drop_optimizer || o->drop_other) {
        vc_text_add(text, " drop=%d,%d", (int)o->drop_optimizer, (int)o->drop_other);
    }
    if (o->loss != VC_TEACHER_LOSS_AUTO) {
        vc_text_add(text, " compares=%d", (int)o->loss);
    }
    if (o->types != NULL) {
        vc_text_add(text, " %s", o->types->words);
    }
    if (o->net_task != VC_NET_TASK_AUTO || o->metric != VC_METRIC_AUTO) {
        vc_text_add(text, " task=%d metric=%d", (int)o->net_task, (int)o->metric);
    }
}

/* The lines that begin with '#'; the first says the version of this format. */
static enum vc_status make_head(struct vc_shrinking *s, const char **head)
{
    char hex[VC_DIGEST_BYTES] = "-";
    VC_SCOPED_TEXT struct vc_text text = {.ctx = s->ctx};

    if (vc_sha256_built_in()) {
        VC_CALL(vc_model_digest(s->ctx, s->given, hex));
    }
    vc_text_add(&text, "# vcompress shrink 2\n# version %s\n# model %s\n# graph", vc_version(), hex);
    VC_CALL(add_graph(s, &text));
    vc_text_add(&text, "\n# rows");
    VC_CALL(add_rows(s, &text, s->options.data));
    vc_text_add(&text, "\n# rows to prove");
    VC_CALL(add_rows(s, &text, s->options.eval));
    vc_text_add(&text, "\n# options");
    add_options(s, &text);
    vc_text_add(&text, "\n");
    return vc_text_take(&text, &s->arena, head);
}

/* A sentence with the option that helps. */
static enum vc_status refuse(struct vc_shrinking *s, const char *what)
{
    return vc_fail(s->ctx, VC_E_ARGUMENT, "%s: %s; %s begins anew", s->work, what, vc_option(s->ctx, "force"));
}

/* The lines of the head, one by one; the first that differs says in what. ("rows to prove" before "rows".) */
static enum vc_status compare_head(struct vc_shrinking *s, const char *head)
{
    static const struct {
        const char *line, *what;
    } lines[] = {{"# version", "the interrupted search was one of another version of the program"},
                 {"# model", "the interrupted search had another model"},
                 {"# graph", "the interrupted search had another graph"},
                 {"# rows to prove", "the interrupted search had other rows to prove"},
                 {"# rows", "the interrupted search had other rows"},
                 {"# options", "the interrupted search had other options"},
                 {"", "its journal is of another version of the program, or damaged"}};
    const char *line = s->known;

    for (size_t n; *head != '\0'; head += n, line += n) {
        n = strcspn(head, "\n") + 1;
        for (size_t k = 0; strncmp(line, head, n) != 0; k++) {
            size_t length = strlen(lines[k].line);

            VC_RETURN_IF(strncmp(line, lines[k].line, length) == 0 && strncmp(head, lines[k].line, length) == 0,
                         refuse(s, lines[k].what));
        }
    }
    return VC_OK;
}

/* ---- opening ---- */

/* s->known: all that an earlier search has left in the journal, "" without one. */
static enum vc_status read_journal(struct vc_shrinking *s)
{
    struct vc_text text;
    char part[4096];
    size_t n;

    vc_text_init(&text, s->ctx);
    while (s->journal != NULL && (n = fread(part, 1, sizeof part, s->journal)) != 0) {
        vc_text_add_bytes(&text, part, n);
    }
    return vc_text_take(&text, &s->arena, &s->known);
}

/* The first line of a candidate from there on, of the whole lines; NULL: there is none. */
static const char *find_line(const char *at)
{
    const char *end;

    while ((end = strchr(at, '\n')) != NULL && *at == '#') {
        at = end + 1;
    }
    return end != NULL ? at : NULL;
}

/* A journal with lines is replaced only by force: somebody may want to go on with it. */
static enum vc_status begin_anew(struct vc_shrinking *s, const char *path, const char *head)
{
    VC_REFUSE_IF(find_line(s->known) != NULL && !s->write.force, s->ctx, VC_E_ARGUMENT,
                 "%s: an interrupted search is there; %s goes on, %s begins anew", s->work, vc_option(s->ctx, "resume"),
                 vc_option(s->ctx, "force"));
    if (s->journal != NULL) {
        (void)fclose(s->journal);
    }
    vc_work_clear(s);
    s->journal = fopen(path, "w+e");
    if (s->journal == NULL || fputs(head, s->journal) < 0 || fflush(s->journal) != 0) {
        return vc_fail_errno(s->ctx, errno, "%s: cannot be written", path);
    }
    s->ours = true;
    return VC_OK;
}

/* Appends to the journal, if its head is that of this search. */
static enum vc_status go_on(struct vc_shrinking *s, const char *head)
{
    if (!vc_sha256_built_in()) {
        return refuse(s, "this build has no SHA-256, by which the model of the search is known again");
    }
    VC_CALL(compare_head(s, head));
    s->ours = s->worth = true;
    return VC_OK;
}

/* A folder without a journal is not made where `resume` is asked for. */
enum vc_status vc_journal_open(struct vc_shrinking *s)
{
    const char *path = vc_arena_printf(s->ctx, &s->arena, "%s/journal", s->work);
    const char *head;

    VC_CALL_ALLOC(path);
    VC_REFUSE_IF(s->options.resume && access(path, F_OK) != 0, s->ctx, VC_E_ARGUMENT,
                 "%s: has no journal of an interrupted search", s->work);
    VC_CALL(vc_work_open(s));
    VC_CALL(make_head(s, &head));
    s->journal = fopen(path, s->options.resume ? "r+e" : "re");
    if (s->journal == NULL && s->options.resume) {
        return vc_fail_errno(s->ctx, errno, "%s: cannot be read", path);
    }
    VC_CALL(read_journal(s));
    return s->options.resume ? go_on(s, head) : begin_anew(s, path, head);
}

/* ---- lines ---- */

/* The digest of a trained file, which may be the output; "-" for others. */
static enum vc_status digest_of(struct vc_shrinking *s, size_t k, char hex[VC_DIGEST_BYTES])
{
    const char *path = vc_shrink_file(s, k);
    VC_SCOPED_MODEL struct vc_model *file = NULL;

    VC_CALL_ALLOC(path);
    (void)snprintf(hex, VC_DIGEST_BYTES, "-");
    if (s->candidates[k].reason == NULL && s->chains[k].steps != 0 && vc_sha256_built_in()) {
        VC_CALL(vc_model_open(s->ctx, path, NULL, &file));
        VC_CALL(vc_model_digest(s->ctx, file, hex));
    }
    return VC_OK;
}

#define NO_REASON "-" /* alone, where a refused candidate has its sentence */

/* Reads a whole line into the candidate. False: the line is of another candidate, or damaged. */
static bool parse(struct vc_shrinking *s, const char *line, size_t k, char hex[VC_DIGEST_BYTES])
{
    struct vc_shrink_candidate c = s->candidates[k];
    struct vc_shrink_chain chain = s->chains[k];
    const char *name = memchr(line, '\t', strcspn(line, "\n"));
    unsigned long number = 0;
    int within = 0;
    int at = 0;
    double total = 0;

    if (name == NULL ||
        sscanf(line, "%lu %" SCNu64 " %" SCNu64 " %" SCNu64 " %d %la %la %la %la %la %la %la %64s%n", &number,
               &chain.steps, &c.file_bytes, &c.need_bytes, &within, &c.error, &c.loss, &c.agreement, &c.kd, &c.accuracy,
               &c.seconds, &total, hex, &at) != 13 ||
        number != k || line[at++] != ' ' || line + at >= name) {
        return false;
    }
    c.within = within != 0;
    if (strncmp(line + at, NO_REASON "\t", sizeof NO_REASON) != 0) { /* a sentence, which may begin with "--option" */
        c.reason = vc_arena_copy(s->ctx, &s->arena, line + at, (size_t)(name - line) - (size_t)at);
        if (c.reason == NULL) {
            return false;
        }
    }
    if (chain.steps != s->chains[k].steps && vc_chain_describe(s, &chain, &c) != VC_OK) {
        return false;
    }
    name++;
    if (strlen(c.name) != strcspn(name, "\n") || strncmp(name, c.name, strlen(c.name)) != 0) {
        return false; /* the search took another way, by --time */
    }
    s->chains[k] = chain;
    s->candidates[k] = c;
    s->used = total > s->used ? total : s->used;
    return true;
}

/* A trained candidate counts only if its file is still the one that was measured. */
bool vc_journal_has(struct vc_shrinking *s, size_t k)
{
    char written[VC_DIGEST_BYTES] = "";
    char now[VC_DIGEST_BYTES] = "";
    const char *line = s->options.resume ? find_line(s->known) : NULL;

    while (line != NULL && !parse(s, line, k, written)) {
        line = find_line(strchr(line, '\n') + 1);
    }
    if (line != NULL && digest_of(s, k, now) != VC_OK) { /* it is not there, or damaged: made again */
        vc_clear_error(s->ctx);
        return false;
    }
    return line != NULL && strcmp(written, now) == 0;
}

/* A sentence in one line without the tab that ends it. */
static void add_sentence(FILE *to, const char *sentence)
{
    for (; *sentence != '\0'; sentence++) {
        (void)fputc((unsigned char)*sentence < ' ' ? ' ' : *sentence, to);
    }
}

/* A line is complete with its line feed; a search that is killed while it writes leaves a line without one,
 * which find_line leaves out. */
enum vc_status vc_journal_add(struct vc_shrinking *s, size_t k)
{
    const struct vc_shrink_candidate *c = &s->candidates[k];
    char hex[VC_DIGEST_BYTES];

    VC_CALL(digest_of(s, k, hex));
    s->worth = s->worth || c->reason == NULL;
    (void)fseek(s->journal, 0, SEEK_END);
    (void)fprintf(s->journal, "%zu %" PRIu64 " %" PRIu64 " %" PRIu64 " %d %a %a %a %a %a %a %a %s ", k,
                  s->chains[k].steps, c->file_bytes, c->need_bytes, c->within, c->error, c->loss, c->agreement, c->kd,
                  c->accuracy, c->seconds, vc_shrink_seconds(s), hex);
    add_sentence(s->journal, c->reason != NULL ? c->reason : NO_REASON);
    (void)fputc('\t', s->journal);
    add_sentence(s->journal, c->name);
    (void)fputc('\n', s->journal);
    if (fflush(s->journal) != 0 || ferror(s->journal)) {
        return vc_fail_errno(s->ctx, errno, "%s: the journal cannot be written", s->work);
    }
    return VC_OK;
}

/* Accepts a journal that was not opened. */
void vc_journal_close(struct vc_shrinking *s, bool keep)
{
    if (s->journal != NULL) {
        (void)fclose(s->journal);
        s->journal = NULL;
    }
    if (s->ours && !keep) {
        vc_work_remove(s);
    }
    vc_work_leave(s);
}
