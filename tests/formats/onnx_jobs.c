/* onnx_jobs.c - see onnx_jobs.h. */
#define _GNU_SOURCE /* mkdtemp, memmem */
#include "onnx_jobs.h"

#include <dirent.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[] = "/tmp/vcompress-onnx-XXXXXX";

const char *in_folder(const char *name)
{
    static char paths[8][PATH_MAX];
    static unsigned turn;

    turn = (turn + 1) % 8;
    (void)snprintf(paths[turn], sizeof paths[0], "%s/%s", folder, name);
    return paths[turn];
}

const char *save(const char *name, struct bytes b)
{
    const char *path = in_folder(name);
    FILE *f = fopen(path, "wb");

    assert_non_null(f);
    assert_int_equal(fwrite(b.p, 1, b.n, f), b.n);
    assert_int_equal(fclose(f), 0);
    bytes_release(&b);
    return path;
}

struct bytes load(const char *name)
{
    struct bytes b = {NULL, 0, 0};
    FILE *f = fopen(in_folder(name), "rb");
    int c;

    assert_non_null(f);
    while ((c = fgetc(f)) != EOF) {
        bytes_fill(&b, c, 1);
    }
    (void)fclose(f);
    return b;
}

void expect_same(const char *a, const char *b)
{
    struct bytes x = load(a);
    struct bytes y = load(b);

    assert_int_equal(x.n, y.n);
    assert_memory_equal(x.p, y.p, x.n);
    bytes_release(&x);
    bytes_release(&y);
}

/* The file holds these bytes somewhere. */
bool holds(const char *name, const char *text)
{
    struct bytes b = load(name);
    bool found = memmem(b.p, b.n, text, strlen(text)) != NULL;

    bytes_release(&b);
    return found;
}

bool exists(const char *name)
{
    return access(in_folder(name), F_OK) == 0;
}

void empty_folder(void)
{
    DIR *d = opendir(folder);
    struct dirent *entry;

    assert_non_null(d);
    while ((entry = readdir(d)) != NULL) {
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0) {
            assert_int_equal(unlinkat(dirfd(d), entry->d_name, 0), 0);
        }
    }
    closedir(d);
}

unsigned count_files(void)
{
    DIR *d = opendir(folder);
    struct dirent *entry;
    unsigned n = 0;

    assert_non_null(d);
    while ((entry = readdir(d)) != NULL) {
        n += entry->d_name[0] != '.' || strncmp(entry->d_name, ".vc", 3) == 0;
    }
    closedir(d);
    return n;
}

/* ---- jobs ---- */

static enum vc_status add_pass(struct vc_ctx *ctx, struct vc_job *job, enum what what)
{
    struct vc_quantize_options q;
    struct vc_dequantize_options d;

    vc_quantize_defaults(&q);
    vc_dequantize_defaults(&d);
    q.min_elems = 1;
    q.min_row = 1;
    q.requantize = true;
    q.target = what == FP16 ? VC_TARGET_F16 : what == BF16 ? VC_TARGET_BF16 : VC_TARGET_INT8;
    q.asymmetric = what == ASYMMETRIC;
    q.granularity = what == GROUPS    ? VC_GRANULARITY_GROUP
                    : what == TENSORS ? VC_GRANULARITY_TENSOR
                                      : VC_GRANULARITY_CHANNEL;
    q.group_size = what == GROUPS ? 3 : 0;
    d.casts = true;
    return what == COPY   ? VC_OK
           : what == BACK ? vc_job_add_dequantize(ctx, job, &d)
                          : vc_job_add_quantize(ctx, job, &q);
}

char note[256];
const char *beside;

enum vc_status convert(struct vc_ctx *ctx, const char *from, const char *to, enum what what, bool force)
{
    const char *emit = in_folder(beside != NULL ? beside : "");
    struct vc_write_options write = {
        .path = in_folder(to), .force = force, .emit = &emit, .n_emit = beside != NULL ? 1 : 0};
    struct vc_model *model = NULL;
    struct vc_job *job = NULL;
    struct stat st;
    enum vc_status status;

    VC_TRY(vc_model_open(ctx, in_folder(from), NULL, &model));
    VC_TRY(vc_job_create(ctx, model, &job));
    VC_TRY(add_pass(ctx, job, what));
    VC_TRY(vc_job_plan(ctx, job, &write));
    (void)snprintf(note, sizeof note, "%s", vc_job_report(job)->note);
    VC_TRY(vc_job_run(ctx, job));
    if (stat(in_folder(to), &st) == 0 && !exists("out.onnx.data")) {
        assert_int_equal(vc_job_report(job)->totals.file_after, st.st_size);
    }
out:
    vc_job_free(job);
    vc_model_close(model);
    return status;
}

void must_convert(const char *from, const char *to, enum what what)
{
    struct vc_ctx *ctx = test_ctx();

    if (convert(ctx, from, to, what, true) != VC_OK) {
        fail_msg("%s", vc_ctx_message(ctx));
    }
    vc_ctx_free(ctx);
}

void must_refuse(const char *from, const char *to, enum what what, const char *needle)
{
    struct vc_ctx *ctx = test_ctx();
    bool there = exists(to);

    assert_int_not_equal(convert(ctx, from, to, what, false), VC_OK);
    if (strstr(vc_ctx_message(ctx), needle) == NULL) {
        fail_msg("\"%s\" does not say \"%s\"", vc_ctx_message(ctx), needle);
    }
    assert_int_equal(exists(to), there);
    vc_ctx_free(ctx);
}

struct bytes counting(size_t n)
{
    struct bytes b = {NULL, 0, 0};
    size_t i;

    for (i = 0; i < n / 4; i++) {
        float x = (float)(i % 251) - 100.0f;

        bytes_add(&b, &x, sizeof x);
    }
    return b;
}

void save_external(void)
{
    struct onnx_builder g = {.ir = 0};

    onnx_elsewhere(&g, "w", 20, 20, "w.bin", "16", "1600");
    onnx_elsewhere(&g, "none", 0, 20, "w.bin", "1616", "0");
    onnx_elsewhere(&g, "tiny", 1, 4, "w.bin", NULL, "16");
    onnx_weights(&g, "here", 20, 20);
    save("in.onnx", onnx_finish(&g));
    save("w.bin", counting(1616));
}

struct onnx_builder small_graph(uint64_t ir, uint64_t opset)
{
    struct onnx_builder g = {.ir = ir, .opset = opset};
    const uint64_t three[] = {3};
    struct bytes t = onnx_head("n", 7, 1, three);

    onnx_op(&g, "MatMul", "x w", "h");
    onnx_op(&g, "MatMul", "h v", "y");
    pb_text(&t, 12, "three numbers");
    pb_data(&t, 7, "\1\2\3", 3);
    onnx_weights(&g, "w", 4, 6);
    pb_message(&g.graph, 5, &t);
    onnx_weights(&g, "v", 6, 5);
    onnx_info(&g, 11, "x");
    onnx_info(&g, 12, "y");
    onnx_info(&g, 13, "h");
    bytes_add(&g.model, "\xa3\x38\x08\1\xa4\x38", 6); /* an unknown group */
    pb_text(&g.model, 6, "the last field");
    return g;
}

int onnx_set_up(void **state)
{
    (void)state;
    return mkdtemp(folder) == NULL ? -1 : 0;
}

int onnx_tear_down(void **state)
{
    (void)state;
    return rmdir(folder);
}
