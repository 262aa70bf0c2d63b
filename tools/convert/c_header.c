/* c_header.c - a checkpoint as a header of C: arrays of values, codes as they are with their scales and zero points beside
 * them, sizes, and a table of all, with a checksum over the bytes. The header is C99 without any library.
 *
 *     #define NET_DATA                          in one file of the program: the arrays themselves
 *     #include "net.h"                          elsewhere without NET_DATA: their declarations
 *
 *     const int8_t net_fc1_weight[65536]        value = net_fc1_weight_scale[row] * code
 *     #define NET_FC1_WEIGHT_DIMS {128, 512}
 *     net_tensors[NET_FC1_WEIGHT].data          the same by a number
 *     net_crc32() == NET_CRC32                  the bytes are those of the file
 *
 * Reads tensors by the public interface, whole and one at a time.
 *
 * The text is made in memory and written at the end, so that a tensor that cannot be written leaves no half of a
 * header. In the order of the header: put_head, put_declaration for each tensor, then under #ifdef NET_DATA put_values,
 * put_row and the checksum (put_end). */
#include "tools/convert/c_header.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#define ALIGNMENT 16
#define PER_LINE  16
#define MOST_DIMS 8

/* ---- types ---- */

/* How elements of a type stand in C. */
struct c_type {
    enum vc_dtype dtype;                              /* of the checkpoint */
    const char *name;                                 /* in C, from stdint.h */
    enum { SIGNED, UNSIGNED, FLOAT32, FLOAT64 } kind; /* how constants are written */
    const char *note;                                 /* for the comment at the declaration */
};

/* A type without a row, such as the 8-bit floats, is refused: C has no constants of it. */
static const struct c_type c_types[] = {
    {VC_DTYPE_I8, "int8_t", SIGNED, ""},
    {VC_DTYPE_U8, "uint8_t", UNSIGNED, ""},
    {VC_DTYPE_BOOL, "uint8_t", UNSIGNED, ", 0 or 1"},
    {VC_DTYPE_I16, "int16_t", SIGNED, ""},
    {VC_DTYPE_U16, "uint16_t", UNSIGNED, ""},
    {VC_DTYPE_F16, "uint16_t", UNSIGNED, ", bits of half-precision floats"},
    {VC_DTYPE_BF16, "uint16_t", UNSIGNED, ", the upper halves of floats"},
    {VC_DTYPE_I32, "int32_t", SIGNED, ""},
    {VC_DTYPE_U32, "uint32_t", UNSIGNED, ""},
    {VC_DTYPE_F32, "float", FLOAT32, ""},
    {VC_DTYPE_I64, "int64_t", SIGNED, ""},
    {VC_DTYPE_U64, "uint64_t", UNSIGNED, ""},
    {VC_DTYPE_F64, "double", FLOAT64, ""},
};

/* NULL: C has no such type. */
static const struct c_type *c_type_of(enum vc_dtype dtype)
{
    for (size_t i = 0; i < sizeof c_types / sizeof *c_types; i++) {
        if (c_types[i].dtype == dtype) {
            return &c_types[i];
        }
    }
    return NULL;
}

/* Whether value = scale * (code - zero point), which is all that the table and the comments can say: not where scales are
 * largest magnitudes (bitsandbytes), are codes themselves, follow no rows, or stand beside other numbers. */
static bool are_scaled(const struct vc_quant *q)
{
    for (unsigned i = 0; i < q->n_parts; i++) {
        enum vc_part_role role = q->parts[i].role;

        if (role != VC_PART_SCALE && role != VC_PART_ZERO_POINT && role != VC_PART_MASK) {
            return false;
        }
    }
    return vc_quant_find(q, VC_PART_SCALE) != VC_NO_TENSOR && q->scale_group == 0 && q->scale_run == 0 &&
           q->offset_rule == VC_OFFSET_NONE;
}

/* ---- names ---- */

/* A header in the making. */
struct writer {
    struct app *app;
    const struct vc_model *model;
    FILE *to;
    char *prefix, *upper; /* owned: "net", "NET" */
    char **names;         /* owned: of each tensor, "fc1_weight" */
    uint64_t alignment, n_bytes;
    uint32_t crc; /* of the values that were written */
};

/* Letters, digits and '_', none of them twice in a row. Owned; NULL: no memory. "model.int8" becomes "model_int8",
 * "0.weight" becomes "x0_weight", and a text without letters and digits "x". */
static char *identifier(const char *text, bool upper)
{
    char *name = malloc(strlen(text) + 3);
    size_t n = 0;

    for (const char *p = text; name != NULL && *p != '\0'; p++) {
        char c = *p;
        bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
        bool digit = c >= '0' && c <= '9';

        if (n == 0 && digit) {
            name[n++] = 'x';
        }
        if (letter || digit) {
            name[n++] = upper && c >= 'a' && c <= 'z' ? (char)(c - 'a' + 'A') : c;
        } else if (n != 0 && name[n - 1] != '_') {
            name[n++] = '_';
        }
    }
    if (name != NULL) {
        n -= n != 0 && name[n - 1] == '_';
        if (n == 0) {
            name[n++] = upper ? 'X' : 'x';
        }
        name[n] = '\0';
    }
    return name;
}

/* Two names differ in more than the case of letters, since macros are in capitals; and the header has names of its own.
 * n: names that tensors have already. "_DIMS" is the end of macros, so that no tensor's name may end so. */
static bool is_taken(const struct writer *w, size_t n, const char *name)
{
    static const char *const own[] = {"tensors", "tensor", "bytes", "crc32", "data", "aligned", "h"};
    size_t length = strlen(name);

    if (length >= 5 && strcasecmp(name + length - 5, "_dims") == 0) {
        return true;
    }
    for (size_t i = 0; i < sizeof own / sizeof *own; i++) {
        if (strcasecmp(own[i], name) == 0) {
            return true;
        }
    }
    for (size_t i = 0; i < n; i++) {
        if (strcasecmp(w->names[i], name) == 0) {
            return true;
        }
    }
    return false;
}

/* "a.b" and "a/b" would both be a_b: the second is a_b_2. False: no memory. 24 bytes more are room for "_" and any
 * number. */
static bool name_tensors(struct writer *w)
{
    size_t n = vc_model_facts(w->model)->n_tensors;

    w->names = calloc(n + 1, sizeof *w->names);
    for (size_t i = 0; w->names != NULL && i < n; i++) {
        char *own = identifier(vc_model_tensor(w->model, i)->name, false);
        size_t room = own != NULL ? strlen(own) + 24 : 0;

        w->names[i] = own != NULL ? malloc(room) : NULL;
        if (w->names[i] == NULL) {
            free(own);
            return false;
        }
        (void)snprintf(w->names[i], room, "%s", own);
        for (size_t k = 2; is_taken(w, i, w->names[i]); k++) {
            (void)snprintf(w->names[i], room, "%s_%zu", own, k);
        }
        free(own);
    }
    return w->names != NULL;
}

/* The prefix made of the output's name: "model_int8" for a/model.int8.h. Owned; NULL: no memory. */
static char *name_of_path(const char *path, bool upper)
{
    const char *slash = strrchr(path, '/');
    char *base = strdup(slash != NULL ? slash + 1 : path);
    char *dot = base != NULL ? strrchr(base, '.') : NULL;

    if (dot != NULL && dot != base) {
        *dot = '\0';
    }
    char *name = base != NULL ? identifier(base, upper) : NULL;
    free(base);
    return name;
}

/* ---- text ---- */

/* A name from the file in a comment or a string: nothing in it ends these, and it holds no trigraph. */
static void put_comment(FILE *to, const char *text)
{
    char *clean = text_clean(text);

    for (const char *p = clean != NULL ? clean : "?"; *p != '\0'; p++) {
        fputc(strchr("*/\\\"?", *p) != NULL || (unsigned char)*p >= 0x80 ? '.' : *p, to);
    }
    free(clean);
}

/* A constant with exactly the value of the element at `at`. Integers: sign extension from their size; 64 bits need the
 * macros of stdint.h. Floats: 9 and 17 significant digits give back every float and double. */
static void put_number(FILE *to, const struct c_type *type, const unsigned char *at)
{
    size_t size = vc_dtype_size(type->dtype);
    uint64_t bits = 0;
    float f;
    double d;

    memcpy(&bits, at, size);
    switch (type->kind) {
    case SIGNED: {
        /* the bits are moved to the top and back: the shift of a signed number repeats the sign */
        unsigned unused = (unsigned)(64 - 8 * size);
        int64_t v = (int64_t)(bits << unused) >> unused;

        if (v == INT64_MIN) { /* no literal has this value */
            fputs("-INT64_C(9223372036854775807) - 1", to);
        } else {
            fprintf(to, size == 8 ? "INT64_C(%" PRId64 ")" : "%" PRId64, v);
        }
        break;
    }
    case UNSIGNED:
        if (size == 8) {
            fprintf(to, "UINT64_C(%" PRIu64 ")", bits);
        } else {
            fprintf(to, size == 4 ? "%" PRIu64 "u" : "%" PRIu64, bits);
        }
        break;
    case FLOAT32:
        memcpy(&f, at, sizeof f);
        fprintf(to, "%.8ef", (double)f);
        break;
    case FLOAT64:
        memcpy(&d, at, sizeof d);
        fprintf(to, "%.16e", d);
        break;
    }
}

/* For types of kind FLOAT32 and FLOAT64. C99 has no portable constant for NaN and Inf without math.h. */
static bool is_finite(const struct c_type *type, const unsigned char *values, uint64_t n)
{
    float f;
    double d;

    for (uint64_t i = 0; i < n; i++) {
        if (type->kind == FLOAT32) {
            memcpy(&f, values + i * sizeof f, sizeof f);
        } else {
            memcpy(&d, values + i * sizeof d, sizeof d);
            f = isfinite(d) ? 0.0f : (float)INFINITY;
        }
        if (!isfinite(f)) {
            return false;
        }
    }
    return true;
}

/* CRC-32 as in zip, PNG and Ethernet. Polynomial 0x04C11DB7, reflected (0xEDB88320); start and end are inverted, so
 * that pieces can be added one by one. */
static uint32_t add_crc(uint32_t crc, const unsigned char *bytes, size_t n)
{
    crc = ~crc;
    for (size_t i = 0; i < n; i++) {
        crc ^= bytes[i];
        for (int k = 0; k < 8; k++) {
            crc = crc >> 1 ^ (UINT32_C(0xEDB88320) & (0u - (crc & 1u)));
        }
    }
    return ~crc;
}

/* The values of a tensor, which may be none: an array of C has one element at least. GO_ON or a status. One tensor at a
 * time is in memory. */
static int put_values(struct writer *w, size_t index)
{
    const struct vc_tensor *t = vc_model_tensor(w->model, index);
    const struct c_type *type = c_type_of(t->dtype);
    size_t size = vc_dtype_size(t->dtype);
    uint64_t n_bytes = t->n_elems * size;
    unsigned char *values = malloc((size_t)n_bytes + 1);
    enum vc_status status;
    int rc = GO_ON;

    if (values == NULL) {
        return app_refuse(w->app, VC_E_NOMEM, "%s: not enough memory for its %" PRIu64 " bytes", t->name, n_bytes);
    }
    status =
        t->n_elems != 0 ? vc_model_read(w->app->ctx, w->model, index, 0, t->n_elems, values, (size_t)n_bytes) : VC_OK;
    if (status != VC_OK) {
        rc = app_fail(w->app, status);
    } else if (type->kind >= FLOAT32 && !is_finite(type, values, t->n_elems)) {
        rc = app_refuse(w->app, VC_E_UNSUPPORTED, "%s: has values that are not finite, for which C has no constants",
                        t->name);
    }
    if (rc == GO_ON) {
        w->crc = add_crc(w->crc, values, (size_t)n_bytes);
        fprintf(w->to, "const %s %s_ALIGNED %s_%s[%" PRIu64 "] = {", type->name, w->upper, w->prefix, w->names[index],
                t->n_elems != 0 ? t->n_elems : 1);
        /* PER_LINE values in a line, commas between all */
        for (uint64_t i = 0; i < t->n_elems; i++) {
            fputs(i % PER_LINE == 0 ? "\n    " : " ", w->to);
            put_number(w->to, type, values + i * size);
            fputs(i + 1 < t->n_elems ? "," : "", w->to);
        }
        fputs(t->n_elems == 0 ? "0};\n" : "\n};\n", w->to);
    }
    free(values);
    return rc;
}

/* ---- the parts of the header ---- */

/* Letters of ASCII alone: the locale does not matter. */
static void put_upper(FILE *to, const char *name)
{
    for (const char *p = name; *p != '\0'; p++) {
        fputc(*p >= 'a' && *p <= 'z' ? *p - 'a' + 'A' : *p, to);
    }
}

/* The macro of a tensor, "NET_FC1_WEIGHT" and then `end`. */
static void put_macro(struct writer *w, size_t index, const char *end)
{
    fprintf(w->to, "%s_", w->upper);
    put_upper(w->to, w->names[index]);
    fputs(end, w->to);
}

/* What the codes (are_scaled) mean: "value = scale[i] * (code - zero_point[i]), i along axis 0". */
static void put_meaning(struct writer *w, const struct vc_tensor *t)
{
    const struct vc_quant *q = t->quant;
    size_t scale = vc_quant_find(q, VC_PART_SCALE);
    size_t zero = vc_quant_find(q, VC_PART_ZERO_POINT);

    fprintf(w->to, ": codes, value = %s_%s[i] * ", w->prefix, w->names[scale]);
    if (zero != VC_NO_TENSOR) {
        fprintf(w->to, "(code - %s_%s[i])", w->prefix, w->names[zero]);
    } else {
        fputs("code", w->to);
    }
    switch (q->granularity) {
    case VC_GRANULARITY_TENSOR:
        fputs(", i = 0", w->to);
        break;
    case VC_GRANULARITY_CHANNEL:
        fprintf(w->to, ", i along axis %u", q->axis);
        break;
    case VC_GRANULARITY_GROUP:
        fprintf(w->to, ", i for each %" PRIu64 " codes of a row, row by row", q->group_size);
        break;
    case VC_GRANULARITY_BLOCK:
        fprintf(w->to, ", i for each block of %" PRIu64 " rows and %" PRIu64 " columns", q->group_rows, q->group_size);
        break;
    }
}

/* The declaration of a tensor, and its sizes.
 *
 *     fc1.weight: i8: codes, value = net_fc1_weight_scale[i] * code, i along axis 0        (as a comment)
 *     extern const int8_t net_fc1_weight[65536];
 *     #define NET_FC1_WEIGHT 3
 *     #define NET_FC1_WEIGHT_DIMS {128, 512} */
static void put_declaration(struct writer *w, size_t index)
{
    const struct vc_tensor *t = vc_model_tensor(w->model, index);
    const struct c_type *type = c_type_of(t->dtype);

    fputs("/* ", w->to);
    put_comment(w->to, t->name);
    fprintf(w->to, ": %s%s", vc_dtype_name(t->dtype), type->note);
    if (t->quant != NULL) {
        put_meaning(w, t);
    }
    fprintf(w->to, " */\nextern const %s %s_%s[%" PRIu64 "];\n#define ", type->name, w->prefix, w->names[index],
            t->n_elems != 0 ? t->n_elems : 1);
    put_macro(w, index, "");
    fprintf(w->to, " %zu\n#define ", index);
    put_macro(w, index, "_DIMS {");
    for (unsigned k = 0; k < t->n_dims; k++) {
        fprintf(w->to, "%s%" PRIu64, k == 0 ? "" : ", ", t->shape[k]);
    }
    fputs(t->n_dims == 0 ? "1}\n" : "}\n", w->to);
}

/* The row of a tensor in the table: {"fc1.weight", net_fc1_weight, 65536u, NET_FC1_WEIGHT_DIMS, 2u, 4, -1, 0}. */
static void put_row(struct writer *w, size_t index)
{
    const struct vc_tensor *t = vc_model_tensor(w->model, index);
    size_t scale = t->quant != NULL ? vc_quant_find(t->quant, VC_PART_SCALE) : VC_NO_TENSOR;
    size_t zero = t->quant != NULL ? vc_quant_find(t->quant, VC_PART_ZERO_POINT) : VC_NO_TENSOR;

    fputs("    {\"", w->to);
    put_comment(w->to, t->name);
    fprintf(w->to, "\", %s_%s, %" PRIu64 "u, ", w->prefix, w->names[index], t->n_elems * vc_dtype_size(t->dtype));
    put_macro(w, index, "_DIMS");
    fprintf(w->to, ", %uu, ", t->n_dims);
    fprintf(w->to, scale != VC_NO_TENSOR ? "%zu, " : "-1, ", scale);
    fprintf(w->to, zero != VC_NO_TENSOR ? "%zu, " : "-1, ", zero);
    fprintf(w->to, t->quant != NULL && t->quant->granularity == VC_GRANULARITY_CHANNEL ? "%u},\n" : "-1},\n",
            t->quant != NULL ? t->quant->axis : 0);
}

/* The comment at the top, the guard, the struct of a row, the declarations of table and checksum. */
static void put_head(struct writer *w)
{
    const char *p = w->prefix;
    const char *u = w->upper;
    size_t n = vc_model_facts(w->model)->n_tensors;

    fprintf(
        w->to,
        "/* vcompress: %zu arrays, %" PRIu64 " bytes. Made by convert --c-header; not edited by hand.\n *\n"
        " * In one file of the program: #define %s_DATA before the include. C99, without a library; little-endian.\n"
        " * %s_crc32() == %s_CRC32 where the bytes in memory are those of the checkpoint. */\n"
        "#ifndef %s_H\n#define %s_H\n\n#include <stddef.h>\n#include <stdint.h>\n\n"
        "#define %s_TENSORS %zu\n#define %s_BYTES %" PRIu64 "u\n\n",
        n, w->n_bytes, u, p, u, u, u, u, n, u, w->n_bytes);
    fprintf(w->to,
            "/* A row for each array, by the number that its macro has. scale, zero_point: rows of the table; -1: "
            "there are\n"
            " * none. axis: of the scales; -1: there is one for all, or one for each group. */\n"
            "struct %s_tensor {\n    const char *name;\n    const void *data;\n    uint32_t n_bytes;\n    uint32_t "
            "dims[%d];\n"
            "    uint32_t n_dims;\n    int32_t scale, zero_point, axis;\n};\n"
            "extern const struct %s_tensor %s_tensors[%zu];\n\nuint32_t %s_crc32(void);\n\n",
            p, MOST_DIMS, p, p, n != 0 ? n : 1, p);
}

/* The function that computes the checksum on the device, bit by bit as add_crc does: a table of 1 KiB would be too much
 * for some microcontrollers. */
static void put_end(struct writer *w)
{
    const char *p = w->prefix;

    fprintf(w->to,
            "\n/* Of all arrays, in the order of the table. */\nuint32_t %s_crc32(void)\n{\n    uint32_t crc = "
            "0xFFFFFFFFu;\n"
            "    size_t i, k;\n    int bit;\n\n    for (i = 0; i < %s_TENSORS; i++) {\n"
            "        const uint8_t *bytes = (const uint8_t *)%s_tensors[i].data;\n\n"
            "        for (k = 0; k < %s_tensors[i].n_bytes; k++) {\n            crc ^= bytes[k];\n"
            "            for (bit = 0; bit < 8; bit++) {\n"
            "                crc = (crc >> 1) ^ (0xEDB88320u & (0u - (crc & 1u)));\n            }\n        }\n    }\n"
            "    return ~crc;\n}\n\n#endif\n\n#define %s_CRC32 0x%08" PRIX32 "u\n\n#endif\n",
            p, w->upper, p, p, w->upper, w->crc);
}

/* Refuses what C cannot hold before anything is written. GO_ON or a status. */
static int put_header(struct writer *w)
{
    size_t n = vc_model_facts(w->model)->n_tensors;

    for (size_t i = 0; i < n; i++) {
        const struct vc_tensor *t = vc_model_tensor(w->model, i);

        if (c_type_of(t->dtype) == NULL) {
            return app_refuse(w->app, VC_E_UNSUPPORTED,
                              "%s: C has no type for %s: a header has int8 and floats (quantize --int8, dequantize)",
                              t->name, vc_dtype_name(t->dtype));
        }
        if (t->quant != NULL && !are_scaled(t->quant)) {
            return app_refuse(w->app, VC_E_UNSUPPORTED,
                              "%s: its codes are not scale * (code - zero point), which is all that a header can say: "
                              "dequantize it first",
                              t->name);
        }
        if (t->n_dims > MOST_DIMS || t->size_bytes > UINT32_MAX) {
            return app_refuse(w->app, VC_E_UNSUPPORTED, "%s: has more than %d axes or 4 GiB", t->name, MOST_DIMS);
        }
        w->n_bytes += t->size_bytes;
    }
    put_head(w);
    for (size_t i = 0; i < n; i++) {
        put_declaration(w, i);
    }
    fprintf(w->to,
            "\n#ifdef %s_DATA\n\n#if defined(__STDC_VERSION__) && __STDC_VERSION__ >= 201112L\n"
            "#define %s_ALIGNED _Alignas(%" PRIu64 ")\n#elif defined(__GNUC__)\n"
            "#define %s_ALIGNED __attribute__((aligned(%" PRIu64 ")))\n#else\n#define %s_ALIGNED\n#endif\n\n",
            w->upper, w->upper, w->alignment, w->upper, w->alignment, w->upper);
    for (size_t i = 0; i < n; i++) {
        GO(put_values(w, i));
    }
    fprintf(w->to, "\nconst struct %s_tensor %s_tensors[%zu] = {\n", w->prefix, w->prefix, n != 0 ? n : 1);
    for (size_t i = 0; i < n; i++) {
        put_row(w, i);
    }
    fprintf(w->to, "%s};\n", n == 0 ? "    {NULL, NULL, 0u, {0}, 0u, -1, -1, -1},\n" : "");
    put_end(w);
    return GO_ON;
}

/* ---- the run ---- */

/* Refuses every option of outputs that a header has no use for: gates, types of files, what is made of folders. GO_ON or a
 * status. */
static int check_others(struct app *app)
{
    static const char *const taken[] = {"output", "force", "force-foreign", "dry-run", "key", "void-as"};
    const struct opt_group *group = &group_write;

    for (size_t i = 0; i < group->n_opts; i++) {
        const char *name = group->opts[i].name;
        bool used = false;

        for (size_t k = 0; k < sizeof(taken) / sizeof(taken[0]); k++) {
            used = used || strcmp(name, taken[k]) == 0;
        }
        if (!used && options_seen(&app->parsed, name)) {
            return app_usage(app, "--c-header writes what the input holds, as text: --%s would change nothing", name);
        }
    }
    return GO_ON;
}

/* Options and the output's name. GO_ON or a status. */
static int check(struct app *app, const struct convert_options *options, const struct c_header_options *header)
{
    const char *path = options->write.path;
    uint64_t alignment = header->alignment;

    if (app->parsed.n_args != 1 || path == NULL || strcmp(path, "-") == 0 || options->n_lists != 0 ||
        options->folder != NULL) {
        return app_usage(app, "--c-header makes one header of one INPUT: it needs -o FILE.h");
    }
    if (options->write.format != NULL || options->write.layout != NULL || options->write.max_shard_bytes != 0) {
        return app_usage(
            app, "--c-header is a format of its own: it does not go with --format, --layout and --max-shard-size");
    }
    if (app->json.on || app->json.html != NULL || app->json.markdown != NULL) {
        return app_usage(app, "--c-header has no report: it does not go with --json, --html and --markdown");
    }
    GO(check_others(app));
    if (vc_format_of_name(path) != NULL) {
        return app_usage(app, "-o %s: is the name of a %s file, and --c-header writes text: it needs -o FILE.h", path,
                         vc_format_of_name(path));
    }
    /* _Alignas takes powers of two */
    if (alignment != 0 && ((alignment & (alignment - 1)) != 0 || alignment > 4096)) {
        return app_usage(app, "--c-align: %" PRIu64 " is no power of two up to 4096", alignment);
    }
    if (!options->write.force && access(path, F_OK) == 0) {
        return app_refuse(app, VC_E_IO, "%s: exists; --force replaces it", path);
    }
    return GO_ON;
}

/* Accepts a writer that was filled in part. */
static void release(struct writer *w)
{
    for (size_t i = 0; w->names != NULL && i < vc_model_facts(w->model)->n_tensors; i++) {
        free(w->names[i]);
    }
    free(w->names);
    free(w->prefix);
    free(w->upper);
}

/* Makes the text, writes it unless --dry-run, prints a line. Returns the exit status. */
static int write_model(struct app *app, const struct convert_options *options, const struct c_header_options *header,
                       const struct vc_model *model)
{
    const char *path = options->write.path;
    const char *given = header->prefix;
    struct writer w = {.app = app, .model = model, .alignment = header->alignment != 0 ? header->alignment : ALIGNMENT};
    char *text = NULL;
    size_t n = 0;
    int rc;

    w.prefix = given != NULL ? identifier(given, false) : name_of_path(path, false);
    w.upper = given != NULL ? identifier(given, true) : name_of_path(path, true);
    w.to = open_memstream(&text, &n);
    if (w.prefix == NULL || w.upper == NULL || w.to == NULL || !name_tensors(&w)) {
        rc = app_refuse(app, VC_E_NOMEM, "no memory for the header");
    } else {
        rc = put_header(&w);
    }
    if (w.to != NULL && (ferror(w.to) | fclose(w.to)) && rc == GO_ON) {
        rc = app_refuse(app, VC_E_NOMEM, "no memory for the header");
    }
    if (rc == GO_ON && !options->write.dry_run) {
        rc = header_write(app, path, text);
    }
    if (rc == GO_ON && !app->common.quiet) {
        fprintf(app->out.to, "%s %s: %zu arrays, %s of values, checksum %08" PRIX32 "\n",
                options->write.dry_run ? "would write" : "wrote", path, vc_model_facts(model)->n_tensors,
                fmt_size(CELL, &app->out, w.n_bytes), w.crc);
    }
    free(text);
    release(&w);
    return rc == GO_ON ? EXIT_YES : rc;
}

int c_header_run(struct app *app, struct convert_options *options, const struct c_header_options *header)
{
    struct vc_model *model = NULL;

    GO(check(app, options, header));
    app->output = options->write.path;
    GO(app_open(app));
    app->subject = app->parsed.args[0];
    enum vc_status status = vc_model_open(app->ctx, app->subject, &options->open, &model);
    int rc = status == VC_OK ? check_key(app, model, options->open.key) : app_fail(app, status);
    rc = rc == GO_ON ? write_model(app, options, header, model) : rc;
    vc_model_close(model);
    return rc;
}
