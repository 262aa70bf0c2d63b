/* sensitivity_json.c - what each tensor would lose as one JSON document, schema vcompress.sensitivity/1; its
 * members are in sensitivity.inc; and what schemes cost, read from such a document.
 *
 * `quantize --aim-... --sensitivity` reads what `sensitivity --data` has written: for a tensor and a scheme the error
 * of the weights and the loss of the outputs. */
#include <math.h>

#include <vcompress/sensitivity.h>

#include "report/document_json.h"
#include "report/document_rows.h"
#include "report/document_tree.h"

/* What the outputs lose where that tensor changes; NULL: not measured. Few tensors are measured in large models, so a
 * search is enough. */
static const struct vc_output_change *changes_of(const struct vc_measured *m, size_t row)
{
    for (size_t t = 0; m != NULL && t < m->n_tensors; t++) {
        if (m->tensors[t].row == row) {
            return m->tensors[t].changes;
        }
    }
    return NULL;
}

#include "report/rows_write.inc"

#include "report/model_file.inc"

#include "report/sensitivity.inc"

enum vc_status vc_write_sensitivity(struct vc_ctx *ctx, const struct vc_document *d, char **text)
{
    return document_sensitivity(ctx, text, d->of, NULL);
}

enum vc_status vc_sensitivity_json_write(struct vc_ctx *ctx, const struct vc_sensitivity *s,
                                         const struct vc_writer *writer)
{
    char *rest = NULL;
    enum vc_status status = document_sensitivity(ctx, &rest, s, writer);

    vc_text_free(rest);
    return status;
}

/* ---- reading ---- */

/* What the caller gets is the first member, so that freeing finds the others. Texts in the list are those of the
 * tree. */
struct costs {
    struct vc_sensitivity_costs result;
    struct vc_ctx *ctx;
    struct vc_document_tree tree;
    struct vc_measured_cost *list;
};

static void end(void *result)
{
    struct costs *c = result;

    vc_document_tree_free(c->ctx, &c->tree);
    vc_free(c->ctx, c->list);
}

/* The way of that name is a scheme, and no sparsity or pattern. */
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

        /* both figures, of a way that quantize can choose */
        if (json_is_number(loss) && json_is_number(error) && is_scheme(c->tree.root, scheme)) {
            if (c->list != NULL) {
                c->list[c->result.n] =
                    (struct vc_measured_cost){name, scheme, json_number_value(error), json_number_value(loss)};
            }
            c->result.n++;
        }
    }
}

/* Two passes over the document: the first counts, the second fills a list of that length. */
enum vc_status vc_sensitivity_costs_read(struct vc_ctx *ctx, const char *path, struct vc_sensitivity_costs **out)
{
    VC_SCOPED_RESULT struct costs *c = vc_result_new(ctx, VC_TAG_REPORT, sizeof *c, end);

    *out = NULL;
    VC_CALL_ALLOC(c);
    c->ctx = ctx;
    VC_CALL(vc_document_read(ctx, path, &c->tree));
    const json_t *tensors = json_object_get(c->tree.root, "tensors");
    for (unsigned pass = 0; pass < 2; pass++) {
        size_t n = c->result.n;

        if (pass == 1) {
            VC_REFUSE_IF(n == 0, ctx, VC_E_FORMAT,
                         "%s: has no tensor with what a scheme does to the outputs: sensitivity with data writes such",
                         path);
            VC_CALL(VC_ARRAY(ctx, VC_TAG_REPORT, c->list, n));
        }
        c->result.n = 0;
        for (size_t i = 0; i < json_array_size(tensors); i++) {
            take_costs(c, json_array_get(tensors, i));
        }
    }
    c->result.costs = c->list;
    *out = vc_give(&c);
    return VC_OK;
}
