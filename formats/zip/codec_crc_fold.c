/* codec_crc_fold.c - the bulk of a CRC-32 with 256-bit carry-less multiplication (AVX2 and VPCLMULQDQ), which the
 * libraries of most distributions leave to processors with AVX-512.
 *
 * Carry-less products move a piece of the message forward: 128 bits that stand D bits before others can be replaced by
 * the sum of two products with x^(D + 32) and x^(D - 32) modulo the polynomial (bit-reflected, one bit up), added to
 * those others. Four registers fold the message onto its last 128 bytes, those fold onto the last 16, and these have
 * the CRC of the whole. */
#include "formats/zip/codec.h"

#define BLOCK_BYTES 128

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>

static bool has_instructions(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("vpclmulqdq");
}

bool vc_crc32_fold_pays(void)
{
#if VC_HAVE_ISAL || VC_HAVE_LIBDEFLATE
    return has_instructions() && !__builtin_cpu_supports("avx512vl"); /* with which the libraries are faster still */
#else
    return has_instructions();
#endif
}

/* n_blocks of 128 bytes become 16 with the same CRC. reg: the CRC's register before them. */
VC_TARGET("avx2,pclmul,vpclmulqdq")
static void fold(uint32_t reg, const unsigned char *p, size_t n_blocks, unsigned char folded[VC_CRC_FOLDED_BYTES])
{
    const __m256i by_1024 = _mm256_setr_epi64x(0x1e88ef372, 0x14a7fe880, 0x1e88ef372, 0x14a7fe880);
    const __m128i by_128 = _mm_set_epi64x(0x0ccaa009e, 0x1751997d0);
    __m256i x[4];

    for (size_t k = 0; k < 4; k++) {
        x[k] = _mm256_loadu_si256((const __m256i *)(p + 32 * k));
    }
    x[0] = _mm256_xor_si256(x[0], _mm256_setr_epi32((int)reg, 0, 0, 0, 0, 0, 0, 0));
    for (size_t i = 1; i < n_blocks; i++) {
        p += BLOCK_BYTES;
        for (size_t k = 0; k < 4; k++) {
            __m256i low = _mm256_clmulepi64_epi128(x[k], by_1024, 0x00);
            __m256i high = _mm256_clmulepi64_epi128(x[k], by_1024, 0x11);

            x[k] = _mm256_xor_si256(low, _mm256_loadu_si256((const __m256i *)(p + 32 * k)));
            x[k] = _mm256_xor_si256(x[k], high);
        }
    }
    __m128i sum = _mm256_castsi256_si128(x[0]);
    for (size_t k = 1; k < 8; k++) {
        __m128i next = k % 2 == 1 ? _mm256_extracti128_si256(x[k / 2], 1) : _mm256_castsi256_si128(x[k / 2]);

        next = _mm_xor_si128(next, _mm_clmulepi64_si128(sum, by_128, 0x00));
        sum = _mm_xor_si128(next, _mm_clmulepi64_si128(sum, by_128, 0x11));
    }
    _mm_storeu_si128((__m128i *)folded, sum);
}
#else
static bool has_instructions(void)
{
    return false;
}

bool vc_crc32_fold_pays(void)
{
    return false;
}

static void fold(uint32_t reg, const unsigned char *p, size_t n_blocks, unsigned char folded[VC_CRC_FOLDED_BYTES])
{
}
#endif

/* Below two blocks there is nothing to fold. CRCs are kept inverted between calls, so the register is ~crc. */
size_t vc_crc32_fold(uint32_t crc, const void *data, size_t n, unsigned char folded[VC_CRC_FOLDED_BYTES])
{
    size_t n_blocks = n / BLOCK_BYTES;

    if (n_blocks < 2 || !has_instructions()) {
        return 0;
    }
    fold(~crc, data, n_blocks, folded);
    return n_blocks * BLOCK_BYTES;
}
