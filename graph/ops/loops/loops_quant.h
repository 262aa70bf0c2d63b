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
    size_t block = (size_t)vc_node_int(run->node, "block_size", 0);
    unsigned axis;

    *s = (struct scales){.n = scale->n, .inner = 1, .size = 1, .block = 1};
    if (scale->n_dims == 0 || (scale->n == 1 && block == 0) || x->n == 0) {
        s->n = 1;
        return x->n == 0 || vc_run_expect(run, 2, "zero point", scale->n);
    }
    axis = vc_run_axis(vc_node_int(run->node, "axis", 1), x->n_dims);
    s->inner = vc_run_count(x, axis + 1, x->n_dims);
    s->size = (size_t)x->shape[axis];
    s->block = block != 0 ? block : 1;
    size_t needed = (s->size - 1) / s->block + 1;
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
    int64_t least = vc_code_least(vc_node_int(run->node, "output_dtype", 0));
    int64_t most = vc_code_most(vc_node_int(run->node, "output_dtype", 0));
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
    const bool is_f8 = strcmp(vc_node_string(run->node, "codes", "int8"), "f8_e4m3") == 0;
    const REAL *scale = run->n_in > 1 && run->in[1] != NULL ? run->in[1]->data : NULL;
    const REAL least = is_f8 ? -448 : -128;
    const REAL most = is_f8 ? 448 : 127;
    size_t size = (size_t)vc_node_int(run->node, "size", 0);
    REAL *out = vc_run_out(run, 0, true, x->shape, x->n_dims);

    size = size != 0 ? size : (size_t)x->shape[x->n_dims - 1];
    for (size_t i = 0, n; out != NULL && i < x->n; i += n) {
        n = size < x->n - i ? size : x->n - i;
        FN(vc_round_codes)((const REAL *)x->data + i, n, scale, least, most, is_f8, (REAL)NAN, out + i);
    }
}
