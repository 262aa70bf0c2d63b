"""test_onnx.py - ONNX in and out. The judges are the onnx package (its checker, its reader) and onnxruntime, which runs
the graph before and after.

What int8 costs is judged twice. Exactly: a copy of the model whose weights are the values of the definition has to give
the same output as the model with codes and DequantizeLinear, but for the order of sums. And roughly: the output stays
within 3 % of the largest value of the original one, which small random networks keep with 8 bits per weight.
"""
import os
import sys
import unittest

from judge_support import SMALL, Judge, main, np, read_bytes, run, sha, write_bytes
import definition as d
import weights

try:
    import onnx
    import onnxruntime
    from onnx import TensorProto as T, helper, numpy_helper
except ImportError as e:
    print("SKIPPED: %s (the packages onnx and onnxruntime, for %s)" % (e, sys.executable))
    sys.exit(77)

onnxruntime.set_default_logger_severity(4)
CLOSE = 0.03
TYPES = {T.FLOAT: "f4", T.DOUBLE: "f8", T.FLOAT16: "f2"}


def tensor(name, a, how="raw"):
    """An initializer: raw_data; "list": float_data and its kind, packed as onnx.proto says."""
    a = np.ascontiguousarray(a)
    if how == "raw":
        return numpy_helper.from_array(a, name)
    return helper.make_tensor(name, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape, a.reshape(-1).tolist())


def info(name, shape, dtype=T.FLOAT):
    return helper.make_tensor_value_info(name, dtype, shape)


def model(nodes, inputs, outputs, inits, opset=17, ir=8, name="g"):
    graph = helper.make_graph(nodes, name, inputs, outputs, inits)
    m = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], producer_name="judge")
    m.ir_version = ir
    return m


def normal(name, shape, dtype="f4"):
    return weights.normal(name, shape, 0.5).astype(dtype)


MLP_SHAPES = {"w1": (48, 64), "w2": (40, 64), "w3": (40, 10)}
MLP_AXES = {"w1": 1, "w2": 0, "w3": 1}


def mlp(opset=17, ir=8, dtype=T.FLOAT, how="raw", extra_inputs=False):
    """MatMul (channels on axis 1), Gemm with transB (axis 0), Gemm (axis 1)."""
    npt = TYPES[dtype]
    w = {n: normal(n, s, npt) for n, s in MLP_SHAPES.items()}
    inits = [tensor(n, a, how) for n, a in w.items()]
    inits += [tensor(n, (weights.normal(n, (k, 1)) * 0.1).reshape(k).astype(npt), how)
              for n, k in [("b1", 64), ("b2", 40), ("b3", 10)]]
    nodes = [helper.make_node("MatMul", ["x", "w1"], ["h0"]), helper.make_node("Add", ["h0", "b1"], ["h1"]),
             helper.make_node("Relu", ["h1"], ["h2"]), helper.make_node("Gemm", ["h2", "w2", "b2"], ["h3"], transB=1),
             helper.make_node("Relu", ["h3"], ["h4"]), helper.make_node("Gemm", ["h4", "w3", "b3"], ["y"])]
    inputs = [info("x", [None, 48], dtype)]
    if extra_inputs:
        inputs += [info(i.name, list(i.dims), dtype) for i in inits]
    return model(nodes, inputs, [info("y", [None, 10], dtype)], inits, opset, ir), w


CONV_AXES = {"c1.weight": 0, "c2.weight": 0, "up.weight": 1, "fc": 1}


def conv(opset=17, ir=8):
    w = {"c1.weight": normal("c1", (16, 3, 3, 3)), "c2.weight": normal("c2", (24, 16, 3, 3)),
         "up.weight": normal("up", (24, 8, 2, 2)), "fc": normal("fc", (8, 10))}
    nodes = [helper.make_node("Conv", ["x", "c1.weight"], ["a"], pads=[1, 1, 1, 1]), helper.make_node("Relu", ["a"], ["b"]),
             helper.make_node("Conv", ["b", "c2.weight"], ["c"], pads=[1, 1, 1, 1], strides=[2, 2]),
             helper.make_node("Relu", ["c"], ["e"]),
             helper.make_node("ConvTranspose", ["e", "up.weight"], ["f"], strides=[2, 2]),
             helper.make_node("GlobalAveragePool", ["f"], ["g"]), helper.make_node("Flatten", ["g"], ["h"]),
             helper.make_node("MatMul", ["h", "fc"], ["y"])]
    return model(nodes, [info("x", [None, 3, 12, 12])], [info("y", [None, 10])], [tensor(n, a) for n, a in w.items()],
                 opset, ir), w


def run_model(path, seed=1, optimized=False):
    options = onnxruntime.SessionOptions()
    if optimized:  # with sums of floats; else they may be of activations in 8 bits
        options.add_session_config_entry("session.qdq_matmulnbits_accuracy_level", "1")
    else:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    s = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    r = np.random.default_rng(seed)
    feed = {}
    for i in s.get_inputs():
        shape = [5 if not isinstance(n, int) else n for n in i.shape]
        t = {"tensor(float)": "f4", "tensor(double)": "f8", "tensor(float16)": "f2", "tensor(int64)": "i8",
             "tensor(bool)": "?"}[i.type]
        feed[i.name] = r.standard_normal(shape).astype(t) if t[0] == "f" else \
            (np.ones(shape, t) if t == "?" else r.integers(0, 8, shape))
    return s.run(None, feed)[0].astype("f8")


def initializers(m, folder=None):
    out = {}
    for i in m.graph.initializer:
        a = numpy_helper.to_array(i, folder) if folder else numpy_helper.to_array(i)
        assert i.name not in out, "two initializers named " + i.name
        out[i.name] = a
    return out


class Onnx(Judge):
    def save(self, m, name="in.onnx", **options):
        onnx.save(m, self.path(name), **options)
        return self.path(name)

    def opened(self, name):
        """An output of ours, after the checker: also with shapes and types inferred."""
        onnx.checker.check_model(self.path(name), full_check=True)
        return onnx.load(self.path(name))

    def near(self, a, b, rel, what=""):
        worst = np.abs(a - b).max() / np.abs(b).max()
        self.assertLessEqual(worst, rel, what)
        return worst

    def same_values(self, m, w, name, rel=1e-5):
        """A model with these weights in plain floats gives what the output called `name` gives."""
        plain = onnx.ModelProto()
        plain.CopyFrom(m)
        for i in plain.graph.initializer:
            if i.name in w:
                i.CopyFrom(numpy_helper.from_array(np.ascontiguousarray(w[i.name]), i.name))
        self.near(run_model(self.path(name)), run_model(self.save(plain, "plain.onnx")), rel, "the values of the definition")

    def check_int8(self, m, w, axes, name="out.onnx", granularity="channel", group=0, asymmetric=False, node_axis=None,
                   product=False):
        """Codes, scales, zero points and nodes are those of the definition; returns the values."""
        out = self.opened(name)
        a = initializers(out)
        nodes = {n.output[0]: n for n in out.graph.node}
        values = {}
        for n, x in w.items():
            q, s, z, _ = d.int8(x, granularity, axes[n], group, asymmetric)
            values[n] = d.int8_value(q, s, z, granularity, group).astype(x.dtype)
            self.same_bits(a[n + ".int8"], q, n)
            s = s.reshape(()) if granularity == "tensor" else s.reshape(-1) if granularity == "channel" and not product else s
            self.same_bits(a[n + ".scale"], s, n)
            self.assertEqual(n + ".zero_point" in a, asymmetric)
            if asymmetric:
                self.same_bits(a[n + ".zero_point"], z.reshape(s.shape), n)
            node = nodes[n]
            if x.dtype != np.float32:
                self.assertEqual(node.op_type, "Cast")
                node = nodes[node.input[0]]
            if product:
                self.check_product(n, node, nodes, asymmetric)
                self.assertNotIn(n, a)
                continue
            self.assertEqual(node.op_type, "DequantizeLinear")
            parts = [n + ".int8", n + ".scale"] + ([n + ".zero_point"] if asymmetric else [])
            self.assertEqual(list(node.input), parts)
            got = {t.name: t.i for t in node.attribute}
            want = {"tensor": {}, "channel": {"axis": axes[n]}, "group": {"axis": node_axis, "block_size": group}}
            self.assertEqual(got, want[granularity])
            self.assertNotIn(n, a)
        kept = {n for n in initializers(m) if n not in w}
        self.assertLessEqual(kept, set(a))
        return values

    def check_product(self, n, mul, nodes, asymmetric):
        """(codes - zero point) * scale, each step a node."""
        self.assertEqual((mul.op_type, mul.input[1]), ("Mul", n + ".scale"))
        step = nodes[mul.input[0]]
        if asymmetric:
            self.assertEqual(step.op_type, "Sub")
            zero = nodes[step.input[1]]
            self.assertEqual((zero.op_type, zero.input[0], zero.attribute[0].i), ("Cast", n + ".zero_point", T.FLOAT))
            step = nodes[step.input[0]]
        self.assertEqual((step.op_type, step.input[0], step.attribute[0].i), ("Cast", n + ".int8", T.FLOAT))

    # ---- int8 ----

    def test_int8(self):
        for build, axes in ((mlp, MLP_AXES), (conv, CONV_AXES)):
            m, w = build()
            before = run_model(self.save(m))
            for extra, options in [([], {}), (["--asymmetric"], {"asymmetric": True}),
                                   (["--granularity", "tensor"], {"granularity": "tensor"})]:
                self.vc("quantize", "--int8", *SMALL, *extra, "--force", self.path("in.onnx"), "-o", self.path("out.onnx"))
                values = self.check_int8(m, w, axes, **options)
                self.same_values(m, values, "out.onnx")
                self.near(run_model(self.path("out.onnx")), before, CLOSE)
                self.assertLess(os.path.getsize(self.path("out.onnx")), 0.45 * os.path.getsize(self.path("in.onnx")))

    def test_axis_option(self):
        m, w = mlp()
        self.save(m)
        self.vc("quantize", "--int8", *SMALL, "--axis", "0", self.path("in.onnx"), "-o", self.path("out.onnx"))
        self.check_int8(m, w, {n: 0 for n in w})
        self.vc("quantize", "--int8", *SMALL, "--axis", "-1", "-f", self.path("in.onnx"), "-o", self.path("out.onnx"))
        self.check_int8(m, w, {n: 1 for n in w})

    def test_groups(self):
        """Blocks of opset 21, also short last ones; onnxruntime runs them."""
        m, w = mlp(opset=21, ir=10)
        before = run_model(self.save(m))
        for group in (8, 16, 25, 1000):
            self.vc("quantize", "--int8", *SMALL, "--granularity", "group:%d" % group, "--force", self.path("in.onnx"), "-o",
                    self.path("out.onnx"))
            values = self.check_int8(m, w, {n: 0 for n in w}, granularity="group", group=group, node_axis=1)
            try:
                after = run_model(self.path("out.onnx"))
            except Exception as e:
                self.fail("group %d: %s" % (group, e))
            self.near(after, before, CLOSE)
            self.same_values(m, values, "out.onnx")
            self.vc("dequantize", "--force", self.path("out.onnx"), "-o", self.path("back.onnx"))
            back = initializers(self.opened("back.onnx"))
            for n in w:
                self.same_bits(back[n], values[n], n)
        said = self.refuse(3, "quantize", "--int8", *SMALL, "--granularity", "group:8", self.save(conv(21)[0]), "-o",
                           self.path("no.onnx"))
        self.assertIn("along one axis", said)
        said = self.refuse(3, "quantize", "--int8", *SMALL, "--granularity", "group:8", self.save(mlp()[0]), "-o",
                           self.path("no.onnx"))
        self.assertIn("a scale per group needs opset 21, and this model has 17", said)

    def test_opsets(self):
        """The opset stays what it is: where DequantizeLinear does not do, Cast and Mul give the same values, and the report
        says so."""
        for opset, ir in ((7, 4), (8, 4), (9, 4), (10, 5), (11, 6), (12, 7), (13, 7), (17, 8), (21, 10)):
            for build, axes in ((mlp, MLP_AXES), (conv, CONV_AXES)):
                m, w = build(opset, ir)
                before = run_model(self.save(m))
                for extra, options, known in (([], {}, opset >= 13), (["--asymmetric"], {"asymmetric": True}, opset >= 13),
                                              (["--granularity", "tensor"], {"granularity": "tensor"}, opset >= 10)):
                    r = self.vc("quantize", "--int8", *SMALL, *extra, "--json", "-f", self.path("in.onnx"), "-o",
                                self.path("out.onnx")).json()
                    self.assertEqual("opset %d stays: int8 weights pass through Cast and Mul" % opset in (r["note"] or ""),
                                     not known)
                    values = self.check_int8(m, w, axes, product=not known, **options)
                    out = onnx.load(self.path("out.onnx"))
                    self.assertEqual(out.opset_import[0].version, opset)
                    self.same_values(m, values, "out.onnx", 1e-6)
                    self.near(run_model(self.path("out.onnx")), before, CLOSE)
                    self.near(run_model(self.path("out.onnx"), optimized=True), run_model(self.path("plain.onnx")), 1e-5)
                    # Seen as quantized, equal to plain weights under the same names, and put back into one initializer.
                    seen = self.vc("inspect", "--json", self.path("out.onnx")).json()["tensors"]
                    self.assertEqual({t["name"] for t in seen if t["quant"]}, set(w))
                    self.vc("verify", self.path("out.onnx"))
                    self.vc("dequantize", "-f", self.path("out.onnx"), "-o", self.path("back.onnx"))
                    back = self.opened("back.onnx")
                    self.assertEqual(list(back.graph.node), list(m.graph.node))
                    for n in w:
                        self.same_bits(initializers(back)[n], values[n], n)
                    self.vc("diff", self.path("out.onnx"), self.path("back.onnx"))
        m, _ = mlp(6, 3)
        self.save(m)
        said = self.refuse(3, "quantize", "--int8", *SMALL, self.path("in.onnx"), "-o", self.path("no.onnx"))
        self.assertIn("w1: int8 (codes times scales) needs opset 7, and this model has 6", said)
        said = self.refuse(3, "quantize", "--bf16", *SMALL, self.save(mlp(12, 7)[0]), "-o", self.path("no.onnx"))
        self.assertIn("w1: bf16 (Cast) needs opset 13, and this model has 12", said)

    def test_initializers_as_inputs(self):
        """IR version 3 wants every initializer among the inputs; later ones may have them there."""
        for opset, ir in ((7, 3), (10, 3), (17, 8)):
            m, w = mlp(opset, ir, extra_inputs=True)
            self.save(m)
            before = run_model(self.path("in.onnx"))
            self.vc("quantize", "--int8", *SMALL, "--force", self.path("in.onnx"), "-o", self.path("out.onnx"))
            self.check_int8(m, w, MLP_AXES, product=opset < 13)
            out = onnx.load(self.path("out.onnx"))
            names = [i.name for i in out.graph.input]
            self.assertEqual(len(names), len(set(names)))
            self.assertEqual(names[:4], ["x", "b1", "b2", "b3"])
            new = [n + s for n in w for s in (".int8", ".scale")] if ir < 4 else []
            self.assertEqual(sorted(names[4:]), sorted(new))
            self.near(run_model(self.path("out.onnx")), before, 2 * CLOSE)
            self.vc("dequantize", "--force", self.path("out.onnx"), "-o", self.path("back.onnx"))
            back = self.opened("back.onnx")
            self.assertEqual({i.name for i in back.graph.input}, {"x", "b1", "b2", "b3"} | (set(w) if ir < 4 else set()))
            run_model(self.path("back.onnx"))

    # ---- casts ----

    def test_casts(self):
        m, w = mlp()
        before = run_model(self.save(m))
        for option, target, rel in (("--fp16", "f16", 2e-3), ("--bf16", "bf16", 1e-2)):
            self.vc("quantize", option, *SMALL, "--force", self.path("in.onnx"), "-o", self.path("out.onnx"))
            out = self.opened("out.onnx")
            found = {i.name: i for i in out.graph.initializer}
            for n, x in w.items():
                self.assertEqual(found[n + "." + target].raw_data, d.cast(x, target).tobytes())
            self.same_values(m, {n: d.cast_value(d.cast(x, target), target) for n, x in w.items()}, "out.onnx")
            self.near(run_model(self.path("out.onnx")), before, rel)
            self.assertEqual([n.op_type for n in out.graph.node][:3], ["Cast"] * 3)
            # ... and back to one initializer each.
            self.vc("dequantize", "--casts", "--force", self.path("out.onnx"), "-o", self.path("back.onnx"))
            back = self.opened("back.onnx")
            self.assertEqual([n.op_type for n in back.graph.node], [n.op_type for n in m.graph.node])
            for n, x in w.items():
                self.same_bits(initializers(back)[n], d.cast_value(d.cast(x, target), target), n)

    def test_float8(self):
        """Plain float8 behind a Cast has the name of the tensor, so that all commands find it; graphs before opset 19 have no such Cast."""
        self.save(mlp(19, 9)[0])
        for scheme in ("f8_e4m3", "f8_e5m2"):
            self.vc("quantize", "--scheme", scheme, *SMALL, "-f", self.path("in.onnx"), "-o", self.path("out.onnx"))
            self.assertEqual({n for n in initializers(self.opened("out.onnx")) if n[0] == "w"}, {f"w{i}.{scheme}" for i in (1, 2, 3)})
            self.vc("dequantize", "-f", self.path("out.onnx"), "-o", self.path("back.onnx"))
            self.assertEqual({n for n in initializers(self.opened("back.onnx")) if n[0] == "w"}, {"w1", "w2", "w3"})
            self.near(run_model(self.path("out.onnx")), run_model(self.path("back.onnx")), 1e-6)
            # scores and thresholds of values, not of bytes
            for prune in (["--structured", "0.3"], ["--structured", "0.3", "--dequantize"], ["--sparsity", "0.5", "--dequantize"]):
                self.vc("prune", *prune, "-f", self.path("out.onnx"), "-o", self.path("a.onnx"))
                self.vc("prune", *prune, "-f", self.path("back.onnx"), "-o", self.path("b.onnx"))
                self.vc("diff", self.path("a.onnx"), self.path("b.onnx"))
                self.near(run_model(self.path("a.onnx")), run_model(self.path("b.onnx")), 1e-6)
        said = self.refuse(3, "quantize", "--scheme", "f8_e4m3", *SMALL, self.save(mlp()[0]), "-o", self.path("no.onnx"))
        self.assertIn("w1: float8 (Cast) needs opset 19, and this model has 17", said)

    def test_rest(self):
        """--rest: what int8 leaves gets a Cast node where that pays, and the graph computes the same."""
        w = {"w": normal("w", (64, 256)), "scale": normal("scale", (256,)), "bias": normal("bias", (256,)),
             "shift": normal("shift", (1,))}
        m = model([helper.make_node("MatMul", ["x", "w"], ["a"]),
                   helper.make_node("LayerNormalization", ["a", "scale", "bias"], ["b"]),
                   helper.make_node("Add", ["b", "shift"], ["y"])],
                  [info("x", [5, 64])], [info("y", [5, 256])], [tensor(n, a) for n, a in w.items()])
        before = run_model(self.save(m))
        self.vc("quantize", "--int8", "--rest", "fp16", self.path("in.onnx"), "-o", self.path("out.onnx"))
        self.near(run_model(self.path("out.onnx")), before, CLOSE)
        found = initializers(self.opened("out.onnx"))
        for n in "scale", "bias":
            self.assertEqual(found[n + ".f16"].tobytes(), w[n].astype("f2").tobytes())
        self.same_bits(found["shift"], w["shift"], "smaller than its node")

    def test_aims(self):
        """Ways without groups, which not every graph has a place for; whatever is chosen runs."""
        before = run_model(self.save(mlp()[0]))
        for option in ("--aim-sqnr=35", "--aim-sqnr=41.5", "--aim-sqnr=55", "--aim-bytes=15000"):
            self.vc("quantize", option, *SMALL, "--force", self.path("in.onnx"), "-o", self.path("out.onnx"))
            self.near(run_model(self.path("out.onnx")), before, CLOSE)

    def test_other_float_graphs(self):
        """Weights of f16 and f64: codes come back through a Cast, and the graph keeps its types."""
        for dtype, rel in ((T.FLOAT16, 5e-3), (T.DOUBLE, 1e-5)):
            m, w = mlp(dtype=dtype)
            before = run_model(self.save(m))
            self.vc("quantize", "--int8", *SMALL, "--force", self.path("in.onnx"), "-o", self.path("out.onnx"))
            values = self.check_int8(m, w, MLP_AXES)
            self.same_values(m, values, "out.onnx", rel)
            self.near(run_model(self.path("out.onnx")), before, CLOSE)
            self.vc("dequantize", "--source-dtype", "--force", self.path("out.onnx"), "-o", self.path("back.onnx"))
            back = self.opened("back.onnx")
            self.assertEqual([n.op_type for n in back.graph.node], [n.op_type for n in m.graph.node])
            for n in w:
                self.same_bits(initializers(back)[n], values[n], n)
        self.vc("quantize", "--fp16", *SMALL, "--force", self.path("in.onnx"), "-o", self.path("out.onnx"))
        self.opened("out.onnx")
        self.near(run_model(self.path("out.onnx")), before, 2e-3)

    # ---- what stays ----

    def test_copy(self):
        """Nothing to do gives the same file, byte for byte; also with strings, sparse tensors, unknown fields."""
        m, _ = mlp(how="list")
        m.graph.initializer.append(helper.make_tensor("words", T.STRING, [2], [b"a", b"bc"]))
        m.graph.initializer.append(helper.make_tensor("ints", T.INT64, [3], [1, -2, 1 << 40]))
        m.graph.initializer.append(helper.make_tensor("small", T.INT8, [4], [1, -2, 127, -128]))
        m.graph.initializer.append(helper.make_tensor("four", T.INT4, [3], [1, -2, 7]))
        m.graph.doc_string = "notes"
        m.metadata_props.add(key="k", value="v")
        for unknown in (b"", b"\xa0\x38\x07", b"\xbb\x7d\x08\x01\xbc\x7d\xbd\x7d1234"):
            write_bytes(self.path("in.onnx"), m.SerializeToString() + unknown)
            for extra in ([], ["--threads", "3"]):
                self.vc("quantize", "--int8", "--exclude", "*", "--force", *extra, self.path("in.onnx"), "-o",
                        self.path("out.onnx"))
                self.assertEqual(read_bytes(self.path("out.onnx")), read_bytes(self.path("in.onnx")))

    def test_lists(self):
        """Values in float_data give the same output as values in raw_data."""
        for dtype in (T.FLOAT, T.DOUBLE, T.FLOAT16):
            for how in ("raw", "list"):
                self.save(mlp(dtype=dtype, how=how)[0], how + ".onnx")
                self.vc("quantize", "--int8", *SMALL, "--exclude", "b?", "--force", self.path(how + ".onnx"), "-o",
                        self.path(how + ".out.onnx"))
            a, b = (onnx.load(self.path(how + ".out.onnx")) for how in ("raw", "list"))
            self.assertEqual([i for i in a.graph.initializer if i.name[0] == "w"],
                             [i for i in b.graph.initializer if i.name[0] == "w"])
            for i, j in zip(a.graph.initializer, b.graph.initializer):
                self.same_bits(numpy_helper.to_array(i), numpy_helper.to_array(j), i.name)

    def test_everything_else_stays(self):
        m, w = mlp()
        m.graph.initializer[0].doc_string = "the first"
        m.graph.value_info.append(info("h0", [None, 64]))
        m.graph.value_info.append(info("w1", [48, 64]))
        m.functions.append(helper.make_function("f", "Twice", ["a"], ["b"], [helper.make_node("Add", ["a", "a"], ["b"])],
                                                [helper.make_opsetid("", 17)]))
        m.opset_import.append(helper.make_opsetid("f", 1))
        self.save(m)
        self.vc("quantize", "--int8", *SMALL, self.path("in.onnx"), "-o", self.path("out.onnx"))
        out = self.opened("out.onnx")
        self.assertEqual(list(out.graph.node)[3:], list(m.graph.node))
        for field in ("input", "output", "value_info"):
            self.assertEqual(list(getattr(out.graph, field)), list(getattr(m.graph, field)))
        for field in ("functions", "opset_import", "ir_version", "producer_name"):
            self.assertEqual(getattr(out, field), getattr(m, field))
        self.assertEqual(out.graph.initializer[0].doc_string, "the first")
        self.assertEqual([i.name for i in out.graph.initializer],
                         [n + s for n in w for s in (".int8", ".scale")] + ["b1", "b2", "b3"])

    def test_constants(self):
        """Weights that exporters left in Constant nodes; those inside a branch of an old file stay, and are told of."""
        w, c = normal("w", (32, 32)), normal("c", (32, 32))
        for opset, ir in ((9, 3), (17, 8)):
            m = model([helper.make_node("Constant", [], ["c"], value=numpy_helper.from_array(c, "value")),
                       helper.make_node("Constant", [], ["k"], value=numpy_helper.from_array(np.ones(32, "f4"))),
                       helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("MatMul", ["h", "c"], ["i"]),
                       helper.make_node("Mul", ["i", "k"], ["y"])],
                      [info("x", [5, 32])] + ([info("w", [32, 32])] if ir < 4 else []), [info("y", [5, 32])],
                      [tensor("w", w)], opset, ir)
            before = run_model(self.save(m))
            self.vc("quantize", "--int8", "--exclude", "*", "-f", self.path("in.onnx"), "-o", self.path("same.onnx"))
            self.assertEqual(sha(self.path("same.onnx")), sha(self.path("in.onnx")))
            self.vc("quantize", "--int8", *SMALL, "-f", self.path("in.onnx"), "-o", self.path("out.onnx"))
            values = self.check_int8(m, {"w": w, "c": c}, {"w": 1, "c": 1}, product=opset < 13)
            self.near(run_model(self.path("out.onnx")), before, CLOSE)
            self.vc("dequantize", "-f", self.path("out.onnx"), "-o", self.path("back.onnx"))
            back = self.opened("back.onnx")
            self.assertEqual([n.op_type for n in back.graph.node], ["Constant", "MatMul", "MatMul", "Mul"])
            for n in values:
                self.same_bits(initializers(back)[n], values[n], n)
            self.near(run_model(self.path("back.onnx")), run_model(self.path("out.onnx")), 1e-6)
        branch = helper.make_graph([helper.make_node("MatMul", ["x", "inner"], ["z"])], "b", [], [info("z", [5, 32])],
                                   [tensor("inner", c)])
        m = model([helper.make_node("If", ["t"], ["y"], then_branch=branch, else_branch=branch)],
                  [info("t", [], T.BOOL), info("x", [5, 32])], [info("y", [5, 32])], [], 9, 3)
        self.save(m)
        r = self.vc("quantize", "--int8", *SMALL, "--json", "-f", self.path("in.onnx"), "-o", self.path("out.onnx")).json()
        self.assertIn("inner graphs, or sparse, are carried over as they are: 2 with 8", r["note"])
        self.assertEqual(sha(self.path("out.onnx")), sha(self.path("in.onnx")))

    def test_recurrent(self):
        """W and R are weights, [directions, gates, inputs]; B, initial states and peepholes are not, and stay by default."""
        for op, gates in (("LSTM", 4), ("GRU", 3), ("RNN", 1)):
            for opset, ir in ((7, 4), (14, 7)):
                w = {"W": normal("W", (2, gates * 16, 48)), "R": normal("R", (2, gates * 16, 16))}
                rest = {"B": normal("B", (2, gates * 32)), "h0": normal("h0", (2, 5, 16))}
                m = model([helper.make_node(op, ["x", "W", "R", "B", "", "h0"], ["y"], hidden_size=16,
                                            direction="bidirectional")],
                          [info("x", [4, 5, 48])], [info("y", [4, 2, 5, 16])], [tensor(n, a) for n, a in {**w, **rest}.items()],
                          opset, ir)
                before = run_model(self.save(m))
                r = self.vc("quantize", "--int8", "--min-elements", "1", "--min-row", "1", "--json", "-f", self.path("in.onnx"),
                            "-o", self.path("out.onnx")).json()
                self.assertEqual({t["name"]: t["reason"] for t in r["tensors"] if t["action"] == "kept"},
                                 {"B": "bias", "h0": "initial state"})
                values = self.check_int8(m, w, {"W": 1, "R": 1}, product=opset < 13)
                self.same_values(m, values, "out.onnx")
                self.near(run_model(self.path("out.onnx")), before, 3 * CLOSE)
                self.vc("quantize", "--int8", "--include", "B", "--min-row", "1", "-f", self.path("in.onnx"), "-o", self.path("out.onnx"))
                self.assertIn("B.int8", initializers(self.opened("out.onnx")))

    def test_names_that_are_taken(self):
        """Names of nodes' values, here and in a branch, are not used again."""
        m, w = mlp()
        for n in m.graph.node:
            for k, i in enumerate(n.input):
                n.input[k] = {"h0": "w1.int8", "h1": "w1.scale"}.get(i, i)
            for k, o in enumerate(n.output):
                n.output[k] = {"h0": "w1.int8", "h1": "w1.scale"}.get(o, o)
        before = run_model(self.save(m))
        self.vc("quantize", "--int8", *SMALL, self.path("in.onnx"), "-o", self.path("out.onnx"))
        a = initializers(self.opened("out.onnx"))
        self.assertIn("w1.int8_1", a)
        self.assertIn("w1.scale_1", a)
        self.near(run_model(self.path("out.onnx")), before, CLOSE)
        # A weight called w and one called w.int8.
        m = model([helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("MatMul", ["h", "w.int8"], ["y"])],
                  [info("x", [None, 16])], [info("y", [None, 16])],
                  [tensor("w", normal("w", (16, 16))), tensor("w.int8", normal("v", (16, 16)))])
        before = run_model(self.save(m))
        self.vc("quantize", "--int8", *SMALL, "-f", self.path("in.onnx"), "-o", self.path("out.onnx"))
        self.opened("out.onnx")
        self.near(run_model(self.path("out.onnx")), before, CLOSE)

    # ---- reading codes ----

    def test_dequantize(self):
        for build, axes in ((mlp, MLP_AXES), (conv, CONV_AXES)):
            m, w = build()
            self.save(m)
            for extra in ([], ["--asymmetric"], ["--granularity", "tensor"]):
                self.vc("quantize", "--int8", *SMALL, *extra, "--force", self.path("in.onnx"), "-o", self.path("out.onnx"))
                self.vc("dequantize", "--force", self.path("out.onnx"), "-o", self.path("back.onnx"))
                back = self.opened("back.onnx")
                self.assertEqual(list(back.graph.node), list(m.graph.node))
                got = initializers(back)
                self.assertEqual(list(got), list(initializers(m)))
                for n, x in w.items():
                    granularity = "tensor" if "tensor" in extra else "channel"
                    q, s, z, _ = d.int8(x, granularity, axes[n], 0, "--asymmetric" in extra)
                    self.same_bits(got[n], d.int8_value(q, s, z, granularity), n)
                # The names are the same all the way.
                r = run("diff", "--json", self.path("in.onnx"), self.path("out.onnx"))
                self.assertEqual({t["name"] for t in r.json()["tensors"]}, set(initializers(m)))
                # What is quantized already is left alone, or done again.
                self.refuse(3, "quantize", "--int8", *SMALL, self.path("out.onnx"), "-o", self.path("no.onnx"))
                self.vc("quantize", "--int8", *SMALL, "--requantize", "-f", self.path("out.onnx"), "-o",
                        self.path("again.onnx"))
                self.assertEqual(set(initializers(self.opened("again.onnx"))) - set(initializers(m)),
                                 {n + s for n in w for s in (".int8", ".scale")})
                self.vc("dequantize", "--exclude", "*", "-f", self.path("out.onnx"), "-o", self.path("same.onnx"))
                self.assertEqual(sha(self.path("same.onnx")), sha(self.path("out.onnx")))

    def test_others_codes(self):
        """What onnxruntime's own tool writes: int8 weights are understood, the rest of its nodes stays."""
        try:
            from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
        except ImportError as e:
            self.skipTest(str(e))

        class Reader(CalibrationDataReader):
            def __init__(self):
                r = np.random.default_rng(3)
                self.data = iter([{"x": r.standard_normal((5, 48)).astype("f4")} for _ in range(4)])

            def get_next(self):
                return next(self.data, None)

        m, w = mlp()
        self.save(m)
        for per_channel in (False, True):
            quantize_static(self.path("in.onnx"), self.path("ort.onnx"), Reader(), quant_format=QuantFormat.QDQ,
                            per_channel=per_channel, weight_type=QuantType.QInt8, activation_type=QuantType.QUInt8)
            before = run_model(self.path("ort.onnx"))
            ort = onnx.load(self.path("ort.onnx"))
            tensors = self.vc("inspect", "--json", self.path("ort.onnx")).json()["tensors"]
            codes = {t["name"]: t for t in tensors if t["quant"]}
            self.assertEqual(len(codes), 3, [t["name"] for t in tensors])
            self.vc("dequantize", "--force", self.path("ort.onnx"), "-o", self.path("back.onnx"))
            back = self.opened("back.onnx")
            self.near(run_model(self.path("back.onnx")), before, 1e-6)
            self.assertEqual(len(back.graph.node), len(ort.graph.node) - 3)
            got = initializers(back)
            for n, x in w.items():
                match = [k for k in codes if k.startswith(n)]
                self.assertEqual(len(match), 1)
                self.near(got[match[0]], x, 0.01)
            # Their scales and zero points of activations are no weights.
            self.vc("quantize", "--fp16", *SMALL, "--force", self.path("back.onnx"), "-o", self.path("half.onnx"))
            self.near(run_model(self.path("half.onnx")), before, 0.02)

    def test_scales_of_f16(self):
        """Since opset 19 the type of the scales is that of the weights."""
        q, s, _, _ = d.int8(normal("w", (16, 24)), "channel", 1, 0, False)
        s = s.astype("f2").reshape(-1)
        m = model([helper.make_node("DequantizeLinear", ["q", "s"], ["w"], axis=1),
                   helper.make_node("MatMul", ["x", "w"], ["y"])],
                  [info("x", [None, 16], T.FLOAT16)], [info("y", [None, 24], T.FLOAT16)], [tensor("q", q), tensor("s", s)], 21,
                  10)
        before = run_model(self.save(m))
        self.vc("dequantize", "--source-dtype", self.path("in.onnx"), "-o", self.path("back.onnx"))
        back = self.opened("back.onnx")
        self.assertEqual([n.op_type for n in back.graph.node], ["MatMul"])
        self.same_bits(initializers(back)["w"], (q.astype("f4") * s.astype("f4")).astype("f2"), "w")
        self.near(run_model(self.path("back.onnx")), before, 1e-3)
        self.vc("quantize", "--int8", *SMALL, "--requantize", self.path("in.onnx"), "-o", self.path("again.onnx"))
        self.opened("again.onnx")
        self.near(run_model(self.path("again.onnx")), before, CLOSE)

    def test_shared_codes(self):
        """Codes that two nodes use are nobody's weights: everything stays."""
        q, s, _, _ = d.int8(normal("w", (16, 16)), "channel", 1, 0, False)
        nodes = [helper.make_node("DequantizeLinear", ["q", "s"], [n], axis=1) for n in ("w", "v")]
        nodes += [helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("MatMul", ["h", "v"], ["y"])]
        m = model(nodes, [info("x", [None, 16])], [info("y", [None, 16])], [tensor("q", q), tensor("s", s.reshape(-1))])
        self.save(m)
        tensors = self.vc("inspect", "--json", self.path("in.onnx")).json()["tensors"]
        self.assertEqual([(t["name"], t["dtype"]) for t in tensors], [("q", "i8"), ("s", "f32")])
        self.vc("dequantize", self.path("in.onnx"), "-o", self.path("out.onnx"))
        self.assertEqual(sha(self.path("out.onnx")), sha(self.path("in.onnx")))

    def test_scales_are_no_weights(self):
        """A large table of block scales must not be quantized itself."""
        q = np.random.default_rng(1).integers(-7, 8, (64, 64)).astype("i1")
        s = np.abs(normal("s", (64, 32))) + 1
        m = model([helper.make_node("DequantizeLinear", ["q", "s"], ["w"], axis=1, block_size=2),
                   helper.make_node("Add", ["w", "w2"], ["v"]), helper.make_node("MatMul", ["x", "v"], ["y"])],
                  [info("x", [None, 64])], [info("y", [None, 64])],
                  [helper.make_tensor("q", T.UINT8, q.shape, (q + 8).tobytes(), raw=True), tensor("s", s),
                   tensor("w2", normal("w2", (64, 64)))], 21, 10)
        self.save(m)
        self.vc("quantize", "--int8", *SMALL, "--include", "*", self.path("in.onnx"), "-o", self.path("out.onnx"))
        self.assertEqual(set(initializers(self.opened("out.onnx"))), {"q", "s", "w2.int8", "w2.scale"})
        self.vc("quantize", "--int8", *SMALL, "--drop", "other", self.path("in.onnx"), "-o", self.path("too.onnx"))
        self.assertEqual(sha(self.path("too.onnx")), sha(self.path("out.onnx")))

    def test_axes(self):
        """One weight with two uses: channels where they agree, else axis 0."""
        w = normal("w", (24, 24))
        for second, axis in ((helper.make_node("Gemm", ["h", "w"], ["y"]), 1),
                             (helper.make_node("Gemm", ["h", "w"], ["y"], transB=1), 0)):
            m = model([helper.make_node("MatMul", ["x", "w"], ["h"]), second], [info("x", [None, 24])],
                      [info("y", [None, 24])], [tensor("w", w)])
            self.save(m)
            self.vc("quantize", "--int8", *SMALL, "-f", self.path("in.onnx"), "-o", self.path("out.onnx"))
            self.check_int8(m, {"w": w}, {"w": axis})
        table = normal("t", (40, 24))
        m = model([helper.make_node("Gather", ["t", "i"], ["h"]), helper.make_node("MatMul", ["h", "w"], ["y"])],
                  [info("i", [None], T.INT64)], [info("y", [None, 24])], [tensor("t", table), tensor("w", w)])
        before = run_model(self.save(m))
        self.vc("quantize", "--int8", *SMALL, "-f", self.path("in.onnx"), "-o", self.path("out.onnx"))
        self.check_int8(m, {"w": w, "t": table}, {"w": 1, "t": 0})
        self.near(run_model(self.path("out.onnx")), before, CLOSE)

    # ---- external data ----

    def external(self, m, name="in.onnx", **options):
        copy = onnx.ModelProto()
        copy.CopyFrom(m)
        return self.save(copy, name, save_as_external_data=True, **dict(dict(size_threshold=0), **options))

    def places(self, name):
        m = onnx.load(self.path(name), load_external_data=False)
        return {i.name: {e.key: e.value for e in i.external_data} for i in m.graph.initializer
                if i.data_location == T.EXTERNAL}

    def test_external(self):
        for build, axes in ((mlp, MLP_AXES), (conv, CONV_AXES)):
            m, w = build()
            before = run_model(self.save(m, "whole.onnx"))
            for options in (dict(location="weights.bin"), dict(all_tensors_to_one_file=False)):
                self.external(m, **options)
                self.vc("quantize", "--int8", "--exclude", "*", "-f", self.path("in.onnx"), "-o", self.path("same.onnx"))
                for n, a in initializers(self.opened("same.onnx"), self.dir).items():
                    self.same_bits(a, initializers(m)[n], n)
                places = self.places("same.onnx")
                self.assertEqual(set(places), set(initializers(m)))
                for p in places.values():
                    self.assertEqual((p["location"], int(p["offset"]) % 4096), ("same.onnx.data", 0))
                r = self.vc("quantize", "--int8", *SMALL, "--json", "-f", self.path("in.onnx"), "-o",
                            self.path("out.onnx")).json()
                self.assertIn("out.onnx.data", r["note"])
                size = os.path.getsize(self.path("out.onnx")) + os.path.getsize(self.path("out.onnx.data"))
                self.assertEqual(r["totals"]["file"]["after"], size)
                dry = self.vc("quantize", "--int8", *SMALL, "--json", "--dry-run", self.path("in.onnx"), "-o",
                              self.path("out.onnx")).json()
                self.assertEqual(dry["totals"]["file"]["after"], size)
                values = self.check_int8(m, w, axes)
                self.near(run_model(self.path("out.onnx")), before, CLOSE)
                self.same_values(m, values, "out.onnx")
                self.vc("dequantize", "-f", self.path("out.onnx"), "-o", self.path("back.onnx"))
                for n, a in values.items():
                    self.same_bits(initializers(self.opened("back.onnx"), self.dir)[n], a, n)

    def test_external_constants(self):
        """Weights of nodes in another file: the nodes give way to initializers, changed or not."""
        w, c = normal("w", (32, 32)), normal("c", (32, 32))
        for opset, ir in ((9, 3), (17, 8)):
            m = model([helper.make_node("Constant", [], ["c"], value=numpy_helper.from_array(c, "value")),
                       helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("MatMul", ["h", "c"], ["y"])],
                      [info("x", [5, 32])] + ([info("w", [32, 32])] if ir < 4 else []), [info("y", [5, 32])],
                      [tensor("w", w)], opset, ir)
            self.external(m, location="weights.bin", convert_attribute=True)
            before = run_model(self.path("in.onnx"))
            for extra in (["--exclude", "*"], ["--exclude", "w", *SMALL], SMALL):
                self.vc("quantize", "--int8", *extra, "-f", self.path("in.onnx"), "-o", self.path("out.onnx"))
                out = self.opened("out.onnx")
                self.assertNotIn("Constant", [n.op_type for n in out.graph.node])
                self.near(run_model(self.path("out.onnx")), before, CLOSE if len(extra) != 2 else 1e-6)
            self.assertEqual(set(initializers(out)), {"w.int8", "w.scale", "c.int8", "c.scale"})

    def test_external_is_confined(self):
        m, _ = mlp()
        self.external(m, location="weights.bin")
        inside = read_bytes(self.path("in.onnx"))
        for location, said in ((b"../leave.bin", "only files in the model's folder"), (b"/etc/passwd", "only files"),
                               (b"./a/../b.bin", "only files"), (b"missing.bin", "cannot be opened"), (b".", "no file"),
                               (b"", "does not say in which"), (b"weights.bin/", "cannot be opened")):
            copy = onnx.load(self.path("in.onnx"), load_external_data=False)
            for i in copy.graph.initializer:
                for e in i.external_data:
                    if e.key == "location":
                        e.value = location.decode()
            write_bytes(self.path("bad.onnx"), copy.SerializeToString())
            self.assertIn(said, self.refuse(4 if "cannot" in said else 3, "inspect", self.path("bad.onnx")), location)
        write_bytes(self.path("piped.onnx"), inside)
        self.assertIn("standard input", self.refuse(3, "inspect", "-", stdin=inside))

    def test_external_through_links(self):
        """A cache: every name in the snapshot is a link to a blob somewhere else; folders can be links, too."""
        m, _ = mlp()
        os.mkdir(self.path("sub"))
        self.external(m, location="sub/weights.bin")
        self.vc("quantize", "--int8", *SMALL, "-q", self.path("in.onnx"), "-o", self.path("plain.onnx"))
        for place in ("blobs", "snapshots/4f1c/onnx/sub", "snapshots/4f1c/weights", "other"):
            os.makedirs(self.path(place))
        os.rename(self.path("in.onnx"), self.path("blobs/1"))
        os.rename(self.path("sub/weights.bin"), self.path("blobs/2"))
        os.symlink("../../../blobs/1", self.path("snapshots/4f1c/onnx/in.onnx"))
        os.symlink("../../../../blobs/2", self.path("snapshots/4f1c/onnx/sub/weights.bin"))
        os.symlink("../../blobs/1", self.path("snapshots/4f1c/in.onnx"))
        os.symlink("../../../blobs/2", self.path("snapshots/4f1c/weights/weights.bin"))
        os.symlink("weights", self.path("snapshots/4f1c/sub"))
        os.symlink(self.path("blobs/1"), self.path("other/in.onnx"))
        os.symlink("../snapshots/4f1c/onnx/sub", self.path("other/sub"))
        was = sha(self.path("blobs/2"))
        self.assertIn("leads out of the model's folder", self.refuse(3, "inspect", self.path("other/in.onnx")))
        for place in ("snapshots/4f1c/onnx", "snapshots/4f1c"):
            self.vc("quantize", "--int8", *SMALL, "-q", "-f", self.path(place + "/in.onnx"), "-o", self.path("links.onnx"))
            self.assertEqual(read_bytes(self.path("links.onnx")),
                             read_bytes(self.path("plain.onnx")).replace(b"plain.onnx", b"links.onnx"))
            self.assertEqual(sha(self.path("links.onnx.data")), sha(self.path("plain.onnx.data")))
            said = self.refuse(2, "quantize", "--int8", "-f", self.path(place + "/in.onnx"), "-o", self.path("blobs/2"))
            self.assertIn("input itself", said)
        self.assertEqual(sha(self.path("blobs/2")), was)
        os.remove(self.path("snapshots/4f1c/onnx/sub/weights.bin"))
        for target, code, said in (("../in.onnx", 3, "in the model itself"), ("weights.bin", 4, "cannot be opened"),
                                   ("..", 3, "no file"), ("gone", 4, "cannot be opened"), ("/dev/zero", 3, "no file"), ("/etc/passwd", 3, "leads out")):
            os.symlink(target, self.path("snapshots/4f1c/onnx/sub/weights.bin"))
            self.assertIn(said, self.refuse(code, "inspect", self.path("snapshots/4f1c/onnx/in.onnx")), target)
            os.remove(self.path("snapshots/4f1c/onnx/sub/weights.bin"))

    def test_external_is_not_replaced(self):
        """Neither the input's data nor a file that is there already, whatever the names."""
        m, _ = mlp()
        self.external(m, location="out.onnx.data")
        was = sha(self.path("out.onnx.data"))
        for force in ([], ["--force"]):
            said = self.refuse(2, "quantize", "--int8", *force, self.path("in.onnx"), "-o", self.path("out.onnx"))
            self.assertIn("input itself" , said)
        for output in ("out.onnx.data", "in.onnx"):
            self.refuse(2, "quantize", "--int8", "--force", self.path("in.onnx"), "-o", self.path(output))
        os.link(self.path("out.onnx.data"), self.path("w.npz"))
        self.refuse(2, "quantize", "--int8", "--force", self.path("in.onnx"), "-o", self.path("w.npz"))
        os.remove(self.path("w.npz"))
        self.assertEqual(sha(self.path("out.onnx.data")), was)
        write_bytes(self.path("b.onnx.data"), b"mine")
        self.assertIn("--force", self.refuse(2, "quantize", "--int8", self.path("in.onnx"), "-o", self.path("b.onnx")))
        self.assertEqual(read_bytes(self.path("b.onnx.data")), b"mine")
        self.assertIn("second file", self.refuse(2, "quantize", "--int8", self.path("in.onnx"), "-o", "-"))
        self.no_strays("in.onnx", "out.onnx.data", "b.onnx.data")

    # ---- other formats ----

    def test_conversions(self):
        m, w = mlp(how="list")
        self.save(m)
        self.vc("quantize", "--int8", "--exclude", "*", self.path("in.onnx"), "-o", self.path("out.npz"))
        z = self.load(self.path("out.npz"))
        for n, a in initializers(m).items():
            self.same_bits(z[n], a, n)
        said = self.refuse(2, "quantize", "--int8", self.path("out.npz"), "-o", self.path("no.onnx"))
        self.assertIn("only ONNX becomes ONNX", said)
        for extra, granularity in (([], "channel"), (["--asymmetric"], "channel"), (["--granularity", "tensor"], "tensor")):
            self.vc("quantize", "--int8", *SMALL, *extra, "-f", self.path("in.onnx"), "-o", self.path("q.onnx"))
            # From one run the same files, whichever of them is named first.
            self.vc("quantize", "--int8", *SMALL, *extra, "-f", self.path("in.onnx"), "-o", self.path("e.npz"), "--emit",
                    self.path("e.onnx"))
            self.assertEqual(sha(self.path("e.onnx")), sha(self.path("q.onnx")))
            self.vc("dequantize", "-f", self.path("e.npz"), "-o", self.path("e.safetensors"))
            self.vc("dequantize", "-f", self.path("q.onnx"), "-o", self.path("f.safetensors"))
            self.assertEqual(sha(self.path("e.safetensors")), sha(self.path("f.safetensors")))
            for extension in ("npz", "safetensors"):
                out = self.path("q." + extension)
                self.vc("dequantize", "--exclude", "*", "-f", self.path("q.onnx"), "-o", out)
                self.vc("dequantize", "-f", out, "-o", self.path("b.npz"))
                self.vc("dequantize", "-f", self.path("q.onnx"), "-o", self.path("c.npz"))
                b, c = self.load(self.path("b.npz")), self.load(self.path("c.npz"))
                self.assertEqual(list(b), list(initializers(m)))
                for n, x in w.items():
                    q, s, zero, _ = d.int8(x, granularity, MLP_AXES[n], 0, "--asymmetric" in extra)
                    self.same_bits(b[n], d.int8_value(q, s, zero, granularity), n)
                    self.same_bits(b[n], c[n], n)

    def test_strip(self):
        """Descriptions and metadata of all messages go, in graphs inside nodes and functions, too; what computes stays. A note tells of many."""
        def describe(message):
            for field in ("doc_string", "metadata_props"):
                if field == "doc_string" and field in message.DESCRIPTOR.fields_by_name:
                    message.doc_string = "File model.py, line 7"
                elif field in message.DESCRIPTOR.fields_by_name:
                    message.metadata_props.add(key="trace", value="File model.py, line 7, in forward" * 9)
            for field, value in message.ListFields():
                for v in value if field.message_type is not None and hasattr(value, "append") else [value] if field.message_type is not None else ():
                    if field.name != "metadata_props" and type(v).__name__ not in ("Dimension", "OperatorSetIdProto", "TypeProto"):
                        describe(v)

        def described(message):
            """How many messages say something."""
            n = sum(f.name in ("doc_string", "metadata_props") for f, _ in message.ListFields())
            for field, value in message.ListFields():
                if field.message_type is not None and field.name != "metadata_props":
                    n += sum(described(v) for v in (value if hasattr(value, "append") else [value]))
            return n
        m, w = mlp()
        nodes = [helper.make_node("Constant", [], ["half"], value=tensor("", np.float32([0.5]))), helper.make_node("Mul", ["y", "half"], ["z0"])]
        branch = [helper.make_graph([helper.make_node(op, ["z0"], [op])], op, [], [info(op, None)]) for op in ("Relu", "Neg")]
        nodes += [helper.make_node("If", ["yes"], ["z1"], then_branch=branch[0], else_branch=branch[1]),
                  helper.make_node("Twice", ["z1"], ["z"], domain="own")]
        m.graph.node.extend(nodes)
        m.graph.initializer.append(tensor("yes", np.bool_(True)))
        m.graph.output[0].name = "z"
        m.opset_import.append(helper.make_opsetid("own", 1))
        m.functions.append(helper.make_function("own", "Twice", ["a"], ["b"], [helper.make_node("Add", ["a", "a"], ["b"])], m.opset_import[:1]))
        describe(m)
        m.metadata_props.add(key="vcompress.optional:k", value="3")
        self.save(m)
        before = onnxruntime.InferenceSession(self.path("in.onnx")).run(None, {"x": normal("x", (3, 48))})[0]
        for command in (["convert"], ["quantize", "--int8", *SMALL], ["quantize", "--fp16"], ["prune", "--sparsity", "0.5"], ["run", "--pass", "quantize --fp16"]):
            plain = self.vc(*command, "-f", self.path("in.onnx"), "-o", self.path("plain.onnx"))
            self.assertIn("of the output are descriptions, such as stack traces, which compute nothing: --strip", plain.out.decode())
            said = self.vc(*command, "--strip", "-f", self.path("in.onnx"), "-o", self.path("out.onnx"))
            self.assertNotIn("--strip leaves", said.out.decode())
            out, whole = self.opened("out.onnx"), self.opened("plain.onnx")
            self.assertEqual((described(out), [p.key for p in out.metadata_props]), (1, ["vcompress.optional:k"]))
            self.assertGreater(described(whole), 30)
            x = {"x": normal("x", (3, 48))}
            answers = [onnxruntime.InferenceSession(self.path(f)).run(None, x)[0] for f in ("out.onnx", "plain.onnx")]
            self.same_bits(*answers, command)
            if command == ["convert"]:
                self.same_bits(answers[0], before, command)
        self.assertIn("leaves descriptions out of ONNX files", self.refuse(2, "convert", "--strip", self.path("in.onnx"), "-o", self.path("no.npz")))

    def test_names_and_pipes(self):
        m, _ = mlp()
        self.save(m, "m.onnx")
        self.vc("quantize", "--int8", *SMALL, self.path("m.onnx"))
        piped = run("quantize", "--int8", *SMALL, "-", "-o", "-", stdin=read_bytes(self.path("m.onnx")))
        self.assertEqual(piped.code, 0, piped.err)
        self.assertEqual(piped.out, read_bytes(self.path("m.int8.onnx")))
        self.no_strays("m.onnx", "m.int8.onnx")

    def test_determinism(self):
        for build in (mlp, conv):
            self.external(build()[0], location="w.bin")
            seen = set()
            for extra in (["--threads", "1"], ["--threads", "4"], ["--cpu-mask", "ref"], ["--max-memory", "32M"]):
                self.vc("quantize", "--int8", *SMALL, "-f", *extra, self.path("in.onnx"), "-o", self.path("out.onnx"))
                seen.add((sha(self.path("out.onnx")), sha(self.path("out.onnx.data"))))
            self.assertEqual(len(seen), 1)


if __name__ == "__main__":
    main()
