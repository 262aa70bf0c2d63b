/* loops_logic.h - part of op_loops.h: comparisons, truth values, conversions of types. */

/* Of numbers or truth values, which are 0 and 1, as the results are. */
#define COMPARE(id, op)                                                                                           \
    RUN(id)                                                                                                       \
    {                                                                                                             \
        const struct vc_run_value *a = run->in[0];                                                                \
        const struct vc_run_value *b = run->in[1];                                                                \
        struct vc_run_walk walk;                                                                                  \
        int64_t *out = NULL;                                                                                      \
                                                                                                                  \
        if (vc_run_walk_begin(run, &walk, run->in, 2)) {                                                          \
            out = vc_run_out(run, 0, false, walk.shape, walk.n_dims);                                             \
        }                                                                                                         \
        for (size_t i = 0; out != NULL && i < run->out[0].n; i++, vc_run_walk_next(&walk)) {                      \
            out[i] = a->is_real                                                                                   \
                         ? ((const REAL *)a->data)[walk.place[0]] op((const REAL *)b->data)[walk.place[1]]        \
                         : ((const int64_t *)a->data)[walk.place[0]] op((const int64_t *)b->data)[walk.place[1]]; \
        }                                                                                                         \
    }

COMPARE(equal, ==)
COMPARE(greater, >)
COMPARE(less, <)
COMPARE(greater_or_equal, >=)
COMPARE(less_or_equal, <=)
#undef COMPARE

#define COMBINE(id, op)                                                                      \
    RUN(id)                                                                                  \
    {                                                                                        \
        struct vc_run_walk walk;                                                             \
        int64_t *out = NULL;                                                                 \
                                                                                             \
        if (vc_run_walk_begin(run, &walk, run->in, 2)) {                                     \
            out = vc_run_out(run, 0, false, walk.shape, walk.n_dims);                        \
        }                                                                                    \
        for (size_t i = 0; out != NULL && i < run->out[0].n; i++, vc_run_walk_next(&walk)) { \
            out[i] = ((const int64_t *)run->in[0]->data)[walk.place[0]] op(                  \
                (const int64_t *)run->in[1]->data)[walk.place[1]];                           \
        }                                                                                    \
    }

COMBINE(and, &)
COMBINE(or, |)
COMBINE(xor, ^)
#undef COMBINE

RUN(not )
{
    const int64_t *in = run->in[0]->data;
    int64_t *out = vc_run_out(run, 0, false, run->in[0]->shape, run->in[0]->n_dims);

    for (size_t i = 0; out != NULL && i < run->out[0].n; i++) {
        out[i] = !in[i];
    }
}

RUN(isnan)
{
    const REAL *in = run->in[0]->data;
    int64_t *out = vc_run_out(run, 0, false, run->in[0]->shape, run->in[0]->n_dims);

    for (size_t i = 0; out != NULL && i < run->out[0].n; i++) {
        out[i] = isnan(in[i]) != 0;
    }
}

RUN(isinf)
{
    const REAL *in = run->in[0]->data;
    int64_t *out = vc_run_out(run, 0, false, run->in[0]->shape, run->in[0]->n_dims);
    bool negative = vc_node_int(run->node, "detect_negative", 1) != 0;
    bool positive = vc_node_int(run->node, "detect_positive", 1) != 0;

    for (size_t i = 0; out != NULL && i < run->out[0].n; i++) {
        out[i] = isinf(in[i]) && (in[i] < 0 ? negative : positive);
    }
}

/* y = condition ? a : b, all three broadcast. */
RUN(where)
{
    struct vc_run_walk walk;
    bool is_real = run->in[1]->is_real;
    void *out = NULL;

    if (vc_run_walk_begin(run, &walk, run->in, 3)) {
        out = vc_run_out(run, 0, is_real, walk.shape, walk.n_dims);
    }
    for (size_t i = 0; out != NULL && i < run->out[0].n; i++, vc_run_walk_next(&walk)) {
        unsigned k = ((const int64_t *)run->in[0]->data)[walk.place[0]] != 0 ? 1 : 2;

        if (is_real) {
            ((REAL *)out)[i] = ((const REAL *)run->in[k]->data)[walk.place[k]];
        } else {
            ((int64_t *)out)[i] = ((const int64_t *)run->in[k]->data)[walk.place[k]];
        }
    }
}

/* The integer as a type with fewer bits has it: its lowest bits. */
static int64_t narrow(int64_t x, int64_t onnx)
{
    switch (onnx) {
    case 2:
        return (uint8_t)x;
    case 3:
        return (int8_t)(uint8_t)x;
    case 4:
        return (uint16_t)x;
    case 5:
        return (int16_t)(uint16_t)x;
    case 6:
        return (int32_t)(uint32_t)x;
    case 12:
        return (uint32_t)x;
    default:
        return x;
    }
}

/* Floats are REAL whatever their type is called: nothing is rounded to float16 on the way. */
RUN(cast)
{
    const struct vc_run_value *x = run->in[0];
    int64_t to = vc_node_int(run->node, "to", 0);
    bool is_real = to == 1 || to == 10 || to == 11 || to == 16;
    void *out = vc_run_out(run, 0, is_real, x->shape, x->n_dims);

    for (size_t i = 0; out != NULL && i < x->n; i++) {
        if (is_real) {
            ((REAL *)out)[i] = as_real(x, i);
        } else if (to == 9) {
            ((int64_t *)out)[i] = x->is_real ? ((const REAL *)x->data)[i] != 0 : ((const int64_t *)x->data)[i] != 0;
        } else {
            ((int64_t *)out)[i] =
                narrow(x->is_real ? to_integer(((const REAL *)x->data)[i]) : ((const int64_t *)x->data)[i], to);
        }
    }
}
