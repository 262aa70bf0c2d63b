/* formats.h - the table of formats: how a file is recognised, opened and written. Defined in formats.c; the header of
 * every format's room declares its row (formats/gguf/gguf.h has vc_format_gguf, and so on).
 *
 *     vc_format_open     a folder?   huggingface/infolder.h finds its files, safetensors, PyTorch or GGUF reads them
 *                        a zip?      opened once; probe_zip of each row looks at the names of its members
 *                        else        probe of each row looks at the first VC_PROBE_BYTES bytes
 *     vc_sink_create     the output's extension, or the format of the model -> create_sink of that row (output_sink.c)
 *
 * The address of a row is the format's identity, and a model carries it. A row names its reader and its writer; neither
 * of them asks for the row: a writer that wants to look into a model of its own format asks vc_format_writes before it
 * casts model->self. */
#pragma once

#include "core/run/sink.h"
#include "formats/io/infile.h"

struct vc_program;
struct vc_zip;

struct vc_format {
    const char *name;  /* "npz": in reports, and in options that name a format */
    const char *title; /* "PyTorch": in sentences about formats */
    const char *const
        *extensions; /* ".npz", NULL: of output names that ask for this format; the first is the usual one */
    /* Confidence 0..100 from the first bytes (up to VC_PROBE_BYTES) and the size of the file. NULL: always a zip. */
    int (*probe)(const unsigned char *head, size_t n, uint64_t file_bytes);
    /* Zip archives are opened by formats.c, once. The same confidence, from the list of members; NULL: never a zip. */
    int (*probe_zip)(const struct vc_zip *zip);
    /* Fills model (all but ctx, path, format, file_bytes and names, which vc_format_open sets), takes over file. */
    enum vc_status (*open)(struct vc_ctx *ctx, struct vc_infile *file, const struct vc_open_options *options,
                           struct vc_model *model);
    /* The same for an archive that probe_zip knows; takes over file and zip. */
    enum vc_status (*open_zip)(struct vc_ctx *ctx, struct vc_infile *file, struct vc_zip *zip,
                               const struct vc_open_options *options, struct vc_model *model);
    /* Of a stream that `probe` knows: where it ends. NULL: it does not tell. */
    vc_end_fn *stream_end;
    /* The writer; the model may be of another format. Called by vc_sink_create alone. options->path NULL or dry_run:
     * sizes only, no file is looked at or made. Otherwise everything that can be wrong with the output's name is
     * refused here. */
    enum vc_status (*create_sink)(struct vc_ctx *ctx, const struct vc_model *model,
                                  const struct vc_write_options *options, struct vc_sink **out);
    bool divides; /* the writer can make a folder of several files */
    bool stays;   /* what is made of it is of the same format: the writers of others have no place for all of it */
    /* Keys of metadata that the writer has a place for but writes itself, globs with blanks between; NULL: it has no
     * place for metadata of others. */
    const char *own_metadata;
    bool strips;     /* the writer can leave out what computes nothing */
    bool tells_axes; /* the reader sets vc_tensor.channel_axis; else names do, where they tell */
    /* Of its quantized weights; a reader or a writer of a format that has several says which. */
    const struct vc_dialect *dialect;
    const struct vc_loader *loader; /* of such files; NULL: that of the dialect */
};

#define VC_PROBE_BYTES VC_HEAD_BYTES

/* This function is the writer of the format that the model was read in, so that model->self is what its reader made. */
static inline bool vc_format_writes(const struct vc_model *model,
                                    enum vc_status (*create_sink)(struct vc_ctx *, const struct vc_model *,
                                                                  const struct vc_write_options *, struct vc_sink **))
{
    return model->format != NULL && model->format->create_sink == create_sink;
}

/* What jobs write with: vc_writers. */
extern const struct vc_writers vc_format_writers;

/* vc_writers.create. */
enum vc_status vc_sink_create(struct vc_ctx *ctx, const struct vc_model *model, const struct vc_write_options *options,
                              struct vc_sink **out);
/* vc_writers.reserve and release. */
enum vc_status vc_disk_reserve(struct vc_ctx *ctx, const struct vc_model *model, const struct vc_write_options *options,
                               uint64_t bytes, struct vc_outfile **out);
void vc_disk_release(struct vc_ctx *ctx, struct vc_outfile **reserved);

/* Opens a file or folder: vc_format_open, for what has models in it and is opened by vc_format_open itself. */
typedef enum vc_status vc_open_fn(struct vc_ctx *ctx, const char *path, const struct vc_open_options *options,
                                  struct vc_model **out);

/* vc_model_open without its checks of the options; sentences do not name the file. */
enum vc_status vc_format_open(struct vc_ctx *ctx, const char *path, const struct vc_open_options *options,
                              struct vc_model **out);

/* vc_model.bytes. Sentences name the model's path. */
enum vc_status vc_model_bytes(struct vc_ctx *ctx, const struct vc_model *model, vc_see_fn *see, void *user);

/* *fits: the model of a folder that as_gguf and as_onnx are about. */
enum vc_status vc_format_fits_folder(struct vc_ctx *ctx, const struct vc_model *model, bool *fits);

/* as_onnx: puts the model of an ONNX file with that program, whose values are those of *model, in its place. *model is to
 * be closed also after a failure. The program may go afterwards. */
enum vc_status vc_format_make_onnx(struct vc_ctx *ctx, const struct vc_program *program, struct vc_model **model);

/* What vc_format_open does last: as_gguf and as_folder, which put another model in the place of *model, the layout. For
 * a model that has been put in front of one from there. *model is to be closed also after a failure. */
enum vc_status vc_format_finish(struct vc_ctx *ctx, const struct vc_open_options *options, struct vc_model **model);

/* vc_model.expect. */
enum vc_status vc_format_expect(struct vc_ctx *ctx, const struct vc_infile *file, const struct vc_format *format);

/* Extension of files of the model's format, ".npz": that of its file where the format has several. "" for a checkpoint
 * that is a folder or a split GGUF model. */
const char *vc_model_extension(const struct vc_model *model);

/* Name, "npz", and usual extension, ".npz", of number `index` of the formats that can be written; NULL behind the last. */
const char *vc_format_name(size_t index);
const char *vc_format_extension(size_t index);
/* Name of layout number `index` that options take, "plain"; NULL behind the last. */
const char *vc_layout_name(size_t index);

/* The one of the format's extensions that the path has; NULL: none. */
const char *vc_format_extension_of(const struct vc_format *format, const char *path);

/* The format whose extension the path has; NULL: none. The name decides about outputs; of inputs it is only compared
 * with what their content says. */
const struct vc_format *vc_format_find_by_name(const char *path);

/* Fills what loads weights that lie in files of a format as this dialect has them, unless somebody knew better. */
void vc_format_set_loader(const struct vc_format *format, const struct vc_dialect *dialect,
                          const struct vc_family *family, struct vc_loader *loader);

/* The format of that name, of those that can be written; NULL for NULL. VC_E_ARGUMENT if there is none. */
enum vc_status vc_format_asked(struct vc_ctx *ctx, const char *name, const struct vc_format **out);

/* Called by formats.c when it knows what a file is. */
static inline void vc_model_set_format(struct vc_model *model, const struct vc_format *format)
{
    model->format = format;
    model->format_name = format->name;
}
