"""test_faults.py - what the command leaves behind when the system or the user gets in its way.

Whatever happens, the rules are the same: the exit status is one of the documented ones, stderr has exactly one line
that names a file, the input is untouched, and the output is either complete or as it was before; nothing else is left
in its folder or in $TMPDIR. Python's standard library only. The program is $VCOMPRESS_PROGRAM or the first argument.
Parts that need root (small file systems) are skipped without it.
"""
import array
import hashlib
import json
import os
import random
import resource
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import zipfile

if len(sys.argv) > 1 and os.path.isfile(sys.argv[1]):
    PROGRAM = os.path.abspath(sys.argv.pop(1))
else:
    PROGRAM = os.environ.get("VCOMPRESS_PROGRAM", "")
ROOT = os.geteuid() == 0
NOBODY = 65534
SANITIZED = bool(os.environ.get("VCOMPRESS_SANITIZED"))  # sanitizers reserve terabytes of address space


def npy(rows, cols, seed):
    """Normal random weights; a block of values repeated, which is quick to make."""
    r = random.Random(seed)
    block = array.array("f", [r.gauss(0, 0.02) for _ in range(min(rows * cols, 20011))]).tobytes()
    n = rows * cols * 4
    head = "{'descr': '<f4', 'fortran_order': False, 'shape': (%d, %d), }" % (rows, cols)
    head += " " * (-(11 + len(head)) % 64) + "\n"
    data = (block * (n // len(block) + 1))[:n]
    return b"\x93NUMPY\1\0" + struct.pack("<H", len(head)) + head.encode() + data


def write_npz(path, shapes, method=zipfile.ZIP_STORED):
    with zipfile.ZipFile(path, "w", method) as z:
        for k, (rows, cols) in enumerate(shapes):
            z.writestr("layer.%d.weight.npy" % k, npy(rows, cols, k))


def digest(path):
    if not os.path.lexists(path):
        return None
    h = hashlib.sha256()
    with open(path, "rb", buffering=0) as f:
        piece = bytearray(1 << 18)  # the same memory for every piece: pages of a whole file take longer than its hash
        n = f.readinto(piece)
        while n:
            h.update(memoryview(piece)[:n])
            n = f.readinto(piece)
    return h.hexdigest()


def state(path):
    """What differs after any write to a file, or after its replacement; no program can set the time of the last change (ctime)."""
    s = os.stat(path)
    return s.st_dev, s.st_ino, s.st_size, s.st_mtime_ns, s.st_ctime_ns


class Faults(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.base = tempfile.mkdtemp(prefix="faults-")
        os.chmod(cls.base, 0o755)
        cls.small = os.path.join(cls.base, "small.npz")
        cls.large = os.path.join(cls.base, "large.npz")
        write_npz(cls.small, [(64, 100)] * 5)
        write_npz(cls.large, [(1024, 1024)] * 12 + [(3, 300001)])
        cls.expected = {}
        for path in (cls.small, cls.large):
            out = path + ".reference.npz"
            done = subprocess.run([PROGRAM, "quantize", "--int8", path, "-o", out], capture_output=True)
            if done.returncode != 0:
                raise AssertionError("the undisturbed run fails: %r" % done.stderr)
            cls.expected[path] = digest(out)
            cls.expected[path, "size"] = os.path.getsize(out)
        t = time.monotonic()
        subprocess.run([PROGRAM, "quantize", "--int8", cls.large, "-o", out, "--force"], stdout=subprocess.DEVNULL)
        cls.seconds = time.monotonic() - t
        cls.inputs = {p: digest(p) for p in (cls.small, cls.large)}
        cls.states = {p: state(p) for p in cls.inputs}

    @classmethod
    def tearDownClass(cls):
        changed = [p for p in cls.inputs if digest(p) != cls.inputs[p]]
        shutil.rmtree(cls.base, ignore_errors=True)
        if changed:
            raise AssertionError("changed without a trace: %s" % changed)

    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="faults-")
        self.out_dir, self.tmp = os.path.join(self.dir, "out"), os.path.join(self.dir, "tmp")
        for d in (self.out_dir, self.tmp):
            os.mkdir(d)
            os.chmod(d, 0o777)
        os.chmod(self.dir, 0o755)
        self.out = os.path.join(self.out_dir, "o.npz")
        self.addCleanup(shutil.rmtree, self.dir, ignore_errors=True)

    def start(self, *args, limits=(), **kwargs):
        def prepare():
            for which, value in limits:
                resource.setrlimit(which, (value, value))
        return subprocess.Popen([PROGRAM] + [str(a) for a in args], stdin=kwargs.pop("stdin", subprocess.DEVNULL),
                                stdout=kwargs.pop("stdout", subprocess.DEVNULL), stderr=subprocess.PIPE,
                                env=dict(os.environ, TMPDIR=self.tmp, LC_ALL="C"),
                                preexec_fn=kwargs.pop("prepare", prepare), **kwargs)

    def run_it(self, *args, **kwargs):
        p = self.start(*args, **kwargs)
        err = p.communicate(timeout=60)[1].decode("utf-8", "replace")
        return p.returncode, err

    def quantize(self, source, out=None, **kwargs):
        return self.run_it("quantize", "--int8", "--force", source, "-o", self.out if out is None else out, **kwargs)

    def failed(self, result, *names, codes=(3, 4)):
        """A clean failure: documented status, one line, one of the names in it."""
        code, err = result
        self.assertIn(code, codes, err)
        self.assertEqual(err.count("\n"), 1, err)
        self.assertTrue(err.startswith("vcompress: "), err)
        if names:
            self.assertTrue(any(n in err for n in names), err)

    def left(self, old=None, strays=0):
        """The output is what it was, nothing else is there, inputs are untouched."""
        self.assertEqual(digest(self.out), old)
        self.nothing_else(strays)

    def nothing_else(self, strays=0):
        found = [n for d in (self.out_dir, self.tmp) for n in os.listdir(d) if os.path.join(d, n) != self.out]
        self.assertLessEqual(len(found), strays, found)
        self.assertEqual({p: state(p) for p in self.inputs}, self.states, "an input was changed")

    def older(self, there):
        """Puts an older output in place, or not; returns its digest."""
        if os.path.lexists(self.out):
            os.unlink(self.out)
        if there:
            with open(self.out, "wb") as f:
                f.write(b"an older file")
        return digest(self.out)

    # ---- input ------------------------------------------------------------------------------------------------------
    def test_inputs_that_are_none(self):
        names = {"missing": None, "empty": b"", "text": b"hello\n", "zeros": bytes(1000), "pk": b"PK\3\4"}
        for name, data in names.items():
            path = os.path.join(self.dir, name + ".npz")
            if data is not None:
                with open(path, "wb") as f:
                    f.write(data)
            for there in (False, True):
                old = self.older(there)
                self.failed(self.quantize(path), name)
                self.left(old)
        os.mkdir(os.path.join(self.dir, "folder.npz"))
        os.symlink("nowhere", os.path.join(self.dir, "dangling.npz"))
        os.symlink("loop.npz", os.path.join(self.dir, "loop.npz"))
        os.mkfifo(os.path.join(self.dir, "fifo.npz"))
        for name in ("folder.npz", "dangling.npz", "loop.npz", "fifo.npz", "small.npz/x.npz", "n" * 300 + ".npz"):
            old = self.older(True)
            self.failed(self.quantize(os.path.join(self.dir, name)), name)
            self.left(old)
        self.failed(self.quantize("/dev/null"), "/dev/null")
        self.failed(self.quantize(""), codes=(2, 4))
        self.left(old)

    def test_every_truncation(self):
        """An archive cut off anywhere is refused."""
        with open(self.small, "rb") as f:
            data = f.read()
        path = os.path.join(self.dir, "cut.npz")
        step = max(1, len(data) // 150)
        ends = set(range(0, len(data), step)) | set(range(len(data) - 400, len(data), 7)) | set(range(0, 200, 9))
        for n in sorted(ends):
            with open(path, "wb") as f:
                f.write(data[:n])
            self.failed(self.quantize(path), "cut.npz", codes=(3,))
        self.left(None)

    def test_every_flip_in_the_data(self):
        """One changed bit in the values of any member is found, stored or deflated, kept or quantized."""
        path = os.path.join(self.dir, "flip.npz")
        r = random.Random(3)
        for method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            write_npz(path, [(64, 100), (3, 5), (64, 70)], method)
            with open(path, "rb") as f:
                data = f.read()
            with zipfile.ZipFile(path) as z:
                spans = []
                for i in z.infolist():
                    start = i.header_offset + 30 + sum(struct.unpack_from("<HH", data, i.header_offset + 26))
                    spans.append((start, start + i.compress_size))
            for start, end in spans:
                for at in {start + 200 if end - start > 300 else end - 1, end - 1, r.randrange(start, end), start}:
                    bad = bytearray(data)
                    bad[at] ^= 1 << r.randrange(8)
                    with open(path, "wb") as f:
                        f.write(bad)
                    old = self.older(r.random() < 0.5)
                    result = self.quantize(path)
                    if result[0] == 0 and at == end - 1 and method == zipfile.ZIP_DEFLATED:
                        with zipfile.ZipFile(path) as z:  # the unused bits after the end of the stream
                            self.assertIsNone(z.testzip())
                        continue
                    self.failed(result, "flip.npz", codes=(3,))
                    self.left(old)

    def test_damaged_last_member(self):
        with open(self.large, "rb") as f:
            data = bytearray(f.read())
        with zipfile.ZipFile(self.large) as z:
            last = z.infolist()[-1]
        data[last.header_offset + last.file_size - 100] ^= 4
        path = os.path.join(self.dir, "last.npz")
        with open(path, "wb") as f:
            f.write(data)
        for there in (False, True):
            old = self.older(there)
            self.failed(self.quantize(path), "last.npz", codes=(3,))
            self.left(old)
        code, err = self.run_it("quantize", "--int8", path, "-o", "-")
        self.failed((code, err), "last.npz", codes=(3,))
        self.nothing_else()

    def test_truncated_while_reading(self):
        """The file shrinks under the program: a sentence, no SIGBUS."""
        path = os.path.join(self.dir, "shrink.npz")
        r = random.Random(5)
        hits = 0
        for _ in range(12):
            shutil.copy(self.large, path)
            old = self.older(r.random() < 0.5)
            p = self.start("quantize", "--int8", "--force", "--threads", "1", path, "-o", self.out)
            time.sleep(r.random() * self.seconds)
            os.truncate(path, r.randrange(0, os.path.getsize(path) // 2))
            err = p.communicate(timeout=60)[1].decode()
            if p.returncode == 0:
                self.assertEqual(digest(self.out), self.expected[self.large])
            else:
                hits += 1
                self.failed((p.returncode, err), "shrink.npz", codes=(3, 4))
                self.left(old)
        self.assertGreater(hits, 0)

    # ---- output -----------------------------------------------------------------------------------------------------
    def test_outputs_that_cannot_be(self):
        os.mkdir(os.path.join(self.dir, "folder"))
        with open(os.path.join(self.dir, "file"), "w") as f:
            f.write("x")
        for out in ("folder", "folder/", "missing/o.npz", "file/o.npz", "n" * 300 + ".npz"):
            for source in (self.small, self.large):
                self.failed(self.quantize(source, os.path.join(self.dir, out)), out.split("/")[0][:30], codes=(2, 4))
                self.left()
        self.assertEqual(os.listdir(os.path.join(self.dir, "folder")), [])
        self.failed(self.quantize(self.small, ""), codes=(2, 4))

    def test_long_legal_name(self):
        """A name of 255 bytes leaves no room for a suffix."""
        out = os.path.join(self.out_dir, "n" * 251 + ".npz")
        self.assertEqual(self.quantize(self.small, out), (0, ""))
        self.assertEqual(digest(out), self.expected[self.small])
        os.unlink(out)
        self.left()

    def test_output_is_the_input(self):
        source = os.path.join(self.dir, "in.npz")
        os.mkdir(os.path.join(self.dir, "sub"))
        for how in ("same", "dot", "dotdot", "hardlink", "symlink", "relative"):
            shutil.copy(self.small, source)
            other = os.path.join(self.dir, "other.npz")
            if os.path.lexists(other):
                os.unlink(other)
            if how == "hardlink":
                os.link(source, other)
            elif how == "symlink":
                os.symlink("in.npz", other)
            out = {"same": source, "dot": os.path.join(self.dir, ".", "in.npz"), "hardlink": other, "symlink": other,
                   "dotdot": os.path.join(self.dir, "sub", "..", "in.npz"), "relative": "in.npz"}[how]
            result = self.quantize(source, out, cwd=self.dir)
            self.failed(result, "in.npz", "other.npz", codes=(2, 4))
            self.assertEqual(digest(source), self.inputs[self.small], how)
            self.nothing_else()

    def test_output_symlinks(self):
        """A link at the output's place: whatever is done, reading it afterwards gives old or new, whole."""
        target = os.path.join(self.out_dir, "real.npz")
        for to in ("real.npz", "nowhere.npz", "o.npz"):
            old = self.older(False)
            if to == "real.npz":
                shutil.copy(self.small, target)
            os.symlink(to, self.out)
            code, err = self.quantize(self.small)
            if code == 0:
                self.assertEqual(digest(self.out), self.expected[self.small])
                if to == "real.npz":
                    self.assertIn(digest(target), (self.inputs[self.small], self.expected[self.small]))
            else:
                self.failed((code, err), "o.npz", to, codes=(2, 4))
            for n in ("real.npz", "nowhere.npz"):
                if os.path.lexists(os.path.join(self.out_dir, n)):
                    os.unlink(os.path.join(self.out_dir, n))
            self.nothing_else()
        self.assertIsNone(old)

    def test_no_overwrite_without_force(self):
        old = self.older(True)
        self.failed(self.run_it("quantize", "--int8", self.small, "-o", self.out), "o.npz", codes=(2, 4))
        self.left(old)

    def test_mode_follows_umask(self):
        for mask in (0o022, 0o077, 0o002):
            self.older(False)
            self.assertEqual(self.quantize(self.small, prepare=lambda: os.umask(mask) and None), (0, ""))
            self.assertEqual(os.stat(self.out).st_mode & 0o777, 0o666 & ~mask)

    def as_nobody(self):
        if not ROOT:
            return lambda: None
        if not os.access(os.path.dirname(PROGRAM), os.X_OK):
            self.skipTest("the program is not readable for others")
        probe = subprocess.run([PROGRAM, "--version"], capture_output=True, preexec_fn=self.drop) if ROOT else None
        if probe is None or probe.returncode != 0:
            self.skipTest("the program cannot be run without root's rights")
        return self.drop

    @staticmethod
    def drop():
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)

    def test_read_only_folder(self):
        try:
            prepare = self.as_nobody()
        except (PermissionError, subprocess.SubprocessError):
            self.skipTest("the program cannot be run without root's rights")
        for there in (False, True):
            old = self.older(there)
            os.chmod(self.out_dir, 0o555)
            result = self.quantize(self.small, prepare=prepare)
            os.chmod(self.out_dir, 0o777)
            self.failed(result, "o.npz", codes=(4,))
            self.left(old)

    def test_unreadable_input(self):
        try:
            prepare = self.as_nobody()
        except (PermissionError, subprocess.SubprocessError):
            self.skipTest("the program cannot be run without root's rights")
        path = os.path.join(self.dir, "secret.npz")
        shutil.copy(self.small, path)
        os.chmod(path, 0)
        self.failed(self.quantize(path, prepare=prepare), "secret.npz", codes=(4,))
        self.left()

    def mount(self, options):
        if not ROOT:
            self.skipTest("mounting a small file system needs root")
        if subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", self.out_dir],
                          capture_output=True).returncode != 0:
            self.skipTest("mounting is not allowed here")
        self.addCleanup(subprocess.run, ["umount", "-l", self.out_dir], capture_output=True)

    def test_full_disk(self):
        need = self.expected[self.large, "size"]
        for share in (0.001, 0.3, 0.97):
            for there in (False, True):
                self.mount("size=%d,mode=777" % (int(need * share) + 8192))
                old = self.older(there)
                self.failed(self.quantize(self.large), "o.npz", codes=(4,))
                self.left(old)
                subprocess.run(["umount", self.out_dir], check=True)

    def test_full_disk_with_masks(self):
        """The pruned weights and their masks are outputs of one run: both are there, or neither."""
        masks = os.path.join(self.out_dir, "m.npz")
        need = os.path.getsize(self.large)
        for share in (0.5, 0.98, 1.02):  # the last has room for the weights alone
            self.mount("size=%d,mode=777" % (int(need * share) + 8192))
            old = self.older(True)
            self.failed(self.run_it("prune", "--sparsity", "0.5", "--force", self.large, "-o", self.out, "--mask-out", masks),
                        "o.npz", "m.npz", codes=(4,))
            self.left(old)
            subprocess.run(["umount", self.out_dir], check=True)

    def test_full_disk_without_layers(self):
        """A folder from which a layer is left out is there with its config.json, or not at all."""
        source, out = os.path.join(self.dir, "layers"), os.path.join(self.out_dir, "o")
        os.makedirs(source)
        header = {"h.%d.w" % k: {"dtype": "F32", "shape": [256, 1024], "data_offsets": [k << 20, (k + 1) << 20]} for k in range(3)}
        text = json.dumps(header).encode()
        with open(os.path.join(source, "model.safetensors"), "wb") as f:
            f.write(struct.pack("<Q", len(text)) + text + bytes(3 << 20))
        with open(os.path.join(source, "config.json"), "w") as f:
            f.write('{"n_layer": 3}')
        for size in (8192, 1 << 20, 2 << 20):
            self.mount("size=%d,mode=777" % size)
            self.failed(self.run_it("prune", "--drop-layers", "1", source, "-o", out), codes=(4,))
            self.assertEqual(os.listdir(self.out_dir), [])
            subprocess.run(["umount", self.out_dir], check=True)

    def test_full_disk_without_units(self):
        """Rows that go, experts that go and are renumbered, config.json that follows: all of it, or nothing."""
        source, out = os.path.join(self.dir, "model"), os.path.join(self.out_dir, "o")
        os.makedirs(source)
        shapes = {"router": [4, 256]}
        for k in range(4):
            shapes.update({"experts.%d.a" % k: [512, 256], "experts.%d.b" % k: [256, 512]})
        header, at = {}, 0
        for name, shape in shapes.items():
            header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [at, at + 4 * shape[0] * shape[1]]}
            at += 4 * shape[0] * shape[1]
        text = json.dumps(header).encode()
        with open(os.path.join(source, "model.safetensors"), "wb") as f:
            f.write(struct.pack("<Q", len(text)) + text + array.array("f", (random.Random(1).random() for _ in range(at // 16))).tobytes() * 4)
        with open(os.path.join(source, "config.json"), "w") as f:
            f.write('{"num_experts": 4, "moe_intermediate_size": 512}')
        couplings = os.path.join(self.dir, "c.txt")
        with open(couplings, "w") as f:
            f.write("experts: router:0 = " + " = ".join("experts.%d.%s@%d" % (k, p, k) for k in range(4) for p in "ab") + "\n")
            f.writelines("experts.%d.a:0 = experts.%d.b:1\n" % (k, k) for k in range(4))
        removal = ["prune", "--structured", "0.25", "--dims", "neurons,experts", "--couplings", couplings, "--score", "l1", source]
        for size in (8192, 1 << 20, 2 << 20):
            self.mount("size=%d,mode=777" % size)
            self.failed(self.run_it(*removal, "-o", out), codes=(4,))
            self.assertEqual(os.listdir(self.out_dir), [])
            subprocess.run(["umount", self.out_dir], check=True)
        self.assertEqual(self.run_it(*removal, "-o", out), (0, ""))
        with open(os.path.join(out, "config.json")) as f:
            self.assertEqual(json.load(f), {"num_experts": 3, "moe_intermediate_size": 384})

    def write_net(self, rows):
        """A network of one layer, and rows for it: what distill and logits need."""
        write_npz(os.path.join(self.dir, "net.npz"), [(4, 6)])
        write_npz(os.path.join(self.dir, "rows.npz"), [(rows, 6)])
        with open(os.path.join(self.dir, "net.txt"), "w") as f:
            f.write("input x [batch, 6]\nlinear layer.0 4 bias=no\n")
        return ["--graph", os.path.join(self.dir, "net.txt"), "--data", os.path.join(self.dir, "rows.npz")]

    def test_full_disk_with_logits(self):
        net = self.write_net(20000)
        for size in (8192, 200000):
            self.mount("size=%d,mode=777" % size)
            old = self.older(True)
            self.failed(self.run_it("logits", *net, os.path.join(self.dir, "net.npz"), "--force", "-o", self.out),
                        "o.npz", codes=(4,))
            self.left(old)
            subprocess.run(["umount", self.out_dir], check=True)

    def test_full_disk_with_checkpoints(self):
        """There is room for one checkpoint: the second is told, the first one stays, and the run goes on to its end."""
        net = self.write_net(100)
        teacher = os.path.join(self.dir, "teacher.npz")
        with zipfile.ZipFile(teacher, "w") as z:
            z.writestr("layer.0.weight.npy", npy(4, 6, 7))
        self.mount("size=8192,mode=777")
        with open(os.path.join(self.out_dir, "filler"), "wb") as f:
            f.write(bytes(8192 - 4096))
        run = ["distill", *net, "--teacher", teacher, "--student", os.path.join(self.dir, "net.npz"), "--steps", "4"]
        out = os.path.join(self.dir, "out.npz")
        state = os.path.join(self.out_dir, "o.npz")
        p = subprocess.run([PROGRAM, *run, "--checkpoint", state, "--checkpoint-every", "2", "-o", out], capture_output=True, text=True)
        self.assertEqual((p.returncode, p.stderr), (0, ""))
        self.assertIn("1 checkpoint could not be written; the last: step 4: ", p.stdout)
        self.assertEqual(sorted(os.listdir(self.out_dir)), ["filler", "o.npz"])
        for more in [], ["--resume", state]:
            again = out + "%d.npz" % len(more)
            self.assertEqual(self.run_it(*run, *more, "-o", again), (0, ""))
            self.assertEqual(digest(out), digest(again))
        subprocess.run(["umount", self.out_dir], check=True)

    def test_disk_that_fills_during_the_training(self):
        """The room of the output is held from the beginning: somebody who takes all the rest does not take the weights."""
        net = self.write_net(50)
        teacher = os.path.join(self.dir, "teacher.npz")
        with zipfile.ZipFile(teacher, "w") as z:
            z.writestr("layer.0.weight.npy", npy(4, 6, 7))
        run = ["distill", *net, "--teacher", teacher, "--student", os.path.join(self.dir, "net.npz"), "--steps", "2000"]
        whole = os.path.join(self.dir, "whole.npz")
        self.assertEqual(self.run_it(*run, "-o", whole), (0, ""))
        self.mount("size=64k,mode=777")
        log = os.path.join(self.dir, "pipe")
        os.mkfifo(log)
        with subprocess.Popen([PROGRAM, *run, "-q", "-o", self.out, "--log", log], stderr=subprocess.PIPE) as p:
            with open(log, "rb") as lines:
                self.assertIn(b'"step": 1,', lines.readline())  # it trains; a pipe does not hold 2000 lines
                with open(os.path.join(self.out_dir, "filler"), "wb", buffering=0) as f:
                    with self.assertRaisesRegex(OSError, "No space left"):
                        while True:
                            f.write(bytes(4096))
                lines.read()
            self.assertEqual((p.wait(60), p.stderr.read()), (0, b""))
        self.assertEqual(digest(self.out), digest(whole))
        self.assertEqual(sorted(os.listdir(self.out_dir)), ["filler", "o.npz"])
        rc, err = self.run_it(*run, "-o", os.path.join(self.out_dir, "p.npz"), "--log", os.path.join(self.dir, "log"))  # told before the first step
        self.assertEqual(rc, 4)
        self.assertRegex(err, "p.npz: needs [0-9]+ bytes, but its folder has only [0-9]+ free")
        self.assertFalse(os.path.exists(os.path.join(self.dir, "log")))
        subprocess.run(["umount", self.out_dir], check=True)

    def test_full_disk_beside_the_output(self):
        """No room for the log, the gradients, the page or the document: told as what it is, and no half of them is left."""
        net = self.write_net(200)
        teacher = os.path.join(self.dir, "teacher.npz")
        with zipfile.ZipFile(teacher, "w") as z:
            z.writestr("layer.0.weight.npy", npy(4, 6, 7))
        run = ["distill", *net, "--teacher", teacher, "--student", os.path.join(self.dir, "net.npz"), "--steps", "50"]
        whole = os.path.join(self.dir, "whole.npz")
        self.assertEqual(self.run_it(*run, "-o", whole), (0, ""))
        self.mount("size=8192,mode=777")
        with open(os.path.join(self.out_dir, "filler"), "wb") as f:
            f.write(bytes(4096))
        beside = os.path.join(self.out_dir, "beside")
        for k, more in enumerate((["--log", beside], ["--html", beside], ["--dump-gradients", beside + ".npz"], ["--log", "/dev/full"],
                                  ["--html", "/dev/full"], ["--json=/dev/full"])):
            out = os.path.join(self.dir, "o%d.npz" % k)
            old = b""
            if more[0] == "--html" and more[1] == beside:  # an older page stays as it was
                old = b"<!DOCTYPE html>\n<!-- vcompress -->\n"
                with open(beside, "wb") as f:
                    f.write(old)
            if more[0] == "--dump-gradients":
                with open(os.path.join(self.out_dir, "filler"), "ab") as f:
                    f.write(bytes(4096))
            rc, err = self.run_it(*run, *more, "-o", out)
            self.assertEqual((rc, err.count("\n")), (4, 1), err)
            self.assertRegex(err, "No space left on device|has only 0 free")
            self.assertIn(more[-1].replace("--json=", ""), err)
            if more[0] == "--dump-gradients":  # its space is looked at first
                self.assertFalse(os.path.exists(out))
            else:  # the network is written: the hours of training are not lost
                self.assertEqual(digest(out), digest(whole))
            if os.path.exists(beside):
                with open(beside, "rb") as f:
                    text = f.read()
                if old:
                    self.assertEqual(text, old)
                else:  # the log as far as there was room
                    self.assertEqual(text[:10], b'{"step": 1')
                os.remove(beside)
            self.assertEqual(os.listdir(self.out_dir), ["filler"])
        subprocess.run(["umount", self.out_dir], check=True)

    def test_disk_too_full_by_a_little(self):
        """Deflated output is not known beforehand: the space runs out in the middle."""
        self.mount("size=2m,mode=777")
        old = self.older(True)
        self.failed(self.run_it("quantize", "--int8", "--force", "--deflate", self.large, "-o", self.out), "o.npz",
                    codes=(4,))
        self.left(old)

    def test_full_device(self):
        if os.path.exists("/dev/full"):
            with open("/dev/full", "wb") as full:
                self.failed(self.run_it("quantize", "--int8", self.large, "-o", "-", stdout=full), codes=(4,))
                self.failed(self.run_it("quantize", "--int8", "--json", self.small, "-o", self.out, stdout=full),
                            codes=(4,))
        self.assertIn(digest(self.out), (None, self.expected[self.small]))
        self.nothing_else()

    # ---- limits -----------------------------------------------------------------------------------------------------
    def test_file_size_limit(self):
        need = self.expected[self.large, "size"]
        for limit in (0, 1, 1 << 16, need // 2, need - 1):
            for there in (False, True):
                old = self.older(there)
                self.failed(self.quantize(self.large, limits=[(resource.RLIMIT_FSIZE, limit)]), "o.npz", "large.npz",
                            codes=(4,))
                self.left(old)

    @unittest.skipIf(SANITIZED, "sanitizers need all of the address space")
    def test_address_space_limit(self):
        def starts(n):
            try:
                return self.run_it("--version", limits=[(resource.RLIMIT_AS, n)])[0] == 0
            except subprocess.SubprocessError:
                return False
        low, high = 1 << 20, 1 << 33
        while high - low > 1 << 18:
            middle = (low + high) // 2
            low, high = (low, middle) if starts(middle) else (middle, high)
        wins = 0
        for add in [1 << k for k in range(18, 33)] + [3 << k for k in range(18, 30)]:
            old = self.older(add & 1 << 20)
            result = self.quantize(self.large, limits=[(resource.RLIMIT_AS, high + add)])
            if result[0] == 0:
                wins += 1
                self.assertEqual(digest(self.out), self.expected[self.large])
                self.nothing_else()
            else:
                self.failed(result, codes=(4,))
                self.left(old)
        self.assertGreater(wins, 3)

    def test_open_files_limit(self):
        wins = 0
        for n in (3, 4, 5, 6, 7, 8, 10, 16):
            if self.run_it("--version", limits=[(resource.RLIMIT_NOFILE, n)])[0] != 0:
                continue
            old = self.older(n % 2)
            result = self.quantize(self.large, limits=[(resource.RLIMIT_NOFILE, n)])
            if result[0] == 0:
                wins += 1
                self.assertEqual(digest(self.out), self.expected[self.large])
                self.nothing_else()
            else:
                self.failed(result, codes=(4,))
                self.left(old)
        self.assertGreater(wins, 0)

    def test_no_threads(self):
        """Where the system refuses threads, the work is done with those it gives."""
        if ROOT:
            self.skipTest("the limit on processes does not hold for root")
        self.assertEqual(self.quantize(self.large, limits=[(resource.RLIMIT_NPROC, 0)]), (0, ""))
        self.assertEqual(digest(self.out), self.expected[self.large])

    # ---- standard streams -------------------------------------------------------------------------------------------
    def test_closed_streams(self):
        """With 0, 1 or 2 closed, a file of ours can get that number; the report must not end up in it."""
        for closed in ((0,), (1,), (2,), (0, 1), (1, 2), (0, 1, 2)):
            for there in (False, True):
                old = self.older(there)

                def prepare(numbers=closed):
                    for n in numbers:
                        os.close(n)
                p = subprocess.Popen([PROGRAM, "quantize", "--int8", "--force", self.small, "-o", self.out],
                                     env=dict(os.environ, TMPDIR=self.tmp), preexec_fn=prepare,
                                     stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                code = p.wait(timeout=60)
                self.assertIn(code, (0, 4), closed)
                if code == 0:
                    self.assertEqual(digest(self.out), self.expected[self.small], closed)
                else:
                    self.assertIn(digest(self.out), (old, self.expected[self.small]), closed)
                self.nothing_else()
        p = subprocess.run([PROGRAM, "quantize", "--int8", os.path.join(self.dir, "none.npz")],
                           preexec_fn=lambda: os.close(2), stdout=subprocess.DEVNULL)
        self.assertEqual(p.returncode, 4)

    def test_reader_goes_away(self):
        """-o - into a pipe whose reader closes early: ends by SIGPIPE, without a word, as other programs do."""
        for take in (0, 1, 100, 1 << 20):
            p = self.start("quantize", "--int8", self.large, "-o", "-", stdout=subprocess.PIPE)
            p.stdout.read(take)
            p.stdout.close()
            err = p.stderr.read().decode()
            p.stderr.close()
            self.assertEqual((p.wait(timeout=60), err), (-signal.SIGPIPE, ""))
            self.nothing_else()

    def test_input_pipe_that_ends_early(self):
        with open(self.large, "rb") as f:
            data = f.read(3 << 20)
        p = self.start("quantize", "--int8", "-", "-o", self.out, stdin=subprocess.PIPE)
        err = p.communicate(data, timeout=60)[1].decode()
        self.failed((p.returncode, err), codes=(3,))
        self.left()

    # ---- signals and company ----------------------------------------------------------------------------------------
    def test_signals(self):
        """TERM, INT, HUP and KILL at random moments, more of them around the end. A machine that was busy when the time was
        measured may be faster now: waits become shorter where the command had ended before its signal."""
        r = random.Random(7)
        hits = 0
        seconds = self.seconds
        for sig in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGKILL):
            for k in range(16):
                old = self.older(r.random() < 0.7)
                p = self.start("quantize", "--int8", "--force", *(["--deflate"] if k % 4 == 3 else []), self.large,
                               "-o", self.out, limits=[])
                time.sleep(seconds * (r.random() if k % 2 else 0.7 + 0.4 * r.random()))
                p.send_signal(sig)
                err = p.communicate(timeout=30)[1].decode()
                if p.returncode == 0:
                    self.assertNotEqual(digest(self.out), old, (sig, k, err, os.listdir(self.dir), os.listdir(self.tmp)))
                    self.nothing_else()
                    seconds *= 0.8
                    continue
                hits += 1
                seconds = min(self.seconds, 1.05 * seconds)
                self.assertIn(p.returncode, (-sig, 128 + sig), err)
                if sig == signal.SIGKILL:
                    self.assertIn(digest(self.out), (old, self.expected[self.large]))
                    self.nothing_else(strays=1)
                    for d in (self.out_dir, self.tmp):
                        for n in os.listdir(d):
                            os.unlink(os.path.join(d, n))
                else:
                    # The rename may have been done already when the signal came.
                    self.assertIn(digest(self.out), (old, self.expected[self.large]))
                    self.nothing_else()
        self.assertGreater(hits, 16)

    def test_ignored_interrupt(self):
        """nohup and background jobs: a signal that was ignored at the start stays ignored."""
        def prepare():
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            signal.signal(signal.SIGHUP, signal.SIG_IGN)
        p = self.start("quantize", "--int8", self.large, "-o", self.out, prepare=prepare)
        time.sleep(self.seconds / 3)
        p.send_signal(signal.SIGINT)
        p.send_signal(signal.SIGHUP)
        err = p.communicate(timeout=60)[1]
        self.assertEqual((p.returncode, err), (0, b""))
        self.assertEqual(digest(self.out), self.expected[self.large])

    def test_after_a_kill(self):
        """What SIGKILL left behind does not disturb the next run."""
        for _ in range(6):
            p = self.start("quantize", "--int8", "--force", self.large, "-o", self.out)
            time.sleep(self.seconds * 0.6)
            p.kill()
            p.communicate()
        self.assertEqual(self.quantize(self.large), (0, ""))
        self.assertEqual(digest(self.out), self.expected[self.large])

    def test_concurrent_runs(self):
        """Several runs to one output: it is what one of them wrote, whole."""
        for _ in range(4):
            self.older(False)
            runs = [self.start("quantize", "--int8", "--force", s, "-o", self.out)
                    for s in (self.large, self.small, self.large)]
            codes = [(p.communicate(timeout=60)[1], p.returncode) for p in runs]
            self.assertIn((b"", 0), codes)
            for err, code in codes:
                self.assertIn(code, (0, 2, 4), err)
            self.assertIn(digest(self.out), (self.expected[self.large], self.expected[self.small]))
            self.nothing_else()

    def test_only_one_wins_without_force(self):
        for _ in range(4):
            self.older(False)
            runs = [self.start("quantize", "--int8", self.small, "-o", self.out) for _ in range(4)]
            codes = sorted((p.communicate(timeout=60), p.returncode)[1] for p in runs)
            self.assertEqual(codes[0], 0, codes)
            self.assertEqual(digest(self.out), self.expected[self.small])
            self.nothing_else()

    def test_stop_and_continue(self):
        p = self.start("quantize", "--int8", self.large, "-o", self.out)
        threading.Timer(0.3, lambda: p.send_signal(signal.SIGCONT)).start()
        time.sleep(self.seconds / 3)
        p.send_signal(signal.SIGSTOP)
        self.assertEqual((p.communicate(timeout=60)[1], p.returncode), (b"", 0))
        self.assertEqual(digest(self.out), self.expected[self.large])


if __name__ == "__main__":
    if not os.path.isfile(PROGRAM):
        print("set VCOMPRESS_PROGRAM to the vcompress program")
        sys.exit(2)
    unittest.main()
