/* search.h - finds the weights of dialects in a model that has been read, by the names, types and shapes of its
 * tensors: weights of compressed-tensors and bitsandbytes. docs/formats.md says which, and what is left
 * alone.
 *
 * The format's reader calls the first half (finds.c); the rows of the table are called back and use the second
 * (search.c). */
#pragma once

#include "core/base/findings.h"
#include "formats/dialects/dialects.h"

/* How a tensor of the model lies in the file. */
struct vc_found {
    const struct vc_dialect *dialect; /* NULL: it is no quantized weight, or one of our own */
    struct vc_packed packed;          /* packing NULL: the codes lie as they are */
    size_t n_name;                    /* of packed codes: their name in the model is so much of that in the file ... */
    const char *tail;                 /* ... and this behind it; NULL: nothing */
};

struct vc_finds {
    struct vc_arena arena;            /* names and shapes that are not the file's */
    struct vc_found *found;           /* by tensor; NULL: there are no such weights. vc_finds_at asks it */
    const struct vc_dialect *dialect; /* that of the weights found, which a copy of the model is written in; plain where
                                         there are none, or only such that are read and not written */
    const struct vc_dialect *read;    /* that of the first weight found, written or not; plain where there is none */
};

/* Says what the configuration beside the model says. */
typedef enum vc_status vc_hint_fn(struct vc_ctx *ctx, const struct vc_model *model, struct vc_dialect_hint *out);

/* The model has its tensors and their names sorted, ops->read works. Packed weights become tensors of type i8 with the
 * name and shape of the weight, their other parts its parts. `hint` is asked at most once, when it is needed; it
 * may be NULL. VC_E_FORMAT for parts that contradict each other. Release `out` in any case. */
enum vc_status vc_search_packed(struct vc_ctx *ctx, struct vc_model *model, vc_hint_fn *hint, struct vc_finds *out);

/* To be called once the manifest has been applied: integers that nothing has been said about yet. `hint` as above. */
enum vc_status vc_search_codes(struct vc_ctx *ctx, struct vc_model *model, vc_hint_fn *hint, struct vc_finds *out);

/* What was found about the tensor. */
const struct vc_found *vc_finds_at(const struct vc_finds *finds, size_t tensor);

void vc_finds_release(struct vc_ctx *ctx, struct vc_finds *finds);

/* ---- for the rows ---- */

struct vc_search {
    struct vc_ctx *ctx;
    struct vc_model *model;
    struct vc_finds *out;
    const struct vc_dialect *row; /* the row that is asked now */
    vc_hint_fn *ask;
    bool asked;
    struct vc_dialect_hint hint; /* vc_search_hint fills it */
    char *buffer;                /* the name that was looked up last */
    bool any_packed;
    struct json_t *layers; /* the tree of hint.layers, once a row has made it */
    uint8_t *halves;       /* by tensor: enum vc_dtype, once a row has asked (comfy.c) */
};

enum vc_status vc_search_hint(struct vc_search *search);

/* The tensor <first n characters of stem><tail>, or VC_NO_TENSOR. Its name is search->buffer then. */
size_t vc_search_find(const struct vc_search *search, const char *stem, size_t n, const char *tail);
bool vc_search_has(const struct vc_search *search, const char *stem, size_t n, const char *tail);

/* Not a part of a weight yet. */
bool vc_search_is_free(const struct vc_search *search, size_t tensor);

/* A tensor (VC_NO_TENSOR: none) of f32, f16 or bf16 that is free, as scales are. */
bool vc_search_is_floats(const struct vc_search *search, size_t tensor);

/* The tensors <first n characters of stem><a word of the list> that are free belong to the codes: what a program keeps
 * beside them, and no decoder asks for. */
void vc_search_claim(const struct vc_search *search, size_t codes, const char *stem, size_t n, const char *words);

/* A matrix of i8 or f8_e4m3 that is the weight of a module and that nothing has been said about; *n_stem is the length
 * of its name up to where "weight" begins. */
bool vc_search_is_codes(const struct vc_search *search, size_t tensor, size_t *n_stem);

/* Fills granularity, axis and group size of *quant from the shape of the scales of a weight of n_rows rows; *sure is
 * false where it allows none, or more than one. */
enum vc_status vc_search_granularity(struct vc_search *search, const struct vc_tensor *scale, uint64_t n_rows,
                                     uint64_t row, struct vc_quant *quant, bool *sure);

/* The tensor is a weight of the dialect that was asked (search->row), whose parts are those that quant names. as_written: copies of the model are
 * written in the dialect; false for a form of it that is read only. */
enum vc_status vc_search_attach(struct vc_search *search, size_t tensor, const struct vc_quant *quant, bool as_written);

/* The same for packed codes: the tensor is shown as codes of the scheme, [packed->n_rows, packed->row] or two for each
 * of these, and gets the first n_name characters of its name for a name (0: it keeps its name). Without a packing they
 * lie as they do in a job. The caller knows that there are as many codes in it. */
enum vc_status vc_search_attach_packed(struct vc_search *search, size_t tensor, const struct vc_quant *quant,
                                       const struct vc_packed *packed, size_t n_name);

/* The tensor is codes of the row's that cannot be read as a weight: vc_tensor.undecoded, and a finding of that severity
 * (an error where no loader takes them). The sentence goes on behind the tensor's name. So what a reader refuses and
 * what `verify` says of it are the same. */
enum vc_status vc_search_refuse(struct vc_search *search, size_t tensor, enum vc_severity severity, const char *format,
                                ...) VC_PRINTF(4, 5);

/* A part of packed codes that is packed, too: it is shown as [packed->n_rows, elements of a row] of that type. To be
 * called once the codes are attached. */
enum vc_status vc_search_show_part(struct vc_search *search, size_t part, enum vc_dtype dtype,
                                   const struct vc_packed *packed);
