/* quantize_types.c - see quantize_types.h. Each --type becomes a pass of its own with a list `only` of globs, and the
 * last pass takes what no glob matches. Rules within a list: the last one that matches decides. */
#include "tools/commands/quantize_types.h"

#include <errno.h>
#include <stdio.h>
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
    char *glob;

    if (sign == NULL || sign == word || sign[1] == '\0' || types->n == MAX_NAMED_TYPES) {
        return false;
    }
    glob = strdup(word);
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
        line[n] = '\0';
        if (n != 0 && line[0] != '#' && !named_types_add(types, line)) {
            rc = app_usage(app, "--type-file %s: line %zu is not GLOB=SCHEME, or one of more than %d: %.80s", path,
                           number, MAX_NAMED_TYPES, line);
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

/* The pass of `base` for all other tensors. Tensors that are to stay are excluded by rules behind the user's own;
 * tensors that other passes take are excluded by `only`. */
static enum vc_status add_others(struct vc_ctx *ctx, struct vc_job *job, const struct named_types *types,
                                 const struct vc_quantize_options *base)
{
    struct vc_rule others[MAX_NAMED_TYPES];
    struct vc_rule *rules = malloc((base->n_rules + types->n + 1) * sizeof *rules);
    struct vc_quantize_options own = *base;
    enum vc_status status;

    if (rules == NULL) {
        return VC_E_NOMEM;
    }
    for (size_t i = 0; i < base->n_rules; i++) {
        rules[i] = base->rules[i];
    }
    own.rules = rules;
    own.only = others;
    for (size_t i = 0; i < types->n; i++) {
        struct vc_rule rule = {.glob = types->list[i].glob, .include = false};

        if (is_kept(&types->list[i])) {
            rules[own.n_rules++] = rule;
        } else {
            others[own.n_only++] = rule;
        }
    }
    status = vc_job_add_quantize(ctx, job, &own);
    free(rules);
    return status;
}

/* For type i the list is its own glob, then the globs of the types before it as exclusions:
 *
 *     type 0    include G0
 *     type 1    include G1, exclude G0
 *     type 2    include G2, exclude G0, exclude G1
 *
 * so the first --type that matches a name takes it. The passes change disjoint sets of tensors. */
enum vc_status named_types_add_passes(struct vc_ctx *ctx, struct vc_job *job, const struct named_types *types,
                                      const struct vc_quantize_options *base)
{
    struct vc_rule only[MAX_NAMED_TYPES + 1];
    struct vc_quantize_options own;
    enum vc_status status = VC_OK;
    char mixture[32];

    for (size_t i = 0; i < types->n; i++) { /* the last rule that matches decides: those of types before this one */
        only[i + 1] = (struct vc_rule){.glob = types->list[i].glob, .include = false};
    }
    for (size_t i = 0; i < types->n && status == VC_OK; i++) {
        if (!is_kept(&types->list[i]) && own_options(&types->list[i], base, mixture, &own)) {
            only[0] = (struct vc_rule){.glob = types->list[i].glob, .include = true};
            own.only = only;
            own.n_only = i + 1;
            status = vc_job_add_quantize(ctx, job, &own);
        }
    }
    if (status != VC_OK) {
        return status;
    }
    return add_others(ctx, job, types, base);
}

void named_types_free(struct named_types *types)
{
    for (size_t i = 0; i < types->n; i++) {
        free(types->list[i].glob);
    }
    types->n = 0;
}
