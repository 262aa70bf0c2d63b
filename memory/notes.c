/* notes.c - what the program that runs a model keeps elsewhere, and sentences on how the figures were counted. */

#include "core/model/names.h"
#include "core/model/source.h"
#include "memory/estimate.h"

/* More than there is room for are left out: the first ones are about the program. */
static void note(struct vc_estimate *e, const char *sentence)
{
    if (e->out->n_notes < VC_MEMORY_NOTES) {
        e->out->notes[e->out->n_notes++] = sentence;
    }
}

/* What words, positions and kinds of segments are looked up in, by the names of llama.cpp and of transformers. */
static bool is_table(const char *name)
{
    return strcmp(name, "token_embd.weight") == 0 || strcmp(name, "position_embd.weight") == 0 ||
           strcmp(name, "token_types.weight") == 0 || vc_name_is_embedding_table(name);
}

/* The experts that a router chooses from, of all layers as one tensor or by number, in both naming worlds. What all tokens
 * go through (shared experts) and the router stay where they are. */
static bool is_expert(const char *name)
{
    return strstr(name, "_exps.") != NULL || strstr(name, ".experts.") != NULL;
}

/* One more than the highest layer with experts; 0 if there are none. */
uint64_t vc_estimate_moe_layers(const struct vc_graph *graph, const struct vc_model *model)
{
    size_t n = model != NULL ? vc_model_facts(model)->n_tensors : graph != NULL ? vc_graph_param_count(graph) : 0;
    uint64_t layers = 0;

    for (size_t k = 0; k < n; k++) {
        const char *name = model != NULL ? vc_model_tensor(model, k)->name : vc_graph_param(graph, (uint32_t)k)->tensor;
        uint32_t layer = vc_scheme_layer(name);

        layers = is_expert(name) && layer != UINT32_MAX ? vc_max_u64(layers, (uint64_t)layer + 1) : layers;
    }
    return layers;
}

/* Whether an output layer reads the table, too. Not known without a graph. */
static bool is_read_as_head(const struct vc_estimate *e)
{
    for (uint32_t k = 0; e->graph != NULL && k < vc_graph_param_count(e->graph); k++) {
        if (is_table(vc_graph_param(e->graph, k)->tensor) && vc_graph_param(e->graph, k)->tied_to != VC_NO_PARAM) {
            return true;
        }
    }
    for (uint32_t n = 0; e->graph != NULL && n < vc_graph_node_count(e->graph); n++) {
        const struct vc_graph_node *node = vc_graph_node(e->graph, n);

        for (unsigned k = 0; !vc_node_is(node, VC_OP_gather) && k < node->n_inputs; k++) {
            const struct vc_graph_value *value =
                node->inputs[k] != VC_NO_VALUE ? vc_graph_value(e->graph, node->inputs[k]) : NULL;

            if (value != NULL && value->kind == VC_VALUE_PARAMETER &&
                is_table(vc_graph_param(e->graph, value->param)->tensor)) {
                return true;
            }
        }
    }
    return e->graph == NULL;
}

/* The table of words is only looked up: the output layer is another tensor, or there is none. */
static bool looks_up(const struct vc_estimate *e)
{
    return e->has_head || !is_read_as_head(e);
}

/* What llama.cpp keeps on the host: the table of words, which it looks up there (the output layer has its own copy of
 * the table where it is the same tensor), and the experts that are asked for. A
 * microcontroller reads all weights from its flash. */
static uint64_t host_bytes(const struct vc_estimate *e)
{
    uint64_t bytes = 0;
    bool words = looks_up(e);

    if (e->options.program == VC_RUN_BY_MCU) {
        return e->out->components[VC_MEMORY_PARAMETERS].bytes;
    }
    if (e->options.program != VC_RUN_BY_LLAMA_CPP || e->options.offload != VC_OFFLOAD_NONE) {
        return 0;
    }
    for (size_t k = 0; k < e->requests.n; k++) {
        const struct vc_request *r = &e->requests.list[k];
        bool expert = is_expert(r->tensor) && vc_scheme_layer(r->tensor) < e->options.cpu_moe_layers;

        bytes += r->kind == VC_MEMORY_PARAMETERS && ((words && is_table(r->tensor)) || expert) ? r->block : 0;
    }
    return vc_min_u64(bytes, e->out->components[VC_MEMORY_PARAMETERS].bytes);
}

/* A convolution with a bias of a name that exporters give to the sum of both: the normalization behind it is folded
 * in. */
static bool is_folded(const struct vc_graph *graph, const struct vc_graph_node *node)
{
    const struct vc_graph_value *bias =
        vc_node_is(node, VC_OP_conv) && node->n_inputs > 2 && node->inputs[2] != VC_NO_VALUE
            ? vc_graph_value(graph, node->inputs[2])
            : NULL;

    return bias != NULL && bias->kind == VC_VALUE_PARAMETER &&
           strncmp(vc_graph_param(graph, bias->param)->tensor, "onnx::Conv_", 11) == 0;
}

/* Exports for inference have convolutions without the norms behind them. */
static bool has_folded_norms(const struct vc_graph *graph)
{
    for (uint32_t n = 0; graph != NULL && n < vc_graph_node_count(graph); n++) {
        if (is_folded(graph, vc_graph_node(graph, n))) {
            return true;
        }
    }
    return false;
}

/* What is different about the program that runs the model. */
static void note_program(struct vc_estimate *e)
{
    const struct vc_memory_options *o = &e->options;
    bool codes = e->coded || e->written != NULL || vc_has_codes(e->model);

    switch (o->program) {
    case VC_RUN_BY_LLAMA_CPP:
        note(e, "llama.cpp computes in f32, attention in one kernel, at most 512 positions at once (n_ubatch) unless "
                "the sequence is given");
        if (o->context_tokens != 0 && o->cache == VC_DTYPE_F16) {
            note(e, "llama.cpp keeps keys and values as f16 unless another type is given");
        }
        if (e->options.cpu_moe_layers != 0 && e->out->host_weight_bytes != 0) {
            note(e,
                 "the weights of the experts of the first layers are in the memory of the host, as asked for; they are "
                 "a part of the parameters, and of no moment");
        }
        if (e->out->host_weight_bytes != 0 && looks_up(e)) {
            note(e, "llama.cpp keeps the table of words in the memory of the host; it is a part of the parameters, and "
                    "of no moment");
        }
        break;
    case VC_RUN_BY_ONNXRUNTIME:
        note(e,
             "onnxruntime keeps values as long as an operator needs them; its arena grows by powers of two, and takes "
             "up to twice as much where there is room");
        if (e->keeps_values) {
            note(e, "values have the type that the file says: onnxruntime makes weights of fewer bits that type as it "
                    "loads them, except for codes");
        }
        if (codes) {
            note(e, "onnxruntime keeps codes, and decodes the weight of one operator at a time");
        }
        break;
    case VC_RUN_BY_BITSANDBYTES:
        note(e, e->decodes
                    ? "bitsandbytes keeps codes; a product of several rows has its weight of four bits as floats "
                      "while it computes"
                    : "bitsandbytes keeps codes");
        note(e,
             "what bitsandbytes has beside that is not counted: published runs took 1 to 3 % more in inference, and a "
             "fifth more in training with LoRA");
        break;
    case VC_RUN_BY_TRANSFORMERS:
        note(e, codes ? "transformers decodes the codes of this layout to floats as it loads them"
                      : "counted as PyTorch's eager mode runs the modules of transformers");
        break;
    case VC_RUN_BY_VLLM:
        note(e, "vLLM: weights, and keys and values in blocks of 16 positions; it fills the rest of what it may take "
                "(gpu_memory_utilization, 0.9) with more of these blocks");
        break;
    case VC_RUN_BY_PYTORCH:
        note(e, vc_estimate_trains(e) ? "counted as PyTorch trains in eager mode"
                                      : "counted as PyTorch's eager mode runs it");
        break;
    case VC_RUN_BY_MCU:
        note(
            e,
            "weights are read from flash, and are a part of no moment; values are f32 unless the file has other types, "
            "in one arena of RAM beside which nothing is counted: no stack, no program");
        break;
    default:
        break;
    }
}

/* For figures by metadata. */
void vc_estimate_note_bound(struct vc_estimate *e)
{
    note(e,
         "what this architecture computes is not known here: keys and values are those of its metadata, activations a "
         "bound from its sizes");
}

/* For a graph that stands in for an unknown one: all figures are assumed, but for weights that were read. */
void vc_estimate_note_stand_in(struct vc_estimate *e)
{
    struct vc_memory_report *r = e->out;

    for (enum vc_memory_kind k = 0; k < VC_MEMORY_COMPONENTS; k++) {
        bool read = k == VC_MEMORY_PARAMETERS && e->model != NULL;

        r->components[k].known =
            r->components[k].known == VC_KNOWN_NOT || read ? r->components[k].known : VC_KNOWN_ASSUMED;
    }
    for (enum vc_moment m = 0; m < VC_MOMENTS; m++) {
        r->moments[m].known = r->moments[m].known == VC_KNOWN_NOT ? VC_KNOWN_NOT : VC_KNOWN_ASSUMED;
    }
    r->eager.known = r->eager.known == VC_KNOWN_NOT ? VC_KNOWN_NOT : VC_KNOWN_ASSUMED;
    note(e, "what this architecture computes is not known here: counted is a model of the sizes that its configuration "
            "states");
}

/* Bytes on the host are found here, since sentences speak of them. */
void vc_estimate_notes(struct vc_estimate *e)
{
    e->out->host_weight_bytes = host_bytes(e);
    e->out->host_bytes = vc_estimate_sum(e, e->out->host_bytes, e->out->host_weight_bytes);
    note_program(e);
    if (e->by_table) {
        note(e, "quantize makes no such weights of this file: the table of schemes says what they take");
    }
    if (vc_estimate_trains(e) && has_folded_norms(e->graph)) {
        note(e,
             "the file was exported for inference: its normalizations are folded into the convolutions, so that what "
             "training keeps for them is missing from these figures");
    }
}
