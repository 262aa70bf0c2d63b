/* emu_sanitizers.h - tells AddressSanitizer and ThreadSanitizer about fibers: that the stack changes, which memory
 * may not be touched, what is ordered. The functions are those of the compilers' runtime libraries; without a
 * sanitizer they are empty here. */
#pragma once

#include <cstddef>

#if defined(__SANITIZE_ADDRESS__)
#define VC_EMU_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define VC_EMU_ASAN 1
#endif
#endif
#ifndef VC_EMU_ASAN
#define VC_EMU_ASAN 0
#endif

/* The fiber file itself is not instrumented (it plays the hardware), so the build says it. */
#ifndef VC_EMU_TSAN
#define VC_EMU_TSAN 0
#endif

/* Names of our own, since headers of newer compilers declare the functions of the runtime libraries in every build that is
 * instrumented. */
#if VC_EMU_ASAN
extern "C" void __sanitizer_start_switch_fiber(void **fake_stack_save, const void *bottom, size_t size);
extern "C" void __sanitizer_finish_switch_fiber(void *fake_stack_save, const void **bottom_old, size_t *size_old);
extern "C" void __asan_poison_memory_region(const volatile void *p, size_t size);
extern "C" void __asan_unpoison_memory_region(const volatile void *p, size_t size);
#define EMU_ASAN(call) call
#else
#define EMU_ASAN(call) ((void)0)
#endif

#if VC_EMU_TSAN
extern "C" void *__tsan_get_current_fiber(void);
extern "C" void *__tsan_create_fiber(unsigned flags);
extern "C" void __tsan_destroy_fiber(void *fiber);
extern "C" void __tsan_switch_to_fiber(void *fiber, unsigned flags);
extern "C" void __tsan_acquire(void *address);
extern "C" void __tsan_release(void *address);
#define EMU_TSAN(call)  call
#define EMU_FIBER(call) call
#else
#define EMU_TSAN(call)  ((void)0)
#define EMU_FIBER(call) NULL
#endif

static inline __attribute__((always_inline)) void emu_start_switch_fiber(void **save, const void *bottom, size_t size)
{
    (void)save, (void)bottom, (void)size;
    EMU_ASAN(__sanitizer_start_switch_fiber(save, bottom, size));
}

static inline __attribute__((always_inline)) void emu_finish_switch_fiber(void *save, const void **bottom, size_t *size)
{
    (void)save, (void)bottom, (void)size;
    EMU_ASAN(__sanitizer_finish_switch_fiber(save, bottom, size));
}

static inline __attribute__((always_inline)) void emu_poison(const volatile void *p, size_t size)
{
    (void)p, (void)size;
    EMU_ASAN(__asan_poison_memory_region(p, size));
}

static inline __attribute__((always_inline)) void emu_unpoison(const volatile void *p, size_t size)
{
    (void)p, (void)size;
    EMU_ASAN(__asan_unpoison_memory_region(p, size));
}

static inline __attribute__((always_inline)) void *emu_current_fiber(void)
{
    return EMU_FIBER(__tsan_get_current_fiber());
}

static inline __attribute__((always_inline)) void *emu_create_fiber(unsigned flags)
{
    (void)flags;
    return EMU_FIBER(__tsan_create_fiber(flags));
}

static inline __attribute__((always_inline)) void emu_destroy_fiber(void *fiber)
{
    (void)fiber;
    EMU_TSAN(__tsan_destroy_fiber(fiber));
}

static inline __attribute__((always_inline)) void emu_switch_to_fiber(void *fiber, unsigned flags)
{
    (void)fiber, (void)flags;
    EMU_TSAN(__tsan_switch_to_fiber(fiber, flags));
}

static inline __attribute__((always_inline)) void emu_acquire(void *address)
{
    (void)address;
    EMU_TSAN(__tsan_acquire(address));
}

static inline __attribute__((always_inline)) void emu_release(void *address)
{
    (void)address;
    EMU_TSAN(__tsan_release(address));
}
