/* zip_local.c - the local headers and data descriptors of a zip file, compared with its directory.
 *
 * A reader that trusts local headers and one that trusts the directory must see the same archive, so every difference
 * is refused. Zeros in the place of CRC and sizes are allowed where a descriptor follows the data (bit 3). */

#include "core/base/array.h"
#include "core/base/findings.h"
#include "formats/zip/zip_internal.h"

#define DESCRIPTOR_MAX      24
#define FLAG_DESCRIPTOR     0x0008
#define FLAGS_DEFLATE_LEVEL 0x0006 /* a hint of the compressor */
/* Header, name and an extra field of usual size: what is read before the real length is known. */
#define EXPECTED_EXTRA 96
/* Unneeded bytes between two headers that are cheaper to read than a second system call. */
#define SKIP_BYTES   2048
#define WINDOW_BYTES ((size_t)256 << 10)

/* A part of the file in memory: several headers that lie near each other are read at once. */
struct window {
    uint64_t offset;
    size_t n;
    unsigned char *data;
};

/* Members in the order of the file. */
struct order {
    uint64_t offset;
    size_t entry;
};

/* State of one walk over the members. */
struct visit {
    struct vc_ctx *ctx;
    const struct vc_infile *file;
    struct vc_zip *zip;
    struct order *order;
    struct window window;
};

/* By offset; members at one offset in the order of the directory, so that the overlap is said of the later one. */
static int compare_order(const void *a, const void *b)
{
    const struct order *x = a;
    const struct order *y = b;

    return VC_FIRST_ORDER(VC_ORDER(x->offset, y->offset), VC_ORDER(x->entry, y->entry));
}

/* Members nearly always lie in the order of the directory. */
static void sort_order(struct order *order, const struct vc_zip *zip)
{
    bool sorted = true;

    for (size_t i = 0; i < zip->n; i++) {
        order[i] = (struct order){zip->entries[i].local_offset, i};
        sorted = sorted && (i == 0 || order[i - 1].offset < order[i].offset);
    }
    if (!sorted) {
        qsort(order, zip->n, sizeof *order, compare_order);
    }
}

/* What is read for a header of unknown length, cut at the directory. */
static uint64_t expected_end(const struct vc_zip *zip, const struct vc_zip_entry *entry)
{
    uint64_t end = entry->local_offset + VC_ZIP_LOCAL_BYTES + entry->name_bytes + EXPECTED_EXTRA + VC_ZIP_HEAD_BYTES;

    return vc_min_u64(end, zip->directory_offset);
}

/* Bytes from..to of the file are in the window. */
static enum vc_status load(struct visit *v, uint64_t from, uint64_t to)
{
    if (from >= v->window.offset && to <= v->window.offset + v->window.n) {
        return VC_OK;
    }
    v->window.n = 0;
    VC_CALL(vc_infile_read(v->ctx, v->file, from, v->window.data, (size_t)(to - from)));
    v->window.offset = from;
    v->window.n = (size_t)(to - from);
    return VC_OK;
}

/* Loads the header of order[i], and those after it as long as they are near. */
static enum vc_status load_headers(struct visit *v, size_t i)
{
    uint64_t from = v->order[i].offset;
    uint64_t to = expected_end(v->zip, &v->zip->entries[v->order[i].entry]);

    if (from >= v->window.offset && to <= v->window.offset + v->window.n) {
        return VC_OK;
    }
    for (size_t k = i + 1; k < v->zip->n && v->order[k].offset <= to + SKIP_BYTES; k++) {
        uint64_t end = expected_end(v->zip, &v->zip->entries[v->order[k].entry]);

        if (end - from > WINDOW_BYTES) {
            break;
        }
        to = vc_max_u64(to, end);
    }
    return load(v, from, to);
}

/* ------------------------------------------------------------------------------------------------ comparing */

/* Fails with the two values of a field. */
static enum vc_status differs(struct vc_ctx *ctx, const char *what, uint64_t local, uint64_t central)
{
    return vc_fail(ctx, VC_E_FORMAT, "local header and directory disagree about the %s: %" PRIu64 " and %" PRIu64, what,
                   local, central);
}

/* A field of the local header: equal to the directory's, or 0 where a descriptor has it. */
static bool same(const struct vc_zip_entry *entry, uint64_t local, uint64_t central)
{
    return local == central || (local == 0 && (entry->flags & FLAG_DESCRIPTOR) != 0);
}

/* Sizes of the local header at p, or of its zip64 field, are those of the directory. */
static enum vc_status check_sizes(struct vc_ctx *ctx, const struct vc_zip_entry *entry, const unsigned char *p,
                                  const struct vc_zip_extra *extra64)
{
    uint64_t packed = vc_le32(p + 18);
    uint64_t size = vc_le32(p + 22);

    if (extra64->data != NULL) {
        /* The local header has both or none; writers also fill them in where the plain fields suffice. */
        bool marked = packed == 0xffffffff || size == 0xffffffff;

        VC_REFUSE_IF(extra64->n < 16 && marked, ctx, VC_E_FORMAT,
                     "local header: zip64 extra field of %zu bytes is too short", extra64->n);
        if (extra64->n >= 16) {
            if (!same(entry, vc_le64(extra64->data), entry->size_bytes)) {
                return differs(ctx, "size (zip64)", vc_le64(extra64->data), entry->size_bytes);
            }
            if (!same(entry, vc_le64(extra64->data + 8), entry->packed_bytes)) {
                return differs(ctx, "packed size (zip64)", vc_le64(extra64->data + 8), entry->packed_bytes);
            }
            size = size == 0xffffffff ? entry->size_bytes : size;
            packed = packed == 0xffffffff ? entry->packed_bytes : packed;
        }
    }
    if (!same(entry, size, entry->size_bytes)) {
        return differs(ctx, "size", size, entry->size_bytes);
    }
    if (!same(entry, packed, entry->packed_bytes)) {
        return differs(ctx, "packed size", packed, entry->packed_bytes);
    }
    return VC_OK;
}

/* The zip64 field of a local header; out->data NULL: it has none. */
static enum vc_status find64(struct vc_ctx *ctx, const unsigned char *extra, size_t n, struct vc_zip_extra *out)
{
    struct vc_zip_extra field;
    size_t at = 0;

    out->data = NULL;
    out->n = 0;
    while (at < n) {
        VC_CALL(vc_zip_extra_next(ctx, extra, n, &at, &field));
        if (field.data == NULL) {
            break;
        }
        if (field.id == VC_ZIP_EXTRA_64) {
            VC_REFUSE_IF(out->data != NULL, ctx, VC_E_FORMAT, "local header: two zip64 extra fields");
            *out = field;
        }
    }
    return VC_OK;
}

/* p: the local header with name and extra field. */
static enum vc_status check_local(struct vc_ctx *ctx, const struct vc_zip_entry *entry, const unsigned char *p)
{
    size_t name_bytes = vc_le16(p + 26);
    struct vc_zip_extra extra64;

    VC_REFUSE_IF(name_bytes != entry->name_bytes || memcmp(p + VC_ZIP_LOCAL_BYTES, entry->name, name_bytes) != 0, ctx,
                 VC_E_FORMAT, "the local header has another name than the directory");
    if (vc_le16(p + 8) != entry->method) {
        return differs(ctx, "method", vc_le16(p + 8), entry->method);
    }
    if (((vc_le16(p + 6) ^ entry->flags) & ~FLAGS_DEFLATE_LEVEL) != 0) {
        return differs(ctx, "flags", vc_le16(p + 6), entry->flags);
    }
    VC_REFUSE_IF(!same(entry, vc_le32(p + 14), entry->crc), ctx, VC_E_FORMAT,
                 "local header and directory disagree about the CRC: %08" PRIx32 " and %08" PRIx32, vc_le32(p + 14),
                 entry->crc);
    VC_CALL(find64(ctx, p + VC_ZIP_LOCAL_BYTES + name_bytes, vc_le16(p + 28), &extra64));
    return check_sizes(ctx, entry, p, &extra64);
}

/* Length of the data descriptor at p, 0 if the bytes there are not one. It comes with or without
 * signature, with sizes of 32 or 64 bits: the file does not tell which, the values do. */
static size_t descriptor_bytes(const struct vc_zip_entry *entry, const unsigned char *p, size_t n)
{
    for (size_t signature = 0; signature <= 4; signature += 4) {
        const unsigned char *crc = p + signature;

        if (n < signature + 12 || (signature != 0 && vc_le32(p) != 0x08074b50) || vc_le32(crc) != entry->crc) {
            continue;
        }
        if (vc_le32(crc + 4) == entry->packed_bytes && vc_le32(crc + 8) == entry->size_bytes) {
            return signature + 12;
        }
        if (n >= signature + 20 && vc_le64(crc + 4) == entry->packed_bytes && vc_le64(crc + 12) == entry->size_bytes) {
            return signature + 20;
        }
    }
    return 0;
}

/* The descriptor after the data; sets end_offset past it. */
static enum vc_status check_descriptor(struct visit *v, struct vc_zip_entry *entry)
{
    unsigned char buffer[DESCRIPTOR_MAX];
    uint64_t from = entry->end_offset;
    size_t n = (size_t)vc_min_u64(DESCRIPTOR_MAX, v->zip->directory_offset - from);

    if (from >= v->window.offset && from + n <= v->window.offset + v->window.n) {
        memcpy(buffer, v->window.data + (from - v->window.offset), n);
    } else {
        VC_CALL(vc_infile_read(v->ctx, v->file, from, buffer, n));
    }
    size_t found = descriptor_bytes(entry, buffer, n);
    VC_REFUSE_IF(found == 0, v->ctx, VC_E_FORMAT,
                 "no data descriptor with the directory's CRC and sizes follows the data at offset %" PRIu64, from);
    entry->end_offset += found;
    return VC_OK;
}

/* ------------------------------------------------------------------------------------------------ visiting */

/* Member i in the order of the file: reads and checks its local header, sets its offsets. *head: its first bytes, in
 * the window. */
static enum vc_status visit_local(struct visit *v, size_t i, const unsigned char **head, size_t *n_head)
{
    struct vc_zip_entry *entry = &v->zip->entries[v->order[i].entry];
    uint64_t directory = v->zip->directory_offset;
    uint64_t left = directory - entry->local_offset;

    VC_CALL(load_headers(v, i));
    const unsigned char *p = v->window.data + (entry->local_offset - v->window.offset);
    VC_REFUSE_IF(left < VC_ZIP_LOCAL_BYTES || vc_le32(p) != VC_ZIP_LOCAL_MAGIC, v->ctx, VC_E_FORMAT,
                 "no local header at offset %" PRIu64, entry->local_offset);
    uint64_t header = VC_ZIP_LOCAL_BYTES + (uint64_t)vc_le16(p + 26) + vc_le16(p + 28);
    VC_REFUSE_IF(header > left || entry->packed_bytes > left - header, v->ctx, VC_E_FORMAT,
                 "a header of %" PRIu64 " and %" PRIu64 " bytes of data at offset %" PRIu64
                 " do not lie before the directory",
                 header, entry->packed_bytes, entry->local_offset);
    *n_head = (size_t)vc_min_u64(entry->packed_bytes, VC_ZIP_HEAD_BYTES);
    VC_CALL(load(v, entry->local_offset, entry->local_offset + header + *n_head));
    p = v->window.data + (entry->local_offset - v->window.offset);
    VC_CALL(check_local(v->ctx, entry, p));
    entry->data_offset = entry->local_offset + header;
    entry->end_offset = entry->data_offset + entry->packed_bytes;
    if ((entry->flags & FLAG_DESCRIPTOR) != 0) {
        VC_CALL(check_descriptor(v, entry));
    }
    VC_REFUSE_IF(i + 1 < v->zip->n && v->order[i + 1].offset < entry->end_offset, v->ctx, VC_E_FORMAT,
                 "its data overlaps member '%s'", v->zip->entries[v->order[i + 1].entry].name);
    *head = p + header;
    return VC_OK;
}

/* A reader that goes through the file from its start would find a member there that the directory does not have. */
static enum vc_status check_gap(struct visit *v, uint64_t from, uint64_t to)
{
    while (from < to && to - from >= 4) {
        uint64_t end = vc_min_u64(to, from + WINDOW_BYTES);

        VC_CALL(load(v, from, end));
        const unsigned char *p = v->window.data + (from - v->window.offset);
        for (uint64_t i = 0; i + 4 <= end - from; i++) {
            VC_REFUSE_IF(p[i] == 'P' && vc_le32(p + i) == VC_ZIP_LOCAL_MAGIC, v->ctx, VC_E_FORMAT,
                         "zip: the bytes at offset %" PRIu64 ", between members, start a member that the "
                         "directory does not have",
                         from + i);
        }
        from = end - 3; /* a signature may lie across two pieces */
    }
    return VC_OK;
}

/* Says which member a failure is about; a finding does that in its own way. */
static enum vc_status tell_member(struct vc_ctx *ctx, enum vc_status status, const struct vc_zip_entry *entry)
{
    return status == VC_OK || vc_collecting(ctx) ? status : vc_context(ctx, "member '%s'", entry->name);
}

/* A member was found broken already, so its end is not known. */
static bool has_broken(const struct vc_zip *zip)
{
    size_t i = 0;

    while (i < zip->n && !zip->entries[i].broken) {
        i++;
    }
    return i < zip->n;
}

/* Member after member in the order of the file, with a look at the gaps between them. Once a member is broken nobody
 * knows where it ends, so gaps are not looked at any more. */
enum vc_status vc_zip_visit(struct vc_ctx *ctx, const struct vc_infile *file, struct vc_zip *zip,
                            vc_zip_visit_fn *visit, void *user)
{
    struct visit v = {.ctx = ctx, .file = file, .zip = zip};
    uint64_t at = 0;                                  /* end of what was visited */
    bool broken = zip->incomplete || has_broken(zip); /* where members lie is not sure: no search for hidden ones */
    enum vc_status status = VC_OK;

    VC_TRY(VC_ARRAY(ctx, VC_TAG_IO, v.order, zip->n));
    VC_TRY_ALLOC(v.window.data = vc_alloc(ctx, VC_TAG_IO, WINDOW_BYTES));
    sort_order(v.order, zip);
    for (size_t i = 0; i < zip->n; i++) {
        struct vc_zip_entry *entry = &zip->entries[v.order[i].entry];
        const unsigned char *head = NULL;
        size_t n = 0;

        VC_TRY(vc_check_cancelled(ctx));
        if (!broken) {
            VC_TRY(vc_collect(ctx, check_gap(&v, at, v.order[i].offset), "hidden", NULL));
        }
        status = entry->broken ? VC_OK : visit_local(&v, i, &head, &n);
        VC_TRY(vc_zip_collect(ctx, tell_member(ctx, status, entry), "member", entry));
        broken = broken || entry->broken;
        status = entry->broken ? VC_OK : visit(ctx, user, v.order[i].entry, head, n);
        VC_TRY(tell_member(ctx, status, entry));
        at = entry->end_offset;
    }
    if (!broken) {
        VC_TRY(vc_collect(ctx, check_gap(&v, at, zip->directory_offset), "hidden", NULL));
    }
out:
    VC_FREE_ALL(ctx, v.window.data, v.order);
    return status;
}
