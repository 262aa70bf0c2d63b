/* pickle.c - the stack machine of pickle.h: which opcode does what, numbers and texts. Sentences name the offset, so
 * that a tool such as pickletools shows the same place.
 *
 *     vc_pickle_parse -> step (the common opcodes) -> step_object (containers, calls) -> step_new (protocols 3 to 5)
 *                          pickle_machine.c: arguments, stack, marks, memo
 *                          pickle_build.c: tuples, items, calls           pickle_node.c: nodes */
#include "formats/torch/pickle_machine.h"

/* ---- nodes ---- */

/* A string or bytes with a length of `width` bytes before it. The text stays where it is. */
static enum vc_status push_text(struct pickle_machine *m, enum vc_pickle_kind kind, size_t width)
{
    struct vc_pickle_node *node = NULL;
    struct vc_pickle_bytes text = {NULL, 0};

    VC_CALL(vc_pickle_take_counted(m, width, &text));
    VC_CALL(vc_pickle_push_new(m, kind, &node));
    node->u.text = text;
    if (VC_UNLIKELY(text.n > PICKLE_LONG)) {
        vc_pickle_share(m, node);
    }
    return VC_OK;
}

/* Bytes that can be changed, and so are no keys. */
static enum vc_status push_bytearray(struct pickle_machine *m)
{
    VC_CALL(push_text(m, VC_PICKLE_BYTES, 8));
    m->stack[m->depth - 1]->unhashable = true;
    return VC_OK;
}

/* An integer as little-endian two's complement of any length, its number of bytes before it in `width` bytes. Above 8
 * bytes it stays a text (VC_PICKLE_LONG). */
static enum vc_status push_long(struct pickle_machine *m, size_t width)
{
    struct vc_pickle_bytes text = {NULL, 0};
    struct vc_pickle_node *node = NULL;
    uint64_t value = 0;

    VC_CALL(vc_pickle_take_counted(m, width, &text));
    if (text.n > 8) {
        VC_CALL(vc_pickle_push_new(m, VC_PICKLE_LONG, &node));
        node->u.text = text;
        vc_pickle_share(m, node);
        return VC_OK;
    }
    if (text.n > 0 && (text.p[text.n - 1] & 0x80) != 0) {
        value = UINT64_MAX;
    }
    for (size_t i = text.n; i-- > 0;) {
        value = value << 8 | (unsigned char)text.p[i];
    }
    return vc_pickle_push_integer(m, VC_PICKLE_INT, (int64_t)value);
}

/* Eight bytes, big-endian, unlike everything else in a pickle. */
static enum vc_status push_float(struct pickle_machine *m)
{
    const unsigned char *p = NULL;
    struct vc_pickle_node *node = NULL;
    uint64_t bits = 0;

    VC_CALL(vc_pickle_take(m, 8, &p));
    for (size_t i = 0; i < 8; i++) {
        bits = bits << 8 | p[i];
    }
    VC_CALL(vc_pickle_push_new(m, VC_PICKLE_FLOAT, &node));
    memcpy(&node->u.real, &bits, sizeof bits);
    return VC_OK;
}

/* ---- opcodes ---- */

/* PROTO: the number of the protocol. */
static enum vc_status protocol(struct pickle_machine *m)
{
    const unsigned char *p = NULL;

    VC_CALL(vc_pickle_take(m, 1, &p));
    VC_REFUSE_IF(p[0] < 2 || p[0] > 5, m->ctx, VC_E_UNSUPPORTED, "pickle protocol %u is not supported (2 to 5 are)",
                 (unsigned)p[0]);
    m->out->protocol = p[0];
    return VC_OK;
}

/* FRAME tells a length that readers may use to read ahead. It has to be there; then reading goes on behind the length.
 */
static enum vc_status frame(struct pickle_machine *m)
{
    const unsigned char *p = NULL;

    VC_CALL(vc_pickle_take(m, 8, &p));
    VC_REFUSE_IF(vc_le64(p) > VC_PICKLE_MAX_BYTES, m->ctx, VC_E_FORMAT,
                 "pickle, byte %zu: a frame of %" PRIu64 " bytes", m->op_at, vc_le64(p));
    VC_CALL(vc_pickle_take(m, (size_t)vc_le64(p), &p));
    m->at = m->op_at + 9;
    return VC_OK;
}

/* POP. With a mark on top, Python takes the mark away, so this does, too. */
static enum vc_status pop(struct pickle_machine *m)
{
    if (m->n_marks != 0 && m->marks[m->n_marks - 1] == m->depth) { /* as Python does: takes the mark away */
        m->n_marks--;
        return VC_OK;
    }
    VC_CALL(vc_pickle_need(m, 1));
    m->depth--;
    return VC_OK;
}

/* POP_MARK: the mark and everything above it go. */
static enum vc_status pop_to_mark(struct pickle_machine *m)
{
    size_t n = 0;

    VC_CALL(vc_pickle_pop_mark(m, &n));
    m->depth -= n;
    return VC_OK;
}

/* DUP. */
static enum vc_status duplicate(struct pickle_machine *m)
{
    VC_CALL(vc_pickle_need(m, 1));
    vc_pickle_share(m, m->stack[m->depth - 1]);
    return vc_pickle_push(m, m->stack[m->depth - 1]);
}

/* STOP: exactly one value is left, and it is the pickle's. */
static enum vc_status stop(struct pickle_machine *m)
{
    if (m->depth != 1 || m->n_marks != 0) {
        return vc_pickle_damaged(m, "ends with other than one value on the stack");
    }
    m->out->root = m->stack[0];
    m->out->n_bytes = m->at;
    m->stopped = true;
    return VC_OK;
}

/* EMPTY_LIST, EMPTY_DICT, EMPTY_SET. */
static enum vc_status push_empty(struct pickle_machine *m, enum vc_pickle_kind kind)
{
    struct vc_pickle_node *node = NULL;

    return vc_pickle_push_new(m, kind, &node);
}

/* A number of 1, 2 or 4 bytes, without a sign; whoever wants a signed one converts it. */
static enum vc_status number(struct pickle_machine *m, size_t width, int64_t *value)
{
    const unsigned char *p = NULL;

    VC_CALL(vc_pickle_take(m, width, &p));
    *value = width == 1 ? p[0] : width == 2 ? vc_le16(p) : (int64_t)vc_le32(p);
    return VC_OK;
}

/* BININT (4 bytes, signed), BININT1 and BININT2. */
static enum vc_status push_number(struct pickle_machine *m, size_t width)
{
    int64_t value = 0;

    VC_CALL(number(m, width, &value));
    return vc_pickle_push_integer(m, VC_PICKLE_INT, width == 4 ? (int32_t)(uint32_t)value : value);
}

/* BINPUT, LONG_BINPUT, BINGET, LONG_BINGET: the slot is in the pickle. */
static enum vc_status memo_number(struct pickle_machine *m, size_t width, bool set)
{
    int64_t slot = 0;

    VC_CALL(number(m, width, &slot));
    return set ? vc_pickle_set_memo(m, (uint64_t)slot) : vc_pickle_get_memo(m, (uint64_t)slot);
}

/* Refuses an opcode, with the reason where it is one of Python's: protocol 0, extension codes, buffers outside of the
 * pickle. */
static enum vc_status unknown(struct pickle_machine *m, unsigned char op)
{
    VC_REFUSE_IF(strchr("FIiLSVPgpdlot", op) != NULL && op != 't', m->ctx, VC_E_UNSUPPORTED,
                 "pickle, byte %zu: opcode '%c' of protocol 0 is not supported", m->op_at, op);
    VC_REFUSE_IF(op >= 0x82 && op <= 0x84, m->ctx, VC_E_UNSUPPORTED, "pickle, byte %zu: a copyreg extension code",
                 m->op_at);
    VC_REFUSE_IF(op == 0x97 || op == 0x98, m->ctx, VC_E_UNSUPPORTED,
                 "pickle, byte %zu: a buffer that is not in the pickle", m->op_at);
    return vc_fail(m->ctx, VC_E_FORMAT, "pickle, byte %zu: 0x%02x is no opcode", m->op_at, (unsigned)op);
}

/* One opcode: its byte, Python's name for it, what it does. */
/* clang-format off */
static enum vc_status step(struct pickle_machine *m, unsigned char op)
{
    switch (op) {
#define OPCODE(byte, name, result) case byte: return result;
    OPCODE(0x80, PROTO, protocol(m))
    OPCODE(0x95, FRAME, frame(m))
    OPCODE('.', STOP, stop(m))
    OPCODE('(', MARK, vc_pickle_push_mark(m))
    OPCODE('0', POP, pop(m))
    OPCODE('1', POP_MARK, pop_to_mark(m))
    OPCODE('2', DUP, duplicate(m))
    /* values */
    OPCODE('N', NONE, vc_pickle_push_none(m))
    OPCODE(0x88, NEWTRUE, vc_pickle_push_integer(m, VC_PICKLE_BOOL, true))
    OPCODE(0x89, NEWFALSE, vc_pickle_push_integer(m, VC_PICKLE_BOOL, false))
    OPCODE('J', BININT, push_number(m, 4))
    OPCODE('K', BININT1, push_number(m, 1))
    OPCODE('M', BININT2, push_number(m, 2))
    OPCODE(0x8a, LONG1, push_long(m, 1))
    OPCODE(0x8b, LONG4, push_long(m, 4))
    OPCODE('G', BINFLOAT, push_float(m))
    OPCODE('X', BINUNICODE, push_text(m, VC_PICKLE_STRING, 4))
    OPCODE(0x8c, SHORT_BINUNICODE, push_text(m, VC_PICKLE_STRING, 1))
    OPCODE(0x8d, BINUNICODE8, push_text(m, VC_PICKLE_STRING, 8))
    OPCODE('T', BINSTRING, push_text(m, VC_PICKLE_STRING, 4))
    OPCODE('U', SHORT_BINSTRING, push_text(m, VC_PICKLE_STRING, 1))
    OPCODE('B', BINBYTES, push_text(m, VC_PICKLE_BYTES, 4))
    OPCODE('C', SHORT_BINBYTES, push_text(m, VC_PICKLE_BYTES, 1))
    OPCODE(0x8e, BINBYTES8, push_text(m, VC_PICKLE_BYTES, 8))
    OPCODE(0x96, BYTEARRAY8, push_bytearray(m))
    /* the memo */
    OPCODE('q', BINPUT, memo_number(m, 1, true))
    OPCODE('r', LONG_BINPUT, memo_number(m, 4, true))
    OPCODE('h', BINGET, memo_number(m, 1, false))
    OPCODE('j', LONG_BINGET, memo_number(m, 4, false))
    OPCODE(0x94, MEMOIZE, vc_pickle_set_memo(m, m->n_memo))
    /* containers */
    OPCODE(')', EMPTY_TUPLE, vc_pickle_push_tuple(m, 0))
    OPCODE('t', TUPLE, vc_pickle_tuple(m))
    OPCODE(0x85, TUPLE1, vc_pickle_push_tuple(m, 1))
    OPCODE(0x86, TUPLE2, vc_pickle_push_tuple(m, 2))
    OPCODE(0x87, TUPLE3, vc_pickle_push_tuple(m, 3))
    OPCODE(']', EMPTY_LIST, push_empty(m, VC_PICKLE_LIST))
    OPCODE('a', APPEND, vc_pickle_extend(m, 1, false, false))
    OPCODE('e', APPENDS, vc_pickle_extend_marked(m, false, false))
    OPCODE('}', EMPTY_DICT, push_empty(m, VC_PICKLE_DICT))
    OPCODE('s', SETITEM, vc_pickle_extend(m, 2, true, false))
    OPCODE('u', SETITEMS, vc_pickle_extend_marked(m, true, false))
    OPCODE(0x8f, EMPTY_SET, push_empty(m, VC_PICKLE_SET))
    OPCODE(0x90, ADDITEMS, vc_pickle_extend_marked(m, false, true))
    OPCODE(0x91, FROZENSET, vc_pickle_frozen_set(m))
    /* objects */
    OPCODE('c', GLOBAL, vc_pickle_push_global(m))
    OPCODE(0x93, STACK_GLOBAL, vc_pickle_stack_global(m))
    OPCODE('R', REDUCE, vc_pickle_call(m, 1))
    OPCODE(0x81, NEWOBJ, vc_pickle_call(m, 1))
    OPCODE(0x92, NEWOBJ_EX, vc_pickle_call(m, 2))
    OPCODE('b', BUILD, vc_pickle_build(m))
    OPCODE('Q', BINPERSID, vc_pickle_persistent(m))
#undef OPCODE
    default:
        return unknown(m, op);
    }
}
/* clang-format on */

/* Runs until STOP. Every 65,536 bytes it looks whether the user wants to stop. */
enum vc_status vc_pickle_parse(struct vc_ctx *ctx, const void *data, size_t n, struct vc_pickle *out, bool *cut)
{
    struct pickle_machine m = {.ctx = ctx, .out = out, .data = data, .n = n};
    enum vc_status status = VC_OK;

    memset(out, 0, sizeof *out);
    if (n > VC_PICKLE_MAX_BYTES) {
        VC_TRY(vc_fail(ctx, VC_E_UNSUPPORTED, "a pickle of %zu bytes; %zu are allowed", n, VC_PICKLE_MAX_BYTES));
    }
    while (!m.stopped) {
        const unsigned char *op = NULL;

        m.op_at = m.at;
        if (m.at == n) {
            m.cut = true;
            VC_TRY(vc_pickle_damaged(&m, n == 0 ? "is empty" : "ends without the opcode that ends it"));
        }
        if (m.at % 65536 == 0) {
            VC_TRY(vc_check_cancelled(ctx));
        }
        VC_TRY(vc_pickle_take(&m, 1, &op));
        if (m.op_at == 0 && *op != 0x80) {
            VC_TRY(vc_pickle_damaged(&m, "does not begin with its protocol"));
        }
        VC_TRY(step(&m, *op));
        out->n_opcodes++;
    }
out:
    if (cut != NULL) {
        *cut = m.cut && status == VC_E_FORMAT;
    }
    VC_FREE_ALL(ctx, m.stack, m.marks, m.memo);
    if (status != VC_OK) {
        vc_pickle_release(ctx, out);
    }
    return status;
}

void vc_pickle_release(struct vc_ctx *ctx, struct vc_pickle *pickle)
{
    vc_arena_release(ctx, &pickle->arena);
    memset(pickle, 0, sizeof *pickle);
}
