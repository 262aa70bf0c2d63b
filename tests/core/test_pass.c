/* test_pass.c - a pass made for the purpose that needs all of the interface of core/chain/pass.h, in this file alone:
 *
 *   look 0   the largest magnitude over all weights; the threshold is an eighth of it
 *   look 1   how many values of each row of up.weight reach the threshold
 *   then     a third of these rows goes, those with the fewest, with the same entries of up.bias and the same columns
 * of down.weight; the configuration's intermediate size follows. gate.weight keeps its shape: values below the
 *            threshold become 0, and a mask of the others lies beside it
 *
 * Judge: plain loops over the whole arrays in this file. */
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "core/job/job_passes.h"
#include "core/model/memory_model.h"
#include "job_apply.h"
#include "kernels/kernels.h"
#include "support.h"
#include "tasks.h"
#include "zip_builder.h"

/* ---- the pass ---- */

struct slim {
    struct vc_pass pass;
    pthread_mutex_t mutex;
    float largest, threshold;
    uint64_t n_rows, n_left; /* of up.weight */
    uint64_t *scores;        /* per row */
    uint64_t *left;          /* rows that stay, rising */
    size_t n_rounds;
    bool only_masks; /* another pass: looks at nothing, and masks up.weight */
};

enum kind { ROWS, COLUMNS, MASK };

struct slim_state {
    struct slim *slim;
    enum kind kind;
};

static float read_float(const void *p, size_t i)
{
    float f;

    memcpy(&f, (const char *)p + 4 * i, sizeof f);
    return f;
}

static enum vc_status slim_calibrate(struct vc_ctx *ctx, struct vc_step *step, const struct vc_item *item,
                                     const struct vc_tile *tile, const struct vc_tile_in *in, void *scratch)
{
    struct slim *s = ((struct slim_state *)step->state)->slim;
    uint64_t row_len = step->in.n_elems / (step->in.n_dims == 0 ? 1 : step->in.shape[0]);
    float largest = 0.0f;
    size_t i;

    (void)ctx;
    (void)item;
    (void)scratch;
    (void)pthread_mutex_lock(&s->mutex);
    for (i = 0; i < tile->n_elems; i++) {
        float x = fabsf(read_float(in->data, i));

        largest = x > largest ? x : largest;
        if (s->n_rounds == 1 && x >= s->threshold) {
            s->scores[(tile->first + i) / row_len]++;
        }
    }
    s->largest = largest > s->largest ? largest : s->largest;
    (void)pthread_mutex_unlock(&s->mutex);
    return VC_OK;
}

/* The element of the input that element `flat` of the output is. */
static uint64_t origin(const struct slim_state *state, const struct vc_step *step, uint64_t flat)
{
    uint64_t cols = step->out.n_dims < 2 ? 1 : step->out.shape[1];
    uint64_t row = flat / cols;
    uint64_t col = flat % cols;

    return state->kind == ROWS ? state->slim->left[row] * cols + col : row * step->in.shape[1] + state->slim->left[col];
}

static enum vc_status apply_removal(struct vc_ctx *ctx, struct vc_step *step, const struct vc_tile *tile,
                                    const struct vc_tile_in *in, char *y)
{
    const struct slim_state *state = step->state;
    enum vc_status status = VC_OK;
    size_t i;

    for (i = 0; i < tile->n_elems;) {
        uint64_t from = origin(state, step, tile->first + i);
        size_t n = 1;

        while (i + n < tile->n_elems && origin(state, step, tile->first + i + n) == from + n) {
            n++;
        }
        VC_TRY(vc_step_read(ctx, in->input, from, n, y + 4 * i));
        i += n;
    }
out:
    return status;
}

static enum vc_status apply_mask(struct vc_ctx *ctx, struct vc_step *step, const struct vc_tile *tile,
                                 const struct vc_tile_in *in, char *scratch, struct vc_tile_out *out)
{
    const struct slim *s = ((struct slim_state *)step->state)->slim;
    unsigned char *mask = (unsigned char *)scratch;
    struct vc_diff_sums sums = {.chunk_sums = (double *)(void *)(scratch + VC_TILE_ELEMS)};
    float *y = out->data;
    enum vc_status status = VC_OK;
    size_t i;

    for (i = 0; i < tile->n_elems; i++) {
        float x = read_float(in->data, i);

        mask[i] = fabsf(x) >= s->threshold;
        y[i] = mask[i] != 0 ? x : 0.0f;
        out->stats->zeros_before += x == 0.0f;
        out->stats->zeros_after += y[i] == 0.0f;
    }
    VC_KERNEL_TRY(vc_kernels_get(ctx)->diff_f32(in->data, y, tile->n_rows, tile->row_len, &sums));
    for (i = 0; i < vc_tile_chunks(tile); i++) {
        out->stats->chunk_sums[2 * i] = sums.chunk_sums[4 * i];
        out->stats->chunk_sums[2 * i + 1] = sums.chunk_sums[4 * i + 1];
    }
    out->stats->max_abs_error = sums.max_abs_error;
    out->parts[0] = (struct vc_part_view){.data = mask, .first = tile->first, .n = tile->n_elems, .write = true};
out:
    return status;
}

static enum vc_status slim_apply(struct vc_ctx *ctx, struct vc_step *step, const struct vc_item *item,
                                 const struct vc_tile *tile, const struct vc_tile_in *in, void *scratch,
                                 struct vc_tile_out *out)
{
    (void)item;
    return step->regroups ? apply_removal(ctx, step, tile, in, out->data)
                          : apply_mask(ctx, step, tile, in, scratch, out);
}

static void slim_forget(struct vc_ctx *ctx, struct vc_step *step)
{
    vc_free(ctx, step->state);
}

static const struct vc_step_ops slim_step = {.calibrate = slim_calibrate, .apply = slim_apply, .forget = slim_forget};

static enum vc_status slim_begin(struct vc_ctx *ctx, struct vc_pass *pass, const struct vc_plan *plan)
{
    struct slim *s = pass->self;
    size_t up = vc_model_find(plan->model, "mlp.up.weight");

    if (up == VC_NO_TENSOR) {
        return vc_fail(ctx, VC_E_UNSUPPORTED, "has no mlp.up.weight");
    }
    vc_free(ctx, s->scores);
    vc_free(ctx, s->left);
    s->largest = 0.0f;
    s->n_rounds = 0;
    s->n_rows = plan->items[up].desc->shape[0];
    s->scores = vc_calloc_array(ctx, VC_TAG_MISC, (size_t)s->n_rows, sizeof *s->scores);
    s->left = vc_calloc_array(ctx, VC_TAG_MISC, (size_t)s->n_rows, sizeof *s->left);
    return s->scores != NULL && s->left != NULL ? VC_OK : VC_E_NOMEM;
}

static enum vc_status slim_plan(struct vc_ctx *ctx, struct vc_pass *pass, struct vc_item *item)
{
    const char *name = item->set->model->tensors[item->source].name;
    struct slim_state *state;
    struct vc_step *step;
    enum kind kind = strcmp(name, "mlp.down.weight") == 0 ? COLUMNS : strcmp(name, "mlp.mix.weight") == 0 ? MASK : ROWS;
    bool only_masks = ((struct slim *)pass->self)->only_masks;

    kind = only_masks ? MASK : kind;
    if (strncmp(name, "mlp.", 4) != 0 || (only_masks && strcmp(name, "mlp.up.weight") != 0)) {
        return vc_item_keep(ctx, item, "not a part of the layer");
    }
    if (item->desc->quant != NULL || item->desc->dtype != VC_DTYPE_F32) {
        return vc_fail(ctx, VC_E_UNSUPPORTED, "is no f32 any more; shapes change first");
    }
    state = vc_calloc_array(ctx, VC_TAG_MISC, 1, sizeof *state);
    if (state == NULL) {
        return VC_E_NOMEM;
    }
    *state = (struct slim_state){pass->self, kind};
    step = vc_item_add_step(ctx, item, &slim_step);
    if (step == NULL) {
        vc_free(ctx, state);
        return VC_E_NOMEM;
    }
    step->state = state;
    step->action = VC_ACTION_CAST;
    step->scheme = kind == MASK ? "masked" : "slim";
    step->calibrate = !only_masks;
    step->regroups = kind != MASK;
    step->lossy = kind == MASK;
    step->scratch_bytes = kind == MASK ? VC_TILE_ELEMS + 4 * sizeof(double) * VC_TILE_ELEMS : 0;
    if (kind == MASK &&
        vc_step_add_part(ctx, item, step, VC_PART_MASK, VC_DTYPE_U8, item->desc->n_dims, item->desc->shape) != VC_OK) {
        return ctx->status;
    }
    vc_item_replan(item);
    return VC_OK;
}

/* Scores are small numbers here: the highest one that goes is found by counting. */
#define MAX_SCORE 1000

/* A third of the rows goes, those with the lowest scores; of equal ones the last. */
static void choose_rows(struct slim *s)
{
    uint64_t counts[MAX_SCORE + 1] = {0};
    uint64_t go = s->n_rows / 3;
    uint64_t equal_stay;
    uint64_t below = 0;
    size_t last = 0;
    uint64_t i;

    for (i = 0; i < s->n_rows; i++) {
        counts[s->scores[i]]++;
    }
    while (below + counts[last] <= go && last < MAX_SCORE) {
        below += counts[last++];
    }
    equal_stay = counts[last] - (go - below); /* of those with the score `last` so many stay */
    s->n_left = 0;
    for (i = 0; i < s->n_rows; i++) {
        if (s->scores[i] > last || (s->scores[i] == last && equal_stay > 0)) {
            equal_stay -= s->scores[i] == last;
            s->left[s->n_left++] = i;
        }
    }
}

static enum vc_status change_shape(struct vc_ctx *ctx, struct vc_item *item, struct vc_step *step)
{
    const struct slim_state *state = step->state;
    uint64_t *shape = vc_arena_alloc(ctx, item->set->arena, step->in.n_dims * sizeof *shape);
    unsigned axis = state->kind == ROWS ? 0 : 1;

    if (shape == NULL) {
        return VC_E_NOMEM;
    }
    memcpy(shape, step->in.shape, step->in.n_dims * sizeof *shape);
    shape[axis] = state->slim->n_left;
    step->out.shape = shape;
    step->out.n_elems = step->in.n_elems / step->in.shape[axis] * state->slim->n_left;
    vc_item_replan(item);
    return VC_OK;
}

static enum vc_status slim_decide(struct vc_ctx *ctx, struct vc_pass *pass, struct vc_plan *plan, size_t round)
{
    struct slim *s = pass->self;
    struct vc_edit edit;
    enum vc_status status = VC_OK;
    size_t i;

    if (round == 0) {
        s->threshold = s->largest / 8;
        s->n_rounds = 1;
        for (i = 0; i < plan->n_items; i++) {
            struct vc_item *item = &plan->items[i];

            if (item->chain->n_steps != item->chain->pass_first) {
                item->chain->steps[item->chain->pass_first]->calibrate =
                    strcmp(plan->model->tensors[i].name, "mlp.up.weight") == 0;
            }
        }
        return VC_OK;
    }
    choose_rows(s);
    for (i = 0; i < plan->n_items; i++) {
        struct vc_item *item = &plan->items[i];

        if (item->chain->n_steps != item->chain->pass_first) {
            item->chain->steps[item->chain->pass_first]->calibrate = false;
            VC_TRY(item->chain->steps[item->chain->pass_first]->regroups
                       ? change_shape(ctx, item, item->chain->steps[item->chain->pass_first])
                       : VC_OK);
        }
    }
    edit = (struct vc_edit){.key = VC_EDIT_INTERMEDIATE, .before = s->n_rows, .after = s->n_left};
    VC_TRY(vc_plan_edit(ctx, plan, &edit));
out:
    return status;
}

static void slim_free(struct vc_ctx *ctx, struct vc_pass *pass)
{
    struct slim *s = pass->self;

    (void)pthread_mutex_destroy(&s->mutex);
    vc_free(ctx, s->scores);
    vc_free(ctx, s->left);
    vc_free(ctx, s);
}

static const struct vc_pass_ops slim_ops = {
    .name = "slim", .plan_begin = slim_begin, .plan = slim_plan, .decide = slim_decide, .free = slim_free};

static enum vc_status add_slim(struct vc_ctx *ctx, struct vc_job *job, bool only_masks)
{
    struct slim *s = vc_calloc_array(ctx, VC_TAG_MISC, 1, sizeof *s);

    if (s == NULL) {
        return VC_E_NOMEM;
    }
    (void)pthread_mutex_init(&s->mutex, NULL);
    s->pass.ops = &slim_ops;
    s->pass.self = s;
    s->pass.command = "slim";
    s->only_masks = only_masks;
    return vc_job_add_pass(ctx, job, &s->pass);
}

/* ---- the models ---- */

/* Rows of up.weight and its columns; rows of down.weight; both ways that a tensor is cut into tiles. */
static const struct shape {
    unsigned ffn, in, out;
} shapes[] = {{600, 700, 500}, {300000, 2, 3}, {3, 5, 4}};

static float value(size_t tensor, size_t i)
{
    uint32_t x = (uint32_t)(i + 77777 * tensor) * 2654435761u;

    x ^= x >> 15;
    x *= 2246822519u;
    x ^= x >> 13;
    return ((float)(x & 0xffff) - 32768.0f) * (1.0f / 32768.0f);
}

#define N_TENSORS 5
static const char *const names[N_TENSORS] = {"mlp.up.weight", "mlp.up.bias", "norm.weight", "mlp.down.weight",
                                             "mlp.mix.weight"};

static void shape_of(const struct shape *s, size_t tensor, uint64_t shape[2], unsigned *n_dims)
{
    const uint64_t all[N_TENSORS][2] = {{s->ffn, s->in}, {s->ffn, 0}, {s->in, 0}, {s->out, s->ffn}, {s->out, s->in}};

    shape[0] = all[tensor][0];
    shape[1] = all[tensor][1];
    *n_dims = shape[1] == 0 ? 1 : 2;
}

static size_t n_of(const struct shape *s, size_t tensor)
{
    uint64_t shape[2];
    unsigned n_dims;

    shape_of(s, tensor, shape, &n_dims);
    return (size_t)(n_dims == 1 ? shape[0] : shape[0] * shape[1]);
}

static float *values_of(const struct shape *s, size_t tensor)
{
    size_t n = n_of(s, tensor);
    float *x = malloc((n + 1) * sizeof *x);
    size_t i;

    assert_non_null(x);
    for (i = 0; i < n; i++) {
        x[i] = value(tensor, i);
    }
    return x;
}

static void save_npz(const struct shape *s, const char *name, bool deflate)
{
    const struct member_options options = {.deflate = deflate, .level = -1};
    struct zip_builder z = {0};
    size_t t;

    for (t = 0; t < N_TENSORS; t++) {
        float *x = values_of(s, t);
        char member[64];
        char text[64];
        uint64_t shape[2];
        unsigned n_dims;

        shape_of(s, t, shape, &n_dims);
        (void)snprintf(member, sizeof member, "%s.npy", names[t]);
        (void)snprintf(text, sizeof text, n_dims == 1 ? "(%u,)" : "(%u, %u)", (unsigned)shape[0], (unsigned)shape[1]);
        zip_add_bytes(&z, member, npy_array("<f4", false, text, x, n_of(s, t) * sizeof *x), &options);
        free(x);
    }
    zip_finish(&z, ZIP_END_PLAIN, 0);
    (void)save(name, &z.out);
    zip_release(&z);
}

/* ---- what it should become ---- */

struct expected {
    float threshold;
    uint64_t n_left;
    uint64_t *left;
};

static struct expected expect_of(const struct shape *s)
{
    struct expected e = {.left = calloc(s->ffn, sizeof(uint64_t))};
    struct slim plain = {.n_rows = s->ffn, .scores = calloc(s->ffn, sizeof(uint64_t)), .left = e.left};
    float largest = 0.0f;
    size_t t;
    size_t i;

    for (t = 0; t < N_TENSORS; t++) {
        for (i = 0; t != 2 && i < n_of(s, t); i++) {
            largest = fabsf(value(t, i)) > largest ? fabsf(value(t, i)) : largest;
        }
    }
    e.threshold = largest / 8;
    for (i = 0; i < n_of(s, 0); i++) {
        plain.scores[i / s->in] += fabsf(value(0, i)) >= e.threshold;
    }
    choose_rows(&plain);
    e.n_left = plain.n_left;
    free(plain.scores);
    return e;
}

/* The value of element i of a tensor when the pass is through. */
static float wanted(const struct shape *s, const struct expected *e, size_t tensor, size_t i)
{
    float x;

    switch (tensor) {
    case 0:
        return value(0, (size_t)e->left[i / s->in] * s->in + i % s->in);
    case 1:
        return value(1, (size_t)e->left[i]);
    case 3:
        return value(3, i / (size_t)e->n_left * s->ffn + (size_t)e->left[i % (size_t)e->n_left]);
    case 4:
        x = value(4, i);
        return fabsf(x) >= e->threshold ? x : 0.0f;
    default:
        return value(tensor, i);
    }
}

static void expect_file(struct vc_ctx *ctx, const char *name, const struct shape *s, const struct expected *e)
{
    struct vc_model *model = must_open(ctx, name);
    size_t mask = vc_model_find(model, "mlp.mix.weight.mask");
    unsigned char *bits;
    size_t t;
    size_t i;

    assert_int_equal(vc_model_facts(model)->n_tensors, N_TENSORS + 1);
    for (t = 0; t < N_TENSORS; t++) {
        size_t index = vc_model_find(model, names[t]);
        const struct vc_tensor *tensor = vc_model_tensor(model, index);
        size_t n = (size_t)tensor->n_elems;
        float *x = malloc((n + 1) * sizeof *x);

        assert_int_equal(vc_model_read(ctx, model, index, 0, n, x, n * sizeof *x), VC_OK);
        assert_int_equal(n, t == 0 ? e->n_left * s->in : t == 1 ? e->n_left : t == 3 ? e->n_left * s->out : n_of(s, t));
        for (i = 0; i < n; i++) {
            if (x[i] != wanted(s, e, t, i)) {
                fail_msg("%s: element %zu of %s is %g", name, i, names[t], (double)x[i]);
            }
        }
        free(x);
    }
    assert_true(mask != VC_NO_TENSOR);
    bits = malloc(n_of(s, 4));
    assert_int_equal(vc_model_read(ctx, model, mask, 0, n_of(s, 4), bits, n_of(s, 4)), VC_OK);
    for (i = 0; i < n_of(s, 4); i++) {
        assert_int_equal(bits[i], fabsf(value(4, i)) >= e->threshold);
    }
    free(bits);
    vc_model_close(model);
}

/* ---- tests ---- */

/* slim, then int8 if asked for. */
static enum vc_status run(struct vc_ctx *ctx, const char *from, const char *to, bool slim, bool int8,
                          enum vc_deflate deflate, double min_sqnr_db)
{
    struct vc_model *model = must_open(ctx, from);
    struct vc_write_options write = support_replace(in_folder(to), deflate);
    struct vc_quantize_options q = support_quantize();
    struct vc_job *job = NULL;
    enum vc_status status;

    write.min_sqnr_db = min_sqnr_db;
    write.layout = "plain";
    q.granularity = VC_GRANULARITY_GROUP;
    q.group_size = 32;
    assert_int_equal(vc_job_create(ctx, model, &job), VC_OK);
    if (slim) {
        assert_int_equal(add_slim(ctx, job, false), VC_OK);
    }
    if (int8) {
        assert_int_equal(vc_job_add_quantize(ctx, job, &q), VC_OK);
    }
    status = vc_job_plan(ctx, job, &write);
    status = status == VC_OK ? vc_job_run(ctx, job) : status;
    vc_job_free(job);
    vc_model_close(model);
    return status;
}

static void must(struct vc_ctx *ctx, enum vc_status status)
{
    if (status != VC_OK) {
        fail_msg("%s", vc_ctx_message(ctx));
    }
}

/* Stored and deflated inputs and outputs, any number of threads: the same bytes, and the right ones. */
static void rows_and_columns_go(void **state)
{
    size_t i;
    unsigned threads;

    (void)state;
    for (i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        struct expected e = expect_of(&shapes[i]);

        save_npz(&shapes[i], "in.npz", false);
        save_npz(&shapes[i], "deflated.npz", true);
        for (threads = 1; threads <= 4; threads += TEST_STRIDE > 1 ? 2 : 1) {
            struct vc_ctx *ctx;

            if (TEST_STRIDE > 1 && threads != 1 + 2 * (i % 2)) { /* by turns */
                continue;
            }
            ctx = test_ctx();
            assert_int_equal(vc_ctx_set_threads(ctx, threads), VC_OK);
            must(ctx, run(ctx, "in.npz", "stored.npz", true, false, VC_DEFLATE_NONE, 0.0));
            expect_file(ctx, "stored.npz", &shapes[i], &e);
            must(ctx, run(ctx, "deflated.npz", "again.npz", true, false, VC_DEFLATE_NONE, 0.0));
            expect_same("stored.npz", "again.npz");
            must(ctx, run(ctx, "in.npz", "packed.npz", true, false, VC_DEFLATE_ZLIB, 0.0));
            expect_file(ctx, "packed.npz", &shapes[i], &e);
            must(ctx, run(ctx, "in.npz", "out.safetensors", true, false, VC_DEFLATE_NONE, 0.0));
            expect_file(ctx, "out.safetensors", &shapes[i], &e);
            vc_ctx_free(ctx);
        }
        free(e.left);
    }
}

/* With int8 behind it in the same job, or in one of its own. */
static void a_chain_equals_files(void **state)
{
    static const char *const extensions[] = {"npz", "safetensors", "pt"};
    size_t i;
    size_t k;

    (void)state;
    for (i = 0; i < 2; i++) {
        save_npz(&shapes[i], "in.npz", false);
        for (k = 0; k < sizeof extensions / sizeof extensions[0]; k++) {
            struct vc_ctx *ctx = test_ctx();
            char one[32];
            char two[32];
            char both[32];

            (void)snprintf(one, sizeof one, "one.%s", extensions[k]);
            (void)snprintf(two, sizeof two, "two.%s", extensions[k]);
            (void)snprintf(both, sizeof both, "both.%s", extensions[k]);
            must(ctx, run(ctx, "in.npz", one, true, false, VC_DEFLATE_NONE, 0.0));
            must(ctx, run(ctx, one, two, false, true, VC_DEFLATE_NONE, 0.0));
            must(ctx, run(ctx, "in.npz", both, true, true, VC_DEFLATE_NONE, 0.0));
            expect_same(two, both);
            vc_ctx_free(ctx);
        }
    }
}

/* The configuration of a folder says the new size; what does not fit there is refused before weights are read. */
static void the_configuration_follows(void **state)
{
    static const char right[] = "{\"model_type\": \"llama\", \"hidden_size\": 700, \"intermediate_size\": 600}\n";
    static const char wrong[] = "{\"model_type\": \"llama\", \"hidden_size\": 700, \"intermediate_size\": 601}\n";
    struct vc_ctx *ctx = test_ctx();
    struct bytes config;
    char folder[600];
    char path[700];

    (void)state;
    (void)snprintf(folder, sizeof folder, "%s", in_folder("model"));
    assert_int_equal(mkdir(folder, 0777), 0);
    save_npz(&shapes[0], "in.npz", false);
    (void)snprintf(path, sizeof path, "%s/model.safetensors", folder);
    must_run(ctx, "in.npz", path, task_copy());
    (void)snprintf(path, sizeof path, "%s/config.json", folder);
    (void)save_text(path, right);
    must(ctx, run(ctx, folder, "slimmer", true, false, VC_DEFLATE_NONE, 0.0));
    config = load("slimmer/config.json");
    bytes_add(&config, "", 1);
    assert_non_null(strstr((const char *)config.p, "\"intermediate_size\": 400"));
    assert_non_null(strstr((const char *)config.p, "\"hidden_size\": 700"));
    bytes_release(&config);
    (void)save_text(path, wrong);
    assert_int_equal(run(ctx, folder, "other", true, false, VC_DEFLATE_NONE, 0.0), VC_E_UNSUPPORTED);
    expect_says(ctx, "config.json");
    assert_false(exists("other"));
    remove_path("slimmer");
    remove_path("model");
    vc_ctx_free(ctx);
}

/* Shapes change before values do; a gate is judged by what can be compared. */
static void the_report_and_the_gate(void **state)
{
    struct vc_ctx *ctx = test_ctx();
    struct vc_model *model;
    struct vc_write_options write = support_replace(in_folder("out.npz"), VC_DEFLATE_NONE);
    const struct vc_report *report;
    struct vc_job *job = NULL;

    (void)state;
    save_npz(&shapes[0], "in.npz", false);
    model = must_open(ctx, "in.npz");
    assert_int_equal(vc_job_create(ctx, model, &job), VC_OK);
    assert_int_equal(add_slim(ctx, job, false), VC_OK);
    assert_int_equal(vc_job_plan(ctx, job, &write), VC_OK);
    assert_int_equal(vc_job_plan(ctx, job, &write), VC_OK); /* all looks once more */
    must(ctx, vc_job_run(ctx, job));
    report = vc_job_report(job);
    assert_int_equal(report->rows[0].shape[0], 600);
    assert_int_equal(report->rows[0].shape_after[0], 400);
    assert_int_equal(report->rows[0].n_steps, 1);
    assert_false(report->rows[0].measured);
    assert_int_equal(report->rows[0].bytes_after, 400 * 700 * 4);
    assert_string_equal(report->rows[4].steps[0].pass, "slim");
    assert_int_equal(report->rows[4].parts[0].role, VC_PART_MASK);
    assert_true(report->rows[4].measured);
    assert_true(report->rows[4].zeros_after > report->rows[4].zeros_before);
    assert_true(report->totals.sqnr_db == report->rows[4].sqnr_db);
    vc_job_free(job);
    vc_model_close(model);
    assert_int_equal(run(ctx, "in.npz", "gate.npz", true, true, VC_DEFLATE_NONE, 200.0), VC_E_GATE);
    assert_false(exists("gate.npz"));
    must(ctx, run(ctx, "in.npz", "int8.npz", false, true, VC_DEFLATE_NONE, 0.0));
    assert_int_equal(run(ctx, "int8.npz", "gate.npz", true, false, VC_DEFLATE_NONE, 0.0), VC_E_UNSUPPORTED);
    expect_says(ctx, "shapes change first");
    vc_ctx_free(ctx);
}

/* A mask of all rows has no place beside a tensor that loses some. */
static void parts_do_not_outlive_a_shape(void **state)
{
    struct vc_ctx *ctx = test_ctx();
    struct vc_write_options write = support_replace(in_folder("out.npz"), VC_DEFLATE_NONE);
    struct vc_model *model;
    struct vc_job *job = NULL;

    (void)state;
    save_npz(&shapes[2], "in.npz", false);
    model = must_open(ctx, "in.npz");
    remove_path("out.npz");
    assert_int_equal(vc_job_create(ctx, model, &job), VC_OK);
    assert_int_equal(add_slim(ctx, job, true), VC_OK);
    assert_int_equal(add_slim(ctx, job, false), VC_OK);
    assert_int_equal(vc_job_plan(ctx, job, &write), VC_E_UNSUPPORTED);
    expect_says(ctx, "mlp.up.weight: its mask does not fit the shape");
    assert_false(exists("out.npz"));
    vc_job_free(job);
    vc_model_close(model);
    vc_ctx_free(ctx);
}

/* A chain on one tensor in memory; what is there may change from call to call. */
static void from_memory_to_memory(void **state)
{
    const struct shape *s = &shapes[0];
    struct vc_ctx *ctx = test_ctx();
    struct vc_memory_tensor tensors[N_TENSORS];
    struct vc_write_options write = support_write(NULL);
    struct vc_quantize_options q = support_quantize();
    uint64_t dims[N_TENSORS][2];
    float *x[N_TENSORS];
    struct expected e = expect_of(s);
    struct vc_model *model = NULL;
    struct vc_job *job = NULL;
    size_t n = n_of(s, 4);
    unsigned char *mask = malloc(n);
    signed char *codes = malloc(n);
    float *scale = malloc(s->out * sizeof *scale);
    size_t i;

    (void)state;
    for (i = 0; i < N_TENSORS; i++) {
        tensors[i] = (struct vc_memory_tensor){.name = names[i], .dtype = VC_DTYPE_F32, .shape = dims[i]};
        shape_of(s, i, dims[i], &tensors[i].n_dims);
        x[i] = values_of(s, i);
        tensors[i].data = x[i];
    }
    assert_int_equal(vc_memory_model_create(ctx, tensors, N_TENSORS, &model), VC_OK);
    assert_int_equal(vc_job_create(ctx, model, &job), VC_OK);
    assert_int_equal(add_slim(ctx, job, false), VC_OK);
    assert_int_equal(vc_job_add_quantize(ctx, job, &q), VC_OK);
    must(ctx, vc_job_plan(ctx, job, &write));
    must(ctx, job_apply(ctx, job, 4, VC_PART_MASK, mask, n));
    must(ctx, job_apply(ctx, job, 4, VC_PART_CODES, codes, n));
    must(ctx, job_apply(ctx, job, 4, VC_PART_SCALE, scale, s->out * sizeof *scale));
    for (i = 0; i < n; i++) {
        float y = wanted(s, &e, 4, i);

        assert_int_equal(mask[i], y != 0.0f);
        assert_true(fabsf((float)codes[i] * scale[i / s->in] - y) <= scale[i / s->in] * 0.5001f);
    }
    x[4][0] = 0.0f;
    x[4][1] = 100.0f;
    must(ctx, job_apply(ctx, job, 4, VC_PART_CODES, codes, n));
    assert_int_equal(codes[0], 0);
    assert_int_equal(codes[1], 127);
    assert_int_equal(job_apply(ctx, job, 4, VC_PART_CODES, codes, n - 1), VC_E_ARGUMENT);
    assert_int_equal(job_apply(ctx, job, 4, VC_PART_CODEBOOK, codes, n), VC_E_ARGUMENT);
    vc_job_free(job);
    vc_model_close(model);
    for (i = 0; i < N_TENSORS; i++) {
        free(x[i]);
    }
    free(e.left);
    free(mask);
    free(codes);
    free(scale);
    vc_ctx_free(ctx);
}

static void every_allocation_may_fail(void **state)
{
    uint64_t n;

    (void)state;
    save_npz(&shapes[2], "in.npz", true);
    for (n = 1; n < 5000; n += TEST_STRIDE) {
        struct vc_ctx *ctx = test_ctx();
        struct vc_model *model = must_open(ctx, "in.npz");
        struct vc_write_options write = support_replace(in_folder("faults.npz"), VC_DEFLATE_ZLIB);
        struct vc_quantize_options q = support_quantize();
        struct vc_job *job = NULL;
        enum vc_status status;

        remove_path("faults.npz");
        assert_int_equal(vc_ctx_set_threads(ctx, 1), VC_OK);
        assert_int_equal(vc_job_create(ctx, model, &job), VC_OK);
        assert_int_equal(add_slim(ctx, job, false), VC_OK);
        assert_int_equal(vc_job_add_quantize(ctx, job, &q), VC_OK);
        vc_pool_fail_at(ctx->shared->pool, n, 0);
        status = vc_job_plan(ctx, job, &write);
        status = status == VC_OK ? vc_job_run(ctx, job) : status;
        vc_pool_fail_at(ctx->shared->pool, 0, 0);
        assert_true(status == VC_OK || status == VC_E_NOMEM);
        assert_int_equal(exists("faults.npz"), status == VC_OK);
        vc_job_free(job);
        vc_model_close(model);
        vc_ctx_free(ctx);
        if (status == VC_OK) {
            assert_true(n > 50);
            return;
        }
    }
    fail_msg("it never succeeded");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_and_columns_go),          cmocka_unit_test(a_chain_equals_files),
        cmocka_unit_test(the_configuration_follows),    cmocka_unit_test(the_report_and_the_gate),
        cmocka_unit_test(parts_do_not_outlive_a_shape), cmocka_unit_test(from_memory_to_memory),
        cmocka_unit_test(every_allocation_may_fail),
    };

    return cmocka_run_group_tests(tests, scratch_make, scratch_clear);
}
