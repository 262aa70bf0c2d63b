/* test_print.c - what the command prints with: the time that is left, lines that keep to a width, and words for a
 * shell. Judge: texts written by hand, the width of every line, and sh. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <vcompress/report.h>

#include "tools/print.h"

static void test_left(void **unused)
{
    static const struct {
        double seconds, part;
        const char *text;
    } cases[] = {{1.9, 0.5, ""},
                 {10, 0.005, ""},
                 {10, 1, ""},
                 {10, 0.5, "10 s left"},
                 {2, 0.04, "48 s left"},
                 {60, 0.5, "1:00 left"},
                 {5, 0.02, "4:05 left"},
                 {3600, 0.5, "1:00:00 left"},
                 {90, 0.02, "1:13:30 left"},
                 {59.6, 0.5, "1:00 left"},
                 {1e6, 0.011, ""}};
    char buf[CELL_BYTES];

    (void)unused;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_string_equal(fmt_left(buf, cases[i].seconds, cases[i].part), cases[i].text);
    }
}

/* Prints `text` with lines of at most 60 columns, and returns what arrives. */
static char *wrapped(const char *text, bool limited)
{
    static char seen[4096];
    FILE *file = tmpfile();
    struct out out = {.to = file, .width = 60, .limited = limited, .color = true};
    size_t n;

    assert_non_null(file);
    out_begin_wrapping(&out);
    fputs(text, out.to);
    out_flush(&out);
    out_end(&out);
    assert_ptr_equal(out.to, file);
    rewind(file);
    n = fread(seen, 1, sizeof(seen) - 1, file);
    seen[n] = '\0';
    fclose(file);
    return seen;
}

static void test_wrap(void **unused)
{
    const char *plain = "short\n\n  two  blanks stay\nno end";
    const char *wide = "  note: one two three four five six seven eight nine ten eleven twelve\n";
    const char *word = "a_single_word_that_is_wider_than_the_sixty_columns_which_it_may_take\n";
    const char *line = "  vcompress quantize --exclude 'one two three' four five six seven eight nine ten eleven\n";
    const char *ink = "\033[33mnote:\033[0m one two three four five six seven eight nine ten elev\n";

    (void)unused;
    assert_string_equal(wrapped(plain, true), plain);
    assert_string_equal(wrapped(wide, false), wide);
    assert_string_equal(wrapped(wide, true),
                        "  note: one two three four five six seven eight nine ten\n    eleven twelve\n");
    assert_string_equal(wrapped(word, true), word);
    assert_string_equal(wrapped("e\033]0;title\007 \302\233\n", true),
                        "e?]0;title? ?\n"); /* a name that nobody cleaned */
    assert_string_equal(wrapped(line, true), line);
    assert_string_equal(wrapped(ink, true), ink); /* 58 columns and two colours */
}

/* twice: the rows are measured first, and not kept. headed: the first row is the headings. */
static char *printed_so(const char *align, const char *const (*rows)[8], size_t n, bool shorten, bool twice,
                        bool headed)
{
    static char seen[4096];
    FILE *file = tmpfile();
    struct out out = {.to = file, .width = 60, .limited = true};
    struct table table = {.failed = false};
    size_t bytes;

    assert_non_null(file);
    if (twice) {
        table_measure(&table);
    }
    for (size_t pass = 0; pass < (twice ? 2 : 1); pass++) {
        if (pass == 1) {
            table_again(&table, &out);
        }
        for (size_t i = headed; i < n; i++) {
            for (size_t c = 0; align[c] != '\0'; c++) {
                char *heading = strdup(headed ? rows[0][c] : ""); /* the table keeps none of its arguments */

                table_cell(&table, align[c], heading, INK_NONE, rows[i][c]);
                free(heading);
            }
            table_end_row(&table);
        }
    }
    assert_true(table_print(&table, &out, shorten));
    rewind(file);
    bytes = fread(seen, 1, sizeof(seen) - 1, file);
    seen[bytes] = '\0';
    fclose(file);
    return seen;
}

/* A table with headings, whose only row was none. */
static char *headings_alone(void)
{
    static char seen[64];
    FILE *file = fmemopen(seen, sizeof seen, "w");
    struct out out = {.to = file, .width = 60};
    struct table table = {.failed = false};

    assert_non_null(file);
    table_cell(&table, 'l', "tensor", INK_NONE, "a name");
    table_cell(&table, 'r', "size", INK_NONE, "1 B");
    table_end_row(&table);
    table_drop_row(&table);
    assert_true(table_print(&table, &out, true));
    fclose(file);
    return seen;
}

static char *printed(const char *align, const char *const (*rows)[8], size_t n, bool shorten)
{
    return printed_so(align, rows, n, shorten, false, false);
}

static void test_tables(void **unused)
{
    static const char *const rows[][8] = {
        {"tensor", "shape", "size"},
        {"model.layers.1.self_attention.query_key_value.weight", "4096x64", "1.00 MiB"},
    };
    static const char *const many[][8] = {
        {"w", "aaaaaaaaaaaaaaaaaaaa", "bbbbbbbbbbbbbbbbbbbb", "cccccccccccccccccccc", "1"},
        {"x", "a", "", "c", "12"},
    };
    static const char *const dirty[][8] = {{"a\033b", "\u00b7"}, {"c", "d"}};
    static const char *const sentence[][8] = {
        {"file", "3.12 MiB", "a sentence that goes on for longer than there is room in it"},
    };

    (void)unused;
    assert_string_equal(printed("llr", rows, 2, true),
                        "  tensor                                   shape        size\n"
                        "  model.layers...n.query_key_value.weight  4096x64  1.00 MiB\n");
    assert_string_equal(printed_so("llr", rows, 2, true, false, true),
                        "  tensor                                   shape        size\n"
                        "  model.layers...n.query_key_value.weight  4096x64  1.00 MiB\n");
    assert_string_equal(printed_so("llr", rows, 1, true, false, true), ""); /* no row, no headings */
    assert_string_equal(printed_so("llr", rows, 1, true, true, true), "");
    assert_string_equal(headings_alone(), "  tensor  size\n");
    assert_string_equal(printed("llr", rows, 2, false),
                        "  tensor\n    shape        size\n"
                        "  model.layers.1.self_attention.query_key_value.weight\n    4096x64  1.00 MiB\n");
    assert_string_equal(printed("llllr", many, 2, true),
                        "  w\n    aaaaaaaaaaaaaaaaaaaa  bbbbbbbbbbbbbbbbbbbb\n    cccccccccccccccccccc   1\n"
                        "  x\n    a\n    c                     12\n");
    assert_string_equal(printed("lrl", sentence, 1, false),
                        "  file  3.12 MiB  a sentence that goes on for longer than\n"
                        "                  there is room in it\n");
    /* without keeping the rows */
    assert_string_equal(printed_so("llr", rows, 2, false, true, true),
                        "  tensor\n    shape        size\n"
                        "  model.layers.1.self_attention.query_key_value.weight\n    4096x64  1.00 MiB\n");
    assert_string_equal(printed_so("lrl", sentence, 1, false, true, false),
                        "  file  3.12 MiB  a sentence that goes on for longer than\n"
                        "                  there is room in it\n");
    assert_string_equal(printed_so("ll", dirty, 2, false, true, true), "  a?b  \u00b7\n  c    d\n");
}

/* What `say` prints: only the format ends lines, and a name is harmless in it. */
static void test_say(void **unused)
{
    char *text = NULL;
    size_t n;
    FILE *to = open_memstream(&text, &n);

    (void)unused;
    assert_non_null(to);
    say(to, "\n%s: %d of %s\n", "a\033[2J\nwrote b", 3, "\u00b7\n");
    say(to, "%s", "");
    say(to, "%s", "\n");
    say(to, "\n");
    assert_int_equal(fclose(to), 0);
    assert_string_equal(text, "\na?[2J?wrote b: 3 of \u00b7?\n?\n");
    free(text);
}

/* Numbers of every size, ties and their neighbours: as printf has them. */
static void test_reals(void **unused)
{
    static const double few[] = {0,      -0.0,   1,       -1,      0.5,     999,    999.4,    999.5,   999.49999, 1000,
                                 1e300,  1e-300, 1e-4,    9.995,   99.95,   0.1235, 1.235,    1.245,   12.25,     122.5,
                                 0.0001, 0.1,    0.09999, 0.99949, 0.99950, 100,    0.000123, 0.00099, INFINITY,  NAN};
    uint64_t state = 1;

    (void)unused;
    for (size_t i = 0; i < 600000; i++) {
        char want[CELL_BYTES];
        char got[CELL_BYTES];
        double x;

        state = state * 6364136223846793005u + 1442695040888963407u;
        x = (double)(int64_t)state / 9223372036854775808.0;
        if (i < sizeof(few) / sizeof(few[0])) {
            x = few[i];
        } else if (i % 3 == 0) { /* four digits: half of them are ties */
            x = (double)(int)(x * 20000) / pow(10, (double)(i / 3 % 9));
            x = i % 2 == 0 ? x : nextafter(x, 0);
        } else {
            x *= pow(10, (double)(i % 14) - 8);
        }
        snprintf(want, sizeof(want), "%.3g", x);
        assert_string_equal(fmt_real(got, x), want);
    }
}

/* Words of command lines, as sh has them again. */
static void test_shell_words(void **unused)
{
    static const char *const words[] = {"",
                                        "plain-1.0_a/b:c=d,e+f@g%",
                                        "it's",
                                        "a b",
                                        "$(x) `y` $z \\ \"q\"",
                                        "l*?[x]",
                                        "-o",
                                        "~",
                                        "#a",
                                        "a;b&c",
                                        "%s%d\n",
                                        "-\033x",
                                        "\377\376",
                                        "100%\t%s",
                                        "\033[31m'%'",
                                        "\\n\t",
                                        "new\nline",
                                        "at the end\n",
                                        "\n\n",
                                        "c1 \302\2331m",
                                        "\177",
                                        "b\303\244r"};

    (void)unused;
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        char *word = vc_shell_word(words[i]);
        char command[512];
        char seen[128];
        FILE *sh;

        assert_non_null(word);
        (void)snprintf(command, sizeof(command), "printf '%%s' %s", word);
        sh = popen(command, "r");
        assert_non_null(sh);
        seen[fread(seen, 1, sizeof(seen) - 1, sh)] = '\0';
        assert_int_equal(pclose(sh), 0);
        assert_string_equal(seen, words[i]);
        for (const char *c = word; *c != '\0'; c++) {
            assert_true((unsigned char)*c >= 0x20 || *c == '\n');
        }
        vc_text_free(word);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reals),  cmocka_unit_test(test_left),        cmocka_unit_test(test_wrap),
        cmocka_unit_test(test_tables), cmocka_unit_test(test_shell_words), cmocka_unit_test(test_say),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
