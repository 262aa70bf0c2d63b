/* test_array.c - arrays that grow, from the pool and in an arena: old items, zeros, capacities, and memory that is
 * short. */
#include "support.h"

#include "core/base/array.h"

struct list {
    uint32_t *items;
    size_t n, capacity;
};

static void fill(struct list *list)
{
    for (; list->n < list->capacity; list->n++) {
        list->items[list->n] = (uint32_t)(7 * list->n + 1);
    }
}

/* The first n items are those of fill. */
static void expect_filled(const struct list *list)
{
    for (size_t i = 0; i < list->n; i++) {
        assert_int_equal(list->items[i], 7 * i + 1);
    }
}

static enum vc_status grow(struct vc_ctx *ctx, struct vc_arena *arena, struct list *list, size_t need)
{
    return arena != NULL ? VC_ARENA_GROW(ctx, arena, list->items, list->capacity, need)
                         : VC_GROW(ctx, VC_TAG_MISC, list->items, list->capacity, need);
}

static enum vc_status reserve(struct vc_ctx *ctx, struct vc_arena *arena, struct list *list, size_t room)
{
    return arena != NULL ? VC_ARENA_RESERVE(ctx, arena, list->items, list->capacity, room)
                         : VC_RESERVE(ctx, VC_TAG_MISC, list->items, list->capacity, room);
}

static void check(struct vc_ctx *ctx, struct vc_arena *arena)
{
    struct list list = {NULL, 0, 0};
    uint32_t *before;

    assert_int_equal(grow(ctx, arena, &list, 1), VC_OK);
    assert_int_equal(list.capacity, 16);
    fill(&list);
    assert_int_equal(grow(ctx, arena, &list, 17), VC_OK);
    assert_int_equal(list.capacity, 32);
    expect_filled(&list);
    for (size_t i = list.n; i < list.capacity; i++) {
        assert_int_equal(list.items[i], 0);
    }
    fill(&list);
    assert_int_equal(grow(ctx, arena, &list, 1000), VC_OK);
    assert_int_equal(list.capacity, 1000);
    assert_int_equal(reserve(ctx, arena, &list, 1001), VC_OK);
    assert_int_equal(list.capacity, 1001);
    expect_filled(&list);

    before = list.items;
    assert_int_equal(grow(ctx, arena, &list, 1001), VC_OK); /* enough */
    assert_int_equal(reserve(ctx, arena, &list, 3), VC_OK);
    assert_ptr_equal(list.items, before);
    assert_int_equal(list.capacity, 1001);

    assert_int_equal(reserve(ctx, arena, &list, SIZE_MAX / 2), VC_E_NOMEM);
    expect_says(ctx, "do not fit an address space");
    assert_int_equal(grow(ctx, arena, &list, (size_t)1 << 28), VC_E_NOMEM);
    expect_says(ctx, "max_memory is 67108864 bytes");
    assert_ptr_equal(list.items, before);
    assert_int_equal(list.capacity, 1001);
    expect_filled(&list);
    if (arena == NULL) {
        vc_free(ctx, list.items);
    }
}

static void test_array(void **state)
{
    struct vc_ctx *ctx = test_ctx();
    struct vc_arena arena = {0};

    (void)state;
    assert_int_equal(vc_ctx_set_max_memory(ctx, (uint64_t)64 << 20), VC_OK);
    check(ctx, NULL);
    check(ctx, &arena);
    vc_arena_release(ctx, &arena);
    test_ctx_done(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_array)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
