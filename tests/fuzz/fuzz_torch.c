/* fuzz_torch.c - any bytes as a PyTorch file: as they are where they begin like one (an archive, a legacy file), and
 * any pickle as the data.pkl of an archive with a few storages, or with those that a list in front of it says, so that
 * the fuzzer does not have to guess CRCs and offsets:
 *
 *     'M' | u8 n | n times: u8 name | u8 kind | u16 size (12 bits), little-endian | pickle
 *     name  bits 0-2: which of the names below    bit 3: in another folder than data.pkl
 *     kind  bit 0: deflated    bit 1: a byte of its local header is wrong, which one say bits 3-7
 *
 * Opened, read, and planned as a job for a PyTorch output, which writes the tree again. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <vcompress/job.h>

#include "core/base/checked.h"
#include "fuzz_target.h"
#include "support_options.h"
#include "torch_builder.h"

#define MAX_BYTES    ((size_t)1 << 16)
#define MAX_MEMBERS  12
#define MEMBER_BYTES 4 /* in the list */

/* A plan to write it as it is: everything but the values passes through the writer. */
static void plan_copy(const struct bytes *b)
{
    struct vc_write_options write = support_write("x.pt");
    struct vc_ctx *ctx = fuzz_ctx();
    struct vc_model *model = NULL;
    struct vc_job *job = NULL;
    const char *path = fuzz_file(b->p, b->n);

    write.dry_run = true;
    if (vc_model_open(ctx, path, NULL, &model) == VC_OK && vc_job_create(ctx, model, &job) == VC_OK) {
        enum vc_status status = vc_job_plan(ctx, job, &write);

        if (status == VC_E_INTERNAL || (status == VC_OK) != (vc_ctx_message(ctx)[0] == '\0')) {
            fprintf(stderr, "broken promise: %s\n", vc_ctx_message(ctx));
            abort();
        }
    }
    vc_job_free(job);
    vc_model_close(model);
    if (fuzz_in_use() != 0) {
        fprintf(stderr, "broken promise: all memory is given back\n");
        abort();
    }
}

static void whole(struct bytes *b)
{
    fuzz_one(b->p, b->n, VC_DTYPE_RAW);
    plan_copy(b);
    bytes_release(b);
}

/* A storage as the list has it; all its bytes are 1. */
static void add_storage(struct zip_builder *z, const uint8_t *say)
{
    static const char *const keys[] = {"0", "1", "2", "3", "4", "w", "01", "0123456789"};
    static const struct member_options deflated = {.deflate = true, .level = 1};
    struct bytes data = {NULL, 0, 0};
    char name[40];

    bytes_fill(&data, 1, vc_le16(say + 2) & 0xfff);
    snprintf(name, sizeof name, "%s/data/%s", say[0] & 8 ? "other" : "archive", keys[say[0] & 7]);
    zip_add_bytes(z, name, data, say[1] & 1 ? &deflated : NULL);
    if (say[1] & 2) {
        z->out.p[z->members[z->n - 1].local + (say[1] >> 3) % 30] ^= 1;
    }
}

static void listed(const uint8_t *data, size_t n)
{
    size_t n_members = data[0] % (MAX_MEMBERS + 1);
    struct zip_builder z;
    size_t i;

    data++;
    n--;
    if (n < n_members * MEMBER_BYTES) {
        return;
    }
    memset(&z, 0, sizeof z);
    zip_add(&z, "archive/data.pkl", data + n_members * MEMBER_BYTES, n - n_members * MEMBER_BYTES, NULL);
    for (i = 0; i < n_members; i++) {
        add_storage(&z, data + i * MEMBER_BYTES);
    }
    zip_finish(&z, ZIP_END_PLAIN, 0);
    whole(&z.out);
    z.out = (struct bytes){NULL, 0, 0};
    zip_release(&z);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static const size_t sizes[] = {48, 24, 5, 0, 2048};

    if (n >= 4 && (memcmp(data, "PK", 2) == 0 || memcmp(data, "\x80\x02\x8a\x0a", 4) == 0)) {
        fuzz_one(data, n, VC_DTYPE_RAW);
    } else if (n > 2 && data[0] == 0x80 && n < MAX_BYTES) {
        struct bytes pickle = {NULL, 0, 0};
        struct bytes b;

        bytes_add(&pickle, data, n);
        b = torch_archive(&pickle, "little", sizes, sizeof sizes / sizeof sizes[0], NULL);
        whole(&b);
        bytes_release(&pickle);
    } else if (n > 2 && data[0] == 'M' && n < MAX_BYTES) {
        listed(data + 1, n - 1);
    }
    return 0;
}
