/* pickle.h - a Python pickle (protocols 2 to 5) as a tree of values. Nothing is imported, called or run.
 *
 *     80 02                                     protocol 2
 *     7d                            }           an empty dict
 *     58 01 00 00 00 77             X           the string "w"
 *     63 torch._utils \n _rebuild_tensor_v2 \n  c  the name of a function (GLOBAL)
 *     28 ... 74                     ( t         a tuple of what lies between them: the arguments
 *     52                            R           function and arguments become a call (CALL)
 *     73                            s           "w" and the call become an item of the dict
 *     2e                            .           the end; what is on the stack is the value
 *
 * Plain values, containers, names of globals and calls are nodes; what a call would make is the reader's business to
 * recognize (torch_tensor.c), or to leave alone. Nodes may be shared and, through the memo, contain themselves: whoever
 * walks has to count, and to mark where it is (`busy`). The tree points into the bytes it was made from, which must
 * outlive it.
 *
 * Memory is bounded by the number of bytes: an opcode makes at most one node, and puts at most one item into another;
 * and what all nodes take is bounded by vc_pickle_max_tree, which leaves room for every pickle that was not made to
 * need much. */
#pragma once

#include "core/base/arena.h"

#define VC_PICKLE_MAX_BYTES  ((size_t)256 << 20)
#define VC_PICKLE_MAX_STACK  ((size_t)16 << 20)
#define VC_PICKLE_MAX_MARKS  ((size_t)65536) /* that are open at once: levels of containers */
#define VC_PICKLE_MAX_GLOBAL ((size_t)1000)  /* bytes of the module's name, and of the other one */

/* What a node is; behind each the member of `u` that it uses. */
enum vc_pickle_kind {
    VC_PICKLE_NONE,
    VC_PICKLE_BOOL,   /* integer: 0 or 1 */
    VC_PICKLE_INT,    /* integer */
    VC_PICKLE_LONG,   /* text: little-endian two's complement, more than 64 bits */
    VC_PICKLE_FLOAT,  /* real */
    VC_PICKLE_STRING, /* text: UTF-8, not checked; may hold surrogates. Python 2: any bytes */
    VC_PICKLE_BYTES,  /* text */
    VC_PICKLE_TUPLE,  /* items */
    VC_PICKLE_LIST,   /* items */
    VC_PICKLE_DICT,   /* items: key, value, key, value, ... */
    VC_PICKLE_SET,    /* items; `frozen` */
    VC_PICKLE_GLOBAL, /* global */
    VC_PICKLE_CALL,   /* call: function and args, then state and items that the result was given */
    VC_PICKLE_PERSID  /* persid */
};

/* A text of the pickle, in place. */
struct vc_pickle_bytes {
    const char *p; /* not NUL-terminated */
    size_t n;
};

struct vc_pickle_node;
struct vc_pickle_run; /* of items that were added at once */

/* Items of a list, dict, set, or call: runs, because they arrive in such. */
struct vc_pickle_runs {
    struct vc_pickle_run *first, *last;
};

/* What objects alone have. */
struct vc_pickle_object {
    struct vc_pickle_node *state; /* NULL: none */
    struct vc_pickle_runs items;
};

/* A value. There are millions of them, so a node is allocated only as far as the member of its kind goes: copy
 * pointers, never nodes. Equal numbers, tuples of a few equal ones, and of nothing, may be one node. */
struct vc_pickle_node {
    unsigned char kind; /* enum vc_pickle_kind */
    bool frozen;
    bool pairs : 1;    /* items of a call came as keys and values */
    bool mixed : 1;    /* ... both as pairs and alone: their meaning is not known */
    bool busy : 1;     /* free for walks; false after parsing */
    bool shared : 1;   /* the pickle has it in more than one place, by its memo; or it is a long text */
    bool utf8 : 1;     /* of a string that is shared: it is UTF-8 */
    bool searched : 1; /* free for walks, as the next one; false after parsing */
    bool walked : 1;
    bool unhashable : 1; /* Python takes it neither as a key nor into a set; of a global: what it makes */
    uint32_t n_items;    /* fewer than the pickle has bytes */
    union {
        int64_t integer;
        double real;
        struct vc_pickle_bytes text;
        struct {
            struct vc_pickle_bytes module, name;
        } global;
        struct vc_pickle_node **tuple; /* its items */
        struct vc_pickle_runs items;   /* of a list, dict or set */
        struct {
            struct vc_pickle_node *function, *args; /* a tuple */
            struct vc_pickle_object *object;        /* NULL: neither state nor items; see vc_pickle_state */
        } call;
        struct {
            struct vc_pickle_node *id, *before; /* before: the one in front of it in the pickle */
        } persid;
    } u;
};

/* A parsed pickle; vc_pickle_release frees all of it at once. */
struct vc_pickle {
    struct vc_arena arena;
    struct vc_pickle_node *root;
    struct vc_pickle_node *persids; /* the last one */
    size_t n_persids;
    size_t n_shared; /* nodes with that flag */
    size_t n_bytes;  /* up to and with the opcode that ends it */
    size_t n_opcodes;
    unsigned protocol;
};

/* What the tree of a pickle of n bytes may take. Lists of small numbers take most in honest ones: 8 bytes a byte. */
static inline size_t vc_pickle_max_tree(size_t n)
{
    return ((size_t)16 << 20) + 12 * n;
}

/* Parses the pickle that data begins with. *cut (may be NULL): it does not end within n bytes, which is an error as
 * well. On failure nothing is left. VC_E_FORMAT, VC_E_UNSUPPORTED (protocols 0, 1 and above 5; out-of-band buffers). */
enum vc_status vc_pickle_parse(struct vc_ctx *ctx, const void *data, size_t n, struct vc_pickle *out, bool *cut);
void vc_pickle_release(struct vc_ctx *ctx, struct vc_pickle *pickle);

/* A place among the items of a node. */
struct vc_pickle_iter {
    struct vc_pickle_node *const *at;
    size_t n_left; /* of this run */
    const struct vc_pickle_run *next;
};

/* Items front to back; NULL after the last. */
struct vc_pickle_iter vc_pickle_iterate(const struct vc_pickle_node *node);
struct vc_pickle_node *vc_pickle_next(struct vc_pickle_iter *iter);
struct vc_pickle_node *vc_pickle_item(const struct vc_pickle_node *node, size_t k); /* NULL: there are not so many */

/* The state that an object was given; NULL: none, or no object. */
struct vc_pickle_node *vc_pickle_state(const struct vc_pickle_node *node);

/* Python takes it neither as a key nor into a set: lists, dicts, and tuples of such. */
bool vc_pickle_is_unhashable(const struct vc_pickle_node *node);
/* The text of a string is UTF-8; quick where it is shared. */
bool vc_pickle_is_utf8(const struct vc_pickle_node *string);
bool vc_pickle_bytes_are(const struct vc_pickle_bytes *bytes, const char *text);
/* It is the string; the global of that module ("builtins" is "__builtin__" too) and name. NULL is nothing. */
bool vc_pickle_is_string(const struct vc_pickle_node *node, const char *text);
bool vc_pickle_is_global(const struct vc_pickle_node *node, const char *module, const char *name);
/* A call of that global. */
bool vc_pickle_is_call(const struct vc_pickle_node *node, const char *module, const char *name);
/* A dict, or what Python makes from one: OrderedDict, defaultdict and other calls that were given pairs. */
bool vc_pickle_is_mapping(const struct vc_pickle_node *node);
