/* fuzz_tokens.c - any bytes as a file of nothing but tokens: the first two say how many bits a token has and how long a
 * row is, the others are the file. What is taken has the shape, type and values that its description in
 * formats/tokens/tokens_read.c gives, computed here once more; what is not taken has a sentence. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/checked.h"
#include "fuzz_target.h"

#define HEADER_BYTES 1024

static uint32_t number_at(const uint8_t *data, size_t at, size_t size)
{
    uint32_t x = 0;

    for (size_t i = 0; i < size; i++) {
        x |= (uint32_t)data[at + i] << 8 * i;
    }
    return x;
}

/* Where the tokens begin, how many there are and what each takes; false: the file has to be refused. */
static bool expect(const uint8_t *data, size_t n, size_t *first, size_t *n_tokens, size_t *size)
{
    bool headed = n >= HEADER_BYTES && ((number_at(data, 0, 4) == 20240520 && number_at(data, 4, 4) == 1) ||
                                        (number_at(data, 0, 4) == 20240801 && number_at(data, 4, 4) == 7));

    if (headed) {
        *size = number_at(data, 4, 4) == 1 ? 2 : 4;
    }
    *first = headed ? HEADER_BYTES : 0;
    *n_tokens = headed ? number_at(data, 8, 4) : n / *size;
    return (n < 4 || memcmp(data, "PK\3\4", 4) != 0) && (uint64_t)*n_tokens * *size == n - *first;
}

static void check(struct vc_ctx *ctx, const struct vc_model *model, const uint8_t *data, size_t first, size_t n_tokens,
                  size_t size, size_t row)
{
    const struct vc_tensor *t = &model->tensors[0];
    size_t n_bytes = n_tokens / row * row * size;
    unsigned char *values = malloc(n_bytes);

    fuzz_promise(model->n_tensors == 1 && t->n_dims == 2 && t->shape[0] == n_tokens / row && t->shape[1] == row &&
                     t->size_bytes == n_bytes && vc_dtype_size(t->dtype) == size,
                 "rows of as many tokens", ctx);
    if (values != NULL && vc_model_read(ctx, model, 0, 0, t->n_elems, values, n_bytes) == VC_OK) {
        fuzz_promise(memcmp(values, data + first, n_bytes) == 0, "the tokens of the file", ctx);
    }
    fuzz_promise(values == NULL || ctx->status == VC_OK, "tokens can be read", ctx);
    free(values);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct vc_ctx *ctx = fuzz_ctx();
    struct vc_open_options options;
    struct vc_model *model = NULL;
    size_t row, first, n_tokens, size;
    enum vc_status status;
    bool good;

    if (n < 2) {
        return 0;
    }
    vc_open_defaults(&options);
    row = (size_t)data[1] + 1;
    options.row_tokens = row;
    options.token_bits = data[0] % 3 * 16; /* 0: 16 */
    size = data[0] % 3 == 2 ? 4 : 2;
    good = expect(data + 2, n - 2, &first, &n_tokens, &size) && n_tokens >= row;
    status = vc_model_open(ctx, fuzz_file(data + 2, n - 2), &options, &model);
    fuzz_promise(status == VC_OK ? good : status == VC_E_FORMAT && !good, "what its description says is taken", ctx);
    fuzz_promise((status == VC_OK) == (vc_ctx_message(ctx)[0] == '\0'), "a sentence with every failure", ctx);
    if (status == VC_OK) {
        check(ctx, model, data + 2, first, n_tokens, size, row);
    }
    vc_model_close(model);
    fuzz_promise(fuzz_in_use() == 0, "memory is given back", ctx);
    return 0;
}
