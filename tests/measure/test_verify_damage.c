/* test_verify_damage.c - verify on files that are damaged where their reader cannot go on: that is a finding like
 * the others, and the rest is looked at. Every cut and every flipped bit of a small file of each format: what the
 * reader refuses has to have a finding. */
#include "verify_support.h"

#include <unistd.h>

#include "core/base/checked.h"
#include "gguf_builder.h"
#include "kernels/kernels.h"
#include "torch_files.h"

/* ---- files ---- */

#define THREE ENTRY("a", "F32", "[2]", 0, 8) "," ENTRY("b", "F32", "[2]", 8, 16) "," ENTRY("c", "F32", "[2]", 16, 24)

static struct bytes sample_safetensors(void)
{
    return st_zeros("{" THREE "}", 24);
}

static struct bytes sample_npz(void)
{
    struct zip_builder z;
    struct bytes b;

    memset(&z, 0, sizeof z);
    zip_add_bytes(&z, "a.npy", npy_matrix(2, 2), NULL);
    zip_add_bytes(&z, "b.npy", npy_matrix(2, 3), &(struct member_options){.deflate = true, .level = -1});
    zip_add_bytes(&z, "c.npy", npy_matrix(2, 2), &(struct member_options){.local64 = true});
    zip_finish(&z, ZIP_END_PLAIN, 0);
    b = z.out;
    z.out = (struct bytes){NULL, 0, 0};
    zip_release(&z);
    return b;
}

static struct bytes sample_torch(void)
{
    struct bytes pickle = plain_pickle();
    struct bytes b = torch_archive(&pickle, "little", plain_sizes, 2, NULL);

    bytes_release(&pickle);
    return b;
}

static struct bytes sample_gguf(void)
{
    static const uint64_t dims[] = {8, 2};
    struct gguf_builder g;

    memset(&g, 0, sizeof g);
    gguf_pair_string(&g, "general.architecture", "test");
    gguf_tensor(&g, "a.weight", 0, 2, dims, 64);
    gguf_tensor(&g, "b.weight", 0, 2, dims, 64);
    gguf_tensor(&g, "c.weight", 0, 2, dims, 64);
    return gguf_finish(&g);
}

typedef struct bytes sample_fn(void);
static sample_fn *const samples[] = {sample_safetensors, sample_npz, sample_torch, sample_gguf};
enum { N_SAMPLES = sizeof samples / sizeof samples[0] };

/* Where the text is in the file. */
static size_t find(const struct bytes *b, const char *text)
{
    size_t n = strlen(text);
    size_t i = 0;

    while (i + n <= b->n && memcmp(b->p + i, text, n) != 0) {
        i++;
    }
    assert_true(i + n <= b->n);
    return i;
}

/* ---- one damage each ---- */

static void test_safetensors(void **state)
{
    struct bytes b = st_zeros("{" THREE ",\"d\":!}", 24);

    (void)state;
    expect(&b, with_data(), "error header");
    bytes_release(&b);
    b = st_zeros("{" ENTRY("a", "F32", "[3]", 0, 8) "," ENTRY("b", "F32", "[2]", 12, 20) ",\"d", 24);
    expect(&b, with_data(), "error size a|error header|error hole b"); /* those before it have theirs */
    b.n = 40;
    expect(&b, with_data(), "error header");
    bytes_release(&b);
}

static void test_npz(void **state)
{
    struct bytes b = sample_npz();
    size_t directory = find(&b, "PK\1\2");

    (void)state;
    b.p[find(&b, "\x93NUMPY") + 130] ^= 1; /* a value of the first: found without a directory, too */
    b.p[b.n - 22] ^= 1;
    expect(&b, with_data(), "error header|error data a");
    b.p[b.n - 22] ^= 1;
    b.p[directory] ^= 1;
    expect(&b, with_data(), "error header"); /* the first record: there are no members before it */
    b.n = directory - 10;
    expect(&b, with_data(), "error header|error member c|error data a");
    b.n = 33;
    expect(&b, with_data(), "error header");
    bytes_release(&b);
}

static void test_torch(void **state)
{
    struct bytes b = sample_torch();
    size_t numbers = find(&b, "archive/data/1") + 14;

    (void)state;
    b.p[find(&b, "}(") + 1] = 0xff;
    expect(&b, headers(), "error header data.pkl|warning checksum data.pkl");
    b.p[numbers] ^= 1;
    expect(&b, with_data(), "error header data.pkl|warning checksum data.pkl|warning checksum data/1");
    bytes_release(&b);

    b = sample_torch();
    b.p[find(&b, "little")] = 'L';
    expect(&b, with_data(), "error member byteorder|warning checksum byteorder");
    bytes_release(&b);
}

static void test_gguf(void **state)
{
    struct bytes b = sample_gguf();
    size_t name = find(&b, "b.weight");

    (void)state;
    b.p[name] = 0xff;
    expect(&b, with_data(), "error name tensor entry 2 of 3");
    b.p[find(&b, "general.architecture")] = 0xff;
    expect(&b, with_data(), "error metadata|error name tensor entry 2 of 3");
    b.p[name - 7] = 1; /* its length: nothing can be told of what is behind it */
    expect(&b, with_data(), "error metadata|error header");
    b.n = name + 4;
    expect(&b, with_data(), "error metadata|error header");
    bytes_release(&b);
}

/* Blocks whose scale is NaN, and a general.file_type of no tensor. */
static void test_blocks(void **state)
{
    const uint64_t dims[] = {32, 1};

    (void)state;
    for (uint32_t type = 0; type < 4; type++) { /* mostly F32, F16, Q4_0, Q4_1 */
        struct gguf_builder g;
        struct bytes b;

        memset(&g, 0, sizeof g);
        gguf_pair_u32(&g, "general.file_type", type == 3 ? 99 : type);
        gguf_tensor(&g, "a.weight", 2, 2, dims, 18);
        b = gguf_finish(&g);
        expect(&b, with_data(), type == 2 ? "" : "warning file-type");
        b.p[b.n - 31] = 0x7e; /* of 18 bytes, up to a multiple of 32 */
        expect(&b, with_data(), type == 2 ? "error scale a.weight" : "error scale a.weight|warning file-type");
        bytes_release(&b);
    }
}

/* ---- folders ---- */

#define PART_1 "model-00001-of-00002.safetensors"
#define PART_2 "model-00002-of-00002.safetensors"
#define INDEX  "model.safetensors.index.json"

static void save_shard(const char *name, const char *header, size_t n)
{
    struct bytes b = st_zeros(header, n);

    (void)save(name, &b);
    bytes_release(&b);
}

static void test_folder(void **state)
{
    static const char *const names[] = {PART_1, PART_2, INDEX, "more.safetensors"};
    static const char good[] = "{\"metadata\":{\"total_size\":32},\"weight_map\":{\"a\":\"" PART_1 "\",\"b\":\"" PART_1
                               "\",\"c\":\"" PART_1 "\",\"d\":\"" PART_2 "\"}}";
    size_t i;

    (void)state;
    save_shard(PART_1, "{" THREE "}", 24);
    save_shard(PART_2, "{" ENTRY("d", "F32", "[2]", 0, 8) "}", 8);
    (void)save_text(INDEX, good);
    expect_at(scratch_folder(), with_data(), "");
    save_shard("more.safetensors", "{" THREE "}", 24);
    expect_at(scratch_folder(), headers(), "warning orphan more.safetensors");
    assert_int_equal(unlink(in_folder("more.safetensors")), 0);

    (void)save_text(INDEX, "{\"weight_map\":{\"a\":\"");
    expect_at(scratch_folder(), with_data(), "error index");
    save_shard(PART_2, "{" ENTRY("d", "F32", "[2]", 0, 9) "}", 8);
    expect_at(scratch_folder(), with_data(), "error index|error offsets d");
    (void)save_text(INDEX, "{\"metadata\":{\"total_size\":32},\"weight_map\":{\"a\":\"" PART_2
                           "\",\"b\":\"../x\",\"c\":3,\"e\":\"" PART_1 "\",\"d\":\"" PART_2 "\"}}");
    expect_at(scratch_folder(), headers(), "error index b|error index c|error offsets d|error index a|error index e");
    save_shard(PART_2, "{" ENTRY("d", "F32", "[2]", 0, 8) "}", 8);
    (void)save_text(INDEX, "{\"metadata\":{\"total_size\":31},\"weight_map\":{\"a\":\"" PART_1 "\",\"b\":\"" PART_1
                           "\",\"c\":\"" PART_1 "\",\"d\":\"" PART_2 "\"}}");
    expect_at(scratch_folder(), headers(), "warning total-size");

    /* In two of them. */
    save_shard(PART_2, "{" ENTRY("d", "F32", "[2]", 0, 8) "," ENTRY("a", "F32", "[2]", 8, 16) "}", 16);
    (void)save_text(INDEX, good);
    expect_at(scratch_folder(), headers(), "error duplicate a|error index a");

    /* A header that ends early explains why its tensors are not there. */
    (void)save_text(INDEX, good);
    save_shard(PART_1, "{" ENTRY("a", "F32", "[2]", 0, 8) ",\"b\":", 24);
    save_shard(PART_2, "{" ENTRY("d", "F32", "[2]", 0, 8) "}", 8);
    expect_at(scratch_folder(), with_data(), "error header " PART_1);
    for (i = 0; i < sizeof names / sizeof names[0]; i++) {
        (void)unlink(in_folder(names[i]));
    }
}

/* ---- any damage ---- */

/* What is of a known format gets a report; what its reader refuses is not fine. */
static void check_one(struct vc_ctx *ctx, const struct bytes *b, uint64_t kept)
{
    const struct vc_verify_options options = support_verify(true);
    enum vc_status walked = walk_bytes(ctx, b->p, b->n, NULL);
    struct vc_verification *v = NULL;
    char path[512];
    int fd = walk_file_open(b->p, b->n, path, sizeof path);
    enum vc_status status = vc_verify(ctx, path, &options, &v);

    assert_true(status == VC_OK || status == walked);
    if (status == VC_OK) {
        assert_true(walked == VC_OK || v->n_errors != 0);
    } else if (status == VC_E_FORMAT) { /* the format is not known */
        assert_non_null(strstr(vc_ctx_message(ctx), "checkpoint"));
    }
    vc_result_free(v);
    walk_file_close(fd, path);
    assert_int_equal(vc_pool_in_use(ctx->shared->pool), kept);
}

/* With all that a context keeps. */
static struct vc_ctx *warm_ctx(uint64_t *kept)
{
    struct vc_ctx *ctx = test_ctx();

    assert_int_equal(vc_ctx_set_threads(ctx, 1), VC_OK);
    assert_non_null(vc_kernels_get(ctx));
    *kept = vc_pool_in_use(ctx->shared->pool);
    return ctx;
}

static void test_cuts(void **state)
{
    uint64_t kept;
    struct vc_ctx *ctx = warm_ctx(&kept);
    size_t k;
    size_t i;

    (void)state;
    for (k = 0; k < N_SAMPLES; k++) {
        struct bytes b = samples[k]();
        size_t n = b.n;

        for (i = 1; i < n; i++) {
            b.n = i;
            check_one(ctx, &b, kept);
        }
        bytes_release(&b);
    }
    vc_ctx_free(ctx);
}

static void test_flips(void **state)
{
    uint64_t kept;
    struct vc_ctx *ctx = warm_ctx(&kept);
    size_t k;
    size_t i;

    (void)state;
    for (k = 0; k < N_SAMPLES; k++) {
        struct bytes b = samples[k]();

        for (i = 0; i < b.n; i++) {
            unsigned char mask = (unsigned char)(1U << i % 8);

            b.p[i] ^= mask;
            check_one(ctx, &b, kept);
            b.p[i] ^= mask;
        }
        bytes_release(&b);
    }
    vc_ctx_free(ctx);
}

static void fail_each(struct vc_ctx *ctx, const struct bytes *b, uint64_t kept)
{
    const struct vc_verify_options options = support_verify(true);
    enum vc_status status = VC_E_NOMEM;
    char path[512];
    int fd = walk_file_open(b->p, b->n, path, sizeof path);
    uint64_t n;

    for (n = 1; status != VC_OK; n++) {
        struct vc_verification *v = NULL;

        vc_pool_fail_at(ctx->shared->pool, n, 0);
        status = vc_verify(ctx, path, &options, &v);
        vc_pool_fail_at(ctx->shared->pool, 0, 0);
        assert_true(status == VC_OK || status == VC_E_NOMEM);
        assert_true(status != VC_OK || v->n_errors != 0);
        vc_result_free(v);
        assert_int_equal(vc_pool_in_use(ctx->shared->pool), kept);
    }
    assert_true(n > 5);
    walk_file_close(fd, path);
}

/* Cut in the middle, with every allocation failing once. */
static void test_allocations(void **state)
{
    uint64_t kept;
    struct vc_ctx *ctx = warm_ctx(&kept);
    size_t k;

    (void)state;
    for (k = 0; k < N_SAMPLES; k++) {
        struct bytes b = samples[k]();

        b.n -= b.n / 3;
        fail_each(ctx, &b, kept);
        bytes_release(&b);
    }
    {
        struct bytes b = sample_torch();

        b.p[find(&b, "}(") + 1] = 0xff;
        fail_each(ctx, &b, kept);
        bytes_release(&b);
    }
    vc_ctx_free(ctx);
}

/* Without its directory a zip file is read member by member: each byte is another one, in several ways. */
static void test_lost_directory(void **state)
{
    static const unsigned char masks[] = {0x01, 0x08, 0x20, 0xff};
    static const struct member_options ways[] = {
        {.deflate = true, .level = -1}, {.local64 = true}, {.descriptor = DESCRIPTOR_32}, {.utf8 = true}};
    uint64_t kept;
    struct vc_ctx *ctx = warm_ctx(&kept);
    struct zip_builder z = {0};
    struct bytes b;
    size_t i;
    size_t k;

    (void)state;
    for (i = 0; i < sizeof ways / sizeof *ways; i++) {
        static const char *const names[] = {"a.npy", "b.npy", "d.npy", "\xc3\xa4.npy"};

        zip_add_bytes(&z, names[i < 2 ? i : 5 - i], npy_matrix(2, 2), &ways[i < 2 ? i : 5 - i]);
    }
    zip_finish(&z, ZIP_END_PLAIN, 0);
    b = z.out;
    b.n = z.directory;
    for (i = 0; i < b.n; i++) {
        for (k = 0; k < sizeof masks; k++) {
            b.p[i] ^= masks[k];
            check_one(ctx, &b, kept);
            b.p[i] ^= masks[k];
        }
    }
    zip_release(&z);
    vc_ctx_free(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_safetensors), cmocka_unit_test(test_npz),    cmocka_unit_test(test_torch),
        cmocka_unit_test(test_gguf),        cmocka_unit_test(test_blocks), cmocka_unit_test(test_folder),
        cmocka_unit_test(test_cuts),        cmocka_unit_test(test_flips),  cmocka_unit_test(test_lost_directory),
        cmocka_unit_test(test_allocations),
    };

    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
