"""live_tensors.py - counts the tensors that are alive while PyTorch runs a model as it would on a GPU, without one and without data.

Models and inputs are on the device "meta": operators give tensors that have a size and no values, so that a model of any size is counted in seconds.
`Count` (a TorchDispatchMode) sees each operator's results; a storage counts with its bytes from the operator that makes it until Python or autograd lets go of it.

What PyTorch chooses on a GPU and not on "meta" is put back by `gpu_choices()`: the kernels of scaled_dot_product_attention, softmax of half
precision with a result of f32 in one operator, dropout with a mask of one byte, cuDNN's recurrent layers, and autocast by the lists of operators of PyTorch's documentation
("CUDA Ops that can autocast to float16/float32")."""
import contextlib
import unittest.mock
import weakref

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

F = torch.nn.functional
aten = torch.ops.aten
HALVES = (torch.float16, torch.bfloat16)


class Count(TorchDispatchMode):
    """now, peak: bytes of the storages that are alive, without those that `reset` was told to leave out."""

    def __init__(self):
        super().__init__()
        self.alive = {}
        self.now = self.peak = 0

    def add(self, tensor):
        storage = tensor.untyped_storage()
        key = storage._cdata
        if tensor.device.type != "meta" or key in self.alive:
            return
        size = storage.nbytes()
        self.alive[key] = (weakref.ref(storage, lambda _, key=key: self.gone(key)), size)
        self.now += size
        self.peak = max(self.peak, self.now)

    def gone(self, key):
        _, size = self.alive.pop(key)
        self.now -= size

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func is aten._local_scalar_dense.default and args[0].is_meta:
            return True  # a mask without padding: all of it is to be seen
        out = func(*args, **(kwargs or {}))
        for tensor in tree_leaves(out):
            if isinstance(tensor, torch.Tensor):
                self.add(tensor)
        return out


# ---- what a GPU would choose ----

def attention(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False):
    """scaled_dot_product_attention on a GPU: flash attention where there is no mask and half precision, else the memory-efficient
    kernel, else (keys of several heads in f32, numbers by position that T5 has in another order) operators."""
    if Autocast.now is not None:
        query, key, value, attn_mask = (Autocast.now.half(t) for t in (query, key, value, attn_mask))
    plain = query.shape[-1] == key.shape[-1] == value.shape[-1] and query.shape[-1] <= 256
    if isinstance(attn_mask, torch.Tensor) and attn_mask.dtype == torch.bool:
        attn_mask = torch.zeros(attn_mask.shape, dtype=query.dtype, device=query.device).masked_fill_(attn_mask.logical_not(), float("-inf"))
    if query.dtype in HALVES and attn_mask is None and plain:
        wide = -(-query.shape[-1] // 8) * 8 - query.shape[-1]
        if wide:
            query, key, value = (F.pad(t, (0, wide)) for t in (query, key, value))
        out = aten._scaled_dot_product_flash_attention(query, key, value, dropout_p, is_causal, False, scale=scale)[0]
        return out[..., :out.shape[-1] - wide] if wide else out
    if query.shape[1] == key.shape[1] and (attn_mask is None or attn_mask.stride(-1) == 1):
        if attn_mask is not None:
            wide = -(-attn_mask.shape[-1] // 16) * 16 - attn_mask.shape[-1]
            if wide:
                attn_mask = F.pad(attn_mask, (0, wide))[..., :attn_mask.shape[-1]]
            attn_mask = attn_mask.expand(query.shape[0], query.shape[1], query.shape[2], key.shape[2])
        kept = torch.is_grad_enabled() and any(t.requires_grad for t in (query, key, value))
        return aten._scaled_dot_product_efficient_attention(query, key, value, attn_mask, kept, dropout_p, is_causal, scale=scale)[0]
    return aten._scaled_dot_product_attention_math(query, key, value, attn_mask, dropout_p, is_causal, None, scale=scale, enable_gqa=enable_gqa)[0]


def dropout(x, p=0.5, training=True, inplace=False):
    return torch.native_dropout(x, p, True)[0] if training and p > 0 else x


def softmax_of(plain):
    def softmax(x, dim=None, *args, dtype=None, **rest):
        if dtype == torch.float32 and x.dtype == torch.float16:  # bf16 is copied first, as everywhere
            return aten._softmax(x, dim % x.dim(), True)
        return plain(x, dim, dtype=dtype) if dtype is not None else plain(x, dim)
    return softmax


class Recurrent(torch.autograd.Function):
    """torch._cudnn_rnn and its backward step, with their tensors as ATen/native/cudnn/RNN.cpp makes them. The reserve space is what cuDNN 9.19 asks for
    on an H200 (670 modules of all kinds, to some hundred bytes): of each step, row and hidden unit of a layer 5 numbers of LSTM, 6 of GRU, 1 of RNN, and
    between layers one more."""

    @staticmethod
    def forward(x, states, reserve, layers, directions, *weights):
        rows, steps, _ = x.shape
        beside = x.transpose(0, 1).contiguous()
        y = x.new_empty(steps, rows, directions * weights[1].shape[1])
        last = tuple(torch.empty_like(s) for s in states)
        del beside
        return (y.transpose(0, 1), x.new_empty((reserve * layers + layers - 1) * y.numel() if reserve else 0)) + last

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, states, _, _, _, *weights = inputs
        ctx.save_for_backward(x, output[0], output[1], *states, *weights)
        ctx.n = len(states)
        ctx.mark_non_differentiable(output[1])
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx, dy, *rest):
        x, y, _, *others = ctx.saved_tensors
        states, weights = others[:ctx.n], others[ctx.n:]
        dy = torch.zeros_like(y) if dy is None else dy
        beside = dy.transpose(0, 1).contiguous()
        dx = torch.empty_like(x)
        around = [torch.zeros_like(s) for s in states] + [torch.empty_like(s) for s in states]  # of the last, and of the first
        del beside
        beside = x.transpose(0, 1).contiguous()
        dw = x.new_empty(sum(w.numel() for w in weights)).split([w.numel() for w in weights])
        del around, beside
        return (dx, None, None, None, None, *(d.view(w.shape) for d, w in zip(dw, weights)))


def recurrent(reserve, plain):
    def run(x, first, weights, bias, layers, dropout, train, both, batch_first):
        states = first if isinstance(first, tuple) else (first,)
        if states[0].shape[-1] != states[-1].shape[-1]:  # projections: PyTorch's own operators
            return plain(x, first, weights, bias, layers, dropout, train, both, batch_first)
        if Autocast.now is not None:  # all weights as one tensor
            x, states = Autocast.now.half(x), tuple(Autocast.now.half(s) for s in states)
            weights = [Autocast.now.half(w) for w in weights]
        x = x if batch_first else x.transpose(0, 1)
        y, _, *last = Recurrent.apply(x, states, reserve * train, layers, 1 + both, *weights)
        return (y if batch_first else y.transpose(0, 1), *last)
    return run


class Autocast(TorchFunctionMode):
    """torch.autocast("cuda", torch.bfloat16) of tensors without data."""
    HALF = {"linear", "matmul", "mm", "bmm", "addmm", "addbmm", "baddbmm", "addmv", "mv", "einsum", "conv1d", "conv2d", "conv3d", "conv_transpose1d",
            "conv_transpose2d", "conv_transpose3d", "prelu", "chain_matmul", "scaled_dot_product_attention", "attention", "__matmul__", "__rmatmul__",
            "grouped_mm", "_grouped_mm"}
    SINGLE = {"exp", "expm1", "log", "log10", "log2", "log1p", "pow", "__pow__", "__rpow__", "reciprocal", "rsqrt", "acos", "asin", "cosh", "sinh", "tan",
              "softplus", "layer_norm", "group_norm", "cosine_similarity", "nll_loss", "cross_entropy", "kl_div", "l1_loss", "smooth_l1_loss", "mse_loss",
              "norm", "softmax", "log_softmax", "cumsum", "cumprod", "prod", "sum", "dist", "cdist", "softmin", "upsample", "interpolate",
              "binary_cross_entropy_with_logits"}
    WIDEST = {"cat", "stack", "addcdiv", "addcmul", "atan2", "bilinear", "cross", "dot", "index_put", "scatter_add", "tensordot"}

    now = None  # the one that is entered

    def __init__(self):
        super().__init__()
        self.copies = {}

    def __enter__(self):
        Autocast.now = self
        return super().__enter__()

    def __exit__(self, *what):
        Autocast.now = None
        return super().__exit__(*what)

    def half(self, x):
        if not isinstance(x, torch.Tensor) or x.dtype != torch.float32:
            return x
        if x.is_leaf and x.requires_grad:
            if id(x) not in self.copies:
                self.copies[id(x)] = x.to(torch.bfloat16)
            return self.copies[id(x)]
        return x.to(torch.bfloat16)

    def __torch_function__(self, func, types, args=(), kwargs=None):
        name, kwargs = getattr(func, "__name__", ""), kwargs or {}
        cast = None
        if name in self.HALF:
            cast = self.half
        elif name in self.SINGLE:
            cast = lambda x: x.float() if isinstance(x, torch.Tensor) and x.dtype in HALVES else x
        elif name in self.WIDEST:
            if any(isinstance(x, torch.Tensor) and x.dtype == torch.float32 for x in tree_leaves((args, kwargs))):
                cast = lambda x: x.float() if isinstance(x, torch.Tensor) and x.dtype in HALVES else x
        if cast is None:
            return func(*args, **kwargs)
        args, kwargs = tree_map(cast, (args, kwargs))
        with torch._C.DisableTorchFunction():
            return func(*args, **kwargs)


@contextlib.contextmanager
def gpu_choices():
    with contextlib.ExitStack() as stack:
        for owner, name, new in ((F, "scaled_dot_product_attention", attention), (F, "dropout", dropout),
                                 (F, "softmax", softmax_of(F.softmax)), (torch, "softmax", softmax_of(torch.softmax)),
                                 *((torch._VF, name, recurrent(n, getattr(torch._VF, name))) for name, n in (("lstm", 5), ("gru", 6), ("rnn_tanh", 1), ("rnn_relu", 1)))):
            stack.enter_context(unittest.mock.patch.object(owner, name, new))
        yield


# ---- runs ----

def inference(net, run, given):
    """The most that is alive beside the weights, with the inputs: run() calls the model."""
    net.eval()
    mode = Count()
    own = list(net.parameters()) + list(net.buffers())
    for tensor in own:
        mode.add(tensor)
    base = mode.now
    for tensor in given:
        mode.add(tensor)
    with torch.no_grad(), gpu_choices(), mode:
        out = run()
    del out
    return mode.peak, base


def continuation(net, batch, before, words):
    """The most that is alive beside the weights, with cache and inputs, while a model continues a text of `before` words that was read at once."""
    net.eval()
    mode = Count()
    for tensor in list(net.parameters()) + list(net.buffers()):
        mode.add(tensor)
    base = mode.now
    with torch.no_grad(), gpu_choices(), mode:
        cache = net(input_ids=torch.zeros(batch, before, dtype=torch.long, device="meta"), use_cache=True, logits_to_keep=1).past_key_values
        ids = torch.zeros(batch, words, dtype=torch.long, device="meta")
        mode.peak = mode.now
        net(input_ids=ids, past_key_values=cache, use_cache=True)
    return mode.peak - base


def training(net, run, given, optimizer, autocast=False, keep=True, steps=3):
    """The most that is alive in the last of some steps, all of it; `keep`: gradients are set to zero and not let go of (as between the parts of a
    batch). run() gives the loss."""
    net.train()
    mode = Count()
    for tensor in list(net.parameters()) + list(net.buffers()) + list(given):
        mode.add(tensor)
    after = {}
    with gpu_choices(), mode:
        for step in range(steps):
            mode.peak = mode.now
            if optimizer is not None:
                optimizer.zero_grad(set_to_none=not keep)
            scope = Autocast() if autocast else contextlib.nullcontext()
            with scope:
                loss = run()
            after["forward"] = mode.now
            loss.backward()
            after["backward"] = mode.peak
            del loss, scope
            if optimizer is not None:
                optimizer.step()
    return mode.peak, after
