/* plan_round.c - training with values of 16 bits. Arrays that instructions read are floats; what they hold is what 16
 * bits can say:
 *
 *     inputs      rounded before the first node
 *     weights     the program reads rounded copies, which lie in the arena; the weights stay as they are
 *     results     rounded behind the node that makes them, also where it is computed again
 *     gradients   of results: rounded behind each node that adds to them; of weights: not, their sums are floats
 *
 * Within a node arithmetic is that of floats: sums of products, statistics of norms, the parts of an attention. What no
 * gradient goes through (masks, positions, constants) and what the loss computes is not rounded.
 *
 * What waits lies in the arena in 16 bits. The finished program is walked once more: an input or a result whose next
 * reader is far is narrowed behind its last reader, and widened before the next one, so that its floats have memory for
 * a few instructions. Rounded numbers fit into 16 bits, so no bit of a result changes:
 *
 *     made      relu -> y   round y   conv2 y -> z                 ...  loss  ...                 conv2_weights y, dz
 *     narrowed  relu -> y   round y   conv2 y -> z   narrow y, h   ...  loss  ...   widen h, w    conv2_weights w, dz
 *
 *     y and w: [64, 16, 28, 28], 3.2 MB of floats;   h: 1.6 MB
 *
 * The loss is a reader of outputs, between the forward and the backward instructions. The gradient of an operator of
 * one element reads h itself. The copy of a weight is not narrowed, but rounded again before its next reader. Gradients
 * of values, and what no rounding wrote, stay floats. */

#include "core/base/checked.h"
#include "engine/train_program.h"

/* Whether training is done with 16 bits at all. */
static bool rounds(const struct vc_engine *e)
{
    return e->options.rounding == VC_UNARY_ROUND_BF16 || e->options.rounding == VC_UNARY_ROUND_F16;
}

/* y = x of n elements: rounded to what 16 bits hold, or converted between floats and 16 bits. */
static void convert(struct vc_engine *e, uint32_t node, struct vc_args_unary how, struct vc_ref x, struct vc_ref y)
{
    const struct vc_ref refs[] = {x, y};
    struct vc_args_unary *args = vc_plan_args(e, sizeof *args);

    if (args != NULL) {
        *args = how;
        vc_plan_emit(e, node, VC_LOOP_unary, vc_plan_blocks(how.n, VC_ELEMENTS_PER_BLOCK), args, false, refs, 2);
    }
}

/* Rounds what lies in the arena; weights and constants are not the program's to change. waits: it may wait
 * in 16 bits, since nobody writes there again but what is rounded in turn. */
static void round_to(struct vc_engine *e, uint32_t node, struct vc_ref from, struct vc_ref to, uint64_t n, bool waits)
{
    if (to.kind == VC_REF_ARENA) {
        convert(e, node, (struct vc_args_unary){.kind = e->options.rounding, .n = n}, from, to);
    }
    if (to.kind == VC_REF_ARENA && e->status == VC_OK && e->n != 0) {
        e->instructions[e->n - 1].waits = waits;
    }
}

/* Statistics of norms are computed in floats and not rounded. */
struct vc_ref vc_plan_working(struct vc_engine *e, uint32_t node, uint32_t weight)
{
    const struct vc_weight *item = &e->weights->items[weight];
    const struct vc_ref whole = {.kind = VC_REF_WEIGHT, .index = weight};

    if (!rounds(e) || item->integers || item->statistic) {
        return whole;
    }
    if (e->working[weight].kind == VC_REF_NONE) {
        uint32_t guard = e->guard;

        e->guard = 0; /* readers in other branches take it from here */
        e->working[weight] = vc_plan_reals(e, item->n);
        round_to(e, node, whole, e->working[weight], item->n, true);
        e->guard = guard;
    }
    return e->working[weight];
}

/* Where an input is no float (token ids) there is nothing to round. */
void vc_plan_round_inputs(struct vc_engine *e)
{
    for (size_t k = 0; rounds(e) && k < e->n_inputs; k++) {
        const struct vc_plan_value *x = &e->values[e->inputs[k].value];

        if (x->made && x->real) {
            round_to(e, 0, x->data, x->data, x->n, true);
        }
    }
}

/* Gradients of parameters are sums in floats and are not rounded. */
static void round_values(struct vc_engine *e, uint32_t node, bool gradients)
{
    const struct vc_graph_node *n = vc_plan_node(e, node);

    for (unsigned k = 0; rounds(e) && k < (gradients ? n->n_inputs : n->n_outputs); k++) {
        const struct vc_plan_value *x = gradients ? vc_plan_in(e, node, k) : vc_plan_out(e, node, k);
        const struct vc_plan_value *root = x != NULL ? &e->values[x->root] : NULL;

        if (root != NULL && (gradients ? root->has_grad && e->graph->values[x->root].kind != VC_VALUE_PARAMETER
                                       : root->made && root->real)) {
            struct vc_ref ref = gradients ? root->grad : root->data;

            round_to(e, node, ref, ref, root->n, !gradients);
        }
    }
}

void vc_plan_round_results(struct vc_engine *e, uint32_t node)
{
    round_values(e, node, false);
}

void vc_plan_round_gradients(struct vc_engine *e, uint32_t node)
{
    round_values(e, node, true);
}

/* The loss writes these gradients in floats; they are rounded before the backward pass begins. */
void vc_plan_round_output_gradients(struct vc_engine *e)
{
    for (size_t k = 0; rounds(e) && k < e->n_outputs; k++) {
        struct vc_ref grad = e->output_refs[2 * k + 1];

        round_to(e, e->graph->values[e->outputs[k].value].node, grad, grad, e->outputs[k].n, false);
    }
}

/* ---- what waits ---- */

/* The next reader is near if it is so many steps behind the last one: nothing is narrowed. What was narrowed before is
 * only widened again, or not even that. */
#define SOON       8
#define SOON_AGAIN 2

/* An array of the program as the nodes made it, by number of its buffer. */
struct place {
    uint64_t rounded, last; /* steps: the last that rounds it, the last that refers to it */
    uint64_t n;             /* elements; 0: it is never rounded */
    struct vc_ref weight;   /* of which it is a copy; kind VC_REF_NONE: of none */
    struct vc_ref floats;   /* kind VC_REF_NONE: they wait */
    struct vc_ref half;     /* the same in 16 bits; kind VC_REF_NONE: they have not waited yet */
    bool stays;             /* it waits as floats: narrowed, it would make the arena larger */
};

/* The second walk: `made` is the program without conversions, and steps are numbers in it, with the loss at
 * n_forward. */
struct narrowing {
    struct vc_engine *e;
    struct vc_instruction *made;
    size_t n_made, n_forward, n_buffers;
    struct vc_ref *outputs; /* of the engine, as they were */
    struct place *places;   /* by buffer */
};

/* What a step refers to: an instruction, or the loss, for which *in is NULL. */
static size_t refs_of(const struct narrowing *w, uint64_t step, const struct vc_instruction **in,
                      const struct vc_ref **refs)
{
    *in = step == w->n_forward ? NULL : &w->made[step - (step > w->n_forward)];
    *refs = *in == NULL ? w->outputs : (*in)->refs;
    return *in == NULL ? 2 * w->e->n_outputs : (*in)->n_refs;
}

static struct place *place_of(const struct narrowing *w, struct vc_ref ref)
{
    return ref.kind == VC_REF_ARENA ? &w->places[ref.index] : NULL;
}

/* True if some step behind `step`, up to `end`, refers to the buffer. */
static bool is_near(const struct narrowing *w, uint64_t step, uint64_t end, struct vc_ref ref)
{
    const struct vc_instruction *in;
    const struct vc_ref *refs;

    while (step++ < end) {
        for (size_t r = refs_of(w, step, &in, &refs); r-- > 0;) {
            if (place_of(w, refs[r]) == place_of(w, ref)) {
                return true;
            }
        }
    }
    return false;
}

/* Which arrays are rounded, when last, and up to which step they are read. */
static void find_places(struct narrowing *w)
{
    const struct vc_instruction *in;
    const struct vc_ref *refs;

    for (uint64_t step = 0; step <= w->n_made; step++) {
        for (size_t r = refs_of(w, step, &in, &refs); r-- > 0;) {
            struct place *place = place_of(w, refs[r]);

            if (place != NULL) {
                place->last = step;
            }
            if (place != NULL && in != NULL && in->waits && r == 1) {
                place->rounded = step;
                place->weight = refs[0].kind == VC_REF_WEIGHT ? refs[0] : (struct vc_ref){0};
                place->n = ((const struct vc_args_unary *)in->call.args)->n;
            }
        }
    }
}

/* Makes *ref of instruction `in` (NULL: of the loss) refer to the elements: as floats, widened or rounded
 * anew if they wait. The gradient of an operator of one element reads 16 bits itself. */
static void fetch(struct narrowing *w, struct vc_instruction *in, struct vc_ref *ref)
{
    struct vc_engine *e = w->e;
    enum vc_unary half = e->options.rounding;
    struct place *place = place_of(w, *ref);
    bool waits = place != NULL && place->floats.kind == VC_REF_NONE;
    bool copies = waits && place->weight.kind != VC_REF_NONE;

    if (waits && !copies && in != NULL && in->loop == VC_LOOP_unary_backward && ref == in->refs) {
        struct vc_args_unary *args = vc_plan_args(e, sizeof *args);

        if (args != NULL) {
            *args = *(const struct vc_args_unary *)in->call.args;
            args->from = half;
        }
        in->call.args = args;
        ref->index = place->half.index;
        return;
    }
    if (waits) {
        struct vc_args_unary widen = {.n = place->n, .a = 1, .from = half};
        struct vc_args_unary round = {.n = place->n, .kind = half};

        place->floats = vc_plan_reals(e, place->n);
        convert(e, 0, copies ? round : widen, copies ? place->weight : place->half, place->floats);
    }
    ref->index = place != NULL ? place->floats.index : ref->index;
}

/* Behind a step: the array is narrowed, and its floats are gone, if the next reader is far. An array that
 * has waited before, or that is a copy of a weight, costs nothing to put away again. */
static void put_away(struct narrowing *w, uint64_t step, struct vc_ref ref)
{
    struct place *place = place_of(w, ref);
    bool again = place != NULL && (place->half.kind != VC_REF_NONE || place->weight.kind != VC_REF_NONE);
    uint64_t end = step <= w->n_forward ? w->n_forward : w->n_made;
    uint64_t near = vc_min_u64(step + (again ? SOON_AGAIN : SOON), end);

    if (place == NULL || place->floats.kind == VC_REF_NONE || place->n == 0 || place->stays || place->rounded > step ||
        place->last <= step || is_near(w, step, near, ref)) {
        return;
    }
    if (!again) {
        place->half = vc_plan_buffer(w->e, place->n, sizeof(uint16_t));
        convert(w->e, 0, (struct vc_args_unary){.n = place->n, .a = 1, .to = w->e->options.rounding}, place->floats,
                place->half);
    }
    place->floats = (struct vc_ref){0};
}

/* The instruction once more, with fetched refs; the loss is a step without an instruction. */
static void add_step(struct narrowing *w, uint64_t step)
{
    struct vc_engine *e = w->e;
    const struct vc_instruction *made;
    const struct vc_ref *refs;
    size_t n = refs_of(w, step, &made, &refs);
    struct vc_instruction in = made != NULL ? *made : (struct vc_instruction){0};

    for (size_t r = 0; r < n; r++) {
        fetch(w, made != NULL ? &in : NULL, made != NULL ? &in.refs[r] : &e->output_refs[r]);
    }
    if (made != NULL) {
        vc_plan_add(e, &in, in.refs);
    } else {
        e->n_forward = e->n;
        e->backward = true;
        for (size_t r = 0; r < n; r++) {
            vc_plan_touch(e, e->output_refs[r], e->n_forward);
        }
    }
    for (size_t r = 0; r < n; r++) {
        put_away(w, step, refs[r]);
    }
}

/* Makes the program anew, and its plan. */
static enum vc_status walk(struct narrowing *w)
{
    struct vc_engine *e = w->e;

    e->n = 0;
    e->n_buffers = w->n_buffers;
    e->backward = false;
    memcpy(e->output_refs, w->outputs, 2 * e->n_outputs * sizeof *w->outputs);
    for (size_t k = 0; k < e->n_buffers; k++) {
        e->buffers[k].first = UINT64_MAX;
        e->buffers[k].last = 0;
        w->places[k].floats = (struct vc_ref){.kind = VC_REF_ARENA, .index = (uint32_t)k};
        w->places[k].half = (struct vc_ref){0};
    }
    for (uint64_t step = 0; step <= w->n_made && e->status == VC_OK; step++) {
        add_step(w, step);
    }
    for (size_t k = 0; k < e->n_inputs; k++) {
        vc_plan_touch(e, e->input_refs[2 * k], 0);
        vc_plan_touch(e, e->input_refs[2 * k + 1], vc_plan_step(e, e->n));
    }
    return e->status != VC_OK ? e->status : vc_plan_pack(e);
}

/* At the step with the most memory, if a conversion is running, the array is there twice. NULL: it is
 * another instruction. */
static struct place *find_twice(const struct narrowing *w)
{
    const struct vc_engine *e = w->e;
    uint64_t peak = e->plan.peak_step;
    const struct vc_instruction *in = &e->instructions[peak - (peak > e->n_forward)];

    for (size_t k = 0; peak != e->n_forward && in->loop == VC_LOOP_unary && k < w->n_buffers; k++) {
        struct vc_ref half = w->places[k].half;

        if (half.kind != VC_REF_NONE && (vc_same_ref(half, in->refs[0]) || vc_same_ref(half, in->refs[1]))) {
            return &w->places[k];
        }
    }
    return NULL;
}

/* Narrows everything, then everything but one array that makes the peak, and so on, as long as the arena
 * becomes smaller: greedy, each attempt is one walk. */
enum vc_status vc_plan_narrow(struct vc_engine *e)
{
    struct narrowing w = {
        .e = e, .made = e->instructions, .n_made = e->n, .n_forward = e->n_forward, .n_buffers = e->n_buffers};
    struct place *stays = NULL;
    uint64_t best;
    enum vc_status status = VC_OK;

    if (!e->options.train || !rounds(e)) {
        return vc_plan_pack(e);
    }
    e->instructions = NULL;
    e->capacity = e->n = 0;
    VC_TRY(VC_ZEROS(e->ctx, VC_TAG_MISC, w.places, w.n_buffers + 1));
    VC_TRY_ALLOC(w.outputs = vc_alloc_array(e->ctx, VC_TAG_MISC, e->n_outputs + 1, 2 * sizeof *w.outputs));
    memcpy(w.outputs, e->output_refs, 2 * e->n_outputs * sizeof *w.outputs);
    find_places(&w);
    VC_TRY(walk(&w));
    do {
        best = e->plan.arena_bytes;
        stays = find_twice(&w);
        if (stays != NULL) {
            stays->stays = true;
            VC_TRY(walk(&w));
        }
    } while (e->plan.arena_bytes < best);
    if (stays != NULL) { /* the plan before was the best */
        stays->stays = false;
        status = walk(&w);
    }
out:
    vc_free(e->ctx, w.made);
    vc_free(e->ctx, w.places);
    vc_free(e->ctx, w.outputs);
    return status;
}
