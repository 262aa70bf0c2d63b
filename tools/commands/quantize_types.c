/* quantize_types.c - see quantize_types.h. Each --type becomes a pass of its own with a list `only` of globs, and the
 * last pass takes what no glob matches. Rules within a list: the last one that matches decides. */
#include "tools/commands/quantize_types.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "tools/app.h"
#include "tools/options/distill_words.h"

#define MAX_LINE 4096

/* The last '=' divides, since globs may have one. The scheme lies behind the glob in one block. */
bool named_types_add(struct named_types *types, const char *word)
{
    const char *sign = strrchr(word, '=');

    if (sign == NULL || sign == word || sign[1] == '\0' || types->n == MAX_NAMED_TYPES) {
        return false;
    }
    char *glob = strdup(word);
    if (glob == NULL) {
        return false;
    }
    glob[sign - word] = '\0';
    types->list[types->n++] = (struct named_type){.glob = glob, .scheme = glob + (sign - word) + 1};
    return true;
}

/* A line that fills the buffer may be cut, so it is refused with the limit. */
int named_types_read(struct app *app, struct named_types *types, const char *path)
{
    FILE *file = fopen(path, "r");
    char line[MAX_LINE];
    size_t number = 0;
    size_t before = types->n;
    int rc = GO_ON;

    if (file == NULL) {
        return app_refuse(app, VC_E_IO, "--type-file %s: %s", path, strerror(errno));
    }
    while (rc == GO_ON && fgets(line, sizeof line, file) != NULL) {
        size_t n = strcspn(line, "\r\n");

        number++;
        if (n + 1 == sizeof line) {
            rc = app_usage(app, "--type-file %s: line %zu is longer than %d bytes", path, number, MAX_LINE - 2);
            break;
        }
        while (n != 0 && (line[n - 1] == ' ' || line[n - 1] == '\t')) {
            n--;
        }
        line[n] = '\0';
        const char *word = line + strspn(line, " \t");
        if (word[0] != '\0' && word[0] != '#' && !named_types_add(types, word)) {
            rc = app_usage(app, "--type-file %s: line %zu is not GLOB=SCHEME, or one of more than %d: %.80s", path,
                           number, MAX_NAMED_TYPES, word);
        }
    }
    if (rc == GO_ON && ferror(file)) {
        rc = app_refuse(app, VC_E_IO, "--type-file %s: %s", path, strerror(errno));
    }
    (void)fclose(file);
    if (rc == GO_ON && types->n == before) {
        rc = app_usage(app, "--type-file %s: no line is GLOB=SCHEME", path);
    }
    return rc;
}

/* --type 'GLOB=keep' makes no pass: the tensors stay as they are. */
static bool is_kept(const struct named_type *type)
{
    return strcmp(type->scheme, "keep") == 0;
}

/* The options of the pass for that type: what the command says of all tensors (bounds, rules, what to do with NaN), and
 * its own scheme. False: no pass makes it.
 *
 * mixture: room for the name of a mixture whose base type is meant, since the library takes GGUF's types by the names
 * of mixtures with `pure`: "q4_k_S" of "q4_k". */
static bool own_options(const struct named_type *type, const struct vc_quantize_options *base, char mixture[32],
                        struct vc_quantize_options *out)
{
    size_t n = strlen(type->scheme);

    vc_quantize_defaults(out);
    out->nonfinite = base->nonfinite;
    out->overflow = base->overflow;
    out->rules = base->rules;
    out->n_rules = base->n_rules;
    out->min_elems = base->min_elems;
    out->min_row = base->min_row;
    out->requantize = base->requantize;
    if (scheme_word(type->scheme, out) != NULL) {
        if (base->gguf != NULL && out->target != VC_TARGET_F16 && out->target != VC_TARGET_BF16) {
            return false; /* GGUF has blocks, and these are other codes */
        }
        out->axis = out->target == VC_TARGET_INT8 ? base->axis : out->axis;
    } else if (base->gguf != NULL && n + sizeof "_S" <= 32) {
        const char *small = n == 4 && strcasecmp(type->scheme + 2, "_k") == 0 && strchr("345", type->scheme[1]) != NULL
                                ? "_S" /* q4_k is the base type of Q4_K_S and Q4_K_M; Q2_K and Q6_K are mixtures, too */
                                : "";

        (void)snprintf(mixture, 32, "%s%s", type->scheme, small);
        out->target = VC_TARGET_GGUF;
        out->gguf = mixture;
        out->pure = true;
        out->encoder = base->encoder;
    } else {
        return false;
    }
    if (out->target != VC_TARGET_INT8 && out->target != VC_TARGET_F16 && out->target != VC_TARGET_BF16) {
        out->calibration = base->calibration;
        out->calibration_anyway = base->calibration_anyway;
    }
    return true;
}

/* A type that keeps or casts makes none, so options of codes would do nothing. */
bool named_types_make_codes(const struct named_types *types, const struct vc_quantize_options *base)
{
    struct vc_quantize_options own;
    char mixture[32];

    for (size_t i = 0; i < types->n; i++) {
        if (!is_kept(&types->list[i]) && own_options(&types->list[i], base, mixture, &own) &&
            own.target != VC_TARGET_F16 && own.target != VC_TARGET_BF16) {
            return true;
        }
    }
    return false;
}

/* Words of schemes are read before a file is opened. */
int named_types_check(struct app *app, const struct named_types *types, const struct vc_quantize_options *base)
{
    struct vc_quantize_options own;
    char mixture[32];

    for (size_t i = 0; i < types->n; i++) {
        if (!is_kept(&types->list[i]) && !own_options(&types->list[i], base, mixture, &own)) {
            return app_usage(app,
                             "--type %s=%s: no such scheme%s; vcompress quantize --help=target lists them, and keep "
                             "leaves tensors as they are",
                             types->list[i].glob, types->list[i].scheme,
                             base->gguf != NULL ? " of GGUF (q4_k, q6_k, q8_0, fp16 ...)" : "");
        }
    }
    return GO_ON;
}

bool named_passes_make(const struct named_types *types, const struct vc_quantize_options *base,
                       struct named_passes *out)
{
    size_t n = types->n;

    *out = (struct named_passes){.n = 0};
    out->passes = calloc(n + 1, sizeof *out->passes);
    out->mixtures = calloc(n + 1, sizeof *out->mixtures);
    out->lists = calloc(n * (n + 1) / 2 + n + base->n_rules + n + 1, sizeof *out->lists);
    if (out->passes == NULL || out->mixtures == NULL || out->lists == NULL) {
        named_passes_free(out);
        return false;
    }
    struct vc_rule *at = out->lists;
    for (size_t i = 0; i < n; i++) {
        struct vc_quantize_options *own = &out->passes[out->n];

        if (is_kept(&types->list[i]) || !own_options(&types->list[i], base, out->mixtures[out->n], own)) {
            continue;
        }
        own->only = at; /* the last rule that matches decides: those of types before this one */
        own->n_only = i + 1;
        *at++ = (struct vc_rule){.glob = types->list[i].glob, .include = true};
        for (size_t k = 0; k < i; k++) {
            *at++ = (struct vc_rule){.glob = types->list[k].glob, .include = false};
        }
        out->n++;
    }
    out->only = at;
    for (size_t i = 0; i < n; i++) {
        if (!is_kept(&types->list[i])) {
            *at++ = (struct vc_rule){.glob = types->list[i].glob, .include = false};
            out->n_only++;
        }
    }
    out->rules = at;
    for (size_t i = 0; i < base->n_rules; i++) {
        *at++ = base->rules[i];
    }
    for (size_t i = 0; i < n; i++) {
        if (is_kept(&types->list[i])) {
            *at++ = (struct vc_rule){.glob = types->list[i].glob, .include = false};
        }
    }
    out->n_rules = (size_t)(at - out->rules);
    return true;
}

void named_passes_free(struct named_passes *passes)
{
    free(passes->passes);
    free(passes->mixtures);
    free(passes->lists);
    *passes = (struct named_passes){.n = 0};
}

enum vc_status named_types_add_passes(struct vc_ctx *ctx, struct vc_job *job, const struct named_types *types,
                                      const struct vc_quantize_options *base)
{
    struct vc_quantize_options own = *base;
    struct named_passes passes;
    enum vc_status status = VC_OK;

    if (!named_passes_make(types, base, &passes)) {
        return VC_E_NOMEM;
    }
    for (size_t i = 0; i < passes.n && status == VC_OK; i++) {
        status = vc_job_add_quantize(ctx, job, &passes.passes[i]);
    }
    own.only = passes.only;
    own.n_only = passes.n_only;
    own.rules = passes.rules;
    own.n_rules = passes.n_rules;
    status = status == VC_OK ? vc_job_add_quantize(ctx, job, &own) : status;
    named_passes_free(&passes);
    return status;
}

char *named_types_words(const struct named_types *types)
{
    char *text = NULL;
    size_t n = 0;
    FILE *to = open_memstream(&text, &n);
    bool whole = to != NULL;

    for (size_t i = 0; whole && i < types->n; i++) {
        char *word = NULL;
        size_t n_word = 0;
        FILE *one = open_memstream(&word, &n_word);

        fprintf(to, "%s--type", i == 0 ? "" : " ");
        whole = one != NULL && fprintf(one, "%s=%s", types->list[i].glob, types->list[i].scheme) > 0;
        whole = (one == NULL || fclose(one) == 0) && whole && print_shell_word(to, word);
        free(word);
    }
    if (to != NULL && (ferror(to) | fclose(to) | !whole)) {
        free(text);
        text = NULL;
    }
    return text;
}

void named_types_free(struct named_types *types)
{
    for (size_t i = 0; i < types->n; i++) {
        free(types->list[i].glob);
    }
    types->n = 0;
}
