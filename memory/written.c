/* written.c - see written.h. */
#include "memory/written.h"

#include "core/base/checked.h"

uint64_t vc_written_align(enum vc_allocator allocator)
{
    static const uint64_t aligns[] = {1, 256, 512};

    return (unsigned)allocator < 3 ? aligns[allocator] : 1;
}

static uint64_t rounded(const struct vc_written *l, uint64_t bytes)
{
    uint64_t n = 0;

    return vc_round_up_u64(bytes, l->align, &n) ? n : bytes;
}

static bool is_float(enum vc_dtype dtype)
{
    return dtype == VC_DTYPE_F32 || dtype == VC_DTYPE_F16 || dtype == VC_DTYPE_BF16 || dtype == VC_DTYPE_F64;
}

static bool is_written(const struct vc_report_row *row)
{
    return row->role == VC_ROLE_WEIGHT && row->action != VC_ACTION_DROPPED && row->action != VC_ACTION_TIED;
}

static uint64_t elems_after(const struct vc_report_row *row)
{
    uint64_t n = 1;

    for (unsigned k = 0; k < row->n_dims_after; k++) {
        n *= row->shape_after[k];
    }
    return n;
}

/* As vc_memory_estimate counts a tensor of a file. */
static void add_row(struct vc_written *l, const struct vc_report_row *row)
{
    uint64_t n = elems_after(row);
    uint64_t floats = rounded(l, n * vc_dtype_size(l->type != VC_DTYPE_NONE      ? l->type
                                                   : is_float(row->dtype_before) ? row->dtype_before
                                                                                 : VC_DTYPE_F32));
    uint64_t stored = 0;
    uint64_t codes = row->bytes_after;

    if (row->n_parts == 0 && is_float(row->dtype_after)) {
        l->bytes += l->type != VC_DTYPE_NONE ? rounded(l, n * vc_dtype_size(l->type)) : rounded(l, codes);
        return;
    }
    if (row->n_parts == 0 && !vc_dtype_is_quantized(row->dtype_after)) {
        l->bytes += rounded(l, codes);
        return;
    }
    for (size_t k = 0; k < row->n_parts; k++) {
        stored += rounded(l, row->parts[k].bytes);
        codes -= vc_min_u64(codes, row->parts[k].bytes);
    }
    stored += rounded(l, codes);
    l->largest = vc_max_u64(l->largest, floats);
    l->bytes += l->runtime == VC_RUNTIME_DEQUANTIZE ? floats : stored;
}

void vc_written_add(struct vc_written *loaded, const struct vc_report *report)
{
    struct vc_report_row row;

    for (size_t k = 0; vc_report_get_row(report, k, &row); k++) {
        if (is_written(&row)) {
            add_row(loaded, &row);
        }
    }
}

/* *all: of those so far, VC_DTYPE_NONE before the first. False: they are not of one type. */
static bool same_type(enum vc_dtype dtype, enum vc_dtype *all)
{
    bool same = *all == VC_DTYPE_NONE || *all == dtype;

    *all = dtype;
    return same;
}

static enum vc_dtype half_or_none(enum vc_dtype all)
{
    return all == VC_DTYPE_F16 || all == VC_DTYPE_BF16 ? all : VC_DTYPE_NONE;
}

enum vc_dtype vc_written_half(const struct vc_model *model)
{
    enum vc_dtype all = VC_DTYPE_NONE;

    for (size_t i = 0; i < vc_model_tensor_count(model); i++) {
        const struct vc_tensor *tensor = vc_model_tensor(model, i);

        if (tensor->role == VC_ROLE_WEIGHT && tensor->companion_of == VC_NO_TENSOR && is_float(tensor->dtype) &&
            !same_type(tensor->dtype, &all)) {
            return VC_DTYPE_NONE;
        }
    }
    return half_or_none(all);
}

enum vc_dtype vc_written_type(const struct vc_report *report)
{
    static const enum vc_dtype types[] = {VC_DTYPE_F32, VC_DTYPE_BF16, VC_DTYPE_F16, VC_DTYPE_F64};
    uint64_t n[4] = {0};
    size_t most = 0;
    struct vc_report_row row;

    for (size_t k = 0; vc_report_get_row(report, k, &row); k++) {
        for (size_t t = 0; is_written(&row) && row.n_parts == 0 && t < 4; t++) {
            n[t] += row.dtype_after == types[t] ? elems_after(&row) : 0;
        }
    }
    for (size_t t = 1; t < 4; t++) {
        most = n[t] > n[most] ? t : most;
    }
    return n[most] == 0 ? VC_DTYPE_NONE : types[most];
}

enum vc_dtype vc_written_half_after(const struct vc_report *report)
{
    enum vc_dtype all = VC_DTYPE_NONE;
    struct vc_report_row row;

    for (size_t k = 0; vc_report_get_row(report, k, &row); k++) {
        if (is_written(&row) && row.n_parts == 0 && is_float(row.dtype_after) && !same_type(row.dtype_after, &all)) {
            return VC_DTYPE_NONE;
        }
    }
    return half_or_none(all);
}
