/* check.c - the comparison itself. A trial is one call of a kernel with one shape, one pattern of values, one
 * placement of its arrays, with or without zero points and statistics. Reference and variant get the same inputs
 * and poisoned outputs; then everything that the contract defines is compared. What is called how: cases.c. */
#define _GNU_SOURCE /* sigsetjmp and friends */

#include "check.h"

#include <inttypes.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "cases.h"
#include "fence.h"
#include "kernels/arith.h"

#define MAX_ELEMS ((size_t)263171) /* of the largest shape: odd, and more than a tile */
#define MAX_BYTES (MAX_ELEMS * 8)

struct shape {
    size_t n_rows, row_len, group;
};

/* Sizes around every vector width, chunk and strip; short rows; groups that divide the row, the chunk, or nothing. */
static const struct shape shapes[] = {
    {1, 0, 1},       {0, 5, 5},        {1, 1, 1},           {1, 2, 2},          {1, 7, 7},       {1, 15, 15},
    {1, 16, 16},     {1, 17, 17},      {1, 31, 31},         {1, 32, 32},        {1, 33, 33},     {1, 63, 63},
    {1, 64, 64},     {1, 65, 65},      {1, 127, 127},       {1, 255, 255},      {1, 256, 256},   {1, 257, 257},
    {1, 511, 511},   {1, 513, 513},    {1, 1023, 1023},     {1, 1025, 1025},    {1, 4095, 4095}, {1, 4096, 4096},
    {1, 4097, 4097}, {1, 12289, 9999}, {3, 1, 1},           {7, 9, 9},          {5, 25, 25},     {3, 100, 100},
    {9, 27, 27},     {2, 64, 64},      {3, 128, 32},        {3, 100, 32},       {2, 130, 7},     {5, 300, 64},
    {2, 4096, 128},  {1, 8192, 5000},  {2, 5000, 1000},     {5, 513, 513},      {3, 1023, 33},   {40, 31, 1},
    {2, 4100, 1},    {130, 9, 9},      {3, 1040, 16},       {1, 65536, 100000}, {5, 512, 128},   {3, 2048, 2048},
    {33, 147, 147},  {5, 363, 363},    {67, 60, 60},        {35, 128, 128},     {9, 512, 512},   {4, 1024, 1024},
    {7, 380, 380},   {5, 760, 760},    {1, MAX_ELEMS, 4096}};

/* What all trials of a table share: its buffers, made once, and the state of the random numbers. */
struct runner {
    const struct kernelcheck_options *options;
    const char *label;
    const struct vc_kernels *reference, *variant;
    struct fence expected[MAX_ARGS], actual[MAX_ARGS];
    unsigned char *inputs[MAX_ARGS];
    uint64_t random;
    uint64_t trials;
};

static const char *const placement_names[PLACE_COUNT] = {"at the end of a page", "one byte off", "aligned"};

/* ---- crashes ----
 *
 * Reading beyond an array meets an unmapped page; the trial is then left by a jump, and counts as failed. */

static sigjmp_buf crash_jump;
static const int crash_signals[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT};
static struct sigaction crash_before[sizeof crash_signals / sizeof crash_signals[0]];

static void on_crash(int number)
{
    siglongjmp(crash_jump, number);
}

static void crashes_catch(void)
{
    struct sigaction action;

    memset(&action, 0, sizeof action);
    action.sa_handler = on_crash;
    action.sa_flags = SA_NODEFER;
    for (size_t i = 0; i < sizeof crash_signals / sizeof crash_signals[0]; i++) {
        sigaction(crash_signals[i], &action, &crash_before[i]);
    }
}

static void crashes_release(void)
{
    for (size_t i = 0; i < sizeof crash_signals / sizeof crash_signals[0]; i++) {
        sigaction(crash_signals[i], &crash_before[i], NULL);
    }
}

/* ---- one trial ---- */

/* ARG_MAXIMA and ARG_BINS are both: kernels join with what is there. */
static bool is_input(enum arg_kind kind)
{
    return kind != ARG_NONE && kind != ARG_OUT && kind != ARG_SUMS;
}

static bool is_output(enum arg_kind kind)
{
    return kind == ARG_OUT || kind == ARG_SUMS || kind == ARG_MAXIMA || kind == ARG_BINS;
}

/* Positive scales that suit the pattern: some small enough that codes are clipped. */
static void fill_scales(float *scale, size_t n, enum pattern pattern, uint64_t *random)
{
    for (size_t i = 0; i < n; i++) {
        uint64_t r = random_next(random);
        float v = 0.0005f * (0.3f + (float)(r % 1000) / 400);

        if (pattern == PATTERN_TIES || pattern == PATTERN_NEAR_TIES) {
            v = r & 0x300 ? 0x1p-7f : 0x1p-8f;
        } else if (pattern == PATTERN_GRID) {
            v = GRID_ABSMAX / (r & 0x700 ? 127.0f : 64.0f);
        } else if (pattern == PATTERN_WIDE || pattern == PATTERN_EXTREMES || r % 61 == 0) {
            v = vc_bits_f32(((uint32_t)(r >> 20) & 0x7fffffffu) % 0x7f000000u + 1);
        } else if (pattern == PATTERN_SUBNORMAL) {
            v = vc_bits_f32((uint32_t)(r >> 30 & 0xffffff) + 1);
        } else if (pattern == PATTERN_OUTLIER) {
            v = 1000.0f / 127;
        }
        scale[i] = v;
    }
}

/* Fills one input of a trial. 16-bit and 8-bit codes take every value, by an odd stride. */
static void fill_input(struct runner *run, const struct trial *t, const struct arg *arg, unsigned char *to)
{
    size_t n_bytes = arg_bytes(arg, t);
    size_t n = n_bytes / arg->elem_bytes;

    switch (arg->kind) {
    case ARG_F32:
        fill_f32((float *)(void *)to, n, t->pattern, &run->random);
        break;
    case ARG_F64:
        fill_f64((double *)(void *)to, n, t->pattern, &run->random);
        break;
    case ARG_SCALES:
        fill_scales((float *)(void *)to, n, t->pattern, &run->random);
        break;
    case ARG_HALF:
        for (size_t i = 0; i < n; i++) {
            uint16_t h = (uint16_t)(i * 40503u); /* odd: 65,536 elements are all values */

            memcpy(to + 2 * i, &h, sizeof h);
        }
        break;
    case ARG_CODES:
        for (size_t i = 0; i < n; i++) {
            to[i] = (unsigned char)(i * 167u);
        }
        break;
    case ARG_BINS:
        memset(to, 1, n_bytes);
        break;
    case ARG_MAXIMA:
        for (size_t i = 0; i < n; i++) {
            uint32_t u = random_next(&run->random) & 1 ? 0 : 0x3c800000u;

            memcpy(to + 4 * i, &u, sizeof u);
        }
        break;
    default:
        fill_bytes(to, n_bytes, &run->random);
        break;
    }
}

/* Makes the second array of a diff like the first in two places of three, as with real files: equal elements must
 * count as such. */
static void make_similar(struct runner *run, const struct kernel_case *c, const struct trial *t)
{
    size_t n_bytes = arg_bytes(&c->args[1], t);
    size_t elem = c->args[1].elem_bytes;

    for (size_t i = 0; i < n_bytes; i += elem) {
        if (random_next(&run->random) % 3 != 0) {
            memcpy(run->inputs[1] + i, run->inputs[0] + i, elem);
        }
    }
}

/* Places one side's arrays, poisoned, with the inputs copied in; p[i] is argument i. */
static void set_up(struct runner *run, const struct kernel_case *c, const struct trial *t, enum placement placement,
                   struct fence *fences, void **p)
{
    for (size_t i = 0; i < MAX_ARGS; i++) {
        const struct arg *arg = &c->args[i];

        if (arg->kind == ARG_NONE) {
            continue;
        }
        fence_place(&fences[i], arg_bytes(arg, t), placement, arg->kind == ARG_SUMS);
        p[i] = fences[i].data;
        if (is_input(arg->kind)) {
            memcpy(fences[i].data, run->inputs[i], fences[i].n_bytes);
        }
    }
}

/* Poisons the numbers that a kernel has to overwrite. */
static void clear_results(struct results *r, const struct kernel_case *c, void *const *p)
{
    memset(r, FENCE_POISON, sizeof *r);
    for (size_t i = 0; i < MAX_ARGS; i++) {
        if (c->args[i].kind == ARG_SUMS) {
            r->tile.chunk_sums = r->diff.chunk_sums = r->values.chunk_sums = p[i];
        }
    }
}

/* Sums over f64 may overflow to NaN, whose bits the contract leaves open. */
static bool same_double(double a, double b)
{
    return vc_f64_bits(a) == vc_f64_bits(b) || (a != a && b != b);
}

static bool same_results(const struct kernel_case *c, const struct trial *t, const struct results *a,
                         const struct results *b)
{
    switch (c->result) {
    case RESULT_TILE:
        return !t->with_stats || (same_double(a->tile.max_abs_error, b->tile.max_abs_error) &&
                                  a->tile.zeros_before == b->tile.zeros_before &&
                                  a->tile.zeros_after == b->tile.zeros_after && a->tile.clipped == b->tile.clipped);
    case RESULT_DIFF:
        return same_double(a->diff.max_abs_error, b->diff.max_abs_error) && a->diff.different == b->diff.different &&
               a->diff.nonfinite_pairs == b->diff.nonfinite_pairs;
    case RESULT_VALUES:
        return a->values.nans == b->values.nans && a->values.infs == b->values.infs &&
               a->values.zeros == b->values.zeros && a->values.subnormals == b->values.subnormals &&
               same_double(a->values.min, b->values.min) && same_double(a->values.max, b->values.max) &&
               memcmp(a->values.histogram, b->values.histogram, sizeof a->values.histogram) == 0;
    default:
        return true;
    }
}

/* First byte that differs, or n. Doubles that are both NaN are equal. */
static size_t first_difference(const struct arg *arg, const unsigned char *a, const unsigned char *b, size_t n)
{
    if (memcmp(a, b, n) == 0) {
        return n;
    }
    for (size_t i = 0; arg->kind == ARG_SUMS && i < n; i += 8) {
        double x;
        double y;

        memcpy(&x, a + i, sizeof x);
        memcpy(&y, b + i, sizeof y);
        if (!same_double(x, y)) {
            return i;
        }
    }
    for (size_t i = 0; arg->kind != ARG_SUMS && i < n; i++) {
        if (a[i] != b[i]) {
            return i;
        }
    }
    return n;
}

/* Whether the reference's magnitudes, a trial's argument 1, name a group that is not finite. */
static bool any_nonfinite_group(const struct fence *bits)
{
    for (size_t i = 0; i < bits->n_bytes; i += 4) {
        uint32_t u;

        memcpy(&u, bits->data + i, sizeof u);
        if (u >= VC_F32_INF_BITS) {
            return true;
        }
    }
    return false;
}

/* Prints a failed trial with all that is needed to make it again. */
static void describe(const struct runner *run, const struct kernel_case *c, const struct trial *t,
                     enum placement placement, const char *what)
{
    if (run->options->out == NULL) {
        return;
    }
    fprintf(run->options->out, "%s %s: %s (%zu x %zu, group %zu", run->label, c->name, what, t->n_rows, t->row_len,
            t->group);
    if (c->shape == SHAPE_AXIS || c->shape == SHAPE_AXIS_ROWS) {
        fprintf(run->options->out, ", axis first %" PRIu64 " inner %" PRIu64 " channels %" PRIu64, t->map.first,
                t->map.inner, t->map.n_channels);
    }
    fprintf(run->options->out, ", %s, %s, %s zero points, %s statistics, --seed %" PRIu64 ")\n",
            pattern_names[t->pattern], placement_names[placement], t->with_zeros ? "with" : "no",
            t->with_stats ? "with" : "no", run->options->seed);
}

/* Whether the variant did what the reference did, and nothing else: fences, inputs, outputs, numbers. Describes the
 * first difference. */
static bool compare(const struct runner *run, const struct kernel_case *c, const struct trial *t,
                    enum placement placement, const struct results *expected, const struct results *actual)
{
    bool only_bits = c->bits_first != 0 && any_nonfinite_group(&run->expected[1]);
    char what[160];

    for (size_t i = 0; i < MAX_ARGS; i++) {
        const struct arg *arg = &c->args[i];
        const struct fence *a = &run->actual[i];
        size_t at;

        if (arg->kind == ARG_NONE) {
            continue;
        }
        if (!fence_intact(a)) {
            snprintf(what, sizeof what, "wrote outside of argument %zu", i);
            describe(run, c, t, placement, what);
            return false;
        }
        if (is_input(arg->kind) && !is_output(arg->kind) && memcmp(a->data, run->inputs[i], a->n_bytes) != 0) {
            snprintf(what, sizeof what, "changed its input %zu", i);
            describe(run, c, t, placement, what);
            return false;
        }
        if (!is_output(arg->kind) || (only_bits && i > c->bits_first)) {
            continue;
        }
        at = first_difference(arg, run->expected[i].data, a->data, a->n_bytes);
        if (at < a->n_bytes) {
            snprintf(what, sizeof what, "argument %zu differs at element %zu", i, at / arg->elem_bytes);
            describe(run, c, t, placement, what);
            return false;
        }
    }
    if (!only_bits && !same_results(c, t, expected, actual)) {
        describe(run, c, t, placement, "statistics differ");
        return false;
    }
    return true;
}

/* One trial, reference first. False: the variant differs, failed or crashed. */
static bool run_trial(struct runner *run, const struct kernel_case *c, const struct trial *t, enum placement placement)
{
    void *p[2][MAX_ARGS] = {{NULL}};
    struct results expected;
    struct results actual;
    int number;

    for (size_t i = 0; i < MAX_ARGS; i++) {
        if (is_input(c->args[i].kind)) {
            fill_input(run, t, &c->args[i], run->inputs[i]);
        }
    }
    if (c->result == RESULT_DIFF) {
        make_similar(run, c, t);
    }
    set_up(run, c, t, PLACE_ALIGNED, run->expected, p[0]);
    set_up(run, c, t, placement, run->actual, p[1]);
    clear_results(&expected, c, p[0]);
    clear_results(&actual, c, p[1]);
    run->trials++;
    c->call(run->reference, t, p[0], &expected);
    number = sigsetjmp(crash_jump, 1);
    if (number != 0) {
        char what[64];

        snprintf(what, sizeof what, "crashed with signal %d", number);
        describe(run, c, t, placement, what);
        return false;
    }
    if (c->call(run->variant, t, p[1], &actual) != 0) {
        describe(run, c, t, placement, "returned an error");
        return false;
    }
    return compare(run, c, t, placement, &expected, &actual);
}

/* ---- all trials of a kernel ---- */

/* An axis for a trial: any, also one that begins in the middle of a channel, or is longer than the tile. */
static void choose_map(struct runner *run, struct trial *t)
{
    static const uint64_t inners[] = {1, 2, 3, 9, 16, 64, 1000, 100000};
    static const uint64_t channels[] = {1, 2, 3, 31, 64, 257};
    uint64_t r = random_next(&run->random);

    t->map.inner = inners[r % 8];
    t->map.n_channels = channels[(r >> 8) % 6];
    t->map.first = r >> 60 < 6 ? 0 : (r >> 16) % 100003;
}

/* Some contracts want finite x. */
static bool pattern_allowed(const struct kernel_case *c, enum pattern pattern)
{
    return !(c->finite_only && (pattern == PATTERN_NONFINITE || pattern == PATTERN_BITS));
}

#define SLOW_ELEMS 4096 /* of the largest shape of slow kernels; by turns half of it */
#define FULL_ELEMS 1100 /* of the largest shape that takes every pattern in every placement */

/* All trials of one shape, the turn-th of the list. Long shapes take one placement for each pattern by turns, large
 * ones one trial in all: both are for the walk over many chunks. */
static bool check_shape(struct runner *run, const struct kernel_case *c, const struct shape *shape, size_t turn)
{
    size_t n_elems = shape->n_rows * shape->row_len;
    bool large = n_elems > 100000;

    for (int pattern = 0; pattern < PATTERN_COUNT; pattern++) {
        if (!pattern_allowed(c, (enum pattern)pattern) || (large && pattern % 4 != 0)) {
            continue;
        }
        if (run->options->by_turns && !large && (turn + (size_t)pattern / 2) % 3 != 0) {
            continue;
        }
        bool by_turns = n_elems > FULL_ELEMS && !large;
        int first = by_turns ? (int)((turn + (size_t)pattern) % PLACE_COUNT) : c->slow ? pattern % 2 : 0;
        int step = by_turns ? PLACE_COUNT : c->slow ? 2 : 1;

        for (int placement = first; placement < PLACE_COUNT; placement += step) {
            for (int choice = 0; choice < 4; choice++) {
                struct trial t = {.n_rows = shape->n_rows,
                                  .row_len = shape->row_len,
                                  .group = shape->group,
                                  .pattern = (enum pattern)pattern,
                                  .with_zeros = choice & 1,
                                  .with_stats = !(choice & 2)};
                bool zeros = c->args[2].kind == ARG_ZEROS || c->choices;

                /* small shapes take every combination, others one of them by turns */
                if ((t.with_zeros && !zeros) || (!t.with_stats && c->result != RESULT_TILE && !c->choices)) {
                    continue;
                }
                if (n_elems > 300 && choice != (zeros ? pattern % 2 : 0)) {
                    continue;
                }
                choose_map(run, &t);
                if (!run_trial(run, c, &t, (enum placement)placement)) {
                    return false;
                }
                if (large) {
                    return true;
                }
            }
        }
    }
    return true;
}

/* Rows of whole blocks, longer ones where there is room for it. */
static struct shape in_blocks(const struct shape *shape, size_t block)
{
    size_t n = (shape->row_len + block - 1) / block;

    n -= shape->n_rows * n * block > MAX_ELEMS;
    return (struct shape){shape->n_rows, n * block, block};
}

/* All trials of one kernel. Each kernel begins with the same random numbers, whatever was checked before it. */
static bool check_kernel(struct runner *run, const struct kernel_case *c)
{
    run->random = run->options->seed;
    for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++) {
        struct shape shape = c->shape == SHAPE_BLOCKS ? in_blocks(&shapes[s], c->block) : shapes[s];

        if (run->options->max_elems != 0 && shape.n_rows * shape.row_len > run->options->max_elems) {
            continue;
        }
        if (c->slow && shape.n_rows * shape.row_len > (run->options->by_turns ? SLOW_ELEMS / 2 : SLOW_ELEMS)) {
            continue;
        }
        if (!check_shape(run, c, &shape, s)) {
            return false;
        }
    }
    return true;
}

static bool runner_create(struct runner *run)
{
    for (size_t i = 0; i < MAX_ARGS; i++) {
        run->inputs[i] = malloc(MAX_BYTES);
        if (run->inputs[i] == NULL || !fence_create(&run->expected[i], MAX_BYTES) ||
            !fence_create(&run->actual[i], MAX_BYTES)) {
            return false;
        }
    }
    return true;
}

static void runner_destroy(struct runner *run)
{
    for (size_t i = 0; i < MAX_ARGS; i++) {
        free(run->inputs[i]);
        fence_destroy(&run->expected[i]);
        fence_destroy(&run->actual[i]);
    }
}

/* Whether two tables have the same entry at that offset. */
static bool same_pointer(const struct vc_kernels *a, const struct vc_kernels *b, size_t offset)
{
    return memcmp((const char *)a + offset, (const char *)b + offset, sizeof(void (*)(void))) == 0;
}

static bool is_null(const struct vc_kernels *a, size_t offset)
{
    static const struct vc_kernels none;

    return same_pointer(a, &none, offset);
}

/* How many lines of kernels.inc have no case: a new kernel is checked, or this program fails. */
static unsigned count_without_case(FILE *out)
{
    static const char *const names[] = {
#define VC_KERNEL(name, result, params) #name,
#include "kernels/kernels.inc"
#undef VC_KERNEL
    };
    unsigned missing = 0;

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (!kernelcheck_known(names[i])) {
            missing++;
            if (out != NULL) {
                fprintf(out, "%s: kernelcheck does not know how to call it (cases.c)\n", names[i]);
            }
        }
    }
    return missing;
}

int kernelcheck_table(const struct vc_kernels *reference, const struct vc_kernels *variant, const char *label,
                      const struct kernelcheck_options *options, struct kernelcheck_totals *totals)
{
    struct runner run = {.options = options, .label = label, .reference = reference, .variant = variant};
    struct kernelcheck_totals sum = {.failed = count_without_case(options->out)};

    if (!runner_create(&run)) {
        runner_destroy(&run);
        return -1;
    }
    crashes_catch();
    for (size_t i = 0; i < n_kernel_cases; i++) {
        const struct kernel_case *c = &kernel_cases[i];
        bool good;

        if (options->function != NULL && strcmp(options->function, c->name) != 0) {
            continue;
        }
        if (options->below != NULL && same_pointer(variant, options->below, c->offset)) {
            sum.inherited++;
            continue;
        }
        good = !is_null(variant, c->offset) && check_kernel(&run, c);
        sum.passed += good;
        sum.failed += !good;
        if (options->verbose && options->out != NULL) {
            fprintf(options->out, "%-14s %-18s %s\n", label, c->name, good ? "ok" : "FAILED");
            fflush(options->out);
        }
    }
    crashes_release();
    runner_destroy(&run);
    if (totals != NULL) {
        totals->passed += sum.passed;
        totals->failed += sum.failed;
        totals->inherited += sum.inherited;
        totals->trials += run.trials;
    }
    return (int)sum.failed;
}

bool kernelcheck_known(const char *function)
{
    for (size_t i = 0; i < n_kernel_cases; i++) {
        if (strcmp(kernel_cases[i].name, function) == 0) {
            return true;
        }
    }
    return false;
}

void kernelcheck_list(FILE *out)
{
    for (size_t i = 0; i < n_kernel_cases; i++) {
        fprintf(out, "%s\n", kernel_cases[i].name);
    }
}
