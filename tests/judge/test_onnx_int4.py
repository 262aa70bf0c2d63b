"""test_onnx_int4.py - int4 in ONNX: MatMulNBits of onnxruntime, and DequantizeLinear of blocks.

Codes and scales are those of the definition, bit for bit. onnxruntime is the judge of both forms: what it computes from
the codes is what it computes from the floats that `dequantize` makes of them, but for the order of sums. Files of its own
quantizer are read, with and without zero points; where that cannot be imported, nodes as it makes them.
"""
import os
import shlex
import sys

from judge_support import SMALL, Judge, main, np, sha
import definition as d

try:
    import onnx
    import onnxruntime
    from onnx import TensorProto as T, helper, numpy_helper
except ImportError as e:
    print("SKIPPED: %s (the packages onnx and onnxruntime, for %s)" % (e, sys.executable))
    sys.exit(77)

onnxruntime.set_default_logger_severity(4)
TYPES = {"f4": T.FLOAT, "f2": T.FLOAT16}


def info(name, shape, dtype="f4"):
    return helper.make_tensor_value_info(name, TYPES[dtype], shape)


def build(nodes, inits, outputs, k, opset=17, dtype="f4"):
    """A graph of one input x [n, k]; outputs: name -> columns."""
    graph = helper.make_graph(nodes, "g", [info("x", ["n", k], dtype)],
                              [info(n, [c[0] if isinstance(c, tuple) else "n", c[1] if isinstance(c, tuple) else c], dtype)
                               for n, c in outputs.items()],
                              [numpy_helper.from_array(np.ascontiguousarray(a), n) for n, a in inits.items()])
    sets = [helper.make_opsetid("", opset)]
    if any(n.domain for n in nodes):
        sets.append(helper.make_opsetid("com.microsoft", 1))
    m = helper.make_model(graph, opset_imports=sets, producer_name="judge")
    m.ir_version = 10 if opset >= 21 else 8
    return m


def normal(shape, seed, dtype="f4"):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def network(k=96, n=40, m=24, trans=1, bias=True, dtype="f4", **more):
    """MatMul with [k, n], and Gemm."""
    inits = {"w1": normal((k, n), 1, dtype), "w2": normal((m, n) if trans else (n, m), 2, dtype)}
    if bias:
        inits["b"] = normal(m, 3, dtype)
    nodes = [helper.make_node("MatMul", ["x", "w1"], ["h"], name="first"),
             helper.make_node("Gemm", ["h", "w2"] + ["b"] * bias, ["y"], name="second", alpha=1.0, beta=1.0, transB=trans)]
    return build(nodes, inits, {"y": m}, k, dtype=dtype, **more), inits


def by_columns(a, group):
    """Codes [k, n] and scales [groups, n] of a matrix whose groups run down the columns."""
    q, s, _, _ = d.ints(np.ascontiguousarray(a.T), group)
    return q.T, s.T


class OnnxInt4(Judge):
    def session(self, path):
        options = onnxruntime.SessionOptions()
        options.add_session_config_entry("session.qdq_matmulnbits_accuracy_level", "1")
        return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])

    def outputs(self, path, dtype="f4"):
        s = self.session(path)
        return [y.astype("f8") for y in s.run(None, {"x": normal((5, s.get_inputs()[0].shape[1]), 9, dtype)})]

    def quantize(self, m, *options, group=32, name="q.onnx"):
        onnx.save(m, self.path("m.onnx"))
        self.vc("quantize", "--int4", "--granularity", "group:%d" % group, *SMALL, *options, "--force",
                self.path("m.onnx"), "-o", self.path(name))
        return onnx.load(self.path(name))

    def same_outputs(self, name, dtype="f4", limit=2e-6):
        """onnxruntime computes from the codes what it computes from their values."""
        self.vc("dequantize", "--source-dtype", "--force", self.path(name), "-o", self.path("d.onnx"))
        onnx.checker.check_model(onnx.load(self.path("d.onnx")))
        for a, b in zip(self.outputs(self.path(name), dtype), self.outputs(self.path("d.onnx"), dtype)):
            self.assertLessEqual(np.abs(a - b).max(), limit * np.abs(b).max(), name)

    def ops(self, m):
        return [n.op_type for n in m.graph.node]

    def test_nbits(self):
        for k, group in ((96, 32), (100, 32), (97, 16), (256, 128)):
            m, w = network(k=k)
            q = self.quantize(m, group=group)
            self.assertEqual(self.ops(q), ["MatMulNBits", "MatMulNBits"])
            self.assertEqual([n.name for n in q.graph.node], ["first", "second"])
            self.assertEqual([(o.domain, o.version) for o in q.opset_import], [("", 17), ("com.microsoft", 1)])
            have = {i.name: numpy_helper.to_array(i) for i in q.graph.initializer}
            blocks = -(-k // group)
            codes, scales = by_columns(w["w1"], group)
            b = have["w1.int4"]
            nibbles = np.stack([b & 15, b >> 4], -1).reshape(40, -1)
            self.same_bits(nibbles[:, :k].T.astype("i1") - 8, codes, k)
            self.assertTrue((nibbles[:, k:] == 8).all())
            self.same_bits(have["w1.scale"].reshape(40, blocks).T, scales, k)
            codes, scales, _, _ = d.ints(w["w2"], group)
            b = have["w2.int4_rows"]
            self.same_bits(np.stack([b & 15, b >> 4], -1).reshape(24, -1)[:, :40].astype("i1") - 8, codes, k)
            self.same_bits(have["w2.scale"].reshape(24, -1), scales, k)
            self.same_outputs("q.onnx")
            back = {i.name: numpy_helper.to_array(i) for i in onnx.load(self.path("d.onnx")).graph.initializer}
            self.same_bits(back["w1"], (by_columns(w["w1"], group)[0] *
                                        np.repeat(by_columns(w["w1"], group)[1], group, axis=0)[:k]).astype("f4"), k)
            np.savez(self.path("x.npz"), x=normal((5, k), 9))
            self.vc("logits", "--data", self.path("x.npz"), "--force", self.path("q.onnx"), "-o", self.path("l.npz"))
            ours = [a for a in self.load(self.path("l.npz")).values() if getattr(a, "ndim", 0) == 2][0]
            self.assertLessEqual(np.abs(ours - self.outputs(self.path("q.onnx"))[0]).max(), 2e-6 * np.abs(ours).max())
            self.vc("verify", "--data", "--against", self.path("m.onnx"), self.path("q.onnx"))

    def test_zero_points(self):
        """Two a byte, in rows of whole bytes, plus 8 as the codes are; down the columns of MatMul and along the rows of Gemm."""
        for k, group, trans, dtype in ((96, 32, 1, "f4"), (97, 16, 1, "f4"), (256, 128, 0, "f4"), (100, 32, 1, "f2")):
            m, w = network(k=k, trans=trans, dtype=dtype)
            for a in w.values():
                a += np.where(np.arange(a.shape[-1]) % 3 == 0, 1, -0.5).astype(dtype)  # values of one sign, too
            m.graph.initializer[0].CopyFrom(numpy_helper.from_array(w["w1"], "w1"))
            m.graph.initializer[1].CopyFrom(numpy_helper.from_array(w["w2"], "w2"))
            q = self.quantize(m, "--asymmetric", group=group)
            self.assertEqual(self.ops(q), ["MatMulNBits", "MatMulNBits"])
            have = {i.name: numpy_helper.to_array(i) for i in q.graph.initializer}
            for node, rows in zip(q.graph.node, (w["w1"].T, w["w2"] if trans else w["w2"].T)):
                n, inputs = rows.shape
                blocks = -(-inputs // group)
                codes, scales, _, zeros = d.ints(np.ascontiguousarray(rows), group, dtype="f16" if dtype == "f2" else "f32", asymmetric=True)
                b, s, z = (have[name] for name in node.input[1:4])
                self.same_bits(np.stack([b & 15, b >> 4], -1).reshape(n, -1)[:, :inputs].astype("i1") - 8, codes, k)
                self.same_bits(s.reshape(n, -1).view("u%d" % s.itemsize), scales.view("u%d" % s.itemsize), k)
                self.assertEqual((z.dtype, z.shape), (np.uint8, (n * ((blocks + 1) // 2),)))
                nibbles = np.stack([z & 15, z >> 4], -1).reshape(n, -1)
                self.same_bits(nibbles[:, :blocks].astype("i1") - 8, zeros, k)
                self.assertTrue((nibbles[:, blocks:] == 8).all())
            self.same_outputs("q.onnx", dtype, 2e-6 if dtype == "f4" else 4e-3)
            self.vc("verify", "--data", "--against", self.path("m.onnx"), self.path("q.onnx"))
        m, _ = network(opset=21)
        self.quantize(m, "--asymmetric")
        self.vc("convert", "--layout", "onnx-qdq", "-f", self.path("q.onnx"), "-o", self.path("linear.onnx"))
        self.same_outputs("linear.onnx")
        self.vc("convert", "--layout", "onnx", "-f", self.path("linear.onnx"), "-o", self.path("nbits.onnx"))
        self.assertEqual(sha(self.path("q.onnx")), sha(self.path("nbits.onnx")))

    def test_forms(self):
        for trans, bias, dtype in ((0, True, "f4"), (0, False, "f4"), (1, False, "f4"), (1, True, "f2")):
            m, _ = network(trans=trans, bias=bias, dtype=dtype)
            self.assertEqual(self.ops(self.quantize(m)), ["MatMulNBits", "MatMulNBits"])
            self.same_outputs("q.onnx", dtype, 2e-6 if dtype == "f4" else 3e-3)
            m, _ = network(trans=trans, bias=bias, dtype=dtype, opset=21)
            q = self.quantize(m, "--layout", "onnx-qdq")
            self.assertEqual(self.ops(q), ["DequantizeLinear", "DequantizeLinear", "MatMul", "Gemm"])
            self.assertEqual({i.data_type for i in q.graph.initializer if i.name.endswith(".int4")}, {T.INT4})
            self.same_outputs("q.onnx", dtype, 2e-6 if dtype == "f4" else 3e-3)

    def convert(self, before, layout, after):
        self.vc("convert", "--layout", layout, "--force", self.path(before), "-o", self.path(after))
        m = onnx.load(self.path(after))
        onnx.checker.check_model(m)
        return m

    def values(self, name):
        """The codes, scales and zero points of each weight, as the program shows them, and what they stand for."""
        self.vc("convert", "--force", self.path(name), "-o", self.path("v.npz"))
        self.vc("dequantize", "--source-dtype", "--force", self.path(name), "-o", self.path("f.onnx"))
        values = self.load(self.path("v.npz"))
        values.update({"decoded " + i.name: numpy_helper.to_array(i) for i in onnx.load(self.path("f.onnx")).graph.initializer})
        return values

    def between(self, name, dtype="f4", limit=2e-6, layouts=("onnx-qdq", "onnx")):
        """There and back: equal codes and values, and outputs of onnxruntime that differ by the order of sums."""
        want, values = self.outputs(self.path(name), dtype), self.values(name)
        ops = []
        for before, after, layout in ((name, "there.onnx", layouts[0]), ("there.onnx", "back.onnx", layouts[1])):
            ops.append(self.ops(self.convert(before, layout, after)))
            have = self.values(after)
            self.assertEqual(sorted(have), sorted(values))
            for key, a in values.items():
                self.same_bits(have[key], a, (name, after, key))
            for a, b in zip(self.outputs(self.path(after), dtype), want):
                self.assertLessEqual(np.abs(a - b).max(), limit * np.abs(b).max(), (name, after))
        self.vc("convert", "--force", self.path("back.onnx"), "-o", self.path("copy.onnx"))
        copy = sha(self.path("copy.onnx"))
        self.convert("back.onnx", layouts[1], "copy.onnx")  # it has that form already
        self.assertEqual(sha(self.path("copy.onnx")), copy)
        return ops

    def test_between_forms(self):
        """convert moves codes, scales and zero points from one form to the other."""
        for k, group, trans, bias, dtype in ((96, 32, 1, True, "f4"), (100, 32, 0, True, "f4"), (97, 16, 0, False, "f4"),
                                             (256, 128, 1, False, "f4"), (96, 32, 1, True, "f2")):
            m, _ = network(k=k, trans=trans, bias=bias, dtype=dtype, opset=21)
            limit = 2e-6 if dtype == "f4" else 3e-3
            self.quantize(m, group=group, name="nbits.onnx")
            linear = ["DequantizeLinear"] * 2 + ["MatMul", "Gemm" if trans or bias else "MatMul"]
            self.assertEqual(self.between("nbits.onnx", dtype, limit), [linear, ["MatMulNBits"] * 2])
            self.assertEqual(sha(self.path("back.onnx")), sha(self.path("nbits.onnx")))
            self.quantize(m, "--layout", "onnx-qdq", group=group, name="linear.onnx")
            self.assertEqual(self.between("linear.onnx", dtype, limit, ("onnx", "onnx-qdq")), [["MatMulNBits"] * 2, linear])

    def test_between_external(self):
        m, _ = network(opset=21, k=512)
        onnx.save(m, self.path("e.onnx"), save_as_external_data=True, location="e.bin", size_threshold=0)
        self.vc("quantize", "--int4", "--granularity", "group:32", *SMALL, self.path("e.onnx"), "-o", self.path("nbits.onnx"))
        self.between("nbits.onnx")

    def test_between_refused(self):
        """What a form cannot hold is refused by name with the way round, and nothing is written."""
        w = np.random.default_rng(6).integers(0, 256, (96, 40)).astype("u1")

        def linear(scales, axis=0, type_=T.INT4, zero=False, other=False, **more):
            names = ["w_q", "w_s"] + ["w_z"] * zero
            nodes = [helper.make_node("DequantizeLinear", names, ["w"], axis=axis, **more), helper.make_node("MatMul", ["x", "w"], ["y"])]
            nodes += [helper.make_node("Transpose", ["w"], ["t"])] * other
            m = build(nodes, {"w_s": scales}, dict(y=40, **({"t": (40, 96)} if other else {})), 96, opset=21)
            m.graph.initializer.append(helper.make_tensor("w_q", type_, [96, 40], w.tobytes()[:96 * 20], raw=True))
            return m

        def nbits(bits=4, g_idx=False, opset=21, float_zero=False):
            parts = {"w_Q4": np.resize(w, (40, 3, 4 * bits)), "w_scales": normal((40, 3), 7)}
            if float_zero or g_idx:
                parts["w_zp"] = normal((40, 3), 8) if float_zero else np.full((40, 2), 0x88, "u1")
            if g_idx:
                parts["w_g_idx"] = (np.arange(96) // 32).astype("i4")
            return build([helper.make_node("MatMulNBits", ["x", *parts], ["y"], domain="com.microsoft", K=96, N=40, bits=bits,
                                           block_size=32)], parts, {"y": 40}, 96, opset=opset)

        cases = (("onnx", linear(normal((4, 40), 1), block_size=24), "w: groups of MatMulNBits"),
                 ("onnx", linear(normal((12, 40), 1), block_size=8), "w: groups of MatMulNBits"),
                 ("onnx", linear(normal(40, 1), axis=1), "w: it has no scale per group"),
                 ("onnx", linear(normal((96, 2), 1), axis=1, block_size=20), "do not run along|groups of MatMulNBits"),
                 ("onnx", linear(normal((96, 1), 1), axis=1, block_size=64), "w: its groups do not run along the inputs"),
                 ("onnx", linear(normal((3, 40), 1), block_size=32, other=True), "w: not only plain products"),
                 ("onnx", linear(normal((3, 40), 1), block_size=32, type_=T.UINT4), "w: its codes or scales"),
                 ("onnx-qdq", nbits(opset=20), "needs opset 21"), ("onnx-qdq", nbits(bits=8), "y: has codes of another number"),
                 ("onnx-qdq", nbits(bits=2), "y: has codes"), ("onnx-qdq", nbits(g_idx=True), "y: has codes"),
                 ("onnx-qdq", nbits(float_zero=True), "y: has codes"))
        for layout, m, why in cases:
            onnx.save(m, self.path("m.onnx"))
            said = self.refuse(3, "convert", "--layout", layout, self.path("m.onnx"), "-o", self.path("no.onnx"))
            self.assertRegex(said, why)
            if "opset" not in why:
                self.assertIn("run --pass dequantize --pass", said)
            self.assertFalse(os.path.exists(self.path("no.onnx")))
        onnx.save(cases[0][1], self.path("m.onnx"))  # the way round that the sentence names
        said = self.refuse(3, "convert", "--layout", "onnx", self.path("m.onnx"), "-o", self.path("no.onnx"))
        command = said[said.index("run --pass"):said.index(" makes others")].replace("group:32", " ".join(["group:32", *SMALL]))
        self.vc(*shlex.split(command), self.path("m.onnx"), "-o", self.path("way.onnx"))
        self.assertEqual(self.ops(onnx.load(self.path("way.onnx"))), ["MatMulNBits"])
        for layout in ("onnx", "onnx-qdq"):  # nothing of four bits: a copy
            self.vc("quantize", "--int8", *SMALL, "--force", self.path("way.onnx"), "--requantize", "-o", self.path("i8.onnx"))
            self.convert("i8.onnx", layout, "c.onnx")
            self.assertEqual(sha(self.path("i8.onnx")), sha(self.path("c.onnx")))

    def test_other_uses(self):
        """A weight that is transposed as well has its place in DequantizeLinear only."""
        w = {"w": normal((96, 40), 4), "v": normal((96, 40), 5)}
        nodes = [helper.make_node("MatMul", ["x", n], ["y" + n]) for n in "wv"]
        nodes += [helper.make_node("MatMul", ["x", "v"], ["again"]), helper.make_node("Transpose", ["w"], ["t"]),
                  helper.make_node("MatMul", ["yw", "t"], ["yt"])]
        outs = {"yw": 40, "yv": 40, "again": 40, "yt": 96}
        q = self.quantize(build(nodes, w, outs, 96))
        self.assertEqual(self.ops(q), ["MatMul", "MatMulNBits", "MatMulNBits", "Transpose", "MatMul"])
        self.assertEqual(sum(i.name == "v.int4" for i in q.graph.initializer), 1)
        self.same_outputs("q.onnx")
        q = self.quantize(build(nodes, w, outs, 96, opset=21))
        self.assertEqual(self.ops(q), ["DequantizeLinear", "MatMul", "MatMulNBits", "MatMulNBits", "Transpose", "MatMul"])
        self.same_outputs("q.onnx")

    def test_refused(self):
        m, _ = network()
        onnx.save(m, self.path("m.onnx"))
        for code, options, why in ((2, ["--granularity", "channel"], "a scale per group"),
                                   (3, ["--emit", self.path("q.npz")], "runs of their own")):
            self.assertIn(why, self.refuse(code, "quantize", "--int4", *SMALL, *options, self.path("m.onnx"), "-o",
                                           self.path("no.onnx")))
        q = self.quantize(m, "--layout", "onnx-qdq")  # opset 17 has no such DequantizeLinear: nothing changes
        self.assertEqual(self.ops(q), ["MatMul", "Gemm"])
        self.assertEqual(self.ops(self.quantize(m, group=24)), ["MatMul", "Gemm"])

    def test_no_place(self):
        """Below set 21 there is a place for products of matrices alone: a note tells it, and what helps."""
        nodes = [helper.make_node("Conv", ["x", "w"], ["h"], pads=[1] * 4), helper.make_node("Conv", ["h", "v"], ["y"])]
        graph = helper.make_graph(nodes, "g", [info("x", ["n", 32, 5, 5])], [info("y", ["n", 64, 5, 5])],
                                  [numpy_helper.from_array(normal(shape, 1), n) for n, shape in (("w", (64, 32, 3, 3)), ("v", (64, 64, 1, 1)))])
        for opset, n, why in ((17, 2, "groups would run along several axes"), (21, 1, "groups would run along several axes")):
            onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10), self.path("c.onnx"))
            said = self.vc("quantize", "--int4", self.path("c.onnx"), "-o", self.path("no.onnx"), "-f").out.decode()
            self.assertIn("most of it because %s; --int8 has codes for it" % why, said)
            self.assertEqual("no weight was changed; the reasons are with the tensors, of the largest one: " + why in said, n == 2)
            self.assertNotIn("get no codes", self.vc("quantize", "--int8", self.path("c.onnx"), "-o", self.path("no.onnx"), "-f").out.decode())

    def test_chains(self):
        m, _ = network()
        self.quantize(m)
        self.vc("prune", "--sparsity", "0.5", *SMALL[:2], self.path("m.onnx"), "-o", self.path("p.onnx"))
        self.vc("quantize", "--int4", "--granularity", "group:32", *SMALL, self.path("p.onnx"), "-o", self.path("pq.onnx"))
        self.vc("run", "--pass", " ".join(["prune --sparsity 0.5", *SMALL[:2]]), "--pass",
                " ".join(["quantize --int4 --granularity group:32", *SMALL]), self.path("m.onnx"), "-o", self.path("c.onnx"))
        self.assertEqual(sha(self.path("pq.onnx")), sha(self.path("c.onnx")))
        self.vc("convert", self.path("q.onnx"), "-o", self.path("copy.onnx"))
        self.assertEqual(sha(self.path("q.onnx")), sha(self.path("copy.onnx")))
        for scheme in (["--int8"], ["--int4", "--granularity", "group:16"]):
            self.vc("quantize", *scheme, "--requantize", *SMALL, "--force", self.path("q.onnx"), "-o", self.path("again.onnx"))
            self.same_outputs("again.onnx")

    def theirs(self):
        """Files of onnxruntime's quantizer, or nodes as it makes them."""
        m = network(k=100, n=40, opset=21)[0]
        try:
            import logging
            from onnxruntime.quantization import QuantFormat
            from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer
        except ImportError:
            MatMulNBitsQuantizer = None
        for symmetric in (True, False):
            if MatMulNBitsQuantizer is not None:
                logging.disable(logging.CRITICAL)
                for form in (QuantFormat.QOperator, QuantFormat.QDQ):
                    q = MatMulNBitsQuantizer(onnx.ModelProto.FromString(m.SerializeToString()), block_size=32,
                                             is_symmetric=symmetric, quant_format=form)
                    q.process()
                    yield form.name, symmetric, q.model.model
                logging.disable(logging.NOTSET)
            for n in (40, 41):  # rows of an odd length, too
                parts = {"w_Q4": np.random.default_rng(6).integers(0, 256, (n, 4, 16)).astype("u1"),
                         "w_scales": normal((n, 4), 7)}
                if not symmetric:
                    parts["w_zero_points"] = np.random.default_rng(8).integers(0, 256, (n, 2)).astype("u1")
                node = helper.make_node("MatMulNBits", ["x", *parts], ["y"], domain="com.microsoft", K=100, N=n, bits=4,
                                        block_size=32)
                yield n, symmetric, build([node], parts, {"y": n}, 100, opset=21)

    def test_theirs(self):
        n = 0
        for what, symmetric, m in self.theirs():
            onnx.save(m, self.path("t.onnx"))
            self.same_outputs("t.onnx")
            self.assertEqual(self.ops(onnx.load(self.path("d.onnx")))[0], "MatMul", (what, symmetric))
            self.vc("verify", "--data", self.path("t.onnx"))
            self.vc("convert", "--force", self.path("t.onnx"), "-o", self.path("copy.onnx"))
            self.assertEqual(sha(self.path("copy.onnx")), sha(self.path("t.onnx")))
            self.vc("convert", "--force", self.path("t.onnx"), "-o", self.path("t.npz"))
            self.vc("dequantize", "--force", self.path("t.npz"), "-o", self.path("d.npz"))
            want = {i.name: numpy_helper.to_array(i) for i in onnx.load(self.path("d.onnx")).graph.initializer}
            have = self.load(self.path("d.npz"))
            for name, a in want.items():
                self.same_bits(have[name], a, (what, symmetric, name))
            self.between("t.onnx", layouts=("onnx", "onnx-qdq") if "DequantizeLinear" in self.ops(m) else ("onnx-qdq", "onnx"))
            n += 1
        self.assertGreaterEqual(n, 4)

    def test_external(self):
        m, _ = network()
        onnx.save(m, self.path("e.onnx"), save_as_external_data=True, location="e.bin", size_threshold=0)
        self.vc("quantize", "--int4", "--granularity", "group:32", *SMALL, self.path("e.onnx"), "-o", self.path("q.onnx"))
        self.same_outputs("q.onnx")
        self.quantize(m, name="inside.onnx")
        for a, b in zip(self.outputs(self.path("q.onnx")), self.outputs(self.path("inside.onnx"))):
            self.assertEqual(a.tobytes(), b.tobytes())


if __name__ == "__main__":
    main()
