/* search.c - what a row of the table asks and says while it looks for its weights: search.h, second half.
 *
 * A row is asked about one tensor after the other (finds.c). It looks for companions by name (vc_search_find), judges
 * scales (vc_search_granularity), and answers with vc_search_attach, vc_search_attach_packed, or vc_search_refuse with
 * the reason; without an answer the tensor stays plain. */
#include "formats/dialects/search.h"

#include "core/model/code_schemes.h"
#include "core/model/names.h"
#include "formats/dialects/manifest/manifest_internal.h"

/* ---- for the rows: questions ---- */

/* The buffer keeps the name, for sentences. It has room for the longest name and any tail of the rows. */
size_t vc_search_find(const struct vc_search *search, const char *stem, size_t n, const char *tail)
{
    memcpy(search->buffer, stem, n);
    memcpy(search->buffer + n, tail, strlen(tail) + 1);
    return vc_model_find(search->model, search->buffer);
}

bool vc_search_has(const struct vc_search *search, const char *stem, size_t n, const char *tail)
{
    return vc_search_find(search, stem, n, tail) != VC_NO_TENSOR;
}

/* Nothing is known of the tensor yet. */
bool vc_search_is_free(const struct vc_search *search, size_t tensor)
{
    const struct vc_tensor *t = &search->model->tensors[tensor];

    return t->part_of == VC_NO_TENSOR && t->quant == NULL;
}

/* Whether it can be scales: floats, not empty, and of no other weight. */
bool vc_search_is_floats(const struct vc_search *search, size_t tensor)
{
    const struct vc_tensor *t = tensor != VC_NO_TENSOR ? &search->model->tensors[tensor] : NULL;

    return t != NULL && t->n_elems != 0 && vc_search_is_free(search, tensor) &&
           (t->dtype == VC_DTYPE_F32 || t->dtype == VC_DTYPE_F16 || t->dtype == VC_DTYPE_BF16);
}

/* words: "scales zeros meta": each tensor "<stem><word>" that is free becomes a part of the codes. */
void vc_search_claim(const struct vc_search *search, size_t codes, const char *stem, size_t n, const char *words)
{
    char tail[32];
    const char *word;
    size_t at = 0;
    size_t n_word;

    while ((word = vc_family_word(words, &at, &n_word)) != NULL) {
        (void)snprintf(tail, sizeof tail, "%.*s", (int)n_word, word);
        size_t part = vc_search_find(search, stem, n, tail);
        if (part != VC_NO_TENSOR && vc_search_is_free(search, part)) {
            search->model->tensors[part].part_of = codes;
        }
    }
}

/* *n_stem: bytes of "model.layers.0.q_proj." of "model.layers.0.q_proj.weight". */
bool vc_search_is_codes(const struct vc_search *search, size_t tensor, size_t *n_stem)
{
    const struct vc_tensor *t = &search->model->tensors[tensor];
    size_t n_path;

    if ((t->dtype != VC_DTYPE_I8 && t->dtype != VC_DTYPE_F8_E4M3) || t->n_dims != 2 || t->n_elems == 0 ||
        !vc_search_is_free(search, tensor) || !vc_name_is_module_weight(t->name, &n_path)) {
        return false;
    }
    *n_stem = strlen(t->name) - strlen("weight");
    return true;
}

/* Asks for the configuration once, and only if some row needs it. */
enum vc_status vc_search_hint(struct vc_search *search)
{
    if (!search->asked && search->ask != NULL) {
        VC_CALL(search->ask(search->ctx, search->model, &search->hint));
    }
    search->asked = true;
    return VC_OK;
}

/* The last group of a row may be short. */
static bool group_fits(uint64_t row, uint64_t n_groups, uint64_t group)
{
    return group != 0 && vc_ceil_div_u64(row, group) == n_groups;
}

/* Group size for rows of that length: what divides them, else what the configuration says. 0: not certain. Rows of 4096
 * with 32 scales: groups of 128. Rows of 100 with 4: 25, although 26 to 33 would do, because writers divide evenly
 * where they can. */
static enum vc_status find_group(struct vc_search *search, uint64_t row, uint64_t n_groups, uint64_t *group)
{
    *group = row % n_groups == 0 ? row / n_groups : 0;
    if (*group == 0) {
        VC_CALL(vc_search_hint(search));
        *group = group_fits(row, n_groups, search->hint.group_size) ? search->hint.group_size : 0;
    }
    return VC_OK;
}

/* Blocks of an fp8 matrix: of the size that the configuration says, or of 128 x 128. */
static bool find_block(const struct vc_search *search, const struct vc_tensor *scale, uint64_t n_rows, uint64_t row,
                       struct vc_quant *quant)
{
    bool said = search->hint.block[0] != 0 && search->hint.block[1] != 0;
    uint64_t rows = said ? search->hint.block[0] : 128;
    uint64_t columns = said ? search->hint.block[1] : 128;

    if (quant->scheme != VC_SCHEME_FP8 || scale->n_dims != 2 || scale->shape[0] != vc_ceil_div_u64(n_rows, rows) ||
        scale->shape[1] != vc_ceil_div_u64(row, columns) || (!said && scale->n_elems == 1)) {
        return false;
    }
    quant->granularity = VC_GRANULARITY_BLOCK;
    quant->group_rows = rows;
    quant->group_size = columns;
    return true;
}

/*     scale [n_rows, 1]              per row, or one group that is the row, where the configuration says so
 *     fp8 and a shape of blocks      128 x 128, or what the configuration says
 *     one number                     per tensor
 *     [n_rows, 2 .. row]             groups
 *     anything else                  *sure is false */
enum vc_status vc_search_granularity(struct vc_search *search, const struct vc_tensor *scale, uint64_t n_rows,
                                     uint64_t row, struct vc_quant *quant, bool *sure)
{
    uint64_t n_groups = scale->n_dims == 2 ? scale->shape[1] : 0;
    bool by_rows = scale->n_dims == 2 && scale->shape[0] == n_rows;

    *sure = true;
    quant->axis = 0;
    if (quant->scheme == VC_SCHEME_FP8 || (by_rows && n_groups == 1)) {
        VC_CALL(vc_search_hint(search));
    }
    if (by_rows && n_groups == 1) {
        quant->group_size = search->hint.group_size == row ? row : 0;
        quant->granularity = quant->group_size != 0 ? VC_GRANULARITY_GROUP : VC_GRANULARITY_CHANNEL;
    } else if (find_block(search, scale, n_rows, row, quant)) {
        ; /* also one block */
    } else if (scale->n_elems == 1) {
        quant->granularity = VC_GRANULARITY_TENSOR;
    } else if (by_rows && n_groups >= 2 && n_groups <= row) {
        quant->granularity = VC_GRANULARITY_GROUP;
        VC_CALL(find_group(search, row, n_groups, &quant->group_size));
        *sure = quant->group_size != 0;
    } else {
        *sure = false;
    }
    return VC_OK;
}

/* ---- for the rows: answers ---- */

/* Most models have no such weights, and a list as long as the model is made for the first one only. */
static enum vc_status make_found(struct vc_search *search)
{
    struct vc_finds *out = search->out;

    if (out->found == NULL) {
        out->found = vc_calloc_array(search->ctx, VC_TAG_NAMES, search->model->n_tensors, sizeof *out->found);
    }
    return out->found != NULL ? VC_OK : VC_E_NOMEM;
}

/* as_written: the layout is one that this program writes, so that the model can be written in it again. Of several
 * dialects in a file the first counts. */
enum vc_status vc_search_attach(struct vc_search *search, size_t tensor, const struct vc_quant *quant, bool as_written)
{
    const struct vc_dialect *dialect = search->row;
    struct vc_finds *out = search->out;

    VC_CALL(make_found(search));
    out->found[tensor].dialect = dialect;
    out->read = out->read == &vc_dialect_plain ? dialect : out->read;
    out->dialect = as_written && out->dialect == &vc_dialect_plain ? dialect : out->dialect;
    return vc_manifest_attach(search->ctx, search->model, tensor, quant);
}

/* The sentence is the tensor's reason in all commands, and a finding of verify. */
enum vc_status vc_search_refuse(struct vc_search *search, size_t tensor, enum vc_severity severity, const char *format,
                                ...)
{
    struct vc_tensor *t = &search->model->tensors[tensor];
    va_list args;

    va_start(args, format);
    t->undecoded = vc_arena_vprintf(search->ctx, &search->out->arena, format, args);
    va_end(args);
    VC_CALL_ALLOC(t->undecoded);
    return vc_find(search->ctx, severity, "parts", t->name, "%s", t->undecoded);
}

/* The tensor is shown with that type and shape; it lies as `packed` says. */
static enum vc_status show(struct vc_search *search, size_t tensor, enum vc_dtype dtype, uint64_t row,
                           const struct vc_packed *packed)
{
    struct vc_tensor *t = &search->model->tensors[tensor];
    uint64_t *shape = vc_arena_alloc(search->ctx, &search->out->arena, 2 * sizeof *shape);

    VC_CALL_ALLOC(shape);
    shape[0] = packed->n_rows;
    shape[1] = row;
    t->dtype = dtype;
    t->n_dims = 2;
    t->shape = shape;
    t->n_elems = shape[0] * shape[1];
    t->size_bytes = packed->n_rows * packed->row;
    search->out->found[tensor].packed = *packed;
    return VC_OK;
}

/* n_name: bytes of the name that stay, 0: all of it (rename_packed of finds.c). */
enum vc_status vc_search_attach_packed(struct vc_search *search, size_t tensor, const struct vc_quant *quant,
                                       const struct vc_packed *packed, size_t n_name)
{
    const struct vc_code_scheme *row = vc_code_scheme(quant->scheme);

    VC_CALL(make_found(search));
    VC_CALL(show(search, tensor, row->codes, packed->row * 8 / vc_code_bits(row), packed));
    search->out->found[tensor].n_name = n_name;
    search->any_packed = true;
    return vc_search_attach(search, tensor, quant, vc_dialect_is_followed(search->row));
}

enum vc_status vc_search_show_part(struct vc_search *search, size_t part, enum vc_dtype dtype,
                                   const struct vc_packed *packed)
{
    return show(search, part, dtype, packed->row / vc_dtype_size(dtype), packed);
}
