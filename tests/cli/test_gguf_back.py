#!/usr/bin/env python3
"""test_gguf_back.py PROGRAM - a GGUF model of llama.cpp's becomes a folder of Hugging Face again.

The folders of gguf_folders.py go to GGUF and back: tensors have the bits that they had, config.json says what it said, and
the way there leads to the same file again. Then rotary embeddings, vocabularies, the other commands, and each refusal, after
which nothing may be written. Standard library only."""
import base64
import json
import os
import shutil
import struct

import gguf_folders
from gguf_folders import FAMILIES, M, RANDOM, WRONG, Gguf, check, convert, count, folder, gpt_oss, make, read, run, write
from test_gguf_folder import bytes_json, main, piece, pieces, vocabulary

PLAIN = {"qwen2_5_vl_text": "qwen2", "qwen3_vl_text": "qwen3", "qwen3_vl_moe_text": "qwen3_moe", "glm4v_text": "glm4"}  # what they are for texts


def read_folder(path):
    """config.json, and the tensors of all files: {name: (shape, values)}"""
    tensors = {}
    for file in sorted(os.listdir(path)):
        if file.endswith(".safetensors"):
            data = read(f"{path}/{file}")
            n, = struct.unpack_from("<Q", data)
            for name, entry in json.loads(data[8:8 + n]).items():
                if name != "__metadata__":
                    begin = 8 + n + entry["data_offsets"][0]
                    check(entry["dtype"] == "F32", f"{path}: {name} is {entry['dtype']}")
                    tensors[name] = (tuple(entry["shape"]), list(struct.unpack_from("<%df" % count(entry["shape"]), data, begin)))
    return json.loads(read(path + "/config.json")), tensors


def go_back(path, *options):
    """The folder of out.gguf, which has to lead to the same file again, but for the last bits of norms that were scaled, and the score of
    added tokens."""
    shutil.rmtree(path, ignore_errors=True)
    rc, _, err = run("convert", "out.gguf", "-o", path + "/", "-q", *options)
    if rc != 0:
        WRONG.append(f"{path}: exit {rc}: {err.strip()}")
        return None
    first = read("out.gguf")
    convert(path, *options)
    check(path in ("gemma3_text.back", "pieces.back") or "_vl_" in path or "glm4v" in path or read("out.gguf") == first, f"{path}: it leads to another GGUF file")
    return read_folder(path)


def back_family(kind, config, source):
    special = FAMILIES[kind][4]
    made = go_back(kind + ".back", "--no-vocab")
    if made is None:
        return
    if kind in ("bert", "roberta"):  # a BERT without a pooler, whose positions begin with the first that a token has
        check(made[0]["architectures"] == ["BertModel"] and len(made[1]) == len(source) - 1, f"{kind}: back: {sorted(made[1])}")
        return
    if kind == "eurobert":  # its class has no head, and no prefix
        source = {name.removeprefix("model."): tensor for name, tensor in source.items()}
    if kind in PLAIN:
        rope = config.get("rope_parameters") or config["rope_scaling"]
        check(made[0]["model_type"] == PLAIN[kind] and made[0]["rope_scaling"]["mrope_section"] == rope["mrope_section"], f"{kind}: back: {made[0]}")
        config = {k: v for k, v in config.items() if k not in ("model_type", "rope_scaling")}
    check(set(made[1]) == set(source), f"{kind}: back: {sorted(set(made[1]) ^ set(source))}")
    for name in set(made[1]) & set(source):
        shape, x = source[name]
        near = 1e-6 if "plus" in special and ("norm" in name or "A_log" in name) else 0
        if not ("factor" in special and "q_norm" in name):  # there, the scale stays in the values
            check(made[1][name][0] == shape and all(abs(a - b) <= near for a, b in zip(made[1][name][1], x)), f"{kind}: back: {name}")
    others = {"architectures", "layer_types", "per_layer_config", "intermediate_size" if config["intermediate_size"] is None else "", "sliding_window_pattern", "mlp_layer_types", "partial_rotary_factor", "query_pre_attn_scalar", "rope_parameters"}
    for key, value in config.items():
        if key not in others and not (kind in ("mistral", "qwen3_5_moe", "gemma4") and key in ("model_type", "sliding_window")):
            check(made[0].get(key) == value, f"{kind}: back: {key} is {made[0].get(key)}, not {value}")


def change_pair(data, key, change):
    """The file with other bytes for the value of a key, of the same length; change None: without the key."""
    at = data.index(struct.pack("<Q", len(key)) + key.encode()) + 8
    end = at + len(key) + 4
    return data[:at] + b"X" + data[at + 1:] if change is None else data[:end] + change + data[end + len(change):]


def refused_back(name, says, data, *options):
    write("bad.gguf", data)
    rc, _, err = run("convert", "bad.gguf", "-o", "no.back/", *options)
    check(rc == 3 and says in err and err.count("\n") == 1, f"{name}: exit {rc}: {err.strip()}")
    check(not os.path.exists("no.back"), f"{name}: it is written")


def test_back_rest():
    """What llama.cpp has no key for comes back, too; a file that says something else is refused."""
    yarn = {"rope_type": "yarn", "factor": 8.0, "original_max_position_embeddings": 64, "beta_fast": 24.0, "beta_slow": 2.0}
    llama3 = {"rope_type": "llama3", "factor": 8.0, "original_max_position_embeddings": 32, "low_freq_factor": 2.0, "high_freq_factor": 6.0}
    dynamic = {"rope_type": "dynamic", "factor": 4.0}
    for kind, change in (("llama", {"rope_scaling": yarn}), ("llama", {"rope_scaling": {**yarn, "truncate": False, "attention_factor": 1.5}}),
                         ("llama", {"rope_scaling": llama3}), ("granite", {"rope_scaling": llama3}), ("qwen2", {"rope_scaling": dynamic}),
                         ("mistral", {"sliding_window": 16}), ("gpt_oss", {}),
                         ("qwen3", {"use_sliding_window": True, "sliding_window": 16, "max_window_layers": 1})):
        if kind == "gpt_oss":
            gpt_oss()
            name = "oss"
        else:
            config, source, _, _ = make(kind)
            folder("rest", {**config, **change}, source)
            name = "rest"
        if convert(name, "--no-vocab") is None:
            continue
        made = go_back(name + ".back", "--no-vocab")
        for key, value in change.items():
            check(made and made[0].get(key) == value, f"{kind} {change}: {key} comes back as {made and made[0].get(key)}")
        check(kind != "mistral" or made[0]["architectures"] == ["MistralForCausalLM"], f"{kind}: {made[0]['architectures']}")
    config, source, _, _ = make("llama")
    folder("rest", {**config, "rope_scaling": yarn}, source)
    convert("rest", "--no-vocab")
    data = read("out.gguf")
    refused_back("other factor", "its values are not those of", data.replace(b'"factor":8.0', b'"factor":9.0'), "--no-vocab")
    refused_back("no object", "'vcompress.config': expected a JSON object", data.replace(b'{"rope_scaling"', b'x"rope_scaling"'), "--no-vocab")
    refused_back("without", "says how rotary embeddings are scaled", change_pair(data, "vcompress.config", None), "--no-vocab")


def test_back_groups():
    """Without a number of groups of experts all are in one: llama.cpp's converter had no keys for them at first, and classes want a number."""
    config, source, _, _ = make("deepseek_v3")
    folder("groups", config, source)
    convert("groups", "--no-vocab")
    data = change_pair(read("out.gguf"), "deepseek2.expert_group_count", None)
    write("groups.gguf", change_pair(data, "deepseek2.expert_group_used_count", None))
    rc, _, err = run("convert", "groups.gguf", "-o", "groups.back/", "-q", "-f", "--no-vocab")
    made = read_folder("groups.back")[0] if rc == 0 else {}
    check((made.get("n_group"), made.get("topk_group")) == (1, 1), f"groups: exit {rc}: {err.strip()} {made}")


def test_back():
    """What a file may say that no folder says, and the commands that make folders."""
    u32 = struct.Struct("<I").pack
    config, source, _, _ = make("qwen2_moe")
    folder("moe", config, source)
    convert("moe", "--no-vocab")
    data = read("out.gguf")
    for key in ("block_count", "embedding_length", "expert_used_count", "attention.layer_norm_rms_epsilon"):
        refused_back(key, f"'qwen2moe.{key}'", change_pair(data, f"qwen2moe.{key}", None))
    for key, value in (("block_count", 0), ("embedding_length", 2 ** 31), ("attention.head_count", 0)):
        refused_back(key, f"'qwen2moe.{key}'", change_pair(data, f"qwen2moe.{key}", u32(value)))
    refused_back("layers", "blk.1.attn_k.weight", change_pair(data, "qwen2moe.block_count", u32(1)), "--no-vocab")
    refused_back("missing", "'blk.2.attn_norm.weight'", change_pair(data, "qwen2moe.block_count", u32(3)))
    refused_back("experts", "matrices of all experts", change_pair(data, "qwen2moe.expert_count", u32(4)))
    refused_back("experts used", "num_experts_per_tok", change_pair(data, "qwen2moe.expert_used_count", u32(4)))
    refused_back("shape", "by config.json", change_pair(data, "qwen2moe.expert_feed_forward_length", u32(M + 1)))
    refused_back("heads", "of a head are rotated", change_pair(data, "qwen2moe.attention.head_count", u32(3)))
    refused_back("name", "has no such tensor", data.replace(b"blk.1.attn_norm.weight", b"blk.1.attn/norm.weight"))
    refused_back("way up", "has no such tensor", data.replace(b"blk.1.attn_norm.weight", b"../../../norm.weight.."))
    refused_back("family", "of the kind 'qwen9moe'", data.replace(b"qwen2moe", b"qwen9moe"))
    refused_back("rotary", "all elements of a head", change_pair(data, "qwen2moe.rope.dimension_count", u32(2)))
    os.rename("out.gguf", "moe.gguf")
    folder("slopes", *make("apertus")[:2])
    convert("slopes", "--no-vocab")
    nan = u32(6) + struct.pack("<Qf", 2, float("nan"))
    refused_back("slopes", "'xielu.beta': entry 0 is no finite number", change_pair(read("out.gguf"), "xielu.beta", nan), "--no-vocab")
    folder("dense", *make("llama")[:2])
    run("quantize", "--gguf", "Q8_0", "--pure", "dense", "-o", "blocks.gguf", "--no-vocab", "-q")
    run("quantize", "--gguf", "Q5_0", "--pure", "dense", "-o", "bad.gguf", "--no-vocab", "-q", "-f")
    refused_back("blocks", "which dequantize turns into floats", read("bad.gguf"))
    for options in ([], ["--threads", "1", "--max-memory", "16MiB"]):
        rc, _, err = run("dequantize", "blocks.gguf", "-o", "floats/", "-q", "--force", *options)
        check(rc == 0, err)
        run("dequantize", "blocks.gguf", "-o", "floats.gguf", "-q", "--force")
        check({n: t[2] for n, t in convert("floats", "--no-vocab")[0].tensors.items()} ==
              {n: t[2] for n, t in Gguf("floats.gguf").tensors.items()}, f"dequantize {options}: other values than in a GGUF file")
    rc, _, err = run("convert", "moe.gguf", "-o", "parts/", "--format", "safetensors", "--max-shard-size", "8KiB", "-q")
    check(rc == 0 and os.path.exists("parts/model.safetensors.index.json") and read_folder("parts")[1] == source, f"parts: {err}")
    rc, _, err = run("quantize", "--int8", "--include", "*_proj.weight", "moe.gguf", "-o", "codes/", "-q")
    check(rc == 0 and "quantization_config" in json.loads(read("codes/config.json")), f"codes: {err}")
    for scaling in ({"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 128},
                    {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16, "attention_factor": 2.0},
                    {"rope_type": "linear", "factor": 4.0}):
        config, source, _, _ = make("llama")
        folder("scaled", {**config, "rope_scaling": scaling}, source)
        convert("scaled", "--no-vocab")
        found = go_back("scaled.back", "--no-vocab")[0]["rope_scaling"]
        check(set(found) == set(scaling) and all(found[k] == v or abs(found[k] - v) <= 1e-6 for k, v in scaling.items()), f"{scaling}: {found}")
    convert("scaled", "--no-vocab")
    data = change_pair(read("out.gguf"), "llama.rope.scaling.factor", struct.pack("<f", -1))
    refused_back("other factor", "with this value there is no config.json", data)
    refused_back("factor", "expected linear or yarn", change_pair(data, "vcompress.config", None))
    config, source, _, _ = make("qwen3_5_text")
    folder("hybrid", {**config, "full_attention_interval": 4, "layer_types": ["linear_attention", "full_attention"]}, source)
    convert("hybrid", "--no-vocab")
    refused_back("kinds", "expected a number of tokens, and a pattern", change_pair(read("out.gguf"), "qwen35.block_count", u32(3)))
    refused_back("sections", "'qwen35.ssm.inner_size'", change_pair(read("out.gguf"), "qwen35.ssm.inner_size", u32(17)))
    refused_back("heads", "by config.json", change_pair(read("out.gguf"), "qwen35.ssm.time_step_rank", u32(2)))
    phi, tensors, _, _ = make("phi3")
    longer = {"type": "longrope", "short_factor": [1.0, 1.5], "long_factor": [2.0, 3.0]}
    folder("longer", {**phi, "rope_scaling": longer, "original_max_position_embeddings": 16}, tensors)
    convert("longer", "--no-vocab")
    found = go_back("longer.back", "--no-vocab")[0]
    check((found["rope_scaling"], found["original_max_position_embeddings"]) == (longer, 16), f"longrope: {found}")
    config, tensors, _, _ = make("llama")
    longer = {"rope_type": "longrope", "short_factor": [1.0, 1.5, 1.0, 1.0], "long_factor": [2.0, 3.0, 2.0, 2.0], "factor": 4.0,
              "original_max_position_embeddings": 16}
    folder("longer", {**config, "rope_scaling": longer}, tensors)
    convert("longer", "--no-vocab")
    check(go_back("longer.back", "--no-vocab")[0]["rope_scaling"] == longer, "longrope of llama")
    write("out.gguf", change_pair(read("out.gguf"), "vcompress.config", None))  # as files of others are
    rc, _, err = run("convert", "out.gguf", "-o", "longer.back/", "--no-vocab", "-f")
    found = read_folder("longer.back")[0]["rope_scaling"] if rc == 0 else err
    check(rc == 0 and {**found, "factor": 4.0} == {k.replace("rope_type", "type"): v for k, v in longer.items()}, f"longrope of llama: {found}")


def test_back_vocabularies():
    settings = {"bos_token": "<tool>", "pad_token": "<|end|>", "chat_template": "{{ messages }}", "model_max_length": 10 ** 30}
    template = {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<|end|>"}}, {"Sequence": {"id": "A"}}]}
    digits = [{"type": "Digits", "individual_digits": True}, {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}]
    for more in ({}, {"post_processor": template}, {"pre_tokenizer": {"type": "Sequence", "pretokenizers": digits}}):
        vocabulary("bytes", tokenizer__json=bytes_json(["a b", "\u0120 ab"], **more), tokenizer_config__json=settings)
        data = read("out.gguf")
        if go_back("bytes.back"):
            made = json.loads(read("bytes.back/tokenizer.json"))
            check(made["model"]["merges"] == ["a b", "\u0120 ab"] and made["model"]["vocab"]["<|x|>"] == 8, "bytes: back: model")
            check([t["content"] for t in made["added_tokens"]] == ["<|end|>", "<tool>", "<|x|>"], "bytes: back: added tokens")
            wanted = more.get("pre_tokenizer", bytes_json([])["pre_tokenizer"])["pretokenizers"]
            check([{**s, "trim_offsets": 1} for s in made["pre_tokenizer"]["pretokenizers"]] == [{**s, "trim_offsets": 1} for s in wanted],
                  f"bytes: back: {made['pre_tokenizer']}")
            check(json.loads(read("bytes.back/tokenizer_config.json"))["chat_template"] == "{{ messages }}", "bytes: back: chat_template")
            check(json.loads(read("bytes.back/generation_config.json"))["eos_token_id"] == 5, "bytes: back: eos_token_id")
    for pre in ("lfm2", "minimax-m2", "command-r", "kimi-k2"):  # names that other converters write
        vocabulary("bytes", ("--pre", pre), tokenizer__json=bytes_json(["a b"]))
        check(run("convert", "-q", "-f", "out.gguf", "-o", "alias.back/")[0] == 0, f"{pre}: back")
    refused_back("way of cutting", "calls qwen9", data.replace(b"smollm", b"smo\xc3\xa4m").replace(b"smo\xc3\xa4m", b"qwen9 "))
    refused_back("merge", "'tokenizer.ggml.merges'", data.replace(b"\xc4\xa0 ab", b"\xc4\xa0 zb"))
    refused_back("twice", "'tokenizer.ggml.tokens'", data.replace(b"[PAD9]", b"[PAD7]"))
    refused_back("no UTF-8", "'tokenizer.ggml.tokens'", data.replace(b"[PAD9]", b"[PAD\xff]"))
    refused_back("kind", "found gpt9", data.replace(b"gpt2", b"gpt9"))
    vocabulary("pieces", tokenizer__model=pieces(b"\x18\x02", b"\x18\x00"))
    first = read("out.gguf")
    go_back("pieces.back")
    model = read("pieces.back/tokenizer.model")
    check(piece("\u2581a", -1.5, 1)[2:] in model and piece("<0x0A>", 0, 6)[2:] in model, "pieces: back")
    says = {"[CLS]": 2, "play": 4, "##ing": 5, "##": 6}
    vocabulary("lines", vocab__txt=b"[PAD]\n[UNK]\n[CLS]\n[SEP]\nplay\n##ing\n##\n", tokenizer_config__json={"cls_token": "[CLS]", "sep_token": "[SEP]", "strip_accents": False})
    if go_back("lines.back"):
        made, said = json.loads(read("lines.back/tokenizer.json")), json.loads(read("lines.back/tokenizer_config.json"))
        check({w: i for w, i in made["model"]["vocab"].items() if w in says} == says and made["model"]["type"] == "WordPiece", f"words: back: {made['model']}")
        check((made["normalizer"]["lowercase"], made["normalizer"]["strip_accents"], said["cls_token"], said["sep_token"]) == (True, False, "[CLS]", "[SEP]"), "words: back")
        check([list(s) for s in made["post_processor"]["pair"]] == [["SpecialToken"], ["Sequence"], ["SpecialToken"], ["Sequence"], ["SpecialToken"]], "words: back: pair")
    for n in (4, 5, 6):  # base64 of every length
        listed = {"model": {"type": "Unigram", "unk_id": 1, "vocab": [["<pad>", 0.0], ["<unk>", 0.0], ["\u2581a", -2.5]]},
                  "normalizer": {"type": "Precompiled", "precompiled_charsmap": base64.b64encode(bytes(range(249, 249 + n))).decode()},
                  "pre_tokenizer": {"type": "Metaspace", "prepend_scheme": "never"}}
        vocabulary("listed", tokenizer__json=listed)
        if go_back("listed.back"):
            made = json.loads(read("listed.back/tokenizer.json"))
            check((made["normalizer"], made["pre_tokenizer"]["prepend_scheme"], made["model"]["vocab"], made["model"]["unk_id"]) ==
                  (listed["normalizer"], "never", listed["model"]["vocab"], 1), f"listed: back: {made}")
    merged = {"model": {"type": "BPE", "byte_fallback": True, "unk_token": "<unk>", "merges": [["\u2581", "a"], ["\u2581a", "b"]],
                        "vocab": {"<unk>": 0, "<0x41>": 1, "\u2581": 2, "a": 3, "b": 4, "\u2581a": 5, "\u2581ab": 6}},
              "normalizer": {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}}
    vocabulary("pieces4", kind="gemma4_text", tokenizer__json=merged)
    if go_back("pieces4.back"):
        made = json.loads(read("pieces4.back/tokenizer.json"))
        check(made["normalizer"] == merged["normalizer"] and made["model"]["merges"] == ["\u2581 a", "\u2581a b"], f"gemma4: back: {made['model']}")
    refused_back("unknown", "'tokenizer.ggml.scores'", first.replace(b"tokenizer.ggml.scores", b"tokenizer.ggml.scorez"))


def raw(path):
    data = read(path + "/model.safetensors")
    n, = struct.unpack_from("<Q", data)
    return {name: (e["dtype"], e["shape"], data[8 + n + e["data_offsets"][0]:8 + n + e["data_offsets"][1]])
            for name, e in json.loads(data[8:8 + n]).items() if name != "__metadata__"}


def test_back_gpt_oss():
    """Experts are joined and turned, and blocks of MXFP4 become codes and scales again; parts of both, too."""
    gpt_oss()
    # experts of more than 1 MiB, which a writer copies in parts that end inside a block
    header, data, f = {}, b"", 20576
    for name, (kind, shape, blob) in raw("blocks").items():
        shape = [3, 2 * f, *shape[2:]] if "gate_up" in name else [*shape[:2], f // 32, *shape[3:]] if kind == "U8" else shape
        n = count(shape) * (1 if kind == "U8" else 4)
        blob = blob if n == len(blob) else RANDOM.randbytes(n) if kind == "U8" else bytes(n)
        header[name] = {"dtype": kind, "shape": shape, "data_offsets": [len(data), len(data) + n]}
        data += blob
    text = json.dumps(header).encode()
    folder("large", {**json.loads(read("blocks/config.json")), "intermediate_size": f}, None)
    write("large/model.safetensors", struct.pack("<Q", len(text)) + text + data)
    for name in ("oss", "blocks", "large"):
        convert(name, "--no-vocab")
        shutil.rmtree(name + ".back", ignore_errors=True)
        for options in ([], ["--threads", "1", "--max-memory", "16MiB"]):
            rc, _, err = run("convert", "out.gguf", "-o", name + ".back/", "-q", "--no-vocab", "--force", *options)
            check(rc == 0 and raw(name + ".back") == raw(name), f"{name}: back: {err}")
        config = json.loads(read(name + ".back/config.json"))
        check((config["architectures"], "quantization_config" in config) == (["GptOssForCausalLM"], name != "oss"), f"{name}: back: {config}")
        data = read("out.gguf")
        if name == "large":
            break
        convert(name + ".back", "--no-vocab")
        check(read("out.gguf") == data, f"{name}: back: it leads to another GGUF file")
    refused_back("no gate", "expected matrices of all experts", change_pair(data, "gpt-oss.expert_count", struct.pack("<I", 2)), "--no-vocab")
    refused_back("no up", "there is no 'blk.0.ffn_up_exps.weight'", data.replace(b"blk.0.ffn_up_exps.weight", b"blk.0.ffn_xx_exps.weight"))


def test_back_codes():
    """Codes of blocks are those of compressed-tensors, under transformers' names and in its order; the folder leads to the same file."""
    sizes = {"H": 256, "F": 512, "M": 256, "A": 4, "D": 64}
    before = {name: getattr(gguf_folders, name) for name in sizes}
    vars(gguf_folders).update(sizes)
    for kind, *scheme in (("llama", "--int4", "--granularity", "group:32"), ("qwen3_moe", "--int8", "--granularity", "group:32"),
                          ("llama", "--mxfp4"), ("qwen3_moe", "--nvfp4")):
        config, source, _, _ = make(kind)
        config.update({"moe_intermediate_size": 256} if kind == "qwen3_moe" else {})
        folder("f32", config, source)
        for args in (("quantize", "--fp16", "--min-elements", "1", "f32", "-o", "half"), ("quantize", *scheme, "half", "-o", "codes"),
                     ("convert", "codes", "--no-vocab", "-o", "out.gguf")):
            rc, _, err = run(*args, "-f")
            check(rc == 0, f"{kind} {scheme}: {err}")
        there = raw("codes")
        for options in ([], ["--layout", "compressed-tensors", "--threads", "1", "--max-memory", "16MiB"]):
            rc, _, err = run("convert", "out.gguf", "-o", "codes.back/", "-q", "--no-vocab", "-f", *options)
            check(rc == 0, f"{kind} {scheme}: back: {err}")
            again = raw("codes.back")
            check(set(again) == set(there), f"{kind} {scheme}: back: {sorted(set(again) ^ set(there))}")
            for name in (n for n in there if ".weight_" in n and "global" not in n):
                check(again.get(name) == there[name], f"{kind} {scheme}: back: {name}")
        made = json.loads(read("codes.back/config.json"))
        check(made["quantization_config"]["config_groups"] == json.loads(read("codes/config.json"))["quantization_config"]["config_groups"] and
              made["torch_dtype"] == ("float16" if "int" in scheme[0] else "bfloat16"), f"{kind} {scheme}: back: {made}")
        check(run("verify", "--data", "codes.back")[0] == 0, f"{kind} {scheme}: verify finds something")
        first = read("out.gguf")
        convert("codes.back", "--no-vocab")
        check(read("out.gguf") == first, f"{kind} {scheme}: back: it leads to another GGUF file")
        numbers = {"--mxfp4": b"\xff", "--nvfp4": b"\x7f"}.get(scheme[0])
        if numbers:
            at = first.rindex(again[[n for n in again if n.endswith(".down_proj.weight_scale")][-1]][2][:1 if "mx" in scheme[0] else 4])
            refused_back("scale", "a scale is negative or NaN", first[:at] + numbers + first[at + 1:], "--no-vocab")
    numbers = struct.pack("<3f", *Gguf("out.gguf").tensors["blk.1.ffn_up_exps.scale"][2])
    refused_back("number", "is not above 0 and finite", first.replace(numbers, numbers[:8] + bytes(4)), "--no-vocab")
    config, source, _, _ = make("llama")
    source["model.layers.0.mlp.up_proj.weight"][1][:64] = [0.0] * 64  # two blocks whose scale is 0
    folder("f32", config, source)
    for args in (("quantize", "--fp16", "f32", "-o", "half"),
                 ("quantize", "--int4", "--granularity", "group:32", "--exclude", "*.v_proj.weight", "half", "-o", "codes"),
                 ("quantize", "--int8", "--exclude", "*", "--include", "*.v_proj.weight", "codes", "-o", "two"),
                 ("convert", "two", "--no-vocab", "-o", "two.gguf")):
        rc, _, err = run(*args, "-f")
        check(rc == 0, f"two schemes: {err}")
    rc, out, err = run("convert", "two.gguf", "-o", "two.back/", "--no-vocab")
    check(rc == 0 and "becomes int4 and v_proj beside it does not: vLLM joins the two" in out, f"two schemes: {out} {err}")
    check(run("diff", "two", "two.back")[0] == 0, "two schemes: other values")
    for way, dims in ((("Q4_0", "--encoder", "llama"), 4), (("Q8_0",), 8), (("Q4_0", "--pure"), 4)):
        for args in (("quantize", "--gguf", *way, "f32", "-o", "mixed.gguf"), ("dequantize", "mixed.gguf", "-o", "floats/")):
            rc, _, err = run(*args, "--no-vocab", "-q", "-f")
            check(rc == 0, f"{way}: {err}")
        rc, out, err = run("convert", "mixed.gguf", "-o", "codes.back/", "--no-vocab", "-f")
        check(rc == 0 and "lm_head.weight" in out and "layout compressed-tensors: transformers loads it" in out, f"{way}: {out} {err}")
        check("codes of layers stay codes" in out and "excluded" not in out, f"{way}: {out}")
        made = json.loads(read("codes.back/config.json"))["quantization_config"]
        check((made["ignore"], [g["weights"]["num_bits"] for g in made["config_groups"].values()]) == (["lm_head"], [dims]), f"{way}: {made}")
        check(raw("codes.back")["model.embed_tokens.weight"][0] == "F32", f"{way}: the embedding is codes")
        rc, out, _ = run("diff", "codes.back", "floats")
        check(rc == 0 and "all equal" in out, f"{way}: {out}")
        check(run("verify", "--data", "codes.back")[0] == 0, f"{way}: verify finds something")
        scales = [x for x, in struct.iter_unpack("<e", raw("codes.back")["model.layers.0.mlp.up_proj.weight_scale"][2])]
        check(way[-1] != "llama" or (scales[:2] == [0, 0] and min(scales) < 0), f"{way}: no scales of 0 and below")
    rc, _, err = run("quantize", "--gguf", "Q4_K_M", "f32", "-o", "mixed.gguf", "--no-vocab", "-q", "-f")
    refused_back("k-quants", '--pass dequantize --pass "quantize ..."', read("mixed.gguf"), "--no-vocab")
    shutil.rmtree("codes.back")
    rc, _, err = run("run", "--pass", "dequantize", "--pass", "quantize --int4", "mixed.gguf", "-o", "codes.back/", "--no-vocab")
    check(rc == 0 and "quantization_config" in json.loads(read("codes.back/config.json")), f"run: {err}")
    vars(gguf_folders).update(before)


def test_families():
    for kind in FAMILIES:
        config, source, _, _ = make(kind)
        folder(kind, config, source)
        if convert(kind, "--no-vocab"):
            back_family(kind, config, source)


if __name__ == "__main__":
    main(test_families, test_back, test_back_groups, test_back_rest, test_back_vocabularies, test_back_gpt_oss, test_back_codes)
