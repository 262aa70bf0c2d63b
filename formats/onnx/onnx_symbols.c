/* onnx_symbols.c - the names of ONNX graphs, each once per graph, in a hash table; arrays that grow.
 *
 *     main graph: w, x, y          If.then_branch: w of its own, x meant of the main graph      ANY: w, x */
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
static uint64_t hash(uint32_t graph, const char *name)
{
    uint64_t h = 0xcbf29ce484222325u ^ (uint64_t)graph * 0x9e3779b97f4a7c15u; /* FNV-1a */

    for (; *name != '\0'; name++) {
        h = (h ^ (unsigned char)*name) * 0x100000001b3u;
    }
    return h ^ h >> 32;
}

/* The slot where the name is, or would be. The table has room. */
static size_t find_slot(const struct onnx_symbols *symbols, uint32_t graph, const char *name)
{
    size_t mask = symbols->n_slots - 1;
    size_t at = (size_t)hash(graph, name) & mask;

    while (symbols->slots[at] != 0 && (symbols->list[symbols->slots[at] - 1].graph != graph ||
                                       strcmp(symbols->list[symbols->slots[at] - 1].name, name) != 0)) {
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
        slots[find_slot(symbols, symbols->list[i].graph, symbols->list[i].name)] = (uint32_t)(i + 1);
    }
    return VC_OK;
}

size_t vc_onnx_symbol_find(const struct onnx_symbols *symbols, uint32_t graph, const char *name)
{
    size_t slot = symbols->n_slots == 0 ? 0 : find_slot(symbols, graph, name);

    return symbols->n_slots == 0 || symbols->slots[slot] == 0 ? ONNX_NONE : symbols->slots[slot] - 1;
}

/* A new symbol; the name is the arena's. */
static enum vc_status add(struct onnx_reader *r, uint32_t graph, const char *name, size_t *symbol)
{
    struct onnx_symbols *symbols = &r->self->symbols;
    enum vc_status status = VC_OK;

    if (symbols->n == MAX_SYMBOLS) {
        return vc_fail(r->ctx, VC_E_UNSUPPORTED, "its graph has more than %zu names", MAX_SYMBOLS);
    }
    VC_TRY(grow_slots(r->ctx, symbols));
    VC_TRY(vc_onnx_grow(r->ctx, &symbols->list, &symbols->capacity, symbols->n, sizeof *symbols->list));
    symbols->slots[find_slot(symbols, graph, name)] = (uint32_t)(symbols->n + 1);
    symbols->list[symbols->n] = (struct onnx_symbol){.name = name,
                                                     .graph = graph,
                                                     .next = ONNX_NONE,
                                                     .outer = ONNX_NONE,
                                                     .tensor = ONNX_NONE,
                                                     .cast = ONNX_NONE,
                                                     .maker = ONNX_NONE};
    *symbol = symbols->n++;
out:
    return status;
}

/* The symbol of that name in the graph being read or in one around it, made where there is none. name: the arena's. */
static enum vc_status find_or_add(struct onnx_reader *r, struct onnx_scope *scope, const char *name, size_t *symbol)
{
    struct onnx_symbols *symbols = &r->self->symbols;
    size_t any;
    enum vc_status status = VC_OK;

    *symbol = vc_onnx_symbol_find(symbols, scope->number, name);
    if (*symbol != ONNX_NONE) {
        return VC_OK;
    }
    VC_TRY(add(r, scope->number, name, symbol));
    symbols->list[*symbol].next = scope->first_symbol;
    scope->first_symbol = *symbol;
    if (scope->number != ONNX_MAIN && vc_onnx_symbol_find(symbols, ONNX_ANY, name) == ONNX_NONE) {
        VC_TRY(add(r, ONNX_ANY, name, &any));
    }
out:
    return status;
}

/* What a graph inside a node says of a name that it does not make goes to the graph around it. */
static enum vc_status pass_on(struct onnx_reader *r, size_t inner)
{
    struct onnx_symbols *symbols = &r->self->symbols;
    const struct onnx_symbol *from;
    struct onnx_symbol *to;
    size_t outer;
    enum vc_status status;

    VC_TRY(find_or_add(r, r->scope->around, symbols->list[inner].name, &outer));
    symbols->list[inner].outer = outer;
    from = &symbols->list[inner];
    to = &symbols->list[outer];
    to->n_uses += from->n_uses;
    to->axes |= from->axes;
    to->inputs |= from->inputs;
    to->pinned |= from->pinned;
    to->for_codes |= from->for_codes;
    to->n_beside += from->n_beside;
    to->beside = from->beside != NULL ? from->beside : to->beside;
out:
    return status;
}

enum vc_status vc_onnx_symbols_close(struct onnx_reader *r)
{
    enum vc_status status = VC_OK;
    size_t symbol;

    for (symbol = r->scope->first_symbol; symbol != ONNX_NONE; symbol = r->self->symbols.list[symbol].next) {
        if (!r->self->symbols.list[symbol].defined) {
            VC_TRY(pass_on(r, symbol));
        }
    }
out:
    return status;
}

size_t vc_onnx_symbol_meant(const struct onnx_symbols *symbols, size_t symbol)
{
    while (symbol != ONNX_NONE && symbols->list[symbol].outer != ONNX_NONE) {
        symbol = symbols->list[symbol].outer;
    }
    return symbol;
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
    const struct onnx_symbols *symbols = &r->self->symbols;
    size_t known;
    char *copy;
    enum vc_status status;

    *symbol = ONNX_NONE;
    VC_TRY(vc_onnx_string_read(r, field, what));
    if (field->data.n == 0) {
        return VC_OK;
    }
    *symbol = vc_onnx_symbol_find(symbols, r->scope->number, r->name);
    if (*symbol != ONNX_NONE) {
        return VC_OK;
    }
    known = vc_onnx_symbol_find(symbols, ONNX_ANY, r->name);
    if (known != ONNX_NONE) {
        return find_or_add(r, r->scope, symbols->list[known].name, symbol);
    }
    copy = vc_arena_alloc(r->ctx, &r->self->arena, (size_t)field->data.n + 1);
    VC_TRY_ALLOC(copy);
    memcpy(copy, r->name, (size_t)field->data.n + 1);
    VC_TRY(find_or_add(r, r->scope, copy, symbol));
out:
    return status;
}
