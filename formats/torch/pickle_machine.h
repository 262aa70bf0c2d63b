/* pickle_machine.h - the inside of the machine that reads a pickle; shared by pickle.c (opcodes), pickle_build.c (what
 * they make), pickle_machine.c (reading, stack, memo) and pickle_node.c (nodes and their items). */
#pragma once

#include "formats/torch/pickle.h"

/* Items arrive in runs (Python adds up to 1,000 at once) and stay in them. */
struct vc_pickle_run {
    struct vc_pickle_run *next;
    size_t n;
    struct vc_pickle_node *nodes[];
};

#define PICKLE_RECENT 512          /* a power of two */
#define PICKLE_LONG   ((size_t)64) /* bytes of a text that is treated as shared */

/* The machine while it runs: opcodes take values from the stack and put values on it; marks remember depths of the
 * stack; the memo keeps values that occur again. */
struct pickle_machine {
    struct vc_ctx *ctx;
    struct vc_pickle *out;
    const unsigned char *data;
    size_t n, at;
    size_t op_at; /* of the opcode in work */
    struct vc_pickle_node **stack;
    size_t depth, stack_capacity;
    size_t *marks; /* depths */
    size_t n_marks, marks_capacity;
    struct vc_pickle_node **memo; /* NULL: unset */
    size_t memo_capacity, n_memo;
    struct vc_pickle_node *recent[PICKLE_RECENT]; /* numbers, by a hash: sizes and strides are few different ones */
    struct vc_pickle_node *tuples[PICKLE_RECENT]; /* the same of a few numbers each */
    struct vc_pickle_node *none, *empty_tuple;    /* NULL: not met yet */
    size_t n_adopted;                             /* pairs that became items of an OrderedDict of Python 2 */
    size_t tree_bytes;                            /* of nodes and items */
    bool cut, stopped;
};

/* Fails with VC_E_FORMAT and the byte of the opcode in work. */
enum vc_status vc_pickle_damaged(struct pickle_machine *m, const char *what);
/* The next n bytes of the pickle; sets m->cut when there are not so many, since a longer window of the file may have
 * them. */
enum vc_status vc_pickle_take(struct pickle_machine *m, size_t n, const unsigned char **p);
enum vc_status vc_pickle_take_counted(struct pickle_machine *m, size_t width, struct vc_pickle_bytes *out);
/* A line as GLOBAL has them, without its newline. */
enum vc_status vc_pickle_take_line(struct pickle_machine *m, struct vc_pickle_bytes *out);
/* Onto the stack; below VC_PICKLE_MAX_STACK. */
enum vc_status vc_pickle_push(struct pickle_machine *m, struct vc_pickle_node *node);
enum vc_status vc_pickle_need(struct pickle_machine *m, size_t n);
enum vc_status vc_pickle_push_mark(struct pickle_machine *m);
enum vc_status vc_pickle_pop_mark(struct pickle_machine *m, size_t *n);
/* The value on top of the stack into a slot of the memo; it stays on the stack. */
enum vc_status vc_pickle_set_memo(struct pickle_machine *m, uint64_t slot);
/* What is in the slot, onto the stack. */
enum vc_status vc_pickle_get_memo(struct pickle_machine *m, uint64_t slot);
/* The node has a second place, or is long enough that nobody should copy it twice. */
void vc_pickle_share(struct pickle_machine *m, struct vc_pickle_node *node);

/* ---- pickle_node.c ---- */

/* All zeros but its kind, which is no tuple. */
enum vc_status vc_pickle_make(struct pickle_machine *m, enum vc_pickle_kind kind, struct vc_pickle_node **out);
enum vc_status vc_pickle_push_new(struct pickle_machine *m, enum vc_pickle_kind kind, struct vc_pickle_node **out);
enum vc_status vc_pickle_push_none(struct pickle_machine *m);
enum vc_status vc_pickle_push_integer(struct pickle_machine *m, enum vc_pickle_kind kind, int64_t value);
/* The n topmost values become a tuple. */
enum vc_status vc_pickle_push_tuple(struct pickle_machine *m, size_t n);
/* Adds the n topmost values to a list, dict, set or call below them and takes them from the stack. */
enum vc_status vc_pickle_add_items(struct pickle_machine *m, struct vc_pickle_node *node, size_t n);
enum vc_status vc_pickle_set_state(struct pickle_machine *m, struct vc_pickle_node *call, struct vc_pickle_node *state);

/* ---- pickle_build.c ---- */

/* Of the values above the last mark. */
enum vc_status vc_pickle_tuple(struct pickle_machine *m);
enum vc_status vc_pickle_frozen_set(struct pickle_machine *m);
/* The n topmost values, or those above the last mark, go into what is below them. */
enum vc_status vc_pickle_extend(struct pickle_machine *m, size_t n, bool pairs, bool set);
enum vc_status vc_pickle_extend_marked(struct pickle_machine *m, bool pairs, bool set);
enum vc_status vc_pickle_call(struct pickle_machine *m, size_t n_args);
enum vc_status vc_pickle_build(struct pickle_machine *m);
enum vc_status vc_pickle_persistent(struct pickle_machine *m);
enum vc_status vc_pickle_push_global(struct pickle_machine *m);
enum vc_status vc_pickle_stack_global(struct pickle_machine *m);
