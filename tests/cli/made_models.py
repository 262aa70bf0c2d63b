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
