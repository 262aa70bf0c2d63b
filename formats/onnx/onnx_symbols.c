/* onnx_symbols.c - the names of ONNX graphs, each once per graph, in a hash table.
 *
 *     main graph: w, x, y          If.then_branch: w of its own, x meant of the main graph      ANY: w, x
 *
 * A symbol is a name in one graph. Graph numbers: ONNX_MAIN, one for each graph inside a node, and ONNX_ANY, under
 * which each name of an inner graph is once, so that texts are shared and a new name can be tested against all graphs
 * at once. `outer` leads from a name that an inner graph only uses to the symbol that is meant. */

#include "formats/onnx/onnx.h"

#define MAX_SYMBOLS ((size_t)1 << 26)

/* With the seed of this run: a file cannot choose names that collide. */
static uint64_t hash(uint32_t graph, const char *name)
{
    return vc_hash_bytes(vc_hash_seed() ^ graph, name, strlen(name));
}

/* For vc_hash_grow, which places all symbols anew. */
static uint64_t hash_of(const void *user, size_t number)
{
    const struct onnx_symbols *symbols = user;

    return hash(symbols->list[number].graph, symbols->list[number].name);
}

/* What vc_hash_find looks for; is_same compares. */
struct key {
    const struct onnx_symbols *symbols;
    uint32_t graph;
    const char *name;
};

static bool is_same(const void *user, size_t number)
{
    const struct key *key = user;
    const struct onnx_symbol *there = &key->symbols->list[number];

    return there->graph == key->graph && strcmp(there->name, key->name) == 0;
}

size_t vc_onnx_symbol_find(const struct onnx_symbols *symbols, uint32_t graph, const char *name)
{
    const struct key key = {symbols, graph, name};

    return vc_hash_find(&symbols->by_name, hash(graph, name), is_same, &key); /* SIZE_MAX is ONNX_NONE */
}

/* A new symbol; the name is the arena's. All its links begin as ONNX_NONE. */
static enum vc_status add(struct onnx_reader *r, uint32_t graph, const char *name, size_t *symbol)
{
    struct onnx_symbols *symbols = &r->self->symbols;

    VC_REFUSE_IF(symbols->n == MAX_SYMBOLS, r->ctx, VC_E_UNSUPPORTED, "its graph has more than %zu names", MAX_SYMBOLS);
    VC_CALL(vc_hash_grow(r->ctx, &symbols->by_name, symbols->n, hash_of, symbols));
    VC_CALL(VC_GROW(r->ctx, VC_TAG_NAMES, symbols->list, symbols->capacity, symbols->n + 1));
    vc_hash_add(&symbols->by_name, hash(graph, name), symbols->n);
    symbols->list[symbols->n] = (struct onnx_symbol){.name = name,
                                                     .graph = graph,
                                                     .next = ONNX_NONE,
                                                     .outer = ONNX_NONE,
                                                     .tensor = ONNX_NONE,
                                                     .cast = ONNX_NONE,
                                                     .maker = ONNX_NONE,
                                                     .factor_of = ONNX_NONE,
                                                     .turns = ONNX_NONE};
    *symbol = symbols->n++;
    return VC_OK;
}

enum vc_status vc_onnx_symbol_add(struct onnx_reader *r, const char *name, size_t *symbol)
{
    return add(r, ONNX_MAIN, name, symbol);
}

/* The symbol of that name in the graph being read or in one around it, made where there is none. name: the arena's. New
 * symbols are chained in the scope, for vc_onnx_symbols_close. */
static enum vc_status find_or_add(struct onnx_reader *r, struct onnx_scope *scope, const char *name, size_t *symbol)
{
    struct onnx_symbols *symbols = &r->self->symbols;
    size_t any;

    *symbol = vc_onnx_symbol_find(symbols, scope->number, name);
    if (*symbol != ONNX_NONE) {
        return VC_OK;
    }
    VC_CALL(add(r, scope->number, name, symbol));
    symbols->list[*symbol].next = scope->first_symbol;
    scope->first_symbol = *symbol;
    if (scope->number != ONNX_MAIN && vc_onnx_symbol_find(symbols, ONNX_ANY, name) == ONNX_NONE) {
        VC_CALL(add(r, ONNX_ANY, name, &any));
    }
    return VC_OK;
}

/* What a graph inside a node says of a name that it does not make goes to the graph around it. Pointers into the list
 * are taken after find_or_add, which may move it. */
static enum vc_status pass_on(struct onnx_reader *r, size_t inner)
{
    struct onnx_symbols *symbols = &r->self->symbols;
    size_t outer;

    VC_CALL(find_or_add(r, r->scope->around, symbols->list[inner].name, &outer));
    symbols->list[inner].outer = outer;
    const struct onnx_symbol *from = &symbols->list[inner];
    struct onnx_symbol *to = &symbols->list[outer];
    to->n_uses += from->n_uses;
    to->pinned |= from->pinned;
    return VC_OK;
}

enum vc_status vc_onnx_symbols_close(struct onnx_reader *r)
{
    for (size_t symbol = r->scope->first_symbol; symbol != ONNX_NONE; symbol = r->self->symbols.list[symbol].next) {
        if (!r->self->symbols.list[symbol].defined) {
            VC_CALL(pass_on(r, symbol));
        }
    }
    return VC_OK;
}

/* Through all graphs around, to where it is defined or used last. */
size_t vc_onnx_symbol_meant(const struct onnx_symbols *symbols, size_t symbol)
{
    while (symbol != ONNX_NONE && symbols->list[symbol].outer != ONNX_NONE) {
        symbol = symbols->list[symbol].outer;
    }
    return symbol;
}

size_t vc_onnx_symbol_in(const struct onnx_symbols *symbols, uint32_t graph, const char *name)
{
    return vc_onnx_symbol_meant(symbols, vc_onnx_symbol_find(symbols, graph, name));
}

size_t vc_onnx_symbol_named(const struct onnx_symbols *symbols, const char *name)
{
    size_t found = vc_onnx_symbol_find(symbols, ONNX_MAIN, name);

    if (found != ONNX_NONE || vc_onnx_symbol_find(symbols, ONNX_ANY, name) == ONNX_NONE) {
        return found;
    }
    for (size_t i = 0; i < symbols->n; i++) {
        const struct onnx_symbol *s = &symbols->list[i];

        if (s->graph != ONNX_ANY && s->outer == ONNX_NONE && strcmp(s->name, name) == 0) {
            if (found != ONNX_NONE) {
                return ONNX_NONE;
            }
            found = i;
        }
    }
    return found;
}

/* The text is in r->name until the next one is read. */
enum vc_status vc_onnx_string_read(struct onnx_reader *r, const struct vc_field *field, const char *what)
{
    VC_CALL(vc_wire_expect(&r->wire, field, VC_WIRE_BYTES, what));
    VC_REFUSE_IF(field->data.n > ONNX_MAX_NAME, r->ctx, VC_E_FORMAT,
                 "%s (at offset %" PRIu64 ") has %" PRIu64 " bytes; %zu are allowed", what, field->all.at,
                 field->data.n, ONNX_MAX_NAME);
    VC_CALL(vc_wire_read(&r->wire, field->data.at, r->name, (size_t)field->data.n));
    r->name[field->data.n] = '\0';
    VC_REFUSE_IF(memchr(r->name, '\0', (size_t)field->data.n) != NULL, r->ctx, VC_E_FORMAT,
                 "%s (at offset %" PRIu64 ") has a zero byte in it", what, field->all.at);
    return VC_OK;
}

/* A name that was not met before is added: uses may come before what they use. An empty name means no value: *symbol is
 * ONNX_NONE. */
enum vc_status vc_onnx_symbol_read(struct onnx_reader *r, const struct vc_field *field, const char *what,
                                   size_t *symbol)
{
    const struct onnx_symbols *symbols = &r->self->symbols;

    *symbol = ONNX_NONE;
    VC_CALL(vc_onnx_string_read(r, field, what));
    if (field->data.n == 0) {
        return VC_OK;
    }
    *symbol = vc_onnx_symbol_find(symbols, r->scope->number, r->name);
    if (*symbol != ONNX_NONE) {
        return VC_OK;
    }
    size_t known = vc_onnx_symbol_find(symbols, ONNX_ANY, r->name);
    if (known != ONNX_NONE) {
        return find_or_add(r, r->scope, symbols->list[known].name, symbol);
    }
    char *copy = vc_arena_alloc(r->ctx, &r->self->arena, (size_t)field->data.n + 1);
    VC_CALL_ALLOC(copy);
    memcpy(copy, r->name, (size_t)field->data.n + 1);
    return find_or_add(r, r->scope, copy, symbol);
}
