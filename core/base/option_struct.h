/* option_struct.h - how the library reads a structure of options that a program may have from another version of the
 * headers. What the options mean is not known here.
 *
 * Such a structure begins with its own size, as the program's compiler knew it, and only ever grows at its end:
 *
 *     an older program's     | struct_size 24 | path | force |
 *     the library's own      | struct_size 32 | path | force | deflate |
 *     what is worked with    | struct_size 32 | path | force | default |
 *
 * option_kinds.inc has a row for each structure. vc_<noun>_defaults calls vc_options_defaults with the structure's name;
 * every public function that takes options calls vc_options_read(ctx, VC_OPTIONS(noun), ...) first and sees only the copy.
 * So code behind that may pass options on as the library's own structures. */
#pragma once

#include "core/base/ctx.h"

struct vc_options_kind {
    const char *name;     /* "vc_write_options" */
    const char *maker;    /* "vc_write_defaults" */
    const void *defaults; /* one of the library's own; its struct_size is not looked at */
    size_t size;          /* of the library's own structure */
};

enum {
#define VC_KIND(noun, structure, ...) VC_OPTIONS_##noun,
#include "core/base/option_kinds.inc"
#undef VC_KIND
    VC_OPTIONS_KINDS
};
extern const struct vc_options_kind vc_option_kinds[VC_OPTIONS_KINDS];

/* The row of a structure: VC_OPTIONS(write) is that of vc_write_options. */
#define VC_OPTIONS(noun) (&vc_option_kinds[VC_OPTIONS_##noun])

/* Makes the program's structure of `size` bytes: the defaults as far as both know them, then zeros. */
void vc_options_fill(const struct vc_options_kind *kind, void *options, size_t size);

/* Copies what the program gave to *own, a structure of the library's: fields that the program did not know have their
 * defaults. given NULL: all of them have. Refuses, with VC_E_ARGUMENT, a structure that the maker did not make, and one
 * that sets fields beyond those known here. Strings and arrays are not copied. */
enum vc_status vc_options_read(struct vc_ctx *ctx, const struct vc_options_kind *kind, const void *given, void *own);

/* The same without a sentence: false where it would be refused, and *own is as it was. */
bool vc_options_take(const struct vc_options_kind *kind, const void *given, void *own);
