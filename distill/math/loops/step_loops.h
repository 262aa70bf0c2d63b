/* step_loops.h - the functions of step_math.h for one type of numbers, REAL, and one level of the processor, of which
 * step_SUFFIX.c says which; all give the same bits. Without a LEVEL these are the definitions. */
#include <float.h>

#include "distill/math/step_table.h"
#include "kernels/functions.h"

#define JOIN2(a, b) a##b
#define JOIN(a, b)  JOIN2(a, b)
#define NAME(stem)  JOIN(stem, SUFFIX)

#include "distill/math/loops/sum_loops.h"

#ifdef LEVEL
#define OF_LEVEL static
#else
#define OF_LEVEL
#include "distill/math/loops/array_loops.h"
#endif
#include "distill/math/loops/loss_loops.h"
#include "distill/math/loops/update_loops.h"

/* ---- for arrays whose type is known when the program runs ---- */

static struct vc_loss_sums NAME(loss)(const struct vc_loss_spec *spec, size_t n_rows, size_t n_classes,
                                      const void *logits, const struct vc_teacher_rows *teacher,
                                      const struct vc_label_rows *labels, const uint8_t *mask, double *row,
                                      void *gradient)
{
    return NAME(vc_loss)(spec, n_rows, n_classes, logits, teacher, labels, mask, row, gradient);
}

static double NAME(square_sum)(const void *x, size_t n)
{
    return NAME(vc_square_sum)(x, n);
}

static void NAME(update)(const struct vc_update *update, size_t n, void *w, void *g, void *m, void *v,
                         const uint8_t *keep)
{
    NAME(vc_update)(update, n, w, g, m, v, keep);
}

static void NAME(update_coded)(const struct vc_update *update, size_t n, void *w, void *g,
                               const struct vc_coded_states *states, const uint8_t *keep)
{
    NAME(vc_update_coded)(update, n, w, g, states, keep);
}

const struct vc_step_table *NAME(vc_step_table)(void)
{
    static const struct vc_step_table table = {NAME(loss), NAME(square_sum), NAME(update), NAME(update_coded)};

    return &table;
}
