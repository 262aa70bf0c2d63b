"""What a network of torch computes, as an ONNX file that the commands read: of an exported program (torch.export), or of a module or
a graph of torch.fx with its inputs. Each operator of ATen becomes operators of ONNX; weights keep the names of the state dictionary.
One that is not known is refused by its name, with the module that it stands in.

    aten.linear(x, fc1.weight, fc1.bias)        Gemm (x, fc1.weight, fc1.bias) {transB: 1}

Where torch has no torch.export (before 2.1), make_fx traces the module; sizes of the inputs are then fixed."""
from __future__ import annotations

import inspect
import math
import os
import sys
import types
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple, Union

from ._arrays import _array
from ._call import InputError
from ._onnx import TYPES, Graph

_DTYPES = {"float32": "F32", "float64": "F64", "float16": "F16", "bfloat16": "BF16", "int64": "I64", "int32": "I32", "int16": "I16", "int8": "I8",
           "uint8": "U8", "bool": "BOOL", "float8_e4m3fn": "F8_E4M3", "float8_e5m2": "F8_E5M2"}
_END = (1 << 63) - 1

_OPERATORS: Dict[str, Callable[..., Any]] = {}


def _operator(names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """These operators of ATen become what the function makes: (lowering, arguments by the names of the schema, node) -> value or values."""

    def add(function: Callable[..., Any]) -> Callable[..., Any]:
        for name in names.split():
            _OPERATORS[name] = function
        return function

    return add


def _dtype(kind: Any) -> str:
    name = str(kind).replace("torch.", "")
    if name not in _DTYPES:
        raise InputError(f"values of the type {name} are not known")
    return _DTYPES[name]


def _is_node(value: Any) -> bool:
    return hasattr(value, "op") and hasattr(value, "target")


class _Lowering:
    """The nodes of a graph of ATen on their way into an ONNX graph."""

    def __init__(self, torch: Any) -> None:
        self.torch = torch
        self.graph = Graph()
        self.names: Dict[Any, Any] = {}  # what each node is: the name of a value, or a list of such
        self.taken: Dict[str, int] = {}
        self.constants: Dict[Any, str] = {}
        self.symbols: Dict[str, str] = {}
        self.ranks: Dict[str, int] = {}  # of values whose rank torch notes wrongly: states of recurrent layers (2.6)
        self.kept: List[Any] = []  # what the bytes of tensors belong to
        self.node: Any = None  # the one that is lowered

    # ---- what is known of a value ----

    def meta(self, node: Any) -> Any:
        """A tensor with the shape and the type of a node; or a number of torch for a size."""
        found = node.meta.get("val")
        return found if found is not None else node.meta.get("tensor_meta", node.meta.get("example_value"))

    def shape(self, node: Any) -> Sequence[Any]:
        return tuple(self.meta(node).shape)

    def rank(self, node: Any) -> int:
        return len(self.shape(node))

    def dtype(self, value: Any) -> Any:
        """torch's type of a node, or of a number."""
        if not _is_node(value):
            return self.torch.bool if isinstance(value, bool) else self.torch.int64 if isinstance(value, int) else self.torch.float32
        found = self.meta(value)
        return found.dtype if hasattr(found, "dtype") else self.torch.float64 if "Float" in type(found).__name__ or isinstance(found, float) else self.torch.int64

    def size(self, node: Any, axis: int) -> int:
        size = self.shape(node)[axis]
        if not isinstance(size, int):
            self.refuse(f"size {axis} of its input has to be known")
        return int(size)

    def refuse(self, why: str) -> None:
        raise InputError(f"{self.place()}: {why}")

    def place(self) -> str:
        """encoder.layers.0 (TransformerEncoderLayer): aten.erfinv.default"""
        stack = [entry for entry in (self.node.meta.get("nn_module_stack") or {}).values() if isinstance(entry, tuple) and entry[0]]
        path, kind = stack[-1] if stack else ("", "")
        path = path.replace("L['self'].", "").replace("L__self___", "")
        kind = getattr(kind, "__name__", str(kind)).split(".")[-1]
        return f"{path} ({kind}): {self.node.target}" if path else str(self.node.target)

    # ---- values ----

    def free_name(self, name: str) -> str:
        n = self.taken.get(name, 0)
        self.taken[name] = n + 1
        return name if n == 0 else self.free_name(f"{name}.{n}")

    def make(self, op: str, *inputs: str, n: int = 1, **attributes: Any) -> Any:
        """A node of ONNX, and the name of what it makes, or with n above 1 the names. None as an attribute is left out."""
        base = self.free_name(getattr(self.node, "name", op))
        outputs = [base] + [self.free_name(f"{base}_{k}") for k in range(1, n)]
        kept = {key: int(value) if isinstance(value, bool) else value for key, value in attributes.items() if value is not None}
        self.graph.node(op, inputs, outputs, base, kept)
        return outputs[0] if n == 1 else outputs

    def constant(self, value: Any, dtype: Any = None) -> str:
        """A number or a list of whole numbers, once for each in the file: no tensor of the checkpoint."""
        key = (str(value), str(dtype))
        if key not in self.constants:
            whole = not isinstance(value, float)
            name = self.free_name("constant")
            self.graph.node("Constant", [], [name], name, {"value_ints" if isinstance(value, list) else "value_int" if whole else "value_float":
                                                           value if isinstance(value, (list, float)) else int(value)})
            own = self.torch.int64 if whole else self.torch.float32
            self.constants[key] = name if dtype in (None, own) else self.cast(name, dtype)
        return self.constants[key]

    def tensor(self, name: str, tensor: Any) -> None:
        found = _array(name, tensor.detach().cpu().contiguous())
        self.graph.tensor(name, found.dtype, found.shape, found.view)
        self.kept.append(found)

    def value(self, value: Any, dtype: Any = None) -> str:
        """The name of an argument, cast to dtype."""
        if not _is_node(value):
            return self.constant(value, dtype or self.dtype(value))
        name: str = self.names[value]
        return name if dtype is None or self.dtype(value) == dtype else self.cast(name, dtype)

    def cast(self, name: str, dtype: Any) -> str:
        made: str = self.make("Cast", name, to=TYPES[_dtype(dtype)])
        return made

    def vector(self, sizes: Sequence[Any], missing: Optional[int] = None) -> str:
        """Sizes as a tensor of whole numbers. missing: what stands for the only one that is not known (Reshape: -1)."""
        open_ones = [size for size in sizes if _is_node(size)]
        if len(open_ones) == 1 and missing is not None and missing not in sizes:
            sizes, open_ones = [missing if _is_node(size) else size for size in sizes], []
        if not open_ones:
            return self.constant([int(size) for size in sizes])
        parts = [self.make("Unsqueeze", self.value(size), self.constant([0])) if _is_node(size) else self.constant([int(size)]) for size in sizes]
        made: str = self.make("Concat", *parts, axis=0)
        return made

    def reshape(self, name: str, sizes: Sequence[Any]) -> str:
        made: str = self.make("Reshape", name, self.vector(sizes, -1))
        return made

    def axes(self, dims: Any, rank: int) -> List[int]:
        if dims is None or dims == []:
            return list(range(rank))
        return [dim % rank if rank else 0 for dim in (dims if isinstance(dims, (list, tuple)) else [dims])]

    def transpose(self, name: str, rank: int, a: int, b: int) -> str:
        order = list(range(rank))
        order[a], order[b] = order[b], order[a]
        made: str = self.make("Transpose", name, perm=order)
        return made

    # ---- the walk ----

    def symbol(self, size: Any, axis: int) -> Union[int, str]:
        """A size of an input: a number, or a name, "batch" and "sequence" where they usually are."""
        if isinstance(size, int):
            return size
        text = str(size)
        if text not in self.symbols:
            usual = {0: "batch", 1: "sequence"}.get(axis, text)
            self.symbols[text] = usual if usual not in self.symbols.values() else text
        return self.symbols[text]

    def input(self, node: Any) -> None:
        found = self.meta(node)
        if not hasattr(found, "shape"):
            self.names[node] = None if found is None or isinstance(found, (str, bool)) else self.constant(found, self.dtype(found))
            return
        self.names[node] = self.free_name(node.name)
        self.graph.input(node.name, _dtype(found.dtype), [self.symbol(size, axis) for axis, size in enumerate(found.shape)])

    def call(self, node: Any) -> None:
        self.node, target = node, node.target
        schema = getattr(target, "_schema", None)
        name = schema.name.split("::")[-1] if schema is not None else getattr(target, "__name__", str(target))
        if schema is None:
            self.names[node] = _of_python(self, name, node)
            return
        own = schema.name.startswith("aten::")
        known = _OPERATORS.get(name)
        if known is None and name.endswith("_"):  # in place: traces have it as a value of its own
            name, known = name[:-1], _OPERATORS.get(name[:-1])
        if name in _NOTHING:
            self.names[node] = None
            return
        if known is None or not own:
            raise InputError(f"{self.place()}: this operator is not known")
        given = dict(node.kwargs)
        for k, argument in enumerate(schema.arguments):
            if argument.name not in given:
                given[argument.name] = node.args[k] if k < len(node.args) else argument.default_value
        self.names[node] = known(self, types.SimpleNamespace(**given, name=name), node)

    def output(self, node: Any, name: str) -> None:
        own = self.free_name(name)
        self.graph.node("Identity", [self.names[node]], [own], own, {})
        self.graph.output(own, _dtype(self.meta(node).dtype), self.ranks.get(self.names[node], self.rank(node)))  # its sizes follow


# Checks of torch, which no value follows from.
_NOTHING = {"_assert_async", "_assert_scalar", "_assert_tensor_metadata", "sym_constrain_range", "sym_constrain_range_for_size", "_check", "_set_grad_enabled", "_enter_autocast",
            "_exit_autocast", "lazy_load_decompositions"}

# ---- one element at a time ----

for _name, _op in (("relu", "Relu"), ("sigmoid", "Sigmoid"), ("tanh", "Tanh"), ("exp", "Exp"), ("log", "Log"), ("sqrt", "Sqrt"), ("reciprocal", "Reciprocal"), ("abs", "Abs"),
                   ("neg", "Neg"), ("erf", "Erf"), ("sin", "Sin"), ("cos", "Cos"), ("tan", "Tan"), ("sinh", "Sinh"), ("cosh", "Cosh"), ("floor", "Floor"), ("ceil", "Ceil"), ("round", "Round"), ("sign", "Sign"),
                   ("mish", "Mish"), ("hardswish", "HardSwish"), ("isnan", "IsNaN"), ("isinf", "IsInf"), ("logical_not", "Not"), ("bitwise_not", "Not")):
    # Functions of floats make floats of whole numbers.
    _OPERATORS[_name] = lambda g, a, n, op=_op: g.make(op, g.value(a.self, g.dtype(n) if op not in ("IsNaN", "IsInf", "Not") else g.torch.bool if op == "Not" else None))


@_operator("clone contiguous detach alias lift_fresh_copy lift_fresh dropout native_dropout feature_dropout alpha_dropout _to_copy to type_as float half double bfloat16 long int bool _conj resolve_conj")
def _same(g: _Lowering, a: Any, n: Any) -> Any:
    if a.name == "native_dropout":
        return [g.value(a.input), None]
    x = a.self if hasattr(a, "self") else a.input
    if getattr(a, "train", False):
        g.refuse("the program was exported for training; call eval() before")
    return g.value(x, g.dtype(n))


@_operator("add sub mul div rsub true_divide divide multiply subtract floor_divide remainder fmod pow maximum minimum")
def _binary(g: _Lowering, a: Any, n: Any) -> Any:
    dtype = g.dtype(n)
    x, y = (a.self, a.other) if hasattr(a, "other") else (a.self, a.exponent)
    first, second = g.value(x, dtype), g.value(y, dtype)
    alpha = getattr(a, "alpha", 1)
    if alpha not in (None, 1):
        second = g.make("Mul", second, g.constant(alpha, dtype)) if a.name != "rsub" else second
        first = g.make("Mul", first, g.constant(alpha, dtype)) if a.name == "rsub" else first
    whole = not dtype.is_floating_point
    mode = getattr(a, "rounding_mode", None)
    if a.name == "rsub":
        return g.make("Sub", second, first)
    if a.name in ("div", "divide", "true_divide", "floor_divide"):
        quotient = g.make("Div", first, second)
        if a.name == "floor_divide" or mode == "floor":
            if not whole:
                return g.make("Floor", quotient)
            least = g.constant(0, dtype)  # of whole numbers Div cuts off towards 0; what is left has the sign of the divisor where it has to
            left = g.make("Sub", first, g.make("Mul", quotient, second))
            below = g.make("And", g.make("Not", g.make("Equal", left, least)), g.make("Xor", g.make("Less", left, least), g.make("Less", second, least)))
            return g.make("Sub", quotient, g.cast(below, dtype))
        if mode == "trunc" and not whole:
            return g.make("Mul", g.make("Sign", quotient), g.make("Floor", g.make("Abs", quotient)))
        return quotient
    if a.name == "remainder" and not whole:
        return g.make("Sub", first, g.make("Mul", g.make("Floor", g.make("Div", first, second)), second))
    if a.name in ("remainder", "fmod"):
        return g.make("Mod", first, second, fmod=int(a.name == "fmod"))
    op = {"add": "Add", "sub": "Sub", "subtract": "Sub", "mul": "Mul", "multiply": "Mul", "pow": "Pow", "maximum": "Max", "minimum": "Min"}[a.name]
    return g.make(op, first, second)


@_operator("eq ne gt lt ge le logical_and logical_or logical_xor bitwise_and bitwise_or bitwise_xor")
def _compare(g: _Lowering, a: Any, n: Any) -> Any:
    if a.name.startswith("bitwise") and g.dtype(n) != g.torch.bool:
        g.refuse("of truth values only")
    of_truth = a.name.split("_")[0] in ("logical", "bitwise")
    dtype = g.torch.bool if of_truth else g.torch.promote_types(g.dtype(a.self), g.dtype(a.other))
    if not of_truth and not _is_node(a.other) and (isinstance(a.other, int) or g.dtype(a.self).is_floating_point):
        dtype = g.dtype(a.self)
    op = {"eq": "Equal", "ne": "Equal", "gt": "Greater", "lt": "Less", "ge": "GreaterOrEqual", "le": "LessOrEqual"}.get(a.name) or a.name.split("_")[1].capitalize()
    made = g.make(op, g.value(a.self, dtype), g.value(a.other, dtype))
    return g.make("Not", made) if a.name == "ne" else made


@_operator("rsqrt square silu gelu elu leaky_relu hardsigmoid hardtanh relu6 softplus softsign selu celu log_sigmoid prelu _prelu_kernel expm1 log1p log2 log10")
def _activation(g: _Lowering, a: Any, n: Any) -> Any:
    dtype = g.dtype(n)
    x = g.value(a.self, dtype)

    def one(value: float) -> str:
        return g.constant(float(value), dtype)

    if a.name == "elu" and (a.scale != 1 or a.input_scale != 1):
        g.refuse("scale and input_scale other than 1")
    if a.name == "softplus":
        if a.threshold * a.beta < 15:
            g.refuse("a threshold below 15")
        return g.make("Softplus", x) if a.beta == 1 else g.make("Div", g.make("Softplus", g.make("Mul", x, one(a.beta))), one(a.beta))
    made: Dict[str, Callable[[], Any]] = {
        "rsqrt": lambda: g.make("Reciprocal", g.make("Sqrt", x)), "square": lambda: g.make("Mul", x, x), "silu": lambda: g.make("Mul", x, g.make("Sigmoid", x)),
        "gelu": lambda: g.make("Gelu", x, approximate=a.approximate), "elu": lambda: g.make("Elu", x, alpha=float(a.alpha)),
        "leaky_relu": lambda: g.make("LeakyRelu", x, alpha=float(a.negative_slope)), "hardsigmoid": lambda: g.make("HardSigmoid", x, alpha=1 / 6, beta=0.5),
        "hardtanh": lambda: g.make("Clip", x, one(a.min_val), one(a.max_val)), "relu6": lambda: g.make("Clip", x, one(0), one(6)),
        "softsign": lambda: g.make("Softsign", x), "selu": lambda: g.make("Selu", x), "celu": lambda: g.make("Celu", x, alpha=float(a.alpha)),
        "log_sigmoid": lambda: g.make("Neg", g.make("Softplus", g.make("Neg", x))), "expm1": lambda: g.make("Sub", g.make("Exp", x), one(1)),
        "log1p": lambda: g.make("Log", g.make("Add", x, one(1))), "log2": lambda: g.make("Div", g.make("Log", x), one(math.log(2))),
        "log10": lambda: g.make("Div", g.make("Log", x), one(math.log(10))), "prelu": lambda: _prelu(g, a, x), "_prelu_kernel": lambda: g.make("PRelu", x, g.value(a.weight))}
    if a.name not in made:
        raise InputError(f"{g.place()}: this operator is not known")
    return made[a.name]()


def _prelu(g: _Lowering, a: Any, x: str) -> Any:
    slope = g.value(a.weight)
    rank = g.rank(a.self)
    if rank > 2 and g.shape(a.weight) != (1,):
        slope = g.reshape(slope, [-1] + [1] * (rank - 2))
    return g.make("PRelu", x, slope)


@_operator("clamp clamp_min clamp_max clip")
def _clamp(g: _Lowering, a: Any, n: Any) -> Any:
    dtype = g.dtype(n)
    least, most = getattr(a, "min", None), getattr(a, "max", None)
    return g.make("Clip", g.value(a.self, dtype), "" if least is None else g.value(least, dtype), *([] if most is None else [g.value(most, dtype)]))


@_operator("where")
def _where(g: _Lowering, a: Any, n: Any) -> Any:
    return g.make("Where", g.value(a.condition, g.torch.bool), g.value(a.self, g.dtype(n)), g.value(a.other, g.dtype(n)))


@_operator("masked_fill")
def _masked_fill(g: _Lowering, a: Any, n: Any) -> Any:
    return g.make("Where", g.value(a.mask, g.torch.bool), g.value(a.value, g.dtype(n)), g.value(a.self, g.dtype(n)))


@_operator("softmax _softmax log_softmax _log_softmax _safe_softmax")
def _softmax(g: _Lowering, a: Any, n: Any) -> Any:
    return g.make("LogSoftmax" if "log" in a.name else "Softmax", g.value(a.self, g.dtype(n)), axis=a.dim)


# ---- products, convolutions, pools ----


@_operator("linear")
def _linear(g: _Lowering, a: Any, n: Any) -> Any:
    inputs = [g.value(a.input), g.value(a.weight)] + ([g.value(a.bias)] if a.bias is not None else [])
    if g.rank(a.input) == 2:
        return g.make("Gemm", *inputs, transB=1)
    made = g.make("MatMul", inputs[0], g.transpose(inputs[1], 2, 0, 1))
    return g.make("Add", made, inputs[2]) if a.bias is not None else made


@_operator("matmul mm bmm mv dot")
def _matmul(g: _Lowering, a: Any, n: Any) -> Any:
    x, y = [value for key, value in vars(a).items() if _is_node(value)]
    return g.make("MatMul", g.value(x), g.value(y))


@_operator("addmm baddbmm addbmm")
def _addmm(g: _Lowering, a: Any, n: Any) -> Any:
    if a.name == "addmm":
        return g.make("Gemm", g.value(a.mat1), g.value(a.mat2), g.value(a.self), alpha=float(a.alpha), beta=float(a.beta))
    made = g.make("MatMul", g.value(a.batch1), g.value(a.batch2))
    dtype = g.dtype(n)
    made = made if a.alpha == 1 else g.make("Mul", made, g.constant(a.alpha, dtype))
    return made if a.beta == 0 else g.make("Add", made, g.value(a.self) if a.beta == 1 else g.make("Mul", g.value(a.self), g.constant(a.beta, dtype)))


@_operator("einsum")
def _einsum(g: _Lowering, a: Any, n: Any) -> Any:
    return g.make("Einsum", *[g.value(one) for one in a.tensors], equation=a.equation)


def _each(value: Any, n: int) -> List[int]:
    """A number for each of n dimensions: 2, [2] and [2, 2] are one."""
    values = list(value) if isinstance(value, (list, tuple)) else [value]
    return values * n if len(values) == 1 else values


@_operator("conv1d conv2d conv3d convolution conv_transpose1d conv_transpose2d conv_transpose3d")
def _conv(g: _Lowering, a: Any, n: Any) -> Any:
    rank = g.rank(a.weight) - 2
    if g.rank(a.input) != rank + 2:
        g.refuse("an input without a dimension for the batch")
    turned = "transpose" in a.name or getattr(a, "transposed", False)
    attributes: Dict[str, Any] = {"strides": _each(a.stride, rank), "dilations": _each(a.dilation, rank), "group": a.groups, "kernel_shape": [int(size) for size in g.shape(a.weight)[2:]]}
    if isinstance(a.padding, str):
        if a.padding == "same":  # the odd one of a padding lies behind
            whole = [dilation * (size - 1) for dilation, size in zip(attributes["dilations"], attributes["kernel_shape"])]
            attributes["pads"] = [size // 2 for size in whole] + [size - size // 2 for size in whole]
    else:
        attributes["pads"] = _each(a.padding, rank) * 2
    if turned:
        attributes["output_padding"] = _each(a.output_padding, rank)
    bias = [g.value(a.bias)] if a.bias is not None else []
    return g.make("ConvTranspose" if turned else "Conv", g.value(a.input), g.value(a.weight), *bias, **attributes)


@_operator("max_pool1d max_pool2d max_pool3d max_pool2d_with_indices max_pool3d_with_indices avg_pool1d avg_pool2d avg_pool3d")
def _pool(g: _Lowering, a: Any, n: Any) -> Any:
    rank = int(a.name.split("pool")[1][0])
    if g.rank(a.self) != rank + 2:
        g.refuse("an input without a dimension for the batch")
    kernel = _each(a.kernel_size, rank)
    attributes: Dict[str, Any] = {"kernel_shape": kernel, "strides": _each(a.stride, rank) if a.stride else kernel, "pads": _each(a.padding, rank) * 2, "ceil_mode": a.ceil_mode}
    if a.name.startswith("max"):
        made = g.make("MaxPool", g.value(a.self), dilations=_each(a.dilation, rank), **attributes)
        return [made, None] if a.name.endswith("indices") else made
    if getattr(a, "divisor_override", None) is not None:
        g.refuse("divisor_override")
    return g.make("AveragePool", g.value(a.self), count_include_pad=a.count_include_pad, **attributes)


@_operator("adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d _adaptive_avg_pool2d _adaptive_avg_pool3d adaptive_max_pool1d adaptive_max_pool2d")
def _adaptive(g: _Lowering, a: Any, n: Any) -> Any:
    rank = int(a.name.split("pool")[1][0])
    out, average = _each(a.output_size, rank), "avg" in a.name
    if all(size == 1 for size in out):
        made = g.make("GlobalAveragePool" if average else "GlobalMaxPool", g.value(a.self))
    else:
        sizes = [g.size(a.self, k - rank) for k in range(rank)]
        if any(size % wanted for size, wanted in zip(sizes, out)):
            g.refuse(f"{sizes} has no equal parts for an output of {out}")
        kernel = [size // wanted for size, wanted in zip(sizes, out)]
        made = g.make("AveragePool" if average else "MaxPool", g.value(a.self), kernel_shape=kernel, strides=kernel)
    return made if average else [made, None]


@_operator("upsample_nearest1d upsample_nearest2d upsample_nearest3d upsample_bilinear2d upsample_linear1d upsample_trilinear3d")
def _upsample(g: _Lowering, a: Any, n: Any) -> Any:
    corners = getattr(a, "align_corners", False)
    nearest = "nearest" in a.name
    x = a.input if hasattr(a, "input") else a.self
    place = "asymmetric" if nearest else "align_corners" if corners else "pytorch_half_pixel"
    axes = list(range(2, g.rank(n)))
    return g.make("Resize", g.value(x), "", "", g.constant([g.size(n, axis) for axis in axes]), axes=axes, mode="nearest" if nearest else "linear", nearest_mode="floor" if nearest else None, coordinate_transformation_mode=place)


# ---- normalizations and attention ----


def _filled(g: _Lowering, value: Any, shape: Sequence[int], number: float, dtype: Any) -> str:
    """A parameter, or where there is none a tensor of this number."""
    if value is not None:
        return g.value(value)
    name = g.free_name("constant")
    g.tensor(name, g.torch.full(tuple(shape), number, dtype=dtype))
    return name


@_operator("batch_norm native_batch_norm _native_batch_norm_legit _native_batch_norm_legit_no_training _native_batch_norm_legit_functional cudnn_batch_norm")
def _batch_norm(g: _Lowering, a: Any, n: Any) -> Any:
    if getattr(a, "running_mean", None) is None and g.shape(a.input)[0] == 1:  # what instance_norm becomes
        channels, dtype = g.shape(a.input)[1:2], g.dtype(a.input)
        return [g.make("InstanceNormalization", g.value(a.input), _filled(g, a.weight, channels, 1, dtype), _filled(g, a.bias, channels, 0, dtype), epsilon=float(a.eps)), None, None]
    if getattr(a, "training", False) or a.running_mean is None:
        g.refuse("it takes mean and variance from the batch: call eval() before, with running statistics")
    channels = g.shape(a.running_mean)
    dtype = g.dtype(a.running_mean)
    made = g.make("BatchNormalization", g.value(a.input), _filled(g, a.weight, channels, 1, dtype), _filled(g, a.bias, channels, 0, dtype), g.value(a.running_mean), g.value(a.running_var),
                  epsilon=float(a.eps))
    return made if a.name == "batch_norm" else [made, None, None]


@_operator("_weight_norm _weight_norm_interface")
def _weight_norm(g: _Lowering, a: Any, n: Any) -> Any:
    """v g / |v|, the norm over all dimensions but one."""
    rank = g.rank(a.v)
    axes = [k for k in range(rank) if k != a.dim % rank] if a.dim != -1 else list(range(rank))
    v = g.value(a.v)
    norm = g.make("Sqrt", g.make("ReduceSum", g.make("Mul", v, v), g.constant(axes), keepdims=1))
    made = g.make("Mul", v, g.make("Div", g.value(a.g), norm))
    return made if a.name == "_weight_norm" else [made, norm]


@_operator("layer_norm native_layer_norm rms_norm")
def _layer_norm(g: _Lowering, a: Any, n: Any) -> Any:
    shape, dtype = a.normalized_shape, g.dtype(a.input)
    bias = [g.value(a.bias)] if getattr(a, "bias", None) is not None else []
    eps = float(a.eps) if a.eps is not None else g.torch.finfo(dtype).eps
    made = g.make("RMSNormalization" if a.name == "rms_norm" else "LayerNormalization", g.value(a.input), _filled(g, a.weight, shape, 1, dtype), *bias, axis=-len(shape), epsilon=eps)
    return [made, None, None] if a.name.startswith("native") else made


@_operator("group_norm native_group_norm instance_norm")
def _group_norm(g: _Lowering, a: Any, n: Any) -> Any:
    channels, dtype = [g.size(a.input, 1)], g.dtype(a.input)
    factors = [_filled(g, a.weight, channels, 1, dtype), _filled(g, a.bias, channels, 0, dtype)]
    if a.name == "instance_norm":
        if not a.use_input_stats:
            g.refuse("running statistics")
        return g.make("InstanceNormalization", g.value(a.input), *factors, epsilon=float(a.eps))
    groups = a.num_groups if a.name == "group_norm" else a.group
    made = g.make("GroupNormalization", g.value(a.input), *factors, num_groups=groups, epsilon=float(a.eps))
    return made if a.name == "group_norm" else [made, None, None]


@_operator("scaled_dot_product_attention _scaled_dot_product_attention_math _scaled_dot_product_flash_attention_for_cpu")
def _attention(g: _Lowering, a: Any, n: Any) -> Any:
    q, k, v = (g.value(one) for one in (a.query, a.key, a.value))
    rank = g.rank(a.query)
    if rank not in (3, 4):
        g.refuse(f"queries of {rank} dimensions; 3 and 4 are known")
    if rank == 3:
        q, k, v = (g.make("Unsqueeze", one, g.constant([1])) for one in (q, k, v))
    mask = []
    if a.attn_mask is not None:
        mask = [g.value(a.attn_mask)]
        if rank == 3 and g.rank(a.attn_mask) == 3:
            mask = [g.make("Unsqueeze", mask[0], g.constant([1]))]
    made = g.make("Attention", q, k, v, *mask, is_causal=bool(a.is_causal), scale=None if a.scale is None else float(a.scale))
    made = g.make("Squeeze", made, g.constant([1])) if rank == 3 else made
    return made if a.name == "scaled_dot_product_attention" else [made, None]


@_operator("lstm gru rnn_tanh rnn_relu")
def _recurrent(g: _Lowering, a: Any, n: Any) -> Any:
    """Layer by layer. torch has the gates i, f, g, o and r, z, n, ONNX i, o, f, g and z, r, n."""
    kind, gates = {"lstm": ("LSTM", [0, 3, 1, 2]), "gru": ("GRU", [1, 0, 2])}.get(a.name, ("RNN", [0]))
    if not hasattr(a, "batch_first"):
        g.refuse("packed sequences")
    states = list(a.hx) if isinstance(a.hx, (list, tuple)) else [a.hx]
    directions, each = 2 if a.bidirectional else 1, 4 if a.has_biases else 2
    if len(a.params) != a.num_layers * directions * each:
        g.refuse("projections (proj_size)")
    if getattr(a, "train", False) and a.dropout:
        g.refuse("the program was exported for training; call eval() before")
    hidden = g.size(a.params[1], 1)
    x = g.value(a.input)
    x = g.transpose(x, 3, 0, 1) if a.batch_first else x

    def in_order(parameter: Any) -> str:
        name = g.value(parameter)
        if len(gates) > 1:
            parts = g.make("Split", name, n=len(gates), axis=0, num_outputs=len(gates))
            name = g.make("Concat", *[parts[k] for k in gates], axis=0)
        made: str = g.make("Unsqueeze", name, g.constant([0]))
        return made

    def both(names: List[str]) -> str:
        made: str = names[0] if len(names) == 1 else g.make("Concat", *names, axis=0)
        return made

    last: List[List[str]] = [[] for _ in states]
    for layer in range(a.num_layers):
        own = [a.params[(layer * directions + d) * each:(layer * directions + d + 1) * each] for d in range(directions)]
        inputs = [x, both([in_order(p[0]) for p in own]), both([in_order(p[1]) for p in own])]
        inputs.append(both([g.make("Concat", in_order(p[2]), in_order(p[3]), axis=1) for p in own]) if a.has_biases else "")
        inputs.append("")
        for state in states:
            name = g.value(state)
            inputs.append(name if a.num_layers == 1 else g.make("Slice", name, g.constant([layer * directions]), g.constant([(layer + 1) * directions]), g.constant([0])))
        activation = ["Relu"] * directions if a.name == "rnn_relu" else None
        made = g.make(kind, *inputs, n=1 + len(states), hidden_size=hidden, direction="bidirectional" if directions == 2 else "forward",
                      linear_before_reset=1 if kind == "GRU" else None, activations=activation)
        for k, state_name in enumerate(made[1:]):
            last[k].append(state_name)
        # [steps, directions, rows, hidden] -> [steps, rows, directions hidden]
        x = g.make("Reshape", g.make("Transpose", made[0], perm=[0, 2, 1, 3]), g.constant([0, 0, -1]))
    x = g.transpose(x, 3, 0, 1) if a.batch_first else x
    ends = [both(names) for names in last]
    g.ranks.update({name: 3 for name in ends})
    return [x] + ends


# ---- along axes ----


@_operator("sum mean amax amin prod max min logsumexp linalg_vector_norm norm any all")
def _reduce(g: _Lowering, a: Any, n: Any) -> Any:
    rank = g.rank(a.self)
    dims = getattr(a, "dim", None)
    if a.name in ("max", "min") and hasattr(a, "other"):
        return g.make("Max" if a.name == "max" else "Min", g.value(a.self, g.dtype(n)), g.value(a.other, g.dtype(n)))
    keep = bool(getattr(a, "keepdim", False))
    pair = a.name in ("max", "min") and dims is not None
    axes = g.constant(g.axes(dims, rank))
    dtype = g.dtype(a.self) if pair else g.dtype(n)
    if a.name in ("any", "all"):
        made = g.make("ReduceMax" if a.name == "any" else "ReduceMin", g.cast(g.value(a.self, g.torch.bool), g.torch.int32), axes, keepdims=keep)
        return g.cast(made, g.torch.bool)
    if a.name in ("linalg_vector_norm", "norm"):
        order = a.ord if a.name == "linalg_vector_norm" else a.p if a.p is not None else 2
        if order not in (1, 2):
            g.refuse(f"a norm of order {order}")
        op = f"ReduceL{int(order)}"
    else:
        op = {"sum": "ReduceSum", "mean": "ReduceMean", "prod": "ReduceProd", "logsumexp": "ReduceLogSumExp"}.get(a.name) or ("ReduceMax" if "max" in a.name else "ReduceMin")
    made = g.make(op, g.value(a.self, dtype), axes, keepdims=keep)
    return [made, g.make("ArgMax" if a.name == "max" else "ArgMin", g.value(a.self), axis=dims, keepdims=keep)] if pair else made


@_operator("var std var_mean")
def _variance(g: _Lowering, a: Any, n: Any) -> Any:
    axes = g.axes(getattr(a, "dim", None), g.rank(a.self))
    count = 1
    for axis in axes:
        count *= g.size(a.self, axis)
    free = getattr(a, "correction", None)
    free = (1 if getattr(a, "unbiased", True) else 0) if free is None else free
    keep, x, dtype = bool(getattr(a, "keepdim", False)), g.value(a.self), g.dtype(a.self)
    mean = g.make("ReduceMean", x, g.constant(axes), keepdims=1)
    far = g.make("Sub", x, mean)
    made = g.make("Div", g.make("ReduceSum", g.make("Mul", far, far), g.constant(axes), keepdims=keep), g.constant(float(count - free), dtype))
    if a.name == "var_mean":
        return [made, mean if keep else g.make("Squeeze", mean, g.constant(axes))]
    return g.make("Sqrt", made) if a.name == "std" else made


@_operator("argmax argmin")
def _argmax(g: _Lowering, a: Any, n: Any) -> Any:
    x = g.value(a.self)
    if a.dim is None:
        x = g.make("Reshape", x, g.constant([-1]))
    return g.make("ArgMax" if a.name == "argmax" else "ArgMin", x, axis=a.dim or 0, keepdims=bool(a.keepdim))


@_operator("topk sort")
def _topk(g: _Lowering, a: Any, n: Any) -> Any:
    k = [a.k] if a.name == "topk" else [g.size(a.self, a.dim)]
    return g.make("TopK", g.value(a.self), g.vector(k), n=2, axis=a.dim, largest=bool(a.largest if a.name == "topk" else a.descending))


@_operator("cumsum")
def _cumsum(g: _Lowering, a: Any, n: Any) -> Any:
    return g.make("CumSum", g.value(a.self, g.dtype(n)), g.constant(a.dim))


# ---- shapes ----


@_operator("view reshape _unsafe_view _reshape_alias view_copy _reshape_copy")
def _view(g: _Lowering, a: Any, n: Any) -> Any:
    return g.reshape(g.value(a.self), a.shape if hasattr(a, "shape") else a.size)


@_operator("flatten unflatten")
def _flatten(g: _Lowering, a: Any, n: Any) -> Any:
    rank = g.rank(a.self)
    if a.name == "unflatten":
        dim = a.dim % rank
        return g.make("Reshape", g.value(a.self), g.vector([0] * dim + list(a.sizes) + [g.size(a.self, k) for k in range(dim + 1, rank)], -1))
    first, last = (a.start_dim % rank, a.end_dim % rank) if rank else (0, 0)
    if first == last and rank:
        return g.value(a.self)
    return g.make("Reshape", g.value(a.self), g.constant([0] * first + [-1] + [g.size(a.self, k) for k in range(last + 1, rank)]))


@_operator("squeeze unsqueeze")
def _squeeze(g: _Lowering, a: Any, n: Any) -> Any:
    rank = g.rank(n) if a.name == "unsqueeze" else g.rank(a.self)
    dims = g.axes(getattr(a, "dim", None), rank)
    if a.name == "squeeze":
        dims = [dim for dim in dims if g.shape(a.self)[dim] == 1]
        if not dims:
            return g.value(a.self)
    return g.make("Squeeze" if a.name == "squeeze" else "Unsqueeze", g.value(a.self), g.constant(dims))


@_operator("transpose swapaxes permute t numpy_T movedim mT adjoint")
def _permute(g: _Lowering, a: Any, n: Any) -> Any:
    rank = g.rank(a.self)
    order = list(range(rank))
    if a.name == "permute":
        order = [dim % rank for dim in a.dims]
    elif a.name == "movedim":
        source, target = g.axes(a.source, rank), g.axes(a.destination, rank)
        order = [dim for dim in order if dim not in source]
        for to, dim in sorted(zip(target, source)):
            order.insert(to, dim)
    elif rank > 1:
        x, y = (a.dim0, a.dim1) if a.name == "transpose" else (a.axis0, a.axis1) if a.name == "swapaxes" else (-2, -1)
        order[x % rank], order[y % rank] = order[y % rank], order[x % rank]
    return g.make("Transpose", g.value(a.self), perm=order)


@_operator("expand expand_as broadcast_to")
def _expand(g: _Lowering, a: Any, n: Any) -> Any:
    if a.name == "expand_as":
        return g.make("Expand", g.value(a.self), g.make("Shape", g.value(a.other)))
    return g.make("Expand", g.value(a.self), g.vector([1 if size == -1 else size for size in a.size]))


@_operator("repeat tile")
def _repeat(g: _Lowering, a: Any, n: Any) -> Any:
    times = list(a.repeats if a.name == "repeat" else a.dims)
    times = [1] * (g.rank(a.self) - len(times)) + times
    x = g.value(a.self)
    if len(times) > g.rank(a.self):
        x = g.make("Unsqueeze", x, g.constant(list(range(len(times) - g.rank(a.self)))))
    return g.make("Tile", x, g.vector(times))


@_operator("cat concat stack")
def _cat(g: _Lowering, a: Any, n: Any) -> Any:
    rank = g.rank(n)
    parts = [one for one in a.tensors if a.name == "stack" or g.shape(one) != (0,)]
    names = [g.value(one, g.dtype(n)) for one in parts]
    if a.name == "stack":
        names = [g.make("Unsqueeze", name, g.constant([a.dim % rank])) for name in names]
    return g.make("Concat", *names, axis=a.dim % rank)


@_operator("split unsafe_split split_with_sizes unsafe_chunk chunk unbind tensor_split")
def _split(g: _Lowering, a: Any, n: Any) -> Any:
    found = [tuple(one.shape) for one in g.meta(n)]
    x, dim = g.value(a.self), a.dim % g.rank(a.self)
    sizes = [1] * len(found) if a.name == "unbind" else [int(shape[dim]) for shape in found]
    if len(sizes) == 1 and a.name != "unbind":
        return [x]
    made = g.make("Split", x, g.constant(sizes), n=len(sizes), axis=dim)
    made = made if isinstance(made, list) else [made]
    return [g.make("Squeeze", one, g.constant([dim])) for one in made] if a.name == "unbind" else made


@_operator("slice narrow")
def _slice(g: _Lowering, a: Any, n: Any) -> Any:
    start, end, step = a.start or 0, getattr(a, "end", None), getattr(a, "step", 1)
    if a.name == "narrow":
        start, end = a.start, a.start + a.length
    end = _END if end is None else end
    if start == 0 and step == 1 and not _is_node(end) and end >= _END >> 32:
        return g.value(a.self)
    return g.make("Slice", g.value(a.self), g.vector([start]), g.vector([end]), g.constant([a.dim % g.rank(a.self)]), g.constant([step]))


@_operator("flip")
def _flip(g: _Lowering, a: Any, n: Any) -> Any:
    axes = g.axes(a.dims, g.rank(a.self))
    return g.make("Slice", g.value(a.self), g.constant([-1] * len(axes)), g.constant([-_END] * len(axes)), g.constant(axes), g.constant([-1] * len(axes)))


@_operator("unfold")
def _unfold(g: _Lowering, a: Any, n: Any) -> Any:
    """Windows of `size` along a dimension, whose elements become the last dimension: rows of numbers of places, gathered."""
    rank = g.rank(a.self)
    axis = a.dimension % rank
    windows = (g.size(a.self, axis) - a.size) // a.step + 1
    places = [k * a.step + at for k in range(windows) for at in range(a.size)]
    made = g.make("Gather", g.value(a.self), g.reshape(g.constant(places), [windows, a.size]), axis=axis)
    order = list(range(axis + 1)) + list(range(axis + 2, rank + 1)) + [axis + 1]
    return made if axis == rank - 1 else g.make("Transpose", made, perm=order)


@_operator("scatter scatter_add")
def _scatter(g: _Lowering, a: Any, n: Any) -> Any:
    if not hasattr(a, "src") or getattr(a, "reduce", None) is not None:
        g.refuse("one number in place of values, or a reduction")
    reduction: Dict[str, Any] = {"reduction": "add"} if a.name == "scatter_add" else {}
    return g.make("ScatterElements", g.value(a.self), g.value(a.index), g.value(a.src), axis=a.dim % g.rank(a.self), **reduction)


@_operator("select")
def _select(g: _Lowering, a: Any, n: Any) -> Any:
    return g.make("Gather", g.value(a.self), g.value(a.index), axis=a.dim % g.rank(a.self))


@_operator("index_select gather embedding")
def _gather(g: _Lowering, a: Any, n: Any) -> Any:
    if a.name == "embedding":
        return g.make("Gather", g.value(a.weight), g.value(a.indices), axis=0)
    return g.make("Gather" if a.name == "index_select" else "GatherElements", g.value(a.self), g.value(a.index), axis=a.dim % g.rank(a.self))


@_operator("index")
def _index(g: _Lowering, a: Any, n: Any) -> Any:
    places = [k for k, one in enumerate(a.indices) if one is not None]
    if any(g.dtype(a.indices[k]) in (g.torch.bool, g.torch.uint8) for k in places):
        g.refuse("a mask as an index, whose result has a size of its values")
    if len(places) == 1:
        return g.make("Gather", g.value(a.self), g.value(a.indices[places[0]]), axis=places[0])
    rank = max(g.rank(a.indices[k]) for k in places)
    common: Any = None  # all indices added, as zeros: what they broadcast to
    for k in places:
        zero = g.make("Mul", g.value(a.indices[k], g.torch.int64), g.constant(0))
        common = zero if common is None else g.make("Add", common, zero)
    parts = [g.make("Unsqueeze", g.make("Add", g.value(a.indices[k], g.torch.int64), common), g.constant([rank])) for k in places]
    # The indexed dimensions go to the front, and what was found back to where they stood, if they stood side by side.
    others = [k for k in range(g.rank(a.self)) if k not in places]
    x = g.value(a.self) if places == list(range(len(places))) else g.make("Transpose", g.value(a.self), perm=places + others)
    made = g.make("GatherND", x, g.make("Concat", *parts, axis=rank))
    first = places[0]
    if first == 0 or places != list(range(first, first + len(places))):
        return made
    return g.make("Transpose", made, perm=[rank + k for k in range(first)] + list(range(rank)) + [rank + k for k in range(first, len(others))])


@_operator("constant_pad_nd pad reflection_pad1d reflection_pad2d replication_pad1d replication_pad2d")
def _pad(g: _Lowering, a: Any, n: Any) -> Any:
    mode = a.mode if a.name == "pad" else a.name.split("_")[0]
    pads = a.pad if hasattr(a, "pad") else a.padding
    rank, both = g.rank(a.self), len(pads) // 2
    before = [0] * (rank - both) + [pads[2 * k] for k in reversed(range(both))]
    behind = [0] * (rank - both) + [pads[2 * k + 1] for k in reversed(range(both))]
    value = getattr(a, "value", None)
    number = [g.constant(value or 0, g.dtype(n))] if mode == "constant" else []
    return g.make("Pad", g.value(a.self), g.vector(before + behind), *number, mode={"constant": "constant", "reflect": "reflect", "reflection": "reflect",
                                                                                  "replicate": "edge", "replication": "edge", "circular": "wrap"}[mode])


@_operator("pixel_shuffle pixel_unshuffle")
def _pixels(g: _Lowering, a: Any, n: Any) -> Any:
    if a.name == "pixel_shuffle":
        return g.make("DepthToSpace", g.value(a.self), blocksize=a.upscale_factor, mode="CRD")
    size, (c, h, w) = a.downscale_factor, [g.size(a.self, k) for k in (1, 2, 3)]
    apart = g.make("Reshape", g.value(a.self), g.constant([0, c, h // size, size, w // size, size]))
    return g.make("Reshape", g.make("Transpose", apart, perm=[0, 1, 3, 5, 2, 4]), g.constant([0, c * size * size, h // size, w // size]))


@_operator("tril triu")
def _triangle(g: _Lowering, a: Any, n: Any) -> Any:
    x = g.value(a.self)
    of_truth = g.dtype(a.self) == g.torch.bool
    made = g.make("Trilu", g.cast(x, g.torch.int32) if of_truth else x, g.constant(a.diagonal), upper=int(a.name == "triu"))
    return g.cast(made, g.torch.bool) if of_truth else made


# ---- tensors from nothing, and sizes ----


@_operator("zeros ones full zeros_like ones_like full_like new_zeros new_ones new_full empty empty_like scalar_tensor")
def _fill(g: _Lowering, a: Any, n: Any) -> Any:
    number = getattr(a, "fill_value", None) if "full" in a.name else a.s if a.name == "scalar_tensor" else int("ones" in a.name)
    shape = g.make("Shape", g.value(a.self)) if a.name.endswith("like") else g.vector(getattr(a, "size", []))
    return g.make("Expand", g.value(number, g.dtype(n)), shape)


@_operator("arange")
def _arange(g: _Lowering, a: Any, n: Any) -> Any:
    dtype = g.dtype(n)
    return g.make("Range", *[g.value(one, dtype) for one in (getattr(a, "start", None) or 0, a.end, getattr(a, "step", None) or 1)])


@_operator("sym_size")
def _sym_size(g: _Lowering, a: Any, n: Any) -> Any:
    return g.make("Gather", g.make("Shape", g.value(a.self)), g.constant(a.dim % g.rank(a.self)), axis=0)


# Operators of Python on sizes. What compares them is for torch's own checks.
_SIZES = {"add": "Add", "sub": "Sub", "mul": "Mul", "floordiv": "Div", "mod": "Mod"}
_COMPARISONS = {"eq", "ne", "lt", "le", "gt", "ge", "and_", "or_", "not_"}


def _of_python(g: _Lowering, name: str, n: Any) -> Any:
    if name in _COMPARISONS:
        return None
    if name == "getitem":
        made = g.names[n.args[0]][n.args[1]]
        if made is None and n.users:
            g.node = n.args[0]
            g.refuse(f"its output {n.args[1]} is not known")
        return made
    if name not in _SIZES:
        raise InputError(f"{g.place()}: this operator is not known")
    return g.make(_SIZES[name], *[g.value(one, g.torch.int64) for one in n.args])


# ---- from torch ----


class Network:
    """What network() makes: commands take it in place of a path. save() writes the ONNX file."""

    def __init__(self, lowering: _Lowering) -> None:
        self._lowering = lowering  # with the tensors that the file will have

    def save(self, path: Union[str, "os.PathLike[str]"]) -> None:
        self._lowering.graph.save(path)


def _torch() -> Any:
    return sys.modules.get("torch")


def _is_exported(model: Any) -> bool:
    export = sys.modules.get("torch.export")
    return export is not None and isinstance(model, getattr(export, "ExportedProgram", ()))


def is_network(value: Any) -> bool:
    """What commands take as a network: a Network, an exported program, a graph of torch.fx."""
    fx = sys.modules.get("torch.fx")
    return isinstance(value, Network) or _is_exported(value) or (fx is not None and isinstance(value, fx.GraphModule))


def _of_program(program: Any) -> Network:
    torch = _torch()
    targets = [node.target for node in program.graph.nodes if node.op == "call_function" and hasattr(node.target, "_schema")]
    unknown = {target for target in targets if target._schema.name.split("::")[-1].rstrip("_") not in _OPERATORS}
    if unknown or any(target._schema.is_mutable for target in targets):
        table = torch.export.default_decompositions() if hasattr(torch.export, "default_decompositions") else torch._decomp.core_aten_decompositions()
        program = program.run_decompositions({target: table[target] for target in unknown if target in table})
    lowering = _Lowering(torch)
    tensors = {**program.constants, **program.state_dict}
    given = {spec.arg.name: spec for spec in program.graph_signature.input_specs}
    wanted = list(program.graph_signature.user_outputs)
    parameters = {}
    for node in program.graph.nodes:
        spec = given.get(node.name) if node.op == "placeholder" else None
        if spec is not None and spec.kind.name != "USER_INPUT" and spec.target in tensors:
            parameters[node] = (spec.target, tensors[spec.target])
    return _walk(lowering, program.graph, parameters, wanted)


def _of_trace(module: Any, inputs: Sequence[Any]) -> Network:
    """Where torch has no torch.export: the operators that make_fx sees while the module runs on these inputs."""
    torch = _torch()
    from torch.fx.experimental import proxy_tensor  # type: ignore[import-not-found, unused-ignore]
    from torch.fx.passes.shape_prop import ShapeProp  # type: ignore[import-not-found, unused-ignore]
    from torch.nn.utils.stateless import functional_call  # type: ignore[import-not-found, unused-ignore]

    make_fx: Any = proxy_tensor.make_fx

    state = {**dict(module.named_parameters()), **dict(module.named_buffers())}
    names = list(state)

    def run(weights: List[Any], values: List[Any]) -> Any:
        made = functional_call(module, dict(zip(names, weights)), tuple(values))
        return list(made) if isinstance(made, (list, tuple)) else [made]

    # With gradients, since without them modules call one operator for a whole layer of a transformer.
    weights = [state[name].detach().requires_grad_(state[name].requires_grad) for name in names]
    with torch.enable_grad():
        traced = make_fx(run)(weights, list(inputs))
    traced.graph.eliminate_dead_code()
    placeholders = [node for node in traced.graph.nodes if node.op == "placeholder"]
    with torch.no_grad():
        ShapeProp(traced).propagate(*weights, *inputs)  # type: ignore[no-untyped-call, unused-ignore]
    for node in traced.graph.nodes:
        found = node.meta.get("tensor_meta")
        if found is not None and not hasattr(found, "shape"):
            node.meta["val"] = list(found)
    parameters = {node: (name, state[name]) for node, name in zip(placeholders, names)}
    held = {value.data_ptr(): name for name, value in state.items()}  # modules that hold weights in lists of their own
    for node in traced.graph.nodes:
        if node.op == "get_attr":
            value = getattr(traced, node.target)
            parameters[node] = (held.get(value.data_ptr(), node.target), value)
    for k, node in enumerate(placeholders[len(names):]):
        node.name = f"input_{k}" if k else "input"
    output = next(node for node in traced.graph.nodes if node.op == "output")
    return _walk(_Lowering(torch), traced.graph, parameters, [node.name for node in output.args[0]])


def _walk(g: _Lowering, graph: Any, parameters: Dict[Any, Tuple[str, Any]], outputs: List[Any]) -> Network:
    """parameters: placeholders that are weights, with their names. outputs: names of the nodes that are the result."""
    nodes = list(graph.nodes)
    for name, _ in parameters.values():
        g.taken[name] = 1
    for node in nodes:
        if node in parameters:
            g.names[node] = parameters[node][0]
            if node.users:
                g.tensor(*parameters[node])
        elif node.op == "placeholder":
            g.input(node)
        elif node.op == "call_function":
            g.call(node)
        elif node.op not in ("output", "get_attr"):
            g.node = node
            raise InputError(f"{g.place()}: a node of the kind {node.op} is not known")
    by_name = {node.name: node for node in nodes}
    for k, name in enumerate(name for name in outputs if name in by_name):
        g.output(by_name[name], f"output_{k}" if k else "output")
    return Network(g)


def network(model: Any, *inputs: Any, dynamic_shapes: Any = None, **keywords: Any) -> Network:
    """The network that commands take in place of a file: evaluate, logits, fit, graph, calibrate, distill, sensitivity, structured pruning.

    model: an exported program of torch.export, which needs no inputs and is taken by commands as it is; or a module, or a graph of torch.fx, with inputs
    as its forward takes them, tensors of any values. dynamic_shapes: as for torch.export.export, sizes that stay open, such as ({0: Dim("batch")},).
    Weights keep the names of state_dict(). An operator that is not known is an InputError with its name and module."""
    torch = _torch()
    if isinstance(model, Network):
        return model
    if _is_exported(model):
        return _of_program(model)
    if torch is None or not isinstance(model, torch.nn.Module):
        raise TypeError("an exported program is wanted, or a module of torch with its inputs")
    if not inputs and not keywords:
        inputs = _example(torch, model)
    export: Any = None
    try:
        from torch import export  # type: ignore[no-redef, attr-defined, import-not-found, unused-ignore]
    except ImportError:
        pass
    if hasattr(export, "export"):
        strict = {"strict": False} if "strict" in inspect.signature(export.export).parameters else {}  # the default since 2.7
        return _of_program(export.export(model, tuple(inputs), keywords or None, dynamic_shapes=dynamic_shapes, **strict))
    if keywords or dynamic_shapes is not None:
        raise TypeError("this torch has no torch.export: inputs by position alone, and no dynamic_shapes")
    return _of_trace(model, inputs)


def _example(torch: Any, model: Any) -> Tuple[Any, ...]:
    """Inputs with the shapes that a graph of torch.fx has noted."""
    found: List[Any] = []
    known: Any
    for node in model.graph.nodes if hasattr(model, "graph") else []:
        if node.op == "placeholder":
            known = node.meta.get("val", node.meta.get("tensor_meta", node.meta.get("example_value")))
            found.append(known if hasattr(known, "shape") and all(isinstance(size, int) for size in known.shape) else None)
    if not found or any(one is None for one in found):
        raise TypeError("a module says no shapes of its inputs: vcompress.network(module, input, ...) takes tensors of their shapes")
    return tuple(torch.zeros(tuple(one.shape), dtype=one.dtype) for one in found)
