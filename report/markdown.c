/* markdown.c - documents as short tables for a comment on a pull request: vc_document_markdown of page.h.
 *
 *     **vcompress quantize** `in.npz` -> `in.int8.npz`
 *
 *     |  | before | after |  |
 *     |---|---:|---:|---|
 *     | file | 1.15 MiB | 303 KiB | 3.88x smaller |
 *
 *     **Missed:** fc1.weight has an SQNR of 12.08 dB, --min-sqnr asks for 40.00 dB
 *
 *     | gate | limit | found |  |
 *     |---|---:|---:|---|
 *     | `min_sqnr_db` | 40 dB | 12.1 dB | **missed** |
 *
 * A kind of document has a function add_<kind>, a row of the table in vc_document_markdown. All figures come from the
 * document by their paths, so that this file knows no structure of the library. */
#include <vcompress/page.h>

#include <math.h>

#include "core/text/text.h"
#include "report/document_tree.h"

/* A short text, returned by value. */
struct cell {
    char s[48];
};

/* A name in a table, as code. What would end the cell or the code is replaced: "|" gets a backslash, a backtick becomes
 * an apostrophe, control characters blanks. */
static void add_name(struct vc_text *text, const char *name)
{
    vc_text_add(text, "`");
    for (const char *p = name == NULL ? "-" : name; *p != '\0'; p++) {
        unsigned char c = (unsigned char)*p;

        if (c < 0x20 || c == 0x7f) {
            vc_text_add(text, " ");
        } else if (c == '`') {
            vc_text_add(text, "'");
        } else if (c == '|') {
            vc_text_add(text, "\\|");
        } else {
            vc_text_add_bytes(text, p, 1);
        }
    }
    vc_text_add(text, "`");
}

/* Three digits, or with `fixed` so many decimals; "-" for NaN and infinities. printf follows the locale, and a comma
 * would look like thousands. */
static struct cell plain(double x, int fixed, const char *unit)
{
    struct cell cell = {"-"};

    if (isfinite(x) && fixed >= 0) {
        (void)snprintf(cell.s, sizeof cell.s, "%.*f%s", fixed, x, unit);
    } else if (isfinite(x)) {
        (void)snprintf(cell.s, sizeof cell.s, "%.3g%s", x, unit);
    }
    for (char *p = strchr(cell.s, ','); p != NULL; p = strchr(p, ',')) {
        *p = '.'; /* of a locale */
    }
    return cell;
}
#define DIGITS (-1)

/* "1.15 MiB": three digits, powers of two. */
static struct cell size(double bytes)
{
    static const char *const units[] = {" B", " KiB", " MiB", " GiB", " TiB"};
    size_t k = 0;
    int decimals = 0;

    while (k < 4 && bytes >= 1023.5) {
        bytes /= 1024;
        k++;
    }
    if (k != 0 && bytes < 99.95) {
        decimals = bytes < 9.995 ? 2 : 1;
    }
    return plain(bytes, decimals, units[k]);
}

/* The value at a path such as "totals.file.before"; NULL if there is none. */
static const json_t *at(const json_t *value, const char *path)
{
    char key[64];

    while (value != NULL && *path != '\0') {
        size_t n = strcspn(path, ".");

        (void)snprintf(key, sizeof key, "%.*s", (int)n, path);
        value = json_object_get(value, key);
        path += n + (path[n] == '.');
    }
    return value;
}

/* NaN: there is no number. */
static double number(const json_t *value, const char *path)
{
    const json_t *found = at(value, path);

    return json_is_number(found) ? json_number_value(found) : (double)NAN;
}

/* NULL: there is no text. */
static const char *string(const json_t *value, const char *path)
{
    return json_string_value(at(value, path));
}

/* An exact tensor has a null SQNR and says so in another member. */
static struct cell decibel(const json_t *object)
{
    struct cell exact = {"exact"};

    return json_is_true(at(object, "exact")) ? exact : plain(number(object, "sqnr_db"), 1, " dB");
}

/* "**vcompress quantize** `in.npz` -> `in.int8.npz`". Of the command only the first word, which is letters. */
static void add_title(struct vc_text *text, const char *command, const char *from, const char *to)
{
    vc_text_add(text, "**vcompress %.*s** ", (int)strspn(command, "abcdefghijklmnopqrstuvwxyz"), command);
    add_name(text, from);
    if (to != NULL) {
        vc_text_add(text, " \xe2\x86\x92 ");
        add_name(text, to);
    }
    vc_text_add(text, "\n\n");
}

/* ---- figures before and after ---- */

enum unit { BYTES, COUNT, REAL, SHARE, DECIBEL };

/* A row of a table before and after. */
struct row {
    const char *what, *before, *after; /* paths; before: "" where there is none */
    enum unit unit;
};

/* A figure with its unit. */
static struct cell in_unit(double x, enum unit unit)
{
    switch (unit) {
    case BYTES:
        return size(x);
    case COUNT:
        return plain(x, 0, "");
    case SHARE:
        return plain(100 * x, 2, " %");
    case DECIBEL:
        return plain(x, 1, " dB");
    case REAL:
        break;
    }
    return plain(x, DIGITS, "");
}

/* Rows without a figure afterwards are left out. The last column says how much smaller or larger bytes became. */
static void add_rows(struct vc_text *text, const json_t *d, const struct row *rows, size_t n)
{
    vc_text_add(text, "|  | before | after |  |\n|---|---:|---:|---|\n");
    for (size_t i = 0; i < n; i++) {
        double before = rows[i].before[0] == '\0' ? (double)NAN : number(d, rows[i].before);
        double after = number(d, rows[i].after);
        bool smaller = after <= before;

        if (!isfinite(after)) {
            continue;
        }
        vc_text_add(text, "| %s | %s | %s | ", rows[i].what, isfinite(before) ? in_unit(before, rows[i].unit).s : "",
                    in_unit(after, rows[i].unit).s);
        if (rows[i].unit == BYTES && isfinite(before) && before != after) {
            vc_text_add(text, "%s\xc3\x97 %s", plain(smaller ? before / after : after / before, DIGITS, "").s,
                        smaller ? "smaller" : "larger");
        }
        vc_text_add(text, " |\n");
    }
}

/* ---- gates ---- */

/* A sentence outside of a table, in which names of tensors and paths mean nothing to Markdown. Names may have
 * underscores and brackets, which Markdown would read. */
static void add_sentence(struct vc_text *text, const char *sentence)
{
    for (const char *p = sentence; *p != '\0'; p++) {
        unsigned char c = (unsigned char)*p;

        if (strchr("\\`*_{}[]<>#|!", c) != NULL) {
            vc_text_add(text, "\\");
        }
        vc_text_add_bytes(text, c < 0x20 || c == 0x7f ? " " : p, 1);
    }
}

/* What the limit of a gate is counted in, by the end of its name. */
static enum unit unit_of(const char *id)
{
    static const struct {
        const char *end;
        enum unit unit;
    } ends[] = {{"_bytes", BYTES}, {"_fit", BYTES}, {"_db", DECIBEL}, {"_growth", SHARE}, {"_sparsity", SHARE}};

    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        if (vc_ends_in(id, ends[i].end)) {
            return ends[i].unit;
        }
    }
    return REAL;
}

/* Every gate with its limit and what was found. each: NULL for documents that have a sentence alone. */
static void add_gates(struct vc_text *text, const char *missed, const json_t *each)
{
    if (missed != NULL) {
        vc_text_add(text, "\n**Missed:** ");
        add_sentence(text, missed);
        vc_text_add(text, "\n");
    }
    for (size_t i = 0; i < json_array_size(each); i++) {
        const json_t *gate = json_array_get(each, i);
        const char *id = string(gate, "id");
        enum unit unit = unit_of(id == NULL ? "" : id);
        const json_t *passed = at(gate, "passed");
        const char *word = json_is_true(passed) ? "met" : json_is_false(passed) ? "**missed**" : "not judged";

        vc_text_add(text, i == 0 ? "\n| gate | limit | found |  |\n|---|---:|---:|---|\n| " : "| ");
        add_name(text, id);
        vc_text_add(text, " | %s | %s | %s |\n", in_unit(number(gate, "limit"), unit).s,
                    in_unit(number(gate, "value"), unit).s, word);
    }
}

/* The table of totals, the gates, the worst tensor. */
static void add_report(struct vc_text *text, const json_t *d)
{
    /* what a reviewer looks at first: size, error, zeros */
    static const struct row rows[] = {{"file", "totals.file.before", "totals.file.after", BYTES},
                                      {"in memory", "totals.host.before", "totals.host.after", BYTES},
                                      {"parameters", "totals.parameters", "totals.parameters_after", COUNT},
                                      {"bits per weight", "", "totals.bits_per_weight", REAL},
                                      {"SQNR", "", "totals.sqnr_db", DECIBEL},
                                      {"zeros in pruned tensors", "", "totals.pruning.sparsity", SHARE}};
    const char *command = string(d, "command");

    add_title(text, command == NULL ? "" : command, string(d, "input.path"), string(d, "output.path"));
    add_rows(text, d, rows, sizeof rows / sizeof *rows);
    add_gates(text, string(d, "gates.missed"), at(d, "gates.each"));
    if (string(d, "totals.worst_tensor") != NULL) {
        vc_text_add(text, "\nLowest SQNR: ");
        add_name(text, string(d, "totals.worst_tensor"));
        vc_text_add(text, "\n");
    }
}

/* Figures of the task that were measured, before and after; then the gate. */
static void add_distill(struct vc_text *text, const json_t *d)
{
    static const struct row rows[] = {
        {"accuracy", "eval.before.accuracy", "eval.after.accuracy", SHARE},
        {"agreement with the teacher", "eval.before.agreement", "eval.after.agreement", SHARE},
        {"F1", "eval.before.f1", "eval.after.f1", SHARE},
        {"R2", "eval.before.r2", "eval.after.r2", REAL},
        {"mean absolute error", "eval.before.absolute_error", "eval.after.absolute_error", REAL},
        {"cosine", "eval.before.cosine", "eval.after.cosine", REAL},
        {"cross-entropy", "eval.before.cross_entropy", "eval.after.cross_entropy", REAL},
        {"loss", "run.first_loss", "run.last_loss", REAL},
        {"steps", "", "run.steps", COUNT},
        {"weights that stay 0", "", "run.masked", COUNT},
        {"memory at the peak", "", "memory.peak", BYTES}};

    add_title(text, "distill", string(d, "student"), string(d, "output"));
    add_rows(text, d, rows, sizeof rows / sizeof *rows);
    add_gates(text, string(d, "missed"), NULL);
}

/* ---- what differs ---- */

/* One sentence, and the tensors beyond the limits: the others were cut from the document (beyond_only). */
static void add_diff(struct vc_text *text, const json_t *d)
{
    const json_t *tensors = at(d, "tensors");
    /* the last item may be the number of those left out */
    size_t n = json_array_size(tensors) - (vc_document_left_out(tensors) != 0);

    add_title(text, "diff", string(d, "a.path"), string(d, "b.path"));
    vc_text_add(text, "%s: %.0f of %.0f tensors differ, %.0f beyond the limits; SQNR over all %s, largest error %s\n",
                json_is_true(at(d, "within")) ? "Close enough" : "**Differs**", number(d, "totals.different"),
                number(d, "totals.tensors"), number(d, "totals.beyond"), decibel(at(d, "totals")).s,
                plain(number(d, "totals.max_abs_error"), DIGITS, "").s);
    for (size_t i = 0; i < n; i++) {
        const json_t *row = json_array_get(tensors, i);

        vc_text_add(text, i == 0 ? "\n| tensor | kind | SQNR | largest error |\n|---|---|---:|---:|\n| " : "| ");
        add_name(text, string(row, "name"));
        vc_text_add(text, " | %s | %s | %s |\n", string(row, "kind") == NULL ? "" : string(row, "kind"), decibel(row).s,
                    plain(number(row, "max_abs_error"), DIGITS, "").s);
    }
}

/* A value that is no number, in a word; "..." for lists and objects. */
static const char *word_of(const json_t *value)
{
    if (json_is_string(value)) {
        return json_string_value(value);
    }
    if (json_is_boolean(value)) {
        return json_is_true(value) ? "yes" : "no";
    }
    return value == NULL || json_is_null(value) ? "-" : "...";
}

/* Whole numbers as they are, others with three digits. */
static void add_value(struct vc_text *text, const json_t *value)
{
    double x = json_number_value(value);

    if (json_is_number(value)) {
        vc_text_add(text, "%s", plain(x, fabs(x) < 1e15 && x == floor(x) ? 0 : DIGITS, "").s);
    } else {
        add_name(text, word_of(value));
    }
}

/* A row for each member that differs, with the growth in percent where both values are numbers. */
static void add_changes(struct vc_text *text, const json_t *d)
{
    const json_t *changes = at(d, "changes");
    size_t left_out = vc_document_left_out(changes);
    size_t n = json_array_size(changes) - (left_out != 0);

    add_title(text, "diff", string(d, "a.path"), string(d, "b.path"));
    if (n == 0) {
        vc_text_add(text, "Both documents say the same.\n");
        return;
    }
    if (string(d, "a.command") != NULL) {
        add_name(text, string(d, "a.command"));
        vc_text_add(text, " \xe2\x86\x92 ");
        add_name(text, string(d, "b.command"));
        vc_text_add(text, "\n\n");
    }
    vc_text_add(text, "|  | first | second | change |\n|---|---:|---:|---:|\n");
    for (size_t i = 0; i < n; i++) {
        const json_t *change = json_array_get(changes, i);

        vc_text_add(text, "| ");
        if (string(change, "name") != NULL) {
            add_name(text, string(change, "name"));
            vc_text_add(text, " ");
        }
        add_name(text, string(change, "member"));
        vc_text_add(text, " | ");
        add_value(text, at(change, "a"));
        vc_text_add(text, " | ");
        add_value(text, at(change, "b"));
        double growth = 100 * (number(change, "b") / number(change, "a") - 1);
        vc_text_add(text, " | %s%s |\n", growth > 0 ? "+" : "", isfinite(growth) ? plain(growth, 1, " %").s : "");
    }
    if (left_out != 0) {
        vc_text_add(text, "\n%zu more members differ.\n", left_out);
    }
}

/* The tree has at most `most` items of each list. */
enum vc_status vc_document_markdown(struct vc_ctx *ctx, const char *document, size_t most, char **out)
{
    static const struct {
        const char *schema;
        void (*add)(struct vc_text *text, const json_t *document);
    } kinds[] = {{"vcompress.report/1", add_report},
                 {"vcompress.distill/1", add_distill},
                 {"vcompress.diff/1", add_diff},
                 {"vcompress.changes/1", add_changes}};
    const struct vc_document_cut cut = {.most = most, .least = most, .beyond_only = true};
    struct vc_document_tree tree;
    struct vc_text text = {.ctx = ctx};
    size_t k = 0;

    *out = NULL;
    vc_clear_error(ctx);
    VC_CALL(vc_document_tree(ctx, document, &cut, &tree));
    const char *schema = string(tree.root, "schema");
    while (k < 4 && (schema == NULL || strcmp(schema, kinds[k].schema) != 0)) {
        k++;
    }
    if (k == 4) {
        vc_document_tree_free(ctx, &tree);
        return vc_fail(ctx, VC_E_FORMAT, "there is no short table for this kind of document");
    }
    kinds[k].add(&text, tree.root);
    vc_document_tree_free(ctx, &tree);
    *out = vc_text_detach(&text);
    return text.status;
}
