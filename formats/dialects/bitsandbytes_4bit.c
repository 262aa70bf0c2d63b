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

#include <inttypes.h>
#include <string.h>

#include "core/base/checked.h"
#include "core/base/findings.h"
#include "core/model/names.h"
#include "core/text/text.h"
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
    uint64_t block, n_rows, row;
    enum vc_dtype dtype;
    uint64_t nested_block; /* 0: the scales are floats */
    double nested_offset;
    bool unknown; /* members that bitsandbytes refuses */
};

static enum vc_dtype dtype_of(const char *name)
{
    return name == NULL                    ? VC_DTYPE_NONE
           : strcmp(name, "float16") == 0  ? VC_DTYPE_F16
           : strcmp(name, "bfloat16") == 0 ? VC_DTYPE_BF16
           : strcmp(name, "float32") == 0  ? VC_DTYPE_F32
                                           : VC_DTYPE_NONE;
}

/* False: the text lacks something, or says what is not read. */
static bool parse_state(const char *text, size_t n, struct state *out)
{
    size_t n_known = 0;
    const char *key;
    json_t *value;
    json_t *root = json_loadb(text, n, JSON_REJECT_DUPLICATES, NULL);
    json_t *shape = json_object_get(root, "shape");
    json_t *nested = json_object_get(root, "nested_blocksize");

    *out = (struct state){.block = vc_json_count(json_object_get(root, "blocksize")),
                          .dtype = dtype_of(json_string_value(json_object_get(root, "dtype"))),
                          .nested_block = vc_json_count(json_object_get(root, "nested_blocksize")),
                          .nested_offset = json_number_value(json_object_get(root, "nested_offset"))};
    if (json_array_size(shape) == 2) {
        out->n_rows = vc_json_count(json_array_get(shape, 0));
        out->row = vc_json_count(json_array_get(shape, 1));
    }
    json_object_foreach(root, key, value)
    {
        n_known += vc_is_one_of(key, "quant_type blocksize dtype shape nested_blocksize nested_dtype nested_offset");
    }
    out->unknown = json_object_size(root) != n_known;
    json_decref(root);
    return out->block != 0 && out->n_rows != 0 && out->row != 0 && out->dtype != VC_DTYPE_NONE &&
           (nested == NULL || out->nested_block != 0);
}

static enum vc_status read_state(struct vc_search *s, size_t tensor, struct state *out, bool *ok)
{
    const struct vc_tensor *t = &s->model->tensors[tensor];
    char text[MAX_STATE];

    *ok = false;
    if (t->dtype == VC_DTYPE_U8 && t->n_elems != 0 && t->n_elems <= MAX_STATE) {
        VC_CALL(vc_source_read_any(s->ctx, s->model, tensor, VC_FORM_VALUES, 0, text, (size_t)t->n_elems));
        *ok = parse_state(text, (size_t)t->n_elems, out);
    }
    return VC_OK;
}

/* The parts of double quantization; false: one is missing or of another size. */
static bool find_nested(const struct vc_search *s, const char *name, size_t n, const struct state *state,
                        uint64_t n_blocks, struct vc_quant *quant)
{
    const struct vc_tensor *tensors = s->model->tensors;
    size_t absmax = vc_search_find(s, name, n, ".nested_absmax");
    size_t map = vc_search_find(s, name, n, ".nested_quant_map");

    if (absmax == VC_NO_TENSOR || map == VC_NO_TENSOR || tensors[absmax].dtype != VC_DTYPE_F32 ||
        tensors[map].dtype != VC_DTYPE_F32 || tensors[map].n_elems != 256 ||
        tensors[absmax].n_elems != vc_ceil_div_u64(n_blocks, state->nested_block)) {
        return false;
    }
    vc_quant_set(quant, VC_PART_CODEBOOK, map);
    vc_quant_set(quant, VC_PART_SCALE_SCALE, absmax);
    quant->scale_offset = (float)state->nested_offset;
    quant->scale_group = state->nested_block;
    return true;
}

/* Fills the quantization; false: not certain. */
static bool find_parts(const struct vc_search *s, size_t codes, size_t n, const struct state *state,
                       struct vc_quant *quant)
{
    const struct vc_tensor *tensors = s->model->tensors;
    const struct vc_tensor *t = &tensors[codes];
    size_t absmax = vc_search_find(s, t->name, n, ".absmax");
    uint64_t n_elems;
    uint64_t n_blocks;

    if (!vc_mul_u64(state->n_rows, state->row, &n_elems) || n_elems % 2 != 0 || t->n_elems != n_elems / 2 ||
        state->row % state->block != 0 || absmax == VC_NO_TENSOR) {
        return false;
    }
    n_blocks = n_elems / state->block;
    vc_quant_set(quant, VC_PART_SCALE, absmax);
    if (tensors[absmax].n_elems != n_blocks) {
        return false;
    }
    return state->nested_block == 0
               ? tensors[absmax].dtype == VC_DTYPE_F32
               : tensors[absmax].dtype == VC_DTYPE_U8 && find_nested(s, t->name, n, state, n_blocks, quant);
}

static const char *const kinds[] = {".quant_state.bitsandbytes__nf4", ".quant_state.bitsandbytes__fp4"};

enum vc_status vc_bnb_4bit_find(struct vc_search *s, size_t codes, bool *found)
{
    const struct vc_tensor *t = &s->model->tensors[codes];
    struct vc_quant quant = {.granularity = VC_GRANULARITY_GROUP, .symmetric = true};
    size_t n = strlen(t->name);
    size_t state_at = VC_NO_TENSOR;
    size_t map, n_path, other;
    struct state state;
    struct vc_packed packed;
    bool ok = false;

    if (t->dtype != VC_DTYPE_U8 || !vc_name_is_module_weight(t->name, &n_path)) {
        return VC_OK;
    }
    other = vc_search_find(s, t->name, n, kinds[1]);
    state_at = vc_search_find(s, t->name, n, kinds[0]);
    quant.scheme = state_at != VC_NO_TENSOR ? VC_SCHEME_NF4 : VC_SCHEME_FP4;
    VC_CALL(state_at == VC_NO_TENSOR || other == VC_NO_TENSOR
                ? VC_OK
                : vc_find(s->ctx, VC_SEVERITY_ERROR, "parts", t->name,
                          "has two quant_states: bitsandbytes wants exactly one"));
    state_at = state_at != VC_NO_TENSOR ? state_at : other;
    VC_CALL(state_at != VC_NO_TENSOR ? read_state(s, state_at, &state, &ok) : VC_OK);
    if (!ok || !find_parts(s, codes, n, &state, &quant)) {
        return state_at == VC_NO_TENSOR && !vc_search_has(s, t->name, n, ".absmax")
                   ? VC_OK
                   : vc_find(s->ctx, ok && state.row % state.block != 0 ? VC_SEVERITY_WARNING : VC_SEVERITY_ERROR,
                             "parts", t->name,
                             "is not read as a weight: its quant_state is missing, or does not fit the codes and "
                             "absmax, which bitsandbytes refuses");
    }
    VC_CALL(state.unknown ? vc_find(s->ctx, VC_SEVERITY_ERROR, "parts", t->name,
                                    "has a member in its quant_state that bitsandbytes does not know and refuses")
                          : VC_OK);
    quant.group_size = state.block;
    quant.source_dtype = state.dtype;
    packed = (struct vc_packed){.bits = 8, .n_rows = state.n_rows, .row = state.row / 2};
    *found = true;
    map = vc_search_find(s, t->name, n, ".quant_map");
    VC_CALL(vc_search_attach_packed(s, codes, &vc_dialect_bitsandbytes, &quant, &packed, 0));
    s->model->tensors[state_at].part_of = codes;
    if (map != VC_NO_TENSOR) {
        s->model->tensors[map].part_of = codes;
    }
    return VC_OK;
}
