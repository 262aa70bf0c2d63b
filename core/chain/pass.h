/* pass.h - what a pass (quantize, dequantize, ...) is to the rest of the library.
 *
 * A job has a list of passes. They are planned one after the other, each for all tensors:
 *
 *     plan_begin -> plan of every tensor -> plan_end -> { calibrate -> decide } as often as the pass asks for it
 *
 * What `plan` adds to a tensor are steps: a step takes the tensor as the steps before it leave it (struct vc_desc:
 * type, shape, codes and their parts) and says what it makes of it. When all passes are planned, the executor moves
 * tiles through the steps:
 *
 *     w  f32 [512, 64] --cast--> f16 [512, 64] --int8--> codes i8 [512, 64] with the part scale f32 [512, 1]
 *
 * A pass never sees a file, a format or a device, and no other pass: it sees descriptors and tiles.
 *
 * Threads: planning (struct vc_pass_ops) is done by one thread. Of one step, begin, scan_end and end are called once
 * per run, by one thread and with no other call of that step under way; calibrate, scan and apply of different tiles
 * run at the same time, so they change step->state only under a lock of their own. Steps of different tensors run at
 * the same time. None of these functions is called while a lock of the executor is held; they may read files and wait.
 *
 * Errors: a function sets the error of the ctx that it is given (vc_fail) and returns its status; the tensor's name is
 * put in front by the caller. */
#pragma once

#include <vcompress/report.h>

#include "core/model/edit.h"
#include "core/model/source.h"
#include "core/values/tile.h"

struct vc_pass;
struct vc_step;
struct vc_item;
struct vc_compare;
struct vc_item_lists;
struct vc_item_outs;
struct vc_job;
struct vc_step_input;

/* A part beside the codes (or beside plain values: a mask). */
struct vc_part_desc {
    enum vc_part_role role;
    enum vc_dtype dtype;
    bool apart; /* goes to the file that its pass has for such parts (vc_pass.part_file), not beside the weights */
    unsigned n_dims;
    const uint64_t *shape;
    uint64_t n_elems;
    const struct vc_step *maker; /* whose apply gives its bytes; NULL: it is a tensor of the source */
    size_t index;                /* its number among the parts that the maker makes; or the tensor's in the model */
};

/* What a tensor looks like between two steps. Strings, shapes and lists belong to the job's arena or to the model. */
struct vc_desc {
    enum vc_dtype dtype;
    unsigned n_dims;
    const uint64_t *shape;
    uint64_t n_elems;
    const struct vc_quant *quant; /* how codes become values; NULL: these are the values. Its own list of parts is that
                                     of the source and of no use here: `parts` is the list */
    size_t n_parts;
    const struct vc_part_desc *parts;
};

/* Some of a part's elements. */
struct vc_part_view {
    const void *data; /* NULL: none */
    uint64_t first;   /* number of the first one */
    size_t n;
    bool write; /* from apply: these go to the output now. Every element of a part is given once with `write`; views
                   without it only serve the steps that follow */
};

/* What a step gets of one tile. */
struct vc_tile_in {
    const void *data; /* the tile in the type of step->in; not aligned. NULL for a step that regroups, as `parts` is */
    /* One view for each of step->in.parts: those that this tile needs, or all. data is NULL where the part is a tensor
     * of the source: vc_part_load reads it whole, in begin. */
    const struct vc_part_view *parts;
    struct vc_step_input *input; /* for a step that regroups: vc_step_read */
};

/* Where apply puts its results. */
struct vc_tile_out {
    void *data;                  /* room for the tile in the type of step->out, aligned */
    struct vc_part_view *parts;  /* one for each part that this step makes, cleared; data stays valid until the tile is
                                    done: scratch, or the step's state */
    struct vc_tile_stats *stats; /* of a step that is lossy; see kernels.h */
    uint64_t nonfinite;          /* NaN and Inf replaced */
};

/* What a kind of step does. One row of functions per scheme. */
struct vc_step_ops {
    /* Planning: sees every tile of the step's input, because step->calibrate is set; then the pass decides. The step
     * and those before it have begun. Also called when apply refused a value (VC_E_UNSUPPORTED), so that `explain` can
     * say how many there are and where the first is. NULL for steps that never calibrate. */
    enum vc_status (*calibrate)(struct vc_ctx *ctx, struct vc_step *step, const struct vc_item *item,
                                const struct vc_tile *tile, const struct vc_tile_in *in, void *scratch);
    /* After such a round over a refused tensor: fails with the full sentence, or VC_OK when this step refused nothing.
     */
    enum vc_status (*explain)(struct vc_ctx *ctx, struct vc_step *step, const struct vc_item *item);

    /* Running. begin allocates what the step needs for its tensor; end frees it, also after a failure. Either may be
     * NULL. If step->scan is set, scan sees every tile of the input before the first apply; scan_end follows the last
     * tile. Both are needed then. */
    enum vc_status (*begin)(struct vc_ctx *ctx, struct vc_step *step, const struct vc_item *item);
    enum vc_status (*scan)(struct vc_ctx *ctx, struct vc_step *step, const struct vc_item *item,
                           const struct vc_tile *tile, const struct vc_tile_in *in, void *scratch);
    enum vc_status (*scan_end)(struct vc_ctx *ctx, struct vc_step *step, const struct vc_item *item);
    /* One tile of step->out. Where the shapes of in and out are the same, `in` has the same tile. */
    enum vc_status (*apply)(struct vc_ctx *ctx, struct vc_step *step, const struct vc_item *item,
                            const struct vc_tile *tile, const struct vc_tile_in *in, void *scratch,
                            struct vc_tile_out *out);
    void (*end)(struct vc_ctx *ctx, struct vc_step *step);

    void (*forget)(struct vc_ctx *ctx, struct vc_step *step); /* frees step->state; may be NULL */
};

/* One step of one tensor. `plan` (or `decide`) fills it after vc_item_add_step. */
struct vc_step {
    const struct vc_step_ops *ops;
    struct vc_pass *pass; /* that added it; NULL: outside of jobs */
    void *state;          /* the step's own, from plan until ops->forget */
    struct vc_desc in, out;
    size_t n_made; /* parts that it makes: vc_step_add_part */
    enum vc_action action;
    const char *scheme;   /* for the report, "int8/channel" */
    const char *work;     /* what says how long it takes (kernels/rates.inc), where that is not its scheme; else NULL */
    unsigned keep, group; /* at most `keep` of `group` values along the input channels are not zero; 0: no pattern */
    const char *why;      /* for the report: why this scheme or these scales, a few words; NULL: nothing to say */
    bool calibrate;       /* sees the data in the next round of planning; whoever decides clears or keeps it */
    bool calibrate_all;   /* ... also where another worker writes the tensor: what is decided is about all tensors */
    bool scan;            /* sees all tiles of its input before apply */
    bool lossy;           /* apply fills stats: its output differs from its input in value */
    bool regroups;        /* out has another shape: apply makes a tile of it from any elements of the input, read with
                             vc_step_read. Tiles come in ascending order, on one thread at a time. Of the parts of `in`
                             that earlier steps make, out has none: it drops them or makes its own */
    size_t scratch_bytes; /* per worker, for calibrate, scan or apply of the largest tile */
    size_t state_bytes;   /* what begin allocates, for the plan of memory */
    uint64_t n_checked;   /* groups of that pattern that were looked at in what it wrote: all have it. Set by end */
    bool begun;           /* between begin and end */
    size_t first_view;    /* the executor's */
};

/* The steps of one item, and what is known of it because it has any, or has parts. */
struct vc_chain {
    size_t n_steps;
    struct vc_step **steps;            /* in the arena, room for a power of two */
    size_t pass_first;                 /* the first step of the pass that is being planned */
    size_t total_step;                 /* the step whose figures are those of the chain; n_steps or more: none ... */
    struct vc_compare *compare;        /* ... but this compares both ends; NULL: nothing tells the chain's error */
    const struct vc_item_lists *lists; /* of its row in the report; NULL: they are empty. The job's */
    const struct vc_item_outs *outs;   /* of its outputs; NULL: one that is plain. The job's */
};

#define VC_SEEN_DESCS 64

/* What the items of one list have in common. Starts as zeros but for the first members; it outlives the items. */
struct vc_item_set {
    const struct vc_model *model;
    struct vc_arena *arena;                    /* the job's: for strings and shapes that passes make */
    const struct vc_dialect *dialect;          /* how the output wants quantized weights; NULL: outputs that differ */
    struct vc_pass *pass;                      /* that is being planned; NULL: none */
    struct vc_chain none;                      /* of items without steps; never written */
    const struct vc_desc *seen[VC_SEEN_DESCS]; /* by hash: most tensors have the same few descriptors */
};

/* A tensor of the source and its way through the job. A source may have a million of them, most of which are kept, so
 * what only a changed one has is in its chain. */
struct vc_item {
    struct vc_item_set *set;
    const struct vc_desc *first; /* as the source has it */
    const struct vc_desc *desc;  /* after the steps planned so far */
    struct vc_chain *chain;      /* its own, from vc_item_own_chain; else set->none. Never NULL */
    const char *reason;          /* why the last pass left it alone; in the arena */
    uint32_t source;             /* tensor in the model */
    bool merged : 1;             /* a part of a tensor whose steps make new ones: not written */
    bool in_other_shard : 1;     /* in a file that another worker does: planned, not written or reported */
    bool absent : 1;             /* ... and that is not there, so that its values are not known */
    bool dropped : 1;            /* not written, by request */
    bool on_cpu : 1;             /* no card computes it: job/job_make.h, vc_chooser */
    bool tied : 1;               /* its output is a second name of that of an earlier item: the tensor's alias_of */
};

/* What the weights of a model become. */
struct vc_plan_target {
    const struct vc_model *model;
    const struct vc_dialect *dialect; /* NULL: outputs that differ */
    const char *name;                 /* of the model in a pipeline; NULL: there is only one */
};

/* A job as its passes see it while they plan. */
struct vc_plan {
    /* The source; behind a pass that renames tensors, under the names that it gave them. */
    const struct vc_model *model;
    struct vc_arena *arena;
    const struct vc_dialect *dialect; /* how the output wants quantized weights; NULL: outputs that differ */
    size_t n_targets;                 /* one, or one for each model of a pipeline */
    const struct vc_plan_target *targets;
    size_t n_sets; /* of the items: one, or one for each model of a pipeline */
    struct vc_item_set *sets;
    size_t n_items; /* one per tensor of the model, same index */
    struct vc_item *items;
    size_t n_edits, edits_capacity; /* of the model's configuration: vc_plan_edit */
    struct vc_edit *edits;
    size_t n_graph_edits, graph_edits_capacity; /* of a graph that is stored: vc_plan_edit_graph */
    struct vc_graph_edit *graph_edits;
    const char *layout; /* how quantized weights shall lie, as the caller names it; NULL: not said */
    struct vc_job *job;
    const char **names; /* new names of tensors, by item: NULL where the old one stays; NULL: nobody has a new one */
    bool *gone;         /* with them: tensors that a pass left out */
    bool renames;       /* the pass that is being planned changed the two lists */
    bool dry_plan;      /* everything is planned once more, or this is a dry run: nobody trains, and what would be
                            trained is as it was */
    uint64_t aim_bytes; /* a pass chose what fits into an output of that size: one that is larger all the same misses a
                           gate; 0: none did */
    const char *aim_option; /* ... and the option that asked for it: "aim_bytes", "aim_bpw" */
};

/* What the pass changes about the model beside its weights: writers apply it to config.json, to the keys of GGUF, ...
 * or refuse. Edits of several passes join: `before` is what the pass before this one left, and so are the numbers of
 * dropped layers. The lists are copied. From plan_end on; VC_E_INTERNAL where `before` is not what an earlier edit
 * left. */
enum vc_status vc_plan_edit(struct vc_ctx *ctx, struct vc_plan *plan, const struct vc_edit *edit);

/* What follows from that in the graph that the source stores beside its tensors, n edits, which are copied. The writer
 * of a graph applies them and refuses what the graph does not have (VC_E_INTERNAL); other writers have no graph. Shapes
 * that are declared in it for values which no edit names are left out. Of several edits of one number the last one
 * holds. From plan_end on. */
enum vc_status vc_plan_edit_graph(struct vc_ctx *ctx, struct vc_plan *plan, const struct vc_graph_edit *edits,
                                  size_t n);

/* The tensor is not in the output, nor are the parts that lie beside it, and the passes behind this one do not see it.
 * `why` goes to the report; it stays valid as long as the pass. At any time until the pass has decided. */
enum vc_status vc_plan_drop(struct vc_ctx *ctx, struct vc_plan *plan, size_t index, const char *why);

/* In the output, and for the passes behind this one (vc_plan.model), the tensor is called `name`, which is copied. */
enum vc_status vc_plan_rename(struct vc_ctx *ctx, struct vc_plan *plan, size_t index, const char *name);

/* The item of tensor `index` if passes may work on it; NULL for parts of other tensors, second names, dropped tensors
 * and what is no weight. */
struct vc_item *vc_plan_item(const struct vc_plan *plan, size_t index);

struct vc_pass_ops {
    const char *name;
    bool dry_plan_first; /* planning it takes long, because it trains: the whole job is planned dry first, so that
                       what any pass refuses is refused before that (vc_plan.dry_plan) */

    /* Before all tensors: refuses what the pass cannot do for this output. May be NULL. */
    enum vc_status (*plan_begin)(struct vc_ctx *ctx, struct vc_pass *pass, const struct vc_plan *plan);

    /* Looks at item->desc. Adds steps, or leaves the item alone and gives a reason (vc_item_keep). Fails for what the
     * user must hear about. */
    enum vc_status (*plan)(struct vc_ctx *ctx, struct vc_pass *pass, struct vc_item *item);

    /* After all tensors, before any calibration: what can only be said about all of them (pass->note; or a failure).
     * May be NULL. */
    enum vc_status (*plan_end)(struct vc_ctx *ctx, struct vc_pass *pass, struct vc_plan *plan);

    /* After each round of calibration (round 0, 1, ...), over all tensors together: sets shapes and parameters of its
     * steps, takes steps back (vc_item_undo, then vc_item_keep), asks for another round by leaving or setting
     * step->calibrate. Changes of a step's out end with vc_item_replan. NULL for passes whose steps never calibrate. */
    enum vc_status (*decide)(struct vc_ctx *ctx, struct vc_pass *pass, struct vc_plan *plan, size_t round);

    /* Adds what the pass alone knows to the report: its own member of struct vc_report. Called when the plan's rows and
     * totals are made, and again with `measured` after the run. May be NULL. */
    enum vc_status (*report)(struct vc_ctx *ctx, struct vc_pass *pass, const struct vc_plan *plan, bool measured,
                             struct vc_report *report);

    void (*free)(struct vc_ctx *ctx, struct vc_pass *pass);
};

/* A file for one role of parts. Each tensor in it has the name of the tensor that the part belongs to. */
struct vc_part_file {
    enum vc_part_role role;
    enum vc_dtype dtype; /* of the parts */
    const char *path;    /* its extension says the format */
};

struct vc_pass {
    const struct vc_pass_ops *ops;
    void *self;
    const char *command;                  /* "quantize --int8 --granularity channel": no paths */
    const char *note;                     /* for the report; NULL: none. Set by plan_end or decide */
    const struct vc_part_file *part_file; /* for parts that its steps make; NULL: these stay beside the weights. Of one
                                             pass in a job */
    const char *gate_missed; /* a gate of its own that was missed, a sentence: nothing is written; NULL: none. Set while
                                it is planned, and valid until it is planned anew */
    bool names_files; /* failures of planning it name the file that they are about, which may not be the source */
    const struct vc_recipe_entry *lineage; /* what it made its values from, one line of JSON, for the output's metadata;
                                              NULL: of those that are there */
    bool vanishes;       /* a tensor of which its codes lose all values is written so; else the job refuses it */
    const char *codes;   /* the scheme of codes that it makes, "nf4"; NULL: none, or not known before it plans */
    bool decodes;        /* behind it no tensor is codes */
    const char *mixture; /* what the types that it makes are called together, "Q4_K_M"; NULL: they have no name */
    const char *said;    /* the last reason of vc_item_keep, in the job's arena: most tensors have the same ones */
    size_t n_recipe;
    const struct vc_recipe_entry *recipe;
};

/* ---- what passes do to items while they plan ---- */

/* An item of that tensor without steps; item->first has the list of parts of a tensor that is quantized. */
enum vc_status vc_item_make(struct vc_ctx *ctx, struct vc_item_set *set, size_t tensor, struct vc_item *out);

/* An item that begins with what `desc` says, which outlives it: the tensor as a step leaves it. */
void vc_item_from(struct vc_item_set *set, size_t tensor, const struct vc_desc *desc, struct vc_item *out);

/* Gives the item a chain of its own, where it has none: to be called before item->chain is written. */
enum vc_status vc_item_own_chain(struct vc_ctx *ctx, struct vc_item *item);

/* Appends a step whose in and out are item->desc; the caller fills it and calls vc_item_replan. NULL without memory. */
struct vc_step *vc_item_add_step(struct vc_ctx *ctx, struct vc_item *item, const struct vc_step_ops *ops);

/* item->desc becomes what the last step makes. */
void vc_item_replan(struct vc_item *item);

/* The step makes a part: it joins step->out.parts, behind those that this step makes already and before those of
 * earlier steps, which is how tensors follow each other in a file when every pass writes one. `shape` lives in the
 * arena. */
enum vc_status vc_step_add_part(struct vc_ctx *ctx, struct vc_item *item, struct vc_step *step, enum vc_part_role role,
                                enum vc_dtype dtype, unsigned n_dims, const uint64_t *shape);

/* Of step->out: no codes any more, and no parts but those that stand beside plain values (a mask). */
enum vc_status vc_step_drop_coding(struct vc_ctx *ctx, struct vc_item *item, struct vc_step *step);

/* Takes back the steps of the pass that is being planned. */
void vc_item_undo(struct vc_ctx *ctx, struct vc_item *item);

/* Takes back all steps: the end of an item. Also takes zeros. */
void vc_item_release(struct vc_ctx *ctx, struct vc_item *item);

/* Says why the pass leaves the item alone. The reason is copied, unless it is that of the item before. */
enum vc_status vc_item_keep_as(struct vc_ctx *ctx, struct vc_item *item, const char *reason);
enum vc_status vc_item_keep(struct vc_ctx *ctx, struct vc_item *item, const char *format, ...) VC_PRINTF(3, 4);

/* The number of the part with that role in desc->parts; SIZE_MAX: none. */
size_t vc_desc_find_part(const struct vc_desc *desc, enum vc_part_role role);

/* The float type of the weights that the descriptor's values stand for: what codes were made from; f32 for blocks, which
 * do not tell, and for floats of 8 bits, which are decoded to it; else the type itself. */
enum vc_dtype vc_desc_weight_dtype(const struct vc_desc *desc);

/* Rows, row length and number of tiles as steps with that input, or the writer of that output, see them. */
void vc_desc_grid(const struct vc_desc *desc, uint64_t *n_rows, uint64_t *row_len);
/* The first tile, which is the largest; without elements all of its sizes are 0. */
void vc_desc_first_tile(const struct vc_desc *desc, struct vc_tile *tile);

/* ---- for those who run items ---- */

/* The first step that calibrates next; n_steps: none. */
size_t vc_item_calibrate_step(const struct vc_item *item);

/* Nothing is read or written for it. */
bool vc_item_is_idle(const struct vc_item *item);

/* It is written, and one of its steps does that. */
bool vc_item_has_action(const struct vc_item *item, enum vc_action action);

/* A step of it sees the data in the next round of calibration. */
bool vc_item_calibrates(const struct vc_item *item);

/* ---- in begin and apply ---- */

/* Reads a part that is a tensor of the source whole; dst has room for vc_dtype_bytes(part->dtype, part->n_elems). */
enum vc_status vc_part_load(struct vc_ctx *ctx, const struct vc_item *item, const struct vc_part_desc *part, void *dst);

/* For apply of a step that regroups: n elements of its input from flat index `first` on. Reading forward is cheap;
 * going back starts the input over. */
enum vc_status vc_step_read(struct vc_ctx *ctx, struct vc_step_input *input, uint64_t first, size_t n, void *dst);

/* apply of a step that changes no value. */
enum vc_status vc_step_copy(struct vc_ctx *ctx, struct vc_step *step, const struct vc_item *item,
                            const struct vc_tile *tile, const struct vc_tile_in *in, void *scratch,
                            struct vc_tile_out *out);
