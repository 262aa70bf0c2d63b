/* rows_tokens.c - labels and masks of networks that answer for each position of a sequence. See rows.h. */

#include "distill/data/rows.h"
#include "distill/math/step_math.h"

#define ANY_WIDTH 0

/* The input of integers of that name, NULL: any, that has an element for each position; view->n if there is none. */
static size_t find_input(const struct vc_rows_view *view, const char *name, size_t positions)
{
    size_t k = 0;

    while (k < view->n && (!view->inputs[k].integers || view->inputs[k].tensor == VC_NO_TENSOR ||
                           (positions != ANY_WIDTH && view->inputs[k].n_elems != positions) ||
                           (name != NULL && strcmp(view->inputs[k].name, name) != 0))) {
        k++;
    }
    return k;
}

/* All elements of an input, a row after the other. */
static enum vc_status read_all(const struct vc_rows_view *view, size_t k, int64_t **out)
{
    const struct vc_rows *rows = view->rows;
    size_t width = view->inputs[k].n_elems;

    VC_CALL(VC_ARRAY(rows->ctx, VC_TAG_TILES, *out, (size_t)rows->n * width + 1));
    for (uint64_t i = 0; i < rows->n; i++) {
        VC_CALL(vc_rows_read(view, k, &i, 1, false, *out + i * width));
    }
    return VC_OK;
}

/* y or mask has an integer for each position. */
static enum vc_status expect_width(const struct vc_rows *rows, const char *what, size_t width, size_t positions)
{
    return width == positions
               ? VC_OK
               : vc_fail(rows->ctx, VC_E_ARGUMENT, "%s: %s has %zu integers for each row; the network answers for %zu",
                         rows->model->path, what, width, positions);
}

/* 1 for each element of an input that is not 0. */
static enum vc_status read_mask(const struct vc_rows_view *view, size_t k, uint8_t **out)
{
    const struct vc_rows *rows = view->rows;
    uint64_t n = rows->n * view->inputs[k].n_elems;
    VC_SCOPED int64_t *numbers = NULL;

    VC_CALL(read_all(view, k, &numbers));
    VC_CALL_ALLOC(*out = vc_alloc(rows->ctx, VC_TAG_TILES, (size_t)n + 1));
    for (uint64_t i = 0; i < n; i++) {
        (*out)[i] = numbers[i] != 0;
    }
    return VC_OK;
}

/* Without a mask of its own a sequence has that of its padding. */
static enum vc_status take_mask(struct vc_rows *rows, const struct vc_rows_view *view, size_t positions)
{
    size_t k = find_input(view, "attention_mask", positions);

    return positions == 1 || rows->mask != NULL || k == view->n ? VC_OK : read_mask(view, k, &rows->mask);
}

/* The mask of padding of a network with one answer for each row, for values inside it. */
enum vc_status vc_rows_read_tokens(const struct vc_rows_view *view, uint8_t **out, size_t *width)
{
    size_t k = find_input(view, "attention_mask", ANY_WIDTH);

    *out = NULL;
    *width = k != view->n ? view->inputs[k].n_elems : 0;
    return k != view->n ? read_mask(view, k, out) : VC_OK;
}

/* Each position's label is what stands at the next one, where that counts. */
static void shift(struct vc_rows *rows)
{
    size_t n = rows->positions;

    for (uint64_t i = 0; i < rows->n; i++) {
        int64_t *labels = rows->labels + i * n;
        const uint8_t *mask = rows->mask != NULL ? rows->mask + i * n : NULL;

        for (size_t p = 0; p + 1 < n; p++) {
            labels[p] = mask == NULL || mask[p + 1] != 0 ? labels[p + 1] : VC_NO_LABEL;
        }
        labels[n - 1] = VC_NO_LABEL;
    }
}

/* What labels and mask mean for a network that answers for `positions` of each row. With `next` each
 * position's label is the token that follows; without labels the tokens themselves are:
 *
 *     tokens    the  cat  sat  down  pad          mask      1  1  1  1  0
 *     labels    cat  sat  down  -     -           padding is no label, and the last position has none
 */
enum vc_status vc_rows_take_positions(struct vc_rows *rows, const struct vc_rows_view *view, size_t positions,
                                      bool next)
{
    rows->positions = positions;
    VC_REFUSE_IF(rows->options.ignored_label >= 0 && !rows->has_labels && !next && rows->n_outputs == 0, rows->ctx,
                 VC_E_ARGUMENT, "%s: there are no labels, of which %s could leave out %lld", rows->model->path,
                 vc_option(rows->ctx, "ignored_label"), (long long)rows->options.ignored_label);
    if (rows->labels != NULL) {
        VC_CALL(expect_width(rows, "y", rows->label_width, positions));
    }
    if (rows->mask != NULL) {
        VC_CALL(expect_width(rows, "mask", rows->mask_width, positions));
    }
    VC_CALL(take_mask(rows, view, positions));
    if (!next) {
        return VC_OK;
    }
    if (rows->labels == NULL) {
        size_t k = find_input(view, NULL, positions);

        if (k == view->n) {
            return VC_OK;
        }
        VC_CALL(read_all(view, k, &rows->labels));
        rows->tokens = true;
    }
    shift(rows);
    rows->max_label = -1;
    for (uint64_t i = 0; i < rows->n * positions; i++) {
        rows->labels[i] =
            rows->labels[i] < 0 || rows->labels[i] == rows->options.ignored_label ? VC_NO_LABEL : rows->labels[i];
        rows->max_label = rows->labels[i] > rows->max_label ? rows->labels[i] : rows->max_label;
    }
    return VC_OK;
}

enum vc_status vc_rows_text_bytes(const struct vc_rows *rows, uint64_t *bytes)
{
    size_t n = rows->positions;
    VC_SCOPED uint32_t *covered = NULL;

    *bytes = 0;
    if (!rows->tokens || rows->model->ops->text_bytes == NULL) {
        return VC_OK;
    }
    VC_CALL(VC_ARRAY(rows->ctx, VC_TAG_TILES, covered, n));
    for (uint64_t i = 0; i < rows->n; i++) {
        VC_CALL(rows->model->ops->text_bytes(rows->ctx, rows->model, vc_rows_in_file(rows, i) * n, n, covered));
        for (size_t p = 0; p + 1 < n; p++) { /* the label of a position is the token behind it */
            bool counts = rows->mask == NULL || rows->mask[i * n + p] != 0;

            *bytes += counts && rows->labels[i * n + p] != VC_NO_LABEL ? covered[p + 1] : 0;
        }
    }
    return VC_OK;
}
