/* test_codec.c - CRC-32, inflate and deflate of every strategy. The judge is zlib: the same checksums, the same
 * bytes, the same verdict on damaged streams; in pieces, in too little room, and out of memory. */
#include <stdlib.h>
#include <zlib.h>

#include "formats/zip/codec.h"
#include "formats_test.h"

#define N_PLAIN   ((size_t)150000)
#define N_BY_BYTE ((size_t)40000) /* more than the window of 32 KiB */

static uint32_t seed = 1;

static uint32_t next_random(void)
{
    seed ^= seed << 13;
    seed ^= seed >> 17;
    seed ^= seed << 5;
    return seed;
}

enum kind { NOISE, ZEROS, SPARSE, TEXT, CODES, N_KINDS, WIDE = N_KINDS, HALF, PRUNED };

static unsigned char *plain_bytes(enum kind kind, size_t n)
{
    unsigned char *p = malloc(n + 1);
    bool kept = false;

    assert_non_null(p);
    for (size_t i = 0; i < n; i++) {
        uint32_t r = next_random();

        switch (kind) {
        case ZEROS:
            r = 0;
            break;
        case SPARSE:
            r = r % 8 != 0 ? 0 : r >> 8;
            break;
        case TEXT:
            r = (unsigned char)"the weights of a model "[i % 23];
            break;
        case CODES: /* a bell around 0, as int8 codes of weights have it */
            r = r % 16 + r / 16 % 16 + r / 256 % 16 - 24;
            break;
        case WIDE: /* the same, with the deviation that a row of normal weights gives */
            r = r % 64 + r / 64 % 64 + r / 4096 % 64 - 96;
            break;
        case HALF: /* pruned */
            r = r >> 31 != 0 ? 0 : r % 64 + r / 64 % 64 + r / 4096 % 64 - 96;
            break;
        case PRUNED: /* f32 weights, nine of ten zero: the upper bytes of the others repeat */
            kept = i % 4 == 0 ? r % 10 == 0 : kept;
            r = !kept ? 0 : i % 4 == 3 ? 0x3c + 0x80 * (r >> 31) : i % 4 == 2 ? 0x80 + r % 64 : r >> 8;
            break;
        case NOISE:
            break;
        }
        p[i] = (unsigned char)r;
    }
    return p;
}

/* ---- CRC ---- */

static void test_crc_is_zlibs(void **state)
{
    unsigned char *p = plain_bytes(NOISE, 5000);

    (void)state;
    assert_int_equal(vc_crc32(0, "123456789", 9), 0xCBF43926);
    assert_int_equal(vc_crc32(0, NULL, 0), 0);
    for (size_t n = 0; n < 700; n++) { /* several blocks of 128, and what is left behind them */
        for (size_t at = 0; at < 8; at++) {
            assert_int_equal(vc_crc32((uint32_t)n, p + at, n), (uint32_t)crc32(n, p + at, (uInt)n));
        }
    }
    assert_int_equal(vc_crc32(vc_crc32(0, p, 1234), p + 1234, 5000 - 1234), (uint32_t)crc32(0, p, 5000));
    free(p);
}

/* The fast part, also where the libraries are faster and do all of it: 16 bytes stand for the first ones. */
static void test_crc_of_folded(void **state)
{
    unsigned char *p = plain_bytes(NOISE, 5000);
    unsigned char folded[VC_CRC_FOLDED_BYTES];

    (void)state;
    for (size_t n = 0; n < 1500; n += 1 + n / 256) {
        size_t done = vc_crc32_fold((uint32_t)n, p + n % 8, n, folded);

        assert_true(done == 0 || (n >= 256 && done == n / 128 * 128));
        if (done != 0) {
            assert_int_equal(crc32(0xffffffff, folded, sizeof folded), (uint32_t)crc32(n, p + n % 8, (uInt)done));
        }
    }
    free(p);
}

static void test_crc_of_pieces_in_any_order(void **state)
{
    unsigned char *p = plain_bytes(NOISE, N_PLAIN);
    uint32_t whole = vc_crc32(0, p, N_PLAIN);
    uint32_t sum = 0;

    (void)state;
    for (size_t at = 0, n; at < N_PLAIN; at += n) {
        n = 1 + next_random() % 20000;
        n = n < N_PLAIN - at ? n : N_PLAIN - at;
        sum ^= vc_crc32_place(vc_crc32(0, p + at, n), N_PLAIN - at - n);
    }
    assert_int_equal(sum, whole);
    /* Far beyond 4 GiB: moving in two steps is moving at once. */
    assert_int_equal(vc_crc32_place(vc_crc32_place(whole, (uint64_t)7 << 32), 12345),
                     vc_crc32_place(whole, ((uint64_t)7 << 32) + 12345));
    assert_int_equal(vc_crc32_place(0, 99), 0);
    free(p);
}

/* ---- inflate ---- */

struct feed {
    const unsigned char *data;
    size_t n, at, step;
};

static enum vc_status feed_next(struct vc_ctx *ctx, void *user, const unsigned char **data, size_t *n)
{
    struct feed *feed = user;

    (void)ctx;
    *n = feed->n - feed->at < feed->step ? feed->n - feed->at : feed->step;
    *data = feed->data + feed->at;
    feed->at += *n;
    return VC_OK;
}

/* Inflates exactly n bytes in reads of `read`, then the end; *n_left gets the input that was not needed. */
static enum vc_status inflate_all(struct vc_ctx *ctx, struct feed feed, unsigned char *dst, size_t n, size_t read,
                                  size_t *n_left)
{
    struct vc_inflate *inflate = NULL;
    enum vc_status status;

    VC_TRY(vc_inflate_open(ctx, feed_next, &feed, &inflate));
    for (size_t at = 0; at < n; at += read) {
        VC_TRY(vc_inflate_read(ctx, inflate, dst + at, read < n - at ? read : n - at));
    }
    VC_TRY(vc_inflate_end(ctx, inflate, n_left));
    *n_left += feed.n - feed.at;
out:
    vc_inflate_close(ctx, inflate);
    return status;
}

static size_t deflate_with_zlib(const unsigned char *src, size_t n, int level, int strategy, unsigned char **out)
{
    z_stream z = {0};
    size_t capacity = n + n / 4 + 1000;

    *out = malloc(capacity);
    assert_non_null(*out);
    assert_int_equal(deflateInit2(&z, level, Z_DEFLATED, -15, 8, strategy), Z_OK);
    memcpy(&z.next_in, &src, sizeof src);
    z.avail_in = (uInt)n;
    z.next_out = *out;
    z.avail_out = (uInt)capacity - 64;
    assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
    n = z.total_out;
    deflateEnd(&z);
    memset(*out + n, 0xa5, 64); /* what lies behind the stream */
    return n;
}

static void test_inflate_is_zlibs(void **state)
{
    static const size_t steps[] = {1, 7, 4096, SIZE_MAX};
    struct vc_ctx *ctx = test_ctx();
    unsigned char *back = malloc(N_PLAIN);

    (void)state;
    for (int kind = 0; kind < N_KINDS; kind++) {
        unsigned char *p = plain_bytes((enum kind)kind, N_PLAIN);

        for (int level = 0; level < 10; level += 3) {
            for (size_t s = 0; s < sizeof steps / sizeof steps[0]; s++) {
                /* Byte by byte, which takes long, the end is met alike, whatever is behind it: once is enough. */
                size_t n_plain = s == 0 ? N_BY_BYTE : N_PLAIN;
                unsigned char *packed;
                size_t n;

                if (!TEST_TURN(4 * (size_t)(kind + level / 3) + s, 4)) {
                    continue;
                }
                n = deflate_with_zlib(p, n_plain, level, level == 9 ? Z_FIXED : Z_DEFAULT_STRATEGY, &packed);

                for (size_t behind = s == 0 ? 64 : 0; behind <= 64; behind += 32) {
                    struct feed feed = {packed, n + behind, 0, steps[s]};
                    size_t left = 99;

                    memset(back, 0xee, n_plain);
                    assert_int_equal(inflate_all(ctx, feed, back, n_plain, 1 + 1000 * (s + 1), &left), VC_OK);
                    assert_memory_equal(back, p, n_plain);
                    assert_int_equal(left, behind);
                }
                free(packed);
            }
        }
        free(p);
    }
    free(back);
    test_ctx_done(ctx);
}

static void test_inflate_refuses(void **state)
{
    struct vc_ctx *ctx = test_ctx();
    unsigned char *p = plain_bytes(CODES, N_PLAIN);
    unsigned char *back = malloc(N_PLAIN + 1);
    unsigned char *packed;
    size_t n = deflate_with_zlib(p, N_PLAIN, 6, Z_DEFAULT_STRATEGY, &packed);
    size_t left;

    (void)state;
    /* The end is exact: one byte more or less is wrong. */
    assert_int_equal(inflate_all(ctx, (struct feed){packed, n, 0, 5000}, back, N_PLAIN - 1, 4096, &left), VC_E_FORMAT);
    assert_non_null(strstr(vc_ctx_message(ctx), "more bytes"));
    assert_int_equal(inflate_all(ctx, (struct feed){packed, n, 0, 5000}, back, N_PLAIN + 1, 4096, &left), VC_E_FORMAT);
    assert_non_null(strstr(vc_ctx_message(ctx), "too early"));
    /* Cut anywhere. */
    for (size_t cut = 0; cut < n; cut += cut < 600 ? 1 : 997) {
        assert_int_equal(inflate_all(ctx, (struct feed){packed, cut, 0, 5000}, back, N_PLAIN, 4096, &left),
                         VC_E_FORMAT);
    }
    /* A zlib header is not raw DEFLATE. */
    {
        uLongf m = compressBound(1000);
        unsigned char *z = malloc(m);

        assert_int_equal(compress(z, &m, p, 1000), Z_OK);
        assert_int_equal(inflate_all(ctx, (struct feed){z, m, 0, 5000}, back, 1000, 4096, &left), VC_E_FORMAT);
        free(z);
    }
    free(packed);
    free(back);
    free(p);
    test_ctx_done(ctx);
}

/* Flipped bits: no crash, and never other bytes than zlib gives for the same stream. */
static void test_inflate_of_damaged_streams(void **state)
{
    struct vc_ctx *ctx = test_ctx();
    unsigned char a[2000], b[2000];

    (void)state;
    for (int round = 0; round < 3000; round++) {
        unsigned char *p = plain_bytes((enum kind)(round % N_KINDS), sizeof a);
        unsigned char *packed;
        size_t n = deflate_with_zlib(p, sizeof a, 1 + round % 9, round % 4, &packed);
        z_stream z = {.next_in = packed, .avail_in = (uInt)n, .next_out = b, .avail_out = sizeof b};
        size_t left;
        int rc;

        packed[next_random() % n] ^= (unsigned char)(1u << next_random() % 8);
        assert_int_equal(inflateInit2(&z, -15), Z_OK);
        rc = inflate(&z, Z_FINISH);
        if (inflate_all(ctx, (struct feed){packed, n, 0, 1 + next_random() % 50}, a, sizeof a, 333, &left) == VC_OK) {
            if (rc == Z_STREAM_END && z.avail_out == 0) {
                assert_memory_equal(a, b, sizeof a);
            }
        } else {
            assert_false(rc == Z_STREAM_END && z.avail_out == 0);
            assert_int_equal(ctx->status, VC_E_FORMAT);
            vc_clear_error(ctx);
        }
        inflateEnd(&z);
        free(packed);
        free(p);
    }
    test_ctx_done(ctx);
}

static void test_inflate_without_memory(void **state)
{
    struct vc_ctx *ctx = test_ctx();
    unsigned char *p = plain_bytes(CODES, 5000);
    unsigned char *packed;
    unsigned char back[5000];
    size_t n = deflate_with_zlib(p, 5000, 6, Z_DEFAULT_STRATEGY, &packed);
    enum vc_status status = VC_E_NOMEM;
    size_t left;

    (void)state;
    for (uint64_t nth = 1; status != VC_OK; nth++) {
        vc_pool_fail_at(ctx->shared->pool, nth, 0);
        status = inflate_all(ctx, (struct feed){packed, n, 0, 100}, back, 5000, 5000, &left);
        vc_pool_fail_at(ctx->shared->pool, 0, 0);
        assert_true(status == VC_OK ? nth > 1 : status == VC_E_NOMEM);
        assert_int_equal(vc_pool_in_use(ctx->shared->pool), 0);
    }
    free(packed);
    free(p);
    test_ctx_done(ctx);
}

/* ---- deflate ---- */

/* Pieces compressed apart and joined are one stream with the bytes of the whole. */
static void check_pieces(struct vc_ctx *ctx, enum vc_strategy strategy, const unsigned char *p, size_t n, size_t piece)
{
    unsigned char *packed = malloc(2 * n + 1000 * (n / piece + 2));
    unsigned char *back = malloc(n + 1);
    void *work = vc_alloc(ctx, VC_TAG_IO, vc_deflate_work_bytes());
    size_t at = 0;
    size_t out = 0;
    size_t left;

    do {
        size_t m = piece < n - at ? piece : n - at;
        size_t n_out = 0;

        assert_int_equal(
            vc_deflate_piece(ctx, strategy, at + m == n, p + at, m, work, packed + out, vc_deflate_bound(m), &n_out),
            VC_OK);
        assert_true(n_out > 0 && n_out < vc_deflate_bound(m));
        out += n_out;
        at += m;
    } while (at < n);
    assert_int_equal(inflate_all(ctx, (struct feed){packed, out, 0, 10000}, back, n, 100000, &left), VC_OK);
    assert_int_equal(left, 0);
    assert_memory_equal(back, p, n);
    vc_free(ctx, work);
    free(back);
    free(packed);
}

static void test_deflate_in_pieces(void **state)
{
    static const size_t sizes[] = {0, 1, 2, 100, 65535, 65536, N_PLAIN};
    static const size_t pieces[] = {7000, 65536, N_PLAIN};
    struct vc_ctx *ctx = test_ctx();

    (void)state;
    for (int kind = 0; kind < N_KINDS; kind++) {
        unsigned char *p = plain_bytes((enum kind)kind, N_PLAIN);

        for (int s = 0; s <= (vc_codec_has_isal() ? VC_STRATEGY_ISAL : VC_STRATEGY_ZEROS); s++) {
            for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
                for (size_t k = 0; k < sizeof pieces / sizeof pieces[0]; k++) {
                    if (TEST_TURN(3 * i + k, 3)) {
                        check_pieces(ctx, (enum vc_strategy)s, p, sizes[i], pieces[k]);
                    }
                }
            }
        }
        free(p);
    }
    test_ctx_done(ctx);
}

/* The same bytes from the same values, wherever the working memory lies and whatever is in it. Short repeats of four
 * bytes, because there a single missed match shows; addresses apart by 64 KiB, because ISA-L hashes what is above these
 * bits: one place in 128 to 256 gave another match. */
#define N_PLACES    ((size_t)64)
#define PLACES_STEP ((size_t)64 << 10)

static void check_places(struct vc_ctx *ctx, enum vc_strategy strategy, const unsigned char *p, size_t n,
                         unsigned char *places)
{
    unsigned char first[2][200];
    size_t n_first[2] = {0, 0};

    for (size_t place = 0; place < N_PLACES; place++) {
        unsigned char *work = places + place * PLACES_STEP;
        size_t last = place % 2;
        unsigned char got[200];
        size_t n_got = 0;

        memset(work, (int)(place * 5), vc_deflate_work_bytes());
        assert_int_equal(vc_deflate_piece(ctx, strategy, last != 0, p, n, work, got, sizeof got, &n_got), VC_OK);
        if (place < 2) {
            memcpy(first[last], got, n_got);
            n_first[last] = n_got;
        }
        assert_int_equal(n_got, n_first[last]);
        assert_memory_equal(got, first[last], n_got);
    }
}

static void test_deflate_anywhere(void **state)
{
    size_t room = vc_deflate_work_bytes() + N_PLACES * PLACES_STEP;
    unsigned char *places = aligned_alloc(PLACES_STEP, (room + PLACES_STEP - 1) / PLACES_STEP * PLACES_STEP);
    struct vc_ctx *ctx = test_ctx();

    (void)state;
    assert_non_null(places);
    for (int s = 0; s <= (vc_codec_has_isal() ? VC_STRATEGY_ISAL : VC_STRATEGY_ZEROS); s++) {
        for (unsigned value = 0; value < (s == VC_STRATEGY_ISAL ? 24U : 2U); value++) {
            unsigned char p[100];

            for (size_t i = 0; i < sizeof p; i++) {
                p[i] = (unsigned char)(value * 37 + (value + 1) * (0x3d010204U >> 8 * (i % 4) & 0xff));
            }
            check_places(ctx, (enum vc_strategy)s, p, 12 + 4 * value < sizeof p ? 12 + 4 * value : sizeof p, places);
        }
    }
    free(places);
    test_ctx_done(ctx);
}

static void test_deflate_into_too_little_room(void **state)
{
    struct vc_ctx *ctx = test_ctx();
    unsigned char *p = plain_bytes(NOISE, 10000);
    unsigned char dst[9000];
    void *work = vc_alloc(ctx, VC_TAG_IO, vc_deflate_work_bytes());
    size_t n;

    (void)state;
    for (int s = 0; s <= (vc_codec_has_isal() ? VC_STRATEGY_ISAL : VC_STRATEGY_ZEROS); s++) {
        assert_int_equal(vc_deflate_piece(ctx, (enum vc_strategy)s, true, p, 10000, work, dst, sizeof dst, &n),
                         VC_E_INTERNAL);
        assert_int_equal(vc_deflate_piece(ctx, (enum vc_strategy)s, false, p, 10000, work, dst, sizeof dst, &n),
                         VC_E_INTERNAL);
    }
    vc_free(ctx, work);
    free(p);
    test_ctx_done(ctx);
}

static void test_choice_of_strategy(void **state)
{
    static const struct {
        enum kind kind;
        enum vc_strategy zlib, any; /* among zlib's; with ISA-L among them */
    } cases[] = {{NOISE, VC_STRATEGY_HUFFMAN, VC_STRATEGY_ISAL},   {WIDE, VC_STRATEGY_HUFFMAN, VC_STRATEGY_ISAL},
                 {HALF, VC_STRATEGY_HUFFMAN, VC_STRATEGY_HUFFMAN}, {ZEROS, VC_STRATEGY_RLE, VC_STRATEGY_RLE},
                 {SPARSE, VC_STRATEGY_RLE, VC_STRATEGY_RLE},       {TEXT, VC_STRATEGY_LEVEL, VC_STRATEGY_LEVEL},
                 {PRUNED, VC_STRATEGY_ZEROS, VC_STRATEGY_ZEROS}};
    struct vc_ctx *ctx = test_ctx();
    void *work = vc_alloc(ctx, VC_TAG_IO, vc_deflate_work_bytes());
    void *scratch = malloc(vc_deflate_bound(VC_SAMPLE_BYTES));

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        unsigned char *p = plain_bytes(cases[i].kind, VC_SAMPLE_BYTES + 999);
        enum vc_strategy strategy = VC_STRATEGY_ISAL;

        assert_int_equal(vc_deflate_choose(ctx, p, VC_SAMPLE_BYTES + 999, false, work, scratch, &strategy), VC_OK);
        assert_int_equal(strategy, cases[i].zlib);
        assert_int_equal(vc_deflate_choose(ctx, p, VC_SAMPLE_BYTES + 999, true, work, scratch, &strategy), VC_OK);
        assert_int_equal(strategy, vc_codec_has_isal() ? cases[i].any : cases[i].zlib);
        assert_int_equal(vc_deflate_choose(ctx, p, 0, true, work, scratch, &strategy), VC_OK);
        free(p);
    }
    free(scratch);
    vc_free(ctx, work);
    test_ctx_done(ctx);
}

static void test_description(void **state)
{
    (void)state;
    assert_non_null(strstr(vc_codec_describe(), "zlib"));
    assert_int_equal(strstr(vc_codec_describe(), "ISA-L") != NULL, vc_codec_has_isal());
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_crc_is_zlibs),
                                       cmocka_unit_test(test_crc_of_folded),
                                       cmocka_unit_test(test_crc_of_pieces_in_any_order),
                                       cmocka_unit_test(test_inflate_is_zlibs),
                                       cmocka_unit_test(test_inflate_refuses),
                                       cmocka_unit_test(test_inflate_of_damaged_streams),
                                       cmocka_unit_test(test_inflate_without_memory),
                                       cmocka_unit_test(test_deflate_in_pieces),
                                       cmocka_unit_test(test_deflate_anywhere),
                                       cmocka_unit_test(test_deflate_into_too_little_room),
                                       cmocka_unit_test(test_choice_of_strategy),
                                       cmocka_unit_test(test_description)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
