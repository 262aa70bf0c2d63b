"""test_run_distill.py - chains that train: every run of `run` gives the bytes of its passes one after the other through
files, in npz, safetensors, pt and ONNX; what is removed before training is gone from the graph that is trained; a gate
stops the whole chain."""
import json
import os
import shlex
import unittest

from judge_support import Judge, main, np, run

try:
    import onnx
    from onnx import TensorProto, helper, numpy_helper
except ImportError:
    onnx = None
try:
    import torch
except ImportError:
    torch = None

NET = """input x [batch, 1, 8, 8]
conv c 8 kernel=3 pad=1
batchnorm n
relu
maxpool kernel=2
flatten
linear f 24
relu
linear g 5
"""
PRUNE = "prune --sparsity 0.7"
GLOBAL = "prune --sparsity 0.6 --scope global --include '*.weight'"
PATTERN = "prune --pattern 2:4"
DISTILL = "distill --data rows.npz --steps 20 --batch 32 --keep-sparsity --lr 0.01"
LABELS = "distill --data rows.npz --alpha 0.5 --temperature 3 --steps 8 --optimizer momentum --frozen-norm --freeze 'c.*'"
INT8 = "quantize --int8 --min-elements 1"
AIM = "quantize --aim-sqnr 25 --min-elements 1"
HALF = "quantize --fp16"


class Chains(Judge):
    def setUp(self):
        super().setUp()
        rng = np.random.default_rng(7)

        def normal(*shape):
            return (rng.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))).astype("f4")

        self.weights = {"c.weight": normal(8, 1, 3, 3), "c.bias": normal(8, 1)[:, 0] / 4, "n.weight": 1 + normal(8, 1)[:, 0] / 8,
                        "n.bias": normal(8, 1)[:, 0] / 8, "n.running_mean": np.zeros(8, "f4"), "n.running_var": np.ones(8, "f4"),
                        "f.weight": normal(24, 128), "f.bias": normal(24, 1)[:, 0], "g.weight": normal(5, 24),
                        "g.bias": normal(5, 1)[:, 0]}
        np.savez(self.path("in.npz"), **self.weights)
        x = rng.standard_normal((150, 1, 8, 8)).astype("f4")
        np.savez(self.path("rows.npz"), x=x, y=rng.integers(0, 5, 150))
        with open(self.path("net.txt"), "w") as f:
            f.write(NET)

    def save_onnx(self, name):
        node, value = helper.make_node, helper.make_tensor_value_info
        nodes = [node("Conv", ["x", "c.weight", "c.bias"], ["a"], pads=[1, 1, 1, 1]),
                 node("BatchNormalization", ["a", "n.weight", "n.bias", "n.running_mean", "n.running_var"], ["b"]),
                 node("Relu", ["b"], ["d"]), node("MaxPool", ["d"], ["e"], kernel_shape=[2, 2], strides=[2, 2]),
                 node("Reshape", ["e", "sizes"], ["h"]), node("Gemm", ["h", "f.weight", "f.bias"], ["i"], transB=1),
                 node("Relu", ["i"], ["j"]), node("Gemm", ["j", "g.weight", "g.bias"], ["y"], transB=1)]
        tensors = [numpy_helper.from_array(a, n) for n, a in self.weights.items()]
        tensors.append(numpy_helper.from_array(np.array([0, 128], "i8"), "sizes"))
        inside = [value("e", TensorProto.FLOAT, ["batch", 8, 4, 4]), value("h", TensorProto.FLOAT, ["batch", 128])]
        graph = helper.make_graph(nodes, "net", [value("x", TensorProto.FLOAT, ["batch", 1, 8, 8])],
                                  [value("y", TensorProto.FLOAT, ["batch", 5])], tensors, value_info=inside)
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), self.path(name))

    def read(self, name):
        with open(self.path(name), "rb") as f:
            return f.read()

    def graph(self, words, extension):
        """The pass with what it needs to know the network: an ONNX file says it itself."""
        knows = words.startswith("distill") or "--structured" in words
        return words + " --graph net.txt" if knows and extension != "onnx" else words

    def step(self, words, source, target):
        """One pass as a command of its own."""
        args = shlex.split(words)
        if args[0] == "distill":
            args += ["--teacher", "in." + source.split(".")[-1], "--student", source]
        else:
            args += [source]
        return run(*args, "-q", "--force", "-o", target, cwd=self.dir)

    def compare(self, passes, extension):
        """The chain in one run, and pass by pass; both are there, or neither."""
        source = "in." + extension
        lines = [self.graph(p, extension) for p in passes]
        two = None
        for k, line in enumerate(lines):
            two = self.step(line, source, "mid%d.%s" % (k, extension))
            source = "mid%d.%s" % (k, extension)
            if two.code != 0:
                break
        words = [w for line in lines for w in ("--pass", line)]
        one = run("run", "-q", "--force", *words, "in." + extension, "-o", "one." + extension, cwd=self.dir)
        self.assertEqual(one.code, two.code, one.err + two.err)
        if one.code == 0:
            self.assertEqual(self.read("one." + extension), self.read(source))
        else:
            self.assertEqual(one.err.count("\n"), 1, one.err)
        return one

    CHAINS = [[PRUNE, DISTILL], [GLOBAL, DISTILL], [PATTERN, DISTILL], [DISTILL, INT8], [DISTILL, AIM], [DISTILL, PRUNE],
              [PRUNE, LABELS], [PRUNE, DISTILL, INT8], [PRUNE, DISTILL, HALF], [HALF, DISTILL], [PRUNE, LABELS, GLOBAL, INT8],
              [DISTILL, LABELS], ["prune --structured 0.5", DISTILL], ["prune --structured 0.25", DISTILL, INT8],
              ["prune --structured 0.25", PRUNE, DISTILL, AIM], [INT8, DISTILL], [PRUNE, INT8, DISTILL + " --learn-scales"],
              [INT8 + " --granularity channel --asymmetric", DISTILL, DISTILL]]

    def test_chains(self):
        extensions = ["npz", "safetensors"] + (["pt"] if torch is not None else []) + (["onnx"] if onnx is not None else [])
        for extension in extensions:
            if extension == "onnx":
                self.save_onnx("in.onnx")
            elif extension != "npz":
                self.vc("convert", "-q", self.path("in.npz"), "-o", self.path("in." + extension))
            for passes in self.CHAINS:
                with self.subTest(format=extension, passes=passes):
                    self.assertEqual(self.compare(passes, extension).code, 0)

    def test_lineage(self):
        """What a result was made from is in its metadata, whatever is done behind the training; the last training counts."""
        self.vc("convert", "-q", self.path("in.npz"), "-o", self.path("in.safetensors"))
        line = self.graph(DISTILL, "")
        words = ["--pass", PRUNE, "--pass", line, "--pass", line + " --seed 3 --temperature 4", "--pass", INT8]
        said = self.vc("run", *words, "--json", "in.safetensors", "-o", "out.safetensors", cwd=self.dir).json()["distillations"]
        with open(self.path("out.safetensors"), "rb") as f:
            header = json.loads(f.read(int.from_bytes(f.read(8), "little")))
        text = header["__metadata__"]["vcompress.distill"]
        lineage = json.loads(text)
        self.assertEqual(lineage, {"teacher": said[1]["teacher_sha256"], "data": said[1]["data_sha256"], "temperature": 4,
                                   "alpha": 1, "steps": 20, "seed": 3})
        self.assertNotEqual(lineage["teacher"], "0" * 64)
        if onnx is not None:
            self.save_onnx("in.onnx")
            said = self.vc("run", "--pass", DISTILL, "--pass", DISTILL + " --seed 9", "--pass", INT8, "--json", "in.onnx", "-o",
                           "out.onnx", cwd=self.dir).json()["distillations"]
            props = [p for p in onnx.load(self.path("out.onnx")).metadata_props if p.key == "vcompress.distill"]
            self.assertEqual([json.loads(p.value)["seed"] for p in props], [9])
            self.assertEqual(json.loads(props[0].value)["teacher"], said[0]["teacher_sha256"])

    @unittest.skipIf(onnx is None, "the package onnx is not here")
    def test_tables(self):
        """Masks and the like of a graph stay to the last bit, as initializers and in Constant nodes; gain and offset of a normalization that is
        written out, and learned places are trained."""
        node, value, rng = helper.make_node, helper.make_tensor_value_info, np.random.default_rng(3)
        tables = {"mask": np.triu(np.full((6, 8), -2, "f4"), 3), "angles": np.cos(np.arange(48, dtype="f4")).reshape(6, 8)}
        learned = {"w": rng.standard_normal((8, 8)).astype("f4"), "gain": np.ones(8, "f4"), "offset": np.zeros(8, "f4"),
                   "pos_embed": rng.standard_normal((1, 6, 8)).astype("f4"), "head": rng.standard_normal((8, 5)).astype("f4")}
        for how in ("Div", "Mul", "cast"):
            nodes = [node("Add", ["x", "pos_embed"], ["p"]), node("MatMul", ["p", "w"], ["a"]), node("Add", ["a", "mask"], ["b"]), node("Mul", ["b", "angles"], ["c"]),
                     node("ReduceMean", ["c"], ["m"], axes=[-1]), node("Sub", ["c", "m"], ["d"]), node("Pow", ["d", "two"], ["d2"]),
                     node("ReduceMean", ["d2"], ["v"], axes=[-1]), node("Add", ["v", "eps"], ["ve"]), node("Sqrt", ["ve"], ["s"])]
            nodes += [node("Reciprocal", ["s"], ["r"]), node("Mul", ["d", "r"], ["n"])] if how == "Mul" else [node("Div", ["d", "s"], ["n"])]
            nodes += [node("Cast", ["n"], ["nc"], to=1)] if how == "cast" else [node("Identity", ["n"], ["nc"])]
            nodes += [node("Mul", ["nc", "gain"], ["g"]), node("Add", ["g", "offset"], ["h"]), node("Relu", ["h"], ["q"]),
                      node("ReduceMean", ["q"], ["k"], axes=[1], keepdims=0), node("MatMul", ["k", "head"], ["y"])]
            for constants in (False, True):
                everything = {**tables, **learned, "two": np.float32(2), "eps": np.float32(1e-5)}
                tensors = [numpy_helper.from_array(a, n) for n, a in everything.items() if not (constants and n in tables)]
                made = [node("Constant", [], [n], value=numpy_helper.from_array(a, n)) for n, a in tables.items() if constants]
                for name, scale in (("student.onnx", 1), ("teacher.onnx", 2)):
                    own = [numpy_helper.from_array(numpy_helper.to_array(t) * np.float32(scale if t.name in learned else 1), t.name) for t in tensors]
                    graph = helper.make_graph(made + nodes, "net", [value("x", TensorProto.FLOAT, ["batch", 6, 8])],
                                              [value("y", TensorProto.FLOAT, ["batch", 5])], own)
                    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), self.path(name))
                np.savez(self.path("rows.npz"), x=rng.standard_normal((64, 6, 8)).astype("f4"))
                said = self.vc("distill", "-f", "--teacher", self.path("teacher.onnx"), "--data", self.path("rows.npz"), "--steps", 5, "--lr", "0.01",
                               "--student", self.path("student.onnx"), "-o", self.path("out.onnx")).out.decode()
                self.assertIn("2 tables stay as they are, such as ", said)
                m = onnx.load(self.path("out.onnx"))
                after = {t.name: numpy_helper.to_array(t) for t in m.graph.initializer}
                after.update({n.output[0]: numpy_helper.to_array(n.attribute[0].t) for n in m.graph.node if n.op_type == "Constant"})
                for name, a in everything.items():
                    self.assertEqual((after[name] != a).any(), name in learned, (how, constants, name))

    def test_report(self):
        """One report: the steps of each tensor, and what the training did."""
        with open(self.path("recipe"), "w") as f:
            f.write("%s\n%s --eval rows.npz --log log  # the input teaches\n%s\n" % (PRUNE, self.graph(DISTILL, ""), INT8))
        r = self.vc("run", "--json", "recipe", "in.npz", "-o", "out.npz", cwd=self.dir)
        document = json.loads(r.out.decode())
        rows = {t["name"]: t for t in document["tensors"]}
        self.assertEqual([s["pass"] for s in rows["f.weight"]["steps"]], ["prune", "distill", "quantize"])
        self.assertEqual([s["pass"] for s in rows["c.bias"]["steps"]], ["distill"])
        trained = document["distillations"]
        self.assertEqual(len(trained), 1)
        self.assertEqual((trained[0]["teacher"], trained[0]["run"]["steps"]), ("in.npz", 20))
        self.assertLess(trained[0]["eval"]["after"]["divergence"], trained[0]["eval"]["before"]["divergence"])
        with open(self.path("log")) as f:
            self.assertEqual(len(f.readlines()), 20)
        # the zeros of the pruned tensors are those of the file, behind training and quantization
        self.assertGreaterEqual(document["totals"]["pruning"]["sparsity"], 0.69)

    def test_dry_run(self):
        """Nothing is trained, and everything is refused that a run would refuse."""
        words = ["--pass", PRUNE, "--pass", self.graph(DISTILL, "") + " --log log", "--pass", INT8]
        r = self.vc("run", "-n", "--json", *words, "in.npz", "-o", "out.npz", cwd=self.dir)
        document = json.loads(r.out.decode())
        self.assertEqual(document["distillations"][0]["run"]["steps"], 0)
        self.assertIsNone(document["distillations"][0]["run"]["last_loss"])
        self.assertFalse(os.path.exists(self.path("log")) or os.path.exists(self.path("out.npz")))
        full = self.vc("run", "--json", *words, "in.npz", "-o", "out.npz", cwd=self.dir).json()
        self.assertEqual(document["output"]["file_bytes"], full["output"]["file_bytes"])

    def test_gates(self):
        """A missed gate stops the chain: status 1, nothing written, the report with all figures."""
        words = ["--pass", PRUNE, "--pass", self.graph(DISTILL, "") + " --eval rows.npz --min-accuracy 1", "--pass", INT8]
        r = run("run", "--json=report.json", "-q", *words, "in.npz", "-o", "out.npz", cwd=self.dir)
        self.assertEqual((r.code, r.err.count("\n")), (1, 1), r.err)
        self.assertRegex(r.err, r"^vcompress: in\.npz: accuracy 0\.\d+ is below --min-accuracy 1\n$")
        self.assertFalse(os.path.exists(self.path("out.npz")))
        with open(self.path("report.json")) as f:
            document = json.load(f)
        self.assertFalse(document["gates"]["met"])
        self.assertIn("min-accuracy", document["distillations"][0]["missed"])
        self.assertFalse(document["output"]["written"])

    def test_checked_before_training(self):
        """What a pass behind the training refuses is said before the first step."""
        words = ["--pass", self.graph(DISTILL, "") + " --steps 1000000000 --log log", "--pass", "quantize --int8 --granularity group:999"]
        r = run("run", "-q", *words, "in.npz", "-o", "none/out.npz", cwd=self.dir)
        self.assertEqual(r.code, 4, r.err)
        r = run("run", "-q", "--max-bytes", "100", *words, "in.npz", "-o", "out.npz", cwd=self.dir)
        self.assertEqual(r.code, 1, r.err)
        self.assertEqual(self.read("log"), b"")

    def test_width(self):
        """A narrower student is what prune --structured makes of the teacher."""
        extensions = ["npz"] + (["onnx"] if onnx is not None else [])
        for extension in extensions:
            if extension == "onnx":
                self.save_onnx("in.onnx")
            source = "in." + extension
            one, two = "one." + extension, "two." + extension
            for width, share in (("0.5", "0.5"), ("0.3", "0.7")):
                words = shlex.split(self.graph(DISTILL, extension))
                self.vc(*words, "-q", "--force", "--teacher", source, "--width", width, "-o", one, cwd=self.dir)
                self.vc("run", "-q", "--force", "--pass", self.graph("prune --structured " + share, extension), "--pass",
                        self.graph(DISTILL, extension), source, "-o", two, cwd=self.dir)
                self.assertEqual(self.read(one), self.read(two), (extension, width))
        self.refuse(2, *words, "--teacher", source, "--student", source, "--width", "0.5", "-o", one, cwd=self.dir)
        self.refuse(2, *words, "--width", "0.5", "-o", one, cwd=self.dir)
        self.refuse(2, *words, "--teacher", source, "--width", "1", "--force", "-o", one, cwd=self.dir)
        self.refuse(2, "run", "--pass", self.graph(DISTILL, extension) + " --width 0.5", source, cwd=self.dir)

    def test_keep_layers(self):
        """A student with some of the teacher's layers begins with their weights."""
        rng = np.random.default_rng(2)
        weights = {"h.%d.%s" % (k, part): (rng.standard_normal(s) / 3).astype("f4")
                   for k in range(3) for part, s in (("weight", (9, 9)), ("bias", (9,)))}
        np.savez(self.path("t.npz"), **weights, **{"g.weight": rng.standard_normal((4, 9)).astype("f4"), "g.bias": np.zeros(4, "f4")})
        np.savez(self.path("x.npz"), x=rng.standard_normal((64, 9)).astype("f4"))
        for n in (2, 3):
            with open(self.path("net%d.txt" % n), "w") as f:
                f.write("input x [batch, 9]\n" + "".join("linear h.%d 9\nrelu\n" % k for k in range(n)) + "linear g 4\n")
        words = ["distill", "--teacher", "t.npz", "--teacher-graph", "net3.txt", "--graph", "net2.txt", "--data", "x.npz",
                 "--steps", "10", "-q"]
        self.vc(*words, "--keep-layers", "0,2", "-o", "one.npz", cwd=self.dir)
        self.vc("prune", "-q", "--keep-layers", "0,2", "t.npz", "-o", "s.npz", cwd=self.dir)
        self.vc(*words, "--student", "s.npz", "-o", "two.npz", cwd=self.dir)
        self.assertEqual(self.read("one.npz"), self.read("two.npz"))
        line = "distill --teacher-graph net3.txt --graph net2.txt --data x.npz --steps 10"
        self.vc("run", "-q", "--pass", "prune --keep-layers 0,2", "--pass", line, "t.npz", "-o", "three.npz", cwd=self.dir)
        self.assertEqual(self.read("three.npz"), self.read("two.npz"))
        with np.load(self.path("one.npz")) as z:
            self.assertIn("h.1.weight", z.files)
            self.assertNotIn("h.2.weight", z.files)
            self.assertLess(np.abs(z["h.1.weight"] - weights["h.2.weight"]).max(), 0.02)

    @unittest.skipIf(onnx is None, "the package onnx")
    def test_structured_onnx(self):
        """The graph of the result fits its weights, and is that of the student that was trained."""
        self.save_onnx("in.onnx")
        self.assertEqual(self.compare(["prune --structured 0.5", DISTILL], "onnx").code, 0)
        model = onnx.load(self.path("one.onnx"))
        onnx.checker.check_model(model, full_check=True)
        shapes = {t.name: list(t.dims) for t in model.graph.initializer}
        self.assertEqual((shapes["c.weight"][0], shapes["f.weight"]), (4, [12, 64]))
        r = self.vc("evaluate", "--data", "rows.npz", "--teacher", "in.onnx", "one.onnx", cwd=self.dir)
        self.assertIn(b"agreement with the teacher", r.out)


if __name__ == "__main__":
    main()
