"""test_memory_alive.py - memory in PyTorch's eager mode: tensors that are alive while models of transformers and torchvision
run on the CPU, counted after each operator. Of inference, in f32 and bf16, the peak; of training what is kept for the
backward pass and the peak. What `estimate` says is never less and at most 10 % more. The same for a part of a text behind
a cache of keys and values, and for training in half precision. Ten families by default; with VCOMPRESS_FAMILIES=all in the
environment, all of them."""
import json
import os
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

from transformers_5 import torch, transformers  # first: without them the test ends here
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

torch.set_num_threads(1)
PROGRAM = os.environ.get("VCOMPRESS_PROGRAM", "vcompress")
T = transformers
LAYERS = 2
SEQ = 512


class Alive(TorchDispatchMode):
    """The most bytes of storages that live after an operator, without those of `own`."""

    def __init__(self, own):
        super().__init__()
        self.own = {t.untyped_storage()._cdata for t in own}
        self.alive = {}
        self.peak = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        for tensor in tree_leaves(out):
            if isinstance(tensor, torch.Tensor):
                storage = tensor.untyped_storage()
                if storage._cdata not in self.own:
                    self.alive.setdefault(storage._cdata, (StorageWeakRef(storage), storage.nbytes()))
                del storage
        for key in [k for k, (ref, _) in self.alive.items() if ref.expired()]:
            del self.alive[key]
        self.peak = max(self.peak, sum(n for _, n in self.alive.values()))
        return out


def empty(make, *config):
    """A model of zeros: values change no size, and random ones take longer to draw than all else takes."""
    with torch.device("meta"):
        net = make(*config)
    net.to_empty(device="cpu")
    with torch.no_grad():
        for tensor in list(net.parameters()) + list(net.buffers()):
            tensor.zero_()
    return net


def as_on_gpus(x, p=0.5, training=True, inplace=False):
    """Dropout with masks of a byte for each value; that of PyTorch's CPU part has floats."""
    return torch.native_dropout(x, p, True)[0] if training and p > 0 else x


def storage_of(tensor):
    storage = tensor.untyped_storage()
    return StorageWeakRef(storage), storage.nbytes()


def continue_text(net, ids, before):
    """The most beside weights and inputs while a model continues a text of `before` words; its cache counts."""
    cache = T.DynamicCache(config=net.config)
    with torch.no_grad():
        net(input_ids=torch.zeros(len(ids), before, dtype=torch.long), past_key_values=cache, use_cache=True, logits_to_keep=1)
        mode = Alive(list(net.parameters()) + list(net.buffers()) + [ids])
        for layer in cache.layers:
            for tensor in (layer.keys, layer.values):
                mode.alive[tensor.untyped_storage()._cdata] = storage_of(tensor)
        tensor = None
        with mode:
            net(input_ids=ids, past_key_values=cache, use_cache=True)
    return mode.peak


def train(net, inputs, autocast=False):
    """Beside weights, their gradients and inputs: what is alive when the loss is known, and the most."""
    net.train()
    given = [t for t in inputs.values() if isinstance(t, torch.Tensor)]
    for weight in net.parameters():
        weight.grad = torch.zeros_like(weight)
    mode = Alive(list(net.parameters()) + list(net.buffers()) + given + [p.grad for p in net.parameters()])
    with unittest.mock.patch.object(torch.nn.functional, "dropout", as_on_gpus), mode:
        with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
            y = net(**inputs)[0]
        y = y.reshape(-1, y.shape[-1])
        loss = torch.nn.functional.cross_entropy(y.float(), torch.zeros(len(y), dtype=torch.long))
        del y
        kept = sum(n for ref, n in mode.alive.values() if not ref.expired())
        loss.backward()
    return kept, mode.peak


def measure(net, inputs):
    net.eval()
    given = [t for t in inputs.values() if isinstance(t, torch.Tensor)]
    mode = Alive(list(net.parameters()) + list(net.buffers()) + given)
    with torch.no_grad(), mode:
        net(**inputs)
    return mode.peak + sum(t.untyped_storage().nbytes() for t in given)


DECODER = dict(vocab_size=1000, hidden_size=2048, intermediate_size=8192, num_attention_heads=32, num_key_value_heads=8,
               num_hidden_layers=LAYERS)
MOE = dict(vocab_size=1000, hidden_size=2048, num_attention_heads=16, num_key_value_heads=4, num_hidden_layers=LAYERS)
USUAL = ("bert", "distilbert", "mpnet", "gpt2", "llama", "mixtral", "t5", "whisper", "vit", "resnet")
TRAINED = ("bert", "distilbert", "gpt2", "llama", "phi3", "gemma2", "mixtral")
# name, configuration, class, whether attention as products is asked about, too
FAMILIES = [
    ("bert", lambda: T.BertConfig(vocab_size=1000, num_hidden_layers=LAYERS), "BertModel", True),
    ("bert, words", lambda: T.BertConfig(num_hidden_layers=LAYERS), "BertForMaskedLM", False),
    ("distilbert", lambda: T.DistilBertConfig(vocab_size=1000, n_layers=LAYERS), "DistilBertModel", False),
    ("mpnet", lambda: T.MPNetConfig(vocab_size=1000, num_hidden_layers=LAYERS, max_position_embeddings=514), "MPNetModel", True),
    ("gpt2", lambda: T.GPT2Config(vocab_size=1000, n_layer=LAYERS), "GPT2Model", True),
    ("gpt2, words", lambda: T.GPT2Config(n_layer=LAYERS), "GPT2LMHeadModel", False),
    ("llama", lambda: T.LlamaConfig(**DECODER), "LlamaForCausalLM", True),
    ("mistral", lambda: T.MistralConfig(sliding_window=64, **DECODER), "MistralForCausalLM", False),
    ("qwen3", lambda: T.Qwen3Config(head_dim=128, **DECODER), "Qwen3ForCausalLM", True),
    ("phi3", lambda: T.Phi3Config(pad_token_id=0, **DECODER), "Phi3ForCausalLM", True),
    ("gemma2", lambda: T.Gemma2Config(head_dim=256, **dict(DECODER, num_attention_heads=8, num_key_value_heads=4)), "Gemma2ForCausalLM", True),
    ("olmo2", lambda: T.Olmo2Config(**DECODER), "Olmo2ForCausalLM", False),
    ("mixtral", lambda: T.MixtralConfig(num_local_experts=4, num_experts_per_tok=2, intermediate_size=2048, **MOE), "MixtralForCausalLM", True),
    ("qwen3_moe", lambda: T.Qwen3MoeConfig(num_experts=8, num_experts_per_tok=2, moe_intermediate_size=768, intermediate_size=2048, head_dim=128,
                                           **MOE), "Qwen3MoeForCausalLM", False),
    ("t5", lambda: T.T5Config(num_layers=LAYERS, num_decoder_layers=LAYERS, d_model=768, d_ff=3072, num_heads=12), "T5ForConditionalGeneration", True),
    ("whisper", lambda: T.WhisperConfig(encoder_layers=LAYERS, decoder_layers=LAYERS, d_model=768, encoder_attention_heads=12, decoder_attention_heads=12,
                                        encoder_ffn_dim=3072, decoder_ffn_dim=3072), "WhisperForConditionalGeneration", True),
    ("vit", lambda: T.ViTConfig(num_hidden_layers=LAYERS), "ViTForImageClassification", True),
    ("resnet", lambda: T.ResNetConfig(), "ResNetForImageClassification", False),
]


class Peaks(unittest.TestCase):
    def estimate(self, name, text, *args):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, name)
            with open(path, "w") as f:
                f.write(text)
            out = subprocess.run([PROGRAM, "estimate", "--json", path] + list(args), stdout=subprocess.PIPE, check=True).stdout
        report = json.loads(out)
        weights = report["components"]["parameters"]["bytes"]
        return report["moments"]["peak"]["bytes"] - weights, report["eager"]["bytes"] - weights

    def training(self, config, *args):
        """Beside weights, their gradients and inputs: kept for the backward pass, at the peak."""
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "config.json")
            with open(path, "w") as f:
                f.write(json.dumps(config.to_dict()))
            out = subprocess.run([PROGRAM, "estimate", "--json", "--mode", "train", "--optimizer", "sgd", path] + list(args),
                                 stdout=subprocess.PIPE, check=True).stdout
        report = json.loads(out)
        parts = report["components"]
        rest = sum(parts[k]["bytes"] for k in ("parameters", "gradients", "inputs"))
        return parts["activations"]["bytes"] + parts["master"]["bytes"], report["moments"]["peak"]["bytes"] - rest

    def judge(self, name, theirs, ours):
        print("| %s | %s | %s | %.3f | %s | %.3f |" % (name, format(theirs, ","), format(ours[0], ","), ours[0] / theirs,
                                                       format(ours[1], ","), ours[1] / theirs), flush=True)
        self.assertLessEqual(theirs, ours[1], name)
        self.assertLessEqual(ours[1], 1.1 * theirs, name)

    def family(self, name, make, kind, eager, dtype=torch.float32, seq=SEQ):
        """The configuration, its inputs, options of estimate."""
        config = make()
        config._attn_implementation = "eager" if eager or kind.startswith("ResNet") else "sdpa"
        config.architectures = [kind]
        config.dtype = dtype
        args = ["--batch", "1", "--attention", "eager" if eager else "fused"]
        if kind.startswith("Whisper"):
            inputs = {"input_features": torch.zeros(1, 80, 3000, dtype=dtype), "decoder_input_ids": torch.zeros(1, 64, dtype=torch.long)}
            args += ["--size", "decoder_sequence=64"]
        elif kind.endswith("ImageClassification"):
            inputs = {"pixel_values": torch.zeros(1, 3, 224, 224, dtype=dtype)}
        else:
            inputs = {"input_ids": torch.zeros(1, seq, dtype=torch.long)}
            args += ["--seq", str(seq)]
        if kind.startswith("T5"):
            inputs["decoder_input_ids"] = inputs["input_ids"]
            args += ["--size", "decoder_sequence=%d" % seq]
        if "Causal" in kind or "GPT2" in kind or "Generation" in kind:
            inputs["use_cache"] = False
        return config, inputs, args

    def each(self, usual):
        """Rows of FAMILIES, with and without attention as products."""
        for name, make, kind, eager in FAMILIES:
            if name not in usual and os.environ.get("VCOMPRESS_FAMILIES") != "all":
                continue
            for products in (False, True) if eager else (False,):
                if kind in ("MPNetModel", "Gemma2ForCausalLM") and not products:
                    continue  # they have no other
                yield name + (", eager attention" if products else ""), make, kind, products

    def infer(self, usual, dtype):
        for name, make, kind, eager in self.each(usual):
            with self.subTest(name):
                config, inputs, args = self.family(name, make, kind, eager, dtype)
                self.judge(name, measure(empty(getattr(T, kind), config).to(dtype), inputs),
                           self.estimate("config.json", json.dumps(config.to_dict()), *args))

    def test_families(self):
        self.infer(USUAL, torch.float32)

    def test_half(self):
        self.infer(USUAL, torch.bfloat16)

    def test_training(self):
        """With the dropout of the configuration. One kernel for attention keeps no mask on GPUs."""
        for name, make, kind, eager in self.each(TRAINED):
            with self.subTest(name):
                config, inputs, args = self.family(name, make, kind, eager, seq=256)
                for key in () if eager else ("attention_probs_dropout_prob", "attention_dropout", "attn_pdrop"):
                    if hasattr(config, key):
                        setattr(config, key, 0.0)
                theirs = train(empty(getattr(T, kind), config), inputs)
                ours = self.training(config, *args)
                self.compare_training(name, theirs, ours)

    def compare_training(self, name, theirs, ours, few=1.001):
        for word, a, b in (("kept", theirs[0], ours[0]), ("peak", theirs[1], ours[1])):
            print("| %s, %s | %s | %s | %.3f |" % (name, word, format(a, ","), format(b, ","), b / a), flush=True)
            self.assertLessEqual(a, few * b, (name, word))  # numbers of positions, the weight of all targets
            self.assertLessEqual(b, 1.1 * a, (name, word))

    def test_cache(self):
        """Words behind others, whose keys and values are there: one, and some more."""
        small = dict(vocab_size=1000, hidden_size=512, intermediate_size=1024, num_attention_heads=8, num_hidden_layers=2, max_position_embeddings=4096)
        for name, make, kind, ways in (
                ("llama", lambda: T.LlamaConfig(num_key_value_heads=2, **small), T.LlamaForCausalLM, ("sdpa", "eager")),
                ("llama, keys for each head", lambda: T.LlamaConfig(**small), T.LlamaForCausalLM, ("sdpa", "eager")),
                ("gemma2", lambda: T.Gemma2Config(num_key_value_heads=2, head_dim=64, **small), T.Gemma2ForCausalLM, ("eager",)),
                ("gpt2", lambda: T.GPT2Config(vocab_size=1000, n_layer=2, n_positions=4096, n_embd=512, n_head=8), T.GPT2LMHeadModel, ("sdpa", "eager"))):
            for way in ways:
                for n in (1, 128):
                    with self.subTest((name, way, n)):
                        config = make()
                        config._attn_implementation = way
                        config.architectures, config.dtype = [kind.__name__], torch.bfloat16
                        theirs = continue_text(empty(kind, config).to(torch.bfloat16).eval(), torch.zeros(1, n, dtype=torch.long), 2048 - n)
                        ours = self.estimate("config.json", json.dumps(config.to_dict()), "--batch", "1", "--seq", str(n), "--ctx", "2048",
                                             "--attention", "eager" if way == "eager" else "fused")
                        self.judge("%s, %s, %d behind a cache" % (name, way, n), theirs, ours)

    def test_training_half(self):
        """Weights of bf16, and autocast with a table of words that is the output layer, and a head with a bias."""
        small = dict(hidden_size=512, intermediate_size=1024, num_attention_heads=8, num_key_value_heads=8, num_hidden_layers=2)
        words = dict(vocab_size=30522, hidden_size=256, num_hidden_layers=2, num_attention_heads=4, intermediate_size=1024)
        wide = dict(small, hidden_size=1024, num_hidden_layers=4)
        still = dict(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
        for name, config, kind, autocast, seq in (
                ("olmo", T.OlmoConfig(vocab_size=1000, **wide), T.OlmoForCausalLM, False, 128),
                ("olmo2", T.Olmo2Config(vocab_size=1000, **wide), T.Olmo2ForCausalLM, False, 128),
                ("llama", T.LlamaConfig(vocab_size=1000, **small), T.LlamaForCausalLM, False, 128),
                ("llama, tied, few words", T.LlamaConfig(vocab_size=30522, tie_word_embeddings=True, **small), T.LlamaForCausalLM, False, 16),
                ("llama, tied", T.LlamaConfig(vocab_size=30522, tie_word_embeddings=True, **small), T.LlamaForCausalLM, True, 256),
                ("gpt2, tied", T.GPT2Config(vocab_size=30522, n_layer=2, n_embd=256, n_head=4, resid_pdrop=0.0, attn_pdrop=0.0, embd_pdrop=0.0),
                 T.GPT2LMHeadModel, True, 128),
                ("bert, words", T.BertConfig(**words, **still), T.BertForMaskedLM, True, 128)):
            with self.subTest(name):
                config.architectures = [kind.__name__]
                config.dtype = torch.float32 if autocast else torch.bfloat16
                inputs = {"input_ids": torch.zeros(2, seq, dtype=torch.long)}
                if kind is not T.BertForMaskedLM:
                    inputs["use_cache"] = False
                net = empty(kind, config).to(config.dtype)
                net.tie_weights()
                theirs = train(net, inputs, autocast)
                ours = self.training(config, "--batch", "2", "--seq", str(seq), "--attention", "fused", *(["--amp", "autocast"] if autocast else []))
                self.compare_training(name + (", autocast" if autocast else ", bf16"), theirs, ours,
                                      few=1.012 if name.startswith("olmo") else 1.001)  # cosines and gradients of f32

    def test_torchvision(self):
        try:
            import torchvision
        except Exception as missing:
            self.skipTest(str(missing))
        sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "memory", "cases"))
        import nets
        for name, text, args in (("resnet18", nets.resnet(2, (2, 2, 2, 2), False), []),
                                 ("resnet50", nets.resnet(2, (3, 4, 6, 3), True), []), ("alexnet", nets.alexnet(2), ["--in-place"])):
            with self.subTest(name):
                theirs = measure(empty(getattr(torchvision.models, name)), {"x": torch.zeros(2, 3, 224, 224)})
                self.judge("torchvision's " + name, theirs, self.estimate("net.txt", text, *args))


if __name__ == "__main__":
    unittest.main()
