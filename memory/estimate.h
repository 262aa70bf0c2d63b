/* estimate.h - what the parts of an estimate share: a report in the making, and sums that notice when they overflow.
 *
 *     estimate.c      options, activations, moments, stages of a pipeline, a teacher
 *     float_type.c    the usual type of floats
 *     loaded.c        weights as they are loaded
 *     made_as.c       weights in a scheme, as quantize would write them
 *     metadata.c      keys and values, and a bound, of a GGUF file whose graph is not known
 *     notes.c         sentences on how all was counted
 *     states.c        gradients, states of the optimizer, masters, adapters, ZeRO
 *     state_blocks.c  all of these as blocks of an allocator
 *     by_layer.c      what single layers take of it
 *     cache.c         keys and values
 *     points.c        a run as points in time
 *     reserve.c       what PyTorch's allocator takes
 *     own_training.c  training by vcompress itself: the plan of engine/
 *     recompute.c     which parts are computed again within a budget */
#pragma once

#include "core/base/checked.h"
#include "memory/float_type.h"
#include "memory/scheme.h"
#include "memory/timeline/timeline.h"
#include "memory/written.h"

/* A tensor of the weights, gradients, states or masters: a block of memory of its own. */
struct vc_request {
    uint64_t bytes; /* rounded to `align` */
    uint64_t block; /* with what PyTorch's allocator does not divide */
    uint32_t param; /* of the graph; VC_NO_PARAM: not known, or an adapter */
    uint8_t kind;   /* enum vc_memory_kind */
    bool adapter;
    const char *tensor; /* that it is, or belongs to */
};

struct vc_requests {
    struct vc_request *list;
    size_t n, capacity;
    bool failed; /* no memory for it */
};

struct vc_layer_table;

struct vc_estimate {
    struct vc_ctx *ctx;
    const struct vc_graph *graph; /* NULL: only weights are known */
    const struct vc_model *model;
    /* Weights in place of those of the model, by the same numbers; NULL: these. */
    const struct vc_planned_weights *written;
    struct vc_memory_options options;
    struct vc_scheme_layout scheme; /* where `coded` */
    bool coded;
    enum vc_dtype floats; /* what all codes become as they are loaded; VC_DTYPE_NONE: what they were made from */
    bool by_table;        /* a scheme of weights that quantize does not make of the file that is there */
    bool whole_groups;    /* of it: groups divide the rows, as loaders of transformers' folders want it */
    bool keeps_values;  /* a graph that is stored: its values have the type that it says, whatever its weights become */
    bool usual;         /* activations are of the usual type, because the options name none */
    enum vc_dtype type; /* of floats where the options name none: vc_memory_float_type */
    uint32_t n_layers;  /* of a scheme that is a mixture */
    bool has_head;      /* of one, too: an output layer that is not tied to the table of words */
    uint64_t align;     /* of every block of memory */
    struct vc_storages storages;
    struct vc_timeline timeline;
    struct vc_memory_report *out;
    struct vc_requests requests;
    struct vc_layer_table *layers; /* gets what each layer takes; NULL: nobody asks (by_layer.c) */
    uint64_t layer_largest;        /* bytes of the weights of one module, of those that ZeRO collects */
    uint64_t logits;               /* of the teacher */
    uint32_t *parts;               /* VC_RECOMPUTE_AUTO: storages.parts */
    const char *unread; /* a tensor of the file, or what it has, whose bytes nobody knows; NULL: all are known */
    bool decodes;       /* products have a weight of codes as floats for a moment */
    bool overflow;
};

static inline uint64_t vc_estimate_sum(struct vc_estimate *e, uint64_t a, uint64_t b)
{
    uint64_t c;

    e->overflow = !vc_add_u64(a, b, &c) || e->overflow;
    return c;
}

static inline uint64_t vc_estimate_product(struct vc_estimate *e, uint64_t a, uint64_t b)
{
    uint64_t c;

    e->overflow = !vc_mul_u64(a, b, &c) || e->overflow;
    return c;
}

/* A block of n elements, as the allocator gives it. */
static inline uint64_t vc_estimate_block(struct vc_estimate *e, uint64_t n, unsigned bytes)
{
    uint64_t rounded = 0;

    e->overflow = !vc_round_up_u64(vc_estimate_product(e, n, bytes), e->align, &rounded) || e->overflow;
    return rounded;
}

static inline void vc_estimate_add(struct vc_estimate *e, enum vc_memory_kind component, uint64_t bytes)
{
    e->out->components[component].bytes = vc_estimate_sum(e, e->out->components[component].bytes, bytes);
}

/* One more than the highest number of a layer with experts, of which the numbers of layers are in the names; 0: none. */
uint64_t vc_estimate_moe_layers(const struct vc_graph *graph, const struct vc_model *model);
/* Adds a tensor of so many bytes, rounded, to the component: see state_blocks.c. */
void vc_estimate_request(struct vc_estimate *e, enum vc_memory_kind kind, uint64_t bytes, uint32_t param, bool adapter,
                         const char *tensor);
/* What PyTorch's allocator gives for all of them, if that is the one: the components become these blocks. */
enum vc_status vc_estimate_allocate(struct vc_estimate *e);

/* Bytes of a float of that type; of none: of the usual one. */
static inline unsigned vc_float_bytes(const struct vc_estimate *e, enum vc_dtype dtype)
{
    return (unsigned)vc_dtype_size(dtype == VC_DTYPE_NONE ? e->type : dtype);
}

static inline bool vc_estimate_trains(const struct vc_estimate *e)
{
    return e->options.mode != VC_MEMORY_INFER;
}

/* Reads and checks the options of an estimate whose ctx and graph are set. */
enum vc_status vc_estimate_begin(struct vc_estimate *e, const struct vc_memory_options *options);

/* What runs at a step: the name of a node, its block or its operator, of the graph; "" for none. */
const char *vc_estimate_step_name(const struct vc_estimate *e, uint64_t step);

/* Of a model without a pipeline, or of a stage, from 0 on: all of the report but for what is about all stages. */
enum vc_status vc_estimate_run(struct vc_estimate *e, unsigned stage);

/* Elements of a parameter: of the slice, where it is one. Those that this device has; `whole`: all. */
uint64_t vc_param_elems(struct vc_estimate *e, const struct vc_graph_param *param, bool whole);
/* Bytes of an element of it as training has it. */
unsigned vc_param_width(const struct vc_estimate *e, const struct vc_graph_param *param);
/* Another parameter of this device is the same tensor. */
bool vc_param_is_double(const struct vc_estimate *e, uint32_t index);

/* The component VC_MEMORY_PARAMETERS; of weights that are decoded one at a time the floats, for storages.decoded. */
enum vc_status vc_estimate_weights(struct vc_estimate *e);
/* Without a graph: *known where llama.cpp runs the model and its metadata say what it keeps. */
enum vc_status vc_estimate_by_metadata(struct vc_estimate *e, bool *known);
/* Of the tensors that are loaded: those that llama.cpp keeps in the host's memory; then sentences on how all was
 * counted, in the report. */
void vc_estimate_notes(struct vc_estimate *e);
/* That the activations are a bound. */
void vc_estimate_note_bound(struct vc_estimate *e);
/* Figures of a graph that stands in for another are assumed, and a note says so. */
void vc_estimate_note_stand_in(struct vc_estimate *e);
/* Gradients, states, masters, and the adapters' own weights, of training; counts parameters. */
enum vc_status vc_estimate_states(struct vc_estimate *e);
/* Divides them between copies of the model and puts them into the host's memory as the options say; buffers of
 * communication. After both of the above. */
void vc_estimate_divide(struct vc_estimate *e);
/* Of a run that keeps keys and values: sets s->cached; then their bytes. */
void vc_cache_find(struct vc_storages *s);
void vc_estimate_cache(struct vc_estimate *e);
/* Which nodes are computed again, a number for each part and 0 for what is kept, so that the most that lives at one
 * step is within the budget, or the least that was found. recompute.c */
enum vc_status vc_recompute_choose(struct vc_estimate *e, uint64_t budget, uint32_t *parts);
/* Training by vcompress itself: all of the report. own_training.c */
enum vc_status vc_estimate_own_training(struct vc_estimate *e);
/* What the allocator has taken at each moment, for two steps of training or one run. */
enum vc_status vc_estimate_reserved(struct vc_estimate *e);
