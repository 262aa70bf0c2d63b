/* identity.c - see identity.h. */
#include "distill/identity.h"

#include <stdio.h>
#include <string.h>

#include "core/base/checked.h"

#define BLOCK 4096 /* doubles at a time */

enum vc_status vc_identity_check(struct vc_ctx *ctx)
{
    return vc_sha256_built_in()
               ? VC_OK
               : vc_fail(ctx, VC_E_UNSUPPORTED, "this build has no SHA-256: nettle was not there when it was made");
}

static void add_text(struct vc_sha256 *sha, const char *text)
{
    vc_sha256_add(sha, text, strlen(text) + 1);
}

static void add_number(struct vc_sha256 *sha, double x)
{
    vc_sha256_add(sha, &x, sizeof x);
}

/* ---- networks ---- */

static void add_weight(struct vc_sha256 *sha, const struct vc_weight *item, bool f64)
{
    double block[BLOCK];

    add_text(sha, item->name);
    add_number(sha, item->n_dims);
    for (unsigned d = 0; d < item->n_dims; d++) {
        add_number(sha, (double)item->shape[d]);
    }
    for (uint64_t first = 0, n; first < item->n; first += n) {
        n = vc_min_u64(BLOCK, item->n - first);
        for (size_t i = 0; i < n; i++) {
            block[i] = item->integers ? (double)((const int64_t *)item->data)[first + i]
                       : f64          ? ((const double *)item->data)[first + i]
                                      : (double)((const float *)item->data)[first + i];
        }
        vc_sha256_add(sha, block, (size_t)n * sizeof *block);
    }
}

enum vc_status vc_identity_net(const struct vc_net *net, char hex[VC_SHA256_HEX_BYTES])
{
    struct vc_sha256 sha;
    char *text = NULL;
    enum vc_status status;

    VC_TRY(vc_identity_check(net->ctx));
    VC_TRY(vc_graph_print_text(net->ctx, net->network.graph, &text));
    vc_sha256_begin(&sha);
    add_text(&sha, text);
    for (size_t k = 0; k < net->weights->n; k++) {
        add_weight(&sha, &net->weights->items[k], net->options.precision == VC_GRAPH_F64);
    }
    vc_sha256_end(&sha, hex);
out:
    vc_text_free(text);
    return status;
}

/* ---- rows ---- */

static void add_list(struct vc_sha256 *sha, const double *list, size_t n)
{
    add_number(sha, (double)n);
    for (size_t i = 0; i < n; i++) {
        add_number(sha, list[i]);
    }
}

/* How elements become the network's inputs. */
static void add_normalization(struct vc_sha256 *sha, const struct vc_rows *rows, const struct vc_rows_input *input)
{
    if (!input->integers) {
        add_number(sha, rows->options.scale);
        add_list(sha, rows->mean, rows->n_mean);
        add_list(sha, rows->deviation, rows->n_deviation);
    }
}

enum vc_status vc_identity_input(const struct vc_rows_view *view, size_t k, char hex[VC_SHA256_HEX_BYTES])
{
    const struct vc_rows_input *input = &view->inputs[k];
    const struct vc_rows *rows = view->rows;
    const struct vc_tensor *t;
    const struct vc_row_array *array;
    struct vc_sha256 sha;
    enum vc_status status;

    VC_TRY(vc_identity_check(rows->ctx));
    vc_sha256_begin(&sha);
    if (input->tensor == VC_NO_TENSOR) { /* left out: the same for all rows */
        add_number(&sha, (double)input->otherwise);
        vc_sha256_end(&sha, hex);
        return VC_OK;
    }
    t = &rows->model->tensors[input->tensor];
    array = &rows->arrays[input->tensor];
    add_text(&sha, vc_dtype_name(t->dtype));
    add_number(&sha, (double)rows->n);
    add_number(&sha, (double)input->n_elems);
    add_normalization(&sha, rows, input);
    for (uint64_t i = 0; i < rows->n; i++) {
        const void *row;

        VC_TRY(vc_row_array_read(rows->ctx, array, i, &row));
        vc_sha256_add(&sha, row, array->n_bytes);
    }
    vc_sha256_end(&sha, hex);
out:
    return status;
}
