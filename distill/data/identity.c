/* identity.c - see identity.h.
 *
 * A digest is of text and numbers one after the other. Texts end with their 0, and lists begin with their
 * length, so that two different lists of things never give the same bytes. Numbers are doubles in the order
 * of bytes of this machine. */
#include "distill/data/identity.h"

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

/* Name, shape and values, as doubles: the same for f32 weights that are loaded as f64. */
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

/* The graph's text comes first: the same weights in another graph are another network. */
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

/* A list with its length. */
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
        add_number(sha, rows->normalize.scale);
        add_list(sha, rows->normalize.mean, rows->normalize.n_mean);
        add_list(sha, rows->normalize.deviation, rows->normalize.n_deviation);
    }
}

/* Rows in the order in which they lie in the file. An input that is left out has one value for all rows. */
enum vc_status vc_identity_input(const struct vc_rows_view *view, size_t k, char hex[VC_SHA256_HEX_BYTES])
{
    const struct vc_rows_input *input = &view->inputs[k];
    const struct vc_rows *rows = view->rows;
    struct vc_sha256 sha;

    VC_CALL(vc_identity_check(rows->ctx));
    vc_sha256_begin(&sha);
    if (input->tensor == VC_NO_TENSOR) { /* left out: the same for all rows */
        add_number(&sha, (double)input->otherwise);
        vc_sha256_end(&sha, hex);
        return VC_OK;
    }
    const struct vc_tensor *t = &rows->model->tensors[input->tensor];
    const struct vc_row_array *array = &rows->arrays[input->tensor];
    add_text(&sha, vc_dtype_name(t->dtype));
    add_number(&sha, (double)rows->n);
    add_number(&sha, (double)input->n_elems);
    add_normalization(&sha, rows, input);
    for (uint64_t i = 0; i < rows->n; i++) {
        const void *row;

        VC_CALL(vc_row_array_read(rows->ctx, array, i, &row));
        vc_sha256_add(&sha, row, array->n_bytes);
    }
    vc_sha256_end(&sha, hex);
    return VC_OK;
}

/* ---- files of ours ---- */

#define PIECE 16384 /* bytes at a time; a multiple of every element's */

/* A tensor that can only be read front to back, as one that is compressed. */
static enum vc_status add_stream(struct vc_ctx *ctx, const struct vc_model *model, size_t tensor, struct vc_sha256 *sha)
{
    unsigned char piece[PIECE];
    struct vc_source_stream *stream = NULL;
    uint64_t left = model->tensors[tensor].size_bytes;
    enum vc_status status;

    VC_TRY(model->ops->stream_open(ctx, model, tensor, VC_FORM_VALUES, &stream));
    while (left > 0) {
        size_t n = (size_t)vc_min_u64(PIECE, left);

        VC_TRY(model->ops->stream_read(ctx, stream, piece, n));
        vc_sha256_add(sha, piece, n);
        left -= n;
    }
out:
    if (stream != NULL) {
        enum vc_status closed = model->ops->stream_close(ctx, stream, status == VC_OK);

        status = status == VC_OK ? closed : status;
    }
    return status;
}

/* Name, type, shape and elements, a piece at a time. */
static enum vc_status add_tensor(struct vc_ctx *ctx, const struct vc_model *model, size_t tensor, struct vc_sha256 *sha)
{
    const struct vc_tensor *t = &model->tensors[tensor];
    uint64_t at_once = PIECE / vc_max_u64(vc_dtype_size(t->dtype), 1);
    unsigned char piece[PIECE];

    add_text(sha, t->name);
    add_text(sha, vc_dtype_name(t->dtype));
    add_number(sha, t->n_dims);
    for (unsigned d = 0; d < t->n_dims; d++) {
        add_number(sha, (double)t->shape[d]);
    }
    if (model->io[tensor].sequential) {
        return add_stream(ctx, model, tensor, sha);
    }
    for (uint64_t first = 0, n; first < t->n_elems; first += n) {
        n = vc_min_u64(at_once, t->n_elems - first);
        VC_CALL(vc_model_read(ctx, model, tensor, first, n, piece, sizeof piece));
        vc_sha256_add(sha, piece, (size_t)vc_dtype_bytes(t->dtype, n));
    }
    return VC_OK;
}

/* In the order of names, which formats may not keep. The digest itself is left out. */
enum vc_status vc_identity_content(struct vc_ctx *ctx, const struct vc_model *model, char hex[VC_SHA256_HEX_BYTES])
{
    struct vc_sha256 sha;
    VC_SCOPED size_t *order = NULL;

    VC_CALL(vc_identity_check(ctx));
    VC_CALL(vc_model_sort_names(ctx, model, &order));
    vc_sha256_begin(&sha);
    for (size_t i = 0; i < model->n_tensors; i++) {
        const struct vc_tensor *t = &model->tensors[order[i]];

        if (strcmp(t->name, VC_DIGEST_NAME) == 0) {
            continue;
        }
        VC_REFUSE_IF(t->quant != NULL || vc_dtype_size(t->dtype) == 0, ctx, VC_E_FORMAT,
                     "%s: %s: no array of that kind belongs there", model->path, t->name);
        VC_CALL(add_tensor(ctx, model, order[i], &sha));
    }
    vc_sha256_end(&sha, hex);
    return VC_OK;
}

/* A file without a digest is refused as one that is damaged. */
enum vc_status vc_identity_content_check(struct vc_ctx *ctx, const struct vc_model *model)
{
    size_t at = vc_model_find(model, VC_DIGEST_NAME);
    const struct vc_tensor *t = at != VC_NO_TENSOR ? &model->tensors[at] : NULL;
    char ours[VC_SHA256_HEX_BYTES];
    char theirs[VC_SHA256_HEX_BYTES] = "";

    VC_REFUSE_IF(t == NULL || t->quant != NULL || t->dtype != VC_DTYPE_U8 || t->n_elems != VC_SHA256_HEX_BYTES - 1, ctx,
                 VC_E_FORMAT,
                 "%s: there is no " VC_DIGEST_NAME " of what is in it, u8 [64]: it is damaged, or an older version "
                 "wrote it",
                 model->path);
    VC_CALL(vc_model_read(ctx, model, at, 0, VC_SHA256_HEX_BYTES - 1, theirs, sizeof theirs));
    VC_CALL(vc_identity_content(ctx, model, ours));
    VC_REFUSE_IF(memcmp(ours, theirs, sizeof ours - 1) != 0, ctx, VC_E_FORMAT,
                 "%s: what is in it is not what was written, by its SHA-256: it is damaged", model->path);
    return VC_OK;
}
