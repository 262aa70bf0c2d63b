/* test_glob.c - the globs that select tensors by name: a table of pattern, name and answer, written by hand; and
 * patterns for which a recursive matcher would take exponential time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/text/glob.h"

static void test_matches(void **unused)
{
    static const char *const yes[][2] = {{"", ""},
                                         {"*", ""},
                                         {"*", "anything.at/all"},
                                         {"fc1.weight", "fc1.weight"},
                                         {"*.weight", "layers.0.weight"},
                                         {"layers.*.attn.*", "layers.12.attn.q.weight"},
                                         {"*a*b*c", "xxaxxbxxbc"},
                                         {"fc?.weight", "fc2.weight"},
                                         {"fc[12].weight", "fc2.weight"},
                                         {"fc[0-9].weight", "fc7.weight"},
                                         {"fc[!3-9].weight", "fc2.weight"},
                                         {"[]]", "]"},
                                         {"[!]]", "a"},
                                         {"[a-]", "-"},
                                         {"a\\*b", "a*b"},
                                         {"a\\[", "a["},
                                         {"a[", "a["},
                                         {"**", "x"},
                                         {"*a[bc]", "aab"},
                                         {"*?c", "abc"},
                                         {"*b*", "abbc"},
                                         {"*ab", "aab"},
                                         {"*a*", "a"},
                                         {"*ab*c*", "xaxabxc"},
                                         {"a\\", "a\\"},
                                         {"*a[", "xa["},
                                         {"*\\*", "ab*"},
                                         {"\xc3\xa9*", "\xc3\xa9t\xc3\xa9"}};
    static const char *const no[][2] = {{"", "a"},      {"a", ""},        {"fc1", "fc1.weight"}, {"*.bias", "w"},
                                        {"?", ""},      {"?", "ab"},      {"[12]", "3"},         {"[!12]", "1"},
                                        {"[a-c]", "d"}, {"a\\*b", "axb"}, {"*a*b*c", "abab"},    {"A", "a"},
                                        {"a*b", "ac"},  {"[z-a]", "m"},   {"fc[0-9]", "fc"},     {"*abc", "bc"},
                                        {"*b*", "ac"},  {"*ab?", "abab"}, {"*\\?", "ab"},        {"*ab*c", "xaxabx"}};

    (void)unused;
    for (size_t i = 0; i < sizeof yes / sizeof yes[0]; i++) {
        struct vc_glob_set set = {.n = 2, .globs = {"none of them", yes[i][0]}};

        if (!vc_glob_match(yes[i][0], yes[i][1]) || vc_glob_set_find(&set, yes[i][1]) != 1) {
            fail_msg("%s does not match %s", yes[i][0], yes[i][1]);
        }
    }
    for (size_t i = 0; i < sizeof no / sizeof no[0]; i++) {
        struct vc_glob_set set = {.n = 1, .globs = {no[i][0]}};

        if (vc_glob_match(no[i][0], no[i][1]) || vc_glob_set_find(&set, no[i][1]) != SIZE_MAX) {
            fail_msg("%s matches %s", no[i][0], no[i][1]);
        }
    }
}

/* Recursive matchers take exponential time for this. */
static void test_no_blowup(void **unused)
{
    static char name[20001];
    char glob[101];

    (void)unused;
    memset(name, 'a', sizeof name - 1);
    for (int i = 0; i < 100; i += 2) {
        glob[i] = '*';
        glob[i + 1] = 'a';
    }
    glob[99] = 'b';
    glob[100] = '\0';
    assert_false(vc_glob_match(glob, name));
}

/* The first of several that match, with and without four characters in a row, of names that are shorter. */
static void test_set_order(void **unused)
{
    static struct vc_glob_set set = {.n = 6,
                                     .globs = {"*.gate.weight", "*norm*", "*weight", "a?b", "*[n]orms", "*.gate.*"}};

    (void)unused;
    assert_int_equal(vc_glob_set_find(&set, "h.0.gate.weight"), 0);
    assert_int_equal(vc_glob_set_find(&set, "h.norm.gate.weight"), 0);
    assert_int_equal(vc_glob_set_find(&set, "h.norms"), 1);
    assert_int_equal(vc_glob_set_find(&set, "weight"), 2);
    assert_int_equal(vc_glob_set_find(&set, "h.gate_proj.weight"), 2);
    assert_int_equal(vc_glob_set_find(&set, "axb"), 3);
    assert_int_equal(vc_glob_set_find(&set, "h.gate.bias"), 5);
    assert_int_equal(vc_glob_set_find(&set, "h.gates"), SIZE_MAX);
    assert_int_equal(vc_glob_set_find(&set, "abc"), SIZE_MAX);
    assert_int_equal(vc_glob_set_find(&set, ""), SIZE_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_matches),
        cmocka_unit_test(test_no_blowup),
        cmocka_unit_test(test_set_order),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
