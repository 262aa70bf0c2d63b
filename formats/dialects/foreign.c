/* foreign.c - see foreign.h. The table has what quantizers/auto.py of transformers 5.24 and of diffusers know, and the
 * kinds of single files that have no configuration; without those that a dialect of this folder reads. HQQ, quanto and
 * MLX are read in safetensors files, where they are all right: the rows are for other files, and for the parts of codes
 * that the dialect refused.
 *
 * A layout is recognized by the last words of the names of its codes, "<module>.W_q", together with one companion, or
 * by the method in the configuration. Of these then all tensors with a word of the row are parts, and with a method all
 * weights of modules that are no floats. Names that loaders use for parts of codes and that no row explains are left to
 * one sentence at the end (vc_name_is_quantized_part).
 *
 * Order of vc_foreign_mark: rows whose codes are there, by name (look_for_rows); each tensor's mark, all of them before
 * any is written, since a mark changes the answers for others (mark_rows); parts that no row knows (mark_rest); weights
 * of 8 bits without a scale (mark_floats). A tensor with an `undecoded` sentence is copied by every command. */
#include "formats/dialects/foreign.h"

#include "core/base/findings.h"
#include "core/model/names.h"
#include "formats/json/json_walk.h"

struct vc_foreign {
    const char *name;    /* how sentences call it */
    const char *methods; /* words of "quant_method" */
    const char *codes;   /* "<module>.<codes>" is the codes; NULL: known by its method only */
    const char *beside;  /* ... where "<module>.<beside>" is there, too; NULL: the codes' name says enough */
    const char *parts;   /* words of the other parts, "<module>.<word>" */
    bool moved;          /* --gguf has a place for them: no note that nobody touches them */
};

#define QUANTO_PARTS "weight._scale weight._shift weight._zeropoint " VC_QUANTO_PARTS

static const struct vc_foreign rows[] = {
    {"SINQ", "sinq", "W_q", "scale2", "scale scale2 zero meta nbits group_size shape axis", false},
    {"HQQ", "hqq", "W_q", NULL, VC_HQQ_PARTS, false},
    {"quanto", "quanto", "weight._data", NULL, QUANTO_PARTS, false},
    {"quanto", "quanto", "weight._data._data", NULL, QUANTO_PARTS, false},
    {"torchao", "torchao", "_weight_qdata", NULL, "_weight_scale _weight_zero_point _weight_scale_and_zero", false},
    {"torchao", "torchao", "weight:qdata", NULL, "weight:scale weight:zero_point weight:scale_and_zero", false},
    {"AQLM", "aqlm", "codes", "codebooks", "codebooks scales", false},
    {"VPTQ", "vptq", "indices", "centroids.weight",
     "centroids.weight res_centroids.weight res_indices outlier_centroids.weight outlier_indices weight_scale "
     "weight_bias perm",
     false},
    {"HIGGS", "higgs", "weight", "tables2", "tables tables2 scales", false},
    {"SpQR", "spqr", "dense_weights", NULL, "row_offsets col_vals in_perm", false},
    {"FP-Quant", "fp_quant", "qweight", "forward_hadamard_matrix",
     "scales weight_global_scale act_global_scale forward_hadamard_matrix backward_hadamard_matrix", false},
    {"Four over Six", "fouroversix", "quantized_weight_values", NULL,
     "quantized_weight_scale_factors quantized_weight_amax quantized_weight_metadata", false},
    {"EETQ", "eetq", "weight", "weight_scales", "weight_scales", false},
    {"BitNet", "bitnet", NULL, NULL, "weight_scale", false},
    {"Quark", "quark", NULL, NULL, "weight_scale weight_zero_point weight_scale_2", false},
    {"Gemma", "gemma", NULL, NULL, "weight_scale input_activation_scale output_activation_scale", false},
    {"NVFP4 of transformers", "nvfp4", NULL, NULL, "weight_scale weight_global_scale", false},
    {"Metal", "metal", "weight", "qbiases", "scales qbiases", false},
    {"MLX", "mlx", "weight", "biases", "scales biases", false},
    {"MLX", "mlx", "weight", "scales", "scales", false},
    {"SVDQuant (Nunchaku)", "svdquant nunchaku", "qweight", "wscales",
     "wscales wzeros wtscale wcscales smooth_factor smooth_factor_orig smooth proj_down proj_up lora_down lora_up",
     false},
    {"EXL2", "exl2", "q_weight", NULL, "q_scale q_scale_max q_groups q_group_map q_invperm q_perm", false},
    {"EXL3", "exl3", "trellis", NULL, "suh svh su sv mcg mul1", false},
    {"QuIP#", "quip quip_sharp", "Qidxs", NULL, "SU SV Wscale codebook_id", false},
    {"Marlin", "marlin", "B", "s", "s workspace", false},
    {"AutoRound", "auto-round autoround intel/auto-round", NULL, NULL, "qweight qzeros scales g_idx", false},
    {"MXFP4 of gpt-oss", "mxfp4", "gate_up_proj_blocks", "gate_up_proj_scales", "gate_up_proj_scales", true},
    {"MXFP4 of gpt-oss", "mxfp4", "down_proj_blocks", "down_proj_scales", "down_proj_scales", true},
    {"SDNQ", "sdnq", NULL, NULL, "scale zero_point svd_up svd_down", false},
};

#define N_ROWS (sizeof rows / sizeof rows[0])

const struct vc_foreign *vc_foreign_of_config(const struct json_t *config)
{
    const char *method = json_string_value(json_object_get(config, "quant_method"));

    for (size_t i = 0; method != NULL && i < N_ROWS; i++) {
        if (vc_is_one_of(method, rows[i].methods)) {
            return &rows[i];
        }
    }
    return NULL;
}

struct marking {
    struct vc_ctx *ctx;
    struct vc_model *model;
    const struct vc_foreign *said;
    bool there[N_ROWS]; /* some tensor is codes of the row */
    bool is_shard;
    char *buffer; /* room for any name */
};

/* Nothing has been said about the tensor. */
static bool is_open(const struct vc_tensor *t)
{
    return t->quant == NULL && t->part_of == VC_NO_TENSOR && t->role != VC_ROLE_OTHER && t->undecoded == NULL &&
           !vc_is_of_codes(t);
}

static bool is_plain_float(const struct vc_tensor *t)
{
    return t->dtype == VC_DTYPE_F32 || t->dtype == VC_DTYPE_F16 || t->dtype == VC_DTYPE_BF16 ||
           t->dtype == VC_DTYPE_F64;
}

/* The number of bytes of "<module>." where the name goes on with that word, and ends; 0: it does not. */
static size_t before(const char *name, size_t n, const char *word, size_t n_word)
{
    return n > n_word && name[n - 1] == word[n_word - 1] && name[n - n_word - 1] == '.' &&
                   memcmp(name + n - n_word, word, n_word) == 0
               ? n - n_word
               : 0;
}

/* The tensor <first n bytes of the name><word>. m->buffer has room for any name and any word of the rows. */
static size_t beside(const struct marking *m, const char *name, size_t n, const char *word, size_t n_word)
{
    memcpy(m->buffer, name, n);
    memcpy(m->buffer + n, word, n_word);
    m->buffer[n + n_word] = '\0';
    return vc_model_find(m->model, m->buffer);
}

/* ... or it is codes that a dialect has refused, with a reason of their own. */
static bool may_be_codes(const struct vc_tensor *t)
{
    return is_open(t) || (t->undecoded != NULL && t->quant == NULL);
}

/* The tensor whose name is the first n bytes and the row's word of codes, where it is that. */
static size_t codes_of(const struct marking *m, const struct vc_foreign *row, const char *name, size_t n)
{
    size_t codes = beside(m, name, n, row->codes, strlen(row->codes));
    bool is = codes != VC_NO_TENSOR && may_be_codes(&m->model->tensors[codes]) &&
              (row->beside == NULL || (!is_plain_float(&m->model->tensors[codes]) &&
                                       beside(m, name, n, row->beside, strlen(row->beside)) != VC_NO_TENSOR));

    return is ? codes : VC_NO_TENSOR;
}

/* The name ends in the row's word for codes, and the companion is there. */
static bool is_codes(const struct marking *m, const struct vc_foreign *row, const struct vc_tensor *t)
{
    size_t n = row->codes != NULL ? before(t->name, strlen(t->name), row->codes, strlen(row->codes)) : 0;

    return n != 0 && codes_of(m, row, t->name, n) != VC_NO_TENSOR;
}

/* The tensor is another part beside codes of the row, *codes (VC_NO_TENSOR where the row knows none). */
static bool is_part(const struct marking *m, const struct vc_foreign *row, const struct vc_tensor *t, size_t *codes)
{
    size_t n_name = strlen(t->name);

    *codes = VC_NO_TENSOR;
    for (const char *word = row->parts; *word != '\0'; word += *word == ' ') {
        size_t n_word = strcspn(word, " ");
        size_t n = before(t->name, n_name, word, n_word);

        if (n != 0 && row->codes != NULL) {
            *codes = codes_of(m, row, t->name, n);
        }
        if (n != 0 && (row->codes == NULL || *codes != VC_NO_TENSOR)) {
            return true;
        }
        word += n_word;
    }
    return false;
}

/* Integers or small floats in the place of a weight, in a model whose configuration names a method. */
static bool is_said(const struct marking *m, const struct vc_tensor *t)
{
    size_t n_path, codes;

    return m->said != NULL && ((vc_name_is_module_weight(t->name, &n_path) && !is_plain_float(t)) ||
                               (m->said->codes == NULL && is_part(m, m->said, t, &codes)));
}

/* What a tensor is. */
struct mark {
    const struct vc_foreign *row; /* NULL: nothing */
    bool part;
    size_t refused; /* the codes that it is a part of, which a dialect has refused; VC_NO_TENSOR: none */
};

/* Rows that are there in the order of the table, then the method that the configuration names. */
static struct mark find_mark(const struct marking *m, const struct vc_tensor *t)
{
    size_t codes = VC_NO_TENSOR;

    for (size_t i = 0; i < N_ROWS; i++) {
        if (m->there[i] && is_codes(m, &rows[i], t)) {
            return (struct mark){&rows[i], false, VC_NO_TENSOR};
        }
        if (m->there[i] && is_part(m, &rows[i], t, &codes)) {
            bool refused = codes != VC_NO_TENSOR && m->model->tensors[codes].undecoded != NULL;

            return (struct mark){&rows[i], true, refused ? codes : VC_NO_TENSOR};
        }
    }
    return (struct mark){is_said(m, t) ? m->said : NULL, is_plain_float(t), VC_NO_TENSOR};
}

/* The rows whose codes are there. */
static void look_for_rows(struct marking *m)
{
    for (size_t i = 0; i < m->model->n_tensors; i++) {
        for (size_t k = 0; k < N_ROWS; k++) {
            m->there[k] =
                m->there[k] || (may_be_codes(&m->model->tensors[i]) && is_codes(m, &rows[k], &m->model->tensors[i]));
        }
    }
}

/* One sentence for all tensors of a row, and the model's note. */
static enum vc_status name_layout(struct marking *m, const struct vc_foreign *row, const char *sentences[2])
{
    sentences[0] = vc_arena_printf(m->ctx, &m->model->arena, "is codes of %s, which are not decoded here", row->name);
    sentences[1] =
        vc_arena_printf(m->ctx, &m->model->arena, "is a part of codes of %s, which are not decoded here", row->name);
    VC_CALL_ALLOC(sentences[0]);
    VC_CALL_ALLOC(sentences[1]);
    if (row->moved) {
        return VC_OK;
    }
    return vc_model_add_fact(m->ctx, m->model, VC_FACT_NOTE,
                             "weights are codes of %s, which are not decoded here: all commands leave them as they are",
                             row->name);
}

/* The sentence of a tensor. Sentences of a row are made once, with its first tensor. */
static enum vc_status mark_one(struct marking *m, struct vc_tensor *t, const struct mark *mark,
                               const char *(*sentences)[2])
{
    size_t k = (size_t)(mark->row - rows);

    if (mark->refused != VC_NO_TENSOR) {
        const struct vc_tensor *codes = &m->model->tensors[mark->refused];

        t->undecoded =
            vc_arena_printf(m->ctx, &m->model->arena, "belongs to '%s', which %s", codes->name, codes->undecoded);
        return t->undecoded != NULL ? VC_OK : VC_E_NOMEM;
    }
    if (sentences[k][0] == NULL) {
        VC_CALL(name_layout(m, mark->row, sentences[k]));
    }
    t->undecoded = sentences[k][mark->part ? 1 : 0];
    return VC_OK;
}

static enum vc_status mark_rows(struct marking *m)
{
    const char *sentences[N_ROWS][2] = {{NULL}};
    VC_SCOPED struct mark *marks = vc_calloc_array(m->ctx, VC_TAG_NAMES, m->model->n_tensors, sizeof *marks);

    VC_CALL_ALLOC(marks);
    for (size_t i = 0; i < m->model->n_tensors; i++) { /* all of them before any is marked */
        if (is_open(&m->model->tensors[i])) {
            marks[i] = find_mark(m, &m->model->tensors[i]);
        }
    }
    for (size_t i = 0; i < m->model->n_tensors; i++) {
        if (marks[i].row != NULL) {
            VC_CALL(mark_one(m, &m->model->tensors[i], &marks[i], sentences));
        }
    }
    return VC_OK;
}

/* Whether the module of the part has codes that are in no row: a weight that is no float and not read, or none. */
static bool has_owner(const struct marking *m, const struct vc_tensor *t, bool *explained)
{
    static const char *const owners[] = {"weight", "weight_packed", "qweight"};
    const char *inside = strstr(t->name, ".weight.");
    const char *dot = inside != NULL ? inside : strrchr(t->name, '.');
    size_t n = dot != NULL ? (size_t)(dot + 1 - t->name) : 0;
    bool any = false;

    *explained = false;
    for (size_t i = 0; i < sizeof owners / sizeof owners[0]; i++) {
        size_t owner = beside(m, t->name, n, owners[i], strlen(owners[i]));
        const struct vc_tensor *o = owner != VC_NO_TENSOR ? &m->model->tensors[owner] : NULL;

        any = any || (o != NULL && !is_plain_float(o) && o->quant == NULL);
        *explained = *explained || (o != NULL && o != t && o->undecoded != NULL);
    }
    return any;
}

/* Says once of a tensor why it cannot be decoded: the reader of a dialect may have said it already. */
static enum vc_status say_once(struct marking *m, const char *name, const char *sentence)
{
    return vc_collecting(m->ctx) && vc_findings_has(m->ctx->findings, name)
               ? VC_OK
               : vc_find(m->ctx, m->is_shard ? VC_SEVERITY_WARNING : VC_SEVERITY_ERROR, "parts", name, "%s", sentence);
}

/* Names that loaders use for parts of codes, and no row, no dialect and no graph knows these. */
static enum vc_status mark_rest(struct marking *m)
{
    static const char sentence[] = "is a part of codes that cannot be decoded: its weight is not read, or not there";

    for (size_t i = 0; i < m->model->n_tensors; i++) {
        struct vc_tensor *t = &m->model->tensors[i];
        bool explained = false;

        if (!is_open(t) || t->use != VC_USE_UNKNOWN || !vc_name_is_quantized_part(t->name)) {
            continue;
        }
        bool owned = has_owner(m, t, &explained);
        if (!owned && !vc_ends_in(t->name, "qweight") && strstr(t->name, "weight_") == NULL &&
            strstr(t->name, "weight.") == NULL) {
            continue; /* "scales" and the like, of no weight */
        }
        t->undecoded = sentence;
        if (!explained) {
            VC_CALL(say_once(m, t->name, sentence));
        }
    }
    return VC_OK;
}

/* Matrices of floats of 8 bits that may be codes: the model has such codes, or a configuration of codes, or something like a
 * scale is beside. Others are floats; and so they are where our own manifest has listed the codes, or each layer of codes
 * has a mark: plain float8 of an input that quantize left as it was. */
static enum vc_status mark_floats(struct marking *m, bool quantized)
{
    static const char *const scales[] = {"scale_weight", "weight_scale", "weight_scale_inv", "scale", "scales"};
    static const char sentence[] = "is a weight of 8 bits in a model of codes, and has no scale that is known";
    bool listed = m->model->recipe != NULL || (m->model->dialect != NULL && m->model->dialect->marks_layers);
    size_t n_path;

    for (size_t i = 0; i < m->model->n_tensors && !quantized; i++) {
        const struct vc_tensor *t = &m->model->tensors[i];

        quantized = t->undecoded != NULL || (t->quant != NULL && vc_is_float8(t->dtype) && !listed);
    }
    for (size_t i = 0; i < m->model->n_tensors; i++) {
        struct vc_tensor *t = &m->model->tensors[i];
        bool any = quantized;

        if (!is_open(t) || !vc_is_float8(t->dtype) || t->n_dims != 2 || !vc_name_is_module_weight(t->name, &n_path)) {
            continue;
        }
        for (size_t k = 0; k < sizeof scales / sizeof scales[0]; k++) {
            any = any ||
                  beside(m, t->name, strlen(t->name) - strlen("weight"), scales[k], strlen(scales[k])) != VC_NO_TENSOR;
        }
        if (any) {
            t->undecoded = sentence;
            VC_CALL(say_once(m, t->name, sentence));
        }
    }
    return VC_OK;
}

enum vc_status vc_foreign_mark(struct vc_ctx *ctx, struct vc_model *model, const struct vc_foreign *said,
                               bool quantized, bool is_shard)
{
    VC_SCOPED char *buffer = vc_model_name_room(ctx, model, 64);
    struct marking m = {.ctx = ctx, .model = model, .said = said, .is_shard = is_shard, .buffer = buffer};

    VC_CALL_ALLOC(buffer);
    look_for_rows(&m);
    VC_CALL(mark_rows(&m));
    VC_CALL(mark_rest(&m));
    return mark_floats(&m, quantized);
}
