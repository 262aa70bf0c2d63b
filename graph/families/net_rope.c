/* net_rope.c - rotary positions: the angle of pair i at position p is p * f(i), where the frequencies f are
 * those of the model's kind of scaling (arch/arch_rope.h). Frequencies are computed in double when the
 * graph is built; cosines and sines are computed in the graph, from the length of the sequence that it is
 * run with. Formulas: docs/graph.md.
 *
 *     default     f(i) = theta ^ (-2i / dim)             llama3      low frequencies divided by factor, a ramp between
 *     linear      f(i) / factor                          yarn        a ramp over i between f and f / factor
 *     dynamic     theta grows with the length            longrope    lists of divisors, short and long
 */
#include "arch/arch_family.h"
#include "arch/arch_rope.h"
#include "graph/families/net.h"

#include <math.h>

/* Sizes of heads beyond this are no models. */
#define MAX_ROPE_DIM 65536

/* A kind of scaling while its numbers are read. */
struct scaling {
    struct vc_net *net;
    const json_t *values; /* "rope_parameters" or "rope_scaling"; may be NULL */
    const char *key;      /* which of them */
    double theta;
    int64_t dim;
    double longest;   /* max_position_embeddings */
    double original;  /* before scaling */
    double factor;    /* of cosines and sines */
    double *f;        /* dim / 2 frequencies */
    double *f_beyond; /* for sequences longer than `original`; NULL: the same */
    double dynamic;   /* factor of dynamic scaling; 0: another kind */
};

/* A member of the scaling, above 0. otherwise NAN: it is required. */
static double number(struct scaling *s, const char *name, double otherwise)
{
    const json_t *value = json_object_get(s->values, name);

    if (value == NULL || json_is_null(value)) {
        VC_LEAVE_WITH(isnan(otherwise), vc_net_refuse(s->net, s->key, vc_net_print(s->net, "which has no %s", name)),
                      1);
        return otherwise;
    }
    VC_LEAVE_WITH(!json_is_number(value) || json_number_value(value) <= 0,
                  vc_net_refuse(s->net, s->key, vc_net_print(s->net, "whose %s is no number above 0", name)), 1);
    return json_number_value(value);
}

/* The unscaled frequencies theta ^ (-2i / dim), i below dim / 2. NULL if memory is short. */
static double *frequencies(struct scaling *s)
{
    double *f = vc_arena_alloc(s->net->ctx, s->net->arena, (size_t)(s->dim / 2 + 1) * sizeof *f);

    VC_LEAVE_WITH(f == NULL, s->net->graph->status = VC_E_NOMEM, NULL);
    for (int64_t i = 0; i < s->dim / 2; i++) {
        f[i] = vc_rope_frequency(s->theta, (double)s->dim, (uint64_t)i);
    }
    return f;
}

/* ---- the kinds ---- */

static void scale_default(struct scaling *s)
{
}

static void scale_linear(struct scaling *s)
{
    double factor = number(s, "factor", (double)NAN);

    for (int64_t i = 0; i < s->dim / 2; i++) {
        s->f[i] /= factor;
    }
}

/* Up to the length of training nothing changes; beyond it dynamic_frequencies computes the base in the
 * graph. */
static void scale_dynamic(struct scaling *s)
{
    s->dynamic = number(s, "factor", (double)NAN);
}

/* YaRN (Peng et al. 2023): frequencies and a factor of cosines and sines (attention_factor, or by mscale as
 * DeepSeek has it). */
static void scale_yarn(struct scaling *s)
{
    const json_t *truncate = json_object_get(s->values, "truncate");
    double factor = number(s, "factor", s->longest / s->original);
    double m = number(s, "mscale", 0);
    double m_all = number(s, "mscale_all_dim", 0);
    double fast = number(s, "beta_fast", 32);
    double slow = number(s, "beta_slow", 1);
    double usual = vc_rope_yarn_scale(factor, 1);
    struct vc_rope_ramp ramp =
        vc_rope_yarn_ramp(s->theta, (double)s->dim, s->original, fast, slow, !json_is_false(truncate));

    if (m != 0 && m_all != 0) {
        usual = vc_rope_yarn_scale(factor, m) / vc_rope_yarn_scale(factor, m_all);
    }
    s->factor = number(s, "attention_factor", usual);
    for (int64_t i = 0; i < s->dim / 2; i++) {
        s->f[i] /= vc_rope_yarn_divisor(&ramp, factor, (uint64_t)i);
    }
}

/* Llama 3.1: wavelengths above low / original are divided by factor, below high / original kept, between
 * them interpolated (vc_rope_llama3_divisor). */
static void scale_llama3(struct scaling *s)
{
    double factor = number(s, "factor", (double)NAN);
    double low = number(s, "low_freq_factor", (double)NAN);
    double high = number(s, "high_freq_factor", (double)NAN);

    for (int64_t i = 0; i < s->dim / 2; i++) {
        s->f[i] /= vc_rope_llama3_divisor(s->theta, (double)s->dim, factor, low, high, s->original, (uint64_t)i);
    }
}

/* Divides by a list of dim / 2 numbers above 0. */
static void divide_by_list(struct scaling *s, const char *name, double *f)
{
    const json_t *list = json_object_get(s->values, name);

    VC_LEAVE_IF(
        !json_is_array(list) || json_array_size(list) != (size_t)(s->dim / 2),
        vc_net_refuse(s->net, s->key,
                      vc_net_print(s->net, "whose %s is no list of %lld numbers", name, (long long)(s->dim / 2))));
    for (int64_t i = 0; i < s->dim / 2; i++) {
        const json_t *value = json_array_get(list, (size_t)i);

        VC_LEAVE_IF(!json_is_number(value) || json_number_value(value) <= 0,
                    vc_net_refuse(s->net, s->key,
                                  vc_net_print(s->net, "whose %s has an element that is no number above 0", name)));
        f[i] /= json_number_value(value);
    }
}

/* Phi-3: short divisors up to the original length, long ones beyond; frequency_row chooses by the length in
 * the graph. */
static void scale_longrope(struct scaling *s)
{
    double factor = number(s, "factor", s->longest / s->original);

    s->factor = number(s, "attention_factor", vc_rope_longrope_scale(factor, s->original));
    s->f_beyond = frequencies(s);
    if (s->f_beyond != NULL) {
        divide_by_list(s, "long_factor", s->f_beyond);
        divide_by_list(s, "short_factor", s->f);
    }
}

static const struct {
    const char *name;
    void (*scale)(struct scaling *s);
} kinds[] = {
    {"default", scale_default}, {"linear", scale_linear}, {"dynamic", scale_dynamic},   {"yarn", scale_yarn},
    {"llama3", scale_llama3},   {"su", scale_longrope},   {"longrope", scale_longrope},
};

/* Members of the scaling that a kind may have: any other may change what is computed. */
static const char *const members[] = {"rope_type",        "type",
                                      "rope_theta",       "partial_rotary_factor",
                                      "factor",           "original_max_position_embeddings",
                                      "attention_factor", "beta_fast",
                                      "beta_slow",        "mscale",
                                      "mscale_all_dim",   "truncate",
                                      "finetuned",        "low_freq_factor",
                                      "high_freq_factor", "short_factor",
                                      "long_factor",      "short_mscale",
                                      "long_mscale"};

/* A member that is not known may change the angles: refused. */
static void check_members(struct scaling *s)
{
    const char *name;
    json_t *value;

    json_object_foreach((json_t *)(uintptr_t)s->values, name, value)
    {
        bool known = false;

        for (size_t k = 0; k < sizeof members / sizeof *members; k++) {
            known = known || strcmp(members[k], name) == 0;
        }
        if (!known) {
            vc_net_refuse(s->net, s->key, vc_net_print(s->net, "whose member %s is not known", name));
        }
    }
}

/* rope_type, or in older files type; without it "default". */
static void apply_kind(struct scaling *s)
{
    const json_t *type = json_object_get(s->values, "rope_type");
    const char *known = "";

    type = type == NULL ? json_object_get(s->values, "type") : type;
    const char *name = type == NULL ? "default" : json_is_string(type) ? json_string_value(type) : "";
    if (strcmp(name, "yarn") == 0 && strcmp(s->net->family->type, "phi3") == 0) {
        name = "longrope"; /* what early files of that family call it */
    }
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        if (strcmp(kinds[k].name, name) == 0) {
            check_members(s);
            kinds[k].scale(s);
            return;
        }
        known = vc_net_print(s->net, "%s%s%s", known, k == 0 ? "" : ", ", kinds[k].name);
    }
    vc_net_refuse(s->net, s->key, vc_net_print(s->net, "whose rope_type is not one of %s", known));
}

/* Reads what all kinds have in common: theta, the rotated part of a head, lengths. "rope_parameters"
 * (transformers 5) holds theta and scaling, by kind of layer where these differ (part_name); "rope_scaling"
 * is the older key, for layers without a window only. theta_key: where theta is without a member
 * rope_theta. */
static void read_scaling(struct vc_net *net, const char *part_name, const char *theta_key, int64_t head_dim,
                         double theta, struct scaling *s)
{
    const json_t *parameters = vc_net_get(net, "rope_parameters");
    const json_t *old = vc_net_get(net, "rope_scaling");
    const struct vc_arch *usual = net->family->row != NULL ? vc_arch_family_class(net->family->row) : NULL;
    double part = vc_net_real(net, "partial_rotary_factor",
                              net->gguf == NULL ? vc_arch_number(usual, "partial_rotary_factor", 1) : 1);

    if (part_name != NULL && parameters != NULL && !json_is_object(parameters)) {
        vc_net_refuse(net, "rope_parameters", "not an object");
    }
    if (part_name != NULL) {
        parameters = json_object_get(parameters, part_name);
        old = strcmp(part_name, "sliding_attention") == 0 ? NULL : old;
    }
    s->net = net;
    s->values = old != NULL ? old : parameters;
    s->key = old != NULL ? "rope_scaling" : "rope_parameters";
    s->factor = 1;
    if (s->values != NULL && !json_is_object(s->values)) {
        vc_net_refuse(net, s->key, "not an object");
        s->values = NULL;
    }
    const json_t *partial = json_object_get(s->values, "partial_rotary_factor");
    part = json_is_number(partial) ? json_number_value(partial) : part;
    s->theta = number(s, "rope_theta", vc_net_real(net, theta_key, theta));
    s->longest = (double)vc_net_size(net, "max_position_embeddings", 2048);
    double original = vc_net_real(net, "original_max_position_embeddings", 0);
    s->original = original > 0 ? original : number(s, "original_max_position_embeddings", s->longest);
    s->dim = part > 0 && part <= 1 ? (int64_t)((double)head_dim * part) : 0;
    if (s->dim < 2 || s->dim % 2 != 0 || s->dim > MAX_ROPE_DIM || !(s->theta > 1)) {
        vc_graph_complain(net->graph,
                          "config.json: rotary positions of %lld elements of a head of %lld with a base of %g are not "
                          "supported",
                          (long long)s->dim, (long long)head_dim, s->theta);
        net->failed = true;
    }
}

/* ---- in the graph ---- */

static uint32_t constant_row(struct vc_net *net, const double *f, int64_t n)
{
    return vc_graph_add_constant(net->graph, NULL, VC_DTYPE_F32, (int64_t[]){1, n}, 2, f);
}

/* Dynamic NTK scaling: from `longest` tokens on, base = theta * (factor * n / longest - (factor - 1)) ^ (d
 * / (d - 2)), with n the length, at least `longest`. f(i) = base ^ (-2i / d): Pow of the base by a constant
 * row. */
static uint32_t dynamic_frequencies(struct scaling *s)
{
    struct vc_net *net = s->net;
    struct vc_graph *graph = net->graph;
    uint32_t n = vc_net_op(net, "Max", NULL, vc_net_text_length(net), vc_graph_add_float(graph, s->longest));
    uint32_t growth = vc_net_op(net, "Div", NULL, vc_net_op(net, "Mul", NULL, n, vc_graph_add_float(graph, s->dynamic)),
                                vc_graph_add_float(graph, s->longest));
    uint32_t base;

    growth = vc_net_op(net, "Sub", NULL, growth, vc_graph_add_float(graph, s->dynamic - 1));
    base = vc_net_op(net, "Pow", NULL, growth, vc_graph_add_float(graph, (double)s->dim / (double)(s->dim - 2)));
    base = vc_net_op(net, "Mul", NULL, base, vc_graph_add_float(graph, s->theta));
    for (int64_t i = 0; i < s->dim / 2; i++) {
        s->f[i] = -(double)(2 * i) / (double)s->dim;
    }
    return vc_net_op(net, "Pow", NULL, base, constant_row(net, s->f, s->dim / 2));
}

/* The row [1, dim / 2] of frequencies as a value. GGUF may have divisors in the tensor rope_freqs.weight,
 * which count then. */
static uint32_t frequency_row(struct scaling *s)
{
    struct vc_net *net = s->net;
    uint32_t beyond;

    if (net->rope_factors != NULL) {
        uint32_t factors = vc_net_vector(net, net->rope_factors, s->dim / 2);

        return vc_net_op(net, "Div", NULL, constant_row(net, s->f, s->dim / 2),
                         vc_net_reshape(net, factors, (int64_t[]){1, -1}, 2));
    }
    if (s->dynamic > 1 && s->dim > 2) {
        return dynamic_frequencies(s);
    }
    if (s->f_beyond == NULL) {
        return constant_row(net, s->f, s->dim / 2);
    }
    beyond = vc_net_op(net, "Greater", NULL, vc_net_text_length(net), vc_graph_add_float(net->graph, s->original));
    return vc_graph_add(
        net->graph, "Where", NULL,
        (uint32_t[]){beyond, constant_row(net, s->f_beyond, s->dim / 2), constant_row(net, s->f, s->dim / 2)}, 3);
}

void vc_net_rope_make(struct vc_net *net, int64_t head_dim, double theta, struct vc_net_rope *rope)
{
    vc_net_rope_make_part(net, NULL, "rope_theta", head_dim, theta, rope);
}

/* angles [sequence, dim / 2] = positions * frequencies; ids [batch, sequence] choose rows of the tables in
 * RotaryEmbedding. */
void vc_net_rope_make_part(struct vc_net *net, const char *part, const char *theta_key, int64_t head_dim, double theta,
                           struct vc_net_rope *rope)
{
    struct scaling s = {0};

    *rope = (struct vc_net_rope){
        .neighbours = rope->neighbours, .cosines = VC_NO_VALUE, .sines = VC_NO_VALUE, .ids = VC_NO_VALUE};
    read_scaling(net, part, theta_key, head_dim, theta, &s);
    if (net->failed || (s.f = frequencies(&s)) == NULL) {
        return;
    }
    apply_kind(&s);
    if (net->failed || net->graph->status != VC_OK) {
        return;
    }
    rope->dim = s.dim;
    vc_net_block(net, "rotary_emb");
    uint32_t positions = vc_net_positions(net);
    uint32_t angles = net->cached ? vc_net_reshape(net, positions, (int64_t[]){0, -1, 1}, 3)
                                  : vc_net_reshape(net, positions, (int64_t[]){-1, 1}, 2);
    angles = vc_net_op(net, "Mul", NULL, vc_net_cast(net, angles, VC_DTYPE_F32), frequency_row(&s));
    rope->cosines = vc_net_op1(net, "Cos", angles);
    rope->sines = vc_net_op1(net, "Sin", angles);
    if (s.factor != 1) {
        rope->cosines = vc_net_op(net, "Mul", NULL, rope->cosines, vc_graph_add_float(net->graph, s.factor));
        rope->sines = vc_net_op(net, "Mul", NULL, rope->sines, vc_graph_add_float(net->graph, s.factor));
    }
    if (net->cached) { /* tables of each text: no numbers of rows are needed */
        return;
    }
    rope->ids = vc_net_op(net, "Expand", NULL, vc_net_reshape(net, positions, (int64_t[]){1, -1}, 2),
                          vc_net_op1(net, "Shape", net->input_ids));
}

/* GGUF files of Llama have rows of q and k so that neighbours rotate (interleaved): arch's trait PERMUTES. Cohere rotates
 * them everywhere. */
uint32_t vc_net_rope_apply(struct vc_net *net, const struct vc_net_rope *rope, uint32_t x, const char *value,
                           int64_t heads, int64_t head_dim)
{
    uint32_t inputs[4] = {x, rope->cosines, rope->sines, rope->ids};
    struct vc_graph_attr attrs[3];
    unsigned n = 0;

    attrs[n++] = vc_attr_int("num_heads", heads);
    if (rope->dim != head_dim) {
        attrs[n++] = vc_attr_int("rotary_embedding_dim", rope->dim);
    }
    if (rope->neighbours || (net->gguf != NULL && vc_arch_has(net->gguf, VC_ARCH_PERMUTES))) {
        attrs[n++] = vc_attr_int("interleaved", 1);
    }
    return vc_net_node(net, "RotaryEmbedding", value, inputs, rope->ids == VC_NO_VALUE ? 3 : 4, attrs, n);
}
