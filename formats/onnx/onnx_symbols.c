/* onnx_symbols.c - the names of an ONNX graph, each once, in a hash table; arrays that grow. */
#include <inttypes.h>
#include <string.h>

#include "core/base/checked.h"
#include "formats/onnx/onnx.h"

#define MAX_SYMBOLS ((size_t)1 << 26)

/* `array` points to the pointer of the array, whatever its items are; it is copied with memcpy for that. */
enum vc_status vc_onnx_grow(struct vc_ctx *ctx, void *array, size_t *capacity, size_t n, size_t item_bytes)
{
    size_t more = *capacity == 0 ? 16 : 2 * *capacity;
    void *old;
    void *grown;

    if (n < *capacity) {
        return VC_OK;
    }
    grown = vc_alloc_array(ctx, VC_TAG_NAMES, more, item_bytes);
    if (grown == NULL) {
        return VC_E_NOMEM;
    }
    memcpy(&old, array, sizeof(void *));
    if (n != 0) {
        memcpy(grown, old, n * item_bytes);
    }
    vc_free(ctx, old);
    memcpy(array, &grown, sizeof(void *));
    *capacity = more;
    return VC_OK;
}

/* FNV-1a, with its upper half mixed into the lower one, which is what the table uses. */
static uint64_t hash(const char *name)
{
    uint64_t h = 0xcbf29ce484222325u; /* FNV-1a */

    for (; *name != '\0'; name++) {
        h = (h ^ (unsigned char)*name) * 0x100000001b3u;
    }
    return h ^ h >> 32;
}

/* The slot where the name is, or would be. The table has room. */
static size_t find_slot(const struct onnx_symbols *symbols, const char *name)
{
    size_t mask = symbols->n_slots - 1;
    size_t at = (size_t)hash(name) & mask;

    while (symbols->slots[at] != 0 && strcmp(symbols->list[symbols->slots[at] - 1].name, name) != 0) {
        at = (at + 1) & mask;
    }
    return at;
}

/* Keeps the table at most half full. */
static enum vc_status grow_slots(struct vc_ctx *ctx, struct onnx_symbols *symbols)
{
    size_t n = symbols->n_slots == 0 ? 64 : 2 * symbols->n_slots;
    uint32_t *slots;
    size_t i;

    if (2 * (symbols->n + 1) <= symbols->n_slots) {
        return VC_OK;
    }
    slots = vc_calloc_array(ctx, VC_TAG_NAMES, n, sizeof *slots);
    if (slots == NULL) {
        return VC_E_NOMEM;
    }
    vc_free(ctx, symbols->slots);
    symbols->slots = slots;
    symbols->n_slots = n;
    for (i = 0; i < symbols->n; i++) {
        slots[find_slot(symbols, symbols->list[i].name)] = (uint32_t)(i + 1);
    }
    return VC_OK;
}

size_t vc_onnx_symbol_find(const struct onnx_symbols *symbols, const char *name)
{
    size_t slot = symbols->n_slots == 0 ? 0 : find_slot(symbols, name);

    return symbols->n_slots == 0 || symbols->slots[slot] == 0 ? ONNX_NONE : symbols->slots[slot] - 1;
}

/* A new name, of n bytes and a NUL, which is copied into the arena. */
static enum vc_status add(struct onnx_reader *r, const char *name, size_t n, size_t *symbol)
{
    struct onnx_symbols *symbols = &r->self->symbols;
    enum vc_status status = VC_OK;
    char *copy;

    if (symbols->n == MAX_SYMBOLS) {
        return vc_fail(r->ctx, VC_E_UNSUPPORTED, "its graph has more than %zu names", MAX_SYMBOLS);
    }
    VC_TRY(grow_slots(r->ctx, symbols));
    VC_TRY(vc_onnx_grow(r->ctx, &symbols->list, &symbols->capacity, symbols->n, sizeof *symbols->list));
    copy = vc_arena_alloc(r->ctx, &r->self->arena, n + 1);
    VC_TRY_ALLOC(copy);
    memcpy(copy, name, n + 1);
    symbols->slots[find_slot(symbols, copy)] = (uint32_t)(symbols->n + 1);
    symbols->list[symbols->n] =
        (struct onnx_symbol){.name = copy, .tensor = ONNX_NONE, .cast = ONNX_NONE, .maker = ONNX_NONE};
    *symbol = symbols->n++;
out:
    return status;
}

enum vc_status vc_onnx_string_read(struct onnx_reader *r, const struct vc_field *field, const char *what)
{
    enum vc_status status;

    VC_TRY(vc_wire_expect(&r->wire, field, VC_WIRE_BYTES, what));
    if (field->data.n > ONNX_MAX_NAME) {
        return vc_fail(r->ctx, VC_E_FORMAT, "%s (at offset %" PRIu64 ") has %" PRIu64 " bytes; %zu are allowed", what,
                       field->all.at, field->data.n, ONNX_MAX_NAME);
    }
    VC_TRY(vc_wire_read(&r->wire, field->data.at, r->name, (size_t)field->data.n));
    r->name[field->data.n] = '\0';
    if (memchr(r->name, '\0', (size_t)field->data.n) != NULL) {
        return vc_fail(r->ctx, VC_E_FORMAT, "%s (at offset %" PRIu64 ") has a zero byte in it", what, field->all.at);
    }
out:
    return status;
}

/* A name that was not met before is added: uses may come before what they use. */
enum vc_status vc_onnx_symbol_read(struct onnx_reader *r, const struct vc_field *field, const char *what,
                                   size_t *symbol)
{
    enum vc_status status;

    *symbol = ONNX_NONE;
    VC_TRY(vc_onnx_string_read(r, field, what));
    if (field->data.n == 0) {
        return VC_OK;
    }
    *symbol = vc_onnx_symbol_find(&r->self->symbols, r->name);
    if (*symbol == ONNX_NONE) {
        VC_TRY(add(r, r->name, (size_t)field->data.n, symbol));
    }
out:
    return status;
}
