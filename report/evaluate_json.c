/* evaluate_json.c - how well a network answers, as JSON, schema vcompress.evaluate/1 (evaluate-1.schema.json). */
#include "report/document_parts.h"

enum vc_status vc_evaluate_json(struct vc_ctx *ctx, const struct vc_evaluate_options *o, const struct vc_quality *q,
                                const char *missed, char **text)
{
    static const char *const losses[] = {"kd", "mse", "cosine"};
    static const char *const precisions[] = {"f32", "f64"};
    const struct vc_model *teacher = o->teacher.weights;
    struct vc_text out;
    struct vc_json json;

    vc_clear_error(ctx);
    vc_json_open(&json, &out, ctx, '{', "vcompress.evaluate/1");
    vc_json_string(&json, "version", vc_version());
    vc_json_string(&json, "model", vc_model_path(o->network.weights));
    vc_json_string(&json, "teacher", teacher != NULL ? vc_model_path(teacher) : NULL);
    vc_json_string(&json, "data", o->data->path);
    vc_json_begin(&json, "options", '{', true);
    vc_json_uint(&json, "batch", o->batch);
    vc_json_real(&json, "temperature", o->temperature);
    vc_json_string(&json, "loss", losses[q->loss]);
    vc_json_string(&json, "precision", precisions[o->precision]);
    vc_json_end(&json, '}');
    vc_json_string(&json, "answers", vc_answer_kind_name(q->answers));
    vc_json_uint(&json, "outputs", q->n_outputs);
    vc_write_quality(&json, "quality", q);
    vc_json_string(&json, "missed", missed);
    vc_json_begin(&json, "notes", '[', false);
    for (uint32_t k = 0; vc_graph_note(o->network.graph, k) != NULL; k++) {
        vc_json_string(&json, NULL, vc_graph_note(o->network.graph, k));
    }
    vc_json_end(&json, ']');
    vc_json_end(&json, '}');
    return vc_json_finish(&json, text);
}
