/* cpu.h - which kernel levels this processor can run, and how many threads this process may use. */
#ifndef VC_CORE_CPU_H
#define VC_CORE_CPU_H

#include "core/base/ctx.h"

enum vc_cpu_level vc_cpu_best(void); /* of the processor and the operating system */
bool vc_cpu_has(enum vc_cpu_level level);
const char *vc_cpu_level_name(enum vc_cpu_level level);
bool vc_cpu_level_parse(const char *name, enum vc_cpu_level *out); /* "all" is vc_cpu_best() */

/* Processors by affinity mask and cgroup quota; at least 1. */
unsigned vc_cpu_threads(void);

/* A quarter of the memory that is free now (cgroup limit respected), at least 64 MiB. */
uint64_t vc_default_max_memory(void);

/* False when a library has switched on flush-to-zero in this thread: codes would differ then. */
bool vc_cpu_denormals_ok(void);

#endif
