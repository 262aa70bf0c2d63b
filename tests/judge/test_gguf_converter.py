"""test_gguf_converter.py - folders as GGUF models beside llama.cpp's own converter: every tensor's name, shape, type and bytes, and
every key of the metadata. Small random models of transformers, without a vocabulary. The converter is the folder $VC_LLAMA_CPP, a copy
of llama.cpp's sources with convert_hf_to_gguf.py, conversion/ and gguf-py/; without it all is left out by name."""
import logging
import os
import sys

from judge_support import Judge, main, np

LLAMA_CPP = os.environ.get("VC_LLAMA_CPP", "")
if not os.path.isdir(os.path.join(LLAMA_CPP, "conversion")):
    print("SKIPPED: $VC_LLAMA_CPP names no folder with llama.cpp's conversion/ and gguf-py/")
    sys.exit(77)
try:
    import torch
    import transformers
except ImportError as missing:
    print("SKIPPED: %s is not installed" % missing.name)
    sys.exit(77)
sys.path[:0] = [LLAMA_CPP, os.path.join(LLAMA_CPP, "gguf-py")]
import gguf
from conversion import get_model_class

transformers.logging.set_verbosity_error()
logging.disable(logging.INFO)
torch.set_num_threads(1)
TEXT = dict(vocab_size=97, hidden_size=32, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2, intermediate_size=48,
            max_position_embeddings=64)
EXPERTS = dict(num_experts=4, num_experts_per_tok=2, moe_intermediate_size=20)
EYES = dict(depth=2, hidden_size=16, num_heads=2, intermediate_size=16, out_hidden_size=32)


def rope(theta, *sections):
    return dict(rope_parameters=dict(rope_type="default", rope_theta=theta, mrope_section=list(sections)))


# class, text, what goes beside it
MODELS = {
    "llama": ("Llama", dict(TEXT, head_dim=16), None),
    "qwen2": ("Qwen2", TEXT, None),
    "qwen3": ("Qwen3", dict(TEXT, head_dim=16), None),
    "qwen3_moe": ("Qwen3Moe", dict(TEXT, head_dim=16, norm_topk_prob=True, **EXPERTS), None),
    "qwen2_5_vl": ("Qwen2_5_VL", dict(TEXT, **rope(1e6, 1, 1, 2)), dict(EYES, depth=1, fullatt_block_indexes=[0])),
    "qwen3_vl": ("Qwen3VL", dict(TEXT, head_dim=16, **rope(5e6, 3, 3, 2)),
                 dict(EYES, deepstack_visual_indexes=[0, 1], num_position_embeddings=16)),
    # the converter takes experts as the first files have them, which transformers does not write: see test_turned
    "qwen3_vl_moe": ("Qwen3VLMoe", dict(TEXT, head_dim=16, **EXPERTS, **rope(5e6, 3, 3, 2)),
                     dict(EYES, deepstack_visual_indexes=[0, 1], num_position_embeddings=16)),
    "granitemoe": ("GraniteMoe", dict(TEXT, num_local_experts=4, num_experts_per_tok=2, logits_scaling=2.0, attention_multiplier=0.5), None),
    "olmoe": ("Olmoe", dict(TEXT, num_key_value_heads=4, num_experts=4, num_experts_per_tok=2), None),
    "minimax_m2": ("MiniMaxM2", dict(TEXT, head_dim=8, num_local_experts=4, num_experts_per_tok=2, rotary_dim=4), None),
    "ernie4_5": ("Ernie4_5", dict(TEXT, head_dim=8), None),
    "hunyuan_v1_dense": ("HunYuanDenseV1", dict(TEXT, head_dim=8), None),
    "hunyuan-alpha": ("HunYuanDenseV1", dict(TEXT, head_dim=8, max_position_embeddings=32768, rope_parameters=dict(
        rope_type="dynamic", rope_theta=10000.0, alpha=1000.0, factor=1.0)), None),
}
# What differs and why: names of keys behind the architecture, of theirs alone and of ours alone.
THEIRS = {"general.size_label", "general.sampling.", "general.finetune", "general.basename", "general.repo_url",
          ".rope.scaling.type", ".rope.scaling.factor", ".rope.scaling.original_context_length"}  # hunyuan: what its theta says already
OURS = {"general.file_type", ".vocab_size", ".rope.dimension_count", ".attention.key_length", ".attention.value_length", "vcompress.config", "minimax-m2.expert_gating_func"}
OTHER = {"general.name", "general.quantization_version", "hunyuan-dense.context_length"}  # alpha: the converter says 262144


def read(path):
    r = gguf.GGUFReader(path)
    tensors = {t.name: ([int(n) for n in t.shape], t.tensor_type.name, np.ascontiguousarray(t.data).tobytes()) for t in r.tensors}
    pairs = {n: f.contents() for n, f in r.fields.items() if not n.startswith(("GGUF.", "tokenizer."))}
    return tensors, pairs, {n: [t.name for t in f.types] for n, f in r.fields.items()}


class Converter(Judge):
    def made(self, name):
        cls, text, eyes = MODELS[name]
        if not hasattr(transformers, cls + "Config"):
            return None
        torch.manual_seed(sum(map(ord, name)))
        config = getattr(transformers, cls + "Config")
        config = config(**text) if eyes is None else config(text_config=text, vision_config=eyes)
        model = getattr(transformers, cls + ("ForCausalLM" if eyes is None else "ForConditionalGeneration"))(config)
        with torch.no_grad():
            for p in model.parameters():
                p.copy_(p + 0.2 * torch.randn_like(p) if p.ndim == 1 else 0.1 * torch.randn_like(p))
        model.float().save_pretrained(self.path(name))
        return model

    def theirs(self, name):
        import json
        from pathlib import Path
        from conversion.base import ModelBase, ModelType
        from conversion import get_model_class
        folder = Path(self.path(name))
        with open(folder / "config.json") as f:
            architecture = json.load(f)["architectures"][0]
        cls = get_model_class(architecture)
        cls = type(cls.__name__, (cls,), {"set_vocab": lambda self: self.gguf_writer.add_tokenizer_model("no_vocab"), "model_arch": cls.model_arch})
        out = folder / "theirs.gguf"
        with torch.inference_mode():
            cls(folder, gguf.LlamaFileType.ALL_F32, out).write()
        return read(out)

    def ours(self, name):
        self.vc("convert", "-q", "-f", "--no-vocab", self.path(name), "-o", self.path(name + ".gguf"))
        return read(self.path(name + ".gguf"))

    def same(self, name, ours, theirs):
        self.assertEqual(sorted(ours[0]), sorted(theirs[0]), name)
        for t in ours[0]:
            self.assertEqual(ours[0][t][:2], theirs[0][t][:2], (name, t))
            self.assertEqual(ours[0][t][2], theirs[0][t][2], (name, t))
        architecture = theirs[1]["general.architecture"]
        self.assertEqual(ours[1]["general.architecture"], architecture)

        def known(key, names):
            return any(key == n or key == architecture + n or (n[-1] == "." and key.startswith(n)) for n in names)

        for key in sorted(set(ours[1]) | set(theirs[1])):
            if key not in ours[1]:
                self.assertTrue(known(key, THEIRS), "%s: %s is missing" % (name, key))
            elif key not in theirs[1]:
                self.assertTrue(known(key, OURS), "%s: %s is ours alone" % (name, key))
            elif not known(key, OTHER):
                self.assertEqual(ours[2][key], theirs[2][key], (name, key))
                self.assertEqual(ours[1][key], theirs[1][key], (name, key))
        return not (set(ours[1]) ^ set(theirs[1]) - THEIRS)

    def test_families(self):
        for name in MODELS:
            try:
                model = self.made(name)
            except (TypeError, ValueError, AttributeError, KeyError) as e:
                print("left out: %s (%s)" % (name, e))
                continue
            if model is None or name == "qwen3_vl_moe":
                continue
            with self.subTest(name):
                ours, theirs = self.ours(name), self.theirs(name)
                self.same(name, ours, theirs)
                print("%s: %d tensors equal; keys of theirs alone: %s; of ours alone: %s" % (
                    name, len(ours[0]), " ".join(sorted(set(theirs[1]) - set(ours[1]))) or "none",
                    " ".join(sorted(set(ours[1]) - set(theirs[1]))) or "none"))

    def test_turned(self):
        """Experts of Qwen3-VL as its first files have them, [experts, hidden, 2 * size]: the converter knows these alone, and both forms
        become the same model here."""
        from safetensors.torch import load_file, save_file
        if self.made("qwen3_vl_moe") is None:
            return
        plain = self.ours("qwen3_vl_moe")
        path = os.path.join(self.path("qwen3_vl_moe"), "model.safetensors")
        tensors = {k: v.transpose(1, 2).contiguous() if ".experts." in k else v for k, v in load_file(path).items()}
        save_file(tensors, path, {"format": "pt"})
        turned = self.ours("qwen3_vl_moe")
        self.assertEqual(plain[0], turned[0])
        self.same("qwen3_vl_moe", turned, self.theirs("qwen3_vl_moe"))


if __name__ == "__main__":
    main()
