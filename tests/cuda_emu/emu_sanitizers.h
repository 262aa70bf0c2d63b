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

#if VC_EMU_ASAN
extern "C" void __sanitizer_start_switch_fiber(void **fake_stack_save, const void *bottom, size_t size);
extern "C" void __sanitizer_finish_switch_fiber(void *fake_stack_save, const void **bottom_old, size_t *size_old);
extern "C" void __asan_poison_memory_region(const volatile void *p, size_t size);
extern "C" void __asan_unpoison_memory_region(const volatile void *p, size_t size);
#else
static inline void __sanitizer_start_switch_fiber(void **, const void *, size_t)
{
}
static inline void __sanitizer_finish_switch_fiber(void *, const void **, size_t *)
{
}
static inline void __asan_poison_memory_region(const volatile void *, size_t)
{
}
static inline void __asan_unpoison_memory_region(const volatile void *, size_t)
{
}
#endif

#if VC_EMU_TSAN
extern "C" void *__tsan_get_current_fiber(void);
extern "C" void *__tsan_create_fiber(unsigned flags);
extern "C" void __tsan_destroy_fiber(void *fiber);
extern "C" void __tsan_switch_to_fiber(void *fiber, unsigned flags);
extern "C" void __tsan_acquire(void *address);
extern "C" void __tsan_release(void *address);
#else
static inline void *__tsan_get_current_fiber(void)
{
    return NULL;
}
static inline void *__tsan_create_fiber(unsigned)
{
    return NULL;
}
static inline void __tsan_destroy_fiber(void *)
{
}
static inline void __tsan_switch_to_fiber(void *, unsigned)
{
}
static inline void __tsan_acquire(void *)
{
}
static inline void __tsan_release(void *)
{
}
#endif
