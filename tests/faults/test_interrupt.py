"""test_interrupt.py - Ctrl-C and SIGTERM: every command with long loops ends by the signal, soon, with nothing left behind.

Each command runs on a terminal of its own (a pty), where it is the process in front. Undisturbed first, which says how
much processor time it takes; then again and again, where Ctrl-C is typed, or SIGTERM sent, behind some share of that
time. What counts is the processor time from then on, so that a busy machine changes nothing: at most half of what the
undisturbed command still had before it. Little time is always allowed (FREE: a second for a million tensors, and half as
much again): parsers that have made a tree free it first. The last line shows the most that was seen. The shell shows 130
or 143 for an end by these signals. A command that was done writing may also end well.

    test_interrupt.py [PROGRAM] [TENSORS [POINTS]]      such as build/vcompress 1000000 6

Python's standard library only; Linux (schedstat of /proc). The program is $VCOMPRESS_PROGRAM or the first argument."""
import os
import pty
import random
import select
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import unittest

PROGRAM = os.environ.get("VCOMPRESS_PROGRAM", "")
if len(sys.argv) > 1 and os.path.isfile(sys.argv[1]):
    PROGRAM = os.path.abspath(sys.argv.pop(1))
TENSORS = int(sys.argv.pop(1)) if len(sys.argv) > 1 and sys.argv[1].isdigit() else 30000
POINTS = int(sys.argv.pop(1)) if len(sys.argv) > 1 and sys.argv[1].isdigit() else 2
SANITIZED = bool(os.environ.get("VCOMPRESS_SANITIZED"))
FREE = 1.5 * max(TENSORS / 1e6, 0.05) * (10 if SANITIZED else 1)  # seconds of processor time behind the signal
CTRL_C = b"\x03"


def processor_seconds(pid):
    """Of all threads so far; None: it has ended."""
    try:
        total = 0
        for task in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{task}/schedstat", encoding="ascii") as f:
                total += int(f.read().split()[0])
        return total / 1e9
    except (OSError, IndexError):
        return None


def write_model(path, n):
    """n tensors of four floats, as a safetensors file."""
    head = ",".join('"model.layers.%d.w%d.weight":{"dtype":"F32","shape":[2,2],"data_offsets":[%d,%d]}'
                    % (i // 10, i % 10, 16 * i, 16 * i + 16) for i in range(n))
    head = ("{" + head + "}").encode()
    head += b" " * (-len(head) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(head)) + head + struct.pack("<4f", .1, .2, -.3, .7) * n)


def write_zeros(path, name, n):
    """A matrix of n rows and columns, as a safetensors file."""
    head = ('{"%s":{"dtype":"F32","shape":[%d,%d],"data_offsets":[0,%d]}}' % (name, n, n, 4 * n * n)).encode()
    head += b" " * (-len(head) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(head)) + head + bytes(4 * n * n))


class Ended:
    """How a command ended: its wait status, its processor time behind the signal (None: it had ended before), what it
    wrote to the terminal."""

    def __init__(self, args, folder, how=None, at=None):
        self.behind = None
        self.said = b""
        before = None
        pid, terminal = pty.fork()
        if pid == 0:
            signal.signal(signal.SIGINT, signal.SIG_DFL)  # a background job of a shell ignores it
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            os.chdir(folder)
            os.environ["TMPDIR"] = os.path.join(folder, "tmp")
            os.execv(PROGRAM, [PROGRAM, *args])
        deadline = time.monotonic() + 300
        while True:
            if select.select([terminal], [], [], 0.002)[0]:
                try:
                    data = os.read(terminal, 1 << 20)
                except OSError:  # the other side is closed
                    break
                if not data:
                    break
                self.said = (self.said + data)[-4000:]
            now = processor_seconds(pid)
            if how is not None and before is None and now is not None and now >= at:
                before = now
                if how == signal.SIGINT:
                    os.write(terminal, CTRL_C)
                else:
                    os.kill(pid, how)
            if time.monotonic() > deadline:
                os.kill(pid, signal.SIGKILL)
        usage = os.wait4(pid, 0)
        os.close(terminal)
        self.status = usage[1]
        self.seconds = usage[2].ru_utime + usage[2].ru_stime
        if before is not None:
            self.behind = self.seconds - before


class Interrupt(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.base = tempfile.mkdtemp(prefix="interrupt-")
        cls.source = os.path.join(cls.base, "big.safetensors")
        write_model(cls.source, TENSORS)
        for name, args in {"big.npz": ["convert"], "big.gguf": ["convert"], "big.pt": ["convert"],
                           "codes.safetensors": ["quantize", "--int8", "--min-elements", "1", "--min-row", "1"]}.items():
            subprocess.run([PROGRAM, *args, cls.source, "-o", os.path.join(cls.base, name)], check=True,
                           stdout=subprocess.DEVNULL)
        cls.worst = (0, 0, "")

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.base, ignore_errors=True)
        print("most processor time behind a signal: %.3f s of %.3f, %s" % cls.worst)

    def setUp(self):
        self.random = random.Random(5)

    def once(self, args, how=None, at=None):
        folder = os.path.join(self.base, "run")
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(os.path.join(folder, "tmp"))
        ended = Ended(args, folder, how, at)
        return ended, sorted(set(os.listdir(folder)) - {"tmp"}), os.listdir(os.path.join(folder, "tmp"))

    def interrupt(self, *args, codes=(0, 1), free=FREE):
        """A command line whose inputs are named from the base folder, and whose outputs lie in a folder of their own."""
        args = [os.path.join(self.base, a[1:]) if a.startswith("@") else a for a in args] + ["--threads", "1"]
        whole, made, _ = self.once(args)
        self.assertTrue(os.WIFEXITED(whole.status) and os.WEXITSTATUS(whole.status) in codes, (args, whole.said))
        for k in range(POINTS):
            how = signal.SIGINT if k % 2 == 0 else signal.SIGTERM
            at = whole.seconds * (k + self.random.random()) / POINTS
            ended, left, temporary = self.once(args, how, at)
            told = (" ".join(args), how.name, "%.3f of %.3f s" % (at, whole.seconds), ended.said[-300:])
            if ended.behind is None:
                continue
            allowed = max(free, (whole.seconds - at) / 2)
            Interrupt.worst = max(Interrupt.worst, (ended.behind, allowed, " ".join(map(str, told[:3]))))
            self.assertLess(ended.behind, allowed, told)
            self.assertEqual(temporary, [], told)
            if os.WIFSIGNALED(ended.status):
                self.assertEqual(os.WTERMSIG(ended.status), how, told)
                self.assertIn(left, ([], [n for n in made if not n.startswith("report")], made), told)
            else:  # it was done when the signal came
                self.assertIn(os.WEXITSTATUS(ended.status), codes, told)
                self.assertEqual(left, made, told)
            self.assertNotIn(b"vcompress: ", ended.said, told)

    def test_inspect(self):
        self.interrupt("inspect", "-v", "@big.safetensors")
        self.interrupt("inspect", "--stats", "@big.npz")
        self.interrupt("inspect", "--json=report.json", "@big.pt")

    def test_quantize(self):
        for name in ("safetensors", "npz", "gguf", "pt"):
            self.interrupt("quantize", "--fp16", "@big." + name, "-o", "out." + name)
        self.interrupt("quantize", "--int8", "--min-elements", "1", "--min-row", "1", "@big.safetensors", "-o", "out.npz")
        self.interrupt("quantize", "--fp16", "@big.safetensors", "-o", "out.safetensors", "--json=report.json")
        self.interrupt("quantize", "--fp16", "@big.safetensors", "-o", "out.safetensors", "--html", "report.html")
        self.interrupt("quantize", "--fp16", "--deflate", "@big.npz", "-o", "out.npz")
        self.interrupt("quantize", "--int8", "--dry-run", "-v", "@big.gguf")

    def test_prune(self):
        self.interrupt("prune", "--pattern", "2:4", "@big.safetensors", "-o", "out.safetensors")
        self.interrupt("prune", "--sparsity", "0.5", "--min-elements", "5", "@big.safetensors", "-o", "out.safetensors", codes=(0, 3))

    def test_others(self):
        self.interrupt("convert", "@big.safetensors", "-o", "out.npz", "--digest")
        self.interrupt("convert", "@big.npz", "-o", "out.pt")
        self.interrupt("dequantize", "@codes.safetensors", "-o", "out.safetensors")
        self.interrupt("run", "--pass", "prune --pattern 2:4", "--pass", "quantize --fp16", "@big.safetensors", "-o",
                       "out.gguf")

    def test_one_product(self):
        """A single product of large matrices, inside which nobody looks: the watchdog ends the command."""
        n = 500 if SANITIZED else 1600
        write_zeros(os.path.join(self.base, "weight.safetensors"), "a.weight", n)
        write_zeros(os.path.join(self.base, "rows.safetensors"), "x", n)
        with open(os.path.join(self.base, "net.txt"), "w", encoding="ascii") as f:
            f.write("input x [batch, %d]\nlinear a %d bias=no\n" % (n, n))
        self.interrupt("graph", "--precision", "f64", "--data", "@rows.safetensors", "--graph", "@net.txt", "@weight.safetensors",
                       "--outputs", "out.npz", free=1.5)

    def test_many_layers(self):
        """Layers that share nothing: calibrate looks at the signal for each."""
        n = 3000
        head = ",".join('"%d.weight":{"dtype":"F32","shape":[2,2],"data_offsets":[%d,%d]}' % (i, 16 * i, 16 * i + 16) for i in range(n))
        head = ("{" + head + "}").encode()
        head += b" " * (-len(head) % 8)
        with open(os.path.join(self.base, "layers.safetensors"), "wb") as f:
            f.write(struct.pack("<Q", len(head)) + head + struct.pack("<4f", .1, .2, -.3, .7) * n)
        write_zeros(os.path.join(self.base, "pairs.safetensors"), "x", 2)
        with open(os.path.join(self.base, "layers.txt"), "w", encoding="ascii") as f:
            f.write("input x [batch, 2]\n" + "".join("linear %d 2 bias=no\n" % i for i in range(n)))
        self.interrupt("calibrate", "--graph", "@layers.txt", "--data", "@pairs.safetensors", "@layers.safetensors", "-o", "out.npz",
                       free=1.5)

    def test_answers(self):
        self.interrupt("verify", "@big.npz")
        self.interrupt("verify", "--data", "@big.safetensors")
        self.interrupt("diff", "@big.safetensors", "@codes.safetensors")
        self.interrupt("sensitivity", "--min-elements", "5", "@big.safetensors", codes=(0, 3))
        self.interrupt("fit", "--gpu", "RTX 4090", "@big.safetensors")
        self.interrupt("estimate", "@big.gguf", codes=(0, 3))
        self.interrupt("plan", "--gpu", "RTX 4090", "@big.safetensors")


if __name__ == "__main__":
    unittest.main()
