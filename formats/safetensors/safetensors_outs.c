/* safetensors_outs.c - see safetensors_outs.h. Outputs become tensors of the file as they are, or where the sink's
 * dialect lays codes and scales in another way, as it says:
 *
 *     plain                w.int8 i8 [8, 5], w.scale f32 [8, 1]
 *     compressed-tensors   w_packed I32 [8, 2], w_scale F32 [8, 1], w_shape I64 [2]
 *
 * Kept tensors of a safetensors source keep what the source's header says of them, under the name that passes gave
 * them. */
#include "formats/safetensors/safetensors_outs.h"

#include "core/model/code_schemes.h"
#include "core/model/renamed_model.h"
#include "core/values/tile.h"

/* The weight that an output is a part of, for outputs that the dialect lays. */
struct owner {
    size_t codes; /* VC_NO_TENSOR: it is written as it is */
    enum vc_part_role role;
};

struct making {
    struct vc_ctx *ctx;
    const struct vc_out_list *outs;
    const struct vc_model *model;
    const struct safetensors *source;
    const struct vc_dialect *dialect;
    struct safetensors_records *to;
    struct owner *owners; /* by output; NULL: the dialect lays nothing */
    bool any_new_name;    /* that the source's header does not have */
};

/* The number of the type's row; vc_safetensors_n_dtypes: the format has no such type. */
size_t vc_safetensors_type_of(enum vc_dtype dtype)
{
    size_t i = 0;

    while (i < vc_safetensors_n_dtypes && vc_safetensors_dtypes[i].dtype != dtype) {
        i++;
    }
    return i;
}

/* ---- outputs as they are ---- */

/* out: VC_SAFETENSORS_CONSTANT where none brings its bytes. */
static struct safetensors_record *add_record(struct making *m, uint32_t out)
{
    struct safetensors_record *record = &m->to->records[m->to->n++];

    *record = (struct safetensors_record){.out = out};
    if (out != VC_SAFETENSORS_CONSTANT) {
        m->to->of_out[out] = (uint32_t)(m->to->n - 1);
    }
    return record;
}

static enum vc_status check_type(const struct making *m, enum vc_dtype dtype, const char *name)
{
    return vc_safetensors_type_of(dtype) < vc_safetensors_n_dtypes
               ? VC_OK
               : vc_fail(m->ctx, VC_E_UNSUPPORTED, "%s: safetensors cannot hold elements of type %s", name,
                         vc_dtype_name(dtype));
}

/* The output's bytes are those of the source, and so is what the header says of them. */
static bool is_copy(const struct safetensors *source, const struct vc_out_tensor *out)
{
    return out->form == VC_FORM_RAW && source != NULL;
}

/* What the header calls it, with what passes changed about its name. */
static const char *name_of_copy(const struct making *m, const struct vc_out_tensor *out, bool renamed)
{
    const char *name = vc_safetensors_entry(m->source, out->source).name;

    return renamed ? vc_name_follow(m->ctx, &m->to->arena, name, m->model->tensors[out->source].name, out->name) : name;
}

/* Of each kind of packing the weight that needs the most room is kept, for vc_safetensors_pack_bound. m->to->packings
 * has few places: kinds, not weights. */
static enum vc_status note_packing(struct making *m, const struct vc_packed *packed)
{
    struct safetensors_records *to = m->to;
    size_t i = 0;

    while (i < to->n_packings && (to->packings[i].packing != packed->packing || to->packings[i].bits != packed->bits)) {
        i++;
    }
    VC_REFUSE_IF(i == VC_SAFETENSORS_PACKINGS, m->ctx, VC_E_INTERNAL, "more than %d kinds of packing",
                 VC_SAFETENSORS_PACKINGS);
    if (i == to->n_packings ||
        packed->packing->bound(packed, VC_TILE_ELEMS) > packed->packing->bound(&to->packings[i], VC_TILE_ELEMS)) {
        to->packings[i] = *packed;
    }
    to->n_packings += i == to->n_packings;
    return VC_OK;
}

/* A record of what the dialect says, which is copied into the arena. */
static enum vc_status add_laid(struct making *m, const struct vc_laid *laid, uint32_t out)
{
    struct safetensors_record *record = add_record(m, out);
    struct vc_laid *copy = vc_arena_alloc(m->ctx, &m->to->arena, sizeof *copy);

    VC_CALL_ALLOC(copy);
    *copy = *laid;
    record->laid = copy;
    record->name = laid->name;
    m->any_new_name = true;
    VC_CALL(check_type(m, laid->dtype, laid->name));
    if (laid->packed.packing != NULL && laid->packed.packing->gathers) {
        m->to->most_gathered = vc_max_u64(m->to->most_gathered, laid->n_bytes);
        return VC_OK;
    }
    return laid->packed.packing != NULL ? note_packing(m, &laid->packed) : VC_OK;
}

/* Codes of two a byte, which the format has no type for. */
static enum vc_status add_bytes(struct making *m, size_t index, const struct vc_out_tensor *out, const uint64_t *shape)
{
    uint64_t *own = vc_arena_alloc(m->ctx, &m->to->arena, 2 * sizeof *own);
    struct vc_laid laid = {.dtype = VC_DTYPE_U8, .n_dims = 2, .shape = own, .n_bytes = out->size_bytes};

    VC_CALL_ALLOC(own);
    memcpy(own, shape, 2 * sizeof *own);
    VC_CALL_ALLOC(laid.name = vc_plain_codes_name(m->ctx, &m->to->arena, out->name, vc_out_scheme(out)));
    return add_laid(m, &laid, (uint32_t)index);
}

/* Codes that only a manifest describes get the plain row's name, "w.int8"; copies keep the header's name. */
static enum vc_status add_as_is(struct making *m, size_t index, const struct vc_out_tensor *out)
{
    struct safetensors_record *record = add_record(m, (uint32_t)index);
    bool named = m->to->told[index] || out->quant == NULL;
    bool copy = is_copy(m->source, out);
    bool renamed = strcmp(out->name, m->model->tensors[out->source].name) != 0;

    record->name = named && copy ? name_of_copy(m, out, renamed)
                   : named       ? out->name
                                 : vc_plain_codes_name(m->ctx, &m->to->arena, out->name, vc_out_scheme(out));
    VC_CALL_ALLOC(record->name);
    m->any_new_name = m->any_new_name || !named || !copy || renamed;
    return copy ? VC_OK : check_type(m, out->dtype, out->name);
}

/* Made anew at each call, so that a million records need no million entries. */
struct safetensors_entry vc_safetensors_record_entry(const struct safetensors_records *records,
                                                     const struct safetensors_record *record)
{
    const struct vc_laid *laid = record->laid;
    struct vc_out_tensor out;

    if (laid != NULL) {
        return (struct safetensors_entry){.name = record->name,
                                          .shape = laid->shape,
                                          .n_bytes = laid->n_bytes,
                                          .n_dims = (uint8_t)laid->n_dims,
                                          .type = (uint8_t)vc_safetensors_type_of(laid->dtype)};
    }
    out = vc_out_at(records->outs, record->out);
    struct safetensors_entry entry = (struct safetensors_entry){
        .shape = out.shape, .n_dims = (uint8_t)out.n_dims, .type = (uint8_t)vc_safetensors_type_of(out.dtype)};
    if (is_copy(records->source, &out)) {
        entry = vc_safetensors_entry(records->source, out.source);
    }
    entry.name = record->name;
    entry.n_bytes = out.size_bytes;
    return entry;
}

/* ---- weights of a dialect ---- */

static bool is_codes(const struct making *m, const struct vc_out_tensor *out)
{
    return m->dialect->file != NULL && out->form == VC_FORM_VALUES && out->quant != NULL;
}

/* The codes or a part of them, as the dialect has it. */
static enum vc_status add_part(struct making *m, size_t index)
{
    const struct vc_out_tensor codes = vc_out_at(m->outs, m->owners[index].codes);
    const struct vc_out_tensor part = vc_out_at(m->outs, index);
    struct vc_laying laying = {
        .ctx = m->ctx, .arena = &m->to->arena, .codes = &codes, .part = &part, .role = m->owners[index].role};

    VC_CALL(m->dialect->file->lay(&laying));
    for (size_t i = 0; i < laying.n; i++) {
        VC_CALL(add_laid(m, &laying.laid[i], i == 0 ? (uint32_t)index : VC_SAFETENSORS_CONSTANT));
    }
    return VC_OK;
}

/* Names a job that goes through floats, to the scheme of the dialect with as many bits as the codes, or its first. */
static enum vc_status refuse_codes(const struct making *m, const struct vc_out_tensor *codes)
{
    unsigned bits = vc_code_bits(vc_code_scheme(codes->quant->scheme));
    const char *const *schemes = m->dialect->schemes;
    const char *pass = vc_option(m->ctx, "pass");
    char target[32];
    size_t i = 0;

    while (schemes[i] != NULL && vc_code_bits(vc_code_scheme_named(schemes[i])) != bits) {
        i++;
    }
    (void)snprintf(target, sizeof target, "target=%s", schemes[schemes[i] != NULL ? i : 0]);
    return vc_fail(
        m->ctx, VC_E_UNSUPPORTED,
        "%s: is quantized in a way that the layout %s cannot hold; vcompress run %s dequantize %s \"quantize "
        "%s\" %s %s goes through floats and tells the error",
        codes->name, m->dialect->name, pass, pass, vc_option(m->ctx, target), vc_option(m->ctx, "layout"),
        m->dialect->name);
}

/* ---- the whole ---- */

/* Which outputs the dialect lays: its weights and their parts. Parts are found by the numbers in quant->parts, which
 * are outputs here. */
static enum vc_status find_owners(struct making *m)
{
    for (size_t i = 0; m->owners != NULL && i < m->outs->n; i++) {
        m->owners[i].codes = VC_NO_TENSOR;
    }
    for (size_t i = 0; i < m->outs->n; i++) {
        const struct vc_out_tensor out = vc_out_at(m->outs, i);

        if (out.alias) {
            m->to->told[i] = m->to->told[out.alias_of];
            m->to->any_alias = true;
            continue;
        }
        if (!is_codes(m, &out)) {
            m->to->told[i] = out.form == VC_FORM_RAW && m->source != NULL && out.quant != NULL &&
                             vc_finds_at(&m->source->finds, out.source)->dialect != NULL;
            m->to->any_untold = m->to->any_untold || (out.quant != NULL && !m->to->told[i]);
            continue;
        }
        VC_RETURN_IF(!m->dialect->file->fits(&out), refuse_codes(m, &out));
        m->to->told[i] = true;
        m->owners[i] = (struct owner){i, VC_PART_CODES};
        for (unsigned k = 0; k < out.quant->n_parts; k++) {
            m->owners[out.quant->parts[k].tensor] = (struct owner){i, out.quant->parts[k].role};
        }
    }
    return VC_OK;
}

/* New names could be those of other tensors; those of one source's header are different. */
static enum vc_status check_names(struct making *m)
{
    const struct safetensors_records *to = m->to;
    size_t twice;

    if (!m->any_new_name) {
        return VC_OK;
    }

    for (size_t i = 0; i < to->n; i++) {
        VC_REFUSE_IF(strcmp(to->records[i].name, VC_SAFETENSORS_METADATA) == 0, m->ctx, VC_E_UNSUPPORTED,
                     "%s: safetensors keeps this name for its metadata", to->records[i].name);
    }
    VC_CALL(vc_names_unique(m->ctx, VC_NAME_LIST(to->records, sizeof *to->records), to->n, &twice));
    VC_REFUSE_IF(twice != SIZE_MAX, m->ctx, VC_E_UNSUPPORTED, "%s: two tensors of the output would have this name",
                 to->records[twice].name);
    return VC_OK;
}

static enum vc_status make_records(struct making *m)
{
    uint64_t bytes[2];

    VC_CALL(find_owners(m));
    for (size_t i = 0; i < m->outs->n; i++) {
        const struct vc_out_tensor out = vc_out_at(m->outs, i);

        VC_CALL(vc_check_cancelled(m->ctx));
        if (out.alias) {
            continue; /* the other name has the bytes */
        }
        if (m->owners != NULL && m->owners[i].codes != VC_NO_TENSOR) {
            VC_CALL(add_part(m, i));
        } else if (!is_copy(m->source, &out) && vc_plain_is_bytes(&out, bytes)) {
            VC_CALL(add_bytes(m, i, &out, bytes));
        } else {
            VC_CALL(add_as_is(m, i, &out));
        }
    }
    return check_names(m);
}

enum vc_status vc_safetensors_records_make(struct vc_ctx *ctx, const struct vc_out_list *outs,
                                           const struct vc_model *model, const struct safetensors *source,
                                           const struct vc_dialect *dialect, struct safetensors_records *out)
{
    struct making m = {.ctx = ctx, .outs = outs, .model = model, .source = source, .dialect = dialect, .to = out};
    size_t n_most; /* every output, and what a dialect adds to each */
    enum vc_status status = VC_OK;

    *out = (struct safetensors_records){.outs = outs, .source = source};
    VC_REFUSE_IF(!vc_mul_size(outs->n, dialect->file != NULL ? VC_MAX_LAID : 1, &n_most) || n_most > INT32_MAX, ctx,
                 VC_E_NOMEM, "too many tensors");
    VC_TRY(VC_ARRAY(ctx, VC_TAG_NAMES, out->records, n_most));
    VC_TRY(VC_ZEROS(ctx, VC_TAG_NAMES, out->of_out, outs->n));
    VC_TRY(VC_ZEROS(ctx, VC_TAG_NAMES, out->told, outs->n));
    if (dialect->file != NULL) {
        VC_TRY(VC_ARRAY(ctx, VC_TAG_NAMES, m.owners, outs->n));
    }
    VC_TRY(make_records(&m));
out:
    vc_free(ctx, m.owners);
    return status;
}

void vc_safetensors_records_release(struct vc_ctx *ctx, struct safetensors_records *records)
{
    VC_FREE_ALL(ctx, records->records, records->of_out, records->told);
    vc_arena_release(ctx, &records->arena);
    *records = (struct safetensors_records){.n = 0};
}

size_t vc_safetensors_pack_bound(const struct safetensors_records *records, size_t n_bytes)
{
    size_t bound = 0;

    for (size_t i = 0; i < records->n_packings; i++) {
        const struct vc_packed *packed = &records->packings[i];
        size_t own = packed->packing->bound(packed, n_bytes);

        bound = own > bound ? own : bound;
    }
    return bound;
}
