/* plan_forms.c - the forms that weights can have: as they are, in half precision, as int8, with neurons removed. Where
 * there is a file, each form is a job that is planned and thrown away, so that its bytes are those of the passes, and
 * what they refuse is not offered. No weights are read for that: which neurons go does not matter for sizes. */
#include <math.h>
#include <string.h>

#include <vcompress/vcompress.h>

#include "core/base/checked.h"
#include "memory/plan_inside.h"
#include "memory/written.h"

static const char *const shares[] = {"0.1", "0.2", "0.3", "0.4", "0.5"};
static const double share_values[] = {0.1, 0.2, 0.3, 0.4, 0.5};

static uint64_t rounded(const struct vc_planning *p, uint64_t bytes)
{
    uint64_t n = 0;

    return vc_round_up_u64(bytes, p->align, &n) ? n : bytes;
}

/* ---- errors ---- */

static double usual_error(const char *scheme)
{
    return strncmp(scheme, "int8", 4) == 0 ? VC_ERROR_INT8 : strcmp(scheme, "bf16") == 0 ? VC_ERROR_BF16 : VC_ERROR_F16;
}

/* The row of a tensor, of which there is one at most; they are in the order of the model. NULL: it has none. */
static const struct vc_sensitivity_row *row_of(const struct vc_sensitivity *scan, size_t tensor)
{
    size_t low = 0;
    size_t high = scan->n_rows;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (scan->rows[middle].tensor < tensor) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < scan->n_rows && scan->rows[low].tensor == tensor ? &scan->rows[low] : NULL;
}

/* The error of one scheme on a tensor, as it was measured; below 0: it was not. */
static double measured_error(const struct vc_planning *p, const struct vc_report_row *row, double *norm)
{
    const struct vc_sensitivity_row *seen = row_of(p->scan, vc_model_find(p->model, row->name));

    if (seen == NULL || seen->errors == NULL) {
        return -1;
    }
    *norm = seen->rms * seen->rms * (double)seen->n_elems;
    for (size_t w = 0; w < p->scan->n_ways; w++) {
        if (strcmp(p->scan->ways[w].name, row->scheme) == 0 && seen->errors[w].reason == NULL) {
            return seen->errors[w].relative;
        }
    }
    return -1;
}

/* Of all weights: each tensor's error weighs as much as its squares do. Unmeasured ones have usual errors. */
static void sum_errors(const struct vc_planning *p, const struct vc_report *report, struct vc_form *form)
{
    double change = 0;
    double whole = 0;
    double guessed = 0;
    struct vc_report_row row;

    for (size_t k = 0; vc_report_get_row(report, k, &row); k++) {
        double norm = (double)row.n_elems;
        double error = 0;

        if (row.role != VC_ROLE_WEIGHT || row.n_parts + (*row.scheme != '\0') == 0) {
            continue;
        }
        if (p->scan != NULL) {
            error = measured_error(p, &row, &norm);
        }
        if (p->scan == NULL || error < 0) {
            error = usual_error(row.scheme);
            norm = p->scan != NULL ? 0 : norm;
            guessed += (double)row.n_elems;
        }
        change += error * error * norm;
        whole += norm;
    }
    form->error = whole > 0 ? sqrt(change / whole) : 0;
    form->measured = p->scan != NULL && guessed * 100 < (double)report->totals.n_params;
}

/* Units that are equally important: what of the weights is gone is the square of the error. */
static void add_pruning(struct vc_form *form, uint64_t before)
{
    double left = before == 0 ? 1 : (double)form->n_params / (double)before;
    double gone = left < 1 ? 1 - left : 0;

    form->error = sqrt(form->error * form->error + gone);
    form->measured = false;
}

/* ---- jobs ---- */

/* Removes as many units of every group of neurons as prune --structured SHARE does; the last ones, whatever they hold.
 */
static enum vc_status add_removal(struct vc_planning *p, struct vc_job *job, double share)
{
    struct vc_structured_options options;
    struct vc_structured_units *units = NULL;
    uint64_t *numbers = NULL;
    uint64_t room = 0;
    size_t n = vc_couplings_count(p->couplings);
    enum vc_status status;

    vc_structured_defaults(&options);
    for (size_t k = 0; k < n; k++) {
        room += vc_coupling(p->couplings, k)->n_units;
    }
    units = vc_alloc_array(p->ctx, VC_TAG_MISC, n + 1, sizeof *units);
    VC_TRY_ALLOC(units);
    numbers = vc_alloc_array(p->ctx, VC_TAG_MISC, (size_t)room + 1, sizeof *numbers);
    VC_TRY_ALLOC(numbers);
    room = 0;
    for (size_t k = 0; k < n; k++) {
        const struct vc_coupling *group = vc_coupling(p->couplings, k);
        uint64_t gone = (uint64_t)floor((double)group->n_units * share + 1e-9);

        if (group->unit != VC_UNIT_NEURONS || group->fixed != NULL || gone == 0 || !group->members[0].makes ||
            group->members[0].whole) {
            continue;
        }
        units[options.n_remove++] = (struct vc_structured_units){group->members[0].tensor, group->members[0].axis,
                                                                 (size_t)gone, &numbers[room]};
        for (uint64_t u = group->n_units - gone; u < group->n_units; u++) {
            numbers[room++] = u;
        }
    }
    options.remove = units; /* by the graph of the model itself: a text beside it would not become smaller */
    status = options.n_remove != 0 ? vc_job_add_structured(p->ctx, job, &options) : VC_E_UNSUPPORTED;
out:
    vc_free(p->ctx, units);
    vc_free(p->ctx, numbers);
    return status;
}

static enum vc_status add_quantize(struct vc_planning *p, struct vc_job *job, const struct vc_form *form)
{
    struct vc_quantize_options options;
    bool bf16 = form->type == VC_DTYPE_BF16;

    vc_quantize_defaults(&options);
    options.target = form->int8 ? VC_TARGET_INT8 : bf16 ? VC_TARGET_BF16 : VC_TARGET_F16;
    options.rest = bf16 ? "bf16" : "fp16";
    return vc_job_add_quantize(p->ctx, job, &options);
}

/* A failure of these says that the passes do not do that to this file, but for those of the system. */
static bool is_refusal(enum vc_status status)
{
    return status == VC_E_ARGUMENT || status == VC_E_UNSUPPORTED || status == VC_E_FORMAT || status == VC_E_GATE;
}

/* What the loader that usually reads the output does with its codes. */
static enum vc_runtime runtime_of(const struct vc_planning *p, const struct vc_report *report)
{
    if (p->options.runtime_given) {
        return p->memory.runtime;
    }
    return vc_memory_runtime(report->layouts != NULL ? report->layouts[0] : NULL);
}

/* Plans what makes the form, and counts it. *ok: that is possible. */
static enum vc_status count_form(struct vc_planning *p, struct vc_form *form, double share, bool *ok)
{
    struct vc_write_options write;
    struct vc_job *job = NULL;
    const struct vc_report *report;
    struct vc_written loaded = {.type = form->type, .align = p->align};
    enum vc_status status;

    vc_write_defaults(&write);
    write.dry_run = true;
    write.rows_on_request = true;
    VC_TRY(vc_job_create(p->ctx, p->model, &job));
    if (share > 0) {
        VC_TRY(add_removal(p, job, share));
    }
    if (form->passes[0] != NULL && (share == 0 || form->passes[1] != NULL)) {
        VC_TRY(add_quantize(p, job, form));
    }
    VC_TRY(vc_job_plan(p->ctx, job, &write));
    report = vc_job_report(job);
    form->runtime = runtime_of(p, report);
    loaded.runtime = form->runtime;
    vc_written_add(&loaded, report);
    form->parameter_bytes = loaded.bytes;
    form->largest_bytes = loaded.largest;
    form->n_params = report->n_params_after;
    form->counted = true;
    sum_errors(p, report, form);
    if (share > 0) {
        add_pruning(form, report->totals.n_params);
    }
out:
    vc_job_free(job);
    *ok = status == VC_OK;
    if (is_refusal(status)) {
        vc_clear_error(p->ctx);
        status = VC_OK;
    }
    return status;
}

/* ---- without a file ---- */

/* Which operators read a value: products (MatMul, Gemm, Conv) as their weight, or others. */
enum { READ_BY_PRODUCT = 1, READ_OTHERWISE = 2 };

/* For every value, how it is read (READ_BY_PRODUCT, READ_OTHERWISE). int8 keeps a weight as float where an operator
 * other than a product reads the weight, and where the last product does, the output head. The caller frees the array
 * with vc_free. Returns NULL if memory is short. */
static unsigned char *list_readers(const struct vc_planning *p, uint32_t head)
{
    unsigned char *readers = vc_calloc_array(p->ctx, VC_TAG_MISC, (size_t)vc_graph_value_count(p->graph) + 1, 1);

    for (uint32_t n = 0; readers != NULL && n < vc_graph_node_count(p->graph); n++) {
        const struct vc_graph_node *node = vc_graph_node(p->graph, n);
        bool product =
            strcmp(node->op, "MatMul") == 0 || strcmp(node->op, "Gemm") == 0 || strcmp(node->op, "Conv") == 0;

        for (unsigned k = 0; k < node->n_inputs; k++) {
            if (node->inputs[k] != VC_NO_VALUE) {
                readers[node->inputs[k]] |= product && k == 1 && n != head ? READ_BY_PRODUCT : READ_OTHERWISE;
            }
        }
    }
    return readers;
}

static uint64_t elems_of(const struct vc_graph_param *param, uint64_t *rows)
{
    uint64_t n = 1;

    for (unsigned k = 0; k < param->n_dims; k++) {
        n *= param->sliced && k == param->axis ? param->count : param->shape[k];
    }
    *rows = param->n_dims == 0 ? 1 : param->sliced && param->axis == 0 ? param->count : param->shape[0];
    return n;
}

/* The last product with a weight. */
static uint32_t head_of(const struct vc_graph *graph)
{
    uint32_t head = VC_NO_NODE;

    for (uint32_t n = 0; n < vc_graph_node_count(graph); n++) {
        const struct vc_graph_node *node = vc_graph_node(graph, n);
        bool product = strcmp(node->op, "MatMul") == 0 || strcmp(node->op, "Gemm") == 0;

        if (product && node->n_inputs > 1 && node->inputs[1] != VC_NO_VALUE &&
            vc_graph_value(graph, node->inputs[1])->kind == VC_VALUE_PARAMETER) {
            head = n;
        }
    }
    return head;
}

/* Codes and an f32 per row for matrices that loaders look for codes in; embeddings, the head and the rest in half
 * precision. */
static enum vc_status count_int8(const struct vc_planning *p, struct vc_form *form)
{
    unsigned char *readers = list_readers(p, head_of(p->graph));

    if (readers == NULL) {
        return VC_E_NOMEM;
    }
    for (uint32_t k = 0; k < vc_graph_param_count(p->graph); k++) {
        const struct vc_graph_param *param = vc_graph_param(p->graph, k);
        uint64_t rows;
        uint64_t n = elems_of(param, &rows);

        if (param->tied_to != VC_NO_PARAM) {
            continue;
        }
        if (n < VC_DEFAULT_MIN_ELEMS || rows == 0 || n / rows < VC_DEFAULT_MIN_ROW ||
            readers[param->value] != READ_BY_PRODUCT) {
            form->parameter_bytes += rounded(p, n * 2);
        } else {
            form->parameter_bytes += rounded(p, n) + rounded(p, rows * 4);
        }
        form->n_params += n;
    }
    form->counted = true;
    form->error = VC_ERROR_INT8;
    vc_free(p->ctx, readers);
    return VC_OK;
}

/* ---- the list ---- */

static bool has_codes(const struct vc_model *model)
{
    for (size_t i = 0; model != NULL && i < vc_model_tensor_count(model); i++) {
        const struct vc_tensor *tensor = vc_model_tensor(model, i);

        if (tensor->quant != NULL || vc_dtype_is_quantized(tensor->dtype)) {
            return true;
        }
    }
    return false;
}

/* Adds one form, where it is possible. */
static enum vc_status add_form(struct vc_planning *p, struct vc_form form, double share)
{
    bool ok = true;
    enum vc_status status = VC_OK;

    if (p->model != NULL) {
        status = count_form(p, &form, share, &ok);
    } else if (form.int8) {
        status = count_int8(p, &form);
    } else {
        form.error = VC_ERROR_F16;
    }
    if (status == VC_OK && ok && p->n_forms < VC_MAX_FORMS) {
        p->forms[p->n_forms++] = form;
    }
    return status;
}

/* "quantize --int8 --rest fp16", and its tag. */
static void set_quantize(struct vc_form *form, bool int8, bool bf16)
{
    form->int8 = int8;
    form->type = bf16 ? VC_DTYPE_BF16 : VC_DTYPE_F16;
    form->tag = int8 ? "int8" : "fp16";
    form->passes[0] = int8 && bf16 ? "quantize --int8 --rest bf16"
                      : int8       ? "quantize --int8 --rest fp16"
                                   : "quantize --fp16 --rest fp16";
}

static enum vc_status add_pruned(struct vc_planning *p, const struct vc_form *base, size_t share)
{
    struct vc_form form = *base;

    form.counted = false;
    form.parameter_bytes = form.largest_bytes = form.n_params = 0;
    form.share = shares[share];
    form.passes[1] = base->passes[0];
    form.passes[0] = vc_arena_printf(p->ctx, &p->out->arena, "prune --structured %s", shares[share]);
    form.tag = vc_arena_printf(p->ctx, &p->out->arena, base->tag == NULL ? "slim" : "slim.%s", base->tag);
    if (form.passes[0] == NULL || form.tag == NULL) {
        return VC_E_NOMEM;
    }
    return add_form(p, form, share_values[share]);
}

/* The groups that can be cut; a graph that does not tell is no failure. */
static enum vc_status find_couplings(struct vc_planning *p)
{
    enum vc_status status = vc_couplings_of_graph(p->ctx, p->graph, &p->couplings);

    if (is_refusal(status)) {
        vc_clear_error(p->ctx);
        status = VC_OK;
    }
    return status;
}

static enum vc_status add_quantized(struct vc_planning *p, enum vc_dtype half)
{
    struct vc_form form = p->forms[0];
    enum vc_status status = VC_OK;

    set_quantize(&form, false, false);
    if (half == VC_DTYPE_NONE && p->memory.weights != VC_DTYPE_F16 && p->memory.weights != VC_DTYPE_BF16) {
        VC_TRY(add_form(p, form, 0));
    }
    set_quantize(&form, true, half == VC_DTYPE_BF16 || p->memory.weights == VC_DTYPE_BF16);
    VC_TRY(add_form(p, form, 0));
out:
    return status;
}

enum vc_status vc_plan_forms(struct vc_planning *p)
{
    bool coded = has_codes(p->model);
    bool trains = p->memory.mode != VC_MEMORY_INFER;
    enum vc_dtype usual = vc_memory_float_type(p->graph, NULL); /* of a configuration alone */
    enum vc_dtype half = p->model != NULL                                  ? vc_written_half(p->model)
                         : usual == VC_DTYPE_F16 || usual == VC_DTYPE_BF16 ? usual
                                                                           : VC_DTYPE_NONE;
    size_t n_whole;
    enum vc_status status = VC_OK;

    if (!p->options.runtime_given && coded) {
        p->memory.runtime = vc_memory_runtime(vc_model_layout(p->model));
    }
    p->forms[p->n_forms++] = (struct vc_form){
        .type = p->memory.weights == VC_DTYPE_NONE && !trains ? half : p->memory.weights, .runtime = p->memory.runtime};
    if (trains || coded || p->memory.weights == VC_DTYPE_I8 || p->memory.scheme != NULL) {
        return VC_OK; /* what is trained is not compressed, and what is compressed stays as it is */
    }
    if ((p->options.without & VC_LEVER_WEIGHTS) == 0 && (p->model != NULL || p->graph != NULL)) {
        VC_TRY(add_quantized(p, half));
    }
    if ((p->options.without & VC_LEVER_PRUNE) == 0 && p->model != NULL && p->graph != NULL) {
        VC_TRY(find_couplings(p));
    }
    n_whole = p->n_forms;
    for (size_t k = 0; p->couplings != NULL && k < n_whole; k++) {
        const struct vc_form base = p->forms[k];

        for (size_t s = 0; s < sizeof shares / sizeof shares[0]; s++) {
            VC_TRY(add_pruned(p, &base, s));
        }
    }
out:
    return status;
}
