/* torch_tensor.c - which calls of a pickle make a tensor, and the tensor they would make: storage, offset, sizes and
 * strides, all compared with each other.
 *
 *     torch._utils._rebuild_tensor_v2(storage, offset, sizes, strides, requires_grad, hooks[, metadata])
 *     torch._utils._rebuild_tensor_v3(..., dtype, metadata)          types without a storage class: float8, uint16
 *     torch._utils._rebuild_parameter(tensor, requires_grad, hooks)  around one of these
 *     torch._tensor._rebuild_from_type_v2(function, type, args, state)
 *
 * Called for every node of the tree by torch_tree.c. Calls are recognized by their exact names; what is not known stays
 * opaque, and what is known to be no plain tensor (sparse, quantized) is refused with what to do. */

#include "formats/torch/torch.h"

#define UTILS "torch._utils"

/* A view that repeats its elements may be this much larger than what it shows ... */
#define MAX_REPEATS ((uint64_t)1024)
/* ... unless it is small all the same. */
#define FREE_ELEMS ((uint64_t)65536)

/* ---- small parts ---- */

/* A whole number from 0 on. */
static bool take_count(const struct vc_pickle_node *node, uint64_t *out)
{
    if (node == NULL || node->kind != VC_PICKLE_INT || node->u.integer < 0) {
        return false;
    }
    *out = (uint64_t)node->u.integer;
    return true;
}

static bool is_true(const struct vc_pickle_node *node)
{
    return node != NULL && node->kind == VC_PICKLE_BOOL && node->u.integer != 0;
}

/* ---- the storage ---- */

/* Where PyTorch has had its storage classes. */
static bool is_storage_module(const struct vc_pickle_bytes *module)
{
    return vc_pickle_bytes_are(module, "torch") || vc_pickle_bytes_are(module, "torch.cuda") ||
           vc_pickle_bytes_are(module, "torch.storage");
}

/* The class of a storage, torch.FloatStorage; dtype becomes NULL for storages of bytes. */
static enum vc_status parse_class(struct vc_ctx *ctx, const struct vc_pickle_node *node, struct torch_storage_id *out)
{
    char name[256];

    if (node != NULL && node->kind == VC_PICKLE_GLOBAL && is_storage_module(&node->u.global.module)) {
        if (vc_pickle_bytes_are(&node->u.global.name, "UntypedStorage") ||
            vc_pickle_bytes_are(&node->u.global.name, "_UntypedStorage")) {
            out->dtype = NULL;
            return VC_OK;
        }
        out->dtype = vc_torch_dtype_by_storage(&node->u.global.name);
        if (out->dtype != NULL) {
            return VC_OK;
        }
    }
    return vc_fail(ctx, VC_E_UNSUPPORTED, "its storage is of the class %s, which is not known",
                   node == NULL ? "?" : vc_torch_class_name(node, name, sizeof name));
}

/* Legacy files: a storage may be a part of another one: (key of the view, offset, size). */
static enum vc_status parse_view(struct vc_ctx *ctx, const struct vc_pickle_node *view, struct torch_storage_id *out)
{
    uint64_t offset, size, end;

    if (view == NULL || view->kind == VC_PICKLE_NONE) {
        return VC_OK;
    }
    VC_REFUSE_IF(view->kind != VC_PICKLE_TUPLE || view->n_items != 3 || !take_count(vc_pickle_item(view, 1), &offset) ||
                     !take_count(vc_pickle_item(view, 2), &size) || !vc_add_u64(offset, size, &end) || end > out->numel,
                 ctx, VC_E_FORMAT, "its storage is no part of the one that it is a view of");
    out->view_offset = offset;
    return VC_OK;
}

/* Keys become names of members, so they must not have a '/' or a NUL in them. */
enum vc_status vc_torch_storage_parse(struct vc_ctx *ctx, const struct vc_pickle_node *node,
                                      struct torch_storage_id *out)
{
    struct vc_pickle_node *id = node != NULL && node->kind == VC_PICKLE_PERSID ? node->u.persid.id : NULL;

    memset(out, 0, sizeof *out);
    VC_REFUSE_IF(id == NULL || id->kind != VC_PICKLE_TUPLE || (id->n_items != 5 && id->n_items != 6) ||
                     !vc_pickle_is_string(vc_pickle_item(id, 0), "storage"),
                 ctx, VC_E_FORMAT, "its storage is no ('storage', class, key, location, size)");
    VC_CALL(parse_class(ctx, vc_pickle_item(id, 1), out));
    const struct vc_pickle_node *key = vc_pickle_item(id, 2);
    VC_REFUSE_IF(key->kind != VC_PICKLE_STRING || key->u.text.n == 0 || key->u.text.n > 1000 ||
                     memchr(key->u.text.p, '/', key->u.text.n) != NULL ||
                     memchr(key->u.text.p, '\0', key->u.text.n) != NULL,
                 ctx, VC_E_FORMAT, "the key of its storage is no plain name");
    VC_REFUSE_IF(!take_count(vc_pickle_item(id, 4), &out->numel), ctx, VC_E_FORMAT,
                 "the size of its storage is no number from 0 on");
    VC_CALL(parse_view(ctx, vc_pickle_item(id, 5), out));
    out->id = id;
    return VC_OK;
}

/* ---- the tensor ---- */

/* Sizes or strides; torch.Size((3, 4)) is as good as (3, 4). what: "sizes" or "strides", for the sentence. */
static enum vc_status parse_dims(struct vc_ctx *ctx, struct torch_keep *keep, const struct vc_pickle_node *node,
                                 const char *what, unsigned *n_dims, const uint64_t **out)
{
    uint64_t dims[VC_MAX_DIMS];

    if (vc_pickle_is_call(node, "torch", "Size")) {
        node = vc_pickle_item(node->u.call.args, 0);
    }
    VC_REFUSE_IF(node == NULL || (node->kind != VC_PICKLE_TUPLE && node->kind != VC_PICKLE_LIST), ctx, VC_E_FORMAT,
                 "its %s are no tuple", what);
    VC_REFUSE_IF(node->n_items > VC_MAX_DIMS, ctx, VC_E_UNSUPPORTED, "has %u dimensions; %d are allowed", node->n_items,
                 VC_MAX_DIMS);
    struct vc_pickle_iter iter = vc_pickle_iterate(node);
    for (size_t i = 0; i < node->n_items; i++) {
        VC_REFUSE_IF(!take_count(vc_pickle_next(&iter), &dims[i]), ctx, VC_E_FORMAT,
                     "its %s are no whole numbers from 0 on", what);
    }
    *n_dims = (unsigned)node->n_items;
    *out = vc_shapes_keep(ctx, &keep->arena, &keep->shapes, dims, node->n_items);
    return *out != NULL ? VC_OK : VC_E_NOMEM;
}

/* Counts the elements, finds out whether they lie in C order (`gather`), and that the last one is inside the storage of
 * `room` elements. A view made by expand() may repeat its elements, but not without limit: a file of some bytes must
 * not become an output of gigabytes. [2, 3] with strides [1, 2] at offset 4: the last element is 4 + 1 * 1 + 2 * 2 = 9,
 * so the storage needs 10. */
static enum vc_status check_bounds(struct vc_ctx *ctx, struct torch_tensor *t, uint64_t room)
{
    uint64_t last = t->offset;
    uint64_t expected = 1; /* stride of C order */
    uint64_t bytes;
    bool fits = true;

    t->n_elems = 1;
    for (unsigned d = 0; d < t->n_dims; d++) {
        VC_REFUSE_IF(!vc_mul_u64(t->n_elems, t->shape[d], &t->n_elems), ctx, VC_E_FORMAT,
                     "its shape has more than 2^64 elements");
    }
    VC_REFUSE_IF(!vc_mul_u64(t->n_elems, t->dtype->item_bytes, &bytes) || bytes > INT64_MAX, ctx, VC_E_FORMAT,
                 "its shape needs more than 2^63 bytes");
    if (t->n_elems == 0) {
        return VC_OK;
    }
    for (unsigned d = t->n_dims; d-- > 0;) {
        uint64_t reach;

        if (t->shape[d] == 1) {
            continue;
        }
        fits = fits && vc_mul_u64(t->shape[d] - 1, t->strides[d], &reach) && vc_add_u64(last, reach, &last);
        t->gather |= t->strides[d] != expected;
        expected *= t->shape[d];
    }
    VC_REFUSE_IF(!fits || last >= room, ctx, VC_E_FORMAT,
                 "reaches beyond its storage of %" PRIu64 " elements (offset %" PRIu64 ")", room, t->offset);
    VC_REFUSE_IF(t->n_elems > FREE_ELEMS && t->n_elems / MAX_REPEATS > room, ctx, VC_E_UNSUPPORTED,
                 "repeats a storage of %" PRIu64 " elements until they are %" PRIu64 "; save it without expand()", room,
                 t->n_elems);
    return VC_OK;
}

/* (storage, offset, size, stride, requires_grad, ...), with elements of the storage's type or of `dtype`. A storage of
 * another type than the elements is measured in bytes. */
static enum vc_status parse_plain(struct vc_ctx *ctx, struct torch_keep *keep, const struct vc_pickle_node *args,
                                  const struct torch_dtype *dtype, struct torch_tensor *out)
{
    struct torch_storage_id storage;
    uint64_t bytes;
    unsigned n_strides = 0;

    VC_REFUSE_IF(args->n_items < 4, ctx, VC_E_FORMAT, "is made from %u arguments, expected 4 or more", args->n_items);
    VC_CALL(vc_torch_storage_parse(ctx, vc_pickle_item(args, 0), &storage));
    out->id = storage.id;
    out->dtype = dtype != NULL ? dtype : storage.dtype;
    VC_REFUSE_IF(out->dtype == NULL, ctx, VC_E_FORMAT,
                 "its storage is untyped, and nothing tells the type of its elements");
    VC_REFUSE_IF(!take_count(vc_pickle_item(args, 1), &out->offset) ||
                     !vc_add_u64(out->offset, storage.view_offset, &out->offset),
                 ctx, VC_E_FORMAT, "its offset is no number from 0 on");
    VC_CALL(parse_dims(ctx, keep, vc_pickle_item(args, 2), "sizes", &out->n_dims, &out->shape));
    VC_CALL(parse_dims(ctx, keep, vc_pickle_item(args, 3), "strides", &n_strides, &out->strides));
    VC_REFUSE_IF(n_strides != out->n_dims, ctx, VC_E_FORMAT, "has %u sizes, but %u strides", out->n_dims, n_strides);
    VC_REFUSE_IF(!vc_mul_u64(storage.numel, storage.dtype == NULL ? 1 : storage.dtype->item_bytes, &bytes), ctx,
                 VC_E_FORMAT, "its storage has more than 2^64 bytes");
    out->requires_grad = is_true(vc_pickle_item(args, 4));
    return check_bounds(ctx, out, bytes / out->dtype->item_bytes);
}

/* As parse_plain; the element type is argument 6, torch.float8_e4m3fn. */
static enum vc_status parse_v3(struct vc_ctx *ctx, struct torch_keep *keep, const struct vc_pickle_node *args,
                               struct torch_tensor *out, const char **refusal)
{
    const struct vc_pickle_node *global = vc_pickle_item(args, 6);
    const struct torch_dtype *dtype = NULL;
    char name[256];

    if (global != NULL && global->kind == VC_PICKLE_GLOBAL && vc_pickle_bytes_are(&global->u.global.module, "torch")) {
        dtype = vc_torch_dtype_by_name(&global->u.global.name);
    }
    VC_REFUSE_IF(global == NULL || global->kind != VC_PICKLE_GLOBAL, ctx, VC_E_FORMAT,
                 "nothing tells the type of its elements");
    if (dtype == NULL) {
        *refusal = vc_arena_printf(ctx, &keep->arena, "has elements of the type %s, which is not known",
                                   vc_torch_class_name(global, name, sizeof name));
        return *refusal == NULL ? VC_E_NOMEM : VC_OK;
    }
    return parse_plain(ctx, keep, args, dtype, out);
}

/* Functions of torch._utils whose tensors are not plain, with the reason; NULL for other functions. */
static const char *refused_function(const struct vc_pickle_bytes *name)
{
    static const struct {
        const char *name, *why;
    } refused[] = {
        {"_rebuild_qtensor", "is quantized by PyTorch, with scales of its own; dequantize() it first"},
        {"_rebuild_sparse_tensor", "is a sparse tensor; to_dense() it first"},
        {"_rebuild_sparse_csr_tensor", "is a sparse tensor; to_dense() it first"},
        {"_rebuild_nested_tensor", "is a nested tensor"},
        {"_rebuild_meta_tensor_no_storage", "is on the meta device: the file has no data for it"},
        {"_rebuild_device_tensor_from_numpy", "is a device tensor inside a NumPy array"},
        {"_rebuild_device_tensor_from_cpu_tensor", "is a tensor of a special device"},
        {"_rebuild_wrapper_subclass", "is a wrapper of other tensors"},
    };

    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        if (vc_pickle_bytes_are(name, refused[i].name)) {
            return refused[i].why;
        }
    }
    return NULL;
}

static bool starts_with(const struct vc_pickle_bytes *bytes, const char *prefix)
{
    return bytes->n >= strlen(prefix) && memcmp(bytes->p, prefix, strlen(prefix)) == 0;
}

/* A function of that family which is newer than this program. */
static enum vc_status refuse_unknown(struct vc_ctx *ctx, struct torch_keep *keep, const struct vc_pickle_node *function,
                                     const char **refusal)
{
    char name[256];

    *refusal = vc_arena_printf(ctx, &keep->arena, "is made by %s, which is not known",
                               vc_torch_class_name(function, name, sizeof name));
    return *refusal == NULL ? VC_E_NOMEM : VC_OK;
}

/* What PyTorch notes of a lazy view, whose elements are not those of its storage; NULL: they are. */
static const char *lazy_view(const struct vc_pickle_node *metadata)
{
    if (metadata == NULL || !vc_pickle_is_mapping(metadata)) {
        return NULL;
    }
    return is_true(vc_torch_dict_get(metadata, "conj"))  ? "is a conjugated view; resolve_conj() it first"
           : is_true(vc_torch_dict_get(metadata, "neg")) ? "is a negated view; resolve_neg() it first"
                                                         : NULL;
}

/* function(args), where the function is one of torch._utils. */
static enum vc_status parse_utils(struct vc_ctx *ctx, struct torch_keep *keep, const struct vc_pickle_node *function,
                                  const struct vc_pickle_node *args, struct torch_tensor *out, enum torch_kind *kind,
                                  const char **refusal)
{
    const struct vc_pickle_bytes *name = &function->u.global.name;

    *kind = TORCH_TENSOR;
    if (vc_pickle_bytes_are(name, "_rebuild_tensor") || vc_pickle_bytes_are(name, "_rebuild_tensor_v2")) {
        *refusal = lazy_view(vc_pickle_item(args, 6));
        return parse_plain(ctx, keep, args, NULL, out);
    }
    if (vc_pickle_bytes_are(name, "_rebuild_tensor_v3")) {
        *refusal = lazy_view(vc_pickle_item(args, 7));
        return parse_v3(ctx, keep, args, out, refusal);
    }
    *refusal = refused_function(name);
    VC_RETURN_IF(*refusal == NULL && starts_with(name, "_rebuild_"), refuse_unknown(ctx, keep, function, refusal));
    if (*refusal == NULL) {
        *kind = TORCH_NOTHING;
    }
    return VC_OK;
}

/* A function of torch._utils, where all that make plain tensors are. */
static bool is_utils(const struct vc_pickle_node *function)
{
    return function != NULL && function->kind == VC_PICKLE_GLOBAL &&
           vc_pickle_bytes_are(&function->u.global.module, UTILS);
}

/* Takes wrappers off: parameters, and tensors with a Python class. *function and *args are of what is inside. Four
 * levels are more than PyTorch writes. */
static void unwrap(const struct vc_pickle_node *node, const struct vc_pickle_node **function,
                   const struct vc_pickle_node **args, struct torch_tensor *out)
{
    for (unsigned depth = 0; depth < 4 && node != NULL && node->kind == VC_PICKLE_CALL; depth++) {
        *function = node->u.call.function;
        *args = node->u.call.args;
        if (vc_pickle_is_global(*function, "torch._tensor", "_rebuild_from_type_v2") ||
            vc_pickle_is_global(*function, "torch._tensor", "_rebuild_from_type")) {
            const struct vc_pickle_node *inner = vc_pickle_item(*args, 2);

            *function = vc_pickle_item(*args, 0);
            *args = inner;
        }
        if (!vc_pickle_is_global(*function, UTILS, "_rebuild_parameter") &&
            !vc_pickle_is_global(*function, UTILS, "_rebuild_parameter_with_state")) {
            return;
        }
        out->parameter = true;
        node = *args != NULL && (*args)->kind == VC_PICKLE_TUPLE ? vc_pickle_item(*args, 0) : NULL;
        out->requires_grad = *args != NULL && is_true(vc_pickle_item(*args, 1));
        *function = NULL;
    }
}

/* Recognizes the call, then reads its arguments. *kind says whether it is one; *refusal why a tensor cannot be read. */
enum vc_status vc_torch_tensor_parse(struct vc_ctx *ctx, struct torch_keep *keep, const struct vc_pickle_node *node,
                                     struct torch_tensor *out, enum torch_kind *kind, const char **refusal)
{
    const struct vc_pickle_node *function = NULL;
    const struct vc_pickle_node *args = NULL;
    bool requires_grad;

    memset(out, 0, sizeof *out);
    *kind = TORCH_NOTHING;
    *refusal = NULL;
    if (node->kind == VC_PICKLE_PERSID) {
        *kind = TORCH_REFUSED;
        *refusal = "is a bare storage, no tensor";
        return VC_OK;
    }
    if (node->kind != VC_PICKLE_CALL) {
        return VC_OK;
    }
    unwrap(node, &function, &args, out);
    requires_grad = out->requires_grad;
    if (!is_utils(function)) {
        if (out->parameter) {
            *kind = TORCH_REFUSED;
            *refusal = "is a parameter around something that is no plain tensor";
        }
        return VC_OK;
    }
    VC_REFUSE_IF(args == NULL || args->kind != VC_PICKLE_TUPLE, ctx, VC_E_FORMAT,
                 "the arguments that make it are no tuple");
    VC_CALL(parse_utils(ctx, keep, function, args, out, kind, refusal));
    if (*kind == TORCH_TENSOR && *refusal == NULL && out->dtype->quantized) {
        *refusal = "is quantized by PyTorch, with scales of its own; dequantize() it first";
    }
    if (*refusal != NULL) {
        *kind = TORCH_REFUSED;
    }
    out->requires_grad |= requires_grad;
    return VC_OK;
}
