/* test_keys.c - the k-th smallest key found by counting, against sorting all of them. */
#include "support.h"

#include <stdlib.h>
#include <string.h>

#include "passes/scores/keys.h"

#define MOST_TENSORS 5
#define MOST_KEYS    700

struct tensor {
    struct vc_keys keys;
    size_t n;
    uint64_t key[MOST_KEYS];
    bool gone[MOST_KEYS]; /* as sorting says */
};

static uint64_t seed = 1;

static uint64_t draw(void)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return seed >> 20;
}

/* A key of that many bits; few different ones where `few`. */
static uint64_t draw_key(unsigned bits, bool few)
{
    uint64_t key = draw() << 20 ^ draw();

    key &= ((uint64_t)1 << bits) - 1;
    return few ? key & ~(((uint64_t)1 << (bits - 3)) - 1) : key;
}

/* The keys as values of their type, with any signs, at an odd address, in two tiles. */
static void add_few(struct tensor *t)
{
    static char values[MOST_KEYS * sizeof(uint64_t) + 1];
    size_t width = ((size_t)t->keys.bits + 1) / 8;

    for (size_t i = 0; i < t->n; i++) {
        uint64_t value = t->key[i] | (draw() & 1) << t->keys.bits;

        memcpy(values + 1 + i * width, &value, width);
    }
    vc_keys_add_few(&t->keys, values + 1, t->n / 3);
    vc_keys_add_few(&t->keys, values + 1 + t->n / 3 * width, t->n - t->n / 3);
}

/* One look at all keys, as the steps do it. */
static void look(struct vc_ctx *ctx, struct tensor *t)
{
    uint32_t *counts = calloc(t->keys.range.n_bins, sizeof *counts);

    assert_non_null(counts);
    assert_int_equal(vc_keys_begin(ctx, &t->keys), VC_OK);
    if (t->keys.few) {
        add_few(t);
        assert_int_equal(vc_keys_end(ctx, &t->keys), VC_OK);
        free(counts);
        return;
    }
    for (size_t i = 0; i < t->n; i++) {
        uint64_t d = t->key[i] - t->keys.range.first;

        if (t->key[i] >= t->keys.range.first && d >> t->keys.range.shift < t->keys.range.n_bins) {
            counts[d >> t->keys.range.shift]++;
        }
    }
    vc_keys_add(&t->keys, counts);
    assert_int_equal(vc_keys_end(ctx, &t->keys), VC_OK);
    free(counts);
}

/* Everything below the threshold, and the first ties. */
static void expect_cut(const struct tensor *t)
{
    uint64_t ties = 0;
    uint64_t equal = 0;

    assert_true(t->keys.done);
    for (size_t i = 0; i < t->n; i++) {
        bool tie = t->key[i] == t->keys.cut.threshold;
        bool gone = t->key[i] < t->keys.cut.threshold || (tie && ties < t->keys.cut.n_ties);

        ties += tie;
        equal += tie;
        assert_int_equal(gone, t->gone[i]);
    }
    if (t->keys.cut.n_ties != 0) {
        assert_int_equal(t->keys.n_equal, equal);
    }
}

/* An element in the order of all. */
struct place {
    uint64_t key;
    size_t tensor, index;
};

static int in_order(const void *a, const void *b)
{
    const struct place *x = a;
    const struct place *y = b;

    if (x->key != y->key) {
        return x->key < y->key ? -1 : 1;
    }
    if (x->tensor != y->tensor) {
        return x->tensor < y->tensor ? -1 : 1;
    }
    return x->index < y->index ? -1 : x->index > y->index;
}

/* Marks the first k of all tensors, of each at most its limit. */
static void sort_out(struct tensor *tensors, size_t n, uint64_t k)
{
    static struct place all[MOST_TENSORS * MOST_KEYS];
    uint64_t used[MOST_TENSORS] = {0};
    size_t m = 0;

    for (size_t t = 0; t < n; t++) {
        memset(tensors[t].gone, 0, sizeof tensors[t].gone);
        for (size_t i = 0; i < tensors[t].n; i++) {
            all[m++] = (struct place){tensors[t].key[i], t, i};
        }
    }
    qsort(all, m, sizeof *all, in_order);
    for (size_t i = 0; i < m && k != 0; i++) {
        struct tensor *t = &tensors[all[i].tensor];

        if (used[all[i].tensor] < t->keys.limit) {
            used[all[i].tensor]++;
            t->gone[all[i].index] = true;
            k--;
        }
    }
    assert_int_equal(k, 0);
}

static void one_tensor_by_itself(void **state)
{
    static const unsigned widths[] = {15, 31, 63};
    struct vc_ctx *ctx = test_ctx();
    static struct tensor t;

    (void)state;
    for (int round = 0; round < 300; round++) {
        unsigned bits = widths[round % 3];
        uint64_t k;
        int looks = 0;

        t.n = 1 + draw() % MOST_KEYS;
        k = round % 7 == 0 ? 0 : round % 7 == 1 ? t.n : draw() % (t.n + 1);
        for (size_t i = 0; i < t.n; i++) {
            t.key[i] = draw_key(bits, round % 2 == 0);
        }
        vc_keys_init(&t.keys, bits, t.n, k);
        t.keys.few = round % 4 < 2;
        sort_out(&t, 1, k);
        while (!t.keys.done) {
            look(ctx, &t);
            vc_keys_narrow(ctx, &t.keys);
            looks++;
        }
        assert_true(looks <= (bits == 15 ? 1 : bits == 31 ? 2 : 4));
        expect_cut(&t);
        vc_keys_release(ctx, &t.keys);
    }
    test_ctx_done(ctx);
}

static void many_tensors_share_a_threshold(void **state)
{
    static const unsigned widths[] = {15, 31, 63};
    struct vc_ctx *ctx = test_ctx();
    static struct tensor tensors[MOST_TENSORS];

    (void)state;
    for (int round = 0; round < 300; round++) {
        struct vc_keys *keys[MOST_TENSORS];
        unsigned bits = widths[round % 3];
        size_t n = 1 + draw() % MOST_TENSORS;
        uint64_t most = 0;
        uint64_t k;
        bool done = false;

        for (size_t t = 0; t < n; t++) {
            tensors[t].n = 1 + draw() % MOST_KEYS;
            for (size_t i = 0; i < tensors[t].n; i++) { /* some tensors are much smaller, and reach their limits */
                tensors[t].key[i] = draw_key(bits, round % 2 == 0) >> (t == 1 ? 6 : 0);
            }
            vc_keys_init(&tensors[t].keys, bits, tensors[t].n,
                         round % 5 == 0 ? tensors[t].n : draw() % (tensors[t].n + 1));
            tensors[t].keys.few = draw() % 2 == 0; /* in any mixture */
            most += tensors[t].keys.limit;
            keys[t] = &tensors[t].keys;
        }
        k = round % 11 == 0 ? 0 : round % 11 == 1 ? most : draw() % (most + 1);
        sort_out(tensors, n, k);
        while (!done) {
            for (size_t t = 0; t < n; t++) {
                if (!tensors[t].keys.done) {
                    look(ctx, &tensors[t]);
                }
            }
            assert_int_equal(vc_keys_narrow_together(ctx, keys, n, &k), VC_OK);
            done = true;
            for (size_t t = 0; t < n; t++) {
                done = done && tensors[t].keys.done;
            }
        }
        for (size_t t = 0; t < n; t++) {
            expect_cut(&tensors[t]);
            vc_keys_release(ctx, &tensors[t].keys);
        }
    }
    test_ctx_done(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(one_tensor_by_itself),
                                       cmocka_unit_test(many_tensors_share_a_threshold)};

    return cmocka_run_group_tests_name("keys", tests, NULL, NULL);
}
