/* judge.c - how well a network answers: rows through student and teacher without gradients. See trainer.h.
 *
 *     rows of eval, batch by batch
 *         the teacher's answers     from files, or by its network        vc_trainer_ask
 *         the network's answers     a program without gradients
 *         compared                  count_row, count_labels: classes, yes and no
 *     figures                       right / labels, agree / rows, losses / rows
 *
 * A row of texts has many positions and a row of maps many places: each is a row of its own in what is
 * counted. Masked ones have answers, too, and count for nothing. */

#include "distill/loss/match.h"
#include "distill/loss/step_loss.h"
#include "distill/math/real.h"
#include "distill/run/trainer.h"
#include "distill/update/device_step.h"

/* Of several outputs, each as if it were the only one: at the end of this file. */
static enum vc_status heads_tally_begin(const struct vc_trainer *t, struct vc_tally *tally);
static enum vc_status heads_tally(struct vc_trainer *t, const struct vc_network *network, const uint64_t *numbers,
                                  size_t n, const void *answers, const struct vc_teacher_rows *teacher,
                                  struct vc_tally *tally);
static enum vc_status heads_quality(const struct vc_trainer *t, const struct vc_tally *tally,
                                    struct vc_quality *quality);

/* Rows of the teacher's logits as the student has classes. What only the student has is no answer of the teacher.
 * Where the teacher has more classes the last ones are left out. */
static void take_classes(struct vc_trainer *t, size_t n_rows, const void *logits)
{
    size_t size = vc_real_bytes(t->options.precision.kind);
    size_t ours = t->student.net.n_classes;
    size_t theirs = t->teacher.n_classes;
    size_t both = ours < theirs ? ours : theirs;

    for (size_t r = 0; r < n_rows; r++) {
        char *to = (char *)t->batch.teacher_logits + r * ours * size;

        memcpy(to, (const char *)logits + r * theirs * size, both * size);
        for (size_t c = both; c < ours; c++) {
            if (t->student.f64) {
                ((double *)(void *)to)[c] = VC_NEVER_LOGIT;
            } else {
                ((float *)(void *)to)[c] = (float)VC_NEVER_LOGIT;
            }
        }
    }
}

/* The teacher's answers to n rows: from files, or by running the network. Values that are matched are kept
 * with them. */
enum vc_status vc_trainer_ask(struct vc_trainer *t, struct vc_taught_rows *rows, bool of_logits,
                              const uint64_t *numbers, size_t n, bool stays, struct vc_teacher_rows *out)
{
    const struct vc_engine_pass pass = {.norm_share = -1};
    const struct vc_engine_value *logits;
    struct vc_engine *engine;

    if (rows->files.n != 0) {
        return vc_teacher_files_read(&rows->files, t->student.f64, t->options.loss.temperature, of_logits, numbers, n,
                                     out);
    }
    VC_CALL(vc_net_engine(&t->teacher, n, false, &engine));
    stays = stays && t->teacher.n_classes == t->student.net.n_classes;
    vc_engine_keep_outputs(engine, stays);
    vc_engine_ask_faults_later(engine, stays);
    VC_CALL(vc_net_forward(&t->teacher, engine, &rows->teacher, numbers, n, &pass, &logits));
    *out = (struct vc_teacher_rows){.logits = t->batch.teacher_logits, .on_device = stays};
    if (stays) {
        VC_CALL(vc_device_keep_teacher(&t->student, engine, n));
        vc_engine_keep_outputs(engine, false); /* others run this program, too */
        vc_engine_ask_faults_later(engine, false);
    } else {
        take_classes(t, n * t->student.net.positions, logits->data);
    }
    if (t->match != NULL && rows == &t->data) {
        vc_match_take(t->match, engine, n);
    }
    return VC_OK;
}

/* Number i of an array of the run's type.
 * An answer's logit or target; both are of the run's precision. */
static double number_of(const struct vc_trainer *t, const void *x, size_t i)
{
    return t->student.f64 ? ((const double *)x)[i] : (double)((const float *)x)[i];
}

/* The class that the teacher answers with; n_classes where its logits are no numbers. */
static size_t teacher_answer(const struct vc_trainer *t, const struct vc_teacher_rows *teacher, size_t row)
{
    if (teacher->classes == NULL) {
        return vc_answer(t->student.f64, teacher->logits, row, t->student.net.n_classes);
    }
    size_t best = vc_answer(t->student.f64, teacher->logits, row, teacher->k);
    return best < teacher->k ? (size_t)teacher->classes[row * teacher->k + best] : t->student.net.n_classes;
}

/* A row of yes and no: where the logit is above 0 the answer is yes. NULL: answers that are not known.
 * The figure F1 follows from the three counts: 2 * hits / (2 * hits + wrong + missed). */
static void count_labels(struct vc_trainer *t, size_t row, const void *logits, const struct vc_teacher_rows *teacher,
                         struct vc_tally *tally, uint8_t *right)
{
    size_t n = t->student.net.n_classes;
    bool has_y = t->eval.rows.targets != NULL;
    size_t good = 0;

    for (size_t c = 0; logits != NULL && c < n; c++) {
        bool yes = number_of(t, logits, row * n + c) > 0;
        bool y = has_y && number_of(t, t->batch.targets, row * n + c) >= 0.5;
        bool agrees = teacher->logits != NULL && yes == (number_of(t, teacher->logits, row * n + c) > 0);

        good += has_y ? yes == y : agrees;
        if (t->batch.mask[row] != 0) {
            tally->agree += agrees;
            tally->hits += has_y && yes && y;
            tally->wrong += has_y && yes && !y;
            tally->missed += has_y && !yes && y;
        }
    }
    tally->n += t->batch.mask[row] != 0;
    *right = good == n;
}

/* A row of classes. `right` is filled for rows that are masked, too, but only rows that count are counted. */
static void count_row(struct vc_trainer *t, size_t row, const void *logits, const struct vc_teacher_rows *teacher,
                      struct vc_tally *tally, uint8_t *right)
{
    size_t classes = t->student.net.n_classes;
    size_t wanted = teacher->logits != NULL ? teacher_answer(t, teacher, row) : classes;
    size_t answer = logits != NULL ? vc_answer(t->student.f64, logits, row, classes) : wanted;
    bool has_label = t->batch.labels[row] != VC_NO_LABEL;
    bool is_right = has_label && answer == (size_t)t->batch.labels[row];
    bool agrees = teacher->logits != NULL && answer == wanted && answer != classes;

    *right = t->eval.rows.labels != NULL ? is_right : agrees;
    if (t->batch.mask[row] == 0) {
        return;
    }
    if (tally->n_places != 0 && has_label && answer < classes) {
        tally->lists[t->batch.labels[row]] += is_right;
        tally->lists[classes + (size_t)t->batch.labels[row]]++;
        tally->lists[2 * classes + answer]++;
    }
    tally->n++;
    tally->n_labels += has_label;
    tally->right += is_right;
    tally->agree += agrees;
}

/* F1 of the positions that two spans have in common. */
static double overlap(const int64_t is[2], const int64_t y[2])
{
    int64_t first = is[0] > y[0] ? is[0] : y[0];
    int64_t last = is[1] < y[1] ? is[1] : y[1];

    return first <= last ? 2.0 * (double)(last - first + 1) / (double)(is[1] - is[0] + 1 + y[1] - y[0] + 1) : 0;
}

/* A row of spans, two rows of classes: its answer is both of them. */
static void count_span(struct vc_trainer *t, size_t row, const void *logits, const struct vc_teacher_rows *teacher,
                       struct vc_tally *tally, uint8_t *right)
{
    size_t classes = t->student.net.n_classes;
    bool agrees = teacher->logits != NULL;
    bool has_labels = true;
    bool exact = true;
    int64_t answers[2];

    for (size_t e = 0; e < 2; e++) {
        size_t wanted = teacher->logits != NULL ? teacher_answer(t, teacher, row + e) : classes;
        size_t answer = logits != NULL ? vc_answer(t->student.f64, logits, row + e, classes) : wanted;

        agrees = agrees && answer == wanted && answer != classes;
        has_labels = has_labels && t->batch.labels[row + e] != VC_NO_LABEL;
        exact = exact && t->batch.labels[row + e] == (int64_t)answer;
        answers[e] = (int64_t)answer;
    }
    *right = t->eval.rows.labels != NULL ? has_labels && exact : agrees;
    if (t->batch.mask[row] != 0 && t->batch.mask[row + 1] != 0) {
        tally->n++;
        tally->n_labels += has_labels;
        tally->right += has_labels && exact;
        tally->agree += agrees;
        tally->overlap += has_labels ? overlap(answers, &t->batch.labels[row]) : 0;
    }
}

/* The logits of a network for n rows of eval; NULL: they are those of a file that has not all of them. */
static enum vc_status answer(struct vc_trainer *t, bool the_teacher, const struct vc_teacher_rows *teacher,
                             const uint64_t *numbers, size_t n, const void **out)
{
    struct vc_net *net = the_teacher ? &t->teacher : &t->student.net;
    const struct vc_engine_pass pass = {.norm_share = -1};
    const struct vc_engine_value *logits;
    struct vc_engine *engine;

    if (the_teacher && t->eval.files.n != 0) {
        *out = teacher->classes == NULL ? teacher->logits : NULL;
        return VC_OK;
    }
    VC_CALL(vc_net_engine(net, n, false, &engine));
    VC_CALL(vc_net_forward(net, engine, the_teacher ? &t->eval.teacher : &t->eval.student, numbers, n, &pass, &logits));
    *out = logits->data;
    return VC_OK;
}

/* The first row of logits that counts and has one that is no number; n: none. Infinite ones are none of the answers,
 * and may be meant so. */
static size_t find_nan(const struct vc_trainer *t, const void *logits, size_t n)
{
    size_t classes = t->student.net.n_classes;

    for (size_t i = 0; logits != NULL && i < n * classes; i++) {
        double x = t->student.f64 ? ((const double *)logits)[i] : (double)((const float *)logits)[i];

        if (isnan(x) && t->batch.mask[i / classes] != 0) {
            return i / classes;
        }
    }
    return n;
}

/* Logits that are no numbers would make figures of the evaluation that are none: because of a row, or a network. */
static enum vc_status check_logits(struct vc_trainer *t, const struct vc_network *network, const uint64_t *numbers,
                                   size_t n, const void *logits)
{
    size_t positions = t->student.net.positions;
    size_t bad = find_nan(t, logits, n * positions);
    const char *data = t->eval.rows.model->path;
    const char *array = NULL;

    if (bad == n * positions) {
        return VC_OK;
    }
    size_t row = vc_batch_bad_row(t->ctx, &t->eval.student, numbers, n, &array);
    VC_REFUSE_IF(row == n && network == &t->options.student && !t->judge_only && t->progress.counts.step != 0, t->ctx,
                 VC_E_GATE,
                 "behind step %llu the student's logits for row %llu of %s are no numbers: a smaller %s than %g "
                 "keeps it from diverging",
                 (unsigned long long)t->progress.counts.step,
                 (unsigned long long)vc_rows_in_file(&t->eval.rows, numbers[bad / positions]), data,
                 vc_option(t->ctx, "optimizer.lr"), t->options.optimizer.lr);
    return row != n ? vc_fail(t->ctx, VC_E_FORMAT, "%s: row %llu of %s has a NaN or infinite value", data,
                              (unsigned long long)vc_rows_in_file(&t->eval.rows, numbers[row]), array)
                    : vc_fail(t->ctx, VC_E_FORMAT, "%s: its logits for row %llu of %s are no numbers",
                              network->weights != NULL ? network->weights->path : "the teacher",
                              (unsigned long long)vc_rows_in_file(&t->eval.rows, numbers[bad / positions]), data);
}

/* The errors of n rows of answers, against the targets of those that count. */
static void count_error(const struct vc_trainer *t, const void *answers, const uint64_t *numbers, size_t n,
                        struct vc_tally *tally)
{
    const struct vc_rows *rows = &t->eval.rows;
    size_t width = t->student.net.n_classes;
    size_t positions = t->student.net.positions;

    for (size_t i = 0;
         rows->targets != NULL && t->student.net.task != VC_NET_TASK_LABELS && answers != NULL && i < n * positions;
         i++) {
        const double *targets = rows->targets + (numbers[i / positions] * positions + i % positions) * width;

        for (size_t c = 0; t->batch.mask[i] != 0 && c < width; c++) {
            double e = number_of(t, answers, i * width + c) - targets[c];

            tally->error += e * e;
            tally->absolute += fabs(e);
        }
    }
}

/* How the teacher's outputs differ from row to row: means and squared distances, row by row (Welford). */
static void count_spread(const struct vc_trainer *t, const void *outputs, size_t n, struct vc_tally *tally)
{
    size_t width = t->student.net.n_classes;
    double *mean = tally->lists + tally->n_places;

    for (size_t i = 0; tally->n_spread != 0 && outputs != NULL && i < n * t->student.net.positions; i++) {
        mean[width + 1] += t->batch.mask[i] != 0;
        for (size_t c = 0; t->batch.mask[i] != 0 && c < width; c++) {
            double x = number_of(t, outputs, i * width + c);
            double off = x - mean[c];

            mean[c] += off / mean[width + 1];
            mean[width] += off * (x - mean[c]);
        }
    }
}

/* The same of all rows so far and of one more batch. */
static void add_spread(double *to, const double *batch, size_t width)
{
    double n = batch[width + 1];
    double all = to[width + 1] + n;

    for (size_t c = 0; n != 0 && c < width; c++) {
        double off = batch[c] - to[c];

        to[width] += off * off * n * (to[width + 1] / all);
        to[c] += off * (n / all);
    }
    to[width] += batch[width];
    to[width + 1] = all;
}

/* Losses of rows of answers; of spans by end, since each is a mean of its own. */
static struct vc_loss_sums losses_of(struct vc_trainer *t, const void *logits, size_t n_rows,
                                     const struct vc_teacher_rows *teacher, const struct vc_tally *tally)
{
    const struct vc_loss_spec spec = {.alpha = 1,
                                      .temperature = t->options.loss.temperature,
                                      .y_kind = t->student.net.task == VC_NET_TASK_EMBEDDINGS ? VC_TEACHER_LOSS_COSINE
                                                                                              : t->student.net.y_loss,
                                      .huber_delta = t->options.answers.huber_delta,
                                      .kind = t->options.loss.kind,
                                      .kd_rows = 1,
                                      .ce_rows = 1};
    const struct vc_label_rows labels = vc_batch_labels(&t->batch, &t->eval.rows);
    const struct vc_step_loss loss = {t->student.math, &t->student.net, &t->batch, &spec, teacher, labels, tally->ends};
    struct vc_loss_sums sums = {0, 0};

    if (t->student.net.task != VC_NET_TASK_SPANS) {
        return t->student.math->loss(&spec, n_rows, t->student.net.n_classes, logits, teacher, &labels, t->batch.mask,
                                     t->batch.row, NULL);
    }
    for (size_t r = 0; r < n_rows; r++) {
        struct vc_loss_sums one = vc_step_loss_row(&loss, r, logits, t->batch.row, NULL);

        sums.kd += one.kd / 2;
        sums.ce += one.ce;
    }
    return sums;
}

/* What is counted for the task. */
enum vc_status vc_tally_add(struct vc_trainer *t, const struct vc_network *network, const uint64_t *numbers, size_t n,
                            const void *logits, const struct vc_teacher_rows *teacher, struct vc_tally *tally,
                            uint8_t *right)
{
    const enum vc_net_task task = t->student.net.task;
    struct vc_loss_sums sums = {.kd = 0, .ce = (double)NAN};
    size_t positions = t->student.net.positions;
    size_t step = task == VC_NET_TASK_SPANS ? 2 : 1;

    if (t->student.net.n_heads != 0) {
        return heads_tally(t, network, numbers, n, logits, teacher, tally);
    }
    if (logits != NULL) {
        sums = losses_of(t, logits, n * positions, teacher, tally);
    }
    if (logits != NULL && !(isfinite(sums.kd) && isfinite(sums.ce))) {
        VC_CALL(check_logits(t, &t->options.teacher, numbers, n, teacher->classes == NULL ? teacher->logits : NULL));
        VC_CALL(check_logits(t, network, numbers, n, logits));
    }
    tally->kd += sums.kd;
    tally->ce += sums.ce;
    count_error(t, logits, numbers, n, tally);
    count_spread(t, teacher->logits, n, tally);
    for (size_t i = 0; i < n * positions; i += step) {
        uint8_t one;

        if (task == VC_NET_TASK_LABELS) {
            count_labels(t, i, logits, teacher, tally, &one);
        } else if (task == VC_NET_TASK_SPANS) {
            count_span(t, i, logits, teacher, tally, &one);
        } else {
            count_row(t, i, logits, teacher, tally, &one);
        }
        if (right != NULL) {
            memset(&right[numbers[i / positions] * positions + i % positions], one, step);
        }
    }
    return VC_OK;
}

/* One batch: the teacher's answers, the network's, and both compared. */
static enum vc_status judge_batch(struct vc_trainer *t, bool the_teacher, const uint64_t *numbers, size_t n,
                                  struct vc_tally *tally, uint8_t *right)
{
    struct vc_teacher_rows teacher = {.logits = NULL};
    const void *logits;

    vc_batch_gather(&t->batch, &t->eval.rows, t->student.f64, numbers, n);
    if (t->eval.taught) {
        VC_CALL(vc_trainer_ask(t, &t->eval, vc_loss_compares(t->options.loss.kind) != VC_OF_CLASSES, numbers, n, false,
                               &teacher));
    }
    VC_CALL(answer(t, the_teacher, &teacher, numbers, n, &logits));
    return vc_tally_add(t, the_teacher ? &t->options.teacher : &t->options.student, numbers, n, logits, &teacher, tally,
                        right);
}

/* The answers to each rank's batch, behind the all-gather of a round, to all ranks. */
static enum vc_status share_answers(struct vc_trainer *t, uint64_t first, uint8_t *right)
{
    struct vc_ranks *ranks = t->options.parallel.ranks;
    unsigned n_ranks = vc_ranks_size(ranks);
    struct vc_piece *pieces = vc_ranks_pieces(ranks);
    uint64_t n_rows = t->eval.rows.n;

    for (unsigned k = 0; k < n_ranks; k++) {
        uint64_t begin = vc_min_u64(first + k * t->options.training.batch, n_rows);
        uint64_t end = vc_min_u64(begin + t->options.training.batch, n_rows);

        pieces[n_ranks + k] = (struct vc_piece){right + begin * t->student.net.positions,
                                                (size_t)(end - begin) * t->student.net.positions};
    }
    for (unsigned k = 0; k < n_ranks; k++) {
        pieces[k] = pieces[n_ranks + vc_ranks_rank(ranks)];
    }
    return vc_ranks_exchange(t->ctx, ranks, pieces, pieces + n_ranks);
}

/* Nothing was counted yet. */
static void clear(const struct vc_trainer *t, struct vc_tally *tally)
{
    size_t n = tally->n_places + tally->n_spread;

    *tally = (struct vc_tally){.ends = {tally->ends[0], tally->ends[1]},
                               .lists = tally->lists,
                               .received = tally->received,
                               .n_places = tally->n_places,
                               .n_spread = tally->n_spread,
                               .heads = tally->heads};
    if (n != 0) {
        memset(tally->lists, 0, n * sizeof *tally->lists);
    }
    for (size_t k = 0; tally->heads != NULL && k < t->student.net.n_heads; k++) {
        clear(t, &tally->heads[k]);
    }
}

/* The lists of a batch of each rank, in the order of the ranks; directly behind an all-gather. */
static enum vc_status join_lists(const struct vc_trainer *t, const struct vc_tally *own, struct vc_tally *tally)
{
    struct vc_ranks *ranks = t->options.parallel.ranks;
    struct vc_piece *pieces = ranks != NULL ? vc_ranks_pieces(ranks) : NULL;
    size_t n = own->n_places + own->n_spread;
    unsigned n_ranks = vc_ranks_size(ranks);

    VC_RETURN_IF(n == 0, VC_OK);
    for (unsigned k = 0; ranks != NULL && k < n_ranks; k++) {
        pieces[k] = (struct vc_piece){own->lists, n * sizeof *own->lists};
        pieces[n_ranks + k] = (struct vc_piece){tally->received + k * n, n * sizeof *own->lists};
    }
    memcpy(tally->received + vc_ranks_rank(ranks) * n, own->lists, n * sizeof *own->lists);
    if (ranks != NULL) {
        VC_CALL(vc_ranks_exchange(t->ctx, ranks, pieces, pieces + n_ranks));
    }
    for (unsigned k = 0; k < n_ranks; k++) {
        const double *batch = tally->received + k * n;

        for (size_t i = 0; i < own->n_places; i++) {
            tally->lists[i] += batch[i];
        }
        if (own->n_spread != 0) {
            add_spread(tally->lists + own->n_places, batch + own->n_places, own->n_spread - 2);
        }
    }
    return VC_OK;
}

/* Adds what each rank counted of its batch, in the order of the rows. status: of this rank's batch. */
static enum vc_status join(const struct vc_trainer *t, enum vc_status status, const struct vc_tally *own,
                           struct vc_tally *tally)
{
    struct vc_ranks *ranks = t->options.parallel.ranks;
    double alone[1][VC_COLLECTIVE_NUMBERS];
    double(*all)[VC_COLLECTIVE_NUMBERS] = ranks != NULL ? vc_ranks_numbers(ranks) : alone;
    const double told[12] = {(double)own->n,
                             (double)own->n_labels,
                             (double)own->right,
                             (double)own->agree,
                             own->ce,
                             own->kd,
                             own->error,
                             own->absolute,
                             (double)own->hits,
                             (double)own->wrong,
                             (double)own->missed,
                             own->overlap};

    VC_CALL(vc_ranks_all_gather(t->ctx, ranks, status, told, 12, all));
    for (unsigned k = 0; k < vc_ranks_size(ranks); k++) {
        tally->n += (uint64_t)all[k][0];
        tally->n_labels += (uint64_t)all[k][1];
        tally->right += (uint64_t)all[k][2];
        tally->agree += (uint64_t)all[k][3];
        tally->ce += all[k][4];
        tally->kd += all[k][5];
        tally->error += all[k][6];
        tally->absolute += all[k][7];
        tally->hits += (uint64_t)all[k][8];
        tally->wrong += (uint64_t)all[k][9];
        tally->missed += (uint64_t)all[k][10];
        tally->overlap += all[k][11];
    }
    return join_lists(t, own, tally);
}

/* A batch of each rank; the sums of all are added up in the order of the rows. own: room for those of this rank's. */
static enum vc_status judge_round(struct vc_trainer *t, bool the_teacher, uint64_t first, uint64_t *numbers,
                                  struct vc_tally *own, struct vc_tally *tally, uint8_t *right)
{
    struct vc_ranks *ranks = t->options.parallel.ranks;
    uint64_t at = first + vc_ranks_rank(ranks) * t->options.training.batch;
    uint64_t n = at < t->eval.rows.n ? vc_min_u64(t->options.training.batch, t->eval.rows.n - at) : 0;
    enum vc_status status = VC_OK;

    clear(t, own);
    for (uint64_t i = 0; i < n; i++) {
        numbers[i] = at + i;
    }
    status = n != 0 ? judge_batch(t, the_teacher, numbers, (size_t)n, own, right) : VC_OK;
    status = status == VC_OK ? vc_check_cancelled(t->ctx) : status;
    for (size_t k = 0; k < t->student.net.n_heads; k++) {
        VC_CALL(join(t, status, &own->heads[k], &tally->heads[k]));
    }
    VC_CALL(join(t, status, own, tally));
    return ranks != NULL && right != NULL ? share_answers(t, first, right) : VC_OK;
}

/* Of the targets of the rows that count: squared distances from the mean of each value. */
static enum vc_status spread_of_targets(const struct vc_trainer *t, double *out)
{
    const struct vc_rows *rows = &t->eval.rows;
    size_t width = t->student.net.n_classes;
    size_t n_points = (size_t)rows->n * rows->positions;
    double *mean = vc_calloc_array(t->ctx, VC_TAG_MISC, width + 1, sizeof *mean);
    double n = 0;

    VC_CALL_ALLOC(mean);
    for (size_t i = 0; i < n_points; i++) {
        bool counts = rows->mask == NULL || rows->mask[i] != 0;

        n += counts;
        for (size_t c = 0; counts && c < width; c++) {
            mean[c] += (rows->targets[i * width + c] - mean[c]) / n;
        }
    }
    *out = 0;
    for (size_t i = 0; i < n_points; i++) {
        for (size_t c = 0; (rows->mask == NULL || rows->mask[i] != 0) && c < width; c++) {
            *out += (rows->targets[i * width + c] - mean[c]) * (rows->targets[i * width + c] - mean[c]);
        }
    }
    vc_free(t->ctx, mean);
    return VC_OK;
}

/* 1 - errors / spread; where nothing of the teacher's outputs is spread, 1 or 0. */
static double share_explained(double errors, double spread)
{
    return spread > 0 ? 1 - errors / spread : errors == 0 ? 1 : 0;
}

/* Figures of y of floats: F1 of yes and no, the cosine of embeddings, or errors and R2 of values. */
static enum vc_status judge_targets(const struct vc_trainer *t, const struct vc_tally *tally,
                                    struct vc_quality *quality)
{
    double width = (double)t->student.net.n_classes;
    uint64_t yes = 2 * tally->hits + tally->wrong + tally->missed;
    double spread;

    quality->n_targets = tally->n;
    if (t->student.net.task == VC_NET_TASK_LABELS) {
        quality->ce = tally->ce / (double)tally->n;
        quality->f1 = yes != 0 ? 2 * (double)tally->hits / (double)yes : (double)NAN;
        quality->undefined = yes == 0 ? "F1 is not defined: neither y nor the answers have a yes in any row" : NULL;
        return VC_OK;
    }
    quality->squared_error = tally->error / ((double)tally->n * width);
    quality->absolute_error = tally->absolute / ((double)tally->n * width);
    if (t->student.net.task == VC_NET_TASK_EMBEDDINGS) {
        quality->cosine = 1 - tally->ce / (double)tally->n;
        return VC_OK;
    }
    VC_CALL(spread_of_targets(t, &spread));
    quality->r2 = spread > 0 ? 1 - tally->error / spread : (double)NAN;
    quality->undefined = spread > 0 ? NULL : "R2 is not defined: y is the same in all rows";
    return VC_OK;
}

/* Figures that are made of sums over all rows: those of y, and how much of the teacher's outputs is
 * explained. */
static enum vc_status judge_values(const struct vc_trainer *t, const struct vc_tally *tally, struct vc_quality *quality)
{
    size_t width = t->student.net.n_classes;

    if (t->eval.rows.targets != NULL) {
        VC_CALL(judge_targets(t, tally, quality));
    }
    if (tally->n_spread != 0) {
        quality->teacher_r2 = share_explained(tally->kd * (double)width, tally->lists[tally->n_places + width]);
    }
    return VC_OK;
}

/* Intersection over union, the mean of the classes that y or the answers have. */
static double mean_iou(const struct vc_trainer *t, const double *places)
{
    size_t n = t->student.net.n_classes;
    double sum = 0;
    double n_classes = 0;

    for (size_t c = 0; c < n; c++) {
        double all = places[n + c] + places[2 * n + c] - places[c];

        sum += all != 0 ? places[c] / all : 0;
        n_classes += all != 0;
    }
    return n_classes != 0 ? sum / n_classes : (double)NAN;
}

/* Room for places of MAPS, and for the teacher's outputs, for R2 of a student of values. */
static enum vc_status make_lists(const struct vc_trainer *t, struct vc_tally *tally)
{
    size_t n_classes = t->student.net.n_classes;
    bool maps = t->student.net.task == VC_NET_TASK_MAPS && t->eval.rows.labels != NULL;
    bool spread =
        t->options.loss.kind == VC_TEACHER_LOSS_MSE && t->student.net.task != VC_NET_TASK_LABELS && t->eval.taught;

    tally->n_places = maps ? 3 * n_classes : 0;
    tally->n_spread = spread ? n_classes + 2 : 0;
    VC_CALL(VC_ZEROS(t->ctx, VC_TAG_MISC, tally->lists, tally->n_places + tally->n_spread + 1));
    return VC_ZEROS(t->ctx, VC_TAG_MISC, tally->received,
                    vc_ranks_size(t->options.parallel.ranks) * (tally->n_places + tally->n_spread) + 1);
}

/* What the network is for; figures that are not measured are NaN. */
static void describe(const struct vc_trainer *t, struct vc_quality *quality)
{
    const struct vc_net *net = t->student.net.n_heads != 0 ? &t->student.net.heads[0] : &t->student.net;

    quality->loss = net->loss;
    quality->answers = net->answers;
    quality->n_outputs = net->n_classes;
    quality->output = net->found.output;
    quality->task = net->task;
    quality->squared_error = quality->r2 = quality->teacher_r2 = NAN;
    quality->absolute_error = quality->f1 = quality->cosine = quality->iou = quality->bits_per_byte = NAN;
    quality->exact_match = NAN;
    quality->undefined = NULL;
}

/* Room for what the task counts. */
enum vc_status vc_tally_begin(const struct vc_trainer *t, struct vc_tally *tally)
{
    *tally = (struct vc_tally){0};
    if (t->student.net.n_heads != 0) {
        return heads_tally_begin(t, tally);
    }
    if (t->student.net.task == VC_NET_TASK_SPANS) {
        vc_rows_count_ends(&t->eval.rows, NULL, (size_t)t->eval.rows.n, tally->ends);
    }
    return make_lists(t, tally);
}

/* Accepts one that was begun in part. */
void vc_tally_end(const struct vc_trainer *t, struct vc_tally *tally)
{
    VC_FREE_ALL(t->ctx, tally->lists, tally->received);
    for (size_t k = 0; tally->heads != NULL && k < t->student.net.n_heads; k++) {
        vc_tally_end(t, &tally->heads[k]);
    }
    vc_free(t->ctx, tally->heads);
}

/* The figures from the counts. */
enum vc_status vc_tally_quality(const struct vc_trainer *t, const struct vc_tally *tally, struct vc_quality *quality)
{
    bool labels = t->student.net.task == VC_NET_TASK_LABELS;
    bool spans = t->student.net.task == VC_NET_TASK_SPANS;
    bool answers_count = t->eval.taught && (labels || vc_loss_compares(t->options.loss.kind) == VC_OF_CLASSES ||
                                            t->eval.rows.labels != NULL);
    double n_answers = (double)tally->n * (labels ? (double)t->student.net.n_classes : 1);
    double n_labels = (double)tally->n_labels;

    if (t->student.net.n_heads != 0) {
        return heads_quality(t, tally, quality);
    }
    *quality = (struct vc_quality){.n_rows = tally->n,
                                   .n_labels = tally->n_labels,
                                   .accuracy = NAN,
                                   .ce = NAN,
                                   .agreement = answers_count ? (double)tally->agree / n_answers : NAN,
                                   .kd = t->eval.taught ? tally->kd / (double)tally->n : NAN};
    if (tally->n_labels != 0) {
        quality->accuracy = (double)tally->right / n_labels;
        quality->ce = tally->ce / (spans ? 1 : n_labels);
    }
    describe(t, quality);
    VC_CALL(judge_values(t, tally, quality));
    VC_CALL(vc_rows_text_bytes(&t->eval.rows, &quality->n_bytes));
    if (quality->n_bytes != 0 && tally->n_labels != 0) {
        quality->bits_per_byte = tally->ce / log(2) / (double)quality->n_bytes;
    }
    if (spans && tally->n_labels != 0) {
        quality->exact_match = quality->accuracy;
        quality->f1 = tally->overlap / n_labels;
    }
    quality->iou = tally->n_places != 0 ? mean_iou(t, tally->lists) : (double)NAN;
    return VC_OK;
}

/* Rounds over all rows, one batch for each rank. */
enum vc_status vc_trainer_judge(struct vc_trainer *t, bool the_teacher, struct vc_quality *quality,
                                struct vc_answers *answers)
{
    uint64_t *numbers = vc_alloc_array(t->ctx, VC_TAG_MISC, (size_t)t->options.training.batch, sizeof *numbers);
    struct vc_tally tally = {0};
    struct vc_tally own = {0};
    enum vc_status status = VC_OK;

    VC_TRY_ALLOC(numbers);
    VC_TRY(vc_tally_begin(t, &tally));
    VC_TRY(vc_tally_begin(t, &own));
    for (uint64_t first = 0; first < t->eval.rows.n;
         first += vc_ranks_size(t->options.parallel.ranks) * t->options.training.batch) {
        VC_TRY(judge_round(t, the_teacher, first, numbers, &own, &tally, answers != NULL ? answers->right : NULL));
        if (t->judge_only) { /* else the steps of the training are told */
            vc_rows_tell(&t->eval.student, "evaluate", vc_min_u64(first + t->options.training.batch, t->eval.rows.n),
                         t->eval.rows.n);
        }
    }
    VC_TRY(vc_tally_quality(t, &tally, quality));
out:
    vc_free(t->ctx, numbers);
    vc_tally_end(t, &own);
    vc_tally_end(t, &tally);
    return status;
}

/* ---- several outputs ---- */

static enum vc_status heads_tally_begin(const struct vc_trainer *t, struct vc_tally *tally)
{
    VC_CALL(VC_ZEROS(t->ctx, VC_TAG_MISC, tally->heads, t->student.net.n_heads));
    for (size_t k = 0; k < t->student.net.n_heads; k++) {
        const struct vc_trainer view = vc_heads_view(t, k);

        VC_CALL(vc_tally_begin(&view, &tally->heads[k]));
    }
    return VC_OK;
}

static enum vc_status heads_tally(struct vc_trainer *t, const struct vc_network *network, const uint64_t *numbers,
                                  size_t n, const void *answers, const struct vc_teacher_rows *teacher,
                                  struct vc_tally *tally)
{
    for (size_t k = 0; k < t->student.net.n_heads; k++) {
        struct vc_trainer view = vc_heads_view(t, k);
        struct vc_teacher_rows its_teacher = vc_heads_teacher(t, k, n, teacher);

        vc_batch_gather(&view.batch, &view.eval.rows, t->student.f64, numbers, n);
        if (answers != NULL) {
            vc_heads_move(&t->student.net, &view.student.net, n, (void *)(uintptr_t)answers, t->heads[k].logits, false);
        }
        VC_CALL(vc_tally_add(&view, network, numbers, n, answers != NULL ? t->heads[k].logits : NULL, &its_teacher,
                             &tally->heads[k], NULL));
    }
    return VC_OK;
}

/* What an output's figures come to as one number to become smaller: the loss of y, else that of the teacher. */
static double loss_of(const struct vc_quality *q)
{
    bool values = q->n_targets != 0 && q->task != VC_NET_TASK_LABELS;
    double of_values = q->task == VC_NET_TASK_EMBEDDINGS ? 1 - q->cosine : q->squared_error;

    return q->n_labels + q->n_targets == 0 ? q->kd : values ? of_values : q->ce;
}

static enum vc_status heads_quality(const struct vc_trainer *t, const struct vc_tally *tally,
                                    struct vc_quality *quality)
{
    size_t n = t->student.net.n_heads;
    struct vc_quality room[VC_MOST_OUTPUTS];
    struct vc_quality *parts = t->texts != NULL ? vc_arena_alloc(t->ctx, t->texts, n * sizeof *parts) : t->parts;

    VC_REFUSE_IF(t->texts != NULL && parts == NULL, t->ctx, VC_E_NOMEM, "not enough memory for the figures");
    *quality = (struct vc_quality){.n_rows = t->eval.rows.n,
                                   .accuracy = NAN,
                                   .ce = NAN,
                                   .agreement = NAN,
                                   .n_parts = parts != NULL ? n : 0,
                                   .parts = parts};
    describe(t, quality);
    parts = parts != NULL ? parts : room;
    for (size_t k = 0; k < n; k++) {
        const struct vc_trainer view = vc_heads_view(t, k);
        const char *name = vc_net_output(&view.student.net)->name;
        size_t length = strlen(name);

        VC_CALL(vc_tally_quality(&view, &tally->heads[k], &parts[k]));
        length = length < sizeof parts[k].name ? length : sizeof parts[k].name - 1;
        memcpy(parts[k].name, name, length);
        parts[k].name[length] = '\0';
        quality->kd += t->eval.rows.outputs[k].task.weight * loss_of(&parts[k]);
        if (isnan(quality->accuracy) || parts[k].accuracy < quality->accuracy) {
            quality->accuracy = parts[k].accuracy; /* the worst */
        }
    }
    return VC_OK;
}
