/* arch_pictures.h - networks that make pictures and films, as single files have them: how one is known by its tensors,
 * and which of its layers stay as they are when the others become codes.
 *
 *     model.diffusion_model.double_blocks.0.img_attn.proj.weight    ->   Flux, behind the prefix model.diffusion_model.
 *
 * The names are those of the files that ComfyUI and stable-diffusion.cpp load. Layers at both ends and those that read the time step are few and small, and errors there reach the
 * whole picture: published files of 8 bits keep them. */
#pragma once

#include <vcompress/model.h>

struct vc_arch_picture {
    const char *known_by; /* a tensor that none of the other networks has, behind the prefix */
    const char *kept;     /* globs of layers, divided by blanks, behind the prefix */
    const char *gguf;     /* general.architecture of a GGUF file: "flux" */
    const char *f32; /* globs of tensors that GGUF's readers take as f32 alone: parameters without a layer; or NULL */
    /* GGUF's readers take rows of 256 in place of rows that blocks do not divide, convolutions above all. */
    bool folded;
};

/* The row of a model with such tensors; *prefix: how names of its layers begin ("": with nothing), of static storage.
 * NULL: no row is. */
const struct vc_arch_picture *vc_arch_picture_find(const struct vc_model *model, const char **prefix);

/* Bytes of such a beginning of the name; 0: it has none. */
size_t vc_arch_picture_prefix(const char *name);

/* Whether GGUF's readers want that tensor as f32, in a file whose floats are of 32 bits or bf16: what is no matrix's and
 * small, and the row's own (convert.py of ComfyUI-GGUF 1.1.10). */
bool vc_arch_picture_is_f32(const struct vc_arch_picture *row, const char *prefix, const char *tensor, unsigned n_dims,
                            uint64_t n_elems);

/* Why that layer stays as it is, a few words: it is one of the kept ones, or of another model of the file (its text
 * encoder, the decoder of its pictures). `layer`: a name without ".weight". NULL: it becomes codes. */
const char *vc_arch_picture_keeps(const struct vc_arch_picture *row, const char *prefix, const char *layer);

/* The same for the weight of a layer in a model with such tensors; *known: the file is one of these networks. */
const char *vc_arch_picture_reason(const struct vc_model *model, const char *weight, bool *known);
