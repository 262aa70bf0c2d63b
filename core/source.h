/* source.h - the reading side of a format, and the inside of struct vc_model.
 *
 * A format's reader fills a vc_model when it opens a file and then serves bytes. Bytes come in one of two forms:
 *   VC_FORM_VALUES  the tensor's elements in C order, little-endian: what passes work on
 *   VC_FORM_RAW     the member exactly as the file has it, with its own header: how a kept tensor is copied within
 *                   the same format
 * Tensors that are `sequential` (compressed) are read front to back through a stream; others by range, from any
 * thread. Either way the reader keeps track of checksums: once all bytes of a form of a tensor were read with `check`
 * set, it compares and fails with VC_E_FORMAT if they are wrong. */
#ifndef VC_CORE_SOURCE_H
#define VC_CORE_SOURCE_H

#include <vcompress/model.h>

#include "core/ctx.h"

enum vc_form { VC_FORM_VALUES, VC_FORM_RAW };

struct vc_sink;
struct vc_write_options;
struct vc_source_stream;

struct vc_source_ops {
    /* n_bytes from offset of that form; random access tensors only. */
    enum vc_status (*read)(struct vc_ctx *ctx, struct vc_model *model, size_t tensor, enum vc_form form,
                           uint64_t offset, void *dst, size_t n_bytes, bool check);

    /* Sequential tensors only. stream_close with `finished` false gives up early; with true everything must have been
     * read, and the end of the compressed data and its checksum are verified. */
    enum vc_status (*stream_open)(struct vc_ctx *ctx, struct vc_model *model, size_t tensor, enum vc_form form,
                                  struct vc_source_stream **out);
    enum vc_status (*stream_read)(struct vc_ctx *ctx, struct vc_source_stream *stream, void *dst, size_t n_bytes);
    enum vc_status (*stream_close)(struct vc_ctx *ctx, struct vc_source_stream *stream, bool finished);

    /* Forgets which bytes were read with `check` so far. Called before a run, so that one that was broken off cannot
     * spoil the next; not while other threads read. Between two comparisons every byte of a form must be read with
     * `check` once at most. May be NULL. */
    void (*check_reset)(struct vc_model *model);

    /* Memory one open stream takes, for the plan. */
    size_t (*stream_bytes)(const struct vc_model *model, size_t tensor);

    void (*close)(struct vc_model *model); /* frees `self`, tensors and names */

    /* The writer for this model's own format: sink.h. */
    enum vc_status (*create_sink)(struct vc_ctx *ctx, const struct vc_model *model,
                                  const struct vc_write_options *options, struct vc_sink **out);
};

/* Per tensor, beside the public part. */
struct vc_tensor_io {
    bool sequential;
    uint64_t raw_bytes; /* of VC_FORM_RAW */
};

struct vc_model {
    struct vc_ctx *ctx; /* its pool owns everything below */
    const struct vc_source_ops *ops;
    void *self; /* the reader's own */
    char *path;
    const char *format;
    uint64_t file_bytes;
    size_t n_tensors;
    struct vc_tensor *tensors;
    struct vc_tensor_io *io;
    size_t *by_name; /* indices sorted by name (bytewise), for vc_model_find */
};

/* Sorts by_name; VC_E_FORMAT naming the tensor when a name occurs twice. */
enum vc_status vc_model_index_names(struct vc_ctx *ctx, struct vc_model *model);

/* n_bytes from `offset` of either kind of tensor: the slow general way, used for small reads (opens a stream and skips
 * where needed). */
enum vc_status vc_source_read_any(struct vc_ctx *ctx, struct vc_model *model, size_t tensor, enum vc_form form,
                                  uint64_t offset, void *dst, size_t n_bytes);

#endif
