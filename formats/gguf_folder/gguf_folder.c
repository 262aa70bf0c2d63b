/* gguf_folder.c - the GGUF model of a folder: makes the metadata in memory, where the reader of GGUF finds them, and
 * the list of tensors, whose values come from the source.
 *
 *     config.json, tokenizer -> pairs -> bytes of a file without tensors -> struct gguf, so that writers copy the pairs
 *     tensors of the source  -> plan  -> tensors of the model, read by llm_values.c
 *
 * make() has the order of the work: family, sizes, rotary embeddings, checks, tensors, keys, vocabulary. All of it
 * reads headers and JSON; the values of at most one pair of tensors are compared (a head that may be a copy of the
 * embedding), and scales for whole matrices of NVFP4 are read. */
#include "formats/gguf_folder/gguf_folder.h"

#include "core/base/checked.h"
#include "formats/gguf_folder/vocab.h"
#include "formats/huggingface/config/hf_config.h"
#include "formats/huggingface/infolder.h"
#include "formats/io/side_file.h"

/* A pipeline of several models, and a folder whose subfolders hold models, are no single model. */
enum vc_status vc_gguf_folder_fits(struct vc_ctx *ctx, const struct vc_model *source, bool *fits)
{
    VC_SCOPED char *text = NULL;
    size_t n = 0;
    bool there;

    *fits = false;
    if (source->folder == NULL || source->n_components != 0 || vc_infolder_has_models(source->folder)) {
        return VC_OK;
    }
    VC_CALL(vc_side_check(ctx, vc_infolder_path(source->folder), VC_HF_CONFIG_NAME, &there));
    VC_CALL(vc_hf_config_read_beside(ctx, vc_infolder_path(source->folder), &text, &n));
    *fits = text != NULL;
    return VC_OK;
}

/* vc_source_ops.read */
static enum vc_status read_values(struct vc_ctx *ctx, const struct vc_model *model, size_t tensor, enum vc_form form,
                                  uint64_t offset, void *dst, size_t n_bytes, struct vc_check *check)
{
    /* `tensor` is a number of the plan, which is that of the model. */
    const struct llm_folder *self = model->self;

    /* both forms are the bytes of the data, as in a file */
    return vc_llm_values_read(ctx, self->source, &self->plan.tensors[tensor], offset, dst, n_bytes);
}

/* vc_source_ops.source_name: the name in the folder, for reports. NULL where the tensor is made of several, or where
 * its columns moved: then one name would mislead. */
static const char *source_name(const struct vc_model *model, size_t tensor)
{
    const struct llm_folder *self = model->self;
    const struct llm_tensor *t = &self->plan.tensors[tensor];

    bool other_columns = t->columns != 0 || (t->n_dims > 1 && t->row_elems != t->shape[t->n_dims - 1]);

    return t->n_pieces == 1 && !other_columns && t->values == NULL ? self->source->tensors[t->pieces[0].source].name
                                                                   : NULL;
}

/* vc_source_ops.close. shards is NULL if the model failed before its pairs were read. Inputs are the source's: only
 * their list is freed here, vc_model_close(source) closes the files. */
static void close_folder(struct vc_model *model)
{
    struct vc_ctx *ctx = model->ctx;
    struct llm_folder *self = model->self;

    if (self->gguf.shards != NULL) {
        vc_infile_close(ctx, self->gguf.shards[0].file);
    }
    vc_free(ctx, self->gguf.shards);
    vc_arena_release(ctx, &self->gguf.arena);
    vc_llm_plan_release(ctx, &self->plan);
    vc_model_close(self->source);
    vc_free(ctx, model->inputs);
    vc_free(ctx, self);
    vc_free(ctx, model->tensors);
    vc_free(ctx, model->io);
}

/* A model that is to become a folder has its program in there. */
static const struct vc_source_ops back_ops = {.read = read_values, .close = close_folder};
static const struct vc_source_ops ops = {
    .read = read_values, .source_name = source_name, .close = close_folder, .program = vc_gguf_program};

/* shard: the number of the source's file that the first piece lies in, so that a writer can split the output as the
 * source is split. */
enum vc_status vc_llm_folder_list(struct vc_ctx *ctx, const struct llm_folder *self, struct vc_model *model)
{
    const struct llm_plan *plan = &self->plan;

    VC_CALL_ALLOC(model->tensors = vc_calloc_array(ctx, VC_TAG_NAMES, plan->n, sizeof *model->tensors));
    VC_CALL_ALLOC(model->io = vc_calloc_array(ctx, VC_TAG_NAMES, plan->n, sizeof *model->io));
    model->n_tensors = plan->n;
    for (size_t i = 0; i < plan->n; i++) {
        const struct llm_tensor *t = &plan->tensors[i];
        uint64_t n = 1;

        for (unsigned d = 0; d < t->n_dims; d++) {
            n *= t->shape[d];
        }
        model->tensors[i] = (struct vc_tensor){.name = t->name,
                                               .dtype = t->dtype,
                                               .n_dims = t->n_dims,
                                               .shape = t->shape,
                                               .n_elems = n,
                                               .size_bytes = vc_dtype_bytes(t->dtype, n),
                                               .file_bytes = vc_dtype_bytes(t->dtype, n),
                                               .part_of = VC_NO_TENSOR,
                                               .alias_of = VC_NO_TENSOR};
        model->io[i] = (struct vc_tensor_io){
            .raw_bytes = model->tensors[i].size_bytes,
            .shard = t->n_pieces != 0 && model->n_shards != 0 ? self->source->io[t->pieces[0].source].shard : 0};
    }
    return vc_model_index_names(ctx, model);
}

/* The head of a GGUF file: "GGUF", u32 version, u64 number of tensors (0), u64 number of pairs; then the pairs. The
 * reader of files checks it like any other file, so that a pair with a wrong length cannot reach a writer. The infile
 * takes `bytes` over. */
enum vc_status vc_llm_pairs_read(struct vc_ctx *ctx, struct llm_pairs *pairs, const char *path, struct gguf *to,
                                 struct vc_model *model)
{
    uint64_t n = VC_GGUF_HEADER_BYTES + pairs->text.n;
    unsigned char *bytes = vc_alloc(ctx, VC_TAG_NAMES, (size_t)n);
    VC_SCOPED_CURSOR struct gguf_cursor cursor = {.ctx = ctx};
    uint64_t n_tensors;

    VC_CALL_ALLOC(bytes);
    memcpy(bytes, "GGUF", 4);
    vc_put_le32(bytes + 4, VC_GGUF_VERSION);
    vc_put_le64(bytes + 8, 0);
    vc_put_le64(bytes + 16, pairs->n);
    memcpy(bytes + VC_GGUF_HEADER_BYTES, pairs->text.data, pairs->text.n);
    vc_text_release(&pairs->text);
    to->shards = vc_calloc_array(ctx, VC_TAG_NAMES, 1, sizeof *to->shards);
    if (to->shards == NULL) {
        vc_free(ctx, bytes);
        return VC_E_NOMEM;
    }
    to->n_shards = 1;
    VC_CALL(vc_infile_of_bytes(ctx, bytes, n, path, &to->shards[0].file));
    VC_CALL(vc_gguf_cursor_init(ctx, to->shards[0].file, &cursor));
    return vc_gguf_read_head(&cursor, model, &n_tensors, &to->shards[0].metadata);
}

/* Whether a name of the folder has that part. */
static bool has_tensor(const struct vc_model *source, const char *part)
{
    size_t i = 0;

    while (i < source->n_tensors && strstr(source->tensors[i].name, part) == NULL) {
        i++;
    }
    return i < source->n_tensors;
}

/* Whether a model has experts whose type does not say it: by a key, or by the tensors. */
static bool has_experts(const struct llm_config *config, const struct vc_model *source,
                        const struct vc_arch_family *family)
{
    if (strcmp(family->gguf, "gemma4") == 0) {
        return vc_llm_flag(config, "enable_moe_block", false);
    }
    return has_tensor(source, ".block_sparse_moe.") || has_tensor(source, ".mixer.experts.");
}

/* The row of the family, or why there is none. A folder with codes goes on where the codes are known here
 * (source->tensors[i].quant), or where it is gpt_oss with MXFP4, whose blocks are tensors of bytes. Experts of gemma4
 * are chosen by a key, not by the model_type. */
static enum vc_status find_family(struct vc_ctx *ctx, const struct llm_config *config, const struct vc_model *source,
                                  const struct vc_arch_family **out)
{
    const json_t *quantized = vc_llm_find(config, "quantization_config");
    const char *method = json_string_value(json_object_get(quantized, "quant_method"));
    bool keeps = method != NULL && strcmp(method, "mxfp4") == 0;
    char list[1200], type[VC_ARCH_TYPE_BYTES], with[VC_ARCH_TYPE_BYTES + 32];

    for (size_t i = 0; i < source->n_tensors && !keeps; i++) { /* others are refused by name */
        keeps = source->tensors[i].quant != NULL;
    }
    *out = config->model_type != NULL ? vc_llm_family(config->model_type) : NULL;
    if (*out != NULL) { /* rows of models with a part more, or less */
        bool experts = has_experts(config, source, *out);
        bool attention =
            strcmp(vc_llm_word(config, "position_embedding_type", ""), "rope") == 0 && !has_tensor(source, ".mamba.");

        bool encoder = strcmp((*out)->gguf, "t5") == 0 && !has_tensor(source, ".EncDecAttention.");

        (void)snprintf(with, sizeof with, "%s%s%s%s", vc_arch_family_type(*out, type),
                       attention && strcmp((*out)->gguf, "granitehybrid") == 0 ? "+attention" : "",
                       encoder ? "+encoder" : "", experts ? "+experts" : "");
        *out = vc_llm_family(with) != NULL ? vc_llm_family(with) : *out;
    }
    VC_REFUSE_IF(*out == NULL, ctx, VC_E_UNSUPPORTED,
                 "config.json: the model_type '%s' is none of those that become a GGUF model for llama.cpp (%s); "
                 "%s keeps the tensors as they are",
                 config->model_type != NULL ? config->model_type : "", vc_llm_family_list(list, sizeof list),
                 vc_option(ctx, "as_gguf=false"));
    VC_REFUSE_IF(quantized != NULL && !(keeps && (strcmp(method != NULL ? method : "", "mxfp4") != 0 ||
                                                  strcmp((*out)->gguf, "gpt-oss") == 0)),
                 ctx, VC_E_UNSUPPORTED, "config.json: its weights are quantized ('%s'), and are not decoded here",
                 method != NULL ? method : "no quant_method");
    return VC_OK;
}

/* compressed-tensors may say that inputs are rounded to 8 bits, too. llama.cpp rounds inputs by its own rules, so the
 * file says nothing, and a note tells the user. */
static enum vc_status note_inputs(struct vc_ctx *ctx, const struct llm_config *config, struct vc_model *model)
{
    json_t *groups = json_object_get(vc_llm_find(config, "quantization_config"), "config_groups");
    const char *key;
    json_t *group;

    json_object_foreach(groups, key, group)
    {
        if (json_is_object(json_object_get(group, "input_activations"))) {
            return vc_model_add_fact(
                ctx, model, VC_FACT_NOTE,
                "loaders of the folder round the inputs of its quantized layers, which GGUF has no "
                "place for: weights alone are codes there");
        }
    }
    return VC_OK;
}

/* The sorted plan and the pairs become the model. */
static enum vc_status finish(struct vc_ctx *ctx, struct llm_folder *self, struct vc_model *model,
                             struct llm_pairs *pairs)
{
    VC_CALL(pairs->text.status);
    VC_CALL(vc_llm_folder_list(ctx, self, model));
    VC_CALL(vc_gguf_attach_scales(ctx, model));
    return vc_llm_pairs_read(ctx, pairs, model->path, &self->gguf, model);
}

/* Fills self->plan, model->tensors and the metadata. Pairs are added in the order of the file. */
static enum vc_status make(struct vc_ctx *ctx, const struct vc_open_options *options, const struct llm_config *config,
                           struct llm_folder *self, struct vc_model *model, struct llm_pairs *pairs)
{
    const struct vc_arch_family *family = NULL;
    struct vc_arch_sizes sizes;
    struct llm_rope rope;

    if (options->gguf_mmproj) {
        VC_CALL(vc_llm_vision_make(ctx, config, self->source, model, &self->plan, pairs));
        vc_llm_plan_sort(&self->plan);
        return finish(ctx, self, model, pairs);
    }
    VC_CALL(find_family(ctx, config, self->source, &family));
    pairs->architecture = family->gguf;
    VC_CALL(vc_llm_sizes_read(ctx, config, family, &sizes));
    VC_CALL(vc_llm_rope_read(ctx, config, family, &rope));
    VC_CALL(vc_llm_config_check(ctx, config));
    VC_CALL(vc_llm_check(ctx, config, family, &sizes, &rope, model));
    VC_CALL(vc_llm_config_check(ctx, config));
    VC_CALL(note_inputs(ctx, config, model));
    sizes.rotated = vc_llm_rotated(&sizes, &rope);
    VC_CALL(vc_llm_tensors_plan(ctx, self->source, config, family, &sizes, false, model, &self->plan));
    VC_CALL(vc_llm_keys_put(ctx, config, family, &sizes, &rope, &self->plan, pairs));
    VC_CALL(vc_llm_rope_put(ctx, config, family, &sizes, &rope, &self->plan, model, pairs));
    if (strcmp(family->gguf, "apertus") == 0) {
        VC_CALL(vc_llm_xielu_put(ctx, self->source, &sizes, pairs));
    }
    VC_CALL(vc_llm_config_check(ctx, config));
    VC_CALL(vc_llm_pooling_put(ctx, vc_infolder_path(self->source->folder), model, pairs));
    vc_llm_plan_sort(&self->plan);
    if (options->gguf_no_vocab) {
        vc_llm_put_text(pairs, "tokenizer.ggml.model", "no_vocab");
    } else {
        VC_CALL(vc_vocab_put(ctx, vc_infolder_path(self->source->folder), config, family, sizes.vocabulary,
                             options->gguf_pre, model, pairs));
    }
    return finish(ctx, self, model, pairs);
}

/* Takes the source over in any case: on failure it is closed here, or by vc_model_close(model). */
enum vc_status vc_llm_folder_make(struct vc_ctx *ctx, struct vc_model *source, struct vc_model *model,
                                  struct llm_folder **out)
{
    struct llm_folder *self = vc_calloc_array(ctx, VC_TAG_NAMES, 1, sizeof *self);

    if (self == NULL) {
        vc_model_close(source);
        return VC_E_NOMEM;
    }
    *out = self;
    self->source = source;
    self->plan.arena = &self->gguf.arena;
    model->self = self;
    model->ops = source->folder != NULL ? &ops : &back_ops; /* from here on vc_model_close frees everything */
    return vc_model_take_inputs(ctx, source, model);
}

/* options->decoded: codes are decoded while they are read, and the model has floats. */
enum vc_status vc_gguf_folder_open(struct vc_ctx *ctx, const struct vc_open_options *options, struct vc_model *source,
                                   struct vc_model *model)
{
    struct llm_folder *self = NULL;
    struct llm_config config = {.root = NULL};
    struct llm_pairs pairs = {.n = 0};
    enum vc_status status = VC_OK;

    vc_text_init(&pairs.text, ctx);
    vc_model_set_format(model, &vc_format_gguf);
    VC_TRY(vc_llm_folder_make(ctx, source, model, &self));
    VC_TRY(vc_llm_config_read(ctx, source, &config));
    if (options->decoded) { /* what it says of codes is not so any more */
        (void)json_object_del(config.root, "quantization_config");
        (void)json_object_del(config.part, "quantization_config");
    }
    VC_TRY(make(ctx, options, &config, self, model, &pairs));
out:
    vc_text_release(&pairs.text);
    vc_llm_config_free(ctx, &config);
    return status;
}
