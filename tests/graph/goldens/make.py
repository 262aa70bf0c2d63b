#!/usr/bin/env python3
"""make.py [--check] [NAME...] - the goldens of families of models: small random weights as transformers saves them, and
what it computes with them in double precision.

    NAME/config.json, NAME/model.safetensors    the model
    NAME.safetensors                            inputs ("input.input_ids") and outputs ("output.logits", f64), with the
                                                versions of transformers and torch in its metadata

Without --check they are made anew. With it the outputs are computed again from the weights that are there, by the
transformers that is installed, and compared: 1e-10 of the largest.

transformers computes rotary angles, RMS norms and softmax in float32 whatever the model's type is. For these outputs
the name torch.float32 means float64 while the model is built and run, so that all of it is done in double."""
import contextlib
import json
import os
import sys
from importlib import metadata

try:
    if int(metadata.version("transformers").split(".")[0]) < 5:  # before what takes seconds to import
        raise ImportError("transformers %s is older than what the configurations are written for" % metadata.version("transformers"))
    import torch
    import transformers
    from safetensors import safe_open
    from safetensors.torch import save_file
except ImportError as missing:
    print(f"SKIPPED: {missing} ({sys.executable})")
    sys.exit(77)

HERE = os.path.dirname(os.path.abspath(__file__))
transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()

ENCODER = {
    "vocab_size": 23,
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 24,
    "max_position_embeddings": 20,
    "bos_token_id": None,
    "eos_token_id": None,
    "pad_token_id": 0,
}
DECODER = dict(ENCODER, num_key_value_heads=2, max_position_embeddings=64, pad_token_id=None)
LONG = dict(DECODER, max_position_embeddings=32)
IMAGE = {
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 24,
    "image_size": 12,
    "patch_size": 4,
}
GPT2 = {
    "vocab_size": 23,
    "n_embd": 16,
    "n_layer": 1,
    "n_head": 2,
    "n_positions": 20,
    "bos_token_id": 0,
    "eos_token_id": 0,
}
T5 = {
    "vocab_size": 23,
    "d_model": 16,
    "d_kv": 6,
    "d_ff": 20,
    "num_layers": 2,
    "num_heads": 3,
    "decoder_start_token_id": 0,
}
WHISPER = {
    "vocab_size": 23,
    "num_mel_bins": 6,
    "d_model": 16,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 24,
    "decoder_ffn_dim": 20,
    "max_source_positions": 10,
    "max_target_positions": 12,
    "pad_token_id": 0,
    "bos_token_id": 0,
    "eos_token_id": 0,
    "decoder_start_token_id": 0,
}
RESNET = {"embedding_size": 4, "hidden_sizes": [8, 12], "depths": [2, 1], "num_labels": 3}


def rope(kind, **more):
    return {"rope_parameters": dict(rope_type=kind, rope_theta=10000.0, **more)}


# name: class, configuration, tokens of a sequence (or of encoder and decoder, or the shape of an image, or bins and steps
# of sound and tokens)
GOLDENS = {
    "bert": ("BertModel", dict(ENCODER), 7),
    "bert-masked": ("BertForMaskedLM", dict(ENCODER, hidden_act="gelu_new"), 5),
    "bert-sequence": ("BertForSequenceClassification", dict(ENCODER, num_labels=3, hidden_act="relu"), 5),
    "bert-token": ("BertForTokenClassification", dict(ENCODER, num_labels=4), 5),
    "roberta": ("RobertaModel", dict(ENCODER, pad_token_id=1, type_vocab_size=1), 6),
    "roberta-masked": ("RobertaForMaskedLM", dict(ENCODER, pad_token_id=1), 6),
    "roberta-sequence": ("RobertaForSequenceClassification", dict(ENCODER, pad_token_id=1), 6),
    "distilbert": (
        "DistilBertModel",
        dict(vocab_size=23, dim=16, n_layers=2, n_heads=4, hidden_dim=24, max_position_embeddings=20),
        7,
    ),
    "distilbert-masked": (
        "DistilBertForMaskedLM",
        dict(vocab_size=23, dim=16, n_layers=1, n_heads=2, hidden_dim=24, max_position_embeddings=20),
        7,
    ),
    "distilbert-sequence": (
        "DistilBertForSequenceClassification",
        dict(vocab_size=23, dim=16, n_layers=1, n_heads=2, hidden_dim=24, max_position_embeddings=20),
        7,
    ),
    "bert-question": ("BertForQuestionAnswering", dict(ENCODER), 6),
    "bert-mask": ("BertModel", dict(ENCODER), 7),
    "distilbert-question": (
        "DistilBertForQuestionAnswering",
        dict(vocab_size=23, dim=16, n_layers=1, n_heads=2, hidden_dim=24, max_position_embeddings=20),
        7,
    ),
    "electra": ("ElectraModel", dict(ENCODER, embedding_size=8), 7),
    "electra-pretraining": ("ElectraForPreTraining", dict(ENCODER, embedding_size=16, hidden_act="relu"), 7),
    "electra-masked": ("ElectraForMaskedLM", dict(ENCODER, embedding_size=8, hidden_act="relu"), 7),
    "electra-sequence": ("ElectraForSequenceClassification", dict(ENCODER, embedding_size=8, num_labels=3), 7),
    "electra-question-mask": ("ElectraForQuestionAnswering", dict(ENCODER, embedding_size=8), 7),
    "albert-mask": ("AlbertModel", dict(ENCODER, embedding_size=8), 7),
    "albert-masked": ("AlbertForMaskedLM", dict(ENCODER, embedding_size=16, num_hidden_layers=3, num_hidden_groups=2, inner_group_num=2), 7),
    "albert-sequence": ("AlbertForSequenceClassification", dict(ENCODER, embedding_size=8, hidden_act="gelu", num_labels=3), 7),
    "mpnet-mask": ("MPNetModel", dict(ENCODER, pad_token_id=1, max_position_embeddings=160), 140),
    "mpnet-masked": ("MPNetForMaskedLM", dict(ENCODER, pad_token_id=1), 7),
    "mpnet-sequence": ("MPNetForSequenceClassification", dict(ENCODER, pad_token_id=1, num_labels=3), 7),
    "mpnet-token": ("MPNetForTokenClassification", dict(ENCODER, pad_token_id=1, num_labels=3), 7),
    "roberta-question-mask": ("RobertaForQuestionAnswering", dict(ENCODER, pad_token_id=1), 6),
    "vit": ("ViTModel", dict(IMAGE), (2, 3, 12, 12)),
    "vit-image": ("ViTForImageClassification", dict(IMAGE, num_labels=5, image_size=[8, 16]), (1, 3, 8, 16)),
    "resnet": ("ResNetModel", dict(RESNET, layer_type="bottleneck"), (2, 3, 37, 32)),
    "resnet-image": (
        "ResNetForImageClassification",
        dict(RESNET, layer_type="basic", downsample_in_first_stage=True),
        (1, 3, 32, 32),
    ),
    "gpt2": (
        "GPT2LMHeadModel",
        dict(vocab_size=23, n_embd=16, n_layer=2, n_head=4, n_positions=20, bos_token_id=0, eos_token_id=0),
        8,
    ),
    "gpt2-base": (
        "GPT2Model",
        dict(
            vocab_size=23,
            n_embd=16,
            n_layer=2,
            n_head=2,
            n_positions=20,
            n_inner=20,
            bos_token_id=0,
            eos_token_id=0,
            scale_attn_by_inverse_layer_idx=True,
        ),
        8,
    ),
    "gpt2-mask": ("GPT2LMHeadModel", dict(GPT2), 8),
    "gpt2-sequence": ("GPT2ForSequenceClassification", dict(GPT2, num_labels=3, pad_token_id=1), 8),
    "gpt2-token": ("GPT2ForTokenClassification", dict(GPT2, num_labels=3), 8),
    "gpt2-question": ("GPT2ForQuestionAnswering", dict(GPT2), 8),
    "llama": ("LlamaForCausalLM", dict(DECODER), 9),
    "llama-base": ("LlamaModel", dict(DECODER, attention_bias=True, mlp_bias=True, head_dim=6), 9),
    "llama-linear": ("LlamaForCausalLM", dict(LONG, num_hidden_layers=1, **rope("linear", factor=4.0)), 9),
    "llama-dynamic": ("LlamaForCausalLM", dict(LONG, num_hidden_layers=1, **rope("dynamic", factor=2.0)), 9),
    "llama-dynamic-beyond": (
        "LlamaForCausalLM",
        dict(LONG, num_hidden_layers=1, **dict(rope("dynamic", factor=2.0), max_position_embeddings=8)),
        13,
    ),
    "llama-yarn": (
        "LlamaForCausalLM",
        dict(
            DECODER,
            num_hidden_layers=1,
            head_dim=16,
            **rope("yarn", factor=4.0, original_max_position_embeddings=16, beta_fast=4.0, beta_slow=0.5),
        ),
        20,
    ),
    "llama-llama3": (
        "LlamaForCausalLM",
        dict(
            DECODER,
            num_hidden_layers=1,
            head_dim=16,
            tie_word_embeddings=True,
            **rope(
                "llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=64
            ),
        ),
        20,
    ),
    "llama-mask": ("LlamaForCausalLM", dict(DECODER, num_hidden_layers=1), 9),
    "llama-left-mask": ("LlamaForCausalLM", dict(DECODER, num_hidden_layers=1), 9),
    "gemma2-mask": (
        "Gemma2ForCausalLM",
        dict(DECODER, head_dim=4, sliding_window=4, query_pre_attn_scalar=10),
        9,
    ),
    "qwen3-moe-mask": (
        "Qwen3MoeForCausalLM",
        dict(DECODER, num_hidden_layers=1, head_dim=4, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=6),
        9,
    ),
    "llama-sequence": ("LlamaForSequenceClassification", dict(DECODER, num_labels=3, pad_token_id=1), 8),
    "llama-token": ("LlamaForTokenClassification", dict(DECODER, num_labels=3), 8),
    "llama-question": ("LlamaForQuestionAnswering", dict(DECODER), 8),
    "gemma3-sequence": (
        "Gemma3TextForSequenceClassification",
        dict(DECODER, num_hidden_layers=1, head_dim=4, sliding_window=3, num_labels=4, pad_token_id=1),
        8,
    ),
    "mistral-window": ("MistralForCausalLM", dict(DECODER, sliding_window=4), 9),
    "mistral": ("MistralForCausalLM", dict(DECODER, sliding_window=None, head_dim=8), 9),
    "qwen2": ("Qwen2ForCausalLM", dict(DECODER, tie_word_embeddings=True), 9),
    "qwen2-window": (
        "Qwen2ForCausalLM",
        dict(DECODER, use_sliding_window=True, sliding_window=3, max_window_layers=1),
        9,
    ),
    "qwen3": ("Qwen3ForCausalLM", dict(DECODER, head_dim=8), 9),
    "phi3": ("Phi3ForCausalLM", dict(DECODER, sliding_window=5, pad_token_id=0), 9),
    "phi3-long": (
        "Phi3ForCausalLM",
        dict(
            DECODER,
            num_hidden_layers=1,
            pad_token_id=0,
            hidden_size=32,
            original_max_position_embeddings=8,
            rope_parameters=dict(
                rope_type="longrope",
                rope_theta=10000.0,
                partial_rotary_factor=0.5,
                short_factor=[1.0, 1.5],
                long_factor=[2.0, 5.0],
            ),
        ),
        12,
    ),
    "phi3-short": (
        "Phi3ForCausalLM",
        dict(
            DECODER,
            num_hidden_layers=1,
            pad_token_id=0,
            original_max_position_embeddings=16,
            rope_parameters=dict(
                rope_type="longrope", rope_theta=10000.0, short_factor=[1.0, 1.5], long_factor=[2.0, 5.0]
            ),
        ),
        9,
    ),
    "gemma": ("GemmaForCausalLM", dict(DECODER, head_dim=6, hidden_act="gelu"), 7),
    "gemma2": (
        "Gemma2ForCausalLM",
        dict(DECODER, num_hidden_layers=3, head_dim=6, sliding_window=3, query_pre_attn_scalar=10),
        9,
    ),
    "gemma2-types": (
        "Gemma2Model",
        dict(
            DECODER,
            head_dim=4,
            sliding_window=4,
            attn_logit_softcapping=None,
            attention_bias=True,
            layer_types=["full_attention", "sliding_attention"],
        ),
        9,
    ),
    "gemma3": (
        "Gemma3ForCausalLM",
        dict(DECODER, num_hidden_layers=7, head_dim=4, sliding_window=3, final_logit_softcapping=12.0),
        9,
    ),
    "gemma3-base": (
        "Gemma3TextModel",
        dict(
            DECODER,
            head_dim=6,
            sliding_window=3,
            layer_types=["full_attention", "sliding_attention"],
            rope_parameters=dict(
                full_attention=dict(rope_type="linear", factor=8.0, rope_theta=50000.0),
                sliding_attention=dict(rope_type="default", rope_theta=500.0),
            ),
        ),
        9,
    ),
    "gemma3-old": (
        "Gemma3ForCausalLM",
        dict(
            DECODER,
            num_hidden_layers=3,
            head_dim=4,
            sliding_window=3,
            sliding_window_pattern=2,
            rope_parameters=dict(
                full_attention=dict(rope_type="linear", factor=8.0, rope_theta=50000.0),
                sliding_attention=dict(rope_type="default", rope_theta=500.0),
            ),
        ),
        9,
    ),
    "olmo": ("OlmoForCausalLM", dict(DECODER, clip_qkv=0.8), 9),
    "olmo-bias": ("OlmoModel", dict(DECODER, attention_bias=True), 9),
    "olmo2": ("Olmo2ForCausalLM", dict(DECODER, attention_bias=True), 9),
    "arcee": ("ArceeForCausalLM", dict(DECODER, num_hidden_layers=1, head_dim=6, attention_bias=True, mlp_bias=True), 9),
    "granite": (
        "GraniteForCausalLM",
        dict(DECODER, embedding_multiplier=3.0, attention_multiplier=0.3, residual_multiplier=0.5, logits_scaling=4.0),
        9,
    ),
    "smollm3": (
        "SmolLM3ForCausalLM",
        dict(DECODER, no_rope_layers=[1, 0], use_sliding_window=True, sliding_window=4, pad_token_id=0),
        9,
    ),
    "stablelm": ("StableLmForCausalLM", dict(DECODER, num_hidden_layers=1, hidden_size=32, use_qkv_bias=True), 9),
    "stablelm-parallel": ("StableLmModel", dict(DECODER, num_hidden_layers=1, hidden_size=32, use_parallel_residual=True), 9),
    "nemotron": ("NemotronForCausalLM", dict(DECODER, num_hidden_layers=1, mlp_bias=True), 9),
    "starcoder2": ("Starcoder2ForCausalLM", dict(DECODER, num_hidden_layers=1, sliding_window=4), 9),
    "cohere": ("CohereForCausalLM", dict(DECODER, num_hidden_layers=1, logit_scale=0.25, attention_bias=True, pad_token_id=0), 9),
    "cohere2": (
        "Cohere2ForCausalLM",
        dict(DECODER, sliding_window=4, pad_token_id=0, layer_types=["sliding_attention", "full_attention"]),
        9,
    ),
    "phi": ("PhiForCausalLM", dict(DECODER, num_hidden_layers=1), 9),
    "mixtral": ("MixtralForCausalLM", dict(DECODER, num_local_experts=4, num_experts_per_tok=2), 9),
    "mixtral-fused": ("MixtralForCausalLM", dict(DECODER, num_local_experts=3, num_experts_per_tok=2), 9),
    "qwen2-moe": (
        "Qwen2MoeForCausalLM",
        dict(
            DECODER,
            num_hidden_layers=3,
            num_experts=5,
            num_experts_per_tok=2,
            moe_intermediate_size=6,
            shared_expert_intermediate_size=10,
            mlp_only_layers=[1],
        ),
        9,
    ),
    "qwen2-moe-window": (
        "Qwen2MoeModel",
        dict(
            DECODER,
            num_hidden_layers=4,
            num_experts=4,
            num_experts_per_tok=3,
            moe_intermediate_size=6,
            shared_expert_intermediate_size=8,
            norm_topk_prob=True,
            decoder_sparse_step=2,
            use_sliding_window=True,
            sliding_window=3,
            max_window_layers=3,
            qkv_bias=False,
        ),
        9,
    ),
    "qwen3-moe": (
        "Qwen3MoeForCausalLM",
        dict(DECODER, head_dim=8, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=6, norm_topk_prob=True),
        9,
    ),
    "qwen3-moe-fused": (
        "Qwen3MoeForCausalLM",
        dict(
            DECODER,
            num_hidden_layers=1,
            head_dim=4,
            num_experts=4,
            num_experts_per_tok=2,
            moe_intermediate_size=6,
            use_sliding_window=True,
            sliding_window=4,
            attention_bias=True,
        ),
        9,
    ),
}
GOLDENS.update(
    {
        "t5": ("T5ForConditionalGeneration", dict(T5), (7, 5)),
        "t5-gated-mask": (
            "T5ForConditionalGeneration",
            dict(T5, feed_forward_proj="gated-gelu", tie_word_embeddings=False, num_decoder_layers=1),
            (26, 24),
        ),
        "t5-decoder-mask": ("T5ForConditionalGeneration", dict(T5, num_layers=1), (7, 6)),
        "t5-base": ("T5Model", dict(T5, relative_attention_num_buckets=8, relative_attention_max_distance=12), (15, 14)),
        "t5-encoder-mask": ("T5EncoderModel", dict(T5, feed_forward_proj="gated-silu"), 9),
        "mt5": ("MT5ForConditionalGeneration", dict(T5, num_layers=1), (7, 5)),
        "whisper": ("WhisperForConditionalGeneration", dict(WHISPER), (6, 20, 5)),
        "whisper-mask": ("WhisperForConditionalGeneration", dict(WHISPER, decoder_layers=1), (6, 20, 7)),
        "whisper-base": ("WhisperModel", dict(WHISPER, activation_function="relu", decoder_layers=1), (6, 20, 4)),
    }
)
# As GGUF, with the names and, in files of the architecture llama, the order of rows that these have: architecture, model,
# and the methods of the writer that say more. ROPE_FACTORS: rope_freqs.weight, by which frequencies are divided.
EXPERTS = dict(num_experts=4, num_experts_per_tok=2, moe_intermediate_size=6)
ROPE_FACTORS = [1.0, 1.25, 2.5, 8.0]
GGUF = {
    "llama-gguf": ("llama", ("LlamaForCausalLM", dict(DECODER), 9), {}),
    "llama-gguf-linear": (
        "llama",
        ("LlamaForCausalLM", dict(DECODER, head_dim=8, **rope("linear", factor=4.0)), 9),
        dict(rope_scaling_factor=4.0),
    ),
    "llama-gguf-yarn": (
        "llama",
        (
            "LlamaForCausalLM",
            dict(
                DECODER,
                head_dim=16,
                **rope("yarn", factor=4.0, original_max_position_embeddings=16, beta_fast=4.0, beta_slow=0.5),
            ),
            20,
        ),
        dict(
            rope_scaling_type="yarn",
            rope_scaling_factor=4.0,
            rope_scaling_orig_ctx_len=16,
            rope_scaling_finetuned=True,
            rope_scaling_yarn_beta_fast=4.0,
            rope_scaling_yarn_beta_slow=0.5,
        ),
    ),
    "llama-gguf-factors": ("llama", ("LlamaForCausalLM", dict(DECODER, head_dim=8), 20), {}),
    "mixtral-gguf": (
        "llama",
        ("MixtralForCausalLM", dict(DECODER, num_local_experts=3, num_experts_per_tok=2), 9),
        dict(expert_count=3, expert_used_count=2),
    ),
    "mixtral-gguf-old": (
        "llama",
        ("MixtralForCausalLM", dict(DECODER, num_local_experts=3, num_experts_per_tok=2), 9),
        dict(expert_count=3, expert_used_count=2),
    ),
    "qwen2-moe-gguf": (
        "qwen2moe",
        ("Qwen2MoeForCausalLM", dict(DECODER, shared_expert_intermediate_size=10, **EXPERTS), 9),
        dict(
            expert_count=4,
            expert_used_count=2,
            expert_feed_forward_length=6,
            expert_shared_feed_forward_length=10,
        ),
    ),
    "qwen3-moe-gguf": (
        "qwen3moe",
        ("Qwen3MoeForCausalLM", dict(DECODER, head_dim=8, norm_topk_prob=True, **EXPERTS), 9),
        dict(expert_count=4, expert_used_count=2, expert_feed_forward_length=6, key_length=8, value_length=8),
    ),
}
GOLDENS.update({name: golden for name, (_, golden, _) in GGUF.items()})
# Keys of config.json as models of before have them; None: not there.
SPELLED = {
    "gemma3-old": dict(
        layer_types=None,
        _sliding_window_pattern=None,
        sliding_window_pattern=2,
        rope_parameters=None,
        rope_theta=50000.0,
        rope_local_base_freq=500.0,
        rope_scaling=dict(rope_type="linear", factor=8.0),
    ),
    "qwen2-moe-window": dict(layer_types=None),
}
# Experts in tensors of three dimensions, as transformers has them in memory.
FUSED = ("mixtral-fused", "qwen3-moe-fused")
OUTPUTS = ("last_hidden_state", "pooler_output", "logits", "start_logits", "end_logits", "encoder_last_hidden_state")
# With padding in front of a text, of which the first tokens see nothing: nothing is what sdpa makes of them, and a mean of
# all tokens what "eager" does.
LEFT_MASKED = ("llama-left-mask",)
DECODER_MASKED = ("t5-decoder-mask", "whisper-mask")
ENCODERS = ("bert", "roberta", "distilbert", "electra", "albert", "mpnet")


@contextlib.contextmanager
def all_in_double():
    before = torch.float32, torch.float, torch.Tensor.float
    torch.set_default_dtype(torch.float64)
    torch.float32 = torch.float64
    torch.float = torch.float64
    torch.Tensor.float = torch.Tensor.double
    try:
        yield
    finally:
        torch.float32, torch.float, torch.Tensor.float = before
        torch.set_default_dtype(torch.float32)


def set_ways(name, config):
    config._attn_implementation = "sdpa" if name in LEFT_MASKED else "eager"
    config._experts_implementation = "eager"


def config_of(name):
    class_name, values, _ = GOLDENS[name]
    config = getattr(transformers, class_name).config_class(**values)
    set_ways(name, config)
    return config


def make_model(name):
    """One whose every tensor matters: no zeros, no ones."""
    torch.manual_seed(sum(name.encode()))
    model = getattr(transformers, GOLDENS[name][0])(config_of(name))
    with torch.no_grad():
        for key, tensor in model.state_dict().items():
            if not tensor.is_floating_point():
                continue
            noise = torch.randn(tensor.shape)
            if key.endswith("running_var"):
                tensor.copy_(0.5 + noise.abs())
            elif tensor.dim() == 1 and ("orm" in key or "ln_" in key) and key.endswith("weight"):
                tensor.copy_(1 + 0.3 * noise)
            else:
                tensor.copy_(0.3 * noise)
    model.tie_weights()
    return model


def make_input(name):
    torch.manual_seed(sum(name.encode()) + 1)
    _, values, size = GOLDENS[name]
    if isinstance(size, tuple) and len(size) == 4:
        return {"pixel_values": torch.randn(size)}
    decoder = {}
    if isinstance(size, tuple):
        decoder = {"decoder_input_ids": torch.randint(2, values["vocab_size"], (2, size[-1]))}
        if name in DECODER_MASKED:
            mask = decoder["decoder_attention_mask"] = torch.ones_like(decoder["decoder_input_ids"])
            mask[1, -2:] = 0
        if len(size) == 3:
            return {"input_features": torch.randn((2, *size[:2])), **decoder}
        size = size[0]
    ids = torch.randint(2, values["vocab_size"], (2, size))
    inputs = {"input_ids": ids, **decoder}
    if name.startswith(("roberta", "mpnet")) or values.get("pad_token_id") == 1:
        ids[1, -2:] = 1  # padding, of which positions know
    if name.endswith("-mask"):
        inputs["attention_mask"] = torch.ones_like(ids)
        inputs["attention_mask"][0, -3:] = 0
        if name.startswith((*ENCODERS, "t5")) or name in LEFT_MASKED:
            inputs["attention_mask"][1, :1] = 0
        if name.startswith(("bert", "electra", "albert")):
            inputs["token_type_ids"] = torch.randint(0, 2, ids.shape)
    return inputs


def divide_frequencies(name, model):
    if name == "llama-gguf-factors":
        rotary = model.model.rotary_emb
        rotary.inv_freq = rotary.inv_freq / torch.tensor(ROPE_FACTORS, dtype=rotary.inv_freq.dtype)


def compute(name, config, weights, inputs):
    """With the weights in double; all tokens are looked at where there is no mask."""
    with all_in_double():
        model = getattr(transformers, GOLDENS[name][0])(config).double()
        model.load_state_dict({k: v.double() if v.is_floating_point() else v for k, v in weights.items()})
        divide_frequencies(name, model)
        model.eval()
        with torch.no_grad():
            more = {}
            if "attention_mask" not in inputs and name.startswith(ENCODERS):
                more["attention_mask"] = torch.ones_like(inputs["input_ids"])
            out = model(**{k: v.double() if v.is_floating_point() else v for k, v in inputs.items()}, **more)
        return {k: out[k].detach().contiguous() for k in OUTPUTS if out.get(k) is not None}


def spell(folder, keys):
    path = os.path.join(folder, "config.json")
    with open(path) as file:
        config = json.load(file)
    config.update(keys)
    with open(path, "w") as file:
        json.dump({k: v for k, v in sorted(config.items()) if keys.get(k, v) is not None or k not in keys}, file, indent=2)
        file.write("\n")


def write(name):
    folder = os.path.join(HERE, name)
    model = make_model(name)
    model.save_pretrained(folder, save_original_format=name not in FUSED)
    spell(folder, SPELLED.get(name, {}))
    for extra in ("generation_config.json",):
        if os.path.exists(os.path.join(folder, extra)):
            os.remove(os.path.join(folder, extra))
    write_values(name, model)


def write_values(name, model):
    inputs = make_input(name)
    outputs = compute(name, config_of(name), model.state_dict(), inputs)
    tensors = {"input." + k: v for k, v in inputs.items()}
    tensors.update({"output." + k: v for k, v in outputs.items()})
    assert all(v.dtype == torch.float64 for v in outputs.values())
    save_file(
        tensors,
        os.path.join(HERE, name + ".safetensors"),
        metadata={"judge": f"transformers {transformers.__version__}, torch {torch.__version__.split('+')[0]}"},
    )


def gguf_tensors(name, config, weights):
    """Names of transformers without ".weight", and tensors; experts one by one only where early files have them so."""
    old = name.endswith("-old")
    for key, tensor in weights.items():
        if "experts." not in key:
            yield key, tensor
            continue
        module = key.rsplit(".", 1)[0]
        parts = {"down_proj": tensor}
        if key.endswith("gate_up_proj"):
            parts = dict(zip(("gate_proj", "up_proj"), tensor.chunk(2, dim=1)))
        for part, values in parts.items():
            if not old:
                yield f"{module}.{part}.weight", values
                continue
            for expert in range(config.num_local_experts):
                layer = key.split(".")[2]
                yield f"/blk.{layer}.ffn_{part.split('_')[0]}.{expert}.weight", values[expert]


def write_gguf(name):
    import gguf

    architecture, _, more = GGUF[name]
    folder = os.path.join(HERE, name)
    os.makedirs(folder, exist_ok=True)
    config = config_of(name)
    model = make_model(name)
    writer = gguf.GGUFWriter(os.path.join(folder, "model.gguf"), architecture)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    head_dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    if architecture == "llama":
        writer.add_rope_dimension_count(head_dim)
        if head_dim * config.num_attention_heads != config.hidden_size:
            more = dict(more, key_length=head_dim, value_length=head_dim)
    writer.add_vocab_size(config.vocab_size)
    writer.add_token_list([f"t{i}" for i in range(config.vocab_size)])
    for key, value in more.items():
        if key == "rope_scaling_type":
            value = gguf.RopeScalingType(value)
        getattr(writer, "add_" + key)(value)
    arch = next(k for k, v in gguf.MODEL_ARCH_NAMES.items() if v == architecture)
    names = gguf.get_tensor_name_map(arch, config.num_hidden_layers)
    for key, tensor in gguf_tensors(name, config, model.state_dict()):
        heads = {"q_proj": config.num_attention_heads, "k_proj": config.num_key_value_heads}.get(key.split(".")[-2])
        if heads and architecture == "llama":  # halves of a head become neighbours
            rows = tensor.shape[0] // heads // 2
            tensor = tensor.reshape(heads, 2, rows, -1).swapaxes(1, 2).reshape(tensor.shape)
        name_there = key[1:] if key.startswith("/") else names.get_name(key, try_suffixes=(".weight", ".bias"))
        writer.add_tensor(name_there, tensor.contiguous().numpy())
    if name == "llama-gguf-factors":
        writer.add_tensor("rope_freqs.weight", torch.tensor(ROPE_FACTORS).numpy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    write_values(name, model)


def check(name):
    """The largest difference, in parts of the largest output."""
    with safe_open(os.path.join(HERE, name + ".safetensors"), "pt") as file:
        tensors = {k: file.get_tensor(k) for k in file.keys()}
    class_ = getattr(transformers, GOLDENS[name][0])
    model = class_.from_pretrained(os.path.join(HERE, name), dtype=torch.float32)
    config = class_.config_class.from_pretrained(os.path.join(HERE, name))  # as the file has it
    set_ways(name, config)
    inputs = {k[6:]: v for k, v in tensors.items() if k.startswith("input.")}
    outputs = compute(name, config, model.state_dict(), inputs)
    assert set(outputs) == {k[7:] for k in tensors if k.startswith("output.")}, name
    return max(float((outputs[k] - tensors["output." + k]).abs().max() / outputs[k].abs().max()) for k in outputs)


def main():
    names = [a for a in sys.argv[1:] if not a.startswith("-")] or list(GOLDENS)
    if "--check" not in sys.argv[1:]:
        for name in names:
            write_gguf(name) if name in GGUF else write(name)
        return
    worst = {name: check(name) for name in names if name not in GGUF}
    print(json.dumps(worst, indent=1))
    wrong = [name for name, error in worst.items() if not error <= 1e-10]
    if wrong:
        sys.exit("other outputs than the goldens': " + ", ".join(wrong))


if __name__ == "__main__":  # trained_families.py imports this
    main()
