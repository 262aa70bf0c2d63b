/* match.c - see match.h.
 *
 * One pair in one batch, a row of data at a time, on all threads:
 *
 *     student value --gather--> doubles [points][width] --project--> [points][teacher's width]
 *     teacher copy  --gather--> doubles [points][teacher's width]
 *                               vc_match_row: loss, gradient of the projected values
 *     student gradient <--add-- gradient <--project back--
 *
 *     map_output: gradients of the projector, one output per thread, over all points of the batch in their order
 *
 * Everything is computed in doubles; results are added to gradients of the run's type. Sums over rows and
 * points have a fixed order, so the number of threads changes no bit. */
#include "distill/loss/match.h"

#include "distill/loss/match_names.h"
#include "distill/loss/match_row.h"
#include "distill/loss/relate.h"
#include "distill/math/real.h"

#define NO_MAP ((size_t)-1)

/* What a value is for one row of data. [batch, width], [batch, points, width], or [batch, width, points in any number
 * of dimensions], of which `inner` is true: a point's channels are n_points apart. */
struct side {
    uint32_t value;
    size_t n_points, width;
    bool inner;
};

/* Which points of a pair count, in a row that does. */
enum points {
    POINTS_ALL,
    POINTS_ANSWERS, /* they are the positions of the student's answers, and have their masks */
    POINTS_TOKENS   /* one answer for each row, about a sequence: those that attention_mask says are no padding */
};

struct pair {
    const struct vc_match *match;
    struct side student, teacher;
    enum points points;
    size_t map; /* the projector's entry of the student's weights; NO_MAP if there is none */
};

struct vc_matches {
    struct vc_ctx *ctx;
    const struct vc_distill_options *options;
    bool f64;
    const struct vc_net *student, *teacher;
    const struct vc_taught_rows *data;
    struct vc_match_figures *figures; /* of all pairs, as all arrays here; the report's */
    size_t n;
    struct pair pairs[VC_MATCH_MOST];
    uint32_t student_values[VC_MATCH_MOST], teacher_values[VC_MATCH_MOST];
    uint8_t *tokens; /* [rows][n_tokens]: attention_mask of the data; NULL if there is none */
    size_t n_tokens;
    void *room;
};

/* ---- what fits what ---- */

/* The values of all pairs, by their names in both graphs. */
enum vc_status vc_match_find(struct vc_ctx *ctx, const struct vc_distill_options *o, struct vc_matches **out)
{
    struct vc_matches *m;

    if (o->loss.n_matches == 0) {
        return VC_OK;
    }
    VC_REFUSE_IF(o->teacher.graph == NULL, ctx, VC_E_ARGUMENT, "%s compares with values inside the teacher, %s",
                 vc_option(ctx, "loss.matches"),
                 o->n_logits != 0 ? "of which files of answers have none: name the network itself"
                                  : "and there is no teacher");
    VC_REFUSE_IF(o->loss.n_matches > VC_MATCH_MOST, ctx, VC_E_ARGUMENT, "%s: %zu pairs; %d are the most",
                 vc_option(ctx, "loss.matches"), o->loss.n_matches, VC_MATCH_MOST);
    VC_CALL_ALLOC(m = *out = vc_calloc_array(ctx, VC_TAG_MISC, 1, sizeof *m));
    m->ctx = ctx;
    m->options = o;
    m->f64 = o->precision.kind == VC_GRAPH_F64;
    m->n = o->loss.n_matches;
    for (size_t k = 0; k < m->n; k++) {
        struct pair *pair = &m->pairs[k];

        *pair = (struct pair){.match = &o->loss.matches[k], .map = NO_MAP};
        VC_CALL(vc_match_name(ctx, o->teacher.graph, "teacher", pair->match->teacher, &pair->teacher.value));
        VC_CALL(vc_match_name(ctx, o->student.graph, "student", pair->match->student, &pair->student.value));
        m->teacher_values[k] = pair->teacher.value;
        m->student_values[k] = pair->student.value;
    }
    return VC_OK;
}

/* Both networks' programs keep these values to the end of the forward pass. */
void vc_match_keep_values(const struct vc_matches *m, struct vc_net_options *student, struct vc_net_options *teacher)
{
    if (m != NULL) {
        student->kept = m->student_values;
        teacher->kept = m->teacher_values;
        student->n_kept = teacher->n_kept = m->n;
    }
}

/* How many points of what width a row of the value has; false: a size is not known, or it has no rows. */
static bool describe(const struct vc_graph *graph, struct side *side)
{
    const struct vc_graph_value *v = vc_graph_value(graph, side->value);
    size_t sizes[VC_GRAPH_MAX_DIMS] = {0};

    for (unsigned k = 1; k < v->n_dims; k++) {
        int64_t size = vc_graph_dim_value(graph, v->shape[k]);

        if (size < 1) {
            return false;
        }
        sizes[k] = (size_t)size;
    }
    side->inner = v->n_dims > 3;
    side->width = side->inner || v->n_dims == 2 ? sizes[1] : sizes[2];
    side->n_points = v->n_dims == 3 ? sizes[1] : 1;
    for (unsigned k = 2; side->inner && k < v->n_dims; k++) {
        side->n_points *= sizes[k];
    }
    return v->n_dims >= 2;
}

/* Points have the same places on both sides. */
static bool same_points(const struct vc_graph *a, const struct side *x, const struct vc_graph *b, const struct side *y)
{
    const struct vc_graph_value *v = vc_graph_value(a, x->value);
    const struct vc_graph_value *w = vc_graph_value(b, y->value);
    bool same = v->n_dims == w->n_dims && x->n_points == y->n_points;

    for (unsigned k = 2; same && x->inner && k < v->n_dims; k++) {
        same = vc_graph_dim_value(a, v->shape[k]) == vc_graph_dim_value(b, w->shape[k]);
    }
    return same;
}

/* Shows both shapes, and why they cannot be compared. */
static enum vc_status refuse_shapes(const struct vc_matches *m, const struct pair *pair, const char *why)
{
    char teacher[160], student[160];

    vc_match_shape_text(m->teacher->network.graph, pair->teacher.value, teacher, sizeof teacher);
    vc_match_shape_text(m->student->network.graph, pair->student.value, student, sizeof student);
    return vc_fail(m->ctx, VC_E_ARGUMENT, "%s: %s of the teacher is %s, %s of the student is %s: %s",
                   vc_option(m->ctx, "loss.matches"), pair->match->teacher, teacher, pair->match->student, student,
                   why);
}

/* Which mask the points of a sequence have: that of the answers, that of the padding, or none. */
static enum points points_of(const struct vc_matches *m, const struct vc_graph_value *value, size_t n_points)
{
    bool sequence = value->n_dims == 3;

    return sequence && m->student->positions > 1 && n_points == m->student->positions ? POINTS_ANSWERS
           : sequence && m->tokens != NULL && n_points == m->n_tokens                 ? POINTS_TOKENS
                                                                                      : POINTS_ALL;
}

/* Networks with one answer for each row have no mask of positions: attention_mask of student or teacher is it. */
static enum vc_status read_tokens(struct vc_matches *m)
{
    if (m->student->positions > 1) {
        return VC_OK;
    }
    VC_CALL(vc_rows_read_tokens(&m->data->student, &m->tokens, &m->n_tokens));
    return m->tokens == NULL ? vc_rows_read_tokens(&m->data->teacher, &m->tokens, &m->n_tokens) : VC_OK;
}

/* Checks the shapes of one pair, and adds a projector where the widths differ. */
static enum vc_status open_pair(struct vc_matches *m, size_t k)
{
    struct pair *pair = &m->pairs[k];
    const struct vc_graph *teacher = m->teacher->network.graph;
    const struct vc_graph *student = m->student->network.graph;
    char name[32];

    if (!describe(teacher, &pair->teacher) || !describe(student, &pair->student)) {
        return refuse_shapes(m, pair, "what can be matched has rows of data first, and known sizes behind them");
    }
    if (vc_relate_is(pair->match->kind)) { /* only how rows lie to each other */
        return VC_OK;
    }
    if (!same_points(teacher, &pair->teacher, student, &pair->student)) {
        return refuse_shapes(m, pair, "only channels may differ in number, not positions or pixels");
    }
    if (pair->match->kind == VC_MATCH_ATTENTION && pair->student.n_points < 2) {
        return refuse_shapes(m, pair, "an attention map needs several positions or pixels");
    }
    pair->points = points_of(m, vc_graph_value(student, pair->student.value), pair->student.n_points);
    if (pair->match->kind == VC_MATCH_ATTENTION || pair->student.width == pair->teacher.width) {
        return VC_OK;
    }
    (void)snprintf(name, sizeof name, "match.%zu", k);
    return vc_weights_add_map(m->student->weights, name, pair->student.width, pair->teacher.width,
                              m->options->training.seed, &pair->map);
}

/* All pairs; figures begin as NaN. */
enum vc_status vc_match_open(struct vc_matches *m, const struct vc_net *student, const struct vc_net *teacher,
                             const struct vc_taught_rows *data, struct vc_arena *texts)
{
    if (m == NULL) {
        return VC_OK;
    }
    m->student = student;
    m->teacher = teacher;
    m->data = data;
    VC_CALL_ALLOC(m->figures = vc_arena_alloc(m->ctx, texts, m->n * sizeof *m->figures));
    VC_CALL(read_tokens(m));
    for (size_t k = 0; k < m->n; k++) {
        VC_CALL(open_pair(m, k));
        m->figures[k] = (struct vc_match_figures){
            .projected = m->pairs[k].map != NO_MAP, .first = (double)NAN, .last = (double)NAN};
    }
    return VC_OK;
}

const struct vc_match_figures *vc_match_figures(const struct vc_matches *m)
{
    return m != NULL ? m->figures : NULL;
}

void vc_match_note(struct vc_matches *m, bool first, const double *sums)
{
    for (size_t k = 0; m != NULL && k < m->n; k++) {
        m->figures[k].first = first ? sums[k] : m->figures[k].first;
        m->figures[k].last = sums[k];
    }
}

/* The value of pair k as a program has it: behind the one output that is computed. */
static const struct vc_engine_value *value_of(const struct vc_engine *engine, size_t k)
{
    return vc_engine_output(engine, 1 + k);
}

/* A value of the student must have a gradient: else the term would move nothing. */
enum vc_status vc_match_check_programs(const struct vc_matches *m)
{
    for (size_t i = 0; m != NULL && i < 2 * m->n; i++) {
        const struct vc_net *net = i % 2 == 0 ? m->student : m->teacher;
        const struct pair *pair = &m->pairs[i / 2];

        for (size_t e = 0; e < net->n_engines; e++) {
            const struct vc_net_engine *program = &net->engines[e];

            if (net == m->student && !program->train) {
                continue;
            }
            const struct vc_engine_value *value = value_of(program->engine, i / 2);
            const struct side *side = i % 2 == 0 ? &pair->student : &pair->teacher;
            if (value->shape[0] != (int64_t)program->rows || value->n != program->rows * side->n_points * side->width) {
                return refuse_shapes(m, pair, "what can be matched has rows of data first");
            }
            VC_REFUSE_IF(net == m->student && !vc_engine_has_grad(program->engine, 1 + i / 2), m->ctx, VC_E_ARGUMENT,
                         "%s: %s of the student depends on nothing that is trained", vc_option(m->ctx, "loss.matches"),
                         pair->match->student);
        }
    }
    return VC_OK;
}

/* ---- memory ---- */

static bool has_map(const struct pair *p)
{
    return p->map != NO_MAP;
}

/* Numbers of one row of data, of the side that has more. */
static size_t row_of(const struct pair *p)
{
    return p->student.n_points * (p->student.width > p->teacher.width ? p->student.width : p->teacher.width);
}

/* Places of the parts of the room, in bytes; a batch takes its pairs one after the other. */
struct layout {
    uint64_t losses;    /* of the rows of a batch */
    uint64_t map;       /* the numbers of one projector, weight and bias */
    uint64_t gradients; /* of what a projector gives, of a whole batch */
    uint64_t work;      /* WORK_ROWS rows for each thread */
    uint64_t relation;  /* rows of both sides, gradients, and what a relation needs beside */
    size_t row;         /* doubles of one of these */
    uint64_t copies[VC_MATCH_MOST];
    uint64_t bytes; /* UINT64_MAX / 2 or more: it overflows */
};

/* A row of the student and of the teacher, the student's behind its projector, and gradients of both; maps. */
enum { WORK_STUDENT, WORK_TEACHER, WORK_PROJECTED, WORK_GRADIENT, WORK_BACK, WORK_MAPS, WORK_ROWS = WORK_MAPS + 2 };

/* The place of a * b elements behind what is there already. */
static uint64_t place(struct layout *l, uint64_t a, uint64_t b, size_t size)
{
    uint64_t at = l->bytes;
    uint64_t n;

    if (!vc_mul_u64(a, b, &n) || !vc_mul_u64(n, size, &n) || !vc_round_up_u64(n, VC_POOL_ALIGN, &n) ||
        !vc_add_u64(l->bytes, n, &l->bytes)) {
        l->bytes = UINT64_MAX / 2;
        return 0;
    }
    return at;
}

/* Threads of the student's program that has the most. */
static unsigned n_workers(const struct vc_matches *m)
{
    unsigned most = 1;

    for (size_t e = 0; e < m->student->n_engines; e++) {
        unsigned n = vc_engine_workers(m->student->engines[e].engine);

        most = n > most ? n : most;
    }
    return most;
}

/* Numbers of one row of data as one point. */
static uint64_t point_of(const struct side *side)
{
    return (uint64_t)side->n_points * side->width;
}

/* What a relation of n rows takes; 0 if it is not one. */
static uint64_t relation_bytes(const struct pair *p, uint64_t n)
{
    uint64_t student = point_of(&p->student);
    uint64_t teacher = point_of(&p->teacher);

    if (n > UINT64_C(1) << 20 && vc_relate_is(p->match->kind)) { /* squares of rows: no memory has them */
        return UINT64_MAX / 2;
    }
    return vc_relate_is(p->match->kind)
               ? sizeof(double) * (n * (2 * student + teacher) + vc_relate_room(p->match->kind, n, student, teacher))
               : 0;
}

/* Where everything lies in the room. Projector and gradients are shared by all pairs, which are computed
 * one after the other; copies of the teacher's values are of all pairs at once. */
static struct layout lay_out(const struct vc_matches *m)
{
    struct layout l = {.row = 0};
    size_t map = 0;
    size_t projected = 0;
    uint64_t relation = 0;

    for (size_t k = 0; k < m->n; k++) {
        const struct pair *p = &m->pairs[k];
        uint64_t related = relation_bytes(p, m->options->training.batch);
        size_t n_map = has_map(p) ? (p->student.width + 1) * p->teacher.width : 0;

        relation = related > relation ? related : relation;
        l.row = row_of(p) > l.row && related == 0 ? row_of(p) : l.row;
        map = n_map > map ? n_map : map;
        projected = has_map(p) && row_of(p) > projected ? row_of(p) : projected;
    }
    l.losses = place(&l, m->options->training.batch, 1, sizeof(double));
    l.map = place(&l, map, 1, sizeof(double));
    l.gradients = place(&l, m->options->training.batch, projected, sizeof(double));
    l.relation = place(&l, relation, 1, 1);
    l.work = place(&l, (uint64_t)WORK_ROWS * n_workers(m), l.row, sizeof(double));
    for (size_t k = 0; k < m->n; k++) {
        const struct side *side = &m->pairs[k].teacher;

        l.copies[k] = place(&l, m->options->training.batch, (uint64_t)side->n_points * side->width,
                            vc_real_bytes(m->options->precision.kind));
    }
    return l;
}

uint64_t vc_match_bytes(const struct vc_matches *m)
{
    return lay_out(m).bytes;
}

void **vc_match_room(struct vc_matches *m)
{
    return &m->room;
}

/* Accepts NULL. */
void vc_match_close(struct vc_matches *m)
{
    if (m != NULL) {
        VC_FREE_ALL(m->ctx, m->room, m->tokens, m);
    }
}

/* ---- a batch ---- */

/* Both networks take turns in one arena, so values are copied before the student runs. */
void vc_match_take(struct vc_matches *m, const struct vc_engine *engine, size_t n)
{
    struct layout l = lay_out(m);

    for (size_t k = 0; k < m->n; k++) {
        const struct side *side = &m->pairs[k].teacher;

        memcpy((char *)m->room + l.copies[k], value_of(engine, k)->data,
               n * side->n_points * side->width * vc_real_bytes(m->options->precision.kind));
    }
}

/* Those of a row of data that are no padding; none without an attention_mask. */
static uint64_t n_tokens(const struct vc_matches *m, uint64_t number)
{
    uint64_t n = 0;

    for (size_t p = 0; m->tokens != NULL && p < m->n_tokens; p++) {
        n += m->tokens[number * m->n_tokens + p] != 0;
    }
    return n;
}

/* What counts in these rows, by both masks. */
void vc_match_count(const struct vc_matches *m, const uint64_t *numbers, size_t n, struct vc_match_counts *counts)
{
    const struct vc_rows *rows = &m->data->rows;

    *counts = (struct vc_match_counts){0};
    for (size_t i = 0; i < n; i++) {
        uint64_t positions = 0;
        uint64_t tokens = n_tokens(m, numbers[i]);

        for (uint64_t p = 0; p < rows->positions; p++) {
            positions += rows->mask == NULL || rows->mask[numbers[i] * rows->positions + p] != 0;
        }
        counts->rows += positions != 0;
        counts->positions += positions;
        counts->token_rows += positions != 0 && tokens != 0;
        counts->tokens += positions != 0 ? tokens : 0;
    }
}

/* One pair in one batch. */
struct task {
    const struct vc_matches *m;
    const struct vc_match_batch *batch;
    const struct pair *pair;
    const struct layout *layout;
    char *room;
    const void *teacher;                 /* the copy */
    const struct vc_engine_value *value; /* the student's */
    double share;                        /* 1 / what the term is divided by; 0: nothing counts */
};

static double get(bool f64, const void *x, size_t i)
{
    return f64 ? ((const double *)x)[i] : (double)((const float *)x)[i];
}

/* Adds y to number i of an array of the run's type. */
static void add(bool f64, void *x, size_t i, double y)
{
    if (f64) {
        ((double *)x)[i] += y;
    } else {
        ((float *)x)[i] += (float)y;
    }
}

/* Where channel c of point p of a row of data is. */
static size_t at(const struct side *side, size_t row, size_t p, size_t c)
{
    size_t first = row * side->n_points * side->width;

    return side->inner ? first + c * side->n_points + p : first + p * side->width + c;
}

/* One row as [points][width], whichever of the two is inner in the network. */
static void gather(bool f64, const struct side *side, const void *from, size_t row, double *to)
{
    for (size_t p = 0; p < side->n_points; p++) {
        for (size_t c = 0; c < side->width; c++) {
            to[p * side->width + c] = get(f64, from, at(side, row, p, c));
        }
    }
}

/* Row k of this thread's work. */
static double *work_of(const struct task *task, unsigned worker, size_t k)
{
    return (double *)(void *)(task->room + task->layout->work) + (worker * WORK_ROWS + k) * task->layout->row;
}

/* projected = weight student + bias, for every point. */
static void project(const struct task *task, const double *student, double *projected)
{
    size_t inputs = task->pair->student.width;
    size_t outputs = task->pair->teacher.width;
    const double *weight = (const double *)(void *)(task->room + task->layout->map);
    const double *bias = weight + inputs * outputs;

    for (size_t p = 0; p < task->pair->student.n_points; p++) {
        for (size_t o = 0; o < outputs; o++) {
            double sum = bias[o];

            for (size_t i = 0; i < inputs; i++) {
                sum += weight[o * inputs + i] * student[p * inputs + i];
            }
            projected[p * outputs + o] = sum;
        }
    }
}

/* back = the gradient of what was projected, times the weight. */
static void project_back(const struct task *task, const double *gradient, double *back)
{
    size_t inputs = task->pair->student.width;
    size_t outputs = task->pair->teacher.width;
    const double *weight = (const double *)(void *)(task->room + task->layout->map);

    memset(back, 0, task->pair->student.n_points * inputs * sizeof *back);
    for (size_t p = 0; p < task->pair->student.n_points; p++) {
        for (size_t o = 0; o < outputs; o++) {
            for (size_t i = 0; i < inputs; i++) {
                back[p * inputs + i] += gradient[p * outputs + o] * weight[o * inputs + i];
            }
        }
    }
}

/* Whether anything of a row of data counts. */
static bool row_counts(const struct task *task, size_t row)
{
    const struct vc_matches *m = task->m;

    if (task->pair->points == POINTS_TOKENS && n_tokens(m, task->batch->numbers[row]) == 0) {
        return false;
    }
    for (size_t p = 0; p < m->student->positions; p++) {
        if (task->batch->mask[row * m->student->positions + p] != 0) {
            return true;
        }
    }
    return false;
}

/* Of the points of a row; NULL: all count. */
static const uint8_t *mask_of(const struct task *task, size_t row)
{
    const struct vc_matches *m = task->m;

    return task->pair->points == POINTS_ANSWERS  ? task->batch->mask + row * m->student->positions
           : task->pair->points == POINTS_TOKENS ? m->tokens + task->batch->numbers[row] * m->n_tokens
                                                 : NULL;
}

/* vc_engine_each: one row of data. */
static void match_row(void *user, unsigned worker, size_t row)
{
    const struct task *task = user;
    const struct vc_matches *m = task->m;
    const struct pair *pair = task->pair;
    double *student = work_of(task, worker, WORK_STUDENT);
    double *projected = work_of(task, worker, WORK_PROJECTED);
    double *back = work_of(task, worker, WORK_BACK);
    struct vc_match_row r = {.kind = pair->match->kind,
                             .n_points = pair->student.n_points,
                             .width = has_map(pair) ? pair->teacher.width : pair->student.width,
                             .teacher_width = pair->teacher.width,
                             .student = has_map(pair) ? projected : student,
                             .teacher = work_of(task, worker, WORK_TEACHER),
                             .mask = mask_of(task, row),
                             .by = vc_match_weight(pair->match, task->batch->part) * task->share * task->batch->scale,
                             .gradient = work_of(task, worker, WORK_GRADIENT),
                             .maps = work_of(task, worker, WORK_MAPS)};
    double *loss = (double *)(void *)(task->room + task->layout->losses) + row;
    size_t n = r.n_points * r.width;

    *loss = 0;
    if (!row_counts(task, row)) {
        memset(r.gradient, 0, n * sizeof *r.gradient);
    } else {
        gather(m->f64, &pair->student, task->value->data, row, student);
        gather(m->f64, &pair->teacher, task->teacher, row, work_of(task, worker, WORK_TEACHER));
        if (has_map(pair)) {
            project(task, student, projected);
        }
        *loss = task->share * vc_match_row(&r);
    }
    if (has_map(pair)) {
        memcpy((double *)(void *)(task->room + task->layout->gradients) + row * n, r.gradient, n * sizeof *r.gradient);
        project_back(task, r.gradient, back);
    }
    for (size_t p = 0; p < r.n_points; p++) {
        for (size_t c = 0; c < pair->student.width; c++) {
            add(m->f64, task->value->grad, at(&pair->student, row, p, c),
                (has_map(pair) ? back : r.gradient)[p * pair->student.width + c]);
        }
    }
}

/* How the rows of the batch that count lie to each other, as one term of the batch, which counts for its rows. */
static double relate(const struct task *task)
{
    const struct vc_matches *m = task->m;
    const struct pair *pair = task->pair;
    size_t width = (size_t)point_of(&pair->student);
    size_t teacher_width = (size_t)point_of(&pair->teacher);
    double *student = (double *)(void *)(task->room + task->layout->relation);
    double *teacher = student + task->batch->n * width;
    double *gradient = teacher + task->batch->n * teacher_width;
    struct vc_relation r = {.width = width,
                            .teacher_width = teacher_width,
                            .student = student,
                            .teacher = teacher,
                            .gradient = gradient,
                            .room = gradient + task->batch->n * width};
    double share;

    for (size_t row = 0; row < task->batch->n; row++) {
        if (row_counts(task, row)) {
            gather(m->f64, &pair->student, task->value->data, row, student + r.n * width);
            gather(m->f64, &pair->teacher, task->teacher, row, teacher + r.n * teacher_width);
            r.n++;
        }
    }
    share = task->share * (double)r.n;
    r.by = vc_match_weight(pair->match, task->batch->part) * share * task->batch->scale;
    memset(gradient, 0, r.n * width * sizeof *gradient);
    double term = share * vc_relate(pair->match->kind, &r);
    for (size_t row = 0, k = 0; row < task->batch->n; row++) {
        for (size_t i = 0; row_counts(task, row) && i < width; i++) {
            add(m->f64, task->value->grad, at(&pair->student, row, i / pair->student.width, i % pair->student.width),
                gradient[k * width + i]);
        }
        k += row_counts(task, row);
    }
    return term;
}

/* vc_engine_each: the gradient of one output of a projector: the sum over all points of the batch, in their order. */
static void map_output(void *user, unsigned worker, size_t o)
{
    const struct task *task = user;
    const struct vc_matches *m = task->m;
    const struct side *side = &task->pair->student;
    struct vc_weight *weight = &m->student->weights->items[task->pair->map];
    const double *gradients = (const double *)(void *)(task->room + task->layout->gradients);
    double *sums = work_of(task, worker, WORK_STUDENT);
    double bias = 0;

    memset(sums, 0, side->width * sizeof *sums);
    for (size_t k = 0; k < task->batch->n * side->n_points; k++) {
        double g = gradients[k * task->pair->teacher.width + o];

        bias += g;
        for (size_t i = 0; g != 0 && i < side->width; i++) {
            sums[i] += g * get(m->f64, task->value->data, at(side, k / side->n_points, k % side->n_points, i));
        }
    }
    add(m->f64, weight[1].grad, o, bias);
    for (size_t i = 0; i < side->width; i++) {
        add(m->f64, weight[0].grad, o * side->width + i, sums[i]);
    }
}

/* The projector of a pair as doubles, weight and bias. */
static enum vc_status read_map(const struct task *task)
{
    struct vc_weights *weights = task->m->student->weights;
    const struct vc_weight *weight = &weights->items[task->pair->map];
    double *to = (double *)(void *)(task->room + task->layout->map);

    for (size_t k = 0; k < 2; k++) {
        VC_CALL(vc_weights_entry_to_host(weights, task->pair->map + k));
        for (size_t i = 0; i < weight[k].n; i++) {
            *to++ = get(task->m->f64, weight[k].data, i);
        }
    }
    return VC_OK;
}

/* The gradients of kept values are 0, but of those that are the logits themselves. */
static void clear(const struct vc_matches *m, const struct vc_engine *engine)
{
    const struct vc_engine_value *logits = vc_engine_output(engine, 0);

    for (size_t k = 0; k < m->n; k++) {
        const struct vc_engine_value *value = value_of(engine, k);

        if (value->grad != logits->grad) {
            memset(value->grad, 0, (size_t)value->n * vc_real_bytes(m->options->precision.kind));
        }
    }
}

/* What the term of a pair is divided by: data, positions or pixels. */
static uint64_t divisor(const struct pair *pair, const struct vc_match_counts *counts)
{
    bool of_rows = pair->match->kind == VC_MATCH_ATTENTION || vc_relate_is(pair->match->kind);

    switch (pair->points) {
    case POINTS_ANSWERS:
        return of_rows ? counts->rows : counts->positions;
    case POINTS_TOKENS:
        return of_rows ? counts->token_rows : counts->tokens;
    case POINTS_ALL:
    default:
        return of_rows ? counts->rows : counts->rows * pair->student.n_points;
    }
}

/* All pairs, one after the other. Gradients of the projector are made behind those of all rows. */
enum vc_status vc_match_batch(const struct vc_matches *m, struct vc_engine *engine, const struct vc_match_batch *batch,
                              double *sums)
{
    struct layout l = lay_out(m);

    clear(m, engine);
    for (size_t k = 0; sums != NULL && k < m->n; k++) {
        const struct pair *pair = &m->pairs[k];
        uint64_t by = divisor(pair, batch->counts);
        struct task task = {.m = m,
                            .batch = batch,
                            .pair = pair,
                            .layout = &l,
                            .room = m->room,
                            .teacher = (char *)m->room + l.copies[k],
                            .value = value_of(engine, k),
                            .share = by != 0 ? 1 / (double)by : 0};
        const double *losses = (const double *)(void *)(task.room + l.losses);

        if (vc_relate_is(pair->match->kind)) {
            sums[k] += relate(&task);
            continue;
        }
        if (has_map(pair)) {
            VC_CALL(read_map(&task));
        }
        vc_engine_each(engine, batch->n, match_row, &task);
        for (size_t i = 0; i < batch->n; i++) {
            sums[k] += losses[i];
        }
        if (has_map(pair)) {
            vc_engine_each(engine, pair->teacher.width, map_output, &task);
            VC_CALL(vc_weights_gradient_to_device(m->student->weights, pair->map));
            VC_CALL(vc_weights_gradient_to_device(m->student->weights, pair->map + 1));
        }
    }
    return VC_OK;
}

/* ---- a term that is NaN or infinite ---- */

static bool is_finite_side(const struct vc_matches *m, const struct side *side, const void *values, size_t n)
{
    size_t n_elems = n * side->n_points * side->width;

    return vc_first_nonfinite(m->f64, values, n_elems) == n_elems;
}

/* The student's value has NaN or infinite numbers. */
static enum vc_status refuse_student(const struct vc_matches *m, const struct vc_match *p, uint64_t step)
{
    const struct vc_distill_options *o = m->options;

    VC_REFUSE_IF(step == 1 && o->precision.half != VC_HALF_F16, m->ctx, VC_E_FORMAT,
                 "%s: step 1: the term of %s %s=%s is NaN or infinite, as is the student's %s",
                 o->student.weights->path, vc_option(m->ctx, "loss.matches"), p->teacher, p->student, p->student);
    return vc_fail(m->ctx, VC_E_GATE,
                   "step %llu: the term of %s %s=%s is NaN or infinite, as is the student's %s; a smaller "
                   "%s than %g, or %s%s, keeps it from diverging",
                   (unsigned long long)step, vc_option(m->ctx, "loss.matches"), p->teacher, p->student, p->student,
                   vc_option(m->ctx, "optimizer.lr"), o->optimizer.lr, vc_option(m->ctx, "optimizer.clip"),
                   o->precision.half == VC_HALF_F16 ? ", or bf16 in the place of fp16, which ends at 65504" : "");
}

/* The first pair whose term is not finite, and whose values make it so: the teacher's, the student's, or
 * only their distance. */
enum vc_status vc_match_refuse(const struct vc_matches *m, const struct vc_engine *engine, size_t n, uint64_t step,
                               const double *sums)
{
    const struct pair *pair = NULL;
    const char *teacher = NULL; /* its copy */
    size_t k;

    for (k = 0; m != NULL && pair == NULL && k < m->n; k++) {
        if (!isfinite(sums[k])) {
            struct layout l = lay_out(m);

            pair = &m->pairs[k];
            teacher = (const char *)m->room + l.copies[k];
        }
    }
    if (pair == NULL) {
        return VC_OK;
    }
    const struct vc_match *p = pair->match;
    VC_REFUSE_IF(!is_finite_side(m, &pair->teacher, teacher, n), m->ctx, VC_E_FORMAT,
                 "%s: step %llu: the term of %s %s=%s is NaN or infinite, as is the teacher's %s",
                 m->options->teacher.weights->path, (unsigned long long)step, vc_option(m->ctx, "loss.matches"),
                 p->teacher, p->student, p->teacher);
    VC_RETURN_IF(!is_finite_side(m, &pair->student, value_of(engine, k - 1)->data, n), refuse_student(m, p, step));
    return vc_fail(m->ctx, VC_E_GATE,
                   "step %llu: the term of %s %s=%s is NaN or infinite: the values are too far apart%s; a smaller %s "
                   "than %g keeps them from diverging",
                   (unsigned long long)step, vc_option(m->ctx, "loss.matches"), p->teacher, p->student,
                   has_map(pair) ? ", or the linear map between them has diverged" : "",
                   vc_option(m->ctx, "optimizer.lr"), m->options->optimizer.lr);
}

/* ---- options in a checkpoint ---- */

/* A line for each pair. */
void vc_match_text(const struct vc_matches *m, struct vc_text *text)
{
    for (size_t k = 0; m != NULL && k < m->n; k++) {
        const struct vc_match *p = m->pairs[k].match;

        vc_text_add(text, "matches %s=%s:%d:", p->teacher, p->student, (int)p->kind);
        vc_text_add_json_number(text, p->weight);
        if (p->weight_change != 0) {
            vc_text_add(text, ":");
            vc_text_add_json_number(text, p->weight_change);
        }
        vc_text_add(text, "\n");
    }
}
