/* fuzz_tokenizer.c - any bytes as the tokenizer.json of a folder. What can be read makes tokens of texts: none is above the largest
 * number, their places never fall and lie within the text, and a second time they are the same. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "folder_builder.h"
#include "formats/tokenizer/tokenizer.h"
#include "fuzz_target.h"

static char folder[256];
static int json_fd;

static void remove_folder(void)
{
    folder_remove(folder);
}

static void make_folder(void)
{
    fuzz_folder(folder, sizeof folder);
    json_fd = fuzz_file_in(folder, "tokenizer.json");
    (void)atexit(remove_folder);
}

/* Scripts, marks that move together, spaces of all kinds, what added tokens and bytes as tokens look like. */
static const char *const texts[] = {
    "",
    " ",
    "The quick brown fox, it's 12345 years old.\n\n\tDon't!",
    "<s>[CLS]<|endoftext|> <unk>\xe2\x96\x81<0x41>##ing</s>",
    "\xc3\xa9 e\xcc\x81 \xef\xac\x81 \xe1\xba\x9b\xcc\xa3 \xe6\xbc\xa2\xe5\xad\x97 \xed\x95\x9c\xea\xb8\x80 "
    "\xf0\x9f\x91\xa9\xe2\x80\x8d\xf0\x9f\x94\xac",
    "\xc2\xa0\xe2\x80\x83\xe3\x80\x80\xe2\x80\xa8 \r\n \x01\x7f\xef\xbf\xbd\xf3\xa0\x81\xa1",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
    "aaaaaa",
};

/* A text whose tokens were asked for may be refused (no token for it, and no unknown one), with a sentence. */
static void encode(struct vc_ctx *ctx, struct vc_tokenizer *tokenizer, const char *text)
{
    struct vc_token_list lists[2] = {{NULL, 0, 0}, {NULL, 0, 0}};
    enum vc_status status[2];
    size_t n = strlen(text);

    for (size_t k = 0; k < 2; k++) {
        vc_clear_error(ctx);
        status[k] = vc_tokenizer_encode(ctx, tokenizer, text, n, &lists[k]);
        fuzz_promise((status[k] == VC_OK) == (vc_ctx_message(ctx)[0] == '\0'), "a sentence with every failure", ctx);
        fuzz_promise(status[k] != VC_E_INTERNAL && status[k] != VC_E_ARGUMENT, vc_status_name(status[k]), ctx);
    }
    fuzz_promise(status[0] == status[1], "the same answer", ctx);
    if (status[0] == VC_OK) {
        fuzz_promise(lists[0].n == lists[1].n, "as many tokens", ctx);
        for (size_t i = 0; i < lists[0].n; i++) {
            const struct vc_token *token = &lists[0].tokens[i];

            fuzz_promise(memcmp(token, &lists[1].tokens[i], sizeof *token) == 0, "the same tokens", ctx);
            fuzz_promise(token->id <= vc_tokenizer_most(tokenizer), "no token above the largest", ctx);
            fuzz_promise(token->at <= n && (i == 0 || token->at >= token[-1].at), "places in order", ctx);
        }
    }
    for (size_t k = 0; k < 2; k++) {
        vc_token_list_release(ctx, &lists[k]);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct vc_ctx *ctx = fuzz_ctx();
    struct vc_tokenizer *tokenizer = NULL;
    enum vc_status status;

    if (folder[0] == '\0') {
        make_folder();
    }
    fuzz_store(json_fd, data, n);
    vc_clear_error(ctx);
    status = vc_tokenizer_open(ctx, folder, &tokenizer);
    fuzz_promise((status == VC_OK) == (vc_ctx_message(ctx)[0] == '\0'), "a sentence with every failure", ctx);
    fuzz_promise(status == VC_OK || status == VC_E_FORMAT || status == VC_E_UNSUPPORTED || status == VC_E_NOMEM,
                 vc_status_name(status), ctx);
    for (size_t k = 0; status == VC_OK && k < sizeof texts / sizeof *texts; k++) {
        encode(ctx, tokenizer, texts[k]);
    }
    vc_tokenizer_close(ctx, tokenizer);
    fuzz_promise(fuzz_in_use() == 0, "memory is given back", ctx);
    return 0;
}
