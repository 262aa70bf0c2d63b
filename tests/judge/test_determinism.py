"""test_determinism.py - the output depends on input and options alone.

The same bytes with any number of threads, on every CPU level this machine has, within every --max-memory that works,
to a file and to a pipe, from a file and from a pipe, and with the emulated CUDA plug-in where the build has one
($VCOMPRESS_BACKEND_PATH, or vcompress_cuda_emu.so below the build folder $VCOMPRESS_BUILD_DIR).
"""
import os
import platform
import unittest
import zipfile

from judge_support import Judge, main, np, read_bytes, run, sha
import definition as d
import weights

MODES = [["--int8"], ["--int8", "--asymmetric"], ["--int8", "--granularity", "tensor"],
         ["--int8", "--granularity", "group:100", "--asymmetric"], ["--int8", "--axis", "-1", "--min-row", "2"],
         ["--fp16"], ["--bf16"]]


def cpu_levels():
    """Levels beside `ref` and `base`, from what the kernel says about the processor."""
    levels = ["ref", "base"]
    if platform.machine() == "aarch64":
        return levels + ["neon"]
    try:
        with open("/proc/cpuinfo") as f:
            flags = set(next(line for line in f if line.startswith("flags")).split())
    except (OSError, StopIteration):
        return levels
    if {"avx2", "f16c", "fma", "bmi1", "bmi2"} <= flags:
        levels.append("avx2")
        if {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"} <= flags:
            levels.append("avx512")
    return levels


def emulated_plugin():
    path = os.environ.get("VCOMPRESS_BACKEND_PATH", "")
    if path:
        return path if os.path.exists(path) else None
    for folder, _, files in os.walk(os.environ.get("VCOMPRESS_BUILD_DIR", "")):
        if "vcompress_cuda_emu.so" in files:
            return os.path.join(folder, "vcompress_cuda_emu.so")
    return None


class Determinism(Judge):
    def setUp(self):
        super().setUp()
        shapes = {"a": (300, 1000), "conv": (64, 32, 3, 3), "wide": (2, 262144 + 99), "bias": (512,),
                  "tall": (5000, 20), "f": (300, 400)}
        arrays = {n: weights.hard(n, s, 6e4).astype("f4") if len(s) > 1 else np.ones(s, "f4")
                  for n, s in shapes.items()}
        arrays["f"] = np.asfortranarray(arrays["f"])
        arrays["h"] = weights.normal("h", (300, 500)).astype("f2")
        arrays["d"] = weights.normal("d", (200, 300)).astype(">f8")
        for k in range(40):
            arrays["small.%d" % k] = weights.normal("k%d" % k, (64, 65 + k)).astype("f4")
        np.savez(self.path("in.npz"), **arrays)
        np.savez_compressed(self.path("in.z.npz"), **arrays)

    def output(self, mode, *extra, source="in.npz", env=None):
        """Checksum of the output file and the report without what may differ."""
        r = self.vc("quantize", *mode, *extra, "--diffable", "--json", "--force", self.path(source), "-o",
                    self.path("out.npz"), env=env)
        return sha(self.path("out.npz")), r.out

    def test_threads(self):
        for mode in MODES:
            for source in ("in.npz", "in.z.npz"):
                want = self.output(mode, "--threads", "1", source=source)
                for n in (2, 3, 7):
                    self.assertEqual(self.output(mode, "--threads", n, source=source), want, (mode, n, source))

    def test_deflated_input_gives_the_same_file(self):
        for mode in MODES:
            self.assertEqual(self.output(mode)[0], self.output(mode, source="in.z.npz")[0], mode)

    def test_cpu_levels(self):
        for mode in MODES:
            want = self.output(mode, "--cpu-mask", "ref")
            for level in cpu_levels()[1:] + ["all"]:
                self.assertEqual(self.output(mode, "--cpu-mask", level), want, (mode, level))

    def test_cpu_level_from_the_environment(self):
        want = self.output(MODES[1])
        for level in cpu_levels():
            self.assertEqual(self.output(MODES[1], env={"VC_CPU_MASK": level}), want, level)
        self.refuse(2, "quantize", "--int8", self.path("in.npz"), env={"VC_CPU_MASK": "sse9"})

    def smallest_memory(self, mode, source):
        """About the smallest limit that works; below it the program says so and leaves nothing."""
        low, high = 1 << 16, 1 << 27
        while high > low + low // 25:
            middle = int((low * high) ** 0.5)
            if os.path.exists(self.path("out.npz")):
                os.unlink(self.path("out.npz"))
            r = run("quantize", *mode, "--max-memory", middle, self.path(source), "-o", self.path("out.npz"))
            if r.code == 0:
                high = middle
            else:
                self.assertEqual((r.code, r.err.count("\n")), (4, 1), r.err)
                self.assertFalse(os.path.exists(self.path("out.npz")))
                low = middle
        return high

    def test_memory_limits(self):
        for mode in MODES:
            for source in ("in.npz", "in.z.npz"):
                want = self.output(mode, source=source)
                smallest = self.smallest_memory(mode, source)
                self.assertLess(smallest, 32 << 20, mode)
                for limit, threads in ((smallest, 1), (smallest, 4), (smallest * 5 // 4, 4), (smallest * 2, 3),
                                       (smallest * 5, 7), ("1GiB", 2)):
                    got = self.output(mode, "--max-memory", limit, "--threads", threads, source=source)
                    self.assertEqual(got, want, (mode, limit, source))

    def test_deflated_output(self):
        """The stream is the same with 1 and N threads and under a small limit, and holds the same tensors."""
        for mode in MODES:
            stored = self.output(mode)[0]
            self.assertTrue(stored)
            plain = {n: a.tobytes() for n, a in self.load(self.path("out.npz")).items()}
            want = self.output(mode, "--deflate", "--threads", "1")
            self.check_archive(self.path("out.npz"), deflated=True)
            with np.load(self.path("out.npz")) as z:
                self.assertEqual({n: z[n].tobytes() for n in z.files if n in plain}, plain)
            self.assertEqual(self.output(mode, "--deflate", "--threads", 5), want, mode)
        mode = MODES[3] + ["--deflate"]
        want = self.output(mode)
        self.assertEqual(self.output(mode, "--max-memory", self.smallest_memory(mode, "in.npz")), want)
        want = self.output(MODES[0], "--deflate", source="in.z.npz")
        self.assertEqual(self.output(MODES[0], "--deflate")[0], want[0])

    def test_isal_output(self):
        r = run("quantize", "--int8", "--deflate=isal", self.path("in.npz"), "-o", self.path("out.npz"))
        if r.code != 0:
            self.assertEqual((r.code, r.err.count("\n")), (3, 1), r.err)
            self.skipTest("this build has no ISA-L")
        want = self.output(MODES[0], "--deflate=isal", "--threads", "1")
        self.check_archive(self.path("out.npz"), deflated=True)
        for n in (2, 5):
            self.assertEqual(self.output(MODES[0], "--deflate=isal", "--threads", n), want)

    def test_encoder_that_suits(self):
        """Plain --deflate takes ISA-L where it is as small, zlib where that is smaller, for each tensor by itself."""
        r = np.random.default_rng(8)
        dense = r.standard_normal((512, 1024)).astype("f4")
        half = np.where(r.random((512, 1024)) < 0.5, np.float32(0), dense)  # Huffman codes alone are the smallest
        runs = np.where(r.random((512, 1024)) < 0.95, np.float32(0), dense)
        np.savez(self.path("in.npz"), dense=dense, half=half, runs=runs)
        sizes = {}
        for how in ("", "=auto", "=zlib", "=isal"):
            done = run("quantize", "--int8", "--deflate" + how, "--force", self.path("in.npz"), "-o",
                       self.path("out.npz"))
            if how == "=isal" and done.code == 3:
                sizes[how] = sizes["=zlib"]
                continue
            self.assertEqual((done.code, done.err), (0, ""), how)
            with zipfile.ZipFile(self.path("out.npz")) as z:
                sizes[how] = {i.filename: i.compress_size for i in z.infolist()}
            with np.load(self.path("out.npz")) as z:
                for n, x in (("dense", dense), ("half", half), ("runs", runs)):
                    self.assertEqual(z[n].tobytes(), d.int8(x)[0].tobytes())
        auto, zlib, isal = sizes["=auto"], sizes["=zlib"], sizes["=isal"]
        self.assertEqual(sizes[""], auto)
        for n in ("half.npy", "runs.npy"):
            self.assertEqual(auto[n], zlib[n], n)
        self.assertEqual(auto["dense.npy"], isal["dense.npy"])
        self.assertLessEqual(sum(auto.values()), 1.005 * min(sum(zlib.values()), sum(isal.values())))
        if isal != zlib:
            self.assertGreater(isal["half.npy"], 1.05 * zlib["half.npy"])

    def test_pipes(self):
        for mode in MODES[:2] + [["--fp16"]]:
            for source in ("in.npz", "in.z.npz"):
                for deflate in ([], ["--deflate"]):
                    self.output(mode, *deflate, source=source)
                    want = read_bytes(self.path("out.npz"))
                    from_file = run("quantize", *mode, *deflate, "-o", "-", self.path(source))
                    self.assertEqual((from_file.code, from_file.out == want), (0, True), from_file.err)
                    with open(self.path(source), "rb") as f:
                        data = f.read()
                    through = run("quantize", *mode, *deflate, "-", "-o", "-", stdin=data)
                    self.assertEqual((through.code, through.out == want), (0, True), through.err)
        before = sorted(os.listdir(self.dir))
        self.vc("quantize", "--int8", "-", "-o", self.path("piped.npz"), stdin=read_bytes(self.path("in.npz")),
                env={"TMPDIR": self.dir})
        self.no_strays(*before, "piped.npz")

    def test_emulated_cuda(self):
        plugin = emulated_plugin()
        if plugin is None:
            self.skipTest("this build has no emulated CUDA plug-in")
        env = {"VCOMPRESS_BACKEND_PATH": plugin}
        with np.load(self.path("in.npz")) as z:  # less of it: a fiber per GPU thread takes its time
            some = {n: z[n][:40] for n in ("a", "conv", "tall", "f", "h", "d", "bias", "small.3")}
            np.savez(self.path("in.npz"), wide=z["wide"][:1, :300001], **some)
        for mode in MODES:
            self.output(mode, "--device", "cpu")
            want = sha(self.path("out.npz"))
            for threads in (1, 3):
                r = self.vc("quantize", *mode, "--device", "cuda", "--threads", threads, "--json", "--force",
                            self.path("in.npz"), "-o", self.path("out.npz"), env=env)
                self.assertEqual(sha(self.path("out.npz")), want, (mode, threads))
                self.assertIn("cuda", r.json()["run"]["device"])

    def test_no_device(self):
        """Without a plug-in `--device cuda` is refused with a reason, and `auto` does the work."""
        env = {"VCOMPRESS_BACKEND_PATH": self.path("nowhere.so")}
        self.refuse(4, "quantize", "--int8", "--device", "cuda", self.path("in.npz"), "-o", self.path("out.npz"),
                    env=env)
        self.vc("quantize", "--int8", "--device", "auto", self.path("in.npz"), "-o", self.path("out.npz"), env=env)

    def test_dequantize(self):
        self.vc("quantize", "--int8", "--asymmetric", self.path("in.npz"), "-o", self.path("q.npz"))
        want = None
        for extra in (["--threads", "1"], ["--threads", "5"], ["--cpu-mask", "ref"], ["--max-memory", "16MiB"]):
            self.vc("dequantize", "--force", *extra, self.path("q.npz"), "-o", self.path("back.npz"))
            got = sha(self.path("back.npz"))
            self.assertEqual(got, want or got, extra)
            want = got

    def test_measurements(self):
        self.vc("quantize", "--int8", self.path("in.npz"), "-o", self.path("q.npz"))
        for args, code in ([["inspect", "--stats", self.path("in.npz")], 0],
                           [["diff", self.path("in.npz"), self.path("q.npz")], 1]):
            want = None
            for extra in (["--threads", "1"], ["--threads", "5"], ["--cpu-mask", "ref"], ["--max-memory", "16MiB"]):
                r = run(*args, "--json", "--diffable", *extra)
                self.assertEqual((r.code, r.err), (code, ""), args)
                self.assertEqual(r.out, want or r.out, (args, extra))
                want = r.out

    def test_names_of_the_files_do_not_matter(self):
        self.output(MODES[0])
        want = sha(self.path("out.npz"))
        os.rename(self.path("in.npz"), self.path("other name.npz"))
        self.vc("quantize", "--int8", "other name.npz", "-o", "./x y.npz", cwd=self.dir)
        self.assertEqual(sha(self.path("x y.npz")), want)


if __name__ == "__main__":
    main()
