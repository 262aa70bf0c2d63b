"""test_convert.py - vcompress convert and --emit: what other readers find in the files is what was there, bit for bit.

NumPy reads npz; safetensors files are read by the rules of the format (test_safetensors.st_read), and by the
`safetensors` package where that can be imported.
"""
import zipfile

from judge_support import SMALL, Judge, main, np, npy_bytes, read_bytes, sha, write_members
from test_safetensors import st_read, st_write
import test_safetensors
import weights

KINDS = ("?", "u1", "i1", "<u2", "<i2", "<u4", "<i4", "<u8", "<i8", "<f2", "<f4", "<f8", "<c8")


def arrays():
    r = np.random.default_rng(11)
    out = {}
    for k in KINDS:
        for shape in ((), (0, 3), (7,), (3, 5, 2), (300, 1111)):
            n = int(np.prod(shape, dtype=int)) * np.dtype(k).itemsize
            data = r.integers(0, 2 if k == "?" else 256, n, np.uint8).tobytes()  # NaNs with payloads among them
            out["%s.%s" % (np.dtype(k).name, "x".join(map(str, shape)))] = np.frombuffer(data, k).reshape(shape)
    return out


class Convert(Judge):
    st = test_safetensors.Safetensors.st
    arrays = test_safetensors.Safetensors.arrays

    def same_arrays(self, found, want):
        self.assertEqual(list(found), list(want))
        for n, a in want.items():
            self.same_bits(found[n], a, n)

    def test_npz_to_safetensors_and_back(self):
        want = arrays()
        for save in (np.savez, np.savez_compressed):
            save(self.path("in.npz"), **want)
            for extra in ([], ["--threads", "3"], ["--max-memory", "16MiB"]):
                self.vc("convert", "--force", *extra, self.path("in.npz"), "-o", self.path("a.safetensors"))
                found, metadata = self.arrays(self.path("a.safetensors"))
                self.same_arrays(found, want)
                self.assertEqual(metadata, {"format": "pt"})
                self.vc("convert", "--force", *extra, self.path("a.safetensors"), "-o", self.path("b.npz"))
                self.same_arrays(self.load(self.path("b.npz")), want)

    def test_npz_to_npz(self):
        """Members are copied with their own headers; only their compression and their places change."""
        a = np.asfortranarray(np.arange(12, dtype=">f4").reshape(3, 4))
        write_members(self.path("in.npz"), [("a.npy", npy_bytes(a)), ("notes", b"no array"),
                                            ("b", npy_bytes(np.arange(3), (2, 0)))])
        self.vc("convert", self.path("in.npz"), "-o", self.path("small.npz"), "--deflate")
        self.vc("convert", self.path("small.npz"), "-o", self.path("out.npz"))
        for name in ("small.npz", "out.npz"):
            with zipfile.ZipFile(self.path(name)) as z, zipfile.ZipFile(self.path("in.npz")) as was:
                self.assertEqual(z.namelist(), was.namelist())
                for n in was.namelist():
                    self.assertEqual(z.read(n), was.read(n), n)

    def test_quantized(self):
        """Codes, scales and what the manifest says of them arrive in the other format."""
        weights.save(self.path("in.npz"), weights.model("f32", spread_only=True), "f32")
        for args in (["--asymmetric"], ["--granularity", "group:100"], ["--granularity", "tensor"]):
            self.vc("quantize", "--int8", *SMALL, *args, "--force", self.path("in.npz"), "-o", self.path("q.npz"),
                    "--emit", self.path("q.safetensors"))
            self.vc("convert", "--force", self.path("q.npz"), "-o", self.path("c.safetensors"))
            self.assertEqual(sha(self.path("c.safetensors")), sha(self.path("q.safetensors")))
            self.vc("convert", "--force", self.path("c.safetensors"), "-o", self.path("c.npz"))
            self.same_arrays(self.load(self.path("c.npz")), self.load(self.path("q.npz")))
            self.assertEqual(self.manifest(self.path("c.npz")), self.manifest(self.path("q.npz")))

    def test_bf16(self):
        st_write(self.path("in.safetensors"), [("h", "BF16", (2, 3), bytes(range(12)))])
        self.vc("convert", self.path("in.safetensors"), "-o", self.path("a.npz"))
        self.same_bits(self.load(self.path("a.npz"))["h"], np.frombuffer(bytes(range(12)), "<u2").reshape(2, 3))
        self.vc("convert", self.path("a.npz"), "-o", self.path("b.safetensors"))
        self.assertEqual(st_read(self.path("b.safetensors"))[0], st_read(self.path("in.safetensors"))[0])

    def test_refusals(self):
        """All that cannot be held is named at once, before a byte of the values is read."""
        tensors = [("w%d" % k, "F8_E4M3" if k % 2 else "F32", (1000,), bytes(1000 * (1 if k % 2 else 4)))
                   for k in range(8)]
        st_write(self.path("in.safetensors"), tensors)
        said = self.refuse(3, "convert", self.path("in.safetensors"), "-o", self.path("out.npz"))
        self.assertIn(" w1: npz cannot hold elements of type f8_e4m3; and so for 3 more: w3 (f8_e4m3), w5 ", said)
        self.no_strays("in.safetensors")

    def test_emit(self):
        """Each file of one run is what a run of its own writes."""
        st_write(self.path("in.safetensors"),
                 [(n, "F32", a.shape, a.tobytes()) for n, a in weights.model("f32", spread_only=True).items()],
                 {"format": "pt", "a": "b"})
        source = self.path("in.safetensors")
        for args in (["quantize", "--int8", *SMALL], ["quantize", "--bf16", *SMALL], ["convert"],
                     ["quantize", "--int8", "--granularity", "tensor", *SMALL]):
            for extra in (["--threads", "1"], ["--threads", "4"]):
                self.vc(*args, *extra, "--force", source, "-o", self.path("a.npz"), "--emit",
                        "%s,%s" % (self.path("b.safetensors"), self.path("c.npz")))
                self.vc(*args, "--force", source, "-o", self.path("one.npz"))
                self.vc(*args, "--force", source, "-o", self.path("one.safetensors"))
                for name, like in (("a.npz", "one.npz"), ("b.safetensors", "one.safetensors"), ("c.npz", "one.npz")):
                    self.assertEqual(sha(self.path(name)), sha(self.path(like)), (args, extra, name))
        self.vc("quantize", "--int8", *SMALL, "--deflate", "--force", source, "-o", self.path("a.npz"), "--emit",
                self.path("c.npz"))
        self.assertEqual(read_bytes(self.path("a.npz")), read_bytes(self.path("c.npz")))
        self.check_archive(self.path("a.npz"), deflated=True)


if __name__ == "__main__":
    main()
