/* batch.c - see batch.h. */
#include "distill/data/batch.h"

#include "distill/math/real.h"

/* Labels and mask are by position of each row. Rows without labels have none at every position. */
void vc_batch_gather(struct vc_batch *batch, const struct vc_rows *rows, bool f64, const uint64_t *numbers, size_t n)
{
    size_t width = rows->target_width;

    for (size_t i = 0; rows->targets != NULL && i < n; i++) {
        const double *from = rows->targets + numbers[i] * width;

        for (size_t c = 0; c < width; c++) {
            if (f64) {
                ((double *)batch->targets)[i * width + c] = from[c];
            } else {
                ((float *)batch->targets)[i * width + c] = (float)from[c];
            }
        }
    }
    for (size_t i = 0; i < n * rows->positions; i++) {
        uint64_t at = numbers[i / rows->positions] * rows->positions + i % rows->positions;

        batch->labels[i] = rows->labels != NULL ? rows->labels[at] : VC_NO_LABEL;
        batch->mask[i] = rows->mask == NULL || rows->mask[at] != 0;
    }
}

/* Looks for a reason after a loss that is not finite. Reads the rows again one by one; without memory it
 * finds none. */
size_t vc_batch_bad_row(struct vc_ctx *ctx, const struct vc_rows_view *view, const uint64_t *numbers, size_t n,
                        const char **array)
{
    for (size_t k = 0; k < view->n; k++) {
        const struct vc_rows_input *input = &view->inputs[k];
        void *x = input->integers ? NULL : vc_alloc_array(ctx, VC_TAG_TILES, input->n_elems + 1, sizeof(double));

        for (size_t i = 0; x != NULL && i < n; i++) {
            if (vc_rows_read(view, k, numbers + i, 1, true, x) == VC_OK &&
                vc_first_nonfinite(true, x, input->n_elems) != input->n_elems) {
                *array = view->rows->model->tensors[input->tensor].name;
                vc_free(ctx, x);
                return i;
            }
        }
        vc_free(ctx, x);
    }
    return n;
}
