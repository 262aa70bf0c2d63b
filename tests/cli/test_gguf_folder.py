#!/usr/bin/env python3
"""test_gguf_folder.py PROGRAM - a folder of Hugging Face becomes the GGUF model that llama.cpp runs.

For each family a tiny folder is made, with random weights, fewer key heads than heads, heads that do not fill the hidden size
where the family allows it; the program converts it, and names, types, shapes, values and metadata of the file have to be what
the tables here say, which were written from llama.cpp's loader. Then the forms of config.json, the ways in which a folder is
divided, each kind of vocabulary, and each refusal, after which nothing may be written. Standard library only."""
import json
import math
import os
import random
import struct
import subprocess
import sys
import tempfile

PROGRAM = os.path.abspath(sys.argv[1])
H, F, A, K, D, V, N, E, M, S = 24, 40, 4, 2, 8, 12, 2, 3, 20, 28  # sizes, see llm_parts.h
RANDOM = random.Random(7)
WRONG = []


def check(holds, text):
    if not holds:
        WRONG.append(text)


def f32(x):
    return struct.unpack("<f", struct.pack("<f", x))[0]


def run(*args):
    p = subprocess.run([PROGRAM, *args], stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=False)
    return p.returncode, p.stdout.decode(), p.stderr.decode()


# ---- files ----

def write(path, data):
    with open(path, "wb") as f:
        f.write(data if isinstance(data, bytes) else data.encode())


def count(shape):
    return math.prod(shape)


def safetensors(path, tensors, dtype="F32"):
    """tensors: {name: (shape, values)}"""
    header, blobs, at = {}, [], 0
    for name, (shape, values) in tensors.items():
        if dtype == "F32":
            blob = struct.pack("<%df" % len(values), *values)
        else:  # bf16: the upper halves, which the values fit
            blob = b"".join(struct.pack("<f", x)[2:] for x in values)
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [at, at + len(blob)]}
        blobs.append(blob)
        at += len(blob)
    text = json.dumps(header).encode()
    write(path, struct.pack("<Q", len(text)) + text + b"".join(blobs))


class Gguf:
    """Pairs and tensors of a file."""

    def __init__(self, path):
        with open(path, "rb") as f:
            self.data = f.read()
        self.at = 24
        self.pairs, self.tensors = {}, {}
        magic, version, n_tensors, n_pairs = struct.unpack_from("<4sIQQ", self.data)
        assert (magic, version) == (b"GGUF", 3)
        for _ in range(n_pairs):
            key = self.text()
            self.pairs[key] = self.value(self.take("<I"))
        entries = []
        for _ in range(n_tensors):
            name = self.text()
            dims = [self.take("<Q") for _ in range(self.take("<I"))]
            entries.append((name, tuple(reversed(dims)), self.take("<I"), self.take("<Q")))
        base = (self.at + 31) // 32 * 32
        for name, shape, kind, offset in entries:
            n = count(shape)
            values = None
            if kind == 0:
                values = list(struct.unpack_from("<%df" % n, self.data, base + offset))
            elif kind == 30:
                raw = self.data[base + offset:base + offset + 2 * n]
                values = [struct.unpack("<f", b"\0\0" + raw[i:i + 2])[0] for i in range(0, 2 * n, 2)]
            self.tensors[name] = (shape, kind, values)

    def take(self, form):
        value, = struct.unpack_from(form, self.data, self.at)
        self.at += struct.calcsize(form)
        return value

    def text(self):
        n = self.take("<Q")
        self.at += n
        return self.data[self.at - n:self.at].decode()

    def value(self, kind):
        forms = {0: "<B", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q"}
        if kind == 8:
            return self.text()
        if kind == 9:
            inner, n = self.take("<I"), self.take("<Q")
            return [self.value(inner) for _ in range(n)]
        return self.take(forms[kind])


# ---- families ----

DENSE = [("input_layernorm", "attn_norm", "H"), ("self_attn.q_proj", "attn_q", "qH"), ("self_attn.k_proj", "attn_k", "kH"),
         ("self_attn.v_proj", "attn_v", "kH"), ("self_attn.o_proj", "attn_output", "Hq"),
         ("post_attention_layernorm", "ffn_norm", "H"), ("mlp.gate_proj", "ffn_gate", "FH"), ("mlp.up_proj", "ffn_up", "FH"),
         ("mlp.down_proj", "ffn_down", "HF")]
NORMS = [("self_attn.q_norm", "attn_q_norm", "d"), ("self_attn.k_norm", "attn_k_norm", "d")]
BIASES = [("self_attn.q_proj.bias", "attn_q.bias", "q"), ("self_attn.k_proj.bias", "attn_k.bias", "k"),
          ("self_attn.v_proj.bias", "attn_v.bias", "k")]
MOE = [r for r in DENSE if "mlp" not in r[0]] + [("mlp.gate", "ffn_gate_inp", "EH"), ("mlp.experts.*.gate_proj", "ffn_gate_exps", "MH"),
                                                 ("mlp.experts.*.up_proj", "ffn_up_exps", "MH"),
                                                 ("mlp.experts.*.down_proj", "ffn_down_exps", "HM")]
MIXTRAL = [(a.replace("mlp", "block_sparse_moe").replace("gate_proj", "w1").replace("up_proj", "w3").replace("down_proj", "w2"), b,
            c.replace("M", "F")) for a, b, c in MOE]
SHARED = [("mlp.shared_expert_gate", "ffn_gate_inp_shexp", "1H"), ("mlp.shared_expert.gate_proj", "ffn_gate_shexp", "SH"),
          ("mlp.shared_expert.up_proj", "ffn_up_shexp", "SH"), ("mlp.shared_expert.down_proj", "ffn_down_shexp", "HS")]
FOUR = [r for r in DENSE if r[0] != "post_attention_layernorm"] + [
    ("post_attention_layernorm", "post_attention_norm", "H"), ("pre_feedforward_layernorm", "ffn_norm", "H"),
    ("post_feedforward_layernorm", "post_ffw_norm", "H")]
OLMO = [r for r in DENSE if "layernorm" not in r[0]] + [
    ("post_attention_layernorm", "post_attention_norm", "H"), ("post_feedforward_layernorm", "post_ffw_norm", "H"),
    ("self_attn.q_norm", "attn_q_norm", "q"), ("self_attn.k_norm", "attn_k_norm", "k")]
PHI = [("input_layernorm", "attn_norm", "H"), ("self_attn.qkv_proj", "attn_qkv", "QH"), ("self_attn.o_proj", "attn_output", "Hq"),
       ("post_attention_layernorm", "ffn_norm", "H"), ("mlp.gate_up_proj", "ffn_up", "GH"), ("mlp.down_proj", "ffn_down", "HF")]
GLM = [r for r in DENSE if "mlp" not in r[0]] + [
    ("post_self_attn_layernorm", "post_attention_norm", "H"), ("post_mlp_layernorm", "post_ffw_norm", "H"),
    ("mlp.gate_up_proj", "ffn_up", "GH"), ("mlp.down_proj", "ffn_down", "HF")]
SEED = [(a, "post_attention_norm" if b == "ffn_norm" else b, c) for a, b, c in DENSE]
BERT = [(f"attention.self.{a}", f"attn_{b}", "HH") for a, b in (("query", "q"), ("key", "k"), ("value", "v"))] + [
    ("attention.output.dense", "attn_output", "HH"), ("attention.output.LayerNorm", "attn_output_norm", "H"),
    ("intermediate.dense", "ffn_up", "FH"), ("output.dense", "ffn_down", "HF"), ("output.LayerNorm", "layer_output_norm", "H")]
BERT = [(a + end, b + end, c[:1] if end == ".bias" else c) for a, b, c in BERT for end in ("", ".bias")]
YARN = {"rope_type": "yarn", "factor": 16.0, "original_max_position_embeddings": 16, "mscale": 1.0, "mscale_all_dim": 1.0,
        "llama_4_scaling_beta": 0.25}
FILL = {"head_dim": H // A}  # heads that fill the hidden size
MLP = [r for r in DENSE if "mlp" in r[0]]
# Qwen3.5: a layer of full attention, whose queries have a gate, and a recurrent one, here with 2 key heads and 4 value heads of 4
GATED = [(a, "post_attention_norm" if b == "ffn_norm" else b, "pH" if b == "attn_q" else c) for a, b, c in DENSE if "mlp" not in a] + NORMS
RECURRENT = [("input_layernorm", "attn_norm", "H"), ("post_attention_layernorm", "post_attention_norm", "H")] + [
    ("linear_attn." + a, b, c) for a, b, c in (
        ("in_proj_qkv", "attn_qkv", "cH"), ("in_proj_z", "attn_gate", "iH"), ("in_proj_a", "ssm_alpha", "vH"), ("in_proj_b", "ssm_beta", "vH"),
        ("conv1d", "ssm_conv1d", "c1L"), ("A_log!", "ssm_a", "v"), ("dt_bias!", "ssm_dt.bias", "v"), ("norm", "ssm_norm", "u"), ("out_proj", "ssm_out", "Hi"))]
SSM = {"ssm.conv_kernel": 3, "ssm.state_size": 4, "ssm.group_count": 2, "ssm.time_step_rank": 4, "ssm.inner_size": 16,
       "attention.recurrent_layers": [True, False], "full_attention_interval": 2, "rope.dimension_count": 2}
LINEAR = {"linear_conv_kernel_dim": 3, "linear_key_head_dim": 4, "linear_value_head_dim": 4, "linear_num_key_heads": 2,
          "linear_num_value_heads": 4, "full_attention_interval": 2}

# Gemma 4: a layer that slides, and a full one, whose heads are larger, with values that are keys
INPUT = [("per_layer_input_gate", "inp_gate", "IH"), ("per_layer_projection", "proj", "HI"), ("post_per_layer_input_norm", "post_norm", "H")]
GEMMA4 = FOUR + NORMS + [("layer_scalar!", "layer_output_scale.weight", "1")]
GEMMA4_MOE = GEMMA4 + [
    ("router.proj", "ffn_gate_inp", "EH"), ("router.scale!", "ffn_gate_inp.scale", "H"), ("router.per_expert_scale!", "ffn_down_exps.scale", "E"),
    ("experts.gate_up_proj!", "ffn_gate_up_exps.weight", "EgH"), ("experts.down_proj!", "ffn_down_exps.weight", "EHM"),
    ("pre_feedforward_layernorm_2", "pre_ffw_norm_2", "H"), ("post_feedforward_layernorm_1", "post_ffw_norm_1", "H"),
    ("post_feedforward_layernorm_2", "post_ffw_norm_2", "H")]
PER_LAYER = [("model.embed_tokens_per_layer", "per_layer_token_embd", "VJ"), ("model.per_layer_model_projection", "per_layer_model_proj", "JH"),
             ("model.per_layer_projection_norm", "per_layer_proj_norm", "I")]
KINDS = {"layer_types": ["sliding_attention", "full_attention"], "sliding_window": 16, "hidden_activation": "gelu_pytorch_tanh",
         "rope_parameters": {"sliding_attention": {"rope_type": "default", "rope_theta": 5000.0},
                             "full_attention": {"rope_type": "proportional", "rope_theta": 20000.0, "partial_rotary_factor": 0.25}}}
HEADS = {"attention.key_length": 16, "attention.value_length": 16, "attention.key_length_swa": D, "attention.value_length_swa": D,
         "rope.dimension_count": 16, "rope.dimension_count_swa": D, "rope.freq_base_swa": 5000.0, "attention.sliding_window": 16,
         "attention.sliding_window_pattern": [True, False], "attention.shared_kv_layers": 0}

# type: architecture, tensors of a layer, or of each in a tuple (a name with "!" is whole), what the configuration adds, pairs behind the architecture, what is special
FAMILIES = {
    "llama": ("llama", DENSE + BIASES, {}, {"rope.dimension_count": D, "attention.key_length": D}, "perm"),
    "mistral": ("llama", DENSE, {"sliding_window": None}, {}, "perm"),
    "mixtral": ("llama", MIXTRAL, {"num_local_experts": E, "num_experts_per_tok": 2}, {"expert_count": E, "expert_used_count": 2}, "perm"),
    "qwen2": ("qwen2", DENSE + BIASES, FILL, {}, ""),
    "qwen2_moe": ("qwen2moe", MOE + SHARED, {**FILL, "num_experts": E, "num_experts_per_tok": 2, "moe_intermediate_size": M,
                                             "shared_expert_intermediate_size": S},
                  {"expert_feed_forward_length": M, "expert_shared_feed_forward_length": S}, ""),
    "qwen3": ("qwen3", DENSE + NORMS, {}, {"attention.value_length": D}, ""),
    "qwen3_moe": ("qwen3moe", MOE + NORMS, {"num_experts": E, "num_experts_per_tok": 2, "moe_intermediate_size": M, "norm_topk_prob": True},
                  {"expert_feed_forward_length": M}, ""),
    "qwen3_5_text": ("qwen35", (RECURRENT + MLP, GATED + MLP), LINEAR, {**SSM, "rope.dimension_sections": [11, 11, 10, 0]}, "plus"),
    "qwen3_5_moe": ("qwen35moe", tuple(r + SHARED + [x for x in MOE if "mlp" in x[0]] for r in (RECURRENT, GATED)),
                    {**LINEAR, "intermediate_size": None, "num_experts": E, "num_experts_per_tok": 2, "moe_intermediate_size": M,
                     "shared_expert_intermediate_size": S, "layer_types": ["linear_attention", "full_attention"],
                     "rope_parameters": {"rope_type": "default", "rope_theta": 20000.0, "mrope_section": [1, 1, 2], "partial_rotary_factor": 0.25}},
                    {**SSM, "expert_feed_forward_length": M, "expert_shared_feed_forward_length": S, "expert_count": E,
                     "feed_forward_length": M, "rope.dimension_sections": [1, 1, 2, 0]}, "plus"),
    "gemma2": ("gemma2", FOUR, {"hidden_activation": "gelu_pytorch_tanh", "sliding_window": 16, "query_pre_attn_scalar": D},
               {"attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0, "attention.sliding_window": 16,
                "attention.sliding_window_pattern": [True, False]}, "plus tied"),
    "gemma3_text": ("gemma3", FOUR + NORMS, {"hidden_activation": "gelu_pytorch_tanh", "sliding_window": 16, "query_pre_attn_scalar": 2 * D,
                                             "sliding_window_pattern": 2, "rope_local_base_freq": 5000.0},
                    {"rope.freq_base_swa": 5000.0, "attention.sliding_window_pattern": [True, False]}, "plus tied factor"),
    "gemma4_text": ("gemma4", (GEMMA4 + INPUT, [r for r in GEMMA4 + INPUT if "v_proj" not in r[0]]),
                    {**KINDS, "global_head_dim": 16, "hidden_size_per_layer_input": 6, "attention_k_eq_v": True, "num_global_key_value_heads": 1},
                    {**HEADS, "attention.head_count_kv": [K, 1], "embedding_length_per_layer_input": 6, "final_logit_softcapping": 0.0}, "tied two"),
    "gemma4": ("gemma4", (GEMMA4_MOE, GEMMA4_MOE),
               {**KINDS, "per_layer_config": {"1": {"head_dim": 16}}, "hidden_size_per_layer_input": 0, "enable_moe_block": True, "num_experts": E,
                "top_k_experts": 2, "moe_intermediate_size": M, "final_logit_softcapping": 20.0},
               {**HEADS, "expert_count": E, "expert_used_count": 2, "expert_feed_forward_length": M, "embedding_length_per_layer_input": 0,
                "final_logit_softcapping": 20.0}, "tied two"),
    "phi3": ("phi3", PHI, {**FILL, "partial_rotary_factor": 2 / 3, "sliding_window": 16},
             {"rope.dimension_count": 4, "attention.sliding_window": 16, "rope.scaling.original_context_length": 64}, ""),
    "smollm3": ("smollm3", DENSE, {}, {}, "perm tied"),
    "granite": ("granite", DENSE, {**FILL, "logits_scaling": 2.0, "attention_multiplier": 0.5, "embedding_multiplier": 3.0,
                                   "residual_multiplier": 0.25},
                {"logit_scale": 2.0, "attention.scale": 0.5, "embedding_scale": 3.0, "residual_scale": 0.25}, "perm"),
    "olmo2": ("olmo2", OLMO, FILL, {}, ""),
    "olmo3": ("olmo2", OLMO, {**FILL, "sliding_window": 16, "layer_types": ["sliding_attention", "full_attention"]},
              {"attention.sliding_window": 16, "attention.sliding_window_pattern": [True, False]}, ""),
    "glm4": ("glm4", GLM, {}, {"rope.dimension_count": D // 2}, ""),
    "seed_oss": ("seed_oss", SEED, {}, {}, ""),
    "ministral3": ("mistral3", DENSE, {"rope_parameters": {**YARN, "rope_theta": 20000.0}},
                   {"rope.scaling.yarn_log_multiplier": 1.0, "attention.temperature_scale": 0.25, "rope.scaling.yarn_beta_fast": 32.0}, "perm"),
    "arcee": ("arcee", [r for r in DENSE if "gate" not in r[0]], {"hidden_act": "relu2"}, {}, "perm"),
    "bert": ("bert", BERT, {**FILL, "hidden_act": "gelu", "layer_norm_eps": 1e-12, "type_vocab_size": 2}, {"attention.causal": False}, "encoder"),
    "roberta": ("bert", BERT, {**FILL, "hidden_act": "gelu", "layer_norm_eps": 1e-5, "type_vocab_size": 1, "pad_token_id": 1},
                {"context_length": 62, "attention.layer_norm_epsilon": f32(1e-5)}, "encoder skip"),
}


def size(letter, d):
    return {"H": H, "F": F, "q": A * d, "k": K * d, "d": d, "V": V, "E": E, "M": M, "S": S, "Q": (A + 2 * K) * d, "G": 2 * F, "1": 1, "P": 64, "2": 2,
            "p": 2 * A * d, "u": 4, "v": 4, "i": 16, "c": 32, "L": 3, "I": 6, "J": 6 * N, "g": 2 * M}[letter]


def values(shape):
    return [f32(RANDOM.gauss(0, 1)) for _ in range(count(shape))]


def recurrent(to, shape, x):
    """Value heads g, j of key head g, as llama.cpp has them: j, g."""
    heads = [g * 2 + j for j in range(2) for g in range(2)]
    n = len(x) // shape[0]
    rows = [x[r * n:r * n + n] for r in range(shape[0])]
    if "ssm_out" in to:
        rows = [[row[h * 4 + i] for h in heads for i in range(4)] for row in rows]
    elif "ssm_norm" not in to:
        first = 16 if "qkv" in to or "conv" in to else 0
        unit = (shape[0] - first) // 4
        rows = rows[:first] + [rows[first + h * unit + i] for h in heads for i in range(unit)]
    x = [f32(-math.exp(v)) if to.endswith("ssm_a") else v for row in rows for v in row]
    return tuple(s for s in shape if s != 1), x


def make(kind):
    """config.json, the tensors of the folder, and those that the file is to have: {name: (shape, values)}"""
    architecture, rules, extra, pairs, special = FAMILIES[kind]
    config = {"model_type": kind, "architectures": ["XForCausalLM"], "hidden_size": H, "intermediate_size": F, "num_hidden_layers": N,
              "num_attention_heads": A, "num_key_value_heads": K, "head_dim": D, "max_position_embeddings": 64, "rms_norm_eps": 1e-5,
              "rope_theta": 20000.0, "vocab_size": V, "tie_word_embeddings": "tied" in special, **extra}
    d = config["head_dim"]
    if config["head_dim"] * A == H:
        del config["head_dim"]
    source, wanted = {}, {}

    def add(name, to, shape, x):
        source[name] = (shape, x)
        if "plus" in special and to.endswith("norm.weight") and "ssm_norm" not in to:
            x = [f32(v + 1) for v in x]
        if "factor" in special and to.endswith("attn_q_norm.weight"):
            x = [f32(v * f32(math.sqrt(0.5))) for v in x]
        if "perm" in special and ("attn_q." in to or "attn_k." in to):
            n = len(x) // shape[0]  # of a row
            order = [h * d + s * d // 2 + i for h in range(shape[0] // d) for i in range(d // 2) for s in (0, 1)]
            x = [v for r in order for v in x[r * n:r * n + n]]
        if "linear_attn" in name:
            shape, x = recurrent(to, shape, x)
        if "skip" in special and to.startswith("position_embd"):
            shape, x = (shape[0] - 2, H), x[2 * H:]
        wanted[to] = (shape, x)
    encoder = "encoder" in special
    top = [("model.embed_tokens", "token_embd", "VH"), ("model.norm", "output_norm", "H")]
    if encoder:
        top = [("embeddings.word_embeddings", "token_embd", "VH"), ("embeddings.position_embeddings", "position_embd", "PH"),
               ("embeddings.token_type_embeddings", "token_types", "2H" if kind == "bert" else "1H"),
               ("embeddings.LayerNorm", "token_embd_norm", "H")]
        add("embeddings.LayerNorm.bias", "token_embd_norm.bias", (H,), values((H,)))
        source["pooler.dense.weight"] = ((H, H), values((H, H)))
    if kind == "gemma4_text":
        top += PER_LAYER
    if "two" in special:
        wanted["rope_freqs.weight"] = ((8,), [1.0] * 2 + [f32(1e30)] * 6)
    for name, to, letters in top + ([] if "tied" in special or encoder else [("lm_head", "output", "VH")]):
        shape = tuple(size(c, d) for c in letters)
        add(name + ".weight", to + ".weight", shape, values(shape))
    for layer in range(N):
        keys = config.get("num_global_key_value_heads", K) if layer == 1 else K
        d = 16 if layer == 1 and "two" in special else d
        for name, to, letters in rules[layer] if isinstance(rules, tuple) else rules:
            shape = tuple(keys * d if c == "k" else size(c, d) for c in letters)
            end = "" if name.endswith(("bias", "!")) else ".weight"
            name = name.rstrip("!")
            at, to = f"encoder.layer.{layer}.{name}{end}" if encoder else f"model.layers.{layer}.{name}{end}", f"blk.{layer}.{to}{end}"
            if "*" not in name:
                add(at, to, shape, values(shape))
                continue
            parts = [values(shape) for _ in range(E)]
            for i, part in enumerate(parts):
                source[at.replace("*", str(i))] = (shape, part)
            wanted[to] = ((E, *shape), [v for part in parts for v in part])
    d = config.get("head_dim", d)
    rms = {} if encoder else {"attention.head_count_kv": K, "attention.layer_norm_rms_epsilon": f32(1e-5), "rope.freq_base": 20000.0}
    pairs = {"block_count": N, "embedding_length": H, "feed_forward_length": F, "attention.head_count": A, "context_length": 64,
             "vocab_size": V, **rms, **pairs}
    return config, source, wanted, {"general.architecture": architecture, "general.file_type": 0,
                                    **{f"{architecture}.{k}": v for k, v in pairs.items()}}


def folder(path, config, tensors, **files):
    os.makedirs(path, exist_ok=True)
    write(path + "/config.json", json.dumps(config))
    if tensors is not None:
        safetensors(path + "/model.safetensors", tensors)
    for name, data in files.items():
        write(path + "/" + name.replace("__", "."), data if isinstance(data, (str, bytes)) else json.dumps(data))


def convert(path, *options, command=("convert",)):
    if os.path.exists("out.gguf"):
        os.unlink("out.gguf")
    rc, out, err = run(*command, path, "-o", "out.gguf", *options)
    if rc != 0:
        WRONG.append(f"{path}: exit {rc}: {err.strip()}")
        return None
    return Gguf("out.gguf"), out


def read(path):
    with open(path, "rb") as f:
        return f.read()


def test_family(kind):
    config, source, wanted, pairs = make(kind)
    folder(kind, config, source)
    made = convert(kind, "--no-vocab")
    if made is None:
        return
    file = made[0]
    check(set(file.tensors) == set(wanted), f"{kind}: tensors {sorted(set(file.tensors) ^ set(wanted))}")
    for name in set(wanted) & set(file.tensors):
        shape, x = wanted[name]
        check(file.tensors[name][:2] == (shape, 0), f"{kind}: {name} is {file.tensors[name][:2]}, not {shape}")
        check(file.tensors[name][2] == x, f"{kind}: {name} has other values")
    for key, value in pairs.items():
        check(file.pairs.get(key) == value, f"{kind}: {key} is {file.pairs.get(key)}, not {value}")
    check(file.pairs["tokenizer.ggml.model"] == "no_vocab", f"{kind}: it has a vocabulary")


def test_forms():
    """The same model in other words, and divided, gives the same bytes."""
    config, source, _, _ = make("llama")
    folder("plain", config, source)
    convert("plain", "--no-vocab")
    plain = read("out.gguf")
    new = {k: v for k, v in config.items() if k != "rope_theta"}
    new["rope_parameters"] = {"rope_theta": 20000.0, "rope_type": "default"}
    folder("new", new, source)
    names = list(source)
    inner = {"model_type": "wrapper", "text_config": config, "vision_config": {}}
    deep = {("model.language_model." + n[6:] if n.startswith("model.") else n): t for n, t in source.items()}
    deep["model.vision_tower.w"] = ((2,), [1.0, 2.0])
    folder("inner", inner, deep)
    folder("extra", config, {**source, "model.layers.0.self_attn.rotary_emb.inv_freq": ((4,), [1.0] * 4),
                             f"model.layers.{N}.input_layernorm.weight": ((H,), [1.0] * H)})
    folder("shards", config, None)
    half = len(names) // 2
    for i, part in enumerate((names[:half], names[half:])):
        safetensors(f"shards/model-0000{i + 1}-of-00002.safetensors", {n: source[n] for n in part})
    write("shards/model.safetensors.index.json", json.dumps({"weight_map": {
        n: f"model-0000{1 + (i >= half)}-of-00002.safetensors" for i, n in enumerate(names)}}))
    rc, _, err = run("convert", "plain", "-o", "w.pt", "-q")
    check(rc == 0, err)
    folder("bins", config, None)
    os.rename("w.pt", "bins/pytorch_model.bin")
    for other in ("new", "inner", "extra", "shards", "bins"):
        if convert(other, "--no-vocab"):
            check(read("out.gguf") == plain, f"{other}: it is another file")
    # bf16: matrices stay, the rest is f32
    folder("half", config, None)
    rounded = {n: (s, [struct.unpack("<f", b"\0\0" + struct.pack("<f", v)[2:])[0] for v in x]) for n, (s, x) in source.items()}
    safetensors("half/model.safetensors", rounded, "BF16")
    file, _ = convert("half", "--no-vocab")
    kinds = {n: t[1] for n, t in file.tensors.items()}
    check(all((kind == 30) == (len(file.tensors[n][0]) > 1) for n, kind in kinds.items()), f"half: {kinds}")
    check(file.pairs["general.file_type"] == 32, "half: general.file_type")
    row = source["model.norm.weight"][1]
    check(file.tensors["output_norm.weight"][2] == rounded["model.norm.weight"][1] != row, "half: output_norm")
    # a chain is the same as two runs; with little memory and other threads, too
    convert("plain", "--no-vocab")
    os.rename("out.gguf", "first.gguf")
    rc, _, err = run("quantize", "--gguf", "Q8_0", "first.gguf", "-o", "two.gguf", "-q")
    check(rc == 0, err)
    for options in ([], ["--threads", "1", "--max-memory", "16MiB"]):
        convert("plain", "--no-vocab", *options, command=("quantize", "--gguf", "Q8_0"))
        check(read("out.gguf") == read("two.gguf"), f"quantize --gguf {options}: other bytes than in two runs")
    rc, _, err = run("quantize", "--gguf", "q8_0", "plain", "--no-vocab", "-q")
    check(rc == 0 and read("plain.q8_0.gguf") == read("two.gguf"), f"no name: {err}")
    p = subprocess.run([PROGRAM, "quantize", "--gguf", "Q8_0", "plain", "--no-vocab", "-o", "-"], capture_output=True, check=False)
    check(p.stdout == read("two.gguf"), f"standard output: {p.stderr}")
    rc, _, err = run("convert", "plain", "-o", "names.gguf", "--keep-names", "-q")
    check(rc == 0 and set(Gguf("names.gguf").tensors) == set(source), f"--keep-names: {err}")


def test_rope():
    config, source, _, _ = make("llama")

    def file_of(block, base=config, tensors=source, **more):
        folder("rope", {**base, "rope_scaling": block, **more}, tensors)
        made = convert("rope", "--no-vocab")
        return made[0] if made else None
    file = file_of({"type": "linear", "factor": 4.0})
    check((file.pairs["llama.rope.scaling.type"], file.pairs["llama.rope.scaling.factor"]) == ("linear", 4.0), "linear")
    file = file_of({"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16})
    check((file.pairs["llama.rope.scaling.type"], file.pairs["llama.rope.scaling.original_context_length"]) == ("yarn", 16), "yarn")
    check("llama.rope.scaling.attn_factor" not in file.pairs, "yarn: attn_factor")
    file = file_of({"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16, "attention_factor": 2.0})
    check(file.pairs["llama.rope.scaling.attn_factor"] == f32(2 / (1 + 0.1 * math.log(4))), "yarn: attention_factor")
    file = file_of({"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16, "beta_fast": 8.0})
    check("llama.rope.scaling.type" not in file.pairs and file.tensors["rope_freqs.weight"][2] == [1.0, 4.0, 4.0, 4.0], "yarn: beta_fast")
    check(file.pairs["llama.rope.scaling.attn_factor"] == f32(1 + 0.1 * math.log(4)), "yarn: beta_fast, attn_factor")
    file = file_of({"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                    "original_max_position_embeddings": 128})
    found = file.tensors["rope_freqs.weight"][2]
    wanted = []
    for i in range(D // 2):
        wave = 2 * math.pi * 20000.0 ** (2 * i / D)
        share = (128 / wave - 1) / 3
        wanted.append(1.0 if wave < 32 else 8.0 if wave > 128 else 1 / ((1 - share) / 8 + share))
    check(all(abs(a - b) <= 1e-6 * b for a, b in zip(found, wanted)), f"llama3: {found} {wanted}")
    check(len(set(found)) == 3, f"llama3: no frequency lies in the ramp: {found}")
    phi, tensors, _, _ = make("phi3")
    file = file_of({"type": "longrope", "short_factor": [1.0, 1.5], "long_factor": [2.0, 3.0]}, phi, tensors,
                   original_max_position_embeddings=16)
    check(file.tensors["rope_factors_long.weight"][2] == [2.0, 3.0] and file.tensors["rope_factors_short.weight"][2] == [1.0, 1.5], "longrope")
    check(file.pairs["phi3.rope.scaling.attn_factor"] == f32(math.sqrt(1 + math.log(4) / math.log(16))), "longrope: attn_factor")


# ---- vocabularies ----

QWEN = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")


def bytes_json(merges, regex=QWEN, **more):
    steps = [{"type": "Split", "pattern": {"Regex": regex}, "behavior": "Isolated", "invert": False},
             {"type": "ByteLevel", "add_prefix_space": False, "use_regex": False}]
    return {"model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "\u0120": 2, "ab": 3, "\u0120ab": 4}, "merges": merges},
            "pre_tokenizer": {"type": "Sequence", "pretokenizers": steps}, "decoder": {"type": "ByteLevel"}, "normalizer": {"type": "NFC"},
            "added_tokens": [{"id": 5, "content": "<|end|>", "special": True}, {"id": 6, "content": "<tool>", "special": False},
                             {"id": 8, "content": "<|x|>", "special": False}], **more}


def piece(text, score, kind):
    body = b"\x0a" + bytes([len(text.encode())]) + text.encode() + b"\x15" + struct.pack("<f", score) + (b"\x18" + bytes([kind]) if kind != 1 else b"")
    return b"\x0a" + bytes([len(body)]) + body


def pieces(trainer, normalizer):
    listed = [("<unk>", 0, 2), ("<s>", 0, 3), ("</s>", 0, 3), ("<0x0A>", 0, 6), ("\u2581a", -1.5, 1), ("<sep>", 0, 4)]
    body = b"".join(piece(*p) for p in listed)
    return body + b"\x12" + bytes([len(trainer)]) + trainer + b"\x1a" + bytes([len(normalizer)]) + normalizer


def vocabulary(name, options=(), kind="qwen2", **files):
    config, source, _, _ = make(kind)
    folder(name, {**config, "eos_token_id": [5, 1]}, source, **files)
    made = convert(name, *options)
    return {k.removeprefix("tokenizer.ggml."): v for k, v in made[0].pairs.items()} if made else {}


def test_vocabularies():
    settings = {"bos_token": {"content": "<tool>"}, "pad_token": "<|end|>", "chat_template": "{{ messages }}", "model_max_length": 10 ** 30}
    found = vocabulary("bytes", tokenizer__json=bytes_json(["a b", "\u0120 ab"]), tokenizer_config__json=settings)
    wanted = {"model": "gpt2", "pre": "qwen2", "merges": ["a b", "\u0120 ab"],
              "tokens": ["a", "b", "\u0120", "ab", "\u0120ab", "<|end|>", "<tool>", "[PAD7]", "<|x|>", "[PAD9]", "[PAD10]", "[PAD11]"],
              "token_type": [1, 1, 1, 1, 1, 3, 4, 5, 3, 5, 5, 5], "bos_token_id": 6, "eos_token_id": 5, "padding_token_id": 5,
              "add_bos_token": False, "add_eos_token": False, "tokenizer.chat_template": "{{ messages }}"}
    for key, value in wanted.items():
        check(found.get(key) == value, f"bytes: {key} is {found.get(key)}")
    template = {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<|end|>"}}, {"Sequence": {"id": "A"}}]}
    found = vocabulary("pairs", tokenizer__json=bytes_json([["a", "b"], [" ", "ab"]], post_processor=template), chat_template__jinja="{{ x }}")
    check(found.get("merges") == ["a b", "\u0120 ab"], f"merges of two texts: {found.get('merges')}")
    check((found.get("add_bos_token"), found.get("bos_token_id")) == (True, 5), "what a template puts in front is the begin")
    check(found.get("tokenizer.chat_template") == "{{ x }}", "chat_template.jinja")
    for ignores, regex, pre in ((True, QWEN, "qwen2"), (True, QWEN.replace("N}|", "N}{1,3}|", 1), "llama-bpe"),
                                (False, QWEN.replace("N}|", "N}{1,3}|", 1), "dbrx")):
        form = bytes_json(["a b"], regex=regex)
        form["model"]["ignore_merges"] = ignores
        found = vocabulary("forms", tokenizer__json=form)
        check(found.get("pre") == pre, f"{pre}: {found.get('pre')}")
    digits = {**bytes_json([]), "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
        {"type": "Digits", "individual_digits": True}, {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True}]}}
    for cleans, pre in ((True, "starcoder"), (False, "smollm")):
        found = vocabulary("digits", tokenizer__json=digits, tokenizer_config__json={"clean_up_tokenization_spaces": cleans})
        check(found.get("pre") == pre, f"{pre}: {found.get('pre')}")
    found = vocabulary("named", ("--pre", "smaug-bpe"), tokenizer__json=bytes_json([], regex="x+"))
    check(found.get("pre") == "smaug-bpe", "--pre")
    found = vocabulary("none", ("--no-vocab",))
    check(found.get("model") == "no_vocab" and "tokens" not in found, "--no-vocab")
    bpe, unigram = b"\x18\x02", b"\x18\x01"
    found = vocabulary("pieces", tokenizer__model=pieces(bpe, b"\x18\x00"), added_tokens__json={"<new>": 7})
    check((found.get("model"), found.get("add_space_prefix"), found.get("add_bos_token")) == ("llama", False, True), "pieces")
    check(found.get("tokens", [])[:8] == ["<unk>", "<s>", "</s>", "<0x0A>", "\u2581a", "<sep>", "[PAD6]", "<new>"], "pieces: tokens")
    check(found.get("token_type", [])[:8] == [2, 3, 3, 6, 1, 4, 5, 4], "pieces: token_type")
    check(found.get("scores", [])[:8] == [0, 0, 0, 0, -1.5, 0, -10000, -1000], "pieces: scores")
    found = vocabulary("unigram", spiece__model=pieces(unigram, b"\x12\x03abc"))
    check((found.get("model"), found.get("precompiled_charsmap"), found.get("add_space_prefix"), found.get("remove_extra_whitespaces")) ==
          ("t5", [97, 98, 99], True, True), "unigram")
    merged = {"model": {"type": "BPE", "byte_fallback": True, "unk_token": "<unk>", "merges": [["\u2581", "a"], ["\u2581a", "b"]],
                        "vocab": {"<unk>": 0, "<0x41>": 1, "\u2581": 2, "a": 3, "b": 4, "\u2581a": 5, "\u2581ab": 6}},
              "normalizer": {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "\u2581"}]}}
    found = vocabulary("merged", tokenizer__json=merged)
    check(found.get("scores", [])[:7] == [-2, -2, -2, -2, -2, 0, -1] and found.get("token_type", [])[:3] == [2, 6, 1], "merged")
    check(found.get("add_space_prefix") is True, "merged: add_space_prefix")
    merged["normalizer"] = {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}
    found = vocabulary("pieces4", kind="gemma4_text", tokenizer__json=merged)
    check((found.get("model"), found.get("merges"), found.get("add_space_prefix"), found.get("add_bos_token"),
           found.get("token_type", [])[:3]) == ("gemma4", ["\u2581 a", "\u2581a b"], False, True, [2, 6, 1]), f"gemma4: {found}")
    words = {"model": {"type": "WordPiece", "vocab": {"[PAD]": 0, "[UNK]": 1, "[CLS]": 2, "[SEP]": 3, "play": 4, "##ing": 5}},
             "normalizer": {"type": "BertNormalizer", "lowercase": False, "strip_accents": None}}
    special = {"cls_token": "[CLS]", "sep_token": "[SEP]"}
    found = vocabulary("words", tokenizer__json=words, tokenizer_config__json=special)
    check(found.get("tokens", [])[2:6] == ["[CLS]", "[SEP]", "\u2581play", "ing"], f"words: {found.get('tokens')}")
    check((found.get("bos_token_id"), found.get("eos_token_id"), found.get("normalizer.lowercase")) == (2, 3, False), "words: ids")
    found = vocabulary("lines", vocab__txt="[PAD]\n[UNK]\n[CLS]\n[SEP]\nplay\n##ing\n", tokenizer_config__json=special)
    check(found.get("tokens", [])[2:6] == ["[CLS]", "[SEP]", "\u2581play", "ing"] and found.get("normalizer.lowercase") is True, "lines")
    listed = {"model": {"type": "Unigram", "unk_id": 1, "vocab": [["<pad>", 0.0], ["<unk>", 0.0], ["\u2581a", -2.5]]},
              "normalizer": {"type": "Precompiled", "precompiled_charsmap": "YWJjZA=="},
              "pre_tokenizer": {"type": "Metaspace", "prepend_scheme": "always"}}
    found = vocabulary("listed", tokenizer__json=listed)
    check(found.get("scores", [])[:3] == [0, 0, -2.5] and found.get("token_type", [])[:3] == [1, 2, 1] and
          found.get("precompiled_charsmap") == [97, 98, 99, 100], "listed")


# ---- refusals ----

def refused(name, says, kind="qwen2", options=("--no-vocab",), change=None, tensors=None, **files):
    config, source, _, _ = make(kind)
    config.update(change or {})
    source.update(tensors or {})
    folder("refused", config, {n: t for n, t in source.items() if t is not None}, **files)
    rc, _, err = run("convert", "refused", "-o", "no.gguf", *options)
    for file in files:
        os.unlink("refused/" + file.replace("__", "."))
    check(rc == 3 and says in err and err.count("\n") == 1, f"{name}: exit {rc}: {err.strip()}")
    check(not os.path.exists("no.gguf"), f"{name}: it is written")


def test_refusals():
    q = "model.layers.0.self_attn.q_proj.weight"
    refused("family", "model_type 'mamba3'", change={"model_type": "mamba3"})
    refused("quantized", "are quantized ('fp8')", change={"quantization_config": {"quant_method": "fp8"}})
    refused("activation", "the activation is 'relu'", change={"hidden_act": "relu"})
    refused("no size", "expected a whole number for \"num_hidden_layers\"", change={"num_hidden_layers": None})
    refused("heads", "\"head_dim\" times the heads", change={"head_dim": 8})
    refused("experts", "\"norm_topk_prob\" is false", "qwen3_moe", change={"norm_topk_prob": False})
    refused("experts of qwen2", "\"norm_topk_prob\" is true", "qwen2_moe", change={"norm_topk_prob": True})
    refused("both ways of all", "\"use_bidirectional_attention\" is \"all\"", "gemma4_text", change={"use_bidirectional_attention": "all"})
    refused("shared keys", "\"num_kv_shared_layers\" leaves no", "gemma4_text", change={"num_kv_shared_layers": 1})
    refused("shared all", "\"num_kv_shared_layers\" leaves no", "gemma4_text", change={"num_kv_shared_layers": 9})
    refused("values", "becomes 'blk.1.attn_v.weight'", "gemma4_text", change={"attention_k_eq_v": False}, tensors={
        "model.layers.1.self_attn.k_proj.weight": ((2 * 16, H), [1.0] * 32 * H)})
    refused("values are keys", "says \"attention_k_eq_v\"", "gemma4_text",
            tensors={"model.layers.1.self_attn.v_proj.weight": ((16, H), [1.0] * 16 * H)})
    refused("inputs", "becomes 'blk.0.inp_gate.weight'", "gemma4_text", tensors={"model.layers.0.per_layer_input_gate.weight": None})
    refused("no inputs", "its shape is", "gemma4_text", change={"hidden_size_per_layer_input": 0})
    refused("table", "becomes 'per_layer_token_embd.weight'", "gemma4_text", tensors={"model.embed_tokens_per_layer.weight": None})
    refused("full heads", "cannot share 3 key heads", "gemma4_text", change={"num_global_key_value_heads": 3})
    refused("no heads", "\"global_head_dim\", key heads", "gemma4_text", change={"global_head_dim": 0})
    refused("stretched", "of type 'linear'", "gemma4_text", change={"rope_parameters": {"rope_type": "linear", "factor": 2.0}})
    refused("value heads", "\"linear_value_head_dim\" is not", "qwen3_5_text", change={"linear_value_head_dim": 8})
    refused("shared heads", "is no multiple of", "qwen3_5_text", change={"linear_num_value_heads": 3})
    refused("recurrent", "has no 'blk.0.attn_gate.weight' in", "qwen3_5_text", change={"layer_types": ["full_attention"] * 2})
    refused("kinds", "\"layer_types\" has 3 entries, expected 2", "qwen3_5_text", change={"layer_types": ["linear_attention", "full_attention", "x"]})
    refused("decay", "becomes 'blk.0.ssm_a'", "qwen3_5_text", tensors={"model.layers.0.linear_attn.A_log": None})
    refused("kernel", "its shape is (32, 3), expected (32, 1, 3)", "qwen3_5_text",
            tensors={"model.layers.0.linear_attn.conv1d.weight": ((32, 3), [1.0] * 96)})
    refused("no rope", "\"no_rope_layers\"", "smollm3", change={"no_rope_layers": [1, 0]})
    refused("cap", "\"attn_logit_softcapping\"", "gemma2", change={"attn_logit_softcapping": None})
    refused("both ways", "\"use_bidirectional_attention\"", "gemma3_text", change={"use_bidirectional_attention": True})
    refused("no yarn", "\"rope_type\" is not yarn", "ministral3", change={"rope_parameters": {"rope_theta": 1e4}})
    refused("scale of yarn", "need \"mscale\" 1", "ministral3", change={"rope_parameters": {**YARN, "mscale": 0.5}})
    refused("decoder", "\"is_decoder\" is true", "bert", change={"is_decoder": True})
    refused("rope", "of type 'wave' are not known", change={"rope_scaling": {"type": "wave", "factor": 2.0}})
    refused("llama3 of qwen2", "of type 'llama3'", change={"rope_scaling": {"type": "llama3", "factor": 2.0}})
    refused("betas", "\"beta_fast\"", change={"rope_scaling": {"type": "yarn", "factor": 2.0, "beta_fast": 8.0}})
    refused("longrope", "of type 'longrope'", change={"rope_scaling": {"type": "longrope", "long_factor": [1.0]}})
    refused("tensor", "odd.weight: llama.cpp has no such tensor", tensors={"odd.weight": ((1,), [1.0])})
    refused("norm", "has no 'blk.0.attn_q_norm.weight'", tensors={"model.layers.0.self_attn.q_norm.weight": ((H // A,), [1.0] * (H // A))})
    refused("missing", "becomes 'blk.0.attn_q.weight'", tensors={q: None})
    refused("no head", "becomes 'output.weight'", tensors={"lm_head.weight": None})
    refused("shape", "its shape is (2, 24), expected (24, 24)", tensors={q: ((2, H), [1.0] * 2 * H)})
    refused("expert", "2 tensors of the folder become it, expected 3", "mixtral",
            tensors={f"model.layers.0.block_sparse_moe.experts.{E - 1}.w1.weight": None})
    refused("no tokenizer", "there is no tokenizer that is known", options=())
    refused("cut", "the way is: x+", options=(), tokenizer__json=bytes_json([], regex="x+"))
    refused("normalizer", "its normalizer is 'Lowercase'", options=(), tokenizer__json=bytes_json([], normalizer={"type": "Lowercase"}))
    refused("twice", "has the token 'a' twice", options=(), tokenizer__json=bytes_json([], added_tokens=[{"id": 9, "content": "a"}]))
    large = bytes_json([])
    large["model"]["vocab"]["zz"] = V
    refused("rows", "the embedding has 12 rows", options=(), tokenizer__json=large)
    refused("characters", "precompiled_charsmap", options=(), tokenizer__model=pieces(b"\x18\x02", b"\x12\x01a"))
    refused("broken", "tokenizer.model", options=(), tokenizer__model=b"\x0a\x7f")
    refused("no JSON", "tokenizer.json", options=(), tokenizer__json="{")
    for options, says in ((["--pre", "x", "--no-vocab"], "choose one"), (["--emit", "y.npz"], "runs of their own")):
        rc, _, err = run("convert", "plain", "-o", "no.gguf", *options)
        check(rc == 2 and says in err and not os.path.exists("no.gguf"), f"{options}: exit {rc}: {err}")
    for options in (["--no-vocab"], ["--pre", "x"], ["--keep-names"]):
        rc, _, err = run("convert", "first.gguf", "-o", "no.gguf", *options)
        check(rc == 2 and "a folder with a config.json" in err, f"{options}: exit {rc}: {err}")


def test_pooling():
    """Modules of sentence-transformers, and the names of the first BERT models."""
    config, source, _, _ = make("bert")
    source = {"bert." + n.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): t for n, t in source.items()}
    modules = [{"path": "", "type": "sentence_transformers.models.Transformer"}, {"path": "1_Pooling", "type": "sentence_transformers.models.Pooling"}]
    os.makedirs("pooled/1_Pooling")
    for mode, kind in (("mean_tokens", 1), ("cls_token", 2), ("lasttoken", 3)):
        write("pooled/1_Pooling/config.json", json.dumps({"pooling_mode_" + mode: True}))
        folder("pooled", config, source, modules__json=modules)
        made = convert("pooled", "--no-vocab")
        check(made and made[0].pairs.get("bert.pooling_type") == kind, f"pooling: {mode}")
    check(made and "of heads are left out" in made[1], "no note about the pooler")
    write("pooled/1_Pooling/config.json", json.dumps({"pooling_mode_max_tokens": True}))
    rc, _, err = run("convert", "pooled", "-o", "no.gguf", "--no-vocab")
    check(rc == 3 and "the mean, the first or the last token" in err, f"pooling: {err}")
    write("pooled/modules.json", json.dumps([{"path": "../x", "type": "Pooling"}]))
    rc, _, err = run("convert", "pooled", "-o", "no.gguf", "--no-vocab")
    check(rc == 3 and "is no folder beside it" in err, f"pooling: {err}")


def gpt_oss():
    """Folders "oss", of floats, and "blocks", of MXFP4. Returns the tensors of the first, codes and scales, and the file of the second."""
    f, h = 5, 32
    config, source, _, _ = make("qwen2")
    source = {n: (tuple(h if s == H else s for s in shape), values([h if s == H else s for s in shape])) for n, (shape, _) in source.items()}
    for layer in range(N):
        at = f"model.layers.{layer}."
        for name in [n for n in source if n.startswith(at + "mlp") or n.startswith(at + "self_attn")]:
            del source[name]
        for name, shape in (("q_proj", (A * D, h)), ("k_proj", (K * D, h)), ("v_proj", (K * D, h)), ("o_proj", (h, A * D))):
            source[f"{at}self_attn.{name}.weight"] = (shape, values(shape))
            source[f"{at}self_attn.{name}.bias"] = (shape[:1], values(shape[:1]))
        for name, shape in (("self_attn.sinks", (A,)), ("mlp.router.weight", (E, h)), ("mlp.router.bias", (E,)),
                            ("mlp.experts.gate_up_proj", (E, h, 2 * f)), ("mlp.experts.gate_up_proj_bias", (E, 2 * f)),
                            ("mlp.experts.down_proj", (E, f, h)), ("mlp.experts.down_proj_bias", (E, h))):
            source[at + name] = (shape, values(shape))
    config.update({"model_type": "gpt_oss", "hidden_size": h, "intermediate_size": f, "head_dim": D, "num_local_experts": E,
                   "num_experts_per_tok": 2, "sliding_window": 16})
    folder("oss", config, source)
    header, data, blocks = {}, b"", {}

    def add(name, kind, shape, blob):
        nonlocal data
        header[name] = {"dtype": kind, "shape": list(shape), "data_offsets": [len(data), len(data) + len(blob)]}
        data += blob
    for name, (shape, x) in source.items():
        if "experts" not in name or name.endswith("bias"):
            if name.endswith("gate_up_proj_bias"):
                shape, x = (E, 64), values((E, 64))
            add(name, "F32", shape, struct.pack("<%df" % len(x), *x))
    rows = {"gate_up_proj": 64, "down_proj": h}
    for layer in range(N):
        for name in rows:
            codes, scales = RANDOM.randbytes(E * rows[name] * 16), bytes(RANDOM.randrange(100, 140) for _ in range(E * rows[name]))
            blocks[layer, name] = (codes, scales)
            at = f"model.layers.{layer}.mlp.experts.{name}"
            add(at + "_blocks", "U8", (E, rows[name], 1, 16), codes)
            add(at + "_scales", "U8", (E, rows[name], 1), scales)
    config.update({"intermediate_size": 32, "quantization_config": {"quant_method": "mxfp4"}})
    folder("blocks", config, None)
    text = json.dumps(header).encode()
    write("blocks/model.safetensors", struct.pack("<Q", len(text)) + text + data)
    return source, blocks, header, data


def test_gpt_oss():
    """Experts whose rows are columns, every other one of the gate; and blocks of MXFP4, which keep their bits."""
    f, h = 5, 32
    source, blocks, header, data = gpt_oss()
    rows = {"gate_up_proj": 64, "down_proj": h}
    made = convert("oss", "--no-vocab")
    if made is None:
        return
    file = made[0]
    joined, down = source["model.layers.1.mlp.experts.gate_up_proj"][1], source["model.layers.1.mlp.experts.down_proj"][1]
    for name, odd in (("gate", 0), ("up", 1)):
        wanted = [joined[(e * h + column) * 2 * f + 2 * r + odd] for e in range(E) for r in range(f) for column in range(h)]
        check(file.tensors[f"blk.1.ffn_{name}_exps.weight"] == ((E, f, h), 0, wanted), f"gpt_oss: {name}")
        wanted = source["model.layers.1.mlp.experts.gate_up_proj_bias"][1][odd::2]
        check(file.tensors[f"blk.1.ffn_{name}_exps.bias"] == ((E, f), 0, wanted), f"gpt_oss: bias of {name}")
    wanted = [down[(e * f + column) * h + r] for e in range(E) for r in range(h) for column in range(f)]
    check(file.tensors["blk.1.ffn_down_exps.weight"] == ((E, h, f), 0, wanted), "gpt_oss: down")
    check(file.tensors["blk.0.attn_sinks.weight"][:2] == ((A,), 0), "gpt_oss: sinks")
    check(file.pairs["gpt-oss.attention.sliding_window_pattern"] == [True, False], "gpt_oss: windows")
    check(file.pairs["gpt-oss.expert_feed_forward_length"] == f, "gpt_oss: size of experts")
    made = convert("blocks", "--no-vocab")
    if made is None:
        return

    def packed(codes, scales, picked):
        out = b""
        for i in picked:
            nibbles = [b >> s & 15 for b in codes[16 * i:16 * i + 16] for s in (0, 4)]
            out += bytes([scales[i]]) + bytes(nibbles[j] | nibbles[j + 16] << 4 for j in range(16))
        return out
    for to, name, first, step in (("gate", "gate_up_proj", 0, 2), ("up", "gate_up_proj", 1, 2), ("down", "down_proj", 0, 1)):
        wanted = packed(*blocks[1, name], range(first, E * rows[name], step))
        check(made[0].tensors[f"blk.1.ffn_{to}_exps.weight"][:2] == ((E, 32, 32), 39), f"blocks: {to}")
        check(wanted in made[0].data, f"blocks: {to} has other bytes")
    del header["model.layers.1.mlp.experts.down_proj_scales"]
    text = json.dumps(header).encode()
    write("blocks/model.safetensors", struct.pack("<Q", len(text)) + text + data)
    rc, _, err = run("convert", "blocks", "-o", "no.gguf", "--no-vocab")
    check(rc == 3 and not os.path.exists("no.gguf"), f"blocks without scales: {err}")


def test_shared():
    """Layers that use keys and values of others have none, and may have a feed-forward part of twice the size."""
    config, source, _, _ = make("gemma4_text")
    tensors = {n: t for n, t in source.items() if "per_layer" not in n or "layers" in n}
    for layer in range(2 * N):
        for name, (shape, _) in source.items():
            if name.startswith(f"model.layers.{layer % 2}.") and (layer < 2 or not any(x in name for x in ("k_proj", "v_proj", "k_norm"))):
                twice = layer >= 2 and "mlp" in name
                shape = tuple(2 * F if twice and s == F else s for s in shape)
                tensors[f"model.layers.{layer}." + name[15:]] = (shape, values(shape))
    for name, shape in (("embed_tokens_per_layer", (V, 24)), ("per_layer_model_projection", (24, H)), ("per_layer_projection_norm", (6,))):
        tensors[f"model.{name}.weight"] = (shape, values(shape))
    config.update(num_hidden_layers=4, num_kv_shared_layers=2, use_double_wide_mlp=True, layer_types=KINDS["layer_types"] * 2,
                  rope_parameters=None, rope_theta=None, num_global_key_value_heads=None)
    tensors["model.layers.1.self_attn.k_proj.weight"] = ((2 * 16, H), values((2 * 16, H)))
    folder("shared", config, tensors)
    made = convert("shared", "--no-vocab")
    if made:
        pairs = {k[7:]: v for k, v in made[0].pairs.items()}
        check(pairs["feed_forward_length"] == [F, F, 2 * F, 2 * F] and pairs["attention.shared_kv_layers"] == 2, f"shared: {pairs}")
        check((pairs["attention.head_count_kv"], pairs["rope.freq_base"], pairs["rope.freq_base_swa"]) == (K, 1e6, 1e4), f"shared: {pairs}")
        check(made[0].tensors["blk.3.ffn_up.weight"][0] == (2 * F, H) and "blk.2.attn_k.weight" not in made[0].tensors, "shared: tensors")
        check(made[0].tensors["rope_freqs.weight"] == ((8,), 0, [1.0] * 2 + [f32(1e30)] * 6), "shared: rope_freqs")


def test_notes():
    config, source, _, _ = make("qwen2")
    folder("window", {**config, "use_sliding_window": True, "sliding_window": 32}, source)
    check("the same up to 32 tokens" in convert("window", "--no-vocab")[1], "no note about a window")
    gated = make("qwen2_moe")
    folder("gated", *gated[:2])
    kinds = {n: t[1] for n, t in convert("gated", "--no-vocab", command=("quantize", "--gguf", "Q4_K_M"))[0].tensors.items()}
    check(kinds["blk.0.ffn_gate_inp_shexp.weight"] == 0 and kinds["blk.0.ffn_up_shexp.weight"] != 0, f"a matrix of one row: {kinds}")
    hybrid, tensors, _, _ = make("qwen3_5_text")
    folder("seeing", hybrid, {**tensors, "model.visual.patch.weight": ((1,), [1.0]), "mtp.fc.weight": ((1,), [1.0])})
    check("2 tensors of parts that see, hear or predict more tokens" in convert("seeing", "--no-vocab")[1], "no note about other parts")
    folder("dynamic", {**config, "rope_scaling": {"type": "dynamic", "factor": 2.0}}, source)
    check("the same up to 64 tokens" in convert("dynamic", "--no-vocab")[1], "no note about dynamic scaling")


def test_statistics():
    """Statistics of the folder, by its names, and by the names of llama.cpp: the same codes."""
    for kind in ("llama", "qwen3"):
        config, source, wanted, _ = make(kind)
        folder("measured", config, source)
        sums = {name: [f32(RANDOM.random() ** 4) for _ in range(shape[-1])] for name, (shape, _) in source.items() if len(shape) == 2}
        safetensors("here.safetensors", {name + ".in_sum2": ((len(x),), x) for name, x in sums.items()})
        own = {}
        for to, (shape, x) in wanted.items():
            for name, (_, y) in source.items():
                if name in sums and len(shape) == 2 and set(x[:8]) <= set(y):
                    own[to] = sums[name]
        safetensors("there.safetensors", {to + ".in_sum2": ((len(x),), x) for to, x in own.items()})
        files = []
        for extra in ((), ("--calibration", "here.safetensors"), ("--calibration", "there.safetensors")):
            convert("measured", "--no-vocab", *extra, command=("quantize", "--gguf", "Q4_0"))
            files.append(read("out.gguf"))
        check(len(own) > 8, f"{kind}: statistics of {len(own)} matrices")
        check(files[0] != files[1], f"{kind}: statistics by the folder's names change nothing")
        check(files[1] == files[2], f"{kind}: statistics by the folder's names and by llama.cpp's give other codes")


def main(*tests):
    with tempfile.TemporaryDirectory() as place:
        os.chdir(place)
        for test in tests:
            test()
        os.chdir("/")
    print("\n".join(WRONG))
    print(f"{len(FAMILIES)} families, {len(WRONG)} wrong")
    sys.exit(1 if WRONG else 0)


def test_families():
    for family in FAMILIES:
        test_family(family)


if __name__ == "__main__":
    main(test_families, test_forms, test_rope, test_vocabularies, test_refusals, test_notes, test_pooling, test_gpt_oss, test_shared, test_statistics)
