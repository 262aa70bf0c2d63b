/* formats.c - opens a checkpoint: finds the format by content and hands the file to its reader; and gives each output
 * its writer. Parses nothing but first bytes.
 *
 *     first bytes             format
 *     93 4e 55 4d 50 59       npy         \x93NUMPY
 *     50 4b 03 04             npz or PyTorch: a zip, whose members decide (50 4b 05 06: an empty one)
 *     00 00 08 03             idx: zeros, a type, dimensions; 1f 8b: gzip, of one
 *     47 47 55 46             GGUF        GGUF
 *     80 02 8a 0a 6c fc ...   PyTorch before 1.6, a pickle with its magic number
 *     u64, then 7b            safetensors: the length of a JSON header, and its '{'
 *     08 07 12 .. 3a ..       ONNX: fields of a protocol buffer that make sense
 *
 * What is no checkpoint, or none that can be read, is named: users learn more from "a Git LFS pointer" than from "bad
 * magic".
 *
 * vc_format_open is the entry: a folder goes to open_folder, anything else to open_file, which look() sorts by its
 * first VC_PROBE_BYTES. With findings (verify) a file that cannot be read is a finding and a model without tensors, so
 * that the other checks still run (survive). vc_format_finish gives each model what does not depend on its format. */
#include "formats/formats.h"

#include "core/job/scoped.h"
#include "formats/bin_folder.h"
#include "formats/dialects/check_names.h"
#include "formats/dialects/foreign.h"
#include "formats/gguf/gguf.h"
#include "formats/gguf_folder/gguf_folder.h"
#include "formats/huggingface/check_config.h"
#include "formats/huggingface/config/hf_config.h"
#include "formats/huggingface/hf_adapter.h"
#include "formats/huggingface/hf_program.h"
#include "formats/huggingface/infolder.h"
#include "formats/idx/idx.h"
#include "formats/io/numbered_name.h"
#include "formats/npz/npz.h"
#include "formats/onnx/onnx.h"
#include "formats/onnx_in_folder.h"
#include "formats/pipeline.h"
#include "formats/safetensors/safetensors.h"
#include "formats/tokens/tokens.h"
#include "formats/torch/torch.h"

#define VC_NAMED_ODD 4 /* files that a note names */

/* In the order in which messages name them; what their readers think of the first bytes decides, not this order. */
static const struct vc_format *const formats[] = {&vc_format_npy,         &vc_format_npz,    &vc_format_idx,
                                                  &vc_format_safetensors, &vc_format_gguf,   &vc_format_torch,
                                                  &vc_format_onnx,        &vc_format_imatrix};
static const size_t n_formats = sizeof formats / sizeof formats[0];

/* ------------------------------------------------------------------------------------------------ not for us */

#define READABLE_BYTES 160

/* "npy, npz, idx, safetensors, GGUF, PyTorch, ONNX and imatrix files", from the table: what every message says that
 * tells what can be read. Returns `list`. */
static const char *list_readable(char *list)
{
    size_t n = 0;

    for (size_t i = 0; i < n_formats && n < READABLE_BYTES; i++) {
        const char *before = i == 0 ? "" : i + 1 < n_formats ? ", " : " and ";

        n += (size_t)snprintf(list + n, READABLE_BYTES - n, "%s%s%s", before, formats[i]->title,
                              i + 1 < n_formats ? "" : " files");
    }
    return list;
}

/* Bytes that say what a file is that cannot be read here. A row: where they stand, the bytes, the end of the sentence
 * "is ...". Rows are tried in order. */
struct known {
    size_t offset;
    const char *bytes;
    size_t n;
    const char *what;
    bool rival; /* a checkpoint of a kind that is not read: it helps to know which are */
};

/* VC_RIVAL: a format of weights that other programs read. */
#define VC_KNOWN(offset, bytes, what)                 \
    {                                                 \
        offset, bytes, sizeof(bytes) - 1, what, false \
    }
#define VC_RIVAL(offset, bytes, what)                \
    {                                                \
        offset, bytes, sizeof(bytes) - 1, what, true \
    }

static const struct known knowns[] = {
    VC_KNOWN(0, "version https://git-lfs", "a Git LFS pointer, not the file itself; run \"git lfs pull\" to fetch it"),
    VC_RIVAL(0, "\x89HDF\r\n\x1a\n", "an HDF5 file (Keras writes these)"),
    VC_RIVAL(0, "\x80\x02", "a Python pickle, which is never run"),
    VC_RIVAL(0, "\x80\x03", "a Python pickle, which is never run"),
    VC_RIVAL(0, "\x80\x04", "a Python pickle, which is never run"),
    VC_RIVAL(0, "\x80\x05", "a Python pickle, which is never run"),
    VC_KNOWN(0, "7z\xbc\xaf\x27\x1c", "a 7z archive; unpack it first"),
    VC_KNOWN(0, "Rar!\x1a\x07", "a RAR archive; unpack it first"),
    VC_KNOWN(0, "BZh", "a bzip2 file; unpack it first"),
    VC_KNOWN(0, "\xfd\x37zXZ", "an xz file; unpack it first"),
    VC_KNOWN(0, "\x28\xb5\x2f\xfd", "a zstd file; unpack it first"),
    VC_KNOWN(257, "ustar", "a tar archive; unpack it first"),
    VC_RIVAL(4, "TFL3", "a TensorFlow Lite file"),
    VC_KNOWN(0, "\177ELF", "a program, not a checkpoint"),
};

/* A page of a server in the place of the file; white space may come before it, and capitals. starts are in small
 * letters; the file's are made small. */
static bool is_html(const unsigned char *head, size_t n)
{
    static const char *const starts[] = {"<!doctype", "<html", "<?xml", "<head"};
    size_t at = 0;
    size_t k;

    while (at < n && (head[at] == ' ' || (head[at] >= '\t' && head[at] <= '\r'))) {
        at++;
    }
    for (size_t i = 0; i < sizeof starts / sizeof starts[0]; i++) {
        for (k = 0; starts[i][k] != '\0' && at + k < n; k++) {
            unsigned char c = head[at + k];

            if ((c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c) != starts[i][k]) {
                break;
            }
        }
        if (starts[i][k] == '\0') {
            return true;
        }
    }
    return false;
}

/* All zeros: space that was reserved and never written. */
static bool is_zeros(const unsigned char *head, size_t n)
{
    size_t i = 0;

    while (i < n && head[i] == 0) {
        i++;
    }
    return i == n;
}

/* Printable bytes, and those above ASCII. */
static bool is_text(const unsigned char *head, size_t n)
{
    size_t i = 0;

    while (i < n && (head[i] >= 0x80 || (head[i] >= ' ' && head[i] != 0x7f) || (head[i] >= '\t' && head[i] <= '\r'))) {
        i++;
    }
    return i == n;
}

/* What the file is that begins so, and what to do about it; NULL: not known. *rival: as in struct known. */
static const char *describe(const unsigned char *head, size_t n, bool *rival)
{
    for (size_t i = 0; i < sizeof knowns / sizeof knowns[0]; i++) {
        const struct known *k = &knowns[i];

        if (k->offset + k->n <= n && memcmp(head + k->offset, k->bytes, k->n) == 0) {
            *rival = k->rival;
            return k->what;
        }
    }
    *rival = false;
    if (is_html(head, n)) {
        return "an HTML page, not a checkpoint; did the download need a login?";
    }
    return NULL;
}

/* No reader wants the file: fails with what it is, as far as its first n bytes tell. From what is known best to what is
 * known least. rows: it would be rows of tokens, if the caller said how long they are. */
static enum vc_status refuse(struct vc_ctx *ctx, const unsigned char *head, size_t n, bool rows)
{
    bool rival = false;
    const char *what = describe(head, n, &rival);
    char list[READABLE_BYTES];
    char bytes[3 * 8 + 1] = "";

    VC_REFUSE_IF(what != NULL && rival, ctx, VC_E_UNSUPPORTED, "is %s; %s can be read", what, list_readable(list));
    VC_REFUSE_IF(what != NULL, ctx, VC_E_UNSUPPORTED, "is %s", what);
    VC_REFUSE_IF(is_zeros(head, n), ctx, VC_E_FORMAT,
                 "starts with %zu zero bytes: an unfinished download, or a writer that was interrupted before it "
                 "wrote the header (llama.cpp's quantizer writes it last)",
                 n);
    VC_REFUSE_IF(
        is_text(head, n) && rows, ctx, VC_E_FORMAT,
        "is a text: to be rows it needs %s, how many tokens are one, and a name that ends in .txt, or in .jsonl "
        "where it is lines of JSON with \"text\" in them",
        vc_option(ctx, "length"));
    VC_REFUSE_IF(is_text(head, n) && head[0] == '{', ctx, VC_E_UNSUPPORTED,
                 "is a JSON text, not a checkpoint (the name of an index ends in " VC_INDEX_SUFFIX ")");
    VC_REFUSE_IF(is_text(head, n), ctx, VC_E_FORMAT, "is a text file, not a checkpoint; %s can be read",
                 list_readable(list));
    for (size_t i = 0; i < 8 && i < n; i++) {
        snprintf(bytes + 3 * i, 4, " %02x", head[i]);
    }
    return vc_fail(ctx, VC_E_FORMAT, "is no checkpoint that can be read: starts with bytes%s, expected %s", bytes,
                   list_readable(list));
}

/* Archives of members that are not read here, with an array or without. An archive that npz would take, because any zip
 * fits it. */
static enum vc_status refuse_zip(struct vc_ctx *ctx, const struct vc_zip *zip)
{
    char list[READABLE_BYTES];

    for (size_t i = 0; i < zip->n; i++) {
        VC_REFUSE_IF(strcmp(zip->entries[i].name, "model.weights.h5") == 0, ctx, VC_E_UNSUPPORTED,
                     "is a Keras checkpoint; %s can be read", list_readable(list));
    }
    return VC_OK;
}

/* ------------------------------------------------------------------------------------------------ names */

/* The extension of the format that the path ends in, as the row has it; NULL: none. */
const char *vc_format_extension_of(const struct vc_format *format, const char *path)
{
    for (size_t i = 0; format->extensions[i] != NULL; i++) {
        if (vc_path_ends_in(path, format->extensions[i])) {
            return format->extensions[i];
        }
    }
    return NULL;
}

/* The first row that has such an extension; NULL: none. */
const struct vc_format *vc_format_find_by_name(const char *path)
{
    for (size_t i = 0; i < n_formats; i++) {
        if (vc_format_extension_of(formats[i], path) != NULL) {
            return formats[i];
        }
    }
    return NULL;
}

/* By the end of the name; NULL: no format has it. */
const char *vc_format_of_name(const char *path)
{
    const struct vc_format *format = vc_format_find_by_name(path);

    return format != NULL ? format->name : NULL;
}

/* Format number `index` of those that can be written; NULL behind the last. */
static const struct vc_format *writable(size_t index)
{
    for (size_t i = 0; i < n_formats; i++) {
        if (formats[i]->create_sink != NULL && index-- == 0) {
            return formats[i];
        }
    }
    return NULL;
}

/* Of the formats that can be written, in their order. */
const char *vc_format_extension(size_t index)
{
    const struct vc_format *format = writable(index);

    return format != NULL ? format->extensions[0] : NULL;
}

/* The same for names. */
const char *vc_format_name(size_t index)
{
    const struct vc_format *format = writable(index);

    return format != NULL ? format->name : NULL;
}

/* Layout number `index` that a user may ask for. */
const char *vc_layout_name(size_t index)
{
    const struct vc_dialect *dialect;

    for (size_t i = 0; (dialect = vc_dialect_row(i)) != NULL; i++) {
        if (dialect->is_choice && index-- == 0) {
            return dialect->name;
        }
    }
    return NULL;
}

/* name NULL: nothing was asked for, *out is NULL. */
enum vc_status vc_format_asked(struct vc_ctx *ctx, const char *name, const struct vc_format **out)
{
    char known[READABLE_BYTES];
    size_t n = 0;

    *out = NULL;
    for (size_t i = 0; name != NULL && (*out = writable(i)) != NULL; i++) {
        if (strcmp((*out)->name, name) == 0) {
            return VC_OK;
        }
        n += (size_t)snprintf(known + n, n < sizeof known ? sizeof known - n : 0, "%s%s", i == 0 ? "" : ", ",
                              (*out)->name);
    }
    return name == NULL ? VC_OK
                        : vc_fail(ctx, VC_E_ARGUMENT, "%s: '%s' is no format that can be written: %s",
                                  vc_option(ctx, "format"), name, known);
}

/* ------------------------------------------------------------------------------------------------ open, close */

/* By the first bytes; of an archive, where `zip` is not NULL, by its members. A probe answers with its confidence, 0
 * for no; the highest wins, of equal ones the first row. NULL: none. */
static const struct vc_format *find_format(const unsigned char *head, size_t n, uint64_t file_bytes,
                                           const struct vc_zip *zip)
{
    const struct vc_format *best = NULL;
    int confidence = 0;

    for (size_t i = 0; i < n_formats; i++) {
        const struct vc_format *f = formats[i];
        int c = 0;

        if (zip != NULL && f->probe_zip != NULL) {
            c = f->probe_zip(zip);
        } else if (zip == NULL && f->probe != NULL) {
            c = f->probe(head, n, file_bytes);
        }
        if (c > confidence) {
            confidence = c;
            best = f;
        }
    }
    return best;
}

/* ONNX has no magic: a name that ends like one gets the reader that can say what is wrong, unless the bytes are known
 * to be something else. */
static const struct vc_format *format_of_name(const char *path, const unsigned char *head, size_t n)
{
    bool rival;

    return vc_format_extension_of(&vc_format_onnx, path) != NULL && describe(head, n, &rival) == NULL &&
                   !is_zeros(head, n) && !is_text(head, n)
               ? &vc_format_onnx
               : NULL;
}

/* What the first bytes say: a format, or *zip, an archive whose members have to be looked at. path: whose extension
 * decides where the content does not; NULL: it does not. rows: for a refusal. */
static enum vc_status look(struct vc_ctx *ctx, const struct vc_infile *file, const char *path, bool rows,
                           const struct vc_format **format, bool *zip)
{
    unsigned char head[VC_PROBE_BYTES];
    size_t n = (size_t)vc_min_u64(sizeof head, file->size_bytes);

    *format = NULL;
    VC_CALL(vc_infile_read(ctx, file, 0, head, n));
    *zip = vc_zip_probe(head, n);
    if (*zip) {
        return VC_OK;
    }
    *format = find_format(head, n, file->size_bytes, NULL);
    if (*format == NULL && path != NULL) {
        *format = format_of_name(path, head, n);
    }
    VC_RETURN_IF(*format == NULL, refuse(ctx, head, n, rows));
    return VC_OK;
}

/* For shards and siblings: each file of a model has to be of the format of the first. */
enum vc_status vc_format_expect(struct vc_ctx *ctx, const struct vc_infile *file, const struct vc_format *format)
{
    const struct vc_format *found = NULL;
    struct vc_zip zip;
    bool is_zip = false;

    VC_CALL(look(ctx, file, NULL, false, &found, &is_zip));
    if (is_zip) {
        VC_CALL(vc_zip_open(ctx, file, &zip));
        found = find_format(NULL, 0, 0, &zip);
        vc_zip_close(ctx, &zip);
    }
    VC_REFUSE_IF(found != format, ctx, VC_E_FORMAT, "is %s by its content, expected %s", found->name, format->name);
    return VC_OK;
}

/* The content decides what a file is; a name that promises something else is worth a word. verify finds that note by
 * model->wrong_name. */
static enum vc_status note_wrong_name(struct vc_ctx *ctx, struct vc_model *model)
{
    const struct vc_format *promised = vc_format_find_by_name(model->path);

    if (promised == NULL || promised == model->format || model->format == &vc_format_tokens) {
        return VC_OK;
    }
    size_t n = model->n_facts;
    VC_CALL(vc_model_add_fact(ctx, model, VC_FACT_NOTE, "%s: is %s by its content, not %s as its name says",
                              model->path, model->format_name, promised->name));
    model->wrong_name = model->n_facts > n ? &model->facts[n] : NULL; /* there may be too many facts already */
    return VC_OK;
}

/* NumPy has no bf16, so that its arrays come as raw bytes, two for each element. */
static enum vc_status note_untyped(struct vc_ctx *ctx, struct vc_model *model)
{
    const char *first = NULL;
    size_t n = 0;

    for (size_t i = 0; i < model->n_tensors; i++) {
        const struct vc_tensor *t = &model->tensors[i];

        if (t->dtype == VC_DTYPE_VOID && t->n_elems != 0 && t->size_bytes / 2 == t->n_elems) {
            first = n++ == 0 ? t->name : first;
        }
    }
    return n == 0
               ? VC_OK
               : vc_model_add_fact(ctx, model, VC_FACT_NOTE,
                                   "%zu of its arrays (%.60s ...) have elements of two bytes without a type, as NumPy "
                                   "stores bfloat16: %s bf16 reads them as that",
                                   n, first, vc_option(ctx, "void_as"));
}

/* A file that is damaged where its reader cannot go on: with findings one more of them, and a model without tensors.
 * What cannot be read for another reason stays a failure, unless something was found in it already. model->ops NULL:
 * the reader had not taken the file over. */
static enum vc_status survive(struct vc_ctx *ctx, struct vc_model *model, enum vc_status status)
{
    if (!vc_collecting(ctx) || (status == VC_E_UNSUPPORTED && ctx->findings->n_errors == 0)) {
        return status;
    }
    VC_CALL(vc_collect(ctx, status, "header", NULL));
    model->n_tensors = 0;
    if (model->ops == NULL) {
        model->input = NULL; /* the reader closed it */
    }
    return VC_OK;
}

/* With findings, an archive without a directory is what its whole members are. When there are none, the name alone
 * says what it was, and the model gets no reader. */
static enum vc_status open_ruin(struct vc_ctx *ctx, struct vc_infile *file, struct vc_zip *zip, struct vc_model *model)
{
    const struct vc_format *promised = vc_format_find_by_name(model->path);

    vc_model_set_format(model, promised != NULL && promised->probe_zip != NULL ? promised : &vc_format_npz);
    VC_CALL(vc_zip_recover(ctx, file, zip));
    if (zip->n == 0) {
        vc_zip_close(ctx, zip);
        vc_infile_close(ctx, file);
        model->input = NULL;
    }
    return VC_OK;
}

/* Every zip archive is opened here; its members say what it is. Takes over file. */
static enum vc_status open_zip(struct vc_ctx *ctx, struct vc_infile *file, const struct vc_open_options *options,
                               struct vc_model *model)
{
    struct vc_zip zip;
    enum vc_status status = vc_zip_open(ctx, file, &zip);

    if (status == VC_E_FORMAT && vc_collecting(ctx)) {
        VC_TRY(vc_collect(ctx, status, "header", NULL));
        VC_TRY(open_ruin(ctx, file, &zip, model));
        if (model->input == NULL) {
            return VC_OK;
        }
    }
    VC_TRY(status);
    vc_model_set_format(model, find_format(NULL, 0, 0, &zip));
    status = refuse_zip(ctx, &zip);
    if (status != VC_OK) {
        vc_zip_close(ctx, &zip);
        goto out;
    }
    return model->format->open_zip(ctx, file, &zip, options, model);
out:
    vc_infile_close(ctx, file);
    return status;
}

/* "model-00002-of-00003.safetensors": names of the tensors in it may belong to tensors in another file. So verify says
 * nothing about codes whose scales are missing here. */
static bool is_one_of_several(const char *path)
{
    struct vc_numbered_name name;

    return vc_numbered_name_parse(vc_base_name(path), NULL, &name) && name.count > 1;
}

/* Codes that no dialect reads. The configuration beside the model is asked where there are others than floats. */
static enum vc_status mark_foreign(struct vc_ctx *ctx, struct vc_model *model, bool is_shard)
{
    struct vc_dialect_hint hint = {.foreign = NULL};
    size_t i = 0;

    while (i < model->n_tensors && (vc_dtype_is_float(model->tensors[i].dtype) || model->tensors[i].quant != NULL)) {
        i++;
    }
    if (i < model->n_tensors && !vc_is_stream(model->path)) {
        VC_CALL(vc_hf_config_hint_beside(ctx, model->folder != NULL ? vc_infolder_path(model->folder) : model->path,
                                         &hint));
    }
    vc_dialect_hint_release(&hint);
    return vc_foreign_mark(ctx, model, hint.foreign, hint.quantized, is_shard);
}

/* Standard input while it is copied. */
struct stream {
    struct vc_stream stream;
    const struct vc_format *format; /* what it begins like; NULL: it is too short to tell, or a zip */
};

/* Before a stream is copied: how it begins has to be something that can be read, whatever its length. A file size of
 * INT64_MAX lets probes that compare with it answer. */
static enum vc_status look_at_stream(struct vc_ctx *ctx, struct vc_stream *stream, const unsigned char *head, size_t n)
{
    struct stream *own = (struct stream *)(void *)stream;

    if (vc_zip_probe(head, n)) {
        stream->find_end = vc_zip_stream_end;
        return VC_OK;
    }
    own->format = find_format(head, n, INT64_MAX, NULL);
    VC_RETURN_IF(own->format == NULL, refuse(ctx, head, n, false));
    stream->find_end = own->format->stream_end;
    return VC_OK;
}

/* Standard input. One that is refused before all of it is there is a finding, where they are collected, and *file stays
 * NULL: a model without a reader. */
static enum vc_status open_stream(struct vc_ctx *ctx, struct vc_model *model, struct vc_infile **file)
{
    struct stream own = {.stream = {.look = look_at_stream}};

    vc_findings_mute(ctx, true); /* its reader finds the same again */
    enum vc_status status = vc_infile_open_stdin(ctx, &own.stream, file);
    vc_findings_mute(ctx, false);
    if (status == VC_E_FORMAT && vc_collecting(ctx) && own.stream.find_end != NULL) {
        vc_model_set_format(model, own.format != NULL ? own.format : &vc_format_npz);
        status = vc_collect(ctx, status, "header", NULL);
    }
    return status;
}

/* The file belongs to the model once the format's reader has it. */
static enum vc_status open_file(struct vc_ctx *ctx, const struct vc_open_options *options, struct vc_model *model)
{
    const struct vc_format *format = NULL;
    struct vc_infile *file = NULL;
    bool zip = false;
    enum vc_status status;

    if (options != NULL && options->reader != NULL) {
        VC_TRY(vc_infile_of_reader(ctx, options->reader, model->path, &file));
    } else if (strcmp(model->path, "-") == 0) {
        VC_TRY(open_stream(ctx, model, &file));
    } else {
        VC_TRY(vc_infile_open(ctx, model->path, &file));
    }
    /* A stream that was refused, with findings. */
    if (file == NULL) {
        return VC_OK;
    }
    if (options != NULL && options->row_tokens != 0) {
        format = vc_is_text(model->path) ? &vc_format_text : &vc_format_tokens;
    } else {
        VC_TRY(look(ctx, file, model->path, options != NULL && options->tokenizer != NULL, &format, &zip));
    }
    model->file_bytes = file->size_bytes;
    model->input = file;
    if (zip) {
        status = open_zip(ctx, file, options, model);
    } else {
        vc_model_set_format(model, format);
        status = format->open(ctx, file, options, model);
    }
    if (status != VC_OK) {
        status = survive(ctx, model, status);
    }
    /* What every reader leaves to be done: names, notes, codes of others. */
    if (status == VC_OK && model->names.numbers.n_slots == 0) {
        status = vc_model_index_names(ctx, model);
    }
    if (status == VC_OK) {
        status = note_wrong_name(ctx, model);
    }
    if (status == VC_OK && vc_collecting(ctx)) {
        status = vc_check_names(ctx, model, is_one_of_several(model->path));
    }
    VC_CALL(status);
    VC_CALL(note_untyped(ctx, model));
    return mark_foreign(ctx, model, is_one_of_several(model->path));
out:
    vc_infile_close(ctx, file);
    return status;
}

/* The folder is there for one GGUF or ONNX model: opens its file as if it had been given. model->path becomes the file's, which
 * reports and names of outputs are made from. */
static enum vc_status open_in_folder(struct vc_ctx *ctx, struct vc_infolder *folder,
                                     const struct vc_open_options *options, struct vc_model *model)
{
    size_t n;
    char *path = vc_strdup(ctx, VC_TAG_NAMES, vc_infolder_lone(folder, &n));

    vc_infolder_close(ctx, folder);
    VC_CALL_ALLOC(path);
    vc_model_set_path(ctx, model, path);
    VC_CALL(open_file(ctx, options, model));
    return n == 1 ? VC_OK
                  : vc_model_add_fact(ctx, model, VC_FACT_NOTE, "%s is read, one of %zu models of the folder",
                                      vc_base_name(path), n);
}

/* Safetensors are read where there are PyTorch files, too; that is worth a word. */
static enum vc_status note_other_bin(struct vc_ctx *ctx, struct vc_model *model)
{
    const char *bin = vc_infolder_other_bin(model->folder);

    return bin == NULL ? VC_OK
                       : vc_model_add_fact(ctx, model, VC_FACT_NOTE,
                                           "the safetensors files are read, not the weights in %.100s", bin);
}

/* For inspect and reports. With findings they are findings already. */
static enum vc_status note_odd(struct vc_ctx *ctx, const struct vc_infolder *folder, struct vc_model *model)
{
    size_t n = vc_infolder_odd_count(folder);
    size_t i;

    for (i = 0; i < n && i < VC_NAMED_ODD && !vc_collecting(ctx); i++) {
        VC_CALL(vc_model_add_fact(ctx, model, VC_FACT_NOTE, "%s", vc_infolder_odd(folder, i)));
    }
    if (n > i && !vc_collecting(ctx)) {
        VC_CALL(vc_model_add_fact(ctx, model, VC_FACT_NOTE, "and %zu more such files", n - i));
    }
    return VC_OK;
}

/* The config.json beside a file alone is asked what the weights are; one that is not read is worth a word. */
static enum vc_status note_odd_config(struct vc_ctx *ctx, struct vc_model *model)
{
    const char *why = NULL;

    if (model->folder != NULL || model->format != &vc_format_safetensors || vc_collecting(ctx)) {
        return VC_OK;
    }
    VC_CALL(vc_hf_config_why_beside(ctx, model->path, &why));
    return why == NULL ? VC_OK
                       : vc_model_add_fact(ctx, model, VC_FACT_NOTE,
                                           "the " VC_HF_CONFIG_NAME " beside it %s, and is not read", why);
}

/* A folder, or the index in it: the readers of safetensors, or of PyTorch files, get all of its files. Of a pipeline
 * every model has a folder, which comes here by itself. Checks of a pipeline's models are made when each of them is
 * opened. */
static enum vc_status open_folder(struct vc_ctx *ctx, const struct vc_open_options *options, struct vc_model *model)
{
    struct vc_infolder *folder = NULL;
    size_t n_lone;
    enum vc_status status;

    VC_CALL(vc_infolder_scan(ctx, model->path, &folder));
    if (vc_infolder_lone(folder, &n_lone) != NULL) {
        return open_in_folder(ctx, folder, options, model);
    }
    model->folder = folder;
    model->close_folder = vc_infolder_close;
    if (vc_infolder_has_models(folder)) {
        status = vc_pipeline_open(ctx, vc_format_open, options, model);
    } else if (vc_infolder_has_bins(folder)) {
        status = vc_bin_folder_open(ctx, vc_format_open, options, model);
    } else {
        vc_model_set_format(model, &vc_format_safetensors);
        status = vc_safetensors_open_folder(ctx, options, model);
        status = status == VC_OK ? note_other_bin(ctx, model) : status;
    }
    status = status == VC_OK ? note_odd(ctx, folder, model) : status;
    if (status != VC_OK) {
        VC_CALL(survive(ctx, model, status));
    }
    if (vc_collecting(ctx) && !vc_infolder_has_models(folder)) {
        VC_CALL(vc_check_names(ctx, model, false));
        VC_CALL(vc_check_config(ctx, model));
    }
    return vc_infolder_has_models(folder) ? VC_OK : mark_foreign(ctx, model, false);
}

/* How the quantized weights lie, unless the reader has said it. A file that could not be read has no format. */
static void set_layout(struct vc_model *model)
{
    const struct vc_format *format = model->format;

    if (format == NULL) {
        return;
    }
    model->dialect = model->dialect != NULL ? model->dialect : format->dialect;
    vc_format_set_loader(format, model->dialect, model->family, &model->loader);
    vc_plain_note_model(model, &model->loader);
    vc_ct_note_model(model, &model->loader);
    model->layout = vc_dialect_layout(model->dialect, &model->loader);
}

/* The name of a file of the model: in its folder, or without any. "unet/model.safetensors" of
 * "/models/sd/unet/model.safetensors". */
static const char *name_below(const struct vc_model *model, const char *path)
{
    const char *folder = model->folder != NULL ? vc_infolder_path(model->folder) : "";
    size_t n = strlen(folder);

    if (n != 0 && strncmp(path, folder, n) == 0 && path[n] == '/') {
        return path + n + 1;
    }
    return vc_base_name(path);
}

/* struct vc_model.check_unchanged. A file beside the one that was given, or in a folder, is named. */
static enum vc_status check_unchanged(struct vc_ctx *ctx, const struct vc_model *model)
{
    if (model->input != NULL) {
        VC_CALL(vc_infile_check(ctx, model->input));
    }
    for (size_t i = 0; i < model->n_inputs; i++) {
        const struct vc_infile *file = model->inputs[i];

        if (file != NULL && vc_infile_check(ctx, file) != VC_OK) {
            return vc_context(ctx, "%s", name_below(model, file->path));
        }
    }
    return VC_OK;
}

/* A model of that path, which nobody has opened yet. *out is set even on failure, for vc_model_close. */
static enum vc_status create_model(struct vc_ctx *ctx, const char *path, struct vc_model **out)
{
    struct vc_model *model = vc_calloc_array(ctx, VC_TAG_MISC, 1, sizeof *model);

    *out = model;
    VC_CALL_ALLOC(model);
    model->ctx = ctx;
    model->expect = vc_format_expect;
    VC_CALL_ALLOC(model->path = vc_strdup(ctx, VC_TAG_NAMES, path));
    return VC_OK;
}

static const char *const no_extensions[] = {NULL};

/* The writer of safetensors, under a name of its own: a model of this row is not what the reader of safetensors made
 * (vc_format_writes). */
static enum vc_status back_sink_create(struct vc_ctx *ctx, const struct vc_model *model,
                                       const struct vc_write_options *options, struct vc_sink **out)
{
    return vc_safetensors_sink_create(ctx, model, options, out);
}

/* A GGUF model as a folder of transformers: what is made of it is one of safetensors. */
static const struct vc_format vc_format_gguf_back = {.name = "gguf",
                                                     .extensions = no_extensions,
                                                     .create_sink = back_sink_create,
                                                     .divides = true,
                                                     .dialect = &vc_dialect_gguf};

/* vc_open_options.as_gguf and as_folder: the folder (or the GGUF model) that was opened becomes the source of a GGUF
 * model (or of a folder), which takes its place. The new model owns the source from here on, also when it fails. *model
 * is the one that the caller closes. */
static enum vc_status wrap(struct vc_ctx *ctx, const struct vc_open_options *options, struct vc_model **model)
{
    struct vc_model *source = *model;
    struct vc_model *wrapped = NULL;
    bool back = options->as_folder && vc_gguf_back_fits(source);
    bool fits = back;
    enum vc_status status = VC_OK;

    if (options->as_gguf) {
        VC_CALL(vc_model_need_all(ctx, source,
                                  "a GGUF file is made of all files of the folder (which may be "
                                  "made smaller first)"));
        VC_CALL(vc_gguf_folder_fits(ctx, source, &fits));
    }
    if (!fits) {
        return VC_OK;
    }
    set_layout(source);
    status = create_model(ctx, source->path, &wrapped);
    if (status != VC_OK) {
        vc_model_close(wrapped);
        return status;
    }
    *model = wrapped;
    return back ? vc_gguf_back_open(ctx, options, &vc_format_gguf_back, source, wrapped)
                : vc_gguf_folder_open(ctx, options, source, wrapped);
}

/* Whether a GGUF file has what a folder of transformers needs. */
enum vc_status vc_format_fits_folder(struct vc_ctx *ctx, const struct vc_model *model, bool *fits)
{
    return vc_gguf_folder_fits(ctx, model, fits);
}

/* *model becomes the model of a graph whose weights are those of the model before, which it closes. */
enum vc_status vc_format_make_onnx(struct vc_ctx *ctx, const struct vc_program *program, struct vc_model **model)
{
    struct vc_model *source = *model;
    struct vc_model *made = NULL;
    enum vc_status status = create_model(ctx, source->path, &made);

    if (status != VC_OK) {
        vc_model_close(made);
        return status;
    }
    *model = made;
    vc_model_set_format(made, &vc_format_onnx);
    VC_CALL(vc_onnx_made_open(ctx, program, source, made));
    vc_onnx_made_of(made)->create_folder = vc_onnx_folder_sink_create;
    return vc_model_index_names(ctx, made);
}

/* Also for models that are in memory (no format): then only the functions are set. */
enum vc_status vc_format_finish(struct vc_ctx *ctx, const struct vc_open_options *options, struct vc_model **model)
{
    if (options != NULL) {
        VC_CALL(wrap(ctx, options, model));
    }
    if ((*model)->format == NULL || !(*model)->format->tells_axes) {
        vc_model_name_axes(*model);
    }
    set_layout(*model);
    (*model)->check_unchanged = check_unchanged;
    (*model)->bytes = vc_model_bytes;
    (*model)->program_beside = vc_hf_program_beside;
    (*model)->adapter_beside = vc_hf_adapter_beside;
    (*model)->module_name = vc_family_module;
    (*model)->is_tied = vc_family_is_tied;
    return VC_OK;
}

/* With a reader of the caller the path is a name alone, so no folder is looked for. */
enum vc_status vc_format_open(struct vc_ctx *ctx, const char *path, const struct vc_open_options *options,
                              struct vc_model **out)
{
    VC_SCOPED_MODEL struct vc_model *model = NULL;

    *out = NULL;
    VC_CALL(create_model(ctx, path, &model));
    bool is_folder = (options == NULL || options->reader == NULL) && vc_infolder_is(path);
    if (is_folder) {
        VC_CALL(open_folder(ctx, options, model));
    } else {
        VC_CALL(open_file(ctx, options, model));
    }
    VC_CALL(note_odd_config(ctx, model));
    VC_CALL(vc_format_finish(ctx, options, &model));
    *out = vc_give(&model);
    return VC_OK;
}
