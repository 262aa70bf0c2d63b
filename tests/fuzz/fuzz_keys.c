/* fuzz_keys.c - any bytes as the metadata of a GGUF file: the first byte says how many pairs the rest is. Behind them
 * are the tensors of a llama with one layer. The records that are made of the pairs (core/model/program.h) are read to
 * their ends, and the graph that can be made of them is looked at (fuzz_look.c). */
#include <stddef.h>
#include <stdint.h>

#include "core/model/program.h"
#include "fuzz_target.h"
#include "gguf_builder.h"

#define MAX_BYTES ((size_t)1 << 16)

static void add_tensors(struct gguf_builder *g)
{
    static const struct {
        const char *name;
        uint64_t dims[2];
    } tensors[] = {
        {"token_embd.weight", {4, 6}},     {"blk.0.attn_norm.weight", {4, 0}}, {"blk.0.attn_q.weight", {4, 4}},
        {"blk.0.attn_k.weight", {4, 4}},   {"blk.0.attn_v.weight", {4, 4}},    {"blk.0.attn_output.weight", {4, 4}},
        {"blk.0.ffn_norm.weight", {4, 0}}, {"blk.0.ffn_gate.weight", {4, 8}},  {"blk.0.ffn_up.weight", {4, 8}},
        {"blk.0.ffn_down.weight", {8, 4}}, {"output_norm.weight", {4, 0}},
    };

    for (size_t k = 0; k < sizeof tensors / sizeof *tensors; k++) {
        const uint64_t *dims = tensors[k].dims;

        gguf_tensor(g, tensors[k].name, 0, dims[1] == 0 ? 1 : 2, dims,
                    4 * (size_t)dims[0] * (size_t)(dims[1] == 0 ? 1 : dims[1]));
    }
}

/* Every text ends, every list has the numbers that it says, and a number is what its kind says. */
static void read_keys(const struct vc_program *program, size_t n_pairs)
{
    static volatile uint64_t sum; /* of everything, so that everything is read */
    struct vc_ctx *ctx = fuzz_ctx();

    fuzz_promise(program->kind == VC_PROGRAM_KEYS && program->n_keys == n_pairs, "a record for each pair", ctx);
    for (size_t k = 0; k < program->n_keys; k++) {
        const struct vc_program_key *key = &program->keys[k];

        sum += strlen(key->key);
        fuzz_promise(!(key->is_text && key->is_number) && key->is_text == (key->text != NULL), "one kind", ctx);
        fuzz_promise(key->is_number || !key->is_integer, "an integer is a number", ctx);
        sum += key->is_text ? strlen(key->text) : 0;
        for (size_t i = 0; key->integers != NULL && i < key->n; i++) {
            sum += (uint64_t)key->integers[i];
        }
    }
    (void)sum;
}

/* Thousands of layers take long and say nothing that 99 do not; more than 10,000 are refused. */
static bool is_slow(const struct vc_program *program)
{
    for (size_t k = 0; k < program->n_keys; k++) {
        const struct vc_program_key *key = &program->keys[k];

        if (strstr(key->key, "block_count") != NULL && key->integer > 99 && key->integer <= 10000) {
            return true;
        }
    }
    return false;
}

static void look(struct vc_model *model, size_t n_pairs)
{
    struct vc_ctx *ctx = fuzz_ctx();
    struct vc_arena arena = {0};
    struct vc_program program;
    struct vc_graph *graph = NULL;
    enum vc_status status = vc_model_program(ctx, model, &arena, &program);

    fuzz_promise(status == VC_OK || status == VC_E_NOMEM, "pairs of an open file can be read", ctx);
    if (status == VC_OK) {
        read_keys(&program, n_pairs);
    }
    if (status == VC_OK && !is_slow(&program)) {
        status = vc_graph_build(ctx, model, NULL, &graph);
        fuzz_promise(status == VC_OK || status == VC_E_FORMAT || status == VC_E_UNSUPPORTED || status == VC_E_NOMEM,
                     vc_status_name(status), ctx);
    }
    if (status == VC_OK && graph != NULL) {
        fuzz_look(graph, model);
    }
    vc_graph_close(graph);
    vc_arena_release(ctx, &arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct gguf_builder g = {0};
    uint64_t before = fuzz_in_use();
    struct vc_model *model = NULL;
    struct bytes b;

    if (n == 0 || n > MAX_BYTES) {
        return 0;
    }
    g.n_pairs = data[0];
    bytes_add(&g.pairs, data + 1, n - 1);
    add_tensors(&g);
    b = gguf_finish(&g);
    if (vc_model_open(fuzz_ctx(), fuzz_file(b.p, b.n), NULL, &model) == VC_OK) {
        look(model, data[0]);
    }
    vc_model_close(model);
    bytes_release(&b);
    fuzz_promise(fuzz_in_use() == before, "all memory is given back", fuzz_ctx());
    return 0;
}
