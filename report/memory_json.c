/* memory_json.c - what memory a model takes, and where it fits, as JSON: vcompress.estimate/1 (estimate-1.schema.json)
 * and vcompress.fit/1 (fit-1.schema.json), which has the first one's members, too. */
#include <vcompress/fit.h>

#include "core/text/json_write.h"

static void write_part(struct vc_json *json, const char *key, const struct vc_memory_part *part)
{
    vc_json_begin(json, key, '{', true);
    vc_json_uint_if(json, "bytes", part->known != VC_KNOWN_NOT, part->bytes);
    vc_json_string(json, "known", vc_known_name(part->known));
    vc_json_end(json, '}');
}

static void write_sizes(struct vc_json *json, const struct vc_graph *graph)
{
    const char *name;

    vc_json_begin(json, "sizes", '{', true);
    for (uint32_t k = 0; graph != NULL && (name = vc_graph_symbol(graph, k)) != NULL; k++) {
        int64_t size = vc_graph_symbol_size(graph, k);

        vc_json_uint_if(json, name, size >= 0, (uint64_t)size);
    }
    vc_json_end(json, '}');
}

static const char *type_name(enum vc_dtype dtype)
{
    return dtype == VC_DTYPE_NONE ? NULL : vc_dtype_name(dtype);
}

/* What is divided between devices, and what is trained of the model. */
static void write_division(struct vc_json *json, const struct vc_memory_options *o)
{
    static const char *const schedules[] = {"1f1b", "gpipe", "interleaved"};
    static const char *const targets[] = {"qv", "attention", "all"};
    static const char *const offloads[] = {"none", "optimizer", "all"};

    vc_json_line(json);
    vc_json_uint(json, "dp", o->dp == 0 ? 1 : o->dp);
    vc_json_uint(json, "zero", o->zero);
    vc_json_uint(json, "tp", o->tp == 0 ? 1 : o->tp);
    vc_json_bool(json, "sequence_parallel", o->sequence_parallel);
    vc_json_uint(json, "pp", o->pp == 0 ? 1 : o->pp);
    vc_json_string(json, "schedule", schedules[o->schedule]);
    vc_json_uint(json, "chunks", o->chunks);
    vc_json_uint(json, "micro_batches", o->micro_batches == 0 ? 1 : o->micro_batches);
    vc_json_uint(json, "bucket_elems", o->bucket_elems);
    vc_json_string(json, "offload", offloads[o->offload]);
    vc_json_line(json);
    vc_json_string(json, "gradients", type_name(o->gradients));
    vc_json_uint(json, "lora_rank", o->lora_rank);
    vc_json_string(json, "lora_targets", o->lora_rank != 0 ? targets[o->targets] : NULL);
    vc_json_bool(json, "teacher", o->teacher != NULL);
    vc_json_string(json, "teacher_dtype", type_name(o->teacher_weights));
    vc_json_uint(json, "im2col_images", o->im2col_images);
    vc_json_uint(json, "budget_bytes", o->budget_bytes);
    vc_json_bool(json, "foreach", o->foreach_step != 0);
}

static void write_options(struct vc_json *json, const struct vc_memory_options *o)
{
    static const char *const modes[] = {"infer", "train", "distill"};
    static const char *const trainers[] = {"pytorch", "vcompress"};
    static const char *const optimizers[] = {"sgd", "momentum", "adam", "adamw", "adafactor", "adam8bit"};
    static const char *const amps[] = {"none", "autocast", "pure"};
    static const char *const recomputes[] = {"none", "sqrt", "every", "layer", "selective", "auto"};
    static const char *const attentions[] = {"fused", "eager", "softmax", "auto"};
    static const char *const allocators[] = {"exact", "cuda", "pytorch", "onnxruntime"};
    static const char *const runtimes[] = {"native", "dequantize", "layerwise"};

    vc_json_begin(json, "options", '{', true);
    vc_json_string(json, "mode", modes[o->mode]);
    vc_json_string(json, "trainer", o->mode != VC_MEMORY_INFER ? trainers[o->trainer] : NULL);
    vc_json_string(json, "dtype", o->scheme != NULL ? o->scheme : type_name(o->weights));
    vc_json_string(json, "activations", type_name(o->activations));
    vc_json_string(json, "optimizer", o->mode != VC_MEMORY_INFER ? optimizers[o->optimizer] : NULL);
    vc_json_string(json, "amp", amps[o->amp]);
    vc_json_string(json, "recompute", recomputes[o->recompute]);
    vc_json_uint(json, "every", o->recompute_every);
    vc_json_line(json);
    vc_json_string(json, "attention", attentions[o->attention]);
    vc_json_string(json, "allocator", allocators[o->allocator]);
    vc_json_string(json, "runtime", runtimes[o->runtime]);
    vc_json_bool(json, "in_place", o->in_place);
    vc_json_bool(json, "dropout", o->dropout);
    vc_json_bool(json, "reuse", o->reuse);
    vc_json_uint(json, "context_tokens", o->context_tokens);
    vc_json_string(json, "kv_dtype", type_name(o->cache));
    write_division(json, o);
    vc_json_end(json, '}');
}

/* Of a pipeline; and what is not in the device's memory, or computed twice. */
static void write_stages(struct vc_json *json, const struct vc_memory_report *r, const struct vc_memory_options *o)
{
    vc_json_begin(json, "stages", '[', false);
    for (unsigned k = 0; k < r->n_stages && r->unknown == NULL; k++) {
        vc_json_begin(json, NULL, '{', true);
        vc_json_uint(json, "peak", r->stages[k].peak_bytes);
        vc_json_real(json, "in_flight", o->mode == VC_MEMORY_INFER ? 1 : r->stages[k].in_flight);
        vc_json_end(json, '}');
    }
    vc_json_end(json, ']');
    vc_json_uint(json, "stage", r->stage);
    vc_json_uint(json, "host_bytes", r->host_bytes);
    vc_json_uint(json, "host_weight_bytes", r->host_weight_bytes);
    vc_json_begin(json, "multiply_adds", '{', true);
    vc_json_uint(json, "forward", r->n_forward);
    vc_json_uint(json, "recomputed", r->recomputed);
    vc_json_end(json, '}');
}

static void write_report(struct vc_json *json, const struct vc_memory_report *r, const struct vc_memory_options *o,
                         const struct vc_graph *graph, const char *path)
{
    vc_json_string(json, "version", vc_version());
    vc_json_begin(json, "model", '{', true);
    vc_json_string(json, "path", path);
    vc_json_uint(json, "parameters", r->n_params);
    vc_json_uint(json, "trained", r->n_trained);
    vc_json_end(json, '}');
    write_sizes(json, graph);
    write_options(json, o);
    vc_json_begin(json, "components", '{', false);
    for (enum vc_memory_kind k = 0; k < VC_MEMORY_COMPONENTS; k++) {
        write_part(json, vc_memory_kind_name(k), &r->components[k]);
    }
    vc_json_end(json, '}');
    vc_json_begin(json, "moments", '{', false);
    for (enum vc_moment k = 0; k < VC_MOMENTS; k++) {
        write_part(json, vc_moment_name(k), &r->moments[k]);
    }
    vc_json_end(json, '}');
    if (r->reserved[VC_MOMENT_PEAK].bytes != 0) {
        vc_json_begin(json, "reserved", '{', false);
        for (enum vc_moment k = 0; k < VC_MOMENTS; k++) {
            write_part(json, vc_moment_name(k), &r->reserved[k]);
        }
        vc_json_end(json, '}');
    }
    vc_json_begin(json, "eager", '{', true);
    vc_json_uint_if(json, "bytes", r->eager.known != VC_KNOWN_NOT, r->eager.bytes);
    vc_json_string(json, "known", vc_known_name(r->eager.known));
    vc_json_string(json, "at", r->eager_at == NULL || *r->eager_at == '\0' ? NULL : r->eager_at);
    vc_json_end(json, '}');
    write_stages(json, r, o);
    vc_json_begin(json, "arena", '{', true);
    vc_json_uint(json, "bytes", r->arena_bytes);
    vc_json_uint(json, "least", r->arena_least);
    vc_json_string(json, "peak_at", *r->peak_at == '\0' ? NULL : r->peak_at);
    vc_json_end(json, '}');
    if (o->mode != VC_MEMORY_INFER && o->recompute == VC_RECOMPUTE_AUTO && r->unknown == NULL) {
        vc_json_uint(json, "over_budget", r->over_budget);
    }
    vc_json_string(json, "unknown", r->unknown);
    vc_json_string(json, "unknown_name", r->unknown_name);
    vc_json_string(json, "program", vc_memory_program_name(o->program));
    vc_json_begin(json, "notes", '[', false);
    for (size_t k = 0; k < r->n_notes; k++) {
        vc_json_string(json, NULL, r->notes[k]);
    }
    vc_json_end(json, ']');
}

static enum vc_status end(struct vc_json *json, char **text)
{
    vc_json_end(json, '}');
    vc_text_add(json->text, "\n");
    return vc_json_finish(json, text);
}

static void write_layers(struct vc_json *json, const struct vc_memory_layers *layers, bool known)
{
    vc_json_begin(json, "layers", '[', false);
    for (size_t k = 0; k < layers->n; k++) {
        const struct vc_memory_layer *layer = &layers->layers[k];

        vc_json_begin(json, NULL, '{', true);
        vc_json_string(json, "name", layer->name);
        vc_json_uint(json, "parameters", layer->n_params);
        vc_json_uint(json, "weight_bytes", layer->weight_bytes);
        vc_json_uint_if(json, "activation_bytes", known, layer->activation_bytes);
        vc_json_uint_if(json, "output_bytes", known, layer->output_bytes);
        vc_json_end(json, '}');
    }
    vc_json_end(json, ']');
}

enum vc_status vc_memory_json(struct vc_ctx *ctx, const struct vc_memory_report *report,
                              const struct vc_memory_layers *layers, const struct vc_memory_options *options,
                              const struct vc_graph *graph, const char *path, char **text)
{
    struct vc_text document;
    struct vc_json json;

    vc_json_open(&json, &document, ctx, '{', "vcompress.estimate/1");
    write_report(&json, report, options, graph, path);
    if (layers != NULL) {
        write_layers(&json, layers, report->components[VC_MEMORY_ACTIVATIONS].known != VC_KNOWN_NOT);
    }
    return end(&json, text);
}

/* ---- fit ---- */

static void write_row(struct vc_json *json, const struct vc_fit_row *row)
{
    const struct vc_fit *fit = &row->fit;

    vc_json_begin(json, NULL, '{', true);
    vc_json_string(json, "gpu", row->gpu != NULL ? row->gpu->name : NULL);
    vc_json_uint(json, "count", row->count);
    vc_json_string(json, "verdict", vc_fit_row_word(row));
    vc_json_line(json);
    vc_json_uint(json, "peak_bytes", fit->peak_bytes);
    vc_json_uint(json, "context_bytes", fit->context_bytes);
    vc_json_uint(json, "slack_bytes", fit->slack_bytes);
    vc_json_uint(json, "need_bytes", fit->need_bytes);
    vc_json_line(json);
    vc_json_uint(json, "visible_bytes", fit->visible_bytes);
    vc_json_uint(json, "usable_bytes", fit->usable_bytes);
    vc_json_int(json, "headroom_bytes", fit->headroom_bytes);
    if (row->has_batch) {
        vc_json_uint(json, "max_batch", row->largest_batch);
    }
    if (row->has_context) {
        vc_json_uint(json, "max_ctx", row->largest_context);
    }
    if (row->has_layers) {
        vc_json_uint(json, "max_gpu_layers", row->largest_layers);
        vc_json_uint(json, "layers", row->n_layers);
    }
    vc_json_end(json, '}');
}

enum vc_status vc_fit_json(struct vc_ctx *ctx, const struct vc_memory_report *report,
                           const struct vc_memory_options *options, const struct vc_graph *graph, const char *path,
                           const struct vc_fit_row *rows, size_t n_rows, char **text)
{
    struct vc_text document;
    struct vc_json json;

    vc_json_open(&json, &document, ctx, '{', "vcompress.fit/1");
    vc_json_begin(&json, "devices", '[', false);
    for (size_t k = 0; k < n_rows; k++) {
        write_row(&json, &rows[k]);
    }
    vc_json_end(&json, ']');
    write_report(&json, report, options, graph, path);
    return end(&json, text);
}
