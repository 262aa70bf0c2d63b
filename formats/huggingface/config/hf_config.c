/* hf_config.c - see hf_config.h. jansson reads the text (strictly); json_member.c changes it in place.
 *
 * What becomes of the member:   outputs                                     member
 *                               codes of this job, none there before        written by the dialect
 *                               codes copied, all of them                   as it was
 *                               codes turned into floats, all of them       removed
 *                               codes of this job beside copied ones        written anew if the dialect owns the old
 *                                                                           one, else refused
 *
 * Order of vc_hf_quantization_rewrite: parse, find the old member (find_old), list all weights of the output with what
 * happens to each (list_weights), decide (decide: LEAVE, REMOVE, WRITE), let the dialect write the member, put it in
 * the old one's place in the text. MLX writes its member twice, as "quantization" and "quantization_config"; the first
 * is removed wherever the second changes. */
#include "formats/huggingface/config/hf_config.h"

#include "core/model/names.h"
#include "formats/dialects/config_member.h"
#include "formats/dialects/foreign.h"
#include "formats/huggingface/config/hf_dtype.h"
#include "formats/huggingface/config/hf_edit.h"
#include "formats/huggingface/config/hf_json.h"
#include "formats/huggingface/config/hf_layers.h"
#include "formats/io/infile.h"
#include "formats/io/side_file.h"
#include "formats/json/json_member.h"
#include "formats/json/json_walk.h"

#define MEMBER     "quantization_config"
#define MLX_MEMBER "quantization" /* of mlx-lm, which writes both */
#define MAX_GROUPS 16             /* of scales that are shared differently */

/* While the member is decided about. */
struct rewriting {
    struct vc_ctx *ctx;
    const struct vc_hf_change *change;
    size_t n;
    struct vc_config_weight *weights; /* all of them, in the order of the source */
    struct hf_json json;
    json_t *root;
    json_t *old;     /* the quantization_config there is, or what MLX has in its place; NULL: none */
    bool has_member; /* it is the former */
    size_t index;    /* its number */
    json_t *mlx;     /* MLX's; NULL: none */
    size_t mlx_index;
    size_t n_made;  /* codes that this job made */
    size_t n_kept;  /* codes that it copied */
    size_t n_other; /* parts of weights that were quantized in another way, and are copied */
    size_t n_was;   /* quantized weights of the source, those that are left out not counted */
    bool stale;     /* the old one names layers by numbers that change */
    size_t n_groups;
    struct vc_quant groups[MAX_GROUPS];
};

/* ---- what there is ---- */

/* A member of the text, and its number; NULL if there is none. jansson keeps the order of the text, so the number is the
 * member's place there, which json_member.c asks for. */
static json_t *find_member(const json_t *root, const char *name, size_t *index)
{
    const char *key;
    json_t *value;

    *index = 0;
    json_object_foreach((json_t *)(uintptr_t)root, key, value)
    {
        if (strcmp(key, name) == 0) {
            return value;
        }
        ++*index;
    }
    return NULL;
}

/* The old quantization_config; MLX's other member says the same. */
static void find_old(struct rewriting *r)
{
    r->old = find_member(r->root, MEMBER, &r->index);
    r->mlx = find_member(r->root, MLX_MEMBER, &r->mlx_index);
    r->has_member = r->old != NULL;
    r->mlx = json_object_get(r->mlx, "bits") != NULL || json_object_get(r->mlx, "mode") != NULL ? r->mlx : NULL;
    r->old = r->old != NULL ? r->old : r->mlx;
}

/* Whether the old member describes weights of the output's dialect, so that one for all can take its place. */
static bool is_ours(const struct rewriting *r)
{
    const struct vc_dialect_file *file = r->change->dialect->file;

    return file != NULL && file->owns_config != NULL && file->owns_config(r->old);
}

/* Adds the way in which a weight's scales are shared to the groups, unless it is there. Each group becomes an entry of
 * "config_groups", or a refusal in dialects with a single one. */
static enum vc_status note_group(struct rewriting *r, const struct vc_quant *quant)
{
    size_t i = 0;

    while (i < r->n_groups && !vc_config_same_group(&r->groups[i], quant)) {
        i++;
    }
    VC_REFUSE_IF(i == MAX_GROUPS, r->ctx, VC_E_UNSUPPORTED, "its scales are shared in more than %d different ways",
                 MAX_GROUPS);
    if (i == r->n_groups) {
        r->groups[r->n_groups++] = *quant;
    }
    return VC_OK;
}

/* Whether another worker's output is codes that loaders know: made for the layout, or copied with its parts. */
static bool is_quantized_output(const struct rewriting *r, const struct vc_out_tensor *out)
{
    const struct vc_tensor *source = &r->change->model->tensors[out->source];

    if (out->quant == NULL) {
        return false;
    }
    if (out->form == VC_FORM_VALUES) {
        return r->change->dialect->file != NULL;
    }
    return source->quant != NULL &&
           vc_name_is_quantized_part(r->change->model->tensors[vc_quant_scale(source->quant)].name);
}

/* The output joins the list and the counts, on which alone the decision depends: codes that are made, copied, and of
 * another kind. */
static enum vc_status take_weight(struct rewriting *r, const struct vc_out_tensor *out, bool told)
{
    const struct vc_tensor *source = &r->change->model->tensors[out->source];

    r->weights[r->n++] = (struct vc_config_weight){
        .name = out->name, .quant = out->quant, .dtype = out->dtype, .n_dims = out->n_dims, .told = told};
    r->n_was += source->quant != NULL && out->role == VC_PART_CODES;
    if (told) {
        r->n_made += out->form == VC_FORM_VALUES;
        r->n_kept += out->form == VC_FORM_RAW;
        return note_group(r, out->quant);
    }
    if (out->form == VC_FORM_RAW && source->part_of == VC_NO_TENSOR) {
        r->n_other += vc_name_is_quantized_part(source->name);
    }
    return VC_OK;
}

/* Tells embedding tables from layers of such a name, "relative_pos_embeddings": a table has no bias. A table of names
 * is made only where some weight is called like a table: in most models a few are. */
static enum vc_status find_tables(struct rewriting *r)
{
    const struct vc_name_list list = VC_NAME_LIST(r->weights, sizeof *r->weights);
    VC_SCOPED_NAMES struct vc_name_table names = {0};
    VC_SCOPED_TEXT struct vc_text bias = {.ctx = r->ctx};
    size_t n_tables = 0;

    for (size_t i = 0; i < r->n; i++) {
        r->weights[i].table = r->weights[i].n_dims == 2 && vc_name_is_embedding_table(r->weights[i].name);
        n_tables += r->weights[i].table;
    }
    if (n_tables != 0) {
        VC_CALL(vc_name_table_make(r->ctx, r->n, &names));
    }
    for (size_t i = 0; i < r->n && n_tables != 0; i++) {
        (void)vc_name_table_add(&names, list, i);
    }
    for (size_t i = 0; i < r->n && n_tables != 0; i++) {
        size_t n_path;

        if (r->weights[i].table && vc_name_is_module_weight(r->weights[i].name, &n_path)) {
            bias.n = 0;
            vc_text_add_bytes(&bias, r->weights[i].name, n_path);
            vc_text_add(&bias, ".bias");
            VC_CALL(bias.status);
            r->weights[i].table = vc_name_table_find(&names, list, bias.data, bias.n) == SIZE_MAX;
        }
    }
    return VC_OK;
}

/* Joins this worker's outputs and those of others, in the order of the source, so that every worker writes the same
 * text. Both lists are sorted by the source's number; a merge of two sorted lists. */
static enum vc_status list_weights(struct rewriting *r)
{
    const struct vc_out_list *outs = r->change->outs;
    size_t other = 0;

    VC_CALL(VC_ARRAY(r->ctx, VC_TAG_NAMES, r->weights, outs->n + outs->n_other_shards));
    for (size_t own = 0; own <= outs->n; own++) {
        const struct vc_out_tensor out = own < outs->n ? vc_out_at(outs, own) : (struct vc_out_tensor){0};

        for (; other < outs->n_other_shards && (own == outs->n || outs->other_shards[other].source < out.source);
             other++) {
            VC_CALL(take_weight(r, &outs->other_shards[other], is_quantized_output(r, &outs->other_shards[other])));
        }
        if (own < outs->n) {
            VC_CALL(take_weight(r, &out, r->change->told[own]));
        }
    }
    return find_tables(r);
}

/* Some key or text below has the number of a layer of that list. */
static bool names_layers(const json_t *value, const char *list)
{
    const char *key;
    json_t *inner;

    if (json_is_string(value)) {
        return vc_hf_layers_are_named(list, json_string_value(value));
    }
    json_object_foreach((json_t *)(uintptr_t)value, key, inner)
    {
        if (vc_hf_layers_are_named(list, key) || names_layers(inner, list)) {
            return true;
        }
    }
    for (size_t i = 0; i < json_array_size(value); i++) {
        if (names_layers(json_array_get(value, i), list)) {
            return true;
        }
    }
    return false;
}

/* r->stale: the old member has "model.layers.3..." in a list, and layers are left out. */
static void find_stale(struct rewriting *r)
{
    const struct vc_out_list *outs = r->change->outs;
    const struct vc_edit *edit = vc_edit_find(outs->edits, outs->n_edits, VC_EDIT_LAYERS);

    r->stale = r->old != NULL && edit != NULL && edit->n_dropped != 0 && edit->list != NULL &&
               names_layers(r->old, edit->list);
}

/* ---- the decision ---- */

/* The type of a model that keeps its matrices as [in, out]: its loaders make no linear layers of them, and scales of
 * rows would not be those of outputs. NULL for other models. */
static const char *transposed_type(const json_t *root)
{
    static const char *const types[] = {"gpt2", "openai-gpt", "imagegpt", "decision_transformer"};

    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        if (vc_json_says(root, "model_type", types[i])) {
            return types[i];
        }
    }
    return NULL;
}

/* What new codes are called. */
static const char *scheme_name(const struct rewriting *r)
{
    return vc_scheme_name(r->n_groups != 0 ? r->groups[0].scheme : VC_SCHEME_INT8);
}

/* Refuses new codes in a model of transposed matrices, unless the layout has a place for these (takes_conv1d). */
static enum vc_status check_model(const struct rewriting *r)
{
    const char *type = transposed_type(r->root);
    const struct vc_dialect_file *file = r->change->dialect->file;

    return type == NULL || (file != NULL && file->takes_conv1d)
               ? VC_OK
               : vc_fail(r->ctx, VC_E_UNSUPPORTED,
                         VC_HF_CONFIG_NAME ": models of type %s keep their matrices transposed, so no loader "
                                           "takes them as %s; %s plain does",
                         type, scheme_name(r), vc_option(r->ctx, "layout"));
}

/* Whether transformers would load codes of that model: it knows the class, and its weights are not transposed. */
bool vc_hf_config_takes_int8(const json_t *root)
{
    return json_is_string(json_object_get(root, "model_type")) && transposed_type(root) == NULL;
}

/* *unties: the head is a matrix of its own by the configuration, whatever the file has. */
enum vc_status vc_hf_config_unties(struct vc_ctx *ctx, const char *text, size_t n, bool *unties)
{
    VC_SCOPED_JSON struct hf_json json = {0};
    enum vc_status status = vc_hf_json_look(ctx, text, n, &json);

    *unties = json_is_false(json_object_get(json.root, "tie_word_embeddings"));
    return status;
}

/* The old member describes weights that stay, and nothing can describe them and the new ones together. */
static enum vc_status refuse(const struct rewriting *r)
{
    const char *method = json_string_value(json_object_get(r->old, "quant_method"));

    return vc_fail(r->ctx, VC_E_UNSUPPORTED,
                   VC_HF_CONFIG_NAME ": its " MEMBER " (%.40s) speaks of weights that stay as they are, and cannot be "
                                     "joined with one of %s; dequantize all of them, or none",
                   method != NULL ? method : "of no method", scheme_name(r));
}

/* Codes that stay are multiplied with what the tensors beside them are, so that their loader wants these as they were;
 * those of GPTQ and AWQ take other floats. */
static enum vc_status check_cast(const struct rewriting *r)
{
    const char *method = json_string_value(json_object_get(r->old, "quant_method"));

    bool stay = r->n_other != 0 || (r->n_kept != 0 && vc_json_says(r->old, "quant_method", "fp8"));

    if (!stay || r->old == NULL || vc_hf_cast_of(r->change->outs) == VC_DTYPE_RAW ||
        vc_json_says(r->old, "quant_method", "gptq") || vc_json_says(r->old, "quant_method", "awq")) {
        return VC_OK;
    }
    return vc_fail(r->ctx, VC_E_UNSUPPORTED,
                   VC_HF_CONFIG_NAME ": its " MEMBER " (%.40s) speaks of weights that stay as they are, and a loader "
                                     "takes them with the floats beside them as these are; casting those is refused",
                   method != NULL ? method : "of no method");
}

/* Floats of several types that the job makes, where the loader leaves each as it lies: products of f16 and f32 end with
 * an error. Such floats of the source are the source's matter.
 *
 *     nf4, --exclude lm_head* --rest fp16, of f32      lm_head f32, norms f16: refused */
static enum vc_status check_floats(const struct rewriting *r)
{
    const struct vc_out_list *outs = r->change->outs;
    const struct vc_dialect_file *file = r->change->dialect->file;
    size_t made = SIZE_MAX;

    for (size_t pass = 0; pass < 2 && file != NULL && file->casts_nothing; pass++) {
        for (size_t i = 0; i < outs->n; i++) {
            const struct vc_out_tensor out = vc_out_at(outs, i);
            const struct vc_tensor *t = &r->change->model->tensors[out.source];

            if (out.role != VC_PART_CODES || out.beside || out.quant != NULL || !vc_dtype_is_float(out.dtype)) {
                continue;
            }
            if (pass == 0 && out.dtype != (t->quant != NULL ? t->quant->source_dtype : t->dtype)) {
                made = i;
            }
            VC_REFUSE_IF(
                pass == 1 && made != SIZE_MAX && out.dtype != vc_out_at(outs, made).dtype, r->ctx, VC_E_UNSUPPORTED,
                "%s would be %s and %s %s, and transformers computes with both as they lie beside codes of %s: "
                "give all floats one type, or write %s plain",
                out.name, vc_dtype_name(out.dtype), vc_out_at(outs, made).name,
                vc_dtype_name(vc_out_at(outs, made).dtype), r->change->dialect->name, vc_option(r->ctx, "layout"));
        }
    }
    return VC_OK;
}

enum decision { LEAVE, REMOVE, WRITE };

/* The table at the top of this file, as code. `changed`: the old member would say too much, or too little. Nothing is
 * decided by names alone: counts of what is made, copied and lost decide. */
static enum vc_status decide(const struct rewriting *r, enum decision *what)
{
    bool changed = r->n_made != 0 || r->n_kept != r->n_was || r->stale; /* the old one says too much, or too little */

    *what = LEAVE;
    VC_CALL(check_cast(r));
    if (r->n_made + r->n_kept != 0) {
        VC_CALL(check_floats(r));
    }
    VC_REFUSE_IF(r->stale && (r->n_other != 0 || (r->n_kept != 0 && !is_ours(r))), r->ctx, VC_E_UNSUPPORTED,
                 VC_HF_CONFIG_NAME ": its " MEMBER " names layers by their numbers, which change; dequantize the "
                                   "weights first, or quantize what is left");
    if (!changed || (r->n_made + r->n_kept == 0 && (r->old == NULL || r->n_other != 0))) {
        return VC_OK;
    }
    if (r->n_made + r->n_kept == 0) {
        *what = REMOVE;
        return VC_OK;
    }
    VC_RETURN_IF(r->n_other != 0 || (r->n_kept != 0 && r->old != NULL && !is_ours(r)), refuse(r));
    VC_REFUSE_IF(r->change->outs->other_shards_unsure, r->ctx, VC_E_UNSUPPORTED,
                 VC_HF_CONFIG_NAME " says which weights are %s, and with %s=keep that is not known "
                                   "before other workers' weights are read; leave out one of that and %s",
                 scheme_name(r), vc_option(r->ctx, "nonfinite"), vc_option(r->ctx, "shard"));
    *what = WRITE;
    return r->n_made != 0 ? check_model(r) : VC_OK;
}

/* Weights that were copied with their parts are described even where new ones would be plain. */
static enum vc_status write_member(const struct rewriting *r, struct vc_text *text)
{
    const struct vc_dialect *own = r->change->dialect;
    const struct vc_dialect *dialect = own->file != NULL ? own : vc_dialect_usual_in_folders(NULL);
    const struct vc_config_weights weights = {.n = r->n,
                                              .weights = r->weights,
                                              .n_groups = r->n_groups,
                                              .groups = r->groups,
                                              .family = r->change->model->family};

    VC_REFUSE_IF(dialect->file->write_config == NULL, r->ctx, VC_E_UNSUPPORTED,
                 VC_HF_CONFIG_NAME
                 " has no words for the layout %s, whose program loads single files: the output is to be "
                 "one, such as net.safetensors",
                 dialect->name);
    if (r->n_made != 0 && dialect->file->check_weights != NULL) {
        VC_CALL(dialect->file->check_weights(r->ctx, &weights));
    }
    dialect->file->write_config(&weights, text);
    return VC_OK;
}

/* MLX's. */
static bool is_written_twice(const struct vc_dialect *dialect)
{
    return dialect->file != NULL && dialect->file->config_twice;
}

/* The text is changed by members' numbers; after MLX's member is gone, a member behind it has a number less. */
enum vc_status vc_hf_quantization_rewrite(struct vc_ctx *ctx, const char *text, size_t n,
                                          const struct vc_hf_change *change, struct vc_text *out)
{
    struct rewriting r = {.ctx = ctx, .change = change};
    enum decision what;
    VC_SCOPED_TEXT struct vc_text member = {.ctx = ctx};
    VC_SCOPED_TEXT struct vc_text without = {.ctx = ctx};
    VC_SCOPED_TEXT struct vc_text with = {.ctx = ctx};
    enum vc_status status;

    VC_TRY(vc_hf_config_parse(ctx, text, n, false, &r.json));
    r.root = r.json.root;
    find_old(&r);
    VC_TRY(list_weights(&r));
    find_stale(&r);
    VC_TRY(decide(&r, &what));
    if (what == WRITE) {
        VC_TRY(write_member(&r, &member));
    }
    VC_TRY(member.status);
    if (what != LEAVE && r.mlx != NULL) {
        vc_json_member_replace(text, n, r.mlx_index, NULL, &without);
        VC_TRY(without.status);
        text = without.data;
        n = without.n;
        r.index -= r.mlx_index < r.index;
    }
    if (what == WRITE && is_written_twice(change->dialect)) {
        vc_json_member_append(text, n, MLX_MEMBER, member.data, &with);
        VC_TRY(with.status);
        text = with.data;
        n = with.n;
    }
    if (what == LEAVE || (what == REMOVE && !r.has_member)) {
        vc_text_add_bytes(out, text, n);
    } else if (r.has_member) {
        vc_json_member_replace(text, n, r.index, what == WRITE ? member.data : NULL, out);
    } else if (what == WRITE) {
        vc_json_member_append(text, n, MEMBER, member.data, out);
    }
    status = out->status;
out:
    vc_free(ctx, r.weights);
    vc_hf_json_free(&r.json);
    return status;
}

/* ---- hints for the reader ---- */

/* What a configuration says of codes, asked of the rows until one knows it. */
static bool ask_rows(const json_t *config, struct vc_dialect_hint *out)
{
    const struct vc_dialect *dialect;
    /* Rows of formats/dialects, each of which knows its own "quant_method". */
    bool known = false;

    for (size_t i = 0; (dialect = vc_dialect_row(i)) != NULL && !known; i++) {
        known = dialect->file != NULL && dialect->file->read_config != NULL && dialect->file->read_config(config, out);
    }
    return known;
}

/* 0 where it does not say. A size above 2^31 - 1 counts as not said. */
static void read_sizes(const json_t *root, uint64_t sizes[VC_SIZES])
{
    uint64_t hidden = vc_json_count(json_object_get(root, "hidden_size"));
    uint64_t heads = vc_json_count(json_object_get(root, "num_attention_heads"));
    uint64_t kv_heads = vc_json_count(json_object_get(root, "num_key_value_heads"));
    uint64_t head = vc_json_count(json_object_get(root, "head_dim"));

    head = head == 0 && heads != 0 ? hidden / heads : head;
    sizes[VC_SIZE_HIDDEN] = hidden;
    sizes[VC_SIZE_INNER] = vc_json_count(json_object_get(root, "intermediate_size"));
    sizes[VC_SIZE_WORDS] = vc_json_count(json_object_get(root, "vocab_size"));
    sizes[VC_SIZE_HEADS] = heads * head;
    sizes[VC_SIZE_KV_HEADS] = (kv_heads != 0 ? kv_heads : heads) * head;
    for (unsigned i = 0; i < VC_SIZES; i++) {
        sizes[i] = sizes[i] <= INT32_MAX ? sizes[i] : 0;
    }
}

/* Hints decide doubtful cases of readers; a folder without config.json is read all the same. */
enum vc_status vc_hf_config_hint(struct vc_ctx *ctx, const char *text, size_t n, struct vc_dialect_hint *out)
{
    VC_SCOPED_JSON struct hf_json json = {0};
    enum vc_status status = vc_hf_json_look(ctx, text, n, &json);

    *out = (struct vc_dialect_hint){0};
    if (!ask_rows(json_object_get(json.root, MEMBER), out)) {
        (void)ask_rows(json_object_get(json.root, MLX_MEMBER), out);
    }
    out->foreign = vc_foreign_of_config(json_object_get(json.root, MEMBER));
    out->quantized = json_object_get(json.root, MEMBER) != NULL || out->mlx != NULL;
    out->conv1d = transposed_type(json.root) != NULL;
    read_sizes(json.root, out->sizes);
    return status;
}

/* *text stays NULL where the file is too large to be a config.json. */
static enum vc_status read_text(struct vc_ctx *ctx, const struct vc_infile *file, char **text, size_t *n)
{
    enum vc_status status = VC_OK;

    if (file->size_bytes <= VC_HF_CONFIG_MAX_BYTES) {
        *n = (size_t)file->size_bytes;
        status = vc_infile_text(ctx, file, VC_HF_CONFIG_MAX_BYTES, text);
    }
    return status == VC_OK ? VC_OK : vc_context(ctx, VC_HF_CONFIG_NAME);
}

/* words: keys that loaders of models write, beside the keys of sizes. */
enum vc_status vc_hf_config_is_model(struct vc_ctx *ctx, const char *text, size_t n, bool *is)
{
    static const char *const words[] = {"model_type",  "architectures",  "architecture",  "auto_map",
                                        "_class_name", "pretrained_cfg", "torch_dtype",   "tie_word_embeddings",
                                        MEMBER,        "vision_config",  "_name_or_path", "transformers_version"};
    VC_SCOPED_JSON struct hf_json json = {0};
    const char *name;
    json_t *value;

    VC_CALL(vc_hf_json_look(ctx, text, n, &json));
    *is = json.root == NULL;
    json_object_foreach(json.root, name, value)
    {
        *is = *is || vc_hf_edit_knows(name);
    }
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        *is = *is || json_object_get(json.root, words[i]) != NULL;
    }
    return VC_OK;
}

/* What the config.json beside the model is. A folder that is not there has none. */
static enum vc_status look_beside(struct vc_ctx *ctx, const char *path, enum vc_side_kind *kind, struct stat *st,
                                  const char **why)
{
    char *folder = vc_hf_path_beside(ctx, path, ".");

    VC_CALL_FOUND(ctx, folder);
    enum vc_status status = vc_side_look(ctx, folder, VC_HF_CONFIG_NAME, kind, st, why);
    vc_free(ctx, folder);
    return status;
}

/* *why NULL: there is nothing to say, also of a pipe, which has nothing beside it. */
enum vc_status vc_hf_config_why_beside(struct vc_ctx *ctx, const char *path, const char **why)
{
    enum vc_side_kind kind;

    *why = NULL;
    return vc_is_stream(path) ? VC_OK : look_beside(ctx, path, &kind, NULL, why);
}

/* *text NULL if there is none, or it is the configuration of something else than a model. */
enum vc_status vc_hf_config_read_beside(struct vc_ctx *ctx, const char *path, char **text, size_t *n)
{
    struct vc_infile *file = NULL;
    struct stat st;
    enum vc_side_kind kind = VC_SIDE_ABSENT;
    bool is_model = true;
    enum vc_status status = VC_OK;

    *text = NULL;
    *n = 0;
    if (vc_is_stream(path)) {
        return VC_OK;
    }
    char *config = vc_hf_path_beside(ctx, path, VC_HF_CONFIG_NAME);
    VC_CALL_FOUND(ctx, config);
    VC_TRY(look_beside(ctx, path, &kind, &st, NULL));
    if (kind == VC_SIDE_FILE && st.st_size != 0) {
        status = vc_infile_open(ctx, config, &file);
        status = status == VC_OK ? read_text(ctx, file, text, n) : vc_context(ctx, VC_HF_CONFIG_NAME);
        VC_TRY(status);
    }
    if (*text != NULL) {
        VC_TRY(vc_hf_config_is_model(ctx, *text, *n, &is_model));
    }
out:
    if (*text != NULL && (status != VC_OK || !is_model)) {
        vc_free(ctx, vc_give(text));
        *n = 0;
    }
    vc_infile_close(ctx, file);
    vc_free(ctx, config);
    return status;
}

/* What the configuration says about codes; zeros without one. */
enum vc_status vc_hf_config_hint_beside(struct vc_ctx *ctx, const char *path, struct vc_dialect_hint *out)
{
    VC_SCOPED char *text = NULL;
    size_t n = 0;

    *out = (struct vc_dialect_hint){0};
    VC_CALL(vc_hf_config_read_beside(ctx, path, &text, &n));
    if (text != NULL) {
        VC_CALL(vc_hf_config_hint(ctx, text, n, out));
    }
    return VC_OK;
}
