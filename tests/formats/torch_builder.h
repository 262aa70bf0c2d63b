/* torch_builder.h - makes small pickles and PyTorch files in memory for the tests: opcodes by hand, so that every wrong
 * one can be made, too. Not part of the library. */
#pragma once

#include "zip_builder.h"

/* Opcodes; text as it is: pk_raw(&b, ")t."). */
void pk_raw(struct bytes *b, const char *ops);
void pk_start(struct bytes *b); /* protocol 2 */
void pk_string(struct bytes *b, const char *s);
void pk_int(struct bytes *b, int64_t v);
void pk_global(struct bytes *b, const char *module, const char *name);
void pk_dims(struct bytes *b, const char *dims); /* "3,4": a tuple */

/* torch._utils.<function>(('storage', torch.<storage>, key, 'cpu', numel), offset, size, stride, False, OrderedDict()).
 */
void pk_tensor(struct bytes *b, const char *storage, const char *key, int64_t numel, int64_t offset, const char *size,
               const char *stride);
void pk_tensor_by(struct bytes *b, const char *function, const char *storage, const char *key, int64_t numel,
                  int64_t offset, const char *size, const char *stride);

/* An archive: data.pkl, byteorder (NULL: none), version, and storages 0, 1, ... of the sizes given, filled with 0, 1,
 * 2,
 * ... modulo 251. options: of every member. */
struct bytes torch_archive(const struct bytes *pickle, const char *byteorder, const size_t *sizes, size_t n,
                           const struct member_options *options);

/* A legacy file around the object; keys "0", "1", ... with so many elements of item bytes each. */
struct bytes torch_legacy(const struct bytes *pickle, const size_t *numels, const size_t *items, size_t n);
