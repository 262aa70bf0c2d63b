/* torch.h - what the parts of the PyTorch reader and writer share. The format in words: docs/formats.md.
 *
 *     model.pt, a zip archive                    what it holds
 *     archive/data.pkl                           80 02 7d ... : a pickle, the object that was saved (pickle.h)
 *     archive/byteorder                          "little"
 *     archive/data/0, archive/data/1, ...        the bytes of the storages that data.pkl names
 *     archive/version                            "3\n"
 *
 *     {'fc.weight': _rebuild_tensor_v2(('storage', FloatStorage, '0', 'cpu', 6), 0, (2, 3), (3, 1), False, ...)}
 *                               key of the storage ^         elements ^   ^ offset  ^ sizes  ^ strides
 *
 * Who does what:
 *
 *     torch_types     element types and their storage classes
 *     torch_node      what a node of the pickle is;  torch_describe: in words
 *     torch_tensor    a node -> the tensor it describes
 *     torch_choose    which dict is the model;  torch_tree: names, roles and parts of everything
 *     torch_storage   storages: where their bytes are, in a zip or behind the pickles of a legacy file
 *     torch_archive, torch_legacy   the pickle out of the file
 *     torch_open      the file as a model;  torch_list: its tensors;  torch_data: values by range
 *     torch_write     the output file;  torch_pickle: its data.pkl;  torch_resave: the source's tree in it;
 *                     torch_plain: what can be in there;  torch_emit: opcodes
 *     torch_script    the output of a TorchScript archive: its members with other values */
#pragma once

#include "core/model/shapes.h"
#include "core/text/text.h"
#include "formats/formats.h"
#include "formats/torch/pickle.h"
#include "formats/zip/zip_data.h"

/* The row of this format in the table of formats. */
#define VC_FORMAT_TORCH "torch" /* of the format, in reports */

extern const struct vc_format vc_format_torch;

#define TORCH_PICKLE   "data.pkl"
#define TORCH_MANIFEST ".data/vcompress.json"
#define TORCH_KEY      ".data/vcompress.key"

/* An element type of PyTorch. Classic types have a storage class of their own, newer ones share UntypedStorage. */
struct torch_dtype {
    const char *storage; /* "FloatStorage"; NULL: has none of its own, so storages are untyped */
    const char *name;    /* "float32" */
    enum vc_dtype dtype;
    unsigned item_bytes;
    unsigned swap_bytes; /* unit of byte order */
    bool quantized;      /* elements need a scale that is not in the storage */
};

const struct torch_dtype *vc_torch_dtype_by_storage(const struct vc_pickle_bytes *name);
const struct torch_dtype *vc_torch_dtype_by_name(const struct vc_pickle_bytes *name);
/* The one that a type of ours is written as; NULL if there is none. */
const struct torch_dtype *vc_torch_dtype_of(enum vc_dtype dtype);

/* Its number in the table. Storages of types without a class of their own are written as bytes; so is complex32, whose
 * class newer versions do not have. */
size_t vc_torch_dtype_number(const struct torch_dtype *dtype);
bool vc_torch_is_untyped(const struct torch_dtype *dtype);

/* A tensor as the pickle describes it. */
struct torch_tensor {
    const struct torch_dtype *dtype;
    struct vc_pickle_node *id; /* of the storage: a tuple */
    size_t storage;            /* known after vc_torch_storages_make */
    uint64_t offset;           /* elements, from the start of the storage */
    unsigned n_dims;
    const uint64_t *shape, *strides; /* in the reader's arena */
    uint64_t n_elems;
    bool gather; /* does not lie in C order */
    bool requires_grad, parameter;
};

/* The bytes that tensors are views of, named by a persistent id of the pickle. */
struct torch_storage {
    struct vc_pickle_bytes key;
    const struct torch_dtype *dtype; /* NULL: untyped */
    uint64_t numel, n_bytes;
    uint64_t offset;                  /* in the file; in the spool once it is there */
    const struct vc_zip_entry *entry; /* NULL: legacy */
    uint64_t file_bytes;              /* with its headers; 0 when a tensor was charged with it */
    _Atomic bool spooled;
    _Atomic bool bad; /* its checksum was wrong */
    bool lost;        /* only while findings are collected: it cannot be read */
};

/* An entry of the tree that is a tensor, or would be one if it could be read. */
struct torch_found {
    const char *name;
    enum vc_role role;
    bool buffer; /* a pickled module has it among its buffers */
    size_t part;
    const char *refusal; /* NULL: fine */
    struct torch_tensor tensor;
};

/* What lives as long as the model: names, shapes, parts, notes. */
struct torch_keep {
    struct vc_arena arena;
    struct vc_shapes shapes;
};

/* `self` of a model that was read from a PyTorch file. */
struct torch {
    struct vc_ctx *ctx;
    struct vc_infile *file;
    struct vc_zip zip;
    size_t root_bytes; /* of the member names' common prefix, with its '/' */
    bool legacy, big_endian, script;
    bool blind;          /* only while findings are collected: the pickle is damaged, so nothing is known of tensors */
    unsigned char *text; /* the bytes of the pickle */
    struct vc_pickle pickle;
    struct torch_keep keep;
    struct vc_pickle_node *chosen;
    const char *key; /* where it is: "model_state_dict"; "" for the whole */
    bool key_given;
    struct torch_found *found; /* by tensor of the model, once those that are refused are gone */
    size_t n_found;
    struct torch_storage *storages;
    size_t n_storages;
    struct vc_part *parts;
    size_t n_parts;
    struct vc_refused *refused;
    size_t n_refused;
    size_t n_arrays; /* NumPy's, which are not read */
    bool arrays_among_weights;
    struct vc_text note;
    struct vc_spool spool;
    atomic_uint n_bad; /* storages whose checksum was wrong */
};

/* ---- torch_tensor.c ---- */

/* What vc_torch_tensor_parse makes of a node. */
enum torch_kind {
    TORCH_NOTHING, /* no tensor */
    TORCH_TENSOR,
    TORCH_REFUSED /* a tensor that cannot be read: *refusal says why */
};

/* A storage as a persistent id names it. */
struct torch_storage_id {
    struct vc_pickle_node *id;       /* the tuple */
    const struct torch_dtype *dtype; /* NULL: untyped */
    uint64_t numel;                  /* elements; bytes if untyped */
    uint64_t view_offset;            /* legacy: it is a part of the storage with that key */
};

/* ('storage', class, key, location, elements), the tuple of a persistent id. VC_E_FORMAT and VC_E_UNSUPPORTED say what
 * is wrong with it. */
enum vc_status vc_torch_storage_parse(struct vc_ctx *ctx, const struct vc_pickle_node *node,
                                      struct torch_storage_id *out);

/* What a node is. VC_E_FORMAT when it calls itself a tensor and its arguments make none. */
enum vc_status vc_torch_tensor_parse(struct vc_ctx *ctx, struct torch_keep *keep, const struct vc_pickle_node *node,
                                     struct torch_tensor *out, enum torch_kind *kind, const char **refusal);
/* ---- torch_node.c; more of it in torch_choose.h ---- */

/* "argparse.Namespace" of a global or of what a call made, into buffer. */
const char *vc_torch_class_name(const struct vc_pickle_node *node, char *buffer, size_t n);
/* A module as torch.save(model) pickles it: the dict of its state; else NULL. */
struct vc_pickle_node *vc_torch_module_state(const struct vc_pickle_node *node);
/* The attributes of an object: the dict that is its state, or the first of a pair; NULL: none. */
struct vc_pickle_node *vc_torch_object_state(const struct vc_pickle_node *node);
struct vc_pickle_node *vc_torch_dict_get(const struct vc_pickle_node *dict, const char *key);
struct vc_pickle_node *vc_torch_dict_get_bytes(const struct vc_pickle_node *dict, const struct vc_pickle_bytes *key);

/* ---- torch_tree.c ---- */

/* Chooses the model (`key`: by this path; NULL: by the usual names), lists all tensors, the chosen ones first, and the
 * parts of the file. */
enum vc_status vc_torch_tree_make(struct vc_ctx *ctx, struct torch *self, const char *key);

/* ---- torch_archive.c ---- */

#define TORCH_MAX_SMALL ((size_t)4096) /* bytes of version, byteorder and the like */

/* An archive with a data.pkl in its one folder. */
bool vc_torch_is_archive(const struct vc_zip *zip);
/* Bytes of the first member's first folder, with its '/'; 0: it is in none. */
size_t vc_torch_root_bytes(const struct vc_zip *zip);
/* The whole member, NUL-terminated, freed by the caller; *out stays NULL where there is none. */
enum vc_status vc_torch_read_member(struct vc_ctx *ctx, struct torch *self, const char *name, size_t most,
                                    unsigned char **out, size_t *n);
/* Fills pickle, text, big_endian and script. */
enum vc_status vc_torch_archive_read(struct vc_ctx *ctx, struct torch *self);
/* What no tensor lies in. Storages were checked with their tensors; of a damaged pickle, whether they are whole can
 * still be told. */
enum vc_status vc_torch_check_rest(struct vc_ctx *ctx, const struct vc_model *model);

/* ---- torch_list.c ---- */

/* What is refused leaves the list of what was found. */
enum vc_status vc_torch_split_refused(struct vc_ctx *ctx, struct torch *self);
/* The rest becomes the model's tensors, with their names, aliases and parts. */
enum vc_status vc_torch_list_tensors(struct vc_ctx *ctx, struct torch *self, struct vc_model *model);

/* ---- torch_storage.c ---- */

/* Finds the storages of all tensors and gives each tensor its own. keys: of a legacy file, whose storages start at
 * `data`; NULL: an archive. */
enum vc_status vc_torch_storages_make(struct vc_ctx *ctx, struct torch *self, const struct vc_pickle_node *keys,
                                      uint64_t data);

/* ---- torch_legacy.c ---- */

/* Reads the five pickles into self->text; the fourth becomes self->pickle, the fifth *keys (released by the caller).
 * *data: where the storages start. */
enum vc_status vc_torch_legacy_read(struct vc_ctx *ctx, struct torch *self, struct vc_pickle *keys, uint64_t *data);

/* ---- torch_data.c ---- */

/* The entries of vc_source_ops (core/model/source.h). */
enum vc_status vc_torch_read(struct vc_ctx *ctx, const struct vc_model *model, size_t tensor, enum vc_form form,
                             uint64_t offset, void *dst, size_t n_bytes, struct vc_check *check);
size_t vc_torch_stream_bytes(const struct vc_model *model, size_t tensor);

/* ---- torch_write.c, torch_pickle.c ---- */

/* The writer of the torch row (torch_open.c). */
enum vc_status vc_torch_sink_create(struct vc_ctx *ctx, const struct vc_model *model,
                                    const struct vc_write_options *options, struct vc_sink **out);

/* torch_script.c: the same where the source is a TorchScript archive, which the output is then, too. */
enum vc_status vc_torch_script_sink_create(struct vc_ctx *ctx, const struct vc_model *model,
                                           const struct vc_write_options *options, struct vc_sink **out);

/* The pickle for a list of outputs, which are called `names` in it, and in keys[] the number of the storage of each.
 * source: NULL where the model is of another format. *note: what was left out; "" for nothing. */
enum vc_status vc_torch_pickle_make(struct vc_ctx *ctx, const struct vc_model *model, const struct torch *source,
                                    const struct vc_out_list *outs, const char *const *names, struct vc_text *pickle,
                                    size_t *keys, struct vc_text *note);
