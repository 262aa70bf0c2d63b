/* test_step_device.c - what a device does of a step beside the program, against step_math.h and the kernels of
 * quantize: losses, norms, updates, fake quantization. None of it is a product, so both give the same bits.
 * EMU_PLUGIN is the plug-in; a real one can be named by VCOMPRESS_BACKEND_PATH. */
#include "support.h"

#include <math.h>
#include <stdlib.h>

#include "distill/math/step_math.h"
#include "kernels/grid_codes.h"
#include "kernels/kernels.h"
#include "kernels/train_device.h"

#define MOST 24 /* arrays of a case */

/* A device, and arrays of the host with their copies there. */
struct both {
    struct vc_ctx *ctx;
    struct vc_train_device *device;
    uint64_t random;
    size_t n;
    struct {
        void *here, *there, *block;
        uint64_t bytes;
    } arrays[MOST];
};

static void use(struct both *b, enum vc_status status)
{
    if (status != VC_OK) {
        fail_msg("%s", vc_ctx_message(b->ctx));
    }
}

static void call(struct both *b, int result)
{
    use(b, vc_train_result(b->device, result));
}

static struct both begin(void)
{
    struct both b = {.ctx = test_ctx(), .random = 1};

    assert_int_equal(vc_ctx_set_device(b.ctx, "cuda"), VC_OK);
    use(&b, vc_train_device_open(b.ctx, &b.device));
    assert_non_null(b.device);
    return b;
}

static void end(struct both *b)
{
    for (size_t k = 0; k < b->n; k++) {
        vc_train_free(b->device, b->arrays[k].block, b->arrays[k].bytes);
        free(b->arrays[k].here);
    }
    vc_train_device_close(b->device);
    vc_ctx_free(b->ctx);
}

/* Host memory of zeros, which `send` copies. On the device the array is the end of its block, so that what is behind it
 * belongs to nobody. */
static void *array(struct both *b, uint64_t bytes)
{
    size_t k = b->n++;

    assert_true(k < MOST);
    b->arrays[k].here = calloc(1, (size_t)bytes);
    b->arrays[k].bytes = bytes;
    use(b, vc_train_alloc(b->device, bytes, &b->arrays[k].block));
    b->arrays[k].there = (char *)b->arrays[k].block + (vc_train_block_bytes(bytes) - bytes);
    return b->arrays[k].here;
}

static size_t number_of(const struct both *b, const void *here)
{
    for (size_t k = 0; k < b->n; k++) {
        if (b->arrays[k].here == here) {
            return k;
        }
    }
    fail_msg("no such array");
    return 0;
}

static void *there(const struct both *b, const void *here)
{
    return here == NULL ? NULL : b->arrays[number_of(b, here)].there;
}

static void send(struct both *b)
{
    for (size_t k = 0; k < b->n; k++) {
        use(b, vc_train_to_device(b->device, b->arrays[k].there, b->arrays[k].here, b->arrays[k].bytes));
    }
}

/* What the device has made of an array. */
static void fetch(struct both *b, void *here)
{
    size_t k = number_of(b, here);

    use(b, vc_train_to_host(b->device, here, b->arrays[k].there, b->arrays[k].bytes));
}

/* The device has what the processor has, to the bit. */
static void same(struct both *b, const void *here, const char *what)
{
    size_t k = number_of(b, here);
    unsigned char *from = malloc((size_t)b->arrays[k].bytes);

    use(b, vc_train_to_host(b->device, from, b->arrays[k].there, b->arrays[k].bytes));
    for (size_t i = 0; i < b->arrays[k].bytes; i++) {
        if (from[i] != ((const unsigned char *)here)[i]) {
            fail_msg("%s: byte %zu differs", what, i);
        }
    }
    free(from);
}

static double draw(struct both *b)
{
    b->random = b->random * 6364136223846793005u + 1442695040888963407u;
    return (double)(int64_t)(b->random >> 11) / 4503599627370496.0 - 1;
}

static float *numbers(struct both *b, size_t n, double scale)
{
    float *x = array(b, n * sizeof *x);

    for (size_t i = 0; i < n; i++) {
        x[i] = (float)(scale * draw(b) * (i % 7 == 0 ? 1e-3 : 1));
    }
    return x;
}

/* ---- losses ---- */

enum by { DIVERGENCE, MSE, COSINE, LABELS };

static void check_loss(size_t n_rows, size_t n_classes, double alpha, double temperature, double scale, enum by by)
{
    struct both b = begin();
    float *logits = numbers(&b, n_rows * n_classes, 6);
    float *teacher = numbers(&b, n_rows * n_classes, 6);
    float *gradient = array(&b, n_rows * n_classes * sizeof *gradient);
    double *sums = array(&b, 2 * n_rows * sizeof *sums);
    int64_t *labels = array(&b, n_rows * sizeof *labels);
    uint8_t *mask = array(&b, n_rows);
    double *row = malloc(VC_LOSS_ROOM * n_classes * sizeof *row);
    const bool taught = by != LABELS;
    const struct vc_loss_spec spec = {.alpha = alpha,
                                      .temperature = temperature,
                                      .kind = by == MSE      ? VC_TEACHER_LOSS_MSE
                                              : by == COSINE ? VC_TEACHER_LOSS_COSINE
                                                             : VC_TEACHER_LOSS_KD,
                                      .kd_rows = n_rows,
                                      .ce_rows = n_rows / 2 + 1,
                                      .scale = scale};
    const struct vc_teacher_rows rows = {.logits = taught ? teacher : NULL, .k = n_classes};
    const struct vc_loss_sums no = {0, 0};
    struct vc_loss_sums all, got = no;
    struct vc_train_loss loss;
    double *from = malloc(2 * n_rows * sizeof *from);

    for (size_t r = 0; r < n_rows; r++) {
        labels[r] = r % 3 == 2 ? VC_NO_LABEL : (int64_t)(r * 5 % n_classes);
        mask[r] = r % 5 != 3;
    }
    teacher[0] = 300; /* probabilities of 0 */
    if (n_rows > 8) {
        memset(logits + 7 * n_classes, 0, n_classes * sizeof *logits); /* no direction, in either network */
        memset(teacher + 6 * n_classes, 0, n_classes * sizeof *teacher);
    }
    send(&b);
    loss = (struct vc_train_loss){.n_rows = n_rows,
                                  .n_classes = n_classes,
                                  .alpha = alpha,
                                  .temperature = temperature,
                                  .kd_by = 1 / (double)spec.kd_rows,
                                  .ce_by = 1 / (double)spec.ce_rows,
                                  .mse = by == MSE,
                                  .cosine = by == COSINE,
                                  .scale = scale,
                                  .logits = there(&b, logits),
                                  .teacher = taught ? there(&b, teacher) : NULL,
                                  .labels = there(&b, labels),
                                  .mask = there(&b, mask),
                                  .gradient = there(&b, gradient),
                                  .sums = there(&b, sums)};
    call(&b, b.device->table->loss(b.device->session, &loss));
    all = vc_loss_f32(&spec, n_rows, n_classes, logits, &rows, &(struct vc_label_rows){labels, NULL}, mask, row,
                      gradient);
    same(&b, gradient, "gradient of the loss");
    use(&b, vc_train_to_host(b.device, from, loss.sums, 2 * n_rows * sizeof *from));
    for (size_t r = 0; r < n_rows; r++) {
        got.kd += from[2 * r];
        got.ce += from[2 * r + 1];
    }
    assert_true(got.kd == all.kd && got.ce == all.ce && (got.kd != 0) == taught && got.ce != 0);
    free(row);
    free(from);
    end(&b);
}

static void losses(void **state)
{
    (void)state;
    check_loss(1, 2, 0.5, 1, 1, DIVERGENCE);
    check_loss(13, 10, 0.3, 4, 65536, DIVERGENCE);
    check_loss(5, 603, 0.4, 3, 1, DIVERGENCE);
    check_loss(9, 33, 0.9, 2, 1, MSE);
    check_loss(13, 33, 0.7, 2, 1024, COSINE);
    check_loss(9, 300, 0.7, 2, 1, COSINE); /* several warps a row */
    check_loss(7, 5, 0, 1, 0x1p126, LABELS);
    check_loss(600, 3, 0.5, 2, 1, DIVERGENCE); /* more than a block, and than two */
}

/* ---- norms ---- */

static void norms(void **state)
{
    static const size_t sizes[] = {1, 7, 8, 9, 4096, 32768, 31, 100};
    enum { N = sizeof sizes / sizeof *sizes };
    struct both b = begin();
    struct vc_train_block *blocks = array(&b, N * sizeof *blocks);
    double *squares = array(&b, (N + 1) * sizeof *squares);
    float *g[N];
    uint8_t *keep = array(&b, 32768);

    (void)state;
    for (size_t i = 0; i < 32768; i++) {
        keep[i] = i % 3 != 1;
    }
    for (size_t k = 0; k < N; k++) {
        g[k] = numbers(&b, sizes[k], 1);
        blocks[k] =
            (struct vc_train_block){.g = there(&b, g[k]), .n = sizes[k], .keep = k % 2 != 0 ? there(&b, keep) : NULL};
    }
    send(&b);
    call(&b, b.device->table->measure(b.device->session, there(&b, blocks), N, there(&b, squares)));
    fetch(&b, squares);
    assert_true(squares[N] == 0); /* no fault */
    for (size_t k = 0; k < N; k++) {
        for (size_t i = 0; k % 2 != 0 && i < sizes[k]; i++) {
            g[k][i] = keep[i] != 0 ? g[k][i] : 0;
        }
        assert_true(squares[k] == vc_square_sum_f32(g[k], sizes[k]));
        same(&b, g[k], "gradients without masked ones");
    }
    end(&b);
}

/* More tensors than a launch takes at a time. */
static void norms_of_many(void **state)
{
    enum { N = 150, EACH = 33 };
    struct both b = begin();
    struct vc_train_block *blocks = array(&b, N * sizeof *blocks);
    double *squares = array(&b, (N + 1) * sizeof *squares);
    float *g = numbers(&b, (size_t)N * EACH, 1);

    (void)state;
    for (size_t k = 0; k < N; k++) {
        blocks[k] = (struct vc_train_block){.g = (float *)there(&b, g) + k * EACH, .n = EACH - k % 3};
    }
    send(&b);
    call(&b, b.device->table->measure(b.device->session, there(&b, blocks), N, there(&b, squares)));
    fetch(&b, squares);
    assert_true(squares[N] == 0); /* no fault */
    for (size_t k = 0; k < N; k++) {
        assert_true(squares[k] == vc_square_sum_f32(g + k * EACH, EACH - k % 3));
    }
    end(&b);
}

/* ---- updates ---- */

/* Weights with what an optimizer keeps for them, numbers or codes. */
struct weights {
    size_t n;
    float *w, *g, *m, *v, *m_factors, *v_factors;
    uint8_t *m_codes, *v_codes, *keep;
};

static struct weights make_weights(struct both *b, size_t n, unsigned n_states, bool coded, bool masked)
{
    size_t n_factors = (n + VC_CODED_BLOCK - 1) / VC_CODED_BLOCK;
    struct weights w = {.n = n, .w = numbers(b, n, 1), .g = numbers(b, n, 0.1)};

    if (coded) {
        w.m_codes = array(b, n);
        w.v_codes = array(b, n);
        w.m_factors = array(b, n_factors * sizeof(float));
        w.v_factors = array(b, n_factors * sizeof(float));
    } else {
        w.m = n_states > 0 ? array(b, n * sizeof(float)) : NULL;
        w.v = n_states > 1 ? array(b, n * sizeof(float)) : NULL;
    }
    w.keep = masked ? array(b, n) : NULL;
    for (size_t i = 0; masked && i < n; i++) { /* from this step on: there are states of weights that are gone */
        w.keep[i] = i % 4 != 1;
        if (w.m != NULL) {
            w.m[i] = (float)draw(b) / 16;
        }
        if (w.v != NULL) {
            w.v[i] = (float)fabs(draw(b)) / 256;
        }
    }
    return w;
}

static struct vc_train_block block_of(const struct both *b, const struct weights *w, double decay)
{
    return (struct vc_train_block){.w = there(b, w->w),
                                   .g = there(b, w->g),
                                   .m = there(b, w->m),
                                   .v = there(b, w->v),
                                   .m_codes = there(b, w->m_codes),
                                   .v_codes = there(b, w->v_codes),
                                   .m_factors = there(b, w->m_factors),
                                   .v_factors = there(b, w->v_factors),
                                   .keep = there(b, w->keep),
                                   .n = w->n,
                                   .decay = decay};
}

static void move_here(const struct vc_dynamic_maps *maps, struct weights *w, struct vc_update u, double decay,
                      double by)
{
    const struct vc_coded_states states = {
        .maps = maps, .m = w->m_codes, .v = w->v_codes, .m_factors = w->m_factors, .v_factors = w->v_factors};

    u.decay = decay;
    if (by != 1) {
        vc_scale_f32(w->g, w->n, by);
    }
    if (w->m_factors != NULL) {
        vc_update_coded_f32(&u, w->n, w->w, w->g, &states, w->keep);
    } else {
        vc_update_f32(&u, w->n, w->w, w->g, w->m, w->v, w->keep);
    }
}

static void compare_weights(struct both *b, const struct weights *w)
{
    const struct {
        const void *array;
        const char *what;
    } arrays[] = {{w->w, "weights"},
                  {w->g, "gradients"},
                  {w->m, "m"},
                  {w->v, "v"},
                  {w->m_codes, "codes of m"},
                  {w->v_codes, "codes of v"},
                  {w->m_factors, "factors of m"},
                  {w->v_factors, "factors of v"}};

    for (size_t k = 0; k < sizeof arrays / sizeof *arrays; k++) {
        if (arrays[k].array != NULL) {
            same(b, arrays[k].array, arrays[k].what);
        }
    }
}

/* Three steps of three tensors, one masked; the gradients of one step have an infinity or NaN among them. */
static void check_update(struct vc_update u, unsigned n_states, bool coded, double by, float odd)
{
    static const int kinds[] = {
        [VC_UPDATE_SGD] = VC_TRAIN_SGD, [VC_UPDATE_ADAM] = VC_TRAIN_ADAM, [VC_UPDATE_ADAMW] = VC_TRAIN_ADAMW};
    struct both b = begin();
    struct weights w[3] = {make_weights(&b, 512, n_states, coded, false),
                           make_weights(&b, 5000, n_states, coded, false),
                           make_weights(&b, 769, n_states, coded, true)};
    struct vc_train_block *blocks = array(&b, 3 * sizeof *blocks);
    struct vc_dynamic_maps *maps = array(&b, sizeof *maps);

    vc_dynamic_maps_make(maps);
    for (size_t k = 0; k < 3; k++) {
        blocks[k] = block_of(&b, &w[k], 0.01 * (double)k);
    }
    for (u.t = 1; u.t <= 3; u.t++) {
        const struct vc_train_update update = {.kind = kinds[u.kind],
                                               .nesterov = u.nesterov,
                                               .lr = u.lr,
                                               .momentum = u.momentum,
                                               .beta1 = u.beta1,
                                               .beta2 = u.beta2,
                                               .eps = u.eps,
                                               .t = u.t,
                                               .by = by,
                                               .maps = there(&b, maps)};

        for (size_t i = 0; i < w[1].n; i++) {
            w[1].g[i] = (float)(draw(&b) * (i / VC_CODED_BLOCK == 3 ? 0 : 0.1));
            w[2].g[i % w[2].n] = (float)draw(&b);
            w[0].g[i % w[0].n] = (float)draw(&b);
        }
        w[1].g[17] = u.t == 3 ? odd : w[1].g[17];
        send(&b);
        call(&b, b.device->table->update(b.device->session, there(&b, blocks), 3, &update));
        for (size_t k = 0; k < 3; k++) {
            move_here(maps, &w[k], u, 0.01 * (double)k, by);
            compare_weights(&b, &w[k]);
        }
    }
    end(&b);
}

static void updates(void **state)
{
    struct vc_update u = {.kind = VC_UPDATE_SGD, .lr = 0.1, .beta1 = 0.9, .beta2 = 0.99, .eps = 1e-8};

    (void)state;
    check_update(u, 0, false, 1, 1);
    u.momentum = 0.9;
    check_update(u, 1, false, 0.25, 1);
    u.nesterov = true;
    check_update(u, 1, false, 1, -INFINITY);
    u.kind = VC_UPDATE_ADAM;
    u.lr = 1e-3;
    check_update(u, 2, false, 0.5, 1);
    u.kind = VC_UPDATE_ADAMW;
    check_update(u, 2, false, 1, 1e30f);
}

static void coded_updates(void **state)
{
    struct vc_update u = {.kind = VC_UPDATE_ADAMW, .lr = 1e-3, .beta1 = 0.9, .beta2 = 0.99, .eps = 1e-8};

    (void)state;
    check_update(u, 2, true, 1, 1);
    check_update(u, 2, true, 0.3, 1e30f); /* its square is infinite: the factor of v is FLT_MAX */
}

/* ---- fake quantization ---- */

static enum vc_status kernel(struct vc_ctx *ctx, int result)
{
    return vc_kernels_error(ctx, result);
}

/* n masters of int8 whose scales are of rows of row_len elements, n_per_row in each, `inner` elements side by side. */
static void check_int8(uint64_t n, uint64_t row_len, uint64_t inner, uint64_t n_per_row, bool asymmetric)
{
    struct both b = begin();
    struct vc_ctx *cpu = test_ctx();
    const struct vc_kernels *k = vc_kernels_get(cpu);
    uint64_t n_rows = n / row_len;
    uint64_t n_scales = n_rows * n_per_row;
    float *x = numbers(&b, n, 3);
    float *w = array(&b, n * sizeof *w);
    uint32_t *pos = array(&b, n_scales * sizeof *pos);
    uint32_t *neg = array(&b, n_scales * sizeof *neg);
    float *scale = array(&b, n_scales * sizeof *scale);
    int8_t *zero = array(&b, n_scales);
    int8_t *codes = malloc(n);
    const struct vc_axis_map map = {.inner = inner, .n_channels = n_per_row};
    struct vc_train_fake_quant fake_quant;

    for (uint64_t i = 0; i < inner && n_scales > 2; i++) {
        x[i] = 0; /* a scale of nothing */
    }
    memset(pos, 0xee, n_scales * sizeof *pos); /* of the step before */
    memset(neg, 0xee, n_scales * sizeof *neg);
    send(&b);
    fake_quant = (struct vc_train_fake_quant){.kind = VC_TRAIN_FAKE_QUANT_I8,
                                              .asymmetric = asymmetric,
                                              .n = n,
                                              .row_len = row_len,
                                              .inner = inner,
                                              .n_per_row = n_per_row,
                                              .n_scales = n_scales,
                                              .master = there(&b, x),
                                              .w = there(&b, w),
                                              .pos = there(&b, pos),
                                              .neg = there(&b, neg),
                                              .scale = there(&b, scale),
                                              .zero = there(&b, zero)};
    call(&b, b.device->table->fake_quant(b.device->session, &fake_quant));
    memset(pos, 0, n_scales * sizeof *pos);
    memset(neg, 0, n_scales * sizeof *neg);
    for (uint64_t r = 0; r < n_rows; r++) {
        uint64_t at = r * n_per_row;
        float *row = x + r * row_len;
        double sums[64];
        struct vc_tile_stats stats = {.chunk_sums = sums};
        int8_t *zeros = asymmetric ? zero + at : NULL;

        assert_true(row_len <= 32 * VC_CHUNK_ELEMS / 2);
        assert_int_equal(kernel(cpu, asymmetric ? k->range_axis(row, row_len, &map, pos + at, neg + at)
                                                : k->absmax_axis(row, row_len, &map, pos + at)),
                         VC_OK);
        for (uint64_t i = at; i < at + n_per_row; i++) {
            scale[i] = asymmetric ? vc_int8_asym_scale(pos[i], neg[i]) : vc_int8_scale(pos[i]);
            zero[i] = asymmetric ? vc_int8_zero_point(neg[i], scale[i]) : 0;
        }
        assert_int_equal(kernel(cpu, k->int8_axis_given(row, 1, row_len, &map, scale + at, zeros, codes, &stats)),
                         VC_OK);
        assert_int_equal(kernel(cpu, k->int8_decode_axis(codes, row_len, &map, scale + at, zeros, w + r * row_len)),
                         VC_OK);
    }
    same(&b, w, "weights that are rounded to int8");
    same(&b, scale, "scales");
    same(&b, zero, "zero points");
    free(codes);
    vc_ctx_free(cpu);
    end(&b);
}

/* The same of a kind without scales of its own. */
static void check_plain(int kind, uint64_t n)
{
    struct both b = begin();
    struct vc_ctx *cpu = test_ctx();
    const struct vc_kernels *k = vc_kernels_get(cpu);
    float *x = numbers(&b, n, 3);
    float *w = array(&b, n * sizeof *w);
    uint8_t *codes = malloc(n * 2);
    uint32_t *bits = malloc((n / 32 + 1) * sizeof *bits);
    double sums[64];
    struct vc_tile_stats stats = {.chunk_sums = sums};
    struct vc_train_fake_quant fake_quant;
    int result;

    x[5] = 1e-40F;
    memset(x + 32, 0, 32 * sizeof *x);
    send(&b);
    fake_quant = (struct vc_train_fake_quant){.kind = kind, .n = n, .master = there(&b, x), .w = there(&b, w)};
    call(&b, b.device->table->fake_quant(b.device->session, &fake_quant));
    result = kind == VC_TRAIN_FAKE_QUANT_Q8_0  ? k->q8_0_rows(x, 1, n, bits, codes, &stats)
             : kind == VC_TRAIN_FAKE_QUANT_F16 ? k->cast_f32_f16(x, 1, n, (uint16_t *)(void *)codes, &stats)
                                               : k->cast_f32_bf16(x, 1, n, (uint16_t *)(void *)codes, &stats);
    assert_int_equal(kernel(cpu, result), VC_OK);
    result = kind == VC_TRAIN_FAKE_QUANT_Q8_0  ? k->q8_0_to_f32(codes, n, w)
             : kind == VC_TRAIN_FAKE_QUANT_F16 ? k->f16_to_f32((const uint16_t *)(const void *)codes, n, w)
                                               : k->bf16_to_f32((const uint16_t *)(const void *)codes, n, w);
    assert_int_equal(kernel(cpu, result), VC_OK);
    same(&b, w, "weights that are rounded to a scheme");
    free(codes);
    free(bits);
    vc_ctx_free(cpu);
    end(&b);
}

/* Groups of rows of 300, of two tensors that share a global scale. */
static void check_groups(struct vc_group_codes how, uint64_t inner)
{
    bool global = how.bytes == VC_DTYPE_F8_E4M3;
    enum { ROW = 300, N_ROWS = 30, N = ROW * N_ROWS };
    struct both b = begin();
    float *x[2] = {numbers(&b, N, 3), numbers(&b, N, 4)};
    float *w[2] = {array(&b, N * sizeof **w), array(&b, N * sizeof **w)};
    uint32_t *pos = array(&b, sizeof *pos);
    uint32_t most = 0;

    x[1][17] = 9; /* the largest is in the second one */
    memset(x[0], 0, ROW * sizeof **x);
    x[0][ROW + 1] = 1e-41F;
    memset(pos, 0, sizeof *pos);
    send(&b);
    for (unsigned last = 0; last < 2; last++) { /* first the magnitudes of both */
        for (unsigned t = 0; t < 2 && (global || last != 0); t++) {
            const struct vc_train_fake_quant fake_quant = {.kind = last != 0 ? VC_TRAIN_FAKE_QUANT_GROUPS
                                                                             : VC_TRAIN_FAKE_QUANT_LARGEST,
                                                           .n = N,
                                                           .row_len = ROW,
                                                           .inner = inner,
                                                           .master = there(&b, x[t]),
                                                           .w = there(&b, w[t]),
                                                           .pos = global ? there(&b, pos) : NULL,
                                                           .how = how};

            call(&b, b.device->table->fake_quant(b.device->session, &fake_quant));
        }
    }
    for (size_t i = 0; i < (size_t)2 * N; i++) {
        uint32_t magnitude = vc_f32_magnitude(x[i / N][i % N]);

        most = magnitude > most ? magnitude : most;
    }
    for (uint64_t i = 0; i < (uint64_t)2 * N_ROWS; i++) {
        for (uint64_t first = 0; first < ROW; first += inner) {
            uint64_t at = i % N_ROWS * ROW + first;

            how.global = global ? vc_nvfp4_global(vc_bits_f32(most)) : 1.0F;
            vc_group_round(&how, x[i / N_ROWS] + at, first + inner < ROW ? inner : ROW - first, w[i / N_ROWS] + at);
        }
    }
    *pos = global ? most : 0;
    same(&b, w[0], "weights of the first tensor, rounded in groups");
    same(&b, w[1], "weights of the second tensor, rounded in groups");
    same(&b, pos, "the largest magnitude of both");
    end(&b);
}

static void fake_quants(void **state)
{
    static const struct {
        struct vc_group_codes how;
        uint64_t n;
    } groups[] = {{{.grid = VC_GRID_NONE, .bytes = VC_DTYPE_NONE, .type = VC_DTYPE_F32, .low = -8, .high = 7}, 128},
                  {{.grid = VC_GRID_NONE, .bytes = VC_DTYPE_NONE, .type = VC_DTYPE_F16, .low = -8, .high = 7}, 300},
                  {{.grid = VC_GRID_NONE, .type = VC_DTYPE_F32, .low = -4, .high = 3, .both_signs = true}, 64},
                  {{.grid = VC_GRID_NONE, .type = VC_DTYPE_BF16, .low = -1, .high = 1}, 128},
                  {{.grid = VC_GRID_NF4, .bytes = VC_DTYPE_NONE, .type = VC_DTYPE_BF16}, 64},
                  {{.grid = VC_GRID_FP4, .bytes = VC_DTYPE_NONE, .type = VC_DTYPE_F32}, 64},
                  {{.grid = VC_GRID_E2M1, .bytes = VC_DTYPE_F8_E8M0, .type = VC_DTYPE_U8}, 32},
                  {{.grid = VC_GRID_E2M1, .bytes = VC_DTYPE_F8_E4M3, .type = VC_DTYPE_U8}, 16},
                  {{.grid = VC_GRID_E4M3, .bytes = VC_DTYPE_F8_E8M0, .type = VC_DTYPE_U8}, 32},
                  {{.grid = VC_GRID_E4M3, .bytes = VC_DTYPE_NONE, .type = VC_DTYPE_F32}, 300}};

    (void)state;
    for (unsigned asymmetric = 0; asymmetric < 2; asymmetric++) {
        check_int8(9000, 9000, 9000, 1, asymmetric != 0); /* a tensor */
        check_int8(9000, 9000, 90, 100, asymmetric != 0); /* rows */
        check_int8(9000, 9000, 5, 10, asymmetric != 0);   /* an axis in the middle */
        check_int8(9000, 300, 128, 3, asymmetric != 0);   /* groups that rows end within */
        check_int8(7, 7, 1, 7, asymmetric != 0);
    }
    check_plain(VC_TRAIN_FAKE_QUANT_Q8_0, 4096 + 32);
    check_plain(VC_TRAIN_FAKE_QUANT_F16, 4099);
    check_plain(VC_TRAIN_FAKE_QUANT_BF16, 4099);
    for (size_t i = 0; i < sizeof groups / sizeof groups[0]; i++) {
        check_groups(groups[i].how, groups[i].n);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(losses),  cmocka_unit_test(norms),         cmocka_unit_test(norms_of_many),
        cmocka_unit_test(updates), cmocka_unit_test(coded_updates), cmocka_unit_test(fake_quants),
    };

#if defined(EMU_PLUGIN)
    setenv("VCOMPRESS_BACKEND_PATH", EMU_PLUGIN, 0);
#endif
    return cmocka_run_group_tests(tests, NULL, NULL);
}
