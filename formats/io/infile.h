/* infile.h - an input file: opened once, read by range, never mapped, never changed. Every reader gets its bytes here.
 *
 * A short read (the file was truncated while it was open) is VC_E_FORMAT and names the offset. Thread-safe after open.
 */
#pragma once

#include <vcompress/stream.h>

#include "core/base/kept_files.h"
#include "formats/io/mounts.h"

struct vc_infile {
    int fd; /* -1: there are few descriptors, and every read opens the file again (vc_descriptors_are_few) */
    uint64_t size_bytes;
    struct vc_kept_file kept;                /* to know the input again whatever it is called */
    struct timespec modified;                /* with size_bytes: to see that it is still as it was when it was opened */
    const char *path;                        /* borrowed from the model */
    unsigned char *bytes;                    /* not NULL: there is no file, these are its bytes; the pool's */
    const struct vc_virtual_file *elsewhere; /* not NULL: the file has no bytes, they are read there (mounts.h) */
    struct vc_reader reader; /* size_bytes not 0: there is no file, these are its bytes; the program's */
};

#define VC_HEAD_BYTES 512 /* of a file tell what it is */

/* Where a stream ends, as far as what has come of it tells. Zeros before the first call. */
struct vc_stream_end {
    uint64_t need;     /* so many bytes have to be there before more can be said; UINT64_MAX: it does not tell */
    uint64_t at;       /* for whoever looks: where it goes on */
    uint64_t end;      /* the stream has so many bytes; 0: not known yet */
    uint64_t searched; /* for whoever looks: so far it searched in what begins at `at` */
};

/* Looks at what has come so far, at least end->need bytes, and sets `need` or `end`. What it refuses is not read any
 * further. */
typedef enum vc_status vc_end_fn(struct vc_ctx *ctx, const struct vc_infile *so_far, struct vc_stream_end *end);

/* How a stream is looked at while it is copied. */
struct vc_stream {
    /* Sees the first VC_HEAD_BYTES of a stream that has more, and sets find_end where it knows one. */
    enum vc_status (*look)(struct vc_ctx *ctx, struct vc_stream *stream, const unsigned char *head, size_t n);
    vc_end_fn *find_end; /* NULL: nobody can tell */
};

/* Refuses folders, devices and empty files. */
enum vc_status vc_infile_open(struct vc_ctx *ctx, const char *path, struct vc_infile **out);
/* Standard input. What is no file is copied into an unnamed one in $TMPDIR, after `look` has seen how it begins, and
 * refused when it is longer than it says itself. */
enum vc_status vc_infile_open_stdin(struct vc_ctx *ctx, struct vc_stream *stream, struct vc_infile **out);
/* Opens a file that another one, `by`, speaks of (a shard of an index): VC_E_FORMAT when it is not there. */
enum vc_status vc_infile_open_other(struct vc_ctx *ctx, const char *path, const char *by, struct vc_infile **out);
/* An open descriptor of a regular file becomes an input; it is closed after a failure, too. */
enum vc_status vc_infile_adopt(struct vc_ctx *ctx, int fd, const struct stat *st, const char *path,
                               struct vc_infile **out);
/* Bytes in memory become an input, which frees them (vc_free), also after a failure. path: borrowed. */
enum vc_status vc_infile_of_bytes(struct vc_ctx *ctx, unsigned char *bytes, uint64_t n, const char *path,
                                  struct vc_infile **out);
/* Bytes of the program become an input. path: borrowed. */
enum vc_status vc_infile_of_reader(struct vc_ctx *ctx, const struct vc_reader *reader, const char *path,
                                   struct vc_infile **out);
void vc_infile_close(struct vc_ctx *ctx, struct vc_infile *file);
/* The file is as it was when it was opened: VC_E_FORMAT when its size or the time of its last change is another. To be
 * called once all of it has been read. */
enum vc_status vc_infile_check(struct vc_ctx *ctx, const struct vc_infile *file);
/* Exactly n bytes from `offset` on. */
enum vc_status vc_infile_read(struct vc_ctx *ctx, const struct vc_infile *file, uint64_t offset, void *dst, size_t n);
/* All of a small file, with a NUL behind it; *text is the caller's, NULL after a failure. VC_E_FORMAT beyond `most` bytes. */
enum vc_status vc_infile_text(struct vc_ctx *ctx, const struct vc_infile *file, uint64_t most, char **text);

/* n bytes from `offset` on will be read soon: the system may fetch them from the disk meanwhile. Nothing is waited for,
 * and what cannot be announced is read as it would be otherwise. */
void vc_infile_ahead(const struct vc_infile *file, uint64_t offset, uint64_t n);

/* Half of the descriptors that the process may have are below `fd`, which was opened just now: so that many shards can
 * be read and written, it is better not kept. */
bool vc_descriptors_are_few(int fd);

/* Tests: the n-th read from an input, or look at whether it was changed, fails from now on with EIO (1 = the next, 0 =
 * none); the number of them so far. */
void vc_infile_fail_at(uint64_t n);
uint64_t vc_infile_call_count(void);

/* An unnamed temporary file in $TMPDIR (default /tmp), open for reading and writing; -1 with the error set. */
int vc_tempfile_open(struct vc_ctx *ctx);
