/* shrink.h - from a model and a limit to a file that was checked: tries candidates, made of the passes of quantize.h,
 * prune.h, structured.h and distill.h, writes the one that loses least within the limits, reads the output back and
 * judges it.
 *
 *     candidates -> size, memory, loss -> training of the best -> output -> read back, verified, judged
 *
 * Without data the loss is the error of the weights. With data it is measured on the outputs: rows are divided by the
 * seed into rows to train (60 %), rows to choose (20 %) and rows to prove (20 %), which steer nothing.
 *
 * Experimental: see experimental.h. */
#ifndef VCOMPRESS_SHRINK_H
#define VCOMPRESS_SHRINK_H

#include <vcompress/distill.h>
#include <vcompress/fit.h>
#include <vcompress/verify.h>

VC_BEGIN_C

/* What one candidate is, and what is known about it. Figures that were not measured are NaN. */
struct vc_shrink_candidate {
    const char *name;         /* "sparsity 0.9, int8, 400 steps" */
    const char *const *lines; /* the passes, in the syntax of "vcompress run" */
    size_t n_lines;
    bool deflate;        /* the output is deflated: zeros take room otherwise */
    uint64_t steps;      /* of distillation; 0: not trained */
    uint64_t file_bytes; /* 0: unknown */
    uint64_t need_bytes; /* on the device, vc_fit.need_bytes; without a device the weights in host memory */
    bool within;         /* within the limits of size and memory; false where a limit of bytes meets an unknown size */
    double error;        /* of the weights: norm of the change / norm */
    /* On the rows to choose: what the limit max_loss is compared with (see vc_shrink_options), the share of equal
     * answers, the divergence (or `measure`), the accuracy. */
    double loss, agreement, kd, accuracy;
    const char *measure; /* the name of kd, vc_teacher_loss_facts.measure; NULL: not measured */
    double seconds;      /* that making and measuring took */
    const char *reason;  /* why the candidate was left out, a sentence; NULL: it was not */
    bool front;          /* no other candidate is both smaller and better */
};

/* Types by the names of tensors, of every candidate that has a type of codes or floats: as quantize --type. Passes that come before the
 * candidate's own quantization, each with `only`, and what is left to that one. Nothing is trained with codes then: codes
 * are made behind the training. */
struct vc_shrink_types {
    const struct vc_quantize_options *passes;
    size_t n_passes;
    const struct vc_rule *only; /* of the candidate's own quantization: tensors that the passes leave */
    size_t n_only;
    const struct vc_rule *rules; /* ... and its rules: tensors that stay as they are */
    size_t n_rules;
    const char *words; /* the same as options of quantize, for recipes: "--type 'lm_head*=int8'" */
};

struct vc_shrink_options {
    size_t struct_size;           /* set by vc_shrink_defaults */
    const struct vc_model *model; /* must be set */
    const char *graph_path;       /* a text, ONNX, without data a config.json; NULL: what the model says itself */
    /* Limits, at least one. */
    uint64_t max_bytes; /* of the output; 0: no limit */
    double ratio;       /* the output is so many times smaller than the input; 0: no limit */
    /* Needs data: by how much `metric` may be worse than that of the model. AUTO: with labels the accuracy, with targets F1, R2
     * or cosine; without either the share of answers that move, R2 or cosine of the model's own outputs. Negative: no
     * limit. */
    double max_loss;
    const struct vc_gpu *gpu; /* the output fits this device, in inference; NULL: no limit */
    uint64_t visible_bytes;   /* the same for a device of which a program sees so many bytes; 0: no limit */

    /* For the device: the runtime keeps codes as codes (llama.cpp, vLLM). false: as the usual loader of the output. */
    bool native;

    const struct vc_data_options *data; /* rows; NULL: the weights alone decide. part_from and part_to are not set */
    const struct vc_data_options *eval; /* rows to prove, instead of a part of `data`; NULL: a part of `data` */
    uint64_t seed;                      /* of the parts and of training */
    uint64_t steps;                     /* of training the winner; 0: 2400; candidates for it are trained a twelfth */
    double seconds; /* work that is under way then ends, and the best so far is taken; 0: no limit of time */

    const struct vc_write_options *write; /* the output: path, force, layout, format, dry_run. Must have a path */
    const char *recipe;                   /* a text file for the passes; NULL: the path of the output and ".recipe" */
    bool keep_going; /* write the nearest candidate although a limit is missed; the status stays VC_E_GATE */
    bool resume;     /* go on from the journal that an interrupted call left beside the output */
    /* Called when a candidate was measured. left: the seconds that the rest of the search, its output and the proof are expected to
     * take, by what was measured so far; no more than until `seconds`. May be NULL. */
    void (*tell)(void *user, const struct vc_shrink_candidate *candidate, double left);
    void *user;
    enum vc_teacher_loss loss;           /* how outputs are compared, trained and proved: distill.h */
    uint64_t metric;                     /* an enum vc_metric: the figure that max_loss is a part of, in its own unit */
    uint64_t net_task;                   /* an enum vc_net_task */
    const struct vc_shrink_types *types; /* NULL: the candidate's type is that of all tensors */
    struct vc_metric_limits limits;      /* of the output on the rows to prove; needs data */
    double min_accuracy;                 /* the same; 0: no limit */
    bool drop_optimizer; /* of a training checkpoint: the output has no states of an optimizer (vc_job_drop) */
    bool drop_other;     /* ... and no other tensors that are not weights */
};

/* No limit, no data. The caller sets model, write and a limit. */
static inline void vc_shrink_defaults(struct vc_shrink_options *options)
{
    vc_options_defaults("vc_shrink_options", options, sizeof *options);
}

#define VC_NO_CANDIDATE ((size_t)-1)

/* The result, owned by the library. */
struct vc_shrinkage {
    const struct vc_shrink_options *options;
    size_t n_candidates;
    const struct vc_shrink_candidate *candidates; /* in the order in which they were tried */
    size_t chosen;                                /* VC_NO_CANDIDATE: none */
    const char *nearest;  /* if no candidate is within the limits: the name of the nearest; else NULL */
    bool weights_only;    /* the weights alone decided */
    const char *note;     /* why the graph is not known, or another remark; NULL: none */
    uint64_t input_bytes; /* of the model's file */
    uint64_t limit_bytes; /* of options.max_bytes and options.ratio the smaller limit; 0: none */
    /* The proof, of the output as it was read back. */
    bool proved;
    uint64_t output_bytes;
    size_t n_errors, n_warnings;        /* found by vc_verify with data */
    struct vc_fit fit;                  /* if a device was given */
    struct vc_quality teacher, quality; /* on the rows to prove; n_rows 0: no data */
    double loss;                        /* on the rows to prove; NaN: no data */
    enum vc_metric metric;              /* what loss is a part of; AUTO: no data */
    const char *missed;                 /* the limit that is missed, a sentence; NULL: none */
    bool written;                       /* output and recipe have their names */
    const char *recipe;                 /* the text of the recipe; NULL: nothing was chosen */
    bool out_of_time;                   /* options.seconds ended the search */
    double seconds;
};

/* Searches, writes and proves. VC_E_GATE if a limit is missed: *out is complete, and nothing was written unless
 * keep_going is set. VC_E_CANCELLED, and a failure behind the first measured candidate, leave the journal for `resume`, a folder named as
 * the output with ".shrink" behind. It carries digests: `resume` refuses another model, graph, other rows or options
 * with VC_E_ARGUMENT, as does a second call for the same output while one is at work. With write->dry_run the candidates are counted from headers, and nothing is measured or written.
 * The recipe says which steps were taken: "vcompress run" with it makes the same bytes. *out is NULL after every other
 * failure; free it with vc_result_free. */
VC_API enum vc_status vc_shrink(struct vc_ctx *ctx, const struct vc_shrink_options *options, struct vc_shrinkage **out);

VC_END_C
#endif
