/* stream.h - models that are no files: bytes in memory, or behind functions of the program.
 *
 *     vc_open_options.reader    the model comes from there: a whole file of any format, npz, safetensors, GGUF, ...
 *     vc_write_options.writer   the output goes there: formats that are one file
 *
 * The library asks for ranges, as of a file, so that programs can make bytes up as they are asked for. */
#ifndef VCOMPRESS_STREAM_H
#define VCOMPRESS_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <vcompress/status.h>

VC_BEGIN_C

/* Where the bytes of a model come from. They must not change, and have to be there, until vc_model_close. */
struct vc_reader {
    const void *bytes; /* all of them, in memory; NULL: `read` has them */
    uint64_t size_bytes;
    /* Copies n bytes from `offset` on to dst. Any thread calls it, several at once. Returns false if the bytes cannot
     * be had: the call of the library fails with VC_E_IO then. */
    bool (*read)(void *user, uint64_t offset, void *dst, size_t n);
    void *user; /* first argument of `read` */
};

/* Where the bytes of an output go. All functions return false to refuse, which ends the job with VC_E_IO. */
struct vc_writer {
    /* Called once, before the first write. size_bytes of the whole output; 0: not known before (deflated). NULL: the
     * program does not want to know. */
    bool (*begin)(void *user, uint64_t size_bytes);
    /* n bytes, from `offset` of the output on. Any thread calls `write`, several at once, in any order; an offset may
     * be written again. */
    bool (*write)(void *user, uint64_t offset, const void *data, size_t n);
    /* Called once: everything is written, no gate was missed. Without this call the bytes are to be thrown away. May be
     * NULL. */
    bool (*commit)(void *user);
    void *user; /* first argument of all three */
};

/* An output in memory, outside of the limit of vc_ctx_set_max_memory. */
struct vc_memory {
    struct vc_writer writer; /* for vc_write_options.writer; its functions change what follows */
    const void *bytes;       /* the whole output after vc_job_run; NULL if no output was completed */
    uint64_t size_bytes;     /* its size, 0 without one */
};

/* Returns NULL if memory is short. */
VC_API struct vc_memory *vc_memory_create(void);
VC_API void vc_memory_free(struct vc_memory *memory); /* accepts NULL */

VC_END_C
#endif
