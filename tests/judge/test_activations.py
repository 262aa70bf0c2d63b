"""test_activations.py - static int8 of ONNX graphs: onnxruntime has to run them with kernels on codes, and to answer what
vcompress says that the file computes; quantize_static with the same rows is the peer."""
import collections
import os
import sys
import unittest

from judge_support import SMALL, Judge, main, np, run

try:
    import onnx
    import onnxruntime
    from onnx import TensorProto as T, helper, numpy_helper
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
except ImportError as e:
    print("SKIPPED: %s (the packages onnx and onnxruntime, for %s)" % (e, sys.executable))
    sys.exit(77)

onnxruntime.set_default_logger_severity(4)
FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "examples", "digits")
FLOATS = {"Conv", "FusedConv", "Gemm", "FusedGemm", "MatMul", "FusedMatMul", "Add", "Mul", "Concat"}


class Net:
    """A graph that grows from its input x."""

    def __init__(self, seed):
        self.random = np.random.default_rng(seed)
        self.nodes, self.weights = [], {}

    def weight(self, *shape, value=None):
        name = "p%d" % len(self.weights)
        scale = 1 / np.sqrt(np.prod(shape[1:])) if len(shape) > 1 else 0.1
        self.weights[name] = self.random.normal(0, scale, shape).astype("f4") if value is None else np.asarray(value)
        return name

    def add(self, op, *inputs, out=None, **attributes):
        out = out or "v%d" % len(self.nodes)
        self.nodes.append(helper.make_node(op, list(inputs), [out], **attributes))
        return out

    def conv(self, x, n_in, n_out, size=3, group=1, **more):
        return self.add("Conv", x, self.weight(n_out, n_in // group, size, size), self.weight(n_out), group=group,
                        pads=[size // 2] * 4, **more)

    def save(self, path, x, y, opset=17, ir=8):
        inputs = [helper.make_tensor_value_info("x", T.FLOAT, x)]
        if ir < 4:
            inputs += [helper.make_tensor_value_info(n, T.FLOAT, a.shape) for n, a in self.weights.items()]
        graph = helper.make_graph(self.nodes, "net", inputs, [helper.make_tensor_value_info("y", T.FLOAT, y)],
                                  [numpy_helper.from_array(a, n) for n, a in self.weights.items()])
        m = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
        m.ir_version = ir
        onnx.save(m, path)


def residual():
    net = Net(1)
    low, high = net.weight(value=np.float32(0)), net.weight(value=np.float32(6))
    x = net.add("Relu", net.conv("x", 3, 16))
    for _ in range(2):
        y = net.add("Clip", net.conv(x, 16, 32, 1), low, high)
        y = net.add("Clip", net.conv(y, 32, 32, group=32), low, high)
        x = net.add("Add", x, net.conv(y, 32, 16, 1))
    x = net.add("Relu", net.add("Add", x, net.conv(x, 16, 16)))
    size = {"kernel_shape": [2, 2], "strides": [2, 2]}
    x = net.add("Concat", net.add("MaxPool", x, **size), net.add("AveragePool", x, **size), axis=1)
    x = net.conv(x, 32, 16)
    x = net.conv(net.add("Mul", x, net.add("Sigmoid", x)), 16, 16)
    x = net.conv(net.add("LeakyRelu", x, alpha=0.1), 16, 8)
    x = net.add("Flatten", net.add("GlobalAveragePool", x))
    net.add("Softmax", net.add("Gemm", x, net.weight(8, 10), net.weight(10)), out="y", axis=1)
    return net


class Reader(CalibrationDataReader):
    def __init__(self, name, rows):
        self.left = [{name: rows[i:i + 100]} for i in range(0, len(rows), 100)]

    def get_next(self):
        return self.left.pop(0) if self.left else None


def answers(path, x, **keys):
    options = onnxruntime.SessionOptions()
    for key, value in keys.items():
        options.add_session_config_entry("session." + key, value)
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return session.run(None, {session.get_inputs()[0].name: x})[0]


def decibels(a, b):
    a = a.astype("f8")
    return 10 * np.log10((a * a).sum() / max(((a - b) ** 2).sum(), 1e-30))


class Static(Judge):
    def kernels(self, path):
        """Operators of the graph that onnxruntime makes of the file."""
        onnx.checker.check_model(path, full_check=True)
        options = onnxruntime.SessionOptions()
        options.optimized_model_filepath = self.path("optimized.onnx")
        onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        return collections.Counter(n.op_type for n in onnx.load(self.path("optimized.onnx")).graph.node)

    def calibrate(self, model, rows, *more):
        np.savez(self.path("rows.npz"), **{"x": rows})
        self.vc("calibrate", "-f", "--data", self.path("rows.npz"), "-o", self.path("stats.npz"), *more, model)

    def quantize(self, model, *more, out="q.onnx"):
        r = self.vc("quantize", "-f", "--int8", "--activations", "static", "--calibration", self.path("stats.npz"),
                    model, "-o", self.path(out), *more)
        return self.path(out), r.out.decode()

    def ours(self, model, x, *more):
        np.savez(self.path("few.npz"), x=x)
        self.vc("graph", "-f", "--data", self.path("few.npz"), "--outputs", self.path("y.npz"), *more, model)
        with np.load(self.path("y.npz")) as z:
            return z[z.files[0]]

    def agree(self, got, plain):
        """The same; sums are rounded in another order, so that now and then a value gets the code beside its own."""
        same = np.abs(got - plain) <= 1e-5 * np.abs(plain).max()
        self.assertGreaterEqual(same.mean(), 0.5)
        self.assertLessEqual(np.abs(got - plain).max(), np.abs(plain).max() / 100)

    def check(self, net, x, y, rows, left=(), opset=17, ir=8):
        """Both agree on the answers, and only the operators of `left` stay floats. Returns the report."""
        net.save(self.path("net.onnx"), x, y, opset, ir)
        self.calibrate(self.path("net.onnx"), rows)
        out, report = self.quantize(self.path("net.onnx"))
        kernels = self.kernels(out)
        self.assertEqual({k for k in kernels if k in FLOATS}, set(left), kernels)
        got = self.ours(out, rows[:8])
        self.agree(got, answers(out, rows[:8], disable_quant_qdq="1"))
        exact = answers(out, rows[:8], x64quantprecision="1")
        self.assertGreaterEqual(decibels(got, exact), 50)
        self.assertGreaterEqual(decibels(exact, answers(out, rows[:8])), 50)  # nothing saturates
        self.assertGreaterEqual(decibels(answers(self.path("net.onnx"), rows[:8]), got), 20)
        return report

    def test_kernels(self):
        rows = np.random.default_rng(2).normal(0, 1, (100, 3, 12, 12)).astype("f4")
        report = self.check(residual(), ["n", 3, 12, 12], ["n", 10], rows)
        self.assertIn("12 of 12 Conv, Gemm and MatMul run on int8 kernels", report)

    def test_products(self):
        net = Net(3)
        x = net.add("Tanh", net.add("Add", net.add("MatMul", "x", net.weight(32, 64)), net.weight(64)))
        x = net.add("Add", net.add("MatMul", x, net.weight(64, 32)), net.weight(32))
        q, k = net.add("MatMul", x, net.weight(32, 32)), net.add("MatMul", x, net.weight(32, 32))
        s = net.add("Softmax", net.add("MatMul", q, net.add("Transpose", k, perm=[0, 2, 1])), axis=-1)
        net.add("MatMul", s, x, out="y")
        rows = np.random.default_rng(4).normal(0, 1, (50, 6, 32)).astype("f4")
        report = self.check(net, ["n", "t", 32], ["n", "t", 32], rows, {"Add", "MatMul", "FusedMatMul"})
        self.assertIn("4 of 6 Conv, Gemm and MatMul run on int8 kernels of onnxruntime (MatMul 'v", report)
        self.assertIn("both inputs are computed", report)

    def test_handed_on(self):
        """What an operator hands on as it is has the range of its input: calibrate's graph has no node for it."""
        for ops in (("Identity", {}), ("Cast", {"to": T.FLOAT}), ("Sum", {}), ("Max", {}), ("Cast", {"to": T.DOUBLE}, "Cast", {"to": T.FLOAT})):
            with self.subTest(ops=ops):
                net = Net(9)
                first = x = net.conv("x", 3, 8)
                for op, attributes in zip(ops[::2], ops[1::2]):
                    x = net.add(op, x, **attributes)
                x = net.conv(net.add("Relu", net.add("Add", x, net.conv(first, 8, 8))), 8, 4)
                net.add("GlobalAveragePool", x, out="y")
                net.save(self.path("net.onnx"), ["n", 3, 8, 8], ["n", 4, 1, 1])
                rows = np.random.default_rng(10).normal(0, 1, (50, 3, 8, 8)).astype("f4")
                self.calibrate(self.path("net.onnx"), rows)
                out, report = self.quantize(self.path("net.onnx"))
                self.assertIn("3 of 3 Conv", report)
                self.assertGreaterEqual(decibels(answers(self.path("net.onnx"), rows[:8]), answers(out, rows[:8], x64quantprecision="1")), 20)

    def test_old(self):
        """Operator set 9, whose graph lists its weights as inputs, becomes 13; of what may mean something else it stays."""
        net = Net(5)
        x = net.add("Flatten", net.add("Relu", net.conv("x", 3, 8)))
        net.add("Gemm", x, net.weight(10, 8 * 64), net.weight(10), out="y", transB=1)
        rows = np.random.default_rng(6).normal(0, 1, (50, 3, 8, 8)).astype("f4")
        self.assertIn("opset 9 becomes 13", self.check(net, ["n", 3, 8, 8], ["n", 10], rows, opset=9, ir=3))
        net.nodes[-1].output[0] = "wide"
        net.add("Upsample", "wide", net.weight(value=np.ones(2, "f4")), out="y")
        net.save(self.path("old.onnx"), ["n", 3, 8, 8], ["n", 10], opset=9, ir=3)
        said = self.refuse(3, "quantize", "--int8", "--activations", "static", "--calibration", self.path("stats.npz"),
                           self.path("old.onnx"), "-o", self.path("no.onnx"))
        self.assertIn("where Upsample cannot be written in another way", said)

    def plain(self, path, source):
        """The file without codes: weights are those of the source, and values pass by their QuantizeLinear."""
        m, was = onnx.load(path), onnx.load(source)
        floats = {i.name: i for i in was.graph.initializer}
        floats.update({n.output[0]: n.attribute[0].t for n in was.graph.node if n.op_type == "Constant"})
        made = {n.output[0]: n for n in m.graph.node}
        nodes = []
        for n in m.graph.node:
            if n.op_type == "DequantizeLinear" and n.output[0] in floats:
                nodes.append(helper.make_node("Constant", [], [n.output[0]], value=floats[n.output[0]]))
            elif n.op_type == "DequantizeLinear":
                nodes.append(helper.make_node("Identity", [made[n.input[0]].input[0]], [n.output[0]]))
            elif n.op_type != "QuantizeLinear":
                nodes.append(n)
        del m.graph.node[:]
        m.graph.node.extend(nodes)
        onnx.checker.check_model(m, full_check=True)
        onnx.save(m, self.path("plain.onnx"))
        return self.path("plain.onnx")

    def test_raised(self):
        """Operators that changed up to set 13 are written in their new form: without its codes the file gives the source's bits."""
        rows = np.random.default_rng(6).normal(0, 1, (50, 3, 8, 8)).astype("f4")
        for opset in (7, 9, 11, 12):
            net = Net(opset)
            x = net.conv("x", 3, 8)
            if opset < 11:
                x = net.add("Pad", net.add("Clip", x, max=2.0), pads=[0, 0, 1, 0, 0, 0, 0, 1], value=0.5)
                x = net.add("BatchNormalization", x, *[net.weight(value=np.full(8, v, "f4")) for v in (1.5, 0.1, 0.2, 2)],
                            **({"spatial": 1} if opset < 9 else {}))
            if opset < 10:
                x = net.add("Slice", x, axes=[2, 3], starts=[0, 0], ends=[8, 8])
                net.nodes.append(helper.make_node("TopK", [x], ["top", "where"], k=3, axis=3))
                x = net.add("Concat", x, "top", axis=3)
            x = net.add("Dropout", x, **({"ratio": 0.3} if opset < 12 else {}))
            net.nodes.append(helper.make_node("Split", [x], ["left", "right"], axis=1, split=[3, 5]))
            net.nodes.append(helper.make_node("Split", ["right"], ["a", "b", "c", "d", "e"], axis=1))
            parts = [net.add("Softmax", "left"), net.add("LogSoftmax", "a", axis=2), net.add("Softmax", "b", axis=3),
                     net.add("Softmax", "c", axis=0), net.add("Softmax", "d", **({"axis": -2} if opset > 10 else {})), "e"]
            x = net.conv(net.add("Concat", *parts, axis=1), 8, 6)
            x = net.add("Squeeze", net.add("Unsqueeze", x, axes=[0]), axes=[0])
            x = net.add("Add", net.add("ReduceSum", x, axes=[2, 3], keepdims=0), net.add("Squeeze", net.add("GlobalMaxPool", x), axes=[2, 3]))
            x = net.add("Gemm", x, net.weight(10, 6), net.weight(10), transB=1)
            net.add("Softmax", x, out="y")
            with self.subTest(opset=opset):
                report = self.check(net, ["n", 3, 8, 8], ["n", 10], rows, (), opset)
                self.assertIn("opset %d becomes 13" % opset, report)
                source = self.path("net.onnx")
                plain = self.plain(self.path("q.onnx"), source)
                keys = {"disable_quant_qdq": "1"}
                self.assertEqual(answers(plain, rows, **keys).tobytes(), answers(source, rows, **keys).tobytes())
                ops = collections.Counter(n.op_type for n in onnx.load(plain).graph.node)
                self.assertEqual((ops["Softmax"], ops["Flatten"]), (5, 5))

    def norm(self, net, x, n, **more):
        values = net.random.uniform(0.5, 2, (4, n)).astype("f4") * np.array([[1], [1], [-1], [1]], "f4")
        return net.add("BatchNormalization", x, *[net.weight(value=v) for v in values], **more)

    def test_norm(self):
        """A BatchNormalization goes into the Conv before it, but where somebody else reads what the Conv makes."""
        for shared in (False, True):
            net = Net(7)
            x = net.conv("x", 3, 8)
            y = net.add("Relu", self.norm(net, x, 8))
            y = net.add("Add", y, x) if shared else y
            net.nodes.append(helper.make_node("Conv", [y, net.weight(4, 8, 1, 1)], ["y"]))
            rows = np.random.default_rng(8).normal(0, 1, (50, 3, 8, 8)).astype("f4")
            report = self.check(net, ["n", 3, 8, 8], ["n", 4, 8, 8], rows)
            self.assertIn("1 BatchNormalization " + ("behind them stay floats" if shared else "folded into the products"), report)
            names = {i.name for i in onnx.load(self.path("q.onnx")).graph.initializer}
            self.assertEqual({"p%d" % k for k in (2, 4, 5)} <= names, shared, names)

    def test_folded(self):
        """Weights alone: of Conv, ConvTranspose with groups and Gemm, with and without a bias; the same codes as unfolded."""
        def net(shared, opset):
            net = Net(9)
            outputs = []

            def product(*inputs, **attributes):
                outputs.append(net.add(*inputs, **attributes))
                return outputs[-1]
            x = self.norm(net, product("Conv", "x", net.weight(32, 16, 3, 3), net.weight(32), pads=[1] * 4), 32, epsilon=0.01)
            x = self.norm(net, product("ConvTranspose", net.add("Relu", x), net.weight(32, 24, 2, 2), group=2, strides=[2, 2]), 48)
            x = net.add("Flatten", net.add("GlobalAveragePool", x))
            x = net.add("Tanh", self.norm(net, product("Gemm", x, net.weight(64, 48), transB=1, alpha=0.5), 64))
            x = self.norm(net, product("Gemm", x, net.weight(64, 64), net.weight(64)), 64)
            net.add("Identity", x, out="y")
            net.save(self.path("net.onnx"), ["n", 16, 6, 6], ["n", 64], opset)
            m = onnx.load(self.path("net.onnx"))
            if shared:
                m.graph.output.extend(helper.make_tensor_value_info(o, T.FLOAT, [None] * k) for o, k in zip(outputs, (4, 4, 2, 2)))
                onnx.save(m, self.path("net.onnx"))
            return self.path("net.onnx")
        x = np.random.default_rng(8).normal(0, 1, (20, 16, 6, 6)).astype("f4")
        floats = answers(net(False, 17), x)
        for opset, ways in ((12, (("--int8",),)), (21, (("--int8",), ("--int4", "--granularity", "group:32"), ("--aim-sqnr", "30")))):
            for way in ways:
                noise = []
                for shared in (False, True):
                    source = net(shared, opset)
                    report = self.vc("quantize", "-f", *SMALL, *way, source, "-o", self.path("q.onnx")).out.decode()
                    n = 2 if "--int4" in way else 4  # no codes of Conv: rows of several axes
                    self.assertEqual("%d BatchNormalization folded" % n in report, not shared, report)
                    onnx.checker.check_model(self.path("q.onnx"), full_check=True)
                    ops = collections.Counter(n.op_type for n in onnx.load(self.path("q.onnx")).graph.node)
                    self.assertEqual(ops["BatchNormalization"], 4 if shared else 4 - n)
                    noise.append(decibels(floats, answers(self.path("q.onnx"), x)))
                    if not shared and way == ("--int8",):
                        np.testing.assert_allclose(self.ours(self.path("q.onnx"), x), answers(self.path("q.onnx"), x, disable_quant_qdq="1"), 1e-3, 1e-4)
                print("dB folded, unfolded:", opset, way, noise)
                self.assertGreaterEqual(noise[0], 30 if "--aim-sqnr" in way else noise[1] - 0.5, (way, noise))
        files = []
        for order in (("prune --sparsity 0.5", "quantize --int8"), ("quantize --int8", "dequantize")):
            self.vc("run", "-f", *[w for p in order for w in ("--pass", p)], net(False, 17), "-o", self.path("one.onnx"))
            for k, p in enumerate(order):
                self.vc(*p.split(), "-f", self.path("step%d.onnx" % k) if k else net(False, 17), "-o", self.path("step%d.onnx" % (k + 1)))
            for name in ("one.onnx", "step2.onnx"):
                with open(self.path(name), "rb") as f:
                    files.append(f.read())
        self.assertEqual(files[0::2], files[1::2])
        kept = self.vc("quantize", "-f", "--int8", "--exclude", "*", net(False, 17), "-o", self.path("q.onnx")).out.decode()
        self.assertNotIn("folded", kept)

    def test_numbers(self):
        """Scales, zero points and codes by the formulas of numerics.md, section 13."""
        rows = np.random.default_rng(2).normal(0, 1, (80, 3, 12, 12)).astype("f4")
        residual().save(self.path("net.onnx"), ["n", 3, 12, 12], ["n", 10])
        self.calibrate(self.path("net.onnx"), rows)
        for saturation in ("off", "all"):
            out, _ = self.quantize(self.path("net.onnx"), "--saturation", saturation, out=saturation + ".onnx")
            found = {i.name: numpy_helper.to_array(i) for i in onnx.load(out).graph.initializer}
            weights = residual().weights
            with np.load(self.path("stats.npz")) as z:
                low, high = (f(0, float(v)) for f, v in zip((min, max), z["x.range"]))
            self.assertEqual(found["x.scale"], np.float32((high - low) / 255))
            self.assertEqual(found["x.zero_point"], np.rint(-low / float(found["x.scale"])))
            w, b = weights["p2"], weights["p3"]
            scale, codes = found["p2.scale"], found["p2.int8"]
            most = np.abs(w).reshape(16, -1).max(1)
            ordered = codes.astype(int).transpose(0, 2, 3, 1).reshape(16, -1)
            pairs = np.abs(ordered[:, 1:] + ordered[:, :-1]).max()
            if saturation == "off":
                self.assertTrue((scale == most / np.float32(127)).all())
                self.assertGreater(pairs, 128)
            else:
                self.assertTrue(((scale >= most / np.float32(127)) & (scale <= most / np.float32(63.9))).all())
                self.assertLessEqual(pairs, 128)
            self.assertTrue((codes == np.rint(w / scale.reshape(-1, 1, 1, 1))).all())
            self.assertFalse(found["p2.zero_point"].any())
            self.assertTrue((found["p3.scale"] == found["x.scale"] * scale).all())
            self.assertTrue((found["p3.int32"] == np.rint(b.astype("f8") / found["p3.scale"])).all())
        self.vc("dequantize", "-f", out, "-o", self.path("back.npz"))
        with np.load(self.path("back.npz")) as z:
            self.assertTrue((z["p3"] == found["p3.int32"].astype("f4") * found["p3.scale"]).all())
        self.vc("verify", "--data", out)

    def test_damage(self):
        """verify finds codes that are decoded with other numbers than those they were made with."""
        rows = np.random.default_rng(2).normal(0, 1, (80, 3, 12, 12)).astype("f4")
        residual().save(self.path("net.onnx"), ["n", 3, 12, 12], ["n", 10])
        self.calibrate(self.path("net.onnx"), rows)
        out, _ = self.quantize(self.path("net.onnx"))

        def changed(change):
            m = onnx.load(out)
            arrays = {i.name: i for i in m.graph.initializer}
            change(m, arrays, {n.output[0]: n for n in m.graph.node})
            onnx.save(m, self.path("changed.onnx"))
            found = run("verify", "--json", self.path("changed.onnx"))
            return found.code, [(f["severity"], f["id"], f["tensor"], f["sentence"]) for f in found.json()["findings"]]

        def put(tensor, array):
            tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))

        def other(name, value, k):
            def change(m, arrays, nodes):
                m.graph.initializer.append(numpy_helper.from_array(value, "other"))
                nodes[name].input[k] = "other"
            return change

        def bias(m, arrays, nodes):
            scale = numpy_helper.to_array(arrays["p3.scale"]).copy()
            scale[5] *= 1.00001
            put(arrays["p3.scale"], scale)
        self.assertEqual(changed(lambda m, arrays, nodes: None), (0, []))
        decoded = [n.output[0] for n in onnx.load(out).graph.node if n.op_type == "DequantizeLinear" and n.input[1] == "v1.scale"][0]
        for change, code, want, text in (
                (other(decoded, np.float32(0.5), 1), 1, ("error", "codes", decoded), "another scale"),
                (other(decoded, np.uint8(3), 2), 1, ("error", "codes", decoded), "another zero point"),
                (bias, 1, ("error", "codes", "p3"), "at 5"),
                (lambda m, arrays, nodes: put(arrays["v1.scale"], numpy_helper.to_array(arrays["v1.scale"]).reshape(1)), 0,
                 ("warning", "codes", "v1.codes"), "shape [1]")):
            found = changed(change)
            self.assertEqual((found[0], [f[:3] for f in found[1] if text in f[3]]), (code, [want]), found)

    def test_ranges(self):
        """By error, percentile and entropy, from the histogram of what a layer reads."""
        rows = np.random.default_rng(2).normal(0, 1, (80, 3, 12, 12)).astype("f4")
        residual().save(self.path("net.onnx"), ["n", 3, 12, 12], ["n", 10])
        self.calibrate(self.path("net.onnx"), rows)
        with np.load(self.path("stats.npz")) as z:
            whole, count, width = z["v1.range"], z["p4.in_hist"], float(z["p4.in_hist_width"][0])
        self.assertEqual(count.sum(), 80 * 16 * 12 * 12)
        middle = (np.arange(2048) - 1024 + 0.5) * width

        def error(f):
            s = np.float64(np.float32(f * whole[1] / 255))
            return (count * (np.clip(np.rint(middle / s), 0, 255) * s - middle) ** 2).sum()
        tried = [np.float32(1)] + [np.float32(0.3) + np.float32(0.7) * np.float32(k) / np.float32(40) for k in range(40)]
        best = min(tried, key=error)
        from_above = np.cumsum(count[::-1])[::-1]
        high = (np.flatnonzero(from_above <= 0.001 * count.sum())[0] - 1024) * width
        h = count[1024:] + count[1023::-1]  # magnitudes
        h[0] = h[1]
        h = h[:np.flatnonzero(h)[-1] + 1]

        def divergence(i):
            p, level = h[:i].copy(), 128 * np.arange(i) // i
            p[-1] += h[i:].sum()
            filled = np.bincount(level, h[:i] > 0, 128)
            q = np.where(h[:i] > 0, (np.bincount(level, h[:i], 128) / np.maximum(filled, 1))[level], 0)
            p, q = p / p.sum(), np.maximum(q / q.sum(), 1e-12)
            return (p[p > 0] * np.log(p[p > 0] / q[p > 0])).sum()
        end = min(range(128, len(h) + 1), key=divergence) * width
        self.assertLess(end, 0.9 * whole[1])
        want = {"min-max": whole[1], "error": best * whole[1], "entropy": end, "percentile:99.9": min(high, whole[1])}
        for ranges, top in want.items():
            out, report = self.quantize(self.path("net.onnx"), "--ranges", ranges)
            self.assertEqual("leave out rare values, and answers may get worse" in report, ranges != "min-max")
            found = {i.name: numpy_helper.to_array(i) for i in onnx.load(out).graph.initializer}
            self.assertAlmostEqual(float(found["v1.scale"]) * 255 / float(top), 1, 5)
        self.assertIn("above 50", self.refuse(2, "quantize", "--int8", "--activations", "static", "--ranges", "percentile:50",
                                              "--calibration", self.path("stats.npz"), self.path("net.onnx")))

    def test_digits(self):
        """Not below quantize_static with the same rows, whose file is evaluated as well."""
        with np.load(os.path.join(FOLDER, "digits.npz")) as z:
            w = {n: z[n].astype("f8") for n in z.files}
        with np.load(os.path.join(FOLDER, "images.npz")) as z:
            rows = (z["train_images"].reshape(-1, 1, 8, 8) / 16).astype("f4")
            x = (z["test_images"].reshape(-1, 1, 8, 8) / 16).astype("f4")
            labels = z["test_labels"]
        net = Net(0)
        last = "x"
        for k in "123":
            s = w["bn%s.weight" % k] / np.sqrt(w["bn%s.running_var" % k] + 1e-5)
            folded = w["conv%s.weight" % k] * s[:, None, None, None]
            last = net.add("Conv", last, net.weight(value=folded.astype("f4")), net.weight(
                value=(w["bn%s.bias" % k] - w["bn%s.running_mean" % k] * s).astype("f4")), pads=[1] * 4)
            last = net.add("Relu", last)
            if k != "1":
                last = net.add("MaxPool", last, kernel_shape=[2, 2], strides=[2, 2])
        last = net.add("Flatten", last)
        for k, out in (("fc1", None), ("fc2", "y")):
            last = net.add("Gemm", last, net.weight(value=w[k + ".weight"].astype("f4")),
                           net.weight(value=w[k + ".bias"].astype("f4")), out=out, transB=1)
            last = last if out else net.add("Relu", last)
        source, peer = self.path("net.onnx"), self.path("peer.onnx")
        net.save(source, ["n", 1, 8, 8], ["n", 10])
        self.calibrate(source, rows)
        ours, _ = self.quantize(source)
        quantize_static(source, peer, Reader("x", rows), quant_format=QuantFormat.QDQ, per_channel=True,
                        activation_type=QuantType.QUInt8, weight_type=QuantType.QInt8)
        floats = answers(source, x)
        right = [int((answers(f, x).argmax(1) == labels).sum()) for f in (source, ours, peer)]
        noise = [decibels(floats, answers(f, x, x64quantprecision="1")) for f in (ours, peer)]
        noise.append(decibels(floats, answers(ours, x)))
        print("right of 997: floats, ours, quantize_static:", right, "dB of ours, quantize_static, ours with any kernel:", noise)
        self.assertGreaterEqual(right[1], max(right[2], 986))
        self.assertGreaterEqual(noise[0], noise[1] - 0.1)
        self.assertGreaterEqual(noise[2], 38.4)
        self.agree(self.ours(peer, x[:50]), answers(peer, x[:50], disable_quant_qdq="1"))
        self.assertLessEqual(os.path.getsize(ours), os.path.getsize(peer))

    def test_same_bytes(self):
        """Threads change nothing, and passes in one run write what runs one after the other write."""
        rows = np.random.default_rng(2).normal(0, 1, (80, 3, 12, 12)).astype("f4")
        net, files = self.path("net.onnx"), []
        residual().save(net, ["n", 3, 12, 12], ["n", 10])
        for threads, batch in ((1, 64), (2, 7)):
            self.calibrate(net, rows, "--threads", threads, "--batch", batch)
            with np.load(self.path("stats.npz")) as z:
                files.append({n: z[n].tobytes() for n in z.files})
        self.assertEqual(*files)
        self.assertIn("p2.in_sample", files[0])
        self.vc("prune", "--sparsity", "0.5", "--include", "p8", net, "-o", self.path("p.onnx"))
        one, _ = self.quantize(self.path("p.onnx"), out="one.onnx")
        self.vc("run", "--pass", "prune --sparsity 0.5 --include p8", "--pass", "quantize --int8 --activations static "
                "--calibration " + self.path("stats.npz"), net, "-o", self.path("two.onnx"))
        with open(one, "rb") as a, open(self.path("two.onnx"), "rb") as b:
            self.assertEqual(a.read(), b.read())

    def test_refusals(self):
        rows = np.random.default_rng(2).normal(0, 1, (80, 3, 12, 12)).astype("f4")
        net = self.path("net.onnx")
        residual().save(net, ["n", 3, 12, 12], ["n", 10])
        self.calibrate(net, rows)
        stats = self.path("stats.npz")
        with np.load(stats) as z:
            arrays = {n: z[n] for n in z.files}

        def refused(code, *more, model=net, drop=None, out="no.onnx", **change):
            np.savez(stats, **{n: a for n, a in dict(arrays, **change).items() if n != drop})
            return self.refuse(code, "quantize", "--int8", "--activations", "static", "--calibration", stats, model, "-o",
                               self.path(out), *more)
        self.assertIn("has no range of the value 'v1'", refused(3, drop="v1.range"))
        self.assertIn("the range of 'v1' is nan", refused(3, **{"v1.range": np.full(2, np.nan, "f4")}))
        self.assertIn("has no sample of the inputs of 'p2'", refused(3, drop="p2.in_sample"))
        self.assertIn("--asymmetric does not go with --activations", refused(2, "--asymmetric"))
        self.assertIn("--activations", refused(2, "--granularity", "group:32"))
        self.vc("quantize", "-q", "--int8", "--activations", "static", "--saturation", "off", "--calibration", stats, net, "-o",
                self.path("q.onnx"))
        self.assertIn("are codes already", refused(3, model=self.path("q.onnx")))
        np.savez(self.path("w.npz"), p2=np.zeros((64, 64), "f4"))
        self.assertIn("are for ONNX files", refused(3, model=self.path("w.npz"), out="no.npz"))
        self.assertIn("need --calibration", self.refuse(2, "quantize", "--int8", "--activations", "static", net))
        self.assertIn("--saturation", self.refuse(2, "quantize", "--int8", "--saturation", "all", net))
        r = self.vc("quantize", "--int8", "--activations", "static", "--calibration", stats, "--exclude", "p2", net, "-o",
                    self.path("kept.onnx"))
        self.assertIn("11 of 12", r.out.decode())
        self.assertIn("Conv", self.kernels(self.path("kept.onnx")) + collections.Counter(FusedConv=0))


if __name__ == "__main__":
    main()
