/* test_digest.c - vc_job_digest: which files it reads, and when it refuses. Judge: a digest that sha256sum printed; the
 * command's test compares others with sha256sum (tests/cli/cases/digest.test). */
#include <unistd.h>

#include "scratch.h"
#include "support.h"

/* An npy of two f32 ones, which convert copies byte for byte. */
static void save_source(void)
{
    static const char header[] = "\x93NUMPY\x01\x00\x76\x00{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }";
    unsigned char file[136];
    struct bytes b;

    memset(file, ' ', sizeof file);
    memcpy(file, header, sizeof header - 1);
    file[127] = '\n';
    for (size_t i = 128; i < sizeof file; i += 4) {
        memcpy(file + i, "\x00\x00\x80\x3f", 4);
    }
    b = (struct bytes){.p = file, .n = sizeof file};
    (void)save("in.npy", &b);
}

static void test_digest(void **unused)
{
    struct vc_ctx *ctx = test_ctx();
    struct vc_model *model = NULL;
    struct vc_job *job = NULL;
    struct vc_write_options write;

    (void)unused;
    if (vc_name_at(VC_NAMES_DIGESTS, 0) == NULL) {
        skip();
    }
    save_source();
    assert_int_equal(vc_model_open(ctx, in_folder("in.npy"), NULL, &model), VC_OK);
    assert_int_equal(vc_job_create(ctx, model, &job), VC_OK);
    assert_int_equal(vc_job_digest(ctx, job), VC_E_ARGUMENT); /* nothing is written yet */
    expect_says(ctx, "has written nothing");
    vc_write_defaults(&write);
    write.path = in_folder("out.npy");
    assert_int_equal(vc_job_plan(ctx, job, &write), VC_OK);
    assert_int_equal(vc_job_run(ctx, job), VC_OK);
    assert_int_equal(vc_job_report(job)->n_files, 0);
    assert_int_equal(vc_job_digest(ctx, job), VC_OK);
    assert_int_equal(vc_job_report(job)->n_files, 1);
    assert_string_equal(vc_job_report(job)->files[0].path, in_folder("out.npy"));
    assert_int_equal(vc_job_report(job)->files[0].size_bytes, 136);
    assert_string_equal(vc_job_report(job)->files[0].sha256,
                        "b7f29327119fce464131b5c57b3bb681b69e145599cd43ec4e7f9eaadb28a691");
    assert_int_equal(vc_job_digest(ctx, job), VC_OK); /* again */
    assert_int_equal(vc_job_report(job)->n_files, 1);
    assert_int_equal(unlink(in_folder("out.npy")), 0);
    assert_int_equal(vc_job_digest(ctx, job), VC_E_IO);
    expect_says(ctx, "out.npy: cannot be read back");
    vc_job_free(job);
    vc_model_close(model);
    vc_ctx_free(ctx);
    remove_path("in.npy");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_digest),
    };

    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
