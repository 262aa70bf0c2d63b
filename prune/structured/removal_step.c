/* removal_step.c - the step that leaves out indices of axes:
 *
 *     in   [4, 6]  rows 0 2 3 stay, columns 0 1 4 stay     lines of 6 elements, of which the runs 0..1 and 4..4 are copied
 *     out  [3, 3]
 *
 * While the job is planned it calibrates: sees the input and sums up what belongs to each index (axis_sums.h). A tile
 * of the output is made of runs: long ones are read to their place, of short ones a stretch of the input is read first.
 */

#include "passes/decode.h"
#include "prune/structured/removal.h"

#define STRETCH_BYTES ((size_t)128 << 10) /* of the input that is read for several short runs */
#define LONG_BYTES    ((size_t)4 << 10)   /* runs from here on are read to their place */

/* ---- looking ---- */

/* Types that are summed up as f32. */
static bool is_short(enum vc_dtype dtype)
{
    return dtype == VC_DTYPE_F16 || dtype == VC_DTYPE_BF16 || vc_is_float8(dtype);
}

/* Scratch for a tile as f32. */
static size_t widened_bytes(const struct vc_desc *desc)
{
    return is_short(desc->dtype) ? (size_t)vc_min_u64(desc->n_elems, VC_TILE_ELEMS) * sizeof(float) + 64 : 0;
}

/* Sums are only made while the job is planned. */
static enum vc_status removal_begin(struct vc_ctx *ctx, struct vc_step *step, const struct vc_item *item)
{
    struct vc_removal_state *s = step->state;

    for (size_t i = 0; step->calibrate && i < s->n_axes; i++) {
        if (s->axes[i].scored) {
            VC_CALL(
                vc_axis_sums_init(ctx, &s->axes[i].sums, step->in.shape, step->in.n_dims, s->axes[i].axis, s->power));
        }
    }
    return VC_OK;
}

/* Adds the tile to the sums of every axis that is scored. */
static enum vc_status removal_calibrate(struct vc_ctx *ctx, struct vc_step *step, const struct vc_item *item,
                                        const struct vc_tile *tile, const struct vc_tile_in *in, void *scratch)
{
    struct vc_removal_state *s = step->state;
    const void *values = in->data;
    char *room = (char *)scratch + widened_bytes(&step->in) / 64 * 64;

    if (is_short(step->in.dtype)) {
        VC_CALL(vc_decode_floats(ctx, step->in.dtype, in->data, tile->n_elems, scratch));
        values = scratch;
    }
    for (size_t i = 0; i < s->n_axes; i++) {
        if (s->axes[i].scored) {
            VC_CALL(vc_axis_sums_add(ctx, &s->axes[i].sums, tile, values, step->in.dtype == VC_DTYPE_F64, room));
        }
    }
    return VC_OK;
}

/* The sums of a round are complete. */
static void removal_end(struct vc_ctx *ctx, struct vc_step *step)
{
    struct vc_removal_state *s = step->state;

    for (size_t i = 0; i < s->n_axes; i++) {
        if (s->axes[i].sums.ready) {
            vc_axis_sums_end(ctx, &s->axes[i].sums);
        }
    }
}

/* The state itself lies in the job's arena. */
static void removal_forget(struct vc_ctx *ctx, struct vc_step *step)
{
    struct vc_removal_state *s = step->state;

    for (size_t i = 0; s != NULL && i < s->n_axes; i++) {
        vc_axis_sums_release(ctx, &s->axes[i].sums);
    }
    step->state = NULL;
}

/* ---- copying ---- */

/* The run that holds place `at` of those that stay, by halving. */
static size_t find_run(const struct vc_axis_cut *cut, uint64_t at)
{
    size_t low = 0;
    size_t high = cut->n_runs;

    while (high - low > 1) {
        size_t mid = low + (high - low) / 2;

        if (cut->runs[mid].out <= at) {
            low = mid;
        } else {
            high = mid;
        }
    }
    return low;
}

/* Where line number `line` of the output begins in the input: lines are made of the axes from the innermost cut one on,
 * so the numbers of the axes before it are taken apart.
 *
 *     in [4, 6], rows 0 2 3 stay      line 1 of the output is row 2: start = 2 * 6 */
static uint64_t line_start(const struct vc_step *step, uint64_t line)
{
    const struct vc_removal_state *s = step->state;
    const struct vc_axis_cut *last = &s->axes[s->n_axes - 1];
    uint64_t stride = last->len * last->inner;
    uint64_t start = 0;
    size_t next = s->n_axes - 1; /* cuts before this one are still to come */

    for (unsigned d = last->axis; d-- > 0;) {
        uint64_t at = line % step->out.shape[d];

        line /= step->out.shape[d];
        if (next > 0 && s->axes[next - 1].axis == d) {
            const struct vc_axis_cut *cut = &s->axes[--next];
            const struct vc_kept_run *run = &cut->runs[find_run(cut, at)];

            at = run->first + (at - run->out);
        }
        start += at * stride;
        stride *= step->in.shape[d];
    }
    return start;
}

/* Copies n elements of that size; both are aligned to it. Runs are often a few elements. */
static void copy_few(char *to, const char *from, size_t n, size_t size)
{
    if (n > 16 || (size != 4 && size != 2)) {
        memcpy(to, from, n * size);
    } else if (size == 4) {
        for (size_t i = 0; i < n; i++) {
            memcpy(to + 4 * i, from + 4 * i, 4);
        }
    } else {
        for (size_t i = 0; i < n; i++) {
            memcpy(to + 2 * i, from + 2 * i, 2);
        }
    }
}

/* A part of a line of the output: n elements from `at` on. */
struct piece {
    uint64_t start; /* of the line in the input */
    uint64_t at;
    size_t n;
};

/* Copies the beginning of the piece: one long run, or short ones as far as a stretch of the input goes. Returns how
 * many elements that were in *done. */
static enum vc_status copy_runs(struct vc_ctx *ctx, const struct vc_step *step, struct vc_step_input *input,
                                const struct piece *piece, char *to, char *stretch, size_t *done)
{
    const struct vc_removal_state *s = step->state;
    const struct vc_axis_cut *cut = &s->axes[s->n_axes - 1];
    size_t size = vc_dtype_size(step->in.dtype);
    size_t r = find_run(cut, piece->at / cut->inner);
    uint64_t first = cut->runs[r].first * cut->inner + (piece->at - cut->runs[r].out * cut->inner);
    uint64_t run_end = (cut->runs[r].first + cut->runs[r].n) * cut->inner;
    uint64_t end = first + vc_min_u64(run_end - first, piece->n);
    size_t left = piece->n - (size_t)(end - first);
    size_t last = r;

    /* a long run is read to its place */
    if ((end - first) * size >= LONG_BYTES) {
        *done = (size_t)(end - first);
        return vc_step_read(ctx, input, piece->start + first, *done, to);
    }
    while (left != 0 && last + 1 < cut->n_runs) { /* whole runs, and of the last one as much as is wanted */
        const struct vc_kept_run *run = &cut->runs[last + 1];
        uint64_t n = vc_min_u64(run->n * cut->inner, left);

        if ((run->first * cut->inner + n - first) * size > STRETCH_BYTES) {
            break;
        }
        end = run->first * cut->inner + n;
        left -= (size_t)n;
        last++;
    }
    /* short runs: one read of the input, of which pieces are copied */
    VC_CALL(vc_step_read(ctx, input, piece->start + first, (size_t)(end - first), stretch));
    *done = 0;
    for (; r <= last; r++) {
        uint64_t from = vc_max_u64(cut->runs[r].first * cut->inner, first);
        size_t n = (size_t)(vc_min_u64((cut->runs[r].first + cut->runs[r].n) * cut->inner, end) - from);

        copy_few(to + *done * size, stretch + (size_t)(from - first) * size, n, size);
        *done += n;
    }
    return VC_OK;
}

/* A tile of the output may begin and end in the middle of a line. */
static enum vc_status removal_apply(struct vc_ctx *ctx, struct vc_step *step, const struct vc_item *item,
                                    const struct vc_tile *tile, const struct vc_tile_in *in, void *scratch,
                                    struct vc_tile_out *out)
{
    const struct vc_removal_state *s = step->state;
    const struct vc_axis_cut *cut = &s->axes[s->n_axes - 1];
    uint64_t line_len = cut->n_kept * cut->inner;
    size_t size = vc_dtype_size(step->in.dtype);
    struct piece piece;
    size_t n = 0;

    while (n < tile->n_elems) {
        uint64_t flat = tile->first + n;
        size_t end = (size_t)vc_min_u64(tile->n_elems, n + (line_len - flat % line_len)); /* of the line in the tile */
        size_t done;

        for (piece.start = line_start(step, flat / line_len); n < end; n += done) {
            piece.at = (tile->first + n) % line_len;
            piece.n = end - n;
            VC_CALL(copy_runs(ctx, step, in->input, &piece, (char *)out->data + n * size, scratch, &done));
        }
    }
    return VC_OK;
}

static const struct vc_step_ops removal_ops = {.calibrate = removal_calibrate,
                                               .begin = removal_begin,
                                               .apply = removal_apply,
                                               .end = removal_end,
                                               .forget = removal_forget};

/* ---- planning ---- */

/* The step is the last of its item while its pass plans; another pass of the same kind in the job has a step of its
 * own. */
struct vc_step *vc_removal_step(const struct vc_structured *s, const struct vc_item *item)
{
    struct vc_step *last = item->chain->n_steps != 0 ? item->chain->steps[item->chain->n_steps - 1] : NULL;

    return last != NULL && last->ops == &removal_ops && last->pass == &s->pass ? last : NULL;
}

/* A tensor may lose rows and columns, each by another group. */
struct vc_axis_cut *vc_removal_axis(const struct vc_step *step, unsigned axis)
{
    struct vc_removal_state *s = step->state;
    size_t i = 0;

    while (i < s->n_axes && s->axes[i].axis != axis) {
        i++;
    }
    return i < s->n_axes ? &s->axes[i] : NULL;
}

/* The elements at the place count for scores: the group is scored by weights, and these are floats. */
static bool is_scored(const struct vc_structured *s, const struct vc_removal_member *place, const struct vc_desc *desc)
{
    return s->groups[place->group].scores != NULL && s->options.score != VC_STRUCTURED_OBS &&
           (vc_dtype_is_float(desc->dtype) || vc_decode_is_f8(desc)) &&
           vc_structured_counts(s, place->member, desc->n_dims);
}

/* A tensor that is a unit by itself is scored along axis 0, of which it loses nothing. An axis may be in several
 * groups, of which one that is scored is enough. */
static void list_axes(const struct vc_structured *s, const struct vc_item *item, size_t first, size_t n,
                      struct vc_removal_state *state)
{
    const struct vc_desc *desc = item->desc;

    for (unsigned axis = 0; axis < desc->n_dims; axis++) {
        struct vc_axis_cut *cut = &state->axes[state->n_axes];
        bool found = false;

        for (size_t i = first; i < first + n; i++) {
            bool scored = is_scored(s, &s->members[i], desc);

            if (s->members[i].member->axis == axis && (!s->members[i].member->whole || scored)) {
                cut->scored = (found && cut->scored) || scored;
                found = true;
            }
        }
        if (found) {
            cut->axis = axis;
            cut->len = cut->n_kept = desc->shape[axis];
            cut->inner = 1;
            for (unsigned d = axis + 1; d < desc->n_dims; d++) {
                cut->inner *= desc->shape[d];
            }
            state->n_axes++;
        }
    }
}

/* by_rows: sums along axis 0 are of whole rows. n + 1 axes: the list is never empty. */
enum vc_status vc_removal_add(struct vc_ctx *ctx, const struct vc_structured *s, struct vc_item *item)
{
    struct vc_removal_state *state;
    size_t sums = 0;
    size_t first;
    size_t n = vc_structured_find(s, item, &first);

    VC_CALL_ALLOC(state = vc_arena_alloc(ctx, item->set->arena, sizeof *state + (n + 1) * sizeof state->axes[0]));
    memset(state, 0, sizeof *state + (n + 1) * sizeof state->axes[0]);
    state->power = s->options.score == VC_STRUCTURED_L2 ? 2 : 1;
    list_axes(s, item, first, n, state);
    if (state->n_axes == 0) {
        return vc_item_keep(ctx, item, "copied bit for bit");
    }
    struct vc_step *step = vc_item_add_step(ctx, item, &removal_ops);
    VC_CALL_ALLOC(step);
    step->state = state;
    step->action = VC_ACTION_CUT;
    step->regroups = true;
    for (size_t i = 0; i < state->n_axes; i++) {
        struct vc_axis_cut *cut = &state->axes[i];

        if (cut->scored) {
            uint64_t n_rows, row_len;

            vc_rows_of(step->in.shape, step->in.n_dims, &n_rows, &row_len);
            cut->sums = (struct vc_axis_sums){.by_rows = cut->axis == 0 && step->in.n_dims >= 2, .row_len = row_len};
            sums = sums > vc_axis_sums_scratch(&cut->sums) ? sums : vc_axis_sums_scratch(&cut->sums);
            step->state_bytes += vc_axis_sums_bytes(step->in.shape, step->in.n_dims, cut->axis);
            step->calibrate = step->calibrate_all = true;
        }
    }
    step->scratch_bytes = vc_max_u64(widened_bytes(&step->in) + sums, STRETCH_BYTES) + 64;
    return vc_removal_settle(ctx, s, item, false);
}

/* ---- settling ---- */

/* A unit may lie in several places of an axis: q, k and v of a joined weight have it once each (repeat), heads have
 * blocks of rows. */
void vc_removal_mark(const struct vc_structured *s, const struct vc_item *item, unsigned axis, bool *gone)
{
    size_t first;
    size_t n = vc_structured_find(s, item, &first);

    for (size_t i = first; i < first + n; i++) {
        const struct vc_coupling_member *m = s->members[i].member;
        const struct vc_removal_group *group = &s->groups[s->members[i].group];

        for (uint64_t u = 0; !m->whole && m->axis == axis && u < group->coupling->n_units; u++) {
            for (uint64_t r = 0; group->goes[u] && r < m->repeat; r++) {
                memset(gone + vc_unit_place(group->coupling, m, r, u, 0), 1, (size_t)m->block);
            }
        }
    }
}

/* From marks to runs: [1 0 0 1 0] is 1..2 and 4..4. */
static enum vc_status list_runs(struct vc_ctx *ctx, const struct vc_structured *s, struct vc_item *item,
                                struct vc_axis_cut *cut)
{
    VC_SCOPED bool *gone = vc_calloc_array(ctx, VC_TAG_SCRATCH, (size_t)cut->len + 1, sizeof *gone);
    uint64_t kept = 0;
    size_t n = 0;

    VC_CALL_ALLOC(gone);
    vc_removal_mark(s, item, cut->axis, gone);
    for (uint64_t i = 0; i < cut->len; i++) {
        n += !gone[i] && (i == 0 || gone[i - 1]);
    }
    VC_CALL_ALLOC(cut->runs = vc_arena_alloc(ctx, item->set->arena, (n + 1) * sizeof *cut->runs));
    cut->n_runs = 0;
    for (uint64_t i = 0; i < cut->len; i++) {
        if (!gone[i] && (i == 0 || gone[i - 1])) {
            cut->runs[cut->n_runs++] = (struct vc_kept_run){.first = i, .out = kept};
        }
        if (!gone[i]) {
            cut->runs[cut->n_runs - 1].n++;
            kept++;
        }
    }
    /* counts assume that groups do not overlap */
    VC_REFUSE_IF(kept != cut->n_kept, ctx, VC_E_UNSUPPORTED,
                 "two groups that lose units share entries of axis %u; remove one after the other: %s keeps "
                 "what it names in this run",
                 cut->axis, vc_option(ctx, "include=false"));
    return VC_OK;
}

/* How many indices of the axis all units of a member take, from m->offset on. */
static uint64_t extent(const struct vc_structured *s, const struct vc_removal_member *member)
{
    const struct vc_coupling_member *m = member->member;

    return s->groups[member->group].coupling->n_units * m->block * m->repeat;
}

/* Both members lie on the same indices. */
static bool same_extent(const struct vc_structured *s, const struct vc_removal_member *a,
                        const struct vc_removal_member *b)
{
    return !a->member->whole && !b->member->whole && a->member->axis == b->member->axis &&
           a->member->offset == b->member->offset && extent(s, a) == extent(s, b);
}

/* How many indices of the cut stay, by the counts alone. Groups of one extent are factors of it, as channels and the
 * outputs of each are in a depthwise convolution: what stays is a product. */
static uint64_t count_kept(const struct vc_structured *s, const struct vc_item *item, const struct vc_axis_cut *cut)
{
    uint64_t kept = cut->len;
    size_t first;
    size_t n = vc_structured_find(s, item, &first);

    for (size_t i = first; i < first + n; i++) {
        const struct vc_removal_member *member = &s->members[i];
        uint64_t stays = extent(s, member);
        bool again = false;

        for (size_t k = first; k < i && !again; k++) {
            again = same_extent(s, member, &s->members[k]);
        }
        if (again || member->member->whole || member->member->axis != cut->axis) {
            continue;
        }
        for (size_t k = i; k < first + n; k++) {
            const struct vc_removal_group *group = &s->groups[s->members[k].group];

            if (same_extent(s, member, &s->members[k])) {
                stays = stays / group->coupling->n_units * (group->coupling->n_units - group->n_go);
            }
        }
        kept -= extent(s, member) - stays;
    }
    return kept;
}

/* "90x784" */
static const char *shape_text(struct vc_ctx *ctx, struct vc_item *item, const struct vc_desc *desc)
{
    const char *text = "";

    for (unsigned d = 0; text != NULL && d < desc->n_dims; d++) {
        text = vc_arena_printf(ctx, item->set->arena, "%s%s%llu", text, d == 0 ? "" : "x",
                               (unsigned long long)desc->shape[d]);
    }
    return text;
}

/* Before the units are known (final false) the shape is right and the runs are not there. */
enum vc_status vc_removal_settle(struct vc_ctx *ctx, const struct vc_structured *s, struct vc_item *item, bool final)
{
    struct vc_step *step = vc_removal_step(s, item);
    struct vc_removal_state *state = step->state;
    uint64_t *shape = vc_arena_alloc(ctx, item->set->arena, (step->in.n_dims + 1) * sizeof *shape);
    uint64_t n_elems = 1;

    VC_CALL_ALLOC(shape);
    memcpy(shape, step->in.shape, step->in.n_dims * sizeof *shape);
    for (size_t i = 0; i < state->n_axes; i++) {
        state->axes[i].n_kept = count_kept(s, item, &state->axes[i]);
        if (final) {
            VC_CALL(list_runs(ctx, s, item, &state->axes[i]));
        }
        shape[state->axes[i].axis] = state->axes[i].n_kept;
    }
    for (unsigned d = 0; d < step->in.n_dims; d++) {
        n_elems *= shape[d];
    }
    step->out.shape = shape;
    step->out.n_elems = n_elems;
    VC_CALL_ALLOC(step->scheme = shape_text(ctx, item, &step->out));
    vc_item_replan(item);
    return VC_OK;
}
