/* loops_quant.h - part of op_loops.h: floats and codes. */

/* Which scale belongs to an element. */
struct scales {
    size_t n;                  /* 1: one for all */
    size_t inner, size, block; /* elements behind the axis, along it, and with one scale */
};

/* False, with the failure set, where there are too few or too many scales. */
static bool scales_of(struct vc_run *run, struct scales *s)
{
    const struct vc_run_value *x = run->in[0];
    const struct vc_run_value *scale = run->in[1];
    size_t block = (size_t)vc_run_int(run, "block_size", 0);
    unsigned axis;
    size_t needed;

    *s = (struct scales){.n = scale->n, .inner = 1, .size = 1, .block = 1};
    if (scale->n_dims == 0 || (scale->n == 1 && block == 0) || x->n == 0) {
        s->n = 1;
        return x->n == 0 || vc_run_expect(run, 2, "zero point", scale->n);
    }
    axis = vc_run_axis(vc_run_int(run, "axis", 1), x->n_dims);
    s->inner = vc_run_count(x, axis + 1, x->n_dims);
    s->size = (size_t)x->shape[axis];
    s->block = block != 0 ? block : 1;
    needed = (s->size - 1) / s->block + 1;
    needed *= block != 0 ? x->n / s->size : 1;
    if (block == 0) {
        s->block = 0; /* the same scales for all that is before the axis */
    }
    return vc_run_expect(run, 1, "scale", needed) && vc_run_expect(run, 2, "zero point", needed);
}

static size_t scale_at(const struct scales *s, size_t i)
{
    size_t along = i / s->inner % s->size;

    if (s->n == 1) {
        return 0;
    }
    return s->block == 0
               ? along
               : (i / s->inner / s->size * ((s->size - 1) / s->block + 1) + along / s->block) * s->inner + i % s->inner;
}

/* y = (code - zero point) * scale */
RUN(dequantize)
{
    const struct vc_run_value *x = run->in[0];
    const int64_t *zero = run->n_in > 2 && run->in[2] != NULL ? run->in[2]->data : NULL;
    struct scales s;
    REAL *out = scales_of(run, &s) ? vc_run_out(run, 0, true, x->shape, x->n_dims) : NULL;

    for (size_t i = 0; out != NULL && i < x->n; i++) {
        size_t k = scale_at(&s, i);
        uint64_t code = (uint64_t)((const int64_t *)x->data)[i] - (uint64_t)(zero != NULL ? zero[k] : 0);

        out[i] = (REAL)(int64_t)code * ((const REAL *)run->in[1]->data)[k];
    }
}

/* code = x / scale, rounded to the nearest (halves to even), + zero point, cut off at the ends of the codes' type. */
RUN(quantize)
{
    const struct vc_run_value *x = run->in[0];
    const int64_t *zero = run->n_in > 2 && run->in[2] != NULL ? run->in[2]->data : NULL;
    int64_t type = vc_run_int(run, "output_dtype", 0);
    int64_t least = type == 3 ? INT8_MIN : type == 5 ? INT16_MIN : type == 22 ? -8 : 0;
    int64_t most = type == 3    ? INT8_MAX
                   : type == 4  ? UINT16_MAX
                   : type == 5  ? INT16_MAX
                   : type == 21 ? 15
                   : type == 22 ? 7
                                : UINT8_MAX;
    struct scales s;
    int64_t *out = scales_of(run, &s) ? vc_run_out(run, 0, false, x->shape, x->n_dims) : NULL;

    for (size_t i = 0; out != NULL && i < x->n; i++) {
        size_t k = scale_at(&s, i);
        REAL code = MATH(rint)(((const REAL *)x->data)[i] / ((const REAL *)run->in[1]->data)[k]) +
                    (REAL)(zero != NULL ? zero[k] : 0);

        out[i] = code <= (REAL)least ? least : code >= (REAL)most ? most : to_integer(code);
    }
}

/* x, rounded to a code times the scale; without a scale, that of each row or of each `size` elements of the row. */
RUN(fake_quantize)
{
    const struct vc_run_value *x = run->in[0];
    const REAL *scale = run->n_in > 1 && run->in[1] != NULL ? run->in[1]->data : NULL;
    const bool is_f8 = strcmp(vc_run_string(run, "codes", "int8"), "f8_e4m3") == 0;
    size_t size = (size_t)vc_run_int(run, "size", 0);
    size_t row = (size_t)x->shape[x->n_dims - 1];
    REAL *out;

    size = size != 0 ? size : row;
    if (size != 0 && row % size != 0) {
        vc_run_fail(run, "rows of %zu elements are no multiple of %zu", row, size);
        return;
    }
    out = vc_run_out(run, 0, true, x->shape, x->n_dims);
    for (size_t i = 0; out != NULL && i < x->n; i += size) {
        const REAL *part = (const REAL *)x->data + i;
        REAL largest = 0;
        REAL s;

        for (size_t k = 0; k < size; k++) {
            largest = FN(vc_codes_largest)(largest, part[k]);
        }
        s = scale != NULL ? *scale : FN(vc_codes_scale)(largest, is_f8);
        for (size_t k = 0; k < size; k++) {
            out[i + k] = FN(vc_round_codes)(part[k], s, is_f8 ? -448 : -128, is_f8 ? 448 : 127, is_f8, part[k]);
        }
    }
}
