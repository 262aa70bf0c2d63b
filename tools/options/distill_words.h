/* distill_words.h - values of options that fill several fields, of vcompress distill and of others. false, or NULL, if
 * the option has no such word. */
#pragma once

#include <vcompress/experimental.h>

/* "int8", "int8/tensor", "int8/channel", "int4/group:64", "nvfp4", "fp16", in any spelling (scheme_spelling.h); whether the scheme has scales of that kind
 * is the library's question. Returns the name of the scheme, static. */
const char *scheme_word(const char *value, struct vc_quantize_options *o);

/* The words of --precision; precision_word has what each one means. */
#define PRECISION_WORDS "f32|f64|bf16|fp16"
bool precision_word(const char *value, enum vc_graph_precision *precision, enum vc_half *half);

/* The loss compares softened answers, or may do so (auto). */
bool loss_has_temperature(enum vc_teacher_loss loss);

/* --task and --loss of the commands that run networks, with the library's words in the order of their enums: rows of a table
 * of options that fill the members task_ and loss_ of the command's structure `type`. */
const char *task_word(size_t index);
const char *loss_word(size_t index);
#define TASK_ROWS(type, task_, loss_)                                                                                  \
    {.name = "task",                                                                                                   \
     .kind = OPT_CHOICE,                                                                                               \
     .more = task_word,                                                                                                \
     .call = take_output_task,                                                                                         \
     .wanted = "OUTPUT=TASK, OUTPUT=TASK:WEIGHT or OUTPUT=TASK:WEIGHT:END, with a task such as classes and weights "   \
               "above 0",                                                                                              \
     .field = offsetof(type, task_),                                                                                   \
     .option = "net_task",                                                                                             \
     .needs = "data",                                                                                                  \
     .help = "what the network is for: one class for each row (classes) or for each position of it (tokens), several " \
             "of many (labels: y has 0 or 1 for each), numbers (regression), directions (embeddings), one class for "  \
             "each place (maps: [rows, classes, height, width]), start and end of a part (spans); "                    \
             "OUTPUT=TASK, repeatable: of this one of several outputs, with y in the array of its name, and "          \
             "OUTPUT=TASK:WEIGHT or "                                                                                  \
             "OUTPUT=TASK:WEIGHT:END its share of the loss (default 1). Default auto: "                                \
             "what config.json, y and the output say"},                                                                \
    {                                                                                                                  \
        .name = "loss", .kind = OPT_CHOICE, .more = loss_word, .field = offsetof(type, loss_), .option = "loss.kind",  \
        .needs = "data",                                                                                               \
        .help = "what answers are compared by, with the teacher's, and with y if it has floats: divergence of "        \
                "classes, from the teacher (kd), from the student (reverse) or Jensen-Shannon's (js); of yes and no "  \
                "(bce); squared error (mse), linear where it is large (huber), 1 - cosine. Default auto: kd for "      \
                "classes, tokens, maps and spans, bce for labels, mse for regression, cosine for embeddings"           \
    }
/* Only with --loss huber. */
#define HUBER_ROW(type, delta)                                                                    \
    {                                                                                             \
        .name = "huber-delta", .value = "X", .kind = OPT_ABOVE_0, .field = offsetof(type, delta), \
        .option = "huber_delta", .needs = "loss=huber",                                           \
        .help = "errors up to X count squared, larger ones linearly (default 1)"                  \
    }

/* Gates by the figures of a network's answers: rows that fill a struct vc_metric_limits; `what`: what a miss does. */
#define METRIC_ROW(type, member, name_, value_, field_, help_)                                                     \
    {                                                                                                              \
        .name = name_, .value = value_, .kind = OPT_ABOVE_0, .gate = true, .field = offsetof(type, member.field_), \
        .option = "limits." #field_, .help = help_                                                                 \
    }
#define METRIC_ROWS(type, member, what)                                                                           \
    METRIC_ROW(type, member, "min-agreement", "SHARE", min_agreement,                                             \
               "gate: " what " if it agrees with the teacher on fewer rows, such as 0.95"),                       \
        METRIC_ROW(type, member, "min-f1", "X", min_f1,                                                           \
                   "gate: ... if F1 of labels, or of spans, is lower, such as 0.8"),                              \
        METRIC_ROW(type, member, "min-r2", "X", min_r2, "gate: ... if R2 of a regression is lower, such as 0.9"), \
        METRIC_ROW(type, member, "min-cosine", "X", min_cosine,                                                   \
                   "gate: ... if the mean cosine of embeddings is lower"),                                        \
        METRIC_ROW(type, member, "min-iou", "X", min_iou, "gate: ... if the mean IoU of maps is lower"),          \
        METRIC_ROW(type, member, "max-cross-entropy", "X", max_cross_entropy,                                     \
                   "gate: ... if the cross-entropy with y is higher"),                                            \
        METRIC_ROW(type, member, "max-mae", "X", max_mae,                                                         \
                   "gate: ... if the mean absolute error of values is higher, in their unit"),                    \
        METRIC_ROW(type, member, "max-mse", "X", max_mse, "gate: ... if their mean squared error is higher")
