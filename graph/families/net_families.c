/* net_families.c - the table of families, and a graph from the text of a config.json: which family and
 * which head it names, where the tensors of the base model are, and what of the checkpoint nothing used.
 *
 *     model_type "bert", architectures ["BertForMaskedLM"]      row vc_net_bert, head VC_NET_MASKED, prefix "bert."
 */
#include "graph/families/families_build.h"
#include "graph/families/net.h"

#include "arch/arch_config.h"
#include "arch/arch_family.h"
#include "core/text/glob.h"

/* Families that are no decoders of arch/arch_family.c. A new one is added here and declared in net.h. */
static const struct vc_net_family *const families[] = {
    &vc_net_bert,    &vc_net_roberta, &vc_net_xlm_roberta, &vc_net_camembert, &vc_net_distilbert,
    &vc_net_electra, &vc_net_albert,  &vc_net_mpnet,       &vc_net_t5,        &vc_net_mt5,
    &vc_net_whisper, &vc_net_vit,     &vc_net_gpt2,        &vc_net_resnet,
};

#define N_FAMILIES (sizeof families / sizeof *families)

/* What the names of classes end in, and of what head that is. */
static const struct {
    const char *end;
    enum vc_net_head head;
} heads[] = {
    {"Model", VC_NET_BASE},
    {"ForCausalLM", VC_NET_CAUSAL},
    {"LMHeadModel", VC_NET_LANGUAGE},
    {"ForMaskedLM", VC_NET_MASKED},
    {"ForPreTraining", VC_NET_PRETRAINING},
    {"ForSequenceClassification", VC_NET_SEQUENCE},
    {"EncoderModel", VC_NET_ENCODER},
    {"ForConditionalGeneration", VC_NET_GENERATION},
    {"ForTokenClassification", VC_NET_TOKEN},
    {"ForQuestionAnswering", VC_NET_QUESTION},
    {"ForImageClassification", VC_NET_IMAGE},
};

#define N_HEADS (sizeof heads / sizeof *heads)

bool vc_net_knows(const char *type)
{
    struct vc_net_family decoder;
    size_t k = 0;

    while (k < N_FAMILIES && strcmp(families[k]->type, type) != 0) {
        k++;
    }
    return k < N_FAMILIES || vc_net_find_decoder(type, &decoder);
}

/* By "model_type": a row of the table, or a decoder of arch. A sentence lists what is known. */
static bool find_family(struct vc_net *net)
{
    const char *type = json_string_value(json_object_get(net->config, "model_type"));
    const struct vc_arch_family *row;
    char word[VC_ARCH_TYPE_BYTES];
    const char *known = "";

    for (size_t k = 0; k < N_FAMILIES; k++) {
        if (type != NULL && strcmp(families[k]->type, type) == 0) {
            net->family = families[k];
            return true;
        }
        known = vc_net_print(net, "%s%s%s", known, k == 0 ? "" : ", ", families[k]->type);
    }
    if (type != NULL && vc_net_find_decoder(type, &net->decoder)) {
        net->family = &net->decoder;
        return true;
    }
    for (size_t k = 0; (row = vc_arch_family_at(k)) != NULL; k++) {
        if (vc_arch_has(row, VC_ARCH_GRAPH)) {
            known = vc_net_print(net, "%s, %s", known, vc_arch_family_type(row, word));
        }
    }
    if (type == NULL) {
        vc_graph_complain(net->graph, "config.json: model_type is missing; known are %s", known);
    } else {
        vc_graph_complain(net->graph, "config.json: model_type is '%s'; known are %s%s", type, known,
                          net->exported ? "; of others, ONNX files that their exporters make are taken" : "");
    }
    return false;
}

/* The family's class with that end: "Gemma3TextModel" (base_class), "Gemma3ForCausalLM" (class_name). */
static const char *class_of(struct vc_net *net, enum vc_net_head head, const char *end)
{
    const struct vc_net_family *family = net->family;
    bool other = head != VC_NET_CAUSAL && family->base_class != NULL;

    return vc_net_print(net, "%s%s", other ? family->base_class : family->class_name, end);
}

/* The head that "architectures" names; family->usual if it names nothing. Classes of other families are
 * refused with a list. */
static bool find_head(struct vc_net *net)
{
    const struct vc_net_family *family = net->family;
    const json_t *list = json_object_get(net->config, "architectures");
    const char *name = json_string_value(json_array_get(list, 0));
    const char *known = "";

    net->head = family->usual;
    if (list == NULL || json_is_null(list) || (json_is_array(list) && json_array_size(list) == 0)) {
        return true;
    }
    for (size_t k = 0; k < N_HEADS; k++) {
        const char *own = class_of(net, heads[k].head, heads[k].end);

        if (!(family->heads & heads[k].head)) {
            continue;
        }
        if (name != NULL && strcmp(name, own) == 0) {
            net->head = heads[k].head;
            return true;
        }
        known = vc_net_print(net, "%s%s%s", known, *known == '\0' ? "" : ", ", own);
    }
    if (name == NULL) {
        vc_graph_complain(net->graph, "config.json: architectures names nothing; of the type %s are known %s",
                          family->type, known);
    } else {
        vc_graph_complain(net->graph, "config.json: architectures names '%s'; of the type %s are known %s", name,
                          family->type, known);
    }
    return false;
}

/* Where the base model's tensors are: checkpoints of a base model have no prefix ("encoder..."), those with
 * a head have one ("bert.encoder..."), and both exceptions occur. The probe tensor decides. */
static void find_prefix(struct vc_net *net)
{
    const char *const usual = net->head == VC_NET_BASE ? "" : net->family->prefix;
    const char *const others[] = {net->head == VC_NET_BASE ? net->family->prefix : "", "transformer."};

    net->prefix = usual;
    for (size_t k = 0; k < 2 && net->model != NULL && !vc_net_has(net, net->family->probe); k++) {
        net->prefix = others[k];
    }
    if (!vc_net_has(net, net->family->probe)) {
        net->prefix = usual;
    }
}

/* Tensors that no parameter reads: parts of quantized weights and states of training are expected, so are
 * the family's patterns; any other is a problem: the graph would compute something else than the model. */
static void check_unused(struct vc_net *net)
{
    for (size_t i = 0; net->model != NULL && i < net->model->n_tensors; i++) {
        const struct vc_tensor *t = &net->model->tensors[i];
        bool gone = vc_model_find(net->model, t->name) != i; /* left out by an earlier pass of a chain */
        bool known = net->used[i] || gone || t->role != VC_ROLE_WEIGHT || t->part_of != VC_NO_TENSOR;

        for (const char *const *p = net->family->unused; !known && p != NULL && *p != NULL; p++) {
            known = vc_glob_match(*p, t->name);
        }
        if (!known) {
            vc_graph_complain(net->graph, "%s: models of the type %s have no such tensor", t->name, net->family->type);
        } else if (!net->used[i] && !gone && t->role == VC_ROLE_WEIGHT && t->part_of == VC_NO_TENSOR) {
            vc_graph_leave(net->graph, t->name);
        }
    }
}

/* `used` lives only for this call. Nothing is built with a configuration that failed. */
enum vc_status vc_net_build(struct vc_net *net)
{
    size_t n = net->model != NULL ? net->model->n_tensors : 0;
    enum vc_status status = VC_OK;

    VC_TRY(VC_ZEROS(net->ctx, VC_TAG_MISC, net->used, n + 1));
    net->prefix = "";
    net->input_ids = VC_NO_VALUE;
    net->attention_mask = VC_NO_VALUE;
    if (find_family(net) && find_head(net)) {
        find_prefix(net);
        net->graph->max_positions =
            vc_config_number(net->config, "max_position_embeddings|n_positions|n_ctx|max_target_positions");
        net->cached = net->exported && (net->head & (VC_NET_CAUSAL | VC_NET_LANGUAGE)) != 0;
        net->family->build(net);
        for (uint32_t k = 0; k < net->n_presents; k++) {
            vc_graph_add_output(net->graph, net->presents[k]);
        }
        if (!net->failed && !net->stated) {
            check_unused(net);
        }
    }
out:
    VC_FREE_ALL(net->ctx, net->used, net->presents);
    net->used = NULL;
    net->presents = NULL;
    return status;
}

/* What a head of classes is for; NULL: the config does not say it. */
static const char *problem_type(struct vc_graph *graph, const json_t *config)
{
    const char *word = json_string_value(json_object_get(config, "problem_type"));

    if (word == NULL) {
        return NULL;
    }
    word = vc_arena_copy(graph->ctx, &graph->arena, word, strlen(word));
    if (word == NULL) {
        graph->status = VC_E_NOMEM;
    }
    return word;
}

/* The dtype in which transformers loads weights: "bfloat16" or, in older files, "torch.bfloat16".
 * VC_DTYPE_NONE: not stated. */
static enum vc_dtype float_type(const json_t *config, const char *key)
{
    static const struct {
        const char *name;
        enum vc_dtype type;
    } names[] = {{"float32", VC_DTYPE_F32}, {"bfloat16", VC_DTYPE_BF16}, {"float16", VC_DTYPE_F16},
                 {"half", VC_DTYPE_F16},    {"float", VC_DTYPE_F32},     {"float64", VC_DTYPE_F64}};
    const char *name = json_string_value(json_object_get(config, key));

    name = name != NULL && strncmp(name, "torch.", 6) == 0 ? name + 6 : name;
    for (size_t k = 0; name != NULL && k < sizeof names / sizeof names[0]; k++) {
        if (strcmp(names[k].name, name) == 0) {
            return names[k].type;
        }
    }
    return VC_DTYPE_NONE;
}

/* True if loaders round the inputs of quantized layers in a way that the graph will not compute: a note is
 * given then. fp8 kernels differ among each other; without weights it is not known which layers are
 * quantized. */
static bool rounds_otherwise(const struct vc_net *net)
{
    const json_t *quantized = json_object_get(net->config, "quantization_config");
    json_t *groups = net->model == NULL || net->plain_inputs ? json_object_get(quantized, "config_groups") : NULL;
    const char *key;
    json_t *group;

    json_object_foreach(groups, key, group)
    {
        if (json_is_object(json_object_get(group, "input_activations"))) {
            return true;
        }
    }
    return json_is_string(json_object_get(quantized, "activation_scheme"));
}

/* An encoder that writes is counted as one that tells masked words, whose head is the same. */
static void name_encoder(struct vc_net *net, const char *type)
{
    const char *name = json_string_value(json_array_get(json_object_get(net->config, "architectures"), 0));
    bool writes = name != NULL && (strstr(name, "ForCausalLM") != NULL || strstr(name, "LMHeadModel") != NULL);

    for (size_t k = 0; writes && k < N_FAMILIES; k++) {
        if (strcmp(families[k]->type, type) == 0 && (families[k]->heads & VC_NET_MASKED) != 0) {
            (void)json_object_set_new(net->config, "architectures",
                                      json_pack("[s+]", families[k]->class_name, "ForMaskedLM"));
            net->graph->stands_in = true;
        }
    }
}

/* Takes a model of the same sizes in the place of the configuration. */
static void stand_in(struct vc_net *net)
{
    static const char *const kept[] = {"dtype", "torch_dtype"};
    const char *type = json_string_value(json_object_get(net->config, "model_type"));
    json_t *other = type != NULL && !vc_net_knows(type) ? vc_net_stand_in(net->config, &net->graph->others) : NULL;
    const json_t *text = json_object_get(net->config, "text_config");

    for (size_t k = 0; other != NULL && k < sizeof kept / sizeof *kept; k++) {
        json_t *value = json_object_get(net->config, kept[k]);

        value = json_is_string(value) ? value : json_object_get(text, kept[k]);
        if (value != NULL) {
            (void)json_object_set(other, kept[k], value);
        }
    }
    if (type != NULL) {
        name_encoder(net, type);
    }
    if (other != NULL) {
        json_decref(net->config);
        net->config = other;
        net->graph->stands_in = true;
    }
}

/* Duplicate keys are refused: which of two counts differs between JSON readers. */
enum vc_status vc_families_build(const struct vc_graph_source *source, struct vc_graph *graph)
{
    struct vc_net net = {.ctx = source->ctx,
                         .graph = graph,
                         .model = source->model,
                         .stated = source->stated,
                         .plain_inputs = source->plain_inputs,
                         .exported = source->exported,
                         .arena = source->arena};
    json_error_t error;
    enum vc_status status = VC_OK;

    net.config = json_loadb(source->program->config, source->program->config_bytes, JSON_REJECT_DUPLICATES, &error);
    if (!json_is_object(net.config)) {
        vc_graph_complain(graph, "%s: %s", source->program->config_path,
                          net.config == NULL ? error.text : "is no JSON object");
    } else {
        if (source->stand_in) {
            stand_in(&net);
        }
        graph->float_type = float_type(net.config, "dtype");
        if (graph->float_type == VC_DTYPE_NONE) {
            graph->float_type = float_type(net.config, "torch_dtype");
        }
        graph->problem_type = problem_type(graph, net.config);
        if (rounds_otherwise(&net)) {
            graph->note = vc_net_inputs_note;
        }
        status = vc_net_build(&net);
    }
    json_decref(net.config);
    return status;
}
