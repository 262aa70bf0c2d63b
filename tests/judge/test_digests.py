"""test_digests.py - verify --sha256 against Python's hashlib over NumPy's bytes: one digest per tensor in every format.
"""
import hashlib
import sys

from judge_support import Judge, main, np, run
import weights


def digest(a):
    """Of the values in C order, little-endian."""
    return hashlib.sha256(np.ascontiguousarray(a.astype(a.dtype.newbyteorder("<"))).tobytes()).hexdigest()


def has_digests():
    return b"nettle" in run("--version").out


class Digests(Judge):
    def digests(self, name, *options):
        doc = self.vc("verify", "--sha256", "--json", *options, self.path(name)).json()
        self.assertTrue(doc["data"])
        return {t["name"]: t["sha256"] for t in doc["tensors"]}

    def arrays(self):
        r = np.random.default_rng(5)
        return {"a.weight": weights.normal("a", (700, 900)).astype("f4"), "b": r.standard_normal(37).astype("f4"),
                "h": r.standard_normal((3, 5, 7)).astype("f2"), "d": r.standard_normal((40, 2)),
                "i": r.integers(-9, 9, (4, 4)).astype("i4"), "one": np.float32(3).reshape(1), "q": np.arange(-8, 8, dtype="i1")}

    def test_every_format(self):
        arrays = self.arrays()
        want = {n: digest(a) for n, a in arrays.items()}
        np.savez(self.path("a.npz"), **arrays)
        np.savez_compressed(self.path("b.npz"), **arrays)
        np.savez(self.path("c.npz"), **{n: np.asfortranarray(a).astype(a.dtype.newbyteorder(">"))
                                        for n, a in arrays.items()})
        for name in ("d.safetensors", "e.gguf", "f.pt"):
            self.vc("convert", self.path("a.npz"), "-o", self.path(name))
        for name in ("a.npz", "b.npz", "c.npz", "d.safetensors", "e.gguf", "f.pt"):
            for options in ((), ("--threads", "1"), ("--threads", "3"), ("--max-memory", "16MiB")):
                found = self.digests(name, *options)
                self.assertEqual(found, want, name)

    def test_every_size(self):
        """Tiles and blocks of the hash end anywhere; a tensor without elements has the digest of nothing."""
        arrays = {"n%d" % n: np.arange(n, dtype="u1") for n in list(range(130)) + [262143, 262144, 262145, 600001]}
        arrays["empty"] = np.zeros((0, 3), "f4")
        np.savez(self.path("a.npz"), **arrays)
        self.assertEqual(self.digests("a.npz"), {n: digest(a) for n, a in arrays.items()})

    def test_text(self):
        """Lines as sha256sum writes them, in the file's order; a damaged tensor has none."""
        arrays = self.arrays()
        np.savez(self.path("a.npz"), **arrays)
        lines = self.vc("verify", "--sha256", self.path("a.npz")).out.decode().splitlines()
        self.assertEqual(lines[1:-1], ["  %s  %s" % (digest(a), n) for n, a in arrays.items()])
        with open(self.path("a.npz"), "r+b") as f:
            f.seek(100000)
            f.write(b"XXXX")
        r = run("verify", "--sha256", "--json", self.path("a.npz"))
        self.assertEqual(r.code, 1)
        found = {t["name"]: t["sha256"] for t in r.json()["tensors"]}
        self.assertIsNone(found.pop("a.weight"))
        self.assertEqual(found, {n: digest(a) for n, a in arrays.items() if n != "a.weight"})

    def test_packed(self):
        """Codes are digested one per byte, however the file packs them."""
        np.savez(self.path("a.npz"), **{"m.weight": weights.normal("m", (256, 514)).astype("f4")})
        self.vc("quantize", "--int8", self.path("a.npz"), "-o", self.path("q.npz"))
        self.vc("quantize", "--int8", "--layout", "compressed-tensors", self.path("a.npz"), "-o", self.path("q.safetensors"))
        with np.load(self.path("q.npz")) as z:
            codes = digest(z["m.weight"])
        self.assertEqual(self.digests("q.npz")["m.weight"], codes)
        found = self.digests("q.safetensors")
        self.assertIn(codes, found.values(), found.keys())


if not has_digests():
    print("SKIPPED: this build has no SHA-256 (nettle)")
    sys.exit(77)
if __name__ == "__main__":
    main()
