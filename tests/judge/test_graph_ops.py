"""test_graph_ops.py - every operator of graph/ops against onnx's reference, onnxruntime and onnx.shape_inference.

The cases are in graph_op_cases.py. tests/graph/op_driver computes them, in f32 and f64; here they are made into models of
one node each, and what comes out is compared: f32 within 1e-5 of the largest element, f64 within 1e-10, integers and
shapes exactly.
"""
import math
import os
import re
import subprocess
import sys
import tempfile
import unittest
import warnings

try:
    import numpy as np
    import onnx
    from onnx import TensorProto, helper, numpy_helper
    from onnx.reference import ReferenceEvaluator
except ImportError as missing:
    print("SKIPPED: %s for %s" % (missing, sys.executable))
    sys.exit(77)
try:
    import onnxruntime
    onnxruntime.set_default_logger_severity(4)
except ImportError:
    onnxruntime = None

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from graph_op_cases import all_cases  # noqa: E402

OPSET = 23
DRIVER = os.path.join(os.environ.get("VCOMPRESS_BUILD_DIR", ""), "tests", "graph", "op_driver")
KINDS = {"f": np.float64, "i": np.int64, "b": np.bool_}
TYPES = {"f": "f", "i": "i", "b": "b", "u": "i"}


def words_of(case):
    """The case as op_driver reads it."""
    text = ["case %s %s %d" % (case.name, case.op, case.n_outputs)]
    for k, x in enumerate(case.inputs):
        if x is None:
            text.append("in -")
            continue
        constant = k in case.constants
        dims = ["%s=%d" % (case.symbols[s], s) if s in case.symbols and not constant and k not in case.fixed else str(s)
                for s in x.shape]
        if x.dtype.kind == "f":
            elements = [float(e).hex() if np.isfinite(e) else repr(float(e)) for e in x.reshape(-1)]
        else:
            elements = [str(int(e)) for e in x.reshape(-1)]
        text.append(" ".join(["in", "constant" if constant else "input", TYPES[x.dtype.kind], str(x.ndim)] + dims +
                             elements))
    for name, value in case.attrs.items():
        if isinstance(value, list) and isinstance(value[0], str):  # as the reader of ONNX files has them
            value = ",".join(value)
        if isinstance(value, str):
            text.append("attr %s s =%s" % (name, value))
        elif isinstance(value, float):
            text.append("attr %s f %s" % (name, float(np.float32(value)).hex()))
        elif isinstance(value, int):
            text.append("attr %s i %d" % (name, value))
        elif all(isinstance(v, int) for v in value):
            text.append(" ".join(["attr", name, "is", str(len(value))] + [str(v) for v in value]))
        else:
            text.append(" ".join(["attr", name, "fs", str(len(value))] + [float(np.float32(v)).hex() for v in value]))
    return "\n".join(text + ["end"])


class Answer:
    def __init__(self):
        self.problem = None
        self.shapes = {}
        self.macs = None
        self.out = {"f32": {}, "f64": {}}
        self.fail = {}


def read_answers(text):
    answers = {}
    for line in text.splitlines():
        word, _, rest = line.partition(" ")
        if word == "case":
            answer = answers[rest] = Answer()
        elif word == "problem":
            answer.problem = rest
        elif word == "fail":
            precision, _, answer.fail[precision] = rest.partition(" ")
        elif word == "macs":
            answer.macs = int(rest)
        elif word == "shape":
            w = rest.split()
            answer.shapes[int(w[0])] = (w[1], tuple(map(int, w[3:])))
        elif word == "out":
            w = rest.split()
            n = int(w[3])
            shape = tuple(map(int, w[4:4 + n]))
            kind = np.float64 if w[2] == "f" else np.int64
            answer.out[w[0]][int(w[1])] = np.array([kind(e) for e in w[4 + n:]], dtype=kind).reshape(shape)
    return answers


def run_driver(cases):
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as f:
        f.write("\n".join(words_of(c) for c in cases) + "\n")
        f.flush()
        done = subprocess.run([DRIVER, f.name], stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=300)
    if done.returncode != 0:
        raise AssertionError("op_driver: status %d, %s" % (done.returncode, done.stderr.decode()))
    return read_answers(done.stdout.decode())


def model_of(case, real):
    """A model of one node, with floats of that type."""
    names, inputs, initializers, feed = [], [], [], {}
    for k, x in enumerate(case.inputs):
        if x is None:
            names.append("")
            continue
        name = "x%d" % k
        names.append(name)
        x = case.judged.get(k, x)
        x = x.astype(real) if x.dtype.kind == "f" else x
        x = x.astype(case.types[k]) if k in case.types else x
        if k in case.constants:
            initializers.append(numpy_helper.from_array(x, name))
        else:
            inputs.append(helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape))
            feed[name] = x
    while names and names[-1] == "":
        names.pop()
    outputs = ["y%d" % k for k in range(case.n_outputs)]
    attrs = dict(case.attrs)
    attrs.update(case.onnx_attrs(real))
    node = helper.make_node(case.op, names, outputs, **attrs)
    graph = helper.make_graph([node], "g", inputs, [onnx.ValueInfoProto(name=o) for o in outputs], initializers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=10)
    return model, feed, outputs


def group_norm(x, scale, bias, num_groups, epsilon):
    y = x.reshape(x.shape[0], num_groups, -1)
    y = (y - y.mean(2, keepdims=True)) / np.sqrt(y.var(2, keepdims=True) + epsilon)
    shape = (1, -1) + (1,) * (x.ndim - 2)
    return y.reshape(x.shape) * scale.reshape(shape) + bias.reshape(shape)


def gelu(x, approximate="none"):
    if approximate == "tanh":
        return x / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x ** 3)))
    return x / 2 * (1 + erf(x / np.sqrt(2)))


def fake_quantize(x, scale=None, codes="int8", size=0):
    """What compressed-tensors' fake_quantize computes."""
    rows = x.reshape(-1, size or x.shape[-1])
    most = np.asarray(448 if codes == "f8_e4m3" else 127.5, x.dtype)
    s = np.abs(rows).max(1, keepdims=True) / most if scale is None else scale.reshape(())
    s = np.where(s == 0, np.asarray(np.finfo(np.float32).eps, x.dtype), s)
    t = rows / s
    if codes == "f8_e4m3":
        t = np.clip(t, -448, 448)
        step = np.exp2(np.floor(np.log2(np.maximum(np.abs(t), 2.0 ** -6))) - 3).astype(x.dtype)
        t = np.rint(t / step) * step
    else:
        t = np.clip(np.rint(t), -128, 127)
    return (t * s).reshape(x.shape)


erf = np.vectorize(math.erf, otypes=[np.float64])

# What the reference computes in f32 even if it is given f64, or cannot compute.
EXACT = {
    "Erf": lambda x: erf(x) if x.size else x,
    "Gelu": lambda x, **attrs: gelu(x, **attrs) if x.size else x,
    "FakeQuantize": fake_quantize,
    "HardSwish": lambda x: x * np.clip(x / 6 + 0.5, 0, 1),
    "GroupNormalization": group_norm,
    "GlobalMaxPool": lambda x: x.max(tuple(range(2, x.ndim)), keepdims=True),
}


def judge_f64(case):
    if case.op in EXACT:
        attrs = {k: float(np.float32(v)) if isinstance(v, float) else v for k, v in case.attrs.items()}
        return [EXACT[case.op](*case.inputs, **attrs)]
    model, feed, outputs = model_of(case, np.float64)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ReferenceEvaluator(model).run(outputs, feed)


def judge_f32(case):
    """onnxruntime where it can, else the reference; and who it was. FakeQuantize is ours."""
    if case.op == "FakeQuantize":
        return [fake_quantize(*(x.astype(np.float32) for x in case.inputs), **case.attrs)], "NumPy"
    model, feed, outputs = model_of(case, np.float32)
    if onnxruntime is not None and "ort" not in case.skip:
        model = onnx.shape_inference.infer_shapes(model)
        try:
            session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
            return session.run(outputs, feed), "onnxruntime"
        except Exception:  # not implemented there, for these types or at all
            pass
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ReferenceEvaluator(model).run(outputs, feed), "reference"


def difference(ours, theirs):
    """The largest difference over the largest element; both may have infinities and not-a-numbers in the same places."""
    theirs = np.asarray(theirs)
    if ours.shape != theirs.shape:
        return "the shape is %s and not %s" % (ours.shape, theirs.shape)
    if theirs.dtype.kind in "biu":
        return None if np.array_equal(ours, theirs.astype(np.int64)) else np.inf
    a, b = ours.astype(np.float64), theirs.astype(np.float64)
    odd = ~np.isfinite(b)
    if not np.array_equal(a[odd], b[odd], equal_nan=True):
        return np.inf
    a, b = a[~odd], b[~odd]
    if a.size == 0:
        return 0
    return np.abs(a - b).max() / max(np.abs(b).max(), 1e-30)


class Operators(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        known = {s.name for s in onnx.defs.get_all_schemas_with_history() if s.domain == ""}
        newest = onnx.defs.onnx_opset_version()
        cls.cases = [c for c in all_cases() if c.op in known and newest >= OPSET]
        unknown = sorted({c.op for c in all_cases()} - {c.op for c in cls.cases})
        if unknown:
            print("operators that onnx %s does not know: %s" % (onnx.__version__, " ".join(unknown)))
        cls.answers = run_driver(cls.cases)

    def check(self, case, precision, theirs, limit, judge):
        answer = self.answers[case.name]
        wrong = []
        for k, y in enumerate(theirs):
            ours = answer.out[precision].get(k)
            if ours is None:
                wrong.append("no output %d: %s" % (k, answer.problem or answer.fail.get(precision)))
                continue
            d = difference(ours, y)
            if d is not None and (isinstance(d, str) or not d <= limit):
                wrong.append("output %d, %s, %s: %s" % (k, precision, judge, d))
        return wrong

    def test_values(self):
        wrong = []
        judges = {}
        for case in self.cases:
            answer = self.answers[case.name]
            if answer.problem or answer.fail:
                wrong.append("%s: %s" % (case, answer.problem or answer.fail))
                continue
            try:
                if case.op in EXACT or "reference" not in case.skip:
                    theirs = judge_f64(case)
                    wrong += ["%s: %s" % (case, w) for w in self.check(case, "f64", theirs, 1e-10, "reference")]
                theirs, judge = judge_f32(case)
            except Exception as e:
                wrong.append("%s: the judge fails: %s" % (case, str(e)[:200]))
                continue
            ours = [answer.out["f64"][k] for k in range(case.n_outputs)]
            wrong += ["%s: %s" % (case, w) for w in self.check(case, "f32", ours, 1e-5, "our f64")]
            judges.setdefault(judge, set()).add(case.op)
            wrong += ["%s: %s" % (case, w) for w in self.check(case, "f32", theirs, 1e-5, judge)]
        only = sorted(judges.get("reference", set()) - judges.get("onnxruntime", set()))
        print("%d cases of %d operators; without onnxruntime: %s" %
              (len(self.cases), len({c.op for c in self.cases}), " ".join(only) or "none"))
        self.assertEqual(wrong, [], "%d are wrong:\n%s" % (len(wrong), "\n".join(wrong[:60])))

    def test_shapes(self):
        """What is inferred is what comes out, and what onnx infers, with numbers for the symbols."""
        wrong = []
        for case in self.cases:
            answer = self.answers[case.name]
            for k, (kind, shape) in answer.shapes.items():
                out = answer.out["f32"].get(k)
                if out is not None and out.shape != shape:
                    wrong.append("%s: inferred %s, computed %s" % (case, shape, out.shape))
            if answer.problem:
                continue
            model = onnx.shape_inference.infer_shapes(model_of(case, np.float32)[0], data_prop=True)
            for k, y in enumerate(model.graph.output):
                kind, shape = answer.shapes[k]
                element = y.type.tensor_type.elem_type
                theirs = "f" if element in (1, 10, 11, 16) else "b" if element == TensorProto.BOOL else "i"
                if element != 0 and kind != theirs:
                    wrong.append("%s: type %s, onnx %s" % (case, kind, theirs))
                if not y.type.tensor_type.HasField("shape"):
                    continue
                dims = y.type.tensor_type.shape.dim
                if len(dims) != len(shape) or any(d.HasField("dim_value") and d.dim_value != s
                                                  for d, s in zip(dims, shape)):
                    wrong.append("%s: shape %s, onnx %s" % (case, shape, [d.dim_value for d in dims]))
        self.assertEqual(wrong, [], "%d are wrong:\n%s" % (len(wrong), "\n".join(wrong[:60])))

    def test_every_operator_has_cases(self):
        root = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
        with open(os.path.join(root, "graph", "ops", "ops.inc")) as f:
            listed = {line.split('"')[1] for line in f if line.startswith("OP(")}
        with open(os.path.join(root, "kernels", "unary.inc")) as f:
            listed |= set(re.findall(r'\w+, "(\w+)", [fn],', f.read()))
        self.assertEqual(listed, {c.op for c in all_cases()})

    def test_multiply_adds(self):
        for case in self.cases:
            answer = self.answers[case.name]
            if not answer.problem:
                self.assertEqual(answer.macs, case.macs(), str(case))


if __name__ == "__main__":
    if not os.path.exists(DRIVER):
        print("SKIPPED: no op_driver in the build folder")
        sys.exit(77)
    unittest.main()
