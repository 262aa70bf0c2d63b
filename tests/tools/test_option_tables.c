/* test_option_tables.c - the tables of options of all commands: within a command each option has a name and a letter of
 * its own, each has a help, and a short option's value is told; words of enums are the library's. Judge: the tables
 * themselves. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tools/commands/commands.h"
#include "tools/options/distill_words.h"

#define MOST 400

/* The options of a command, in the order of --help. */
static size_t list_options(const struct command *command, const struct opt **out)
{
    size_t n = 0;

    for (size_t g = 0; g < command->n_groups; g++) {
        for (size_t i = 0; i < command->groups[g]->n_opts; i++) {
            assert_true(n < MOST);
            out[n++] = &command->groups[g]->opts[i];
        }
    }
    return n;
}

static void check(const struct command *command)
{
    const struct opt *opts[MOST];
    size_t n = list_options(command, opts);

    for (size_t i = 0; i < n; i++) {
        assert_non_null(opts[i]->help);
        for (size_t k = 0; k < i; k++) {
            if (strcmp(opts[i]->name, opts[k]->name) == 0) {
                fail_msg("%s has two options --%s", command->name, opts[i]->name);
            }
            if (opts[i]->letter != 0 && opts[i]->letter == opts[k]->letter) {
                fail_msg("%s: -%c is --%s and --%s", command->name, opts[i]->letter, opts[i]->name, opts[k]->name);
            }
        }
    }
}

static void test_own_names(void **unused)
{
    (void)unused;
    assert_true(n_commands > 20);
    for (size_t c = 0; c < n_commands; c++) {
        check(commands[c]);
    }
    check(&command_model);
}

/* What --help has: options of the command, each once, ten at most. */
static void check_first(const struct command *command)
{
    const struct opt *opts[MOST];
    size_t n = list_options(command, opts);
    size_t n_words = 0;

    for (const char *at = command->first; at != NULL && *at != '\0'; at += strspn(at, " ")) {
        size_t length = strcspn(at, " ");
        size_t found = 0;

        for (size_t i = 0; i < n; i++) {
            found += strlen(opts[i]->name) == length && memcmp(opts[i]->name, at, length) == 0;
        }
        if (found != 1) {
            fail_msg("%s has no option --%.*s", command->name, (int)length, at);
        }
        for (const char *other = command->first; other < at; other += strcspn(other, " ") + 1) {
            assert_false(strcspn(other, " ") == length && memcmp(other, at, length) == 0);
        }
        n_words++;
        at += length;
    }
    assert_true(n_words <= 10);
}

static void test_first_options(void **unused)
{
    (void)unused;
    for (size_t c = 0; c < n_commands; c++) {
        check_first(commands[c]);
    }
}

/* The first words of headings are what --help=PART takes: two headings of a command do not share one. */
static void test_parts_of_help(void **unused)
{
    (void)unused;
    for (size_t c = 0; c < n_commands; c++) {
        for (size_t g = 0; g < commands[c]->n_groups; g++) {
            for (size_t k = 0; k < g; k++) {
                const char *a = commands[c]->groups[g]->title;
                const char *b = commands[c]->groups[k]->title;

                if (strcmp(a, b) != 0 && strcspn(a, " ") == strcspn(b, " ") && memcmp(a, b, strcspn(a, " ")) == 0) {
                    fail_msg("%s: '%s' and '%s'", commands[c]->name, a, b);
                }
            }
        }
    }
}

/* ---- needs and conflicts ---- */

/* An option of the command by the first n letters of the name; NULL: it has none. */
static const struct opt *find(const struct opt *const *opts, size_t n_opts, const char *name, size_t n)
{
    for (size_t i = 0; i < n_opts; i++) {
        if (strlen(opts[i]->name) == n && memcmp(opts[i]->name, name, n) == 0) {
            return opts[i];
        }
    }
    return NULL;
}

/* The line has `opt` and, if it is an option, `other` with that value. */
static bool agrees(const struct opt *opt, const struct opt *other, const char *value, char error[512])
{
    struct parsed parsed = {.n_seen = 1, .seen = {opt}, .n_given = 1, .given = {{opt, "x"}}};
    bool agree;

    if (other != NULL) {
        parsed.seen[parsed.n_seen++] = other;
        parsed.given[parsed.n_given++] = (struct given){other, value};
    }
    agree = options_agree(&parsed);
    memcpy(error, parsed.error, sizeof parsed.error);
    return agree;
}

/* Each entry of a list of other options, "aim-bytes activations=static": the command has the option, and it takes the words.
 * With one of `needs` the option is taken, beside one of `conflicts` and without any of `needs` it is refused. */
static void check_list(const struct command *command, const struct opt *opt, const char *list, bool needed)
{
    const struct opt *opts[MOST];
    size_t n = list_options(command, opts);
    bool alone = opt->needs == NULL || opt->conflicts == NULL; /* nothing but this list decides */
    char error[512];

    if (needed) {
        assert_false(agrees(opt, NULL, NULL, error));
        assert_non_null(strstr(error, " works with --"));
        assert_true(strncmp(options_help(opt), "--", 2) == 0);
    }
    for (const char *at = list; *at != '\0'; at += strspn(at, " ")) {
        size_t length = strcspn(at, " ");
        size_t n_name = strcspn(at, "= ");
        const struct opt *other = find(opts, n, at, n_name);
        char value[64] = "x";

        if (other == NULL && needed) {
            fail_msg("%s --%s: there is no --%.*s", command->name, opt->name, (int)n_name, at);
        }
        if (other != NULL && n_name < length) {
            (void)snprintf(value, sizeof value, "%.*s", (int)strcspn(at + n_name + 1, "| "), at + n_name + 1);
            assert_non_null(strstr(options_value(other), value));
            assert_true(!alone || other->needs != NULL || agrees(opt, other, "no such word", error) == !needed);
        }
        if (other != NULL && !needed) {
            assert_false(agrees(opt, other, value, error));
            assert_non_null(strstr(error, " conflicts with "));
        } else if (other != NULL && other->needs == NULL && (alone || strstr(opt->conflicts, other->name) == NULL)) {
            assert_true(agrees(opt, other, value, error));
        }
        at += length;
    }
}

static void test_rows_about_other_rows(void **unused)
{
    size_t n_rows = 0;

    (void)unused;
    for (size_t c = 0; c < n_commands; c++) {
        const struct opt *opts[MOST];
        size_t n = list_options(commands[c], opts);

        for (size_t i = 0; i < n; i++) {
            if (opts[i]->needs != NULL) {
                check_list(commands[c], opts[i], opts[i]->needs, true);
            }
            if (opts[i]->conflicts != NULL) {
                check_list(commands[c], opts[i], opts[i]->conflicts, false);
            }
            n_rows += opts[i]->needs != NULL || opts[i]->conflicts != NULL;
        }
    }
    assert_true(n_rows > 50);
}

/* Words that the library lists: all of them, in place of the sign. */
static void test_listed_words(void **unused)
{
    size_t n_rows = 0;

    (void)unused;
    for (size_t c = 0; c < n_commands; c++) {
        const struct opt *opts[MOST];
        size_t n = list_options(commands[c], opts);

        for (size_t i = 0; i < n; i++) {
            for (size_t k = 0; opts[i]->listed != NULL && opts[i]->listed(k) != NULL; k++) {
                assert_non_null(strstr(options_help(opts[i]), opts[i]->listed(k)));
                n_rows++;
            }
            assert_null(strstr(options_help(opts[i]), "%s"));
        }
    }
    assert_true(n_rows > 10);
}

/* The words of a choice are different words with different meanings; the library's lists of tasks and losses have no gap. */
static void test_words_of_choices(void **unused)
{
    size_t n_choices = 0;
    size_t n;

    (void)unused;
    for (size_t c = 0; c < n_commands; c++) {
        const struct opt *opts[MOST];
        size_t n_opts = list_options(commands[c], opts);

        for (size_t i = 0; i < n_opts; i++) {
            const struct opt_word *words = opts[i]->words;

            assert_int_equal(words != NULL, opts[i]->kind == OPT_CHOICE && opts[i]->more == NULL);
            for (size_t a = 0; words != NULL && words[a].word != NULL; a++) {
                for (size_t b = 0; b < a; b++) {
                    assert_string_not_equal(words[a].word, words[b].word);
                    assert_int_not_equal(words[a].value, words[b].value);
                }
                n_choices++;
            }
        }
    }
    assert_true(n_choices > 60);
    for (n = 0; loss_word(n) != NULL; n++) {
    }
    assert_int_equal(n, VC_TEACHER_LOSS_HUBER + 1);
    for (n = 0; task_word(n) != NULL; n++) {
    }
    assert_int_equal(n, VC_NET_TASK_SPANS + 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_own_names),     cmocka_unit_test(test_first_options),
        cmocka_unit_test(test_parts_of_help), cmocka_unit_test(test_rows_about_other_rows),
        cmocka_unit_test(test_listed_words),  cmocka_unit_test(test_words_of_choices)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
