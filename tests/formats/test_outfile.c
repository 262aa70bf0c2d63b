/* test_outfile.c - the output appears whole or not at all: names that are refused, every system call failing once,
 * races for the name, and nothing left behind. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "formats/io/infile.h"
#include "formats/io/outfile.h"
#include "formats_test.h"
#include "scratch.h"

/* The file holds exactly this text; NULL: there is none. */
static void expect_file(const char *name, const char *text)
{
    char found[256] = "";
    FILE *f = fopen(in_folder(name), "r");
    size_t n;

    if (text == NULL) {
        assert_null(f);
        return;
    }
    assert_non_null(f);
    n = fread(found, 1, sizeof found - 1, f);
    assert_int_equal(fclose(f), 0);
    assert_int_equal(n, strlen(text));
    assert_string_equal(found, text);
}

static int make_folder(void **state)
{
    vc_outfile_fail_at(0);
    vc_outfile_no_unnamed(false);
    return scratch_make(state);
}

/* "first second" in two writes, back to front. */
static enum vc_status write_it(struct vc_ctx *ctx, const char *name, bool force)
{
    struct vc_outfile *file = NULL;
    enum vc_status status;

    VC_TRY(vc_outfile_create(ctx, name, force, NULL, &file));
    VC_TRY(vc_outfile_need(ctx, file, 12));
    VC_TRY(vc_outfile_begin(ctx, file));
    VC_TRY(vc_outfile_write(ctx, file, 6, "second", 6));
    VC_TRY(vc_outfile_write(ctx, file, 0, "first ", 6));
    VC_TRY(vc_outfile_sync(ctx, file));
    VC_TRY(vc_outfile_commit(ctx, file));
out:
    vc_outfile_free(ctx, file);
    return status;
}

static void expect_refused(const char *path, bool force, const struct vc_model *input, const char *needle)
{
    struct vc_ctx *ctx = test_ctx();
    struct vc_outfile *file = NULL;
    enum vc_status status = vc_outfile_create(ctx, path, force, input, &file);

    if (status == VC_OK || strstr(vc_ctx_message(ctx), needle) == NULL) {
        fail_msg("%s: status %s, \"%s\" does not say \"%s\"", path, vc_status_name(status), vc_ctx_message(ctx),
                 needle);
    }
    assert_null(file);
    test_ctx_done(ctx);
}

static void test_writes_and_replaces(void **state)
{
    struct vc_ctx *ctx = test_ctx();

    (void)state;
    for (int named = 0; named < 2; named++) {
        vc_outfile_no_unnamed(named != 0);
        assert_int_equal(write_it(ctx, in_folder("out"), false), VC_OK);
        expect_file("out", "first second");
        assert_int_equal(write_it(ctx, in_folder("out"), false), VC_E_ARGUMENT);
        assert_non_null(strstr(vc_ctx_message(ctx), "only with force"));
        (void)save_text("out", "old");
        assert_int_equal(write_it(ctx, in_folder("out"), true), VC_OK);
        expect_file("out", "first second");
        assert_int_equal(count_files(), 1);
        assert_int_equal(unlink(in_folder("out")), 0);
    }
    test_ctx_done(ctx);
}

static void test_mode_follows_umask(void **state)
{
    struct vc_ctx *ctx = test_ctx();
    struct stat st;

    (void)state;
    for (int named = 0; named < 2; named++) {
        mode_t old = umask(named != 0 ? 077 : 027);

        vc_outfile_no_unnamed(named != 0);
        assert_int_equal(write_it(ctx, in_folder("out"), true), VC_OK);
        (void)umask(old);
        assert_int_equal(stat(in_folder("out"), &st), 0);
        assert_int_equal(st.st_mode & 0777, named != 0 ? 0600 : 0640);
    }
    test_ctx_done(ctx);
}

static void test_names_that_are_refused(void **state)
{
    char longer[400];

    (void)state;
    (void)save_text("file", "text");
    assert_int_equal(mkdir(in_folder("sub"), 0777), 0);
    assert_int_equal(mkfifo(in_folder("pipe"), 0666), 0);
    assert_int_equal(symlink("loop", in_folder("loop")), 0);
    memset(longer, 'n', sizeof longer - 1);
    longer[sizeof longer - 1] = '\0';
    for (int force = 0; force < 2; force++) {
        expect_refused("", force != 0, NULL, "empty");
        expect_refused(in_folder("sub"), force != 0, NULL, "is a folder");
        expect_refused(in_folder("sub/."), force != 0, NULL, "is a folder");
        expect_refused(in_folder("sub/.."), force != 0, NULL, "is a folder");
        expect_refused(in_folder("new/"), force != 0, NULL, "ends in '/'");
        expect_refused(in_folder("none/out"), force != 0, NULL, "No such file");
        expect_refused(in_folder("file/out"), force != 0, NULL, "Not a directory");
        expect_refused(in_folder("pipe"), force != 0, NULL, "is a pipe");
        expect_refused("/dev/null", force != 0, NULL, "is a device");
        expect_refused(in_folder("loop"), force != 0, NULL, "link");
        expect_refused(in_folder(longer), force != 0, NULL, "too long");
    }
    expect_refused(in_folder("file"), false, NULL, "exists already");
    assert_int_equal(count_files(), 4);
}

static void test_the_input_is_never_the_output(void **state)
{
    struct vc_ctx *ctx = test_ctx();
    struct vc_model model = {0};
    struct vc_infile *input;

    (void)state;
    (void)save_text("in", "input");
    assert_int_equal(symlink("in", in_folder("soft")), 0);
    assert_int_equal(link(in_folder("in"), in_folder("hard")), 0);
    assert_int_equal(vc_infile_open(ctx, in_folder("in"), &input), VC_OK);
    model.input = input;
    for (int known_by_path = 0; known_by_path < 2; known_by_path++) {
        char path[PATH_MAX];

        (void)snprintf(path, sizeof path, "%s", in_folder("in"));
        model.path = path;
        expect_refused(in_folder("in"), true, &model, "is the input itself");
        expect_refused(in_folder("./in"), true, &model, "is the input itself");
        expect_refused(in_folder("soft"), true, &model, "is the input itself");
        expect_refused(in_folder("hard"), true, &model, "is the input itself");
        model.input = NULL;
    }
    vc_infile_close(ctx, input);
    expect_file("in", "input");
    test_ctx_done(ctx);
}

/* Inputs that the output's model says nothing of: those that are open, and those that the program names. */
static void test_no_other_input_is_the_output(void **state)
{
    struct vc_ctx *ctx = test_ctx();
    struct vc_outfile *file = NULL;
    struct vc_infile *input;

    (void)state;
    (void)save_text("read", "other input");
    assert_int_equal(link(in_folder("read"), in_folder("again")), 0);
    assert_int_equal(vc_infile_open(ctx, in_folder("read"), &input), VC_OK);
    assert_int_equal(vc_outfile_create(ctx, in_folder("again"), true, NULL, &file), VC_E_ARGUMENT);
    assert_non_null(strstr(vc_ctx_message(ctx), "is the input itself"));
    vc_kept_give_up(ctx, in_folder("again"));
    assert_int_equal(vc_outfile_create(ctx, in_folder("again"), true, NULL, &file), VC_OK);
    vc_outfile_free(ctx, file);
    vc_infile_close(ctx, input);
    assert_int_equal(vc_outfile_create(ctx, in_folder("again"), true, NULL, &file), VC_OK); /* nobody reads it */
    vc_outfile_free(ctx, file);
    assert_int_equal(vc_ctx_keep_file(ctx, in_folder("none")), VC_OK);
    assert_int_equal(vc_ctx_keep_file(ctx, in_folder("read")), VC_OK);
    assert_int_equal(vc_outfile_create(ctx, in_folder("again"), true, NULL, &file), VC_E_ARGUMENT);
    assert_int_equal(vc_outfile_create(ctx, in_folder("none"), true, NULL, &file), VC_OK);
    vc_outfile_free(ctx, file);
    test_ctx_done(ctx);
}

static void test_links_stand_for_their_targets(void **state)
{
    struct vc_ctx *ctx = test_ctx();
    struct stat st;

    (void)state;
    (void)save_text("real", "old");
    assert_int_equal(mkdir(in_folder("sub"), 0777), 0);
    assert_int_equal(symlink("second", in_folder("first")), 0);
    assert_int_equal(symlink("sub/../real", in_folder("second")), 0);
    assert_int_equal(write_it(ctx, in_folder("first"), false), VC_E_ARGUMENT);
    assert_int_equal(write_it(ctx, in_folder("first"), true), VC_OK);
    expect_file("real", "first second");
    assert_int_equal(symlink(in_folder("later"), in_folder("dangling")), 0);
    assert_int_equal(write_it(ctx, in_folder("dangling"), false), VC_OK);
    expect_file("later", "first second");
    assert_int_equal(lstat(in_folder("dangling"), &st), 0);
    assert_true(S_ISLNK(st.st_mode));
    assert_int_equal(lstat(in_folder("first"), &st), 0);
    assert_true(S_ISLNK(st.st_mode));
    test_ctx_done(ctx);
}

static void test_longest_name(void **state)
{
    struct vc_ctx *ctx = test_ctx();
    char name[256];

    (void)state;
    memset(name, 'n', 255);
    name[255] = '\0';
    for (int named = 0; named < 2; named++) {
        vc_outfile_no_unnamed(named != 0);
        assert_int_equal(write_it(ctx, in_folder(name), named != 0), VC_OK);
        expect_file(name, "first second");
    }
    assert_int_equal(count_files(), 1);
    test_ctx_done(ctx);
}

/* Every call fails once: the old output or the new one, never anything else in the folder. */
static void test_every_call_fails_once(void **state)
{
    struct vc_ctx *ctx = test_ctx();

    (void)state;
    for (int which = 0; which < 8; which++) {
        bool named = (which & 1) != 0;
        bool older = (which & 2) != 0;
        bool force = (which & 4) != 0 || older;
        enum vc_status status = VC_E_IO;
        uint64_t nth;
        uint64_t failures = 0;

        vc_outfile_no_unnamed(named);
        for (nth = 1; nth < 100; nth++) {
            uint64_t before = vc_outfile_call_count();
            bool hit;

            if (older) {
                (void)save_text("out", "old");
            } else {
                (void)unlink(in_folder("out"));
            }
            vc_outfile_fail_at(nth);
            status = write_it(ctx, in_folder("out"), force);
            vc_outfile_fail_at(0);
            hit = vc_outfile_call_count() - before >= nth;
            if (status != VC_OK) {
                assert_int_equal(status, VC_E_IO);
                assert_non_null(strstr(vc_ctx_message(ctx), "/out: "));
                failures++;
            }
            if (status == VC_OK || strstr(vc_ctx_message(ctx), "is complete") != NULL) {
                expect_file("out", "first second");
            } else {
                expect_file("out", older ? "old" : NULL);
            }
            assert_int_equal(count_files(), status == VC_OK || older || access(in_folder("out"), F_OK) == 0);
            if (!hit) {
                break;
            }
        }
        assert_int_equal(status, VC_OK);
        assert_true(failures >= 5);
    }
    test_ctx_done(ctx);
}

static void test_every_allocation_fails_once(void **state)
{
    struct vc_ctx *ctx = test_ctx();
    enum vc_status status = VC_E_NOMEM;

    (void)state;
    assert_int_equal(symlink("real", in_folder("out")), 0);
    for (uint64_t nth = 1; status != VC_OK; nth++) {
        vc_pool_fail_at(ctx->shared->pool, nth, 0);
        status = write_it(ctx, in_folder("out"), false);
        vc_pool_fail_at(ctx->shared->pool, 0, 0);
        assert_true(status == VC_OK ? nth > 4 : status == VC_E_NOMEM);
        assert_int_equal(count_files(), status == VC_OK ? 2 : 1);
        assert_int_equal(vc_pool_in_use(ctx->shared->pool), 0);
    }
    test_ctx_done(ctx);
}

/* A file of that name appears while the output is being written. */
static void test_race_for_the_name(void **state)
{
    struct vc_ctx *ctx = test_ctx();

    (void)state;
    for (int which = 0; which < 4; which++) {
        struct vc_outfile *file;
        bool force = (which & 2) != 0;

        vc_outfile_no_unnamed((which & 1) != 0);
        (void)unlink(in_folder("out"));
        assert_int_equal(vc_outfile_create(ctx, in_folder("out"), force, NULL, &file), VC_OK);
        assert_int_equal(vc_outfile_begin(ctx, file), VC_OK);
        assert_int_equal(vc_outfile_write(ctx, file, 0, "mine", 4), VC_OK);
        (void)save_text("out", "theirs");
        assert_int_equal(vc_outfile_sync(ctx, file), VC_OK);
        assert_int_equal(vc_outfile_commit(ctx, file), force ? VC_OK : VC_E_ARGUMENT);
        vc_outfile_free(ctx, file);
        expect_file("out", force ? "mine" : "theirs");
        assert_int_equal(count_files(), 1);
    }
    test_ctx_done(ctx);
}

/* Only a name that was given here, where nothing lay, is taken away again. */
static void test_withdraw(void **state)
{
    struct vc_ctx *ctx = test_ctx();

    (void)state;
    for (int which = 0; which < 8; which++) {
        bool older = (which & 1) != 0;
        bool other = (which & 2) != 0;
        struct vc_outfile *file;

        vc_outfile_no_unnamed((which & 4) != 0);
        (void)unlink(in_folder("out"));
        if (older) {
            (void)save_text("out", "old");
        }
        assert_int_equal(vc_outfile_create(ctx, in_folder("out"), true, NULL, &file), VC_OK);
        assert_int_equal(vc_outfile_begin(ctx, file), VC_OK);
        assert_int_equal(vc_outfile_write(ctx, file, 0, "mine", 4), VC_OK);
        assert_int_equal(vc_outfile_sync(ctx, file), VC_OK);
        assert_false(vc_outfile_is_named(file));
        vc_outfile_withdraw(file);
        expect_file("out", older ? "old" : NULL);
        assert_int_equal(vc_outfile_commit(ctx, file), VC_OK);
        assert_true(vc_outfile_is_named(file));
        if (other) {
            (void)save_text("theirs", "theirs");
            assert_int_equal(rename(in_folder("theirs"), in_folder("out")), 0);
        }
        vc_outfile_withdraw(file);
        vc_outfile_free(ctx, file);
        expect_file("out", other ? "theirs" : older ? "mine" : NULL);
    }
    test_ctx_done(ctx);
}

/* A folder took the place of the old file: it is not renamed over. */
static void test_folder_appears(void **state)
{
    struct vc_ctx *ctx = test_ctx();
    struct vc_outfile *file;

    (void)state;
    assert_int_equal(vc_outfile_create(ctx, in_folder("out"), true, NULL, &file), VC_OK);
    assert_int_equal(vc_outfile_begin(ctx, file), VC_OK);
    assert_int_equal(mkdir(in_folder("out"), 0777), 0);
    assert_int_equal(vc_outfile_sync(ctx, file), VC_OK);
    assert_int_equal(vc_outfile_commit(ctx, file), VC_E_ARGUMENT);
    vc_outfile_free(ctx, file);
    assert_int_equal(count_files(), 1);
    test_ctx_done(ctx);
}

static void test_signal_removes_named_temporaries(void **state)
{
    struct vc_ctx *ctx = test_ctx();
    struct vc_outfile *file;

    (void)state;
    vc_outfile_no_unnamed(true);
    assert_int_equal(vc_outfile_create(ctx, in_folder("out"), false, NULL, &file), VC_OK);
    assert_int_equal(vc_outfile_begin(ctx, file), VC_OK);
    assert_int_equal(count_files(), 1);
    vc_outfile_remove_temporaries();
    assert_int_equal(count_files(), 0);
    vc_outfile_free(ctx, file);
    vc_outfile_no_unnamed(false);
    assert_int_equal(vc_outfile_create(ctx, in_folder("out"), false, NULL, &file), VC_OK);
    assert_int_equal(vc_outfile_begin(ctx, file), VC_OK);
    vc_outfile_remove_temporaries();
    vc_outfile_free(ctx, file);
    assert_int_equal(count_files(), 0);
    test_ctx_done(ctx);
}

static void test_too_large_for_the_disk(void **state)
{
    struct vc_ctx *ctx = test_ctx();
    struct vc_outfile *file;

    (void)state;
    assert_int_equal(vc_outfile_create(ctx, in_folder("out"), false, NULL, &file), VC_OK);
    assert_int_equal(vc_outfile_need(ctx, file, (uint64_t)1 << 62), VC_E_IO);
    assert_non_null(strstr(vc_ctx_message(ctx), "free"));
    assert_int_equal(vc_outfile_need(ctx, file, 1), VC_OK);
    vc_outfile_free(ctx, file);
    test_ctx_done(ctx);
}

static void test_standard_output(void **state)
{
    struct vc_ctx *ctx = test_ctx();
    int saved = dup(STDOUT_FILENO);
    enum vc_status status;
    int fd;

    (void)state;
    (void)fflush(stdout);
    fd = open(in_folder("stdout"), O_RDWR | O_CREAT, 0666);
    assert_true(fd >= 0 && dup2(fd, STDOUT_FILENO) >= 0);
    status = write_it(ctx, "-", false);
    assert_true(dup2(open("/dev/full", O_WRONLY), STDOUT_FILENO) >= 0);
    assert_int_equal(write_it(ctx, "-", false), VC_E_IO);
    assert_true(dup2(saved, STDOUT_FILENO) >= 0);
    close(saved);
    close(fd);
    assert_int_equal(status, VC_OK);
    assert_non_null(strstr(vc_ctx_message(ctx), "standard output"));
    expect_file("stdout", "first second");
    assert_int_equal(count_files(), 1);
    test_ctx_done(ctx);
}

#define WITH_FOLDER(test) cmocka_unit_test_setup_teardown(test, make_folder, scratch_clear)

int main(void)
{
    const struct CMUnitTest tests[] = {WITH_FOLDER(test_writes_and_replaces),
                                       WITH_FOLDER(test_mode_follows_umask),
                                       WITH_FOLDER(test_names_that_are_refused),
                                       WITH_FOLDER(test_the_input_is_never_the_output),
                                       WITH_FOLDER(test_no_other_input_is_the_output),
                                       WITH_FOLDER(test_links_stand_for_their_targets),
                                       WITH_FOLDER(test_longest_name),
                                       WITH_FOLDER(test_every_call_fails_once),
                                       WITH_FOLDER(test_every_allocation_fails_once),
                                       WITH_FOLDER(test_race_for_the_name),
                                       WITH_FOLDER(test_withdraw),
                                       WITH_FOLDER(test_folder_appears),
                                       WITH_FOLDER(test_signal_removes_named_temporaries),
                                       WITH_FOLDER(test_too_large_for_the_disk),
                                       WITH_FOLDER(test_standard_output)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
