/* bench.c - how fast the kernels are (kernelcheck --bench): GB/s of the array that a kernel reads, or of its output
 * where it decodes, as the table's head says. Best of 25 short runs, tables by turns, memcpy as the yardstick of the
 * same run. Checks nothing. */
#define _GNU_SOURCE /* clock_gettime */

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cases.h"
#include "check.h"

#define BENCH_BYTES  ((size_t)1 << 21) /* room per argument */
#define BENCH_ROUNDS 25
#define MAX_TABLES   8

struct bench_shape {
    size_t n_rows, row_len, group;
    uint64_t inner;
};

/* Tiles of real models: rows of linear layers, one row, groups of 128, 64 and 32, convolutions with rows of 25 and 9.
 */
static const struct bench_shape row_shapes[] = {
    {256, 1024, 1024, 0}, {93, 2816, 2816, 0}, {1, 262144, 262144, 0}, {64, 4096, 128, 0}, {64, 4096, 64, 0},
    {64, 4096, 32, 0},    {455, 576, 576, 0},  {2621, 100, 100, 0},    {10485, 25, 25, 0}, {29127, 9, 9, 0}};
static const struct bench_shape plain_shapes[] = {{256, 1024, 1024, 0}, {2621, 100, 100, 0}, {29127, 9, 9, 0}};
static const struct bench_shape axis_shapes[] = {{256, 1024, 1024, 1}, {256, 1024, 1024, 9}, {256, 1024, 1024, 1024}};
static const struct bench_shape block_shapes[] = {{64, 4096, 0, 0}, {1024, 256, 0, 0}};
static const struct bench_shape flat_shapes[] = {{256, 1024, 1024, 0}};

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* GB/s of a copy of n bytes. */
static double best_memcpy(void *to, const void *from, size_t n)
{
    double best = 1e9;

    for (int i = 0; i < BENCH_ROUNDS; i++) {
        double start = now();

        memcpy(to, from, n);
        best = now() - start < best ? now() - start : best;
    }
    return (double)n / best * 1e-9;
}

/* One line of the table: a kernel on one shape, in every table. */
static void bench_one(const struct vc_kernels *const *tables, size_t n_tables, const struct kernel_case *c,
                      const struct bench_shape *shape, unsigned char *const *args, FILE *out)
{
    struct trial t = {.n_rows = shape->n_rows, .row_len = shape->row_len, .group = shape->group, .with_stats = true};
    double best[MAX_TABLES];
    void *p[MAX_ARGS];
    struct results r;
    uint64_t random = 1;

    t.group = c->shape == SHAPE_BLOCKS ? c->block : t.group;
    t.map = (struct vc_axis_map){0, shape->inner, shape->inner == 0 ? 1 : shape->row_len / shape->inner};
    for (size_t i = 0; i < MAX_ARGS; i++) {
        size_t n = c->args[i].kind == ARG_NONE ? 0 : arg_bytes(&c->args[i], &t) / c->args[i].elem_bytes;

        p[i] = args[i];
        switch (c->args[i].kind) {
        case ARG_F32:
            fill_f32(p[i], n, PATTERN_NORMAL, &random);
            break;
        case ARG_F64:
            fill_f64(p[i], n, PATTERN_NORMAL, &random);
            break;
        case ARG_SCALES:
            for (size_t k = 0; k < n; k++) {
                ((float *)p[i])[k] = 0.001f;
            }
            break;
        case ARG_HALF:
            memset(p[i], 0x3c, n * 2);
            break;
        default:
            memset(p[i], 0, n);
            break;
        }
        if (c->args[i].kind == ARG_SUMS) {
            r.tile.chunk_sums = r.diff.chunk_sums = r.values.chunk_sums = p[i];
        }
    }
    for (size_t k = 0; k < n_tables; k++) {
        best[k] = 1e9;
    }
    for (int round = 0; round < BENCH_ROUNDS; round++) {
        for (size_t k = 0; k < n_tables; k++) {
            double start = now();

            c->call(tables[k], &t, p, &r);
            best[k] = now() - start < best[k] ? now() - start : best[k];
        }
    }
    fprintf(out, "%-17s %6zu x %6zu", c->name, t.n_rows, t.row_len);
    if (shape->inner != 0) {
        fprintf(out, " inner %-5zu", (size_t)shape->inner);
    } else if (c->shape == SHAPE_GROUPS) {
        fprintf(out, " / %-8zu", t.group);
    } else {
        fprintf(out, "           ");
    }
    for (size_t k = 0; k < n_tables; k++) {
        bool decode = c->args[0].kind == ARG_CODES || c->args[0].kind == ARG_BYTES;
        size_t elem = decode ? 4 : c->args[0].elem_bytes; /* decode: of what it writes */

        fprintf(out, " %8.2f", (double)(trial_elems(&t) * elem) / best[k] * 1e-9);
    }
    fprintf(out, "\n");
    fflush(out);
}

void kernelcheck_bench(const struct vc_kernels *const *tables, const char *const *labels, size_t n_tables,
                       const char *function, FILE *out)
{
    unsigned char *args[MAX_ARGS] = {NULL};
    bool good = true;

    n_tables = n_tables > MAX_TABLES ? MAX_TABLES : n_tables;
    for (size_t i = 0; i < MAX_ARGS; i++) {
        args[i] = malloc(BENCH_BYTES);
        good = good && args[i] != NULL;
    }
    if (good) {
        memset(args[0], 1, BENCH_BYTES);
        memset(args[1], 1, BENCH_BYTES);
        fprintf(out, "GB/s of source (decode: of output), statistics on; memcpy of 1 MiB: %.1f\n%-47s",
                best_memcpy(args[0], args[1], (size_t)1 << 20), "");
        for (size_t k = 0; k < n_tables; k++) {
            fprintf(out, " %8s", labels[k]);
        }
        fprintf(out, "\n");
    }
    for (size_t i = 0; good && i < n_kernel_cases; i++) {
        const struct kernel_case *c = &kernel_cases[i];
        bool axis = c->shape == SHAPE_AXIS || c->shape == SHAPE_AXIS_ROWS;
        const struct bench_shape *shapes = axis                       ? axis_shapes
                                           : c->shape == SHAPE_FLAT   ? flat_shapes
                                           : c->shape == SHAPE_GROUPS ? row_shapes
                                           : c->shape == SHAPE_BLOCKS ? block_shapes
                                                                      : plain_shapes;
        size_t n = axis                       ? 3
                   : c->shape == SHAPE_FLAT   ? 1
                   : c->shape == SHAPE_GROUPS ? 10
                   : c->shape == SHAPE_BLOCKS ? 2
                                              : 3;

        for (size_t s = 0; (function == NULL || strcmp(function, c->name) == 0) && s < n; s++) {
            bench_one(tables, n_tables, c, &shapes[s], args, out);
        }
    }
    for (size_t i = 0; i < MAX_ARGS; i++) {
        free(args[i]);
    }
}
