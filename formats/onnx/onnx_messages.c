/* onnx_messages.c - bytes of the messages that a writer adds to an ONNX graph: nodes, headers of tensors, inputs.
 * Fields come in the order of their numbers, as other writers have them.
 *
 *     0a ..    node:  0a "w.int8" 0a "w.scale" 12 "w" 1a "w.dequantize" 22 "DequantizeLinear" 2a (axis 0) */

#include "formats/onnx/onnx_sink.h"

/* ---- nodes ---- */

/* The axis of the only dimension behind axis 0 that is longer than 1, which groups run along. */
static unsigned group_axis(const struct vc_out_tensor *out)
{
    unsigned axis = 1;

    for (unsigned d = 1; d < out->n_dims; d++) {
        axis = out->shape[d] != 1 ? d : axis;
    }
    return axis;
}

/* The initializer of the zero points of a main output; NULL: it has none. */
static const char *zero_of(const struct onnx_sink *self, const struct vc_out_tensor *out)
{
    return out->quant->symmetric ? NULL : self->out[vc_quant_find(out->quant, VC_PART_ZERO_POINT)].name;
}

/* DequantizeLinear from codes, scale and zero point to floats, which get the name `to`. */
static void put_dequantize(struct vc_ctx *ctx, const struct onnx_sink *self, size_t main, const char *to,
                           struct vc_text *text)
{
    const struct vc_out_tensor out = vc_out_at(self->outs, main);
    const struct vc_quant *quant = out.quant;
    struct onnx_new_node node = {
        .op = "DequantizeLinear",
        .output = to,
        .inputs = {self->out[main].name, self->out[vc_quant_scale(quant)].name, zero_of(self, &out)},
        .name = out.name,
        .role = ".dequantize"};

    if (quant->granularity != VC_GRANULARITY_TENSOR) {
        node.attrs[0].name = "axis"; /* 0 of blocks, which are groups of a column */
        node.attrs[0].value = quant->granularity == VC_GRANULARITY_CHANNEL ? quant->axis
                              : quant->granularity == VC_GRANULARITY_GROUP ? group_axis(&out)
                                                                           : 0;
    }
    if (quant->granularity == VC_GRANULARITY_GROUP || quant->granularity == VC_GRANULARITY_BLOCK) {
        node.attrs[1].name = "block_size";
        node.attrs[1].value =
            (int64_t)(quant->granularity == VC_GRANULARITY_GROUP ? quant->group_size : quant->group_rows);
    }
    vc_onnx_put_node(ctx, &node, text);
}

/* A Cast to the type with that number. */
static void put_cast(struct vc_ctx *ctx, const char *name, const char *role, const char *input, const char *output,
                     uint32_t type, struct vc_text *text)
{
    vc_onnx_put_node(
        ctx,
        &(struct onnx_new_node){
            .op = "Cast", .output = output, .inputs = {input}, .name = name, .role = role, .attrs = {{"to", type}}},
        text);
}

/* (codes - zero point) * scale, each step in f32: the values of DequantizeLinear, for graphs that are older. */
static void put_product(struct vc_ctx *ctx, const struct onnx_sink *self, size_t main, const char *to,
                        struct vc_text *text)
{
    const struct vc_out_tensor out = vc_out_at(self->outs, main);
    const struct onnx_out *o = &self->out[main];
    const char *zero = zero_of(self, &out);
    const char *scale = self->out[vc_quant_scale(out.quant)].name;

    put_cast(ctx, out.name, ".cast_codes", o->name, o->codes, ONNX_FLOAT, text);
    if (zero != NULL) {
        put_cast(ctx, out.name, ".cast_zero_point", zero, o->zero_point, ONNX_FLOAT, text);
        vc_onnx_put_node(ctx,
                         &(struct onnx_new_node){.op = "Sub",
                                                 .output = o->difference,
                                                 .inputs = {o->codes, o->zero_point},
                                                 .name = out.name,
                                                 .role = ".subtract"},
                         text);
    }
    vc_onnx_put_node(ctx,
                     &(struct onnx_new_node){.op = "Mul",
                                             .output = to,
                                             .inputs = {zero != NULL ? o->difference : o->codes, scale},
                                             .name = out.name,
                                             .role = ".multiply"},
                     text);
}

/* From codes to floats, then to the type that the graph has under that name. */
void vc_onnx_put_nodes(struct vc_ctx *ctx, const struct onnx_sink *self, size_t out, struct vc_text *text)
{
    const struct onnx_out *o = &self->out[out];
    const char *name = vc_onnx_name_in_graph(self, out);

    if (o->nbits) {
        return; /* no node makes floats */
    }
    if (vc_onnx_is_product(self, out)) {
        put_product(ctx, self, out, o->inner != NULL ? o->inner : name, text);
    } else if (vc_onnx_is_quantized(self, out)) {
        put_dequantize(ctx, self, out, o->inner != NULL ? o->inner : name, text);
    }
    if (vc_onnx_is_cast(self, out)) {
        put_cast(ctx, vc_out_at(self->outs, out).name, ".cast", o->inner != NULL ? o->inner : o->name, name,
                 vc_onnx_link_of(self, out)->type, text);
    }
}

/* ---- tensors ---- */

/* The main output that the output is, or a part of. */
static size_t main_of(const struct onnx_sink *self, size_t out)
{
    if (self->out[out].moved && vc_onnx_is_part(self, out)) {
        return self->first_out[self->model->tensors[vc_out_at(self->outs, out).source].part_of];
    }
    while (vc_out_at(self->outs, out).role != VC_PART_CODES) {
        out--;
    }
    return out;
}

/* The shape that a scale or zero point has in ONNX: none for one scale per tensor; [channels], or for Mul
 * [1, .., channels, .., 1]; or the shape of the weights with its last long dimension counted in blocks. Returns the
 * number of dimensions. */
static unsigned part_dims(const struct onnx_sink *self, size_t out, uint64_t *dims)
{
    const struct vc_out_tensor t = vc_out_at(self->outs, out);

    out = main_of(self, out);
    struct vc_out_tensor main = vc_out_at(self->outs, out);
    switch (main.quant->granularity) {
    case VC_GRANULARITY_TENSOR:
        return 0;
    case VC_GRANULARITY_CHANNEL:
        if (vc_onnx_is_product(self, out)) {
            memcpy(dims, t.shape, t.n_dims * sizeof *dims);
            return t.n_dims;
        }
        dims[0] = main.shape[main.quant->axis];
        return 1;
    case VC_GRANULARITY_BLOCK:
        memcpy(dims, t.shape, t.n_dims * sizeof *dims);
        return t.n_dims;
    case VC_GRANULARITY_GROUP:
        break;
    }
    memcpy(dims, main.shape, main.n_dims * sizeof *dims);
    dims[group_axis(&main)] = vc_ceil_div_u64(dims[group_axis(&main)], main.quant->group_size);
    return main.n_dims;
}

/* The shape that an output has in the graph. */
static unsigned dims_of(const struct onnx_sink *self, size_t out, uint64_t *dims)
{
    const struct vc_out_tensor t = vc_out_at(self->outs, out);

    if (self->out[main_of(self, out)].nbits) {
        return vc_onnx_nbits_dims(self, main_of(self, out), out, dims);
    }
    if (t.role != VC_PART_CODES) {
        return part_dims(self, out, dims);
    }
    if (t.n_dims != 0) {
        memcpy(dims, t.shape, t.n_dims * sizeof *dims);
    }
    return t.n_dims;
}

/* The number of its type. */
static uint32_t type_of(const struct onnx_sink *self, size_t out)
{
    if (self->out[out].view.bits == 4) {
        return self->out[main_of(self, out)].nbits ? ONNX_UINT8 : ONNX_INT4;
    }
    return vc_onnx_type_of(vc_out_at(self->outs, out).dtype);
}

void vc_onnx_put_header(const struct onnx_sink *self, size_t out, struct vc_text *text)
{
    uint64_t dims[VC_MAX_DIMS];
    unsigned n_dims = dims_of(self, out, dims);

    for (unsigned d = 0; d < n_dims; d++) {
        vc_wire_put_int(text, ONNX_TENSOR_DIMS, dims[d]);
    }
    vc_wire_put_int(text, ONNX_TENSOR_TYPE, type_of(self, out));
    vc_wire_put_string(text, ONNX_TENSOR_NAME, self->out[out].name);
}

/* One pair of external_data. */
static void put_entry(struct vc_ctx *ctx, struct vc_text *text, const char *key, const char *value)
{
    struct vc_text entry = {.ctx = ctx};

    vc_wire_put_string(&entry, ONNX_ENTRY_KEY, key);
    vc_wire_put_string(&entry, ONNX_ENTRY_VALUE, value);
    vc_onnx_put_message(text, ONNX_TENSOR_EXTERNAL, &entry);
}

void vc_onnx_put_place(struct vc_ctx *ctx, const char *location, uint64_t offset, uint64_t n, struct vc_text *text)
{
    char digits[24];

    put_entry(ctx, text, "location", location);
    (void)snprintf(digits, sizeof digits, "%" PRIu64, offset);
    put_entry(ctx, text, "offset", digits);
    (void)snprintf(digits, sizeof digits, "%" PRIu64, n);
    put_entry(ctx, text, "length", digits);
    vc_wire_put_int(text, ONNX_TENSOR_LOCATION, 1);
}

/* Integers as an initializer: dims only where it is a list, data_type, name, raw_data. */
void vc_onnx_put_constant(struct vc_ctx *ctx, const struct onnx_constant *constant, struct vc_text *text)
{
    size_t n_bytes = vc_dtype_size(vc_onnx_types[constant->type].dtype);
    struct vc_text tensor = {.ctx = ctx};
    char bytes[8];
    size_t i, k;

    if (!constant->scalar) {
        vc_wire_put_int(&tensor, ONNX_TENSOR_DIMS, constant->n);
    }
    vc_wire_put_int(&tensor, ONNX_TENSOR_TYPE, constant->type);
    vc_wire_put_string(&tensor, ONNX_TENSOR_NAME, constant->name);
    vc_wire_put_tag(&tensor, ONNX_TENSOR_RAW, VC_WIRE_BYTES);
    vc_wire_put_varint(&tensor, constant->n * n_bytes);
    for (i = 0; i < constant->n; i++) {
        for (k = 0; k < n_bytes; k++) {
            bytes[k] = (char)(unsigned char)((uint64_t)constant->numbers[i] >> (8 * k));
        }
        vc_text_add_bytes(&tensor, bytes, n_bytes);
    }
    vc_onnx_put_message(text, ONNX_GRAPH_INITIALIZER, &tensor);
}

/* ---- inputs ---- */

/* ValueInfoProto { name, type { tensor_type { elem_type, shape { dim { dim_value or dim_param } ... } } } } */
void vc_onnx_put_value(struct vc_ctx *ctx, uint32_t number, const struct vc_program_value *value, struct vc_text *text)
{
    struct vc_text dim = {.ctx = ctx};
    struct vc_text shape = {.ctx = ctx};
    struct vc_text tensor = {.ctx = ctx};
    struct vc_text type = {.ctx = ctx};
    struct vc_text info = {.ctx = ctx};

    for (unsigned d = 0; d < value->n_dims; d++) {
        if (value->shape[d].name != NULL) {
            vc_wire_put_string(&dim, ONNX_DIM_PARAM, value->shape[d].name);
        } else {
            vc_wire_put_int(&dim, ONNX_DIM_VALUE, (uint64_t)value->shape[d].size);
        }
        vc_onnx_put_message(&shape, ONNX_SHAPE_DIM, &dim);
    }
    vc_wire_put_int(&tensor, ONNX_TYPE_ELEM, vc_onnx_type_of(value->dtype));
    vc_onnx_put_message(&tensor, ONNX_TYPE_SHAPE, &shape);
    vc_onnx_put_message(&type, ONNX_TYPE_TENSOR, &tensor);
    vc_wire_put_string(&info, ONNX_INFO_NAME, value->name);
    vc_onnx_put_message(&info, ONNX_INFO_TYPE, &type);
    vc_onnx_put_message(text, number, &info);
}

/* An input of an old graph for its initializer. */
static void put_info(struct vc_ctx *ctx, const char *name, uint32_t elem, unsigned n_dims, const uint64_t *dims,
                     struct vc_text *text)
{
    struct vc_program_dim shape[VC_MAX_DIMS] = {{.name = NULL}};

    for (unsigned d = 0; d < n_dims; d++) {
        shape[d].size = (int64_t)dims[d];
    }
    vc_onnx_put_value(
        ctx, ONNX_GRAPH_INPUT,
        &(struct vc_program_value){.name = name, .dtype = vc_onnx_dtype(elem), .n_dims = n_dims, .shape = shape}, text);
}

void vc_onnx_put_input(struct vc_ctx *ctx, const struct onnx_sink *self, size_t out, struct vc_text *text)
{
    uint64_t dims[VC_MAX_DIMS];
    unsigned n_dims = dims_of(self, out, dims);

    put_info(ctx, self->out[out].name, type_of(self, out), n_dims, dims, text);
}

void vc_onnx_put_constant_input(struct vc_ctx *ctx, const struct onnx_constant *constant, struct vc_text *text)
{
    uint64_t n = constant->n;

    put_info(ctx, constant->name, constant->type, constant->scalar ? 0 : 1, &n, text);
}
