/* family.c - see family.h. Questions to the rows of a model; knows no row. */
#include "formats/dialects/family.h"

#include "core/model/names.h"
#include "core/text/glob.h"
#include "core/text/text.h"

/* Takes words one by one: *at begins as 0, *n is the length of the word, which is not terminated. NULL if there is none
 * any more. */
const char *vc_family_word(const char *words, size_t *at, size_t *n)
{
    if (words == NULL) {
        return NULL;
    }
    *at += strspn(words + *at, " ");
    *n = strcspn(words + *at, " ");
    *at += *n;
    return *n != 0 ? words + *at - *n : NULL;
}

/* words NULL: an empty list. */
bool vc_family_lists(const char *words, const char *name, bool globs)
{
    return words != NULL && (globs ? vc_glob_any(words, name) : vc_is_one_of(name, words));
}

/* Rows of no family: 0. All questions below take NULL. */
static size_t row_count(const struct vc_family *family)
{
    return family != NULL ? family->n : 0;
}

/* The first row that refuses that loader says why. */
const char *vc_family_refused(const struct vc_family *family, enum vc_loads loads)
{
    const char *refused = NULL;

    for (size_t i = 0; i < row_count(family) && refused == NULL; i++) {
        refused = family->rows[i]->loads[loads].refused;
    }
    return refused;
}

/* What a refusal can offer in its place. */
const struct vc_dialect *vc_family_other_layout(const struct vc_family *family, const struct vc_dialect *but)
{
    for (size_t i = 0; family != NULL && i < family->n_layouts; i++) {
        if (family->layouts[i] != but) {
            return family->layouts[i];
        }
    }
    return NULL;
}

const char *vc_family_needs(const struct vc_family *family, enum vc_loads loads)
{
    const char *needs = NULL;

    for (size_t i = 0; i < row_count(family) && needs == NULL; i++) {
        needs = family->rows[i]->loads[loads].needs;
    }
    return needs;
}

/* Why that weight stays as it is in such a layout; NULL: it need not. */
const char *vc_family_keeps(const struct vc_family *family, enum vc_loads loads, const char *name)
{
    for (size_t i = 0; i < row_count(family); i++) {
        const struct vc_loading *loading = &family->rows[i]->loads[loads];

        if (vc_family_lists(loading->keeps, name, true)) {
            return loading->why;
        }
    }
    return NULL;
}

bool vc_family_has_table(const struct vc_family *family, const char *name)
{
    for (size_t i = 0; i < row_count(family); i++) {
        if (vc_family_lists(family->rows[i]->tables, name, true)) {
            return true;
        }
    }
    return false;
}

/* "re:" before a word counts as a part of it only where the module is called so. */
bool vc_family_has_head(const struct vc_family *family, const char *module, size_t n)
{
    for (size_t i = 0; i < row_count(family); i++) {
        const char *word;
        size_t at = 0;
        size_t n_word;

        while ((word = vc_family_word(family->rows[i]->heads, &at, &n_word)) != NULL) {
            size_t skip = n_word > n && memcmp(word, "re:", 3) == 0 ? 3 : 0;

            if (n_word - skip == n && memcmp(word + skip, module, n) == 0) {
                return true;
            }
        }
    }
    return false;
}

/* A composite model puts names in front of its parts' names. */
bool vc_family_changes_names(const struct vc_family *family)
{
    bool changes = family != NULL && family->nested;

    for (size_t i = 0; i < row_count(family); i++) {
        changes = changes || family->rows[i]->renames != NULL;
    }
    return changes;
}

/* ---- other names ---- */

/* Bytes of `path` that the pattern matches from its beginning, whole parts of the name only; 0: it does not. The number
 * that stands for # begins at *number and has *n_number bytes. */
static size_t match_parts(const char *path, const char *pattern, size_t n_pattern, const char **number,
                          size_t *n_number)
{
    size_t at = 0;

    for (size_t i = 0; i < n_pattern; i++) {
        if (pattern[i] == '#') {
            *number = path + at;
            *n_number = strspn(path + at, "0123456789");
            at += *n_number;
            if (*n_number == 0) {
                return 0;
            }
        } else if (path[at] != pattern[i]) {
            return 0;
        } else {
            at++;
        }
    }
    return path[at] == '\0' || path[at] == '.' ? at : 0;
}

/* Replaces the first place where the rule ("from=to") matches. "layers.#.fc1=layers.#.mlp.fc1" makes
 * "a.layers.3.mlp.fc1" of "a.layers.3.fc1". A rule with nothing behind '=' takes the part away, and the dot behind
 * it. */
static const char *apply_rule(struct vc_ctx *ctx, struct vc_arena *arena, const char *path, const char *rule, size_t n)
{
    const char *equals = memchr(rule, '=', n);
    size_t n_from = equals != NULL ? (size_t)(equals - rule) : 0;
    size_t n_to = equals != NULL ? n - n_from - 1 : 0;
    const char *at = path;

    while (n_from != 0 && at != NULL) {
        const char *number = "";
        size_t n_number = 0;
        size_t n_match = match_parts(at, rule, n_from, &number, &n_number);

        if (n_match != 0) {
            const char *hash = n_to != 0 ? memchr(equals + 1, '#', n_to) : NULL;
            size_t n_before = hash != NULL ? (size_t)(hash - equals - 1) : n_to;
            const char *rest = n_to == 0 && at[n_match] == '.' ? at + n_match + 1 : at + n_match;

            if (hash == NULL) {
                return vc_arena_printf(ctx, arena, "%.*s%.*s%s", (int)(at - path), path, (int)n_before, equals + 1,
                                       rest);
            }
            return vc_arena_printf(ctx, arena, "%.*s%.*s%.*s%.*s%s", (int)(at - path), path, (int)n_before, equals + 1,
                                   (int)n_number, number, (int)(n_to - n_before - 1), hash + 1, rest);
        }
        at = strchr(at, '.');
        at = at != NULL ? at + 1 : NULL;
    }
    return path;
}

/* All rules in their order, each once. Returns path itself where no rule matches; NULL if memory is short. */
const char *vc_family_rename(struct vc_ctx *ctx, struct vc_arena *arena, const struct vc_family *family,
                             const char *path)
{
    for (size_t i = 0; i < row_count(family) && path != NULL; i++) {
        const char *rule;
        size_t at = 0;
        size_t n;

        while (path != NULL && (rule = vc_family_word(family->rows[i]->renames, &at, &n)) != NULL) {
            path = apply_rule(ctx, arena, path, rule, n);
        }
    }
    return path;
}

const char *vc_family_module(struct vc_ctx *ctx, struct vc_arena *arena, const struct vc_model *model, const char *path)
{
    return vc_family_rename(ctx, arena, model->family, path);
}

/* The class has a head of language, and the file no weight of that name: "lm_head", or what the family calls it. */
bool vc_family_is_tied(const struct vc_model *model)
{
    bool tied = model->family != NULL && model->family->speaks;

    for (size_t i = 0; tied && i < model->n_tensors; i++) {
        const char *name = model->tensors[i].name;
        size_t n;

        tied = !vc_name_is_module_weight(name, &n) ||
               ((n < 7 || memcmp(name + n - 7, "lm_head", 7) != 0) && !vc_family_has_head(model->family, name, n));
    }
    return tied;
}
