/* test_tokenizer.c - texts as data: the numbers of tokens of small tokenizers, which the library tokenizers 0.23 gave, rows with
 * what stands around them, and what happens where memory, disk or files fail. tests/judge/test_tokenizer.py judges by the libraries. */
#include "formats_test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/model/source.h"
#include "folder_builder.h"
#include "formats/io/outfile.h"
#include "scratch.h"

/* A byte-level BPE of Llama 3's kind: begin of text in front, added tokens, a merge. */
static const char bytes_json[] =
    "{\"added_tokens\": [{\"id\": 8, \"content\": \"<s>\", \"special\": true, \"normalized\": false},"
    " {\"id\": 9, \"content\": \"abba\", \"lstrip\": true, \"rstrip\": true, \"single_word\": true, \"normalized\": "
    "true}],"
    " \"normalizer\": {\"type\": \"Sequence\", \"normalizers\": [{\"type\": \"NFC\"}, {\"type\": \"Replace\", "
    "\"pattern\": {\"Regex\": \"[0-9]+\"},"
    " \"content\": \"b\"}]},"
    " \"pre_tokenizer\": {\"type\": \"Sequence\", \"pretokenizers\": [{\"type\": \"Split\", \"pattern\": {\"Regex\":"
    " \"(?i:'s)|[^\\\\r\\\\n\\\\p{L}]?\\\\p{L}+|\\\\s+(?!\\\\S)|\\\\s++$|.\"}, \"behavior\": \"Isolated\", \"invert\": "
    "false},"
    " {\"type\": \"ByteLevel\", \"add_prefix_space\": false, \"use_regex\": false}]},"
    " \"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0, \"b\": 1, \"ab\": 2, \"\\u0120\": 3, \"\\u0120ab\": 4, "
    "\"\\u010a\": 5, \"\\u00c3\": 6,"
    " \"\\u00a9\": 7}, \"merges\": [\"a b\", [\"\\u0120\", \"ab\"]]},"
    " \"post_processor\": {\"type\": \"TemplateProcessing\", \"single\": [{\"SpecialToken\": {\"id\": \"<s>\"}}, "
    "{\"Sequence\": {\"id\": \"A\"}}],"
    " \"special_tokens\": {\"<s>\": {\"ids\": [8]}}}}";

/* WordPiece of BERT's kind. */
static const char words_json[] = "{\"normalizer\": {\"type\": \"BertNormalizer\", \"lowercase\": true}, "
                                 "\"pre_tokenizer\": {\"type\": \"BertPreTokenizer\"},"
                                 " \"model\": {\"type\": \"WordPiece\", \"unk_token\": \"[UNK]\", \"vocab\": "
                                 "{\"[UNK]\": 0, \"a\": 1, \"##b\": 2, \"ab\": 3, \"!\": 4, \"e\": 5}}}";

/* Unigram of T5's kind, with bytes: the best path, and one unknown for what no token has. */
static const char unigram_json[] =
    "{\"pre_tokenizer\": {\"type\": \"Metaspace\", \"replacement\": \"_\", \"prepend_scheme\": \"first\"},"
    " \"normalizer\": {\"type\": \"Sequence\", \"normalizers\": [{\"type\": \"Nmt\"}, {\"type\": \"NFKC\"}, {\"type\": "
    "\"Precompiled\","
    " \"precompiled_charsmap\": \"\"}]},"
    " \"model\": {\"type\": \"Unigram\", \"unk_id\": 0, \"vocab\": [[\"<unk>\", 0], [\"_\", -2], [\"a\", -1], [\"_a\", "
    "-1.5], [\"ab\", -1.25], [\"b\", -3]]}}";

static char folder[256];

static void put(const char *name, const char *text, size_t n)
{
    char path[512];
    FILE *f;

    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(text, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

/* The tokens of the text in the folder, in rows of that length; how many, at most `room`. */
static enum vc_status tokens_of(struct vc_ctx *ctx, const char *name, uint64_t length, uint32_t *to, size_t room,
                                size_t *n)
{
    struct vc_open_options options;
    struct vc_model *model = NULL;
    unsigned char bytes[1024];
    char path[512];
    enum vc_status status;

    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    vc_open_defaults(&options);
    options.row_tokens = length;
    options.tokenizer = folder;
    status = vc_model_open(ctx, path, &options, &model);
    *n = 0;
    if (status == VC_OK) {
        const struct vc_tensor *t = &model->tensors[0];

        *n = (size_t)t->n_elems < room ? (size_t)t->n_elems : room;
        status = vc_model_read(ctx, model, 0, 0, *n, bytes, *n * 4);
        for (size_t i = 0; i < *n; i++) {
            to[i] = bytes[4 * i] | (uint32_t)bytes[4 * i + 1] << 8;
        }
    }
    vc_model_close(model);
    return status;
}

static void expect(const char *tokenizer, const char *text, uint64_t length, const uint32_t *want, size_t n_want)
{
    struct vc_ctx *ctx = test_ctx();
    uint32_t got[64];
    size_t n;

    put("tokenizer.json", tokenizer, strlen(tokenizer));
    put("c.txt", text, strlen(text));
    if (tokens_of(ctx, "c.txt", length, got, 64, &n) != VC_OK) {
        fail_msg("%s", vc_ctx_message(ctx));
    }
    assert_int_equal(n, n_want);
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(got[i], want[i]);
    }
    test_ctx_done(ctx);
}

#define EXPECT(tokenizer, text, length, ...) \
    expect(tokenizer, text, length, (const uint32_t[]){__VA_ARGS__}, sizeof((const uint32_t[]){__VA_ARGS__}) / 4)

static void test_numbers(void **unused)
{
    (void)unused;
    EXPECT(bytes_json, "ab abab", 2, 8, 2, 8, 4, 8, 2);
    EXPECT(bytes_json, "a123\n<s>  abba ab", 2, 8, 2, 8, 5, 8, 8, 8, 9, 8, 2);
    EXPECT(bytes_json,
           "e\xcc\x81"
           "abbab xab",
           2, 8, 6, 8, 7, 8, 2, 8, 1, 8, 2, 8, 4); /* U+00E9 by NFC; x has no token */
    EXPECT(words_json, "Ab abb! \xc3\x89 aa", 1, 3, 3, 2, 4, 5, 0);
    EXPECT(unigram_json, "ab aa ?b", 1, 1, 4, 3, 2, 1, 0, 5);
    EXPECT(bytes_json, "ababab", 3, 8, 2, 2);
}

static void test_lines(void **unused)
{
    struct vc_ctx *ctx = test_ctx();
    static const char lines[] = "{\"text\": \"ab\"}\n\n{\"text\": \"\"}\r\n{\"text\": \"b\", \"x\": [1]}";
    uint32_t got[16];
    size_t n;

    (void)unused;
    put("tokenizer.json", bytes_json, strlen(bytes_json));
    put("config.json", "{\"eos_token_id\": 5}", 19);
    put("c.jsonl", lines, strlen(lines));
    assert_int_equal(tokens_of(ctx, "c.jsonl", 4, got, 16, &n), VC_OK);
    assert_int_equal(n, 4);
    assert_true(got[0] == 8 && got[1] == 2 && got[2] == 5 && got[3] == 1);
    test_ctx_done(ctx);
}

/* Opens it: whatever happens there is a sentence, and memory is back. */
static enum vc_status try(struct vc_ctx *ctx, const char *name)
{
    uint32_t got[64];
    size_t n;
    enum vc_status status;

    status = tokens_of(ctx, name, 3, got, 64, &n);
    assert_true((status == VC_OK) == (vc_ctx_message(ctx)[0] == '\0'));
    assert_true(status != VC_E_INTERNAL);
    return status;
}

static const char text[] = "ab a12 abba e\xcc\x81 <s>\n\xf0\x9f\x98\x80 'S  b\n";
static const char *const all[] = {bytes_json, words_json, unigram_json};

/* Every byte of the tokenizer is another one, or the file ends there; then every byte of the text. */
static void test_damage(void **unused)
{
    static const unsigned char others[] = {0, '"', '0', '9', '}', 0xff};
    struct vc_ctx *ctx = test_ctx();
    char copy[4096];

    (void)unused;
    put("c.txt", text, sizeof text - 1);
    for (size_t k = 0; k < sizeof all / sizeof all[0]; k++) {
        size_t n = strlen(all[k]);
        size_t taken = 0;

        for (size_t i = 0; i < n; i += 1 + n / 400) {
            for (size_t o = 0; o < sizeof others; o++) {
                memcpy(copy, all[k], n);
                copy[i] = (char)others[o];
                put("tokenizer.json", copy, n);
                taken += try(ctx, "c.txt") == VC_OK;
            }
            put("tokenizer.json", all[k], i);
            assert_int_not_equal(try(ctx, "c.txt"), VC_OK);
        }
        assert_true(taken != 0); /* a text in it is another one */
        put("tokenizer.json", all[k], n);
        for (size_t i = 0; i < sizeof text - 1; i++) {
            memcpy(copy, text, sizeof text - 1);
            copy[i] = (char)0xff;
            put("c.txt", copy, sizeof text - 1);
            assert_int_equal(try(ctx, "c.txt"), VC_E_FORMAT);
            assert_non_null(strstr(vc_ctx_message(ctx), "is no UTF-8 at byte"));
        }
        put("c.txt", text, sizeof text - 1);
    }
    test_ctx_done(ctx);
}

/* The n-th allocation fails, then the n-th call that writes. */
static void test_faults(void **unused)
{
    struct vc_ctx *ctx = test_ctx();

    (void)unused;
    put("c.txt", text, sizeof text - 1);
    for (size_t k = 0; k < sizeof all / sizeof all[0]; k++) {
        uint64_t n = 0;
        enum vc_status status = VC_E_NOMEM;

        put("tokenizer.json", all[k], strlen(all[k]));
        while (status != VC_OK) {
            vc_pool_fail_at(ctx->shared->pool, ++n, 0);
            status = try(ctx, "c.txt");
            assert_true(status == VC_OK || status == VC_E_NOMEM);
        }
        vc_pool_fail_at(ctx->shared->pool, 0, 0);
        assert_true(n > 50);
        for (n = 1, status = VC_E_IO; status != VC_OK; n++) {
            vc_outfile_fail_at(n);
            status = try(ctx, "c.txt");
            assert_true(status == VC_OK || status == VC_E_IO);
        }
        vc_outfile_fail_at(0);
        assert_true(n > 2);
    }
    test_ctx_done(ctx);
}

static int make_folder(void **unused)
{
    (void)unused;
    (void)snprintf(folder, sizeof folder, "/tmp/vcompress-tokenizer-XXXXXX");
    return mkdtemp(folder) == NULL;
}

static int remove_folder(void **unused)
{
    (void)unused;
    folder_remove(folder);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_lines),
        cmocka_unit_test(test_damage),
        cmocka_unit_test(test_faults),
    };

    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
