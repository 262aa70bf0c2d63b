"""test_gguf_converter.py - folders as GGUF models beside llama.cpp's own converter: every tensor's name, shape, type and bytes, and
every key of the metadata; then the way back, whose folder has the bytes of the first. Small random models of transformers, without a
vocabulary. The converter is the folder $VC_LLAMA_CPP, a copy of llama.cpp's sources with convert_hf_to_gguf.py, conversion/ and gguf-py/;
without it all is left out by name. $VC_FAMILIES chooses models by their names here."""
import json
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
CHOSEN = os.environ.get("VC_FAMILIES", "").split()
TEXT = dict(vocab_size=97, hidden_size=32, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2, intermediate_size=48,
            max_position_embeddings=64)
EXPERTS = dict(num_experts=4, num_experts_per_tok=2, moe_intermediate_size=20)
SMALL = dict(vocab_size=97, hidden_size=32, num_hidden_layers=3)
ROUTED = dict(n_routed_experts=4, num_experts_per_tok=2, moe_intermediate_size=20)
LATENT = dict(num_key_value_heads=4, moe_intermediate_size=20, n_routed_experts=8, num_experts_per_tok=2, first_k_dense_replace=1,
              kv_lora_rank=10, qk_nope_head_dim=6, qk_rope_head_dim=4, v_head_dim=8)
ERNIE = dict(moe_num_experts=4, moe_intermediate_size=20, moe_layer_interval=1)
NEXT = dict(shared_expert_intermediate_size=24, linear_key_head_dim=4, linear_value_head_dim=4, linear_num_key_heads=2, linear_conv_kernel_dim=3)
MAMBA = dict(mamba_n_heads=8, mamba_d_head=8, mamba_d_state=6, mamba_n_groups=2, mamba_d_conv=3, mamba_expand=2)
JAMBA = dict(mamba_d_state=6, mamba_d_conv=3, mamba_dt_rank=5, attn_layer_offset=1, attn_layer_period=3, expert_layer_offset=0, expert_layer_period=2)
COHERE = dict(head_dim=16, sliding_window=16, num_experts=4, num_experts_per_tok=2, prefix_dense_intermediate_size=56, logit_scale=0.25,
              layer_types=["full_attention", "sliding_attention", "full_attention"])
HYBRID = {**TEXT, "head_dim": 8, "mamba_num_heads": 8, "mamba_head_dim": 8, "ssm_state_size": 6, "n_groups": 2, "conv_kernel": 3,
          "mlp_hidden_act": "relu2"}
del HYBRID["num_hidden_layers"]
YARN = dict(rope_type="yarn", rope_theta=10000.0, factor=4.0, original_max_position_embeddings=16, mscale=1.0, mscale_all_dim=1.0,
            beta_fast=32, beta_slow=1)
LLAMA3 = dict(rope_type="llama3", rope_theta=10000.0, factor=8.0, original_max_position_embeddings=16, low_freq_factor=1.0, high_freq_factor=4.0)
T5 = dict(vocab_size=97, d_model=32, d_kv=8, d_ff=48, num_layers=3, num_heads=4, relative_attention_num_buckets=8, decoder_start_token_id=0, n_positions=512)
VISION = dict(depth=2, hidden_size=16, num_heads=2, intermediate_size=16, out_hidden_size=32)


def rope(theta, *sections):
    return dict(rope_parameters=dict(rope_type="default", rope_theta=theta, mrope_section=list(sections)))


# class, text, what goes beside it
MODELS = {
    "llama": ("Llama", dict(TEXT, head_dim=16), None),
    "qwen2": ("Qwen2", TEXT, None),
    "qwen3": ("Qwen3", dict(TEXT, head_dim=16), None),
    "qwen3_moe": ("Qwen3Moe", dict(TEXT, head_dim=16, norm_topk_prob=True, **EXPERTS), None),
    "qwen2_5_vl": ("Qwen2_5_VL", dict(TEXT, **rope(1e6, 1, 1, 2)), dict(VISION, depth=1, fullatt_block_indexes=[0])),
    "qwen3_vl": ("Qwen3VL", dict(TEXT, head_dim=16, **rope(5e6, 3, 3, 2)),
                 dict(VISION, deepstack_visual_indexes=[0, 1], num_position_embeddings=16)),
    # the converter takes experts as the first files have them, which transformers does not write: see test_turned
    "qwen3_vl_moe": ("Qwen3VLMoe", dict(TEXT, head_dim=16, **EXPERTS, **rope(5e6, 3, 3, 2)),
                     dict(VISION, deepstack_visual_indexes=[0, 1], num_position_embeddings=16)),
    "granitemoe": ("GraniteMoe", dict(TEXT, num_local_experts=4, num_experts_per_tok=2, logits_scaling=2.0, attention_multiplier=0.5), None),
    "olmoe": ("Olmoe", dict(TEXT, num_key_value_heads=4, num_experts=4, num_experts_per_tok=2), None),
    "minimax_m2": ("MiniMaxM2", dict(TEXT, head_dim=8, num_local_experts=4, num_experts_per_tok=2, rotary_dim=4), None),
    "ernie4_5": ("Ernie4_5", dict(TEXT, head_dim=8), None),
    "hunyuan_v1_dense": ("HunYuanDenseV1", dict(TEXT, head_dim=8), None),
    # keys and values that are decompressed
    "deepseek_v3": ("DeepseekV3", dict(TEXT, **LATENT, q_lora_rank=12, n_group=2, topk_group=1, n_shared_experts=2), None),
    "deepseek_v3-yarn": ("DeepseekV3", dict(TEXT, **{**LATENT, "first_k_dense_replace": 0}, q_lora_rank=12, n_group=1, n_shared_experts=1,
                                            norm_topk_prob=False, rope_parameters=YARN, tie_word_embeddings=True), None),
    "deepseek_v2": ("DeepseekV2", dict(TEXT, **LATENT, q_lora_rank=12, n_group=2, topk_group=1, n_shared_experts=2,
                                       topk_method="group_limited_greedy"), None),
    "deepseek_v2-lite": ("DeepseekV2", {**TEXT, **LATENT, "q_lora_rank": None, "n_group": 1, "num_hidden_layers": 27}, None),
    "mistral4": ("Mistral4", dict(TEXT, **{**LATENT, "first_k_dense_replace": 0}, q_lora_rank=12, n_group=1, topk_group=1, n_shared_experts=1,
                                  rope_parameters=dict(YARN, llama_4_scaling_beta=0.1, max_position_embeddings=64, partial_rotary_factor=0.4)), None),
    "glm4_moe_lite": ("Glm4MoeLite", dict(TEXT, **LATENT, q_lora_rank=12, n_group=2, topk_group=1, n_shared_experts=2), None),
    "deepseek_v32": ("DeepseekV32", dict(TEXT, **LATENT, q_lora_rank=12, n_group=1, topk_group=1, n_shared_experts=1, index_n_heads=8, index_head_dim=64,
                                         index_topk=16), None),
    "glm_moe_dsa": ("GlmMoeDsa", dict(TEXT, **LATENT, q_lora_rank=12, n_group=1, topk_group=1, n_shared_experts=1, index_n_heads=8, index_head_dim=64,
                                      index_topk=16, indexer_types=["full", "full", "shared"]), None),
    "youtu": ("Youtu", dict(TEXT, num_key_value_heads=4, q_lora_rank=12, kv_lora_rank=10, qk_nope_head_dim=6, qk_rope_head_dim=4, v_head_dim=8), None),
    # experts behind dense layers
    "glm4_moe": ("Glm4Moe", dict(TEXT, head_dim=8, **ROUTED, n_shared_experts=1, first_k_dense_replace=1, use_qk_norm=True), None),
    "glm4_moe-bias": ("Glm4Moe", dict(TEXT, head_dim=16, **{**ROUTED, "n_routed_experts": 8}, n_shared_experts=2, first_k_dense_replace=2,
                                      use_qk_norm=False, attention_bias=True, n_group=2, topk_group=1, tie_word_embeddings=True), None),
    "solar_open": ("SolarOpen", dict(TEXT, head_dim=8, **ROUTED, n_shared_experts=1), None),
    "exaone_moe": ("ExaoneMoe", dict(TEXT, head_dim=8, **EXPERTS, num_shared_experts=1, first_k_dense_replace=1, sliding_window=16,
                                     layer_types=["sliding_attention", "sliding_attention", "full_attention"]), None),
    "dots1": ("Dots1", dict(TEXT, head_dim=8, num_key_value_heads=4, **ROUTED, n_shared_experts=2, first_k_dense_replace=1), None),
    "ernie4_5_moe": ("Ernie4_5_Moe", dict(TEXT, **ERNIE, moe_k=2, moe_num_shared_experts=2, moe_layer_start_index=1), None),
    "ernie4_5_moe-all": ("Ernie4_5_Moe", dict(TEXT, **ERNIE, moe_k=3, moe_num_shared_experts=1, moe_layer_start_index=0,
                                              tie_word_embeddings=False), None),
    "hunyuan_v1_moe": ("HunYuanMoEV1", dict(TEXT, head_dim=8, num_experts=4, moe_topk=[2] * 3, moe_intermediate_size=[48] * 3,
                                            num_shared_expert=[1] * 3), None),
    "llama4": ("Llama4", dict(TEXT, head_dim=8, num_local_experts=4, num_experts_per_tok=1, intermediate_size_mlp=56,
                              interleave_moe_layer_step=1), None),
    "llama4-step": ("Llama4", {**TEXT, "num_hidden_layers": 4, "head_dim": 16, "num_local_experts": 128, "num_experts_per_tok": 1, "use_qk_norm": False,
                               "intermediate_size_mlp": 40, "interleave_moe_layer_step": 2, "rope_parameters": LLAMA3}, None),
    # recurrent layers
    "qwen3_next": ("Qwen3Next", {**TEXT, **NEXT, "head_dim": 8, "num_hidden_layers": 4, "linear_num_value_heads": 4, **EXPERTS}, None),
    "qwen3_next-tied": ("Qwen3Next", {**TEXT, **NEXT, "head_dim": 16, "num_hidden_layers": 6, "linear_num_value_heads": 2, **EXPERTS,
                                      "tie_word_embeddings": True}, None),
    "granitemoehybrid": ("GraniteMoeHybrid", dict(TEXT, **MAMBA, num_local_experts=4, num_experts_per_tok=2, shared_intermediate_size=40,
                                                  layer_types=["mamba", "attention", "mamba"], attention_bias=True), None),
    "granitemoehybrid-dense": ("GraniteMoeHybrid", dict(TEXT, **{**MAMBA, "mamba_n_groups": 1}, num_local_experts=0, num_experts_per_tok=0,
                                                        shared_intermediate_size=48, layer_types=["mamba", "attention", "mamba"],
                                                        logits_scaling=2.0, attention_multiplier=0.5, tie_word_embeddings=True), None),
    "granitemoehybrid-attention": ("GraniteMoeHybrid", dict(TEXT, **MAMBA, num_local_experts=0, num_experts_per_tok=0, position_embedding_type="rope",
                                                            shared_intermediate_size=48, layer_types=["attention"] * 3), None),
    "bamba": ("Bamba", dict(TEXT, **MAMBA, attn_layer_indices=[1], attention_bias=True), None),
    "jamba": ("Jamba", {**TEXT, **JAMBA, "num_hidden_layers": 6, "num_experts": 4, "num_experts_per_tok": 2}, None),
    "jamba-dense": ("Jamba", dict(TEXT, **{**JAMBA, "attn_layer_offset": 1, "attn_layer_period": 5}, num_experts=1, num_experts_per_tok=2, tie_word_embeddings=True), None),
    "granitemoeshared": ("GraniteMoeShared", dict(TEXT, attention_bias=True, tie_word_embeddings=True, num_local_experts=4, num_experts_per_tok=2, shared_intermediate_size=40), None),
    "lfm2": ("Lfm2", dict(TEXT, layer_types=["conv", "full_attention", "conv"], conv_L_cache=3, block_auto_adjust_ff_dim=False), None),
    "lfm2-adjusted": ("Lfm2", dict(TEXT, layer_types=["conv", "conv", "full_attention"], conv_L_cache=4, block_multiple_of=16,
                                   tie_word_embeddings=False), None),
    "lfm2_moe": ("Lfm2Moe", dict(TEXT, layer_types=["conv", "full_attention", "conv"], **EXPERTS, num_dense_layers=1), None),
    "nemotron_h": ("NemotronH", dict(HYBRID, layers_block_type=["mamba", "mlp", "attention", "mlp"]), None),
    "nemotron_h-moe": ("NemotronH", dict(HYBRID, layers_block_type=["mamba", "moe", "attention", "moe"], **ROUTED, n_shared_experts=1,
                                         moe_shared_expert_intermediate_size=24), None),
    "mamba": ("Mamba", dict(SMALL, state_size=6, conv_kernel=3), None),
    "falcon_mamba": ("FalconMamba", dict(SMALL, state_size=6, conv_kernel=3), None),
    "mamba2": ("Mamba2", dict(SMALL, num_heads=8, head_dim=8, state_size=6, n_groups=2, conv_kernel=3), None),
    "falcon_h1": ("FalconH1", dict(TEXT, **MAMBA, head_dim=16, mamba_d_ssm=64, mlp_multipliers=[0.5, 2.0], ssm_multipliers=[0.5, 2.0, 0.25, 4.0, 1.5], key_multiplier=0.75,
                                   attention_in_multiplier=1.5, attention_out_multiplier=0.5, ssm_in_multiplier=2.0, ssm_out_multiplier=0.25, embedding_multiplier=3.0,
                                   lm_head_multiplier=0.125), None),
    "falcon_h1-normed": ("FalconH1", dict(TEXT, **MAMBA, head_dim=8, mamba_d_ssm=64, mamba_rms_norm=True, mamba_norm_before_gate=False), None),
    # others
    "cohere": ("Cohere", dict(TEXT, logit_scale=0.25), None),
    "cohere2": ("Cohere2", dict(TEXT, sliding_window=16, head_dim=8, logit_scale=0.25), None),
    "cohere2_moe": ("Cohere2Moe", dict(TEXT, **COHERE, mlp_layer_types=["dense", "sparse", "sparse"], num_shared_experts=2, expert_selection_fn="sigmoid"), None),
    "cohere2_moe-softmax": ("Cohere2Moe", dict(TEXT, **COHERE, mlp_layer_types=["sparse"] * 3, rms_norm_eps=1e-5, tie_word_embeddings=False), None),
    "apertus": ("Apertus", dict(TEXT, head_dim=8, rope_parameters=LLAMA3), None),
    "apertus-plain": ("Apertus", dict(TEXT, head_dim=16, rope_parameters=dict(rope_type="default", rope_theta=12000.0)), None),
    "glm4v": ("Glm4v", dict(TEXT, num_attention_heads=2, rope_parameters=dict(rope_type="default", rope_theta=1e4, partial_rotary_factor=0.5, mrope_section=[2, 1, 1])), dict(VISION)),
    "glm_ocr": ("GlmOcr", dict(TEXT, head_dim=8, rope_parameters=dict(rope_type="default", rope_theta=1e4, partial_rotary_factor=1.0, mrope_section=[2, 1, 1])), dict(VISION)),
    "glm4v_moe": ("Glm4vMoe", dict(TEXT, head_dim=16, **ROUTED, n_shared_experts=1, first_k_dense_replace=1, rope_parameters=dict(
        rope_type="default", rope_theta=1e4, partial_rotary_factor=0.5, mrope_section=[2, 1, 1])), dict(VISION)),
    "exaone4": ("Exaone4", {**TEXT, "sliding_window": 16, "sliding_window_pattern": 4, "num_hidden_layers": 64}, None),
    "exaone4-full": ("Exaone4", dict(TEXT, sliding_window=None, layer_types=["full_attention"] * 3, rope_parameters=LLAMA3), None),
    "exaone4_5": ("Exaone4_5_", dict(TEXT, model_type="exaone4", sliding_window=None, layer_types=["full_attention"] * 3),
                  dict(VISION, depth=1, num_key_value_heads=2, fullatt_block_indexes=[0])),
    "olmo": ("Olmo", TEXT, None),
    "olmo-clip": ("Olmo", dict(TEXT, clip_qkv=8.0, tie_word_embeddings=True), None),
    "starcoder2": ("Starcoder2", TEXT, None),
    "gpt2": ("GPT2", dict(vocab_size=97, n_embd=32, n_layer=3, n_head=4, n_positions=64, n_ctx=64), None),
    "gpt_bigcode": ("GPTBigCode", dict(vocab_size=97, n_embd=32, n_layer=3, n_head=4, n_positions=64), None),
    "glm": ("Glm", dict(TEXT, head_dim=8, pad_token_id=0), None),
    "gpt_neox": ("GPTNeoX", dict(TEXT, rotary_pct=0.5), None),
    "gpt_neox-serial": ("GPTNeoX", dict(TEXT, rotary_pct=0.25, use_parallel_residual=False, tie_word_embeddings=True), None),
    "phi": ("Phi", dict(TEXT, num_key_value_heads=4, intermediate_size=128, partial_rotary_factor=0.5), None),
    "stablelm": ("StableLm", dict(TEXT, use_qkv_bias=True), None),
    "stablelm-tied": ("StableLm", dict(TEXT, tie_word_embeddings=True), None),
    "nemotron": ("Nemotron", TEXT, None),
    "falcon": ("Falcon", dict(SMALL, num_attention_heads=4, multi_query=True, new_decoder_architecture=False), None),
    "falcon-grouped": ("Falcon", dict(SMALL, num_attention_heads=4, num_kv_heads=2, new_decoder_architecture=True), None),
    "bloom": ("Bloom", dict(vocab_size=97, hidden_size=32, n_layer=3, n_head=4, seq_length=64), None),
    "modernbert": ("ModernBert", dict(TEXT, num_key_value_heads=4, global_attn_every_n_layers=3, local_attention=16, pad_token_id=0, bos_token_id=1,
                                      eos_token_id=2, cls_token_id=1, sep_token_id=2), None),
    "eurobert": ("EuroBert", dict(TEXT, head_dim=8, pad_token_id=0, bos_token_id=1, eos_token_id=2, mask_token_id=3), None),
    "nomic_bert": ("NomicBert", dict(vocab_size=97, hidden_size=32, num_hidden_layers=3, num_attention_heads=4, intermediate_size=48, head_dim=8), None),
    "t5": ("T5", dict(T5, num_decoder_layers=2, feed_forward_proj="gated-gelu", tie_word_embeddings=False), None),
    "t5-tied": ("T5", dict(T5, d_kv=16), None),
    "t5-encoder": ("T5", T5, None),
    "umt5": ("UMT5", T5, None),
    "mt5": ("MT5", dict(T5, feed_forward_proj="gated-gelu"), None),
    "gemma3n": ("Gemma3n", {**TEXT, "num_hidden_layers": 22, "head_dim": 8, "vocab_size_per_layer_input": 90, "num_kv_shared_layers": 2, "sliding_window": 16,
                            "activation_sparsity_pattern": [0.95] * 10 + [0.0] * 12,
                            "layer_types": [["sliding_attention", "full_attention"][i % 5 == 4] for i in range(22)]}, None),
    **{"gemma4" + name: ("Gemma4", {**TEXT, "num_hidden_layers": 6, "head_dim": 8, "global_head_dim": 16, "sliding_window": 16, "hidden_size_per_layer_input": 0,
                                   "num_kv_shared_layers": 0, **more}, None) for name, more in {
        "": dict(hidden_size_per_layer_input=8, vocab_size_per_layer_input=97), "-values": dict(attention_k_eq_v=True, num_global_key_value_heads=1),
        "-shared": dict(hidden_size_per_layer_input=8, vocab_size_per_layer_input=97, num_hidden_layers=12, num_kv_shared_layers=6, use_double_wide_mlp=True),
        "-moe": dict(enable_moe_block=True, num_experts=4, top_k_experts=2, moe_intermediate_size=24)}.items()},
    "jais2": ("Jais2", dict(TEXT, num_key_value_heads=4), None),
    "distilbert": ("DistilBert", dict(vocab_size=97, dim=32, n_layers=3, n_heads=4, hidden_dim=48, max_position_embeddings=64), None),
    "smollm3": ("SmolLM3", {**TEXT, "num_hidden_layers": 4, "pad_token_id": 0}, None),
    "seed_oss": ("SeedOss", dict(TEXT, head_dim=16), None),
    "phi3": ("Phi3", dict(TEXT, pad_token_id=0), None),
    "hunyuan-alpha": ("HunYuanDenseV1", dict(TEXT, head_dim=8, max_position_embeddings=32768, rope_parameters=dict(
        rope_type="dynamic", rope_theta=10000.0, alpha=1000.0, factor=1.0)), None),
}
# Vision towers: class, keys of the part for text, of the vision tower, of the whole
SMALL_VISION = dict(hidden_size=16, image_size=28, patch_size=7, num_hidden_layers=3, num_attention_heads=2, intermediate_size=24)
TOWERS = {
    "vision-qwen2_vl": ("Qwen2VL", dict(TEXT, **rope(1e6, 1, 1, 2)), dict(depth=3, embed_dim=16, num_heads=2, hidden_size=32, mlp_ratio=2), {}),
    "vision-qwen2_5_vl": ("Qwen2_5_VL", dict(TEXT, **rope(1e6, 1, 1, 2)), {**VISION, "depth": 4, "intermediate_size": 24, "fullatt_block_indexes": [1, 3]}, {}),
    "vision-qwen3_vl": ("Qwen3VL", dict(TEXT, head_dim=16, **rope(5e6, 3, 3, 2)),
                      {**VISION, "depth": 3, "intermediate_size": 24, "deepstack_visual_indexes": [0, 2], "num_position_embeddings": 16}, {}),
    "vision-gemma3": ("Gemma3", dict(TEXT, head_dim=8), SMALL_VISION, dict(mm_tokens_per_image=4)),
    "vision-mistral3": ("Mistral3", dict(TEXT, head_dim=8, model_type="mistral"), dict(SMALL_VISION, head_dim=8, hidden_act="silu", model_type="pixtral"), {}),
    "vision-llava": ("Llava", dict(TEXT, head_dim=8, model_type="mistral"), dict(SMALL_VISION, head_dim=8, model_type="pixtral"), dict(vision_feature_layer=-1)),
    "vision-llama4": ("Llama4", dict(TEXT, head_dim=8, num_local_experts=2, num_experts_per_tok=1, intermediate_size_mlp=56),
                    dict(SMALL_VISION, intermediate_size=64, vision_output_dim=20, projector_input_dim=20, projector_output_dim=20), {}),
    "vision-internvl": ("InternVL", dict(TEXT, model_type="qwen2"), dict(SMALL_VISION, num_hidden_layers=4, attention_bias=True), {}),
    "vision-internvl_chat": ("InternVL", dict(TEXT, model_type="qwen2"), dict(SMALL_VISION, num_hidden_layers=4, attention_bias=True), {}),
    "vision-lfm2_vl": ("Lfm2Vl", dict(TEXT, model_type="lfm2", layer_types=["conv", "full_attention", "conv"]),
                       dict(hidden_size=16, num_patches=256, patch_size=16, num_hidden_layers=3, num_attention_heads=2, intermediate_size=24, model_type="siglip2_vision_model",
                            vision_use_head=False), dict(projector_hidden_size=40, downsample_factor=2)),
    **{"vision-gemma4" + end: ("Gemma4", dict(TEXT, head_dim=8, global_head_dim=16, sliding_window=16, hidden_size_per_layer_input=0, num_kv_shared_layers=0), dict(
        hidden_size=16, num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=2, head_dim=8, intermediate_size=24, patch_size=4, position_embedding_size=12,
        pooling_kernel_size=3, standardize=clips, use_clipped_linears=clips), dict(audio_config=None)) for end, clips in (("", False), ("-clipped", True))},
    "vision-smolvlm": ("SmolVLM", dict(TEXT, model_type="llama"), SMALL_VISION, {}),
    "vision-idefics3": ("Idefics3", dict(TEXT, model_type="llama"), SMALL_VISION, dict(scale_factor=4)),
}
# What the converter wants to read in config.json, and transformers does not write; what it must not read there
EDIT = {"nemotron_h": dict(hybrid_override_pattern="M-*-"), "gpt_neox": dict(rotary_pct=0.5), "gpt_neox-serial": dict(rotary_pct=0.25), "cohere2": dict(rotary_pct=1.0), "falcon": dict(num_kv_heads=1),
        "granitemoehybrid": dict(layer_types=["mamba", "attention", "mamba"]), "granitemoehybrid-attention": dict(layer_types=["attention"] * 3),
        "granitemoehybrid-dense": dict(layer_types=["mamba", "attention", "mamba"]),
        "nomic_bert": dict(n_positions=8192, max_trained_positions=2048, activation_function="swiglu", causal=False, qkv_proj_bias=False, mlp_fc1_bias=False,
                           mlp_fc2_bias=False, prenorm=False, rotary_emb_fraction=1.0, rotary_emb_interleaved=False, rotary_emb_scale_base=None)}
DROP = {"nemotron_h": ("expert", "moe"), "eurobert": ("classifier_pooling",)}
# What differs and why: names of keys behind the architecture, of theirs alone and of ours alone.
THEIRS = {"general.size_label", "general.sampling.", "general.finetune", "general.basename", "general.repo_url",
          ".rope.scaling.type", ".rope.scaling.factor", ".rope.scaling.original_context_length",  # hunyuan: what its theta says already
          "modern-bert.attention.head_count_kv", "modern-bert.attention.layer_norm_rms_epsilon", "modern-bert.classifier.pooling_type", "nomic-bert.attention.key_length", "nomic-bert.attention.value_length", "eurobert.attention.key_length", "eurobert.attention.value_length",
          "general.version", "exaone-moe.nextn_predict_layers", "glm4moe.nextn_predict_layers",  # heads that predict more tokens are left out
          # of a Granite without such layers, or without experts
          "granitehybrid.expert_", "nemotron_h.expert_", "granite.expert_", "granite.ssm.", "granite.rope.scaling.finetuned"}
OURS = {"clip.use_gelu",  # of gemma4: the converter leaves it out, and clip.cpp takes another GELU then
        "gemma4.final_logit_softcapping", "cohere2moe.expert_shared_count", "cohere2moe.expert_shared_feed_forward_length",  # 0: none
        "mistral4.attention.temperature_scale", "mistral4.attention.temperature_length",  # which the converter leaves out
        "general.file_type", ".vocab_size", ".rope.dimension_count", ".rope.freq_base", ".attention.key_length", ".attention.value_length",
        "modern-bert.attention.layer_norm_epsilon", "vcompress.config", ".expert_gating_func", ".expert_weights_norm", ".expert_weights_scale", ".leading_dense_block_count", ".attention.sliding_window_pattern"}
OTHER = {"gemma3n.feed_forward_length",  # the converter has a list of equal numbers
         "gemma3n.activation_sparsity_scale",  # 1.64485335 in llama.cpp's code, one unit more from torch of today
         "chatglm.context_length", "chatglm.attention.layer_norm_rms_epsilon", "glm4moe.rope.dimension_count",  # of glm and solar_open: the converter goes by other keys
         "cohere2moe.expert_gating_func",  # 3: of the chosen experts, also where "norm_topk_prob" is false
         "granitehybrid.rope.dimension_count",  # of bamba: half of a head is rotated
         "jamba.expert_used_count",  # more than the only one, which llama.cpp does not load
         "general.name", "general.quantization_version", "hunyuan-dense.context_length",  # alpha: the converter says 262144
         "modern-bert.attention.sliding_window_pattern",  # the converter has the period, which says less
         "glm4moe.block_count",  # that of the layers that are there
         "clip.vision.feed_forward_length",  # of Qwen2-VL: the converter writes the text's hidden size
         "ernie4_5-moe.expert_shared_feed_forward_length"}  # the converter divides another size by the key heads


def close(a, b):
    """f32 of the last bits: exp and log of the two programs, and 1 added and taken away"""
    return np.allclose(np.frombuffer(a, "<f4"), np.frombuffer(b, "<f4"), rtol=4e-7, atol=2e-7)


def read(path):
    r = gguf.GGUFReader(path)
    tensors = {t.name: ([int(n) for n in t.shape], t.tensor_type.name, np.ascontiguousarray(t.data).tobytes()) for t in r.tensors}
    pairs = {n: f.contents() for n, f in r.fields.items() if not n.startswith(("GGUF.", "tokenizer."))}
    return tensors, pairs, {n: [t.name for t in f.types] for n, f in r.fields.items()}


class Converter(Judge):
    def made(self, name):
        cls, text, vision = MODELS[name]
        if not hasattr(transformers, cls + "Config"):
            return None
        torch.manual_seed(sum(map(ord, name)))
        config = getattr(transformers, cls + "TextConfig" if cls in ("Llama4", "Gemma3n", "Gemma4") else cls + "Config")
        config = config(**text) if vision is None else config(text_config=text, vision_config=vision)
        ends = {"GPT2": "LMHeadModel", "ModernBert": "Model", "DistilBert": "Model", "NomicBert": "Model", "EuroBert": "Model", "T5": "ForConditionalGeneration",
                "UMT5": "ForConditionalGeneration", "MT5": "ForConditionalGeneration"}.get(cls, "ForCausalLM")
        ends = "EncoderModel" if name == "t5-encoder" else ends
        model = getattr(transformers, cls + (ends if vision is None else "ForConditionalGeneration"))(config)
        with torch.no_grad():
            for p in model.parameters():
                p.copy_(p + 0.2 * torch.randn_like(p) if p.ndim == 1 else 0.1 * torch.randn_like(p))
        model.float().save_pretrained(self.path(name))
        path = os.path.join(self.path(name), "config.json")
        with open(path) as f:
            said = {k: v for k, v in json.load(f).items() if not any(part in k for part in DROP.get(name, ()))}
        with open(path, "w") as f:
            json.dump({**said, **EDIT.get(name, {})}, f)
        with open(os.path.join(self.path(name), "tokenizer.json"), "w") as f:  # by which the converters of nomic_bert and gemma4 go
            json.dump({"model": {"type": "WordPiece", "vocab": {str(i): i for i in range(97)}}, "added_tokens": []}, f)
        return model

    def made_vision(self, name):
        cls, text, vision, whole = TOWERS[name]
        if not hasattr(transformers, cls + "Config"):
            return None
        torch.manual_seed(sum(map(ord, name)))
        model = getattr(transformers, cls + "ForConditionalGeneration")(getattr(transformers, cls + "Config")(text_config=text, vision_config=vision, **whole))
        with torch.no_grad():
            for p in model.parameters():
                p.copy_(p + 0.2 * torch.randn_like(p) if p.ndim == 1 else 0.1 * torch.randn_like(p))
        model.float().save_pretrained(self.path(name))
        if name in ("vision-gemma3", "vision-lfm2_vl"):  # as published files have it, and the converter wants it
            from safetensors.torch import load_file, save_file
            path = os.path.join(self.path(name), "model.safetensors")
            save_file({k.replace("vision_tower.", "vision_tower.vision_model."): v for k, v in load_file(path).items()}, path, {"format": "pt"})
        if name == "vision-internvl":  # the converter knows these names alone
            from safetensors.torch import load_file, save_file
            path = os.path.join(self.path(name), "model.safetensors")
            save_file({"model." + k: v for k, v in load_file(path).items()}, path, {"format": "pt"})
        if name == "vision-gemma4-clipped":  # buffers, of which a new model has infinities
            from safetensors.torch import load_file, save_file
            path = os.path.join(self.path(name), "model.safetensors")
            save_file({k: torch.full_like(v, 0.5 + i) if k.endswith(("put_max", "put_min")) else v for i, (k, v) in enumerate(load_file(path).items())}, path, {"format": "pt"})
        if name == "vision-internvl_chat":
            self.as_chat(self.path(name))
        for file, said in (("preprocessor_config", dict(image_mean=[0.5, 0.25, 0.5], image_std=[0.5, 0.5, 0.75], image_seq_length=4, size=dict(longest_edge=56))),
                           ("tokenizer", dict(added_tokens=[dict(content="[IMG_BREAK]", id=5)])), ("tokenizer_config", {})):
            with open(os.path.join(self.path(name), file + ".json"), "w") as f:
                json.dump(said, f)
        return model

    @staticmethod
    def as_chat(folder):
        """InternVL's first files: other names, and queries, keys and values in one matrix."""
        from safetensors.torch import load_file, save_file
        path, names, made = os.path.join(folder, "model.safetensors"), {
            "vision_tower.encoder.layer.": "vision_model.encoder.layers.", "vision_tower.": "vision_model.", "attention.projection_layer": "attn.proj",
            "layernorm_before": "norm1", "layernorm_after": "norm2", "lambda_1": "ls1", "lambda_2": "ls2", "cls_token": "class_embedding", "position_embeddings": "position_embedding",
            "patch_embeddings.projection": "patch_embedding", "multi_modal_projector.layer_norm": "mlp1.0", "multi_modal_projector.linear_1": "mlp1.1",
            "multi_modal_projector.linear_2": "mlp1.3"}, {}
        for key, tensor in load_file(path).items():
            for a, b in names.items():
                key = key.replace(a, b)
            made.setdefault(key.replace("attention.q_proj", "attn.qkv").replace("attention.k_proj", "attn.qkv").replace("attention.v_proj", "attn.qkv"), {})[key] = tensor
        made = {k: torch.cat([v[k.replace("attn.qkv", f"attention.{part}_proj")] for part in "qkv"]) if "attn.qkv" in k else v[k] for k, v in made.items()}
        save_file({k: v.contiguous() for k, v in made.items()}, path, {"format": "pt"})
        with open(os.path.join(folder, "config.json")) as f:
            said = json.load(f)
        said.update(model_type="internvl_chat", architectures=["InternVLChatModel"], llm_config=said.pop("text_config"), select_layer=-1, ps_version="v2", max_dynamic_patch=12, min_dynamic_patch=1)
        del said["vision_feature_layer"]
        said["vision_config"].update(model_type="intern_vit_6b", architectures=["InternVisionModel"], norm_type="layer_norm", image_size=28, patch_size=7)
        with open(os.path.join(folder, "config.json"), "w") as f:
            json.dump(said, f)

    def theirs(self, name):
        from pathlib import Path
        from conversion.base import ModelBase, ModelType
        folder = Path(self.path(name))
        with open(folder / "config.json") as f:
            architecture = json.load(f)["architectures"][0]
        architecture = "InternVisionModel" if "internvl" in name else architecture
        cls = get_model_class(architecture, mmproj=name in TOWERS) if name != "mistral4" else get_model_class("Ministral3ForCausalLM").Mistral4Model
        load = ModelBase.load_hparams
        drop = DROP.get(name, ())  # transformers 5 puts keys of experts into every such configuration, by which the converter goes
        ModelBase.load_hparams = staticmethod(
            lambda *a, **kw: {**{k: v for k, v in load(*a, **kw).items() if not any(part in k for part in drop)}, **EDIT.get(name, {})})
        cls = cls if name in TOWERS else type(cls.__name__, (cls,), {"set_vocab": lambda self: self.gguf_writer.add_tokenizer_model("no_vocab"), "model_arch": cls.model_arch,
                                          **({"no_mtp": True} if hasattr(cls, "opt_num_mtp_layers") else {})})
        out = folder / "theirs.gguf"
        try:
            with torch.inference_mode():
                made = cls(folder, gguf.LlamaFileType.ALL_F32, out)
                made.write()
        finally:
            ModelBase.load_hparams = staticmethod(load)
        return read(out)

    def ours(self, name):
        self.vc("convert", "-q", "-f", "--mmproj" if name in TOWERS else "--no-vocab", self.path(name), "-o", self.path(name + ".gguf"))
        return read(self.path(name + ".gguf"))

    def same(self, name, ours, theirs):
        more = {"output.weight"} if name in ("t5-tied", "umt5", "gpt_neox-serial", "stablelm-tied") else {f"blk.{i}.attn_{x}.weight" for i in (20, 21) for x in ("k", "v", "k_norm") if name == "gemma3n"}
        for t in [t for t in theirs[0] if name == "mistral4" and "gate_up" in t]:  # one tensor there; llama.cpp takes both forms
            (a, n, e), kind, data = theirs[0][t]
            for part, half in enumerate(("gate", "up")):
                theirs[0][t.replace("gate_up", half)] = ([a, n // 2, e], kind, np.frombuffer(data, "<f4").reshape(e, 2, -1)[:, part].tobytes())
            del theirs[0][t]
        self.assertEqual(sorted(set(ours[0]) - more), sorted(theirs[0]), name)  # without these llama.cpp computes otherwise, or loads nothing
        for t in theirs[0]:
            self.assertEqual(ours[0][t][:2], theirs[0][t][:2], (name, t))
            if t == "per_layer_token_embd.weight" and name == "gemma3n":  # rows behind the vocabulary: transformers takes the first, the converter 0
                k = 4 * 90 * 256 * 22
                self.assertEqual(ours[0][t][2], theirs[0][t][2][:k] + 7 * theirs[0][t][2][:4 * 256 * 22])
            elif name == "bamba" and t.startswith(("blk.1.attn_q", "blk.1.attn_k")):
                continue  # half of a head is rotated, and the converter orders rows as if all of it were
            elif t.endswith(("ssm_a", "rope_freqs.weight")) or name == "falcon_h1":  # of a product of two numbers the converter rounds both
                self.assertTrue(close(ours[0][t][2], theirs[0][t][2]), (name, t))
            else:
                self.assertEqual(ours[0][t][2], theirs[0][t][2], (name, t))
        architecture = theirs[1]["general.architecture"]
        self.assertEqual(ours[1]["general.architecture"], architecture)

        def known(key, names):
            return any(key == n or key == architecture + n or (n[-1] in "._" and key.startswith(n)) for n in names)

        for key in sorted(set(ours[1]) | set(theirs[1])):
            if key not in ours[1]:
                self.assertTrue(known(key, THEIRS), "%s: %s is missing" % (name, key))
            elif key not in theirs[1]:
                self.assertTrue(known(key, OURS), "%s: %s is ours alone" % (name, key))
            elif not known(key, OTHER):
                self.assertEqual(ours[2][key], theirs[2][key], (name, key))
                self.assertEqual(ours[1][key], theirs[1][key], (name, key))
        return not (set(ours[1]) ^ set(theirs[1]) - THEIRS)

    def back(self, name, model):
        """Folder, GGUF, folder: the same tensors; transformers makes a model of the last that has none missing."""
        from safetensors.numpy import load_file
        folder = self.path(name + ".back")
        self.vc("convert", "-q", "-f", "--no-vocab", self.path(name + ".gguf"), "-o", folder + "/")
        a, b = load_file(os.path.join(self.path(name), "model.safetensors")), load_file(os.path.join(folder, "model.safetensors"))
        a = {n.replace("language_model.", ""): t for n, t in a.items() if "visual" not in n}  # qwen3_vl becomes a qwen3, and so on
        if name == "qwen3_vl_moe":  # a matrix for each expert, as qwen3_moe has them
            a = {}
        self.assertEqual(sorted(a or b), sorted(b), name)
        for t in a:
            self.assertEqual(a[t].shape, b[t].shape, (name, t))
            if name == "falcon_h1":  # its numbers are in the matrices
                continue
            if t.endswith(("A_log", "norm.weight")):
                self.assertTrue(close(a[t].tobytes(), b[t].tobytes()), (name, t))
            else:
                self.assertEqual(a[t].tobytes(), b[t].tobytes(), (name, t))
        with open(os.path.join(folder, "config.json")) as f:
            cls = getattr(transformers, json.load(f)["architectures"][0])
        if name == "deepseek_v3-yarn":  # transformers 5.24 stops at its experts
            return
        made, info = cls.from_pretrained(folder, output_loading_info=True)
        self.assertFalse(info["missing_keys"] or info["unexpected_keys"] or info["mismatched_keys"], (name, info))
        ids = torch.arange(3, 43)[None] % 96
        more = dict(decoder_input_ids=ids[:, :9]) if hasattr(made, "decoder") else {}
        with torch.no_grad():
            answers = [m.eval()(input_ids=ids, **more)[0].float() for m in (model, made)]
        off = float((answers[0] - answers[1]).abs().max() / answers[0].std())
        self.assertLess(off, 1e-5, (name, "answers of the folder that came back"))

    def test_families(self):
        for name in CHOSEN or MODELS:
            if name in TOWERS:
                continue
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
                if name not in ("gpt_neox-serial", "stablelm-tied", "t5-tied", "umt5"):  # their heads come back as matrices of their own
                    self.back(name, model)
                print("%s: %d tensors equal; keys of theirs alone: %s; of ours alone: %s" % (
                    name, len(ours[0]), " ".join(sorted(set(theirs[1]) - set(ours[1]))) or "none",
                    " ".join(sorted(set(ours[1]) - set(theirs[1]))) or "none"))

    def test_vision(self):
        for name in CHOSEN or TOWERS:
            model = self.made_vision(name) if name in TOWERS else None
            if model is None:
                continue
            with self.subTest(name):
                ours, theirs = self.ours(name), self.theirs(name)
                if name == "vision-gemma3":  # f16 in the converter's file, whatever the source has
                    n, data = "mm.input_projection.weight", theirs[0]["mm.input_projection.weight"][2]
                    self.assertEqual(np.frombuffer(ours[0][n][2], "<f4").astype("<f2").tobytes(), data)
                    theirs[0][n] = ours[0][n]
                if "internvl" in name:  # clip.cpp has the vector of the whole picture last, and the converter its position first
                    n, table = "v.position_embd.weight", theirs[0]["v.position_embd.weight"]
                    theirs[0][n] = (*table[:2], table[2][4 * 16:] + table[2][:4 * 16])
                if name == "vision-llama4":  # the converter takes a norm before the MLP for one behind attention, as Gemma 4 has: clip.cpp computes otherwise then
                    theirs = ({n.replace("attn_post_norm", "ln2"): t for n, t in theirs[0].items()}, *theirs[1:])
                if name in ("vision-llava", "vision-mistral3"):  # clip.cpp loads no file without it; the converter leaves out what is of the text
                    _, _, data = ours[0].pop("v.token_embd.img_break")
                    self.assertEqual(data, model.get_input_embeddings().weight[5].detach().numpy().tobytes())
                self.same(name, ours, theirs)
                print("%s: %d tensors equal" % (name, len(ours[0])))

    def test_turned(self):
        """Experts of Qwen3-VL as its first files have them, [experts, hidden, 2 * size]: the converter knows these alone, and both forms
        become the same model here."""
        from safetensors.torch import load_file, save_file
        model = self.made("qwen3_vl_moe")
        if model is None:
            return
        plain = self.ours("qwen3_vl_moe")
        self.back("qwen3_vl_moe", model)
        path = os.path.join(self.path("qwen3_vl_moe"), "model.safetensors")
        tensors = {k: v.transpose(1, 2).contiguous() if ".experts." in k else v for k, v in load_file(path).items()}
        save_file(tensors, path, {"format": "pt"})
        turned = self.ours("qwen3_vl_moe")
        self.assertEqual(plain[0], turned[0])
        self.same("qwen3_vl_moe", turned, self.theirs("qwen3_vl_moe"))


if __name__ == "__main__":
    main()
