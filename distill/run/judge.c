/* judge.c - how well a network answers: rows through student and teacher without gradients. See trainer.h. */
#include <math.h>
#include <string.h>

#include "core/base/checked.h"
#include "distill/loss/match.h"
#include "distill/math/real.h"
#include "distill/run/trainer.h"

/* What is counted over all rows. */
struct tally {
    uint64_t n, n_labels, right, agree;
    double ce, kd; /* sums */
};

/* Rows of the teacher's logits as the student has classes. What only the student has is no answer of the teacher. */
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

enum vc_status vc_trainer_ask(struct vc_trainer *t, struct vc_taught_rows *rows, bool of_logits,
                              const uint64_t *numbers, size_t n, struct vc_teacher_rows *out)
{
    const struct vc_engine_pass pass = {.norm_share = -1};
    const struct vc_engine_value *logits;
    struct vc_engine *engine;

    if (rows->files.n != 0) {
        return vc_teacher_files_read(&rows->files, t->student.f64, t->options.loss.temperature, of_logits, numbers, n,
                                     out);
    }
    VC_CALL(vc_net_engine(&t->teacher, n, false, &engine));
    VC_CALL(vc_net_forward(&t->teacher, engine, &rows->teacher, numbers, n, &pass, &logits));
    take_classes(t, n * t->student.net.positions, logits->data);
    *out = (struct vc_teacher_rows){.logits = t->batch.teacher_logits};
    if (t->match != NULL && rows == &t->data) {
        vc_match_take(t->match, engine, n);
    }
    return VC_OK;
}

/* The class that the teacher answers with; n_classes where its logits are no numbers. */
static size_t teacher_answer(const struct vc_trainer *t, const struct vc_teacher_rows *teacher, size_t row)
{
    size_t best;

    if (teacher->classes == NULL) {
        return vc_answer(t->student.f64, teacher->logits, row, t->student.net.n_classes);
    }
    best = vc_answer(t->student.f64, teacher->logits, row, teacher->k);
    return best < teacher->k ? (size_t)teacher->classes[row * teacher->k + best] : t->student.net.n_classes;
}

static void count_row(struct vc_trainer *t, size_t row, const void *logits, const struct vc_teacher_rows *teacher,
                      struct tally *tally, uint8_t *right)
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
    tally->n++;
    tally->n_labels += has_label;
    tally->right += is_right;
    tally->agree += agrees;
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
    size_t row;

    if (bad == n * positions) {
        return VC_OK;
    }
    row = vc_batch_bad_row(t->ctx, &t->eval.student, numbers, n, &array);
    if (row == n && network == &t->options.student && !t->judge_only && t->progress.counts.step != 0) {
        return vc_fail(t->ctx, VC_E_GATE,
                       "behind step %llu the student's logits for row %llu of %s are no numbers: a smaller %s than %g "
                       "keeps it from diverging",
                       (unsigned long long)t->progress.counts.step, (unsigned long long)numbers[bad / positions], data,
                       vc_option(t->ctx, "optimizer.lr"), t->options.optimizer.lr);
    }
    return row != n ? vc_fail(t->ctx, VC_E_FORMAT, "%s: row %llu of %s has a NaN or infinite value", data,
                              (unsigned long long)numbers[row], array)
                    : vc_fail(t->ctx, VC_E_FORMAT, "%s: its logits for row %llu of %s are no numbers",
                              network->weights != NULL ? network->weights->path : "the teacher",
                              (unsigned long long)numbers[bad / positions], data);
}

static enum vc_status judge_batch(struct vc_trainer *t, bool the_teacher, const uint64_t *numbers, size_t n,
                                  struct tally *tally, uint8_t *right)
{
    const struct vc_loss_spec spec = {.alpha = 1,
                                      .temperature = t->options.loss.temperature,
                                      .mse = t->options.loss.kind == VC_TEACHER_LOSS_MSE,
                                      .cosine = t->options.loss.kind == VC_TEACHER_LOSS_COSINE,
                                      .kd_rows = 1,
                                      .ce_rows = 1};
    struct vc_teacher_rows teacher = {.logits = NULL};
    struct vc_loss_sums sums = {.kd = 0, .ce = (double)NAN};
    const void *logits;
    size_t positions = t->student.net.positions;

    vc_batch_gather(&t->batch, &t->eval.rows, numbers, n);
    if (t->eval.taught) {
        VC_CALL(vc_trainer_ask(t, &t->eval, spec.mse || spec.cosine, numbers, n, &teacher));
    }
    VC_CALL(answer(t, the_teacher, &teacher, numbers, n, &logits));
    if (logits != NULL) {
        sums = t->student.math->loss(&spec, n * positions, t->student.net.n_classes, logits, &teacher, t->batch.labels,
                                     t->batch.mask, t->batch.row, NULL);
    }
    if (logits != NULL && !(isfinite(sums.kd) && isfinite(sums.ce))) {
        VC_CALL(check_logits(t, &t->options.teacher, numbers, n, teacher.classes == NULL ? teacher.logits : NULL));
        VC_CALL(check_logits(t, the_teacher ? &t->options.teacher : &t->options.student, numbers, n, logits));
    }
    tally->kd += sums.kd;
    tally->ce += sums.ce;
    for (size_t i = 0; i < n * positions; i++) {
        uint8_t one;

        count_row(t, i, logits, &teacher, tally, &one);
        if (right != NULL) {
            right[numbers[i / positions] * positions + i % positions] = one;
        }
    }
    return VC_OK;
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

/* A batch of each rank; the sums of all are added up in the order of the rows. */
static enum vc_status judge_round(struct vc_trainer *t, bool the_teacher, uint64_t first, uint64_t *numbers,
                                  struct tally *tally, uint8_t *right)
{
    struct vc_ranks *ranks = t->options.parallel.ranks;
    uint64_t at = first + vc_ranks_rank(ranks) * t->options.training.batch;
    uint64_t n = at < t->eval.rows.n ? vc_min_u64(t->options.training.batch, t->eval.rows.n - at) : 0;
    struct tally own = {0};
    double alone[1][VC_COLLECTIVE_NUMBERS];
    double(*all)[VC_COLLECTIVE_NUMBERS] = ranks != NULL ? vc_ranks_numbers(ranks) : alone;
    enum vc_status status = VC_OK;

    for (uint64_t i = 0; i < n; i++) {
        numbers[i] = at + i;
    }
    status = n != 0 ? judge_batch(t, the_teacher, numbers, (size_t)n, &own, right) : VC_OK;
    status = status == VC_OK ? vc_check_cancelled(t->ctx) : status;
    {
        const double told[6] = {(double)own.n, (double)own.n_labels, (double)own.right, (double)own.agree, own.ce,
                                own.kd};

        VC_CALL(vc_ranks_all_gather(t->ctx, ranks, status, told, 6, all));
    }
    for (unsigned k = 0; k < vc_ranks_size(ranks); k++) {
        tally->n += (uint64_t)all[k][0];
        tally->n_labels += (uint64_t)all[k][1];
        tally->right += (uint64_t)all[k][2];
        tally->agree += (uint64_t)all[k][3];
        tally->ce += all[k][4];
        tally->kd += all[k][5];
    }
    return ranks != NULL && right != NULL ? share_answers(t, first, right) : VC_OK;
}

enum vc_status vc_trainer_judge(struct vc_trainer *t, bool the_teacher, struct vc_quality *quality,
                                struct vc_answers *answers)
{
    uint64_t *numbers = vc_alloc_array(t->ctx, VC_TAG_MISC, (size_t)t->options.training.batch, sizeof *numbers);
    struct tally tally = {0};
    bool answers_count = t->eval.taught && (t->options.loss.kind == VC_TEACHER_LOSS_KD || t->eval.rows.labels != NULL);
    enum vc_status status = VC_OK;

    VC_TRY_ALLOC(numbers);
    for (uint64_t first = 0; first < t->eval.rows.n;
         first += vc_ranks_size(t->options.parallel.ranks) * t->options.training.batch) {
        VC_TRY(judge_round(t, the_teacher, first, numbers, &tally, answers != NULL ? answers->right : NULL));
    }
    *quality = (struct vc_quality){.n_rows = tally.n,
                                   .n_labels = tally.n_labels,
                                   .accuracy = tally.n_labels != 0 ? (double)tally.right / (double)tally.n_labels : NAN,
                                   .ce = tally.n_labels != 0 ? tally.ce / (double)tally.n_labels : NAN,
                                   .agreement = answers_count ? (double)tally.agree / (double)tally.n : NAN,
                                   .kd = t->eval.taught ? tally.kd / (double)tally.n : NAN};
out:
    vc_free(t->ctx, numbers);
    return status;
}
