"""test_pipelines.py - folders with several models: each component as its own loader wants it, all or nothing.

The judges are NumPy, json, the reader of test_safetensors.py, and `safetensors` where it can be imported. What diffusers
makes of such outputs is the question of pipelines.py.
"""
import json
import os
import shutil
import signal
import subprocess
import time
import unittest

from judge_support import PROGRAM, Judge, main, np, write_bytes
from test_safetensors import safetensors, st_read, st_write
from test_shards import tree

INDEX = {"_class_name": "FluxPipeline", "_diffusers_version": "0.42.1",
         "scheduler": ["diffusers", "FlowMatchEulerDiscreteScheduler"], "tokenizer": ["transformers", "CLIPTokenizer"],
         "text_encoder": ["transformers", "CLIPTextModel"], "text_encoder_2": ["transformers", "T5EncoderModel"],
         "transformer": ["diffusers", "FluxTransformer2DModel"], "vae": ["diffusers", "AutoencoderKL"],
         "image_encoder": [None, None]}
FILES = {"text_encoder": "model.safetensors", "text_encoder_2": "model.safetensors",
         "transformer": "diffusion_pytorch_model.safetensors", "vae": "diffusion_pytorch_model.safetensors"}
CONFIGS = {"text_encoder": {"model_type": "clip_text_model", "dtype": "float32"},
           "text_encoder_2": {"model_type": "t5", "dtype": "float32", "architectures": ["T5EncoderModel"]},
           "transformer": {"_class_name": "FluxTransformer2DModel"}, "vae": {"_class_name": "AutoencoderKL"}}


def weights(seed, rows):
    rng = np.random.default_rng(seed)
    return {"block.0.proj.weight": rng.standard_normal((rows, 96)).astype(np.float32),
            "block.0.proj.bias": rng.standard_normal(rows).astype(np.float32),
            "block.1.proj.weight": rng.standard_normal((96, rows)).astype(np.float32),
            "shared.weight": rng.standard_normal((50, 96)).astype(np.float32)}


class Pipelines(Judge):
    def make(self, rows=64):
        folder = self.path("in")
        self.arrays = {}
        for seed, (part, file) in enumerate(FILES.items()):
            os.makedirs(os.path.join(folder, part))
            self.arrays[part] = weights(seed, rows)
            st_write(os.path.join(folder, part, file),
                     [(t, "F32", a.shape, a.tobytes()) for t, a in self.arrays[part].items()], {"format": "pt"})
            write_bytes(os.path.join(folder, part, "config.json"), json.dumps(CONFIGS[part], indent=2).encode())
        for file, data in {"model_index.json": json.dumps(INDEX).encode(), "scheduler/scheduler_config.json": b"{}",
                           "tokenizer/merges.txt": b"#version: 0.2\n", "README.md": b"x"}.items():
            os.makedirs(os.path.dirname(os.path.join(folder, file)), exist_ok=True)
            write_bytes(os.path.join(folder, file), data)
        return folder

    def test_cast(self):
        folder = self.make()
        report = json.loads(self.vc("quantize", "--fp16", folder, "-o", self.path("out"), "--min-elements", "1", "--json").out)
        before, after = tree(folder), tree(self.path("out"))
        self.assertEqual(sorted(before), sorted(after))
        for part, file in FILES.items():
            found, metadata = st_read(os.path.join(self.path("out"), part, file))
            self.assertEqual(metadata["format"], "pt")
            for name, a in self.arrays[part].items():
                want = a.astype(np.float16) if a.ndim == 2 else a
                self.assertEqual(found[name][2], want.tobytes(), part + "/" + name)
            if safetensors:
                self.assertEqual(set(safetensors.numpy.load_file(os.path.join(self.path("out"), part, file))),
                                 set(self.arrays[part]))
        for file in ("model_index.json", "scheduler/scheduler_config.json", "tokenizer/merges.txt", "README.md"):
            self.assertEqual(before[file], after[file])
        self.assertEqual([t["name"] for t in report["tensors"]],
                         ["%s/%s" % (part, name) for part in sorted(FILES) for name in self.names(folder, part)])
        self.assertEqual(report["outputs"][0]["file_bytes"], sum(len(after[p + "/" + f]) for p, f in FILES.items()))

    def same_files(self, a, b):
        a, b = tree(a), tree(b)
        self.assertEqual(sorted(a), sorted(b))
        self.assertEqual([n for n in a if a[n] != b[n]], [])

    def names(self, folder, part):
        return list(st_read(os.path.join(folder, part, FILES[part]))[0])

    def test_int8(self):
        """Codes where the loader takes them; there the file is that of the component's own run."""
        folder = self.make()
        report = json.loads(self.vc("quantize", "--int8", folder, "-o", self.path("out"), "--min-elements", "1", "--json").out)
        for part, file in FILES.items():
            out = os.path.join(self.path("out"), part)
            found, _ = st_read(os.path.join(out, file))
            with open(os.path.join(out, "config.json")) as f:
                config = json.load(f)
            if part.startswith("text"):
                self.assertEqual(config["quantization_config"]["quant_method"], "compressed-tensors")
                scale = np.frombuffer(found["block.0.proj.weight_scale"][2], "<f4").reshape(-1, 1)
                codes = np.frombuffer(found["block.0.proj.weight_packed"][2], np.uint8).reshape(64, 96).astype(np.float32) - 128
                w = self.arrays[part]["block.0.proj.weight"]
                self.assertLessEqual(float(np.abs(codes * scale - w).max()), float(scale.max()) * 0.5001)
                self.vc("quantize", "--int8", os.path.join(folder, part), "-o", self.path("one"), "--min-elements", "1")
                self.same_files(self.path("one"), out)
                shutil.rmtree(self.path("one"))
            else:
                self.assertNotIn("quantization_config", config)
                self.assertEqual(found, st_read(os.path.join(folder, part, file))[0])
                self.assertEqual(config, CONFIGS[part])
        layout = report["outputs"][0]["layout"]
        self.assertEqual((layout["name"], layout["loader"]), ("compressed-tensors", "diffusers"))
        self.assertIn("text_encoder_2: quantization_config=", layout["needs"])
        self.assertIn("transformer, vae: no int8 (", report["note"])

    def test_threads(self):
        folder = self.make()
        for n in ("1", "4"):
            self.vc("quantize", "--int8", "--rest", "bf16", "--threads", n, folder, "-o", self.path("t" + n))
        self.same_files(self.path("t1"), self.path("t4"))

    def test_sparsity_of_all(self):
        """A global threshold is one over all components."""
        folder = self.make()
        self.vc("prune", "--sparsity", "0.5", "--scope", "global", "--min-elements", "1", folder, "-o", self.path("out"))
        left = [np.frombuffer(st_read(os.path.join(self.path("out"), part, file))[0][name][2], "<f4")
                for part, file in FILES.items() for name in ("block.0.proj.weight", "block.1.proj.weight")]
        before = [np.abs(a[name]) for a in self.arrays.values() for name in ("block.0.proj.weight", "block.1.proj.weight")]
        kept = np.concatenate(left)
        order = np.sort(np.concatenate([b.reshape(-1) for b in before]))
        self.assertEqual(int((kept == 0).sum()), kept.size // 2)
        self.assertGreaterEqual(float(np.abs(kept[kept != 0]).min()), float(order[kept.size // 2 - 1]))

    def test_killed(self):
        """Whenever it ends: the old folder, the new one, or none; after a signal nothing else is there."""
        folder = self.make(rows=6000)
        self.vc("quantize", "--int8", "-q", folder, "-o", self.path("old"))
        self.vc("quantize", "--fp16", "-q", folder, "-o", self.path("new"))
        old, new = tree(self.path("old")), tree(self.path("new"))
        shutil.rmtree(self.path("new"))
        started = time.time()
        self.vc("quantize", "--fp16", "-q", folder, "-o", self.path("new"))
        whole = time.time() - started
        for i in range(8):
            for number in (signal.SIGINT, signal.SIGKILL):
                shutil.rmtree(self.path("new"), ignore_errors=True)
                shutil.copytree(self.path("old"), self.path("new"))
                p = subprocess.Popen([PROGRAM, "quantize", "--fp16", "-q", folder, "-o", self.path("new"), "--force"],
                                     stderr=subprocess.PIPE)
                time.sleep(whole * i / 7)
                p.send_signal(number)
                p.communicate()
                self.assertTrue(tree(self.path("new")) in (old, new))
                strays = [n for n in os.listdir(self.dir) if n not in ("in", "old", "new")]
                if number != signal.SIGKILL:
                    self.assertEqual(strays, [])
        self.vc("quantize", "--fp16", "-q", folder, "-o", self.path("new"), "--force") # removes what killed runs left
        self.no_strays("in", "new", "old")


if __name__ == "__main__":
    main()
