/* cuda_pipeline.h - takes one kernel call with host pointers apart into units of work and moves them through the
 * device. Every vc_cuda_<kernel> fills a struct vc_cuda_call (its arrays, and how its CUDA kernels are started) and
 * gives it to vc_cuda_run.
 *
 * A unit is a run of whole rows or, where a row does not fit, a piece of one row that starts at a multiple of
 * VC_CHUNK_ELEMS, so that chunks are never cut. Units go through the two lanes of a slot in turn:
 *
 *     host       copy in 0 | copy in 1 | wait 0, copy out 0, copy in 2 | wait 1, copy out 1, copy in 3 | ...
 *     lane 0               H2D 0, kernel 0, D2H 0                      H2D 2, kernel 2, D2H 2
 *     lane 1                           H2D 1, kernel 1, D2H 1                      ...
 *
 * so that copying on the host, both directions of the bus and the kernels of one call overlap. */
#pragma once

#include "kernels/cuda/cuda_device.h"

#define VC_CUDA_MAX_ARRAYS 6

/* What one entry of an array belongs to: it decides which part of the array a unit takes. */
enum vc_cuda_per {
    VC_CUDA_PER_ELEMENT,
    VC_CUDA_PER_GROUP,   /* consecutive elements of a row with one scale */
    VC_CUDA_PER_CHUNK,   /* VC_CHUNK_ELEMS elements of a row */
    VC_CUDA_PER_CHANNEL, /* of the axis map; a unit has only the channels that it touches, in the order it meets them */
    VC_CUDA_PER_BIT,     /* a bit per element, of a byte array; its first element has the bit call->first_bit */
    VC_CUDA_PER_BIN,     /* call->n_bins of them, the same for all units */
    VC_CUDA_PER_UNIT     /* the totals of a unit: call->totals gets each of them */
};

/* Which way an array goes. */
enum vc_cuda_flow {
    VC_CUDA_IN,
    VC_CUDA_OUT,     /* bits: of the first byte only those of the unit; the device has 0 in the others */
    VC_CUDA_OUT_SUM, /* uint32_t that are added to what is there: start at 0 on the device */
    VC_CUDA_OUT_MAX  /* uint32_t that grow by a maximum: starts at 0 on the device. Groups that begin in the unit are
                      * overwritten, groups that go on and channels are joined with what is there */
};

/* One array of a call; `in` or `out` is the host's, NULL for VC_CUDA_PER_UNIT. */
struct vc_cuda_array {
    const void *in;
    void *out;
    size_t entry_bytes;
    enum vc_cuda_per per;
    enum vc_cuda_flow flow;
};

/* Which of the unit's scales an element takes; handed to kernels by value (vc_cuda_scale_of). The unit's elements, of
 * a row, or flat for an axis, form runs with one scale each: the first of `head` elements, all others of `step`.
 * Example: groups of 32 in a piece of a row that starts at element 20 have head 12 and step 32. */
struct vc_cuda_index {
    uint32_t head;
    uint32_t per_row; /* groups of a row in the unit; 0: along an axis, elements counted flat */
    struct vc_cuda_divisor step;
    struct vc_cuda_divisor n_channels; /* along an axis: after so many runs the channels start again */
    struct vc_cuda_divisor row_len;
};

/* A unit of work. Sizes and indices are within the call where they are size_t, within the unit (32 bits, cheap on a
 * device) where they are uint32_t. first_<what> is the index in the host's array of the unit's first entry of that
 * kind. */
struct vc_cuda_unit {
    size_t first; /* flat index of its first element in the call */
    size_t row0, col0;
    uint32_t n_rows, row_len;
    uint32_t n_elems; /* n_rows * row_len */
    size_t n_groups, first_group;
    size_t n_chunks, first_chunk;
    size_t n_channels, first_channel;
    size_t n_bins;
    uint32_t bit; /* of the first element in the first byte of an array of bits */
    struct vc_cuda_index index;
    void *device[VC_CUDA_MAX_ARRAYS]; /* the unit's part of each array, aligned to 256 bytes */
    void *pinned[VC_CUDA_MAX_ARRAYS];
    cudaStream_t stream;
};

/* One call of a kernel. Filled by the kernel, constant while it runs, shared by its units. */
struct vc_cuda_call {
    size_t n_rows, row_len;
    size_t group;                  /* elements per group; 0: no array is per group */
    const struct vc_axis_map *map; /* NULL: no array is per channel */
    uint64_t first_bit;            /* arrays of bits: of element 0 of the call; 0 where bits are written */
    size_t n_bins;                 /* arrays of bins */
    unsigned n_arrays;
    struct vc_cuda_array arrays[VC_CUDA_MAX_ARRAYS]; /* inputs first */
    bool keep_rows; /* do not cut rows that could be whole (vc_cuda_rows_fit); otherwise long ones are always cut */
    /* Starts the kernels of a unit in unit->stream, on the arrays in unit->device. It does not wait. */
    void (*launch)(const struct vc_cuda_call *call, const struct vc_cuda_unit *unit);
    void (*totals)(void *user, const void *unit_totals); /* with PER_UNIT; called in the order of the units */
    void *user;
};

/* A call without arrays yet; group: 0 where no array is per group. */
static inline struct vc_cuda_call vc_cuda_call_of(void (*launch)(const struct vc_cuda_call *,
                                                                 const struct vc_cuda_unit *),
                                                  const void *user, size_t n_rows, size_t row_len, size_t group = 0)
{
    struct vc_cuda_call call = {};

    call.launch = launch;
    call.user = (void *)(uintptr_t)user;
    call.n_rows = n_rows;
    call.row_len = row_len;
    call.group = group < row_len ? group : row_len;
    return call;
}

/* Appends an array that the device reads (in) or writes (out), of entries of entry_bytes; inputs come first. The
 * order is the index in unit->device. out is NULL for VC_CUDA_PER_UNIT. */
void vc_cuda_add_in(struct vc_cuda_call *call, const void *in, size_t entry_bytes, enum vc_cuda_per per);
void vc_cuda_add_out(struct vc_cuda_call *call, void *out, size_t entry_bytes, enum vc_cuda_per per,
                     enum vc_cuda_flow flow);

/* With keep_rows: whether a row fits into an arena. If not, rows are cut all the same. */
bool vc_cuda_rows_fit(const struct vc_cuda_call *call);

/* Runs it: takes a slot, moves all units through it, gives it back. 0 or the code of the first failure; nothing is in
 * flight any more when it returns. Empty tiles need no device. */
int vc_cuda_run(const struct vc_cuda_call *call);

/* Blocks (vc_cuda_grid) of a kernel that streams: no more than the card holds at once, so that all of them loop as often. */
unsigned vc_cuda_grid_of(const void *kernel, unsigned block, size_t needed);

/* Threads of a block where `team` of them take each of n pieces: fewer where there are few pieces, so that they spread over
 * the card. */
unsigned vc_cuda_team_block(size_t n, unsigned team);
