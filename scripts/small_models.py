"""Small models of every type that transformers has: for scripts/loading.py, which asks them, and tests/judge/loads.py, which loads them."""
import torch
import transformers
from transformers.models.auto import modeling_auto as auto

import architectures

H = 128
SMALL = dict(vocab_size=512, hidden_size=H, intermediate_size=256, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, head_dim=32, d_model=H,
             encoder_layers=2, decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=256, decoder_ffn_dim=256, image_size=64,
             patch_size=8, max_position_embeddings=128, num_layers=2, num_heads=4, ffn_dim=256, num_experts=4, num_local_experts=4, n_routed_experts=4,
             num_experts_per_tok=2, moe_intermediate_size=128, dim=H, hidden_dim=256, pad_token_id=0, bos_token_id=1, eos_token_id=2, n_embd=H, n_layer=2,
             n_head=4, d_ff=256, d_kv=32, decoder_start_token_id=1, first_k_dense_replace=1, sliding_window=32, num_mel_bins=80, pred_hidden_size=H,
             pred_num_hidden_layers=2, pred_num_attention_heads=4, crop_size=64, num_frames=4, frames_per_clip=4, n_group=1, topk_group=1, q_lora_rank=64,
             kv_lora_rank=64, qk_rope_head_dim=16, qk_nope_head_dim=16, v_head_dim=32, depth=2, embed_dim=H, shared_expert_intermediate_size=128,
             vocab_size_per_layer_input=512, moe_num_experts=4, moe_k=2, mamba_n_heads=8, mamba_d_head=32, mamba_d_state=16, mamba_n_groups=1,
             linear_key_head_dim=32, linear_value_head_dim=32, linear_num_key_heads=2, linear_num_value_heads=4, global_head_dim=32, emb_dim=H, n_layers=2,
             n_heads=4, num_queries=8, projection_dim=H, image_token_id=5, image_token_index=5, audio_token_id=6, audio_token_index=6, video_token_id=7,
             video_token_index=7, text_hidden_size=H, max_source_positions=50, max_target_positions=64, moe_layer_start_index=0, unpadded_vocab_size=512)
TABLES = """CAUSAL_LM SEQ_TO_SEQ_CAUSAL_LM IMAGE_TEXT_TO_TEXT MULTIMODAL_LM SPEECH_SEQ_2_SEQ CTC MASKED_LM SEQUENCE_CLASSIFICATION IMAGE_CLASSIFICATION
    OBJECT_DETECTION UNIVERSAL_SEGMENTATION AUDIO_CLASSIFICATION PRETRAINING TEXT_TO_WAVEFORM ZERO_SHOT_OBJECT_DETECTION""".split()
MOST_WEIGHTS = 80_000_000


def lower(config, depth=0):
    """The same configuration, its sizes made small."""
    for key, value in SMALL.items():
        old = architectures.get(config, key)
        if type(old) is int and old >= 0:
            try:
                setattr(config, key, value)
            except Exception:
                pass
    for key in ("layer_types", "mlp_layer_types", "layers_block_type", "layer_block_types"):
        entries, n = architectures.get(config, key), architectures.get(config, "num_hidden_layers")
        if isinstance(entries, (list, tuple)) and isinstance(n, int) and len(entries) > n:
            kinds = list(dict.fromkeys(entries))
            try:
                config.num_hidden_layers = max(n, len(kinds))
                setattr(config, key, (kinds + list(entries))[:config.num_hidden_layers])
            except Exception:
                pass
    for value in list(vars(config).values()) if depth < 4 else []:
        if isinstance(value, transformers.PretrainedConfig):
            lower(value, depth + 1)
    return config


def configs(c):
    """Small configurations of a class, those that a config.json gives first."""
    layers = {k: 2 for k in ("num_hidden_layers", "num_layers", "encoder_layers", "decoder_layers") if isinstance(architectures.get(architectures.make(c), k), int)}
    for make in (lambda: type(lower(c())).from_dict(lower(c()).to_dict()), lambda: lower(c()), lambda: c(**layers)):
        try:
            yield make()
        except Exception:
            pass


def model_classes(kind):
    """The classes of models of a type, those of whole models first."""
    for name in ["MODEL_FOR_%s_MAPPING_NAMES" % t for t in TABLES] + ["MODEL_MAPPING_NAMES"]:
        entry = getattr(auto, name, {}).get(kind)
        for n in [entry] if isinstance(entry, str) else entry or []:
            if hasattr(transformers, n):
                yield getattr(transformers, n)


def on_meta(cls, config):
    """A model without values; None: it cannot be made, or is not small."""
    try:
        with torch.device("meta"):
            model = cls(config)
    except Exception:
        return None
    return model if sum(p.numel() for p in model.parameters()) <= MOST_WEIGHTS else None


def build(kind, c):
    """A model with random values, or None."""
    for config in configs(c):
        for cls in model_classes(kind):
            if on_meta(cls, config) is None:
                continue
            try:
                torch.manual_seed(0)
                return cls(config).eval()
            except Exception:
                pass
    return None
