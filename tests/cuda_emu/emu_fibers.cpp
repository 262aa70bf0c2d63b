/* emu_fibers.cpp - the card's half of the emulation: runs a kernel, one block after another, one fiber per thread of
 * the block.
 *
 * A fiber runs until it meets a barrier or a warp operation, or ends. A warp whose lanes all wait at the same
 * operation goes on at once; when no warp can, the block goes on whose threads all wait at the same barrier; anything
 * else is a divergent barrier and ends the kernel with a report. Three orders of turns (emu.h) must give the same
 * results.
 *
 *     run_block -> run_warp -> resume -> (fiber) kernel -> vc_emu_barrier -> wait -> to_scheduler -> back in run_warp
 *
 * Under ThreadSanitizer fibers are synchronised by __syncthreads and __syncwarp alone, so that it reports races between barriers and
 * between blocks; this file is built without instrumentation. One kernel at a time per host thread; host threads do
 * not share anything here. */
#include "emu.h"
#include "emu_sanitizers.h"

#include <sys/mman.h>
#ifndef __x86_64__
#include <ucontext.h>
#endif

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <random>
#include <vector>

#include <cuda_runtime.h>

#define MAX_THREADS  1024u
#define SHARED_LIMIT ((size_t)48 << 10) /* of a block */
#define SHARED_ARENA ((size_t)64 << 10) /* with red zones around each array */
#define RED_ZONE     ((size_t)64)
#define CANARY       0xbd
#define POISON       0xff /* NaN as float, very large as unsigned: reads before writes show */

#if VC_EMU_ASAN || VC_EMU_TSAN
#define STACK_BYTES ((size_t)256 << 10)
#else
#define STACK_BYTES ((size_t)64 << 10)
#endif

thread_local struct vc_emu_index threadIdx, blockIdx, blockDim, gridDim;

/* Where a fiber, or the scheduler, has stopped. swapcontext asks the system about signals at each switch, and AddressSanitizer
 * cleans the shadow of the whole stack that it goes to: half of the time of these tests. So x86-64 has a switch of its own. */
#ifdef __x86_64__
typedef void **context;

/* Keeps the registers that a call must not change on the stack, hands out where they lie, and goes on at `to`. */
extern "C" __attribute__((visibility("hidden"))) void vc_emu_switch(context *from, context to);

asm(".text\n"
    ".globl vc_emu_switch\n"
    ".hidden vc_emu_switch\n"
    ".type vc_emu_switch, @function\n"
    "vc_emu_switch:\n"
    "    pushq %rbp\n    pushq %rbx\n    pushq %r12\n    pushq %r13\n    pushq %r14\n    pushq %r15\n"
    "    movq %rsp, (%rdi)\n"
    "    movq %rsi, %rsp\n"
    "    popq %r15\n    popq %r14\n    popq %r13\n    popq %r12\n    popq %rbx\n    popq %rbp\n"
    "    ret\n"
    ".size vc_emu_switch, . - vc_emu_switch\n");

#define SAVED_REGISTERS 6

/* A context whose first switch enters the function, which does not return: six registers, its address, and, as behind a call,
 * where it would return to. */
static void make_context(context *made, char *stack, size_t bytes, void (*function)(void))
{
    *made = (context)(stack + bytes) - 2 - SAVED_REGISTERS; /* of fresh memory: zeros */
    (*made)[SAVED_REGISTERS] = (void *)function;
}

#else
typedef ucontext_t context;

static void vc_emu_switch(context *from, const context &to)
{
    swapcontext(from, &to);
}

static void make_context(context *made, char *stack, size_t bytes, void (*function)(void))
{
    getcontext(made);
    made->uc_stack.ss_sp = stack;
    made->uc_stack.ss_size = bytes;
    made->uc_link = NULL;
    makecontext(made, function, 0);
}
#endif

namespace
{

/* What a thread of the block is doing. */
enum state { READY, AT_BARRIER, AT_WARP, DONE };

/* One thread of the block: its stack, where it stopped, and why. Used again for every block and kernel. */
struct fiber {
    context at;
    char *stack;
    void *fake_stack; /* ASan */
    void *tsan;
    enum state state;
    const char *file; /* where it waits */
    int line;
    unsigned parity; /* of its next warp operation */
};

/* Values that the lanes of a warp hand each other in a shuffle. */
struct warp {
    uint64_t slots[2][32]; /* two, so that a fast lane does not overwrite what a slow one still has to read */
    char token[2];         /* of __syncwarp, for TSan */
};

/* One VC_CUDA_SHARED of the running block; key: an address that is its own in the source. */
struct shared_array {
    const void *key;
    volatile char *data; /* volatile: filling it must not become a memset, which TSan would see */
    size_t bytes;
};

/* All of it belongs to one host thread. */
struct machine {
    std::vector<fiber> fibers;
    std::vector<warp> warps;
    std::vector<shared_array> shared;
    char *arena; /* the block's shared memory */
    size_t arena_used;
    context scheduler;
    const void *scheduler_stack;
    size_t scheduler_stack_bytes;
    void *scheduler_fake, *scheduler_tsan;
    unsigned current, n_threads, generation;
    const std::function<void()> *body;
    const char *name;
    bool failed;
    char start_token, barrier_token[2], end_token; /* addresses that TSan synchronises on */

    ~machine()
    {
        forget_fibers();
        forget_arena();
    }

    void forget_fibers(void)
    {
        for (fiber &f : fibers) {
            emu_destroy_fiber(f.tsan);
            emu_unpoison(f.stack, STACK_BYTES); /* frames of a kernel that was given up */
            munmap(f.stack, STACK_BYTES);
        }
        fibers.clear();
    }

    void forget_arena(void)
    {
        if (arena != NULL) {
            emu_unpoison(arena, SHARED_ARENA);
            munmap(arena, SHARED_ARENA);
            arena = NULL;
        }
    }
};

thread_local machine m;

/* Zeroed pages; there is no way to go on without. */
char *map_memory(size_t bytes)
{
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (p == MAP_FAILED) {
        abort();
    }
    return (char *)p;
}

/* The kernel did something wrong: reported once, and the block is given up. */
void fail(const char *what, const char *file, int line)
{
    if (!m.failed) {
        const char *slash = file != NULL ? strrchr(file, '/') : NULL;

        vc_emu_complain("%s: %s:%d: %s", m.name, slash != NULL ? slash + 1 : file != NULL ? file : "", line, what);
    }
    m.failed = true;
}

/* Leaves the running fiber; returns when it is resumed. */
void to_scheduler(void)
{
    fiber &f = m.fibers[m.current];

    emu_start_switch_fiber(&f.fake_stack, m.scheduler_stack, m.scheduler_stack_bytes);
    emu_switch_to_fiber(m.scheduler_tsan, 1);
    vc_emu_switch(&f.at, m.scheduler);
    emu_finish_switch_fiber(f.fake_stack, &m.scheduler_stack, &m.scheduler_stack_bytes);
}

/* One thread after another, for as long as nothing goes wrong: starting a fiber costs more than the rest. */
void fiber_main(void)
{
    emu_finish_switch_fiber(NULL, &m.scheduler_stack, &m.scheduler_stack_bytes);
    for (;;) {
        emu_acquire(&m.start_token);
        (*m.body)();
        emu_release(&m.end_token);
        m.fibers[m.current].state = DONE;
        to_scheduler();
    }
}

/* Runs thread t of the block until it waits or ends. */
void resume(unsigned t)
{
    fiber &f = m.fibers[t];

    m.current = t;
    threadIdx.x = t;
    emu_start_switch_fiber(&m.scheduler_fake, f.stack, STACK_BYTES);
    emu_switch_to_fiber(f.tsan, 1);
    vc_emu_switch(&m.scheduler, f.at);
    emu_finish_switch_fiber(m.scheduler_fake, NULL, NULL);
}

/* The running fiber waits, in that state, at that place of the source. */
void wait(enum state state, const char *file, int line)
{
    fiber &f = m.fibers[m.current];

    f.state = state;
    f.file = file;
    f.line = line;
    to_scheduler();
}

/* Whether all threads of [first, end) wait in that state at one place. */
bool all_wait(unsigned first, unsigned end, enum state state)
{
    for (unsigned t = first; t < end; t++) {
        const fiber &f = m.fibers[t];
        const char *file = m.fibers[first].file;

        if (f.state != state || f.line != m.fibers[first].line || (f.file != file && strcmp(f.file, file) != 0)) {
            return false;
        }
    }
    return true;
}

/* Threads [first, end) may go on. */
void release(unsigned first, unsigned end)
{
    for (unsigned t = first; t < end; t++) {
        m.fibers[t].state = READY;
    }
}

/* Lets the block go on when all of it waits at one barrier. */
bool release_block(void)
{
    if (!all_wait(0, m.n_threads, AT_BARRIER)) {
        return false;
    }
    release(0, m.n_threads);
    m.generation++;
    return true;
}

/* No thread can go on: says which waits for others that will never come. Warp operations first, they are more exact. */
void report_stuck(void)
{
    for (unsigned t = 0; t < m.n_threads; t++) {
        if (m.fibers[t].state == AT_WARP) {
            fail("warp operation that not all lanes reach", m.fibers[t].file, m.fibers[t].line);
        }
    }
    for (unsigned t = 0; t < m.n_threads; t++) {
        if (m.fibers[t].state == AT_BARRIER) {
            fail("barrier that not all threads of the block reach", m.fibers[t].file, m.fibers[t].line);
        }
    }
}

/* ---- shared memory ---- */

/* Shared memory has no contents from block to block: arrays are handed out anew, poisoned. */
void shared_begin_block(void)
{
    if (m.arena == NULL) {
        m.arena = map_memory(SHARED_ARENA);
    }
    m.arena_used = 0;
    emu_poison(m.arena, SHARED_ARENA);
}

/* Whether nothing was written beside an array. */
bool intact(const volatile char *zone)
{
    for (size_t i = 0; i < RED_ZONE; i++) {
        if ((unsigned char)zone[i] != CANARY) {
            return false;
        }
    }
    return true;
}

void shared_end_block(void)
{
    emu_unpoison(m.arena, SHARED_ARENA);
    for (const shared_array &array : m.shared) {
        if (!intact(array.data - RED_ZONE) || !intact(array.data + array.bytes)) {
            fail("write beyond an array in shared memory", NULL, 0);
        }
    }
    m.shared.clear();
}

/* ---- blocks ---- */

/* Apart from the loop over all of them: getcontext may return twice, for all that a compiler knows. */
void create_fiber(fiber &f)
{
    f.stack = map_memory(STACK_BYTES);
    f.tsan = emu_create_fiber(0);
    make_context(&f.at, f.stack, STACK_BYTES, fiber_main);
}

/* As many fibers as the block has threads, all at the beginning of the kernel. */
void prepare_fibers(void)
{
    if (m.fibers.size() < m.n_threads) {
        m.forget_fibers(); /* all: a context must not be moved */
        m.fibers.resize(m.n_threads);
        for (fiber &f : m.fibers) {
            create_fiber(f);
        }
    }
    m.warps.resize(m.n_threads / 32);
    for (unsigned t = 0; t < m.n_threads; t++) {
        m.fibers[t].state = READY;
        m.fibers[t].parity = 0;
    }
}

/* Runs a warp until its lanes wait for others or are done; false when it could not run at all. Running one warp as far
 * as it gets, instead of all by turns, is what makes missing barriers show. */
bool run_warp(unsigned first, const std::vector<unsigned> &lanes, unsigned *done)
{
    bool ran = false;

    do {
        for (unsigned lane : lanes) {
            if (m.fibers[first + lane].state == READY && !m.failed) {
                resume(first + lane);
                *done += m.fibers[first + lane].state == DONE;
                ran = true;
            }
        }
        if (!all_wait(first, first + 32, AT_WARP)) {
            return ran;
        }
        release(first, first + 32);
    } while (!m.failed);
    return ran;
}

/* One block, its warps and their lanes in the given orders of turns. */
void run_block(const std::vector<unsigned> &warps, const std::vector<unsigned> &lanes)
{
    unsigned done = 0;

    shared_begin_block();
    prepare_fibers();
    emu_release(&m.start_token);
    m.generation = 0;
    while (done < m.n_threads && !m.failed) {
        bool ran = false;

        for (unsigned warp : warps) {
            ran = run_warp(warp * 32, lanes, &done) || ran;
        }
        if (!ran && !release_block()) {
            report_stuck();
        }
    }
    shared_end_block();
    if (VC_EMU_TSAN) {
        /* Blocks are not ordered, so the next one in the same memory would look like a race; unmapped memory has no
         * past. Threads of the same number in two blocks are one fiber, hence ordered: a race between just them is the
         * only one that is missed. */
        m.forget_arena();
    }
    if (m.failed) {
        m.forget_fibers(); /* they stopped in the middle of the kernel */
    }
}

/* The order in which n things get their turn, by the schedule; salt: so that blocks differ. */
std::vector<unsigned> turns(unsigned n, unsigned salt)
{
    std::vector<unsigned> order(n);
    unsigned seed;
    enum vc_emu_schedule schedule = vc_emu_current_schedule(&seed);

    for (unsigned i = 0; i < n; i++) {
        order[i] = schedule == VC_EMU_DESCENDING ? n - 1 - i : i;
    }
    if (schedule == VC_EMU_SHUFFLED) {
        std::shuffle(order.begin(), order.end(), std::minstd_rand(seed + salt));
    }
    return order;
}

} // namespace

bool vc_emu_run_kernel(const char *name, unsigned grid, unsigned block, const std::function<void()> &body)
{
    m.name = name;
    m.body = &body;
    m.n_threads = block;
    m.failed = false;
    m.scheduler_tsan = emu_current_fiber();
    gridDim = {grid, 1, 1};
    blockDim = {block, 1, 1};
    threadIdx = {0, 0, 0};
    for (unsigned b : turns(grid, 0)) {
        blockIdx = {b, 0, 0};
        if (!m.failed) {
            run_block(turns(block / 32, b + 1), turns(32, b + 2));
        }
    }
    emu_acquire(&m.end_token);
    return !m.failed;
}

/* ---- what kernels call: cuda_runtime.h makes CUDA's names of these ---- */

/* __syncthreads. For ThreadSanitizer everything before it is ordered before everything after it, in all threads of
 * the block. */
void vc_emu_barrier(const char *file, int line)
{
    char *token = &m.barrier_token[m.generation % 2];

    emu_release(token);
    wait(AT_BARRIER, file, line);
    emu_acquire(token);
}

/* __syncwarp: the same among the lanes of a warp. */
void vc_emu_warp_barrier(const char *file, int line)
{
    fiber &f = m.fibers[m.current];
    char *token = &m.warps[m.current / 32].token[f.parity];

    f.parity = 1 - f.parity;
    emu_release(token);
    wait(AT_WARP, file, line);
    emu_acquire(token);
}

unsigned vc_emu_lane(void)
{
    return m.current % 32;
}

/* A shuffle: gives value, gets that of from_lane, when all 32 lanes are here. */
uint64_t vc_emu_exchange(unsigned mask, uint64_t value, unsigned from_lane, const char *file, int line)
{
    fiber &f = m.fibers[m.current];
    warp &w = m.warps[m.current / 32];
    unsigned parity = f.parity;

    if (mask != 0xffffffffu || from_lane >= 32) {
        fail("warp operation without the full mask", file, line);
    }
    w.slots[parity][m.current % 32] = value;
    f.parity = 1 - parity;
    wait(AT_WARP, file, line);
    return w.slots[parity][from_lane % 32];
}

/* A bit for each lane: what it gives. */
unsigned vc_emu_ballot(unsigned mask, bool is, const char *file, int line)
{
    const uint64_t *slots = m.warps[m.current / 32].slots[m.fibers[m.current].parity];
    unsigned all = 0;

    (void)vc_emu_exchange(mask, is, 0, file, line);
    for (unsigned lane = 0; lane < 32; lane++) {
        all |= (unsigned)(slots[lane] != 0) << lane;
    }
    return all;
}

/* The array of VC_CUDA_SHARED with that key: handed out at first use in a block, filled with poison between red
 * zones. */
void *vc_emu_shared(const void *key, size_t bytes)
{
    size_t total = bytes;
    size_t padded = (bytes + 2 * RED_ZONE - 1) / RED_ZONE * RED_ZONE; /* and the red zone behind it */
    shared_array array = {key, m.arena + m.arena_used + RED_ZONE, bytes};

    for (const shared_array &existing : m.shared) {
        if (existing.key == key) {
            return const_cast<char *>(existing.data);
        }
        total += existing.bytes;
    }
    if (total > SHARED_LIMIT || m.arena_used + padded + 2 * RED_ZONE > SHARED_ARENA) {
        vc_emu_complain("%s: more than 48 KiB of shared memory", m.name);
        abort(); /* the kernel cannot go on without it */
    }
    emu_unpoison(m.arena + m.arena_used, padded + 2 * RED_ZONE);
    for (size_t i = 0; i < padded + 2 * RED_ZONE; i++) {
        bool inside = i >= RED_ZONE && i < RED_ZONE + bytes;

        array.data[(ptrdiff_t)i - (ptrdiff_t)RED_ZONE] = (char)(inside ? POISON : CANARY);
    }
    emu_poison(m.arena + m.arena_used, padded + 2 * RED_ZONE);
    emu_unpoison(const_cast<char *>(array.data), bytes);
    m.arena_used += padded + RED_ZONE;
    m.shared.push_back(array);
    return const_cast<char *>(array.data);
}
