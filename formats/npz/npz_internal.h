/* npz_internal.h - what npz_read.c (opening) and npz_data.c (reading) share. */
#pragma once

#include "core/model/source.h"
#include "formats/npz/npy_data.h"
#include "formats/zip/zip_data.h"

/* What a member is. */
enum npz_kind {
    NPZ_BROKEN = 0, /* left out, while findings are collected */
    NPZ_ARRAY,
    NPZ_RAW,
    NPZ_MANIFEST
};

/* A member of the archive. Once the file is open, member i is tensor i. */
struct npz_member {
    const struct vc_zip_entry *entry;
    enum npz_kind kind;
    size_t header_bytes; /* of the npy header; 0 for raw members */
    uint32_t header_crc;
    struct vc_npy_data data; /* arrays: where and how the values lie; for `spool` in the spool file */
    bool bare_name;          /* it has the tensor's name as it is, without ".npy" */
    bool spool;              /* deflated in Fortran order: inflated into a temporary file first */
    _Atomic bool spooled;
};

/* `self` of a model that was read from an npz. */
struct npz {
    struct vc_infile *file;
    struct vc_zip zip;
    struct npz_member *members; /* by tensor */
    size_t n_members;
    uint64_t *shapes;
    struct vc_spool spool;
};

/* npz_data.c: the entries of vc_source_ops (core/model/source.h). */
enum vc_status vc_npz_read(struct vc_ctx *ctx, const struct vc_model *model, size_t tensor, enum vc_form form,
                           uint64_t offset, void *dst, size_t n_bytes, struct vc_check *check);
void vc_npz_ahead(const struct vc_model *model, size_t tensor, uint64_t offset, uint64_t n_bytes);
enum vc_status vc_npz_stream_open(struct vc_ctx *ctx, const struct vc_model *model, size_t tensor, enum vc_form form,
                                  struct vc_source_stream **out);
enum vc_status vc_npz_stream_read(struct vc_ctx *ctx, struct vc_source_stream *stream, void *dst, size_t n_bytes);
enum vc_status vc_npz_stream_close(struct vc_ctx *ctx, struct vc_source_stream *stream, bool finished);
size_t vc_npz_stream_bytes(const struct vc_model *model, size_t tensor);
