/* module_names.c - see module_names.h. Names that are not to be found are held reversed and sorted, so that a search
 * tells whether any of them ends in some text.
 *
 * Some families call modules in memory otherwise than in files ("renames" of families.c), and composite models put
 * names in front. A name in a list then has to hold for both: the file's name, and an end of the name in memory that no
 * other module has:
 *
 *     file      vision_model.encoder.layers.3.fc1
 *     memory    model.vision_tower.encoder.layers.3.mlp.fc1
 *     end       3.mlp.fc1, if all modules that end so are listed */
#include "formats/dialects/module_names.h"

#include "core/base/array.h"

struct naming {
    struct vc_ctx *ctx;
    const struct vc_module_list *list;
    struct vc_arena arena;
    bool changes;        /* names in memory may be others */
    size_t n_others;     /* of modules that must not be found ... */
    const char **others; /* ... their names, from the last byte to the first; sorted */
    size_t n_ends;       /* of names in memory ... */
    const char **ends;   /* ... that only listed modules have */
};

void vc_module_name_add(struct vc_text *text, const char *name, bool *first)
{
    vc_text_add(text, "%s", *first ? "" : ", ");
    vc_text_add_json_string(text, name);
    *first = false;
}

/* "a.bc" becomes "cb.a", in the arena. */
static char *reversed(struct naming *s, const char *name, size_t n)
{
    char *copy = vc_arena_copy(s->ctx, &s->arena, name, n);

    for (size_t i = 0; copy != NULL && i < n; i++) {
        copy[i] = name[n - 1 - i];
    }
    return copy;
}

/* Whether one of the others ends in the text, the last n bytes of which count; whole: at a dot, or as a whole. False
 * only if memory is short; *found is the answer. */
static bool others_end_in(struct naming *s, const char *end, size_t n, bool whole, bool *found)
{
    const char *back = reversed(s, end, n);
    size_t low;

    *found = false;
    if (back == NULL) {
        return false;
    }
    VC_BISECT(low, s->n_others, k, strcmp(s->others[k], back) < 0);
    /* Those that begin with it follow each other, the equal one first; a dot comes before letters and digits. */
    for (; low < s->n_others && strncmp(s->others[low], back, n) == 0 && !*found; low++) {
        char next = s->others[low][n];

        *found = !whole || next == '\0' || next == '.';
        if (whole && next > '.') {
            break;
        }
    }
    return true;
}

/* Each module has at most two names, so others has room for 2 n. */
static enum vc_status list_others(struct naming *s)
{
    const struct vc_module_list *list = s->list;
    size_t n_most;

    VC_REFUSE_IF(!vc_mul_size(list->n, 2, &n_most), s->ctx, VC_E_NOMEM, "too many modules");
    VC_CALL_ALLOC(s->others = vc_alloc_array(s->ctx, VC_TAG_NAMES, n_most, sizeof *s->others));
    for (size_t i = 0; i < list->n; i++) {
        const struct vc_module *m = &list->modules[i];
        const char *path;

        if (!m->listed) {
            path = vc_arena_copy(s->ctx, &s->arena, m->path, m->n);
            const char *name = path != NULL ? vc_family_rename(s->ctx, &s->arena, list->family, path) : NULL;
            VC_CALL_ALLOC(name);
            s->others[s->n_others++] = reversed(s, path, m->n);
            VC_CALL_ALLOC(s->others[s->n_others - 1]);
            if (name != path) {
                s->others[s->n_others++] = reversed(s, name, strlen(name));
                VC_CALL_ALLOC(s->others[s->n_others - 1]);
            }
        }
    }
    qsort(s->others, s->n_others, sizeof *s->others, vc_compare_texts);
    return VC_OK;
}

/* The shortest end of a name, of whole parts and no number alone, that none of the others has; NULL: they have all. One
 * part more is tried at a time, from the end: "fc1", "mlp.fc1", "3.mlp.fc1", ... */
static enum vc_status find_end(struct naming *s, const char *name, const char **end)
{
    size_t n = strlen(name);
    bool found = true;
    size_t at = n;

    while (found && at != 0) {
        do {
            at--;
        } while (at != 0 && name[at - 1] != '.');
        if (!others_end_in(s, name + at, n - at, true, &found)) {
            return VC_E_NOMEM;
        }
        found = found || strspn(name + at, "0123456789.") == n - at; /* a number alone says too little */
    }
    *end = found ? NULL : name + at;
    return VC_OK;
}

/* Adds a regular expression for the name: before, the name with a backslash before each character that means something,
 * and '$'. "re:(.*\.)?a\.b$". */
static void add_expression(struct naming *s, const char *before, const char *name, struct vc_text *text, bool *first)
{
    VC_SCOPED_TEXT struct vc_text all = {.ctx = s->ctx};

    vc_text_add(&all, "%s", before);
    for (size_t i = 0; name[i] != '\0'; i++) {
        vc_text_add(&all, strchr(".^$*+?{}[]()|\\", name[i]) != NULL ? "\\%c" : "%c", name[i]);
    }
    vc_text_add(&all, "$");
    if (all.status == VC_OK) {
        vc_module_name_add(text, all.data, first);
    } else if (text->status == VC_OK) {
        text->status = all.status;
    }
}

/* A module under a name that stands for it alone. In lists where ends count, a name that is the end of another one gets
 * "^...$". */
static enum vc_status add_exact(struct naming *s, const char *name, struct vc_text *text, bool *first)
{
    bool found = false;

    if (s->list->form == VC_NAMES_ENDS && !others_end_in(s, name, strlen(name), false, &found)) {
        return VC_E_NOMEM;
    }
    if (found) {
        add_expression(s, "^", name, text, first);
    } else {
        vc_module_name_add(text, name, first);
    }
    return text->status;
}

/* The names as the file has them; of names in memory, notes the ends. */
static enum vc_status add_names(struct naming *s, struct vc_text *text, bool *first)
{
    const struct vc_module_list *list = s->list;

    VC_CALL_ALLOC(s->ends = vc_alloc_array(s->ctx, VC_TAG_NAMES, list->n, sizeof *s->ends));
    for (size_t i = 0; i < list->n; i++) {
        const struct vc_module *m = &list->modules[i];
        const char *path;
        const char *end;

        if (!m->listed) {
            continue;
        }
        VC_CALL_ALLOC(path = vc_arena_copy(s->ctx, &s->arena, m->path, m->n));
        VC_CALL(add_exact(s, path, text, first));
        if (s->changes) {
            const char *name = vc_family_rename(s->ctx, &s->arena, list->family, path);
            VC_CALL_ALLOC(name);
            VC_CALL(find_end(s, name, &end));
            if (end != NULL) {
                s->ends[s->n_ends++] = end;
            }
            if (name != path && (end == NULL || list->form == VC_NAMES_ENDS)) {
                VC_CALL(add_exact(s, name, text, first));
            }
        }
    }
    qsort(s->ends, s->n_ends, sizeof *s->ends, vc_compare_texts);
    return VC_OK;
}

/* Ends are sorted, and each is written once. */
static enum vc_status add_ends(struct naming *s, struct vc_text *text, bool *first)
{
    for (size_t i = 0; i < s->n_ends; i++) {
        if (i != 0 && strcmp(s->ends[i], s->ends[i - 1]) == 0) {
            continue;
        }
        if (s->list->form == VC_NAMES_EXACT) {
            add_expression(s, "re:(.*\\.)?", s->ends[i], text, first);
        } else {
            const char *end = vc_arena_printf(s->ctx, &s->arena, ".%s", s->ends[i]);

            VC_CALL_ALLOC(end);
            vc_module_name_add(text, end, first);
        }
    }
    return text->status;
}

enum vc_status vc_module_names_add(struct vc_ctx *ctx, const struct vc_module_list *list, bool *first,
                                   struct vc_text *text)
{
    struct naming s = {.ctx = ctx, .list = list, .changes = vc_family_changes_names(list->family)};
    enum vc_status status;

    if (s.changes || list->form == VC_NAMES_ENDS) {
        VC_TRY(list_others(&s));
    }
    VC_TRY(add_names(&s, text, first));
    VC_TRY(add_ends(&s, text, first));
    status = text->status;
out:
    VC_FREE_ALL(ctx, s.others, s.ends);
    vc_arena_release(ctx, &s.arena);
    return status;
}
