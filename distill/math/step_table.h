/* step_table.h - what a step spends its time in beside the network, for one type of numbers and one level of the
 * processor: the functions of step_math.h, whose bits do not depend on the level. */
#pragma once

#include "distill/math/step_math.h"

struct vc_ctx;

struct vc_step_table {
    struct vc_loss_sums (*loss)(const struct vc_loss_spec *spec, size_t n_rows, size_t n_classes, const void *logits,
                                const struct vc_teacher_rows *teacher, const struct vc_label_rows *labels,
                                const uint8_t *mask, double *row, void *gradient);
    double (*square_sum)(const void *x, size_t n);
    void (*update)(const struct vc_update *update, size_t n, void *w, void *g, void *m, void *v, const uint8_t *keep);
    void (*update_coded)(const struct vc_update *update, size_t n, void *w, void *g,
                         const struct vc_coded_states *states, const uint8_t *keep);
};

/* The one for the context's processor. */
const struct vc_step_table *vc_step_table(const struct vc_ctx *ctx, bool f64);

const struct vc_step_table *vc_step_table_f32(void);
const struct vc_step_table *vc_step_table_f64(void);
/* They return NULL if the build, or the processor's architecture, has no such level. */
const struct vc_step_table *vc_step_table_f32_avx2(void);
const struct vc_step_table *vc_step_table_f32_avx512(void);
