/* in_memory.c - quantizes bytes in memory to bytes in memory; no file is opened by the library.
 *
 *     in_memory FORMAT < model.npz > small.npz        FORMAT: npz, safetensors, gguf, ...
 *
 * The output has the bytes that `vcompress quantize --int8 --format FORMAT` writes to a file. */
#include <stdio.h>
#include <stdlib.h>

#include <vcompress/vcompress.h>

/* All of standard input; NULL if memory is short. */
static unsigned char *read_all(size_t *n)
{
    unsigned char *bytes = NULL;
    size_t room = 0;
    size_t got = 1;

    for (*n = 0; got != 0; *n += got) {
        if (*n == room) {
            unsigned char *grown = (unsigned char *)realloc(bytes, room = 2 * room + 65536);

            if (grown == NULL) {
                free(bytes);
                return NULL;
            }
            bytes = grown;
        }
        got = fread(bytes + *n, 1, room - *n, stdin);
    }
    return bytes;
}

static enum vc_status quantize(struct vc_ctx *ctx, const struct vc_reader *from, const char *format,
                               struct vc_memory *to)
{
    struct vc_model *model = NULL;
    struct vc_job *job = NULL;
    struct vc_open_options open;
    struct vc_quantize_options quantize;
    struct vc_write_options write;

    vc_open_defaults(&open);
    open.reader = from;
    vc_quantize_defaults(&quantize);
    vc_write_defaults(&write);
    write.writer = &to->writer;
    write.format = format;
    enum vc_status status = vc_model_open(ctx, "stdin", &open, &model); /* "<stdin>" in sentences */
    if (status == VC_OK) {
        status = vc_job_create(ctx, model, &job);
    }
    if (status == VC_OK) {
        status = vc_job_add_quantize(ctx, job, &quantize);
    }
    if (status == VC_OK) {
        status = vc_job_plan(ctx, job, &write);
    }
    if (status == VC_OK) {
        status = vc_job_run(ctx, job);
    }
    vc_job_free(job);
    vc_model_close(model);
    return status;
}

int main(int argc, char **argv)
{
    struct vc_ctx *ctx = NULL;
    struct vc_memory *to = vc_memory_create();
    struct vc_reader from = {NULL, 0, NULL, NULL};
    enum vc_status status = vc_ctx_create(&ctx);
    size_t n = 0;
    unsigned char *bytes = read_all(&n);

    from.bytes = bytes;
    from.size_bytes = n;
    if (argc != 2 || to == NULL || bytes == NULL) {
        fprintf(stderr, "usage: in_memory FORMAT < IN > OUT\n");
        status = VC_E_ARGUMENT;
    } else if (status == VC_OK) {
        status = quantize(ctx, &from, argv[1], to);
        if (status != VC_OK) {
            fprintf(stderr, "in_memory: %s\n", vc_ctx_message(ctx));
        }
    }
    if (status == VC_OK &&
        (fwrite(to->bytes, 1, (size_t)to->size_bytes, stdout) != to->size_bytes || fflush(stdout) != 0)) {
        status = VC_E_IO;
    }
    free(bytes);
    vc_memory_free(to);
    vc_ctx_free(ctx);
    return status == VC_OK ? 0 : 1;
}
