/* test_zip_write.c - zip records around the limits of 32 and 16 bits, read back by our reader (other readers see
 * small archives in tests/judge). The large members are holes in a sparse file. */
#include <stdlib.h>
#include <unistd.h>

#include "formats/zip/zip_read.h"
#include "formats/zip/zip_write.h"
#include "formats_test.h"

struct seen {
    size_t n;
};

static enum vc_status see(struct vc_ctx *ctx, void *user, size_t entry, const unsigned char *head, size_t n)
{
    struct seen *seen = user;

    (void)ctx;
    (void)entry;
    (void)head;
    (void)n;
    seen->n++;
    return VC_OK;
}

static void put_at(int fd, uint64_t offset, const void *data, size_t n)
{
    assert_int_equal(pwrite(fd, data, n, (off_t)offset), n);
}

/* Members of 5 GiB (a hole), behind it, and small ones; many enough for a zip64 end record also by number. */
static void check_zip64(size_t n_small, uint64_t large)
{
    size_t n = n_small + 2;
    struct vc_zip_member *members = calloc(n, sizeof *members);
    char *names = malloc(n * 32);
    unsigned char *record = malloc(n * 128);
    struct vc_ctx *ctx = test_ctx();
    struct vc_infile *file;
    struct vc_zip zip;
    struct seen seen = {0};
    uint64_t at = 0;
    size_t used = 0;
    char other[] = "/tmp/vcompress-test-XXXXXX";
    int fd = mkstemp(other);

    for (size_t i = 0; i < n; i++) {
        unsigned char local[256];

        (void)snprintf(names + 32 * i, 32, "m%zu", i);
        members[i].name = names + 32 * i;
        members[i].name_bytes = strlen(members[i].name);
        members[i].size_bytes = i == 0 ? large : 3;
        members[i].packed_bytes = members[i].size_bytes;
        members[i].crc = (uint32_t)i;
        assert_true(vc_zip_place(&members[i], at, members[i].size_bytes));
        assert_int_equal(members[i].data_offset % 64, 0);
        assert_int_equal(members[i].zip64, members[i].size_bytes >= UINT32_MAX);
        vc_zip_put_local(&members[i], local);
        put_at(fd, at, local, (size_t)(members[i].data_offset - at));
        at = members[i].data_offset + members[i].size_bytes;
    }
    for (size_t i = 0; i < n; i++) {
        size_t m = vc_zip_put_central(&members[i], record + used);

        assert_int_equal(m, vc_zip_central_bytes(&members[i]));
        used += m;
    }
    put_at(fd, at, record, used);
    {
        unsigned char end[VC_ZIP_END_MAX];
        size_t m = vc_zip_put_end(n, at, used, end);

        assert_int_equal(m, vc_zip_end_bytes(n, at, used));
        assert_int_equal(m > 22, n >= 65535 || at >= UINT32_MAX);
        put_at(fd, at + used, end, m);
    }
    close(fd);
    assert_int_equal(vc_infile_open(ctx, other, &file), VC_OK);
    if (vc_zip_open(ctx, file, &zip) != VC_OK || vc_zip_visit(ctx, file, &zip, see, &seen) != VC_OK) {
        fail_msg("%zu members, first of %llu bytes: %s", n, (unsigned long long)large, vc_ctx_message(ctx));
    }
    assert_int_equal(zip.n, n);
    assert_int_equal(seen.n, n);
    for (size_t i = 0; i < n; i++) {
        assert_string_equal(zip.entries[i].name, members[i].name);
        assert_int_equal(zip.entries[i].size_bytes, members[i].size_bytes);
        assert_int_equal(zip.entries[i].local_offset, members[i].local_offset);
        assert_int_equal(zip.entries[i].data_offset, members[i].data_offset);
        assert_int_equal(zip.entries[i].crc, i);
    }
    vc_zip_close(ctx, &zip);
    vc_infile_close(ctx, file);
    (void)unlink(other);
    free(record);
    free(names);
    free(members);
    test_ctx_done(ctx);
}

static void test_zip64(void **state)
{
    static const uint64_t sizes[] = {UINT32_MAX - 1,   UINT32_MAX, (uint64_t)UINT32_MAX + 1, (uint64_t)5 << 30,
                                     UINT32_MAX - 100, 1000,       UINT32_MAX - 1000000};

    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        check_zip64(3, sizes[i]);
    }
    check_zip64(65532, 10); /* 65534, 65535, 65536 members */
    check_zip64(65533, 10);
    check_zip64(65534, 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_zip64)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
