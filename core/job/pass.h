/* pass.h - what a pass (quantize, dequantize, ...) is to the executor.
 *
 * A pass plans on descriptors (headers only) and works on tiles. It never sees a file, a format or a device. Passes
 * chain: the main output of one is the input of the next, per item.
 *
 * Threads: plan, begin, scan_end and end of an item are called by one thread at a time; scan and apply of different
 * tiles run at the same time. */
#ifndef VC_CORE_PASS_H
#define VC_CORE_PASS_H

#include <vcompress/report.h>

#include "core/base/arena.h"
#include "core/base/ctx.h"
#include "core/base/tile.h"
#include "core/model/dialect.h"
#include "core/model/source.h"
#include "core/run/sink.h"

#define VC_MAX_STAGES     4
#define VC_MAX_COMPANIONS 2

struct vc_pass;

/* What a tensor looks like between two passes. Strings and shapes belong to the job. */
struct vc_desc {
    enum vc_dtype dtype;
    unsigned n_dims;
    const uint64_t *shape;
    uint64_t n_elems;
    const struct vc_quant *quant; /* still quantized: scale and zero_point are source tensor indices */
};

struct vc_companion {
    enum vc_part_role role;
    const char *suffix; /* ".scale": the output is named <tensor><suffix> */
    enum vc_dtype dtype;
    unsigned n_dims;
    const uint64_t *shape;
    uint64_t n_elems;
};

/* One pass at work on one item. */
struct vc_stage {
    struct vc_pass *pass;
    void *state; /* the pass's own, from plan to job_free; freed by ops->forget */
    struct vc_desc in;
    struct vc_desc out;
    bool begun;           /* between begin and end */
    bool scan;            /* has to see all tiles of the tensor before apply */
    bool survey;          /* ... before the layout is fixed */
    size_t scratch_bytes; /* per worker, for apply or scan of the largest tile */
    size_t state_bytes;   /* what begin will allocate, for the plan */
    const char *scheme;   /* for the report, "int8/channel" */
    enum vc_action action;
    size_t n_companions;
    struct vc_companion companions[VC_MAX_COMPANIONS];
    struct vc_quant quant; /* of the output, when action is QUANTIZED; scale and zero_point are companion numbers */
};

/* One source tensor's way through the job. */
struct vc_item {
    const struct vc_model *model;
    struct vc_arena *arena;                 /* the job's: for strings and shapes that passes make */
    size_t source;                          /* tensor in the model */
    const struct vc_dialect *dialect;       /* how the output wants quantized weights; NULL: outputs that differ */
    struct vc_desc desc;                    /* after the stages planned so far */
    size_t n_stages;                        /* 0: kept */
    struct vc_stage *stages[VC_MAX_STAGES]; /* in the arena */
    const char *reason;                     /* why the last pass left it alone; in the arena */
    bool merged;                            /* a companion that went into its tensor: not written */
    bool elsewhere;                         /* in a file that another worker does: planned, not written or reported */
    bool dropped;                           /* not written, by request */
    bool tied;                              /* its output is a second name of that of ... */
    size_t alias_of;                        /* ... this earlier item */
};

/* Where apply puts its results. */
struct vc_tile_out {
    void *data; /* room for the tile in the output's dtype */
    struct {
        const void *data; /* in scratch, or longer-lived; NULL: nothing from this tile */
        uint64_t offset_bytes;
        size_t n_bytes;
    } companion[VC_MAX_COMPANIONS];
    struct vc_tile_stats *stats;
    bool measured;      /* apply sets it when it filled stats */
    uint64_t nonfinite; /* values replaced */
};

struct vc_pass_ops {
    const char *name;

    /* Before all items: refuses what the pass cannot do for an output of that dialect (NULL: outputs that differ). May
     * be NULL. */
    enum vc_status (*plan_begin)(struct vc_ctx *ctx, struct vc_pass *pass, const struct vc_dialect *dialect);

    /* Looks at item->desc. Adds a stage (vc_item_add_stage, then fills it and item->desc), or leaves the item alone
     * and gives a reason (vc_item_keep). Fails for what the user must hear about. */
    enum vc_status (*plan)(struct vc_ctx *ctx, struct vc_pass *pass, struct vc_item *item);

    /* After all items: what can only be said about all of them (pass->note; or a failure). May be NULL. */
    enum vc_status (*plan_end)(struct vc_ctx *ctx, struct vc_pass *pass, const struct vc_model *model);

    /* Survey: a look at everything that comes to a stage, where the data decides the plan (stage->survey) before the
     * layout is fixed, or after apply refused a value, to say which and how many. The stage and those before it have
     * begun; those before it do not scan. survey_end may turn the item into a kept one, or fails with the full
     * sentence. NULL for passes that never ask for it. */
    enum vc_status (*survey)(struct vc_ctx *ctx, struct vc_stage *stage, const struct vc_item *item,
                             const struct vc_tile *tile, const void *in);
    enum vc_status (*survey_end)(struct vc_ctx *ctx, struct vc_stage *stage, struct vc_item *item);

    enum vc_status (*begin)(struct vc_ctx *ctx, struct vc_stage *stage, const struct vc_item *item);
    enum vc_status (*scan)(struct vc_ctx *ctx, struct vc_stage *stage, const struct vc_item *item,
                           const struct vc_tile *tile, const void *in, void *scratch);
    enum vc_status (*scan_end)(struct vc_ctx *ctx, struct vc_stage *stage, const struct vc_item *item);
    enum vc_status (*apply)(struct vc_ctx *ctx, struct vc_stage *stage, const struct vc_item *item,
                            const struct vc_tile *tile, const void *in, void *scratch, struct vc_tile_out *out);
    void (*end)(struct vc_ctx *ctx, struct vc_stage *stage); /* frees what begin made; also after a failure */

    void (*forget)(struct vc_ctx *ctx, struct vc_stage *stage); /* frees stage->state; may be NULL */
    void (*free)(struct vc_ctx *ctx, struct vc_pass *pass);
};

struct vc_pass {
    const struct vc_pass_ops *ops;
    void *self;
    const char *command; /* "quantize --int8 --granularity channel": no paths */
    const char *note;    /* for the report; NULL: none. Set by plan_end */
    size_t n_recipe;
    const struct vc_recipe_entry *recipe;
};

/* Appends a stage whose `in` is item->desc. NULL with the error set when there are VC_MAX_STAGES already. */
struct vc_stage *vc_item_add_stage(struct vc_ctx *ctx, struct vc_item *item, struct vc_pass *pass);

/* Hands the pass to the job, which frees it (also when this fails). */
enum vc_status vc_job_add_pass(struct vc_ctx *ctx, struct vc_job *job, struct vc_pass *pass);

/* The stage whose survey is asked for, the first one; n_stages: none. */
size_t vc_item_survey_stage(const struct vc_item *item);

/* Nothing is read or written for it. */
bool vc_item_is_idle(const struct vc_item *item);

/* Takes stages away again until n_left remain. */
void vc_item_drop_stages(struct vc_ctx *ctx, struct vc_item *item, size_t n_left);

/* Says why the pass leaves the item alone. */
enum vc_status vc_item_keep(struct vc_ctx *ctx, struct vc_item *item, const char *format, ...) VC_PRINTF(3, 4);

#endif
