"""kinds.py - small random models of many kinds: does the loader run what vcompress wrote, and how far are its outputs off?

    kinds.py                     what ./check runs: a few kinds, the layouts that are there
    kinds.py --all               every kind that this transformers has
    kinds.py --all --table       the same, as the table of docs/formats.md
    kinds.py t5 whisper          these kinds

VCOMPRESS_PROGRAM names the program. For each kind a model with random weights is saved, made int8 in each layout, loaded
with from_pretrained, and run; the error is |outputs - outputs of the original| / |outputs of the original|. What the
report says has to be passed to the loader (`needs`) is passed. It fails when a model is neither loaded with an error
below MOST, and near to that of the same codes, decoded by vcompress, nor refused, or when the layout auto is not one of those that load. It counts as no failure where the loader
cannot run its own files of that kind on this machine.

Kinds that the installed transformers lacks, or cannot run itself, are left out. Exit status 77: there is no transformers.
"""
import argparse
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
import warnings

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TQDM_DISABLE", "1")
warnings.filterwarnings("ignore")
for module in ("torch", "transformers"):
    if importlib.util.find_spec(module) is None:
        print("SKIPPED: %s cannot be imported by %s" % (module, sys.executable))
        sys.exit(77)

import torch  # noqa: E402

for name in ("float8_e4m3fn", "float8_e5m2"):  # an old torch lacks what compressed-tensors mentions, and needs it nowhere
    if not hasattr(torch, name):
        setattr(torch, name, torch.float64)
import transformers  # noqa: E402

PROGRAM = os.environ.get("VCOMPRESS_PROGRAM", "vcompress")
NEW = int(transformers.__version__.split(".")[0]) >= 5
MOST = 0.10  # relative error of outputs; random weights: those of trained models are smaller
NEAR = 5     # times the error of decoded weights; bitsandbytes makes the values between layers int8, too
LAYOUTS = ("compressed-tensors", "bitsandbytes")
SOME = ("llama", "qwen3-tied", "opt", "gpt2", "t5", "bart", "whisper", "bert-mlm", "roberta-mlm", "distilbert-cls", "mixtral",
        "mamba", "vit", "swin", "dinov2", "siglip", "llava", "wav2vec2", "falcon", "ctrl", "prophetnet")

# ---- the kinds ------------------------------------------------------------------------------------------------------
H = 128
TEXT = dict(vocab_size=512, hidden_size=H, intermediate_size=256, num_hidden_layers=2, num_attention_heads=4)
GROUPED = dict(TEXT, num_key_value_heads=2)
OLD = dict(vocab_size=512, n_embd=H, n_layer=2, n_head=4, n_positions=64)
VISION = dict(hidden_size=H, intermediate_size=256, num_hidden_layers=2, num_attention_heads=4, image_size=64, patch_size=8)
PAIR = dict(vocab_size=512, d_model=H, encoder_layers=1, decoder_layers=1, encoder_attention_heads=4,
            decoder_attention_heads=4, encoder_ffn_dim=256, decoder_ffn_dim=256, pad_token_id=0, bos_token_id=1, eos_token_id=2,
            decoder_start_token_id=1)
T5 = dict(vocab_size=512, d_model=H, d_ff=256, d_kv=32, num_layers=1, num_heads=4, decoder_start_token_id=0)
WAVE = dict(vocab_size=64, hidden_size=H, intermediate_size=256, num_hidden_layers=2, num_attention_heads=4, conv_dim=(64, 64),
            conv_stride=(5, 2), conv_kernel=(10, 3), num_feat_extract_layers=2, num_conv_pos_embeddings=16,
            num_conv_pos_embedding_groups=4)
MASKED = dict(TEXT, max_position_embeddings=64)
EXPERTS = dict(GROUPED, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=128)
LATENT = dict(TEXT, num_key_value_heads=4, n_routed_experts=8, num_experts_per_tok=2, n_group=2, topk_group=1,
              moe_intermediate_size=64, q_lora_rank=64, kv_lora_rank=64, qk_rope_head_dim=16, qk_nope_head_dim=16, v_head_dim=32,
              first_k_dense_replace=1)
SWIN = dict(image_size=64, patch_size=4, embed_dim=48, depths=[1, 1], num_heads=[3, 6], window_size=4, num_labels=8)
STAGES = dict(hidden_sizes=[32, 64, 96, 128], depths=[1, 1, 1, 1], num_labels=8)
LLAMA = dict(model_type="llama", **GROUPED)
TOWER = dict(VISION, model_type="siglip_vision_model")

IDS = torch.arange(10, 26)[None]
IMAGE = torch.linspace(-1, 1, 3 * 64 * 64).reshape(1, 3, 64, 64)
WORDS = dict(input_ids=IDS)
BOTH = dict(input_ids=IDS, decoder_input_ids=IDS)
SEEN = dict(pixel_values=IMAGE)
HEARD = dict(input_values=torch.linspace(-1, 1, 2000)[None])
SPOKEN = dict(input_features=torch.linspace(-1, 1, 8000).reshape(1, 80, 100), decoder_input_ids=IDS)


def pictured(n):
    """A picture of n tokens, and words."""
    return dict(pixel_values=IMAGE, input_ids=torch.cat([torch.full((1, n), 5), IDS], 1))


def masked(name, **more):
    return (name, name.replace("For", "").replace("MaskedLM", "").replace("SequenceClassification", "") + "Config",
            dict(MASKED, **more), WORDS)


# kind: class, class of its configuration, configuration, inputs
KINDS = {
    "llama": ("LlamaForCausalLM", "LlamaConfig", GROUPED, WORDS),
    "mistral": ("MistralForCausalLM", "MistralConfig", GROUPED, WORDS),
    "qwen2-tied": ("Qwen2ForCausalLM", "Qwen2Config", dict(GROUPED, tie_word_embeddings=True), WORDS),
    "qwen3-tied": ("Qwen3ForCausalLM", "Qwen3Config", dict(GROUPED, tie_word_embeddings=True, head_dim=32), WORDS),
    "phi": ("PhiForCausalLM", "PhiConfig", TEXT, WORDS),
    "phi3": ("Phi3ForCausalLM", "Phi3Config", dict(GROUPED, pad_token_id=0), WORDS),
    "gemma2": ("Gemma2ForCausalLM", "Gemma2Config", dict(GROUPED, head_dim=32), WORDS),
    "gemma3": ("Gemma3ForCausalLM", "Gemma3TextConfig", dict(GROUPED, head_dim=32), WORDS),
    "opt": ("OPTForCausalLM", "OPTConfig", dict(vocab_size=512, hidden_size=H, ffn_dim=256, num_hidden_layers=2,
            num_attention_heads=4, word_embed_proj_dim=64, max_position_embeddings=64), WORDS),
    "gpt2": ("GPT2LMHeadModel", "GPT2Config", OLD, WORDS),
    "gpt-bigcode": ("GPTBigCodeForCausalLM", "GPTBigCodeConfig", OLD, WORDS),
    "gpt-neo": ("GPTNeoForCausalLM", "GPTNeoConfig", dict(vocab_size=512, hidden_size=H, num_layers=2, num_heads=4,
                attention_types=[[["global", "local"], 1]], max_position_embeddings=64), WORDS),
    "gpt-neox": ("GPTNeoXForCausalLM", "GPTNeoXConfig", TEXT, WORDS),
    "gpt-j": ("GPTJForCausalLM", "GPTJConfig", dict(OLD, rotary_dim=16), WORDS),
    "codegen": ("CodeGenForCausalLM", "CodeGenConfig", dict(OLD, rotary_dim=16), WORDS),
    "bloom": ("BloomForCausalLM", "BloomConfig", dict(vocab_size=512, hidden_size=H, n_layer=2, n_head=4), WORDS),
    "mpt": ("MptForCausalLM", "MptConfig", dict(vocab_size=512, d_model=H, n_layers=2, n_heads=4, max_seq_len=64), WORDS),
    "falcon": ("FalconForCausalLM", "FalconConfig", dict(vocab_size=512, hidden_size=H, num_hidden_layers=2,
               num_attention_heads=4), WORDS),
    "stablelm": ("StableLmForCausalLM", "StableLmConfig", GROUPED, WORDS),
    "starcoder2": ("Starcoder2ForCausalLM", "Starcoder2Config", GROUPED, WORDS),
    "cohere": ("CohereForCausalLM", "CohereConfig", GROUPED, WORDS),
    "olmo2": ("Olmo2ForCausalLM", "Olmo2Config", GROUPED, WORDS),
    "granite": ("GraniteForCausalLM", "GraniteConfig", GROUPED, WORDS),
    "glm4": ("Glm4ForCausalLM", "Glm4Config", dict(GROUPED, head_dim=32, pad_token_id=0), WORDS),
    "smollm3": ("SmolLM3ForCausalLM", "SmolLM3Config", dict(GROUPED, pad_token_id=0), WORDS),
    "nemotron": ("NemotronForCausalLM", "NemotronConfig", GROUPED, WORDS),
    "mixtral": ("MixtralForCausalLM", "MixtralConfig", dict(GROUPED, num_local_experts=4), WORDS),
    "qwen2-moe": ("Qwen2MoeForCausalLM", "Qwen2MoeConfig", dict(EXPERTS, shared_expert_intermediate_size=128), WORDS),
    "qwen3-moe": ("Qwen3MoeForCausalLM", "Qwen3MoeConfig", dict(EXPERTS, head_dim=32), WORDS),
    "qwen3-next": ("Qwen3NextForCausalLM", "Qwen3NextConfig", dict(EXPERTS, num_hidden_layers=4, head_dim=32,
                   shared_expert_intermediate_size=128, linear_num_value_heads=4, linear_num_key_heads=2,
                   linear_key_head_dim=32, linear_value_head_dim=32), WORDS),
    "olmoe": ("OlmoeForCausalLM", "OlmoeConfig", dict(GROUPED, num_experts=4, num_experts_per_tok=2), WORDS),
    "phi-moe": ("PhimoeForCausalLM", "PhimoeConfig", dict(GROUPED, num_local_experts=4), WORDS),
    "granite-moe": ("GraniteMoeForCausalLM", "GraniteMoeConfig", dict(GROUPED, num_local_experts=4, num_experts_per_tok=2),
                    WORDS),
    "gpt-oss": ("GptOssForCausalLM", "GptOssConfig", dict(GROUPED, head_dim=32, num_local_experts=4, num_experts_per_tok=2,
                layer_types=["sliding_attention", "full_attention"]), WORDS),
    "llama4": ("Llama4ForCausalLM", "Llama4TextConfig", dict(GROUPED, head_dim=32, intermediate_size_mlp=256,
               num_local_experts=4, pad_token_id=0, moe_layers=[1]), WORDS),
    "deepseek-v2": ("DeepseekV2ForCausalLM", "DeepseekV2Config", dict(LATENT, head_dim=16), WORDS),
    "deepseek-v3": ("DeepseekV3ForCausalLM", "DeepseekV3Config", dict(LATENT, pad_token_id=0), WORDS),
    "mamba": ("MambaForCausalLM", "MambaConfig", dict(vocab_size=512, hidden_size=H, num_hidden_layers=2), WORDS),
    "mamba2": ("Mamba2ForCausalLM", "Mamba2Config", dict(vocab_size=512, hidden_size=H, num_hidden_layers=2, num_heads=8,
               head_dim=32, n_groups=1, state_size=16), WORDS),
    "falcon-mamba": ("FalconMambaForCausalLM", "FalconMambaConfig", dict(vocab_size=512, hidden_size=H, num_hidden_layers=2),
                     WORDS),
    "jamba": ("JambaForCausalLM", "JambaConfig", dict(GROUPED, num_hidden_layers=4, num_experts=2, attn_layer_period=2,
              attn_layer_offset=1, use_mamba_kernels=False, mamba_d_state=8, mamba_dt_rank=16), WORDS),
    "bamba": ("BambaForCausalLM", "BambaConfig", dict(GROUPED, mamba_n_heads=8, mamba_d_head=32, mamba_d_state=16,
              attn_layer_indices=[1]), WORDS),
    "rwkv": ("RwkvForCausalLM", "RwkvConfig", dict(vocab_size=512, hidden_size=H, num_hidden_layers=2, context_length=64),
             WORDS),
    "recurrent-gemma": ("RecurrentGemmaForCausalLM", "RecurrentGemmaConfig", dict(GROUPED, num_hidden_layers=3, lru_width=H,
                        attention_window_size=32), WORDS),
    "t5": ("T5ForConditionalGeneration", "T5Config", T5, BOTH),
    "t5-gated": ("T5ForConditionalGeneration", "T5Config", dict(T5, feed_forward_proj="gated-gelu", tie_word_embeddings=False),
                 BOTH),
    "t5-encoder": ("T5EncoderModel", "T5Config", T5, WORDS),
    "umt5": ("UMT5ForConditionalGeneration", "UMT5Config", T5, BOTH),
    "longt5": ("LongT5ForConditionalGeneration", "LongT5Config", T5, BOTH),
    "switch": ("SwitchTransformersForConditionalGeneration", "SwitchTransformersConfig", dict(T5, num_layers=2,
               num_decoder_layers=2, num_sparse_encoder_layers=1, num_sparse_decoder_layers=1, num_experts=4), BOTH),
    "bart": ("BartForConditionalGeneration", "BartConfig", dict(PAIR, max_position_embeddings=64), BOTH),
    "mbart": ("MBartForConditionalGeneration", "MBartConfig", dict(PAIR, max_position_embeddings=64), BOTH),
    "marian": ("MarianMTModel", "MarianConfig", dict(PAIR, max_position_embeddings=64), BOTH),
    "pegasus": ("PegasusForConditionalGeneration", "PegasusConfig", dict(PAIR, max_position_embeddings=64), BOTH),
    "m2m100": ("M2M100ForConditionalGeneration", "M2M100Config", dict(PAIR, max_position_embeddings=64), BOTH),
    "whisper": ("WhisperForConditionalGeneration", "WhisperConfig", dict(PAIR, max_source_positions=50,
                max_target_positions=32), SPOKEN),
    "bert": ("BertModel", "BertConfig", MASKED, WORDS),
    "bert-mlm": masked("BertForMaskedLM"),
    "bert-cls": masked("BertForSequenceClassification", num_labels=3),
    "roberta-mlm": masked("RobertaForMaskedLM"),
    "roberta-cls": masked("RobertaForSequenceClassification", num_labels=3),
    "xlm-roberta-mlm": masked("XLMRobertaForMaskedLM"),
    "electra-mlm": masked("ElectraForMaskedLM", embedding_size=H),
    "deberta-mlm": masked("DebertaForMaskedLM"),
    "deberta-v2-mlm": masked("DebertaV2ForMaskedLM"),
    "deberta-v2-cls": masked("DebertaV2ForSequenceClassification", num_labels=3),
    "mpnet-mlm": masked("MPNetForMaskedLM"),
    "albert-mlm": masked("AlbertForMaskedLM", embedding_size=64),
    "modernbert-mlm": masked("ModernBertForMaskedLM", pad_token_id=0, bos_token_id=1, eos_token_id=2, cls_token_id=1,
                             sep_token_id=2),
    "esm-mlm": masked("EsmForMaskedLM", pad_token_id=1, mask_token_id=3),
    "longformer-mlm": masked("LongformerForMaskedLM", attention_window=8),
    "ctrl": ("CTRLLMHeadModel", "CTRLConfig", dict(vocab_size=512, n_embd=H, dff=256, n_layer=2, n_head=4, n_positions=64),
             WORDS),
    "prophetnet": ("ProphetNetForCausalLM", "ProphetNetConfig", dict(vocab_size=512, hidden_size=H, encoder_ffn_dim=256,
                   decoder_ffn_dim=256, num_encoder_layers=2, num_decoder_layers=2, num_encoder_attention_heads=4,
                   num_decoder_attention_heads=4, max_position_embeddings=64), WORDS),
    "nanochat": ("NanoChatForCausalLM", "NanoChatConfig", GROUPED, WORDS),
    "fsmt": ("FSMTForConditionalGeneration", "FSMTConfig", dict(src_vocab_size=512, tgt_vocab_size=512, **PAIR), BOTH),
    "encoder-decoder": ("EncoderDecoderModel", "EncoderDecoderConfig", dict(
        encoder=dict(MASKED, model_type="bert"), decoder=dict(MASKED, model_type="bert", is_decoder=True,
                                                              add_cross_attention=True)), BOTH),
    "olmo-hybrid": ("OlmoHybridForCausalLM", "OlmoHybridConfig", dict(GROUPED, pad_token_id=0, linear_num_key_heads=4,
                    linear_num_value_heads=4, linear_key_head_dim=32, linear_value_head_dim=32,
                    layer_types=["linear_attention", "full_attention"]), WORDS),
    "ibert-mlm": masked("IBertForMaskedLM"),
    "bigbird-mlm": masked("BigBirdForMaskedLM", attention_type="original_full"),
    "nomic-bert": masked("NomicBertForMaskedLM"),
    "distilbert-mlm": ("DistilBertForMaskedLM", "DistilBertConfig", dict(vocab_size=512, dim=H, hidden_dim=256, n_layers=2,
                       n_heads=4, max_position_embeddings=64), WORDS),
    "distilbert-cls": ("DistilBertForSequenceClassification", "DistilBertConfig", dict(vocab_size=512, dim=H, hidden_dim=256,
                       n_layers=2, n_heads=4, max_position_embeddings=64, num_labels=3), WORDS),
    "xlm": ("XLMWithLMHeadModel", "XLMConfig", dict(vocab_size=512, emb_dim=H, n_layers=2, n_heads=4,
            max_position_embeddings=64), WORDS),
    "xlnet": ("XLNetLMHeadModel", "XLNetConfig", dict(vocab_size=512, d_model=H, n_layer=2, n_head=4, d_inner=256), WORDS),
    "vit": ("ViTForImageClassification", "ViTConfig", dict(VISION, num_labels=8), SEEN),
    "deit": ("DeiTForImageClassification", "DeiTConfig", dict(VISION, num_labels=8), SEEN),
    "beit": ("BeitForImageClassification", "BeitConfig", dict(VISION, num_labels=8), SEEN),
    "dinov2": ("Dinov2ForImageClassification", "Dinov2Config", dict(VISION, num_labels=8), SEEN),
    "dinov3": ("DINOv3ViTModel", "DINOv3ViTConfig", VISION, SEEN),
    "swin": ("SwinForImageClassification", "SwinConfig", SWIN, SEEN),
    "swinv2": ("Swinv2ForImageClassification", "Swinv2Config", SWIN, SEEN),
    "ijepa": ("IJepaForImageClassification", "IJepaConfig", dict(VISION, num_labels=8), SEEN),
    "pvt": ("PvtForImageClassification", "PvtConfig", dict(image_size=64, hidden_sizes=[32, 64, 96, 128], depths=[1, 1, 1, 1],
            num_attention_heads=[1, 2, 3, 4], num_labels=8), SEEN),
    "convnext": ("ConvNextForImageClassification", "ConvNextConfig", STAGES, SEEN),
    "segformer": ("SegformerForSemanticSegmentation", "SegformerConfig", dict(STAGES, num_attention_heads=[1, 2, 3, 4],
                  decoder_hidden_size=128), SEEN),
    "detr": ("DetrForObjectDetection", "DetrConfig", dict(d_model=H, encoder_layers=1, decoder_layers=1, encoder_ffn_dim=256,
             decoder_ffn_dim=256, encoder_attention_heads=4, decoder_attention_heads=4, use_timm_backbone=False,
             use_pretrained_backbone=False, backbone=None, num_queries=8, backbone_config=dict(model_type="resnet",
             embedding_size=16, hidden_sizes=[16, 16, 32, 32], depths=[1, 1, 1, 1], out_features=["stage4"])), SEEN),
    "clip": ("CLIPModel", "CLIPConfig", dict(text_config=dict(MASKED, eos_token_id=25), vision_config=VISION,
             projection_dim=H), dict(SEEN, input_ids=IDS)),
    "clip-vision": ("CLIPVisionModel", "CLIPVisionConfig", VISION, SEEN),
    "siglip": ("SiglipModel", "SiglipConfig", dict(text_config=MASKED, vision_config=VISION), dict(SEEN, input_ids=IDS)),
    "blip": ("BlipForConditionalGeneration", "BlipConfig", dict(text_config=dict(MASKED, encoder_hidden_size=H, bos_token_id=1,
             eos_token_id=2, pad_token_id=0, sep_token_id=3), vision_config=VISION), dict(SEEN, input_ids=IDS)),
    "llava": ("LlavaForConditionalGeneration", "LlavaConfig", dict(vision_config=dict(VISION, model_type="clip_vision_model"),
              text_config=LLAMA, image_token_index=5), pictured(64)),
    "paligemma": ("PaliGemmaForConditionalGeneration", "PaliGemmaConfig", dict(vision_config=dict(TOWER, projection_dim=H),
                  text_config=dict(GROUPED, model_type="gemma", head_dim=32), image_token_index=5, image_token_id=5,
                  projection_dim=H, hidden_size=H), pictured(64)),
    "gemma3-vision": ("Gemma3ForConditionalGeneration", "Gemma3Config", dict(vision_config=dict(TOWER, vision_use_head=False),
                      text_config=dict(GROUPED, model_type="gemma3_text", head_dim=32), image_token_index=5, image_token_id=5,
                      mm_tokens_per_image=16), pictured(16)),
    "qwen2-vl": ("Qwen2VLForConditionalGeneration", "Qwen2VLConfig", dict(text_config=dict(GROUPED, rope_scaling=dict(
                 type="mrope", mrope_section=[4, 6, 6])), vision_config=dict(depth=1, embed_dim=H, hidden_size=H, num_heads=4,
                 mlp_ratio=2, patch_size=8, spatial_merge_size=2), image_token_id=5, vocab_size=512), WORDS),
    "idefics3": ("Idefics3ForConditionalGeneration", "Idefics3Config", dict(vision_config=VISION, text_config=LLAMA,
                 scale_factor=2, image_token_id=5), WORDS),
    "wav2vec2": ("Wav2Vec2ForCTC", "Wav2Vec2Config", WAVE, HEARD),
    "hubert": ("HubertForCTC", "HubertConfig", WAVE, HEARD),
    "wavlm": ("WavLMForCTC", "WavLMConfig", WAVE, HEARD),
}


# ---- loading and running --------------------------------------------------------------------------------------------
def outputs(model, inputs):
    with torch.no_grad():
        out = model(**inputs)
    if getattr(out, "image_embeds", None) is not None and getattr(out, "text_embeds", None) is not None:
        return torch.cat([out.image_embeds, out.text_embeds]).float()  # their product is a single number
    for field in ("logits", "prediction_logits", "last_hidden_state"):
        if getattr(out, field, None) is not None:
            return getattr(out, field).float()
    return out[0].float()


def load(cls, folder, **more):
    torch.set_default_dtype(torch.float32)  # an older loader that failed has left another one
    more["dtype" if NEW else "torch_dtype"] = torch.float32
    return cls.from_pretrained(folder, **more).eval()


def short(error):
    lines = str(error).strip().split("\n")
    return "%s: %s" % (type(error).__name__, lines[0][:100])


def error_of(cls, folder, inputs, want, **more):
    """The relative error of the loaded model's outputs, or what the loader or the model said."""
    try:
        got = outputs(load(cls, folder, **more), inputs)
        return float((got - want).norm() / want.norm())
    except Exception as e:
        return short(e)


def is_right(error, best=None):
    """best: the error of the same codes, decoded; None where that is not known."""
    return isinstance(error, float) and error < MOST and (best is None or error < NEAR * best + 1e-3)


def decoded(cls, folder, inputs, want):
    """The error of outputs with the codes of that folder as floats; None where these cannot be loaded."""
    out = folder + ".floats"
    subprocess.run([PROGRAM, "dequantize", "-q", folder, "-o", out], check=True)
    error = error_of(cls, out, inputs, want)
    shutil.rmtree(out)
    return error if isinstance(error, float) else None


def passed(needs):
    """The keywords that the report's `needs` stands for. A transformers that does not know the class loads without."""
    if NEW and "dequantize=True" in needs:
        return dict(quantization_config=transformers.CompressedTensorsConfig(dequantize=True))
    return {}


def own_runs(cls, folder, inputs, want, layout):
    """Whether bitsandbytes runs what it makes of the original itself, loaded anew; an older transformers, the original
    itself where it is loaded as quantized models are: without first values."""
    if layout != "bitsandbytes":
        return NEW or is_right(error_of(cls, folder, inputs, want, low_cpu_mem_usage=True))
    try:
        settings = transformers.BitsAndBytesConfig(load_in_8bit=True)
        model = load(cls, folder, quantization_config=settings)
        outputs(model, inputs)
        model.save_pretrained(folder + ".own")
        return is_right(error_of(cls, folder + ".own", inputs, want))
    except Exception:
        return False
    finally:
        shutil.rmtree(folder + ".own", ignore_errors=True)


def bytes_of(folder):
    return sum(os.path.getsize(os.path.join(folder, f)) for f in os.listdir(folder) if f.endswith(".safetensors"))


def try_layout(cls, folder, inputs, want, layout):
    """(right, what happened, ratio): of one model in one layout."""
    out = folder + ".q"
    done = subprocess.run([PROGRAM, "quantize", "--int8", "--layout", layout, "--json", folder, "-o", out],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True)
    if done.returncode == 3:
        return True, "refused", 0, done.stderr.strip()
    if done.returncode != 0:
        return False, "status %d" % done.returncode, 0, done.stderr.strip()
    needs = (json.loads(done.stdout)["output"]["layout"] or {}).get("needs") or ""
    more = passed(needs)
    error = error_of(cls, out, inputs, want, **more)
    best = decoded(cls, out, inputs, want) if is_right(error) else None
    ratio = bytes_of(folder) / bytes_of(out)
    verified = subprocess.run([PROGRAM, "verify", "--strict", "-q", out], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              universal_newlines=True)
    shutil.rmtree(out)
    if verified.returncode != 0:
        return False, "verify", ratio, verified.stdout.strip()
    if is_right(error, best):
        return True, "%.4f%s" % (error, " with dequantize" if more else ""), ratio, ""
    if not NEW and needs:
        return True, "needs transformers 5", ratio, ""
    if not own_runs(cls, folder, inputs, want, layout):
        return True, "loader's own fails", ratio, ""
    return False, "%s" % error, ratio, ""


def check_auto(folder, rows):
    """What the layout auto makes of the folder has to be one that loads; it is refused where none does. A sentence, or
    None."""
    done = subprocess.run([PROGRAM, "quantize", "--int8", "--json", "--dry-run", folder, "-o", folder + ".q"],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True)
    if done.returncode == 3:
        return None if all(row[3] == "refused" for row in rows) else "auto refuses what a layout can: " + done.stderr.strip()
    if done.returncode != 0:
        return "auto: status %d, %s" % (done.returncode, done.stderr.strip())
    chosen = json.loads(done.stdout)["output"]["layout"]["name"]
    tried = [row for row in rows if row[1] == chosen]
    if chosen not in LAYOUTS or any(row[3] == "refused" for row in tried):
        return "auto makes the layout %s, which is not loaded" % chosen
    return None


def try_kind(kind, layouts, scratch):
    """[(kind, layout, right, what, ratio, sentence)]; empty: this transformers has no such model, or cannot run it."""
    cls, config, settings, inputs = KINDS[kind]
    folder = os.path.join(scratch, "m")
    if not hasattr(transformers, cls) or not hasattr(transformers, config):
        return []
    cls = getattr(transformers, cls)
    try:
        torch.manual_seed(0)
        torch.set_default_dtype(torch.float32)
        cls(getattr(transformers, config)(**settings)).save_pretrained(folder)
        want = outputs(load(cls, folder), inputs)
    except Exception as e:
        print("%-16s left out: %s" % (kind, short(e)), flush=True)
        return []
    rows = []
    for layout in layouts:
        rows.append((kind, layout) + try_layout(cls, folder, inputs, want, layout))
    wrong = check_auto(folder, rows)
    if wrong is not None:
        rows.append((kind, "auto", False, wrong, 0, ""))
    shutil.rmtree(folder)
    return rows


def versions():
    found = ["transformers " + transformers.__version__, "torch " + torch.__version__]
    for name in ("compressed_tensors", "bitsandbytes"):
        if importlib.util.find_spec(name):
            found.append("%s %s" % (name.replace("_", "-"), __import__(name).__version__))
    return ", ".join(found)


def print_table(rows, layouts):
    """The table of docs/formats.md."""
    by_kind = {}
    for kind, layout, _, what, ratio, _ in rows:
        by_kind.setdefault(kind, {})[layout] = what + (" (%.2f×)" % ratio if ratio and what[0].isdigit() else "")
    print("\n| model | %s |\n|---|%s" % (" | ".join("`%s`" % x for x in layouts), "---|" * len(layouts)))
    for kind, cells in by_kind.items():
        print("| %s (`%s`) | %s |" % (kind, KINDS[kind][0], " | ".join(cells.get(x, "") for x in layouts)))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--all", action="store_true", help="every kind")
    parser.add_argument("--table", action="store_true", help="print the table of docs/formats.md")
    parser.add_argument("kinds", nargs="*")
    options = parser.parse_args()
    packages = {"compressed-tensors": "compressed_tensors", "bitsandbytes": "bitsandbytes"}
    layouts = [x for x in LAYOUTS if importlib.util.find_spec(packages[x])]
    kinds = options.kinds or (KINDS if options.all else SOME)
    if not layouts:
        print("SKIPPED: neither compressed-tensors nor bitsandbytes can be imported by %s" % sys.executable)
        return 77
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    torch.set_num_threads(1)
    print("with " + versions())
    scratch = tempfile.mkdtemp(prefix="kinds-")
    rows = []
    try:
        for kind in kinds:
            for row in try_kind(kind, layouts, scratch):
                rows.append(row)
                print("%-16s %-19s %-5s %s%s" % (row[0], row[1], "ok" if row[2] else "WRONG", row[3],
                                                 "  %.2fx" % row[4] if row[4] else "") + ("  " + row[5] if row[5] else ""),
                      flush=True)
    finally:
        shutil.rmtree(scratch)
    if options.table:
        print_table(rows, layouts)
    wrong = sorted({row[0] for row in rows if not row[2]})
    print("%d of %d are right%s" % (sum(row[2] for row in rows), len(rows), ": not " + ", ".join(wrong) if wrong else ""))
    return 1 if wrong or not rows else 0


if __name__ == "__main__":
    sys.exit(main())
