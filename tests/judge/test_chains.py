"""test_chains.py - random chains of passes in one run against the same passes one after the other through files: the same
bytes in every file of the output, or a refusal of both. Deflated npz, folders of Hugging Face with and without an index,
GGUF, and ONNX where the onnx package is there. VCOMPRESS_CHAINS=N tries N chains of each in place of a few."""
import json
import os
import random
import shlex
import shutil
import struct
import unittest

from judge_support import Judge, main, np, read_bytes, run

try:
    import onnx
    from onnx import helper, numpy_helper
except ImportError:
    onnx = None

N_CHAINS = int(os.environ.get("VCOMPRESS_CHAINS", "18"))
NAMES = {"self_attn.q_proj": ("attn_q", 32, 32), "self_attn.k_proj": ("attn_k", 16, 32), "self_attn.v_proj": ("attn_v", 16, 32),
         "self_attn.o_proj": ("attn_output", 32, 32), "mlp.gate_proj": ("ffn_gate", 64, 32), "mlp.up_proj": ("ffn_up", 64, 32),
         "mlp.down_proj": ("ffn_down", 32, 64)}
CONFIG = {"model_type": "llama", "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 3, "num_attention_heads": 4,
          "num_key_value_heads": 2, "head_dim": 8, "vocab_size": 96, "torch_dtype": "float32", "tie_word_embeddings": False}
GLOBS = ["*", "*weight", "*bias", "*0*", "*1*", "*up*"]


def decoder(rng, gguf):
    """Weights of three layers, some of them f16, under names of Hugging Face or of llama.cpp."""
    w = {"token_embd.weight" if gguf else "model.embed_tokens.weight": rng.standard_normal((96, 32))}
    for i in range(3):
        for name, (short, rows, columns) in NAMES.items():
            w[f"blk.{i}.{short}.weight" if gguf else f"model.layers.{i}.{name}.weight"] = rng.standard_normal((rows, columns))
        w[f"blk.{i}.attn_norm.weight" if gguf else f"model.layers.{i}.input_layernorm.weight"] = rng.standard_normal(32)
        w[f"blk.{i}.ffn_norm.weight" if gguf else f"model.layers.{i}.post_attention_layernorm.weight"] = rng.standard_normal(32)
    w["output_norm.weight" if gguf else "model.norm.weight"] = rng.standard_normal(32)
    w["output.weight" if gguf else "lm_head.weight"] = rng.standard_normal((96, 32))
    return {k: v.astype("f2" if not gguf and rng.random() < 0.2 else "f4") for k, v in w.items()}


def gguf_text(text):
    return struct.pack("<Q", len(text)) + text.encode()


def write_gguf(path, weights, numbers):
    """A file of f32 tensors, whose sizes are multiples of 32 bytes."""
    entries = data = b""
    for name, a in weights.items():
        entries += gguf_text(name) + struct.pack("<I", a.ndim) + b"".join(struct.pack("<Q", d) for d in a.shape[::-1])
        entries += struct.pack("<IQ", 0, len(data))
        data += a.tobytes()
    pairs = gguf_text("general.architecture") + struct.pack("<I", 8) + gguf_text("llama")
    pairs += b"".join(gguf_text(k) + struct.pack("<II", 4, v) for k, v in numbers.items())
    head = b"GGUF" + struct.pack("<IQQ", 3, len(weights), 1 + len(numbers)) + pairs + entries
    with open(path, "wb") as f:
        f.write(head + b"\0" * (-len(head) % 32) + data)


def write_onnx(path, rng):
    nodes, weights, x = [], {}, "x"
    for i in range(4):
        weights[f"l{i}.weight"] = rng.standard_normal((16, 16)).astype("f4")
        weights[f"l{i}.bias"] = rng.standard_normal(16).astype("f4")
        nodes.append(helper.make_node("Gemm", [x, f"l{i}.weight", f"l{i}.bias"], [f"h{i}"], transB=1))
        nodes.append(helper.make_node("Relu", [f"h{i}"], [f"r{i}"]))
        x = f"r{i}"
    of = onnx.TensorProto.FLOAT
    names = list(weights)
    rng.shuffle(names)
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", of, ["n", 16])],
                              [helper.make_tensor_value_info(x, of, ["n", 16])],
                              [numpy_helper.from_array(weights[k], k) for k in names])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", int(rng.choice([11, 13, 17])))], ir_version=8), path)


def one_pass(choose, layers, structured):
    rule = choose.choice([""] * 2 + [f" --include '{choose.choice(GLOBS)}'", f" --exclude '{choose.choice(GLOBS[3:])}'"])
    int8 = "quantize --int8 --min-elements 1 --min-row 1"
    passes = [f"prune --sparsity {choose.choice(['0.3', '0.8'])}{choose.choice(['', ' --scope global'])}{rule}",
              f"prune --pattern 2:4{rule}", f"{int8}{choose.choice(['', ' --requantize', ' --asymmetric'])}{rule}",
              f"{int8} --rest {choose.choice(['fp16', 'bf16'])}{rule}", f"{int8} --granularity group:32{rule}", f"quantize --fp16{rule}",
              f"quantize --bf16{rule}", f"dequantize{rule}", f"dequantize --{choose.choice(['fp16', 'bf16', 'fp32'])} --casts"]
    passes += [f"prune --drop-layers {choose.randint(0, 1)}"] * (3 * layers) + ["prune --structured 0.3"] * structured
    return choose.choice(passes)


class Chains(Judge):
    def files(self, path):
        """Every file of an output, by its name; files of folders do not tell which folder it is."""
        if os.path.isdir(path):
            return {os.path.relpath(os.path.join(d, f), path): read_bytes(os.path.join(d, f)) for d, _, fs in os.walk(path) for f in fs}
        return {"": read_bytes(path)}

    def check(self, name, make, extension, options=(), layers=1, structured=0):
        n_done = 0
        for seed in range(N_CHAINS):
            rng, choose = np.random.default_rng(seed), random.Random(seed)
            for old in os.listdir(self.path("")):
                shutil.rmtree(self.path(old)) if os.path.isdir(self.path(old)) else os.remove(self.path(old))
            make(self.path("in" + extension), rng)
            passes = [one_pass(choose, layers, structured) for _ in range(choose.choice([2, 2, 3]))]
            one = run("run", "-q", *sum([["--pass", p] for p in passes], []), *options, self.path("in" + extension), "-o", self.path("one" + extension))
            at = self.path("in" + extension)
            for i, p in enumerate(passes):
                two = run(*shlex.split(p), "-q", *options, at, "-o", self.path(f"s{i}" + extension))
                at = self.path(f"s{i}" + extension)
                if two.code != 0:
                    break
            with self.subTest(format=name, seed=seed, passes=passes):
                self.assertEqual(one.code == 0, two.code == 0, one.err + two.err)
                self.assertIn(one.code, (0, 2, 3))
                if one.code == 0:
                    n_done += 1
                    chain, steps = self.files(self.path("one" + extension)), self.files(at)
                    self.assertEqual([n for n in sorted(set(chain) | set(steps)) if chain.get(n) != steps.get(n)], [], "files that differ")
        self.assertGreater(n_done, N_CHAINS // 6)

    def test_deflated(self):
        def make(path, rng):
            w = decoder(rng, False)
            w["model.layers.0.self_attn.q_proj.bias"] = rng.standard_normal(300000)  # f64, and of two tiles
            w["none"] = np.zeros((0, 4), "f4")
            np.savez(path, **w)
        for option in ("--deflate", "--deflate=zlib"):
            self.check("npz " + option, make, ".npz", (option,), layers=0)

    def test_folders(self):
        def make(path, rng):
            w = decoder(rng, False)
            os.mkdir(path)
            with open(os.path.join(path, "config.json"), "w") as f:
                json.dump(CONFIG, f)
            np.savez(self.path("w.npz"), **w)
            self.vc("convert", self.path("w.npz"), "-o", os.path.join(path, "model.safetensors"))
            if rng.random() < 0.5:
                self.vc("convert", "--max-shard-size", "20000", path, "-o", self.path("shards"))
                shutil.rmtree(path)
                os.rename(self.path("shards"), path)
        self.check("folder", make, "", structured=1)

    def in_one_run(self, source, passes):
        """The files that `run` makes of the folder."""
        passes = sum([["--pass", p] for p in passes], [])
        self.vc("run", "-q", "-f", *passes, self.path(source), "-o", self.path("one"))
        return self.files(self.path("one"))

    def test_sizes_of_a_later_pass(self):
        """Bits per weight count what the passes before left; the layout of codes says nothing of the sizes that config.json states."""
        self.make_folder()
        for first, last in (("prune --drop-layers 0", "quantize --aim-bpw 12"), ("prune --structured 0.5", "quantize --aim-bpw 12"),
                            ("prune --structured 0.5", "quantize --int8 --layout plain")):
            last += " --min-elements 1 --min-row 1"
            self.vc(*shlex.split(first), "-f", self.path("in"), "-o", self.path("half"))
            self.vc(*shlex.split(last), "-f", self.path("half"), "-o", self.path("steps"))
            with self.subTest(first=first, last=last):
                self.assertEqual(self.in_one_run("in", [first, last]), self.files(self.path("steps")))

    def test_one_float_type(self):
        """transformers casts nothing beside bitsandbytes' codes (f16 times f32 ends with an error), and everything beside those of compressed-tensors."""
        self.make_folder()
        down, small = ["--exclude", "*", "--include", "*0.mlp.down*"], ["--min-elements", "1", "--min-row", "1"]
        self.vc("quantize", "--nf4", "--rest", "fp16", *small, self.path("in"), "-o", self.path("nf4"))
        for source, words in (("in", ["quantize", "--nf4", "--exclude", "lm_head*", "--rest", "fp16", *small]),
                              ("in", ["quantize", "--nf4", "--type", "*q_proj*=fp16", *small]), ("nf4", ["dequantize", "--bf16", *down])):
            said = self.refuse(3, *words, self.path(source), "-o", self.path("no"))
            self.assertIn("computes with both as they lie beside codes of bitsandbytes: give all floats one type", said)
        self.vc("dequantize", "--fp16", "--overflow", "sat", *down, self.path("nf4"), "-o", self.path("some"))
        self.vc("quantize", "--int8", "--exclude", "lm_head*", "--rest", "fp16", *small, self.path("in"), "-o", self.path("int8"))

    def make_folder(self):
        os.mkdir(self.path("in"))
        with open(self.path("in/config.json"), "w") as f:
            json.dump(CONFIG, f)
        np.savez(self.path("w.npz"), **decoder(np.random.default_rng(0), False))
        self.vc("convert", self.path("w.npz"), "-o", self.path("in/model.safetensors"))

    def test_codes_that_go_again(self):
        """Codes which `dequantize` takes away have the layout of a folder of their own, and new ones that of one without codes."""
        self.make_folder()
        codes = [f"quantize --{scheme} --min-elements 1 --min-row 1" for scheme in ("int8", "int4 --granularity group:32", "nf4", "fp4", "fp8")]
        for first in codes:
            self.vc(*shlex.split(first), "-f", self.path("in"), "-o", self.path("codes"))
            self.vc("dequantize", "-f", self.path("codes"), "-o", self.path("floats"))
            for last in codes:
                self.vc(*shlex.split(last), "-f", self.path("floats"), "-o", self.path("steps"))
                steps = self.files(self.path("steps"))
                for source, passes in (("in", [first, "dequantize", last]), ("codes", ["dequantize", last])):
                    with self.subTest(source=source, passes=passes):
                        self.assertEqual(self.in_one_run(source, passes), steps)
        passes = ["dequantize", codes[1], "dequantize", codes[2], "dequantize", codes[0]]
        before = "codes"
        for i, line in enumerate(passes):
            self.vc(*shlex.split(line), self.path(before), "-o", self.path("step%d" % i))
            before = "step%d" % i
        self.assertEqual(self.in_one_run("codes", passes), self.files(self.path(before)))
        shutil.rmtree(self.path("one"))
        for layout, passes, says in (("bitsandbytes", ["dequantize", codes[1]], "the layout bitsandbytes has no place for codes of int4"),
                                     ("auto", [codes[1], "dequantize --exclude '*q_proj*'", codes[2]], "bitsandbytes has no place for codes of int4")):
            one = run("run", "--layout", layout, *sum([["--pass", p] for p in passes], []), self.path("in"), "-o", self.path("one"))
            self.assertEqual((one.code, os.path.exists(self.path("one"))), (2, False), one.err)
            self.assertIn(says, one.err)
        self.vc("run", "--layout", "bitsandbytes", "--pass", codes[1], "--pass", "dequantize", "--pass", codes[2], self.path("in"), "-o", self.path("one"))

    def test_gguf(self):
        def make(path, rng):
            numbers = {"llama.block_count": 3, "llama.embedding_length": 32, "llama.feed_forward_length": 64,
                       "llama.attention.head_count": 4, "llama.attention.head_count_kv": 2}
            if rng.random() < 0.7:
                numbers["general.file_type"] = int(rng.choice([0, 1]))
            write_gguf(path, decoder(rng, True), numbers)
        self.check("gguf", make, ".gguf")

    @unittest.skipIf(onnx is None, "the onnx package is not there")
    def test_onnx(self):
        self.check("onnx", write_onnx, ".onnx", layers=0)


if __name__ == "__main__":
    main()
