"""test_npz_reading.py - what NumPy and Python's zipfile write is read; what is not worked on stays bit-exact.

Every archive here goes through `quantize` twice: once with everything excluded (members must come out byte for byte)
and once with everything quantized (codes must be those of the definition).
"""
import io
import unittest
import zipfile

from judge_support import (MANIFEST, SMALL, Judge, main, member_bytes, np, npy_bytes, read_bytes, write_bytes,
                           write_members)
import definition as d
import weights


class Unseekable(io.RawIOBase):
    """A file that cannot seek, so that zipfile has to write data descriptors."""

    def __init__(self, path):
        self.f = open(path, "wb")

    def writable(self):
        return True

    def write(self, data):
        return self.f.write(data)

    def close(self):
        self.f.close()
        super().close()


class Reading(Judge):
    def both_ways(self, source, arrays, others=(), name="in.npz"):
        """arrays: {tensor: array it must be read as}; others: members that are no arrays."""
        path = self.path(name)
        before = read_bytes(path)
        self.vc("quantize", "--int8", "--exclude", "*", "--force", path, "-o", self.path("kept.npz"))
        was = member_bytes(path)
        kept = member_bytes(self.path("kept.npz"))
        kept.pop(MANIFEST, None)
        self.assertEqual(list(kept), list(was), source + ": members and their order")
        self.assertEqual(kept, was, source)
        self.check_archive(self.path("kept.npz"))
        self.vc("quantize", "--int8", *SMALL, "--force", path, "-o", self.path("out.npz"))
        z = self.load(self.path("out.npz"))
        changed = 0
        for n, a in arrays.items():
            if a.dtype.kind == "f" and a.ndim > 1 and a.size:
                q, s, _, _ = d.int8(a)
                self.same_bits(z[n], q, source + ": " + n)
                self.same_bits(z[n + ".scale"], s, source + ": " + n + ".scale")
                changed += 1
            elif a.dtype.kind != "f":
                self.assertEqual(z[n].dtype, a.dtype, source + ": " + n)
                np.testing.assert_array_equal(z[n], a)
        members = member_bytes(self.path("out.npz"))
        for n in others:
            self.assertEqual(members[n], was[n], source + ": " + n)
        self.assertEqual(read_bytes(path), before, "the input was changed")
        return changed

    def some(self):
        return {"a.weight": weights.hard("a", (40, 50), 3e38).astype("f4"), "a.bias": np.arange(40, dtype="f4"),
                "b/c": weights.normal("bc", (33, 300)).astype("f8"), "n": np.int64(7) * np.ones((), "i8"),
                "mask": np.array([[True, False]] * 40), "e": np.zeros((0, 64), "f4"), "i": np.arange(6).reshape(2, 3)}

    def test_savez(self):
        np.savez(self.path("in.npz"), **self.some())
        self.assertEqual(self.both_ways("savez", self.some()), 2)

    def test_savez_compressed(self):
        np.savez_compressed(self.path("in.npz"), **self.some())
        self.both_ways("savez_compressed", self.some())

    def test_positional_arrays(self):
        x = weights.normal("x", (64, 64)).astype("f4")
        np.savez(self.path("in.npz"), x, 2 * x)
        self.assertEqual(self.both_ways("positional", {"arr_0": x, "arr_1": 2 * x}), 2)

    def members(self):
        return [(n + ".npy", npy_bytes(a)) for n, a in self.some().items()]

    def test_forced_zip64(self):
        for method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            write_members(self.path("in.npz"), self.members(), method, force_zip64=True)
            self.both_ways("zip64", self.some())

    def test_data_descriptors(self):
        """Written to a stream that cannot seek: sizes only after the data, stored and deflated, plain and zip64."""
        for method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            for zip64 in (False, True):
                with Unseekable(self.path("in.npz")) as f, zipfile.ZipFile(f, "w", method) as z:
                    for n, data in self.members():
                        with z.open(n, "w", force_zip64=zip64) as m:
                            m.write(data)
                with zipfile.ZipFile(self.path("in.npz")) as z:
                    self.assertTrue(all(i.flag_bits & 8 for i in z.infolist()))
                self.both_ways("descriptors", self.some())

    def test_deflate_levels(self):
        for level in (0, 1, 9):
            with zipfile.ZipFile(self.path("in.npz"), "w", zipfile.ZIP_DEFLATED, compresslevel=level) as z:
                for n, data in self.members():
                    z.writestr(n, data)
            self.both_ways("level %d" % level, self.some())

    def test_stored_and_deflated_mixed(self):
        with zipfile.ZipFile(self.path("in.npz"), "w") as z:
            for k, (n, data) in enumerate(self.members()):
                z.writestr(n, data, zipfile.ZIP_DEFLATED if k % 2 else zipfile.ZIP_STORED)
        self.both_ways("mixed", self.some())

    def test_npy_versions(self):
        x = weights.normal("x", (64, 64)).astype("f4")
        write_members(self.path("in.npz"), [("v%d.npy" % v, npy_bytes(x * v, (v, 0))) for v in (1, 2, 3)])
        self.assertEqual(self.both_ways("versions", {"v%d" % v: x * v for v in (1, 2, 3)}), 3)

    def test_fortran_order(self):
        """Column-major arrays of 2, 3 and 4 dimensions, some longer than a tile: codes come out in C order."""
        arrays = {}
        for shape in [(37, 53), (7, 11, 13), (6, 5, 3, 4), (3, 300001), (300001, 3), (1000, 700)]:
            arrays["x".join(map(str, shape))] = np.asfortranarray(weights.hard(str(shape), shape, 3e38).astype("f4"))
        arrays["f8"] = np.asfortranarray(weights.normal("f8", (50, 60)))
        arrays["f2"] = np.asfortranarray(weights.normal("f2", (50, 60)).astype("f2"))
        arrays["i4"] = np.asfortranarray(np.arange(12, dtype="i4").reshape(3, 4))
        for save in (np.savez, np.savez_compressed):
            save(self.path("in.npz"), **arrays)
            self.assertEqual(self.both_ways("fortran", arrays), 8)

    def test_big_endian(self):
        x = weights.hard("be", (300, 1000), 6e4)
        arrays = {t: weights.stored(x, n).astype(">" + t) for t, n in [("f2", "f16"), ("f4", "f32"), ("f8", "f64")]}
        arrays["fortran"] = np.asfortranarray(weights.normal("q", (30, 40)).astype(">f4"))
        arrays["i8"] = np.arange(10, dtype=">i8")
        for save in (np.savez, np.savez_compressed):
            save(self.path("in.npz"), **arrays)
            self.assertEqual(self.both_ways("big-endian", arrays), 4)

    def test_casts_of_odd_layouts(self):
        arrays = {"f": np.asfortranarray(weights.normal("f", (123, 77)).astype("f4")),
                  "b": weights.normal("b", (123, 77)).astype(">f8"),
                  "both": np.asfortranarray(weights.normal("fb", (20, 30, 40)).astype(">f4"))}
        np.savez(self.path("in.npz"), **arrays)
        for option, target in [("--fp16", "f16"), ("--bf16", "bf16")]:
            self.vc("quantize", option, *SMALL, self.path("in.npz"), "-o", self.path(target + ".npz"))
            z = self.load(self.path(target + ".npz"))
            for n, a in arrays.items():
                want = d.cast(a.astype(a.dtype.newbyteorder("<")), target)
                self.same_bits(np.ascontiguousarray(z[n]), np.ascontiguousarray(want), n)

    def test_every_dtype_is_kept(self):
        kinds = ["?", "i1", "u1", "<i2", ">u2", "<i4", "<u4", "<i8", ">u8", "<f2", "<f4", ">f8", "<c8", "<c16", "V1",
                 "V2"]
        arrays = {"t%d" % k: np.zeros((3, 4), t) for k, t in enumerate(kinds)}
        np.savez(self.path("in.npz"), **arrays)
        self.vc("quantize", "--int8", self.path("in.npz"), "-o", self.path("out.npz"))
        self.assertEqual({n: b for n, b in member_bytes(self.path("out.npz")).items() if n != MANIFEST},
                         member_bytes(self.path("in.npz")))

    def test_empty_and_scalar(self):
        arrays = {"zero.%d" % k: np.zeros(s, t) for k, (s, t) in enumerate(
            [((0,), "f4"), ((0, 5000), "f4"), ((5000, 0), "f8"), ((3, 0, 64), "f2"), ((), "f4"), ((), "f8"), ((), "i8"),
             ((1,), "f4"), ((1, 1), "f4"), ((1, 1, 1, 1), "f4")])}
        np.savez(self.path("in.npz"), **arrays)
        self.both_ways("empty", {})
        for target in ("--int8", "--fp16", "--bf16"):
            self.vc("quantize", target, *SMALL, "--force", self.path("in.npz"), "-o", self.path("out.npz"))
            z = self.load(self.path("out.npz"))
            for n, a in arrays.items():
                self.assertEqual(z[n].shape, a.shape, n + " " + target)

    def test_names(self):
        names = ["a/b/c.weight", "\u00fcber/\u5c64.0", "with blank", "dots..in...it", "x" * 900, "-dash", "%s%n",
                 "a\\b", "quote'\"", "[0]", "*", "emoji\U0001f600", "scale", "x.npy"]
        x = weights.normal("x", (64, 64)).astype("f4")
        write_members(self.path("in.npz"), [(n + ".npy", npy_bytes(x * (k + 1))) for k, n in enumerate(names)])
        self.assertEqual(self.both_ways("names", {n: x * np.float32(k + 1) for k, n in enumerate(names)}), len(names))

    def test_names_that_readers_differ_about(self):
        """Beyond ASCII, NumPy goes by flag bit 11: with it the name is the same everywhere, without it we refuse."""
        x = weights.normal("x", (64, 64)).astype("f4")
        write_members(self.path("in.npz"), [("\u00fc.npy", npy_bytes(x))])
        with np.load(self.path("in.npz")) as z:
            self.assertEqual(z.files, ["\u00fc"])
        self.both_ways("flagged", {"\u00fc": x})
        data = bytearray(read_bytes(self.path("in.npz")))
        for signature, at in ((b"PK\3\4", 6), (b"PK\1\2", 8)):
            data[data.index(signature) + at + 1] &= ~8
        write_bytes(self.path("in.npz"), bytes(data))
        with np.load(self.path("in.npz")) as z:
            self.assertNotEqual(z.files, ["\u00fc"])
        line = self.refuse(3, "quantize", "--int8", self.path("in.npz"), "-o", self.path("out.npz"), "--force")
        for word in ("in.npz", "\u00fc.npy", "UTF-8", "CP437"):
            self.assertIn(word, line)

    def test_thousands_of_members(self):
        arrays = {"m%d" % k: np.full((2, 3), k, "f4") for k in range(3000)}
        np.savez(self.path("in.npz"), **arrays)
        self.both_ways("3000 members", {})
        z = self.load(self.path("kept.npz"))
        self.assertEqual(list(z), list(arrays))

    def test_members_that_are_no_arrays(self):
        x = weights.normal("x", (64, 64)).astype("f4")
        others = [("README.txt", b"hello\n"), ("empty", b""), ("meta/config.json", b"{}"),
                  ("bytes.bin", bytes(range(256)))]
        for method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            write_members(self.path("in.npz"), others[:2] + [("x.npy", npy_bytes(x))] + others[2:], method)
            self.assertEqual(self.both_ways("others", {"x": x}, [n for n, _ in others]), 1)

    def test_archive_comment_and_prefix(self):
        x = weights.normal("x", (64, 64)).astype("f4")
        write_members(self.path("in.npz"), [("x.npy", npy_bytes(x))], comment=b"made by hand " * 3)
        self.both_ways("comment", {"x": x})

    def test_empty_archive(self):
        write_members(self.path("in.npz"), [])
        self.vc("quantize", "--int8", self.path("in.npz"), "-o", self.path("out.npz"))
        self.assertEqual(member_bytes(self.path("out.npz")), {})

    def test_long_header_and_many_dimensions(self):
        x = weights.normal("x", (4096,)).astype("f4").reshape((2,) * 12)
        write_members(self.path("in.npz"), [("x.npy", npy_bytes(x))])
        self.assertEqual(self.both_ways("12 dimensions", {"x": x}), 1)
        y = np.zeros((1,) * 30 + (2, 3), "f4")  # one row of many dimensions is a vector, and kept
        write_members(self.path("in.npz"), [("y.npy", npy_bytes(y))])
        self.both_ways("32 dimensions", {"y": y})

    def test_array_of_python_2(self):
        """Shapes with the suffix of long integers, and a header padded to 16 as NumPy did before 1.14."""
        head = b"{'descr': '<f4', 'fortran_order': False, 'shape': (64L, 64L), }"
        head += b" " * (-(10 + len(head) + 1) % 16) + b"\n"
        x = weights.normal("x", (64, 64)).astype("f4")
        data = b"\x93NUMPY\1\0" + len(head).to_bytes(2, "little") + head + x.tobytes()
        write_members(self.path("in.npz"), [("x.npy", data)])
        self.assertEqual(self.both_ways("Python 2", {"x": x}), 1)

    def test_values_at_the_edges(self):
        """-0, denormals and the largest values in one archive; zeros stay zeros."""
        x = weights.hard("edges", (64, 128), float(np.finfo("f4").max)).astype("f4")
        np.savez(self.path("in.npz"), x=x)
        self.both_ways("edges", {"x": x})


class SingleArray(Judge):
    def test_npy_to_npz(self):
        """An npy file is one tensor named arr_0; its int8 form needs an archive."""
        for x in (weights.normal("x", (64, 100)).astype("f4"), np.asfortranarray(weights.normal("x", (64, 100))),
                  weights.normal("x", (2, 262144 + 9)).astype(">f4")):
            np.save(self.path("in.npy"), x)
            self.vc("quantize", "--int8", "--min-elements", "1", "--force", self.path("in.npy"))
            z = self.load(self.path("in.int8.npz"))
            q, s, _, _ = d.int8(x)
            self.same_bits(z["arr_0"], q)
            self.same_bits(z["arr_0.scale"], s)
        line = self.refuse(2, "quantize", "--int8", self.path("in.npy"), "-o", self.path("out.npy"))
        self.assertIn("out.npy", line)

    def test_npy_stays_npy(self):
        x = weights.normal("x", (64, 100)).astype("f4")
        np.save(self.path("in.npy"), x)
        self.vc("quantize", "--fp16", self.path("in.npy"))
        self.same_bits(np.load(self.path("in.fp16.npy")), x.astype("f2"))
        self.vc("dequantize", "--casts", self.path("in.fp16.npy"))
        self.same_bits(np.load(self.path("in.fp16.f32.npy")), x.astype("f2").astype("f4"))

    def test_npy_versions_and_orders(self):
        x = weights.normal("x", (70, 80)).astype("f4")
        for v in (1, 2, 3):
            write_bytes(self.path("in.npy"), npy_bytes(x, (v, 0)))
            self.vc("quantize", "--fp16", "--force", self.path("in.npy"), "-o", self.path("out.npy"))
            self.same_bits(np.load(self.path("out.npy")), x.astype("f2"))

    def test_default_names(self):
        np.savez(self.path("model.npz"), x=weights.normal("x", (64, 100)).astype("f4"))
        for option, name in [("--int8", "model.int8.npz"), ("--fp16", "model.fp16.npz"), ("--bf16", "model.bf16.npz")]:
            self.vc("quantize", option, self.path("model.npz"))
            self.load(self.path(name))
        self.vc("dequantize", self.path("model.int8.npz"))
        self.load(self.path("model.int8.f32.npz"))
        self.vc("dequantize", "--source-dtype", self.path("model.int8.npz"))
        self.load(self.path("model.int8.source.npz"))

    def test_large_member_numbers(self):
        """More than 65,535 members need the zip64 end record, read and written."""
        with zipfile.ZipFile(self.path("in.npz"), "w") as z:
            data = npy_bytes(np.zeros((), "f4"))
            for k in range(65600):
                z.writestr("t%d.npy" % k, data)
        self.vc("quantize", "--int8", self.path("in.npz"), "-o", self.path("out.npz"))
        with zipfile.ZipFile(self.path("out.npz")) as z:
            self.assertEqual(len([n for n in z.namelist() if n != MANIFEST]), 65600)


if __name__ == "__main__":
    main()
