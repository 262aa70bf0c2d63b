/* student.c - see student.h. */
#include "distill/student.h"

enum vc_status vc_student_read_graph(struct vc_ctx *ctx, const char *path, struct vc_student *student)
{
    enum vc_status status = vc_graph_open(ctx, path, student->network.weights, false, &student->other, &student->graph);

    student->network.beside = student->other;
    return status;
}

/* Weights from the plan. The graph, in this order: the file that was named; the student's own, if nothing
 * has changed; what the planned model computes; and, for a file that does not say that, the teacher's file. */
enum vc_status vc_student_make(struct vc_ctx *ctx, const struct vc_plan *plan, const struct vc_distill_options *options,
                               struct vc_student *student)
{
    enum vc_status status;

    student->ctx = ctx;
    student->planned.ctx = ctx;
    VC_CALL(vc_planned_weights(ctx, plan, &student->planned));
    student->network.weights = student->planned.weights;
    if (options->graph_path != NULL) {
        status = vc_student_read_graph(ctx, options->graph_path, student);
    } else if (options->student.graph != NULL && student->planned.own == NULL) {
        student->network = options->student;
        return VC_OK;
    } else {
        status = vc_planned_graph(ctx, plan, &student->planned);
        if (status == VC_E_UNSUPPORTED && student->planned.graph == NULL && options->teacher.weights != NULL) {
            vc_clear_error(ctx);
            status = vc_student_read_graph(ctx, options->teacher.weights->path, student);
        }
    }
    VC_CALL(status);
    student->network.graph = student->graph != NULL ? student->graph : student->planned.graph;
    return VC_OK;
}

/* The graph goes before the models that it points into. */
void vc_student_free(struct vc_student *student)
{
    if (student->ctx == NULL) {
        return;
    }
    vc_graph_close(student->graph);
    vc_model_close(student->other);
    vc_planned_free(&student->planned);
    *student = (struct vc_student){.ctx = NULL};
}
