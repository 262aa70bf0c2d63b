"""test_changed.py - an input that is changed while it is read is an error, in every format: nothing is written.

The program is stopped (SIGSTOP) as soon as it has the file open, the file is changed where its size stays the same,
and the program goes on. Values, checksums and sizes may be right then; only the time of the last change tells.

And folders, whose runs are killed: what they leave is removed by the next one.
"""
import json
import os
import random
import shutil
import signal
import struct
import sys
import time
import unittest

from test_faults import Faults as Base
from test_faults import PROGRAM, digest, npy

TENSORS = 6
ROWS, COLUMNS = 1024, 1024


def floats(seed):
    return npy(ROWS, COLUMNS, seed)[-4 * ROWS * COLUMNS:]


def safetensors(tensors):
    header, at = {}, 0
    for name, data in tensors.items():
        header[name] = {"dtype": "F32", "shape": [ROWS, COLUMNS], "data_offsets": [at, at + len(data)]}
        at += len(data)
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + b"".join(tensors.values())


def field(number, value):
    """A field of a protocol buffer: a number, or bytes."""
    def varint(n):
        out = b""
        while n > 127:
            out += bytes([n & 127 | 128])
            n >>= 7
        return out + bytes([n])
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def onnx(tensors, location):
    """A model whose initializers lie in another file, one behind the other."""
    graph, at = field(2, b"g"), 0
    for name, data in tensors.items():
        entries = b"".join(field(13, field(1, k) + field(2, v)) for k, v in
                           ((b"location", location.encode()), (b"offset", b"%d" % at), (b"length", b"%d" % len(data))))
        graph += field(5, field(1, ROWS) + field(1, COLUMNS) + field(2, 1) + field(8, name.encode()) + entries +
                       field(14, 1))
        at += len(data)
    return field(1, 8) + field(7, graph) + field(8, field(1, b"") + field(2, 17))


class Changed(Base):
    to_change = None  # a file beside the one that the program has open

    def save(self, name, data):
        path = os.path.join(self.dir, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as f:
            f.write(data)
        return path

    @classmethod
    def weights(cls):
        return {"layer.%d.weight" % k: floats(k) for k in range(TENSORS)}

    def change(self, path):
        """Eight bytes in the middle are written again, as they were."""
        path = self.to_change or path
        with open(path, "r+b") as f:
            f.seek(os.path.getsize(path) // 2)
            same = f.read(8)
            f.seek(-len(same), os.SEEK_CUR)
            f.write(same)

    def has_open(self, p, path):
        try:
            return any(os.path.realpath("/proc/%d/fd/%s" % (p.pid, n)) == path
                       for n in os.listdir("/proc/%d/fd" % p.pid))
        except OSError:
            return False

    def disturbed(self, path, *args):
        """Runs the program; changes the file once it is open and before the program ends. It may have looked at the file
        for the last time already and be naming its output: then it is run again, ten times at most."""
        late = 0
        before = set(os.listdir(self.out_dir))
        for _ in range(200):
            p = self.start(*args)
            while p.poll() is None and not self.has_open(p, path):
                time.sleep(0.0005)
            if p.poll() is None:
                p.send_signal(signal.SIGSTOP)
                os.waitid(os.P_PID, p.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
                hit = self.has_open(p, path)
                if hit:
                    self.change(path)
                p.send_signal(signal.SIGCONT)
            else:
                hit = False
            err = p.communicate(timeout=60)[1].decode()
            late += hit
            if hit and (p.returncode == 3 or late == 10):
                return p.returncode, err
            for name in set(os.listdir(self.out_dir)) - before:  # written by a run that was done
                done = os.path.join(self.out_dir, name)
                shutil.rmtree(done) if os.path.isdir(done) else os.unlink(done)
        self.fail("the program is too fast for this test")

    def expect(self, path, names, *args):
        result = self.disturbed(path, *args)
        self.failed(result, codes=(3,))
        self.assertIn("was changed while it was read", result[1])
        for name in names:
            self.assertIn(name, result[1])
        self.nothing_else()

    def files(self):
        """One file of every format: what is given, and the file that changes."""
        st = self.save("m.safetensors", safetensors(self.weights()))
        yield st, st
        yield (self.save("m.npy", npy(ROWS, TENSORS * COLUMNS, 1)),) * 2
        for name in ("m.npz", "m.pt", "m.gguf"):
            path = os.path.join(self.dir, name)
            self.assertEqual(self.run_it("convert", st, "-o", path), (0, ""))
            yield path, path
        data = self.save("m.data", b"".join(self.weights().values()))
        model = self.save("m.onnx", onnx(self.weights(), "m.data"))
        yield model, model
        yield model, data

    def test_every_format(self):
        for given, path in self.files():
            with self.subTest(path=path):
                out = os.path.join(self.out_dir, "o" + os.path.splitext(given)[1])
                how = "--fp16" if given.endswith(".npy") else "--int8"
                self.expect(path, {os.path.basename(given), os.path.basename(path)}, "quantize", how, "--threads",
                            "1", given, "-o", out)
                self.assertFalse(os.path.exists(out))

    def test_commands_that_only_read(self):
        path = self.save("m.safetensors", safetensors(self.weights()))
        other = self.save("n.safetensors", safetensors(self.weights()))
        for args in (("inspect", "--stats", path), ("verify", "--data", path), ("verify", "--against", other, path),
                     ("verify", "--against", path, other), ("diff", path, other), ("diff", other, path),
                     ("quantize", "--int8", path, "-o", "-")):
            with self.subTest(args=args):
                self.expect(path, {"m.safetensors"}, *args, "--threads", "1")

    def folder(self):
        names, index = list(self.weights()), {}
        for k, part in enumerate((names[:3], names[3:]), 1):
            file = "model-0000%d-of-00002.safetensors" % k
            self.save("in/" + file, safetensors({n: floats(k) for n in part}))
            index.update({n: file for n in part})
        self.save("in/model.safetensors.index.json", json.dumps({"weight_map": index}).encode())
        self.save("in/config.json", b'{"model_type": "llama"}')
        self.save("in/tokenizer.json", b"{}")
        return os.path.join(self.dir, "in")

    def test_killed_folders(self):
        """SIGKILL at random moments: the old folder or the new one is there, whole; a later run removes what was left.

        The clock starts when the run's own files appear; the longest delay follows the machine: longer after a run
        that was killed, shorter after one that was through.
        """
        folder, out = self.folder(), os.path.join(self.out_dir, "f")
        args = ("quantize", "--int8", "--force", "-q", folder, "-o", out)
        self.assertEqual(self.run_it(*args), (0, ""))

        def tree():
            return {n: digest(os.path.join(out, n)) for n in sorted(os.listdir(out))}
        whole = tree()
        r = random.Random(11)
        hits, delay = 0, 0.1
        for turn in range(400):  # 40, and more where most were through before the signal
            if turn >= 40 and hits > 5:
                break
            before = os.listdir(self.out_dir)
            p = self.start(*args)
            while p.poll() is None and os.listdir(self.out_dir) == before:
                pass
            time.sleep(delay * r.random())
            p.kill()
            p.communicate()
            if p.returncode:
                hits, delay = hits + 1, delay * 1.1
            else:
                delay *= 0.8
            self.assertEqual(tree(), whole)
        self.assertGreater(hits, 5)
        self.assertEqual(self.run_it(*args), (0, ""))
        self.assertEqual(os.listdir(self.out_dir), ["f"])
        self.assertEqual(tree(), whole)

    def test_folder(self):
        """A shard; and what goes along, which is read again at the end."""
        folder = self.folder()
        shard = os.path.join(folder, "model-00001-of-00002.safetensors")
        out = os.path.join(self.out_dir, "f")
        for changed in (shard, os.path.join(folder, "tokenizer.json")):
            with self.subTest(changed=changed):
                self.to_change = changed
                self.expect(shard, {os.path.basename(changed)}, "quantize", "--int8", "--threads", "1", folder, "-o",
                            out)
                self.assertFalse(os.path.exists(out))


if __name__ == "__main__":
    if not os.path.isfile(PROGRAM):
        print("set VCOMPRESS_PROGRAM to the vcompress program")
        sys.exit(2)
    unittest.TestLoader.getTestCaseNames = lambda self, case, names=unittest.TestLoader().getTestCaseNames: [
        n for n in names(case) if n in Changed.__dict__]
    unittest.main()
