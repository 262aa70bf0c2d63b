/* digits_evaluate.c - how many test digits does the shipped network get right, as it is stored in this file?
 *
 *     digits_evaluate IMAGES MODEL...
 *
 * Reads the weights through vc_tensor_read_f32 and computes the layers in plain loops, apart from the engine: a second
 * opinion on `vcompress evaluate`. examples/digits/train.py has the same network. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <vcompress/vcompress.h>

#define SIDE      8 /* pixels */
#define N_PIXELS  ((size_t)SIDE * SIDE)
#define N_CLASSES 10
#define MAX_SIDE  (SIDE + 2)
#define BN_EPS    1e-5f
#define MAX_PLANE ((size_t)128 * MAX_SIDE * MAX_SIDE)
#define N_SIDE    16 /* images that are classified side by side */

/* One pixel, or one answer, of each of the images side by side: loops over them are what a compiler makes fast. */
struct pixel {
    float of[N_SIDE];
};

struct conv {
    size_t c_in, c_out;
    float *weight, *gain, *shift, *mean, *var; /* c_out x c_in x 3 x 3, then c_out each */
};

struct dense {
    size_t n_in, n_out;
    float *weight, *bias;
};

struct network {
    struct conv conv[3];
    struct dense fc[2];
};

struct images {
    size_t n;
    unsigned char *pixels, *labels;
};

/* The whole tensor as floats, or NULL with the sentence printed. Freed with free. */
static float *read_weights(struct vc_ctx *ctx, const struct vc_model *model, const char *layer, const char *part,
                           size_t n)
{
    char name[64];
    size_t index;
    float *values;

    snprintf(name, sizeof name, "%s.%s", layer, part);
    index = vc_model_find(model, name);
    if (index == VC_NO_TENSOR || vc_model_tensor(model, index)->n_elems != n) {
        fprintf(stderr, "%s: %s: expected %zu values, %s\n", vc_model_facts(model)->path, name, n,
                index == VC_NO_TENSOR ? "there is no such tensor" : "found another number");
        return NULL;
    }
    values = (float *)malloc(n * sizeof *values);
    if (values == NULL) {
        fprintf(stderr, "%s: %s: no memory\n", vc_model_facts(model)->path, name);
    } else if (vc_tensor_read_f32(ctx, model, index, values, n) != VC_OK) {
        fprintf(stderr, "%s\n", vc_ctx_message(ctx));
        free(values);
        values = NULL;
    }
    return values;
}

/* The layer that train.py calls conv<number>, and the batch-norm behind it. */
static bool load_conv(struct vc_ctx *ctx, const struct vc_model *model, int number, size_t c_in, size_t c_out,
                      struct conv *c)
{
    char conv[16], bn[16];

    snprintf(conv, sizeof conv, "conv%d", number);
    snprintf(bn, sizeof bn, "bn%d", number);
    c->c_in = c_in;
    c->c_out = c_out;
    return (c->weight = read_weights(ctx, model, conv, "weight", c_out * c_in * 9)) != NULL &&
           (c->gain = read_weights(ctx, model, bn, "weight", c_out)) != NULL &&
           (c->shift = read_weights(ctx, model, bn, "bias", c_out)) != NULL &&
           (c->mean = read_weights(ctx, model, bn, "running_mean", c_out)) != NULL &&
           (c->var = read_weights(ctx, model, bn, "running_var", c_out)) != NULL;
}

static bool load_dense(struct vc_ctx *ctx, const struct vc_model *model, const char *layer, size_t n_in, size_t n_out,
                       struct dense *d)
{
    d->n_in = n_in;
    d->n_out = n_out;
    return (d->weight = read_weights(ctx, model, layer, "weight", n_in * n_out)) != NULL &&
           (d->bias = read_weights(ctx, model, layer, "bias", n_out)) != NULL;
}

static void network_free(struct network *net)
{
    for (size_t i = 0; i < 3; i++) {
        free(net->conv[i].weight);
        free(net->conv[i].gain);
        free(net->conv[i].shift);
        free(net->conv[i].mean);
        free(net->conv[i].var);
    }
    for (size_t i = 0; i < 2; i++) {
        free(net->fc[i].weight);
        free(net->fc[i].bias);
    }
}

/* Batch-norm and ReLU of channel o. */
static void bn_relu(const struct conv *c, size_t o, struct pixel *p)
{
    float inv = 1.0f / sqrtf(c->var[o] + BN_EPS);

    for (size_t n = 0; n < N_SIDE; n++) {
        float v = (p->of[n] - c->mean[o]) * inv * c->gain[o] + c->shift[o];

        p->of[n] = v > 0 ? v : 0;
    }
}

/* 3 x 3 convolution with a border of zeros, batch-norm, ReLU. Planes are side x side inside a frame one pixel wide. */
static void conv_bn_relu(const struct conv *c, size_t side, const struct pixel *in, struct pixel *out)
{
    size_t width = side + 2, plane = width * width;

    memset(out, 0, c->c_out * plane * sizeof *out);
    for (size_t o = 0; o < c->c_out; o++) {
        for (size_t at = 0; at < side * side; at++) {
            size_t corner = at / side * width + at % side;
            struct pixel sum;

            memset(&sum, 0, sizeof sum);
            for (size_t i = 0; i < c->c_in; i++) {
                for (size_t tap = 0; tap < 9; tap++) {
                    const struct pixel *from = &in[i * plane + corner + tap / 3 * width + tap % 3];
                    float w = c->weight[(o * c->c_in + i) * 9 + tap];

                    for (size_t n = 0; n < N_SIDE; n++) {
                        sum.of[n] += w * from->of[n];
                    }
                }
            }
            bn_relu(c, o, &sum);
            out[o * plane + corner + width + 1] = sum;
        }
    }
}

/* The largest of each 2 x 2 square; framed planes in, planes with a frame of `frame` pixels out. */
static void max_pool(size_t n_planes, size_t side, const struct pixel *in, size_t frame, struct pixel *out)
{
    size_t width = side + 2, half = side / 2, out_width = half + 2 * frame;

    memset(out, 0, n_planes * out_width * out_width * sizeof *out);
    for (size_t p = 0; p < n_planes; p++) {
        for (size_t at = 0; at < half * half; at++) {
            size_t y = at / half, x = at % half;
            const struct pixel *from = &in[(p * width + 2 * y + 1) * width + 2 * x + 1];
            struct pixel *to = &out[(p * out_width + y + frame) * out_width + x + frame];

            for (size_t n = 0; n < N_SIDE; n++) {
                float top = from[0].of[n] > from[1].of[n] ? from[0].of[n] : from[1].of[n];
                float low = from[width].of[n] > from[width + 1].of[n] ? from[width].of[n] : from[width + 1].of[n];

                to->of[n] = top > low ? top : low;
            }
        }
    }
}

/* out = weight * in + bias; weight is n_out x n_in. */
static void dense(const struct dense *d, bool relu, const struct pixel *in, struct pixel *out)
{
    for (size_t o = 0; o < d->n_out; o++) {
        struct pixel sum;

        for (size_t n = 0; n < N_SIDE; n++) {
            sum.of[n] = d->bias[o];
        }
        for (size_t i = 0; i < d->n_in; i++) {
            for (size_t n = 0; n < N_SIDE; n++) {
                sum.of[n] += d->weight[o * d->n_in + i] * in[i].of[n];
            }
        }
        for (size_t n = 0; n < N_SIDE; n++) {
            out[o].of[n] = relu && sum.of[n] < 0 ? 0 : sum.of[n];
        }
    }
}

/* The digits that the network sees in n images, N_SIDE at most, of 8 x 8 pixels of 0..16. Two buffers take turns as
 * input and output of the layers. */
static void classify(const struct network *net, const unsigned char *pixels, size_t n, size_t *digit)
{
    static struct pixel a[MAX_PLANE], b[MAX_PLANE];
    struct pixel logits[N_CLASSES];

    memset(a, 0, (size_t)MAX_SIDE * MAX_SIDE * sizeof *a);
    for (size_t i = 0; i < n * N_PIXELS; i++) {
        size_t at = i % N_PIXELS;

        a[(at / SIDE + 1) * MAX_SIDE + at % SIDE + 1].of[i / N_PIXELS] = (float)pixels[i] / 16.0f;
    }
    conv_bn_relu(&net->conv[0], SIDE, a, b);
    conv_bn_relu(&net->conv[1], SIDE, b, a);
    max_pool(64, SIDE, a, 1, b);
    conv_bn_relu(&net->conv[2], SIDE / 2, b, a);
    max_pool(128, SIDE / 2, a, 0, b);
    dense(&net->fc[0], true, b, a);
    dense(&net->fc[1], false, a, logits);
    for (size_t i = 0; i < n; i++) {
        digit[i] = 0;
        for (size_t k = 1; k < N_CLASSES; k++) {
            digit[i] = logits[k].of[i] > logits[digit[i]].of[i] ? k : digit[i];
        }
    }
}

/* How many of the images the network gets right. */
static size_t count_right(const struct network *net, const struct images *images)
{
    size_t right = 0;

    for (size_t done = 0; done < images->n; done += N_SIDE) {
        size_t n = images->n - done < N_SIDE ? images->n - done : N_SIDE;
        size_t digit[N_SIDE];

        classify(net, images->pixels + done * N_PIXELS, n, digit);
        for (size_t i = 0; i < n; i++) {
            right += digit[i] == images->labels[done + i];
        }
    }
    return right;
}

/* Prints "FILE: N of M correct, P %". */
static bool evaluate(struct vc_ctx *ctx, const char *path, const struct images *images)
{
    struct vc_model *model = NULL;
    struct network net;
    size_t right = 0;
    bool ok = false;

    memset(&net, 0, sizeof net);
    if (vc_model_open(ctx, path, NULL, &model) != VC_OK) {
        fprintf(stderr, "%s\n", vc_ctx_message(ctx));
        return false;
    }
    if (load_conv(ctx, model, 1, 1, 32, &net.conv[0]) && load_conv(ctx, model, 2, 32, 64, &net.conv[1]) &&
        load_conv(ctx, model, 3, 64, 128, &net.conv[2]) && load_dense(ctx, model, "fc1", 512, 128, &net.fc[0]) &&
        load_dense(ctx, model, "fc2", 128, N_CLASSES, &net.fc[1])) {
        right = count_right(&net, images);
        printf("%s: %zu of %zu correct, %.2f %%\n", path, right, images->n, 100.0 * (double)right / (double)images->n);
        ok = true;
    }
    network_free(&net);
    vc_model_close(model);
    return ok;
}

/* The test set: an npz of u8, read with the same library as the models. */
static bool load_images(struct vc_ctx *ctx, const char *path, struct images *images)
{
    struct vc_model *model = NULL;
    size_t pixels, labels, n;
    bool ok = false;

    if (vc_model_open(ctx, path, NULL, &model) != VC_OK) {
        fprintf(stderr, "%s\n", vc_ctx_message(ctx));
        return false;
    }
    pixels = vc_model_find(model, "test_images");
    labels = vc_model_find(model, "test_labels");
    n = labels == VC_NO_TENSOR ? 0 : (size_t)vc_model_tensor(model, labels)->n_elems;
    if (pixels == VC_NO_TENSOR || n == 0 || vc_model_tensor(model, pixels)->n_elems != n * N_PIXELS ||
        vc_model_tensor(model, pixels)->dtype != VC_DTYPE_U8 || vc_model_tensor(model, labels)->dtype != VC_DTYPE_U8) {
        fprintf(stderr, "%s: expected test_images (n x 8 x 8, u8) and test_labels (n, u8)\n", path);
        goto out;
    }
    images->n = n;
    images->pixels = (unsigned char *)malloc(n * N_PIXELS);
    images->labels = (unsigned char *)malloc(n);
    if (images->pixels == NULL || images->labels == NULL) {
        fprintf(stderr, "%s: no memory for %zu images\n", path, n);
        goto out;
    }
    if (vc_model_read(ctx, model, pixels, 0, n * N_PIXELS, images->pixels, n * N_PIXELS) != VC_OK ||
        vc_model_read(ctx, model, labels, 0, n, images->labels, n) != VC_OK) {
        fprintf(stderr, "%s\n", vc_ctx_message(ctx));
        goto out;
    }
    ok = true;
out:
    vc_model_close(model);
    return ok;
}

int main(int argc, char **argv)
{
    struct vc_ctx *ctx = NULL;
    struct images images = {0, NULL, NULL};
    bool ok = false;

    if (argc < 3) {
        fprintf(stderr, "usage: digits_evaluate IMAGES MODEL...\n");
        return 2;
    }
    if (vc_ctx_create(&ctx) != VC_OK) {
        fprintf(stderr, "%s\n", ctx == NULL ? "no memory" : vc_ctx_message(ctx));
    } else if (load_images(ctx, argv[1], &images)) {
        ok = true;
        for (int i = 2; i < argc; i++) {
            ok = evaluate(ctx, argv[i], &images) && ok;
        }
    }
    free(images.pixels);
    free(images.labels);
    vc_ctx_free(ctx);
    return ok ? 0 : 1;
}
