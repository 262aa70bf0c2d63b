/* group_scale.c - vc_group_scale, the search for the scale of a group (grid_codes.h): quantize and fake quantization
 * share this object. */
#include "kernels/grid_codes.h"

struct vc_float_scale vc_group_scale(const struct vc_group_codes *c, const float *x, size_t n, uint32_t absmax_bits)
{
    return vc_group_search(c, x, n, absmax_bits);
}

void vc_coded_scale(const struct vc_group_codes *c, const float *book, float outer, const float *x, size_t n,
                    struct vc_float_scale *scale)
{
    const float wanted = scale->value;
    int near = 1;
    double best_error = 0.0;

    while (near < 255 && 0.5f * (book[near] + book[near + 1]) * outer < wanted) {
        near++;
    }
    scale->value = 0.0f;
    for (int k = near > 1 ? near - 1 : 1; k <= near + 1 && k <= 255 && !scale->zero; k++) {
        float s = book[k] * outer;
        double error = s > 0.0f ? vc_float_error(c->grid, c, x, n, s) : 0.0;

        if (s > 0.0f && (scale->value == 0.0f || error < best_error)) {
            scale->value = s;
            scale->byte = (uint8_t)k;
            best_error = error;
        }
    }
    scale->zero = scale->value == 0.0f;
}
