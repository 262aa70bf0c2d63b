/* plain.c - the dialect of vcompress itself: a weight's parts have its name and a suffix, and the manifest or the
 * suffixes tell how they belong together (manifest.h). Every scheme fits, in every format that holds its types.
 *
 *     fc.weight.int8        i8  [out, in]     npz: fc.weight, which NumPy decodes in one line
 *     fc.weight.scale       f32 [out, 1]
 *     fc.weight.zero_point  i8  [out, 1]      asymmetric only
 *     fc2.weight.int4       u8  [out, in / 2] two codes a byte, since NumPy and PyTorch have no smaller numbers
 *     fc3.weight.nvfp4      u8  [out, in / 2] with fc3.weight.scale u8 [out, in / 16], fc3.weight.global_scale f32 [1]
 *
 * Programs fill the modules of a model with what safetensors and PyTorch files have, by name, and many of them look at
 * no type: codes that had the weight's name would be taken for it. Under a name of their own they are what such a
 * program does not know, and the weight is missing. In a model the codes have the name of the weight.
 *
 * The parts are what passes make, so there is nothing to say about them here. */

#include "core/model/code_schemes.h"
#include "core/values/tile.h"
#include "formats/dialects/dialects.h"

const char *vc_plain_codes_name(struct vc_ctx *ctx, struct vc_arena *arena, const char *weight, enum vc_scheme scheme)
{
    const struct vc_code_scheme *row = vc_code_scheme(scheme);

    return row == NULL ? weight : vc_arena_printf(ctx, arena, "%s.%s", weight, row->name);
}

size_t vc_plain_weight_bytes(const char *name, enum vc_scheme scheme)
{
    const char *word = vc_code_scheme(scheme)->name;
    size_t n = strlen(name);
    size_t n_tail = strlen(word) + 1;

    return n >= n_tail && name[n - n_tail] == '.' && strcmp(name + n - n_tail + 1, word) == 0 ? n - n_tail : SIZE_MAX;
}

bool vc_plain_is_bytes(const struct vc_out_tensor *out, uint64_t shape[2])
{
    const struct vc_code_scheme *row = out->quant != NULL ? vc_code_scheme(out->quant->scheme) : NULL;

    if (row == NULL || row->array != VC_DTYPE_U8 || out->dtype != row->codes) {
        return false;
    }
    vc_rows_of(out->shape, out->n_dims, &shape[0], &shape[1]);
    shape[1] = vc_dtype_bytes(row->codes, shape[1]);
    return true;
}

enum vc_dtype vc_plain_type(const struct vc_out_tensor *out)
{
    return out->beside && (out->dtype == VC_DTYPE_F8_E4M3 || out->dtype == VC_DTYPE_F8_E8M0) ? VC_DTYPE_U8 : out->dtype;
}

/* Of both files and models: one line for the report. */
#define BYTES_NEED "vcompress dequantize, or a few lines of NumPy (docs/formats.md, codes in bytes)"

void vc_plain_note_outs(const struct vc_out_list *outs, struct vc_loader *loader)
{
    uint64_t shape[2];

    for (size_t i = 0; i < outs->n; i++) {
        const struct vc_out_tensor out = vc_out_at(outs, i);

        loader->needs = vc_plain_is_bytes(&out, shape) ? BYTES_NEED : loader->needs;
    }
}

void vc_plain_note_model(const struct vc_model *model, struct vc_loader *loader)
{
    for (size_t i = 0; i < model->n_tensors && model->dialect == &vc_dialect_plain; i++) {
        const struct vc_tensor *t = &model->tensors[i];

        loader->needs =
            t->quant != NULL && vc_code_scheme(t->quant->scheme)->array == VC_DTYPE_U8 ? BYTES_NEED : loader->needs;
    }
}

/* Whether codes that are called <weight>.int8 are those of <weight>: not if the whole name is that of a weight, as it
 * is to <weight>.int8.scale. */
static bool has_own_scale(const struct vc_model *model, const struct vc_tensor *t)
{
    const char *scale = model->tensors[vc_quant_scale(t->quant)].name;
    size_t n = strlen(t->name);

    return strncmp(scale, t->name, n) == 0 && scale[n] == '.';
}

enum vc_status vc_plain_name_weights(struct vc_ctx *ctx, struct vc_model *model)
{
    bool any = false;

    for (size_t i = 0; i < model->n_tensors; i++) {
        struct vc_tensor *t = &model->tensors[i];
        size_t n = t->quant != NULL ? vc_plain_weight_bytes(t->name, t->quant->scheme) : SIZE_MAX;

        if (n == SIZE_MAX || has_own_scale(model, t)) {
            continue;
        }
        const char *weight = vc_arena_copy(ctx, &model->arena, t->name, n);
        VC_CALL_ALLOC(weight);
        if (vc_model_find(model, weight) == VC_NO_TENSOR) { /* names are sorted as they were until the end */
            t->name = weight;
            any = true;
        }
    }
    return any ? vc_model_index_names(ctx, model) : VC_OK;
}

static enum vc_status check_unique(struct vc_ctx *ctx, size_t n, const char *const *names)
{
    size_t twice;

    VC_CALL(vc_names_unique(ctx, VC_NAME_LIST(names, sizeof *names), n, &twice));
    VC_REFUSE_IF(twice != SIZE_MAX, ctx, VC_E_UNSUPPORTED, "%s: two tensors of the output would have this name",
                 names[twice]);
    return VC_OK;
}

enum vc_status vc_plain_name_outs(struct vc_ctx *ctx, struct vc_arena *arena, const struct vc_out_list *outs,
                                  const char **names)
{
    bool any = false;

    for (size_t i = 0; i < outs->n; i++) {
        const struct vc_out_tensor out = vc_out_at(outs, i);

        VC_CALL_ALLOC(names[i] = vc_plain_codes_name(ctx, arena, out.name, vc_out_scheme(&out)));
        any = any || out.quant != NULL;
    }
    return any ? check_unique(ctx, outs->n, names) : VC_OK;
}

const struct vc_dialect vc_dialect_plain = {
    .name = VC_LAYOUT_PLAIN,
    .is_choice = true,
    .takes_codes = true,
    .schemes = (const char *const[]){"int8",
#define INTS(NAME, name, ...)   name,
#define FLOATS(NAME, name, ...) name,
#define TABLE(NAME, name)       name,
#include "core/model/code_schemes.inc"
                                     NULL},
    .loader = {.needs = "vcompress dequantize, or w.int8 * w.scale in code of your own"}};
