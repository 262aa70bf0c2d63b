/* test_system_calls.c - system calls that fail: for jobs of several formats each call of each kind fails in turn, with
 * an error of the disk; and is interrupted, or transfers half of what was asked for. The job then says what failed, or
 * has another way, whose output is the same; whatever happens, all memory is back, and there is no half output.
 *
 * The linker hands the library's calls to the functions here (--wrap, CMakeLists.txt). tests/formats/test_disk_faults.c
 * has failures that the library counts itself, which come between a call and its answer as well. */
#define _GNU_SOURCE
#include "support.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "folder_builder.h"
#include "formats/io/outfile.h"
#include "gguf_builder.h"
#include "onnx_builder.h"
#include "tasks.h"
#include "torch_files.h"

/* ---- the calls ---- */

enum call {
    OPEN,
    STAT,
    READ,
    WRITE,
    CLOSE,
    FSYNC,
    FOLDER, /* opendir, fdopendir, readdir */
    NAME,   /* linkat, renameat, renameat2 */
    REMOVE, /* unlink, unlinkat, rmdir */
    MAKE,   /* mkdir, mkdirat */
    ASK,    /* access, fstatvfs, getrlimit, realpath, readlink */
    LOCK,
    N_CALLS
};

static const char *const call_names[] = {"open",   "stat", "read",   "write", "close", "fsync",
                                         "folder", "name", "remove", "make",  "ask",   "lock"};

enum way { FAILS, INTERRUPTED, HALF, N_WAYS };

static struct {
    enum call call;
    enum way way;
    uint64_t at, n; /* the n-th call of that kind is `at` */
    bool armed;
} fault;

static bool hit(enum call call)
{
    return fault.armed && call == fault.call && ++fault.n == fault.at;
}

static int refuse(void)
{
    errno = fault.way == INTERRUPTED ? EINTR : EIO;
    return -1;
}

/* How much of a transfer is done; 0: it fails. */
static size_t share(enum call call, size_t n)
{
    return !hit(call) ? n : fault.way == HALF ? (n + 1) / 2 : 0;
}

/* Each is declared as the library calls it, with large files. */
#define WRAP(call, type, name, parameters, arguments, failure) \
    type __real_##name parameters;                             \
    type __wrap_##name parameters;                             \
    type __wrap_##name parameters                              \
    {                                                          \
        if (hit(call)) {                                       \
            (void)refuse();                                    \
            return failure;                                    \
        }                                                      \
        return __real_##name arguments;                        \
    }

WRAP(STAT, int, fstat64, (int fd, struct stat *st), (fd, st), -1)
WRAP(STAT, int, stat64, (const char *path, struct stat *st), (path, st), -1)
WRAP(STAT, int, lstat64, (const char *path, struct stat *st), (path, st), -1)
WRAP(STAT, int, fstatat64, (int fd, const char *path, struct stat *st, int flags), (fd, path, st, flags), -1)
WRAP(FSYNC, int, fsync, (int fd), (fd), -1)
WRAP(FOLDER, DIR *, opendir, (const char *path), (path), NULL)
WRAP(FOLDER, DIR *, fdopendir, (int fd), (fd), NULL)
WRAP(FOLDER, struct dirent *, readdir64, (DIR * dir), (dir), NULL)
WRAP(NAME, int, linkat, (int a, const char *from, int b, const char *to, int flags), (a, from, b, to, flags), -1)
WRAP(NAME, int, renameat, (int a, const char *from, int b, const char *to), (a, from, b, to), -1)
WRAP(NAME, int, renameat2, (int a, const char *from, int b, const char *to, unsigned flags), (a, from, b, to, flags),
     -1)
WRAP(REMOVE, int, unlink, (const char *path), (path), -1)
WRAP(REMOVE, int, unlinkat, (int fd, const char *path, int flags), (fd, path, flags), -1)
WRAP(REMOVE, int, rmdir, (const char *path), (path), -1)
WRAP(MAKE, int, mkdir, (const char *path, mode_t mode), (path, mode), -1)
WRAP(MAKE, int, mkdirat, (int fd, const char *path, mode_t mode), (fd, path, mode), -1)
WRAP(ASK, int, access, (const char *path, int mode), (path, mode), -1)
WRAP(ASK, int, fstatvfs64, (int fd, struct statvfs *fs), (fd, fs), -1)
WRAP(ASK, int, getrlimit64, (int what, struct rlimit *limit), (what, limit), -1)
WRAP(ASK, char *, realpath, (const char *path, char *to), (path, to), NULL)
WRAP(ASK, ssize_t, readlink, (const char *path, char *to, size_t n), (path, to, n), -1)
WRAP(LOCK, int, flock, (int fd, int operation), (fd, operation), -1)

/* These do what they do also where they fail: nothing is left open. */
int __real_close(int fd);
int __wrap_close(int fd);
int __wrap_close(int fd)
{
    int result = __real_close(fd);

    return hit(CLOSE) ? refuse() : result;
}

int __real_open64(const char *path, int flags, mode_t mode);
int __wrap_open64(const char *path, int flags, mode_t mode);
int __wrap_open64(const char *path, int flags, mode_t mode)
{
    return hit(OPEN) ? refuse() : __real_open64(path, flags, mode);
}

int __real_openat64(int fd, const char *path, int flags, mode_t mode);
int __wrap_openat64(int fd, const char *path, int flags, mode_t mode);
int __wrap_openat64(int fd, const char *path, int flags, mode_t mode)
{
    return hit(OPEN) ? refuse() : __real_openat64(fd, path, flags, mode);
}

#define WRAP_TRANSFER(call, name, buffer, more, arguments)               \
    ssize_t __real_##name(int fd, buffer p, size_t n more);              \
    ssize_t __wrap_##name(int fd, buffer p, size_t n more);              \
    ssize_t __wrap_##name(int fd, buffer p, size_t n more)               \
    {                                                                    \
        size_t part = share(call, n);                                    \
                                                                         \
        return part == 0 && n != 0 ? refuse() : __real_##name arguments; \
    }
#define COMMA ,

WRAP_TRANSFER(READ, read, void *, , (fd, p, part))
WRAP_TRANSFER(WRITE, write, const void *, , (fd, p, part))
WRAP_TRANSFER(READ, pread64, void *, COMMA off_t at, (fd, p, part, at))
WRAP_TRANSFER(WRITE, pwrite64, const void *, COMMA off_t at, (fd, p, part, at))

/* ---- the jobs ---- */

/* A file, or everything in a folder: names and bytes. */
static void add_contents(struct bytes *to, const char *path)
{
    struct dirent **names;
    struct bytes b;
    int n = scandir(path, &names, NULL, alphasort);

    for (int i = 0; i < n; i++) {
        char inner[2000];

        if (names[i]->d_name[0] != '.') {
            snprintf(inner, sizeof inner, "%s/%s", path, names[i]->d_name);
            bytes_add(to, names[i]->d_name, strlen(names[i]->d_name) + 1);
            add_contents(to, inner);
        }
        free(names[i]);
    }
    if (n >= 0) {
        free(names);
    } else {
        b = load(path);
        bytes_add(to, b.p, b.n);
        bytes_release(&b);
    }
}

static bool is_same(const char *path, const struct bytes *expected)
{
    struct bytes b = {NULL, 0, 0};
    bool same;

    add_contents(&b, in_folder(path));
    same = b.n == expected->n && memcmp(b.p, expected->p, b.n) == 0;
    bytes_release(&b);
    return same;
}

/* What came out of a run with the fault is one of the answers that there may be. */
static void check(struct vc_ctx *ctx, const char *from, const char *to, enum vc_status status, bool over_older,
                  const struct bytes *expected)
{
    const char *message = vc_ctx_message(ctx);
    bool there = exists(to);

    if (status == VC_OK && there && is_same(to, expected)) {
        return;
    }
    if (fault.way == FAILS && status != VC_OK && (fault.call != ASK || status == VC_E_IO) && message[0] != '\0' &&
        strchr(message, '\n') == NULL && status != VC_E_INTERNAL && status != VC_E_NOMEM &&
        (!there || is_same(to, expected)) && (there || !over_older)) {
        return;
    }
    fail_msg("%s -> %s, %s %u %s: %s, \"%s\", %s", from, to, call_names[fault.call], (unsigned)fault.at,
             fault.way == FAILS         ? "fails"
             : fault.way == INTERRUPTED ? "is interrupted"
                                        : "does half",
             vc_status_name(status), message, there ? "another output" : "no output");
}

/* The job with the fault that is set; false: it has fewer such calls. */
static bool fail_once(struct vc_ctx *ctx, const char *from, const char *to, const struct task *task, bool over_older,
                      const struct bytes *expected)
{
    uint64_t in_use = vc_pool_in_use(ctx->shared->pool);
    enum vc_status status;

    if (!over_older) {
        remove_path(to);
    } else if (!exists(to)) {
        must_run(ctx, from, to, *task);
    }
    fault.n = 0;
    fault.armed = true;
    status = run_task(ctx, from, to, task);
    fault.armed = false;
    check(ctx, from, to, status, over_older, expected);
    assert_int_equal(vc_pool_in_use(ctx->shared->pool), in_use);
    return fault.n >= fault.at;
}

/* Calls that may be interrupted: what was begun is done again, or is done. Only transfers do half. */
static bool can(enum call call, enum way way)
{
    bool transfer = call == READ || call == WRITE;

    return way == FAILS || transfer || (way == INTERRUPTED && (call == CLOSE || call == LOCK));
}

/* The job with each call of each kind failing. over_older: over an output of the same job. */
static void fail_each(const char *from, const char *to, struct task task, bool over_older)
{
    struct bytes expected = {NULL, 0, 0};
    struct vc_ctx *ctx = test_ctx();
    uint64_t n = 0;

    assert_int_equal(vc_ctx_set_threads(ctx, 1), VC_OK);
    remove_path(to);
    must_run(ctx, from, to, task);
    add_contents(&expected, in_folder(to));
    for (fault.call = OPEN; fault.call < N_CALLS; fault.call++) {
        for (fault.way = FAILS; fault.way < N_WAYS; fault.way++) {
            fault.at = 1;
            while (can(fault.call, fault.way) && fail_once(ctx, from, to, &task, over_older, &expected)) {
                fault.at++;
                n++;
            }
        }
    }
    assert_true(n > 50);
    bytes_release(&expected);
    remove_path(to);
    vc_ctx_free(ctx);
}

/* Into nothing, over an older output, and where the file system has no unnamed files. */
static void fail_all(const char *from, const char *to, struct task task)
{
    fail_each(from, to, task, false);
    fail_each(from, to, task, true);
    vc_outfile_no_unnamed(true);
    fail_each(from, to, task, false);
    fail_each(from, to, task, true);
    vc_outfile_no_unnamed(false);
}

static void npz(void **state)
{
    static const struct member_options packed = {.deflate = true, .level = 6};
    struct task task = task_int8();
    struct zip_builder z = {0};

    (void)state;
    zip_add_bytes(&z, "a.npy", npy_matrix(6, 40), NULL);
    zip_add_bytes(&z, "b.npy", npy_matrix(3, 5), &packed);
    zip_add(&z, "notes.txt", "some notes", 10, &packed);
    zip_finish(&z, ZIP_END_64, 3);
    save("in.npz", &z.out);
    zip_release(&z);
    task.write.deflate = VC_DEFLATE_AUTO;
    fail_all("in.npz", "q.npz", task);
    empty_folder();
}

static void folders(void **state)
{
    struct task task = task_int8();

    (void)state;
    assert_int_equal(mkdir(in_folder("in"), 0700), 0);
    folder_fill(in_folder("in"));
    folder_write(in_folder("in"), FOLDER_INDEX, FOLDER_MAPPED, strlen(FOLDER_MAPPED));
    folder_write(in_folder("in"), "config.json", FOLDER_CONFIG, strlen(FOLDER_CONFIG));
    folder_write(in_folder("in"), "tokenizer.json", "{}", 2);
    assert_int_equal(mkdir(in_folder("in/inner"), 0700), 0);
    folder_write(in_folder("in"), "inner/notes.txt", "text", 4);
    assert_int_equal(rename(in_folder("in/tokenizer.json"), in_folder("in/inner/t.json")), 0);
    assert_int_equal(symlink("inner/t.json", in_folder("in/tokenizer.json")), 0); /* a link that stays */
    task.quantize.requantize = true;
    task.write.layout = "compressed-tensors";
    fail_all("in", "out", task);
    remove_path("in/inner");
    empty_folder();
}

/* A job that is refused because of what other files say is never done where these could not be read. */
static void refuse_each(const char *from, const char *to, struct task task, const char *words)
{
    struct vc_ctx *ctx = test_ctx();
    bool more = true;

    must_refuse(ctx, from, to, task, words);
    fault.way = FAILS;
    for (fault.call = OPEN; fault.call < N_CALLS; fault.call++) {
        for (fault.at = 1, more = true; more; fault.at++) {
            fault.n = 0;
            fault.armed = true;
            assert_int_not_equal(run_task(ctx, from, to, &task), VC_OK);
            fault.armed = false;
            more = fault.n >= fault.at;
            assert_false(exists(to));
        }
    }
    vc_ctx_free(ctx);
}

/* A file with a config.json beside it, which says how the weights are loaded. */
static void file_with_config(void **state)
{
    static const char config[] = "{\"model_type\": \"llama\", \"torch_dtype\": \"float32\"}";
    struct task task = task_int8();
    struct zip_builder z = {0};
    struct vc_ctx *ctx = test_ctx();

    (void)state;
    zip_add_bytes(&z, "l.q.weight.npy", npy_matrix(4, 64), NULL);
    zip_finish(&z, ZIP_END_PLAIN, 0);
    save("in.npz", &z.out);
    zip_release(&z);
    must_run(ctx, "in.npz", "model.safetensors", task_copy());
    vc_ctx_free(ctx);
    save_text("config.json", config);
    task.write.layout = "auto";
    refuse_each("model.safetensors", "q.safetensors", task, "looks for codes by the config.json beside it");
    assert_int_equal(mkdir(in_folder("in"), 0700), 0);
    assert_int_equal(rename(in_folder("config.json"), in_folder("in/config.json")), 0);
    assert_int_equal(rename(in_folder("model.safetensors"), in_folder("in/model.safetensors")), 0);
    fail_each("in", "out", task, true);
    empty_folder();
}

/* Two models with a loader of their own each. */
static void pipeline(void **state)
{
    static const char index[] =
        "{\"unet\": [\"diffusers\", \"UNet2DConditionModel\"], \"text_encoder\": [\"transformers\", "
        "\"CLIPTextModel\"]}";
    struct zip_builder z = {0};
    struct vc_ctx *ctx = test_ctx();

    (void)state;
    zip_add_bytes(&z, "l.weight.npy", npy_matrix(32, 32), NULL);
    zip_finish(&z, ZIP_END_PLAIN, 0);
    save("w.npz", &z.out);
    zip_release(&z);
    assert_int_equal(mkdir(in_folder("in"), 0700), 0);
    assert_int_equal(mkdir(in_folder("in/unet"), 0700), 0);
    assert_int_equal(mkdir(in_folder("in/text_encoder"), 0700), 0);
    must_run(ctx, "w.npz", "in/unet/diffusion_pytorch_model.safetensors", task_copy());
    must_run(ctx, "w.npz", "in/text_encoder/model.safetensors", task_copy());
    vc_ctx_free(ctx);
    save_text("in/model_index.json", index);
    save_text("in/unet/config.json", "{\"_class_name\": \"UNet2DConditionModel\"}");
    save_text("in/text_encoder/config.json", "{\"model_type\": \"llama\", \"torch_dtype\": \"float32\"}");
    fail_each("in", "out", task_int8(), true);
    remove_path("in");
    empty_folder();
}

static void onnx(void **state)
{
    struct onnx_builder g = {.ir = 8, .opset = 17};
    struct bytes data = {NULL, 0, 0};

    (void)state;
    onnx_external(&g, "w", 4, 20, "w.bin", "16", "320");
    onnx_weights(&g, "here", 4, 20);
    save_own("in.onnx", onnx_finish(&g));
    bytes_fill(&data, 0, 336);
    save_own("w.bin", data);
    fail_each("in.onnx", "q.onnx", task_int8(), false);
    empty_folder();
}

static void gguf_and_torch(void **state)
{
    static const uint64_t dims[] = {32, 4};
    struct gguf_builder g = {0};

    (void)state;
    gguf_pair_string(&g, "general.architecture", "llama");
    gguf_tensor(&g, "blk.0.w.weight", 0, 2, dims, 512);
    save_own("in.gguf", gguf_finish(&g));
    fail_each("in.gguf", "q.gguf", task_int8(), true);
    for (unsigned i = 0; i < 2; i++) {
        char name[40];
        unsigned char v[4] = {(unsigned char)i, 0, 0, 0};

        gguf_pair(&g, "split.no", 2, v, 2);
        gguf_pair(&g, "split.count", 2, "\2", 2);
        gguf_tensor(&g, i == 0 ? "a" : "b", 0, 2, dims, 512);
        snprintf(name, sizeof name, "m-%05u-of-00002.gguf", i + 1);
        save_own(name, gguf_finish(&g));
    }
    fail_each("m-00001-of-00002.gguf", "out", task_copy(), true);
    save_training("in.pt");
    fail_each("in.pt", "q.pt", task_int8(), true);
    empty_folder();
}

/* A pipe as standard input, which is copied to a temporary file first: the values are read, or it is said why not. */
static void standard_input(void **state)
{
    struct vc_ctx *ctx = test_ctx();
    struct zip_builder z = {0};
    int own = dup(STDIN_FILENO);
    unsigned n = 0;

    (void)state;
    zip_add_bytes(&z, "a.npy", npy_matrix(60, 100), NULL);
    zip_finish(&z, ZIP_END_PLAIN, 0);
    for (fault.call = OPEN; fault.call < N_CALLS; fault.call++) {
        for (fault.way = FAILS; fault.way < N_WAYS; fault.way++) {
            bool more = can(fault.call, fault.way);

            for (fault.at = 1; more; fault.at++, n++) {
                enum vc_status status;
                int ends[2];

                assert_int_equal(pipe(ends), 0);
                assert_int_equal(write(ends[1], z.out.p, z.out.n), z.out.n);
                (void)close(ends[1]);
                assert_int_equal(dup2(ends[0], STDIN_FILENO), STDIN_FILENO);
                (void)close(ends[0]);
                fault.n = 0;
                fault.armed = true;
                status = walk_path(ctx, "-", NULL);
                fault.armed = false;
                more = fault.n >= fault.at;
                if (status != VC_OK && (fault.way != FAILS || status != VC_E_IO || vc_ctx_message(ctx)[0] == '\0')) {
                    fail_msg("%s %u: %s, \"%s\"", call_names[fault.call], (unsigned)fault.at, vc_status_name(status),
                             vc_ctx_message(ctx));
                }
                assert_int_equal(vc_pool_in_use(ctx->shared->pool), 0);
            }
        }
    }
    assert_true(n > 20);
    assert_int_equal(dup2(own, STDIN_FILENO), STDIN_FILENO);
    (void)close(own);
    zip_release(&z);
    test_ctx_done(ctx);
}

/* int8 of in.npz to standard output, which is the file that is open as fd meanwhile. */
static enum vc_status to_stdout(struct vc_ctx *ctx, int fd)
{
    struct task task = task_int8();
    struct vc_model *model = NULL;
    struct vc_job *job = NULL;
    int own = dup(STDOUT_FILENO);
    enum vc_status status;

    (void)fflush(stdout);
    assert_int_equal(dup2(fd, STDOUT_FILENO), STDOUT_FILENO);
    task.write.path = "-";
    task.write.deflate = VC_DEFLATE_AUTO;
    fault.n = 0;
    fault.armed = true;
    VC_TRY(vc_model_open(ctx, in_folder("in.npz"), NULL, &model));
    VC_TRY(vc_job_create(ctx, model, &job));
    VC_TRY(vc_job_add_quantize(ctx, job, &task.quantize));
    VC_TRY(vc_job_plan(ctx, job, &task.write));
    VC_TRY(vc_job_run(ctx, job));
out:
    fault.armed = false;
    vc_job_free(job);
    vc_model_close(model);
    assert_int_equal(dup2(own, STDOUT_FILENO), STDOUT_FILENO);
    (void)close(own);
    return status;
}

/* One run into the file "stdout". True: the fault was met. */
static bool stdout_fails_once(struct vc_ctx *ctx, const struct bytes *expected)
{
    int fd = open(in_folder("stdout"), O_RDWR | O_CREAT | O_TRUNC, 0600);
    enum vc_status status;
    struct bytes got;

    assert_true(fd >= 0);
    status = to_stdout(ctx, fd);
    (void)close(fd);
    got = load("stdout");
    if ((status == VC_OK && (got.n != expected->n || memcmp(got.p, expected->p, got.n) != 0)) ||
        (status != VC_OK && (fault.way != FAILS || got.n > expected->n || vc_ctx_message(ctx)[0] == '\0'))) {
        fail_msg("%s %u: %s, \"%s\", %zu bytes", call_names[fault.call], (unsigned)fault.at, vc_status_name(status),
                 vc_ctx_message(ctx), got.n);
    }
    bytes_release(&got);
    return fault.n >= fault.at;
}

/* Standard output: what arrives there is whole, or the job says that it is not. */
static void standard_output(void **state)
{
    struct vc_ctx *ctx = test_ctx();
    struct task task = task_int8();
    struct bytes expected;
    struct zip_builder z = {0};
    unsigned n = 0;
    int fd;

    (void)state;
    zip_add_bytes(&z, "a.npy", npy_matrix(60, 100), NULL);
    zip_add_bytes(&z, "b.npy", npy_matrix(2, 3), NULL);
    zip_finish(&z, ZIP_END_PLAIN, 0);
    save("in.npz", &z.out);
    zip_release(&z);
    assert_int_equal(vc_ctx_set_threads(ctx, 1), VC_OK);
    task.write.deflate = VC_DEFLATE_AUTO;
    must_run(ctx, "in.npz", "q.npz", task);
    expected = load("q.npz");
    for (fault.call = OPEN; fault.call < N_CALLS; fault.call++) {
        for (fault.way = FAILS; fault.way < N_WAYS; fault.way++) {
            bool more = can(fault.call, fault.way);

            for (fault.at = 1; more; fault.at++, n++) {
                more = stdout_fails_once(ctx, &expected);
            }
        }
    }
    assert_true(n > 50);
    fd = open(in_folder("in.npz"), O_RDWR);
    assert_int_equal(to_stdout(ctx, fd), VC_E_ARGUMENT);
    expect_says(ctx, "is the input itself");
    (void)close(fd);
    fd = open("/dev/full", O_WRONLY);
    assert_int_equal(to_stdout(ctx, fd), VC_E_IO);
    expect_says(ctx, "cannot write to standard output");
    (void)close(fd);
    bytes_release(&expected);
    vc_ctx_free(ctx);
    empty_folder();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(npz),
        cmocka_unit_test(folders),
        cmocka_unit_test(file_with_config),
        cmocka_unit_test(pipeline),
        cmocka_unit_test(onnx),
        cmocka_unit_test(standard_input),
        cmocka_unit_test(standard_output),
        cmocka_unit_test(gguf_and_torch),
    };

    return cmocka_run_group_tests(tests, scratch_make, scratch_clear);
}
