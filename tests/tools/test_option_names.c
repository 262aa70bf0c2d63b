/* test_option_names.c - what sentences call the options: every field of every command's tables has its option's name,
 * however many there are. Judge: the names written here. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <vcompress/context.h>

#include "core/base/ctx.h"
#include "tools/options/options.h"

#define MANY 400

static char many_names[MANY][16], many_fields[MANY][16];
static struct opt many_opts[MANY];
static const struct opt few_opts[] = {
    {.name = "output", .letter = 'o', .by_letter = true, .option = "write.path"},
    {.name = "min-elements", .letter = 'm', .option = "quantize.min_elems"},
    {.name = "help"},
};
static const struct opt own_opts[] = {{.name = "least", .option = "min_elems"}};
static struct opt_group many_group = {.opts = many_opts, .n_opts = MANY};
static const struct opt_group few_group = {.opts = few_opts, .n_opts = 3}, own_group = {.opts = own_opts, .n_opts = 1};
static const struct opt_group *const few_groups[] = {&few_group}, *const many_groups[] = {&few_group, &many_group},
                                     *const own_groups[] = {&own_group};
static const struct command few = {.name = "few", .groups = few_groups, .n_groups = 1};
static const struct command own = {.name = "own", .groups = own_groups, .n_groups = 1};
static const struct command many = {.name = "many", .groups = many_groups, .n_groups = 2};

const struct command *const commands[] = {&few, &many};
const size_t n_commands = 2;

static struct vc_ctx *ctx;

static int make(void **unused)
{
    (void)unused;
    for (unsigned i = 0; i < MANY; i++) {
        snprintf(many_names[i], sizeof many_names[i], "name-%u", i);
        snprintf(many_fields[i], sizeof many_fields[i], "field_%u", i);
        many_opts[i] = (struct opt){.name = many_names[i], .option = many_fields[i]};
    }
    return vc_ctx_create(&ctx) == VC_OK ? 0 : -1;
}

static int unmake(void **unused)
{
    (void)unused;
    vc_ctx_free(ctx);
    return 0;
}

static void test_names(void **unused)
{
    (void)unused;
    option_names_set(ctx, &few);
    assert_string_equal(vc_option(ctx, "path"), "-o");
    assert_string_equal(vc_option(ctx, "min_elems"), "--min-elements");
    assert_string_equal(vc_option(ctx, "vc_index_write"), "'vcompress index'");
    assert_string_equal(vc_option(ctx, "help"), "help");     /* fills no field: the word stays */
    assert_string_equal(vc_option(ctx, "write.path"), "-o"); /* a field of a structure within the options */
    assert_string_equal(vc_option(ctx, "rite.path"), "rite.path");
    assert_ptr_equal(vc_option(ctx, "min_elems"), vc_option(ctx, "min_elems"));
    option_names_set(ctx, &own); /* the command's own options come first */
    assert_string_equal(vc_option(ctx, "min_elems"), "--least");
    assert_string_equal(vc_option(ctx, "path"), "-o");
}

/* The last one, too, of more options than there ever were; and what was given before stays as it is. */
static void test_all(void **unused)
{
    const char *kept[MANY];

    (void)unused;
    option_names_set(ctx, &few);
    for (unsigned i = 0; i < MANY; i++) {
        kept[i] = vc_option(ctx, many_fields[i]);
    }
    for (unsigned i = 0; i < MANY; i++) {
        assert_memory_equal(kept[i], "--", 2);
        assert_string_equal(kept[i] + 2, many_names[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_names, make, unmake),
        cmocka_unit_test_setup_teardown(test_all, make, unmake),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
