#!/usr/bin/env python3
"""test_python.py PROGRAM DIGITS [WHEEL] - the module of Python gives what the command gives: files and reports of every function, arrays
in memory against the file that the command makes of them, values of open checkpoints against those of dequantize, failures with the
command's sentence, Ctrl-C, threads; the cells of the notebook; and what mypy --strict says about a user's program, where mypy is.

Without WHEEL it tests python/ with the library in $VCOMPRESS_CALL. NumPy and torch are used where they are."""
import array
import io
import json
import logging
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import types
import zipfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
PROGRAM, DIGITS = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
if len(sys.argv) < 4:
    sys.path.insert(0, os.path.join(HERE, "..", "..", "python"))
import vcompress  # noqa: E402

try:
    import numpy
except ImportError:
    numpy = None
try:
    import torch
except ImportError:
    torch = None

MODEL, GRAPH, IMAGES = (os.path.join(DIGITS, name) for name in ("digits.npz", "digits.layers.txt", "images.npz"))
MEASURED = ("seconds", "memory", "peak_rss_bytes", "peak_pool_bytes", "threads", "device", "output", "outputs", "input", "host", "run")


def command(*words):
    done = subprocess.run([PROGRAM, *words], capture_output=True, text=True, check=False)
    return done.returncode, json.loads(done.stdout) if done.stdout else {}, done.stderr.strip()


def same(ours, theirs):
    strip = lambda d: {k: v for k, v in d.items() if k not in MEASURED}  # noqa: E731
    assert strip(ours) == strip(theirs), (strip(ours), strip(theirs))
    assert set(ours) == set(theirs)


def load(path):
    with open(path, "rb") as file:
        return file.read()


def fails(kind, words, function, *values, **options):
    try:
        function(*values, **options)
    except kind as error:
        assert words in str(error), str(error)
        return error
    raise AssertionError("nothing was raised: " + words)


def weights(n=256 * 512):
    """Numbers like weights, without NumPy."""
    values, x = array.array("f"), 1
    for _ in range(n):
        x = x * 1103515245 + 12345 & 0x7FFFFFFF
        values.append((x / 0x7FFFFFFF - 0.5) / 8)
    return values


def test_files():
    for name, words, call in [
            ("quantize", ["--int8", "--exclude=conv*"], lambda o: vcompress.quantize(MODEL, o, int8=True, exclude=["conv*"])),
            ("prune", ["--sparsity=0.8"], lambda o: vcompress.prune(MODEL, o, sparsity="0.8")),
            ("run", ["--pass=prune --sparsity 0.5", "--pass=quantize --int8"],
             lambda o: vcompress.run(MODEL, o, passes=["prune --sparsity 0.5", "quantize --int8"]))]:
        report = call("ours.npz")
        status, theirs, _ = command(name, *words, "--json", "-o", "theirs.npz", MODEL)
        assert status == 0 and load("ours.npz") == load("theirs.npz"), name
        same(report, theirs)
        os.remove("ours.npz")
        os.remove("theirs.npz")
    vcompress.convert(MODEL, "c.safetensors")
    assert vcompress.diff(MODEL, "c.safetensors").ok
    report = vcompress.distill("d.npz", data=IMAGES, graph=GRAPH, student=MODEL, teacher=MODEL, array="test_images=train_images", steps=2, batch=8)
    assert report["schema"] == "vcompress.distill/1" and os.path.exists("d.npz")


def test_questions():
    vcompress.quantize(MODEL, "q.npz", int8=True)
    same(vcompress.inspect(MODEL, stats=True), command("inspect", "--stats", "--json", MODEL)[1])
    same(vcompress.estimate(MODEL, graph=GRAPH), command("estimate", "--graph=" + GRAPH, "--json", MODEL)[1])
    assert vcompress.fit(MODEL, graph=GRAPH, memory="1GiB").ok and not vcompress.fit(MODEL, graph=GRAPH, memory="1KiB").ok
    assert vcompress.verify("q.npz", against=MODEL).ok
    report = vcompress.diff(MODEL, "q.npz")
    assert not report.ok and report["schema"] == "vcompress.diff/1"
    assert vcompress.gpus()["gpus"]


def test_failures():
    fails(vcompress.SystemFailure, "nope.npz: cannot open", vcompress.quantize, "nope.npz", int8=True)
    fails(TypeError, "unexpected keyword argument 'int9'", vcompress.quantize, MODEL, int9=True)
    fails(vcompress.UsageError, "int4 conflicts with int8", vcompress.quantize, MODEL, int8=True, int4=True)
    fails(ValueError, "no target given", vcompress.quantize, MODEL)
    fails(ValueError, "holds a NUL", vcompress.quantize, MODEL + "\0.npz", int8=True)
    fails(ValueError, "holds a NUL", vcompress.quantize, MODEL, "q\0.npz", int8=True)
    fails(vcompress.InputError, "is a text file", vcompress.inspect, GRAPH)
    fails(ValueError, "is a text file", vcompress.open, GRAPH)
    fails(TypeError, "a module with a state_dict", vcompress.compress, [1], int8=True)
    gate = fails(vcompress.Gate, "min_sqnr asks for 90.00 dB", vcompress.quantize, MODEL, "g.npz", int8=True, min_sqnr=90)
    assert gate.report["schema"] == "vcompress.report/1" and not os.path.exists("g.npz")
    fails(vcompress.Gate, "max_bytes allows 10", vcompress.compress, {"w": weights()}, int8=True, max_bytes=10, min_elements=1)
    fails(TypeError, "w: elements of the format", vcompress.compress, {"w": memoryview(b"abc").cast("c")}, int8=True)
    fails(TypeError, "w: memoryview: a bytes-like object is required", vcompress.compress, {"w": [1.0, 2.0]}, int8=True)

    def stop(progress):
        raise ZeroDivisionError(progress.what)
    fails(ZeroDivisionError, "quantize", vcompress.quantize, MODEL, "p.npz", int8=True, progress=stop)
    assert not os.path.exists("p.npz")


def test_memory():
    values = weights()
    shaped = memoryview(values).cast("B").cast("f", (256, 512))
    small = vcompress.compress({"w": shaped, "n": array.array("q", range(5))}, int8=True, metadata={"format": "pt"})
    small.save("memory.safetensors")
    assert vcompress.verify("memory.safetensors").ok and small.report["totals"]["changed"] == 1
    back = small.decompress()
    assert bytes(memoryview(back["n"]).cast("B")) == array.array("q", range(5)).tobytes()
    back.save("w.safetensors")
    assert vcompress.diff("memory.safetensors", "w.safetensors", tolerance=0).ok
    assert vcompress.Compressed.load("memory.safetensors").keys() == small.keys()
    assert vcompress.inspect({"w": shaped})["tensors"][0]["shape"] == [256, 512]
    assert vcompress.compress({"none": array.array("f"), "w": shaped}, int8=True).dtypes["none"] == "F32"


def test_numpy():
    if numpy is None:
        print("no NumPy: not tried")
        return
    w = numpy.random.default_rng(1).standard_normal((200, 300)).astype("f4")
    numpy.savez("w.npz", w=w, h=w.astype("f2"), s=numpy.float32(3), i=numpy.arange(6).reshape(2, 3))
    command("quantize", "--int8", "--json", "-o", "w8.npz", "w.npz")
    want = numpy.load("w8.npz")
    for arrays in ({"w": w, "h": w.astype("f2"), "s": numpy.float32(3), "i": numpy.arange(6).reshape(2, 3)},
                   {"w": numpy.asfortranarray(w), "h": w.astype("f2")[::1], "s": numpy.array(3, "f4"), "i": numpy.arange(12).reshape(2, 6)[:, ::2] // 2}):
        small = vcompress.compress(arrays, int8=True)
        for name in want.files:
            if name in small:
                assert small[name].dtype == want[name].dtype and numpy.array_equal(small[name], want[name]), name
        assert {"w.int8", "h.int8", "s", "i"} <= set(small)
        back = small.decompress()
        assert abs(back["w"] - w).max() < 0.03 and back["s"].shape == () and back["i"].tolist() == [[0, 1, 2], [3, 4, 5]]
    # Numbers of NumPy, pairs by name, and rows as arrays, as the words of the command and a file of them.
    vcompress.prune(MODEL, "n.npz", sparsity=numpy.float32(0.3), set={"fc*": 0.9}, force=numpy.True_)
    command("prune", "--sparsity=0.3", "--set=fc*=0.9", "--json", "-o", "t.npz", MODEL)
    assert load("n.npz") == load("t.npz")
    rows = dict(numpy.load(IMAGES))
    said = [vcompress.evaluate(MODEL, graph=GRAPH, data=data, array={"y": "test_labels"}, batch=numpy.int64(8)) for data in (IMAGES, rows)]
    same(*({k: v for k, v in one.items() if k not in ("data", "command")} for one in said))
    sizes = [vcompress.estimate(MODEL, graph=GRAPH, size={"batch": size}) for size in (4, numpy.int64(4))]
    same(*({k: v for k, v in one.items() if k != "command"} for one in sizes))
    given = vcompress.quantize(MODEL, "given.npz", int8=True, exclude=(glob for glob in ("fc1*", "fc2*")))
    assert [row["action"] for row in given["tensors"] if row["name"] in ("fc1.weight", "fc2.weight")] == ["kept", "kept"]
    assert "--sparsity 0.0000001" in vcompress.prune(MODEL, "given.npz", sparsity=1e-7, force=True)["command"]
    fails(TypeError, "sparsity: takes a text, a path or a number, not ndarray", vcompress.prune, MODEL, sparsity=w)
    big = vcompress.compress({"w": w.astype(">f4")}, int8=True)
    assert numpy.array_equal(big["w.int8"], want["w"] if "w" in want.files else want["w.int8"])


def test_torch():
    if torch is None or numpy is None:
        print("no torch: not tried")
        return
    net = torch.nn.Sequential(torch.nn.Linear(128, 64), torch.nn.Linear(64, 64))
    small = vcompress.compress(net.state_dict(), int8=True)
    want = vcompress.compress({k: v.numpy() for k, v in net.state_dict().items()}, int8=True)
    assert bytes(small.data) == bytes(want.data)
    assert bytes(vcompress.compress(net, int8=True).data) == bytes(want.data)  # the module itself
    assert isinstance(small["0.weight.int8"], torch.Tensor) and small["0.weight.int8"].dtype == torch.int8
    assert torch.equal(small["0.weight.int8"], torch.from_numpy(want["0.weight.int8"].copy())) and torch.equal(small["0.bias"], net[0].bias)
    back = small.decompress()
    assert isinstance(back["0.weight"], torch.Tensor) and (back["0.weight"] - net[0].weight).abs().max() < 0.01
    net.load_state_dict(back)
    bf = vcompress.compress({"w": net[0].weight.to(torch.bfloat16), "t": net[0].weight.t(), "p": net[0].weight}, passes=["quantize --fp16 --exclude *"])
    assert bf.dtypes == {"w": "BF16", "t": "F32", "p": "F32"} and bf["t"].shape == (128, 64)
    assert bf["w"].dtype == torch.bfloat16 and torch.equal(bf["t"].t(), bf["p"])
    f8 = vcompress.compress(net, fp8=True)
    assert {str(value.dtype) for value in f8.values()} == {"torch.uint8", "torch.float32"} and f8["0.weight.fp8"].shape == (64, 128)
    vcompress.compress({"w": net[0].weight}, int8=True).save("pt.safetensors")
    with vcompress.open("pt.safetensors", framework="pt") as file:
        assert isinstance(file["w"][2:4], torch.Tensor) and (file["w"][2:4, ::2] - net[0].weight[2:4, ::2]).abs().max() < 0.01
        assert torch.equal(file["w"][::-3], file["w"][...].flip(0)[::3])


class Saved:
    """As a model of transformers: writes its folder."""

    def save_pretrained(self, folder):
        vcompress.convert(MODEL, os.path.join(folder, "model.safetensors"))
        with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as file:
            file.write('{"model_type": "none"}')


def test_saved():
    vcompress.quantize(Saved(), "folder", int8=True, layout="plain")
    assert os.path.exists("folder/config.json")
    with vcompress.open("folder") as ours, vcompress.open(MODEL) as theirs:
        assert set(ours) == set(theirs)
    fails(TypeError, "output= is missing", vcompress.quantize, Saved(), int8=True)


def test_commands():
    """Every command of the program is a function, made of its tables of options as they are."""
    names = {row["command"] for row in json.loads(subprocess.run([PROGRAM, "help", "--options"], capture_output=True, check=True).stdout)}
    assert names - {"completion", "help"} <= set(vcompress.__all__), names
    made = subprocess.run([sys.executable, os.path.join(ROOT, "python", "make_commands.py"), PROGRAM], capture_output=True, check=True).stdout
    with open(os.path.join(ROOT, "python", "vcompress", "_commands.py"), "rb") as file:
        assert made == file.read(), "old: python3 python/make_commands.py PROGRAM >python/vcompress/_commands.py"
    assert "int8: " in vcompress.quantize.__doc__ and "sparsity (SHARE): " in vcompress.prune.__doc__
    assert "cpu: " in str(vcompress.devices()) and vcompress.selftest().ok
    rows = dict(data=IMAGES, graph=GRAPH, array="test_images=train_images")
    vcompress.logits(MODEL, "l.npz", topk=3, **rows)
    assert str(vcompress.calibrate(MODEL, "s.npz", **rows)).endswith("wrote s.npz") and os.path.exists("l.npz")
    assert vcompress.graph(MODEL, graph=GRAPH)["schema"] == "vcompress.graph/1"
    report = vcompress.shrink(MODEL, "tiny.npz", bytes="200KiB")
    assert report.ok and os.path.getsize("tiny.npz") <= 200 << 10
    with open("r.recipe", "w", encoding="utf-8") as file:
        file.write("prune --sparsity 0.5\nquantize --int8\n")
    assert vcompress.run(MODEL, "r.npz", recipe="r.recipe").ok
    small = dict(max_shard_size="300KiB", format="safetensors")
    vcompress.convert(MODEL, "shards", **small)
    os.remove("shards/model.safetensors.index.json")
    assert "wrote shards/model.safetensors.index.json: 22 tensors" in str(vcompress.index("shards"))


def test_reports():
    report = vcompress.quantize(MODEL, "q.npz", int8=True)
    printed = subprocess.run([PROGRAM, "quantize", "--int8", MODEL, "-fo", "q.npz"], capture_output=True, text=True, check=True).stdout
    assert report.text.splitlines()[:-1] == printed.splitlines()[:-1] and "wrote q.npz in " in report.text  # but for the time
    assert str(report).startswith(MODEL + ": npz, 22 tensors") and "fc1.weight" in str(report)
    assert repr(report) == "<Report quantize --int8 --granularity channel: 631.8 KiB -> 172.5 KiB, SQNR 42.6 dB: ok>", repr(report)
    assert [row["name"] for row in report.tensors][:2] == ["conv1.weight", "bn1.weight"] and len(report.tensors) == 22
    row = next(row for row in report.tensors if row["name"] == "fc1.weight")
    assert 42 < row["measured.sqnr_db"] < 43 and not any(isinstance(value, dict) for value in row.values())
    page = report._repr_html_()
    assert page.startswith("<iframe srcdoc=\"&lt;!DOCTYPE html&gt;") and page.count("<") == 2
    assert "does not fit" in str(vcompress.fit(MODEL, memory="1KiB", graph=GRAPH)) and vcompress.gpus().tensors == []


def test_bar():
    """tqdm where it is asked for, and a line of logging for each call."""
    seen, lines = [], []

    class Tqdm:
        def __init__(self, **options):
            self.n, self.options = 0, options

        def update(self, more):
            self.n += more

        def close(self):
            seen.append((self.options["desc"], self.n, self.options["total"]))
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(record.getMessage())
    logging.getLogger("vcompress").addHandler(handler)
    logging.getLogger("vcompress").setLevel(logging.INFO)
    kept = sys.modules.get("tqdm"), sys.modules.get("tqdm.auto")
    sys.modules["tqdm"], sys.modules["tqdm.auto"] = types.ModuleType("tqdm"), types.SimpleNamespace(tqdm=Tqdm)
    try:
        vcompress.quantize(MODEL, "b.npz", int8=True, progress=True)
        assert seen and seen[-1][0] == "quantize" and seen[-1][1] == seen[-1][2] > 0, seen
        seen.clear()
        vcompress.quantize(MODEL, "c.npz", int8=True, progress=False)
        vcompress.quantize(MODEL, "d.npz", int8=True)  # nobody looks at a terminal here
        assert not seen and os.path.exists("d.npz")
    finally:
        logging.getLogger("vcompress").removeHandler(handler)
        for name, module in zip(("tqdm", "tqdm.auto"), kept):
            if module is None:
                del sys.modules[name]
            else:
                sys.modules[name] = module
    assert lines[0].startswith("quantize: <Report quantize --int8"), lines


def test_open():
    """Values of codes are those that dequantize writes, in every format, by slices too; from paths, files and bytes."""
    if numpy is None:
        with vcompress.open(MODEL) as file:
            assert file["fc1.weight"][...].shape == (128, 512) and file["fc2.bias"].shape == (10,) and len(file["fc2.bias"][2:5]) == 3
        return
    for name, options in [("a.npz", {"int8": True}), ("b.safetensors", {"int4": True}), ("c.pt", {"int8": True, "granularity": "tensor"}), ("d.npz", {"fp16": True}),
                          ("e.gguf", {"gguf": "Q8_0"}), ("f.safetensors", {"nf4": True}), ("g.npz", {"int3": True, "asymmetric": True}),
                          ("h.safetensors", {"mxfp4": True}), ("i.gguf", {"gguf": "Q4_K_M"})]:
        vcompress.quantize(MODEL, name, **options)
        vcompress.dequantize(name, "f32.npz", f32=True, force=True, exclude=["bn*"]) if "fp16" not in options else vcompress.convert(name, "f32.npz", force=True)
        want = numpy.load("f32.npz")
        with vcompress.open(name) as file:
            assert set(file) == set(want.files), (name, set(file) ^ set(want.files))
            for key in file:
                whole = file.get_tensor(key)
                assert whole.dtype == want[key].dtype and numpy.array_equal(whole, want[key]), (name, key)
                assert tuple(file.get_slice(key).get_shape()) == want[key].shape
            for index in [slice(3, 9), 5, -1, (slice(None), slice(2, 5)), slice(None, None, 3), slice(None, None, -2), (4, slice(1, 2)), (Ellipsis, 0), slice(7, 7),
                          (slice(100, 90), 1), (numpy.int64(3), 2), [1, 3], (slice(1, 100, 7), slice(0, 4)),
                          True, numpy.array([1, 3]), numpy.arange(128) % 3 == 0, (3, None, [1, 2]), (slice(1, 4), None, [1, 2])]:
                got, right = file["fc1.weight"][index], want["fc1.weight"][index]
                assert numpy.array_equal(got, right) and got.shape == right.shape, (name, index)
            assert numpy.array_equal(numpy.asarray(file["fc1.bias"]), want["fc1.bias"]) and file["bn1.num_batches_tracked"][()].dtype == numpy.int64
            fails(IndexError, "out of 128 rows", file["fc1.weight"].__getitem__, 128)
    numpy.savez("four.npz", w=numpy.arange(4 * 3 * 5 * 6, dtype="f4").reshape(4, 3, 5, 6))
    with vcompress.open("four.npz") as file:  # a number or lists apart put their axis first, as NumPy does
        want = numpy.load("four.npz")["w"]
        for index in [(3, slice(None), [0, 1]), (slice(0, 3), [0, 1], slice(None), [2, 3]), (slice(0, 3), 1, slice(None), [2, 3]), (slice(1, 3), 1, 2, 3)]:
            assert numpy.array_equal(file["w"][index], want[index]), index
    with vcompress.open("a.npz", decode=False) as file:
        assert file["fc1.weight"].dtype == "i8" and "fc1.weight.scale" in file and file["fc1.weight"][:3].dtype == numpy.int8
    data = load("b.safetensors")
    with zipfile.ZipFile("z.zip", "w") as out:
        out.writestr("inner.safetensors", data)
    with vcompress.open("b.safetensors") as want, zipfile.ZipFile("z.zip") as archive, archive.open("inner.safetensors") as inner:
        for source in (data, bytearray(data), io.BytesIO(data), inner):
            with vcompress.open(source) as file:
                assert list(file) == list(want) and numpy.array_equal(file["fc1.weight"][9:17, 3], want["fc1.weight"][9:17, 3])
    fails(ValueError, "is closed", file["fc1.weight"].__getitem__, 0)
    fails(vcompress.SystemFailure, "cannot open", vcompress.open, "nope.npz")
    fails(vcompress.InputError, "", vcompress.open, io.BytesIO(data[:1000]))
    fails(ValueError, "reads bytes and can seek", vcompress.open, io.StringIO("text"))

    class Broken(io.BytesIO):
        def read(self, n=-1):
            raise ZeroDivisionError("the network is gone")
    fails(ZeroDivisionError, "the network is gone", vcompress.open, Broken(data))


def test_notebook():
    """The cells of examples/digits/python.ipynb, in their order, as a notebook runs them."""
    if numpy is None:
        print("no NumPy: not tried")
        return
    for name in ("digits.npz", "digits.layers.txt", "images.npz"):
        os.symlink(os.path.join(DIGITS, name), name)
    with open(os.path.join(DIGITS, "python.ipynb"), encoding="utf-8") as file:
        cells = json.load(file)["cells"]
    names = {}
    for number, cell in enumerate(cells):
        if cell["cell_type"] == "code":
            exec(compile("".join(cell["source"]), f"cell {number}", "exec"), names)  # noqa: S102
    assert names["accuracy"] > 0.985 and sum(cell["cell_type"] == "code" for cell in cells) >= 6


def test_types():
    """mypy --strict finds the wrong lines of a user's program, and no other."""
    if subprocess.run([sys.executable, "-m", "mypy", "--version"], capture_output=True, check=False).returncode != 0:
        print("no mypy: not tried")
        return
    program = os.path.join(HERE, "typed_user.py")
    with open(program, encoding="utf-8") as file:
        wrong = {i + 1: line.split("# error: ")[1].strip() for i, line in enumerate(file) if "# error: " in line}
    done = subprocess.run([sys.executable, "-m", "mypy", "--strict", "--cache-dir=cache", os.path.join(ROOT, "python", "vcompress"), program], capture_output=True,
                          text=True, check=False, env={**os.environ, "MYPYPATH": os.path.join(ROOT, "python")})
    said = [line for line in done.stdout.splitlines() if ": error: " in line]
    found = {int(line.split(":")[1]): line.rsplit("[", 1)[1].rstrip("]") for line in said if "typed_user.py" in line}
    assert found == wrong and len(said) == len(wrong), done.stdout + done.stderr


def test_threads():
    values = memoryview(weights()).cast("B").cast("f", (256, 512))
    want = bytes(vcompress.compress({"w": values}, int8=True, threads=1).data)
    got = []
    threads = [threading.Thread(target=lambda: got.append(bytes(vcompress.compress({"w": values}, int8=True, threads=2).data))) for _ in range(8)]
    errors = [threading.Thread(target=lambda: fails(vcompress.UsageError, "conflicts", vcompress.quantize, MODEL, int8=True, int4=True)) for _ in range(4)]
    for thread in threads + errors:
        thread.start()
    for thread in threads + errors:
        thread.join()
    assert got == [want] * 8


def test_interrupt():
    """A long call, and a signal after a moment."""
    timer = threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT))
    timer.start()
    begin = time.monotonic()
    fails(KeyboardInterrupt, "", vcompress.distill, "long.npz", data=IMAGES, graph=GRAPH, student=MODEL, teacher=MODEL,
          array="test_images=train_images", steps=1000000)
    assert time.monotonic() - begin < 20 and not os.path.exists("long.npz")
    assert vcompress.inspect(MODEL).ok


def main():
    tests = [value for name, value in sorted(globals().items()) if name.startswith("test_")]
    for test in tests:
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            test()
            os.chdir("/")
        print(test.__name__ + ": ok", flush=True)


main()
