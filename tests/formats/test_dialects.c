/* test_dialects.c - the table of dialects: what each row refuses, leaves out and stores, and how its codes are packed.
 * The files that come of it are test_layouts.c's. */
#include "formats_test.h"

#include <stdlib.h>

#include "core/base/checked.h"
#include "formats/dialects/dialects.h"
#include "kernels/grid_codes.h"

/* ---- packing ---- */

enum { N_ROWS = 4, MOST_ROW = 41, MOST = N_ROWS * 44 };

/* The definition, one bit at a time: the top bit of each code of p->turned bits changes. Returns the bytes of all rows.
 */
static size_t pack_all(const struct vc_packed *p, const unsigned char *codes, unsigned char *packed)
{
    size_t n_row = (size_t)((p->row + 3) / 4 * 4);
    uint64_t r, bit;

    memset(packed, 0, MOST);
    for (r = 0; r < N_ROWS; r++) {
        for (bit = 0; bit < 8 * p->row; bit++) {
            unsigned stored = codes[r * p->row + bit / 8] >> bit % 8 & 1u;

            stored ^= p->turned != 0 && bit % p->turned == p->turned - 1;
            packed[r * n_row + bit / 8] |= (unsigned char)(stored << bit % 8);
        }
    }
    return N_ROWS * n_row;
}

/* Any range is packed to the bytes of its place, and to no more, and unpacked again. */
static void check_range(const struct vc_packed *p, const unsigned char *codes, const unsigned char *want, uint64_t from,
                        uint64_t to)
{
    size_t n = (size_t)(to - from);
    struct vc_packed_place place = p->packing->place(p, from, n);
    unsigned char got[MOST + 8];
    unsigned char back[N_ROWS * MOST_ROW + 1];

    assert_int_equal(place.n_runs, 1);
    memset(back, 0xee, sizeof back);
    p->packing->unpack(p, from, n, want + place.offset, back);
    assert_memory_equal(back, codes + from, n);
    assert_int_equal(back[n], 0xee);
    memset(got, 0xee, sizeof got);
    p->packing->pack(p, from, codes + from, n, got);
    assert_memory_equal(got, want + place.offset, place.run_bytes);
    assert_int_equal(got[place.run_bytes], 0xee);
    assert_true(place.run_bytes <= p->packing->bound(p, n));
}

static void check_rows(struct vc_packed p)
{
    unsigned char codes[N_ROWS * MOST_ROW];
    unsigned char want[MOST];
    uint64_t n_codes = N_ROWS * p.row;
    uint64_t n_bytes = 0;
    uint64_t from, to;
    size_t i;

    for (i = 0; i < n_codes; i++) {
        codes[i] = (unsigned char)(i * 37 + 5);
    }
    assert_true(p.packing->size(&p, &n_bytes));
    assert_int_equal(n_bytes, pack_all(&p, codes, want));
    for (from = 0; from < n_codes; from++) {
        for (to = from + 1; to <= n_codes; to++) {
            check_range(&p, codes, want, from, to);
        }
    }
}

/* Rows and columns of units change places: tiles are packed to where they belong, any range is taken out again. */
static void check_columns(unsigned unit)
{
    enum { ROWS = 3, COLUMNS = 5 };
    const size_t row = (size_t)COLUMNS * unit;
    const size_t all = ROWS * row;
    const struct vc_packed p = {
        .packing = &vc_packing_columns, .bits = 8, .n_rows = ROWS, .row = row, .unit = unit, .turned = 4};
    unsigned char codes[ROWS * COLUMNS * 4];
    unsigned char file[ROWS * COLUMNS * 4] = {0};
    unsigned char runs[ROWS * COLUMNS * 4];
    unsigned char back[ROWS * COLUMNS * 4];
    uint64_t size;
    size_t from;
    size_t n;
    size_t k;

    for (k = 0; k < all; k++) {
        codes[k] = (unsigned char)(200 + k);
        file[(k % row / unit * ROWS + k / row) * unit + k % unit] = codes[k] ^ 0x88;
    }
    assert_true(p.packing->size(&p, &size));
    assert_int_equal(size, all);
    for (from = 0; from < all; from++) {
        for (n = 1; n <= all - from; n++) {
            struct vc_packed_place place = p.packing->place(&p, from, n);
            bool whole = from % row == 0 && n % row == 0;
            bool piece = from / row == (from + n - 1) / row && from % unit == 0 && n % unit == 0;
            bool tile = whole || piece;

            for (k = 0; k < place.n_runs; k++) {
                memcpy(runs + k * place.run_bytes, file + place.offset + k * place.stride, place.run_bytes);
            }
            p.packing->unpack(&p, from, n, runs, back);
            assert_memory_equal(back, codes + from, n);
            if (tile) {
                p.packing->pack(&p, from, codes + from, n, back);
                assert_memory_equal(back, runs, n);
                assert_int_equal(place.n_runs * place.run_bytes, n);
                assert_true(p.packing->bound(&p, n) >= n);
            }
        }
    }
}

static void test_columns(void **state)
{
    (void)state;
    check_columns(1);
    check_columns(2);
    check_columns(4);
}

/* The bit where the code of row n and column k begins, by the words of the formats. */
static uint64_t across_at(const struct vc_packed *p, uint64_t n_columns, uint64_t n, uint64_t k)
{
    static const unsigned awq[8] = {0, 2, 4, 6, 1, 3, 5, 7}; /* code i of a word belongs to row awq[i] */
    uint64_t bit = n * p->bits;
    unsigned i = 0;

    switch (p->across) {
    case VC_ACROSS_ROWS:
        return (k * p->n_rows + n) * p->bits;
    case VC_ACROSS_AWQ:
        while (awq[i] != n % 8) {
            i++;
        }
        return (k * p->n_rows + n / 8 * 8 + i) * p->bits;
    case VC_ACROSS_WORDS:
        break;
    }
    return (bit / 32 * n_columns + k) * 32 + bit % 32;
}

/* Any range of the codes comes out of the runs that the packing names. */
static void check_reading(const struct vc_packed *p, const unsigned char *file, const unsigned char *codes, size_t all)
{
    unsigned char runs[512];
    unsigned char back[256];

    for (size_t from = 0; from < all; from++) {
        for (size_t to = from + 1; to <= all; to++) {
            struct vc_packed_place place = p->packing->place(p, from, to - from);

            assert_true(place.n_runs * place.run_bytes <= sizeof runs);
            for (size_t k = 0; k < place.n_runs; k++) {
                memcpy(runs + k * place.run_bytes, file + place.offset + k * place.stride, place.run_bytes);
            }
            memset(back, 0xee, sizeof back);
            p->packing->unpack(p, from, to - from, runs, back);
            assert_memory_equal(back, codes + from, to - from);
        }
    }
}

/* Any range of codes of several rows to a word comes out of the runs that the packing names. */
static void check_across(enum vc_across across, unsigned bits, bool pairs, uint64_t n_rows)
{
    enum { ROW = 3 };
    const struct vc_packed p = {.packing = &vc_packing_across,
                                .bits = bits,
                                .turned = 4,
                                .n_rows = n_rows,
                                .row = ROW,
                                .across = across,
                                .job_bits = pairs ? 4 : 0,
                                .add = -5};
    const size_t all = (size_t)n_rows * ROW;
    uint64_t n_columns = ROW * (pairs ? 2 : 1);
    unsigned char file[256] = {0};
    unsigned char whole[256] = {0};
    unsigned char codes[256] = {0};
    uint64_t n_bytes;
    size_t from, k;

    for (k = 0; k < n_rows * n_columns; k++) {
        unsigned code = (unsigned)(k * 37 + 11) % (1u << bits);
        uint64_t at = across_at(&p, n_columns, k / n_columns, k % n_columns);

        for (unsigned i = 0; i < bits; i++, at++) {
            bool next = across == VC_ACROSS_WORDS && i != 0 && at % 32 == 0;

            at += next ? 32 * (n_columns - 1) : 0; /* the next word of the column */
            file[at / 8] = (unsigned char)(file[at / 8] | (code >> i & 1u) << at % 8);
        }
        if (pairs) {
            codes[k / 2] = (unsigned char)(codes[k / 2] | (code ^ 8u) << (k % 2 * 4));
        } else {
            codes[k] = (unsigned char)((int)code - 5);
        }
    }
    for (from = 0; across == VC_ACROSS_WORDS && from < all; from += 7) { /* pieces join in words that begin as zeros */
        p.packing->pack(&p, from, codes + from, all - from < 7 ? all - from : 7, whole);
    }
    assert_true(across != VC_ACROSS_WORDS ||
                (p.packing->size(&p, &n_bytes) && n_bytes <= sizeof whole && memcmp(whole, file, sizeof whole) == 0));
    check_reading(&p, file, codes, all);
}

static void test_across(void **state)
{
    (void)state;
    check_across(VC_ACROSS_AWQ, 4, true, 16);
    check_across(VC_ACROSS_AWQ, 4, false, 24);
    check_across(VC_ACROSS_ROWS, 4, false, 16);
    check_across(VC_ACROSS_ROWS, 8, false, 12);
    check_across(VC_ACROSS_ROWS, 3, false, 32);
    check_across(VC_ACROSS_ROWS, 2, false, 16);
    check_across(VC_ACROSS_WORDS, 4, false, 19);
    check_across(VC_ACROSS_WORDS, 8, false, 10);
    check_across(VC_ACROSS_WORDS, 3, false, 45);
}

/* Layer i of a word has the codes from i * n_words on. */
static void check_layers(unsigned bits, unsigned job_bits, unsigned unit, bool low_first, uint64_t n_words, uint64_t n)
{
    const struct vc_packed p = {.packing = &vc_packing_layers,
                                .bits = bits,
                                .job_bits = job_bits,
                                .unit = unit,
                                .low_first = low_first,
                                .n_words = n_words};
    unsigned per = unit * 8 / bits;
    unsigned char file[256] = {0};
    unsigned char codes[256] = {0};
    uint64_t n_bytes;

    for (uint64_t k = 0; k < n; k++) {
        unsigned code = (unsigned)(k * 37 + 11) % (1u << bits);
        unsigned layer = (unsigned)(k / n_words);

        for (unsigned i = 0; i < bits; i++) {
            uint64_t at = k % n_words * unit * 8 + (low_first ? layer : per - 1 - layer) * bits + i;

            file[at / 8] = (unsigned char)(file[at / 8] | (code >> i & 1u) << at % 8);
        }
        code ^= 1u << (job_bits - 1);
        for (unsigned i = 0; i < job_bits; i++) {
            uint64_t at = k * job_bits + i;

            codes[at / 8] = (unsigned char)(codes[at / 8] | (code >> i & 1u) << at % 8);
        }
    }
    assert_true(p.packing->size(&p, &n_bytes) && n_bytes == n_words * unit);
    check_reading(&p, file, codes, (size_t)(n * job_bits / 8));
}

static void test_layers(void **state)
{
    (void)state;
    check_layers(4, 4, 1, false, 24, 48);
    check_layers(4, 4, 1, true, 24, 48);
    check_layers(4, 4, 1, true, 11, 20); /* the last layer is short */
    check_layers(2, 2, 1, true, 9, 36);
    check_layers(1, 2, 1, false, 9, 72);
    check_layers(8, 8, 1, false, 30, 30);
    check_layers(3, 3, 4, false, 7, 64); /* layers end within a byte */
    check_layers(3, 3, 4, false, 1, 8);
}

/* Rows of more words than their codes need. */
static void test_padded(void **state)
{
    enum { ROWS = 5, ROW = 11, WORDS = 3 };
    unsigned char file[ROWS * WORDS * 4];
    unsigned char codes[ROWS * ROW];

    (void)state;
    for (unsigned bits = 4; bits <= 8; bits += 4) {
        const struct vc_packed p = {
            .packing = &vc_packing_padded, .bits = bits, .n_rows = ROWS, .row = ROW, .n_words = WORDS, .add = -3};

        memset(file, 0x5a, sizeof file);
        for (size_t k = 0; k < sizeof codes; k++) {
            unsigned code = (unsigned)(k * 37 + 11) % (1u << bits);
            unsigned char *at = &file[k / ROW * WORDS * 4 + k % ROW * bits / 8];
            unsigned shift = (unsigned)(k % ROW * bits % 8);

            *at = (unsigned char)((*at & ~(((1u << bits) - 1) << shift)) | code << shift);
            codes[k] = (unsigned char)((int)code - 3);
        }
        check_reading(&p, file, codes, sizeof codes);
    }
}

static void test_ranges(void **state)
{
    static const unsigned widths[] = {0, 2, 3, 4, 5, 6, 8};
    uint64_t row;
    size_t i;

    (void)state;
    for (i = 0; i < sizeof widths / sizeof widths[0]; i++) {
        for (row = 1; row <= MOST_ROW; row++) {
            if (widths[i] == 0 || 8 * row % widths[i] == 0) { /* rows are whole codes */
                check_rows((struct vc_packed){
                    .packing = &vc_packing_rows, .bits = 8, .turned = widths[i], .n_rows = N_ROWS, .row = row});
            }
        }
    }
}

/* Words of the codes (5 i + 3) mod 2^bits, made by hand, from the same minus 2^(bits - 1) side by side. */
static void test_words(void **state)
{
    static const struct {
        unsigned bits;
        size_t n; /* codes that are whole bytes */
        uint32_t words[5];
    } cases[] = {{2, 20, {0x93939393, 0x00000093}},
                 {3, 16, {0x43c67543, 0x0000c675}},
                 {4, 20, {0x61c72d83, 0xe94fa50b, 0x00002d83}},
                 {5, 16, {0x79793503, 0xfd560b30, 0x00007249}},
                 {6, 20, {0x1748d203, 0x5c2b9a17, 0x38913feb, 0x0089d613}},
                 {8, 20, {0x120d0803, 0x26211c17, 0x3a35302b, 0x4e49443f, 0x625d5853}}};
    size_t i, k;

    (void)state;
    for (i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        size_t n = cases[i].n;
        struct vc_packed p = {
            .packing = &vc_packing_rows, .bits = 8, .turned = cases[i].bits, .n_rows = 1, .row = n * cases[i].bits / 8};
        int half = 1 << (cases[i].bits - 1);
        int8_t codes[20], back[20];
        unsigned char side[20], got[20], again[20];
        uint64_t n_bytes = 0;

        for (k = 0; k < n; k++) {
            codes[k] = (int8_t)((int)((5 * k + 3) % (1u << cases[i].bits)) - half);
        }
        vc_codes_pack((const uint8_t *)codes, n, cases[i].bits, 0, side);
        assert_true(p.packing->size(&p, &n_bytes));
        p.packing->pack(&p, 0, side, (size_t)p.row, got);
        for (k = 0; k < n_bytes / 4; k++) {
            assert_int_equal(vc_le32(got + 4 * k), cases[i].words[k]);
        }
        assert_true(vc_packing_words_fit(n, cases[i].bits, n_bytes / 4));
        p.packing->unpack(&p, 0, (size_t)p.row, got, again);
        vc_codes_unpack(again, n, cases[i].bits, 0, 1, back);
        assert_memory_equal(back, codes, n);
    }
}

static void test_sizes(void **state)
{
    struct vc_packed p = {.packing = &vc_packing_rows, .bits = 8, .turned = 8, .n_rows = UINT64_MAX / 8, .row = 9};
    uint64_t n_bytes = 0;

    (void)state;
    assert_false(p.packing->size(&p, &n_bytes)); /* 12 bytes a row */
    p.row = 8;
    assert_true(p.packing->size(&p, &n_bytes));
    assert_true(vc_packing_words_fit(33, 3, 4)); /* dense: 99 bits */
    assert_true(vc_packing_words_fit(31, 3, 4)); /* 10 codes a word */
    assert_false(vc_packing_words_fit(33, 3, 3));
}

/* ---- the table ---- */

static void test_table(void **state)
{
    const struct vc_dialect *row;
    size_t n_choices = 0;
    size_t i, k;

    (void)state;
    for (i = 0; (row = vc_dialect_row(i)) != NULL; i++) {
        for (k = 0; k < i; k++) {
            assert_string_not_equal(row->name, vc_dialect_row(k)->name);
        }
        if (row->is_choice) {
            assert_string_equal(vc_name_at(VC_NAMES_LAYOUTS, n_choices++), row->name);
        }
        if (row->file != NULL) {
            bool written = row->file->fits != NULL;

            assert_int_equal(row->file->lay != NULL, written);
            assert_true(row->takes_codes == written && row->is_choice == written);
            assert_true(written || row->file->find_packed != NULL || row->file->find_codes != NULL);
        }
    }
    assert_null(vc_name_at(VC_NAMES_LAYOUTS, n_choices));
    assert_string_equal(vc_name_at(VC_NAMES_LAYOUTS, 0), "plain");
    assert_string_equal(vc_dialect_usual_in_folders(NULL)->name, "compressed-tensors");
}

static void test_asked(void **state)
{
    struct vc_ctx *ctx = *state;
    const struct vc_dialect *row = &vc_dialect_plain;

    assert_int_equal(vc_dialect_asked(ctx, &(struct vc_write_options){.layout = NULL}, &row), VC_OK);
    assert_null(row);
    assert_int_equal(vc_dialect_asked(ctx, &(struct vc_write_options){.layout = "auto"}, &row), VC_OK);
    assert_null(row);
    assert_int_equal(vc_dialect_asked(ctx, &(struct vc_write_options){.layout = "bitsandbytes"}, &row), VC_OK);
    assert_ptr_equal(row, &vc_dialect_bitsandbytes);
    assert_int_equal(vc_dialect_asked(ctx, &(struct vc_write_options){.layout = "Plain"}, &row), VC_E_ARGUMENT);
    assert_string_equal(vc_ctx_message(ctx), "no layout is called 'Plain'");
}

static void test_common(void **state)
{
    (void)state;
    assert_ptr_equal(vc_dialect_common(&vc_dialect_plain, &vc_dialect_plain), &vc_dialect_plain);
    assert_ptr_equal(vc_dialect_common(&vc_dialect_onnx, &vc_dialect_plain), &vc_dialect_plain);
    assert_ptr_equal(vc_dialect_common(&vc_dialect_plain, &vc_dialect_onnx), &vc_dialect_plain);
    assert_ptr_equal(vc_dialect_common(&vc_dialect_onnx, &vc_dialect_onnx), &vc_dialect_onnx);
    assert_null(vc_dialect_common(&vc_dialect_onnx, &vc_dialect_gguf));
    assert_null(vc_dialect_common(&vc_dialect_compressed_tensors, &vc_dialect_plain));
    assert_null(vc_dialect_common(NULL, &vc_dialect_plain));
}

/* ---- what the rows say ---- */

static const struct vc_dialect_request channels = {
    .scheme = "int8", .granularity = VC_GRANULARITY_CHANNEL, .symmetric = true};

static void test_no_dialect(void **state)
{
    struct vc_ctx *ctx = *state;

    assert_int_equal(vc_dialect_check(ctx, NULL, &channels), VC_OK);
    assert_null(vc_dialect_reason(NULL, &channels, NULL));
    assert_int_equal(vc_dialect_part_type(NULL, &channels, NULL, VC_PART_SCALE, VC_DTYPE_F32), VC_DTYPE_F32);
}

static void check_answer(struct vc_ctx *ctx, const struct vc_dialect *dialect, struct vc_dialect_request request,
                         const char *sentence)
{
    enum vc_status want = sentence == NULL ? VC_OK : VC_E_ARGUMENT;

    vc_clear_error(ctx);
    assert_int_equal(vc_dialect_check(ctx, dialect, &request), want);
    if (sentence != NULL) {
        assert_string_equal(vc_ctx_message(ctx), sentence);
    }
}

static void test_check(void **state)
{
    struct vc_ctx *ctx = *state;
    struct vc_dialect_request whole = channels;
    struct vc_dialect_request group = channels;
    struct vc_dialect_request zeros = channels;
    struct vc_dialect_request axis = channels;
    struct vc_dialect_request coded;

    whole.granularity = VC_GRANULARITY_TENSOR;
    group.granularity = VC_GRANULARITY_GROUP;
    group.group_size = 32;
    group.granularity_given = true;
    zeros.symmetric = false;
    axis.axis_given = true;
    axis.axis = 1;
    coded = group;
    coded.scheme = "nf4";
    coded.double_quant = true;
    check_answer(ctx, &vc_dialect_bitsandbytes, coded, NULL);
    check_answer(
        ctx, &vc_dialect_plain, coded,
        "the layout plain has no place for scales that are codes (double_quant), which layout bitsandbytes has");
    check_answer(ctx, &vc_dialect_plain, zeros, NULL);
    check_answer(ctx, &vc_dialect_onnx, axis, NULL);
    check_answer(ctx, &vc_dialect_compressed_tensors, channels, NULL);
    check_answer(ctx, &vc_dialect_compressed_tensors, group, NULL);
    check_answer(ctx, &vc_dialect_compressed_tensors, zeros, NULL);
    check_answer(ctx, &vc_dialect_w8a8, zeros,
                 "the layout w8a8 takes no zero points (asymmetric); layout plain takes all");
    check_answer(ctx, &vc_dialect_compressed_tensors, axis,
                 "the layout compressed-tensors takes scales along axis 0 only (axis); layout plain takes all");
    check_answer(ctx, &vc_dialect_bitsandbytes, whole,
                 "the layout bitsandbytes takes scales per row, not per tensor (granularity); layout plain takes all");
    check_answer(ctx, &vc_dialect_bitsandbytes, group,
                 "the layout bitsandbytes takes one scale per row, no groups (granularity); layout plain takes all");
    check_answer(ctx, &vc_dialect_gguf, channels, NULL);
    check_answer(ctx, &vc_dialect_gguf, group, NULL);
    group.group_size = 64;
    check_answer(ctx, &vc_dialect_gguf, group,
                 "int8 in GGUF is Q8_0, which has scales per group of 32 only (granularity)");
    check_answer(ctx, &vc_dialect_gguf, axis, "int8 in GGUF is Q8_0, which has scales along the last axis only (axis)");
    check_answer(ctx, &vc_dialect_gguf, zeros, "int8 in GGUF is Q8_0, which has no zero points (asymmetric)");
}

/* A scheme that a row does not name is refused by all but our own dialect, whose parts may be anything. */
static void test_schemes(void **state)
{
    struct vc_ctx *ctx = *state;
    struct vc_dialect_request other = channels;

    other.scheme = "int";
    check_answer(ctx, &vc_dialect_plain, other, "the layout plain has no place for codes of int");
    check_answer(ctx, &vc_dialect_compressed_tensors, other,
                 "the layout compressed-tensors has no place for codes of int");
    check_answer(ctx, &vc_dialect_bitsandbytes, other, "the layout bitsandbytes has no place for codes of int");
    check_answer(ctx, &vc_dialect_gguf, other,
                 "the layout gguf has no place for codes of int; name a type of GGUF, or quantize into a folder and "
                 "convert the folder, which keeps codes of nvfp4, int4 and int8");
    check_answer(ctx, &vc_dialect_onnx, other, "the layout onnx has no place for codes of int");
    other.scheme = "int4";
    check_answer(ctx, &vc_dialect_plain, other, NULL);
    check_answer(ctx, &vc_dialect_onnx, other, "int4 codes of a graph have a scale per group (granularity)");
    check_answer(ctx, &vc_dialect_fp8, other, "the layout fp8 has no place for codes of int4");
    other.granularity = VC_GRANULARITY_GROUP;
    other.group_size = 128;
    check_answer(ctx, &vc_dialect_onnx_qdq, other, NULL);
    other.scheme = "fp8";
    check_answer(
        ctx, &vc_dialect_fp8, other,
        "the layout fp8 has a scale per 128 rows and 128 columns (granularity); layout compressed-tensors per row");
    other.granularity = VC_GRANULARITY_BLOCK;
    check_answer(ctx, &vc_dialect_fp8, other, NULL);
    check_answer(ctx, &vc_dialect_compressed_tensors, other, NULL);
    other.group_size = 64;
    check_answer(ctx, &vc_dialect_compressed_tensors, other,
                 "the layout compressed-tensors takes fp8 in blocks of 128 (granularity); layout plain takes others");
}

static void expect_reason(const struct vc_dialect *dialect, const char *name, uint64_t rows, uint64_t row,
                          const char *want)
{
    const uint64_t shape[] = {rows, row};
    const struct vc_dialect_tensor tensor = {.name = name, .n_dims = 2, .shape = shape, .weights_dtype = VC_DTYPE_F32};
    struct vc_dialect_request group = channels;
    const char *got;

    group.granularity = VC_GRANULARITY_GROUP;
    group.group_size = 8;
    got = vc_dialect_reason(dialect, &group, &tensor);
    if (want == NULL) {
        assert_null(got);
    } else {
        assert_string_equal(got, want);
    }
}

static void test_reason(void **state)
{
    const uint64_t shape[] = {8, 16};
    const uint64_t whole[] = {192, 256};
    const uint64_t ends[] = {256, 192};
    struct vc_dialect_request blocks = channels;
    struct vc_dialect_tensor down = {.name = "a.down_proj.weight", .n_dims = 2, .shape = whole};
    struct vc_dialect_tensor head = {.name = "lm_head.weight", .n_dims = 2, .shape = shape};

    (void)state;
    expect_reason(&vc_dialect_plain, "anything", 1, 1, NULL);
    expect_reason(&vc_dialect_gguf, "w", 4, 48, "rows are no multiple of 32");
    expect_reason(&vc_dialect_gguf, "w", 4, 64, NULL);
    expect_reason(&vc_dialect_compressed_tensors, "a.q_proj.weight", 4, 16, NULL);
    expect_reason(&vc_dialect_fp8, "a.q_proj.weight", 128, 256, NULL);
    expect_reason(&vc_dialect_fp8, "a.q_proj.weight", 128, 192, "rows or columns are no multiple of 128");
    expect_reason(&vc_dialect_compressed_tensors, "a.q_proj.weight", 4, 4, "rows shorter than 5");
    expect_reason(&vc_dialect_compressed_tensors, "a.q_proj.weight", 4, 20, "rows are no multiple of the group");
    blocks.granularity = VC_GRANULARITY_BLOCK;
    blocks.group_size = 128;
    blocks.scheme = "fp8";
    assert_null(vc_dialect_reason(&vc_dialect_compressed_tensors, &blocks, &down));
    down.shape = ends;
    assert_string_equal(vc_dialect_reason(&vc_dialect_compressed_tensors, &blocks, &down),
                        "rows are no multiple of the block");
    expect_reason(&vc_dialect_compressed_tensors, "a.q_proj.bias", 4, 16, "no weight of a linear layer");
    expect_reason(&vc_dialect_compressed_tensors, "embed_tokens.weight", 4, 4, "embedding");
    expect_reason(&vc_dialect_bitsandbytes, "a.q_proj.weight", 4, 3, NULL);
    assert_string_equal(vc_dialect_reason(&vc_dialect_bitsandbytes, &channels, &head), "output head");
    head.included = true;
    assert_null(vc_dialect_reason(&vc_dialect_bitsandbytes, &channels, &head));
    head.channel_axis = 1;
    assert_string_equal(vc_dialect_reason(&vc_dialect_bitsandbytes, &channels, &head), "no weight of a linear layer");
}

static void test_part_type(void **state)
{
    const struct vc_dialect_tensor half = {.weights_dtype = VC_DTYPE_BF16};
    const struct vc_dialect_tensor full = {.weights_dtype = VC_DTYPE_F32};

    (void)state;
#define TYPE(dialect, tensor, role, usual) \
    vc_dialect_part_type(&vc_dialect_##dialect, &channels, tensor, VC_PART_##role, VC_DTYPE_##usual)
    assert_int_equal(TYPE(plain, &half, SCALE, F32), VC_DTYPE_F32);
    assert_int_equal(TYPE(compressed_tensors, &half, SCALE, F32), VC_DTYPE_BF16);
    assert_int_equal(TYPE(compressed_tensors, &full, SCALE, F32), VC_DTYPE_F32);
    assert_int_equal(TYPE(compressed_tensors, &half, ABSMAX, RAW), VC_DTYPE_RAW);
    assert_int_equal(TYPE(bitsandbytes, &half, SCALE, F32), VC_DTYPE_RAW);
    assert_int_equal(TYPE(bitsandbytes, &half, ABSMAX, RAW), VC_DTYPE_F32);
    assert_int_equal(TYPE(gguf, NULL, CODES, I8), VC_DTYPE_Q8_0);
    assert_int_equal(TYPE(gguf, &half, SCALE, F32), VC_DTYPE_RAW);
    assert_int_equal(TYPE(onnx, NULL, CODES, I8), VC_DTYPE_I8);
}

static int setup(void **state)
{
    *state = test_ctx();
    return 0;
}

static int teardown(void **state)
{
    test_ctx_done(*state);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_columns), cmocka_unit_test(test_across),     cmocka_unit_test(test_layers),
        cmocka_unit_test(test_padded),  cmocka_unit_test(test_ranges),     cmocka_unit_test(test_words),
        cmocka_unit_test(test_sizes),   cmocka_unit_test(test_table),      cmocka_unit_test(test_asked),
        cmocka_unit_test(test_common),  cmocka_unit_test(test_no_dialect), cmocka_unit_test(test_check),
        cmocka_unit_test(test_reason),  cmocka_unit_test(test_part_type),  cmocka_unit_test(test_schemes),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
