/* cpu.c - what this processor and this process may do. */
#define _GNU_SOURCE /* sched_getaffinity */

#include "core/base/cpu.h"

#include <ctype.h>
#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

static const char *const level_names[VC_CPU_COUNT] = {"ref", "base", "avx2", "avx512", "neon"};

#if defined(__x86_64__) || defined(__i386__)
#include <cpuid.h>

/* clang's __builtin_cpu_supports knows no "f16c" before version 15. */
static bool has_f16c(void)
{
    unsigned a, b, c, d;

    return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
}

bool vc_cpu_has(enum vc_cpu_level level)
{
    switch (level) {
    case VC_CPU_REF:
    case VC_CPU_BASE:
        return true;
    case VC_CPU_AVX2:
        return __builtin_cpu_supports("avx2") && has_f16c() && __builtin_cpu_supports("fma") &&
               __builtin_cpu_supports("bmi2");
    case VC_CPU_AVX512:
        return vc_cpu_has(VC_CPU_AVX2) && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
               __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
               __builtin_cpu_supports("avx512vl");
    default:
        return false;
    }
}
#else
bool vc_cpu_has(enum vc_cpu_level level)
{
#if defined(__aarch64__)
    return level == VC_CPU_REF || level == VC_CPU_BASE || level == VC_CPU_NEON;
#else
    return level == VC_CPU_REF || level == VC_CPU_BASE;
#endif
}
#endif

enum vc_cpu_level vc_cpu_best(void)
{
    static const enum vc_cpu_level order[] = {VC_CPU_AVX512, VC_CPU_AVX2, VC_CPU_NEON};

    for (size_t i = 0; i < sizeof order / sizeof order[0]; i++) {
        if (vc_cpu_has(order[i])) {
            return order[i];
        }
    }
    return VC_CPU_BASE;
}

const char *vc_cpu_level_name(enum vc_cpu_level level)
{
    return (unsigned)level < VC_CPU_COUNT ? level_names[level] : "unknown";
}

bool vc_cpu_level_parse(const char *name, enum vc_cpu_level *out)
{
    if (strcmp(name, "all") == 0) {
        *out = vc_cpu_best();
        return true;
    }
    for (unsigned i = 0; i < VC_CPU_COUNT; i++) {
        if (strcmp(name, level_names[i]) == 0) {
            *out = (enum vc_cpu_level)i;
            return true;
        }
    }
    return false;
}

/* First line of a small file; false when it cannot be read. */
static bool read_line(const char *path, char *line, int n)
{
    FILE *f = fopen(path, "re");

    if (f == NULL) {
        return false;
    }
    bool ok = fgets(line, n, f) != NULL;
    (void)fclose(f);
    return ok;
}

/* The cgroup quota as a number of processors, rounded up; 0 when there is none. */
static unsigned cgroup_quota(void)
{
    char line[64];
    unsigned long quota;
    unsigned long period;

    if (!read_line("/sys/fs/cgroup/cpu.max", line, sizeof line) || sscanf(line, "%lu %lu", &quota, &period) != 2 ||
        period == 0) {
        return 0;
    }
    return (unsigned)((quota + period - 1) / period);
}

unsigned vc_cpu_allowed(unsigned *first)
{
    cpu_set_t set;

    *first = 0;
    if (sched_getaffinity(0, sizeof set, &set) != 0) {
        return 0;
    }
    while (*first < CPU_SETSIZE && !CPU_ISSET(*first, &set)) {
        ++*first;
    }
    return (unsigned)CPU_COUNT(&set);
}

unsigned vc_cpu_threads(void)
{
    unsigned first;
    unsigned n = vc_cpu_allowed(&first);
    unsigned quota = cgroup_quota();

    if (n == 0) {
        long online = sysconf(_SC_NPROCESSORS_ONLN);

        n = online > 0 ? (unsigned)online : 1;
    }
    if (quota != 0 && quota < n) {
        n = quota;
    }
    return n != 0 ? n : 1;
}

/* The bytes of a line "MemAvailable:   12345 kB" in a file of /proc; 0: there is no such line. */
static uint64_t proc_bytes(const char *path, const char *key)
{
    FILE *f = fopen(path, "re");
    size_t n = strlen(key);
    unsigned long long kib = 0;
    char line[128];

    if (f == NULL) {
        return 0;
    }
    while (fgets(line, sizeof line, f) != NULL) {
        if (strncmp(line, key, n) == 0 && line[n] == ':') {
            kib = strtoull(line + n + 1, NULL, 10);
            break;
        }
    }
    (void)fclose(f);
    return (uint64_t)kib * 1024;
}

/* ru_maxrss survives exec: it may be the peak of the program that started this one. VmHWM belongs to the program. */
uint64_t vc_peak_rss_bytes(void)
{
    uint64_t bytes = proc_bytes("/proc/self/status", "VmHWM");
    struct rusage usage;

    if (bytes == 0 && getrusage(RUSAGE_SELF, &usage) == 0) {
        bytes = (uint64_t)usage.ru_maxrss * 1024;
    }
    return bytes;
}

uint64_t vc_default_max_memory(void)
{
    uint64_t available = proc_bytes("/proc/meminfo", "MemAvailable");
    char limit[64], used[64];

    if (read_line("/sys/fs/cgroup/memory.max", limit, sizeof limit) && isdigit((unsigned char)limit[0]) &&
        read_line("/sys/fs/cgroup/memory.current", used, sizeof used)) {
        uint64_t l = strtoull(limit, NULL, 10);
        uint64_t u = strtoull(used, NULL, 10);

        available = vc_min_u64(available, l > u ? l - u : 0);
    }
    return vc_max_u64(available / 4, (uint64_t)64 << 20);
}

bool vc_cpu_denormals_ok(void)
{
    volatile float tiny = 1.17549435e-38f; /* the smallest normal */
    volatile float half = tiny * 0.5f;

    return half != 0.0f && half + half == tiny;
}
