/* loss_loops.h - losses of rows and their gradients, for one type of numbers. Part of step_loops.h. A loss
 * has a row in ../losses.inc and a file here.
 *
 * A row's loss is told about z, the student's numbers, and t, the teacher's or y's, and adds its gradient
 * to `gradient`, n doubles that begin as zeros. So the terms of a row are added up in doubles, and the
 * result is rounded once. Behind these n there is room for 2 n doubles, which a loss may write to. */

#include "distill/math/loops/loss_softmax.h"

#include "distill/math/loops/loss_bce.h"
#include "distill/math/loops/loss_ce.h"
#include "distill/math/loops/loss_cosine.h"
#include "distill/math/loops/loss_huber.h"
#include "distill/math/loops/loss_js.h"
#include "distill/math/loops/loss_kd.h"
#include "distill/math/loops/loss_mse.h"
#include "distill/math/loops/loss_reverse.h"

/* The loss of one row of n numbers z, compared with t; adds its gradient times `by`. */
typedef double NAME(row_fn)(const struct vc_loss_spec *spec, size_t n, const REAL *z, const REAL *t, double by,
                            double *gradient);

/* By enum vc_teacher_loss, with t a teacher's outputs and y of floats. AUTO has none. */
static const struct NAME(loss_row) {
    NAME(row_fn) * teacher, *y;
} NAME(loss_rows)[] = {
#define VC_LOSS(KIND, word, OF, of_y, measure) [VC_TEACHER_LOSS_##KIND] = {NAME(word##_row), NAME(of_y)},
#include "distill/math/losses.inc"
#undef VC_LOSS
};

/* All rows of a batch. kd_by and ce_by divide by the rows of the whole step, so that batches of a step can
 * be added up; the scale of fp16 is on the gradient alone. */
OF_LEVEL struct vc_loss_sums NAME(vc_loss)(const struct vc_loss_spec *spec, size_t n_rows, size_t n_classes,
                                           const REAL *logits, const struct vc_teacher_rows *teacher,
                                           const struct vc_label_rows *labels, const uint8_t *mask, double *row,
                                           REAL *gradient)
{
    struct vc_loss_sums sums = {0, 0};
    double kd_by = spec->kd_rows != 0 ? 1 / (double)spec->kd_rows : 0;
    double ce_by = spec->ce_rows != 0 ? 1 / (spec->ce_weight != 0 ? spec->ce_weight : (double)spec->ce_rows) : 0;
    double scale = spec->scale != 0 ? spec->scale : 1;

    for (size_t r = 0; r < n_rows; r++) {
        const REAL *z = logits + r * n_classes;
        bool counts = mask == NULL || mask[r] != 0;

        for (size_t c = 0; c < n_classes; c++) {
            row[c] = 0;
        }
        if (counts && teacher->logits != NULL) {
            const REAL *t = (const REAL *)teacher->logits + r * n_classes;
            double by = spec->alpha * kd_by;

            sums.kd +=
                kd_by * (teacher->classes == NULL ? NAME(loss_rows)[spec->kind].teacher(spec, n_classes, z, t, by, row)
                                                  : NAME(top_row)(spec, n_classes, z, teacher, r, by, row));
        }
        if (counts && labels != NULL && labels->classes != NULL && labels->classes[r] != VC_NO_LABEL) {
            sums.ce += ce_by * NAME(ce_row)(spec, n_classes, z, labels->classes[r], (1 - spec->alpha) * ce_by, row);
        }
        if (counts && labels != NULL && labels->targets != NULL) {
            const REAL *y = (const REAL *)labels->targets + r * n_classes;

            sums.ce += ce_by * NAME(loss_rows)[spec->y_kind].y(spec, n_classes, z, y, (1 - spec->alpha) * ce_by, row);
        }
        for (size_t c = 0; gradient != NULL && c < n_classes; c++) {
            gradient[r * n_classes + c] = (REAL)(row[c] * scale);
        }
    }
    return sums;
}
