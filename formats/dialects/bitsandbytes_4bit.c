/* bitsandbytes_4bit.c - the 4 bits of bitsandbytes (NF4 and FP4), as transformers stores them:
 *
 *     m.weight            U8  [out * in / 2, 1]   two codes a byte, the first in the high half
 *     m.weight.absmax     F32 [out * in / block]  the scale of each block of the rows one after the other
 *     m.weight.quant_map  F32 [16]                the values of the codes
 *     m.weight.quant_state.bitsandbytes__nf4   U8, a text: {"quant_type": "nf4", "blocksize": 64, "dtype": "bfloat16",
 *                                              "shape": [out, in]}
 *
 * With double quantization scales are codes: absmax U8, whose value is
 * nested_quant_map[absmax] * nested_absmax[i / nested_blocksize] + nested_offset. The map of bitsandbytes has both
 * signs around an offset, the mean; we write the map from 0 to 1, as fine, and no offset.
 *
 *     m.weight.nested_absmax     F32 [blocks / 256]
 *     m.weight.nested_quant_map  F32 [256]          and in the text "nested_blocksize", "nested_dtype", "nested_offset"
 *
 *     "quantization_config": {"quant_method": "bitsandbytes", "load_in_4bit": true, "bnb_4bit_quant_type": "nf4", ...}
 */
#include "formats/dialects/bitsandbytes.h"

#include "core/model/names.h"
#include "core/values/grids.h"
#include "formats/json/json_walk.h"

#define ABSMAX    "weight.absmax"
#define QUANT_MAP "weight.quant_map"
#define NESTED    "weight.nested_"
#define STATE     "weight.quant_state.bitsandbytes__"

bool vc_bnb_4bit_block(uint64_t n)
{
    return n >= 32 && n <= 4096 && (n & (n - 1)) == 0;
}

bool vc_bnb_4bit_fits(const struct vc_out_tensor *codes)
{
    const struct vc_quant *quant = codes->quant;
    size_t n_path;

    return (quant->scheme == VC_SCHEME_NF4 || quant->scheme == VC_SCHEME_FP4) && codes->n_dims == 2 &&
           vc_name_is_module_weight(codes->name, &n_path) && quant->granularity == VC_GRANULARITY_GROUP &&
           vc_bnb_4bit_block(quant->group_size) && codes->shape[1] % quant->group_size == 0;
}

/* ---- writing ---- */

/* A constant of n elements behind the scales. */
static enum vc_status lay_constant(struct vc_laying *l, const char *tail, enum vc_dtype dtype, uint64_t n,
                                   const void *bytes)
{
    const struct vc_laid constant = {
        .dtype = dtype, .n_dims = 1, .n_bytes = n * (dtype == VC_DTYPE_F32 ? 4 : 1), .constant = bytes};

    return bytes == NULL ? VC_E_NOMEM : vc_dialect_lay(l, tail, constant, n, 0);
}

static void put(unsigned char *map, unsigned code, float value)
{
    uint32_t bits;

    memcpy(&bits, &value, sizeof bits);
    vc_put_le32(map + (size_t)4 * code, bits);
}

#define PUT(a, b, code)        put(bytes, code, b);
#define PUT_SIGNED(a, b, code) PUT(a, b, code) PUT(a, -(b), 8 | (code))

/* The 16 values of the codes. NF4 and FP4 are lists of steps (core/values/grids.h); FP4 has a sign bit, 8. Code 0 of
 * FP4 is 0. */
static enum vc_status lay_map(struct vc_laying *l)
{
    unsigned char *bytes = vc_arena_alloc(l->ctx, l->arena, 16 * sizeof(float));

    VC_CALL_ALLOC(bytes);
    memset(bytes, 0, 16 * sizeof(float));
    if (l->codes->quant->scheme == VC_SCHEME_NF4) {
        put(bytes, 0, -1.0f);
        VC_NF4_STEPS(PUT)
    } else {
        VC_FP4_STEPS(PUT_SIGNED)
    }
    return lay_constant(l, QUANT_MAP, VC_DTYPE_F32, 16, bytes);
}

/* What torch calls the type of the weights. */
static const char *torch_name(enum vc_dtype dtype)
{
    return dtype == VC_DTYPE_F16 ? "float16" : dtype == VC_DTYPE_BF16 ? "bfloat16" : "float32";
}

/* The text that bitsandbytes calls quant_state, as the bytes of a tensor. */
static enum vc_status lay_state(struct vc_laying *l)
{
    const struct vc_quant *quant = l->codes->quant;
    const char *nested = quant->scale_group == 0
                             ? ""
                             : vc_arena_printf(l->ctx, l->arena,
                                               ", \"nested_blocksize\": %" PRIu64 ", \"nested_dtype\": \"float32\", "
                                               "\"nested_offset\": %.9g",
                                               quant->scale_group, (double)quant->scale_offset);
    const char *kind = vc_scheme_name(quant->scheme);
    const char *name = vc_arena_printf(l->ctx, l->arena, STATE "%s", kind);
    const char *text = vc_arena_printf(l->ctx, l->arena,
                                       "{\"quant_type\": \"%s\", \"blocksize\": %" PRIu64 ", \"dtype\": \"%s\", "
                                       "\"shape\": [%" PRIu64 ", %" PRIu64 "]%s}",
                                       kind, quant->group_size, torch_name(quant->source_dtype), l->codes->shape[0],
                                       l->codes->shape[1], nested);

    return name == NULL || nested == NULL || text == NULL ? VC_E_NOMEM
                                                          : lay_constant(l, name, VC_DTYPE_U8, strlen(text), text);
}

/* Called for each part of a weight: codes, scales (behind which map and text follow), and of double quantization the
 * codebook and the scales of the scales. */
enum vc_status vc_bnb_4bit_lay(struct vc_laying *l)
{
    uint64_t n_bytes = l->part->size_bytes;
    bool coded = l->codes->quant->scale_group != 0;
    struct vc_laid part = {
        .dtype = coded && l->role == VC_PART_SCALE ? VC_DTYPE_U8 : VC_DTYPE_F32, .n_dims = 1, .n_bytes = n_bytes};

    l->n = 0;
    if (l->role == VC_PART_CODES) {
        n_bytes = l->codes->size_bytes;
        return vc_dialect_lay(l, NULL, (struct vc_laid){.dtype = VC_DTYPE_U8, .n_dims = 2, .n_bytes = n_bytes}, n_bytes,
                              1);
    }
    if (l->role != VC_PART_SCALE) {
        return vc_dialect_lay(l, l->role == VC_PART_CODEBOOK ? NESTED "quant_map" : NESTED "absmax", part, n_bytes / 4,
                              0);
    }
    VC_CALL(vc_dialect_lay(l, ABSMAX, part, coded ? n_bytes : n_bytes / 4, 0));
    VC_CALL(lay_map(l));
    return lay_state(l);
}

void vc_bnb_4bit_write_config(const struct vc_config_weights *weights, struct vc_text *text)
{
    vc_text_add(text,
                "{\n    \"quant_method\": \"bitsandbytes\",\n    \"load_in_4bit\": true,\n"
                "    \"bnb_4bit_quant_type\": \"%s\",\n    \"bnb_4bit_use_double_quant\": %s,\n"
                "    \"bnb_4bit_compute_dtype\": \"%s\",\n    \"bnb_4bit_quant_storage\": \"uint8\",\n",
                vc_scheme_name(weights->groups[0].scheme), weights->groups[0].scale_group != 0 ? "true" : "false",
                torch_name(weights->groups[0].source_dtype));
}

bool vc_bnb_4bit_owns_config(const struct json_t *config)
{
    return json_is_true(json_object_get(config, "load_in_4bit"));
}

/* ---- reading ---- */

#define MAX_STATE ((uint64_t)4096)

/* What the text beside a weight says. */
struct state {
    enum vc_scheme scheme; /* of quant_type, which decides, whatever the name of the text ends in */
    uint64_t block, n_rows, row;
    enum vc_dtype dtype;
    uint64_t nested_block;
    double nested_offset;
    const char *wrong; /* why bitsandbytes cannot decode it; NULL if it can */
};

/* VC_DTYPE_NONE: another name, or none. */
static enum vc_dtype dtype_of(const json_t *name)
{
    static const struct {
        const char *name;
        enum vc_dtype dtype;
    } types[] = {{"float16", VC_DTYPE_F16}, {"bfloat16", VC_DTYPE_BF16}, {"float32", VC_DTYPE_F32}};

    for (size_t i = 0; json_is_string(name) && i < sizeof types / sizeof types[0]; i++) {
        if (strcmp(json_string_value(name), types[i].name) == 0) {
            return types[i].dtype;
        }
    }
    return VC_DTYPE_NONE;
}

/* As bitsandbytes makes a float of it: a number, or a text that is one. */
static bool read_number(const json_t *value, double *out)
{
    const char *text = json_string_value(value);
    json_t *inner = text != NULL ? json_loads(text, JSON_DECODE_ANY, NULL) : NULL;
    const json_t *number = text != NULL ? inner : value;
    bool ok = json_is_number(number);

    *out = json_number_value(number);
    json_decref(inner);
    return ok;
}

/* bitsandbytes raises an error at any other member. */
static bool all_known(json_t *root)
{
    const char *key;
    json_t *value;

    json_object_foreach(root, key, value)
    {
        if (!vc_is_one_of(key, "quant_type blocksize dtype shape nested_blocksize nested_dtype nested_offset")) {
            return false;
        }
    }
    return true;
}

/* The first fault as the end of the sentence "its quant_state ...", NULL: none. */
static const char *wrong_of(json_t *root, bool nested, const struct state *state)
{
    double number;

    if (!json_is_object(root)) {
        return "is no JSON object";
    }
    if (!all_known(root)) {
        return "has a member that bitsandbytes does not know and refuses";
    }
    if (state->scheme == VC_SCHEME_NONE) {
        return "has no quant_type nf4 or fp4";
    }
    if (!vc_bnb_4bit_block(state->block)) {
        return "has no blocksize that is a power of two from 32 to 4096";
    }
    if (state->dtype == VC_DTYPE_NONE) {
        return "has no dtype float16, bfloat16 or float32";
    }
    if (state->n_rows == 0 || state->row == 0) {
        return "has no shape of two numbers above 0";
    }
    if (nested && state->nested_block == 0) {
        return "has no nested_blocksize above 0";
    }
    if (nested && dtype_of(json_object_get(root, "nested_dtype")) == VC_DTYPE_NONE) {
        return "has no nested_dtype float16, bfloat16 or float32";
    }
    return nested && !read_number(json_object_get(root, "nested_offset"), &number) ? "has no number nested_offset"
                                                                                   : NULL;
}

/* nested: there is a nested_absmax, which makes bitsandbytes look for what is said of it. root may be NULL: then all is
 * missing, and `wrong` says so. */
static void parse_state(json_t *root, bool nested, struct state *out)
{
    json_t *shape = json_object_get(root, "shape");

    *out = (struct state){.scheme = VC_SCHEME_NONE,
                          .block = vc_json_count(json_object_get(root, "blocksize")),
                          .dtype = dtype_of(json_object_get(root, "dtype")),
                          .nested_block = nested ? vc_json_count(json_object_get(root, "nested_blocksize")) : 0};
    if (json_array_size(shape) == 2) {
        out->n_rows = vc_json_count(json_array_get(shape, 0));
        out->row = vc_json_count(json_array_get(shape, 1));
    }
    if (vc_json_says(root, "quant_type", "nf4")) {
        out->scheme = VC_SCHEME_NF4;
    } else if (vc_json_says(root, "quant_type", "fp4")) {
        out->scheme = VC_SCHEME_FP4;
    }
    (void)read_number(json_object_get(root, "nested_offset"), &out->nested_offset);
    out->wrong = wrong_of(root, nested, out);
}

/* A text of more than MAX_STATE bytes is no state. */
static enum vc_status read_state(struct vc_search *s, size_t tensor, bool nested, struct state *out)
{
    const struct vc_tensor *t = &s->model->tensors[tensor];
    char text[MAX_STATE];

    *out = (struct state){.wrong = "is no text of u8"};
    if (t->dtype == VC_DTYPE_U8 && t->n_elems != 0 && t->n_elems <= MAX_STATE) {
        VC_CALL(vc_source_read_any(s->ctx, s->model, tensor, VC_FORM_VALUES, 0, text, (size_t)t->n_elems));
        json_t *root = json_loadb(text, (size_t)t->n_elems, JSON_REJECT_DUPLICATES, NULL);
        parse_state(root, nested, out);
        json_decref(root);
    }
    return VC_OK;
}

/* The parts beside the codes, by their names. */
struct parts {
    size_t state, absmax, map, nested_absmax, nested_map;
};

/* Whether it is a tensor of n numbers f32. */
static bool is_floats(const struct vc_search *s, size_t tensor, uint64_t n)
{
    return tensor != VC_NO_TENSOR && s->model->tensors[tensor].dtype == VC_DTYPE_F32 &&
           s->model->tensors[tensor].n_elems == n;
}

/* Why codes, parts and text do not belong together; NULL: they do. Blocks that go across the ends of rows are right for
 * bitsandbytes, and *across. [64, 100] in blocks of 64: 6400 codes in 3200 bytes, 100 blocks; a block goes across rows,
 * because 100 is no multiple of 64. */
static const char *contradiction(const struct vc_search *s, size_t codes, const struct state *state,
                                 const struct parts *p, bool *across)
{
    const struct vc_tensor *t = &s->model->tensors[codes];
    const struct vc_tensor *absmax = p->absmax != VC_NO_TENSOR ? &s->model->tensors[p->absmax] : NULL;
    bool nested = p->nested_absmax != VC_NO_TENSOR;
    uint64_t n_elems;

    *across = state->row % state->block != 0;
    if (!vc_mul_u64(state->n_rows, state->row, &n_elems) || n_elems % 2 != 0 || t->n_elems != n_elems / 2) {
        return "has another number of codes than the shape in its quant_state";
    }
    uint64_t n_blocks = vc_ceil_div_u64(n_elems, state->block);
    if (absmax == NULL) {
        return "has no absmax beside it";
    }
    if (absmax->n_elems != n_blocks) {
        return "has another number of absmax than blocks";
    }
    if (absmax->dtype != (nested ? VC_DTYPE_U8 : VC_DTYPE_F32)) {
        return nested ? "has an absmax that is not u8 beside its nested_absmax" : "has an absmax that is not f32";
    }
    if (!is_floats(s, p->map, 16)) {
        return "has no quant_map of 16 numbers f32 beside it";
    }
    if (nested && !is_floats(s, p->nested_map, 256)) {
        return "has no nested_quant_map of 256 numbers f32 beside it";
    }
    return nested && !is_floats(s, p->nested_absmax, vc_ceil_div_u64(n_blocks, state->nested_block))
               ? "has another number of nested_absmax than blocks of scales"
               : NULL;
}

static const char *const kinds[] = {".quant_state.bitsandbytes__nf4", ".quant_state.bitsandbytes__fp4"};

#define MAP(a, b, code)        values[code] = (b);
#define MAP_SIGNED(a, b, code) MAP(a, b, code) MAP(a, -(b), 8 | (code))

/* bitsandbytes decodes by its own tables, whatever the one in the file says; one that says something else was damaged,
 * or belongs to other codes. */
static enum vc_status check_map(struct vc_search *s, const struct vc_tensor *codes, size_t map, enum vc_scheme scheme)
{
    float values[16] = {0.0f};
    float there[16];
    bool same = true;

    if (!vc_collecting(s->ctx)) {
        return VC_OK;
    }
    if (scheme == VC_SCHEME_NF4) {
        values[0] = -1.0f;
        VC_NF4_STEPS(MAP)
    } else {
        VC_FP4_STEPS(MAP_SIGNED)
    }
    VC_CALL(vc_source_read_any(s->ctx, s->model, map, VC_FORM_VALUES, 0, there, sizeof there));
    for (unsigned i = 0; i < 16; i++) {
        same = same && there[i] >= values[i] - 1e-6f && there[i] <= values[i] + 1e-6f;
    }
    return same ? VC_OK
                : vc_find(s->ctx, VC_SEVERITY_ERROR, "parts", codes->name,
                          "has a quant_map with other values than those of its quant_type, which bitsandbytes decodes "
                          "by");
}

/* All parts by name; *twice: there are states for both kinds. */
static void find_parts(const struct vc_search *s, const struct vc_tensor *t, struct parts *p, bool *twice)
{
    size_t n = strlen(t->name);
    size_t fp4 = vc_search_find(s, t->name, n, kinds[1]);

    p->state = vc_search_find(s, t->name, n, kinds[0]);
    *twice = p->state != VC_NO_TENSOR && fp4 != VC_NO_TENSOR;
    p->state = p->state != VC_NO_TENSOR ? p->state : fp4;
    p->absmax = vc_search_find(s, t->name, n, ".absmax");
    p->map = vc_search_find(s, t->name, n, ".quant_map");
    p->nested_absmax = vc_search_find(s, t->name, n, ".nested_absmax");
    p->nested_map = vc_search_find(s, t->name, n, ".nested_quant_map");
}

/* All that is there is right: the tensor becomes codes [n_rows, row], and its parts are claimed. Codes lie two a byte,
 * so a row has row / 2 of them. */
static enum vc_status attach(struct vc_search *s, size_t codes, const struct state *state, const struct parts *p)
{
    struct vc_quant quant = {.scheme = state->scheme,
                             .granularity = VC_GRANULARITY_GROUP,
                             .symmetric = true,
                             .group_size = state->block,
                             .source_dtype = state->dtype};
    const struct vc_packed packed = {.bits = 8, .n_rows = state->n_rows, .row = state->row / 2};

    vc_quant_set(&quant, VC_PART_SCALE, p->absmax);
    if (p->nested_absmax != VC_NO_TENSOR) {
        vc_quant_set(&quant, VC_PART_CODEBOOK, p->nested_map);
        vc_quant_set(&quant, VC_PART_SCALE_SCALE, p->nested_absmax);
        quant.scale_offset = (float)state->nested_offset;
        quant.scale_group = state->nested_block;
    }
    VC_CALL(check_map(s, &s->model->tensors[codes], p->map, state->scheme));
    VC_CALL(vc_search_attach_packed(s, codes, &quant, &packed, 0));
    s->model->tensors[p->state].part_of = codes;
    s->model->tensors[p->map].part_of = codes;
    return VC_OK;
}

/* vc_dialect_file.find_codes: a weight that has a state, or an absmax. Each fault has its own sentence, because verify
 * shows it. *found only where codes can be decoded here. */
enum vc_status vc_bnb_4bit_find(struct vc_search *s, size_t codes, bool *found)
{
    const struct vc_tensor *t = &s->model->tensors[codes];
    struct parts parts;
    struct state state;
    size_t n_path;
    bool twice, across;
    const char *wrong;

    if (!vc_name_is_module_weight(t->name, &n_path)) {
        return VC_OK;
    }
    find_parts(s, t, &parts, &twice);
    if (parts.state == VC_NO_TENSOR && (parts.absmax == VC_NO_TENSOR || vc_dtype_is_float(t->dtype))) {
        return VC_OK;
    }
    if (t->dtype != VC_DTYPE_U8) {
        return vc_search_refuse(s, codes, VC_SEVERITY_ERROR, "is not u8 beside its quant_state");
    }
    if (parts.state == VC_NO_TENSOR) {
        return vc_search_refuse(s, codes, VC_SEVERITY_ERROR, "has no quant_state beside its absmax");
    }
    if (twice) {
        return vc_search_refuse(s, codes, VC_SEVERITY_ERROR, "has two quant_states: bitsandbytes wants exactly one");
    }
    VC_CALL(read_state(s, parts.state, parts.nested_absmax != VC_NO_TENSOR, &state));
    if (state.wrong != NULL) {
        return vc_search_refuse(s, codes, VC_SEVERITY_ERROR, "cannot be decoded: its quant_state %s", state.wrong);
    }
    wrong = contradiction(s, codes, &state, &parts, &across);
    VC_RETURN_IF(wrong != NULL, vc_search_refuse(s, codes, VC_SEVERITY_ERROR, "%s, which bitsandbytes refuses", wrong));
    if (across) {
        return vc_search_refuse(s, codes, VC_SEVERITY_WARNING,
                                "has blocks that go across the ends of its rows, which are not decoded here");
    }
    *found = true;
    return attach(s, codes, &state, &parts);
}
