"""judge_support.py - what the NumPy tests share: running vcompress, writing odd archives, looking at its own.

Not a test itself. NumPy and Python's zipfile are the judges; nothing here knows how vcompress works inside.
The program under test is $VCOMPRESS_PROGRAM (CTest sets it), or the first argument that names a file.
Without NumPy every test that imports this exits with 77, which CTest shows as skipped.
"""
import io
import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest
import zipfile

try:
    import numpy as np
except ImportError:
    print("SKIPPED: NumPy is not installed for %s (Debian: python3-numpy)" % sys.executable)
    sys.exit(77)

if len(sys.argv) > 1 and os.path.isfile(sys.argv[1]):
    PROGRAM = os.path.abspath(sys.argv.pop(1))
else:
    PROGRAM = os.environ.get("VCOMPRESS_PROGRAM", "")
SOURCE_DIR = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MANIFEST = "vcompress.json"
SMALL = ("--min-elements", "1", "--min-row", "1")  # quantize everything that can be


class Result:
    """What one run of the program left: exit status, stdout (bytes) and stderr (text)."""

    def __init__(self, done):
        self.code = done.returncode
        self.out = done.stdout
        self.err = done.stderr.decode("utf-8", "replace")

    def json(self):
        return json.loads(self.out.decode("utf-8"))


def run(*args, stdin=b"", env=None, cwd=None, timeout=120):
    settings = dict(os.environ, LC_ALL="C")
    settings.update(env or {})
    done = subprocess.run([PROGRAM] + [str(a) for a in args], input=stdin, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, env=settings, cwd=cwd, timeout=timeout)
    return Result(done)


class Judge(unittest.TestCase):
    """A test case with a scratch folder and the assertions that hold for every run."""

    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="judge-")
        self.addCleanup(shutil.rmtree, self.dir, ignore_errors=True)

    def path(self, name):
        return os.path.join(self.dir, name)

    def vc(self, *args, **kwargs):
        """Runs the program; it has to succeed and to say nothing on stderr."""
        r = run(*args, **kwargs)
        self.assertEqual((r.code, r.err), (0, ""), "vcompress " + " ".join(map(str, args)))
        return r

    def refuse(self, code, *args, **kwargs):
        """Runs the program; it has to fail with that status and one line, which is returned."""
        r = run(*args, **kwargs)
        said = "vcompress %s: %s" % (" ".join(map(str, args)), r.err)
        self.assertEqual(r.code, code, said)
        self.assertEqual(r.err.count("\n"), 1, said)
        self.assertTrue(r.err.startswith("vcompress: "), said)
        return r.err

    def load(self, path):
        """The arrays of an archive by name, after a look at the archive as a whole."""
        self.check_archive(path)
        with np.load(path) as z:
            return {n: z[n] for n in z.files if n != MANIFEST}

    def manifest(self, path):
        with zipfile.ZipFile(path) as z:
            return json.loads(z.read(MANIFEST).decode("utf-8"))

    def check_archive(self, path, deflated=False):
        """CRCs, alignment of stored members, no time stamps, no name twice."""
        with zipfile.ZipFile(path) as z:
            self.assertIsNone(z.testzip(), path)
            infos = z.infolist()
        names = [i.filename for i in infos]
        self.assertEqual(len(names), len(set(names)), "a member name occurs twice")
        with open(path, "rb") as f:
            for i in infos:
                f.seek(i.header_offset)
                local = f.read(30)
                self.assertEqual(local[:4], b"PK\3\4")
                name_len, extra_len = struct.unpack("<HH", local[26:30])
                if i.compress_type == zipfile.ZIP_STORED:
                    start = i.header_offset + 30 + name_len + extra_len
                    self.assertEqual(start % 64, 0, "member %s starts at %d" % (i.filename, start))
                elif not deflated:
                    self.fail("member %s is compressed" % i.filename)
                self.assertEqual(i.date_time, (1980, 1, 1, 0, 0, 0), "time stamp of " + i.filename)

    def same_bits(self, a, b, what=""):
        """Equal dtype, shape and bits: -0 is not +0 here, and a NaN equals itself."""
        self.assertEqual(a.dtype, b.dtype, what)
        self.assertEqual(a.shape, b.shape, what)
        if a.tobytes() != b.tobytes():
            av = np.ascontiguousarray(a).reshape(-1).view("u%d" % a.dtype.itemsize)
            bv = np.ascontiguousarray(b).reshape(-1).view("u%d" % b.dtype.itemsize)
            where = np.flatnonzero(av != bv)
            k = where[0]
            self.fail("%s: %d of %d elements differ, the first at %d: %r and %r"
                      % (what, where.size, av.size, k, a.reshape(-1)[k], b.reshape(-1)[k]))

    def close(self, found, expected, what="", rel=1e-9):
        if expected is None or found is None:
            self.assertEqual(found, expected, what)
        elif not np.isfinite(expected):
            self.assertEqual(found, expected, what)
        else:
            self.assertLessEqual(abs(found - expected), rel * max(abs(expected), 1e-300),
                                 "%s: %r, not %r" % (what, found, expected))

    def no_strays(self, *allowed):
        self.assertEqual(sorted(os.listdir(self.dir)), sorted(allowed))


def npy_bytes(a, version=None):
    f = io.BytesIO()
    np.lib.format.write_array(f, a, version=version)
    return f.getvalue()


def write_members(path, members, method=zipfile.ZIP_STORED, comment=b"", force_zip64=False):
    """An archive from a list of (member name, bytes), as Python's zipfile writes it."""
    with zipfile.ZipFile(path, "w", method) as z:
        for name, data in members:
            with z.open(zipfile.ZipInfo(name, (2001, 2, 3, 4, 5, 6)) if not method else name, "w",
                        force_zip64=force_zip64) as f:
                f.write(data)
        z.comment = comment


def member_bytes(path):
    """Content of every member by its name in the archive."""
    with zipfile.ZipFile(path) as z:
        return {n: z.read(n) for n in z.namelist()}


def sha(path):
    import hashlib
    with open(path, "rb") as f:
        return hashlib.sha256(f.read()).hexdigest()


def write_bytes(path, data):
    with open(path, "wb") as f:
        f.write(data)


def read_bytes(path):
    with open(path, "rb") as f:
        return f.read()


def main():
    if not os.path.isfile(PROGRAM):
        print("set VCOMPRESS_PROGRAM to the vcompress program")
        sys.exit(2)
    unittest.main(argv=[sys.argv[0]] + sys.argv[1:])
