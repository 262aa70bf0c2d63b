/* torch_emit.c - see torch_emit.h.
 *
 * Opcodes of protocol 2, as torch.save writes them (pickletools of Python has the names):
 *
 *     K M J 0x8a   an int of 1, 2, 4 bytes, or LONG1      G   a float        X   a text of u32 bytes
 *     ( t ) 0x86   mark, tuple, empty tuple, tuple of 2   c   a global       R   a call
 *     q r / h j    into the memo / out of it              Q   a storage by its persistent id      0x88 0x89   True, False
 *
 * The text grows in e->to, whose status keeps a failure of memory. */
#include "formats/torch/torch_emit.h"

void vc_torch_emit_byte(struct torch_emit *e, unsigned op)
{
    const char c = (char)op;

    vc_text_add_bytes(e->to, &c, 1);
}

void vc_torch_emit_le32(struct torch_emit *e, uint32_t v)
{
    vc_text_add_le(e->to, v, 4);
}

void vc_torch_emit_string(struct torch_emit *e, const char *p, size_t n)
{
    vc_torch_emit_byte(e, 'X');
    vc_torch_emit_le32(e, (uint32_t)n); /* strings come from pickles and names: far below 2^32 */
    vc_text_add_bytes(e->to, p, n);
}

/* LONG1: little-endian two's complement, no byte more than needed. A byte goes where it is only the sign again. */
static void emit_long1(struct torch_emit *e, uint64_t bits, bool negative)
{
    unsigned char bytes[10];
    size_t n = 9;

    vc_put_le64(bytes, bits);
    bytes[8] = negative ? 0xff : 0;
    while (n > 1 && bytes[n - 1] == (negative ? 0xff : 0) && (bytes[n - 2] >> 7) == negative) {
        n--;
    }
    vc_torch_emit_byte(e, 0x8a);
    vc_torch_emit_byte(e, (unsigned)n);
    vc_text_add_bytes(e->to, (const char *)bytes, n);
}

/* The shortest opcode that holds the number, as Python chooses it. */
void vc_torch_emit_int(struct torch_emit *e, int64_t value)
{
    if (value >= 0 && value < 256) {
        vc_torch_emit_byte(e, 'K');
        vc_torch_emit_byte(e, (unsigned)value);
    } else if (value >= 0 && value < 65536) {
        vc_torch_emit_byte(e, 'M');
        vc_torch_emit_byte(e, (unsigned)value & 0xff);
        vc_torch_emit_byte(e, (unsigned)value >> 8);
    } else if (value >= INT32_MIN && value <= INT32_MAX) {
        vc_torch_emit_byte(e, 'J');
        vc_torch_emit_le32(e, (uint32_t)(int32_t)value);
    } else {
        emit_long1(e, (uint64_t)value, value < 0);
    }
}

/* Sizes above 2^63 - 1 need LONG1. */
static void emit_uint(struct torch_emit *e, uint64_t value)
{
    if (value <= INT64_MAX) {
        vc_torch_emit_int(e, (int64_t)value);
    } else {
        emit_long1(e, value, false);
    }
}

/* BINFLOAT is big-endian. */
void vc_torch_emit_float(struct torch_emit *e, double value)
{
    uint64_t bits;

    memcpy(&bits, &value, sizeof bits);
    vc_torch_emit_byte(e, 'G');
    for (int shift = 56; shift >= 0; shift -= 8) {
        vc_torch_emit_byte(e, (unsigned)(bits >> shift) & 0xff);
    }
}

/* A number of the source, whose bytes stay. */
void vc_torch_emit_long(struct torch_emit *e, const struct vc_pickle_bytes *bytes)
{
    vc_torch_emit_byte(e, 0x8a);
    vc_torch_emit_byte(e, (unsigned)bytes->n);
    vc_text_add_bytes(e->to, bytes->p, bytes->n);
}

void vc_torch_emit_global(struct torch_emit *e, const char *module, const char *name)
{
    vc_text_add(e->to, "c%s\n%s\n", module, name);
}

/* Protocol 2 has no bytes: encode(text, 'latin1'), the text having one character for each byte. */
void vc_torch_emit_bytes(struct torch_emit *e, const struct vc_pickle_bytes *bytes)
{
    size_t n = bytes->n;

    for (size_t i = 0; i < bytes->n; i++) {
        n += (unsigned char)bytes->p[i] >> 7;
    }
    vc_torch_emit_global(e, "_codecs", "encode");
    vc_torch_emit_byte(e, 'X');
    vc_torch_emit_le32(e, (uint32_t)n);
    for (size_t i = 0; i < bytes->n; i++) {
        unsigned c = (unsigned char)bytes->p[i];

        if (c >= 0x80) {
            vc_torch_emit_byte(e, 0xc0 | c >> 6);
            c = 0x80 | (c & 0x3f);
        }
        vc_torch_emit_byte(e, c);
    }
    vc_torch_emit_string(e, "latin1", 6);
    vc_torch_emit_byte(e, 0x86); /* TUPLE2 */
    vc_torch_emit_byte(e, 'R');
}

/* ---- names with a memo ---- */

/* BINGET or LONG_BINGET. */
void vc_torch_emit_get(struct torch_emit *e, unsigned slot)
{
    if (slot <= 256) {
        vc_torch_emit_byte(e, 'h');
        vc_torch_emit_byte(e, slot - 1);
    } else {
        vc_torch_emit_byte(e, 'j');
        vc_torch_emit_le32(e, slot - 1);
    }
}

/* BINPUT or LONG_BINPUT, into the next slot. Slots are counted from 1 on here, so that 0 means "not there". */
unsigned vc_torch_emit_put(struct torch_emit *e)
{
    if (e->n_memo < 256) {
        vc_torch_emit_byte(e, 'q');
        vc_torch_emit_byte(e, e->n_memo);
    } else {
        vc_torch_emit_byte(e, 'r');
        vc_torch_emit_le32(e, e->n_memo);
    }
    return ++e->n_memo;
}

/* True when the memo has it already; else the caller writes it and calls vc_torch_emit_put. slot 0: it is not there. */
static bool from_memo(struct torch_emit *e, unsigned slot)
{
    if (slot != 0) {
        vc_torch_emit_get(e, slot);
    }
    return slot != 0;
}

/* Words that every tensor needs: the first use writes them, all others are two bytes. */
static void emit_word(struct torch_emit *e, enum torch_word word)
{
    static const char *const globals[][2] = {
        [TORCH_WORD_ORDERED_DICT] = {"collections", "OrderedDict"},
        [TORCH_WORD_TENSOR_V2] = {"torch._utils", "_rebuild_tensor_v2"},
        [TORCH_WORD_TENSOR_V3] = {"torch._utils", "_rebuild_tensor_v3"},
        [TORCH_WORD_PARAMETER] = {"torch._utils", "_rebuild_parameter"},
        [TORCH_WORD_UNTYPED] = {"torch.storage", "UntypedStorage"},
    };

    if (from_memo(e, e->words[word])) {
        return;
    }
    if (word == TORCH_WORD_STORAGE) {
        vc_torch_emit_string(e, "storage", 7);
    } else if (word == TORCH_WORD_CPU) {
        vc_torch_emit_string(e, "cpu", 3);
    } else {
        vc_torch_emit_global(e, globals[word][0], globals[word][1]);
    }
    e->words[word] = vc_torch_emit_put(e);
}

/* OrderedDict(), without items. */
void vc_torch_emit_new_ordered_dict(struct torch_emit *e)
{
    emit_word(e, TORCH_WORD_ORDERED_DICT);
    vc_torch_emit_byte(e, ')');
    vc_torch_emit_byte(e, 'R');
}

/* ---- tensors ---- */

/* A name of the module torch, through the memo. */
static void emit_torch_name(struct torch_emit *e, const char *name, unsigned *slot)
{
    if (!from_memo(e, *slot)) {
        vc_torch_emit_global(e, "torch", name);
        *slot = vc_torch_emit_put(e);
    }
}

/* The persistent id of a storage: ('storage', class, key, 'cpu', elements). */
static void emit_storage(struct torch_emit *e, const struct vc_out_tensor *out, const struct torch_dtype *dtype,
                         size_t key)
{
    char text[VC_UINT_DIGITS];
    size_t n = vc_put_uint(text, key);
    bool untyped = vc_torch_is_untyped(dtype);

    vc_torch_emit_byte(e, '(');
    emit_word(e, TORCH_WORD_STORAGE);
    if (untyped) {
        emit_word(e, TORCH_WORD_UNTYPED);
    } else {
        emit_torch_name(e, dtype->storage, &e->storages[vc_torch_dtype_number(dtype)]);
    }
    vc_torch_emit_string(e, text, n);
    emit_word(e, TORCH_WORD_CPU);
    emit_uint(e, untyped ? out->size_bytes : out->size_bytes / dtype->item_bytes);
    vc_torch_emit_byte(e, 't');
    vc_torch_emit_byte(e, 'Q');
}

/* A tuple of numbers. */
static void emit_dims(struct torch_emit *e, unsigned n_dims, const uint64_t *dims)
{
    if (n_dims == 0) {
        vc_torch_emit_byte(e, ')');
        return;
    }
    vc_torch_emit_byte(e, '(');
    for (unsigned d = 0; d < n_dims; d++) {
        emit_uint(e, dims[d]);
    }
    vc_torch_emit_byte(e, 't');
}

/* The strides of C order; for tensors without elements any will do, and these are what PyTorch has. */
static void emit_strides(struct torch_emit *e, unsigned n_dims, const uint64_t *shape)
{
    uint64_t strides[VC_MAX_DIMS];
    uint64_t stride = 1;

    for (unsigned d = n_dims; d-- > 0;) {
        strides[d] = stride;
        stride *= shape[d] > 1 ? shape[d] : 1;
    }
    emit_dims(e, n_dims, strides);
}

/* torch._utils._rebuild_tensor_v2((storage), 0, sizes, strides, requires_grad, OrderedDict()), in _rebuild_parameter
 * where it was one. */
void vc_torch_emit_tensor(struct torch_emit *e, const struct vc_out_tensor *out, const struct torch_dtype *dtype,
                          size_t key, bool parameter, bool requires_grad)
{
    if (parameter) {
        emit_word(e, TORCH_WORD_PARAMETER);
        vc_torch_emit_byte(e, '(');
    }
    emit_word(e, vc_torch_is_untyped(dtype) ? TORCH_WORD_TENSOR_V3 : TORCH_WORD_TENSOR_V2);
    vc_torch_emit_byte(e, '(');
    emit_storage(e, out, dtype, key);
    vc_torch_emit_int(e, 0);
    emit_dims(e, out->n_dims, out->shape);
    emit_strides(e, out->n_dims, out->shape);
    vc_torch_emit_byte(e, requires_grad && !parameter ? 0x88 : 0x89);
    vc_torch_emit_new_ordered_dict(e);
    if (vc_torch_is_untyped(dtype)) {
        emit_torch_name(e, dtype->name, &e->dtypes[vc_torch_dtype_number(dtype)]);
    }
    vc_torch_emit_byte(e, 't');
    vc_torch_emit_byte(e, 'R');
    if (parameter) {
        vc_torch_emit_byte(e, requires_grad ? 0x88 : 0x89);
        vc_torch_emit_new_ordered_dict(e);
        vc_torch_emit_byte(e, 't');
        vc_torch_emit_byte(e, 'R');
    }
}
