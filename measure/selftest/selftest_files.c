/* selftest_files.c - the whole way through files: an .npy written here, quantized to int8, opened again, dequantized,
 * and compared with bounds that follow from the definition. Uses the public calls only. */
#define _XOPEN_SOURCE 700 /* mkdtemp */

#include <math.h>
#include <unistd.h>

#include "core/job/scoped.h"
#include "measure/selftest/selftest.h"

#include <vcompress/quantize.h>

#define ROWS   64
#define COLS   150
#define ELEMS  ((size_t)ROWS * COLS)
#define HEADER 128

/* The files of the test, in a folder of their own. */
struct paths {
    char folder[VC_MESSAGE_BYTES / 2];
    char in[VC_MESSAGE_BYTES], quantized[VC_MESSAGE_BYTES], back[VC_MESSAGE_BYTES];
};

/* The weights, after decoding the quantized file, and after reading the dequantized one. */
struct weights {
    float x[ELEMS], decoded[ELEMS], read_back[ELEMS];
};

/* In `folder`, in TMPDIR, or in /tmp. folder[0] is 0 as long as there is nothing to remove. */
static enum vc_status make_folder(struct vc_ctx *ctx, const char *folder, struct paths *paths)
{
    if (folder == NULL) {
        folder = getenv("TMPDIR");
    }
    if (folder == NULL || folder[0] == '\0') {
        folder = "/tmp";
    }
    int n = snprintf(paths->folder, sizeof paths->folder, "%s/vcompress-selftest-XXXXXX", folder);
    if (n < 0 || (size_t)n >= sizeof paths->folder) {
        paths->folder[0] = '\0';
        return vc_fail(ctx, VC_E_ARGUMENT, "%.100s...: the path is too long", folder);
    }
    if (mkdtemp(paths->folder) == NULL) {
        paths->folder[0] = '\0';
        return vc_fail(ctx, VC_E_IO, "%s: cannot make a temporary folder there", folder);
    }
    (void)snprintf(paths->in, sizeof paths->in, "%s/in.npy", paths->folder);
    (void)snprintf(paths->quantized, sizeof paths->quantized, "%s/in.int8.npz", paths->folder);
    (void)snprintf(paths->back, sizeof paths->back, "%s/back.npz", paths->folder);
    return VC_OK;
}

/* Removes what is there, also after a failure in the middle. */
static void remove_all(const struct paths *paths)
{
    if (paths->folder[0] != '\0') {
        (void)unlink(paths->in);
        (void)unlink(paths->quantized);
        (void)unlink(paths->back);
        (void)rmdir(paths->folder);
    }
}

/* 93 'NUMPY' 1 0 | u16 length | text padded to 128 | f32 little-endian */
static enum vc_status write_npy(struct vc_ctx *ctx, const char *path, const float *x)
{
    char header[HEADER], text[HEADER];
    int n = snprintf(text, sizeof text, "{'descr': '<f4', 'fortran_order': False, 'shape': (%d, %d), }", ROWS, COLS);

    memset(header, ' ', sizeof header);
    memcpy(header, "\x93NUMPY\x01\x00", 8);
    header[8] = HEADER - 10;
    header[9] = 0;
    memcpy(header + 10, text, (size_t)n);
    header[HEADER - 1] = '\n';
    FILE *file = fopen(path, "wb");
    VC_REFUSE_IF(file == NULL, ctx, VC_E_IO, "%s: cannot be created", path);
    size_t written = fwrite(header, 1, sizeof header, file) + fwrite(x, sizeof *x, ELEMS, file);
    VC_REFUSE_IF(fclose(file) != 0 || written != sizeof header + ELEMS, ctx, VC_E_IO, "%s: cannot be written", path);
    return VC_OK;
}

/* Opens `from`, quantizes (or dequantizes) to `to`, closes. */
static enum vc_status convert(struct vc_ctx *ctx, const char *from, const char *to, bool quantize)
{
    struct vc_write_options write;
    struct vc_quantize_options q;
    struct vc_dequantize_options d;
    VC_SCOPED_MODEL struct vc_model *model = NULL;
    VC_SCOPED_JOB struct vc_job *job = NULL;

    vc_quantize_defaults(&q);
    vc_dequantize_defaults(&d);
    vc_write_defaults(&write);
    write.path = to;
    VC_CALL(vc_model_open(ctx, from, NULL, &model));
    VC_CALL(vc_job_create(ctx, model, &job));
    if (quantize) {
        VC_CALL(vc_job_add_quantize(ctx, job, &q));
    } else {
        VC_CALL(vc_job_add_dequantize(ctx, job, &d));
    }
    VC_CALL(vc_job_plan(ctx, job, &write));
    return vc_job_run(ctx, job);
}

/* The values of the only array, decoded. */
static enum vc_status read_weights(struct vc_ctx *ctx, const char *path, float *x)
{
    VC_SCOPED_MODEL struct vc_model *model = NULL;

    VC_CALL(vc_model_open(ctx, path, NULL, &model));
    return vc_tensor_read_f32(ctx, model, vc_model_find(model, "arr_0"), x, ELEMS);
}

/* Half a step of the row's scale, and the roundings of the decoder. */
static enum vc_status check_bounds(struct vc_ctx *ctx, const struct weights *w, struct vc_text *summary)
{
    double worst = 0;

    for (size_t row = 0; row < ROWS; row++) {
        const float *x = w->x + row * COLS;
        float absmax = 0;

        for (size_t i = 0; i < COLS; i++) {
            absmax = fabsf(x[i]) > absmax ? fabsf(x[i]) : absmax;
        }
        float scale = absmax / 127.0f;
        for (size_t i = 0; i < COLS; i++) {
            double steps = fabs((double)x[i] - (double)w->decoded[row * COLS + i]) / (double)scale;

            worst = steps > worst ? steps : worst;
            if (!(steps <= 0.50002)) { /* 127 * 2^-24 for the product, as much for the quotient */
                return vc_fail(ctx, VC_E_INTERNAL,
                               "int8 round trip: row %zu, element %zu: error of %g steps, at most 0.5 was expected",
                               row, i, steps);
            }
        }
    }
    VC_REFUSE_IF(memcmp(w->decoded, w->read_back, sizeof w->decoded) != 0, ctx, VC_E_INTERNAL,
                 "int8 round trip: the dequantized file differs from the quantized one");
    vc_text_add(summary, "files: %zu weights to int8 and back, largest error %.4f steps\n", ELEMS, worst);
    return VC_OK;
}

/* Weights are from a generator with a fixed start, each row with another range, so that rows need scales of
 * their own. */
enum vc_status vc_selftest_files(struct vc_ctx *ctx, const char *folder, struct vc_text *summary)
{
    struct paths paths = {.folder = ""};
    struct weights *w = vc_alloc(ctx, VC_TAG_SCRATCH, sizeof *w);
    uint32_t r = 1;
    enum vc_status status = VC_OK;

    VC_TRY_ALLOC(w);
    for (size_t i = 0; i < ELEMS; i++) {
        r = r * 1664525u + 1013904223u;
        w->x[i] = ((float)(r >> 8) / 16777216.0f - 0.5f) * (1.0f + (float)(i / COLS));
    }
    VC_TRY(make_folder(ctx, folder, &paths));
    VC_TRY(write_npy(ctx, paths.in, w->x));
    VC_TRY(convert(ctx, paths.in, paths.quantized, true));
    VC_TRY(read_weights(ctx, paths.quantized, w->decoded));
    VC_TRY(convert(ctx, paths.quantized, paths.back, false));
    VC_TRY(read_weights(ctx, paths.back, w->read_back));
    VC_TRY(check_bounds(ctx, w, summary));
out:
    remove_all(&paths);
    vc_free(ctx, w);
    return status;
}
