/* student.c - see student.h. */
#include "distill/student.h"

enum vc_status vc_student_read_graph(struct vc_ctx *ctx, const char *path, struct vc_student *student)
{
    struct vc_graph_options options;
    enum vc_status status;

    vc_graph_defaults(&options);
    options.weights = student->network.weights;
    if (vc_graph_is_text(path)) {
        return vc_graph_read_text(ctx, path, &options, &student->graph);
    }
    VC_TRY(vc_model_open(ctx, path, NULL, &student->other));
    VC_TRY(vc_graph_build(ctx, student->other, &options, &student->graph));
    student->network.beside = student->other;
out:
    return status;
}

enum vc_status vc_student_make(struct vc_ctx *ctx, const struct vc_plan *plan, const struct vc_distill_options *options,
                               struct vc_student *student)
{
    enum vc_status status;

    student->ctx = ctx;
    student->left.ctx = ctx;
    VC_TRY(vc_left_weights(ctx, plan, &student->left));
    student->network.weights = student->left.weights;
    if (options->graph_path != NULL) {
        status = vc_student_read_graph(ctx, options->graph_path, student);
    } else if (options->student.graph != NULL && student->left.own == NULL) {
        student->network = options->student;
        return VC_OK;
    } else {
        status = vc_left_graph(ctx, plan, &student->left);
        if (status == VC_E_UNSUPPORTED && student->left.graph == NULL && options->teacher.weights != NULL) {
            vc_clear_error(ctx);
            status = vc_student_read_graph(ctx, options->teacher.weights->path, student);
        }
    }
    VC_TRY(status);
    student->network.graph = student->graph != NULL ? student->graph : student->left.graph;
out:
    return status;
}

void vc_student_free(struct vc_student *student)
{
    if (student->ctx == NULL) {
        return;
    }
    vc_graph_close(student->graph);
    vc_model_close(student->other);
    vc_left_free(&student->left);
    *student = (struct vc_student){.ctx = NULL};
}
