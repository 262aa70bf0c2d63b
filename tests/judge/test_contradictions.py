"""test_contradictions.py - random graphs whose sizes contradict each other, beside onnxruntime.

tests/distill/test_contradictions writes the graphs, which it has sent through evaluate, logits, distill and sensitivity with
the plain loops of `vcompress graph` as the judge. Here these loops are judged: what they compute of rows, in batches of the
graph's own size and of another one, is what onnxruntime computes, and what it refuses they refuse.
"""
import os
import re
import subprocess
import sys
import tempfile
import unittest

try:
    import numpy as np
    import onnx.parser
    import onnxruntime
except ImportError as missing:
    print("SKIPPED: %s for %s" % (missing, sys.executable))
    sys.exit(77)

PROGRAM = os.environ.get("VCOMPRESS_PROGRAM", "")
MAKER = os.path.join(os.environ.get("VCOMPRESS_BUILD_DIR", ""), "tests", "distill", "test_contradictions")
GRAPHS = int(os.environ.get("VCOMPRESS_CONTRADICTIONS", "40"))
BATCHES = (1, 2, 3, 4, 7, 12)


def only(graph, output):
    """Without the nodes that the output does not need: onnxruntime runs them, and fails where they do."""
    needed, nodes = {output}, []
    for node in reversed(graph.node):
        if needed & set(node.output):
            needed |= set(node.input)
            nodes.insert(0, node)
    del graph.node[:]
    graph.node.extend(nodes)
    outputs = [o for o in graph.output if o.name == output]
    del graph.output[:]
    graph.output.extend(outputs)


class Contradictions(unittest.TestCase):
    def session(self, text):
        """None: onnxruntime refuses the graph, whatever the rows are."""
        try:
            model = onnx.parser.parse_model(text)
            only(model.graph, "y")
            model.opset_import[0].version = min(model.opset_import[0].version, 18)
            model.ir_version = 8
            options = onnxruntime.SessionOptions()
            options.log_severity_level = 4
            options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
            options.intra_op_num_threads = 1
            return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        except Exception:
            return None

    def theirs(self, session, batch):
        answers = []
        for first in range(0, 12, batch):
            feed = {}
            for value in session.get_inputs():
                a = self.rows[value.name][first:first + batch] if value.name in self.rows else self.weights[value.name]
                feed[value.name] = a if a.dtype.kind == "i" else a.astype(np.float32)
            try:
                y = session.run(["y"], feed)[0]
            except Exception:
                return None
            if y.ndim != 2 or len(y) != len(self.rows["x"][first:first + batch]):
                return None
            answers.append(y)
        return np.concatenate(answers)

    def ours(self, path, batch):
        out = os.path.join(self.folder, "o.npz")
        done = subprocess.run([PROGRAM, "graph", "--weights", os.path.join(self.folder, "weights.npz"), "--data",
                               os.path.join(self.folder, "rows.npz"), "--batch", str(batch), "--value", "y", "--outputs", out,
                               "-f", "-q", path], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.assertIn(done.returncode, (0, 2, 3), "%s: %s" % (path, done.stderr))
        return np.load(out)["y"] if done.returncode == 0 else None

    def test_graphs(self):
        with tempfile.TemporaryDirectory() as self.folder:
            made = subprocess.run([MAKER, str(GRAPHS), "100000", self.folder], stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, text=True)
            self.assertEqual(made.returncode, 0, made.stdout)
            self.rows = dict(np.load(os.path.join(self.folder, "rows.npz")))
            self.weights = dict(np.load(os.path.join(self.folder, "weights.npz")))
            same = both = only_they = 0
            for name in sorted(n for n in os.listdir(self.folder) if n.endswith(".onnxtxt")):
                path = os.path.join(self.folder, name)
                with open(path) as file:
                    text = file.read()
                session = self.session(text)
                seed = int(re.sub(r"\D", "", name))
                for batch in {BATCHES[seed % 6], BATCHES[seed // 6 % 6]}:
                    want = self.theirs(session, batch) if session is not None else None
                    is_ = self.ours(path, batch)
                    if want is not None and is_ is not None:
                        self.assertEqual(is_.shape, want.shape, "%s, batch %d\n%s" % (name, batch, text))
                        np.testing.assert_allclose(is_, want, rtol=2e-4, atol=2e-4, err_msg="%s, batch %d\n%s" % (name, batch, text))
                        same += 1
                    elif is_ is None:
                        both += want is None
                        only_they += want is not None
                        if want is not None and "-v" in sys.argv:
                            print("refused, and onnxruntime computes it: %s, batch %d\n%s" % (name, batch, text))
                    else:
                        self.fail("onnxruntime refuses %s with batch %d\n%s" % (name, batch, text))
            print("%d graphs: %d equal, %d refused by both, %d that only onnxruntime computes" % (GRAPHS, same, both, only_they))
            self.assertGreater(same, GRAPHS // 4)
            self.assertLess(only_they, max(2, same // 10))


if __name__ == "__main__":
    if not os.path.exists(MAKER) or not os.path.exists(PROGRAM):
        print("SKIPPED: no test_contradictions in the build folder")
        sys.exit(77)
    unittest.main()
