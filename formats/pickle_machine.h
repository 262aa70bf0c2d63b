/* pickle_machine.h - the inside of the machine that reads a pickle; shared by pickle.c (opcodes), pickle_machine.c
 * (their parts) and pickle_node.c (items). */
#ifndef VC_FORMATS_PICKLE_MACHINE_H
#define VC_FORMATS_PICKLE_MACHINE_H

#include "formats/pickle.h"

/* Items arrive in runs (Python adds up to 1,000 at once) and stay in them. */
struct vc_pickle_items {
    struct vc_pickle_items *next;
    size_t n;
    struct vc_pickle_node *nodes[];
};

struct pickle_machine {
    struct vc_ctx *ctx;
    struct vc_pickle *out;
    const unsigned char *data;
    size_t n, at;
    size_t op_at; /* of the opcode in work */
    struct vc_pickle_node **stack;
    size_t depth, stack_room;
    size_t *marks; /* depths */
    size_t n_marks, marks_room;
    struct vc_pickle_node **memo; /* NULL: unset */
    size_t memo_room, n_memo;
    bool cut, stopped;
};

enum vc_status pickle_damaged(struct pickle_machine *m, const char *what);
enum vc_status pickle_take(struct pickle_machine *m, size_t n, const unsigned char **p);
enum vc_status pickle_take_counted(struct pickle_machine *m, size_t width, struct vc_pickle_bytes *out);
enum vc_status pickle_take_line(struct pickle_machine *m, struct vc_pickle_bytes *out);
enum vc_status pickle_push(struct pickle_machine *m, struct vc_pickle_node *node);
enum vc_status pickle_need(struct pickle_machine *m, size_t n);
enum vc_status pickle_push_mark(struct pickle_machine *m);
enum vc_status pickle_pop_mark(struct pickle_machine *m, size_t *n);
enum vc_status pickle_set_memo(struct pickle_machine *m, uint64_t slot);
enum vc_status pickle_get_memo(struct pickle_machine *m, uint64_t slot);
enum vc_status pickle_make(struct pickle_machine *m, enum vc_pickle_kind kind, struct vc_pickle_node **out);
enum vc_status pickle_push_new(struct pickle_machine *m, enum vc_pickle_kind kind, struct vc_pickle_node **out);
enum vc_status pickle_push_integer(struct pickle_machine *m, enum vc_pickle_kind kind, int64_t value);
enum vc_status pickle_add_items(struct pickle_machine *m, struct vc_pickle_node *node, size_t n);

#endif
