/* test_engine_narrow.c - values of 16 bits that wait in 16 bits: every program is run twice, in its arena and with
 * memory of its own for each buffer, where what was narrowed is still there to be compared; and how small the arena is.
 */
#include "engine_test.h"

#include <math.h>
#include <stdlib.h>

#include "engine/train_program.h"

#define N_OF(array) (sizeof(array) / sizeof *(array))

static const struct vc_engine_pass pass = {.step = 3, .norm_share = -1};

static const char *const cases[] = {
#include "engine_cases.inc"
};

/* A chain of equal layers, of which what waits decides the peak; of one layer, of which the input does; a value that is
 * read by the next layer and by the last one; one that the loss reads, and the backward pass. */
#define LAYER(from, to) "l" to " = MatMul(" from ", pa)  " to " = Tanh(l" to ")  "
static const char chain[] =
    "(float[256,32] x, float[32,32] pa) => (float[256,32] y) { " LAYER("x", "a") LAYER("a", "b") LAYER("b", "c")
        LAYER("c", "d") LAYER("d", "e") LAYER("e", "f") LAYER("f", "g") LAYER("g", "h") LAYER("h", "i") LAYER("i", "j")
            LAYER("j", "k") LAYER("k", "m") LAYER("m", "n") LAYER("n", "o") LAYER("o", "q") "y = MatMul(q, pa) }";
static const char wide[] = "(float[512,256] x, float[256,16] pa, float[16,3] pb) => (float[512,3] y) "
                           "{ a = MatMul(x, pa)  b = Relu(a)  y = MatMul(b, pb) }";
static const char skip[] = "(float[64,32] x, float[32,32] pa) => (float[64,32] y) { " LAYER("x", "a") LAYER("a", "b")
    LAYER("b", "c") LAYER("c", "d") LAYER("d", "e") LAYER("e", "f") "g = Mul(f, a)  h = Exp(g)  y = MatMul(h, pa) }";
static const char read_by_loss[] =
    "(float[64,32] x, float[32,32] pa, float[32] pb) => (float[64,32] a, float[64,32] y) { "
    "t = MatMul(x, pa)  a = Sigmoid(t)  " LAYER("a", "b") LAYER("b", "c") "y = Add(c, pb) }";
static const char *const more_cases[] = {chain, wide, skip, read_by_loss};

static unsigned n_narrowed, n_widened, n_read;

/* ---- a program with memory of its own for each buffer ---- */

/* Every buffer that was narrowed into: where its floats are. */
struct floats {
    const float *of[4096];
};

static uint16_t half(enum vc_unary kind, float x)
{
    return kind == VC_UNARY_ROUND_BF16 ? vc_f32_to_bf16(x) : vc_f32_to_f16(x);
}

static void run(const struct vc_instruction *in, const struct vc_train_call *call)
{
    for (size_t block = 0; block < in->n_blocks; block++) {
        in->run(call, &pass, 0, block);
    }
}

/* The gradient of what waits in 16 bits is that of the floats. */
static void run_reading(const struct vc_instruction *in, const float *floats)
{
    struct vc_args_unary args = *(const struct vc_args_unary *)in->call.args;
    struct vc_train_call call = in->call;
    float *wanted = malloc((size_t)args.n * sizeof *wanted);

    memcpy(wanted, call.p[2], (size_t)args.n * sizeof *wanted);
    args.from = VC_UNARY_COPY;
    call.args = &args;
    call.p[0] = (void *)(uintptr_t)floats;
    call.p[2] = wanted;
    run(in, &call);
    run(in, &in->call);
    assert_memory_equal(in->call.p[2], wanted, (size_t)args.n * sizeof *wanted);
    free(wanted);
    n_read++;
}

static void run_step(const struct vc_engine *e, size_t k, struct floats *floats)
{
    const struct vc_instruction *in = &e->instructions[k];
    const struct vc_args_unary *args = in->call.args;
    const float *x = in->call.p[0];
    uint32_t from = in->refs[0].index;

    if (in->loop == VC_LOOP_unary_backward && args->from != VC_UNARY_COPY) {
        run_reading(in, floats->of[from]);
        return;
    }
    run(in, &in->call);
    if (in->loop == VC_LOOP_unary && args->to != VC_UNARY_COPY) { /* loses nothing */
        const uint16_t *h = in->call.p[1];
        uint32_t to = in->refs[1].index;

        assert_true(to < 4096 && floats->of[to] == NULL);
        assert_int_equal(e->buffers[to].size_bytes, args->n * sizeof *h);
        floats->of[to] = x;
        for (size_t i = 0; i < args->n; i++) {
            float back = args->to == VC_UNARY_ROUND_BF16 ? vc_bf16_to_f32(h[i]) : vc_f16_to_f32(h[i]);

            assert_int_equal(h[i], half(args->to, x[i]));
            assert_memory_equal(&back, &x[i], sizeof back);
        }
        n_narrowed++;
    } else if (in->loop == VC_LOOP_unary &&
               args->from !=
                   VC_UNARY_COPY) { /* what was narrowed, and is still there: nobody has written to it since */
        assert_memory_equal(in->call.p[1], floats->of[from], (size_t)args->n * sizeof(float));
        n_widened++;
    }
}

static size_t take_outputs(const struct vc_engine *e, float *values)
{
    size_t n = 0;

    for (size_t k = 0; k < e->n_outputs; k++) {
        if (!e->outputs[k].integers) {
            memcpy(values + n, e->outputs[k].data, (size_t)e->outputs[k].n * sizeof *values);
            n += (size_t)e->outputs[k].n;
        }
    }
    return n;
}

static size_t take_input_grads(const struct vc_engine *e, float *values)
{
    size_t n = 0;

    for (size_t k = 0; k < e->n_inputs; k++) {
        if (e->inputs[k].grad != NULL) {
            memcpy(values + n, e->inputs[k].grad, (size_t)e->inputs[k].n * sizeof *values);
            n += (size_t)e->inputs[k].n;
        }
    }
    return n;
}

/* Leaves the gradients of the weights, and gives the outputs and gradients of inputs, one after the other. */
static size_t run_apart(struct net *net, float *values)
{
    struct vc_engine *e = net->engine;
    struct floats *floats = calloc(1, sizeof *floats);
    uint64_t bytes = 0;
    size_t n;

    for (size_t k = 0; k < e->n_buffers; k++) {
        e->buffers[k].offset = bytes;
        bytes += (e->buffers[k].size_bytes + VC_POOL_ALIGN - 1) / VC_POOL_ALIGN * VC_POOL_ALIGN;
    }
    vc_free(net->ctx, net->memory);
    net->memory = vc_alloc(net->ctx, VC_TAG_TILES, (size_t)bytes);
    memset(net->memory, 0xff, (size_t)bytes);
    vc_engine_attach(e, net->memory);
    net_put_inputs(net);
    for (size_t k = 0; k < e->n_forward; k++) {
        run_step(e, k, floats);
    }
    n = take_outputs(e, values);
    net_put_cotangents(net);
    for (size_t k = e->n_forward; k < e->n; k++) {
        run_step(e, k, floats);
    }
    n += take_input_grads(e, values + n);
    free(floats);
    return n;
}

/* The same as users run it. */
static size_t run_packed(struct net *net, float *values)
{
    struct vc_engine *e = net->engine;
    size_t n;

    net_forward(net, &pass);
    n = take_outputs(e, values);
    net_backward(net);
    n += take_input_grads(e, values + n);
    return n;
}

static void check_case(const char *body, enum vc_unary rounding, enum vc_recompute recompute)
{
    const struct vc_engine_options options = {.train = true,
                                              .threads = 1,
                                              .seed = 7,
                                              .input_grads = true,
                                              .recompute = recompute,
                                              .recompute_every = 1,
                                              .rounding = rounding};
    struct net net = net_begin(body, VC_GRAPH_F32, &options);
    size_t room = net.n_inputs + net.n_outputs + 1;
    float *values[2] = {calloc(room, sizeof(float)), calloc(room, sizeof(float))};
    float *grads = malloc((size_t)net.weights->grad_bytes + 1);
    size_t n;

    vc_weights_clear(net.weights);
    n = run_packed(&net, values[0]);
    memcpy(grads, net.weights->grad_block, (size_t)net.weights->grad_bytes);
    vc_weights_clear(net.weights);
    assert_int_equal(run_apart(&net, values[1]), n);
    assert_memory_equal(values[0], values[1], n * sizeof(float));
    assert_memory_equal(grads, net.weights->grad_block, (size_t)net.weights->grad_bytes);
    free(values[0]);
    free(values[1]);
    free(grads);
    net_end(&net);
}

static void same_elements(void **state)
{
    (void)state;
    for (size_t c = 0; c < 4 * (N_OF(cases) + N_OF(more_cases)); c++) {
        size_t k = c / 4;

        check_case(k < N_OF(more_cases) ? more_cases[k] : cases[k - N_OF(more_cases)],
                   c % 2 == 0 ? VC_UNARY_ROUND_BF16 : VC_UNARY_ROUND_F16,
                   c % 4 < 2 ? VC_RECOMPUTE_NONE : VC_RECOMPUTE_EVERY);
    }
    print_message("%u arrays were narrowed, %u widened, %u read as they were\n", n_narrowed, n_widened, n_read);
    assert_true(n_narrowed > 200 && n_widened > 200 && n_read > 50);
}

/* a waits for Add, which writes over it; then g does, and h, which is written over g. */
static const char over[] =
    "(float[64,32] x, float[32,32] pa, float[32] pb, float[32] pc) => (float[64,32] y) { a = MatMul(x, pa)  n = Neg(a) "
    " "
    "b = Relu(n)  c = Mul(b, pb)  d = Neg(c)  e = Relu(d)  f = Mul(e, pb)  i = Neg(f)  j = Neg(i)  g = Add(a, j)  "
    "h = Relu(g)  k = Mul(h, pc)  l = Neg(k)  y = Mul(l, pb) }";

/* Inputs, weights and gradients of outputs are -1, 0 and 1, so everything is a whole number below 256, which all types
 * have: 16 bits give the bits of f32. */
static void whole_numbers(void **state)
{
    static float values[3][2 * 64 * 32], grads[3][32 * 32 + 2 * 32 + 64];
    size_t n[3];

    (void)state;
    for (unsigned k = 0; k < 3; k++) {
        const struct vc_engine_options options = {.train = true,
                                                  .threads = 1,
                                                  .input_grads = true,
                                                  .rounding = k == 0   ? VC_UNARY_COPY
                                                              : k == 1 ? VC_UNARY_ROUND_BF16
                                                                       : VC_UNARY_ROUND_F16};
        struct net net = net_begin(over, VC_GRAPH_F32, &options);

        for (size_t i = 0; i < net.n_inputs; i++) {
            net.inputs[i] = round(1.4 * net.inputs[i]);
        }
        for (size_t i = 0; i < net.n_outputs; i++) {
            net.cotangents[i] = round(1.4 * net.cotangents[i]);
        }
        for (size_t w = 0; w < net.weights->n; w++) {
            float *x = net.weights->items[w].data;

            for (size_t i = 0; i < net.weights->items[w].n; i++) {
                x[i] = roundf(1.4F * x[i]);
            }
        }
        vc_weights_clear(net.weights);
        n[k] = run_packed(&net, values[k]);
        assert_true(net.weights->grad_bytes <= sizeof grads[k]);
        memcpy(grads[k], net.weights->grad_block, (size_t)net.weights->grad_bytes);
        net_end(&net);
    }
    for (unsigned k = 1; k < 3; k++) {
        assert_int_equal(n[k], n[0]);
        assert_memory_equal(values[k], values[0], n[0] * sizeof(float));
        assert_memory_equal(grads[k], grads[0], sizeof grads[0]);
    }
}

/* ---- how much ---- */

struct figures {
    uint64_t bytes, kept;
};

static struct figures plan(const char *body, enum vc_unary rounding, enum vc_recompute recompute)
{
    const struct vc_engine_options options = {
        .train = true, .threads = 1, .recompute = recompute, .rounding = rounding, .plan_only = true};
    struct net net = {.ctx = test_ctx(), .random = 1};
    struct figures out;

    net_parse(&net, body);
    net_weights(&net, VC_GRAPH_F32);
    assert_int_equal(vc_engine_make(net.ctx, net.graph, net.weights, &options, &net.engine), VC_OK);
    out = (struct figures){vc_engine_bytes(net.engine), vc_engine_kept_bytes(net.engine)};
    net_end(&net);
    return out;
}

static void half_waits(void **state)
{
    const enum vc_unary roundings[] = {VC_UNARY_ROUND_BF16, VC_UNARY_ROUND_F16};
    const uint64_t value = 256 * 32 * sizeof(float);

    (void)state;
    for (size_t k = 0; k < 2; k++) {
        struct figures f32 = plan(chain, VC_UNARY_COPY, VC_RECOMPUTE_NONE);
        struct figures f16 = plan(chain, roundings[k], VC_RECOMPUTE_NONE);

        assert_int_equal(f32.kept, 17 * value); /* x, 15 of Tanh, y */
        assert_int_equal(f16.kept, 16 * value / 2 + value);
        assert_true(f16.bytes <= f16.kept + 4 * value && f32.bytes >= f32.kept);
        f32 = plan(chain, VC_UNARY_COPY, VC_RECOMPUTE_SQRT);
        f16 = plan(chain, roundings[k], VC_RECOMPUTE_SQRT);
        assert_true(f16.kept < f32.kept && f16.bytes < f32.bytes);
        /* where the only large value would be there twice, it is not narrowed */
        f32 = plan(wide, VC_UNARY_COPY, VC_RECOMPUTE_NONE);
        f16 = plan(wide, roundings[k], VC_RECOMPUTE_NONE);
        assert_true(f16.bytes < f32.bytes);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_elements),
        cmocka_unit_test(whole_numbers),
        cmocka_unit_test(half_waits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
