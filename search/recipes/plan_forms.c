/* plan_forms.c - the forms of weights: as stored, the types of search/, with neurons removed. With a file, each form is
 * a job that is planned and then freed: sizes are exact, and forms that the passes refuse are not offered. No weights
 * are read: sizes do not depend on the choice of neurons.
 *
 *     forms[0]       as stored
 *     usual          halves, then int8; with a file whose weights are floats. Of codes: as stored, but loaded as halves
 *     pruned         each of these with a share of its neurons removed
 *     codes          types of few bits, that some loader keeps as codes: GGUF's blocks, or a layout of folders */
#include <math.h>

#include <vcompress/experimental.h>

#include "core/base/array.h"
#include "core/job/job_state.h"
#include "core/model/program.h"
#include "memory/float_type.h"
#include "memory/scheme.h"
#include "search/recipes/plan_inside.h"

static const char *const shares[VC_SHARES] = {"0.1", "0.2", "0.3", "0.4", "0.5"};

/* ---- errors ---- */

/* The measured error of the row's scheme on its tensor, and the tensor's sum of squares. Returns -1 if not measured. */
static double measured_error(const struct vc_planning *p, const struct vc_report_row *row, double *norm)
{
    const size_t tensor = vc_model_find(p->model, row->name);
    size_t at; /* rows are in the order of the model */

    VC_BISECT(at, p->scan->n_rows, k, p->scan->rows[k].tensor < tensor);
    const struct vc_sensitivity_row *seen = &p->scan->rows[at];
    if (at == p->scan->n_rows || seen->tensor != tensor || seen->errors == NULL) {
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
            error = vc_search_usual_error(row.scheme);
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

/* Of codes in that layout, which the usual loader decodes: what keeps them. */
static void set_keeper(const struct vc_planning *p, const struct vc_layout *layout, struct vc_weights_form *form)
{
    struct vc_memory_options kept = p->memory;
    bool ideal = false;

    kept.runtime = form->runtime;
    vc_memory_set_keeper(&kept, layout, &ideal);
    form->runtime = kept.runtime;
    form->program = kept.program;
    form->ask = ideal ? "--runtime native" : "--runtime vllm";
}

/* Which program runs the output, and how it treats codes. Of codes that its usual loader decodes, what keeps them. */
static void set_runtime(const struct vc_planning *p, const struct vc_layout *layout, struct vc_weights_form *form)
{
    struct vc_memory_options given = p->memory;
    const char *format =
        form->scheme != NULL && form->scheme->gguf != NULL ? "gguf" : vc_model_facts(form->model)->format;

    vc_memory_set_program(&given, given.program, layout); /* or of the way without a name */
    form->runtime = p->options.runtime_given ? given.runtime : vc_memory_runtime(layout);
    if (p->options.runtime_given || p->memory.program == VC_RUN_BY_ANY) {
        return;
    }
    form->program = vc_memory_program(layout, format, &p->memory);
    if (form->kept && form->runtime == VC_RUNTIME_DEQUANTIZE) {
        set_keeper(p, layout, form);
    }
}

/* Sets form->graph: the graph without this share of the neurons, with the bound sizes. The first job with this share
 * makes the graph and is kept in p->slim. */
static enum vc_status take_graph(struct vc_planning *p, struct vc_job **job, size_t share, struct vc_weights_form *form)
{
    struct vc_slim *slim = &p->slim[share];
    enum vc_status status = VC_OK;

    if (slim->job == NULL) {
        slim->job = *job;
        *job = NULL;
        status = vc_slim_graph(p->ctx, slim->job, p->graph, &slim->planned);
    }
    form->graph = slim->planned.graph;
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
    if (removes) { /* by the graph of the model itself: a text beside the model would not become smaller */
        struct vc_structured_options options;

        vc_structured_defaults(&options);
        options.share = shares[share];
        VC_TRY(vc_job_add_structured(p->ctx, job, &options));
        job->sizes_only = true; /* which neurons go is not asked */
    }
    if (form->scheme != NULL) {
        struct vc_quantize_options options;

        vc_quantize_defaults(&options);
        vc_search_set(form->scheme, form->rest, &options);
        VC_TRY(vc_job_add_quantize(p->ctx, job, &options));
    }
    VC_TRY(vc_job_plan(p->ctx, job, &write));
    const struct vc_report *report = vc_job_report(job);
    set_runtime(p, report->layouts != NULL ? report->layouts[0] : NULL, form);
    VC_TRY(vc_written_make(p->ctx, report, form->model, &form->written));
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
    return vc_without_refusal(p->ctx, status);
}

/* The same of codes, which questions in their scheme count, too. */
static enum vc_status count_codes(struct vc_planning *p, struct vc_weights_form *form, bool *ok)
{
    VC_CALL(vc_make_as(p->ctx, p->model, p->graph, form->scheme->dtype, form->scheme->layout, &form->made));
    *ok = form->made != NULL;
    if (*ok) {
        form->model = form->made->model;
        form->graph = form->made->graph != NULL ? form->made->graph : p->graph;
        form->type = form->made->type;
        form->activations = form->made->activations;
        form->error = form->scheme->error;
        set_runtime(p, form->made->layout, form);
    }
    return VC_OK;
}

/* ---- the list ---- */

/* Of a configuration alone: the table of schemes counts the weights. */
static void set_without_file(const struct vc_planning *p, struct vc_weights_form *form)
{
    form->error = form->scheme->error;
    if (!form->kept) {
        form->type =
            form->scheme->target == VC_TARGET_INT8 ? VC_DTYPE_I8 : form->type; /* the weights that quantize makes */
        return;
    }
    form->type = VC_DTYPE_NONE;
    form->dtype = form->scheme->dtype;
    form->program = p->memory.program == VC_RUN_BY_ANY ? VC_RUN_BY_COUNT : form->scheme->program;
    form->runtime = !p->options.runtime_given ? VC_RUNTIME_NATIVE
                    : vc_memory_program_weights(p->memory.program, form->dtype) == VC_WEIGHTS_DECODED
                        ? VC_RUNTIME_DEQUANTIZE
                        : p->memory.runtime;
}

/* Adds a form if the passes accept the form. */
static enum vc_status add_form(struct vc_planning *p, struct vc_weights_form form, size_t share)
{
    bool ok = true;
    enum vc_status status = VC_OK;

    if (p->n_forms == VC_MAX_FORMS) {
        return VC_OK;
    }
    if (p->model != NULL) {
        status = form.kept ? count_codes(p, &form, &ok) : count_form(p, &form, share, &ok);
    } else {
        set_without_file(p, &form);
    }
    if (status == VC_OK && ok) {
        p->forms[p->n_forms++] = form;
    }
    return status;
}

static bool has_format(const struct vc_planning *p, const char *format)
{
    return p->model != NULL && strcmp(vc_model_facts(p->model)->format, format) == 0;
}

/* Adds weights of the type, the rest in halves. Those that the model, its format or the loader has no place for are left
 * out. */
static enum vc_status add_scheme(struct vc_planning *p, const struct vc_search_scheme *scheme, bool bf16, bool kept)
{
    struct vc_weights_form form = p->forms[0];
    struct vc_text pass;

    vc_text_init(&pass, p->ctx);
    form.scheme = scheme;
    form.kept = kept;
    form.other_format = p->lone && kept && scheme->gguf != NULL;
    form.rest = bf16 ? "bf16" : "fp16";
    form.type = bf16 ? VC_DTYPE_BF16 : VC_DTYPE_F16;
    if (has_format(p, "gguf") ||
        has_format(p, "onnx")) { /* loaded as they are stored: no question names a type of them */
        form.type = VC_DTYPE_NONE;
    }
    form.tag = scheme->tag;
    vc_search_add_pass(&pass, scheme, form.rest, true);
    VC_CALL(vc_text_take(&pass, &p->out->arena, &form.passes[0]));
    return add_form(p, form, VC_SHARES);
}

/* Neurons are removed before codes are made: the other way round codes would have to be decoded. */
static enum vc_status add_pruned(struct vc_planning *p, const struct vc_weights_form *base, size_t share)
{
    struct vc_weights_form form = *base;

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

/* Halves are no form of their own where weights or computing have two bytes already. */
static enum vc_status add_usual(struct vc_planning *p, enum vc_dtype half, bool bf16)
{
    enum vc_dtype most = p->model != NULL ? vc_memory_float_type(p->graph, p->model) : half;

    if (most != VC_DTYPE_F16 && most != VC_DTYPE_BF16 && p->memory.weights != VC_DTYPE_F16 &&
        p->memory.weights != VC_DTYPE_BF16) {
        VC_CALL(add_scheme(p, vc_search_half(false), false, false));
    }
    return add_scheme(p, vc_search_eight(has_format(p, "gguf")), bf16, false);
}

/* What `fit --dtype` counts as an output of quantize. Of a configuration without weights, of a model with a length of
 * sequences: one that llama.cpp and bitsandbytes may run. Codes other than GGUF's of all but GGUF, those of bitsandbytes of
 * folders; GGUF's of all but ONNX. Of codes quantize makes GGUF of the weights that a folder's codes stand for, and no other
 * codes. */
static unsigned kinds_of(struct vc_planning *p)
{
    const unsigned gguf = VC_SEARCH_GGUF | VC_SEARCH_GGUF_LEAST;
    bool folder = p->model == NULL ? vc_graph_lists(p->graph)->max_positions != 0
                                   : p->graph != NULL && vc_is_transformers_folder(p->ctx, p->model);

    if (vc_has_codes(p->model)) {
        return folder ? gguf : 0;
    }
    if (has_format(p, "gguf")) {
        return gguf;
    }
    p->lone = p->model != NULL && !folder;
    bool blocks = p->model != NULL ? !has_format(p, "onnx") : folder;

    return VC_SEARCH_PLAIN | VC_SEARCH_FLOAT_CODES | (folder ? (unsigned)VC_SEARCH_BITSANDBYTES : 0U) |
           (blocks ? gguf : 0U);
}

/* Codes of all types that a program keeps on the device. */
static enum vc_status add_all_codes(struct vc_planning *p, bool bf16)
{
    const struct vc_search_place place = {kinds_of(p), p->options.runtime_given, p->memory.program};
    const struct vc_search_scheme *scheme;

    for (size_t at = 0; (scheme = vc_search_next(&place, &at)) != NULL;) {
        if (scheme->target != VC_TARGET_F16) {
            VC_CALL(add_scheme(p, scheme, bf16, true));
        }
    }
    return VC_OK;
}

/* Codes stay as they are in the file. A program that keeps them may run it; or what a program makes of them and of the floats
 * beside them is of two bytes: options of loading, by which nothing is written. llama.cpp and onnxruntime load floats as they
 * are stored. */
static void add_loaded(struct vc_planning *p, bool bf16)
{
    enum vc_memory_program program = p->memory.program;

    if (!p->options.runtime_given && p->memory.runtime == VC_RUNTIME_DEQUANTIZE && program != VC_RUN_BY_ANY) {
        p->forms[p->n_forms] = p->forms[0];
        set_keeper(p, vc_model_layout(p->model), &p->forms[p->n_forms++]);
    }
    if (program != VC_RUN_BY_LLAMA_CPP && program != VC_RUN_BY_ONNXRUNTIME && p->memory.weights == VC_DTYPE_NONE) {
        p->forms[p->n_forms] = p->forms[0];
        p->forms[p->n_forms].type = bf16 ? VC_DTYPE_BF16 : VC_DTYPE_F16;
        p->forms[p->n_forms++].error = vc_search_half(bf16)->error;
    }
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
    bool bf16 = half == VC_DTYPE_BF16 || p->memory.weights == VC_DTYPE_BF16;

    if (!p->options.runtime_given && coded && p->memory.scheme == NULL) {
        p->memory.runtime = vc_memory_runtime(vc_model_layout(p->model));
    }
    p->forms[p->n_forms++] = (struct vc_weights_form){.model = p->model,
                                                      .graph = p->graph,
                                                      .type = p->memory.weights,
                                                      .activations = VC_DTYPE_NONE,
                                                      .runtime = p->memory.runtime,
                                                      .program = VC_RUN_BY_COUNT};
    if (trains || p->memory.weights == VC_DTYPE_I8 || p->memory.scheme != NULL) {
        return VC_OK; /* trained weights are not compressed */
    }
    if (coded && (p->options.without & VC_LEVER_WEIGHTS) == 0) {
        add_loaded(p, bf16);
    } else if ((p->options.without & VC_LEVER_WEIGHTS) == 0 && (p->model != NULL || p->graph != NULL)) {
        VC_CALL(add_usual(p, half, bf16));
    }
    bool prunes = !coded && (p->options.without & VC_LEVER_PRUNE) == 0 && p->model != NULL && p->graph != NULL;
    size_t n_whole = p->n_forms;
    for (size_t k = 0; prunes && k < n_whole; k++) {
        const struct vc_weights_form base = p->forms[k];

        for (size_t s = 0; s < VC_SHARES; s++) {
            VC_CALL(add_pruned(p, &base, s));
        }
    }
    if (has_format(p, "gguf") && n_whole > 1 &&
        p->forms[n_whole - 1].scheme != NULL) { /* that file is Q8_0's, which is in the list */
        drop_form(p, n_whole - 1);
    }
    return (p->options.without & VC_LEVER_WEIGHTS) == 0 ? add_all_codes(p, bf16) : VC_OK;
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
