/* train_program.h - inside of an engine: buffers, instructions, and what makes them of a graph.
 *
 * An instruction is a loop over blocks that may run in any order and at the same time; the next one begins when all
 * have ended. What it reads and writes are refs, which become pointers when memory is attached:
 *
 *     0  conv_forward   blocks 64   p: x, weights, bias, y, scratch
 *     1  unary          blocks 13   p: y, y
 *     2  max_pool       ...
 *        (the loss, outside)
 *     3  max_pool_backward ...
 *
 * A buffer of the arena lives from the first to the last instruction that refers to it.
 *
 * How a program is made (engine.c, make_program): which nodes are needed and trained, liveness, parts that
 * are computed again; then forward instructions node by node, the outputs, backward instructions in
 * reverse; then the arena is packed. Files plan_*.c add instructions; each operator has a forward and a
 * backward function (struct vc_train_op). */
#pragma once

#include "core/base/pack.h"
#include "core/base/thread_pool.h"
#include "engine/train_loops.h"
#include "graph/base/graph_state.h"
#include "graph/lift.h"
#include "graph/liveness.h"
#include "graph/ops/ops.h"

#define VC_REFS VC_LOOP_PTRS

/* Where an array is: a buffer of the arena, a tensor's values or gradient (weights->items), the constants of the engine, or a
 * value of the caller. NONE: no array; loops get NULL for it. */
enum vc_ref_kind { VC_REF_NONE = 0, VC_REF_ARENA, VC_REF_WEIGHT, VC_REF_GRAD, VC_REF_CONSTANT, VC_REF_FEED };

/* An array before memory is attached. Becomes a pointer in vc_engine_attach. */
struct vc_ref {
    enum vc_ref_kind kind;
    uint32_t index;  /* of the buffer, the weight or the fed value */
    uint64_t offset; /* bytes */
};

/* Where a program with options.answers stops: the value that comes in or goes out. */
enum vc_stop { VC_STOP_NONE = 0, VC_STOP_PARAM, VC_STOP_TAKE };

/* One loop over n_blocks blocks with its arguments and arrays. The order of refs is the loop's
 * (kernels/train_args.h). */
struct vc_instruction {
    vc_train_loop run; /* NULL: it stops there, and args are a struct vc_plan_stop */
    int loop; /* enum vc_train_loop_id; -1: a definition of graph/, whose last n_written refs are what it makes */
    uint32_t node;
    uint32_t guard; /* of its node (graph/lazy.h): left out where it does not hold, but not on a device */
    size_t n_blocks;
    struct vc_train_call call; /* pointers are set by vc_engine_attach */
    unsigned n_refs;
    struct vc_ref refs[VC_REFS];
    unsigned n_written;
    bool waits; /* refs[1] may wait in 16 bits from there on (plan_round.c) */
    /* On a device: */
    int device_loop;
    void *device_args;        /* arguments whose arrays are there */
    uint64_t staged[VC_REFS]; /* of a definition: where in the staging memory its copies are */
    struct {
        size_t end;  /* this one and those up to there ran once before, and, ... */
        void *graph; /* ... if not NULL, are asked for as one */
    } together;
};

/* The arguments of an instruction at which a program with options.answers stops. */
struct vc_plan_stop {
    enum vc_stop kind;
    uint32_t value;
    unsigned n_dims;
    int64_t shape[VC_GRAPH_MAX_DIMS];
    uint64_t n;
    bool real;
};

/* A value of the graph while the program is made. With answers, parameters are values that come in; else
 * they are parts of weights. */
struct vc_plan_value {
    bool made;            /* shape and data hold */
    bool known;           /* it follows from sizes and constants: a constant of the program */
    bool real;            /* floats; else int64_t */
    bool trained;         /* its gradient is needed */
    bool fed;             /* the caller has it (options.answers) */
    bool taken;           /* an instruction hands it over */
    uint32_t last_reader; /* the last node with it as an input, needed or not; 0: none reads it */
    uint32_t root;        /* the value whose elements it shows with another shape; itself */
    unsigned n_dims;
    int64_t shape[VC_GRAPH_MAX_DIMS];
    uint64_t n;
    struct vc_ref data;
    struct vc_ref extra; /* what else the backward instructions of the node that makes it read */
    /* Of a root: */
    uint32_t last_use; /* the last node that makes or reads the elements in the forward pass */
    bool saved;        /* a backward instruction reads them */
    bool kept;         /* what the forward pass left of them is read in the backward pass */
    bool again;        /* they are computed again, in the part whose turn it is */
    bool held;         /* nobody may write over them: inputs, weights, constants, outputs */
    bool has_grad;     /* the gradient was begun */
    struct vc_ref grad;
};

/* The condition of a choice (graph/lazy.h), an int64_t. */
struct vc_plan_choice {
    struct vc_ref condition;
    const int64_t *is_true; /* once memory is attached */
};

/* What is needed to run a program, and, in the middle, what is needed to make it. */
struct vc_engine {
    struct vc_ctx *ctx;
    const struct vc_graph *graph; /* the caller's, or the lifted one, whose first values are the caller's */
    struct vc_lifted *lifted;     /* NULL: the caller's is run as it is */
    uint32_t n_values;            /* of the caller's */
    struct vc_weights *weights;
    struct vc_engine_options options;
    struct vc_arena arena; /* of what the program is made of; not the arena of values */
    struct vc_thread_pool *pool;
    unsigned n_workers;
    const vc_train_loop *loops; /* by enum vc_train_loop_id */

    struct vc_plan_value *values;   /* by value of the graph; NULL behind vc_engine_make */
    bool *wanted;                   /* values that the caller reads, of its graph; the same */
    bool *needed;                   /* nodes; the same */
    uint32_t *guards;               /* of nodes */
    struct vc_plan_choice *choices; /* by node */
    uint32_t guard;                 /* of instructions that are added */
    uint32_t *parts; /* by node: which are computed again together; 0: not at all; NULL behind the making */
    bool repeats;    /* instructions that are added compute a part again */
    size_t n, capacity;
    struct vc_instruction *instructions;
    size_t n_forward; /* of them */
    bool backward;    /* instructions that are added are behind the loss */
    size_t n_buffers, buffer_capacity;
    struct vc_buffer *buffers;
    struct vc_buffer_plan plan;
    uint64_t naive_bytes;
    uint64_t macs, macs_again; /* of the forward pass; of what is computed again */
    void *constants;           /* elements of the graph's constants */
    uint64_t constant_bytes;
    const struct vc_run_value *feeds; /* with options.answers: values of the caller */
    size_t n_inputs, n_outputs;
    struct vc_engine_value *inputs, *outputs;
    struct vc_ref *input_refs, *output_refs; /* data and gradient of each */
    struct vc_ref *working;                  /* by weight: its rounded copy (plan_round.c) */
    const char *problem;                     /* the first: "ConvTranspose 'up1': ..." */
    size_t n_problems;
    enum vc_status status; /* VC_E_NOMEM, or VC_OK */

    struct vc_ctx define_ctx;     /* of the definitions that instructions run, one at a time */
    enum vc_status define_status; /* of the last pass */
    struct vc_engine_fault fault; /* the same */

    atomic_size_t *next; /* by instruction: the next block that nobody has taken */
    struct vc_engine_pass pass;

    /* With options.device (engine_device.c): */
    char *staging; /* host memory */
    void *device_arena, *own;
    uint64_t staging_bytes, own_bytes;
    bool has_indices;               /* instructions may find an index out of range */
    bool outputs_stay;              /* on the device, with their gradients */
    bool fed;                       /* the device has the inputs that lie in the staging memory */
    bool faults_later;              /* whoever runs passes asks the device for faults, after several of them */
    struct vc_engine_pass captured; /* of which the graphs are; steps and rows may differ */
};

/* What the instructions need beside the arena: engine_device.c. */
enum vc_status vc_engine_plan_device(struct vc_engine *e);
void vc_engine_detach_device(struct vc_engine *e);
enum vc_status vc_engine_run_device(struct vc_engine *e, size_t first, size_t end);
enum vc_status vc_engine_forward_device(struct vc_engine *e);
enum vc_status vc_engine_backward_device(struct vc_engine *e);

/* An operator with loops (train_ops.inc). */
struct vc_train_op {
    void (*forward)(struct vc_engine *e, uint32_t node);
    void (*backward)(struct vc_engine *e, uint32_t node); /* the gradient of its output is complete */
};

/* NULL if there are none for it. */
const struct vc_train_op *vc_train_op_of(const struct vc_graph_node *node);
/* ---- who reads a value (plan_uses.c) ---- */

/* What the backward instructions of the node read, as bits: VC_NEEDS_IN(k), VC_NEEDS_Y (graph/ops/ops.h). */
unsigned vc_plan_saves(const struct vc_engine *e, uint32_t node);
/* The node is the DequantizeLinear of what `coder`, a QuantizeLinear, makes. */
bool vc_plan_decodes(const struct vc_engine *e, uint32_t node, uint32_t coder);
/* Whether anything but `node`, or nodes that decode what it made, reads the value, or wants it as it is. */
bool vc_plan_has_other_readers(const struct vc_engine *e, uint32_t v, uint32_t node);
/* The node is x times Sigmoid(x), of which nobody else reads the latter: one operator. */
bool vc_plan_is_swish(const struct vc_engine *e, uint32_t node);

static inline bool vc_saves_input(unsigned saves, unsigned k)
{
    return k < VC_NEEDS_MAX_IN && (saves & VC_NEEDS_IN(k)) != 0;
}

/* "Conv 'conv1': ..." */
void vc_plan_fail(struct vc_engine *e, uint32_t node, const char *format, ...) VC_PRINTF(3, 4);

/* ---- for the operators: what a node has (plan_values.c) ---- */

/* Outputs of the graph that are computed. */
static inline uint32_t vc_plan_outputs(const struct vc_engine *e)
{
    if (e->options.answers != NULL) {
        return 0;
    }
    if (e->options.outputs != NULL) {
        return e->options.n_outputs;
    }
    return e->options.n_outputs != 0 ? VC_AT_MOST(e->options.n_outputs, e->graph->n_outputs) : e->graph->n_outputs;
}

static inline const uint32_t *vc_plan_output_list(const struct vc_engine *e)
{
    return e->options.outputs != NULL ? e->options.outputs : e->graph->outputs;
}

static inline const struct vc_graph_node *vc_plan_node(const struct vc_engine *e, uint32_t node)
{
    return &e->graph->nodes[node];
}

/* Input k, NULL where it is not given. */
struct vc_plan_value *vc_plan_in(const struct vc_engine *e, uint32_t node, unsigned k);
struct vc_plan_value *vc_plan_out(const struct vc_engine *e, uint32_t node, unsigned k);
bool vc_plan_trained(const struct vc_engine *e, uint32_t node, unsigned k);
uint64_t vc_plan_count(const struct vc_plan_value *x, unsigned first, unsigned end);

/* Fails where another output of the node than the first is read. */
bool vc_plan_one_output(struct vc_engine *e, uint32_t node);
unsigned vc_plan_axis(int64_t axis, unsigned n_dims);
/* Integers that input k is known to be; false: they are computed from values. */
bool vc_plan_ints(const struct vc_engine *e, uint32_t node, unsigned k, int64_t *ints, size_t capacity, size_t *n);
/* The one number that input k is, `otherwise` where it is not given; false: it is no constant. */
bool vc_plan_number(const struct vc_engine *e, uint32_t node, unsigned k, double otherwise, double *number);

/* ---- memory ---- */

struct vc_ref vc_plan_buffer(struct vc_engine *e, uint64_t n, size_t element_bytes);
struct vc_ref vc_plan_reals(struct vc_engine *e, uint64_t n);
/* Scratch of n reals for each worker. */
struct vc_ref vc_plan_scratch(struct vc_engine *e, uint64_t n);
/* The elements of input k in C order: a copy of those of a parameter that lie otherwise. */
struct vc_ref vc_plan_data(struct vc_engine *e, uint32_t node, unsigned k);
/* Input k is a parameter of reals: the steps along its dimensions in its tensor, and where it begins there. */
bool vc_plan_tensor_steps(const struct vc_engine *e, uint32_t node, unsigned k, int64_t *step, int64_t *base);
/* That tensor as a whole. */
struct vc_ref vc_plan_tensor(struct vc_engine *e, uint32_t node, unsigned k);
/* Its gradient as a whole, which is added to; kind VC_REF_NONE: input k has no gradient. */
struct vc_ref vc_plan_tensor_grad(struct vc_engine *e, uint32_t node, unsigned k);
/* Room for output k; with `over`, the memory of input 0 where nobody else needs that. */
struct vc_ref vc_plan_make(struct vc_engine *e, uint32_t node, unsigned k, bool over);
/* Room for output 0 of a node with two inputs: the memory of either, where nobody else needs that. In training, whose
 * plans are told before a run, and on a device, of input 0 alone. */
struct vc_ref vc_plan_make_pair(struct vc_engine *e, uint32_t node);
/* The gradient of output k; kind VC_REF_NONE: nothing came. */
struct vc_ref vc_plan_grad(const struct vc_engine *e, uint32_t node, unsigned k);
/* Where the gradient of input k goes. *add: to what is there; else all of it has to be written. `over`: where it is the
 * first, it may take the memory of the gradient of output 0, which has as many elements and is read no more. */
struct vc_ref vc_plan_grad_to(struct vc_engine *e, uint32_t node, unsigned k, bool over, bool *add);

/* An instruction that makes n elements `number`. */
void vc_plan_fill(struct vc_engine *e, uint32_t node, struct vc_ref ref, uint64_t n, double number);

/* ---- values that 16 bits can hold (plan_round.c); without options.rounding nothing is added ---- */

/* What the program reads in place of a weight: its rounded copy, or itself. */
struct vc_ref vc_plan_working(struct vc_engine *e, uint32_t node, uint32_t weight);
/* Before the first node. */
void vc_plan_round_inputs(struct vc_engine *e);
/* Behind the instructions of a node: what it makes; what its backward instructions add to. */
void vc_plan_round_results(struct vc_engine *e, uint32_t node);
void vc_plan_round_gradients(struct vc_engine *e, uint32_t node);
/* Behind the loss: what it wrote. */
void vc_plan_round_output_gradients(struct vc_engine *e);
/* Places for all buffers of the finished program, in which what waits lies in 16 bits: e->plan. */
enum vc_status vc_plan_narrow(struct vc_engine *e);
/* Places for all buffers as they are (plan_values.c). */
enum vc_status vc_plan_pack(struct vc_engine *e);

/* ---- recomputation (plan_again.c) ---- */

/* Which values share memory, are read and are saved: those of our instructions. Values are sized and marked. */
struct vc_liveness_policy vc_plan_policy(const struct vc_engine *e);
/* Divides the nodes into parts as the options say. The last part is kept: its backward instructions come next. */
enum vc_status vc_plan_divide(struct vc_engine *e);
/* Sets `kept` of all roots; `saved` and `held` are set. */
void vc_plan_find_kept(struct vc_engine *e);
/* Before the backward instructions of a node: those that compute its part again, where it is the last one of that. */
void vc_plan_repeat(struct vc_engine *e, uint32_t node);

/* ---- instructions ---- */

/* Bytes of the engine's own arena; zeroed. NULL: no memory. */
void *vc_plan_args(struct vc_engine *e, size_t bytes);
/* instruction->call.args is from vc_plan_args, or NULL after a failure; then nothing is added. */
void vc_plan_add(struct vc_engine *e, const struct vc_instruction *instruction, const struct vc_ref *refs);
/* The same with a loop of the tables. */
void vc_plan_emit(struct vc_engine *e, uint32_t node, enum vc_train_loop_id loop, size_t n_blocks, const void *args,
                  bool add, const struct vc_ref *refs, unsigned n_refs);

/* With a loop that is not in the tables of loops, and writes to the last n_written refs; one block. */
void vc_plan_emit_run(struct vc_engine *e, uint32_t node, vc_train_loop run, const void *args,
                      const struct vc_ref *refs, unsigned n_refs, unsigned n_written);

/* ---- values from outside and back (plan_answers.c); without options.answers nothing is added ---- */

/* The node's number in the caller's graph; VC_NO_NODE: a Slice that was put there. */
static inline uint32_t vc_plan_origin(const struct vc_engine *e, uint32_t node)
{
    return e->lifted != NULL ? e->lifted->origin[node] : node;
}

/* The node runs its definition: options.answers->defined. */
static inline bool vc_plan_asks_definition(const struct vc_engine *e, uint32_t node)
{
    uint32_t origin = vc_plan_origin(e, node);

    return e->options.answers != NULL && origin != VC_NO_NODE && e->options.answers->defined[origin];
}

/* Sets which values the caller has. */
void vc_plan_find_fed(struct vc_engine *e);
void vc_plan_feed(struct vc_engine *e);
/* The elements of a parameter, which come in before the next instruction. */
struct vc_ref vc_plan_param(struct vc_engine *e, uint32_t node, uint32_t value);
/* Behind the instructions of a node: its results that go out. */
void vc_plan_take_results(struct vc_engine *e, uint32_t node);
/* At the beginning and at the end: what is wanted and is no result. */
void vc_plan_take_inputs(struct vc_engine *e);
void vc_plan_take_rest(struct vc_engine *e);

/* The step of instruction k: the loss comes between forward and backward. */
static inline uint64_t vc_plan_step(const struct vc_engine *e, size_t k)
{
    return e->backward ? k + 1 : k;
}

/* The buffer lives at that step, too. */
void vc_plan_touch(struct vc_engine *e, struct vc_ref ref, uint64_t step);

/* The last instruction, if it is this loop and made what is at `ref`, and nothing stops between it and the next one:
 * what else happens to each element there it may do itself, without a gradient and on the processor. NULL: it is not.
 */
struct vc_instruction *vc_plan_maker(const struct vc_engine *e, enum vc_train_loop_id loop, unsigned made,
                                     struct vc_ref ref);
bool vc_same_ref(struct vc_ref a, struct vc_ref b);
/* The instruction reads one more array, number k. */
void vc_plan_add_ref(struct vc_engine *e, struct vc_instruction *instruction, unsigned k, struct vc_ref ref);

/* c = a b, or c += a b, for each of n_stack results: where the first of a, b and c begins in its array, and the steps to
 * the next, in elements (plan_product.c). */
struct vc_plan_product {
    uint64_t m, n, k, n_stack;
    struct vc_matrix a, b;
    int64_t c_row;
    uint64_t a_at, b_at, c_at, a_step, b_step, c_step;
};

void vc_plan_product(struct vc_engine *e, uint32_t node, const struct vc_plan_product *p, struct vc_ref a,
                     struct vc_ref b, struct vc_ref c, bool add);

/* y += bias, by the product that made y, if the bias is one number for each column of it (plan_product.c). */
bool vc_plan_bias_joins(struct vc_engine *e, struct vc_ref y, const struct vc_plan_value *shape, struct vc_ref bias,
                        const int64_t *bias_step);

/* y = Relu(x), by the convolution that made x, if y lies over x (plan_window.c). */
bool vc_plan_relu_joins(struct vc_engine *e, struct vc_ref x, struct vc_ref y);

/* A walk over a shape with steps in up to four arrays: out, a, b, c (train_loops.h, strided_sum). Results are what is
 * left when `reduced` dimensions are summed up. */
struct vc_strided {
    enum vc_sum_kind kind;
    double scale;
    unsigned n_dims;
    int64_t shape[VC_GRAPH_MAX_DIMS];
    bool reduced[VC_GRAPH_MAX_DIMS];
    int64_t step[4][VC_GRAPH_MAX_DIMS];
    int64_t base[4];
    struct vc_ref refs[4];
};

void vc_plan_strided(struct vc_engine *e, uint32_t node, const struct vc_strided *s, bool add);
/* The steps of x in C order, of size 1: 0, where it is walked with n_dims dimensions, of which it has the last ones. */
void vc_plan_steps(const struct vc_plan_value *x, unsigned n_dims, int64_t *step);

/* The end of the backward program: gradients of parameters that lie otherwise in their tensors go there
 * (plan_params.c). */
void vc_plan_give_grads(struct vc_engine *e);

/* Instead of its definition: a QuantizeLinear whose codes nobody else reads makes the floats of each DequantizeLinear
 * at once, and that nothing. False: the node is neither (plan_math.c). */
bool vc_plan_codes(struct vc_engine *e, uint32_t node);

/* ---- what needs no instructions, and what needs no loops (plan_known.c, plan_define.c) ---- */

/* Marks the values that follow from sizes and constants alone, whose nodes make no instructions. */
void vc_plan_find_known(struct vc_engine *e);
/* Computes those of them that are read, into the constants of the engine. */
enum vc_status vc_plan_compute_known(struct vc_engine *e);

/* An output of it is integers, and it is no view. */
bool vc_plan_makes_integers(const struct vc_engine *e, uint32_t node);
/* Nobody wants gradients of its outputs, and there are no loops for them; behind find_trained. */
bool vc_plan_is_defined(const struct vc_engine *e, uint32_t node);
/* The instruction that runs the node's definition. */
void vc_plan_define(struct vc_engine *e, uint32_t node);

/* How many blocks n elements make. */
static inline size_t vc_plan_blocks(uint64_t n, uint64_t per_block)
{
    return (size_t)(n / per_block + (n % per_block != 0));
}
