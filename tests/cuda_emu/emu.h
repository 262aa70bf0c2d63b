/* emu.h - the emulated card: the .cu files of kernels/cuda/ compiled as C++ against include/cuda_runtime.h, with one
 * fiber per thread of a block. This header is how tests steer it, and what its two halves share: emu_runtime.cpp
 * (memory, streams, errors) and emu_fibers.cpp (blocks, barriers, warps). */
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum vc_emu_schedule { VC_EMU_ASCENDING, VC_EMU_DESCENDING, VC_EMU_SHUFFLED };

/* Without a call to vc_emu_configure the environment decides, for the plug-in file:
 *   VC_EMU_SCHEDULE  ascending, descending or a seed     VC_EMU_EAGER  1: no deferred streams
 *   VC_EMU_CARD      bytes of device memory              VC_EMU_FAIL   number of the runtime call that fails
 *   VC_EMU_DEVICES   how many; 0: none, -1: no driver
 *   VC_EMU_GRAPHS    0: no stream can be captured
 *   VC_EMU_LOG       a file that gets a line for each launch, product of cuBLAS, copy and wait; for each launch of a graph,
 *                    followed by a line for each of its nodes */
struct vc_emu_settings {
    enum vc_emu_schedule schedule; /* in which order the threads of a block, and blocks, get their turn */
    unsigned seed;
    int eager; /* 0: work in a stream happens as late as possible, when the host waits for it; 1: at once */
    uint64_t card_bytes;
    uint64_t fail_at; /* the n-th call from now on fails; 0: none */
    int n_devices;
};

/* vc_emu_defaults: from the environment, else one card of 8 GiB, ascending, nothing fails. */
void vc_emu_defaults(struct vc_emu_settings *settings);
void vc_emu_configure(const struct vc_emu_settings *settings); /* also forgets errors */

uint64_t vc_emu_calls(void);     /* runtime calls that could have failed, since vc_emu_configure */
size_t vc_emu_live(void);        /* allocations, streams and events that exist */
const char *vc_emu_report(void); /* what was wrong with a kernel: "name: file:line: ..."; "" if nothing was */

/* Between the halves. vc_emu_run_kernel runs a kernel now, all blocks; false: it did something wrong, and
 * vc_emu_complain has the sentence. Complaining makes every later call of the runtime fail, as a launch failure does
 * on a real card. */
void vc_emu_complain(const char *format, ...) __attribute__((format(printf, 1, 2)));
enum vc_emu_schedule vc_emu_current_schedule(unsigned *seed);

#ifdef __cplusplus
}

#include <functional>

bool vc_emu_run_kernel(const char *name, unsigned grid, unsigned block, const std::function<void()> &body);
#endif
