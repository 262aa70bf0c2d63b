/* journal.c - the work folder beside the output, and the journal inside: a line for each candidate that was measured,
 * so that an interrupted search goes on where it stopped and ends with the same bytes.
 *
 *     small.npz.shrink/journal        # vcompress shrink 1 <the options>
 *                                     3 200 12345 67890 1 0x1.8p-7 ... 1.25 -
 *     small.npz.shrink/3/small.npz    the trained file of candidate 3 */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shrink/shrink_inside.h"

#define MAX_LINE 4096

void vc_remove_folder(const char *path)
{
    DIR *dir = opendir(path);
    struct dirent *entry;
    char inside[MAX_LINE];

    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        struct stat info;

        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0 ||
            snprintf(inside, sizeof inside, "%s/%s", path, entry->d_name) >= (int)sizeof inside) {
            continue;
        }
        if (lstat(inside, &info) == 0 && S_ISDIR(info.st_mode)) {
            vc_remove_folder(inside);
        } else {
            (void)unlink(inside);
        }
    }
    if (dir != NULL) {
        (void)closedir(dir);
        (void)rmdir(path);
    }
}

/* All that the search depends on. */
static enum vc_status head_of(const struct vc_shrinking *s, char **head)
{
    const struct vc_shrink_options *o = &s->options;
    struct vc_text text;

    vc_text_init(&text, s->ctx);
    vc_text_add(&text,
                "# vcompress shrink 1 %s %" PRIu64 " graph=%s bytes=%" PRIu64 " loss=%a visible=%" PRIu64
                " seed=%" PRIu64 " steps=%" PRIu64 " format=%s layout=%s deflate=%d",
                vc_model_path(s->given), vc_model_file_bytes(s->given), o->graph_path != NULL ? o->graph_path : "",
                s->result.limit_bytes, o->max_loss, s->gpu != NULL ? vc_gpu_visible_bytes(s->gpu, NULL) : 0, o->seed,
                o->steps, s->write.format != NULL ? s->write.format : "",
                s->write.layout != NULL ? s->write.layout : "", (int)s->write.deflate);
    if (o->data != NULL) {
        vc_chain_add_rows(&text, o->data);
    }
    if (o->eval != NULL) {
        vc_chain_add_rows(&text, o->eval);
    }
    *head = vc_text_detach(&text);
    for (char *c = *head; c != NULL && *c != '\0'; c++) {
        *c = *c == '\n' ? '?' : *c;
    }
    return *head != NULL ? VC_OK : text.status;
}

static enum vc_status refuse(struct vc_shrinking *s, const char *what)
{
    return vc_fail(s->ctx, VC_E_ARGUMENT, "%s: %s", s->work, what);
}

enum vc_status vc_journal_open(struct vc_shrinking *s)
{
    const char *path = vc_arena_printf(s->ctx, &s->arena, "%s/journal", s->work);
    char *head = NULL;
    char *line = NULL;
    size_t room = 0;
    ssize_t n;
    enum vc_status status;

    VC_TRY_ALLOC(path);
    VC_TRY(head_of(s, &head));
    if (!s->options.resume) {
        if (access(s->work, F_OK) == 0 && !s->write.force) {
            VC_TRY(refuse(s, "an interrupted search is there; resume goes on, force begins anew"));
        }
        vc_remove_folder(s->work);
        if (mkdir(s->work, 0777) != 0) {
            VC_TRY(vc_fail_errno(s->ctx, errno, "%s: cannot be made", s->work));
        }
    }
    s->journal = fopen(path, s->options.resume ? "r+" : "w+");
    if (s->journal == NULL) {
        VC_TRY(s->options.resume ? refuse(s, "has no journal of an interrupted search")
                                 : vc_fail_errno(s->ctx, errno, "%s: cannot be written", path));
    }
    if (s->options.resume) {
        s->worth = true;
        n = getline(&line, &room, s->journal);
        if (n > 0) {
            line[n - 1] = '\0';
        }
        if (n <= 0 || strcmp(line, head) != 0) {
            VC_TRY(refuse(s, "the interrupted search had other options"));
        }
    } else if (fprintf(s->journal, "%s\n", head) < 0 || fflush(s->journal) != 0) {
        VC_TRY(vc_fail_errno(s->ctx, errno, "%s: cannot be written", path));
    }
out:
    free(line);
    vc_text_free(head);
    return status;
}

/* Reads a line into the candidate. False: the line is of another candidate, or cut. */
static bool parse(struct vc_shrinking *s, const char *line, size_t k)
{
    struct vc_shrink_candidate c = s->candidates[k];
    struct vc_chain chain = s->chains[k];
    unsigned long number = 0;
    int within = 0;
    int at = 0;
    double total = 0;

    if (strchr(line, '\n') == NULL ||
        sscanf(line, "%lu %" SCNu64 " %" SCNu64 " %" SCNu64 " %d %la %la %la %la %la %la %la %n", &number, &chain.steps,
               &c.file_bytes, &c.need_bytes, &within, &c.error, &c.loss, &c.agreement, &c.kd, &c.accuracy, &c.seconds,
               &total, &at) != 12 ||
        number != k) {
        return false;
    }
    c.within = within != 0;
    if (line[at] != '-') {
        c.reason = vc_arena_copy(s->ctx, &s->arena, line + at, strcspn(line + at, "\n"));
    }
    if (chain.steps != s->chains[k].steps && vc_chain_describe(s, &chain, &c) != VC_OK) {
        return false;
    }
    s->chains[k] = chain;
    s->candidates[k] = c;
    s->used = total > s->used ? total : s->used;
    return true;
}

bool vc_journal_has(struct vc_shrinking *s, size_t k)
{
    char *line = NULL;
    size_t room = 0;
    bool found = false;

    rewind(s->journal);
    while (s->options.resume && !found && getline(&line, &room, s->journal) > 0) {
        found = line[0] != '#' && parse(s, line, k);
    }
    free(line);
    if (found && s->candidates[k].reason == NULL && s->chains[k].steps != 0) {
        const char *path = vc_shrink_file(s, k);

        found = path != NULL && access(path, F_OK) == 0;
    }
    return found;
}

enum vc_status vc_journal_add(struct vc_shrinking *s, size_t k)
{
    const struct vc_shrink_candidate *c = &s->candidates[k];

    s->worth = true;
    if (fseek(s->journal, 0, SEEK_END) != 0 ||
        fprintf(s->journal, "%zu %" PRIu64 " %" PRIu64 " %" PRIu64 " %d %a %a %a %a %a %a %a %s\n", k,
                s->chains[k].steps, c->file_bytes, c->need_bytes, c->within, c->error, c->loss, c->agreement, c->kd,
                c->accuracy, c->seconds, vc_shrink_seconds(s), c->reason != NULL ? c->reason : "-") < 0 ||
        fflush(s->journal) != 0) {
        return vc_fail_errno(s->ctx, errno, "%s: the journal cannot be written", s->work);
    }
    return VC_OK;
}

void vc_journal_remove(struct vc_shrinking *s)
{
    if (s->journal != NULL) {
        (void)fclose(s->journal);
        s->journal = NULL;
        vc_remove_folder(s->work);
    }
}
