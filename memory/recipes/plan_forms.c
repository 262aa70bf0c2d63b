/* plan_forms.c - the forms of weights: as stored, half precision, int8, with neurons removed. With a file, each form is
 * a job that is planned and then freed: sizes are exact, and forms that the passes refuse are not offered. No weights
 * are read: sizes do not depend on the choice of neurons.
 *
 *     forms[0]       as stored
 *     quantized      halves, then int8; with a file whose weights are floats
 *     pruned         each of these with a share of its neurons removed
 *     codes          types of few bits, that some loader keeps as codes: GGUF's blocks, or a layout of folders */
#include <math.h>
#include <string.h>

#include <vcompress/experimental.h>

#include "core/base/array.h"
#include "core/base/checked.h"
#include "core/job/job_state.h"
#include "core/model/program.h"
#include "memory/float_type.h"
#include "memory/recipes/plan_inside.h"

static const char *const shares[VC_SHARES] = {"0.1", "0.2", "0.3", "0.4", "0.5"};
static const double share_values[VC_SHARES] = {0.1, 0.2, 0.3, 0.4, 0.5};

/* ---- errors ---- */

/* The usual error of the type: a figure for all models, where none is measured. */
double vc_plan_error(enum vc_dtype type)
{
    size_t n;
    const struct vc_search_scheme *rows = vc_search_schemes(VC_SEARCH_PLAIN, &n);

    return type == VC_DTYPE_BF16 ? vc_search_bf16()->error : rows[type == VC_DTYPE_I8 ? 1 : 0].error;
}

/* The same by the name of a scheme. */
static double usual_error(const char *scheme)
{
    size_t n;

    if (strcmp(scheme, "q8_0") == 0) { /* int8 of a GGUF file */
        return vc_search_schemes(VC_SEARCH_GGUF, &n)[0].error;
    }
    return vc_plan_error(strncmp(scheme, "int8", 4) == 0 ? VC_DTYPE_I8
                         : strcmp(scheme, "bf16") == 0   ? VC_DTYPE_BF16
                                                         : VC_DTYPE_F16);
}

/* The row of a tensor by binary search; rows are in the order of the model. Returns NULL if the tensor has no row. */
static const struct vc_sensitivity_row *row_of(const struct vc_sensitivity *scan, size_t tensor)
{
    size_t low;

    VC_BISECT(low, scan->n_rows, k, scan->rows[k].tensor < tensor);
    return low < scan->n_rows && scan->rows[low].tensor == tensor ? &scan->rows[low] : NULL;
}

/* The measured error of the row's scheme on its tensor, and the tensor's sum of squares. Returns -1 if not measured. */
static double measured_error(const struct vc_planning *p, const struct vc_report_row *row, double *norm)
{
    const struct vc_sensitivity_row *seen = row_of(p->scan, vc_model_find(p->model, row->name));

    if (seen == NULL || seen->errors == NULL) {
        return -1;
    }
    *norm = seen->rms * seen->rms * (double)seen->n_elems;
    for (size_t k = 0; k < p->scan->n_candidates; k++) {
        if (strcmp(p->scan->candidates[k].name, row->scheme) == 0 && seen->errors[k].reason == NULL) {
            return seen->errors[k].relative;
        }
    }
    return -1;
}

/* The error of all weights: each tensor's error is weighted by its sum of squares. Unmeasured tensors have usual
 * errors. */
static void sum_errors(const struct vc_planning *p, const struct vc_report *report, struct vc_weights_form *form)
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

/* Assumes equally important units: the removed share of the weights is the square of the error. */
static void add_pruning(struct vc_weights_form *form, uint64_t before, uint64_t after)
{
    double left = before == 0 ? 1 : (double)after / (double)before;
    double gone = left < 1 ? 1 - left : 0;

    form->error = sqrt(form->error * form->error + gone);
    form->measured = false;
}

/* ---- jobs ---- */

/* Removes as many units of every group of neurons as prune --structured SHARE, but the last units, whatever their
 * values.
 * */
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
    VC_TRY(VC_ARRAY(p->ctx, VC_TAG_MISC, units, n + 1));
    VC_TRY(VC_ARRAY(p->ctx, VC_TAG_MISC, numbers, (size_t)room + 1));
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
    options.remove = units; /* by the graph of the model itself: a text beside the model would not become smaller */
    status = options.n_remove != 0 ? vc_job_add_structured(p->ctx, job, &options) : VC_E_UNSUPPORTED;
out:
    vc_free(p->ctx, units);
    vc_free(p->ctx, numbers);
    return status;
}

/* The pass that makes the form: a half or int8. */
static enum vc_status add_quantize(struct vc_planning *p, struct vc_job *job, const struct vc_weights_form *form)
{
    struct vc_quantize_options options;
    bool bf16 = form->half == VC_DTYPE_BF16;

    vc_quantize_defaults(&options);
    options.target = form->int8 ? VC_TARGET_INT8 : bf16 ? VC_TARGET_BF16 : VC_TARGET_F16;
    options.rest = bf16 ? "bf16" : "fp16";
    if (form->int8 && strcmp(vc_model_format(p->model), "gguf") == 0) {
        options.target = VC_TARGET_GGUF;
        options.gguf = "Q8_0";
        options.rest = NULL;
    }
    return vc_job_add_quantize(p->ctx, job, &options);
}

/* What the program, or the way without a name, that was given does with codes in that layout. */
static enum vc_runtime given_runtime(const struct vc_planning *p, const struct vc_layout *layout)
{
    struct vc_memory_options memory = p->memory;

    vc_memory_set_program(&memory, memory.program, layout);
    return memory.runtime;
}

/* Which program runs the output, and how it treats codes. Of codes that its usual loader decodes, what keeps them. */
static void set_runtime(const struct vc_planning *p, const struct vc_layout *layout, struct vc_weights_form *form)
{
    form->runtime = p->options.runtime_given ? given_runtime(p, layout) : vc_memory_runtime(layout);
    if (p->options.runtime_given || p->memory.program == VC_RUN_BY_ANY) {
        return;
    }
    form->program = vc_memory_program(layout, vc_model_format(form->model), &p->memory);
    if (form->codes != NULL && form->runtime == VC_RUNTIME_DEQUANTIZE) {
        struct vc_memory_options kept = p->memory;
        bool ideal = false;

        kept.runtime = form->runtime;
        vc_memory_set_keeper(&kept, layout, &ideal);
        form->runtime = kept.runtime;
        form->program = kept.program;
        form->ask = ideal ? "--runtime native" : "--runtime vllm";
    }
}

/* Sets form->graph: the graph without this share of the neurons, with the bound sizes. The first job with this share
 * makes the graph and is kept in p->slim. */
static enum vc_status take_graph(struct vc_planning *p, struct vc_job **job, size_t share, struct vc_weights_form *form)
{
    struct vc_slim *slim = &p->slim[share];
    const char *name;
    enum vc_status status = VC_OK;

    if (slim->job == NULL) {
        slim->job = *job;
        *job = NULL;
        slim->planned = (struct vc_planned_model){.ctx = p->ctx};
        VC_TRY(vc_planned_shapes(p->ctx, &slim->job->plan, &slim->planned));
        VC_TRY(vc_planned_graph(p->ctx, &slim->job->plan, &slim->planned));
        for (uint32_t k = 0; (name = vc_graph_symbol(p->graph, k)) != NULL; k++) {
            int64_t size = vc_graph_symbol_size(p->graph, k);

            VC_TRY(size > 0 ? vc_graph_bind(p->ctx, slim->planned.graph, name, size) : VC_OK);
        }
    }
    form->graph = slim->planned.graph;
out:
    return form->graph == NULL && status == VC_OK ? VC_E_UNSUPPORTED : status;
}

/* Plans the job of a form and lists the tensors. *ok: the passes accept the form. share VC_SHARES: no neurons are
 * removed. */
static enum vc_status count_form(struct vc_planning *p, struct vc_weights_form *form, size_t share, bool *ok)
{
    bool removes = share < VC_SHARES;
    struct vc_write_options write;
    struct vc_job *job = NULL;
    enum vc_status status;

    vc_write_defaults(&write);
    write.dry_run = write.rows_on_request = true;
    VC_TRY(vc_job_create(p->ctx, form->model, &job));
    if (removes) {
        VC_TRY(add_removal(p, job, share_values[share]));
    }
    if (form->passes[0] != NULL && (!removes || form->passes[1] != NULL)) {
        VC_TRY(add_quantize(p, job, form));
    }
    VC_TRY(vc_job_plan(p->ctx, job, &write));
    const struct vc_report *report = vc_job_report(job);
    set_runtime(p, report->layouts != NULL ? report->layouts[0] : NULL, form);
    VC_TRY(vc_written_make(p->ctx, report, form->model, &form->written));
    form->counted = true;
    form->activations = form->type == VC_DTYPE_NONE ? vc_written_type(report, form->model) : VC_DTYPE_NONE;
    sum_errors(p, report, form);
    if (removes) {
        add_pruning(form, report->totals.n_params, report->n_params_after);
        VC_TRY(take_graph(p, &job, share, form));
    }
out:
    vc_job_free(job);
    *ok = status == VC_OK;
    if (status != VC_OK) {
        vc_written_release(p->ctx, &form->written);
    }
    if (vc_is_refusal(status)) {
        vc_clear_error(p->ctx);
        status = VC_OK;
    }
    return status;
}

/* The same of codes, which questions in their scheme count, too. */
static enum vc_status count_codes(struct vc_planning *p, struct vc_weights_form *form, bool *ok)
{
    VC_CALL(vc_make_as(p->ctx, p->model, p->graph, form->codes->dtype, form->codes->layout, &form->made));
    *ok = form->made != NULL;
    if (*ok) {
        form->model = form->made->model;
        form->graph = form->made->graph;
        form->type = form->made->type;
        form->activations = form->made->activations;
        form->error = form->codes->error;
        set_runtime(p, form->made->layout, form);
    }
    return VC_OK;
}

/* ---- the list ---- */

/* Adds a form if the passes accept the form. */
static enum vc_status add_form(struct vc_planning *p, struct vc_weights_form form, size_t share)
{
    bool ok = true;
    enum vc_status status = VC_OK;

    if (p->n_forms == VC_MAX_FORMS) {
        return VC_OK;
    }
    if (p->model != NULL && form.codes != NULL) {
        status = count_codes(p, &form, &ok);
    } else if (p->model != NULL) {
        status = count_form(p, &form, share, &ok);
    } else if (form.codes != NULL) {
        form.error = form.codes->error;
        form.type = VC_DTYPE_NONE;
        form.scheme = form.codes->dtype;
        form.program = p->memory.program == VC_RUN_BY_ANY ? VC_RUN_BY_COUNT : form.codes->program;
        form.runtime = !p->options.runtime_given                                         ? VC_RUNTIME_NATIVE
                       : vc_memory_program_decodes(p->memory.program, form.codes->dtype) ? VC_RUNTIME_DEQUANTIZE
                                                                                         : p->memory.runtime;
    } else if (form.int8) {
        form.type = VC_DTYPE_I8; /* in the estimate: the weights that quantize --int8 makes */
        form.error = vc_plan_error(VC_DTYPE_I8);
    } else {
        form.error = vc_plan_error(VC_DTYPE_F16);
    }
    if (status == VC_OK && ok) {
        p->forms[p->n_forms++] = form;
    }
    return status;
}

static bool is_gguf(const struct vc_planning *p)
{
    return p->model != NULL && strcmp(vc_model_format(p->model), "gguf") == 0;
}

/* "quantize --int8 --rest fp16", and its tag; of a GGUF file those of Q8_0. passes[0] NULL: no memory. */
static void set_quantize(struct vc_planning *p, struct vc_weights_form *form, bool int8, bool bf16)
{
    form->int8 = int8;
    form->type = form->half = bf16 ? VC_DTYPE_BF16 : VC_DTYPE_F16;
    if (int8 && is_gguf(p)) {
        size_t n;
        const struct vc_search_scheme *row = vc_search_schemes(VC_SEARCH_GGUF, &n); /* the first is Q8_0 */

        form->tag = row->tag;
        form->passes[0] = vc_arena_printf(p->ctx, &p->out->arena, "quantize %s", row->flags);
        return;
    }
    form->tag = int8 ? "int8" : "fp16";
    form->passes[0] = int8 && bf16 ? "quantize --int8 --rest bf16"
                      : int8       ? "quantize --int8 --rest fp16"
                                   : "quantize --fp16 --rest fp16";
}

/* Neurons are removed before codes are made: the other way round codes would have to be decoded. */
static enum vc_status add_pruned(struct vc_planning *p, const struct vc_weights_form *base, size_t share)
{
    struct vc_weights_form form = *base;

    form.counted = false;
    form.written = (struct vc_planned_weights){.n = 0};
    form.share = shares[share];
    form.passes[1] = base->passes[0];
    form.passes[0] = vc_arena_printf(p->ctx, &p->out->arena, "prune --structured %s", shares[share]);
    form.tag = vc_arena_printf(p->ctx, &p->out->arena, base->tag == NULL ? "slim" : "slim.%s", base->tag);
    if (form.passes[0] == NULL || form.tag == NULL) {
        return VC_E_NOMEM;
    }
    return add_form(p, form, share);
}

/* The groups that can be cut. A graph without couplings is not a failure. */
static enum vc_status find_couplings(struct vc_planning *p)
{
    enum vc_status status = vc_couplings_of_graph(p->ctx, p->graph, &p->couplings);

    if (vc_is_refusal(status)) {
        vc_clear_error(p->ctx);
        status = VC_OK;
    }
    return status;
}

/* Floats of GGUF and ONNX files are loaded as they are stored: no question names a type of them. */
static enum vc_dtype type_of(const struct vc_planning *p, enum vc_dtype type)
{
    bool stored = is_gguf(p) || (p->model != NULL && strcmp(vc_model_format(p->model), "onnx") == 0);

    return stored ? VC_DTYPE_NONE : type;
}

/* Halves are no form of their own where weights or computing have two bytes already. */
static enum vc_status add_quantized(struct vc_planning *p, enum vc_dtype half)
{
    enum vc_dtype most = p->model != NULL ? vc_memory_float_type(p->graph, p->model) : half;
    struct vc_weights_form form = p->forms[0];

    set_quantize(p, &form, false, false);
    form.type = type_of(p, form.type);
    if (most != VC_DTYPE_F16 && most != VC_DTYPE_BF16 && p->memory.weights != VC_DTYPE_F16 &&
        p->memory.weights != VC_DTYPE_BF16) {
        VC_CALL(add_form(p, form, VC_SHARES));
    }
    set_quantize(p, &form, true, half == VC_DTYPE_BF16 || p->memory.weights == VC_DTYPE_BF16);
    VC_CALL_ALLOC(form.passes[0]);
    form.type = type_of(p, form.type);
    return add_form(p, form, VC_SHARES);
}

/* A configuration without weights, of a model with a length of sequences: one that llama.cpp and bitsandbytes may run. */
static bool is_configured(const struct vc_planning *p)
{
    return p->model == NULL && vc_graph_max_positions(p->graph) != 0;
}

/* Whether the program that was given loads such weights. One without a name is a program of the user's own, which keeps
 * the codes of the usual layouts. */
static bool loads(enum vc_memory_program given, const struct vc_search_scheme *codes)
{
    if (given == VC_RUN_BY_ANY) {
        return codes->layout == NULL;
    }
    if (codes->gguf != NULL) {
        return given == VC_RUN_BY_LLAMA_CPP;
    }
    return given != VC_RUN_BY_LLAMA_CPP && (codes->layout == NULL) == (given != VC_RUN_BY_BITSANDBYTES);
}

/* Whether the model may be had so: GGUF of a folder, of a configuration, or of GGUF; other codes of all but GGUF. */
static bool may_have(const struct vc_planning *p, const struct vc_search_scheme *codes)
{
    if (p->options.runtime_given && !loads(p->memory.program, codes)) {
        return false;
    }
    if (vc_has_codes(
            p->model)) { /* quantize makes GGUF of the weights that a folder's codes stand for, and no other codes */
        return codes->gguf != NULL && p->is_folder;
    }
    if (codes->gguf != NULL) {
        return is_gguf(p) || is_configured(p) || p->is_folder;
    }
    return codes->layout != NULL ? is_configured(p) || p->is_folder : !is_gguf(p);
}

/* The command of the pass, for the recipe. */
static const char *pass_of(struct vc_planning *p, const struct vc_search_scheme *codes, const char *rest)
{
    if (codes->gguf != NULL) {
        return vc_arena_printf(p->ctx, &p->out->arena, "quantize %s", codes->flags);
    }
    if (codes->layout != NULL) {
        return vc_arena_printf(p->ctx, &p->out->arena, "quantize %s --layout %s --rest %s", codes->flags, codes->layout,
                               rest);
    }
    return vc_arena_printf(p->ctx, &p->out->arena, "quantize %s --rest %s", codes->flags, rest);
}

/* Types that the model, its format or the loader has no place for are left out (may_have). */
static enum vc_status add_codes(struct vc_planning *p, const struct vc_search_scheme *codes, bool bf16)
{
    struct vc_weights_form form = p->forms[0];

    if (codes->target == VC_TARGET_F16 || !may_have(p, codes)) {
        return VC_OK;
    }
    form.codes = codes;
    form.tag = codes->tag;
    form.half = bf16 ? VC_DTYPE_BF16 : VC_DTYPE_F16;
    form.type = type_of(p, form.half);
    form.passes[0] = pass_of(p, codes, bf16 ? "bf16" : "fp16");
    VC_CALL_ALLOC(form.passes[0]);
    return add_form(p, form, VC_SHARES);
}

/* Codes of all types that a program keeps on the device. */
static enum vc_status add_all_codes(struct vc_planning *p, enum vc_dtype half)
{
    bool bf16 = half == VC_DTYPE_BF16 || p->memory.weights == VC_DTYPE_BF16;

    p->is_folder = p->graph != NULL && vc_is_transformers_folder(p->ctx, p->model);
    for (enum vc_search_kind kind = 0; kind < VC_SEARCH_KINDS; kind++) {
        size_t n;
        const struct vc_search_scheme *rows = vc_search_schemes(kind, &n);

        for (size_t k = 0; k < n; k++) {
            VC_CALL(add_codes(p, &rows[k], bf16));
        }
    }
    return VC_OK;
}

/* Takes a form off the list. */
static void drop_form(struct vc_planning *p, size_t number)
{
    vc_written_release(p->ctx, &p->forms[number].written);
    p->n_forms--;
    for (size_t k = number; k < p->n_forms; k++) {
        p->forms[k] = p->forms[k + 1];
    }
}

/* Trained weights stay as they are. Codes that the file has stay codes, but for GGUF of a folder: what else could be made
 * of them is a matter of quantize, with --requantize. */
enum vc_status vc_plan_forms(struct vc_planning *p)
{
    bool coded = vc_has_codes(p->model);
    bool trains = p->memory.mode != VC_MEMORY_INFER;
    enum vc_dtype usual = vc_memory_float_type(p->graph, NULL); /* of a configuration alone */
    enum vc_dtype half = p->model != NULL                                  ? vc_written_half(p->model)
                         : usual == VC_DTYPE_F16 || usual == VC_DTYPE_BF16 ? usual
                                                                           : VC_DTYPE_NONE;

    if (!p->options.runtime_given && coded) {
        p->memory.runtime = vc_memory_runtime(vc_model_layout(p->model));
    }
    p->forms[p->n_forms++] = (struct vc_weights_form){.model = p->model,
                                                      .type = p->memory.weights,
                                                      .activations = VC_DTYPE_NONE,
                                                      .runtime = p->memory.runtime,
                                                      .program = VC_RUN_BY_COUNT};
    if (trains || p->memory.weights == VC_DTYPE_I8 || p->memory.scheme != NULL) {
        return VC_OK; /* trained weights are not compressed */
    }
    if (!coded && (p->options.without & VC_LEVER_WEIGHTS) == 0 && (p->model != NULL || p->graph != NULL)) {
        VC_CALL(add_quantized(p, half));
    }
    if (!coded && (p->options.without & VC_LEVER_PRUNE) == 0 && p->model != NULL && p->graph != NULL) {
        VC_CALL(find_couplings(p));
    }
    size_t n_whole = p->n_forms;
    for (size_t k = 0; p->couplings != NULL && k < n_whole; k++) {
        const struct vc_weights_form base = p->forms[k];

        for (size_t s = 0; s < VC_SHARES; s++) {
            VC_CALL(add_pruned(p, &base, s));
        }
    }
    if (is_gguf(p) && n_whole > 1 && p->forms[n_whole - 1].int8) { /* that file is Q8_0's, which is in the list */
        drop_form(p, n_whole - 1);
    }
    return (p->options.without & VC_LEVER_WEIGHTS) == 0 ? add_all_codes(p, half) : VC_OK;
}

/* Jobs that were planned for sizes, and graphs of what they would write. */
void vc_plan_forms_release(struct vc_planning *p)
{
    for (size_t k = 0; k < p->n_forms; k++) {
        vc_written_release(p->ctx, &p->forms[k].written);
    }
    for (size_t s = 0; s < VC_SHARES; s++) {
        vc_planned_free(&p->slim[s].planned);
        vc_job_free(p->slim[s].job);
    }
}
