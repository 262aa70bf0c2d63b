/* codec.h - CRC-32 and raw DEFLATE behind one face: zlib always, ISA-L and libdeflate where they were found.
 *
 * Checksums and inflated bytes are the same whichever library does the work. Deflated bytes are not, so zlib is the
 * default encoder and ISA-L is used only on request. */
#pragma once

#include <vcompress/job.h>

#include "core/base/ctx.h"

/* CRC-32 of zip; start with 0. */
uint32_t vc_crc32(uint32_t crc, const void *data, size_t n);

/* Its fast part: the first bytes of data (returns how many; 0 where this processor lacks the instructions, or n is
 * small) are replaced by 16 whose CRC, started with 0xffffffff, is that of those bytes started with crc. */
#define VC_CRC_FOLDED_BYTES 16
bool vc_crc32_fold_pays(void); /* it has them, and no library is faster here */
size_t vc_crc32_fold(uint32_t crc, const void *data, size_t n, unsigned char folded[VC_CRC_FOLDED_BYTES]);

/* What the CRC of a piece contributes to the CRC of the whole when n_after bytes follow it: the CRC of the whole is the
 * XOR of the contributions of its pieces, in any order. Thread-safe. */
uint32_t vc_crc32_place(uint32_t piece_crc, uint64_t n_after);

/* Inflate: pulls compressed bytes through `fill` and gives plain bytes, front to back. fill sets *n to 0 at the end of
 * its bytes; what it gave stays valid until its next call. */
struct vc_inflate;
typedef enum vc_status vc_inflate_fill_fn(struct vc_ctx *ctx, void *user, const unsigned char **data, size_t *n);

enum vc_status vc_inflate_open(struct vc_ctx *ctx, vc_inflate_fill_fn *fill, void *user, struct vc_inflate **out);
/* Exactly n bytes, or VC_E_FORMAT (damaged stream, or it ends early). */
enum vc_status vc_inflate_read(struct vc_ctx *ctx, struct vc_inflate *inflate, void *dst, size_t n);
/* Nothing but the end of the stream may follow; *n_unused: compressed bytes given by fill that it did not need. */
enum vc_status vc_inflate_end(struct vc_ctx *ctx, struct vc_inflate *inflate, size_t *n_unused);
void vc_inflate_close(struct vc_ctx *ctx, struct vc_inflate *inflate);
size_t vc_inflate_bytes(void); /* memory one takes, about */

/* Deflate in independent pieces that concatenate to one stream: every piece but the last ends with a sync flush. All
 * memory is the caller's: `work` has room for vc_deflate_work_bytes() and is aligned to VC_POOL_ALIGN. */
enum vc_strategy { VC_STRATEGY_HUFFMAN, VC_STRATEGY_RLE, VC_STRATEGY_LEVEL, VC_STRATEGY_ZEROS, VC_STRATEGY_ISAL };

size_t vc_deflate_bound(size_t n);
size_t vc_deflate_work_bytes(void);
enum vc_status vc_deflate_piece(struct vc_ctx *ctx, enum vc_strategy strategy, bool last, const void *src, size_t n,
                                void *work, void *dst, size_t capacity, size_t *n_out);
/* Tries the zlib strategies on a sample (cut to 64 KiB) and names the one with the smallest result; on a tie within
 * half a percent (or 4 bytes) the faster one. `isal`: ISA-L is tried as well, and taken where it is there and its
 * result is within a percent (or 4 bytes) of the smallest. Deterministic for one zlib (and one ISA-L). `scratch` has
 * room for vc_deflate_bound(VC_SAMPLE_BYTES), or of n where that is less. */
#define VC_SAMPLE_BYTES ((size_t)64 << 10)
enum vc_status vc_deflate_choose(struct vc_ctx *ctx, const void *sample, size_t n, bool isal, void *work, void *scratch,
                                 enum vc_strategy *out);

bool vc_codec_has_isal(void);
const char *vc_codec_describe(void); /* "zlib 1.2.13, ISA-L 2.30, libdeflate 1.14" */
