/* gpu_csv.c - the catalogue of GPUs as CSV, which vc_gpus_open reads. */
#include <string.h>

#include "core/text/text.h"
#include "memory/gpus/gpu_rows.h"

#define MIB ((double)(1 << 20))

/* Behind `before`, with quotes where a comma or a quote is in it. */
static void add_field(struct vc_text *text, const char *before, const char *field)
{
    vc_text_add(text, "%s", before);
    if (strpbrk(field, ",\"") == NULL) {
        vc_text_add_bytes(text, field, strlen(field));
        return;
    }
    vc_text_add_bytes(text, "\"", 1);
    for (; *field != '\0'; field++) {
        vc_text_add_bytes(text, *field == '"' ? "\"\"" : field, *field == '"' ? 2 : 1);
    }
    vc_text_add_bytes(text, "\"", 1);
}

/* Behind a comma, with as many digits behind the point as there are, at most 6; nothing for 0, which is "not known". */
static void add_known(struct vc_text *text, double number)
{
    uint64_t millionths = (uint64_t)(number * 1e6 + 0.5);
    unsigned digits = 6;

    vc_text_add(text, ",");
    if (millionths == 0) {
        return;
    }
    vc_text_add_uint(text, millionths / 1000000);
    for (millionths %= 1000000; millionths != 0 && millionths % 10 == 0; millionths /= 10) {
        digits--;
    }
    if (millionths != 0) {
        vc_text_add(text, ".%0*" PRIu64, (int)digits, millionths);
    }
}

/* "fp16 bf16 fp8?": a '?' behind what is not certain. */
static void add_types(struct vc_text *text, const struct vc_gpu *gpu)
{
    size_t n = text->n;

    for (unsigned k = 0; k < VC_GPU_TYPES; k++) {
        if (((gpu->types | gpu->types_unsure) >> k & 1) != 0) {
            vc_text_add(text, "%s%s%s", text->n == n ? "" : " ", vc_word(VC_WORDS_GPU_TYPE, k),
                        (gpu->types_unsure >> k & 1) != 0 ? "?" : "");
        }
    }
}

/* A row, in the order of vc_gpu_columns. */
static void add_gpu(struct vc_text *text, const struct vc_gpu *gpu)
{
    add_field(text, "", gpu->name);
    vc_text_add(text, ",");
    for (size_t k = 0; k < gpu->n_aliases; k++) {
        add_field(text, k == 0 ? "" : ";", gpu->aliases[k]);
    }
    add_field(text, ",", gpu->vendor);
    add_field(text, ",", gpu->architecture);
    vc_text_add(text, ",");
    if (gpu->major != 0) {
        vc_text_add(text, "%d.%d", gpu->major, gpu->minor);
    }
    add_known(text, gpu->memory_gb);
    add_field(text, ",", gpu->memory_type);
    add_known(text, (double)gpu->driver_bytes / MIB);
    add_known(text, (double)gpu->cuda_bytes / MIB);
    add_known(text, gpu->bandwidth_gb_s);
    vc_text_add(text, ",");
    add_types(text, gpu);
    vc_text_add(text, ",");
    if (gpu->of != NULL) {
        add_field(text, "", gpu->of->name);
        vc_text_add(text, ":%u", gpu->count);
    }
    add_field(text, ",", gpu->note);
    add_known(text, gpu->nvlink_gb_s);
    vc_text_add(text, "\n");
}

/* The titles, then all rows, or those that match. */
enum vc_status vc_gpus_csv(struct vc_ctx *ctx, const struct vc_gpus *gpus, const char *match, char **text)
{
    struct vc_text csv;

    vc_clear_error(ctx);
    vc_text_init(&csv, ctx);
    for (size_t k = 0; k < GPU_COLUMNS; k++) {
        vc_text_add(&csv, "%s%s", k == 0 ? "" : ",", vc_gpu_columns[k]);
    }
    vc_text_add(&csv, "\n");
    for (size_t k = 0; k < gpus->list.n; k++) {
        if (match == NULL || vc_gpu_matches(gpus->list.rows[k], match)) {
            add_gpu(&csv, gpus->list.rows[k]);
        }
    }
    *text = vc_text_detach(&csv);
    return *text != NULL ? VC_OK : csv.status;
}
