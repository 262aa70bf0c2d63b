/* test_infile.c - what may be opened as an input (no folder, no pipe, no device), standard input by '-', and a file
 * that changes or shrinks under its reader: an error, never a crash. */
#define _GNU_SOURCE
#include "formats_test.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "formats/io/infile.h"
#include "scratch.h"

static void expect_refused(const char *path, enum vc_status expected, const char *needle)
{
    struct vc_ctx *ctx = test_ctx();
    struct vc_model *model = NULL;
    enum vc_status status = vc_model_open(ctx, path, NULL, &model);

    if (status != expected || strstr(vc_ctx_message(ctx), needle) == NULL ||
        strstr(vc_ctx_message(ctx), strcmp(path, "-") == 0 ? "standard input" : path) == NULL) {
        fail_msg("%s: status %s, \"%s\" does not say \"%s\"", path, vc_status_name(status), vc_ctx_message(ctx),
                 needle);
    }
    assert_null(model);
    test_ctx_done(ctx);
}

static void test_no_files(void **state)
{
    int fd;

    (void)state;
    expect_refused(scratch_folder(), VC_E_UNSUPPORTED, "is a folder");
    expect_refused(in_folder("missing.npz"), VC_E_IO, "cannot open: No such file");
    fd = open(in_folder("empty.npz"), O_CREAT | O_WRONLY, 0600);
    assert_true(fd >= 0);
    close(fd);
    expect_refused(in_folder("empty.npz"), VC_E_FORMAT, "is empty");
    assert_int_equal(mkfifo(in_folder("pipe"), 0600), 0);
    expect_refused(in_folder("pipe"), VC_E_UNSUPPORTED, "is a pipe");
    expect_refused("/dev/null", VC_E_UNSUPPORTED, "is a device");
}

/* Runs vc_model_open("-") with this as standard input. */
static void with_stdin(int fd, enum vc_status expected, const char *needle)
{
    int saved = dup(STDIN_FILENO);
    struct vc_ctx *ctx = test_ctx();
    struct vc_model *model = NULL;
    enum vc_status status;

    dup2(fd, STDIN_FILENO);
    close(fd);
    status = vc_model_open(ctx, "-", NULL, &model);
    dup2(saved, STDIN_FILENO);
    close(saved);
    if (status != expected || strstr(vc_ctx_message(ctx), needle) == NULL) {
        fail_msg("status %s, \"%s\" does not say \"%s\"", vc_status_name(status), vc_ctx_message(ctx), needle);
    }
    if (status == VC_OK) {
        assert_int_equal(walk_model(ctx, model), VC_OK);
        assert_string_equal(vc_model_facts(model)->path, "-");
        vc_model_close(model);
    }
    test_ctx_done(ctx);
}

static int pipe_with(const void *data, size_t n)
{
    int ends[2];

    assert_int_equal(pipe(ends), 0);
    assert_int_equal(write(ends[1], data, n), n); /* small enough for the pipe's own buffer */
    close(ends[1]);
    return ends[0];
}

/* A stream without an end that is no checkpoint: nobody reads more than its first bytes, and the rest is still in it.
 */
static void with_endless_stdin(void)
{
    char data[4096];
    int fd;
    int copy;

    memset(data, 1, sizeof data);
    fd = pipe_with(data, sizeof data);
    copy = dup(fd);
    with_stdin(fd, VC_E_FORMAT, "standard input: is no checkpoint");
    assert_int_equal(read(copy, data, sizeof data), sizeof data - VC_HEAD_BYTES);
    close(copy);
}

static void test_stdin(void **state)
{
    struct zip_builder z;
    char path[512];
    char one;
    int fd;

    (void)state;
    zip_simple(&z, NULL);
    with_stdin(pipe_with(z.out.p, z.out.n), VC_OK, "");
    with_stdin(pipe_with(z.out.p, z.out.n - 1), VC_E_FORMAT, "standard input: zip");
    with_stdin(pipe_with("", 0), VC_E_FORMAT, "standard input: is empty");
    with_stdin(open("/tmp", O_RDONLY), VC_E_UNSUPPORTED, "folder");
    with_stdin(open("/dev/zero", O_RDONLY), VC_E_FORMAT, "standard input: starts with 512 zero bytes");
    with_endless_stdin();

    fd = walk_file_open(z.out.p, z.out.n, path, sizeof path);
    with_stdin(open(path, O_RDONLY), VC_OK, ""); /* used as it is */
    lseek(fd, 0, SEEK_SET);
    assert_int_equal(read(fd, &one, 1), 1);
    with_stdin(dup(fd), VC_E_FORMAT, "standard input: is no checkpoint"); /* from where it stands: one byte is gone */
    walk_file_close(fd, path);
    zip_release(&z);
}

static void test_truncated_while_open(void **state)
{
    struct vc_ctx *ctx = test_ctx();
    struct vc_model *model = NULL;
    struct zip_builder z;
    float values[12];
    char path[512];
    int fd;

    (void)state;
    zip_simple(&z, NULL);
    fd = walk_file_open(z.out.p, z.out.n, path, sizeof path);
    assert_int_equal(vc_model_open(ctx, path, NULL, &model), VC_OK);
    assert_int_equal(vc_model_read(ctx, model, 0, 0, 12, values, sizeof values), VC_OK);
    assert_int_equal(ftruncate(fd, (off_t)z.members[0].data + 130), 0);
    assert_int_equal(vc_model_read(ctx, model, 0, 0, 12, values, sizeof values), VC_E_FORMAT);
    assert_non_null(strstr(vc_ctx_message(ctx), "a: ends at offset"));
    assert_non_null(strstr(vc_ctx_message(ctx), path));
    vc_model_close(model);
    walk_file_close(fd, path);
    zip_release(&z);
    test_ctx_done(ctx);
}

/* The same bytes again, and a time that differs by a nanosecond. */
static void test_changed_while_open(void **state)
{
    struct vc_ctx *ctx = test_ctx();
    struct vc_infile *file = NULL;
    struct timespec times[2];
    struct stat st;
    struct zip_builder z;
    char path[512];
    int fd;

    (void)state;
    zip_simple(&z, NULL);
    fd = walk_file_open(z.out.p, z.out.n, path, sizeof path);
    assert_int_equal(fstat(fd, &st), 0);
    assert_int_equal(vc_infile_open(ctx, path, &file), VC_OK);
    assert_int_equal(vc_infile_check(ctx, file), VC_OK);
    times[0] = st.st_atim;
    times[1] = st.st_mtim;
    times[1].tv_nsec += times[1].tv_nsec == 999999999 ? -1 : 1;
    assert_int_equal(futimens(fd, times), 0);
    assert_int_equal(vc_infile_check(ctx, file), VC_E_FORMAT);
    expect_says(ctx, "was changed while it was read");
    times[1] = st.st_mtim;
    times[1].tv_sec++;
    assert_int_equal(futimens(fd, times), 0);
    assert_int_equal(vc_infile_check(ctx, file), VC_E_FORMAT);
    times[1] = st.st_mtim;
    assert_int_equal(ftruncate(fd, st.st_size + 1), 0);
    assert_int_equal(futimens(fd, times), 0);
    assert_int_equal(vc_infile_check(ctx, file), VC_E_FORMAT);
    assert_int_equal(ftruncate(fd, st.st_size), 0);
    assert_int_equal(futimens(fd, times), 0);
    assert_int_equal(vc_infile_check(ctx, file), VC_OK);
    vc_infile_close(ctx, file);
    walk_file_close(fd, path);
    zip_release(&z);
    test_ctx_done(ctx);
}

static void test_tempfile(void **state)
{
    struct vc_ctx *ctx = test_ctx();
    char byte = 0;
    int fd = vc_tempfile_open(ctx);
    struct stat st;

    (void)state;
    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, "x", 1, 100), 1);
    assert_int_equal(pread(fd, &byte, 1, 100), 1);
    assert_int_equal(byte, 'x');
    assert_int_equal(fstat(fd, &st), 0);
    assert_int_equal(st.st_nlink, 0);
    close(fd);
    setenv("TMPDIR", "/nowhere/at/all", 1);
    assert_int_equal(vc_tempfile_open(ctx), -1);
    assert_non_null(strstr(vc_ctx_message(ctx), "/nowhere/at/all"));
    unsetenv("TMPDIR");
    test_ctx_done(ctx);
}

/* Half of the descriptors are taken: the file keeps none, is read all the same, and has to stay the one it was. */
static void test_few_descriptors(void **state)
{
    struct vc_ctx *ctx = test_ctx();
    struct vc_infile *file = NULL;
    struct rlimit old, low;
    const char *path = save_text("a", "hello");
    char text[6] = "";
    int taken[20];

    (void)state;
    for (size_t i = 0; i < 20; i++) {
        taken[i] = dup(0);
        assert_true(taken[i] >= 0);
    }
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
    low = old;
    low.rlim_cur = 40;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
    assert_int_equal(vc_infile_open(ctx, path, &file), VC_OK);
    assert_int_equal(file->fd, -1);
    assert_int_equal(vc_infile_read(ctx, file, 1, text, 4), VC_OK);
    assert_string_equal(text, "ello");
    (void)save_text("b", "other");
    assert_int_equal(rename(in_folder("b"), file->path), 0);
    assert_int_equal(vc_infile_read(ctx, file, 0, text, 5), VC_E_FORMAT);
    assert_non_null(strstr(vc_ctx_message(ctx), "was changed while it was read"));
    assert_int_equal(unlink(file->path), 0);
    assert_int_equal(vc_infile_read(ctx, file, 0, text, 5), VC_E_IO);
    vc_infile_close(ctx, file);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
    for (size_t i = 0; i < 20; i++) {
        (void)close(taken[i]);
    }
    test_ctx_done(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_no_files, scratch_make, scratch_clear),
        cmocka_unit_test(test_stdin),
        cmocka_unit_test(test_truncated_while_open),
        cmocka_unit_test(test_changed_while_open),
        cmocka_unit_test(test_tempfile),
        cmocka_unit_test_setup_teardown(test_few_descriptors, scratch_make, scratch_clear),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
