#!/usr/bin/env python3
"""test_gguf_folder.py PROGRAM - a folder of Hugging Face becomes the GGUF model that llama.cpp runs.

The program converts a tiny folder of each family, and names, types, shapes, values and metadata of the file have to be what
gguf_folders.py says. Then the forms of config.json, the ways in which a folder is divided, each kind of vocabulary, and each refusal,
after which nothing may be written. Standard library only."""
import base64
import json
import math
import os
import re
import struct
import subprocess
import sys
import tempfile
import zipfile

import gguf_folders
from gguf_folders import (A, D, E, F, FAMILIES, Gguf, H, K, KINDS, N, PROGRAM, RANDOM, V, WRONG, YARN, check, convert, f32, folder,
                          gpt_oss, make, read, run, safetensors, values, write)


# Families with a graph, and what their configuration says otherwise here: llama.cpp has no window where these have one
GRAPHS = {"llama": {}, "mistral": {}, "mixtral": {}, "qwen2": {}, "qwen2_moe": {"qkv_bias": False}, "qwen3": {}, "qwen3_moe": {}, "gemma": {},
          "gemma2": {}, "gemma3_text": {}, "phi3": {"sliding_window": None}, "olmo2": {}, "bert": {}, "roberta": {}}


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


def named(name, config, rules, pairs, made=(), options=("--no-vocab",), **files):
    """A folder whose tensors are (name, name in the file, shape): the same values under other names. made: names that have no tensor here."""
    # one list of numbers, from another place for each tensor
    numbers = values((4096,))
    source = {a: (shape, [numbers[(31 * k + i) % 4096] for i in range(math.prod(shape))]) for k, (a, _, shape) in enumerate(rules)}
    folder(name, config, source, **files)
    file = (convert(name, *options) or [None])[0]
    if file is None:
        return None
    check(set(file.tensors) == {b for _, b, _ in rules} | set(made), f"{name}: tensors {sorted(set(file.tensors) ^ {b for _, b, _ in rules})}")
    for a, b, shape in rules:
        check(b not in file.tensors or file.tensors[b] == (shape, 0, source[a][1]) or b in made, f"{name}: {b} is not {a}")
    for key, value in pairs.items():
        check(file.pairs.get(key) == value, f"{name}: {key} is {file.pairs.get(key)}, not {value}")
    return file, source


def says(name, config, sentence, **change):
    """The folder with another configuration is refused."""
    write(f"{name}/config.json", json.dumps({**config, **change}))
    rc, _, err = run("convert", name, "-o", "no.gguf", "--no-vocab")
    check(rc == 3 and sentence in err, f"{name}: {change}: exit {rc}: {err.strip()}")


def t5_rules(stack, to, n, ff, gated):
    """The tensors of a stack of T5; names were taken from gguf's tensor map."""
    q, last = A * 6, f"layer.{ff}"
    layer = [("layer.0.layer_norm", "attn_norm", (H,)), (last + ".layer_norm", "ffn_norm", (H,)), (last + ".DenseReluDense.wo", "ffn_down", (H, F))]
    layer += [("layer.0.SelfAttention." + x, "attn_" + x, (H, q) if x == "o" else (q, H)) for x in "qkvo"]
    layer += [(f"{last}.DenseReluDense.{a}", "ffn_" + b, (F, H)) for a, b in ((("wi_0", "gate"), ("wi_1", "up")) if gated else (("wi", "up"),))]
    if stack == "decoder":
        layer += [("layer.1.layer_norm", "cross_attn_norm", (H,))]
        layer += [("layer.1.EncDecAttention." + x, "cross_attn_" + x, (H, q) if x == "o" else (q, H)) for x in "qkvo"]
    rules = [(f"{stack}.block.{i}.{a}.weight", f"{to}.blk.{i}.{b}.weight", shape) for i in range(n) for a, b, shape in layer]
    return rules + [(stack + ".final_layer_norm.weight", to + ".output_norm.weight", (H,)),
                    (stack + ".block.0.layer.0.SelfAttention.relative_attention_bias.weight", to + ".blk.0.attn_rel_b.weight", (8, A))]


def test_t5():
    """Two stacks of other depths; a head of its own, or the embedding times 1 / sqrt(d_model), which llama.cpp does not compute; an encoder."""
    for gated, tied in ((True, False), (False, True)):
        config = {"model_type": "t5", "architectures": ["T5ForConditionalGeneration"], "d_model": H, "d_kv": 6, "d_ff": F, "num_layers": 2,
                  "num_decoder_layers": 3, "num_heads": A, "vocab_size": V, "relative_attention_num_buckets": 8, "decoder_start_token_id": 0,
                  "feed_forward_proj": "gated-gelu" if gated else "relu", "layer_norm_epsilon": 1e-6, "tie_word_embeddings": tied}
        rules = [("shared.weight", "token_embd.weight", (V, H)), *t5_rules("encoder", "enc", 2, 1, gated), *t5_rules("decoder", "dec", 3, 2, gated)]
        file, source = named("t5", config, rules + ([] if tied else [("lm_head.weight", "output.weight", (V, H))]), {
            "general.architecture": "t5", "t5.block_count": 2, "t5.decoder_block_count": 3, "t5.context_length": 512, "t5.attention.key_length": 6,
            "t5.attention.relative_buckets_count": 8, "t5.decoder_start_token_id": 0, "t5.attention.layer_norm_rms_epsilon": f32(1e-6),
            "t5.attention.layer_norm_epsilon": f32(1e-6), "t5.rope.freq_base": None, "t5.attention.head_count_kv": None}, ["output.weight"])
        if tied:
            scale = f32(1 / math.sqrt(H))
            check(file.tensors["output.weight"][2] == [f32(x * scale) for x in source["shared.weight"][1]], "t5: the head is not scaled")
            folder("mt5", {**config, "model_type": "mt5"}, source)  # whose class does not scale
            check("output.weight" not in convert("mt5", "--no-vocab")[0].tensors, "mt5: the head is scaled")
            says("t5", config, "0 tensors of the folder are gates, expected 5", feed_forward_proj="gated-gelu")
            says("t5", config, "neither", feed_forward_proj="gelu")
            says("t5", config, "is not 128", relative_attention_max_distance=64)
            says("t5", config, "becomes 'dec.blk.3.attn_norm.weight'", num_decoder_layers=4)
            check("cannot be built" not in run("graph", "out.gguf")[2], "t5: a graph of a file")
        else:
            says("t5", config, "5 tensors of the folder are gates, expected 0", feed_forward_proj="relu")
    named("t5-encoder", {**config, "architectures": ["T5EncoderModel"]}, [("shared.weight", "token_embd.weight", (V, H)), *t5_rules("encoder", "enc", 2, 1, False)],
          {"general.architecture": "t5encoder", "t5encoder.block_count": 2, "t5encoder.decoder_block_count": None})


def test_gemma3n():
    """Copies of the states, a path beside attention, tables for each layer, shorter than that of words; layers that use the keys of others have
    none in transformers, and llama.cpp wants some that it does not read."""
    n, kinds = 22, [["sliding_attention", "full_attention"][i % 5 == 4] for i in range(22)]
    config = {"model_type": "gemma3n_text", "architectures": ["Gemma3nForCausalLM"], "hidden_size": H, "intermediate_size": [F] * n, "num_hidden_layers": n,
              "num_attention_heads": A, "num_key_value_heads": K, "head_dim": D, "vocab_size": V, "vocab_size_per_layer_input": V - 3, "sliding_window": 16,
              "num_kv_shared_layers": 2, "layer_types": kinds, "activation_sparsity_pattern": [0.95] * 10 + [0.0] * 12}
    layer = [(a, b, tuple(gguf_folders.size(c, D) for c in s)) for a, b, s in gguf_folders.FOUR + gguf_folders.NORMS] + [
        ("per_layer_input_gate", "inp_gate", (256, H)), ("per_layer_projection", "proj", (H, 256)), ("post_per_layer_input_norm", "post_norm", (H,)),
        ("altup.correction_coefs", "altup_correct_coef", (4, 4)), ("altup.prediction_coefs", "altup_predict_coef", (16, 4)),
        ("altup.modality_router", "altup_router", (4, H)), ("altup.router_norm", "altup_router_norm", (H,)), ("laurel.linear_left", "laurel_l", (64, H)),
        ("laurel.linear_right", "laurel_r", (H, 64)), ("laurel.post_laurel_norm", "laurel_post_norm", (H,))]
    rules = [(f"model.layers.{i}.{a}.weight", f"blk.{i}.{b}.weight", s) for i in range(n) for a, b, s in layer if i < 20 or b not in ("attn_k", "attn_v", "attn_k_norm")]
    rules += [(f"model.layers.{i}.altup.correct_output_scale", f"blk.{i}.altup_correct_scale.weight", (H,)) for i in range(n)]
    rules += [("model.embed_tokens.weight", "token_embd.weight", (V, H)), ("model.norm.weight", "output_norm.weight", (H,)),
              ("model.per_layer_model_projection.weight", "per_layer_model_proj.weight", (256 * n, H)),
              ("model.per_layer_projection_norm.weight", "per_layer_proj_norm.weight", (256,)),
              ("model.embed_tokens_per_layer.weight", "per_layer_token_embd.weight", (V - 3, 256 * n))]
    copies = [(f"model.altup_{a}projections.{i}.weight", f"altup_{b}proj.weight", (H, H)) for a, b in (("", ""), ("unembed_", "unembd_")) for i in range(3)]
    unread = [f"blk.{i}.{x}.weight" for i in (20, 21) for x in ("attn_k", "attn_v", "attn_k_norm")]
    file, source = named("gemma3n", config, rules + copies, {
        "general.architecture": "gemma3n", "gemma3n.altup.num_inputs": 4, "gemma3n.altup.active_idx": 0, "gemma3n.embedding_length_per_layer_input": 256,
        "gemma3n.attention.shared_kv_layers": 2, "gemma3n.activation_sparsity_scale": [1.6448533535003662] * 10 + [-math.inf] * 12, "gemma3n.feed_forward_length": F,
        "gemma3n.attention.sliding_window_pattern": [k[0] == "s" for k in kinds], "gemma3n.rope.freq_base": 1e6, "gemma3n.rope.freq_base_swa": 1e4},
        unread + ["altup_proj.weight", "altup_unembd_proj.weight", "per_layer_token_embd.weight"])
    rows = source["model.embed_tokens_per_layer.weight"][1]
    check(file.tensors["per_layer_token_embd.weight"] == ((V, 256 * n), 0, rows + rows[:256 * n] * 3), "gemma3n: the shorter table")
    for name in unread:
        check(file.tensors[name] == file.tensors["blk.19" + name[6:]], f"gemma3n: {name}")
    for to in ("", "unembed_"):
        parts = [x for i in range(3) for x in source[f"model.altup_{to}projections.{i}.weight"][1]]
        check(file.tensors[f"altup_{to.replace('unembed', 'unembd')}proj.weight"] == ((3, H, H), 0, parts), "gemma3n: the copies")
    for key, value in (("altup_num_inputs", 3), ("laurel_rank", 32), ("num_kv_shared_layers", 1), ("layer_types", kinds[1:] + kinds[:1]),
                       ("activation_sparsity_pattern", None), ("final_logit_softcapping", None), ("altup_correct_scale", False)):
        if value is not None or key == "final_logit_softcapping":
            says("gemma3n", config, f'"{"activation_sparsity_pattern" if key == "altup_correct_scale" else key}"', **{key: value})
    says("gemma3n", config, "activation_sparsity_pattern", activation_sparsity_pattern=[0.9] * 22)


def test_nomic():
    """The configuration of transformers, and that of the first program."""
    layer = [("attn.Wqkv", "attn_qkv", (3 * H, H)), ("attn.out_proj", "attn_output", (H, H)), ("mlp.fc11", "ffn_up", (F, H)), ("mlp.fc12", "ffn_gate", (F, H)),
             ("mlp.fc2", "ffn_down", (H, F)), ("norm1", "attn_output_norm", (H,)), ("norm2", "layer_output_norm", (H,))]
    rules = [(f"encoder.layers.{i}.{a}.{end}", f"blk.{i}.{b}.{end}", s) for i in range(N) for a, b, s in layer for end in ("weight", "bias") if end == "weight" or len(s) == 1]
    rules += [("embeddings.word_embeddings.weight", "token_embd.weight", (V, H)), ("embeddings.token_type_embeddings.weight", "token_types.weight", (2, H)),
              ("emb_ln.weight", "token_embd_norm.weight", (H,)), ("emb_ln.bias", "token_embd_norm.bias", (H,))]
    pairs = {"block_count": N, "feed_forward_length": F, "attention.head_count": A, "attention.layer_norm_epsilon": f32(1e-12), "rope.freq_base": 1000.0,
             "attention.causal": False, "context_length": 2048, "attention.head_count_kv": None}
    new = {"hidden_size": H, "num_hidden_layers": N, "num_attention_heads": A, "intermediate_size": F, "max_position_embeddings": 2048, "hidden_act": "silu",
           "head_dim": H // A, "layer_norm_eps": 1e-12, "rope_parameters": {"rope_type": "default", "rope_theta": 1000.0}}
    old = {"n_embd": H, "n_layer": N, "n_head": A, "n_inner": F, "n_positions": 8192, "max_trained_positions": 2048, "activation_function": "swiglu",
           "layer_norm_epsilon": 1e-12, "rotary_emb_base": 1000, "rotary_emb_fraction": 1.0, "prenorm": False, "qkv_proj_bias": False, "causal": False}
    for config in (new, old):
        config.update({"model_type": "nomic_bert", "architectures": ["NomicBertModel"], "vocab_size": V, "type_vocab_size": 2})
        named("nomic", config, rules, {"general.architecture": "nomic-bert", **{"nomic-bert." + k: v for k, v in pairs.items()}})
    for key, value in (("prenorm", True), ("moe_every_n_layers", 2), ("rotary_emb_fraction", 0.5), ("activation_function", "gelu")):
        says("nomic", old, "activation" if key[0] == "a" else f'"{key}"', **{key: value})


def test_vision():
    """The vision tower as a file of its own: Qwen's, whose matrices are cut, and Pixtral's, whose rows move."""
    colours = {"preprocessor_config__json": {"image_mean": [0.5, 0.25, 0.75], "image_std": [0.5, 0.5, 0.25]}}
    seen = {"image_mean": [0.5, 0.25, 0.75], "image_std": [0.5, 0.5, 0.25], "projection_dim": 6, "patch_size": 2, "embedding_length": 8,
            "feed_forward_length": 12, "block_count": 1, "attention.head_count": 2, "attention.layer_norm_epsilon": f32(1e-6)}

    def keys(projector, image, **more):
        return {"general.architecture": "clip", "general.type": "mmproj", "clip.has_vision_encoder": True, "clip.projector_type": projector,
                **{f"clip.vision.{k}": v for k, v in {**seen, "image_size": image, **more}.items()}}
    # two layers' norms and biases are in each list: (name, name in the file, shape)
    block = [("attn.proj", "attn_out", (8, 8)), ("mlp.gate_proj", "ffn_gate", (12, 8)), ("mlp.up_proj", "ffn_up", (12, 8)), ("mlp.down_proj", "ffn_down", (8, 12))]
    rules = [(f"visual.blocks.0.{a}.{end}", f"v.blk.0.{b}.{end}", s if end == "weight" else s[:1]) for a, b, s in block for end in ("weight", "bias")]
    rules += [(f"visual.blocks.0.norm{i}.weight", f"v.blk.0.ln{i}.weight", (8,)) for i in (1, 2)]
    rules += [(f"visual.merger.{a}", b, s) for a, b, s in (("ln_q.weight", "v.post_ln.weight", (8,)), ("mlp.0.weight", "mm.0.weight", (32, 32)),
                                                           ("mlp.0.bias", "mm.0.bias", (32,)), ("mlp.2.weight", "mm.2.weight", (6, 32)), ("mlp.2.bias", "mm.2.bias", (6,)))]
    cut = [("visual.patch_embed.proj.weight", "v.patch_embd.weight", (8, 3, 2, 2, 2)), ("visual.blocks.0.attn.qkv.weight", "v.blk.0.attn_q.weight", (24, 8)),
           ("visual.blocks.0.attn.qkv.bias", "v.blk.0.attn_q.bias", (24,)), ("model.norm.weight", "v.blk.0.attn_v.bias", (6,))]
    made = ["v.patch_embd.weight.1"] + [f"v.blk.0.attn_{x}.{end}" for x in "kv" for end in ("weight", "bias")]
    qwen = {"model_type": "qwen2_5_vl", "hidden_size": 6, "vision_config": {"depth": 1, "hidden_size": 8, "num_heads": 2, "intermediate_size": 12, "patch_size": 2,
                                                                           "hidden_act": "silu", "window_size": 112, "fullatt_block_indexes": [0]}}
    found = named("vision", qwen, rules + cut, keys("qwen2.5vl_merger", 560, n_wa_pattern=1), made + [b for _, b, _ in cut], ("--mmproj",), **colours)
    if found:
        tensors, patches = found[0].tensors, found[1]["visual.patch_embed.proj.weight"][1]
        for i, name in enumerate(("v.patch_embd.weight", "v.patch_embd.weight.1")):
            check(tensors[name] == ((8, 3, 2, 2), 0, [patches[8 * r + 4 * i + k] for r in range(24) for k in range(4)]), f"vision: {name}")
        for i, letter in enumerate("qkv"):
            x = found[1]["visual.blocks.0.attn.qkv.weight"][1][64 * i:64 * i + 64], found[1]["visual.blocks.0.attn.qkv.bias"][1][8 * i:8 * i + 8]
            check((tensors[f"v.blk.0.attn_{letter}.weight"][2], tensors[f"v.blk.0.attn_{letter}.bias"][2]) == x, f"vision: {letter}")
        check(found[0].pairs.get("clip.use_silu") is True and not any(k.startswith("tokenizer") for k in found[0].pairs), "vision: activation, or a vocabulary")
    at = "vision_tower.transformer.layers.0."
    rules = [(at + a, "v.blk.0." + b, s) for a, b, s in (
        ("attention.q_proj.weight", "attn_q.weight", (8, 8)), ("attention.k_proj.weight", "attn_k.weight", (8, 8)), ("attention.v_proj.weight", "attn_v.weight", (8, 8)),
        ("attention.o_proj.weight", "attn_out.weight", (8, 8)), ("attention_norm.weight", "ln1.weight", (8,)), ("ffn_norm.weight", "ln2.weight", (8,)),
        ("feed_forward.gate_proj.weight", "ffn_gate.weight", (12, 8)), ("feed_forward.up_proj.weight", "ffn_up.weight", (12, 8)), ("feed_forward.down_proj.weight", "ffn_down.weight", (8, 12)))]
    rules += [("vision_tower.patch_conv.weight", "v.patch_embd.weight", (8, 3, 2, 2)), ("vision_tower.ln_pre.weight", "v.pre_ln.weight", (8,)),
              ("multi_modal_projector.norm.weight", "mm.input_norm.weight", (8,)), ("multi_modal_projector.patch_merger.merging_layer.weight", "mm.patch_merger.weight", (8, 32)),
              ("multi_modal_projector.linear_1.weight", "mm.1.weight", (6, 8)), ("multi_modal_projector.linear_2.weight", "mm.2.weight", (6, 6)),
              ("language_model.model.embed_tokens.weight", "v.token_embd.img_break", (9, 6))]
    mistral = {"model_type": "mistral3", "vision_feature_layer": -1, "text_config": {"hidden_size": 6},
               "vision_config": {"model_type": "pixtral", "num_hidden_layers": 1, "hidden_size": 8, "num_attention_heads": 2, "intermediate_size": 12, "patch_size": 2,
                                 "image_size": 8, "hidden_act": "gelu", "head_dim": 4}}
    colours["tokenizer__json"] = {"added_tokens": [{"content": "[IMG_BREAK]", "id": 3}]}
    moved = ("v.blk.0.attn_q.weight", "v.blk.0.attn_k.weight", "v.token_embd.img_break")
    found = named("broken", mistral, rules, keys("pixtral", 8, spatial_merge_size=2, **{"attention.layer_norm_epsilon": f32(1e-5)}), moved, ("--mmproj",), **colours)
    if found:
        q = found[1][at + "attention.q_proj.weight"][1]
        rows = [h * 4 + s * 2 + i for h in (0, 1) for i in (0, 1) for s in (0, 1)]
        check(found[0].tensors[moved[0]][2] == [v for r in rows for v in q[8 * r:8 * r + 8]], "vision: rows of queries")
        check(found[0].tensors[moved[2]] == ((6,), 0, found[1]["language_model.model.embed_tokens.weight"][1][18:24]), "vision: the row of [IMG_BREAK]")
        source, options = found[1], ("--mmproj",)
        for says, change, files in (("\"vision_feature_layer\" is not -1", {"vision_feature_layer": -2}, {}), ("there is one of qwen2_vl", {"model_type": "llava_next"}, {}),
                                    ("sizes that are none", {"vision_config": {**mistral["vision_config"], "num_attention_heads": 3}}, {}),
                                    ("expected (8, 8) by config.json", {"spatial_merge_size": 1}, {}), ("no \"image_mean\"", {}, {"preprocessor_config__json": {}}),
                                    ("no \"image_mean\"", {}, {"preprocessor_config__json": {"image_mean": [0.5, "0.5", 0.5], "image_std": [0.5, 0.5, 0.5]}}),
                                    ("no \"image_std\" with three numbers above 0", {}, {"preprocessor_config__json": {"image_mean": [0.5, 0, 0.5], "image_std": [0.5, 0, 0.5]}}),
                                    ("no added token \"[IMG_BREAK]\"", {}, {"tokenizer__json": {}}), ("no file for pictures", {"vision_config": 7}, {}),
                                    ("by config.json", {"vision_config": {**mistral["vision_config"], "patch_size": 4}}, {}),
                                    ("is no number above 0", {"vision_config": {**mistral["vision_config"], "layer_norm_eps": 0}}, {}),
                                    ("is no number above 0", {"vision_config": {**mistral["vision_config"], "rms_norm_eps": -1e-5}}, {}),
                                    ("'v.blk.1.attn_q.weight'", {"vision_config": {**mistral["vision_config"], "num_hidden_layers": 2}}, {}),
                                    ("1 tensors join patches, expected 2", {}, {"dropped": "norm.weight"})):
            dropped = "multi_modal_projector." + files.pop("dropped", "")
            folder("refused", {**mistral, **change}, {n: t for n, t in source.items() if n != dropped}, **{**colours, **files})
            rc, _, err = run("convert", "refused", "-o", "no.gguf", *options)
            check(rc in (1, 3, 4) and says in err and err.count("\n") == 1 and not os.path.exists("no.gguf"), f"vision: {says}: exit {rc}: {err.strip()}")


def test_towers():
    """LFM2-VL, whose patches are rows with their colours last; InternVL's first files, and a pixel shuffle that llama.cpp has not; Gemma 4."""
    colours = {"preprocessor_config__json": {"image_mean": [0.5, 0.25, 0.75], "image_std": [0.5, 0.5, 0.25]}}
    both = (("attn_q", (8, 8)), ("attn_k", (8, 8)), ("attn_v", (8, 8)), ("attn_out", (8, 8)), ("ffn_up", (12, 8)), ("ffn_down", (8, 12)), ("ln1", (8,)), ("ln2", (8,)))
    names = dict(zip([b for b, _ in both], ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.out_proj", "mlp.fc1", "mlp.fc2", "layer_norm1", "layer_norm2")))
    tower = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 12, "patch_size": 2}
    at = "vision_tower.vision_model.encoder.layers.0."
    rules = [(f"{at}{names[b]}.{end}", f"v.blk.0.{b}.{end}", s if end == "weight" else s[:1]) for b, s in both for end in ("weight", "bias")]
    rules += [("vision_tower.vision_model." + a, b, s) for a, b, s in (
        ("embeddings.position_embedding.weight", "v.position_embd.weight", (4, 8)), ("embeddings.patch_embedding.bias", "v.patch_embd.bias", (8,)),
        ("embeddings.patch_embedding.weight", "v.patch_embd.weight", (8, 12)), ("post_layernorm.weight", "v.post_ln.weight", (8,)), ("post_layernorm.bias", "v.post_ln.bias", (8,)))]
    rules += [("multi_modal_projector." + a, b, s) for a, b, s in (("linear_1.weight", "mm.1.weight", (10, 32)), ("linear_1.bias", "mm.1.bias", (10,)),
                                                                   ("linear_2.weight", "mm.2.weight", (6, 10)), ("linear_2.bias", "mm.2.bias", (6,)))]
    config = {"model_type": "lfm2_vl", "text_config": {"hidden_size": 6}, "projector_hidden_size": 10, "downsample_factor": 2,
              "vision_config": {**tower, "model_type": "siglip2_vision_model", "num_patches": 4, "hidden_act": "gelu_pytorch_tanh"}}
    found = named("lfm2_vl", config, rules, {"clip.projector_type": "lfm2", "clip.vision.projector.scale_factor": 2, "clip.vision.image_size": 4},
                  ["v.patch_embd.weight"], ("--mmproj",), **colours)
    if found:
        x = found[1]["vision_tower.vision_model.embeddings.patch_embedding.weight"][1]
        moved = [x[12 * r + 3 * i + c] for r in range(8) for c in range(3) for i in range(4)]
        check(found[0].tensors["v.patch_embd.weight"] == ((8, 3, 2, 2), 0, moved), "lfm2_vl: patches")
    names.update({"attn_out": "attn.proj", "ln1": "norm1", "ln2": "norm2"})
    rules = [(f"vision_model.encoder.layers.0.{names[b]}.{end}", f"v.blk.0.{b}.{end}", s if end == "weight" else s[:1]) for b, s in both[3:] for end in ("weight", "bias")]
    rules += [("vision_model." + a, b, s) for a, b, s in (
        ("embeddings.class_embedding", "v.class_embd", (1, 1, 8)), ("embeddings.position_embedding", "v.position_embd.weight", (1, 5, 8)),
        ("embeddings.patch_embedding.weight", "v.patch_embd.weight", (8, 3, 2, 2)), ("embeddings.patch_embedding.bias", "v.patch_embd.bias", (8,)),
        ("encoder.layers.0.ls1", "v.blk.0.ls1.weight", (8,)), ("encoder.layers.0.ls2", "v.blk.0.ls2.weight", (8,)), ("encoder.layers.0.attn.qkv.weight", "v.blk.0.attn_q.weight", (24, 8)))]
    rules += [(f"mlp1.{i}.{end}", f"mm.model.mlp.{i}.{end}", s if end == "weight" else s[:1]) for i, s in ((0, (32,)), (1, (6, 32)), (3, (6, 6))) for end in ("weight", "bias")]
    config = {"model_type": "internvl_chat", "llm_config": {"hidden_size": 6}, "downsample_ratio": 0.5, "select_layer": -1, "ps_version": "v2", "max_dynamic_patch": 12,
              "vision_config": {**tower, "model_type": "intern_vit_6b", "image_size": 4, "hidden_act": "gelu"}}
    cut = [f"v.blk.0.attn_{x}.weight" for x in "qkv"]
    table = "v.position_embd.weight"
    found = named("internvl", config, rules, {"clip.projector_type": "internvl", "clip.vision.projector.scale_factor": 2, "clip.vision.preproc_max_tiles": 12}, [*cut, table], ("--mmproj",), **colours)
    if found:
        x = found[1]["vision_model.embeddings.position_embedding"][1]
        check(found[0].tensors[table] == ((1, 5, 8), 0, x[8:] + x[:8]), "internvl: positions")
        x = found[1]["vision_model.encoder.layers.0.attn.qkv.weight"][1]
        check(all(found[0].tensors[name] == ((8, 8), 0, x[64 * i:64 * i + 64]) for i, name in enumerate(cut)), "internvl: queries, keys and values")
    for change in ({"ps_version": "v1"}, {"vision_config": {**config["vision_config"], "norm_type": "rms_norm"}}, {"select_layer": -2}):
        write("internvl/config.json", json.dumps({**config, **change}))
        rc, _, err = run("convert", "internvl", "-o", "no.gguf", "--mmproj")
        check(rc == 3 and ("ps_version" in err or "vision_feature_layer" in err), f"internvl: {change}: exit {rc}: {err.strip()}")
    for change in ({"max_dynamic_patch": 0.5}, {"vision_config": {**config["vision_config"], "layer_norm_eps": "x"}}):
        write("internvl/config.json", json.dumps({**config, **change}))
        rc, _, err = run("convert", "internvl", "-o", "no.gguf", "--mmproj")
        check(rc == 3 and ", not a " in err, f"internvl: {change}: exit {rc}: {err.strip()}")
    at, linear = "model.vision_tower.encoder.layers.0.", {"attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj", "attn_out": "self_attn.o_proj",
                                                          "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj"}
    rules = [(f"{at}{a}.linear.weight", f"v.blk.0.{b}.weight", (8, 12) if b == "ffn_down" else (12, 8) if "ffn" in b else (8, 8)) for b, a in linear.items()]
    rules += [(f"{at}{a}.{x}put_{y}", f"v.blk.0.{b}.{x}put_{y}", (1,)) for b, a in linear.items() for x in ("in", "out") for y in ("min", "max")]
    rules += [(f"{at}{a}.weight", f"v.blk.0.{b}.weight", (4,) if "attn_" in b and "post" not in b else (8,)) for a, b in (
        ("self_attn.q_norm", "attn_q_norm"), ("self_attn.k_norm", "attn_k_norm"), ("input_layernorm", "ln1"), ("post_attention_layernorm", "attn_post_norm"),
        ("pre_feedforward_layernorm", "ln2"), ("post_feedforward_layernorm", "ffn_post_norm"))]
    rules += [("model.vision_tower.patch_embedder.position_embedding_table", "v.position_embd.weight", (2, 5, 8)), ("model.vision_tower.std_bias", "v.std_bias", (8,)),
              ("model.vision_tower.patch_embedder.input_proj.weight", "v.patch_embd.weight", (8, 12)), ("model.embed_vision.embedding_projection.weight", "mm.input_projection.weight", (6, 8))]
    config = {"model_type": "gemma4", "text_config": {"hidden_size": 6}, "vision_config": {
        **tower, "model_type": "gemma4_vision", "position_embedding_size": 5, "use_clipped_linears": True, "rope_parameters": {"rope_theta": 100.0}, "rms_norm_eps": 1e-5}}
    found = named("gemma4", config, rules, {"clip.vision.projector_type": "gemma4v", "clip.use_gelu": True, "clip.vision.attention.layer_norm_epsilon": f32(1e-5)},
                  ["v.patch_embd.weight"], ("--mmproj",), **colours)
    config["vision_config"]["use_clipped_linears"] = False
    write("gemma4/config.json", json.dumps(config))
    rc, _, err = run("convert", "gemma4", "-o", "no.gguf", "--mmproj")
    check(found and rc == 3 and "28 tensors are bounds" in err, f"gemma4: exit {rc}: {err.strip()}")


def test_bamba():
    """Half of each head is rotated, which transformers' class puts in the place of another share outside of the block."""
    at, (q, k) = "model.layers.0.", ("blk.0.attn_q.weight", "blk.0.attn_k.weight")
    shapes = [("self_attn.q_proj", "attn_q", (16, 16)), ("self_attn.k_proj", "attn_k", (8, 16)), ("self_attn.v_proj", "attn_v", (8, 16)), ("self_attn.o_proj", "attn_output", (16, 16)),
              ("feed_forward.gate_proj", "ffn_gate", (6, 16)), ("feed_forward.up_proj", "ffn_up", (6, 16)), ("feed_forward.down_proj", "ffn_down", (16, 6)),
              ("input_layernorm", "attn_norm", (16,)), ("pre_ff_layernorm", "ffn_norm", (16,))]
    rules = [(f"{at}{a}.weight", f"blk.0.{b}.weight", s) for a, b, s in shapes]
    rules += [("model.embed_tokens.weight", "token_embd.weight", (V, 16)), ("model.final_layernorm.weight", "output_norm.weight", (16,)), ("lm_head.weight", "output.weight", (V, 16))]
    config = {"model_type": "bamba", "hidden_size": 16, "num_attention_heads": 2, "num_key_value_heads": 1, "num_hidden_layers": 1, "intermediate_size": 6, "vocab_size": V,
              "max_position_embeddings": 64, "mamba_n_heads": 4, "mamba_d_head": 8, "mamba_d_state": 4, "mamba_n_groups": 1, "mamba_d_conv": 3, "attn_layer_indices": [0],
              "rope_theta": 20000.0, "partial_rotary_factor": 1.0}
    found = named("bamba", config, rules, {"granitehybrid.rope.dimension_count": 4, "granitehybrid.rope.freq_base": 20000.0}, (q, k))
    order = [(0, 2, 1, 3, 4, 5, 6, 7)[r % 8] + r // 8 * 8 for r in range(16)]
    for name, said in ((q, "q_proj"), (k, "k_proj")) if found else ():
        x = found[1][f"{at}self_attn.{said}.weight"][1]
        check(found[0].tensors[name][2] == [v for r in order[:len(x) // 16] for v in x[16 * r:16 * r + 16]], f"bamba: {name}")


def test_falcon_h1():
    """Numbers that multiply are in the matrices; those of ssm_in by its parts: 2 x 8 rows, 2 x 4 of states, 2 of steps."""
    shapes = [("self_attn.q_proj.weight", "attn_q.weight", (8, 8)), ("self_attn.k_proj.weight", "attn_k.weight", (4, 8)), ("self_attn.v_proj.weight", "attn_v.weight", (4, 8)),
              ("self_attn.o_proj.weight", "attn_output.weight", (8, 8)), ("feed_forward.gate_proj.weight", "ffn_gate.weight", (12, 8)),
              ("feed_forward.up_proj.weight", "ffn_up.weight", (12, 8)), ("feed_forward.down_proj.weight", "ffn_down.weight", (8, 12)),
              ("mamba.in_proj.weight", "ssm_in.weight", (26, 8)), ("mamba.out_proj.weight", "ssm_out.weight", (8, 8)), ("mamba.dt_bias", "ssm_dt.bias", (2,)),
              ("input_layernorm.weight", "attn_norm.weight", (8,)), ("pre_ff_layernorm.weight", "ffn_norm", (8,)), ("mamba.conv1d.weight", "ssm_conv1d.weight", (16, 1, 3)),
              ("mamba.A_log", "ssm_a", (2,)), ("mamba.D", "ssm_d", (2,))]
    rules = [("model.layers.0." + a, "blk.0." + b, s) for a, b, s in shapes] + [
        ("model.embed_tokens.weight", "token_embd.weight", (12, 8)), ("lm_head.weight", "output.weight", (12, 8)), ("model.final_layernorm.weight", "output_norm.weight", (8,))]
    config = {"model_type": "falcon_h1", "architectures": ["FalconH1ForCausalLM"], "hidden_size": 8, "intermediate_size": 12, "num_hidden_layers": 1, "num_attention_heads": 2,
              "num_key_value_heads": 1, "head_dim": 4, "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "rope_theta": 1e11, "vocab_size": 12, "mamba_d_ssm": 8, "mamba_n_heads": 2,
              "mamba_d_head": 4, "mamba_n_groups": 1, "mamba_d_state": 4, "mamba_d_conv": 3, "key_multiplier": 4.0, "attention_in_multiplier": 0.5, "mlp_multipliers": [2.0, 8.0],
              "ssm_in_multiplier": 2.0, "ssm_multipliers": [1.0, 2.0, 4.0, 8.0, 16.0], "embedding_multiplier": 32.0, "tie_word_embeddings": False}
    factors = {"attn_q": 0.5, "attn_k": 2.0, "attn_v": 0.5, "ffn_gate": 2.0, "ffn_down": 8.0, "token_embd": 32.0}
    apart = [b for _, b, _ in rules if any(b.endswith(x + ".weight") for x in factors) or "ssm_" in b]
    found = named("falcon_h1", config, rules, {"general.architecture": "falcon-h1", "falcon-h1.ssm.inner_size": 8, "falcon-h1.ssm.group_count": 1}, apart)
    for a, b, _ in rules if found else ():
        factor = factors.get(b.rsplit(".", 2)[-2] if b.endswith(".weight") else "")
        check(factor is None or found[0].tensors[b][2] == [factor * v for v in found[1][a][1]], f"falcon_h1: {b}")
    if found:
        parts = [1] * 8 + [2] * 8 + [4] * 4 + [8] * 4 + [16] * 2
        check(found[0].tensors["blk.0.ssm_in.weight"][2] == [2.0 * parts[i // 8] * v for i, v in enumerate(found[1]["model.layers.0.mamba.in_proj.weight"][1])], "falcon_h1: ssm_in")
        says("falcon_h1", config, "\"mamba_norm_before_gate\" is true", mamba_rms_norm=True)


def integers(x, shape):
    """An array of int64 as .npy."""
    head = "{'descr': '<i8', 'fortran_order': False, 'shape': %r, }" % (shape,)
    head = head.ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode() + struct.pack("<%dq" % len(x), *x)


def answers(path, words="graph --precision f64 --data ids.npz --outputs answers.npz"):
    """What the program computes with a model, and the bytes of keys and values; or why it does not"""
    rc, _, err = run(*words.split(), "--force", path)
    rc2, out, err2 = run("estimate", "--runtime", "native", "--ctx", "64", "--kv-dtype", "f16", "--bytes", path)
    cache = re.search("keys and values +([0-9,]+) B", out)
    if rc or rc2:
        return err + err2
    with zipfile.ZipFile("answers.npz") as z:
        data = z.read(z.namelist()[0])
    begin = 10 + struct.unpack_from("<H", data, 8)[0]
    kind, size = ("d", 8) if b"<f8" in data[:begin] else ("f", 4)
    return struct.unpack("<%d%s" % ((len(data) - begin) // size, kind), data[begin:]), cache.group(1) if cache else None


def test_graphs():
    """The graph of a GGUF file computes what that of the folder does, and keeps as many keys and values; both within what f32 rounds."""
    with zipfile.ZipFile("ids.npz", "w") as z:
        z.writestr("input_ids.npy", integers([RANDOM.randrange(2, V) for _ in range(40)], (2, 20)))
    for kind, more in GRAPHS.items():
        config, source, _, _ = make(kind)
        del config["architectures"]
        for name in [n for n in source if "pooler" in n or (n.endswith("_proj.bias") and kind == "llama")]:
            del source[name]
        folder("graph", {**config, **more}, source)
        if convert("graph", "--no-vocab") is None:
            continue
        a, b = answers("graph"), answers("out.gguf")
        if isinstance(a, str) or isinstance(b, str):
            check(False, f"{kind}: {a if isinstance(a, str) else ''} {b if isinstance(b, str) else ''}")
            continue
        most = max(map(abs, a[0]))
        check(len(a[0]) == len(b[0]) and all(abs(x - y) < 2e-5 * most for x, y in zip(a[0], b[0])), f"{kind}: the graph computes something else: {max(abs(x - y) for x, y in zip(a[0], b[0])) / most:.2g}")
        check(a[1] == b[1], f"{kind}: keys and values of {a[1]} B, and of {b[1]} B")


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
    other = make("eurobert")
    check(file_of({"type": "linear", "factor": 4.0}, other[0], other[1]).pairs["eurobert.rope.scaling.type"] == "linear", "linear of eurobert")
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
    file = file_of({"rope_type": "yarn", "factor": 4.0}, phi, tensors, original_max_position_embeddings=16)
    check(file.pairs["phi3.rope.scaling.original_context_length"] == 16 and file.pairs["phi3.rope.scaling.type"] == "yarn", "phi3: yarn")
    longer = {"rope_type": "longrope", "short_factor": [1.0] * 4, "long_factor": [2.0] * 4, "original_max_position_embeddings": 16}
    for kind in ("llama", "granite"):
        config, tensors, _, _ = make(kind)
        longer["short_factor"] = longer["long_factor"] = [2.0] * (config.get("head_dim", H // A) // 2)
        file = file_of(longer, config, tensors)
        check(file.pairs[kind + ".rope.scaling.type"] == "longrope" and "rope_freqs.weight" not in file.tensors, f"{kind}: longrope")
        check(file.pairs[kind + ".rope.scaling.original_context_length"] == 16 and "rope_factors_short.weight" in file.tensors, f"{kind}: factors")
        file = file_of({**longer, "factor": 2.0}, config, tensors)
        check(file.pairs[kind + ".rope.scaling.attn_factor"] == f32(math.sqrt(1 + math.log(2) / math.log(16))), f"{kind}: factor")


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


def pieces(trainer, normalizer, line="<0x0A>"):
    listed = [("<unk>", 0, 2), ("<s>", 0, 3), ("</s>", 0, 3), (line, 0, 6), ("\u2581a", -1.5, 1), ("<sep>", 0, 4)]
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
    found = vocabulary("pairs", tokenizer__json=bytes_json([["a", "b"], ["\u0120", "ab"]], post_processor=template), chat_template__jinja="{{ x }}")
    check(found.get("merges") == ["a b", "\u0120 ab"], f"merges of two texts: {found.get('merges')}")
    check((found.get("add_bos_token"), found.get("bos_token_id")) == (True, 5), "what a template puts in front is the begin")
    check(found.get("tokenizer.chat_template") == "{{ x }}", "chat_template.jinja")
    for what, text in (("no UTF-8", b"\xff\xfe x"), ("a NUL", b"first\0second")):
        refused(f"template with {what}", "chat_template.jinja: is no template", options=(),
                tokenizer__json=bytes_json([["a", "b"], ["\u0120", "ab"]]), chat_template__jinja=text)
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
    found = vocabulary("unigram", spiece__model=pieces(unigram, b"\x12\x03abc", "n"))
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
    # tiktoken's files: ranks in place of merges; "aba" is what "ab" and "a" give, and of "cc" there are no parts
    ranks = ["a", "b", "ab", "aba", " ", "cc"]
    lines = "".join("%s %d\n" % (base64.b64encode(t.encode()).decode(), i) for i, t in enumerate(ranks))
    named = {"added_tokens_decoder": {"6": {"content": "[BOS]", "special": True}}, "bos_token": "[BOS]"}
    found = vocabulary("ranks", tiktoken__model=lines, tokenizer_config__json=named)
    check((found.get("model"), found.get("pre"), found.get("bos_token_id")) == ("gpt2", "kimi-k2", 6), f"ranks: {found}")
    check(found.get("tokens", [])[:9] == ["a", "b", "ab", "aba", "\u0120", "cc", "[BOS]", "<|reserved_token_7|>", "<|reserved_token_8|>"] and
          found.get("token_type", [])[3:8] == [1, 1, 1, 3, 3], f"ranks: {found.get('tokens')}")
    check(found.get("merges") == ["a b", "ab a"], f"ranks: {found.get('merges')}")
    found = vocabulary("counted", hy__tiktoken=lines + lines)
    check(found.get("pre") == "hunyuan" and found.get("tokens", [])[5:] == ["cc"] + [f"<|{w}|>" for w in ("endoftext", "startoftext", "bos", "eos", "pad", "extra_0")],
          f"ranks of lines: {found.get('tokens')}")
    for what, text, says in (("base64", "Y!== 0\n", "a token is no base64"), ("rank", "YQ==\n", "is no token with a rank"), ("token", "= 0\n", "a token has 0 bytes"),
                             ("twice", "YQ== 0\nYg== 0\n", "two tokens 0"), ("rows", "YQ== 99\n", "12 rows"), ("long", "YWFh" * 400 + " 0\n", "1200 bytes"),
                             ("UTF-8", b"\xff 0\n", "is no list of tokens")):
        refused(f"ranks: {what}", says, options=(), tiktoken__model=text)


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
    for key in ("rope_theta", "rms_norm_eps"):
        for bad in (float("nan"), float("inf"), 0, -1):
            refused(f"{key} {bad}", f'"{key}', change={key: bad})
    for key, bad, wanted in (
            ("num_key_value_heads", "2", '"2", not a number'), ("num_hidden_layers", 2.5, "2.5, not a whole number"), ("rms_norm_eps", "1e-5", "not a number"),
            ("intermediate_size", True, "true, not a number"), ("rope_theta", "10000", "not a number"),
            ("max_position_embeddings", "32", "not a number"), ("num_attention_heads", [4, 2], "a list, not a number"), ("rms_norm_eps", [1e-5], "a list, not a number"), ("hidden_act", 3, "3, not a text"),
            ("rope_scaling", "linear", "not an object"), ("use_sliding_window", 1, "not true or false")):
        refused(f"kind of {key}", f"config.json: {key} is", change={key: bad})
        refused(f"kind of {key}", wanted, change={key: bad})
    refused("kind in a block", 'factor is "8", not a number', change={"rope_scaling": {"rope_type": "linear", "factor": "8"}})
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
    for words in (["linear_attention", "zzz"], ["linear_attention", 1], ["sliding_attention", "full_attention"]):
        refused(f"kinds {words}", "of \"layer_types\" is no kind of layer", "qwen3_5_text", change={"layer_types": words})
    refused("pairs of heads", "\"rope_interleave\" is false", "deepseek_v3", change={"rope_interleave": False})
    refused("bias of keys", "llama.cpp has no 'blk.0.attn_kv_a_mqa.bias'", "deepseek_v3", tensors={"model.layers.0.self_attn.kv_a_proj_with_mqa.bias": ((14,), [1.0] * 14)})
    refused("stretched keys", "of type 'linear' are not known", "deepseek_v3", change={"rope_scaling": {"type": "linear", "factor": 2.0}})
    refused("larger heads", "\"head_dim\" times the heads", "glm", change={"head_dim": 2 * D})
    refused("groups", "\"n_group\" does not divide", "deepseek_v3", change={"n_group": 2})
    refused("more groups", "less than \"topk_group\"", "deepseek_v3", change={"n_group": 3, "topk_group": 4})
    refused("letters", "\"hybrid_override_pattern\" has no 'M'", "qwen3_5_text", change={"hybrid_override_pattern": "M"})
    refused("too few layers", "config.json has 1 layers, and this is of another", change={"num_hidden_layers": 1})
    refused("type of positions", "rope_type is 3, not a text", change={"rope_scaling": {"rope_type": 3, "factor": 2.0}})
    for sections in ([], [1, 1], [2, 1, 1, 0], [1, 1, 1], [3, 2, -1], ["2", 1, 1]):
        refused(f"sections {sections}", "\"mrope_section\" is no list of three", "qwen3_vl_text", change={
            "rope_parameters": {"rope_type": "default", "rope_theta": 20000.0, "mrope_section": sections}})
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
    refused("longrope", "of type 'longrope' are not known to llama.cpp in such", "qwen3", change={"rope_scaling": {"type": "longrope", "long_factor": [1.0]}})
    refused("original", "\"original_max_position_embeddings\" is no number", "phi3", change={"original_max_position_embeddings": 0})
    refused("interval", "\"full_attention_interval\" is 0", "qwen3_5_text", change={"full_attention_interval": 0})
    for kind in ("gemma2", "gemma3_text"):
        refused("scalar", "\"query_pre_attn_scalar\" is no number above 0", kind, change={"query_pre_attn_scalar": 0})
        refused("bias of a tied head", "lm_head.bias: llama.cpp has no", kind, tensors={"lm_head.bias": ((V,), [1.0] * V)})
    refused("tensor", "odd.weight: llama.cpp has no such tensor", tensors={"odd.weight": ((1,), [1.0])})
    refused("norm", "has no 'blk.0.attn_q_norm.weight'", tensors={"model.layers.0.self_attn.q_norm.weight": ((H // A,), [1.0] * (H // A))})
    refused("missing", "becomes 'blk.0.attn_q.weight'", tensors={q: None})
    refused("no head", "becomes 'output.weight'", tensors={"lm_head.weight": None})
    refused("shape", "its shape is (2, 24), expected (24, 24)", tensors={q: ((2, H), [1.0] * 2 * H)})
    refused("expert", "2 tensors of the folder become it, expected 3", "mixtral",
            tensors={f"model.layers.0.block_sparse_moe.experts.{E - 1}.w1.weight": None})
    refused("no tokenizer", "there is no tokenizer that is known", options=())
    lone = bytes_json([])
    del lone["model"]["merges"]  # steps of bytes without merges
    refused("no merges", "there is no tokenizer that is known", options=(), tokenizer__json=lone)
    refused("cut", "the way is: x+", options=(), tokenizer__json=bytes_json([], regex="x+"))
    refused("normalizer", "its normalizer is 'Lowercase'", options=(), tokenizer__json=bytes_json([], normalizer={"type": "Lowercase"}))
    for merge, says in ((["b", "a"], "not both parts of the merge 'b' 'a'"), ("a z", "not both parts"), ("a b a", "not of two texts"), (3, "not of two texts")):
        refused("merge", says, options=(), tokenizer__json=bytes_json([merge]))
    refused("twice", "has the token 'a' twice", options=(), tokenizer__json=bytes_json([], added_tokens=[{"id": 9, "content": "a"}]))
    large = bytes_json([])
    large["model"]["vocab"]["zz"] = V
    refused("rows", "the embedding has 12 rows", options=(), tokenizer__json=large)
    refused("characters", "precompiled_charsmap", options=(), tokenizer__model=pieces(b"\x18\x02", b"\x12\x01a"))
    refused("bytes of unigrams", "a Unigram with byte fallback", options=(), tokenizer__model=pieces(b"\x18\x01", b""))
    refused("head of gemma2", "is not the embedding", "gemma2", change={"tie_word_embeddings": False},
            tensors={"lm_head.weight": ((V, H), [1.0] * V * H)})
    refused("share of a stretched head", "\"partial_rotary_factor\" is not 1",
            change={"partial_rotary_factor": 0.5, "rope_scaling": {"type": "linear", "factor": 2.0}})
    refused("yarn of its own", "takes a scaling with numbers of its own", "ministral3", change={"rope_parameters": None})
    refused("two slopes", "layers.1.mlp.act_fn.alpha_p: it has 2 elements", "apertus", tensors={"model.layers.1.mlp.act_fn.alpha_p": ((2,), [1.0, 2.0])})
    refused("another number of the activation", "layers.1.mlp.act_fn.gamma: llama.cpp has no such tensor", "apertus", tensors={"model.layers.1.mlp.act_fn.gamma": ((1,), [1.0])})
    refused("broken", "tokenizer.model", options=(), tokenizer__model=b"\x0a\x7f")
    refused("no JSON", "tokenizer.json", options=(), tokenizer__json="{")
    for options, says in ((["--pre", "x", "--no-vocab"], "choose one"), (["--emit", "y.npz"], "runs of their own")):
        rc, _, err = run("convert", "plain", "-o", "no.gguf", *options)
        check(rc == 2 and says in err and not os.path.exists("no.gguf"), f"{options}: exit {rc}: {err}")
    for options in (["--no-vocab"], ["--pre", "x"], ["--keep-names"]):
        rc, _, err = run("convert", "first.gguf", "-o", "no.gguf", *options)
        check(rc == 2 and "a folder with a config.json" in err, f"{options}: exit {rc}: {err}")


def converted(kind, change, tensors=None):
    """the file, its notes, and the source's tensors"""
    config, source, _, _ = make(kind)
    source.update(tensors or {})
    source = {n: t for n, t in source.items() if t is not None}
    config.update(change)
    folder("changed", {k: v for k, v in config.items() if v != "absent"}, source)
    made = convert("changed", "--no-vocab")
    return (made[0], made[1], source) if made else (None, "", source)


def test_heads():
    """A head of its own, a copy of the embedding, and the embedding as the head; keys that are not there."""
    embedding, head = "model.embed_tokens.weight", "lm_head.weight"
    other = ((V, H), values((V, H)))
    for kind in ("gemma3_text", "llama", "smollm3"):
        for tied in (True, False):
            file, _, source = converted(kind, {"tie_word_embeddings": tied}, {head: other})
            check(file and file.tensors.get("output.weight", [None] * 3)[2] == other[1], f"{kind}, tied {tied}: the head of its own is lost")
        file, _, _ = converted(kind, {"tie_word_embeddings": True}, {embedding: other, head: other})
        check(file and "output.weight" not in file.tensors, f"{kind}: a copy of the embedding is written")
    shifts = {f"model.{n}.bias": ((H,), values((H,))) for n in ["norm"] + [f"layers.{i}.{n}_layernorm" for i in range(N) for n in ("input", "post_attention")]}
    for kind, more in (("olmo2", {}), ("olmo3", {}), ("qwen2", {"model_type": "stablelm", "use_qkv_bias": True, "partial_rotary_factor": 1 / 3})):
        file, _, source = converted(kind, {"tie_word_embeddings": True, **more}, {head: None, **(shifts if more else {})})
        check(file and file.tensors.get("output.weight", [None] * 3)[2] == source[embedding][1], f"{kind}: the tied head is not written")
    config, source, _, _ = make("mistral")
    del source[head], config["tie_word_embeddings"]
    folder("mistral3", {"model_type": "mistral3", "text_config": config},
           {n.replace("model.", "language_model.model.", 1): t for n, t in source.items()})  # transformers ties it where nothing is said
    made = convert("mistral3", "--no-vocab")
    check(made and "output.weight" not in made[0].tensors, "mistral3: tied")
    file, _, _ = converted("llama", {"partial_rotary_factor": 0.5, "head_dim": 8})
    check(file and file.pairs["llama.rope.dimension_count"] == 8, "llama reads no partial_rotary_factor")
    config, source, _, _ = make("qwen2")
    del config["num_key_value_heads"]
    folder("keys", config, source)
    rc, _, err = run("convert", "keys", "-o", "no.gguf", "--no-vocab")
    check(rc == 3 and "4 heads cannot share 32 key heads, which transformers takes" in err, f"keys: exit {rc}: {err}")


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


def test_nvfp4():
    """Codes and scales of 16 elements stay what they are; the number of the tensor lies beside it, and readers multiply with it."""
    sizes = {"H": 64, "F": 128, "M": 64, "A": 4, "D": 16}
    before = {name: getattr(gguf_folders, name) for name in sizes}
    vars(gguf_folders).update(sizes)
    for kind in ("llama", "qwen3_moe"):
        config, source, wanted, _ = make(kind)
        config.update({"moe_intermediate_size": 64} if kind == "qwen3_moe" else {})
        folder(kind + "64", config, source)
        for args in (("quantize", "--nvfp4", "--min-elements", "1", kind + "64", "-o", kind + "nv"),
                     ("dequantize", "--f32", kind + "nv", "-o", kind + "floats")):
            rc, _, err = run(*args)
            check(rc == 0, f"{kind}: {err}")
        made, floats = convert(kind + "nv", "--no-vocab"), convert(kind + "floats", "--no-vocab")
        if made is None or floats is None:
            break
        run("convert", kind + "nv", "--no-vocab", "-o", kind + ".gguf")
        check(run("verify", "--data", kind + ".gguf")[0] == 0, f"{kind}: verify finds something")
        run("dequantize", "--f32", kind + ".gguf", "-o", kind + "back.gguf")
        run("convert", kind + ".gguf", "-o", kind + "copy.gguf")
        check(read(kind + ".gguf") == read(kind + "copy.gguf"), f"{kind}: a copy has other bytes")
        back = Gguf(kind + "back.gguf")
        check(made[0].pairs["general.file_type"] == 39, f"{kind}: file type {made[0].pairs['general.file_type']}")
        check(set(back.tensors) == set(wanted), f"{kind}: tensors {sorted(set(back.tensors) ^ set(wanted))}")
        blocks = [name for name, (_, form, _) in made[0].tensors.items() if form == 40]
        check(len(blocks) == N * 7, f"{kind}: {len(blocks)} tensors of NVFP4")
        for name in blocks:
            shape, form, numbers = made[0].tensors[name[:-6] + "scale"]
            check((shape, form) == ((E if len(wanted[name][0]) == 3 else 1,), 0) and min(numbers) > 0, f"{kind}: scale of {name}")
            x, y = back.tensors[name][2], floats[0].tensors[name][2]
            check(all(abs(a - b) <= abs(b) * 2 ** -22 for a, b in zip(x, y)), f"{kind}: {name} has other values")
        rc, _, err = run("dequantize", kind + ".gguf", "-o", kind + "again/", "--no-vocab")
        again = convert(kind + "again", "--no-vocab")
        check(rc == 0 and again is not None, f"{kind}: {err}")
        for name in blocks if again else []:
            x, y = again[0].tensors[name][2], floats[0].tensors[name][2]
            check(all(abs(a - b) <= abs(b) * 2 ** -22 for a, b in zip(x, y)), f"{kind}: {name} has other values in a folder of floats")
    vars(gguf_folders).update(before)


def test_codes():
    """Symmetric codes of 4 and 8 bits become Q4_0 and Q8_0, if their scales are f16 numbers, and mean the same."""
    sizes = {"H": 64, "F": 128, "M": 64, "A": 4, "D": 16}
    before = {name: getattr(gguf_folders, name) for name in sizes}
    vars(gguf_folders).update(sizes)
    for kind, form, *scheme in (("llama", 2, "--int4", "--granularity", "group:32"), ("qwen3_moe", 2, "--int4", "--granularity", "group:64"),
                                ("qwen3_moe", 8, "--int8")):
        config, source, wanted, _ = make(kind)
        config.update({"moe_intermediate_size": 64} if kind == "qwen3_moe" else {})
        folder("f32", config, source)
        for args in (("quantize", "--bf16", "--min-elements", "1", "f32", "-o", "short"), ("quantize", *scheme, "--min-elements", "1", "short", "-o", "codes"),
                     ("dequantize", "--f32", "codes", "-o", "floats"), ("convert", "codes", "--no-vocab", "-o", "codes.gguf"),
                     ("dequantize", "--f32", "codes.gguf", "-o", "back.gguf"), ("quantize", *scheme, "--min-elements", "1", "f32", "-o", "wide")):
            rc, _, err = run(*args, "-f")
            check(rc == 0, f"{kind} {scheme}: {err}")
        made, back, floats = Gguf("codes.gguf"), Gguf("back.gguf"), convert("floats", "--no-vocab")[0]
        blocks = [name for name, (_, of, _) in made.tensors.items() if of == form]
        check(len(blocks) == N * 7 and made.pairs["general.file_type"] == {2: 2, 8: 7}[form], f"{kind} {scheme}: {len(blocks)} tensors")
        check(set(back.tensors) == set(wanted), f"{kind} {scheme}: tensors {sorted(set(back.tensors) ^ set(wanted))}")
        for name in blocks:
            check(back.tensors[name][2] == floats.tensors[name][2], f"{kind} {scheme}: {name} has other values")
        rc, _, err = run("convert", "wide", "--no-vocab", "-o", "no.gguf")
        check(rc == 3 and "their scales are neither f16 nor bf16; dequantize" in err and not os.path.exists("no.gguf"),
              f"{kind} {scheme}: scales in f32: {err}")
        for layout in ("compressed-tensors", "w8a8") if kind == "llama" else ():
            rc, _, err = run("quantize", "--int8", "--layout", layout, "--min-elements", "1", "short", "-o", "others", "-f")
            check(rc == 0 and ("round the inputs" in convert("others", "--no-vocab")[1]) == (layout == "w8a8"), f"{layout}: {err}")
        for other, why in ((("--int4", "--granularity", "group:16"), "groups are no whole blocks of 32"), (("--int3",), "no type of blocks has such codes"),
                           (("--int4", "--asymmetric", "--granularity", "group:32"), "they have zero points")) * (kind == "llama"):
            rc, _, err = run("quantize", *other, "--min-elements", "1", "short", "-o", "others", "-f")
            check(rc == 0, f"{kind} {other}: {err}")
            rc, _, err = run("convert", "others", "--no-vocab", "-o", "no.gguf")
            check(rc == 3 and f"its codes have no place in GGUF: {why}" in err and not os.path.exists("no.gguf"), f"{kind} {other}: {err}")
            two = convert("others", "--no-vocab", "--pass", "dequantize", "--pass", "quantize --gguf Q8_0", command=("run",))[0]
            one = convert("others", "--no-vocab", "--requantize", command=("quantize", "--gguf", "Q8_0"))[0]
            check(one.tensors == two.tensors and len(one.tensors) > 9, f"{kind} {other}: --requantize and two passes differ")
    vars(gguf_folders).update(before)


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
    check("2 tensors of vision and audio towers or heads for further tokens" in convert("seeing", "--no-vocab")[1], "no note about other parts")
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
    main(test_families, test_vision, test_towers, test_bamba, test_falcon_h1, test_t5, test_gemma3n, test_nomic, test_graphs, test_forms, test_rope, test_vocabularies, test_refusals, test_notes, test_heads, test_pooling, test_gpt_oss, test_shared, test_nvfp4, test_codes, test_statistics)
