/* verify_pattern.c - whether weights have a pattern. N:M: at most N of every M values along the input channels are not
 * zero. Blocks, as prune cuts the matrix of a tensor: each is zero, or has no zero. Looks at the tensors that prune
 * would choose by itself, and by the rules, decoded, each front to back.
 *
 *     2:4, [out, in]        0.1 0 0 0.3 | 0 0.2 0 0 | ...            fine
 *                           0.1 0 0.2 0.3 | ...                      3 of 4: a finding
 *     block:1x4             0.1 0.2 0.4 0.3 | 0 0 0 0 | ...          fine */

#include "measure/verify/verify_parts.h"
#include "passes/select.h"
#include "passes/values.h"

#define MAX_GROUP 256u /* as prune has them */
#define MAX_BLOCK 65536u

/* What a worker saw of one tensor. */
struct seen {
    char *error; /* the pool's; why it cannot be read */
    bool checked;
    uint64_t n_groups, n_bad;
    uint64_t first_bad; /* flat index of the last element of the first group that has too many */
    unsigned most;      /* values of a group that are not zero */
};

struct pattern_job {
    struct verify *v;
    unsigned keep, group;
    unsigned rows, cols; /* of a block; 0: N:M */
    struct seen *seen;
};

/* Where the groups of a tensor lie, and how many values of those that are open are not zero. */
struct groups {
    uint64_t len, inner; /* elements along the input axis; elements behind each other apart. Of blocks: rows and columns
                            of the matrix */
    uint32_t *count;     /* `inner` of them, or one for each block beside the others */
};

/* "2:4", "block:4x4" */
static enum vc_status parse_pattern(struct vc_ctx *ctx, const char *text, struct pattern_job *job)
{
    int end = 0;

    if (sscanf(text, "%4u:%4u%n", &job->keep, &job->group, &end) == 2 && text[end] == '\0' && job->group >= 2 &&
        job->group <= MAX_GROUP && job->keep >= 1 && job->keep < job->group) {
        return VC_OK;
    }
    if (sscanf(text, "block:%5ux%5u%n", &job->rows, &job->cols, &end) == 2 && text[end] == '\0' && job->rows >= 1 &&
        job->cols >= 1 && job->rows <= MAX_BLOCK && job->cols <= MAX_BLOCK) {
        return VC_OK;
    }
    return vc_fail(ctx, VC_E_ARGUMENT,
                   "%s: '%s' is no pattern: N:M with N from 1 to M - 1, M up to %u, or block:RxC with 1 to %u rows and "
                   "columns",
                   vc_option(ctx, "pattern"), text, MAX_GROUP, MAX_BLOCK);
}

static bool is_zero(const void *data, bool is_f64, uint64_t i)
{
    return is_f64 ? ((const double *)data)[i] == 0.0 : ((const float *)data)[i] == 0.0F;
}

/* N:M. Element i of the flat tensor lies at `along` on the input axis; elements `inner` apart follow each
 * other on it. A group ends after M of them or at the end of the axis; groups are open across tiles, so
 * their counts stay in g->count. */
static void count_tile(const struct pattern_job *job, const struct groups *g, const struct vc_tile *tile,
                       const void *data, bool is_f64, struct seen *seen)
{
    for (uint64_t i = 0; i < tile->n_elems; i++) {
        uint64_t at = tile->first + i;
        uint64_t along = at / g->inner % g->len;
        uint32_t *count = &g->count[at % g->inner];

        *count = (along % job->group == 0 ? 0 : *count) + !is_zero(data, is_f64, i);
        if (along % job->group != job->group - 1 && along != g->len - 1) {
            continue;
        }
        seen->n_groups++;
        if (*count > job->keep) {
            seen->first_bad = seen->n_bad++ == 0 ? at : seen->first_bad;
        }
        seen->most = *count > seen->most ? *count : seen->most;
    }
}

/* A row of blocks is complete: those that have zeros and other values are counted. */
static void end_blocks(const struct pattern_job *job, const struct groups *g, uint64_t row, struct seen *seen)
{
    uint64_t n_rows = row % job->rows + 1;

    for (uint64_t col = 0; col < g->inner; col += job->cols) {
        uint64_t n_cols = vc_min_u64(job->cols, g->inner - col);
        uint32_t *count = &g->count[col / job->cols];

        seen->n_groups++;
        if (*count != 0 && *count != n_rows * n_cols) {
            seen->first_bad = seen->n_bad++ == 0 ? row * g->inner + col + n_cols - 1 : seen->first_bad;
        }
        *count = 0;
    }
}

/* Blocks. Counts are by column of blocks; a row of blocks ends with its last row, or with the last one of
 * the matrix. */
static void count_blocks(const struct pattern_job *job, const struct groups *g, const struct vc_tile *tile,
                         const void *data, bool is_f64, struct seen *seen)
{
    for (uint64_t i = 0; i < tile->n_elems; i++) {
        uint64_t row = (tile->first + i) / g->inner;
        uint64_t col = (tile->first + i) % g->inner;

        g->count[col / job->cols] += !is_zero(data, is_f64, i);
        if (col == g->inner - 1 && (row % job->rows == job->rows - 1 || row == g->len - 1)) {
            end_blocks(job, g, row, seen);
        }
    }
}

/* Reads one tensor, front to back, as tiles of any length. */
static enum vc_status walk(struct vc_ctx *ctx, const struct pattern_job *job, const struct vc_tensor *t,
                           struct vc_values *values, struct vc_buffers *buffers, struct seen *seen)
{
    unsigned axis = vc_input_axis(t);
    bool is_f64 = values->item.desc->dtype == VC_DTYPE_F64;
    struct groups g = {.len = t->shape[axis], .inner = 1};
    struct vc_tile_reader reader = {0};
    struct vc_tile_result result;
    struct vc_tile tile;
    enum vc_status status = VC_OK;

    for (unsigned d = axis + 1; d < t->n_dims; d++) {
        g.inner *= t->shape[d];
    }
    if (job->rows != 0) {
        vc_rows_of(t->shape, t->n_dims, &g.len, &g.inner);
    }
    VC_TRY(vc_tile_reader_open(ctx, &values->item, buffers, &reader));
    VC_TRY(VC_ZEROS(ctx, VC_TAG_SCRATCH, g.count, job->rows != 0 ? vc_ceil_div_u64(g.inner, job->cols) : g.inner));
    while (vc_tile_reader_more(ctx, &reader, &tile, &result, &status)) {
        if (job->rows != 0) {
            count_blocks(job, &g, &tile, result.data, is_f64, seen);
        } else {
            count_tile(job, &g, &tile, result.data, is_f64, seen);
        }
    }
    VC_TRY(status);
    seen->checked = true;
out:
    vc_tile_reader_close(ctx, &reader);
    vc_free(ctx, g.count);
    return status;
}

/* The tensors that prune would choose: weights with two axes or more and numbers, by the rules, or by its
 * own. */
static bool is_chosen(const struct pattern_job *job, size_t index)
{
    const struct vc_model *model = job->v->model;
    const struct vc_tensor *t = &model->tensors[index];
    const struct vc_verify_options *o = &job->v->options;
    const char *glob = NULL;
    enum vc_choice choice = vc_rules_choose(o->rules, o->n_rules, t->name, &glob);

    return t->role == VC_ROLE_WEIGHT && t->part_of == VC_NO_TENSOR && t->alias_of == VC_NO_TENSOR && t->n_dims >= 2 &&
           t->n_elems != 0 && vc_values_numeric(t) && choice != VC_CHOICE_EXCLUDE &&
           (job->rows != 0 || vc_input_axis(t) != VC_NO_INPUTS) &&
           (choice == VC_CHOICE_INCLUDE || vc_prune_skip(model, index) == NULL);
}

/* A vc_exec_each function. */
static enum vc_status one_tensor(struct vc_ctx *ctx, void *user, size_t index, struct vc_buffers *buffers)
{
    const struct pattern_job *job = user;
    const struct vc_tensor *t = &job->v->model->tensors[index];
    struct vc_values values = {0};
    enum vc_status status;

    if (!is_chosen(job, index)) {
        return VC_OK;
    }
    VC_TRY(vc_values_init(ctx, job->v->model, index, &values));
    if (values.item.desc->dtype == VC_DTYPE_F32 || values.item.desc->dtype == VC_DTYPE_F64) {
        VC_TRY(walk(ctx, job, t, &values, buffers, &job->seen[index]));
    }
out:
    vc_values_release(ctx, &values);
    return vc_verify_take(ctx, status, &job->seen[index].error);
}

/* The finding of one tensor: how many groups or blocks do not have the pattern, and where the first one
 * ends. */
static enum vc_status report_tensor(struct vc_ctx *ctx, const struct pattern_job *job, size_t index)
{
    const struct seen *seen = &job->seen[index];
    const char *name = job->v->model->tensors[index].name;

    if (seen->error != NULL) {
        return vc_find(ctx, VC_SEVERITY_ERROR, "pattern", name, "cannot be read: %s", seen->error);
    }
    job->v->result.n_pattern += seen->checked;
    if (seen->n_bad != 0 && job->rows != 0) {
        return vc_find(ctx, VC_SEVERITY_ERROR, "pattern", name,
                       "is not block:%ux%u: %llu of %llu blocks have zeros and other values; the first ends at element "
                       "%llu",
                       job->rows, job->cols, (unsigned long long)seen->n_bad, (unsigned long long)seen->n_groups,
                       (unsigned long long)seen->first_bad);
    }
    return seen->n_bad == 0
               ? VC_OK
               : vc_find(ctx, VC_SEVERITY_ERROR, "pattern", name,
                         "is not %u:%u: %llu of %llu groups of input channels have more than %u values that are not "
                         "zero, up to %u; the first ends at element %llu",
                         job->keep, job->group, (unsigned long long)seen->n_bad, (unsigned long long)seen->n_groups,
                         job->keep, seen->most, (unsigned long long)seen->first_bad);
}

/* A file in which no tensor was looked at does not have the pattern: that it has would be said of nothing. */
enum vc_status vc_verify_pattern(struct vc_ctx *ctx, struct verify *v)
{
    struct pattern_job job = {.v = v};
    size_t n = v->model->n_tensors;
    enum vc_status status = VC_OK;

    VC_TRY(parse_pattern(ctx, v->options.pattern, &job));
    VC_TRY(VC_ZEROS(ctx, VC_TAG_REPORT, job.seen, n));
    VC_TRY(vc_values_each(ctx, v->model, one_tensor, &job));
    for (size_t i = 0; i < n; i++) {
        VC_TRY(report_tensor(ctx, &job, i));
    }
    if (v->result.n_pattern == 0) {
        VC_TRY(vc_find(ctx, VC_SEVERITY_ERROR, "pattern", NULL,
                       "no tensor is one that prune would choose, so nothing has the pattern %s", v->options.pattern));
    }
out:
    for (size_t i = 0; job.seen != NULL && i < n; i++) {
        vc_free(ctx, job.seen[i].error);
    }
    vc_free(ctx, job.seen);
    return status;
}
