/* dynamic_codes.c - see kernels/train_codes.h. The maps are those of bitsandbytes to the bit. */
#include "kernels/train_codes.h"

/* Number k of n + 1 from 0.1 to 1 at equal distances, counted from the nearer end, rounded once. */
static float even(unsigned k, unsigned n)
{
    double step = (double)((1.0f - 0.1f) / (float)n);

    return k < (n + 1) / 2 ? (float)((double)0.1f + step * k) : (float)(1 - step * (n - k));
}

static void make(struct vc_dynamic_map *map, bool with_sign)
{
    static const float decades[7] = {1e-6f, 1e-5f, 1e-4f, 1e-3f, 1e-2f, 1e-1f, 1.0f};
    unsigned n = with_sign ? 127 : 0;
    unsigned k = 0;

    map->zero = n;
    map->value[n++] = 0;
    for (unsigned d = 0; d < 7; d++) {
        unsigned cells = with_sign ? 1u << d : 2u << d;

        for (unsigned i = 0; i < cells; i++) {
            float middle = (even(i, cells) + even(i + 1, cells)) / 2.0f;

            map->value[n++] = decades[d] * middle;
        }
    }
    map->value[n] = 1;
    for (unsigned i = 0; i < map->zero; i++) {
        map->value[i] = -map->value[2 * map->zero - i];
    }
    for (unsigned i = map->zero; i < 255; i++) {
        map->border[i - map->zero] = (map->value[i] + map->value[i + 1]) / 2.0f;
    }
    for (unsigned i = 255 - map->zero; i < 256; i++) {
        map->border[i] = INFINITY;
    }
    for (uint32_t cell = 0; cell < VC_DYNAMIC_CELLS; cell++) {
        uint32_t bits = (cell + VC_DYNAMIC_FIRST) << 16;
        float x;

        memcpy(&x, &bits, sizeof x);
        while (x > map->border[k]) {
            k++;
        }
        map->at[cell] = (uint8_t)k;
    }
}

void vc_dynamic_maps_make(struct vc_dynamic_maps *maps)
{
    make(&maps->with_sign, true);
    make(&maps->without, false);
}
