"""test_graph_nodes.py - the node tests of the onnx package: a model of one operator each, with inputs and outputs.

Every model whose operators the graph has, or rewrites, is built and computed by tests/graph/graph_driver; outputs are those
of the test within 1e-5 of the largest element (half precision: within what its rounding makes of a value). A model that
is refused has to be refused for one of the reasons below, which docs/graph.md has, too.
"""
import os
import re
import subprocess
import sys
import tempfile
import unittest
import warnings

warnings.filterwarnings("ignore")
try:
    import numpy as np
    import onnx
    from onnx import numpy_helper
    import onnx.backend.test.case.node as node_tests
except ImportError as missing:
    print("SKIPPED: %s for %s" % (missing, sys.executable))
    sys.exit(77)

DRIVER = os.path.join(os.environ.get("VCOMPRESS_BUILD_DIR", ""), "tests", "graph", "graph_driver")
# Models that are computed, by the version of onnx: the number may grow, and what it was says whether one was lost.
LEAST = (((1, 23), 1287), ((1, 18), 1100), ((0, 0), 500))  # 1.18: with the operators of set 23

# Operators that the graph does not have, and kinds of values that it does not have.
OTHERS = re.compile(r"the operator '\w+'|has a graph inside|is of the domain|is of a type that no operator here takes|"
                    r"of a kind that no operator here has|its operator set is")
# What is not supported of operators that it has.
REFUSED = re.compile("|".join([
    r"Attention .* has [47] (in|out)puts", r"Attention .* left_window_size is not supported",
    r"Cast .* conversion to the type with number \d+", r"MaxPool .* has 2 outputs", r"MaxPool .* has integers",
    r"Mod .* the remainder of floats needs fmod = 1", r"Reduce(Max|Min) .* has truth values",
    r"Reduce(Max|Min) .* has no elements to choose from", r"QuantizeLinear .* codes of the type with number",
    r"Resize .*(extrapolation_value|keep_aspect_ratio_policy)",
    r"(Expand|ConstantOfShape|Range) .* the (shape|range) is computed from values", r"If .* decides which branch is computed", r"Scan .*operator set 9 and newer", r"how many bits the integers"]))
# Where the package's reference says something else than the definition here.
DIFFERENT = {
    # the size of the output, 1.2 by 2.4, is not rounded down in the formula of the coordinates; onnxruntime rounds, too
    "test_resize_downsample_scales_linear_align_corners", "test_resize_downsample_scales_cubic_align_corners",
    # outputs that were written with four digits
    "test_averagepool_2d_ceil_last_window_starts_on_pad",
    # with the statistics of the batch, as in training
    "test_batchnorm_example_training_mode", "test_batchnorm_epsilon_training_mode",
}


def array_of(value):
    return numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else np.asarray(value)


def limit_of(case):
    """Values that are rounded to half precision on the way differ by that rounding."""
    types = {v.type.tensor_type.elem_type for v in list(case.model.graph.input) + list(case.model.graph.output)}
    types |= {a.i for n in case.model.graph.node if n.op_type == "Cast" for a in n.attribute if a.name == "to"}
    return 1e-2 if onnx.TensorProto.BFLOAT16 in types else 2e-3 if onnx.TensorProto.FLOAT16 in types else 2.5e-5


class Nodes(unittest.TestCase):
    def drive(self, model, feed):
        path = os.path.join(self.folder.name, "m.onnx")
        data = os.path.join(self.folder.name, "d.npz")
        with open(path, "wb") as file:
            file.write(model.SerializeToString())
        np.savez(data, **feed)
        done = subprocess.run([DRIVER, path, data], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.assertIn(done.returncode, (0, 1), done.stderr)
        problems, outputs = [], {}
        for line in done.stdout.splitlines():
            word, _, rest = line.partition("\t")
            if word == "problem":
                problems.append(rest)
            elif word == "out":
                name, _, rest = rest.partition("\t")
                shape, _, values = rest.partition(":")
                outputs[name] = np.array([float(v) for v in values.split()]).reshape([int(s) for s in shape.split()])
        return problems, outputs

    def compute(self, case):
        """What makes a shape has to be known: if the model is refused without, lists of integers become initializers,
        and what Resize and Range take."""
        model = onnx.ModelProto()
        model.CopyFrom(case.model)
        arrays = [array_of(a) for a in case.data_sets[0][0]]
        feed = {}
        for value, a in zip(model.graph.input, arrays):
            if a.dtype.kind not in "fiub":
                a = a.astype(np.float32) if "float" in str(a.dtype) else a.astype(np.int64)
            feed[value.name] = a
        problems, outputs = self.drive(model, feed)
        if not problems or not any(re.search("comput|constant|decides", p) for p in problems):
            return problems, outputs
        ops = {n.op_type for n in model.graph.node}
        for k, (value, a) in enumerate(list(zip(model.graph.input, arrays))):
            known = (a.dtype.kind in "iu" or ops & {"If", "Loop"} and a.size == 1) and a.ndim <= 1 and (k > 0 or a.ndim == 0 or ops & {"ConstantOfShape"})
            if known or (k > 0 and ops & {"Resize", "Upsample"}) or (k == 1 and ops == {"OneHot"}) or ops == {"Range"}:
                model.graph.input.remove(value)
                model.graph.initializer.append(numpy_helper.from_array(a, value.name))
                del feed[value.name]
        return self.drive(model, feed)

    def compare(self, case, outputs):
        for value, want in zip(case.model.graph.output, case.data_sets[0][1]):
            want = array_of(want).astype(np.float64)
            ours = outputs.get(value.name)
            if ours is None or ours.shape != want.shape:
                return "'%s' has the shape %s and not %s" % (value.name, None if ours is None else ours.shape, want.shape)
            finite = np.isfinite(want)
            if not np.array_equal(ours[~finite], want[~finite], equal_nan=True):
                return "'%s' differs where there is no number" % value.name
            if finite.any():
                error = np.abs(ours[finite] - want[finite]).max() / max(np.abs(want[finite]).max(), 1e-30)
                if error > limit_of(case):
                    return "'%s' differs by %g of the largest" % (value.name, error)
        return None

    def test_nodes(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            cases = node_tests.collect_testcases(None)
        others, refused, wrong, ops = 0, 0, [], set()
        n = 0
        for case in cases:
            model = case.model.graph
            if (case.name in DIFFERENT or "training_dropout" in case.name or
                    any(v.type.WhichOneof("value") != "tensor_type" or
                        v.type.tensor_type.elem_type == onnx.TensorProto.STRING
                        for v in list(model.input) + list(model.output))):
                others += 1
                continue
            problems, outputs = self.compute(case)
            if problems:
                if all(OTHERS.search(p) for p in problems):
                    others += 1
                elif all(OTHERS.search(p) or REFUSED.search(p) for p in problems):
                    refused += 1
                else:
                    wrong.append("%s: %s" % (case.name, problems[0].partition("m.onnx: ")[2] or problems[0]))
                continue
            n += 1
            ops |= {node.op_type for node in model.node}
            difference = self.compare(case, outputs)
            if difference:
                wrong.append("%s: %s" % (case.name, difference))
        print("%d models of %d operators computed; %d of other operators or types, %d that use what is not supported" %
              (n, len(ops), others, refused))
        self.assertEqual(wrong, [], "%d are wrong:\n%s" % (len(wrong), "\n".join(wrong[:80])))
        version = tuple(int(v) for v in re.findall(r"\d+", onnx.__version__)[:2])
        self.assertGreaterEqual(n, next(least for first, least in LEAST if version >= first))


if __name__ == "__main__":
    if not os.path.exists(DRIVER):
        print("SKIPPED: no graph_driver in the build folder")
        sys.exit(77)
    unittest.main()
