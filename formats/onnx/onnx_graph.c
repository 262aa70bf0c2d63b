/* onnx_graph.c - walks over the graph of an ONNX file: initializers become tensors, and every name is known afterwards,
 * with how often it is used. Nodes are onnx_nodes.c's. Nothing is kept but what a writer has to change.
 *
 *     GraphProto   1 node   5 initializer   11 input   12 output   14 quantization_annotation   15 sparse_initializer
 *
 * Each graph has a scope (struct onnx_scope) while it is read: its number, its symbols, and the path that names it in
 * sentences. A graph inside a node sees the names of the graphs around it; what it does not define itself is passed on
 * when its scope is closed (onnx_symbols.c). */

#include "core/base/findings.h"
#include "formats/onnx/onnx.h"

#define MAX_DEPTH 32 /* graphs within nodes within graphs */
/* Bytes of a name in the path of a graph, and of a path that goes on: names have up to 65,535. */
#define MAX_STEP 60
#define MAX_PATH 240
/* Tensors that are only carried over are counted for a note from this size on. */
#define LARGE_BYTES 1024

/* ---- tensors that are only carried over ---- */

/* The name is that of a value which the graph being read has. ONNX_NONE: there is no name. */
static void define(struct onnx_reader *r, size_t symbol)
{
    if (symbol != ONNX_NONE) {
        r->self->symbols.list[symbol].defined = true;
    }
}

/* Called for tensors inside nodes and, in old files, in inner graphs. Counts the large ones for a note, and those with
 * values in another file, which the writer cannot take along. named: its name is one of the graph. */
enum vc_status vc_onnx_inner_tensor(struct onnx_reader *r, const struct vc_field *field, bool named)
{
    VC_CALL(vc_wire_expect(&r->wire, field, VC_WIRE_BYTES, "a tensor"));
    r->self->n_inner += field->all.n >= LARGE_BYTES;
    r->self->inner_bytes += field->all.n >= LARGE_BYTES ? field->all.n : 0;
    VC_EACH_FIELD(f, &r->wire, field->data) {
        if (named && f.number == ONNX_TENSOR_NAME) {
            size_t symbol;

            VC_CALL(vc_onnx_symbol_read(r, &f, "the name of a tensor", &symbol));
            define(r, symbol);
        }
        if (f.number == ONNX_TENSOR_LOCATION && f.type == VC_WIRE_VARINT && f.value != 0) {
            r->self->n_inner_external++;
        }
    }
    return VC_OK;
}

/* A SparseTensorProto is two tensors, values and indices; its name is that of the values. */
enum vc_status vc_onnx_inner_sparse(struct onnx_reader *r, const struct vc_field *field, bool named)
{
    VC_CALL(vc_wire_expect(&r->wire, field, VC_WIRE_BYTES, "a sparse tensor"));
    r->self->has_sparse = true;
    VC_EACH_FIELD(f, &r->wire, field->data) {
        if (f.number == ONNX_SPARSE_VALUES || f.number == ONNX_SPARSE_INDICES) {
            VC_CALL(vc_onnx_inner_tensor(r, &f, named && f.number == ONNX_SPARSE_VALUES));
        }
    }
    return VC_OK;
}

/* ---- names of inputs and outputs ---- */

/* The name of a ValueInfoProto. *symbol stays ONNX_NONE where it has none. */
static enum vc_status info_name(struct onnx_reader *r, const struct vc_field *field, size_t *symbol)
{
    *symbol = ONNX_NONE;
    VC_CALL(vc_wire_expect(&r->wire, field, VC_WIRE_BYTES, "an input or output of the graph"));
    VC_EACH_FIELD(f, &r->wire, field->data) {
        if (f.number == ONNX_INFO_NAME) {
            VC_CALL(vc_onnx_symbol_read(r, &f, "the name of an input or output", symbol));
        }
    }
    return VC_OK;
}

/* A TensorAnnotation names a tensor (1) and, in pairs of key and value (2), the tensors that quantize it. Such names
 * are pinned: a pass that renames or removes tensors would break the annotation. */
static enum vc_status take_annotation(struct onnx_reader *r, const struct vc_field *field)
{
    VC_CALL(vc_wire_expect(&r->wire, field, VC_WIRE_BYTES, "an annotation"));
    VC_EACH_FIELD(f, &r->wire, field->data) {
        size_t symbol = ONNX_NONE;
        if (f.number == 1) {
            VC_CALL(vc_onnx_symbol_read(r, &f, "the name in an annotation", &symbol));
        } else if (f.number == 2 && f.type == VC_WIRE_BYTES) {
            VC_EACH_FIELD(entry, &r->wire, f.data) {
                if (entry.number == ONNX_ENTRY_VALUE) {
                    VC_CALL(vc_onnx_symbol_read(r, &entry, "the name in an annotation", &symbol));
                }
                if (symbol != ONNX_NONE) {
                    break;
                }
            }
        }
        if (symbol != ONNX_NONE) {
            r->self->symbols.list[symbol].pinned = true;
        }
    }
    return VC_OK;
}

/* ---- initializers ---- */

/* Looks for the name of a TensorProto first, so that sentences about everything else can begin with it. */
static enum vc_status find_name(struct onnx_reader *r, struct vc_span message, const char **name)
{
    size_t symbol = ONNX_NONE;

    *name = NULL;
    VC_EACH_FIELD(f, &r->wire, message) {
        if (f.number == ONNX_TENSOR_NAME) {
            VC_CALL(vc_onnx_symbol_read(r, &f, "its name", &symbol));
        }
        if (symbol != ONNX_NONE) {
            *name = r->self->symbols.list[symbol].name;
            break;
        }
    }
    return VC_OK;
}

/* A name goes behind the path, cut where it is long; "?" for what is no text. */
static void add_step(const char *name, size_t n, struct vc_text *path)
{
    size_t cut = (size_t)vc_min_u64(n, MAX_STEP);

    while (cut > 0 && cut < n && ((unsigned char)name[cut] & 0xc0) == 0x80) {
        cut--; /* not inside a character */
    }
    if (cut == 0 || strlen(name) != n || !vc_utf8_valid(name, cut)) {
        vc_text_add(path, "/?");
    } else {
        vc_text_add(path, "/%.*s", (int)cut, name);
    }
}

/* The same with a span of the file, or with `instead` where that is empty. */
static enum vc_status add_span(struct onnx_reader *r, struct vc_span span, const char *instead, struct vc_text *path)
{
    size_t n = (size_t)vc_min_u64(span.n, ONNX_MAX_NAME);

    VC_CALL(vc_wire_read(&r->wire, span.at, r->name, n));
    r->name[n] = '\0';
    add_step(n != 0 ? r->name : instead, n != 0 ? n : strlen(instead), path);
    return path->status;
}

/* The path of a graph inside a node: names of nodes and attributes, "If_3/then_branch". A node without a name is called
 * as its first output. Made when the first tensor of the graph needs it. Recursion is as deep as graphs are, MAX_DEPTH
 * at most. */
static enum vc_status make_path(struct onnx_reader *r, struct onnx_scope *scope)
{
    VC_SCOPED_TEXT struct vc_text path = {.ctx = r->ctx};
    const char *around;
    const char *output;

    if (scope->around == NULL || scope->path != NULL) {
        return VC_OK;
    }
    VC_CALL(make_path(r, scope->around));
    output = scope->output != ONNX_NONE ? r->self->symbols.list[scope->output].name : "?";
    around = scope->around->path == NULL ? "" : strlen(scope->around->path) > MAX_PATH ? "..." : scope->around->path;
    vc_text_add(&path, "%s", around);
    VC_CALL(add_span(r, scope->node, output, &path));
    VC_CALL(add_span(r, scope->attribute, "?", &path));
    scope->path = vc_arena_printf(r->ctx, &r->self->arena, "%s", path.data + (around[0] == '\0'));
    VC_CALL_ALLOC(scope->path);
    return VC_OK;
}

/* Parses a TensorProto and adds it to the tensors. constant: the symbol of the Constant node's output, whose name it
 * gets; else ONNX_NONE. With findings, one that is damaged is left out. A double, and an initializer without a name,
 * are refused, or noted and left out. */
static enum vc_status add_tensor(struct onnx_reader *r, const struct vc_field *field, size_t constant)
{
    struct onnx *self = r->self;
    const char *name = constant != ONNX_NONE ? self->symbols.list[constant].name : NULL;
    enum vc_status status;

    VC_CALL(make_path(r, r->scope));
    VC_CALL(VC_GROW(r->ctx, VC_TAG_NAMES, self->tensors, self->tensors_capacity, self->n_tensors + 1));
    struct onnx_tensor *tensor = &self->tensors[self->n_tensors];
    if ((name == NULL && find_name(r, field->data, &name) != VC_OK) ||
        vc_onnx_tensor_parse(r, field->data, tensor) != VC_OK) {
        status = name != NULL
                     ? vc_context(r->ctx, "%s", name)
                     : vc_context(r->ctx, "initializer %zu (at offset %" PRIu64 ")", self->n_tensors, field->all.at);
        return vc_collect_missing(r->ctx, status, "tensor", name);
    }
    if (constant != ONNX_NONE) {
        tensor->symbol = constant;
        tensor->name = name;
    }
    if (tensor->symbol == ONNX_NONE) {
        status = vc_fail(r->ctx, VC_E_FORMAT, "initializer %zu (at offset %" PRIu64 ") has no name", self->n_tensors,
                         field->all.at);
        return vc_collect(r->ctx, status, "name", NULL);
    }
    tensor->field = field->all;
    tensor->graph = r->scope->number;
    tensor->path = r->scope->path;
    define(r, tensor->symbol);
    if (self->symbols.list[tensor->symbol].tensor != ONNX_NONE) {
        status = vc_fail(r->ctx, VC_E_FORMAT, "tensor '%s' occurs twice", tensor->name);
        return vc_collect(r->ctx, status, "duplicate", tensor->name);
    }
    self->symbols.list[tensor->symbol].tensor = self->n_tensors++;
    return VC_OK;
}

/* A field of the graph, whose name is in the message. */
static enum vc_status take_initializer(struct onnx_reader *r, const struct vc_field *field)
{
    VC_CALL(vc_wire_expect(&r->wire, field, VC_WIRE_BYTES, "an initializer"));
    return add_tensor(r, field, ONNX_NONE);
}

/* Texts and types that are not known stay inside their nodes. The last data_type counts, as protobuf has it. */
static enum vc_status is_shown(struct onnx_reader *r, struct vc_span message, bool *yes)
{
    *yes = false;
    VC_EACH_FIELD(f, &r->wire, message) {
        if (f.number == ONNX_TENSOR_TYPE) {
            *yes = vc_onnx_dtype(f.value) != VC_DTYPE_RAW;
        }
    }
    return VC_OK;
}

/* The field of the tensor is the whole node then, which is what the writer replaces. What vc_onnx_inner_tensor counted
 * for it is taken back. */
enum vc_status vc_onnx_constant_scan(struct onnx_reader *r, const struct vc_field *node, const struct vc_field *value,
                                     size_t symbol)
{
    struct onnx *self = r->self;
    size_t n_before = self->n_tensors;
    bool yes = false;

    VC_CALL(is_shown(r, value->data, &yes));
    if (!yes || symbol == ONNX_NONE || self->symbols.list[symbol].tensor != ONNX_NONE ||
        !vc_utf8_valid(self->symbols.list[symbol].name, strlen(self->symbols.list[symbol].name))) {
        return VC_OK;
    }
    VC_CALL(add_tensor(r, value, symbol));
    if (self->n_tensors != n_before) {
        self->tensors[n_before].field = node->all;
        self->tensors[n_before].constant = true;
        self->n_inner_external -= self->tensors[n_before].place == ONNX_PLACE_EXTERNAL;
        self->symbols.list[symbol].n_made--; /* no node makes it: it is there */
        self->n_inner -= value->all.n >= LARGE_BYTES;
        self->inner_bytes -= value->all.n >= LARGE_BYTES ? value->all.n : 0;
    }
    return VC_OK;
}

/* ---- graphs ---- */

/* Before IR version 4 every initializer had to be an input of its graph, and most graphs inside nodes have none. */
bool vc_onnx_has_inner_tensors(const struct onnx *self)
{
    return self->ir_version >= 4;
}

/* A field of a GraphProto. An output of the main graph is read by the program that runs it, as a table. */
static enum vc_status take_field(struct onnx_reader *r, const struct vc_field *field)
{
    struct onnx_symbols *symbols = &r->self->symbols;
    bool main = r->scope->around == NULL;
    size_t symbol = ONNX_NONE;

    switch (field->number) {
    case ONNX_GRAPH_NODE:
        return vc_onnx_node_scan(r, field);
    case ONNX_GRAPH_INITIALIZER:
        return main || (vc_onnx_has_inner_tensors(r->self) && !r->in_function) ? take_initializer(r, field)
                                                                               : vc_onnx_inner_tensor(r, field, true);
    case ONNX_GRAPH_SPARSE:
        return vc_onnx_inner_sparse(r, field, true);
    case ONNX_GRAPH_ANNOTATION:
        return take_annotation(r, field);
    case ONNX_GRAPH_INPUT:
        VC_CALL(info_name(r, field, &symbol));
        define(r, symbol);
        if (symbol != ONNX_NONE) {
            symbols->list[symbol].graph_input = true;
        }
        break;
    case ONNX_GRAPH_OUTPUT:
        VC_CALL(info_name(r, field, &symbol));
        if (symbol != ONNX_NONE) {
            symbols->list[symbol].n_uses++;
            symbols->list[symbol].pinned = true;
            symbols->list[symbol].reads |= main ? ONNX_READ_TABLE : 0;
        }
        break;
    default:
        break;
    }
    return VC_OK;
}

/* Goes over the fields of a graph, the main one or one inside a node. r->scope is put back in any case. */
static enum vc_status scan_graph(struct onnx_reader *r, struct vc_span message, struct onnx_scope *scope)
{
    struct vc_field field;
    enum vc_status status = VC_OK;

    scope->around = r->scope;
    scope->depth = r->scope == NULL ? 0 : r->scope->depth + 1;
    scope->number = r->n_scopes++;
    scope->first_symbol = ONNX_NONE;
    r->scope = scope;
    if (scope->depth > MAX_DEPTH || r->n_scopes == ONNX_ANY) {
        VC_TRY(vc_fail(r->ctx, VC_E_UNSUPPORTED, "has more than %d graphs inside each other", MAX_DEPTH));
    }
    while (message.n != 0) {
        VC_TRY(vc_wire_field(&r->wire, &message, &field));
        VC_TRY(take_field(r, &field));
    }
    if (scope->around != NULL) {
        VC_TRY(vc_onnx_symbols_close(r));
    }
out:
    r->scope = scope->around;
    return status;
}

/* The symbols that the fields of that number name go to `bound`. info: the fields are ValueInfoProtos, as graphs have
 * them; functions have plain names. */
static enum vc_status list_bound(struct onnx_reader *r, struct vc_span message, uint32_t number, bool info, size_t *n)
{
    struct onnx_uses *all = &r->all;

    VC_EACH_FIELD(f, &r->wire, message) {
        if (f.number == number) {
            VC_CALL(VC_GROW(r->ctx, VC_TAG_NAMES, all->bound, all->bound_capacity, all->n_bound + 1));
            if (info) {
                VC_CALL(info_name(r, &f, &all->bound[all->n_bound]));
            } else {
                const char *what =
                    number == ONNX_FUNCTION_INPUT ? "the input of a function" : "the output of a function";

                VC_CALL(vc_onnx_symbol_read(r, &f, what, &all->bound[all->n_bound]));
            }
            all->n_bound++;
            ++*n;
        }
    }
    return VC_OK;
}

/* A graph or a function was read: its inputs and outputs are known to who calls it. hash: of a function's name and
 * domain; 0 for a graph. */
static enum vc_status add_body(struct onnx_reader *r, struct vc_span message, struct onnx_scope *scope, uint64_t hash)
{
    struct onnx_uses *all = &r->all;
    struct onnx_scope *around = r->scope;
    struct onnx_body body = {.hash = hash, .first = all->n_bound, .next = ONNX_NONE};
    enum vc_status status = VC_OK;

    r->scope = scope;
    VC_TRY(list_bound(r, message, hash == 0 ? ONNX_GRAPH_INPUT : ONNX_FUNCTION_INPUT, hash == 0, &body.n_in));
    VC_TRY(list_bound(r, message, hash == 0 ? ONNX_GRAPH_OUTPUT : ONNX_FUNCTION_OUTPUT, hash == 0, &body.n_out));
    VC_TRY(VC_GROW(r->ctx, VC_TAG_NAMES, all->bodies, all->bodies_capacity, all->n_bodies + 1));
    all->bodies[all->n_bodies++] = body;
out:
    r->scope = around;
    return status;
}

/* Kept by their places: the writer takes those with tensors apart, and all where shapes change. */
enum vc_status vc_onnx_subgraph_scan(struct onnx_reader *r, struct vc_span message, struct onnx_scope *scope)
{
    struct onnx *self = r->self;
    size_t n_before = self->n_tensors;

    VC_CALL(scan_graph(r, message, scope));
    VC_CALL(add_body(r, message, scope, 0));
    VC_CALL(VC_GROW(r->ctx, VC_TAG_NAMES, self->graphs, self->graphs_capacity, self->n_graphs + 1));
    self->graphs[self->n_graphs++] =
        (struct onnx_graph){.at = message.at, .number = scope->number, .has_tensors = self->n_tensors != n_before};
    return VC_OK;
}

/* Name and domain are mixed differently, so that they may come in any order and are joined by XOR. */
uint64_t vc_onnx_function_hash(const char *text, bool domain)
{
    return domain ? vc_hash_mix(vc_hash_text(text), 1) : vc_hash_text(text);
}

/* A field of a FunctionProto. */
static enum vc_status take_function(struct onnx_reader *r, const struct vc_field *field, uint64_t *hash)
{
    switch (field->number) {
    case ONNX_FUNCTION_NAME:
        VC_CALL(vc_onnx_string_read(r, field, "the name of a function"));
        *hash ^= vc_onnx_function_hash(r->name, false);
        return VC_OK;
    case ONNX_FUNCTION_DOMAIN:
        VC_CALL(vc_onnx_string_read(r, field, "the domain of a function"));
        *hash ^= vc_onnx_function_hash(r->name, true);
        return VC_OK;
    case ONNX_FUNCTION_NODE:
        return vc_onnx_node_scan(r, field);
    default:
        return VC_OK;
    }
}

/* A function is a scope without a graph around it: its names are its own. */
enum vc_status vc_onnx_function_scan(struct onnx_reader *r, const struct vc_field *field)
{
    struct onnx_scope scope = {.number = r->n_scopes++, .first_symbol = ONNX_NONE, .output = ONNX_NONE};
    struct vc_span rest = field->data;
    uint64_t hash = 0;
    struct vc_field f;
    enum vc_status status = VC_OK;

    VC_CALL(vc_wire_expect(&r->wire, field, VC_WIRE_BYTES, "a function"));
    r->scope = &scope;
    r->in_function = true;
    while (rest.n != 0) {
        VC_TRY(vc_wire_field(&r->wire, &rest, &f));
        VC_TRY(take_function(r, &f, &hash));
    }
    VC_TRY(add_body(r, field->data, &scope, hash == 0 ? 1 : hash));
out:
    r->scope = NULL;
    r->in_function = false;
    return status;
}

/* Writers look graphs up by their place in the file. */
static int compare_places(const void *a, const void *b)
{
    uint64_t x = ((const struct onnx_graph *)a)->at;
    uint64_t y = ((const struct onnx_graph *)b)->at;

    return x < y ? -1 : x > y;
}

uint32_t vc_onnx_graph_number(const struct onnx *self, struct vc_span message)
{
    size_t low;

    VC_BISECT(low, self->n_graphs, k, self->graphs[k].at < message.at);
    return low < self->n_graphs && self->graphs[low].at == message.at ? self->graphs[low].number : ONNX_MAIN;
}

/* The main graph is read like any other. */
enum vc_status vc_onnx_graph_scan(struct onnx_reader *r)
{
    struct onnx_scope main = {.path = NULL};

    VC_CALL(scan_graph(r, r->self->graph, &main));
    if (r->self->n_graphs > 1) {
        qsort(r->self->graphs, r->self->n_graphs, sizeof *r->self->graphs, compare_places);
    }
    return VC_OK;
}
