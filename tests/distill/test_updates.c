/* test_updates.c - optimizers against numbers that PyTorch 1.13 gave in float64 (the script is in the comment of each),
 * masks, learning rates, sums of gradients, and the random numbers against the vectors of Random123. */
#include "support.h"

#include <math.h>

#include "core/base/cpu.h"
#include "distill/math/step_table.h"
#include "distill/update/schedule.h"
#include "passes/random.h"

/* Gradients of five steps for three weights that begin at 1, -2, 0.5:
 *
 *     w = torch.tensor([1., -2., .5], dtype=torch.float64, requires_grad=True)
 *     o = torch.optim.X([w], ...)
 *     for t in range(5):
 *         w.grad = torch.tensor([.3 - .1 * t, .01 * (t + 1), -2. + t], dtype=torch.float64); o.step() */
static void run(struct vc_update update, bool has_m, double *w, const uint8_t *keep)
{
    double m[3] = {0};
    double v[3] = {0};

    w[0] = 1;
    w[1] = -2;
    w[2] = 0.5;
    for (int t = 0; t < 5; t++) {
        double g[3] = {0.3 - 0.1 * t, 0.01 * (t + 1), -2.0 + t};

        update.t = (uint64_t)t + 1;
        vc_update_f64(&update, 3, w, g, has_m ? m : NULL, v, keep);
        for (size_t i = 0; keep != NULL && i < 3; i++) {
            assert_true(keep[i] != 0 || (w[i] == 0 && g[i] == 0 && m[i] == 0 && v[i] == 0));
        }
    }
}

static const struct {
    struct vc_update update;
    bool has_m;
    double w[3];
} goldens[] = {
    /* SGD(lr = 0.1) */
    {{.kind = VC_UPDATE_SGD, .lr = 0.1}, false, {0.95, -2.0149999999999997, 0.49999999999999994}},
    /* SGD(lr = 0.1, weight_decay = 0.01) */
    {{.kind = VC_UPDATE_SGD, .lr = 0.1, .decay = 0.01},
     false,
     {0.9452097401449691, -2.0049999950039994, 0.4965064941026995}},
    /* SGD(lr = 0.05, momentum = 0.9) */
    {{.kind = VC_UPDATE_SGD, .lr = 0.05, .momentum = 0.9}, true, {0.8956335000000001, -2.0158515500000003, 0.88646}},
    /* SGD(lr = 0.05, momentum = 0.9, nesterov = True, weight_decay = 0.02) */
    {{.kind = VC_UPDATE_SGD, .lr = 0.05, .momentum = 0.9, .decay = 0.02, .nesterov = true},
     true,
     {0.8650759771044421, -1.9881837261271122, 0.8351825368713746}},
    /* Adam(lr = 0.01) */
    {{.kind = VC_UPDATE_ADAM, .lr = 0.01, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-08},
     true,
     {0.9594745144550072, -2.0485082825650722, 0.5280564449139259}},
    /* Adam(lr = 0.01, betas = (0.8, 0.95), eps = 0.0001, weight_decay = 0.1) */
    {{.kind = VC_UPDATE_ADAM, .lr = 0.01, .beta1 = 0.8, .beta2 = 0.95, .eps = 0.0001, .decay = 0.1},
     true,
     {0.9561808102734602, -1.9505613266962658, 0.5237217261435533}},
    /* AdamW(lr = 0.02, weight_decay = 0.1) */
    {{.kind = VC_UPDATE_ADAMW, .lr = 0.02, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-08, .decay = 0.1},
     true,
     {0.9093653772870581, -2.076706314710029, 0.5507920555894414}},
};

static void test_optimizers(void **unused)
{
    (void)unused;
    for (size_t k = 0; k < sizeof goldens / sizeof *goldens; k++) {
        double w[3];

        run(goldens[k].update, goldens[k].has_m, w, NULL);
        for (size_t i = 0; i < 3; i++) {
            assert_true(fabs(w[i] - goldens[k].w[i]) < 1e-15);
        }
    }
}

/* Momentum, decay and Adam's states never revive what is masked; what is not is as without a mask. */
static void test_masks(void **unused)
{
    static const uint8_t keep[3] = {1, 0, 1};

    (void)unused;
    for (size_t k = 0; k < sizeof goldens / sizeof *goldens; k++) {
        double w[3];

        run(goldens[k].update, goldens[k].has_m, w, keep);
        assert_true(fabs(w[0] - goldens[k].w[0]) < 1e-15 && w[1] == 0 && fabs(w[2] - goldens[k].w[2]) < 1e-15);
    }
}

static void test_f32(void **unused)
{
    const struct vc_update adam = {
        .kind = VC_UPDATE_ADAM, .lr = 0.1, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .t = 1};
    float w[2] = {1, 2};
    float g[2] = {0.5f, -3};
    float m[2] = {0};
    float v[2] = {0};

    (void)unused;
    vc_update_f32(&adam, 2, w, g, m, v, NULL);
    assert_true(fabsf(w[0] - 0.9f) < 1e-6f && fabsf(w[1] - 2.1f) < 1e-6f);
}

/* ---- coded states ---- */

static struct vc_dynamic_maps maps;

/* The nearest entry, by looking at all. */
static unsigned nearest(const struct vc_dynamic_map *map, float x)
{
    unsigned best = 0;

    for (unsigned i = 1; i < 256; i++) {
        double here = fabs((double)map->value[i] - (double)x);
        double there = fabs((double)map->value[best] - (double)x);

        best = here < there || (here == there && fabsf(map->value[i]) < fabsf(map->value[best])) ? i : best;
    }
    return best;
}

static void expect_code(float x)
{
    unsigned wanted = nearest(&maps.with_sign, x);
    float before = nextafterf(x, 0);

    wanted = x < 0 && wanted == maps.with_sign.zero ? wanted - 1 : wanted;
    /* At a border between two codes that is not a float itself, the rounded one decides. */
    assert_true(vc_dynamic_code(&maps.with_sign, x) == wanted ||
                vc_dynamic_code(&maps.with_sign, before) == nearest(&maps.with_sign, before));
    if (x >= 0) {
        wanted = nearest(&maps.without, x);
        assert_true(vc_dynamic_code(&maps.without, x) == wanted || nearest(&maps.without, before) != wanted);
    }
}

static void test_codes(void **unused)
{
    (void)unused;
    vc_dynamic_maps_make(&maps);
    for (unsigned k = 0; k < 2; k++) {
        const struct vc_dynamic_map *map = k == 0 ? &maps.with_sign : &maps.without;

        assert_true(map->value[map->zero] == 0 && map->value[255] == 1 && map->zero == (k == 0 ? 127 : 0));
        for (unsigned i = 0; i < 256; i++) {
            assert_true(i == 0 || map->value[i] > map->value[i - 1]);
            assert_int_equal(vc_dynamic_code(map, map->value[i]), i);
        }
    }
    assert_true(fabsf(maps.with_sign.value[0] + 0.992969f) < 1e-6f);
    assert_true(fabsf(maps.with_sign.value[128] / 5.5e-7f - 1) < 1e-6f);
    assert_true(fabsf(maps.without.value[1] / 3.25e-7f - 1) < 1e-6f);
    for (int i = -4000; i <= 4000; i++) {
        expect_code((float)i / 4000);
        expect_code(ldexpf(1 + (float)(i < 0 ? -i : i) / 4096, -(i < 0 ? -i : i) % 26 - 1) * (i < 0 ? -1 : 1));
    }
    for (unsigned i = 0; i < 128; i++) { /* beside every border */
        expect_code(nextafterf(maps.with_sign.border[i], 0));
        expect_code(-nextafterf(maps.with_sign.border[i], 2));
        expect_code(nextafterf(maps.without.border[i], 2));
    }
    assert_int_equal(vc_dynamic_code(&maps.with_sign, -1e-30f), 126); /* what is negative stays so */
    assert_int_equal(vc_dynamic_code(&maps.with_sign, 1e-30f), 127);
    assert_int_equal(vc_dynamic_code(&maps.with_sign, -0.0f), 127);
    assert_int_equal(vc_dynamic_code(&maps.with_sign, -1), 0);
    assert_int_equal(vc_dynamic_code(&maps.without, NAN), 255);
}

#define CODED 700 /* two blocks and a part */

/* Against AdamW with plain states: the first step is the same, and what is kept of the states is near, and masks hold.
 */
static void test_coded(void **unused)
{
    const struct vc_update update = {
        .kind = VC_UPDATE_ADAMW, .lr = 0.01, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .decay = 0.1, .t = 1};
    float w[2][CODED], g[2][CODED], m[CODED] = {0}, v[CODED] = {0};
    uint8_t m_codes[CODED] = {0}, v_codes[CODED] = {0}, keep[CODED];
    float m_factors[3] = {0}, v_factors[3] = {0};
    const struct vc_coded_states states = {&maps, m_codes, v_codes, m_factors, v_factors};

    (void)unused;
    vc_dynamic_maps_make(&maps);
    for (unsigned i = 0; i < CODED; i++) {
        w[0][i] = w[1][i] = 1 - (float)i / 500;
        g[0][i] = g[1][i] = ((float)(i * 37 % 101) - 50) * (i < 256 ? 1 : 1e-3f);
        keep[i] = i % 5 != 0;
    }
    vc_update_f32(&update, CODED, w[0], g[0], m, v, keep);
    vc_update_coded_f32(&update, CODED, w[1], g[1], &states, keep);
    assert_memory_equal(w[0], w[1], sizeof w[0]);
    assert_true(m_factors[0] == 5.0f && m_factors[1] < 0.01f && v_factors[2] > 0);
    for (unsigned i = 0; i < CODED; i++) {
        float m_back = maps.with_sign.value[m_codes[i]] * m_factors[i / 256];
        float v_back = maps.without.value[v_codes[i]] * v_factors[i / 256];

        assert_true(fabsf(m_back - m[i]) <= 0.01f * m_factors[i / 256] && (m[i] != 0 || m_back == 0));
        assert_true(fabsf(v_back - v[i]) <= 0.01f * v_factors[i / 256] && (v[i] != 0 || v_back == 0));
        assert_true(keep[i] != 0 || (w[1][i] == 0 && m_codes[i] == maps.with_sign.zero && v_codes[i] == 0));
    }
    for (unsigned t = 2; t < 40; t++) { /* states that overflow keep their codes in range */
        struct vc_update next = update;

        next.t = t;
        for (unsigned i = 0; i < CODED; i++) {
            g[1][i] = 1e25f;
        }
        vc_update_coded_f32(&next, CODED, w[1], g[1], &states, keep);
    }
    for (unsigned i = 0; i < CODED; i++) {
        assert_true(isfinite(w[1][i]) && isfinite(v_factors[i / 256]));
    }
}

static void expect_rate(const struct vc_lr_plan *plan, uint64_t k, double wanted)
{
    assert_true(fabs(vc_lr_of(plan, k) - wanted) < 1e-15);
}

static void test_rates(void **unused)
{
    struct vc_lr_plan plan = {.schedule = VC_SCHEDULE_CONSTANT, .lr = 0.8, .n_steps = 12, .warmup = 4};

    (void)unused;
    expect_rate(&plan, 0, 0.2);
    expect_rate(&plan, 3, 0.8);
    expect_rate(&plan, 11, 0.8);
    plan.schedule = VC_SCHEDULE_COSINE;
    expect_rate(&plan, 4, 0.8);
    expect_rate(&plan, 8, 0.4);
    plan.schedule = VC_SCHEDULE_LINEAR;
    expect_rate(&plan, 2, 0.6);
    expect_rate(&plan, 6, 0.6);
    plan.schedule = VC_SCHEDULE_STEP;
    plan.every = 3;
    plan.factor = 0.5;
    expect_rate(&plan, 6, 0.8);
    expect_rate(&plan, 7, 0.4);
    expect_rate(&plan, 10, 0.2);
    plan.warmup = 0;
    expect_rate(&plan, 0, 0.8);
}

static void test_sums(void **unused)
{
    double x[19];
    float y[19];

    (void)unused;
    for (int i = 0; i < 19; i++) {
        x[i] = i;
        y[i] = (float)i;
    }
    assert_true(vc_square_sum_f64(x, 19) == 2109 && vc_square_sum_f32(y, 19) == 2109);
    assert_int_equal(vc_first_nonfinite_f64(x, 19), 19);
    x[17] = INFINITY;
    y[3] = NAN;
    assert_int_equal(vc_first_nonfinite_f64(x, 19), 17);
    assert_int_equal(vc_first_nonfinite_f32(y, 19), 3);
    vc_scale_f32(y, 3, 0.5);
    assert_true(y[2] == 1);
}

/* The vectors that Random123 ships for philox4x32-10 (kat_vectors). */
static void test_philox(void **unused)
{
    static const struct {
        uint32_t counter[4], key[2], out[4];
    } known[] = {
        {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
         {0xffffffff, 0xffffffff},
         {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         {0xa4093822, 0x299f31d0},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };

    (void)unused;
    for (size_t k = 0; k < sizeof known / sizeof *known; k++) {
        uint32_t out[4];

        vc_philox(known[k].counter, known[k].key, out);
        assert_memory_equal(out, known[k].out, sizeof out);
    }
}

static void test_order(void **unused)
{
    uint64_t order[50], again[50];
    unsigned first[4] = {0};
    bool seen[50] = {false};

    (void)unused;
    vc_random_order(7, 2, order, 50);
    vc_random_order(7, 2, again, 50);
    assert_memory_equal(order, again, sizeof order);
    vc_random_order(7, 3, again, 50);
    assert_memory_not_equal(order, again, sizeof order);
    for (size_t i = 0; i < 50; i++) {
        assert_true(order[i] < 50 && !seen[order[i]]);
        seen[order[i]] = true;
    }
    for (uint64_t stream = 0; stream < 4000; stream++) { /* every number is first about as often */
        vc_random_order(1, stream, order, 4);
        first[order[0]]++;
    }
    for (size_t i = 0; i < 4; i++) {
        assert_in_range(first[i], 900, 1100);
    }
}

/* Three steps of 37 weights, and a sum of squares: the bits of the definition. */
static void check_level(const struct vc_step_table *level, const struct vc_step_table *definition)
{
    const struct vc_step_table *tables[2] = {definition, level};
    static const enum vc_update_kind kinds[] = {VC_UPDATE_SGD, VC_UPDATE_ADAM, VC_UPDATE_ADAMW};

    for (size_t kind = 0; kind < 3; kind++) {
        float of[2][4][37] = {{{0}}};
        double squares[2];

        for (size_t which = 0; which < 2; which++) {
            float(*a)[37] = of[which];

            for (uint64_t step = 1; step <= 3; step++) {
                const struct vc_update u = {.kind = kinds[kind],
                                            .lr = 0.01,
                                            .momentum = 0.9,
                                            .beta1 = 0.9,
                                            .beta2 = 0.999,
                                            .eps = 1e-8,
                                            .decay = 0.1,
                                            .t = step};

                for (size_t i = 0; i < 37; i++) {
                    a[1][i] = (float)((double)(vc_random_bits(5, step, i) >> 11) * 0x1p-53 - 0.5);
                }
                tables[which]->update(&u, 37, a[0], a[1], a[2], kind == 0 ? NULL : a[3], NULL);
            }
            squares[which] = tables[which]->square_sum(a[0], 37);
        }
        assert_memory_equal(of[1], of[0], sizeof of[0]);
        assert_true(squares[1] == squares[0] && squares[0] > 0);
    }
}

static void test_levels(void **unused)
{
    (void)unused;
    if (vc_cpu_has(VC_CPU_AVX2) && vc_step_table_f32_avx2() != NULL) {
        check_level(vc_step_table_f32_avx2(), vc_step_table_f32());
    }
    if (vc_cpu_has(VC_CPU_AVX512) && vc_step_table_f32_avx512() != NULL) {
        check_level(vc_step_table_f32_avx512(), vc_step_table_f32());
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_optimizers), cmocka_unit_test(test_masks), cmocka_unit_test(test_f32),
        cmocka_unit_test(test_rates),      cmocka_unit_test(test_sums),  cmocka_unit_test(test_philox),
        cmocka_unit_test(test_order),      cmocka_unit_test(test_codes), cmocka_unit_test(test_coded),
        cmocka_unit_test(test_levels),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
