"""graph_op_cases.py - the cases of test_graph_ops.py: operators of ONNX with inputs and attributes, some random.

Inputs are numpy arrays. Sizes that are symbols for us are chosen at random: the same size is the same symbol in all inputs
of a case. Floats can be represented in f32, so that both precisions begin with the same numbers.
"""
import numpy as np

CASES = []
R = np.random.RandomState(11)


class Case:
    def __init__(self, op, inputs, attrs=None, n_outputs=1, constants=(), fixed=(), skip=(), judged=None, types=None,
                 macs=0):
        self.op = op
        self.inputs = [None if x is None else np.asarray(x) for x in inputs]
        self.attrs = attrs or {}
        self.n_outputs = n_outputs
        self.constants = constants  # inputs whose elements are known
        self.fixed = fixed  # inputs whose shape has no symbols
        self.skip = skip  # judges that are wrong about the case, or do not support it: "ort", "reference"
        self.judged = judged or {}  # inputs for the judges in place of these
        self.types = types or {}  # of integer inputs, where the judges want others than int64
        self.n_macs = macs
        self.name = "%s_%d" % (op, len(CASES))
        sizes = sorted({s for x in self.inputs if x is not None for s in x.shape if s > 1})
        self.symbols = {s: "s%d" % s for s in sizes if R.rand() < 0.5}

    def onnx_attrs(self, real):
        if self.op == "ConstantOfShape" and "value" in self.attrs:
            from onnx import numpy_helper
            value = self.attrs["value"]
            return {"value": numpy_helper.from_array(np.array([value], dtype=real if isinstance(value, float) else np.int64))}
        return {}

    def macs(self):
        return self.n_macs

    def __str__(self):
        return "%s %s %s" % (self.name, [None if x is None else x.shape for x in self.inputs], self.attrs)


def case(op, inputs, attrs=None, n_outputs=1, **more):
    CASES.append(Case(op, inputs, attrs, n_outputs, **more))


def f(*shape, low=-2.0, high=2.0):
    return R.uniform(low, high, size=shape).astype(np.float32).astype(np.float64)


def i(*shape, low=-5, high=6):
    return R.randint(low, high, size=shape).astype(np.int64)


def b(*shape):
    return R.rand(*shape) < 0.5


def ints(*values):
    return np.array(values, dtype=np.int64)


def one_at_a_time():
    for op in "Sqrt Log Reciprocal".split():
        case(op, [f(3, 4, low=0.1, high=3.0)])
    for op in ("Exp Erf Sin Cos Tan Tanh Floor Ceil Round Sigmoid Softplus Softsign HardSwish Mish Relu Neg Abs Sign Elu "
               "Selu Celu LeakyRelu HardSigmoid Gelu Identity").split():
        case(op, [f(3, 4)])
        case(op, [f()], skip=("reference",) if op == "Softsign" else ())
        case(op, [f(2, 0, 3)])
    for op in "Neg Abs Sign Relu Identity".split():
        case(op, [i(3, 4)])
    case("Round", [np.array([-1.5, -0.5, 0.5, 1.5, 2.5])])
    for op in "Exp Tanh Sigmoid Softplus Mish Relu Erf Elu Selu Celu Softsign".split():
        case(op, [np.array([-200.0, -30.0, 0.0, 30.0, 80.0, np.nan])])
    case("Sqrt", [np.array([0.0, np.inf, np.nan])])
    for op, attrs in (("LeakyRelu", {"alpha": 0.3}), ("Elu", {"alpha": 1.5}), ("Celu", {"alpha": 0.7}),
                      ("Selu", {"alpha": 1.5, "gamma": 1.1}),
                      ("HardSigmoid", {"alpha": 0.3, "beta": 0.4}), ("Gelu", {"approximate": "tanh"}),
                      ("Gelu", {"approximate": "none"})):
        case(op, [f(4, 5, low=-4, high=4)], attrs)
    for least, most in ((-0.5, 0.7), (None, 0.7), (-0.5, None), (None, None)):
        case("Clip", [f(4, 5)] + [None if e is None else np.float64(np.float32(e)) for e in (least, most)])
    case("Clip", [i(4, 5), np.int64(-2), np.int64(3)])
    case("PRelu", [f(2, 3, 4), f(3, 1)])
    case("PRelu", [f(2, 3, 4), f(4)])
    case("IsNaN", [np.array([1.0, np.nan, np.inf])])
    for attrs in ({}, {"detect_negative": 0}, {"detect_positive": 0}):
        case("IsInf", [np.array([1.0, np.nan, np.inf, -np.inf])], attrs)
    case("Not", [b(3, 4)])
    for to in (1, 7, 9, 6):
        case("Cast", [f(3, 4, low=-9, high=9)], {"to": to})
        case("Cast", [i(3, 4)], {"to": to})
        case("Cast", [b(3, 4)], {"to": to})
    case("Cast", [i(3, 4, low=-300, high=300)], {"to": 2})
    case("Cast", [i(3, 4, low=-300, high=300)], {"to": 3})


def broadcasting():
    pairs = [((3, 4), (3, 4)), ((3, 4), (4,)), ((2, 1, 4), (3, 1)), ((), (2, 3)), ((2, 3), ()), ((1,), (1, 1)),
             ((2, 0), (1,)), ((5, 1, 2, 1), (3, 1, 7))]
    for a, c in pairs:
        for op in "Add Sub Mul Div Greater Less Equal GreaterOrEqual LessOrEqual".split():
            case(op, [f(*a), f(*c, low=0.5)])
    for op in "Add Sub Mul Greater Less Equal GreaterOrEqual LessOrEqual Min Max".split():
        case(op, [i(3, 4), i(4)])
    case("Div", [i(3, 4), np.abs(i(4)) + 1])
    case("Div", [i(20), -np.abs(i(20)) - 1])
    case("Mod", [i(20), np.abs(i(20)) + 1])
    case("Mod", [i(20), -np.abs(i(20)) - 1])
    case("Mod", [i(20), np.abs(i(20)) + 1], {"fmod": 1})
    case("Mod", [f(20), f(20, low=0.5)], {"fmod": 1})
    case("Equal", [b(3, 4), b(4)])
    for op in "And Or Xor".split():
        case(op, [b(3, 4), b(4)])
        case(op, [b(2, 1), b(1, 3)])
    case("Pow", [f(3, 4, low=0.1), f(4)])
    case("Pow", [f(3, 4), np.float64(2)])
    case("Pow", [f(3, 4), np.int64(3)])
    case("Pow", [i(3, 4), np.int64(3)])
    for op in "Min Max".split():
        case(op, [f(3, 4), f(2, 1, 1)])
        case(op, [f(3, 1), f(4)])
    case("Max", [np.array([1.0, np.nan]), np.array([np.nan, 2.0])])
    case("Where", [b(3, 1), f(4), f(2, 1, 1)])
    case("Where", [b(3, 4), f(3, 4), f()])
    case("Where", [b(), i(3), i(3)])


def products():
    for a, c, n in (((3, 4), (4, 5), 60), ((2, 3, 4), (4, 5), 120), ((2, 1, 3, 4), (5, 4, 2), 240), ((4,), (4, 5), 20),
                    ((3, 4), (4,), 12), ((4,), (4,), 4), ((4,), (2, 4, 3), 24), ((0, 4), (4, 5), 0), ((3, 0), (0, 5), 0)):
        case("MatMul", [f(*a), f(*c)], macs=n)
    for ta in (0, 1):
        for tb in (0, 1):
            for c in (None, (3, 5), (5,), (3, 1), (1, 5), ()):
                inputs = [f(*((4, 3) if ta else (3, 4))), f(*((5, 4) if tb else (4, 5)))]
                attrs = {"transA": ta, "transB": tb}
                if c is not None:
                    inputs.append(f(*c))
                    attrs.update(alpha=0.5, beta=0.25)
                case("Gemm", inputs, attrs, macs=60)


def out_size(size, kernel, stride, dilation, pads):
    return (size + pads - (kernel - 1) * dilation - 1) // stride + 1


def convolutions():
    for n in (1, 2, 3):
        for group in (1, 2, 4):
            for variant in range(4):
                size = [5 + 2 * k for k in range(n)]
                kernel = [int(R.randint(1, 4)) for _ in range(n)]
                attrs = {"group": group}
                if variant >= 1:
                    attrs["strides"] = [int(R.randint(1, 4)) for _ in range(n)]
                if variant >= 2:
                    attrs["dilations"] = [int(R.randint(1, 3)) for _ in range(n)]
                    attrs["pads"] = [int(R.randint(0, 3)) for _ in range(2 * n)]
                if variant == 3:
                    attrs["kernel_shape"] = kernel
                s, d, p = (attrs.get("strides", [1] * n), attrs.get("dilations", [1] * n), attrs.get("pads", [0] * 2 * n))
                out = [out_size(size[k], kernel[k], s[k], d[k], p[k] + p[k + n]) for k in range(n)]
                each = 4 // group * int(np.prod(kernel))
                inputs = [f(2, 4, *size), f(8, 4 // group, *kernel)] + ([f(8)] if variant % 2 else [])
                case("Conv", inputs, dict(attrs), fixed=(1, 2), macs=2 * 8 * int(np.prod(out)) * each)
                more = dict(attrs)
                if variant >= 1:
                    more["output_padding"] = [min(1, s[k] - 1) for k in range(n)]
                inputs = [f(2, 4, *size), f(4, 3, *kernel)] + ([f(3 * group)] if variant % 2 else [])
                case("ConvTranspose", inputs, more, fixed=(1, 2), skip=("reference",) if group > 1 else (), macs=2 * 4 * int(np.prod(size)) * 3 * int(np.prod(kernel)))
    for pad in ("VALID", "SAME_UPPER", "SAME_LOWER"):
        for stride in (1, 2, 3):
            for size in (6, 7):
                out = -(-size // stride) if pad != "VALID" else out_size(size, 3, stride, 1, 0)
                case("Conv", [f(1, 2, size, size), f(3, 2, 3, 3)], {"auto_pad": pad, "strides": [stride, stride]},
                     fixed=(1, 2), macs=3 * out * out * 18)
                case("ConvTranspose", [f(1, 2, size, size), f(2, 3, 4, 4)], {"auto_pad": pad, "strides": [stride, stride]},
                     fixed=(1, 2), macs=2 * size * size * 48)
    for pad in ("NOTSET", "SAME_UPPER"):
        case("ConvTranspose", [f(1, 2, 5, 5), f(2, 3, 4, 4)],
             {"auto_pad": pad, "strides": [2, 2], "output_shape": [9, 10]}, fixed=(1, 2), skip=("reference",), macs=2 * 25 * 48)


def pools():
    for n in (1, 2, 3):
        for variant in range(6):
            size = [6 + k for k in range(n)]
            kernel = [int(R.randint(2, 4)) for _ in range(n)]
            attrs = {"kernel_shape": kernel}
            if variant >= 1:
                attrs["strides"] = [int(R.randint(1, 4)) for _ in range(n)]
            if variant >= 2:
                attrs["pads"] = [int(R.randint(0, k)) for k in kernel + kernel]
            if variant >= 3:
                attrs["ceil_mode"] = 1
            if variant >= 4:
                attrs["dilations"] = [int(R.randint(1, 3)) for _ in range(n)]
            case("MaxPool", [f(2, 3, *size)], dict(attrs))
            for pads in (0, 1):  # onnx 1.23's reference is wrong for some windows of ceil_mode with pads; onnxruntime judges these
                case("AveragePool", [f(2, 3, *size)], dict(attrs, count_include_pad=pads),
                     skip=("reference",) if variant >= 3 else ())
    for pad in ("VALID", "SAME_UPPER", "SAME_LOWER"):
        for stride in (1, 2, 3):
            attrs = {"kernel_shape": [3, 2], "auto_pad": pad, "strides": [stride, stride]}
            case("MaxPool", [f(1, 2, 7, 8)], dict(attrs), skip=("reference",))
            case("AveragePool", [f(1, 2, 7, 8)], dict(attrs))
    for op in ("GlobalAveragePool", "GlobalMaxPool"):
        for shape in ((2, 3, 5), (2, 3, 4, 5), (1, 2, 2, 3, 4)):
            case(op, [f(*shape)], skip=("reference",) if op == "GlobalMaxPool" else ())


def normalizations():
    for op in ("Softmax", "LogSoftmax"):
        for axis in (-1, 0, 1):
            case(op, [f(2, 3, 4, high=9.0)], {"axis": axis})
        case(op, [f(5)])
        case(op, [np.array([[1000.0, 999.0], [-1000.0, -np.inf]])])
    for shape in ((2, 4), (2, 4, 5), (2, 4, 3, 5)):
        four = [f(4), f(4), f(4), f(4, low=0.1)]
        case("BatchNormalization", [f(*shape)] + four)
        case("BatchNormalization", [f(*shape)] + four, {"epsilon": 0.1, "momentum": 0.5})
    for shape in ((2, 4, 5), (2, 4, 3, 5)):
        case("InstanceNormalization", [f(*shape), f(4), f(4)], {"epsilon": 0.01})
        case("InstanceNormalization", [f(*shape), f(4), f(4)])
        for groups in (1, 2, 4):
            case("GroupNormalization", [f(*shape), f(4), f(4)], {"num_groups": groups, "epsilon": 0.01})
    for axis in (-1, 1, 2):
        rest = (3, 4, 5)[axis if axis >= 0 else 2:]
        case("LayerNormalization", [f(3, 4, 5), f(*rest), f(*rest)], {"axis": axis})
        case("LayerNormalization", [f(3, 4, 5), f(*rest)], {"axis": axis, "epsilon": 0.1})
        case("RMSNormalization", [f(3, 4, 5), f(*rest)], {"axis": axis, "epsilon": 0.01})
    case("LayerNormalization", [f(3, 4, 5), f(5), f(5)], n_outputs=3)
    case("RMSNormalization", [f(3, 4), f(4)])


def attentions():
    def macs(batch, heads, q, k, size, v):
        return batch * heads * q * k * (size + v)

    for heads, kv in ((4, 4), (4, 2), (4, 1)):
        for causal in (0, 1):
            for mask in (None, (5, 7), (2, 1, 5, 7), (1, 4, 5, 7), (2, 4, 1, 7)):
                attrs = {"is_causal": causal}
                m = None if mask is None else f(*mask)
                if mask is not None and len(mask) == 4:
                    m = b(*mask)
                    m[..., 0] = True
                q, k, v = f(2, heads, 5, 6), f(2, kv, 7, 6), f(2, kv, 7, 3)
                # The reference wants a mask of all queries if it is causal, too.
                full = {} if m is None else {3: np.broadcast_to(m, m.shape[:-2] + (5, 7))}
                case("Attention", [q, k, v, m], attrs, judged=full, macs=macs(2, heads, 5, 7, 6, 3))
        attrs = {"q_num_heads": heads, "kv_num_heads": kv, "scale": 0.25, "softcap": 2.0}
        case("Attention", [f(2, 5, heads * 6), f(2, 7, kv * 6), f(2, 7, kv * 8)], attrs, fixed=(0, 1, 2),
             macs=macs(2, heads, 5, 7, 6, 8))
        case("Attention", [f(2, 5, heads * 6), f(2, 5, kv * 6), f(2, 5, kv * 8)], dict(attrs, is_causal=1), fixed=(0, 1, 2),
             macs=macs(2, heads, 5, 5, 6, 8))
        case("Attention", [f(2, heads, 5, 6), f(2, kv, 5, 6), f(2, kv, 5, 3), None, f(2, kv, 4, 6), f(2, kv, 4, 3)],
             {"is_causal": 1}, 3, fixed=(0, 1, 2, 4, 5), macs=macs(2, heads, 5, 9, 6, 3))
    nobody = np.ones((5, 7), dtype=bool)
    nobody[2] = False
    case("Attention", [f(1, 2, 5, 6), f(1, 2, 7, 6), f(1, 2, 7, 3), nobody], macs=macs(1, 2, 5, 7, 6, 3))
    for interleaved in (0, 1):
        for part in (0, 4):
            half = (part or 8) // 2
            attrs = {"interleaved": interleaved}
            if part:
                attrs["rotary_embedding_dim"] = part
            at = R.randint(0, 10, size=(2, 5)).astype(np.int64)
            # The reference wants num_heads for a part, the runtime takes it only with three dimensions.
            case("RotaryEmbedding", [f(2, 3, 5, 8), f(10, half), f(10, half), at], dict(attrs, num_heads=3), fixed=(0, 1, 2))
            case("RotaryEmbedding", [f(2, 5, 24), f(10, half), f(10, half), at], dict(attrs, num_heads=3), fixed=(0, 1, 2))
            case("RotaryEmbedding", [f(2, 3, 5, 8), f(2, 5, half), f(2, 5, half)], dict(attrs, num_heads=3), fixed=(0, 1, 2))


def reductions():
    for op in "Sum Mean Prod Max Min LogSumExp".split():
        for axes in (None, (0,), (1, -1), (0, 1, 2)):
            for keep in (0, 1):
                inputs = [f(2, 3, 4)] + ([] if axes is None else [ints(*axes)])
                case("Reduce" + op, inputs, {"keepdims": keep}, constants=(1,))
        case("Reduce" + op, [f(2, 3), ints()], {"noop_with_empty_axes": 1}, constants=(1,), skip=("ort",)
             if op == "LogSumExp" else ())
    case("ReduceSum", [i(2, 3, 4), ints(1)], constants=(1,))
    case("ReduceMax", [i(2, 3, 4), ints(-1)], {"keepdims": 0}, constants=(1,))
    case("ReduceMin", [i(2, 3, 4), ints(-1)], {"keepdims": 0}, constants=(1,))
    case("ReduceProd", [i(5), ints(0)], {"keepdims": 0}, constants=(0, 1))
    case("ReduceSum", [f(2, 0, 3), ints(1)], constants=(1,))
    for op in ("ArgMax", "ArgMin"):
        for axis in (0, 1, -1):
            for last in (0, 1):
                case(op, [i(3, 4, 5, low=0, high=3).astype(np.float64)],
                     {"axis": axis, "keepdims": int(R.randint(2)), "select_last_index": last})
        case(op, [i(3, 4, low=0, high=3)])
    for axis in (0, 1, -1):
        for largest in (0, 1):
            case("TopK", [f(3, 4, 5), ints(2)], {"axis": axis, "largest": largest}, 2, constants=(1,))
    case("TopK", [i(3, 9, low=0, high=4), ints(5)], {}, 2, constants=(1,))
    for exclusive in (0, 1):
        for reverse in (0, 1):
            case("CumSum", [f(3, 4, 5), np.int64(1)], {"exclusive": exclusive, "reverse": reverse}, constants=(1,))
    case("CumSum", [i(3, 4), np.int64(-1)], constants=(1,))


def shapes():
    case("Shape", [f(2, 3, 4)])
    for start, end in ((1, 3), (-2, 9), (0, -1), (2, 1)):
        case("Shape", [f(2, 3, 4)], {"start": start, "end": end})
    case("Size", [f(2, 3, 4)])
    case("Dropout", [f(2, 3)])
    case("Dropout", [f(2, 3), np.float64(0.25), np.bool_(False)], {}, 2, constants=(1, 2))
    for axis in (0, 1, 2, 3, -1):
        case("Flatten", [f(2, 3, 4)], {"axis": axis})
    for shape in ((6, 4), (-1, 4), (0, -1), (2, 0, 4), (24,), (1, 24, 1), (-1,)):
        case("Reshape", [f(2, 3, 4), ints(*shape)], constants=(1,))
    case("Reshape", [f(0, 3), ints(3, 0)], {"allowzero": 1}, constants=(1,))
    case("Squeeze", [f(1, 3, 1, 4)])
    case("Squeeze", [f(1, 3, 1, 4), ints(0)], constants=(1,))
    case("Squeeze", [f(1, 3, 1, 4), ints(-2, 0)], constants=(1,))
    case("Unsqueeze", [f(3, 4), ints(0)], constants=(1,))
    case("Unsqueeze", [f(3, 4), ints(1, -1)], constants=(1,))
    case("Unsqueeze", [np.int64(7), ints(0)], constants=(0, 1))
    case("Squeeze", [ints(7), ints(0)], constants=(0, 1))


def moves():
    case("Transpose", [f(2, 3, 4)])
    for perm in ((0, 2, 1), (2, 0, 1), (1, 0, 2)):
        case("Transpose", [f(2, 3, 4)], {"perm": list(perm)})
    case("Transpose", [i(2, 3, 4, 5)], {"perm": [0, 2, 1, 3]})
    for axis in (0, 1, -1):
        case("Concat", [f(2, 3, 4), f(2, 3, 4)], {"axis": axis})
    case("Concat", [i(2, 3), i(5, 3), i(0, 3)], {"axis": 0})
    case("Concat", [ints(1, 2), ints(3), ints()], {"axis": 0}, constants=(0, 1, 2))
    for starts, ends, axes, steps in (((0,), (2,), (0,), None), ((1, 0), (3, 3), (0, 2), (1, 2)), ((-1,), (-9,), (1,), (-1,)),
                                      ((-2,), (2**62,), (-1,), None), ((3,), (-2**62,), (0,), (-2,)), ((2,), (1,), (0,), None),
                                      ((0, 1, 2), (9, -1, 4), None, None), ((1,), (1000,), (1,), (3,)),
                                      ((-100,), (2,), (0,), None), ((100,), (-100,), (2,), (-3,))):
        inputs = [f(5, 6, 7), ints(*starts), ints(*ends)]
        if axes is not None:
            inputs.append(ints(*axes))
            if steps is not None:
                inputs.append(ints(*steps))
        case("Slice", inputs, constants=(1, 2, 3, 4), fixed=(0,))
    case("Slice", [f(5, 6, 7), ints(1), ints(2**63 - 1), ints(1)], constants=(1, 2, 3))
    case("Slice", [f(5, 6, 7), ints(-1), ints(-2**63), ints(1), ints(-1)], constants=(1, 2, 3, 4))
    case("Slice", [ints(1, 2, 3, 4, 5), ints(-1), ints(-9), ints(0), ints(-2)], constants=(0, 1, 2, 3, 4))
    case("Slice", [ints(1, 2, 3, 4, 5), ints(1), ints(4), ints(0)], constants=(0, 1, 2, 3))
    case("Split", [f(2, 6)], {"axis": 1, "num_outputs": 3}, 3)
    case("Split", [f(2, 7)], {"axis": -1, "num_outputs": 3}, 3)
    case("Split", [f(2, 7), ints(3, 0, 4)], {"axis": 1}, 3, constants=(1,))
    case("Split", [i(5, 2), ints(1, 4)], {}, 2, constants=(1,))
    for shape in ((3, 4), (2, 3, 4), (2, 1, 1), (4,), ()):
        case("Expand", [f(3, 1), ints(*shape)], constants=(1,), skip=() if shape else ("ort",))
    case("Expand", [np.int64(7), ints(3)], constants=(0, 1))
    for repeats in ((1, 2, 3), (2, 1, 1), (0, 1, 1)):
        case("Tile", [f(2, 3, 2), ints(*repeats)], constants=(1,))
    for mode in ("constant", "reflect", "edge", "wrap"):
        case("Pad", [f(3, 4), ints(1, 2, 2, 0)], {"mode": mode}, constants=(1,))
        case("Pad", [f(3, 4, 5), ints(2, 1), None, ints(-1)], {"mode": mode}, constants=(1, 3))
    case("Pad", [f(3, 4), ints(1, 2, 2, 0), np.float64(0.5)], constants=(1,))
    case("Pad", [f(3, 4), ints(-1, 2, 0, -2)], constants=(1,), skip=("reference",))
    case("Pad", [i(3, 4), ints(1, 0, 1, 0), np.int64(7)], constants=(1,))
    case("DepthToSpace", [f(2, 12, 3, 4)], {"blocksize": 2})
    case("DepthToSpace", [f(2, 12, 3, 4)], {"blocksize": 2, "mode": "CRD"})
    case("DepthToSpace", [f(1, 18, 2, 2)], {"blocksize": 3, "mode": "DCR"})
    case("SpaceToDepth", [f(2, 3, 4, 6)], {"blocksize": 2})


def recurrent():
    """RNN, GRU and LSTM: directions, biases, states, lengths, peepholes, functions, clips."""
    steps, rows, width, hidden = 7, 3, 5, 4
    for op, gates in (("RNN", 1), ("GRU", 3), ("LSTM", 4)):
        functions = {"RNN": ["Relu"], "GRU": ["HardSigmoid", "Softsign"], "LSTM": ["Sigmoid", "Tanh", "Relu"]}[op]
        outputs = 3 if op == "LSTM" else 2
        for direction in ("forward", "reverse", "bidirectional"):
            n = 2 if direction == "bidirectional" else 1
            weights = [f(steps, rows, width), f(n, gates * hidden, width, low=-1, high=1), f(n, gates * hidden, hidden, low=-1, high=1)]
            bias, state, cell = f(n, 2 * gates * hidden), f(n, rows, hidden), f(n, rows, hidden)
            lengths = np.array([7, 3, 5])
            attrs = {"hidden_size": hidden, "direction": direction}
            more = [state] + ([cell, f(n, 3 * hidden)] if op == "LSTM" else [])
            recurrent_case(op, weights, attrs, outputs)
            recurrent_case(op, weights + [bias, None, state] + ([cell] if op == "LSTM" else []), attrs, outputs)
            recurrent_case(op, weights + [bias, lengths] + more, attrs, outputs)
            recurrent_case(op, weights + [bias, None, None], {**attrs, "clip": 0.5, "activations": functions * n}, outputs)
            if op == "GRU":
                recurrent_case(op, weights + [bias, lengths, state], {**attrs, "linear_before_reset": 1}, outputs)
            # Numbers of functions that have some, in the order of the list; without numbers, where there is a default.
            numbered = ["LeakyRelu", "HardSigmoid", "Tanh"] if op == "LSTM" else ["ScaledTanh", "Elu"] if op == "GRU" else ["Affine"]
            alphas = [0.3, 0.15] if op != "RNN" else [0.7]
            recurrent_case(op, weights + [bias], {**attrs, "activations": numbered * n, "activation_alpha": alphas * n,
                                                  "activation_beta": [0.6] * n}, outputs)
            plain = {"RNN": ["ThresholdedRelu"], "GRU": ["HardSigmoid", "Elu"], "LSTM": ["HardSigmoid", "LeakyRelu", "Softplus"]}[op]
            recurrent_case(op, weights + [bias], {**attrs, "activations": plain * n}, outputs)


def recurrent_case(op, inputs, attrs, n_outputs):
    while inputs[-1] is None:
        inputs = inputs[:-1]
    n, rows, hidden = inputs[2].shape[0], inputs[0].shape[1], inputs[2].shape[2]
    macs = n * inputs[0].shape[0] * rows * inputs[1].shape[1] * (inputs[0].shape[2] + hidden)
    case(op, inputs, attrs, n_outputs, fixed=tuple(range(8)), types={4: np.int32}, macs=macs, skip=("reference",))


def indices():
    for axis in (0, 1, -1):
        case("Gather", [f(4, 5, 6), i(2, 3, low=-4, high=4)], {"axis": axis}, fixed=(1,))
    case("Gather", [f(4, 5), np.int64(-1)], {"axis": 1})
    case("Gather", [f(9, 5), i(2, 3, low=0, high=9)])
    case("Gather", [i(4, 5), i(0, low=0, high=4)])
    case("Gather", [ints(5, 6, 7), ints(-1, 0)], constants=(0, 1))
    case("Gather", [ints(5, 6, 7), np.int64(1)], constants=(0, 1))
    for axis in (0, 1, -1):
        case("GatherElements", [f(4, 5, 6), i(3, 5, 2, low=-4, high=4)], {"axis": axis}, fixed=(1,), skip=("reference",))
    case("GatherND", [f(4, 5, 6), i(3, 2, low=-4, high=4)], fixed=(1,))
    case("GatherND", [f(4, 5, 6), i(3, 3, low=-4, high=4)], fixed=(1,))
    case("GatherND", [f(2, 5, 6), i(2, 3, 1, low=-5, high=5)], {"batch_dims": 1}, fixed=(1,))
    for how in ("none", "add", "mul", "min", "max"):
        case("ScatterND", [f(4, 5, 6), ints(0, 2, 3).reshape(3, 1), f(3, 5, 6)], {"reduction": how}, fixed=(1,))
        case("ScatterElements", [f(4, 5), ints(0, 2, 3, 1, 3, 0).reshape(2, 3), f(2, 3)], {"reduction": how, "axis": 0},
             fixed=(1,))
    case("ScatterND", [f(4, 5), ints(0, 2, 3, 1).reshape(2, 2), f(2)], fixed=(1,))
    case("ScatterElements", [f(4, 5), ints(-1, 2, 3, 0).reshape(2, 2), f(2, 2)], {"axis": 1}, fixed=(1,))
    for axis in (-1, 0, 1):
        case("OneHot", [i(2, 3, low=0, high=4), np.int64(4), np.array([0.0, 1.0])], {"axis": axis}, constants=(1,),
             fixed=(0, 2))
    case("OneHot", [ints(-1, 2, 9), np.int64(4), ints(5, 7)], constants=(1,), fixed=(0, 2))
    for upper in (0, 1):
        case("Trilu", [f(3, 4)], {"upper": upper})
        case("Trilu", [f(2, 4, 3), np.int64(1)], {"upper": upper}, constants=(1,))
        case("Trilu", [i(4, 4), np.int64(-2)], {"upper": upper}, constants=(1,))
    case("ConstantOfShape", [ints(2, 3)], constants=(0,))
    case("ConstantOfShape", [ints(2, 3)], {"value": 1.5}, constants=(0,))
    case("ConstantOfShape", [ints(4)], {"value": 7}, constants=(0,))
    case("ConstantOfShape", [ints()], {"value": 7}, constants=(0,))
    for start, limit, step in ((0, 5, 1), (2, 11, 3), (5, 0, -2), (3, 3, 1), (0, 100, 1)):
        case("Range", [np.int64(start), np.int64(limit), np.int64(step)], constants=(0, 1, 2))
        case("Range", [np.float64(start), np.float64(limit), np.float64(step)], constants=(0, 1, 2))


def sizes_of_pictures():
    for coordinates in ("half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric", "half_pixel_symmetric"):
        for sizes, scales in (((1, 2, 7, 9), None), ((1, 2, 2, 3), None), ((1, 2, 1, 8), None), (None, (1, 1, 2, 2)),
                              (None, (1, 1, 1.5, 0.5))):
            at = [f(1, 2, 4, 6), None, None if scales is None else np.array(scales, dtype=np.float64)]
            at += [] if sizes is None else [ints(*sizes)]
            attrs = {"coordinate_transformation_mode": coordinates}
            case("Resize", at, dict(attrs, mode="linear"), constants=(2, 3))
            f32 = {"constants": (2, 3), "skip": ("reference",)}  # it computes weights of cubic with 32 bits
            case("Resize", at, dict(attrs, mode="cubic"), **f32)
            case("Resize", at, dict(attrs, mode="cubic", cubic_coeff_a=-0.5, exclude_outside=1), **f32)
            if coordinates == "half_pixel":  # as PyTorch's exporter writes antialias
                for mode in ("linear", "cubic"):
                    case("Resize", at, dict(attrs, mode=mode, antialias=1, cubic_coeff_a=-0.5, exclude_outside=1), **f32)
            for rounding in ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil"):
                if coordinates in ("asymmetric", "half_pixel"):
                    case("Resize", at, dict(attrs, mode="nearest", nearest_mode=rounding), constants=(2, 3))
    for mode in ("linear", "cubic"):
        case("Resize", [f(1, 2, 4, 6), np.array([0, 0, 0.1, -0.1, 1, 1, 0.7, 1.2]), None, ints(1, 2, 5, 9)],
             {"mode": mode, "coordinate_transformation_mode": "tf_crop_and_resize"}, constants=(1, 3), skip=("reference",))
    case("Resize", [f(2, 3, 5), None, np.array([2.0])], {"mode": "linear", "axes": [2]}, constants=(2,), skip=("ort",))
    case("Resize", [f(1, 2, 3, 4), None, np.array([1.0, 1.0, 2.0, 2.0])],
         {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}, constants=(2,))


def codes():
    for type_, number, low, high in ((np.uint8, 2, 0, 256), (np.int8, 3, -128, 128)):
        x = f(3, 4, 5, low=-30, high=30)
        x.reshape(-1)[:6] = (0.5, 1.5, -0.5, 1e4, -1e4, 2.5)
        for shape, axis in (((), 1), ((4,), 1), ((5,), -1), ((3,), 0)):
            scale, zero = f(*shape, low=0.1, high=0.5), i(*shape, low=3, high=9)
            case("QuantizeLinear", [x, scale, zero], {"axis": axis, "output_dtype": number}, types={2: type_})
            # With a single scale, the reference with NumPy 1 computes in f32.
            case("DequantizeLinear", [i(3, 4, 5, low=low, high=high), scale, zero], {"axis": axis},
                 types={0: type_, 2: type_}, skip=("reference",) if shape == () else ())
        case("QuantizeLinear", [f(6, 4), f(3, 4, low=0.1, high=0.5), i(3, 4, low=0, high=9)],
             {"axis": 0, "block_size": 2, "output_dtype": number}, types={2: type_})
        case("DequantizeLinear", [i(6, 4, low=low, high=high), f(6, 2, low=0.1, high=0.5), i(6, 2, low=0, high=9)],
             {"axis": 1, "block_size": 2}, types={0: type_, 2: type_})
    case("QuantizeLinear", [f(6, 4, high=90), np.float64(0.5)])
    case("DequantizeLinear", [i(6, 4), np.float64(0.5)], types={0: np.int8})
    for attrs in ({}, {"codes": "f8_e4m3"}, {"size": 4}, {"codes": "f8_e4m3", "size": 2}):
        x = f(3, 5, 8, low=-30, high=30)
        x[0, 0] = 0
        x[0, 1] *= 2.0 ** -20
        x[1, 1, ::2] = (0.25, -0.25, 127.5, -127.5)
        case("FakeQuantize", [x], attrs, fixed=(0,))
        case("FakeQuantize", [x, np.float64(0.125)], attrs, fixed=(0,))
        case("FakeQuantize", [f(6, high=90), f(1, low=0.01, high=0.02)], {k: v for k, v in attrs.items() if k == "codes"})


def more_products():
    case("MatMul", [i(2, 3, 4), i(4, 5)], macs=120, types={0: np.int32, 1: np.int32})
    for equation, shapes, n in (
            ("ij->ji", [(3, 4)], 0), ("ij->", [(3, 4)], 0), ("ii->i", [(4, 4)], 0), ("bii -> b", [(2, 3, 3)], 0),
            ("ij,jk->ik", [(3, 4), (4, 5)], 60), ("ij,jk", [(3, 4), (4, 5)], 60), ("ba,cb", [(3, 4), (5, 3)], 60),
            ("i,j->ij", [(3,), (4,)], 12), ("i,i", [(5,), (5,)], 5), ("...ij,...jk->...ik", [(2, 3, 4), (4, 5)], 120),
            ("...ij,...jk", [(2, 1, 3, 4), (6, 4, 5)], 720), ("bhid,bhjd->bhij", [(2, 3, 4, 5), (2, 3, 6, 5)], 720),
            ("bqhd,bkhd->bhqk", [(2, 4, 3, 5), (2, 6, 3, 5)], 720), ("i...->...", [(3, 2, 4)], 0),
            ("...->...", [(2, 3)], 0), ("ij,jk,kl->il", [(2, 3), (3, 4), (4, 5)], 240), ("i,ij,j", [(2,), (2, 3), (3,)], 12),
            (",ij->ij", [(), (2, 3)], 6), ("Ab,bC->AC", [(2, 3), (3, 4)], 24), ("ij,jk->ik", [(3, 0), (0, 2)], 0),
            ("...ij->...i", [(2, 3, 4)], 0)):
        case("Einsum", [f(*x) for x in shapes], {"equation": equation.replace(" ", "")}, macs=n)
    for op, attrs in (("Sinh", {}), ("Cosh", {}), ("Shrink", {}), ("Shrink", {"lambd": 0.7, "bias": 0.2}), ("ThresholdedRelu", {"alpha": -0.3})):
        case(op, [f(3, 4)], attrs)
        case(op, [np.array([-60.0, -1e-6, 0.0, 1e-6, 60.0])], attrs)


def all_cases():
    if not CASES:
        for make in (one_at_a_time, broadcasting, products, convolutions, pools, normalizations, attentions, recurrent, reductions,
                     shapes, moves, indices,
                     sizes_of_pictures, codes, more_products):
            make()
    return CASES
