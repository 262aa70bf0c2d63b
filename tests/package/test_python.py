#!/usr/bin/env python3
"""test_python.py PROGRAM DIGITS [WHEEL] - the module of Python gives what the command gives: files and reports of every function, arrays
in memory against the file that the command makes of them, failures with the command's sentence, Ctrl-C, threads.

Without WHEEL it tests python/ with the library in $VCOMPRESS_CALL. NumPy and torch are used where they are."""
import array
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
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
    fails(vcompress.UsageError, "unknown option 'int9'; did you mean 'int8'?", vcompress.quantize, MODEL, int9=True)
    fails(ValueError, "no target given", vcompress.quantize, MODEL)
    fails(ValueError, "holds a NUL", vcompress.quantize, MODEL + "\0.npz", int8=True)
    fails(ValueError, "holds a NUL", vcompress.quantize, MODEL, "q\0.npz", int8=True)
    fails(vcompress.InputError, "is a text file", vcompress.inspect, GRAPH)
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
    bf = vcompress.compress({"w": net[0].weight.to(torch.bfloat16), "t": net[0].weight.t(), "p": net[0].weight}, passes=["quantize --fp16 --exclude *"])
    assert bf.dtypes == {"w": "BF16", "t": "F32", "p": "F32"} and bf["t"].shape == (128, 64)
    assert torch.equal(torch.from_numpy(bf["w"].astype("i2")).view(torch.bfloat16), net[0].weight.detach().to(torch.bfloat16))


def test_threads():
    values = memoryview(weights()).cast("B").cast("f", (256, 512))
    want = bytes(vcompress.compress({"w": values}, int8=True, threads=1).data)
    got = []
    threads = [threading.Thread(target=lambda: got.append(bytes(vcompress.compress({"w": values}, int8=True, threads=2).data))) for _ in range(8)]
    errors = [threading.Thread(target=lambda: fails(vcompress.UsageError, "int9", vcompress.quantize, MODEL, int9=True)) for _ in range(4)]
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
