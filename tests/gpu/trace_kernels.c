/* trace_kernels.c - how long each kernel and each copy of a program takes on the device, as a Markdown table at its end. A library
 * that the CUDA driver loads by itself:
 *
 *     cc -O2 -shared -fPIC trace_kernels.c -o trace_kernels.so -lcupti
 *     CUDA_INJECTION64_PATH=$PWD/trace_kernels.so TRACE_KERNELS=table.md TRACE_ROWS=20 vcompress distill ...
 *
 *     | kernel                 | calls | us each | ms    | share |
 *     | row_norm_kernel<float> |  1010 |    6.12 | 6.181 |  12 % |
 *
 * Source: NVIDIA's reference of CUPTI, activity records. */
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cupti.h>

enum { MOST_KINDS = 512, BUFFER_BYTES = 4 << 20 };

struct kind {
    char name[160];
    uint64_t calls, ns, bytes;
};

static struct kind kinds[MOST_KINDS];
static unsigned n_kinds;
static uint64_t first = UINT64_MAX, last;

static void count(const char *name, uint64_t from, uint64_t to, uint64_t bytes)
{
    unsigned i = 0;

    while (i < n_kinds && strncmp(kinds[i].name, name, sizeof kinds[i].name - 1) != 0) {
        i++;
    }
    if (i == MOST_KINDS) {
        return;
    }
    if (i == n_kinds) {
        (void)snprintf(kinds[n_kinds++].name, sizeof kinds[i].name, "%s", name);
    }
    kinds[i].calls++;
    kinds[i].ns += to - from;
    kinds[i].bytes += bytes;
    first = from < first ? from : first;
    last = to > last ? to : last;
}

static void CUPTIAPI give_buffer(uint8_t **buffer, size_t *size, size_t *most_records)
{
    *size = BUFFER_BYTES;
    *most_records = 0;
    *buffer = aligned_alloc(8, BUFFER_BYTES);
}

static void take_record(const CUpti_Activity *record)
{
    static const char *const ways[] = {"?", "copy to the device", "copy from the device"};

    if (record->kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) {
        const CUpti_ActivityKernel10 *k = (const void *)record;

        count(k->name, k->start, k->end, 0);
    } else if (record->kind == CUPTI_ACTIVITY_KIND_MEMCPY) {
        const CUpti_ActivityMemcpy6 *c = (const void *)record;

        count(c->copyKind <= 2 ? ways[c->copyKind] : "copy on the device", c->start, c->end, c->bytes);
    } else if (record->kind == CUPTI_ACTIVITY_KIND_MEMSET) {
        const CUpti_ActivityMemset4 *s = (const void *)record;

        count("memset", s->start, s->end, s->bytes);
    }
}

static void CUPTIAPI take_buffer(CUcontext context, uint32_t stream, uint8_t *buffer, size_t size, size_t valid)
{
    CUpti_Activity *record = NULL;

    (void)context;
    (void)stream;
    (void)size;
    while (cuptiActivityGetNextRecord(buffer, valid, &record) == CUPTI_SUCCESS) {
        take_record(record);
    }
    free(buffer);
}

static int by_time(const void *a, const void *b)
{
    uint64_t x = ((const struct kind *)a)->ns;
    uint64_t y = ((const struct kind *)b)->ns;

    return (x < y) - (x > y);
}

static void print_table(void)
{
    const char *path = getenv("TRACE_KERNELS");
    const char *rows = getenv("TRACE_ROWS");
    unsigned n_rows = rows != NULL ? (unsigned)atoi(rows) : 40;
    FILE *f = path != NULL ? fopen(path, "a") : stderr;
    uint64_t sum = 0;
    uint64_t calls = 0;

    (void)cuptiActivityFlushAll(1);
    if (f == NULL || n_kinds == 0) {
        return;
    }
    qsort(kinds, n_kinds, sizeof *kinds, by_time);
    for (unsigned i = 0; i < n_kinds; i++) {
        sum += kinds[i].ns;
        calls += kinds[i].calls;
    }
    fprintf(f, "%" PRIu64 " launches and copies, %.1f ms of work in %.1f ms\n\n", calls, (double)sum / 1e6,
            (double)(last - first) / 1e6);
    fprintf(f, "| kernel | calls | us each | ms | share |\n|---|---:|---:|---:|---:|\n");
    for (unsigned i = 0; i < n_kinds && i < n_rows; i++) {
        fprintf(f, "| %s | %" PRIu64 " | %.2f | %.3f | %.0f %% |\n", kinds[i].name, kinds[i].calls,
                (double)kinds[i].ns / 1e3 / (double)kinds[i].calls, (double)kinds[i].ns / 1e6,
                100.0 * (double)kinds[i].ns / (double)sum);
    }
    fprintf(f, "\n");
    if (f != stderr) {
        (void)fclose(f);
    }
}

/* The driver calls it when it begins. */
int InitializeInjection(void);
int InitializeInjection(void)
{
    if (cuptiActivityRegisterCallbacks(give_buffer, take_buffer) != CUPTI_SUCCESS ||
        cuptiActivityEnable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) != CUPTI_SUCCESS ||
        cuptiActivityEnable(CUPTI_ACTIVITY_KIND_MEMCPY) != CUPTI_SUCCESS ||
        cuptiActivityEnable(CUPTI_ACTIVITY_KIND_MEMSET) != CUPTI_SUCCESS) {
        fprintf(stderr, "trace_kernels: CUPTI does not begin\n");
        return 0;
    }
    (void)atexit(print_table);
    return 1;
}
