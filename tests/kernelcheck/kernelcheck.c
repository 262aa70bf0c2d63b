/* kernelcheck.c - the program: options, and which tables are compared. It compares every kernel variant of this
 * machine with its reference, and times them; check.h has what it is made of. Exit status 0: all equal; 1: some
 * differ; 2: usage; 4: no device. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "core/base/cpu.h"
#include "kernels/device/cuda_load.h"
#include "tests/support/stride.h"

#define MAX_LEVELS (VC_CPU_COUNT + 1)

/* The tables to look at, with their names: the CPU levels that this machine has, or the plug-in's alone. */
struct levels {
    size_t n;
    const char *labels[MAX_LEVELS];
    struct vc_kernels tables[MAX_LEVELS];
};

static const char usage[] =
    "usage: kernelcheck [OPTION]...\n"
    "Compares every kernel of every CPU level of this machine with the reference, bit for bit.\n"
    "  --level NAME      ref, base, avx2, avx512, neon or cuda (cuda only when asked for)\n"
    "  --function NAME   only this kernel\n"
    "  --max-elems N     leave out larger tiles (for slow devices)\n"
    "  --by-turns        a third of the inputs for each size, others for the next one\n"
    "  --seed N          of the random inputs (printed; default 1)\n"
    "  --bench           GB/s of every kernel and level\n"
    "  --self            breaks kernels on purpose: each must be found\n"
    "  --exhaustive      all 2^32 floats through the casts and Q8_0 (minutes)\n"
    "  --list            names of the kernels\n"
    "  -v                one line per kernel\n";

struct arguments {
    struct kernelcheck_options options;
    const char *level;
    bool bench, self, exhaustive, list;
};

/* False, with a message, where the command line makes no sense. */
static bool parse(int argc, char **argv, struct arguments *a)
{
    a->options.seed = 1;
    for (int i = 1; i < argc; i++) {
        bool more = i + 1 < argc;

        if (strcmp(argv[i], "--level") == 0 && more) {
            a->level = argv[++i];
        } else if (strcmp(argv[i], "--function") == 0 && more) {
            a->options.function = argv[++i];
        } else if (strcmp(argv[i], "--max-elems") == 0 && more) {
            a->options.max_elems = (size_t)strtoull(argv[++i], NULL, 0);
        } else if (strcmp(argv[i], "--seed") == 0 && more) {
            a->options.seed = strtoull(argv[++i], NULL, 0);
        } else if (strcmp(argv[i], "--by-turns") == 0) {
            a->options.by_turns = true;
        } else if (strcmp(argv[i], "--bench") == 0) {
            a->bench = true;
        } else if (strcmp(argv[i], "--self") == 0) {
            a->self = true;
        } else if (strcmp(argv[i], "--exhaustive") == 0) {
            a->exhaustive = true;
        } else if (strcmp(argv[i], "--list") == 0) {
            a->list = true;
        } else if (strcmp(argv[i], "-v") == 0) {
            a->options.verbose = true;
        } else {
            fprintf(stderr, "kernelcheck: %s is not an option or lacks its value\n%s", argv[i], usage);
            return false;
        }
    }
    if (a->options.function != NULL && !kernelcheck_known(a->options.function)) {
        fprintf(stderr, "kernelcheck: there is no kernel %s (--list names them)\n", a->options.function);
        return false;
    }
    return true;
}

/* Appends the levels of this machine; only: the one of that name, NULL: all. */
static void levels_of_cpu(struct levels *levels, const char *only)
{
    for (int level = VC_CPU_REF; level < VC_CPU_COUNT; level++) {
        const char *name = vc_cpu_level_name((enum vc_cpu_level)level);

        if (vc_cpu_has((enum vc_cpu_level)level) && (only == NULL || strcmp(only, name) == 0)) {
            vc_kernels_fill(&levels->tables[levels->n], level);
            levels->labels[levels->n++] = name;
        }
    }
}

/* The level that this one inherits from. For cuda it is the reference, which main puts under the plug-in's kernels: one
 * that the plug-in lacks counts as inherited, not as equal. */
static int level_below(const char *label)
{
    enum vc_cpu_level level = VC_CPU_REF;

    if (!vc_cpu_level_parse(label, &level) || level <= VC_CPU_BASE) {
        return VC_CPU_REF;
    }
    return level == VC_CPU_AVX512 ? VC_CPU_AVX2 : VC_CPU_BASE;
}

/* Compares each level with the reference, prints a line for it, and returns how many kernels failed. */
static int check_levels(const struct levels *levels, struct arguments *a, struct kernelcheck_totals *totals)
{
    struct vc_kernels reference;
    int failed = 0;

    vc_kernels_fill(&reference, VC_CPU_REF);
    for (size_t i = 0; i < levels->n; i++) {
        struct kernelcheck_totals before = *totals;
        struct vc_kernels below;

        if (strcmp(levels->labels[i], "ref") == 0) {
            continue; /* it is what the others are compared with */
        }
        vc_kernels_fill(&below, level_below(levels->labels[i]));
        a->options.below = &below;
        failed += kernelcheck_table(&reference, &levels->tables[i], levels->labels[i], &a->options, totals);
        printf("%s: %u kernels equal the reference, %u differ, %u inherited, %" PRIu64 " trials\n", levels->labels[i],
               totals->passed - before.passed, totals->failed - before.failed, totals->inherited - before.inherited,
               totals->trials - before.trials);
    }
    a->options.below = NULL;
    return failed;
}

int main(int argc, char **argv)
{
    struct arguments a = {.options = {.by_turns = TEST_STRIDE > 1, .out = stdout}};
    struct kernelcheck_totals totals = {0};
    static struct levels levels;
    const struct vc_kernels *tables[MAX_LEVELS];
    struct vc_ctx *ctx = NULL;
    unsigned n_cuda;
    bool on_cuda;
    int failed = 0;

    if (!parse(argc, argv, &a)) {
        return 2;
    }
    if (a.list) {
        kernelcheck_list(stdout);
        return 0;
    }
    on_cuda = a.level != NULL && strcmp(a.level, "cuda") == 0;
    levels_of_cpu(&levels, on_cuda ? "none" : a.level);
    if (on_cuda) {
        vc_kernels_fill(&levels.tables[0], VC_CPU_REF);
        if (vc_ctx_create(&ctx) != VC_OK || vc_cuda_load(ctx, 0, &levels.tables[0], &n_cuda) != VC_OK) {
            fprintf(stderr, "kernelcheck: %s\n", vc_ctx_message(ctx));
            vc_ctx_free(ctx);
            return 4;
        }
        levels.labels[levels.n++] = "cuda";
        printf("%s\n", levels.tables[0].device);
    }
    if (levels.n == 0) {
        fprintf(stderr, "kernelcheck: this machine or this build has no level %s\n", a.level);
        return 2;
    }
    for (size_t i = 0; i < levels.n; i++) {
        tables[i] = &levels.tables[i];
    }
    printf("seed %" PRIu64 "\n", a.options.seed);
    if (a.bench) {
        kernelcheck_bench(tables, levels.labels, levels.n, a.options.function, stdout);
    } else if (a.exhaustive) {
        failed = kernelcheck_exhaustive(tables, levels.labels, levels.n, stdout);
        printf("%zu passed, %d failed\n", levels.n - (size_t)failed, failed);
    } else if (a.self) {
        struct vc_kernels reference;

        vc_kernels_fill(&reference, VC_CPU_REF);
        failed = kernelcheck_self(&reference, a.options.seed, stdout);
        printf("%s\n", failed == 0 ? "every broken kernel was found" : "the checker missed a broken kernel");
    } else {
        failed = check_levels(&levels, &a, &totals);
        printf("%u passed, %u failed\n", totals.passed, totals.failed);
    }
    if (on_cuda) {
        vc_cuda_unload(ctx);
    }
    vc_ctx_free(ctx);
    return failed == 0 ? 0 : 1;
}
