"""test_graph_onnx.py - graphs of ONNX files against onnx and onnxruntime.

Models: the texts of graph_texts/ (opset 7 to 23), the digits network that is shipped, and, where torch can export, a
convolutional network with batch normalization, a transformer encoder and a small decoder, exported both ways. For each
tests/graph/graph_driver builds the graph and computes it. Shapes of all values are those of onnx.shape_inference;
outputs are within 1e-5 of the largest one of onnxruntime's; the graph as text is read by onnx.parser, accepted by
onnx.checker and computes the same, and it is the same text again when it was read here.
"""
import glob
import inspect
import json
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
    import onnx.parser
    import onnxruntime
    from onnx import helper, numpy_helper
except ImportError as missing:
    print("SKIPPED: %s for %s" % (missing, sys.executable))
    sys.exit(77)
try:
    import torch
except ImportError:
    torch = None

if hasattr(getattr(torch, "backends", None), "mha"):
    torch.backends.mha.set_fastpath_enabled(False)  # one fused operator, which is not exported
onnxruntime.set_default_logger_severity(4)
warnings.filterwarnings("ignore")
HERE = os.path.dirname(os.path.abspath(__file__))
EXAMPLES = os.path.join(os.path.dirname(os.path.dirname(HERE)), "examples")
HAS_DYNAMO = torch is not None and "dynamo" in inspect.signature(torch.onnx.export).parameters
BUILD = os.environ.get("VCOMPRESS_BUILD_DIR", "")
PROGRAM = os.environ.get("VCOMPRESS_PROGRAM", "vcompress")
DRIVER = os.path.join(BUILD, "tests", "graph", "graph_driver")


def drive(*args):
    """The lines of graph_driver, by their first word."""
    done = subprocess.run([DRIVER] + list(args), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    lines = {"problem": [], "node": [], "param": [], "value": [], "out": []}
    for line in done.stdout.splitlines():
        word, _, rest = line.partition("\t")
        lines[word].append(rest.split("\t"))
    if done.returncode not in (0, 1):
        raise AssertionError("graph_driver: %d %s" % (done.returncode, done.stderr))
    return lines


def outputs_of(lines):
    outs = {}
    for name, rest in lines["out"]:
        shape, _, values = rest.partition(":")
        outs[name] = np.array([float(v) for v in values.split()], dtype=np.float64).reshape(
            [int(s) for s in shape.split()])
    return outs


def near(ours, theirs, limit):
    theirs = np.asarray(theirs, dtype=np.float64)
    if ours.shape != theirs.shape:
        return "shape %s and %s" % (ours.shape, theirs.shape)
    if not theirs.size:
        return ""
    largest = max(np.abs(theirs).max(), 1e-30)
    error = np.abs(ours - theirs).max() / largest
    return "" if error <= limit else "differs by %g of the largest" % error


def digits_model(weights):
    """The shipped network as test_digits_onnx.py makes it, with padding by name."""
    nodes = []
    x = "image"
    for k in (1, 2, 3):
        nodes.append(helper.make_node("Conv", [x, "conv%d.weight" % k], ["c%d" % k], auto_pad="SAME_UPPER"))
        nodes.append(helper.make_node("BatchNormalization", ["c%d" % k] + ["bn%d.%s" % (k, s) for s in (
            "weight", "bias", "running_mean", "running_var")], ["b%d" % k]))
        nodes.append(helper.make_node("Relu", ["b%d" % k], ["r%d" % k]))
        x = "r%d" % k
        if k > 1:
            nodes.append(helper.make_node("MaxPool", [x], ["p%d" % k], kernel_shape=[2, 2], strides=[2, 2]))
            x = "p%d" % k
    nodes.append(helper.make_node("Flatten", [x], ["flat"]))
    nodes.append(helper.make_node("Gemm", ["flat", "fc1.weight", "fc1.bias"], ["h"], transB=1))
    nodes.append(helper.make_node("Relu", ["h"], ["hr"]))
    nodes.append(helper.make_node("Gemm", ["hr", "fc2.weight", "fc2.bias"], ["logits"], transB=1))
    graph = helper.make_graph(nodes, "digits",
                              [helper.make_tensor_value_info("image", onnx.TensorProto.FLOAT, ["n", 1, 8, 8])],
                              [helper.make_tensor_value_info("logits", onnx.TensorProto.FLOAT, ["n", 10])],
                              [numpy_helper.from_array(a, n) for n, a in weights.items()])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    return model


class Graphs(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def check(self, model, inputs, ops=None, limit=1e-5, text=True):
        """model: a path; inputs: arrays by name."""
        proto = onnx.load(model)
        data = self.path("data.npz")
        np.savez(data, **inputs)
        lines = drive(model, data)
        self.assertEqual(lines["problem"], [])
        if ops is not None:
            self.assertEqual(sorted(set(op for op, in lines["node"])), sorted(ops))
        theirs = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"]).run(None, inputs)
        ours = outputs_of(lines)
        names = [o.name for o in proto.graph.output]
        self.assertEqual(sorted(ours), sorted(names))
        for name, value in zip(names, theirs):
            self.assertEqual(near(ours[name], value, limit), "", name)
        f64 = outputs_of(drive("-64", model, data))
        for name, value in zip(names, theirs):
            self.assertEqual(near(f64[name], value, limit), "", name)
        self.check_shapes(proto, inputs, lines)
        if text:
            self.check_text(model, data, inputs, ours)
        return lines

    def check_shapes(self, proto, inputs, lines):
        """With the sizes of the inputs written into the model, onnx tells the shape of every value."""
        for value in proto.graph.input:
            if value.name in inputs:
                for d, size in zip(value.type.tensor_type.shape.dim, inputs[value.name].shape):
                    d.Clear()
                    d.dim_value = size
        for value in proto.graph.output:
            value.type.tensor_type.ClearField("shape")
        proto.graph.ClearField("value_info")
        shaped = onnx.shape_inference.infer_shapes(proto, data_prop=True)
        known = {}
        for value in list(shaped.graph.value_info) + list(shaped.graph.output):
            dims = value.type.tensor_type.shape.dim
            if value.type.tensor_type.HasField("shape") and all(d.HasField("dim_value") for d in dims):
                known[value.name] = [d.dim_value for d in dims]
        compared = 0
        for name, _, dims in lines["value"]:
            if name in known:
                self.assertEqual([int(d) for d in dims.split()], known[name], name)
                compared += 1
        self.assertGreater(compared, 0)

    def check_text(self, model, data, inputs, ours):
        text = subprocess.run([DRIVER, "-p", model], stdout=subprocess.PIPE, check=True).stdout.decode()
        path = self.path("graph.txt")
        with open(path, "w") as file:
            file.write(text)
        again = subprocess.run([DRIVER, "-p", path], stdout=subprocess.PIPE, check=True).stdout.decode()
        self.assertEqual(again, text)
        parsed = onnx.parser.parse_model(text)
        onnx.checker.check_model(parsed)
        # With the parameters as initializers it computes the same.
        weights = {}
        for init in onnx.load(model).graph.initializer:
            weights[init.name] = numpy_helper.to_array(init)
        notes = {p.key[len("vcompress.parameter:"):]: p.value for p in parsed.metadata_props}
        for name, tensor in notes.items():
            if tensor not in weights:
                return  # of a Constant node
            parsed.graph.initializer.append(numpy_helper.from_array(weights[tensor].astype(np.float32), name))
        feed = {k: (v.astype(np.int64) if v.dtype.kind in "iu" else v) for k, v in inputs.items()}
        theirs = onnxruntime.InferenceSession(parsed.SerializeToString(), providers=["CPUExecutionProvider"]).run(
            None, feed)
        for output, value in zip(parsed.graph.output, theirs):
            self.assertEqual(near(ours[output.name], value, 1e-5), "", output.name)

    # ---- texts ----

    def test_texts(self):
        paths = sorted(glob.glob(os.path.join(HERE, "graph_texts", "*.txt")))
        self.assertGreater(len(paths), 3)
        for path in paths:
            with self.subTest(os.path.basename(path)):
                with open(path) as file:
                    text = file.read()
                proto = onnx.parser.parse_model(text)
                onnx.checker.check_model(proto)
                onnx.save(proto, self.path("m.onnx"))
                random = np.random.default_rng(0)
                inputs = {}
                given = {i.name for i in proto.graph.initializer}
                for value in proto.graph.input:
                    if value.name in given:
                        continue
                    shape = [d.dim_value if d.HasField("dim_value") else 2 + len(d.dim_param)
                             for d in value.type.tensor_type.shape.dim]
                    if value.type.tensor_type.elem_type == onnx.TensorProto.INT64:
                        inputs[value.name] = random.integers(0, 3, shape)
                    else:
                        inputs[value.name] = random.standard_normal(shape).astype(np.float32)
                lines = self.check(self.path("m.onnx"), inputs, text=proto.opset_import[0].version >= 7)
                # The text itself is the same graph, but for parameters, which are constants there.
                np.savez(self.path("data.npz"), **inputs)
                direct = drive(path, self.path("data.npz"))
                self.assertEqual(direct["problem"], [])
                for name, value in outputs_of(lines).items():
                    self.assertEqual(near(outputs_of(direct)[name], value, 1e-6), "", name)

    # ---- the shipped network, and what vcompress makes of it ----

    def test_digits(self):
        with np.load(os.path.join(EXAMPLES, "digits", "digits.npz")) as z:
            weights = {n: z[n] for n in z.files if not n.endswith("num_batches_tracked")}
        with np.load(os.path.join(EXAMPLES, "digits", "images.npz")) as z:
            images = z["test_images"].reshape(-1, 1, 8, 8).astype("f4") / np.float32(16)
            labels = z["test_labels"]
        model = self.path("digits.onnx")
        onnx.save(digits_model(weights), model)
        lines = self.check(model, {"image": images})
        right = int((outputs_of(lines)["logits"].argmax(1) == labels).sum())
        self.assertEqual(right, 988)
        self.assertEqual({p[1] for p in lines["param"]}, set(weights))
        for scheme in ("--int8", "--fp16"):
            out = self.path("small.onnx")
            done = subprocess.run([PROGRAM, "quantize", scheme, "--force", model, "-o", out],
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            self.assertEqual(done.returncode, 0, done.stdout)
            small = self.check(out, {"image": images[:50]}, text=False)
            folded = [n for n in lines["node"] if n != ["BatchNormalization"]] + small["node"][1:2]  # two of the three
            self.assertEqual(sorted(small["node"]), sorted(folded if scheme == "--int8" else lines["node"]))
            gone = ["bn%d.%s" % (k, n) for k in (2, 3) for n in ("weight", "running_mean", "running_var")] if scheme == "--int8" else []
            self.assertEqual({p[1] for p in small["param"]} | set(gone), {p[1] for p in lines["param"]})

    # ---- what torch exports: models that are kept, and those of the torch that is there ----

    def test_kept_models(self):
        """Models of the exporter that needs onnxscript: graph_models/make.py."""
        paths = sorted(glob.glob(os.path.join(HERE, "graph_models", "*.onnx")))
        self.assertGreater(len(paths), 3)
        for path in paths:
            with self.subTest(os.path.basename(path)):
                with np.load(path[:-len("onnx")] + "npz") as z:
                    self.check(path, {n: z[n] for n in z.files})

    def export(self, module, args, names, dynamo, path, **more):
        """With gradients on: else old encoders are exported as one fused operator, which ONNX does not have."""
        module.eval()
        if dynamo and not HAS_DYNAMO:
            raise ImportError("no exporter of this kind")
        if dynamo:
            more["verbose"] = False
        if HAS_DYNAMO:
            more["dynamo"] = dynamo
        torch.onnx.export(module, args, path, input_names=names, **more)

    def each_export(self, module, args, names, axes, ops=None, **more):
        if torch is None:
            self.skipTest("no torch")
        for dynamo in (False, True):
            with self.subTest(dynamo=dynamo):
                path = self.path("dynamo.onnx" if dynamo else "old.onnx")
                try:
                    if dynamo and HAS_DYNAMO:
                        shapes = tuple({d: torch.export.Dim.DYNAMIC for d in axes.get(n, {})} for n in names)
                        self.export(module, args, names, True, path, dynamic_shapes=shapes, **more)
                    else:
                        self.export(module, args, names, dynamo, path, dynamic_axes=axes, **more)
                except (ImportError, ModuleNotFoundError) as missing:
                    self.skipTest(str(missing))
                inputs = {n: a.numpy() for n, a in zip(names, args)}
                self.check(path, inputs, ops)

    def test_convolutional(self):
        if torch is None:
            self.skipTest("no torch")
        nn = torch.nn
        torch.manual_seed(0)
        net = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU6(), nn.MaxPool2d(2),
                            nn.Conv2d(8, 8, 3, groups=8, stride=2), nn.BatchNorm2d(8), nn.SiLU(),
                            nn.Conv2d(8, 16, 1), nn.Hardswish(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                            nn.Dropout(0.5), nn.Linear(16, 5), nn.LogSoftmax(1))
        for m in net:
            if isinstance(m, nn.BatchNorm2d):
                nn.init.normal_(m.running_mean)
                nn.init.uniform_(m.running_var, 0.5, 2)
        self.each_export(net, (torch.randn(2, 3, 17, 21),), ["x"], {"x": {0: "batch"}})

    def test_other_checkpoint(self):
        """Weights that both exporters folded into constants with names of their own, taken from a checkpoint with other values than those of
        the export; what was computed in another way is refused."""
        if torch is None:
            self.skipTest("no torch")
        nn = torch.nn

        class First(nn.Module):
            def __init__(self, inner):
                super().__init__()
                self.inner = inner

            def forward(self, x):
                return self.inner(x)[0]

        class Attend(nn.Module):
            def __init__(self, other):
                super().__init__()
                self.a = nn.MultiheadAttention(8, 2, batch_first=True)
                self.other = nn.Linear(8, 8) if other else None

            def forward(self, x):
                y = x if self.other is None else self.other(x)
                return self.a(x, y, y)[0]

        class Gained(nn.Module):
            def __init__(self):
                super().__init__()
                self.g = nn.Parameter(torch.randn(6))

            def forward(self, x):
                return x * (1 + self.g) + 1

        class Placed(nn.Module):  # positions that the exporter cuts to the length of the input
            def __init__(self):
                super().__init__()
                self.out = nn.Linear(8, 3)
                self.register_buffer("pe", torch.randn(1, 50, 8))

            def forward(self, x):
                return self.out(x + self.pe[:, :x.shape[1]])

        torch.manual_seed(0)
        picture, steps = torch.randn(2, 3, 8, 8), torch.randn(2, 5, 8)
        made = {
            "group": (nn.Sequential(nn.Conv2d(3, 8, 3), nn.GroupNorm(4, 8), nn.PReLU(8), nn.Conv2d(8, 4, 3), nn.InstanceNorm2d(4), nn.PReLU()), picture),
            "linear": (nn.Sequential(nn.Linear(8, 8), nn.LayerNorm(8), nn.Linear(8, 3, bias=False)), steps),
            "lstm": (First(nn.LSTM(8, 6, 2, batch_first=True, bidirectional=True)), steps), "gru": (First(nn.GRU(8, 6, bias=False)), steps),
            "rnn": (First(nn.RNN(8, 6, bidirectional=True)), steps), "attention": (Attend(False), steps), "cross": (Attend(True), steps),
            "encoder": (nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 2, enable_nested_tensor=False), steps), "placed": (Placed(), steps), "gained": (Gained(), torch.randn(2, 6))}
        for dynamo, name in [(False, name) for name in made] + [(True, name) for name in made if HAS_DYNAMO]:
            with self.subTest(name, dynamo=dynamo):
                module, x = made[name]
                for p in module.parameters():  # what is all zeros tells nothing
                    p.data += 0.1 * torch.randn_like(p)
                try:
                    self.export(module, (x,), ["x"], dynamo, self.path("m.onnx"), **({"external_data": False} if dynamo else {}))
                except (ImportError, ModuleNotFoundError) as missing:
                    self.skipTest(str(missing))
                for p in module.parameters():
                    p.data += 0.3 * torch.randn_like(p)
                np.savez(self.path("w.npz"), **{k: v.numpy() for k, v in module.state_dict().items()})
                np.savez(self.path("x.npz"), x=x.numpy())
                done = subprocess.run([PROGRAM, "graph", "--weights", self.path("w.npz"), "--data", self.path("x.npz"), "--outputs", self.path("y.npz"), "--force",
                                       self.path("m.onnx")], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True)
                if name == "gained":
                    self.assertNotEqual(done.returncode, 0)
                    self.assertIn("was computed of other tensors, such as g,", done.stdout)
                    continue
                self.assertEqual(done.returncode, 0, done.stdout)
                with np.load(self.path("y.npz")) as y, torch.no_grad():
                    np.testing.assert_allclose(y[y.files[0]], module(x).numpy(), rtol=1e-4, atol=1e-5)
        # each of them is trained, too
        module, x = made["group"][0][:2], picture
        self.export(module, (x,), ["x"], False, self.path("m.onnx"))
        state = {k: v.numpy() for k, v in module.state_dict().items()}
        np.savez(self.path("w.npz"), **state)
        np.savez(self.path("d.npz"), x=x.numpy(), y=np.random.default_rng(0).standard_normal((2, 8, 6, 6)).astype("f4"))
        for graph, out in (("m.onnx", "o.npz"), (None, "o.onnx")):
            done = subprocess.run([PROGRAM, "distill", "--alpha", "0", "--task", "regression", "--steps", "1", "--data", self.path("d.npz"), "--force", "-o", self.path(out),
                                   "--student", self.path("w.npz" if graph else "m.onnx"), *(["--graph", self.path(graph)] if graph else [])],
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True)
            self.assertEqual(done.returncode, 0, done.stdout)
        with np.load(self.path("o.npz")) as z:
            self.assertEqual([k for k in state if np.array_equal(z[k], state[k])], [])
        before, after = ({i.name: numpy_helper.to_array(i) for i in onnx.load(self.path(p)).graph.initializer} for p in ("m.onnx", "o.onnx"))
        self.assertEqual([k for k in before if before[k].dtype == np.float32 and np.array_equal(before[k], after[k])], [])

    def test_training_export(self):
        if torch is None:
            self.skipTest("no torch")
        nn = torch.nn
        torch.manual_seed(0)
        net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Dropout(0.5), nn.Flatten(),
                            nn.Linear(8 * 36, 5))
        nn.init.normal_(net[1].running_mean)
        x = torch.randn(2, 3, 8, 8)
        path = self.path("train.onnx")
        self.export(net, (x,), ["x"], False, path, training=torch.onnx.TrainingMode.TRAINING,
                    do_constant_folding=False, opset_version=17)
        stored = {i.name: torch.tensor(numpy_helper.to_array(i)) for i in onnx.load(path).graph.initializer}
        net.load_state_dict(stored, strict=False)
        net.eval()
        want = net(x).detach().numpy()
        np.savez(self.path("data.npz"), x=x.numpy())
        lines = drive(path, self.path("data.npz"))
        self.assertEqual(lines["problem"], [])
        self.assertEqual(near(list(outputs_of(lines).values())[0], want, 1e-5), "")
        kept = {p[1] for p in lines["param"]}
        self.assertEqual(kept, {n for n in net.state_dict() if not n.endswith("num_batches_tracked")})

    def test_encoder(self):
        if torch is None:
            self.skipTest("no torch")
        nn = torch.nn
        torch.manual_seed(0)
        layer = nn.TransformerEncoderLayer(16, 4, 32, activation="gelu", batch_first=True)
        net = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        for opset in (14, 17):
            with self.subTest(opset=opset):
                path = self.path("old%d.onnx" % opset)
                x = torch.randn(2, 7, 16)
                self.export(net, (x,), ["x"], False, path, opset_version=opset,
                            dynamic_axes={"x": {0: "batch", 1: "sequence"}})
                lines = self.check(path, {"x": x.numpy()})
                ops = [op for op, in lines["node"]]
                self.assertEqual(ops.count("LayerNormalization"), 4)
                self.assertEqual(ops.count("Gelu"), 2)
        self.each_export(net, (torch.randn(2, 7, 16),), ["x"], {"x": {0: "batch", 1: "sequence"}})

    def test_decoder(self):
        if torch is None:
            self.skipTest("no torch")
        try:
            from transformers import LlamaConfig, LlamaForCausalLM
        except ImportError as missing:
            self.skipTest(str(missing))
        torch.manual_seed(0)
        model = LlamaForCausalLM(LlamaConfig(hidden_size=16, intermediate_size=24, num_hidden_layers=2,
                                             num_attention_heads=4, num_key_value_heads=2, vocab_size=50,
                                             use_cache=False))

        class Logits(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.model = model

            def forward(self, input_ids):
                return self.model(input_ids=input_ids).logits

        ids = torch.randint(0, 50, (2, 6))
        path = self.path("llama.onnx")
        try:
            self.export(Logits(), (ids,), ["input_ids"], True, path)
        except (ImportError, ModuleNotFoundError) as missing:
            self.skipTest(str(missing))
        self.check(path, {"input_ids": ids.numpy()})

    # ---- names ----

    def test_names_are_repaired(self):
        if torch is None:
            self.skipTest("no torch")
        nn = torch.nn
        torch.manual_seed(0)
        net = nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 4, 32, batch_first=True), 1,
                                    enable_nested_tensor=False)
        for p in net.parameters():
            nn.init.normal_(p)
        x = torch.randn(2, 7, 16)
        path = self.path("m.onnx")
        self.export(net, (x,), ["x"], False, path, opset_version=17, dynamic_axes={"x": {0: "batch", 1: "sequence"}})
        np.savez(self.path("data.npz"), x=x.numpy())
        np.savez(self.path("weights.npz"), **{n: p.detach().numpy() for n, p in net.state_dict().items()})
        before = drive(path, self.path("data.npz"))
        after = drive("-w", self.path("weights.npz"), path, self.path("data.npz"))
        self.assertEqual(after["problem"], [])
        self.assertLess(len({p[1] for p in before["param"]} & set(net.state_dict())), len(net.state_dict()))
        params = [p for p in after["param"] if not p[1].startswith("/")]  # newer exporters: Constant nodes, "/layers.0/..."
        self.assertEqual({p[1] for p in params}, set(net.state_dict()))
        self.assertTrue(all(p[3] == "1" for p in params))
        self.assertEqual(before["out"], after["out"])
        same = {n: p.detach().numpy() for n, p in net.state_dict().items()}
        same["twin"] = same["layers.0.linear1.weight"].copy()
        np.savez(self.path("weights.npz"), **same)
        twice = drive("-w", self.path("weights.npz"), path)
        self.assertEqual(twice["problem"], [])  # the place tells: /layers.0/linear1/MatMul
        self.assertNotIn("twin", {p[1] for p in twice["param"]})
        nameless = onnx.load(path)
        for node in nameless.graph.node:
            node.name = ""
        onnx.save(nameless, path)
        twice = drive("-w", self.path("weights.npz"), path)
        text = "\n".join(p[0] for p in twice["problem"])
        self.assertIn("linear1.weight", text)
        self.assertIn("twin", text)

    def test_computed_sizes(self):
        """Scales that are made of tensors of the file, each element another."""
        float32 = onnx.TensorProto.FLOAT
        nodes = [helper.make_node("Mul", ["one", "two"], ["s"]),
                 helper.make_node("Resize", ["x", "", "s"], ["y"], mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor")]
        graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", float32, [1, 2, 3, 3])],
                                  [helper.make_tensor_value_info("y", float32, [1, 2, 6, 18])],
                                  [numpy_helper.from_array(np.array(v, "f4"), n) for n, v in (("one", [1, 1, 1, 2]), ("two", [1, 1, 2, 3]))])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)])
        model.ir_version = 8
        onnx.save(model, self.path("m.onnx"))
        x = np.arange(18, dtype="f4").reshape(1, 2, 3, 3)
        np.savez(self.path("x.npz"), x=x)
        theirs, = onnxruntime.InferenceSession(self.path("m.onnx"), providers=["CPUExecutionProvider"]).run(None, {"x": x})
        lines = drive(self.path("m.onnx"), self.path("x.npz"))
        self.assertEqual(lines["problem"], [])
        self.assertEqual(near(outputs_of(lines)["y"], theirs, 0), "")

    def test_free_sizes(self):
        """Sizes that come of free ones by Cast, Range, Max, Min, Mod, Pad, Floor and Ceil of quotients, as integers and as floats."""
        ways = {  # of n, the length of x, and m, its width; what it makes is a size
            "cast": [("Cast", ["n"], {"to": 1}), ("Mul", ["t0", "two"], {}), ("Cast", ["t1"], {"to": 7})],
            "floor": [("Cast", ["n"], {"to": 1}), ("Div", ["t0", "three"], {}), ("Floor", ["t1"], {}), ("Cast", ["t2"], {"to": 7})],
            "ceil": [("Cast", ["n"], {"to": 1}), ("Div", ["t0", "three"], {}), ("Ceil", ["t1"], {}), ("Cast", ["t2"], {"to": 7})],
            "truncate": [("Cast", ["n"], {"to": 1}), ("Div", ["t0", "three"], {}), ("Cast", ["t1"], {"to": 7})],
            "max": [("Max", ["n", "m", "five"], {})],
            "min": [("Min", ["n", "m", "five"], {})],
            "max of floats": [("Cast", ["n"], {"to": 1}), ("Max", ["t0", "three"], {}), ("Cast", ["t1"], {"to": 7})],
            "rest": [("Mod", ["n", "five"], {})],
            "padding": [("Sub", ["five", "n"], {}), ("Max", ["t0", "zero"], {}), ("Add", ["t1", "n"], {})],
            "pad": [("Unsqueeze", ["n", "axis"], {}), ("Pad", ["t0", "pads", "m"], {}), ("ReduceSum", ["t1"], {"keepdims": 0})],
            "relative": [("Sub", ["n", "m"], {}), ("Mul", ["t0", "t0"], {}), ("Div", ["t1", "five"], {})]}
        made = {"filled": [("Unsqueeze", ["size", "axis"], {}), ("ConstantOfShape", ["s"], {})],
                "counted": [("Range", ["zero", "size", "one"], {}), ("Cast", ["s"], {"to": 1})],
                "counted in floats": [("Cast", ["size"], {"to": 1}), ("Range", ["fzero", "s", "fone"], {})]}
        numbers = [numpy_helper.from_array(np.array(v, t), k) for k, v, t in (
            ("two", 2, "f4"), ("three", 3, "f4"), ("fzero", 0, "f4"), ("fone", 1, "f4"), ("five", 5, "i8"), ("zero", 0, "i8"), ("one", 1, "i8"),
            ("axis", [0], "i8"), ("pads", [1, 2], "i8"), ("i0", 0, "i8"), ("i1", 1, "i8"))]
        with tempfile.TemporaryDirectory() as folder:
            path, data, out = (os.path.join(folder, f) for f in ("m.onnx", "x.npz", "y.npz"))
            for (way, steps), (kind, tail) in ((a, b) for a in ways.items() for b in made.items()):
                nodes = [helper.make_node("Shape", ["x"], ["sh"]), helper.make_node("Gather", ["sh", "i0"], ["n"]),
                         helper.make_node("Gather", ["sh", "i1"], ["m"])]
                nodes += [helper.make_node(op, names, ["t%d" % k if k + 1 < len(steps) else "size"], **more)
                          for k, (op, names, more) in enumerate(steps)]
                nodes += [helper.make_node(op, names, ["s" if k == 0 else "grid"], **more) for k, (op, names, more) in enumerate(tail)]
                nodes += [helper.make_node("ReduceSum", ["x"], ["sum"], keepdims=0), helper.make_node("Add", ["grid", "sum"], ["y"])]
                graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", 1, ["h", "w"])],
                                          [helper.make_tensor_value_info("y", 1, ["k"])], numbers)
                onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
                for shape in ((3, 4), (7, 2), (6, 6), (11, 5)):
                    x = np.ones(shape, "f4")
                    np.savez(data, x=x)
                    want = onnxruntime.InferenceSession(path).run(None, {"x": x})[0]
                    done = subprocess.run([PROGRAM, "graph", "-f", "--data", data, "--outputs", out, path], capture_output=True, text=True)
                    self.assertEqual(done.returncode, 0, (way, kind, shape, done.stderr))
                    with np.load(out) as z:
                        np.testing.assert_array_equal(z["y"], want, str((way, kind, shape)))

    def test_folded_normalization(self):
        """A checkpoint from before batch normalization was folded has other weights under the names of the file's, and no bias."""
        rng = np.random.default_rng(2)
        w, k = rng.standard_normal((4, 3, 1, 1)).astype("f4"), rng.uniform(.5, 2, 4).astype("f4")
        nodes = [helper.make_node("Conv", ["x", "conv.weight", "conv.bias"], ["y"])]
        float32 = onnx.TensorProto.FLOAT
        graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", float32, ["batch", 3, 2, 2])],
                                  [helper.make_tensor_value_info("y", float32, ["batch", 4, 2, 2])],
                                  [numpy_helper.from_array(w * k[:, None, None, None], "conv.weight"),
                                   numpy_helper.from_array(k - 1, "conv.bias")])
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), self.path("m.onnx"))

        def problems(**tensors):
            np.savez(self.path("w.npz"), **tensors)
            return "\n".join(p[0] for p in drive("-w", self.path("w.npz"), self.path("m.onnx"))["problem"])
        for name in ("bn.running_var", "bn/moving_variance:0", "batch_stats/bn/var"):
            self.assertIn("was folded", problems(**{"conv.weight": w, name: k}))
        # the weights that are folded, with statistics that nobody needs; and those of another training, without any
        self.assertEqual(problems(**{"conv.weight": w * k[:, None, None, None], "bn.running_var": k}), "")
        self.assertEqual(problems(**{"conv.weight": w, "conv.bias": k}), "")

    def test_names_of_equal_tensors(self):
        """y = ((x a) b) c, b and c by Identity of a: a checkpoint beside the file has its own b; training is refused."""
        nodes = [helper.make_node("Identity", ["a"], ["b"]), helper.make_node("Identity", ["a"], ["c"])]
        nodes += [helper.make_node("MatMul", [x, w], [y]) for x, w, y in ("xap", "pbq", "qcy")]
        float32 = onnx.TensorProto.FLOAT
        graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", float32, ["batch", 3])],
                                  [helper.make_tensor_value_info("y", float32, ["batch", 3])],
                                  [numpy_helper.from_array(np.eye(3, dtype="f4"), "a")])
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), self.path("m.onnx"))
        rng = np.random.default_rng(1)
        x, a, b = (rng.standard_normal((3, 3)).astype("f4") for _ in range(3))
        np.savez(self.path("data.npz"), x=x)
        np.savez(self.path("weights.npz"), a=a, b=b)
        lines = drive("-w", self.path("weights.npz"), self.path("m.onnx"), self.path("data.npz"))
        self.assertEqual({p[1] for p in lines["param"]}, {"a", "b"})
        self.assertLess(np.abs(outputs_of(lines)["y"] - x @ a @ b @ a).max(), 1e-5)

        def train(*args):
            return subprocess.run([PROGRAM, "distill", "--teacher", self.path("m.onnx"), "--loss", "mse", "--data",
                                   self.path("data.npz"), "--scale", "2", "--steps", "1", "--dry-run", *args],
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        refused = train("--student", self.path("m.onnx"), "-o", self.path("o.onnx"))
        self.assertEqual(refused.returncode, 3)
        self.assertIn("a is also b in the graph, which has 1 tensor with several names", refused.stderr)
        self.assertEqual(train("--student", self.path("m.onnx"), "-o", self.path("o.onnx"), "--allow-tied").returncode, 0)
        beside = train("--student", self.path("weights.npz"), "--graph", self.path("m.onnx"), "-o", self.path("o.npz"))
        self.assertIn("a is also c", beside.stderr)

    def test_newer_exporter(self):
        """Files as PyTorch's newer exporter optimizes them: x val_0 + fc.bias, val_0 the transposed fc.weight, times add, which is
        1 + g; and equal scales kept once. A checkpoint with other values is read or refused, never left out."""
        float32 = onnx.TensorProto.FLOAT
        rng = np.random.default_rng(4)
        w, b, g, x = (rng.standard_normal(s).astype("f4") for s in ((6, 8), (6,), (6,), (3, 8)))

        def graph(gained, w2=w):
            nodes = [helper.make_node("MatMul", ["x", "val_0"], ["val_1"]), helper.make_node("Add", ["val_1", "fc.bias"], ["linear"])]
            nodes.append(helper.make_node("Mul" if gained else "Identity", ["linear", "add"][:1 + gained], ["y"]))
            stored = {"val_0": w.T, "fc.bias": b, **({"add": 1 + g} if gained else {})}
            made = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", float32, ["batch", 8])],
                                     [helper.make_tensor_value_info("y", float32, ["batch", 6])], [numpy_helper.from_array(np.ascontiguousarray(v), k) for k, v in stored.items()])
            onnx.save(helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)]), self.path("m.onnx"))
            np.savez(self.path("w.npz"), **{"fc.weight": w2, "fc.bias": b + (w2 is not w), **({"g": g} if gained else {})})
            np.savez(self.path("x.npz"), x=x)
            return subprocess.run([PROGRAM, "graph", "--weights", self.path("w.npz"), "--data", self.path("x.npz"), "--outputs", self.path("y.npz"), "--force", self.path("m.onnx")],
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        for w2 in (w, w + 0.05 * rng.standard_normal(w.shape).astype("f4")):
            done = graph(False, w2)
            self.assertEqual(done.returncode, 0, done.stdout)
            with np.load(self.path("y.npz")) as y:
                np.testing.assert_allclose(y["y"], x @ w2.T + b + (w2 is not w), rtol=1e-4, atol=1e-5)
        self.assertIn("val_0 was computed of other tensors, such as fc.weight,", graph(False, rng.standard_normal(w.shape).astype("f4")).stdout)
        self.assertEqual(graph(True).returncode, 0)
        self.assertEqual(graph(True, w + 0.05 * rng.standard_normal(w.shape).astype("f4")).returncode, 0)
        with np.load(self.path("w.npz")) as old, np.load(self.path("y.npz")) as y:
            np.testing.assert_allclose(y["y"], (x @ old["fc.weight"].T + b + 1) * (1 + g), rtol=1e-4, atol=1e-5)
            np.savez(self.path("w2.npz"), **{**old, "g": g * 1.1})
        done = subprocess.run([PROGRAM, "graph", "--weights", self.path("w2.npz"), self.path("m.onnx")], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True)
        self.assertIn("add was computed of other tensors, such as g,", done.stdout)
        # the first step of an RNN from zeros: linear_1 [2, 6] is bias_hh twice
        nodes = [helper.make_node("MatMul", ["x", "val_0"], ["a"]), helper.make_node("Add", ["a", "linear_1"], ["c"]), helper.make_node("Add", ["c", "fc.bias"], ["y"])]
        made = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", float32, [2, 8])], [helper.make_tensor_value_info("y", float32, [2, 6])],
                                 [numpy_helper.from_array(np.ascontiguousarray(v), k) for k, v in {"val_0": w.T, "fc.bias": b, "linear_1": np.stack([b, b])}.items()])
        onnx.save(helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)]), self.path("m.onnx"))
        for bias in (b, b + 1):
            np.savez(self.path("w.npz"), **{"fc.weight": w, "fc.bias": bias})
            np.savez(self.path("two.npz"), x=x[:2])
            subprocess.run([PROGRAM, "graph", "--weights", self.path("w.npz"), "--data", self.path("two.npz"), "--outputs", self.path("y.npz"), "--force", self.path("m.onnx")], check=True, stdout=subprocess.PIPE)
            with np.load(self.path("y.npz")) as y:
                np.testing.assert_allclose(y["y"], x[:2] @ w.T + 2 * bias, rtol=1e-4, atol=1e-5)
        # a head that only the file has, of the shape of a weight that has changed, stays the file's own
        nodes = [helper.make_node("MatMul", ["x", "body.weight"], ["a"]), helper.make_node("MatMul", ["a", "head.weight"], ["y"])]
        square = rng.standard_normal((2, 8, 8)).astype("f4")
        made = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", float32, ["batch", 8])], [helper.make_tensor_value_info("y", float32, ["batch", 8])],
                                 [numpy_helper.from_array(square[0], "body.weight"), numpy_helper.from_array(square[1], "head.weight")])
        onnx.save(helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)]), self.path("m.onnx"))
        np.savez(self.path("w.npz"), **{"body.weight": square[0] + 1})
        subprocess.run([PROGRAM, "graph", "--weights", self.path("w.npz"), "--data", self.path("x.npz"), "--outputs", self.path("y.npz"), "--force", self.path("m.onnx")],
                       check=True, stdout=subprocess.DEVNULL)
        with np.load(self.path("y.npz")) as y:
            np.testing.assert_allclose(y["y"], x @ (square[0] + 1) @ square[1], rtol=1e-4, atol=1e-4)
        # norm(norm(x)), whose scales and shifts were equal
        for scale in (np.ones(8, "f4"), 1 + np.arange(8, dtype="f4") / 8):
            nodes = [helper.make_node("LayerNormalization", [a, "n.weight", "n.bias"], [c]) for a, c in ("xp", "py")]
            made = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", float32, ["batch", 8])], [helper.make_tensor_value_info("y", float32, ["batch", 8])],
                                     [numpy_helper.from_array(scale, "n.weight"), numpy_helper.from_array(scale / 3, "n.bias")])
            onnx.save(helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)]), self.path("m.onnx"))
            np.savez(self.path("r.npz"), x=x, y=x[::-1])
            for tied in ([], ["--allow-tied"]):
                done = subprocess.run([PROGRAM, "distill", "--alpha", "0", "--task", "regression", "--data", self.path("r.npz"), "--steps", "1", "--student", self.path("m.onnx"), "-f", "-o",
                                       self.path("o.onnx"), *tied], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
                self.assertEqual("several nodes read n.weight" in done.stdout, not tied and scale[1] == 1, done.stdout)
                self.assertEqual(done.returncode, 3 if not tied and scale[1] == 1 else 0, done.stdout)

    def test_traces(self):
        """What the newer exporter says of each node names the tensors: weights of other values are found without values, and what was left out or
        kept once is refused."""
        if not hasattr(onnx.NodeProto(), "metadata_props"):
            self.skipTest("an onnx whose nodes have no notes")
        rng = np.random.default_rng(5)
        x = rng.standard_normal((2, 5, 8)).astype("f4")

        def node(op, inputs, output, call, args, **attrs):
            made = helper.make_node(op, inputs, [output], **attrs)
            made.metadata_props.add(key="pkg.torch.onnx.stack_trace", value="File x.py")
            made.metadata_props.add(key="pkg.torch.onnx.fx_node", value="%%%s : [num_users=1] = call_function[target=torch.ops.aten.%s](args = (%s), kwargs = {})" % (output, call, args))
            return made

        def graph(nodes, stored, weights):
            self.save("m.onnx", nodes, {"x": ["batch", 5, 8]}, "y", stored)
            np.savez(self.path("w.npz"), **weights)
            np.savez(self.path("x.npz"), x=x)
            done = subprocess.run([PROGRAM, "graph", "--weights", self.path("w.npz"), "--data", self.path("x.npz"), "--outputs", self.path("y.npz"), "--force", self.path("m.onnx")],
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True)
            if done.returncode != 0:
                return done.stdout
            with np.load(self.path("y.npz")) as y:
                return y["y"]

        w, b, g, h = (rng.standard_normal(s).astype("f4") for s in ((6, 8), (6,), (6,), (6,)))
        args = "%x, %p_layers_0_fc_weight, %p_layers_0_fc_bias"
        nodes = [node("MatMul", ["x", "val_0"], "val_1", "linear.default", args), node("Add", ["val_1", "layers.0.fc.bias"], "linear", "linear.default", args)]
        old = {"val_0": rng.standard_normal((8, 6)).astype("f4"), "layers.0.fc.bias": b}
        found = {"layers.0.fc.weight": w, "layers.0.fc.bias": b + 1}
        last = [node("Mul", ["linear", "slice_1"], "y", "mul.Tensor", "%linear, %slice_1")]
        identity = [helper.make_node("Identity", ["linear"], ["y"])]
        np.testing.assert_allclose(graph(nodes + identity, old, found), x @ w.T + b + 1, rtol=1e-4, atol=1e-5)
        # the same tensor by another argument: nothing is meant
        strange = [node("MatMul", ["x", "val_0"], "val_1", "linear.default", "%x, %mul, %p_layers_0_fc_bias"), nodes[1]]
        self.assertIn("val_0 was computed of other tensors, such as layers.0.fc.weight", graph(strange + identity, old, found))
        # a part of a table that changed, whatever else has not
        same = {"layers.0.fc.weight": old["val_0"].T, "layers.0.fc.bias": b, "table": np.stack([g, h])}
        np.testing.assert_allclose(graph(nodes + last, {**old, "slice_1": g[None]}, same), (x @ old["val_0"] + b) * g, rtol=1e-4, atol=1e-5)
        self.assertIn("slice_1 was computed of other tensors, such as table", graph(nodes + last, {**old, "slice_1": g[None] / 2}, same))
        # a shift of zeros that the exporter left out
        bare = [node("MatMul", ["x", "val_0"], "y", "linear.default", args)]
        self.assertIn("layers.0.fc.bias of the checkpoint is nowhere in the graph", graph(bare, {"val_0": old["val_0"]}, {**same, "layers.0.fc.bias": b}))
        np.testing.assert_allclose(graph(bare, {"val_0": old["val_0"]}, {**found, "layers.0.fc.bias": 0 * b}), x @ w.T, rtol=1e-4, atol=1e-5)
        # two norms whose scales were equal
        norms = [node("LayerNormalization", ["x", "a.weight", "a.bias"], "p", "layer_norm.default", "%x, [8], %p_a_weight, %p_a_bias"),
                 node("LayerNormalization", ["p", "a.weight", "a.bias"], "y", "layer_norm.default", "%p, [8], %p_c_weight, %p_c_bias")]
        ones = {"a.weight": np.ones(8, "f4"), "a.bias": np.zeros(8, "f4")}
        four = {k + e: v for k in "ac" for e, v in ((".weight", ones["a.weight"]), (".bias", ones["a.bias"]))}
        self.assertEqual(graph(norms, ones, four).shape, x.shape)
        self.assertIn("c.weight of the checkpoint is nowhere in the graph", graph(norms, ones, {**four, "a.weight": four["a.weight"] * 2}))
        # folded statistics where no tensor of the graph is one of the checkpoint
        folded = [helper.make_node("Conv", ["x", "onnx::Conv_1", "onnx::Conv_2"], ["y"], pads=[1, 1])]
        bn = {"c.weight": rng.standard_normal((6, 5, 3)).astype("f4"), **{"bn." + k: np.ones(6, "f4") for k in ("weight", "bias", "running_mean", "running_var")}}
        self.assertIn("was computed of other tensors, such as bn.weight", graph(folded, {"onnx::Conv_1": bn["c.weight"] * 2, "onnx::Conv_2": b}, bn))
        # statistics that the exporter repeats for each row of the batch
        four = {"n." + k: (rng.standard_normal(4) ** 2 + 1).astype("f4") for k in ("weight", "bias", "running_mean", "running_var")}
        norm = [helper.make_node("Reshape", ["x", "wide"], ["p"]), node("BatchNormalization", ["p", *["val_%d" % k for k in range(4)]], "q", "instance_norm.default", "%x, %p_n_weight, %p_n_bias, %b_n_running_mean, %b_n_running_var, False"),
                helper.make_node("Reshape", ["q", "flat"], ["y"])]
        sizes = {"wide": np.array([1, 8, -1]), "flat": np.array([2, 5, 8])}
        z = x.reshape(2, 4, 10)
        scaled = (z - four["n.running_mean"][:, None]) / np.sqrt(four["n.running_var"][:, None] + 1e-5) * four["n.weight"][:, None] + four["n.bias"][:, None]
        np.testing.assert_allclose(graph(norm, {**{"val_%d" % k: np.ones(8, "f4") for k in range(4)}, **sizes}, four), scaled.reshape(x.shape), rtol=1e-4, atol=1e-5)
        # a constant that is such a statistic again and again
        ones = {**{"val_%d" % k: np.ones(8, "f4") for k in range(4)}, **sizes, "val_9": np.ones((1, 8), "f4")}
        norm[2] = helper.make_node("Reshape", ["q", "flat"], ["r"])
        made = graph(norm + [helper.make_node("Add", ["r", "val_9"], ["y"])], ones, {k: np.ones(4, "f4") for k in four})
        np.testing.assert_allclose(made, x + 1, rtol=1e-4, atol=1e-4)
        # the first step of an unrolled RNN: 0 W + bias, again and again
        first = [node("Add", ["x", "linear"], "a", "add.Tensor", "%x, %linear"), node("Add", ["a", "r.bias_hh_l0"], "y", "linear.default", "%a, %p_r_weight_hh_l0, %p_r_bias_hh_l0")]
        v = rng.standard_normal(8).astype("f4")
        np.testing.assert_allclose(graph(first, {"linear": np.broadcast_to(v, (1, 5, 8)).copy(), "r.bias_hh_l0": v}, {"r.bias_hh_l0": v + 1}), x + 2 * v + 2, rtol=1e-4, atol=1e-5)
        self.assertIn("linear was computed of", graph(first, {"linear": np.zeros((1, 5, 8), "f4"), "r.bias_hh_l0": 0 * v}, {"r.bias_hh_l0": v}))
        first[1] = node("Add", ["a", "val_5"], "y", "linear.default", "%a, %mul, %view")
        np.testing.assert_allclose(graph(first, {"linear": np.broadcast_to(v, (1, 5, 8)).copy(), "val_5": v}, {"r.b": v[:, None]}), x + 2 * v, rtol=1e-4, atol=1e-5)
        # such a vector that is a part of a tensor
        old = rng.standard_normal((3, 8)).astype("f4")
        v = old.ravel() * np.float32(1.1)
        parts = [helper.make_node("Add", [["x", "a", "b", "c"][k], "onnx::Add_%d" % k], [["a", "b", "c", "y"][k]], name="/attn/Add_%d" % k) for k in range(4)]
        old = {**{"onnx::Add_%d" % k: old[k] for k in range(3)}, "onnx::Add_3": np.stack([old[1]] * 5)[None]}
        parts = graph(parts, old, {"attn.in_proj_bias": v})
        np.testing.assert_allclose(parts, x + v[:8] + 2 * v[8:16] + v[16:], rtol=1e-4, atol=1e-5)
        # a_fc.weight, whose word is that of a.fc.weight, which torch.export numbers; the third one is another tensor
        nodes = [helper.make_node("Transpose", ["a.fc.weight"], ["t"], perm=[1, 0]), node("MatMul", ["x", "t"], "l", "linear.default", "%x, %p_a_fc_weight"),
                 node("MatMul", ["l", "val_0"], "y", "linear.default", "%l, %p_a_fc_weight_1")]
        old = {k: rng.standard_normal((8, 8)).astype("f4") for k in ("a.fc.weight", "val_0")}
        found = {k: rng.standard_normal((8, 8)).astype("f4") for k in ("a.fc.weight", "a_fc.weight", "a_fc.weight_1")}
        self.assertIn("val_0 was computed of other tensors", graph(nodes, old, found))

    def test_one_changed(self):
        """Constants that an exporter computed of weights, by each formula that is known: taken while all that they were computed of is as
        it was, whatever else has changed, and refused as soon as one tensor is not."""
        rng = np.random.default_rng(9)

        def normed(v):
            return v / np.sqrt((v * v).sum(1, keepdims=True))
        s = {"a": 8, "b": 8, "long": 16, "t": (3, 8), "m": (8, 8), "n": (8, 8), "l": (8, 2), "r": (2, 8), "h": (8, 4), "k": (8, 4), "one": (), "g": (8, 1), "weight_v": (8, 8), "flat": 64,
             "bn.weight": 8, "bn.bias": 8, "bn.running_mean": 8, "bn.running_var": 8}
        made = [("a", lambda a: 1 + a), ("a", lambda a: a * np.float32(1.702)), ("a", np.exp), ("a", lambda a: -np.exp(a)), ("a", lambda a: np.log1p(np.exp(a))), ("a", np.tanh), ("a", np.abs),
                ("long", lambda w: w[8:]), ("t", lambda w: w[1]), ("m", lambda w: w[:, 3]), ("m", lambda w: w.T * np.float32(0.7)), ("flat", lambda w: w.reshape(8, 8)), ("one", np.exp),
                ("a b", lambda a, b: a * b), ("a b", lambda a, b: a + b), ("a b", lambda a, b: np.concatenate([a[:3], b[3:]])), ("a one", lambda a, w: a * w), ("m a", lambda m, a: m * a),
                ("m n", lambda m, n: m @ n.T), ("l r", lambda l, r: (l @ r).T), ("m l r", lambda m, l, r: (m + 2 * (l @ r)).T), ("h k", lambda h, k: np.concatenate([h, k], 1).T),
                ("g weight_v", lambda g, v: (g * normed(v)).T),
                ("m bn.weight bn.running_var bn.running_mean", lambda m, g, v, _: m * (g / np.sqrt(v + 1e-5))[:, None])]
        for names, f in made:
            names = names.split()
            stored = {k: (rng.standard_normal(s[k]) + (3 if "var" in k else 0)).astype("f4") for k in names}
            c = np.asarray(f(*[stored[k] for k in names]), "f4")
            x, other = rng.standard_normal((2, 5, 8)).astype("f4"), rng.standard_normal(8).astype("f4")
            op = "MatMul" if c.ndim == 2 else "Mul"
            for given, node in (("onnx::Mul_7", "/m/Mul"), ("onnx::Mul_7", "")):
                self.save("m.onnx", [helper.make_node(op, ["x", given], ["a"], name=node), helper.make_node("Add", ["a", "m.other"], ["y"])], {"x": ["batch", 5, 8]}, "y", {given: c, "m.other": other})
                np.savez(self.path("x.npz"), x=x)
                for changed in ["", "other", *[k for k in names if "mean" not in k]]:
                    with self.subTest(names, formula=made.index((" ".join(names), f)), changed=changed, node=node):
                        new = {**stored, "other": other}
                        if changed:
                            new[changed] = (new[changed] + rng.uniform(0.01, 0.02, new[changed].shape)).astype("f4")
                        np.savez(self.path("w.npz"), **{"m." + k: v for k, v in new.items()})
                        done = subprocess.run([PROGRAM, "graph", "--weights", self.path("w.npz"), "--data", self.path("x.npz"), "--outputs", self.path("y.npz"), "--force", self.path("m.onnx")],
                                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True)
                        y = (x @ c if c.ndim == 2 else x * c) + new["other"]
                        self.assertEqual(done.returncode, 0 if changed in ("", "other") else 3, done.stdout)
                        if done.returncode:
                            self.assertIn("onnx::Mul_7 was computed of other tensors, such as m.", done.stdout)
                            continue
                        with np.load(self.path("y.npz")) as z:
                            np.testing.assert_allclose(z["y"], y, rtol=1e-4, atol=1e-4)

    def test_zeros_tell_nothing(self):
        """A constant of zeros, which w - w is, too, is no sign that the parts of w are as they were."""
        rng = np.random.default_rng(4)
        w, x = rng.standard_normal(16).astype("f4"), rng.standard_normal((2, 5, 8)).astype("f4")
        nodes = [helper.make_node("Add", ["x", "onnx::Add_1"], ["a"]), helper.make_node("Mul", ["a", "onnx::Mul_2"], ["b"]), helper.make_node("Add", ["b", "onnx::Add_3"], ["y"])]
        self.save("m.onnx", nodes, {"x": ["batch", 5, 8]}, "y", {"onnx::Add_1": np.zeros((2, 1, 8), "f4"), "onnx::Mul_2": w[:8], "onnx::Add_3": w[8:]})
        np.savez(self.path("x.npz"), x=x)
        for new, wrong in ((w, False), (rng.standard_normal(16).astype("f4"), True)):
            np.savez(self.path("w.npz"), w=new)
            done = subprocess.run([PROGRAM, "graph", "--weights", self.path("w.npz"), "--data", self.path("x.npz"), "--outputs", self.path("y.npz"), "--force", self.path("m.onnx")],
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True)
            self.assertEqual(done.returncode, 3 if wrong else 0, done.stdout)
        self.assertIn("was computed of other tensors, such as w,", done.stdout)

    def test_zeros_are_everywhere(self):
        """A constant that begins with zeros, beside a tensor of zeros, in which it begins at every place: it is sought within a bound."""
        rng = np.random.default_rng(6)
        w, c = rng.standard_normal((8, 1024)).astype("f4"), np.zeros(1024, "f4")
        c[-2] = 1
        nodes = [helper.make_node("MatMul", ["x", "onnx::MatMul_1"], ["a"]), helper.make_node("Mul", ["a", "onnx::Mul_2"], ["y"])]
        self.save("m.onnx", nodes, {"x": ["batch", 5, 8]}, "y", {"onnx::MatMul_1": w, "onnx::Mul_2": c})
        np.savez(self.path("w.npz"), **{"fc.weight": w.T, "zero.weight": np.zeros((2048, 2048), "f4")})
        done = subprocess.run([PROGRAM, "graph", "--weights", self.path("w.npz"), self.path("m.onnx")], capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, 3, done.stdout)
        self.assertIn("onnx::Mul_2 was computed of other tensors, such as zero.weight,", done.stderr)

    def test_norms_of_other_sizes(self):
        """A folded weight beside a batch normalization whose tensors have other sizes or types than its variance: refused."""
        rng = np.random.default_rng(5)
        x, w = rng.standard_normal((2, 5, 8)).astype("f4"), rng.standard_normal((8, 8)).astype("f4")
        self.save("m.onnx", [helper.make_node("MatMul", ["x", "onnx::MatMul_7"], ["y"])], {"x": ["batch", 5, 8]}, "y", {"onnx::MatMul_7": w * 2})
        np.savez(self.path("x.npz"), x=x)
        for wrong, values in (("weight", np.zeros(8, "i4")), ("bias", np.zeros(3, "f4")), ("running_mean", np.zeros(0, "f4")), ("running_mean", np.zeros(1, "f4"))):
            norm = {"m.bn." + k: np.ones(8, "f4") for k in ("weight", "bias", "running_mean", "running_var")}
            np.savez(self.path("w.npz"), **{**norm, "m.w": w + 1, "m.bn." + wrong: values})
            done = subprocess.run([PROGRAM, "graph", "--weights", self.path("w.npz"), "--data", self.path("x.npz"), "--outputs", self.path("y.npz"), "--force", self.path("m.onnx")],
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True)
            self.assertEqual(done.returncode, 3, (wrong, done.stdout))
            self.assertRegex(done.stdout, "was computed of other tensors|was folded into")

    def save(self, name, nodes, inputs, output, stored):
        f32 = onnx.TensorProto.FLOAT
        made = helper.make_graph(nodes, "g", [helper.make_tensor_value_info(k, f32, shape) for k, shape in inputs.items()], [helper.make_tensor_value_info(output, f32, None)],
                                 [numpy_helper.from_array(np.ascontiguousarray(v), k) for k, v in stored.items()])
        model = helper.make_model(made, opset_imports=[helper.make_opsetid("", 20)])
        model.ir_version = 9
        onnx.save(model, self.path(name))

    def test_sampled_places(self):
        """GridSample beside onnxruntime: beyond the edges, on halves between elements, on all of them; with an axis of one element."""
        rng = np.random.default_rng(6)
        for shape, to in (((2, 3, 5, 4), (3, 2)), ((1, 2, 1, 3), (2, 7)), ((2, 2, 3, 4, 2), (2, 3, 1))):
            x = rng.standard_normal(shape).astype("f4")
            grid = rng.uniform(-2.6, 2.6, (shape[0], *to, len(to))).astype("f4")
            grid.reshape(-1)[:6] = (-1, 1, 0, 0.5, -0.25, 0.75)
            for mode in ("linear", "nearest", "cubic"):
                for padding in ("zeros", "border", "reflection"):
                    for aligned in (0, 1):
                        with self.subTest(shape=shape, mode=mode, padding=padding, aligned=aligned):
                            node = helper.make_node("GridSample", ["x", "grid"], ["y"], mode=mode, padding_mode=padding, align_corners=aligned)
                            self.save("m.onnx", [node], {"x": ["batch", *shape[1:]], "grid": ["batch", *to, len(to)]}, "y", {})
                            if mode == "cubic" and len(to) > 2:
                                np.savez(self.path("d.npz"), x=x, grid=grid)
                                self.assertIn("its mode or padding_mode is not supported", drive(self.path("m.onnx"), self.path("d.npz"))["problem"][0][0])
                                continue
                            theirs, = onnxruntime.InferenceSession(self.path("m.onnx"), providers=["CPUExecutionProvider"]).run(None, {"x": x, "grid": grid})
                            np.savez(self.path("d.npz"), x=x, grid=grid)
                            for precision in ([], ["-64"]):
                                lines = drive(*precision, self.path("m.onnx"), self.path("d.npz"))
                                self.assertEqual(lines["problem"], [])
                                self.assertEqual(near(outputs_of(lines)["y"], theirs, 1e-5), "")

    def test_affine_places(self):
        """AffineGrid beside PyTorch, alone and in front of GridSample: pictures and volumes, axes of one element, both corners."""
        rng = np.random.default_rng(7)
        for to in ((5, 4), (1, 3), (3, 1, 4)):
            for aligned in (0, 1):
                with self.subTest(to=to, aligned=aligned):
                    n = len(to)
                    theta = rng.uniform(-1, 1, (2, n, n + 1)).astype("f4")
                    x = rng.standard_normal((2, 3, *to)).astype("f4")
                    size = np.array([2, 3, *to], "i8")
                    nodes = [helper.make_node("AffineGrid", ["theta", "size"], ["grid"], align_corners=aligned),
                             helper.make_node("GridSample", ["x", "grid"], ["sampled"], align_corners=aligned)]
                    theirs = {"grid": torch.nn.functional.affine_grid(torch.from_numpy(theta), list(size), align_corners=bool(aligned))}
                    theirs["sampled"] = torch.nn.functional.grid_sample(torch.from_numpy(x), theirs["grid"], align_corners=bool(aligned))
                    for y in ("grid", "sampled"):
                        arrays = {"theta": theta, **({"x": x} if y == "sampled" else {})}
                        self.save("m.onnx", nodes[:1 + (y == "sampled")], {k: ["batch", *v.shape[1:]] for k, v in arrays.items()}, y, {"size": size})
                        np.savez(self.path("d.npz"), **arrays)
                        lines = drive(self.path("m.onnx"), self.path("d.npz"))
                        self.assertEqual(lines["problem"], [])
                        self.assertEqual(near(outputs_of(lines)[y], theirs[y].numpy(), 1e-5), "")

    def test_akin_matrices(self):
        """Matrices without names or places, as they were or turned, are those of a checkpoint that trained on, in any order."""
        rng = np.random.default_rng(11)
        for rows, columns in ((96, 64), (16, 12), (50, 40)):  # samples of all, all elements, samples of most
            with self.subTest(rows=rows):
                ours = [rng.standard_normal((rows, columns)).astype("f4") / 8 for _ in range(3)]
                trained = [w + 0.01 * rng.standard_normal(w.shape).astype("f4") for w in ours]
                constants = {"onnx::MatMul_100": ours[0], "onnx::MatMul_200": np.ascontiguousarray(ours[1].T), "onnx::MatMul_300": ours[2]}
                nodes = [helper.make_node("MatMul", [last, name], [to]) for last, name, to in zip("xab", constants, "aby")]
                self.save("m.onnx", nodes, {"x": ["batch", rows]}, "y", constants)
                np.savez(self.path("w.npz"), **{"t%d.weight" % k: trained[k] for k in (2, 0, 1)})
                x = rng.standard_normal((4, rows)).astype("f4")
                np.savez(self.path("d.npz"), x=x)
                done = subprocess.run([PROGRAM, "graph", "-q", "-f", "--weights", self.path("w.npz"), "--data", self.path("d.npz"), "--outputs", self.path("o.npz"),
                                       self.path("m.onnx")], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
                self.assertEqual(done.returncode, 0, done.stderr)
                theirs = x @ trained[0] @ trained[1].T @ trained[2]
                with np.load(self.path("o.npz")) as z:
                    self.assertLess(np.abs(z["y"] - theirs).max() / np.abs(theirs).max(), 1e-5)

    def test_equal_statistics(self):
        """Two new BatchNormalizations, whose scales, shifts, means and variances are ones and zeros, kept once: by names of
        Identity nodes, or without. Both are evaluated, and not trained; nor are means that two norms share by their names."""
        float32 = onnx.TensorProto.FLOAT
        one, zero, mean = np.ones(3, "f4"), np.zeros(3, "f4"), np.full(3, 0.5, "f4")
        rng = np.random.default_rng(2)
        np.savez(self.path("data.npz"), x=rng.standard_normal((8, 3)).astype("f4"), y=rng.integers(0, 3, 8))
        mixed = "w is a running mean or variance in the graph, and another weight", "z is a running mean or variance in the graph"
        cases = [(["w", "z", "z", "w"], ["w", "z", "z", "w"], [], mixed), (["w", "z", "m", "v"], ["w2", "z2", "m2", "v2"], ["m"], ("m is also m2", ))]
        cases.append((["w", "z", "m", "v"], ["w2", "z2", "m2", "v2"], [], ()))
        for first, second, named, said in cases:
            names = dict(zip(["w", "z", "m", "v", "w2", "z2", "m2", "v2"], [one, zero, mean, one, 2 * one, one, mean, one]))
            stored = {n for n in first + second if n[:-1] not in named}
            nodes = [helper.make_node("Identity", [n], [n + "2"]) for n in named]
            nodes += [helper.make_node("BatchNormalization", ["x", *first], ["a"]), helper.make_node("BatchNormalization", ["a", *second], ["y"])]
            graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", float32, ["batch", 3])],
                                      [helper.make_tensor_value_info("y", float32, ["batch", 3])], [numpy_helper.from_array(names[n], n) for n in sorted(stored)])
            onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), self.path("m.onnx"))
            model, data = self.path("m.onnx"), self.path("data.npz")
            for command in (["evaluate", model], ["distill", "--alpha", "0", "--steps", "1", "--student", model, "-f", "-o", self.path("o.onnx")]):
                done = subprocess.run([PROGRAM, *command, "--data", data], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
                wrong = said if command[0] == "distill" else ()
                self.assertEqual(done.returncode, 3 if wrong else 0, done.stderr)
                self.assertTrue(not wrong or any(w in done.stderr for w in wrong), done.stderr)

    def test_shared_constants(self):
        """Equal biases, gains and offsets of several blocks that an exporter wrote once keep no block alive: the memory is that of a file with one each."""
        def beside(shared):
            d, nodes, weights, x = 96, [], {}, "x"

            def own(name, *shape, value=None):
                name = name.replace("blocks.%d." % i, "blocks.0.") if shared and value is not None else name
                weights.setdefault(name, np.full(shape, value, "f4") if value is not None else np.ones(shape, "f4"))
                return name
            for i in range(6):
                p = "blocks.%d." % i
                nodes += [helper.make_node("LayerNormalization", [x, own(p + "norm.weight", d, value=1), own(p + "norm.bias", d, value=0)], [p + "n"]),
                          helper.make_node("MatMul", [p + "n", own(p + "fc1.weight", d, 4 * d)], [p + "m"]),
                          helper.make_node("Add", [p + "m", own(p + "fc1.bias", 4 * d, value=0)], [p + "a"]), helper.make_node("Relu", [p + "a"], [p + "r"]),
                          helper.make_node("MatMul", [p + "r", own(p + "fc2.weight", 4 * d, d)], [p + "o"]),
                          helper.make_node("Add", [p + "o", own(p + "fc2.bias", d, value=0)], [p + "b"]),
                          helper.make_node("Add", [x, p + "b"], ["y" if i == 5 else p + "y"])]
                x = p + "y"
            graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", 1, [4, 97, d])],
                                      [helper.make_tensor_value_info("y", 1, [4, 97, d])], [numpy_helper.from_array(a, n) for n, a in weights.items()])
            onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8), self.path("m.onnx"))
            done = subprocess.run([PROGRAM, "estimate", "--bytes", "--runtime", "pytorch", self.path("m.onnx")], stdout=subprocess.PIPE, check=True, text=True)
            peak, loaded = (int(re.search(n + r"\s+([\d,]+) B", done.stdout).group(1).replace(",", "")) for n in ("PyTorch eager", "after loading"))
            return peak - loaded
        one, each = beside(True), beside(False)
        self.assertLessEqual(abs(one / each - 1), 0.1, (one, each))

    def test_bytes_with_weights(self):
        """Names that an exporter lost come from --weights; bytes are those of these tensors, wherever they stand in the checkpoint."""
        rng = np.random.default_rng(1)
        w, b, v = (rng.standard_normal(shape).astype("f4") for shape in ((32, 64), (32,), (8, 32)))
        graph = helper.make_graph(
            [helper.make_node("MatMul", ["x", "onnx::MatMul_1"], ["a"], "/fc1/MatMul"),
             helper.make_node("Add", ["fc1.bias", "a"], ["c"], "/fc1/Add"), helper.make_node("Relu", ["c"], ["d"], "/Relu"),
             helper.make_node("MatMul", ["d", "onnx::MatMul_2"], ["y"], "/fc2/MatMul")], "g",
            [helper.make_tensor_value_info("x", 1, ["n", 64])], [helper.make_tensor_value_info("y", 1, ["n", 8])],
            [numpy_helper.from_array(np.ascontiguousarray(a), name)
             for name, a in (("onnx::MatMul_1", w.T), ("fc1.bias", b), ("onnx::MatMul_2", v.T))])
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), self.path("m.onnx"))
        np.savez(self.path("w.npz"), **{"fc2.weight": v, "fc1.weight": w, "fc1.bias": b})
        done = subprocess.run([PROGRAM, "graph", "--json", "--weights", self.path("w.npz"), self.path("m.onnx")],
                              stdout=subprocess.PIPE, check=True)
        blocks = {block["path"]: block["bytes"] for block in json.loads(done.stdout)["blocks"]}
        self.assertEqual(blocks, {"": w.nbytes + b.nbytes + v.nbytes, "fc1": w.nbytes + b.nbytes, "fc2": v.nbytes})


if __name__ == "__main__":
    unittest.main()
