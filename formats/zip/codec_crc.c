/* codec_crc.c - CRC-32 by the fastest means at hand, and the names of the libraries in use.
 *
 * All of them compute the same sum (polynomial 0x04C11DB7, reflected), the one of zip and zlib. Measured on Zen 3,
 * which has 256-bit carry-less multiplication but no AVX-512: codec_crc_fold.c 23 GB/s, libdeflate from 1.20 on 22,
 * ISA-L 2.30 and older libdeflate 12, zlib 3. */
#include <zlib.h>

#include "formats/zip/codec.h"

#if VC_HAVE_ISAL
#include <isa-l.h>
#endif
#if VC_HAVE_LIBDEFLATE
#include <libdeflate.h>
#endif

/* zlib keeps lengths in z_off_t; CRCs of longer runs are moved in steps of this. */
#define VC_PLACE_STEP ((uint64_t)1 << 30)

/* The fastest that the libraries at hand have. */
static uint32_t library_crc(uint32_t crc, const void *data, size_t n)
{
#if VC_HAVE_ISAL
    return crc32_gzip_refl(crc, data, n);
#elif VC_HAVE_LIBDEFLATE
    return libdeflate_crc32(crc, data, n);
#else
    return (uint32_t)crc32_z(crc, data, n);
#endif
}

/* The fast loop takes what it can and leaves 16 bytes that stand for it; the library does the rest. */
uint32_t vc_crc32(uint32_t crc, const void *data, size_t n)
{
    unsigned char folded[VC_CRC_FOLDED_BYTES];
    size_t done = vc_crc32_fold_pays() ? vc_crc32_fold(crc, data, n, folded) : 0;

    if (done != 0) {
        crc = library_crc(0xffffffffu, folded, sizeof folded);
    }
    return done == n ? crc : library_crc(crc, (const char *)data + done, n - done);
}

/* Appending zero bytes to a message is linear in its CRC (without the inversions at both ends), so the CRC of a whole
 * is the XOR of its pieces' CRCs, each moved past the bytes that follow it. About half a microsecond a call. */
uint32_t vc_crc32_place(uint32_t piece_crc, uint64_t n_after)
{
    uLong crc = piece_crc;

    if (sizeof(z_off_t) < 8) {
        while (n_after > VC_PLACE_STEP) {
            crc = crc32_combine(crc, 0, (z_off_t)VC_PLACE_STEP);
            n_after -= VC_PLACE_STEP;
        }
    }
    return (uint32_t)crc32_combine(crc, 0, (z_off_t)n_after);
}

bool vc_codec_has_isal(void)
{
#if VC_HAVE_ISAL
    return true;
#else
    return false;
#endif
}

#define VC_TEXT_OF(x) VC_TEXT(x)
#define VC_TEXT(x)    #x

const char *vc_codec_describe(void)
{
    return "zlib " ZLIB_VERSION
#if VC_HAVE_ISAL
           ", ISA-L " VC_TEXT_OF(ISAL_MAJOR_VERSION) "." VC_TEXT_OF(ISAL_MINOR_VERSION)
#endif
#if VC_HAVE_LIBDEFLATE
               ", libdeflate " LIBDEFLATE_VERSION_STRING
#endif
        ;
}
