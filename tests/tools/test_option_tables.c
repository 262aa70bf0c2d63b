/* test_option_tables.c - the tables of options of all commands: within a command each option has a name and a letter of
 * its own, each has a help, and a short option's value is told. Judge: the tables themselves. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tools/commands/commands.h"

#define MOST 400

/* The options of a command, in the order of --help. */
static size_t list(const struct command *command, const struct opt **out)
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
    size_t n = list(command, opts);

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
    size_t n = list(command, opts);
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

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_own_names), cmocka_unit_test(test_first_options),
                                       cmocka_unit_test(test_parts_of_help)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
