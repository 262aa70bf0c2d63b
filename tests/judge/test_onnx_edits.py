"""test_onnx_edits.py - ONNX files whose tensors a pass has made smaller: groups of convolutions, sizes of Split, targets of
Reshape, bounds of Slice and declared shapes follow. The pass is the tests' own (tests/formats/cut_pass.h), which does as it is told.

Judges: the onnx checker, its shape inference in strict mode, onnxruntime, and the numbers: what goes was multiplied by zeros,
so outputs stay.
"""
import os
import subprocess
import sys
import unittest

from judge_support import Judge, main, np
import weights

try:
    import onnx
    import onnxruntime
    from onnx import TensorProto as T, helper, numpy_helper
except ImportError as e:
    print("SKIPPED: %s (the packages onnx and onnxruntime, for %s)" % (e, sys.executable))
    sys.exit(77)

CUT = os.path.join(os.environ.get("VCOMPRESS_BUILD_DIR", ""), "tests", "formats", "cut_onnx")
if not os.path.isfile(CUT):
    print("SKIPPED: %s is not there (a build of shared libraries)" % CUT)
    sys.exit(77)

onnxruntime.set_default_logger_severity(4)


def info(name, shape):
    return helper.make_tensor_value_info(name, T.FLOAT, shape)


def ints(name, *numbers):
    return numpy_helper.from_array(np.array(numbers, "i8"), name)


def normal(name, *shape):
    return weights.normal(name, shape, 0.5).astype("f4").reshape(shape)


def listed(numbers):
    return ",".join(map(str, numbers))


def declared(model):
    """Name -> dimensions of everything that the graph declares."""
    graph = model.graph
    return {v.name: [d.dim_param or d.dim_value for d in v.type.tensor_type.shape.dim]
            for v in list(graph.input) + list(graph.value_info) + list(graph.output)}


class Edits(Judge):
    def build(self, nodes, inputs, outputs, arrays, others=(), opset=17, ir=8):
        """The file, with shapes inferred for all values, and what it declares."""
        inits = [numpy_helper.from_array(a, n) for n, a in arrays.items()] + list(others)
        inputs = list(inputs)
        if ir < 4:
            inputs += [helper.make_tensor_value_info(t.name, t.data_type, list(t.dims)) for t in inits]
        m = helper.make_model(helper.make_graph(nodes, "g", inputs, outputs, inits),
                              opset_imports=[helper.make_opsetid("", opset)])
        m.ir_version = ir
        m = onnx.shape_inference.infer_shapes(m, strict_mode=True, data_prop=True)
        path = self.path("in.onnx")
        onnx.save(m, path)
        return path, declared(m)

    def cut(self, source, lines):
        path = self.path("out.onnx")
        done = subprocess.run([CUT, source, path, "\n".join(lines)], stderr=subprocess.PIPE, timeout=60)
        self.assertEqual((done.returncode, done.stderr.decode()), (0, ""))
        return path

    def run_both(self, source, path, feeds):
        outputs = []
        for p in (source, path):
            session = onnxruntime.InferenceSession(p, providers=["CPUExecutionProvider"])
            outputs.append(session.run(None, feeds))
        for a, b in zip(*outputs):
            self.assertEqual(a.shape, b.shape)
            self.assertLessEqual(np.abs(a - b).max(), 1e-5 * np.abs(a).max())

    def check(self, path, want_declared):
        """The file is right by itself, and declares what follows from its tensors."""
        onnx.checker.check_model(path, full_check=True)
        m = onnx.load(path)
        found = declared(m)
        self.assertEqual(sorted(found), sorted(want_declared))
        bare = onnx.ModelProto()
        bare.CopyFrom(m)
        bare.graph.ClearField("value_info")
        for v in bare.graph.output:
            v.type.tensor_type.ClearField("shape")
        inferred = declared(onnx.shape_inference.infer_shapes(bare, strict_mode=True, data_prop=True))
        for name, shape in found.items():
            for d, k in zip(shape, inferred[name]):
                if isinstance(d, int) and isinstance(k, int) and k != 0:
                    self.assertEqual(d, k, "%s: declared %s, inferred %s" % (name, shape, inferred[name]))
        return m

    def test_convolutions(self):
        """A convolution, a depthwise one that follows its channels, features flattened by a Reshape, a linear layer."""
        a = {"c1": normal("c1", 8, 3, 3, 3), "b1": normal("b1", 8), "dw": normal("dw", 8, 1, 3, 3),
             "fc": normal("fc", 8 * 16, 5)}
        a["fc"].reshape(8, 16, 5)[[2, 5]] = 0
        nodes = [helper.make_node("Conv", ["x", "c1", "b1"], ["h1"], pads=[1, 1, 1, 1]),
                 helper.make_node("Relu", ["h1"], ["h2"]),
                 helper.make_node("Conv", ["h2", "dw"], ["h3"], pads=[1, 1, 1, 1], group=8),
                 helper.make_node("Reshape", ["h3", "target"], ["flat"]), helper.make_node("MatMul", ["flat", "fc"], ["y"])]
        for ir, opset in ((3, 9), (8, 17)):
            source, before = self.build(nodes, [info("x", ["n", 3, 4, 4])], [info("y", ["n", 5])], a,
                                        [ints("target", -1, 128)], opset, ir)
            kept = [0, 1, 3, 4, 6, 7]
            lines = ["keep %s 0 %s" % (n, listed(kept)) for n in ("c1", "b1", "dw")]
            lines += ["keep fc 0 " + listed(c * 16 + k for c in kept for k in range(16))]
            lines += ["attribute h3 group 6", "input flat 1 -1,96", "shape flat -1,96", "shape y"]
            lines += ["shape %s -1,6,4,4" % v for v in ("h1", "h2", "h3")]
            path = self.cut(source, lines)
            m = self.check(path, before)
            self.assertEqual({t.name: list(t.dims) for t in m.graph.initializer},
                             {"c1": [6, 3, 3, 3], "b1": [6], "dw": [6, 1, 3, 3], "fc": [96, 5], "target": [2]})
            self.run_both(source, path, {"x": normal("x", 2, 3, 4, 4)})
            # What nobody speaks for is not declared any more, and the file is as good.
            path = self.cut(source, [l for l in lines if not l.startswith("shape h")])
            self.check(path, [n for n in before if n[0] != "h"])
            self.run_both(source, path, {"x": normal("x", 2, 3, 4, 4)})

    def test_split(self):
        """One layer whose outputs are split in two, as an attribute and as a tensor, and joined again."""
        for opset in (11, 17):
            a = {"w": normal("w", 6, 12), "v": normal("v", 12, 4)}
            a["v"][[1, 4, 8]] = 0
            other = [ints("sizes", 5, 7)] if opset == 17 else []
            split = (helper.make_node("Split", ["h", "sizes"], ["s", "t"], axis=1) if opset == 17 else
                     helper.make_node("Split", ["h"], ["s", "t"], axis=1, split=[5, 7]))
            nodes = [helper.make_node("MatMul", ["x", "w"], ["h"]), split, helper.make_node("Relu", ["s"], ["r"]),
                     helper.make_node("Concat", ["r", "t"], ["c"], axis=1), helper.make_node("MatMul", ["c", "v"], ["y"])]
            source, before = self.build(nodes, [info("x", ["n", 6])], [info("y", ["n", 4])], a, other, opset)
            kept = [k for k in range(12) if k not in (1, 4, 8)]
            lines = ["keep w 1 " + listed(kept), "keep v 0 " + listed(kept), "shape h -1,9", "shape s -1,3", "shape r -1,3",
                     "shape t -1,6", "shape c -1,9", "shape y -1,-1",
                     "input t 1 3,6" if opset == 17 else "attribute s split 3,6"]
            path = self.cut(source, lines)
            self.check(path, before)
            self.run_both(source, path, {"x": normal("x", 2, 6)})

    def test_heads(self):
        """Attention with its heads in a Reshape whose target two of the projections share; sizes from Constant nodes."""
        a = {n: normal(n, 8, 8) for n in ("q", "k", "v", "o")}
        a["o"][2:4] = 0  # what head 1 of 4 gives
        nodes = [helper.make_node("Constant", [], ["back"], value=ints("t", 0, 0, 8))]
        for n in ("q", "k", "v"):
            nodes += [helper.make_node("MatMul", ["x", n], [n + "0"]),
                      helper.make_node("Reshape", [n + "0", "heads" if n != "v" else "of_v"], [n + "1"]),
                      helper.make_node("Transpose", [n + "1"], [n + "2"], perm=[0, 2, 3, 1] if n == "k" else [0, 2, 1, 3])]
        nodes += [helper.make_node("MatMul", ["q2", "k2"], ["s"]), helper.make_node("Softmax", ["s"], ["p"], axis=-1),
                  helper.make_node("MatMul", ["p", "v2"], ["z"]),
                  helper.make_node("Transpose", ["z"], ["z1"], perm=[0, 2, 1, 3]),
                  helper.make_node("Reshape", ["z1", "back"], ["z2"]), helper.make_node("MatMul", ["z2", "o"], ["y"])]
        source, _ = self.build(nodes, [info("x", ["n", "t", 8])], [info("y", ["n", "t", 8])], a,
                               [ints("heads", 0, 0, 4, 2), ints("of_v", 0, 0, 4, 2)])
        kept = [0, 1, 4, 5, 6, 7]
        lines = ["keep %s 1 %s" % (n, listed(kept)) for n in ("q", "k", "v")] + ["keep o 0 " + listed(kept)]
        lines += ["input %s1 1 0,0,3,2" % n for n in ("q", "k", "v")] + ["input z2 1 0,0,6", "shape z2 -1,-1,6", "shape y"]
        path = self.cut(source, lines)
        m = self.check(path, ["x", "z2", "y"])
        self.assertEqual({t.name: numpy_helper.to_array(t).tolist() for t in m.graph.initializer if t.name not in a},
                         {"heads": [0, 0, 3, 2], "of_v": [0, 0, 3, 2], "back": [0, 0, 6]})
        self.assertNotIn("Constant", [n.op_type for n in m.graph.node])
        self.run_both(source, path, {"x": normal("x", 2, 5, 8)})

    def test_external(self):
        """Values in a second file; a constant that lies there, too."""
        a = {"w": normal("w", 6, 300), "v": normal("v", 300, 4)}
        a["v"][[7]] = 0
        nodes = [helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("Reshape", ["h", "target"], ["r"]),
                 helper.make_node("MatMul", ["r", "v"], ["y"])]
        source, before = self.build(nodes, [info("x", ["n", 6])], [info("y", ["n", 4])], a, [ints("target", -1, 300)])
        inside, source = source, self.path("outside.onnx")  # onnxruntime reads no shapes from a second file
        onnx.save(onnx.load(inside), source, save_as_external_data=True, location="in.data", size_threshold=0)
        kept = listed(k for k in range(300) if k != 7)
        path = self.cut(source, ["keep w 1 " + kept, "keep v 0 " + kept, "input r 1 -1,299", "shape h -1,299", "shape r -1,299",
                                 "shape y"])
        self.assertTrue(os.path.isfile(path + ".data"))
        self.check(path, before)
        self.run_both(inside, path, {"x": normal("x", 2, 6)})


if __name__ == "__main__":
    main()
