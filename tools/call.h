/* call.h - a command as a function of a program, for bindings of other languages (python/): words in, the JSON document,
 * the table for people and a sentence out; the page of a document; and a checkpoint whose values are read by range. Nothing
 * is printed, no signal is caught. Several threads may call at once.
 *
 * The library vcompress_call.so exports these functions. Their names and the structure may change with any version:
 * programs in C use <vcompress/vcompress.h>. */
#pragma once

#include <vcompress/vcompress.h>

struct vcompress_call {
    char **words; /* "quantize", "--int8", "m.npz"; their order is changed */
    int n_words;
    /* What quantize and its like, and inspect, read in place of INPUT; NULL: the file. */
    const struct vc_reader *reader;
    const struct vc_writer *writer;                                   /* ... and write in place of -o; NULL: the file */
    void (*progress)(void *user, const struct vc_progress *progress); /* as of vc_ctx_set_progress; NULL: none */
    void *user;

    int status;     /* as that of the command, 0 to 4 */
    char *document; /* JSON; NULL if there is none */
    char *text;     /* what the command prints; NULL: there is no memory for it */
    char *sentence; /* of the last failure; NULL: there was none */

    /* Its own: zeros at the start. */
    _Atomic(struct vc_ctx *) ctx;
    _Atomic bool cancelled;
    FILE *printed; /* to `text` */
    size_t n_text;
};

/* Runs the command and fills the results. `call` stays where it is until vcompress_call_end, once, which frees them. */
VC_API void vcompress_call_run(struct vcompress_call *call);
/* Ends it with status 4 soon, from any thread, between the start of vcompress_call_run and vcompress_call_end. */
VC_API void vcompress_call_cancel(struct vcompress_call *call);
VC_API void vcompress_call_end(struct vcompress_call *call);

/* The page of a document, as --html writes it. NULL: it is no document, or there is no memory. vcompress_text_free. */
VC_API char *vcompress_page(const char *document);
VC_API void vcompress_text_free(char *text);

/* A checkpoint of any format, whose values are read by range. One thread at a time. */
struct vcompress_file {
    const char *path;
    const struct vc_reader *reader; /* the bytes are there and not at `path`; NULL: the file */
    const char *key;                /* as --key; NULL: the usual names */
    bool decoded;                   /* codes are shown as f32 */

    int status;     /* as that of a command */
    char *document; /* as "inspect --json" has it: the tensors in their order */
    char *sentence; /* of the last failure; NULL: there was none */

    /* Its own: zeros at the start. */
    struct vc_ctx *ctx;
    struct vc_model *model;
};

/* Opens the checkpoint and lists the tensors. False: status and sentence say why. vcompress_file_close in any case. */
VC_API bool vcompress_file_open(struct vcompress_file *file);
/* Reads n elements of tensor number `tensor`, from `first` on, as they lie in C order, into n_bytes at dst. */
VC_API bool vcompress_file_read(struct vcompress_file *file, size_t tensor, uint64_t first, uint64_t n, void *dst,
                                size_t n_bytes);
VC_API void vcompress_file_close(struct vcompress_file *file);
