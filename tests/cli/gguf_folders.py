"""gguf_folders.py - tiny folders of Hugging Face, and what the GGUF files that come of them have to have, for test_gguf_folder.py and
test_gguf_back.py: random weights, fewer key heads than heads, heads that do not fill the hidden size where the family allows it.
The tables were written from llama.cpp's loader. sys.argv[1] is the program. Standard library only."""
import json
import math
import os
import random
import struct
import subprocess
import sys

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
# Keys and values that are decompressed from 10 elements, beside 4 that are rotated; 6 elements of a key are not, a value has 5
LATENT = [r for r in DENSE if "layernorm" in r[0]] + [
    ("self_attn." + a, b, c) for a, b, c in (("q_a_proj", "attn_q_a", "RH"), ("q_a_layernorm", "attn_q_a_norm", "R"), ("q_b_proj", "attn_q_b", "mR"),
                                             ("kv_a_proj_with_mqa", "attn_kv_a_mqa", "CH"), ("kv_a_layernorm", "attn_kv_a_norm", "r"),
                                             ("o_proj", "attn_output", "Hw"))]
MOE_BIAS = [("mlp.gate.e_score_correction_bias!", "exp_probs_b.bias", "E")] + [r for r in MOE if "mlp" in r[0]] + [
    (f"mlp.shared_experts.{a}_proj", f"ffn_{a}_shexp", c) for a, c in (("gate", "gH"), ("up", "gH"), ("down", "Hg"))]
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
    "qwen2_5_vl_text": ("qwen2vl", DENSE + BIASES, {**FILL, "rope_scaling": {"type": "mrope", "mrope_section": [1, 1, 1]}},
                        {"rope.dimension_sections": [1, 1, 1, 0]}, ""),
    "qwen3_vl_text": ("qwen3vl", DENSE + NORMS, {"rope_parameters": {"rope_type": "default", "rope_theta": 20000.0, "mrope_section": [2, 1, 1]}},
                      {"rope.dimension_sections": [2, 1, 1, 0]}, ""),
    "qwen3_vl_moe_text": ("qwen3vlmoe", MOE + NORMS, {"rope_parameters": {"rope_type": "default", "rope_theta": 20000.0, "mrope_section": [2, 1, 1]},
                                                      "num_experts": E, "num_experts_per_tok": 2, "moe_intermediate_size": M},
                          {"expert_feed_forward_length": M, "expert_count": E}, ""),
    "granitemoe": ("granitemoe", [r for r in DENSE if "mlp" not in r[0]] + [("block_sparse_moe.router.layer", "ffn_gate_inp", "EH")],
                   {**FILL, "num_local_experts": E, "num_experts_per_tok": 2}, {"expert_count": E, "attention.scale": 1.0}, "perm halves"),
    "olmoe": ("olmoe", [(a, b, c.replace("M", "F").replace("k", "q")) for a, b, c in MOE] + [(a, b, "q") for a, b, c in NORMS],
              {**FILL, "num_key_value_heads": A, "num_experts": E, "num_experts_per_tok": 2}, {"attention.head_count_kv": A, "expert_count": E}, ""),
    "minimax_m2": ("minimax-m2", MIXTRAL + [("block_sparse_moe.e_score_correction_bias!", "exp_probs_b.bias", "E")] + OLMO[-2:],
                   {"num_local_experts": E, "num_experts_per_tok": 2, "rotary_dim": 4},
                   {"expert_feed_forward_length": F, "expert_gating_func": 2, "rope.dimension_count": 4}, ""),
    "ernie4_5": ("ernie4_5", DENSE + BIASES, {}, {}, ""),
    "hunyuan_v1_dense": ("hunyuan-dense", DENSE + [(a.replace("q_norm", "query_layernorm").replace("k_norm", "key_layernorm"), b, c)
                                                   for a, b, c in NORMS], {}, {}, ""),
    "qwen3_5_text": ("qwen35", (RECURRENT + MLP, GATED + MLP), LINEAR, {**SSM, "rope.dimension_sections": [11, 11, 10, 0]}, "plus"),
    "qwen3_5_moe": ("qwen35moe", tuple(r + SHARED + [x for x in MOE if "mlp" in x[0]] for r in (RECURRENT, GATED)),
                    {**LINEAR, "intermediate_size": None, "num_experts": E, "num_experts_per_tok": 2, "moe_intermediate_size": M,
                     "shared_expert_intermediate_size": S, "layer_types": ["linear_attention", "full_attention"],
                     "rope_parameters": {"rope_type": "default", "rope_theta": 20000.0, "mrope_section": [1, 1, 2], "partial_rotary_factor": 0.25}},
                    {**SSM, "expert_feed_forward_length": M, "expert_shared_feed_forward_length": S, "expert_count": E,
                     "feed_forward_length": M, "rope.dimension_sections": [1, 1, 2, 0]}, "plus"),
    "gemma": ("gemma", DENSE, {"hidden_act": "gelu_pytorch_tanh"}, {"attention.key_length": D}, "plus tied"),
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
    "glm4v_text": ("glm4", GLM, {"rope_parameters": {"rope_type": "default", "rope_theta": 20000.0, "partial_rotary_factor": 0.5, "mrope_section": [1, 1, 0]}},
                   {"rope.dimension_count": D // 2, "rope.dimension_sections": [1, 1, 0, 0]}, "sorts"),
    "apertus": ("apertus", [(a.replace("input_layernorm", "attention_layernorm").replace("post_attention_", "feedforward_"), b, c) for a, b, c in DENSE
                            if "gate" not in a] + NORMS,
                {"hidden_act": "xielu", "rope_parameters": {"rope_type": "default", "rope_theta": 20000.0}}, {}, "xielu"),
    "cohere2_moe": ("cohere2moe", tuple([r for r in DENSE if "layernorm" in r[0] or "self" in r[0]][:-1] + part for part in (
        [(a, b, c.replace("F", "S")) for a, b, c in DENSE[-3:]],
        [(a, b, c.replace("M", "F")) for a, b, c in MOE if "mlp" in a] + [(f"mlp.shared_experts.{a}_proj", f"ffn_{a}_shexp", c)
                                                                          for a, c in (("gate", "GH"), ("up", "GH"), ("down", "HG"))])),
        {"num_experts": E, "num_experts_per_tok": 2, "num_shared_experts": 2, "prefix_dense_intermediate_size": S, "expert_selection_fn": "sigmoid",
         "layer_types": ["sliding_attention", "full_attention"], "mlp_layer_types": ["dense", "sparse"], "sliding_window": 16, "logit_scale": 0.25},
        {"feed_forward_length": S, "expert_feed_forward_length": F, "expert_shared_feed_forward_length": 2 * F, "expert_shared_count": 2,
         "leading_dense_block_count": 1, "expert_gating_func": 2, "expert_weights_norm": True, "attention.sliding_window": 16, "logit_scale": 0.25,
         "attention.sliding_window_pattern": [True, False]}, "mean"),
    "seed_oss": ("seed_oss", SEED, {}, {}, ""),
    "deepseek_v3": ("deepseek2", (LATENT + [r for r in DENSE if "mlp" in r[0]], LATENT + MOE_BIAS),
                    {"head_dim": 4, "q_lora_rank": 14, "kv_lora_rank": 10, "qk_nope_head_dim": 6, "qk_rope_head_dim": 4, "v_head_dim": 5, "n_routed_experts": E,
                     "num_experts_per_tok": 2, "moe_intermediate_size": M, "n_shared_experts": 2, "first_k_dense_replace": 1, "n_group": 1,
                     "topk_group": 1, "routed_scaling_factor": 2.5, "num_key_value_heads": A},  # its class divides by the sum ("norm_topk_prob")
                    {"attention.head_count_kv": 1, "attention.key_length": 14, "attention.value_length": 10, "attention.key_length_mla": 10,
                     "attention.value_length_mla": 5, "attention.q_lora_rank": 14, "attention.kv_lora_rank": 10, "rope.dimension_count": 4,
                     "expert_count": E, "expert_shared_count": 2, "leading_dense_block_count": 1, "expert_weights_scale": 2.5,
                     "expert_weights_norm": True, "expert_gating_func": 2, "expert_group_count": 1}, "latent"),
    "glm": ("chatglm", [r for r in PHI if "attn" not in r[0]] + [r for r in DENSE if "self_attn" in r[0]] + BIASES,
            {**FILL, "partial_rotary_factor": 2 / 3}, {"rope.dimension_count": 4}, ""),
    "ministral3": ("mistral3", DENSE, {"rope_parameters": {**YARN, "rope_theta": 20000.0}},
                   {"rope.scaling.yarn_log_multiplier": 1.0, "attention.temperature_scale": 0.25, "rope.scaling.yarn_beta_fast": 32.0}, "perm"),
    "arcee": ("arcee", [r for r in DENSE if "gate" not in r[0]], {"hidden_act": "relu2"}, {}, "perm"),
    "eurobert": ("eurobert", DENSE, FILL, {"attention.causal": False, "rope.scaling.type": "none"}, "tied"),
    "bert": ("bert", BERT, {**FILL, "hidden_act": "gelu", "layer_norm_eps": 1e-12, "type_vocab_size": 2}, {"attention.causal": False}, "encoder"),
    "roberta": ("bert", BERT, {**FILL, "hidden_act": "gelu", "layer_norm_eps": 1e-5, "type_vocab_size": 1, "pad_token_id": 1},
                {"context_length": 62, "attention.layer_norm_epsilon": f32(1e-5)}, "encoder skip"),
}


INDEXER = [("self_attn.indexer.wq_b", "indexer.attn_q_b", "xR"), ("self_attn.indexer.wk", "indexer.attn_k", "DH"), ("self_attn.indexer.k_norm", "indexer.k_norm", "D"),
           ("self_attn.indexer.k_norm.bias", "indexer.k_norm.bias", "D"), ("self_attn.indexer.weights_proj", "indexer.proj", "XH")]
_, layers, more, pairs, _ = FAMILIES["deepseek_v3"]
FAMILIES["deepseek_v32"] = ("deepseek32", tuple(layer + INDEXER for layer in layers), {**more, "index_n_heads": 2, "index_head_dim": 8, "index_topk": 9}, {
    **pairs, "attention.indexer.head_count": 2, "attention.indexer.key_length": 8, "attention.indexer.top_k": 9}, "latent")


def size(letter, d):
    return {"H": H, "F": F, "q": A * d, "k": K * d, "d": d, "V": V, "E": E, "M": M, "S": S, "Q": (A + 2 * K) * d, "G": 2 * F, "1": 1, "P": 64, "2": 2,
            "p": 2 * A * d, "u": 4, "v": 4, "i": 16, "c": 32, "R": 14, "r": 10, "C": 14, "m": 10 * A, "w": 5 * A, "L": 3, "I": 6, "J": 6 * N, "g": 2 * M, "D": 8, "X": 2, "x": 16}[letter]


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
    if config["head_dim"] * A == H and kind != "glm":  # whose class takes 128
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
        if "sorts" in special and ("attn_q." in to or "attn_k." in to):  # the first half of a head is rotated
            n = len(x) // shape[0]
            order = [h * d + i for h in range(shape[0] // d) for i in (*range(0, d // 2, 2), *range(1, d // 2, 2), *range(d // 2, d))]
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
    for layer in range(N if "halves" in special else 0):  # gate and up of all experts in one tensor
        at, gate, up, down = f"model.layers.{layer}.block_sparse_moe.", *(values((E, F, H)) for _ in range(2)), values((E, H, F))
        n = F * H
        source[at + "input_linear.weight"] = ((E, 2 * F, H), [v for i in range(E) for half in (gate, up) for v in half[i * n:i * n + n]])
        source[at + "output_linear.weight"] = ((E, H, F), down)
        for name, shape, x in (("gate", (E, F, H), gate), ("up", (E, F, H), up), ("down", (E, H, F), down)):
            wanted[f"blk.{layer}.ffn_{name}_exps.weight"] = (shape, x)
    for layer in range(N if "latent" in special else 0):  # 6 rows of keys and 5 of values of each head
        x = values((11 * A, 10))
        source[f"model.layers.{layer}.self_attn.kv_b_proj.weight"] = ((11 * A, 10), x)
        wanted[f"blk.{layer}.attn_k_b.weight"] = ((A, 10, 6), [x[(11 * h + j) * 10 + c] for h in range(A) for c in range(10) for j in range(6)])
        wanted[f"blk.{layer}.attn_v_b.weight"] = ((A, 5, 10), [v for h in range(A) for v in x[(11 * h + 6) * 10:(11 * h + 11) * 10]])
    lists = {f"xielu.{part}": values((N,)) for part in ("alpha_n", "alpha_p", "beta", "eps") if "xielu" in special}
    for key, x in lists.items():
        for layer in range(N):
            source[f"model.layers.{layer}.mlp.act_fn.{key[6:]}"] = ((1,) if "alpha" in key else (), x[layer:layer + 1])
    d = config.get("head_dim", d)
    rms = {} if encoder else {"attention.head_count_kv": K, "attention.layer_norm_rms_epsilon": f32(1e-5), "rope.freq_base": 20000.0}
    pairs = {"block_count": N, "embedding_length": H, "feed_forward_length": F, "attention.head_count": A, "context_length": 64,
             "vocab_size": V, **rms, **pairs}
    if "mean" in special:
        del config["rms_norm_eps"], pairs["attention.layer_norm_rms_epsilon"]
    return config, source, wanted, {"general.architecture": architecture, "general.file_type": 0, **lists,
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
                   "num_experts_per_tok": 2, "sliding_window": 16, "rope_parameters": {"rope_type": "default", "rope_theta": 20000.0}})
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
