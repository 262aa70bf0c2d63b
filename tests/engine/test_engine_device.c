/* test_engine_device.c - the instructions of programs on a device against those of the processor: each operator of
 * engine_cases.inc, one instruction at a time, from the same memory. Where no product of matrices is involved both give
 * the same bits; products are within a bound that follows from the number of their terms. EMU_PLUGIN is the plug-in; a
 * real one can be named by VCOMPRESS_BACKEND_PATH. */
#include "engine_test.h"

#include <math.h>
#include <stdlib.h>

#include "engine/train_program.h"

static const char *const cases[] = {
#include "engine_cases.inc"
};

/* What no difference quotient is taken of, or another pass of the same loops: padding that counts and ends, one row of
 * statistics, windows of one element that leave some out, rows that see nothing, elements behind those that turn. */
static const char *const more_cases[] = {
    "(float[5,7] x) => (float[5,7] y) <float half = {0.5}> { y, m = Dropout(x, half)  n = Not(m) }",
    "(float[1,3] x, float[3] pa, float[3] pb, float[3] pc, float[3] pd) => (float[1,3] y) { y = "
    "BatchNormalization(x, pa, pb, pc, pd) }",
    "(float[1,2,5,5] x) => (float[1,2,3,3] y) { y = AveragePool<kernel_shape: ints = [3, 3], strides: ints = [2, 2], "
    "ceil_mode: int = 1, count_include_pad: int = 1, pads: ints = [1, 0, 0, 1]>(x) }",
    "(float[2,3,3,3] x, float[4,3,1,1] pa) => (float[2,4,3,3] y) { y = Conv<strides: ints = [2, 2], pads: ints = "
    "[0, 0, 2, 2]>(x, pa) }",
    "(float[1,2,3,4] x, float[1,2,5,4] z, float[1,2,5,2] v) => (float[1,2,3,2] y) <int64[3,1] at = {0, 2, 0}> { m = "
    "Cast<to: int = 9>(at)  y = Attention(x, z, v, m) }",
    "(float[1,2,3,6] x) => (float[1,2,3,6] y) <float[1,3,1] c = {1.0, 0.5, -0.3}, float[1,3,1] s = {0.0, 0.8, 0.9}> { "
    "y = RotaryEmbedding<rotary_embedding_dim: int = 2>(x, c, s) }",
    /* sums of many terms, of one, two and three operands: columns, planes that do not divide by the lanes, both of several blocks */
    "(float[5,70,19] x, float[19] pa) => (float[5,70,19] y) { y = Add(x, pa) }",
    "(float[5,70,19] x, float[19] pa) => (float[5,70,19] y) { y = Div(x, pa) }",
    "(float[9,70,19] x, float[19] pa) => (float[9,70,19] y) { y = Mul(x, pa) }",
    "(float[11,3,150] x, float[3,1] pa) => (float[11,3,150] y) { y = Mul(x, pa) }",
    /* rows that many indices mean, of several warps */
    "(float[2,4,45] x, int64[300] at) => (float[2,300,45] y) { a = Gather<axis: int = 1>(x, at)  y = Mul(a, a) }",
    "(float[9,2,2,500] x, float[2,1,1] pa) => (float[9,2,2,500] y) { y = Div(x, pa) }",
};

/* Of numbers where formulas have an edge. */
static const char *const odd_cases[] = {
#include "engine_rounded.inc"
    "(float[4,9] x) => (float[4,9] y) { y = Relu(x) }",
    "(float[4,9] x) => (float[4,9] y) { y = LeakyRelu<alpha: float = 0.2>(x) }",
    "(float[4,9] x) => (float[4,9] y) <float low = {-0.5}, float high = {0.5}> { y = Clip(x, low, high) }",
    "(float[4,9] x) => (float[4,9] y) { y = HardSigmoid(x) }",
    "(float[4,9] x) => (float[4,9] y) { y = HardSwish(x) }",
    "(float[4,9] x) => (float[4,9] y) { y = Abs(x) }",
    "(float[4,9] x) => (float[4,9] y) { y = Sqrt(x) }",
    "(float[4,9] x) => (float[4,9] y) <float n = {16.0}> { y = Pow(x, n) }",
    "(float[4,9] x) => (float[4,9] y) <float n = {17.0}> { y = Pow(x, n) }",
    "(float[4,9] x) => (float[4,9] y) { y = Gelu(x) }",
    "(float[4,9] x) => (float[4,9] y) { y = Softmax(x) }",
    "(float[1,2,6,6] x) => (float[1,2,3,3] y) { y = MaxPool<kernel_shape: ints = [2, 2], strides: ints = [2, 2]>(x) }",
    "(float[1,2,6,6] x) => (float[1,2,4,4] y) { y = MaxPool<kernel_shape: ints = [3, 3]>(x) }",
};

static const double odd_numbers[] = {3, -3, 0.5, -0.5, 0, -0.0, NAN, 1.25, INFINITY, -INFINITY, -7};

#if defined(EMU_SANITIZED) /* a kernel takes ten times as long, and rounding changes none */
enum { ROUNDED_EACH = 8, LEAST_EXACT = 500 };
#else
enum { ROUNDED_EACH = 1, LEAST_EXACT = 2000 };
#endif

#define N_OF(array) (sizeof(array) / sizeof *(array))

static struct vc_engine_pass pass = {.training = true, .step = 3, .row = 5, .norm_share = -1};

static unsigned n_exact, n_bounded, n_defined; /* instructions */

/* Memory of the processor beside that of the device. */
struct both {
    struct net net;
    struct vc_engine *e;
    struct vc_train_device *device;
    void *device_arena;
    char *staging;
    size_t arena_bytes;
    char *arena;                  /* what the processor computes in */
    char *there, *values, *grads; /* what the device made: arena, weights, gradients */
};

static void use(struct both *b, enum vc_status status)
{
    if (status != VC_OK) {
        fail_msg("%s", vc_ctx_message(b->net.ctx));
    }
}

static void *here(const struct both *b, struct vc_ref ref, char *arena)
{
    const struct vc_weights *w = b->e->weights;

    switch (ref.kind) {
    case VC_REF_ARENA:
        return arena + b->e->buffers[ref.index].offset + ref.offset;
    case VC_REF_WEIGHT:
        return (char *)w->items[ref.index].data + ref.offset;
    case VC_REF_GRAD:
        return (char *)w->items[ref.index].grad + ref.offset;
    case VC_REF_CONSTANT:
        return (char *)b->e->constants + ref.offset;
    default:
        return NULL;
    }
}

static struct both begin(const char *body, const struct vc_engine_options *given)
{
    struct both b = {.net = {.ctx = test_ctx(), .random = 1}};
    struct vc_engine_options options = *given;

    assert_int_equal(vc_ctx_set_device(b.net.ctx, "cuda"), VC_OK);
    use(&b, vc_train_device_open(b.net.ctx, &b.device));
    assert_non_null(b.device);
    options.device = b.device;
    net_parse(&b.net, body);
    net_weights(&b.net, VC_GRAPH_F32);
    use(&b, vc_engine_make(b.net.ctx, b.net.graph, b.net.weights, &options, &b.net.engine));
    b.e = b.net.engine;
    b.arena_bytes = (size_t)vc_engine_bytes(b.e);
    b.arena = aligned_alloc(64, (b.arena_bytes + 64) / 64 * 64);
    b.there = malloc(b.arena_bytes + 1);
    b.values = malloc((size_t)b.net.weights->data_bytes + 1);
    b.grads = malloc((size_t)b.net.weights->grad_bytes + 1);
    b.staging = malloc((size_t)vc_engine_host_bytes(b.e) + 1);
    memset(b.arena, 0xff, b.arena_bytes);
    use(&b, vc_train_alloc(b.device, b.arena_bytes, &b.device_arena));
    use(&b, vc_engine_attach_device(b.e, b.staging, b.device_arena));
    net_numbers(&b.net);
    return b;
}

static void end(struct both *b)
{
    struct vc_ctx *ctx = b->net.ctx;

    vc_train_free(b->device, b->device_arena, b->arena_bytes);
    net_drop(&b->net);
    vc_train_device_close(b->device);
    free(b->arena);
    free(b->there);
    free(b->values);
    free(b->grads);
    free(b->staging);
    vc_ctx_free(ctx);
}

/* Which ref is scratch; -1: none. The device uses it in its own way. */
static int scratch_of(int loop)
{
    switch (loop) {
    case VC_LOOP_product:
    case VC_LOOP_conv_input:
    case VC_LOOP_conv_weights:
        return 3;
    case VC_LOOP_conv_forward:
        return 4;
    case VC_LOOP_attention:
        return 6;
    case VC_LOOP_recurrent:
    case VC_LOOP_recurrent_backward:
    case VC_LOOP_attention_backward:
        return 10;
    default:
        return -1;
    }
}

/* What an instruction with products writes: bit k for ref k. */
static unsigned products_of(int loop)
{
    switch (loop) {
    case VC_LOOP_product:
    case VC_LOOP_conv_input:
    case VC_LOOP_conv_weights:
        return 1u << 2;
    case VC_LOOP_conv_forward:
        return 1u << 3;
    case VC_LOOP_attention:
        return 1u << 4 | 1u << 5;
    case VC_LOOP_attention_backward:
        return 1u << 7 | 1u << 8 | 1u << 9 | 1u << 11;
    case VC_LOOP_recurrent:
        return 1u << 0 | 1u << 7 | 1u << 8 | 1u << 9;
    case VC_LOOP_recurrent_backward:
        return 1u << 0 | 1u << 8 | 1u << 9;
    default:
        return 0;
    }
}

/* Terms of the longest sum of a product. */
static double terms_of(const struct vc_instruction *in)
{
    const struct vc_args_conv *conv = in->call.args;
    const struct vc_args_product *product = in->call.args;
    const struct vc_args_attention *attention = in->call.args;
    const struct vc_args_recurrent *recurrent = in->call.args;

    if (in->loop == VC_LOOP_product) {
        return (double)product->k * (double)(product->first[1] - product->first[0]) + 2;
    }
    if (in->loop == VC_LOOP_attention || in->loop == VC_LOOP_attention_backward) {
        return (double)(attention->size + attention->v_size + attention->keys + attention->queries * attention->heads) +
               64; /* the products, and the functions between them */
    }
    if (in->loop == VC_LOOP_recurrent || in->loop == VC_LOOP_recurrent_backward) {
        return (double)recurrent->steps *
               ((double)recurrent->gates * (double)recurrent->hidden + 64); /* step by step */
    }
    return (double)(conv->channels + conv->filters) * (double)(conv->kernel[0] * conv->kernel[1] * conv->kernel[2]) +
           (double)conv->batch * (double)(conv->out[0] * conv->out[1] * conv->out[2]);
}

/* What an instruction adds to with `add`; -1: it never does. */
static int sum_of(int loop)
{
    switch (loop) {
    case VC_LOOP_strided_sum:
        return 0;
    case VC_LOOP_dropout:
    case VC_LOOP_mapped_backward:
    case VC_LOOP_blend:
    case VC_LOOP_max_pool_backward:
    case VC_LOOP_average_pool_backward:
    case VC_LOOP_add_chunks:
        return 1;
    case VC_LOOP_unary_backward:
    case VC_LOOP_softmax_backward:
    case VC_LOOP_product:
    case VC_LOOP_conv_input:
    case VC_LOOP_conv_weights:
    case VC_LOOP_batch_norm_backward:
    case VC_LOOP_row_norm_backward:
    case VC_LOOP_gather_backward:
    case VC_LOOP_where_backward:
        return 2;
    case VC_LOOP_rotary:
        return 4;
    default:
        return -1;
    }
}

/* Both are NaN, which one it is nobody promises. */
static bool both_nan(const char *x, const char *y)
{
    float a;
    float b;

    memcpy(&a, x, sizeof a);
    memcpy(&b, y, sizeof b);
    return isnan(a) && isnan(b);
}

static bool same(const struct both *b, const struct vc_instruction *in, const char *body, const char *what,
                 const void *is, const void *should, size_t n, const char *skip)
{
    for (size_t i = 0; i < n; i++) {
        size_t f = i / sizeof(float);

        if (((const char *)is)[i] != ((const char *)should)[i] && (skip == NULL || skip[i] == 0) &&
            !both_nan((const char *)is + f * sizeof(float), (const char *)should + f * sizeof(float))) {

            fail_msg("%s: %s (instruction %zu, loop %d): element %zu of the %s is %.9g on the device, %.9g on the CPU",
                     body, vc_plan_node(b->e, in->node)->op, (size_t)(in - b->e->instructions), in->loop, f, what,
                     (double)((const float *)is)[f], (double)((const float *)should)[f]);
        }
    }
    return true;
}

/* Products: element by element within the bound; they become what the device made, so that errors do not add up. */
static void close_by(const struct both *b, const struct vc_instruction *in, const char *body, char *is, char *should,
                     size_t n)
{
    float most = 0;
    double bound;

    for (size_t i = 0; i < n; i++) {
        float v = ((const float *)should)[i];

        most = isfinite(v) && fabsf(v) > most ? fabsf(v) : most;
    }
    bound = terms_of(in) * 0x1p-23 * (1 + (double)most);
    for (size_t i = 0; i < n; i++) {
        double x = (double)((float *)is)[i];
        double y = (double)((float *)should)[i];

        if (!(fabs(x - y) <= bound) && !(isnan(x) && isnan(y)) && !(isinf(x) && x == y)) {
            fail_msg("%s: %s (instruction %zu, loop %d): element %zu is %.9g on the device, %.9g on the CPU; bound %g",
                     body, vc_plan_node(b->e, in->node)->op, (size_t)(in - b->e->instructions), in->loop, i, x, y,
                     bound);
        }
    }
    memcpy(is, should, n * sizeof(float));
}

/* Elements of a ref, as far as a product may have written them. */
static size_t room_of(const struct both *b, struct vc_ref ref)
{
    return (size_t)(ref.kind == VC_REF_ARENA ? (b->e->buffers[ref.index].size_bytes - ref.offset) / sizeof(float)
                                             : b->e->weights->items[ref.index].n - ref.offset / sizeof(float));
}

/* The same ref in what came from the device. */
static char *there(const struct both *b, struct vc_ref ref)
{
    const struct vc_weights *w = b->e->weights;

    return ref.kind == VC_REF_ARENA ? here(b, ref, b->there)
                                    : b->grads + ((char *)here(b, ref, NULL) - (char *)w->grad_block);
}

static void compare(struct both *b, const struct vc_instruction *in, const char *body)
{
    const struct vc_weights *w = b->e->weights;
    int scratch = scratch_of(in->loop);
    unsigned products = products_of(in->loop);
    char *skip = calloc(1, b->arena_bytes + 1);

    if (scratch >= 0) {
        const struct vc_buffer *buffer = &b->e->buffers[in->refs[scratch].index];

        memset(skip + buffer->offset, 1, (size_t)buffer->size_bytes);
    }
    for (unsigned r = 0; r < in->n_refs; r++) {
        if ((products >> r & 1) != 0 && in->refs[r].kind != VC_REF_NONE) {
            close_by(b, in, body, there(b, in->refs[r]), here(b, in->refs[r], b->arena), room_of(b, in->refs[r]));
        }
    }
    same(b, in, body, "arena", b->there, b->arena, b->arena_bytes, skip);
    same(b, in, body, "weights", b->values, w->data_block, (size_t)w->data_bytes, NULL);
    same(b, in, body, "gradients", b->grads, w->grad_block, (size_t)w->grad_bytes, NULL);
    n_exact += products == 0 && in->loop >= 0;
    n_bounded += products != 0;
    n_defined += in->loop < 0;
    free(skip);
}

static void run_one(struct both *b, size_t k, const char *body)
{
    const struct vc_instruction *in = &b->e->instructions[k];
    struct vc_weights *w = b->e->weights;
    struct vc_train_call call = in->call;

    for (unsigned r = 0; r < in->n_refs; r++) {
        call.p[r] = here(b, in->refs[r], b->arena);
    }
    use(b, vc_train_to_device(b->device, b->device_arena, b->arena, b->arena_bytes));
    use(b, vc_train_to_device(b->device, w->device_data, w->data_block, w->data_bytes));
    use(b, vc_train_to_device(b->device, w->device_grad, w->grad_block, w->grad_bytes));
    b->e->pass = pass;
    use(b, vc_engine_run_device(b->e, k, k + 1));
    use(b, vc_train_to_host(b->device, b->there, b->device_arena, b->arena_bytes));
    use(b, vc_train_to_host(b->device, b->values, w->device_data, w->data_bytes));
    use(b, vc_train_to_host(b->device, b->grads, w->device_grad, w->grad_bytes));
    for (size_t block = 0; block < in->n_blocks; block++) {
        in->run(&call, &b->e->pass, 0, block);
    }
    compare(b, in, body);
}

/* The instruction once more, as one that adds to what is there. Nothing that it did is left. */
static void run_adding(struct both *b, size_t k, const char *body)
{
    struct vc_instruction *in = &b->e->instructions[k];
    struct vc_weights *w = b->e->weights;
    int sum = sum_of(in->loop);
    char *memory[3] = {b->arena, w->data_block, w->grad_block};
    const size_t bytes[3] = {b->arena_bytes, (size_t)w->data_bytes, (size_t)w->grad_bytes};
    char *saved[3];
    bool apart = sum >= 0 && !in->call.add && in->refs[sum].kind != VC_REF_NONE;

    for (int r = 0; apart && r < (int)in->n_refs; r++) {
        apart = r == sum || in->refs[r].kind != in->refs[sum].kind || in->refs[r].index != in->refs[sum].index;
    }
    if (!apart) {
        return;
    }
    for (size_t i = 0; i < 3; i++) {
        saved[i] = malloc(bytes[i] + 1);
        memcpy(saved[i], memory[i], bytes[i]);
    }
    for (size_t i = 0; i < room_of(b, in->refs[sum]); i++) {
        ((float *)(void *)here(b, in->refs[sum], b->arena))[i] = (float)((int)(i % 13) - 6) / 4;
    }
    in->call.add = true;
    run_one(b, k, body);
    in->call.add = false;
    for (size_t i = 0; i < 3; i++) {
        memcpy(memory[i], saved[i], bytes[i]);
        free(saved[i]);
    }
}

static void put(struct both *b, const struct vc_engine_value *v, struct vc_ref ref, const double *numbers)
{
    char *to = here(b, ref, b->arena);

    for (size_t i = 0; i < v->n && to != NULL; i++) {
        if (v->integers) {
            ((int64_t *)(void *)to)[i] = (int64_t)numbers[i];
        } else {
            ((float *)(void *)to)[i] = (float)numbers[i];
        }
    }
}

/* The device's constants are what they were. */
static void check_constants(struct both *b)
{
    char *constants = malloc((size_t)b->e->constant_bytes + 1);

    use(b, vc_train_to_host(b->device, constants, b->e->own, b->e->constant_bytes));
    assert_memory_equal(constants, b->e->constants, (size_t)b->e->constant_bytes);
    free(constants);
}

static void check_case(const char *body, const struct vc_engine_options *options, bool odd)
{
    struct both b = begin(body, options);
    float *grads = b.e->weights->grad_block;
    size_t n = 0;

    for (size_t i = 0; odd && i < b.net.n_inputs; i++) {
        b.net.inputs[i] = odd_numbers[i % N_OF(odd_numbers)];
    }
    for (size_t i = 0; odd && i < b.net.n_outputs; i += 3) {
        b.net.cotangents[i] = -0.0;
    }
    /* the padding between tensors is nobody's */
    for (size_t k = 0; k < b.e->n_inputs; n += (size_t)b.e->inputs[k].n, k++) {
        put(&b, &b.e->inputs[k], b.e->input_refs[2 * k], b.net.inputs + n);
    }
    for (size_t k = 0; k < b.e->n_forward; k++) {
        run_adding(&b, k, body);
        run_one(&b, k, body);
    }
    n = 0;
    for (size_t k = 0; k < b.e->n_outputs; n += (size_t)b.e->outputs[k].n, k++) {
        put(&b, &b.e->outputs[k], b.e->output_refs[2 * k + 1], b.net.cotangents + n);
    }
    for (size_t i = 0; i < b.e->weights->grad_bytes / sizeof *grads; i++) {
        grads[i] = (float)(i % 7) / 8; /* that of a batch before */
    }
    for (size_t k = b.e->n_forward; k < b.e->n; k++) {
        run_adding(&b, k, body);
        run_one(&b, k, body);
    }
    check_constants(&b);
    end(&b);
}

static const struct vc_engine_options trains = {.train = true, .dropout = true, .seed = 7, .input_grads = true};

static void instructions(void **state)
{
    struct vc_engine_options options = trains;

    (void)state;
    for (size_t k = 0; k < 3 * N_OF(cases); k += k < N_OF(cases) ? 1 : ROUNDED_EACH) {
        options.rounding = k < N_OF(cases)       ? VC_UNARY_COPY
                           : k < 2 * N_OF(cases) ? VC_UNARY_ROUND_BF16
                                                 : VC_UNARY_ROUND_F16;
        check_case(cases[k % N_OF(cases)], &options, false);
    }
    for (size_t k = 0; k < N_OF(more_cases); k++) {
        check_case(more_cases[k], &trains, false);
    }
    print_message("%u instructions with the same bits, %u products within their bounds, %u on the host\n", n_exact,
                  n_bounded, n_defined);
    assert_true(n_exact > LEAST_EXACT && n_bounded > 150);
}

static void odd_values(void **state)
{
    static const struct vc_engine_options answers = {.threads = 1};

    (void)state;
    check_case("(float[4,900] x) => (float[4,900] y) <uint8 z = {3}, float s = {0.01}> { q = QuantizeLinear(x, s, z)  "
               "y = DequantizeLinear(q, s, z) }",
               &answers, true);
    for (size_t k = 0; k < N_OF(odd_cases); k++) {
        check_case(odd_cases[k], &trains, true);
    }
}

/* Numbers of steps and elements that do not fit 32 bits. */
static void large_numbers(void **state)
{
    const struct vc_engine_pass was = pass;

    (void)state;
    pass.step = (uint64_t)5 << 32 | 9;
    pass.row = (uint64_t)3 << 34;
    check_case(more_cases[0], &trains, false);
    pass = was;
}

/* What is computed again moves no running statistics a second time, and drops the same elements. */
static void computed_again(void **state)
{
    static const char body[] =
        "(float[6,3,4,4] x, float[4,3,3,3] pa, float[4,4,3,3] pb, float[4] pc, float[4] pd, float[4] pe, float[4] pf) "
        "=> (float[6,4,4,4] y) <float ratio = {0.3}> { a = Conv<pads: ints = [1, 1, 1, 1]>(x, pa)  b = "
        "BatchNormalization(a, pc, pd, pe, pf)  c = Relu(b)  d, m = Dropout(c, ratio)  n = Not(m)  e = "
        "Conv<pads: ints = [1, 1, 1, 1]>(d, pb)  f = Sigmoid(e)  g = Conv<pads: ints = [1, 1, 1, 1]>(f, pb)  "
        "y = Mul(g, f) }";
    struct vc_engine_options again = trains;
    unsigned n = 0;
    struct both b;

    (void)state;
    again.recompute = VC_RECOMPUTE_EVERY;
    again.recompute_every = 2;
    b = begin(body, &again);
    for (size_t k = b.e->n_forward; k < b.e->n; k++) {
        n += b.e->instructions[k].loop == VC_LOOP_batch_norm || b.e->instructions[k].loop == VC_LOOP_dropout;
    }
    end(&b);
    assert_int_equal(n, 3); /* the gradient of what was dropped is the third */
    check_case(body, &again, false);
}

enum { PASSES = 6 };

/* What passes of different steps leave: outputs, gradients, weights; instructions as graphs of the device, or one by one. */
static char *run_passes(const char *body, bool graphs, size_t *bytes)
{
    struct both b = begin(body, &trains);
    struct vc_weights *w = b.net.weights;
    char *all;
    char *at;

    *bytes = 0;
    all = at = calloc(PASSES, (size_t)(b.e->outputs[0].n * sizeof(float) + w->data_bytes + w->grad_bytes));
    b.device->graphs = graphs;
    for (unsigned k = 0; k < PASSES; k++) {
        const struct vc_engine_pass one = {
            .training = true, .step = ((uint64_t)k << 33) + k, .row = 7 * k, .norm_share = k < 3 ? -1 : 0.25};

        use(&b, vc_weights_clear(w));
        net_forward(&b.net, &one);
        net_backward(&b.net);
        memcpy(at, b.e->outputs[0].data, b.e->outputs[0].n * sizeof(float));
        at += b.e->outputs[0].n * sizeof(float);
        use(&b, vc_train_to_host(b.device, b.values, w->device_data, w->data_bytes));
        use(&b, vc_train_to_host(b.device, b.grads, w->device_grad, w->grad_bytes));
        for (size_t i = 0; i < w->n; i++) { /* the padding between tensors is nobody's */
            size_t n = (size_t)w->items[i].n * sizeof(float);
            const char *grad = w->items[i].grad;

            memcpy(at, b.values + ((char *)w->items[i].data - (char *)w->data_block), n);
            at += n;
            if (grad != NULL) {
                memcpy(at, b.grads + (grad - (char *)w->grad_block), n);
                at += n;
            }
        }
        /* of the third pass, and, since statistics move otherwise then, of the sixth one again */
        assert_int_equal(b.e->instructions[b.e->n_forward].together.graph != NULL, graphs && k % 3 != 0);
        assert_int_equal(b.e->instructions[0].together.graph != NULL, graphs && k % 3 != 0);
    }
    *bytes = (size_t)(at - all);
    assert_string_equal(b.device->no_graphs, "");
    end(&b);
    return all;
}

/* A graph does what its instructions do, with the random numbers of the step. */
static void graphs(void **state)
{
    static const char body[] =
        "(float[6,3,4,4] x, float[4,3,3,3] pa, float[4] pc, float[4] pd, float[4] pe, float[4] pf, float[16,16] pg) => "
        "(float[6,4,16] y) <float ratio = {0.3}, int64[3] s = {6, 4, 16}> { a = Conv<pads: ints = [1, 1, 1, 1]>(x, pa) "
        " b = "
        "BatchNormalization(a, pc, pd, pe, pf)  c, m = Dropout(b, ratio)  n = Not(m)  d = Reshape(c, s)  e = MatMul(d, "
        "pg)  y = "
        "Attention<q_num_heads: int = 2, kv_num_heads: int = 2>(e, d, e) }";
    size_t bytes;
    char *as_graphs = run_passes(body, true, &bytes);
    char *one_by_one = run_passes(body, false, &bytes);

    (void)state;
    assert_memory_equal(as_graphs, one_by_one, bytes);
    free(as_graphs);
    free(one_by_one);
}

/* Indices out of range: the first of them is told, and nothing beyond the table is read. */
static void check_fault(const char *body, const double *indices, size_t n, uint64_t first)
{
    struct both b = begin(body, &trains);
    struct vc_train_fault fault;

    memcpy(b.net.inputs, indices, n * sizeof *indices);
    n = 0;
    for (size_t k = 0; k < b.e->n_inputs; n += (size_t)b.e->inputs[k].n, k++) {
        put(&b, &b.e->inputs[k], b.e->input_refs[2 * k], b.net.inputs + n);
    }
    for (size_t k = 0; k < b.e->n_forward; k++) {
        run_one(&b, k, body);
    }
    use(&b, vc_train_result(b.device, b.device->table->fault(b.device->session, &fault)));
    assert_true(fault.set && b.e->fault.set && fault.at == first && b.e->fault.at == first);
    use(&b, vc_train_result(b.device, b.device->table->fault(b.device->session, &fault)));
    assert_false(fault.set);
    end(&b);
}

static void faults(void **state)
{
    static const double beyond[] = {0, 2, 3, -4, 1};
    static const double before[] = {0, -3, -4, 2, 3};

    (void)state;
    check_fault("(int64[5] at, float[3,2] pa) => (float[5,2] y) { y = Gather(pa, at) }", beyond, 5, 2);
    check_fault("(int64[5] at, float[3,2] pa) => (float[5,2] y) { y = Gather(pa, at) }", before, 5, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(instructions),   cmocka_unit_test(odd_values), cmocka_unit_test(large_numbers),
        cmocka_unit_test(computed_again), cmocka_unit_test(graphs),     cmocka_unit_test(faults),
    };

#if defined(EMU_PLUGIN)
    setenv("VCOMPRESS_BACKEND_PATH", EMU_PLUGIN, 0);
#endif
    return cmocka_run_group_tests(tests, NULL, NULL);
}
