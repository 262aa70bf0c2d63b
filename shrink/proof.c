/* proof.c - the output is read back, verified and judged on rows that steered nothing; then output and
 * recipe get their names.
 *
 *     make_recipe     the lines of the chain, with the command that runs them
 *     verify          vc_verify of the file with its values: no errors
 *     size, fit       the file's own bytes, the device by the file's own headers and graph
 *     judge           loss on the rows to prove, of the model and of the output
 *     give_names      statistics, output, recipe, by rename
 *
 * Every step looks at the file as anybody would who got it: nothing is taken over from the search. The
 * first limit that is missed is the sentence (s->result.missed); the file then gets no name unless the
 * caller wants it all the same. */
#include <dirent.h>
#include <errno.h>
#include <unistd.h>

#include "core/base/kept_files.h"
#include "shrink/shrink_inside.h"

/* ---- judging ---- */

/* Keeps the first sentence. */
static void miss(struct vc_shrinking *s, const char *sentence)
{
    if (s->result.missed == NULL) {
        s->result.missed = sentence;
    }
}

/* As the command `fit` asks, with the program that usually runs such a file, and the usual sizes of inputs. */
enum vc_status vc_shrink_fit(struct vc_shrinking *s, const struct vc_model *model, struct vc_graph *graph,
                             struct vc_fit *out)
{
    struct vc_memory_options memory;
    struct vc_memory_report report;
    struct vc_fit_options options;
    const struct vc_layout *layout = vc_model_layout(model);
    const char *format = vc_model_facts(model)->format;
    enum vc_dtype type = vc_memory_float_type(NULL, model);

    vc_memory_defaults(&memory);
    vc_fit_defaults(&options);
    vc_memory_set_program(&memory, vc_memory_program(layout, format, &memory), layout);
    memory.allocator = vc_memory_program_facts(memory.program)->allocator;
    if (model != s->given && memory.program != VC_RUN_BY_LLAMA_CPP && memory.program != VC_RUN_BY_ONNXRUNTIME &&
        (type == VC_DTYPE_F16 || type == VC_DTYPE_BF16)) {
        memory.weights = type; /* floats of the output, which codes become, too; as plan asks with --dtype */
    }
    if (s->options.native) {
        vc_memory_set_keeper(&memory, layout, &options.ideal);
    }
    if (graph != NULL) {
        VC_CALL(vc_memory_bind_usual(s->ctx, graph, layout, format));
    }
    VC_CALL(vc_memory_estimate(s->ctx, graph, model, &memory, &report));
    options.weights_only = report.unknown != NULL;
    return vc_fit_decide(s->ctx, &report, &memory, s->gpu->visible_bytes, &options, out);
}

/* Limits of figures on the rows to prove. */
static void check_limits(struct vc_shrinking *s, const struct vc_quality *q)
{
    struct vc_metric_miss gate;

    if (s->options.min_accuracy > 0 && !(q->accuracy >= s->options.min_accuracy)) {
        miss(s, vc_arena_printf(s->ctx, &s->arena, "on the rows to prove the accuracy is %.4f, below %s %g",
                                q->accuracy, vc_option(s->ctx, "min_accuracy"), s->options.min_accuracy));
    }
    if (vc_metric_missed(q, &s->options.limits, &gate)) {
        miss(s,
             vc_arena_printf(s->ctx, &s->arena, "on the rows to prove %s is %.4g, %s %s %g",
                             vc_word(VC_WORDS_METRIC, gate.metric), gate.value,
                             gate.value < gate.limit ? "below" : "above", vc_option(s->ctx, gate.field), gate.limit));
    }
}

/* Rows to prove were in no candidate's training and in no choice, so that the figures are not flattered by
 * the search. */
static enum vc_status judge(struct vc_shrinking *s, const char *path)
{
    struct vc_shrinkage *r = &s->result;

    if (s->options.data == NULL) {
        return VC_OK;
    }
    VC_CALL(vc_shrink_quality(s, NULL, &s->prove, s->parts[1], &r->teacher));
    VC_CALL(vc_shrink_quality(s, path, &s->prove, s->parts[2], &r->quality));
    r->loss = vc_shrink_loss(s, &r->teacher, &r->quality);
    if (s->options.max_loss >= 0 && !(r->loss <= s->options.max_loss)) {
        miss(s, vc_arena_printf(s->ctx, &s->arena, "on the rows to prove the loss of %s is %.4g, %s allows %g",
                                r->metric != VC_METRIC_AUTO ? vc_word(VC_WORDS_METRIC, r->metric) : "an output",
                                r->loss, vc_option(s->ctx, "max_loss"), s->options.max_loss));
    }
    check_limits(s, &r->quality);
    return VC_OK;
}

/* Warnings are counted and are no reason. */
static enum vc_status verify(struct vc_shrinking *s, const char *path)
{
    struct vc_verify_options options;
    VC_SCOPED_RESULT struct vc_verification *found = NULL;

    vc_verify_defaults(&options);
    options.data = true;
    VC_CALL(vc_verify(s->ctx, path, &options, &found));
    s->result.n_errors = found->n_errors;
    s->result.n_warnings = found->n_warnings;
    if (found->n_errors != 0) {
        miss(s, vc_arena_printf(s->ctx, &s->arena, "the output has errors: %s: %s", found->findings[0].tensor,
                                found->findings[0].sentence));
    }
    return VC_OK;
}

/* ---- names ---- */

/* The files of the command, in a comment: of one line, whatever they are called. */
static void add_files(struct vc_shrinking *s, struct vc_text *text)
{
    const size_t at = text->n;

    vc_text_add_shell_path(text, s->recipe);
    vc_text_add_shell_path(text, vc_model_facts(s->given)->path);
    vc_text_add(text, " -o");
    vc_text_add_shell_path(text, s->write.path);
    if (text->status == VC_OK && strchr(text->data + at, '\n') != NULL) {
        text->n = at;
        vc_text_add(text, " RECIPE INPUT -o OUTPUT (a name ends with a line break)");
    }
    vc_text_add(text, "\n");
}

/*     # 0.5 of the neurons removed, int8. The same bytes:
 *     # vcompress run small.npz.recipe model.npz -o small.npz
 *     prune --structured 0.5
 *     quantize --int8 --rest fp16
 */
static enum vc_status make_recipe(struct vc_shrinking *s, const struct vc_shrink_candidate *c)
{
    const char *layout = vc_shrink_layout(s, (size_t)(c - s->candidates));
    struct vc_text text;

    vc_text_init(&text, s->ctx);
    vc_text_add(&text, "# %s. The same bytes:\n# vcompress run", c->name);
    vc_text_add(&text, c->deflate ? " --deflate" : "");
    if (layout != NULL) {
        vc_text_add(&text, " --layout %s", layout);
    }
    vc_text_add(&text, "%s%s", s->options.drop_optimizer ? " --drop optimizer" : "",
                s->options.drop_other ? " --drop other" : "");
    add_files(s, &text);
    for (size_t k = 0; k < c->n_lines; k++) {
        vc_text_add(&text, "%s\n", c->lines[k]);
    }
    return vc_text_take(&text, &s->arena, &s->result.recipe);
}

/* The file gets its name, unless the name belongs to an input. */
static enum vc_status move(struct vc_shrinking *s, const char *from, const char *to)
{
    struct stat info;

    VC_REFUSE_IF(stat(to, &info) == 0 && vc_is_kept(s->ctx, &info), s->ctx, VC_E_ARGUMENT,
                 "%s: is an input, which is never overwritten", to);
    VC_REFUSE_IF(lstat(to, &info) == 0 && !s->write.force, s->ctx, VC_E_ARGUMENT,
                 "%s: exists by now and is replaced only with %s", to, vc_option(s->ctx, "force"));
    return rename(from, to) == 0 ? VC_OK : vc_fail_errno(s->ctx, errno, "%s: cannot get its name", to);
}

/* The output may be several files: all that lie in its folder. */
static enum vc_status move_all(struct vc_shrinking *s, size_t k)
{
    const char *folder = vc_arena_printf(s->ctx, &s->arena, "%s/%zu", s->work, k);
    int n = (int)(strlen(s->work) - strlen(s->name) - strlen(".shrink")); /* "out/" of out/small.npz.shrink */
    DIR *dir = folder != NULL ? opendir(folder) : NULL;
    struct dirent *entry;
    enum vc_status status = dir != NULL ? VC_OK : vc_fail_errno(s->ctx, errno, "%s: cannot be read", s->work);

    while (status == VC_OK && (entry = readdir(dir)) != NULL) {
        const char *from = vc_arena_printf(s->ctx, &s->arena, "%s/%s", folder, entry->d_name);
        const char *to = vc_arena_printf(s->ctx, &s->arena, "%.*s%s", n, s->work, entry->d_name);

        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0) {
            status = from != NULL && to != NULL ? move(s, from, to) : VC_E_NOMEM;
        }
    }
    if (dir != NULL) {
        (void)closedir(dir);
    }
    return status;
}

/* Written in the work folder first, so that it appears whole under its name. */
static enum vc_status write_recipe(struct vc_shrinking *s)
{
    const char *made = vc_arena_printf(s->ctx, &s->arena, "%s/recipe", s->work);
    FILE *to = made != NULL ? fopen(made, "w") : NULL;
    bool fine = to != NULL && fputs(s->result.recipe, to) >= 0;

    if (to != NULL) {
        fine = fclose(to) == 0 && fine;
    }
    return fine ? move(s, made, s->recipe) : vc_fail_errno(s->ctx, errno, "%s: cannot be written", s->recipe);
}

/* The recipe comes last: where it is, everything that it names is there, too. */
static enum vc_status give_names(struct vc_shrinking *s, size_t k)
{
    bool statistics = false;

    for (size_t i = 0; i < s->candidates[k].n_lines; i++) {
        statistics = statistics || strstr(s->candidates[k].lines[i], " --calibration ") != NULL;
    }
    if (statistics) {
        VC_CALL(move(s, s->stats_path, s->final_stats));
    }
    VC_CALL(move_all(s, k));
    VC_CALL(write_recipe(s));
    s->result.written = true;
    return VC_OK;
}

/* The model is closed before its files get other names. */
enum vc_status vc_shrink_prove(struct vc_shrinking *s, size_t k)
{
    const char *path = vc_shrink_file(s, k);
    VC_SCOPED_NET struct vc_shrink_net net = {NULL, NULL, NULL};
    enum vc_status status = VC_OK;

    VC_CALL_ALLOC(path);
    VC_CALL(make_recipe(s, &s->candidates[k]));
    VC_CALL(verify(s, path));
    VC_CALL(vc_model_open(s->ctx, path, NULL, &net.model));
    status = s->teacher.graph != NULL ? vc_shrink_open(s->ctx, path, s->options.graph_path, &net) : VC_OK;
    if (vc_is_refusal(status) && s->options.data == NULL) { /* weights alone count */
        vc_graph_close(net.graph);
        net.graph = NULL;
        status = vc_without_refusal(s->ctx, status);
    }
    VC_CALL(status);
    s->result.output_bytes = vc_model_facts(net.model)->file_bytes;
    if (s->gpu != NULL) {
        if (net.graph != NULL || s->sized == NULL) {
            VC_CALL(vc_shrink_fit(s, net.model, net.graph, &s->result.fit));
        } else { /* a file that does not say what it computes: as the passes leave the graph of the model */
            VC_CALL(vc_shrink_count(s, k));
            s->result.fit = s->counted;
        }
    }
    if (!vc_search_within(&s->budget, s->result.output_bytes, &s->result.fit)) {
        bool larger = s->result.limit_bytes != 0 && s->result.output_bytes > s->result.limit_bytes;

        miss(s, larger ? vc_arena_printf(s->ctx, &s->arena, "the output has %llu bytes, the limit is %llu",
                                         (unsigned long long)s->result.output_bytes,
                                         (unsigned long long)s->result.limit_bytes)
                       : vc_arena_printf(s->ctx, &s->arena, "the output needs %llu bytes on %s, which has %llu",
                                         (unsigned long long)s->result.fit.need_bytes, s->gpu->name,
                                         (unsigned long long)s->result.fit.usable_bytes));
    }
    VC_CALL(judge(s, path));
    s->result.proved = true;
    vc_shrink_close(&net);
    return s->result.missed == NULL || s->options.keep_going ? give_names(s, k) : VC_OK;
}
