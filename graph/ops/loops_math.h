/* loops_math.h - part of loops.h: one element at a time. */

/* y = a OP b with broadcasting, on floats and on integers. */
#define PAIRWISE(id, real, integer)                                                          \
    RUN(id)                                                                                  \
    {                                                                                        \
        struct vc_run_walk walk;                                                             \
        bool is_real = run->in[0]->is_real;                                                  \
        void *out = NULL;                                                                    \
                                                                                             \
        if (vc_run_walk_begin(run, &walk, run->in, 2)) {                                     \
            out = vc_run_out(run, 0, is_real, walk.shape, walk.n_dims);                      \
        }                                                                                    \
        for (size_t i = 0; out != NULL && i < run->out[0].n; i++, vc_run_walk_next(&walk)) { \
            if (is_real) {                                                                   \
                REAL a = ((const REAL *)run->in[0]->data)[walk.place[0]];                    \
                REAL b = ((const REAL *)run->in[1]->data)[walk.place[1]];                    \
                                                                                             \
                ((REAL *)out)[i] = real;                                                     \
            } else {                                                                         \
                int64_t a = ((const int64_t *)run->in[0]->data)[walk.place[0]];              \
                int64_t b = ((const int64_t *)run->in[1]->data)[walk.place[1]];              \
                                                                                             \
                ((int64_t *)out)[i] = integer;                                               \
            }                                                                                \
        }                                                                                    \
    }

/* Integers wrap as ONNX's runtimes let them; a division by 0 gives 0. */
PAIRWISE(add, a + b, (int64_t)((uint64_t)a + (uint64_t)b))
PAIRWISE(sub, a - b, (int64_t)((uint64_t)a - (uint64_t)b))
PAIRWISE(mul, a *b, (int64_t)((uint64_t)a *(uint64_t)b))
PAIRWISE(div, a / b, b == 0 ? 0 : b == -1 ? (int64_t)(0 - (uint64_t)a) : a / b)
#undef PAIRWISE

/* y = f(x) on floats. */
#define EACH(id, f)                                                                  \
    RUN(id)                                                                          \
    {                                                                                \
        const REAL *in = run->in[0]->data;                                           \
        REAL *out = vc_run_out(run, 0, true, run->in[0]->shape, run->in[0]->n_dims); \
                                                                                     \
        for (size_t i = 0; out != NULL && i < run->out[0].n; i++) {                  \
            REAL x = in[i];                                                          \
                                                                                     \
            out[i] = f;                                                              \
        }                                                                            \
    }

EACH(relu, x > 0 ? x : x == x ? 0 : x)
#undef EACH
