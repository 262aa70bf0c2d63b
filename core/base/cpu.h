/* cpu.h - what the machine gives: the kernel levels of its processor, threads and memory for this process. */
#pragma once

#include "core/base/ctx.h"

enum vc_cpu_level vc_cpu_best(void); /* of the processor and the operating system */
bool vc_cpu_has(enum vc_cpu_level level);
const char *vc_cpu_level_name(enum vc_cpu_level level);
bool vc_cpu_level_parse(const char *name, enum vc_cpu_level *out); /* "all" is vc_cpu_best() */

/* Processors by affinity mask; *first: the number of the lowest one. 0: not known. */
unsigned vc_cpu_allowed(unsigned *first);
/* Processors by affinity mask and cgroup quota; at least 1. */
unsigned vc_cpu_threads(void);

/* A quarter of the memory that is free now (cgroup limit respected), at least 64 MiB. */
uint64_t vc_default_max_memory(void);

/* The most memory that this process had since its program was started; where the system does not tell, since the
 * process was made. 0: not known. */
uint64_t vc_peak_rss_bytes(void);

/* False when a library has switched on flush-to-zero in this thread: codes would differ then. */
bool vc_cpu_denormals_ok(void);
