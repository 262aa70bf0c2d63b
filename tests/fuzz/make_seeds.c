/* make_seeds.c - writes the seeds of the fuzz corpus: make_seeds FOLDER makes FOLDER/npy, FOLDER/npz and other files,
 * small ones of every kind that the readers know. The rest of the kept corpus was found by the fuzzers. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "folder_builder.h"
#include "gguf_builder.h"
#include "llm_builder.h"
#include "onnx_builder.h"
#include "seed_layouts.h"
#include "torch_builder.h"
#include "zip_builder.h"

static const char *root;

static void save(const char *kind, const char *name, const struct bytes *b)
{
    char path[1024];
    FILE *f;

    snprintf(path, sizeof path, "%s/%s/seed-%s", root, kind, name);
    f = fopen(path, "wb");
    if (f == NULL || fwrite(b->p, 1, b->n, f) != b->n || fclose(f) != 0) {
        perror(path);
        exit(1);
    }
}

static void save_npy(const char *name, struct bytes b)
{
    save("npy", name, &b);
    bytes_release(&b);
}

static void save_zip(const char *name, struct zip_builder *z)
{
    save("npz", name, &z->out);
    zip_release(z);
}

static void npy_seeds(void)
{
    static const unsigned char data[96] = {1, 2, 3, 4, 5, 6, 7, 8};
    static const char *const kinds[] = {"<f4", ">f4", "<f2", ">f8", "|b1", "<c8", ">c16", "<u2", "|V2", "|V3"};
    static const size_t sizes[] = {4, 4, 2, 8, 1, 8, 16, 2, 2, 3};
    struct bytes one = npy_matrix(3, 4);
    struct bytes v = {NULL, 0, 0};
    size_t i;

    for (i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        char name[32];

        snprintf(name, sizeof name, "dtype-%zu", i);
        save_npy(name, npy_array(kinds[i], i % 2 == 1, "(2, 3)", data, 6 * sizes[i]));
    }
    save_npy("scalar", npy_array("<i8", false, "()", data, 8));
    save_npy("empty", npy_array("<f4", false, "(0, 3)", data, 0));
    save_npy("fortran", npy_array("<i1", true, "(2, 3, 4)", data, 24));
    save_npy("python2", npy_text("{\"shape\": (3L,), \"fortran_order\": False, \"descr\": \"<f4\"}", data, 12));
    save_npy("object", npy_array("|O", false, "(1,)", data, 8));
    save_npy("structured",
             npy_text("{'descr': [(('t', 'a'), '<f4', (2,)), ('b', [('x', '<U1')])], 'fortran_order': False, "
                      "'shape': (2,), }\n",
                      data, 24));
    bytes_add(&v, "\x93NUMPY\2\0\x76\0\0\0", 12);
    bytes_add(&v, one.p + 10, one.n - 10);
    save("npy", "version2", &v);
    v.p[6] = 3;
    save("npy", "version3", &v);
    bytes_release(&v);
    bytes_release(&one);
}

static void save_simple(const char *name, const struct member_options *o, enum zip_end end, size_t n_comment)
{
    struct zip_builder z;

    memset(&z, 0, sizeof z);
    zip_add_bytes(&z, "a.npy", npy_matrix(2, 3), o);
    zip_add_bytes(&z, "b", npy_array(">f8", true, "(2, 1)", "0123456789abcdef", 16), o);
    zip_add(&z, "n.txt", "notes", 5, o);
    zip_finish(&z, end, n_comment);
    save_zip(name, &z);
}

static void manifest_seeds(void)
{
    static const char int8[] =
        "{\"schema\": \"vcompress.manifest/1\", \"tool\": \"vcompress 0.1.0\", \"options\": {\"scheme\": \"int8\"}, "
        "\"tensors\": {\"w\": {\"scheme\": \"int8\", \"granularity\": \"channel\", \"axis\": 0, \"symmetric\": true, "
        "\"source_dtype\": \"f32\", \"scale\": \"w.scale\"}, \"h\": {\"dtype\": \"bf16\", \"source_dtype\": \"f32\"}}}";
    static const char groups[] =
        "{\"schema\": \"vcompress.manifest/1\", \"tensors\": {\"w\": {\"scheme\": \"int8\", \"granularity\": "
        "\"group\", "
        "\"group_size\": 2, \"symmetric\": false, \"source_dtype\": \"bf16\", \"scale\": \"w.scale\", "
        "\"zero_point\": \"w.zero_point\"}}}";
    struct zip_builder z;

    memset(&z, 0, sizeof z);
    zip_add_bytes(&z, "w.npy", npy_array("|i1", false, "(2, 3)", "\1\2\3\4\5\6", 6), NULL);
    zip_add_bytes(&z, "w.scale.npy", npy_array("<f4", false, "(2, 1)", "\0\0\x80?\0\0\x80?", 8), NULL);
    zip_add_bytes(&z, "h.npy", npy_array("<u2", false, "(2,)", "\x80?\x80?", 4), NULL);
    zip_add(&z, "vcompress.json", int8, sizeof int8 - 1, NULL);
    zip_add_bytes(&z, "text.npy", npy_array("<U2", false, "(1,)", "a\0\0\0b\0\0\0", 8), NULL);
    zip_finish(&z, ZIP_END_PLAIN, 0);
    save_zip("manifest", &z);
    zip_add_bytes(&z, "w.npy", npy_array("|i1", false, "(2, 4)", "\1\2\3\4\5\6\7\0", 8), NULL);
    zip_add_bytes(&z, "w.scale.npy", npy_array("<f4", false, "(2, 2)", "\0\0\x80?\0\0\x80?\0\0\x80?\0\0\x80?", 16),
                  NULL);
    zip_add_bytes(&z, "w.zero_point.npy", npy_array("|i1", false, "(2, 2)", "\1\2\3\4", 4), NULL);
    zip_add(&z, "vcompress.json", groups, sizeof groups - 1, &(struct member_options){.deflate = true, .level = 6});
    zip_finish(&z, ZIP_END_PLAIN, 0);
    save_zip("manifest-groups", &z);
    zip_add_bytes(&z, "w.npy", npy_array("|i1", false, "(2, 3)", "\1\2\3\4\5\6", 6), NULL);
    zip_add_bytes(&z, "w.scale.npy", npy_array("<f4", false, "(1,)", "\0\0\x80?", 4), NULL);
    zip_finish(&z, ZIP_END_PLAIN, 0);
    save_zip("inferred", &z);
}

static void npz_seeds(void)
{
    struct member_options o = {.deflate = true, .level = 6};
    struct zip_builder z;

    save_simple("stored", NULL, ZIP_END_PLAIN, 0);
    save_simple("deflated", &o, ZIP_END_PLAIN, 0);
    o.level = 0;
    save_simple("level0", &o, ZIP_END_PLAIN, 0);
    save_simple("comment", NULL, ZIP_END_PLAIN, 9);
    save_simple("end64", NULL, ZIP_END_64, 0);
    save_simple("end64-plain", NULL, ZIP_END_64_PLAIN, 0);
    o = (struct member_options){.central64 = 7, .local64 = true};
    save_simple("zip64", &o, ZIP_END_64, 0);
    o = (struct member_options){.central64 = SATURATE_OFFSET | SATURATE_DISK};
    save_simple("zip64-disk", &o, ZIP_END_PLAIN, 0);
    o = (struct member_options){.deflate = true, .level = 6, .descriptor = DESCRIPTOR_64, .local64 = true};
    save_simple("descriptor64", &o, ZIP_END_PLAIN, 0);
    o = (struct member_options){.descriptor = DESCRIPTOR_32};
    save_simple("descriptor", &o, ZIP_END_PLAIN, 0);
    o = (struct member_options){.descriptor = DESCRIPTOR_PLAIN_32, .gap = 7};
    save_simple("descriptor-plain", &o, ZIP_END_PLAIN, 0);
    o = (struct member_options){.local_extra = "\x35\xd9\4\0\x40\0\0\0", .n_local_extra = 8, .utf8 = true};
    save_simple("extra", &o, ZIP_END_PLAIN, 0);
    memset(&z, 0, sizeof z);
    zip_finish(&z, ZIP_END_PLAIN, 0);
    save_zip("empty", &z);
    o = (struct member_options){.deflate = true, .level = 6};
    zip_add_bytes(&z, "f.npy", npy_array("<f4", true, "(2, 2)", "aaaabbbbccccdddd", 16), &o);
    zip_add_bytes(&z, "z.npy", npy_array("<f4", true, "(0,)", "", 0), &o);
    zip_add(&z, "e", "", 0, &o);
    zip_finish(&z, ZIP_END_PLAIN, 0);
    save_zip("spool", &z);
    zip_add(&z, "archive/data.pkl", "\x80\x02.", 3, NULL);
    zip_finish(&z, ZIP_END_PLAIN, 0);
    save_zip("torch", &z);
}

/* Members for fuzz_members.c. */
static void add_member(struct bytes *b, unsigned kind, unsigned name, unsigned extra, const void *data, size_t n)
{
    unsigned char head[3] = {(unsigned char)kind, (unsigned char)name, (unsigned char)extra};

    bytes_add(b, head, sizeof head);
    bytes_u16(b, (unsigned)n);
    bytes_add(b, data, n);
}

static void member_seeds(void)
{
    static const char int8[] = "{\"schema\": \"vcompress.manifest/1\", \"tensors\": {\"w\": {\"scheme\": \"int8\", "
                               "\"granularity\": \"channel\", \"axis\": 0, \"symmetric\": true, \"source_dtype\": "
                               "\"f32\", \"scale\": \"w.scale\"}, \"h\": {\"dtype\": \"bf16\"}}}";
    static const char groups[] = "{\"schema\": \"vcompress.manifest/1\", \"tensors\": {\"w\": {\"scheme\": \"int8\", "
                                 "\"granularity\": \"group\", \"group_size\": 2, \"symmetric\": false, \"scale\": "
                                 "\"w.scale\", \"zero_point\": \"w.zero_point\"}}}";
    struct bytes one = npy_matrix(2, 2);
    struct bytes b = {NULL, 0, 0};

    add_member(&b, 3, 0, 0 | 2 << 3, "\2\3", 2);
    add_member(&b, 3, 1, 1 | 2 << 3, "\2\1", 2);
    add_member(&b, 3, 3, 2 | 1 << 3, "\2", 1);
    add_member(&b, 0, 6, 0, int8, sizeof int8 - 1);
    save("members", "channel", &b);
    b.n = 0;
    add_member(&b, 3, 0, 0 | 2 << 3 | 0x40, "\2\4", 2);
    add_member(&b, 3, 1, 1 | 2 << 3, "\2\2", 2);
    add_member(&b, 3, 2, 0 | 2 << 3, "\2\2", 2);
    add_member(&b, 1, 6, 0, groups, sizeof groups - 1);
    save("members", "groups", &b);
    b.n = 0;
    add_member(&b, 0, 0, 0, one.p, one.n);
    add_member(&b, 1, 4, 0, one.p, one.n);
    add_member(&b, 2, 7, 1, "\x63\x60\x60\x60\0\0", 6);
    add_member(&b, 3, 3, 5 | 3 << 3 | 0x60, "\2\3\2", 3);
    save("members", "arrays", &b);
    bytes_release(&b);
    bytes_release(&one);
}

static void save_header(const char *kind, const char *name, const char *header, const void *data, size_t n)
{
    struct bytes b = {NULL, 0, 0};

    bytes_u64(&b, strlen(header));
    bytes_add(&b, header, strlen(header));
    bytes_add(&b, data, n);
    save(kind, name, &b);
    bytes_release(&b);
}

static void save_safetensors(const char *name, const char *header, const void *data, size_t n)
{
    save_header("safetensors", name, header, data, n);
}

/* Masks for the model of fuzz_masks.c: w f32 (3, 5), v f32 (15,). */
static void mask_seeds(void)
{
    static const unsigned char ones[15] = {1, 0, 1, 1, 0, 0, 0, 1, 1, 0, 1, 0, 1, 1, 1};

    save_header("masks", "shaped", "{\"w.mask\":{\"dtype\":\"U8\",\"shape\":[3,5],\"data_offsets\":[0,15]}}", ones, 15);
    save_header("masks", "bool", "{\"v\":{\"dtype\":\"BOOL\",\"shape\":[15],\"data_offsets\":[0,15]}}", ones, 15);
    save_header("masks", "packed",
                "{\"v.mask\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]},"
                "\"w.mask\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[2,4]}}",
                "\x55\x12\xff\x7f", 4);
    save_header("masks", "beside",
                "{\"w\":{\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[2,14]},"
                "\"v.mask\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]}}",
                ones, 14);
}

static void json_seeds(void)
{
    static const char *const texts[] = {
        "{\"a\": [1, 2], \"b\": {\"c\": 3, \"d\": {}}, \"e\": 4}",
        "{\"keep\": [[1]], \"b\": {\"shape\": [3], \"d\": [\n[]\n]} , \"f\":{}}",
        "[0, -1, 10.25, 1E5, 1e-3, false, \"\\b\\f\\n\\r\\t\\/\\\\\\uD83D\\uDE00\", \"\xc3\xa4\", {\"x\":[{}]}]",
    };
    size_t i;

    for (i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        struct bytes b = {NULL, 0, 0};
        char name[8];

        snprintf(name, sizeof name, "%zu", i);
        bytes_add(&b, texts[i], strlen(texts[i]));
        save("json", name, &b);
        bytes_release(&b);
    }
}

static void couplings_seeds(void)
{
    static const char *const files[][2] = {
        {"plain", "# rows\na.weight:0 = a.bias:0 = b:1\n"},
        {"shares", "3: a.weight:0 = \"y z\":0 # of four\nb:0*4/3+0 = x:0:0/3\n"},
        {"packed", "heads 4: b:0*4+0! = b:0*4+16! = b:0*4+32\r\n2*3: b:1*2+0\n"},
        {"globs", "a.*:0 = x?0:1 = [y]*:0"},
        {"experts", "experts: experts.0@0"},
        {"wrong", "a.weight:0 = a.weight:1\nnobody:0\na.bias:0 = a.bias:0\nheads x: b:0\n"},
    };
    size_t i;

    for (i = 0; i < sizeof files / sizeof files[0]; i++) {
        struct bytes b = {NULL, 0, 0};

        bytes_add(&b, files[i][1], strlen(files[i][1]));
        save("couplings", files[i][0], &b);
        bytes_release(&b);
    }
}

static void removal_seeds(void)
{
    static const char *const files[][2] = {
        {"plain", "# by hand\na.weight:0 3,7,9-11\n\nb:0 0-1\n"},
        {"reader", "b:1 0, 11\r\nc:1\t3"},
        {"experts", "router:0 1\n"},
        {"all", "a.bias:0 0-11\n"},
        {"wrong", "a.weight:0 12\nnobody:0 1\nexperts.0.w:0 1\n"},
        {"none", "a.weight 3\n"},
        {"range", "a.weight:0 7-3,18446744073709551615\n"},
    };
    size_t i;

    for (i = 0; i < sizeof files / sizeof files[0]; i++) {
        struct bytes b = {NULL, 0, 0};

        bytes_add(&b, files[i][1], strlen(files[i][1]));
        save("removals", files[i][0], &b);
        bytes_release(&b);
    }
}

static void recipe_seeds(void)
{
    static const char *const recipes[][2] = {
        {"chain", "# half of them\n\nprune --sparsity 0.5 --set 'lm_head*=0.25' --min-keep 0.1 # and\n"
                  "quantize --int8 --granularity group:32 --exclude \"*\\\"q\" --asymmetric\n"},
        {"casts", "quantize --fp16 --overflow=inf\r\ndequantize --bf16 --casts\n"},
        {"patterns", "prune --pattern 2:4 --scope tensor\nprune --pattern=block:4x8 --sparsity .75 --nonfinite keep"},
        {"aims", "quantize --aim-sqnr 40 --rest bf16 --min-elements 0 --include a\\ b"},
        {"wrong", "prune --mask m.npz\nquantize --int8 --force in.npz"},
    };
    size_t i;

    for (i = 0; i < sizeof recipes / sizeof recipes[0]; i++) {
        struct bytes b = {NULL, 0, 0};

        bytes_add(&b, recipes[i][1], strlen(recipes[i][1]));
        save("recipe", recipes[i][0], &b);
        bytes_release(&b);
    }
}

static void safetensors_seeds(void)
{
    static const unsigned char data[64] = {1, 2, 3, 4, 5, 6, 7, 8};

    save_safetensors("empty", "{}      ", data, 0);
    save_safetensors("metadata", "{\"__metadata__\":{\"format\":\"pt\",\"\\u00e4\":\"\\n\"}}", data, 0);
    save_safetensors("plain",
                     "{\"a\":{\"dtype\":\"F32\",\"shape\":[2,2],\"data_offsets\":[0,16]},"
                     "\"b\":{\"dtype\":\"BF16\",\"shape\":[],\"data_offsets\":[16,18]},"
                     "\"z\":{\"dtype\":\"I64\",\"shape\":[0,3],\"data_offsets\":[18,18]}} ",
                     data, 18);
    save_safetensors("small-types",
                     "{\"f4\":{\"dtype\":\"F4\",\"shape\":[2,3],\"data_offsets\":[4,7]},"
                     "\"f6\":{\"dtype\":\"F6_E3M2\",\"shape\":[4],\"data_offsets\":[1,4]},"
                     "\"f8\":{\"dtype\":\"F8_E4M3\",\"shape\":[1],\"data_offsets\":[0,1]}}",
                     data, 7);
    save_safetensors("inferred",
                     "{\"w\":{\"dtype\":\"I8\",\"shape\":[2,3],\"data_offsets\":[0,6]},"
                     "\"w.scale\":{\"dtype\":\"F32\",\"shape\":[2,1],\"data_offsets\":[6,14]}}",
                     data, 14);
    save_safetensors("manifest",
                     "{\"__metadata__\":{\"vcompress.json\":\"{\\\"schema\\\": \\\"vcompress.manifest/1\\\", "
                     "\\\"tensors\\\": {\\\"w\\\": {\\\"scheme\\\": \\\"int8\\\", \\\"granularity\\\": "
                     "\\\"group\\\", \\\"group_size\\\": 2, \\\"symmetric\\\": true, \\\"scale\\\": "
                     "\\\"s\\\"}}}\"},\"w\":{\"dtype\":\"I8\",\"shape\":[1,4],\"data_offsets\":[0,4]},"
                     "\"s\":{\"dtype\":\"F32\",\"shape\":[1,2],\"data_offsets\":[4,12]}}",
                     data, 12);
}

/* An index, and a config.json unless that is NULL. */
static void save_index(const char *name, const char *index, const char *config)
{
    struct bytes b = {NULL, 0, 0};

    bytes_add(&b, index, strlen(index) + (config != NULL ? 1 : 0));
    bytes_add(&b, config, config != NULL ? strlen(config) : 0);
    save("index", name, &b);
    bytes_release(&b);
}

static void index_seeds(void)
{
    save_index("empty", "{\"weight_map\": {}}", NULL);
    save_index("good", FOLDER_MAPPED, NULL);
    save_index("compressed-tensors", FOLDER_MAPPED, FOLDER_CONFIG);
    save_index("wrong-total", "{\"weight_map\": {" FOLDER_MAP "}, \"metadata\": {\"total_size\": 1}}", NULL);
    save_index("bitsandbytes", "{\"metadata\": {}, \"weight_map\": {" FOLDER_MAP "}}",
               "{\"model_type\": \"llama\", \"dtype\": \"bfloat16\", \"quantization_config\": {\"quant_method\": "
               "\"bitsandbytes\", \"load_in_8bit\": true}, \"eps\": 1e-05}");
    save_index("plain-model", FOLDER_MAPPED,
               "{\"architectures\": [\"LlamaForCausalLM\"], \"model_type\": \"llama\", \"dtype\": \"float32\"}");
    save_index("gpt2", FOLDER_MAPPED, " {\"model_type\": \"gpt2\"}\n");
    save_index("other-file", "{\"weight_map\": {\"x\": \"other.safetensors\"}}", "{}");
    save_index("no-string", "{\"weight_map\": {\"x\": 1}}", NULL);
    save_index("leads-out", "{\"weight_map\": {\"x\": \"../a.safetensors\"}}", NULL);
}

/* Which of the files that fuzz_folder.c names, then its text. */
static void folder_seeds(void)
{
#define SEED(name, which, text)        \
    {                                  \
        name, which text, sizeof(text) \
    }
    static const struct {
        const char *name, *text;
        size_t n;
    } seeds[] = {SEED("config", "\0", LLM_CONFIG),   SEED("bytes", "\1", LLM_TOKENIZER),
                 SEED("unigram", "\1", LLM_UNIGRAM), SEED("settings", "\2", LLM_SETTINGS),
                 SEED("pieces", "\3", LLM_PIECES),   SEED("words", "\4", LLM_WORDS)};

    for (size_t i = 0; i < sizeof seeds / sizeof seeds[0]; i++) {
        const struct bytes b = {(unsigned char *)(uintptr_t)seeds[i].text, seeds[i].n, seeds[i].n};

        save("folder", seeds[i].name, &b);
    }
}

static void save_gguf(const char *name, struct gguf_builder *g)
{
    struct bytes b = gguf_finish(g);

    save("gguf", name, &b);
    bytes_release(&b);
}

static void gguf_seeds(void)
{
    static const uint64_t dims[] = {32, 2, 1, 1};
    static const char *const words[] = {"<s>", "", "word"};
    struct gguf_builder g = {0};

    save_gguf("empty", &g);
    g.version = 2;
    gguf_tensor(&g, "w", 0, 2, dims, 256);
    save_gguf("version-2", &g);
    gguf_pair_string(&g, "general.architecture", "llama");
    gguf_pair_u32(&g, "general.file_type", 7);
    gguf_pair_u32(&g, "general.quantization_version", 2);
    gguf_pair_strings(&g, "tokenizer.ggml.tokens", words, 3);
    gguf_pair(&g, "a.floats", 9, "\6\0\0\0\2\0\0\0\0\0\0\0abcdefgh", 20);
    gguf_pair(&g, "a.bool", 7, "\1", 1);
    gguf_tensor(&g, "q", 8, 2, dims, 68);
    gguf_tensor(&g, "h", 1, 1, dims, 64);
    save_gguf("blocks", &g);
    g.align = 64;
    gguf_pair_u32(&g, "general.alignment", 64);
    gguf_tensor(&g, "a", 24, 4, dims, 64);
    gguf_tensor(&g, "b", 27, 0, NULL, 8);
    save_gguf("alignment", &g);
    g.align = 0;
    gguf_pair_string(&g, "general.architecture", "llama");
    gguf_pair(&g, "split.no", 2, "\0", 2);
    gguf_pair(&g, "split.count", 2, "\2", 2);
    gguf_pair(&g, "split.tensors.count", 5, "\2\0\0", 4);
    gguf_tensor(&g, "first", 0, 2, dims, 256);
    save_gguf("split", &g);
}

static void save_onnx(const char *name, struct onnx_builder *g)
{
    struct bytes b = onnx_finish(g);

    save("onnx", name, &b);
    bytes_release(&b);
}

static void onnx_codes(struct onnx_builder *g, bool blocks)
{
    const uint64_t dims[] = {4, 8};
    const uint64_t scales[] = {4, 2};

    onnx_raw(g, "w.int8", 3, 2, dims, NULL, 32);
    onnx_raw(g, "w.scale", 1, blocks ? 2 : 1, blocks ? scales : dims,
             "\0\0\x80?\0\0\0?\0\0\x80?\0\0\0?\0\0\x80?\0\0\0?\0\0\x80?\0\0\0?", blocks ? 32 : 16);
    onnx_raw(g, "w.zero_point", 3, blocks ? 2 : 1, blocks ? scales : dims, NULL, blocks ? 8 : 4);
}

/* Codes as a graph before DequantizeLinear has them; weights in a node, and a bias of two dimensions. */
static void onnx_product_seeds(void)
{
    const uint64_t dims[] = {4, 8}, scales[] = {4, 1}, two[] = {2, 2};
    struct onnx_builder g = {.ir = 4, .opset = 9};

    onnx_op_with(&g, "Cast", "w.int8", "w.codes", "to", 1);
    onnx_op_with(&g, "Cast", "w.zero_point", "w.zero", "to", 1);
    onnx_op(&g, "Sub", "w.codes w.zero", "w.difference");
    onnx_op(&g, "Mul", "w.difference w.scale", "w");
    onnx_raw(&g, "w.int8", 3, 2, dims, NULL, 32);
    onnx_raw(&g, "w.scale", 1, 2, scales, "\0\0\x80?\0\0\0?\0\0\x80?\0\0\0?", 16);
    onnx_raw(&g, "w.zero_point", 3, 2, scales, NULL, 4);
    save_onnx("product", &g);
    onnx_constant(&g, "c", 1, 2, two, "\0\0\x80?\0\0\0?\0\0\x80?\0\0\0?", 16);
    onnx_op(&g, "LSTM", "x w c b", "y");
    onnx_weights(&g, "w", 2, 8);
    onnx_weights(&g, "b", 1, 8);
    save_onnx("constant", &g);
}

/* Branches with weights of the same names, a body with codes. */
static void onnx_inner_seeds(void)
{
    static const char *const names[] = {"then_branch", "else_branch"};
    struct onnx_builder g = {.ir = 8, .opset = 17};
    struct onnx_builder inner[2] = {{.ir = 0}, {.ir = 0}};
    size_t i;

    for (i = 0; i < 2; i++) {
        onnx_op(&inner[i], "MatMul", "x w", i == 0 ? "a" : "b");
        onnx_weights(&inner[i], "w", 2, 4);
        onnx_info(&inner[i], 12, i == 0 ? "a" : "b");
    }
    onnx_outer(&g, "If", "n", "c", "i", names, inner, 2);
    onnx_op_with(&inner[0], "DequantizeLinear", "w.int8 w.scale w.zero_point", "w", "axis", 0);
    onnx_codes(&inner[0], false);
    onnx_outer(&g, "Loop", "", "c", "j", names, inner, 1);
    save_onnx("inner", &g);
}

static void onnx_seeds(void)
{
    const uint64_t three[] = {3};
    struct onnx_builder g = {.ir = 3, .opset = 6};
    struct bytes t, inner = {NULL, 0, 0}, branch = {NULL, 0, 0}, node = {NULL, 0, 0};

    onnx_op(&g, "MatMul", "x w", "y");
    onnx_weights(&g, "w", 4, 8);
    onnx_info(&g, 11, "x");
    onnx_info(&g, 11, "w");
    onnx_info(&g, 12, "y");
    onnx_info(&g, 13, "w");
    save_onnx("old", &g);
    onnx_op_with(&g, "DequantizeLinear", "w.int8 w.scale w.zero_point", "w", "axis", 0);
    onnx_op(&g, "Conv", "x w", "y");
    onnx_codes(&g, false);
    save_onnx("codes", &g);
    g.opset = 21;
    onnx_op_with(&g, "DequantizeLinear", "w.int8 w.scale w.zero_point", "w", "block_size", 4);
    onnx_codes(&g, true);
    onnx_op_with(&g, "Cast", "h", "v", "to", 1);
    onnx_raw(&g, "h", 16, 1, three, NULL, 6);
    save_onnx("blocks", &g);
    t = onnx_tensor_header("ints", 6, 1, three);
    pb_data(&t, 5, "\1\xff\xff\xff\xff\xff\xff\xff\xff\xff\1\3", 12);
    pb_message(&g.graph, 5, &t);
    t = onnx_tensor_header("floats", 1, 1, three);
    pb_data(&t, 4, "abcdefgh", 8);
    bytes_add(&t, "\x25ijkl", 5);
    pb_message(&g.graph, 5, &t);
    save_onnx("numbers", &g);
    onnx_external(&g, "e", 1, 1, "w.bin", "0", "4");
    save_onnx("external", &g);
    onnx_weights(&g, "w", 2, 8);
    onnx_weights(&g, "v", 2, 8);
    pb_text(&inner, 1, "w");
    pb_text(&inner, 2, "y");
    pb_message(&branch, 1, &inner);
    pb_text(&inner, 1, "then_branch");
    pb_message(&inner, 6, &branch);
    pb_message(&node, 5, &inner);
    pb_text(&node, 4, "If");
    pb_message(&g.graph, 1, &node);
    pb_text(&inner, 1, "v");
    pb_message(&g.graph, 14, &inner);
    bytes_add(&g.model, "\xa3\x38\x08\1\xa4\x38", 6);
    save_onnx("inside", &g);
    onnx_product_seeds();
    onnx_inner_seeds();
}

/* Every opcode, in pickles of both targets; those with tensors fit the storages of fuzz_torch.c. */
static void pickle_seeds(void)
{
    static const char ops[] =
        "\x80\x04\x95\x02\0\0\0\0\0\0\0N0](K\1M\1\2J\1\0\0\0\x8a\1\x05G?\xf0\0\0\0\0\0\0X\1\0\0\0a"
        "U\1b\x8c\1cC\1dNN\x86\x88\x85\x8f(N\x90(N\x91}q\0h\0K\2s\x94"
        "ca\nb\n)R}b)\x81U\1x\x85Qe.";
    struct bytes b = {NULL, 0, 0};

    bytes_add(&b, ops, sizeof ops - 1);
    save("pickle", "opcodes", &b);
    b.n = 0;
    pk_start(&b);
    pk_raw(&b, "}(");
    pk_string(&b, "model");
    pk_global(&b, "collections", "OrderedDict");
    pk_raw(&b, ")R(");
    pk_string(&b, "w");
    pk_tensor(&b, "FloatStorage", "0", 12, 0, "3,4", "4,1");
    pk_string(&b, "t");
    pk_tensor(&b, "FloatStorage", "0", 12, 0, "4,3", "1,4");
    pk_string(&b, "b");
    pk_tensor(&b, "LongStorage", "1", 3, 0, "3", "1");
    pk_raw(&b, "u}b");
    pk_string(&b, "optimizer");
    pk_raw(&b, "}K\1");
    pk_tensor(&b, "FloatStorage", "4", 512, 0, "8,64", "64,1");
    pk_raw(&b, "s");
    pk_string(&b, "args");
    pk_global(&b, "argparse", "Namespace");
    pk_raw(&b, ")\x81}b");
    pk_string(&b, "l");
    pk_raw(&b, "](K\1G?\xf0");
    bytes_fill(&b, 0, 6);
    pk_tensor_by(&b, "_rebuild_sparse_tensor", "ByteStorage", "2", 5, 0, "5", "1");
    pk_raw(&b, "eu.");
    save("pickle", "training", &b);
    save("torch", "training", &b);
    b.n = 0;
    pk_start(&b);
    pk_global(&b, "a", "Net");
    pk_raw(&b, ")\x81}(");
    pk_string(&b, "_parameters");
    pk_raw(&b, "}");
    pk_string(&b, "_modules");
    pk_raw(&b, "}");
    pk_string(&b, "_buffers");
    pk_raw(&b, "}");
    pk_string(&b, "x");
    pk_tensor(&b, "HalfStorage", "0", 24, 2, "5", "4");
    pk_raw(&b, "sub.");
    save("torch", "module", &b);
    bytes_release(&b);
}

static void torch_seeds(void)
{
    static const size_t sizes[] = {48};
    static const size_t numels[] = {12};
    static const size_t items[] = {4};
    static const struct member_options deflated = {.deflate = true, .level = 6};
    struct bytes pickle = {NULL, 0, 0};
    struct bytes b;

    pk_start(&pickle);
    pk_raw(&pickle, "}");
    pk_string(&pickle, "w");
    pk_tensor(&pickle, "FloatStorage", "0", 12, 0, "4,3", "1,4");
    pk_raw(&pickle, "s.");
    b = torch_archive(&pickle, "big", sizes, 1, NULL);
    save("torch", "archive", &b);
    bytes_release(&b);
    b = torch_archive(&pickle, NULL, sizes, 1, &deflated);
    save("torch", "deflated", &b);
    bytes_release(&b);
    b = torch_legacy(&pickle, numels, items, 1);
    save("torch", "legacy", &b);
    b.n = 0;
    bytes_add(&b, "M\3\0\0\x30\0\1\1\x18\0\5\0\0\0", 14);
    bytes_add(&b, pickle.p, pickle.n);
    save("torch", "listed", &b);
    b.p[6] = 0; /* the second storage has the name of the first */
    save("torch", "listed-twice", &b);
    bytes_release(&b);
    bytes_release(&pickle);
}

static void save_text(const char *kind, const char *name, const char *text)
{
    struct bytes b = {NULL, 0, 0};

    bytes_add(&b, text, strlen(text));
    save(kind, name, &b);
    bytes_release(&b);
}

static void pipeline_seeds(void)
{
    save_text("pipeline", "usual",
              "{\"_class_name\": \"StableDiffusionPipeline\", \"scheduler\": [\"diffusers\", \"DDIMScheduler\"], "
              "\"unet\": [\"diffusers\", \"UNet2DConditionModel\"], \"text_encoder\": [\"transformers\", "
              "\"CLIPTextModel\"], \"safety_checker\": [null, null], \"requires_safety_checker\": false}");
    save_text("pipeline", "options", "{\"vae\":[\"a\",\"b\",\"c\"],\"scheduler\":[\"s\",\"t\"],\"_x\":[\"y\",\"z\"]}");
    save_text("pipeline", "leads-out", "{\"../unet\": [\"diffusers\", \"UNet2DConditionModel\"]}");
    save_text("pipeline", "list", "[[\"unet\", \"\\u0000\"]]");
}

/* A small model of each family, and members that change what is built. */
static void config_seeds(void)
{
    static const char *const seeds[][2] = {
        {"llama", "{\"model_type\":\"llama\",\"hidden_size\":16,\"num_hidden_layers\":1,\"num_attention_heads\":2,"
                  "\"num_key_value_heads\":1,\"intermediate_size\":8,\"vocab_size\":10,\"rope_theta\":1e4,"
                  "\"rope_scaling\":{\"rope_type\":\"llama3\",\"factor\":8.0,\"low_freq_factor\":1.0,"
                  "\"high_freq_factor\":4.0,\"original_max_position_embeddings\":12345678}}"},
        {"qwen3", "{\"model_type\":\"qwen3\",\"hidden_size\":8,\"num_hidden_layers\":2,\"num_attention_heads\":2,"
                  "\"num_key_value_heads\":2,\"head_dim\":4,\"intermediate_size\":8,\"vocab_size\":10,\"tie_word_"
                  "embeddings\":true,"
                  "\"sliding_window\":4,\"use_sliding_window\":true,\"max_window_layers\":1}"},
        {"mixtral", "{\"model_type\":\"mixtral\",\"hidden_size\":8,\"num_hidden_layers\":1,\"num_attention_heads\":2,"
                    "\"num_key_value_heads\":2,\"intermediate_size\":8,\"vocab_size\":10,\"num_local_experts\":2,"
                    "\"num_experts_per_tok\":1,\"sliding_window\":null}"},
        {"bert", "{\"model_type\":\"bert\",\"architectures\":[\"BertForMaskedLM\"],\"hidden_size\":8,"
                 "\"num_hidden_layers\":1,\"num_attention_heads\":2,\"intermediate_size\":8,\"vocab_size\":10,"
                 "\"max_position_embeddings\":12,\"hidden_act\":\"gelu_new\",\"layer_norm_eps\":1e-12}"},
        {"distilbert", "{\"model_type\":\"distilbert\",\"dim\":8,\"n_layers\":1,\"n_heads\":2,\"hidden_dim\":8,"
                       "\"vocab_size\":10,\"activation\":\"gelu\"}"},
        {"gpt2", "{\"model_type\":\"gpt2\",\"architectures\":[\"GPT2LMHeadModel\"],\"n_embd\":8,\"n_layer\":1,"
                 "\"n_head\":2,\"vocab_size\":9,\"n_positions\":6,\"scale_attn_by_inverse_layer_idx\":true}"},
        {"vit", "{\"model_type\":\"vit\",\"architectures\":[\"ViTForImageClassification\"],\"hidden_size\":8,"
                "\"num_hidden_layers\":1,\"num_attention_heads\":2,\"intermediate_size\":8,\"image_size\":[8,4],"
                "\"patch_size\":2,\"num_channels\":1,\"id2label\":{\"0\":\"a\",\"1\":\"b\"},\"qkv_bias\":false}"},
        {"resnet", "{\"model_type\":\"resnet\",\"embedding_size\":4,\"hidden_sizes\":[8,16],\"depths\":[2,1],"
                   "\"layer_type\":\"bottleneck\",\"downsample_in_first_stage\":true,\"hidden_act\":\"relu\"}"},
        {"wrong", "{\"model_type\":\"llama\",\"hidden_size\":\"16\",\"rope_parameters\":{\"rope_type\":\"yarn\","
                  "\"factor\":2},\"layer_types\":[\"full_attention\"],\"quantization_config\":{\"ignore\":[]}}"},
    };

    for (size_t i = 0; i < sizeof seeds / sizeof seeds[0]; i++) {
        save_text("config", seeds[i][0], seeds[i][1]);
    }
}

/* Pairs behind their number. */
static void save_keys(const char *name, struct gguf_builder *g)
{
    unsigned char n = (unsigned char)g->n_pairs;
    struct bytes b = {NULL, 0, 0};

    bytes_add(&b, &n, 1);
    bytes_add(&b, g->pairs.p, g->pairs.n);
    save("keys", name, &b);
    bytes_release(&b);
    bytes_release(&g->pairs);
    *g = (struct gguf_builder){0};
}

static void key_seeds(void)
{
    static const char *const sizes[] = {"embedding_length",        "block_count",
                                        "feed_forward_length",     "attention.head_count",
                                        "attention.head_count_kv", "context_length"};
    static const unsigned numbers[] = {4, 1, 8, 2, 2, 12};
    static const char *const words[] = {"a", "bc"};
    struct gguf_builder g = {0};
    size_t k;

    gguf_pair_string(&g, "general.architecture", "llama");
    for (k = 0; k < 6; k++) {
        char key[64];

        snprintf(key, sizeof key, "llama.%s", sizes[k]);
        gguf_pair_u32(&g, key, numbers[k]);
    }
    gguf_pair(&g, "llama.attention.layer_norm_rms_epsilon", 6, "\xac\xc5\x27\x37", 4);
    gguf_pair(&g, "llama.rope.freq_base", 12, "\0\0\0\0\x88\xc3\xc0\x40", 8);
    gguf_pair_strings(&g, "tokenizer.ggml.tokens", words, 2);
    save_keys("llama", &g);
    gguf_pair_string(&g, "general.architecture", "qwen2");
    gguf_pair(&g, "a.list", 9, "\5\0\0\0\2\0\0\0\0\0\0\0\1\0\0\0\377\377\377\377", 20);
    gguf_pair(&g, "a.floats", 9, "\6\0\0\0\1\0\0\0\0\0\0\0abcd", 16);
    gguf_pair(&g, "a.u8", 0, "\377", 1);
    gguf_pair(&g, "a.i8", 1, "\377", 1);
    gguf_pair(&g, "a.i16", 3, "\377\377", 2);
    gguf_pair(&g, "a.bool", 7, "\1", 1);
    gguf_pair(&g, "a.u64", 10, "\377\377\377\377\377\377\377\377", 8);
    gguf_pair(&g, "a.i64", 11, "\377\377\377\377\377\377\377\377", 8);
    gguf_pair_string(&g, "qwen2.rope.scaling.type", "yarn");
    save_keys("kinds", &g);
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fputs("make_seeds FOLDER\n", stderr);
        return 2;
    }
    root = argv[1];
    npy_seeds();
    npz_seeds();
    manifest_seeds();
    member_seeds();
    safetensors_seeds();
    seed_layouts(save_safetensors);
    index_seeds();
    folder_seeds();
    pipeline_seeds();
    config_seeds();
    gguf_seeds();
    key_seeds();
    onnx_seeds();
    pickle_seeds();
    torch_seeds();
    mask_seeds();
    json_seeds();
    recipe_seeds();
    removal_seeds();
    couplings_seeds();
    return 0;
}
