/* onnx_made.c - the model of an ONNX file that is still to be written: its graph is made in memory, from a program, and
 * read as any other; its weights lie in a data file that is not there, whose bytes come from another model.
 *
 *     program                    bytes of a ModelProto                        read by onnx_read.c
 *     weight 0  [64, 32] bf16    initializer, external_data "weights", 0, 4096
 *     weight 1  [32] f32         initializer, external_data "weights", 4096, 128
 *     a read of "weights" from 4096 + 8 on     elements 2, ... of weight 1: those of the source's tensor
 *
 * Passes and the writer treat the model as a file of this format. */

#include "formats/onnx/onnx_sink.h"

#define IR_VERSION    11 /* the one of opset 23 */
#define LOCATION      "weights"
#define BUFFER_BYTES  ((size_t)32 << 10) /* of the source, that are turned at a time */
#define WASTED_BYTES  8 /* rows are read with all between them where that is less than so many times more */
#define PRODUCER_NAME "vcompress"

/* ---- values ---- */

/* Rows of the source [first, first + n) from its columns [lo, hi) on, side by side in `buffer` with `step` elements
 * from one to the next. */
static enum vc_status read_rows(struct vc_ctx *ctx, const struct vc_model *source, const struct vc_program_weight *w,
                                uint64_t place, uint64_t n, uint64_t columns, unsigned char *buffer, uint64_t *step)
{
    size_t size = vc_dtype_size(w->dtype);
    bool together = n > 1 && w->row_step <= columns * WASTED_BYTES;

    *step = together ? w->row_step : columns;
    if (together) {
        return vc_source_read_any(ctx, source, w->tensor, VC_FORM_VALUES, place * size, buffer,
                                  (size_t)((n - 1) * w->row_step + columns) * size);
    }
    for (uint64_t i = 0; i < n; i++) {
        VC_CALL(vc_source_read_any(ctx, source, w->tensor, VC_FORM_VALUES, (place + i * w->row_step) * size,
                                   buffer + i * columns * size, (size_t)columns * size));
    }
    return VC_OK;
}

/* Elements e .. e + n of a block of a turned weight, [columns, rows]: of source row r the columns from that of the first
 * element on, one less where the row lies before it, up to that of the last. */
static enum vc_status read_turned(struct vc_ctx *ctx, const struct vc_model *source, const struct vc_program_weight *w,
                                  uint64_t base, uint64_t e, uint64_t n, unsigned char *dst)
{
    size_t size = vc_dtype_size(w->dtype);
    unsigned char buffer[BUFFER_BYTES];
    uint64_t most = BUFFER_BYTES / size;
    uint64_t first = e / w->rows;
    uint64_t end = (e + n + w->rows - 1) / w->rows; /* columns */

    for (uint64_t lo = first; lo < end; lo += most) {
        uint64_t columns = vc_min_u64(most, end - lo);
        uint64_t wide = w->row_step <= columns * WASTED_BYTES ? w->row_step : columns;
        uint64_t rows = vc_max_u64(1, vc_min_u64(w->rows, (most - columns) / wide + 1));

        for (uint64_t r = 0; r < w->rows; r += rows) {
            uint64_t some = vc_min_u64(rows, w->rows - r);
            uint64_t step = 0;

            VC_CALL(read_rows(ctx, source, w, base + r * w->row_step + lo, some, columns, buffer, &step));
            for (uint64_t i = 0; i < some; i++) {
                for (uint64_t c = 0; c < columns; c++) {
                    uint64_t at = (lo + c) * w->rows + r + i;

                    if (at >= e && at < e + n) {
                        memcpy(dst + (at - e) * size, buffer + (i * step + c) * size, size);
                    }
                }
            }
        }
    }
    return VC_OK;
}

/* n elements from number e on. */
static enum vc_status read_elements(struct vc_ctx *ctx, const struct vc_model *source,
                                    const struct vc_program_weight *w, uint64_t e, uint64_t n, unsigned char *dst)
{
    size_t size = vc_dtype_size(w->dtype);
    uint64_t in_block = w->rows * w->columns;

    while (n != 0) {
        uint64_t base = w->first + e / in_block * w->block_step;
        uint64_t at = e % in_block;
        uint64_t part = vc_min_u64(n, in_block - at);

        if (w->turned) {
            VC_CALL(read_turned(ctx, source, w, base, at, part, dst));
        } else {
            if (w->row_step != w->columns) { /* rows lie apart */
                part = vc_min_u64(part, w->columns - at % w->columns);
                at = at / w->columns * w->row_step + at % w->columns;
            }
            VC_CALL(vc_source_read_any(ctx, source, w->tensor, VC_FORM_VALUES, (base + at) * size, dst,
                                       (size_t)part * size));
        }
        e += part;
        n -= part;
        dst += part * size;
    }
    return VC_OK;
}

/* onnx_made.read */
static enum vc_status read_data(struct vc_ctx *ctx, const struct onnx_made *made, uint64_t at, unsigned char *dst,
                                size_t n)
{
    unsigned char element[8];
    uint64_t i;

    if (n == 0) {
        return VC_OK;
    }
    VC_BISECT(i, made->n, k, made->at[k] <= at);
    const struct vc_program_weight *w = &made->weights[i - 1];
    uint64_t offset = at - made->at[i - 1];
    size_t size = vc_dtype_size(w->dtype);
    while (n != 0 && (offset % size != 0 || n < size)) { /* parts of an element, at the ends */
        size_t skipped = (size_t)(offset % size);
        size_t part = (size_t)vc_min_u64(n, size - skipped);

        VC_CALL(read_elements(ctx, made->source, w, offset / size, 1, element));
        memcpy(dst, element + skipped, part);
        dst += part;
        offset += part;
        n -= part;
    }
    VC_CALL(read_elements(ctx, made->source, w, offset / size, n / size, dst));
    if (n % size != 0) {
        VC_CALL(read_elements(ctx, made->source, w, (offset + n) / size, 1, element));
        memcpy(dst + n - n % size, element, n % size);
    }
    return VC_OK;
}

/* ---- the bytes of the graph ---- */

/* A TensorProto with its elements. */
static void put_tensor(const struct vc_program_tensor *t, const char *name, struct vc_text *text)
{
    for (unsigned d = 0; d < t->n_dims; d++) {
        vc_wire_put_int(text, ONNX_TENSOR_DIMS, t->shape[d]);
    }
    vc_wire_put_int(text, ONNX_TENSOR_TYPE, vc_onnx_type_of(t->dtype));
    if (name != NULL) {
        vc_wire_put_string(text, ONNX_TENSOR_NAME, name);
    }
    vc_wire_put_bytes(text, ONNX_TENSOR_RAW, t->data, (size_t)t->n_bytes);
}

/* A number of f32, in little-endian order. */
static void put_float(struct vc_text *text, uint32_t number, double f)
{
    float x = (float)f;
    uint32_t bits;

    memcpy(&bits, &x, sizeof bits);
    vc_wire_put_tag(text, number, VC_WIRE_FIXED32);
    vc_text_add_le(text, bits, sizeof bits);
}

/* An AttributeProto: its kinds are those of the records, in ONNX's numbers. */
static void put_attribute(struct vc_ctx *ctx, const struct vc_program_attr *a, struct vc_text *node)
{
    enum { FLOAT = 1, INT, STRING, TENSOR, FLOATS = 6, INTS };
    struct vc_text text = {.ctx = ctx};
    struct vc_text tensor = {.ctx = ctx};
    uint64_t type = 0;

    vc_wire_put_string(&text, ONNX_ATTRIBUTE_NAME, a->name);
    switch (a->kind) {
    case VC_PROGRAM_INT:
        type = INT;
        vc_wire_put_int(&text, ONNX_ATTRIBUTE_I, (uint64_t)a->i);
        break;
    case VC_PROGRAM_FLOAT:
        type = FLOAT;
        put_float(&text, ONNX_ATTRIBUTE_F, a->f);
        break;
    case VC_PROGRAM_STRING:
        type = STRING;
        vc_wire_put_bytes(&text, ONNX_ATTRIBUTE_S, a->s, a->n);
        break;
    case VC_PROGRAM_INTS:
        type = INTS;
        for (size_t k = 0; k < a->n; k++) {
            vc_wire_put_int(&text, ONNX_ATTRIBUTE_INTS, (uint64_t)a->ints[k]);
        }
        break;
    case VC_PROGRAM_FLOATS:
        type = FLOATS;
        for (size_t k = 0; k < a->n; k++) {
            put_float(&text, ONNX_ATTRIBUTE_FLOATS, a->floats[k]);
        }
        break;
    case VC_PROGRAM_TENSOR:
        type = TENSOR;
        put_tensor(a->tensor, NULL, &tensor);
        vc_onnx_put_message(&text, ONNX_ATTRIBUTE_T, &tensor);
        break;
    default:
        text.status = VC_E_INTERNAL;
        break;
    }
    vc_wire_put_int(&text, ONNX_ATTRIBUTE_TYPE, type);
    vc_onnx_put_message(node, ONNX_NODE_ATTRIBUTE, &text);
}

/* Nodes of a program in memory have names and attributes, and no documents. */
static void put_node(struct vc_ctx *ctx, const struct vc_program_node *n, struct vc_text *graph)
{
    struct vc_text text = {.ctx = ctx};

    for (size_t k = 0; k < n->n_inputs; k++) {
        vc_wire_put_string(&text, ONNX_NODE_INPUT, n->inputs[k]);
    }
    for (size_t k = 0; k < n->n_outputs; k++) {
        vc_wire_put_string(&text, ONNX_NODE_OUTPUT, n->outputs[k]);
    }
    if (n->name[0] != '\0') {
        vc_wire_put_string(&text, ONNX_NODE_NAME, n->name);
    }
    vc_wire_put_string(&text, ONNX_NODE_OP, n->op);
    for (size_t k = 0; k < n->n_attrs; k++) {
        put_attribute(ctx, &n->attrs[k], &text);
    }
    vc_onnx_put_message(graph, ONNX_GRAPH_NODE, &text);
}

/* A weight, with its place in the data. */
static void put_weight(struct vc_ctx *ctx, const struct vc_program_weight *w, uint64_t at, uint64_t n,
                       struct vc_text *graph)
{
    struct vc_text text = {.ctx = ctx};

    for (unsigned d = 0; d < w->n_dims; d++) {
        vc_wire_put_int(&text, ONNX_TENSOR_DIMS, w->shape[d]);
    }
    vc_wire_put_int(&text, ONNX_TENSOR_TYPE, vc_onnx_type_of(w->dtype));
    vc_wire_put_string(&text, ONNX_TENSOR_NAME, w->name);
    vc_onnx_put_place(ctx, LOCATION, at, n, &text);
    vc_onnx_put_message(graph, ONNX_GRAPH_INITIALIZER, &text);
}

/* In the order of the fields of GraphProto, as exporters write them. */
static void put_graph(struct vc_ctx *ctx, const struct vc_program *program, const struct onnx_made *made,
                      struct vc_text *graph)
{
    struct vc_text text;

    for (size_t k = 0; k < program->n_nodes; k++) {
        put_node(ctx, &program->nodes[k], graph);
    }
    vc_wire_put_string(graph, ONNX_GRAPH_NAME, PRODUCER_NAME);
    for (size_t k = 0; k < program->n_weights; k++) {
        put_weight(ctx, &program->weights[k], made->at[k], made->at[k + 1] - made->at[k], graph);
    }
    for (size_t k = 0; k < program->n_constants; k++) {
        vc_text_init(&text, ctx);
        put_tensor(program->constants[k].tensor, program->constants[k].name, &text);
        vc_onnx_put_message(graph, ONNX_GRAPH_INITIALIZER, &text);
    }
    for (size_t k = 0; k < program->n_inputs; k++) {
        vc_onnx_put_value(ctx, ONNX_GRAPH_INPUT, &program->inputs[k], graph);
    }
    for (size_t k = 0; k < program->n_outputs; k++) {
        vc_onnx_put_value(ctx, ONNX_GRAPH_OUTPUT, &program->outputs[k], graph);
    }
}

/* The whole file, in memory that the caller frees. */
static enum vc_status make_bytes(struct vc_ctx *ctx, const struct vc_program *program, const struct onnx_made *made,
                                 unsigned char **bytes, uint64_t *n)
{
    struct vc_text text = {.ctx = ctx};
    struct vc_text part;
    enum vc_status status;

    vc_text_init(&part, ctx);
    vc_wire_put_int(&text, ONNX_MODEL_IR_VERSION, IR_VERSION);
    vc_wire_put_string(&text, ONNX_MODEL_PRODUCER, PRODUCER_NAME);
    put_graph(ctx, program, made, &part);
    vc_onnx_put_message(&text, ONNX_MODEL_GRAPH, &part);
    for (size_t k = 0; k < program->n_opsets; k++) {
        vc_text_init(&part, ctx);
        vc_wire_put_string(&part, ONNX_OPSET_DOMAIN, program->opsets[k].domain);
        vc_wire_put_int(&part, ONNX_OPSET_VERSION, (uint64_t)program->opsets[k].version);
        vc_onnx_put_message(&text, ONNX_MODEL_OPSET, &part);
    }
    *n = text.n;
    status = text.status;
    if (status == VC_OK) {
        *bytes = (unsigned char *)text.data;
        text.data = NULL; /* the infile's, which frees it as it frees its own buffers */
    }
    vc_text_release(&text);
    return status;
}

/* ---- open, close ---- */

/* No byte of the data is read as one of a file: onnx_made.read gives them. */
static bool no_bytes(void *user, uint64_t offset, void *dst, size_t n)
{
    return false;
}

/* Copies of the weights, and their places one behind the other; at[n]: the end. */
static enum vc_status take_weights(struct vc_ctx *ctx, const struct vc_program *program, struct onnx *self)
{
    struct onnx_made *made = self->made;
    struct vc_program_weight *weights =
        vc_arena_alloc(ctx, &self->arena, (program->n_weights + 1) * sizeof *made->weights);

    made->at = vc_arena_alloc(ctx, &self->arena, (program->n_weights + 1) * sizeof *made->at);
    VC_CALL_ALLOC(weights);
    VC_CALL_ALLOC(made->at);
    made->weights = weights;
    made->n = program->n_weights;
    made->at[0] = 0;
    for (size_t k = 0; k < made->n; k++) {
        uint64_t n = vc_dtype_size(program->weights[k].dtype);

        weights[k] = program->weights[k];
        weights[k].name = NULL; /* the program's: the graph has them now */
        weights[k].shape = NULL;
        for (unsigned d = 0; d < program->weights[k].n_dims; d++) {
            n *= program->weights[k].shape[d];
        }
        made->at[k + 1] = made->at[k] + n;
    }
    return VC_OK;
}

/* By the names that exporters give inputs and outputs. */
static void take_cache(const struct vc_program *program, struct onnx_cache *cache)
{
    for (size_t k = 0; k < program->n_inputs; k++) {
        const struct vc_program_value *value = &program->inputs[k];

        if (strncmp(value->name, "past_key_values.", 16) == 0 && value->n_dims == 4 &&
            vc_ends_in(value->name, ".key")) {
            cache->n_layers++;
            cache->n_kv_heads = (uint64_t)value->shape[1].size;
            cache->head_size = (uint64_t)value->shape[3].size;
        }
    }
    for (size_t k = 0; k < program->n_nodes; k++) {
        for (size_t i = 0; i < program->nodes[k].n_attrs; i++) {
            if (strcmp(program->nodes[k].attrs[i].name, "q_num_heads") == 0) {
                cache->n_heads = (uint64_t)program->nodes[k].attrs[i].i;
            }
        }
    }
    if (program->n_outputs != 0 && program->outputs[0].n_dims == 3) {
        cache->vocabulary = (uint64_t)program->outputs[0].shape[2].size;
    }
}

/* External 0, under whose name the reader finds it. */
static enum vc_status add_data(struct vc_ctx *ctx, struct onnx *self, const char *path)
{
    const struct vc_reader reader = {.size_bytes = self->made->at[self->made->n], .read = no_bytes};

    if (reader.size_bytes == 0) {
        return VC_OK;
    }
    VC_CALL(VC_GROW(ctx, VC_TAG_NAMES, self->externals, self->externals_capacity, 1));
    VC_CALL(VC_GROW(ctx, VC_TAG_NAMES, self->locations, self->locations_capacity, 1));
    VC_CALL_ALLOC(self->locations[0] = vc_strdup(ctx, VC_TAG_NAMES, LOCATION));
    if (vc_infile_of_reader(ctx, &reader, path, &self->externals[0]) != VC_OK) {
        vc_free(ctx, self->locations[0]);
        return ctx->status;
    }
    self->n_externals = 1;
    return VC_OK;
}

/* `source` is the model's from here on, also after a failure. */
enum vc_status vc_onnx_made_open(struct vc_ctx *ctx, const struct vc_program *program, struct vc_model *source,
                                 struct vc_model *model)
{
    struct onnx *self = vc_calloc_array(ctx, VC_TAG_NAMES, 1, sizeof *self);
    struct vc_infile *file = NULL;
    unsigned char *bytes = NULL;
    uint64_t n = 0;
    enum vc_status status = VC_OK;

    if (self != NULL) {
        self->made = vc_calloc_array(ctx, VC_TAG_NAMES, 1, sizeof *self->made);
    }
    if (self == NULL || self->made == NULL) {
        vc_free(ctx, self);
        vc_model_close(source);
        return VC_E_NOMEM;
    }
    self->made->source = source;
    self->made->read = read_data;
    vc_onnx_own(self, model);
    take_cache(program, &self->made->cache);
    VC_TRY(take_weights(ctx, program, self));
    VC_TRY(add_data(ctx, self, model->path));
    VC_TRY(make_bytes(ctx, program, self->made, &bytes, &n));
    VC_TRY(vc_infile_of_bytes(ctx, bytes, n, model->path, &file));
    status = vc_onnx_read_model(ctx, self, file, model);
out:
    return status;
}
