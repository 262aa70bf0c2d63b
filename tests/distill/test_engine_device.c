/* test_engine_device.c - the instructions of programs on a device against those of the processor: each operator of
 * engine_cases.inc, one instruction at a time, from the same memory. Where no product of matrices is involved both give
 * the same bits; products are within a bound that follows from the number of their terms. EMU_PLUGIN is the plug-in; a
 * real one can be named by VCOMPRESS_BACKEND_PATH. */
#include "engine_test.h"

#include <math.h>
#include <stdlib.h>

#include "distill/engine/train_program.h"

static const char *const cases[] = {
#include "engine_cases.inc"
};

#define N_CASES (sizeof cases / sizeof *cases)

static const struct vc_engine_pass training = {.training = true, .step = 3, .row = 5, .norm_share = -1};

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

    if (in->loop == VC_LOOP_product) {
        return (double)product->k * (double)(product->first[1] - product->first[0]) + 2;
    }
    if (in->loop == VC_LOOP_attention || in->loop == VC_LOOP_attention_backward) {
        return (double)(attention->size + attention->v_size + attention->keys + attention->queries * attention->heads) +
               64; /* the products, and the functions between them */
    }
    return (double)(conv->channels + conv->filters) * (double)(conv->kernel[0] * conv->kernel[1] * conv->kernel[2]) +
           (double)conv->batch * (double)(conv->out[0] * conv->out[1] * conv->out[2]);
}

static bool same(const struct both *b, const struct vc_instruction *in, const char *body, const char *what,
                 const void *is, const void *should, size_t n, const char *skip)
{
    for (size_t i = 0; i < n; i++) {
        if (((const char *)is)[i] != ((const char *)should)[i] && (skip == NULL || skip[i] == 0)) {
            size_t f = i / sizeof(float);

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
    b->e->pass = training;
    use(b, vc_engine_run_device(b->e, k, k + 1));
    use(b, vc_train_to_host(b->device, b->there, b->device_arena, b->arena_bytes));
    use(b, vc_train_to_host(b->device, b->values, w->device_data, w->data_bytes));
    use(b, vc_train_to_host(b->device, b->grads, w->device_grad, w->grad_bytes));
    for (size_t block = 0; block < in->n_blocks; block++) {
        in->run(&call, &b->e->pass, 0, block);
    }
    compare(b, in, body);
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

static void check_case(const char *body, const struct vc_engine_options *options)
{
    struct both b = begin(body, options);
    size_t n = 0;

    /* the padding between tensors is nobody's */
    for (size_t k = 0; k < b.e->n_inputs; n += (size_t)b.e->inputs[k].n, k++) {
        put(&b, &b.e->inputs[k], b.e->input_refs[2 * k], b.net.inputs + n);
    }
    for (size_t k = 0; k < b.e->n_forward; k++) {
        run_one(&b, k, body);
    }
    n = 0;
    for (size_t k = 0; k < b.e->n_outputs; n += (size_t)b.e->outputs[k].n, k++) {
        put(&b, &b.e->outputs[k], b.e->output_refs[2 * k + 1], b.net.cotangents + n);
    }
    for (size_t k = b.e->n_forward; k < b.e->n; k++) {
        run_one(&b, k, body);
    }
    end(&b);
}

static void instructions(void **state)
{
    struct vc_engine_options options = {.train = true, .dropout = true, .seed = 7, .input_grads = true};

    (void)state;
    for (size_t k = 0; k < 3 * N_CASES; k++) {
        options.rounding = k < N_CASES ? VC_UNARY_COPY : k < 2 * N_CASES ? VC_UNARY_ROUND_BF16 : VC_UNARY_ROUND_F16;
        check_case(cases[k % N_CASES], &options);
    }
    print_message("%u instructions with the same bits, %u products within their bounds, %u on the host\n", n_exact,
                  n_bounded, n_defined);
    assert_true(n_exact > 2000 && n_bounded > 150);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(instructions),
    };

#if defined(EMU_PLUGIN)
    setenv("VCOMPRESS_BACKEND_PATH", EMU_PLUGIN, 0);
#endif
    return cmocka_run_group_tests(tests, NULL, NULL);
}
