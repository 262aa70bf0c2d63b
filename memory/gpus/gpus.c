/* gpus.c - the catalogue of GPUs: its rows are CSV, those that are built in (gpus.csv) and those of a file alike.
 *
 *     name,vendor,memory_gb,capability,types      the titles, in any order
 *     RTX 4060,NVIDIA,8,8.9,fp16 bf16 fp8         a row; columns that are absent are empty
 *
 * A row of a file takes the place of a built-in one with the same name. `of` makes a row an instance: a machine with
 * some GPUs of another row. */
#include <errno.h>
#include <string.h>

#include "core/base/array.h"
#include "memory/gpus/gpu_rows.h"

#define MAX_LINE ((size_t)4096)
#define MAX_ROWS ((size_t)65536)
#define MIB      ((uint64_t)1 << 20)
#define GIB      ((uint64_t)1 << 30)

/* Titles in the order of enum gpu_column. */
const char *const vc_gpu_columns[GPU_COLUMNS] = {
    "name",     "aliases",  "vendor",         "architecture", "capability", "memory_gb", "memory_type",
    "nvml_mib", "cuda_mib", "bandwidth_gb_s", "types",        "of",         "note",      "nvlink_gb_s"};

#ifndef VC_GPUS_FOLDER
#define VC_GPUS_FOLDER "memory/gpus/" /* a build by hand starts at the root of the tree */
#endif
VC_EMBED(vc_gpus_built_in, VC_GPUS_FOLDER "gpus.csv");

/* The columns of a file: those it has, in its order. */
struct titles {
    size_t n;
    enum gpu_column of[GPU_COLUMNS];
};

/* ---- one line ---- */

/* Takes a field off the line: up to the next comma, or in quotation marks, which are doubled inside. The field is ended
 * in place. NULL: a quotation mark is missing, or something follows it. */
static char *take_field(char **line, bool *more)
{
    char *from = *line;
    char *to = from;
    char *field = from;

    if (*from != '"') {
        from += strcspn(from, ",");
        to = from;
    } else {
        for (from++; *from != '\0' && (*from != '"' || from[1] == '"'); from++) {
            from += *from == '"';
            *to++ = *from;
        }
        if (*from != '"' || (from[1] != ',' && from[1] != '\0')) {
            return NULL;
        }
        from++;
    }
    *more = *from == ',';
    *line = from + *more;
    *to = '\0';
    return field;
}

/* Fields of one line; n_fields is what there was. */
static enum vc_status split(struct vc_ctx *ctx, char *line, char **fields, size_t room, size_t *n_fields)
{
    bool more = true;

    for (*n_fields = 0; more; (*n_fields)++) {
        char *field = take_field(&line, &more);

        VC_REFUSE_IF(field == NULL, ctx, VC_E_FORMAT, "field %zu: the quotation marks do not match", *n_fields + 1);
        VC_REFUSE_IF(*n_fields == room, ctx, VC_E_FORMAT, "has more than %zu fields", room);
        fields[*n_fields] = field;
    }
    return VC_OK;
}

/* Titles that are unknown or there twice are errors: a typing error in one would lose a column without a word. */
static enum vc_status read_titles(struct vc_ctx *ctx, char *line, struct titles *titles)
{
    char *fields[GPU_COLUMNS];
    unsigned seen = 0;

    VC_CALL(split(ctx, line, fields, GPU_COLUMNS, &titles->n));
    for (size_t k = 0; k < titles->n; k++) {
        size_t column = 0;

        while (column < GPU_COLUMNS && strcmp(fields[k], vc_gpu_columns[column]) != 0) {
            column++;
        }
        VC_REFUSE_IF(column == GPU_COLUMNS || (seen >> column & 1) != 0, ctx, VC_E_FORMAT, "column '%s' is %s",
                     fields[k], column == GPU_COLUMNS ? "none that there is (docs/memory-model.md)" : "there twice");
        titles->of[k] = (enum gpu_column)column;
        seen |= 1U << column;
    }
    VC_REFUSE_IF((seen & 1U << GPU_NAME) == 0 || (seen & (1U << GPU_MEMORY_GB | 1U << GPU_OF)) == 0, ctx, VC_E_FORMAT,
                 "the first line has the titles of the columns, of which 'name' and 'memory_gb' "
                 "(or 'of') are needed");
    return VC_OK;
}

/* "24210", "40442.375", "" for 0: digits, at most 9 and 6. */
static bool read_number(const char *text, double *number)
{
    uint64_t digits = 0;
    double unit = 1;
    size_t n = strspn(text, "0123456789");
    size_t m = text[n] == '.' ? strspn(text + n + 1, "0123456789") : 0;

    if (n > 9 || m > 6 || text[n == 0 ? 0 : n + (m > 0) + m] != '\0' || (n == 0 && *text != '\0')) {
        return false;
    }
    for (; *text != '\0'; text++) {
        if (*text != '.') {
            digits = digits * 10 + (uint64_t)(*text - '0');
        }
    }
    while (m-- > 0) {
        unit *= 10;
    }
    *number = (double)digits / unit;
    return true;
}

/* A number, or 0 for an empty field. */
static enum vc_status take_number(struct vc_ctx *ctx, char *const *fields, enum gpu_column column, double *number)
{
    VC_REFUSE_IF(!read_number(fields[column], number), ctx, VC_E_FORMAT, "%s: '%s' is no number such as 24 or 24576.5",
                 vc_gpu_columns[column], fields[column]);
    return VC_OK;
}

/* "fp16 int8 int4?" */
static enum vc_status take_types(struct vc_ctx *ctx, char *text, struct vc_gpu *gpu)
{
    char *rest = text;

    if (strcmp(text, "?") == 0) {
        gpu->types_unsure = (1U << VC_GPU_TYPES) - 1;
        return VC_OK;
    }
    while (*(rest += strspn(rest, " ")) != '\0') {
        size_t n = strcspn(rest, " ");
        bool unsure = rest[n - 1] == '?';
        unsigned k = 0;

        while (k < VC_GPU_TYPES && (strlen(vc_word(VC_WORDS_GPU_TYPE, k)) != n - unsure ||
                                    strncmp(rest, vc_word(VC_WORDS_GPU_TYPE, k), n - unsure) != 0)) {
            k++;
        }
        VC_REFUSE_IF(k == VC_GPU_TYPES, ctx, VC_E_FORMAT,
                     "types: '%.*s' is unknown; types are fp16, bf16, tf32, int8, int4, fp8, fp4 and 2:4", (int)n,
                     rest);
        *(unsure ? &gpu->types_unsure : &gpu->types) |= 1U << k;
        rest += n;
    }
    return VC_OK;
}

/* Names behind each other, with ';' between them. */
static enum vc_status take_aliases(struct vc_gpus *gpus, const char *text, struct vc_gpu *gpu)
{
    const char **list;
    size_t n = 1;

    for (const char *c = text; *c != '\0'; c++) {
        n += *c == ';';
    }
    VC_CALL_ALLOC(list = vc_arena_alloc(gpus->ctx, &gpus->arena, n * sizeof *list));
    gpu->aliases = list;
    while (*text != '\0') {
        n = strcspn(text, ";");
        VC_CALL_ALLOC(list[gpu->n_aliases] = vc_arena_copy(gpus->ctx, &gpus->arena, text, n));
        gpu->n_aliases += n > 0;
        text += n + (text[n] == ';');
    }
    return VC_OK;
}

/* "8.9" is major 8, minor 9. A GPU needs some memory, of its name, its driver or CUDA; an instance has that of its
 * GPUs. */
static enum vc_status take_numbers(struct vc_gpus *gpus, char *const *fields, struct vc_gpu *gpu)
{
    double capability = 0;
    double mib = 0;

    VC_CALL(take_number(gpus->ctx, fields, GPU_CAPABILITY, &capability));
    gpu->major = (int)capability;
    gpu->minor = (int)(capability * 10 + 0.5) - gpu->major * 10;
    VC_CALL(take_number(gpus->ctx, fields, GPU_MEMORY_GB, &gpu->memory_gb));
    VC_CALL(take_number(gpus->ctx, fields, GPU_NVML_MIB, &mib));
    gpu->driver_bytes = (uint64_t)(mib * (double)MIB);
    VC_CALL(take_number(gpus->ctx, fields, GPU_CUDA_MIB, &mib));
    gpu->cuda_bytes = (uint64_t)(mib * (double)MIB);
    VC_CALL(take_number(gpus->ctx, fields, GPU_BANDWIDTH, &gpu->bandwidth_gb_s));
    VC_CALL(take_number(gpus->ctx, fields, GPU_NVLINK, &gpu->nvlink_gb_s));
    if (gpu->of == NULL && gpu->memory_gb == 0 && gpu->driver_bytes == 0 && gpu->cuda_bytes == 0) {
        return vc_fail(gpus->ctx, VC_E_FORMAT, "'%s' has no memory", gpu->name);
    }
    return VC_OK;
}

/* An instance of a cloud: "Tesla T4:4". */
static enum vc_status take_of(struct vc_gpus *gpus, const char *text, struct vc_gpu *gpu)
{
    const struct vc_gpu *of = NULL;

    if (*text == '\0') {
        return VC_OK;
    }
    if (vc_gpus_find(gpus->ctx, gpus, text, &of, &gpu->count) != VC_OK) {
        return vc_fail(gpus->ctx, VC_E_FORMAT, "of: no row before this row has the GPU '%s'", text);
    }
    gpu->of = of;
    return VC_OK;
}

static enum vc_status take_texts(struct vc_gpus *gpus, char *const *fields, struct vc_gpu *gpu)
{
    static const enum gpu_column columns[] = {GPU_NAME, GPU_VENDOR, GPU_ARCHITECTURE, GPU_MEMORY_TYPE, GPU_NOTE};
    const char **const texts[] = {&gpu->name, &gpu->vendor, &gpu->architecture, &gpu->memory_type, &gpu->note};

    for (size_t k = 0; k < sizeof columns / sizeof columns[0]; k++) {
        const char *text = fields[columns[k]];

        VC_CALL_ALLOC(*texts[k] = vc_arena_copy(gpus->ctx, &gpus->arena, text, strlen(text)));
    }
    return *gpu->name == '\0' ? vc_fail(gpus->ctx, VC_E_FORMAT, "has no name") : VC_OK;
}

/* The address of a row stays, since instances point to it. */
static enum vc_status put_row(struct vc_gpus *gpus, struct vc_gpu *gpu)
{
    struct vc_gpu *before = vc_gpus_row(gpus, gpu->name);

    if (before != NULL && (gpu->of == before || strcmp(before->name, gpu->name) == 0)) {
        VC_REFUSE_IF(gpu->of == before, gpus->ctx, VC_E_FORMAT, "'%s' would consist of itself", gpu->name);
        *before = *gpu; /* instances of it stay its own */
        return VC_OK;
    }
    if (VC_GROW(gpus->ctx, VC_TAG_MISC, gpus->list.rows, gpus->capacity, gpus->list.n + 1) != VC_OK) {
        return VC_E_NOMEM;
    }
    gpus->list.rows[gpus->list.n++] = gpu;
    return VC_OK;
}

/* Aliases come before `of`, which looks rows up by name. */
static enum vc_status add_row(struct vc_gpus *gpus, const struct titles *titles, char *line)
{
    static char empty[] = "";
    char *cells[GPU_COLUMNS];
    char *fields[GPU_COLUMNS];
    struct vc_gpu *gpu;
    size_t n;

    VC_CALL(split(gpus->ctx, line, cells, titles->n, &n));
    for (size_t k = 0; k < GPU_COLUMNS; k++) {
        fields[k] = empty;
    }
    for (size_t k = 0; k < n; k++) {
        fields[titles->of[k]] = cells[k];
    }
    VC_CALL_ALLOC(gpu = vc_arena_alloc(gpus->ctx, &gpus->arena, sizeof *gpu));
    *gpu = (struct vc_gpu){.count = 1};
    VC_CALL(take_texts(gpus, fields, gpu));
    VC_CALL(take_aliases(gpus, fields[GPU_ALIASES], gpu));
    VC_CALL(take_of(gpus, fields[GPU_OF], gpu));
    VC_CALL(take_numbers(gpus, fields, gpu));
    VC_CALL(take_types(gpus->ctx, fields[GPU_TYPE_LIST], gpu));
    return put_row(gpus, gpu);
}

/* ---- all lines ---- */

/* Lines that are empty or begin with '#' say nothing. */
static enum vc_status add_lines(struct vc_gpus *gpus, FILE *file)
{
    struct titles titles = {0};
    char line[MAX_LINE];
    enum vc_status status = VC_OK;
    size_t number = 0;

    while (status == VC_OK && fgets(line, sizeof line, file) != NULL) {
        size_t n = strlen(line);

        number++;
        if (n == sizeof line - 1 && line[n - 1] != '\n') {
            status = vc_fail(gpus->ctx, VC_E_FORMAT, "is longer than %zu bytes", sizeof line - 2);
        } else {
            while (n > 0 && (line[n - 1] == '\n' || line[n - 1] == '\r')) {
                line[--n] = '\0';
            }
            if (n == 0 || line[0] == '#') {
                continue;
            }
            if (number > MAX_ROWS) {
                status = vc_fail(gpus->ctx, VC_E_FORMAT, "is beyond the %zu lines that there may be", MAX_ROWS);
            } else {
                status = titles.n == 0 ? read_titles(gpus->ctx, line, &titles) : add_row(gpus, &titles, line);
            }
        }
    }
    return status == VC_OK ? VC_OK : vc_context(gpus->ctx, "line %zu", number);
}

/* path NULL: the rows that are built in. */
static enum vc_status add_file(struct vc_gpus *gpus, const char *path)
{
    FILE *file = path != NULL ? fopen(path, "rb")
                              : fmemopen((void *)(uintptr_t)vc_gpus_built_in, strlen(vc_gpus_built_in), "rb");
    const char *name = path != NULL ? path : "the catalogue of GPUs";

    if (file == NULL) {
        return vc_fail_errno(gpus->ctx, errno, "%s", name);
    }
    enum vc_status status = add_lines(gpus, file);
    if (status == VC_OK && ferror(file) != 0) {
        status = vc_fail_errno(gpus->ctx, errno, "%s", name);
    } else if (status != VC_OK) {
        status = vc_context(gpus->ctx, "%s", name);
    }
    (void)fclose(file);
    return status;
}

/* What the driver reports, at least, for a card of which only the name is known. The lowest shares of the cards whose
 * figures are known: 0.931 with ECC inside the memory, 0.986 with HBM, whose ECC has bits of its own, 0.995 for games.
 */
static uint64_t driver_bytes_of_name(const struct vc_gpu *gpu)
{
    bool games = strncmp(gpu->name, "GeForce", 7) == 0 || strncmp(gpu->name, "TITAN", 5) == 0;
    double share = games ? 0.99 : strncmp(gpu->memory_type, "HBM", 3) == 0 ? 0.98 : 0.93;

    return (uint64_t)(gpu->memory_gb * share * (double)GIB);
}

/* What the driver keeps of it: 354 to 719 MiB on the cards of which both figures are known. */
static uint64_t kept_bytes(uint64_t driver_bytes)
{
    return driver_bytes < 48 * GIB ? 512 * MIB : 768 * MIB;
}

/* The best source decides: what CUDA reports, else what the driver reports less what it keeps, else what the name
 * says. */
static void set_visible(struct vc_gpu *gpu)
{
    uint64_t driver = gpu->driver_bytes != 0 ? gpu->driver_bytes : driver_bytes_of_name(gpu);
    uint64_t kept = kept_bytes(driver);
    uint64_t seen = driver > kept ? driver - kept : 0;

    gpu->visible_bytes = gpu->cuda_bytes != 0 ? gpu->cuda_bytes : seen;
    gpu->visible_from = gpu->driver_bytes != 0 ? VC_GPU_FROM_DRIVER : VC_GPU_FROM_NAME;
    gpu->visible_from = gpu->cuda_bytes != 0 ? VC_GPU_FROM_CUDA : gpu->visible_from;
}

static void end(void *result)
{
    struct vc_gpus *gpus = result;

    vc_free(gpus->ctx, gpus->list.rows);
    vc_arena_release(gpus->ctx, &gpus->arena);
}

/* The built-in rows first, so that those of the file take their place. */
enum vc_status vc_gpus_open(struct vc_ctx *ctx, const char *path, struct vc_gpus **out)
{
    struct vc_gpus *gpus;
    enum vc_status status;

    vc_clear_error(ctx);
    *out = NULL;
    VC_TRY(VC_RESULT(ctx, VC_TAG_MISC, gpus, end));
    gpus->ctx = ctx;
    VC_TRY(add_file(gpus, NULL));
    if (path != NULL) {
        VC_TRY(add_file(gpus, path));
    }
    for (size_t k = 0; k < gpus->list.n; k++) {
        set_visible(gpus->list.rows[k]);
    }
    *out = gpus;
    return VC_OK;
out:
    vc_result_free(gpus);
    return status;
}
