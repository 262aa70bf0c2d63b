"""test_safetensors.py - safetensors in and out, and between safetensors and NumPy's formats.

The judge is a reader of twenty lines (struct, json, NumPy) that insists on the rules of the format; where the
`safetensors` package can be imported, every output has to open with that as well and give the same arrays.
"""
import json
import os
import struct
import sys
import unittest

from judge_support import MANIFEST, SMALL, Judge, main, np, npy_bytes, read_bytes, run, sha, write_bytes, write_members
import definition as d
import weights

try:
    import safetensors
    import safetensors.numpy
except ImportError:
    safetensors = None
    print("no second judge: the package safetensors cannot be imported by %s" % sys.executable)

TYPES = {"BOOL": "?", "U8": "u1", "I8": "i1", "U16": "<u2", "I16": "<i2", "U32": "<u4", "I32": "<i4", "U64": "<u8",
         "I64": "<i8", "F16": "<f2", "BF16": "<u2", "F32": "<f4", "F64": "<f8", "C64": "<c8", "F8_E4M3": "u1",
         "F8_E5M2": "u1", "F8_E8M0": "u1", "F4": None, "F6_E2M3": None, "F6_E3M2": None}
STORED = {"f32": "F32", "f64": "F64", "f16": "F16", "bf16": "BF16"}


def no_twice(pairs):
    assert len(dict(pairs)) == len(pairs), "a key occurs twice"
    return dict(pairs)


def st_write(path, tensors, metadata=None, pad=0):
    """tensors: list of (name, dtype of the format, shape, bytes); the header's order is that of the list."""
    header, at = {}, 0
    if metadata is not None:
        header["__metadata__"] = metadata
    for name, dtype, shape, data in tensors:
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [at, at + len(data)]}
        at += len(data)
    text = json.dumps(header).encode() + b" " * pad
    write_bytes(path, struct.pack("<Q", len(text)) + text + b"".join(t[3] for t in tensors))


def st_arrays(path, arrays, dtype="f32", metadata=None):
    st_write(path, [(n, STORED[dtype], a.shape, a.tobytes()) for n, a in arrays.items()], metadata)


def st_read(path):
    """({name: (dtype, shape, bytes)} in the order of the data, metadata), after a look at every rule."""
    blob = read_bytes(path)
    n, = struct.unpack("<Q", blob[:8])
    assert n <= 100000000 and 8 + n <= len(blob)
    text, data = blob[8:8 + n], blob[8 + n:]
    assert text[:1] == b"{" and text == text.rstrip(b" ") + b" " * (n - len(text.rstrip(b" ")))
    header = json.loads(text.decode("utf-8"), object_pairs_hook=no_twice)
    metadata = header.pop("__metadata__", {})
    assert all(isinstance(v, str) for v in metadata.values())
    out, at = {}, 0
    for name, t in sorted(header.items(), key=lambda kv: kv[1]["data_offsets"]):
        begin, end = t["data_offsets"]
        assert begin == at <= end, name
        at = end
        out[name] = (t["dtype"], tuple(t["shape"]), data[begin:end])
    assert at == len(data), "bytes behind the last tensor"
    return out, metadata


class Safetensors(Judge):
    def st(self, path):
        """What st_read gives, for an output of ours: data at a multiple of 64, and the other judge agrees."""
        tensors, metadata = st_read(path)
        n, = struct.unpack("<Q", read_bytes(path)[:8])
        self.assertEqual((8 + n) % 64, 0)
        self.assertIn("format", metadata)
        if safetensors is not None:
            with safetensors.safe_open(path, framework="np") as f:
                self.assertEqual(f.metadata(), metadata)
                self.assertEqual(set(f.keys()), set(tensors))
                for name, (dtype, shape, data) in tensors.items():
                    self.assertEqual((f.get_slice(name).get_dtype(), tuple(f.get_slice(name).get_shape())),
                                     (dtype, shape))
                    if dtype != "BF16" and TYPES[dtype] and not dtype.startswith("F8"):
                        self.assertEqual(f.get_tensor(name).tobytes(), data, name)
        return tensors, metadata

    def arrays(self, path):
        tensors, metadata = self.st(path)
        return {n: np.frombuffer(b, TYPES[t]).reshape(s) for n, (t, s, b) in tensors.items()}, metadata

    def check_int8(self, out, arrays, dtype, granularity="channel", group=0, asymmetric=False, codes=".int8"):
        order = []
        for n, a in arrays.items():
            q, s, z, _ = d.int8(weights.value(a, dtype), granularity, 0, group, asymmetric)
            self.same_bits(out[n + codes], q, n)
            self.same_bits(out[n + ".scale"], s, n)
            order += [n + codes, n + ".scale"]
            if asymmetric:
                self.same_bits(out[n + ".zero_point"], z, n)
                order.append(n + ".zero_point")
        return order

    def test_int8(self):
        """Codes and scales of the definition, and those that an npz of the same weights gets."""
        for dtype in ("f32", "bf16", "f16", "f64"):
            for granularity, group, asymmetric in [("channel", 0, False), ("tensor", 0, True), ("group", 100, False)]:
                arrays = weights.model(dtype, spread_only=dtype == "bf16")
                st_arrays(self.path("in.safetensors"), arrays, dtype, {"format": "pt"})
                args = ["--granularity", "group:%d" % group if group else granularity]
                args += (["--asymmetric"] if asymmetric else []) + list(SMALL) + ["--force"]
                self.vc("quantize", "--int8", *args, self.path("in.safetensors"), "-o", self.path("q.safetensors"))
                out, metadata = self.arrays(self.path("q.safetensors"))
                order = self.check_int8(out, arrays, dtype, granularity, group, asymmetric)
                self.assertEqual(list(out), order)
                manifest = json.loads(metadata[MANIFEST], object_pairs_hook=no_twice)
                self.assertEqual(list(manifest["tensors"]), [n + ".int8" for n in arrays])
                self.assertEqual({t["source_dtype"] for t in manifest["tensors"].values()}, {dtype})
                # The same from an npz, and as an npz.
                self.vc("quantize", "--int8", *args, self.path("in.safetensors"), "-o", self.path("q.npz"))
                z = self.load(self.path("q.npz"))
                self.assertEqual(list(z), [n.replace(".int8", "") for n in order])
                for n in order:
                    self.same_bits(z[n.replace(".int8", "")], out[n], n)
                weights.save(self.path("in.npz"), arrays, dtype)
                void = ["--void-as", "bf16"] if dtype == "bf16" else []
                self.vc("quantize", "--int8", *args, *void, self.path("in.npz"), "-o", self.path("r.safetensors"))
                self.assertEqual(sha(self.path("r.safetensors")), sha(self.path("q.safetensors")))

    def test_casts(self):
        for dtype in ("f32", "f16", "bf16"):
            arrays = weights.model(dtype, spread_only=True)
            st_arrays(self.path("in.safetensors"), arrays, dtype)
            for option, target in [("--fp16", "f16"), ("--bf16", "bf16")]:
                if target != dtype:
                    self.vc("quantize", option, *SMALL, "--force", self.path("in.safetensors"), "-o",
                            self.path("out.safetensors"))
                    tensors, metadata = self.st(self.path("out.safetensors"))
                    self.assertEqual({t[0] for t in tensors.values()}, {STORED[target]})
                    self.assertEqual(metadata, {"format": "pt"})
                    for n, a in arrays.items():
                        want = d.cast(weights.value(a, dtype), target)
                        self.assertEqual(tensors[n][2], want.tobytes(), n)

    def test_dequantize(self):
        arrays = {"": weights.model("f32", spread_only=True).popitem()[1], **weights.model("f32", spread_only=True)}  # "" has codes called ".int8"
        st_arrays(self.path("in.safetensors"), arrays)
        for asymmetric in ([], ["--asymmetric"]):
            self.vc("quantize", "--int8", *SMALL, *asymmetric, "--force", self.path("in.safetensors"), "-o",
                    self.path("q.safetensors"))
            self.vc("dequantize", "--force", self.path("q.safetensors"), "-o", self.path("b.safetensors"))
            out, metadata = self.arrays(self.path("b.safetensors"))
            self.assertNotIn(MANIFEST, metadata)
            self.assertEqual(list(out), list(arrays))
            for n, a in arrays.items():
                q, s, z, _ = d.int8(a, "channel", 0, 0, bool(asymmetric))
                self.same_bits(out[n], d.int8_value(q, s, z, "channel"), n)

    def test_without_a_manifest(self):
        """The plain names are enough: another program may drop the metadata."""
        arrays = weights.model("f32", spread_only=True)
        st_arrays(self.path("in.safetensors"), arrays)
        self.vc("quantize", "--int8", *SMALL, self.path("in.safetensors"), "-o", self.path("q.safetensors"))
        tensors, _ = st_read(self.path("q.safetensors"))
        st_write(self.path("p.safetensors"), [(n,) + t for n, t in tensors.items()])
        for name in ("q", "p"):
            self.vc("dequantize", self.path(name + ".safetensors"), "-o", self.path(name + ".b.safetensors"))
        self.assertEqual(sha(self.path("q.b.safetensors")), sha(self.path("p.b.safetensors")))

    def everything(self):
        r = np.random.default_rng(5)
        tensors = [(t.lower(), t, (3, 5), r.integers(0, 256, 15 * np.dtype(c).itemsize, np.uint8).tobytes())
                   for t, c in TYPES.items() if c and t != "BOOL"]
        tensors += [("bool", "BOOL", (4,), b"\0\1\1\0"), ("f4", "F4", (2, 4), b"1234"), ("f6", "F6_E2M3", (4,), b"123"),
                    ("scalar", "F32", (), b"1234"), ("none", "F64", (0, 7), b""), ("a/b \u00e4\"\\\n", "I8", (1,), b"x"),
                    ("", "U8", (2,), b"yz")]
        return tensors

    def test_kept(self):
        """What is not worked on comes out bit for bit, with its type, whatever that is; so does the metadata."""
        tensors = self.everything()
        metadata = {"format": "np", "note \"x\"": "two\nlines \u00e4 \U0001f600", "empty": ""}
        st_write(self.path("in.safetensors"), tensors, metadata, pad=5)
        for extra in ([], ["--threads", "3"]):
            self.vc("quantize", "--int8", "--exclude", "*", "--force", *extra, self.path("in.safetensors"), "-o",
                    self.path("out.safetensors"))
            out, kept = st_read(self.path("out.safetensors"))
            self.assertEqual(kept, metadata)
            self.assertEqual(list(kept), list(metadata))
            self.assertEqual([(n,) + t for n, t in out.items()],
                             sorted(((n, t, tuple(s), b) for n, t, s, b in tensors), key=lambda t: list(out).index(t[0])))
            self.assertEqual(b"".join(t[2] for t in out.values()), b"".join(t[3] for t in tensors))

    def test_metadata(self):
        for metadata, want in [(None, {"format": "pt"}), ({}, {"format": "pt"}), ({"format": "mlx"}, {"format": "mlx"}),
                               ({"a": "b"}, {"a": "b", "format": "pt"})]:
            st_write(self.path("in.safetensors"), [("a", "F32", (1,), b"1234")], metadata)
            self.vc("quantize", "--fp16", "--force", self.path("in.safetensors"), "-o", self.path("out.safetensors"))
            self.assertEqual(self.st(self.path("out.safetensors"))[1], want)

    def test_to_numpy_and_back(self):
        """Everything that both can hold: the same bytes after a way through npz, and the right arrays there."""
        tensors = [t for t in self.everything() if t[0] and not t[1].startswith(("F8", "F6", "F4"))]
        st_write(self.path("in.safetensors"), tensors, {"format": "pt"})
        self.vc("quantize", "--int8", "--exclude", "*", self.path("in.safetensors"), "-o", self.path("out.npz"))
        z = self.load(self.path("out.npz"))
        for name, dtype, shape, data in tensors:
            self.same_bits(z[name], np.frombuffer(data, TYPES[dtype]).reshape(shape), name)
        self.vc("quantize", "--int8", "--exclude", "*", self.path("out.npz"), "-o", self.path("back.safetensors"))
        was = st_read(self.path("in.safetensors"))
        now = self.st(self.path("back.safetensors"))
        self.assertEqual(now, was)
        self.assertEqual(list(now[0]), list(was[0]))
        for extra in (["--deflate"], []):
            self.vc("quantize", "--int8", "--exclude", "*", "--force", *extra, self.path("in.safetensors"), "-o",
                    self.path("out.npz"))
            self.vc("quantize", "--int8", "--exclude", "*", "--force", self.path("out.npz"), "-o",
                    self.path("back2.safetensors"))
            self.assertEqual(sha(self.path("back2.safetensors")), sha(self.path("back.safetensors")), extra)

    def test_from_numpy(self):
        """Fortran order, big-endian, deflated: written in C order, little-endian."""
        a = np.asfortranarray(weights.normal("a", (700, 513)).astype(">f4"))
        arrays = {"a": a, "b": np.arange(6, dtype=">i8").reshape(2, 3), "c": np.array(True)}
        for save in (np.savez, np.savez_compressed):
            save(self.path("in.npz"), **arrays)
            self.vc("quantize", "--int8", "--exclude", "*", "--force", self.path("in.npz"), "-o",
                    self.path("out.safetensors"))
            out, _ = self.arrays(self.path("out.safetensors"))
            for n, x in arrays.items():
                self.same_bits(out[n], np.ascontiguousarray(x.astype(x.dtype.newbyteorder("<"))).reshape(x.shape), n)
        np.save(self.path("one.npy"), a)
        self.vc("quantize", "--int8", self.path("one.npy"), "-o", self.path("one.safetensors"))
        out, _ = self.arrays(self.path("one.safetensors"))
        self.check_int8(out, {"arr_0": a.astype("<f4")}, "f32")
        st_arrays(self.path("single.safetensors"), {"w": a.astype("<f4")})
        self.vc("quantize", "--fp16", self.path("single.safetensors"), "-o", self.path("single.npy"))
        self.same_bits(np.load(self.path("single.npy")), d.cast(np.ascontiguousarray(a.astype("<f4")), "f16"))

    def test_names(self):
        """The default name keeps the extension; pipes keep the format; other names need --format."""
        arrays = {"w": weights.normal("w", (64, 64)).astype("f4")}
        st_arrays(self.path("m.safetensors"), arrays)
        self.vc("quantize", "--int8", self.path("m.safetensors"))
        self.vc("quantize", "--int8", "--format", "safetensors", self.path("m.safetensors"), "-o",
                self.path("other.dat"))
        piped = run("quantize", "--int8", "-", "-o", "-", stdin=read_bytes(self.path("m.safetensors")))
        self.assertEqual(piped.code, 0, piped.err)
        self.assertEqual(sha(self.path("m.int8.safetensors")), sha(self.path("other.dat")))
        self.assertEqual(piped.out, read_bytes(self.path("other.dat")))
        self.no_strays("m.safetensors", "m.int8.safetensors", "other.dat")
        r = self.vc("quantize", "--int8", "--dry-run", "--json", self.path("m.safetensors")).json()
        self.assertEqual(r["totals"]["file"]["after"], os.path.getsize(self.path("other.dat")))

    def test_determinism(self):
        arrays = {n: weights.hard(n, s, 6e4).astype("f4")
                  for n, s in {"a": (300, 1000), "wide": (3, 262144 * 2 + 99), "tall": (5000, 64)}.items()}
        for k in range(40):
            arrays["small.%d" % k] = weights.normal("k%d" % k, (64, 65 + k)).astype("f4")
        st_arrays(self.path("in.safetensors"), arrays)
        np.savez_compressed(self.path("in.npz"), **arrays)
        for mode in (["--int8"], ["--int8", "--granularity", "tensor", "--asymmetric"], ["--fp16"]):
            want = None
            for source in ("in.safetensors", "in.npz"):
                for extra in (["--threads", "1"], ["--threads", "2"], ["--threads", "7"], ["--max-memory", "16MiB"]):
                    self.vc("quantize", *mode, *extra, "--force", self.path(source), "-o", self.path("o.safetensors"))
                    got = sha(self.path("o.safetensors"))
                    self.assertEqual(got, want or got, (mode, source, extra))
                    want = got

    def test_sizes_are_known(self):
        arrays = weights.model("f32", spread_only=True)
        st_arrays(self.path("in.safetensors"), arrays)
        self.vc("quantize", "--int8", *SMALL, self.path("in.safetensors"), "-o", self.path("q.safetensors"))
        size = os.path.getsize(self.path("q.safetensors"))
        for limit, code in ((size, 0), (size - 1, 1)):
            r = run("quantize", "--int8", *SMALL, "--dry-run", "--max-bytes", limit, self.path("in.safetensors"), "-o",
                    self.path("x.safetensors"))
            self.assertEqual(r.code, code, r.err)

    def test_refusals(self):
        """What the other format cannot hold is named; nothing is left behind."""
        arrays = {"w": np.ones((4, 4), "f4")}
        write_members(self.path("raw.npz"), [("w.npy", npy_bytes(arrays["w"])), ("notes.txt", b"text")])
        np.savez(self.path("c.npz"), c=np.ones(3, "c16"), w=arrays["w"])
        st_write(self.path("f8.safetensors"), [("eight", "F8_E4M3", (2,), b"12")])
        before = sorted(os.listdir(self.dir))
        out = self.path("out.safetensors")
        self.assertIn("notes.txt", self.refuse(3, "quantize", "--fp16", self.path("raw.npz"), "-o", out))
        self.assertIn(" c: ", self.refuse(3, "quantize", "--fp16", self.path("c.npz"), "-o", out))
        self.assertIn(" eight: ", self.refuse(3, "quantize", "--fp16", self.path("f8.safetensors"), "-o",
                                              self.path("out.npz")))
        said = self.refuse(2, "quantize", "--fp16", "--deflate", self.path("f8.safetensors"), "-o", out)
        self.assertIn("never compressed", said)
        self.no_strays(*before)

    def test_the_other_writer(self):
        """Files of the safetensors package are read."""
        if safetensors is None:
            self.skipTest("the package safetensors cannot be imported")
        arrays = weights.model("f32", spread_only=True)
        mixed = dict(arrays, i=np.arange(5), h=np.ones((3, 3), "f2"), b=np.array([True, False]), s=np.array(2.5))
        safetensors.numpy.save_file({n: np.ascontiguousarray(a) for n, a in mixed.items()},
                                    self.path("in.safetensors"), metadata={"k": "v"})
        self.vc("quantize", "--int8", *SMALL, "--include", "*", "--exclude", "h", self.path("in.safetensors"), "-o",
                self.path("q.safetensors"))
        out, metadata = self.arrays(self.path("q.safetensors"))
        self.assertEqual((metadata["k"], metadata["format"]), ("v", "pt"))
        self.check_int8(out, arrays, "f32")
        for n in ("i", "h", "b"):
            self.same_bits(out[n], mixed[n], n)


if __name__ == "__main__":
    main()
