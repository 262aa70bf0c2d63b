"""test_gguf_pictures.py - GGUF files of networks that make pictures and films, by the rules of ComfyUI-GGUF's converter (tools/convert.py
and tools/lcpp.patch of version 1.1.10) and the conditions of its loader: general.architecture, which tensors stay floats and
which are f32, the types of each mixture, names and dimensions beyond ggml's. The package gguf reads the file."""
import json
import sys
import unittest

from judge_support import Judge, main, np, run
import definition as d
from test_safetensors import st_read, st_write

try:
    import gguf
    import gguf.quants
except ImportError as missing:
    print("gguf does not judge: %s" % missing)
    sys.exit(77)

# A tensor that tells the network; then shapes: an end, a matrix, a parameter that has to be f32 (or None).
NETWORKS = {
    "flux": ("double_blocks.0.img_attn.proj.weight", "txt_in.weight", "double_blocks.0.img_mlp.0.weight", None),
    "hyvid": ("txt_in.individual_token_refiner.blocks.0.norm1.weight", "guidance_in.mlp.0.weight", "single_blocks.0.linear1.weight", None),
    "sd3": ("joint_blocks.0.context_block.attn.qkv.weight", "y_embedder.mlp.0.weight", "joint_blocks.0.x_block.mlp.fc1.weight", None),
    "aura": ("double_layers.3.modX.1.weight", "cond_seq_linear.weight", "double_layers.0.attn.w1q.weight", None),
    "wan": ("head.modulation", "text_embedding.2.weight", "blocks.0.self_attn.q.weight", "blocks.0.modulation"),
    "qwen_image": ("txt_norm.weight", "time_text_embed.timestep_embedder.linear_1.weight", "transformer_blocks.0.attn.to_q.weight", None),
    "ltxv": ("patchify_proj.weight", "adaln_single.linear.weight", "transformer_blocks.0.attn1.to_q.weight", "transformer_blocks.0.scale_shift_table"),
    "hidream": ("double_stream_blocks.0.block.ff_i.shared_experts.w3.weight", "p_embedder.pooled_embedder.linear_1.weight",
                "double_stream_blocks.0.block.attn1.to_q.weight", "double_stream_blocks.0.block.ff_i.gate.weight"),
    "cosmos": ("blocks.0.adaln_modulation_cross_attn.1.weight", "t_embedder.1.linear_1.weight", "blocks.0.mlp.layer1.weight", "pos_embedder.dim_range"),
    "lumina2": ("context_refiner.0.attention.qkv.weight", "cap_embedder.1.weight", "layers.0.feed_forward.w1.weight", None),
    "sdxl": ("label_emb.0.0.weight", "time_embed.0.weight", "input_blocks.4.1.transformer_blocks.0.attn1.to_q.weight", None),
    "sd1": ("input_blocks.1.1.transformer_blocks.0.attn2.to_k.weight", "time_embed.0.weight", "middle_block.1.proj_in.weight", None)}
# ComfyUI-GGUF's IMG_ARCH_LIST.
LOADED = {"flux", "sd1", "sdxl", "sd3", "aura", "hidream", "cosmos", "ltxv", "hyvid", "wan", "lumina2", "qwen_image"}


def arrays(shapes, seed=3):
    rng = np.random.default_rng(seed)
    return {n: d.f32_to_bf16(rng.standard_normal(s).astype("f4")) for n, s in shapes.items()}


class Pictures(Judge):
    def make(self, name, made):
        path = self.path(name)
        st_write(path, [(n, "BF16", a.shape, a.tobytes()) for n, a in made.items()], {})
        return path

    def read(self, path):
        """(architecture, {name: (type, shape in NumPy's order, values as f32)})"""
        reader = gguf.GGUFReader(path)
        said = bytes(reader.fields["general.architecture"].parts[-1]).decode()
        return said, {t.name: (t.tensor_type.name, tuple(int(n) for n in reversed(t.shape)),
                               gguf.quants.dequantize(t.data, t.tensor_type).reshape([int(n) for n in reversed(t.shape)])) for t in reader.tensors}

    def test_networks(self):
        """Each network has its name, keeps its ends, and has as f32 what the loader takes as f32 alone."""
        self.assertEqual(set(NETWORKS), LOADED)
        for name, (known, end, matrix, parameter) in NETWORKS.items():
            for prefix in ("", "model.diffusion_model."):
                with self.subTest(name=name, prefix=prefix):
                    shapes = {known: (256, 256), end: (256, 256), matrix: (64, 256), matrix[:-6] + "bias": (300,), "small.weight": (4, 256),
                              "convolution.weight": (64, 32, 3, 3)}
                    if parameter is not None:
                        shapes[parameter] = (8, 6, 256)
                    others = {"first_stage_model.conv.weight": (64, 256)} if prefix else {}
                    made = {**{prefix + n: a for n, a in arrays(shapes).items()}, **arrays(others)}
                    out = self.path("m.gguf")
                    self.vc("quantize", "-q", "--force", "--gguf", "Q4_K_S", self.make("m.safetensors", made), "-o", out)
                    said, tensors = self.read(out)
                    self.assertEqual((said, set(tensors)), (name, set(made)))
                    types = {n: t[0] for n, t in tensors.items()}
                    self.assertEqual((types[prefix + end], types[prefix + matrix]), ("BF16", "Q4_K"))
                    self.assertEqual({types[prefix + matrix[:-6] + "bias"], types[prefix + "small.weight"]}, {"F32"})
                    self.assertEqual(types[prefix + "convolution.weight"], "Q4_K" if name in ("sdxl", "sd1") else "BF16")
                    self.assertEqual({types[n] for n in others}, {"BF16"} if others else set())
                    if parameter is not None:
                        self.assertEqual(types[prefix + parameter], "F32")
                    for n, (kind, shape, values) in tensors.items():
                        source = d.bf16_to_f32(made[n])
                        self.assertEqual(shape, (72, 256) if n == prefix + "convolution.weight" and kind == "Q4_K" else made[n].shape)
                        source = source.reshape(shape)
                        if kind in ("F32", "BF16"):
                            np.testing.assert_array_equal(values, source, n)
                        else:
                            self.assertLess(np.linalg.norm(values - source), 0.1 * np.linalg.norm(source), n)
                    self.vc("verify", "-q", out)
                    self.vc("convert", "-q", "--force", out, "-o", self.path("again.gguf"))
                    with open(out, "rb") as a, open(self.path("again.gguf"), "rb") as b:
                        self.assertEqual(a.read(), b.read())

    def test_mixtures(self):
        """Types of the mixtures by the kind of tensor; --pure: the base type alone."""
        values, fused, down, other = ("transformer_blocks.%d.attn.to_v.weight", "transformer_blocks.%d.attn.qkv.weight",
                                      "transformer_blocks.%d.ff.net.2.weight", "transformer_blocks.%d.attn.to_k.weight")
        shapes = {"txt_norm.weight": (300,)}
        for kind in (values, fused, down, other):
            shapes.update({kind % i: (32, 256) for i in range(6)})
        path = self.make("m.safetensors", arrays(shapes))
        for mixture, wanted in {
                "Q2_K": ("Q3_K Q3_K", "Q2_K", "Q2_K", "Q2_K"), "Q3_K_S": ("Q3_K Q3_K", "Q3_K", "Q3_K", "Q3_K"),
                "Q3_K_M": ("Q5_K Q4_K", "Q4_K", "Q4_K", "Q3_K"), "Q3_K_L": ("Q5_K Q5_K", "Q4_K", "Q5_K", "Q3_K"),
                "Q4_K_S": ("Q5_K Q4_K", "Q4_K", "Q5_K", "Q4_K"), "Q4_K_M": ("Q6_K Q6_K", "Q5_K", "Q6_K", "Q4_K"),
                "Q5_K_S": ("Q5_K Q5_K", "Q5_K", "Q5_K", "Q5_K"), "Q5_K_M": ("Q6_K Q6_K", "Q6_K", "Q6_K", "Q5_K"),
                "Q6_K": ("Q6_K Q6_K", "Q6_K", "Q6_K", "Q6_K"), "Q4_0": ("Q4_0 Q4_0", "Q4_0", "Q4_1", "Q4_0"),
                "Q5_0": ("Q5_0 Q5_0", "Q5_0", "Q5_1", "Q5_0"), "Q8_0": ("Q8_0 Q8_0", "Q8_0", "Q8_0", "Q8_0")}.items():
            for pure in (False, True):
                self.vc("quantize", "-q", "--force", "--gguf", mixture, path, "-o", self.path("m.gguf"), *(["--pure"] if pure else []))
                types = {n: t[0] for n, t in self.read(self.path("m.gguf"))[1].items()}
                first, last = types[values % 0], types[values % 5]
                found = (first + " " + last, types[fused % 3], types[down % 3], types[other % 3])
                self.assertEqual(found, (wanted[3] + " " + wanted[3],) + (wanted[3],) * 3 if pure else wanted, (mixture, pure))

    def test_limits(self):
        """Five dimensions and names of 127 bytes, which ggml does not have; of other models both are refused."""
        long = "blocks.0." + "n" * 111 + ".weight"
        made = arrays({"head.modulation": (1, 2, 256), "patch_embedding.weight": (16, 4, 1, 2, 2), long: (32, 256)})
        self.assertEqual(len(long), 127)
        self.vc("quantize", "-q", "--gguf", "Q8_0", self.make("m.safetensors", made), "-o", self.path("m.gguf"))
        tensors = self.read(self.path("m.gguf"))[1]
        self.assertEqual({n: t[1] for n, t in tensors.items()}, {n: a.shape for n, a in made.items()})
        self.vc("dequantize", "-q", self.path("m.gguf"), "-o", self.path("back.safetensors"))
        self.assertEqual({n: t[1] for n, t in st_read(self.path("back.safetensors"))[0].items()}, {n: a.shape for n, a in made.items()})
        self.assertIn("no number beside the blocks", self.refuse(3, "quantize", "--gguf", "NVFP4", self.path("m.safetensors"), "-o", self.path("n.gguf")))
        del made["head.modulation"]
        for name, says in ((long, "its name has 127 bytes; GGUF allows 63"), ("patch_embedding.weight", "has 5 dimensions; GGUF allows 4")):
            path = self.make("o.safetensors", {name: made[name]})
            self.assertIn(says, self.refuse(3, "convert", path, "-o", self.path("o.gguf")))

    def test_folded(self):
        """Stable Diffusion: what 256 does not divide becomes rows of 256, with the shape beside it, and comes back with its shape."""
        shapes = {"input_blocks.1.1.transformer_blocks.0.attn2.to_k.weight": (320, 768), "input_blocks.1.0.in_layers.2.weight": (64, 32, 3, 3),
                  "input_blocks.1.1.transformer_blocks.0.attn1.to_q.weight": (320, 320), "middle_block.1.proj_in.weight": (320, 320, 1, 1),
                  "output_blocks.0.0.skip_connection.weight": (8, 9, 3, 3), "input_blocks.0.0.weight": (32, 4, 3, 3), "out.2.weight": (4, 64, 3, 3)}
        path, out = self.make("sd.safetensors", arrays(shapes)), self.path("sd.gguf")
        made = {n: d.bf16_to_f32(a) for n, a in arrays(shapes).items()}
        for mixture in ("Q8_0", "Q4_K_M"):
            self.vc("quantize", "-q", "--force", "--gguf", mixture, path, "-o", out)
            reader, values = gguf.GGUFReader(out), {}
            for t in reader.tensors:
                stored = tuple(int(n) for n in reversed(t.shape))
                field = reader.fields.get("comfy.gguf.orig_shape." + t.name)
                blocks = t.tensor_type.name not in ("F16", "BF16", "F32")
                self.assertEqual(blocks, "blocks.0.0" not in t.name and "out." not in t.name, t.name)
                self.assertEqual(field is not None, blocks and shapes[t.name][-1] % 256 != 0, t.name)
                if field is not None:
                    self.assertEqual(field.types, [gguf.GGUFValueType.ARRAY, gguf.GGUFValueType.INT32])
                    self.assertEqual((tuple(int(field.parts[i][0]) for i in field.data), stored[1]), (shapes[t.name], 256))
                values[t.name] = gguf.quants.dequantize(t.data, t.tensor_type)
            self.vc("dequantize", "-q", "--force", out, "-o", self.path("back.safetensors"))
            for n, (kind, shape, data) in st_read(self.path("back.safetensors"))[0].items():
                self.assertEqual(shape, shapes[n])
                if kind == "F32":
                    np.testing.assert_array_equal(np.frombuffer(data, "f4"), values[n].reshape(-1), n)
            self.vc("diff", "-q", out, self.path("back.safetensors"))  # equal, though one has rows of 256
            self.vc("verify", "-q", out, "--against", path)
            for e in json.loads(run("diff", "--json", path, out).out)["tensors"]:
                if e["kind"] != "same":
                    x, y = (a[e["name"]].astype("f8").reshape(-1) for a in (made, values))
                    self.assertAlmostEqual(e["sqnr_db"], 10 * np.log10(np.sum(x * x) / np.sum((x - y) ** 2)), 6, e["name"])
            self.vc("convert", "-q", "--force", out, "-o", self.path("copy.gguf"))
            with open(out, "rb") as a, open(self.path("copy.gguf"), "rb") as b:
                self.assertEqual(a.read(), b.read())
        self.assertIn("rows of 256", self.refuse(3, "run", "--pass", "quantize --fp16", "--pass", "quantize --gguf Q8_0", path, "-o", self.path("no.gguf")))


if __name__ == "__main__":
    main()
