/* lay.c - what rows call to say how a part of a weight lies in the file: struct vc_laying. */

#include "core/model/names.h"
#include "formats/dialects/dialects.h"

/* "<path of the module>.<tail>" for the weight of a module, "<path of the module>.weight". NULL: no memory. */
static const char *module_name(struct vc_ctx *ctx, struct vc_arena *arena, const char *weight, const char *tail)
{
    size_t n_path = 0;

    (void)vc_name_is_module_weight(weight, &n_path);
    return vc_arena_printf(ctx, arena, "%.*s%s%s", (int)n_path, weight, n_path != 0 ? "." : "", tail);
}

enum vc_status vc_dialect_lay(struct vc_laying *l, const char *tail, struct vc_laid how, uint64_t a, uint64_t b)
{
    uint64_t *shape = NULL;

    VC_CALL_ALLOC(how.name = tail != NULL ? module_name(l->ctx, l->arena, l->codes->name, tail) : l->codes->name);
    if (how.shape == NULL) {
        VC_CALL_ALLOC(shape = vc_arena_alloc(l->ctx, l->arena, 2 * sizeof *shape));
        shape[0] = a;
        shape[1] = b;
        how.shape = shape;
    }
    l->laid[l->n++] = how;
    return VC_OK;
}

bool vc_laid_constant(const struct vc_laid *laid, uint64_t at, size_t n, void *out)
{
    const unsigned char *bytes = laid->constant;
    unsigned char *to = out;

    if (laid->index_of != 0) {
        for (size_t i = 0; i < n; i += 4) {
            vc_put_le32(to + i, (uint32_t)((at + i) / 4 / laid->index_of));
        }
        return true;
    }
    if (laid->period != 0) {
        for (size_t i = 0; i < n; i++) {
            to[i] = bytes[(at + i) % laid->period];
        }
    } else if (bytes != NULL) {
        memcpy(to, bytes + at, n);
    }
    return bytes != NULL;
}

/* Doubling the magnitude of a float as bits: a subnormal number moves up, into the first exponent where it grows so
 * large; of others the exponent is one more. `one`: the lowest bit of the exponent. */
static uint32_t twice(uint32_t magnitude, uint32_t one)
{
    return magnitude < one ? magnitude << 1 : magnitude + one;
}

bool vc_laid_times(enum vc_dtype dtype, int times, const void *floats, size_t n_bytes, void *out)
{
    size_t size = vc_dtype_size(dtype);
    uint32_t sign = (uint32_t)1 << (8 * size - 1);
    uint32_t one = dtype == VC_DTYPE_F16 ? 0x400 : dtype == VC_DTYPE_BF16 ? 0x80 : 0x800000;
    uint32_t inf = dtype == VC_DTYPE_F16 ? 0x7c00 : dtype == VC_DTYPE_BF16 ? 0x7f80 : 0x7f800000;
    const unsigned char *from = floats;
    unsigned char *to = out;

    for (size_t i = 0; i < n_bytes; i += size) {
        uint32_t bits = size == 4 ? vc_le32(from + i) : (uint32_t)(from[i] | from[i + 1] << 8);
        uint32_t magnitude = bits & (sign - 1);

        for (int k = 1; k < (times < 0 ? -times : times) && magnitude < inf; k *= 2) {
            magnitude = twice(magnitude, one);
        }
        if (magnitude >= inf) {
            return false;
        }
        bits = magnitude | ((bits & sign) ^ (times < 0 ? sign : 0));
        for (size_t b = 0; b < size; b++) {
            to[i + b] = (unsigned char)(bits >> 8 * b);
        }
    }
    return true;
}
