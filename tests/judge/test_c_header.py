"""test_c_header.py - convert --c-header: the header compiles as C99 and C11 without a warning, alone and in two files of a program; what
that program finds in memory are the values that NumPy reads from the checkpoint, codes with their scales and zero points are NumPy's
floats, arrays are aligned, and the checksum is zlib's."""
import os
import re
import shutil
import subprocess
import unittest
import zlib

from judge_support import SMALL, SOURCE_DIR, Judge, main, np, run

DIGITS = os.path.join(SOURCE_DIR, "examples", "digits", "digits.npz")
CC = shutil.which("gcc") or shutil.which("cc")

READER = r"""
#include <stdio.h>
#include "net.h"

int main(void)
{
    size_t i, k;

    printf("crc %08lx %08lx\n", (unsigned long)net_crc32(), (unsigned long)NET_CRC32);
    for (i = 0; i < NET_TENSORS; i++) {
        const struct net_tensor *t = &net_tensors[i];

        printf("%s|%d|%lu|%lu|%d|%d|%d|", t->name, (int)((size_t)t->data % ALIGNMENT), (unsigned long)t->n_dims,
               (unsigned long)t->n_bytes, (int)t->scale, (int)t->zero_point, (int)t->axis);
        for (k = 0; k < t->n_dims; k++) {
            printf("%lu,", (unsigned long)t->dims[k]);
        }
        printf("|");
        for (k = 0; k < t->n_bytes; k++) {
            printf("%02x", ((const unsigned char *)t->data)[k]);
        }
        printf("\n");
    }
    return 0;
}
"""
DATA = '#define NET_DATA\n#include "net.h"\n'


@unittest.skipIf(CC is None, "no compiler of C")
class CHeader(Judge):
    def table(self, path, *options, alignment=16):
        """The rows of the table of a header, as a program finds them in its memory: name -> row."""
        run_ok = self.ok("convert", "--c-header", path, "-o", self.path("net.h"), "-f", *options)
        for name, text in [("data.c", DATA), ("reader.c", READER), ("alone.c", '#include "net.h"\nint main(void) { return 0; }\n')]:
            with open(self.path(name), "w", encoding="ascii") as file:
                file.write(text)
        for standard in ("c99", "c11"):
            for parts in (["data.c", "reader.c"], ["alone.c"]):
                done = subprocess.run([CC, "-std=" + standard, "-Wall", "-Wextra", "-pedantic", "-Werror", "-DALIGNMENT=%d" % alignment, *parts,
                                       "-o", "reader-" + standard], cwd=self.dir, capture_output=True, text=True, check=False)
                self.assertEqual((done.returncode, done.stderr), (0, ""))
            subprocess.run([CC, "-std=" + standard, "-DALIGNMENT=%d" % alignment, "data.c", "reader.c", "-o", "reader-" + standard], cwd=self.dir, check=True)
        texts = {subprocess.run([self.path("reader-" + s)], capture_output=True, text=True, check=True).stdout for s in ("c99", "c11")}
        [text] = texts
        first, *lines = text.splitlines()
        rows, everything = {}, b""
        for line in lines:
            name, rest, n_dims, n_bytes, scale, zero, axis, dims, data = line.split("|")
            self.assertEqual(rest, "0", name)  # of the address, by the alignment
            everything += bytes.fromhex(data)
            shape = tuple(int(d) for d in dims.split(",")[:-1])
            self.assertEqual((len(shape), 2 * int(n_bytes)), (int(n_dims), len(data)))
            rows[name] = {"scale": int(scale), "zero": int(zero), "axis": int(axis), "shape": shape, "bytes": bytes.fromhex(data)}
        self.assertEqual(first, "crc %08x %08x" % ((zlib.crc32(everything),) * 2))
        self.assertIn("checksum %08X" % zlib.crc32(everything), run_ok.out.decode())
        return rows

    def ok(self, *words):
        done = run(*words)
        self.assertEqual(done.code, 0, done.err)
        return done

    def value(self, rows, row, dtype="i1"):
        """What the codes of a row stand for, with what the table says of their scales."""
        names = list(rows)
        codes = np.frombuffer(row["bytes"], dtype).reshape(row["shape"]).astype("f4")
        scale = np.frombuffer(rows[names[row["scale"]]]["bytes"], "f4")
        zero = 0
        if row["zero"] >= 0:
            zero = np.frombuffer(rows[names[row["zero"]]]["bytes"], dtype).astype("f4")
        if row["axis"] >= 0:
            shape = [-1 if k == row["axis"] else 1 for k in range(codes.ndim)]
            scale, zero = scale.reshape(shape), zero.reshape(shape) if row["zero"] >= 0 else 0
        return (codes - zero) * scale

    def test_npz(self):
        for options in (["--int8"], ["--int8", "--granularity", "tensor"], ["--int8", "--asymmetric"]):
            small = self.path("small.npz")
            self.ok("quantize", *options, DIGITS, "-o", small, "-f")
            rows = self.table(small)
            arrays = {name: a for name, a in np.load(small).items() if name != "vcompress.json"}
            self.assertEqual(set(rows), set(arrays))
            for name, array in arrays.items():
                self.assertEqual(rows[name]["shape"], array.shape, name)
                self.assertEqual(rows[name]["bytes"], array.tobytes(), name)
            self.ok("dequantize", "--f32", small, "-o", self.path("back.npz"), "-f")
            back = np.load(self.path("back.npz"))
            codes = [name for name, row in rows.items() if row["scale"] >= 0]
            self.assertEqual(len(codes), 3)
            for name in codes:
                self.assertTrue(np.array_equal(self.value(rows, rows[name], arrays[name].dtype), back[name]), name)

    def test_types(self):
        """Every type that C has, with its extreme values, and shapes from none to four axes."""
        arrays = {"f4": np.array([3.4028235e38, -1.1754944e-38, 1e-45, -0.0, 0.1], "f4"), "f8": np.array([[1.7976931348623157e308, 5e-324, 0.1]], "f8"),
                  "f2": np.array([[[0.1], [65504]]], "f2"), "?": np.array(True), "empty": np.zeros((0, 3), "i4")}
        for kind in "iu":
            for size in "1248":
                info = np.iinfo(kind + size)
                arrays[kind + size] = np.array([info.min, info.max, 0, 7, info.max // 3], kind + size)
        np.savez(self.path("types.npz"), **arrays)
        rows = self.table(self.path("types.npz"), "--c-align", "64", alignment=64)
        for name, array in arrays.items():
            key = name if name in rows else "."  # '?' is no character of a comment
            self.assertEqual((rows[key]["shape"], rows[key]["bytes"]), (array.shape, array.tobytes()), name)

    def test_names(self):
        """Names that are no identifiers, that meet once they are, and that the header has itself."""
        names = ["a.b", "a/b", "a_b", "A-B", "1x", "data", "tensors", "a*/b", "a_b_dims", "x\\y", "%s", "w\u00e9", "crc32", "for"]
        np.savez(self.path("names.npz"), **{name: np.array([i], "i2") for i, name in enumerate(names)})
        self.table(self.path("names.npz"))
        with open(self.path("net.h"), encoding="ascii") as file:
            macros = re.findall(r"#define (\w+) ", file.read())
        macros = [name for name in macros if name != "NET_ALIGNED"]  # one for each compiler
        self.assertEqual(len(macros), len(set(macros)))
        self.assertEqual(sum(name.endswith("_DIMS") for name in macros), len(names))

    def test_same_bytes(self):
        """Wherever the checkpoint lies; another prefix is another name of the same values."""
        os.mkdir(self.path("folder"))
        shutil.copy(DIGITS, self.path("folder/other.npz"))
        self.ok("convert", "--c-header", DIGITS, "-o", self.path("net.h"))
        self.ok("convert", "--c-header", self.path("folder/other.npz"), "-o", self.path("folder/net.h"))
        with open(self.path("net.h"), "rb") as one, open(self.path("folder/net.h"), "rb") as other:
            first = one.read()
            self.assertEqual(first, other.read())
        self.ok("convert", "--c-header", DIGITS, "-o", self.path("folder/b.h"), "--c-prefix", "net")
        with open(self.path("folder/b.h"), "rb") as other:
            self.assertEqual(first, other.read())

    def test_onnx(self):
        try:
            import onnx
            from onnx import TensorProto as T, helper, numpy_helper
        except ImportError:
            self.skipTest("the package onnx is missing")
        random = np.random.default_rng(3)
        weights = {"w1": random.normal(0, 0.2, (8, 3, 3, 3)), "b1": random.normal(0, 0.1, 8), "w2": random.normal(0, 0.2, (128, 10)), "b2": random.normal(0, 0.1, 10)}
        nodes = [helper.make_node("Conv", ["x", "w1", "b1"], ["c"], pads=[1] * 4, strides=[2, 2]), helper.make_node("Relu", ["c"], ["r"]),
                 helper.make_node("Flatten", ["r"], ["f"]), helper.make_node("Gemm", ["f", "w2", "b2"], ["y"])]
        graph = helper.make_graph(nodes, "net", [helper.make_tensor_value_info("x", T.FLOAT, [1, 3, 8, 8])],
                                  [helper.make_tensor_value_info("y", T.FLOAT, [1, 10])],
                                  [numpy_helper.from_array(a.astype("f4"), n) for n, a in weights.items()])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
        model.ir_version = 8
        onnx.save(model, self.path("net.onnx"))
        np.savez(self.path("x.npz"), x=random.normal(0, 1, (32, 3, 8, 8)).astype("f4"))
        self.ok("calibrate", "--data", self.path("x.npz"), self.path("net.onnx"), "-o", self.path("stats.npz"))
        for options in (["--int8"], ["--int8", "--granularity", "tensor"], ["--int8", "--activations", "static", "--calibration", self.path("stats.npz")]):
            small = self.path("small.onnx")
            self.ok("quantize", *options, *SMALL, self.path("net.onnx"), "-o", small, "-f")
            rows = self.table(small)
            arrays = {re.sub(r"\.int(8|32)$", "", i.name): numpy_helper.to_array(i) for i in onnx.load(small).graph.initializer}
            self.assertEqual(set(rows), set(arrays))
            for name, array in arrays.items():  # scales broadcast: [8, 1, 1, 1] for the file's [8]
                self.assertEqual([d for d in rows[name]["shape"] if d != 1], [d for d in array.shape if d != 1], name)
                self.assertEqual(rows[name]["bytes"], array.tobytes(), name)
            found = 0
            for name, row in rows.items():
                if row["scale"] >= 0 and len(row["shape"]) > 1:
                    key = next(w for w in ("w1", "w2") if name.startswith(w))
                    error = self.value(rows, row, arrays[name].dtype) - weights[key]
                    self.assertLess(np.abs(error).max(), 0.01)
                    found += 1
            self.assertEqual(found, 2, list(rows))

    def test_refused(self):
        self.ok("quantize", "--int8", DIGITS, "-o", self.path("a.npz"))
        self.ok("quantize", "--gguf", "Q8_0", DIGITS, "-o", self.path("b.gguf"))
        self.ok("quantize", "--int8", "--layout", "bitsandbytes", DIGITS, "-o", self.path("c.safetensors"))
        np.savez(self.path("inf.npz"), w=np.array([1, np.inf], "f4"))
        header = self.path("net.h")
        for code, sentence, words in [
                (2, "it needs -o FILE.h", [self.path("a.npz")]),
                (2, "it needs -o FILE.h", [self.path("a.npz"), self.path("b.gguf"), "-o", header]),
                (2, "it needs -o FILE.h", [self.path("a.npz"), "-o", "-"]),
                (2, "a format of its own", [self.path("a.npz"), "-o", header, "--format", "npz"]),
                (2, "has no report", [self.path("a.npz"), "-o", header, "--json"]),
                (2, "is the name of a safetensors file", [self.path("a.npz"), "-o", self.path("net.safetensors")]),
                *[(2, "--c-header conflicts with " + option[0], [self.path("a.npz"), "-o", header, *option]) for option in (
                    ["--max-bytes", "1"], ["--min-ratio", "99"], ["--baseline", "none.json"], ["--must-fit", "T4"], ["--target-gpu", "T4"], ["--digest"],
                    ["--deflate"], ["--strip"], ["--shard", "1/2"], ["--drop", "optimizer"], ["--keep-names"], ["--no-vocab"])],
                (2, "24 is no power of two", [self.path("a.npz"), "-o", header, "--c-align", "24"]),
                (3, "C has no type for q8_0", [self.path("b.gguf"), "-o", header]),
                (3, "are not scale * (code - zero point)", [self.path("c.safetensors"), "-o", header]),
                (3, "not finite", [self.path("inf.npz"), "-o", header]),
                (4, "cannot open", [self.path("none.npz"), "-o", header])]:
            done = run("convert", "--c-header", *words)
            self.assertEqual(done.code, code, (words, done.err))
            self.assertIn(sentence, done.err)
            self.assertFalse(os.path.exists(header), words)
        self.assertFalse(os.path.exists(self.path("net.safetensors")))
        self.ok("convert", "--c-header", self.path("a.npz"), "-o", header, "--dry-run")
        self.assertFalse(os.path.exists(header))
        self.ok("convert", "--c-header", self.path("a.npz"), "-o", header)
        again = run("convert", "--c-header", self.path("a.npz"), "-o", header)
        self.assertEqual(again.code, 4)
        self.assertIn("exists; --force replaces it", again.err)
        self.assertEqual(run("convert", "--c-align", "8", self.path("a.npz"), "-o", self.path("x.npz")).code, 2)


if __name__ == "__main__":
    main()
