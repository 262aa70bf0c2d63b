/* safetensors_entry.c - reads the members of a header that look as every writer makes them, without a tree.
 *
 *     ,"w":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}
 *      name  the three keys in any order, each once; numbers of up to 18 digits without a sign; spaces anywhere
 *
 * A header has up to a million of them, and a tree for each is where reading it would spend its time. Whatever looks
 * different is left to jansson (json_walk.h): this file refuses nothing. */
#include "formats/safetensors/safetensors_entry.h"

#include "formats/json/json_plain.h"

/* [1, 2, 3], up to `most` numbers. */
static bool take_numbers(struct vc_json_cursor *c, uint64_t *out, size_t most, size_t *n)
{
    *n = 0;
    if (!vc_json_take(c, '[')) {
        return false;
    }
    if (vc_json_take(c, ']')) {
        return true;
    }
    do {
        if (*n == most || !vc_json_take_number(c, &out[*n])) {
            return false;
        }
        (*n)++;
    } while (vc_json_take(c, ','));
    return vc_json_take(c, ']');
}

/* One of the three keys and its value. */
static bool take_field(struct vc_json_cursor *c, struct safetensors_plain_entry *out, unsigned *seen)
{
    const char *key;
    size_t n;
    unsigned field;

    if (!vc_json_take_string(c, &key, &n) || !vc_json_take(c, ':')) {
        return false;
    }
    if (n == 5 && memcmp(key, "dtype", 5) == 0) {
        field = 1;
        if (!vc_json_take_string(c, &out->dtype, &out->n_dtype)) {
            return false;
        }
    } else if (n == 5 && memcmp(key, "shape", 5) == 0) {
        field = 2;
        if (!take_numbers(c, out->shape, VC_MAX_DIMS, &out->n_dims)) {
            return false;
        }
    } else if (n == 12 && memcmp(key, "data_offsets", 12) == 0) {
        size_t n_ends;

        field = 4;
        if (!take_numbers(c, out->ends, 2, &n_ends) || n_ends != 2) {
            return false;
        }
    } else {
        return false;
    }
    if ((*seen & field) != 0) {
        return false;
    }
    *seen |= field;
    vc_json_skip_space(c);
    return true;
}

bool vc_safetensors_plain_entry(const char *text, size_t n, size_t at, struct safetensors_plain_entry *out, size_t *end)
{
    struct vc_json_cursor c = {.text = text, .n = n, .at = at};
    unsigned seen = 0;

    if (!vc_json_take_member(&c, &out->name, &out->n_name) || !vc_json_take(&c, '{')) {
        return false;
    }
    for (unsigned i = 0; i < 3; i++) {
        if ((i != 0 && !vc_json_take(&c, ',')) || !take_field(&c, out, &seen)) {
            return false;
        }
    }
    return vc_json_take(&c, '}') && vc_json_end_member(&c, end);
}
