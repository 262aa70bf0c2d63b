/* torch_pickle.h - the writer of an output's data.pkl; shared by torch_pickle.c and torch_resave.c. */
#pragma once

#include "formats/torch/torch_emit.h"

#define TORCH_MAX_LEFT 5    /* names of what is left out */
#define TORCH_BATCH    1000 /* items per opcode, as Python has it */

/* A value that is shared in the source's tree, and its slot in the memo of the output. */
struct torch_memo {
    const struct vc_pickle_node *node; /* NULL: free */
    unsigned slot;                     /* 0: it is written anew at each place */
};

/* The state of writing one data.pkl. */
struct torch_writer {
    struct vc_ctx *ctx;
    const struct vc_model *model;
    const struct torch *source;
    const struct vc_out_list *outs;
    const char *const *names; /* of the outputs in the dict */
    const size_t *keys;       /* number of each output's storage */
    size_t *main_out;         /* by tensor of the model; VC_NO_TENSOR: it has none */
    size_t *sorted;           /* tensors of the model by name; NULL: not asked for yet */
    struct torch_emit e;
    struct vc_text path; /* the keys on the way */
    size_t names_at;     /* where names begin in it */
    struct vc_text left; /* what was left out */
    size_t n_left;
    uint64_t steps;
    unsigned depth;
    bool flat;               /* there is no place for a scale */
    struct torch_memo *memo; /* the shared values that were written */
    size_t n_memo, memo_capacity;
    struct vc_hash_table by_node; /* their numbers there */
};

/* ---- torch_here.c ---- */

/* The tensor of that output. */
void vc_torch_write_out(struct torch_writer *w, size_t index);
/* Its scales and zero points, which follow it in the list. */
size_t vc_torch_parts_of(const struct torch_writer *w, size_t index);
/* The name of what is at the path; "" for the whole, and for the dict that was chosen. */
const char *vc_torch_here(const struct torch_writer *w);
/* The tensor at the path, and its output; VC_NO_TENSOR if there is none. */
size_t vc_torch_tensor_here(struct torch_writer *w);
size_t vc_torch_out_here(struct torch_writer *w);
/* The tensors below the path that have an output, from *first to *last; the object at the top, or the one that was
 * chosen, has all weights. False: none. */
bool vc_torch_find_below(struct torch_writer *w, size_t *first, size_t *last);

/* ---- torch_resave.c ---- */

/* The source's tree with the outputs in it. Sets `flat` where it has no place for them, and collects what it left. */
enum vc_status vc_torch_write_tree(struct torch_writer *w);
