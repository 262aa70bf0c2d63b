/* fuzz_members.c - what lies behind a good zip directory: npy headers, deflate streams, the manifest and how it fits
 * the tensors. The input is a list of members, from which a valid archive is made, so that the fuzzer does not have to
 * guess CRCs, sizes and offsets:
 *
 *     u8 kind | u8 name | u8 extra | u16 n | n bytes        repeated, at most 12 members
 *     kind  0 the bytes are the member    1 the same, deflated    2 the bytes are a deflate stream of `extra` * 16 bytes
 *           3 a small array: dtype and shape are taken from `extra` and the first bytes, its data is zeros */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/checked.h"
#include "fuzz_target.h"
#include "zip_builder.h"

#define MAX_MEMBERS 12

static const char *const names[] = {"w.npy", "w.scale.npy", "w.zero_point.npy",  "h.npy",
                                    "v.npy", "v.scale.npy", "vcompress.json",    "note",
                                    "w",     "h.scale.npy", "vcompress.json.npy"};

/* dims: up to three digits 0..7 in base 8 from the first bytes. */
static struct bytes small_array(unsigned extra, const uint8_t *data, size_t n)
{
    static const char *const descrs[] = {"|i1", "<f4", "<u2", "<f2", "<f8", ">f4", "|V2", "|i1"};
    static const size_t sizes[] = {1, 4, 2, 2, 8, 4, 2, 1};
    unsigned n_dims = extra >> 3 & 3;
    size_t n_elems = 1;
    char shape[32] = "(";
    struct bytes zeros = {NULL, 0, 0};
    struct bytes b;
    unsigned d;

    for (d = 0; d < n_dims; d++) {
        unsigned dim = d < n ? data[d] & 7 : 1;

        n_elems *= dim;
        snprintf(shape + strlen(shape), 8, "%u, ", dim);
    }
    strcat(shape, ")");
    bytes_fill(&zeros, 0, n_elems * sizes[extra & 7]);
    b = npy_array(descrs[extra & 7], extra & 0x20, shape, zeros.p, zeros.n);
    bytes_release(&zeros);
    return b;
}

/* A stream that was not made by zlib: sizes as claimed, CRC of nothing in particular. */
static void add_stream(struct zip_builder *z, const char *name, unsigned extra, const uint8_t *data, size_t n)
{
    struct zip_member *m;

    zip_add(z, name, data, n, NULL);
    m = &z->members[z->n - 1];
    m->method = 8;
    m->size = (size_t)extra * 16;
    vc_put_le16(z->out.p + m->local + 8, 8);
    vc_put_le32(z->out.p + m->local + 22, (uint32_t)m->size);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static const struct member_options deflated = {.deflate = true, .level = 1};
    struct zip_builder z;
    size_t at = 0;

    memset(&z, 0, sizeof z);
    while (n - at >= 5 && z.n < MAX_MEMBERS) {
        unsigned kind = data[at] & 3;
        const char *name = names[data[at + 1] % (sizeof names / sizeof names[0])];
        unsigned extra = data[at + 2];
        size_t part = vc_le16(data + at + 3);

        at += 5;
        part = part < n - at ? part : n - at;
        if (kind == 3) {
            zip_add_bytes(&z, name, small_array(extra, data + at, part), extra & 0x40 ? &deflated : NULL);
        } else if (kind == 2) {
            add_stream(&z, name, extra, data + at, part);
        } else {
            zip_add(&z, name, data + at, part, kind == 1 ? &deflated : NULL);
        }
        at += part;
    }
    zip_finish(&z, ZIP_END_PLAIN, 0);
    fuzz_one(z.out.p, z.out.n, z.n & 1 ? VC_DTYPE_BF16 : VC_DTYPE_RAW);
    zip_release(&z);
    return 0;
}
