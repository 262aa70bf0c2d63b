/* compiler.h - the only place for compiler extensions. */
#pragma once

#define VC_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#define VC_NOINLINE          __attribute__((noinline))
#define VC_TARGET(names)     __attribute__((target(names))) /* instructions of this function: the caller asks for them */
#define VC_CLEANUP(function) __attribute__((cleanup(function))) /* function(&variable) where its scope ends */
#define VC_UNLIKELY(x)       __builtin_expect(!!(x), 0)

/* The bytes of a file, and a NUL behind them, as `const char name[]`. The path is searched as that of an #include. */
#define VC_EMBED(name, path)                                                                                         \
    __asm__(".pushsection .rodata\n.globl " #name "\n.hidden " #name "\n" #name ":\n.incbin \"" path "\"\n.byte 0\n" \
            ".popsection");                                                                                          \
    extern const char name[]
