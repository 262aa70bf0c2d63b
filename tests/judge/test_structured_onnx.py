"""test_structured_onnx.py - channels removed from an ONNX file: onnxruntime computes the same as before, where the weights
that read them were zero; tensors, value shapes, Conv's group and Reshape's sizes follow. Needs onnx and onnxruntime."""
import re
import sys
import unittest

from judge_support import Judge, main, np

try:
    import onnx
    import onnxruntime
    from onnx import TensorProto, helper, numpy_helper
except ImportError as missing:
    print("SKIPPED: %s for %s" % (missing, sys.executable))
    sys.exit(77)


class Onnx(Judge):
    def setUp(self):
        super().setUp()
        self.rng = np.random.default_rng(3)

    def weight(self, name, *shape):
        return numpy_helper.from_array(self.rng.standard_normal(shape).astype("f4"), name)

    def network(self):
        """A convolution, a depthwise one, a flattened picture, two layers."""
        node, value = helper.make_node, helper.make_tensor_value_info
        nodes = [node("Conv", ["x", "c1.weight", "c1.bias"], ["a"], pads=[1, 1, 1, 1]), node("Relu", ["a"], ["b"]),
                 node("Conv", ["b", "dw.weight"], ["d"], group=12, pads=[1, 1, 1, 1]), node("Relu", ["d"], ["e"]),
                 node("Reshape", ["e", "shape"], ["f"]), node("Gemm", ["f", "fc.weight", "fc.bias"], ["g"], transB=1),
                 node("Relu", ["g"], ["i"]), node("MatMul", ["i", "out.weight"], ["y"])]
        weights = [self.weight("c1.weight", 12, 3, 3, 3), self.weight("c1.bias", 12), self.weight("dw.weight", 12, 1, 3, 3),
                   numpy_helper.from_array(np.array([0, 300], "i8"), "shape"), self.weight("fc.weight", 20, 300),
                   self.weight("fc.bias", 20), self.weight("out.weight", 20, 4)]
        shapes = [value(n, TensorProto.FLOAT, s) for n, s in
                  [("a", ["b", 12, 5, 5]), ("e", ["b", 12, 5, 5]), ("f", ["b", 300]), ("g", ["b", 20])]]
        graph = helper.make_graph(nodes, "net", [value("x", TensorProto.FLOAT, ["b", 3, 5, 5])],
                                  [value("y", TensorProto.FLOAT, ["b", 4])], weights, value_info=shapes)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)

    def compute(self, model, x):
        return onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, {"x": x})[0]

    def test_channels(self):
        model = self.network()
        onnx.save(model, self.path("in.onnx"))
        report = self.vc("prune", "--structured", "0.4", self.path("in.onnx"), "-o", self.path("out.onnx"), "--json").json()
        gone = {g["name"]: g["removed"] for g in report["removal"]["groups"] if g["removed"]}
        self.assertEqual({k: len(v) for k, v in gone.items()}, {"c1.weight:0": 4, "fc.weight:0": 8})
        small = onnx.load(self.path("out.onnx"))
        onnx.checker.check_model(small, full_check=True)
        shapes = {i.name: list(i.dims) for i in small.graph.initializer}
        self.assertEqual(shapes, {"c1.weight": [8, 3, 3, 3], "c1.bias": [8], "dw.weight": [8, 1, 3, 3], "shape": [2],
                                  "fc.weight": [12, 200], "fc.bias": [12], "out.weight": [12, 4]})
        told = {v.name: [d.dim_value for d in v.type.tensor_type.shape.dim] for v in small.graph.value_info}
        self.assertEqual(told, {"a": [0, 8, 5, 5], "e": [0, 8, 5, 5], "f": [0, 200], "g": [0, 12]})
        for tensor in model.graph.initializer:
            a = numpy_helper.to_array(tensor).copy()
            if tensor.name == "fc.weight":
                a.reshape(20, 12, 25)[:, gone["c1.weight:0"]] = 0
            if tensor.name == "out.weight":
                a[gone["fc.weight:0"]] = 0
            tensor.CopyFrom(numpy_helper.from_array(a, tensor.name))
        x = self.rng.standard_normal((2, 3, 5, 5)).astype("f4")
        before, after = self.compute(model, x), self.compute(small, x)
        self.assertLessEqual(np.abs(before - after).max(), 1e-5 * np.abs(before).max())

    def equal_sizes(self, rng):
        """A network of weights [5, 5] and values [5, 5, 5], [25, 5], [5, 25]: only what moves tells axes apart."""
        node, n, weights, nodes = helper.make_node, 5, [], []

        def weight(*shape):
            weights.append(numpy_helper.from_array(rng.standard_normal(shape).astype("f4"), "w%d" % len(weights)))
            return weights[-1].name

        def add(op, inputs, shape, **attributes):
            nodes.append(node(op, inputs, ["v%d" % len(nodes)], **attributes))
            values.append((nodes[-1].output[0], shape))

        values = [("x", (n, n, n))]
        for _ in range(rng.integers(5, 12)):
            v, shape = values[-1]
            what = rng.choice(["matmul", "left", "transpose", "reshape", "bias", "relu", "sum", "product"])
            if len(shape) == 2 and what in ("left", "product", "sum"):
                what = "reshape"
            if what == "matmul":
                add("MatMul", [v, weight(shape[-1], shape[-1])], shape)
            elif what == "left":
                add("MatMul", [weight(n, n), v], shape)
            elif what == "transpose":
                perm = [int(k) for k in rng.permutation(len(shape))]
                add("Transpose", [v], tuple(shape[k] for k in perm), perm=perm)
            elif what == "reshape":
                to = (n, n, n) if len(shape) == 2 else ((n * n, n), (n, n * n))[rng.integers(2)]
                weights.append(numpy_helper.from_array(np.array(to, "i8"), "w%d" % len(weights)))
                add("Reshape", [v, weights[-1].name], to)
            elif what == "bias":
                add("Add", [v, weight(shape[-1])], shape)
            elif what == "relu":
                add("Relu", [v], shape)
            else:
                others = [u for u, s in values[:-1] if s == shape] or [v]
                add("Add" if what == "sum" else "MatMul", [v, others[rng.integers(len(others))]], shape)
        graph = helper.make_graph(nodes, "net", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [n, n, n])],
                                  [helper.make_tensor_value_info(values[-1][0], TensorProto.FLOAT, values[-1][1])], weights)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)

    def recurrent(self, op, direction, first, states, second):
        """A recurrent layer, its outputs flattened for a layer of numbers or a GRU of 4 units behind. first: output 0 has a name. states: first ones,
        numbers of the file or zeros as torch.onnx.export makes them."""
        node, gates, ways = helper.make_node, {"RNN": 1, "GRU": 3, "LSTM": 4}[op], 2 if direction == "bidirectional" else 1
        weights = [self.weight("W", ways, gates * 8, 5), self.weight("R", ways, gates * 8, 8), self.weight("B", ways, 2 * gates * 8),
                   self.weight("O", 4 if second else ways * 8, 3),
                   numpy_helper.from_array(np.array([0, 0, -1] if second else [0, -1], "i8"), "flat")]
        inputs = ["x", "W", "R", "B"]
        nodes = []
        if states == "zeros":
            weights += [numpy_helper.from_array(np.array(v, "i8"), n) for n, v in (("one", [1]), ("ways", [ways]), ("eight", [8]))]
            nodes = [node("Shape", ["x"], ["shape"]), node("Gather", ["shape", "one"], ["rows"]), node("Concat", ["ways", "rows", "eight"], ["sizes"], axis=0),
                     node("ConstantOfShape", ["sizes"], ["h0"])]
            inputs += ["", "h0"] + ["h0"] * (op == "LSTM")
        elif states:
            weights += [self.weight("h0", ways, 2, 8)] + ([self.weight("c0", ways, 2, 8), self.weight("P", ways, 24)] if op == "LSTM" else [])
            inputs += ["", "h0"] + (["c0", "P"] if op == "LSTM" else [])
        nodes.append(node(op, inputs, ["a" if first else "", "h"], hidden_size=8, direction=direction))
        if second:
            weights += [self.weight("W2", 1, 12, ways * 8), self.weight("R2", 1, 12, 4), numpy_helper.from_array(np.array([0], "i8"), "zero")]
            nodes += [node("Transpose", ["a"], ["t"], perm=[0, 2, 1, 3]), node("Reshape", ["t", "flat"], ["f"]),
                      node("GRU", ["f", "W2", "R2"], ["", "h2"], hidden_size=4, linear_before_reset=1), node("Squeeze", ["h2", "zero"], ["s"])]
        else:
            nodes += [node("Transpose", ["h"], ["t"], perm=[1, 0, 2]), node("Reshape", ["t", "flat"], ["s"])]
        nodes.append(node("MatMul", ["s", "O"], ["y"]))
        graph = helper.make_graph(nodes, "net", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [6, "b", 5])],
                                  [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["b", 3])], weights)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)

    def without(self, model, gone):
        """The model with units at 0: their rows in all gates, biases and first states."""
        small = onnx.ModelProto()
        small.CopyFrom(model)
        for tensor in small.graph.initializer:
            a, units = numpy_helper.to_array(tensor).copy(), gone.get(2 if tensor.name.endswith("2") else 1, [])
            size = 4 if tensor.name.endswith("2") else 8
            if tensor.name in ("W", "R", "B", "W2", "R2"):
                shape = a.shape
                a = a.reshape((shape[0], -1, size) + shape[2:])
                a[:, :, units] = 0
                a = a.reshape(shape)
            elif tensor.name in ("h0", "c0"):
                a[:, :, units] = 0
            tensor.CopyFrom(numpy_helper.from_array(a, tensor.name))
        return small

    def test_recurrent(self):
        """Hidden units of RNN, GRU and LSTM go with rows and columns of all gates; the rest computes what it computes with them at 0."""
        for op in ("RNN", "GRU", "LSTM"):
            for direction in ("forward", "reverse", "bidirectional"):
                for first, states, second in ((True, False, False), (False, True, False), (True, True, True), (True, "zeros", True)):
                    with self.subTest(op=op, direction=direction, states=states, second=second):
                        model = self.recurrent(op, direction, first, states, second)
                        onnx.save(model, self.path("in.onnx"))
                        report = self.vc("prune", "--structured", "0.4", "-f", self.path("in.onnx"), "-o", self.path("out.onnx"), "--json").json()
                        gone = {2 if g["name"].startswith("W2") else 1: g["removed"] for g in report["removal"]["groups"] if g["removed"]}
                        self.assertEqual({k: len(v) for k, v in gone.items()}, {1: 3, 2: 1} if second else {1: 3})
                        small = onnx.load(self.path("out.onnx"))
                        onnx.checker.check_model(small, full_check=True)
                        sizes = [a.i for n in small.graph.node for a in n.attribute if a.name == "hidden_size"]
                        self.assertEqual(sizes, [5, 3] if second else [5])
                        x = self.rng.standard_normal((6, 2, 5)).astype("f4")
                        y = self.compute(small, x)
                        self.assertLess(np.abs(self.compute(self.without(model, gone), x) - y).max(), 1e-5)
                        self.assertGreater(np.abs(self.compute(model, x) - y).max(), 1e-3)

    def test_equal_sizes(self):
        """Axes of one size: a unit of which all is zero is removed, and the outputs stay."""
        rng, done = np.random.default_rng(11), 0
        for k in range(150):
            model = self.equal_sizes(rng)
            onnx.save(model, self.path("in.onnx"))
            x = rng.standard_normal((5, 5, 5)).astype("f4")
            for line in self.vc("graph", self.path("in.onnx"), "--couplings").out.decode().splitlines():
                if line.startswith("#") or not line:
                    continue
                arrays = {t.name: numpy_helper.to_array(t).copy() for t in model.graph.initializer}
                head = re.match(r"(?:\w+ )?(?:(\d+)(?:\*\d+)?)?: ", line)
                members = [re.fullmatch(r"(.*?):(\d+)(?:\*(\d+))?(?:/\d+)?(?:\+(\d+))?!?", m).groups()
                           for m in line[head.end() if head else 0:].split(" = ")]
                members = [(m[0], int(m[1]), int(m[2] or 1), int(m[3] or 0)) for m in members]
                name = "%s:%d" % members[0][:2]
                units = int((head and head.group(1)) or min(arrays[t].shape[axis] // block for t, axis, block, _ in members))
                unit = int(rng.integers(units))
                for tensor, axis, block, offset in members:
                    size = arrays[tensor].shape[axis]
                    repeat = 1 if offset else size // (units * block)
                    index = [slice(None)] * arrays[tensor].ndim
                    index[axis] = [offset + (r * units + unit) * block + j for r in range(repeat) for j in range(block)]
                    arrays[tensor][tuple(index)] = 0
                silent = onnx.ModelProto.FromString(model.SerializeToString())
                for tensor in silent.graph.initializer:
                    tensor.CopyFrom(numpy_helper.from_array(arrays[tensor.name], tensor.name))
                onnx.save(silent, self.path("silent.onnx"))
                with open(self.path("remove.txt"), "w") as f:
                    f.write("%s %d\n" % (name, unit))
                self.vc("prune", "--remove", self.path("remove.txt"), "-f", "-q", self.path("silent.onnx"), "-o", self.path("out.onnx"))
                small = onnx.load(self.path("out.onnx"))
                was, now = self.compute(silent, x), self.compute(small, x)
                self.assertEqual(was.shape, now.shape)
                self.assertLessEqual(np.abs(was - now).max(), 1e-4 * max(1, np.abs(was).max()), (k, name, unit))
                done += 1
        self.assertGreater(done, 50)

    def test_couplings_of_a_file(self):
        """What the graph states follows groups of a file, too, where they are its own; others are refused."""
        onnx.save(self.network(), self.path("in.onnx"))
        self.vc("prune", "--structured", "0.4", self.path("in.onnx"), "-o", self.path("graph.onnx"), "-q")
        text = self.vc("graph", "--couplings", self.path("in.onnx")).out.decode()
        lines = [line for line in text.splitlines() if line and not line.startswith("#")]
        swapped = []
        for line in lines:  # members in another order are the same group
            head, colon, members = line.rpartition(": ") if re.match(r"(\w+ )?\d+: ", line) else ("", "", line)
            swapped.append(head + colon + " = ".join(reversed(members.split(" = "))))
        for written in (text, "\n".join(reversed(lines)) + "\n", "\n".join(swapped) + "\n"):
            with open(self.path("c.txt"), "w") as f:
                f.write(written)
            self.vc("prune", "--structured", "0.4", "--couplings", self.path("c.txt"), self.path("in.onnx"), "-o",
                    self.path("file.onnx"), "-q", "--force")
            with open(self.path("graph.onnx"), "rb") as a, open(self.path("file.onnx"), "rb") as b:
                self.assertEqual(a.read(), b.read())
        with open(self.path("c.txt"), "w") as f:  # the depthwise convolution is missing
            f.write("c1.weight:0 = c1.bias:0 = fc.weight:1*25\n")
        said = self.refuse(3, "prune", "--structured", "0.4", "--couplings", self.path("c.txt"), self.path("in.onnx"), "-o",
                           self.path("x.onnx"))
        self.assertIn("c1.weight:0: the graph of the file has no such group", said)

    def test_graphs_inside(self):
        """Branches of If are part of the graph: what both read loses the same columns, by its own groups and by given ones."""
        node, value = helper.make_node, helper.make_tensor_value_info
        bodies = [helper.make_graph([node("MatMul", ["h", w], [w + ".y"])], w, [], [value(w + ".y", TensorProto.FLOAT, ["b", 3])])
                  for w in ("w1", "w2")]
        nodes = [node("MatMul", ["x", "w0"], ["h"]), node("If", ["c"], ["y"], then_branch=bodies[0], else_branch=bodies[1])]
        graph = helper.make_graph(nodes, "net", [value("x", TensorProto.FLOAT, ["b", 4]), value("c", TensorProto.BOOL, [])],
                                  [value("y", TensorProto.FLOAT, ["b", 3])],
                                  [self.weight("w0", 4, 8), self.weight("w1", 8, 3), self.weight("w2", 8, 3)])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        onnx.checker.check_model(model, full_check=True)
        onnx.save(model, self.path("if.onnx"))
        with open(self.path("c.txt"), "w") as f:
            f.write("w0:1! = w1:0 = w2:0\n")
        for given in (), ("--couplings", self.path("c.txt")):
            self.vc("prune", "--structured", "0.5", *given, self.path("if.onnx"), "-o", self.path("x.onnx"), "-f")
            pruned = onnx.load(self.path("x.onnx"))
            onnx.checker.check_model(pruned, full_check=True)
            self.assertEqual({t.name: list(t.dims) for t in pruned.graph.initializer}, {"w0": [4, 4], "w1": [4, 3], "w2": [4, 3]})


if __name__ == "__main__":
    main()
