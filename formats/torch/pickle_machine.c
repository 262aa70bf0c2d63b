/* pickle_machine.c - the parts that the opcodes of pickle.c are made from: reading arguments, the stack with its marks,
 * the memo. Every count is compared with what is there before anything is allocated for it. */
#include "formats/torch/pickle_machine.h"
#include "core/text/text.h"

#include "core/base/array.h"

/* ---- reading ---- */

enum vc_status vc_pickle_damaged(struct pickle_machine *m, const char *what)
{
    return vc_fail(m->ctx, VC_E_FORMAT, "pickle, byte %zu: %s", m->op_at, what);
}

/* `cut` tells the reader of legacy files that a longer window may help. */
enum vc_status vc_pickle_take(struct pickle_machine *m, size_t n, const unsigned char **p)
{
    if (n > m->n - m->at) {
        m->cut = true;
        return vc_fail(m->ctx, VC_E_FORMAT,
                       "pickle, byte %zu: ends inside an opcode that needs %zu bytes; %zu are left", m->op_at, n,
                       m->n - m->at);
    }
    *p = m->data + m->at;
    m->at += n;
    return VC_OK;
}

/* A length of 1, 4 or 8 bytes, then that many bytes. */
enum vc_status vc_pickle_take_counted(struct pickle_machine *m, size_t width, struct vc_pickle_bytes *out)
{
    const unsigned char *p = NULL;

    VC_CALL(vc_pickle_take(m, width, &p));
    uint64_t n = width == 1 ? p[0] : width == 4 ? vc_le32(p) : vc_le64(p);
    VC_REFUSE_IF(n > VC_PICKLE_MAX_BYTES, m->ctx, VC_E_FORMAT,
                 "pickle, byte %zu: a string of %" PRIu64 " bytes, %zu are left", m->op_at, n, m->n - m->at);
    VC_CALL(vc_pickle_take(m, (size_t)n, &p));
    *out = (struct vc_pickle_bytes){(const char *)p, (size_t)n};
    return VC_OK;
}

/* Names are short, so the newline has to come soon: a damaged file cannot make this search all of it. */
enum vc_status vc_pickle_take_line(struct pickle_machine *m, struct vc_pickle_bytes *out)
{
    size_t left = m->n - m->at;
    size_t most = left < VC_PICKLE_MAX_GLOBAL + 1 ? left : VC_PICKLE_MAX_GLOBAL + 1;
    const unsigned char *p = m->data + m->at;
    const unsigned char *end = memchr(p, '\n', most);

    if (end == NULL) {
        m->cut = most == left;
        return vc_pickle_damaged(m, most == left ? "ends inside the name of a global"
                                                 : "the name of a global is too long");
    }
    *out = (struct vc_pickle_bytes){(const char *)p, (size_t)(end - p)};
    m->at += out->n + 1;
    return VC_OK;
}

/* ---- stack and memo ---- */

enum vc_status vc_pickle_push(struct pickle_machine *m, struct vc_pickle_node *node)
{
    if (m->depth == VC_PICKLE_MAX_STACK) {
        return vc_pickle_damaged(m, "more than 16777216 values on the stack");
    }
    VC_CALL(VC_GROW(m->ctx, VC_TAG_IO, m->stack, m->stack_capacity, m->depth + 1));
    m->stack[m->depth++] = node;
    return VC_OK;
}

/* Values above the last mark, of which there must be at least n. */
enum vc_status vc_pickle_need(struct pickle_machine *m, size_t n)
{
    size_t floor = m->n_marks == 0 ? 0 : m->marks[m->n_marks - 1];

    return m->depth - floor < n ? vc_pickle_damaged(m, "an opcode finds too few values on the stack") : VC_OK;
}

/* Remembers the depth: what comes above it belongs to the next tuple, list or dict. */
enum vc_status vc_pickle_push_mark(struct pickle_machine *m)
{
    if (m->n_marks == VC_PICKLE_MAX_MARKS) {
        return vc_pickle_damaged(m, "more than 65536 marks are open");
    }
    VC_CALL(VC_GROW(m->ctx, VC_TAG_IO, m->marks, m->marks_capacity, m->n_marks + 1));
    m->marks[m->n_marks++] = m->depth;
    return VC_OK;
}

/* Takes the last mark away; *n values were above it, which stay on the stack for now. */
enum vc_status vc_pickle_pop_mark(struct pickle_machine *m, size_t *n)
{
    if (m->n_marks == 0) {
        return vc_pickle_damaged(m, "an opcode finds no mark");
    }
    *n = m->depth - m->marks[--m->n_marks];
    return VC_OK;
}

/* Slots are numbered by the pickle, one after the other as they are set; a tool may have taken some away. None can be
 * above the number of bytes before it, since each was set by an opcode. */
enum vc_status vc_pickle_set_memo(struct pickle_machine *m, uint64_t slot)
{
    VC_CALL(vc_pickle_need(m, 1));
    VC_REFUSE_IF(slot >= m->at, m->ctx, VC_E_FORMAT, "pickle, byte %zu: memo slot %" PRIu64 " behind %zu bytes",
                 m->op_at, slot, m->at);
    VC_CALL(VC_GROW(m->ctx, VC_TAG_IO, m->memo, m->memo_capacity, (size_t)slot + 1));
    m->n_memo += m->memo[slot] == NULL;
    m->memo[slot] = m->stack[m->depth - 1];
    return VC_OK;
}

enum vc_status vc_pickle_get_memo(struct pickle_machine *m, uint64_t slot)
{
    VC_REFUSE_IF(slot >= m->memo_capacity || m->memo[slot] == NULL, m->ctx, VC_E_FORMAT,
                 "pickle, byte %zu: memo slot %" PRIu64 " was never set", m->op_at, slot);
    vc_pickle_share(m, m->memo[slot]);
    return vc_pickle_push(m, m->memo[slot]);
}

/* Looked at once, since a text of some bytes may be in a million places. */
void vc_pickle_share(struct pickle_machine *m, struct vc_pickle_node *node)
{
    if (!node->shared) {
        node->shared = true;
        node->utf8 = node->kind == VC_PICKLE_STRING && vc_utf8_valid(node->u.text.p, node->u.text.n);
        m->out->n_shared++;
    }
}
