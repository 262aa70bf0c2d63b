/* prune_structured.c - see prune_structured.h. Most of the file reads --remove, a text with a line per group of units:
 *
 *     # comments and empty lines say nothing
 *     fc1.weight:0 3,7,12-20
 *     encoder:0.weight:1 0-63            the axis is behind the last colon with digits and a blank */
#include "tools/commands/prune_structured.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define MAX_UNITS ((uint64_t)1 << 24) /* of all lines of --remove */

/* Whether an option asks for rows and columns to go, not for zeros. */
bool structured_asked(const struct structured_cli *cli)
{
    return cli->options.share != NULL || cli->remove != NULL;
}

/* ---- --remove ---- */

/* "3" or "12-20" at *s, which moves behind it. A range of more than MAX_UNITS is refused before memory is asked for. */
static bool take_range(const char **s, uint64_t *first, uint64_t *last)
{
    char *end;

    if (**s < '0' || **s > '9') {
        return false;
    }
    *first = *last = strtoull(*s, &end, 10);
    if (*end == '-' && end[1] >= '0' && end[1] <= '9') {
        *last = strtoull(end + 1, &end, 10);
    }
    *s = end;
    return *first <= *last && *last - *first < MAX_UNITS;
}

/* "3,7,12-20": the units in the order given, in memory of malloc. room: how many may still come, of MAX_UNITS in all
 * lines. False: no such list, too many, or no memory. */
static bool parse_units(const char *text, size_t room, struct vc_structured_units *out)
{
    uint64_t *units = NULL;
    size_t n = 0;

    for (const char *s = text;; s++) {
        uint64_t first, last;

        while (*s == ' ' || *s == '\t') {
            s++;
        }
        if (!take_range(&s, &first, &last) || n + (last - first) >= room) {
            break;
        }
        /* room for the whole range at once */
        uint64_t *grown = realloc(units, (n + (size_t)(last - first) + 1) * sizeof(*units));
        if (grown == NULL) {
            break;
        }
        units = grown;
        for (uint64_t u = 0; u <= last - first; u++) {
            units[n++] = first + u;
        }
        while (*s == ' ' || *s == '\t' || *s == '\r') {
            s++;
        }
        if (*s == '\0') {
            out->units = units;
            out->n = n;
            return true;
        }
        if (*s != ',') {
            break;
        }
    }
    free(units);
    return false;
}

/* Where "name:axis units" has its colon: the last one that is followed by digits and a space. NULL: none. Names of
 * tensors may have colons; an axis has at most three digits. */
static char *find_axis(char *line)
{
    char *found = NULL;

    for (char *s = line; *s != '\0'; s++) {
        size_t n = *s == ':' ? strspn(s + 1, "0123456789") : 0;

        if (n != 0 && n < 4 && (s[1 + n] == ' ' || s[1 + n] == '\t')) {
            found = s;
        }
    }
    return found;
}

/* One line, without its end, which is changed. Adds its units to the structure, which owns them then. False: it is no
 * selection, or no memory. */
static bool parse_line(struct structured_cli *cli, char *line)
{
    struct vc_structured_units *grown;
    struct vc_structured_units own = {.n = 0};
    char *rest;

    line += strspn(line, " \t\r");
    if (line[0] == '\0' || line[0] == '#') {
        return true;
    }
    char *colon = find_axis(line);
    if (colon == NULL || colon == line) {
        return false;
    }
    own.axis = (unsigned)strtoul(colon + 1, &rest, 10);
    if (!parse_units(rest, (size_t)MAX_UNITS - cli->n_listed, &own)) {
        return false;
    }
    cli->n_listed += own.n;
    char *name = strndup(line, (size_t)(colon - line));
    grown = realloc(cli->units, (cli->n_units + 1) * sizeof(*grown));
    if (grown != NULL) {
        cli->units = grown;
    }
    if (name == NULL || grown == NULL) {
        free(name);
        free((void *)(uintptr_t)own.units);
        return false;
    }
    own.tensor = name;
    cli->units[cli->n_units++] = own;
    return true;
}

/* Line by line; the sentence about a line that cannot be read has its number. */
int structured_read(struct app *app, struct structured_cli *cli, FILE *from)
{
    char *line = NULL;
    size_t room = 0;
    size_t number = 0;
    int rc = GO_ON;
    ssize_t n;

    while (rc == GO_ON && (n = getline(&line, &room, from)) >= 0) {
        number++;
        line[strcspn(line, "\n")] = '\0';
        if (!parse_line(cli, line)) {
            rc = app_usage(app, "%s, line %zu: no selection; expected one such as 'fc1.weight:0 3,7,12-20'",
                           cli->remove, number);
        }
    }
    if (rc == GO_ON && ferror(from) != 0) {
        rc = app_refuse(app, VC_E_IO, "%s: cannot read it: %s", cli->remove, strerror(errno));
    }
    if (rc == GO_ON && cli->n_units == 0) {
        rc = app_usage(app, "%s: has no line that selects anything, such as 'fc1.weight:0 3,7,12-20'", cli->remove);
    }
    free(line);
    return rc;
}

/* Opens and reads --remove. GO_ON or a status. */
static int read_removals(struct app *app, struct structured_cli *cli)
{
    FILE *from = fopen(cli->remove, "r");

    if (from == NULL) {
        return app_refuse(app, VC_E_IO, "%s: cannot open it: %s", cli->remove, strerror(errno));
    }
    int rc = structured_read(app, cli, from);
    (void)fclose(from);
    return rc;
}

/* ---- the rest ---- */

/* --dims "neurons,heads": a bit for each kind, 1 << VC_UNIT_NEURONS and its like. GO_ON or a status. */
static int read_dims(struct app *app, struct structured_cli *cli)
{
    static const struct opt_word units[] = {{"neurons", VC_UNIT_NEURONS},
                                            {"heads", VC_UNIT_HEADS},
                                            {"experts", VC_UNIT_EXPERTS},
                                            {"hidden", VC_UNIT_HIDDEN},
                                            {NULL, 0}};
    const char *s = cli->dims;

    cli->options.units = 0;
    while (s != NULL) {
        size_t n = strcspn(s, ",");
        char word[16] = "";
        int unit = 0;

        if (n < sizeof(word)) {
            memcpy(word, s, n);
        }
        if (!options_choice(units, word, &unit)) {
            return app_usage(app, "--dims %s: '%.*s' is not neurons, heads, experts or hidden", cli->dims, (int)n, s);
        }
        cli->options.units |= 1u << unit;
        s = s[n] == ',' ? s + n + 1 : NULL;
    }
    return GO_ON;
}

/* Texts become lists here, once all options are known: --remove may stand before the options that it depends on. */
int structured_ready(struct app *app, struct structured_cli *cli)
{
    int rc = GO_ON;

    if (cli->dims != NULL) {
        rc = read_dims(app, cli);
    }
    if (rc == GO_ON && cli->remove != NULL) {
        rc = read_removals(app, cli);
    }
    cli->options.remove = cli->units;
    cli->options.n_remove = cli->n_units;
    return rc;
}

/* The couplings of a graph that says what the model computes: a text, or an ONNX file. With statistics (--calibration)
 * the text of the graph is needed, too: it finds the values that they are of. */
static enum vc_status couplings_of(struct vc_ctx *ctx, const struct vc_model *model, struct structured_cli *cli)
{
    struct vc_model *other = NULL;
    struct vc_graph *graph = NULL;
    enum vc_status status = vc_graph_open(ctx, cli->graph, model, false, &other, &graph);

    if (status == VC_OK && cli->options.calibration != NULL) {
        status = vc_graph_print_text(ctx, graph, &cli->graph_text);
    }
    if (status == VC_OK) {
        status = vc_graph_bind_usual(ctx, graph);
    }
    if (status == VC_OK) {
        status = vc_couplings_of_graph(ctx, graph, &cli->read);
    }
    vc_graph_close(graph);
    vc_model_close(other);
    return status;
}

/* Couplings belong to one input: those of the input before are freed. */
enum vc_status structured_add(struct vc_ctx *ctx, struct vc_job *job, const struct vc_model *model,
                              struct structured_cli *cli)
{
    enum vc_status status = VC_OK;

    vc_result_free(cli->read);
    vc_text_free(cli->graph_text);
    cli->read = NULL;
    cli->graph_text = NULL;
    /* couplings of a file, or of a graph; without either the library takes those of the model's own graph */
    if (cli->couplings != NULL) {
        status = vc_couplings_read(ctx, cli->couplings, model, &cli->read);
    } else if (cli->graph != NULL) {
        status = couplings_of(ctx, model, cli);
    }
    cli->options.couplings = cli->read;
    cli->options.graph_text = cli->graph_text;
    return status == VC_OK ? vc_job_add_structured(ctx, job, &cli->options) : status;
}

/* The members are const for the library, which does not own them. */
void structured_end(struct structured_cli *cli)
{
    for (size_t i = 0; i < cli->n_units; i++) {
        free((void *)(uintptr_t)cli->units[i].tensor);
        free((void *)(uintptr_t)cli->units[i].units);
    }
    free(cli->units);
    vc_result_free(cli->read);
    vc_text_free(cli->graph_text);
}
