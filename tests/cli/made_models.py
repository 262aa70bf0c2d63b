"""Models for tests of the command: safetensors files of zeros, and the tensors of small Llama and BERT models with their config.json.
Python's standard library alone."""

import json
import os
import struct


def safetensors(path, tensors, dtype="F32"):
    """Zeros, which lie in a hole of the file."""
    width = {"F32": 4, "F16": 2, "BF16": 2}[dtype]
    header, at = {}, 0
    for name, shape in tensors:
        n = width
        for size in shape:
            n *= size
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [at, at + n]}
        at += n
    text = json.dumps(header).encode()
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        f.truncate(8 + len(text) + at)


def llama(hidden, middle, layers, heads, kv, vocabulary, tied):
    size = hidden // heads
    tensors = [("model.embed_tokens.weight", (vocabulary, hidden))]
    for k in range(layers):
        at = "model.layers.%d." % k
        tensors += [(at + "input_layernorm.weight", (hidden,)), (at + "mlp.down_proj.weight", (hidden, middle)),
                    (at + "mlp.gate_proj.weight", (middle, hidden)), (at + "mlp.up_proj.weight", (middle, hidden)),
                    (at + "post_attention_layernorm.weight", (hidden,)),
                    (at + "self_attn.k_proj.weight", (size * kv, hidden)), (at + "self_attn.o_proj.weight", (hidden, hidden)),
                    (at + "self_attn.q_proj.weight", (hidden, hidden)), (at + "self_attn.v_proj.weight", (size * kv, hidden))]
    tensors += [("model.norm.weight", (hidden,))] + ([] if tied else [("lm_head.weight", (vocabulary, hidden))])
    return {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": hidden, "intermediate_size": middle,
            "num_hidden_layers": layers, "num_attention_heads": heads, "num_key_value_heads": kv, "vocab_size": vocabulary,
            "tie_word_embeddings": tied, "max_position_embeddings": 4096, "rms_norm_eps": 1e-5, "hidden_act": "silu"}, tensors


KINDS = {"qwen2": "Qwen2", "qwen3": "Qwen3", "phi3": "Phi3", "gemma2": "Gemma2", "olmo2": "Olmo2", "mixtral": "Mixtral"}


def decoder(kind, hidden, middle, layers, heads, kv, vocabulary, tied):
    """A decoder of that type: the tensors of llama, and what the family has otherwise."""
    config, tensors = llama(hidden, middle, layers, heads, kv, vocabulary, tied or kind == "gemma2")
    if kind == "llama":
        return config, tensors
    size, shapes = hidden // heads, dict(tensors)
    config.update({"model_type": kind, "architectures": [KINDS[kind] + "ForCausalLM"], "rope_theta": 10000.0})
    for k in range(layers):
        at = "model.layers.%d." % k
        if kind == "qwen2":
            shapes.update({at + "self_attn.%s_proj.bias" % p: (size * n,) for p, n in (("q", heads), ("k", kv), ("v", kv))})
        elif kind in ("qwen3", "olmo2"):
            whole = kind == "olmo2"
            shapes.update({at + "self_attn.q_norm.weight": (size * heads if whole else size,), at + "self_attn.k_norm.weight": (size * kv if whole else size,)})
        elif kind == "phi3":
            for p in ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "mlp.gate_proj", "mlp.up_proj"):
                del shapes[at + p + ".weight"]
            shapes.update({at + "self_attn.qkv_proj.weight": (size * (heads + 2 * kv), hidden), at + "mlp.gate_up_proj.weight": (2 * middle, hidden)})
        elif kind == "mixtral":
            for p in ("gate", "up", "down"):
                del shapes[at + "mlp.%s_proj.weight" % p]
            shapes[at + "block_sparse_moe.gate.weight"] = (4, hidden)
            for e in range(4):
                shapes.update({at + "block_sparse_moe.experts.%d.w%d.weight" % (e, w): (hidden, middle) if w == 2 else (middle, hidden) for w in (1, 2, 3)})
        if kind in ("gemma2", "olmo2"):
            shapes[at + "post_feedforward_layernorm.weight"] = (hidden,)
        if kind == "gemma2":
            shapes[at + "pre_feedforward_layernorm.weight"] = (hidden,)
        if kind == "olmo2":
            del shapes[at + "input_layernorm.weight"]
    more = {"qwen3": {"head_dim": size}, "mixtral": {"num_local_experts": 4, "num_experts_per_tok": 2},
            "gemma2": {"head_dim": size, "hidden_activation": "gelu_pytorch_tanh", "sliding_window": 4096, "query_pre_attn_scalar": size,
                       "attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0}}
    config.update(more.get(kind, {}))
    return config, list(shapes.items())


def tokenizer(path):
    """Five tokens, from which a GGUF file takes its vocabulary."""
    cut = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
    steps = [{"type": "Split", "pattern": {"Regex": cut}, "behavior": "Isolated", "invert": False},
             {"type": "ByteLevel", "add_prefix_space": False, "use_regex": False}]
    form = {"model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "\u0120": 2, "ab": 3, "\u0120ab": 4}, "merges": ["a b", "\u0120 ab"]},
            "pre_tokenizer": {"type": "Sequence", "pretokenizers": steps}, "decoder": {"type": "ByteLevel"}, "normalizer": {"type": "NFC"}}
    with open(os.path.join(path, "tokenizer.json"), "w") as f:
        json.dump(form, f)


def bert(hidden, middle, layers, heads, vocabulary):
    tensors = [("bert.embeddings.word_embeddings.weight", (vocabulary, hidden)), ("bert.embeddings.position_embeddings.weight", (512, hidden)),
               ("bert.embeddings.token_type_embeddings.weight", (2, hidden)), ("bert.embeddings.LayerNorm.weight", (hidden,)),
               ("bert.embeddings.LayerNorm.bias", (hidden,))]
    for k in range(layers):
        at = "bert.encoder.layer.%d." % k
        for name, rows, columns in (("attention.self.query", hidden, hidden), ("attention.self.key", hidden, hidden),
                                    ("attention.self.value", hidden, hidden), ("attention.output.dense", hidden, hidden),
                                    ("intermediate.dense", middle, hidden), ("output.dense", hidden, middle)):
            tensors += [(at + name + ".weight", (rows, columns)), (at + name + ".bias", (rows,))]
        for name in ("attention.output.LayerNorm", "output.LayerNorm"):
            tensors += [(at + name + ".weight", (hidden,)), (at + name + ".bias", (hidden,))]
    tensors += [("bert.pooler.dense.weight", (hidden, hidden)), ("bert.pooler.dense.bias", (hidden,)),
                ("classifier.weight", (3, hidden)), ("classifier.bias", (3,))]
    return {"architectures": ["BertForSequenceClassification"], "model_type": "bert", "hidden_size": hidden, "intermediate_size": middle,
            "num_hidden_layers": layers, "num_attention_heads": heads, "vocab_size": vocabulary, "type_vocab_size": 2,
            "max_position_embeddings": 512, "hidden_act": "gelu", "id2label": {"0": "a", "1": "b", "2": "c"}}, tensors


def folder(path, config, tensors, dtype="F32"):
    os.mkdir(path)
    with open(os.path.join(path, "config.json"), "w") as f:
        json.dump(config, f)
    safetensors(os.path.join(path, "model.safetensors"), tensors, dtype)
