"""test_onnx_uses.py - which constants of ONNX graphs are weights: those that products and choices of rows read, through
whatever only moves their elements. All others stay bit for bit as they are, as initializers and in Constant nodes, after
quantize and prune; onnxruntime computes nearly the same with the result."""
from judge_support import SMALL, Judge, main, np
from test_onnx import T, helper, info, numpy_helper, onnx, onnxruntime

S, D = 24, 16
N = helper.make_node
RNG = np.random.default_rng(5)
PASSES = (("quantize", "--int8"), ("quantize", "--int8", "--rest", "fp16"), ("quantize", "--fp16"),
          ("prune", "--pattern", "2:4"), ("prune", "--sparsity", "0.5"), ("prune", "--sparsity", "0.5", "--scope", "global"))


def rand(*shape):
    return RNG.standard_normal(shape).astype("f4") * np.float32(0.3)


def mask():
    return np.triu(np.full((S, S), -1e4, "f4"), 1)


def angles(f):
    return f(np.arange(S)[:, None] / 100.0 ** (np.arange(D)[None] / D)).astype("f4")


ATTEND = [N("MatMul", ["x", "wq"], ["q"]), N("MatMul", ["x", "wk"], ["k"]), N("Transpose", ["k"], ["kt"], perm=[0, 2, 1]),
          N("MatMul", ["q", "kt"], ["s"])]
QK = {"wq": rand(D, D), "wk": rand(D, D)}
END = [N("Softmax", ["m"], ["p"], axis=-1), N("MatMul", ["p", "q"], ["y"])]


def branch(name, nodes, initializers=()):
    return helper.make_graph(nodes, name, [], [info(name, None)], list(initializers))


# name: (nodes from x [1, S, D] to y, weights, tables: neither may change)
CASES = {
    "mask that is added": (ATTEND + [N("Add", ["s", "mask"], ["m"])] + END, QK, {"mask": mask()}),
    "mask that is cast, cut and chosen": (
        ATTEND + [N("Cast", ["mask"], ["mc"], to=T.FLOAT), N("Slice", ["mc", "a", "b", "c"], ["ms"]),
                  N("Where", ["t", "ms", "s"], ["m0"]), N("Max", ["m0", "low"], ["m"])] + END, QK,
        {"mask": mask()[None], "low": np.full((1, S, S), -9, "f4"), "t": mask()[None] < 0,
         "a": np.array([0], "i8"), "b": np.array([S], "i8"), "c": np.array([1], "i8")}),
    "anchors and strides": (
        [N("MatMul", ["x", "w"], ["e"]), N("Sub", ["anchors", "e"], ["c"]), N("Mul", ["c", "strides"], ["d"]),
         N("Div", ["d", "sizes"], ["f"]), N("Pow", ["f", "two"], ["y"])], {"w": rand(D, D)},
        {"anchors": np.arange(S * D, dtype="f4").reshape(1, S, D), "strides": np.full((S, D), 8, "f4"),
         "sizes": np.full((S, D), 640, "f4"), "two": np.full((1, D), 2, "f4")}),
    "angles that are rows": (
        [N("MatMul", ["x", "wq"], ["q"]), N("Gather", ["cos", "ids"], ["c"]), N("Gather", ["sin", "ids"], ["s"]),
         N("Slice", ["q", "h", "e", "ax"], ["q2"]), N("Slice", ["q", "z", "h", "ax"], ["q1"]), N("Neg", ["q2"], ["q2n"]),
         N("Concat", ["q2n", "q1"], ["qr"], axis=-1), N("Mul", ["q", "c"], ["a"]), N("Mul", ["qr", "s"], ["b"]),
         N("Add", ["a", "b"], ["y"])], {"wq": rand(D, D)},
        {"cos": angles(np.cos), "sin": angles(np.sin), "h": np.array([D // 2], "i8"), "e": np.array([D], "i8"),
         "z": np.array([0], "i8"), "ax": np.array([2], "i8")}),
    "frequencies in an outer product": (
        [N("MatMul", ["x", "w"], ["q"]), N("ReduceMax", ["x"], ["pos"], axes=[2], keepdims=1),
         N("Cast", ["inv"], ["invc"], to=T.FLOAT), N("MatMul", ["pos", "invc"], ["f"]), N("Sin", ["f"], ["si"]),
         N("Mul", ["q", "si"], ["y"])], {"w": rand(D, D)}, {"inv": rand(1, 1, D) * 9}),
    "an einsum of elements": (
        [N("Einsum", ["x", "w"], ["q"], equation="bsd,de->bse"), N("Einsum", ["q", "t"], ["y"], equation="b s d, s d -> b s d")],
        {"w": rand(D, D)}, {"t": rand(S, D)}),
    "tables that tables are made of": (
        [N("Mul", ["pos", "freq"], ["f"]), N("Sin", ["f"], ["sf"]), N("MatMul", ["sf", "turn"], ["pe"]),
         N("MatMul", ["x", "w"], ["q"]), N("Add", ["q", "pe"], ["y"])], {"w": rand(D, D)},
        {"pos": np.arange(S, dtype="f4")[:, None] * np.ones((1, D), "f4"), "freq": np.abs(rand(S, D)), "turn": rand(D, D)}),
    "places, tokens and slopes": (
        [N("Concat", ["cls", "x1"], ["t"], axis=1), N("Add", ["t", "places"], ["u"]), N("MatMul", ["u", "w"], ["v"]),
         N("PRelu", ["v", "slope"], ["pr"]), N("LayerNormalization", ["pr", "g", "b"], ["y"]),
         N("Slice", ["x", "one", "end", "one"], ["x1"])], {"w": rand(D, D)},
        {"cls": rand(1, 1, D), "places": rand(1, S, D), "slope": np.abs(rand(S, D)), "g": rand(D), "b": rand(D),
         "one": np.array([1], "i8"), "end": np.array([99], "i8")}),
    "a product and a sum read it": (
        [N("MatMul", ["x", "w"], ["q"]), N("MatMul", ["q", "t"], ["r"]), N("Add", ["r", "t2"], ["y"]),
         N("Identity", ["t"], ["t1"]), N("Slice", ["t1", "z", "n", "z"], ["t2"])], {"w": rand(D, D)},
        {"t": rand(D, D), "z": np.array([0], "i8"), "n": np.array([1], "i8")}),
    "normalized and standardized weights": (
        [N("ReduceL2", ["v"], ["n"], axes=[0], keepdims=1), N("Div", ["g", "n"], ["gn"]), N("Mul", ["v", "gn"], ["w"]),
         N("MatMul", ["x", "w"], ["q"]), N("ReduceMean", ["u"], ["um"], axes=[0], keepdims=1), N("Sub", ["u", "um"], ["us"]),
         N("Transpose", ["us"], ["ut"], perm=[1, 0]), N("MatMul", ["q", "ut"], ["y"])],
        {"v": rand(D, D), "u": rand(D, D)}, {"g": 1 + rand(D)}),
    "a mask of weights": (
        [N("Mul", ["v", "keep"], ["w"]), N("MatMul", ["x", "w"], ["y"])], {}, {"keep": (rand(D, D) > 0).astype("f4"), "v": rand(D, D)}),
    "low ranks beside a weight": (
        [N("MatMul", ["lb", "la"], ["l"]), N("Add", ["w", "l"], ["wl"]), N("MatMul", ["x", "wl"], ["y"])],
        {"w": rand(D, D), "la": rand(4, D), "lb": rand(D, 4)}, {}),
    "weights that move": (
        [N("Identity", ["w1"], ["a1"]), N("Transpose", ["a1"], ["a2"], perm=[1, 0]), N("MatMul", ["x", "a2"], ["b1"]),
         N("Reshape", ["w2", "sh"], ["a3"]), N("MatMul", ["b1", "a3"], ["b2"]), N("Concat", ["w3", "w4"], ["a4"], axis=1),
         N("MatMul", ["b2", "a4"], ["b3"]), N("Split", ["w5"], ["a5", "a6"], axis=0), N("MatMul", ["b3", "a5"], ["b4"]),
         N("Unsqueeze", ["w6", "z"], ["a7"]), N("MatMul", ["b4", "a7"], ["b5"]), N("MatMul", ["b5", "a6"], ["y"])],
        {"w1": rand(D, D), "w2": rand(1, D * D), "w3": rand(D, D // 2), "w4": rand(D, D // 2), "w5": rand(2 * D, D),
         "w6": rand(D, D)}, {"sh": np.array([D, D], "i8"), "z": np.array([0], "i8")}),
    "a table and a weight of branches": (
        [N("MatMul", ["x", "w"], ["q"]),
         N("If", ["yes"], ["r"], then_branch=branch("r1", [N("Add", ["q", "t"], ["r0"]), N("MatMul", ["r0", "v"], ["r1"])]),
           else_branch=branch("r2", [N("Identity", ["q"], ["r2"])])),
         N("If", ["yes"], ["u"], then_branch=branch("u1", [N("Identity", ["v2"], ["u1"])]),
           else_branch=branch("u2", [N("Identity", ["v3"], ["u2"])])),
         N("If", ["yes"], ["o"], then_branch=branch("o1", [N("Identity", ["t2"], ["o1"])]),
           else_branch=branch("o2", [N("Identity", ["t3"], ["o2"])])),
         N("MatMul", ["r", "u"], ["m"]), N("Add", ["m", "o"], ["y"])],
        {"w": rand(D, D), "v": rand(D, D), "v2": rand(D, D), "v3": rand(D, D)},
        {"t": rand(1, S, D), "t2": rand(S, D), "t3": rand(S, D), "yes": np.array(True)}),
    "a table and a weight that a loop is given": (
        [N("Loop", ["n", "yes", "x", "w", "t"], ["y", "w_out", "t_out"], body=helper.make_graph(
            [N("MatMul", ["h", "wi"], ["h1"]), N("Add", ["h1", "ti"], ["ho"]), N("Identity", ["c"], ["co"]),
             N("Identity", ["wi"], ["wo"]), N("Identity", ["ti"], ["to"])], "body",
            [info("i", [], T.INT64), info("c", [], T.BOOL), info("h", None), info("wi", None), info("ti", None)],
            [info("co", [], T.BOOL), info("ho", None), info("wo", None), info("to", None)]))],
        {"w": rand(D, D)}, {"t": rand(1, S, D), "n": np.array(2, "i8"), "yes": np.array(True)}),
    "recurrent weights in pieces": (
        [N("Concat", ["wi", "wf"], ["w0"], axis=0), N("Unsqueeze", ["w0", "z"], ["w"]), N("Unsqueeze", ["r0", "z"], ["r"]),
         N("Transpose", ["x"], ["xt"], perm=[1, 0, 2]), N("GRU", ["xt", "w", "r", "b", "", "h"], ["", "y"], hidden_size=8)],
        {"wi": rand(12, D), "wf": rand(12, D), "r0": rand(24, 8)}, {"b": rand(1, 48), "h": rand(1, 1, 8), "z": np.array([0], "i8")}),
    "recurrent weights cut at multiples of a size": (  # as PyTorch's newer exporter writes an LSTM and a GRU, before it is optimized
        [N("ReduceMean", ["x"], ["h0"], axes=[1], keepdims=0), N("Slice", ["h0", "z", "eight", "one"], ["h8"]), N("Unsqueeze", ["h8", "z"], ["h"]),
         N("Shape", ["h8"], ["n"], start=1, end=2), N("Mul", ["n", "two"], ["n2"]), N("Mul", ["n", "three"], ["n3"]),
         N("Slice", ["wi", "z", "n", "z"], ["w1"]), N("Slice", ["wi", "n", "n2", "z"], ["w2"]), N("Slice", ["wi", "n2", "n3", "z"], ["w3"]),
         N("Concat", ["w2", "w1", "w3"], ["w0"], axis=0), N("Unsqueeze", ["w0", "z"], ["w"]), N("Unsqueeze", ["r0", "z"], ["r"]),
         N("Transpose", ["x"], ["xt"], perm=[1, 0, 2]), N("GRU", ["xt", "w", "r", "", "", "h"], ["", "y"], hidden_size=8)],
        {"wi": rand(24, D), "r0": rand(24, 8)}, {"z": np.array([0], "i8"), "one": np.array([1], "i8"), "eight": np.array([8], "i8"),
                                                 "two": np.array([2], "i8"), "three": np.array([3], "i8")}),
    "an output": ([N("MatMul", ["x", "w"], ["y0"]), N("Identity", ["y0"], ["y"])], {}, {"w": rand(D, D)}),
}


def function_model():
    """Weights and tables behind a function of the file, which another function calls."""
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
    inner = helper.make_function("own", "AShiftOfNamesThatIsLongerThanTheyUsuallyAre", ["a", "s"], ["o"],
                                 [N("Add", ["a", "s"], ["o"])], opsets)
    outer = helper.make_function("own", "Layer", ["a", "w", "s"], ["o"], [
        N("MatMul", ["a", "w"], ["p"]), N("AShiftOfNamesThatIsLongerThanTheyUsuallyAre", ["p", "s"], ["o"], domain="own")], opsets)
    graph = helper.make_graph([N("Layer", ["x", "w", "t"], ["y"], domain="own")], "g", [info("x", [1, S, D])],
                              [info("y", None)], [numpy_helper.from_array(rand(D, D), "w"),
                                                  numpy_helper.from_array(rand(1, S, D), "t")])
    return helper.make_model(graph, opset_imports=opsets, ir_version=8, functions=[inner, outer])


class Uses(Judge):
    def build(self, nodes, weights, tables, constants, gone=("y",)):
        values = [numpy_helper.from_array(np.asarray(v), k) for k, v in {**weights, **tables}.items()]
        made = [N("Constant", [], [t.name], value=t) for t in values] if constants else []
        initializers = [] if constants else values
        inputs = [info("x", [1, S, D])]
        if any("ids" in n.input for n in nodes):
            inputs.append(info("ids", [1, S], T.INT64))
        outputs = [info(k, None) for k in gone]
        graph = helper.make_graph(made + nodes, "g", inputs, outputs, initializers)
        m = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)],
                              ir_version=8)
        onnx.save(m, self.path("in.onnx"))

    def values(self, name):
        graph = onnx.load(self.path(name)).graph
        found = {t.name: numpy_helper.to_array(t) for t in graph.initializer}
        for n in graph.node:
            if n.op_type == "Constant":
                found[n.output[0]] = numpy_helper.to_array(n.attribute[0].t)
        return found

    def compute(self, name):
        session = onnxruntime.InferenceSession(self.path(name), providers=["CPUExecutionProvider"])
        feeds = {"x": np.random.default_rng(1).standard_normal((1, S, D)).astype("f4")}
        if len(session.get_inputs()) > 1:
            feeds["ids"] = np.arange(S, dtype="i8")[None]
        return session.run(None, feeds)

    def check(self, what, weights, tables, args):
        r = self.vc(*args, *(SMALL if args[0] == "quantize" else ("--min-elements", "1")), "--json", "-f",
                    self.path("in.onnx"), "-o", self.path("out.onnx")).json()
        changed = {t["name"] for t in r["tensors"] if t["action"] not in ("kept", "copied")}
        rest = "--rest" in args
        for name in weights:
            self.assertIn(name, changed, "%s, %s" % (what, " ".join(args)))
        after = self.values("out.onnx")
        for name, value in tables.items():
            if not rest or value.ndim >= 2:
                self.assertNotIn(name, changed, "%s, %s" % (what, " ".join(args)))
                self.same_bits(after[name], np.asarray(value), "%s of %s, %s" % (name, what, " ".join(args)))
        if args[0] == "quantize":
            before = self.compute("in.onnx")
            for a, b in zip(before, self.compute("out.onnx")):
                error = np.linalg.norm(a.astype("f8") - b) / max(np.linalg.norm(a.astype("f8")), 1e-9)
                self.assertLess(error, 0.05, "%s, %s" % (what, " ".join(args)))

    def test_all(self):
        for constants in (False, True):
            for what, (nodes, weights, tables) in CASES.items():
                if what == "an output" and constants:
                    continue
                self.build(nodes, weights, tables, constants, ("y", "w") if what == "an output" else ("y",))
                for args in PASSES[::3] if constants else PASSES:
                    if weights or args[0] == "quantize":
                        self.check(what, weights, tables, args)

    def test_functions(self):
        m = function_model()
        onnx.save(m, self.path("in.onnx"))
        tables = {"t": numpy_helper.to_array(m.graph.initializer[1])}
        for args in PASSES:
            self.check("functions", {"w": None}, tables, args)

    def test_include(self):
        """Who wants a table, gets it."""
        nodes, weights, tables = CASES["mask that is added"]
        self.build(nodes, weights, tables, False)
        r = self.vc("prune", "--sparsity", "0.5", "--include", "mask", "--json", self.path("in.onnx"), "-o",
                    self.path("out.onnx")).json()
        self.assertEqual([t["action"] for t in r["tensors"] if t["name"] == "mask"], ["pruned"])
        kept = self.vc("prune", "--sparsity", "0.5", "--json", "--dry-run", self.path("in.onnx")).json()
        self.assertEqual([t["reason"] for t in kept["tensors"] if t["name"] == "mask"], ["table that Add reads"])


if __name__ == "__main__":
    main()
