"""test_memory_steps.py - what `vcompress fit` says of whole runs, against live tensors counted in PyTorch (live_tensors.py): inference in
f32 and half precision, with one kernel for attention and with products; training steps with AdamW (foreach) and SGD, in f32 and bf16, under
autocast, with checkpointing. Sizes are real widths with few layers; no weight has data, so that all of it takes seconds a model.

    VCOMPRESS_PROGRAM=vcompress python3 test_memory_steps.py                      some models of each kind, as a test
    VCOMPRESS_PROGRAM=vcompress VCOMPRESS_FAMILIES=all python3 test_memory_steps.py   all of them; of its lines docs/memory-model.md has the least, the median and the most of each run
    VCOMPRESS_PROGRAM=vcompress VCOMPRESS_FAMILIES=t5,bert python3 test_memory_steps.py   those whose names hold a word

Of the models of the test no answer is below what is counted (a thousandth aside: numbers of positions, the loss's weight of all targets), and none more than a
tenth above: of training of all bytes, of inference of those beside the weights. Of all models a few are outside ("<--"), and such a run fails. Gradients are there
all along, as between the parts of a batch. No padding is given."""
import json
import os
import subprocess
import tempfile
import unittest

from transformers_5 import torch, transformers as T  # first: without them the test ends here
import live_tensors

PROGRAM = os.environ.get("VCOMPRESS_PROGRAM", "vcompress")
FEW = 1.001
WORDS = dict(batch=2, seq=512)

# ---- models: name, configuration, class, sizes ----


def decoder(kind, **keys):
    usual = dict(vocab_size=32000, hidden_size=1024, intermediate_size=2816, num_attention_heads=16, num_key_value_heads=16, num_hidden_layers=4,
                 max_position_embeddings=4096, tie_word_embeddings=False)
    usual.update(keys)
    return lambda: getattr(T, kind + ("TextConfig" if kind == "Gemma3" else "Config"))(**usual)


def bert(kind, **keys):
    usual = dict(vocab_size=30522, hidden_size=768, intermediate_size=3072, num_attention_heads=12, num_hidden_layers=4)
    usual.update(keys)
    return lambda: getattr(T, kind + "Config")(**usual)


def t5(kind="T5", **keys):
    usual = dict(vocab_size=32128, d_model=768, d_ff=2048, num_heads=12, d_kv=64, num_layers=3, num_decoder_layers=3, is_encoder_decoder=True)
    usual.update(keys)
    return lambda: getattr(T, kind + "Config")(**usual)


def whisper(width, heads, layers, **keys):
    return lambda: T.WhisperConfig(d_model=width, encoder_layers=layers, decoder_layers=layers, encoder_attention_heads=heads,
                                   decoder_attention_heads=heads, encoder_ffn_dim=4 * width, decoder_ffn_dim=4 * width, **keys)


MODELS = [
    ("llama, own keys for each head", decoder("Llama"), "LlamaForCausalLM", WORDS),
    ("llama, shared keys", decoder("Llama", num_key_value_heads=4), "LlamaForCausalLM", WORDS),
    ("llama, tied", decoder("Llama", num_key_value_heads=4, tie_word_embeddings=True), "LlamaForCausalLM", WORDS),
    ("llama, 128k words", decoder("Llama", num_key_value_heads=4, vocab_size=128256, num_hidden_layers=2), "LlamaForCausalLM", dict(batch=1, seq=512)),
    ("llama, long", decoder("Llama", num_key_value_heads=4), "LlamaForCausalLM", dict(batch=1, seq=2048)),
    ("llama, short", decoder("Llama", num_key_value_heads=4), "LlamaForCausalLM", dict(batch=1, seq=16)),
    ("llama, narrow, few words", decoder("Llama", vocab_size=300, hidden_size=512, intermediate_size=512, num_attention_heads=8, num_key_value_heads=8, num_hidden_layers=3),
     "LlamaForCausalLM", dict(batch=1, seq=613)),
    ("llama, long, few words", decoder("Llama", num_key_value_heads=4, vocab_size=1000), "LlamaForCausalLM", dict(batch=1, seq=2048)),
    ("llama, biases", decoder("Llama", attention_bias=True, mlp_bias=True), "LlamaForCausalLM", WORDS),
    ("llama, many sequences", decoder("Llama", num_key_value_heads=2), "LlamaForCausalLM", dict(batch=16, seq=64)),
    ("mistral, window 4096", decoder("Mistral", num_key_value_heads=4, sliding_window=4096), "MistralForCausalLM", WORDS),
    ("mistral, window 128", decoder("Mistral", num_key_value_heads=4, sliding_window=128), "MistralForCausalLM", WORDS),
    ("mistral, no window", decoder("Mistral", num_key_value_heads=4, sliding_window=None), "MistralForCausalLM", WORDS),
    ("qwen2", decoder("Qwen2", num_key_value_heads=2), "Qwen2ForCausalLM", WORDS),
    ("qwen2, tied", decoder("Qwen2", num_key_value_heads=2, tie_word_embeddings=True, vocab_size=151936, hidden_size=896, num_attention_heads=14,
                            intermediate_size=4864), "Qwen2ForCausalLM", dict(batch=1, seq=256)),
    ("qwen3", decoder("Qwen3", num_key_value_heads=8, head_dim=128), "Qwen3ForCausalLM", WORDS),
    ("qwen3, tied", decoder("Qwen3", num_key_value_heads=8, head_dim=128, tie_word_embeddings=True), "Qwen3ForCausalLM", WORDS),
    ("phi3", decoder("Phi3", pad_token_id=0), "Phi3ForCausalLM", WORDS),
    ("phi3, shared keys", decoder("Phi3", pad_token_id=0, num_key_value_heads=4), "Phi3ForCausalLM", WORDS),
    ("gemma", decoder("Gemma", head_dim=256, num_attention_heads=4, num_key_value_heads=1), "GemmaForCausalLM", WORDS),
    ("gemma2", decoder("Gemma2", head_dim=256, num_attention_heads=4, num_key_value_heads=2), "Gemma2ForCausalLM", WORDS),
    ("gemma2, window 128", decoder("Gemma2", head_dim=256, num_attention_heads=4, num_key_value_heads=2, sliding_window=128), "Gemma2ForCausalLM", WORDS),
    ("gemma2, long, few words", decoder("Gemma2", head_dim=128, num_key_value_heads=8, vocab_size=1000), "Gemma2ForCausalLM", dict(batch=1, seq=2048)),
    ("gemma3", decoder("Gemma3", head_dim=256, num_attention_heads=4, num_key_value_heads=1, num_hidden_layers=6), "Gemma3ForCausalLM", WORDS),
    ("gemma3, window 128", decoder("Gemma3", head_dim=256, num_attention_heads=4, num_key_value_heads=1, num_hidden_layers=6, sliding_window=128),
     "Gemma3ForCausalLM", WORDS),
    ("olmo", decoder("Olmo"), "OlmoForCausalLM", WORDS),
    ("olmo2", decoder("Olmo2"), "Olmo2ForCausalLM", WORDS),
    ("olmo2, shared keys", decoder("Olmo2", num_key_value_heads=4), "Olmo2ForCausalLM", WORDS),
    ("mixtral", decoder("Mixtral", num_key_value_heads=4, num_local_experts=4, num_experts_per_tok=2, intermediate_size=1792), "MixtralForCausalLM", WORDS),
    ("mixtral, 8 experts", decoder("Mixtral", num_key_value_heads=4, num_local_experts=8, num_experts_per_tok=2, intermediate_size=1024,
                                   num_hidden_layers=2), "MixtralForCausalLM", WORDS),
    ("qwen2_moe", decoder("Qwen2Moe", num_experts=8, num_experts_per_tok=2, moe_intermediate_size=704, shared_expert_intermediate_size=2816),
     "Qwen2MoeForCausalLM", WORDS),
    ("qwen3_moe", decoder("Qwen3Moe", num_key_value_heads=4, head_dim=64, num_experts=16, num_experts_per_tok=4, moe_intermediate_size=384),
     "Qwen3MoeForCausalLM", WORDS),
    ("arcee", decoder("Arcee", num_key_value_heads=4), "ArceeForCausalLM", WORDS),
    ("arcee, long", decoder("Arcee", mlp_bias=True), "ArceeForCausalLM", dict(batch=1, seq=1024)),
    ("granite", decoder("Granite", num_key_value_heads=4), "GraniteForCausalLM", WORDS),
    ("granite, scaled, tied", decoder("Granite", logits_scaling=8.0, embedding_multiplier=12.0, residual_multiplier=0.22, attention_multiplier=0.0156,
                                      tie_word_embeddings=True), "GraniteForCausalLM", dict(batch=1, seq=1024)),
    ("smollm3", decoder("SmolLM3", num_key_value_heads=4, pad_token_id=0), "SmolLM3ForCausalLM", WORDS),
    ("smollm3, long", decoder("SmolLM3", pad_token_id=0), "SmolLM3ForCausalLM", dict(batch=1, seq=1024)),
    ("nemotron", decoder("Nemotron", num_key_value_heads=4), "NemotronForCausalLM", WORDS),
    ("nemotron, long", decoder("Nemotron"), "NemotronForCausalLM", dict(batch=1, seq=1024)),
    ("nemotron, few words", decoder("Nemotron", vocab_size=1000, bos_token_id=1, eos_token_id=2, pad_token_id=0), "NemotronForCausalLM", dict(batch=1, seq=1024)),
    ("starcoder2", decoder("Starcoder2", num_key_value_heads=4, intermediate_size=4096), "Starcoder2ForCausalLM", WORDS),
    ("starcoder2, long", decoder("Starcoder2", intermediate_size=4096, tie_word_embeddings=True), "Starcoder2ForCausalLM", dict(batch=1, seq=1024)),
    ("stablelm", decoder("StableLm"), "StableLmForCausalLM", WORDS),
    ("stablelm, parallel", decoder("StableLm", use_parallel_residual=True, use_qkv_bias=True, num_key_value_heads=4), "StableLmForCausalLM", WORDS),
    ("stablelm, long", decoder("StableLm", partial_rotary_factor=0.5), "StableLmForCausalLM", dict(batch=1, seq=1024)),
    ("phi", decoder("Phi", intermediate_size=4096), "PhiForCausalLM", WORDS),
    ("phi, long", decoder("Phi", intermediate_size=4096, partial_rotary_factor=0.25), "PhiForCausalLM", dict(batch=1, seq=1024)),
    ("cohere", decoder("Cohere", num_key_value_heads=4, tie_word_embeddings=True), "CohereForCausalLM", WORDS),
    ("cohere, few words", decoder("Cohere", tie_word_embeddings=True, vocab_size=8000, bos_token_id=1, eos_token_id=2), "CohereForCausalLM", dict(batch=1, seq=1024)),
    ("cohere2", decoder("Cohere2", num_key_value_heads=4, tie_word_embeddings=True), "Cohere2ForCausalLM", WORDS),
    ("cohere2, window 128", decoder("Cohere2", sliding_window=128, tie_word_embeddings=True), "Cohere2ForCausalLM", dict(batch=1, seq=1024)),
    ("gpt2", lambda: T.GPT2Config(n_layer=4, resid_pdrop=0.1), "GPT2LMHeadModel", WORDS),
    ("gpt2, medium", lambda: T.GPT2Config(n_layer=2, n_embd=1024, n_head=16), "GPT2LMHeadModel", dict(batch=1, seq=1024)),
    ("gpt2, gelu", lambda: T.GPT2Config(n_layer=4, activation_function="gelu"), "GPT2LMHeadModel", WORDS),
    ("gpt2, base", lambda: T.GPT2Config(n_layer=4), "GPT2Model", WORDS),
    ("bert, base", bert("Bert"), "BertModel", WORDS),
    ("bert, words", bert("Bert"), "BertForMaskedLM", WORDS),
    ("bert, long", bert("Bert", max_position_embeddings=2048), "BertForSequenceClassification", dict(batch=1, seq=2048)),
    ("bert, classes", bert("Bert"), "BertForSequenceClassification", WORDS),
    ("bert, tokens", bert("Bert"), "BertForTokenClassification", WORDS),
    ("bert, large", bert("Bert", hidden_size=1024, intermediate_size=4096, num_attention_heads=16), "BertForSequenceClassification", WORDS),
    ("bert, mini", bert("Bert", hidden_size=256, intermediate_size=1024, num_attention_heads=4), "BertModel", dict(batch=8, seq=128)),
    ("bert, gelu_new", bert("Bert", hidden_act="gelu_new"), "BertModel", WORDS),
    ("bert, relu", bert("Bert", hidden_act="relu"), "BertModel", WORDS),
    ("bert, narrow, few words", bert("Bert", vocab_size=1000, hidden_size=512, intermediate_size=1024, num_attention_heads=8, max_position_embeddings=1024),
     "BertForMaskedLM", dict(batch=1, seq=1021)),
    ("roberta", bert("Roberta", vocab_size=50265, max_position_embeddings=514), "RobertaForMaskedLM", WORDS),
    ("roberta, classes", bert("Roberta", vocab_size=50265, max_position_embeddings=514), "RobertaForSequenceClassification", WORDS),
    ("xlm-roberta", bert("XLMRoberta", vocab_size=250002, max_position_embeddings=514, num_hidden_layers=2), "XLMRobertaModel", WORDS),
    ("camembert", bert("Camembert", vocab_size=32005, max_position_embeddings=514), "CamembertForTokenClassification", WORDS),
    ("electra", bert("Electra", embedding_size=128, hidden_size=256, intermediate_size=1024, num_attention_heads=4), "ElectraModel", WORDS),
    ("albert", bert("Albert", embedding_size=128, hidden_act="gelu_new"), "AlbertModel", WORDS),
    ("albert, words", bert("Albert", embedding_size=128), "AlbertForMaskedLM", WORDS),
    ("albert, classes", bert("Albert", embedding_size=128, hidden_size=1024, intermediate_size=4096, num_attention_heads=16, num_hidden_groups=2),
     "AlbertForSequenceClassification", WORDS),
    ("distilbert", lambda: T.DistilBertConfig(n_layers=4), "DistilBertModel", WORDS),
    ("distilbert, words", lambda: T.DistilBertConfig(n_layers=4), "DistilBertForMaskedLM", WORDS),
    ("distilbert, classes", lambda: T.DistilBertConfig(n_layers=4), "DistilBertForSequenceClassification", WORDS),
    ("mpnet", bert("MPNet", vocab_size=30527, max_position_embeddings=514), "MPNetModel", WORDS),
    ("t5", t5(), "T5ForConditionalGeneration", dict(batch=2, seq=512, decoder=512)),
    ("t5, short answers", t5(), "T5ForConditionalGeneration", dict(batch=4, seq=512, decoder=32)),
    ("t5, gated", t5(feed_forward_proj="gated-gelu", tie_word_embeddings=False), "T5ForConditionalGeneration", dict(batch=2, seq=300, decoder=40)),
    ("t5, gated, wide", t5(feed_forward_proj="gated-gelu", d_model=1024, d_ff=2816, num_heads=16), "T5ForConditionalGeneration",
     dict(batch=2, seq=512, decoder=128)),
    ("t5, gated-silu", t5(feed_forward_proj="gated-silu"), "T5ForConditionalGeneration", dict(batch=2, seq=256, decoder=256)),
    ("t5, long, few words", t5(vocab_size=1000), "T5ForConditionalGeneration", dict(batch=1, seq=1024, decoder=1024)),
    ("t5, encoder", t5(), "T5EncoderModel", dict(batch=2, seq=512)),
    ("mt5", t5("MT5", vocab_size=250112, d_model=512, d_ff=1024, num_heads=6), "MT5ForConditionalGeneration", dict(batch=1, seq=256, decoder=64)),
    ("whisper, tiny", whisper(384, 6, 4), "WhisperForConditionalGeneration", dict(batch=2, decoder=64)),
    ("whisper, small", whisper(768, 12, 3), "WhisperForConditionalGeneration", dict(batch=1, decoder=128)),
    ("whisper, medium", whisper(1024, 16, 2), "WhisperForConditionalGeneration", dict(batch=1, decoder=448)),
    ("vit", lambda: T.ViTConfig(num_hidden_layers=4, num_labels=1000), "ViTForImageClassification", dict(batch=8)),
    ("vit, large", lambda: T.ViTConfig(num_hidden_layers=2, hidden_size=1024, intermediate_size=4096, num_attention_heads=16), "ViTModel", dict(batch=4)),
    ("vit, 384", lambda: T.ViTConfig(num_hidden_layers=2, image_size=384), "ViTForImageClassification", dict(batch=2, image=384)),
    ("resnet-50", lambda: T.ResNetConfig(num_labels=1000), "ResNetForImageClassification", dict(batch=8)),
    ("resnet-18", lambda: T.ResNetConfig(layer_type="basic", hidden_sizes=[64, 128, 256, 512], depths=[2, 2, 2, 2], num_labels=1000),
     "ResNetForImageClassification", dict(batch=8)),
]
USUAL = ("bert, narrow, few words", "phi3", "gemma3, window 128", "mixtral", "gpt2", "bert, words", "distilbert, classes", "t5, gated", "whisper, tiny", "llama, long, few words", "vit", "resnet-18",
         "granite", "stablelm, parallel", "phi", "cohere", "llama, narrow, few words", "nemotron, few words", "cohere, few words", "bert, mini", "t5, encoder")

# ---- runs: name, mode, type of floats, attention, optimizer, autocast, checkpointing ----
RUNS = [
    ("infer f32", "infer", torch.float32, "sdpa", None, False, False),
    ("infer bf16", "infer", torch.bfloat16, "sdpa", None, False, False),
    ("infer bf16, products", "infer", torch.bfloat16, "eager", None, False, False),
    ("AdamW f32", "train", torch.float32, "sdpa", "adamw", False, False),
    ("SGD f32, products", "train", torch.float32, "eager", "sgd", False, False),
    ("SGD bf16", "train", torch.bfloat16, "sdpa", "sgd", False, False),
    ("AdamW autocast", "train", torch.float32, "sdpa", "adamw", True, False),
    ("SGD autocast", "train", torch.float32, "sdpa", "sgd", True, False),
    ("SGD f32, checkpointing", "train", torch.float32, "sdpa", "sgd", False, True),
]
PRODUCTS_ALONE = ("Gemma2", "MPNet")  # transformers has attention as products alone for them
NO_CHECKPOINTS = ("MPNet", "ResNet", "DistilBert", "Albert")


def inputs_of(kind, sizes, dtype):
    on = dict(device="meta")
    batch = sizes["batch"]
    if kind.startswith("Whisper"):
        given = {"input_features": torch.zeros(batch, 80, 3000, dtype=dtype, **on), "decoder_input_ids": torch.zeros(batch, sizes["decoder"], dtype=torch.long, **on)}
    elif kind.startswith(("ViT", "ResNet")):
        edge = sizes.get("image", 224)
        given = {"pixel_values": torch.zeros(batch, 3, edge, edge, dtype=dtype, **on)}
    else:
        given = {"input_ids": torch.zeros(batch, sizes["seq"], dtype=torch.long, **on)}
        if "decoder" in sizes:
            given["decoder_input_ids"] = torch.zeros(batch, sizes["decoder"], dtype=torch.long, **on)
    return given


def options_of(sizes):
    args = ["--batch", str(sizes["batch"])]
    args += ["--seq", str(sizes["seq"])] if "seq" in sizes else []
    return args + (["--size", "decoder_sequence=%d" % sizes["decoder"]] if "decoder" in sizes else [])


def loss_of(y):
    y = y.reshape(-1, y.shape[-1]).float()
    return torch.nn.functional.cross_entropy(y, torch.zeros(len(y), dtype=torch.long, device="meta"))


def fit(name, text, *args):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, name)
        with open(path, "w" if isinstance(text, str) else "wb") as f:
            f.write(text)
        out = subprocess.run([PROGRAM, "fit", "--memory", "9999GiB", "--allocator", "exact", "--workspace", "0", "--context-overhead", "0",
                              "--runtime", "pytorch", "--json", path] + list(args), stdout=subprocess.PIPE, check=False).stdout
    report = json.loads(out)
    assert report["devices"][0]["verdict"] == "fits", report
    return report["devices"][0]["need_bytes"], report["components"]["parameters"]["bytes"]


class Steps(unittest.TestCase):
    def judge(self, what, run, theirs, ours):
        print("%-32s %-24s %15s %15s %.3f%s" % (what, run, format(theirs, ","), format(ours, ","), ours / theirs,
                                               "" if theirs <= FEW * ours and ours <= 1.1 * theirs else " <--"), flush=True)
        with self.subTest((what, run)):
            self.assertLessEqual(theirs, FEW * ours)
            self.assertLessEqual(ours, 1.1 * theirs)

    def chosen(self, names):
        word = os.environ.get("VCOMPRESS_FAMILIES", "")
        return [n for n in names if word == "all" or (n in USUAL if not word else any(w in n for w in word.split(",")))]

    def one(self, name, make, kind, sizes, run):
        what, mode, dtype, attention, optimizer, autocast, checkpointing = run
        config = make()
        if kind.startswith(PRODUCTS_ALONE):
            attention = "eager"
        config._attn_implementation = attention if not kind.startswith("ResNet") else "eager"
        config.architectures, config.dtype = [kind], dtype
        for key in () if attention == "eager" else ("attention_probs_dropout_prob", "attention_dropout", "attn_pdrop"):
            if hasattr(config, key):
                setattr(config, key, 0.0)
        with torch.device("meta"):
            net = getattr(T, kind)(config).to(dtype)
        net.tie_weights()
        given = inputs_of(kind, sizes, dtype)
        rest = {"use_cache": False} if "Causal" in kind or "GPT2" in kind or "Generation" in kind else {}
        products = attention == "eager" and not kind.startswith(PRODUCTS_ALONE)  # what a module has anyway needs no option
        args = options_of(sizes) + (["--attention", "eager"] if products else [])
        if mode == "infer":
            theirs, weights = live_tensors.inference(net, lambda: net(**given, **rest), given.values())
            ours, loaded = fit("config.json", json.dumps(config.to_dict()), *args)
            self.judge(name, what, theirs - weights, ours - loaded)
            return
        if checkpointing:
            net.gradient_checkpointing_enable()
        steps = dict(adamw=lambda p: torch.optim.AdamW(p, foreach=True), sgd=lambda p: torch.optim.SGD(p, lr=0.1, foreach=True))
        theirs, _ = live_tensors.training(net, lambda: loss_of(net(**given, **rest)[0]), given.values(), steps[optimizer](list(net.parameters())), autocast)
        ours, _ = fit("config.json", json.dumps(config.to_dict()), "--mode", "train", "--optimizer", optimizer, *args,
                      *(["--amp", "autocast"] if autocast else []), *(["--recompute", "layer"] if checkpointing else []))
        self.judge(name, what, theirs, ours)

    def test_recurrent(self):
        """Lists of layers: LSTM, GRU and RNN as cuDNN computes them; LSTM with projections as PyTorch's own operators train it."""
        class Net(torch.nn.Module):
            def __init__(self, kind, width, hidden, layers, both, proj):
                super().__init__()
                self.r = getattr(torch.nn, kind)(width, hidden, layers, bidirectional=both, batch_first=True, **({"proj_size": proj} if proj else {}))
                self.fc = torch.nn.Linear((proj or hidden) * (1 + both), 12)

            def forward(self, x):
                return self.fc(self.r(x)[0])

        for kind, width, hidden, layers, both, batch, steps, *proj in (
                ("LSTM", 64, 128, 1, False, 32, 100), ("LSTM", 40, 256, 3, True, 8, 200), ("GRU", 64, 128, 2, True, 32, 100), ("GRU", 512, 64, 1, False, 4, 50),
                ("RNN", 16, 256, 2, False, 32, 100), ("LSTM", 300, 300, 2, True, 1, 20),
                ("LSTM", 64, 128, 1, False, 32, 6, 64), ("LSTM", 40, 256, 2, True, 8, 4, 48),
                ("LSTM", 64, 128, 1, False, 32, 2, 64), ("LSTM", 32, 64, 2, True, 16, 2, 8)):
            proj = proj[0] if proj else 0
            text = "input x [batch, %d, %d]\n%s r %d layers=%d bidirectional=%s%s\nlinear fc 12\n" % (
                steps, width, kind.lower(), hidden, layers, ("no", "yes")[both], " proj=%d" % proj if proj else "")
            name = "%s %d, %d, %d layers, %d x %d%s" % (kind, width, hidden * (1 + both), layers, batch, steps, " to %d" % proj if proj else "")
            for what, mode, dtype, _, optimizer, autocast, _ in RUNS[:2] + RUNS[3:4] + RUNS[5:8]:
                if proj and (mode == "infer" or autocast):
                    continue
                with torch.device("meta"):
                    net, x = Net(kind, width, hidden, layers, both, proj).to(dtype), torch.zeros(batch, steps, width, dtype=dtype)
                word = ("--batch", str(batch), "--dtype", {torch.float32: "f32"}.get(dtype, "bf16"))
                if mode == "infer":
                    theirs, weights = live_tensors.inference(net, lambda: net(x), [x])
                    ours, loaded = fit("net.txt", text, *word)
                    self.judge(name, what, theirs - weights, ours - loaded)
                    continue
                make = dict(adamw=lambda p: torch.optim.AdamW(p, foreach=True), sgd=lambda p: torch.optim.SGD(p, lr=0.1, foreach=True))[optimizer]
                theirs, _ = live_tensors.training(net, lambda: loss_of(net(x)), [x], make(list(net.parameters())), autocast)
                ours, _ = fit("net.txt", text, "--mode", "train", "--optimizer", optimizer, *word, *(["--amp", "autocast"] if autocast else []))
                self.judge(name, what, theirs, ours)

    def test_stand_ins(self):
        """Types without a graph of their own: never below what is counted, with the weights that config.json alone tells; nothing is said where nothing bounds it."""
        few = dict(vocab_size=1000, hidden_size=512, intermediate_size=1024, num_attention_heads=8, num_hidden_layers=3, max_position_embeddings=1024, pad_token_id=1)
        for kind, config in (("BloomForCausalLM", T.BloomConfig(vocab_size=1000, hidden_size=512, n_head=8, n_layer=3)),
                             ("MptForCausalLM", T.MptConfig(vocab_size=1000, d_model=512, n_heads=8, n_layers=3)), ("EsmForMaskedLM", T.EsmConfig(**few)),
                             ("IBertForMaskedLM", T.IBertConfig(**few)), ("RoCBertForMaskedLM", T.RoCBertConfig(**few)), ("BitNetForCausalLM", T.BitNetConfig(num_key_value_heads=8, **few)),
                             ("Lfm2ForCausalLM", T.Lfm2Config(num_key_value_heads=2, layer_types=["conv", "full_attention", "conv"], **few)),
                             ("LlamaForCausalLM", T.LlamaConfig(**dict(few, vocab_size=300, intermediate_size=512)))):  # a graph of its own: narrow, with few words
            for dtype in (torch.float32, torch.bfloat16):
                config.architectures, config.dtype = [kind], dtype
                with torch.device("meta"):
                    net = getattr(T, kind)(config).to(dtype)
                net.tie_weights()
                ids = torch.zeros(1, 761, dtype=torch.long, device="meta")
                theirs, _ = live_tensors.inference(net, lambda: net(ids, **({"use_cache": False} if "Causal" in kind else {})), [ids])
                ours, _ = fit("config.json", json.dumps(config.to_dict()), "--seq", "761")
                print("%-32s %-24s %15s %15s %.3f" % (kind, dtype, format(theirs, ","), format(ours, ","), ours / theirs), flush=True)
                self.assertLessEqual(theirs, FEW * ours, (kind, dtype))
                self.assertLessEqual(ours, 1.1 * theirs, (kind, dtype))
        with self.assertRaisesRegex(AssertionError, "models of its type"):
            fit("config.json", json.dumps(dict(T.LongT5Config().to_dict(), architectures=["LongT5ForConditionalGeneration"])), "--seq", "64")

    def test_windows_behind_a_text(self):
        """A window of keys is a view of all that were there before, until the next word."""
        for name, make, kind in (
                ("mistral", decoder("Mistral", num_key_value_heads=4, sliding_window=128), "MistralForCausalLM"),
                ("gemma3", decoder("Gemma3", head_dim=256, num_attention_heads=4, num_key_value_heads=1, num_hidden_layers=6, sliding_window=128),
                 "Gemma3ForCausalLM"),
                ("llama", decoder("Llama", num_key_value_heads=4), "LlamaForCausalLM")):
            for words in (1, 64):
                config = make()
                config._attn_implementation, config.architectures, config.dtype = "sdpa", [kind], torch.bfloat16
                with torch.device("meta"):
                    net = getattr(T, kind)(config).to(torch.bfloat16)
                theirs = live_tensors.continuation(net, 2, 3072, words)
                ours, loaded = fit("config.json", json.dumps(config.to_dict()), "--batch", "2", "--seq", str(words), "--ctx", str(3072 + words))
                self.judge(name, "%d behind 3072" % words, theirs, ours - loaded)

    def test_models(self):
        rows = {row[0]: row for row in MODELS}
        for name in self.chosen(rows):
            _, make, kind, sizes = rows[name]
            for run in RUNS:
                if run[6] and kind.startswith(NO_CHECKPOINTS):
                    continue
                if run[3] == "eager" and kind.startswith(("ResNet",) + PRODUCTS_ALONE):
                    continue
                self.one(name, make, kind, sizes, run)


if __name__ == "__main__":
    unittest.main()
