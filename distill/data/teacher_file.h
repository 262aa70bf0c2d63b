/* teacher_file.h - answers of teachers that lie in files, so that no teacher is in memory. vc_logits (logits.c) writes:
 *
 *     logits       f16, f32 or f64 [rows, classes]; of the k largest: [rows, k], the largest first
 *     classes      i32 [rows, k]    of the k largest: which class each logit belongs to
 *     rest         f64 [rows]       ... log of the sum of exp(logit / T) over all classes
 *     temperature  f64 [1]          ... T
 *     n_classes    i64 [1]
 *     values       i64 [1]          of values that are no logits: 1; else there is no such array
 *     outputs      u8 [n]           of several outputs: "kind 4, price 1" (vc_net_outputs_text); else there is no such array
 *     teacher      u8 [64]          SHA-256, as digits, of graph and weights (identity.h)
 *     data.x       u8 [64]          ... of the rows of the input x
 *     digest       u8 [64]          ... of all of these (vc_identity_content)
 *
 * Of a network that answers for each position of a sequence the first three are [rows, positions, classes],
 * [rows, positions, k] and [rows, positions], with the answers to all positions, masked ones too. */
#pragma once

#include "distill/data/rows.h"
#include "distill/math/step_math.h"

#define VC_TEACHER_DATA    "data." /* begins the names of digests of inputs */
#define VC_TEACHER_VALUES  "values"
#define VC_TEACHER_OUTPUTS "outputs"

struct vc_teacher_file {
    const struct vc_model *model;
    size_t n_classes; /* of the teacher */
    size_t k;         /* 0: all logits are there */
    struct vc_row_array logits, classes, rest;
};

/* Several teachers are one, whose probabilities are the mean of theirs. */
struct vc_teacher_files {
    struct vc_ctx *ctx;
    size_t n; /* 0 if there are none */
    struct vc_teacher_file *items;
    size_t positions; /* of a row, each with answers of its own */
    size_t n_classes; /* of the student: answers are given as it has classes */
    size_t k;
    double accuracy; /* on rows that have a label; NaN: there are none */
    /* The answers to one batch; then, of one row, those of a file, and the sums of several files. */
    void *logits;
    int32_t *classes;
    double *rest, *row, *sum;
};

/* Rows as both networks see them, and who answers them. */
struct vc_taught_rows {
    struct vc_rows rows;
    bool open;
    struct vc_rows_view student, teacher;
    struct vc_teacher_files files; /* answers to these rows */
    bool taught;                   /* there is a teacher for them: the network, or files */
};

/* What a run asks of the files. */
struct vc_teacher_question {
    size_t n_classes;  /* of the student */
    bool common;       /* the first classes, that both have, are compared (VC_CLASSES_COMMON) */
    bool outputs;      /* ... by their values, so that the teacher has to have all of the student's */
    bool values;       /* the student answers with values, not with logits */
    const char *parts; /* vc_net_outputs_text of the student */
    double temperature;
    uint64_t batch; /* the most rows that are read at once */
};

/* Checks that the files are about these rows, in this order, their positions and these classes, and that they do not
 * answer as chance would where there are labels. The models outlive it. */
enum vc_status vc_teacher_files_open(struct vc_ctx *ctx, const struct vc_model *const *models, size_t n,
                                     const struct vc_rows_view *view, const struct vc_teacher_question *question,
                                     struct vc_teacher_files *files);
/* Refuses answers to the rows of an evaluation that other networks gave than those to the data. */
enum vc_status vc_teacher_files_agree(const struct vc_teacher_files *data, const struct vc_teacher_files *eval);
void vc_teacher_files_close(struct vc_teacher_files *files);

/* The answers to n rows, as float or double; valid until the next call. of_logits: several teachers are the mean of
 * their logits, as a loss needs it that compares those. */
enum vc_status vc_teacher_files_read(struct vc_teacher_files *files, bool f64, double temperature, bool of_logits,
                                     const uint64_t *numbers, size_t n, struct vc_teacher_rows *out);
/* The answers to n rows are read soon, as vc_rows_ahead has it. */
void vc_teacher_files_ahead(const struct vc_teacher_files *files, const uint64_t *numbers, size_t n);
