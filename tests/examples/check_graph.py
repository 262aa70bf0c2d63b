#!/usr/bin/env python3
"""check_graph.py VCOMPRESS EXAMPLES FOLDER - the digits network, computed from its list of layers, gets as many test images
right as examples/digits/README.md says, in f32 and in f64, and int8 weights do as well as evaluate.c finds."""
import os
import struct
import subprocess
import sys
import zipfile


def load(path, name):
    """(shape, numbers) of an array of an npz."""
    with zipfile.ZipFile(path) as z:
        data = z.read(name + ".npy")
    n = struct.unpack("<H", data[8:10])[0]
    head = eval(data[10:10 + n])
    kind = {"<f4": "f", "<f8": "d", "|u1": "B"}[head["descr"]]
    values = data[10 + n:]
    return head["shape"], struct.unpack("<%d%s" % (len(values) // struct.calcsize(kind), kind), values)


def right(program, digits, weights, precision, out):
    subprocess.check_call([program, "graph", "-q", "--weights", weights, "--data", digits + "/images.npz", "--outputs", out,
                           "--force", "--precision", precision, digits + "/digits.layers.txt"])
    (n, classes), logits = load(out, "fc2")
    labels = load(digits + "/images.npz", "test_labels")[1]
    rows = [logits[i * classes:(i + 1) * classes] for i in range(n)]
    return sum(max(range(classes), key=row.__getitem__) == label for row, label in zip(rows, labels)), n


def main():
    program, examples, folder = sys.argv[1:4]
    digits = os.path.join(examples, "digits")
    out = os.path.join(folder, "graph_outputs.npz")
    int8 = os.path.join(folder, "graph_int8.npz")
    subprocess.check_call([program, "quantize", "--int8", "-q", "--force", digits + "/digits.npz", "-o", int8])
    failed = 0
    for weights, precision, wanted in [(digits + "/digits.npz", "f32", 988), (digits + "/digits.npz", "f64", 988),
                                       (int8, "f32", 988)]:
        n, all_of_them = right(program, digits, weights, precision, out)
        print("%s, %s: %d of %d" % (os.path.basename(weights), precision, n, all_of_them))
        failed |= (n, all_of_them) != (wanted, 997)
    os.unlink(out)
    os.unlink(int8)
    return failed


sys.exit(main())
