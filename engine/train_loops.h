/* train_loops.h - the loops that instructions run. What each computes, and what it is told: kernels/train_args.h. A
 * loop is called once for each of its blocks; it is compiled for float and double, and for several levels of the
 * processor. */
#pragma once

#include "engine/engine.h"

typedef void vc_train_loop_fn(const struct vc_train_call *call, const struct vc_engine_pass *pass, unsigned worker,
                              size_t block);
typedef vc_train_loop_fn *vc_train_loop;

/* What a loop found in the data that ends the pass: the first index, of the first node, that is out of
 * range. Blocks run in any order, so each compares under the lock. */
struct vc_engine_fault {
    atomic_flag lock;
    bool set;
    uint32_t node;
    uint64_t at; /* which index */
    int64_t index, size;
};

enum vc_train_loop_id {
#define LOOP(id, part) VC_LOOP_##id,
#include "engine/train_loops.inc"
#undef LOOP
    VC_TRAIN_LOOPS
};

/* The loops (levels/); those of a level exist where the processor's architecture has it. */
#define LOOP(id, part)                                                                                           \
    vc_train_loop_fn vc_loop_##id##_f32, vc_loop_##id##_f32_avx2, vc_loop_##id##_f32_avx512, vc_loop_##id##_f64, \
        vc_loop_##id##_f64_avx2;
#include "engine/train_loops.inc"
#undef LOOP

/* The tables, by enum vc_train_loop_id. NULL: the build, or the processor's architecture, has no such level. */
const vc_train_loop *vc_train_table(enum vc_graph_precision precision, enum vc_cpu_level level);
/* The one for the context's processor. */
const vc_train_loop *vc_train_loops(const struct vc_ctx *ctx, enum vc_graph_precision precision);

_Static_assert(VC_TRAIN_DIMS == VC_GRAPH_MAX_DIMS, "arguments have room for every shape of a graph");
