/* test_zip_read.c - the directory of zip archives: odd but valid archives open, and each single inconsistency is
 * refused. Every bad case starts from a good archive of zip_builder.c and changes one field. */
#include "formats_test.h"

#include <stdlib.h>
#include <zlib.h>

#include "core/base/checked.h"

/* ------------------------------------------------------------------------------------------------ valid archives */

static void expect_good_with(const char *what, const struct member_options *options, enum zip_end end, size_t comment)
{
    struct zip_builder z;

    memset(&z, 0, sizeof z);
    zip_add_bytes(&z, "a.npy", npy_matrix(3, 4), options);
    zip_add_bytes(&z, "b.npy", npy_matrix(40, 50), options);
    zip_finish(&z, end, comment);
    expect_good(what, z.out.p, z.out.n);
    zip_release(&z);
}

static void test_good(void **state)
{
    static const unsigned char unknown[] = {0x34, 0x12, 3, 0, 'a', 'b', 'c', 0x99, 0x99, 0, 0, 0, 0};
    struct member_options o;
    unsigned mask;
    int d;
    int end;

    (void)state;
    expect_good_with("stored", NULL, ZIP_END_PLAIN, 0);
    for (d = 0; d <= 9; d += 3) {
        o = (struct member_options){.deflate = true, .level = d};
        expect_good_with("deflate level", &o, ZIP_END_PLAIN, 0);
    }
    o = (struct member_options){.deflate = true, .level = 6, .strategy = Z_HUFFMAN_ONLY};
    expect_good_with("huffman only", &o, ZIP_END_PLAIN, 0);
    for (end = ZIP_END_PLAIN; end <= ZIP_END_64_PLAIN; end++) {
        for (mask = 0; mask < 16; mask++) {
            o = (struct member_options){.central64 = mask, .local64 = mask & 1};
            expect_good_with("zip64", &o, (enum zip_end)end, 0);
        }
    }
    for (d = DESCRIPTOR_32; d <= DESCRIPTOR_PLAIN_64; d++) {
        for (mask = 0; mask < 4; mask++) {
            o = (struct member_options){
                .deflate = mask & 1, .level = 6, .descriptor = (enum descriptor)d, .local64 = mask & 2};
            expect_good_with("descriptor", &o, ZIP_END_PLAIN, 0);
        }
    }
    o = (struct member_options){.gap = 37};
    expect_good_with("gap", &o, ZIP_END_PLAIN, 0);
    o = (struct member_options){.local_extra = unknown,
                                .n_local_extra = sizeof unknown,
                                .central_extra = unknown,
                                .n_central_extra = sizeof unknown};
    expect_good_with("unknown extra fields, two zeros after them", &o, ZIP_END_PLAIN, 0);
    expect_good_with("comment", NULL, ZIP_END_PLAIN, 65535);
    expect_good_with("comment, zip64", NULL, ZIP_END_64, 65535);
}

/* Extra fields and names of the largest size. */
static void test_good_large_headers(void **state)
{
    struct member_options o = {.n_local_extra = 65535};
    struct bytes extra = {NULL, 0, 0};
    struct bytes name = {NULL, 0, 0};
    struct zip_builder z;

    (void)state;
    bytes_u16(&extra, 0xd935);
    bytes_u16(&extra, 65531);
    bytes_fill(&extra, 0, 65531);
    bytes_fill(&name, 'n', 65531);
    bytes_add(&name, ".npy", 5);
    o.local_extra = extra.p;
    memset(&z, 0, sizeof z);
    zip_add_bytes(&z, "a.npy", npy_matrix(3, 4), &o);
    zip_add_bytes(&z, (const char *)name.p, npy_matrix(3, 4), &o);
    zip_add_bytes(&z, "b.npy", npy_matrix(3, 4), NULL);
    zip_finish(&z, ZIP_END_PLAIN, 0);
    expect_good("large headers", z.out.p, z.out.n);
    zip_release(&z);
    bytes_release(&extra);
    bytes_release(&name);
}

/* Members in another order than the directory. */
static void test_good_other_order(void **state)
{
    struct zip_builder z;
    struct zip_member first;

    (void)state;
    memset(&z, 0, sizeof z);
    zip_add_bytes(&z, "a.npy", npy_matrix(3, 4), NULL);
    zip_add_bytes(&z, "b.npy", npy_matrix(30, 40), NULL);
    zip_add_bytes(&z, "c.npy", npy_matrix(2, 2), NULL);
    first = z.members[0];
    z.members[0] = z.members[2];
    z.members[2] = first;
    zip_finish(&z, ZIP_END_PLAIN, 0);
    expect_good("other order", z.out.p, z.out.n);
    zip_release(&z);
}

static void test_good_empty(void **state)
{
    struct zip_builder z;

    (void)state;
    memset(&z, 0, sizeof z);
    zip_finish(&z, ZIP_END_PLAIN, 0);
    expect_good("no members", z.out.p, z.out.n);
    zip_release(&z);
}

static void test_good_many(void **state)
{
    enum { N = 70000 }; /* more than a plain end record can count */
    struct zip_builder z;
    struct vc_ctx *ctx = test_ctx();
    struct vc_model *model = NULL;
    struct bytes one = npy_matrix(1, 2);
    char path[512];
    float two[2];
    int fd;
    int i;

    (void)state;
    memset(&z, 0, sizeof z);
    for (i = 0; i < N; i++) {
        char name[32];

        snprintf(name, sizeof name, "t%05d.npy", i);
        zip_add(&z, name, one.p, one.n, NULL);
    }
    zip_finish(&z, ZIP_END_64, 0);
    fd = walk_file_open(z.out.p, z.out.n, path, sizeof path);
    if (vc_model_open(ctx, path, NULL, &model) != VC_OK) {
        fail_msg("%s", vc_ctx_message(ctx));
    }
    assert_int_equal(vc_model_facts(model)->n_tensors, N);
    assert_int_equal(vc_model_find(model, "t65999"), 65999);
    assert_int_equal(vc_model_read(ctx, model, 65999, 0, 2, two, sizeof two), VC_OK);
    assert_true(two[1] == -0.75f);
    vc_model_close(model);
    walk_file_close(fd, path);
    zip_release(&z);
    bytes_release(&one);
    test_ctx_done(ctx);
}

/* ------------------------------------------------------------------------------------------------ one field changed */

enum part { LOCAL, DATA, DESCRIPTOR, CENTRAL, END64, LOCATOR, END };

struct change {
    const char *what;
    const char *needle;
    enum part part;
    unsigned member;
    size_t at;
    unsigned n_bytes; /* little-endian width of the new value */
    uint64_t value;
    bool add; /* value is added to what is there */
    struct member_options options;
    enum zip_end end;
};

#define DEFLATED                    \
    {                               \
        .deflate = true, .level = 6 \
    }

static const struct change changes[] = {
    {"local signature", "starts with bytes 50 4b 03 05", LOCAL, 0, 3, 1, 5, false, {0}, 0},
    {"second local signature", "member 'b.npy': no local header", LOCAL, 1, 2, 2, 0x0505, false, {0}, 0},
    {"local flags", "disagree about the flags", LOCAL, 0, 6, 2, 0x800, false, {0}, 0},
    {"local method", "disagree about the method", LOCAL, 1, 8, 2, 8, false, {0}, 0},
    {"local crc", "disagree about the CRC", LOCAL, 0, 14, 1, 1, true, {0}, 0},
    {"local zero crc without descriptor", "disagree about the CRC", LOCAL, 0, 14, 4, 0, false, {0}, 0},
    {"local packed size", "disagree about the packed size", LOCAL, 0, 18, 4, 1, true, {0}, 0},
    {"local size", "disagree about the size", LOCAL, 0, 22, 4, 1, true, {0}, 0},
    {"local name length", "do not lie before the directory", LOCAL, 1, 26, 2, 60000, false, {0}, 0},
    {"local name length + 1", "another name", LOCAL, 0, 26, 2, 1, true, {0}, 0},
    {"local extra length", "do not lie before the directory", LOCAL, 1, 28, 2, 60000, false, {0}, 0},
    {"local name", "another name", LOCAL, 0, 30, 1, 'x', false, {0}, 0},
    {"local64 size", "size (zip64)", LOCAL, 0, 39, 1, 1, true, {.local64 = true}, 0},
    {"local64 packed", "packed size (zip64)", LOCAL, 0, 47, 1, 1, true, {.local64 = true}, 0},
    {"local64 short", "too short", LOCAL, 0, 37, 2, 8, false, {.local64 = true}, 0},
    {"local64 overrun", "longer than the extra field", LOCAL, 0, 37, 2, 17, false, {.local64 = true}, 0},
    {"descriptor crc", "no data descriptor", DESCRIPTOR, 0, 4, 1, 1, true, {.descriptor = DESCRIPTOR_32}, 0},
    {"descriptor size", "no data descriptor", DESCRIPTOR, 0, 8, 4, 1, true, {.descriptor = DESCRIPTOR_32}, 0},
    {"descriptor usize", "no data descriptor", DESCRIPTOR, 1, 16, 4, 1, true, {.descriptor = DESCRIPTOR_64}, 0},
    {"central signature", "zip directory, member 1 of 2 (byte 414): no record", CENTRAL, 0, 1, 1, 'Q', false, {0}, 0},
    {"encrypted", "encrypted", CENTRAL, 0, 8, 2, 1, false, {0}, 0},
    {"strongly encrypted", "encrypted", CENTRAL, 0, 8, 2, 0x40, false, {0}, 0},
    {"patched", "patch", CENTRAL, 0, 8, 2, 0x20, false, {0}, 0},
    {"method lzma", "method 14", CENTRAL, 0, 10, 2, 14, false, {0}, 0},
    {"method 65535", "method 65535", CENTRAL, 0, 10, 2, 65535, false, {0}, 0},
    {"central crc", "disagree about the CRC", CENTRAL, 1, 16, 1, 1, true, {0}, 0},
    {"central sizes differ", "two different sizes", CENTRAL, 0, 20, 4, 4, true, {0}, 0},
    {"central packed huge", "do not lie before", CENTRAL, 0, 20, 4, 0xfffffff0, false, DEFLATED, 0},
    {"central size above 1032:1", "cannot hold", CENTRAL, 0, 24, 4, 0x10000000, false, DEFLATED, 0},
    {"central size + 1", "disagree about the size", CENTRAL, 0, 24, 4, 1, true, DEFLATED, 0},
    {"central name length", "but", CENTRAL, 1, 28, 2, 60000, false, {0}, 0},
    {"central name length 0", "without a name", CENTRAL, 1, 28, 2, 0, false, {0}, 0},
    {"central extra length", "but", CENTRAL, 1, 30, 2, 60000, false, {0}, 0},
    {"central comment length", "but", CENTRAL, 1, 32, 2, 1, false, {0}, 0},
    {"central disk", "several files", CENTRAL, 0, 34, 2, 1, false, {0}, 0},
    {"central disk elsewhere", "several files", CENTRAL, 0, 34, 2, 0xffff, false, {0}, 0},
    {"central offset", "no local header", CENTRAL, 0, 42, 4, 1, true, {0}, 0},
    {"central offset past the end", "before the directory", CENTRAL, 0, 42, 4, 0x7fffffff, false, {0}, 0},
    {"central name", "another name", CENTRAL, 0, 46, 1, 'x', false, {0}, 0},
    {"central name no UTF-8", "not UTF-8", CENTRAL, 0, 46, 1, 0xff, false, {0}, 0},
    {"central name NUL", "not UTF-8", CENTRAL, 0, 46, 1, 0, false, {0}, 0},
    {"central64 short", "too short", CENTRAL, 0, 53, 2, 4, false, {.central64 = 7}, 0},
    {"central64 overrun", "longer than the extra field", CENTRAL, 0, 53, 2, 25, false, {.central64 = 7}, 0},
    {"central64 size huge", "two different", CENTRAL, 0, 62, 1, 0x80, false, {.central64 = 7}, 0},
    {"central64 packed huge", "do not lie", CENTRAL, 0, 55, 16, ~UINT64_C(0), false, {.central64 = 7}, 0},
    {"central64 offset huge", "do not lie", CENTRAL, 0, 71, 8, ~UINT64_C(0), false, {.central64 = 7}, 0},
    {"central64 disk", "several files", CENTRAL, 0, 79, 4, 1, false, {.central64 = 15}, 0},
    {"central64 disk alone", "several files", CENTRAL, 0, 55, 4, 0x01000000, false, {.central64 = SATURATE_DISK}, 0},
    {"central64 without the disk", "too short", CENTRAL, 0, 34, 2, 0xffff, false, {.central64 = 7}, 0},
    {"end disk", "several files", END, 0, 4, 2, 1, false, {0}, 0},
    {"end directory disk", "several files", END, 0, 6, 2, 1, false, {0}, 0},
    {"end count here", "several files", END, 0, 8, 2, 1, false, {0}, 0},
    {"end counts", "do not fit", END, 0, 8, 4, 0x00030003, false, {0}, 0},
    {"end counts few", "1 members end after", END, 0, 8, 4, 0x00010001, false, {0}, 0},
    {"end counts many", "do not fit", END, 0, 8, 4, 0x7fff7fff, false, {0}, 0},
    {"end directory size", "does not end at", END, 0, 12, 4, (uint32_t)-10, true, {0}, 0},
    {"end directory offset", "does not end at", END, 0, 16, 4, 1, true, {0}, 0},
    {"end directory offset past the end", "does not end at", END, 0, 16, 4, 0xfffffff0, false, {0}, 0},
    {"end comment length", "does not reach the end", END, 0, 20, 2, 500, false, {0}, 0},
    {"locator signature", "does not end at", LOCATOR, 0, 0, 1, 'Q', false, {0}, ZIP_END_64},
    {"locator disk", "several files", LOCATOR, 0, 4, 4, 1, false, {0}, ZIP_END_64},
    {"locator offset", "is damaged", LOCATOR, 0, 8, 8, (uint64_t)-1, true, {0}, ZIP_END_64},
    {"locator offset past the end", "points to", LOCATOR, 0, 8, 8, 1 << 30, true, {0}, ZIP_END_64},
    {"locator disks", "several files", LOCATOR, 0, 16, 4, 2, false, {0}, ZIP_END_64},
    {"end64 signature", "is damaged", END64, 0, 0, 1, 'Q', false, {0}, ZIP_END_64},
    {"end64 size", "is damaged", END64, 0, 4, 8, UINT64_C(1) << 63, false, {0}, ZIP_END_64},
    {"end64 disk", "several files", END64, 0, 16, 4, 1, false, {0}, ZIP_END_64},
    {"end64 count", "several files", END64, 0, 24, 8, 1, true, {0}, ZIP_END_64},
    {"end64 counts huge", "do not fit", END64, 0, 24, 16, UINT64_C(1) << 60, false, {0}, ZIP_END_64},
    {"end64 and end disagree", "disagree", END64, 0, 48, 8, 1, true, {0}, ZIP_END_64_PLAIN},
    {"end64 offset", "does not end at", END64, 0, 48, 8, (uint64_t)-1, false, {0}, ZIP_END_64},
};

static size_t part_offset(const struct zip_builder *z, const struct change *c)
{
    const struct zip_member *m = &z->members[c->member];

    switch (c->part) {
    case LOCAL:
        return m->local;
    case DATA:
        return m->data;
    case DESCRIPTOR:
        return m->data + m->packed;
    case CENTRAL:
        return m->central;
    case END64:
        return z->end64;
    case LOCATOR:
        return z->locator;
    default:
        return z->end;
    }
}

static void apply(unsigned char *p, const struct change *c)
{
    unsigned width = c->n_bytes > 8 ? 8 : c->n_bytes;
    unsigned repeat;
    unsigned i;

    for (repeat = 0; repeat < c->n_bytes; repeat += width) {
        uint64_t v = c->value;

        if (c->add) {
            for (i = 0; i < width; i++) {
                v += (uint64_t)p[i] << (8 * i);
            }
        }
        for (i = 0; i < width; i++) {
            p[i] = (unsigned char)(v >> (8 * i));
        }
        p += width;
    }
}

static void test_changes(void **state)
{
    size_t i;

    (void)state;
    for (i = 0; i < sizeof changes / sizeof changes[0]; i++) {
        const struct change *c = &changes[i];
        struct zip_builder z;

        memset(&z, 0, sizeof z);
        zip_add_bytes(&z, "a.npy", npy_matrix(3, 4), &c->options);
        zip_add_bytes(&z, "b.npy", npy_matrix(5, 2), &c->options);
        zip_finish(&z, c->end, 0);
        apply(z.out.p + part_offset(&z, c) + c->at, c);
        expect_bad(c->what, z.out.p, z.out.n, c->needle);
        zip_release(&z);
    }
}

/* ------------------------------------------------------------------------------------------------ larger damage */

/* "a.npy" of 176 bytes, with a zip64 field in the directory that no mark asks for. needle NULL: it can be read. */
static void expect_unasked64(uint64_t size, uint64_t packed, const char *needle)
{
    unsigned char field[20] = {1, 0, 16, 0};
    struct member_options o = {.central_extra = field, .n_central_extra = sizeof field};
    struct zip_builder z;

    memset(&z, 0, sizeof z);
    vc_put_le64(field + 4, size);
    vc_put_le64(field + 12, packed);
    zip_add_bytes(&z, "a.npy", npy_matrix(3, 4), &o);
    zip_finish(&z, ZIP_END_PLAIN, 0);
    if (needle == NULL) {
        expect_good("zip64, not asked for", z.out.p, z.out.n);
    } else {
        expect_bad("zip64, not asked for", z.out.p, z.out.n, needle);
    }
    zip_release(&z);
}

static void test_extra_fields(void **state)
{
    static const unsigned char two64[] = {1, 0, 0, 0, 1, 0, 0, 0};
    static const unsigned char stray[] = {0x34, 0x12, 0, 0, 7};
    unsigned char second_name[16] = {0x75, 0x70, 10, 0, 1};
    struct member_options o = {.central_extra = two64, .n_central_extra = sizeof two64};
    struct zip_builder z;

    (void)state;
    zip_simple(&z, &o);
    expect_bad("two zip64 extras", z.out.p, z.out.n, "two zip64");
    zip_release(&z);
    o = (struct member_options){.local_extra = two64, .n_local_extra = sizeof two64};
    zip_simple(&z, &o);
    expect_bad("two local zip64 extras", z.out.p, z.out.n, "two zip64");
    zip_release(&z);
    expect_unasked64(176, 176, NULL);
    expect_unasked64(5, 5, "zip64 extra field and record disagree: 5 and 176");
    expect_unasked64(176, 5, "zip64 extra field and record disagree: 5 and 176");
    o = (struct member_options){.central_extra = stray, .n_central_extra = sizeof stray};
    zip_simple(&z, &o);
    expect_bad("stray byte in extra", z.out.p, z.out.n, "stray");
    zip_release(&z);

    /* The UTF-8 name extra of another writer: believed by some readers when its CRC is that of the plain name. */
    vc_put_le32(second_name + 5, (uint32_t)crc32(0, (const unsigned char *)"a.npy", 5));
    memcpy(second_name + 9, "z.npy", 5);
    o = (struct member_options){.central_extra = second_name, .n_central_extra = 14};
    zip_simple(&z, &o);
    expect_bad("second name", z.out.p, z.out.n, "different name");
    zip_release(&z);
}

static void test_overlaps(void **state)
{
    struct zip_builder z;
    struct bytes inner = {NULL, 0, 0};
    struct zip_builder nested;

    (void)state;
    zip_simple(&z, NULL);
    z.out.n = z.directory;
    z.members[1].local = z.members[0].local;
    z.members[1].crc = z.members[0].crc;
    z.members[1].size = z.members[1].packed = z.members[0].size;
    z.members[1].name[0] = 'a';
    zip_finish(&z, ZIP_END_PLAIN, 0);
    expect_bad("same local header twice", z.out.p, z.out.n, "overlaps");
    zip_release(&z);

    /* Member b lies inside the data of member a. */
    memset(&nested, 0, sizeof nested);
    zip_add_bytes(&nested, "b.npy", npy_matrix(2, 2), NULL);
    inner = npy_array("|u1", false, "(512,)", NULL, 0);
    {
        size_t start = inner.n;

        bytes_add(&inner, nested.out.p, nested.out.n);
        bytes_fill(&inner, 0, start + 512 - inner.n);
        memset(&z, 0, sizeof z);
        zip_add(&z, "a.npy", inner.p, inner.n, NULL);
        zip_add_bytes(&z, "b.npy", npy_matrix(2, 2), NULL);
        z.members[1].local = z.members[0].data + start;
        zip_finish(&z, ZIP_END_PLAIN, 0);
    }
    expect_bad("nested", z.out.p, z.out.n, "overlaps member 'b.npy'");
    zip_release(&z);
    zip_release(&nested);
    bytes_release(&inner);
}

/* A member "hidden" in front of member `at` of an archive with two members, or of the directory, after `before` bytes.
 */
static void expect_hidden(size_t at, size_t before, size_t n_zip_members)
{
    struct zip_builder hidden;
    struct zip_builder z;
    size_t i;

    memset(&hidden, 0, sizeof hidden);
    zip_add_bytes(&hidden, "hidden.npy", npy_matrix(2, 2), NULL);
    memset(&z, 0, sizeof z);
    for (i = 0; i <= n_zip_members; i++) {
        if (i == at) {
            bytes_fill(&z.out, 'P', before);
            bytes_add(&z.out, hidden.out.p, hidden.out.n);
        }
        if (i < n_zip_members) {
            zip_add_bytes(&z, i == 0 ? "a.npy" : "b.npy", npy_matrix(3, 4), NULL);
        }
    }
    zip_finish(&z, ZIP_END_PLAIN, 0);
    expect_bad("hidden member", z.out.p, z.out.n, "does not have");
    zip_release(&z);
    zip_release(&hidden);
}

static void test_hidden_member(void **state)
{
    struct member_options o = {.gap = 300000};
    struct zip_builder z;
    size_t at;
    size_t k;

    (void)state;
    for (at = 0; at <= 2; at++) {
        expect_hidden(at, 0, 2);
    }
    expect_hidden(0, 0, 0);
    expect_hidden(1, 5, 2);
    expect_hidden(2, 1, 2);
    for (k = 0; k < 5; k++) { /* across the pieces that gaps are read in */
        expect_hidden(1, ((size_t)256 << 10) - k, 2);
    }
    /* A signature that is cut by the next member is no member. */
    zip_simple(&z, &o);
    memcpy(z.out.p + z.members[1].local - 3, "PK\3", 3);
    expect_good("part of a signature", z.out.p, z.out.n);
    memcpy(z.out.p + z.members[1].local - 4, "PK\3\4", 4);
    expect_bad("signature alone", z.out.p, z.out.n, "does not have");
    zip_release(&z);
}

static void test_names(void **state)
{
    struct member_options o = {.utf8 = true};
    struct zip_builder z;
    int i;

    (void)state;
    for (i = 0; i < 2; i++, o.utf8 = false) {
        memset(&z, 0, sizeof z);
        zip_add_bytes(&z, "\xc3\xbc.npy", npy_matrix(3, 4), &o);
        zip_finish(&z, ZIP_END_PLAIN, 0);
        if (o.utf8) {
            expect_good("marked as UTF-8", z.out.p, z.out.n);
        } else {
            expect_bad("not marked", z.out.p, z.out.n, "'\xc3\xbc.npy' is not marked as UTF-8");
        }
        zip_release(&z);
    }
}

static void test_two_end_records(void **state)
{
    struct zip_builder z;
    struct bytes b = {NULL, 0, 0};

    (void)state;
    zip_simple(&z, NULL);
    /* The comment is a second end record. */
    bytes_add(&b, z.out.p, z.out.n);
    bytes_add(&b, z.out.p + z.end, 22);
    vc_put_le16(b.p + z.end + 20, 22);
    expect_bad("two end records", b.p, b.n, "two end records");
    /* A signature in the comment that is no record is no harm. */
    b.p[z.end + 22 + 20] = 9;
    expect_good("signature in the comment", b.p, b.n);
    b.n--;
    expect_bad("cut comment", b.p, b.n, "does not reach the end");
    bytes_release(&b);
    bytes_add(&b, z.out.p, z.out.n);
    bytes_fill(&b, 0, 1);
    expect_bad("a byte after the end", b.p, b.n, "does not reach the end");
    bytes_release(&b);
    bytes_fill(&b, 0, 5);
    bytes_add(&b, z.out.p, z.out.n);
    expect_bad("bytes before the start", b.p, b.n, "");
    bytes_release(&b);
    zip_release(&z);
}

static void test_descriptor_missing(void **state)
{
    struct zip_builder z;
    size_t i;

    (void)state;
    zip_simple(&z, NULL);
    for (i = 0; i < 2; i++) {
        z.out.p[z.members[i].local + 6] |= 8;
        z.out.p[z.members[i].central + 8] |= 8;
    }
    expect_bad("flagged, but not there", z.out.p, z.out.n, "no data descriptor");
    zip_release(&z);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good),
        cmocka_unit_test(test_good_large_headers),
        cmocka_unit_test(test_good_other_order),
        cmocka_unit_test(test_good_empty),
        cmocka_unit_test(test_good_many),
        cmocka_unit_test(test_changes),
        cmocka_unit_test(test_extra_fields),
        cmocka_unit_test(test_overlaps),
        cmocka_unit_test(test_hidden_member),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_two_end_records),
        cmocka_unit_test(test_descriptor_missing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
