"""test_shards.py - checkpoints that are folders: shards, their index, what goes along, workers, and what is refused.

The judges are json and struct, the reader of test_safetensors.py, and `safetensors` where it can be imported.
"""
import json
import os
import shutil
import signal
import subprocess
import time
import unittest

from judge_support import PROGRAM, Judge, main, np, read_bytes, run, write_bytes
from test_safetensors import safetensors, st_read, st_write

INDEX = "model.safetensors.index.json"
CARRIED = {"config.json": b'{"a":1,\n "torch_dtype": "float32", "x": 1e-06}\n', "tokenizer.json": b"{}", "LICENSE": b"x",
           "empty.txt": b"", "1_Pooling/config.json": b'{"b": 2}'}


def tree(folder):
    """The files of the folder, but for the mark, which lists them."""
    found = {}
    for at, _, names in os.walk(folder):
        for name in set(names) - {".vcompress.json"}:
            path = os.path.join(at, name)
            found[os.path.relpath(path, folder)] = read_bytes(path)
    return found


def weights(n_shards=3, per_shard=4, size=(64, 80)):
    rng = np.random.default_rng(5)
    return [{"m.layers.%d.w%d.weight" % (s, k): rng.standard_normal(size).astype(np.float32) for k in range(per_shard)}
            for s in range(n_shards)]


class Shards(Judge):
    def shard(self, k, n=3):
        return "model-%05d-of-%05d.safetensors" % (k, n)

    def make(self, name="in", n=3, extra=CARRIED, **more):
        folder = self.path(name)
        os.makedirs(os.path.join(folder, "1_Pooling"))
        index = {"metadata": {"total_size": 0}, "weight_map": {}}
        for k, arrays in enumerate(weights(n, **more), 1):
            st_write(os.path.join(folder, self.shard(k, n)),
                     [(t, "F32", a.shape, a.tobytes()) for t, a in arrays.items()], {"format": "pt"})
            for t, a in arrays.items():
                index["weight_map"][t] = self.shard(k, n)
                index["metadata"]["total_size"] += a.nbytes
        for file, data in extra.items():
            write_bytes(os.path.join(folder, file), data)
        self.write_index(folder, index)
        return folder, index

    def write_index(self, folder, index):
        write_bytes(os.path.join(folder, INDEX), json.dumps(index, indent=2, sort_keys=True).encode())

    def read(self, folder):
        """All tensors of a folder: name: (dtype, shape, bytes); the index is as Hugging Face writes it."""
        files = sorted(f for f in os.listdir(folder) if f.endswith(".safetensors"))
        tensors, where = {}, {}
        for file in files:
            if safetensors is not None:
                with safetensors.safe_open(os.path.join(folder, file), framework="np") as f:
                    self.assertEqual(f.metadata()["format"], "pt")
            for t, value in st_read(os.path.join(folder, file))[0].items():
                self.assertNotIn(t, tensors)
                tensors[t], where[t] = value, file
        index = {"metadata": {"total_size": sum(len(v[2]) for v in tensors.values())}, "weight_map": where}
        if len(files) > 1:
            self.assertEqual(read_bytes(os.path.join(folder, INDEX)).decode(),
                             json.dumps(index, indent=2, sort_keys=True) + "\n")
        return tensors, where

    def test_statistics_of_other_shards(self):
        """A shard without its neighbours is made, whatever the statistics of its own tensors lack."""
        folder, _ = self.make(n=2, extra={}, per_shard=1, size=(64, 64))
        os.remove(os.path.join(folder, self.shard(1, 2)))
        mine = "m.layers.1.w0.weight"
        for count in (0, 1):
            np.savez(self.path("s.npz"), **{mine + ".in_sum2": np.full(64, count, "f4"), mine + ".counts": np.full(1, count, "f4")})
            for use in (("quantize", "--int4"), ("prune", "--sparsity", "0.5", "--scope", "tensor", "--reconstruct")):
                done = self.vc(*use, "--calibration", self.path("s.npz"), "--shard", "2/2", folder, "-o", self.path("out%d%s" % (count, use[0])))
                self.assertEqual("of no input" in done.out.decode(), count == 0)

    def test_same_division(self):
        folder, index = self.make()
        before = tree(folder)
        self.vc("quantize", "--int8", "--layout", "plain", "-q", folder)
        out = self.path("in.int8")
        tensors, where = self.read(out)
        self.assertEqual({t: where[t + ".int8"] for t in index["weight_map"]}, index["weight_map"])
        for t in index["weight_map"]:
            self.assertEqual(tensors[t + ".int8"][0], "I8")
            self.assertEqual(where[t + ".scale"], where[t + ".int8"])
        for name, data in CARRIED.items():
            self.assertEqual(tree(out)[name], data, name)
        self.assertEqual(tree(folder), before)
        self.no_strays("in", "in.int8")
        self.vc("dequantize", "-q", out, "-o", self.path("back"))
        self.vc("quantize", "--int8", "-q", os.path.join(folder, INDEX), "-o", self.path("one.safetensors"))
        one = st_read(self.path("one.safetensors"))[0]
        self.assertEqual(one, tensors)

    def test_divided_anew(self):
        folder, _ = self.make()
        limit = 50000
        for source in (folder, self.path("one.safetensors")):
            if source != folder:
                self.vc("convert", "-q", folder, "-o", source)
                write_bytes(self.path("a/tokenizer.model"), b"mine")
                said = self.refuse(2, "quantize", "--int8", source, "-o", self.path("a"), "--max-shard-size", "50KB", "--force")
                self.assertIn("holds tokenizer.model, which no run", said)  # the mark does not list it
                shutil.rmtree(self.path("a"))
                shutil.rmtree(self.path("b"))
            for _ in range(2):  # an older output of its own is replaced
                self.vc("quantize", "--int8", "--layout", "plain", "-q", source, "-o", self.path("a"), "--max-shard-size",
                        "50KB", "--force")
            tensors, where = self.read(self.path("a"))
            sizes = {}
            for t, (_, _, data) in tensors.items():
                sizes[where[t]] = sizes.get(where[t], 0) + len(data)
            self.assertEqual(sorted(sizes), [self.shard(k, len(sizes)) for k in range(1, len(sizes) + 1)])
            self.assertLessEqual(max(sizes.values()), limit)
            self.vc("convert", "-q", self.path("a"), "-o", self.path("b"), "--max-shard-size", "1KiB", "--force")
            again, where = self.read(self.path("b"))
            self.assertEqual(again, tensors)
            for t in where:
                self.assertEqual(where[t], where[t.replace(".scale", ".int8")], "scales stay with their tensor")

    def test_metadata_of_several(self):
        """Kept file by file with the division; else what no two files contradict, in every file, and a word about the rest."""
        notes = [{"format": "pt", "same": "1", "differs": "1", "\u00e4\n": ""}, {"differs": "2", "same": "1"},
                 {"format": "pt", "third": "3"}]
        folder = self.path("in")
        os.mkdir(folder)
        index = {"metadata": {}, "weight_map": {}}
        for k, (arrays, metadata) in enumerate(zip(weights(), notes), 1):
            st_write(os.path.join(folder, self.shard(k)), [(t, "F32", a.shape, a.tobytes()) for t, a in arrays.items()],
                     metadata)
            index["weight_map"].update({t: self.shard(k) for t in arrays})
        self.write_index(folder, index)
        said = self.vc("convert", folder, "-o", self.path("same")).out.decode()
        self.assertNotIn("differ", said)
        for k, metadata in enumerate(notes, 1):
            self.assertEqual(list(st_read(os.path.join(self.path("same"), self.shard(k)))[1].items()),
                             list(dict(metadata, **{} if "format" in metadata else {"format": "pt"}).items()))
        joined = {"format": "pt", "same": "1", "\u00e4\n": "", "third": "3"}
        for args in (["-o", self.path("one.safetensors")], ["-o", self.path("two"), "--max-shard-size", "150KB"]):
            said = " ".join(self.vc("convert", folder, *args).out.decode().split())
            self.assertIn("left out of the metadata, because the files differ in it: differs", said)
            files = [args[1]] if len(args) == 2 else [os.path.join(args[1], f) for f in os.listdir(args[1])
                                                      if f.endswith(".safetensors")]
            self.assertEqual(len(files) == 1, len(args) == 2)
            for file in files:
                self.assertEqual(list(st_read(file)[1].items()), list(joined.items()))
        self.vc("quantize", "--fp16", "-q", self.path("two"), "-o", self.path("three"), "--max-shard-size", "1GB")
        self.assertEqual(st_read(self.path("three/model.safetensors"))[1], joined)


    def test_workers(self):
        folder, _ = self.make(n=5)
        for args in (["quantize", "--int8"], ["quantize", "--fp16"]):
            shutil.rmtree(self.path("w"), ignore_errors=True)
            self.vc(*args, "-q", folder, "-o", self.path("whole"), "--force")
            for i in (3, 1, 2):
                self.vc(*args, "-q", "--shard", "%d/3" % i, folder, "-o", self.path("w"))
            self.assertIn("exists already", self.refuse(2, *args, "--shard", "2/3", folder, "-o", self.path("w")))
            self.vc("index", "-q", self.path("w"))
            self.assertEqual(tree(self.path("w")), tree(self.path("whole")))
        os.unlink(os.path.join(self.path("w"), self.shard(2, 5)))
        self.assertIn("5 files", self.refuse(3, "index", self.path("w")))
        self.vc("convert", "-q", folder, "-o", self.path("one.safetensors"))
        self.refuse(2, "quantize", "--int8", "--shard", "1/2", self.path("one.safetensors"), "-o", self.path("x"))

    def alone(self, folder, k, n, *more):
        """A folder with shard k of n, without the others (but for `more`)."""
        shutil.rmtree(self.path("alone"), ignore_errors=True)
        shutil.copytree(folder, self.path("alone"))
        for i in set(range(1, n + 1)) - {k, *more}:
            os.unlink(os.path.join(self.path("alone"), self.shard(i, n)))
        return self.path("alone")

    def test_missing_neighbours(self):
        """One shard at a time, in any order, is what one run writes; what needs the others names them."""
        n = 4
        folder, index = self.make(n=n, extra=dict(CARRIED, **{"config.json": b'{"model_type": "llama"}'}), per_shard=2, size=(64, 128))
        for args, order in ((["quantize", "--int4"], (3, 1, 4, 2)), (["quantize", "--nvfp4"], (1, 2, 3, 4)),
                            (["prune", "--scope", "tensor", "--sparsity", "0.5"], (4, 3, 2, 1))):
            shutil.rmtree(self.path("w"), ignore_errors=True)
            self.vc(*args, "-q", folder, "-o", self.path("whole"), "--force")
            for i in order:
                self.assertNotIn("config.json", tree(self.path("w")))
                self.vc(*args, "-q", "--shard", "%d/%d" % (i, n), self.alone(folder, i, n), "-o", self.path("w"))
            self.vc("index", "-q", self.path("w"))
            self.assertEqual(tree(self.path("w")), tree(self.path("whole")))
        shutil.rmtree(self.path("w"))
        alone = self.alone(folder, 2, n)
        gone, shard = self.shard(1, n), ["--shard", "2/%d" % n, alone, "-o", self.path("w")]
        for args, needle in ((["quantize", "--aim-sqnr", "40"], "as a scheme can"), (["prune", "--sparsity", "0.5"], gone),
                             (["prune", "--drop-layers", "0"], gone), (["quantize", "--gguf", "Q4_K_M"], gone)):
            self.assertIn(needle, self.refuse(3, *args, *shard))
        self.assertIn(gone, self.refuse(3, "quantize", "--int8", "--shard", "2/%d" % n, alone))  # no name of the output
        self.assertIn(gone, self.refuse(3, "quantize", "--int8", "--shard", "1/%d" % n, alone, "-o", self.path("w")))
        self.assertFalse(os.path.exists(self.path("w")))
        for i in range(1, n + 1):  # at the same time: nobody knows all headers
            self.vc("quantize", "--int4", "-q", "--shard", "%d/%d" % (i, n), self.alone(folder, i, n), "-o", self.path("p%d" % i))
            shutil.copytree(self.path("p%d" % i), self.path("w"), dirs_exist_ok=True)
        self.assertIn("has no config.json", self.refuse(3, "index", self.path("w")))
        self.vc("quantize", "--int4", "-q", "--shard", "4/4", self.alone(folder, 4, n), "-o", self.path("w"), "--force")
        self.vc("index", "-q", self.path("w"))
        self.vc("quantize", "--int4", "-q", folder, "-o", self.path("whole"), "--force")
        self.assertEqual(tree(self.path("w")), tree(self.path("whole")))
        self.assertIn("is quantized or masked already", self.refuse(
            3, "dequantize", "--shard", "1/4", self.alone(self.path("w"), 1, n), "-o", self.path("back")))
        damaged = self.path("p1/.shard-headers/" + self.shard(1, n))
        os.truncate(damaged, 40)
        self.assertIn("header of %s: ends inside" % self.shard(1, n), self.refuse(
            3, "quantize", "--int4", "--shard", "2/4", self.alone(folder, 2, n), "-o", self.path("p1")))

    def test_joined_over_shards(self):
        """NVFP4 has one global scale for q, k and v, in whatever files they lie."""
        folder, names = self.path("in"), ["m.self_attn.%s_proj.weight" % p for p in "qkv"]
        os.makedirs(folder)
        rng = np.random.default_rng(2)
        for k, t in enumerate(names, 1):
            st_write(os.path.join(folder, self.shard(k)), [(t, "F32", (64, 128), rng.standard_normal((64, 128)).astype("f4").tobytes())])
        self.write_index(folder, {"metadata": {}, "weight_map": {t: self.shard(k) for k, t in enumerate(names, 1)}})
        write_bytes(os.path.join(folder, "config.json"), b'{"model_type": "llama"}')
        self.vc("quantize", "--nvfp4", "-q", folder, "-o", self.path("whole"))
        for i in (1, 2, 3):
            shard = ["quantize", "--nvfp4", "-q", "--shard", "%d/3" % i]
            there = i % 3 + 1
            said = self.refuse(3, *shard, self.alone(folder, i, 3, there), "-o", self.path("w"))
            gone = ({1, 2, 3} - {i, there}).pop()
            self.assertIn("%s: has one global scale with %s, which lies in %s" % (names[i - 1], names[gone - 1], self.shard(gone)), said)
            self.vc(*shard, folder, "-o", self.path("w"))
        self.vc("index", "-q", self.path("w"))
        self.assertEqual(tree(self.path("w")), tree(self.path("whole")))

    def test_config_says_the_cast(self):
        folder, _ = self.make()
        for option, name in (("--fp16", "float16"), ("--bf16", "bfloat16")):
            self.vc("quantize", option, "-q", folder, "-o", self.path("c"), "--force")
            self.assertEqual(tree(self.path("c"))["config.json"],
                             CARRIED["config.json"].replace(b"float32", name.encode()))

    def test_cache_of_links(self):
        folder, _ = self.make()
        os.makedirs(self.path("cache/blobs"))
        os.makedirs(self.path("cache/snapshots/0a"))
        for i, name in enumerate(n for n in os.listdir(folder) if os.path.isfile(os.path.join(folder, n))):
            shutil.copy(os.path.join(folder, name), self.path("cache/blobs/%d" % i))
            os.symlink("../../blobs/%d" % i, self.path("cache/snapshots/0a/" + name))
        os.symlink("/etc", self.path("cache/snapshots/0a/loop"))
        self.vc("quantize", "--int8", "-q", self.path("cache/snapshots/0a/" + INDEX), "-o", self.path("a"))
        self.vc("quantize", "--int8", "-q", folder, "-o", self.path("b"))
        expected = tree(self.path("b"))
        del expected["1_Pooling/config.json"]
        self.assertEqual(tree(self.path("a")), expected)

    def test_left_behind(self):
        folder, _ = self.make(extra=dict(CARRIED, **{"pytorch_model.bin": b"x", "other.safetensors": b"y", ".hidden": b"z",
                                                     "model.safetensors.index.fp16.json": b"{}"}))
        r = self.vc("quantize", "--int8", folder)
        for name in ("pytorch_model.bin", "other.safetensors", "model.safetensors.index.fp16.json"):
            self.assertIn(name, r.out.decode())
            self.assertNotIn(name, tree(self.path("in.int8")))

    def refuse_folder(self, folder, needle):
        for source in (folder, os.path.join(folder, INDEX)):
            self.assertIn(needle, self.refuse(3, "quantize", "--int8", source, "-o", self.path("out")))
        self.assertFalse(os.path.exists(self.path("out")))

    def test_damage(self):
        folder, index = self.make()
        tensor = "m.layers.1.w2.weight"
        for value, needle in (("../" + self.shard(2), "without folders"), ("..", "without folders"), ("", "without folders"),
                              ("/etc/passwd", "without folders"), (7, "no string"), (self.shard(1), tensor),
                              ("gone.safetensors", "is not there")):
            bad = json.loads(json.dumps(index))
            bad["weight_map"][tensor] = value
            self.write_index(folder, bad)
            self.refuse_folder(folder, needle)
        for change, needle in (({tensor: None}, "does not have it"), ({"new": self.shard(1)}, "does not hold it")):
            bad = json.loads(json.dumps(index))
            for t, value in change.items():
                bad["weight_map"].update({t: value})
                if value is None:
                    del bad["weight_map"][t]
            self.write_index(folder, bad)
            self.refuse_folder(folder, needle)
        self.write_index(folder, index)
        text = read_bytes(os.path.join(folder, INDEX))
        for cut in range(1, len(text) - 1, 37):
            write_bytes(os.path.join(folder, INDEX), text[:cut])
            self.refuse_folder(folder, "no valid JSON")
        write_bytes(os.path.join(folder, INDEX), text)
        write_bytes(os.path.join(folder, self.shard(2)), b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n")
        self.refuse_folder(folder, "Git LFS")

    def test_total_size_is_a_note(self):
        folder, index = self.make()
        index["metadata"]["total_size"] += 1
        self.write_index(folder, index)
        self.assertIn("total_size", self.vc("quantize", "--int8", folder).out.decode())

    def test_places(self):
        folder, _ = self.make()
        before = tree(folder)
        for name in (folder, folder + "/sub", self.dir, folder + "/../in/1_Pooling/x", "/"):
            self.refuse(2, "quantize", "--int8", folder, "-o", name, "--force")
        self.assertEqual(tree(folder), before)
        self.vc("quantize", "--int8", "-q", folder, "-o", self.path("out"))
        old = tree(self.path("out"))
        self.refuse(2, "quantize", "--fp16", folder, "-o", self.path("out"))
        self.assertEqual(tree(self.path("out")), old)
        self.vc("quantize", "--fp16", "-q", folder, "-o", self.path("out"), "--force")
        self.assertNotEqual(tree(self.path("out")), old)
        os.mkdir(self.path("out/.git"))
        self.assertIn("Git repository", self.refuse(2, "quantize", "--int8", folder, "-o", self.path("out"), "--force"))
        os.mkdir(self.path("mine"))
        write_bytes(self.path("mine/thesis.txt"), b"x")
        self.refuse(2, "quantize", "--int8", folder, "-o", self.path("mine"), "--force")
        self.no_strays("in", "out", "mine")
        for cwd, target in ((folder, "in.int8"), (os.path.join(folder, "1_Pooling"), "in.fp16")):
            self.vc("quantize", "--" + target[3:], "-q", "." if cwd == folder else "..", cwd=cwd)
            self.assertTrue(os.path.isdir(self.path(target)))
        self.assertEqual(tree(folder), before)

    def test_killed(self):
        """Whenever it ends: the old folder, the new one, or none; after a signal nothing else is there."""
        folder, _ = self.make(n=4, per_shard=4, size=(512, 1024))
        self.vc("quantize", "--int8", "-q", folder, "-o", self.path("old"))
        old = tree(self.path("old"))
        self.vc("quantize", "--fp16", "-q", folder, "-o", self.path("new"))
        new = tree(self.path("new"))
        shutil.rmtree(self.path("new"))
        started = time.time()
        self.vc("quantize", "--fp16", "-q", folder, "-o", self.path("new"))
        whole = time.time() - started
        for i in range(12):
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
                shutil.rmtree(self.path("new"), ignore_errors=True)
                shutil.copytree(self.path("old"), self.path("new"))
                p = subprocess.Popen([PROGRAM, "quantize", "--fp16", "-q", folder, "-o", self.path("new"), "--force"],
                                     stderr=subprocess.PIPE)
                time.sleep(whole * i / 11)
                p.send_signal(number)
                p.communicate()
                self.assertIn(tree(self.path("new")), (old, new))
                strays = [n for n in os.listdir(self.dir) if n not in ("in", "old", "new")]
                if number != signal.SIGKILL:
                    self.assertEqual(strays, [])
                for name in strays:
                    self.assertTrue(name.startswith(".vcompress-"))
                    shutil.rmtree(self.path(name))

    def test_many_files(self):
        """More files, in and out, than the usual limit of descriptors."""
        folder, _ = self.make(n=600, per_shard=1, size=(32, 16))
        self.vc("quantize", "--fp16", "-q", folder, "-o", self.path("out"))
        self.assertEqual(len(self.read(self.path("out"))[0]), 600)


if __name__ == "__main__":
    main()
