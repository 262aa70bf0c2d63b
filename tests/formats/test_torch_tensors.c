/* test_torch_tensors.c - how a tensor stands in a pickle: the forms that are read, each wrong one with its sentence,
 * and every byte of a checkpoint changed, which is read calmly, planned as a copy and gives all memory back. Judge: the
 * sentences, written by hand. */
#include <vcompress/job.h>

#include "torch_files.h"

#define TEXT_STORAGE                       "X\7\0\0\0storage"
#define TORCH(name)                        "ctorch\n" name "\n"
#define UTILS(name)                        "ctorch._utils\n" name "\n"
#define ID(class, key, numel)              "(" TEXT_STORAGE class key "X\3\0\0\0cpu" numel "tQ"
#define FLOATS                             ID(TORCH("FloatStorage"), "X\1\0\0\0\60", "M\0\2")    /* key "0", 512 */
#define UNTYPED                            ID(TORCH("UntypedStorage"), "X\1\0\0\0\60", "M\0\10") /* 2048 bytes */
#define SIZE                               "(K\10K\100t"                                         /* (8, 64) */
#define STRIDE                             "(K\100K\1t"
#define DICT                               "ccollections\nOrderedDict\n)R"
#define MADE(function, args)               UTILS(function) "(" args "tR"
#define V2(storage, offset, size, strides) MADE("_rebuild_tensor_v2", storage offset size strides "\x89" DICT)
#define PLAIN                              V2(FLOATS, "K\0", SIZE, STRIDE)
#define V3(dtype)                          MADE("_rebuild_tensor_v3", UNTYPED "K\0" SIZE STRIDE "\x89" DICT dtype)

struct form {
    const char *ops;
    size_t n;
    const char *words; /* of the refusal; NULL: it is a tensor of 512 numbers */
};

#define FORM(ops, words)            \
    {                               \
        ops, sizeof(ops) - 1, words \
    }

static const struct form forms[] = {
    FORM(PLAIN, NULL),
    FORM(MADE("_rebuild_tensor", FLOATS "K\0" SIZE STRIDE), NULL),
    FORM(MADE("_rebuild_tensor_v2", FLOATS "K\0" SIZE STRIDE "\x88" DICT "}"), NULL),
    FORM(V2(FLOATS, "K\0", TORCH("Size") "(" SIZE "tR", STRIDE), NULL),
    FORM(V2(FLOATS, "K\0", "](K\10K\100e", "](K\100K\1e"), NULL),
    FORM(V2(FLOATS, "K\0", "(K\10K\1K\100t", "(K\100K\7K\1t"), NULL), /* the stride of one row does not matter */
    FORM(V3(TORCH("float32")), NULL),
    FORM(V2(ID("ctorch.cuda\nFloatStorage\n", "X\1\0\0\0\60", "M\0\2"), "K\0", SIZE, STRIDE), NULL),
    FORM(MADE("_rebuild_parameter", PLAIN "\x88" DICT), NULL),
    FORM(MADE("_rebuild_parameter_with_state", PLAIN "\x88" DICT "}"), NULL),
    FORM("ctorch._tensor\n_rebuild_from_type_v2\n(" UTILS("_rebuild_tensor_v2") "cmine\nTensor\n(" FLOATS
                                                                                "K\0" SIZE STRIDE "\x89" DICT "t}tR",
         NULL),
    FORM("ctorch._tensor\n_rebuild_from_type\n(" UTILS("_rebuild_tensor_v2") "cmine\nTensor\n(" FLOATS "K\0" SIZE STRIDE
                                                                             "\x89" DICT "ttR",
         NULL),
    /* lazy views, and tensors of other kinds */
    FORM(MADE("_rebuild_tensor_v2", FLOATS "K\0" SIZE STRIDE "\x89" DICT "}X\4\0\0\0conj\x88s"),
         "is a conjugated view; resolve_conj() it first"),
    FORM(MADE("_rebuild_tensor_v2", FLOATS "K\0" SIZE STRIDE "\x89" DICT "}X\3\0\0\0neg\x88s"),
         "is a negated view; resolve_neg() it first"),
    FORM(MADE("_rebuild_qtensor", "K\1"), "is quantized by PyTorch, with scales of its own"),
    FORM(V2(ID(TORCH("QInt8Storage"), "X\1\0\0\0\60", "M\0\10"), "K\0", SIZE, STRIDE), "is quantized by PyTorch"),
    FORM(MADE("_rebuild_sparse_csr_tensor", "K\1"), "is a sparse tensor"),
    FORM(MADE("_rebuild_nested_tensor", "K\1"), "is a nested tensor"),
    FORM(MADE("_rebuild_meta_tensor_no_storage", "K\1"), "is on the meta device"),
    FORM(MADE("_rebuild_wrapper_subclass", "K\1"), "is a wrapper of other tensors"),
    FORM(MADE("_rebuild_later", "K\1"), "is made by torch._utils._rebuild_later, which is not known"),
    FORM(MADE("_rebuild_parameter", "cmine\nNet\n)R\x88" DICT),
         "is a parameter around something that is no plain tensor"),
    FORM(MADE("_rebuild_parameter", "K\1\x88" DICT), "is a parameter around something that is no plain tensor"),
    FORM(V3(TORCH("float1")), "has elements of the type torch.float1, which is not known"),
    FORM(V3("cmine\nfloat32\n"), "has elements of the type mine.float32, which is not known"),
    FORM(FLOATS, "is a bare storage, no tensor"),
    /* storages */
    FORM(V2("N", "K\0", SIZE, STRIDE), "its storage is no ('storage', class, key, location, size)"),
    FORM(V2("K\1Q", "K\0", SIZE, STRIDE), "a persistent id that is no ('storage'"),
    FORM(V2("(X\4\0\0\0blobK\1K\2K\3K\4tQ", "K\0", SIZE, STRIDE), "a persistent id that is no ('storage'"),
    FORM(V2("(" TEXT_STORAGE "K\1K\2tQ", "K\0", SIZE, STRIDE), "a persistent id that is no ('storage'"),
    FORM(V2(ID("N", "X\1\0\0\0\60", "M\0\2"), "K\0", SIZE, STRIDE),
         "its storage is of the class ?, which is not known"),
    FORM(V2(ID("cmine\nFloatStorage\n", "X\1\0\0\0\60", "M\0\2"), "K\0", SIZE, STRIDE),
         "of the class mine.FloatStorage"),
    FORM(V2(ID(TORCH("MyStorage"), "X\1\0\0\0\60", "M\0\2"), "K\0", SIZE, STRIDE), "of the class torch.MyStorage"),
    FORM(V2(ID(TORCH("FloatStorage"), "K\1", "M\0\2"), "K\0", SIZE, STRIDE), "the key of its storage is no plain name"),
    FORM(V2(ID(TORCH("FloatStorage"), "X\0\0\0\0", "M\0\2"), "K\0", SIZE, STRIDE),
         "the key of its storage is no plain name"),
    FORM(V2(ID(TORCH("FloatStorage"), "X\3\0\0\0\60/\61", "M\0\2"), "K\0", SIZE, STRIDE),
         "the key of its storage is no plain name"),
    FORM(V2(ID(TORCH("FloatStorage"), "X\2\0\0\0\60\0", "M\0\2"), "K\0", SIZE, STRIDE),
         "the key of its storage is no plain name"),
    FORM(V2(ID(TORCH("FloatStorage"), "X\1\0\0\0\60", "N"), "K\0", SIZE, STRIDE),
         "the size of its storage is no number from 0 on"),
    FORM(V2(ID(TORCH("FloatStorage"), "X\1\0\0\0\60", "J\xff\xff\xff\xff"), "K\0", SIZE, STRIDE),
         "the size of its storage is no number"),
    FORM(V2(ID(TORCH("FloatStorage"), "X\1\0\0\0\60", "\x8a\10\0\0\0\0\0\0\0\x7f"), "K\0", SIZE, STRIDE),
         "its storage has more than 2^64 bytes"),
    FORM(V2(UNTYPED, "K\0", SIZE, STRIDE), "its storage is untyped, and nothing tells the type of its elements"),
    /* arguments */
    FORM(MADE("_rebuild_tensor_v2", FLOATS "K\0" SIZE), "is made from 3 arguments, expected 4 or more"),
    FORM(UTILS("_rebuild_tensor_v2") "NR", "no tuple"),
    FORM(V2(FLOATS, "J\xff\xff\xff\xff", SIZE, STRIDE), "its offset is no number from 0 on"),
    FORM(V2(FLOATS, "K\0", "K\1", STRIDE), "its sizes are no tuple"),
    FORM(V2(FLOATS, "K\0", SIZE, "N"), "its strides are no tuple"),
    FORM(V2(FLOATS, "K\0", "(K\10Nt", STRIDE), "its sizes are no whole numbers from 0 on"),
    FORM(V2(FLOATS, "K\0", SIZE, "(K\100J\xff\xff\xff\xfft"), "its strides are no whole numbers from 0 on"),
    FORM(V2(FLOATS, "K\0", SIZE, "(K\1t"), "has 2 sizes, but 1 strides"),
    FORM(V2(FLOATS, "K\1", SIZE, STRIDE), "reaches beyond its storage of 512 elements (offset 1)"),
    FORM(V2(FLOATS, "K\0", "(K\10K\101t", STRIDE), "reaches beyond its storage"),
    FORM(V2(FLOATS, "K\0", SIZE, "(\x8a\10\0\0\0\0\0\0\0\x7fK\1t"), "reaches beyond its storage"),
    FORM(V2(FLOATS, "K\0", "(\x8a\10\0\0\0\0\0\0\0\x7f\x8a\10\0\0\0\0\0\0\0\x7ft", STRIDE),
         "its shape has more than 2^64 elements"),
    FORM(V2(FLOATS, "K\0", "(\x8a\10\0\0\0\0\0\0\0\x20K\1t", STRIDE), "its shape needs more than 2^63 bytes"),
    FORM(V2(FLOATS, "K\0", "(J\0\0\0\1K\10t", "(K\0K\0t"),
         "repeats a storage of 512 elements until they are 134217728"),
    FORM(MADE("_rebuild_tensor_v3", UNTYPED "K\0" SIZE STRIDE "\x89" DICT "N"),
         "nothing tells the type of its elements"),
    FORM(MADE("_rebuild_tensor_v3", UNTYPED "K\0" SIZE STRIDE), "nothing tells the type of its elements"),
};

static const size_t one_storage[] = {2048};

/* {"w": what these opcodes make} */
static struct bytes archive_of(const struct form *form)
{
    struct bytes pickle = {NULL, 0, 0};
    struct bytes b;

    pk_start(&pickle);
    pk_raw(&pickle, "}");
    pk_string(&pickle, "w");
    bytes_add(&pickle, form->ops, form->n);
    pk_raw(&pickle, "s.");
    b = torch_archive(&pickle, "little", one_storage, 1, NULL);
    bytes_release(&pickle);
    return b;
}

/* What it says of the bytes, which it wants refused. */
static bool says(const struct bytes *b, const char *words)
{
    struct vc_ctx *ctx = test_ctx();
    enum vc_status status = walk_bytes(ctx, b->p, b->n, NULL);
    bool right = (status == VC_E_FORMAT || status == VC_E_UNSUPPORTED) && strstr(vc_ctx_message(ctx), words) != NULL;

    if (!right) {
        print_message("%s: \"%s\", expected \"%s\"\n", vc_status_name(status), vc_ctx_message(ctx), words);
    }
    test_ctx_done(ctx);
    return right;
}

static void test_forms(void **state)
{
    size_t n_wrong = 0;
    size_t i;

    (void)state;
    for (i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        struct bytes b = archive_of(&forms[i]);
        struct vc_ctx *ctx = test_ctx();
        struct vc_model *model;
        char what[16];

        snprintf(what, sizeof what, "form %zu", i);
        if (forms[i].words == NULL) {
            (void)save("f.pt", &b);
            model = open_saved(ctx, "f.pt", NULL);
            if (model->n_tensors != 1 || model->tensors[0].n_elems != 512 || model->tensors[0].dtype != VC_DTYPE_F32) {
                fail_msg("%s: no tensor of 512 numbers", what);
            }
            vc_model_close(model);
            expect_good(what, b.p, b.n);
        } else {
            n_wrong += !says(&b, forms[i].words);
        }
        test_ctx_done(ctx);
        bytes_release(&b);
    }
    assert_int_equal(n_wrong, 0);
}

/* A copy is planned: all of the tree passes through the writer. */
static void plan_copy(struct vc_ctx *ctx, const char *path)
{
    struct vc_write_options write = support_write("x.pt");
    struct vc_model *model = NULL;
    struct vc_job *job = NULL;
    enum vc_status status;

    write.dry_run = true;
    status = vc_model_open(ctx, path, NULL, &model);
    status = status == VC_OK ? vc_job_create(ctx, model, &job) : status;
    status = status == VC_OK ? vc_job_plan(ctx, job, &write) : status;
    assert_true(status == VC_OK || status == VC_E_FORMAT || status == VC_E_UNSUPPORTED);
    assert_int_equal(vc_ctx_message(ctx)[0] != '\0', status != VC_OK);
    vc_job_free(job);
    vc_model_close(model);
    assert_int_equal(vc_pool_in_use(ctx->shared->pool), 0);
}

/* Every byte of a training checkpoint's pickle. */
static void test_changed_bytes(void **state)
{
    static const unsigned char masks[] = {0x01, 0x04, 0x10, 0x20, 0xff};
    struct vc_ctx *ctx = test_ctx();
    struct bytes pickle = training_pickle();
    size_t i;
    size_t k;

    (void)state;
    for (i = 0; i < pickle.n; i++) {
        for (k = 0; k < sizeof masks; k++) {
            struct bytes b;

            pickle.p[i] ^= masks[k];
            b = torch_archive(&pickle, "little", training_sizes, 4, NULL);
            pickle.p[i] ^= masks[k];
            expect_calm(ctx, b.p, b.n);
            (void)save("t.pt", &b);
            plan_copy(ctx, in_folder("t.pt"));
            bytes_release(&b);
        }
    }
    bytes_release(&pickle);
    test_ctx_done(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_forms),
        cmocka_unit_test(test_changed_bytes),
    };

    return cmocka_run_group_tests(tests, scratch_make, scratch_clear);
}
