/* merge_pass.c - the pass behind `vcompress merge`: reads what adapters hold, finds the tensor of the model
 * for each module, checks shapes, and gives each tensor its terms. Names are in lora_names.c, the
 * arithmetic in lora_step.c.
 *
 *     vc_job_add_merge    reads the adapters: once
 *     plan_begin          terms of every tensor, in a list: adapters in their order
 *     plan                the steps of one tensor, from its list
 *
 * Everything that can be refused is refused while planning: nothing is written of a merge that does not
 * fit. */
#include <math.h>
#include <regex.h>

#include "core/base/option_struct.h"
#include "core/job/job_passes.h"
#include "core/model/names.h"
#include "core/text/text.h"
#include "kernels/kernels.h"
#include "merge/lora.h"
#include "passes/decode.h"
#include "passes/select.h"

/* The pass. Lists of modules stay; terms are those of one plan.
 * One list of terms for each tensor, since several adapters may change one: its sums are added in the order
 * in which the adapters were given. */
struct merge {
    struct vc_pass pass;
    struct vc_arena arena;
    struct vc_merge_options options;
    struct vc_lora_list *lists; /* by adapter */
    /* By tensor of the model, made anew by each plan_begin. */
    struct vc_arena plan_arena;
    struct vc_lora_term **terms;
    const char *left_out; /* a note; NULL: nothing is */
    struct vc_recipe_entry recipe[1];
};

/* ---- the scale of a module ---- */

/* A key of alpha_pattern is a regular expression of Python that matches the end of a module's name, from a dot on. Of
 * what extended expressions of POSIX do not have, \d and groups without a number are put into words that they have.
 *     q_proj                 ^(.*\.)?(q_proj)$                    model.layers.0.self_attn.q_proj, not xq_proj
 *     layers\.\d+\.mlp       ^(.*\.)?(layers\.[0-9]+\.mlp)$
 */
static enum vc_status pattern_matches(struct vc_ctx *ctx, const struct vc_model *adapter, const char *pattern,
                                      const char *name, bool *out)
{
    char text[1024];
    regex_t regex;
    size_t n = (size_t)snprintf(text, sizeof text, "^(.*\\.)?(");
    const char *c = pattern;

    for (; *c != '\0' && n + 16 < sizeof text; c++) {
        if (c[0] == '\\' && c[1] == 'd') {
            n += (size_t)snprintf(text + n, sizeof text - n, "[0-9]");
            c++;
        } else if (strncmp(c, "(?:", 3) == 0) {
            text[n++] = '(';
            c += 2;
        } else {
            text[n++] = *c;
        }
    }
    (void)snprintf(text + n, sizeof text - n, ")$");
    bool failed = *c != '\0' || regcomp(&regex, text, REG_EXTENDED | REG_NOSUB) != 0;
    VC_REFUSE_IF(failed, ctx, VC_E_UNSUPPORTED, "%s: alpha_pattern: %.100s is no regular expression that is known here",
                 adapter->path, pattern);
    *out = regexec(&regex, name, 0, NULL, 0) == 0;
    regfree(&regex);
    return VC_OK;
}

/* alpha / rank or alpha / sqrt(rank). Without an alpha it is the rank, as diffusers has it.
 * The first pattern that matches decides; a tensor alpha of the module itself wins over all. */
static enum vc_status find_scale(struct vc_ctx *ctx, const struct vc_lora_list *list, const struct vc_lora_place *place,
                                 uint64_t rank, double *out)
{
    const struct vc_lora_module *module = &list->modules[place->module];
    const char *name = place->parameter != NULL ? place->parameter : module->name;
    double alpha = list->said.there ? list->said.alpha : (double)rank;
    bool root = list->said.root;
    size_t tensor = module->tensors[VC_LORA_ALPHA];
    bool found = false;
    float own;

    for (size_t i = 0; !found && i < list->said.n_patterns; i++) {
        VC_CALL(pattern_matches(ctx, list->adapter, list->said.patterns[i].pattern, name, &found));
        alpha = found ? list->said.patterns[i].alpha : alpha;
        root = found ? list->said.patterns[i].root : root;
    }
    if (tensor != VC_NO_TENSOR) {
        VC_REFUSE_IF(list->adapter->tensors[tensor].n_elems != 1, ctx, VC_E_FORMAT, "%s: %s is not one number",
                     list->adapter->path, list->adapter->tensors[tensor].name);
        VC_CALL(vc_tensor_read_f32(ctx, list->adapter, tensor, &own, 1));
        alpha = (double)own;
    }
    VC_REFUSE_IF(!isfinite(alpha), ctx, VC_E_FORMAT, "%s: %s: alpha is %g", list->adapter->path, module->name, alpha);
    *out = root ? alpha / sqrt((double)rank) : alpha / (double)rank;
    return VC_OK;
}

/* ---- shapes ---- */

/* Elements behind the axis, with it. */
static uint64_t behind(const struct vc_tensor *t, unsigned axis)
{
    uint64_t n = 1;

    for (unsigned d = axis; d < t->n_dims; d++) {
        n *= t->shape[d];
    }
    return n;
}

/* Whether the product of the factors is [outputs, inputs ...] as the tensor lies, or turned over. Of square ones the
 * format says it (Conv1D), or the adapter.
 *     A [16, 512], B [1024, 16]     w [1024, 512]     straight
 *                                   w [512, 1024]     turned: GPT-2's Conv1D has inputs first
 *                                   w [512, 512]      refused: an adapter of another model
 */
static enum vc_status find_turn(struct vc_ctx *ctx, const struct vc_model *model, struct vc_lora_term *term)
{
    const struct vc_lora_list *list = term->from;
    const struct vc_lora_module *module = term->module;
    const struct vc_lora_place *place = &term->place;
    const struct vc_tensor *t = &model->tensors[place->tensor];
    const struct vc_tensor *a = &list->adapter->tensors[module->tensors[VC_LORA_DOWN]];
    const struct vc_tensor *b = &list->adapter->tensors[module->tensors[VC_LORA_UP]];
    uint64_t rank = a->n_dims >= 2 ? a->shape[0] / place->n_experts : 0;
    unsigned first = place->parameter != NULL && t->n_dims == 3; /* the axis of outputs; before it experts */
    bool factors = a->n_dims >= 2 && b->n_dims >= 2 && rank != 0 && a->shape[0] == rank * place->n_experts &&
                   b->shape[1] == a->shape[0] && behind(b, 2) == 1 && t->n_dims >= 2;
    bool some = t->n_dims == 2 && place->from + place->n_rows <= place->outputs && place->outputs == b->shape[0];
    bool straight =
        factors && behind(t, first + 1) == behind(a, 1) && (place->n_rows != 0 ? some : t->shape[first] == b->shape[0]);
    bool turned = factors && t->n_dims == first + 2 && place->n_rows == 0 && t->shape[first] == behind(a, 1) &&
                  t->shape[first + 1] == b->shape[0];
    char text[3][96];

    if (module->embedding) {
        straight = false;
    } else if (straight && turned && place->parameter != NULL) {
        char bias[512];

        (void)snprintf(bias, sizeof bias, "%s_bias", t->name);
        turned = first == 1 && vc_model_find(model, bias) != VC_NO_TENSOR; /* gpt-oss: [experts, inputs, outputs] */
        VC_REFUSE_IF(first == 1 && !turned, ctx, VC_E_UNSUPPORTED,
                     "%s: %s has square matrices of experts, and nothing says which of their axes is the inputs",
                     list->adapter->path, t->name);
        straight = !turned;
    } else if (straight && turned) {
        turned = t->axis_reason != NULL || model->conv1d ? t->channel_axis == 1 : list->said.transposed;
        straight = !turned;
    }
    VC_REFUSE_IF(!straight && !turned, ctx, VC_E_UNSUPPORTED,
                 "%s is an adapter of another model: %s has the factors [%s] and [%s], and %s is [%s]",
                 list->adapter->path, module->name, vc_shape_text(a->shape, a->n_dims, text[0], sizeof text[0]),
                 vc_shape_text(b->shape, b->n_dims, text[1], sizeof text[1]), t->name,
                 vc_shape_text(t->shape, t->n_dims, text[2], sizeof text[2]));
    term->transposed = turned;
    term->rank = rank;
    return VC_OK;
}

/* DoRA has a magnitude for each output, and its weight can only be 1: half of a norm is no norm of half the
 * change. */
static enum vc_status check_magnitude(struct vc_ctx *ctx, const struct vc_lora_list *list,
                                      const struct vc_lora_place *place, double weight)
{
    const struct vc_lora_module *module = &list->modules[place->module];
    size_t m = module->tensors[VC_LORA_MAGNITUDE];
    const struct vc_tensor *b = &list->adapter->tensors[module->tensors[VC_LORA_UP]];

    VC_REFUSE_IF(m != VC_NO_TENSOR && list->adapter->tensors[m].n_elems != b->shape[0], ctx, VC_E_UNSUPPORTED,
                 "%s: %s: DoRA has a magnitude for each of %llu outputs here, not %llu", list->adapter->path,
                 module->name, (unsigned long long)b->shape[0], (unsigned long long)list->adapter->tensors[m].n_elems);
    VC_REFUSE_IF(m != VC_NO_TENSOR && place->n_rows != 0, ctx, VC_E_UNSUPPORTED,
                 "%s: %s has a magnitude, and the model has its rows in other matrices", list->adapter->path,
                 module->name);
    VC_REFUSE_IF(m != VC_NO_TENSOR && weight != 1.0, ctx, VC_E_ARGUMENT,
                 "%s: is one of DoRA, whose magnitudes have no share: its weight is 1", list->adapter->path);
    return VC_OK;
}

/* ---- terms ---- */

/* Whether both change the same rows of a tensor in one adapter: it has two names of the model's there (with and without
 * "text_model.", say), or factors and a difference, of which ComfyUI reads one. What PEFT replaces it adds to. */
static bool is_twice(const struct vc_lora_term *a, const struct vc_lora_term *b)
{
    const struct vc_lora_place *p = &a->place;
    const struct vc_lora_place *q = &b->place;

    return a->from == b->from && a->module->tensors[VC_LORA_WHOLE] == VC_NO_TENSOR && p->tensor == q->tensor &&
           (p->n_rows == 0 || q->n_rows == 0 || (p->to < q->to + q->n_rows && q->to < p->to + p->n_rows));
}

/* Behind the terms of earlier adapters. What replaces a tensor comes before the sums of its own adapter: PEFT stores the
 * embedding that it adds to. */
static enum vc_status add_term(struct vc_ctx *ctx, struct merge *m, const struct vc_model *model,
                               struct vc_lora_term term)
{
    const struct vc_tensor *t = &model->tensors[term.place.tensor];
    size_t first = t->alias_of != VC_NO_TENSOR ? t->alias_of : term.place.tensor;
    struct vc_lora_term *copy = vc_arena_alloc(ctx, &m->plan_arena, sizeof *copy);
    struct vc_lora_term **end = &m->terms[first];

    VC_CALL_ALLOC(copy);
    for (const struct vc_lora_term *other = *end; term.kind == VC_LORA_WHOLE && other != NULL; other = other->next) {
        bool set = term.module->tensors[VC_LORA_SET] != VC_NO_TENSOR;

        VC_REFUSE_IF(other->from != term.from || other->kind == VC_LORA_WHOLE || set, ctx, VC_E_UNSUPPORTED,
                     "%s: replaces %s, which %s changes, too", term.from->adapter->path, t->name,
                     other->from->adapter->path);
    }
    while (term.kind != VC_LORA_WHOLE && *end != NULL) {
        VC_REFUSE_IF(is_twice(*end, &term), ctx, VC_E_FORMAT, "%s: %s and %s are both of %s", term.from->adapter->path,
                     term.from->adapter->tensors[(*end)->own].name, term.from->adapter->tensors[term.own].name,
                     t->name);
        end = &(*end)->next;
    }
    *copy = term;
    copy->next = *end;
    *end = copy;
    return VC_OK;
}

/* What replaces a tensor must be floats of at most 32 bits, and what is added all that can be decoded, as factors can. */
static enum vc_status check_type(struct vc_ctx *ctx, const struct vc_lora_term *term)
{
    const struct vc_tensor *own = &term->from->adapter->tensors[term->own];
    const struct vc_desc desc = {.dtype = own->dtype, .quant = own->quant};
    bool decoded =
        term->kind == VC_LORA_DIFF && (vc_decode_can(&desc) || (vc_decode_is_f8(&desc) && own->undecoded == NULL));

    VC_REFUSE_IF(!decoded && own->dtype != VC_DTYPE_F32 && own->dtype != VC_DTYPE_F16 && own->dtype != VC_DTYPE_BF16,
                 ctx, VC_E_UNSUPPORTED, "%s: %s is %s, no floats of 32 or 16 bits", term->from->adapter->path,
                 own->name, vc_dtype_name(own->dtype));
    return VC_OK;
}

/* A tensor `own` that is added to the model's or replaces it, or rows of it, must have its shape. Rows that lie elsewhere in
 * the adapter's are those of a matrix. */
static enum vc_status add_whole(struct vc_ctx *ctx, struct merge *m, const struct vc_model *model,
                                struct vc_lora_term term)
{
    const struct vc_lora_list *list = term.from;
    const struct vc_adapter_rows *rows = term.module->rows;
    const struct vc_tensor *t = &model->tensors[term.place.tensor];
    const struct vc_tensor *own = &list->adapter->tensors[term.own];
    uint64_t n_rows = rows != NULL ? rows->n : term.place.n_rows != 0 ? term.place.outputs : t->shape[0];
    bool fits = own->n_dims == t->n_dims && (rows == NULL || t->n_dims >= 2) &&
                (term.place.n_rows == 0 || (t->n_dims == 2 && term.place.from + term.place.n_rows <= n_rows));
    char text[2][96];

    for (unsigned d = 0; fits && d < t->n_dims; d++) {
        fits = own->shape[d] == (d == 0 ? n_rows : t->shape[d]);
    }
    VC_REFUSE_IF(term.kind == VC_LORA_WHOLE && term.place.n_rows != 0, ctx, VC_E_UNSUPPORTED,
                 "%s: %s replaces rows that the model has in other matrices", list->adapter->path, own->name);
    for (size_t i = 0; rows != NULL && i < rows->n; i++) {
        VC_REFUSE_IF(rows->rows[i] >= t->shape[0], ctx, VC_E_UNSUPPORTED, "%s: %s has no row %llu", list->adapter->path,
                     t->name, (unsigned long long)rows->rows[i]);
    }
    VC_REFUSE_IF(
        !fits, ctx, VC_E_UNSUPPORTED,
        "%s: %s is [%s], and that of the model is [%s]: the adapter was trained with other rows (of new tokens, "
        "say), and what is merged keeps its shape",
        list->adapter->path, own->name, vc_shape_text(own->shape, own->n_dims, text[0], sizeof text[0]),
        vc_shape_text(t->shape, t->n_dims, text[1], sizeof text[1]));
    VC_CALL(check_type(ctx, &term));
    return add_term(ctx, m, model, term);
}

/* What is added to the bias beside the weight, if the module has that piece. */
static enum vc_status add_bias(struct vc_ctx *ctx, struct merge *m, const struct vc_model *model,
                               struct vc_lora_term term, enum vc_lora_piece piece)
{
    size_t bias;

    if (term.module->tensors[piece] == VC_NO_TENSOR) {
        return VC_OK;
    }
    term.own = term.module->tensors[piece];
    term.kind = VC_LORA_DIFF;
    VC_CALL(vc_find_beside(ctx, model, model->tensors[term.place.tensor].name, ".weight", ".bias", &bias));
    VC_REFUSE_IF(bias == VC_NO_TENSOR || term.place.n_rows != 0 ||
                     model->tensors[bias].n_elems != term.from->adapter->tensors[term.own].n_elems,
                 ctx, VC_E_UNSUPPORTED, "%s: %s has a bias, and the model has none of that length there",
                 term.from->adapter->path, term.module->name);
    term.place.tensor = bias;
    VC_CALL(check_type(ctx, &term));
    return add_term(ctx, m, model, term);
}

/* The terms of a place for factors: of its weight and, where the module has one, of its bias. */
static enum vc_status add_product(struct vc_ctx *ctx, struct merge *m, const struct vc_model *model,
                                  struct vc_lora_term term, double weight)
{
    struct vc_lora_term sum = term;

    sum.own = term.module->tensors[VC_LORA_DOWN];
    VC_CALL(find_turn(ctx, model, &sum));
    VC_CALL(check_magnitude(ctx, sum.from, &sum.place, weight));
    VC_CALL(find_scale(ctx, sum.from, &sum.place, sum.rank, &sum.scale));
    sum.scale *= weight;
    term.scale = sum.scale;
    VC_CALL(add_term(ctx, m, model, sum));
    return add_bias(ctx, m, model, term, VC_LORA_UP_BIAS);
}

/* The terms of a place, each kind that the module has. */
static enum vc_status add_place(struct vc_ctx *ctx, struct merge *m, const struct vc_lora_list *list,
                                const struct vc_lora_place *place, double weight, const struct vc_model *model)
{
    const struct vc_lora_module *module = &list->modules[place->module];
    struct vc_lora_term term = {.from = list, .module = module, .place = *place, .scale = weight};
    static const struct {
        enum vc_lora_piece piece, kind;
    } whole[] = {{VC_LORA_DIFF, VC_LORA_DIFF}, {VC_LORA_WHOLE, VC_LORA_WHOLE}, {VC_LORA_SET, VC_LORA_WHOLE}};

    for (size_t k = 0; place->parameter != NULL && k < VC_LORA_PIECES; k++) {
        VC_REFUSE_IF(k != VC_LORA_DOWN && k != VC_LORA_UP && k != VC_LORA_ALPHA && module->tensors[k] != VC_NO_TENSOR,
                     ctx, VC_E_UNSUPPORTED,
                     "%s: %s has a magnitude or a bias, and is a parameter (%s), for which peft has neither: %s",
                     list->adapter->path, module->name, place->parameter,
                     list->adapter->tensors[module->tensors[k]].name);
    }
    if (module->tensors[VC_LORA_DOWN] != VC_NO_TENSOR) {
        VC_CALL(add_product(ctx, m, model, term, weight));
    }
    for (size_t i = 0; i < sizeof whole / sizeof whole[0]; i++) {
        term.own = module->tensors[whole[i].piece];
        term.kind = whole[i].kind;
        if (term.own != VC_NO_TENSOR) {
            VC_CALL(add_whole(ctx, m, model, term));
        }
    }
    return add_bias(ctx, m, model, term, VC_LORA_DIFF_BIAS);
}

/* The file has another matrix of the embedding's shape outside of numbered layers: an output of its own under another
 * name than lm_head, "output.weight", "transformer.output_layer.weight". */
static bool has_output(const struct vc_model *model, size_t embedding)
{
    const struct vc_tensor *e = &model->tensors[embedding];
    bool found = false;

    for (size_t i = 0; i < model->n_tensors && !found; i++) {
        const struct vc_tensor *t = &model->tensors[i];

        found = i != embedding && e->n_dims == 2 && t->n_dims == 2 && t->shape[0] == e->shape[0] &&
                t->shape[1] == e->shape[1] && strpbrk(t->name, "0123456789") == NULL &&
                !vc_name_is_embedding_table(t->name);
    }
    return found;
}

/* An embedding that is the output, too, and that the adapter replaces as one of both alone, would change both. What ComfyUI
 * sets is the parameter itself, which it has once: both are meant. */
static enum vc_status check_tied(struct vc_ctx *ctx, const struct vc_lora_list *list, const struct vc_model *model,
                                 const struct vc_lora_place *place)
{
    const struct vc_lora_module *module = &list->modules[place->module];
    const char *name = model->tensors[place->tensor].name;
    bool words = vc_name_is_embedding_table(name) && strstr(name, "pos") == NULL && strstr(name, "wpe") == NULL &&
                 strstr(name, "token_type") == NULL;

    VC_REFUSE_IF(
        module->tensors[VC_LORA_WHOLE] != VC_NO_TENSOR && module->rows == NULL && !module->base && !place->twice &&
            words && !has_output(model, place->tensor),
        ctx, VC_E_UNSUPPORTED,
        "%s: replaces %s, which is the model's output, too, and has nothing for that: give the model an output "
        "of its own first (tie_word_embeddings false), or train with ensure_weight_tying",
        list->adapter->path, name);
    return VC_OK;
}

/* All modules of one adapter. Modules without a tensor are refused, or left out with a note; an adapter of
 * which no module is found is refused always. */
static enum vc_status add_adapter(struct vc_ctx *ctx, struct merge *m, const struct vc_lora_list *list, double weight,
                                  const struct vc_model *model)
{
    struct vc_lora_place *places;
    size_t n_places, missing, n_missing;
    const char *base = list->said.base != NULL ? list->said.base : "";
    bool tied = model->is_tied != NULL && model->is_tied(model);

    VC_CALL(vc_lora_names(ctx, &m->plan_arena, list, model, &places, &n_places, &missing, &n_missing));
    VC_REFUSE_IF(
        missing < list->n && (!m->options.partial || n_places == 0), ctx, VC_E_UNSUPPORTED,
        "%s is an adapter of another model%s%s: the model has no tensor for %s%s (%zu of %zu modules; %s leaves "
        "them out)",
        list->adapter->path, base[0] != '\0' ? ", " : "", base, list->modules[missing].name,
        tied ? ", and its output is its embedding" : "", n_missing, list->n, vc_option(ctx, "partial"));
    for (size_t i = 0; i < n_places; i++) {
        if (tied) {
            VC_CALL(check_tied(ctx, list, model, &places[i]));
        }
        VC_CALL(add_place(ctx, m, list, &places[i], weight, model));
    }
    if (n_missing != 0) {
        const char *more = vc_arena_printf(ctx, &m->plan_arena,
                                           "%s: %zu of %zu modules are left out, for which the model has no tensor: %s",
                                           list->adapter->path, n_missing, list->n, list->modules[missing].name);

        VC_CALL_ALLOC(more);
        VC_CALL(vc_note_add(ctx, &m->plan_arena, more, &m->left_out));
    }
    return VC_OK;
}

/* ---- the pass ---- */

enum vc_status vc_merge_find(struct vc_ctx *ctx, struct merge *m, const struct vc_model *model)
{
    size_t n = model->n_tensors + 1;

    vc_arena_release(ctx, &m->plan_arena);
    m->left_out = NULL;
    VC_CALL_ALLOC(m->terms = vc_arena_alloc(ctx, &m->plan_arena, n * sizeof(struct vc_lora_term *)));
    memset((void *)m->terms, 0, n * sizeof(struct vc_lora_term *));
    for (size_t i = 0; i < m->options.n_loras; i++) {
        VC_CALL(add_adapter(ctx, m, &m->lists[i], m->options.loras[i].weight, model));
    }
    return VC_OK;
}

const struct vc_lora_term *vc_merge_terms(const struct merge *m, const struct vc_model *model, size_t tensor)
{
    size_t alias = model->tensors[tensor].alias_of;

    return m->terms[alias != VC_NO_TENSOR ? alias : tensor];
}

/* Whether the model was opened with the adapters in it (vc_open_options.merge). */
static bool is_merged(const struct vc_model *model)
{
    return model->merged || (model->made_of != NULL && model->made_of->merged);
}

/* Terms are by number of the file's tensors, so models that are made of the file, and plans that leave
 * layers out, are refused. */
static enum vc_status merge_plan_begin(struct vc_ctx *ctx, struct vc_pass *pass, const struct vc_plan *plan)
{
    struct merge *m = pass->self;

    if (is_merged(plan->model)) {
        return VC_OK;
    }
    VC_REFUSE_IF(plan->model->made_of != NULL, ctx, VC_E_UNSUPPORTED,
                 "adapters are merged into the file itself, and this is the %s model that is made of it, with other "
                 "names and rows in another order: write what is merged first, and make the other model of that",
                 plan->model->format_name);
    VC_REFUSE_IF(
        plan->names != NULL || plan->gone != NULL, ctx, VC_E_UNSUPPORTED,
        "an earlier pass leaves layers out and gives others their numbers, by which an adapter knows them: merge "
        "first");
    return vc_merge_find(ctx, m, plan->model);
}

/* An adapter is made for the weights as the file has them. Of what passes before this one do, only another type and
 * other adapters leave them so: sums would fill the zeros of pruning, and a removed row is one of its factors. */
static enum vc_status check_earlier(struct vc_ctx *ctx, const struct vc_item *item)
{
    for (size_t k = 0; k < item->chain->n_steps; k++) {
        enum vc_action action = item->chain->steps[k]->action;

        VC_REFUSE_IF(
            action != VC_ACTION_CAST && action != VC_ACTION_DEQUANTIZED && action != VC_ACTION_MERGED, ctx,
            VC_E_UNSUPPORTED,
            "an earlier pass changes it (%s), and an adapter is made for the weights as they were: merge first",
            item->chain->steps[k]->scheme);
    }
    return VC_OK;
}

/* Codes are refused: their sums would need another rounding than the scheme's. */
enum vc_status vc_merge_takes(struct vc_ctx *ctx, const struct vc_desc *desc)
{
    VC_REFUSE_IF(desc->quant != NULL || vc_dtype_is_quantized(desc->dtype), ctx, VC_E_UNSUPPORTED,
                 "is quantized, and adapters are merged into floats: %s makes them first",
                 vc_option(ctx, "dequantize"));
    VC_REFUSE_IF(desc->dtype != VC_DTYPE_F32 && desc->dtype != VC_DTYPE_F16 && desc->dtype != VC_DTYPE_BF16, ctx,
                 VC_E_UNSUPPORTED, "is %s, and adapters are merged into floats of 32 and 16 bits",
                 vc_dtype_name(desc->dtype));
    return VC_OK;
}

/* A tensor without terms is kept. */
static enum vc_status merge_plan(struct vc_ctx *ctx, struct vc_pass *pass, struct vc_item *item)
{
    const struct merge *m = pass->self;
    const struct vc_lora_term *terms = is_merged(item->set->model) ? NULL : m->terms[item->source];

    if (terms == NULL) {
        return vc_item_keep_as(ctx, item, is_merged(item->set->model) ? "merged before" : "no adapter");
    }
    VC_CALL(vc_merge_takes(ctx, item->desc));
    VC_CALL(check_earlier(ctx, item));
    return vc_lora_add_steps(ctx, item, terms);
}

/* The note about modules that are left out. */
static enum vc_status merge_plan_end(struct vc_ctx *ctx, struct vc_pass *pass, struct vc_plan *plan)
{
    struct merge *m = pass->self;

    pass->note = m->left_out;
    return VC_OK;
}

/* Everything of the pass lies in its two arenas. */
void vc_merge_free(struct vc_ctx *ctx, struct merge *m)
{
    if (m != NULL) {
        vc_arena_release(ctx, &m->plan_arena);
        vc_arena_release(ctx, &m->arena);
        vc_free(ctx, m);
    }
}

static void merge_free(struct vc_ctx *ctx, struct vc_pass *pass)
{
    vc_merge_free(ctx, pass->self);
}

static const struct vc_pass_ops merge_ops = {.name = "merge",
                                             .plan_begin = merge_plan_begin,
                                             .plan = merge_plan,
                                             .plan_end = merge_plan_end,
                                             .free = merge_free};

/* Copies the list of adapters and reads each of them. The models stay the caller's and must stay open. */
static enum vc_status read_adapters(struct vc_ctx *ctx, struct merge *m, const struct vc_merge_options *options)
{
    struct vc_lora *copy = vc_arena_alloc(ctx, &m->arena, options->n_loras * sizeof *copy);

    VC_CALL_ALLOC(copy);
    memcpy(copy, options->loras, options->n_loras * sizeof *copy);
    m->options.loras = copy;
    VC_CALL_ALLOC(m->lists = vc_arena_alloc(ctx, &m->arena, options->n_loras * sizeof *m->lists));
    for (size_t i = 0; i < options->n_loras; i++) {
        VC_REFUSE_IF(copy[i].adapter == NULL || !isfinite(copy[i].weight), ctx, VC_E_ARGUMENT,
                     "adapter %zu is not open, or its weight is no finite number", i);
        VC_CALL(vc_lora_modules(ctx, &m->arena, copy[i].adapter, &m->lists[i]));
    }
    m->recipe[0] = (struct vc_recipe_entry){"merge", "lora"};
    m->pass.recipe = m->recipe;
    m->pass.n_recipe = 1;
    m->pass.command =
        vc_arena_printf(ctx, &m->arena, "merge (%zu adapter%s)", options->n_loras, options->n_loras == 1 ? "" : "s");
    return m->pass.command != NULL ? VC_OK : VC_E_NOMEM;
}

enum vc_status vc_merge_create(struct vc_ctx *ctx, const struct vc_merge_options *options, struct merge **out)
{
    struct vc_merge_options own;
    struct merge *m = NULL;
    enum vc_status status = VC_OK;

    VC_TRY(vc_options_read(ctx, VC_OPTIONS(merge), options, &own));
    VC_REFUSE_IF(own.n_loras == 0, ctx, VC_E_ARGUMENT, "merge needs an adapter: %s", vc_option(ctx, "loras"));
    VC_CALL_FOUND(ctx, vc_kernels_get(ctx));
    VC_TRY(VC_ZEROS(ctx, VC_TAG_MISC, m, 1));
    m->pass.ops = &merge_ops;
    m->pass.self = m;
    m->options = own;
    VC_TRY(read_adapters(ctx, m, &own));
    *out = m;
    return VC_OK;
out:
    vc_merge_free(ctx, m);
    return status;
}

/* The job owns the pass once it has it. */
enum vc_status vc_job_add_merge(struct vc_ctx *ctx, struct vc_job *job, const struct vc_merge_options *options)
{
    struct merge *m = NULL;

    vc_clear_error(ctx);
    VC_CALL(vc_merge_create(ctx, options, &m));
    return vc_job_add_pass(ctx, job, &m->pass);
}
