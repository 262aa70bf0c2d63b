"""test_graph_domains.py - operators of com.microsoft, and functions that a file defines, against onnxruntime.

Each operator that graph/onnx/onnx_microsoft.c rewrites is computed by itself, with its optional inputs and without, and
the optimizer of onnxruntime.transformers fuses an encoder, which has to give what it gave before.
"""
import os
import tempfile
import subprocess
import unittest

import test_graph_onnx as base
from test_graph_onnx import drive, near, np, onnx, onnxruntime, outputs_of
from onnx import TensorProto, helper, numpy_helper

R = np.random.default_rng(5)


def f(*shape):
    return R.uniform(-2, 2, shape).astype(np.float32)


def i(low, high, *shape, kind=np.int32):
    return R.integers(low, high, shape).astype(kind)


class Domains(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def compare(self, proto, feed, limit=1e-5):
        onnx.save(proto, self.path("m.onnx"))
        np.savez(self.path("d.npz"), **feed)
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        theirs = onnxruntime.InferenceSession(self.path("m.onnx"), options, providers=["CPUExecutionProvider"]).run(
            None, feed)
        lines = drive(self.path("m.onnx"), self.path("d.npz"))
        self.assertEqual(lines["problem"], [])
        ours = outputs_of(lines)
        for output, value in zip(proto.graph.output, theirs):
            self.assertEqual(near(ours[output.name], value, limit), "", output.name)
        return [op for op, in lines["node"]]

    def one(self, op, inputs, n_outputs=1, constants=(), limit=1e-5, least_outputs=1, **attrs):
        """A model of that operator; inputs: arrays or None."""
        names = ["x%d" % k if x is not None else "" for k, x in enumerate(inputs)]
        used = range(n_outputs) if isinstance(n_outputs, int) else n_outputs
        outputs = ["y%d" % k for k in range(max(max(used) + 1, least_outputs))]
        given = [(n, x) for k, (n, x) in enumerate(zip(names, inputs)) if x is not None and k not in constants]
        graph = helper.make_graph(
            [helper.make_node(op, names, outputs, domain="com.microsoft", **attrs)], "g",
            [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(x.dtype),
                                           [x.shape[0]] + ["d%d" % s for s in x.shape[1:]]
                                           if k == 0 and op == "Gelu" else x.shape) for k, (n, x) in enumerate(given)],
            [helper.make_empty_tensor_value_info(o) for o in (outputs[k] for k in used)],
            [numpy_helper.from_array(inputs[k], names[k]) for k in constants])
        model = helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17),
                                                                      helper.make_opsetid("com.microsoft", 1)])
        return self.compare(model, dict(given), limit)

    def test_activations(self):
        self.one("Gelu", [f(2, 3, 4)])
        self.one("BiasGelu", [f(2, 3, 4), f(4)])
        self.one("FastGelu", [f(2, 3, 4), f(4)])
        self.one("FastGelu", [f(2, 3, 4)])
        self.one("QuickGelu", [f(2, 3, 4)])
        self.one("QuickGelu", [f(2, 3, 4)], alpha=1.5)

    def test_products(self):
        for a in (0, 1):
            for b in (0, 1):
                x = f(*((2, 5, 3) if a else (2, 3, 5)))
                w = f(*((4, 5) if b else (5, 4)))
                self.one("FusedMatMul", [x, w], transA=a, transB=b, alpha=0.25)
                ops = self.one("FusedMatMul", [x, w], constants=(1,), transA=a, transB=b)
                self.assertEqual(ops, (["Transpose"] if a else []) + ["MatMul"])  # a weight is transposed itself

    def test_bits(self):
        for k, block in ((64, 32), (80, 32), (48, 16)):
            blocks = -(-k // block)
            for bits in (4, 8):
                codes = i(0, 256, 6, blocks, block * bits // 8, kind=np.uint8)
                scales = np.abs(f(6 * blocks)) + np.float32(0.1)
                zeros = i(0, 256, 6 * ((blocks + 1) // 2 if bits == 4 else blocks), kind=np.uint8)
                attrs = dict(K=k, N=6, bits=bits, block_size=block, constants=(1, 2), limit=2e-5)
                self.one("MatMulNBits", [f(2, 3, k), codes, scales], **attrs)
                attrs["constants"] = (1, 2, 3)
                self.one("MatMulNBits", [f(2, 3, k), codes, scales, zeros], **attrs)
                if bits == 4:
                    self.one("MatMulNBits", [f(2, 3, k), codes, scales, zeros, None, f(6)], **attrs)

    def test_products_of_codes(self):
        """As onnxruntime rounds what goes in: to the last bit of a sum of products. Signed codes have 7 bits: with AVX2 alone two products of its
        kernel are added in 16 bits, and 2 x 255 x 64 is the most that fits."""
        for kind in (np.int8, np.uint8):
            for sizes in ((), (6,)):
                low, n = (-64, 128) if kind == np.int8 else (0, 256)
                w, scale, bias = i(low, low + n, 9, 6, kind=kind), (np.abs(f(*sizes)) / 100 + 0.005).astype("f4"), f(6)
                zero = np.full(sizes, low + 60, kind)
                self.one("DynamicQuantizeMatMul", [f(2, 5, 9), w, scale, zero, bias], constants=(1, 2, 3))
                self.one("DynamicQuantizeMatMul", [f(5, 9), w, scale], constants=(1, 2))
                self.one("MatMulIntegerToFloat", [i(0, 256, 5, 9, kind=np.uint8), w, np.float32(0.02), scale, np.uint8(77), zero, bias], constants=(1, 2, 3, 4, 5))

    def test_dynamic_lstm(self):
        """Beside LSTM with the decoded weights, exactly, and beside onnxruntime, which rounds what goes in, by less than that."""
        hidden, width = 8, 5
        for ways in (1, 2):
            for each in (False, True):
                for kind in (np.int8, np.uint8):
                    low, n = (-64, 128) if kind == np.int8 else (0, 256)  # as above
                    w, r = i(low, low + n, ways, width, 4 * hidden, kind=kind), i(low, low + n, ways, hidden, 4 * hidden, kind=kind)
                    sizes = (ways, 4 * hidden) if each else (ways,)
                    scales = [(np.abs(f(*sizes)) + 0.5).astype("f4") / 400 for _ in range(2)]
                    zeros = [np.full(sizes, 0 if kind == np.int8 else 128, kind) for _ in range(2)]
                    bias, h, c = f(ways, 8 * hidden), f(ways, 3, hidden), f(ways, 3, hidden)
                    inputs = [f(6, 3, width), w, r, bias, None, h, c, None, scales[0], zeros[0], scales[1], zeros[1]]
                    attrs = dict(hidden_size=hidden, direction="bidirectional" if ways == 2 else "forward")
                    self.one("DynamicQuantizeLSTM", inputs, 2, constants=(1, 2, 8, 9, 10, 11), limit=0.05, **attrs)
                    ours = outputs_of(drive(self.path("m.onnx"), self.path("d.npz")))

                    def decoded(codes, k):
                        shape = (ways, 1, -1)
                        x = (codes.astype("f4") - zeros[k].astype("f4").reshape(shape)) * scales[k].reshape(shape)
                        return np.ascontiguousarray(x.transpose(0, 2, 1))

                    plain = [inputs[0], decoded(w, 0), decoded(r, 1), bias, h, c]
                    names = ["x0", "x1", "x2", "x3", "x5", "x6"]
                    node = helper.make_node("LSTM", ["x0", "x1", "x2", "x3", "", "x5", "x6"], ["y0", "y1"], **attrs)
                    graph = helper.make_graph([node], "g", [helper.make_tensor_value_info(n, TensorProto.FLOAT, x.shape)
                                                            for n, x in zip(names, plain)],
                                              [helper.make_empty_tensor_value_info(n) for n in ("y0", "y1")])
                    model = helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)])
                    theirs = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"]).run(
                        None, dict(zip(names, plain)))
                    for name, value in zip(("y0", "y1"), theirs):
                        self.assertEqual(near(ours[name], value, 1e-5), "", name)

    def test_normalizations(self):
        x, skip = f(2, 3, 8), f(2, 3, 8)
        for outputs in ((0,), (0, 3)):
            self.one("SkipLayerNormalization", [x, skip, f(8), f(8)], outputs, epsilon=1e-5)
            self.one("SkipLayerNormalization", [x, skip, f(8), f(8), f(8)], outputs, epsilon=1e-5)
            self.one("SkipSimplifiedLayerNormalization", [x, skip, f(8)], outputs, epsilon=1e-5)
            self.one("SkipSimplifiedLayerNormalization", [x, skip, f(8), f(8)], outputs, epsilon=1e-5)
        ids, types = i(0, 10, 2, 5), i(0, 2, 2, 5)
        tables = [f(10, 8), f(6, 8), f(2, 8), f(8), f(8)]
        self.one("EmbedLayerNormalization", [ids, types] + tables, (0,), least_outputs=2)
        self.one("EmbedLayerNormalization", [ids, types] + tables + [None, i(0, 6, 2, 5)], (0,), least_outputs=2)
        self.one("EmbedLayerNormalization", [ids, None, tables[0], tables[1], None] + tables[3:], (0,), least_outputs=2)

    def test_attention(self):
        x, w, bias = f(2, 5, 8), f(8, 24), f(24)
        mask = np.array([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]], np.int32)
        self.one("Attention", [x, w, bias], num_heads=2)
        self.one("Attention", [x, w, bias, mask], num_heads=2)
        self.one("Attention", [x, w, bias, mask, None, f(2, 2, 5, 5)], num_heads=2)
        self.one("Attention", [x, w, bias], num_heads=4, unidirectional=1, scale=0.3)
        self.one("Attention", [x, f(8, 20), f(20)], num_heads=2, qkv_hidden_sizes=[8, 8, 4])
        q, k, v = f(2, 5, 8), f(2, 7, 8), f(2, 7, 8)
        wide = np.array([[1] * 7, [1] * 4 + [0] * 3], np.int32)
        self.one("MultiHeadAttention", [q, k, v], num_heads=2)
        self.one("MultiHeadAttention", [q, k, v, f(24)], num_heads=2)
        self.one("MultiHeadAttention", [q, k, v, f(24)], num_heads=2, constants=(3,))
        self.one("MultiHeadAttention", [q, k, v, f(24), wide], num_heads=2)
        self.one("MultiHeadAttention", [q, k, v, None, None, f(1, 2, 5, 7)], num_heads=2, scale=0.5)
        self.one("MultiHeadAttention", [q, f(2, 5, 8), f(2, 5, 8), None, None, None, f(2, 2, 3, 4), f(2, 2, 3, 4)],
                 (0, 1, 2), num_heads=2)

    def test_rotary(self):
        angles = f(9, 4)
        at = i(0, 9, 2, 5, kind=np.int64)
        for x in (f(2, 5, 24), f(2, 3, 5, 8)):
            for interleaved in (0, 1):
                self.one("RotaryEmbedding", [x, at, np.cos(angles), np.sin(angles)], interleaved=interleaved)

    def test_codes(self):
        """Operators on codes; results are the codes of onnxruntime, each of them."""
        for kind, low, high in ((np.uint8, 0, 256), (np.int8, -128, 128)):
            def codes(*shape):
                return np.array(i(low, high, *shape, kind=kind))

            def scale(x):
                return np.array(x, np.float32)

            a, b, c = [[scale(x), codes()] for x in (0.02, 0.03, 0.017)]
            x = codes(2, 3, 8, 6)
            for w, zero, bias in (([scale(0.01)], [np.array(0, kind)], []),
                                  ([np.array([0.01, 0.02, 0.005, 0.03], np.float32)], [np.zeros(4, kind)], [i(-900, 900, 4)])):
                inputs = [x, *a, codes(4, 3, 3, 3), *w, *zero, *c, *bias]
                self.one("QLinearConv", inputs, constants=(3, *range(8, len(inputs))), pads=[1, 0, 1, 0], strides=[2, 1])
            y = codes(3, 8, 6)
            for op in ("QLinearAdd", "QLinearMul"):
                self.one(op, [x, *a, y, *b, *c])
            for op, attrs in (("QLinearSigmoid", {}), ("QLinearLeakyRelu", {"alpha": 0.1}), ("QLinearGlobalAveragePool", {}),
                              ("QLinearAveragePool", {"kernel_shape": [2, 3], "strides": [2, 1]}),
                              ("QLinearSoftmax", {"axis": -1, "opset": 13}), ("QLinearSoftmax", {"axis": 1, "opset": 13})):
                self.one(op, [x, *a, scale(1 / 256 if "S" in op[7] else 0.02), np.array(0, kind)], **attrs)
            self.one("QLinearConcat", [*c, x, *a, codes(2, 1, 8, 6), *b], axis=1)
            self.one("QLinearWhere", [i(0, 2, 2, 1, 8, 6).astype(bool), x, *a, y, *b, *c])
            for swap in (0, 1):
                w = codes(*((5, 6) if swap else (6, 5)))
                inputs = [codes(4, 6), *a, w, np.linspace(0.01, 0.05, 5, dtype=np.float32), np.zeros(5, kind), i(-90, 90, 5)]
                self.one("QGemm", [*inputs, *c], transB=swap, alpha=0.5, constants=(3, 4, 5, 6))
                self.one("QGemm", inputs, transB=swap, constants=(3, 4, 5, 6))

    def test_refused(self):
        for op, inputs, attrs, says in (
                ("Attention", [f(2, 5, 8), f(8, 24), f(24), i(1, 5, 2)], {"num_heads": 2}, "[batch, keys]"),
                ("MultiHeadAttention", [f(2, 5, 2, 3, 4)], {"num_heads": 2}, "of three dimensions"),
                ("MatMulNBits", [f(2, 64), i(0, 9, 6, 2, 16, kind=np.uint8), f(12), f(12)],
                 {"K": 64, "N": 6, "bits": 4, "block_size": 32}, "zero points of integers"),
                ("FusedMatMul", [f(2, 2, 2), f(2, 2, 2)], {"transBatchA": 1}, "transBatchA"),
                ("SkipLayerNormalization", [f(2, 3, 8), f(2, 3, 8), f(8)], {}, "is for training"),
                ("GroupQueryAttention", [f(2, 5, 8)], {"num_heads": 2}, "is not supported"),
                ("QLinearAdd", [i(0, 9, 2, kind=np.uint8)], {}, "an input or a scale is missing"),
                ("QLinearConcat", [f(1), i(0, 9, 1, kind=np.uint8)], {"axis": 0}, "an input or a scale is missing"),
                ("QLinearConv", [i(0, 9, 2, kind=np.uint8)], {}, "first eight inputs"),
                ("QLinearSigmoid", [i(0, 9, 2, kind=np.uint8)], {}, "an input or a scale is missing"),
                ("RotaryEmbedding", [f(2, 5, 24), i(0, 3, 1), f(9, 4), f(9, 4)], {}, "[batch, length]")):
            with self.subTest(op), self.assertRaisesRegex(AssertionError, says.replace("[", r"\[")):
                graph = helper.make_graph(
                    [helper.make_node(op, ["x%d" % k for k in range(len(inputs))], ["y", "z"], domain="com.microsoft",
                                      **attrs)], "g",
                    [helper.make_tensor_value_info("x%d" % k, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
                     for k, x in enumerate(inputs)],
                    [helper.make_empty_tensor_value_info("y")] +
                    ([helper.make_empty_tensor_value_info("z")] if op.startswith("Skip") else []))
                onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), self.path("m.onnx"))
                lines = drive(self.path("m.onnx"))
                self.assertEqual(lines["problem"], [])

    def test_output_of_none(self):
        c, a = np.zeros((2, 4, 4, 4), np.uint8), np.float32(0.1)
        node = helper.make_node("QLinearConcat", ["a", "k", "x", "a", "k", "x", "a", "k"], ["", "s"], domain="com.microsoft", axis=1)
        graph = helper.make_graph(
            [node, helper.make_node("MaxPool", ["s"], ["z"], kernel_shape=[2, 2])], "g",
            [helper.make_tensor_value_info("x", onnx.TensorProto.UINT8, c.shape)], [helper.make_empty_tensor_value_info("z")],
            [numpy_helper.from_array(np.asarray(a), "a"), numpy_helper.from_array(np.uint8(3), "k")])
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), self.path("m.onnx"))
        self.assertIn("its output 1 ('s') is used, but the operator has none there", " ".join(drive(self.path("m.onnx"))["problem"][0]))

    # ---- functions ----

    def test_functions(self):
        text = """<ir_version: 8, opset_import: ["" : 17, "model" : 1]>
g (float[N, 4] x, float[N, 4] s) => (float[N, 4] y, float[N, 4] z)
{ [first] a = model.Scaled<by = 3.0> (x)
  [second] b = model.Scaled (a)
  [both] y, z = model.Twice<by = 0.5> (b, s) }
<opset_import: ["" : 17], domain: "model">
Scaled <by: float = 2.0, limit> (a) => (b) {
  t = Constant <value_float: float = @by> ()
  c = Mul (a, t)
  b = LeakyRelu <alpha: float = @limit> (c) }
<opset_import: ["" : 17, "model" : 1], domain: "model">
Twice <by> (a, b) => (c, d) {
  t = model.Scaled <by: float = @by> (a)
  c = Add (t, b)
  d = Neg (t) }"""
        proto = onnx.parser.parse_model(text)
        ops = self.compare(proto, {"x": f(3, 4), "s": f(3, 4)})
        self.assertEqual(ops, ["Mul", "LeakyRelu"] * 3 + ["Add", "Neg"])

    def test_functions_refused(self):
        head = '<ir_version: 8, opset_import: ["" : 17, "m" : 1]>\ng (float[N] x) => (float[N] y) { y = m.F (x) }\n'
        for text, says in (('<opset_import: ["" : 17, "m" : 1], domain: "m"> F (a) => (b) { b = m.F (a) }', "calls itself"),
                           ('<opset_import: ["" : 13], domain: "m"> F (a) => (b) { b = Neg (a) }', "another operator set"),
                           ('<opset_import: ["" : 17, "m" : 1], domain: "m"> F (a) => (b) { t = m.F (a) u = m.F (a) b = Neg (t) }',
                            "calls itself"),
                           ('<opset_import: ["" : 17], domain: "m"> G (a) => (b) { b = Neg (a) }', "domain 'm'"),
                           ('<opset_import: ["" : 17], domain: "m"> F (a) => (b) { c = Neg (a) }', "nothing makes")):
            onnx.save(onnx.parser.parse_model(head + text), self.path("m.onnx"))
            problems = drive(self.path("m.onnx"))["problem"]
            self.assertTrue(any(says in p[0] for p in problems), (says, problems))

    def test_functions_nested(self):
        """As deep as 100; only a call inside of its own function calls itself."""
        def model(n, last):
            head = '<ir_version: 8, opset_import: ["" : 17, "m" : 1]>\ng (float[N, 4] x) => (float[N, 4] y) { y = m.F0 (x) }\n'
            return head + "".join('<opset_import: ["" : 17, "m" : 1], domain: "m"> F%d (a) => (b) { b = %s }\n' % (
                k, "m.F%d (a)" % (k + 1) if k + 1 < n else last) for k in range(n))
        for n in (33, 60, 100):
            onnx.save(onnx.parser.parse_model(model(n, "Neg (a)")), self.path("m.onnx"))
            self.assertEqual([v[0] for v in drive(self.path("m.onnx"))["problem"]], [], n)
        for n, last, says in ((101, "Neg (a)", "100 functions"), (7, "m.F2 (a)", "calls itself")):
            onnx.save(onnx.parser.parse_model(model(n, last)), self.path("m.onnx"))
            problems = drive(self.path("m.onnx"))["problem"]
            self.assertTrue(any(says in p[0] for p in problems), (says, problems))

    # ---- what the quantizers of onnxruntime write ----

    def small_model(self):
        weights = dict(w1=f(8, 3, 3, 3) / 4, b1=f(8), w2=f(128, 32) / 8, b2=f(32), w3=f(5, 32) / 4, b3=f(5))
        nodes = [helper.make_node("Conv", ["x", "w1", "b1"], ["c"], pads=[1, 1, 1, 1]),
                 helper.make_node("Relu", ["c"], ["r"]),
                 helper.make_node("MaxPool", ["r"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
                 helper.make_node("Flatten", ["p"], ["flat"]), helper.make_node("MatMul", ["flat", "w2"], ["m"]),
                 helper.make_node("Add", ["m", "b2"], ["a"]),
                 helper.make_node("Gemm", ["a", "w3", "b3"], ["y"], transB=1)]
        graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3, 8, 8])],
                                  [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 5])],
                                  [numpy_helper.from_array(a, n) for n, a in weights.items()])
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)

    def test_quantizers(self):
        try:
            from onnxruntime.quantization import (CalibrationDataReader, QuantFormat, QuantType, quantize_dynamic,
                                                  quantize_static)
        except ImportError as missing:
            self.skipTest(str(missing))

        class Data(CalibrationDataReader):
            left = 3

            def get_next(self):
                self.left -= 1
                return {"x": f(4, 3, 8, 8)} if self.left >= 0 else None

        model = self.path("small.onnx")
        onnx.save(self.small_model(), model)
        out = self.path("out.onnx")
        feed = {"x": f(2, 3, 8, 8)}
        types = [(activation, weight, each)
                 for activation, weight, each in (("QInt8", "QInt8", False), ("QUInt8", "QUInt8", False),
                                                  ("QUInt8", "QInt8", True), ("QUInt8", "QUInt4", False),
                                                  ("QInt8", "QInt4", False), ("QUInt16", "QUInt8", False))
                 if hasattr(QuantType, activation) and hasattr(QuantType, weight)]
        self.assertGreater(len(types), 2)
        for activation, weight, each in types:
            with self.subTest((activation, weight, each)):
                quantize_static(model, out, Data(), quant_format=QuantFormat.QDQ, per_channel=each,
                                activation_type=getattr(QuantType, activation), weight_type=getattr(QuantType, weight))
                self.compare(onnx.load(out), feed)
                params = drive(out)["param"]
                self.assertEqual({p[1].split("_")[0].split(".")[0] for p in params} & {"w1", "w2", "w3"},
                                 {"w1", "w2", "w3"})
        # Integer operators: signed weights have 7 bits, since onnxruntime adds pairs of products in 16
        # bits on x86 processors without VNNI, where 255 * 127 * 2 saturates and 255 * 64 * 2 does not. (The session option
        # session.x64quantprecision works only together with graph optimizations.) Unsigned weights have all 8 bits.
        for kind in ("QUInt8", "QInt8"):
            quantize_static(model, out, Data(), quant_format=QuantFormat.QOperator, per_channel=kind == "QInt8",
                            activation_type=getattr(QuantType, kind), weight_type=getattr(QuantType, kind),
                            reduce_range=kind == "QInt8")
            proto = onnx.load(out)
            self.assertLessEqual({"QLinearConv", "QLinearMatMul", "QGemm"}, {n.op_type for n in proto.graph.node})
            self.compare(proto, feed)
        for weight in (QuantType.QInt8, QuantType.QUInt8):
            quantize_dynamic(model, out, weight_type=weight, reduce_range=weight == QuantType.QInt8)
            proto = onnx.load(out)
            self.assertIn("MatMulInteger", {n.op_type for n in proto.graph.node})
            self.compare(proto, feed)

    def test_scales_behind_integers(self):
        """weight_scale of ConvInteger is read by Mul: verify finds no weight missing."""
        try:
            from onnxruntime.quantization import quantize_dynamic
        except ImportError as missing:
            self.skipTest(str(missing))
        h, kind = onnx.helper, onnx.TensorProto.FLOAT
        graph = h.make_graph([h.make_node("Conv", ["x", "c.weight"], ["y"])], "g", [h.make_tensor_value_info("x", kind, [1, 3, 8, 8])],
                             [h.make_tensor_value_info("y", kind, [1, 4, 6, 6])], [h.make_tensor("c.weight", kind, [4, 3, 3, 3], f(4, 3, 3, 3).ravel())])
        onnx.save(h.make_model(graph, opset_imports=[h.make_opsetid("", 13)], ir_version=8), self.path("c.onnx"))
        quantize_dynamic(self.path("c.onnx"), self.path("c8.onnx"))
        said = subprocess.run([os.environ["VCOMPRESS_PROGRAM"], "verify", "--data", self.path("c8.onnx")], capture_output=True, text=True)
        self.assertEqual(said.returncode, 0, said.stdout)

    def test_quantizer_of_bits(self):
        try:
            from onnxruntime.quantization import QuantFormat
            from onnxruntime.quantization.matmul_nbits_quantizer import DefaultWeightOnlyQuantConfig, MatMulNBitsQuantizer
        except ImportError as missing:
            self.skipTest(str(missing))
        for kind in (QuantFormat.QOperator, QuantFormat.QDQ):
            for symmetric in (True, False):
                config = DefaultWeightOnlyQuantConfig(block_size=32, is_symmetric=symmetric, quant_format=kind)
                quantizer = MatMulNBitsQuantizer(self.small_model(), algo_config=config)
                quantizer.process()
                quantizer.model.save_model_to_file(self.path("out.onnx"))
                proto = onnx.load(self.path("out.onnx"))
                self.assertTrue({"MatMulNBits", "DequantizeLinear"} & {n.op_type for n in proto.graph.node})
                self.compare(proto, {"x": f(2, 3, 8, 8)})

    # ---- what the optimizer makes of an encoder ----

    def test_optimized_encoder(self):
        try:
            from onnxruntime.transformers import optimizer
            from onnxruntime.transformers.fusion_options import FusionOptions
            import torch
            from transformers import BertConfig, BertModel
        except ImportError as missing:
            self.skipTest(str(missing))
        torch.manual_seed(0)
        model = BertModel(BertConfig(hidden_size=16, num_attention_heads=2, num_hidden_layers=2, intermediate_size=32,
                                     vocab_size=40, max_position_embeddings=16,
                                     attn_implementation="eager"), add_pooling_layer=False).eval()
        ids, mask = torch.randint(0, 40, (2, 7)), torch.ones(2, 7, dtype=torch.int64)
        mask[1, 5:] = 0

        class Last(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.model = model

            def forward(self, ids, mask):
                return self.model(input_ids=ids, attention_mask=mask).last_hidden_state

        more = {"dynamo": False} if base.HAS_DYNAMO else {}
        try:
            torch.onnx.export(Last(), (ids, mask), self.path("bert.onnx"), input_names=["input_ids", "attention_mask"],
                              output_names=["last"], opset_version=17, do_constant_folding=True, **more)
            options = FusionOptions("bert")
            options.use_raw_attention_mask(True)
            fused = optimizer.optimize_model(self.path("bert.onnx"), model_type="bert", num_heads=2, hidden_size=16,
                                             optimization_options=options)
        except Exception as failed:  # of another version of torch, or of the optimizer
            self.skipTest(str(failed)[:200])
        fused.save_model_to_file(self.path("fused.onnx"))
        proto = onnx.load(self.path("fused.onnx"))
        self.assertIn("com.microsoft", {n.domain for n in proto.graph.node})
        self.compare(proto, {"input_ids": ids.numpy(), "attention_mask": mask.numpy()})


if __name__ == "__main__":
    unittest.main()
