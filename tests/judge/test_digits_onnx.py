"""test_digits_onnx.py - the shipped network as an ONNX graph: onnxruntime counts the digits it gets right, before and after.

The graph is made here from examples/digits/digits.npz; what runs is what vcompress wrote. The other formats of the same
network are tests/examples/check_digits.sh.
"""
import os
import sys
import unittest

from judge_support import Judge, main, np

try:
    import onnx
    import onnxruntime
    from onnx import TensorProto as T, helper, numpy_helper
except ImportError as e:
    print("SKIPPED: %s (the packages onnx and onnxruntime, for %s)" % (e, sys.executable))
    sys.exit(77)

onnxruntime.set_default_logger_severity(4)
FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "examples", "digits")


def nodes():
    x = "image"
    for k in (1, 2, 3):
        p = "bn%d." % k
        yield helper.make_node("Conv", [x, "conv%d.weight" % k], ["c%d" % k], pads=[1, 1, 1, 1])
        yield helper.make_node("BatchNormalization", ["c%d" % k] + [p + s for s in ("weight", "bias", "running_mean",
                                                                                    "running_var")], ["b%d" % k])
        yield helper.make_node("Relu", ["b%d" % k], ["r%d" % k])
        x = "r%d" % k
        if k > 1:
            yield helper.make_node("MaxPool", [x], ["p%d" % k], kernel_shape=[2, 2], strides=[2, 2])
            x = "p%d" % k
    yield helper.make_node("Flatten", [x], ["flat"])
    yield helper.make_node("Gemm", ["flat", "fc1.weight", "fc1.bias"], ["h"], transB=1)
    yield helper.make_node("Relu", ["h"], ["hr"])
    yield helper.make_node("Gemm", ["hr", "fc2.weight", "fc2.bias"], ["logits"], transB=1)


class Digits(Judge):
    def setUp(self):
        super().setUp()
        with np.load(os.path.join(FOLDER, "digits.npz")) as z:
            weights = {n: z[n] for n in z.files if not n.endswith("num_batches_tracked")}
        with np.load(os.path.join(FOLDER, "images.npz")) as z:
            self.images = z["test_images"].reshape(-1, 1, 8, 8).astype("f4") / np.float32(16)
            self.labels = z["test_labels"]
        graph = helper.make_graph(list(nodes()), "digits",
                                  [helper.make_tensor_value_info("image", T.FLOAT, ["n", 1, 8, 8])],
                                  [helper.make_tensor_value_info("logits", T.FLOAT, ["n", 10])],
                                  [numpy_helper.from_array(a, n) for n, a in weights.items()])
        m = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
        m.ir_version = 8
        self.source = self.path("digits.onnx")
        onnx.save(m, self.source)

    def right(self, path):
        onnx.checker.check_model(path, full_check=True)
        session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
        return int((session.run(None, {"image": self.images})[0].argmax(axis=1) == self.labels).sum())

    def test_accuracy(self):
        self.assertEqual(self.right(self.source), 988)
        for options in (["--int8"], ["--int8", "--granularity", "tensor"], ["--fp16"]):
            out = self.path("small.onnx")
            self.vc("quantize", "-q", "--force", *options, self.source, "-o", out)
            self.assertLess(os.path.getsize(out), 0.55 * os.path.getsize(self.source))
            got = self.right(out)
            print("%s: %d of %d" % (" ".join(options), got, len(self.labels)))
            self.assertGreaterEqual(got, 985, options)
        self.vc("quantize", "-q", "--force", "--int8", self.source, "-o", out)
        back = self.path("back.onnx")
        self.vc("dequantize", "-q", out, "-o", back)
        self.assertGreaterEqual(self.right(back), 985)


if __name__ == "__main__":
    main()
