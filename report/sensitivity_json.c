/* sensitivity_json.c - what each tensor would lose as one JSON document, schema vcompress.sensitivity/1
 * (sensitivity-1.schema.json), and what schemes cost, read from such a document. */
#include <math.h>
#include <string.h>

#include <vcompress/sensitivity.h>

#include "core/base/checked.h"
#include "core/base/ctx.h"
#include "report/document_rows.h"
#include "report/document_tree.h"

#include "report/rows_write.inc"

#include "report/model_file.inc"

static void write_candidates(struct vc_json *json, const struct vc_sensitivity *s)
{
    static const char *const kinds[] = {[VC_SENSITIVITY_MAGNITUDE] = "magnitude",
                                        [VC_SENSITIVITY_PATTERN] = "pattern",
                                        [VC_SENSITIVITY_SCHEME] = "scheme"};

    vc_json_begin(json, "ways", '[', false);
    for (size_t i = 0; i < s->n_candidates; i++) {
        const struct vc_sensitivity_candidate *candidate = &s->candidates[i];
        bool magnitude = candidate->kind == VC_SENSITIVITY_MAGNITUDE;

        vc_json_begin(json, NULL, '{', true);
        vc_json_string(json, "name", candidate->name);
        vc_json_string(json, "kind", kinds[candidate->kind]);
        vc_json_real(json, "sparsity", magnitude ? (double)candidate->percent / 100.0 : (double)NAN);
        vc_json_end(json, '}');
    }
    vc_json_end(json, ']');
}

static void write_error(struct vc_json *json, const char *candidate, const struct vc_sensitivity_error *error)
{
    bool known = error->reason == NULL;

    vc_json_begin(json, candidate, '{', true);
    vc_json_real(json, "relative", known ? error->relative : (double)NAN);
    vc_json_real(json, "sqnr_db", known ? error->sqnr_db : (double)NAN);
    vc_json_bool(json, "exact", known && error->relative == 0.0);
    vc_json_known(json, "bytes", known ? error->bytes : 0);
    vc_json_string(json, "reason", error->reason);
    vc_json_end(json, '}');
}

static void write_change(struct vc_json *json, const char *candidate, const struct vc_output_change *change)
{
    bool known = change->reason == NULL;

    vc_json_begin(json, candidate, '{', true);
    vc_json_real(json, "relative", known && isfinite(change->relative) ? change->relative : (double)NAN);
    vc_json_real(json, "answers", known ? change->answers : (double)NAN);
    vc_json_string(json, "reason",
                   known && !isfinite(change->relative) ? "the outputs are not finite any more" : change->reason);
    vc_json_end(json, '}');
}

/* What the outputs lose where that tensor changes; nothing where it was not asked for. */
static void write_outputs(struct vc_json *json, const struct vc_sensitivity *s, size_t row)
{
    const struct vc_measured *m = s->measured;
    size_t t = 0;

    while (m != NULL && t < m->n_tensors && m->tensors[t].row != row) {
        t++;
    }
    if (m == NULL) {
        return;
    }
    if (t == m->n_tensors || m->tensors[t].changes == NULL) {
        vc_json_null(json, "outputs");
        return;
    }
    vc_json_begin(json, "outputs", '{', true);
    for (size_t i = 0; i < m->n_candidates; i++) {
        vc_json_line(json);
        write_change(json, s->candidates[m->candidates[i]].name, &m->tensors[t].changes[i]);
    }
    vc_json_end(json, '}');
}

static void write_group(struct vc_json *json, const struct vc_measured *m, const struct vc_measured_group *group)
{
    static const char *const units[] = {[VC_UNIT_NEURONS] = "neurons",
                                        [VC_UNIT_HEADS] = "heads",
                                        [VC_UNIT_EXPERTS] = "experts",
                                        [VC_UNIT_HIDDEN] = "hidden"};

    vc_json_begin(json, NULL, '{', true);
    vc_json_string(json, "name", group->name);
    vc_json_string(json, "unit", units[group->unit]);
    vc_json_uint(json, "units", group->n_units);
    vc_json_string(json, "reason", group->reason);
    vc_json_begin(json, "removed", '[', true);
    for (size_t i = 0; group->changes != NULL && i < m->n_percents; i++) {
        vc_json_begin(json, NULL, '{', true);
        vc_json_real(json, "sparsity", (double)m->percents[i] / 100.0);
        vc_json_uint(json, "units", group->n_removed[i]);
        vc_json_real(json, "weights", group->relative[i]);
        write_change(json, "outputs", &group->changes[i]);
        vc_json_end(json, '}');
    }
    vc_json_end(json, ']');
    vc_json_end(json, '}');
}

/* How the outputs were measured, and what removing units costs. */
static void write_measured(struct vc_json *json, const struct vc_sensitivity *s)
{
    const struct vc_measured *m = s->measured;

    if (m == NULL) {
        return;
    }
    vc_json_begin(json, "data", '{', false);
    vc_json_uint(json, "rows", m->n_rows);
    vc_json_uint(json, "runs", m->n_runs);
    vc_json_begin(json, "agreement", '{', true);
    for (size_t i = 0; i < m->n_candidates; i++) {
        vc_json_real(json, s->candidates[m->candidates[i]].name, m->agreement[i]);
    }
    vc_json_end(json, '}');
    vc_json_begin(json, "group_agreement", '[', true);
    for (size_t i = 0; i < m->n_percents; i++) {
        vc_json_begin(json, NULL, '{', true);
        vc_json_real(json, "sparsity", (double)m->percents[i] / 100.0);
        vc_json_real(json, "agreement", m->group_agreement[i]);
        vc_json_end(json, '}');
    }
    vc_json_end(json, ']');
    vc_json_begin(json, "groups", '[', false);
    for (size_t i = 0; i < m->n_groups; i++) {
        write_group(json, m, &m->groups[i]);
    }
    vc_json_end(json, ']');
    vc_json_end(json, '}');
}

static void write_row(struct vc_json *json, const struct vc_sensitivity *s, size_t number)
{
    const struct vc_sensitivity_row *row = &s->rows[number];

    vc_json_begin(json, NULL, '{', true);
    vc_json_string(json, "name", row->name);
    vc_json_string(json, "dtype", vc_dtype_name(row->dtype));
    vc_json_uint(json, "elements", row->n_elems);
    vc_json_string(json, "reason", row->reason);
    vc_json_string(json, "prune_keeps", row->prune_keeps);
    if (row->errors != NULL) {
        vc_json_uint(json, "zeros", row->n_zeros);
        vc_json_real(json, "rms", row->rms);
        vc_json_begin(json, "errors", '{', true);
        for (size_t i = 0; i < s->n_candidates; i++) {
            vc_json_line(json);
            write_error(json, s->candidates[i].name, &row->errors[i]);
        }
        vc_json_end(json, '}');
    } else {
        vc_json_null(json, "zeros");
        vc_json_null(json, "rms");
        vc_json_null(json, "errors");
    }
    write_outputs(json, s, number);
    vc_json_end(json, '}');
}

static void write_advice(struct vc_json *json, const char *key, const struct vc_sensitivity *s,
                         const struct vc_sensitivity_advice *advice)
{
    bool known = advice->candidate != VC_NO_TENSOR;

    vc_json_begin(json, key, '{', true);
    vc_json_string(json, "way", known ? s->candidates[advice->candidate].name : NULL);
    vc_json_real(json, "median", known ? advice->median : (double)NAN);
    vc_json_real(json, "limit", known ? advice->limit : (double)NAN);
    vc_json_begin(json, "picks", '[', false);
    for (size_t i = 0; i < advice->n_picks; i++) {
        const struct vc_sensitivity_pick *pick = &advice->picks[i];

        vc_json_begin(json, NULL, '{', true);
        vc_json_string(json, "name", s->rows[pick->row].name);
        vc_json_real(json, "relative", pick->relative);
        vc_json_real(json, "sparsity", (double)pick->percent / 100.0);
        vc_json_end(json, '}');
    }
    vc_json_end(json, ']');
    vc_json_end(json, '}');
}

enum vc_status vc_sensitivity_json(struct vc_ctx *ctx, const struct vc_sensitivity *s, char **out)
{
    struct vc_json json;
    struct vc_text text;

    *out = NULL;
    vc_json_open(&json, &text, ctx, '{', "vcompress.sensitivity/1");
    rows_model_file(&json, "input", FLAT, s->model);
    vc_json_uint(&json, "measured", s->n_measured);
    vc_json_string(&json, "note", s->note);
    vc_json_begin(&json, "advice", '{', false);
    write_advice(&json, "prune", s, &s->prune);
    write_advice(&json, "quantize", s, &s->quantize);
    vc_json_end(&json, '}');
    write_candidates(&json, s);
    write_measured(&json, s);
    vc_json_begin(&json, "tensors", '[', false);
    for (size_t i = 0; i < s->n_rows; i++) {
        write_row(&json, s, i);
    }
    vc_json_end(&json, ']');
    vc_json_end(&json, '}');
    return vc_json_finish(&json, out);
}

/* ---- reading ---- */

/* What the caller gets is the first member; texts are the document's. */
struct costs {
    struct vc_sensitivity_costs result;
    struct vc_ctx *ctx;
    struct vc_document_tree tree;
    struct vc_measured_cost *list;
};

static bool is_scheme(const json_t *root, const char *name)
{
    const json_t *ways = json_object_get(root, "ways");

    for (size_t i = 0; i < json_array_size(ways); i++) {
        const json_t *way = json_array_get(ways, i);
        const char *kind = json_string_value(json_object_get(way, "kind"));
        const char *its = json_string_value(json_object_get(way, "name"));

        if (kind != NULL && its != NULL && strcmp(its, name) == 0) {
            return strcmp(kind, "scheme") == 0;
        }
    }
    return false;
}

/* The figures of a tensor that has both: counted, and listed where there is room. */
static void take_costs(struct costs *c, json_t *tensor)
{
    json_t *outputs = json_object_get(tensor, "outputs");
    const json_t *errors = json_object_get(tensor, "errors");
    const char *name = json_string_value(json_object_get(tensor, "name"));
    const char *scheme;
    json_t *change;

    if (name == NULL) {
        return;
    }
    json_object_foreach(outputs, scheme, change)
    {
        const json_t *loss = json_object_get(change, "relative");
        const json_t *error = json_object_get(json_object_get(errors, scheme), "relative");

        if (json_is_number(loss) && json_is_number(error) && is_scheme(c->tree.root, scheme)) {
            if (c->list != NULL) {
                c->list[c->result.n] =
                    (struct vc_measured_cost){name, scheme, json_number_value(error), json_number_value(loss)};
            }
            c->result.n++;
        }
    }
}

enum vc_status vc_sensitivity_costs_read(struct vc_ctx *ctx, const char *path, struct vc_sensitivity_costs **out)
{
    struct costs *c = vc_calloc_array(ctx, VC_TAG_REPORT, 1, sizeof *c);
    enum vc_status status = VC_OK;
    const json_t *tensors;

    *out = NULL;
    VC_TRY_ALLOC(c);
    c->ctx = ctx;
    VC_TRY(vc_document_read(ctx, path, &c->tree));
    tensors = json_object_get(c->tree.root, "tensors");
    for (unsigned pass = 0; pass < 2; pass++) {
        size_t n = c->result.n;

        if (pass == 1) {
            if (n == 0) {
                status = vc_fail(
                    ctx, VC_E_FORMAT,
                    "%s: has no tensor with what a scheme does to the outputs: sensitivity with data writes such",
                    path);
                goto out;
            }
            VC_TRY(VC_ARRAY(ctx, VC_TAG_REPORT, c->list, n));
        }
        c->result.n = 0;
        for (size_t i = 0; i < json_array_size(tensors); i++) {
            take_costs(c, json_array_get(tensors, i));
        }
    }
    c->result.costs = c->list;
    *out = &c->result;
    return VC_OK;
out:
    vc_sensitivity_costs_free(c != NULL ? &c->result : NULL);
    return status;
}

void vc_sensitivity_costs_free(struct vc_sensitivity_costs *costs)
{
    struct costs *c = (struct costs *)(void *)costs;

    if (c != NULL) {
        vc_document_tree_free(c->ctx, &c->tree);
        vc_free(c->ctx, c->list);
        vc_free(c->ctx, c);
    }
}
