/* onnx_external.c - values of a tensor that lie in another file: external_data of a TensorProto.
 *
 *     external_data: ("location", "model.onnx.data"), ("offset", "4096"), ("length", "24")      strings, all of them
 *     data_location: 1
 *
 * The location is a path inside the model's folder, and nothing else: what a stranger's model names must not make the
 * program read other files of its user. Links that archives and repositories can bring are followed inside the folder
 * and the cache that it is part of (formats/io/side_file.h). Called by onnx_tensor.c. */
#define _GNU_SOURCE /* O_PATH */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "formats/io/side_file.h"
#include "formats/onnx/onnx.h"

#define MAX_EXTERNALS ((size_t)512) /* files open at a time */

#ifdef O_PATH
#define FOLDER_FLAGS (O_PATH | O_DIRECTORY | O_CLOEXEC) /* a folder that can be entered, but not listed */
#else
#define FOLDER_FLAGS (O_RDONLY | O_DIRECTORY | O_CLOEXEC)
#endif

/* ---- entries ---- */

/* A number as digits only: no sign, no blank, no exponent. */
static enum vc_status take_size(const struct onnx_reader *r, const char *what, const char *digits, bool *seen,
                                uint64_t *value)
{
    const char *p = digits;
    uint64_t n = 0;

    VC_REFUSE_IF(*seen, r->ctx, VC_E_FORMAT, "has the %s of its external data twice", what);
    *seen = true;
    for (; *p >= '0' && *p <= '9'; p++) {
        VC_REFUSE_IF(!vc_mul_u64(n, 10, &n) || !vc_add_u64(n, (uint64_t)(*p - '0'), &n), r->ctx, VC_E_FORMAT,
                     "the %s of its external data is above 2^64", what);
    }
    VC_REFUSE_IF(p == digits || *p != '\0', r->ctx, VC_E_FORMAT,
                 "the %s of its external data is '%.40s', expected digits", what, digits);
    *value = n;
    return VC_OK;
}

static enum vc_status take_location(const struct onnx_reader *r, struct onnx_external *external)
{
    VC_REFUSE_IF(external->location != NULL, r->ctx, VC_E_FORMAT, "has the location of its external data twice");
    external->location = vc_strdup(r->ctx, VC_TAG_NAMES, r->name);
    return external->location != NULL ? VC_OK : VC_E_NOMEM;
}

/* A StringStringEntryProto. Key and value may come in any order, so the value is read when both were seen. */
enum vc_status vc_onnx_external_entry(struct onnx_reader *r, struct vc_span message, struct onnx_external *external)
{
    enum { OTHER, LOCATION, OFFSET, LENGTH } key = OTHER;
    struct vc_field value = {.number = 0};

    VC_EACH_FIELD(field, &r->wire, message) {
        if (field.number == ONNX_ENTRY_KEY) {
            VC_CALL(vc_onnx_string_read(r, &field, "a key of its external data"));
            if (strcmp(r->name, "location") == 0) {
                key = LOCATION;
            } else if (strcmp(r->name, "offset") == 0) {
                key = OFFSET;
            } else if (strcmp(r->name, "length") == 0) {
                key = LENGTH;
            } else {
                key = OTHER;
            }
        } else if (field.number == ONNX_ENTRY_VALUE) {
            value = field;
        }
    }
    if (key == OTHER) {
        return VC_OK; /* a checksum of the whole file, or notes of a program */
    }
    r->name[0] = '\0';
    if (value.number != 0) {
        VC_CALL(vc_onnx_string_read(r, &value, "its external data"));
    }
    if (key == LOCATION) {
        VC_CALL(take_location(r, external));
    } else if (key == OFFSET) {
        VC_CALL(take_size(r, "offset", r->name, &external->has_offset, &external->offset));
    } else {
        VC_CALL(take_size(r, "length", r->name, &external->has_length, &external->length));
    }
    return VC_OK;
}

/* ---- files ---- */

/* The path of the model's folder. */
static const char *folder_path(const struct onnx_reader *r)
{
    const char *slash = strrchr(r->path, '/');
    size_t n = slash == NULL ? 0 : (size_t)(slash - r->path);

    return vc_arena_printf(r->ctx, &r->self->arena, "%.*s", slash == NULL || n == 0 ? 1 : (int)n,
                           slash == NULL ? "." : r->path);
}

/* Opened at the first tensor that needs it; locations are relative to it. */
static enum vc_status open_model_folder(struct onnx_reader *r)
{
    char real[PATH_MAX];

    if (r->folder >= 0) {
        return VC_OK;
    }
    VC_REFUSE_IF(vc_is_stream(r->path), r->ctx, VC_E_UNSUPPORTED,
                 "has its values in another file, which cannot be found from %s",
                 strcmp(r->path, "-") == 0 ? "standard input" : r->path);
    const char *name = folder_path(r);
    VC_CALL_ALLOC(name);
    r->folder = open(vc_mount_path(name, real), FOLDER_FLAGS);
    return r->folder >= 0 ? VC_OK : vc_fail_errno(r->ctx, errno, "cannot open the folder of the model");
}

/* Refuses absolute paths and any ".." in the location. */
static enum vc_status check_location(const struct onnx_reader *r, const char *location)
{
    const char *part = location;

    VC_REFUSE_IF(location == NULL || location[0] == '\0', r->ctx, VC_E_FORMAT,
                 "has its values in another file, but does not say in which");
    VC_REFUSE_IF(location[0] == '/', r->ctx, VC_E_UNSUPPORTED,
                 "has its values in '%.200s'; only files in the model's folder are read", location);
    while (part != NULL) {
        size_t n = strcspn(part, "/");

        VC_REFUSE_IF(n == 2 && part[0] == '.' && part[1] == '.', r->ctx, VC_E_UNSUPPORTED,
                     "has its values in '%.200s'; only files in the model's folder are read", location);
        part = part[n] == '\0' ? NULL : part + n + 1;
    }
    return VC_OK;
}

/* Only files are read, and not the model file itself. */
static enum vc_status check_file(const struct onnx_reader *r, const char *location, const struct stat *st)
{
    const struct vc_infile *model = r->self->file;

    VC_REFUSE_IF(!S_ISREG(st->st_mode), r->ctx, VC_E_UNSUPPORTED, "has its values in '%.200s', which is no file",
                 location);
    VC_REFUSE_IF(st->st_dev == model->kept.device && st->st_ino == model->kept.inode, r->ctx, VC_E_FORMAT,
                 "has its external data in the model itself");
    return VC_OK;
}

/* Opens it relative to the model's folder. O_NONBLOCK: a pipe is refused, not waited for. */
static enum vc_status open_external(struct onnx_reader *r, const char *location, struct vc_infile **out)
{
    const char *folder = folder_path(r);
    const char *path = folder != NULL ? vc_arena_printf(r->ctx, &r->self->arena, "%s/%s", folder, location) : NULL;
    enum vc_status status = VC_OK;
    struct stat st;
    bool stay;
    int fd = -1;

    VC_TRY_ALLOC(path);
    fd = openat(r->folder, location, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &st) != 0) {
        VC_TRY(vc_fail_errno(r->ctx, errno, "has its values in '%.200s', which cannot be opened", location));
    }
    VC_TRY(check_file(r, location, &st));
    VC_TRY(vc_links_stay(r->ctx, folder, location, &stay));
    if (!stay) {
        VC_TRY(vc_fail(r->ctx, VC_E_UNSUPPORTED,
                       "has its values in '%.200s', a link that leads out of the model's folder; put the file itself "
                       "there",
                       location));
    }
    return vc_infile_adopt(r->ctx, fd, &st, path, out);
out:
    if (fd >= 0) {
        (void)close(fd);
    }
    return status;
}

/* The number of the file, opened at its first use. */
static enum vc_status find_file(struct onnx_reader *r, const char *location, size_t *number)
{
    struct onnx *self = r->self;
    size_t n = self->n_externals;
    enum vc_status status = VC_OK;

    for (size_t i = n; i-- > 0;) { /* mostly the one before */
        if (strcmp(self->locations[i], location) == 0) {
            *number = i;
            return VC_OK;
        }
    }
    VC_REFUSE_IF(n == MAX_EXTERNALS, r->ctx, VC_E_UNSUPPORTED,
                 "the model has its values in more than %zu files; put them into one", MAX_EXTERNALS);
    VC_CALL(VC_GROW(r->ctx, VC_TAG_NAMES, self->externals, self->externals_capacity, n + 1));
    VC_CALL(VC_GROW(r->ctx, VC_TAG_NAMES, self->locations, self->locations_capacity, n + 1));
    VC_CALL(open_model_folder(r));
    VC_CALL_ALLOC(self->locations[n] = vc_strdup(r->ctx, VC_TAG_NAMES, location));
    status = open_external(r, location, &self->externals[n]);
    if (status != VC_OK) {
        vc_free(r->ctx, self->locations[n]);
        return status;
    }
    *number = self->n_externals++;
    return VC_OK;
}

/* Without a length the values take what shape and type need. */
enum vc_status vc_onnx_external_find(struct onnx_reader *r, const struct onnx_external *external,
                                     struct onnx_tensor *tensor)
{
    VC_CALL(check_location(r, external->location));
    VC_CALL(find_file(r, external->location, &tensor->external));
    const struct vc_infile *file = r->self->externals[tensor->external];
    VC_REFUSE_IF(external->has_length && external->length != tensor->n_bytes, r->ctx, VC_E_FORMAT,
                 "has %" PRIu64 " bytes in '%.200s', but its shape and type need %" PRIu64, external->length,
                 external->location, tensor->n_bytes);
    VC_REFUSE_IF(external->offset > file->size_bytes || tensor->n_bytes > file->size_bytes - external->offset, r->ctx,
                 VC_E_FORMAT,
                 "needs %" PRIu64 " bytes from offset %" PRIu64 " of '%.200s', which has %" PRIu64 " bytes",
                 tensor->n_bytes, external->offset, external->location, file->size_bytes);
    tensor->place = ONNX_PLACE_EXTERNAL;
    tensor->values = (struct vc_span){external->offset, tensor->n_bytes};
    return VC_OK;
}
