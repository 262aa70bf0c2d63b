/* test_torch_args.c - the arguments that tensors of a PyTorch file are made from: storages that are views of others,
 * untyped ones, classes of every module; and each argument as something that it may not be. Each is an archive by hand
 * with one tensor "w" in it. */
#include "torch_files.h"

#include <stdlib.h>

#define FLOATS  "ctorch\nFloatStorage\n"
#define ID(ops) "(U\7storage" ops "tQ"
#define PLAIN   ID(FLOATS "U\0010U\3cpuK\014")
#define DIMS    "(K\014t(K\1t"
#define REST \
    "\x89"   \
    "ccollections\nOrderedDict\n)R"
#define STORAGE(ops) ID(ops) "K\0" DIMS REST
#define VIEW(ops)    ID(FLOATS "U\0010U\3cpuK\014" ops) "K\0(K\4t(K\1t" REST

/* Bytes of a constant with zeros in it. */
#define OPS(ops) ops, sizeof(ops) - 1

static const struct {
    const char *function;
    const char *ops;
    size_t n;
    const char *needle; /* NULL: it is fine */
} cases[] = {
    {"_rebuild_tensor_v2", OPS(PLAIN "K\0" DIMS REST), NULL},
    {"_rebuild_tensor", OPS(PLAIN "K\0" DIMS), NULL},
    {"_rebuild_tensor_v2", OPS(PLAIN "K\0" DIMS), NULL}, /* without the rest */
    {"_rebuild_tensor_v2", OPS(STORAGE("ctorch.cuda\nFloatStorage\nU\0010U\3cpuK\014")), NULL},
    {"_rebuild_tensor_v2",
     OPS(PLAIN "K\0ctorch\nSize\n((K\3K\4tt"
               "R(K\4K\1t" REST),
     NULL},
    {"_rebuild_tensor_v2", OPS(PLAIN "K\0](K\3K\4e](K\4K\1e" REST), NULL}, /* lists */
    {"_rebuild_tensor_v2", OPS(PLAIN "K\014(t(t" REST), "reaches beyond its storage of 12 elements (offset 12)"},
    /* The identity of the storage. */
    {"_rebuild_tensor_v2",
     OPS("K\1Q"
         "K\0" DIMS REST),
     "is no ('storage', class, key, location, size)"},
    {"_rebuild_tensor_v2",
     OPS("K\1"
         "K\0" DIMS REST),
     "is no ('storage', class, key, location, size)"},
    {"_rebuild_tensor_v2", OPS(STORAGE(FLOATS "U\0010U\3cpu")), "is no ('storage', class, key"},
    {"_rebuild_tensor_v2",
     OPS("(U\7strange" FLOATS "U\0010U\3cpuK\014tQ"
         "K\0" DIMS REST),
     "is no ('storage', class, key"},
    {"_rebuild_tensor_v2", OPS(STORAGE("K\1U\0010U\3cpuK\014")), "its storage is of the class"},
    {"_rebuild_tensor_v2", OPS(STORAGE("cos\nsystem\nU\0010U\3cpuK\014")), "its storage is of the class os.system"},
    {"_rebuild_tensor_v2", OPS(STORAGE("ctorch\nOddStorage\nU\0010U\3cpuK\014")), "of the class torch.OddStorage"},
    {"_rebuild_tensor_v2", OPS(STORAGE("ctorch.storage\nUntypedStorage\nU\0010U\3cpuK\060")),
     "its storage is untyped, and nothing tells the type of its elements"},
    {"_rebuild_tensor_v2", OPS(STORAGE("ctorch.storage\n_UntypedStorage\nU\0010U\3cpuK\060")),
     "its storage is untyped, and nothing tells the type of its elements"},
    {"_rebuild_tensor_v2", OPS(STORAGE(FLOATS "K\1U\3cpuK\014")), "the key of its storage is no plain name"},
    {"_rebuild_tensor_v2", OPS(STORAGE(FLOATS "U\0U\3cpuK\014")), "the key of its storage is no plain name"},
    {"_rebuild_tensor_v2", OPS(STORAGE(FLOATS "U\3a/bU\3cpuK\014")), "the key of its storage is no plain name"},
    {"_rebuild_tensor_v2", OPS(STORAGE(FLOATS "U\3a\0bU\3cpuK\014")), "the key of its storage is no plain name"},
    {"_rebuild_tensor_v2", OPS(STORAGE(FLOATS "U\0010U\3cpuN")), "the size of its storage is no number from 0 on"},
    {"_rebuild_tensor_v2", OPS(STORAGE(FLOATS "U\0010U\3cpuJ\377\377\377\377")), "the size of its storage is no"},
    {"_rebuild_tensor_v2", OPS(STORAGE(FLOATS "U\0010U\3cpu\x8a\x08\377\377\377\377\377\377\377\177")),
     "storage"}, /* of 2^65 bytes */
    /* Offset, sizes, strides. */
    {"_rebuild_tensor_v2", OPS(PLAIN "N" DIMS REST), "its offset is no number from 0 on"},
    {"_rebuild_tensor_v2", OPS(PLAIN "J\377\377\377\377" DIMS REST), "its offset is no number from 0 on"},
    {"_rebuild_tensor_v2", OPS(PLAIN "K\0N(K\1t" REST), "its sizes are no tuple"},
    {"_rebuild_tensor_v2", OPS(PLAIN "K\0K\014(K\1t" REST), "its sizes are no tuple"},
    {"_rebuild_tensor_v2", OPS(PLAIN "K\0ctorch\nSize\n)R(K\1t" REST), "its sizes are no tuple"},
    {"_rebuild_tensor_v2", OPS(PLAIN "K\0(Nt(K\1t" REST), "its sizes are no whole numbers from 0 on"},
    {"_rebuild_tensor_v2", OPS(PLAIN "K\0(K\014t(J\377\377\377\377t" REST), "its strides are no whole numbers"},
    {"_rebuild_tensor_v2", OPS(PLAIN "K\0(K\014t(t" REST), "has 1 sizes, but 0 strides"},
    {"_rebuild_tensor_v2", OPS(PLAIN "K\0(K\014t"), "is made from 3 arguments, expected 4 or more"},
    {"_rebuild_tensor_v2", OPS(PLAIN "K\0(\x8a\x08\0\0\0\0\0\0\0\100\x8a\x08\0\0\0\0\0\0\0\100t(K\1K\1t" REST),
     "its shape has more than 2^64 elements"},
    {"_rebuild_tensor_v2", OPS(PLAIN "K\0(\x8a\x08\0\0\0\0\0\0\0\100t(K\0t" REST),
     "its shape needs more than 2^63 bytes"},
    {"_rebuild_tensor_v2", OPS(PLAIN "K\0(K\2t(\x8a\x08\377\377\377\377\377\377\377\177t" REST), "reaches beyond"},
    {"_rebuild_tensor_v2",
     OPS(PLAIN "K\1(K\3K\3t(\x8a\x08\377\377\377\377\377\377\377\177"
               "\x8a\x08\377\377\377\377\377\377\377\177t" REST),
     "reaches beyond"},
    {"_rebuild_tensor_v2", OPS(PLAIN "K\0(J\0\0\1\0K\2t(K\0K\0t" REST), "repeats a storage of 12 elements"},
    /* The type of the elements. */
    {"_rebuild_tensor_v3", OPS(PLAIN "K\0" DIMS REST "ctorch\nfloat32\n"), NULL},
    {"_rebuild_tensor_v3", OPS(STORAGE("ctorch.storage\nUntypedStorage\nU\0010U\3cpuK\060") "ctorch\nfloat32\n"), NULL},
    {"_rebuild_tensor_v3", OPS(PLAIN "K\0" DIMS REST), "nothing tells the type of its elements"},
    {"_rebuild_tensor_v3", OPS(PLAIN "K\0" DIMS REST "K\1"), "nothing tells the type of its elements"},
    {"_rebuild_tensor_v3", OPS(PLAIN "K\0" DIMS REST "ctorch\nfloat99\n"), "has elements of the type torch.float99"},
    {"_rebuild_tensor_v3", OPS(PLAIN "K\0" DIMS REST "cnumpy\nfloat32\n"), "has elements of the type numpy.float32"},
};

/* Legacy files: a storage may be a part of another one: key, offset, size. */
static const struct {
    const char *ops;
    size_t n;
    const char *needle;
} views[] = {
    {OPS(VIEW("N")), NULL},
    {OPS(VIEW("(U\1vK\2K\4t")), NULL},
    {OPS(VIEW("(U\1vK\011K\3t")), "reaches beyond its storage"},
    {OPS(VIEW("(U\1vK\011K\4t")), "its storage is no part of the one that it is a view of"},
    {OPS(VIEW("(U\1vK\2t")), "its storage is no part of the one that it is a view of"},
    {OPS(VIEW("K\1")), "its storage is no part of the one that it is a view of"},
    {OPS(VIEW("(U\1vNK\4t")), "its storage is no part of the one that it is a view of"},
    {OPS(VIEW("(U\1vK\1J\377\377\377\377t")), "its storage is no part of the one"},
    {OPS(VIEW("NN")), "is no ('storage', class, key, location, size)"},
};

static void expect_one(const char *what, const struct bytes *b, const char *needle)
{
    if (needle == NULL) {
        expect_good(what, b->p, b->n);
    } else {
        expect_bad(what, b->p, b->n, needle);
    }
}

/* A dict with w, of which the function makes a tensor. */
static struct bytes pickle_of(const char *function, const char *ops, size_t n)
{
    struct bytes pickle = {NULL, 0, 0};

    pk_start(&pickle);
    pk_raw(&pickle, "}");
    pk_string(&pickle, "w");
    pk_global(&pickle, "torch._utils", function);
    pk_raw(&pickle, "(");
    bytes_add(&pickle, ops, n);
    pk_raw(&pickle, "tRs.");
    return pickle;
}

static void views_of_storages(void **state)
{
    static const size_t numels[] = {12};
    static const size_t items[] = {4};

    (void)state;
    for (size_t k = 0; k < sizeof views / sizeof *views; k++) {
        struct bytes pickle = pickle_of("_rebuild_tensor_v2", views[k].ops, views[k].n);
        struct bytes b = torch_legacy(&pickle, numels, items, 1);
        char what[64];

        snprintf(what, sizeof what, "view %zu", k);
        expect_one(what, &b, views[k].needle);
        bytes_release(&b);
        bytes_release(&pickle);
    }
}

static void arguments(void **state)
{
    static const size_t sizes[] = {48};

    (void)state;
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        struct bytes pickle = pickle_of(cases[k].function, cases[k].ops, cases[k].n);
        struct bytes b = torch_archive(&pickle, "little", sizes, 1, NULL);
        char what[64];

        snprintf(what, sizeof what, "case %zu", k);
        expect_one(what, &b, cases[k].needle);
        bytes_release(&b);
        bytes_release(&pickle);
    }
}

/* More sizes than a tensor can have, and a key of 1001 bytes. */
static void too_much(void **state)
{
    static const size_t sizes[] = {48};
    char key[1002];

    (void)state;
    memset(key, 'k', sizeof key - 1);
    key[sizeof key - 1] = '\0';
    for (unsigned k = 0; k < 2; k++) {
        struct bytes pickle = {NULL, 0, 0};
        struct bytes dims = {NULL, 0, 0};
        struct bytes b;

        for (unsigned d = 0; d <= VC_MAX_DIMS; d++) {
            bytes_add(&dims, "1,", d == VC_MAX_DIMS ? 1 : 2);
        }
        bytes_add(&dims, "", 1);
        pk_start(&pickle);
        pk_raw(&pickle, "}");
        pk_string(&pickle, "w");
        pk_tensor(&pickle, "FloatStorage", k == 0 ? "0" : key, 12, 0, k == 0 ? (char *)dims.p : "12",
                  k == 0 ? (char *)dims.p : "1");
        pk_raw(&pickle, "s.");
        b = torch_archive(&pickle, "little", sizes, 1, NULL);
        expect_bad("too much", b.p, b.n, k == 0 ? "dimensions" : "the key of its storage is no plain name");
        bytes_release(&b);
        bytes_release(&dims);
        bytes_release(&pickle);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(arguments), cmocka_unit_test(views_of_storages),
                                       cmocka_unit_test(too_much)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
