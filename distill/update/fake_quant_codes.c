/* fake_quant_codes.c - see fake_quant_codes.h.
 *
 * Codes whose scales are searched, such as 4-bit groups: the values are what quantize would write and
 * dequantize would read again. They are made group by group from the masters, by the function of the
 * quantize pass (vc_group_round), so that both find the same scales. Schemes with a global scale need the
 * largest magnitude of the tensor first, or of all tensors that are joined in the file, such as q, k and v. */
#include "distill/update/fake_quant_codes.h"

#include "core/model/code_schemes.h"
#include "core/model/names.h"
#include "kernels/grid_codes.h"

/* ---- which codes ---- */

/* types: of the parts by role; NONE: there is no such part. */
static struct vc_searched searched(const struct vc_dialect *dialect, const struct vc_quant *quant,
                                   const enum vc_dtype *types)
{
    const struct vc_code_scheme *row = vc_code_scheme(quant->scheme);
    bool by_rows = quant->granularity == VC_GRANULARITY_GROUP ||
                   (quant->granularity == VC_GRANULARITY_CHANNEL && quant->axis == 0);
    bool fits = row != NULL && quant->scheme != VC_SCHEME_INT8 && by_rows && quant->symmetric &&
                quant->scale_group == 0 && !quant->global_multiplies &&
                vc_code_scheme_takes_scale(row, types[VC_PART_SCALE]);

    for (unsigned role = 0; fits && role < VC_PART_ROLES; role++) {
        bool wanted = role == VC_PART_SCALE || (role == VC_PART_GLOBAL_SCALE && row->global);

        fits = (types[role] != VC_DTYPE_NONE) == wanted;
    }
    return (struct vc_searched){fits ? row : NULL, quant,
                                fits ? vc_code_groups(row, types[VC_PART_SCALE], dialect) : (struct vc_group_codes){0}};
}

static void no_parts(enum vc_dtype *types)
{
    for (unsigned role = 0; role < VC_PART_ROLES; role++) {
        types[role] = VC_DTYPE_NONE;
    }
}

/* Of a tensor that has codes in the student's file. */
struct vc_searched vc_fake_quant_of_tensor(const struct vc_model *model, const struct vc_tensor *tensor)
{
    const struct vc_quant *quant = tensor->quant;
    enum vc_dtype types[VC_PART_ROLES];

    if (quant == NULL) {
        return (struct vc_searched){.scheme = NULL};
    }
    no_parts(types);
    for (unsigned i = 0; i < quant->n_parts; i++) {
        types[quant->parts[i].role] = model->tensors[quant->parts[i].tensor].dtype;
    }
    return searched(model->dialect, quant, types);
}

/* Of a tensor as a planned job of quantize would write it. */
struct vc_searched vc_fake_quant_of_desc(const struct vc_dialect *dialect, const struct vc_desc *desc)
{
    enum vc_dtype types[VC_PART_ROLES];

    if (desc->quant == NULL) {
        return (struct vc_searched){.scheme = NULL};
    }
    no_parts(types);
    for (size_t i = 0; i < desc->n_parts; i++) {
        types[desc->parts[i].role] = desc->parts[i].dtype;
    }
    return searched(dialect, desc->quant, types);
}

/* What the fake quantization of a tensor has to know of its codes. */
void vc_fake_quant_set(const struct vc_learner *l, struct vc_fake_quant *f, const struct vc_searched *codes)
{
    const struct vc_weight *item = &l->net.weights->items[f->entry];
    uint64_t n_rows;

    f->codes = codes->scheme->codes;
    f->scheme = codes->scheme;
    f->how = codes->how;
    f->n_scales = codes->scheme->global ? 1 : 0; /* a device finds the largest magnitude there */
    vc_rows_of(item->shape, item->n_dims, &n_rows, &f->row_len);
    f->inner = codes->quant->granularity == VC_GRANULARITY_GROUP ? codes->quant->group_size : f->row_len;
}

/* joined: the first tensor of the set that shares a global scale; itself where there is no other. */
void vc_fake_quant_join(const struct vc_learner *l)
{
    const struct vc_weight *weights = l->net.weights->items;

    for (size_t i = 0; i < l->fake_quants->n; i++) {
        struct vc_fake_quant *f = &l->fake_quants->items[i];

        f->joined = i;
        for (size_t k = 0; f->scheme != NULL && f->scheme->global && k < i && f->joined == i; k++) {
            const struct vc_fake_quant *other = &l->fake_quants->items[k];

            if (other->scheme == f->scheme && vc_name_is_joined(weights[f->entry].name, weights[other->entry].name)) {
                f->joined = other->joined;
            }
        }
    }
}

/* ---- rounding ---- */

/* Master number i as quantize reads it. */
static float master_at(const struct vc_learner *l, const struct vc_fake_quant *f, uint64_t i)
{
    return l->f64 ? vc_f64_to_f32(((const double *)f->master)[i]) : ((const float *)f->master)[i];
}

/* The largest finite magnitude of the tensor, as bits. */
static uint32_t largest(const struct vc_learner *l, const struct vc_fake_quant *f)
{
    uint64_t n = l->net.weights->items[f->entry].n;
    uint32_t top = 0;

    for (uint64_t i = 0; i < n; i++) {
        uint32_t bits = vc_f32_magnitude(master_at(l, f, i));

        top = bits < VC_F32_INF_BITS && bits > top ? bits : top;
    }
    return top;
}

/* Global scales of all tensors, one for those that are joined. */
static void find_globals(const struct vc_learner *l)
{
    struct vc_fake_quant *items = l->fake_quants->items;

    for (size_t i = 0; i < l->fake_quants->n; i++) {
        struct vc_fake_quant *first = &items[items[i].joined];

        if (items[i].scheme != NULL && items[i].scheme->global) {
            uint32_t top = largest(l, &items[i]);

            first->absmax = first == &items[i] || top > first->absmax ? top : first->absmax;
        }
    }
    for (size_t i = 0; i < l->fake_quants->n; i++) {
        items[i].how.global = vc_nvfp4_global(vc_bits_f32(items[items[i].joined].absmax));
    }
}

/* For threads, which take a row each. */
struct rounding {
    const struct vc_learner *l;
    const struct vc_fake_quant *f;
};

/* One group. Doubles are made of floats that lie in the upper half of their room: going upwards, no float is written
 * over before it is read. */
static void round_at(const struct rounding *r, uint64_t first, size_t n)
{
    const struct vc_fake_quant *f = r->f;
    const struct vc_weight *item = &r->l->net.weights->items[f->entry];
    char *room = (char *)item->data + first * (r->l->f64 ? sizeof(double) : sizeof(float));
    char *x = r->l->f64 ? room + n * sizeof(float) : room;

    for (size_t i = 0; i < n; i++) {
        float m = master_at(r->l, f, first + i);

        memcpy(x + i * sizeof m, &m, sizeof m);
    }
    vc_group_round(&f->how, (const float *)(const void *)x, n, x);
    for (size_t i = 0; r->l->f64 && i < n; i++) {
        float y;

        memcpy(&y, x + i * sizeof y, sizeof y);
        double wide = (double)y;
        memcpy(room + i * sizeof wide, &wide, sizeof wide);
    }
}

/* One row, group by group. The last group may be shorter. */
static void round_row(void *user, unsigned worker, size_t row)
{
    const struct rounding *r = user;

    for (uint64_t first = 0; first < r->f->row_len; first += r->f->inner) {
        round_at(r, row * r->f->row_len + first, (size_t)vc_min_u64(r->f->inner, r->f->row_len - first));
    }
}

/* All tensors of such codes. begin: those that come as codes have their values already. */
void vc_fake_quant_search(const struct vc_learner *l, bool begin, struct vc_engine *engine)
{
    find_globals(l);
    for (size_t i = 0; i < l->fake_quants->n; i++) {
        struct rounding r = {.l = l, .f = &l->fake_quants->items[i]};
        const struct vc_weight *item = &l->net.weights->items[r.f->entry];
        bool due = r.f->scheme != NULL && item->n != 0 && (!begin || item->becomes != NULL);
        size_t n_rows = due ? (size_t)(item->n / r.f->row_len) : 0;

        if (engine != NULL && n_rows != 0) {
            vc_engine_each(engine, n_rows, round_row, &r);
        }
        for (size_t row = 0; engine == NULL && row < n_rows; row++) {
            round_row(&r, 0, row);
        }
    }
}
