/* onnx_lex.c - tokens, types and tensors of ONNX's textual form. Nothing here knows what tokens mean; the
 * text need not end with a NUL, and every read is bounded by t->end.
 *
 * There is no list of tokens: the parser (onnx_text.c) says what it expects next, and these functions take
 * it from t->at or refuse it. Spaces and comments before a token are skipped by whoever looks at it first.
 *
 *     take_X      the token is taken, or an error is returned with its line
 *     next_X      looks, and takes nothing
 *     expect_X    as take, for one character
 *
 *     fc1.weight          no word: the point ends it, and such a name stands in quotes
 *     "fc1.weight"        a name
 *     float[batch, 3, ?]  a type
 *     {1, 2.5, -inf}      values
 *
 * What is returned is copied into the arena of the text, since tokens in quotes lose their backslashes and
 * words have no NUL at their end. */
#include <ctype.h>
#include <errno.h>

#include "core/base/array.h"
#include "graph/onnx/onnx_text.h"

/* ---- tokens ---- */

/* The line is counted only now: faults happen once.
 * "line 3: expected ')' at '-> (float y) {'": up to 24 characters of what is there, none of another line. */
enum vc_status vc_onnx_fail_at(const struct vc_onnx_text *t, const char *expected)
{
    size_t line = 1;
    int n = 0;

    for (const char *p = t->start; p < t->at; p++) {
        line += *p == '\n';
    }
    while (n < 24 && t->at + n < t->end && t->at[n] >= ' ') {
        n++;
    }
    return n == 0 ? vc_fail(t->ctx, VC_E_FORMAT, "line %zu: expected %s, and the %s ends there", line, expected,
                            t->at >= t->end ? "text" : "line")
                  : vc_fail(t->ctx, VC_E_FORMAT, "line %zu: expected %s at '%.*s'", line, expected, n, t->at);
}

/* Comments go from # to the end of the line. */
static void skip_space(struct vc_onnx_text *t)
{
    while (t->at < t->end && (isspace((unsigned char)*t->at) || *t->at == '#')) {
        if (*t->at == '#') {
            while (t->at < t->end && *t->at != '\n') {
                t->at++;
            }
        } else {
            t->at++;
        }
    }
}

/* The next character behind spaces and comments; NUL at the end of the text. */
char vc_onnx_peek_char(struct vc_onnx_text *t)
{
    skip_space(t);
    return t->at < t->end ? *t->at : '\0';
}

/* The character comes next, and is taken. */
bool vc_onnx_take_char(struct vc_onnx_text *t, char c)
{
    if (vc_onnx_peek_char(t) != c || t->at >= t->end) {
        return false;
    }
    t->at++;
    return true;
}

/* The message names the character in quotes. */
enum vc_status vc_onnx_expect_char(struct vc_onnx_text *t, char c)
{
    const char what[] = {'\'', c, '\'', '\0'};

    return vc_onnx_take_char(t, c) ? VC_OK : vc_onnx_fail_at(t, what);
}

static bool is_word(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

/* Letters, digits and '_' from here on; 0: there is no word.
 * A digit cannot begin a word. */
size_t vc_onnx_word_length(struct vc_onnx_text *t)
{
    char c = vc_onnx_peek_char(t);
    size_t n = 0;

    if (!isalpha((unsigned char)c) && c != '_') {
        return 0;
    }
    while (t->at + n < t->end && is_word(t->at[n])) {
        n++;
    }
    return n;
}

/* Copies the word; `expected` says in the message what should be there ("an operator"). */
enum vc_status vc_onnx_take_word(struct vc_onnx_text *t, const char *expected, const char **word)
{
    size_t n = vc_onnx_word_length(t);

    VC_RETURN_IF(n == 0, vc_onnx_fail_at(t, expected));
    *word = vc_arena_copy(t->ctx, t->arena, t->at, n);
    t->at += n;
    return *word == NULL ? VC_E_NOMEM : VC_OK;
}

/* The whole next word, and no longer one: "float" is not at "float16". */
bool vc_onnx_next_is_word(struct vc_onnx_text *t, const char *word)
{
    size_t n = vc_onnx_word_length(t);

    return n == strlen(word) && memcmp(t->at, word, n) == 0;
}

/* "..." with \ before a character that is meant as it is.
 * A backslash at the very end takes the loop one behind the end, which is set back for the message. The
 * copy has at most as many bytes as the text in quotes. A string may contain NUL, so that *n is its length. */
enum vc_status vc_onnx_take_string(struct vc_onnx_text *t, const char **string, size_t *n)
{
    const char *from;

    VC_RETURN_IF(vc_onnx_peek_char(t) != '"', vc_onnx_fail_at(t, "a string in quotes"));
    for (from = ++t->at; t->at < t->end && *t->at != '"'; t->at++) {
        t->at += *t->at == '\\';
    }
    if (t->at >= t->end) {
        t->at = t->end;
        return vc_onnx_fail_at(t, "'\"' at the end of a string");
    }
    char *to = vc_arena_alloc(t->ctx, t->arena, (size_t)(t->at - from) + 1);
    VC_CALL_ALLOC(to);
    *string = to;
    while (from < t->at) {
        from += *from == '\\';
        *to++ = *from++;
    }
    *to = '\0';
    t->at++;
    *n = (size_t)(to - *string);
    return VC_OK;
}

/* A name: a word, or anything in quotes. */
enum vc_status vc_onnx_take_name(struct vc_onnx_text *t, const char *expected, const char **name)
{
    size_t n;

    if (vc_onnx_peek_char(t) != '"') {
        return vc_onnx_take_word(t, expected, name);
    }
    VC_CALL(vc_onnx_take_string(t, name, &n));
    VC_RETURN_IF(strlen(*name) != n, vc_onnx_fail_at(t, "a name without NUL before"));
    return VC_OK;
}

/* Copies the token so that strtod sees a NUL. Numbers are decimal: hexadecimal floats and a leading '+' are
 * refused, as in ONNX's parser. "inf" and "nan" are floats.
 * 63 characters are more than any double needs; a longer token fails, because its rest is taken for the
 * next one. strchr finds a NUL in every text, which the last condition excludes. */
enum vc_status vc_onnx_take_number(struct vc_onnx_text *t, bool *is_integer, int64_t *i, double *f)
{
    char text[64];
    size_t n = 0;
    char *end;

    (void)vc_onnx_peek_char(t);
    while (t->at + n < t->end && n < sizeof text - 1 &&
           (isalnum((unsigned char)t->at[n]) || strchr("+-.", t->at[n]) != NULL) && t->at[n] != '\0') {
        text[n] = t->at[n];
        n++;
    }
    text[n] = '\0';
    *is_integer = n != 0 && strspn(text + (*text == '-'), "0123456789") == n - (*text == '-') &&
                  isdigit((unsigned char)text[n - 1]);
    errno = 0;
    *f = strtod(text, &end);
    VC_RETURN_IF(n == 0 || *end != '\0' || strpbrk(text, "xXpP") != NULL || *text == '+',
                 vc_onnx_fail_at(t, "a number"));
    *i = *is_integer ? (int64_t)strtoll(text, NULL, 10) : 0;
    VC_RETURN_IF(*is_integer && errno == ERANGE, vc_onnx_fail_at(t, "an integer of 64 bits"));
    t->at += n;
    return VC_OK;
}

/* An integer of 64 bits. t->at goes back to the number, so that the message shows it. */
enum vc_status vc_onnx_take_integer(struct vc_onnx_text *t, int64_t *i)
{
    bool is_integer;
    double f;
    const char *before = t->at;

    VC_CALL(vc_onnx_take_number(t, &is_integer, i, &f));
    if (!is_integer) {
        t->at = before;
        return vc_onnx_fail_at(t, "an integer");
    }
    return VC_OK;
}

/* Room for one more at the end of a list in the arena; NULL: no memory. `list` is the address of its pointer.
 * Items of a list move when it grows: an address that was returned is valid until the next call for the
 * same list. */
void *vc_onnx_one_more(struct vc_onnx_text *t, void *list, size_t *n, size_t *capacity, size_t size)
{
    char *items;

    if (vc_arena_grow(t->ctx, t->arena, list, capacity, *n + 1, size) != VC_OK) {
        return NULL;
    }
    memcpy(&items, list, sizeof(void *));
    return items + (*n)++ * size;
}

/* ---- types ---- */

/* Those of the parser that can be written with values. */
static const struct {
    const char *name;
    enum vc_dtype dtype;
} types[] = {
    {"float", VC_DTYPE_F32},  {"double", VC_DTYPE_F64}, {"float16", VC_DTYPE_F16},   {"bfloat16", VC_DTYPE_BF16},
    {"int64", VC_DTYPE_I64},  {"int32", VC_DTYPE_I32},  {"int16", VC_DTYPE_I16},     {"int8", VC_DTYPE_I8},
    {"uint64", VC_DTYPE_U64}, {"uint32", VC_DTYPE_U32}, {"uint16", VC_DTYPE_U16},    {"uint8", VC_DTYPE_U8},
    {"bool", VC_DTYPE_BOOL},  {"string", VC_DTYPE_RAW}, {"complex64", VC_DTYPE_RAW}, {"complex128", VC_DTYPE_RAW}};

/* A table of 16 rows is searched in order, which costs nothing beside reading the text. */
bool vc_onnx_next_type(struct vc_onnx_text *t, enum vc_dtype *dtype)
{
    for (size_t k = 0; k < sizeof types / sizeof *types; k++) {
        if (vc_onnx_next_is_word(t, types[k].name)) {
            *dtype = types[k].dtype;
            return true;
        }
    }
    return false;
}

/* float, float[], float[batch, "my size", 3, ?]
 *     float               a number: has_shape, no dimensions
 *     float[]             has_shape is false: any shape
 *     float[batch, 3]     a name and a size; the size of the name is -1
 *     float[?]            a dimension of unknown size
 */
enum vc_status vc_onnx_take_type(struct vc_onnx_text *t, struct vc_program_value *value)
{
    const char *word;
    struct vc_program_dim *dims = NULL;
    size_t n = 0;
    size_t room = 0;

    VC_RETURN_IF(!vc_onnx_next_type(t, &value->dtype), vc_onnx_fail_at(t, "the type of a tensor"));
    VC_CALL(vc_onnx_take_word(t, "a type", &word));
    value->has_shape = true;
    if (!vc_onnx_take_char(t, '[')) {
        return VC_OK;
    }
    value->has_shape = !vc_onnx_take_char(t, ']');
    while (value->has_shape) {
        struct vc_program_dim *dim = VC_ONNX_ADD(t, dims, n, room);

        VC_CALL_ALLOC(dim);
        dim->size = -1;
        if (vc_onnx_peek_char(t) == '"' || vc_onnx_word_length(t) != 0) {
            VC_CALL(vc_onnx_take_name(t, "a dimension", &dim->name));
        } else if (!vc_onnx_take_char(t, '?')) {
            VC_CALL(vc_onnx_take_integer(t, &dim->size));
            dim->size = dim->size < 0 ? -1 : dim->size;
        }
        if (!vc_onnx_take_char(t, ',')) {
            break;
        }
    }
    if (value->has_shape) {
        VC_CALL(vc_onnx_expect_char(t, ']'));
    }
    VC_RETURN_IF(n > UINT32_MAX / 2, vc_onnx_fail_at(t, "fewer dimensions before"));
    value->shape = dims;
    value->n_dims = (unsigned)n;
    return VC_OK;
}

/* ---- values ---- */

/* VC_DTYPE_RAW stands for texts and complex numbers, which are counted and not kept. */
static size_t bytes_of(enum vc_dtype dtype)
{
    return dtype == VC_DTYPE_RAW ? 8 : (size_t)vc_dtype_bytes(dtype, 1);
}

/* One element, little-endian, as it lies in memory. float16 and bfloat16 are written as their bits, as
 * integers.
 * An integer that does not fit the type loses its high bits. */
static void put_element(enum vc_dtype dtype, int64_t i, double f, unsigned char *to)
{
    unsigned char bytes[8];
    uint64_t bits = (uint64_t)i;

    if (dtype == VC_DTYPE_F32) {
        float x = (float)f;
        uint32_t low;

        memcpy(&low, &x, sizeof low);
        bits = low;
    } else if (dtype == VC_DTYPE_F64) {
        memcpy(&bits, &f, sizeof bits);
    }
    vc_put_le64(bytes, bits);
    memcpy(to, bytes, bytes_of(dtype));
}

/* {1, 2.5, ...} of the type and shape, or ["location": "file", ...], whose values are not read.
 * The values are collected in an array of the arena that doubles; the old ones stay in the arena until the
 * text is released. The number of values is compared with the shape at the end. Only small tensors keep
 * their values (VC_PROGRAM_MAX_INLINE); of an empty one the data is any address that is not NULL. */
enum vc_status vc_onnx_take_values(struct vc_onnx_text *t, const struct vc_program_value *type,
                                   struct vc_program_tensor *to)
{
    size_t size = bytes_of(type->dtype);
    uint64_t *shape = vc_arena_alloc(t->ctx, t->arena, (type->n_dims + (size_t)1) * sizeof *shape);
    uint64_t want = 1;
    unsigned char *data = NULL;
    size_t n = 0;
    size_t room = 0;

    VC_CALL_ALLOC(shape);
    for (unsigned d = 0; d < type->n_dims; d++) {
        VC_RETURN_IF(!type->has_shape || type->shape[d].size < 0,
                     vc_onnx_fail_at(t, "dimensions that are numbers before the values"));
        shape[d] = (uint64_t)type->shape[d].size;
        VC_RETURN_IF(!vc_mul_u64(want, shape[d], &want), vc_onnx_fail_at(t, "a smaller tensor before the values"));
    }
    *to = (struct vc_program_tensor){.dtype = type->dtype, .n_dims = type->n_dims, .shape = shape};
    if (vc_onnx_take_char(t, '[')) {
        do {
            const char *s;
            size_t k;

            VC_CALL(vc_onnx_take_string(t, &s, &k));
            VC_CALL(vc_onnx_expect_char(t, ':'));
            VC_CALL(vc_onnx_take_string(t, &s, &k));
        } while (vc_onnx_take_char(t, ','));
        return vc_onnx_expect_char(t, ']');
    }
    VC_CALL(vc_onnx_expect_char(t, '{'));
    while (vc_onnx_peek_char(t) != '}') {
        unsigned char *old = data;
        bool is_integer;
        int64_t i = 0;
        double f = 0;

        if (n == room) {
            room = room == 0 ? 8 : 2 * room;
            VC_CALL_ALLOC(data = vc_arena_alloc(t->ctx, t->arena, room * size));
            if (n != 0) {
                memcpy(data, old, n * size);
            }
        }
        if (type->dtype == VC_DTYPE_RAW) {
            const char *s;
            size_t k;

            if (vc_onnx_peek_char(t) == '"') {
                VC_CALL(vc_onnx_take_string(t, &s, &k));
            } else {
                VC_CALL(vc_onnx_take_number(t, &is_integer, &i, &f));
            }
        } else {
            VC_CALL(vc_onnx_take_number(t, &is_integer, &i, &f));
            VC_RETURN_IF(!is_integer && type->dtype != VC_DTYPE_F32 && type->dtype != VC_DTYPE_F64,
                         vc_onnx_fail_at(t, "an integer before"));
        }
        put_element(type->dtype, i, f, data + n * size);
        n++;
        if (!vc_onnx_take_char(t, ',')) {
            break;
        }
    }
    VC_CALL(vc_onnx_expect_char(t, '}'));
    VC_REFUSE_IF(n != want, t->ctx, VC_E_FORMAT, "a tensor has %zu values, and %" PRIu64 " by its shape", n, want);
    to->n_bytes = n * size;
    to->data = type->dtype == VC_DTYPE_RAW || to->n_bytes > VC_PROGRAM_MAX_INLINE ? NULL
               : data != NULL                                                     ? (void *)data
                                                                                  : (void *)shape;
    return VC_OK;
}
