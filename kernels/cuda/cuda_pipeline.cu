/* cuda_pipeline.cu - the way of a call's data through the device: units, arenas, copies. No kernels.
 *
 * An arena (device and pinned alike) holds the unit's part of each array, inputs first, each aligned to 256 bytes:
 * one copy to the device, one back.
 *
 *     | x ... | scale ... || q ... | chunk sums ... | totals |
 *     0                   in_bytes                       bytes
 *
 * The host never touches a lane between handing its unit over and waiting for it. */
#include "kernels/cuda/cuda_pipeline.h"

#include <string.h>

#include "core/values/tile.h"

#define ALIGN ((size_t)256) /* of every array in an arena */

/* How a call is divided. Every unit but the last of a row, or of the call, has this size. */
struct plan {
    size_t rows;  /* whole rows of a unit; 0: rows are cut */
    size_t piece; /* elements of a unit of a cut row: a multiple of VC_CHUNK_ELEMS */
};

/* What a lane is doing: busy from `issue` to `collect`. */
struct lane_state {
    bool busy;
    struct vc_cuda_unit unit;
};

static size_t ceil_div(size_t a, size_t b)
{
    return a / b + (a % b != 0);
}

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

#define FEW_BLOCKS 128u /* that every card holds at once; asking for more costs a call of the runtime */

unsigned vc_cuda_grid_of(const void *kernel, unsigned block, size_t needed)
{
    unsigned most = vc_cuda_grid(needed);
    int device = 0;
    int processors = 0;
    int each = 0;

    if (most > FEW_BLOCKS && cudaGetDevice(&device) == cudaSuccess &&
        cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device) == cudaSuccess &&
        cudaOccupancyMaxActiveBlocksPerMultiprocessor(&each, kernel, (int)block, 0) == cudaSuccess && each > 0) {
        most = (unsigned)smaller(needed, (size_t)processors * (size_t)each * VC_CUDA_WAVES);
    }
    return most;
}

unsigned vc_cuda_team_block(size_t n, unsigned team)
{
    unsigned block = VC_CUDA_THREADS;

    while (block > 64 && n * team < (size_t)block * FEW_BLOCKS) {
        block /= 2;
    }
    return block;
}

/* An array that the kernel reads: entry_bytes for each element, row, group or chunk (`per`). */
void vc_cuda_add_in(struct vc_cuda_call *call, const void *in, size_t entry_bytes, enum vc_cuda_per per)
{
    struct vc_cuda_array *array = &call->arrays[call->n_arrays++];

    array->in = in;
    array->out = NULL;
    array->entry_bytes = entry_bytes;
    array->per = per;
    array->flow = VC_CUDA_IN;
}

/* An array that it writes; NULL: only the pipeline reads it, as totals. */
void vc_cuda_add_out(struct vc_cuda_call *call, void *out, size_t entry_bytes, enum vc_cuda_per per,
                     enum vc_cuda_flow flow)
{
    struct vc_cuda_array *array = &call->arrays[call->n_arrays++];

    array->in = NULL;
    array->out = out;
    array->entry_bytes = entry_bytes;
    array->per = per;
    array->flow = flow;
}

/* Entries of the unit's part of an array. */
static size_t entries(const struct vc_cuda_unit *unit, enum vc_cuda_per per)
{
    switch (per) {
    case VC_CUDA_PER_ELEMENT:
        return unit->n_elems;
    case VC_CUDA_PER_GROUP:
        return unit->n_groups;
    case VC_CUDA_PER_CHUNK:
        return unit->n_chunks;
    case VC_CUDA_PER_CHANNEL:
        return unit->n_channels;
    /* Bits begin inside of a byte, and one byte holds the rest. */
    case VC_CUDA_PER_BIT:
        return ceil_div((size_t)unit->bit + unit->n_elems, 8);
    case VC_CUDA_PER_BIN:
        return unit->n_bins;
    case VC_CUDA_PER_UNIT:
        break;
    }
    return 1;
}

/* Bytes that a unit of n_rows x row_len can take in an arena wherever it starts: groups and channels may be cut at
 * both ends. */
static size_t unit_bytes(const struct vc_cuda_call *call, size_t n_rows, size_t row_len)
{
    struct vc_cuda_unit worst;
    size_t bytes = 0;
    unsigned i;

    if (row_len != 0 && n_rows > VC_CUDA_ARENA_BYTES / row_len) {
        return VC_CUDA_ARENA_BYTES + 1; /* does not fit, and products below do not overflow */
    }
    memset(&worst, 0, sizeof worst);
    worst.n_elems = (uint32_t)(n_rows * row_len);
    worst.n_bins = call->n_bins;
    worst.bit = 7;
    worst.n_chunks = n_rows * ceil_div(row_len, VC_CHUNK_ELEMS);
    if (call->group != 0) {
        worst.n_groups = n_rows * (row_len / call->group + 2);
    }
    if (call->map != NULL) {
        worst.n_channels = (size_t)(worst.n_elems / call->map->inner) + 2;
        worst.n_channels = smaller(worst.n_channels, (size_t)call->map->n_channels);
    }
    for (i = 0; i < call->n_arrays; i++) {
        bytes += entries(&worst, call->arrays[i].per) * call->arrays[i].entry_bytes + ALIGN;
    }
    return bytes;
}

/* The largest units that fit into an arena: VC_CUDA_UNIT_ELEMS elements, halved until they fit. Whole rows where
 * possible. */
static struct plan plan_units(const struct vc_cuda_call *call)
{
    struct plan plan = {VC_CUDA_UNIT_ELEMS / call->row_len, VC_CUDA_UNIT_ELEMS};

    /* Rows that must not be cut may be longer than the usual unit. */
    if (plan.rows == 0 && call->keep_rows) {
        plan.rows = 1; /* one row, although longer than a unit should be */
    }
    while (plan.rows > 0 && unit_bytes(call, plan.rows, call->row_len) > VC_CUDA_ARENA_BYTES) {
        plan.rows /= 2;
    }
    /* Pieces of a row, where no whole one fits: at least a chunk, so that sums are those of whole chunks. */
    while (plan.piece > VC_CHUNK_ELEMS && unit_bytes(call, 1, plan.piece) > VC_CUDA_ARENA_BYTES) {
        plan.piece /= 2;
    }
    return plan;
}

/* Whether an arena holds one row with all arrays of the call. Else a caller with keep_rows has to go another way. */
bool vc_cuda_rows_fit(const struct vc_cuda_call *call)
{
    return plan_units(call).rows > 0;
}

/* Groups that the unit has elements of, and where its first one is cut. */
static void locate_groups(const struct vc_cuda_call *call, struct vc_cuda_unit *unit)
{
    size_t per_row = ceil_div(call->row_len, call->group);
    size_t shift = unit->col0 % call->group; /* elements of its first group that came before */
    size_t here = (unit->col0 + unit->row_len - 1) / call->group - unit->col0 / call->group + 1;

    unit->first_group = unit->row0 * per_row + unit->col0 / call->group;
    unit->n_groups = unit->n_rows * here;
    unit->index.head = (uint32_t)smaller(call->group - shift, UINT32_MAX); /* beyond the unit is as good */
    unit->index.step = vc_cuda_divisor_of(call->group);
    unit->index.per_row = (uint32_t)here;
}

/* Channels that the unit meets, in its order, at most each once; and where its first run of one channel is cut. */
static void locate_channels(const struct vc_axis_map *map, struct vc_cuda_unit *unit)
{
    uint64_t flat = map->first + unit->first;
    uint64_t head = map->inner - flat % map->inner;
    uint64_t runs = 1;

    if (unit->n_elems > head) {
        runs += (unit->n_elems - head - 1) / map->inner + 1;
    }
    unit->first_channel = (size_t)(flat / map->inner % map->n_channels);
    unit->n_channels = runs < map->n_channels ? (size_t)runs : (size_t)map->n_channels;
    unit->index.head = (uint32_t)smaller(head, UINT32_MAX);
    unit->index.step = vc_cuda_divisor_of(map->inner);
    unit->index.per_row = 0;
    unit->index.n_channels = vc_cuda_divisor_of(unit->n_channels);
}

/* The unit that starts at (row, col). */
static void locate(const struct vc_cuda_call *call, const struct plan *plan, size_t row, size_t col,
                   struct vc_cuda_unit *unit)
{
    size_t chunks_per_row = ceil_div(call->row_len, VC_CHUNK_ELEMS);

    memset(unit, 0, sizeof *unit);
    unit->row0 = row;
    unit->col0 = col;
    unit->first = row * call->row_len + col;
    if (plan->rows > 0) {
        unit->n_rows = (uint32_t)smaller(plan->rows, call->n_rows - row);
        unit->row_len = (uint32_t)call->row_len;
    } else {
        unit->n_rows = 1;
        unit->row_len = (uint32_t)smaller(plan->piece, call->row_len - col);
    }
    unit->n_elems = unit->n_rows * unit->row_len;
    unit->index.row_len = vc_cuda_divisor_of(unit->row_len);
    unit->n_bins = call->n_bins;
    unit->bit = (uint32_t)((call->first_bit + unit->first) % 8);
    unit->n_chunks = unit->n_rows * ceil_div(unit->row_len, VC_CHUNK_ELEMS);
    unit->first_chunk = row * chunks_per_row + col / VC_CHUNK_ELEMS;
    if (call->group != 0) {
        locate_groups(call, unit);
    }
    if (call->map != NULL) {
        locate_channels(call->map, unit);
    }
}

/* Index of the unit's first entry in the host's array. Channels wrap around and are treated apart. */
static size_t first_entry(const struct vc_cuda_call *call, const struct vc_cuda_unit *unit, enum vc_cuda_per per)
{
    switch (per) {
    case VC_CUDA_PER_ELEMENT:
        return unit->first;
    case VC_CUDA_PER_GROUP:
        return unit->first_group;
    case VC_CUDA_PER_CHUNK:
        return unit->first_chunk;
    case VC_CUDA_PER_BIT:
        return (size_t)((call->first_bit + unit->first) / 8);
    case VC_CUDA_PER_BIN:
    case VC_CUDA_PER_CHANNEL:
    case VC_CUDA_PER_UNIT:
        break;
    }
    return 0;
}

/* Copies the unit's part of an input into pinned memory. Channels that wrap around make two runs. */
static void copy_in(const struct vc_cuda_call *call, const struct vc_cuda_array *array, struct vc_cuda_unit *unit,
                    unsigned char *pinned)
{
    const unsigned char *in = (const unsigned char *)array->in;
    size_t n = entries(unit, array->per);

    if (array->per == VC_CUDA_PER_CHANNEL) {
        size_t before_wrap = smaller(n, (size_t)call->map->n_channels - unit->first_channel);

        memcpy(pinned, in + unit->first_channel * array->entry_bytes, before_wrap * array->entry_bytes);
        memcpy(pinned + before_wrap * array->entry_bytes, in, (n - before_wrap) * array->entry_bytes);
    } else {
        memcpy(pinned, in + first_entry(call, unit, array->per) * array->entry_bytes, n * array->entry_bytes);
    }
}

/* Maximum of *out and *pinned, or just the latter. `out` may be unaligned, so its words are copied. */
static void join_max(unsigned char *out, const uint32_t *pinned, bool overwrite)
{
    uint32_t there;

    memcpy(&there, out, sizeof there);
    if (overwrite || *pinned > there) {
        memcpy(out, pinned, sizeof there);
    }
}

/* VC_CUDA_OUT_MAX: a group that begins in this unit is overwritten, one that began in an earlier unit is joined;
 * channels are always joined, since their kernels accumulate (kernels.h). */
static void copy_out_max(const struct vc_cuda_call *call, const struct vc_cuda_array *array,
                         const struct vc_cuda_unit *unit, const uint32_t *pinned)
{
    unsigned char *out = (unsigned char *)array->out;
    size_t i;

    if (array->per == VC_CUDA_PER_CHANNEL) {
        for (i = 0; i < unit->n_channels; i++) {
            size_t channel = (unit->first_channel + i) % (size_t)call->map->n_channels;

            join_max(out + channel * sizeof *pinned, &pinned[i], false);
        }
        return;
    }
    for (i = 0; i < unit->n_groups; i++) {
        bool begins = i > 0 || unit->col0 % call->group == 0;

        join_max(out + (unit->first_group + i) * sizeof *pinned, &pinned[i], begins);
    }
}

/* VC_CUDA_OUT_SUM */
static void copy_out_sum(const struct vc_cuda_array *array, size_t n, const uint32_t *pinned)
{
    unsigned char *out = (unsigned char *)array->out;
    uint32_t there;
    size_t i;

    for (i = 0; i < n; i++) {
        memcpy(&there, out + i * sizeof there, sizeof there);
        there += pinned[i];
        memcpy(out + i * sizeof there, &there, sizeof there);
    }
}

/* Bits: units come in order, so the first byte has the bits of the unit before it already. */
static void copy_out_bits(const struct vc_cuda_call *call, const struct vc_cuda_array *array,
                          const struct vc_cuda_unit *unit, const unsigned char *pinned)
{
    unsigned char *out = (unsigned char *)array->out + first_entry(call, unit, array->per);
    unsigned char before = unit->bit == 0 ? 0 : out[0];

    memcpy(out, pinned, entries(unit, array->per));
    out[0] = (unsigned char)(out[0] | before);
}

/* Brings a finished array of a unit to where the caller wants it. */
static void copy_out(const struct vc_cuda_call *call, const struct vc_cuda_array *array,
                     const struct vc_cuda_unit *unit, const void *pinned)
{
    if (array->per == VC_CUDA_PER_UNIT) {
        call->totals(call->user, pinned);
    } else if (array->per == VC_CUDA_PER_BIT) {
        copy_out_bits(call, array, unit, (const unsigned char *)pinned);
    } else if (array->flow == VC_CUDA_OUT_SUM) {
        copy_out_sum(array, entries(unit, array->per), (const uint32_t *)pinned);
    } else if (array->flow == VC_CUDA_OUT_MAX) {
        copy_out_max(call, array, unit, (const uint32_t *)pinned);
    } else {
        memcpy((unsigned char *)array->out + first_entry(call, unit, array->per) * array->entry_bytes, pinned,
               entries(unit, array->per) * array->entry_bytes);
    }
}

/* Hands a unit to its lane: lays out the arena, copies the inputs into pinned memory, and queues copy, kernels and
 * copy back. Everything after the host's copying is asynchronous. Maxima and totals start at 0 on the device. */
static int issue(const struct vc_cuda_call *call, struct vc_cuda_lane *lane, struct vc_cuda_unit *unit)
{
    size_t in_bytes = 0;
    size_t bytes = 0;
    size_t entry_bytes;
    unsigned i;
    int result = 0;

    unit->stream = lane->stream;
    for (i = 0; i < call->n_arrays; i++) {
        const struct vc_cuda_array *array = &call->arrays[i];

        unit->device[i] = lane->device + bytes;
        unit->pinned[i] = lane->pinned + bytes;
        if (array->flow == VC_CUDA_IN) {
            copy_in(call, array, unit, lane->pinned + bytes);
        }
        bytes = (bytes + entries(unit, array->per) * array->entry_bytes + ALIGN - 1) & ~(ALIGN - 1);
        if (array->flow == VC_CUDA_IN) {
            in_bytes = bytes;
        }
    }
    VC_CUDA_TRY(cudaMemcpyAsync(lane->device, lane->pinned, in_bytes, cudaMemcpyHostToDevice, lane->stream));
    for (i = 0; i < call->n_arrays; i++) {
        const struct vc_cuda_array *array = &call->arrays[i];

        if (array->flow == VC_CUDA_OUT_MAX || array->flow == VC_CUDA_OUT_SUM || array->per == VC_CUDA_PER_UNIT) {
            entry_bytes = entries(unit, array->per) * array->entry_bytes;
            VC_CUDA_TRY(cudaMemsetAsync(unit->device[i], 0, entry_bytes, lane->stream));
        }
    }
    call->launch(call, unit);
    VC_CUDA_TRY(cudaGetLastError());
    VC_CUDA_TRY(cudaMemcpyAsync(lane->pinned + in_bytes, lane->device + in_bytes, bytes - in_bytes,
                                cudaMemcpyDeviceToHost, lane->stream));
    VC_CUDA_TRY(cudaEventRecord(lane->done, lane->stream));
out:
    return result;
}

/* Waits for a lane's unit and takes its results. */
static int collect(const struct vc_cuda_call *call, struct vc_cuda_lane *lane, struct lane_state *state)
{
    unsigned i;
    int result = 0;

    VC_CUDA_TRY(cudaEventSynchronize(lane->done));
    state->busy = false;
    for (i = 0; i < call->n_arrays; i++) {
        if (call->arrays[i].flow != VC_CUDA_IN) {
            copy_out(call, &call->arrays[i], &state->unit, state->unit.pinned[i]);
        }
    }
out:
    return result;
}

/* All units of a call, by turns through the lanes of its slot; the lanes are collected in the order of the units. */
static int run_units(const struct vc_cuda_call *call, struct vc_cuda_slot *slot, struct lane_state *states)
{
    struct plan plan = plan_units(call);
    size_t row = 0;
    size_t col = 0;
    unsigned turn = 0;
    unsigned i;
    int result = 0;

    while (row < call->n_rows) {
        struct lane_state *state = &states[turn];

        if (state->busy) {
            VC_CUDA_TRY(collect(call, &slot->lanes[turn], state));
        }
        locate(call, &plan, row, col, &state->unit);
        state->busy = true;
        VC_CUDA_TRY(issue(call, &slot->lanes[turn], &state->unit));
        col += state->unit.row_len;
        if (col == call->row_len) {
            row += state->unit.n_rows;
            col = 0;
        }
        turn = (turn + 1) % VC_CUDA_LANES;
    }
    for (i = 0; i < VC_CUDA_LANES; i++) {
        if (states[turn].busy) {
            VC_CUDA_TRY(collect(call, &slot->lanes[turn], &states[turn]));
        }
        turn = (turn + 1) % VC_CUDA_LANES;
    }
out:
    return result;
}

/* The whole call: takes a slot, runs the units by turns on its lanes, gives the slot back. */
int vc_cuda_run(const struct vc_cuda_call *call)
{
    struct lane_state states[VC_CUDA_LANES];
    struct vc_cuda_slot *slot;
    unsigned i;
    int result;

    if (call->n_rows == 0 || call->row_len == 0) {
        return 0;
    }
    result = vc_cuda_slot_take(&slot);
    if (result != 0) {
        (void)cudaGetLastError(); /* forgets the error, which the next call would take for its own */
        return result;
    }
    memset(states, 0, sizeof states);
    result = run_units(call, slot, states);
    if (result != 0) {
        for (i = 0; i < VC_CUDA_LANES; i++) {
            (void)cudaStreamSynchronize(slot->lanes[i].stream); /* work in flight uses arenas that the next call gets */
        }
        (void)cudaGetLastError();
    }
    vc_cuda_slot_give(slot);
    return result;
}
