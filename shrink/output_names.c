/* output_names.c - the names of what a search writes: output, recipe, statistics, work folder; what is
 * refused about them before the work.
 *
 *     -o out/small.npz      out/small.npz            the output
 *                           out/small.npz.recipe     how it is made, unless a name is given
 *                           out/small.npz.stats.npz  if the recipe needs statistics
 *                           out/small.npz.shrink/    the work folder, gone at the end
 */
#include <errno.h>

#include "core/base/kept_files.h"
#include "core/base/real_path.h"
#include "core/job/scoped.h"
#include "shrink/shrink_inside.h"

/* Refuses a name that is taken, before the work. */
static enum vc_status check_name(struct vc_shrinking *s, const char *path)
{
    struct stat info;

    if (stat(path, &info) != 0) {
        return VC_OK;
    }
    VC_REFUSE_IF(vc_is_kept(s->ctx, &info), s->ctx, VC_E_ARGUMENT, "%s: is an input, which is never overwritten", path);
    VC_REFUSE_IF(!s->write.force || S_ISDIR(info.st_mode), s->ctx, VC_E_ARGUMENT, "%s: exists already%s%s", path,
                 S_ISDIR(info.st_mode) ? "" : " and is replaced only with ",
                 S_ISDIR(info.st_mode) ? ", and a folder is not replaced" : vc_option(s->ctx, "force"));
    return VC_OK;
}

/* The input's folder is never changed: no file of this run lies in there. */
static enum vc_status check_place(struct vc_shrinking *s, const char *path)
{
    const char *name = vc_base_name(path);
    const char *parent = name == path ? "." : vc_arena_copy(s->ctx, &s->arena, path, (size_t)(name - path));
    char source[PATH_MAX], target[PATH_MAX];
    struct stat info;
    bool there;

    VC_CALL_ALLOC(parent);
    VC_CALL(vc_real_path(s->ctx, vc_model_facts(s->given)->path, source, &there));
    if (!there || stat(source, &info) != 0 || !S_ISDIR(info.st_mode)) {
        return VC_OK;
    }
    VC_CALL(vc_real_path(s->ctx, parent, target, &there));
    size_t n = strlen(source);
    VC_REFUSE_IF(there && strncmp(target, source, n) == 0 && (target[n] == '\0' || target[n] == '/'), s->ctx,
                 VC_E_ARGUMENT, "%s: lies in the folder of the input, which is never changed", path);
    return VC_OK;
}

/* Asked twice: before the work, and when the work folder is locked. */
enum vc_status vc_shrink_check_names(struct vc_shrinking *s)
{
    VC_CALL(check_place(s, s->output));
    VC_CALL(check_place(s, s->recipe));
    VC_CALL(check_name(s, s->output));
    VC_CALL(check_name(s, s->recipe));
    return s->options.data != NULL ? check_name(s, s->final_stats) : VC_OK;
}

/* What a writer refuses about the output's name: before the work, by the plan of a copy. */
enum vc_status vc_shrink_try_output(struct vc_shrinking *s)
{
    struct vc_write_options write = s->write;
    VC_SCOPED_JOB struct vc_job *job = NULL;

    write.layout = NULL;
    VC_CALL(vc_shrink_job(s, &job));
    enum vc_status status = vc_job_plan(s->ctx, job, &write);
    if (status != VC_OK && status != VC_E_ARGUMENT) { /* of the copy: types, and room for it */
        vc_clear_error(s->ctx);
        return VC_OK;
    }
    return status;
}

/* "out/small.npz": the work folder out/small.npz.shrink, the name small.npz. */
enum vc_status vc_shrink_names(struct vc_shrinking *s)
{
    size_t n = strlen(s->write.path);
    char *path;

    while (n > 1 && s->write.path[n - 1] == '/') {
        n--;
    }
    VC_CALL_ALLOC(path = vc_arena_copy(s->ctx, &s->arena, s->write.path, n));
    s->name = vc_base_name(path);
    VC_CALL_ALLOC(s->work = vc_arena_printf(s->ctx, &s->arena, "%s.shrink", path));
    VC_CALL_ALLOC(s->final_stats = vc_arena_printf(s->ctx, &s->arena, "%s.stats.npz", path));
    VC_CALL_ALLOC(s->stats_path = vc_arena_printf(s->ctx, &s->arena, "%s.shrink/stats.npz", path));
    s->recipe = s->options.recipe != NULL ? s->options.recipe : vc_arena_printf(s->ctx, &s->arena, "%s.recipe", path);
    VC_CALL_ALLOC(s->recipe);
    s->output = path;
    return vc_shrink_check_names(s);
}
