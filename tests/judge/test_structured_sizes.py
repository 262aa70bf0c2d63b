"""test_structured_sizes.py - sizes of a model that are equal by chance: a feed-forward part as wide as the layer, as many
classes, words or heads as that, experts as wide as they are many. What is removed and what config.json says then is about
the one that is meant. NumPy has BERT; transformers, where the interpreter has it, makes tiny models of many families with
random sizes of few values, loads what came out, and has to find every tensor in the shape that it makes from config.json;
or the run refuses. `test_structured_sizes.py PROGRAM --more N` tries N models."""
import json
import os
import shutil
import sys
import unittest

from judge_support import Judge, main, np, run
from test_safetensors import st_arrays, st_read

try:
    import torch
    import transformers

    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    LOADS = int(transformers.__version__.split(".")[0]) >= 5
except ImportError:
    LOADS = False

MORE = int(sys.argv.pop(sys.argv.index("--more") + 1)) if "--more" in sys.argv else 0
sys.argv = [a for a in sys.argv if a != "--more"]

LLAMA = {"num_key_value_heads", "head_dim"}
# model_type: class, keys that it has beside the usual ones
FAMILIES = {
    "bert": ("BertForSequenceClassification", set()), "roberta": ("RobertaForSequenceClassification", set()),
    "electra": ("ElectraForSequenceClassification", {"embedding_size"}), "distilbert": ("DistilBertForSequenceClassification", set()),
    "mpnet": ("MPNetForSequenceClassification", set()), "vit": ("ViTForImageClassification", set()), "gpt2": ("GPT2LMHeadModel", set()),
    "t5": ("T5ForConditionalGeneration", set()), "whisper": ("WhisperForConditionalGeneration", set()),
    "llama": ("LlamaForCausalLM", LLAMA), "mistral": ("MistralForCausalLM", LLAMA), "qwen2": ("Qwen2ForCausalLM", LLAMA),
    "qwen3": ("Qwen3ForCausalLM", LLAMA), "gemma": ("GemmaForCausalLM", LLAMA), "gemma2": ("Gemma2ForCausalLM", LLAMA),
    "gemma3_text": ("Gemma3ForCausalLM", LLAMA), "olmo2": ("Olmo2ForCausalLM", LLAMA), "phi3": ("Phi3ForCausalLM", {"num_key_value_heads"}),
    "mixtral": ("MixtralForCausalLM", LLAMA | {"num_local_experts"}), "qwen2_moe": ("Qwen2MoeForCausalLM", LLAMA | {"num_experts"}),
    "qwen3_moe": ("Qwen3MoeForCausalLM", LLAMA | {"num_experts"}),
}


def random_config(kind, rng):
    """Few values, so that sizes meet."""
    heads = int(rng.choice([2, 4]))
    hidden, inner, vocabulary, labels = (int(rng.choice([16, 32])) for _ in range(4))
    sizes = dict(hidden_size=hidden, intermediate_size=inner, num_hidden_layers=2, num_attention_heads=heads, vocab_size=vocabulary,
                 num_labels=labels, pad_token_id=0, bos_token_id=1, eos_token_id=2, max_position_embeddings=32)
    more = FAMILIES[kind][1]
    if "num_key_value_heads" in more:
        sizes["num_key_value_heads"] = int(rng.choice([h for h in (1, 2, 4) if heads % h == 0]))
    if "head_dim" in more:
        sizes["head_dim"] = int(rng.choice([8, 16]))
    if "embedding_size" in more:
        sizes["embedding_size"] = int(rng.choice([16, 32]))
    if "num_local_experts" in more or "num_experts" in more:
        sizes.update(num_local_experts=4, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=int(rng.choice([4, 16])),
                     shared_expert_intermediate_size=int(rng.choice([16, 32])), decoder_sparse_step=int(rng.choice([1, 2])))
    if kind == "vit":
        sizes.update(image_size=16, patch_size=8, num_channels=3)
    if kind == "t5":
        sizes = dict(d_model=hidden, d_ff=inner, d_kv=int(rng.choice([8, 16])), num_heads=heads, num_layers=2, vocab_size=vocabulary,
                     pad_token_id=0, eos_token_id=1, decoder_start_token_id=0, feed_forward_proj=str(rng.choice(["relu", "gated-gelu"])))
    if kind == "whisper":
        sizes = dict(d_model=hidden, encoder_ffn_dim=inner, decoder_ffn_dim=int(rng.choice([16, 32])), encoder_layers=1, decoder_layers=1,
                     encoder_attention_heads=heads, decoder_attention_heads=heads, vocab_size=vocabulary, num_mel_bins=16,
                     max_source_positions=16, max_target_positions=16, pad_token_id=0, bos_token_id=1, eos_token_id=2,
                     decoder_start_token_id=1)
    if kind == "gpt2":
        sizes = dict(n_embd=hidden, n_inner=inner, n_layer=2, n_head=heads, vocab_size=vocabulary, n_positions=32, bos_token_id=1, eos_token_id=2)
    if kind == "distilbert":
        sizes = dict(dim=hidden, hidden_dim=inner, n_layers=2, n_heads=heads, vocab_size=vocabulary, num_labels=labels, pad_token_id=0,
                     max_position_embeddings=32)
    return sizes


def bert(hidden, inner, labels):
    rng = np.random.default_rng(3)
    shapes = {"bert.embeddings.word_embeddings.weight": (32, hidden), "bert.embeddings.position_embeddings.weight": (16, hidden),
              "bert.embeddings.token_type_embeddings.weight": (2, hidden)}
    for norm in ("bert.embeddings", "bert.encoder.layer.0.attention.output", "bert.encoder.layer.0.output"):
        shapes.update({norm + ".LayerNorm.weight": (hidden,), norm + ".LayerNorm.bias": (hidden,)})
    for name, out, of in (*(("bert.encoder.layer.0.attention.self." + x, hidden, hidden) for x in ("query", "key", "value")),
                          ("bert.encoder.layer.0.attention.output.dense", hidden, hidden), ("bert.encoder.layer.0.intermediate.dense", inner, hidden),
                          ("bert.encoder.layer.0.output.dense", hidden, inner), ("bert.pooler.dense", hidden, hidden), ("classifier", labels, hidden)):
        shapes.update({name + ".weight": (out, of), name + ".bias": (out,)})
    return {k: rng.standard_normal(s).astype("f4") for k, s in shapes.items()}


class Sizes(Judge):
    def test_bert(self):
        """Everything has 32 of something; half of the neurons inside of the layer go, in the way that the run says."""
        some, folder = bert(32, 32, 32), self.path("in")
        os.makedirs(folder)
        config = {"architectures": ["BertForSequenceClassification"], "model_type": "bert", "vocab_size": 32, "hidden_size": 32,
                  "num_hidden_layers": 1, "num_attention_heads": 4, "intermediate_size": 32, "max_position_embeddings": 16,
                  "type_vocab_size": 2, "hidden_act": "gelu", "layer_norm_eps": 1e-12, "pad_token_id": 0, "num_labels": 32}
        with open(os.path.join(folder, "config.json"), "w") as f:
            json.dump(config, f)
        st_arrays(os.path.join(folder, "model.safetensors"), some, metadata={"format": "pt"})
        layer = "bert.encoder.layer.0."
        for by_hand in (False, True):
            with open(self.path("c.txt"), "w") as f:
                f.write("%sintermediate.dense.weight:0 = %sintermediate.dense.bias:0 = %soutput.dense.weight:1\n" % (layer, layer, layer)
                        + "bert.pooler.dense.weight:0 = bert.pooler.dense.bias:0 = classifier.weight:1\n")
            self.vc("prune", "--structured", "0.5", *(("--couplings", self.path("c.txt")) if by_hand else ()), folder, "-o", self.path("o"), "--force")
            got = {k: v[1] for k, v in st_read(os.path.join(self.path("o"), "model.safetensors"))[0].items()}
            want = {k: list(a.shape) for k, a in some.items()}
            want.update({layer + "intermediate.dense.weight": [16, 32], layer + "intermediate.dense.bias": [16],
                         layer + "output.dense.weight": [32, 16]})
            self.assertEqual({k: list(v) for k, v in got.items()}, want)
            with open(os.path.join(self.path("o"), "config.json")) as f:
                self.assertEqual(json.load(f), dict(config, intermediate_size=16))

    @unittest.skipUnless(LOADS, "transformers 5 is not installed")
    def test_families(self):
        """Each family with sizes that meet, in several ways to prune."""
        rng = np.random.default_rng(7)
        ways = (("--structured", "0.5"), ("--structured", "0.5", "--dims", "heads"), ("--structured", "0.25", "--dims", "heads"),
                ("--structured", "0.5", "--dims", "hidden"), ("--structured", "0.5", "--dims", "neurons,heads,experts"),
                ("--structured", "0.25", "--dims", "neurons,hidden"))
        kinds = sorted(FAMILIES)
        written = 0
        for k in range(MORE or 2 * len(kinds)):
            kind = kinds[k % len(kinds)]
            sizes = random_config(kind, rng)
            torch.manual_seed(k)
            model_class = getattr(transformers, FAMILIES[kind][0])
            model = model_class(model_class.config_class(**sizes))
            shutil.rmtree(self.path("in"), ignore_errors=True)
            model.save_pretrained(self.path("in"))
            for way in ways[k % 2::2] if not MORE else ways:
                shutil.rmtree(self.path("o"), ignore_errors=True)
                r = run("prune", *way, self.path("in"), "-o", self.path("o"))
                self.assertIn(r.code, (0, 3), (kind, sizes, way, r.err))
                if r.code == 0:
                    written += 1
                    self.loads(model_class, (kind, sizes, way))
        self.assertGreater(written, len(kinds) if not MORE else 0)

    def loads(self, model_class, case):
        try:
            model, said = model_class.from_pretrained(self.path("o"), output_loading_info=True)
        except Exception as e:  # whatever a loader says
            self.fail("%s: %s" % (case, e))
        said = {k: v for k, v in said.items() if v}
        self.assertEqual(said, {}, case)


if __name__ == "__main__":
    main()
