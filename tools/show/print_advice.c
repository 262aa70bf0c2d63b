/* print_advice.c - what follows from the figures of vcompress sensitivity: the tensors that stand out, and command
 * lines that treat them with care. The library picks the tensors; here they become words for a shell.
 *
 *     fc3.weight: 41.2 %, within the limit up to a sparsity of 30 %
 *
 *     vcompress prune --sparsity 0.5 --scope tensor --set 'fc3.weight=0.3' model.npz
 *
 *     begin_line        "  vcompress"
 *     add_word, ...     words; a line that gets too long goes on behind a backslash
 *     end_line          what every command has to repeat, the input; printed only if a dry run succeeds */
#include "tools/show/print_sensitivity.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tools/possible.h"

#define MAX_PICKS 8 /* in a command line */

/* A command line under construction: words, each quoted for a shell where that is needed. */
struct line {
    char *text;
    size_t n_bytes;
    FILE *to;
    size_t width, column; /* where lines are broken, 0: nowhere; and where the next word goes */
    const char *title;    /* printed before it */
};

/* ---- words ---- */

/* Starts the word, of n bytes, on a new line where it does not fit on this one. */
static void add_bytes(struct line *line, const char *word, size_t n, size_t columns)
{
    if (line->width > 0 && line->column > 2 && line->column + 1 + columns > line->width - 2) {
        fputs(" \\\n   ", line->to);
        line->column = 3;
    }
    fprintf(line->to, "%s%.*s", line->column > 0 ? " " : "", (int)n, word);
    line->column += columns + 1;
}

static void add_word(struct line *line, const char *word)
{
    add_bytes(line, word, strlen(word), text_width(word));
}

/* Words of our own, with a blank between. */
static void add_words(struct line *line, const char *words)
{
    for (size_t n = strcspn(words, " "); *words != '\0'; n = strcspn(words, " ")) {
        add_bytes(line, words, n, n);
        words += n + (words[n] != '\0');
    }
}

/* An option and its value, or a value alone, which stay together. */
static bool add_value(struct line *line, const char *option, const char *value)
{
    char *quoted = vc_shell_word(value);
    size_t n = quoted != NULL ? strlen(option) + strlen(quoted) + 1 : 0;
    char *word = quoted != NULL ? malloc(n) : NULL;

    if (word != NULL) {
        snprintf(word, n, "%s%s", option, quoted);
        add_word(line, word);
    }
    vc_text_free(quoted);
    free(word);
    return quoted != NULL && word != NULL;
}

/* A glob that matches that name alone, and what follows it. The caller frees it. NULL: no memory. At most twice as long
 * as the name. */
static char *glob_of(const char *name, const char *end)
{
    char *glob = malloc(2 * strlen(name) + strlen(end) + 1);
    char *p = glob;

    for (const char *s = name; glob != NULL && *s != '\0'; s++) {
        if (strchr("*?[\\", *s) != NULL) {
            *p++ = '\\';
        }
        *p++ = *s;
    }
    if (glob != NULL) {
        strcpy(p, end);
    }
    return glob;
}

/* "--exclude 'fc1.weight'": an option whose value is a glob for one name. False: no memory. */
static bool add_option(struct line *line, const char *option, const char *name, const char *end)
{
    char *glob = glob_of(name, end);
    bool ok = glob != NULL && add_value(line, option, glob);

    free(glob);
    return ok;
}

/* ---- lines ---- */

/* False: no memory. Lines are not broken where the output is no terminal, so that they can be copied. */
static bool begin_line(struct line *line, const struct out *out)
{
    *line = (struct line){.width = out->limited ? (size_t)out->width : 0, .title = ""};
    line->to = open_memstream(&line->text, &line->n_bytes);
    if (line->to != NULL) {
        fputs("  ", line->to);
        line->column = 2;
        fputs("vcompress", line->to);
        line->column += 9;
    }
    return line->to != NULL;
}

/* What every suggested command has to be told again, and the input. A line that is not possible is not printed;
 * most_bytes: of the file that it writes (possible.h). False: no memory. */
static bool end_line(struct line *line, const struct app *app, const struct sensitivity_request *request, bool ok,
                     uint64_t most_bytes)
{
    const char *path = app->subject;

    for (size_t i = 0; ok && i < request->n_rules; i++) {
        ok = add_value(line, request->rules[i].include ? "--include " : "--exclude ", request->rules[i].glob);
    }
    if (ok && request->key != NULL) {
        ok = add_value(line, "--key=", request->key);
    }
    if (request->void_as == VC_DTYPE_BF16) {
        add_word(line, "--void-as=bf16");
    }
    if (path[0] == '-' && path[1] != '\0') {
        add_word(line, "--");
    }
    ok = ok && add_value(line, "", path);
    ok = fclose(line->to) == 0 && ok;
    if (ok && line_is_possible(app, line->text, most_bytes)) {
        fprintf(app->out.to, "%s%s\n", line->title, line->text);
    }
    free(line->text);
    return ok;
}

/* Measured weights are codes already: a command has to be told that it may decode them. */
static bool any_quantized(const struct vc_sensitivity *s)
{
    for (size_t i = 0; i < s->n_rows; i++) {
        if (s->rows[i].errors != NULL &&
            (vc_dtype_is_quantized(s->rows[i].dtype) || vc_model_tensor(s->model, s->rows[i].tensor)->quant != NULL)) {
            return true;
        }
    }
    return false;
}

/* NaN or Inf: a command would stop at them unless told to leave such tensors. */
static bool any_nonfinite(const struct vc_sensitivity *s)
{
    for (size_t i = 0; i < s->n_rows; i++) {
        if (s->rows[i].nonfinite) {
            return true;
        }
    }
    return false;
}

/* Options that every command needs for this model. quantized: the option for codes, which is another one in each
 * command. */
static void add_needs(struct line *line, const struct vc_sensitivity *s, const char *quantized)
{
    if (any_quantized(s)) {
        add_word(line, quantized);
    }
    if (any_nonfinite(s)) {
        add_word(line, "--nonfinite=keep");
    }
}

/* ---- pruning and quantizing ---- */

/* The tensors above the limit, the worst first. verb: "pruned to" or "quantized to"; the candidate's name follows. */
static void print_picks(const struct app *app, const struct vc_sensitivity *s,
                        const struct vc_sensitivity_advice *advice, const char *verb)
{
    const struct out *out = &app->out;
    bool pruning = s->candidates[advice->candidate].kind == VC_SENSITIVITY_MAGNITUDE;
    size_t shown = app->common.verbose > 0 || advice->n_picks <= MAX_PICKS ? advice->n_picks : MAX_PICKS;

    fprintf(out->to, "\n%s%s %s:%s the median %s is %s %%", out_ink(out, INK_BOLD), verb,
            s->candidates[advice->candidate].name, out_ink(out, INK_NONE),
            s->measured != NULL ? "error of the outputs" : "error", fmt_relative(CELL, advice->median));
    fprintf(out->to, advice->n_picks == 0 ? ", and no tensor is above %s %%\n" : "; above %s %% are\n",
            fmt_relative(CELL, advice->limit));
    for (size_t i = 0; i < shown; i++) {
        const struct vc_sensitivity_pick *pick = &advice->picks[i];

        say(out->to, "  %s: %s %%", s->rows[pick->row].name, fmt_relative(CELL, pick->relative));
        if (pruning && pick->percent == 0) {
            fputs(s->measured != NULL ? " of the outputs" : ", above the limit at 10 % already", out->to);
        } else if (pruning) {
            fprintf(out->to, ", within the limit up to a sparsity of %u %%", pick->percent);
        }
        fputc('\n', out->to);
    }
    if (shown < advice->n_picks) {
        fprintf(out->to, "  and %zu more (-v lists them)\n", advice->n_picks - shown);
    }
}

/* A sparsity of 0.5, with a smaller share for each pick: "--set 'fc3.weight=0.3'", or "--exclude" where no share is
 * within the limit. "=0.%02u" loses a zero at its end: 0.30 is 0.3. False: no memory. */
static bool print_prune(struct app *app, const struct vc_sensitivity *s, const struct sensitivity_request *request)
{
    const struct vc_sensitivity_advice *advice = &s->prune;
    struct line line;

    print_picks(app, s, advice, "pruned to");
    if (!begin_line(&line, &app->out)) {
        return false;
    }
    add_words(&line, "prune --sparsity 0.5 --scope tensor"); /* of each tensor half: what was measured */
    add_needs(&line, s, "--dequantize");
    bool ok = true;
    for (size_t i = 0; ok && i < advice->n_picks && i < MAX_PICKS; i++) {
        const struct vc_sensitivity_pick *pick = &advice->picks[i];
        const char *name = s->rows[pick->row].name;
        char share[16];

        snprintf(share, sizeof(share), "=0.%02u", pick->percent);
        if (share[4] == '0') {
            share[4] = '\0';
        }
        ok = pick->percent == 0 ? add_option(&line, "--exclude ", name, "") : add_option(&line, "--set ", name, share);
    }
    return end_line(&line, app, request, ok, 0);
}

/* int8 without the picks; and, from the weights alone, --aim-sqnr with the median of the errors in dB, which gives
 * every tensor the type that it needs for the same error. False: no memory. */
static bool print_quantize(struct app *app, const struct vc_sensitivity *s, const struct sensitivity_request *request)
{
    const struct vc_sensitivity_advice *advice = &s->quantize;
    double db = floor(-20 * log10(advice->median));
    /* codes that are there may take less than int8 */
    uint64_t smaller = any_quantized(s) ? POSSIBLE_GAIN(vc_model_facts(s->model)->file_bytes) : 0;
    struct line line;
    bool ok = true;

    print_picks(app, s, advice, "quantized to");
    if (!begin_line(&line, &app->out)) {
        return false;
    }
    add_words(&line, "quantize --int8");
    add_needs(&line, s, "--requantize");
    for (size_t i = 0; ok && i < advice->n_picks && i < MAX_PICKS; i++) {
        ok = add_option(&line, "--exclude ", s->rows[advice->picks[i].row].name, "");
    }
    ok = end_line(&line, app, request, ok, smaller);
    if (!ok || s->measured != NULL || advice->n_picks == 0 || !isfinite(db) || db < 1) {
        return ok;
    }
    if (!begin_line(&line, &app->out)) { /* the same error everywhere, by what each tensor needs */
        return false;
    }
    add_words(&line, fmt_text(CELL, "quantize --aim-sqnr %.0f", db));
    add_needs(&line, s, "--requantize");
    return end_line(&line, app, request, true, smaller);
}

/* "quantize --int8 --exclude 'fc1.weight'" as one word of run. False: no memory. */
static bool add_pass(struct line *line, const struct vc_sensitivity *s, const struct vc_sensitivity_advice *advice,
                     const char *pass)
{
    struct line own = {.width = 0};

    own.to = open_memstream(&own.text, &own.n_bytes);
    if (own.to == NULL) {
        return false;
    }
    bool ok = fputs(pass, own.to) != EOF;
    own.column = 1;
    for (size_t i = 0; ok && i < advice->n_picks && i < MAX_PICKS; i++) {
        ok = add_option(&own, "--exclude ", s->rows[advice->picks[i].row].name, "");
    }
    ok = fclose(own.to) == 0 && ok && add_value(line, "--pass ", own.text);
    free(own.text);
    return ok;
}

/* With data: both in one run. A name that only a shell can write is no word of a recipe. */
static bool print_recipe(struct app *app, const struct vc_sensitivity *s, const struct sensitivity_request *request)
{
    struct line line;

    if (s->measured == NULL || any_quantized(s) || any_nonfinite(s) || request->n_rules != 0) {
        return true;
    }
    for (size_t i = 0; i < s->n_rows; i++) {
        char *clean = text_clean(s->rows[i].name);
        bool same = clean != NULL && strcmp(clean, s->rows[i].name) == 0;

        free(clean);
        if (!same) {
            return true;
        }
    }
    if (!begin_line(&line, &app->out)) {
        return false;
    }
    line.title = "\nboth in one run:\n";
    add_word(&line, "run");
    bool ok = add_pass(&line, s, &s->prune, "prune --sparsity 0.5 --scope tensor");
    ok = ok && add_pass(&line, s, &s->quantize, "quantize --int8");
    return end_line(&line, app, request, ok, 0);
}

/* Pruning, then quantizing, then both in one run. */
bool print_advice(struct app *app, const struct vc_sensitivity *s, const struct sensitivity_request *request)
{
    return (s->prune.candidate == VC_NO_TENSOR || print_prune(app, s, request)) &&
           (s->quantize.candidate == VC_NO_TENSOR || print_quantize(app, s, request)) &&
           (s->prune.candidate == VC_NO_TENSOR || s->quantize.candidate == VC_NO_TENSOR ||
            print_recipe(app, s, request));
}
