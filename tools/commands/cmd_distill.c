/* cmd_distill.c - vcompress distill: trains a student until it answers as its teacher does. The library trains
 * (vc_distill, include/vcompress/distill.h); this file reads the command line, opens the files and ends the command.
 * print_distill.c has the report for people, documents.c its JSON.
 *
 * The options exist in two roles. Both fill the same struct distill_cli:
 *
 *     a command of its own        vcompress distill --teacher T --student S --data D -o O     run_distill
 *     a pass in a recipe          run --pass 'prune ...' --pass 'distill --data D'            pass_distill
 *
 * In the second role the student is the model that the passes before leave, and the teacher is by default the input of
 * the run. Checks that both roles need are in check_both, those of the command alone in check, those of the pass in
 * ready. */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "tools/commands/commands.h"
#include "tools/convert/distill_effects.h"
#include "tools/convert/distill_nets.h"
#include "tools/convert/keep_steps.h"
#include "tools/convert/log_step.h"
#include "tools/convert/passes.h"
#include "tools/options/distill_words.h"
#include "tools/options/match_word.h"
#include "tools/options/recompute_word.h"
#include "tools/ranks_app.h"
#include "tools/show/documents.h"
#include "tools/show/print_distill.h"
#include "tools/signals.h"

/* Room for repeatable options. More than that is refused as a wrong value, so that the arrays need no allocation. */
#define MAX_FREEZE  64
#define MAX_MATCHES CURVE_MATCHES

/* Files that the command has open besides its data. All members may be empty: a derived student has no file, a student
 * that learns from labels alone has no teacher, and a teacher may be a file of answers in place of a network. */
struct opened {
    struct net student, teacher;               /* weights and graphs */
    struct answer_files answers, eval_answers; /* of --teacher and of --eval-teacher, if these are vcompress logits */
    struct vc_model *mask;                     /* of --mask */
};

/* What the command line said. The first member is the structure that all commands with networks share, and its first
 * member is that of all commands that write: so the shared groups of options, whose offset is 0, find their fields.
 *
 *     distill_cli
 *       nets            nets_cli: --teacher, --graph, --data, --array ...
 *         convert       convert_options: -o, --force, --include ...
 *           base        base_options: --json, --threads, -q ...
 *       distill ...     options of this command alone */
struct distill_cli {
    struct nets_cli nets;                    /* first */
    const char *student, *eval, *log, *mask; /* names of files; NULL: the option was not given */
    const char *eval_teacher;                /* answers to the rows of --eval; NULL: a network answers */
    const char *eval_arrays[MAX_NET_ARRAYS]; /* of --eval-array, "NAME=ARRAY", in the order given */
    struct vc_data_options eval_data;        /* the rows of --eval; set_eval completes it */
    struct vc_distill_options distill;       /* what vc_distill gets */
    enum vc_ranks_kind ranks;                /* of --ranks */
    struct vc_prune_options prune;           /* of --sparsity */
    struct vc_quantize_options fake_quant;   /* of --fake-quant */
    bool has_fake_quant;
    const char *freeze[MAX_FREEZE];             /* the globs of --freeze */
    struct vc_match matches[MAX_MATCHES];       /* the terms of --match, which point into match_texts */
    char match_texts[MAX_MATCHES][MATCH_BYTES]; /* their names */
    struct step_log steps;                      /* the file of --log */
    struct curve curve;                         /* some steps of the run, for the drawing in the page */
    struct opened opened;
    char derived[128]; /* "digits.npz at width 0.5": a student without a file */
    bool own_teacher;  /* in a chain: it is the input itself, which is not closed */
};

/* The functions take_... have the type opt_call_fn: each takes the value of one option into the structure and returns
 * false for a value that the option does not allow. The parser then writes the sentence with the row's `wanted`. Lists
 * point into argv, which outlives the command. */
static bool take_eval_array(void *group, const char *value)
{
    struct distill_cli *cli = group;

    if (strchr(value, '=') == NULL || cli->eval_data.n_arrays == MAX_NET_ARRAYS) {
        return false;
    }
    cli->eval_arrays[cli->eval_data.n_arrays++] = value;
    cli->eval_data.arrays = cli->eval_arrays;
    return true;
}

/* --freeze GLOB, repeatable. An empty glob matches no name and is refused. */
static bool take_freeze(void *group, const char *value)
{
    struct distill_cli *cli = group;

    if (cli->distill.trained.n_freeze == MAX_FREEZE || value[0] == '\0') {
        return false;
    }
    cli->freeze[cli->distill.trained.n_freeze++] = value;
    cli->distill.trained.freeze = cli->freeze;
    return true;
}

/* --match conv3=conv2:mse:0.1, repeatable. match_word cuts the word; the names lie in match_texts. */
static bool take_match(void *group, const char *value)
{
    struct distill_cli *cli = group;
    size_t n = cli->distill.loss.n_matches;

    if (n == MAX_MATCHES || !match_word(value, cli->match_texts[n], &cli->matches[n])) {
        return false;
    }
    cli->distill.loss.matches = cli->matches;
    cli->distill.loss.n_matches++;
    return true;
}

/* --expect-sparsity 0.5 or 50% */
static bool take_expected(void *group, const char *value)
{
    return expected_share(value, &((struct distill_cli *)group)->distill.gates.expect_sparsity);
}

/* --force-foreign includes --force. The same option of other commands is in convert.c, whose group_write distill does
 * not have: most of that group (--emit, --format, --shard) makes no sense for a training run. */
static bool take_foreign(void *group, const char *value)
{
    struct vc_write_options *write = &((struct distill_cli *)group)->nets.convert.write;

    write->force = true;
    write->force_foreign = 1;
    return true;
}

/* --strip has no value. */
static bool take_strip(void *group, const char *value)
{
    ((struct distill_cli *)group)->nets.convert.write.strip = 1;
    return true;
}

/* --betas 0.9,0.999. `end` catches text behind the last number, which makes the count 3. vc_distill checks the
 * range. */
static bool take_betas(void *group, const char *value)
{
    struct vc_distill_options *o = &((struct distill_cli *)group)->distill;
    char end;

    return sscanf(value, "%lf,%lf%c", &o->optimizer.beta1, &o->optimizer.beta2, &end) == 2;
}

/* --fake-quant int4/group:64: any scheme that quantize knows. */
static bool take_fake_quant(void *group, const char *value)
{
    struct distill_cli *cli = group;

    cli->has_fake_quant = true;
    return scheme_word(value, &cli->fake_quant) != NULL;
}

/* --prune-steps 0:300:20 prunes after the steps 0, 20, 40 ... 300. The test of the characters comes first, because %llu
 * would also take blanks and a minus sign. 19 digits always fit 64 bits. */
static bool take_schedule(void *group, const char *value)
{
    struct vc_distill_options *o = &((struct distill_cli *)group)->distill;
    unsigned long long first, last, every;
    char end;

    if (strspn(value, "0123456789:") != strlen(value) ||
        sscanf(value, "%19llu:%19llu:%19llu%c", &first, &last, &every, &end) != 3) {
        return false;
    }
    o->sparsity.prune_first = first;
    o->sparsity.prune_last = last;
    o->sparsity.prune_every = every;
    return every != 0;
}

/* --precision f32, bf16 or fp16: the kind of arithmetic and the type of the halves. */
static bool take_precision(void *group, const char *value)
{
    struct vc_distill_options *o = &((struct distill_cli *)group)->distill;

    return precision_word(value, &o->precision.kind, &o->precision.half);
}

/* --recompute, as in estimate and fit, without selective: that one is about attention as PyTorch computes it. */
static bool take_recompute(void *group, const char *value)
{
    struct vc_distill_options *o = &((struct distill_cli *)group)->distill;

    return recompute_word(value, &o->memory.recompute, &o->memory.recompute_every) &&
           o->memory.recompute != VC_RECOMPUTE_SELECTIVE;
}

/* Shorthands for the rows below. DISTILL and PRUNE also say the library's name of the option, for its sentences; CLI
 * fills a member that the library does not know, so that such a row names its option itself or none. */
#define DISTILL(member) OPT_FIELD(struct distill_cli, distill.member)
#define PRUNE(member)   OPT_FIELD(struct distill_cli, prune.member)
#define CLI(member)     .field = offsetof(struct distill_cli, member)

/* What is trained, and the rows that teacher and student are judged on. A row is one option; options.h explains its
 * members. Options that decide nothing beside another option say so in `needs`; what depends on more than one option is
 * a row of distill_effects.c. */
/* clang-format off */
static const struct opt student_opts[] = {
    /* the network: one of these three ways */
    {.name = "student", .value = "FILE", .file = FILE_READ, .kind = OPT_TEXT, CLI(student),
     .help = "the network to train: a pruned copy of the teacher, or another network; a list of layers "
             "(docs/graph.md): a new network with random weights from --seed (in a recipe: the model that the passes "
             "before leave)"},
    {.name = "width", .value = "SHARE", .kind = OPT_TEXT, DISTILL(derive.width),
     .help = "in place of --student: the teacher with this share of the neurons, channels and heads of every layer, "
             "chosen by the largest weights, as by prune --structured"},
    {.name = "keep-layers", .value = "LIST", .kind = OPT_TEXT, DISTILL(derive.keep_layers),
     .help = "in place of --student: the teacher with these layers only, such as 0,2,4, as by prune --keep-layers. "
             "With --width: both"},
    {.name = "layers", .value = "NAME", .kind = OPT_TEXT, DISTILL(derive.layers),
     .help = "--keep-layers: the prefix of the layer numbers in the names of tensors: decoder.block"},
    /* rows that judge it before and after, and that are never trained on */
    {.name = "eval", .value = "FILE", .file = FILE_READ, .kind = OPT_TEXT, CLI(eval), .option = "eval.rows",
     .help = "rows to evaluate teacher and student on, before and after; if the student ends worse than at the start: "
             "exit 1, nothing written"},
    {.name = "eval-array", .value = "NAME=ARRAY", .kind = OPT_CALL, .call = take_eval_array,
     .needs = "eval", .help = "as --array"},
    {.name = "eval-teacher", .value = "FILE", .file = FILE_READ, .file_list = true, .kind = OPT_TEXT, CLI(eval_teacher), .option = "eval.logits",
     .needs = "eval", .help = "answers of the teacher to the rows of --eval, if --teacher is a file of vcompress logits"},
    {.name = "eval-labels", .value = "FILE", .file = FILE_READ, .kind = OPT_TEXT, CLI(eval_data.labels), .needs = "eval", .help = "as --labels"},
};

/* How it is trained: length and batches, optimizer, learning rate, loss, order of the rows, arithmetic, memory, then
 * what stays fixed (--freeze, zeros, codes). Defaults in the texts are those of vc_distill_defaults. */
static const struct opt training_opts[] = {
    /* how long, and how much at a time: a step has batch * accum rows */
    {.name = "steps", .value = "N", .kind = OPT_COUNT, DISTILL(training.steps), .help = "optimizer steps (default 400)"},
    {.name = "epochs", .value = "N", .kind = OPT_COUNT, DISTILL(training.epochs), .help = "epochs over the data, in place of --steps"},
    {.name = "batch", .value = "N", .kind = OPT_COUNT, DISTILL(training.batch), .help = "rows computed at a time (default 64)"},
    {.name = "accum", .value = "N", .kind = OPT_COUNT, DISTILL(training.accum),
     .help = "batches per step; their gradients are added, as of one large batch (default 1)"},
    /* the update of a step */
    {.name = "optimizer", OPT_WORDS({"sgd", VC_OPTIMIZER_SGD}, {"momentum", VC_OPTIMIZER_MOMENTUM}, {"adam", VC_OPTIMIZER_ADAM}, {"adamw", VC_OPTIMIZER_ADAMW},
               {"adam8bit", VC_OPTIMIZER_ADAM8BIT}), DISTILL(optimizer.kind),
     .help = "(default adamw); adam8bit: adamw with states of 8 bits"},
    {.name = "lr", .value = "X", .kind = OPT_REAL, DISTILL(optimizer.lr), .help = "learning rate (default 0.001)"},
    {.name = "momentum", .value = "X", .kind = OPT_REAL, DISTILL(optimizer.momentum), .needs = "optimizer=momentum", .help = "(default 0.9)"},
    {.name = "nesterov", .kind = OPT_BOOL, .set = 1, DISTILL(optimizer.nesterov), .needs = "optimizer=momentum", .help = "look ahead by the momentum"},
    {.name = "betas", .value = "X,Y", .kind = OPT_CALL, .call = take_betas, .option = "optimizer.beta1",
     .wanted = "two numbers below 1, such as 0.9,0.999", .help = "of adam, adamw and adam8bit (default 0.9,0.999)"},
    {.name = "eps", .value = "X", .kind = OPT_REAL, DISTILL(optimizer.eps), .help = "of adam, adamw and adam8bit (default 1e-8)"},
    {.name = "weight-decay", .value = "X", .kind = OPT_REAL, DISTILL(optimizer.weight_decay),
     .help = "weight decay, except of tensors of one dimension (default 0.01 for adamw, else 0)"},
    {.name = "decay-1d", .kind = OPT_BOOL, .set = 1, DISTILL(optimizer.decay_1d), .help = "weight decay of biases and norms, too"},
    /* the learning rate over the steps: it rises during the warmup, then follows the schedule */
    {.name = "schedule", OPT_WORDS({"constant", VC_SCHEDULE_CONSTANT}, {"cosine", VC_SCHEDULE_COSINE}, {"linear", VC_SCHEDULE_LINEAR}, {"step", VC_SCHEDULE_STEP}), DISTILL(schedule.kind),
     .help = "of the learning rate (default constant)"},
    {.name = "warmup", .value = "N", .kind = OPT_COUNT, DISTILL(schedule.warmup), .help = "steps in which the rate rises (default 0)"},
    {.name = "step-every", .value = "N", .kind = OPT_COUNT, DISTILL(schedule.step_every),
     .needs = "schedule=step", .help = "steps with one rate (default 100)"},
    {.name = "step-factor", .value = "X", .kind = OPT_REAL, DISTILL(schedule.step_factor),
     .needs = "schedule=step", .help = "then times this (default 0.1)"},
    {.name = "clip", .value = "X", .kind = OPT_ABOVE_0, DISTILL(optimizer.clip), .help = "the largest norm of all gradients (default: any)"},
    /* the loss: alpha * the teacher's term + (1 - alpha) * cross-entropy with labels + the terms of --match */
    {.name = "temperature", .value = "T", .kind = OPT_REAL, DISTILL(loss.temperature), .help = "of the teacher's answers (default 2)"},
    {.name = "alpha", .value = "X", .kind = OPT_REAL, DISTILL(loss.alpha),
     .help = "share of the teacher's term in the loss, 0 to 1; the rest is cross-entropy with the labels (default 1: no "
             "labels are needed; 0: no teacher is)"},
    {.name = "temperature-end", .value = "T", .kind = OPT_ABOVE_0, DISTILL(moving.temperature_end),
     .help = "the temperature at the last step: it goes there in a line from --temperature (default: it stays)"},
    {.name = "alpha-end", .value = "X", .kind = OPT_REAL, DISTILL(moving.alpha_end),
     .help = "the share at the last step, 0 to 1: it goes there in a line from --alpha (default: it stays)"},
    {.name = "classes", OPT_WORDS({"same", VC_CLASSES_SAME}, {"common", VC_CLASSES_COMMON}), DISTILL(loss.classes),
     .help = "if vocabularies of teacher and student are padded to different sizes: common compares the first "
             "classes, which both have (default same)"},
    TASK_ROWS(struct distill_cli, distill.answers.net_task, distill.loss.kind),
    HUBER_ROW(struct distill_cli, distill.answers.huber_delta),
    {.name = "label-smoothing", .value = "X", .kind = OPT_REAL, DISTILL(answers.label_smoothing),
     .help = "cross-entropy with labels: spread this share of each label over all classes, as PyTorch does (default 0)"},
    {.name = "class-weights", .value = "X,...", .kind = OPT_TEXT, DISTILL(answers.class_weights),
     .help = "cross-entropy with labels: a weight for each class, such as 1,1,5, as PyTorch has them (default: 1 each)"},
    {.name = "match", .value = "TEACHER=STUDENT:mse|attention|cosine|distances|angles|gram[:WEIGHT[:END]]", .kind = OPT_CALL, .call = take_match,
     .option = "loss.matches", .wanted = "a value of the teacher and one of the student, such as conv3=conv2:mse:0.1, or :0.1:0 for a weight that fades",
     .help = "another term of the loss, repeatable: values inside both networks, by their names in graph --full; if "
             "the widths differ, a linear map between the values is trained, which is not written (weight: default 1; with END it goes there in a line, to the last step)"},
    /* what is drawn, and from what */
    {.name = "seed", .value = "N", .kind = OPT_COUNT, DISTILL(training.seed), .help = "of the order of the rows, and of new weights (default 0)"},
    {.name = "order", OPT_WORDS({"shuffled", VC_ORDER_SHUFFLED}, {"file", VC_ORDER_FILE}), DISTILL(training.order),
     .help = "of the rows: shuffled for each epoch, or as in the file (default shuffled)"},
    /* the arithmetic */
    {.name = "precision", .value = PRECISION_WORDS, .kind = OPT_CALL, .call = take_precision, .option = "precision.kind",
     .help = "of the arithmetic (default f32); bf16, fp16: values, gradients and weights are rounded to 16 bits, as "
             "in mixed precision, with f32 weights beside: what waits for the backward pass takes half the memory of f32"},
    {.name = "loss-scale", .value = "X", .kind = OPT_ABOVE_0, DISTILL(precision.loss_scale),
     .help = "--precision fp16: multiply the loss by this power of two (default: adapts itself, starting at 65536)"},
    /* memory: what the backward pass needs is kept or computed again */
    {.name = "recompute", .value = "none|sqrt|every:K|layer|auto", .kind = OPT_CALL, .call = take_recompute,
     .option = "memory.recompute", .wanted = "none, sqrt, every:K, layer or auto",
     .help = "parts of the forward pass that the backward pass computes again, as in estimate (default none); the "
             "output has the same bits; auto: as few parts as --budget allows"},
    {.name = "budget", .value = "SIZE", .kind = OPT_SIZE, DISTILL(memory.budget),
     .needs = "recompute=auto", .help = "largest memory of the networks' programs"},
    {.name = "device-memory", .value = "SIZE", .kind = OPT_SIZE, DISTILL(memory.device_memory),
     .help = "with --device cuda: the most memory of the device to use; batches and recomputation are chosen so that "
             "the run fits (default: all)"},
    /* what is not trained, or trained in another way */
    {.name = "freeze", .value = "GLOB", .kind = OPT_CALL, .call = take_freeze, .option = "trained.freeze",
     .help = "do not train tensors whose name matches"},
    {.name = "allow-tied", .kind = OPT_BOOL, .set = 1, DISTILL(trained.allow_tied),
     .help = "train a tensor with several names in an ONNX file as one tensor (exporters write equal tensors once)"},
    {.name = "frozen-norm", .kind = OPT_BOOL, .set = 1, DISTILL(trained.frozen_norm),
     .help = "batch normalization computes with its running statistics, and keeps them"},
    {.name = "recalibrate-bn", .kind = OPT_ENUM, .set = VC_TASK_RECALIBRATE, DISTILL(task),
     .conflicts = "steps epochs optimizer lr momentum nesterov betas eps weight-decay decay-1d schedule warmup step-every step-factor clip "
                  "temperature alpha loss recompute budget freeze task huber-delta label-smoothing class-weights keep-sparsity no-keep-sparsity mask learn-scales early-stop keep log "
                  "dump-gradients expect-sparsity order", .help = "no training: compute the running statistics of batch normalization anew from the rows of --data"},
    /* zeros: which stay, which appear during the training (gradual pruning by a cubic schedule) */
    {.name = "keep-sparsity", .kind = OPT_BOOL, .set = 1, DISTILL(sparsity.keep),
     .help = "zeros stay zero in all tensors with two or more dimensions (default: only in pruned tensors, with 20 to "
             "99.9 % zeros)"},
    {.name = "no-keep-sparsity", .kind = OPT_BOOL, .set = 1, DISTILL(sparsity.refill),
     .help = "train zeros as all other weights: a pruned student fills again"},
    {.name = "mask", .value = "FILE", .file = FILE_READ, .kind = OPT_TEXT, CLI(mask), .option = "sparsity.mask",
     .help = "weights that the masks of this file do not keep become zero and stay zero (as prune --mask-out writes them)"},
    {.name = "sparsity", .value = "SHARE", .kind = OPT_TEXT, PRUNE(sparsity),
     .help = "prune during training: at the end this share of the weights is zero, the smallest magnitudes first, in "
             "the tensors that prune selects: 0.9 or 90%"},
    {.name = "prune-steps", .value = "FIRST:LAST:EVERY", .kind = OPT_CALL, .call = take_schedule, .option = "sparsity.prune_first",
     .wanted = "FIRST:LAST:EVERY, such as 0:300:20",
     .needs = "sparsity", .help = "first and last step after which weights become zero, and the number of steps between; many "
             "weights first, then fewer (default: 20 times in the first three quarters of the steps)"},
    {.name = "scope", OPT_WORDS({"tensor", VC_PRUNE_TENSOR}, {"global", VC_PRUNE_GLOBAL}), PRUNE(scope),
     .needs = "sparsity", .help = "seek the smallest in each tensor by itself, or in all tensors together (default tensor)"},
    {.name = "min-keep", .value = "SHARE", .kind = OPT_TEXT, PRUNE(min_keep),
     .needs = "sparsity", .help = "with --scope global, at least this share of every tensor stays (default 0.01)"},
    {.name = "min-elements", .value = "N", .kind = OPT_COUNT, PRUNE(min_elems),
     .needs = "sparsity fake-quant", .help = "not of tensors with fewer elements (default 0 and 4096)"},
    /* codes: the forward pass computes with rounded weights, the update changes the floats behind them */
    {.name = "fake-quant", .value = "SCHEME", .kind = OPT_CALL, .call = take_fake_quant, .option = "precision.fake_quant",
     .wanted = "a scheme, such as int8/tensor, int4/group:64, nf4, mxfp4, nvfp4 or bf16",
     .help = "train with rounded weights, as quantize rounds the tensors that quantize selects: int8, int8/tensor, "
             "int8/group:64, fp16, bf16: quantizing the output changes no value; the others of quantize --scheme, such as "
             "int4/group:64, ternary, nf4 or mxfp4: the output has the codes. A student with codes is always trained so and keeps them"},
    {.name = "learn-scales", .kind = OPT_BOOL, .set = 1, DISTILL(precision.learn_scales),
     .help = "codes of int8 and Q8_0 (of --fake-quant, of the student): train their scales, too; larger weights are cut off"},
    /* what the teacher is worth */
    {.name = "control", .kind = OPT_BOOL, .set = 1, DISTILL(eval.control),
     .help = "train the same student again with labels and without the teacher, and report the difference"},
};

/* Several processes that train one student together (MPI, NCCL). docs/distillation.md has the rules. */
static const struct opt ranks_opts[] = {
    {.name = "ranks", OPT_WORDS({"auto", VC_RANKS_AUTO}, {"none", VC_RANKS_NONE}, {"mpi", VC_RANKS_MPI}), CLI(ranks), .option = "parallel.ranks",
     .help = "processes started by mpirun or srun share the batches of each step (--accum), with the bits of one "
             "process (default auto: if there are several processes; none: each process trains by itself)"},
    {.name = "all-reduce", OPT_WORDS({"auto", VC_ALL_REDUCE_AUTO}, {"host", VC_ALL_REDUCE_HOST}, {"nccl", VC_ALL_REDUCE_NCCL}), DISTILL(parallel.all_reduce),
     .help = "how gradients of ranks with a CUDA device each are added: by the hosts, with the bits of one process, "
             "or by NCCL between devices, equal up to rounding (default auto: NCCL, if all ranks have NCCL)"},
};

/* The output. In a recipe these are options of the run: recipe.c refuses the options of this group in the line of a
 * pass, which is why the group is not static (passes.h declares it). */
static const struct opt output_opts[] = {
    {.name = "output", .letter = 'o', .by_letter = true, .value = "FILE", .file = FILE_WRITTEN, .kind = OPT_TEXT, OPT_FIELD(struct distill_cli, nets.convert.write.path),
     .help = "output file, in the student's format or the format of the extension"},
    {.name = "force", .letter = 'f', .kind = OPT_BOOL, .set = 1, OPT_FIELD(struct distill_cli, nets.convert.write.force),
     .help = "replace an existing file, or a folder that vcompress wrote and that holds nothing else (never the input)"},
    {.name = "force-foreign", .kind = OPT_CALL, .call = take_foreign, .option = "force_foreign",
     .help = "--force, and replace a model's folder of another program, too"},
    {.name = "strip", .kind = OPT_CALL, .call = take_strip, .option = "strip",
     .help = "ONNX: leave out what computes nothing: descriptions and metadata, such as the exporter's stack traces"},
    {.name = "dry-run", .letter = 'n', .kind = OPT_BOOL, .set = 1, DISTILL(dry_run),
     .help = "check everything and count the memory; train nothing, write nothing"},
};

/* What is written on the way, when the run ends early, and the gates at its end. */
static const struct opt watch_opts[] = {
    {.name = "log", .value = "FILE", .file = FILE_WRITTEN, .kind = OPT_TEXT, CLI(log), .help = "a line of JSON for "
                                                                                               "each step; replaces "
                                                                                               "an older file; with "
                                                                                               "--resume, appends"},
    {.name = "dump-gradients", .value = "FILE", .file = FILE_WRITTEN, .kind = OPT_TEXT, DISTILL(gradients),
     .help = "the gradients of the first step, by the names of their tensors (npz, safetensors); an older file is replaced with --force only"},
    /* evaluations on the way; the best one may end the run and be written */
    {.name = "eval-every", .value = "N", .kind = OPT_COUNT, DISTILL(eval.every),
     .help = "evaluate the student on --eval after every N steps and after the last step"},
    {.name = "early-stop", .value = "N", .kind = OPT_COUNT, DISTILL(eval.early_stop),
     .needs = "eval-every", .help = "end the run after N evaluations in a row without a better result"},
    {.name = "keep", OPT_WORDS({"best", VC_KEEP_BEST}, {"last", VC_KEEP_LAST}), DISTILL(eval.keep),
     .needs = "eval-every", .help = "write the weights of the best evaluation, or of the last step (default best)"},
    /* the state of the run, from which it goes on with the same bits */
    {.name = "checkpoint", .value = "FILE", .file = FILE_STATE, .kind = OPT_TEXT, DISTILL(checkpoint.path),
     .help = "file for the state of an interrupted run (Ctrl-C), and for --checkpoint-every (npz, safetensors); "
             "without a checkpoint the work is lost if the output cannot be written"},
    {.name = "checkpoint-every", .value = "N", .kind = OPT_COUNT, DISTILL(checkpoint.every),
     .help = "... and after every N steps"},
    {.name = "resume", .value = "FILE", .file = FILE_RESUMED, .kind = OPT_TEXT, DISTILL(checkpoint.resume),
     .help = "continue from this checkpoint, with the same options and files, as if the run had not been interrupted"},
    /* gates: the sentence and exit status 1 in place of an output */
    {.name = "min-accuracy", .value = "SHARE", .kind = OPT_REAL, .gate = true, DISTILL(gates.min_accuracy),
     .help = "gate: write nothing and exit 1 if the student's accuracy on --eval is lower, such as 0.95"},
    {.name = "max-drop", .value = "SHARE", .kind = OPT_REAL, .gate = true, DISTILL(gates.max_drop),
     .help = "gate: ... if its accuracy is further below the teacher's accuracy, such as 0.01"},
    METRIC_ROWS(struct distill_cli, distill.limits, "write nothing and exit 1"),
    {.name = "expect-sparsity", .value = "SHARE", .kind = OPT_CALL, .gate = true, .call = take_expected, .option = "gates.expect_sparsity",
     .wanted = "a share above 0 and at most 1, such as 0.5 or 50%",
     .help = "gate: ... if the pruned tensors end with fewer zeros than pruning each tensor to this share makes"},
};
/* clang-format on */
static const struct opt_group group_student = OPT_GROUP("Student", student_opts);
static const struct opt_group group_training = OPT_GROUP("Training", training_opts);
static const struct opt_group group_watch = OPT_GROUP("Logs and gates", watch_opts);
static const struct opt_group group_ranks = OPT_GROUP("Ranks", ranks_opts);
const struct opt_group group_distill_output = OPT_GROUP("Output", output_opts);
static const struct opt_group *const groups[] = {&group_student, &group_teacher,        &group_rows,  &group_training,
                                                 &group_select,  &group_distill_output, &group_watch, &group_ranks,
                                                 &group_gates,   &group_known,          &group_run,   &group_json,
                                                 &group_comment, &group_report,         &group_help};

/* ---- steps ---- */

/* vc_distill_options.tell: called by the library after every step, and after every evaluation on the way. The control
 * of --control is a second training of the same student; its steps move the progress line and are not logged. */
static void tell_step(void *user, const struct vc_distill_step *step)
{
    struct distill_cli *cli = user;

    progress_steps(step->control ? "control" : "distill", step->step, step->n_steps);
    curve_keep(&cli->curve, step);
    if (!step->control) {
        log_step(&cli->steps, step);
    }
}

/* ---- the run ---- */

/* The student is made of the teacher (--width, --keep-layers) and has no file of its own. */
static bool is_derived(const struct distill_cli *cli)
{
    return cli->distill.derive.width != NULL || cli->distill.derive.keep_layers != NULL;
}

/* The student as the report names it: its file, or "digits.npz at width 0.5 with layers 0,2,4". Long names are cut so
 * that the text fits cli->derived. */
static const char *student_name(struct distill_cli *cli)
{
    const struct vc_distill_options *o = &cli->distill;
    char width[32] = "";

    if (!is_derived(cli)) {
        return cli->student;
    }
    if (o->derive.width != NULL) {
        snprintf(width, sizeof(width), " at width %.20s", o->derive.width);
    }
    snprintf(cli->derived, sizeof(cli->derived), "%.60s%s%s%.20s", cli->nets.teacher, width,
             o->derive.keep_layers != NULL ? " with layers " : "",
             o->derive.keep_layers != NULL ? o->derive.keep_layers : "");
    return cli->derived;
}

/* The report in all forms that were asked for: a table for people, then the JSON document, the page and the Markdown.
 * GO_ON or a status. */
static int tell(struct app *app, struct distill_cli *cli, const struct vc_distillation *d)
{
    int rc = GO_ON;

    if (app_prints(app) && !print_distillation(app, &cli->distill, cli->nets.teacher, student_name(cli), d)) {
        rc = app_refuse(app, VC_E_NOMEM, "not enough memory to print the report");
    }
    if (rc == GO_ON) {
        rc = document_distill(app, d, cli->curve.steps, cli->curve.n);
    }
    app_print_memory(app);
    return rc;
}

/* Closes the file of --log. done: the run ended as it should, and a run without a step then leaves an empty log.
 * Returns rc, or the status of a failure to write the log, which counts only if the run itself succeeded: one sentence
 * is printed, and the run's own failure is the more important one. */
static int close_log(struct app *app, struct distill_cli *cli, int rc, bool done)
{
    int error = log_close(&cli->steps, done);

    return error != 0 && (rc == GO_ON || rc == EXIT_YES) ? app_refuse_file(app, "--log ", cli->log, strerror(error))
                                                         : rc;
}

/* Opens the file of --log. With --resume, lines are appended; else the first step replaces what an older file holds, so
 * that a run which is refused before it changes nothing. GO_ON or a status. */
static int open_log(struct app *app, struct distill_cli *cli)
{
    return cli->log == NULL || log_open(&cli->steps, cli->log, cli->distill.checkpoint.resume != NULL)
               ? GO_ON
               : app_refuse_file(app, "--log ", cli->log, strerror(errno));
}

/* Trains, reports, judges. The order matters:
 *
 *     the log is opened              a log that cannot be written stops the run before hours of work
 *     vc_distill                     trains, evaluates, checks the gates, writes the output
 *     the ranks agree                one rank's failure becomes the status of all
 *     report and log                 also where a gate was missed: the figures say by how much
 *     the gate                       exit 1 with its sentence
 *
 * --max-memory becomes the limit of the training (vc_distill_memory): a run that is larger gets smaller batches that
 * accumulate, unless --batch or --accum was given, which then stay as they are. Returns the exit status. */
static int distill(struct app *app, struct distill_cli *cli, const struct net *student, const struct net *teacher)
{
    struct vc_distillation *d = NULL;
    int rc = GO_ON;

    cli->distill.student = net_of(student);
    cli->distill.teacher = net_of(teacher);
    cli->distill.data = &cli->nets.data;
    cli->distill.write = &cli->nets.convert.write;
    cli->distill.tell = tell_step;
    cli->distill.user = cli;
    if (options_seen(&app->parsed, "max-memory")) {
        cli->distill.memory.max_memory = app->common.max_memory;
        cli->distill.training.keep_batch = options_seen(&app->parsed, "batch") || options_seen(&app->parsed, "accum");
    }
    app->subject = NULL; /* sentences name the file that they are about */
    rc = cli->distill.dry_run || app->silent ? GO_ON : open_log(app, cli);
    GO(rc);
    if (!app->silent) {
        progress_begin(app);
    }
    /* d is NULL where the library refused before it trained. */
    enum vc_status status = vc_distill(app->ctx, &cli->distill, &d);
    progress_end();
    app->written = d != NULL && status == VC_OK && !cli->distill.dry_run;
    status = ranks_agree(app, cli->distill.parallel.ranks, status);
    /* A run that a signal ends prints where its checkpoint is and how it goes on: main says nothing of signals. */
    if (status == VC_E_CANCELLED && caught_signal() != 0 && cli->distill.checkpoint.path != NULL &&
        !app->silent) { /* what a signal ends says where it goes on */
        say(stderr, "vcompress: %s\n", vc_ctx_message(app->ctx));
    }
    rc = (status == VC_OK || status == VC_E_GATE) && !app->silent ? tell(app, cli, d) : rc;
    rc = close_log(app, cli, rc, status == VC_OK || status == VC_E_GATE);
    if (rc == GO_ON && status == VC_E_GATE) {
        app->subject = is_derived(cli) ? cli->nets.teacher : cli->student;
        rc = app_gate(app, d->missed);
    }
    rc = rc != GO_ON ? rc : status == VC_OK ? EXIT_YES : app_fail(app, status);
    vc_result_free(d);
    return rc;
}

/* The rows of --eval are read as those of --data. They have the same inputs, labels and normalization, and only another
 * file. --eval-array and --eval-labels replace what --array and --labels say; --rows and --part are about --data alone.
 * Without --eval nothing is evaluated. */
static void set_eval(struct distill_cli *cli)
{
    const char *path = cli->eval;
    struct vc_data_options own = cli->eval_data;

    cli->eval_data = cli->nets.data;
    cli->eval_data.path = path;
    cli->eval_data.n_rows = 0;
    cli->eval_data.part_from = cli->eval_data.part_to = cli->eval_data.part_seed = 0;
    cli->eval_data.labels = own.labels;
    if (own.n_arrays != 0) {
        cli->eval_data.arrays = cli->eval_arrays;
        cli->eval_data.n_arrays = own.n_arrays;
    }
    cli->distill.eval.rows = path != NULL ? &cli->eval_data : NULL;
}

/* What a command and a line of a recipe have in common. GO_ON or a status. teacher: a teacher is there, which a recipe
 * always has. --steps 0 is refused here, since 0 is the library's word for its default. --include and --exclude select
 * tensors for the passes within the training, and there are none without --sparsity or --fake-quant. */
static int check_both(struct app *app, const struct distill_cli *cli, bool teacher)
{
    static const char *const of_passes[] = {"include", "exclude"};
    const struct effects_of of = {&cli->distill, teacher, cli->eval != NULL, is_derived(cli)};

    if ((options_seen(&app->parsed, "steps") && cli->distill.training.steps == 0) ||
        (options_seen(&app->parsed, "epochs") && cli->distill.training.epochs == 0)) {
        return app_usage(app, "--%s: expected a number from 1 on",
                         options_seen(&app->parsed, "steps") ? "steps" : "epochs");
    }
    int rc = effects_check(app, &of);
    for (size_t i = 0; rc == GO_ON && cli->prune.sparsity == NULL && !cli->has_fake_quant && i < 2; i++) {
        if (options_seen(&app->parsed, of_passes[i])) {
            return app_usage(app, "--%s works with --sparsity or --fake-quant only", of_passes[i]);
        }
    }
    return rc;
}

/* Gradual pruning and fake quantization, where they are asked for. Gradual pruning and fake quantization share
 * --include, --exclude and --min-elements; each has its own default for the last one. */
static void set_passes(struct app *app, struct distill_cli *cli)
{
    cli->fake_quant.rules = cli->nets.convert.rules;
    cli->fake_quant.n_rules = cli->nets.convert.n_rules;
    cli->fake_quant.min_elems =
        options_seen(&app->parsed, "min-elements") ? cli->prune.min_elems : cli->fake_quant.min_elems;
    cli->distill.precision.fake_quant = cli->has_fake_quant ? &cli->fake_quant : NULL;
    cli->prune.rules = cli->nets.convert.rules;
    cli->prune.n_rules = cli->nets.convert.n_rules;
    cli->distill.sparsity.prune = cli->prune.sparsity != NULL ? &cli->prune : NULL;
}

/* Refuses what the command alone (not a recipe) can get wrong, before any file is opened. GO_ON or a status. */
static int check(struct app *app, const struct distill_cli *cli)
{
    const char *output = cli->nets.convert.write.path;

    if (app->parsed.n_args != 0) {
        return app_usage(app, "distill takes its files by options: --teacher, --student, --data; got '%s'",
                         app->parsed.args[0]);
    }
    if ((cli->student == NULL && !is_derived(cli)) || cli->nets.data.path == NULL) {
        return app_usage(app, "distill needs --student (or --width, or --keep-layers), --data and, but for --alpha 0, "
                              "--teacher; see vcompress distill --help");
    }
    if (is_derived(cli) && (cli->student != NULL || cli->nets.teacher == NULL)) {
        return app_usage(app, "--width and --keep-layers make the student of --teacher FILE%s",
                         cli->student != NULL ? ", and --student names another one: choose one" : "");
    }
    if (cli->distill.derive.layers != NULL && cli->distill.derive.keep_layers == NULL) {
        return app_usage(app, "--layers says which layers --keep-layers means");
    }
    if (output == NULL && !cli->distill.dry_run) {
        return app_usage(app, "distill needs -o FILE, or --dry-run");
    }
    if (output != NULL && strcmp(output, "-") == 0) {
        return app_usage(app, "-o -: a trained network goes into a file");
    }
    return cli->nets.teacher_graph != NULL && cli->nets.teacher == NULL
               ? app_usage(app, "--teacher-graph needs --teacher FILE")
               : check_both(app, cli, cli->nets.teacher != NULL);
}

/* Opens the teacher: files of answers (vcompress logits), else a network, whose graph comes from --teacher-graph, the
 * teacher itself, or the student's graph (`other`). Then the answers of --eval-teacher. What was opened stays in
 * cli->opened, which end() closes whatever happens. GO_ON or a status. */
static int open_teacher(struct app *app, struct distill_cli *cli)
{
    struct opened *o = &cli->opened;
    const char *other = cli->nets.graph != NULL ? cli->nets.graph : cli->student;
    int rc = GO_ON;

    if (cli->nets.teacher != NULL) {
        rc = answers_open(app, cli->nets.teacher, &o->answers);
        cli->distill.logits = (const struct vc_model *const *)o->answers.models;
        cli->distill.n_logits = o->answers.n;
    }
    if (rc == GO_ON && cli->nets.teacher != NULL && o->answers.n == 0) {
        rc = net_open(app, cli->nets.teacher, cli->nets.teacher_graph, other, &o->teacher);
    }
    if (rc == GO_ON && o->answers.n != 0 && cli->nets.teacher_graph != NULL) {
        rc = app_usage(app, "--teacher-graph: %s has answers, which need no graph", cli->nets.teacher);
    }
    if (rc == GO_ON && cli->eval_teacher != NULL) {
        rc = answers_open(app, cli->eval_teacher, &o->eval_answers);
        cli->distill.eval.logits = (const struct vc_model *const *)o->eval_answers.models;
        cli->distill.eval.n_logits = o->eval_answers.n;
    }
    if (rc == GO_ON && cli->eval_teacher != NULL && o->eval_answers.n == 0) {
        rc = app_usage(app, "--eval-teacher %s: is no file of vcompress logits", cli->eval_teacher);
    }
    if (rc == GO_ON && is_derived(cli) && o->answers.n != 0) {
        rc = app_usage(app, "--width and --keep-layers make the student of the teacher, and %s has only its answers",
                       cli->nets.teacher);
    }
    return rc;
}

/* The student of a list of layers, which has no weights yet: vc_network_init_weights draws them from --seed into a
 * model in memory, from which net_build makes the network as from a file. GO_ON or a status. */
static int init_student(struct app *app, struct distill_cli *cli)
{
    struct net *net = &cli->opened.student;
    enum vc_status status = vc_network_init_weights(app->ctx, cli->student, cli->distill.training.seed, &net->weights);

    app->subject = cli->student;
    status = status == VC_OK ? net_build(app->ctx, cli->student, NULL, net) : status;
    return status == VC_OK ? GO_ON : app_fail(app, status);
}

/* Opens student, teacher and mask. A derived student is made by the library from the teacher, so it needs no file here.
 * GO_ON or a status. */
static int open_all(struct app *app, struct distill_cli *cli)
{
    struct opened *o = &cli->opened;

    o->student.student = true;
    int rc = is_derived(cli) ? GO_ON
             : vc_graph_is_text(cli->student)
                 ? init_student(app, cli)
                 : net_open(app, cli->student, cli->nets.graph, cli->nets.teacher, &o->student);
    cli->distill.graph_path = is_derived(cli) ? cli->nets.graph : NULL;
    rc = rc == GO_ON ? open_teacher(app, cli) : rc;
    if (rc == GO_ON && cli->mask != NULL) {
        enum vc_status status = vc_model_open(app->ctx, cli->mask, NULL, &o->mask);

        cli->distill.sparsity.mask = o->mask;
        app->subject = cli->mask;
        rc = status == VC_OK ? GO_ON : app_fail(app, status);
    }
    return rc;
}

/* Sets the defaults. The structure is zero before, and convert_defaults was called. */
static void begin(void *options)
{
    struct distill_cli *cli = options;

    vc_distill_defaults(&cli->distill);
    vc_prune_defaults(&cli->prune);
    vc_quantize_defaults(&cli->fake_quant);
    vc_data_defaults(&cli->nets.data);
    curve_begin(&cli->curve);
}

/* Closes what was opened, and may be called again: a chain does so before each of its inputs. In a chain the teacher
 * may be the input itself, which belongs to the run and is not closed here. */
static void end(void *options)
{
    struct distill_cli *cli = options;

    if (cli->own_teacher) {
        cli->opened.teacher.weights = NULL;
    }
    vc_model_close(cli->opened.mask);
    answers_close(&cli->opened.answers);
    answers_close(&cli->opened.eval_answers);
    net_close(&cli->opened.student);
    net_close(&cli->opened.teacher);
    memset(&cli->opened, 0, sizeof(cli->opened));
}

/* The command of its own. ranks_begin precedes the parser, so that of eight processes with a wrong option only rank 0
 * speaks. A failure before the ranks met is kept (app->held_status) and still joins them: the other ranks would wait
 * forever for this one. Returns the exit status. */
static int run_distill(struct app *app, int n_args, char **args)
{
    struct distill_cli cli;

    signals_let_finish();
    memset(&cli, 0, sizeof cli);
    convert_defaults(&cli.nets.convert);
    begin(&cli);
    ranks_begin(app, n_args, args);
    int rc = app_parse(app, n_args, args, &cli);
    rc = rc == GO_ON ? check(app, &cli) : rc;
    if (rc == GO_ON) {
        set_eval(&cli);
        set_passes(app, &cli);
        app->output = cli.nets.convert.write.path;
        rc = app_open(app);
    }
    if (rc == GO_ON || app->held_status != VC_OK) {
        rc = ranks_join(app, cli.ranks, &cli.distill.parallel.ranks);
    }
    rc = rc == GO_ON && !app->silent ? json_check(app) : rc;
    rc = rc == GO_ON ? open_all(app, &cli) : rc;
    rc = rc == GO_ON ? distill(app, &cli, &cli.opened.student, &cli.opened.teacher) : rc;
    rc = ranks_settle(app, cli.distill.parallel.ranks, rc);
    end(&cli);
    return rc;
}

/* ---- as a pass of a chain ---- */

/* pass_row.ready: checks the options of a pass and what only makes sense for the command. GO_ON or a status. */
static int ready(struct app *app, void *options, struct conversion *what)
{
    struct distill_cli *cli = options;

    if (is_derived(cli)) {
        return app_usage(app,
                         "--width and --keep-layers: in a chain the student is what the passes before distill leave, "
                         "such as prune --structured");
    }
    if (cli->student != NULL) {
        return app_usage(app, "--student: in a chain the student is what the passes before distill leave");
    }
    if (cli->nets.data.path == NULL) {
        return app_usage(app, "distill needs --data FILE");
    }
    set_eval(cli);
    set_passes(app, cli);
    what->tag = "distilled";
    signals_let_finish();
    if (ranks_refuse(app, cli->ranks, "distill in a recipe") != GO_ON) {
        return EXIT_USAGE;
    }
    if (check_both(app, cli, true) != GO_ON) {
        return EXIT_USAGE;
    }
    return answers_check(app, cli->nets.teacher);
}

/* Opens the teacher of one input of a chain. In the order in which they are tried:
 *
 *     --alpha 0 and no --teacher       none: labels alone teach
 *     no --teacher                     the input itself, before the passes of this run
 *     --teacher names answers          files of vcompress logits
 *     --teacher names a network        its weights and graph
 *
 * The own teacher borrows the model of the run (own_teacher). The cast only takes const away: nothing writes to it. */
static enum vc_status find_teacher(struct vc_ctx *ctx, const struct vc_model *model, struct distill_cli *cli)
{
    const struct nets_cli *nets = &cli->nets;
    struct net *teacher = &cli->opened.teacher;
    bool own = nets->teacher == NULL;
    enum vc_status status = VC_OK;

    if (own && cli->distill.loss.alpha == 0) {
        return VC_OK;
    }
    cli->own_teacher = own;
    if (own) {
        teacher->weights = (struct vc_model *)(uintptr_t)model;
        return net_build(ctx, nets->teacher_graph != NULL ? nets->teacher_graph : nets->graph, NULL, teacher);
    }
    status = answers_read(ctx, nets->teacher, &cli->opened.answers);
    if (status == VC_OK && cli->opened.answers.n == 0) {
        status = vc_model_open(ctx, nets->teacher, NULL, &teacher->weights);
        status = status == VC_OK ? net_build(ctx, nets->teacher_graph,
                                             nets->graph != NULL ? nets->graph : vc_model_facts(model)->path, teacher)
                                 : status;
    }
    return status;
}

/* The files of one input, which are opened anew for the next one. The options of the pass are one structure for all
 * inputs, so what points to files is set again for each of them. */
static enum vc_status open_files(struct vc_ctx *ctx, const struct vc_model *model, struct distill_cli *cli)
{
    struct opened *o = &cli->opened;

    end(cli);
    enum vc_status status = find_teacher(ctx, model, cli);
    if (status == VC_OK && cli->eval_teacher != NULL) {
        status = answers_read(ctx, cli->eval_teacher, &o->eval_answers);
    }
    if (status == VC_OK && cli->mask != NULL) {
        status = vc_model_open(ctx, cli->mask, NULL, &o->mask);
    }
    cli->distill.teacher = net_of(&o->teacher);
    cli->distill.logits = (const struct vc_model *const *)o->answers.models;
    cli->distill.n_logits = o->answers.n;
    cli->distill.eval.logits = (const struct vc_model *const *)o->eval_answers.models;
    cli->distill.eval.n_logits = o->eval_answers.n;
    cli->distill.sparsity.mask = o->mask;
    return status;
}

/* pass_row.add: opens the files for this input and adds the training to its job. */
static enum vc_status add(struct vc_ctx *ctx, struct vc_job *job, const struct vc_model *model, void *options)
{
    struct distill_cli *cli = options;
    enum vc_status status = open_files(ctx, model, cli);

    cli->distill.graph_path = cli->nets.graph;
    cli->distill.data = &cli->nets.data;
    cli->distill.write = &cli->nets.convert.write; /* whether files beside the output are replaced */
    cli->distill.tell = tell_step;
    cli->distill.user = cli;
    return status == VC_OK ? vc_job_add_distill(ctx, job, &cli->distill) : status;
}

/* pass_row.start and finish: one log for all inputs of the run. */
static int start(struct app *app, void *options, bool dry_run)
{
    return dry_run ? GO_ON : open_log(app, options);
}

/* pass_row.finish: the log of the training is closed, also after a failure. */
static int finish(struct app *app, void *options, int rc)
{
    return close_log(app, options, rc, rc == GO_ON || rc == EXIT_YES || rc == EXIT_NO);
}

/* distill as a pass: `run` calls begin, parses, calls ready, then add for each input, and end. */
const struct pass_row pass_distill = {.command = &command_distill,
                                      .size = sizeof(struct distill_cli),
                                      .begin = begin,
                                      .ready = ready,
                                      .add = add,
                                      .start = start,
                                      .finish = finish,
                                      .end = end};

const struct command command_distill = {
    .name = "distill",
    .usage = "[--teacher FILE] (--student FILE | --width SHARE | --keep-layers LIST) --data FILE [options] -o OUTPUT",
    .summary = "train a network to give the answers of another network",
    .text = "Trains the student on the rows of the data until its answers are close to the teacher's answers: a "
            "pruned network recovers, a small network learns from a large network. Labels are not needed. The output "
            "has the student's tensors, names and types; tensors that are not trained are copied bit for bit. "
            "docs/distillation.md has the exact losses. Operators that cannot be trained are refused before the "
            "training begins. In a recipe (vcompress run) distill stands after prune and before quantize; the student "
            "is the model that the passes before leave.\n"
            "  vcompress prune --sparsity 0.9 digits.npz -o pruned.npz\n"
            "  vcompress distill --teacher digits.npz --student pruned.npz \\\n"
            "    --graph digits.layers.txt --keep-sparsity \\\n"
            "    --data images.npz --array test_images=train_images -o recovered.npz\n"
            "  vcompress run --pass 'prune --sparsity 0.9' \\\n"
            "    --pass 'distill --data rows.npz --keep-sparsity' \\\n"
            "    --pass 'quantize --int8' net.onnx -o small.onnx",
    .first = "teacher student graph data labels steps lr output early-stop json",
    OPT_GROUPS(groups),
    .schema = "vcompress.distill/1",
    .run = run_distill,
};
