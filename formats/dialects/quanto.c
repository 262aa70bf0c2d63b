/* quanto.c - the dialect of optimum-quanto, read only:
 *
 *     qint8, qfloat8   m.weight._data        I8 or F8_E4M3, of the weight's shape     value = code * scale
 *                      m.weight._scale       one number, or one for each row
 *     qint4, qint2     m.weight._data._data  U8 [ceil(rows / 2), size], rows / 4      value = code * scale - shift
 *                      m.weight._scale, m.weight._shift   [rows, 1], f16, bf16 or f32
 *
 * The latter are the weight, or groups of 128, 96, 64 or 32 columns one below the other, in layers from the lowest bits
 * on (packing_layers.c). Rows of another length are no groups. Whether others are, and of how many rows, no file says:
 * there the sizes in config.json have to make the name's weight (`known`). Codes of other types of floats, and shifts
 * of whole numbers, are refused. m.input_scale and m.output_scale are of the activations. */

#include "core/model/code_schemes.h"
#include "formats/dialects/foreign.h"
#include "formats/dialects/search.h"

/* The name of the codes is that of the weight and a tail. */
static enum vc_status attach_as(struct vc_search *s, size_t codes, size_t n_weight, const struct vc_quant *quant,
                                const struct vc_packed *packed)
{
    const char *name = s->model->tensors[codes].name;

    if (packed != NULL) {
        VC_CALL(vc_search_attach_packed(s, codes, quant, packed, n_weight));
    } else {
        VC_CALL(vc_search_attach(s, codes, quant, false));
        s->out->found[codes].n_name = n_weight;
        s->any_packed = true;
    }
    vc_search_claim(s, codes, name, n_weight - strlen("weight"), VC_QUANTO_PARTS);
    return VC_OK;
}

/* Codes of a byte. */
static enum vc_status attach_bytes(struct vc_search *s, size_t codes, size_t n_weight)
{
    const struct vc_tensor *t = &s->model->tensors[codes];
    size_t scale = vc_search_find(s, t->name, n_weight, "._scale");
    uint64_t n = vc_search_is_floats(s, scale) ? s->model->tensors[scale].n_elems : 0;
    struct vc_quant quant = {.scheme = t->dtype == VC_DTYPE_I8 ? VC_SCHEME_INT8 : VC_SCHEME_FP8,
                             .granularity = n == 1 ? VC_GRANULARITY_TENSOR : VC_GRANULARITY_CHANNEL,
                             .symmetric = true};

    if (t->dtype != VC_DTYPE_I8 && t->dtype != VC_DTYPE_F8_E4M3) {
        bool floats = vc_dtype_size(t->dtype) == 1 && t->dtype != VC_DTYPE_U8; /* other ones of 8 bits */

        return vc_search_refuse(s, codes, floats ? VC_SEVERITY_WARNING : VC_SEVERITY_ERROR,
                                "is codes of quanto of the type %s, which are not decoded here",
                                vc_dtype_name(t->dtype));
    }
    if (t->n_dims < 2 || t->n_elems == 0 || n == 0 || (n != 1 && n != t->shape[0])) {
        return vc_search_refuse(s, codes, VC_SEVERITY_ERROR,
                                "is codes of quanto that cannot be decoded: it has no '_scale' of one number, or one a "
                                "row, beside it");
    }
    quant.source_dtype = s->model->tensors[scale].dtype;
    vc_quant_set(&quant, VC_PART_SCALE, scale);
    return attach_as(s, codes, n_weight, &quant, NULL);
}

/* Codes of 4 or 2 bits. */
struct layers {
    size_t scale, shift;
    uint64_t rows, columns; /* as the codes lie */
    uint64_t n_rows, row;   /* of the weight */
    unsigned bits;
    bool known; /* config.json has sizes for a weight of that name */
};

/* Layers of language models whose sizes config.json has: rows and columns, as numbers of vc_dialect_hint.sizes. */
static const struct {
    const char *names;
    enum vc_size rows, columns;
} known[] = {{"q_proj", VC_SIZE_HEADS, VC_SIZE_HIDDEN},    {"k_proj v_proj", VC_SIZE_KV_HEADS, VC_SIZE_HIDDEN},
             {"o_proj", VC_SIZE_HIDDEN, VC_SIZE_HEADS},    {"gate_proj up_proj", VC_SIZE_INNER, VC_SIZE_HIDDEN},
             {"down_proj", VC_SIZE_HIDDEN, VC_SIZE_INNER}, {"lm_head", VC_SIZE_WORDS, VC_SIZE_HIDDEN}};

/* Rows of the weight by its name and the configuration; 0: they are not known. */
static enum vc_status find_rows(struct vc_search *s, size_t codes, size_t n_weight, struct layers *l)
{
    char module[32] = "";
    const char *name = s->model->tensors[codes].name;
    size_t end = n_weight - strlen(".weight");
    size_t begin = end;

    while (begin > 0 && name[begin - 1] != '.') {
        begin--;
    }
    if (end - begin < sizeof module) {
        memcpy(module, name + begin, end - begin);
    }
    VC_CALL(vc_search_hint(s));
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        uint64_t rows = s->hint.sizes[known[i].rows];
        uint64_t columns = s->hint.sizes[known[i].columns];

        if (!vc_is_one_of(module, known[i].names) || rows == 0 || columns == 0) {
            continue;
        }
        l->known = true;
        l->n_rows = columns % l->columns == 0 && rows * (columns / l->columns) == l->rows ? rows : 0;
    }
    return VC_OK;
}

/* Why they cannot be decoded; NULL: they can. */
static const char *find_layers(const struct vc_search *s, size_t codes, size_t n_weight, struct layers *l)
{
    const struct vc_tensor *t = &s->model->tensors[codes];

    l->scale = vc_search_find(s, t->name, n_weight, "._scale");
    l->shift = vc_search_find(s, t->name, n_weight, "._shift");
    if (t->dtype != VC_DTYPE_U8 || t->n_dims < 2 || t->n_elems == 0) {
        return "is no matrix of u8";
    }
    if (!vc_search_is_floats(s, l->scale) || !vc_search_is_floats(s, l->shift)) {
        return "has no '_scale' and '_shift' of f16, bf16 or f32 beside it";
    }
    l->rows = s->model->tensors[l->scale].n_elems;
    l->columns = t->n_elems / t->shape[0];
    l->bits = vc_ceil_div_u64(l->rows, 2) == t->shape[0] ? 4 : 2;
    if (s->model->tensors[l->shift].n_elems != l->rows || vc_ceil_div_u64(l->rows, 8 / l->bits) != t->shape[0] ||
        t->shape[0] == 1) {
        return "has scales and shifts that do not fit it";
    }
    l->n_rows = t->n_dims > 2 || l->columns % 32 != 0 || l->columns > 128 ? l->rows : 0;
    return NULL;
}

static enum vc_status attach_layers(struct vc_search *s, size_t codes, size_t n_weight, const struct layers *l)
{
    struct vc_tensor *t = &s->model->tensors[codes];
    uint64_t *shape = vc_arena_alloc(s->ctx, &s->out->arena, t->n_dims * sizeof *shape);
    unsigned n_dims = t->n_dims;
    struct vc_quant quant = {.scheme = vc_code_scheme_of_bits(l->bits),
                             .granularity = VC_GRANULARITY_GROUP,
                             .group_size = l->columns,
                             .offset_rule = VC_OFFSET_MINUS,
                             .source_dtype = s->model->tensors[l->scale].dtype};
    const struct vc_packed packed = {.packing = &vc_packing_layers,
                                     .unit = 1,
                                     .low_first = true,
                                     .bits = l->bits,
                                     .job_bits = l->bits,
                                     .n_words = t->size_bytes,
                                     .n_rows = l->n_rows,
                                     .row = l->row * l->bits / 8};

    VC_CALL_ALLOC(shape);
    memcpy(shape, t->shape, n_dims * sizeof *shape);
    shape[0] = l->n_rows;
    shape[1] = n_dims == 2 ? l->row : shape[1];
    vc_quant_set(&quant, VC_PART_SCALE, l->scale);
    vc_quant_set(&quant, VC_PART_OFFSET, l->shift);
    VC_CALL(attach_as(s, codes, n_weight, &quant, &packed));
    t->shape = shape;
    t->n_dims = n_dims;
    return VC_OK;
}

static enum vc_status find_packed(struct vc_search *s, size_t codes, size_t n_weight)
{
    struct layers l = {0};
    const char *why = find_layers(s, codes, n_weight, &l);

    if (why == NULL && l.n_rows == 0) {
        VC_CALL(find_rows(s, codes, n_weight, &l));
    }
    if (why == NULL && l.n_rows == 0) {
        return vc_search_refuse(s, codes, l.known ? VC_SEVERITY_ERROR : VC_SEVERITY_WARNING,
                                "is codes of quanto that are not decoded here: they may lie in groups, and neither "
                                "they nor the sizes in config.json say how many rows the weight has");
    }
    l.row = why == NULL ? l.rows / l.n_rows * l.columns : 0;
    why = why == NULL && l.row % 8 * l.bits % 8 != 0 ? "has rows that are no whole bytes" : why;
    return why != NULL
               ? vc_search_refuse(s, codes, VC_SEVERITY_ERROR, "is codes of quanto that cannot be decoded: it %s", why)
               : attach_layers(s, codes, n_weight, &l);
}

static enum vc_status quanto_find(struct vc_search *s, size_t codes, bool *found)
{
    static const char bytes[] = ".weight._data";
    static const char layers[] = ".weight._data._data";
    const char *name = s->model->tensors[codes].name;
    bool is_layers = vc_ends_in(name, layers);
    size_t n = strlen(name) - strlen(is_layers ? "._data._data" : "._data"); /* of the weight's name */

    if (!(is_layers || vc_ends_in(name, bytes)) || !vc_search_is_free(s, codes)) {
        return VC_OK;
    }
    *found = true;
    return is_layers ? find_packed(s, codes, n) : attach_bytes(s, codes, n);
}

static const struct vc_dialect_file quanto_file = {.loads = VC_LOADS_NONE, .find_packed = quanto_find};

const struct vc_dialect vc_dialect_quanto = {.name = "quanto",
                                             .schemes = (const char *const[]){NULL},
                                             .loader = {.program = "optimum-quanto"},
                                             .file = &quanto_file};
